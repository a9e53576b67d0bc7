/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The terminal of `stackbeat top`, by ncurses, which is loaded on demand. It restores the terminal
 * whenever the process leaves it: the caller reads signals from an fd, and calls these functions.
 */
#ifndef STACKBEAT_TOP_TOP_TERMINAL_H
#define STACKBEAT_TOP_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct top_lines;

/* Loads ncurses, once. Returns 0, or -EOPNOTSUPP if it is missing or too old. */
int top_terminal_load(struct error *error);

/*
 * Takes the terminal of the standard input and output; top_terminal_load() has returned 0. Returns
 * 0, or a negative errno value if TERM is no terminal that has a screen.
 */
int top_terminal_open(bool has_colors, struct error *error);

/* Gives the terminal back, also if it was not taken. */
void top_terminal_close(void);

/* Returns the rows of the terminal, and sets *columns. */
size_t top_terminal_size(size_t *columns);

/* The size of the terminal has changed (SIGWINCH). */
void top_terminal_resize(void);

/* Gives the terminal back, stops this process (SIGTSTP), and takes it again afterwards. */
void top_terminal_stop(void);

/* Shows lines from the top on: what has changed is sent. */
void top_terminal_show(const struct top_lines *lines);

/* Returns the next key (enum top_key, or a byte) without waiting, or -1. */
int top_terminal_key(void);

#endif
