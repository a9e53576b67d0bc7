// SPDX-License-Identifier: GPL-2.0
/* Flame graphs: positions and widths of frames, and that no name can break the SVG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>

#include "cli/commands.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "report/flamegraph.h"
#include "sample_profile.h"
#include "scratch.h"

#define DEPTH 1000
#define WIDE 100000

/* Returns the SVG, to be freed. Frees the profile. */
static char *draw(void **state, struct profile *built, const char *group, size_t *frames)
{
	const struct flamegraph_options options = {.title = "a <title> & more", .group = group};
	char *path = scratch_file(state, "profile"), *svg;
	struct profile *profile;
	struct error error = {""};
	size_t size;
	FILE *out = open_memstream(&svg, &size);

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	profile = pprof_read(path, &error);
	assert_non_null(profile);
	assert_int_equal(flamegraph_write(profile, &options, out, frames, &error), 0);
	fclose(out);
	assert_int_equal(strlen(svg), size);
	profile_free(profile);
	profile_free(built);
	free(path);
	return svg;
}

static void assert_contains(const char *svg, const char *expected)
{
	if (!strstr(svg, expected))
		fail_msg("not in the picture: %s", expected);
}

/*
 * Follows the elements from start to end and says whether each start has its end and
 * characters outside of the CDATA section are escaped.
 */
static bool is_well_formed(const char *xml)
{
	const char *open[16], *end;
	size_t depth = 0, length;

	for (; (xml = strpbrk(xml, "<&")); xml = end) {
		if (*xml == '&') {
			end = xml + 1 + strcspn(xml + 1, ";<& ");
			if (*end != ';')
				return false;
			continue;
		}
		if (!strncmp(xml, "<![CDATA[", 9)) {
			end = strstr(xml, "]]>");
			if (!end)
				return false;
			continue;
		}
		end = strchr(xml, '>');
		if (!end)
			return false;
		if (xml[1] == '?' || end[-1] == '/')
			continue;
		length = strcspn(xml + 1, " >/");
		if (xml[1] != '/') {
			if (!length || depth == 16)
				return false;
			open[depth++] = xml + 1;
			continue;
		}
		length = strcspn(xml + 2, ">");
		if (!depth || strncmp(open[--depth], xml + 2, length) ||
		    !strchr(" >", open[depth][length]))
			return false;
	}
	return !depth;
}

static void frames_have_positions(void **state)
{
	size_t frames;
	char *svg = draw(state, example_profile(), NULL, &frames);

	assert_int_equal(frames, 11);
	/* 110 ms are 1180 px. */
	assert_contains(svg, "data-x=\"0\" data-w=\"110000000\" data-d=\"0\"><title>all\n"
			     "110ms, 100%</title>");
	assert_contains(svg, "data-x=\"0\" data-w=\"40000000\" data-d=\"4\"><title>vfs_read\n"
			     "40ms, 36.36%</title>");
	assert_contains(svg, "x=\"10.00\" y=\"150\" width=\"428.49\" height=\"17\"/>");
	assert_contains(svg, "data-x=\"40000000\" data-w=\"30000000\" data-d=\"2\"><title>fib\n");
	assert_contains(svg, "data-x=\"70000000\" data-w=\"20000000\" data-d=\"3\"><title>inner\n");
	free(svg);
}

static void frame_kinds_have_colours(void **state)
{
	char *svg = draw(state, example_profile(), "comm", NULL);

	assert_contains(svg, "<title>all\n110ms, 100%</title><rect class=\"root\"");
	assert_contains(svg, "<title>app\n60ms, 54.55%</title><rect class=\"group\"");
	assert_contains(svg, "<title>fib\n30ms, 27.27%</title><rect class=\"u");
	assert_contains(svg, "<title>vfs_read\n40ms, 36.36%</title><rect class=\"k");
	assert_contains(svg, "<title>libx.so+0x1234\n10ms, 9.09%</title><rect class=\"x");
	assert_contains(svg, ">user</text>");
	assert_contains(svg, ">kernel</text>");
	assert_contains(svg, ">unresolved</text>");
	free(svg);
}

static void names_are_escaped(void **state)
{
	static const char *const names[] = {
		"</title><script>alert(1)</script>",
		"]]>",
		"&amp;",
		"\"'><!--",
		"bell\x07 escape\x1b[0m",
		"noncharacter \xef\xbf\xbf",
		"a\nb",
	};
	struct profile *built = empty_profile();
	uint32_t label = example_label(built, "comm", "<&>");
	uint32_t location;
	char *svg;
	size_t i;

	for (i = 0; i < 7; i++) {
		location = example_location(built, 0, i, NULL, names[i]);
		example_add(built, &location, 1, 1, 1, &label, 1);
	}
	svg = draw(state, built, "comm", NULL);
	assert_true(is_well_formed(svg));
	assert_contains(svg, ">a &lt;title&gt; &amp; more</text>");
	assert_contains(svg, "<title>a &lt;title&gt; &amp; more</title>\n<style>");
	assert_contains(svg, "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
	assert_contains(svg, "<title>]]&gt;\n");
	assert_contains(svg, "<title>&amp;amp;\n");
	assert_contains(svg, "<title>bell\xef\xbf\xbd escape\xef\xbf\xbd[0m\n");
	assert_contains(svg, "<title>noncharacter \xef\xbf\xbd\n");
	assert_contains(svg, "<title>a\xef\xbf\xbd"
			     "b\n");
	assert_contains(svg, "<title>&lt;&amp;&gt;\n");
	free(svg);
}

/* XML 1.0 has no other control characters than blanks, and no U+FFFE and U+FFFF. */
static void only_characters_of_xml_are_kept(void **state)
{
	static const struct {
		const char *name, *drawn;
	} cases[] = {
		{"1\x1f \x7e\x7f", "1\xef\xbf\xbd \x7e\xef\xbf\xbd"},
		{"2\xc2\x80\xc2\x9f\xc2\xa0", "2\xef\xbf\xbd\xef\xbf\xbd\xc2\xa0"},
		{"3\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf", "3\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"4\xed\x9f\xbf\xf0\x90\x80\x80", "4\xed\x9f\xbf\xf0\x90\x80\x80"},
	};
	struct profile *built = empty_profile();
	char expected[64], *svg;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t location = example_location(built, 0, i, NULL, cases[i].name);

		example_add(built, &location, 1, 1, 1, NULL, 0);
	}
	svg = draw(state, built, NULL, NULL);
	for (size_t i = 0; i < 4; i++) {
		snprintf(expected, sizeof(expected), "<title>%s\n", cases[i].drawn);
		assert_contains(svg, expected);
		snprintf(expected, sizeof(expected), ">%s</text>", cases[i].drawn);
		assert_contains(svg, expected);
	}
	free(svg);
}

/* A title comes from a file name, in any encoding. */
static void title_without_utf8_is_shown(void **state)
{
	const struct flamegraph_options options = {.title = "caf\xe9 <\xff>"};
	struct profile *profile = example_profile();
	size_t size;
	char *svg;
	FILE *out = open_memstream(&svg, &size);

	(void)state;
	assert_int_equal(flamegraph_write(profile, &options, out, NULL, NULL), 0);
	fclose(out);
	assert_contains(svg, ">caf\xef\xbf\xbd &lt;\xef\xbf\xbd&gt;</text>");
	profile_free(profile);
	free(svg);
}

/* A frame of 1180 / 20 = 59 px has room for 7 columns of 7 px and its padding. */
static void labels_are_clipped(void **state)
{
	struct profile *built = empty_profile();
	uint32_t fits = example_location(built, 0, 1, NULL, "1234567");
	uint32_t clipped = example_location(built, 0, 2, NULL, "12345678");
	uint32_t wide = example_location(built, 0, 3, NULL, "函数名函数名");
	uint32_t rest = example_location(built, 0, 4, NULL, "rest");
	char *svg;

	example_add(built, &fits, 1, 1, 50, NULL, 0);
	example_add(built, &clipped, 1, 1, 50, NULL, 0);
	example_add(built, &wide, 1, 1, 50, NULL, 0);
	example_add(built, &rest, 1, 1, 850, NULL, 0);
	svg = draw(state, built, NULL, NULL);
	assert_contains(svg, ">1234567</text>");
	assert_contains(svg, ">123456…</text>");
	assert_contains(svg, ">函数名…</text>");
	free(svg);
}

static void deep_stacks_are_drawn(void **state)
{
	struct profile *built = empty_profile();
	uint32_t stack[DEPTH];
	size_t frames, i;
	char *svg;

	for (i = 0; i < DEPTH; i++)
		stack[i] = example_location(built, 0, i, NULL, i % 2 ? "ping" : "pong");
	example_add(built, stack, DEPTH, 1, 1000, NULL, 0);
	svg = draw(state, built, NULL, &frames);
	assert_int_equal(frames, DEPTH + 1);
	assert_contains(svg, "data-d=\"1000\"");
	assert_true(is_well_formed(svg));
	free(svg);
}

static void narrow_frames_are_omitted(void **state)
{
	struct profile *built = empty_profile();
	uint32_t large = example_location(built, 0, 1, NULL, "large");
	uint32_t small = example_location(built, 0, 2, NULL, "small");
	uint32_t tiny = example_location(built, 0, 3, NULL, "tiny");
	size_t frames;
	char *svg;

	/* Of 1180 px: 0.118 and 0.059. */
	example_add(built, &large, 1, 1, 19997, NULL, 0);
	example_add(built, &small, 1, 1, 2, NULL, 0);
	example_add(built, &tiny, 1, 1, 1, NULL, 0);
	svg = draw(state, built, NULL, &frames);
	assert_int_equal(frames, 3);
	assert_contains(svg, "<title>small\n");
	assert_null(strstr(svg, "<title>tiny\n"));
	assert_contains(svg, "cpu: 20us, the widest 3 of 4 frames");
	free(svg);
}

/* More frames than a browser can handle, all of the same width. */
static void number_of_frames_is_limited(void **state)
{
	struct profile *built = empty_profile();
	uint32_t stack[10];
	size_t frames, i, j;
	char *svg;

	for (i = 0; i < WIDE / 10; i++) {
		for (j = 0; j < 10; j++)
			stack[j] = profile_location(built, 0, i * 10 + j, NULL, 0);
		example_add(built, stack, 10, 1, 10 + i % 10, NULL, 0);
	}
	svg = draw(state, built, NULL, &frames);
	free(svg);
	assert_int_equal(frames, 20000);
}

static void empty_profile_is_an_error(void **state)
{
	const struct flamegraph_options options = {.title = ""};
	char *path = scratch_file(state, "profile");
	struct profile *built = empty_profile();
	struct profile *profile;
	struct error error;

	example_add(built, NULL, 0, 1, -5, NULL, 0);
	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	profile_free(built);
	profile = pprof_read(path, NULL);
	assert_int_equal(flamegraph_write(profile, &options, stdout, NULL, &error), -ENODATA);
	assert_string_equal(error.text, "the profile has no samples with a value of 'cpu'");
	profile_free(profile);
	free(path);
}

static void command_writes_complete_files(void **state)
{
	char *path = scratch_file(state, "profile"), *svg = scratch_file(state, "svg");
	char *arguments[] = {"flamegraph", "-o", svg, path, NULL};
	char *no_directory[] = {"flamegraph", "-o", "/nonexistent/svg", path, NULL};
	char *no_profile[] = {"flamegraph", "-o", svg, "/nonexistent", NULL};
	char *no_file[] = {"flamegraph", NULL};
	struct profile *built = example_profile();

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	profile_free(built);
	assert_int_equal(cmd_flamegraph(4, no_profile), STATUS_FAILED);
	assert_int_equal(cmd_flamegraph(4, no_directory), STATUS_FAILED);
	assert_int_equal(cmd_flamegraph(1, no_file), STATUS_USAGE);
	assert_int_equal(scratch_count(state, 0), 1);
	assert_int_equal(cmd_flamegraph(4, arguments), STATUS_OK);
	assert_int_equal(scratch_count(state, 0), 2);
	free(path);
	free(svg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(frames_have_positions),
		SCRATCH_TEST(frame_kinds_have_colours),
		SCRATCH_TEST(names_are_escaped),
		SCRATCH_TEST(only_characters_of_xml_are_kept),
		SCRATCH_TEST(title_without_utf8_is_shown),
		SCRATCH_TEST(labels_are_clipped),
		SCRATCH_TEST(deep_stacks_are_drawn),
		SCRATCH_TEST(narrow_frames_are_omitted),
		SCRATCH_TEST(number_of_frames_is_limited),
		SCRATCH_TEST(empty_profile_is_an_error),
		SCRATCH_TEST(command_writes_complete_files),
	};

	return cmocka_run_group_tests_name("flamegraph", tests, NULL, NULL);
}
