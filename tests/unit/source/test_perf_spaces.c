// SPDX-License-Identifier: GPL-2.0
/* What a source of perf events knows of processes and files stays right and bounded over days. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absent_processes.h"
#include "lib/fixed_disk.h"
#include "lib/regular_file.h"
#include "sandbox.h"
#include "source/perf_files.h"
#include "source/perf_record.h"
#include "source/perf_spaces.h"
#include "source/record_buffer.h"

/* More files than are remembered at a time. */
#define FILES 70000u
#define PAGES 64u
#define ROUNDS 2000u

/* What the disk and the file system of all files say. */
static bool disk_is_fixed;
static int generation_of_files; /* -1: unknown */

bool device_is_fixed_disk(const char *root, uint64_t device)
{
	(void)root;
	(void)device;
	return disk_is_fixed;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request != FS_IOC_GETVERSION)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	if (generation_of_files >= 0) {
		*(int *)arg = generation_of_files;
		return 0;
	}
	errno = ENOTTY;
	return -1;
}

/* What the file system of regular files says; 0: what it is. */
static dev_t device_of_files;
static unsigned int type_of_files;

int fstat(int fd, struct stat *status)
{
	const int err = (int)syscall(SYS_fstat, fd, status);

	if (!err && device_of_files && S_ISREG(status->st_mode))
		status->st_dev = device_of_files;
	return err;
}

int fstatfs(int fd, struct statfs *fs)
{
	const int err = (int)syscall(SYS_fstatfs, fd, fs);

	if (type_of_files)
		fs->f_type = type_of_files;
	return err;
}

static bool is_read_only;

int fstatvfs(int fd, struct statvfs *system)
{
	(void)fd;
	*system = (struct statvfs){.f_flag = is_read_only ? ST_RDONLY : 0};
	return 0;
}

static struct perf_files *files;
static struct perf_spaces *spaces;
static struct record_buffer out;

static int set_up(void **state)
{
	files = perf_files_new();
	spaces = perf_spaces_new(files, &out);
	return !spaces || make_sandbox(state);
}

static int tear_down(void **state)
{
	perf_spaces_free(spaces);
	perf_files_free(files);
	record_buffer_clear(&out);
	/* A file that is not held has no descriptor that is closed. */
	assert_int_not_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	return remove_sandbox(state);
}

static void map(uint32_t pid, uint64_t start, uint64_t end, uint64_t inode)
{
	const struct perf_mapping mapping = {.start = start,
					     .end = end,
					     .offset = start,
					     .device_major = 8,
					     .inode = inode,
					     .path = "/none/file"};

	assert_int_equal(perf_spaces_map(spaces, pid, &mapping), 0);
}

static void exec(uint32_t pid)
{
	assert_int_equal(perf_spaces_comm(spaces, pid, pid, "program", true), 0);
}

/* Samples a process, whose records are in `out` then. */
static void sample(uint32_t pid)
{
	uint32_t generation;
	uint64_t id;

	record_buffer_remove(&out, out.used);
	assert_int_equal(perf_spaces_sample(spaces, pid, &id, &generation), 0);
}

/* Calls `fn` with each record of `out` that has a type. Returns their number. */
static size_t each_record(uint16_t type, void (*fn)(const void *record))
{
	size_t count = 0;

	for (size_t at = 0; at < out.used;) {
		const struct stackbeat_record *record = (const void *)(out.data + at);

		if (record->type == type) {
			fn(record);
			count++;
		}
		at += record->size;
	}
	return count;
}

static void nothing(const void *record)
{
	(void)record;
}

static uint64_t file_id;
static uint32_t file_generation;
static bool file_lasts;

static void note_file(const void *record)
{
	const struct stackbeat_file *file = record;

	file_id = file->file;
	file_generation = file->inode_generation;
	file_lasts = file->record.flags & STACKBEAT_FILE_LASTING;
}

/* Of a process that has no such mapping, so that the file is found by its path. */
static uint64_t announce(uint32_t index, pid_t pid)
{
	const struct perf_file_place place = {(uint32_t)pid, 0x1000, 0x2000};

	return perf_files_announce(files, index, &place, &out);
}

/* A machine that builds programs all day. */
static void files_that_nothing_maps_are_forgotten(void **state)
{
	const struct perf_file_key key = {.major = 8, .inode = FILES + 1};
	struct perf_spaces_counts counts;

	(void)state;
	for (uint32_t i = 1; i <= FILES; i++) {
		exec(PID);
		map(PID, 0x1000, 0x2000, i);
		if (i % 1000 == 0)
			perf_spaces_sweep(spaces);
	}
	perf_spaces_counts(spaces, &counts);
	assert_int_equal(counts.without_file, 0);
	perf_spaces_sweep(spaces);
	/* The last file has a place of a file that was swept. */
	assert_true(perf_files_index(files, &key, "/none/file") < 1001);
}

/* The reader asks for its bytes, and releases it. */
static void announced_files_are_kept(void **state)
{
	const struct perf_file_key key = {.major = 8, .inode = 4242};
	uint32_t index;

	(void)state;
	exec(PID);
	map(PID, 0x1000, 0x2000, key.inode);
	sample(PID);
	assert_int_equal(each_record(STACKBEAT_RECORD_FILE, note_file), 1);
	exec(PID);
	perf_spaces_sweep(spaces);
	index = perf_files_index(files, &key, "/none/file");
	assert_int_equal(announce(index, PID), file_id);
	perf_files_drop(files, index);
	assert_int_equal(perf_files_release(files, file_id), 0);
	perf_spaces_sweep(spaces);
	assert_int_equal(perf_files_release(files, file_id), -ENOENT);
	/* It is another file: of the same inode, but new. */
	index = perf_files_index(files, &key, "/none/file");
	assert_true(announce(index, PID) > file_id);
}

/* Pages of the process: the inode of each, as a model. */
static uint64_t pages[PAGES], got[PAGES];

static void note_mapping(const void *record)
{
	const struct stackbeat_mapping *mapping = record;

	assert_int_equal(mapping->offset, mapping->start);
	for (uint64_t page = mapping->start >> 12; page < mapping->end >> 12; page++) {
		assert_int_equal(got[page], 0);
		got[page] = mapping->file;
	}
}

/* Which inode a file ID has. */
static uint64_t inodes[ROUNDS * PAGES];

static void note_inode(const void *record)
{
	const struct stackbeat_file *file = record;

	inodes[file->file] = file->inode;
}

static void release_file(const void *record)
{
	const struct stackbeat_file *file = record;

	assert_int_equal(perf_files_release(files, file->file), 0);
}

/* Files, too: a use that is dropped too early frees what is still mapped. */
static void mappings_are_as_in_a_model(void **state)
{
	unsigned int seed = 47;

	(void)state;
	exec(PID);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		const uint64_t first = (uint64_t)rand_r(&seed) % PAGES;
		const uint64_t count = 1 + (uint64_t)rand_r(&seed) % (PAGES - first);

		map(PID, first << 12, (first + count) << 12, round);
		for (uint64_t page = first; page < first + count; page++)
			pages[page] = round;
		if (round % 16)
			continue;
		/* A child has the same mappings, and its end leaves the parent's. */
		assert_int_equal(perf_spaces_fork(spaces, CHILD, CHILD, PID, PID), 0);
		sample(CHILD);
		memset(got, 0, sizeof(got));
		each_record(STACKBEAT_RECORD_FILE, note_inode);
		assert_true(each_record(STACKBEAT_RECORD_MAPPING, note_mapping));
		for (uint64_t page = 0; page < PAGES; page++)
			assert_int_equal(got[page] ? inodes[got[page]] : 0, pages[page]);
		each_record(STACKBEAT_RECORD_FILE, release_file);
		perf_spaces_exit(spaces, CHILD, CHILD);
		perf_spaces_sweep(spaces);
	}
}

/* Their ends may be among the records that were lost: else the table has all threads for ever. */
static void threads_are_forgotten_after_lost_records(void **state)
{
	char comm[STACKBEAT_COMM_SIZE];

	(void)state;
	exec(PID);
	assert_int_equal(perf_spaces_comm(spaces, PID, PID + 1, "worker", false), 0);
	perf_spaces_sweep(spaces);
	perf_spaces_thread_comm(spaces, PID, PID + 1, comm);
	assert_string_equal(comm, "worker");
	perf_spaces_lost(spaces);
	perf_spaces_sweep(spaces);
	perf_spaces_thread_comm(spaces, PID, PID + 1, comm);
	assert_string_equal(comm, "");
	/* The process, too. */
	sample(PID);
	assert_int_equal(each_record(STACKBEAT_RECORD_MAPPING, nothing), 0);
}

/* Returns the index of a file in the place of which there is none yet. */
static uint32_t hide_file(void)
{
	struct perf_file_key key;
	struct stat st;
	uint32_t index;

	write_text(in_sandbox("hidden"), "");
	assert_int_equal(stat(in_sandbox("hidden"), &st), 0);
	key = (struct perf_file_key){
		.major = major(st.st_dev),
		.minor = minor(st.st_dev),
		.inode = st.st_ino,
	};
	index = perf_files_index(files, &key, in_sandbox("file"));
	assert_int_not_equal(index, PERF_FILE_NONE);
	return index;
}

static void show_file(void)
{
	assert_int_equal(rename(in_sandbox("hidden"), in_sandbox("file")), 0);
}

/* In a container, processes that have ended show no files of others. */
static void file_of_an_ended_process_is_found_in_the_next_one(void **state)
{
	const uint32_t file = hide_file();
	uint64_t first, second;
	int fd;

	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		first = announce(file, PID);
	assert_int_not_equal(first, 0);
	assert_int_equal(perf_files_open(files, first), -ENOENT);
	show_file();
	assert_int_equal(announce(file, PID), first);
	record_buffer_remove(&out, out.used);
	second = announce(file, getpid());
	assert_int_not_equal(second, first);
	assert_int_equal(each_record(STACKBEAT_RECORD_FILE, note_file), 1);
	assert_int_equal(file_id, second);
	fd = perf_files_open(files, second);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(announce(file, getpid()), second);
	assert_int_equal(perf_files_release(files, first), -ENOENT);
	assert_int_equal(perf_files_release(files, second), 0);
}

/* Each try costs a thread. */
static void file_that_no_process_shows_is_given_up(void **state)
{
	const uint32_t file = hide_file();
	uint64_t id;

	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		id = announce(file, getpid());
	show_file();
	assert_int_equal(announce(file, getpid()), id);
	assert_int_equal(perf_files_open(files, id), -ENOENT);
}

/* Up to eight tries. */
static void file_that_is_shown_late_is_found(void **state)
{
	(void)state;
	for (unsigned int tries = 7; tries <= 8; tries++) {
		const uint32_t file = hide_file();
		uint64_t id;
		int fd;

		for (unsigned int i = 0; i < tries; i++)
			id = announce(file, getpid());
		show_file();
		id = announce(file, getpid());
		fd = perf_files_open(files, id);
		assert_int_equal(fd >= 0, tries < 8);
		if (fd >= 0)
			close(fd);
		assert_int_equal(perf_files_release(files, id), 0);
		perf_files_drop(files, file);
		perf_files_sweep(files);
	}
}

/* Its path leads nowhere: it is found by its mapping, which is there as long as the process. */
static void file_of_a_mapping_is_found(void **state)
{
	const char *path = in_sandbox("file");
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_file_place place = {.pid = (uint32_t)getpid()};
	struct perf_file_key key = {.generation = 7};
	struct stat st;
	char *bytes;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	place.start = (uint64_t)bytes;
	place.end = place.start + size;
	key.major = major(st.st_dev);
	key.minor = minor(st.st_dev);
	key.inode = st.st_ino;
	disk_is_fixed = true;
	generation_of_files = 7;
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(unlink(path), 0);
	record_buffer_remove(&out, out.used);
	assert_int_equal(
		perf_files_announce(files, perf_files_index(files, &key, ""), &place, &out), 1);
	disk_is_fixed = false;
	assert_int_equal(((const struct stackbeat_file *)out.data)->size, size);
	assert_int_equal(each_record(STACKBEAT_RECORD_FILE, note_file), 1);
	/* It has no name that another process can find it by. */
	assert_false(file_lasts);
	munmap(bytes, size);
}

/* A process may have a file of its own at the path, with any inode number. */
static void files_of_other_devices_are_others(void **state)
{
	const struct {
		dev_t device;
		unsigned int type;
		uint64_t other_inode;
		bool is_found;
	} cases[] = {
		{makedev(8, 1), TMPFS_MAGIC, 0, true},
		{makedev(8, 1), TMPFS_MAGIC, 1, false},
		{makedev(8, 2), OVERLAYFS_SUPER_MAGIC, 0, false},
		{makedev(0, 40), TMPFS_MAGIC, 0, false},
		{makedev(0, 40), OVERLAYFS_SUPER_MAGIC, 0, true},
		{makedev(0, 40), BTRFS_SUPER_MAGIC, 0, true},
		{makedev(0, 40), BTRFS_SUPER_MAGIC, 1, false},
	};
	const char *path = in_sandbox("file");
	struct stat st;

	(void)state;
	write_text(path, "");
	assert_int_equal(stat(path, &st), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct perf_file_key key = {
			.major = 8, .minor = 1, .inode = st.st_ino + cases[i].other_inode};
		const uint32_t index = perf_files_index(files, &key, path);
		uint64_t id;
		int fd;

		/* The file before was swept, and has left its place. */
		assert_int_equal(index, 0);
		device_of_files = cases[i].device;
		type_of_files = cases[i].type;
		id = announce(index, getpid());
		device_of_files = type_of_files = 0;
		fd = perf_files_open(files, id);
		assert_int_equal(fd >= 0, cases[i].is_found);
		if (fd >= 0)
			close(fd);
		perf_files_release(files, id);
		perf_files_drop(files, index);
		perf_files_sweep(files);
	}
}

/* Whether a file of the sandbox is recognized in another recording. */
static bool is_lasting(const char *path, uint64_t reported_generation)
{
	struct perf_file_key key = {.generation = reported_generation};
	struct stat st;
	uint32_t index;
	uint64_t id;

	assert_int_equal(stat(path, &st), 0);
	key.major = major(st.st_dev);
	key.minor = minor(st.st_dev);
	key.inode = st.st_ino;
	index = perf_files_index(files, &key, path);
	record_buffer_remove(&out, out.used);
	id = announce(index, getpid());
	assert_int_equal(each_record(STACKBEAT_RECORD_FILE, note_file), 1);
	assert_int_equal(file_id, id);
	assert_int_equal(perf_files_release(files, id), 0);
	perf_files_drop(files, index);
	perf_files_sweep(files);
	return file_lasts;
}

/* Their tables and symbols are kept: one inode number must not stand for two contents. */
static void files_of_fixed_disks_last(void **state)
{
	const char *path = in_sandbox("file");
	struct file_owner owner;
	int fd;

	(void)state;
	write_text(path, "");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	file_owner_read(&owner, fd);
	close(fd);
	/* Where the tests were built, users can mount what they want. */
	if (owner.uid == FILE_UID_ANY)
		skip();
	disk_is_fixed = true;
	generation_of_files = 7;
	assert_true(is_lasting(path, 7));
	/* /proc/PID/maps does not report it. */
	assert_true(is_lasting(path, 0));
	assert_int_equal(file_generation, 7);
	/* Another file had the inode before. */
	assert_false(is_lasting(path, 6));
	generation_of_files = -1;
	assert_false(is_lasting(path, 0));
	generation_of_files = 7;
	disk_is_fixed = false;
	assert_false(is_lasting(path, 7));
	/* The next image may have other files with the same numbers. */
	disk_is_fixed = is_read_only = true;
	assert_false(is_lasting(path, 7));
	is_read_only = false;
	assert_true(is_lasting(path, 7));
}

/* Files of one inode differ by their generation, if it is known. */
static void files_have_a_generation(void **state)
{
	struct perf_file_key key = {.major = 8, .minor = 1, .inode = 4242, .generation = 5};
	const uint32_t first = perf_files_index(files, &key, "/none/file");

	(void)state;
	key.generation = 0;
	assert_int_equal(perf_files_index(files, &key, "/none/file"), first);
	key.generation = 6;
	assert_int_not_equal(perf_files_index(files, &key, "/none/file"), first);
	key.generation = 5;
	assert_int_equal(perf_files_index(files, &key, "/none/file"), first);
	/* It becomes known later. */
	key = (struct perf_file_key){.inode = 4243};
	assert_int_equal(perf_files_index(files, &key, "/none/file"), 2);
	key.generation = 7;
	assert_int_equal(perf_files_index(files, &key, "/none/file"), 2);
	key.generation = 8;
	assert_int_equal(perf_files_index(files, &key, "/none/file"), 3);
}

static uint32_t index_of(uint64_t inode)
{
	const struct perf_file_key key = {.major = 8, .inode = inode};

	return perf_files_index(files, &key, "/none/file");
}

/* Only a file without uses leaves its place to another one. */
static void used_files_keep_their_place(void **state)
{
	(void)state;
	assert_int_equal(index_of(1), 0);
	assert_int_equal(index_of(2), 1);
	assert_int_equal(index_of(2), 1);
	perf_files_use(files, 1);
	perf_files_use(files, PERF_FILE_NONE);
	perf_files_drop(files, PERF_FILE_NONE);
	for (unsigned int uses = 3; uses > 0; uses--) {
		perf_files_sweep(files);
		assert_int_equal(index_of(10 + uses), 5 - uses);
		perf_files_drop(files, 1);
	}
	perf_files_sweep(files);
	assert_int_equal(index_of(20), 1);
	assert_int_equal(index_of(21), 5);
	/* The reader may open it until it is released. */
	assert_int_equal(announce(1, PID), 1);
	perf_files_drop(files, 1);
	perf_files_sweep(files);
	assert_int_equal(index_of(22), 6);
	assert_int_equal(perf_files_release(files, 1), 0);
	perf_files_sweep(files);
	assert_int_equal(index_of(23), 1);
}

static void files_are_limited(void **state)
{
	const uint32_t max = 1u << 16;

	(void)state;
	for (uint32_t i = 0; i < max; i++)
		assert_int_equal(index_of(i + 1), i);
	assert_int_equal(index_of(max + 1), PERF_FILE_NONE);
	assert_int_equal(index_of(max), max - 1);
	perf_files_drop(files, 7);
	perf_files_drop(files, 8);
	perf_files_sweep(files);
	assert_int_equal(index_of(max + 1), 7);
	assert_int_equal(index_of(max + 2), 8);
	assert_int_equal(index_of(max + 3), PERF_FILE_NONE);
}

static char file_path[STACKBEAT_PATH_MAX];
static bool file_is_unlinked;

static void note_path(const void *record)
{
	const struct stackbeat_file *file = record;

	strcpy(file_path, file->path);
	file_is_unlinked = file->record.flags & STACKBEAT_FILE_UNLINKED;
}

static void paths_are_absolute(void **state)
{
	static char longest[STACKBEAT_PATH_MAX], longer[STACKBEAT_PATH_MAX + 1];
	static const struct {
		const char *path, *recorded;
		bool is_unlinked;
	} cases[] = {
		{"/a", "/a", false},        {"/a (deleted)", "/a", true},
		{"/ (deleted)", "/", true}, {" (deleted)", "", true},
		{"(deleted)", "", false},   {"//toolong", "", false},
		{"a", "", false},           {"", "", false},
		{longest, longest, false},  {longer, "", false},
	};

	(void)state;
	memset(longest, '/', 1);
	memset(longest + 1, 'x', sizeof(longest) - 2);
	memset(longer, '/', 1);
	memset(longer + 1, 'x', sizeof(longer) - 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct perf_file_key key = {.major = 8, .inode = i + 1};

		record_buffer_remove(&out, out.used);
		announce(perf_files_index(files, &key, cases[i].path), PID);
		assert_int_equal(each_record(STACKBEAT_RECORD_FILE, note_path), 1);
		assert_string_equal(file_path, cases[i].recorded);
		assert_int_equal(file_is_unlinked, cases[i].is_unlinked);
	}
}

/* What the reader needs to know a file again, and the descriptor of its own that it gets. */
static void files_are_described(void **state)
{
	const char *path = in_sandbox("file");
	struct perf_file_key key = {.generation = 3};
	struct stackbeat_file *record;
	struct stat st;
	int fd;

	(void)state;
	write_text(path, "12345");
	assert_int_equal(stat(path, &st), 0);
	key.major = major(st.st_dev);
	key.minor = minor(st.st_dev);
	key.inode = st.st_ino;
	record_buffer_remove(&out, out.used);
	assert_int_equal(announce(perf_files_index(files, &key, path), getpid()), 1);
	record = (void *)out.data;
	assert_int_equal(record->file, 1);
	assert_int_equal(record->size, 5);
	assert_int_equal(record->inode, key.inode);
	assert_int_equal(record->device_major, key.major);
	assert_int_equal(record->device_minor, key.minor);
	assert_int_equal(record->inode_generation, 3);
	assert_int_equal(record->build_id_size, 0);
	assert_true(record->record.flags & STACKBEAT_FILE_HEADERS_NOT_READ);
	assert_int_equal(out.used, record->record.size);
	fd = perf_files_open(files, 1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_RDONLY);
	close(fd);
	assert_int_equal(perf_files_open(files, 2), -ENOENT);
	assert_int_equal(perf_files_release(files, 2), -ENOENT);
	assert_int_equal(perf_files_release(files, 1), 0);
	assert_int_equal(perf_files_open(files, 1), -ENOENT);
	/* A program. */
	run("cp /proc/%d/exe '%s'", getpid(), in_sandbox("program"));
	assert_int_equal(stat(in_sandbox("program"), &st), 0);
	key.inode = st.st_ino;
	record_buffer_remove(&out, out.used);
	announce(perf_files_index(files, &key, in_sandbox("program")), getpid());
	record = (void *)out.data;
	assert_int_equal(record->record.flags & ~STACKBEAT_FILE_LASTING, 0);
	assert_int_equal(record->build_id_size, 20);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_that_nothing_maps_are_forgotten),
		TEST(announced_files_are_kept),
		TEST(mappings_are_as_in_a_model),
		TEST(threads_are_forgotten_after_lost_records),
		TEST(file_of_an_ended_process_is_found_in_the_next_one),
		TEST(file_that_no_process_shows_is_given_up),
		TEST(files_of_other_devices_are_others),
		TEST(files_of_fixed_disks_last),
		TEST(file_that_is_shown_late_is_found),
		TEST(file_of_a_mapping_is_found),
		TEST(files_have_a_generation),
		TEST(used_files_keep_their_place),
		TEST(files_are_limited),
		TEST(paths_are_absolute),
		TEST(files_are_described),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
