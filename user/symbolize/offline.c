// SPDX-License-Identifier: GPL-2.0
#include "symbolize/offline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/string_table.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "symbolize/demangle_names.h"
#include "symbolize/find_binary.h"
#include "symbolize/normalize.h"
#include "symbolize/worker_pool.h"

typedef Perftools__Profiles__Profile Message;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Function Function;
typedef Perftools__Profiles__Line Line;

/* The symbols found for a location. */
struct location_symbols {
	struct source_line *lines;
	size_t count;
};

/* The locations of a mapping that have no symbol. */
struct mapping_job {
	struct offline_run *run;
	const Mapping *mapping;
	const char *path, *build_id;
	size_t *locations; /* indices */
	uint64_t *addresses; /* of the worker job */
	size_t count, capacity;
	/* The first of several mappings without distinguishing data; NULL: it is unique. */
	struct mapping_job *ambiguous_with;
	bool reported; /* that it is ambiguous */
};

struct offline_run {
	const struct offline_symbolizer *symbolizer;
	struct pprof_profile *profile;
	Message *message;
	size_t mapping_count, location_count; /* of the original message */
	struct mapping_job *mapping_jobs; /* of each mapping */
	struct location_symbols *symbols; /* of each location */
	bool *elided; /* each location: not shown */
	struct worker_job *jobs;
	size_t *job_mappings; /* index of the mapping of each job */
	size_t job_count;
	struct string_table strings;
	/* Of the message, to add each string and function once. */
	struct hash string_index, function_index;
	size_t string_capacity, function_capacity;
};

static void report_problem(const struct offline_run *run, const char *path, const char *text)
{
	const struct symbolize_options *options = &run->symbolizer->options;

	if (options->problem)
		options->problem(options->arg, path, text);
}

/* Locations without symbols */

static bool is_kernel(const struct mapping_job *mapping_job)
{
	const struct offline_run *run = mapping_job->run;

	return mapping_job->count > 0 &&
	       is_kernel_mapping(mapping_job->path,
				 run->message->location[mapping_job->locations[0]]->address);
}

static bool is_module(const struct mapping_job *mapping_job)
{
	return is_kernel(mapping_job) && strcmp(mapping_job->path, KERNEL_MAPPING);
}

static bool is_file(const struct mapping_job *mapping_job)
{
	return *mapping_job->path == '/' || !strcmp(mapping_job->path, "[vdso]") ||
	       (*mapping_job->path && *mapping_job->path != '[');
}

static bool is_ambiguous(const void *context, uint32_t index, const void *key)
{
	const struct mapping_job *a = &((const struct offline_run *)context)->mapping_jobs[index],
				 *b = key;

	return !strcmp(a->path, b->path) && build_id_equal(a->build_id, b->build_id) &&
	       a->mapping->memory_start == b->mapping->memory_start &&
	       a->mapping->memory_limit == b->mapping->memory_limit &&
	       a->mapping->file_offset == b->mapping->file_offset;
}

/* Finds files with the same path and no build ID: the available one may be any of them. */
static int find_ambiguous(struct offline_run *run)
{
	struct hash paths = {0};
	int err = 0;

	for (size_t i = 0; i < run->mapping_count && !err; i++) {
		struct mapping_job *mapping_job = &run->mapping_jobs[i];
		uint32_t hash = hash_string(HASH_START, mapping_job->path), first;

		if (*mapping_job->build_id)
			continue;
		first = hash_find(&paths, hash, is_ambiguous, run, mapping_job);
		if (first == HASH_NONE) {
			err = hash_add(&paths, hash, (uint32_t)i);
		} else {
			run->mapping_jobs[first].ambiguous_with = &run->mapping_jobs[first];
			mapping_job->ambiguous_with = &run->mapping_jobs[first];
		}
	}
	hash_clear(&paths);
	return err;
}

static int collect_locations(struct offline_run *run)
{
	for (size_t i = 0; i < run->message->n_location; i++) {
		const Location *location = run->message->location[i];
		struct mapping_job *mapping_job;

		if (location->n_line || !location->mapping_id || !location->address)
			continue;
		mapping_job = &run->mapping_jobs[location->mapping_id - 1];
		if (array_reserve(&mapping_job->locations, &mapping_job->capacity,
				  mapping_job->count, 1, sizeof(*mapping_job->locations)))
			return -ENOMEM;
		mapping_job->locations[mapping_job->count++] = i;
	}
	return 0;
}

/* Files */

static int open_file(void *arg, unsigned int candidate, struct error *error)
{
	const struct mapping_job *mapping_job = arg;

	return binary_finder_open(mapping_job->run->symbolizer->search, mapping_job->path,
				  mapping_job->build_id, candidate, error);
}

static int open_kernel(void *arg, unsigned int candidate, struct error *error)
{
	const struct mapping_job *mapping_job = arg;
	char release[NORMALIZE_RELEASE_SIZE];

	(void)error;
	if (!normalize_release(mapping_job->run->profile, release))
		return -ENOENT;
	return is_module(mapping_job)
		       ? kernel_open_module("", release, mapping_job->path, candidate)
		       : kernel_open_vmlinux("", release, candidate);
}

/* Addresses are ELF virtual addresses, or file offsets if the mapping has a start address. */
static void set_addresses(struct mapping_job *mapping_job, struct worker_job *job)
{
	const Mapping *mapping = mapping_job->mapping;

	job->offsets = mapping->memory_start && !is_kernel(mapping_job);
	for (size_t i = 0; i < mapping_job->count; i++) {
		uint64_t address =
			mapping_job->run->message->location[mapping_job->locations[i]]->address;

		if (job->offsets)
			address = address - mapping->memory_start + mapping->file_offset;
		mapping_job->addresses[i] = address;
	}
}

static int add_job(struct offline_run *run, struct mapping_job *mapping_job,
		   int (*open)(void *, unsigned int, struct error *), uint64_t code_start)
{
	struct worker_job job = {
		.path = mapping_job->path,
		.build_id = mapping_job->build_id,
		.count = mapping_job->count,
		.open = open,
		.arg = mapping_job,
		.code_start = code_start,
		.is_module = is_module(mapping_job),
	};

	mapping_job->addresses = calloc(mapping_job->count, sizeof(*mapping_job->addresses));
	if (!mapping_job->addresses)
		return -ENOMEM;
	set_addresses(mapping_job, &job);
	job.addresses = mapping_job->addresses;
	run->job_mappings[run->job_count] = (size_t)(mapping_job - run->mapping_jobs);
	run->jobs[run->job_count++] = job;
	return 0;
}

/* Results */

static int set_symbols(void *arg, size_t job, size_t index, const struct source_line *lines,
		       size_t count)
{
	struct offline_run *run = arg;
	const struct mapping_job *mapping_job = &run->mapping_jobs[run->job_mappings[job]];
	size_t location = mapping_job->locations[index];
	struct location_symbols *symbols = &run->symbols[location];
	struct source_line *copy;

	run->elided[location] = count == 0;
	if (count == 0 || !lines[count - 1].system_name)
		return 0;
	copy = source_lines_copy(lines, count);
	if (!copy)
		return -ENOMEM;
	free(symbols->lines);
	symbols->lines = copy;
	symbols->count = count;
	return 0;
}

/* Kernel */

/* Returns the load address of the kernel in the profile; 0 if unknown. */
static uint64_t kernel_start(const struct offline_run *run)
{
	for (size_t i = 0; i < run->mapping_count; i++) {
		if (!strcmp(run->mapping_jobs[i].path, KERNEL_MAPPING))
			return run->mapping_jobs[i].mapping->memory_start;
	}
	return 0;
}

/*
 * Computes the load address in the available kernel minus that in the profile. Reports a problem
 * once for each mapping.
 */
static bool find_kernel_bias(const struct offline_run *run, const struct mapping_job *mapping_job,
			     uint64_t *bias)
{
	const struct offline_symbolizer *symbolizer = run->symbolizer;
	const struct kernel_mapping *mapping =
		kernel_mapping_by_name(symbolizer->kernel, mapping_job->path);
	const struct kernel_mapping *kernel =
		kernel_mapping_by_name(symbolizer->kernel, KERNEL_MAPPING);
	const uint64_t start = mapping_job->mapping->memory_start;
	const char *why = NULL;

	*bias = 0;
	if (mapping && *mapping->build_id && *mapping_job->build_id &&
	    !build_id_equal(mapping->build_id, mapping_job->build_id))
		why = "is of another build than the available kernel";
	else if (!start)
		why = "has no symbols: the profile has no load address of it";
	else if (!kernel->start)
		why = "has no symbols: the kernel hides its load address";
	else if (mapping)
		*bias = mapping->start - start;
	else if (kernel_has_module_list(symbolizer->kernel))
		why = "is not among the available modules";
	else if (kernel->start != kernel_start(run))
		why = "has no symbols: its load address is unknown";
	if (why)
		report_problem(run, mapping_job->path, why);
	return !why;
}

/*
 * Whether the mapping is that of a symbol's module (NULL: none). Accepts any module for the kernel
 * itself, which includes generated code.
 */
static bool symbol_matches(const struct mapping_job *mapping_job, const char *module)
{
	size_t length = strlen(mapping_job->path) - 2;

	return !strcmp(mapping_job->path, KERNEL_MAPPING) ||
	       (module && strlen(module) == length &&
		!strncmp(mapping_job->path + 1, module, length));
}

static int symbolize_by_kallsyms(struct offline_run *run, const struct mapping_job *mapping_job,
				 uint64_t bias)
{
	for (size_t i = 0; i < mapping_job->count; i++) {
		struct location_symbols *symbols = &run->symbols[mapping_job->locations[i]];
		struct source_line line = {0};
		const char *name, *module;

		if (!kallsyms_lookup(run->symbolizer->kallsyms,
				     run->message->location[mapping_job->locations[i]]->address +
					     bias,
				     &name, &line.start, &module) ||
		    !symbol_matches(mapping_job, module))
			continue;
		line.system_name = name;
		line.function = name;
		symbols->lines = malloc(sizeof(line));
		if (!symbols->lines)
			return -ENOMEM;
		*symbols->lines = line;
		symbols->count = 1;
	}
	return 0;
}

static int symbolize_kernel_mapping(struct offline_run *run, struct mapping_job *mapping_job)
{
	uint64_t bias;
	int err = 0;

	if (run->symbolizer->kallsyms && find_kernel_bias(run, mapping_job, &bias))
		err = symbolize_by_kallsyms(run, mapping_job, bias);
	if (err || !*mapping_job->build_id || !mapping_job->mapping->memory_start)
		return err;
	return add_job(run, mapping_job, open_kernel, mapping_job->mapping->memory_start);
}

static int symbolize_file_mapping(struct offline_run *run, struct mapping_job *mapping_job)
{
	if (!mapping_job->ambiguous_with)
		return add_job(run, mapping_job, open_file, 0);
	if (!mapping_job->ambiguous_with->reported)
		report_problem(run, mapping_job->path,
			       "has no symbols: the profile has several files with this path and "
			       "no build ID");
	mapping_job->ambiguous_with->reported = true;
	return 0;
}

static bool needs_demangling(const struct location_symbols *symbols)
{
	return symbols->count == 1 && symbols->lines->function == symbols->lines->system_name &&
	       is_mangled(symbols->lines->system_name);
}

/* Demangles the names that come from kallsyms. */
static int demangle_symbols(struct offline_run *run)
{
	const char **names = calloc(run->location_count + 1, 2 * sizeof(*names)), **demangled;
	size_t count = 0;
	int err;

	if (!names)
		return -ENOMEM;
	demangled = names + run->location_count;
	for (size_t i = 0; i < run->location_count; i++) {
		if (needs_demangling(&run->symbols[i]))
			names[count++] = run->symbols[i].lines->system_name;
	}
	err = demangle_names(run->symbolizer->options.sandbox, names, count, &run->strings,
			     demangled);
	count = 0;
	for (size_t i = 0; i < run->location_count; i++) {
		struct location_symbols *symbols = &run->symbols[i];

		if (!needs_demangling(symbols))
			continue;
		if (demangled[count])
			symbols->lines->function = demangled[count];
		count++;
	}
	free(names);
	return err;
}

static int symbolize_all(struct offline_run *run)
{
	const struct worker_pool pool = {
		.options = run->symbolizer->options,
		.lines = set_symbols,
		.arg = run,
	};
	struct error error;
	int err = 0;

	for (size_t i = 0; i < run->message->n_mapping && !err; i++) {
		struct mapping_job *mapping_job = &run->mapping_jobs[i];

		if (!mapping_job->count)
			continue;
		if (is_kernel(mapping_job))
			err = symbolize_kernel_mapping(run, mapping_job);
		else if (is_file(mapping_job))
			err = symbolize_file_mapping(run, mapping_job);
	}
	if (!err)
		err = worker_pool_run(&pool, run->jobs, run->job_count, &run->strings);
	if (!err)
		err = demangle_symbols(run);
	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	report_problem(run, "debug information", error.text);
	return 0;
}

/* Profile */

static bool is_string(const void *context, uint32_t index, const void *key)
{
	return !strcmp(((const Message *)context)->string_table[index], key);
}

static int index_strings(struct offline_run *run)
{
	const Message *message = run->message;
	int err = 0;

	for (size_t i = 0; i < message->n_string_table && !err; i++)
		err = hash_add(&run->string_index,
			       hash_string(HASH_START, message->string_table[i]), i);
	return err;
}

/* Adds a string unless the message has it, and writes its index. */
static int add_string(struct offline_run *run, const char *text, int64_t *index)
{
	Message *message = run->message;
	uint32_t hash, found;
	char *copy;

	*index = 0;
	if (!text || !*text)
		return 0;
	copy = pprof_copy_string(text);
	if (!copy)
		return -ENOMEM;
	hash = hash_string(HASH_START, copy);
	found = hash_find(&run->string_index, hash, is_string, message, copy);
	if (found != HASH_NONE) {
		free(copy);
		*index = found;
		return 0;
	}
	if (message->n_string_table >= HASH_NONE - 1 ||
	    array_reserve(&message->string_table, &run->string_capacity, message->n_string_table, 1,
			  sizeof(*message->string_table)) ||
	    hash_add(&run->string_index, hash, message->n_string_table) != 0) {
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

static int index_functions(struct offline_run *run)
{
	const Message *message = run->message;
	int err = 0;

	for (size_t i = 0; i < message->n_function && !err; i++)
		err = hash_add(&run->function_index, function_hash(message->function[i]), i);
	return err;
}

/* Adds the function of a line unless the message has it, and writes its ID. */
static int add_function(struct offline_run *run, const struct source_line *line, uint64_t *id)
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
	found = hash_find(&run->function_index, hash, is_function, message, &key);
	if (found != HASH_NONE) {
		*id = found + UINT64_C(1);
		return 0;
	}
	function = malloc(sizeof(*function));
	if (!function || message->n_function >= HASH_NONE - 1 ||
	    array_reserve(&message->function, &run->function_capacity, message->n_function, 1,
			  sizeof(Function *)) ||
	    hash_add(&run->function_index, hash, message->n_function) != 0) {
		free(function);
		return -ENOMEM;
	}
	*function = key;
	function->id = message->n_function + 1;
	message->function[message->n_function++] = function;
	*id = function->id;
	return 0;
}

static int set_lines(struct offline_run *run, Location *location,
		     const struct location_symbols *symbols)
{
	free(location->line);
	location->line = calloc(symbols->count, sizeof(Line *));
	if (!location->line)
		return -ENOMEM;
	for (size_t i = 0; i < symbols->count; i++) {
		Line *line = malloc(sizeof(*line));

		if (!line)
			return -ENOMEM;
		perftools__profiles__line__init(line);
		location->line[location->n_line++] = line;
		line->line = symbols->lines[i].line;
		if (add_function(run, &symbols->lines[i], &line->function_id))
			return -ENOMEM;
	}
	return 0;
}

/* Sets the flags of mappings that summarize their locations, which may have changed. */
static void set_mapping_flags(struct offline_run *run)
{
	const Message *message = run->message;

	for (size_t i = 0; i < message->n_mapping; i++) {
		Mapping *mapping = message->mapping[i];

		if (run->mapping_jobs[i].count) {
			mapping->has_functions = true;
			mapping->has_filenames = true;
			mapping->has_line_numbers = true;
		}
	}
	for (size_t i = 0; i < message->n_location; i++) {
		const Location *location = message->location[i];
		Mapping *mapping;

		if (!location->mapping_id || run->elided[i])
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

static int apply_symbols(struct offline_run *run, struct offline_counts *counts)
{
	const struct offline_symbolizer *symbolizer = run->symbolizer;
	int err = 0;

	for (size_t i = 0; i < run->message->n_mapping && !err; i++) {
		const struct mapping_job *mapping_job = &run->mapping_jobs[i];
		size_t symbolized = 0;

		for (size_t j = 0; j < mapping_job->count && !err; j++) {
			size_t location = mapping_job->locations[j];

			symbolized += run->symbols[location].count || run->elided[location];
			if (run->symbols[location].count)
				err = set_lines(run, run->message->location[location],
						&run->symbols[location]);
		}
		counts->unsymbolized += mapping_job->count;
		counts->named += symbolized;
		if (symbolized < mapping_job->count)
			symbolizer->missing(symbolizer->options.arg, mapping_job->path,
					    mapping_job->build_id, mapping_job->count - symbolized);
	}
	if (!err)
		set_mapping_flags(run);
	return err;
}

/* Run */

static int prepare_run(struct offline_run *run)
{
	Message *message = run->message;

	run->mapping_jobs = calloc(message->n_mapping + 1, sizeof(*run->mapping_jobs));
	run->jobs = calloc(message->n_mapping + 1, sizeof(*run->jobs));
	run->job_mappings = calloc(message->n_mapping + 1, sizeof(*run->job_mappings));
	run->symbols = calloc(message->n_location + 1, sizeof(*run->symbols));
	run->elided = calloc(message->n_location + 1, sizeof(*run->elided));
	if (!run->mapping_jobs || !run->jobs || !run->job_mappings || !run->symbols || !run->elided)
		return -ENOMEM;
	run->mapping_count = message->n_mapping;
	run->location_count = message->n_location;
	run->string_capacity = message->n_string_table;
	run->function_capacity = message->n_function;
	for (size_t i = 0; i < message->n_mapping; i++) {
		const Mapping *mapping = message->mapping[i];

		run->mapping_jobs[i].run = run;
		run->mapping_jobs[i].mapping = mapping;
		run->mapping_jobs[i].path = pprof_string_at(run->profile, mapping->filename);
		run->mapping_jobs[i].build_id = pprof_string_at(run->profile, mapping->build_id);
	}
	if (find_ambiguous(run) || index_strings(run) || index_functions(run))
		return -ENOMEM;
	return collect_locations(run);
}

static void clear_run(struct offline_run *run)
{
	for (size_t i = 0; run->mapping_jobs && i < run->mapping_count; i++) {
		free(run->mapping_jobs[i].locations);
		free(run->mapping_jobs[i].addresses);
	}
	for (size_t i = 0; run->symbols && i < run->location_count; i++)
		free(run->symbols[i].lines);
	free(run->mapping_jobs);
	free(run->symbols);
	free(run->elided);
	free(run->jobs);
	free(run->job_mappings);
	string_table_clear(&run->strings);
	hash_clear(&run->string_index);
	hash_clear(&run->function_index);
}

int offline_symbolize(const struct offline_symbolizer *symbolizer, struct pprof_profile *profile,
		      struct offline_counts *counts, struct error *error)
{
	struct offline_run run = {
		.symbolizer = symbolizer, .profile = profile, .message = profile->message};
	int err = prepare_run(&run);

	*counts = (struct offline_counts){0};
	if (!err)
		err = symbolize_all(&run);
	if (!err)
		err = apply_symbols(&run, counts);
	if (!err && normalize_is_own(profile))
		err = normalize_samples(profile, run.elided);
	clear_run(&run);
	return err ? error_errno(error, -err, "can't symbolize the profile") : 0;
}
