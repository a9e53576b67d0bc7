// SPDX-License-Identifier: GPL-2.0
#include "inspect/goroutine_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "inspect/go_process.h"
#include "inspect/goroutine_labels.h"
#include "inspect/goroutines.h"
#include "lib/clock.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "runtime/go_wait_reasons.h"

#define NS_PER_MINUTE (60 * NS_PER_SECOND)

static bool goroutine_is_shown(const struct goroutine_view *view, const struct goroutine *goroutine)
{
	return view->shows_system || !goroutine->is_system;
}

uint64_t goroutine_view_hidden(const struct goroutine_view *view)
{
	uint64_t hidden = 0;

	for (size_t i = 0; i < view->goroutines->count; i++)
		hidden += !goroutine_is_shown(view, &view->goroutines->items[i]);
	return hidden;
}

/* The profile */

/* The mappings of the files with Go's code; 0: it is not in the profile yet. */
struct file_mappings {
	uint32_t ids[GOROUTINE_OTHERS_MAX + 1];
};

static uint32_t goroutine_profile_add_mapping(struct profile *profile, const struct go_file *file)
{
	const struct profile_mapping mapping = {
		.limit = UINT64_MAX,
		.file = profile_string(profile, file->path),
		.build_id = profile_string(profile, file->file.build_id),
	};

	return profile_mapping(profile, &mapping);
}

/* Returns the location of the address `before` bytes before the address of a frame. */
static uint32_t goroutine_profile_add_location(struct profile *profile,
					       const struct go_process *process,
					       struct file_mappings *mappings, uint64_t frame,
					       unsigned int before)
{
	const size_t file = goroutine_frame_file(frame);

	if (!mappings->ids[file])
		mappings->ids[file] =
			goroutine_profile_add_mapping(profile, go_process_file(process, file));
	return profile_location(profile, mappings->ids[file],
				goroutine_frame_address(frame - before), NULL, 0);
}

static uint32_t goroutine_profile_add_stack(struct profile *profile,
					    const struct goroutine_view *view,
					    const struct goroutine_stack *stack,
					    struct file_mappings *mappings)
{
	uint32_t locations[GOROUTINE_FRAMES_MAX];

	for (uint32_t i = 0; i < stack->count; i++)
		locations[i] = goroutine_profile_add_location(
			profile, view->process, mappings,
			view->goroutines->frames[stack->first + i], 0);
	return profile_stack(profile, locations, stack->count);
}

static uint32_t goroutine_profile_add_labels(struct profile *profile, enum goroutine_end end,
					     const struct stackbeat_go_labels *go_labels)
{
	static const enum truncation causes[] = {
		[GOROUTINE_COMPLETE] = TRUNCATED_NOT,
		[GOROUTINE_NO_RULE] = TRUNCATED_NO_RULE,
		[GOROUTINE_BAD_FRAME] = TRUNCATED_UNREADABLE_MEMORY,
		[GOROUTINE_MAX_DEPTH] = TRUNCATED_MAX_DEPTH,
	};
	static const struct labels labels = {.chosen = LABEL_SET(LABEL_TRUNCATED)};
	static const struct label_origin origin;
	const struct label_process process = {
		.comm = "",
		.cgroup_path = "",
		.truncated = end == GOROUTINE_COMPLETE ? "" : truncation_name(causes[end]),
		.go_labels = go_labels,
	};
	struct label_values values;

	label_values(&labels, &origin, &process, &values);
	return labels_intern(profile, values.items, values.count);
}

/* Goroutines with the same labels and stack. */
struct group {
	uint64_t labels; /* address; 0: none */
	uint32_t stack; /* in goroutines->stacks */
};

static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->labels != y->labels)
		return x->labels < y->labels ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Sets the groups of all goroutines that are shown and have a stack, sorted. Returns their number.
 */
static size_t list_groups(const struct goroutine_view *view, struct group *groups)
{
	const struct goroutines *goroutines = view->goroutines;
	size_t count = 0;

	for (size_t i = 0; i < goroutines->count; i++) {
		const struct goroutine *goroutine = &goroutines->items[i];

		if (goroutine->stack != GOROUTINE_NO_STACK && goroutine_is_shown(view, goroutine) &&
		    goroutines->stacks[goroutine->stack].count)
			groups[count++] = (struct group){goroutine->labels, goroutine->stack};
	}
	qsort(groups, count, sizeof(*groups), compare_groups);
	return count;
}

static void goroutine_profile_add_samples(const struct goroutine_view *view, struct group *groups,
					  struct file_mappings *mappings,
					  struct goroutine_profile *result)
{
	const size_t count = list_groups(view, groups);
	const struct stackbeat_go_labels *labels = NULL;

	for (size_t i = 0, next; i < count; i = next) {
		const struct group *group = &groups[i];
		const struct goroutine_stack *stack = &view->goroutines->stacks[group->stack];
		int64_t value;

		for (next = i + 1; next < count && !compare_groups(group, &groups[next]);)
			next++;
		value = (int64_t)(next - i);
		if (!i || group->labels != group[-1].labels)
			labels = goroutine_labels_at(view->labels, group->labels);
		if (!result->stacks[group->stack])
			result->stacks[group->stack] =
				goroutine_profile_add_stack(result->profile, view, stack, mappings);
		profile_add(result->profile, result->stacks[group->stack],
			    goroutine_profile_add_labels(result->profile,
							 (enum goroutine_end)stack->end, labels),
			    &value);
	}
}

/* Adds the locations of the go statements that have created the goroutines. */
static void add_creators(const struct goroutine_view *view, struct file_mappings *mappings,
			 struct goroutine_profile *result)
{
	for (size_t i = 0; i < view->goroutines->count; i++) {
		const struct goroutine *goroutine = &view->goroutines->items[i];

		if (goroutine_is_shown(view, goroutine) && goroutine->creator)
			result->creators[i] = goroutine_profile_add_location(
				result->profile, view->process, mappings, goroutine->creator, 1);
	}
}

static void goroutine_profile_add_comments(struct profile *profile,
					   const struct goroutine_view *view)
{
	const struct goroutines *goroutines = view->goroutines;
	struct utsname kernel = {0};

	uname(&kernel);
	origin_add(profile, &kernel);
	profile_comment(profile, "goroutines of process %d, built by %s", view->process->pid,
			view->process->runtime.program.version);
	profile_comment(profile,
			"goroutines: %zu; of the runtime, left out %" PRIu64
			"; without a stack: running %" PRIu64 ", changed whenever read %" PRIu64
			"; not read %" PRIu64,
			goroutines->count, goroutine_view_hidden(view), goroutines->running,
			goroutines->moving, goroutines->unread);
}

static bool goroutine_profile_allocate(const struct goroutines *goroutines, bool creators,
				       struct goroutine_profile *result)
{
	*result = (struct goroutine_profile){
		.profile = profile_new(),
		.stacks = calloc(goroutines->stack_count + 1, sizeof(*result->stacks)),
	};
	if (creators)
		result->creators = calloc(goroutines->count + 1, sizeof(*result->creators));
	return result->profile && result->stacks && (!creators || result->creators);
}

int goroutine_profile_make(const struct goroutine_view *view, bool creators,
			   struct goroutine_profile *result)
{
	const struct goroutines *goroutines = view->goroutines;
	struct group *groups = calloc(goroutines->count + 1, sizeof(*groups));
	struct file_mappings mappings = {0};
	struct profile *profile;

	if (!goroutine_profile_allocate(goroutines, creators, result) || !groups) {
		free(groups);
		goroutine_profile_clear(result);
		return -ENOMEM;
	}
	profile = result->profile;
	profile_add_type(profile, "goroutine", "count");
	profile->period_type = profile->types.items[0];
	profile->period = 1;
	profile->time_ns = now_ns(CLOCK_REALTIME);
	goroutine_profile_add_comments(profile, view);
	/* The first mapping of a profile names what it is of. */
	mappings.ids[0] = goroutine_profile_add_mapping(profile, &view->process->runtime);
	goroutine_profile_add_samples(view, groups, &mappings, result);
	if (creators)
		add_creators(view, &mappings, result);
	free(groups);
	if (!profile->error)
		return 0;
	goroutine_profile_clear(result);
	return -ENOMEM;
}

void goroutine_profile_clear(struct goroutine_profile *result)
{
	profile_free(result->profile);
	free(result->stacks);
	free(result->creators);
	*result = (struct goroutine_profile){.profile = NULL};
}

/* Text */

static bool creator_has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool is_upper(char letter)
{
	return letter >= 'A' && letter <= 'Z';
}

/* As isExportedRuntime() in Go's runtime/traceback.go, of the name without the package. */
static bool is_exported(const char *name)
{
	const char *dot = strrchr(name, '.');

	if (!dot)
		return is_upper(*name);
	/* A method, as in (*Frames).Next: its type must be exported, too. */
	if (creator_has_prefix(name, "(*"))
		name += 2;
	return is_upper(dot[1]) && is_upper(*name);
}

/* As showfuncinfo(): functions of the runtime are hidden, but for those that a program calls. */
static bool is_function_shown(const struct goroutine_view *view, const char *name, bool is_first)
{
	static const char runtime[] = "runtime.";

	if (view->shows_system)
		return true;
	if (!strcmp(name, "runtime.gopanic"))
		return !is_first;
	if (!strcmp(name, "runtime.runFinalizers") || !strcmp(name, "runtime.runCleanups"))
		return true;
	return strchr(name, '.') &&
	       (!creator_has_prefix(name, runtime) || is_exported(name + sizeof(runtime) - 1));
}

struct goroutine_printer {
	const struct goroutine_view *view;
	const struct goroutine_profile *made;
	const struct profile *profile;
	int64_t now; /* ns, CLOCK_MONOTONIC of the process */
	FILE *out;
};

static const char *name_of(const struct profile *profile, uint32_t function)
{
	const char *name = profile_text(profile, profile->functions.items[function].name);

	return strcmp(name, "runtime.gopanic") ? name : "panic";
}

static const char *system_name_of(const struct profile *profile, uint32_t function)
{
	return profile_text(profile, profile->functions.items[function].system_name);
}

static void print_file(const struct goroutine_printer *printer, const struct profile_line *line)
{
	const struct profile *profile = printer->profile;
	const char *file = profile_text(profile, profile->functions.items[line->function].file);

	fprintf(printer->out, "\t%s:%" PRId64, *file ? file : "?", line->line);
}

/*
 * Prints the distance of an address in the code from the begin of its function, as Go does. The
 * last function that is shown may be inlined in a wrapper, which is not.
 */
static void print_offset(const struct goroutine_printer *printer, size_t file, uint64_t address,
			 bool is_interrupted)
{
	const struct go_program *program = &go_process_file(printer->view->process, file)->program;
	const struct go_program_function *function = go_program_function_at(program, address);
	uint64_t offset;

	if (!function || function->is_wrapper)
		return;
	offset = address + !is_interrupted - program->code_start - function->start;
	if (offset)
		fprintf(printer->out, " +0x%" PRIx64, offset);
}

/* Prints the functions at a location, of a frame, that are shown. */
static void goroutine_print_location(const struct goroutine_printer *printer, uint32_t number,
				     bool is_first, uint64_t frame)
{
	const struct profile *profile = printer->profile;
	const struct profile_location *location = &profile->locations.items[number];
	const struct profile_line *lines = profile_lines(profile, location);

	if (!location->line_count && !location->elided) {
		fprintf(printer->out, "0x%" PRIx64 "(...)\n", location->address);
		return;
	}
	for (uint32_t i = 0; i < location->line_count; i++) {
		const uint32_t function = lines[i].function;

		if (!is_function_shown(printer->view, system_name_of(profile, function),
				       is_first && !i))
			continue;
		fprintf(printer->out, "%s(...)\n", name_of(profile, function));
		print_file(printer, &lines[i]);
		if (i + 1 == location->line_count)
			print_offset(printer, goroutine_frame_file(frame), location->address,
				     frame & GOROUTINE_INTERRUPTED);
		fputc('\n', printer->out);
	}
}

static void goroutine_print_end(const struct goroutine_printer *printer, enum goroutine_end end)
{
	static const char *const texts[] = {
		[GOROUTINE_NO_RULE] = "code that is not Go's",
		[GOROUTINE_BAD_FRAME] = "a frame beyond the stack",
		[GOROUTINE_MAX_DEPTH] = "more frames",
	};

	if (end != GOROUTINE_COMPLETE)
		fprintf(printer->out, "...stack truncated: %s...\n", texts[end]);
}

static void goroutine_print_stack(const struct goroutine_printer *printer,
				  const struct goroutine *goroutine)
{
	const struct goroutines *goroutines = printer->view->goroutines;
	const struct goroutine_stack *stack;
	const uint32_t *locations;

	if (goroutine->stack == GOROUTINE_NO_STACK) {
		fputs(goroutine->status == GOROUTINE_RUNNING
			      ? "\tgoroutine running on other thread; stack unavailable\n"
			      : "\tgoroutine changed whenever it was read; stack unavailable\n",
		      printer->out);
		return;
	}
	stack = &goroutines->stacks[goroutine->stack];
	locations =
		profile_stack_locations(printer->profile, printer->made->stacks[goroutine->stack]);
	for (uint32_t i = 0; i < stack->count; i++)
		goroutine_print_location(printer, locations[i], !i,
					 goroutines->frames[stack->first + i]);
	goroutine_print_end(printer, stack->end);
}

/* The function comes from the machine code, and the line from the statement, as in Go. */
static void print_creator(const struct goroutine_printer *printer, size_t index)
{
	const struct goroutine *goroutine = &printer->view->goroutines->items[index];
	const struct profile *profile = printer->profile;
	const struct profile_location *location;
	const struct profile_line *lines;
	uint32_t function;

	if (!printer->made->creators[index] || goroutine->id == 1)
		return;
	location = &profile->locations.items[printer->made->creators[index]];
	if (!location->line_count)
		return;
	lines = profile_lines(profile, location);
	function = lines[location->line_count - 1].function;
	if (!is_function_shown(printer->view, system_name_of(profile, function), false))
		return;
	fprintf(printer->out, "created by %s", name_of(profile, function));
	if (goroutine->parent_id)
		fprintf(printer->out, " in goroutine %" PRIu64, goroutine->parent_id);
	fputc('\n', printer->out);
	print_file(printer, &lines[0]);
	print_offset(printer, goroutine_frame_file(goroutine->creator), location->address, false);
	fputc('\n', printer->out);
}

static const char *state_text(const struct goroutine_printer *printer,
			      const struct goroutine *goroutine)
{
	static const char *const texts[GOROUTINE_STATUSES] = {
		[GOROUTINE_IDLE] = "idle",           [GOROUTINE_RUNNABLE] = "runnable",
		[GOROUTINE_RUNNING] = "running",     [GOROUTINE_SYSCALL] = "syscall",
		[GOROUTINE_WAITING] = "waiting",     [GOROUTINE_DEAD] = "dead",
		[GOROUTINE_COPYSTACK] = "copystack", [GOROUTINE_PREEMPTED] = "preempted",
		[GOROUTINE_LEAKED] = "leaked",       [GOROUTINE_DEADEXTRA] = "dead",
	};
	const char *text = texts[goroutine->status];

	if ((goroutine->status == GOROUTINE_WAITING || goroutine->status == GOROUTINE_LEAKED) &&
	    goroutine->wait_reason)
		text = go_wait_reason(printer->view->process->runtime.program.minor,
				      goroutine->wait_reason);
	return text ? text : "???";
}

static void print_goroutine(const struct goroutine_printer *printer, size_t index)
{
	const struct goroutine *goroutine = &printer->view->goroutines->items[index];
	int64_t minutes = 0;

	fprintf(printer->out, "goroutine %" PRIu64 " [%s", goroutine->id,
		state_text(printer, goroutine));
	if (goroutine->status == GOROUTINE_LEAKED)
		fputs(" (leaked)", printer->out);
	if ((goroutine->status == GOROUTINE_WAITING || goroutine->status == GOROUTINE_SYSCALL) &&
	    goroutine->wait_since && goroutine->wait_since < (uint64_t)printer->now)
		minutes = (printer->now - (int64_t)goroutine->wait_since) / NS_PER_MINUTE;
	if (minutes)
		fprintf(printer->out, ", %" PRId64 " minutes", minutes);
	fputs("]:\n", printer->out);
	goroutine_print_stack(printer, goroutine);
	print_creator(printer, index);
}

/* CLOCK_MONOTONIC in the time namespace of a process. */
static int64_t process_now(pid_t pid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", pid);
	return kernel_now_ns(CLOCK_MONOTONIC) + clock_offset_in(path, "monotonic");
}

void goroutine_text_print(const struct goroutine_view *view, const struct goroutine_profile *made,
			  FILE *out)
{
	const struct goroutines *goroutines = view->goroutines;
	struct goroutine_printer printer = {
		.view = view,
		.made = made,
		.profile = made->profile,
		.now = process_now(view->process->pid),
		.out = out,
	};
	const char *separator = "";

	for (size_t i = 0; i < goroutines->count; i++) {
		if (!goroutine_is_shown(view, &goroutines->items[i]))
			continue;
		fputs(separator, out);
		separator = "\n";
		print_goroutine(&printer, i);
	}
}
