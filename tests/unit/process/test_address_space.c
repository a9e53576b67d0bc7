// SPDX-License-Identifier: GPL-2.0
/* The table of address spaces. That of one space's mappings: test_history.c. */
#include "process/address_space.h"

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "process/mapping_history.h"
#include "sandbox.h"

#define MS UINT64_C(1000000)
/* A process id that no kernel gives. */
#define NOBODY 2000000000u

static struct told_files files;
static struct mapped_files *objects;
static struct address_spaces *spaces;

static int set_up(void **state)
{
	const struct file_source source = told_source(&files);

	files = (struct told_files){.count = 0};
	if (make_sandbox(state))
		return -1;
	objects = mapped_files_new(sandbox, &source, NULL);
	spaces = address_spaces_new(sandbox, objects, NULL);
	return spaces ? 0 : -1;
}

static int tear_down(void **state)
{
	address_spaces_free(spaces);
	mapped_files_free(objects);
	told_clear(&files);
	return remove_sandbox(state);
}

static uint32_t place(uint64_t space, uint32_t generation, uint64_t address)
{
	uint64_t number;

	return address_space_segment_at(address_spaces_get(spaces, space, 0), generation, address,
					&number);
}

static void advance(uint64_t space, uint32_t generation)
{
	assert_int_equal(address_space_advance(address_spaces_get(spaces, space, 0), generation),
			 0);
}

static void a_space_is_what_was_told_of_it(void **state)
{
	union any_space any = {
		.space = {
			.record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE,
				   .size = sizeof(struct stackbeat_address_space) + 16},
			.address_space = 5,
			.start_time = 123456789,
			.generation = 1,
			.pid = 10,
			.ns_pid = 2,
			.parent = 9,
			.comm = "make",
		}};
	struct address_space *space = address_spaces_get(spaces, 5, 10);

	(void)state;
	/* A sample may come first. */
	assert_int_equal(address_space_pid(space), 10);
	assert_int_equal(address_space_ns_pid(space), 0);
	assert_string_equal(address_space_comm(space), "");
	assert_string_equal(address_space_cgroup_path(space), "");
	strcpy(any.space.cgroup_path, "/a.slice/b");
	assert_int_equal(address_spaces_add(spaces, &any.space), 0);
	assert_ptr_equal(address_spaces_get(spaces, 5, 77), space);
	assert_int_equal(address_space_pid(space), 10);
	assert_int_equal(address_space_ns_pid(space), 2);
	assert_int_equal(address_space_parent(space), 9);
	assert_int_equal(address_space_start_time(space), 123456789);
	assert_string_equal(address_space_comm(space), "make");
	assert_string_equal(address_space_cgroup_path(space), "/a.slice/b");
	/* One text for all. */
	any.space.address_space = 6;
	assert_int_equal(address_spaces_add(spaces, &any.space), 0);
	assert_ptr_equal(address_space_cgroup_path(address_spaces_get(spaces, 6, 0)),
			 address_space_cgroup_path(space));
}

static void without_an_id_each_process_has_one_space(void **state)
{
	struct address_space *ten = address_spaces_get(spaces, 0, 10),
			     *eleven = address_spaces_get(spaces, 0, 11);

	(void)state;
	assert_ptr_not_equal(ten, eleven);
	assert_ptr_equal(address_spaces_get(spaces, 0, 10), ten);
	assert_ptr_not_equal(address_spaces_get(spaces, 10, 10), ten);
	assert_int_equal(address_space_pid(ten), 10);
	/* Nothing will be told of it. */
	assert_true(address_space_ready(ten, 0, false));
	assert_int_equal(place(0, 0, 0x1000), SEGMENT_NONE);
}

static void many_spaces_keep_their_place(void **state)
{
	struct address_space *first = address_spaces_get(spaces, 1, 0);

	(void)state;
	for (uint64_t id = 1; id < 100000; id++)
		assert_non_null(address_spaces_get(spaces, id, 0));
	assert_ptr_equal(address_spaces_get(spaces, 1, 0), first);
}

static void mappings_are_places(void **state)
{
	bool is_offset = false;
	uint64_t id, number;
	struct mapped_file *object;

	(void)state;
	write_text(in_sandbox("file"), "");
	id = told_file(objects, &files, in_sandbox("file"));
	object = mapped_files_get(objects, id);
	told_space(spaces, 1, 10, 4, "a");
	told_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VADDR, 0x10000, 0x20000, id, 0x400000);
	told_mapping(spaces, 1, 4, 0, 0x20000, 0x30000, id, 0x5000);
	told_mapping(spaces, 1, 4, 0, 0x30000, 0x40000, 0, 0);
	told_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VDSO, 0x50000, 0x52000, 0, 0);
	told_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VDSO, 0x7fff00000000, 0x7fff00002000, 0, 0);
	/* A file that was not kept, of a process that is gone. */
	told_mapping(spaces, 1, 4, 0, 0x60000, 0x61000, 0, 0x1000);
	advance(1, 4);

	assert_ptr_equal(segment_file(objects, place(1, 4, 0x12345), &is_offset), object);
	assert_false(is_offset);
	address_space_segment_at(address_spaces_get(spaces, 1, 0), 4, 0x12345, &number);
	assert_int_equal(number, 0x402345);
	assert_ptr_equal(segment_file(objects, place(1, 4, 0x20010), &is_offset), object);
	assert_true(is_offset);
	address_space_segment_at(address_spaces_get(spaces, 1, 0), 4, 0x20010, &number);
	assert_int_equal(number, 0x5010);
	assert_int_equal(place(1, 4, 0x3ffff), SEGMENT_ANON);
	assert_int_equal(place(1, 4, 0x40000), SEGMENT_NONE);
	assert_int_equal(place(1, 4, 0x50000), SEGMENT_VDSO);
	assert_ptr_equal(segment_file(objects, place(1, 4, 0x7fff00000010), &is_offset),
			 mapped_files_vdso(objects));
	assert_int_equal(place(1, 4, 0x60000), SEGMENT_NONE);
	assert_int_equal(place(1, 4, 0xffffffffff600800), SEGMENT_VSYSCALL);
	assert_int_equal(place(1, 4, 0xffffffffff601000), SEGMENT_NONE);
	assert_null(segment_file(objects, SEGMENT_ANON, &is_offset));
}

static void what_is_told_decides_when_a_space_is_ready(void **state)
{
	struct address_space *space = address_spaces_get(spaces, 1, 10);

	(void)state;
	assert_false(address_space_ready(space, 1, true));
	told_space(spaces, 1, 10, 3, "a");
	told_mapping(spaces, 1, 3, 0, 0x1000, 0x2000, 0, 0);
	assert_false(address_space_ready(space, 3, true));
	advance(1, 3);
	assert_true(address_space_ready(space, 3, true));
	/* Of a later generation something may still be told. */
	assert_true(address_space_ready(space, 3, false));
	assert_false(address_space_ready(space, 4, false));
	assert_true(address_space_ready(space, 4, true));
	told_mapping(spaces, 1, 4, STACKBEAT_MAPPING_EVENT, 0x3000, 0x4000, 0, 0);
	assert_true(address_space_ready(space, 3, true));
	assert_false(address_space_ready(space, 4, true));
	assert_int_equal(place(1, 4, 0x3000), SEGMENT_NONE);
	advance(1, 4);
	assert_int_equal(place(1, 4, 0x3000), SEGMENT_ANON);
	assert_int_equal(place(1, 3, 0x3000), SEGMENT_NONE);
	assert_int_equal(place(1, 3, 0x1000), SEGMENT_ANON);
}

/* As /proc says of process `pid`: its state, its threads and its start in ticks. */
static void put_stat(uint32_t pid, char letter, unsigned int threads, unsigned long start)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "%u (a) b) %c 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 %u 18 %lu 20 21\n", pid,
		 letter, threads, start);
	run("mkdir -p %s", in_sandbox("proc/%u", pid));
	write_text(in_sandbox("proc/%u/stat", pid), text);
}

static uint64_t dropped(void)
{
	struct address_space_counts counts;

	address_spaces_counts(spaces, &counts);
	return counts.dropped;
}

static void settle(uint64_t ms, bool look)
{
	assert_int_equal(address_spaces_collect_garbage(spaces, (ms - 10) * MS, ms * MS, look), 0);
}

static void mappings_go_when_the_process_has_ended(void **state)
{
	struct address_space *space;

	(void)state;
	put_stat(NOBODY, 'S', 1, 0);
	told_space(spaces, 1, NOBODY, 1, "a");
	told_mapping(spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	advance(1, 1);
	space = address_spaces_get(spaces, 1, 0);
	settle(1000, true);
	settle(2000, true);
	assert_int_equal(dropped(), 0);
	assert_int_equal(place(1, 1, 0x1000), SEGMENT_ANON);

	/* It lived, so that one look was left out. */
	run("rm -r %s", in_sandbox("proc/%u", NOBODY));
	settle(3000, true);
	/* Samples of its end may still be on their way. */
	settle(3005, false);
	assert_int_equal(dropped(), 0);
	assert_int_equal(place(1, 1, 0x1000), SEGMENT_ANON);
	settle(3020, false);
	assert_int_equal(dropped(), 1);
	assert_int_equal(place(1, 1, 0x1000), SEGMENT_NONE);
	/* Whose it was is still known, and what is told late is of no use. */
	assert_ptr_equal(address_spaces_get(spaces, 1, 0), space);
	assert_string_equal(address_space_comm(space), "a");
	told_mapping(spaces, 1, 2, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0, 0);
	told_space(spaces, 1, NOBODY, 3, "b");
	assert_string_equal(address_space_comm(space), "a");
	assert_true(address_space_ready(space, 2, false));
	settle(5000, true);
	assert_int_equal(dropped(), 1);
}

static void told_with_start(uint64_t id, uint32_t pid, uint64_t start_time)
{
	union any_space any = {
		.space = {
			.record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE,
				   .size = sizeof(struct stackbeat_address_space) + 8},
			.address_space = id,
			.pid = pid,
			.generation = 1,
			.start_time = start_time,
		}};

	assert_int_equal(address_spaces_add(spaces, &any.space), 0);
}

static void a_process_is_told_from_another_of_its_id(void **state)
{
	(void)state;
	put_stat(NOBODY, 'R', 1, 500);
	put_stat(NOBODY + 1, 'Z', 1, 500);
	told_with_start(1, NOBODY, UINT64_C(5009999999)); /* it is the one */
	told_with_start(2, NOBODY, UINT64_C(4990000000)); /* it was before it */
	told_with_start(3, NOBODY + 1, UINT64_C(5000000000)); /* a zombie runs no more */
	told_with_start(4, (uint32_t)getpid(), 0); /* /proc says nothing, but it lives */
	settle(1000, true);
	settle(2000, false);
	assert_int_equal(dropped(), 2);
	assert_true(address_space_ready(address_spaces_get(spaces, 2, 0), 9, false));
	assert_true(address_space_ready(address_spaces_get(spaces, 3, 0), 9, false));
	assert_false(address_space_ready(address_spaces_get(spaces, 1, 0), 9, false));
	assert_false(address_space_ready(address_spaces_get(spaces, 4, 0), 9, false));
}

static void a_process_outlives_its_main_thread(void **state)
{
	(void)state;
	put_stat(NOBODY, 'Z', 2, 500);
	told_with_start(1, NOBODY, UINT64_C(5000000000));
	settle(1000, true);
	settle(2000, true);
	assert_int_equal(dropped(), 0);
	put_stat(NOBODY, 'Z', 1, 500);
	settle(3000, true);
	settle(4000, true);
	assert_int_equal(dropped(), 1);
}

static void other_namespaces_ids_say_nothing(void **state)
{
	(void)state;
	address_spaces_same_pid_ns(spaces, false);
	told_with_start(1, NOBODY, 0);
	settle(1000, true);
	settle(2000, true);
	settle(3000, true);
	assert_int_equal(dropped(), 0);
}

/* Files that only ended processes have mapped are given back; those of others are not. */
static void files_of_ended_processes_are_given_back(void **state)
{
	uint64_t shared, own;

	(void)state;
	write_text(in_sandbox("shared"), "");
	write_text(in_sandbox("own"), "");
	shared = told_file(objects, &files, in_sandbox("shared"));
	own = told_file(objects, &files, in_sandbox("own"));
	put_stat(NOBODY, 'S', 1, 0);
	told_space(spaces, 1, NOBODY, 1, "lives");
	told_mapping(spaces, 1, 1, 0, 0x1000, 0x2000, shared, 0);
	told_space(spaces, 2, NOBODY + 1, 1, "ends");
	told_mapping(spaces, 2, 1, 0, 0x1000, 0x2000, shared, 0);
	told_mapping(spaces, 2, 1, 0, 0x2000, 0x3000, own, 0);
	for (uint64_t second = 1; second < 10; second++) {
		settle(second * 1000, true);
		mapped_files_sweep(objects);
	}
	assert_int_equal(dropped(), 1);
	assert_true(files.fds[shared - 1] >= 0);
	assert_int_equal(files.fds[own - 1], -1);
}

/* A program that maps without end, of which there is no sample: what is ahead is bounded. */
static void changes_that_no_sample_needs_go(void **state)
{
	struct address_space_counts counts;

	(void)state;
	told_space(spaces, 1, (uint32_t)getpid(), 1, "jit");
	for (uint32_t i = 1; i <= 3 * MAPPING_HISTORY_EVENTS_MAX; i++) {
		told_mapping(spaces, 1, 1 + i, STACKBEAT_MAPPING_EVENT, 0x1000 * (i % 64 + 1),
			     0x1000 * (i % 64 + 2), 0, 0);
		if (i % 1000 == 0)
			settle(i, false);
	}
	address_spaces_counts(spaces, &counts);
	assert_int_equal(counts.left_out, 0);
	settle(1000000, false);
	settle(2000000, false);
	assert_true(address_space_ready(address_spaces_get(spaces, 1, 0),
					1 + 3 * MAPPING_HISTORY_EVENTS_MAX, true));
	assert_int_equal(place(1, 1 + 3 * MAPPING_HISTORY_EVENTS_MAX, 0x20000), SEGMENT_ANON);
}

/* Settling goes no further than what was all told when it was last done. */
static void what_is_half_told_is_left_alone(void **state)
{
	(void)state;
	told_space(spaces, 1, (uint32_t)getpid(), 3, "a");
	told_mapping(spaces, 1, 3, 0, 0x1000, 0x2000, 0, 0);
	settle(1000, false);
	for (uint32_t i = 2; i <= 3; i++)
		told_mapping(spaces, 1, i, STACKBEAT_MAPPING_EVENT, 0x5000, 0x6000, 0, 0);
	advance(1, 1);
	assert_int_equal(place(1, 1, 0x1000), SEGMENT_ANON);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_space_is_what_was_told_of_it),
		TEST(without_an_id_each_process_has_one_space),
		TEST(many_spaces_keep_their_place),
		TEST(mappings_are_places),
		TEST(what_is_told_decides_when_a_space_is_ready),
		TEST(mappings_go_when_the_process_has_ended),
		TEST(a_process_is_told_from_another_of_its_id),
		TEST(a_process_outlives_its_main_thread),
		TEST(other_namespaces_ids_say_nothing),
		TEST(files_of_ended_processes_are_given_back),
		TEST(changes_that_no_sample_needs_go),
		TEST(what_is_half_told_is_left_alone),
	};

	return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
