// SPDX-License-Identifier: GPL-2.0
/* Samples that are compared with the walks of a fake elfutils. */
#include "unit.h"

#include "record/verification.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fake_kernel_records.h"
#include "mappings/mapping_history.h"
#include "sample.h"
#include "sandbox.h"
#include "unwind/elfutils_walk.h"

#define TIMEOUT_S 600u
#define SPACES 66u
/* Where the files are mapped: B follows A, and both have their ELF addresses at 0x1000. */
#define A 0x10000u
#define B 0x20000u
#define END 0x30000u
#define VADDR 0x1000u
/* The same file as A, by an offset; and a page without a file. */
#define OFFSETS 0x40000u
#define ANONYMOUS 0x50000u
#define NOWHERE 0x90000u
#define STACK_BYTES 64u

struct fixture {
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct verification *verification;
	union any_sample any; /* last: it ends in an array without a size */
};

/* What elfutils finds for all stacks, and what it got. */
static struct {
	struct elfutils_walk walk;
	int err; /* if stacks are skipped */
	size_t skipped; /* stacks at the end of each batch that the worker does not take */
	size_t batches, stacks, largest, modules;
	uint64_t biases[ELFUTILS_MODULES_MAX];
	ino_t inodes[ELFUTILS_MODULES_MAX];
	uint64_t ids[1024]; /* of the stacks, in order */
} elfutils;

int elfutils_walk_stacks(const struct sandbox_server *server, const struct elfutils_module *modules,
			 size_t module_count, struct stackbeat_stack *const *stacks, size_t count,
			 int64_t timeout_ms,
			 void (*take)(size_t stack, const struct elfutils_walk *walk, void *arg),
			 void *arg)
{
	struct stat st;

	assert_null(server);
	/* An eighth of all. */
	assert_in_range(timeout_ms, TIMEOUT_S * 1000 / 16, TIMEOUT_S * 1000 / 8);
	elfutils.batches++;
	elfutils.largest = count > elfutils.largest ? count : elfutils.largest;
	elfutils.modules = module_count;
	for (size_t i = 0; i < module_count; i++) {
		assert_int_equal(fstat(modules[i].fd, &st), 0);
		elfutils.inodes[i] = st.st_ino;
		elfutils.biases[i] = modules[i].bias;
	}
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(stacks[i]->size, STACK_BYTES);
		for (size_t k = 0; k < STACK_BYTES; k++)
			assert_int_equal(stacks[i]->bytes[k], 0xa5);
		elfutils.ids[elfutils.stacks++] = stacks[i]->registers[0];
		if (i + elfutils.skipped < count)
			take(i, &elfutils.walk, arg);
	}
	return elfutils.skipped ? elfutils.err : 0;
}

static uint32_t generation; /* of the samples */

static void map(struct fixture *fixture, uint64_t id, uint16_t flags, uint64_t start, uint64_t end,
		uint64_t file)
{
	fake_mapping(fixture->spaces, id, 1, flags, start, end, file, file ? VADDR : 0);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct file_source source = fake_source(&fixture->files);
	uint64_t a, b;

	if (make_sandbox(state))
		return -1;
	memset(&elfutils, 0, sizeof(elfutils));
	generation = 1;
	fixture->mapped = mapped_files_new("", &source, NULL);
	fixture->spaces = address_spaces_new("", fixture->mapped, NULL);
	fixture->verification = verification_new(fixture->mapped);
	*state = fixture;
	if (!fixture->spaces || !fixture->verification)
		return -1;
	write_text(in_sandbox("a"), "a");
	write_text(in_sandbox("b"), "b");
	a = fake_file(fixture->mapped, &fixture->files, in_sandbox("a"));
	b = fake_file(fixture->mapped, &fixture->files, in_sandbox("b"));
	for (uint64_t id = 1; id <= SPACES; id++) {
		fake_space(fixture->spaces, id, (uint32_t)getpid(), 1, "self");
		map(fixture, id, STACKBEAT_MAPPING_VADDR, A, B, a);
		map(fixture, id, STACKBEAT_MAPPING_VADDR, B, END, b);
		map(fixture, id, 0, OFFSETS, OFFSETS + 0x1000, a);
		map(fixture, id, 0, ANONYMOUS, ANONYMOUS + 0x1000, 0);
		if (address_space_advance(address_spaces_get(fixture->spaces, id, 0), 1))
			return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	verification_free(fixture->verification);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture);
	return remove_sandbox(state);
}

/* Adds a sample with a copy of `bytes` bytes, and user frames up to one of 0. */
static void add_large(struct fixture *fixture, uint64_t space, const uint64_t *frames, uint8_t stop,
		      uint64_t bytes)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 1, "self");
	struct stackbeat_stack *stack = calloc(1, sizeof(*stack) + bytes);
	static uint64_t next_id;

	assert_non_null(stack);
	stack->size = bytes;
	stack->registers[0] = ++next_id;
	memset(stack->bytes, 0xa5, bytes);
	sample_kernel(sample, 0xffffffff81000000);
	for (; *frames; frames++)
		sample_user(sample, *frames);
	sample->address_space = space;
	sample->generation = generation;
	sample->user_stop = stop;
	verification_add(fixture->verification, sample, stack,
			 address_spaces_get(fixture->spaces, space, 1));
	/* It keeps copies. */
	memset(stack, 0, sizeof(*stack) + bytes);
	memset(sample->frames, 0, 4 * sizeof(sample->frames[0]));
	free(stack);
}

static void add(struct fixture *fixture, uint64_t space, const uint64_t *frames, uint8_t stop)
{
	add_large(fixture, space, frames, stop, STACK_BYTES);
}

static void set_walk(const uint64_t *frames, enum elfutils_end end)
{
	elfutils.walk.end = end;
	for (elfutils.walk.count = 0; *frames; frames++)
		elfutils.walk.frames[elfutils.walk.count++] = *frames;
	/* What is behind the last frame is not read. */
	elfutils.walk.frames[elfutils.walk.count] = A + 0x30;
}

static struct verification_result run_all(struct fixture *fixture)
{
	struct verification_result result;

	verification_run(fixture->verification, NULL, TIMEOUT_S);
	verification_result(fixture->verification, &result);
	return result;
}

static void walks_are_compared(void **state)
{
	static const struct {
		uint64_t module[4], elfutils[4];
		uint8_t stop;
		enum elfutils_end end;
		enum comparison result;
		unsigned int callers; /* that are counted */
	} cases[] = {
		{{A, A + 8, B}, {A, A + 8, B}, 0, ELFUTILS_OUTERMOST, COMPARED_EQUAL, 3},
		{{A}, {A}, 0, ELFUTILS_NO_RULE, COMPARED_EQUAL, 1},
		{{A, A + 8, B}, {A, A + 8}, 0, ELFUTILS_OUTERMOST, COMPARED_LONGER, 2},
		{{A, A + 8, A + 0x30}, {A, A + 8}, 0, ELFUTILS_OUTERMOST, COMPARED_LONGER, 2},
		{{A, A + 8, B}, {A, A + 8}, 0, ELFUTILS_NO_RULE, COMPARED_LONGER, 2},
		{{A, A + 8, B}, {A, A + 8}, 0, ELFUTILS_COPY_ENDS, COMPARED_EQUAL, 2},
		{{A, A + 8, B}, {A, A + 8}, 0, ELFUTILS_MAX_DEPTH, COMPARED_EQUAL, 2},
		{{A, A + 8}, {A, A + 8, B}, 0, ELFUTILS_OUTERMOST, COMPARED_SHORTER, 2},
		{{A, A + 8},
		 {A, A + 8, B},
		 STACKBEAT_STOP_MAX_DEPTH,
		 ELFUTILS_OUTERMOST,
		 COMPARED_EQUAL,
		 2},
		{{A, A + 8}, {A, A + 16}, 0, ELFUTILS_OUTERMOST, COMPARED_DIFFERENT, 1},
		{{A, A + 8, B}, {A, A + 16}, 0, ELFUTILS_COPY_ENDS, COMPARED_DIFFERENT, 1},
		{{A, A + 8, B},
		 {A, A + 16, B},
		 STACKBEAT_STOP_MAX_DEPTH,
		 ELFUTILS_COPY_ENDS,
		 COMPARED_DIFFERENT,
		 1},
		{{A}, {B}, 0, ELFUTILS_OUTERMOST, COMPARED_DIFFERENT, 0},
	};
	uint64_t results[COMPARISON_COUNT] = {0}, callers = 0, changed = 0;
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verification_result result;
		uint64_t found = 0, not_equal = 0;

		set_walk(cases[i].elfutils, cases[i].end);
		add(fixture, 1, cases[i].module, cases[i].stop);
		result = run_all(fixture);
		results[cases[i].result]++;
		assert_memory_equal(result.results, results, sizeof(results));
		for (size_t k = 0; k < result.object_count; k++) {
			found += result.objects[k].callers;
			not_equal += result.objects[k].callers -
				     result.objects[k].results[COMPARED_EQUAL];
		}
		/* Only the caller of the last equal frame differs. */
		callers += cases[i].callers;
		changed += cases[i].result != COMPARED_EQUAL && cases[i].callers;
		assert_int_equal(found, callers);
		assert_int_equal(not_equal, changed);
		assert_int_equal(result.failed + result.dropped, 0);
	}
}

static const struct verified_object *object_at(const struct verification_result *result,
					       size_t index, const char *path)
{
	assert_true(index < result->object_count);
	assert_string_equal(result->objects[index].path, path);
	return &result->objects[index];
}

/* The address of a caller is behind its call, the address of the interrupted code is not. */
static void callers_count_for_the_file_of_their_call(void **state)
{
	static const uint64_t frames[] = {B, B, B + 1, NOWHERE, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, 1, frames, 0);
	result = run_all(fixture);
	assert_int_equal(result.object_count, 3);
	assert_int_equal(object_at(&result, 0, in_sandbox("b"))->callers, 2);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(result.objects[i].callers, 1);
		assert_true(!*result.objects[i].path ||
			    !strcmp(result.objects[i].path, in_sandbox("a")));
	}
	/* A single frame is the interrupted one. */
	set_walk((const uint64_t[]){B, 0}, ELFUTILS_OUTERMOST);
	add(fixture, 1, (const uint64_t[]){B, 0}, 0);
	result = run_all(fixture);
	assert_int_equal(object_at(&result, 0, in_sandbox("b"))->callers, 3);
	/* One of two frames is not. */
	set_walk((const uint64_t[]){A, B, 0}, ELFUTILS_OUTERMOST);
	add(fixture, 1, (const uint64_t[]){A, B, 0}, 0);
	result = run_all(fixture);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(result.objects[i].callers, 3);
}

static void objects_with_differences_come_first(void **state)
{
	static const uint64_t in_a[] = {A, 0}, in_b[] = {B, 0}, nowhere[] = {NOWHERE, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	set_walk(in_a, ELFUTILS_OUTERMOST);
	for (int i = 0; i < 3; i++)
		add(fixture, 1, in_a, 0);
	result = run_all(fixture);
	set_walk(nowhere, ELFUTILS_OUTERMOST);
	for (int i = 0; i < 5; i++)
		add(fixture, 1, nowhere, 0);
	result = run_all(fixture);
	object_at(&result, 0, "");
	object_at(&result, 1, in_sandbox("a"));
	set_walk((const uint64_t[]){B, A, 0}, ELFUTILS_OUTERMOST);
	add(fixture, 1, in_b, 0);
	result = run_all(fixture);
	assert_int_equal(object_at(&result, 0, in_sandbox("b"))->results[COMPARED_SHORTER], 1);
	object_at(&result, 1, "");
	object_at(&result, 2, in_sandbox("a"));
	/* The object with more differences, not with more callers. */
	set_walk((const uint64_t[]){A, A, 0}, ELFUTILS_OUTERMOST);
	add(fixture, 1, in_a, 0);
	add(fixture, 1, in_a, 0);
	result = run_all(fixture);
	object_at(&result, 0, in_sandbox("a"));
	object_at(&result, 1, in_sandbox("b"));
	object_at(&result, 2, "");
	assert_int_equal(result.object_count, 3);
}

/* Samples of one process are walked together, in limited numbers. */
static void samples_are_walked_in_batches(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	uint64_t first, equal;

	set_walk(frames, ELFUTILS_OUTERMOST);
	for (int i = 0; i < 256; i++)
		add(fixture, 1, frames, 0);
	equal = run_all(fixture).results[COMPARED_EQUAL];
	assert_int_equal(equal, 256);
	assert_int_equal(elfutils.batches, 1);
	for (int i = 0; i < 257; i++) {
		add(fixture, 1, frames, 0);
		add(fixture, 2, frames, 0);
	}
	first = elfutils.ids[255] + 1;
	equal = run_all(fixture).results[COMPARED_EQUAL];
	assert_int_equal(equal, 256 + 2 * 257);
	assert_int_equal(elfutils.batches, 1 + 4);
	assert_int_equal(elfutils.largest, 256);
	for (size_t i = 256; i < elfutils.stacks; i++)
		assert_int_equal((elfutils.ids[i] - first) % 2, i >= 256 + 257);
	/* They are walked once. */
	assert_int_equal(elfutils.stacks, 256 + 2 * 257);
	run_all(fixture);
	assert_int_equal(elfutils.stacks, 256 + 2 * 257);
}

/* The mappings of a process are shared by its samples, unless many others came between. */
static void mappings_are_shared(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;

	set_walk(frames, ELFUTILS_OUTERMOST);
	for (uint64_t id = 1; id <= 64; id++)
		add(fixture, id, frames, 0);
	for (uint64_t id = 1; id <= 64; id++)
		add(fixture, id, frames, 0);
	run_all(fixture);
	assert_int_equal(elfutils.batches, 64);
	elfutils.batches = 0;
	for (uint64_t id = 1; id <= 65; id++)
		add(fixture, id, frames, 0);
	add(fixture, 1, frames, 0);
	run_all(fixture);
	assert_int_equal(elfutils.batches, 66);
}

/* A process maps B in the place of A between two samples: each has the mappings of its time. */
static void later_mappings_are_others(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, 1, frames, 0);
	fake_mapping(fixture->spaces, 1, 2, STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_VADDR, A, B,
		     2, VADDR);
	generation = 2;
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 1, 0), 2), 0);
	add(fixture, 1, frames, 0);
	result = run_all(fixture);
	assert_int_equal(elfutils.batches, 2);
	assert_int_equal(result.object_count, 2);
	assert_int_equal(result.objects[0].callers, 1);
	assert_int_equal(result.objects[1].callers, 1);
}

static unsigned int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* Each file is passed once for each place, if elfutils can know its ELF addresses. */
static void files_are_passed_to_elfutils(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	unsigned int descriptors;
	struct stat st;

	/* More of A and B, with the same bias, and a second copy of A. */
	fake_mapping(fixture->spaces, 1, 2, STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_VADDR,
		     0x60000, 0x61000, 1, 0x60000 - A + VADDR);
	fake_mapping(fixture->spaces, 1, 3, STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_VADDR,
		     0x70000, 0x71000, 1, VADDR);
	fake_mapping(fixture->spaces, 1, 4, STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_VADDR,
		     0x80000, 0x81000, 2, 0x80000 - B + VADDR);
	generation = 4;
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 1, 0), 4), 0);
	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, 1, frames, 0);
	mapped_files_finish(fixture->mapped);
	descriptors = open_descriptors();
	run_all(fixture);
	assert_int_equal(open_descriptors(), descriptors);
	assert_int_equal(elfutils.modules, 3);
	assert_int_equal(stat(in_sandbox("a"), &st), 0);
	assert_int_equal(elfutils.inodes[0], st.st_ino);
	assert_int_equal(elfutils.biases[0], A - VADDR);
	assert_int_equal(stat(in_sandbox("b"), &st), 0);
	assert_int_equal(elfutils.inodes[1], st.st_ino);
	assert_int_equal(elfutils.biases[1], B - VADDR);
	assert_int_equal(elfutils.inodes[2], elfutils.inodes[0]);
	assert_int_equal(elfutils.biases[2], 0x70000 - VADDR);
}

static void number_of_files_is_limited(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	const uint64_t id = SPACES + 1;

	fake_space(fixture->spaces, id, (uint32_t)getpid(), 1, "self");
	for (uint64_t i = 0; i < ELFUTILS_MODULES_MAX + 2; i++)
		map(fixture, id, STACKBEAT_MAPPING_VADDR, A + i * 0x2000, A + i * 0x2000 + 0x1000,
		    1);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, id, 0), 1), 0);
	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, id, frames, 0);
	mapped_files_finish(fixture->mapped);
	run_all(fixture);
	assert_int_equal(elfutils.modules, ELFUTILS_MODULES_MAX);
}

/* A file that can't be opened is missing, the others are not. */
static void removed_files_are_missing(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;

	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, 1, frames, 0);
	mapped_files_finish(fixture->mapped);
	run("rm %s", in_sandbox("a"));
	run_all(fixture);
	assert_int_equal(elfutils.modules, 1);
	assert_int_equal(elfutils.biases[0], B - VADDR);
}

static void stacks_that_crash_the_worker_are_counted(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	set_walk(frames, ELFUTILS_OUTERMOST);
	elfutils.skipped = 3;
	elfutils.err = -EBADMSG;
	for (int i = 0; i < 10; i++)
		add(fixture, 1, frames, 0);
	for (int i = 0; i < 4; i++)
		add(fixture, 2, frames, 0);
	result = run_all(fixture);
	assert_int_equal(result.failed, 6);
	assert_int_equal(result.late, 0);
	assert_int_equal(result.results[COMPARED_EQUAL], 7 + 1);
}

/* A file that makes workers slow costs its own samples only, until all of the time is over. */
static void samples_for_which_there_is_no_time_are_counted(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	set_walk(frames, ELFUTILS_OUTERMOST);
	elfutils.skipped = 2;
	elfutils.err = -ETIMEDOUT;
	for (int i = 0; i < 3; i++) {
		add(fixture, 1, frames, 0);
		add(fixture, 2, frames, 0);
	}
	result = run_all(fixture);
	assert_int_equal(elfutils.batches, 2);
	assert_int_equal(result.late, 4);
	assert_int_equal(result.failed, 0);
	assert_int_equal(result.results[COMPARED_EQUAL], 2);
	add(fixture, 1, frames, 0);
	add(fixture, 2, frames, 0);
	verification_run(fixture->verification, NULL, 0);
	verification_result(fixture->verification, &result);
	assert_int_equal(elfutils.batches, 2);
	assert_int_equal(result.late, 6);
	/* They are dropped. */
	run_all(fixture);
	assert_int_equal(elfutils.batches, 2);
}

static void samples_without_user_stack_are_left_out(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;
	struct verification_result result;

	add(fixture, 0, frames, 0);
	add(fixture, 1, frames + 1, 0);
	result = run_all(fixture);
	assert_int_equal(elfutils.stacks, 0);
	assert_int_equal(result.dropped, 0);
	assert_int_equal(result.object_count, 0);
}

static void memory_is_counted(void **state)
{
	static const uint64_t frames[] = {A, A + 1, 0};
	struct fixture *fixture = *state;
	size_t empty, before, after;

	set_walk(frames, ELFUTILS_OUTERMOST);
	assert_int_equal(verification_bytes(fixture->verification), 0);
	for (int i = 0; i < 700; i++)
		add(fixture, 1, frames, 0);
	run_all(fixture);
	/* The arrays stay. */
	empty = verification_bytes(fixture->verification);
	assert_in_range(empty, 700 * 3 * sizeof(void *), 5000 * 3 * sizeof(void *));
	add(fixture, 1, frames, 0);
	before = verification_bytes(fixture->verification);
	assert_true(before > empty);
	add(fixture, 1, frames, 0);
	after = verification_bytes(fixture->verification);
	assert_int_equal(after - before, sizeof(struct stackbeat_stack) + STACK_BYTES + 2 * 8);
	/* The first sample of a process needs its mappings, too. */
	assert_true(before - empty > after - before + 5 * sizeof(struct mapping));
	run_all(fixture);
	assert_int_equal(verification_bytes(fixture->verification), empty);
	for (uint64_t id = 1; id <= SPACES; id++)
		add(fixture, id, frames, 0);
	run_all(fixture);
	assert_in_range(verification_bytes(fixture->verification) - empty, 33 * 3 * sizeof(void *),
			500 * 3 * sizeof(void *));
}

static void samples_beyond_the_limit_are_dropped(void **state)
{
	static const uint64_t frames[] = {A, 0};
	const size_t fixed = sizeof(struct stackbeat_stack) + 8;
	struct fixture *fixture = *state;
	struct verification_result result;
	size_t used;

	set_walk(frames, ELFUTILS_OUTERMOST);
	add(fixture, 1, frames, 0);
	used = verification_bytes(fixture->verification);
	verification_run(fixture->verification, NULL, TIMEOUT_S);
	used -= verification_bytes(fixture->verification);
	add(fixture, 1, frames, 0);
	add_large(fixture, 1, frames, 0, VERIFICATION_BYTES_MAX - used - fixed + 1);
	verification_result(fixture->verification, &result);
	assert_int_equal(result.dropped, 1);
	add_large(fixture, 1, frames, 0, VERIFICATION_BYTES_MAX - used - fixed);
	verification_result(fixture->verification, &result);
	assert_int_equal(result.dropped, 1);
	add(fixture, 1, frames, 0);
	verification_result(fixture->verification, &result);
	assert_int_equal(result.dropped, 2);
}

/* The files that a sample needs are not forgotten before it is walked. */
static void files_of_samples_are_kept(void **state)
{
	static const uint64_t frames[] = {A, 0};
	struct fixture *fixture = *state;

	add(fixture, 1, frames, 0);
	for (int i = 0; i < 10; i++) {
		verification_mark(fixture->verification);
		mapped_files_sweep(fixture->mapped);
		assert_int_equal(fixture->files.released, 0);
	}
	for (int i = 0; i < 10; i++)
		mapped_files_sweep(fixture->mapped);
	assert_int_equal(fixture->files.released, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(walks_are_compared),
		TEST(callers_count_for_the_file_of_their_call),
		TEST(objects_with_differences_come_first),
		TEST(samples_are_walked_in_batches),
		TEST(mappings_are_shared),
		TEST(later_mappings_are_others),
		TEST(files_are_passed_to_elfutils),
		TEST(number_of_files_is_limited),
		TEST(removed_files_are_missing),
		TEST(stacks_that_crash_the_worker_are_counted),
		TEST(samples_for_which_there_is_no_time_are_counted),
		TEST(samples_without_user_stack_are_left_out),
		TEST(memory_is_counted),
		TEST(samples_beyond_the_limit_are_dropped),
		TEST(files_of_samples_are_kept),
	};

	return cmocka_run_group_tests_name("verification", tests, NULL, NULL);
}
