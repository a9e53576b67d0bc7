/* SPDX-License-Identifier: GPL-2.0 */
/* What to use here instead of an option that only perf has. */
#ifndef STACKBEAT_CLI_PERF_HINT_H
#define STACKBEAT_CLI_PERF_HINT_H

/*
 * Returns the hint for an option of perf's subcommand `command`, or NULL: `word` begins with the
 * long option, whose value may follow a "="; or `letter` is the short one, if it is not 0.
 */
const char *perf_option_hint(const char *command, const char *word, int letter);

#endif
