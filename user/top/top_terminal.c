// SPDX-License-Identifier: GPL-2.0
#include "top/top_terminal.h"

/* Macros would use variables of the library. */
#define NCURSES_NOMACROS
#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/optional_library.h"
#include "top/top_lines.h"
#include "top/top_screen.h"

#define LIBRARY "libncursesw.so.6"
#define SHARE_BYTES 16 /* of a row: its shares, which have colours */
#define ESCAPE_MS 50 /* a key that begins with Esc sends the rest within this time */
#define PAIR_HIGH 1
#define PAIR_MIDDLE 2

/* The functions that are used. */
#define NCURSES_FUNCTIONS(FUNCTION)                                                                \
	FUNCTION(cbreak)                                                                           \
	FUNCTION(curs_set)                                                                         \
	FUNCTION(endwin)                                                                           \
	FUNCTION(has_colors)                                                                       \
	FUNCTION(init_pair)                                                                        \
	FUNCTION(keypad)                                                                           \
	FUNCTION(newterm)                                                                          \
	FUNCTION(newwin)                                                                           \
	FUNCTION(nodelay)                                                                          \
	FUNCTION(noecho)                                                                           \
	FUNCTION(resizeterm)                                                                       \
	FUNCTION(set_escdelay)                                                                     \
	FUNCTION(start_color)                                                                      \
	FUNCTION(touchwin)                                                                         \
	FUNCTION(use_default_colors)                                                               \
	FUNCTION(waddnstr)                                                                         \
	FUNCTION(wattrset)                                                                         \
	FUNCTION(werase)                                                                           \
	FUNCTION(wgetch)                                                                           \
	FUNCTION(wmove)                                                                            \
	FUNCTION(wrefresh)                                                                         \
	FUNCTION(wresize)

/* A name can't have parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define NCURSES_POINTER(name) __typeof__(&(name)) name;
#define NCURSES_NAME(name) #name,

static struct ncurses {
	NCURSES_FUNCTIONS(NCURSES_POINTER)
} ncurses;

#undef NCURSES_POINTER

static struct top_terminal {
	WINDOW *window; /* NULL: the terminal was not taken */
	bool has_colors;
} top_terminal;

int top_terminal_load(struct error *error)
{
	static const char *const names[] = {NCURSES_FUNCTIONS(NCURSES_NAME)};
	static const struct optional_library library = {
		.files = {LIBRARY},
		.names = names,
		.count = sizeof(names) / sizeof(names[0]),
		.missing = "there is no " LIBRARY
			   ", which shows the screen: install it (in Debian: package "
			   "libncursesw6), or use --batch",
		.too_old = LIBRARY " is too old for stackbeat; --batch needs none",
	};

	return optional_library_load(&library, &ncurses, error) ? 0 : -EOPNOTSUPP;
}

int top_terminal_open(bool has_colors, struct error *error)
{
	const char *type = getenv("TERM");

	/* Characters of other scripts; the rest of the locale stays as it is. */
	setlocale(LC_CTYPE, "");
	if (!type || !ncurses.newterm(NULL, stdout, stdin))
		return error_set(error, ENOTTY,
				 "TERM=%s is no terminal that ncurses knows; use --batch",
				 type ?: "");
	top_terminal.window = ncurses.newwin(0, 0, 0, 0);
	if (!top_terminal.window) {
		ncurses.endwin();
		return error_errno(error, ENOMEM, "the screen");
	}
	ncurses.cbreak();
	ncurses.noecho();
	ncurses.curs_set(0);
	ncurses.set_escdelay(ESCAPE_MS);
	ncurses.keypad(top_terminal.window, TRUE);
	ncurses.nodelay(top_terminal.window, TRUE);
	top_terminal.has_colors = has_colors && ncurses.has_colors();
	if (top_terminal.has_colors) {
		ncurses.start_color();
		ncurses.use_default_colors();
		ncurses.init_pair(PAIR_HIGH, COLOR_RED, -1);
		ncurses.init_pair(PAIR_MIDDLE, COLOR_GREEN, -1);
	}
	return 0;
}

void top_terminal_close(void)
{
	if (top_terminal.window)
		ncurses.endwin();
	top_terminal.window = NULL;
}

size_t top_terminal_size(size_t *columns)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*columns = size.ws_col ? size.ws_col : 80;
	return size.ws_row ? size.ws_row : 24;
}

void top_terminal_resize(void)
{
	size_t columns, rows = top_terminal_size(&columns);

	ncurses.resizeterm((int)rows, (int)columns);
	ncurses.wresize(top_terminal.window, (int)rows, (int)columns);
	ncurses.touchwin(top_terminal.window);
}

void top_terminal_stop(void)
{
	ncurses.endwin();
	/* Of this process alone: the terminal has sent SIGTSTP to the others. */
	raise(SIGSTOP);
	top_terminal_resize();
}

/* The attributes of a style; without colours, shares look alike. */
static int top_terminal_attributes(enum top_style style)
{
	switch (style) {
	case TOP_STRONG:
		return A_BOLD;
	case TOP_HEAD:
	case TOP_SELECTED:
		return A_REVERSE;
	case TOP_HIGH:
		return top_terminal.has_colors ? (int)NCURSES_BITS(PAIR_HIGH, 0) : 0;
	case TOP_MIDDLE:
		return top_terminal.has_colors ? (int)NCURSES_BITS(PAIR_MIDDLE, 0) : 0;
	default:
		return A_NORMAL;
	}
}

void top_terminal_show(const struct top_lines *lines)
{
	WINDOW *window = top_terminal.window;

	ncurses.werase(window);
	for (size_t i = 0; i < lines->count; i++) {
		const struct top_line *line = &lines->items[i];
		const bool is_share = line->style == TOP_HIGH || line->style == TOP_MIDDLE;
		const size_t length = strlen(line->text);
		const size_t part = is_share && length > SHARE_BYTES ? SHARE_BYTES : length;

		ncurses.wmove(window, (int)i, 0);
		ncurses.wattrset(window, top_terminal_attributes(line->style));
		ncurses.waddnstr(window, line->text, (int)part);
		ncurses.wattrset(window, A_NORMAL);
		ncurses.waddnstr(window, line->text + part, (int)(length - part));
	}
	ncurses.wrefresh(window);
}

int top_terminal_key(void)
{
	static const struct {
		int key, is;
	} keys[] = {
		{KEY_UP, TOP_KEY_UP},
		{KEY_DOWN, TOP_KEY_DOWN},
		{KEY_PPAGE, TOP_KEY_PAGE_UP},
		{KEY_NPAGE, TOP_KEY_PAGE_DOWN},
		{KEY_HOME, TOP_KEY_HOME},
		{KEY_END, TOP_KEY_END},
		{KEY_RIGHT, TOP_KEY_NEXT_TAB},
		{KEY_LEFT, TOP_KEY_PREVIOUS_TAB},
		{KEY_BTAB, TOP_KEY_PREVIOUS_TAB},
		{KEY_BACKSPACE, TOP_KEY_BACKSPACE},
		{KEY_ENTER, TOP_KEY_ENTER},
	};
	const int key = ncurses.wgetch(top_terminal.window);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (keys[i].key == key)
			return keys[i].is;
	}
	/* Other keys of the keyboard have no meaning, but 0 is none of them. */
	return key > 0xff ? 0 : key;
}
