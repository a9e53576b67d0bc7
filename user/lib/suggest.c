// SPDX-License-Identifier: GPL-2.0
#include "lib/suggest.h"

#include <string.h>
#include <sys/param.h>

/* Longer words are not compared: nobody mistypes them. */
#define WORD_MAX 32u

/* Returns the distance of two words of at most WORD_MAX characters. */
static size_t word_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1], length = strlen(b);
	size_t *before = rows[0], *above = rows[1], *row = rows[2], *next;

	for (size_t j = 0; j <= length; j++)
		above[j] = j;
	for (size_t i = 0; a[i]; i++) {
		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			row[j + 1] = MIN(above[j + 1], row[j]) + 1;
			row[j + 1] = MIN(row[j + 1], above[j] + (a[i] != b[j]));
			if (i && j && a[i] == b[j - 1] && a[i - 1] == b[j])
				row[j + 1] = MIN(row[j + 1], before[j - 1] + 1);
		}
		next = before;
		before = above;
		above = row;
		row = next;
	}
	return above[length];
}

const char *suggest_word(const char *typed, suggest_word_fn *word, const void *context)
{
	size_t best = strlen(typed) / 3 + 1, distance;
	const char *found = NULL, *candidate;

	if (strlen(typed) > WORD_MAX)
		return NULL;
	for (size_t i = 0; (candidate = word(context, i)); i++) {
		if (strlen(candidate) > WORD_MAX)
			continue;
		distance = word_distance(typed, candidate);
		if (distance < best) {
			best = distance;
			found = candidate;
		}
	}
	return found;
}
