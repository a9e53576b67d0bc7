// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/view_options.h"
#include "lib/atomic_file.h"
#include "pprof/profile.h"
#include "report/call_tree.h"
#include "report/flamegraph.h"

#define SVG_DEFAULT "stackbeat.svg"
#define GROUP_DEFAULT "comm"
#define GROUP_NONE "none"

struct flamegraph_arguments {
	struct view_options view;
	const char *output, *title;
	bool inverted, upward, draws_profiler;
};

/* clang-format off */
static const struct cli_option options[] = {
	{'o', "output", "FILE", "output file (default: " SVG_DEFAULT "); - for standard output",
	 OPTION_TEXT(struct flamegraph_arguments, output)},
	{0, "title", "TEXT", "title (default: the name of the pprof file)",
	 OPTION_TEXT(struct flamegraph_arguments, title)},
	{0, "inverted", NULL,
	 "begin with the functions that have samples of their own, and draw their callers below: "
	 "the inverted call stack of pprof viewers, flamegraph.pl --reverse",
	 OPTION_FLAG(struct flamegraph_arguments, inverted)},
	{0, "upward", NULL, "draw the root at the bottom, as flamegraph.pl does (default: on top)",
	 OPTION_FLAG(struct flamegraph_arguments, upward)},
	{0, "profiler-frames", NULL,
	 "draw the frames of the profiler's own processes, which are one box otherwise",
	 OPTION_FLAG(struct flamegraph_arguments, draws_profiler)},
	INPUT_OPTION(struct flamegraph_arguments),
	SAMPLE_TYPE_OPTION(struct flamegraph_arguments, view.sample_type),
	GROUP_OPTION(struct flamegraph_arguments,
		     "divide the root by a label of the samples, such as comm or container, or by service; none: do "
		     "not divide (default: comm if FILE and BASE have it)"),
	DIFF_OPTIONS(struct flamegraph_arguments),
	FILTER_OPTIONS(struct flamegraph_arguments),
	GO_HIDE_RUNTIME_OPTION(struct flamegraph_arguments, view.hides_go_runtime),
	HELP_OPTION(struct flamegraph_arguments, view.help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat flamegraph [OPTION]... [FILE]...",
	.description = "Draw a pprof FILE (-: standard input; default: " OUTPUT_DEFAULT
		       "), or the sum of several, as an SVG flame graph, for a browser.",
	.options = options,
	.notes = "Exit status: 0; 1 if FILE can't be drawn or the output can't be written; 2 for a "
		 "wrong command line.",
};

/* Draws into *svg, which the caller frees, also on an error. */
static int draw_svg(const struct flamegraph_arguments *arguments, char **svg, size_t *size,
		    size_t *frames, struct error *error)
{
	struct flamegraph_options options = {
		.title = arguments->title,
		.sample_type = arguments->view.sample_type,
		.group = arguments->view.group,
		.absolute = arguments->view.absolute,
		.inverted = arguments->inverted,
		.upward = arguments->upward,
		.draws_profiler = arguments->draws_profiler,
	};
	const char *path = arguments->view.file;
	struct profile *profile, *base;
	struct viewed viewed;
	FILE *out;
	int err = view_read(&arguments->view, &viewed, error);

	if (err)
		return err;
	if (arguments->view.group)
		err = view_check_group(arguments->view.group, GROUP_SERVICE ", " GROUP_NONE,
				       &viewed, error);
	if (err) {
		viewed_clear(&viewed);
		return err;
	}
	profile = viewed.profile;
	base = viewed.base;
	if (*viewed.note.text)
		fprintf(stderr, "stackbeat flamegraph: %s\n", viewed.note.text);
	options.base = base;
	if (!options.title)
		options.title = strcmp(path, "-") ? basename(path) : "stackbeat";
	if (!options.group && calltree_has_label(profile, GROUP_DEFAULT) &&
	    (!base || calltree_has_label(base, GROUP_DEFAULT)))
		options.group = GROUP_DEFAULT;
	else if (options.group && !strcmp(options.group, GROUP_NONE))
		options.group = NULL;
	out = open_memstream(svg, size);
	err = out ? flamegraph_write(profile, &options, out, frames, error) : -ENOMEM;
	if (out && (fclose(out) || err == -ENOMEM))
		err = -ENOMEM;
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "%s", path);
	viewed_clear(&viewed);
	return err;
}

static int draw_file(const struct flamegraph_arguments *arguments, struct error *error)
{
	size_t size = 0, frames = 0;
	char *svg = NULL;
	int err = draw_svg(arguments, &svg, &size, &frames, error);

	if (!err)
		err = atomic_file_store(arguments->output, svg, size, error);
	free(svg);
	if (!err && strcmp(arguments->output, "-"))
		printf("%s: %zu frames, %zu kB\n", arguments->output, frames, (size + 512) / 1024);
	return err;
}

int cmd_flamegraph(int argc, char **argv)
{
	struct flamegraph_arguments arguments = {.output = SVG_DEFAULT};
	struct error error;

	if (view_options_parse(argc, argv, options, &arguments, &arguments.view, &error)) {
		fprintf(stderr, "stackbeat flamegraph: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.view.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (draw_file(&arguments, &error)) {
		fprintf(stderr, "stackbeat flamegraph: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}
