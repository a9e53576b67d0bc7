// SPDX-License-Identifier: GPL-2.0
/* From samples to a pprof file, read back. */
#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/profile_export.h"

#include "debuginfo/gone_modules.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "failing_malloc.h"
#include "fake_kernel_records.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "profile_file.h"
#include "record/gone_parts.h"
#include "record/stack_table.h"
#include "record/window.h"
#include "runtime/perf_map_watcher.h"
#include "sample.h"
#include "scratch.h"
#include "symbolize/find_binary.h"
#include "symbolize/normalize.h"
#include "symbolize/offline_source.h"
#include "symbolize/symbolizer.h"
#include "worker_server.h"

#define KERNEL UINT64_C(0xffffffff81000000)
#define NOWHERE UINT64_C(0x10)
#define MEMORY UINT64_C(0x100000) /* anonymous and executable, up to twice that */
#define SELF 3 /* the address space of this process */

struct fixture {
	void *scratch; /* the state that the helpers of scratch.h take */
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *stacks;
	struct window window;
	struct labels labels;
	struct symbolize_options symbolize;
	struct recording recording;
	struct truncation_counts counts;
	struct error warning;
	struct error error;
	union any_sample any; /* last: it ends in an array without a size */
};

/* The addresses of these functions are frames here. They are never called. */
__attribute__((noinline)) static void leaf_function(void)
{
	abort();
}

__attribute__((noinline)) static void caller_function(void)
{
	leaf_function();
}

/* The entry point of programs: a stack with this root is complete. */
extern const char _start[];

static uint64_t leaf(void)
{
	return (uint64_t)(uintptr_t)leaf_function;
}

static uint64_t caller(void)
{
	return (uint64_t)(uintptr_t)caller_function;
}

static uint64_t root(void)
{
	return (uint64_t)(uintptr_t)_start;
}

static int find_program_base(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_addr;
	return 1; /* the first one is the program */
}

/* The address that a frame has in the ELF file of this program. */
static uint64_t in_file(uint64_t address)
{
	uint64_t base = 0;

	dl_iterate_phdr(find_program_base, &base);
	return address - base;
}

static int fold(const struct stack *stack, void *arg)
{
	struct fixture *fixture = arg;

	return window_add(&fixture->window, &fixture->labels, stack);
}

static int new_stacks(struct fixture *fixture)
{
	window_clear(&fixture->window);
	fixture->stacks = stack_table_new(fixture->spaces, fixture->labels.chosen, fold, fixture);
	return !fixture->stacks || window_init(&fixture->window, fixture->mapped);
}

/* Folds the stacks into the window. */
static struct window *fold_stacks(struct fixture *fixture)
{
	struct perf_map_fd *maps;
	size_t count;

	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_int_equal(address_spaces_take_perf_maps(fixture->spaces, true, &maps, &count), 0);
	window_set_perf_maps(&fixture->window, maps, count);
	return &fixture->window;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct file_source source;

	if (!fixture || scratch_setup(&fixture->scratch))
		return -1;
	/* Before there are threads. */
	fixture->symbolize.sandbox = worker_server();
	source = fake_source(&fixture->files);
	fixture->mapped = mapped_files_new("", &source, &fixture->error);
	fixture->spaces = address_spaces_new("", fixture->mapped, &fixture->error);
	fixture->labels.chosen = LABELS_DEFAULT;
	if (new_stacks(fixture))
		return -1;
	fake_mapping(fixture->spaces, SELF, 1, 0, MEMORY, 2 * MEMORY, 0, 0);
	fake_self(fixture->spaces, &fixture->files, SELF, (uint32_t)getpid());
	fixture->recording = (struct recording){
		.command_line = "stackbeat record -a",
		.labels = &fixture->labels,
		.sandbox = worker_server(),
		.symbolize = &fixture->symbolize,
		.rate = 100,
		.cpus = 2,
		.start_ns = INT64_C(1700000000123456789),
		.duration_ns = INT64_C(5000000000),
	};
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	int ret = scratch_teardown(&fixture->scratch);

	stack_table_free(fixture->stacks);
	window_clear(&fixture->window);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture);
	return ret;
}

/* A sample of this process, in user mode. */
static struct stackbeat_sample *begin_sample(struct fixture *fixture)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, getpid(), "thread");

	sample->address_space = SELF;
	sample->generation = 1;
	return sample;
}

static void add_sample(struct fixture *fixture)
{
	assert_int_equal(stack_table_add(fixture->stacks, &fixture->any.sample), 0);
}

static int write_export(struct fixture *fixture, const char *path, uint64_t *size)
{
	struct window *window = fold_stacks(fixture);

	assert_int_equal(export_profile(window, fixture->mapped, &fixture->recording,
					&fixture->counts, &fixture->warning, &fixture->error),
			 0);
	return pprof_write(window->profile, path, size, &fixture->error);
}

/* Exports the stacks, and reads the file. The caller frees it. */
static struct profile *export_and_read(struct fixture *fixture)
{
	char *path = scratch_file(&fixture->scratch, "profile.pb.gz");
	struct profile *profile;
	uint64_t size = 0;

	assert_non_null(path);
	mapped_files_finish(fixture->mapped);
	assert_int_equal(write_export(fixture, path, &size), 0);
	assert_true(size > 20);
	assert_int_equal(scratch_count(&fixture->scratch, 0), 1);
	profile = pprof_read(path, &fixture->error);
	if (!profile)
		fail_msg("%s", fixture->error.text);
	free(path);
	return profile;
}

static size_t depth_of(const struct profile *profile, size_t sample)
{
	return profile->stacks.items[profile->samples.items[sample].stack].count;
}

static const struct profile_location *frame(const struct profile *profile, size_t sample,
					    size_t index)
{
	uint32_t stack = profile->samples.items[sample].stack;

	assert_true(index < depth_of(profile, sample));
	return &profile->locations.items[profile_stack_locations(profile, stack)[index]];
}

/* The name of a location's function; "" where it has none. */
static const char *function_name(const struct profile *profile,
				 const struct profile_location *location)
{
	if (!location->line_count)
		return "";
	return profile_text(
		profile, profile->functions.items[profile_lines(profile, location)->function].name);
}

static const struct profile_mapping *mapping(const struct profile *profile,
					     const struct profile_location *location)
{
	return location->mapping ? &profile->mappings.items[location->mapping] : NULL;
}

static size_t label_count(const struct profile *profile, size_t sample)
{
	return profile->label_sets.items[profile->samples.items[sample].label_set].count;
}

/* A label of a sample, or NULL. */
static const struct profile_label *label_of(const struct profile *profile, size_t sample,
					    const char *key)
{
	uint32_t label_set = profile->samples.items[sample].label_set;

	for (size_t i = 0; i < label_count(profile, sample); i++) {
		const struct profile_label *label =
			&profile->labels.items[profile_set_labels(profile, label_set)[i]];

		if (!strcmp(profile_text(profile, label->key), key))
			return label;
	}
	return NULL;
}

/* The text of a label that has to be there. */
static const char *text_of(const struct profile *profile, size_t sample, const char *key)
{
	const struct profile_label *label = label_of(profile, sample, key);

	assert_non_null(label);
	return profile_text(profile, label->text);
}

static bool has_comment(const struct profile *profile, const char *text)
{
	for (size_t i = 0; i < profile->comments.count; i++) {
		if (!strcmp(profile_text(profile, profile->comments.items[i]), text))
			return true;
	}
	return false;
}

static void writes_totals_and_time(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	sample_user(begin_sample(fixture), leaf());
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(profile->types.count, 2);
	assert_string_equal(profile_text(profile, profile->types.items[0].type), "samples");
	assert_string_equal(profile_text(profile, profile->types.items[0].unit), "count");
	assert_string_equal(profile_text(profile, profile->types.items[1].type), "cpu");
	assert_string_equal(profile_text(profile, profile->types.items[1].unit), "nanoseconds");
	assert_int_equal(profile->time_ns, 1700000000123456789);
	assert_int_equal(profile->duration_ns, 5000000000);
	assert_int_equal(profile->period, 10000000);
	profile_free(profile);
}

/* Exports a stack while call `number` of malloc() fails, or all from that one on. */
static bool export_without_memory(struct fixture *fixture, unsigned long number, bool stays)
{
	char *path = scratch_file(&fixture->scratch, "profile.pb.gz");
	struct profile *profile;
	struct window *window;
	bool failed;
	int err;

	assert_non_null(path);
	stack_table_free(fixture->stacks);
	assert_int_equal(new_stacks(fixture), 0);
	sample_user(begin_sample(fixture), leaf());
	sample_user(&fixture->any.sample, root());
	add_sample(fixture);
	add_sample(fixture);
	window = fold_stacks(fixture);
	fail_malloc(number, stays);
	err = export_profile(window, fixture->mapped, &fixture->recording, &fixture->counts,
			     &fixture->warning, &fixture->error);
	failed = malloc_has_failed();
	fail_malloc(0, false);
	if (err) {
		assert_true(failed);
		assert_int_equal(err, -ENOMEM);
		assert_memory_equal(fixture->error.text, "out of memory: ", 15);
	}
	assert_int_equal(pprof_write(window->profile, path, NULL, &fixture->error), 0);
	profile = pprof_read(path, &fixture->error);
	assert_non_null(profile);
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(profile_values(profile, 0)[PROFILE_SAMPLES], 2);
	assert_true(depth_of(profile, 0) > 0);
	assert_int_equal(profile->time_ns, fixture->recording.start_ns);
	if (!err)
		assert_true(has_comment(profile, "throttled: 0 times"));
	else if (!stays)
		assert_true(has_comment(profile, fixture->error.text));
	profile_free(profile);
	free(path);
	return failed;
}

static void samples_are_complete_without_memory(void **state)
{
	struct fixture *fixture = *state;
	unsigned long number = 1;

	mapped_files_finish(fixture->mapped);
	fixture->recording.hides_go_runtime = true;
	/* Steps, as each export starts processes. */
	while (export_without_memory(fixture, number, false))
		number += 4;
	assert_in_range(number, 50, 5000);
	for (number = 1; export_without_memory(fixture, number, true); number += 5)
		;
}

static void stacks_have_counts_weights_and_labels(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;
	bool seen[2] = {false};

	for (int i = 0; i < 3; i++) {
		sample_user(begin_sample(fixture), leaf());
		fixture->any.sample.weight = 1000 + i;
		add_sample(fixture);
	}
	/* A name may be any bytes, and a weight as long as a day. */
	sample_user(begin_sample(fixture), leaf());
	strcpy(fixture->any.sample.comm, "a\xff<\"b");
	fixture->any.sample.weight = UINT64_C(86400000000000);
	add_sample(fixture);

	profile = export_and_read(fixture);
	assert_int_equal(profile->samples.count, 2);
	for (size_t i = 0; i < 2; i++) {
		const int64_t *values = profile_values(profile, i);
		size_t which = values[PROFILE_SAMPLES] == 3 ? 0 : 1;

		seen[which] = true;
		assert_int_equal(values[PROFILE_SAMPLES], which ? 1 : 3);
		assert_int_equal(values[PROFILE_CPU], which ? 86400000000000 : 3003);
		assert_string_equal(text_of(profile, i, "comm"),
				    which ? "a\xef\xbf\xbd<\"b" : "thread");
		assert_string_equal(text_of(profile, i, "thread"),
				    which ? "a\xef\xbf\xbd<\"b" : "thread");
		assert_int_equal(label_of(profile, i, "pid")->number, getpid());
		assert_int_equal(label_of(profile, i, "pid")->text, 0);
		assert_null(label_of(profile, i, "tid"));
		assert_null(label_of(profile, i, "cpu"));
	}
	assert_true(seen[0] && seen[1]);
	/* One address is one location, in all samples. */
	assert_int_equal(profile->locations.count, 1 + 1);
	assert_int_equal(profile->functions.count, 1 + 1);
	profile_free(profile);
}

/*
 * Return addresses lie behind their call: they are decremented by one. Here they are the first
 * byte behind the function of the call. If they weren't decremented, the call of a function that
 * never returns would be in the function that happens to follow.
 */
static void return_addresses_are_decremented_but_not_the_leaf(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *user = begin_sample(fixture);
	struct profile *profile;
	char program[4096] = "";

	assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	sample_user(user, leaf());
	sample_user(user, caller() + 1);
	sample_user(user, root() + 1);
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(depth_of(profile, 0), 3);
	assert_int_equal(frame(profile, 0, 0)->address, in_file(leaf()));
	assert_int_equal(frame(profile, 0, 1)->address, in_file(caller()));
	assert_int_equal(frame(profile, 0, 2)->address, in_file(root()));
	assert_string_equal(function_name(profile, frame(profile, 0, 0)), "leaf_function");
	assert_string_equal(function_name(profile, frame(profile, 0, 1)), "caller_function");
	assert_string_equal(function_name(profile, frame(profile, 0, 2)), "_start");

	/* Addresses of the file, as the readers of pprof know them. */
	assert_int_equal(profile->mappings.count, 1 + 1);
	assert_int_equal(profile->mappings.items[1].start, 0);
	assert_int_equal(profile->mappings.items[1].limit, UINT64_MAX);
	assert_int_equal(profile->mappings.items[1].offset, 0);
	assert_string_equal(profile_text(profile, profile->mappings.items[1].file), program);
	profile_free(profile);
}

static void kernel_entry_address_is_not_decremented(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *both = begin_sample(fixture);
	struct profile *profile;

	sample_kernel(both, KERNEL + 0x100);
	sample_kernel(both, KERNEL + 0x200);
	sample_kernel(both, KERNEL + 0x300);
	sample_user(both, leaf());
	sample_user(both, caller() + 1);
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(depth_of(profile, 0), 5);
	assert_int_equal(frame(profile, 0, 0)->address, KERNEL + 0x100);
	assert_int_equal(frame(profile, 0, 1)->address, KERNEL + 0x1ff);
	assert_int_equal(frame(profile, 0, 2)->address, KERNEL + 0x2ff);
	assert_int_equal(frame(profile, 0, 3)->address, in_file(leaf()));
	assert_int_equal(frame(profile, 0, 4)->address, in_file(caller()));
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(
			profile_text(profile, mapping(profile, frame(profile, 0, i))->file),
			"[kernel.kallsyms]");
	profile_free(profile);
}

/* Returns symbols with one function, of 256 bytes, to be freed. */
static struct kallsyms *make_kallsyms(uint64_t address, const char *name)
{
	struct kallsyms *kallsyms;
	struct error error;
	char text[128];
	FILE *stream;

	snprintf(text, sizeof(text), "%" PRIx64 " t %s\n%" PRIx64 " D _etext\n", address, name,
		 address + 0x100);
	stream = fmemopen(text, strlen(text), "r");
	assert_non_null(stream);
	assert_int_equal(kallsyms_parse(stream, "test", &kallsyms, &error), 0);
	fclose(stream);
	return kallsyms;
}

/* Returns the name of the function of the kernel at `address`, with these kept symbols. */
static char *name_in_kernel(struct fixture *fixture, uint64_t address,
			    const struct kallsyms *kallsyms)
{
	struct stackbeat_sample *sample = begin_sample(fixture);
	struct profile *profile;
	char *name;

	sample_kernel(sample, address);
	add_sample(fixture);
	fixture->recording.kallsyms = kallsyms;
	profile = export_and_read(fixture);
	name = strdup(function_name(profile, frame(profile, 0, 0)));
	profile_free(profile);
	return name;
}

static void kept_symbols_of_the_kernel_are_used(void **state)
{
	struct kernel *kernel = kernel_new("");
	/* If the kernel hides its addresses, it has no symbols. */
	bool hidden = !kernel_mapping_by_name(kernel, KERNEL_MAPPING)->start;
	struct kallsyms *kallsyms = make_kallsyms(KERNEL, "kept_function");
	char *name = name_in_kernel(*state, KERNEL + 0xff, kallsyms);

	assert_string_equal(name, hidden ? "" : "kept_function");
	free(name);
	kallsyms_free(kallsyms);
	kernel_free(kernel);
}

/* Another function: all are read then. */
static void missing_symbols_of_the_kernel_are_read(void **state)
{
	struct kallsyms *kallsyms = make_kallsyms(KERNEL, "kept_function"), *real = NULL;
	const char *wanted, *module;
	struct error error;
	uint64_t start;
	char *name = name_in_kernel(*state, KERNEL + 0x100, kallsyms);

	if (kallsyms_read(KALLSYMS_PATH, &real, &error) ||
	    !kallsyms_lookup(real, KERNEL + 0x100, &wanted, &start, &module))
		wanted = "";
	assert_string_equal(name, wanted);
	free(name);
	kallsyms_free(real);
	kallsyms_free(kallsyms);
}

static void modules_that_are_gone_have_names(void **state)
{
	static char old_text[] = "ffffffffc0000000 t old_init\t[old]\n",
		    new_text[] = "ffffffffc0000000 t new_init\t[new]\n";
	const uint64_t code = UINT64_C(0xffffffffc0000000);
	struct gone_part items[] = {
		{.serial = 1, .came = 10, .gone = 20, .module = "old", .text = old_text},
		/* It was there when the parts were read. */
		{.serial = 2, .came = 30, .module = "new", .text = new_text},
	};
	const struct gone_parts parts = {
		.items = items, .count = 2, .start = code, .end = code + 0x100};
	/* A third module, which has the address at the end, and kept symbols. */
	struct kallsyms *kallsyms = make_kallsyms(code, "later");
	struct fixture *fixture = *state;
	static const char *const names[] = {"old_init", "new_init"}, *const mappings[] = {"[old]",
											  "[new]"};
	struct profile *profile;

	fixture->recording.kallsyms = kallsyms;
	fixture->recording.gone = &parts;
	stack_table_use_parts(fixture->stacks, &parts);
	for (size_t i = 0; i < 2; i++) {
		items[i].start = code;
		items[i].end = items[i].reach = code + 0x100;
		items[i].size = strlen(items[i].text);
	}
	for (size_t i = 0; i < 2; i++) {
		struct stackbeat_sample *sample = begin_sample(fixture);

		sample->time = items[i].came;
		sample_kernel(sample, code + 0x10);
		add_sample(fixture);
	}
	profile = export_and_read(fixture);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(frame(profile, i, 0)->address, code + 0x10);
		assert_string_equal(function_name(profile, frame(profile, i, 0)), names[i]);
		assert_string_equal(
			profile_text(profile, mapping(profile, frame(profile, i, 0))->file),
			mappings[i]);
	}
	profile_free(profile);
	kallsyms_free(kallsyms);
}

/* Returns whether symbols are read for `missing` of 100 samples that the kept ones lack. */
static bool reads_kernel(struct fixture *fixture, unsigned int missing, unsigned int tolerated)
{
	struct kallsyms *kallsyms = make_kallsyms(KERNEL, "kept_function");
	bool reads = false;

	for (unsigned int i = 0; i < 100; i++) {
		struct stackbeat_sample *sample = begin_sample(fixture);

		sample_kernel(sample, KERNEL + (i < missing ? 0x100 + i : 0));
		add_sample(fixture);
	}
	fixture->recording.kallsyms = kallsyms;
	fixture->recording.tolerated_missing = tolerated;
	fixture->recording.reads_kernel = &reads;
	profile_free(export_and_read(fixture));
	kallsyms_free(kallsyms);
	return reads;
}

static void rare_symbols_of_the_kernel_may_be_missing(void **state)
{
	assert_false(reads_kernel(*state, 1, 1));
}

static void frequent_symbols_of_the_kernel_are_read(void **state)
{
	assert_true(reads_kernel(*state, 2, 1));
}

static void all_symbols_of_the_kernel_may_be_missing(void **state)
{
	assert_false(reads_kernel(*state, 100, 100));
}

static void without_tolerance_all_symbols_are_read(void **state)
{
	assert_true(reads_kernel(*state, 1, 0));
}

static void known_symbols_of_the_kernel_are_not_read(void **state)
{
	assert_false(reads_kernel(*state, 0, 0));
}

static void leaf_of_a_kernel_thread_is_not_decremented(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *kernel = begin_sample(fixture);
	struct profile *profile;

	kernel->user_stop = STACKBEAT_STOP_NO_USER_MEMORY;
	sample_kernel(kernel, KERNEL + 0x100);
	sample_kernel(kernel, KERNEL + 0x200);
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(depth_of(profile, 0), 2);
	assert_int_equal(frame(profile, 0, 0)->address, KERNEL + 0x100);
	assert_int_equal(frame(profile, 0, 1)->address, KERNEL + 0x1ff);
	assert_int_equal(truncation_total(&fixture->counts), 0);
	profile_free(profile);
}

static void frame_without_symbol_has_address_and_mapping(void **state)
{
	struct fixture *fixture = *state;
	size_t page = sysconf(_SC_PAGESIZE);
	void *code = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t address = (uint64_t)(uintptr_t)code;
	const struct profile_mapping *of_code;
	struct profile *profile;
	struct stackbeat_sample *user = begin_sample(fixture);

	assert_ptr_not_equal(code, MAP_FAILED);
	fake_mapping(fixture->spaces, SELF, 2, STACKBEAT_MAPPING_EVENT, address, address + page, 0,
		     0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, SELF, 0), 2), 0);
	user->generation = 2;
	sample_user(user, address + 8);
	sample_user(user, address + 9);
	add_sample(fixture);
	profile = export_and_read(fixture);
	of_code = mapping(profile, frame(profile, 0, 0));
	assert_non_null(of_code);
	assert_int_equal(frame(profile, 0, 0)->address, address + 8);
	assert_string_equal(function_name(profile, frame(profile, 0, 0)), "");
	assert_true(of_code->start <= address && address + page <= of_code->limit);
	assert_string_equal(profile_text(profile, of_code->file), "[anon]");
	/* A call at the same place. */
	assert_ptr_equal(frame(profile, 0, 1), frame(profile, 0, 0));
	profile_free(profile);
	munmap(code, page);
}

static void unmapped_frame_has_its_address(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	sample_user(begin_sample(fixture), NOWHERE);
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(frame(profile, 0, 0)->address, NOWHERE);
	assert_null(mapping(profile, frame(profile, 0, 0)));
	assert_string_equal(function_name(profile, frame(profile, 0, 0)), "");
	assert_int_equal(fixture->counts.user_frames, 1);
	assert_int_equal(fixture->counts.unmapped, 1);
	profile_free(profile);
}

static void process_without_metadata_is_written(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	sample_user(sample_begin(&fixture->any, 4711, "gone"), leaf());
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(frame(profile, 0, 0)->address, leaf());
	assert_null(mapping(profile, frame(profile, 0, 0)));
	assert_int_equal(label_of(profile, 0, "pid")->number, 4711);
	profile_free(profile);
}

static void add_stack(struct fixture *fixture, enum stackbeat_unwind_stop kernel_stop,
		      enum stackbeat_unwind_stop user_stop, bool to_root, int samples)
{
	struct stackbeat_sample *both = begin_sample(fixture);

	if (kernel_stop != STACKBEAT_STOP_USER_MODE && kernel_stop != STACKBEAT_STOP_EXCLUDED)
		sample_kernel(both, KERNEL + 0x100);
	both->kernel_stop = kernel_stop;
	both->user_stop = user_stop;
	if (user_stop != STACKBEAT_STOP_NO_USER_MEMORY && user_stop != STACKBEAT_STOP_EXCLUDED) {
		sample_user(both, leaf());
		/* The address after the root is what the register held before there was a stack. */
		if (to_root)
			sample_user(both, root() + 1);
		sample_user(both, MEMORY + 1);
	}
	while (samples--)
		add_sample(fixture);
}

static void truncated_stacks_are_counted_by_cause(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	/* Complete, in one way or the other. */
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_OUTERMOST, false, 1000);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_OUTERMOST, false, 1000);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_NO_USER_MEMORY, false, 1000);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_EXCLUDED, false, 1000);
	add_stack(fixture, STACKBEAT_STOP_EXCLUDED, STACKBEAT_STOP_OUTERMOST, false, 1000);
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_BAD_FRAME, true, 1000);
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_FAULT, true, 1000);
	/* Truncated. */
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_MAX_DEPTH, false, 1);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_MAX_DEPTH, false, 2);
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_FAULT, false, 10);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_BAD_FRAME, false, 100);
	add_stack(fixture, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_OUTERMOST, false, 3);
	add_stack(fixture, STACKBEAT_STOP_MAX_DEPTH, STACKBEAT_STOP_BAD_FRAME, false, 4);
	add_stack(fixture, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_FAULT, true, 5);
	add_stack(fixture, STACKBEAT_STOP_MAX_DEPTH, STACKBEAT_STOP_NO_USER_MEMORY, false, 6);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_EXEC, false, 7);

	profile = export_and_read(fixture);
	assert_int_equal(fixture->counts.samples[TRUNCATED_KERNEL], 18);
	assert_int_equal(fixture->counts.samples[TRUNCATED_MAX_DEPTH], 3);
	assert_int_equal(fixture->counts.samples[TRUNCATED_UNREADABLE_MEMORY], 10);
	assert_int_equal(fixture->counts.samples[TRUNCATED_BAD_FRAME_POINTER], 100);
	assert_int_equal(fixture->counts.samples[TRUNCATED_EXEC], 7);
	assert_int_equal(truncation_total(&fixture->counts), 138);
	assert_true(has_comment(profile,
				"truncated: 138 (kernel 18, max-depth 3, unreadable-memory 10, "
				"bad-frame-pointer 100, exec 7, no-unwind-rule 0, "
				"no-unwind-table 0, stack-copy 0, unknown-mapping 0)"));
	profile_free(profile);
}

static void frames_above_a_root_are_dropped(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_BAD_FRAME, true, 1);
	profile = export_and_read(fixture);
	assert_int_equal(depth_of(profile, 0), 3);
	assert_string_equal(function_name(profile, frame(profile, 0, 2)), "_start");
	assert_int_equal(truncation_total(&fixture->counts), 0);
	profile_free(profile);
}

/* As the CPU time of symbols that was used until the comments are made. */
static void add_symbols(void *arg)
{
	((struct recording *)arg)->counts[COUNTER_SYMBOLS_CPU_NS] += 2;
}

static void comments_have_all_counters(void **state)
{
	struct fixture *fixture = *state;
	struct recording *recording = &fixture->recording;
	struct profile *profile;
	const char *first;

	recording->counts[STACKBEAT_S_LOST_FULL] = 7;
	recording->counts[STACKBEAT_S_LOST_BAD_TAIL] = 5;
	recording->counts[STACKBEAT_S_MISSED_TICKS] = 3;
	recording->counts[STACKBEAT_S_IDLE] = 900;
	recording->counts[STACKBEAT_S_FILTERED] = 80;
	recording->counts[STACKBEAT_S_TICKS] = 250;
	recording->counts[STACKBEAT_S_TICK_TIME_NS] = 4000000000;
	recording->counts[STACKBEAT_S_THROTTLED] = 4;
	recording->counts[STACKBEAT_S_ADDRESS_SPACES] = 21;
	recording->counts[STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE] = 6;
	recording->counts[STACKBEAT_S_ADDRESS_SPACES_UNREAD] = 5;
	recording->counts[STACKBEAT_S_MMAP_EVENTS_LOST] = 2;
	recording->counts[STACKBEAT_S_MMAP_EVENTS_OFF] = 40;
	recording->counts[STACKBEAT_S_MAPPINGS_DROPPED] = 9;
	recording->counts[COUNTER_PERF_MAPS_DROPPED] = 4;
	recording->counts[COUNTER_KERNEL_NAMES_DROPPED] = 41;
	recording->counts[COUNTER_SAMPLES_EARLY] = 8;
	recording->counts[STACKBEAT_S_MAPPINGS_WITHOUT_FILE] = 1;
	recording->unwinds_by_tables = true;
	recording->counts[COUNTER_TABLES_COMPILED] = 31;
	recording->counts[COUNTER_TABLES_CACHED] = 39;
	recording->counts[COUNTER_TABLES_NONE] = 32;
	recording->counts[COUNTER_TABLES_FAILED] = 33;
	recording->counts[COUNTER_TABLES_REFUSED] = 34;
	recording->counts[COUNTER_TABLES_UNSUPPORTED] = 35;
	recording->counts[COUNTER_STACK_COPIES_WALKED] = 36;
	recording->counts[COUNTER_STACK_COPY_BYTES] = 41;
	recording->counts[COUNTER_STACK_COPIES_GIVEN_UP] = 37;
	recording->counts[STACKBEAT_S_STACK_COPIES_LOST] = 38;
	recording->counts[STACKBEAT_S_KERNEL_STACKS_DIFFERENT] = 40;
	recording->unknown_go = 99;
	recording->counts[STACKBEAT_S_OVERHEAD_NS] = 12345678;
	recording->counts[STACKBEAT_S_WORKER_OVERHEAD_NS] = 1000;
	recording->counts[STACKBEAT_S_PROBE_OVERHEAD_NS] = 100;
	recording->counts[COUNTER_READER_OVERHEAD_NS] = 37653222;
	recording->counts[COUNTER_TABLES_CPU_NS] = 5000000;
	recording->counts[COUNTER_SYMBOLS_CPU_NS] = 6000000;
	recording->counts[COUNTER_WRITING_CPU_NS] = 7000000;
	recording->symbolized = add_symbols;
	recording->symbolized_arg = recording;
	sample_user(begin_sample(fixture), leaf());
	add_sample(fixture);
	add_sample(fixture);
	sample_user(begin_sample(fixture), NOWHERE);
	add_sample(fixture);
	profile = export_and_read(fixture);
	first = profile_text(profile, profile->comments.items[0]);
	assert_ptr_equal(strstr(first, "stackbeat " STACKBEAT_VERSION " on Linux "), first);
	assert_true(has_comment(profile, "command: stackbeat record -a"));
	assert_true(has_comment(profile, "rate: 100 Hz requested, 62.5 Hz on average, on 2 CPUs"));
	assert_true(has_comment(profile, "throttled: 4 times"));
	assert_true(has_comment(profile, "samples: 3"));
	assert_true(has_comment(profile, "lost: 12 (ring full 7, bad reader position 5)"));
	assert_true(has_comment(profile,
				"truncated: 0 (kernel 0, max-depth 0, unreadable-memory 0, "
				"bad-frame-pointer 0, exec 0, no-unwind-rule 0, "
				"no-unwind-table 0, stack-copy 0, unknown-mapping 0)"));
	assert_true(has_comment(profile, "missed ticks: 3"));
	assert_true(has_comment(profile, "ticks without a sample: idle 900, filtered 80"));
	/* 50 ms of 5 s on 2 CPUs. */
	assert_true(has_comment(profile, "overhead: 12346778 ns in the kernel, 37653222 ns in the "
					 "reader, 0.500 % of the sampled CPUs"));
	assert_true(has_comment(profile, "overhead by part: sampling 12345678 ns, mappings 1100 "
					 "ns, unwind tables 5000000 ns, reading 19653220 ns, "
					 "symbols 6000002 ns, writing 7000000 ns"));
	assert_true(has_comment(
		profile, "address spaces: 21; samples without an address space 6, address spaces "
			 "not read 5, mapping "
			 "events lost 2, mappings dropped 9, mappings without a file 1, "
			 "times without mapping events 40, perf maps dropped 4, parts of kernel "
			 "code dropped 41, samples resolved before their mappings arrived 8"));
	assert_true(has_comment(profile, "user frames: 3, outside all mappings 1"));
	assert_true(has_comment(profile, "callers in user mode: by unwind tables 0, by frame "
					 "pointers 0, by copies of stacks 0"));
	assert_true(has_comment(
		profile,
		"unwinding: copies of stacks lost 38, kernel stacks that differed 40, "
		"unwind tables compiled 31, unwind tables from the cache 39, files without "
		"call frame information 32, files without an unwind table 33, "
		"unwind tables refused 34, ranges of code not supported 35, copies of "
		"stacks used 36, bytes of copies used 41, copies of stacks not used 37"));
	assert_true(has_comment(profile, "Go 1.99 is newer than this version of stackbeat: its "
					 "goroutines are read as in Go 1.27"));
	assert_int_equal(profile->comments.count, 16);
	profile_free(profile);
}

static void one_cpu_is_counted_in_the_singular(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	fixture->recording.cpus = 1;
	sample_user(begin_sample(fixture), leaf());
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_true(has_comment(profile, "rate: 100 Hz requested, average not measured, on 1 CPU"));
	profile_free(profile);
}

static void overhead_is_a_percentage_of_all_cpus(void **state)
{
	struct recording recording = {
		.cpus = 4,
		.duration_ns = 1000,
		.counts[STACKBEAT_S_OVERHEAD_NS] = 30,
		.counts[COUNTER_READER_OVERHEAD_NS] = 10,
	};

	(void)state;
	assert_true(recording_overhead_percent(&recording) == 1);
	recording.duration_ns = 0;
	assert_true(recording_overhead_percent(&recording) == 0);
}

static void any_command_line_makes_a_valid_file(void **state)
{
	struct fixture *fixture = *state;
	char *line = malloc(100001);

	assert_non_null(line);
	for (size_t i = 0; i < 100000; i++)
		line[i] = (char)(i % 255 + 1);
	line[100000] = '\0';
	fixture->recording.command_line = line;
	sample_user(begin_sample(fixture), leaf());
	add_sample(fixture);
	profile_free(export_and_read(fixture));
	free(line);
}

static void sample_without_frames_makes_a_valid_file(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	begin_sample(fixture)->user_stop = STACKBEAT_STOP_NO_USER_MEMORY;
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(depth_of(profile, 0), 0);
	assert_int_equal(profile_values(profile, 0)[0], 1);
	profile_free(profile);
}

static void deepest_stack_fits(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *both = begin_sample(fixture);
	struct profile *profile;

	both->user_stop = STACKBEAT_STOP_MAX_DEPTH;
	for (uint32_t i = 0; i < STACKBEAT_KERNEL_FRAMES_MAX; i++)
		sample_kernel(both, KERNEL + i);
	both->kernel_stop = STACKBEAT_STOP_OUTERMOST;
	for (uint32_t i = 0; i < STACKBEAT_USER_FRAMES_MAX; i++)
		sample_user(both, caller() + 1);
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(depth_of(profile, 0), SAMPLE_FRAMES_MAX);
	assert_int_equal(fixture->counts.samples[TRUNCATED_MAX_DEPTH], 1);
	profile_free(profile);
}

/* Sums of many stacks, whatever order they come in. */
static void no_sample_is_lost(void **state)
{
	enum { STACKS = 5000 };
	struct fixture *fixture = *state;
	struct profile *profile;
	int64_t samples = 0, weight = 0;

	for (uint64_t i = 0; i < STACKS; i++) {
		struct stackbeat_sample *both = begin_sample(fixture);

		sample_kernel(both, KERNEL + i % 71);
		sample_user(both, leaf());
		sample_user(both, MEMORY + 1 + i);
		both->weight = i;
		for (uint64_t j = 0; j <= i % 3; j++)
			add_sample(fixture);
	}
	profile = export_and_read(fixture);
	assert_int_equal(profile->samples.count, STACKS);
	for (size_t i = 0; i < STACKS; i++) {
		samples += profile_values(profile, i)[0];
		weight += profile_values(profile, i)[1];
	}
	assert_int_equal(samples, stack_table_totals(fixture->stacks)->samples);
	assert_int_equal(weight, stack_table_totals(fixture->stacks)->weight);
	profile_free(profile);
}

/* Chooses other labels than the default; drops the stacks. */
static void choose_labels(struct fixture *fixture, const char *list)
{
	assert_int_equal(labels_choose(&fixture->labels, list, &fixture->error), 0);
	stack_table_free(fixture->stacks);
	assert_int_equal(new_stacks(fixture), 0);
}

static void samples_have_the_chosen_labels(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	choose_labels(fixture, "thread,tid,cpu");
	assert_int_equal(labels_add(&fixture->labels, "build=v1.2-3", &fixture->error), 0);
	sample_user(begin_sample(fixture), leaf());
	fixture->any.sample.tid = 77;
	add_sample(fixture);
	profile = export_and_read(fixture);
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(label_count(profile, 0), 4);
	assert_string_equal(text_of(profile, 0, "thread"), "thread");
	assert_int_equal(label_of(profile, 0, "tid")->number, 77);
	/* CPU 0 is a CPU: other readers of pprof treat a 0 without a unit as no label. */
	assert_int_equal(label_of(profile, 0, "cpu")->number, 0);
	assert_true(label_of(profile, 0, "cpu")->unit);
	assert_string_equal(text_of(profile, 0, "build"), "v1.2-3");
	profile_free(profile);
}

/* The same code in two processes is one stack if no label distinguishes the process. */
static void samples_with_equal_labels_are_aggregated(void **state)
{
	struct fixture *fixture = *state;
	struct profile *profile;

	fake_self(fixture->spaces, &fixture->files, SELF + 1, 4711);
	for (int i = 0; i < 2; i++) {
		choose_labels(fixture, i ? "comm" : "comm,pid");
		sample_user(begin_sample(fixture), leaf());
		fixture->any.sample.weight = 5;
		add_sample(fixture);
		sample_user(sample_begin(&fixture->any, 4711, "thread"), leaf());
		fixture->any.sample.address_space = SELF + 1;
		fixture->any.sample.generation = 1;
		fixture->any.sample.weight = 70;
		add_sample(fixture);
		assert_int_equal(stack_table_totals(fixture->stacks)->stacks, 2);
		profile = export_and_read(fixture);
		assert_int_equal(profile->samples.count, i ? 1 : 2);
		assert_int_equal(profile->locations.count, 1 + 1);
		if (i) {
			assert_int_equal(profile_values(profile, 0)[0], 2);
			assert_int_equal(profile_values(profile, 0)[1], 75);
		}
		profile_free(profile);
	}
}

/* A stack with all its frames, lines and labels, as text. */
static char *text_of_sample(const struct profile *profile, size_t sample)
{
	const struct profile_sample *from = &profile->samples.items[sample];
	const uint32_t *labels = profile_set_labels(profile, from->label_set);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; i < profile->types.count; i++)
		fprintf(out, "%" PRId64 " ", profile_values(profile, sample)[i]);
	for (size_t i = 0; i < label_count(profile, sample); i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		fprintf(out, "%s=%s%" PRId64 " ", profile_text(profile, label->key),
			profile_text(profile, label->text), label->number);
	}
	for (size_t i = 0; i < depth_of(profile, sample); i++) {
		const struct profile_location *location = frame(profile, sample, i);
		const struct profile_line *lines = profile_lines(profile, location);
		const struct profile_mapping *mapped = mapping(profile, location);

		fprintf(out, "\n\t%" PRIx64, location->address);
		if (mapped)
			fprintf(out, " %s %s %" PRIx64 " %" PRIx64,
				profile_text(profile, mapped->file),
				profile_text(profile, mapped->build_id), mapped->start,
				mapped->limit);
		for (size_t j = 0; j < location->line_count; j++) {
			const struct profile_function *function =
				&profile->functions.items[lines[j].function];

			fprintf(out, " %s|%s|%s:%" PRId64 ":%" PRId64,
				profile_text(profile, function->name),
				profile_text(profile, function->system_name),
				profile_text(profile, function->file), function->start_line,
				lines[j].line);
		}
	}
	fclose(out);
	return text;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All samples in order, to be freed with their texts. */
static char **texts_of(const struct profile *profile)
{
	char **texts = calloc(profile->samples.count + 1, sizeof(char *));

	for (size_t i = 0; i < profile->samples.count; i++)
		texts[i] = text_of_sample(profile, i);
	qsort(texts, profile->samples.count, sizeof(char *), compare_texts);
	return texts;
}

static void expect_equal_profiles(const struct profile *a, const struct profile *b)
{
	char **left = texts_of(a), **right = texts_of(b);

	assert_int_equal(a->samples.count, b->samples.count);
	for (size_t i = 0; i < a->samples.count; i++) {
		assert_string_equal(left[i], right[i]);
		free(left[i]);
		free(right[i]);
	}
	free(left);
	free(right);
	assert_int_equal(a->locations.count, b->locations.count);
	assert_int_equal(a->mappings.count, b->mappings.count);
	assert_int_equal(a->functions.count, b->functions.count);
	for (size_t i = 0; i < a->comments.count; i++)
		assert_string_equal(profile_text(a, a->comments.items[i]),
				    profile_text(b, b->comments.items[i]));
}

static void take_missing(void *arg, const char *path, const char *build_id, size_t count)
{
	(void)path, (void)build_id;
	*(size_t *)arg += count;
}

static void add_stacks_of_all_kinds(struct fixture *fixture)
{
	/* Stacks that differ only above the root are equal. */
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_BAD_FRAME, true, 3);
	sample_user(begin_sample(fixture), leaf());
	sample_user(&fixture->any.sample, root() + 1);
	sample_user(&fixture->any.sample, MEMORY + 2);
	fixture->any.sample.user_stop = STACKBEAT_STOP_FAULT;
	add_sample(fixture);
	add_stack(fixture, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_BAD_FRAME, true, 4);
	add_stack(fixture, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_BAD_FRAME, true, 5);
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_BAD_FRAME, false, 6);
	add_stack(fixture, STACKBEAT_STOP_USER_MODE, STACKBEAT_STOP_MAX_DEPTH, false, 7);
	sample_user(begin_sample(fixture), caller());
	sample_user(&fixture->any.sample, NOWHERE + 1);
	add_sample(fixture);
}

/* The same stacks, symbolized. */
static struct profile *export_symbolized(struct fixture *fixture)
{
	add_stacks_of_all_kinds(fixture);
	return export_and_read(fixture);
}

static struct profile *export_unsymbolized(void)
{
	struct profile *profile;
	void *state;

	assert_int_equal(setup(&state), 0);
	mapped_files_skip_symbols(((struct fixture *)state)->mapped);
	((struct fixture *)state)->recording.symbolize = NULL;
	add_stacks_of_all_kinds(state);
	profile = export_and_read(state);
	teardown(&state);
	return profile;
}

static void symbolize_offline(struct profile *profile, struct symbolize_counts *counts,
			      size_t *missing)
{
	const struct binary_finder search = {.time = INT64_MAX};
	const struct symbolize_options options = {
		.sandbox = worker_server(),
		.missing = take_missing,
		.arg = missing,
	};
	struct kernel *kernel = kernel_new("");
	struct kallsyms *kallsyms = NULL;
	struct truncation_counts truncated;
	struct symbol_source source;

	/* If the kernel hides its symbols, neither profile has them. */
	kallsyms_read(KALLSYMS_PATH, &kallsyms, NULL);
	*missing = 0;
	offline_source_init(&source, profile, &search, kallsyms, kernel);
	assert_int_equal(symbolize_profile(profile, &source, &options, counts, NULL), 0);
	assert_true(origin_is_own(profile));
	assert_int_equal(normalize_profile(profile, false, &truncated), 0);
	kernel_free(kernel);
	kallsyms_free(kallsyms);
}

static void offline_symbolization_equals_online(void **state)
{
	struct profile *at_once = export_symbolized(*state), *later = export_unsymbolized();
	struct symbolize_counts counts;
	size_t missing;

	assert_int_equal(later->functions.count, 1);
	assert_true(later->samples.count > at_once->samples.count);
	symbolize_offline(later, &counts, &missing);
	assert_true(counts.named >= 3);
	assert_int_equal(counts.unsymbolized - counts.named, missing);
	expect_equal_profiles(at_once, later);
	/* A second run changes nothing. */
	symbolize_offline(later, &counts, &missing);
	assert_int_equal(counts.named, 0);
	expect_equal_profiles(at_once, later);
	profile_free(at_once);
	profile_free(later);
}

/* Replaces a program by one without a build ID, with one function of this name. */
static uint64_t fake_program(struct fixture *fixture, const char *path, const char *function,
			     uint64_t *address)
{
	char command[512], line[64];
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "rm -f %s && echo 'void %s(void) {}' | cc -x c - -shared -nostdlib "
		 "-Wl,--build-id=none -o %s && nm %s | grep ' T %s'",
		 path, function, path, path, function);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	pclose(pipe);
	*address = strtoull(line, NULL, 16);
	return fake_file(fixture->mapped, &fixture->files, path);
}

static void programs_with_equal_paths_have_their_own_symbols(void **state)
{
	static const char *const functions[] = {"first", "other"};
	struct fixture *fixture = *state;
	char *path = scratch_file(&fixture->scratch, "program");
	struct profile *profile;
	uint64_t addresses[2];

	for (uint64_t i = 0; i < 2; i++) {
		uint64_t file = fake_program(fixture, path, functions[i], &addresses[i]);
		struct stackbeat_sample *user;

		fake_space(fixture->spaces, 7 + i, 1000, 1, "program");
		fake_mapping(fixture->spaces, 7 + i, 1, 0, MEMORY, 2 * MEMORY, file, 0);
		assert_int_equal(
			address_space_advance(address_spaces_get(fixture->spaces, 7 + i, 0), 1), 0);
		user = begin_sample(fixture);
		user->address_space = 7 + i;
		sample_user(user, MEMORY + addresses[i]);
		add_sample(fixture);
	}
	assert_int_equal(addresses[0], addresses[1]);
	unlink(path);
	profile = export_and_read(fixture);
	assert_int_equal(profile->mappings.count, 1 + 2);
	assert_int_equal(profile->locations.count, 1 + 2);
	assert_string_not_equal(function_name(profile, frame(profile, 0, 0)),
				function_name(profile, frame(profile, 1, 0)));
	for (size_t i = 0; i < 2; i++)
		assert_string_not_equal(function_name(profile, frame(profile, i, 0)), "");
	profile_free(profile);
	free(path);
}

static void failed_write_leaves_no_file(void **state)
{
	struct fixture *fixture = *state;
	char *path = scratch_file(&fixture->scratch, "missing/profile.pb.gz");
	uint64_t size;

	sample_user(begin_sample(fixture), leaf());
	add_sample(fixture);
	assert_int_equal(write_export(fixture, path, &size), -ENOENT);
	assert_non_null(strstr(fixture->error.text, path));
	assert_int_equal(scratch_count(&fixture->scratch, 0), 0);
	free(path);
}

/* The clock of samples becomes the wall clock; symbols and roots change nothing. */
static void timestamps_are_since_1970(void **state)
{
	struct fixture *fixture = *state;
	char *path = scratch_file(&fixture->scratch, "profile.pb.gz");
	struct stackbeat_sample *sample;
	struct profile *profile;
	uint64_t size;

	stack_table_free(fixture->stacks);
	fixture->labels.chosen |= LABEL_SET(LABEL_MOMENT);
	assert_int_equal(new_stacks(fixture), 0);
	fixture->recording.clock_ns = INT64_C(1700000000000000000);
	sample = begin_sample(fixture);
	sample_user(sample, (uint64_t)(uintptr_t)setup);
	for (unsigned int i = 0; i < 3; i++) {
		sample->time = 1234567890123 + i;
		add_sample(fixture);
	}
	mapped_files_finish(fixture->mapped);
	assert_int_equal(write_export(fixture, path, &size), 0);
	profile = read_timed_profile(path);
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(profile->moments.count, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(profile->moments.items[i].time_ns,
				 INT64_C(1700001234567890123) + i);
	assert_true(has_comment(profile, "timestamps: of 3 of 3 samples"));
	profile_free(profile);
	free(path);
}

#define ENCODE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENCODE_TEST(writes_totals_and_time),
		ENCODE_TEST(stacks_have_counts_weights_and_labels),
		ENCODE_TEST(return_addresses_are_decremented_but_not_the_leaf),
		ENCODE_TEST(kernel_entry_address_is_not_decremented),
		ENCODE_TEST(leaf_of_a_kernel_thread_is_not_decremented),
		ENCODE_TEST(frame_without_symbol_has_address_and_mapping),
		ENCODE_TEST(unmapped_frame_has_its_address),
		ENCODE_TEST(process_without_metadata_is_written),
		ENCODE_TEST(truncated_stacks_are_counted_by_cause),
		ENCODE_TEST(frames_above_a_root_are_dropped),
		ENCODE_TEST(comments_have_all_counters),
		ENCODE_TEST(one_cpu_is_counted_in_the_singular),
		ENCODE_TEST(timestamps_are_since_1970),
		cmocka_unit_test(overhead_is_a_percentage_of_all_cpus),
		ENCODE_TEST(any_command_line_makes_a_valid_file),
		ENCODE_TEST(sample_without_frames_makes_a_valid_file),
		ENCODE_TEST(deepest_stack_fits),
		ENCODE_TEST(no_sample_is_lost),
		ENCODE_TEST(samples_are_complete_without_memory),
		ENCODE_TEST(samples_have_the_chosen_labels),
		ENCODE_TEST(samples_with_equal_labels_are_aggregated),
		ENCODE_TEST(kept_symbols_of_the_kernel_are_used),
		ENCODE_TEST(missing_symbols_of_the_kernel_are_read),
		ENCODE_TEST(modules_that_are_gone_have_names),
		ENCODE_TEST(rare_symbols_of_the_kernel_may_be_missing),
		ENCODE_TEST(all_symbols_of_the_kernel_may_be_missing),
		ENCODE_TEST(frequent_symbols_of_the_kernel_are_read),
		ENCODE_TEST(without_tolerance_all_symbols_are_read),
		ENCODE_TEST(known_symbols_of_the_kernel_are_not_read),
		ENCODE_TEST(offline_symbolization_equals_online),
		ENCODE_TEST(programs_with_equal_paths_have_their_own_symbols),
		ENCODE_TEST(failed_write_leaves_no_file),
	};

	return cmocka_run_group_tests_name("profile_export", tests, NULL, NULL);
}
