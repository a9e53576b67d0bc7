// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_image.h"

#include "debuginfo/debug_files.h"
#include "debuginfo/kallsyms.h"
#include "lib/array.h"
#include "lib/regular_file.h"

#include <errno.h>
#include <libkmod.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel {
	char *root; /* NULL: not of this machine, or not of now */
	struct kernel_mapping *parts; /* the kernel, then modules by address */
	size_t count, capacity;
};

/* As /proc/modules has it: NAME SIZE REFERENCES DEPENDENTS STATE ADDRESS. */
static bool parse_module(char *line, struct kernel_mapping *part)
{
	char *fields[6], *rest = line;
	uint64_t start, size;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		fields[i] = strsep(&rest, " \n");
	if (!fields[5])
		return false;
	size = strtoull(fields[1], NULL, 10);
	start = strtoull(fields[5], NULL, 16);
	/* 0 is what those see from whom the kernel hides addresses. */
	if (!start || start + size < start)
		return false;
	*part = (struct kernel_mapping){.start = start, .limit = start + size};
	return snprintf(part->name, sizeof(part->name), "[%s]", fields[0]) <
	       (int)sizeof(part->name);
}

static int add_part(struct kernel *kernel, const struct kernel_mapping *part)
{
	if (array_reserve(&kernel->parts, &kernel->capacity, kernel->count, 1, sizeof(*part)) != 0)
		return -ENOMEM;
	kernel->parts[kernel->count++] = *part;
	return 0;
}

static int compare_parts(const void *a, const void *b)
{
	const struct kernel_mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int read_modules(struct kernel *kernel, const char *path)
{
	FILE *stream = fopen(path, "re");
	struct kernel_mapping part;
	size_t capacity = 0;
	char *line = NULL;
	int err = 0;

	if (!stream)
		return 0;
	while (!err && getline(&line, &capacity, stream) > 0) {
		if (parse_module(line, &part))
			err = add_part(kernel, &part);
	}
	free(line);
	fclose(stream);
	if (kernel->count > 1)
		qsort(kernel->parts + 1, kernel->count - 1, sizeof(part), compare_parts);
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
	if ((!root || kernel->root) && add_part(kernel, &self) == 0 &&
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
	free(kernel->parts);
	free(kernel->root);
	free(kernel);
}

static const struct kernel_mapping *with_build_id(const struct kernel *kernel,
						  struct kernel_mapping *part)
{
	char notes[PATH_MAX];
	int length = (int)strlen(part->name) - 2;

	if (part->has_build_id || !kernel->root)
		return part;
	part->has_build_id = true;
	if (part == kernel->parts)
		snprintf(notes, sizeof(notes), "%s" KERNEL_NOTES_PATH, kernel->root);
	else
		snprintf(notes, sizeof(notes), "%s/sys/module/%.*s/notes/.note.gnu.build-id",
			 kernel->root, length, part->name + 1);
	kernel_build_id(notes, part->build_id, NULL); /* "" without */
	return part;
}

const struct kernel_mapping *kernel_mapping_at(struct kernel *kernel, uint64_t address)
{
	size_t low = 1, high = kernel->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (kernel->parts[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/*
	 * Data counts in the size of a module and may lie elsewhere, so ranges may overlap:
	 * its code is what begins last before the address.
	 */
	if (low > 1 && address < kernel->parts[low - 1].limit)
		return with_build_id(kernel, &kernel->parts[low - 1]);
	return with_build_id(kernel, &kernel->parts[0]);
}

const struct kernel_mapping *kernel_mapping_by_name(struct kernel *kernel, const char *name)
{
	for (size_t i = 0; i < kernel->count; i++) {
		if (strcmp(kernel->parts[i].name, name) == 0)
			return with_build_id(kernel, &kernel->parts[i]);
	}
	return NULL;
}

int kernel_open_module(const char *root, const char *release, const char *name)
{
	char directory[PATH_MAX], path[PATH_MAX], plain[KERNEL_MAPPING_NAME_SIZE];
	const char *const no_options = NULL;
	struct kmod_module *module = NULL;
	struct kmod_ctx *context;
	const char *found;
	struct stat st;
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
			fd = open_regular_file(path, 0, &st);
		if (fd < 0 && found)
			fd = open_regular_file(found, 0, &st);
		kmod_module_unref(module);
	}
	kmod_unref(context);
	return fd;
}

bool kernel_knows_modules(const struct kernel *kernel)
{
	return kernel->root;
}

int kernel_open_vmlinux(const char *root, const char *release)
{
	static const char *const formats[] = {
		"%s" DEBUG_DIRECTORY "/boot/vmlinux-%s",
		"%s" DEBUG_DIRECTORY "/lib/modules/%s/vmlinux",
		"%s/lib/modules/%s/build/vmlinux",
		"%s/boot/vmlinux-%s",
	};
	char path[PATH_MAX];
	struct stat st;
	int fd = -ENOENT;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && fd < 0; i++) {
		snprintf(path, sizeof(path), formats[i], root, release);
		fd = open_regular_file(path, 0, &st);
	}
	return fd;
}

bool kernel_has_mapping(const char *name, uint64_t address)
{
	return *name == '[' && address >> 63 && strcmp(name, "[vsyscall]") != 0;
}
