// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_symbols.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "lib/hash.h"

#define CALLS_UNTIL_RETRY 60u
#define PAGE 4096u

/* Two hashes, with different beginnings: 64 bits. */
static uint64_t hash_more(uint64_t hash, uint64_t number)
{
	return (uint64_t)hash_bytes((uint32_t)(hash >> 32), &number, sizeof(number)) << 32 |
	       hash_bytes((uint32_t)hash, &number, sizeof(number));
}

/*
 * A module's name, its size, where it is, and the inode of its directory, which is another one when
 * the module is loaded again. The number of its users is left out.
 */
static uint64_t hash_module(uint64_t hash, const char *root, char *line)
{
	char path[PATH_MAX], *rest, *address;
	const char *name = strtok_r(line, " ", &rest), *size = strtok_r(NULL, " ", &rest);
	struct stat st = {0};

	address = size ? strstr(rest, " 0x") : NULL;
	if (!address)
		return hash;
	snprintf(path, sizeof(path), "%s/sys/module/%s", root, name);
	hash = hash_more(hash, hash_string(HASH_START, name));
	hash = hash_more(hash, strtoull(size, NULL, 10));
	hash = hash_more(hash, strtoull(address, NULL, 16));
	return stat(path, &st) ? hash : hash_more(hash, st.st_ino);
}

/* Returns a hash of the loaded modules; 0: they are unknown. */
static uint64_t hash_modules(const char *root)
{
	uint64_t hash = UINT64_C(1) << 32;
	char path[PATH_MAX], *line = NULL;
	size_t capacity = 0;
	FILE *stream;
	bool failed;

	snprintf(path, sizeof(path), "%s" MODULES_PATH, root);
	stream = fopen(path, "re");
	if (!stream)
		return 0;
	while (getline(&line, &capacity, stream) > 0)
		hash = hash_module(hash, root, line);
	failed = ferror(stream) || !feof(stream);
	free(line);
	fclose(stream);
	return failed ? 0 : hash;
}

void kernel_symbols_refresh(struct kernel_symbols *symbols, const char *root)
{
	/* Before the symbols: a module that comes meanwhile has them read again. */
	uint64_t modules = hash_modules(root);
	char path[PATH_MAX];
	struct error ignored;

	if (modules && modules == symbols->modules &&
	    (symbols->table || ++symbols->calls < CALLS_UNTIL_RETRY))
		return;
	kernel_symbols_clear(symbols);
	snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, root);
	if (!modules || kallsyms_read(path, &symbols->table, &ignored))
		symbols->table = NULL;
	symbols->modules = modules;
}

void kernel_symbols_clear(struct kernel_symbols *symbols)
{
	kallsyms_free(symbols->table);
	*symbols = (struct kernel_symbols){0};
}

bool kernel_symbols_have(const struct kallsyms *table, uint64_t address)
{
	const char *name, *module;
	uint64_t start;

	if (!kallsyms_lookup(table, address, &name, &start, &module))
		return false;
	/* Generated code can come right after the pages of a module. */
	if (address / PAGE != start / PAGE && !kallsyms_is_bounded(table, address))
		return false;
	/* As modules, the kernel lists [bpf], [__builtin__ftrace] and [__builtin__kprobes]. */
	return !module || (strcmp(module, "bpf") && strncmp(module, "__builtin__", 11));
}
