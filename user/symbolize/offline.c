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
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "symbolize/demangle_names.h"
#include "symbolize/find_binary.h"
#include "symbolize/normalize.h"
#include "symbolize/worker_pool.h"

/* The locations of a mapping that have no symbol. */
struct mapping_job {
	struct offline_run *run;
	const struct profile_mapping *mapping;
	const char *path, *build_id;
	uint32_t *locations;
	uint64_t *addresses; /* of the worker job */
	size_t count, capacity;
	/* The first of several mappings without distinguishing data; NULL: it is unique. */
	struct mapping_job *ambiguous_with;
	bool reported; /* that it is ambiguous */
};

struct offline_run {
	const struct offline_symbolizer *symbolizer;
	struct profile *profile;
	struct mapping_job *mapping_jobs; /* of each mapping */
	struct worker_job *jobs;
	size_t *job_mappings; /* number of the mapping of each job */
	size_t job_count;
	struct string_table strings;
};

static void report_problem(const struct offline_run *run, const char *path, const char *text)
{
	const struct symbolize_options *options = &run->symbolizer->options;

	if (options->problem)
		options->problem(options->arg, path, text);
}

/* Locations without symbols */

static uint64_t address_at(const struct mapping_job *mapping_job, size_t index)
{
	return mapping_job->run->profile->locations.items[mapping_job->locations[index]].address;
}

static bool is_kernel(const struct mapping_job *mapping_job)
{
	return mapping_job->count > 0 &&
	       is_kernel_mapping(mapping_job->path, address_at(mapping_job, 0));
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
	       a->mapping->start == b->mapping->start && a->mapping->limit == b->mapping->limit &&
	       a->mapping->offset == b->mapping->offset;
}

/* Finds files with the same path and no build ID: the available one may be any of them. */
static int find_ambiguous(struct offline_run *run)
{
	struct hash paths = {0};
	int err = 0;

	for (size_t i = 1; i < run->profile->mappings.count && !err; i++) {
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
	for (size_t i = 1; i < run->profile->locations.count; i++) {
		const struct profile_location *location = &run->profile->locations.items[i];
		struct mapping_job *mapping_job = &run->mapping_jobs[location->mapping];

		if (location->line_count || !location->mapping || !location->address)
			continue;
		if (array_reserve(&mapping_job->locations, &mapping_job->capacity,
				  mapping_job->count, 1, sizeof(*mapping_job->locations)))
			return -ENOMEM;
		mapping_job->locations[mapping_job->count++] = (uint32_t)i;
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
	char release[ORIGIN_RELEASE_SIZE];

	(void)error;
	if (!origin_release(mapping_job->run->profile, release))
		return -ENOENT;
	return is_module(mapping_job)
		       ? kernel_open_module("", release, mapping_job->path, candidate)
		       : kernel_open_vmlinux("", release, candidate);
}

/* Addresses are ELF virtual addresses, or file offsets if the mapping has a start address. */
static void set_addresses(struct mapping_job *mapping_job, struct worker_job *job)
{
	const struct profile_mapping *mapping = mapping_job->mapping;

	job->offsets = mapping->start && !is_kernel(mapping_job);
	for (size_t i = 0; i < mapping_job->count; i++) {
		uint64_t address = address_at(mapping_job, i);

		if (job->offsets)
			address = address - mapping->start + mapping->offset;
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

static uint32_t add_function(struct profile *profile, const struct source_line *line)
{
	const struct profile_function function = {
		.start_line = line->start_line,
		.name = profile_string(profile, line->function),
		.system_name = profile_string(profile, line->system_name),
		.file = profile_string(profile, line->file),
	};

	return profile_function(profile, &function);
}

static int set_lines(struct profile *profile, uint32_t location, const struct source_line *lines,
		     size_t count)
{
	struct profile_line *copy = calloc(count, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		copy[i].function = add_function(profile, &lines[i]);
		copy[i].line = lines[i].line;
	}
	profile_set_lines(profile, location, copy, count);
	free(copy);
	return profile->error;
}

static int set_symbols(void *arg, size_t job, size_t index, const struct source_line *lines,
		       size_t count)
{
	struct offline_run *run = arg;
	const struct mapping_job *mapping_job = &run->mapping_jobs[run->job_mappings[job]];
	uint32_t location = mapping_job->locations[index];

	run->profile->locations.items[location].elided = count == 0;
	if (count == 0 || !lines[count - 1].system_name)
		return 0;
	return set_lines(run->profile, location, lines, count);
}

/* Kernel */

/* Returns the load address of the kernel in the profile; 0 if unknown. */
static uint64_t kernel_start(const struct offline_run *run)
{
	for (size_t i = 1; i < run->profile->mappings.count; i++) {
		if (!strcmp(run->mapping_jobs[i].path, KERNEL_MAPPING))
			return run->mapping_jobs[i].mapping->start;
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
	const uint64_t start = mapping_job->mapping->start;
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

/* Finds the symbol of an address of the mapping. */
static bool find_kernel_symbol(const struct offline_run *run, const struct mapping_job *mapping_job,
			       uint64_t address, struct source_line *line)
{
	const char *module;

	*line = (struct source_line){0};
	if (!kallsyms_lookup(run->symbolizer->kallsyms, address, &line->system_name, &line->start,
			     &module) ||
	    !symbol_matches(mapping_job, module))
		return false;
	line->function = line->system_name;
	return true;
}

static int symbolize_by_kallsyms(struct offline_run *run, const struct mapping_job *mapping_job,
				 uint64_t bias)
{
	struct source_line *lines = calloc(mapping_job->count + 1, sizeof(*lines));
	uint32_t *locations = calloc(mapping_job->count + 1, sizeof(*locations));
	size_t count = 0;
	int err = lines && locations ? 0 : -ENOMEM;

	for (size_t i = 0; i < mapping_job->count && !err; i++) {
		if (!find_kernel_symbol(run, mapping_job, address_at(mapping_job, i) + bias,
					&lines[count]))
			continue;
		locations[count++] = mapping_job->locations[i];
	}
	if (!err)
		err = demangle_lines(run->symbolizer->options.sandbox, lines, count, &run->strings);
	for (size_t i = 0; i < count && !err; i++)
		err = set_lines(run->profile, locations[i], &lines[i], 1);
	free(locations);
	free(lines);
	return err;
}

static int symbolize_kernel_mapping(struct offline_run *run, struct mapping_job *mapping_job)
{
	uint64_t bias;
	int err = 0;

	if (run->symbolizer->kallsyms && find_kernel_bias(run, mapping_job, &bias))
		err = symbolize_by_kallsyms(run, mapping_job, bias);
	if (err || !*mapping_job->build_id || !mapping_job->mapping->start)
		return err;
	return add_job(run, mapping_job, open_kernel, mapping_job->mapping->start);
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

static int symbolize_all(struct offline_run *run)
{
	const struct worker_pool pool = {
		.options = run->symbolizer->options,
		.lines = set_symbols,
		.arg = run,
	};
	struct error error;
	int err = 0;

	for (size_t i = 1; i < run->profile->mappings.count && !err; i++) {
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
	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	report_problem(run, "debug information", error.text);
	return 0;
}

/* Run */

static void count_symbols(const struct offline_run *run, struct offline_counts *counts)
{
	const struct offline_symbolizer *symbolizer = run->symbolizer;
	const struct profile *profile = run->profile;

	for (size_t i = 1; i < profile->mappings.count; i++) {
		const struct mapping_job *mapping_job = &run->mapping_jobs[i];
		size_t named = 0;

		for (size_t j = 0; j < mapping_job->count; j++) {
			const struct profile_location *location =
				&profile->locations.items[mapping_job->locations[j]];

			named += location->line_count || location->elided;
		}
		counts->unsymbolized += mapping_job->count;
		counts->named += named;
		if (named < mapping_job->count)
			symbolizer->missing(symbolizer->options.arg, mapping_job->path,
					    mapping_job->build_id, mapping_job->count - named);
	}
}

static int prepare_run(struct offline_run *run)
{
	const struct profile *profile = run->profile;

	run->mapping_jobs = calloc(profile->mappings.count, sizeof(*run->mapping_jobs));
	run->jobs = calloc(profile->mappings.count, sizeof(*run->jobs));
	run->job_mappings = calloc(profile->mappings.count, sizeof(*run->job_mappings));
	if (!run->mapping_jobs || !run->jobs || !run->job_mappings)
		return -ENOMEM;
	for (size_t i = 0; i < profile->mappings.count; i++) {
		const struct profile_mapping *mapping = &profile->mappings.items[i];

		run->mapping_jobs[i].run = run;
		run->mapping_jobs[i].mapping = mapping;
		run->mapping_jobs[i].path = profile_text(profile, mapping->file);
		run->mapping_jobs[i].build_id = profile_text(profile, mapping->build_id);
	}
	return find_ambiguous(run) ? -ENOMEM : collect_locations(run);
}

static void clear_run(struct offline_run *run)
{
	for (size_t i = 0; run->mapping_jobs && i < run->profile->mappings.count; i++) {
		free(run->mapping_jobs[i].locations);
		free(run->mapping_jobs[i].addresses);
	}
	free(run->mapping_jobs);
	free(run->jobs);
	free(run->job_mappings);
	string_table_clear(&run->strings);
}

int offline_symbolize(const struct offline_symbolizer *symbolizer, struct profile *profile,
		      struct offline_counts *counts, struct error *error)
{
	struct offline_run run = {.symbolizer = symbolizer, .profile = profile};
	struct truncation_counts truncated;
	int err = prepare_run(&run);

	*counts = (struct offline_counts){0};
	if (!err)
		err = symbolize_all(&run);
	if (!err)
		count_symbols(&run, counts);
	clear_run(&run);
	if (!err && origin_is_own(profile))
		err = normalize_profile(profile, &truncated);
	return err ? error_errno(error, -err, "can't symbolize the profile") : 0;
}
