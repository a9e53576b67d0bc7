/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The screen of `stackbeat top` without a terminal: keys change its state, and it is drawn as lines
 * of text. Names come from untrusted programs and files; no line has a control character.
 */
#ifndef STACKBEAT_TOP_TOP_SCREEN_H
#define STACKBEAT_TOP_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top/top_table.h"
#include "top/top_window.h"

struct profile;
struct top_lines;

/* Keys beside the bytes of characters. */
enum top_key {
	TOP_KEY_ENTER = '\n',
	TOP_KEY_ESCAPE = 0x1b,
	TOP_KEY_BACKSPACE = 0x7f,
	TOP_KEY_UP = 0x100,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_NEXT_TAB,
	TOP_KEY_PREVIOUS_TAB,
};

enum top_action {
	TOP_NO_ACTION,
	TOP_QUIT,
	TOP_WRITE, /* a file with top_screen_shown() */
};

enum top_view { TOP_VIEW_ROWS, TOP_VIEW_CALLS, TOP_VIEW_FLAME, TOP_VIEW_HELP };

#define TOP_FILTER_SIZE 128
#define TOP_NOTE_SIZE 512

/* All zero: the functions of no samples. The caller sets `is_batch`, `by_total` and `tab`. */
struct top_screen {
	bool is_batch; /* without tabs and keys */
	bool by_total; /* functions are sorted by total */
	bool frozen; /* the caller shows nothing new */
	enum top_tab tab;
	/* Private. */
	enum top_view view;
	char *scope; /* only the samples of this row of `scope_tab`; NULL: all */
	enum top_tab scope_tab;
	char *function; /* of TOP_VIEW_CALLS */
	char filter[TOP_FILTER_SIZE]; /* rows whose names have it; "": all */
	bool is_typing; /* the filter */
	size_t selected, first; /* of the rows that the filter leaves */
	size_t page; /* rows of the last drawing */
	char note[TOP_NOTE_SIZE]; /* the last line; "": keys */
	struct profile *profile; /* all samples of the window; NULL: none yet */
	struct profile *part; /* of `scope`; NULL: all */
	struct top_counts counts; /* of the window */
	uint64_t lost; /* since the start */
	struct top_table table;
};

void top_screen_clear(struct top_screen *screen);

/*
 * Shows the samples of a window, of which it is the owner from now on, and the number of samples
 * that were lost since the start. Returns 0 or -ENOMEM.
 */
int top_screen_show(struct top_screen *screen, struct profile *profile,
		    const struct top_counts *counts, uint64_t lost);

/* Sets the text of the last line until the next key; "": none. */
void top_screen_note(struct top_screen *screen, const char *text);

/* Takes a key: an enum top_key, or a byte. Sets *action. Returns 0 or -ENOMEM. */
int top_screen_key(struct top_screen *screen, int key, enum top_action *action);

/* Returns what is shown: the samples of the window, or the selected part of them; NULL: none. */
const struct profile *top_screen_shown(const struct top_screen *screen);

/*
 * Adds the lines of the screen, which has `rows` rows, at least 1; with `is_batch`, the status and
 * at most `rows` rows, 0: all. Returns 0 or -ENOMEM.
 */
int top_screen_draw(struct top_screen *screen, size_t rows, struct top_lines *lines);

#endif
