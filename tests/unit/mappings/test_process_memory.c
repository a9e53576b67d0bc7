// SPDX-License-Identifier: GPL-2.0
/* Processes and files without memory: a step that fails can be tried again. */
#include "unit.h"

#include <errno.h>

#include "failing_malloc.h"
#include "fake_kernel_records.h"
#include "lib/error.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "mappings/mapped_vdso.h"
#include "mappings/mapping_history.h"
#include "runtime/perf_map_watcher.h"
#include "sandbox.h"

#define MAPPINGS 40u
#define VDSO UINT64_C(0x7fff00000000)

static struct fake_files files;
static struct mapped_files *mapped;
static struct address_spaces *spaces;
static unsigned int failures;

/* Tries a step, and once more if there was no memory for it. */
#define STEP(call)                                                                                 \
	do {                                                                                       \
		int err = (call);                                                                  \
                                                                                                   \
		if (err) {                                                                         \
			assert_int_equal(err, -ENOMEM);                                            \
			assert_true(malloc_has_failed());                                          \
			failures++;                                                                \
			assert_int_equal((call), 0);                                               \
		}                                                                                  \
	} while (0)

static int make_tables(void)
{
	const struct file_source source = fake_source(&files);
	struct error error = {""};

	if (!mapped)
		mapped = mapped_files_new(sandbox, &source, &error);
	if (!mapped) {
		assert_string_not_equal(error.text, "");
		return -ENOMEM;
	}
	if (!spaces)
		spaces = address_spaces_new(sandbox, mapped, &error);
	if (spaces)
		return 0;
	assert_string_not_equal(error.text, "");
	return -ENOMEM;
}

static int add_space(uint64_t id, uint32_t generation)
{
	union any_space any = {
		.space = {
			.record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE,
				   .size = sizeof(struct stackbeat_address_space) + 16},
			.address_space = id,
			.pid = (uint32_t)getpid(),
			.generation = generation,
			.comm = "test",
		}};

	strcpy(any.space.cgroup_path, "/a.slice");
	return address_spaces_add(spaces, &any.space);
}

static int add_mapping(uint32_t generation, uint16_t flags, uint64_t start, uint64_t file,
		       uint64_t offset)
{
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = flags,
			   .size = sizeof(mapping)},
		.address_space = 1,
		.start = start,
		.end = start + 0x1000,
		.vaddr = offset,
		.file = file,
		.generation = generation,
	};

	return address_spaces_add_mapping(spaces, &mapping);
}

static int add_id(uint64_t id)
{
	return mapped_files_get(mapped, id) ? 0 : -ENOMEM;
}

static int get_space(uint64_t id, uint32_t pid)
{
	return address_spaces_get(spaces, id, pid) ? 0 : -ENOMEM;
}

static int take_maps(void)
{
	struct perf_map_fd *maps;
	size_t count;
	int err = address_spaces_take_perf_maps(spaces, true, &maps, &count);

	if (!err)
		free(maps);
	assert_int_equal(count, 0);
	return err;
}

static void check_segments(const struct mapping_view *view)
{
	for (uint64_t i = 0; i < MAPPINGS + 2; i++) {
		uint64_t address =
			i < MAPPINGS ? 0x2000 * i + 0x2010 : VDSO + 0x10 + 0x800 * (i % 2);
		struct mapped_file *file;
		bool is_offset;
		uint32_t segment;

		assert_int_equal(mapping_view_segments(view, &address, &segment, 1), 1);
		if (i == 3) {
			assert_int_equal(segment, SEGMENT_ANON);
			continue;
		}
		file = segment_file(mapped, segment, &is_offset);
		if (!file)
			fail_msg("no file for mapping %u: segment %u", (unsigned int)i, segment);
		assert_false(is_offset);
		if (i >= MAPPINGS) {
			assert_ptr_equal(file, mapped_files_vdso(mapped));
			continue;
		}
		assert_ptr_equal(file, mapped_files_get(mapped, 1 + i % 3));
		assert_int_equal(address, 0x10010);
		assert_string_equal(file->path, i % 3 < 2 ? in_sandbox("file%u", (int)i % 3) : "");
	}
}

/* Returns whether the allocation with this number, from 1, was one of these. */
static bool run_without(unsigned long number)
{
	struct mapping_view view = {.count = 0};
	union any_file any[2];
	bool has_failed, knows_mappings;
	unsigned int before;

	files = (struct fake_files){.count = 0};
	for (unsigned int i = 0; i < 2; i++)
		fake_file_record(&files, in_sandbox("file%u", i), &any[i]);
	fail_malloc(number, false);
	STEP(make_tables());
	for (unsigned int i = 0; i < 2; i++)
		STEP(mapped_files_add(mapped, &any[i].file));
	STEP(add_id(3));
	STEP(get_space(1, 77));
	STEP(add_space(1, 2));
	STEP(get_space(0, 78));
	for (uint64_t i = 0; i < MAPPINGS; i++)
		STEP(add_mapping(2, STACKBEAT_MAPPING_VADDR, 0x2000 + 0x2000 * i, 1 + i % 3,
				 0x10000));
	if (!mapped_files_vdso(mapped))
		failures++;
	STEP(add_mapping(2, STACKBEAT_MAPPING_VDSO, VDSO, 0, 0));
	STEP(add_mapping(3, STACKBEAT_MAPPING_EVENT, 0x2000 + 0x2000 * 3, 0, 0));
	/* Without memory here, mappings are lost: the recording ends. */
	before = failures;
	STEP(address_space_advance(address_spaces_get(spaces, 1, 0), 2));
	STEP(address_space_advance(address_spaces_get(spaces, 1, 0), 3));
	knows_mappings = failures == before;
	STEP(mapping_view_init(&view, address_spaces_get(spaces, 1, 0), 3));
	address_space_has_jit_code(address_spaces_get(spaces, 1, 0));
	STEP(take_maps());
	for (uint64_t id = 1; id <= 3; id++)
		STEP(mapped_file_hold(mapped, mapped_files_get(mapped, id)));
	for (uint64_t second = 1; second < 4; second++) {
		STEP(address_spaces_collect_garbage(spaces, 1000 * second - 10, 1000 * second,
						    true));
		mapped_files_sweep(mapped);
	}
	has_failed = malloc_has_failed();
	fail_malloc(0, false);

	if (knows_mappings)
		check_segments(&view);
	assert_string_equal(address_space_comm(address_spaces_get(spaces, 1, 0)), "test");
	assert_string_equal(address_space_cgroup_path(address_spaces_get(spaces, 1, 0)),
			    "/a.slice");
	mapping_view_clear(&view);
	for (uint64_t id = 1; id <= 3; id++)
		mapped_file_release(mapped, mapped_files_get(mapped, id));
	address_spaces_finish(spaces);
	mapped_files_finish(mapped);
	address_spaces_free(spaces);
	mapped_files_free(mapped);
	spaces = NULL;
	mapped = NULL;
	fake_clear(&files);
	return has_failed;
}

static void each_step_can_be_tried_again(void **state)
{
	unsigned long number = 1;

	(void)state;
	for (unsigned int i = 0; i < 2; i++)
		write_text(in_sandbox("file%u", i), i ? "text" : "");
	while (run_without(number))
		number++;
	print_message("%lu allocations, %u failures\n", number - 1, failures);
	/* The others are not needed, or have another chance themselves. */
	assert_true(failures > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_step_can_be_tried_again, make_sandbox,
						remove_sandbox),
	};

	return cmocka_run_group_tests_name("process_memory", tests, NULL, NULL);
}
