/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols of the running kernel, kept for several profiles one after the other: to read them takes
 * longer than all else of a small profile. They are read again when a module has come or gone.
 *
 * Code that the kernel generates (BPF programs, kprobes, ftrace) comes and goes without a trace in
 * /proc/modules, and another program can be at the same address: kernel_symbols_have() returns
 * false.
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_SYMBOLS_H
#define STACKBEAT_DEBUGINFO_KERNEL_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct file_cache;
struct kallsyms;

/*
 * Symbols that are kept on disk, for later recordings: until the next boot, and until a module has
 * come or gone. The symbols are the kernel's; the file that is kept is only as good as its
 * directory, and is checked for damage.
 *
 * kernel_symbols_find() returns kept symbols, which the caller frees; NULL: there are none.
 * kernel_symbols_read() reads the symbols, as kallsyms_read(), and keeps them. NULL as a cache
 * keeps none. `root` is as below.
 */
struct kallsyms *kernel_symbols_find(struct file_cache *cache, const char *root);
int kernel_symbols_read(struct file_cache *cache, const char *root, struct kallsyms **table,
			struct error *error);

/* All zero: none are kept. */
struct kernel_symbols {
	struct kallsyms *table; /* NULL: none */
	uint64_t text; /* where the kernel's code starts; 0: unknown */
	/* Private: hash of the modules of the last attempt to read it, and calls since then. */
	uint64_t modules;
	unsigned int calls;
};

/*
 * Reads the symbols, unless they are kept and valid. `root` is prepended to /proc and /sys (""
 * except in tests). Where they can't be read, the table is NULL, and they are tried again when the
 * modules have changed, or at every 60th call.
 */
void kernel_symbols_refresh(struct kernel_symbols *symbols, const char *root);
void kernel_symbols_clear(struct kernel_symbols *symbols);

/* Returns whether kallsyms_lookup() finds a function at the address that is as permanent as its
 * module. */
bool kernel_symbols_have(const struct kallsyms *table, uint64_t address);

#endif
