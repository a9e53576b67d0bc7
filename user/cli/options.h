/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Command lines by tables: a row has the names of an option, its text in --help, its kind, and its
 * target, a member of the struct of the subcommand.
 */
#ifndef STACKBEAT_CLI_OPTIONS_H
#define STACKBEAT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cli_option;
struct error;

/*
 * Parses the value of an option, NULL if the option takes none. `options` is the struct of the
 * subcommand. Strings stay in argv. Returns 0, or -EINVAL with one line that begins with the
 * option.
 */
typedef int option_fn(const struct cli_option *option, char *value, void *options,
		      struct error *error);

/* The row of an option. Its members from `parse` on are set by a macro of its kind. */
struct cli_option {
	int letter; /* of the short option; 0: it has none */
	const char *name; /* of the long option; NULL: it has none */
	const char *value; /* the value's name in --help; NULL: the option takes none */
	const char *help; /* one paragraph; NULL: end of the table */
	option_fn *parse;
	size_t offset; /* of the target in the struct of the subcommand */
	size_t size; /* of the target; 0: none */
	size_t given; /* offset of a bool that the option sets, and 1; 0: none */
	uint64_t min, max; /* bounds of the value */
	uint32_t constant; /* what the option sets */
	const char *const
		*names; /* of the values of an enum, in their order; the last one is NULL */
};

/* Types and members can't have parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */

/* The target of an option. If the type of the member is not `as`, this does not compile. */
#define OPTION_TARGET(as, type, member)                                                            \
	.offset = _Generic(((type *)0)->member, as : offsetof(type, member)), .size = sizeof(as)

/* Also sets a bool: the option is given. */
#define OPTION_GIVEN(type, member)                                                                 \
	.given = _Generic(((type *)0)->member, bool : offsetof(type, member) + 1)

/* NOLINTEND(bugprone-macro-parentheses) */

/* The kinds of options: an option without a value sets a bool. */
#define OPTION_FLAG(type, member) .parse = option_flag, OPTION_TARGET(bool, type, member)

/* An option without a value sets a uint32_t to a constant. */
#define OPTION_CONSTANT(type, member, value)                                                       \
	.parse = option_constant, OPTION_TARGET(uint32_t, type, member), .constant = (value)

/* A decimal number from `low` to `high`, in a uint32_t. */
#define OPTION_NUMBER(type, member, low, high)                                                     \
	.parse = option_number, OPTION_TARGET(uint32_t, type, member), .min = (low), .max = (high)

/* As OPTION_NUMBER, in a size_t. */
#define OPTION_COUNT(type, member, low, high)                                                      \
	.parse = option_number, OPTION_TARGET(size_t, type, member), .min = (low), .max = (high)

/* Bytes as for parse_size(), in a uint64_t or size_t. */
#define OPTION_SIZE(type, member, low, high)                                                       \
	.parse = option_size, OPTION_TARGET(uint64_t, type, member), .min = (low), .max = (high)

/* Seconds in a double; `low`: 1: a second at least, 0: any duration above 0. */
#define OPTION_SECONDS(type, member, low)                                                          \
	.parse = option_seconds, OPTION_TARGET(double, type, member), .min = (low)

/* A percentage in a double. */
#define OPTION_PERCENT(type, member)                                                               \
	.parse = option_percent, OPTION_TARGET(double, type, member), .max = 100

/* A text, which may be empty. */
#define OPTION_TEXT(type, member) .parse = option_text, OPTION_TARGET(const char *, type, member)

/* A path, which must not be empty. */
#define OPTION_PATH(type, member) .parse = option_path, OPTION_TARGET(const char *, type, member)

/* A value of an enum by its name. */
#define OPTION_CHOICE(type, member, choices)                                                       \
	.parse = option_choice, .offset = offsetof(type, member),                                  \
	.size = sizeof(char[sizeof(((type *)0)->member) == sizeof(uint32_t) ? 4 : -1]),            \
	.names = (choices)

/* A list of labels of samples, in a struct labels. */
#define OPTION_LABELS(type, member)                                                                \
	.parse = option_labels, OPTION_TARGET(struct labels, type, member)

/* Whatever the function does. */
#define OPTION_CALL(function) .parse = (function)

option_fn option_flag, option_constant, option_number, option_size, option_seconds, option_percent,
	option_text, option_path, option_choice, option_labels;

/* Accepts an option, and does nothing. */
option_fn option_ignore;

/* The last rows of each table. */
/* clang-format off */
#define HELP_OPTION(type, member)                                                                  \
	{'h', "help", NULL, "show this help", OPTION_FLAG(type, member)}, {0}
/* clang-format on */

/* Returns the target of an option in the struct of the subcommand. */
void *option_target(const struct cli_option *option, void *options);

/* The text of --help. Paragraphs have no line breaks. */
struct command_help {
	const char *synopsis; /* the command line */
	const char *description; /* one paragraph */
	const struct cli_option *options;
	const char *notes; /* one paragraph; NULL: none */
};

void print_command_help(const struct command_help *help, FILE *stream);

/*
 * Parses argv (argv[0] is the subcommand) into `options`, the struct of the subcommand, which has
 * the defaults. Options may follow arguments, unless `stop_at_argument`. Sets *first to the index
 * of the first argument. Returns 0, or -EINVAL with one line that names the option and what is
 * wrong with it.
 */
int options_parse(int argc, char **argv, const struct cli_option *table, bool stop_at_argument,
		  void *options, int *first, struct error *error);

/*
 * The only argument of argv; `first` is the index that options_parse() has set. Returns 0 or
 * -EINVAL.
 */
int options_file(int argc, char **argv, int first, const char **file, struct error *error);

/*
 * The process of a subcommand: `pid` if -p has set it, or else the only argument of argv; `first`
 * is the index that options_parse() has set. Returns 0 or -EINVAL.
 */
int options_pid(int argc, char **argv, int first, uint32_t *pid, struct error *error);

/*
 * Parses a number of bytes, or of KiB, MiB or GiB with the suffix K, M or G. Returns false if it is
 * none, or more than `max`.
 */
bool parse_size(const char *text, uint64_t max, uint64_t *size);

/*
 * Parses a decimal number from `min` to `max`. Returns 0, or -EINVAL; `what` begins the message.
 */
int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error);

#endif
