// SPDX-License-Identifier: GPL-2.0
/* Mapped files: each is read once, released, and never confused with another one. */
#include "process/mapped_files.h"

#include <dirent.h>
#include <elf.h>
#include <sys/syscall.h>

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "process/binary_store.h"
#include "sandbox.h"

static struct fake_files files;
static struct mapped_files *mapped;

static int set_up(void **state)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	if (make_sandbox(state))
		return -1;
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
	assert_int_equal(mapped_file_request(mapped, file), 0);
}

static void assert_symbol(const struct mapped_file *file, const char *name)
{
	struct symbol symbol = {.name = ""};
	bool found = mapped_file_lookup(file, 0x1000, &symbol);

	if (!found)
		assert_string_equal(file->problem, "(none)");
	assert_string_equal(symbol.name, name);
}

static void assert_no_symbol(const struct mapped_file *file)
{
	struct symbol symbol;

	assert_false(mapped_file_lookup(file, 0x1000, &symbol));
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

static void requested_file_is_read_and_released(void **state)
{
	struct mapped_file *file = announce(build("a.so", "first", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *other = announce(build("b.so", "second", "0x0a"), "\x0a", 1);
	uint64_t vaddr;

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
	assert_true(mapped_file_vaddr(file, 0x1008, &vaddr));
	assert_int_equal(vaddr, 0x1008);
	assert_false(mapped_file_lookup(other, 0x1000, &(struct symbol){0}));
	/* After mapped_files_finish(), requests do nothing. */
	request(other);
	assert_int_equal(files.opened, 1);
}

/* The same file with another id, or another path, is read once; the other ids are released. */
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

/* The record of the mapping may precede that of the file. */
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
	assert_string_equal(file->build_id, "0102");
	assert_int_equal(files.released, 1);
}

/* The kernel's file is read, even if its path was removed or replaced. */
static void deleted_and_replaced_files_have_symbols(void **state)
{
	struct mapped_file *deleted =
		announce(build("a.so", "deleted", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *replaced = announce(build("b.so", "old", "0x02020304"), "\2\2\3\4", 4);
	struct mapped_file *new;

	(void)state;
	assert_int_equal(unlink(in_sandbox("a.so")), 0);
	build("c.so", "new", "0x03020304");
	run("mv %s %s", in_sandbox("c.so"), in_sandbox("b.so"));
	new = announce(in_sandbox("b.so"), "\3\2\3\4", 4);
	assert_ptr_not_equal(new, replaced);
	request(deleted);
	request(replaced);
	request(new);
	mapped_files_finish(mapped);
	assert_symbol(deleted, "deleted");
	assert_symbol(replaced, "old");
	assert_symbol(new, "new");
}

static void modified_file_is_rejected(void **state)
{
	struct mapped_file *file = announce(build("a.so", "first", "0x01020304"), "\1\2\3\5", 4);

	(void)state;
	request(file);
	mapped_files_finish(mapped);
	assert_no_symbol(file);
	assert_string_equal(file->problem, "was changed during the recording");
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
	assert_no_symbol(replaced);
	assert_string_equal(replaced->problem, "can't be opened: Permission denied");
	assert_no_symbol(gone);
	assert_no_symbol(other);
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

static void only_regular_files_are_read(void **state)
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
	assert_no_symbol(fifo);
	assert_no_symbol(null);
}

static void unused_files_are_released(void **state)
{
	struct mapped_file *used = announce(build("a.so", "used", "0x0102"), "\1\2", 2);
	struct mapped_file *unused = announce(build("b.so", "unused", "0x0103"), "\1\3", 2);

	(void)state;
	for (int i = 0; i < 20; i++) {
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

static void read_files_are_released_while_recording(void **state)
{
	struct mapped_file *file = announce(build("a.so", "a", "0x0102"), "\1\2", 2);

	(void)state;
	request(file);
	while (!files.released)
		mapped_files_release_read(mapped);
	assert_int_equal(files.fds[0], -1);
	assert_symbol(file, "a");
}

static void unlinked_files_can_be_opened_later(void **state)
{
	struct mapped_file *named = announce(build("a.so", "named", "0x0102"), "\1\2", 2);
	struct mapped_file *unlinked = announce(build("b.so", "unlinked", "0x0103"), "\1\3", 2);
	struct mapped_file *replaced = announce(build("c.so", "replaced", "0x0104"), "\1\4", 2);
	int fd;
	struct stat st;

	(void)state;
	assert_int_equal(unlink(in_sandbox("b.so")), 0);
	request(named);
	request(unlinked);
	request(replaced);
	mapped_files_finish(mapped);
	build("c.so", "new", "0x0105");
	fd = mapped_file_open(mapped, named);
	assert_true(fd >= 0);
	close(fd);
	fd = mapped_file_open(mapped, unlinked);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	close(fd);
	assert_int_equal(mapped_file_open(mapped, replaced), -ESTALE);
}

static void unlinked_files_are_kept_open_up_to_a_bound(void **state)
{
	enum { COUNT = MAPPED_FILES_OPEN_MAX + 20 };
	unsigned int before;

	(void)state;
	build("many.so", "many", "none");
	for (unsigned int i = 0; i < COUNT; i++) {
		run("cp %s %s", in_sandbox("many.so"), in_sandbox("many.%u", i));
		fake_file(mapped, &files, in_sandbox("many.%u", i));
		unlink(in_sandbox("many.%u", i));
	}
	before = open_files();
	for (unsigned int i = 0; i < COUNT; i++)
		request(mapped_files_get(mapped, i + 1));
	mapped_files_finish(mapped);
	assert_int_equal(open_files(), before - COUNT + MAPPED_FILES_OPEN_MAX);
	for (unsigned int i = 0; i < COUNT; i++)
		assert_symbol(mapped_files_get(mapped, i + 1), "many");
}

/* Requested files that are not read yet are dropped, and later requests do nothing. */
static void abandoned_files_are_not_read(void **state)
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

static void the_vdso_is_read(void **state)
{
	struct mapped_file *file = mapped_files_vdso(mapped);
	struct symbol symbol;
	bool found = false;

	(void)state;
	assert_ptr_equal(file, mapped_files_vdso(mapped));
	assert_string_equal(file->path, "[vdso]");
	request(file);
	mapped_files_finish(mapped);
	assert_int_not_equal(strlen(file->build_id), 0);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (mapped_file_lookup(file, vaddr, &symbol))
			found |= strstr(symbol.name, "clock_gettime") != NULL;
	}
	assert_true(found);
}

static unsigned int unsynced; /* calls of statx() with AT_STATX_DONT_SYNC */

/* Replaces libc's function. */
int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *st)
{
	unsynced += !!(flags & AT_STATX_DONT_SYNC);
	return (int)syscall(SYS_statx, folder, path, flags, mask, st);
}

/* Links in a container are resolved there, and must not lead out of it. */
static void path_in_a_container_stays_there(void **state)
{
	const struct file_source source = fake_source(&files);
	const char *link = in_sandbox("root/proc/7/root/link");
	struct mapped_file *file;
	union any_file any;
	int fd;

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
	assert_int_equal(mapped_file_open(mapped, file), -ENOENT);
	run("rm %s && ln -s /inside %s", link, link);
	run("cp %s %s", in_sandbox("outside/a.so"), in_sandbox("root/proc/7/root/inside"));
	fd = mapped_file_open(mapped, file);
	assert_true(fd >= 0);
	close(fd);
}

static void file_that_the_kernel_does_not_hold_is_found(void **state)
{
	const struct file_source source = fake_source(&files);
	struct mapped_file *file;

	(void)state;
	mapped_files_free(mapped);
	mapped = mapped_files_new(in_sandbox("root"), &source, NULL);
	build("a.so", "not_held", "0x01020304");
	assert_null(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000));
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	file = mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000);
	assert_non_null(file);
	assert_int_equal(unsynced, 1);
	assert_ptr_equal(mapped_files_find_mapped(mapped, 7, 0x1000, 0x2000), file);
	assert_string_equal(file->path, in_sandbox("a.so"));
	mapped_file_note_mapping(mapped, file, 7, 0x1000, 0x2000);
	request(file);
	mapped_files_finish(mapped);
	assert_symbol(file, "not_held");
}

static void binaries_are_saved_by_build_id(void **state)
{
	struct mapped_files_counts counts;
	struct error error;
	struct mapped_file *a, *none;

	(void)state;
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), &error), 0);
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
	assert_int_equal(counts.read, 3);
	assert_int_equal(counts.saved, 2);
	assert_int_equal(counts.without_id, 1);
	assert_int_equal(counts.not_saved, 0);
	assert_string_equal(mapped_files_save_problem(mapped), "");
}

static void saved_binary_is_not_overwritten(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	run("mkdir -p %s", in_sandbox("saved/.build-id/ab"));
	write_text(in_sandbox("saved/.build-id/ab/cdef01"), "mine");
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), &error), 0);
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

/* A user with a quota could otherwise fill the disk of another user. */
static void holes_and_appended_bytes_are_not_saved(void **state)
{
	const char *path = build("a.so", "a", "0xabcdef01");
	off_t size, on_disk, saved_on_disk;
	struct error error;

	(void)state;
	/* A section at the end, in a hole. */
	run("truncate -s 16M %s && objcopy --add-section .hole=%s %s %s", in_sandbox("zeros"),
	    in_sandbox("zeros"), path, in_sandbox("full"));
	run("cp --sparse=always %s %s", in_sandbox("full"), path);
	size = size_of(path, &on_disk);
	assert_in_range(on_disk, 1, 1 << 20);
	run("truncate -s 64M %s", path);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), &error), 0);
	request(announce(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	assert_int_equal(size_of(in_sandbox("saved/.build-id/ab/cdef01"), &saved_on_disk), size);
	assert_in_range(saved_on_disk, 1, 1 << 20);
	run("cmp %s %s", in_sandbox("full"), in_sandbox("saved/.build-id/ab/cdef01"));
}

static void too_large_binary_is_not_saved(void **state)
{
	const char *path = build("a.so", "a", "0xabcdef01");
	struct mapped_files_counts counts;
	struct error error;
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);
	const Elf64_Ehdr *header = (void *)bytes;
	Elf64_Shdr *sections = (void *)(bytes + header->e_shoff);

	(void)state;
	sections[header->e_shnum - 1].sh_size = (uint64_t)BINARY_STORE_BYTES_MAX + 1;
	write_file(path, bytes, size);
	free(bytes);
	run("truncate -s 5G %s", path);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), &error), 0);
	request(announce(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.saved, 0);
	assert_int_equal(counts.not_saved, 1);
	assert_non_null(strstr(mapped_files_save_problem(mapped), "more than 4 GiB"));
	run("test -z \"$(ls -A %s)\"", in_sandbox("saved/.build-id/ab"));
}

static void errors_of_saving_are_reported(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	write_text(in_sandbox("file"), "");
	assert_int_equal(mapped_files_save(mapped, in_sandbox("file"), &error), -ENOTDIR);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("no/such"), &error), -ENOENT);
	assert_int_equal(mapped_files_save(mapped, in_sandbox("saved"), &error), 0);
	write_text(in_sandbox("saved/.build-id/ab"), "in the way");
	request(announce(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4));
	mapped_files_finish(mapped);
	mapped_files_counts(mapped, &counts);
	assert_int_equal(counts.not_saved, 1);
	assert_non_null(
		strstr(mapped_files_save_problem(mapped), in_sandbox("saved/.build-id/ab")));
}

/* Hangs as a file of a network file system that lost its server. */
static int hang_at_second(uint64_t id, void *arg)
{
	while (id == 2)
		pause();
	return fake_open(id, arg);
}

/* Reads three files; `name` is that of the function in the second one. */
static void read_three(const struct file_source *source, const char *name,
		       struct mapped_file *three[3])
{
	struct error error;

	mapped_files_free(mapped);
	mapped = mapped_files_new("", source, &error);
	three[0] = announce(build("a.so", "first", "0x01"), "\x01", 1);
	three[1] = announce(build("b.so", name, "0x02"), "\x02", 1);
	three[2] = announce(build("c.so", "third", "0x03"), "\x03", 1);
	for (size_t i = 0; i < 3; i++)
		request(three[i]);
	mapped_files_finish(mapped);
	assert_symbol(three[0], "first");
	assert_no_symbol(three[1]);
	assert_symbol(three[2], "third");
}

static void stuck_file_costs_its_own_symbols_only(void **state)
{
	struct file_source source = fake_source(&files);
	struct mapped_file *three[3];

	(void)state;
	source.open = hang_at_second;
	source.timeout_s = 1;
	read_three(&source, "second", three);
	assert_string_equal(three[1]->problem, "reading it has hung");
	assert_int_equal(mapped_file_open(mapped, three[1]), -ETIMEDOUT);
}

static void symbols_of_all_files_are_bounded(void **state)
{
	struct file_source source = fake_source(&files);
	struct mapped_file *three[3];
	uint64_t vaddr;

	(void)state;
	source.symbol_bytes = 80;
	read_three(&source, "a_name_of_more_than_fifty_bytes_with_which_it_is_full_now", three);
	assert_string_equal(three[1]->problem, "has more symbols than there is room for");
	assert_true(mapped_file_vaddr(three[1], 0x1008, &vaddr));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requested_file_is_read_and_released),
		TEST(same_file_by_other_ids_is_one_file),
		TEST(file_may_be_announced_after_its_request),
		TEST(deleted_and_replaced_files_have_symbols),
		TEST(modified_file_is_rejected),
		TEST(refused_file_is_opened_by_path_if_unchanged),
		TEST(refused_file_is_opened_by_map_files),
		TEST(only_regular_files_are_read),
		TEST(unused_files_are_released),
		TEST(released_id_is_forgotten_after_some_sweeps),
		TEST(read_files_are_released_while_recording),
		TEST(unlinked_files_can_be_opened_later),
		TEST(unlinked_files_are_kept_open_up_to_a_bound),
		TEST(abandoned_files_are_not_read),
		TEST(stuck_file_costs_its_own_symbols_only),
		TEST(symbols_of_all_files_are_bounded),
		TEST(the_vdso_is_read),
		TEST(path_in_a_container_stays_there),
		TEST(file_that_the_kernel_does_not_hold_is_found),
		TEST(binaries_are_saved_by_build_id),
		TEST(saved_binary_is_not_overwritten),
		TEST(holes_and_appended_bytes_are_not_saved),
		TEST(too_large_binary_is_not_saved),
		TEST(errors_of_saving_are_reported),
	};

	return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}
