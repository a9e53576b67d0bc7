// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "lib/atomic_file.h"
#include "report/call_tree.h"
#include "report/flamegraph.h"

#define OUTPUT_DEFAULT "stackbeat.svg"
#define GROUP_DEFAULT "comm"
#define GROUP_NONE "none"

static const char help[] =
	"Usage: stackbeat flamegraph [OPTIONS] FILE\n"
	"Draw a pprof file (\"-\": the standard input) as an SVG file, to be opened in a browser.\n"
	"\n"
	"  -o, --output FILE     write to FILE, \"-\": the standard output "
	"(default: " OUTPUT_DEFAULT ")\n"
	"  --title TEXT          the title (default: the name of the pprof file)\n"
	"  --sample-type NAME    the value to show (default: the one that FILE names, or its "
	"last)\n"
	"  --group LABEL         divide the root by a label of the samples, as comm or container;\n"
	"                        none: don't (default: comm where there is one)\n"
	"  -h, --help            print this\n"
	"\n"
	"Exit status: 0, 1 if FILE can't be drawn or written, 2 for wrong arguments.\n";

enum {
	OPTION_TITLE = 256,
};

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"title", required_argument, NULL, OPTION_TITLE},
	VIEW_LONG_OPTIONS,
	{0},
};

struct arguments {
	struct view_options view;
	const char *output, *title;
};

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct arguments *arguments = arg;

	(void)error;
	if (option == 'o')
		arguments->output = value;
	else
		arguments->title = value;
	return 0;
}

static int write_file(const char *path, const char *text, size_t size, struct error *error)
{
	struct atomic_file file;
	int ret = atomic_file_create(&file, path, error);

	if (ret)
		return ret;
	ret = atomic_file_write(&file, text, size, error);
	if (ret) {
		atomic_file_discard(&file);
		return ret;
	}
	return atomic_file_commit(&file, error);
}

/* Puts the picture into *svg, which the caller frees also on an error. */
static int draw(const struct arguments *arguments, char **svg, size_t *size, size_t *frames,
		struct error *error)
{
	struct flamegraph_options options = {
		.title = arguments->title,
		.sample_type = arguments->view.sample_type,
		.group = arguments->view.group,
	};
	const char *path = arguments->view.file;
	struct pprof_profile *profile = pprof_read(path, error);
	FILE *out;
	int ret;

	if (!profile)
		return -EINVAL;
	if (!options.title)
		options.title = strcmp(path, "-") ? basename(path) : "stackbeat";
	if (!options.group && calltree_has_label(profile, GROUP_DEFAULT))
		options.group = GROUP_DEFAULT;
	else if (options.group && !strcmp(options.group, GROUP_NONE))
		options.group = NULL;
	out = open_memstream(svg, size);
	ret = out ? flamegraph_write(profile, &options, out, frames, error) : -ENOMEM;
	if (out && (fclose(out) || ret == -ENOMEM))
		ret = -ENOMEM;
	if (ret == -ENOMEM)
		error_errno(error, ENOMEM, "%s", path);
	pprof_profile_free(profile);
	return ret;
}

static int run(const struct arguments *arguments, struct error *error)
{
	size_t size = 0, frames = 0;
	char *svg = NULL;
	int ret = draw(arguments, &svg, &size, &frames, error);

	if (!ret)
		ret = write_file(arguments->output, svg, size, error);
	free(svg);
	if (!ret && strcmp(arguments->output, "-") != 0)
		printf("%s: %zu frames, %zu kB\n", arguments->output, frames, (size + 512) / 1024);
	return ret;
}

int cmd_flamegraph(int argc, char **argv)
{
	struct arguments arguments = {.output = OUTPUT_DEFAULT};
	struct error error;

	if (view_options_parse(argc, argv, ":o:h", long_options, parse_option, &arguments,
			       &arguments.view, &error)) {
		fprintf(stderr, "stackbeat flamegraph: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.view.help) {
		fputs(help, stdout);
		return STATUS_OK;
	}
	if (run(&arguments, &error)) {
		fprintf(stderr, "stackbeat flamegraph: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}
