// SPDX-License-Identifier: GPL-2.0
#include "report/firefox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "lib/path.h"
#include "lib/string_table.h"
#include "report/frame_name.h"
#include "report/json_string.h"
#include "report/trace.h"

#define FORMAT_VERSION 56
#define NO_ENTRY UINT32_MAX /* printed as null */
/* Numbers up to there are exact in JavaScript. */
#define SAFE_INTEGER_MAX ((UINT64_C(1) << 53) - 1)
#define CPU_PROCESS "CPUs"
#define RESOURCE_TYPE_LIBRARY 1

/* Categories, in the order of meta.categories. */
enum category { CATEGORY_OTHER, CATEGORY_USER, CATEGORY_KERNEL };

/* A function of all threads: frames with the same one are one row of a call tree. */
struct shown_function {
	uint32_t name, file; /* strings; file: NO_ENTRY: unknown */
	int64_t line;
	uint32_t mapping; /* 0: none */
};

/* A frame of all threads. */
struct shown_frame {
	uint32_t function, category;
	uint32_t depth; /* of inlining at its address */
	uint64_t address; /* in its library; above SAFE_INTEGER_MAX: unknown */
	int64_t line, column; /* 0: unknown */
	bool is_set; /* a stack of a thread has it */
};

/* A growing array of numbers. */
struct column {
	uint32_t *items;
	size_t count, capacity;
};

/* Entries of all threads that a thread uses, and their numbers in the thread. */
struct used {
	uint32_t *numbers; /* by entry; NO_ENTRY: it has none */
	struct column entries; /* by number */
};

struct firefox {
	const struct trace *trace;
	FILE *out;
	struct string_table strings;
	struct shown_frame *frames; /* by number of the trace */
	struct shown_function *functions;
	size_t function_count, function_capacity;
	struct hash function_index;
	/* Of the thread that is being printed. */
	struct used used_frames, used_functions, used_mappings;
	struct column node_frames, node_prefixes; /* the tree of its stacks */
	struct hash node_index;
	uint32_t *nodes; /* by stack; NO_ENTRY: it has none yet */
	struct column node_stacks; /* stacks with a node */
	uint32_t *path; /* frames of a stack */
};

static int column_add(struct column *column, uint32_t item)
{
	if (array_reserve(&column->items, &column->capacity, column->count, 1,
			  sizeof(*column->items)))
		return -ENOMEM;
	column->items[column->count++] = item;
	return 0;
}

/* Functions and frames */

/* Returns the index of a string, or NO_ENTRY without memory. */
static uint32_t firefox_string(struct firefox *firefox, const char *text)
{
	const uint32_t index = string_table_add(&firefox->strings, text, strlen(text));

	return index == STRING_NONE ? NO_ENTRY : index;
}

static bool shown_function_equal(const void *context, uint32_t index, const void *key)
{
	const struct shown_function *a = &((const struct firefox *)context)->functions[index];
	const struct shown_function *b = key;

	return a->name == b->name && a->file == b->file && a->line == b->line &&
	       a->mapping == b->mapping;
}

/* Returns the index of a function, or NO_ENTRY without memory. */
static uint32_t firefox_function(struct firefox *firefox, const struct shown_function *function)
{
	uint32_t hash = hash_number(HASH_START, (uint64_t)function->name << 32 | function->file);
	uint32_t index;

	hash = hash_number(hash_number(hash, (uint64_t)function->line), function->mapping);
	index = hash_find(&firefox->function_index, hash, shown_function_equal, firefox, function);
	if (index != HASH_NONE)
		return index;
	if (array_reserve(&firefox->functions, &firefox->function_capacity, firefox->function_count,
			  1, sizeof(*firefox->functions)) ||
	    hash_add(&firefox->function_index, hash, (uint32_t)firefox->function_count))
		return NO_ENTRY;
	firefox->functions[firefox->function_count] = *function;
	return (uint32_t)firefox->function_count++;
}

static enum category category_of(const struct profile *profile,
				 const struct profile_location *location)
{
	const char *file = location_file(profile, location);

	if (!*file)
		return CATEGORY_OTHER;
	return is_kernel_file(file) ? CATEGORY_KERNEL : CATEGORY_USER;
}

/* Sets a frame, unless that was done before. Returns 0 or -ENOMEM. */
static int firefox_set_frame(struct firefox *firefox, uint32_t number)
{
	const struct trace *trace = firefox->trace;
	const uint32_t location = trace_frame_location(trace, number);
	const uint32_t index = number - trace->first_frames[location];
	const struct profile *profile = trace->profile;
	const struct profile_location *at = &profile->locations.items[location];
	const struct profile_mapping *mapping = &profile->mappings.items[at->mapping];
	const struct profile_line *line = trace_line(trace, location, index);
	struct shown_frame *frame = &firefox->frames[number];
	struct shown_function function = {.file = NO_ENTRY, .mapping = at->mapping};
	char *name;
	int err;

	if (frame->is_set)
		return 0;
	err = trace_frame_name(trace, location, line, &name);
	if (err)
		return err;
	function.name = firefox_string(firefox, name);
	free(name);
	if (line && profile->functions.items[line->function].file)
		function.file = firefox_string(
			firefox,
			profile_text(profile, profile->functions.items[line->function].file));
	if (line)
		function.line = profile->functions.items[line->function].start_line;
	*frame = (struct shown_frame){
		.function = firefox_function(firefox, &function),
		.category = category_of(profile, at),
		.depth = at->line_count ? at->line_count - 1 - index : 0,
		.address = at->mapping ? at->address - mapping->start + mapping->offset
				       : SAFE_INTEGER_MAX + 1,
		.line = line ? line->line : 0,
		.column = line ? line->column : 0,
		.is_set = true,
	};
	return function.name == NO_ENTRY || frame->function == NO_ENTRY ? -ENOMEM : 0;
}

/* The tables of a thread */

static int used_init(struct used *used, size_t count)
{
	used->numbers = calloc(count + 1, sizeof(*used->numbers));
	if (!used->numbers)
		return -ENOMEM;
	memset(used->numbers, 0xff, (count + 1) * sizeof(*used->numbers));
	return 0;
}

static void used_reset(struct used *used)
{
	for (size_t i = 0; i < used->entries.count; i++)
		used->numbers[used->entries.items[i]] = NO_ENTRY;
	used->entries.count = 0;
}

static void used_clear(struct used *used)
{
	free(used->numbers);
	free(used->entries.items);
}

/* Returns 0 or -ENOMEM. */
static int used_add(struct used *used, uint32_t entry)
{
	if (used->numbers[entry] != NO_ENTRY)
		return 0;
	if (column_add(&used->entries, entry))
		return -ENOMEM;
	used->numbers[entry] = (uint32_t)used->entries.count - 1;
	return 0;
}

static int use_frame(struct firefox *firefox, uint32_t frame)
{
	uint32_t function, mapping;

	if (firefox_set_frame(firefox, frame))
		return -ENOMEM;
	function = firefox->frames[frame].function;
	mapping = firefox->functions[function].mapping;
	if (used_add(&firefox->used_frames, frame) || used_add(&firefox->used_functions, function))
		return -ENOMEM;
	return mapping ? used_add(&firefox->used_mappings, mapping) : 0;
}

struct stack_node_key {
	uint32_t prefix, frame;
};

static bool stack_node_equal(const void *context, uint32_t index, const void *key)
{
	const struct firefox *firefox = context;
	const struct stack_node_key *wanted = key;

	return firefox->node_prefixes.items[index] == wanted->prefix &&
	       firefox->node_frames.items[index] == wanted->frame;
}

/* Returns the node of a frame called by `prefix` (NO_ENTRY: none), or NO_ENTRY without memory. */
static uint32_t firefox_add_node(struct firefox *firefox, uint32_t prefix, uint32_t frame)
{
	const struct stack_node_key key = {prefix, frame};
	const uint32_t hash = hash_number(HASH_START, (uint64_t)prefix << 32 | frame);
	uint32_t index = hash_find(&firefox->node_index, hash, stack_node_equal, firefox, &key);

	if (index != HASH_NONE)
		return index;
	index = (uint32_t)firefox->node_frames.count;
	if (column_add(&firefox->node_frames, frame))
		return NO_ENTRY;
	if (column_add(&firefox->node_prefixes, prefix) ||
	    hash_add(&firefox->node_index, hash, index))
		return NO_ENTRY;
	return index;
}

/* Adds the tables' entries of a stack. Returns 0 or -ENOMEM. */
static int use_stack(struct firefox *firefox, uint32_t stack)
{
	const size_t depth = trace_stack_frames(firefox->trace, stack, firefox->path);
	uint32_t node = NO_ENTRY;

	if (firefox->nodes[stack] != NO_ENTRY || !depth)
		return 0;
	for (size_t i = 0; i < depth; i++) {
		if (use_frame(firefox, firefox->path[i]))
			return -ENOMEM;
		node = firefox_add_node(firefox, node,
					firefox->used_frames.numbers[firefox->path[i]]);
		if (node == NO_ENTRY)
			return -ENOMEM;
	}
	firefox->nodes[stack] = node;
	return column_add(&firefox->node_stacks, stack);
}

static void reset_thread(struct firefox *firefox)
{
	used_reset(&firefox->used_frames);
	used_reset(&firefox->used_functions);
	used_reset(&firefox->used_mappings);
	for (size_t i = 0; i < firefox->node_stacks.count; i++)
		firefox->nodes[firefox->node_stacks.items[i]] = NO_ENTRY;
	firefox->node_stacks.count = 0;
	firefox->node_frames.count = firefox->node_prefixes.count = 0;
	hash_clear(&firefox->node_index);
}

/* Printing */

static void print_entry(FILE *out, size_t index, uint32_t entry)
{
	if (entry == NO_ENTRY)
		fprintf(out, "%snull", index ? "," : "");
	else
		fprintf(out, "%s%" PRIu32, index ? "," : "", entry);
}

static void print_column(FILE *out, const char *name, const struct column *column)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < column->count; i++)
		print_entry(out, i, column->items[i]);
	fputc(']', out);
}

static void print_constants(FILE *out, const char *name, const char *value, size_t count)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? "," : "", value);
	fputc(']', out);
}

/* A number of which 0 stands for none. */
static void print_known(FILE *out, size_t index, int64_t number)
{
	if (number > 0)
		fprintf(out, "%s%" PRId64, index ? "," : "", number);
	else
		fprintf(out, "%snull", index ? "," : "");
}

static void print_milliseconds(FILE *out, int64_t ns)
{
	fprintf(out, "%" PRId64 ".%06" PRId64, ns / 1000000, ns % 1000000);
}

enum frame_column {
	FRAME_ADDRESS,
	FRAME_DEPTH,
	FRAME_CATEGORY,
	FRAME_FUNC,
	FRAME_LINE,
	FRAME_COLUMN
};

static void print_frame_column(const struct firefox *firefox, const char *name,
			       enum frame_column which)
{
	FILE *out = firefox->out;

	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < firefox->used_frames.entries.count; i++) {
		const struct shown_frame *frame =
			&firefox->frames[firefox->used_frames.entries.items[i]];

		switch (which) {
		case FRAME_ADDRESS:
			if (frame->address > SAFE_INTEGER_MAX)
				fprintf(out, "%s-1", i ? "," : "");
			else
				fprintf(out, "%s%" PRIu64, i ? "," : "", frame->address);
			break;
		case FRAME_DEPTH:
			print_entry(out, i, frame->depth);
			break;
		case FRAME_CATEGORY:
			print_entry(out, i, frame->category);
			break;
		case FRAME_FUNC:
			print_entry(out, i, firefox->used_functions.numbers[frame->function]);
			break;
		case FRAME_LINE:
			print_known(out, i, frame->line);
			break;
		case FRAME_COLUMN:
			print_known(out, i, frame->column);
			break;
		}
	}
	fputc(']', out);
}

static void firefox_print_frames(const struct firefox *firefox)
{
	const size_t count = firefox->used_frames.entries.count;

	fprintf(firefox->out, ",\n\"frameTable\":{\"length\":%zu", count);
	print_frame_column(firefox, "address", FRAME_ADDRESS);
	print_frame_column(firefox, "inlineDepth", FRAME_DEPTH);
	print_frame_column(firefox, "category", FRAME_CATEGORY);
	print_constants(firefox->out, "subcategory", "0", count);
	print_frame_column(firefox, "func", FRAME_FUNC);
	print_constants(firefox->out, "nativeSymbol", "null", count);
	print_constants(firefox->out, "innerWindowID", "null", count);
	print_frame_column(firefox, "line", FRAME_LINE);
	print_frame_column(firefox, "column", FRAME_COLUMN);
	fputc('}', firefox->out);
}

static const struct shown_function *used_function(const struct firefox *firefox, size_t i)
{
	return &firefox->functions[firefox->used_functions.entries.items[i]];
}

static void firefox_print_functions(const struct firefox *firefox)
{
	const size_t count = firefox->used_functions.entries.count;
	FILE *out = firefox->out;

	fprintf(out, ",\n\"funcTable\":{\"length\":%zu,\"name\":[", count);
	for (size_t i = 0; i < count; i++)
		print_entry(out, i, used_function(firefox, i)->name);
	fputc(']', out);
	print_constants(out, "isJS", "false", count);
	print_constants(out, "relevantForJS", "false", count);
	fputs(",\"resource\":[", out);
	for (size_t i = 0; i < count; i++) {
		const uint32_t mapping = used_function(firefox, i)->mapping;

		if (mapping)
			print_entry(out, i, firefox->used_mappings.numbers[mapping]);
		else
			fprintf(out, "%s-1", i ? "," : "");
	}
	fputs("],\"fileName\":[", out);
	for (size_t i = 0; i < count; i++)
		print_entry(out, i, used_function(firefox, i)->file);
	fputs("],\"lineNumber\":[", out);
	for (size_t i = 0; i < count; i++)
		print_known(out, i, used_function(firefox, i)->line);
	fputc(']', out);
	print_constants(out, "columnNumber", "null", count);
	fputc('}', out);
}

/* The library of a mapping has the index of the mapping, from 0 on. Returns 0 or -ENOMEM. */
static int print_resources(struct firefox *firefox)
{
	const struct profile *profile = firefox->trace->profile;
	const struct column *mappings = &firefox->used_mappings.entries;
	FILE *out = firefox->out;

	fprintf(out, ",\n\"resourceTable\":{\"length\":%zu,\"lib\":[", mappings->count);
	for (size_t i = 0; i < mappings->count; i++)
		print_entry(out, i, mappings->items[i] - 1);
	fputs("],\"name\":[", out);
	for (size_t i = 0; i < mappings->count; i++) {
		const char *file =
			profile_text(profile, profile->mappings.items[mappings->items[i]].file);
		const uint32_t name = firefox_string(firefox, path_base_name(file));

		if (name == NO_ENTRY)
			return -ENOMEM;
		print_entry(out, i, name);
	}
	fputc(']', out);
	print_constants(out, "host", "null", mappings->count);
	fputs(",\"type\":[", out);
	for (size_t i = 0; i < mappings->count; i++)
		print_entry(out, i, RESOURCE_TYPE_LIBRARY);
	fputs("]}", out);
	return 0;
}

enum sample_column { SAMPLE_STACK, SAMPLE_TIME, SAMPLE_CPU_TIME };

/* Prints an entry for each sample, and one for each gap before a sample. Returns their number. */
static size_t print_sample_column(const struct firefox *firefox, const struct trace_track *track,
				  enum sample_column which)
{
	const int64_t start = firefox->trace->start_ns;
	int64_t before = INT64_MIN;
	FILE *out = firefox->out;
	size_t printed = 0;

	for (size_t i = 0; i < track->count; i++) {
		const struct trace_sample *sample = trace_track_sample(firefox->trace, track, i);
		const int64_t begin = MAX(start, trace_begin(firefox->trace, before, sample));

		for (int part = begin > before ? 0 : 1; part < 2; part++) {
			const int64_t time = part ? sample->time_ns : begin;

			if (which == SAMPLE_STACK) {
				print_entry(out, printed,
					    part ? firefox->nodes[sample->stack] : NO_ENTRY);
			} else if (which == SAMPLE_TIME) {
				fputs(printed ? "," : "", out);
				print_milliseconds(out, time - start);
			} else {
				fprintf(out, "%s%" PRId64, printed ? "," : "",
					part ? sample->time_ns - begin : 0);
			}
			printed++;
		}
		before = sample->time_ns;
	}
	return printed;
}

static void firefox_print_samples(const struct firefox *firefox, const struct trace_track *track)
{
	FILE *out = firefox->out;
	size_t count;

	fputs(",\n\"samples\":{\"weight\":null,\"weightType\":\"samples\",\n\"stack\":[", out);
	count = print_sample_column(firefox, track, SAMPLE_STACK);
	fputs("],\n\"time\":[", out);
	print_sample_column(firefox, track, SAMPLE_TIME);
	fputs("],\n\"threadCPUDelta\":[", out);
	print_sample_column(firefox, track, SAMPLE_CPU_TIME);
	fprintf(out, "],\"length\":%zu}", count);
}

/* What a thread has before its tables. */
struct thread_head {
	const char *name, *process;
	char pid[24], tid[24]; /* in JSON: texts or numbers */
	bool is_main;
};

static int print_thread(struct firefox *firefox, const struct thread_head *head,
			const struct trace_track *track)
{
	FILE *out = firefox->out;
	int err = 0;

	reset_thread(firefox);
	for (size_t i = 0; i < track->count && !err; i++)
		err = use_stack(firefox, trace_track_sample(firefox->trace, track, i)->stack);
	fputs("{\"name\":", out);
	err = err ?: json_string_print(head->name, out);
	fputs(",\"processName\":", out);
	err = err ?: json_string_print(head->process, out);
	fprintf(out,
		",\"processType\":\"default\",\"processStartupTime\":0,"
		"\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
		"\"pausedRanges\":[],\"isMainThread\":%s,\"pid\":\"%s\",\"tid\":%s,\n"
		"\"markers\":{\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],"
		"\"endTime\":[],\"phase\":[],\"category\":[]},\n"
		"\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],"
		"\"functionSize\":[]}",
		head->is_main ? "true" : "false", head->pid, head->tid);
	if (err)
		return err;
	firefox_print_samples(firefox, track);
	fprintf(out, ",\n\"stackTable\":{\"length\":%zu", firefox->node_frames.count);
	print_column(out, "prefix", &firefox->node_prefixes);
	print_column(out, "frame", &firefox->node_frames);
	fputc('}', out);
	firefox_print_frames(firefox);
	firefox_print_functions(firefox);
	err = print_resources(firefox);
	fputs("}", out);
	return err;
}

static int print_threads(struct firefox *firefox)
{
	const struct trace *trace = firefox->trace;
	int err = 0;

	for (size_t i = 0; i < trace->thread_count && !err; i++) {
		const struct trace_track *thread = &trace->threads[i];
		struct thread_head head = {
			.name = thread->name,
			.process = *thread->process ? thread->process : thread->name,
			.is_main = thread->pid == thread->tid,
		};

		snprintf(head.pid, sizeof(head.pid), "%" PRId64, thread->pid);
		snprintf(head.tid, sizeof(head.tid), "%" PRId64, thread->tid);
		fputs(i ? ",\n" : "", firefox->out);
		err = print_thread(firefox, &head, thread);
	}
	for (size_t i = 0; i < trace->cpu_count && !err; i++) {
		const struct trace_track *cpu = &trace->cpus[i];
		struct thread_head head = {.process = CPU_PROCESS, .pid = CPU_PROCESS};
		char name[24];

		snprintf(name, sizeof(name), "CPU %" PRIu32, cpu->cpu);
		head.name = name;
		snprintf(head.tid, sizeof(head.tid), "\"cpu%" PRIu32 "\"", cpu->cpu);
		fputs(trace->thread_count || i ? ",\n" : "", firefox->out);
		err = print_thread(firefox, &head, cpu);
	}
	return err;
}

static int print_libraries(const struct firefox *firefox)
{
	const struct profile *profile = firefox->trace->profile;
	FILE *out = firefox->out;
	int err = 0;

	fputs(",\n\"libs\":[", out);
	for (size_t i = 1; i < profile->mappings.count && !err; i++) {
		const struct profile_mapping *mapping = &profile->mappings.items[i];
		const char *path = profile_text(profile, mapping->file);
		const char *keys[] = {"name", "debugName", "path", "debugPath"};

		fputs(i > 1 ? ",\n{\"arch\":\"\",\"breakpadId\":\"\""
			    : "{\"arch\":\"\",\"breakpadId\":\"\"",
		      out);
		for (size_t j = 0; j < 4 && !err; j++) {
			fprintf(out, ",\"%s\":", keys[j]);
			err = json_string_print(j < 2 ? path_base_name(path) : path, out);
		}
		fputs(",\"codeId\":", out);
		if (mapping->build_id)
			err = err
				      ?: json_string_print(profile_text(profile, mapping->build_id),
							   out);
		else
			fputs("null", out);
		fputc('}', out);
	}
	fputc(']', out);
	return err;
}

static int print_meta(const struct firefox *firefox, const char *name)
{
	const struct trace *trace = firefox->trace;
	FILE *out = firefox->out;
	int err;

	fputs("{\"meta\":{\"interval\":", out);
	print_milliseconds(out, MAX(1, trace->profile->period));
	fputs(",\"startTime\":", out);
	print_milliseconds(out, trace->start_ns);
	fprintf(out,
		",\"preprocessedProfileVersion\":%d,\"version\":31,\"processType\":0,"
		"\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,\"pausedRanges\":[],"
		"\"markerSchema\":[],\"usesOnlyOneStackType\":true,"
		"\"sourceCodeIsNotOnSearchfox\":true,\"importedFrom\":\"stackbeat\",\n"
		"\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},"
		"\n"
		"\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]},\n"
		"\"categories\":["
		"{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
		"{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
		"{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}],\n"
		"\"product\":",
		FORMAT_VERSION);
	err = json_string_print(name, out);
	fputc('}', out);
	return err;
}

static int print_all(struct firefox *firefox, const char *name)
{
	FILE *out = firefox->out;
	int err = print_meta(firefox, name) ?: print_libraries(firefox);

	fputs(",\n\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\n\"threads\":[", out);
	err = err ?: print_threads(firefox);
	fputs("],\n\"shared\":{\"stringArray\":[", out);
	for (size_t i = 0; i < firefox->strings.count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = json_string_print(firefox->strings.items[i], out);
	}
	fputs("]}}\n", out);
	return err;
}

int print_firefox(const struct trace *trace, const char *name, FILE *out)
{
	struct firefox firefox = {.trace = trace, .out = out};
	const struct profile *profile = trace->profile;
	int err = -ENOMEM;

	firefox.frames = calloc(trace_frame_count(trace) + 1, sizeof(*firefox.frames));
	firefox.path = calloc(trace->deepest + 1, sizeof(*firefox.path));
	firefox.nodes = calloc(profile->stacks.count, sizeof(*firefox.nodes));
	if (firefox.frames && firefox.path && firefox.nodes) {
		memset(firefox.nodes, 0xff, profile->stacks.count * sizeof(*firefox.nodes));
		err = used_init(&firefox.used_frames, trace_frame_count(trace)) ?:
		      used_init(&firefox.used_functions, trace_frame_count(trace)) ?:
		      used_init(&firefox.used_mappings, profile->mappings.count) ?:
		      print_all(&firefox, name);
	}
	string_table_clear(&firefox.strings);
	hash_clear(&firefox.function_index);
	hash_clear(&firefox.node_index);
	used_clear(&firefox.used_frames);
	used_clear(&firefox.used_functions);
	used_clear(&firefox.used_mappings);
	free(firefox.node_frames.items);
	free(firefox.node_prefixes.items);
	free(firefox.node_stacks.items);
	free(firefox.frames);
	free(firefox.functions);
	free(firefox.nodes);
	free(firefox.path);
	return err;
}
