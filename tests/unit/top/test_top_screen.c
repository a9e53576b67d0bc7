// SPDX-License-Identifier: GPL-2.0
/* The screen of `stackbeat top` without a terminal: rows, keys, lines. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/profile.h"
#include "report/short_name.h"
#include "sample_profile.h"
#include "top/top_flame.h"
#include "top/top_lines.h"
#include "top/top_screen.h"

#define HOSTILE "evil\033[31m\xe2\x80\xae\n\x01name"

/* Draws the screen, and returns its lines with newlines; to be freed. */
static char *screen_text(struct top_screen *screen, size_t rows, size_t columns, bool ascii)
{
	struct top_lines lines = {.columns = columns, .ascii = ascii};
	char *text = calloc(1, 1);

	assert_int_equal(top_screen_draw(screen, rows, &lines), 0);
	if (!screen->is_batch)
		assert_int_equal(lines.count, rows);
	for (size_t i = 0; i < lines.count; i++) {
		char *longer;

		if (columns)
			assert_in_range(short_name_columns(lines.items[i].text), 0, columns);
		for (const unsigned char *c = (unsigned char *)lines.items[i].text; *c; c++)
			assert_true(*c >= ' ' && *c != 0x7f && (!ascii || *c < 0x80));
		assert_true(asprintf(&longer, "%s%s\n", text, lines.items[i].text) > 0);
		free(text);
		text = longer;
	}
	top_lines_clear(&lines);
	return text;
}

static void show_example(struct top_screen *screen)
{
	const struct top_counts counts = {
		.start_ns = 1700000000LL * 1000 * MS,
		.duration_ns = 100 * MS,
		.samples = EXAMPLE_SAMPLES,
		.truncated = 1,
		.overhead_ns = MS,
		.rate = 99,
		.cpus = 2,
	};

	assert_int_equal(top_screen_show(screen, example_profile(), &counts, 3), 0);
}

static enum top_action press(struct top_screen *screen, int key)
{
	enum top_action action;

	assert_int_equal(top_screen_key(screen, key, &action), 0);
	return action;
}

static void expect_text(struct top_screen *screen, const char *part, bool is_there)
{
	char *text = screen_text(screen, 24, 80, false);

	if (!strstr(text, part) == is_there)
		fail_msg("'%s' is %s in:\n%s", part, is_there ? "not" : "", text);
	free(text);
}

static void expect_row(const struct top_table *table, size_t i, const char *name, int64_t self_ms,
		       int64_t total_ms)
{
	assert_in_range(i, 0, table->count - 1);
	assert_string_equal(table->rows[i].name, name);
	assert_int_equal(table->rows[i].self, self_ms * MS);
	assert_int_equal(table->rows[i].total, total_ms * MS);
}

static void tabs_have_rows(void **state)
{
	struct profile *profile = example_profile();
	struct top_table table;

	(void)state;
	assert_int_equal(top_table_make(&table, profile, TOP_FUNCTIONS, false), 0);
	assert_int_equal(table.total, EXAMPLE_CPU);
	assert_int_equal(table.count, 8);
	expect_row(&table, 0, "vfs_read", 40, 40);
	expect_row(&table, 1, "fib", 30, 30);
	expect_row(&table, 2, "inner", 20, 20);
	expect_row(&table, 3, "outer", 10, 30);
	top_table_clear(&table);
	assert_int_equal(top_table_make(&table, profile, TOP_FUNCTIONS, true), 0);
	expect_row(&table, 0, "main", 0, 110);
	top_table_clear(&table);
	assert_int_equal(top_table_make(&table, profile, TOP_SERVICES, false), 0);
	assert_int_equal(table.count, 2);
	expect_row(&table, 0, "app", 60, 60);
	expect_row(&table, 1, EXAMPLE_COMM, 50, 50);
	top_table_clear(&table);
	assert_int_equal(top_table_make(&table, profile, TOP_PROCESSES, false), 0);
	expect_row(&table, 0, "1234             app", 60, 60);
	top_table_clear(&table);
	assert_int_equal(top_table_make(&table, profile, TOP_CONTAINERS, false), 0);
	assert_int_equal(table.count, 1);
	expect_row(&table, 0, "-", 110, 110);
	top_table_clear(&table);
	profile_free(profile);
}

/* A function that calls itself is its own caller, once for each sample. */
static void calls_are_counted_once_a_sample(void **state)
{
	struct profile *profile = example_profile();
	struct top_table table;

	(void)state;
	assert_int_equal(top_table_make_calls(&table, profile, "fib"), 0);
	assert_int_equal(table.count, 4);
	expect_row(&table, 0, "fib", 30, 30);
	assert_int_equal(table.rows[0].relation, TOP_CALLER);
	expect_row(&table, 1, "main", 30, 30);
	expect_row(&table, 2, "fib", 30, 30);
	assert_int_equal(table.rows[2].relation, TOP_FUNCTION);
	expect_row(&table, 3, "fib", 30, 30);
	assert_int_equal(table.rows[3].relation, TOP_CALLEE);
	top_table_clear(&table);
	assert_int_equal(top_table_make_calls(&table, profile, "outer"), 0);
	expect_row(&table, 1, "outer", 10, 30);
	expect_row(&table, 2, "inner", 20, 20);
	top_table_clear(&table);
	assert_int_equal(top_table_make_calls(&table, profile, "gone"), 0);
	assert_int_equal(table.count, 0);
	profile_free(profile);
}

static void status_says_what_is_sampled(void **state)
{
	struct top_screen screen = {0};
	char *text = screen_text(&screen, 24, 80, false);

	(void)state;
	assert_non_null(strstr(text, "no samples yet"));
	free(text);
	show_example(&screen);
	expect_text(&screen, "99 Hz, 110 samples/s, lost 3, complete 90.9%, overhead 0.50%\n",
		    true);
	expect_text(&screen, "cpu 110.0% of 200%, last 0.1 s\n", true);
	expect_text(&screen, " 36.36%  36.36%    40.0%  vfs_read\n", true);
	assert_int_equal(press(&screen, 'p'), TOP_NO_ACTION);
	assert_true(screen.frozen);
	expect_text(&screen, ", frozen\n", true);
	assert_int_equal(press(&screen, ' '), TOP_NO_ACTION);
	assert_false(screen.frozen);
	assert_int_equal(press(&screen, 'q'), TOP_QUIT);
	assert_int_equal(press(&screen, 'w'), TOP_WRITE);
	top_screen_clear(&screen);
}

static void keys_lead_to_callers_and_parts(void **state)
{
	struct top_screen screen = {0};

	(void)state;
	show_example(&screen);
	press(&screen, TOP_KEY_DOWN);
	press(&screen, TOP_KEY_ENTER);
	expect_text(&screen, "caller  27.27%    30.0%  main\n", true);
	press(&screen, TOP_KEY_ESCAPE);
	expect_text(&screen, "\ncaller", false);
	press(&screen, '2');
	expect_text(&screen, "[services]", true);
	press(&screen, TOP_KEY_ENTER);
	expect_text(&screen, "[functions]  services   processes   containers   of app\n", true);
	expect_text(&screen, "vfs_read", false);
	assert_ptr_equal(top_screen_shown(&screen), screen.part);
	/* It stays the part when new samples come. */
	show_example(&screen);
	expect_text(&screen, "vfs_read", false);
	press(&screen, TOP_KEY_BACKSPACE);
	expect_text(&screen, "[services]", true);
	assert_ptr_equal(top_screen_shown(&screen), screen.profile);
	press(&screen, TOP_KEY_PREVIOUS_TAB);
	press(&screen, TOP_KEY_PREVIOUS_TAB);
	expect_text(&screen, "[containers]", true);
	press(&screen, TOP_KEY_ENTER);
	expect_text(&screen, "samples without a container", true);
	press(&screen, '\t');
	expect_text(&screen, "[functions]", true);
	press(&screen, '?');
	expect_text(&screen, "flame graph of what is shown", true);
	top_screen_clear(&screen);
}

static void rows_are_searched(void **state)
{
	struct top_screen screen = {0};

	(void)state;
	show_example(&screen);
	press(&screen, '/');
	/* Keys are text. */
	press(&screen, 'O');
	press(&screen, 'q');
	press(&screen, TOP_KEY_BACKSPACE);
	press(&screen, 'u');
	expect_text(&screen, "/Ou_\n", true);
	press(&screen, TOP_KEY_ENTER);
	expect_text(&screen, "  outer\n", true);
	expect_text(&screen, "vfs_read", false);
	expect_text(&screen, "rows with 'Ou'", true);
	press(&screen, TOP_KEY_ESCAPE);
	expect_text(&screen, "vfs_read", true);
	top_screen_clear(&screen);
}

static void a_row_stays_selected(void **state)
{
	struct top_screen screen = {0};

	(void)state;
	show_example(&screen);
	press(&screen, TOP_KEY_DOWN);
	press(&screen, 's');
	expect_text(&screen, ", sorted by total\n", true);
	assert_string_equal(screen.table.rows[screen.selected].name, "fib");
	press(&screen, TOP_KEY_END);
	expect_text(&screen, "main", true);
	assert_int_equal(screen.selected, screen.table.count - 1);
	press(&screen, TOP_KEY_HOME);
	assert_int_equal(screen.selected, 0);
	top_screen_clear(&screen);
}

static void flame_graphs_have_shares_of_the_width(void **state)
{
	struct profile *profile = example_profile();
	struct top_lines lines = {.columns = 44};
	size_t depth;

	(void)state;
	assert_int_equal(top_flame_add(&lines, profile, 0, 10, &depth), 0);
	assert_int_equal(depth, 5);
	assert_int_equal(lines.count, 5);
	assert_string_equal(lines.items[0].text, "|all                                        ");
	assert_string_equal(lines.items[1].text, "|main                                       ");
	assert_string_equal(lines.items[2].text, "|read           |fib        |outer      |   ");
	assert_string_equal(lines.items[3].text, "|entry          |fib        |inner  ");
	assert_string_equal(lines.items[4].text, "|vfs_read       |fib        ");
	top_lines_clear(&lines);
	assert_int_equal(top_flame_add(&lines, profile, 4, 10, &depth), 0);
	assert_int_equal(lines.count, 1);
	top_lines_clear(&lines);
	profile_free(profile);
}

/* Names come from programs and files. */
static void hostile_names_are_harmless(void **state)
{
	static const int keys[] = {TOP_KEY_HOME, TOP_KEY_ENTER, 'f', TOP_KEY_ESCAPE, '2', '3', '4'};
	struct top_screen screen = {0};
	struct profile *profile = empty_profile();
	uint32_t map = example_mapping(profile, 0x1000, 0x2000, 0, HOSTILE, NULL);
	uint32_t leaf = example_location(profile, map, 0x1000, HOSTILE, HOSTILE);
	const struct top_counts counts = {.duration_ns = MS, .samples = 1, .cpus = 1};

	(void)state;
	example_sample(profile, &leaf, 1, 1, HOSTILE);
	assert_int_equal(top_screen_show(&screen, profile, &counts, 0), 0);
	top_screen_note(&screen, HOSTILE);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		free(screen_text(&screen, 24, 80, false));
		free(screen_text(&screen, 24, 80, true));
		press(&screen, keys[i]);
	}
	screen.is_batch = true;
	free(screen_text(&screen, 0, 0, false));
	top_screen_clear(&screen);
}

static void screens_of_any_size_are_drawn(void **state)
{
	static const int keys[] = {'1', TOP_KEY_END,       TOP_KEY_ENTER, TOP_KEY_PAGE_DOWN,
				   'f', TOP_KEY_PAGE_DOWN, TOP_KEY_UP,    '?',
				   '4'};
	struct top_screen screen = {0};

	(void)state;
	show_example(&screen);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		press(&screen, keys[i]);
		for (size_t rows = 1; rows < 12; rows++)
			free(screen_text(&screen, rows, rows * 5, rows % 2));
	}
	top_screen_clear(&screen);
}

static void a_window_covers_the_last_seconds(void **state)
{
	struct top_window window = {.span_ns = 25 * MS};
	struct top_counts counts = {.duration_ns = 10 * MS, .samples = EXAMPLE_SAMPLES, .lost = 1};
	struct profile *sum;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		counts.start_ns = (int64_t)i * 10 * MS;
		assert_int_equal(
			top_window_add(&window, i == 3 ? NULL : example_profile(), &counts), 0);
	}
	assert_int_equal(top_window_sum(&window, &sum, &counts), 0);
	/* The last three slices, one of which has no samples. */
	assert_int_equal(counts.duration_ns, 30 * MS);
	assert_int_equal(counts.lost, 3);
	assert_int_equal(sum->time_ns, 20 * MS);
	assert_int_equal(sum->duration_ns, 30 * MS);
	assert_int_equal(sum->samples.count, 5);
	assert_int_equal(profile_values(sum, 0)[PROFILE_SAMPLES], 6);
	profile_free(sum);
	top_window_clear(&window);
	/* Without samples, a window has no rows. */
	assert_int_equal(top_window_sum(&window, &sum, &counts), 0);
	assert_int_equal(sum->samples.count, 0);
	profile_free(sum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tabs_have_rows),
		cmocka_unit_test(calls_are_counted_once_a_sample),
		cmocka_unit_test(status_says_what_is_sampled),
		cmocka_unit_test(keys_lead_to_callers_and_parts),
		cmocka_unit_test(rows_are_searched),
		cmocka_unit_test(a_row_stays_selected),
		cmocka_unit_test(flame_graphs_have_shares_of_the_width),
		cmocka_unit_test(hostile_names_are_harmless),
		cmocka_unit_test(screens_of_any_size_are_drawn),
		cmocka_unit_test(a_window_covers_the_last_seconds),
	};

	return cmocka_run_group_tests_name("top_screen", tests, NULL, NULL);
}
