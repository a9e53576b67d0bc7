// SPDX-License-Identifier: GPL-2.0
/* Where debug files are searched. */
#include "debuginfo/debug_paths.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include "sandbox.h"

static const char *directories[2];
static struct debug_paths paths;

/* Makes a file with an ELF header. */
static const char *make_elf(const char *name)
{
	static const unsigned char head[EI_NIDENT + 2] = {
		0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [EI_NIDENT] = ET_DYN};
	const char *path = in_sandbox("%s", name);

	run("mkdir -p \"$(dirname '%s')\"", path);
	write_file(path, head, sizeof(head));
	return path;
}

static unsigned int candidate;

/* Asserts that the next file that is opened is `wanted`, below the sandbox; NULL: there is none. */
static void assert_next(enum debug_name kind, const char *name, const char *beside,
			const char *wanted)
{
	char *path;
	int fd = debug_paths_open(&paths, kind, name, beside, &candidate, &path);

	if (!wanted) {
		assert_int_equal(fd, -ENOENT);
		assert_null(path);
		return;
	}
	assert_true(fd >= 0);
	assert_string_equal(path, in_sandbox("%s", wanted));
	close(fd);
	free(path);
}

static void debug_file_of_a_build_id(void **state)
{
	(void)state;
	make_elf("a/.build-id/12/345678.debug");
	make_elf("b/.build-id/12/345678.debug");
	candidate = 0;
	assert_next(DEBUG_BUILD_ID, "12345678", NULL, "a/.build-id/12/345678.debug");
	assert_int_equal(candidate, 1);
	assert_next(DEBUG_BUILD_ID, "12345678", NULL, "b/.build-id/12/345678.debug");
	assert_int_equal(candidate, 2);
	assert_next(DEBUG_BUILD_ID, "12345678", NULL, NULL);
	candidate = 0;
	assert_next(DEBUG_BUILD_ID, "", NULL, NULL);
	assert_next(DEBUG_BUILD_ID, "12/../12345678", NULL, NULL);
	/* What is not there is skipped. */
	run("rm '%s' && touch '%s' && rmdir '%s'", in_sandbox("a/.build-id/12/345678.debug"),
	    in_sandbox("a/file"), in_sandbox("a/.build-id/12"));
	assert_next(DEBUG_BUILD_ID, "12345678", NULL, "b/.build-id/12/345678.debug");
	assert_int_equal(candidate, 2);
	/* Also where a directory is a file. */
	run("touch '%s'", in_sandbox("a/.build-id/12"));
	candidate = 0;
	assert_next(DEBUG_BUILD_ID, "12345678", NULL, "b/.build-id/12/345678.debug");
}

static void file_near_the_binary(void **state)
{
	char below[PATH_MAX];
	const char *program = in_sandbox("bin/program");

	(void)state;
	make_elf("bin/.debug/link");
	make_elf("bin/link");
	snprintf(below, sizeof(below), "a%s/bin/link", sandbox);
	make_elf(below);
	candidate = 0;
	assert_next(DEBUG_LINK, "link", program, "bin/.debug/link");
	assert_next(DEBUG_LINK, "link", program, "bin/link");
	assert_next(DEBUG_LINK, "link", program, below);
	assert_int_equal(candidate, 3);
	assert_next(DEBUG_LINK, "link", program, NULL);
	*below = 'b';
	make_elf(below);
	candidate = 3;
	assert_next(DEBUG_LINK, "link", program, below);
	assert_next(DEBUG_LINK, "link", program, NULL);
	/* It is a name, of a file near a file at a known path. */
	candidate = 0;
	assert_next(DEBUG_LINK, "", program, NULL);
	assert_next(DEBUG_LINK, "../bin/link", program, NULL);
	assert_next(DEBUG_LINK, "link", "program", NULL);
	assert_next(DEBUG_LINK, "link", NULL, NULL);
}

static void file_that_debug_files_share(void **state)
{
	const char *debug_file = in_sandbox("a/.build-id/12/34.debug");
	char absolute[PATH_MAX];

	(void)state;
	snprintf(absolute, sizeof(absolute), "%s", make_elf("elsewhere/.dwz/x/y.debug"));
	make_elf("a/.dwz/x/y.debug");
	make_elf("b/.dwz/x/y.debug");
	make_elf("a/.build-id/12/y");
	candidate = 0;
	assert_next(DEBUG_ALT_LINK, absolute, debug_file, "elsewhere/.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, absolute, debug_file, "a/.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, absolute, debug_file, "b/.dwz/x/y.debug");
	assert_int_equal(candidate, 3);
	assert_next(DEBUG_ALT_LINK, absolute, debug_file, NULL);
	/* Relative to the file that names it. */
	candidate = 0;
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", debug_file,
		    "a/.build-id/12/../../.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", debug_file, "a/.dwz/x/y.debug");
	/* If that is unknown, in the directories of debug files only. */
	candidate = 0;
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", NULL, "a/.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", NULL, "a/.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", NULL, "b/.dwz/x/y.debug");
	assert_next(DEBUG_ALT_LINK, "../../.dwz/x/y.debug", NULL, NULL);
	/* Other names have one place. */
	candidate = 0;
	assert_next(DEBUG_ALT_LINK, "y", debug_file, "a/.build-id/12/y");
	assert_next(DEBUG_ALT_LINK, "y", debug_file, NULL);
	candidate = 0;
	assert_next(DEBUG_ALT_LINK, "y", NULL, NULL);
	assert_next(DEBUG_ALT_LINK, "", debug_file, NULL);
	assert_next((enum debug_name)3, absolute, debug_file, NULL);
}

static void files_of_other_types_are_errors(void **state)
{
	const char *path = in_sandbox("a/.build-id/12/34.debug");
	char *opened;

	(void)state;
	run("mkdir -p '%s'", path);
	candidate = 0;
	assert_int_equal(
		debug_paths_open(&paths, DEBUG_BUILD_ID, "1234", NULL, &candidate, &opened),
		-EINVAL);
	assert_string_equal(opened, path);
	assert_int_equal(candidate, 1);
	free(opened);
	run("rmdir '%s'", path);
	write_text(path, "no ELF file");
	candidate = 0;
	assert_int_equal(
		debug_paths_open(&paths, DEBUG_BUILD_ID, "1234", NULL, &candidate, &opened),
		-ENOEXEC);
	assert_string_equal(opened, path);
	free(opened);
}

static bool is_elf(const void *bytes, size_t size)
{
	const char *path = in_sandbox("file");
	bool result;
	int fd;

	write_file(path, bytes, size);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	result = is_elf_file(fd);
	close(fd);
	return result;
}

static void elf_files_are_known_by_their_header(void **state)
{
	unsigned char head[EI_NIDENT + 2] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB};

	(void)state;
	for (unsigned char type = 0; type < 6; type++) {
		head[EI_DATA] = ELFDATA2LSB;
		head[EI_NIDENT] = type;
		head[EI_NIDENT + 1] = 0;
		assert_int_equal(is_elf(head, sizeof(head)), type != ET_CORE);
		head[EI_NIDENT + 1] = 1;
		assert_true(is_elf(head, sizeof(head)));
		head[EI_DATA] = ELFDATA2MSB;
		head[EI_NIDENT] = 0;
		head[EI_NIDENT + 1] = type;
		assert_int_equal(is_elf(head, sizeof(head)), type != ET_CORE);
		head[EI_NIDENT] = 1;
		assert_true(is_elf(head, sizeof(head)));
	}
	assert_true(is_elf(head, SELFMAG));
	assert_false(is_elf(head, SELFMAG - 1));
	assert_false(is_elf(head, 0));
	head[3] = 'G';
	assert_false(is_elf(head, sizeof(head)));
	assert_false(is_elf_file(-1));
}

static int set_up(void **state)
{
	static char first[64 + 2], second[64 + 2];

	if (make_sandbox(state))
		return -1;
	snprintf(first, sizeof(first), "%s/a", sandbox);
	snprintf(second, sizeof(second), "%s/b", sandbox);
	directories[0] = first;
	directories[1] = second;
	paths = (struct debug_paths){directories, 2};
	return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(debug_file_of_a_build_id),
		TEST(file_near_the_binary),
		TEST(file_that_debug_files_share),
		TEST(files_of_other_types_are_errors),
		TEST(elf_files_are_known_by_their_header),
	};

	return cmocka_run_group_tests_name("debug_paths", tests, NULL, NULL);
}
