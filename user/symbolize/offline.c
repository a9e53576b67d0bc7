// SPDX-License-Identifier: GPL-2.0
#include "symbolize/offline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/demangle.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/string_table.h"
#include "pprof/pprof_writer.h"
#include "symbolize/find_binary.h"
#include "symbolize/normalize.h"
#include "symbolize/worker_pool.h"

typedef Perftools__Profiles__Profile Message;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Function Function;
typedef Perftools__Profiles__Line Line;

/* What was found for a location. */
struct names {
	struct source_line *lines;
	size_t count;
};

/* The locations of a mapping that have no name. */
struct group {
	struct run *run;
	const Mapping *mapping;
	const char *path, *build_id;
	size_t *locations; /* indices */
	uint64_t *addresses; /* as the namer is asked */
	size_t count, capacity;
	struct group *twin; /* the first of files of which the same is told; NULL: there is one */
	bool told; /* that it has twins */
};

struct run {
	const struct offline_symbolizer *renaming;
	struct pprof_profile *profile;
	Message *message;
	size_t mapping_count, location_count; /* of the message as it was */
	struct group *groups; /* of each mapping */
	struct names *names; /* of each location */
	bool *hidden; /* each location: not to be shown */
	struct worker_job *jobs;
	size_t *job_groups;
	size_t job_count;
	struct string_table texts;
	/* The tables of the message, so that nothing comes in twice. */
	struct hash strings, functions;
	size_t string_capacity, function_capacity;
};

static void report_problem(const struct run *run, const char *path, const char *text)
{
	const struct symbolize_options *options = &run->renaming->options;

	if (options->problem)
		options->problem(options->arg, path, text);
}

/* Which locations there are to name */

static bool is_kernel(const struct group *group)
{
	const struct run *run = group->run;

	return group->count > 0 &&
	       kernel_has_mapping(group->path,
				  run->message->location[group->locations[0]]->address);
}

static bool is_module(const struct group *group)
{
	return is_kernel(group) && strcmp(group->path, KERNEL_MAPPING) != 0;
}

static bool is_file(const struct group *group)
{
	return *group->path == '/' || strcmp(group->path, "[vdso]") == 0 ||
	       (*group->path && *group->path != '[');
}

static bool is_twin(const void *context, uint32_t index, const void *key)
{
	const struct group *a = &((const struct run *)context)->groups[index], *b = key;

	return strcmp(a->path, b->path) == 0 && strcmp(a->build_id, b->build_id) == 0 &&
	       a->mapping->memory_start == b->mapping->memory_start &&
	       a->mapping->memory_limit == b->mapping->memory_limit &&
	       a->mapping->file_offset == b->mapping->file_offset;
}

/* Of files with the same path and no build id, it can't be said which of them is at hand. */
static int find_twins(struct run *run)
{
	struct hash paths = {0};
	int err = 0;

	for (size_t i = 0; i < run->mapping_count && !err; i++) {
		struct group *group = &run->groups[i];
		uint32_t hash = hash_string(HASH_START, group->path), twin;

		if (*group->build_id)
			continue;
		twin = hash_find(&paths, hash, is_twin, run, group);
		if (twin == HASH_NONE) {
			err = hash_add(&paths, hash, (uint32_t)i);
		} else {
			run->groups[twin].twin = &run->groups[twin];
			group->twin = &run->groups[twin];
		}
	}
	hash_clear(&paths);
	return err;
}

static int collect(struct run *run)
{
	for (size_t i = 0; i < run->message->n_location; i++) {
		const Location *location = run->message->location[i];
		struct group *group;

		if (location->n_line || !location->mapping_id || !location->address)
			continue;
		group = &run->groups[location->mapping_id - 1];
		if (array_reserve(&group->locations, &group->capacity, group->count, 1,
				  sizeof(*group->locations)) != 0)
			return -ENOMEM;
		group->locations[group->count++] = i;
	}
	return 0;
}

/* Files */

static int open_file(void *arg, struct error *error)
{
	const struct group *group = arg;
	struct error why;
	int fd = binary_finder_open(group->run->renaming->search, group->path, group->build_id,
				    &why);

	/* Its debug file may be there all the same. */
	if (fd < 0)
		error_set(error, ENOENT, "%s", why.text);
	return fd;
}

static int open_kernel(void *arg, struct error *error)
{
	const struct group *group = arg;
	char release[NORMALIZE_RELEASE_SIZE];

	(void)error;
	if (!normalize_release(group->run->profile, release))
		return -ENOENT;
	return is_module(group) ? kernel_open_module("", release, group->path)
				: kernel_open_vmlinux("", release);
}

/* Addresses that are those of the file, or offsets in it, where a mapping tells that. */
static void set_addresses(struct group *group, struct worker_job *job)
{
	const Mapping *mapping = group->mapping;

	job->offsets = mapping->memory_start && !is_kernel(group);
	for (size_t i = 0; i < group->count; i++) {
		uint64_t address = group->run->message->location[group->locations[i]]->address;

		if (job->offsets)
			address = address - mapping->memory_start + mapping->file_offset;
		group->addresses[i] = address;
	}
}

static int add_job(struct run *run, struct group *group, int (*open)(void *, struct error *),
		   uint64_t code_start)
{
	struct worker_job job = {
		.path = group->path,
		.build_id = group->build_id,
		.count = group->count,
		.open = open,
		.arg = group,
		.code_start = code_start,
		.is_module = is_module(group),
	};

	group->addresses = calloc(group->count, sizeof(*group->addresses));
	if (!group->addresses)
		return -ENOMEM;
	set_addresses(group, &job);
	job.addresses = group->addresses;
	run->job_groups[run->job_count] = (size_t)(group - run->groups);
	run->jobs[run->job_count++] = job;
	return 0;
}

/* What is found */

static int take_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		     size_t count)
{
	struct run *run = arg;
	const struct group *group = &run->groups[run->job_groups[job]];
	size_t location = group->locations[index];
	struct names *names = &run->names[location];
	struct source_line *copy;

	run->hidden[location] = count == 0;
	if (count == 0 || !lines[count - 1].system_name)
		return 0;
	copy = source_lines_copy(lines, count);
	if (!copy)
		return -ENOMEM;
	free(names->lines);
	names->lines = copy;
	names->count = count;
	return 0;
}

/* The kernel */

/* Where the profile says that the kernel lay; 0: it does not. */
static uint64_t kernel_start(const struct run *run)
{
	for (size_t i = 0; i < run->mapping_count; i++) {
		if (strcmp(run->groups[i].path, KERNEL_MAPPING) == 0)
			return run->groups[i].mapping->memory_start;
	}
	return 0;
}

/*
 * How much further functions lie in the kernel that is at hand. What is wrong with it is
 * said, once for a mapping.
 */
static bool find_shift(const struct run *run, const struct group *group, uint64_t *shift)
{
	const struct offline_symbolizer *renaming = run->renaming;
	const struct kernel_mapping *part = kernel_mapping_by_name(renaming->kernel, group->path);
	const struct kernel_mapping *kernel =
		kernel_mapping_by_name(renaming->kernel, KERNEL_MAPPING);
	const uint64_t start = group->mapping->memory_start;
	const char *why = NULL;

	*shift = 0;
	if (part && *part->build_id && *group->build_id &&
	    strcmp(part->build_id, group->build_id) != 0)
		why = "is of another build than what is at hand";
	else if (!start)
		why = "has no names: the profile does not tell where it lay";
	else if (!kernel->start)
		why = "has no names: the kernel hides where it lies";
	else if (part)
		*shift = part->start - start;
	else if (kernel_knows_modules(renaming->kernel))
		why = "is not among the modules at hand";
	else if (kernel->start != kernel_start(run))
		why = "has no names: it is not known where it lies";
	if (why)
		report_problem(run, group->path, why);
	return !why;
}

/* Whether a mapping is that of a module (NULL: of none). What is said of generated code is let be.
 */
static bool is_of_module(const struct group *group, const char *module)
{
	size_t length = strlen(group->path) - 2;

	return strcmp(group->path, KERNEL_MAPPING) == 0 ||
	       (module && strlen(module) == length && !strncmp(group->path + 1, module, length));
}

static int name_by_kallsyms(struct run *run, const struct group *group, uint64_t shift)
{
	for (size_t i = 0; i < group->count; i++) {
		struct names *names = &run->names[group->locations[i]];
		struct source_line line = {0};
		char demangled[DEMANGLED_MAX];
		const char *name, *module;
		uint32_t text;

		if (!kallsyms_lookup(run->renaming->kallsyms,
				     run->message->location[group->locations[i]]->address + shift,
				     &name, &line.start, &module) ||
		    !is_of_module(group, module))
			continue;
		line.system_name = name;
		line.function = name;
		if (demangle(name, demangled)) {
			text = string_table_add(&run->texts, demangled, strlen(demangled));
			if (text == STRING_NONE)
				return -ENOMEM;
			line.function = run->texts.items[text];
		}
		names->lines = malloc(sizeof(line));
		if (!names->lines)
			return -ENOMEM;
		*names->lines = line;
		names->count = 1;
	}
	return 0;
}

static int name_kernel(struct run *run, struct group *group)
{
	uint64_t shift;
	int err = 0;

	if (run->renaming->kallsyms && find_shift(run, group, &shift))
		err = name_by_kallsyms(run, group, shift);
	if (err || !*group->build_id || !group->mapping->memory_start)
		return err;
	return add_job(run, group, open_kernel, group->mapping->memory_start);
}

static int name_file(struct run *run, struct group *group)
{
	if (!group->twin)
		return add_job(run, group, open_file, 0);
	if (!group->twin->told)
		report_problem(run, group->path,
			       "is not named: it was several files, none with a build id");
	group->twin->told = true;
	return 0;
}

static int name_all(struct run *run)
{
	const struct worker_pool pool = {
		.options = run->renaming->options,
		.lines = take_name,
		.arg = run,
	};
	struct error error;
	int err = 0;

	for (size_t i = 0; i < run->message->n_mapping && !err; i++) {
		struct group *group = &run->groups[i];

		if (!group->count)
			continue;
		if (is_kernel(group))
			err = name_kernel(run, group);
		else if (is_file(group))
			err = name_file(run, group);
	}
	if (!err)
		err = worker_pool_run(&pool, run->jobs, run->job_count, &run->texts);
	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	report_problem(run, "debug information", error.text);
	return 0;
}

/* Into the profile */

static bool is_string(const void *context, uint32_t index, const void *key)
{
	return !strcmp(((const Message *)context)->string_table[index], key);
}

static int file_strings(struct run *run)
{
	const Message *message = run->message;
	int err = 0;

	for (size_t i = 0; i < message->n_string_table && !err; i++)
		err = hash_add(&run->strings, hash_string(HASH_START, message->string_table[i]), i);
	return err;
}

/* Puts the index of a text into *index. */
static int add_string(struct run *run, const char *text, int64_t *index)
{
	Message *message = run->message;
	uint32_t hash, found;
	char *copy;

	*index = 0;
	if (!text || !*text)
		return 0;
	copy = pprof_copy_text(text);
	if (!copy)
		return -ENOMEM;
	hash = hash_string(HASH_START, copy);
	found = hash_find(&run->strings, hash, is_string, message, copy);
	if (found != HASH_NONE) {
		free(copy);
		*index = found;
		return 0;
	}
	if (message->n_string_table >= HASH_NONE - 1 ||
	    array_reserve(&message->string_table, &run->string_capacity, message->n_string_table, 1,
			  sizeof(*message->string_table)) != 0 ||
	    hash_add(&run->strings, hash, message->n_string_table) != 0) {
		free(copy);
		return -ENOMEM;
	}
	*index = (int64_t)message->n_string_table;
	message->string_table[message->n_string_table++] = copy;
	return 0;
}

static uint32_t function_hash(const Function *function)
{
	uint32_t hash = hash_number(HASH_START, (uint64_t)function->name);

	hash = hash_number(hash, (uint64_t)function->system_name);
	hash = hash_number(hash, (uint64_t)function->filename);
	return hash_number(hash, (uint64_t)function->start_line);
}

static bool is_function(const void *context, uint32_t index, const void *key)
{
	const Function *a = ((const Message *)context)->function[index], *b = key;

	return a->name == b->name && a->system_name == b->system_name &&
	       a->filename == b->filename && a->start_line == b->start_line;
}

static int file_functions(struct run *run)
{
	const Message *message = run->message;
	int err = 0;

	for (size_t i = 0; i < message->n_function && !err; i++)
		err = hash_add(&run->functions, function_hash(message->function[i]), i);
	return err;
}

/* Puts the id of the function of a line into *id. */
static int add_function(struct run *run, const struct source_line *line, uint64_t *id)
{
	Message *message = run->message;
	Function key = PERFTOOLS__PROFILES__FUNCTION__INIT, *function;
	uint32_t hash, found;

	if (add_string(run, line->function, &key.name) ||
	    add_string(run, line->system_name, &key.system_name) ||
	    add_string(run, line->file, &key.filename))
		return -ENOMEM;
	key.start_line = line->start_line;
	hash = function_hash(&key);
	found = hash_find(&run->functions, hash, is_function, message, &key);
	if (found != HASH_NONE) {
		*id = found + UINT64_C(1);
		return 0;
	}
	function = malloc(sizeof(*function));
	if (!function || message->n_function >= HASH_NONE - 1 ||
	    array_reserve(&message->function, &run->function_capacity, message->n_function, 1,
			  sizeof(Function *)) != 0 ||
	    hash_add(&run->functions, hash, message->n_function) != 0) {
		free(function);
		return -ENOMEM;
	}
	*function = key;
	function->id = message->n_function + 1;
	message->function[message->n_function++] = function;
	*id = function->id;
	return 0;
}

static int set_lines(struct run *run, Location *location, const struct names *names)
{
	free(location->line);
	location->line = calloc(names->count, sizeof(Line *));
	if (!location->line)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++) {
		Line *line = malloc(sizeof(*line));

		if (!line)
			return -ENOMEM;
		perftools__profiles__line__init(line);
		location->line[location->n_line++] = line;
		line->line = names->lines[i].line;
		if (add_function(run, &names->lines[i], &line->function_id) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* What a mapping says of all its locations, where that has changed. */
static void set_details(struct run *run)
{
	const Message *message = run->message;

	for (size_t i = 0; i < message->n_mapping; i++) {
		Mapping *mapping = message->mapping[i];

		if (run->groups[i].count) {
			mapping->has_functions = true;
			mapping->has_filenames = true;
			mapping->has_line_numbers = true;
		}
	}
	for (size_t i = 0; i < message->n_location; i++) {
		const Location *location = message->location[i];
		Mapping *mapping;

		if (!location->mapping_id || run->hidden[i])
			continue;
		mapping = message->mapping[location->mapping_id - 1];
		mapping->has_functions &= location->n_line > 0;
		mapping->has_inline_frames |= location->n_line > 1;
		for (size_t j = 0; j < location->n_line; j++) {
			const Line *line = location->line[j];

			mapping->has_filenames &=
				message->function[line->function_id - 1]->filename != 0;
			mapping->has_line_numbers &= line->line != 0;
		}
	}
	for (size_t i = 0; i < message->n_mapping; i++) {
		Mapping *mapping = message->mapping[i];

		mapping->has_filenames &= mapping->has_functions;
		mapping->has_line_numbers &= mapping->has_functions;
		mapping->has_inline_frames &= mapping->has_functions;
	}
}

static int apply(struct run *run, struct offline_counts *counts)
{
	const struct offline_symbolizer *renaming = run->renaming;
	int err = 0;

	for (size_t i = 0; i < run->message->n_mapping && !err; i++) {
		const struct group *group = &run->groups[i];
		size_t named = 0;

		for (size_t j = 0; j < group->count && !err; j++) {
			size_t location = group->locations[j];

			named += run->names[location].count || run->hidden[location];
			if (run->names[location].count)
				err = set_lines(run, run->message->location[location],
						&run->names[location]);
		}
		counts->nameless += group->count;
		counts->named += named;
		if (named < group->count)
			renaming->missing(renaming->options.arg, group->path, group->build_id,
					  group->count - named);
	}
	if (!err)
		set_details(run);
	return err;
}

/* The run */

static int prepare(struct run *run)
{
	Message *message = run->message;

	run->groups = calloc(message->n_mapping + 1, sizeof(*run->groups));
	run->jobs = calloc(message->n_mapping + 1, sizeof(*run->jobs));
	run->job_groups = calloc(message->n_mapping + 1, sizeof(*run->job_groups));
	run->names = calloc(message->n_location + 1, sizeof(*run->names));
	run->hidden = calloc(message->n_location + 1, sizeof(*run->hidden));
	if (!run->groups || !run->jobs || !run->job_groups || !run->names || !run->hidden)
		return -ENOMEM;
	run->mapping_count = message->n_mapping;
	run->location_count = message->n_location;
	run->string_capacity = message->n_string_table;
	run->function_capacity = message->n_function;
	for (size_t i = 0; i < message->n_mapping; i++) {
		const Mapping *mapping = message->mapping[i];

		run->groups[i].run = run;
		run->groups[i].mapping = mapping;
		run->groups[i].path = pprof_text(run->profile, mapping->filename);
		run->groups[i].build_id = pprof_text(run->profile, mapping->build_id);
	}
	if (find_twins(run) || file_strings(run) || file_functions(run))
		return -ENOMEM;
	return collect(run);
}

static void clear(struct run *run)
{
	for (size_t i = 0; run->groups && i < run->mapping_count; i++) {
		free(run->groups[i].locations);
		free(run->groups[i].addresses);
	}
	for (size_t i = 0; run->names && i < run->location_count; i++)
		free(run->names[i].lines);
	free(run->groups);
	free(run->names);
	free(run->hidden);
	free(run->jobs);
	free(run->job_groups);
	string_table_clear(&run->texts);
	hash_clear(&run->strings);
	hash_clear(&run->functions);
}

int offline_symbolize(const struct offline_symbolizer *renaming, struct pprof_profile *profile,
		      struct offline_counts *counts, struct error *error)
{
	struct run run = {.renaming = renaming, .profile = profile, .message = profile->message};
	int err = prepare(&run);

	*counts = (struct offline_counts){0};
	if (!err)
		err = name_all(&run);
	if (!err)
		err = apply(&run, counts);
	if (!err && normalize_is_own(profile))
		err = normalize_samples(profile, run.hidden);
	clear(&run);
	return err ? error_errno(error, -err, "can't name the profile") : 0;
}
