// SPDX-License-Identifier: GPL-2.0
/* Files that the kernel keeps: read once, given back, and never taken for another. */
#include "process/mapped_files.h"

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "process/binary_store.h"
#include "sandbox.h"

#include <dirent.h>
#include <elf.h>
#include <sys/syscall.h>

static struct fake_files files;
static struct mapped_files *objects;

static int set_up(void **state)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	if (make_sandbox(state))
		return -1;
	objects = mapped_files_new("", &source, NULL);
	return objects ? 0 : -1;
}

static int tear_down(void **state)
{
	mapped_files_free(objects);
	fake_clear(&files);
	return remove_sandbox(state);
}

/* Builds sandbox/NAME with a function `symbol` at its only segment's beginning. */
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

/* Gives it the build id that the kernel would read. */
static struct stackbeat_file *with_build_id(union any_file *any, const char *bytes, uint32_t size)
{
	any->file.record.flags &= (uint16_t)~STACKBEAT_FILE_HEADERS_NOT_READ;
	any->file.build_id_size = size;
	memcpy(any->file.build_id, bytes, size);
	return &any->file;
}

static struct mapped_file *tell(const char *path, const char *build_id, uint32_t size)
{
	union any_file any;

	fake_file_record(&files, path, &any);
	with_build_id(&any, build_id, size);
	assert_int_equal(mapped_files_add(objects, &any.file), 0);
	return mapped_files_get(objects, any.file.file);
}

static void need(struct mapped_file *object)
{
	assert_int_equal(mapped_file_request(objects, object), 0);
}

static void assert_name(const struct mapped_file *object, const char *name)
{
	struct symbol symbol = {.name = ""};
	bool found = mapped_file_lookup(object, 0x1000, &symbol);

	if (!found)
		assert_string_equal(object->problem, "(none)");
	assert_string_equal(symbol.name, name);
}

static void assert_no_name(const struct mapped_file *object)
{
	struct symbol symbol;

	assert_false(mapped_file_lookup(object, 0x1000, &symbol));
	assert_int_not_equal(strlen(object->problem), 0);
}

/* How many files are open. */
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

static void what_is_needed_is_read_and_given_back(void **state)
{
	struct mapped_file *object = tell(build("a.so", "first", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *other = tell(build("b.so", "second", "0x0a"), "\x0a", 1);
	uint64_t vaddr;

	(void)state;
	assert_ptr_not_equal(object, other);
	assert_string_equal(object->path, in_sandbox("a.so"));
	assert_string_equal(object->build_id, "01020304");
	assert_ptr_equal(mapped_files_at(objects, object->index), object);
	need(object);
	need(object);
	mapped_files_finish(objects);
	assert_int_equal(files.opened, 1);
	assert_int_equal(files.released, 2);
	assert_string_equal(object->problem, "");
	assert_name(object, "first");
	assert_true(mapped_file_vaddr(object, 0x1008, &vaddr));
	assert_int_equal(vaddr, 0x1008);
	assert_false(mapped_file_lookup(other, 0x1000, &(struct symbol){0}));
	/* It is over: nothing is asked for any more. */
	need(other);
	assert_int_equal(files.opened, 1);
}

/* The same file under another id, and by another path: read once, and given back at once. */
static void the_same_file_is_one_object(void **state)
{
	struct mapped_file *object = tell(build("a.so", "first", "0x01020304"), "\1\2\3\4", 4);

	(void)state;
	need(object);
	run("ln %s %s", in_sandbox("a.so"), in_sandbox("b.so"));
	assert_ptr_equal(tell(in_sandbox("a.so"), "\1\2\3\4", 4), object);
	assert_ptr_equal(tell(in_sandbox("b.so"), "\1\2\3\4", 4), object);
	assert_int_equal(files.fds[1], -1);
	assert_int_equal(files.fds[2], -1);
	assert_ptr_not_equal(tell(in_sandbox("a.so"), "\1\2\3\5", 4), object);
	need(object);
	mapped_files_finish(objects);
	assert_int_equal(files.opened, 1);
}

/* Where the mapping is told before the file. */
static void an_object_may_be_told_late(void **state)
{
	union any_file any;
	struct mapped_file *object = mapped_files_get(objects, 1);

	(void)state;
	assert_string_equal(object->path, "");
	need(object);
	fake_file_record(&files, build("a.so", "first", "0x0102"), &any);
	assert_int_equal(mapped_files_add(objects, &any.file), 0);
	assert_ptr_equal(mapped_files_get(objects, 1), object);
	assert_string_equal(object->path, in_sandbox("a.so"));
	mapped_files_finish(objects);
	assert_name(object, "first");
	assert_string_equal(object->build_id, "0102");
	assert_int_equal(files.released, 1);
}

/* The kernel's file is read, whatever has become of the path. */
static void deleted_and_replaced_files_are_named(void **state)
{
	struct mapped_file *deleted = tell(build("a.so", "deleted", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *replaced = tell(build("b.so", "old", "0x02020304"), "\2\2\3\4", 4);
	struct mapped_file *new;

	(void)state;
	assert_int_equal(unlink(in_sandbox("a.so")), 0);
	build("c.so", "new", "0x03020304");
	run("mv %s %s", in_sandbox("c.so"), in_sandbox("b.so"));
	new = tell(in_sandbox("b.so"), "\3\2\3\4", 4);
	assert_ptr_not_equal(new, replaced);
	need(deleted);
	need(replaced);
	need(new);
	mapped_files_finish(objects);
	assert_name(deleted, "deleted");
	assert_name(replaced, "old");
	assert_name(new, "new");
}

static void what_was_written_to_is_not_used(void **state)
{
	struct mapped_file *object = tell(build("a.so", "first", "0x01020304"), "\1\2\3\5", 4);

	(void)state;
	need(object);
	mapped_files_finish(objects);
	assert_no_name(object);
	assert_string_equal(object->problem, "was changed during the recording");
}

/* Where the kernel refuses, the file is looked for; another one at its path is not taken. */
static void what_is_refused_is_found_if_it_is_there(void **state)
{
	struct mapped_file *there = tell(build("a.so", "there", "0x01020304"), "\1\2\3\4", 4);
	struct mapped_file *replaced = tell(build("b.so", "old", "0x02020304"), "\2\2\3\4", 4);
	struct mapped_file *gone = tell(build("c.so", "gone", "0x03020304"), "\3\2\3\4", 4);
	struct mapped_file *other;

	(void)state;
	/* Without a build id, the inode is the proof: a copy is another file. */
	other = mapped_files_get(objects, fake_file(objects, &files, build("d.so", "d", "none")));
	files.refuse = true;
	build("b.so", "new", "0x02020305");
	assert_int_equal(unlink(in_sandbox("c.so")), 0);
	run("cp %s %s && mv %s %s", in_sandbox("d.so"), in_sandbox("e.so"), in_sandbox("e.so"),
	    in_sandbox("d.so"));
	need(there);
	need(replaced);
	need(gone);
	need(other);
	mapped_files_finish(objects);
	assert_int_equal(files.opened, 0);
	assert_name(there, "there");
	assert_no_name(replaced);
	assert_string_equal(replaced->problem, "can't be opened: Permission denied");
	assert_no_name(gone);
	assert_no_name(other);
}

static void what_is_refused_is_found_through_a_mapping(void **state)
{
	const struct file_source source = fake_source(&files);
	struct mapped_file *object;
	union any_file any;

	(void)state;
	mapped_files_free(objects);
	objects = mapped_files_new(in_sandbox("root"), &source, NULL);
	fake_file_record(&files, build("a.so", "hidden", "0x01020304"), &any);
	strcpy(any.file.path, "/gone");
	assert_int_equal(mapped_files_add(objects, with_build_id(&any, "\1\2\3\4", 4)), 0);
	object = mapped_files_get(objects, 1);
	mapped_file_note_mapping(objects, object, 7, 0x1000, 0x2000);
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	files.refuse = true;
	need(object);
	mapped_files_finish(objects);
	assert_name(object, "hidden");
}

static void only_regular_files_are_read(void **state)
{
	struct mapped_file *fifo, *null;
	union any_file any;

	(void)state;
	assert_int_equal(mkfifo(in_sandbox("fifo"), 0600), 0);
	fake_file_record(&files, in_sandbox("fifo"), &any);
	assert_int_equal(mapped_files_add(objects, &any.file), 0);
	fifo = mapped_files_get(objects, 1);
	null = mapped_files_get(objects, fake_file(objects, &files, "/dev/null"));
	need(fifo);
	need(null);
	mapped_files_finish(objects);
	assert_no_name(fifo);
	assert_no_name(null);
}

static void what_nobody_needs_is_given_back(void **state)
{
	struct mapped_file *used = tell(build("a.so", "used", "0x0102"), "\1\2", 2);
	struct mapped_file *unused = tell(build("b.so", "unused", "0x0103"), "\1\3", 2);

	(void)state;
	for (int i = 0; i < 20; i++) {
		mapped_files_mark(objects, used->index);
		mapped_files_sweep(objects);
		/* Not at once: a mapping may be on its way. */
		assert_int_equal(files.released, i >= 2);
	}
	assert_true(files.fds[0] >= 0);
	assert_int_equal(files.fds[1], -1);
	/* It is mapped again: then the kernel has another id for it. */
	assert_ptr_equal(tell(in_sandbox("b.so"), "\1\3", 2), unused);
	need(unused);
	need(used);
	mapped_files_finish(objects);
	assert_name(unused, "unused");
	assert_name(used, "used");
	assert_int_equal(files.released, 3);
}

/* Records that waited name an object that was given back. */
static void an_id_that_was_given_back_is_known_for_a_while(void **state)
{
	struct mapped_file *object = tell(build("a.so", "a", "0x0102"), "\1\2", 2);

	(void)state;
	for (int i = 0; i < 4; i++)
		mapped_files_sweep(objects);
	assert_int_equal(files.released, 1);
	assert_ptr_equal(mapped_files_get(objects, 1), object);
	need(object); /* by its path */
	mapped_files_finish(objects);
	assert_name(object, "a");
}

static void given_back_while_it_goes_on(void **state)
{
	struct mapped_file *object = tell(build("a.so", "a", "0x0102"), "\1\2", 2);

	(void)state;
	need(object);
	while (!files.released)
		mapped_files_release_read(objects);
	assert_int_equal(files.fds[0], -1);
	assert_name(object, "a");
}

static void files_without_a_name_can_be_opened_later(void **state)
{
	struct mapped_file *named = tell(build("a.so", "named", "0x0102"), "\1\2", 2);
	struct mapped_file *unlinked = tell(build("b.so", "unlinked", "0x0103"), "\1\3", 2);
	struct mapped_file *replaced = tell(build("c.so", "replaced", "0x0104"), "\1\4", 2);
	int fd;
	struct stat st;

	(void)state;
	assert_int_equal(unlink(in_sandbox("b.so")), 0);
	need(named);
	need(unlinked);
	need(replaced);
	mapped_files_finish(objects);
	build("c.so", "new", "0x0105");
	fd = mapped_file_open(objects, named);
	assert_true(fd >= 0);
	close(fd);
	fd = mapped_file_open(objects, unlinked);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	close(fd);
	assert_int_equal(mapped_file_open(objects, replaced), -ESTALE);
}

static void files_without_a_name_are_kept_open_up_to_a_bound(void **state)
{
	enum { COUNT = MAPPED_FILES_OPEN_MAX + 20 };
	unsigned int before;

	(void)state;
	build("many.so", "many", "none");
	for (unsigned int i = 0; i < COUNT; i++) {
		run("cp %s %s", in_sandbox("many.so"), in_sandbox("many.%u", i));
		fake_file(objects, &files, in_sandbox("many.%u", i));
		unlink(in_sandbox("many.%u", i));
	}
	before = open_files();
	for (unsigned int i = 0; i < COUNT; i++)
		need(mapped_files_get(objects, i + 1));
	mapped_files_finish(objects);
	assert_int_equal(open_files(), before - COUNT + MAPPED_FILES_OPEN_MAX);
	for (unsigned int i = 0; i < COUNT; i++)
		assert_name(mapped_files_get(objects, i + 1), "many");
}

/* What is not read yet when all ends is not waited for, and not asked for afterwards. */
static void it_can_be_abandoned(void **state)
{
	(void)state;
	build("many.so", "many", "none");
	for (unsigned int i = 0; i < 50; i++)
		need(mapped_files_get(objects, fake_file(objects, &files, in_sandbox("many.so"))));
	mapped_files_abandon(objects);
	need(mapped_files_get(objects, fake_file(objects, &files, in_sandbox("many.so"))));
	assert_true(files.opened <= 50);
	assert_int_equal(files.released, 50); /* one file: the others were so at once */
}

static void the_vdso_is_read(void **state)
{
	struct mapped_file *object = mapped_files_vdso(objects);
	struct symbol symbol;
	bool found = false;

	(void)state;
	assert_ptr_equal(object, mapped_files_vdso(objects));
	assert_string_equal(object->path, "[vdso]");
	need(object);
	mapped_files_finish(objects);
	assert_int_not_equal(strlen(object->build_id), 0);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (mapped_file_lookup(object, vaddr, &symbol))
			found |= strstr(symbol.name, "clock_gettime") != NULL;
	}
	assert_true(found);
}

static unsigned int unsynced; /* calls of statx() that ask no server of a file system */

/* In the place of libc's. */
int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *st)
{
	unsynced += !!(flags & AT_STATX_DONT_SYNC);
	return (int)syscall(SYS_statx, folder, path, flags, mask, st);
}

/* Links in a container must not lead out of it, but to what they name there. */
static void a_path_in_a_container_stays_there(void **state)
{
	const struct file_source source = fake_source(&files);
	const char *link = in_sandbox("root/proc/7/root/link");
	struct mapped_file *object;
	union any_file any;
	int fd;

	(void)state;
	mapped_files_free(objects);
	objects = mapped_files_new(in_sandbox("root"), &source, NULL);
	run("mkdir -p %s %s", in_sandbox("outside"), in_sandbox("root/proc/7/root/inside"));
	fake_file_record(&files, build("outside/a.so", "f", "0x01020304"), &any);
	strcpy(any.file.path, "/link/a.so");
	assert_int_equal(mapped_files_add(objects, with_build_id(&any, "\1\2\3\4", 4)), 0);
	object = mapped_files_get(objects, 1);
	mapped_file_note_mapping(objects, object, 7, 0x1000, 0x2000);
	run("ln -s %s %s", in_sandbox("outside"), link);
	assert_int_equal(mapped_file_open(objects, object), -ENOENT);
	run("rm %s && ln -s /inside %s", link, link);
	run("cp %s %s", in_sandbox("outside/a.so"), in_sandbox("root/proc/7/root/inside"));
	fd = mapped_file_open(objects, object);
	assert_true(fd >= 0);
	close(fd);
}

static void a_file_that_the_kernel_left_out_is_found(void **state)
{
	const struct file_source source = fake_source(&files);
	struct mapped_file *object;

	(void)state;
	mapped_files_free(objects);
	objects = mapped_files_new(in_sandbox("root"), &source, NULL);
	build("a.so", "left_out", "0x01020304");
	assert_null(mapped_files_find_mapped(objects, 7, 0x1000, 0x2000));
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"), in_sandbox("a.so"),
	    in_sandbox("root/proc/7/map_files/1000-2000"));
	object = mapped_files_find_mapped(objects, 7, 0x1000, 0x2000);
	assert_non_null(object);
	assert_int_equal(unsynced, 1);
	assert_ptr_equal(mapped_files_find_mapped(objects, 7, 0x1000, 0x2000), object);
	assert_string_equal(object->path, in_sandbox("a.so"));
	mapped_file_note_mapping(objects, object, 7, 0x1000, 0x2000);
	need(object);
	mapped_files_finish(objects);
	assert_name(object, "left_out");
}

static void objects_are_kept_by_build_id(void **state)
{
	struct mapped_files_counts counts;
	struct error error;
	struct mapped_file *a, *none;

	(void)state;
	assert_int_equal(mapped_files_save(objects, in_sandbox("kept"), &error), 0);
	a = tell(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4);
	none = mapped_files_get(objects, fake_file(objects, &files, build("b.so", "b", "none")));
	tell(build("c.so", "c", "0xabcdef02"), "\xab\xcd\xef\2", 4);
	need(a);
	need(none);
	need(mapped_files_vdso(objects));
	mapped_files_finish(objects);
	run("cmp %s %s", in_sandbox("a.so"), in_sandbox("kept/.build-id/ab/cdef01"));
	run("test $(find %s -type f | wc -l) = 2", in_sandbox("kept"));
	mapped_files_counts(objects, &counts);
	assert_int_equal(counts.read, 3);
	assert_int_equal(counts.kept, 2);
	assert_int_equal(counts.without_id, 1);
	assert_int_equal(counts.not_kept, 0);
	assert_string_equal(mapped_files_save_problem(objects), "");
}

static void what_is_kept_already_stays(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	run("mkdir -p %s", in_sandbox("kept/.build-id/ab"));
	write_text(in_sandbox("kept/.build-id/ab/cdef01"), "mine");
	assert_int_equal(mapped_files_save(objects, in_sandbox("kept"), &error), 0);
	need(tell(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4));
	mapped_files_finish(objects);
	run("test \"$(cat %s)\" = mine", in_sandbox("kept/.build-id/ab/cdef01"));
	mapped_files_counts(objects, &counts);
	assert_int_equal(counts.kept, 1);
}

static off_t size_of(const char *path, off_t *on_disk)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	*on_disk = st.st_blocks * 512;
	return st.st_size;
}

/* Who has a quota could fill the disk of who has none. */
static void holes_and_appended_bytes_are_not_kept(void **state)
{
	const char *path = build("a.so", "a", "0xabcdef01");
	off_t size, on_disk, kept_on_disk;
	struct error error;

	(void)state;
	/* A section in a hole at its end. */
	run("truncate -s 16M %s && objcopy --add-section .hole=%s %s %s", in_sandbox("zeros"),
	    in_sandbox("zeros"), path, in_sandbox("full"));
	run("cp --sparse=always %s %s", in_sandbox("full"), path);
	size = size_of(path, &on_disk);
	assert_in_range(on_disk, 1, 1 << 20);
	run("truncate -s 64M %s", path);
	assert_int_equal(mapped_files_save(objects, in_sandbox("kept"), &error), 0);
	need(tell(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(objects);
	assert_int_equal(size_of(in_sandbox("kept/.build-id/ab/cdef01"), &kept_on_disk), size);
	assert_in_range(kept_on_disk, 1, 1 << 20);
	run("cmp %s %s", in_sandbox("full"), in_sandbox("kept/.build-id/ab/cdef01"));
}

static void what_is_too_large_is_not_kept(void **state)
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
	assert_int_equal(mapped_files_save(objects, in_sandbox("kept"), &error), 0);
	need(tell(path, "\xab\xcd\xef\1", 4));
	mapped_files_finish(objects);
	mapped_files_counts(objects, &counts);
	assert_int_equal(counts.kept, 0);
	assert_int_equal(counts.not_kept, 1);
	assert_non_null(strstr(mapped_files_save_problem(objects), "more than 4 GiB"));
	run("test -z \"$(ls -A %s)\"", in_sandbox("kept/.build-id/ab"));
}

static void what_can_not_be_kept_is_said(void **state)
{
	struct mapped_files_counts counts;
	struct error error;

	(void)state;
	write_text(in_sandbox("file"), "");
	assert_int_equal(mapped_files_save(objects, in_sandbox("file"), &error), -ENOTDIR);
	assert_int_equal(mapped_files_save(objects, in_sandbox("no/such"), &error), -ENOENT);
	assert_int_equal(mapped_files_save(objects, in_sandbox("kept"), &error), 0);
	write_text(in_sandbox("kept/.build-id/ab"), "in the way");
	need(tell(build("a.so", "a", "0xabcdef01"), "\xab\xcd\xef\1", 4));
	mapped_files_finish(objects);
	mapped_files_counts(objects, &counts);
	assert_int_equal(counts.not_kept, 1);
	assert_non_null(
		strstr(mapped_files_save_problem(objects), in_sandbox("kept/.build-id/ab")));
}

/* As a file of a network file system whose server is gone. */
static int hang_at_second(uint64_t id, void *arg)
{
	while (id == 2)
		pause();
	return fake_open(id, arg);
}

/* Has three files read, the second of which has a function of this name. */
static void read_three(const struct file_source *source, const char *name,
		       struct mapped_file *three[3])
{
	struct error error;

	mapped_files_free(objects);
	objects = mapped_files_new("", source, &error);
	three[0] = tell(build("a.so", "first", "0x01"), "\x01", 1);
	three[1] = tell(build("b.so", name, "0x02"), "\x02", 1);
	three[2] = tell(build("c.so", "third", "0x03"), "\x03", 1);
	for (size_t i = 0; i < 3; i++)
		need(three[i]);
	mapped_files_finish(objects);
	assert_name(three[0], "first");
	assert_no_name(three[1]);
	assert_name(three[2], "third");
}

static void a_file_that_hangs_costs_its_own_names(void **state)
{
	struct file_source source = fake_source(&files);
	struct mapped_file *three[3];

	(void)state;
	source.open = hang_at_second;
	source.timeout_s = 1;
	read_three(&source, "second", three);
	assert_string_equal(three[1]->problem, "reading it has hung");
	assert_int_equal(mapped_file_open(objects, three[1]), -ETIMEDOUT);
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
		TEST(what_is_needed_is_read_and_given_back),
		TEST(the_same_file_is_one_object),
		TEST(an_object_may_be_told_late),
		TEST(deleted_and_replaced_files_are_named),
		TEST(what_was_written_to_is_not_used),
		TEST(what_is_refused_is_found_if_it_is_there),
		TEST(what_is_refused_is_found_through_a_mapping),
		TEST(only_regular_files_are_read),
		TEST(what_nobody_needs_is_given_back),
		TEST(an_id_that_was_given_back_is_known_for_a_while),
		TEST(given_back_while_it_goes_on),
		TEST(files_without_a_name_can_be_opened_later),
		TEST(files_without_a_name_are_kept_open_up_to_a_bound),
		TEST(it_can_be_abandoned),
		TEST(a_file_that_hangs_costs_its_own_names),
		TEST(symbols_of_all_files_are_bounded),
		TEST(the_vdso_is_read),
		TEST(a_path_in_a_container_stays_there),
		TEST(a_file_that_the_kernel_left_out_is_found),
		TEST(objects_are_kept_by_build_id),
		TEST(what_is_kept_already_stays),
		TEST(holes_and_appended_bytes_are_not_kept),
		TEST(what_is_too_large_is_not_kept),
		TEST(what_can_not_be_kept_is_said),
	};

	return cmocka_run_group_tests_name("objects", tests, NULL, NULL);
}
