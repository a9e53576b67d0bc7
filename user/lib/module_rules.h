/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a kernel lets modules in, and which: what it and its firmware say. */
#ifndef STACKBEAT_LIB_MODULE_RULES_H
#define STACKBEAT_LIB_MODULE_RULES_H

#include <stdbool.h>

enum lockdown {
	LOCKDOWN_NONE, /* also where the kernel has no lockdown */
	LOCKDOWN_INTEGRITY, /* no module without a trusted signature */
	LOCKDOWN_CONFIDENTIALITY, /* nor samples of the kernel */
};

struct module_rules {
	bool is_unsupported; /* the kernel was built without modules (CONFIG_MODULES) */
	enum lockdown lockdown;
	bool has_secure_boot; /* of UEFI, and on */
	bool needs_signature; /* by module.sig_enforce or lockdown */
	bool is_closed; /* kernel.modules_disabled: no module at all, until a reboot */
};

/*
 * Reads the rules of the machine whose /proc and /sys are below the directory `root` ("": this
 * machine). What can't be read is taken for absent, but for /proc/modules: a /proc without settings
 * (subset=pid) says nothing of the kernel.
 */
void module_rules_read(struct module_rules *rules, const char *root);

/* What makes the kernel trust the signature of a module, as advice in a message. */
#define MODULE_RULES_ENROLL                                                                        \
	"'mokutil --import CERT.der', a reboot, and 'Enroll MOK' in the firmware's menu "          \
	"(DKMS signs with /var/lib/dkms/mok.pub)"

#endif
