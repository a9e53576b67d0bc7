// SPDX-License-Identifier: GPL-2.0
#include "report/annotation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "debuginfo/kernel_code.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/error.h"
#include "pprof/profile.h"
#include "report/frame_name.h"
#include "symbolize/symbol_source.h"
#include "symbolize/worker_pool.h"

#define NO_FILE SIZE_MAX

/* A file that has the code of some locations. */
struct code_file {
	const struct symbol_source *source;
	struct symbol_mapping mapping;
	bool offsets; /* `addresses` are offsets in the file */
	bool is_kernel; /* of the kernel, or of a module of it */
	uint64_t start; /* of the kernel's mapping */
	int code_fd; /* code of the running kernel */
	uint64_t *addresses;
	size_t count, capacity;
};

struct annotator {
	const struct profile *profile;
	const struct annotation_query *query;
	const struct symbol_source *source;
	const struct symbolize_options *options;
	struct annotation *annotation;
	struct code_file *files;
	size_t file_count, file_capacity;
	size_t *mapping_files; /* of each mapping; NO_FILE: none */
	struct annotated_instruction **instructions; /* of each location; NULL: none */
	struct annotated_function **functions;
	bool in_generated_code; /* the name was found there, where no file is */
	struct error kernel_problem; /* why the code of the kernel can't be read; "": it can */
};

/* Names */

/* Whether a name is the wanted one, or begins with it and goes on with parameters. */
static bool function_is_named(const char *name, const char *wanted)
{
	const size_t length = strlen(wanted);

	return *wanted && !strncmp(name, wanted, length) && (!name[length] || name[length] == '(');
}

static bool annotator_line_matches(const struct annotator *annotator,
				   const struct profile_line *line)
{
	const struct profile *profile = annotator->profile;
	const struct profile_function *function = &profile->functions.items[line->function];

	return function_is_named(profile_text(profile, function->name), annotator->query->name) ||
	       function_is_named(profile_text(profile, function->system_name),
				 annotator->query->name);
}

/* Whether the wanted name is the name of a location without a function: "FILE+0xADDRESS". */
static bool annotator_address_matches(const struct annotator *annotator,
				      const struct profile_location *location)
{
	char *name = strstr(annotator->query->name, "+0x")
			     ? address_name(annotator->profile, location)
			     : NULL;
	const bool matches = name && !strcmp(name, annotator->query->name);

	free(name);
	return matches;
}

static bool annotator_location_matches(const struct annotator *annotator,
				       const struct profile_location *location, bool inlined)
{
	const struct profile_line *lines = profile_lines(annotator->profile, location);
	const uint32_t count = location->line_count;

	if (!count)
		return !inlined && annotator_address_matches(annotator, location);
	for (uint32_t i = 0; inlined && i + 1 < count; i++) {
		if (annotator_line_matches(annotator, &lines[i]))
			return true;
	}
	return !inlined && annotator_line_matches(annotator, &lines[count - 1]);
}

static bool is_wanted_file(const struct annotator *annotator, const char *path)
{
	const char *slash = strrchr(path, '/'), *wanted = annotator->query->file;

	return !wanted || !strcmp(path, wanted) || (slash && !strcmp(slash + 1, wanted));
}

/* Files */

static bool code_file_equals(const struct code_file *a, const struct code_file *b)
{
	return !strcmp(a->mapping.path, b->mapping.path) &&
	       !strcmp(a->mapping.build_id, b->mapping.build_id) && a->offsets == b->offsets &&
	       a->is_kernel == b->is_kernel && a->start == b->start;
}

/* Finds or adds the file of a mapping. */
static int annotator_add_file(struct annotator *annotator, uint32_t number, bool is_kernel)
{
	const struct profile_mapping *mapping = &annotator->profile->mappings.items[number];
	const struct code_file file = {
		.source = annotator->source,
		.mapping = {.path = profile_text(annotator->profile, mapping->file),
			    .build_id = profile_text(annotator->profile, mapping->build_id),
			    .place = mapping->place},
		.offsets = mapping->start && !is_kernel,
		.is_kernel = is_kernel,
		.start = is_kernel ? mapping->start : 0,
		.code_fd = -1,
	};
	size_t i = 0;

	while (i < annotator->file_count && !code_file_equals(&annotator->files[i], &file))
		i++;
	annotator->mapping_files[number] = i;
	if (i < annotator->file_count)
		return 0;
	if (array_reserve(&annotator->files, &annotator->file_capacity, i, 1,
			  sizeof(*annotator->files)))
		return -ENOMEM;
	annotator->files[annotator->file_count++] = file;
	return 0;
}

/* The address of a location as its worker gets it. */
static uint64_t job_address(const struct annotator *annotator,
			    const struct profile_location *location)
{
	const struct profile_mapping *mapping =
		&annotator->profile->mappings.items[location->mapping];

	return mapping->start && !annotator->files[annotator->mapping_files[location->mapping]]
					  .is_kernel
		       ? location->address - mapping->start + mapping->offset
		       : location->address;
}

static int annotator_add_address(struct annotator *annotator,
				 const struct profile_location *location)
{
	const struct profile *profile = annotator->profile;
	const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];
	const struct symbol_mapping symbols = {
		.path = profile_text(profile, mapping->file),
		.build_id = profile_text(profile, mapping->build_id),
		.place = mapping->place,
	};
	const bool is_kernel = is_kernel_mapping(symbols.path, location->address);
	struct code_file *file;

	if (!is_kernel &&
	    annotator->source->kind(annotator->source->arg, &symbols) != SYMBOLS_FILE) {
		annotator->in_generated_code = true;
		return 0;
	}
	if (!is_wanted_file(annotator, symbols.path))
		return 0;
	if (annotator->mapping_files[location->mapping] == NO_FILE &&
	    annotator_add_file(annotator, location->mapping, is_kernel))
		return -ENOMEM;
	file = &annotator->files[annotator->mapping_files[location->mapping]];
	if (array_reserve(&file->addresses, &file->capacity, file->count, 1,
			  sizeof(*file->addresses)))
		return -ENOMEM;
	file->addresses[file->count++] = job_address(annotator, location);
	return 0;
}

static int add_addresses(struct annotator *annotator, bool inlined)
{
	const struct profile *profile = annotator->profile;
	int err = 0;

	for (size_t i = 1; i < profile->locations.count && !err; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		if (annotator_location_matches(annotator, location, inlined))
			err = annotator_add_address(annotator, location);
	}
	return err;
}

/* Code */

static int annotator_open_file(void *arg, unsigned int candidate, struct error *error)
{
	const struct code_file *file = arg;

	return file->source->open(file->source->arg, &file->mapping, candidate, error);
}

static int annotator_open_kernel_code(void *arg, unsigned int candidate, struct error *error)
{
	const struct code_file *file = arg;
	int fd = candidate || file->code_fd < 0 ? -1 : fcntl(file->code_fd, F_DUPFD_CLOEXEC, 0);

	(void)error;
	return fd >= 0 ? fd : -ENOENT;
}

/* The files with debug information of the kernel of the profile. */
static int annotator_open_kernel_file(void *arg, unsigned int candidate, struct error *error)
{
	const struct code_file *file = arg;
	const struct symbol_source *source = file->source;

	(void)error;
	return kernel_open_debug_file(source->root, source->release, file->mapping.path, candidate);
}

/*
 * The worker gets the code of the kernel as a file, which this process makes: it has the rights.
 * Sets the first problem.
 */
static void annotator_open_kernel(struct annotator *annotator, struct running_kernel *running,
				  struct code_file *file)
{
	const struct kernel_code code = {
		.name = file->mapping.path,
		.build_id = file->mapping.build_id,
		.start = file->start,
		.addresses = file->addresses,
		.count = file->count,
	};
	struct error problem;
	int err = 0;

	if (!running->root)
		err = running_kernel_open(running, file->source->root, &problem);
	if (!err)
		err = running->kernel ? kernel_code_open(running, &code, &problem) : -ENXIO;
	if (err >= 0)
		file->code_fd = err;
	else if (!*annotator->kernel_problem.text)
		annotator->kernel_problem = problem;
}

/* Files of the kernel whose code can't be read are forgotten. */
static void annotator_keep_files_with_code(struct annotator *annotator)
{
	const size_t count = annotator->file_count;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct code_file *file = &annotator->files[i];
		const bool is_kept = !file->is_kernel || file->code_fd >= 0;

		for (size_t j = 0; j < annotator->profile->mappings.count; j++) {
			if (annotator->mapping_files[j] == i)
				annotator->mapping_files[j] = is_kept ? kept : NO_FILE;
		}
		if (is_kept)
			annotator->files[kept++] = *file;
		else
			free(file->addresses);
	}
	annotator->file_count = kept;
}

static void annotator_read_kernel(struct annotator *annotator)
{
	struct running_kernel running = {.root = NULL};

	for (size_t i = 0; i < annotator->file_count; i++) {
		if (annotator->files[i].is_kernel)
			annotator_open_kernel(annotator, &running, &annotator->files[i]);
	}
	if (running.root)
		annotator_keep_files_with_code(annotator);
	running_kernel_close(&running);
}

static int no_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
		    size_t count)
{
	(void)arg, (void)job, (void)index, (void)lines, (void)count;
	return 0;
}

/* A function that a file has twice, as its worker is compromised, stays twice. */
static int take_function(void *arg, size_t job, const struct code_function *function)
{
	const struct annotator *annotator = arg;
	struct annotation *annotation = annotator->annotation;
	const struct code_file *file = &annotator->files[job];

	if (array_reserve(&annotation->functions, &annotation->capacity, annotation->count, 1,
			  sizeof(*annotation->functions)))
		return -ENOMEM;
	annotation->functions[annotation->count++] = (struct annotated_function){
		.path = file->mapping.path,
		.build_id = file->mapping.build_id,
		.name = function->name ? function->name : annotator->query->name,
		.start = function->start,
		.size = function->size,
		.file = job,
		.shift = function->shift,
	};
	return 0;
}

/* The instructions of one worker follow their function, but workers run at the same time. */
static int take_instruction(void *arg, size_t job, const struct instruction *instruction)
{
	const struct annotator *annotator = arg;
	struct annotated_function *function =
		annotator->annotation->functions + annotator->annotation->count - 1;

	while (function->file != job)
		function--;
	if (array_reserve(&function->instructions, &function->capacity, function->count, 1,
			  sizeof(*function->instructions)))
		return -ENOMEM;
	function->instructions[function->count++] =
		(struct annotated_instruction){.code = *instruction};
	return 0;
}

static int run_workers(struct annotator *annotator, const struct worker_pool *callbacks,
		       const struct worker_job *jobs, size_t count)
{
	struct worker_pool pool = *callbacks;

	pool.options = *annotator->options;
	pool.arg = annotator;
	return worker_pool_run(&pool, jobs, count, &annotator->annotation->strings);
}

static int annotator_read_code(struct annotator *annotator)
{
	const struct worker_pool pool = {
		.lines = no_lines,
		.function = take_function,
		.instruction = take_instruction,
	};
	struct worker_job *jobs = calloc(annotator->file_count + 1, sizeof(*jobs));
	int err;

	if (!jobs)
		return -ENOMEM;
	for (size_t i = 0; i < annotator->file_count; i++) {
		struct code_file *file = &annotator->files[i];

		jobs[i] = (struct worker_job){
			.path = file->mapping.path,
			.build_id = file->is_kernel ? "" : file->mapping.build_id,
			.addresses = file->addresses,
			.count = file->count,
			.open = file->is_kernel ? annotator_open_kernel_code : annotator_open_file,
			.arg = file,
			.offsets = file->offsets,
			.syntax = annotator->query->syntax,
		};
	}
	err = run_workers(annotator, &pool, jobs, annotator->file_count);
	free(jobs);
	return err;
}

/* Source lines */

/* The job of a function has the addresses of its instructions. */
static int annotator_take_lines(void *arg, size_t job, size_t index,
				const struct source_line *lines, size_t count)
{
	const struct annotator *annotator = arg;
	struct annotated_instruction *instruction =
		&annotator->annotation->functions[job].instructions[index];

	if (!count)
		return 0;
	free(instruction->lines);
	instruction->lines = source_lines_copy(lines, count);
	instruction->line_count = instruction->lines ? count : 0;
	return instruction->lines ? 0 : -ENOMEM;
}

static uint64_t *instruction_addresses(const struct annotated_function *function)
{
	uint64_t *addresses = calloc(function->count + 1, sizeof(*addresses));

	for (size_t i = 0; addresses && i < function->count; i++)
		addresses[i] = function->instructions[i].code.address;
	return addresses;
}

static int read_lines(struct annotator *annotator)
{
	const struct worker_pool pool = {.lines = annotator_take_lines};
	struct annotation *annotation = annotator->annotation;
	struct worker_job *jobs = calloc(annotation->count + 1, sizeof(*jobs));
	int err = jobs ? 0 : -ENOMEM;

	for (size_t i = 0; i < annotation->count && !err; i++) {
		const struct annotated_function *function = &annotation->functions[i];
		struct code_file *file = &annotator->files[function->file];
		uint64_t *addresses = instruction_addresses(function);

		jobs[i] = (struct worker_job){
			.path = function->path,
			.build_id = function->build_id,
			.addresses = addresses,
			.count = function->count,
			.open = file->is_kernel ? annotator_open_kernel_file : annotator_open_file,
			.arg = file,
			.is_module = file->is_kernel && strcmp(function->path, KERNEL_MAPPING),
			.code_start = file->start,
		};
		err = addresses ? 0 : -ENOMEM;
	}
	if (!err)
		err = run_workers(annotator, &pool, jobs, annotation->count);
	for (size_t i = 0; jobs && i < annotation->count; i++)
		free((void *)jobs[i].addresses);
	free(jobs);
	return err;
}

/* Values */

static struct annotated_instruction *annotation_find(const struct annotated_function *function,
						     uint64_t vaddr)
{
	size_t low = 0, high = function->count;

	/* The first instruction behind the address. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (function->instructions[middle].code.address <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &function->instructions[low - 1] : NULL;
}

/* Finds the instruction of each location of the files: also of such with another name. */
static void find_instructions(struct annotator *annotator)
{
	const struct profile *profile = annotator->profile;
	struct annotation *annotation = annotator->annotation;

	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const size_t file = annotator->mapping_files[location->mapping];

		for (size_t j = 0; file != NO_FILE && j < annotation->count; j++) {
			struct annotated_function *function = &annotation->functions[j];
			const uint64_t vaddr = job_address(annotator, location) + function->shift;

			if (function->file != file || vaddr - function->start >= function->size)
				continue;
			annotator->functions[i] = function;
			annotator->instructions[i] = annotation_find(function, vaddr);
		}
	}
}

/* Recursion counts once. */
static void annotator_add_sample(struct annotator *annotator, size_t number, int64_t value)
{
	const struct profile *profile = annotator->profile;
	const uint32_t stack = profile->samples.items[number].stack;
	const uint32_t *locations = profile_stack_locations(profile, stack);

	for (uint32_t i = 0; i < profile->stacks.items[stack].count; i++) {
		struct annotated_function *function = annotator->functions[locations[i]];
		struct annotated_instruction *instruction = annotator->instructions[locations[i]];

		if (!function || !instruction)
			continue;
		if (i == 0) {
			function->self += value;
			instruction->self += value;
		}
		if (function->last_sample != number + 1)
			function->cum += value;
		if (instruction->last_sample != number + 1)
			instruction->cum += value;
		function->last_sample = instruction->last_sample = number + 1;
	}
}

static int compare_functions(const void *left, const void *right)
{
	const struct annotated_function *a = left, *b = right;

	if (a->self != b->self)
		return a->self > b->self ? -1 : 1;
	if (a->cum != b->cum)
		return a->cum > b->cum ? -1 : 1;
	return strcmp(a->path, b->path) ?: (a->start > b->start) - (a->start < b->start);
}

static int annotator_prepare_values(struct annotator *annotator)
{
	const size_t count = annotator->profile->locations.count;

	annotator->instructions = calloc(count, sizeof(*annotator->instructions));
	annotator->functions = calloc(count, sizeof(*annotator->functions));
	return annotator->instructions && annotator->functions ? 0 : -ENOMEM;
}

/* The instructions of all locations are known. */
static void annotator_add_samples(struct annotator *annotator)
{
	const struct profile *profile = annotator->profile;
	struct annotation *annotation = annotator->annotation;

	for (size_t i = 0; i < profile->samples.count; i++) {
		const int64_t value = profile_values(profile, i)[annotation->type];

		annotation->total += value;
		annotator_add_sample(annotator, i, value);
	}
	qsort(annotation->functions, annotation->count, sizeof(*annotation->functions),
	      compare_functions);
}

static int add_values(struct annotator *annotator)
{
	int err = annotator_prepare_values(annotator);

	if (err)
		return err;
	find_instructions(annotator);
	annotator_add_samples(annotator);
	return 0;
}

/* Result */

static int refuse_name(const struct annotator *annotator, struct error *error)
{
	const char *name = annotator->query->name;

	if (annotator->in_generated_code)
		return error_set(error, ENXIO,
				 "'%s' is code that a program has generated: no file has it", name);
	if (annotator->query->file)
		return error_set(error, ENOENT, "the profile has no function '%s' in %s", name,
				 annotator->query->file);
	return error_set(error, ENOENT, "the profile has no function '%s'", name);
}

static int refuse_kernel_function(const struct annotator *annotator, struct error *error)
{
	const char *name = annotator->query->name, *problem = annotator->kernel_problem.text;

	return error_set(error, ENXIO, "'%s' is a function of the kernel: %s", name, problem);
}

/* Finds the files that have code of the name. */
static int annotator_find_files(struct annotator *annotator)
{
	int err = add_addresses(annotator, false);

	if (!err)
		annotator_read_kernel(annotator);
	if (err || annotator->file_count)
		return err;
	annotator->annotation->is_inlined = true;
	err = add_addresses(annotator, true);
	if (!err)
		annotator_read_kernel(annotator);
	return err;
}

static int annotator_run(struct annotator *annotator, struct error *error)
{
	struct annotation *annotation = annotator->annotation;
	int err = annotator_find_files(annotator);

	if (!err && !annotator->file_count)
		return *annotator->kernel_problem.text ? refuse_kernel_function(annotator, error)
						       : refuse_name(annotator, error);
	if (!err)
		err = annotator_read_code(annotator);
	if (!err && !annotation->count)
		return error_set(error, ENXIO,
				 "the code of '%s' can't be read: %s is missing, or does not "
				 "say where the function begins%s",
				 annotator->query->name, annotator->files[0].mapping.path,
				 annotator->query->advice ?: "");
	if (!err)
		err = read_lines(annotator);
	if (!err)
		err = add_values(annotator);
	annotation->left_out = annotator->kernel_problem;
	return err ? error_errno(error, -err, "can't annotate") : 0;
}

/* Without code: the addresses that have samples */

/* The name of the function whose code has a location; NULL: it has none. */
static const char *outermost_name(const struct profile *profile,
				  const struct profile_location *location)
{
	const uint32_t count = location->line_count;

	return count ? function_name(profile, profile_lines(profile, location)[count - 1].function)
		     : NULL;
}

/* Whether a location has code of a function. Without a name, the location is the function. */
static bool is_sampled_in(const struct annotator *annotator,
			  const struct profile_location *location,
			  const struct annotated_function *function)
{
	const char *name = outermost_name(annotator->profile, location);

	return function->file == annotator->mapping_files[location->mapping] &&
	       (name ? !strcmp(name, function->name)
		     : annotator_address_matches(annotator, location));
}

static int add_sampled_function(struct annotator *annotator,
				const struct profile_location *location)
{
	const struct profile *profile = annotator->profile;
	struct annotation *annotation = annotator->annotation;
	const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];
	const char *path = profile_text(profile, mapping->file);

	if (!is_wanted_file(annotator, path))
		return 0;
	if (annotator->mapping_files[location->mapping] == NO_FILE &&
	    annotator_add_file(annotator, location->mapping,
			       is_kernel_mapping(path, location->address)))
		return -ENOMEM;
	for (size_t i = 0; i < annotation->count; i++) {
		if (is_sampled_in(annotator, location, &annotation->functions[i]))
			return 0;
	}
	if (array_reserve(&annotation->functions, &annotation->capacity, annotation->count, 1,
			  sizeof(*annotation->functions)))
		return -ENOMEM;
	annotation->functions[annotation->count++] = (struct annotated_function){
		.path = path,
		.build_id = profile_text(profile, mapping->build_id),
		.name = outermost_name(profile, location) ?: annotator->query->name,
		.file = annotator->mapping_files[location->mapping],
	};
	return 0;
}

static int add_sampled_functions(struct annotator *annotator, bool inlined)
{
	const struct profile *profile = annotator->profile;
	int err = 0;

	annotator->annotation->is_inlined = inlined;
	for (size_t i = 1; i < profile->locations.count && !err; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		if (annotator_location_matches(annotator, location, inlined))
			err = add_sampled_function(annotator, location);
	}
	return err;
}

/* The lines of a location. Returns NULL when out of memory. */
static struct source_line *lines_of_location(const struct profile *profile,
					     const struct profile_location *location)
{
	const struct profile_line *lines = profile_lines(profile, location);
	struct source_line *copy = calloc(location->line_count + 1, sizeof(*copy));

	for (uint32_t i = 0; copy && i < location->line_count; i++) {
		const struct profile_function *function =
			&profile->functions.items[lines[i].function];

		copy[i] = (struct source_line){
			.function = function_name(profile, lines[i].function),
			.system_name = profile_text(profile, function->system_name),
			.file = function->file ? profile_text(profile, function->file) : NULL,
			.line = (uint32_t)MIN(MAX(lines[i].line, 0), UINT32_MAX),
		};
	}
	return copy;
}

static int add_sampled_address(const struct annotator *annotator,
			       const struct profile_location *location,
			       struct annotated_function *function)
{
	struct annotated_instruction *instruction;

	if (array_reserve(&function->instructions, &function->capacity, function->count, 1,
			  sizeof(*function->instructions)))
		return -ENOMEM;
	instruction = &function->instructions[function->count];
	*instruction = (struct annotated_instruction){
		.code.address = job_address(annotator, location),
		.lines = lines_of_location(annotator->profile, location),
		.line_count = location->line_count,
	};
	function->count += instruction->lines != NULL;
	return instruction->lines ? 0 : -ENOMEM;
}

static int add_sampled_addresses(const struct annotator *annotator)
{
	const struct profile *profile = annotator->profile;
	int err = 0;

	for (size_t i = 1; i < profile->locations.count && !err; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		if (annotator->mapping_files[location->mapping] == NO_FILE)
			continue;
		for (size_t j = 0; j < annotator->annotation->count && !err; j++) {
			struct annotated_function *function = &annotator->annotation->functions[j];

			if (!is_sampled_in(annotator, location, function))
				continue;
			annotator->functions[i] = function;
			err = add_sampled_address(annotator, location, function);
			break;
		}
	}
	return err;
}

static int compare_addresses(const void *left, const void *right)
{
	const struct annotated_instruction *a = left, *b = right;

	return (a->code.address > b->code.address) - (a->code.address < b->code.address);
}

/* Several mappings of a file have the same addresses. */
static void sort_sampled_addresses(struct annotated_function *function)
{
	struct annotated_instruction *instructions = function->instructions;
	size_t count = 0;

	qsort(instructions, function->count, sizeof(*instructions), compare_addresses);
	for (size_t i = 0; i < function->count; i++) {
		if (count && instructions[count - 1].code.address == instructions[i].code.address)
			free(instructions[i].lines);
		else
			instructions[count++] = instructions[i];
	}
	function->count = count;
	function->start = instructions[0].code.address;
	function->size = instructions[count - 1].code.address - function->start + 1;
}

static int annotator_run_without_code(struct annotator *annotator, struct error *error)
{
	const struct profile *profile = annotator->profile;
	struct annotation *annotation = annotator->annotation;
	int err = add_sampled_functions(annotator, false);

	if (!err && !annotation->count)
		err = add_sampled_functions(annotator, true);
	if (!err && !annotation->count)
		return refuse_name(annotator, error);
	if (!err)
		err = annotator_prepare_values(annotator);
	if (!err)
		err = add_sampled_addresses(annotator);
	if (err)
		return error_errno(error, -err, "can't annotate");
	for (size_t i = 0; i < annotation->count; i++)
		sort_sampled_addresses(&annotation->functions[i]);
	for (size_t i = 1; i < profile->locations.count; i++) {
		if (annotator->functions[i])
			annotator->instructions[i] = annotation_find(
				annotator->functions[i],
				job_address(annotator, &profile->locations.items[i]));
	}
	annotator_add_samples(annotator);
	return 0;
}

/* Returns 0 or the error of annotation_make(); annotator_clear() is to be called in both cases. */
static int annotator_init(struct annotator *annotator, struct error *error)
{
	const struct profile *profile = annotator->profile;
	int err;

	*annotator->annotation = (struct annotation){0};
	err = profile_find_type(profile, annotator->query->sample_type,
				&annotator->annotation->type, error);
	if (err)
		return err;
	annotator->mapping_files =
		malloc(profile->mappings.count * sizeof(*annotator->mapping_files));
	if (!annotator->mapping_files)
		return error_errno(error, ENOMEM, "can't annotate");
	for (size_t i = 0; i < profile->mappings.count; i++)
		annotator->mapping_files[i] = NO_FILE;
	return 0;
}

static void annotator_clear(struct annotator *annotator)
{
	for (size_t i = 0; i < annotator->file_count; i++) {
		if (annotator->files[i].code_fd >= 0)
			close(annotator->files[i].code_fd);
		free(annotator->files[i].addresses);
	}
	free(annotator->files);
	free(annotator->mapping_files);
	free(annotator->instructions);
	free(annotator->functions);
}

int annotation_make(const struct profile *profile, const struct annotation_query *query,
		    const struct symbol_source *source, const struct symbolize_options *options,
		    struct annotation *annotation, struct error *error)
{
	struct annotator annotator = {
		.profile = profile,
		.query = query,
		.source = source,
		.options = options,
		.annotation = annotation,
	};
	int err = annotator_init(&annotator, error);

	if (!err)
		err = annotator_run(&annotator, error);
	annotator_clear(&annotator);
	return err;
}

int annotation_make_without_code(const struct profile *profile,
				 const struct annotation_query *query,
				 struct annotation *annotation, struct error *error)
{
	struct annotator annotator = {
		.profile = profile,
		.query = query,
		.annotation = annotation,
	};
	int err = annotator_init(&annotator, error);

	if (!err)
		err = annotator_run_without_code(&annotator, error);
	annotator_clear(&annotator);
	return err;
}

void annotation_clear(struct annotation *annotation)
{
	for (size_t i = 0; i < annotation->count; i++) {
		struct annotated_function *function = &annotation->functions[i];

		for (size_t j = 0; j < function->count; j++)
			free(function->instructions[j].lines);
		free(function->instructions);
	}
	free(annotation->functions);
	string_table_clear(&annotation->strings);
	*annotation = (struct annotation){0};
}
