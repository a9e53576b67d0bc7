// SPDX-License-Identifier: GPL-2.0
#include "cli/view_options.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cli/options.h"
#include "cli/read_progress.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "report/call_tree.h"
#include "report/frame_prune.h"
#include "report/profile_view.h"
#include "symbolize/go_runtime.h"

/* Whether a key of --sort, which begins at a place in the list, is also before it. */
static bool is_key_before(const char *list, const char *key, size_t length)
{
	size_t other;

	for (; list < key; list += other + 1) {
		other = strcspn(list, ",");
		if (other == length && !strncmp(list, key, length))
			return true;
	}
	return false;
}

/* Sets the keys of a view to the words of --sort, which are in `words`; both may be NULL. */
static int split_keys(const struct view_options *options, char *words, struct profile_view *view,
		      struct error *error)
{
	const char *text = options->sort;
	size_t count = 0, length;

	for (; text; text = text[length] ? text + length + 1 : NULL) {
		length = strcspn(text, ",");
		if (!length || count == SORT_KEYS_MAX)
			return error_set(error, EINVAL,
					 "--sort: '%s' is not a list of 1 to %u keys",
					 options->sort, SORT_KEYS_MAX);
		if (is_key_before(options->sort, text, length))
			return error_set(error, EINVAL, "--sort: '%.*s' is given twice",
					 (int)length, text);
		if (view) {
			memcpy(words, text, length);
			words[length] = '\0';
			view->keys[count] = words;
			words += length + 1;
			view->key_count = count + 1;
		}
		count++;
	}
	return 0;
}

/* Adds the keys of the labels of a profile to a text. */
static void list_labels(const struct profile *profile, char *text, size_t size)
{
	size_t used = strlen(text);

	for (size_t i = 1; i < profile->labels.count && used < size; i++) {
		const char *key = profile_text(profile, profile->labels.items[i].key);
		size_t before = 1;

		while (before < i &&
		       profile->labels.items[before].key != profile->labels.items[i].key)
			before++;
		if (before == i)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
						 key);
	}
}

/* Describes an unknown label: `others` are what `option` takes beside labels. Returns -EINVAL. */
static int unknown_label_error(const char *option, const char *key, const char *others,
			       const struct profile *profile, struct error *error)
{
	char list[256];

	snprintf(list, sizeof(list), "%s", others);
	list_labels(profile, list, sizeof(list));
	utf8_sanitize(list);
	if (label_of_key(key) < LABEL_COUNT)
		return error_set(error, EINVAL,
				 "%s: no sample has the label '%s', which 'stackbeat record "
				 "--labels' adds; there are: %s",
				 option, key, list);
	return error_set(error, EINVAL, "%s: no sample has the label '%s'; there are: %s", option,
			 key, list);
}

int view_check_group(const char *group, const char *others, const struct viewed *viewed,
		     struct error *error)
{
	const char *other = others;
	size_t length;

	if (calltree_has_label(viewed->profile, group) ||
	    (viewed->base && calltree_has_label(viewed->base, group)))
		return 0;
	while (*other) {
		length = strcspn(other, ",");
		if (length == strlen(group) && !strncmp(other, group, length))
			return 0;
		other += length;
		other += strspn(other, ", ");
	}
	return unknown_label_error("--group", group, others, viewed->profile, error);
}

/* A key that is of no frame, and of no sample either, is a typing error. */
static int check_keys(const struct profile_view *view, const struct profile *profile,
		      struct error *error)
{
	for (size_t i = 0; i < view->key_count; i++) {
		/* perf's first column, which its users name. */
		if (!strcmp(view->keys[i], "overhead"))
			return error_set(error, EINVAL,
					 "--sort: leave 'overhead' out: flat%% is in each row");
		if (!profile_view_knows_key(view->keys[i]) && profile->samples.count &&
		    !calltree_has_label(profile, view->keys[i]))
			return unknown_label_error("--sort", view->keys[i],
						   "dso, sym, line, service", profile, error);
	}
	return 0;
}

/* Replaces a profile by what the options show of it. Returns 0 or a negative errno value. */
static int choose_view(const struct view_options *options, struct profile **profile,
		       struct profile_view_matches *matches, struct error *error)
{
	regex_t regexes[VIEW_PATTERNS];
	const regex_t *compiled[VIEW_PATTERNS] = {NULL};
	struct profile_view view = {.separates_keys = options->separates_keys,
				    .lines = options->lines,
				    .folds_irqs_off = options->folds_irqs_off};
	char *words = options->sort ? strdup(options->sort) : NULL;
	struct profile *shown = NULL;
	int err = options->sort && !words ? -ENOMEM : 0;

	for (size_t i = 0; i < VIEW_PATTERNS && !err; i++) {
		if (!options->patterns[i])
			continue;
		err = regcomp(&regexes[i], options->patterns[i], REG_EXTENDED | REG_NOSUB) ? -ENOMEM
											   : 0;
		if (!err)
			compiled[i] = &regexes[i];
	}
	view.focus = compiled[VIEW_FOCUS];
	view.ignore = compiled[VIEW_IGNORE];
	view.hide = compiled[VIEW_HIDE];
	view.show = compiled[VIEW_SHOW];
	if (!err && words)
		split_keys(options, words, &view, NULL);
	if (err)
		error_errno(error, ENOMEM, "can't choose samples");
	else
		err = check_keys(&view, *profile, error);
	if (!err && !profile_view_is_whole(&view) &&
	    profile_view_make(*profile, &view, &shown, matches))
		err = error_errno(error, ENOMEM, "can't choose samples");
	if (shown) {
		profile_free(*profile);
		*profile = shown;
	}
	for (size_t i = 0; i < VIEW_PATTERNS; i++) {
		if (compiled[i])
			regfree(&regexes[i]);
	}
	free(words);
	return err;
}

int option_pattern(const struct cli_option *option, char *value, void *options, struct error *error)
{
	char reason[128];
	regex_t regex;
	int err = regcomp(&regex, value, REG_EXTENDED | REG_NOSUB);

	if (!err) {
		regfree(&regex);
		return option_text(option, value, options, error);
	}
	regerror(err, &regex, reason, sizeof(reason));
	return error_set(error, EINVAL, "'%s' is not a regular expression: %s", value, reason);
}

int option_input(const struct cli_option *option, char *value, void *options, struct error *error)
{
	int err = option_path(option, value, options, error);

	if (!err)
		*(char **)option_target(option, options) = value;
	return err;
}

int option_percentage(const struct cli_option *option, char *value, void *options,
		      struct error *error)
{
	bool *relative = option_target(option, options);

	*relative = !strcmp(value, "relative");
	if (*relative || !strcmp(value, "absolute"))
		return 0;
	return error_set(error, EINVAL, "--percentage: '%s' is not absolute or relative", value);
}

int view_options_parse(int argc, char **argv, const struct cli_option *table, void *options,
		       struct view_options *view, struct error *error)
{
	static char default_file[] = OUTPUT_DEFAULT;
	static char *default_files[] = {default_file};
	int first, err, inputs = 0;

	err = options_parse(argc, argv, table, false, options, &first, error);
	if (err || view->help)
		return err;
	if (view->input && first < argc)
		return error_set(error, EINVAL, "unexpected argument '%s' beside --input",
				 argv[first]);
	view->files = first < argc ? argv + first : view->input ? &view->input : default_files;
	view->file_count = first < argc ? argc - first : 1;
	view->file = view->files[0];
	for (int i = 0; i < view->file_count; i++)
		inputs += !strcmp(view->files[i], "-");
	if (inputs > 1)
		return error_set(error, EINVAL, "only one of the files can be standard input");
	err = split_keys(view, NULL, NULL, error);
	if (err)
		return err;
	if (view->absolute && !view->base)
		return error_set(error, EINVAL, "--absolute needs --diff");
	if (view->base && !strcmp(view->base, "-") && inputs)
		return error_set(error, EINVAL,
				 "--diff: only one of both files can be standard input");
	return 0;
}

/* Adds a file to a profile. Its comments are added, too, if there are others already. */
static int merge_file(const struct view_options *view, struct profile *profile, const char *file,
		      struct error *error)
{
	struct profile *more = read_progress_profile(file, view->keeps_moments, error);
	int err;

	if (!more)
		return -EINVAL;
	err = profile_merge(profile, more);
	for (size_t i = 0; !err && i < more->comments.count; i++)
		profile_add_comment(
			profile,
			profile_string(profile, profile_text(more, more->comments.items[i])));
	if (!err) {
		profile->duration_ns = add_saturated(profile->duration_ns, more->duration_ns);
		profile->time_ns = MIN(profile->time_ns, more->time_ns);
		err = profile->error;
	}
	profile_free(more);
	if (err == -EINVAL)
		return error_set(error, EINVAL, "%s: its sample types are others than those before",
				 file);
	return err ? error_errno(error, -err, "%s", file) : 0;
}

/* Leaves out the frames that the writer of the profile chose. Returns 0 or -ENOMEM. */
static int view_drop_frames(struct profile **profile)
{
	struct profile *pruned;
	struct error warning;
	int err = frame_prune(*profile, &pruned, &warning);

	if (*warning.text)
		fprintf(stderr, "stackbeat: %s\n", warning.text);
	if (pruned) {
		profile_free(*profile);
		*profile = pruned;
	}
	return err;
}

/* Returns the sum of the values of a type, NULL: the default one; 0 if there is none. */
static int64_t sum_values(const struct profile *profile, const char *type_name)
{
	struct error ignored;
	int64_t sum = 0;
	size_t type;

	if (profile_find_type(profile, type_name, &type, &ignored))
		return 0;
	for (size_t i = 0; i < profile->samples.count; i++)
		sum = add_saturated(sum, magnitude(profile_values(profile, i)[type]));
	return sum;
}

/* Reads files into *profile, which is NULL if that fails; `total` is before samples are chosen. */
static int read_view(const struct view_options *view, const char *const *files, int count,
		     const char *type, struct profile **profile, int64_t *total,
		     struct profile_view_matches *matches, struct error *error)
{
	const char *file = files[0];
	int err = 0;

	*profile = read_progress_profile(file, view->keeps_moments, error);
	if (!*profile)
		return -EINVAL;
	for (int i = 1; i < count && !err; i++)
		err = merge_file(view, *profile, files[i], error);
	if (err) {
		profile_free(*profile);
		*profile = NULL;
		return err;
	}
	if (view_drop_frames(profile) || (view->hides_go_runtime && go_runtime_hide(*profile)))
		err = error_errno(error, ENOMEM, "%s", file);
	*total = sum_values(*profile, type);
	if (!err)
		err = choose_view(view, profile, matches, error);
	if (!err)
		return 0;
	profile_free(*profile);
	*profile = NULL;
	return err;
}

/* Describes the options that match no frame, or that have left no sample. */
static int check_viewed(const struct view_options *view, const struct profile_view_matches *matches,
			struct viewed *viewed, struct error *error)
{
	static const char *const names[VIEW_PATTERNS] = {"--focus", "--ignore", "--hide", "--show"};
	const bool is_matched[VIEW_PATTERNS] = {matches->focus, matches->ignore, matches->hide,
						matches->show};
	const bool is_empty =
		!viewed->profile->samples.count && !(viewed->base && viewed->base->samples.count);

	*viewed->note.text = '\0';
	for (size_t i = 0; i < VIEW_PATTERNS; i++) {
		if (!view->patterns[i] || is_matched[i] || !(viewed->total || viewed->base_total))
			continue;
		error_set(&viewed->note, EINVAL, "%s: no frame matches '%s'", names[i],
			  view->patterns[i]);
		if (is_empty)
			return error_set(error, EINVAL, "%s", viewed->note.text);
	}
	if (is_empty && (viewed->total || viewed->base_total))
		return error_set(error, EINVAL,
				 "no sample is left by --focus, --ignore, --hide "
				 "and --show");
	return 0;
}

void viewed_clear(struct viewed *viewed)
{
	profile_free(viewed->profile);
	profile_free(viewed->base);
	viewed->profile = viewed->base = NULL;
}

int view_read(const struct view_options *view, struct viewed *viewed, struct error *error)
{
	struct profile_view_matches matches = {false}, base_matches = {false};
	const char *type = view->sample_type;
	size_t index;
	int err;

	*viewed = (struct viewed){.profile = NULL};
	err = read_view(view, (const char *const *)view->files, view->file_count, type,
			&viewed->profile, &viewed->total, &matches, error);
	if (err)
		return err;
	/* The type of the base has the same name, which may not be its default. */
	if (!profile_find_type(viewed->profile, type, &index, error))
		type = profile_text(viewed->profile, viewed->profile->types.items[index].type);
	if (view->base)
		err = read_view(view, &view->base, 1, type, &viewed->base, &viewed->base_total,
				&base_matches, error);
	matches.focus |= base_matches.focus;
	matches.ignore |= base_matches.ignore;
	matches.hide |= base_matches.hide;
	matches.show |= base_matches.show;
	if (!err)
		err = check_viewed(view, &matches, viewed, error);
	if (err)
		viewed_clear(viewed);
	return err;
}
