// SPDX-License-Identifier: GPL-2.0
/* Mapped files: each is opened once, released, and never confused with another one. */
#include "mappings/mapped_files.h"
#include "mappings/mapped_vdso.h"
#include "mappings/opened_files.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "debuginfo/elf_symbols.h"
#include "fake_kernel_records.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/binary_store.h"
#include "mappings/find_mapped_file.h"
#include "patience.h"
#include "sandbox.h"
#include "worker_server.h"

static struct fake_files files;
static struct mapped_files *mapped;

/* The time passes only while something hangs: however busy the machine is, nothing else seems to.
 */
static int64_t now = NS_PER_SECOND;
static bool link_hangs; /* the call that is waited for does */

/* Replaces libc's function. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	const int64_t ns = __atomic_load_n(&now, __ATOMIC_RELAXED);

	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

/* Replaces libc's function: looks at the time again and again, as the test sets it. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *deadline)
{
	const int64_t end = deadline->tv_sec * NS_PER_SECOND + deadline->tv_nsec;
	struct timespec soon;

	if (__atomic_exchange_n(&link_hangs, false, __ATOMIC_RELAXED))
		__atomic_store_n(&now, end, __ATOMIC_RELAXED);
	if (__atomic_load_n(&now, __ATOMIC_RELAXED) >= end)
		return ETIMEDOUT;
	(void)clock;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &soon);
	soon.tv_nsec += 1000000;
	soon.tv_sec += soon.tv_nsec / NS_PER_SECOND;
	soon.tv_nsec %= NS_PER_SECOND;
	pthread_cond_timedwait(condition, mutex, &soon);
	return 0;
}

static int set_up(void **state)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	if (make_sandbox(state))
		return -1;
	/* Before threads are started. */
	worker_server();
	mapped = mapped_files_new("", &source, NULL);
	return mapped ? 0 : -1;
}

static int tear_down(void **state)
{
	mapped_files_free(mapped);
	fake_clear(&files);
	return remove_sandbox(state);
}

/* Builds sandbox/NAME with a function `symbol` at the start of its only segment. */
static const char *build(const char *name, const char *symbol, const char *build_id)
{
	char text[512];

	snprintf(text, sizeof(text),
		 ".text\n.globl %s\n.type %s, @function\n%s: .skip 16, 0x90\n.size %s, 16\n",
		 symbol, symbol, symbol, symbol);
	write_text(in_sandbox("source.s"), text);
	run("cc -nostdlib -shared -Wl,-z,separate-code -Wl,-Ttext=0x1000 -Wl,--build-id=%s -o %s "
	    "%s",
	    build_id, in_sandbox("%s", name), in_sandbox("source.s"));
	return in_sandbox("%s", name);
}

/* Sets the build ID that the kernel would have read. */
static struct stackbeat_file *with_build_id(union any_file *any, const char *bytes, uint32_t size)
{
	any->file.record.flags &= (uint16_t)~STACKBEAT_FILE_HEADERS_NOT_READ;
	any->file.build_id_size = size;
	memcpy(any->file.build_id, bytes, size);
	return &any->file;
}

static struct mapped_file *announce(const char *path, const char *build_id, uint32_t size)
{
	union any_file any;

	fake_file_record(&files, path, &any);
	with_build_id(&any, build_id, size);
	assert_int_equal(mapped_files_add(mapped, &any.file), 0);
	return mapped_files_get(mapped, any.file.file);
}

static void request(struct mapped_file *file)
{
	assert_int_equal(mapped_file_hold(mapped, file), 0);
}

/* Opens the first candidate that can be opened. */
static int open_first(const struct mapped_file *file)
{
	struct error error = {""};
	int fd = -1;

	for (unsigned int i = 0; fd < 0 && fd != -ENOENT; i++)
		fd = mapped_file_open_candidate(mapped, file, i, &error);
	assert_string_equal(error.text, fd < 0 ? file->problem : "");
	return fd;
}

/* Whether the function of a file opened as `fd`, which is closed, is `name`. */
static void assert_function(int fd, const char *name)
{
	struct symbol symbol = {.name = ""};
	struct elf_file elf = {0};
	struct error problem;

	assert_true(fd >= 0);
	assert_int_equal(elf_read(&elf, fd, NULL, 0, true, &problem), 0);
	assert_true(elf_lookup(&elf, 0x1000, &symbol));
	assert_string_equal(symbol.name, name);
	elf_clear(&elf);
	close(fd);
}

static void assert_symbol(const struct mapped_file *file, const char *name)
{
	assert_string_equal(file->problem, "");
	assert_function(open_first(file), name);
}

static void assert_no_file(const struct mapped_file *file)
{
	assert_int_equal(open_first(file), -ENOENT);
	assert_int_not_equal(strlen(file->problem), 0);
}

/* Returns the number of open files. */
static unsigned int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void requested_file_is_opened_and_released(void **state)
{
	struct mapped_file *file = announce(build("a.so", "first", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *other = announce(build("b.so", "second", "0x0a"), "\x0a", 1);

	(void)state;
	assert_ptr_not_equal(file, other);
	assert_string_equal(file->path, in_sandbox("a.so"));
	assert_string_equal(file->build_id, "01020304");
	assert_ptr_equal(mapped_files_at(mapped, file->index), file);
	request(file);
	request(file);
	mapped_files_finish(mapped);
	assert_int_equal(files.opened, 1);
	assert_int_equal(files.released, 2);
	assert_string_equal(file->problem, "");
	assert_symbol(file, "first");
	/* After mapped_files_finish(), requests do nothing. */
	request(other);
	assert_int_equal(files.opened, 1);
}

/* The same file with another id, or another path, is opened once; the other ids are released. */
static void same_file_by_other_ids_is_one_file(void **state)
{
	struct mapped_file *file = announce(build("a.so", "first", "0x01020304"), "\1\2\3\4", 4);

	(void)state;
	request(file);
	run("ln %s %s", in_sandbox("a.so"), in_sandbox("b.so"));
	assert_ptr_equal(announce(in_sandbox("a.so"), "\1\2\3\4", 4), file);
	assert_ptr_equal(announce(in_sandbox("b.so"), "\1\2\3\4", 4), file);
	assert_int_equal(files.fds[1], -1);
	assert_int_equal(files.fds[2], -1);
	assert_ptr_not_equal(announce(in_sandbox("a.so"), "\1\2\3\5", 4), file);
	request(file);
	mapped_files_finish(mapped);
	assert_int_equal(files.opened, 1);
}

static void identity_is_that_of_the_record(void **state)
{
	struct mapped_file *file = announce(build("a.so", "first", "0x0a"), "\x0a", 1);
	struct file_identity identity;
	struct stat st;

	(void)state;
	/* Another one could be opened in its place. */
	assert_false(mapped_file_identity(file, &identity));
	request(file);
	mapped_files_finish(mapped);
	assert_int_equal(stat(in_sandbox("a.so"), &st), 0);
	assert_true(mapped_file_identity(file, &identity));
	assert_int_equal(identity.inode, st.st_ino);
	assert_int_equal(identity.size, st.st_size);
	assert_true(identity.device == st.st_dev);
	assert_int_equal(identity.generation, 0);
	/* Its record has not arrived. */
	assert_false(mapped_file_identity(mapped_files_get(mapped, 77), &identity));
}

/* The record of the mapping may precede the record of the file. */
static void file_may_be_announced_after_its_request(void **state)
{
	union any_file any;
	struct mapped_file *file = mapped_files_get(mapped, 1);

	(void)state;
	assert_string_equal(file->path, "");
	request(file);
	fake_file_record(&files, build("a.so", "first", "0x0102"), &any);
	assert_int_equal(mapped_files_add(mapped, &any.file), 0);
	assert_ptr_equal(mapped_files_get(mapped, 1), file);
	assert_string_equal(file->path, in_sandbox("a.so"));
	mapped_files_finish(mapped);
	assert_symbol(file, "first");
	assert_int_equal(files.released, 1);
}

/* The kernel's file is opened, even if its path was removed or replaced. */
static void deleted_and_replaced_files_have_symbols(void **state)
{
	struct mapped_file *deleted =
		announce(build("a.so", "deleted", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *replaced = announce(build("b.so", "old", "0x02020304"), "\2\2\3\4", 4);
	struct mapped_file *rebuilt;

	(void)state;
	assert_int_equal(unlink(in_sandbox("a.so")), 0);
	build("c.so", "new", "0x03020304");
	run("mv %s %s", in_sandbox("c.so"), in_sandbox("b.so"));
	rebuilt = announce(in_sandbox("b.so"), "\3\2\3\4", 4);
	assert_ptr_not_equal(rebuilt, replaced);
	request(deleted);
	request(replaced);
	request(rebuilt);
	mapped_files_finish(mapped);
	assert_symbol(deleted, "deleted");
	assert_symbol(replaced, "old");
	assert_symbol(rebuilt, "new");
}

/* If the kernel refuses, the file is searched by path; another file there is rejected. */
static void refused_file_is_opened_by_path_if_unchanged(void **state)
{
	struct mapped_file *there = announce(build("a.so", "there", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *replaced = announce(build("b.so", "old", "0x02020304"), "\2\2\3\4", 4);
	struct mapped_file *gone = announce(build("c.so", "gone", "0x03020304"), "\3\2\3\4", 4);
	struct mapped_file *other;

	(void)state;
	/* A file without build ID is verified by its inode: a copy is another file. */
	other = mapped_files_get(mapped, fake_file(mapped, &files, build("d.so", "d", "none")));
	files.refuse = true;
	build("b.so", "new", "0x02020305");
	assert_int_equal(unlink(in_sandbox("c.so")), 0);
	run("cp %s %s && mv %s %s", in_sandbox("d.so"), in_sandbox("e.so"), in_sandbox("e.so"),
	    in_sandbox("d.so"));
	request(there);
	request(replaced);
	request(gone);
	request(other);
	mapped_files_finish(mapped);
	assert_int_equal(files.opened, 0);
	assert_symbol(there, "there");
	/* Its build ID proves that it is another one, which the caller has to check. */
	assert_string_equal(replaced->problem, "can't be opened: Permission denied");
	assert_int_equal(mapped_file_open_candidate(mapped, replaced, 0, NULL), -ESTALE);
	assert_function(mapped_file_open_candidate(mapped, replaced, 3, NULL), "new");
	assert_no_file(gone);
	assert_no_file(other);
}

static void refused_file_is_opened_by_map_files(void **state)
{
	const struct file_source source = fake_source(&files);
	struct mapped_file *file;
	union any_file any;

	(void)state;
	mapped_files_free(mapped);
	mapped = mapped_files_new(in_sandbox("root"), &source, NULL);
	fake_file_record(&files, build("a.so", "hidden", "0x01020304"), &any);
	strcpy(any.file.path, "/gone");
	assert_int_equal(mapped_files_add(mapped, with_build_id(&any, "\1\2\3\4", 4)), 0);
	file = mapped_files_get(mapped, 1);
	mapped_file_note_mapping(mapped, file, 7, 0x1000, 0x2000);
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	files.refuse = true;
	request(file);
	mapped_files_finish(mapped);
	assert_symbol(file, "hidden");
}

static void only_regular_files_are_opened(void **state)
{
	struct mapped_file *fifo, *null;
	union any_file any;

	(void)state;
	assert_int_equal(mkfifo(in_sandbox("fifo"), 0600), 0);
	fake_file_record(&files, in_sandbox("fifo"), &any);
	assert_int_equal(mapped_files_add(mapped, &any.file), 0);
	fifo = mapped_files_get(mapped, 1);
	null = mapped_files_get(mapped, fake_file(mapped, &files, "/dev/null"));
	request(fifo);
	request(null);
	mapped_files_finish(mapped);
	assert_no_file(fifo);
	assert_no_file(null);
}

static void unused_files_are_released(void **state)
{
	struct mapped_file *used = announce(build("a.so", "used", "0x0102"), "\1\2", 2);
	struct mapped_file *unused = announce(build("b.so", "unused", "0x0103"), "\1\3", 2);

	(void)state;
	for (int i = 0; i < 10; i++) {
		mapped_files_mark(mapped, used->index);
		mapped_files_sweep(mapped);
		/* Not in the first sweeps: a mapping record may be pending. */
		assert_int_equal(files.released, i >= 2);
	}
	assert_true(files.fds[0] >= 0);
	assert_int_equal(files.fds[1], -1);
	/* If it is mapped again, the kernel has another id for it. */
	assert_ptr_equal(announce(in_sandbox("b.so"), "\1\3", 2), unused);
	request(unused);
	request(used);
	mapped_files_finish(mapped);
	assert_symbol(unused, "unused");
	assert_symbol(used, "used");
	assert_int_equal(files.released, 3);
}

/* Pending records may refer to a released id. */
static void released_id_is_forgotten_after_some_sweeps(void **state)
{
	struct mapped_file *file = announce(build("a.so", "a", "0x0102"), "\1\2", 2);

	(void)state;
	for (int i = 0; i < 4; i++)
		mapped_files_sweep(mapped);
	assert_int_equal(files.released, 1);
	assert_ptr_equal(mapped_files_get(mapped, 1), file);
	request(file); /* opened by its path */
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(mapped);
	assert_ptr_not_equal(mapped_files_get(mapped, 1), file);
	/* Its slot can be used again. */
	assert_ptr_equal(announce(in_sandbox("a.so"), "\1\2", 2), file);
	assert_ptr_equal(mapped_files_get(mapped, 2), file);
	mapped_files_finish(mapped);
	assert_symbol(file, "a");
}

static void opened_files_are_released_while_recording(void **state)
{
	struct mapped_file *file = announce(build("a.so", "a", "0x0102"), "\1\2", 2);

	(void)state;
	request(file);
	while (!files.released)
		mapped_files_collect(mapped);
	assert_int_equal(files.fds[0], -1);
	assert_symbol(file, "a");
}

/* The very file that was mapped is kept open, whatever happens to its path. */
static void opened_files_are_kept(void **state)
{
	struct mapped_file *unlinked = announce(build("b.so", "unlinked", "0x0103"), "\1\3", 2);
	struct mapped_file *replaced = announce(build("c.so", "replaced", "0x0104"), "\1\4", 2);

	(void)state;
	assert_int_equal(unlink(in_sandbox("b.so")), 0);
	request(unlinked);
	request(replaced);
	mapped_files_finish(mapped);
	run("rm %s", in_sandbox("c.so"));
	build("c.so", "new", "0x0105");
	assert_symbol(unlinked, "unlinked");
	assert_symbol(replaced, "replaced");
	assert_int_equal(mapped_file_open_candidate(mapped, unlinked, 4, NULL), -ENOENT);
}

/* Opens `count` files of one owner, with or without a name. Returns the first of them. */
static uint64_t open_many(const char *name, unsigned int owner, unsigned int count, bool linked)
{
	uint64_t first = files.count + 1;

	for (unsigned int i = 0; i < count; i++) {
		const char *path = in_sandbox("%s.%u", name, i);

		run("cp %s %s", in_sandbox("many.so"), path);
		assert_int_equal(chown(path, owner, 0), 0);
		fake_file(mapped, &files, path);
		if (!linked)
			unlink(path);
	}
	for (unsigned int i = 0; i < count; i++)
		request(mapped_files_get(mapped, first + i));
	return first;
}

static unsigned int count_kept(uint64_t first, unsigned int count)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < count; i++) {
		int fd = mapped_file_open_candidate(mapped, mapped_files_get(mapped, first + i), 0,
						    NULL);

		kept += fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	return kept;
}

/* A user with many files closes neither the files of others nor, as long as possible, deleted ones.
 */
static void kept_files_are_bounded_fairly(void **state)
{
	struct file_source source = fake_source(&files);
	uint64_t deleted, linked, many;
	unsigned int before;

	(void)state;
	if (geteuid())
		skip();
	source.open_max = 32;
	mapped_files_free(mapped);
	mapped = mapped_files_new("", &source, NULL);
	build("many.so", "many", "none");
	before = open_files();
	deleted = open_many("deleted", 0, 8, false);
	linked = open_many("linked", 0, 8, true);
	many = open_many("hostile", 1000, 100, false);
	mapped_files_finish(mapped);
	assert_in_range(open_files() - before, 1, 32);
	assert_int_equal(count_kept(deleted, 8), 8);
	assert_int_equal(count_kept(linked, 8), 0);
	assert_in_range(count_kept(many, 100), 16, 24);
	for (unsigned int i = 0; i < 8; i++) {
		assert_symbol(mapped_files_get(mapped, deleted + i), "many");
		assert_symbol(mapped_files_get(mapped, linked + i), "many");
	}
}

/* The limit of the process counts, too. */
static void kept_files_leave_room(void **state)
{
	struct rlimit limit, lower;
	unsigned int before;

	(void)state;
	build("many.so", "many", "none");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = open_files();
	lower = limit;
	lower.rlim_cur = 128;
	open_many("many", geteuid(), 100, true);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	mapped_files_finish(mapped);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_in_range(open_files() - before, 1, 64);
}

/* Returns whether the first candidate is open as `fd`, and is not the inode. */
static bool opens_other(const struct mapped_file *file, ino_t inode, int *fd)
{
	struct stat st;

	*fd = mapped_file_open_candidate(mapped, file, 0, NULL);
	if (*fd < 0)
		return false;
	assert_int_equal(fstat(*fd, &st), 0);
	if (st.st_ino != inode)
		return true;
	close(*fd);
	return false;
}

/* As long as the file has a name, and no process maps it, its file system can be unmounted. */
static void unmapped_file_is_replaced_by_a_copy(void **state)
{
	struct mapped_file *file = announce(build("a.so", "copied", "0x0102"), "\1\2", 2);
	struct stat original, copy;
	int fd;

	(void)state;
	assert_int_equal(stat(in_sandbox("a.so"), &original), 0);
	request(file);
	wait_until((mapped_files_sweep(mapped), opens_other(file, original.st_ino, &fd)));
	assert_int_equal(fstat(fd, &copy), 0);
	assert_int_equal(copy.st_nlink, 0);
	/* A compromised worker gets it. */
	assert_true(pwrite(fd, "x", 1, 0) < 0);
	close(fd);
	run("rm %s", in_sandbox("a.so"));
	mapped_files_finish(mapped);
	assert_symbol(file, "copied");
}

/* Files that have changed since they were mapped can't be copied: they take no room of copies. */
static void failed_copies_leave_room(void **state)
{
	enum { FILES = MAPPED_FILES_COPIES_MAX / MAPPED_FILES_COPY_MAX };
	struct mapped_file *opened[FILES + 1] = {NULL}; /* the last one has not changed */
	struct stat original, copy;
	unsigned int before;

	(void)state;
	for (unsigned int i = 0; i < FILES; i++) {
		const char *path = in_sandbox("%u.so", i);

		run("truncate -s %llu %s", (unsigned long long)MAPPED_FILES_COPY_MAX, path);
		opened[i] = mapped_files_get(mapped, fake_file(mapped, &files, path));
		run("truncate -s -1 %s", path);
		request(opened[i]);
	}
	while (files.released < FILES)
		mapped_files_collect(mapped);
	before = open_files();
	while (open_files() < before + FILES)
		mapped_files_sweep(mapped);
	/* Until their descriptors for the copies are closed. */
	wait_until((mapped_files_collect(mapped), open_files() <= before));
	assert_int_equal(open_files(), before);
	opened[FILES] = announce(build("a.so", "copied", "0x0102"), "\1\2", 2);
	assert_int_equal(stat(in_sandbox("a.so"), &original), 0);
	request(opened[FILES]);
	while (files.released <= FILES)
		mapped_files_collect(mapped);
	for (int i = 0; i < 30; i++)
		mapped_files_sweep(mapped);
	mapped_files_finish(mapped);
	for (unsigned int i = 0; i <= FILES; i++) {
		int fd = mapped_file_open_candidate(mapped, opened[i], 0, NULL);

		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &copy), 0);
		assert_int_equal(copy.st_nlink, i < FILES);
		close(fd);
	}
	assert_int_not_equal(copy.st_ino, original.st_ino);
	assert_symbol(opened[FILES], "copied");
}

static void mapped_and_deleted_files_are_not_copied(void **state)
{
	struct mapped_file *live = announce(build("a.so", "live", "0x0102"), "\1\2", 2);
	struct mapped_file *deleted = announce(build("b.so", "deleted", "0x0103"), "\1\3", 2);
	const struct mapped_file *both[] = {live, deleted};
	struct stat st[2], now;
	int fd;

	(void)state;
	assert_int_equal(stat(in_sandbox("a.so"), &st[0]), 0);
	assert_int_equal(stat(in_sandbox("b.so"), &st[1]), 0);
	assert_int_equal(unlink(in_sandbox("b.so")), 0);
	request(live);
	request(deleted);
	for (int i = 0; i < 30; i++) {
		mapped_files_mark(mapped, live->index);
		mapped_files_sweep(mapped);
	}
	mapped_files_finish(mapped);
	for (int i = 0; i < 2; i++) {
		fd = mapped_file_open_candidate(mapped, both[i], 0, NULL);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &now), 0);
		assert_int_equal(now.st_ino, st[i].st_ino);
		close(fd);
	}
}

/* As many short-lived programs, each with a file of its own, as a build may run. */
static void files_of_ended_processes_are_forgotten(void **state)
{
	uint32_t highest = 0;
	struct mapped_file *held;
	union any_file any;

	(void)state;
	held = announce(build("a.so", "held", "0x0102"), "\1\2", 2);
	request(held);
	fake_file_record(&files, in_sandbox("a.so"), &any);
	for (uint64_t id = 2; id < 100000; id++) {
		struct mapped_file *file;

		any.file.file = id;
		any.file.inode = id;
		assert_int_equal(mapped_files_add(mapped, &any.file), 0);
		file = mapped_files_get(mapped, id);
		mapped_file_note_mapping(mapped, file, 7, 0x1000, 0x2000);
		if (file->index > highest)
			highest = file->index;
		if (id % 100 == 0)
			mapped_files_sweep(mapped);
	}
	assert_in_range(highest, 1000, 3000);
	assert_ptr_equal(mapped_files_at(mapped, held->index), held);
	mapped_files_finish(mapped);
	assert_symbol(held, "held");
}

size_t __sanitizer_get_current_allocated_bytes(void);

/* What the table says that it takes is what the heap has given, and it gives it back. */
static void memory_of_the_table_is_known(void **state)
{
	const size_t before = mapped_files_bytes(mapped);
	const size_t heap = __sanitizer_get_current_allocated_bytes();
	static union any_file any;
	size_t used, empty;

	(void)state;
	write_text(in_sandbox("a"), "text");
	fake_file_record(&files, in_sandbox("a"), &any);
	memset(any.file.path, 'x', STACKBEAT_PATH_MAX - 1);
	for (uint64_t id = 2; id < 1000; id++) {
		any.file.file = id;
		any.file.inode = id;
		any.file.path[id] = '\0';
		assert_int_equal(mapped_files_add(mapped, &any.file), 0);
		any.file.path[id] = 'x';
		if (id % 2)
			mapped_file_set_build_id(mapped, mapped_files_get(mapped, id), "abcdef");
		/* Again, by another id. */
		assert_non_null(mapped_files_get(mapped, 5000 + id));
	}
	used = mapped_files_bytes(mapped) - before;
	assert_true(used > 998 * 500);
	assert_int_equal(__sanitizer_get_current_allocated_bytes() - heap, used);
	for (int i = 0; i < 100; i++)
		mapped_files_sweep(mapped);
	empty = mapped_files_bytes(mapped) - before;
	assert_true(empty < used / 5);
	assert_int_equal(__sanitizer_get_current_allocated_bytes() - heap, empty);
}

/* The reason why a file can't be opened is a part of it. */
static void memory_of_problems_is_known(void **state)
{
	struct mapped_file *file = announce(build("a.so", "a", "0x0102"), "\1\2", 2);
	const size_t before = mapped_files_bytes(mapped);

	(void)state;
	files.refuse = true;
	run("rm %s", in_sandbox("a.so"));
	request(file);
	mapped_files_finish(mapped);
	assert_int_not_equal(strlen(file->problem), 0);
	assert_int_equal(mapped_files_bytes(mapped) - before, strlen(file->problem) + 1);
}

static void released_file_is_forgotten(void **state)
{
	struct mapped_file *file = announce(build("a.so", "a", "0x0102"), "\1\2", 2);
	uint32_t index = file->index;
	unsigned int before;

	(void)state;
	request(file);
	request(file);
	while (!files.released)
		mapped_files_collect(mapped);
	before = open_files();
	mapped_file_release(mapped, file);
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(mapped);
	assert_ptr_equal(mapped_files_at(mapped, index), file);
	mapped_file_release(mapped, file);
	wait_until((mapped_files_sweep(mapped), open_files() < before));
	assert_in_range(open_files(), 1, before - 1);
	/* Its index is used again. */
	assert_int_equal(announce(build("b.so", "b", "0x0103"), "\1\3", 2)->index, index);
}

/* Requested files that are not opened yet are dropped, and later requests do nothing. */
static void abandoned_files_are_not_opened(void **state)
{
	(void)state;
	build("many.so", "many", "none");
	for (unsigned int i = 0; i < 50; i++)
		request(mapped_files_get(mapped, fake_file(mapped, &files, in_sandbox("many.so"))));
	mapped_files_abandon(mapped);
	request(mapped_files_get(mapped, fake_file(mapped, &files, in_sandbox("many.so"))));
	assert_true(files.opened <= 50);
	assert_int_equal(files.released,
			 50); /* one file: each further id was released immediately */
}

static void the_vdso_is_a_file(void **state)
{
	struct mapped_file *file = mapped_files_vdso(mapped);
	struct symbol symbol;
	struct elf_file elf = {0};
	struct error problem;
	bool found = false;
	int fd;

	(void)state;
	assert_ptr_equal(file, mapped_files_vdso(mapped));
	assert_string_equal(file->path, "[vdso]");
	request(file);
	for (int i = 0; i < 30; i++)
		mapped_files_sweep(mapped);
	mapped_files_finish(mapped);
	fd = open_first(file);
	assert_true(fd >= 0);
	assert_int_equal(elf_read(&elf, fd, NULL, 0, true, &problem), 0);
	assert_int_not_equal(strlen(elf.build_id), 0);
	assert_string_equal(file->build_id, elf.build_id);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (elf_lookup(&elf, vaddr, &symbol))
			found |= strstr(symbol.name, "clock_gettime") != NULL;
	}
	assert_true(found);
	elf_clear(&elf);
	close(fd);
}

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;
static bool hangs;
static unsigned int hanging; /* threads */

/* Hangs as long as `hangs`. */
static void hang(void)
{
	pthread_mutex_lock(&hang_lock);
	hanging++;
	while (hangs)
		pthread_cond_wait(&hang_changed, &hang_lock);
	hanging--;
	pthread_cond_broadcast(&hang_changed);
	pthread_mutex_unlock(&hang_lock);
}

/* The server is up again. */
static void end_hang(void)
{
	pthread_mutex_lock(&hang_lock);
	hangs = false;
	pthread_cond_broadcast(&hang_changed);
	while (hanging)
		pthread_cond_wait(&hang_changed, &hang_lock);
	pthread_mutex_unlock(&hang_lock);
}

static bool map_files_hang;
static unsigned int unsynced; /* calls of statx() with AT_STATX_DONT_SYNC */

/* Replaces libc's function. */
int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *st)
{
	unsynced += !!(flags & AT_STATX_DONT_SYNC);
	if (map_files_hang) {
		__atomic_store_n(&link_hangs, true, __ATOMIC_RELAXED);
		hang();
	}
	return (int)syscall(SYS_statx, folder, path, flags, mask, st);
}

/* Links in a container are resolved there, and must not lead out of it. */
static void path_in_a_container_stays_there(void **state)
{
	const struct file_source source = fake_source(&files);
	const char *link = in_sandbox("root/proc/7/root/link");
	struct mapped_file *file;
	union any_file any;

	(void)state;
	mapped_files_free(mapped);
	mapped = mapped_files_new(in_sandbox("root"), &source, NULL);
	run("mkdir -p %s %s", in_sandbox("outside"), in_sandbox("root/proc/7/root/inside"));
	fake_file_record(&files, build("outside/a.so", "f", "0x01020304"), &any);
	strcpy(any.file.path, "/link/a.so");
	assert_int_equal(mapped_files_add(mapped, with_build_id(&any, "\1\2\3\4", 4)), 0);
	file = mapped_files_get(mapped, 1);
	mapped_file_note_mapping(mapped, file, 7, 0x1000, 0x2000);
	run("ln -s %s %s", in_sandbox("outside"), link);
	assert_int_equal(open_first(file), -ENOENT);
	run("rm %s && ln -s /inside %s", link, link);
	run("cp %s %s", in_sandbox("outside/a.so"), in_sandbox("root/proc/7/root/inside"));
	assert_symbol(file, "f");
}

static void file_that_the_kernel_does_not_hold_is_found(void **state)
{
	const struct file_source source = fake_source(&files);
	struct mapped_file *file;

	(void)state;
	mapped_files_free(mapped);
	mapped = mapped_files_new(in_sandbox("root"), &source, NULL);
	build("a.so", "not_held", "0x01020304");
	unsynced = 0;
	assert_null(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000));
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	file = mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000);
	assert_non_null(file);
	assert_int_equal(unsynced, 1);
	assert_ptr_equal(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000), file);
	assert_string_equal(file->path, in_sandbox("a.so"));
	request(file);
	mapped_files_finish(mapped);
	assert_symbol(file, "not_held");
}

/* As if the process held a lock of its address space, and waited for a file system. */
static void process_that_blocks_its_mappings_stops_nobody(void **state)
{
	const struct file_source source = fake_source(&files);
	int64_t start = now;

	(void)state;
	mapped_files_free(mapped);
	mapped = mapped_files_new(in_sandbox("root"), &source, NULL);
	build("a.so", "a", "0x01020304");
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	hangs = map_files_hang = true;
	for (int i = 0; i < 100; i++)
		assert_null(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000));
	assert_in_range(now - start, NS_PER_SECOND, 60 * NS_PER_SECOND);
	map_files_hang = false;
	end_hang();
	wait_until(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000));
}

static void binaries_are_saved_by_build_id(void **state)
{
	struct mapped_files_counts counts;
	struct error error;
	struct mapped_file *a, *none;

	(void)state;
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	a = announce(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4);
	none = mapped_files_get(mapped, fake_file(mapped, &files, build("b.so", "b", "none")));
	announce(build("c.so", "c", "0xabcdef02"), "\xab\xcd\xef\2", 4);
	request(a);
	request(none);
	request(mapped_files_vdso(mapped));
	mapped_files_finish(mapped);
	run("cmp %s %s", in_sandbox("a.so"), in_sandbox("saved/.build-id/ab/cdef01"));
	run("test $(find %s -type f | wc -l) = 2", in_sandbox("saved"));
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.opened, 2);
	assert_int_equal(counts.saved, 2);
	assert_int_equal(counts.without_id, 1);
	assert_int_equal(counts.not_saved, 0);
	assert_string_equal(mapped_files_save_problem(mapped), "");
}

/*
 * A process that writes a file of --rotate finds the build ID of a file whose headers the kernel
 * could not read: this process must save it all the same, with the ID that the file has.
 */
static void files_with_unread_headers_are_saved(void **state)
{
	struct mapped_files_counts counts;
	struct mapped_file *file, *text;
	struct error error;

	(void)state;
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	file = mapped_files_get(mapped,
				fake_file(mapped, &files, build("a.so", "a", "0xabcdef01")));
	write_text(in_sandbox("text"), "no ELF file");
	text = mapped_files_get(mapped, fake_file(mapped, &files, in_sandbox("text")));
	request(file);
	request(text);
	mapped_files_finish(mapped);
	run("cmp %s %s", in_sandbox("a.so"), in_sandbox("saved/.build-id/ab/cdef01"));
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.saved, 1);
	assert_int_equal(counts.without_id, 1);
	assert_int_equal(counts.not_saved, 0);
}

static void saved_binary_is_not_overwritten(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	run("mkdir -p %s", in_sandbox("saved/.build-id/ab"));
	write_text(in_sandbox("saved/.build-id/ab/cdef01"), "mine");
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	request(announce(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	run("test \"$(cat %s)\" = mine", in_sandbox("saved/.build-id/ab/cdef01"));
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.saved, 1);
}

static off_t size_of(const char *path, off_t *on_disk)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	*on_disk = st.st_blocks * 512;
	return st.st_size;
}

/* The header of a file may claim anything about its size. */
static void holes_are_not_saved(void **state)
{
	const char *path = build("a.so", "a", "0xabcdef01");
	off_t on_disk, saved_on_disk;
	struct error error;

	(void)state;
	run("truncate -s 64M %s && printf end >>%s", path, path);
	assert_int_equal(size_of(path, &on_disk), (64 << 20) + 3);
	assert_in_range(on_disk, 1, 1 << 20);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	request(announce(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	size_of(in_sandbox("saved/.build-id/ab/cdef01"), &saved_on_disk);
	assert_in_range(saved_on_disk, 1, 1 << 20);
	run("cmp %s %s", path, in_sandbox("saved/.build-id/ab/cdef01"));
}

static void too_large_binary_is_not_saved(void **state)
{
	const char *path = build("a.so", "a", "0xabcdef01");
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	run("truncate -s 5G %s", path);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	request(announce(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.saved, 0);
	assert_int_equal(counts.not_saved, 1);
	assert_non_null(strstr(mapped_files_save_problem(mapped), "more than 4 GiB"));
	run("test -z \"$(ls -A %s)\"", in_sandbox("saved/.build-id/ab"));
}

/* Any user can give a file the build ID of another one. */
static void untrusted_binaries_are_saved_apart(void **state)
{
	struct mapped_file *claims, *shared, *genuine;
	struct error error;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	claims = announce(build("claims.so", "claims", "0xabcdef01"), "\xab\xcd\xef\1", 4);
	assert_int_equal(chown(in_sandbox("claims.so"), 1000, 1000), 0);
	shared = announce(build("shared.so", "shared", "0xabcdef01"), "\xab\xcd\xef\1", 4);
	assert_int_equal(chmod(in_sandbox("shared.so"), 0775), 0);
	genuine = announce(build("a.so", "genuine", "0xabcdef01"), "\xab\xcd\xef\1", 4);
	request(claims);
	request(shared);
	request(genuine);
	mapped_files_finish(mapped);
	run("cd %s/.. && cmp a.so saved/.build-id/ab/cdef01", in_sandbox("saved"));
	run("cd %s/.. && cmp claims.so saved/.untrusted/1000/.build-id/ab/cdef01",
	    in_sandbox("saved"));
	run("cd %s/.. && cmp shared.so saved/.untrusted/0/.build-id/ab/cdef01",
	    in_sandbox("saved"));
}

static void errors_of_saving_are_reported(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	write_text(in_sandbox("file"), "");
	assert_int_equal(mapped_files_save(mapped, in_sandbox("file"), worker_server(), &error),
			 -ENOTDIR);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("no/such"), worker_server(), &error),
			 -ENOENT);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), worker_server(), &error),
			 0);
	write_text(in_sandbox("saved/.build-id/ab"), "in the way");
	request(announce(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.not_saved, 1);
	assert_non_null(
		strstr(mapped_files_save_problem(mapped), in_sandbox("saved/.build-id/ab")));
}

#define HANG_S 1

/* Hangs for the id of the second file, as a file whose server is down. */
static int hang_at_second(uint64_t id, void *arg)
{
	if (id == 2) {
		__atomic_add_fetch(&now, HANG_S * NS_PER_SECOND, __ATOMIC_RELAXED);
		hang();
	}
	return fake_open(id, arg);
}

static void request_three(struct mapped_file *three[3])
{
	struct file_source source = fake_source(&files);
	struct error error;

	hangs = true;
	source.open = hang_at_second;
	source.timeout_s = HANG_S;
	mapped_files_free(mapped);
	mapped = mapped_files_new("", &source, &error);
	three[0] = announce(build("a.so", "first", "0x01"), "\x01", 1);
	three[1] = announce(build("b.so", "second", "0x02"), "\x02", 1);
	three[2] = announce(build("c.so", "third", "0x03"), "\x03", 1);
	for (size_t i = 0; i < 3; i++)
		request(three[i]);
}

static void assert_second_hung(struct mapped_file *const three[3])
{
	struct error error;

	assert_symbol(three[0], "first");
	assert_string_equal(three[1]->problem, "its file system has hung");
	assert_int_equal(mapped_file_open_candidate(mapped, three[1], 0, &error), -ENOENT);
	assert_string_equal(error.text, three[1]->problem);
	assert_symbol(three[2], "third");
}

static void file_that_hangs_costs_its_own_symbols_only(void **state)
{
	struct mapped_file *three[3];

	(void)state;
	request_three(three);
	mapped_files_finish(mapped);
	assert_second_hung(three);
	end_hang();
}

/* The kernel keeps a limited number of files: the others must be released in time. */
static void file_that_hangs_is_given_up_while_recording(void **state)
{
	struct mapped_file *three[3], *later;

	(void)state;
	request_three(three);
	wait_until((mapped_files_sweep(mapped), files.released >= 3));
	assert_int_equal(files.released, 3);
	assert_second_hung(three);
	later = announce(build("d.so", "fourth", "0x04"), "\x04", 1);
	request(later);
	wait_until((mapped_files_collect(mapped), files.released >= 4));
	assert_symbol(later, "fourth");
	/* The thread may resume at any time, also after the end. */
	mapped_files_free(mapped);
	mapped = NULL;
	end_hang();
}

/* Its file system is there again. */
static void file_that_has_hung_is_opened_later(void **state)
{
	struct mapped_file *three[3];
	struct error error;
	int fd;

	(void)state;
	request_three(three);
	wait_until((mapped_files_sweep(mapped), files.released >= 3));
	assert_second_hung(three);
	end_hang();
	/* The kernel has released it: it is opened by its path. */
	for (unsigned int i = 0; i < 60; i++) {
		mapped_files_mark(mapped, three[1]->index);
		mapped_files_sweep(mapped);
	}
	mapped_files_finish(mapped);
	assert_string_equal(three[1]->problem, "");
	fd = mapped_file_open_candidate(mapped, three[1], 0, &error);
	assert_function(fd, "second");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static void symbols_can_be_skipped(void **state)
{
	(void)state;
	assert_true(mapped_files_have_symbols(mapped));
	mapped_files_skip_symbols(mapped);
	assert_false(mapped_files_have_symbols(mapped));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requested_file_is_opened_and_released),
		TEST(same_file_by_other_ids_is_one_file),
		TEST(identity_is_that_of_the_record),
		TEST(file_may_be_announced_after_its_request),
		TEST(deleted_and_replaced_files_have_symbols),
		TEST(refused_file_is_opened_by_path_if_unchanged),
		TEST(refused_file_is_opened_by_map_files),
		TEST(only_regular_files_are_opened),
		TEST(unused_files_are_released),
		TEST(released_id_is_forgotten_after_some_sweeps),
		TEST(opened_files_are_released_while_recording),
		TEST(opened_files_are_kept),
		TEST(kept_files_are_bounded_fairly),
		TEST(kept_files_leave_room),
		TEST(unmapped_file_is_replaced_by_a_copy),
		TEST(failed_copies_leave_room),
		TEST(mapped_and_deleted_files_are_not_copied),
		TEST(files_of_ended_processes_are_forgotten),
		TEST(memory_of_the_table_is_known),
		TEST(memory_of_problems_is_known),
		TEST(released_file_is_forgotten),
		TEST(abandoned_files_are_not_opened),
		TEST(file_that_hangs_costs_its_own_symbols_only),
		TEST(file_that_hangs_is_given_up_while_recording),
		TEST(file_that_has_hung_is_opened_later),
		TEST(the_vdso_is_a_file),
		TEST(path_in_a_container_stays_there),
		TEST(file_that_the_kernel_does_not_hold_is_found),
		TEST(process_that_blocks_its_mappings_stops_nobody),
		TEST(binaries_are_saved_by_build_id),
		TEST(files_with_unread_headers_are_saved),
		TEST(saved_binary_is_not_overwritten),
		TEST(holes_are_not_saved),
		TEST(too_large_binary_is_not_saved),
		TEST(untrusted_binaries_are_saved_apart),
		TEST(errors_of_saving_are_reported),
		TEST(symbols_can_be_skipped),
	};

	return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}
