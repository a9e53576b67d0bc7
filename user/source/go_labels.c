// SPDX-License-Identifier: GPL-2.0
#include "source/go_labels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

bool go_labels_next(const struct stackbeat_go_labels *labels, size_t *at, struct go_label *label)
{
	const size_t size = labels->size - sizeof(*labels);
	const uint8_t *next = labels->bytes + *at;

	if (size - *at < 2 || size - *at - 2 < (size_t)next[0] + next[1])
		return false;
	*label = (struct go_label){
		.key = (const char *)next + 2,
		.value = (const char *)next + 2 + next[0],
		.key_size = next[0],
		.value_size = next[1],
	};
	*at += 2u + next[0] + next[1];
	return true;
}

const char *go_labels_check(const struct stackbeat_go_labels *labels, size_t available)
{
	struct go_label label;
	size_t at = 0;

	if (available < sizeof(*labels) || labels->size < sizeof(*labels) ||
	    labels->size > available || labels->size > STACKBEAT_GO_LABELS_SIZE_MAX ||
	    labels->size % sizeof(uint64_t))
		return "the labels of a goroutine have a wrong size";
	if (labels->flags & ~STACKBEAT_GO_LABELS_CUT)
		return "the labels of a goroutine have unknown flags";
	if (labels->count > STACKBEAT_GO_LABELS_COUNT_MAX)
		return "a goroutine has too many labels";
	for (unsigned int i = 0; i < labels->count; i++) {
		if (!go_labels_next(labels, &at, &label))
			return "a label of a goroutine goes beyond its record";
	}
	return NULL;
}

static int go_labels_compare_keys(const char *left, size_t left_size, const char *right,
				  size_t right_size)
{
	int order = memcmp(left, right, MIN(left_size, right_size));

	if (order)
		return order;
	return left_size == right_size ? 0 : left_size < right_size ? -1 : 1;
}

static int compare_labels(const void *left, const void *right)
{
	const struct go_label *a = left, *b = right;
	int order = go_labels_compare_keys(a->key, a->key_size, b->key, b->key_size);

	return order ?: go_labels_compare_keys(a->value, a->value_size, b->value, b->value_size);
}

size_t go_labels_sort(const struct stackbeat_go_labels *from, struct stackbeat_go_labels *to)
{
	struct go_label labels[STACKBEAT_GO_LABELS_COUNT_MAX];
	size_t at = 0, used = 0, count = 0;

	for (unsigned int i = 0; i < from->count && go_labels_next(from, &at, &labels[count]); i++)
		count += labels[count].key_size && labels[count].value_size;
	qsort(labels, count, sizeof(*labels), compare_labels);
	memset(to, 0, STACKBEAT_GO_LABELS_SIZE_MAX);
	to->flags = from->flags;
	for (size_t i = 0; i < count; i++) {
		const struct go_label *label = &labels[i];

		if (i && !go_labels_compare_keys(label->key, label->key_size, label[-1].key,
						 label[-1].key_size))
			continue;
		to->bytes[used++] = label->key_size;
		to->bytes[used++] = label->value_size;
		memcpy(to->bytes + used, label->key, label->key_size);
		memcpy(to->bytes + used + label->key_size, label->value, label->value_size);
		used += (size_t)label->key_size + label->value_size;
		to->count++;
	}
	if (!to->count && !to->flags)
		return 0;
	to->size = (uint32_t)((sizeof(*to) + used + 7) & ~(size_t)7);
	return to->size;
}
