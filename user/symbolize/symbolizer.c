// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbolizer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/gone_modules.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/string_table.h"
#include "mappings/address_space.h"
#include "pprof/profile.h"
#include "symbolize/demangle_names.h"
#include "symbolize/symbol_cache.h"
#include "symbolize/worker_pool.h"

/* The locations of a mapping that have no symbol. */
struct mapping_job {
	struct symbolizer_run *run;
	struct symbol_mapping mapping;
	uint64_t start, limit, offset;
	bool is_cached; /* its symbols are kept, for `file` */
	struct symbol_file file;
	uint32_t *locations;
	uint64_t *addresses; /* of the worker job: of the first `wanted` locations */
	size_t wanted;
	size_t count, capacity;
	/* The first of several mappings without distinguishing data; NULL: it is unique. */
	struct mapping_job *ambiguous_with;
	bool reported; /* that it is ambiguous */
};

struct symbolizer_run {
	const struct symbol_source *source;
	const struct symbolize_options *options;
	struct profile *profile;
	uint64_t kernel_start; /* load address of the kernel in the profile; 0: unknown */
	struct mapping_job *mapping_jobs; /* of each mapping */
	size_t *order; /* numbers of the mappings from 1, sorted */
	struct worker_job *jobs;
	size_t *job_mappings; /* number of the mapping of each job */
	size_t job_count;
	/* Locations whose symbol in kallsyms may be mangled, and these symbols. */
	uint32_t *mangled_locations;
	struct source_line *mangled;
	size_t mangled_count, mangled_capacity, mangled_locations_capacity;
	struct string_table strings; /* of the workers */
};

static void symbolizer_report_problem(const struct symbolizer_run *run, const char *path,
				      const char *text)
{
	if (run->options->problem)
		run->options->problem(run->options->arg, path, text);
}

/* Locations without symbols */

static uint64_t address_at(const struct mapping_job *mapping_job, size_t index)
{
	return mapping_job->run->profile->locations.items[mapping_job->locations[index]].address;
}

static bool is_kernel(const struct mapping_job *mapping_job)
{
	return is_kernel_mapping(mapping_job->mapping.path, address_at(mapping_job, 0));
}

static bool mapping_job_is_module(const struct mapping_job *mapping_job)
{
	return is_kernel(mapping_job) && strcmp(mapping_job->mapping.path, KERNEL_MAPPING);
}

static bool is_ambiguous(const void *context, uint32_t index, const void *key)
{
	const struct mapping_job *a = &((const struct symbolizer_run *)context)
					       ->mapping_jobs[index],
				 *b = key;

	return !strcmp(a->mapping.path, b->mapping.path) && a->start == b->start &&
	       a->limit == b->limit && a->offset == b->offset;
}

/* Finds files with the same path and no build ID: the available one may be any of them. */
static int find_ambiguous(struct symbolizer_run *run)
{
	struct hash paths = {0};
	int err = 0;

	for (size_t i = 1; i < run->profile->mappings.count && !err; i++) {
		struct mapping_job *mapping_job = &run->mapping_jobs[i];
		uint32_t hash = hash_string(HASH_START, mapping_job->mapping.path), first;

		hash = hash_number(hash_number(hash, mapping_job->start), mapping_job->limit);
		hash = hash_number(hash, mapping_job->offset);
		if (*mapping_job->mapping.build_id)
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

static int collect_locations(struct symbolizer_run *run)
{
	for (size_t i = 1; i < run->profile->locations.count; i++) {
		const struct profile_location *location = &run->profile->locations.items[i];
		struct mapping_job *mapping_job = &run->mapping_jobs[location->mapping];

		if (location->line_count || location->elided || !location->mapping ||
		    !location->address)
			continue;
		if (array_reserve(&mapping_job->locations, &mapping_job->capacity,
				  mapping_job->count, 1, sizeof(*mapping_job->locations)))
			return -ENOMEM;
		mapping_job->locations[mapping_job->count++] = (uint32_t)i;
	}
	return 0;
}

/* Jobs */

static int symbolizer_open_mapping(void *arg, unsigned int candidate, struct error *error)
{
	const struct mapping_job *mapping_job = arg;
	const struct symbol_source *source = mapping_job->run->source;

	return source->open(source->arg, &mapping_job->mapping, candidate, error);
}

static bool identify_file(void *arg, int fd, struct file_key *key)
{
	const struct mapping_job *mapping_job = arg;
	const struct symbol_source *source = mapping_job->run->source;

	return source->file_key(source->arg, &mapping_job->mapping, fd, key);
}

static int symbolizer_open_kernel(void *arg, unsigned int candidate, struct error *error)
{
	const struct mapping_job *mapping_job = arg;
	const struct symbol_source *source = mapping_job->run->source;

	(void)error;
	return kernel_open_debug_file(source->root, source->release, mapping_job->mapping.path,
				      candidate);
}

/* Adds a job with all but the addresses set. They become offsets in the file if job->offsets. */
static int add_job(struct symbolizer_run *run, struct mapping_job *mapping_job,
		   struct worker_job *job)
{
	uint64_t *addresses = calloc(mapping_job->wanted, sizeof(*addresses));

	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < mapping_job->wanted; i++) {
		addresses[i] = address_at(mapping_job, i);
		if (job->offsets)
			addresses[i] += mapping_job->offset - mapping_job->start;
	}
	mapping_job->addresses = addresses;
	job->path = mapping_job->mapping.path;
	job->build_id = mapping_job->mapping.build_id;
	job->addresses = addresses;
	job->count = mapping_job->wanted;
	job->arg = mapping_job;
	run->job_mappings[run->job_count] = (size_t)(mapping_job - run->mapping_jobs);
	run->jobs[run->job_count++] = *job;
	return 0;
}

/* Results */

static uint32_t symbolizer_add_function(struct profile *profile, const struct source_line *line)
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
		copy[i].function = symbolizer_add_function(profile, &lines[i]);
		copy[i].line = lines[i].line;
	}
	profile_set_lines(profile, location, copy, count);
	free(copy);
	return profile->error;
}

static int set_location(struct symbolizer_run *run, uint32_t location,
			const struct source_line *lines, size_t count)
{
	run->profile->locations.items[location].elided = count == 0;
	if (count == 0 || !lines[count - 1].system_name)
		return 0;
	return set_lines(run->profile, location, lines, count);
}

static int set_symbols(void *arg, size_t job, size_t index, const struct source_line *lines,
		       size_t count)
{
	struct symbolizer_run *run = arg;
	const struct mapping_job *mapping_job = &run->mapping_jobs[run->job_mappings[job]];

	return set_location(run, mapping_job->locations[index], lines, count);
}

/* Cache */

/* Keeps the lines of a location. An address that was found without a name has none. */
static void keep_lines(const struct symbolizer_run *run, const struct mapping_job *mapping_job,
		       size_t index, const struct address_range *same)
{
	const struct profile *profile = run->profile;
	const struct profile_location *location =
		&profile->locations.items[mapping_job->locations[index]];
	struct source_line lines[INLINE_DEPTH_MAX];
	size_t count = MIN(location->line_count, INLINE_DEPTH_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct profile_line *line = &profile_lines(profile, location)[i];
		const struct profile_function *function = &profile->functions.items[line->function];

		lines[i] = (struct source_line){
			.function = profile_text(profile, function->name),
			.system_name = profile_text(profile, function->system_name),
			.file = profile_text(profile, function->file),
			.line = line->line,
			.start_line = function->start_line,
		};
	}
	if (count || location->elided)
		symbol_cache_add(run->source->cache, &mapping_job->file,
				 mapping_job->addresses[index], same, lines, count);
}

/* The debug files of the kernel are missing on most machines: they are not searched again. */
static void keep_symbol(void *arg, size_t job, size_t index, bool found, bool opened,
			const struct address_range *same)
{
	const struct symbolizer_run *run = arg;
	const struct mapping_job *mapping_job = &run->mapping_jobs[run->job_mappings[job]];

	if (!mapping_job->is_cached)
		return;
	if (found)
		keep_lines(run, mapping_job, index, same);
	else if (opened || is_kernel(mapping_job))
		symbol_cache_add(run->source->cache, &mapping_job->file,
				 mapping_job->addresses[index], same, NULL, SYMBOL_CACHE_NONE);
}

/* For as long as the cache lasts: each profile would wait for the same file. */
static void keep_failure(void *arg, size_t job)
{
	const struct symbolizer_run *run = arg;
	const struct mapping_job *mapping_job = &run->mapping_jobs[run->job_mappings[job]];
	const struct address_range all = {0, UINT64_MAX};

	if (mapping_job->is_cached)
		symbol_cache_add(run->source->cache, &mapping_job->file, mapping_job->addresses[0],
				 &all, NULL, SYMBOL_CACHE_NONE);
}

/* A location whose symbol may be in the cache. */
struct cached_location {
	struct symbolizer_run *run;
	uint32_t location;
};

static int set_cached(void *arg, const struct source_line *lines, size_t count)
{
	const struct cached_location *cached = arg;

	return set_location(cached->run, cached->location, lines, count);
}

/* Sets the symbols that the cache has, and moves the other locations, which are wanted, first. */
static int symbolize_by_cache(struct symbolizer_run *run, struct mapping_job *mapping_job)
{
	int err = 0;

	mapping_job->wanted = 0;
	for (size_t i = 0; i < mapping_job->count && !err; i++) {
		struct cached_location cached = {run, mapping_job->locations[i]};

		if (symbol_cache_find(run->source->cache, &mapping_job->file,
				      address_at(mapping_job, i), set_cached, &cached, &err))
			continue;
		mapping_job->locations[i] = mapping_job->locations[mapping_job->wanted];
		mapping_job->locations[mapping_job->wanted++] = cached.location;
	}
	return err;
}

/* Kernel */

/*
 * Computes the load address in the available kernel minus that in the profile. Reports a problem
 * once for each mapping.
 */
static bool find_kernel_bias(const struct symbolizer_run *run,
			     const struct mapping_job *mapping_job, uint64_t *bias)
{
	struct kernel *available = run->source->kernel;
	const char *path = mapping_job->mapping.path, *build_id = mapping_job->mapping.build_id;
	const struct kernel_mapping *mapping = kernel_mapping_by_name(available, path);
	const struct kernel_mapping *kernel = kernel_mapping_by_name(available, KERNEL_MAPPING);
	const char *why = NULL;

	*bias = 0;
	if (mapping && *mapping->build_id && *build_id &&
	    !build_id_equal(mapping->build_id, build_id))
		why = "is of another build than the available kernel";
	else if (!mapping_job->start)
		why = "has no symbols: the profile has no load address of it";
	else if (!kernel->start)
		why = "has no symbols: the kernel hides its load address";
	else if (mapping)
		*bias = mapping->start - mapping_job->start;
	else if (kernel_has_module_list(available))
		why = "is not among the available modules";
	else if (kernel->start != run->kernel_start)
		why = "has no symbols: its load address is unknown";
	if (why)
		symbolizer_report_problem(run, path, why);
	return !why;
}

/*
 * Whether the mapping belongs to a symbol's module (NULL: none). Accepts any module for the kernel
 * itself, which includes generated code.
 */
static bool symbol_matches(const struct mapping_job *mapping_job, const char *module)
{
	const char *path = mapping_job->mapping.path;
	size_t length = strlen(path) - 2;

	return !strcmp(path, KERNEL_MAPPING) ||
	       (module && strlen(module) == length && !strncmp(path + 1, module, length));
}

static int add_mangled(struct symbolizer_run *run, uint32_t location,
		       const struct source_line *line)
{
	if (array_reserve(&run->mangled, &run->mangled_capacity, run->mangled_count, 1,
			  sizeof(*run->mangled)) ||
	    array_reserve(&run->mangled_locations, &run->mangled_locations_capacity,
			  run->mangled_count, 1, sizeof(*run->mangled_locations)))
		return -ENOMEM;
	run->mangled_locations[run->mangled_count] = location;
	run->mangled[run->mangled_count++] = *line;
	return 0;
}

static int set_kernel_function(struct symbolizer_run *run, uint32_t location, const char *name,
			       uint64_t start)
{
	const struct source_line line = {.function = name, .system_name = name, .start = start};

	return is_mangled(name) ? add_mangled(run, location, &line)
				: set_lines(run->profile, location, &line, 1);
}

static int symbolize_by_kallsyms(struct symbolizer_run *run, const struct mapping_job *mapping_job,
				 uint64_t bias)
{
	int err = 0;

	for (size_t i = 0; i < mapping_job->count && !err; i++) {
		const char *name, *module;
		uint64_t start;

		if (kallsyms_lookup(run->source->kallsyms, address_at(mapping_job, i) + bias, &name,
				    &start, &module) &&
		    symbol_matches(mapping_job, module))
			err = set_kernel_function(run, mapping_job->locations[i], name, start);
	}
	return err;
}

/* Sets the mangled symbols of locations that no job has symbolized. */
static int set_demangled(struct symbolizer_run *run)
{
	int err = demangle_lines(run->options->sandbox, run->mangled, run->mangled_count,
				 &run->strings);

	for (size_t i = 0; i < run->mangled_count && !err; i++) {
		uint32_t location = run->mangled_locations[i];
		const struct profile_location *at = &run->profile->locations.items[location];

		if (!at->line_count && !at->elided)
			err = set_lines(run->profile, location, &run->mangled[i], 1);
	}
	return err;
}

/* A mapping of a part of a module; without a serial, of several. */
static int symbolize_gone_mapping(struct symbolizer_run *run, const struct mapping_job *mapping_job)
{
	const uint64_t serial = mapping_job->mapping.place.part;
	const char *name;
	uint64_t start;
	int err = 0;

	for (size_t i = 0; serial && i < mapping_job->count && !err; i++) {
		if (gone_modules_function(run->source->gone, serial, address_at(mapping_job, i),
					  &name, &start))
			err = set_kernel_function(run, mapping_job->locations[i], name, start);
	}
	return err;
}

static int symbolize_kernel_mapping(struct symbolizer_run *run, struct mapping_job *mapping_job)
{
	struct worker_job job = {
		.open = symbolizer_open_kernel,
		.is_module = mapping_job_is_module(mapping_job),
		.code_start = mapping_job->start,
	};
	uint64_t bias;
	int err = 0;

	if (mapping_job->mapping.place.segment == SEGMENT_KERNEL)
		return symbolize_gone_mapping(run, mapping_job);
	/* A module that is loaded may have gone before its symbols were read. */
	if (mapping_job->mapping.place.part)
		err = symbolize_gone_mapping(run, mapping_job);
	else if (run->source->kallsyms && find_kernel_bias(run, mapping_job, &bias))
		err = symbolize_by_kallsyms(run, mapping_job, bias);
	if (err || !*mapping_job->mapping.build_id || !mapping_job->start)
		return err;
	/* The build ID is the kernel's own: another build of a module has another one. */
	mapping_job->is_cached = run->source->cache;
	mapping_job->file = (struct symbol_file){
		.inode = mapping_job->start,
		.build_id = mapping_job->mapping.build_id,
		.path = mapping_job->mapping.path,
	};
	if (mapping_job->is_cached)
		err = symbolize_by_cache(run, mapping_job);
	return err || !mapping_job->wanted ? err : add_job(run, mapping_job, &job);
}

/* User code */

static int symbolize_user_mapping(struct symbolizer_run *run, struct mapping_job *mapping_job,
				  enum symbol_kind kind)
{
	struct worker_job job = {
		.open = symbolizer_open_mapping,
		.is_perf_map = kind == SYMBOLS_PERF_MAP,
		.offsets = kind == SYMBOLS_FILE && mapping_job->start,
	};
	const struct symbol_source *source = run->source;
	int err = 0;

	mapping_job->is_cached =
		source->cache && kind == SYMBOLS_FILE && !job.offsets &&
		source->identify(source->arg, &mapping_job->mapping, &mapping_job->file);
	if (mapping_job->is_cached)
		err = symbolize_by_cache(run, mapping_job);
	if (err || !mapping_job->wanted)
		return err;
	if (source->file_key && kind == SYMBOLS_FILE)
		job.identify = identify_file;
	if (source->owner) {
		job.has_owner = true;
		job.owner = source->owner(source->arg, &mapping_job->mapping);
	}

	if (!mapping_job->ambiguous_with)
		return add_job(run, mapping_job, &job);
	if (!mapping_job->ambiguous_with->reported)
		symbolizer_report_problem(
			run, mapping_job->mapping.path,
			"has no symbols: the profile has several files with this path and "
			"no build ID");
	mapping_job->ambiguous_with->reported = true;
	return 0;
}

/* Run */

/* The order of the jobs, and so of their messages. It must not depend on the order of the samples.
 */
static int symbolizer_compare_mappings(const void *left, const void *right, void *arg)
{
	const struct symbolizer_run *run = arg;
	const size_t x = *(const size_t *)left, y = *(const size_t *)right;
	const struct symbol_mapping *a = &run->mapping_jobs[x].mapping;
	const struct symbol_mapping *b = &run->mapping_jobs[y].mapping;
	int result = strcmp(a->path, b->path) ?: strcmp(a->build_id, b->build_id);

	if (result)
		return result;
	if (a->place.perf_map != b->place.perf_map)
		return a->place.perf_map < b->place.perf_map ? -1 : 1;
	if (a->place.part != b->place.part)
		return a->place.part < b->place.part ? -1 : 1;
	if (a->place.segment != b->place.segment)
		return a->place.segment < b->place.segment ? -1 : 1;
	return (x > y) - (x < y);
}

static int symbolize_mapping(struct symbolizer_run *run, struct mapping_job *mapping_job)
{
	const struct symbol_source *source = run->source;
	enum symbol_kind kind;

	if (!mapping_job->count)
		return 0;
	mapping_job->wanted = mapping_job->count;
	if (is_kernel(mapping_job))
		return symbolize_kernel_mapping(run, mapping_job);
	kind = source->kind(source->arg, &mapping_job->mapping);
	return kind == SYMBOLS_NONE ? 0 : symbolize_user_mapping(run, mapping_job, kind);
}

static int add_jobs(struct symbolizer_run *run)
{
	const size_t count = run->profile->mappings.count - 1;
	int err = 0;

	for (size_t i = 0; i < count; i++)
		run->order[i] = i + 1;
	qsort_r(run->order, count, sizeof(*run->order), symbolizer_compare_mappings, run);
	for (size_t i = 0; i < count && !err; i++)
		err = symbolize_mapping(run, &run->mapping_jobs[run->order[i]]);
	return err;
}

static int run_jobs(struct symbolizer_run *run)
{
	const struct worker_pool pool = {
		.options = *run->options,
		.lines = set_symbols,
		.ended = keep_symbol,
		.failed = keep_failure,
		.arg = run,
	};
	int err = worker_pool_run(&pool, run->jobs, run->job_count, &run->strings);
	struct error error;

	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	symbolizer_report_problem(run, "debug information", error.text);
	return 0;
}

static void symbolizer_count(const struct symbolizer_run *run, struct symbolize_counts *counts)
{
	const struct symbolize_options *options = run->options;
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
		if (options->missing && named < mapping_job->count)
			options->missing(options->arg, mapping_job->mapping.path,
					 mapping_job->mapping.build_id, mapping_job->count - named);
	}
}

static int prepare_run(struct symbolizer_run *run)
{
	const struct profile *profile = run->profile;
	size_t count = profile->mappings.count;

	run->mapping_jobs = calloc(count, sizeof(*run->mapping_jobs));
	run->order = calloc(count, sizeof(*run->order));
	run->jobs = calloc(count, sizeof(*run->jobs));
	run->job_mappings = calloc(count, sizeof(*run->job_mappings));
	if (!run->mapping_jobs || !run->order || !run->jobs || !run->job_mappings)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct profile_mapping *mapping = &profile->mappings.items[i];

		run->mapping_jobs[i] = (struct mapping_job){
			.run = run,
			.mapping =
				{
					.path = profile_text(profile, mapping->file),
					.build_id = profile_text(profile, mapping->build_id),
					.place = mapping->place,
				},
			.start = mapping->start,
			.limit = mapping->limit,
			.offset = mapping->offset,
		};
		if (!run->kernel_start &&
		    !strcmp(run->mapping_jobs[i].mapping.path, KERNEL_MAPPING))
			run->kernel_start = mapping->start;
	}
	if (run->source->by_path && find_ambiguous(run))
		return -ENOMEM;
	return collect_locations(run);
}

static void clear_run(struct symbolizer_run *run)
{
	for (size_t i = 0; run->mapping_jobs && i < run->profile->mappings.count; i++) {
		free(run->mapping_jobs[i].locations);
		free(run->mapping_jobs[i].addresses);
	}
	free(run->mapping_jobs);
	free(run->order);
	free(run->jobs);
	free(run->job_mappings);
	free(run->mangled_locations);
	free(run->mangled);
	string_table_clear(&run->strings);
}

int symbolize_profile(struct profile *profile, const struct symbol_source *source,
		      const struct symbolize_options *options, struct symbolize_counts *counts,
		      struct error *error)
{
	struct symbolizer_run run = {.source = source, .options = options, .profile = profile};
	int err = prepare_run(&run);

	*counts = (struct symbolize_counts){0};
	if (!err)
		err = add_jobs(&run);
	if (!err)
		err = run_jobs(&run);
	if (!err)
		err = set_demangled(&run);
	if (!err)
		symbolizer_count(&run, counts);
	clear_run(&run);
	return err ? error_errno(error, -err, "can't symbolize the profile") : 0;
}
