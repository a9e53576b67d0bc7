// SPDX-License-Identifier: GPL-2.0
#include "top/top_screen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "lib/clock.h"
#include "pprof/profile.h"
#include "top/top_flame.h"
#include "top/top_lines.h"

/* As in perf: shares that matter, and those that do not. */
#define SHARE_HIGH 5
#define SHARE_MIDDLE 0.5

static const char *const top_help[] = {
	"Tab, Shift-Tab, Left, Right, 1 to 4   functions, services, processes, containers",
	"Up, Down, PgUp, PgDn, Home, End       select a row",
	"Enter     of a function: its callers and callees; of another row: its functions",
	"Esc, Backspace                        back",
	"/         show only rows with this text; Esc: all rows",
	"s         sort functions by self or by total",
	"f         flame graph of what is shown",
	"w         write what is shown to a pprof file",
	"p, Space  freeze the screen; sampling goes on",
	"q         quit",
	"",
	"self is the time of a function itself, total with the functions that it called,",
	"as shares of all samples; cpu% is the self time, where 100% is one CPU.",
};

void top_screen_clear(struct top_screen *screen)
{
	profile_free(screen->profile);
	profile_free(screen->part);
	top_table_clear(&screen->table);
	free(screen->scope);
	free(screen->function);
	*screen = (struct top_screen){0};
}

void top_screen_note(struct top_screen *screen, const char *text)
{
	snprintf(screen->note, sizeof(screen->note), "%s", text);
}

const struct profile *top_screen_shown(const struct top_screen *screen)
{
	return screen->part ?: screen->profile;
}

/* Rows */

static bool top_screen_has_row(const struct top_screen *screen, const struct top_row *row)
{
	return row->relation == TOP_FUNCTION || strcasestr(row->name, screen->filter);
}

/* Returns the row number `number` of those that the filter leaves; NULL: there are fewer. */
static const struct top_row *top_screen_row(const struct top_screen *screen, size_t number)
{
	for (size_t i = 0; i < screen->table.count; i++) {
		if (top_screen_has_row(screen, &screen->table.rows[i]) && !number--)
			return &screen->table.rows[i];
	}
	return NULL;
}

static size_t top_screen_row_count(const struct top_screen *screen)
{
	size_t count = 0;

	for (size_t i = 0; i < screen->table.count; i++)
		count += top_screen_has_row(screen, &screen->table.rows[i]);
	return count;
}

/* Selects the row of this name and relation, if there still is one. */
static void top_screen_select_again(struct top_screen *screen, const char *name,
				    enum top_relation relation)
{
	const struct top_row *row;

	for (size_t i = 0; (row = top_screen_row(screen, i)); i++) {
		if (row->relation == relation && !strcmp(row->name, name)) {
			screen->selected = i;
			return;
		}
	}
}

/* Makes the part and the rows again. A row stays selected, but the first one by its place. */
static int top_screen_make(struct top_screen *screen)
{
	const struct top_row *row =
		screen->selected ? top_screen_row(screen, screen->selected) : NULL;
	char *name = row ? strdup(row->name) : NULL;
	const enum top_relation relation = row ? row->relation : TOP_ROW;
	const struct profile *shown;
	int err = row && !name ? -ENOMEM : 0;

	top_table_clear(&screen->table);
	profile_free(screen->part);
	screen->part = NULL;
	if (!err && screen->scope && screen->profile)
		err = top_table_select(screen->profile, screen->scope_tab, screen->scope,
				       &screen->part);
	shown = top_screen_shown(screen);
	if (!err && shown && screen->view == TOP_VIEW_CALLS)
		err = top_table_make_calls(&screen->table, shown, screen->function);
	else if (!err && shown)
		err = top_table_make(&screen->table, shown, screen->tab, screen->by_total);
	if (!err && name)
		top_screen_select_again(screen, name, relation);
	free(name);
	return err;
}

int top_screen_show(struct top_screen *screen, struct profile *profile,
		    const struct top_counts *counts, uint64_t lost)
{
	profile_free(screen->profile);
	screen->profile = profile;
	screen->counts = *counts;
	screen->lost = lost;
	return top_screen_make(screen);
}

/* Keys */

/* Another list of rows begins at its first one. */
static int top_screen_begin(struct top_screen *screen, enum top_view view)
{
	screen->view = view;
	screen->selected = screen->first = 0;
	return top_screen_make(screen);
}

static int top_screen_set_tab(struct top_screen *screen, enum top_tab tab)
{
	screen->tab = tab;
	/* Rows of another tab have other names. */
	*screen->filter = '\0';
	return top_screen_begin(screen, TOP_VIEW_ROWS);
}

static int top_screen_enter(struct top_screen *screen)
{
	const struct top_row *row = top_screen_row(screen, screen->selected);
	char **text = screen->tab == TOP_FUNCTIONS ? &screen->function : &screen->scope;
	struct profile *part = NULL;
	char *name;
	int err;

	if (!row || (screen->view != TOP_VIEW_ROWS && screen->view != TOP_VIEW_CALLS))
		return 0;
	if (screen->tab != TOP_FUNCTIONS) {
		err = top_table_select(screen->profile, screen->tab, row->name, &part);
		profile_free(part);
		if (err == -EINVAL)
			top_screen_note(screen, "samples without a container are no part");
		if (err)
			return err == -EINVAL ? 0 : err;
	}
	name = strdup(row->name);
	if (!name)
		return -ENOMEM;
	free(*text);
	*text = name;
	*screen->filter = '\0';
	if (screen->tab == TOP_FUNCTIONS) {
		err = top_screen_begin(screen, TOP_VIEW_CALLS);
		/* In the middle, between callers and callees. */
		top_screen_select_again(screen, screen->function, TOP_FUNCTION);
		screen->first = screen->selected - MIN(screen->selected, screen->page / 2);
		return err;
	}
	screen->scope_tab = screen->tab;
	return top_screen_set_tab(screen, TOP_FUNCTIONS);
}

/* Leaves, in this order: a view, the filter, the part. */
static int top_screen_go_back(struct top_screen *screen)
{
	if (screen->view != TOP_VIEW_ROWS)
		return top_screen_begin(screen, TOP_VIEW_ROWS);
	if (*screen->filter) {
		*screen->filter = '\0';
		return 0;
	}
	if (!screen->scope)
		return 0;
	free(screen->scope);
	screen->scope = NULL;
	return top_screen_set_tab(screen, screen->scope_tab);
}

static void top_screen_type(struct top_screen *screen, int key)
{
	const size_t length = strlen(screen->filter);

	if (key == TOP_KEY_ENTER || key == '\r') {
		screen->is_typing = false;
	} else if (key == TOP_KEY_ESCAPE) {
		screen->is_typing = false;
		*screen->filter = '\0';
	} else if (key == TOP_KEY_BACKSPACE || key == '\b') {
		if (length)
			screen->filter[length - 1] = '\0';
	} else if (key >= ' ' && key < 0x100 && length + 1 < sizeof(screen->filter)) {
		screen->filter[length] = (char)key;
		screen->filter[length + 1] = '\0';
	}
	screen->selected = screen->first = 0;
}

/* Moves the selection, or what a flame graph shows; drawing limits it. */
static void top_screen_move(struct top_screen *screen, int key)
{
	const size_t page = MAX(screen->page, 1);
	size_t *at = screen->view == TOP_VIEW_FLAME ? &screen->first : &screen->selected;

	if (key == TOP_KEY_UP)
		*at -= *at > 0;
	else if (key == TOP_KEY_DOWN)
		++*at;
	else if (key == TOP_KEY_PAGE_UP)
		*at -= MIN(*at, page);
	else if (key == TOP_KEY_PAGE_DOWN)
		*at += page;
	else
		*at = key == TOP_KEY_HOME ? 0 : SIZE_MAX / 2;
}

static int top_screen_toggle(struct top_screen *screen, enum top_view view)
{
	return top_screen_begin(screen, screen->view == view ? TOP_VIEW_ROWS : view);
}

int top_screen_key(struct top_screen *screen, int key, enum top_action *action)
{
	*action = TOP_NO_ACTION;
	*screen->note = '\0';
	if (screen->is_typing) {
		top_screen_type(screen, key);
		return 0;
	}
	if (key >= '1' && key < '1' + TOP_TABS)
		return top_screen_set_tab(screen, (enum top_tab)(key - '1'));
	switch (key) {
	case 'q':
		*action = TOP_QUIT;
		return 0;
	case 'w':
		*action = TOP_WRITE;
		return 0;
	case ' ':
	case 'p':
		screen->frozen = !screen->frozen;
		return 0;
	case '/':
		screen->is_typing = screen->view == TOP_VIEW_ROWS || screen->view == TOP_VIEW_CALLS;
		return 0;
	case 's':
		screen->by_total = !screen->by_total;
		return top_screen_make(screen);
	case 'f':
		return top_screen_toggle(screen, TOP_VIEW_FLAME);
	case '?':
	case 'h':
		return top_screen_toggle(screen, TOP_VIEW_HELP);
	case TOP_KEY_ENTER:
	case '\r':
		return top_screen_enter(screen);
	case TOP_KEY_ESCAPE:
	case TOP_KEY_BACKSPACE:
	case '\b':
		return top_screen_go_back(screen);
	case '\t':
	case TOP_KEY_NEXT_TAB:
		return top_screen_set_tab(screen, (screen->tab + 1) % TOP_TABS);
	case TOP_KEY_PREVIOUS_TAB:
		return top_screen_set_tab(screen, (screen->tab + TOP_TABS - 1) % TOP_TABS);
	default:
		if (key >= TOP_KEY_UP && key <= TOP_KEY_END)
			top_screen_move(screen, key);
		return 0;
	}
}

/* Drawing */

static double top_screen_percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

static int top_screen_draw_status(const struct top_screen *screen, struct top_lines *lines)
{
	const struct top_counts *counts = &screen->counts;
	const double seconds = (double)counts->duration_ns / (double)NS_PER_SECOND;
	const time_t end = (counts->start_ns + counts->duration_ns) / NS_PER_SECOND;
	const uint64_t complete = counts->samples - MIN(counts->truncated, counts->samples);
	int64_t cpu_ns = 0;
	struct tm local;
	char clock[16] = "";
	int err;

	if (!screen->profile)
		return top_lines_add(lines, TOP_STRONG, "stackbeat top: no samples yet");
	for (size_t i = 0; i < screen->profile->samples.count; i++)
		cpu_ns += profile_values(screen->profile, i)[PROFILE_CPU];
	if (localtime_r(&end, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	err = top_lines_format(
		lines, TOP_STRONG,
		"%u Hz, %.0f samples/s, lost %" PRIu64 ", complete %.1f%%, overhead %.2f%%",
		counts->rate, seconds > 0 ? (double)counts->samples / seconds : 0, screen->lost,
		counts->samples ? top_screen_percent((double)complete, (double)counts->samples)
				: 100,
		top_screen_percent((double)counts->overhead_ns,
				   (double)counts->duration_ns * counts->cpus));
	return err
		       ?: top_lines_format(
				  lines, TOP_STRONG, "%s  cpu %.1f%% of %u%%, last %.1f s%s%s",
				  clock,
				  top_screen_percent((double)cpu_ns, (double)counts->duration_ns),
				  counts->cpus * 100, seconds, screen->frozen ? ", frozen" : "",
				  screen->by_total ? ", sorted by total" : "");
}

static int top_screen_draw_tabs(const struct top_screen *screen, struct top_lines *lines)
{
	char text[96] = "";
	size_t used = 0;

	for (enum top_tab tab = 0; tab < TOP_TABS; tab++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 tab == screen->tab ? "[%s] " : " %s  ", top_tab_name(tab));
	if (!screen->scope)
		return top_lines_add(lines, TOP_PLAIN, text);
	snprintf(text + used, sizeof(text) - used, " of ");
	return top_lines_add_name(lines, TOP_PLAIN, text, screen->scope);
}

static enum top_style top_screen_style(const struct top_screen *screen, double share,
				       bool is_selected)
{
	if (is_selected && !screen->is_batch)
		return TOP_SELECTED;
	if (share >= SHARE_HIGH)
		return TOP_HIGH;
	return share >= SHARE_MIDDLE ? TOP_MIDDLE : TOP_PLAIN;
}

static int top_screen_draw_row(const struct top_screen *screen, const struct top_row *row,
			       bool is_selected, struct top_lines *lines)
{
	static const char *const relations[] = {"", "caller", "", "callee"};
	const double total = (double)screen->table.total;
	const double self_share = top_screen_percent((double)row->self, total);
	const double share = top_screen_percent((double)row->total, total);
	const double cpu = top_screen_percent(
		(double)(row->relation == TOP_ROW && !screen->by_total ? row->self : row->total),
		(double)screen->counts.duration_ns);
	char before[64];

	if (row->relation != TOP_ROW)
		snprintf(before, sizeof(before), "%-6s %6.2f%% %7.1f%%  ", relations[row->relation],
			 share, cpu);
	else if (screen->tab == TOP_FUNCTIONS)
		snprintf(before, sizeof(before), "%6.2f%% %6.2f%% %7.1f%%  ", self_share, share,
			 cpu);
	else
		snprintf(before, sizeof(before), "%6.2f%% %7.1f%%  ", share, cpu);
	return top_lines_add_name(
		lines, top_screen_style(screen, screen->by_total ? share : self_share, is_selected),
		before, row->name);
}

static int top_screen_draw_head(const struct top_screen *screen, struct top_lines *lines)
{
	static const char *const names[] = {
		[TOP_SERVICES] = "service",
		[TOP_PROCESSES] = "process",
		[TOP_CONTAINERS] = "container, pod or systemd unit",
	};
	const size_t columns = lines->columns ? lines->columns : 1;
	char text[96];

	if (screen->view == TOP_VIEW_CALLS)
		snprintf(text, sizeof(text), "%-6s %7s %8s  %s", "", "total", "cpu%", "function");
	else if (screen->tab == TOP_FUNCTIONS)
		snprintf(text, sizeof(text), "%7s %7s %8s  %s", "self", "total", "cpu%",
			 "function");
	else
		snprintf(text, sizeof(text), "%7s %8s  %s", "share", "cpu%", names[screen->tab]);
	/* The whole line is inverse. */
	return top_lines_format(lines, TOP_HEAD, "%-*s", screen->is_batch ? 1 : (int)columns, text);
}

/* Draws rows, of which `room` fit. */
static int top_screen_draw_rows(struct top_screen *screen, size_t room, struct top_lines *lines)
{
	const size_t count = top_screen_row_count(screen);
	size_t number = 0;
	int err = 0;

	screen->page = room;
	screen->selected = MIN(screen->selected, count ? count - 1 : 0);
	if (screen->selected < screen->first)
		screen->first = screen->selected;
	if (room && screen->selected >= screen->first + room)
		screen->first = screen->selected - room + 1;
	if (screen->first + room > count)
		screen->first = count - MIN(room, count);
	for (size_t i = 0; i < screen->table.count && !err; i++) {
		const struct top_row *row = &screen->table.rows[i];

		if (!top_screen_has_row(screen, row))
			continue;
		if (number >= screen->first && number < screen->first + room)
			err = top_screen_draw_row(screen, row, number == screen->selected, lines);
		number++;
	}
	return err;
}

static int top_screen_draw_flame(struct top_screen *screen, size_t room, struct top_lines *lines)
{
	const struct profile *shown = top_screen_shown(screen);
	const size_t before = lines->count;
	size_t depth;
	int err;

	screen->page = room;
	if (!shown)
		return 0;
	err = top_flame_add(lines, shown, screen->first, room, &depth);
	/* Beyond the last depth: the graph has become less deep, or the user has gone on. */
	if (!err && screen->first + room > depth && screen->first) {
		screen->first = depth - MIN(room, depth);
		while (lines->count > before)
			free(lines->items[--lines->count].text);
		err = top_flame_add(lines, shown, screen->first, room, &depth);
	}
	return err;
}

static int top_screen_draw_end(const struct top_screen *screen, struct top_lines *lines)
{
	if (*screen->note)
		return top_lines_add(lines, TOP_STRONG, screen->note);
	if (screen->is_typing)
		return top_lines_format(lines, TOP_STRONG, "/%s_", screen->filter);
	if (*screen->filter)
		return top_lines_format(lines, TOP_STRONG, "rows with '%s' (Esc: all)",
					screen->filter);
	if (screen->view != TOP_VIEW_ROWS)
		return top_lines_add(lines, TOP_STRONG,
				     "Esc back  w write  p freeze  ? help  q quit");
	return top_lines_add(
		lines, TOP_STRONG,
		screen->tab == TOP_FUNCTIONS
			? "Enter callers  / search  f flame graph  w write  p freeze  ? help  q "
			  "quit"
			: "Enter functions  / search  f flame graph  w write  p freeze  ? help  q "
			  "quit");
}

/* Draws what is between the status and the last line. */
static int top_screen_draw_middle(struct top_screen *screen, size_t room, struct top_lines *lines)
{
	int err = 0;

	if (screen->view == TOP_VIEW_FLAME)
		return top_screen_draw_flame(screen, room, lines);
	if (screen->view != TOP_VIEW_HELP) {
		err = top_screen_draw_head(screen, lines);
		return err ?: top_screen_draw_rows(screen, room - MIN(room, 1), lines);
	}
	for (size_t i = 0; i < MIN(room, sizeof(top_help) / sizeof(*top_help)) && !err; i++)
		err = top_lines_add(lines, TOP_PLAIN, top_help[i]);
	return err;
}

int top_screen_draw(struct top_screen *screen, size_t rows, struct top_lines *lines)
{
	const size_t last = rows - MIN(rows, 1);
	int err = top_screen_draw_status(screen, lines);

	if (!err && !screen->is_batch)
		err = top_screen_draw_tabs(screen, lines);
	if (!err && screen->is_batch)
		return top_screen_draw_middle(screen, rows ? rows + 1 : SIZE_MAX / 2, lines);
	if (!err)
		err = top_screen_draw_middle(screen, last - MIN(last, lines->count), lines);
	/* A screen of few rows shows the first ones. */
	while (lines->count > last)
		free(lines->items[--lines->count].text);
	while (lines->count < last && !err)
		err = top_lines_add(lines, TOP_PLAIN, "");
	return err ?: top_screen_draw_end(screen, lines);
}
