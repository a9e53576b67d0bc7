/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of the running kernel and its modules, from /proc/kallsyms. */
#ifndef STACKBEAT_DEBUGINFO_KALLSYMS_H
#define STACKBEAT_DEBUGINFO_KALLSYMS_H

#include "debuginfo/elf_symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>

struct error;
struct kallsyms;

#define KALLSYMS_PATH "/proc/kallsyms"
#define KERNEL_NOTES_PATH "/sys/kernel/notes"

/*
 * Limits of a function's size. The first applies if the next symbol is a function of the same
 * module; the second if another symbol or none follows. Addresses beyond belong to code without a
 * symbol (a module loaded later, generated code).
 */
#define KALLSYMS_FUNCTION_MAX (1u << 20) /* bytes */
#define KALLSYMS_LAST_FUNCTION_MAX (16u << 10) /* bytes */

/*
 * Reads the functions (types t, T, w, W) into a table, to be freed with kallsyms_free() (which
 * takes NULL, too). Returns 0 or a negative errno value with `error` set:
 *	-EPERM	the kernel hides addresses from this process
 *	-ENODATA the file has no functions
 *	-ENOMEM, or the error of a failed read
 * Where KALLSYMS_PATH is empty, standard input may be that file (systemd/stackbeat.service), which
 * is read with the rights of the process that has opened it.
 * kallsyms_parse() reads an open stream; `name` is its name in messages.
 */
int kallsyms_read(const char *path, struct kallsyms **kallsyms, struct error *error);
int kallsyms_parse(FILE *stream, const char *name, struct kallsyms **kallsyms, struct error *error);
void kallsyms_free(struct kallsyms *kallsyms);

/*
 * To be called before this process forks others that read kernel symbols: they read standard input
 * in turn. Processes that are forked before can't disturb them. Returns 0 or -ENOMEM.
 */
int kallsyms_share_input(void);

/*
 * Finds the function that holds a kernel address. *module is NULL for the kernel itself. The table
 * owns the strings. Returns false, with nothing set, if there is none. Among aliases, compiler
 * padding (__pfx_, __cfi_) comes last, and before it the names of any module's first and last
 * function (init_module, cleanup_module); global ones (T) win over weak ones, and these over local
 * ones.
 */
bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **name,
		     uint64_t *start, const char **module);

struct kallsyms_function {
	const char *name; /* owned by the table, as `module` */
	const char *module; /* NULL: the kernel itself */
	uint64_t start, size; /* size: up to the next symbol, or a limit above */
};

/* Calls `fn` for each function in the order of addresses. Returns 0, or what `fn` has returned. */
typedef int kallsyms_function_fn(void *arg, const struct kallsyms_function *function);
int kallsyms_each_function(const struct kallsyms *kallsyms, kallsyms_function_fn *fn, void *arg);

/*
 * Calls `fn` with each module and the page of its first function, where its code begins: in the
 * order of addresses, and again for a further range of a module. Returns 0, or what `fn` returned.
 */
typedef int kallsyms_module_fn(void *arg, const char *module, uint64_t start);
int kallsyms_each_module(const struct kallsyms *kallsyms, kallsyms_module_fn *fn, void *arg);

/* What a table is made of; the parts of its bytes follow each other in this order. */
struct kallsyms_packed {
	uint64_t count; /* of entries */
	uint64_t names_size, modules_size; /* bytes, with padding to multiples of 8 */
	uint64_t module_count;
};

#define KALLSYMS_PARTS 3u

/*
 * Describes a table, so that kallsyms_unpack() makes it from the bytes of `parts`, which are valid
 * as long as it and *modules, which the caller frees. Returns 0 or -ENOMEM.
 */
int kallsyms_pack(const struct kallsyms *kallsyms, struct kallsyms_packed *packed,
		  struct iovec parts[KALLSYMS_PARTS], char **modules);

/*
 * Returns a table that owns `bytes`, which are from malloc(): of a command with the same build ID.
 * The rest of them is not used. Returns NULL, with `bytes` still the caller's, if they are damaged
 * or when out of memory.
 */
struct kallsyms *kallsyms_unpack(const struct kallsyms_packed *packed, void *bytes, size_t size);

/* Returns whether the function that holds an address ends at another one of its module. */
bool kallsyms_is_bounded(const struct kallsyms *kallsyms, uint64_t address);

/*
 * Gets the start of the kernel's code (_text) from the file at `path`, which is read up to that
 * symbol only. False if the symbol is missing or hidden.
 */
bool kallsyms_text(const char *path, uint64_t *address);

/*
 * Reads the build ID from a file of ELF notes (KERNEL_NOTES_PATH, or one below
 * /sys/module/NAME/notes) as hex. Returns 0, or a negative errno value with `hex` "": -ENODATA if
 * the file has no build ID.
 */
int kernel_build_id(const char *path, char hex[BUILD_ID_SIZE], struct error *error);

#endif
