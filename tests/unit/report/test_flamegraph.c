// SPDX-License-Identifier: GPL-2.0
/* Flame graphs: their data, the picture, and that no name can break the SVG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "cli/commands.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "profile_file.h"
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

static uint64_t read_number(const char **at)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint64_t value = 0;
	int shift = 0, digit;

	do {
		digit = (int)(strchr(digits, *(*at)++) - digits);
		value |= (uint64_t)(digit % 32) << shift;
		shift += 5;
	} while (digit >= 32);
	return value;
}

/* Copies a string of the data, with its escapes. */
static void read_string(const char **at, char *text, size_t size)
{
	const char *end = strchr(*at + 1, '"');

	snprintf(text, size, "%.*s", (int)(end - *at - 1), *at + 1);
	*at = end + 1;
}

/*
 * Compares the nodes of the data with lines of: a space for each level, the kind, "i" if it is
 * inlined, the name, its own value, and its value in the base. Values of 0 are omitted.
 */
static void assert_nodes(const char *svg, bool diff, const char *expected)
{
	const char *kinds = strstr(svg, "\"kinds\":\"") + 9, *at = strstr(svg, "\"nodes\":\"") + 9;
	char names[16][64], *text;
	const char *name = strstr(svg, "\"names\":[\n") + 10;
	uint64_t code, depth = 0;
	FILE *out;
	size_t size;

	for (size_t i = 0; *name == '"'; i++) {
		assert_true(i < 16);
		read_string(&name, names[i], sizeof(names[i]));
		name += strspn(name, ",\n");
	}
	out = open_memstream(&text, &size);
	while (*at != '"') {
		code = read_number(&at);
		fprintf(out, "%*s%c%s %s", (int)depth, "", kinds[code / 4], code & 2 ? "i" : "",
			names[code / 4]);
		if (code & 1)
			fprintf(out, " %" PRIu64, read_number(&at));
		if (code & 1 && diff)
			fprintf(out, " %" PRIu64, read_number(&at));
		fputc('\n', out);
		if (*at != '"')
			depth = depth + 1 - read_number(&at);
	}
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

/* All kinds of frames, the widest of siblings first. */
static void all_frames_are_in_the_data(void **state)
{
	size_t frames;
	char *svg = draw(state, example_profile(), "comm", &frames);

	assert_int_equal(frames, 14);
	assert_nodes(svg, false,
		     "0 all\n"
		     " 1 app\n"
		     "  2 main\n"
		     "   2 fib\n"
		     "    2 fib\n"
		     "     2 fib 30000000\n"
		     "   2 outer 10000000\n"
		     "    2i inner 20000000\n"
		     " 1 \\u003cio\\u003e \\u0026 \\u0022co\\u0022\n"
		     "  2 main\n"
		     "   2 read\n"
		     "    3 entry\n"
		     "     3 vfs_read 40000000\n"
		     "   4 libx.so+0x1234 10000000\n");
	assert_contains(svg, "{\"title\":\"a \\u003ctitle\\u003e \\u0026 more\",\n");
	assert_contains(svg, "\"summary\":\"cpu: 110ms in 1s, 2023-11-14 22:13 UTC\",\n");
	assert_contains(svg,
			"\"diff\":false,\n\"units\":[[\"ns\",1],[\"us\",1000],[\"ms\",1000000],"
			"[\"s\",1000000000],[\"hrs\",3600000000000]],\n");
	assert_contains(svg, "\"comments\":[\"11 samples\"]");
	free(svg);
}

/* A call is inlined if it is so at each of its occurrences. */
static void calls_and_inlined_calls_are_one_node(void **state)
{
	struct profile *built = empty_profile();
	uint32_t main = example_location(built, 0, 1, NULL, "main");
	uint32_t inlined = example_location(built, 0, 2, "f", "main");
	uint32_t called = example_location(built, 0, 3, NULL, "f");
	char *svg;

	example_add(built, &inlined, 1, 1, 5, NULL, 0);
	example_add(built, (uint32_t[]){called, main}, 2, 1, 70, NULL, 0);
	svg = draw(state, built, NULL, NULL);
	assert_nodes(svg, false, "0 all\n 2 main\n  2 f 75\n");
	free(svg);
}

static void picture_has_colored_frames_and_labels(void **state)
{
	char *svg = draw(state, example_profile(), "comm", NULL);

	/* 110 ms are 1180 px. */
	assert_contains(svg, "<path class=\"root\" d=\"M10.0 64h1179.4v17h-1179.4z\"/>\n");
	assert_contains(svg, "<path class=\"group\" d=\"M10.0 82h643.0v17h-643.0zM653.6 82h535.8v17"
			     "h-535.8z\"/>\n");
	assert_contains(svg, "<path class=\"k");
	assert_contains(svg, "<path class=\"x");
	assert_contains(svg, "<text x=\"657.6\" y=\"148.5\">entry</text>\n");
	assert_contains(svg, ">user</text>");
	assert_contains(svg, ">kernel</text>");
	assert_contains(svg, ">unresolved</text>");
	assert_null(strstr(svg, ">increase</text>"));
	free(svg);
}

static char *draw_difference(const struct profile *profile, const struct profile *base,
			     bool absolute)
{
	const struct flamegraph_options options = {
		.title = "difference", .base = base, .absolute = absolute};
	struct error error = {""};
	char *svg;
	size_t size;
	FILE *out = open_memstream(&svg, &size);

	assert_int_equal(flamegraph_write(profile, &options, out, NULL, &error), 0);
	fclose(out);
	return svg;
}

/* The profile is scaled to the total of the base; the width of a frame is the sum of both. */
static void difference_has_both_profiles(void **state)
{
	struct profile *base = empty_profile(), *profile = empty_profile();
	uint32_t gone = example_location(base, 0, 1, NULL, "gone");
	uint32_t less = example_location(base, 0, 2, NULL, "less");
	uint32_t less_later = example_location(profile, 0, 2, NULL, "less");
	uint32_t more = example_location(profile, 0, 3, NULL, "more");
	char *svg;

	(void)state;
	example_add(base, &gone, 1, 1, 40, NULL, 0);
	example_add(base, &less, 1, 1, 60, NULL, 0);
	example_add(profile, &less_later, 1, 1, 80, NULL, 0);
	example_add(profile, &more, 1, 1, 120, NULL, 0);
	svg = draw_difference(profile, base, false);
	assert_nodes(svg, true, "0 all\n 2 less 40 60\n 2 more 60 0\n 2 gone 0 40\n");
	assert_contains(svg, "\"diff\":true");
	assert_contains(svg, "cpu: 200ns, compared with 100ns by shares of the totals");
	assert_contains(svg, "<path class=\"c5\" d=\"M10.0 64h1179.4");
	assert_contains(svg, "<path class=\"c4\" d=\"M10.0 82h589.4");
	assert_contains(svg, "<path class=\"c10\" d=\"M600.0 82h353.4");
	assert_contains(svg, "<path class=\"c0\" d=\"M954.0 82h235.4");
	assert_contains(svg, ">increase</text>");
	free(svg);
	svg = draw_difference(profile, base, true);
	assert_nodes(svg, true, "0 all\n 2 less 80 60\n 2 more 120 0\n 2 gone 0 40\n");
	assert_contains(svg, "cpu: 200ns, compared with 100ns<");
	free(svg);
	profile_free(base);
	profile_free(profile);
}

/*
 * Functions of one name with several lines have no line, with several files no source, and in
 * several libraries no library.
 */
static void functions_have_their_sources(void **state)
{
	struct profile *built = empty_profile();
	const uint32_t mappings[] = {
		example_mapping(built, 4096, 8192, 0, "/lib/a.so", ""),
		example_mapping(built, 8192, 12288, 0, "/lib/b.so", ""),
	};
	static const struct {
		const char *name, *file;
		int64_t line;
		int mapping;
	} functions[] = {{"one", "/a.c", 3, 1},   {"two", "/b.c", 4, 0},   {"two", "/b.c", 5, 0},
			 {"two", "/b.c", 6, 0},   {"three", "/a.c", 7, 0}, {"three", "/b.c", 7, 1},
			 {"three", "/b.c", 7, 0}, {"none", "", 0, 1}};
	char *svg;

	for (uint64_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const struct profile_function function = {
			.name = profile_string(built, functions[i].name),
			.file = profile_string(built, functions[i].file),
			.start_line = functions[i].line,
		};
		const struct profile_line line = {.function = profile_function(built, &function)};
		const uint32_t location =
			profile_location(built, mappings[functions[i].mapping],
					 (functions[i].mapping ? 8192 : 4096) + i, &line, 1);

		example_add(built, &location, 1, 1, (int64_t)(100 - i) * MS, NULL, 0);
	}
	svg = draw(state, built, NULL, NULL);
	/* The root, then the functions, the widest first: two, three, one, none. */
	assert_non_null(strstr(svg,
			       "\n\"sources\":[0,0,0,1,0,2,0,0,0,3,3,4,0,0,4],\n"
			       "\"files\":[\"/b.c\",\"/lib/a.so\",\"/a.c\",\"/lib/b.so\"],\n"));
	free(svg);
}

/* The unknown callers of truncated stacks are hatched, with a legend. */
static void truncated_stacks_are_hatched(void **state)
{
	struct profile *built = empty_profile();
	uint32_t label = example_label(built, "truncated", "exec");
	uint32_t main = example_location(built, 0, 1, NULL, "main");
	uint32_t inside = example_location(built, 0, 2, NULL, "inside");
	char *svg;

	example_add(built, &main, 1, 1, 75, NULL, 0);
	example_add(built, &inside, 1, 1, 25, &label, 1);
	svg = draw(state, built, NULL, NULL);
	assert_true(is_well_formed(svg));
	assert_nodes(svg, false, "0 all\n 2 main 75\n 5 [truncated: exec]\n  2 inside 25\n");
	assert_contains(svg, "<pattern id=\"hatch\"");
	assert_contains(svg, "<path class=\"truncated\" d=\"M895.0 82h294.4");
	assert_contains(svg, "<rect class=\"truncated\" ");
	assert_contains(svg, ">truncated</text>");
	free(svg);
}

/* Returns the SVG, to be freed. */
static char *draw_with(const struct profile *profile, const struct flamegraph_options *options)
{
	struct error error = {""};
	char *svg;
	size_t size;
	FILE *out = open_memstream(&svg, &size);

	assert_int_equal(flamegraph_write(profile, options, out, NULL, &error), 0);
	fclose(out);
	return svg;
}

/* main calls f, which has 60 of 100 ns in complete stacks and 30 ns in a truncated one. */
static struct profile *inversion_profile(void)
{
	struct profile *built = empty_profile();
	uint32_t label = example_label(built, "truncated", "exec");
	uint32_t main = example_location(built, 0, 1, NULL, "main");
	uint32_t f = example_location(built, 0, 2, NULL, "f");

	example_add(built, (uint32_t[]){f, main}, 2, 1, 60, NULL, 0);
	example_add(built, &main, 1, 1, 10, NULL, 0);
	example_add(built, &f, 1, 1, 30, &label, 1);
	return built;
}

/* Of 1180 px, f has 90 % in the first row, with main and the cause below. The data is not inverted.
 */
static void inverted_picture_begins_with_leaves(void **state)
{
	struct profile *profile = inversion_profile();
	char *svg = draw_with(profile, &(struct flamegraph_options){.title = "", .inverted = true});

	(void)state;
	assert_contains(svg, "<text x=\"14.0\" y=\"76.5\">all</text>\n<text x=\"14.0\" "
			     "y=\"94.5\">f</text>\n<text x=\"14.0\" y=\"112.5\">main</text>\n"
			     "<text x=\"722.0\" y=\"112.5\">[truncated: exec]</text>\n"
			     "<text x=\"1076.0\" y=\"94.5\">main</text>\n");
	assert_nodes(svg, false, "0 all\n 2 main 10\n  2 f 60\n 5 [truncated: exec]\n  2 f 30\n");
	assert_contains(svg, ",\n\"inverted\":true,\"upward\":false,\n");
	free(svg);
	profile_free(profile);
}

static void upward_picture_has_the_root_at_the_bottom(void **state)
{
	struct profile *profile = inversion_profile();
	char *svg = draw_with(profile, &(struct flamegraph_options){.title = "", .upward = true});

	(void)state;
	assert_contains(svg, "<path class=\"root\" d=\"M10.0 100h1179.4v17h-1179.4z\"/>");
	assert_contains(svg, "<text x=\"14.0\" y=\"112.5\">all</text>\n<text x=\"14.0\" "
			     "y=\"94.5\">main</text>\n<text x=\"14.0\" y=\"76.5\">f</text>\n");
	assert_contains(svg, ",\n\"inverted\":false,\"upward\":true,\n");
	free(svg);
	profile_free(profile);
}

static void frames_of_the_profiler_are_one_box(void **state)
{
	struct profile *built = empty_profile();
	uint32_t own = example_label(built, "comm", "stackbeat");
	uint32_t other = example_label(built, "comm", "stackbeat2");
	uint32_t number = example_number(built, "comm", 1, "");
	uint32_t main = example_location(built, 0, 1, NULL, "main");
	uint32_t f = example_location(built, 0, 2, NULL, "f");
	struct flamegraph_options options = {.title = "", .group = "comm", .inverted = true};
	char *svg;

	(void)state;
	example_add(built, (uint32_t[]){f, main}, 2, 1, 60, &own, 1);
	example_add(built, &main, 1, 1, 20, &own, 1);
	svg = draw_with(built, &options);
	assert_nodes(svg, false, "0 all\n 1 stackbeat\n  2 main 20\n   2 f 60\n");
	free(svg);
	example_add(built, &main, 1, 1, 10, &other, 1);
	example_add(built, &f, 1, 1, 5, &number, 1);
	svg = draw_with(built, &options);
	assert_nodes(svg, false,
		     "0 all\n 1 [profiler: stackbeat] 80\n 1 stackbeat2\n  2 main 10\n 1 comm 1\n"
		     "  2 f 5\n");
	assert_contains(svg, ">[profiler: stackbeat]</text>");
	free(svg);
	options.draws_profiler = true;
	svg = draw_with(built, &options);
	assert_nodes(svg, false,
		     "0 all\n 1 stackbeat\n  2 main 20\n   2 f 60\n 1 stackbeat2\n  2 main 10\n"
		     " 1 comm 1\n  2 f 5\n");
	free(svg);
	profile_free(built);
}

/* Services are containers, or else processes; the kernel's threads are one. A label has priority.
 */
static void services_need_no_label(void **state)
{
	const struct flamegraph_options options = {.title = "", .group = "service"};
	struct profile *built = empty_profile();
	uint32_t labels[] = {example_label(built, "comm", "worker"),
			     example_label(built, "container", "web")};
	uint32_t main = example_location(built, 0, 1, NULL, "main");
	uint32_t fork = example_location(built, 0, 2, NULL, "ret_from_fork"), own;
	char *svg;

	(void)state;
	example_add(built, &main, 1, 1, 50, labels, 2);
	example_add(built, &main, 1, 1, 30, labels, 1);
	example_add(built, &fork, 1, 1, 20, labels, 1);
	svg = draw_with(built, &options);
	assert_nodes(svg, false,
		     "0 all\n 1 web\n  2 main 50\n 1 worker\n  2 main 30\n 1 kernel\n"
		     "  2 ret_from_fork 20\n");
	free(svg);
	own = example_label(built, "service", "own");
	example_add(built, &main, 1, 1, 900, &own, 1);
	svg = draw_with(built, &options);
	assert_nodes(svg, false,
		     "0 all\n 1 own\n  2 main 900\n 1 (no service)\n  2 main 80\n"
		     "  2 ret_from_fork 20\n");
	free(svg);
	profile_free(built);
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
		"back\\slash",
	};
	struct profile *built = empty_profile();
	uint32_t label = example_label(built, "comm", "<&>");
	uint32_t location;
	char *svg;
	size_t i;

	for (i = 0; i < 8; i++) {
		location = example_location(built, 0, i, NULL, names[i]);
		example_add(built, &location, 1, 1, 1, &label, 1);
	}
	svg = draw(state, built, "comm", NULL);
	assert_true(is_well_formed(svg));
	assert_contains(svg, ">a &lt;title&gt; &amp; more</text>");
	assert_contains(svg, "<title>a &lt;title&gt; &amp; more</title>\n<style>");
	assert_contains(svg, ">]]&gt;</text>");
	assert_contains(svg, ">&amp;amp;</text>");
	assert_contains(svg, ">&lt;&amp;&gt;</text>");
	assert_contains(svg, "\"\\u003c/title\\u003e\\u003cscript\\u003ealert(1)"
			     "\\u003c/script\\u003e\"");
	assert_contains(svg, "\"]]\\u003e\"");
	assert_contains(svg, "\"\\u0026amp;\"");
	assert_contains(svg, "\"\\u0022'\\u003e\\u003c!--\"");
	assert_contains(svg, "\"back\\u005cslash\"");
	assert_contains(svg, "\"bell\xef\xbf\xbd escape\xef\xbf\xbd[0m\"");
	assert_contains(svg, "\"noncharacter \xef\xbf\xbd\"");
	assert_contains(svg, "\"a\xef\xbf\xbd"
			     "b\"");
	free(svg);
}

/*
 * XML 1.0 has no other control characters than blanks, and no U+FFFE and U+FFFF. Characters that
 * end a line or change the direction of text make names look like others.
 */
static void only_characters_of_xml_are_kept(void **state)
{
	static const struct {
		const char *name, *drawn;
	} cases[] = {
		{"1\x1f \x7e\x7f", "1\xef\xbf\xbd \x7e\xef\xbf\xbd"},
		{"2\xc2\x80\xc2\x9f\xc2\xa0", "2\xef\xbf\xbd\xef\xbf\xbd\xc2\xa0"},
		{"3\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf", "3\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"4\xed\x9f\xbf\xf0\x90\x80\x80", "4\xed\x9f\xbf\xf0\x90\x80\x80"},
		{"5\xd8\x9b\xd8\x9c\xd8\x9d", "5\xd8\x9b\xef\xbf\xbd\xd8\x9d"},
		{"6\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90",
		 "6\xe2\x80\x8d\xef\xbf\xbd\xef\xbf\xbd\xe2\x80\x90"},
		{"7\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf",
		 "7\xe2\x80\xa7\xef\xbf\xbd\xef\xbf\xbd\xe2\x80\xaf"},
		{"8\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
		 "8\xe2\x81\xa5\xef\xbf\xbd\xef\xbf\xbd\xe2\x81\xaa"},
	};
	struct profile *built = empty_profile();
	char expected[64], *svg;

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t location = example_location(built, 0, i, NULL, cases[i].name);

		example_add(built, &location, 1, 1, 1, NULL, 0);
	}
	svg = draw(state, built, NULL, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(expected, sizeof(expected), "\n\"%s\"", cases[i].drawn);
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
static void labels_are_shortened(void **state)
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
	assert_contains(svg, "the widest 400 of 1001 frames");
	assert_contains(svg, "width=\"1200\" height=\"7274\"");
	assert_true(is_well_formed(svg));
	free(svg);
}

static void narrow_frames_are_not_in_the_picture(void **state)
{
	struct profile *built = empty_profile();
	uint32_t large = example_location(built, 0, 1, NULL, "large");
	uint32_t small = example_location(built, 0, 2, NULL, "small");
	uint32_t tiny = example_location(built, 0, 3, NULL, "tiny");
	size_t frames;
	char *svg;

	/* Of 1180 px: 0.59 and 0.49. */
	example_add(built, &large, 1, 1, 9991, NULL, 0);
	example_add(built, &small, 1, 1, 5, NULL, 0);
	example_add(built, &tiny, 1, 1, 4, NULL, 0);
	svg = draw(state, built, NULL, &frames);
	assert_int_equal(frames, 4);
	assert_nodes(svg, false, "0 all\n 2 large 9991\n 2 small 5\n 2 tiny 4\n");
	assert_contains(svg, "cpu: 10us, the widest 3 of 4 frames");
	free(svg);
}

/* More frames than a viewer can handle, all of the same width. */
static void number_of_drawn_frames_is_limited(void **state)
{
	struct profile *built = empty_profile();
	uint32_t stack[10];
	size_t frames, i, j;
	char *svg;

	for (i = 0; i < WIDE / 10; i++) {
		for (j = 0; j < 10; j++)
			stack[j] = profile_location(built, 0, i * 10 + j, NULL, 0);
		example_add(built, stack, 10, 1, i < 1000 ? 10000 + i % 10 : 1, NULL, 0);
	}
	svg = draw(state, built, NULL, &frames);
	assert_int_equal(frames, WIDE + 1);
	assert_contains(svg, ", the widest 4000 of 100001 frames");
	free(svg);
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

/* A profile without samples can't be scaled, and neither can be scaled to one. */
static void nothing_can_be_compared_with_an_empty_profile(void **state)
{
	struct profile *built = example_profile(), *empty = empty_profile();
	struct flamegraph_options options = {.title = "", .base = empty};
	struct error error;
	char *svg;

	(void)state;
	assert_int_equal(flamegraph_write(built, &options, stdout, NULL, &error), -ENODATA);
	assert_string_equal(error.text,
			    "the base has no samples, and can't be scaled to the other profile");
	options.base = built;
	assert_int_equal(flamegraph_write(empty, &options, stdout, NULL, &error), -ENODATA);
	assert_string_equal(error.text,
			    "the profile has no samples, and can't be scaled to the other profile");
	svg = draw_difference(built, empty, true);
	assert_contains(svg, "compared with 0<");
	free(svg);
	svg = draw_difference(empty, built, true);
	assert_contains(svg, "compared with 110ms<");
	free(svg);
	options.base = empty;
	options.absolute = true;
	assert_int_equal(flamegraph_write(empty, &options, stdout, NULL, &error), -ENODATA);
	profile_free(built);
	profile_free(empty);
}

static void command_writes_complete_files(void **state)
{
	char *path = scratch_file(state, "profile"), *svg = scratch_file(state, "svg");
	char *arguments[] = {"flamegraph", "-o", svg, path, NULL};
	char *no_directory[] = {"flamegraph", "-o", "/nonexistent/svg", path, NULL};
	char *no_profile[] = {"flamegraph", "-o", svg, "/nonexistent", NULL};
	char *no_file[] = {"flamegraph", NULL};
	char *no_base[] = {"flamegraph", "-o", svg, "--diff", "/nonexistent", path, NULL};
	char *difference[] = {"flamegraph", "-o", svg, "--diff", path, path, NULL};

	move_profile(example_profile(), path);
	assert_int_equal(cmd_flamegraph(4, no_profile), STATUS_FAILED);
	assert_int_equal(cmd_flamegraph(4, no_directory), STATUS_FAILED);
	assert_int_equal(cmd_flamegraph(1, no_file), STATUS_FAILED);
	assert_int_equal(scratch_count(state, 0), 1);
	assert_int_equal(cmd_flamegraph(6, no_base), STATUS_FAILED);
	assert_int_equal(scratch_count(state, 0), 1);
	assert_int_equal(cmd_flamegraph(4, arguments), STATUS_OK);
	assert_int_equal(scratch_count(state, 0), 2);
	assert_int_equal(cmd_flamegraph(6, difference), STATUS_OK);
	assert_int_equal(scratch_count(state, 0), 2);
	free(path);
	free(svg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(all_frames_are_in_the_data),
		SCRATCH_TEST(calls_and_inlined_calls_are_one_node),
		SCRATCH_TEST(picture_has_colored_frames_and_labels),
		SCRATCH_TEST(difference_has_both_profiles),
		SCRATCH_TEST(functions_have_their_sources),
		SCRATCH_TEST(truncated_stacks_are_hatched),
		SCRATCH_TEST(inverted_picture_begins_with_leaves),
		SCRATCH_TEST(upward_picture_has_the_root_at_the_bottom),
		SCRATCH_TEST(frames_of_the_profiler_are_one_box),
		SCRATCH_TEST(services_need_no_label),
		SCRATCH_TEST(names_are_escaped),
		SCRATCH_TEST(only_characters_of_xml_are_kept),
		SCRATCH_TEST(title_without_utf8_is_shown),
		SCRATCH_TEST(labels_are_shortened),
		SCRATCH_TEST(deep_stacks_are_drawn),
		SCRATCH_TEST(narrow_frames_are_not_in_the_picture),
		SCRATCH_TEST(number_of_drawn_frames_is_limited),
		SCRATCH_TEST(empty_profile_is_an_error),
		SCRATCH_TEST(nothing_can_be_compared_with_an_empty_profile),
		SCRATCH_TEST(command_writes_complete_files),
	};

	return cmocka_run_group_tests_name("flamegraph", tests, NULL, NULL);
}
