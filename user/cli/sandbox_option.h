/* SPDX-License-Identifier: GPL-2.0 */
/* The options of how untrusted files are read (reader_sandbox.h). */
#ifndef STACKBEAT_CLI_SANDBOX_OPTION_H
#define STACKBEAT_CLI_SANDBOX_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"

struct sandbox_options {
	bool require; /* refuse to work without a complete sandbox */
	uint32_t timeout_s; /* of the symbolization; 0: not given */
};

#define SYMBOLIZE_TIMEOUT_MAX_S (UINT32_C(7) * 24 * 3600)

/* The value of --sandbox, in a bool: the sandbox is required. */
option_fn option_sandbox;

/* Rows for a table of options; `member` is the struct sandbox_options of the subcommand. */
/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): members */
#define SANDBOX_OPTION(type, member)                                                               \
	{0, "sandbox", "WHEN",                                                                     \
	 "require: fail if the processes that read untrusted files can't be confined completely; " \
	 "try (default): print what is missing",                                                   \
	 OPTION_CALL(option_sandbox), OPTION_TARGET(bool, type, member.require)}
#define SYMBOLIZE_TIMEOUT_OPTION(type, member)                                                     \
	{0, "symbolize-timeout", "SEC",                                                            \
	 "stop symbolizing after this many seconds, and use the symbols found so far "             \
	 "(default: 120)",                                                                         \
	 OPTION_NUMBER(type, member.timeout_s, 1, SYMBOLIZE_TIMEOUT_MAX_S)}
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

#endif
