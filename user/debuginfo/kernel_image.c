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
#include "lib/regular_file.h"

struct kernel {
	char *root; /* NULL: not the running kernel */
	struct kernel_mapping *mappings; /* the kernel, then modules by address */
	size_t count, capacity;
};

/* Parses a line of /proc/modules: NAME SIZE REFERENCES DEPENDENTS STATE ADDRESS. */
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
	/* 0: the kernel hides addresses from this process. */
	if (!start || start + size < start)
		return false;
	*mapping = (struct kernel_mapping){.start = start, .limit = start + size};
	return snprintf(mapping->name, sizeof(mapping->name), "[%s]", fields[0]) <
	       (int)sizeof(mapping->name);
}

static int add_mapping(struct kernel *kernel, const struct kernel_mapping *mapping)
{
	if (array_reserve(&kernel->mappings, &kernel->capacity, kernel->count, 1,
			  sizeof(*mapping)) != 0)
		return -ENOMEM;
	kernel->mappings[kernel->count++] = *mapping;
	return 0;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct kernel_mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
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
			err = add_mapping(kernel, &mapping);
	}
	free(line);
	fclose(stream);
	if (kernel->count > 1)
		qsort(kernel->mappings + 1, kernel->count - 1, sizeof(mapping), compare_mappings);
	return err;
}

static struct kernel *read_kernel(const char *root, const char *kallsyms, const char *modules)
{
	struct kernel_mapping self = {.name = KERNEL_MAPPING, .limit = UINT64_MAX};
	struct kernel *kernel = calloc(1, sizeof(*kernel));

	if (!kernel)
		return NULL;
	kallsyms_text(kallsyms, &self.start);
	if (root)
		kernel->root = strdup(root);
	if ((!root || kernel->root) && add_mapping(kernel, &self) == 0 &&
	    (!modules || read_modules(kernel, modules) == 0))
		return kernel;
	kernel_free(kernel);
	return NULL;
}

struct kernel *kernel_new(const char *root)
{
	char kallsyms[PATH_MAX], modules[PATH_MAX];

	snprintf(kallsyms, sizeof(kallsyms), "%s" KALLSYMS_PATH, root);
	snprintf(modules, sizeof(modules), "%s" MODULES_PATH, root);
	return read_kernel(root, kallsyms, modules);
}

struct kernel *kernel_from_kallsyms(const char *path)
{
	return read_kernel(NULL, path, NULL);
}

void kernel_free(struct kernel *kernel)
{
	if (!kernel)
		return;
	free(kernel->mappings);
	free(kernel->root);
	free(kernel);
}

static const struct kernel_mapping *read_build_id(const struct kernel *kernel,
						  struct kernel_mapping *mapping)
{
	char notes[PATH_MAX];
	int length = (int)strlen(mapping->name) - 2;

	if (mapping->has_build_id || !kernel->root)
		return mapping;
	mapping->has_build_id = true;
	if (mapping == kernel->mappings)
		snprintf(notes, sizeof(notes), "%s" KERNEL_NOTES_PATH, kernel->root);
	else
		snprintf(notes, sizeof(notes), "%s/sys/module/%.*s/notes/.note.gnu.build-id",
			 kernel->root, length, mapping->name + 1);
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
		return read_build_id(kernel, &kernel->mappings[low - 1]);
	return read_build_id(kernel, &kernel->mappings[0]);
}

const struct kernel_mapping *kernel_mapping_by_name(struct kernel *kernel, const char *name)
{
	for (size_t i = 0; i < kernel->count; i++) {
		if (!strcmp(kernel->mappings[i].name, name))
			return read_build_id(kernel, &kernel->mappings[i]);
	}
	return NULL;
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
	return kernel->root;
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

bool is_kernel_mapping(const char *name, uint64_t address)
{
	return *name == '[' && address >> 63 && strcmp(name, "[vsyscall]");
}
