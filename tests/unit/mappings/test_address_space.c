// SPDX-License-Identifier: GPL-2.0
/* The table of address spaces. Mappings of one address space: test_mapping_history.c. */
#include "mappings/address_space.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_kernel_records.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/timed_call.h"
#include "mappings/mapped_vdso.h"
#include "mappings/mapping_history.h"
#include "mappings/moved_text.h"
#include "patience.h"
#include "runtime/perf_map_watcher.h"
#include "sandbox.h"
#include "standing_clock.h"
#include "steps.h"

#define MS UINT64_C(1000000)
/* Above the largest process id. */
#define NOBODY 2000000000u

static struct fake_files files;
static struct mapped_files *mapped;
static struct address_spaces *spaces;

static int set_up(void **state)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	monotonic_stands_at_ns = 0;
	if (make_sandbox(state))
		return -1;
	mapped = mapped_files_new(sandbox, &source, NULL);
	spaces = address_spaces_new(sandbox, mapped, NULL);
	return spaces ? 0 : -1;
}

static int tear_down(void **state)
{
	address_spaces_free(spaces);
	mapped_files_free(mapped);
	fake_clear(&files);
	return remove_sandbox(state);
}

static uint32_t segment(uint64_t space, uint32_t generation, uint64_t address)
{
	uint64_t offset;

	return address_space_segment_at(address_spaces_get(spaces, space, 0), generation, address,
					&offset);
}

static void advance(uint64_t space, uint32_t generation)
{
	assert_int_equal(address_space_advance(address_spaces_get(spaces, space, 0), generation),
			 0);
}

static void record_sets_identity_of_address_space(void **state)
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
	/* A sample may precede the record. */
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
}

static void id_0_is_one_address_space_per_process(void **state)
{
	struct address_space *ten = address_spaces_get(spaces, 0, 10),
			     *eleven = address_spaces_get(spaces, 0, 11);

	(void)state;
	assert_ptr_not_equal(ten, eleven);
	assert_ptr_equal(address_spaces_get(spaces, 0, 10), ten);
	assert_ptr_not_equal(address_spaces_get(spaces, 10, 10), ten);
	assert_int_equal(address_space_pid(ten), 10);
	/* There will be no records of it. */
	assert_true(address_space_ready(ten, 0, false));
	assert_int_equal(segment(0, 0, 0x1000), SEGMENT_NONE);
}

static void address_spaces_stay_in_place_as_the_table_grows(void **state)
{
	struct address_space *first = address_spaces_get(spaces, 1, 0);

	(void)state;
	for (uint64_t id = 1; id < 100000; id++)
		assert_non_null(address_spaces_get(spaces, id, 0));
	assert_ptr_equal(address_spaces_get(spaces, 1, 0), first);
}

/* A search is no walk through all of them. */
static void id_0_of_many_processes_is_found_quickly(void **state)
{
	enum { PROCESSES = 4000 };
	const uint64_t before = steps;

	(void)state;
	for (uint32_t pid = 1; pid <= PROCESSES; pid++)
		assert_non_null(address_spaces_get(spaces, 0, pid));
	assert_in_range(steps - before, PROCESSES, PROCESSES * 300);
}

static void mappings_resolve_to_segments(void **state)
{
	bool is_offset = false;
	uint64_t id, offset;
	struct mapped_file *file;

	(void)state;
	write_text(in_sandbox("file"), "");
	id = fake_file(mapped, &files, in_sandbox("file"));
	file = mapped_files_get(mapped, id);
	fake_space(spaces, 1, 10, 4, "a");
	fake_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VADDR, 0x10000, 0x20000, id, 0x400000);
	fake_mapping(spaces, 1, 4, 0, 0x20000, 0x30000, id, 0x5000);
	fake_mapping(spaces, 1, 4, 0, 0x30000, 0x40000, 0, 0);
	fake_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VDSO, 0x50000, 0x52000, 0, 0);
	fake_mapping(spaces, 1, 4, STACKBEAT_MAPPING_VDSO, 0x7fff00000000, 0x7fff00002000, 0, 0);
	/* A file that the kernel does not hold, of an ended process. */
	fake_mapping(spaces, 1, 4, 0, 0x60000, 0x61000, 0, 0x1000);
	advance(1, 4);

	assert_ptr_equal(segment_file(mapped, segment(1, 4, 0x12345), &is_offset), file);
	assert_false(is_offset);
	address_space_segment_at(address_spaces_get(spaces, 1, 0), 4, 0x12345, &offset);
	assert_int_equal(offset, 0x402345);
	assert_ptr_equal(segment_file(mapped, segment(1, 4, 0x20010), &is_offset), file);
	assert_true(is_offset);
	address_space_segment_at(address_spaces_get(spaces, 1, 0), 4, 0x20010, &offset);
	assert_int_equal(offset, 0x5010);
	assert_int_equal(segment(1, 4, 0x3ffff), SEGMENT_ANON);
	assert_int_equal(segment(1, 4, 0x40000), SEGMENT_NONE);
	assert_int_equal(segment(1, 4, 0x50000), SEGMENT_VDSO);
	assert_ptr_equal(segment_file(mapped, segment(1, 4, 0x7fff00000010), &is_offset),
			 mapped_files_vdso(mapped));
	/* A table of the vdso has ELF virtual addresses. */
	assert_false(is_offset);
	address_space_segment_at(address_spaces_get(spaces, 1, 0), 4, 0x7fff00000010, &offset);
	assert_int_equal(offset, 0x10);
	assert_int_equal(segment(1, 4, 0x60000), SEGMENT_NONE);
	assert_int_equal(segment(1, 4, 0xffffffffff600800), SEGMENT_VSYSCALL);
	assert_int_equal(segment(1, 4, 0xffffffffff601000), SEGMENT_NONE);
	assert_null(segment_file(mapped, SEGMENT_ANON, &is_offset));
}

static void program_of_the_recorded_process_is_noted(void **state)
{
	uint64_t shell, program;

	(void)state;
	write_text(in_sandbox("sh"), "");
	write_text(in_sandbox("program"), "");
	shell = fake_file(mapped, &files, in_sandbox("sh"));
	program = fake_file(mapped, &files, in_sandbox("program"));
	assert_null(address_spaces_main_path(spaces));
	address_spaces_follow_main(spaces, 10);
	fake_space(spaces, 1, 9, 1, "a");
	fake_mapping(spaces, 1, 1, STACKBEAT_MAPPING_MAIN_BINARY, 0x1000, 0x2000, shell, 0);
	assert_null(address_spaces_main_path(spaces));
	fake_space(spaces, 2, 10, 1, "a");
	fake_mapping(spaces, 2, 1, STACKBEAT_MAPPING_MAIN_BINARY, 0x1000, 0x2000, shell, 0);
	fake_mapping(spaces, 2, 1, 0, 0x3000, 0x4000, program, 0);
	assert_string_equal(address_spaces_main_path(spaces), in_sandbox("sh"));
	/* It has called exec. */
	fake_space(spaces, 3, 10, 1, "a");
	fake_mapping(spaces, 3, 1, STACKBEAT_MAPPING_MAIN_BINARY, 0x1000, 0x2000, program, 0);
	assert_string_equal(address_spaces_main_path(spaces), in_sandbox("program"));
}

/* Text that was moved */

#define TEXT_PAGES 1200u /* of the file; no comparison reaches from page 5 to the end */
#define PAGE UINT64_C(4096)
#define SLOW_NS (NS_PER_SECOND / 4) /* longer than a comparison should take */
#define SLOW_SECONDS 10 /* without a comparison after a slow one */

/*
 * Instead of the threads: whether calls hang or are refused, and ns that each takes. Nothing else
 * takes time after move_text(): a busy machine is no slow call.
 */
static bool calls_hang, calls_refused;
static int64_t call_ns;

int timed_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t timeout)
{
	assert_true(timeout > 0);
	if (calls_hang) {
		drop(arg);
		return -ETIMEDOUT;
	}
	if (calls_refused)
		return -EAGAIN;
	monotonic_stands_at_ns += call_ns;
	fn(arg);
	return 0;
}

static struct stackbeat_moved_text moved_texts[8];
static unsigned int moved_count;
static int moved_result;

static int note_moved_text(const struct stackbeat_moved_text *moved, void *arg)
{
	(void)arg;
	assert_true(moved_count < 8);
	moved_texts[moved_count++] = *moved;
	return moved_result;
}

/* Lets the time pass that comparisons have. */
static void pass_seconds(uint64_t seconds)
{
	static uint64_t now = 1;

	now += seconds * 1000 * MS;
	assert_int_equal(address_spaces_collect_garbage(spaces, 0, now, false), 0);
}

/* Maps pages of a file and, between them, the copy of its text in an address space. */
static void map_moved_text(uint64_t space, uint64_t address, uint64_t id, uint16_t flags)
{
	const uint64_t vaddr_bias = flags & STACKBEAT_MAPPING_VADDR ? 0x400000 : 0;
	struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING, .size = sizeof(mapping)},
		.address_space = space,
		.generation = 2,
	};

	fake_space(spaces, space, (uint32_t)getpid(), 2, "a");
	for (unsigned int i = 0; i < 3; i++) {
		mapping.start = address + (i == 0 ? 0 : i == 1 ? PAGE : (TEXT_PAGES - 1) * PAGE);
		mapping.end = address + (i == 0 ? PAGE : (TEXT_PAGES + i - 2) * PAGE);
		mapping.file = i == 1 ? 0 : id;
		mapping.record.flags = i == 1 ? 0 : flags;
		mapping.offset = i == 1 ? 0 : mapping.start - address;
		mapping.vaddr = i == 1 ? 0 : mapping.offset + vaddr_bias;
		assert_int_equal(address_spaces_add_mapping(spaces, &mapping), 0);
	}
	advance(space, 2);
}

/*
 * Writes a file of pages, and copies pages 1 to TEXT_PAGES - 2 of it to memory of this process,
 * which belongs to address space 1, between two mappings of the file. Returns the address of page
 * 0.
 */
static uint64_t move_text(uint16_t flags)
{
	static uint8_t text[TEXT_PAGES * PAGE];
	FILE *file = fopen(in_sandbox("file"), "we");
	uint8_t *memory = mmap(NULL, sizeof(text), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t address = (uint64_t)memory;
	struct mapped_file *mapped_file;
	uint64_t id;

	assert_non_null(file);
	assert_ptr_not_equal(memory, MAP_FAILED);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * i >> 7);
	assert_int_equal(fwrite(text, 1, sizeof(text), file), sizeof(text));
	fclose(file);
	memcpy(memory + PAGE, text + PAGE, (TEXT_PAGES - 2) * PAGE);
	id = fake_file(mapped, &files, in_sandbox("file"));
	mapped_file = mapped_files_get(mapped, id);
	map_moved_text(1, address, id, flags);
	assert_int_equal(mapped_file_hold(mapped, mapped_file), 0);
	mapped_files_finish(mapped);
	address_spaces_on_moved_text(spaces, note_moved_text, NULL);
	moved_count = 0;
	moved_result = 0;
	monotonic_stands_at_ns = now_ns(CLOCK_MONOTONIC);
	return address;
}

static void expect_text(uint32_t generation, uint64_t address, uint64_t vaddr)
{
	uint64_t offset;
	bool is_offset;
	uint32_t found = address_space_segment_at(address_spaces_get(spaces, 1, 0), generation,
						  address, &offset);

	assert_non_null(segment_file(mapped, found, &is_offset));
	assert_int_equal(offset, vaddr);
}

static void moved_text_is_of_its_file(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	/* The module gets it once. */
	expect_text(2, address + 6 * PAGE, 0x400000 + 6 * PAGE);
	assert_int_equal(moved_count, 1);
	assert_int_equal(moved_texts[0].address_space, 1);
	assert_int_equal(moved_texts[0].start, address + PAGE);
	assert_int_equal(moved_texts[0].end, address + (5 + 1 + MOVED_TEXT_PAGES_MAX) * PAGE);
	assert_int_equal(moved_texts[0].beside, address);
	assert_int_equal(moved_texts[0].generation, 2);
	expect_text(2, address + 1100 * PAGE, 0x400000 + 1100 * PAGE);
	assert_int_equal(moved_count, 2);
	assert_int_equal(moved_texts[1].start, moved_texts[0].end);
	assert_int_equal(moved_texts[1].end, address + (TEXT_PAGES - 1) * PAGE);
	/* It is no text any more once it is replaced. */
	memset((void *)(address + PAGE), 0xcc, PAGE);
	fake_mapping(spaces, 1, 3, STACKBEAT_MAPPING_EVENT, address + PAGE, address + 2 * PAGE, 0,
		     0);
	advance(1, 3);
	assert_int_equal(segment(1, 3, address + PAGE), SEGMENT_ANON);
	expect_text(3, address + 2 * PAGE, 0x400000 + 2 * PAGE);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

static void moved_text_of_a_file_without_headers_is_known(void **state)
{
	const uint64_t address = move_text(0);
	struct mapping_view view;
	uint64_t in_view = address + 7 * PAGE;
	uint32_t found;
	bool is_offset;

	(void)state;
	assert_int_equal(mapping_view_init(&view, address_spaces_get(spaces, 1, 0), 2), 0);
	assert_int_equal(mapping_view_segments(&view, &in_view, &found, 1), 1);
	assert_non_null(segment_file(mapped, found, &is_offset));
	assert_true(is_offset);
	assert_int_equal(in_view, 7 * PAGE);
	mapping_view_clear(&view);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

static void text_that_the_module_does_not_know_yet_is_passed_on_later(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	moved_result = -ESTALE;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 1);
	fake_mapping(spaces, 1, 3, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0, 0);
	advance(1, 3);
	moved_result = 0;
	expect_text(3, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 2);
	assert_int_equal(moved_texts[1].generation, 3);
	fake_mapping(spaces, 1, 4, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0, 0);
	advance(1, 4);
	expect_text(4, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 2);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* A slow comparison leaves no time to pass its text on. */
static void text_that_there_was_no_time_to_pass_on_is_passed_on_later(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	pass_seconds(1);
	call_ns = SLOW_NS;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	call_ns = 0;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 0);
	pass_seconds(SLOW_SECONDS + 2);
	moved_result = -ESTALE;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 1);
	/* Another text of the generation at which the first one was refused. */
	call_ns = SLOW_NS;
	expect_text(2, address + 7 * PAGE, 0x400000 + 7 * PAGE);
	call_ns = 0;
	assert_int_equal(moved_count, 1);
	pass_seconds(SLOW_SECONDS + 2);
	moved_result = 0;
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 3);
	assert_int_equal(moved_texts[1].start, address + 5 * PAGE);
	assert_int_equal(moved_texts[2].start, address + 7 * PAGE);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* Only the page that differs, and only until it is the same. */
static void generated_code_in_the_place_of_text_is_anonymous(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	uint8_t *byte = (uint8_t *)(address + 5 * PAGE + 77);

	(void)state;
	++*byte;
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	assert_int_equal(segment(1, 2, address + 6 * PAGE - 1), SEGMENT_ANON);
	assert_int_equal(moved_count, 0);
	expect_text(2, address + 4 * PAGE, 0x400000 + 4 * PAGE);
	assert_int_equal(moved_texts[0].start, address + PAGE);
	assert_int_equal(moved_texts[0].end, address + 5 * PAGE);
	expect_text(2, address + 6 * PAGE, 0x400000 + 6 * PAGE);
	assert_int_equal(moved_texts[1].start, address + 6 * PAGE);
	assert_int_equal(moved_texts[1].end, address + (6 + 1 + MOVED_TEXT_PAGES_MAX) * PAGE);
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	--*byte;
	pass_seconds(1);
	pass_seconds(1);
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	assert_int_equal(moved_count, 3);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* Bytes that are all the same say nothing. */
static void filler_is_no_text(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	FILE *file = fopen(in_sandbox("file"), "r+e");

	(void)state;
	assert_non_null(file);
	for (size_t i = 0; i < TEXT_PAGES * PAGE; i++)
		fputc(0, file);
	fclose(file);
	memset((void *)address, 0, TEXT_PAGES * PAGE);
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* Each generation of the memory can be compared, but not for ever. */
static void comparisons_have_a_budget(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	uint8_t *byte = (uint8_t *)(address + 5 * PAGE);
	uint32_t generation = 2;

	(void)state;
	pass_seconds(1);
	++*byte;
	while (generation < 300) {
		assert_int_equal(segment(1, generation, address + 5 * PAGE), SEGMENT_ANON);
		fake_mapping(spaces, 1, ++generation, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0,
			     0);
		advance(1, generation);
	}
	--*byte;
	assert_int_equal(segment(1, generation, address + 5 * PAGE), SEGMENT_ANON);
	pass_seconds(1);
	expect_text(generation, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* Expects that no comparison follows a slow one of this address space for ten seconds. */
static void expect_pause_after_slow_comparison(uint64_t space, uint64_t address)
{
	pass_seconds(1);
	call_ns = SLOW_NS;
	assert_int_equal(segment(space, 2, address + 5 * PAGE), SEGMENT_ANON);
	call_ns = 0;
	pass_seconds(SLOW_SECONDS - 2);
	assert_int_equal(segment(1, 2, address + 7 * PAGE), SEGMENT_ANON);
	pass_seconds(2);
	expect_text(2, address + 7 * PAGE, 0x400000 + 7 * PAGE);
}

static void slow_comparison_that_finds_nothing_is_counted(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	++*(uint8_t *)(address + 5 * PAGE);
	expect_pause_after_slow_comparison(1, address);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* Nothing of the file is left but its record. */
static void slow_search_for_a_file_is_counted(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	uint64_t id;

	(void)state;
	write_text(in_sandbox("other"), "");
	assert_int_equal(truncate(in_sandbox("other"), TEXT_PAGES * PAGE), 0);
	id = fake_file(mapped, &files, in_sandbox("other"));
	files.refuse = true;
	assert_int_equal(unlink(in_sandbox("other")), 0);
	map_moved_text(2, address, id, STACKBEAT_MAPPING_VADDR);
	expect_pause_after_slow_comparison(2, address);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* The file is opened for each of them. */
static void refused_comparisons_are_counted(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	pass_seconds(1);
	calls_refused = true;
	for (unsigned int i = 0; i < 200; i++)
		assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	calls_refused = false;
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	pass_seconds(1);
	expect_text(2, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* A comparison that hangs is the last one of its process, and of all for ten minutes. */
static void hanging_comparisons_end(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	const uint64_t id = fake_file(mapped, &files, in_sandbox("file"));

	(void)state;
	assert_int_equal(mapped_file_hold(mapped, mapped_files_get(mapped, id)), 0);
	mapped_files_finish(mapped);
	pass_seconds(1);
	calls_hang = true;
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	calls_hang = false;
	map_moved_text(2, address, id, STACKBEAT_MAPPING_VADDR);
	pass_seconds(598);
	assert_int_equal(segment(2, 2, address + 5 * PAGE), SEGMENT_ANON);
	pass_seconds(2);
	assert_true(segment(2, 2, address + 5 * PAGE) >= SEGMENT_FILES);
	pass_seconds(2);
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

/* A lookup of each frame of generated code, which no file reaches. */
static void generated_code_is_compared_with_no_file_again(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);
	uint64_t first, others;

	(void)state;
	fake_mapping(spaces, 1, 3, STACKBEAT_MAPPING_EVENT, 0x10000, 0x20000, 0, 0);
	advance(1, 3);
	first = steps;
	assert_int_equal(segment(1, 3, 0x10000), SEGMENT_ANON);
	first = steps - first;
	others = steps;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(segment(1, 3, 0x10000 + i), SEGMENT_ANON);
	others = steps - others;
	/* Half of the first one. */
	assert_true(others < 100 * first * 2 / 3);
	/* The text of the file is still found. */
	expect_text(3, address + 5 * PAGE, 0x400000 + 5 * PAGE);
	munmap((void *)address, TEXT_PAGES * PAGE);
}

static void memory_of_a_process_that_has_ended_is_anonymous(void **state)
{
	const uint64_t address = move_text(STACKBEAT_MAPPING_VADDR);

	(void)state;
	munmap((void *)address, TEXT_PAGES * PAGE);
	assert_int_equal(segment(1, 2, address + 5 * PAGE), SEGMENT_ANON);
	assert_int_equal(moved_count, 0);
}

static void address_space_is_ready_once_all_records_are_applied(void **state)
{
	struct address_space *space = address_spaces_get(spaces, 1, 10);

	(void)state;
	assert_false(address_space_ready(space, 1, true));
	fake_space(spaces, 1, 10, 3, "a");
	fake_mapping(spaces, 1, 3, 0, 0x1000, 0x2000, 0, 0);
	assert_false(address_space_ready(space, 3, true));
	advance(1, 3);
	assert_true(address_space_ready(space, 3, true));
	/* Records of a later generation may still arrive. */
	assert_true(address_space_ready(space, 3, false));
	assert_false(address_space_ready(space, 4, false));
	assert_true(address_space_ready(space, 4, true));
	fake_mapping(spaces, 1, 4, STACKBEAT_MAPPING_EVENT, 0x3000, 0x4000, 0, 0);
	assert_true(address_space_ready(space, 3, true));
	assert_false(address_space_ready(space, 4, true));
	assert_int_equal(segment(1, 4, 0x3000), SEGMENT_NONE);
	advance(1, 4);
	assert_int_equal(segment(1, 4, 0x3000), SEGMENT_ANON);
	assert_int_equal(segment(1, 3, 0x3000), SEGMENT_NONE);
	assert_int_equal(segment(1, 3, 0x1000), SEGMENT_ANON);
}

/* Writes /proc/PID/stat: state, number of threads, and start in clock ticks. */
static void put_stat(uint32_t pid, char letter, unsigned int threads, unsigned long start)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "%u (a) b) %c 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 %u 18 %lu 20 21\n", pid,
		 letter, threads, start);
	run("mkdir -p %s", in_sandbox("proc/%u", pid));
	write_text(in_sandbox("proc/%u/stat", pid), text);
}

static uint64_t ended(void)
{
	struct address_space_counts counts;

	address_spaces_counts(spaces, &counts);
	return counts.ended;
}

static void collect_garbage(uint64_t ms, bool check_alive)
{
	assert_int_equal(
		address_spaces_collect_garbage(spaces, (ms - 10) * MS, ms * MS, check_alive), 0);
}

/* The address spaces that were forgotten, by index of the call. */
static struct {
	uint64_t count;
	char comm[STACKBEAT_COMM_SIZE];
	int err; /* to be returned */
} forgotten;

static int forget(struct address_space *space, void *arg)
{
	(void)arg;
	if (forgotten.err)
		return forgotten.err;
	forgotten.count++;
	strcpy(forgotten.comm, address_space_comm(space));
	return 0;
}

static void ended_process_is_forgotten(void **state)
{
	(void)state;
	memset(&forgotten, 0, sizeof(forgotten));
	address_spaces_on_forget(spaces, forget, NULL);
	put_stat(NOBODY, 'S', 1, 0);
	fake_space(spaces, 1, NOBODY, 1, "a");
	fake_mapping(spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	advance(1, 1);
	collect_garbage(1000, true);
	collect_garbage(2000, true);
	assert_int_equal(ended(), 0);
	assert_int_equal(segment(1, 1, 0x1000), SEGMENT_ANON);

	/* It was alive, so one check was skipped. */
	run("rm -r %s", in_sandbox("proc/%u", NOBODY));
	collect_garbage(3000, true);
	/* Its last samples may still be in the rings. */
	collect_garbage(3005, false);
	assert_int_equal(ended(), 0);
	assert_int_equal(segment(1, 1, 0x1000), SEGMENT_ANON);
	/* It is kept as long as its stacks can't be folded. */
	forgotten.err = -ENOMEM;
	assert_int_equal(address_spaces_collect_garbage(spaces, 3010 * MS, 3020 * MS, false),
			 -ENOMEM);
	assert_int_equal(segment(1, 1, 0x1000), SEGMENT_ANON);
	forgotten.err = 0;
	collect_garbage(3020, false);
	assert_int_equal(ended(), 1);
	assert_int_equal(forgotten.count, 1);
	assert_string_equal(forgotten.comm, "a");
	/* Another sample would get a new one. */
	assert_string_equal(address_space_comm(address_spaces_get(spaces, 1, 0)), "");
}

/* Late records, or samples of an address space that the kernel did not announce. */
static void unannounced_address_spaces_are_forgotten(void **state)
{
	uint64_t ms;

	(void)state;
	memset(&forgotten, 0, sizeof(forgotten));
	address_spaces_on_forget(spaces, forget, NULL);
	fake_mapping(spaces, 1, 2, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0, 0);
	address_spaces_get(spaces, 0, 10);
	for (ms = 1000; ms <= 5000; ms += 1000)
		collect_garbage(ms, true);
	assert_int_equal(forgotten.count, 0);
	for (; ms <= 20000; ms += 1000)
		collect_garbage(ms, true);
	assert_int_equal(forgotten.count, 2);
	assert_int_equal(ended(), 0);
}

/* As many processes as there are ids: neither indices nor memory grow. */
static void places_of_forgotten_processes_are_used_again(void **state)
{
	uint64_t id = 1;
	size_t bytes = 0;

	(void)state;
	for (uint64_t round = 1; round <= 20; round++) {
		for (uint32_t i = 0; i < 1000; i++, id++) {
			fake_space(spaces, id, NOBODY + i, 1, "short");
			fake_mapping(spaces, id, 1, 0, 0x1000, 0x2000, 0, 0);
			assert_true(address_space_index(address_spaces_get(spaces, id, 0)) < 1000);
		}
		if (round == 1)
			bytes = address_spaces_bytes(spaces);
		assert_int_equal(address_spaces_bytes(spaces), bytes);
		collect_garbage(round * 1000, true);
		collect_garbage(round * 1000 + 20, false);
		assert_int_equal(ended(), id - 1);
	}
}

static void add_space_with_start(uint64_t id, uint32_t pid, uint64_t start_time)
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

static void start_time_distinguishes_processes_of_the_same_id(void **state)
{
	(void)state;
	put_stat(NOBODY, 'R', 1, 500);
	put_stat(NOBODY + 1, 'Z', 1, 500);
	add_space_with_start(1, NOBODY, UINT64_C(5009999999)); /* the same process */
	add_space_with_start(2, NOBODY, UINT64_C(4990000000)); /* an earlier one with this id */
	add_space_with_start(3, NOBODY + 1, UINT64_C(5000000000)); /* a zombie has ended */
	add_space_with_start(4, (uint32_t)getpid(), 0); /* not in /proc, but alive */
	collect_garbage(1000, true);
	collect_garbage(2000, false);
	assert_int_equal(ended(), 2);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 1, 0)), NOBODY);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 2, 0)), 0);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 3, 0)), 0);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 4, 0)), getpid());
}

/* A process that calls exec again and again, or that the kernel's table has no room for. */
static void replaced_address_spaces_are_forgotten(void **state)
{
	const uint32_t pid = (uint32_t)getpid();
	uint64_t id, ms = 1000;

	(void)state;
	/* Two CPUs have announced it at the same time: it can't be known which one stays in use. */
	add_space_with_start(1, pid, 5);
	add_space_with_start(2, pid, 5);
	add_space_with_start(3, NOBODY, 5);
	put_stat(NOBODY, 'R', 1, 0);
	for (id = 4; id < 1000; id++, ms += 1000) {
		collect_garbage(ms, true);
		add_space_with_start(id, pid, 5);
		if (id == 7)
			assert_int_equal(ended(), 0);
	}
	assert_in_range(ended(), 950, 990);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 1, 0)), 0);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 2, 0)), 0);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 3, 0)), NOBODY);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 995, 0)), pid);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 999, 0)), pid);
	/* The latest one stays, however old it is. */
	for (unsigned int i = 0; i < 100; i++, ms += 1000)
		collect_garbage(ms, true);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 999, 0)), pid);
}

/* Of this machine, whose /proc need not be read for a process that has ended. */
static void process_without_a_number_is_forgotten(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	address_spaces_free(spaces);
	spaces = address_spaces_new("", mapped, NULL);
	assert_non_null(spaces);
	fake_space(spaces, 1, (uint32_t)pid, 1, "a");
	add_space_with_start(2, (uint32_t)getppid(), INT64_MAX / 2);
	for (uint64_t ms = 1000; ms < 5000; ms += 1000)
		collect_garbage(ms, true);
	assert_string_equal(address_space_comm(address_spaces_get(spaces, 1, 0)), "");
	assert_int_equal(ended(), 1);
}

/* Its process has ended, also where that can't be looked up. */
static void process_of_a_reused_id_is_forgotten(void **state)
{
	(void)state;
	address_spaces_same_pid_ns(spaces, false);
	add_space_with_start(1, NOBODY, 5);
	add_space_with_start(2, NOBODY, 6);
	/* The record of an earlier one is late. */
	add_space_with_start(4, NOBODY + 1, 6);
	add_space_with_start(3, NOBODY + 1, 5);
	for (uint64_t ms = 1000; ms < 30000; ms += 1000)
		collect_garbage(ms, true);
	assert_int_equal(ended(), 1);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 1, 0)), 0);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 2, 0)), NOBODY);
	assert_int_equal(address_space_pid(address_spaces_get(spaces, 4, 0)), NOBODY + 1);
}

static void process_is_alive_until_its_last_thread_has_ended(void **state)
{
	(void)state;
	put_stat(NOBODY, 'Z', 2, 500);
	add_space_with_start(1, NOBODY, UINT64_C(5000000000));
	collect_garbage(1000, true);
	collect_garbage(2000, true);
	assert_int_equal(ended(), 0);
	put_stat(NOBODY, 'Z', 1, 500);
	collect_garbage(3000, true);
	collect_garbage(4000, true);
	assert_int_equal(ended(), 1);
}

static void process_ids_of_another_namespace_are_not_checked(void **state)
{
	(void)state;
	address_spaces_same_pid_ns(spaces, false);
	add_space_with_start(1, NOBODY, 0);
	collect_garbage(1000, true);
	collect_garbage(2000, true);
	collect_garbage(3000, true);
	assert_int_equal(ended(), 0);
}

/* Files that only ended processes have mapped are released; others are not. */
static void files_of_ended_processes_are_released(void **state)
{
	uint64_t shared, own;

	(void)state;
	write_text(in_sandbox("shared"), "");
	write_text(in_sandbox("own"), "");
	shared = fake_file(mapped, &files, in_sandbox("shared"));
	own = fake_file(mapped, &files, in_sandbox("own"));
	put_stat(NOBODY, 'S', 1, 0);
	fake_space(spaces, 1, NOBODY, 1, "lives");
	fake_mapping(spaces, 1, 1, 0, 0x1000, 0x2000, shared, 0);
	fake_space(spaces, 2, NOBODY + 1, 1, "ends");
	fake_mapping(spaces, 2, 1, 0, 0x1000, 0x2000, shared, 0);
	fake_mapping(spaces, 2, 1, 0, 0x2000, 0x3000, own, 0);
	for (uint64_t second = 1; second < 10; second++) {
		collect_garbage(second * 1000, true);
		mapped_files_sweep(mapped);
	}
	assert_int_equal(ended(), 1);
	assert_true(files.fds[shared - 1] >= 0);
	assert_int_equal(files.fds[own - 1], -1);
}

/* A process maps memory again and again without a sample: the pending events are bounded. */
static void events_that_no_sample_needs_are_applied(void **state)
{
	struct address_space_counts counts;

	(void)state;
	fake_space(spaces, 1, (uint32_t)getpid(), 1, "jit");
	for (uint32_t i = 1; i <= 3 * MAPPING_HISTORY_EVENTS_MAX; i++) {
		fake_mapping(spaces, 1, 1 + i, STACKBEAT_MAPPING_EVENT, 0x1000 * (i % 64 + 1),
			     0x1000 * (i % 64 + 2), 0, 0);
		if (i % 1000 == 0)
			collect_garbage(i, false);
	}
	address_spaces_counts(spaces, &counts);
	assert_int_equal(counts.mappings_dropped, 0);
	collect_garbage(1000000, false);
	collect_garbage(2000000, false);
	assert_true(address_space_ready(address_spaces_get(spaces, 1, 0),
					1 + 3 * MAPPING_HISTORY_EVENTS_MAX, true));
	assert_int_equal(segment(1, 1 + 3 * MAPPING_HISTORY_EVENTS_MAX, 0x20000), SEGMENT_ANON);
}

/* Garbage collection only applies generations that were complete at the previous one. */
static void incomplete_generations_are_not_applied(void **state)
{
	(void)state;
	fake_space(spaces, 1, (uint32_t)getpid(), 3, "a");
	fake_mapping(spaces, 1, 3, 0, 0x1000, 0x2000, 0, 0);
	collect_garbage(1000, false);
	for (uint32_t i = 2; i <= 3; i++)
		fake_mapping(spaces, 1, i, STACKBEAT_MAPPING_EVENT, 0x5000, 0x6000, 0, 0);
	advance(1, 1);
	assert_int_equal(segment(1, 1, 0x1000), SEGMENT_ANON);
}

/* A process that lives is checked less and less often. */
static void checks_back_off(void **state)
{
	(void)state;
	put_stat(NOBODY, 'S', 1, 0);
	fake_space(spaces, 1, NOBODY, 1, "a");
	/* It is checked at 1, 3, 7, 15, and then every 16th time. */
	for (uint64_t second = 1; second <= 31; second++)
		collect_garbage(1000 * second, true);
	run("rm -r %s", in_sandbox("proc/%u", NOBODY));
	for (uint64_t second = 32; second <= 46; second++)
		collect_garbage(1000 * second, true);
	collect_garbage(46500, false);
	assert_int_equal(ended(), 0);
	collect_garbage(47000, true);
	collect_garbage(47500, false);
	assert_int_equal(ended(), 1);
}

static void held_address_space_is_not_forgotten(void **state)
{
	struct address_space *space;

	(void)state;
	fake_space(spaces, 1, NOBODY, 1, "held");
	space = address_spaces_get(spaces, 1, 0);
	address_space_hold(space);
	address_space_hold(space);
	address_space_release(space);
	for (uint64_t second = 1; second < 5; second++)
		collect_garbage(1000 * second, true);
	assert_int_equal(ended(), 0);
	assert_string_equal(address_space_comm(space), "held");
	address_space_release(space);
	collect_garbage(5000, false);
	assert_int_equal(ended(), 1);
}

/* At the time of the last collection, all records of before have arrived. */
static void events_of_the_last_collection_are_applied(void **state)
{
	struct address_space *space;

	(void)state;
	fake_space(spaces, 1, (uint32_t)getpid(), 1, "a");
	advance(1, 1);
	space = address_spaces_get(spaces, 1, 0);
	assert_int_equal(address_spaces_collect_garbage(spaces, 90 * MS, 100 * MS, false), 0);
	fake_mapping(spaces, 1, 2, STACKBEAT_MAPPING_EVENT, 0x5000, 0x6000, 0, 0);
	assert_int_equal(address_spaces_collect_garbage(spaces, 110 * MS, 120 * MS, false), 0);
	/* The event is known since then only. */
	assert_int_equal(address_spaces_collect_garbage(spaces, 119 * MS, 130 * MS, false), 0);
	assert_false(address_space_ready(space, 2, true));
	assert_int_equal(address_spaces_collect_garbage(spaces, 120 * MS, 140 * MS, false), 0);
	assert_true(address_space_ready(space, 2, true));
}

static void bytes_include_all_histories(void **state)
{
	enum { SPACES = 3, MAPPINGS = 1000 };
	size_t bytes[SPACES + 1];

	(void)state;
	for (uint64_t id = 1; id <= SPACES; id++)
		fake_space(spaces, id, (uint32_t)getpid(), 1, "a");
	bytes[0] = address_spaces_bytes(spaces);
	for (uint64_t id = 1; id <= SPACES; id++) {
		for (uint64_t i = 0; i < MAPPINGS; i++)
			fake_mapping(spaces, id, 1, 0, 0x2000 * i, 0x2000 * i + 0x1000, 0, 0);
		bytes[id] = address_spaces_bytes(spaces);
		assert_true(bytes[id] - bytes[id - 1] >= MAPPINGS * sizeof(struct mapping));
		assert_true(bytes[id] - bytes[id - 1] < 10 * MAPPINGS * sizeof(struct mapping));
	}
	for (uint64_t id = 10; id < 10010; id++)
		address_spaces_get(spaces, id, 0);
	/* Each takes about 104 bytes, and 32 in tables, which are not full. */
	assert_in_range(address_spaces_bytes(spaces) - bytes[SPACES], 10000 * 128, 10000 * 160);
}

/* Many addresses are looked up at once, up to the first one in no mapping. */
static void stacks_are_looked_up_at_once(void **state)
{
	static const uint64_t stack[] = {0x30000, 0x3ffff, 0x40000,
					 0x20fff, 0x20ffe, 0xffffffffff600000,
					 0x30001, 0x41000, 0x30000};
	static const uint64_t offsets[] = {0x30000, 0x3ffff, 0x6000,
					   0x5fff,  0x5ffe,  0xffffffffff600000,
					   0x30001, 0x41000, 0x30000};
	struct mapping_view view;
	struct address_space *space;
	uint64_t id;

	(void)state;
	write_text(in_sandbox("file"), "");
	id = fake_file(mapped, &files, in_sandbox("file"));
	fake_space(spaces, 1, 10, 1, "a");
	fake_mapping(spaces, 1, 1, 0, 0x20000, 0x21000, id, 0x5000);
	fake_mapping(spaces, 1, 1, 0, 0x30000, 0x40000, 0, 0);
	fake_mapping(spaces, 1, 1, 0, 0x40000, 0x41000, id, 0x6000);
	advance(1, 1);
	space = address_spaces_get(spaces, 1, 0);
	assert_int_equal(mapping_view_init(&view, space, 1), 0);
	assert_int_equal(view.count, 3);
	assert_true(view.is_certain);
	assert_int_equal(mapping_view_bytes(&view), 3 * sizeof(struct mapping));
	for (int i = 0; i < 3; i++) {
		uint64_t addresses[9];
		uint32_t segments[9];

		memcpy(addresses, stack, sizeof(stack));
		if (i == 0)
			assert_int_equal(
				address_space_segments_at(space, 1, addresses, segments, 9), 8);
		else
			assert_int_equal(mapping_view_segments(&view, addresses, segments, 9), 8);
		assert_memory_equal(addresses, offsets, sizeof(offsets));
		assert_int_equal(segments[0], SEGMENT_ANON);
		assert_int_equal(segments[1], SEGMENT_ANON);
		assert_true(segments[2] >= SEGMENT_FILES);
		assert_int_equal(segments[3], segments[2]);
		assert_int_equal(segments[4], segments[2]);
		assert_int_equal(segments[5], SEGMENT_VSYSCALL);
		assert_int_equal(segments[6], SEGMENT_ANON);
		assert_int_equal(segments[7], SEGMENT_NONE);
		for (int j = 0; j < 8; j++) {
			const struct mapping *found =
				i == 0 ? address_space_mapping_at(space, 1, stack[j])
				       : mapping_view_mapping(&view, stack[j]);

			if (segments[j] < SEGMENT_FILES && segments[j] != SEGMENT_ANON) {
				assert_null(found);
				continue;
			}
			assert_int_equal(found->segment, segments[j]);
			assert_int_equal(stack[j] + found->bias, offsets[j]);
			assert_in_range(stack[j], found->start, found->end - 1);
			assert_int_equal(found->end - found->start,
					 j < 2 || j == 6 ? 0x10000 : 0x1000);
		}
		/* A view stays, whatever the process does. */
		fake_mapping(spaces, 1, 2, STACKBEAT_MAPPING_EVENT, 0x30000, 0x38000, id, 0x9000);
		advance(1, 2);
	}
	mapping_view_clear(&view);
	assert_int_equal(view.count, 0);
	/* Without records, nothing is known. */
	assert_int_equal(mapping_view_init(&view, address_spaces_get(spaces, 0, 77), 1), 0);
	assert_int_equal(view.count, 0);
	assert_false(view.is_certain);
	mapping_view_clear(&view);
}

/* The files of a view are not forgotten as long as it is marked. */
static void views_mark_all_their_files(void **state)
{
	struct mapping_view view;
	uint64_t first, second;

	(void)state;
	write_text(in_sandbox("first"), "");
	write_text(in_sandbox("second"), "");
	first = fake_file(mapped, &files, in_sandbox("first"));
	second = fake_file(mapped, &files, in_sandbox("second"));
	fake_space(spaces, 1, 10, 1, "a");
	fake_mapping(spaces, 1, 1, 0, 0x10000, 0x11000, 0, 0);
	fake_mapping(spaces, 1, 1, 0, 0x20000, 0x21000, first, 0);
	fake_mapping(spaces, 1, 1, STACKBEAT_MAPPING_VADDR, 0x30000, 0x31000, second, 0);
	advance(1, 1);
	assert_int_equal(mapping_view_init(&view, address_spaces_get(spaces, 1, 0), 1), 0);
	for (int i = 0; i < 10; i++) {
		mapping_view_mark(&view, mapped);
		mapped_files_sweep(mapped);
	}
	assert_true(files.fds[first - 1] >= 0);
	assert_true(files.fds[second - 1] >= 0);
	mapping_view_clear(&view);
	for (int i = 0; i < 10; i++)
		mapped_files_sweep(mapped);
	assert_int_equal(files.released, 2);
}

/* The process `pid` has written its perf map. */
static void put_perf_map(uint32_t pid, uint32_t ns_pid)
{
	run("mkdir -p %s", in_sandbox("proc/%u/root/tmp", pid));
	write_text(in_sandbox("proc/%u/root/tmp/perf-%u.map", pid, ns_pid), "1000 10 f\n");
}

static void add_jit_process(uint64_t id, uint32_t pid, uint32_t ns_pid)
{
	union any_space any = {
		.space = {
			.record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE,
				   .size = sizeof(struct stackbeat_address_space) + 8},
			.address_space = id,
			.pid = pid,
			.ns_pid = ns_pid,
			.generation = 1,
		}};

	put_stat(pid, 'S', 1, 0);
	assert_int_equal(address_spaces_add(spaces, &any.space), 0);
}

/* Takes the perf maps. Returns their number. */
static size_t take_maps(void)
{
	struct perf_map_fd *maps;
	size_t count;

	assert_int_equal(address_spaces_take_perf_maps(spaces, false, &maps, &count), 0);
	for (size_t i = 0; i < count; i++)
		close(maps[i].fd);
	free(maps);
	return count;
}

/* A program may write its map at its end: it is looked for once more. */
static void perf_maps_are_found_until_the_end(void **state)
{
	struct address_space *list[4];

	(void)state;
	assert_int_equal(take_maps(), 0);
	address_spaces_finish(spaces);
	for (uint32_t i = 0; i < 4; i++) {
		add_jit_process(1 + i, NOBODY + i, i ? 7 + i : 0);
		run("mkdir -p %s", in_sandbox("proc/%u/root/tmp", NOBODY + i));
		list[i] = address_spaces_get(spaces, 1 + i, 0);
		assert_int_equal(address_space_perf_map(list[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		address_space_has_jit_code(list[i]);
		address_space_has_jit_code(list[i]);
		/* It may appear as long as the process lives. */
		assert_int_not_equal(address_space_perf_map(list[i]), 0);
	}
	usleep(50000);
	assert_int_equal(take_maps(), 0);
	put_perf_map(NOBODY, NOBODY);
	put_perf_map(NOBODY + 1, 8);
	put_perf_map(NOBODY + 3, 10);
	address_spaces_finish(spaces);
	assert_int_equal(take_maps(), 2);
	assert_int_not_equal(address_space_perf_map(list[0]), 0);
	assert_int_not_equal(address_space_perf_map(list[1]), 0);
	assert_int_equal(address_space_perf_map(list[2]), 0);
	assert_int_equal(address_space_perf_map(list[3]), 0);
}

/* While the process lives, its map is looked for at each check. */
static void perf_maps_are_found_at_checks(void **state)
{
	struct address_space *space;

	(void)state;
	add_jit_process(1, NOBODY, 0);
	space = address_spaces_get(spaces, 1, 0);
	address_space_has_jit_code(space);
	/* Most likely, the first look for it is over. */
	usleep(50000);
	put_perf_map(NOBODY, NOBODY);
	collect_garbage(1000, true);
	wait_until(take_maps() == 1);
}

/* Whether this process has a file or directory open. */
static bool is_open(const char *path)
{
	char link[64], target[PATH_MAX];
	bool found = false;
	ssize_t length;

	for (int fd = 0; fd < 64 && !found; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, target, sizeof(target) - 1);
		target[MAX(length, 0)] = '\0';
		found = !strcmp(target, path);
	}
	return found;
}

/* A runtime may write its map when it exits: it is looked for once more when the process is gone.
 */
static void perf_map_of_an_ended_process_is_found(void **state)
{
	struct address_space *space;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/%u/root/tmp", NOBODY));
	add_jit_process(1, NOBODY, 0);
	space = address_spaces_get(spaces, 1, 0);
	address_space_has_jit_code(space);
	address_space_has_jit_code(space);
	/* The directory of maps is kept while the process lives. */
	wait_until(is_open(in_sandbox("proc/%u/root/tmp", NOBODY)));
	put_perf_map(NOBODY, NOBODY);
	run("mv %s %s", in_sandbox("proc/%u/root", NOBODY), in_sandbox("root"));
	put_stat(NOBODY, 'Z', 1, 0);
	collect_garbage(1000, true);
	wait_until(take_maps() == 1);
	assert_int_not_equal(address_space_perf_map(space), 0);
}

/* Without a record, and with the ids of another namespace, it is not known which map it is. */
static void unknown_processes_have_no_perf_map(void **state)
{
	struct address_space *space = address_spaces_get(spaces, 0, NOBODY);

	(void)state;
	put_perf_map(NOBODY, NOBODY);
	address_space_has_jit_code(space);
	assert_int_equal(address_space_perf_map(space), 0);
	address_spaces_same_pid_ns(spaces, false);
	add_jit_process(1, NOBODY, 0);
	space = address_spaces_get(spaces, 1, 0);
	address_space_has_jit_code(space);
	assert_int_equal(address_space_perf_map(space), 0);
	address_spaces_finish(spaces);
	assert_int_equal(take_maps(), 0);
}

static bool find_address(const struct address_space *space, uint32_t place, uint64_t offset,
			 uint64_t *address)
{
	const struct mapping *mapping = address_space_mapping_of(space, place, offset);

	if (mapping)
		*address = offset - mapping->bias;
	return mapping;
}

/* Generated code may be in a file, which is mapped more than once. */
static void offset_in_a_file_has_an_address(void **state)
{
	struct address_space *space;
	uint64_t id, address, offset;
	uint32_t place;

	(void)state;
	write_text(in_sandbox("code"), "x");
	id = fake_other_file(mapped, &files, in_sandbox("code"));
	fake_space(spaces, 1, 10, 1, "a");
	fake_mapping(spaces, 1, 1, STACKBEAT_MAPPING_VADDR, 0x10000, 0x20000, id, 0x5000);
	fake_mapping(spaces, 1, 1, 0, 0x30000, 0x31000, id, 0x5000);
	fake_mapping(spaces, 1, 1, 0, 0x50000, 0x51000, id, 0x6000);
	advance(1, 1);
	space = address_spaces_get(spaces, 1, 0);
	place = address_space_segment_at(space, 1, 0x50010, &offset);
	assert_int_equal(offset, 0x6010);
	assert_true(segment_is_of_kind(place, SEGMENT_OFFSETS));
	assert_false(segment_is_jit(place));
	assert_true(find_address(space, place, offset, &address));
	assert_int_equal(address, 0x50010);
	assert_true(find_address(space, place, 0x5000, &address));
	assert_int_equal(address, 0x30000);
	assert_false(find_address(space, place, 0x4fff, &address));
	assert_false(find_address(space, place, 0x7000, &address));
	assert_false(find_address(space, place + SEGMENTS_OF_FILE, offset, &address));
	assert_false(find_address(address_spaces_get(spaces, 0, 7), place, offset, &address));
	assert_true(segment_is_jit(SEGMENT_ANON));
	assert_true(segment_is_jit(place - SEGMENT_OFFSETS + SEGMENT_ADDRESSES));
	assert_false(segment_is_jit(segment(1, 1, 0x10010)));
	assert_false(segment_is_jit(SEGMENT_VDSO));
}

/* The cost of a process with very many mappings is bounded. */
static void address_of_an_offset_is_searched_in_some_mappings(void **state)
{
	struct address_space *space;
	uint64_t id, address;
	uint32_t place;

	(void)state;
	write_text(in_sandbox("code"), "x");
	id = fake_other_file(mapped, &files, in_sandbox("code"));
	fake_space(spaces, 1, 10, 1, "a");
	for (uint64_t i = 0; i <= ADDRESS_MAPPINGS_MAX; i++)
		fake_mapping(spaces, 1, 1, 0, 0x10000 + 0x2000 * i, 0x11000 + 0x2000 * i, id,
			     0x1000 * i);
	advance(1, 1);
	space = address_spaces_get(spaces, 1, 0);
	place = segment(1, 1, 0x10000);
	assert_true(find_address(space, place, 0x1000 * (ADDRESS_MAPPINGS_MAX - 1), &address));
	assert_false(find_address(space, place, 0x1000 * ADDRESS_MAPPINGS_MAX, &address));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(record_sets_identity_of_address_space),
		TEST(id_0_is_one_address_space_per_process),
		TEST(address_spaces_stay_in_place_as_the_table_grows),
		TEST(id_0_of_many_processes_is_found_quickly),
		TEST(mappings_resolve_to_segments),
		TEST(offset_in_a_file_has_an_address),
		TEST(address_of_an_offset_is_searched_in_some_mappings),
		TEST(program_of_the_recorded_process_is_noted),
		TEST(moved_text_is_of_its_file),
		TEST(moved_text_of_a_file_without_headers_is_known),
		TEST(text_that_the_module_does_not_know_yet_is_passed_on_later),
		TEST(text_that_there_was_no_time_to_pass_on_is_passed_on_later),
		TEST(generated_code_in_the_place_of_text_is_anonymous),
		TEST(filler_is_no_text),
		TEST(comparisons_have_a_budget),
		TEST(slow_comparison_that_finds_nothing_is_counted),
		TEST(slow_search_for_a_file_is_counted),
		TEST(refused_comparisons_are_counted),
		TEST(hanging_comparisons_end),
		TEST(generated_code_is_compared_with_no_file_again),
		TEST(memory_of_a_process_that_has_ended_is_anonymous),
		TEST(address_space_is_ready_once_all_records_are_applied),
		TEST(ended_process_is_forgotten),
		TEST(process_without_a_number_is_forgotten),
		TEST(unannounced_address_spaces_are_forgotten),
		TEST(places_of_forgotten_processes_are_used_again),
		TEST(start_time_distinguishes_processes_of_the_same_id),
		TEST(replaced_address_spaces_are_forgotten),
		TEST(process_of_a_reused_id_is_forgotten),
		TEST(process_is_alive_until_its_last_thread_has_ended),
		TEST(process_ids_of_another_namespace_are_not_checked),
		TEST(files_of_ended_processes_are_released),
		TEST(events_that_no_sample_needs_are_applied),
		TEST(incomplete_generations_are_not_applied),
		TEST(checks_back_off),
		TEST(held_address_space_is_not_forgotten),
		TEST(events_of_the_last_collection_are_applied),
		TEST(bytes_include_all_histories),
		TEST(stacks_are_looked_up_at_once),
		TEST(views_mark_all_their_files),
		TEST(perf_maps_are_found_until_the_end),
		TEST(perf_maps_are_found_at_checks),
		TEST(perf_map_of_an_ended_process_is_found),
		TEST(unknown_processes_have_no_perf_map),
	};

	return cmocka_run_group_tests_name("address_space", tests, NULL, NULL);
}
