// SPDX-License-Identifier: GPL-2.0
#include "pprof/pprof_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/error.h"
#include "pprof/foreign_format.h"
#include "pprof/gzip.h"
#include "pprof/profile.h"
#include "profile.pb-c.h"

#define READ_CHUNK (1u << 20)
#define EXPAND_CHUNK (64u << 10)

typedef Perftools__Profiles__Profile Message;

/* The fields of a Profile message in profile.proto. */
enum {
	FIELD_SAMPLE_TYPE = 1,
	FIELD_SAMPLE,
	FIELD_MAPPING,
	FIELD_LOCATION,
	FIELD_FUNCTION,
	FIELD_STRING,
	FIELD_DROP_FRAMES,
	FIELD_KEEP_FRAMES,
	FIELD_TIME,
	FIELD_DURATION,
	FIELD_PERIOD_TYPE,
	FIELD_PERIOD,
	FIELD_COMMENT,
	FIELD_DEFAULT_TYPE,
	FIELD_DOC_URL,
	FIELD_COUNT
};

#define FIELD_SET(field) (1u << (field))

/* The entry of the profile that has an id in the file. */
struct id_entry {
	uint64_t id;
	uint32_t entry;
};

struct id_map {
	const char *what;
	struct id_entry *entries; /* by id, once all are known */
	size_t count, capacity;
	bool unsorted;
};

/*
 * The fields of a message may have any order: entries may come before those that they refer to.
 * Therefore the message is expanded and divided into fields several times, and each pass adds the
 * entries that refer to entries of earlier ones. What the passes do not want is skipped: neither
 * the message nor a table is ever in memory as a whole.
 */
struct pprof_reader {
	struct profile *profile;
	const char *name;
	struct error *error;
	/* Bytes of the message: those from `start` to `end` are not yet divided. */
	struct gzip_reader *gzip;
	uint8_t *bytes;
	size_t start, end, capacity;
	/* Numbers in the profile of the strings in the file. */
	uint32_t *strings;
	size_t string_count, string_capacity;
	struct id_map mappings, functions, locations;
	uint64_t samples; /* so far */
	const struct pprof_read_options *options;
	size_t size; /* bytes of the file */
	unsigned int pass;
	struct profile_line *lines; /* of one location */
	size_t line_capacity;
	uint32_t *items; /* locations, then labels of one sample */
	size_t item_capacity;
	char *text; /* one string */
	size_t text_capacity;
};

__attribute__((format(printf, 2, 3))) static int report_invalid(const struct pprof_reader *reader,
								const char *format, ...)
{
	char reason[256];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return error_set(reader->error, EBADMSG, "%s: not a pprof profile: %s", reader->name,
			 reason);
}

static int report_no_message(const struct pprof_reader *reader)
{
	return report_invalid(reader, "its bytes are no such message, or the message is too large");
}

static int report_no_memory(const struct pprof_reader *reader)
{
	return error_errno(reader->error, ENOMEM, "%s", reader->name);
}

/* Bytes of memory of the profile, and of the tables that it is read with. */
static size_t reader_bytes(const struct pprof_reader *reader)
{
	size_t ids =
		reader->mappings.capacity + reader->functions.capacity + reader->locations.capacity;

	return profile_bytes(reader->profile) + reader->capacity + ids * sizeof(struct id_entry) +
	       (reader->string_capacity + reader->item_capacity) * sizeof(uint32_t) +
	       reader->line_capacity * sizeof(*reader->lines) + reader->text_capacity;
}

/* Ids */

static int compare_ids(const void *left, const void *right)
{
	const struct id_entry *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static int pprof_add_id(const struct pprof_reader *reader, struct id_map *map, uint64_t id,
			uint32_t entry)
{
	if (!id)
		return report_invalid(reader, "a %s has the reserved id 0", map->what);
	if (array_reserve(&map->entries, &map->capacity, map->count, 1, sizeof(*map->entries)))
		return report_no_memory(reader);
	map->unsorted |= map->count && map->entries[map->count - 1].id >= id;
	map->entries[map->count++] = (struct id_entry){id, entry};
	return 0;
}

/* Call after the last pprof_add_id(), before the first pprof_find_id(). */
static int finish_ids(const struct pprof_reader *reader, struct id_map *map)
{
	if (!map->unsorted)
		return 0;
	qsort(map->entries, map->count, sizeof(*map->entries), compare_ids);
	for (size_t i = 1; i < map->count; i++) {
		if (map->entries[i].id == map->entries[i - 1].id)
			return report_invalid(reader, "two %ss have the id %" PRIu64, map->what,
					      map->entries[i].id);
	}
	return 0;
}

/* Returns the entry with an id, or 0. */
static uint32_t pprof_find_id(const struct id_map *map, uint64_t id)
{
	const struct id_entry key = {.id = id}, *found;

	/* Fast path: most writers number ids from 1. */
	if (id && id <= map->count && map->entries[id - 1].id == id)
		return map->entries[id - 1].entry;
	found = map->count ? bsearch(&key, map->entries, map->count, sizeof(key), compare_ids)
			   : NULL;
	return found ? found->entry : 0;
}

/* Strings */

static bool is_string(const struct pprof_reader *reader, int64_t index)
{
	return index >= 0 && (uint64_t)index < reader->string_count;
}

/* Sets *string to that at an index in the file. Returns false if there is none. */
static bool get_string(const struct pprof_reader *reader, int64_t index, uint32_t *string)
{
	if (!is_string(reader, index))
		return false;
	*string = reader->strings[index];
	return true;
}

/*
 * Sets reader->text to a string of the file. A NUL, which would end it, becomes an escape as in
 * reports: what is wrong with a name must not cost the profile.
 */
static int pprof_set_text(struct pprof_reader *reader, const uint8_t *bytes, size_t size)
{
	static const char escape[] = "\\x00";
	size_t nuls = 0, length = 0;

	for (size_t i = 0; i < size; i++)
		nuls += !bytes[i];
	if (size + nuls * (sizeof(escape) - 2) >= PPROF_ENTRY_MEMORY_MAX)
		return report_no_message(reader);
	if (array_reserve(&reader->text, &reader->text_capacity, 0,
			  size + nuls * (sizeof(escape) - 2) + 1, 1))
		return report_no_memory(reader);
	for (size_t i = 0; i < size; i++) {
		if (bytes[i])
			reader->text[length++] = (char)bytes[i];
		else
			length = (size_t)(stpcpy(reader->text + length, escape) - reader->text);
	}
	reader->text[length] = '\0';
	return 0;
}

static int pprof_add_string(struct pprof_reader *reader, const uint8_t *bytes, size_t size)
{
	int err;

	if (!reader->string_count && size)
		return report_invalid(reader, "its string 0 is not empty");
	err = pprof_set_text(reader, bytes, size);
	if (err)
		return err;
	if (array_reserve(&reader->strings, &reader->string_capacity, reader->string_count, 1,
			  sizeof(*reader->strings)))
		return report_no_memory(reader);
	reader->strings[reader->string_count++] = profile_string(reader->profile, reader->text);
	return 0;
}

/* Head, mappings and functions */

static bool get_type(const struct pprof_reader *reader, const Perftools__Profiles__ValueType *type,
		     struct profile_value_type *value_type)
{
	return get_string(reader, type->type, &value_type->type) &&
	       get_string(reader, type->unit, &value_type->unit);
}

static int add_sample_type(struct pprof_reader *reader, const Perftools__Profiles__ValueType *type)
{
	struct profile *profile = reader->profile;
	struct profile_value_type value_type;

	if (!get_type(reader, type, &value_type))
		return report_invalid(reader, "sample type %zu names no string",
				      profile->types.count);
	profile_add_type(profile, profile_text(profile, value_type.type),
			 profile_text(profile, value_type.unit));
	return 0;
}

static int pprof_add_comments(struct pprof_reader *reader, const Message *message)
{
	struct profile *profile = reader->profile;

	for (size_t i = 0; i < message->n_comment; i++) {
		if (!is_string(reader, message->comment[i]))
			return report_invalid(reader, "comment %zu names no string",
					      profile->comments.count);
		profile_add_comment(profile, reader->strings[message->comment[i]]);
	}
	return 0;
}

static int set_head_string(const struct pprof_reader *reader, int64_t index, uint32_t *string)
{
	return get_string(reader, index, string)
		       ? 0
		       : report_invalid(reader, "its head names no string");
}

static int pprof_add_mapping(struct pprof_reader *reader,
			     const Perftools__Profiles__Mapping *mapping)
{
	struct profile *profile = reader->profile;
	const size_t count = profile->mappings.count;
	struct profile_mapping added = {
		.start = mapping->memory_start,
		.limit = mapping->memory_limit,
		.offset = mapping->file_offset,
	};
	uint32_t entry;

	if (!get_string(reader, mapping->filename, &added.file) ||
	    !get_string(reader, mapping->build_id, &added.build_id))
		return report_invalid(reader, "mapping %zu names no string",
				      reader->mappings.count + 1);
	entry = profile_mapping(profile, &added);
	/* Different files may have equal mappings, if they have no build IDs. */
	if (profile->mappings.count == count) {
		added.place.segment = (uint32_t)reader->mappings.count;
		entry = profile_mapping(profile, &added);
	}
	return pprof_add_id(reader, &reader->mappings, mapping->id, entry);
}

static int pprof_add_function(struct pprof_reader *reader,
			      const Perftools__Profiles__Function *function)
{
	struct profile_function added = {.start_line = function->start_line};

	if (!get_string(reader, function->name, &added.name) ||
	    !get_string(reader, function->system_name, &added.system_name) ||
	    !get_string(reader, function->filename, &added.file))
		return report_invalid(reader, "function %zu names no string",
				      reader->functions.count + 1);
	return pprof_add_id(reader, &reader->functions, function->id,
			    profile_function(reader->profile, &added));
}

/* Locations and samples */

static int pprof_add_location(struct pprof_reader *reader,
			      const Perftools__Profiles__Location *location)
{
	const size_t number = reader->locations.count + 1;
	struct profile *profile = reader->profile;
	uint32_t mapping = 0, entry;

	if (location->mapping_id) {
		mapping = pprof_find_id(&reader->mappings, location->mapping_id);
		if (!mapping)
			return report_invalid(
				reader, "location %zu has a mapping that is not there", number);
	}
	if (array_reserve(&reader->lines, &reader->line_capacity, 0, location->n_line,
			  sizeof(*reader->lines)))
		return report_no_memory(reader);
	for (size_t i = 0; i < location->n_line; i++) {
		const Perftools__Profiles__Line *line = location->line[i];
		uint32_t function = pprof_find_id(&reader->functions, line->function_id);

		if (!function)
			return report_invalid(
				reader, "location %zu has a function that is not there", number);
		reader->lines[i] = (struct profile_line){line->line, line->column, function};
	}
	entry = profile_location(profile, mapping, location->address, reader->lines,
				 location->n_line);
	profile->locations.items[entry].is_folded |= location->is_folded && entry;
	return pprof_add_id(reader, &reader->locations, location->id, entry);
}

/* Whether a label is the time of a sample. */
static bool is_moment_label(const struct profile *profile, const struct profile_label *label)
{
	return !label->text && !strcmp(profile_text(profile, label->key), PROFILE_MOMENT_KEY) &&
	       !strcmp(profile_text(profile, label->unit), PROFILE_MOMENT_UNIT);
}

/* Sets reader->items to the labels of a sample, but its first time, of which *has_time says so. */
static int get_labels(struct pprof_reader *reader, const Perftools__Profiles__Sample *sample,
		      size_t *count, int64_t *time, bool *has_time)
{
	for (size_t i = 0; i < sample->n_label; i++) {
		const Perftools__Profiles__Label *label = sample->label[i];
		struct profile_label added = {.number = label->num};

		if (!get_string(reader, label->key, &added.key) ||
		    !get_string(reader, label->str, &added.text) ||
		    !get_string(reader, label->num_unit, &added.unit))
			return report_invalid(reader,
					      "a label of sample %" PRIu64 " names no string",
					      reader->samples);
		if (!*has_time && is_moment_label(reader->profile, &added)) {
			*time = added.number;
			*has_time = true;
		} else {
			reader->items[(*count)++] = profile_label(reader->profile, &added);
		}
	}
	return 0;
}

static int pprof_add_sample(struct pprof_reader *reader, const Perftools__Profiles__Sample *sample)
{
	struct profile *profile = reader->profile;
	uint32_t stack, number;
	bool has_time = false;
	int64_t time = 0;
	size_t count = 0;
	int err;

	reader->samples++;
	if (sample->n_value != profile->types.count)
		return report_invalid(reader,
				      "sample %" PRIu64 " has %zu values for %zu sample types",
				      reader->samples, sample->n_value, profile->types.count);
	if (array_reserve(&reader->items, &reader->item_capacity, 0, sample->n_location_id,
			  sizeof(*reader->items)) ||
	    array_reserve(&reader->items, &reader->item_capacity, 0, sample->n_label,
			  sizeof(*reader->items)))
		return report_no_memory(reader);
	for (size_t i = 0; i < sample->n_location_id; i++) {
		reader->items[i] = pprof_find_id(&reader->locations, sample->location_id[i]);
		if (!reader->items[i])
			return report_invalid(reader,
					      "sample %" PRIu64 " has a location that is not there",
					      reader->samples);
	}
	stack = profile_stack(profile, reader->items, sample->n_location_id);
	err = get_labels(reader, sample, &count, &time, &has_time);
	if (err)
		return err;
	number = profile_add(profile, stack, profile_label_set(profile, reader->items, count),
			     sample->value);
	if (has_time && reader->options->keeps_moments)
		profile_add_moment(profile, number, time, sample->value);
	return 0;
}

/* Fields */

/* Adds what a message with one field has. */
static int add_field(struct pprof_reader *reader, uint32_t field, const Message *message)
{
	struct profile *profile = reader->profile;

	switch (field) {
	case FIELD_SAMPLE_TYPE:
		return add_sample_type(reader, message->sample_type[0]);
	case FIELD_SAMPLE:
		return pprof_add_sample(reader, message->sample[0]);
	case FIELD_MAPPING:
		return pprof_add_mapping(reader, message->mapping[0]);
	case FIELD_LOCATION:
		return pprof_add_location(reader, message->location[0]);
	case FIELD_FUNCTION:
		return pprof_add_function(reader, message->function[0]);
	case FIELD_DROP_FRAMES:
		return set_head_string(reader, message->drop_frames, &profile->drop_frames);
	case FIELD_KEEP_FRAMES:
		return set_head_string(reader, message->keep_frames, &profile->keep_frames);
	case FIELD_DEFAULT_TYPE:
		return set_head_string(reader, message->default_sample_type,
				       &profile->default_type);
	case FIELD_DOC_URL:
		return set_head_string(reader, message->doc_url, &profile->doc_url);
	case FIELD_PERIOD_TYPE:
		if (!get_type(reader, message->period_type, &profile->period_type))
			return report_invalid(reader, "its period type names no string");
		return 0;
	case FIELD_TIME:
		profile->time_ns = message->time_nanos;
		return 0;
	case FIELD_DURATION:
		profile->duration_ns = message->duration_nanos;
		return 0;
	case FIELD_PERIOD:
		profile->period = message->period;
		return 0;
	default:
		return pprof_add_comments(reader, message);
	}
}

/*
 * The bytes that unpacking an entry may still allocate. The size of the file is no limit for that:
 * an empty message takes two bytes in a file and a hundred in memory.
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

/* Unpacks a field of `size` bytes, with its tag. */
static int unpack_field(struct pprof_reader *reader, uint32_t field, const uint8_t *bytes,
			size_t size)
{
	struct budget budget = {PPROF_ENTRY_MEMORY_MAX};
	ProtobufCAllocator allocator = {budget_allocate, budget_free, &budget};
	Message *message = perftools__profiles__profile__unpack(&allocator, size, bytes);
	int err;

	if (!message)
		return report_no_message(reader);
	err = add_field(reader, field, message);
	perftools__profiles__profile__free_unpacked(message, &allocator);
	return err;
}

/* Division into fields */

enum { WIRE_VARINT, WIRE_64_BIT, WIRE_LENGTH, WIRE_32_BIT = 5 };

#define TAG_MAX 5 /* bytes of a tag or length */
#define VARINT_MAX 10

/* About the share of the time before each pass: the last one has the samples. */
static const double pass_starts[] = {0, 0.2, 0.4, 0.6, 1};

static void report_progress(const struct pprof_reader *reader)
{
	const double start = pass_starts[reader->pass];
	const double end = pass_starts[reader->pass + 1];

	if (reader->options->progress)
		reader->options->progress(reader->options->arg,
					  start + (end - start) *
							  (double)gzip_position(reader->gzip) /
							  (double)reader->size);
}

/* Makes `size` bytes available, or as many as there are up to the end. */
static int pprof_reader_fill(struct pprof_reader *reader, size_t size)
{
	ssize_t got = 1;

	if (reader->end - reader->start >= size)
		return 0;
	if (reader->start)
		memmove(reader->bytes, reader->bytes + reader->start, reader->end - reader->start);
	reader->end -= reader->start;
	reader->start = 0;
	while (reader->end < size && got > 0) {
		if (array_reserve(&reader->bytes, &reader->capacity, reader->end, EXPAND_CHUNK, 1))
			return report_no_memory(reader);
		got = gzip_read(reader->gzip, reader->bytes + reader->end, EXPAND_CHUNK,
				reader->error);
		if (got > 0)
			reader->end += (size_t)got;
	}
	report_progress(reader);
	return got < 0 ? (int)got : 0;
}

static int pprof_reader_skip(struct pprof_reader *reader, size_t size)
{
	while (size) {
		size_t available;
		int err = pprof_reader_fill(reader, 1);

		if (err)
			return err;
		available = reader->end - reader->start;
		if (!available)
			return report_no_message(reader);
		if (available > size)
			available = size;
		reader->start += available;
		size -= available;
	}
	return 0;
}

/*
 * Decodes a varint of at most `max` bytes, `offset` bytes behind those that are divided. Returns
 * its length, or 0 if there is none.
 */
static size_t decode_varint(const struct pprof_reader *reader, size_t offset, size_t max,
			    uint64_t *value)
{
	const uint8_t *bytes = reader->bytes + reader->start + offset;
	const size_t available = reader->end - reader->start - offset;

	*value = 0;
	for (size_t i = 0; i < max && i < available; i++) {
		*value |= (uint64_t)(bytes[i] & 0x7f) << 7 * i;
		if (!(bytes[i] & 0x80))
			return i + 1;
	}
	return 0;
}

/* Returns the size of the next field, with its tag, and sets its number; 0 if there is none. */
static size_t measure_field(const struct pprof_reader *reader, uint64_t *field)
{
	uint64_t tag, value = 0;
	size_t tag_size = decode_varint(reader, 0, TAG_MAX, &tag), length;

	*field = tag >> 3;
	if (!tag_size)
		return 0;
	switch (tag & 7) {
	case WIRE_VARINT:
		length = decode_varint(reader, tag_size, VARINT_MAX, &value);
		return length ? tag_size + length : 0;
	case WIRE_LENGTH:
		length = decode_varint(reader, tag_size, TAG_MAX, &value);
		return length ? tag_size + length + value : 0;
	case WIRE_64_BIT:
		return tag_size + sizeof(uint64_t);
	case WIRE_32_BIT:
		return tag_size + sizeof(uint32_t);
	default:
		return 0;
	}
}

/* Unpacks a string, which may have any bytes, of a field of `size` bytes. */
static int unpack_string(struct pprof_reader *reader, size_t size)
{
	uint64_t tag, length;
	size_t head = decode_varint(reader, 0, TAG_MAX, &tag);

	if ((tag & 7) != WIRE_LENGTH)
		return report_no_message(reader);
	head += decode_varint(reader, head, TAG_MAX, &length);
	return pprof_add_string(reader, reader->bytes + reader->start + head, size - head);
}

/* Reads a whole field of `size` bytes. */
static int read_field(struct pprof_reader *reader, uint32_t field, size_t size)
{
	int err = pprof_reader_fill(reader, size);

	if (err)
		return err;
	if (reader->end - reader->start < size)
		return report_no_message(reader);
	if (field == FIELD_STRING)
		err = unpack_string(reader, size);
	else
		err = unpack_field(reader, field, reader->bytes + reader->start, size);
	reader->start += size;
	if (!err && reader->profile->error)
		err = report_no_memory(reader);
	if (!err && reader_bytes(reader) > PPROF_MEMORY_MAX)
		err = report_no_message(reader);
	return err;
}

/* Adds the fields of a FIELD_SET(), and skips the others, in a pass that has a number from 0. */
static int read_fields(struct pprof_reader *reader, unsigned int pass, uint32_t wanted)
{
	reader->pass = pass;
	gzip_rewind(reader->gzip);
	reader->start = 0;
	reader->end = 0;
	for (;;) {
		int err = pprof_reader_fill(reader, TAG_MAX + VARINT_MAX);
		uint64_t field;
		size_t size;

		if (err || reader->start == reader->end)
			return err;
		size = measure_field(reader, &field);
		if (!size)
			return report_no_message(reader);
		if (field < FIELD_COUNT && (wanted & FIELD_SET(field)))
			err = read_field(reader, (uint32_t)field, size);
		else
			err = pprof_reader_skip(reader, size);
		if (err)
			return err;
	}
}

static int pprof_read_tables(struct pprof_reader *reader)
{
	const uint32_t last =
		FIELD_SET(FIELD_STRING) | FIELD_SET(FIELD_LOCATION) | FIELD_SET(FIELD_SAMPLE);
	int err = read_fields(reader, 0, FIELD_SET(FIELD_STRING));

	if (!err && !reader->string_count)
		err = report_invalid(reader, "it has no string table");
	if (!err)
		err = read_fields(reader, 1, ~last);
	if (!err && !reader->profile->types.count)
		err = report_invalid(reader, "it has no sample type");
	return err ?: finish_ids(reader, &reader->mappings) ?:
		      finish_ids(reader, &reader->functions) ?:
		      read_fields(reader, 2, FIELD_SET(FIELD_LOCATION)) ?:
		      finish_ids(reader, &reader->locations) ?:
		      read_fields(reader, 3, FIELD_SET(FIELD_SAMPLE));
}

/* Says what another file is. `err` is what its reading as a profile has ended with. */
static int report_foreign(struct pprof_reader *reader, int err)
{
	const char *what, *remedy;
	struct error *error = reader->error;
	struct error ignored;

	gzip_rewind(reader->gzip);
	reader->start = reader->end = 0;
	reader->error = &ignored;
	if (!pprof_reader_fill(reader, FOREIGN_HEAD_SIZE) &&
	    foreign_format(reader->bytes, reader->end, &what, &remedy))
		error_set(error, EBADMSG, "%s: not a pprof profile but %s: %s", reader->name, what,
			  remedy);
	reader->error = error;
	return err;
}

static struct profile *pprof_reader_decode(const void *data, size_t size, const char *name,
					   const struct pprof_read_options *options,
					   struct error *error)
{
	struct pprof_reader reader = {
		.name = name,
		.error = error,
		.options = options,
		.size = size,
		.mappings.what = "mapping",
		.functions.what = "function",
		.locations.what = "location",
	};
	int err;

	if (!size) {
		report_invalid(&reader, "it is empty");
		return NULL;
	}
	reader.profile = profile_new();
	reader.gzip = gzip_reader_new(data, size, PPROF_SIZE_MAX, name);
	err = reader.profile && reader.gzip ? pprof_read_tables(&reader)
					    : report_no_memory(&reader);
	if (err == -EBADMSG)
		err = report_foreign(&reader, err);
	gzip_reader_free(reader.gzip);
	free(reader.bytes);
	free(reader.text);
	free(reader.strings);
	free(reader.mappings.entries);
	free(reader.functions.entries);
	free(reader.locations.entries);
	free(reader.lines);
	free(reader.items);
	if (!err)
		return reader.profile;
	profile_free(reader.profile);
	return NULL;
}

struct profile *pprof_decode(const void *data, size_t size, const char *name, struct error *error)
{
	static const struct pprof_read_options options;

	return pprof_reader_decode(data, size, name, &options, error);
}

/* Reads `fd` to its end into *bytes, which the caller frees, also after an error. */
static int pprof_read_all(int fd, const char *path, unsigned char **bytes, size_t *size,
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

static bool is_pipe(int fd)
{
	struct stat status;

	return !fstat(fd, &status) && S_ISFIFO(status.st_mode);
}

/*
 * Reads a pipe. Ctrl-C is for the program that writes it: `record -o - | report -` shows what was
 * recorded until then.
 */
static int pprof_read_pipe(unsigned char **bytes, size_t *size, struct error *error)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	struct sigaction before;
	int err;

	sigaction(SIGINT, &ignored, &before);
	err = pprof_read_all(STDIN_FILENO, "-", bytes, size, error);
	/* Callers that block it have it pending: ignoring it again discards it. */
	sigaction(SIGINT, &ignored, NULL);
	sigaction(SIGINT, &before, NULL);
	return err;
}

struct profile *pprof_read_with(const char *path, const struct pprof_read_options *options,
				struct error *error)
{
	bool standard_input = !strcmp(path, "-");
	struct profile *profile = NULL;
	unsigned char *bytes = NULL;
	size_t size = 0;
	int fd, err;

	fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		error_errno(error, errno, "%s", path);
		return NULL;
	}
	err = standard_input && is_pipe(fd) ? pprof_read_pipe(&bytes, &size, error)
					    : pprof_read_all(fd, path, &bytes, &size, error);
	if (!err)
		profile = pprof_reader_decode(bytes, size, path, options, error);
	free(bytes);
	if (!standard_input)
		close(fd);
	return profile;
}

struct profile *pprof_read(const char *path, struct error *error)
{
	static const struct pprof_read_options options;

	return pprof_read_with(path, &options, error);
}
