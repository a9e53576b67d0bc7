// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_symbols.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "debuginfo/file_cache.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "lib/hash.h"

#define CALLS_UNTIL_RETRY 60u
#define PAGE 4096u

/*
 * Writes a module's name, its size, where it is, and the inode of its directory, which is another
 * one when the module is loaded again. The number of its users is left out.
 */
static void write_module(FILE *list, const char *root, char *line)
{
	char path[PATH_MAX], *rest, *address;
	const char *name = strtok_r(line, " ", &rest), *size = strtok_r(NULL, " ", &rest);
	struct stat st = {0};

	address = size ? strstr(rest, " 0x") : NULL;
	if (!address)
		return;
	snprintf(path, sizeof(path), "%s/sys/module/%s", root, name);
	if (stat(path, &st))
		st.st_ino = 0;
	fprintf(list, "%s %s %llx %llx\n", name, size, strtoull(address, NULL, 16),
		(unsigned long long)st.st_ino);
}

static bool kernel_symbols_has_file(const char *root, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", root, name);
	return !access(path, F_OK) || errno != ENOENT;
}

/* Whether the kernel was built without modules: of the files that it has then, none is there. */
static bool kernel_symbols_without_modules(const char *root)
{
	return kernel_symbols_has_file(root, "/proc/sys/kernel/ostype") &&
	       !kernel_symbols_has_file(root, MODULES_PATH) &&
	       !kernel_symbols_has_file(root, "/proc/sys/kernel/modules_disabled");
}

/* Stands for the list of a kernel without modules: as in the list, its address is 0 if it is
 * hidden. */
static char *list_kernel_alone(const char *root)
{
	unsigned long long address = 0;
	char path[PATH_MAX], *line = NULL, *text;
	size_t capacity = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, root);
	stream = fopen(path, "re");
	/* Per-CPU variables come first, and have small numbers. */
	while (stream && !(address >> 63) && getline(&line, &capacity, stream) > 0)
		address = strtoull(line, NULL, 16);
	if (stream)
		fclose(stream);
	free(line);
	return asprintf(&text, "kernel - %llx -\n", address >> 63 ? address : 0) < 0 ? NULL : text;
}

/* Returns the list of the loaded modules, to be freed; NULL: they are unknown. */
static char *list_modules(const char *root)
{
	char path[PATH_MAX], *line = NULL, *text = NULL;
	size_t capacity = 0, size;
	FILE *stream, *list;
	bool failed;

	snprintf(path, sizeof(path), "%s" MODULES_PATH, root);
	stream = fopen(path, "re");
	if (!stream)
		return kernel_symbols_without_modules(root) ? list_kernel_alone(root) : NULL;
	list = open_memstream(&text, &size);
	while (list && getline(&line, &capacity, stream) > 0)
		write_module(list, root, line);
	failed = ferror(stream) || !feof(stream);
	free(line);
	fclose(stream);
	failed |= !list || fclose(list);
	if (!failed)
		return text;
	free(text);
	return NULL;
}

/* Returns a hash of the loaded modules; 0: they are unknown. */
static uint64_t hash_modules(const char *root)
{
	char *list = list_modules(root);
	uint64_t hash;

	if (!list)
		return 0;
	/* Two hashes, with different beginnings: 64 bits. */
	hash = (uint64_t)hash_string(HASH_START + 1, list) << 32 | hash_string(HASH_START, list);
	free(list);
	return hash ?: 1;
}

/* Symbols on disk */

/* The beginning of what is kept; the bytes of the table follow, then the list of modules. */
struct kept_kernel_symbols {
	struct kallsyms_packed packed;
	uint64_t list_size; /* with padding */
};

static bool set_key(const char *root, struct file_key *boot)
{
	memset(boot, 0, sizeof(*boot));
	file_key_read_boot(root, boot->boot);
	return *boot->boot;
}

/* Pads a list of modules. Returns the new one, or NULL with the old one freed. */
static char *pad_list(char *list, uint64_t *size)
{
	const size_t length = strlen(list);
	char *padded;

	*size = roundup(length + 1, sizeof(uint64_t));
	padded = realloc(list, *size);
	if (padded)
		memset(padded + length, 0, *size - length);
	else
		free(list);
	return padded;
}

/* Addresses that are hidden from this process are 0: it can't know whether modules have moved. */
static bool has_addresses(const char *list)
{
	return *list && !strstr(list, " 0 ");
}

/* Returns the padded list of the loaded modules, of which the symbols can be kept; or NULL. */
static char *list_for_key(const char *root, struct file_key *boot, uint64_t *size)
{
	char *list = set_key(root, boot) ? list_modules(root) : NULL;

	if (!list || has_addresses(list))
		return list ? pad_list(list, size) : NULL;
	free(list);
	return NULL;
}

struct kallsyms *kernel_symbols_find(struct file_cache *cache, const char *root)
{
	struct file_key boot;
	const struct cache_key key = {CACHE_KERNEL_SYMBOLS, &boot, 1};
	struct kallsyms *table = NULL;
	struct kept_kernel_symbols head;
	void *bytes = NULL;
	size_t size;
	uint64_t list_size;
	char *list = cache ? list_for_key(root, &boot, &list_size) : NULL;

	if (list && !file_cache_read(cache, &key, &head, sizeof(head), &bytes, &size) &&
	    head.list_size == list_size && size >= list_size &&
	    !memcmp((char *)bytes + size - list_size, list, list_size))
		table = kallsyms_unpack(&head.packed, bytes, size - list_size);
	if (!table)
		free(bytes);
	free(list);
	return table;
}

static void kernel_symbols_keep(struct file_cache *cache, const struct file_key *boot,
				const char *list, uint64_t list_size, const struct kallsyms *table)
{
	const struct cache_key key = {CACHE_KERNEL_SYMBOLS, boot, 1};
	struct kept_kernel_symbols head = {.list_size = list_size};
	struct iovec parts[KALLSYMS_PARTS + 2] = {{&head, sizeof(head)}};
	char *modules;

	if (kallsyms_pack(table, &head.packed, parts + 1, &modules))
		return;
	parts[KALLSYMS_PARTS + 1] = (struct iovec){(void *)list, list_size};
	/* Without it, they are read again. */
	(void)file_cache_store(cache, &key, parts, KALLSYMS_PARTS + 2);
	free(modules);
}

int kernel_symbols_read(struct file_cache *cache, const char *root, struct kallsyms **table,
			struct error *error)
{
	struct file_key boot;
	uint64_t size, size_after;
	char path[PATH_MAX], *list = cache ? list_for_key(root, &boot, &size) : NULL, *after = NULL;
	int err;

	snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, root);
	err = kallsyms_read(path, table, error);
	if (!err && list)
		after = list_for_key(root, &boot, &size_after);
	/* A module that has come or gone meanwhile may be in the table, or not. */
	if (after && !strcmp(list, after))
		kernel_symbols_keep(cache, &boot, list, size, *table);
	free(list);
	free(after);
	return err;
}

/* Symbols in memory */

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
	/* Each profile would read the symbols up to this one. */
	if (symbols->table && !kallsyms_text(path, &symbols->text))
		symbols->text = 0;
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
