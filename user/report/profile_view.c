// SPDX-License-Identifier: GPL-2.0
#include "report/profile_view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/path.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "pprof/service.h"
#include "report/frame_name.h"
#include "report/irqs_off.h"

/* Each place of a name but the last has at least this width, in columns. */
#define KEY_COLUMNS 15
#define NAME_MAX_BYTES 4096u
#define KNOWN_FRAMES ((size_t)1 << 16)

enum {
	IS_FOCUSED = 1,
	IS_IGNORED = 2,
	IS_HIDDEN = 4, /* all of its lines */
	ENABLES_IRQS = 8, /* see irqs_off.h */
};

struct place {
	uint32_t location; /* in the new profile */
	uint8_t flags;
	bool is_known;
};

/* A frame that was named for earlier samples: stacks repeat. All zero: none. */
struct known_frame {
	uint32_t location, line, label_set; /* in the old profile */
	uint32_t named; /* in the new one */
};

struct maker {
	const struct profile_view *view;
	const struct profile *from;
	struct profile *into;
	struct profile_translation translation;
	struct place *places; /* by location of the old profile */
	struct known_frame *known;
	uint32_t *items; /* of one stack, or of one label set */
	size_t item_count, item_capacity;
	bool has_frame_key, has_label_key, has_service_key;
	struct profile_view_matches matches;
};

static bool text_matches(const regex_t *regex, const char *text)
{
	return *text && !regexec(regex, text, 0, NULL, 0);
}

static bool line_matches(const struct profile *profile, const struct profile_line *line,
			 const regex_t *regex)
{
	const struct profile_function *function = &profile->functions.items[line->function];

	return text_matches(regex, function_name(profile, line->function)) ||
	       text_matches(regex, profile_text(profile, function->file));
}

static bool location_matches(const struct profile *profile, const struct profile_location *location,
			     const regex_t *regex)
{
	const struct profile_line *lines = profile_lines(profile, location);

	for (uint32_t i = 0; i < location->line_count; i++) {
		if (line_matches(profile, &lines[i], regex))
			return true;
	}
	return text_matches(regex, location_file(profile, location));
}

/* Whether a line of a location is shown. As in pprof, a file stands for all of its lines. */
static bool is_shown_line(struct maker *maker, const struct profile_location *location,
			  const struct profile_line *line)
{
	const struct profile_view *view = maker->view;
	const char *file = location_file(maker->from, location);

	if (view->hide && (text_matches(view->hide, file) ||
			   (line && line_matches(maker->from, line, view->hide)))) {
		maker->matches.hide = true;
		return false;
	}
	if (!view->show)
		return true;
	if (!text_matches(view->show, file) &&
	    !(line && line_matches(maker->from, line, view->show)))
		return false;
	maker->matches.show = true;
	return true;
}

/* "file.c:12", or "" if the line is not known. */
static void format_line(const struct profile *profile, const struct profile_line *line, char *text,
			size_t size)
{
	const struct profile_function *function = &profile->functions.items[line->function];
	const char *file = path_base_name(profile_text(profile, function->file));

	*text = '\0';
	if (*file && line->line)
		snprintf(text, size, "%s:%" PRId64, file, line->line);
}

/* The function of a line in the new profile, whose name has the source line, too. */
static uint32_t function_with_line(struct maker *maker, const struct profile_line *line)
{
	const struct profile *from = maker->from;
	struct profile_function named = {0};
	char place[NAME_MAX_BYTES / 2], text[NAME_MAX_BYTES];

	format_line(from, line, place, sizeof(place));
	snprintf(text, sizeof(text), "%s%s%s", function_name(from, line->function),
		 *place ? " " : "", place);
	named.name = profile_string(maker->into, text);
	named.file = profile_translate_string(&maker->translation,
					      from->functions.items[line->function].file);
	return profile_function(maker->into, &named);
}

/* Makes the location of the new profile for one of the old profile. Returns 0 or -ENOMEM. */
static int make_place(struct maker *maker, uint32_t number, struct place *place)
{
	const struct profile_view *view = maker->view;
	const struct profile_location *old = &maker->from->locations.items[number];
	const struct profile_line *old_lines = profile_lines(maker->from, old);
	struct profile *into = maker->into;
	struct profile_line *lines;
	uint32_t count = 0, mapping;

	place->is_known = true;
	if (view->focus && location_matches(maker->from, old, view->focus))
		place->flags |= IS_FOCUSED;
	if (view->ignore && location_matches(maker->from, old, view->ignore))
		place->flags |= IS_IGNORED;
	if (view->folds_irqs_off && old->line_count == 1 &&
	    is_kernel_file(location_file(maker->from, old)) &&
	    irqs_off_ends_in(function_name(maker->from, old_lines->function)))
		place->flags |= ENABLES_IRQS;
	maker->matches.focus |= (place->flags & IS_FOCUSED) != 0;
	maker->matches.ignore |= (place->flags & IS_IGNORED) != 0;
	place->location = profile_translate_location(&maker->translation, number);
	if (into->error)
		return -ENOMEM;
	if (!old->line_count) {
		place->flags |= is_shown_line(maker, old, NULL) ? 0 : IS_HIDDEN;
		return 0;
	}
	lines = calloc(old->line_count, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	for (uint32_t i = 0; i < old->line_count; i++) {
		if (!is_shown_line(maker, old, &old_lines[i]))
			continue;
		lines[count] = profile_lines(into, &into->locations.items[place->location])[i];
		if (view->lines)
			lines[count].function = function_with_line(maker, &old_lines[i]);
		count++;
	}
	mapping = into->locations.items[place->location].mapping;
	if (!count)
		place->flags |= IS_HIDDEN;
	else if (count < old->line_count || view->lines)
		place->location = profile_location(into, mapping, old->address, lines, count);
	free(lines);
	return into->error;
}

static bool is_sym_key(const char *key)
{
	return !strcmp(key, "sym") || !strcmp(key, "symbol");
}

static bool is_line_key(const char *key)
{
	return !strcmp(key, "line") || !strcmp(key, "srcline");
}

static bool is_file_key(const char *key)
{
	return !strcmp(key, "srcfile");
}

static bool is_frame_key(const char *key)
{
	return !strcmp(key, "dso") || is_sym_key(key) || is_line_key(key) || is_file_key(key);
}

bool profile_view_knows_key(const char *key)
{
	return is_frame_key(key) || !strcmp(key, "service");
}

/* Writes the value of a label of a sample, or of its service. */
static void format_label(const struct profile *profile, size_t sample, const char *key, char *text,
			 size_t size)
{
	const uint32_t set = profile->samples.items[sample].label_set;
	const uint32_t *labels = profile_set_labels(profile, set);

	snprintf(text, size, "%s", strcmp(key, "service") ? "-" : service_of(profile, sample));
	for (uint32_t i = 0; i < profile->label_sets.items[set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (strcmp(profile_text(profile, label->key), key))
			continue;
		if (label->text)
			snprintf(text, size, "%s", profile_text(profile, label->text));
		else
			snprintf(text, size, "%" PRId64, label->number);
		return;
	}
}

/* Writes the part of a name that is of a frame. Returns 0 or -ENOMEM. */
static int format_frame(const struct profile *profile, const struct profile_location *location,
			const struct profile_line *line, const char *key, char *text, size_t size)
{
	const char *file = path_base_name(location_file(profile, location));
	const char *name = line ? function_name(profile, line->function) : "";
	char *address;

	*text = '\0';
	if (!strcmp(key, "dso")) {
		snprintf(text, size, "%s", *file ? file : "-");
		return 0;
	}
	if (is_line_key(key) && line)
		format_line(profile, line, text, size);
	else if (is_file_key(key) && line)
		snprintf(text, size, "%s",
			 path_base_name(profile_text(
				 profile, profile->functions.items[line->function].file)));
	/* Without its line, a function is still known by its name, as in perf. */
	if (!*text)
		snprintf(text, size, "%s", name);
	if (*text)
		return 0;
	address = address_name(profile, location);
	if (!address)
		return -ENOMEM;
	snprintf(text, size, "%s", address);
	free(address);
	return 0;
}

/* Returns the location whose only function is named by the keys; `location` is NULL: no frame. */
static uint32_t name_frame(struct maker *maker, size_t sample,
			   const struct profile_location *location, const struct profile_line *line)
{
	const struct profile_view *view = maker->view;
	struct profile_function function = {0};
	struct profile_line named = {0};
	char name[NAME_MAX_BYTES], part[NAME_MAX_BYTES / SORT_KEYS_MAX];
	size_t used = 0;

	*name = '\0';
	for (size_t i = 0; i < view->key_count && used < sizeof(name); i++) {
		const char *key = view->keys[i];

		if (!is_frame_key(key))
			format_label(maker->from, sample, key, part, sizeof(part));
		else if (format_frame(maker->from, location, line, key, part, sizeof(part)))
			maker->into->error = -ENOMEM;
		if (view->separates_keys) {
			for (char *at = part; (at = strchr(at, KEY_SEPARATOR));)
				*at = '?';
			used += (size_t)snprintf(name + used, sizeof(name) - used, "%.*s%s", i > 0,
						 (const char[]){KEY_SEPARATOR}, part);
			continue;
		}
		used += (size_t)snprintf(name + used, sizeof(name) - used, "%s%-*s", i ? "  " : "",
					 i + 1 < view->key_count ? KEY_COLUMNS : 0, part);
	}
	function.name = profile_string(maker->into, name);
	named.function = profile_function(maker->into, &function);
	return profile_location(maker->into, 0, 0, &named, 1);
}

/* The same, for a frame that may have been named already; `line` is its number plus 1, or 0. */
static uint32_t find_frame(struct maker *maker, size_t sample, uint32_t number, uint32_t line)
{
	const struct profile_location *location = &maker->from->locations.items[number];
	const uint32_t set =
		maker->has_label_key ? maker->from->samples.items[sample].label_set : 0;
	struct known_frame *known;
	size_t slot;

	/* Services of kernel threads are known by the stack. */
	if (maker->has_service_key)
		return name_frame(maker, sample, location,
				  line ? &profile_lines(maker->from, location)[line - 1] : NULL);
	slot = (number * (size_t)31 + set * (size_t)2654435761u + line) % KNOWN_FRAMES;
	known = &maker->known[slot];
	if (!known->named || known->location != number || known->line != line ||
	    known->label_set != set)
		*known = (struct known_frame){
			number, line, set,
			name_frame(maker, sample, location,
				   line ? &profile_lines(maker->from, location)[line - 1] : NULL)};
	return known->named;
}

static int add_item(struct maker *maker, uint32_t item)
{
	if (array_reserve(&maker->items, &maker->item_capacity, maker->item_count, 1,
			  sizeof(*maker->items)))
		return -ENOMEM;
	maker->items[maker->item_count++] = item;
	return 0;
}

/* Adds the named frames of a location to the stack. */
static int add_named(struct maker *maker, size_t sample, uint32_t number)
{
	const struct profile_location *location = &maker->from->locations.items[number];
	const struct profile_line *lines = profile_lines(maker->from, location);

	if (!location->line_count)
		return add_item(maker, find_frame(maker, sample, number, 0));
	for (uint32_t i = 0; i < location->line_count; i++) {
		if (is_shown_line(maker, location, &lines[i]) &&
		    add_item(maker, find_frame(maker, sample, number, i + 1)))
			return -ENOMEM;
	}
	return 0;
}

/* Makes the stack of a sample. Returns 1 if it is shown, 0 if not, or -ENOMEM. */
static int make_stack(struct maker *maker, size_t sample)
{
	const struct profile_view *view = maker->view;
	const uint32_t stack = maker->from->samples.items[sample].stack;
	const uint32_t *locations = profile_stack_locations(maker->from, stack);
	bool focused = !view->focus, is_leaf = true;
	int err = 0;

	maker->item_count = 0;
	for (uint32_t i = 0; i < maker->from->stacks.items[stack].count && !err; i++) {
		struct place *place = &maker->places[locations[i]];

		if (!place->is_known && make_place(maker, locations[i], place))
			return -ENOMEM;
		if (place->flags & IS_IGNORED)
			return 0;
		focused |= (place->flags & IS_FOCUSED) != 0;
		if (place->flags & IS_HIDDEN)
			continue;
		/* A leaf, but not an only frame: its time is the caller's. */
		if (place->flags & ENABLES_IRQS && is_leaf &&
		    i + 1 < maker->from->stacks.items[stack].count)
			continue;
		is_leaf = false;
		if (maker->has_frame_key)
			err = add_named(maker, sample, locations[i]);
		else if (!view->key_count)
			err = add_item(maker, place->location);
	}
	if (view->key_count && !maker->has_frame_key && !err)
		err = add_item(maker, name_frame(maker, sample, NULL, NULL));
	/* A sample without any frame from the start stays: the total is the same. */
	return err
		       ?: focused && (maker->item_count ||
				      (!maker->from->stacks.items[stack].count && !view->show));
}

static int add_shown_sample(struct maker *maker, size_t number)
{
	const struct profile *from = maker->from;
	const struct profile_sample *sample = &from->samples.items[number];
	const uint32_t *labels = profile_set_labels(from, sample->label_set);
	int shown = make_stack(maker, number);
	uint32_t stack;

	if (shown <= 0)
		return shown;
	stack = profile_stack(maker->into, maker->items, maker->item_count);
	maker->item_count = 0;
	for (uint32_t i = 0; i < from->label_sets.items[sample->label_set].count; i++) {
		if (add_item(maker, profile_translate_label(&maker->translation, labels[i])))
			return -ENOMEM;
	}
	profile_translate_sample(&maker->translation, number, stack,
				 profile_label_set(maker->into, maker->items, maker->item_count));
	return maker->into->error;
}

static int make_view(struct maker *maker)
{
	const struct profile *from = maker->from;
	int err = profile_translation_init(&maker->translation, maker->into, from);

	maker->places = calloc(from->locations.count, sizeof(*maker->places));
	maker->known = calloc(KNOWN_FRAMES, sizeof(*maker->known));
	if (!maker->places || !maker->known)
		err = -ENOMEM;
	for (size_t i = 0; i < maker->view->key_count; i++) {
		maker->has_frame_key |= is_frame_key(maker->view->keys[i]);
		maker->has_label_key |= !is_frame_key(maker->view->keys[i]);
		maker->has_service_key |= !strcmp(maker->view->keys[i], "service");
	}
	if (!err) {
		profile_translate_head(&maker->translation);
		profile_translate_first_mapping(&maker->translation);
		for (size_t i = 0; i < from->comments.count; i++)
			profile_add_comment(maker->into,
					    profile_translate_string(&maker->translation,
								     from->comments.items[i]));
		err = maker->into->error;
	}
	for (size_t i = 0; i < from->samples.count && !err; i++)
		err = add_shown_sample(maker, i);
	if (!err) {
		profile_translate_moments(&maker->translation);
		err = maker->into->error;
	}
	profile_translation_clear(&maker->translation);
	free(maker->places);
	free(maker->known);
	free(maker->items);
	return err;
}

bool profile_view_is_whole(const struct profile_view *view)
{
	return !view->focus && !view->ignore && !view->hide && !view->show && !view->lines &&
	       !view->folds_irqs_off && !view->key_count;
}

int profile_view_make(const struct profile *profile, const struct profile_view *view,
		      struct profile **shown, struct profile_view_matches *matches)
{
	struct maker maker = {.view = view, .from = profile, .into = profile_new()};
	int err = maker.into ? make_view(&maker) : -ENOMEM;

	if (err) {
		profile_free(maker.into);
		return err;
	}
	*shown = maker.into;
	*matches = maker.matches;
	return 0;
}
