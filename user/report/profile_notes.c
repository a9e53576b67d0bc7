// SPDX-License-Identifier: GPL-2.0
#include "report/profile_notes.h"

#include <string.h>
#include <sys/param.h>

#include "lib/utf8.h"
#include "pprof/profile.h"

#define NOTE_MAX 1024

/* The comments of record/profile_export.c that say what a profile lacks. */
static const struct profile_note {
	const char *head;
	bool is_counter; /* what follows the head is a number, whose being 0 is no note */
} notes[] = {
	{"throttled: ", true},          {"lost: ", true},
	{"truncated: ", true},          {"merged for lack of memory: ", false},
	{"ended by an error: ", false}, {"out of memory: ", false},
};

/* Whether a counter "NAME NUMBER" is 0. */
static bool is_zero(const char *item, size_t length)
{
	return length >= 2 && item[length - 1] == '0' && item[length - 2] == ' ';
}

/* Copies the counters of a list "A 1, B 0, C 2" that are not 0. Returns their length. */
static size_t copy_counters(const char *list, size_t length, char *to)
{
	size_t used = 0, item;

	for (size_t at = 0; at < length; at += item + 2) {
		const char *end = memmem(list + at, length - at, ", ", 2);

		item = end ? (size_t)(end - list) - at : length - at;
		if (is_zero(list + at, item))
			continue;
		if (used) {
			to[used++] = ',';
			to[used++] = ' ';
		}
		memcpy(to + used, list + at, item);
		used += item;
	}
	return used;
}

/* Prints "HEAD: N (A 1, B 0)" without the counters in brackets that are 0. */
static void print_counter(const char *text, FILE *out)
{
	const char *open = strstr(text, " (");
	const size_t length = strlen(text);
	char note[NOTE_MAX];
	size_t used;

	if (!open || text[length - 1] != ')' || length >= sizeof(note)) {
		utf8_print(out, text);
		return;
	}
	used = (size_t)(open - text) + 2;
	memcpy(note, text, used);
	used += copy_counters(open + 2, (size_t)(text + length - open) - 3, note + used);
	strcpy(note + used, ")");
	utf8_print(out, note);
}

static void print_note(const char *text, FILE *out)
{
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		const size_t head = strlen(notes[i].head);

		if (strncmp(text, notes[i].head, head))
			continue;
		if (notes[i].is_counter && text[head] == '0')
			return;
		print_counter(text, out);
		fputc('\n', out);
		return;
	}
}

void profile_notes_print(const struct profile *profile, bool all, FILE *out)
{
	for (size_t i = 0; i < profile->comments.count; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);

		if (!all) {
			print_note(text, out);
			continue;
		}
		utf8_print(out, text);
		fputc('\n', out);
	}
}
