// SPDX-License-Identifier: GPL-2.0
#include "pprof/labels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/blocks.h"
#include "pprof/profile.h"
#include "source/go_labels.h"

#define LOCATION_UNIT "location"
#define RESERVED_PREFIX "pprof::" /* of labels that pprof adds */

static const char *const names[LABEL_COUNT] = {
	[LABEL_COMM] = "comm",
	[LABEL_THREAD] = "thread",
	[LABEL_PID] = "pid",
	[LABEL_TID] = "tid",
	[LABEL_GOROUTINE] = "goroutine",
	[LABEL_GO_CREATOR] = LABEL_GO_CREATOR_KEY,
	[LABEL_GO_LABELS] = LABEL_GO_LABELS_KEY,
	[LABEL_CPU] = "cpu",
	[LABEL_CGROUP] = "cgroup",
	[LABEL_CONTAINER] = "container",
	[LABEL_TRUNCATED] = LABEL_TRUNCATED_KEY,
};

/* Added with LABEL_PID. */
static const char ns_pid[] = "nspid";

/* Returns the label with this key, or LABEL_COUNT. */
static enum label label_by_key(const char *name, size_t length)
{
	enum label label;

	for (label = 0; label < LABEL_COUNT; label++) {
		if (strlen(names[label]) == length && !memcmp(names[label], name, length))
			break;
	}
	return label;
}

enum label label_of_key(const char *key)
{
	enum label label = label_by_key(key, strlen(key));

	if (label != LABEL_COUNT)
		return label;
	if (!strcmp(key, LABEL_MERGED_KEY))
		return LABEL_MERGED;
	if (!strcmp(key, LABEL_BLOCK_KEY))
		return LABEL_BLOCK;
	if (!strcmp(key, PROFILE_MOMENT_KEY))
		return LABEL_MOMENT;
	return strcmp(key, ns_pid) ? LABEL_OTHER : LABEL_PID;
}

enum label label_choice(const char *key)
{
	enum label label = label_of_key(key);

	return label == LABEL_OTHER ? LABEL_GO_LABELS : label;
}

static bool is_chosen(uint32_t chosen, enum label label)
{
	return chosen & LABEL_SET(label);
}

int labels_choose(struct labels *labels, const char *list, struct error *error)
{
	uint32_t chosen = 0;

	if (!strcmp(list, "all")) {
		labels->chosen = LABELS_ALL;
		return 0;
	}
	if (!*list || !strcmp(list, "none")) {
		labels->chosen = 0;
		return 0;
	}
	do {
		size_t length = strcspn(list, ",");
		enum label label = label_by_key(list, length);

		if (label == LABEL_COUNT)
			return error_set(
				error, EINVAL,
				"--labels: '%.*s' is none of comm, thread, pid, tid, goroutine, "
				"go-creator, go-labels, cpu, cgroup, container and truncated, nor "
				"is all "
				"'all' or 'none'",
				(int)length, list);
		chosen |= LABEL_SET(label);
		list += length;
	} while (*list++ == ',');
	labels->chosen = chosen;
	return 0;
}

uint8_t labels_of_goroutines(const struct labels *labels)
{
	uint8_t parts = 0;

	if (is_chosen(labels->chosen, LABEL_GOROUTINE))
		parts |= STACKBEAT_GOROUTINE_ID;
	if (is_chosen(labels->chosen, LABEL_GO_CREATOR))
		parts |= STACKBEAT_GOROUTINE_CREATOR;
	if (is_chosen(labels->chosen, LABEL_GO_LABELS))
		parts |= STACKBEAT_GOROUTINE_LABELS;
	return parts;
}

bool labels_have_added(const struct labels *labels, const char *key)
{
	for (size_t i = 0; i < labels->added_count; i++) {
		if (!strcmp(labels->added[i].key, key))
			return true;
	}
	return false;
}

static int check_key(const struct labels *labels, const char *key, struct error *error)
{
	if (!utf8_valid(key))
		return error_set(error, EINVAL, "--label: the key '%s' is not UTF-8", key);
	if (label_of_key(key) != LABEL_OTHER)
		return error_set(error, EINVAL, "--label: '%s' is reserved by stackbeat", key);
	if (!strncmp(key, RESERVED_PREFIX, strlen(RESERVED_PREFIX)))
		return error_set(error, EINVAL,
				 "--label: '%s': " RESERVED_PREFIX " is reserved by pprof", key);
	if (!strncmp(key, GO_LABEL_PREFIX, strlen(GO_LABEL_PREFIX)))
		return error_set(error, EINVAL,
				 "--label: '%s': " GO_LABEL_PREFIX " is of labels of programs",
				 key);
	if (labels_have_added(labels, key))
		return error_set(error, EINVAL, "--label: '%s' is given twice", key);
	return 0;
}

int labels_add(struct labels *labels, const char *string, struct error *error)
{
	size_t length = strcspn(string, "=");
	char key[LABEL_KEY_SIZE];
	int err;

	if (!length || !string[length] || !string[length + 1])
		return error_set(error, EINVAL, "--label: '%s' is not KEY=VALUE", string);
	if (length >= LABEL_KEY_SIZE)
		return error_set(error, EINVAL, "--label: the key is longer than %u bytes",
				 LABEL_KEY_SIZE - 1);
	if (labels->added_count == LABELS_ADDED_MAX)
		return error_set(error, EINVAL, "--label: more than %u labels", LABELS_ADDED_MAX);
	snprintf(key, sizeof(key), "%.*s", (int)length, string);
	err = check_key(labels, key, error);
	if (err)
		return err;
	if (!utf8_valid(string + length + 1))
		return error_set(error, EINVAL, "--label: the value of '%s' is not UTF-8", key);
	strcpy(labels->added[labels->added_count].key, key);
	labels->added[labels->added_count++].value = string + length + 1;
	return 0;
}

/* The words of a goroutine are behind the frames of a sample. */
static void goroutine_origin(uint32_t chosen, const struct stackbeat_sample *sample,
			     struct label_origin *origin)
{
	const __u64 *word = sample->frames + sample->kernel_frames + sample->user_frames;

	if (sample->record.flags & STACKBEAT_SAMPLE_GOROUTINE) {
		if (is_chosen(chosen, LABEL_GOROUTINE))
			origin->goroutine = *word;
		word++;
	}
	if (sample->record.flags & STACKBEAT_SAMPLE_GO_CREATOR &&
	    is_chosen(chosen, LABEL_GO_CREATOR))
		origin->go_creator = *word;
}

void label_origin(uint32_t chosen, const char *process_comm, const struct stackbeat_sample *sample,
		  struct label_origin *origin)
{
	bool first = sample->pid == sample->tid;
	/* The name of a process is the name of its first thread. */
	bool thread = is_chosen(chosen, LABEL_COMM) && (first || !*process_comm);

	memset(origin, 0, sizeof(*origin));
	if (is_chosen(chosen, LABEL_PID))
		origin->pid = sample->pid;
	if (is_chosen(chosen, LABEL_TID))
		origin->tid = sample->tid;
	goroutine_origin(chosen, sample, origin);
	if (is_chosen(chosen, LABEL_CPU))
		origin->cpu = sample->cpu;
	if (is_chosen(chosen, LABEL_BLOCK))
		origin->block = block_of_time(sample->time);
	if (is_chosen(chosen, LABEL_COMM))
		origin->first = first;
	if (is_chosen(chosen, LABEL_THREAD) || thread)
		memcpy(origin->thread, sample->comm,
		       strnlen(sample->comm, sizeof(origin->thread) - 1));
}

const struct stackbeat_go_labels *label_go_labels(uint32_t chosen,
						  const struct stackbeat_sample *sample)
{
	const __u64 *word = sample->frames + sample->kernel_frames + sample->user_frames;

	if (!is_chosen(chosen, LABEL_GO_LABELS) ||
	    !(sample->record.flags & STACKBEAT_SAMPLE_GO_LABELS))
		return NULL;
	word += !!(sample->record.flags & STACKBEAT_SAMPLE_GOROUTINE);
	word += !!(sample->record.flags & STACKBEAT_SAMPLE_GO_CREATOR);
	return (const struct stackbeat_go_labels *)word;
}

static void label_add_string(struct label_values *values, const char *key, const char *text)
{
	if (*text)
		values->items[values->count++] = (struct label_value){.key = key, .text = text};
}

static void label_add_number(struct label_values *values, const char *key, int64_t number)
{
	/* pprof ignores numeric labels of value 0 without a unit, like CPU 0. */
	values->items[values->count++] =
		(struct label_value){.key = key, .number = number, .unit = key};
}

/* Appends a string of any bytes to the text of `values`. Returns the string. */
static const char *label_append_text(struct label_values *values, size_t *used, const char *bytes,
				     size_t size)
{
	char *text = values->go_labels + *used;

	memcpy(text, bytes, size);
	text[size] = '\0';
	for (char *nul = text; (nul = memchr(nul, '\0', size - (size_t)(nul - text)));)
		*nul = '?';
	utf8_sanitize(text);
	*used += size + 1;
	return text;
}

/* A program must not pass off its labels as labels of stackbeat, of pprof, or of the user. */
static bool has_other_meaning(const struct labels *labels, const char *key)
{
	return label_of_key(key) != LABEL_OTHER || labels_have_added(labels, key) ||
	       !strncmp(key, RESERVED_PREFIX, strlen(RESERVED_PREFIX));
}

/* Whether the values from the first on have a key. */
static bool have_key(const struct label_values *values, size_t first, const char *key)
{
	for (size_t i = first; i < values->count; i++) {
		if (!strcmp(values->items[i].key, key))
			return true;
	}
	return false;
}

static void labels_add_go(const struct labels *labels, const struct stackbeat_go_labels *from,
			  struct label_values *values)
{
	const size_t first = values->count;
	const char *key, *with_prefix;
	size_t at = 0, used = 0;
	struct go_label label;

	if (from->flags & STACKBEAT_GO_LABELS_CUT)
		label_add_string(values, names[LABEL_GO_LABELS], GO_LABELS_CUT);
	for (unsigned int i = 0; i < from->count && go_labels_next(from, &at, &label); i++) {
		with_prefix =
			label_append_text(values, &used, GO_LABEL_PREFIX, strlen(GO_LABEL_PREFIX));
		used--;
		key = label_append_text(values, &used, label.key, label.key_size);
		if (has_other_meaning(labels, key))
			key = with_prefix;
		/* Different bytes may have become the same text. */
		if (have_key(values, first, key))
			continue;
		label_add_string(values, key,
				 label_append_text(values, &used, label.value, label.value_size));
	}
}

static const char *comm_of(const struct label_origin *origin, const struct label_process *process)
{
	return origin->first || !*process->comm ? origin->thread : process->comm;
}

void label_values(const struct labels *labels, const struct label_origin *origin,
		  const struct label_process *process, struct label_values *values)
{
	uint32_t chosen = labels->chosen;

	values->count = 0;
	if (is_chosen(chosen, LABEL_COMM))
		label_add_string(values, names[LABEL_COMM], comm_of(origin, process));
	if (is_chosen(chosen, LABEL_THREAD))
		label_add_string(values, names[LABEL_THREAD], origin->thread);
	if (is_chosen(chosen, LABEL_PID))
		label_add_number(values, names[LABEL_PID], origin->pid);
	if (is_chosen(chosen, LABEL_PID) && process->ns_pid && process->ns_pid != origin->pid)
		label_add_number(values, ns_pid, process->ns_pid);
	if (is_chosen(chosen, LABEL_TID))
		label_add_number(values, names[LABEL_TID], origin->tid);
	/* Untrusted: a number that can't be an id is none. */
	if (origin->goroutine && origin->goroutine <= INT64_MAX)
		label_add_number(values, names[LABEL_GOROUTINE], (int64_t)origin->goroutine);
	if (is_chosen(chosen, LABEL_CPU))
		label_add_number(values, names[LABEL_CPU], origin->cpu);
	if (is_chosen(chosen, LABEL_BLOCK))
		label_add_number(values, LABEL_BLOCK_KEY, (int64_t)origin->block);
	if (is_chosen(chosen, LABEL_CGROUP))
		label_add_string(values, names[LABEL_CGROUP], process->cgroup_path);
	if (is_chosen(chosen, LABEL_CONTAINER)) {
		container_id(process->cgroup_path, values->container);
		label_add_string(values, names[LABEL_CONTAINER], values->container);
	}
	if (is_chosen(chosen, LABEL_TRUNCATED))
		label_add_string(values, names[LABEL_TRUNCATED], process->truncated);
	for (size_t i = 0; i < labels->added_count; i++)
		label_add_string(values, labels->added[i].key, labels->added[i].value);
	if (process->go_labels)
		labels_add_go(labels, process->go_labels, values);
}

void label_set_go_creator(struct label_value *value, uint32_t location)
{
	*value = (struct label_value){
		.key = LABEL_GO_CREATOR_KEY, .number = location, .unit = LOCATION_UNIT};
}

bool label_is_go_creator_location(const struct profile *profile, uint32_t label)
{
	const struct profile_label *value = &profile->labels.items[label];

	return !value->text && value->number > 0 &&
	       (uint64_t)value->number < profile->locations.count &&
	       !strcmp(profile_text(profile, value->key), LABEL_GO_CREATOR_KEY) &&
	       !strcmp(profile_text(profile, value->unit), LOCATION_UNIT);
}

uint32_t labels_intern(struct profile *profile, const struct label_value *values, size_t count)
{
	uint32_t labels[LABELS_MAX];

	for (size_t i = 0; i < count; i++) {
		const struct label_value *value = &values[i];
		struct profile_label label = {.key = profile_string(profile, value->key)};

		if (value->text) {
			label.text = profile_string(profile, value->text);
		} else {
			label.number = value->number;
			label.unit = profile_string(profile, value->unit);
		}
		labels[i] = profile_label(profile, &label);
	}
	return profile_label_set(profile, labels, count);
}
