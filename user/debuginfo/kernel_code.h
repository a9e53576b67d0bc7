/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine code of functions of the running kernel and of its modules, by /proc/kcore: as the
 * CPUs run it, with what the kernel has patched since its start (alternatives, static keys,
 * ftrace).
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_CODE_H
#define STACKBEAT_DEBUGINFO_KERNEL_CODE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct kallsyms;
struct kernel;

#define KCORE_PATH "/proc/kcore"

/* The running kernel. All zero: not open. */
struct running_kernel {
	const char *root; /* prepended to /proc and /sys ("" except in tests) */
	struct kernel *kernel;
	struct kallsyms *kallsyms;
};

/* Functions of one mapping of the kernel in a profile. */
struct kernel_code {
	const char *name; /* of the mapping: KERNEL_MAPPING, or "[MODULE]" */
	const char *build_id; /* hex; "": unknown */
	uint64_t start; /* of the mapping */
	const uint64_t *addresses; /* in functions, as the CPU had them */
	size_t count;
};

/*
 * Reads mappings and symbols of the kernel; to be closed, also after an error. Returns 0, -ENOMEM,
 * or the error of kallsyms_read(), with `error` set.
 */
int running_kernel_open(struct running_kernel *running, const char *root, struct error *error);
void running_kernel_close(struct running_kernel *running);

/*
 * Makes an ELF file in memory that has the functions that hold the addresses, each in a segment, at
 * the addresses of the running kernel, and the symbols of all functions of the kernel, which calls
 * in this code refer to. Returns an fd, which the caller closes, or a negative errno value with
 * `error` set:
 *	-ESTALE	the mapping has another build ID or start now, or is not there
 *	-ENOENT	no function of this mapping holds any of the addresses: not of the kernel itself, or
 *		not of the module. Generated code, as BPF programs, may be other code by now.
 *	-EPERM, -EACCES	the caller must not read KCORE_PATH
 *	-E2BIG	more than 4,096 functions hold the addresses
 *	-ENOMEM, or another error of opening or reading KCORE_PATH
 */
int kernel_code_open(const struct running_kernel *running, const struct kernel_code *code,
		     struct error *error);

#endif
