// SPDX-License-Identifier: GPL-2.0
/* The files of the kernel in an archive: test_binary_archive.c has the files of programs. */
#include "symbolize/archive_contents.h"

#include <dlfcn.h>
#include <errno.h>

#include "sample_profile.h"
#include "sandbox.h"

#define MODULE_NOTES "/sys/module/ext4/notes/.note.gnu.build-id"

/* Replaces libc's function: the files of the kernel are those in the sandbox. */
FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *path, const char *mode);

	*(void **)&real = dlsym(RTLD_NEXT, "fopen");
	if (!strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5))
		path = in_sandbox("%s", path + 1);
	return real(path, mode);
}

static void make_kernel(const char *kallsyms)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201},
			      module_notes[] = {4, 2, 3, 0x00554e47, 0x0403};

	run("cd '%s' && mkdir -p proc sys/kernel sys/module/ext4/notes", sandbox);
	write_text(in_sandbox("proc/kallsyms"), kallsyms);
	write_text(in_sandbox("proc/modules"), "ext4 4096 0 - Live 0xffffffffc0000000\n");
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	write_file(in_sandbox("%s", &MODULE_NOTES[1]), module_notes, sizeof(module_notes));
}

static struct {
	char files[512]; /* paths, each followed by a space */
	char missing[256];
	const char *failing; /* a path that can't be stored; NULL: none */
} received;

static int take_file(void *arg, const char *path, const char *name, int fd)
{
	(void)arg, (void)path, (void)name, (void)fd;
	fail();
	return 0;
}

static int take_kernel_file(void *arg, const char *path)
{
	size_t used = strlen(received.files);

	(void)arg;
	if (received.failing && !strcmp(path, received.failing))
		return -EIO;
	snprintf(received.files + used, sizeof(received.files) - used, "%s ", path);
	return 0;
}

static void take_missing(void *arg, const char *path, const char *text)
{
	(void)arg;
	snprintf(received.missing, sizeof(received.missing), "%s: %s", path, text);
}

/* Collects the files for an address of the kernel in a mapping. */
static int collect(const char *mapping_name, const char *build_id, const char *failing)
{
	const struct archive_plan plan = {.without_debug = true};
	const struct archive_sink sink = {
		.binary = take_file,
		.debug_file = take_file,
		.kernel_file = take_kernel_file,
		.missing = take_missing,
	};
	const uint64_t address = 0xffffffff81000010;
	struct profile *profile = empty_profile();
	uint32_t mapping, location;
	int err;

	memset(&received, 0, sizeof(received));
	received.failing = failing;
	mapping = example_mapping(profile, address, UINT64_MAX, 0, mapping_name, build_id);
	location = profile_location(profile, mapping, address, NULL, 0);
	example_add(profile, &location, 1, 1, 1, NULL, 0);
	err = archive_contents_collect(&plan, profile, &sink);
	profile_free(profile);
	return err;
}

static void symbols_of_the_kernel_are_collected(void **state)
{
	(void)state;
	make_kernel("ffffffff81000000 T _text\n");
	assert_int_equal(collect("[kernel.kallsyms]", "0102", NULL), 0);
	assert_string_equal(received.files, "/sys/kernel/notes /proc/kallsyms /proc/modules ");
	assert_string_equal(received.missing, "");
	assert_int_equal(collect("[ext4]", "0304", NULL), 0);
	assert_string_equal(received.files, MODULE_NOTES " /proc/kallsyms /proc/modules ");
	assert_string_equal(received.missing, "");
}

static void other_kernels_are_missing(void **state)
{
	(void)state;
	make_kernel("ffffffff81000000 T _text\n");
	assert_int_equal(collect("[kernel.kallsyms]", "0103", NULL), 0);
	assert_string_equal(received.files, "");
	assert_string_equal(received.missing,
			    "[kernel.kallsyms]: this kernel is of another build, or without it");
	assert_int_equal(collect("[xfs]", "0304", NULL), 0);
	assert_string_equal(received.files, "");
	assert_string_equal(received.missing,
			    "[xfs]: this kernel is of another build, or without it");
	make_kernel("0000000000000000 T _text\n");
	assert_int_equal(collect("[kernel.kallsyms]", "0102", NULL), 0);
	assert_string_equal(received.files, "");
	assert_string_equal(received.missing, "[kernel.kallsyms]: the kernel hides its symbols");
}

static void error_ends_the_collection(void **state)
{
	(void)state;
	make_kernel("ffffffff81000000 T _text\n");
	assert_int_equal(collect("[kernel.kallsyms]", "0102", "/sys/kernel/notes"), -EIO);
	assert_string_equal(received.files, "");
	assert_int_equal(collect("[kernel.kallsyms]", "0102", "/proc/kallsyms"), -EIO);
	assert_string_equal(received.files, "/sys/kernel/notes ");
	assert_int_equal(collect("[kernel.kallsyms]", "0102", "/proc/modules"), -EIO);
	assert_string_equal(received.files, "/sys/kernel/notes /proc/kallsyms ");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(symbols_of_the_kernel_are_collected),
		TEST(other_kernels_are_missing),
		TEST(error_ends_the_collection),
	};

	return cmocka_run_group_tests_name("archive_contents", tests, NULL, NULL);
}
