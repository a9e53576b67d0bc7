// SPDX-License-Identifier: GPL-2.0
#include "report/flamegraph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/utf8.h"
#include "report/call_tree.h"
#include "report/units.h"

/* Lengths are in px. flamegraph.js repeats those that it needs. */
#define WIDTH 1200
#define PADDING 10
#define HEAD_HEIGHT 78
#define ROW_HEIGHT 18
#define FRAME_HEIGHT 17
#define FRAME_GAP 0.6 /* between neighbours */
#define FRAME_MIN 0.1 /* narrower frames are omitted */
#define FRAMES_MAX 20000 /* a browser handles these well; the widest are drawn */
#define TEXT_BASE 12.5 /* from the top of a frame */
#define TEXT_PADDING 4
#define CHARACTER 7
#define LEGEND_GAP 36

#define SHADES 8
#define NANOSECONDS 1000000000

/* Embeds a file of the source tree in the program, with a NUL at the end. */
#define EMBED(symbol, path)                                                                        \
	extern const char(symbol)[];                                                               \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path "\"\n.byte "                 \
		"0\n.popsection\n")

EMBED(flamegraph_css, "user/report/flamegraph.css");
EMBED(flamegraph_js, "user/report/flamegraph.js");

/* The position of a frame. */
struct place {
	int64_t offset; /* from the left, in the unit of the samples */
	uint32_t depth;
	bool drawn;
};

struct picture {
	const struct profile *profile;
	const struct calltree *tree;
	const struct flamegraph_options *options;
	const struct profile_value_type *type;
	struct place *places; /* of the nodes of the tree */
	FILE *out;
	size_t frames; /* number of drawn frames */
	size_t rows;
	bool kinds[FRAME_KIND_COUNT]; /* kinds of drawn frames */
};

static const struct {
	const char *label, *css_class;
	int label_width; /* in the legend */
} kinds[FRAME_KIND_COUNT] = {
	[FRAME_ROOT] = {NULL, "root", 0},
	[FRAME_GROUP] = {NULL, "group", 0},
	[FRAME_USER] = {"user", "u", 28},
	[FRAME_KERNEL] = {"kernel", "k", 38},
	[FRAME_UNRESOLVED] = {"unresolved", "x", 62},
};

static double to_pixels(const struct picture *picture, int64_t value)
{
	return (double)value * (WIDTH - 2 * PADDING) / (double)picture->tree->total;
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
	const struct calltree_node *nodes = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (nodes[a].total != nodes[b].total)
		return nodes[a].total > nodes[b].total ? -1 : 1;
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
		if (to_pixels(picture, tree->nodes[node].total) >= FRAME_MIN)
			wide[picture->frames++] = node;
	if (picture->frames > FRAMES_MAX) {
		qsort_r(wide, picture->frames, sizeof(*wide), compare_widths, tree->nodes);
		picture->frames = FRAMES_MAX;
	}
	for (i = 0; i < picture->frames; i++)
		picture->places[wide[i]].drawn = true;
	free(wide);
	return 0;
}

static void place_children(struct picture *picture, uint32_t node)
{
	const struct calltree_node *nodes = picture->tree->nodes;
	int64_t offset = picture->places[node].offset;
	uint32_t child;

	for (child = nodes[node].first_child; child != CALLTREE_NONE;
	     child = nodes[child].next_sibling) {
		picture->places[child].offset = offset;
		picture->places[child].depth = picture->places[node].depth + 1;
		offset = add_saturated(offset, nodes[child].total);
	}
}

static void place_frames(struct picture *picture)
{
	uint32_t node;

	for (node = 0; node != CALLTREE_NONE; node = next_drawn(picture, node)) {
		picture->kinds[picture->tree->nodes[node].kind] = true;
		if (picture->rows <= picture->places[node].depth)
			picture->rows = picture->places[node].depth + 1;
		place_children(picture, node);
	}
}

/* Whether XML 1.0 has the character; others are replaced by U+FFFD. */
static bool is_xml(uint32_t code_point)
{
	return code_point >= 0x20 && !(code_point >= 0x7f && code_point < 0xa0) &&
	       code_point != 0xfffe && code_point != 0xffff;
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
		if (is_xml(code_point))
			fwrite(text, 1, length, out);
		else
			fputs(UTF8_REPLACEMENT, out);
	}
}

/* Prints the text up to `end` as the content of an XML element. */
static void print_xml_part(FILE *out, const char *text, const char *end)
{
	uint32_t code_point;
	size_t length;

	for (; text < end; text += length) {
		length = utf8_decode(text, &code_point);
		if (!length) {
			length = 1;
			code_point = 0;
		}
		print_xml_character(out, text, length, code_point);
	}
}

static void print_xml(FILE *out, const char *text)
{
	print_xml_part(out, text, text + strlen(text));
}

/* The end of the part of `text` that fits into `columns`; characters of wide scripts take two. */
static const char *fitting_end(const char *text, size_t columns)
{
	uint32_t code_point;
	size_t length, needed;

	for (; (length = utf8_decode(text, &code_point)); text += length) {
		needed = code_point < 0x1100 ? 1 : 2;
		if (needed > columns)
			break;
		columns -= needed;
	}
	return text;
}

static void print_label(const struct picture *picture, const char *name, double x, double y,
			double width)
{
	double columns = (width - 2 * TEXT_PADDING) / CHARACTER;
	const char *end;
	bool clipped;

	if (columns < 1)
		return;
	end = fitting_end(name, (size_t)columns);
	clipped = *end;
	if (clipped && columns < 3)
		return;
	if (clipped)
		end = fitting_end(name, (size_t)columns - 1);
	fprintf(picture->out, "<text x=\"%.2f\" y=\"%.1f\">", x + TEXT_PADDING, y + TEXT_BASE);
	print_xml_part(picture->out, name, end);
	fprintf(picture->out, "%s</text>", clipped ? "…" : "");
}

/* FNV-1a (Fowler, Noll, Vo): a function has the same color in every flame graph. */
static uint32_t shade_of(const char *name)
{
	uint32_t hash = 0x811c9dc5;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193;
	return hash % SHADES;
}

static void print_class(const struct picture *picture, const struct calltree_node *node)
{
	const char *name = picture->tree->names[node->name];

	if (kinds[node->kind].label)
		fprintf(picture->out, "%s%u", kinds[node->kind].css_class, shade_of(name));
	else
		fputs(kinds[node->kind].css_class, picture->out);
}

static void print_frame(const struct picture *picture, uint32_t index)
{
	const struct calltree_node *node = &picture->tree->nodes[index];
	const struct place *place = &picture->places[index];
	const char *name = picture->tree->names[node->name];
	const char *unit = profile_text(picture->profile, picture->type->unit);
	double x = PADDING + to_pixels(picture, place->offset);
	double y = HEAD_HEIGHT + (double)place->depth * ROW_HEIGHT;
	double width = to_pixels(picture, node->total);
	double gap = width / 5 < FRAME_GAP ? width / 5 : FRAME_GAP;
	char value[UNIT_TEXT_MAX], percent[PERCENT_TEXT_MAX];

	fprintf(picture->out,
		"<g class=\"f\" data-x=\"%" PRId64 "\" data-w=\"%" PRId64 "\" data-d=\"%u\">",
		place->offset, node->total, place->depth);
	fputs("<title>", picture->out);
	print_xml(picture->out, name);
	fputc('\n', picture->out);
	print_xml(picture->out, unit_format_best(value, node->total, unit));
	fprintf(picture->out, ", %s</title>",
		percent_format(percent, node->total, picture->tree->total));
	fputs("<rect class=\"", picture->out);
	print_class(picture, node);
	fprintf(picture->out, "\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>", x, y,
		width - gap, FRAME_HEIGHT);
	print_label(picture, name, x, y, width);
	fputs("</g>\n", picture->out);
}

/* From right to left, with the right edge of the picture at 0. */
static void print_legend(const struct picture *picture)
{
	int x = LEGEND_GAP / 3, kind;

	for (kind = FRAME_KIND_COUNT - 1; kind >= 0; kind--) {
		if (!kinds[kind].label || !picture->kinds[kind])
			continue;
		x -= kinds[kind].label_width + LEGEND_GAP;
		fprintf(picture->out,
			"<rect class=\"%s2\" x=\"%d\" y=\"41\" width=\"12\" height=\"12\" "
			"rx=\"2\"/>"
			"<text class=\"note\" x=\"%d\" y=\"51\">%s</text>\n",
			kinds[kind].css_class, x, x + 18, kinds[kind].label);
	}
}

/* "cpu: 9.5s in 10s, 2026-11-21 10:00 UTC" */
static void print_summary(const struct picture *picture)
{
	const struct profile *profile = picture->profile;
	const char *unit = profile_text(picture->profile, picture->type->unit);
	time_t seconds = profile->time_ns / NANOSECONDS;
	char text[UNIT_TEXT_MAX], when[64];
	struct tm utc;

	print_xml(picture->out, profile_text(picture->profile, picture->type->type));
	fputs(": ", picture->out);
	print_xml(picture->out, unit_format_best(text, picture->tree->total, unit));
	if (profile->duration_ns)
		fprintf(picture->out, " in %s",
			unit_format_best(text, profile->duration_ns, "nanoseconds"));
	if (seconds && gmtime_r(&seconds, &utc) &&
	    strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &utc))
		fprintf(picture->out, ", %s", when);
	if (picture->frames < picture->tree->node_count)
		fprintf(picture->out, ", the widest %zu of %zu frames", picture->frames,
			picture->tree->node_count);
}

static void print_head(const struct picture *picture)
{
	fprintf(picture->out,
		"<g id=\"head\">\n<rect class=\"paper\" width=\"100%%\" height=\"%d\"/>\n"
		"<text class=\"title\" x=\"%d\" y=\"28\">",
		HEAD_HEIGHT - 4, PADDING);
	print_xml(picture->out, picture->options->title);
	fprintf(picture->out, "</text>\n<text class=\"note\" x=\"%d\" y=\"50\">", PADDING);
	print_summary(picture);
	fprintf(picture->out,
		"</text>\n<text id=\"details\" x=\"%d\" y=\"69\"></text>\n"
		"<g class=\"right\" transform=\"translate(%d 0)\">\n"
		"<text id=\"matched\" y=\"69\" text-anchor=\"end\"></text>\n",
		PADDING, WIDTH - PADDING);
	print_legend(picture);
	fputs("</g>\n</g>\n", picture->out);
}

/*
 * The document title is for people, and for Chromium: without one, Chromium searches all frames
 * for it whenever it parses a frame.
 */
static void print_svg(const struct picture *picture)
{
	size_t height = HEAD_HEIGHT + picture->rows * ROW_HEIGHT + PADDING;
	uint32_t node;

	fprintf(picture->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
		"viewBox=\"0 0 %d %zu\">\n<title>",
		WIDTH, height, WIDTH, height);
	print_xml(picture->out, picture->options->title);
	fprintf(picture->out,
		"</title>\n<style>\n%s</style>\n"
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
		flamegraph_css);
	for (node = 0; node != CALLTREE_NONE; node = next_drawn(picture, node))
		print_frame(picture, node);
	print_head(picture);
	fprintf(picture->out, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flamegraph_js);
}

static int draw_picture(struct picture *picture, struct error *error)
{
	const char *type = profile_text(picture->profile, picture->type->type);
	int err;

	if (picture->tree->total <= 0)
		return error_set(error, ENODATA, "the profile has no samples with a value of '%s'",
				 type);
	picture->places = calloc(picture->tree->node_count, sizeof(*picture->places));
	err = picture->places ? choose_frames(picture) : -ENOMEM;
	if (err) {
		error_errno(error, -err, "the flame graph");
	} else {
		place_frames(picture);
		print_svg(picture);
	}
	free(picture->places);
	return err;
}

int flamegraph_write(const struct profile *profile, const struct flamegraph_options *options,
		     FILE *out, size_t *frames, struct error *error)
{
	struct calltree_options tree_options = {.group = options->group, .only_positive = true};
	struct picture picture = {.profile = profile, .options = options, .out = out};
	struct calltree *tree;
	int err;

	err = profile_find_type(profile, options->sample_type, &tree_options.sample_type, error);
	if (err)
		return err;
	err = calltree_new(profile, &tree_options, &tree, error);
	if (err)
		return err;
	picture.tree = tree;
	picture.type = &profile->types.items[tree_options.sample_type];
	err = draw_picture(&picture, error);
	if (!err && frames)
		*frames = picture.frames;
	calltree_free(tree);
	return err;
}
