// SPDX-License-Identifier: GPL-2.0
#include "cli/view_options.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cli/options.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "report/call_tree.h"
#include "report/profile_view.h"
#include "symbolize/go_runtime.h"

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

/* A key that is of no frame, and of no sample either, is a typing error. */
static int check_keys(const struct profile_view *view, const struct profile *profile,
		      struct error *error)
{
	for (size_t i = 0; i < view->key_count; i++) {
		if (!profile_view_knows_key(view->keys[i]) && profile->samples.count &&
		    !calltree_has_label(profile, view->keys[i]))
			return error_set(error, EINVAL, "--sort: no sample has the label '%s'",
					 view->keys[i]);
	}
	return 0;
}

/* Replaces a profile by what the options show of it. Returns 0 or a negative errno value. */
static int choose_view(const struct view_options *options, struct profile **profile,
		       struct error *error)
{
	regex_t regexes[VIEW_PATTERNS];
	const regex_t *compiled[VIEW_PATTERNS] = {NULL};
	struct profile_view view = {.lines = options->lines};
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
	if (!err && !profile_view_is_whole(&view) && profile_view_make(*profile, &view, &shown))
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

int view_options_parse(int argc, char **argv, const struct cli_option *table, void *options,
		       struct view_options *view, struct error *error)
{
	static char default_file[] = OUTPUT_DEFAULT;
	static char *default_files[] = {default_file};
	int first, err, inputs = 0;

	err = options_parse(argc, argv, table, false, options, &first, error);
	if (err || view->help)
		return err;
	view->files = first < argc ? argv + first : default_files;
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
static int merge_file(struct profile *profile, const char *file, struct error *error)
{
	struct profile *more = pprof_read(file, error);
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

/* Reads files into *profile, which is NULL if that fails. */
static int read_view(const struct view_options *view, const char *const *files, int count,
		     struct profile **profile, struct error *error)
{
	const char *file = files[0];
	int err = 0;

	*profile = pprof_read(file, error);
	if (!*profile)
		return -EINVAL;
	for (int i = 1; i < count && !err; i++)
		err = merge_file(*profile, files[i], error);
	if (err) {
		profile_free(*profile);
		*profile = NULL;
		return err;
	}
	if (view->hides_go_runtime && go_runtime_hide(*profile))
		err = error_errno(error, ENOMEM, "%s", file);
	if (!err)
		err = choose_view(view, profile, error);
	if (!err)
		return 0;
	profile_free(*profile);
	*profile = NULL;
	return err;
}

int view_read(const struct view_options *view, struct profile **profile, struct profile **base,
	      struct error *error)
{
	int err;

	*base = NULL;
	err = read_view(view, (const char *const *)view->files, view->file_count, profile, error);
	if (err || !view->base)
		return err;
	err = read_view(view, &view->base, 1, base, error);
	if (!err)
		return 0;
	profile_free(*profile);
	*profile = NULL;
	return err;
}
