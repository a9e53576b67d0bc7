// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_image.h"

#include <errno.h>
#include <libkmod.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debuginfo/debug_paths.h"
#include "debuginfo/kallsyms.h"
#include "lib/array.h"
#include "lib/hash.h"
#include "lib/regular_file.h"

struct kernel {
	char *root; /* NULL: another kernel */
	kernel_path_fn path; /* of its files; NULL: it has none */
	const void *path_arg;
	struct kernel_mapping *mappings; /* the kernel, then modules by address */
	size_t count, capacity;
	struct hash names; /* of the mappings */
	struct kernel_mapping *hidden; /* modules without an address: start 0, and their size */
	size_t hidden_count, hidden_capacity;
};

/*
 * Parses a line of /proc/modules: NAME SIZE REFERENCES DEPENDENTS STATE ADDRESS. The address is 0
 * if the kernel hides addresses from this process.
 */
static bool parse_module(char *line, struct kernel_mapping *mapping)
{
	char *fields[6], *rest = line;
	uint64_t start, size;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		fields[i] = strsep(&rest, " \n");
	if (!fields[5])
		return false;
	size = strtoull(fields[1], NULL, 10);
	start = strtoull(fields[5], NULL, 16);
	if (start + size < start)
		return false;
	*mapping = (struct kernel_mapping){.start = start, .limit = start + size};
	return snprintf(mapping->name, sizeof(mapping->name), "[%s]", fields[0]) <
	       (int)sizeof(mapping->name);
}

static int kernel_add_mapping(struct kernel *kernel, const struct kernel_mapping *mapping)
{
	if (array_reserve(&kernel->mappings, &kernel->capacity, kernel->count, 1,
			  sizeof(*mapping)) != 0)
		return -ENOMEM;
	kernel->mappings[kernel->count++] = *mapping;
	return 0;
}

static int add_hidden(struct kernel *kernel, const struct kernel_mapping *mapping)
{
	if (array_reserve(&kernel->hidden, &kernel->hidden_capacity, kernel->hidden_count, 1,
			  sizeof(*mapping)) != 0)
		return -ENOMEM;
	kernel->hidden[kernel->hidden_count++] = *mapping;
	return 0;
}

static int kernel_compare_mappings(const void *a, const void *b)
{
	const struct kernel_mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static void sort_modules(struct kernel *kernel)
{
	if (kernel->count > 1)
		qsort(kernel->mappings + 1, kernel->count - 1, sizeof(*kernel->mappings),
		      kernel_compare_mappings);
}

static int read_modules(struct kernel *kernel, const char *path)
{
	FILE *stream = fopen(path, "re");
	struct kernel_mapping mapping;
	size_t capacity = 0;
	char *line = NULL;
	int err = 0;

	if (!stream)
		return 0;
	while (!err && getline(&line, &capacity, stream) > 0) {
		if (parse_module(line, &mapping))
			err = mapping.start ? kernel_add_mapping(kernel, &mapping)
					    : add_hidden(kernel, &mapping);
	}
	free(line);
	fclose(stream);
	sort_modules(kernel);
	return err;
}

static bool kernel_mapping_has_name(const void *mappings, uint32_t index, const void *name)
{
	return !strcmp(((const struct kernel_mapping *)mappings)[index].name, name);
}

static uint32_t find_name(const struct kernel *kernel, const char *name)
{
	return hash_find(&kernel->names, hash_string(HASH_START, name), kernel_mapping_has_name,
			 kernel->mappings, name);
}

/* Indexes the mappings; the first of a name is found. */
static int index_names(struct kernel *kernel)
{
	int err = 0;

	hash_clear(&kernel->names);
	for (size_t i = 0; i < kernel->count && !err; i++) {
		const char *name = kernel->mappings[i].name;

		if (find_name(kernel, name) == HASH_NONE)
			err = hash_add(&kernel->names, hash_string(HASH_START, name), (uint32_t)i);
	}
	return err;
}

/* The hidden modules, by their names. */
struct hidden_modules {
	struct kernel *kernel;
	struct hash names;
};

/* The kernel may list a module twice: its initialization has a range of its own. */
static int place_module(void *arg, const char *name, uint64_t start)
{
	const struct hidden_modules *modules = arg;
	struct kernel *kernel = modules->kernel;
	char key[KERNEL_MAPPING_NAME_SIZE];
	struct kernel_mapping *hidden, mapping;
	uint32_t found;

	if (snprintf(key, sizeof(key), "[%s]", name) >= (int)sizeof(key))
		return 0;
	found = hash_find(&modules->names, hash_string(HASH_START, key), kernel_mapping_has_name,
			  kernel->hidden, key);
	hidden = found == HASH_NONE ? NULL : &kernel->hidden[found];
	if (!hidden || hidden->start || start + hidden->limit < start)
		return 0;
	hidden->start = start;
	mapping = *hidden;
	mapping.limit += start;
	return kernel_add_mapping(kernel, &mapping);
}

int kernel_place_modules(struct kernel *kernel, const struct kallsyms *kallsyms)
{
	struct hidden_modules modules = {.kernel = kernel};
	int err = 0;

	if (!kallsyms || !kernel->hidden_count)
		return 0;
	for (size_t i = 0; i < kernel->hidden_count && !err; i++)
		err = hash_add(&modules.names, hash_string(HASH_START, kernel->hidden[i].name),
			       (uint32_t)i);
	if (!err)
		err = kallsyms_each_module(kallsyms, place_module, &modules);
	hash_clear(&modules.names);
	sort_modules(kernel);
	return err ? err : index_names(kernel);
}

static bool path_in_root(const void *root, const char *name, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s%s", (const char *)root, name) < PATH_MAX;
}

/*
 * Takes ownership of `kernel`, which may be NULL. `text` is the start of the kernel's code; 0: it
 * is in `kallsyms`. `kallsyms` and `modules`: NULL: none.
 */
static struct kernel *kernel_read_lists(struct kernel *kernel, uint64_t text, const char *kallsyms,
					const char *modules)
{
	struct kernel_mapping self = {.name = KERNEL_MAPPING, .start = text, .limit = UINT64_MAX};

	if (!kernel)
		return NULL;
	if (kallsyms && !text)
		kallsyms_text(kallsyms, &self.start);
	if (kernel_add_mapping(kernel, &self) == 0 &&
	    (!modules || read_modules(kernel, modules) == 0) && index_names(kernel) == 0)
		return kernel;
	kernel_free(kernel);
	return NULL;
}

static struct kernel *read_files(struct kernel *kernel, uint64_t text)
{
	char kallsyms[PATH_MAX], modules[PATH_MAX];
	bool has_kallsyms = kernel->path(kernel->path_arg, KALLSYMS_PATH, kallsyms);
	bool has_modules = kernel->path(kernel->path_arg, MODULES_PATH, modules);

	return kernel_read_lists(kernel, text, has_kallsyms ? kallsyms : NULL,
				 has_modules ? modules : NULL);
}

struct kernel *kernel_new(const char *root)
{
	return kernel_new_at(root, 0);
}

struct kernel *kernel_new_at(const char *root, uint64_t text)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));

	if (!kernel)
		return NULL;
	kernel->root = strdup(root);
	if (!kernel->root) {
		free(kernel);
		return NULL;
	}
	kernel->path = path_in_root;
	kernel->path_arg = kernel->root;
	return read_files(kernel, text);
}

struct kernel *kernel_from_files(kernel_path_fn path, const void *path_arg)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));

	if (!kernel)
		return NULL;
	kernel->path = path;
	kernel->path_arg = path_arg;
	return read_files(kernel, 0);
}

struct kernel *kernel_from_kallsyms(const char *path)
{
	return kernel_read_lists(calloc(1, sizeof(struct kernel)), 0, path, NULL);
}

void kernel_free(struct kernel *kernel)
{
	if (!kernel)
		return;
	hash_clear(&kernel->names);
	free(kernel->mappings);
	free(kernel->hidden);
	free(kernel->root);
	free(kernel);
}

static const struct kernel_mapping *kernel_mapping_read_build_id(const struct kernel *kernel,
								 struct kernel_mapping *mapping)
{
	char name[PATH_MAX], notes[PATH_MAX];

	if (mapping->has_build_id || !kernel->path)
		return mapping;
	mapping->has_build_id = true;
	if (mapping == kernel->mappings)
		strcpy(name, KERNEL_NOTES_PATH);
	else
		snprintf(name, sizeof(name), "/sys/module/%.*s/notes/.note.gnu.build-id",
			 (int)strlen(mapping->name) - 2, mapping->name + 1);
	if (kernel->path(kernel->path_arg, name, notes))
		kernel_build_id(notes, mapping->build_id, NULL); /* "" on failure */
	return mapping;
}

const struct kernel_mapping *kernel_mapping_at(struct kernel *kernel, uint64_t address)
{
	size_t low = 1, high = kernel->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (kernel->mappings[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/*
	 * The size of a module includes data that may lie elsewhere, so ranges may overlap. The
	 * address belongs to the module with the highest start at or below it.
	 */
	if (low > 1 && address < kernel->mappings[low - 1].limit)
		return kernel_mapping_read_build_id(kernel, &kernel->mappings[low - 1]);
	return kernel_mapping_read_build_id(kernel, &kernel->mappings[0]);
}

const struct kernel_mapping *kernel_mapping_by_name(struct kernel *kernel, const char *name)
{
	uint32_t index = find_name(kernel, name);

	return index == HASH_NONE ? NULL
				  : kernel_mapping_read_build_id(kernel, &kernel->mappings[index]);
}

/* Opens a file if it is the candidate that is wanted: number 0 of those that are left. */
static int open_candidate(const char *path, unsigned int *candidate)
{
	struct stat st;
	int fd = open_regular_file(path, 0, &st);

	if (fd < 0)
		return -ENOENT;
	if (!*candidate)
		return fd;
	--*candidate;
	close(fd);
	return -ENOENT;
}

int kernel_open_module(const char *root, const char *release, const char *name,
		       unsigned int candidate)
{
	char directory[PATH_MAX], path[PATH_MAX], plain[KERNEL_MAPPING_NAME_SIZE];
	const char *const no_options = NULL;
	struct kmod_module *module = NULL;
	struct kmod_ctx *context;
	const char *found;
	int fd = -ENOENT;

	snprintf(plain, sizeof(plain), "%.*s", (int)strlen(name) - 2, name + 1);
	snprintf(directory, sizeof(directory), "%s/lib/modules/%s", root, release);
	context = kmod_new(directory, &no_options);
	if (!context)
		return -ENOMEM;
	if (kmod_module_new_from_name(context, plain, &module) == 0) {
		found = kmod_module_get_path(module);
		if (found && snprintf(path, sizeof(path), "%s" DEBUG_DIRECTORY "%s", root,
				      found + strlen(root)) < (int)sizeof(path))
			fd = open_candidate(path, &candidate);
		if (fd < 0 && found)
			fd = open_candidate(found, &candidate);
		kmod_module_unref(module);
	}
	kmod_unref(context);
	return fd;
}

bool kernel_has_module_list(const struct kernel *kernel)
{
	return kernel->path;
}

int kernel_open_vmlinux(const char *root, const char *release, unsigned int candidate)
{
	static const char *const formats[] = {
		"%s" DEBUG_DIRECTORY "/boot/vmlinux-%s",
		"%s" DEBUG_DIRECTORY "/lib/modules/%s/vmlinux",
		"%s/lib/modules/%s/build/vmlinux",
		"%s/boot/vmlinux-%s",
	};
	char path[PATH_MAX];
	int fd = -ENOENT;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && fd < 0; i++) {
		snprintf(path, sizeof(path), formats[i], root, release);
		fd = open_candidate(path, &candidate);
	}
	return fd;
}

int kernel_open_debug_file(const char *root, const char *release, const char *name,
			   unsigned int candidate)
{
	if (!*release)
		return -ENOENT;
	return strcmp(name, KERNEL_MAPPING) ? kernel_open_module(root, release, name, candidate)
					    : kernel_open_vmlinux(root, release, candidate);
}

bool is_kernel_mapping(const char *name, uint64_t address)
{
	return *name == '[' && address >> 63 && strcmp(name, "[vsyscall]");
}
