// SPDX-License-Identifier: GPL-2.0
/* The reader reads profiles of the writer, and refuses invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <zlib.h>

#include "lib/utf8.h"
#include "pprof/gzip.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "profile.pb-c.h"
#include "sample_profile.h"
#include "scratch.h"

#define MUTATIONS 5000
#define LARGE_STACKS 100000
#define LARGE_DEPTH 30

static struct profile *write_and_read(void **state, struct profile *built)
{
	char *path = scratch_file(state, "profile");
	struct profile *profile;
	struct error error = {""};
	uint64_t size = 0;

	assert_int_equal(pprof_write(built, path, &size, &error), 0);
	assert_true(size > 0);
	profile = pprof_read(path, &error);
	assert_string_equal(error.text, "");
	assert_non_null(profile);
	profile_free(built);
	free(path);
	return profile;
}

static void assert_text(const struct profile *profile, uint32_t string, const char *expected)
{
	assert_string_equal(profile_text(profile, string), expected);
}

static void head_is_preserved(void **state)
{
	struct profile *built = example_profile(), *profile;

	profile_comment(built, "second");
	profile_comment(built, "third");
	built->drop_frames = profile_string(built, "drop");
	built->keep_frames = profile_string(built, "keep");
	built->doc_url = profile_string(built, "https://example.com/");
	profile = write_and_read(state, built);
	assert_int_equal(profile->types.count, 2);
	assert_text(profile, profile->types.items[0].type, "samples");
	assert_text(profile, profile->types.items[0].unit, "count");
	assert_text(profile, profile->types.items[1].type, "cpu");
	assert_text(profile, profile->types.items[1].unit, "nanoseconds");
	assert_text(profile, profile->default_type, "cpu");
	assert_text(profile, profile->period_type.type, "cpu");
	assert_text(profile, profile->period_type.unit, "nanoseconds");
	assert_int_equal(profile->period, 10 * MS);
	assert_int_equal(profile->time_ns, 1700000000000000000);
	assert_int_equal(profile->duration_ns, 1000 * MS);
	assert_int_equal(profile->comments.count, 3);
	assert_text(profile, profile->comments.items[0], "11 samples");
	assert_text(profile, profile->comments.items[1], "second");
	assert_text(profile, profile->comments.items[2], "third");
	assert_text(profile, profile->drop_frames, "drop");
	assert_text(profile, profile->keep_frames, "keep");
	assert_text(profile, profile->doc_url, "https://example.com/");
	assert_text(profile, 0, "");
	profile_free(profile);
}

static const struct profile_location *leaf_of(const struct profile *profile, size_t sample)
{
	uint32_t stack = profile->samples.items[sample].stack;

	return &profile->locations.items[*profile_stack_locations(profile, stack)];
}

static size_t depth_of(const struct profile *profile, size_t sample)
{
	return profile->stacks.items[profile->samples.items[sample].stack].count;
}

static void samples_are_preserved(void **state)
{
	struct profile *profile = write_and_read(state, example_profile());
	const struct profile_sample *sample = &profile->samples.items[2];
	const uint32_t *labels = profile_set_labels(profile, sample->label_set);
	const struct profile_location *leaf = leaf_of(profile, 2);
	const struct profile_line *lines = profile_lines(profile, leaf);

	assert_int_equal(profile->samples.count, 5);
	assert_int_equal(profile_values(profile, 2)[0], 2);
	assert_int_equal(profile_values(profile, 2)[1], 20 * MS);
	assert_int_equal(depth_of(profile, 2), 2);
	assert_int_equal(leaf->address, 0x400304);
	assert_int_equal(leaf->line_count, 2);
	assert_int_equal(lines[0].line, 7);
	assert_text(profile, profile->functions.items[lines[0].function].name, "inner");
	assert_text(profile, profile->functions.items[lines[0].function].file, "/src/app.h");
	assert_text(profile, profile->functions.items[lines[1].function].name, "outer");
	assert_int_equal(profile->label_sets.items[sample->label_set].count, 2);
	assert_text(profile, profile->labels.items[labels[0]].key, "comm");
	assert_text(profile, profile->labels.items[labels[0]].text, "app");
	assert_int_equal(profile->labels.items[labels[1]].number, 1234);
	assert_text(profile, profile->labels.items[labels[1]].unit, "id");
	profile_free(profile);
}

/* What stackbeat itself does not write. */
static void fields_of_other_profilers_are_preserved(void **state)
{
	struct profile *built = profile_new(), *profile;
	struct profile_line line;
	uint32_t location;

	profile_add_type(built, "alloc", "bytes");
	line = (struct profile_line){5, 77, example_function(built, "f", "f.c")};
	location = profile_location(built, 0, 1, &line, 1);
	built->locations.items[location].is_folded = true;
	profile_add(built, profile_stack(built, &location, 1), 0, &(int64_t){-3});
	profile = write_and_read(state, built);
	assert_int_equal(profile->types.count, 1);
	assert_int_equal(profile->period_type.type, 0);
	assert_int_equal(profile_values(profile, 0)[0], -3);
	assert_true(leaf_of(profile, 0)->is_folded);
	assert_int_equal(profile_lines(profile, leaf_of(profile, 0))->column, 77);
	profile_free(profile);
}

/* Expands gzipped bytes; the caller frees them. */
static void *expand(const void *bytes, size_t size, size_t limit, size_t *expanded_size,
		    struct error *error)
{
	struct gzip_reader *reader = gzip_reader_new(bytes, size, limit, "FILE");
	char *expanded = malloc(1 << 24);
	ssize_t got = 1;

	for (*expanded_size = 0; got > 0; *expanded_size += (size_t)got)
		got = gzip_read(reader, expanded + *expanded_size, 1000, error);
	gzip_reader_free(reader);
	if (!got)
		return expanded;
	free(expanded);
	return NULL;
}

/* The file as a message, to be freed with protobuf: the reader has other ids. */
static Perftools__Profiles__Profile *write_and_unpack(void **state, struct profile *built)
{
	char *path = scratch_file(state, "profile");
	Perftools__Profiles__Profile *message;
	unsigned char bytes[1 << 16];
	size_t size;
	void *plain;
	int fd;

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	fd = open(path, O_RDONLY);
	size = read(fd, bytes, sizeof(bytes));
	close(fd);
	assert_int_equal(bytes[0], 0x1f);
	plain = expand(bytes, size, 1 << 20, &size, NULL);
	message = perftools__profiles__profile__unpack(NULL, size, plain);
	assert_non_null(message);
	profile_free(built);
	free(plain);
	free(path);
	return message;
}

static void ids_have_no_gaps(void **state)
{
	Perftools__Profiles__Profile *message = write_and_unpack(state, example_profile());
	size_t i;

	assert_int_equal(message->n_mapping, 3);
	assert_int_equal(message->n_location, 9);
	assert_int_equal(message->n_function, 7);
	for (i = 0; i < message->n_mapping; i++)
		assert_int_equal(message->mapping[i]->id, i + 1);
	for (i = 0; i < message->n_location; i++)
		assert_int_equal(message->location[i]->id, i + 1);
	for (i = 0; i < message->n_function; i++)
		assert_int_equal(message->function[i]->id, i + 1);
	perftools__profiles__profile__free_unpacked(message, NULL);
}

static void invalid_utf8_is_replaced(void **state)
{
	static const struct {
		const char *given, *expected;
	} texts[] = {
		{"plain", "plain"},
		{"\xc3\xbc", "\xc3\xbc"},
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
		{"\xc3", "\xef\xbf\xbd"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};
	struct profile *built = empty_profile(), *profile;
	uint32_t strings[7];
	size_t i;

	for (i = 0; i < 7; i++)
		strings[i] = profile_string(built, texts[i].given);
	profile = write_and_read(state, built);
	for (i = 0; i < 7; i++)
		assert_text(profile, strings[i], texts[i].expected);
	profile_free(profile);
}

static void has_functions_only_if_all_are_symbolized(void **state)
{
	static const char *const files[] = {"resolved", "half", "unused", "no lines", "elided"};
	enum { FILES = sizeof(files) / sizeof(files[0]) };
	struct profile *built = empty_profile();
	const struct profile_line line = {.line = 5,
					  .function = example_function(built, "f", "f.c")};
	const struct profile_line bare = {.function = example_function(built, "g", NULL)};
	Perftools__Profiles__Profile *message;
	uint32_t ids[FILES], elided;
	size_t i;

	for (i = 0; i < FILES; i++)
		ids[i] = example_mapping(built, 0, 1, 0, files[i], NULL);
	profile_location(built, ids[0], 1, &line, 1);
	profile_location(built, ids[0], 2, &line, 1);
	profile_location(built, ids[1], 1, &line, 1);
	profile_location(built, ids[1], 2, NULL, 0);
	profile_location(built, ids[3], 1, &line, 1);
	profile_location(built, ids[3], 2, &bare, 1);
	profile_location(built, ids[4], 1, &line, 1);
	elided = profile_location(built, ids[4], 2, NULL, 0);
	built->locations.items[elided].elided = true;
	message = write_and_unpack(state, built);
	for (i = 0; i < FILES; i++) {
		const Perftools__Profiles__Mapping *mapping = message->mapping[i];

		assert_int_equal(mapping->has_functions, i == 0 || i == 3 || i == 4);
		assert_int_equal(mapping->has_filenames, i == 0 || i == 4);
		assert_int_equal(mapping->has_line_numbers, i == 0 || i == 4);
		assert_false(mapping->has_inline_frames);
	}
	perftools__profiles__profile__free_unpacked(message, NULL);
}

static struct profile *large_profile(void)
{
	struct profile *built = empty_profile();
	uint32_t stack[LARGE_DEPTH];

	for (int64_t i = 0; i < LARGE_STACKS; i++) {
		uint32_t label = example_number(built, "number", i, NULL);

		for (int64_t j = 0; j < LARGE_DEPTH; j++)
			stack[j] =
				profile_location(built, 0, (uint64_t)(i * 7 % 5000 + j), NULL, 0);
		/* Stacks repeat; labels distinguish the samples. */
		example_add(built, stack, LARGE_DEPTH, 1, i, &label, 1);
	}
	return built;
}

static void large_profiles_are_preserved(void **state)
{
	struct profile *profile = write_and_read(state, large_profile());

	assert_int_equal(profile->samples.count, LARGE_STACKS);
	assert_int_equal(profile->locations.count, 1 + 5000 + LARGE_DEPTH - 1);
	assert_int_equal(profile_values(profile, 99)[1], 99);
	profile_free(profile);
}

/* gcc does not install sanitizer/allocator_interface.h. */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
					      void (*free_hook)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *memory);

static size_t allocated, peak;

static void note_malloc(const volatile void *memory, size_t size)
{
	(void)memory;
	allocated += size;
	if (allocated > peak)
		peak = allocated;
}

static void note_free(const volatile void *memory)
{
	if (memory)
		allocated -= __sanitizer_get_allocated_size(memory);
}

/* Reads a profile, and returns the most memory in use meanwhile. */
static size_t peak_of_reading(const void *bytes, size_t size)
{
	size_t before = allocated;
	struct profile *profile;

	peak = allocated;
	profile = pprof_decode(bytes, size, "FILE", NULL);
	assert_non_null(profile);
	profile_free(profile);
	assert_int_equal(allocated, before);
	return peak - before;
}

static void *expanded_file(const char *path, size_t *size)
{
	unsigned char bytes[1 << 16];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(fd, bytes, sizeof(bytes));
	void *expanded;

	close(fd);
	assert_in_range(length, 1, sizeof(bytes) - 1);
	expanded = expand(bytes, (size_t)length, 1 << 20, size, NULL);
	assert_non_null(expanded);
	return expanded;
}

static void fast_files_have_the_same_contents(void **state)
{
	char *paths[] = {scratch_file(state, "profile"), scratch_file(state, "fast"),
			 scratch_file(state, "fast-fd"), scratch_file(state, "plain")};
	struct profile *built = example_profile();
	uint64_t sizes[2];
	size_t size[4];
	void *bytes[4];
	int fd = open(paths[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int plain = open(paths[3], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && plain >= 0);
	assert_int_equal(pprof_write_fd_plain(built, plain, "plain", NULL), 0);
	assert_int_equal(pprof_write(built, paths[0], &sizes[0], NULL), 0);
	assert_int_equal(pprof_write_fast(built, paths[1], &sizes[1], NULL), 0);
	assert_int_equal(pprof_write_fd_fast(built, fd, "fast", NULL), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), sizes[1]);
	close(fd);
	assert_true(sizes[0] < sizes[1]);
	for (size_t i = 0; i < 4; i++)
		bytes[i] = expanded_file(paths[i], &size[i]);
	assert_int_equal(lseek(plain, 0, SEEK_END), size[0]);
	close(plain);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(size[i], size[0]);
		assert_memory_equal(bytes[i], bytes[0], size[0]);
	}
	for (size_t i = 0; i < 4; i++) {
		free(bytes[i]);
		free(paths[i]);
	}
	profile_free(built);
}

/* Longer than the buffer of the writer. */
static void long_plain_file_is_read(void **state)
{
	char *path = scratch_file(state, "plain");
	struct profile *built = example_profile(), *profile;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	const size_t comments = built->comments.count;

	assert_true(fd >= 0);
	for (int i = 0; i < 300; i++)
		profile_comment(built, "%0900d", i);
	assert_int_equal(pprof_write_fd_plain(built, fd, "plain", NULL), 0);
	assert_true(lseek(fd, 0, SEEK_END) > 300 * 900);
	close(fd);
	profile = pprof_read(path, NULL);
	assert_non_null(profile);
	assert_int_equal(profile->comments.count, comments + 300);
	for (size_t i = comments; i < profile->comments.count; i++)
		assert_string_equal(profile_text(profile, profile->comments.items[i]),
				    profile_text(built, built->comments.items[i]));
	profile_free(profile);
	profile_free(built);
	free(path);
	/* A full disk is noticed. */
	built = example_profile();
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pprof_write_fd_plain(built, fd, "plain", NULL), -ENOSPC);
	close(fd);
	profile_free(built);
}

static void standard_input_is_read(void **state)
{
	char *path = scratch_file(state, "profile");
	struct profile *built = example_profile(), *profile;
	int input = dup(STDIN_FILENO), fd;

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	profile = pprof_read("-", NULL);
	assert_non_null(profile);
	assert_int_equal(profile->samples.count, built->samples.count);
	/* It stays open. */
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	if (input >= 0) {
		dup2(input, STDIN_FILENO);
		close(input);
	}
	profile_free(profile);
	profile_free(built);
	free(path);
}

/* Ctrl-C is for the program that writes the pipe, also if the reader blocks it, as `push` does. */
static void ctrl_c_while_a_pipe_is_read_is_not_pending(void **state)
{
	/* The pipe has no room for all of it: the read has begun when the signal is sent. */
	static const char script[] =
		"head -c 1000000 /dev/zero && kill -INT $PPID && head -c 1 /dev/zero";
	int input = dup(STDIN_FILENO), ends[2], status, pending;
	sigset_t blocked;
	pid_t writer;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	writer = fork();
	if (!writer) {
		dup2(ends[1], STDOUT_FILENO);
		execlp("sh", "sh", "-c", script, NULL);
		_exit(EXIT_FAILURE);
	}
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	close(ends[1]);
	assert_null(pprof_read("-", NULL));
	pending = sigtimedwait(&blocked, NULL, &(struct timespec){0});
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
	if (input >= 0) {
		dup2(input, STDIN_FILENO);
		close(input);
	}
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_int_equal(status, 0);
	assert_int_equal(pending, -1);
}

/* The count includes all that is allocated. */
static void bytes_of_a_profile_are_those_allocated(void **state)
{
	struct profile *profile;
	size_t before = allocated;

	(void)state;
	profile = large_profile();
	assert_int_equal(profile->error, 0);
	assert_int_equal(profile_bytes(profile), allocated - before);
	profile_free(profile);
	assert_int_equal(allocated, before);
}

/* Neither the expanded file nor its entries are in memory as a whole. */
static void memory_is_a_small_multiple_of_the_file(void **state)
{
	struct profile *built = large_profile();
	char *path = scratch_file(state, "profile");
	size_t size, plain_size, compressed;
	unsigned char *bytes;
	void *plain;
	FILE *file;

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	profile_free(built);
	file = fopen(path, "r");
	bytes = malloc(1 << 23);
	size = fread(bytes, 1, 1 << 23, file);
	fclose(file);
	plain = expand(bytes, size, PPROF_SIZE_MAX, &plain_size, NULL);
	assert_non_null(plain);
	assert_true(plain_size > 6000000);
	compressed = peak_of_reading(bytes, size);
	assert_in_range(compressed, 1, 3 * plain_size);
	assert_in_range(peak_of_reading(plain, plain_size), 1, 3 * plain_size);
	free(plain);
	free(bytes);
	free(path);
}

static void write_errors_leave_no_file(void **state)
{
	struct profile *built = example_profile();
	char *path = scratch_file(state, "missing/profile");
	struct error error;

	assert_int_equal(pprof_write(built, path, NULL, &error), -ENOENT);
	assert_int_equal(pprof_write(built, "/dev/full", NULL, &error), -ENOSPC);
	built->error = -ENOMEM;
	assert_int_equal(pprof_write(built, path, NULL, &error), -ENOMEM);
	assert_int_equal(scratch_count(state, 0), 0);
	profile_free(built);
	free(path);
}

/* A valid message for tests to damage. The fixture owns its parts. */
struct fixture {
	Perftools__Profiles__Profile message;
	Perftools__Profiles__ValueType type, *types[1];
	Perftools__Profiles__Sample sample, *samples[1];
	Perftools__Profiles__Label label, *labels[1];
	Perftools__Profiles__Mapping mappings[2], *mapping_table[2];
	Perftools__Profiles__Location locations[2], *location_table[2];
	Perftools__Profiles__Line line, *lines[1];
	Perftools__Profiles__Function functions[2], *function_table[2];
	char *strings[3];
	int64_t values[2], comments[1];
	uint64_t location_ids[1];
};

static void fixture_init(struct fixture *fixture)
{
	static char empty[] = "", cpu[] = "cpu", unit[] = "nanoseconds";
	size_t i;

	perftools__profiles__profile__init(&fixture->message);
	perftools__profiles__value_type__init(&fixture->type);
	perftools__profiles__sample__init(&fixture->sample);
	perftools__profiles__label__init(&fixture->label);
	perftools__profiles__line__init(&fixture->line);
	fixture->types[0] = &fixture->type;
	fixture->samples[0] = &fixture->sample;
	fixture->labels[0] = &fixture->label;
	fixture->lines[0] = &fixture->line;
	for (i = 0; i < 2; i++) {
		perftools__profiles__mapping__init(&fixture->mappings[i]);
		perftools__profiles__location__init(&fixture->locations[i]);
		perftools__profiles__function__init(&fixture->functions[i]);
		/* Ids may have gaps, and any order. */
		fixture->mappings[i].id = 9 - i;
		fixture->locations[i].id = 1000000 - i;
		fixture->functions[i].id = UINT64_MAX - i;
		fixture->functions[i].start_line = (int64_t)i;
		fixture->mapping_table[i] = &fixture->mappings[i];
		fixture->location_table[i] = &fixture->locations[i];
		fixture->function_table[i] = &fixture->functions[i];
	}
	fixture->strings[0] = empty;
	fixture->strings[1] = cpu;
	fixture->strings[2] = unit;
	fixture->type.type = 1;
	fixture->type.unit = 2;
	fixture->line.function_id = UINT64_MAX - 1;
	fixture->locations[1].mapping_id = 8;
	fixture->locations[1].line = fixture->lines;
	fixture->locations[1].n_line = 1;
	fixture->values[0] = 5;
	fixture->comments[0] = 1;
	fixture->location_ids[0] = 999999;
	fixture->sample.location_id = fixture->location_ids;
	fixture->sample.n_location_id = 1;
	fixture->sample.value = fixture->values;
	fixture->sample.n_value = 1;
	fixture->sample.label = fixture->labels;
	fixture->sample.n_label = 1;
	fixture->message.sample_type = fixture->types;
	fixture->message.n_sample_type = 1;
	fixture->message.sample = fixture->samples;
	fixture->message.n_sample = 1;
	fixture->message.mapping = fixture->mapping_table;
	fixture->message.n_mapping = 2;
	fixture->message.location = fixture->location_table;
	fixture->message.n_location = 2;
	fixture->message.function = fixture->function_table;
	fixture->message.n_function = 2;
	fixture->message.string_table = fixture->strings;
	fixture->message.n_string_table = 3;
	fixture->message.comment = fixture->comments;
	fixture->message.n_comment = 1;
}

static struct profile *fixture_decode(const struct fixture *fixture, struct error *error)
{
	uint8_t bytes[1024];
	size_t size = perftools__profiles__profile__get_packed_size(&fixture->message);

	assert_true(size <= sizeof(bytes));
	perftools__profiles__profile__pack(&fixture->message, bytes);
	return pprof_decode(bytes, size, "FILE", error);
}

static void ids_are_resolved(void **state)
{
	const struct profile_location *leaf;
	struct profile *profile;
	struct fixture fixture;
	struct error error;
	size_t type;

	(void)state;
	fixture_init(&fixture);
	profile = fixture_decode(&fixture, &error);
	assert_non_null(profile);
	assert_int_equal(profile->locations.count, 1 + 2);
	leaf = leaf_of(profile, 0);
	assert_int_equal(leaf->mapping, 2);
	assert_int_equal(leaf->line_count, 1);
	assert_int_equal(profile_lines(profile, leaf)->function, 2);
	assert_int_equal(profile->locations.items[1].mapping, 0);
	assert_int_equal(profile_find_type(profile, NULL, &type, NULL), 0);
	assert_int_equal(type, 0);
	profile_free(profile);
}

static void assert_refused(const struct fixture *fixture, const char *reason)
{
	char expected[256];
	struct error error = {""};

	assert_null(fixture_decode(fixture, &error));
	snprintf(expected, sizeof(expected), "FILE: not a pprof profile: %s", reason);
	assert_string_equal(error.text, expected);
}

/* Damages one part of a valid message. */
#define REFUSED(breakage, reason)                                                                  \
	do {                                                                                       \
		struct fixture fixture;                                                            \
                                                                                                   \
		fixture_init(&fixture);                                                            \
		fixture.breakage;                                                                  \
		assert_refused(&fixture, reason);                                                  \
	} while (0)

static void invalid_messages_are_refused(void **state)
{
	static char text[] = "x";

	(void)state;
	REFUSED(message.n_string_table = 0, "it has no string table");
	REFUSED(strings[0] = text, "its string 0 is not empty");
	REFUSED(message.n_sample_type = 0, "it has no sample type");
	REFUSED(type.unit = 3, "sample type 0 names no string");
	REFUSED(type.type = -1, "sample type 0 names no string");
	REFUSED(message.default_sample_type = 3, "its head names no string");
	REFUSED(message.drop_frames = INT64_MIN, "its head names no string");
	REFUSED(comments[0] = 3, "comment 0 names no string");
	REFUSED(mappings[1].build_id = 3, "mapping 2 names no string");
	REFUSED(mappings[0].filename = -1, "mapping 1 names no string");
	REFUSED(functions[1].name = 3, "function 2 names no string");
	REFUSED(functions[0].filename = INT64_MAX, "function 1 names no string");
	REFUSED(label.key = 3, "a label of sample 1 names no string");
	REFUSED(label.num_unit = 3, "a label of sample 1 names no string");
	REFUSED(mappings[0].id = 0, "a mapping has the reserved id 0");
	REFUSED(locations[1].id = 0, "a location has the reserved id 0");
	REFUSED(functions[1].id = 0, "a function has the reserved id 0");
	REFUSED(mappings[0].id = 8, "two mappings have the id 8");
	REFUSED(locations[0].id = 999999, "two locations have the id 999999");
	REFUSED(functions[0].id = UINT64_MAX - 1, "two functions have the id 18446744073709551614");
	REFUSED(locations[1].mapping_id = 7, "location 2 has a mapping that is not there");
	REFUSED(line.function_id = 1, "location 2 has a function that is not there");
	REFUSED(line.function_id = 0, "location 2 has a function that is not there");
	REFUSED(location_ids[0] = 1, "sample 1 has a location that is not there");
	REFUSED(location_ids[0] = 0, "sample 1 has a location that is not there");
	REFUSED(sample.n_value = 0, "sample 1 has 0 values for 1 sample types");
	REFUSED(sample.n_value = 2, "sample 1 has 2 values for 1 sample types");
}

static void sample_types_are_found(void **state)
{
	struct profile *profile = write_and_read(state, example_profile());
	struct error error;
	size_t index;

	assert_int_equal(profile_find_type(profile, NULL, &index, &error), 0);
	assert_int_equal(index, 1);
	assert_int_equal(profile_find_type(profile, "samples", &index, &error), 0);
	assert_int_equal(index, 0);
	assert_int_equal(profile_find_type(profile, "heap", &index, &error), -EINVAL);
	assert_string_equal(error.text,
			    "no sample type 'heap' in the profile: it has samples, cpu");
	profile_free(profile);
}

/* Reads the example file, gzipped or plain, into bytes that the caller frees. */
static unsigned char *example_bytes(void **state, bool plain, size_t *size)
{
	struct profile *built = example_profile();
	char *path = scratch_file(state, "profile");
	unsigned char *bytes = malloc(1 << 16);
	void *expanded;
	int fd;

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	fd = open(path, O_RDONLY);
	*size = read(fd, bytes, 1 << 16);
	close(fd);
	profile_free(built);
	free(path);
	if (!plain)
		return bytes;
	expanded = expand(bytes, *size, 1 << 20, size, NULL);
	assert_non_null(expanded);
	free(bytes);
	return expanded;
}

static void assert_not_decoded(const void *bytes, size_t size, const char *expected)
{
	struct error error = {""};

	assert_null(pprof_decode(bytes, size, "FILE", &error));
	assert_string_equal(error.text, expected);
}

static void damaged_files_are_refused(void **state)
{
	unsigned char *bytes;
	size_t size;

	bytes = example_bytes(state, false, &size);
	assert_not_decoded(bytes, 0, "FILE: not a pprof profile: it is empty");
	assert_not_decoded("hello", 5,
			   "FILE: not a pprof profile: its bytes are no such message, or the "
			   "message is too large");
	assert_not_decoded(bytes, size - 1, "FILE: truncated: its gzip stream has no end");
	assert_not_decoded(bytes, 2, "FILE: truncated: its gzip stream has no end");
	bytes[size - 5] ^= 1;
	assert_not_decoded(bytes, size,
			   "FILE: damaged: its gzip stream is broken (incorrect data check)");
	free(bytes);
}

/* What is wrong with a string costs a part of it, not the profile. */
static void bad_strings_are_read(void **state)
{
	static char latin[] = "\xfcx", name[] = "a!b!";
	struct profile *profile;
	struct fixture fixture;
	uint8_t bytes[1024], *at;
	struct error error;
	size_t size;

	(void)state;
	fixture_init(&fixture);
	fixture.strings[1] = latin;
	fixture.strings[2] = name;
	size = perftools__profiles__profile__get_packed_size(&fixture.message);
	assert_true(size <= sizeof(bytes));
	perftools__profiles__profile__pack(&fixture.message, bytes);
	at = memmem(bytes, size, name, strlen(name));
	assert_non_null(at);
	at[1] = at[3] = '\0';
	profile = pprof_decode(bytes, size, "FILE", &error);
	assert_non_null(profile);
	assert_string_equal(profile_text(profile, profile->types.items[0].type),
			    UTF8_REPLACEMENT "x");
	assert_string_equal(profile_text(profile, profile->types.items[0].unit), "a\\x00b\\x00");
	profile_free(profile);
}

static void assert_named(const void *bytes, size_t size, const char *what, const char *remedy)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "FILE: not a pprof profile but %s: %s", what, remedy);
	assert_not_decoded(bytes, size, expected);
}

static void other_files_are_named(void **state)
{
	static const char to_proto[] =
		"'go tool pprof -proto -output=NEW.pb.gz PROGRAM FILE' converts it";
	static const uint64_t wide[] = {0, 3, 0, 10000, 0, 1, 1, 0x401000, 0, 1, 0};
	static const uint32_t narrow[] = {0, 3, 0, 10000, 0, 1, 1, 0x401000, 0, 1, 0};
	static const char *const texts[][2] = {
		{"heap profile: 1: 2 [3: 4] @ heapprofile\n", "a heap profile"},
		{"--- heapz 1 ---\n", "a heap profile"},
		{"--- contentionz 1 ---\n", "a contention profile"},
		{"--- mutex:\ncycles/second=1\n", "a contention profile"},
		{"--- threadz 1 ---\n", "a thread profile"},
		{"goroutine profile: total 3\n", "a goroutine profile"},
		{"threadcreate profile: total 3\n", "a thread profile"},
	};
	char what[64];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		snprintf(what, sizeof(what), "%s of a legacy format", texts[i][1]);
		assert_named(texts[i][0], strlen(texts[i][0]), what, to_proto);
	}
	assert_named(wide, sizeof(wide), "a CPU profile of a legacy format", to_proto);
	assert_named(narrow, sizeof(narrow), "a CPU profile of a legacy format", to_proto);
	assert_named("goroutine 1 [running]:\n", 23, "a list of goroutines",
		     "get /debug/pprof/goroutine without ?debug=");
	assert_named("PERFILE2\x68\0\0\0\0\0\0", 16, "a perf.data of perf",
		     "'perf_to_profile -i FILE -o NEW.pb.gz' converts it");
	assert_named("\x7f"
		     "ELF\2\1\1",
		     7, "an ELF file",
		     "'stackbeat record -o NEW.pb.gz PROGRAM' records what it does");
	assert_named("<?xml version=\"1.0\"?>\n<svg>", 28, "an XML file, such as an SVG",
		     "'stackbeat flamegraph' makes one of a profile, which it needs");
	assert_named("<svg width=\"1\">", 15, "an SVG file",
		     "'stackbeat flamegraph' makes one of a profile, which it needs");
}

static void plain_and_split_files_are_read(void **state)
{
	struct profile *profile;
	unsigned char *bytes, *twice;
	size_t size;

	bytes = example_bytes(state, true, &size);
	profile = pprof_decode(bytes, size, "FILE", NULL);
	assert_non_null(profile);
	profile_free(profile);
	free(bytes);

	/* Concatenated gzip streams are one file, and concatenated messages one message. */
	bytes = example_bytes(state, false, &size);
	twice = malloc(2 * size);
	assert_non_null(twice);
	memcpy(twice, bytes, size);
	memcpy(twice + size, bytes, size);
	assert_not_decoded(twice, 2 * size,
			   "FILE: not a pprof profile: two mappings have the id 1");
	free(twice);
	free(bytes);
}

static void expansion_is_limited(void **state)
{
	static unsigned char zeros[1 << 20], packed[1 << 16];
	z_stream stream = {.next_in = zeros,
			   .avail_in = sizeof(zeros),
			   .next_out = packed,
			   .avail_out = sizeof(packed)};
	struct error error;
	size_t size, expanded_size;
	void *plain;

	(void)state;
	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	size = sizeof(packed) - stream.avail_out;
	assert_null(expand(packed, size, (1 << 20) - 1, &expanded_size, &error));
	assert_string_equal(error.text, "FILE: larger than 0 MiB when expanded");
	plain = expand(packed, size, 1 << 20, &expanded_size, &error);
	assert_non_null(plain);
	assert_int_equal(expanded_size, 1 << 20);
	free(plain);
}

static uint32_t random_next(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return state >> 33;
}

/* Mutations must be decoded to valid profiles or refused with a message, under sanitizers. */
static void survives_mutations(void **state)
{
	unsigned char *original[2], *bytes;
	struct profile *profile;
	struct error error;
	size_t size[2], length, i, j, decoded = 0, refused = 0;

	original[0] = example_bytes(state, false, &size[0]);
	original[1] = example_bytes(state, true, &size[1]);
	for (i = 0; i < MUTATIONS; i++) {
		length = random_next() % 4 ? size[i % 2] : 1 + random_next() % size[i % 2];
		/* An allocation of the exact size, so that ASan finds a read beyond it. */
		bytes = malloc(length);
		memcpy(bytes, original[i % 2], length);
		for (j = random_next() % 8; j > 0; j--)
			bytes[random_next() % length] = random_next();
		error.text[0] = '\0';
		profile = pprof_decode(bytes, length, "FILE", &error);
		assert_int_equal(!profile, !!error.text[0]);
		decoded += !!profile;
		refused += !profile;
		profile_free(profile);
		free(bytes);
	}
	assert_true(decoded > MUTATIONS / 20);
	assert_true(refused > MUTATIONS / 20);
	free(original[0]);
	free(original[1]);
}

static void unreadable_files(void **state)
{
	const struct scratch *scratch = *state;
	struct error error;
	char expected[128];

	assert_null(pprof_read("/nonexistent", &error));
	assert_string_equal(error.text, "/nonexistent: No such file or directory");
	assert_null(pprof_read(scratch->path, &error));
	snprintf(expected, sizeof(expected), "%s: Is a directory", scratch->path);
	assert_string_equal(error.text, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(head_is_preserved),
		SCRATCH_TEST(samples_are_preserved),
		SCRATCH_TEST(ids_have_no_gaps),
		SCRATCH_TEST(fields_of_other_profilers_are_preserved),
		SCRATCH_TEST(invalid_utf8_is_replaced),
		SCRATCH_TEST(has_functions_only_if_all_are_symbolized),
		SCRATCH_TEST(large_profiles_are_preserved),
		SCRATCH_TEST(bytes_of_a_profile_are_those_allocated),
		SCRATCH_TEST(fast_files_have_the_same_contents),
		SCRATCH_TEST(long_plain_file_is_read),
		SCRATCH_TEST(standard_input_is_read),
		cmocka_unit_test(ctrl_c_while_a_pipe_is_read_is_not_pending),
		SCRATCH_TEST(memory_is_a_small_multiple_of_the_file),
		SCRATCH_TEST(write_errors_leave_no_file),
		cmocka_unit_test(ids_are_resolved),
		cmocka_unit_test(invalid_messages_are_refused),
		SCRATCH_TEST(sample_types_are_found),
		SCRATCH_TEST(damaged_files_are_refused),
		cmocka_unit_test(bad_strings_are_read),
		cmocka_unit_test(other_files_are_named),
		SCRATCH_TEST(plain_and_split_files_are_read),
		cmocka_unit_test(expansion_is_limited),
		SCRATCH_TEST(survives_mutations),
		SCRATCH_TEST(unreadable_files),
	};

	__sanitizer_install_malloc_and_free_hooks(note_malloc, note_free);
	return cmocka_run_group_tests_name("pprof", tests, NULL, NULL);
}
