// SPDX-License-Identifier: GPL-2.0
#include "symbolize/binary_archive.h"

#include <archive.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "steps.h"
#include "symbolize/archive_reader.h"
#include "symbolize/find_binary.h"
#include "symbolize/libarchive.h"
#include "worker_server.h"

static struct error error;
static size_t missing;
static char first_missing[256];

static void count_missing(void *arg, const char *path, const char *text)
{
	(void)arg;
	if (!missing++)
		snprintf(first_missing, sizeof(first_missing), "%s: %s", path, text);
}

/* A profile whose mappings are files with a build id, or "" for none. It is written, too. */
static struct profile *profile_of_files(const char *const *paths, size_t count,
					const char *build_id)
{
	struct profile *profile = empty_profile();

	for (size_t i = 0; i < count; i++) {
		uint32_t mapping = example_mapping(profile, 0, UINT64_MAX, 0, paths[i], build_id);
		uint32_t location = profile_location(profile, mapping, 0x1000, NULL, 0);

		example_add(profile, &location, 1, 1, 1, NULL, 0);
	}
	profile->time_ns = INT64_C(4000000000000000000);
	assert_int_equal(pprof_write(profile, in_sandbox("profile.pb.gz"), NULL, &error), 0);
	return profile;
}

static struct profile *profile_of(const char *path, const char *build_id)
{
	return profile_of_files(&path, 1, build_id);
}

static int create(const char *directory, struct profile *profile,
		  struct binary_archive_counts *counts)
{
	const struct binary_finder search = {.directory = directory, .time = profile->time_ns};
	const char *debug[] = {in_sandbox("debug")};
	const struct archive_plan plan = {
		.sandbox = worker_server(),
		.search = &search,
		.directories = debug,
		.directory_count = 1,
		.missing = count_missing,
	};
	int err;

	missing = 0;
	err = binary_archive_create(&plan, profile, in_sandbox("a.tar.zst"), counts, &error);
	profile_free(profile);
	return err;
}

static bool is_empty(const char *directory)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "test -z \"$(ls -A '%s')\"", directory);
	return system(command) == 0;
}

static void build_program(void)
{
	write_text(in_sandbox("main.c"), "int main(void)\n{\n\treturn 0;\n}\n");
	run("cd '%s' && cc -g -Wl,--build-id=0x0123abcd -o program main.c && mkdir -p "
	    "debug/.build-id/01 "
	    "tmp && objcopy --only-keep-debug program debug/.build-id/01/23abcd.debug && "
	    "strip program",
	    sandbox);
	setenv("TMPDIR", in_sandbox("tmp"), 1);
}

/* Opens sandbox/NAME for a profile of one file, with a build ID or "" for none. */
static int open_archive(const char *name, const char *path, const char *build_id,
			struct archive_reader **reader)
{
	struct profile *profile = profile_of(path, build_id);
	int err = archive_reader_open(worker_server(), in_sandbox("%s", name), profile, reader,
				      &error);

	profile_free(profile);
	return err;
}

/* Checks that an entry was unpacked, and has the contents of the file `expected`. */
static void expect_entry(const struct archive_reader *reader, const char *name,
			 const char *expected)
{
	char path[PATH_MAX];
	int fd = archive_reader_file(reader, name);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	assert_true(archive_reader_path(reader, name, path));
	run("cmp %s %s", path, expected);
}

static void archived_files_are_unpacked(void **state)
{
	struct binary_archive_counts counts;
	struct archive_reader *reader;
	int fd;

	(void)state;
	build_program();
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 1);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(counts.missing, 0);
	assert_int_equal(open_archive("a.tar.zst", "/gone", "0123abcd", &reader), 0);
	expect_entry(reader, ".build-id/01/23abcd", in_sandbox("program"));
	expect_entry(reader, ".build-id/01/23abcd.debug",
		     in_sandbox("debug/.build-id/01/23abcd.debug"));
	fd = archive_reader_debug_file(reader, "0123abcd");
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(archive_reader_debug_file(reader, "../0123abcd"), -ENOENT);
	assert_int_equal(archive_reader_file(reader, "program"), -ENOENT);
	assert_true(is_empty(in_sandbox("tmp")));
	archive_reader_close(reader);
	assert_true(is_empty(in_sandbox("tmp")));
}

/* Bytes that the open files of this process take in the directory of temporary files. */
static uint64_t stored_bytes(const struct archive_reader *reader, const char *const *names,
			     size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		int fd = archive_reader_file(reader, names[i]);
		struct stat st;

		if (fd < 0)
			continue;
		assert_int_equal(fstat(fd, &st), 0);
		bytes += (uint64_t)st.st_blocks * 512;
		close(fd);
	}
	return bytes;
}

/*
 * 0123abcd is in the profile, 4567 is not: neither are its files. 89ab has a debug file only, which
 * other debug files may need.
 */
static void only_wanted_files_are_stored(void **state)
{
	static const char *const names[] = {
		".build-id/01/23abcd",   ".build-id/01/23abcd.debug",
		".build-id/45/67",       ".build-id/45/67.debug",
		".build-id/89/ab.debug", "large",
		"proc/kallsyms",         "proc/modules",
		"sys/kernel/notes",      "sys/module/m/notes/.note.gnu.build-id",
	};
	static const bool stored[] = {true,  true, false, false, true,
				      false, true, true,  true,  false};
	struct archive_reader *reader;
	uint64_t bytes;

	(void)state;
	build_program();
	run("cd %s && rm -r debug && mkdir -p .build-id/01 .build-id/45 .build-id/89 proc "
	    "sys/kernel "
	    "sys/module/m/notes && head -c 100000000 /dev/zero >large && "
	    "for file in 01/23abcd 01/23abcd.debug 45/67 45/67.debug 89/ab.debug; do "
	    "echo $file >.build-id/$file; done && "
	    "for file in proc/kallsyms proc/modules sys/kernel/notes "
	    "sys/module/m/notes/.note.gnu.build-id; do echo $file >$file; done && "
	    "tar czf a.tar.gz $(find .build-id proc sys large -type f | sort)",
	    sandbox);
	assert_int_equal(open_archive("a.tar.gz", "/gone", "0123abcd", &reader), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[PATH_MAX];

		assert_int_equal(archive_reader_path(reader, names[i], path), stored[i]);
		if (stored[i])
			expect_entry(reader, names[i], in_sandbox("%s", names[i]));
	}
	bytes = stored_bytes(reader, names, sizeof(names) / sizeof(names[0]));
	assert_in_range(bytes, 1, 100000);
	archive_reader_close(reader);
	/* The notes of a module are for its mapping, and files for their path or name. */
	assert_int_equal(open_archive("a.tar.gz", "[m]", "", &reader), 0);
	expect_entry(reader, names[9], in_sandbox("%s", names[9]));
	archive_reader_close(reader);
	assert_int_equal(open_archive("a.tar.gz", "/gone/large", "", &reader), 0);
	expect_entry(reader, "large", in_sandbox("large"));
	archive_reader_close(reader);
}

static void shared_debug_files_are_limited(void **state)
{
	struct archive_reader *reader;
	char path[PATH_MAX];

	(void)state;
	build_program();
	run("cd %s && mkdir -p .build-id/89 && truncate -s 600M .build-id/89/ab.debug && "
	    "truncate -s 600M .build-id/89/cd.debug && truncate -s 100M .build-id/89/ef.debug && "
	    "tar cSf a.tar .build-id/89/ab.debug .build-id/89/cd.debug .build-id/89/ef.debug",
	    sandbox);
	assert_int_equal(open_archive("a.tar", "/gone", "0123abcd", &reader), 0);
	assert_true(archive_reader_path(reader, ".build-id/89/ab.debug", path));
	assert_false(archive_reader_path(reader, ".build-id/89/cd.debug", path));
	assert_true(archive_reader_path(reader, ".build-id/89/ef.debug", path));
	archive_reader_close(reader);
}

static void two_archives_can_be_open(void **state)
{
	struct archive_reader *first, *second;
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	run("cd %s && mkdir -p .build-id/45 && echo second >.build-id/45/67 && "
	    "tar cf b.tar .build-id/45/67",
	    sandbox);
	assert_int_equal(open_archive("a.tar.zst", "/gone", "0123abcd", &first), 0);
	assert_int_equal(open_archive("b.tar", "/gone", "4567", &second), 0);
	expect_entry(first, ".build-id/01/23abcd", in_sandbox("program"));
	expect_entry(second, ".build-id/45/67", in_sandbox(".build-id/45/67"));
	archive_reader_close(first);
	expect_entry(second, ".build-id/45/67", in_sandbox(".build-id/45/67"));
	archive_reader_close(second);
}

/* The first of two entries with one name is taken. */
static void first_entry_of_a_name_is_taken(void **state)
{
	struct archive_reader *reader;

	(void)state;
	build_program();
	run("cd %s && mkdir -p .build-id/45 first && echo first >.build-id/45/67 && "
	    "cp .build-id/45/67 first/ && tar cf a.tar .build-id/45/67 && "
	    "echo second >.build-id/45/67 && tar rf a.tar .build-id/45/67",
	    sandbox);
	assert_int_equal(open_archive("a.tar", "/gone", "4567", &reader), 0);
	expect_entry(reader, ".build-id/45/67", in_sandbox("first/67"));
	archive_reader_close(reader);
}

static void works_without_nameless_files(void **state)
{
	struct archive_reader *reader;

	(void)state;
	build_program();
	run("cd %s && mkdir -p .build-id/45 && echo data >.build-id/45/67 && "
	    "tar cf a.tar .build-id/45/67",
	    sandbox);
	setenv("TMPDIR", "/proc", 1);
	assert_int_equal(open_archive("a.tar", "/gone", "4567", &reader), 0);
	setenv("TMPDIR", in_sandbox("tmp"), 1);
	expect_entry(reader, ".build-id/45/67", in_sandbox(".build-id/45/67"));
	archive_reader_close(reader);
}

static void limit_of_open_files_is_raised(void **state)
{
	struct rlimit old, limit;
	struct archive_reader *reader;

	(void)state;
	build_program();
	run("cd %s && mkdir -p .build-id/45 && for i in $(seq 10 99); do "
	    "echo $i >.build-id/45/$i.debug; done && tar cf a.tar .build-id/45/*",
	    sandbox);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = (struct rlimit){.rlim_cur = 32, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(open_archive("a.tar", "/gone", "0123abcd", &reader), 0);
	expect_entry(reader, ".build-id/45/99.debug", in_sandbox(".build-id/45/99.debug"));
	archive_reader_close(reader);
	setrlimit(RLIMIT_NOFILE, &old);
}

#define HOUR INT64_C(3600000000000)

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int search_archive(const struct archive_reader *archive, const char *directory,
			  const char *path, const char *build_id, int64_t time)
{
	const struct binary_finder search = {
		.directory = directory, .archive = archive, .time = time};
	bool is_trusted;
	int fd = binary_finder_open(&search, path, build_id, 0, &is_trusted, &error);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int search(const char *directory, const char *path, const char *build_id, int64_t time)
{
	return search_archive(NULL, directory, path, build_id, time);
}

/* Builds FILE of a user with the program's build ID and other contents. */
static void build_claim(const char *file, unsigned int user)
{
	run("cd '%s' && printf 'int main(void) { return %u; }' >claim.c && "
	    "cc -Wl,--build-id=0x0123abcd -o '%s' claim.c && chown %u '%s'",
	    sandbox, user % 100, file, user, file);
}

/* Any user can give a file the build ID of another one. */
static void trusted_file_of_a_build_id_is_archived(void **state)
{
	const char *paths[] = {in_sandbox("mallory"), in_sandbox("program"), in_sandbox("oscar")};
	const char *claims[] = {in_sandbox("mallory"), in_sandbox("oscar")};
	struct binary_archive_counts counts;
	struct archive_reader *reader;

	(void)state;
	if (geteuid())
		skip();
	build_program();
	build_claim("mallory", 1001);
	build_claim("oscar", 1002);
	assert_int_equal(create(NULL, profile_of_files(paths, 3, "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 1);
	assert_int_equal(missing, 0);
	assert_int_equal(open_archive("a.tar.zst", "/gone", "0123abcd", &reader), 0);
	expect_entry(reader, ".build-id/01/23abcd", in_sandbox("program"));
	archive_reader_close(reader);
	run("rm -r %s %s", in_sandbox("a.tar.zst"), in_sandbox("debug"));
	/* Nothing says which one is genuine. */
	assert_int_equal(create(NULL, profile_of_files(claims, 2, "0123abcd"), &counts), -ENOENT);
	assert_int_equal(missing, 1);
	assert_int_equal(create(NULL, profile_of_files(claims, 1, "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 1);
}

static void saved_files_of_untrusted_users_may_not_differ(void **state)
{
	const char *saved = in_sandbox("saved");
	const struct binary_finder finder = {.directory = saved, .time = now_ns()};
	bool is_trusted;
	int fd;

	(void)state;
	build_program();
	build_claim("claim", geteuid());
	run("cd '%s' && for user in 1001 1002; do mkdir -p saved/.untrusted/$user/.build-id/01 && "
	    "cp claim saved/.untrusted/$user/.build-id/01/23abcd; done",
	    sandbox);
	/* The path of the copy conveys trust, not its owner. */
	fd = binary_finder_open(&finder, "/gone", "0123abcd", 0, &is_trusted, &error);
	assert_true(fd >= 0);
	assert_false(is_trusted);
	close(fd);
	run("cp %s %s/.untrusted/1002/.build-id/01/23abcd", in_sandbox("program"), saved);
	assert_int_equal(search(saved, "/gone", "0123abcd", now_ns()), -ENOENT);
	assert_non_null(strstr(error.text, "users have saved different files"));
	/* What only claims to have the build ID, and has not, does no harm. */
	run("echo >%s/.untrusted/1002/.build-id/01/23abcd", saved);
	assert_int_equal(search(saved, "/gone", "0123abcd", now_ns()), 0);
	run("cd '%s' && mkdir -p saved/.build-id/01 && cp program saved/.build-id/01/23abcd && "
	    "cp program saved/.untrusted/1002/.build-id/01/23abcd",
	    sandbox);
	fd = binary_finder_open(&finder, "/gone", "0123abcd", 0, &is_trusted, &error);
	assert_true(fd >= 0);
	assert_true(is_trusted);
	close(fd);
}

static void missing_files_are_counted(void **state)
{
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	/* Only the debug file has the right build ID. */
	assert_int_equal(create(NULL, profile_of(in_sandbox("main.c"), "0123abcd"), &counts), 0);
	assert_int_equal(missing, 1);
	assert_int_equal(counts.debug_files, 1);
	run("rm %s", in_sandbox("a.tar.zst"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("gone"), "4567"), &counts), -ENOENT);
	assert_int_equal(missing, 1);
	assert_int_equal(access(in_sandbox("a.tar.zst"), F_OK), -1);
	assert_non_null(strstr(error.text, "nothing to collect"));
}

/* The path contains text that looks like a message of the worker. */
static void path_cannot_forge_a_worker_message(void **state)
{
	const char *directory = in_sandbox("x\nabc123 %s/secret", sandbox);
	struct binary_archive_counts counts;
	struct archive_reader *reader;
	char program[PATH_MAX];

	(void)state;
	build_program();
	run("cd '%s' && mkdir -p secret '%s' && echo secret >secret/shadow && "
	    "mv debug/.build-id/01/23abcd.debug '%s/shadow' && "
	    "objcopy --add-gnu-debuglink='%s/shadow' program '%s/program'",
	    sandbox, directory, directory, directory, directory);
	snprintf(program, sizeof(program), "%s/program", directory);
	assert_int_equal(create(NULL, profile_of(program, "0123abcd"), &counts), 0);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(open_archive("a.tar.zst", program, "0123abcd", &reader), 0);
	snprintf(program, sizeof(program), "'%s/shadow'", directory);
	expect_entry(reader, ".build-id/01/23abcd.debug", program);
	assert_int_equal(archive_reader_debug_file(reader, "abc123"), -ENOENT);
	archive_reader_close(reader);
}

static void files_without_build_id_are_archived_by_path(void **state)
{
	struct binary_archive_counts counts;
	struct archive_reader *reader;
	char plain[PATH_MAX];

	(void)state;
	build_program();
	strcpy(plain, in_sandbox("plain"));
	run("cd '%s' && cc -Wl,--build-id=none -o plain main.c", sandbox);
	assert_int_equal(create(NULL, profile_of(plain, ""), &counts), 0);
	assert_int_equal(open_archive("a.tar.zst", plain, "", &reader), 0);
	expect_entry(reader, plain + 1, plain);
	/* Unpacking keeps the mtime. */
	run("touch %s && mv %s %s", plain, plain, in_sandbox("moved"));
	assert_int_equal(search_archive(reader, NULL, plain, "", now_ns()), 0);
	assert_int_equal(search_archive(reader, NULL, plain, "", now_ns() - HOUR), -ENOENT);
	assert_non_null(strstr(error.text, "has changed"));
	assert_int_equal(search_archive(reader, NULL, "/other", "", now_ns()), -ENOENT);
	assert_non_null(strstr(error.text, "was not found in the archive nor at its path"));
	archive_reader_close(reader);
	run("mv %s %s", in_sandbox("moved"), plain);
	run("rm %s", in_sandbox("a.tar.zst"));
	/* A malicious profile may name any file to have it archived. */
	assert_int_equal(create(NULL, profile_of(in_sandbox("main.c"), ""), &counts), -ENOENT);
	assert_int_equal(missing, 1);
	assert_int_equal(create(NULL, profile_of(in_sandbox("tmp/../plain"), ""), &counts),
			 -ENOENT);
	assert_int_equal(missing, 1);
}

/* Nothing of a rejected archive stays on disk. */
static void malicious_archives_are_rejected(void **state)
{
	static const char *const commands[] = {
		"echo x >../outside.%s && tar cPf a.tar ../outside.%s && rm ../outside.%s",
		"tar cPf a.tar \"$PWD/main.c\"",
		"ln -s / link && tar cf a.tar link",
		"ln main.c hard && tar cf a.tar main.c hard",
		"mkfifo fifo && tar cf a.tar fifo",
		"mkdir -p d && tar cf a.tar d",
		"tar cf whole.tar program && head -c 3000 whole.tar >a.tar",
		"cp main.c a.tar",
		": >a.tar",
	};

	(void)state;
	build_program();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct archive_reader *reader;
		char command[512];
		const char *name = strrchr(sandbox, '/') + 1;

		snprintf(command, sizeof(command), commands[i], name, name, name);
		run("cd '%s' && rm -f a.tar && %s", sandbox, command);
		error.text[0] = '\0';
		assert_int_equal(open_archive("a.tar", "/main.c", "", &reader), -EBADMSG);
		assert_true(*error.text);
		assert_true(is_empty(in_sandbox("tmp")));
	}
}

/* Small archives of large sparse files. */
static void oversized_archives_are_rejected(void **state)
{
	static const struct {
		const char *sizes[3], *problem;
	} archives[] = {
		{{"17G", "1", "1"}, "has more than 16 GiB"},
		{{"6G", "6G", "6G"}, "has more than 16 GiB"},
		{{"1", "9G", "1"}, "has a file of more than 8 GiB"},
	};
	struct archive_reader *reader;

	(void)state;
	build_program();
	for (size_t i = 0; i < 3; i++) {
		run("cd '%s' && truncate -s %s a && truncate -s %s b && truncate -s %s c && tar "
		    "cSf a.tar a b c",
		    sandbox, archives[i].sizes[0], archives[i].sizes[1], archives[i].sizes[2]);
		assert_int_equal(open_archive("a.tar", "/a", "", &reader), -EFBIG);
		assert_non_null(strstr(error.text, archives[i].problem));
		assert_true(is_empty(in_sandbox("tmp")));
	}
}

static void oversized_files_are_skipped(void **state)
{
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	run("truncate -s 100G %s", in_sandbox("program"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 0);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(counts.missing, 1);
	assert_int_equal(missing, 1);

	run("truncate -s 100G %s", in_sandbox("debug/.build-id/01/23abcd.debug"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts),
			 -ENOENT);
	assert_int_equal(missing, 2);
}

/* The files of the kernel are those in the sandbox; large files are neither read nor written. */
static bool is_fake;

static const char *fake_path(const char *path)
{
	static const char *const names[] = {"proc/kallsyms", "proc/modules", "sys/kernel/notes"};

	for (size_t i = 0; i < 3 && is_fake; i++) {
		if (!strcmp(path + 1, names[i]))
			return in_sandbox("%s", names[i]);
	}
	return path;
}

/* Replace functions of libc, and, below, of libarchive. */
FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *path, const char *mode);

	*(void **)&real = dlsym(RTLD_NEXT, "fopen");
	return real(fake_path(path), mode);
}

int open(const char *path, int flags, ...)
{
	int (*real)(const char *path, int flags, ...);
	unsigned int mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned int) : 0;
	va_end(args);
	*(void **)&real = dlsym(RTLD_NEXT, "open");
	return real(fake_path(path), flags, mode);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
	ssize_t (*real)(int fd, void *bytes, size_t size, off_t offset);

	if (is_fake && size > 4096)
		return (ssize_t)size;
	*(void **)&real = dlsym(RTLD_NEXT, "pread");
	return real(fd, bytes, size, offset);
}

static struct libarchive real_archive;

static int write_header(struct archive *archive, struct archive_entry *entry)
{
	return is_fake ? ARCHIVE_OK : real_archive.write_header(archive, entry);
}

static la_ssize_t write_data(struct archive *archive, const void *bytes, size_t size)
{
	return is_fake ? (la_ssize_t)size : real_archive.write_data(archive, bytes, size);
}

/* Programs may have filled the archive. */
static void kernel_files_may_be_left_out(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const char *paths[] = {in_sandbox("files/0"), in_sandbox("files/1")};
	struct profile *profile = profile_of_files(paths, 2, "");
	struct binary_archive_counts counts;
	uint32_t mapping, location;

	(void)state;
	worker_server();
	run("cd %s && mkdir -p files proc sys/kernel && echo 'int f;' >main.c && "
	    "cc -shared -nostdlib -Wl,--build-id=none -o files/0 main.c && "
	    "truncate -s 8G files/0 && ln files/0 files/1",
	    sandbox);
	write_text(in_sandbox("proc/kallsyms"), "ffffffff81000000 T _text\n");
	write_text(in_sandbox("proc/modules"), "");
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	mapping = example_mapping(profile, 0xffffffff81000000, UINT64_MAX, 0, "[kernel.kallsyms]",
				  "0102");
	location = profile_location(profile, mapping, 0xffffffff81000110, NULL, 0);
	example_add(profile, &location, 1, 1, 1, NULL, 0);
	is_fake = true;
	assert_int_equal(create(NULL, profile, &counts), 0);
	is_fake = false;
	assert_int_equal(counts.binaries, 2);
	/* An empty file fits. */
	assert_int_equal(missing, 2);
	assert_string_equal(first_missing,
			    "/sys/kernel/notes: sys/kernel/notes, of 0.0 GiB, is left out: there "
			    "may be 8 GiB of a file, and 16 of all");
}

static void killed_process_leaves_nothing(void **state)
{
	static const int signals[] = {SIGKILL, SIGTERM};
	struct binary_archive_counts counts;
	struct archive_reader *reader;
	int status;
	pid_t child;

	(void)state;
	build_program();
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	for (size_t i = 0; i < 2; i++) {
		child = fork();
		if (child == 0) {
			if (open_archive("a.tar.zst", "/gone", "0123abcd", &reader) == 0)
				raise(signals[i]);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
		assert_true(is_empty(in_sandbox("tmp")));
	}
}

/* Large profiles */

/* `path` is a format with the number of the mapping. */
static struct profile *large_profile(const char *path, uint32_t mappings, uint32_t locations)
{
	struct profile *profile = empty_profile();

	for (uint32_t i = 0; i < locations; i++) {
		uint32_t number = i / (locations / mappings), mapping, location;
		uint64_t start = UINT64_C(0x10000) * number;
		char name[PATH_MAX];

		snprintf(name, sizeof(name), path, number);
		mapping = example_mapping(profile, start, start + 0x10000, 0, name, "");
		location = profile_location(profile, mapping, start + i, NULL, 0);
		example_add(profile, &location, 1, 1, 1, NULL, 0);
	}
	profile->time_ns = INT64_C(4000000000000000000);
	assert_int_equal(profile->mappings.count, mappings + 1);
	return profile;
}

static void steps_are_linear_in_mappings_and_locations(void **state)
{
	const uint32_t mappings = 50000, locations = 200000;
	struct profile *profile = large_profile("[heap %u]", mappings, locations);
	struct binary_archive_counts counts;
	uint64_t before = steps;

	(void)state;
	assert_int_equal(create(NULL, profile, &counts), -ENOENT);
	assert_in_range(steps - before, locations, 100 * (mappings + locations));
}

static uint64_t steps_for_files(uint32_t count)
{
	struct profile *profile = large_profile(in_sandbox("files/%%u"), count, count);
	struct binary_archive_counts counts;
	uint64_t before = steps;

	assert_int_equal(create(NULL, profile, &counts), 0);
	assert_int_equal(counts.binaries, count);
	return steps - before;
}

static void steps_are_linear_in_files(void **state)
{
	uint64_t few, many;

	(void)state;
	run("cd %s && mkdir files && echo 'int f;' >main.c && "
	    "cc -shared -nostdlib -Wl,--build-id=none -o files/0 main.c && "
	    "for i in $(seq 2000); do ln files/0 files/$i; done",
	    sandbox);
	few = steps_for_files(1000);
	many = steps_for_files(2000);
	assert_true(many > few);
	assert_in_range(many, few, few * 9 / 4);
}

/* Paths and build IDs are untrusted */

static char *output_of(int (*command)(int argc, char **argv), char *option, int status)
{
	char *argv[] = {"command",
			"-o",
			(char *)in_sandbox("out"),
			option,
			(char *)in_sandbox("profile.pb.gz"),
			NULL};
	int saved = dup(STDERR_FILENO), fd;
	char *text = calloc(1, 4096);

	fd = open(in_sandbox("stderr"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && fd >= 0);
	optind = 0;
	dup2(fd, STDERR_FILENO);
	assert_int_equal(command(5, argv), status);
	dup2(saved, STDERR_FILENO);
	assert_non_null(text);
	assert_true(pread(fd, text, 4095, 0) > 0);
	close(saved);
	close(fd);
	return text;
}

/* The function, or "", and the line of the only sample of a profile. */
static void expect_function(const char *path, const char *name, int64_t line)
{
	struct profile *profile = pprof_read(path, &error);
	const struct profile_location *location;
	const struct profile_line *lines;
	uint32_t function = 0;

	assert_non_null(profile);
	location = &profile->locations.items[1];
	lines = profile_lines(profile, location);
	if (location->line_count)
		function = profile->functions.items[lines[0].function].name;
	assert_string_equal(profile_text(profile, function), name);
	if (*name)
		assert_int_equal(lines[0].line, line);
	profile_free(profile);
}

/* Symbolizes sandbox/profile.pb.gz by an archive, if any; the messages are to be freed. */
static char *symbolize(const char *archive)
{
	char option[PATH_MAX];

	snprintf(option, sizeof(option), "--binaries=%s", in_sandbox("%s", archive));
	return output_of(cmd_symbolize, option, STATUS_OK);
}

/* The debug file is found by a worker, which is confined. */
static void archive_symbolizes(void **state)
{
	struct binary_archive_counts counts;
	char *text;

	(void)state;
	build_program();
	write_text(in_sandbox("main.c"), "int f(int x)\n{\n\treturn x + 1;\n}\n");
	run("cd %s && cc -g -shared -nostdlib -fcf-protection=none -Wl,--build-id=0x0123abcd "
	    "-Wl,-z,separate-code -Wl,-Ttext=0x1000 -o program main.c && "
	    "objcopy --only-keep-debug program debug/.build-id/01/23abcd.debug && strip program",
	    sandbox);
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	run("cd %s && rm -r program debug", sandbox);
	text = symbolize("a.tar.zst");
	assert_non_null(strstr(text, "symbolized 1 of 1 addresses"));
	free(text);
	expect_function(in_sandbox("out"), "f", 2);
	run("cd %s && tar cf none.tar main.c", sandbox);
	profile_free(profile_of(in_sandbox("program"), "4567"));
	text = symbolize("none.tar");
	assert_non_null(strstr(text, "was not found in the archive nor at its path"));
	free(text);
	expect_function(in_sandbox("out"), "", 0);
}

static void archive_symbolizes_kernel(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	static const uint32_t other_notes[] = {4, 2, 3, 0x00554e47, 0x0301};
	struct profile *profile = empty_profile();
	uint32_t mapping, location;
	char *text;

	(void)state;
	mapping = example_mapping(profile, 0xffffffff81000000, UINT64_MAX, 0, "[kernel.kallsyms]",
				  "0102");
	location = profile_location(profile, mapping, 0xffffffff81000110, NULL, 0);
	example_add(profile, &location, 1, 1, 1, NULL, 0);
	assert_int_equal(pprof_write(profile, in_sandbox("profile.pb.gz"), NULL, &error), 0);
	profile_free(profile);
	run("mkdir -p %s %s", in_sandbox("proc"), in_sandbox("sys/kernel"));
	write_text(in_sandbox("proc/kallsyms"), "ffffffff92000000 T _text\n"
						"ffffffff92000100 T vfs_read\n");
	write_text(in_sandbox("proc/modules"), "");
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	run("cd %s && tar cf a.tar proc/kallsyms proc/modules sys/kernel/notes", sandbox);
	text = symbolize("a.tar");
	assert_non_null(strstr(text, "symbolized 1 of 1 addresses"));
	free(text);
	expect_function(in_sandbox("out"), "vfs_read", 0);
	/* Of another build. */
	write_file(in_sandbox("sys/kernel/notes"), other_notes, sizeof(other_notes));
	run("cd %s && tar cf a.tar proc/kallsyms proc/modules sys/kernel/notes", sandbox);
	text = symbolize("a.tar");
	assert_non_null(strstr(text, "is of another build than the available kernel"));
	free(text);
}

static void messages_escape_control_characters(void **state)
{
	static const char *const ids[] = {"", "\x1b[32m\u202e"};
	char *texts[4];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		profile_free(profile_of("/gone/\x1b[31m\n\xc2\x9b", ids[i]));
		texts[2 * i] = output_of(cmd_archive, "--no-debug", STATUS_FAILED);
		texts[2 * i + 1] = output_of(cmd_symbolize, "--debug-dir=.", STATUS_OK);
	}
	for (size_t i = 0; i < 4; i++) {
		assert_null(strchr(texts[i], '\x1b'));
		assert_null(strstr(texts[i], "\xc2\x9b"));
		assert_null(strstr(texts[i], "\u202e"));
		assert_non_null(strstr(texts[i], "stackbeat: /gone/\\x1b[31m\\x0a\\x9b"));
		free(texts[i]);
	}
}

/* Binary finder */

static void binary_finder_searches_in_order(void **state)
{
	const char *program = in_sandbox("program"), *other = in_sandbox("other");

	(void)state;
	build_program();
	run("mkdir -p %s %s && cp %s %s && cp %s %s", in_sandbox("other/.build-id/01"),
	    in_sandbox("flat"), program, in_sandbox("other/.build-id/01/23abcd"), program,
	    in_sandbox("flat/name"));
	assert_int_equal(search(NULL, program, "0123abcd", 0), 0);
	assert_int_equal(search(other, "/gone", "0123abcd", 0), 0);
	assert_int_equal(search(in_sandbox("flat"), "/gone/name", "0123abcd", 0), 0);
	assert_int_equal(search(sandbox, "/program", "0123abcd", 0), 0);

	/* A worker compares the build ID. */
	assert_int_equal(search(NULL, program, "0123abce", 0), 0);
	assert_int_equal(search(other, "/gone", "4567", 0), -ENOENT);
	assert_non_null(strstr(error.text, "was not found in "));
	assert_int_equal(search(NULL, "/gone", "4567", 0), -ENOENT);
	assert_int_equal(search(NULL, "relative", "4567", 0), -ENOENT);
	assert_int_equal(search(other, "..", "4567", 0), -ENOENT);
	/* Without a build ID, the file must not be newer than the profile. */
	assert_int_equal(search(NULL, program, "", INT64_MAX), 0);
	assert_int_equal(search(NULL, program, "", 1), -ENOENT);
	assert_non_null(strstr(error.text, "has changed since the profile was taken"));
	/* A package may preserve an old mtime, but ctime is newer. */
	run("touch -d 2001-01-01 %s", program);
	assert_int_equal(search(NULL, program, "", now_ns() - HOUR), -ENOENT);
	assert_int_equal(search(sandbox, "/program", "", now_ns() - HOUR), 0);
	assert_int_equal(search(NULL, in_sandbox("main.c"), "", INT64_MAX), -ENOENT);
	/* Only regular files are opened. */
	run("rm %s && mkfifo %s", in_sandbox("main.c"), in_sandbox("main.c"));
	assert_int_equal(search(NULL, in_sandbox("main.c"), "", INT64_MAX), -ENOENT);
}

#define ARCHIVE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ARCHIVE_TEST(archived_files_are_unpacked),
		ARCHIVE_TEST(trusted_file_of_a_build_id_is_archived),
		ARCHIVE_TEST(saved_files_of_untrusted_users_may_not_differ),
		ARCHIVE_TEST(missing_files_are_counted),
		ARCHIVE_TEST(path_cannot_forge_a_worker_message),
		ARCHIVE_TEST(files_without_build_id_are_archived_by_path),
		ARCHIVE_TEST(malicious_archives_are_rejected),
		ARCHIVE_TEST(killed_process_leaves_nothing),
		ARCHIVE_TEST(only_wanted_files_are_stored),
		ARCHIVE_TEST(shared_debug_files_are_limited),
		ARCHIVE_TEST(two_archives_can_be_open),
		ARCHIVE_TEST(first_entry_of_a_name_is_taken),
		ARCHIVE_TEST(works_without_nameless_files),
		ARCHIVE_TEST(limit_of_open_files_is_raised),
		ARCHIVE_TEST(oversized_archives_are_rejected),
		ARCHIVE_TEST(oversized_files_are_skipped),
		ARCHIVE_TEST(kernel_files_may_be_left_out),
		ARCHIVE_TEST(steps_are_linear_in_mappings_and_locations),
		ARCHIVE_TEST(steps_are_linear_in_files),
		ARCHIVE_TEST(binary_finder_searches_in_order),
		ARCHIVE_TEST(archive_symbolizes),
		ARCHIVE_TEST(archive_symbolizes_kernel),
		ARCHIVE_TEST(messages_escape_control_characters),
	};

	if (libarchive_load(NULL))
		return 1;
	real_archive = libarchive;
	libarchive.write_header = write_header;
	libarchive.write_data = write_data;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
