/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the running kernel: the kernel itself and its modules, where they lie,
 * and which builds they are. With that, an address can be named in another place, where
 * the same builds lie elsewhere.
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_IMAGE_H
#define STACKBEAT_DEBUGINFO_KERNEL_IMAGE_H

#include "debuginfo/elf_symbols.h"

#include <stdbool.h>
#include <stdint.h>

struct error;
struct kernel;

#define MODULES_PATH "/proc/modules"

/* What a profile calls the kernel without its modules; a module is "[NAME]". */
#define KERNEL_MAPPING "[kernel.kallsyms]"

/* Enough for "[", a module's name, and "]". */
#define KERNEL_MAPPING_NAME_SIZE 72u

struct kernel_mapping {
	char name[KERNEL_MAPPING_NAME_SIZE]; /* as a profile calls it */
	char build_id[BUILD_ID_SIZE]; /* hex; "" if it is not known */
	uint64_t start; /* of its code: _text for the kernel; 0: the kernel hides it */
	uint64_t limit; /* UINT64_MAX for the kernel */
	bool has_build_id; /* private: it was looked for */
};

/*
 * The parts of this kernel; `root` is put before /proc and /sys ("" but for tests). What
 * the kernel hides or does not have is left out. Returns NULL when out of memory.
 * kernel_free() takes NULL too.
 */
struct kernel *kernel_new(const char *root);
void kernel_free(struct kernel *kernel);

/* The part that an address belongs to: the kernel itself where no module is there. */
const struct kernel_mapping *kernel_mapping_at(struct kernel *kernel, uint64_t address);

/* The part that a profile calls `name`, or NULL. */
const struct kernel_mapping *kernel_mapping_by_name(struct kernel *kernel, const char *name);

/*
 * As kernel_new(), of another machine or another time: from a copy of /proc/kallsyms, which
 * does not tell where modules begin, nor builds.
 */
struct kernel *kernel_from_kallsyms(const char *path);

/* Whether it is known which modules there are. */
bool kernel_knows_modules(const struct kernel *kernel);

/*
 * Opens the kernel of a release with its debug information, where distributions install it
 * below `root`. Returns an fd or a negative errno value. Which build it is, is not checked.
 */
int kernel_open_vmlinux(const char *root, const char *release);

/*
 * Opens a module of a release, by its name in brackets: its debug file, or else itself, as far
 * as it is not compressed. Returns an fd or a negative errno value, as above.
 */
int kernel_open_module(const char *root, const char *release, const char *name);

/* Whether a mapping of a profile that holds `address` is the kernel's. */
bool kernel_has_mapping(const char *name, uint64_t address);

#endif
