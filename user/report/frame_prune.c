// SPDX-License-Identifier: GPL-2.0
#include "report/frame_prune.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"

/* regcomp() recurses for each group, and a file can have any pattern. */
#define PATTERN_MAX ((size_t)1 << 14)
#define GROUPS_MAX 100u
/* Repetitions and alternatives: the memory and time of regexec() grow with their square. */
#define CHOICES_MAX 512u
#define FUNCTION_MAX 4096u
/*
 * regexec() keeps a state for each character that it has not seen in a state before, of 30 KiB with
 * the most choices: after these bytes of names, the expression is compiled again.
 */
#define COMPILED_BYTES_MAX 8192u
/* CPU time of all names. */
#define PRUNE_CPU_NS (10 * NS_PER_SECOND)

/* The text of a pattern of RE2, and its translation. */
struct pattern {
	const char *at;
	char *out;
	unsigned int groups; /* that are open */
	/* What regcomp() makes of the contents of each open group, with the pattern at 0. */
	struct pattern_size {
		size_t parts, choices;
	} sizes[GROUPS_MAX + 1];
	struct pattern_size last; /* of these, the last item */
};

static void pattern_size_add(struct pattern_size *size, struct pattern_size added)
{
	size->parts += added.parts;
	size->choices += added.choices;
}

static void pattern_copy(struct pattern *pattern, size_t count)
{
	memcpy(pattern->out, pattern->at, count);
	pattern->out += count;
	pattern->at += count;
}

static bool pattern_escape(struct pattern *pattern)
{
	static const char digit[] = "[0-9]", other[] = "[^0-9]";
	const char escaped = pattern->at[1];

	if (escaped == 'd' || escaped == 'D') {
		const char *set = escaped == 'd' ? digit : other;

		memcpy(pattern->out, set, strlen(set));
		pattern->out += strlen(set);
		pattern->at += 2;
		return true;
	}
	/* Both have these; a digit would be a reference here, and takes exponential time. */
	if (!escaped || (isalnum((unsigned char)escaped) && !strchr("wWsSbB", escaped)))
		return false;
	pattern_copy(pattern, 2);
	return true;
}

static bool pattern_bracket(struct pattern *pattern)
{
	const char *end = pattern->at + 1;

	end += *end == '^';
	end += *end == ']';
	while (*end && *end != ']') {
		/* Escapes and classes in brackets differ. */
		if (*end == '\\' || *end == '[')
			return false;
		end++;
	}
	if (!*end)
		return false;
	pattern_copy(pattern, (size_t)(end - pattern->at) + 1);
	return true;
}

/*
 * Counts what regcomp() makes of an item that begins with `c`: it copies what is repeated by "+",
 * so that nested repetitions double each time. Returns whether that is little.
 */
static bool pattern_count(struct pattern *pattern, char c)
{
	struct pattern_size *size = &pattern->sizes[pattern->groups];
	const struct pattern_size item = {1, strchr("*+?|", c) ? 1 : 0};

	if (c == '(') {
		*size = (struct pattern_size){0};
		return true;
	}
	if (c == ')') {
		pattern->last = size[1];
		pattern_size_add(size, pattern->last);
	} else if (c == '+') {
		pattern_size_add(size, pattern->last);
		pattern_size_add(&pattern->last, pattern->last);
	} else if (!strchr("*?", c)) {
		pattern->last = (struct pattern_size){0};
	}
	pattern_size_add(&pattern->last, item);
	pattern_size_add(size, item);
	return size->parts <= PATTERN_MAX && size->choices <= CHOICES_MAX;
}

static bool pattern_item(struct pattern *pattern)
{
	const char c = *pattern->at;

	switch (c) {
	case '\\':
		return pattern_escape(pattern);
	case '[':
		return pattern_bracket(pattern);
	case '{':
		/* Nested repetitions occupy any amount of memory. */
		return false;
	case '(':
		if (++pattern->groups > GROUPS_MAX)
			return false;
		pattern_copy(pattern, 1);
		if (*pattern->at != '?')
			return true;
		if (pattern->at[1] != ':')
			return false;
		pattern->at += 2;
		return true;
	case ')':
		if (!pattern->groups--)
			return false;
		break;
	default:
		break;
	}
	pattern_copy(pattern, 1);
	/* What is compared as a whole is matched by a lazy repetition where a greedy one does. */
	if (strchr("*+?", c) && *pattern->at == '?')
		pattern->at++;
	return true;
}

/* An expression, and what was matched since it was compiled. */
struct frame_pattern {
	char *text; /* NULL: there is none */
	regex_t regex;
	bool is_compiled;
	size_t matched; /* bytes */
};

static void frame_pattern_clear(struct frame_pattern *frames)
{
	if (frames->is_compiled)
		regfree(&frames->regex);
	frames->is_compiled = false;
	frames->matched = 0;
}

/* Returns 0, -EINVAL or -ENOMEM. */
static int frame_pattern_compile(struct frame_pattern *frames)
{
	int err;

	frame_pattern_clear(frames);
	err = regcomp(&frames->regex, frames->text, REG_EXTENDED | REG_NOSUB);
	frames->is_compiled = !err;
	return err == REG_ESPACE ? -ENOMEM : err ? -EINVAL : 0;
}

static void frame_pattern_free(struct frame_pattern *frames)
{
	frame_pattern_clear(frames);
	free(frames->text);
}

/*
 * Sets the expression to "^(TEXT)$" of RE2. Returns 0, -EINVAL if POSIX has no equal expression, or
 * -ENOMEM.
 */
static int frame_pattern_init(struct frame_pattern *frames, const char *text)
{
	char *translated = malloc(6 * strlen(text) + sizeof("^()$"));
	struct pattern pattern = {.at = text, .out = translated};
	bool translates = strlen(text) <= PATTERN_MAX;

	if (!translated)
		return -ENOMEM;
	frames->text = translated;
	memcpy(pattern.out, "^(", 2);
	pattern.out += 2;
	while (translates && *pattern.at) {
		const char c = *pattern.at;

		translates = pattern_item(&pattern) && pattern_count(&pattern, c);
	}
	memcpy(pattern.out, ")$", sizeof(")$"));
	return !translates || pattern.groups ? -EINVAL : frame_pattern_compile(frames);
}

/* Returns 1, 0, or -ENOMEM. */
static int frame_pattern_matches(struct frame_pattern *frames, const char *name)
{
	const size_t length = strlen(name);
	int err = 0;

	if (frames->matched && frames->matched + length > COMPILED_BYTES_MAX)
		err = frame_pattern_compile(frames);
	if (err)
		return -ENOMEM;
	frames->matched += length;
	return !regexec(&frames->regex, name, 0, NULL, 0);
}

/* The functions of a profile that are to be dropped. */
struct droppers {
	struct frame_pattern drop, keep;
	int64_t end_ns; /* CPU time of the thread */
};

/* Copies a name without its arguments, as simplifyFunc() of pprof. */
static void simple_name(const char *name, char simple[FUNCTION_MAX])
{
	static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
	size_t used = 0;

	name += *name == '.';
	while (*name && used < FUNCTION_MAX - 1) {
		size_t length = 1;

		for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++) {
			if (!strncmp(name, reserved[i], strlen(reserved[i])))
				length = strlen(reserved[i]);
		}
		if ((length == 1 && *name == '(') || used + length >= FUNCTION_MAX)
			break;
		memcpy(simple + used, name, length);
		used += length;
		name += length;
	}
	simple[used] = '\0';
}

/* Returns 1, 0, -ENOMEM, or -ETIME if the names take too much CPU time. */
static int is_dropped_function(struct droppers *droppers, const char *name)
{
	char simple[FUNCTION_MAX];
	int dropped, kept = 0;

	if (!*name)
		return 0;
	if (now_ns(CLOCK_THREAD_CPUTIME_ID) > droppers->end_ns)
		return -ETIME;
	simple_name(name, simple);
	dropped = frame_pattern_matches(&droppers->drop, simple);
	if (dropped > 0 && droppers->keep.text)
		kept = frame_pattern_matches(&droppers->keep, simple);
	return kept < 0 ? kept : kept ? 0 : dropped;
}

struct pruner {
	const struct profile *from;
	struct profile *into;
	struct profile_translation translation;
	uint32_t *cuts; /* of each location: its lines that are dropped, the innermost ones */
	uint32_t *room; /* for one stack or label set */
};

/* Finds the outermost dropped line of each location. Returns 0, -ENOMEM or -ETIME. */
static int find_cuts(struct pruner *pruner, struct droppers *droppers)
{
	const struct profile *from = pruner->from;
	bool *dropped = calloc(from->functions.count, sizeof(*dropped));
	int found = dropped ? 0 : -ENOMEM;

	for (size_t i = 1; i < from->functions.count && found >= 0; i++) {
		found = is_dropped_function(droppers,
					    profile_text(from, from->functions.items[i].name));
		if (found >= 0)
			dropped[i] = found;
	}
	for (size_t i = 1; i < from->locations.count && found >= 0; i++) {
		const struct profile_location *location = &from->locations.items[i];
		uint32_t cut = location->line_count;

		while (cut && !dropped[profile_lines(from, location)[cut - 1].function])
			cut--;
		pruner->cuts[i] = cut;
	}
	free(dropped);
	return MIN(found, 0);
}

/* Returns the location of the new profile, without the lines that are dropped. */
static uint32_t pruned_location(struct pruner *pruner, uint32_t number)
{
	const struct profile_location *old = &pruner->from->locations.items[number];
	uint32_t place = profile_translate_location(&pruner->translation, number);
	uint32_t cut = pruner->cuts[number];
	const struct profile_location *whole = &pruner->into->locations.items[place];
	struct profile_line *lines;

	/* A location of which nothing is left stays only at the root, as it is. */
	if (!place || !cut || cut == old->line_count)
		return place;
	lines = malloc((old->line_count - cut) * sizeof(*lines));
	if (!lines) {
		pruner->into->error = -ENOMEM;
		return 0;
	}
	memcpy(lines, profile_lines(pruner->into, whole) + cut,
	       (old->line_count - cut) * sizeof(*lines));
	place = profile_location(pruner->into, whole->mapping, old->address, lines,
				 old->line_count - cut);
	pruner->into->locations.items[place].is_folded |= old->is_folded && place;
	free(lines);
	return place;
}

/* Returns the index of the first frame that stays, leaf first. */
static uint32_t first_kept(const struct pruner *pruner, const uint32_t *locations, uint32_t depth)
{
	bool found_user = false;

	for (uint32_t i = depth; i-- > 0;) {
		uint32_t cut = pruner->cuts[locations[i]];

		if (!cut)
			found_user = true;
		else if (found_user)
			return cut == pruner->from->locations.items[locations[i]].line_count ? i + 1
											     : i;
	}
	return 0;
}

static void prune_sample(struct pruner *pruner, size_t number)
{
	const struct profile *from = pruner->from;
	const struct profile_sample *sample = &from->samples.items[number];
	const uint32_t *locations = profile_stack_locations(from, sample->stack);
	const uint32_t depth = from->stacks.items[sample->stack].count;
	const uint32_t first = first_kept(pruner, locations, depth);
	const uint32_t *labels = profile_set_labels(from, sample->label_set);
	const uint32_t count = from->label_sets.items[sample->label_set].count;
	uint32_t stack;

	for (uint32_t i = first; i < depth; i++)
		pruner->room[i - first] = pruned_location(pruner, locations[i]);
	stack = profile_stack(pruner->into, pruner->room, depth - first);
	for (uint32_t i = 0; i < count; i++)
		pruner->room[i] = profile_translate_label(&pruner->translation, labels[i]);
	profile_translate_sample(&pruner->translation, number, stack,
				 profile_label_set(pruner->into, pruner->room, count));
}

static int prune_all(struct pruner *pruner, struct droppers *droppers)
{
	const struct profile *from = pruner->from;
	int err = profile_translation_init(&pruner->translation, pruner->into, from);

	pruner->cuts = calloc(from->locations.count, sizeof(*pruner->cuts));
	pruner->room = calloc(profile_longest_sequence(from), sizeof(*pruner->room));
	if (!pruner->cuts || !pruner->room)
		err = -ENOMEM;
	if (!err)
		err = find_cuts(pruner, droppers);
	if (!err) {
		profile_translate_head(&pruner->translation);
		profile_translate_first_mapping(&pruner->translation);
		for (size_t i = 0; i < from->comments.count; i++)
			profile_add_comment(pruner->into,
					    profile_translate_string(&pruner->translation,
								     from->comments.items[i]));
		for (size_t i = 0; i < from->samples.count && !pruner->into->error; i++)
			prune_sample(pruner, i);
		profile_translate_moments(&pruner->translation);
		err = pruner->into->error;
	}
	profile_translation_clear(&pruner->translation);
	free(pruner->cuts);
	free(pruner->room);
	return err;
}

static int compile_droppers(struct droppers *droppers, const struct profile *profile,
			    struct error *warning)
{
	int err = frame_pattern_init(&droppers->drop, profile_text(profile, profile->drop_frames));
	const char *name = "drop_frames";

	if (!err && profile->keep_frames) {
		name = "keep_frames";
		err = frame_pattern_init(&droppers->keep,
					 profile_text(profile, profile->keep_frames));
	}
	if (err == -EINVAL)
		error_set(warning, EINVAL,
			  "%s of the profile is no regular expression that is supported here: all "
			  "frames are shown; 'go tool pprof -proto' applies it",
			  name);
	return err;
}

int frame_prune(const struct profile *profile, struct profile **pruned, struct error *warning)
{
	struct droppers droppers = {.end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + PRUNE_CPU_NS};
	struct pruner pruner = {.from = profile};
	int err;

	*pruned = NULL;
	*warning->text = '\0';
	if (!profile->drop_frames)
		return 0;
	err = compile_droppers(&droppers, profile, warning);
	if (!err) {
		pruner.into = profile_new();
		err = pruner.into ? prune_all(&pruner, &droppers) : -ENOMEM;
		if (err)
			profile_free(pruner.into);
		else
			*pruned = pruner.into;
	}
	frame_pattern_free(&droppers.drop);
	frame_pattern_free(&droppers.keep);
	if (err == -ETIME)
		error_set(warning, ETIME,
			  "drop_frames of the profile takes more than %u s of CPU time: all frames "
			  "are "
			  "shown",
			  (unsigned int)(PRUNE_CPU_NS / NS_PER_SECOND));
	return err == -EINVAL || err == -ETIME ? 0 : err;
}
