// SPDX-License-Identifier: GPL-2.0
#include "process.h"

#include "elf.h"
#include "error.h"
#include "sandbox.h"

#include <sys/sysmacros.h>

#define VDSO "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0          [vdso]\n"
#define OTHER_VDSO "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0          [vdso]\n"

static struct processes *table;

static int make_table(void **state)
{
	if (make_sandbox(state) != 0)
		return -1;
	table = processes_new(sandbox, NULL);
	return table ? 0 : -1;
}

static int free_table(void **state)
{
	processes_free(table);
	return remove_sandbox(state);
}

/* A process of the fake tree: its maps, and an executable of that content. */
static void set_process(uint32_t pid, const char *program, const char *maps)
{
	run("mkdir -p %s && touch %s && ln -sfn %s %s", in_sandbox("proc/%u", pid),
	    in_sandbox("%s", program), in_sandbox("%s", program), in_sandbox("proc/%u/exe", pid));
	write_text(in_sandbox("proc/%u/maps", pid), maps);
}

static struct process *get(uint32_t pid, const char *comm)
{
	struct process *process = processes_get(table, pid, comm);

	assert_non_null(process);
	assert_int_equal(process_pid(process), pid);
	return process;
}

static struct process *refresh(struct process *process)
{
	processes_tick(table);
	process = processes_refresh(table, process);
	assert_non_null(process);
	return process;
}

static bool covers(const struct process *process, uint64_t address)
{
	return process_covers(process, &address, 1);
}

static void assert_mapping(const struct process *process, uint64_t address, uint64_t start,
			   uint64_t end, uint64_t offset, const char *path)
{
	const struct mapping *mapping = process_mapping(process, address);

	assert_non_null(mapping);
	assert_int_equal(mapping->start, start);
	assert_int_equal(mapping->end, end);
	assert_int_equal(mapping->offset, offset);
	assert_string_equal(mapping->path, path);
}

static struct processes_counts counts(void)
{
	struct processes_counts counts;

	processes_counts(table, &counts);
	return counts;
}

static void test_mappings(void **state)
{
	const struct mapping *mapping;
	struct process *process;

	(void)state;
	set_process(5, "a",
		    "00400000-00401000 r--p 00000000 fe:01 12      /bin/a\n"
		    "00401000-00402000 r-xp 00001000 fe:01 12      /bin/a\n"
		    "00402000-00403000 rw-p 00002000 fe:01 12      /bin/a\n"
		    "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
		    "7f0000002000-7f0000003000 r-xp 00000000 00:01 77    /memfd:x y (deleted)\n"
		    "7f0000004000-7f0000005000 --xs 00000000 fe:01 13    /with "
		    "space/new\\012line\n" VDSO
		    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n");
	process = get(5, "five");
	assert_string_equal(process_comm(process), "five");
	assert_false(covers(process, 0x400000));
	assert_mapping(process, 0x401fff, 0x401000, 0x402000, 0x1000, "/bin/a");
	mapping = process_mapping(process, 0x401000);
	assert_int_equal(mapping->device, makedev(0xfe, 1));
	assert_int_equal(mapping->inode, 12);
	assert_false(mapping->deleted);
	assert_non_null(mapping->object);
	assert_false(covers(process, 0x402000));
	assert_mapping(process, 0x7f0000000000, 0x7f0000000000, 0x7f0000001000, 0, "[anon]");
	assert_null(process_mapping(process, 0x7f0000000000)->object);
	assert_mapping(process, 0x7f0000002000, 0x7f0000002000, 0x7f0000003000, 0, "/memfd:x y");
	assert_true(process_mapping(process, 0x7f0000002000)->deleted);
	assert_string_equal(process_mapping(process, 0x7f0000004000)->path,
			    "/with space/new\nline");
	assert_string_equal(process_mapping(process, 0x7ffc00000000)->object->path, "[vdso]");
	assert_mapping(process, 0xffffffffff600400, 0xffffffffff600000, 0xffffffffff601000, 0,
		       "[vsyscall]");
	assert_false(covers(process, UINT64_MAX));
	assert_ptr_equal(process, get(5, "five"));
	assert_int_equal(counts().reads, 1);
}

static void test_32_bit_vdso_is_not_ours(void **state)
{
	(void)state;
	set_process(5, "a", "f7f00000-f7f02000 r-xp 00000000 00:00 0     [vdso]\n");
	assert_null(process_mapping(get(5, "a"), 0xf7f00000)->object);
}

static void test_hostile_lines(void **state)
{
	struct process *process;

	(void)state;
	set_process(5, "a",
		    "\n"
		    "-\n"
		    "1000\n"
		    "1000-2000\n"
		    "1000-2000 r-x\n"
		    "1000-2000 r-xp\n"
		    "1000-2000 r-xp 0 1:2 \n"
		    "2000-1000 r-xp 00000000 00:00 0 \n"
		    "1000-1000 r-xp 00000000 00:00 0 \n"
		    "-1000-2000 r-xp 00000000 00:00 0 \n"
		    "1000-1ffffffffffffffff r-xp 00000000 00:00 0 \n"
		    "1000-2000 r-xp ffffffffffffffffff 00:00 0 \n"
		    "1000-2000 r-xp 00000000 100000000:00 0 \n"
		    "1000-2000 r-xp 00000000 00:00 99999999999999999999999 /x\n"
		    "1000-2000 r-xp 00000000 00:00 x /x\n"
		    "9000-a000 r-xp 00000000 00:00 0 (deleted)\n"
		    "b000-c000 r-xp 00000000 00:00 0 \\012\\01\\0121 (deleted)\n"
		    "ffff000000000000-ffffffffffffffff r-xp ffffffffffffffff 00:00 0 /no newline");
	process = get(5, "a");
	assert_false(covers(process, 0x1000));
	assert_string_equal(process_mapping(process, 0x9000)->path, "(deleted)");
	assert_string_equal(process_mapping(process, 0xb000)->path, "\n\\01\n1");
	assert_string_equal(process_mapping(process, UINT64_MAX - 1)->path, "/no newline");
	assert_false(covers(process, UINT64_MAX));
}

/* Each mapping takes the place of what was there before, whatever the order. */
static void test_overlaps(void **state)
{
	struct process *process;

	(void)state;
	set_process(5, "a",
		    "10000-20000 r-xp 00001000 00:00 0 /a\n"
		    "14000-15000 r-xp 00000000 00:00 0 /b\n"
		    "1f000-21000 r-xp 00000000 00:00 0 /c\n"
		    "0f000-11000 r-xp 00000000 00:00 0 /d\n"
		    "30000-31000 r-xp 00000000 00:00 0 /e\n"
		    "31000-32000 r-xp 00000000 00:00 0 /f\n"
		    "33000-34000 r-xp 00000000 00:00 0 /g\n"
		    "30800-33800 r-xp 00000000 00:00 0 /h\n");
	process = get(5, "a");
	assert_mapping(process, 0x10000, 0xf000, 0x11000, 0, "/d");
	assert_mapping(process, 0x11000, 0x11000, 0x14000, 0x2000, "/a");
	assert_mapping(process, 0x14000, 0x14000, 0x15000, 0, "/b");
	assert_mapping(process, 0x15000, 0x15000, 0x1f000, 0x6000, "/a");
	assert_mapping(process, 0x20000, 0x1f000, 0x21000, 0, "/c");
	assert_mapping(process, 0x307ff, 0x30000, 0x30800, 0, "/e");
	assert_mapping(process, 0x32fff, 0x30800, 0x33800, 0, "/h");
	assert_mapping(process, 0x33800, 0x33800, 0x34000, 0x800, "/g");
}

static void test_merge(void **state)
{
	struct process *process, *same;

	(void)state;
	set_process(5, "a",
		    "10000-12000 r-xp 00000000 00:00 0 /old\n"
		    "20000-22000 r-xp 00000000 00:00 0 /closed\n" VDSO);
	process = get(5, "a");
	set_process(5, "a",
		    "11000-13000 r-xp 00000000 00:00 0 /new\n"
		    "30000-31000 r-xp 00000000 00:00 0 /opened\n" VDSO);
	assert_false(covers(process, 0x30000));
	same = refresh(process);
	assert_ptr_equal(process, same);
	assert_mapping(process, 0x10000, 0x10000, 0x11000, 0, "/old");
	assert_mapping(process, 0x11000, 0x11000, 0x13000, 0, "/new");
	assert_mapping(process, 0x20000, 0x20000, 0x22000, 0, "/closed");
	assert_true(covers(process, 0x30000));
	assert_int_equal(counts().execs, 0);
}

static void test_one_read_a_tick(void **state)
{
	struct process *process;

	(void)state;
	set_process(5, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n");
	process = get(5, "a");
	assert_ptr_equal(processes_refresh(table, process), process);
	assert_int_equal(counts().reads, 1);
	processes_tick(table);
	for (int i = 0; i < 10; i++)
		assert_ptr_equal(processes_refresh(table, process), process);
	assert_int_equal(counts().reads, 2);
}

static void test_exec_of_another_program(void **state)
{
	struct process *old, *new;

	(void)state;
	set_process(5, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n");
	old = get(5, "a");
	set_process(5, "b", "20000-22000 r-xp 00000000 00:00 0 /b\n");
	assert_ptr_equal(get(5, "a"), old);
	new = refresh(old);
	assert_ptr_not_equal(old, new);
	assert_mapping(old, 0x10000, 0x10000, 0x12000, 0, "/a");
	assert_false(covers(old, 0x20000));
	assert_mapping(new, 0x20000, 0x20000, 0x22000, 0, "/b");
	assert_false(covers(new, 0x10000));
	assert_ptr_equal(get(5, "b"), new);
	assert_ptr_equal(processes_refresh(table, old), new);
	assert_int_equal(counts().execs, 1);
	assert_int_equal(counts().images, 2);
}

/* Programs at fixed addresses: the addresses of one are covered by another. */
static void test_exec_shows_by_the_name(void **state)
{
	struct process *old, *new;

	(void)state;
	set_process(5, "a", "400000-402000 r-xp 00000000 00:00 0 /a\n");
	old = get(5, "shell");
	set_process(5, "b", "400000-402000 r-xp 00000000 00:00 0 /b\n");
	new = get(5, "compile");
	assert_ptr_not_equal(old, new);
	assert_string_equal(process_comm(new), "compile");
	assert_mapping(old, 0x400000, 0x400000, 0x402000, 0, "/a");
	assert_mapping(new, 0x400000, 0x400000, 0x402000, 0, "/b");
}

static void test_exec_of_the_same_program(void **state)
{
	struct process *old, *new;

	(void)state;
	set_process(5, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n" VDSO);
	old = get(5, "a");
	get(5, "thread");
	set_process(5, "a", "20000-22000 r-xp 00000000 00:00 0 /a\n" OTHER_VDSO);
	new = refresh(old);
	assert_ptr_not_equal(old, new);
	assert_false(covers(old, 0x20000));
	assert_false(covers(new, 0x10000));
	assert_string_equal(process_comm(new), "thread");
}

static void test_many_thread_names(void **state)
{
	struct process *process, *new;
	char comm[32];

	(void)state;
	set_process(5, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n");
	process = get(5, "a");
	for (int i = 0; i < 100; i++) {
		snprintf(comm, sizeof(comm), "a very long name %d", i);
		assert_ptr_equal(get(5, comm), process);
		snprintf(comm, sizeof(comm), "%d", i);
		assert_ptr_equal(get(5, comm), process);
	}
	assert_int_equal(counts().reads, 1);
	set_process(5, "b", "10000-12000 r-xp 00000000 00:00 0 /b\n");
	assert_ptr_equal(get(5, "b"), process); /* looked at in this tick already */
	processes_tick(table);
	new = get(5, "b");
	assert_ptr_not_equal(new, process);
}

static void test_gone(void **state)
{
	struct process *process;

	(void)state;
	process = get(9, "gone");
	assert_true(process_covers(process, NULL, 0));
	assert_false(covers(process, 0x1000));
	assert_int_equal(counts().gone, 0);
	assert_ptr_equal(processes_refresh(table, process), process);
	assert_ptr_equal(refresh(process), process);
	assert_int_equal(counts().gone, 1);
	/* The id is used again: another process. */
	set_process(9, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n");
	assert_ptr_not_equal(refresh(process), process);
	assert_false(covers(process, 0x10000));
}

static void test_gone_later(void **state)
{
	struct process *process;

	(void)state;
	set_process(5, "a", "10000-12000 r-xp 00000000 00:00 0 /a\n" VDSO);
	process = get(5, "a");
	run("rm -r %s", in_sandbox("proc/5"));
	assert_ptr_equal(refresh(process), process);
	assert_mapping(process, 0x10000, 0x10000, 0x12000, 0, "/a");
	assert_int_equal(counts().gone, 0);
}

static void test_this_process(void **state)
{
	struct processes *real = processes_new("", NULL);
	uint64_t addresses[] = {(uint64_t)(uintptr_t)test_this_process,
				(uint64_t)(uintptr_t)&snprintf};
	const struct mapping *mapping;
	struct process *process;
	struct stat st;

	(void)state;
	process = processes_get(real, (uint32_t)getpid(), "self");
	assert_non_null(process);
	assert_true(process_covers(process, addresses, 2));
	mapping = process_mapping(process, addresses[0]);
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(mapping->inode, st.st_ino);
	assert_non_null(mapping->object);
	assert_string_equal(mapping->object->problem, "");
	addresses[1] = 1;
	assert_false(process_covers(process, addresses, 2));
	processes_free(real);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_table, free_table)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_mappings),
		TEST(test_32_bit_vdso_is_not_ours),
		TEST(test_hostile_lines),
		TEST(test_overlaps),
		TEST(test_merge),
		TEST(test_one_read_a_tick),
		TEST(test_exec_of_another_program),
		TEST(test_exec_shows_by_the_name),
		TEST(test_exec_of_the_same_program),
		TEST(test_many_thread_names),
		TEST(test_gone),
		TEST(test_gone_later),
		TEST(test_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
