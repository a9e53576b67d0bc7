// SPDX-License-Identifier: GPL-2.0
/* Where the binaries of a profile are searched. */
#include "symbolize/find_binary.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "sandbox.h"

#define HOUR (3600 * NS_PER_SECOND)

static struct binary_finder search;
static struct error error;
static bool is_trusted;

/* Makes a file with an ELF header and a text. */
static const char *make_elf(const char *name, const char *text)
{
	unsigned char bytes[64] = {
		0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [EI_NIDENT] = ET_DYN};
	const char *path = in_sandbox("%s", name);

	run("mkdir -p \"$(dirname '%s')\"", path);
	snprintf((char *)bytes + EI_NIDENT + 2, sizeof(bytes) - EI_NIDENT - 2, "%s", text);
	write_file(path, bytes, sizeof(bytes));
	return path;
}

/* Returns the text of the file that is found; "" if there is none. */
static const char *find(const char *path, const char *build_id, unsigned int candidate)
{
	static char bytes[64];
	int fd;

	*error.text = '\0';
	fd = binary_finder_open(&search, path, build_id, candidate, &is_trusted, &error);
	if (fd < 0) {
		assert_int_equal(fd, -ENOENT);
		assert_true(*error.text);
		return "";
	}
	assert_string_equal(error.text, "");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	return bytes + EI_NIDENT + 2;
}

static void places_are_searched_in_order(void **state)
{
	const char *path = make_elf("bin/program", "at its path");
	char below[128];

	(void)state;
	search.directory = in_sandbox("saved");
	snprintf(below, sizeof(below), "saved%s", path);
	make_elf(below, "below the directory");
	make_elf("saved/program", "by its name");
	make_elf("saved/.build-id/12/34", "by its build ID");
	assert_string_equal(find(path, "1234", 0), "by its build ID");
	assert_true(is_trusted);
	assert_string_equal(find(path, "1234", 1), "below the directory");
	assert_string_equal(find(path, "1234", 2), "by its name");
	assert_string_equal(find(path, "1234", 3), "at its path");
	assert_true(is_trusted);
	assert_string_equal(find(path, "1234", 4), "");
	assert_false(is_trusted);
	assert_non_null(strstr(error.text, "was not found in "));
	assert_non_null(strstr(error.text, "/saved nor at its path"));
	/* Without a valid build ID, or without a directory. */
	assert_string_equal(find(path, "", 0), "below the directory");
	assert_string_equal(find(path, "12/34", 0), "below the directory");
	search.directory = NULL;
	assert_string_equal(find(path, "1234", 0), "at its path");
	assert_string_equal(find(path, "1234", 1), "");
	assert_string_equal(error.text, "is not there any more");
}

/* Other profilers write names instead of paths. */
static void relative_paths_are_searched_by_their_name(void **state)
{
	(void)state;
	search.directory = in_sandbox("saved");
	make_elf("saved/program", "by its name");
	make_elf("saved/.build-id/12/34", "by its build ID");
	assert_string_equal(find("bin/program", "", 0), "by its name");
	assert_string_equal(find("bin/program", "", 1), "");
	assert_string_equal(find("program", "", 0), "");
	assert_string_equal(find("program", "1234", 0), "by its build ID");
	assert_string_equal(find("program", "1234", 1), "");
	assert_string_equal(find("", "", 0), "");
	/* A directory. */
	assert_string_equal(find("/", "", 0), "");
	assert_string_equal(find("bin/", "", 0), "");
	assert_non_null(strstr(error.text, "was not found in "));
}

/* A file system's limit of paths equals the size of the buffers. */
static void long_paths_are_not_found(void **state)
{
	static char directory[PATH_MAX + 1], path[PATH_MAX + 16];
	const char *program = make_elf("program", "text");

	(void)state;
	memset(directory, '/', sizeof(directory) - 1);
	for (size_t length = PATH_MAX - 64; length <= PATH_MAX; length++) {
		memcpy(directory + length - strlen(sandbox), sandbox, strlen(sandbox) + 1);
		search.directory = directory;
		/* Below the directory it is too long, by its name it may be not. */
		find("/x/program", "1234", 0);
		find("/x/program", "1234", 1);
		assert_string_equal(find("/x/program", "1234", 1), "");
	}
	search.directory = NULL;
	memset(path, '/', sizeof(path));
	strcpy(path + PATH_MAX - 1 - strlen(program), program);
	assert_int_equal(strlen(path), PATH_MAX - 1);
	assert_string_equal(find(path, "1234", 0), "text");
	strcpy(path + PATH_MAX - strlen(program), program);
	assert_string_equal(find(path, "1234", 0), "");
}

static void file_without_a_build_id_must_be_old(void **state)
{
	const int64_t now = now_ns(CLOCK_REALTIME);
	const char *path = make_elf("program", "text");
	struct stat st;

	(void)state;
	search.time = now - HOUR;
	assert_string_equal(find(path, "", 0), "");
	assert_non_null(strstr(error.text, "has changed since the profile was taken: not taken"));
	assert_string_equal(find(path, "1234", 0), "text");
	/* A package has an old mtime, but it was installed now. */
	run("touch -d 2001-01-01 '%s'", path);
	assert_string_equal(find(path, "", 0), "");
	/* Copies have a ctime of their own. */
	search.directory = sandbox;
	assert_string_equal(find("/program", "", 0), "text");
	search.directory = NULL;
	/* As old as the profile is not newer. */
	assert_int_equal(stat(path, &st), 0);
	search.time = time_ns(st.st_ctim);
	assert_string_equal(find(path, "", 0), "text");
	search.time--;
	assert_string_equal(find(path, "", 0), "");
}

static void other_files_are_not_opened(void **state)
{
	(void)state;
	search.directory = in_sandbox("saved");
	write_text(in_sandbox("text"), "no ELF file");
	assert_string_equal(find(in_sandbox("text"), "1234", 0), "");
	assert_non_null(strstr(error.text, "/text: not an ELF file: not taken"));
	/* The first of them is reported. */
	run("mkdir '%s'", in_sandbox("saved"));
	write_text(in_sandbox("saved/text"), "no ELF file");
	assert_string_equal(find(in_sandbox("text"), "1234", 0), "");
	assert_non_null(strstr(error.text, "/saved/text: not an ELF file: not taken"));
	run("mkfifo '%s'", in_sandbox("fifo"));
	assert_string_equal(find(in_sandbox("fifo"), "1234", 0), "");
	assert_non_null(strstr(error.text, "was not found in "));
}

/* The vdso of this process may be the vdso of the profile, if the build IDs are equal. */
static void vdso_is_that_of_this_process(void **state)
{
	int fd;
	Elf64_Ehdr header;
	struct stat st;

	(void)state;
	fd = binary_finder_open(&search, "[vdso]", "1234", 0, &is_trusted, &error);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &header, sizeof(header)), 0);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr));
	close(fd);
	assert_string_equal(find("[vdso]", "1234", 1), "");
	assert_string_equal(find("[vdso]", "", 0), "");
	assert_string_equal(find("[vdsp]", "1234", 0), "");
	/* A saved one comes first. */
	search.directory = in_sandbox("saved");
	make_elf("saved/.build-id/12/34", "saved");
	assert_string_equal(find("[vdso]", "1234", 0), "saved");
	fd = binary_finder_open(&search, "[vdso]", "1234", 1, &is_trusted, &error);
	assert_true(fd >= 0);
	close(fd);
}

/* Files that several users have saved, with the build ID that they claim. */
static void untrusted_files_must_be_the_same(void **state)
{
	(void)state;
	search.directory = in_sandbox("saved");
	make_elf("saved/.untrusted/1001/.build-id/12/34", "one");
	make_elf("saved/.untrusted/.hidden/.build-id/12/34", "hidden");
	assert_string_equal(find("/gone", "1234", 0), "one");
	assert_false(is_trusted);
	assert_string_equal(find("/gone", "1234", 1), "");
	assert_string_equal(find("/gone", "", 0), "");
	make_elf("saved/.untrusted/1002/.build-id/12/34", "one");
	make_elf("saved/.untrusted/1003/.build-id/12/35", "other");
	assert_string_equal(find("/gone", "1234", 0), "one");
	make_elf("saved/.untrusted/1003/.build-id/12/34", "two");
	assert_string_equal(find("/gone", "1234", 0), "");
	assert_string_equal(error.text,
			    "is not taken: users have saved different files with build ID 1234");
	/* A file that is trusted comes first. */
	make_elf("saved/.build-id/12/34", "trusted");
	assert_string_equal(find("/gone", "1234", 0), "trusted");
	assert_string_equal(find("/gone", "1234", 1), "");
}

static int set_up(void **state)
{
	search = (struct binary_finder){.time = INT64_MAX};
	return make_sandbox(state);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(places_are_searched_in_order),
		TEST(relative_paths_are_searched_by_their_name),
		TEST(long_paths_are_not_found),
		TEST(file_without_a_build_id_must_be_old),
		TEST(other_files_are_not_opened),
		TEST(vdso_is_that_of_this_process),
		TEST(untrusted_files_must_be_the_same),
	};

	return cmocka_run_group_tests_name("find_binary", tests, NULL, NULL);
}
