// SPDX-License-Identifier: GPL-2.0
#include "inspect/goroutine_labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <stackbeat_go_labels.h>

#include "inspect/goroutines.h"
#include "inspect/process_memory.h"
#include "lib/array.h"
#include "runtime/go_layout.h"
#include "source/go_labels.h"

/* A record of labels, with its maximum size. */
union record {
	struct stackbeat_go_labels labels;
	uint64_t words[(STACKBEAT_GO_LABELS_SIZE_MAX + STACKBEAT_GO_SLACK) / sizeof(uint64_t)];
};

/* A stackbeat_go_read; `arg`: struct goroutines_source. */
static int goroutine_labels_read_memory(void *arg, __u64 address, void *to, __u32 size)
{
	const struct goroutines_source *source = arg;

	return !size || !process_memory_read(source->pid, address, to, size);
}

static int compare_sets(const void *a, const void *b)
{
	const struct goroutine_label_set *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Lists the addresses of labels, each once. Returns 0 or -ENOMEM. */
static int list_sets(const struct goroutines *goroutines, struct goroutine_labels *labels)
{
	size_t count = 0;

	labels->sets = calloc(goroutines->count + 1, sizeof(*labels->sets));
	if (!labels->sets)
		return -ENOMEM;
	for (size_t i = 0; i < goroutines->count; i++) {
		const struct goroutine *goroutine = &goroutines->items[i];

		if (goroutine->labels)
			labels->sets[count++] = (struct goroutine_label_set){
				.address = goroutine->labels, .goroutine = goroutine->address};
	}
	qsort(labels->sets, count, sizeof(*labels->sets), compare_sets);
	for (size_t i = 0; i < count; i++) {
		if (!i || labels->sets[i].address != labels->sets[i - 1].address)
			labels->sets[labels->set_count++] = labels->sets[i];
	}
	return 0;
}

/* Whether the goroutine by which a set was found still has it. */
static bool goroutine_labels_are_valid(const struct goroutines_source *source,
				       const struct goroutine_label_set *set)
{
	uint64_t address;

	return !process_memory_read(source->pid, set->goroutine + source->layout->labels, &address,
				    sizeof(address)) &&
	       address == set->address;
}

static int read_set(const struct goroutines_source *source, struct goroutine_labels *labels,
		    struct goroutine_label_set *set)
{
	union record record = {.labels = {.size = sizeof(record.labels)}}, sorted;
	bool is_read = set - labels->sets < GOROUTINE_LABEL_SETS_MAX;
	size_t words;

	if (is_read)
		stackbeat_go_labels_read(goroutine_labels_read_memory, (void *)source, set->address,
					 source->layout->has_label_slices, &record.labels);
	if (!is_read || !goroutine_labels_are_valid(source, set))
		record.labels = (struct stackbeat_go_labels){.size = sizeof(record.labels),
							     .flags = STACKBEAT_GO_LABELS_CUT};
	words = go_labels_sort(&record.labels, &sorted.labels) / sizeof(uint64_t);
	set->at = labels->word_count;
	/* A set without labels has no words: the words of the next set must not be taken for it. */
	if (!words) {
		sorted = (union record){.labels = {.size = sizeof(sorted.labels)}};
		words = 1;
	}
	if (array_reserve(&labels->words, &labels->word_capacity, labels->word_count, words,
			  sizeof(*labels->words)))
		return -ENOMEM;
	memcpy(labels->words + labels->word_count, sorted.words, words * sizeof(uint64_t));
	labels->word_count += words;
	return 0;
}

int goroutine_labels_read(const struct goroutines_source *source,
			  const struct goroutines *goroutines, struct goroutine_labels *labels)
{
	int err;

	*labels = (struct goroutine_labels){.sets = NULL};
	err = list_sets(goroutines, labels);
	for (size_t i = 0; i < labels->set_count && !err; i++)
		err = read_set(source, labels, &labels->sets[i]);
	if (err)
		goroutine_labels_clear(labels);
	return err;
}

void goroutine_labels_clear(struct goroutine_labels *labels)
{
	free(labels->sets);
	free(labels->words);
	*labels = (struct goroutine_labels){.sets = NULL};
}

const struct stackbeat_go_labels *goroutine_labels_at(const struct goroutine_labels *labels,
						      uint64_t address)
{
	const struct goroutine_label_set wanted = {.address = address};
	const struct goroutine_label_set *set;
	const struct stackbeat_go_labels *found;

	if (!address || !labels->set_count)
		return NULL;
	set = bsearch(&wanted, labels->sets, labels->set_count, sizeof(wanted), compare_sets);
	if (!set)
		return NULL;
	found = (const struct stackbeat_go_labels *)(labels->words + set->at);
	return found->count || found->flags ? found : NULL;
}
