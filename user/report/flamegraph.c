// SPDX-License-Identifier: GPL-2.0
#include "report/flamegraph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/embed.h"
#include "lib/string_table.h"
#include "lib/utf8.h"
#include "report/call_tree.h"
#include "report/frame_name.h"
#include "report/short_name.h"
#include "report/units.h"

/* The picture for viewers that run no scripts. Lengths are in px. */
#define WIDTH 1200
#define PADDING 10
#define HEAD_HEIGHT 64
#define ROW_HEIGHT 18
#define FRAME_HEIGHT 17
#define FRAME_GAP 0.6 /* between neighbours */
#define FRAME_MIN 0.5 /* narrower frames are omitted */
#define FRAMES_MAX 4000 /* the widest are drawn */
#define ROWS_MAX 400
#define TEXT_BASE 12.5 /* from the top of a frame */
#define TEXT_PADDING 4
#define CHARACTER 7
#define LEGEND_GAP 36

/* What is unknown is hatched, whatever its width is. */
#define HATCH                                                                                      \
	"<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "    \
	"patternTransform=\"rotate(45)\"><rect class=\"hatched\" width=\"6\" height=\"6\"/>"       \
	"<rect class=\"hatching\" width=\"2\" height=\"6\"/></pattern></defs>\n"

#define SHADES 8
#define CHANGES 5 /* shades of an increase, and of a decrease */
#define NANOSECONDS 1000000000

EMBED(flamegraph_css, "user/report/flamegraph.css");
EMBED(flamegraph_js, "user/report/flamegraph.js");

/* The position of a frame. */
struct flamegraph_place {
	int64_t offset; /* from the left, in the unit of the samples */
	uint32_t depth;
	uint32_t color; /* number of a color */
	bool drawn;
};

struct picture {
	const struct profile *profile;
	const struct calltree *whole; /* of the data: from the root to the leaves */
	const struct calltree *tree; /* of the picture: `whole`, or inverted */
	const struct flamegraph_options *options;
	const struct profile_value_type *type;
	struct flamegraph_place *places; /* of the nodes of the tree */
	uint32_t *frames; /* of the nodes of `whole`: see print_data() */
	FILE *out;
	size_t drawn; /* number of drawn frames */
	size_t rows;
};

static const struct {
	const char *label, *css_class;
	int label_width;
	bool has_shades;
} kinds[FRAME_KIND_COUNT] = {
	[FRAME_ROOT] = {NULL, "root", 0, false},
	[FRAME_GROUP] = {NULL, "group", 0, false},
	[FRAME_USER] = {"user", "u", 28, true},
	[FRAME_KERNEL] = {"kernel", "k", 38, true},
	[FRAME_UNRESOLVED] = {"unresolved", "x", 62, true},
	[FRAME_TRUNCATED] = {"truncated", "truncated", 56, false},
};

/* Colors: SHADES of each kind, or the changes from the base, largest decrease first. */
#define COLORS ((uint32_t)FRAME_KIND_COUNT * SHADES)
#define CHANGE_COLORS ((uint32_t)2 * CHANGES + 1)

static int64_t flamegraph_node_weight(const struct picture *picture, uint32_t node)
{
	return picture->tree->nodes[node].weight;
}

static double to_pixels(const struct picture *picture, int64_t value)
{
	return (double)value * (WIDTH - 2 * PADDING) / (double)flamegraph_node_weight(picture, 0);
}

/* The drawn frame after `node`; descendants of an omitted frame are omitted, too. */
static uint32_t next_drawn(const struct picture *picture, uint32_t node)
{
	uint32_t next = calltree_next(picture->tree, node, false);

	while (next != CALLTREE_NONE && !picture->places[next].drawn)
		next = calltree_next(picture->tree, next, true);
	return next;
}

/* Widest first. A parent comes before a child of the same width. */
static int compare_widths(const void *left, const void *right, void *context)
{
	const struct picture *picture = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int64_t weight_a = flamegraph_node_weight(picture, a),
		weight_b = flamegraph_node_weight(picture, b);

	if (weight_a != weight_b)
		return weight_a > weight_b ? -1 : 1;
	return (a > b) - (a < b);
}

/* A frame is never drawn without its parent, which is at least as wide. */
static int choose_frames(struct picture *picture)
{
	const struct calltree *tree = picture->tree;
	uint32_t *wide = calloc(tree->node_count, sizeof(*wide)), node;
	size_t i;

	if (!wide)
		return -ENOMEM;
	for (node = 0; node < tree->node_count; node++)
		if (to_pixels(picture, flamegraph_node_weight(picture, node)) >= FRAME_MIN &&
		    picture->places[node].depth < ROWS_MAX)
			wide[picture->drawn++] = node;
	if (picture->drawn > FRAMES_MAX) {
		qsort_r(wide, picture->drawn, sizeof(*wide), compare_widths, picture);
		picture->drawn = FRAMES_MAX;
	}
	for (i = 0; i < picture->drawn; i++)
		picture->places[wide[i]].drawn = true;
	free(wide);
	return 0;
}

/* FNV-1a (Fowler, Noll, Vo): a function has the same color in every flame graph. */
static uint32_t shade_of(const char *name)
{
	uint32_t hash = 0x811c9dc5;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193;
	return hash % SHADES;
}

/*
 * The shade of a change is its part of the width of the frame, so that the amount of color is the
 * amount of change.
 */
static uint32_t change_color(const struct calltree_node *node)
{
	int64_t weight = node->weight;
	double change =
		weight ? ((double)node->total - (double)node->base_total) / (double)weight : 0;
	int shade = (int)(change * CHANGES + (change < 0 ? -0.5 : 0.5));

	return (uint32_t)(shade + CHANGES);
}

static uint32_t color_of(const struct picture *picture, uint32_t index)
{
	const struct calltree_node *node = &picture->tree->nodes[index];

	if (picture->options->base)
		return change_color(node);
	return node->kind * SHADES +
	       (kinds[node->kind].has_shades ? shade_of(picture->tree->names[node->name]) : 0);
}

static void print_color(const struct picture *picture, uint32_t color)
{
	const char *css_class = kinds[color / SHADES].css_class;

	if (picture->options->base)
		fprintf(picture->out, "c%u", color);
	else if (kinds[color / SHADES].has_shades)
		fprintf(picture->out, "%s%u", css_class, color % SHADES);
	else
		fputs(css_class, picture->out);
}

/* Of a node whose place is known. */
static void place_children(struct picture *picture, uint32_t node)
{
	const struct calltree_node *nodes = picture->tree->nodes;
	int64_t offset = picture->places[node].offset;
	uint32_t child;

	for (child = nodes[node].first_child; child != CALLTREE_NONE;
	     child = nodes[child].next_sibling) {
		picture->places[child].offset = offset;
		picture->places[child].depth = picture->places[node].depth + 1;
		offset = add_saturated(offset, flamegraph_node_weight(picture, child));
	}
}

static void place_frames(struct picture *picture)
{
	for (uint32_t node = 0; node != CALLTREE_NONE;
	     node = calltree_next(picture->tree, node, false)) {
		picture->places[node].color = color_of(picture, node);
		place_children(picture, node);
	}
}

/* Characters that end lines or change the direction of text make names look like others. */
static bool changes_layout(uint32_t code_point)
{
	return code_point == 0x061c || code_point == 0x200e || code_point == 0x200f ||
	       (code_point >= 0x2028 && code_point <= 0x202e) ||
	       (code_point >= 0x2066 && code_point <= 0x2069);
}

/* Whether XML 1.0 has the character, and it can be seen; others are replaced by U+FFFD. */
static bool is_printable(uint32_t code_point)
{
	return code_point >= 0x20 && !(code_point >= 0x7f && code_point < 0xa0) &&
	       code_point != 0xfffe && code_point != 0xffff && !changes_layout(code_point);
}

static void print_xml_character(FILE *out, const char *text, size_t length, uint32_t code_point)
{
	switch (code_point) {
	case '&':
		fputs("&amp;", out);
		break;
	case '<':
		fputs("&lt;", out);
		break;
	case '>':
		fputs("&gt;", out);
		break;
	default:
		fwrite(text, 1, length, out);
	}
}

/* "<", ">" and "&" are escaped, too: no string can end the element or the CDATA section. */
static void print_json_character(FILE *out, const char *text, size_t length, uint32_t code_point)
{
	if (code_point < 0x80 && strchr("\"\\<>&", (int)code_point))
		fprintf(out, "\\u%04" PRIx32, code_point);
	else
		fwrite(text, 1, length, out);
}

static void print_characters(FILE *out, const char *text,
			     void (*print)(FILE *, const char *, size_t, uint32_t))
{
	uint32_t code_point;
	size_t length;

	for (; *text; text += length) {
		length = utf8_decode(text, &code_point);
		if (length && is_printable(code_point))
			print(out, text, length, code_point);
		else
			fputs(UTF8_REPLACEMENT, out);
		length = length ? length : 1;
	}
}

/* Prints the text as the content of an XML element. */
static void print_xml(FILE *out, const char *text)
{
	print_characters(out, text, print_xml_character);
}

static void print_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	print_characters(out, text, print_json_character);
	fputc('"', out);
}

/* The top of a frame. */
static size_t frame_top(const struct picture *picture, uint32_t node)
{
	const uint32_t depth = picture->places[node].depth;

	return HEAD_HEIGHT +
	       ROW_HEIGHT * (picture->options->upward ? picture->rows - 1 - depth : depth);
}

/* A frame as a part of the path of its color. */
static void print_frame(const struct picture *picture, uint32_t node)
{
	const struct flamegraph_place *place = &picture->places[node];
	double width = to_pixels(picture, flamegraph_node_weight(picture, node));
	double gap = width / 5 < FRAME_GAP ? width / 5 : FRAME_GAP;

	fprintf(picture->out, "M%.1f %zuh%.1fv%dh-%.1fz",
		PADDING + to_pixels(picture, place->offset), frame_top(picture, node), width - gap,
		FRAME_HEIGHT, width - gap);
}

static void start_path(const struct picture *picture, uint32_t color)
{
	fputs("<path class=\"", picture->out);
	print_color(picture, color);
	fputs("\" d=\"", picture->out);
}

static void flamegraph_print_frames(const struct picture *picture)
{
	uint32_t colors = picture->options->base ? CHANGE_COLORS : COLORS, color, node;
	bool any;

	for (color = 0; color < colors; color++) {
		any = false;
		for (node = 0; node != CALLTREE_NONE; node = next_drawn(picture, node)) {
			if (picture->places[node].color != color)
				continue;
			if (!any)
				start_path(picture, color);
			any = true;
			print_frame(picture, node);
		}
		if (any)
			fputs("\"/>\n", picture->out);
	}
}

static int print_label(const struct picture *picture, uint32_t node)
{
	const struct flamegraph_place *place = &picture->places[node];
	double columns =
		(to_pixels(picture, flamegraph_node_weight(picture, node)) - 2 * TEXT_PADDING) /
		CHARACTER;
	char *name;

	if (columns < 1)
		return 0;
	name = short_name(picture->tree->names[picture->tree->nodes[node].name], (size_t)columns);
	if (!name)
		return -ENOMEM;
	if (*name) {
		fprintf(picture->out, "<text x=\"%.1f\" y=\"%.1f\">",
			PADDING + TEXT_PADDING + to_pixels(picture, place->offset),
			(double)frame_top(picture, node) + TEXT_BASE);
		print_xml(picture->out, name);
		fputs("</text>\n", picture->out);
	}
	free(name);
	return 0;
}

static int print_labels(const struct picture *picture)
{
	int err = 0;

	for (uint32_t node = 0; node != CALLTREE_NONE && !err; node = next_drawn(picture, node))
		err = print_label(picture, node);
	return err;
}

static void print_legend_entry(const struct picture *picture, int x, const char *css_class,
			       const char *label)
{
	fprintf(picture->out,
		"<rect class=\"%s\" x=\"%d\" y=\"41\" width=\"12\" height=\"12\"/>"
		"<text class=\"note\" x=\"%d\" y=\"51\">%s</text>\n",
		css_class, x, x + 18, label);
}

static bool has_kind(const struct picture *picture, enum frame_kind kind)
{
	for (uint32_t node = 0; node != CALLTREE_NONE; node = next_drawn(picture, node))
		if (picture->tree->nodes[node].kind == kind)
			return true;
	return false;
}

/* From right to left. */
static void print_legend(const struct picture *picture)
{
	int x = WIDTH - PADDING + LEGEND_GAP / 3;
	char css_class[16];

	if (picture->options->base) {
		print_legend_entry(picture, WIDTH - 190, "c0", "decrease");
		print_legend_entry(picture, WIDTH - 90, "c10", "increase");
		return;
	}
	for (enum frame_kind kind = FRAME_KIND_COUNT; kind-- > 0;) {
		if (!kinds[kind].label || !has_kind(picture, kind))
			continue;
		x -= kinds[kind].label_width + LEGEND_GAP;
		snprintf(css_class, sizeof(css_class), "%s%s", kinds[kind].css_class,
			 kinds[kind].has_shades ? "2" : "");
		print_legend_entry(picture, x, css_class, kinds[kind].label);
	}
}

static void flamegraph_print_value(FILE *out, int64_t value, const char *unit,
				   void (*print)(FILE *, const char *, size_t, uint32_t))
{
	char text[UNIT_TEXT_MAX];

	print_characters(out, unit_format_best(text, value, unit), print);
}

/* "cpu: 9.5s in 10s, 2026-11-21 10:00 UTC", or "cpu: 9.5s, compared with 8s" */
static void flamegraph_print_summary(const struct picture *picture,
				     void (*print)(FILE *, const char *, size_t, uint32_t))
{
	const struct profile *profile = picture->profile;
	const char *unit = profile_text(picture->profile, picture->type->unit);
	time_t seconds = profile->time_ns / NANOSECONDS;
	FILE *out = picture->out;
	char text[UNIT_TEXT_MAX], when[64];
	struct tm utc;

	print_characters(out, profile_text(picture->profile, picture->type->type), print);
	fputs(": ", out);
	flamegraph_print_value(out, picture->tree->unscaled_total, unit, print);
	if (profile->duration_ns)
		fprintf(out, " in %s", unit_format_best(text, profile->duration_ns, "nanoseconds"));
	if (seconds && gmtime_r(&seconds, &utc) &&
	    strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &utc))
		fprintf(out, ", %s", when);
	if (!picture->options->base)
		return;
	fputs(", compared with ", out);
	flamegraph_print_value(out, picture->tree->base_total, unit, print);
	fputs(picture->options->absolute ? "" : " by shares of the totals", out);
}

static void flamegraph_print_head(const struct picture *picture)
{
	fprintf(picture->out, "<text class=\"title\" x=\"%d\" y=\"28\">", PADDING);
	print_xml(picture->out, picture->options->title);
	fprintf(picture->out, "</text>\n<text class=\"note\" x=\"%d\" y=\"51\">", PADDING);
	flamegraph_print_summary(picture, print_xml_character);
	if (picture->drawn < picture->tree->node_count)
		fprintf(picture->out, ", the widest %zu of %zu frames", picture->drawn,
			picture->tree->node_count);
	fputs("</text>\n", picture->out);
	print_legend(picture);
}

/* A number as in source maps: base64 digits of 5 bits, the lowest first; 32 is added to all but the
 * last. */
static void print_number(FILE *out, uint64_t value)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (; value >= 32; value >>= 5)
		fputc(digits[value % 32 + 32], out);
	fputc(digits[value], out);
}

/*
 * A node: its frame, whether it is inlined and has samples of its own, how many levels its parent
 * is above the node before it, and its own samples, of the base, too, if there is one. All other
 * values follow from these.
 */
static void flamegraph_print_nodes(const struct picture *picture)
{
	const struct calltree_node *nodes = picture->whole->nodes, *at;
	uint32_t node = 0, next, up, above;

	for (; node != CALLTREE_NONE; node = next) {
		at = &nodes[node];
		print_number(picture->out, (uint64_t)picture->frames[node] << 2 | at->inlined << 1 |
						   (at->self || at->base_self));
		next = calltree_next(picture->whole, node, false);
		if (at->self || at->base_self) {
			print_number(picture->out, (uint64_t)at->self);
			if (picture->options->base)
				print_number(picture->out, (uint64_t)at->base_self);
		}
		if (next == CALLTREE_NONE)
			break;
		up = 0;
		for (above = node; above != nodes[next].parent; above = nodes[above].parent)
			up++;
		print_number(picture->out, up);
	}
}

/*
 * Numbers the frames of the data, names with their kinds, as they occur: sets picture->frames, and
 * first[] to the first node of each of `count` frames.
 */
static int number_frames(struct picture *picture, uint32_t **first, uint32_t *count)
{
	const struct calltree *tree = picture->whole;
	uint32_t(*numbers)[FRAME_KIND_COUNT] = calloc(tree->name_count, sizeof(*numbers));
	uint32_t node, *number;

	*count = 0;
	*first = calloc(tree->node_count, sizeof(**first));
	picture->frames = calloc(tree->node_count, sizeof(*picture->frames));
	if (!numbers || !*first || !picture->frames) {
		free(numbers);
		return -ENOMEM;
	}
	for (node = 0; node != CALLTREE_NONE; node = calltree_next(tree, node, false)) {
		number = &numbers[tree->nodes[node].name][tree->nodes[node].kind];
		if (!*number) {
			(*first)[*count] = node;
			*number = ++*count;
		}
		picture->frames[node] = *number - 1;
	}
	free(numbers);
	return 0;
}

/* Where a function is defined, and what it is a part of. */
struct function_source {
	uint32_t file; /* string of the profile; 0: unknown, or functions of several files */
	int64_t line; /* 0: unknown, or functions of several lines */
	uint32_t library; /* string of the profile; 0: unknown, or in several libraries or programs
			   */
	bool has_library;
};

/* Sets the libraries of functions, whose sources have the numbers of `names`. */
static void find_function_libraries(const struct profile *profile, const struct string_table *names,
				    struct function_source *sources)
{
	for (uint32_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const struct profile_line *lines = profile_lines(profile, location);
		const uint32_t library = profile->mappings.items[location->mapping].file;

		for (uint32_t line = 0; line < location->line_count; line++) {
			const char *name = function_name(profile, lines[line].function);
			const uint32_t number = string_table_find(names, name);
			struct function_source *source;

			if (number == STRING_NONE)
				continue;
			source = &sources[number];
			if (source->has_library && source->library != library)
				source->library = 0;
			else
				source->library = library;
			source->has_library = true;
		}
	}
}

/*
 * Sets the sources of the functions of a profile, which the caller frees, by the numbers of their
 * names in `names`. Returns 0 or -ENOMEM.
 */
static int find_function_sources(const struct profile *profile, struct string_table *names,
				 struct function_source **sources)
{
	*sources = calloc(profile->functions.count, sizeof(**sources));
	if (!*sources)
		return -ENOMEM;
	for (uint32_t i = 1; i < profile->functions.count; i++) {
		const struct profile_function *function = &profile->functions.items[i];
		const char *name = function_name(profile, i);
		const size_t known = names->count;
		const uint32_t number = string_table_add(names, name, strlen(name));
		struct function_source *source;

		if (number == STRING_NONE)
			return -ENOMEM;
		source = &(*sources)[number];
		if (number == known)
			*source = (struct function_source){.file = function->file,
							   .line = function->start_line};
		if (source->file != function->file)
			*source = (struct function_source){0};
		else if (source->line != function->start_line)
			source->line = 0;
	}
	return 0;
}

/* Prints the number of a path in `files`, from 1 on; 0: `path` is 0. Returns 0 or -ENOMEM. */
static int print_path_number(const struct picture *picture, struct string_table *files,
			     uint32_t path)
{
	const char *text = profile_text(picture->profile, path);
	uint32_t number = 0;

	if (path && *text) {
		number = string_table_add(files, text, strlen(text));
		if (number++ == STRING_NONE)
			return -ENOMEM;
	}
	fprintf(picture->out, "%" PRIu32, number);
	return 0;
}

/*
 * "files" has paths, "sources" three numbers for each frame: of its file, from 1 on, its line, and
 * the number of its library or program.
 */
static int print_sources(const struct picture *picture, const uint32_t *first, uint32_t count)
{
	const struct calltree *tree = picture->whole;
	const struct profile *profile = picture->profile;
	struct string_table names = {0}, files = {0};
	struct function_source *sources;
	int err = find_function_sources(profile, &names, &sources);

	if (!err)
		find_function_libraries(profile, &names, sources);
	fputs(",\n\"sources\":[", picture->out);
	for (uint32_t i = 0; i < count && !err; i++) {
		const struct calltree_node *node = &tree->nodes[first[i]];
		const uint32_t name = string_table_find(&names, tree->names[node->name]);
		struct function_source source = {0};

		if (name != STRING_NONE && (node->kind == FRAME_USER || node->kind == FRAME_KERNEL))
			source = sources[name];
		fputs(i ? "," : "", picture->out);
		err = print_path_number(picture, &files, source.file);
		fprintf(picture->out, ",%" PRId64 ",", source.line);
		if (!err)
			err = print_path_number(picture, &files, source.library);
	}
	fputs("],\n\"files\":[", picture->out);
	for (size_t i = 0; i < files.count; i++) {
		fputs(i ? "," : "", picture->out);
		print_json_string(picture->out, files.items[i]);
	}
	fputs("]", picture->out);
	free(sources);
	string_table_clear(&names);
	string_table_clear(&files);
	return err;
}

/* "kinds" has a digit for each frame, "names" a string. */
static void print_frame_table(const struct picture *picture, const uint32_t *first, uint32_t count)
{
	const struct calltree *tree = picture->whole;
	FILE *out = picture->out;

	fputs(",\n\"kinds\":\"", out);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%d", (int)tree->nodes[first[i]].kind);
	fputs("\",\n\"names\":[", out);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "\n", out);
		print_json_string(out, tree->names[tree->nodes[first[i]].name]);
	}
	fputs("]", out);
}

static void print_properties(const struct picture *picture)
{
	struct unit units[UNITS_MAX];
	size_t count = unit_list(profile_text(picture->profile, picture->type->unit), units);
	const struct profile *profile = picture->profile;
	FILE *out = picture->out;

	fputs("{\"title\":", out);
	print_json_string(out, picture->options->title);
	fputs(",\n\"summary\":\"", out);
	flamegraph_print_summary(picture, print_json_character);
	fprintf(out, "\",\n\"diff\":%s,\n\"units\":[", picture->options->base ? "true" : "false");
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",[" : "[", out);
		print_json_string(out, units[i].name);
		fprintf(out, ",%.17g]", units[i].factor);
	}
	fputs("],\n\"comments\":[", out);
	for (size_t i = 0; i < profile->comments.count; i++) {
		fputs(i ? "," : "", out);
		print_json_string(out, profile_text(profile, profile->comments.items[i]));
	}
	fprintf(out, "],\n\"inverted\":%s,\"upward\":%s",
		picture->options->inverted ? "true" : "false",
		picture->options->upward ? "true" : "false");
}

/* All frames, for the script. JSON is not run, whatever the names in a profile are. */
static int print_data(struct picture *picture)
{
	uint32_t *first = NULL, count;
	int err = number_frames(picture, &first, &count);

	if (!err) {
		fputs("<script type=\"application/json\" id=\"data\"><![CDATA[", picture->out);
		print_properties(picture);
		print_frame_table(picture, first, count);
		err = print_sources(picture, first, count);
		fputs(",\n\"nodes\":\"", picture->out);
		flamegraph_print_nodes(picture);
		fputs("\"}]]></script>\n", picture->out);
	}
	free(first);
	free(picture->frames);
	return err;
}

/*
 * The document title is for people, and for Chromium: without one, Chromium searches all frames
 * for it whenever it parses a frame.
 */
static int print_svg(struct picture *picture)
{
	size_t height;
	int err;

	for (uint32_t node = 0; node != CALLTREE_NONE; node = next_drawn(picture, node))
		if (picture->rows <= picture->places[node].depth)
			picture->rows = picture->places[node].depth + 1;
	height = HEAD_HEIGHT + picture->rows * ROW_HEIGHT + PADDING;
	fprintf(picture->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
		"viewBox=\"0 0 %d %zu\">\n<title>",
		WIDTH, height, WIDTH, height);
	print_xml(picture->out, picture->options->title);
	fprintf(picture->out,
		"</title>\n<style>\n%s</style>\n" HATCH
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
		flamegraph_css);
	flamegraph_print_head(picture);
	flamegraph_print_frames(picture);
	err = print_labels(picture);
	if (!err)
		err = print_data(picture);
	fprintf(picture->out, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flamegraph_js);
	return err;
}

static int draw_picture(struct picture *picture, struct error *error)
{
	const char *type = profile_text(picture->profile, picture->type->type);
	int err;

	if (flamegraph_node_weight(picture, 0) <= 0)
		return error_set(error, ENODATA, "the profile has no samples with a value of '%s'",
				 type);
	picture->places = calloc(picture->tree->node_count, sizeof(*picture->places));
	if (picture->places)
		place_frames(picture);
	err = picture->places ? choose_frames(picture) : -ENOMEM;
	if (!err)
		err = print_svg(picture);
	if (err)
		error_errno(error, -err, "the flame graph");
	free(picture->places);
	return err;
}

int flamegraph_write(const struct profile *profile, const struct flamegraph_options *options,
		     FILE *out, size_t *frames, struct error *error)
{
	struct calltree_options tree_options = {
		.group = options->group,
		.marks_truncated = true,
		.only_positive = true,
		/* In a recording of the profiler alone, its frames are what is asked for. */
		.folds_profiler = !options->draws_profiler && calltree_has_other_processes(profile),
		.base = options->base,
		.absolute = options->absolute,
	};
	struct picture picture = {.profile = profile, .options = options, .out = out};
	struct calltree *tree, *inverted = NULL;
	int err;

	err = calltree_find_types(profile, options->sample_type, &tree_options, error);
	if (err)
		return err;
	err = calltree_new(profile, &tree_options, &tree, error);
	if (err)
		return err;
	tree_options.upwards = options->inverted;
	if (options->inverted)
		err = calltree_new(profile, &tree_options, &inverted, error);
	picture.whole = tree;
	picture.tree = inverted ? inverted : tree;
	picture.type = &profile->types.items[tree_options.sample_type];
	if (!err)
		err = draw_picture(&picture, error);
	if (!err && frames)
		*frames = tree->node_count;
	calltree_free(inverted);
	calltree_free(tree);
	return err;
}
