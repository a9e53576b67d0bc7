// SPDX-License-Identifier: GPL-2.0
#include "lib/module_rules.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "lib/small_file.h"

/* The variable of UEFI 2.10, section 3.3: 4 bytes of attributes, as Linux shows them, and 1 byte.
 */
#define SECURE_BOOT "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
#define VARIABLE_BYTES 5

void module_rules_read(struct module_rules *rules, const char *root)
{
	char text[128];

	*rules = (struct module_rules){0};
	rules->is_unsupported =
		small_file_read(root, "/proc/modules", text, sizeof(text)) == -ENOENT &&
		small_file_read(root, "/proc/sys/kernel/osrelease", text, sizeof(text)) > 0;
	/* The mode is in brackets (kernel_lockdown(7)). */
	small_file_read(root, "/sys/kernel/security/lockdown", text, sizeof(text));
	if (strstr(text, "[integrity]"))
		rules->lockdown = LOCKDOWN_INTEGRITY;
	else if (strstr(text, "[confidentiality]"))
		rules->lockdown = LOCKDOWN_CONFIDENTIALITY;
	rules->has_secure_boot =
		small_file_read(root, SECURE_BOOT, text, sizeof(text)) == VARIABLE_BYTES &&
		text[VARIABLE_BYTES - 1] == 1;
	small_file_read(root, "/sys/module/module/parameters/sig_enforce", text, sizeof(text));
	rules->needs_signature = *text == 'Y' || rules->lockdown != LOCKDOWN_NONE;
	small_file_read(root, "/proc/sys/kernel/modules_disabled", text, sizeof(text));
	rules->is_closed = *text == '1';
}
