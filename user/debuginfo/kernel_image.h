/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mappings of the running kernel: the kernel itself and its modules, with addresses and build IDs.
 * They make kernel addresses independent of KASLR: another machine can symbolize an address of the
 * same build.
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_IMAGE_H
#define STACKBEAT_DEBUGINFO_KERNEL_IMAGE_H

#include "debuginfo/elf_symbols.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct error;
struct kallsyms;
struct kernel;

#define MODULES_PATH "/proc/modules"

/* Name of the kernel's mapping in a profile, without modules; a module's is "[NAME]". */
#define KERNEL_MAPPING "[kernel.kallsyms]"

/* Enough for "[", a module's name, and "]". */
#define KERNEL_MAPPING_NAME_SIZE 72u

struct kernel_mapping {
	char name[KERNEL_MAPPING_NAME_SIZE]; /* in a profile */
	char build_id[BUILD_ID_SIZE]; /* hex; "": unknown */
	uint64_t start; /* of the code, _text for the kernel; 0: hidden */
	uint64_t limit; /* UINT64_MAX for the kernel */
	bool has_build_id; /* private: build_id was looked up */
};

/*
 * Reads the mappings of the running kernel; `root` is prepended to /proc and /sys ("" except in
 * tests). Hidden and missing ones are omitted. Returns NULL when out of memory. kernel_free() takes
 * NULL, too.
 */
struct kernel *kernel_new(const char *root);

/* As kernel_new(); `text` is the start of the kernel's code, if it is known, or 0: it is read. */
struct kernel *kernel_new_at(const char *root, uint64_t text);
void kernel_free(struct kernel *kernel);

/*
 * Adds the modules whose addresses the list of modules hides, at their addresses in the symbols of
 * the same kernel, which this process may know from elsewhere. NULL: there are none. Returns 0 or
 * -ENOMEM.
 */
int kernel_place_modules(struct kernel *kernel, const struct kallsyms *kallsyms);

/* Returns the mapping that holds an address: of a module, or else of the kernel itself. */
const struct kernel_mapping *kernel_mapping_at(struct kernel *kernel, uint64_t address);

/* Returns the mapping with a name in a profile, or NULL. */
const struct kernel_mapping *kernel_mapping_by_name(struct kernel *kernel, const char *name);

/*
 * As kernel_new(), for another machine or another time: from a copy of /proc/kallsyms, which has
 * neither the start addresses of modules nor build IDs.
 */
struct kernel *kernel_from_kallsyms(const char *path);

/* Writes the path of a copy of `name`, a file of /proc or /sys. Returns false if there is none. */
typedef bool (*kernel_path_fn)(const void *path_arg, const char *name, char path[PATH_MAX]);

/*
 * As kernel_new(), for another machine or another time: from copies of the files in /proc and /sys.
 * `path` is called until kernel_free().
 */
struct kernel *kernel_from_files(kernel_path_fn path, const void *path_arg);

/* Returns whether the list of modules is known. */
bool kernel_has_module_list(const struct kernel *kernel);

/*
 * Opens the file number `candidate` (from 0) of those that may be the vmlinux of a release with
 * debug information, at the paths of distributions below `root`. Returns an fd, or -ENOENT if there
 * are no more. The caller checks the build ID.
 */
int kernel_open_vmlinux(const char *root, const char *release, unsigned int candidate);

/*
 * As kernel_open_vmlinux(), for a module by its name in brackets: its debug file, then the module,
 * which must not be compressed to be of use. Returns -ENOMEM, too.
 */
int kernel_open_module(const char *root, const char *release, const char *name,
		       unsigned int candidate);

/*
 * As the two above, for a mapping by its name in a profile: of the kernel, or of a module. Returns
 * -ENOENT if the release is "", which is unknown.
 */
int kernel_open_debug_file(const char *root, const char *release, const char *name,
			   unsigned int candidate);

/* Returns whether a profile's mapping with this name and address belongs to the kernel. */
bool is_kernel_mapping(const char *name, uint64_t address);

#endif
