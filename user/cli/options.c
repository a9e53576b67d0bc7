// SPDX-License-Identifier: GPL-2.0
#include "cli/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/perf_hint.h"
#include "lib/error.h"
#include "lib/suggest.h"
#include "pprof/labels.h"

#define SECONDS_MAX (365.0 * 24 * 3600)

/* --help: the most columns of a line, and options that put their text on the next line. */
#define HELP_COLUMNS 80
#define OPTION_COLUMNS_MAX 26

#define OPTIONS_MAX 48

/* getopt_long() gives the letter of a short option, and the index of a long one beyond these. */
#define OPTION_LONG_ONLY 0x100

/* --help */

/* Prints the words of a paragraph from column `indent` on, where the cursor is. */
static void print_paragraph(const char *text, int indent, FILE *stream)
{
	int column = indent;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > indent && column + 1 + length > HELP_COLUMNS) {
			fprintf(stream, "\n%*s", indent, "");
			column = indent;
		}
		column += fprintf(stream, "%s%.*s", column > indent ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', stream);
}

/* An option with its value, as --help shows them. Returns the number of columns. */
static int format_option(const struct cli_option *option, char *text, size_t size)
{
	char letter[8] = "   ";

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c%s", option->letter, option->name ? "," : "");
	return snprintf(text, size, "  %s%s%s%s%s", letter, option->name ? " --" : "",
			option->name ? option->name : "", option->value ? " " : "",
			option->value ? option->value : "");
}

void print_command_help(const struct command_help *help, FILE *stream)
{
	const struct cli_option *option;
	char text[64];
	int indent = 0;

	fprintf(stream, "Usage: %s\n\n", help->synopsis);
	print_paragraph(help->description, 0, stream);
	fputc('\n', stream);
	for (option = help->options; option->help; option++) {
		int columns = format_option(option, text, sizeof(text));

		if (columns > indent && columns <= OPTION_COLUMNS_MAX)
			indent = columns;
	}
	indent += 2;
	for (option = help->options; option->help; option++) {
		int columns = format_option(option, text, sizeof(text));

		fputs(text, stream);
		if (columns <= OPTION_COLUMNS_MAX)
			fprintf(stream, "%*s", indent - columns, "");
		else
			fprintf(stream, "\n%*s", indent, "");
		print_paragraph(option->help, indent, stream);
	}
	if (help->notes) {
		fputc('\n', stream);
		print_paragraph(help->notes, 0, stream);
	}
}

/* Numbers */

int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error)
{
	unsigned long long value = 0;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*text))
		value = strtoull(text, &end, 10);
	if (!end || *end || errno || value < min || value > max)
		return error_set(error, EINVAL, "%s: '%s' is not a number from %u to %u", what,
				 text, min, max);
	*number = value;
	return 0;
}

bool parse_size(const char *text, uint64_t max, uint64_t *size)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*text))
		*size = strtoull(text, &end, 10);
	if (!end || errno)
		return false;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end++));
		if (!unit || *end || *size > max >> (10 * (unit - units + 1)))
			return false;
		*size <<= 10 * (unit - units + 1);
	}
	return *size <= max;
}

/* Kinds of options */

/* An option as messages name it. */
struct option_title {
	char text[32];
};

static struct option_title option_title(const struct cli_option *option)
{
	struct option_title title;

	if (option->letter)
		snprintf(title.text, sizeof(title.text), "-%c", option->letter);
	else
		snprintf(title.text, sizeof(title.text), "--%s", option->name);
	return title;
}

void *option_target(const struct cli_option *option, void *options)
{
	return (char *)options + option->offset;
}

int option_ignore(const struct cli_option *option, char *value, void *options, struct error *error)
{
	(void)option;
	(void)value;
	(void)options;
	(void)error;
	return 0;
}

int option_flag(const struct cli_option *option, char *value, void *options, struct error *error)
{
	(void)value;
	(void)error;
	*(bool *)option_target(option, options) = true;
	return 0;
}

int option_constant(const struct cli_option *option, char *value, void *options,
		    struct error *error)
{
	(void)value;
	(void)error;
	*(uint32_t *)option_target(option, options) = option->constant;
	return 0;
}

int option_number(const struct cli_option *option, char *value, void *options, struct error *error)
{
	uint32_t number;
	int err = parse_number(value, option_title(option).text, (uint32_t)option->min,
			       (uint32_t)option->max, &number, error);

	if (err)
		return err;
	if (option->size == sizeof(size_t))
		*(size_t *)option_target(option, options) = number;
	else
		*(uint32_t *)option_target(option, options) = number;
	return 0;
}

/* A size as parse_size() reads it. */
static struct option_title format_bytes(uint64_t bytes)
{
	static const char units[] = "KMG";
	struct option_title text;
	int unit = 0;

	while (unit < 3 && bytes && !(bytes & 1023)) {
		bytes >>= 10;
		unit++;
	}
	snprintf(text.text, sizeof(text.text), "%llu%.*s", (unsigned long long)bytes, unit > 0,
		 units + (unit ? unit - 1 : 0));
	return text;
}

int option_size(const struct cli_option *option, char *value, void *options, struct error *error)
{
	uint64_t bytes;

	if (!parse_size(value, option->max, &bytes) || bytes < option->min)
		return error_set(error, EINVAL, "%s: '%s' is not a size from %s to %s",
				 option_title(option).text, value, format_bytes(option->min).text,
				 format_bytes(option->max).text);
	*(uint64_t *)option_target(option, options) = bytes;
	return 0;
}

int option_seconds(const struct cli_option *option, char *value, void *options, struct error *error)
{
	const struct option_title title = option_title(option);
	char *end;
	double seconds = strtod(value, &end);

	/* strtod() accepts more than decimal numbers. */
	if (end == value || *end || value[strspn(value, "0123456789.")] || seconds <= 0 ||
	    seconds > SECONDS_MAX)
		return error_set(error, EINVAL,
				 "%s: '%s' is not a number of seconds above 0, at most %.0f",
				 title.text, value, SECONDS_MAX);
	if (option->min && seconds < 1)
		return error_set(error, EINVAL, "%s: '%s' is less than a second", title.text,
				 value);
	*(double *)option_target(option, options) = seconds;
	return 0;
}

int option_percent(const struct cli_option *option, char *value, void *options, struct error *error)
{
	char *end;
	double percent = strtod(value, &end);

	if (end == value || *end || !(percent >= 0 && percent <= 100))
		return error_set(error, EINVAL, "%s: '%s' is not a percentage from 0 to 100",
				 option_title(option).text, value);
	*(double *)option_target(option, options) = percent;
	return 0;
}

int option_text(const struct cli_option *option, char *value, void *options, struct error *error)
{
	(void)error;
	*(const char **)option_target(option, options) = value;
	return 0;
}

int option_path(const struct cli_option *option, char *value, void *options, struct error *error)
{
	if (!*value)
		return error_set(error, EINVAL, "%s: the %s is empty", option_title(option).text,
				 strcmp(option->value, "DIR") ? "file name" : "directory");
	return option_text(option, value, options, error);
}

/* Writes "a, b or c". */
static void join_names(const char *const *names, char *text, size_t size)
{
	for (size_t i = 0, used = 0; names[i] && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", names[i],
					 !names[i + 1]  ? ""
					 : names[i + 2] ? ", "
							: " or ");
}

int option_choice(const struct cli_option *option, char *value, void *options, struct error *error)
{
	char list[128] = "";

	for (uint32_t i = 0; option->names[i]; i++) {
		if (strcmp(value, option->names[i]))
			continue;
		*(uint32_t *)option_target(option, options) = i;
		return 0;
	}
	join_names(option->names, list, sizeof(list));
	return error_set(error, EINVAL, "%s: '%s' is not %s", option_title(option).text, value,
			 list);
}

int option_labels(const struct cli_option *option, char *value, void *options, struct error *error)
{
	return labels_choose(option_target(option, options), value, error);
}

/* Command lines */

static const char *option_word(const void *context, size_t index)
{
	const struct cli_option *option = context;

	/* Options without a long name are never near. */
	return option[index].help ? option[index].name ?: "" : NULL;
}

/* Describes a long option that is unknown, or the beginning of more than one. */
static int long_option_error(const char *word, const struct cli_option *options,
			     struct error *error)
{
	const char *name = word + strspn(word, "-"), *near;
	const size_t length = strcspn(name, "=");
	char typed[64], list[256] = "";
	size_t used = 0, count = 0;

	snprintf(typed, sizeof(typed), "%.*s", (int)length, name);
	for (size_t i = 0; options[i].help; i++) {
		if (!options[i].name || strncmp(options[i].name, typed, strlen(typed)))
			continue;
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s--%s",
						 count ? ", " : "", options[i].name);
		count++;
	}
	if (count > 1)
		return error_set(error, EINVAL, "ambiguous option '%s': %s", word, list);
	near = suggest_word(typed, option_word, options);
	if (near)
		return error_set(error, EINVAL, "unknown option '%s'; did you mean '--%s'?", word,
				 near);
	return error_set(error, EINVAL, "unknown option '%s'", word);
}

/* Describes the error that getopt_long() has reported as `result`, ':' or '?'. */
static int option_error(int result, char *const *argv, const struct cli_option *options,
			struct error *error)
{
	const char *word = argv[optind - 1];
	const char *hint = perf_option_hint(argv[0], word, optopt);

	if (result == ':')
		return error_set(error, EINVAL, "%s: its value is missing", word);
	/* In a word of several letters, getopt_long() has not gone on to the next word. */
	if (hint && optopt && optopt < OPTION_LONG_ONLY)
		return error_set(error, EINVAL, "unknown option '-%c': %s", optopt, hint);
	if (hint)
		return error_set(error, EINVAL, "unknown option '%s': %s", word, hint);
	if (!optopt)
		return long_option_error(word, options, error);
	if (optopt >= OPTION_LONG_ONLY)
		return error_set(error, EINVAL, "'%s': takes no value", word);
	return error_set(error, EINVAL, "unknown option '-%c'", optopt);
}

/* The options in the form of getopt_long(). */
struct getopt_tables {
	char letters[2 + 2 * OPTIONS_MAX + 1];
	struct option names[OPTIONS_MAX + 1]; /* the last one is all zero */
};

/* Fills `tables`, which are all zero. */
static void make_getopt_tables(const struct cli_option *options, bool stop_at_argument,
			       struct getopt_tables *tables)
{
	struct option *name = tables->names;
	char *letter = tables->letters;

	if (stop_at_argument)
		*letter++ = '+';
	/* A missing value is reported as ':'. */
	*letter++ = ':';
	for (size_t i = 0; options[i].help; i++) {
		assert(i < OPTIONS_MAX);
		if (options[i].letter) {
			*letter++ = (char)options[i].letter;
			if (options[i].value)
				*letter++ = ':';
		}
		if (options[i].name) {
			name->name = options[i].name;
			name->has_arg = options[i].value ? required_argument : no_argument;
			name->val = OPTION_LONG_ONLY + (int)i;
			name++;
		}
	}
}

/* Returns the row of an option that getopt_long() has found. */
static const struct cli_option *find_option(const struct cli_option *table, int found)
{
	if (found >= OPTION_LONG_ONLY)
		return &table[found - OPTION_LONG_ONLY];
	while (table->letter != found)
		table++;
	return table;
}

static int apply_option(const struct cli_option *option, char *value, void *options,
			struct error *error)
{
	if (option->given)
		((bool *)options)[option->given - 1] = true;
	return option->parse(option, value, options, error);
}

int options_parse(int argc, char **argv, const struct cli_option *table, bool stop_at_argument,
		  void *options, int *first, struct error *error)
{
	struct getopt_tables tables = {0};
	int found, err = 0;

	make_getopt_tables(table, stop_at_argument, &tables);
	optind = 0;
	opterr = 0;
	while (!err &&
	       (found = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
		if (found == ':' || found == '?')
			err = option_error(found, argv, table, error);
		else
			err = apply_option(find_option(table, found), optarg, options, error);
	}
	*first = optind;
	return err;
}

int options_file(int argc, char **argv, int first, const char **file, struct error *error)
{
	if (argc - first != 1)
		return error_set(error, EINVAL, "%s (see stackbeat %s --help)",
				 argc == first ? "no file is given" : "more than one file is given",
				 argv[0]);
	*file = argv[first];
	return 0;
}

int options_pid(int argc, char **argv, int first, uint32_t *pid, struct error *error)
{
	if (argc - first > (*pid ? 0 : 1))
		return error_set(error, EINVAL, "one process ID is the only argument, not '%s'",
				 argv[argc - 1]);
	if (!*pid && first == argc)
		return error_set(error, EINVAL, "no process ID is given (see stackbeat %s --help)",
				 argv[0]);
	return *pid ? 0 : parse_number(argv[first], "a process ID", 1, INT32_MAX, pid, error);
}
