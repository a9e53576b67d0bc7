// SPDX-License-Identifier: GPL-2.0
#include "pprof/pprof_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/gzip.h"

#define READ_CHUNK (1u << 20)

/* A profile that is being verified. `name` and `error` are for report_invalid(). */
struct check {
	Perftools__Profiles__Profile *message;
	const char *name;
	struct error *error;
};

__attribute__((format(printf, 2, 3))) static int report_invalid(const struct check *check,
								const char *format, ...)
{
	char reason[256];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return error_set(check->error, EBADMSG, "%s: not a pprof profile: %s", check->name, reason);
}

/* Maps an id to a new one, from 1 in the order of the table. */
struct id_entry {
	uint64_t id;
	uint64_t new_id;
};

struct id_map {
	struct id_entry *entries; /* by id */
	size_t count;
};

static int compare_ids(const void *left, const void *right)
{
	const struct id_entry *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static uint64_t find_new_id(const struct id_map *map, uint64_t id)
{
	struct id_entry key = {.id = id}, *found;

	/* Fast path: most writers number ids from 1. */
	if (id && id <= map->count && map->entries[id - 1].id == id)
		return map->entries[id - 1].new_id;
	found = bsearch(&key, map->entries, map->count, sizeof(key), compare_ids);
	return found ? found->new_id : 0;
}

/*
 * Renumbers the ids of a table of `count` entries from 1, and sets `map` to find the new ids.
 * `id_of` returns the id at an index. Returns 0 or a negative errno value.
 */
static int renumber_ids(const struct check *check, const char *what, size_t count,
			uint64_t *(*id_of)(Perftools__Profiles__Profile *, size_t),
			struct id_map *map)
{
	uint64_t *id;
	size_t i;

	map->entries = calloc(count + 1, sizeof(*map->entries));
	if (!map->entries)
		return error_errno(check->error, ENOMEM, "%s", check->name);
	map->count = count;
	for (i = 0; i < count; i++) {
		id = id_of(check->message, i);
		if (!*id)
			return report_invalid(check, "a %s has the reserved id 0", what);
		map->entries[i] = (struct id_entry){*id, i + 1};
		*id = i + 1;
	}
	qsort(map->entries, count, sizeof(*map->entries), compare_ids);
	for (i = 1; i < count; i++)
		if (map->entries[i].id == map->entries[i - 1].id)
			return report_invalid(check, "two %ss have the id %" PRIu64, what,
					      map->entries[i].id);
	return 0;
}

static uint64_t *mapping_id(Perftools__Profiles__Profile *message, size_t index)
{
	return &message->mapping[index]->id;
}

static uint64_t *location_id(Perftools__Profiles__Profile *message, size_t index)
{
	return &message->location[index]->id;
}

static uint64_t *function_id(Perftools__Profiles__Profile *message, size_t index)
{
	return &message->function[index]->id;
}

static int check_string_table(const struct check *check)
{
	const Perftools__Profiles__Profile *message = check->message;
	size_t i;

	if (!message->n_string_table)
		return report_invalid(check, "it has no string table");
	if (*message->string_table[0])
		return report_invalid(check, "its string 0 is not empty");
	for (i = 0; i < message->n_string_table; i++)
		if (!utf8_valid(message->string_table[i]))
			return report_invalid(check, "its string %zu is not UTF-8", i);
	return 0;
}

static bool is_string(const struct check *check, int64_t index)
{
	return index >= 0 && (uint64_t)index < check->message->n_string_table;
}

static bool is_value_type(const struct check *check, const Perftools__Profiles__ValueType *type)
{
	return is_string(check, type->type) && is_string(check, type->unit);
}

static int check_head(const struct check *check)
{
	const Perftools__Profiles__Profile *message = check->message;
	size_t i;

	if (!message->n_sample_type)
		return report_invalid(check, "it has no sample type");
	for (i = 0; i < message->n_sample_type; i++)
		if (!is_value_type(check, message->sample_type[i]))
			return report_invalid(check, "sample type %zu names no string", i);
	if (message->period_type && !is_value_type(check, message->period_type))
		return report_invalid(check, "its period type names no string");
	if (!is_string(check, message->drop_frames) || !is_string(check, message->keep_frames) ||
	    !is_string(check, message->default_sample_type) || !is_string(check, message->doc_url))
		return report_invalid(check, "its head names no string");
	for (i = 0; i < message->n_comment; i++)
		if (!is_string(check, message->comment[i]))
			return report_invalid(check, "comment %zu names no string", i);
	return 0;
}

static int check_mappings(const struct check *check)
{
	const Perftools__Profiles__Mapping *mapping;
	size_t i;

	for (i = 0; i < check->message->n_mapping; i++) {
		mapping = check->message->mapping[i];
		if (!is_string(check, mapping->filename) || !is_string(check, mapping->build_id))
			return report_invalid(check, "mapping %" PRIu64 " names no string",
					      mapping->id);
	}
	return 0;
}

static int check_functions(const struct check *check)
{
	const Perftools__Profiles__Function *function;
	size_t i;

	for (i = 0; i < check->message->n_function; i++) {
		function = check->message->function[i];
		if (!is_string(check, function->name) || !is_string(check, function->system_name) ||
		    !is_string(check, function->filename))
			return report_invalid(check, "function %" PRIu64 " names no string",
					      function->id);
	}
	return 0;
}

static int resolve_locations(const struct check *check, const struct id_map *mappings,
			     const struct id_map *functions)
{
	Perftools__Profiles__Location *location;
	size_t i, j;

	for (i = 0; i < check->message->n_location; i++) {
		location = check->message->location[i];
		if (location->mapping_id) {
			location->mapping_id = find_new_id(mappings, location->mapping_id);
			if (!location->mapping_id)
				return report_invalid(
					check, "location %zu has a mapping that is not there",
					i + 1);
		}
		for (j = 0; j < location->n_line; j++) {
			location->line[j]->function_id =
				find_new_id(functions, location->line[j]->function_id);
			if (!location->line[j]->function_id)
				return report_invalid(
					check, "location %zu has a function that is not there",
					i + 1);
		}
	}
	return 0;
}

static int check_labels(const struct check *check, const Perftools__Profiles__Sample *sample,
			size_t number)
{
	const Perftools__Profiles__Label *label;
	size_t i;

	for (i = 0; i < sample->n_label; i++) {
		label = sample->label[i];
		if (!is_string(check, label->key) || !is_string(check, label->str) ||
		    !is_string(check, label->num_unit))
			return report_invalid(check, "a label of sample %zu names no string",
					      number);
	}
	return 0;
}

static int resolve_sample(const struct check *check, const struct id_map *locations, size_t index)
{
	Perftools__Profiles__Sample *sample = check->message->sample[index];
	size_t i;

	if (sample->n_value != check->message->n_sample_type)
		return report_invalid(check, "sample %zu has %zu values for %zu sample types",
				      index + 1, sample->n_value, check->message->n_sample_type);
	for (i = 0; i < sample->n_location_id; i++) {
		sample->location_id[i] = find_new_id(locations, sample->location_id[i]);
		if (!sample->location_id[i])
			return report_invalid(check, "sample %zu has a location that is not there",
					      index + 1);
	}
	return check_labels(check, sample, index + 1);
}

static int resolve_samples(const struct check *check, const struct id_map *locations)
{
	size_t i;
	int err = 0;

	for (i = 0; i < check->message->n_sample && !err; i++)
		err = resolve_sample(check, locations, i);
	return err;
}

static int check_message(const struct check *check)
{
	const Perftools__Profiles__Profile *message = check->message;
	struct id_map mappings = {0}, functions = {0}, locations = {0};
	int err;

	err = check_string_table(check) ?:
	      check_head(check) ?:
	      renumber_ids(check, "mapping", message->n_mapping, mapping_id, &mappings) ?:
	      renumber_ids(check, "function", message->n_function, function_id, &functions) ?:
	      renumber_ids(check, "location", message->n_location, location_id, &locations) ?:
	      check_mappings(check) ?:
	      check_functions(check) ?:
	      resolve_locations(check, &mappings, &functions) ?:
	      resolve_samples(check, &locations);
	free(mappings.entries);
	free(functions.entries);
	free(locations.entries);
	return err;
}

/*
 * The bytes that unpacking may still allocate. The size of the file is no limit for that: an empty
 * message takes two bytes in a file and a hundred in memory.
 */
struct budget {
	size_t left;
};

static void *budget_allocate(void *data, size_t size)
{
	struct budget *budget = data;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size);
}

static void budget_free(void *data, void *memory)
{
	(void)data;
	free(memory);
}

static size_t default_sample_type(const struct pprof_profile *profile)
{
	const Perftools__Profiles__Profile *message = profile->message;
	size_t i;

	for (i = 0; message->default_sample_type && i < message->n_sample_type; i++)
		if (!strcmp(pprof_string_at(profile, message->sample_type[i]->type),
			    pprof_string_at(profile, message->default_sample_type)))
			return i;
	return message->n_sample_type - 1;
}

static struct pprof_profile *unpack_profile(const void *data, size_t size, const char *name,
					    struct error *error)
{
	struct budget budget = {PPROF_MEMORY_MAX};
	ProtobufCAllocator allocator = {budget_allocate, budget_free, &budget};
	struct check check = {.name = name, .error = error};
	struct pprof_profile *profile = calloc(1, sizeof(*profile));

	if (!profile) {
		error_errno(error, ENOMEM, "%s", name);
		return NULL;
	}
	profile->message = perftools__profiles__profile__unpack(&allocator, size, data);
	check.message = profile->message;
	if (!check.message) {
		report_invalid(&check, "its bytes are no such message, or one that is too large");
		goto err_free;
	}
	if (check_message(&check))
		goto err_free;
	profile->sample_type = default_sample_type(profile);
	return profile;

err_free:
	pprof_profile_free(profile);
	return NULL;
}

struct pprof_profile *pprof_decode(const void *data, size_t size, const char *name,
				   struct error *error)
{
	struct pprof_profile *profile;
	size_t expanded_size;
	void *expanded;

	if (!size) {
		error_set(error, EBADMSG, "%s: not a pprof profile: it is empty", name);
		return NULL;
	}
	if (!gzip_detect(data, size))
		return unpack_profile(data, size, name, error);
	if (gzip_expand(data, size, PPROF_SIZE_MAX, name, &expanded, &expanded_size, error))
		return NULL;
	profile = unpack_profile(expanded, expanded_size, name, error);
	free(expanded);
	return profile;
}

/* Reads `fd` to its end into *bytes, which the caller frees, also after an error. */
static int read_all(int fd, const char *path, unsigned char **bytes, size_t *size,
		    struct error *error)
{
	size_t capacity = 0;
	ssize_t got;

	do {
		if (array_reserve(bytes, &capacity, *size, READ_CHUNK, 1))
			return error_errno(error, ENOMEM, "%s", path);
		do
			got = read(fd, *bytes + *size, capacity - *size);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			return error_errno(error, errno, "%s", path);
		*size += got;
		if (*size > PPROF_SIZE_MAX)
			return error_set(error, EFBIG, "%s: larger than %zu MiB", path,
					 PPROF_SIZE_MAX >> 20);
	} while (got);
	return 0;
}

struct pprof_profile *pprof_read(const char *path, struct error *error)
{
	bool standard_input = !strcmp(path, "-");
	struct pprof_profile *profile = NULL;
	unsigned char *bytes = NULL;
	size_t size = 0;
	int fd;

	fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		error_errno(error, errno, "%s", path);
		return NULL;
	}
	if (!read_all(fd, path, &bytes, &size, error))
		profile = pprof_decode(bytes, size, path, error);
	free(bytes);
	if (!standard_input)
		close(fd);
	return profile;
}

void pprof_profile_free(struct pprof_profile *profile)
{
	if (!profile)
		return;
	if (profile->message)
		perftools__profiles__profile__free_unpacked(profile->message, NULL);
	free(profile);
}

const char *pprof_string_at(const struct pprof_profile *profile, int64_t index)
{
	return profile->message->string_table[index];
}

int pprof_sample_type(const struct pprof_profile *profile, const char *name, size_t *index,
		      struct error *error)
{
	const Perftools__Profiles__Profile *message = profile->message;
	char types[256] = "";
	const char *type;
	size_t i, used = 0;

	if (!name) {
		*index = profile->sample_type;
		return 0;
	}
	for (i = 0; i < message->n_sample_type; i++) {
		type = pprof_string_at(profile, message->sample_type[i]->type);
		if (!strcmp(type, name)) {
			*index = i;
			return 0;
		}
		if (used < sizeof(types))
			used += snprintf(types + used, sizeof(types) - used, "%s%s", i ? ", " : "",
					 type);
	}
	return error_set(error, EINVAL, "no sample type '%s' in the profile: it has %s", name,
			 types);
}
