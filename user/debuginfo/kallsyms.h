/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of the running kernel and its modules, from /proc/kallsyms. */
#ifndef STACKBEAT_DEBUGINFO_KALLSYMS_H
#define STACKBEAT_DEBUGINFO_KALLSYMS_H

#include "debuginfo/elf_symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct error;
struct kallsyms;

#define KALLSYMS_PATH "/proc/kallsyms"
#define KERNEL_NOTES_PATH "/sys/kernel/notes"

/*
 * The longest that a function is taken to be: up to the next function of the
 * same module, and, where something else or nothing is known to follow, at the
 * end of what /proc/kallsyms lists. What lies behind belongs to code that has
 * no symbol (a module loaded later, generated code).
 */
#define KALLSYMS_FUNCTION_MAX (1u << 20) /* bytes */
#define KALLSYMS_LAST_FUNCTION_MAX (16u << 10) /* bytes */

/*
 * Reads the functions (types t, T, w, W) and gives a table to be freed with
 * kallsyms_free() (which takes NULL too). Returns 0 or a negative errno value:
 *	-EPERM	the kernel hides addresses from this process
 *	-ENODATA there is no function in it
 *	-ENOMEM, or what reading failed with
 * kallsyms_parse() reads an open stream, `name` stands for it in errors.
 */
int kallsyms_read(const char *path, struct kallsyms **kallsyms, struct error *error);
int kallsyms_parse(FILE *stream, const char *name, struct kallsyms **kallsyms, struct error *error);
void kallsyms_free(struct kallsyms *kallsyms);

/*
 * The function that holds a kernel address. `module` becomes NULL for the
 * kernel itself. The strings are owned by the table. False, with nothing set,
 * where there is none. Of aliases, global ones (T) win, those that are not
 * compiler padding (__pfx_, __cfi_), then weak over local ones.
 */
bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **name,
		     uint64_t *start, const char **module);

/*
 * Where the code of the kernel begins (_text), as the file at `path` says, of which no more
 * is read than that needs. False where it does not say.
 */
bool kallsyms_text(const char *path, uint64_t *address);

/*
 * Reads the build id from a file of ELF notes (KERNEL_NOTES_PATH, or those
 * below /sys/module/NAME/notes) as hex. Returns 0 or a negative errno value,
 * -ENODATA if the file has no build id. `hex` is "" then.
 */
int kernel_build_id(const char *path, char hex[BUILD_ID_SIZE], struct error *error);

#endif
