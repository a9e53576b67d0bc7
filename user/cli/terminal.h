/* SPDX-License-Identifier: GPL-2.0 */
/* What the terminal of an output can show, and a pager for what does not fit. */
#ifndef STACKBEAT_CLI_TERMINAL_H
#define STACKBEAT_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

/* Returns the columns of the terminal that `fd` is; 0: it is none. */
size_t terminal_columns(int fd);

/* Returns whether `fd` is a terminal that shows colours, and no NO_COLOR (no-color.org) is set. */
bool terminal_has_colors(int fd);

/* Returns whether the locale of the environment has UTF-8. */
bool terminal_has_utf8(void);

/*
 * Refuses to write an output that is no text to a terminal, whose state its bytes may change, as
 * perf and gzip do: `output` is "-" or a path. Returns 0 or -EINVAL.
 */
int terminal_check_binary(const char *output, struct error *error);

struct pager {
	pid_t pid; /* 0: none */
};

/*
 * Starts $STACKBEAT_PAGER, $PAGER or less, and sends it the standard output, if that is a terminal
 * and the pager is neither empty nor cat. Without a pager, the output goes on as it was. SIGPIPE is
 * ignored from then on.
 */
void pager_start(struct pager *pager);

/* Ends the output, which must be flushed, and waits until the pager has ended. */
void pager_wait(struct pager *pager);

#endif
