// SPDX-License-Identifier: GPL-2.0
#include "pprof/pprof_writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/utf8.h"
#include "pprof/gzip.h"
#include "pprof/pprof_reader.h"

#define COMMENT_MAX 1024

/* Strings are indices into the string table in these. */
struct mapping {
	uint64_t start, limit, offset;
	uint32_t file, build_id, number;
};

struct function {
	uint32_t name, system_name, file;
	int64_t start_line;
};

struct location {
	uint64_t address;
	uint32_t mapping;
	uint32_t line_count;
	size_t first_line;
};

struct label {
	uint32_t key, text, unit;
	int64_t number;
};

struct sample {
	size_t first_location, first_label;
	uint32_t depth, label_count;
	int64_t samples, cpu_ns;
};

/* A growing array for array_reserve(). */
#define ARRAY(type)                                                                                \
	struct {                                                                                   \
		type *items;                                                                       \
		size_t count, capacity;                                                            \
	}

struct pprof_builder {
	int error; /* 0 or -ENOMEM, which is permanent */
	ARRAY(char *) strings;
	ARRAY(struct mapping) mappings;
	ARRAY(struct function) functions;
	ARRAY(struct pprof_line) lines;
	ARRAY(struct location) locations;
	ARRAY(struct label) labels;
	ARRAY(uint32_t) stacks; /* ids of locations of all samples */
	ARRAY(struct sample) samples;
	ARRAY(uint32_t) comments;
	struct hash string_table, mapping_table, function_table, location_table, sample_table;
	int64_t time_ns, duration_ns, period_ns;
};

/* Reserves room for `more` entries in an array of the builder. Returns whether there is room. */
#define RESERVE(builder, member, more)                                                             \
	reserve_entries(builder, &(builder)->member.items, &(builder)->member.capacity,            \
			(builder)->member.count, more, sizeof(*(builder)->member.items))

static bool reserve_entries(struct pprof_builder *builder, void *items, size_t *capacity,
			    size_t count, size_t more, size_t size)
{
	if (!builder->error && more >= HASH_NONE - count)
		builder->error = -ENOMEM;
	if (!builder->error)
		builder->error = array_reserve(items, capacity, count, more, size);
	return !builder->error;
}

/* Adds the newest entry of an array to its hash table. Returns its id. */
static uint32_t add_entry(struct pprof_builder *builder, struct hash *table, uint32_t hash,
			  size_t *count)
{
	builder->error = hash_add(table, hash, *count);
	if (builder->error)
		return 0;
	return ++*count;
}

char *pprof_copy_string(const char *text)
{
	const size_t replacement = strlen(UTF8_REPLACEMENT);
	char *copy, *next;
	size_t length;

	if (utf8_valid(text))
		return strdup(text);
	copy = malloc(strlen(text) * replacement + 1);
	if (!copy)
		return NULL;
	for (next = copy; *text; text += length ? length : 1) {
		length = utf8_decode(text, NULL);
		if (length)
			next = mempcpy(next, text, length);
		else
			next = mempcpy(next, UTF8_REPLACEMENT, replacement);
	}
	*next = '\0';
	return copy;
}

static bool string_equal(const void *context, uint32_t index, const void *key)
{
	const struct pprof_builder *builder = context;

	return !strcmp(builder->strings.items[index], key);
}

/* Returns the index of `text`, which is UTF-8. *owned: the string is new, and the table owns it. */
static uint32_t intern_string(struct pprof_builder *builder, char *text, bool *owned)
{
	uint32_t hash = hash_string(HASH_START, text);
	uint32_t index = hash_find(&builder->string_table, hash, string_equal, builder, text);

	*owned = false;
	if (index != HASH_NONE || !RESERVE(builder, strings, 1))
		return index;
	index = builder->strings.count;
	builder->strings.items[index] = text;
	if (!add_entry(builder, &builder->string_table, hash, &builder->strings.count))
		return 0;
	*owned = true;
	return index;
}

uint32_t pprof_string(struct pprof_builder *builder, const char *text)
{
	uint32_t index;
	char *copy;
	bool owned;

	if (!text || !*text || builder->error)
		return 0;
	copy = pprof_copy_string(text);
	if (!copy) {
		builder->error = -ENOMEM;
		return 0;
	}
	index = intern_string(builder, copy, &owned);
	if (!owned)
		free(copy);
	return builder->error ? 0 : index;
}

struct pprof_builder *pprof_new(void)
{
	struct pprof_builder *builder = calloc(1, sizeof(*builder));
	char *empty = strdup("");
	bool owned = false;

	if (builder && empty)
		intern_string(builder, empty, &owned);
	if (!owned) {
		free(empty);
		pprof_free(builder);
		return NULL;
	}
	return builder;
}

void pprof_free(struct pprof_builder *builder)
{
	size_t i;

	if (!builder)
		return;
	for (i = 0; i < builder->strings.count; i++)
		free(builder->strings.items[i]);
	free(builder->strings.items);
	free(builder->mappings.items);
	free(builder->functions.items);
	free(builder->lines.items);
	free(builder->locations.items);
	free(builder->labels.items);
	free(builder->stacks.items);
	free(builder->samples.items);
	free(builder->comments.items);
	hash_clear(&builder->string_table);
	hash_clear(&builder->mapping_table);
	hash_clear(&builder->function_table);
	hash_clear(&builder->location_table);
	hash_clear(&builder->sample_table);
	free(builder);
}

static bool mapping_equal(const void *context, uint32_t index, const void *key)
{
	const struct mapping *a = &((const struct pprof_builder *)context)->mappings.items[index];
	const struct mapping *b = key;

	return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
	       a->file == b->file && a->build_id == b->build_id && a->number == b->number;
}

uint32_t pprof_mapping(struct pprof_builder *builder, const struct pprof_mapping *mapping)
{
	struct mapping new = {
		.start = mapping->start,
		.limit = mapping->limit,
		.offset = mapping->offset,
		.file = pprof_string(builder, mapping->file),
		.build_id = pprof_string(builder, mapping->build_id),
		.number = mapping->number,
	};
	uint32_t hash, index;

	hash = hash_number(HASH_START, new.start);
	hash = hash_number(hash, new.limit);
	hash = hash_number(hash, new.offset);
	hash = hash_number(hash, (uint64_t) new.file << 32 | new.build_id);
	hash = hash_number(hash, new.number);
	index = hash_find(&builder->mapping_table, hash, mapping_equal, builder, &new);
	if (index != HASH_NONE)
		return index + 1;
	if (!RESERVE(builder, mappings, 1))
		return 0;
	builder->mappings.items[builder->mappings.count] = new;
	return add_entry(builder, &builder->mapping_table, hash, &builder->mappings.count);
}

static bool function_equal(const void *context, uint32_t index, const void *key)
{
	const struct function *a = &((const struct pprof_builder *)context)->functions.items[index];
	const struct function *b = key;

	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line;
}

uint32_t pprof_function(struct pprof_builder *builder, const char *name, const char *system_name,
			const char *file, int64_t start_line)
{
	struct function new = {
		.name = pprof_string(builder, name),
		.system_name = pprof_string(builder, system_name),
		.file = pprof_string(builder, file),
		.start_line = start_line,
	};
	uint32_t hash, index;

	hash = hash_number(HASH_START, (uint64_t) new.name << 32 | new.system_name);
	hash = hash_number(hash_number(hash, new.file), (uint64_t)start_line);
	index = hash_find(&builder->function_table, hash, function_equal, builder, &new);
	if (index != HASH_NONE)
		return index + 1;
	if (!RESERVE(builder, functions, 1))
		return 0;
	builder->functions.items[builder->functions.count] = new;
	return add_entry(builder, &builder->function_table, hash, &builder->functions.count);
}

/* A location with lines that are not in the builder yet. */
struct new_location {
	struct location location;
	const struct pprof_line *lines;
};

static bool location_equal(const void *context, uint32_t index, const void *key)
{
	const struct pprof_builder *builder = context;
	const struct location *a = &builder->locations.items[index];
	const struct new_location *new = key;
	const struct location *b = &new->location;

	if (a->address != b->address || a->mapping != b->mapping || a->line_count != b->line_count)
		return false;
	for (uint32_t i = 0; i < a->line_count; i++) {
		const struct pprof_line *line = &builder->lines.items[a->first_line + i];

		if (line->function != new->lines[i].function || line->line != new->lines[i].line)
			return false;
	}
	return true;
}

static uint32_t hash_location(const struct new_location *new)
{
	uint32_t hash = hash_number(HASH_START, new->location.address);

	hash = hash_number(hash, new->location.mapping);
	for (uint32_t i = 0; i < new->location.line_count; i++) {
		hash = hash_number(hash, new->lines[i].function);
		hash = hash_number(hash, (uint64_t) new->lines[i].line);
	}
	return hash;
}

uint32_t pprof_location(struct pprof_builder *builder, uint32_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count)
{
	const struct new_location new = {
		.location =
			{
				.address = address,
				.mapping = mapping,
				.first_line = builder->lines.count,
				.line_count = count,
			},
		.lines = lines,
	};
	uint32_t hash = hash_location(&new);
	uint32_t index = hash_find(&builder->location_table, hash, location_equal, builder, &new);

	if (index != HASH_NONE)
		return index + 1;
	if (!RESERVE(builder, lines, count) || !RESERVE(builder, locations, 1))
		return 0;
	if (count)
		memcpy(&builder->lines.items[builder->lines.count], lines, count * sizeof(*lines));
	builder->lines.count += count;
	builder->locations.items[builder->locations.count] = new.location;
	return add_entry(builder, &builder->location_table, hash, &builder->locations.count);
}

static struct label intern_label(struct pprof_builder *builder, const struct pprof_label *label)
{
	return (struct label){
		.key = pprof_string(builder, label->key),
		.text = pprof_string(builder, label->text),
		.unit = label->text ? 0 : pprof_string(builder, label->unit),
		.number = label->text ? 0 : label->number,
	};
}

static uint32_t hash_sample(const struct pprof_builder *builder, const struct sample *sample)
{
	const uint32_t *stack = &builder->stacks.items[sample->first_location];
	uint32_t hash =
		hash_number(HASH_START, (uint64_t)sample->depth << 32 | sample->label_count);

	if (sample->depth)
		hash = hash_bytes(hash, stack, sample->depth * sizeof(*stack));
	for (uint32_t i = 0; i < sample->label_count; i++) {
		const struct label *label = &builder->labels.items[sample->first_label + i];

		hash = hash_number(hash, (uint64_t)label->key << 32 | label->text);
		hash = hash_number(hash, label->number);
	}
	return hash;
}

static bool labels_equal(const struct label *a, const struct label *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (a[i].key != b[i].key || a[i].text != b[i].text || a[i].unit != b[i].unit ||
		    a[i].number != b[i].number)
			return false;
	}
	return true;
}

static bool sample_equal(const void *context, uint32_t index, const void *key)
{
	const struct pprof_builder *builder = context;
	const struct sample *a = &builder->samples.items[index];
	const struct sample *b = key;

	if (a->depth != b->depth || a->label_count != b->label_count)
		return false;
	if (a->depth &&
	    memcmp(&builder->stacks.items[a->first_location],
		   &builder->stacks.items[b->first_location], a->depth * sizeof(uint32_t)))
		return false;
	return !a->label_count ||
	       labels_equal(&builder->labels.items[a->first_label],
			    &builder->labels.items[b->first_label], a->label_count);
}

/* Adds the values of `more` to a sample. Returns false, with no change, if a sum overflows. */
static bool add_values(struct sample *sample, const struct sample *more)
{
	int64_t samples, cpu_ns;

	if (__builtin_add_overflow(sample->samples, more->samples, &samples) ||
	    __builtin_add_overflow(sample->cpu_ns, more->cpu_ns, &cpu_ns))
		return false;
	sample->samples = samples;
	sample->cpu_ns = cpu_ns;
	return true;
}

void pprof_sample(struct pprof_builder *builder, const uint32_t *locations, size_t depth,
		  int64_t samples, int64_t cpu_ns, const struct pprof_label *labels, size_t count)
{
	struct sample new = {
		.first_location = builder->stacks.count,
		.first_label = builder->labels.count,
		.depth = depth,
		.label_count = count,
		.samples = samples,
		.cpu_ns = cpu_ns,
	};
	uint32_t hash, index;
	size_t i;

	if (!RESERVE(builder, stacks, depth) || !RESERVE(builder, labels, count) ||
	    !RESERVE(builder, samples, 1))
		return;
	if (depth)
		memcpy(&builder->stacks.items[new.first_location], locations,
		       depth * sizeof(*locations));
	for (i = 0; i < count; i++)
		builder->labels.items[new.first_label + i] = intern_label(builder, &labels[i]);
	hash = hash_sample(builder, &new);
	index = hash_find(&builder->sample_table, hash, sample_equal, builder, &new);
	if (builder->error ||
	    (index != HASH_NONE && add_values(&builder->samples.items[index], &new)))
		return;
	builder->stacks.count += depth;
	builder->labels.count += count;
	builder->samples.items[builder->samples.count] = new;
	add_entry(builder, &builder->sample_table, hash, &builder->samples.count);
}

void pprof_comment(struct pprof_builder *builder, const char *format, ...)
{
	char text[COMMENT_MAX];
	va_list args;
	uint32_t index;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	index = pprof_string(builder, text);
	if (RESERVE(builder, comments, 1))
		builder->comments.items[builder->comments.count++] = index;
}

void pprof_set_time(struct pprof_builder *builder, int64_t time_ns, int64_t duration_ns,
		    int64_t period_ns)
{
	builder->time_ns = time_ns;
	builder->duration_ns = duration_ns;
	builder->period_ns = period_ns;
}

/* The details that all locations of a mapping have, and whether one of them has several lines. */
struct detail {
	bool used, functions, files, lines, inlined;
};

static void add_detail(const struct pprof_builder *builder, const struct location *location,
		       struct detail *detail)
{
	const struct pprof_line *line;
	size_t i;

	if (!detail->used)
		*detail = (struct detail){true, true, true, true, false};
	if (!location->line_count)
		detail->functions = false;
	for (i = 0; i < location->line_count; i++) {
		line = &builder->lines.items[location->first_line + i];
		detail->files &= builder->functions.items[line->function - 1].file != 0;
		detail->lines &= line->line != 0;
	}
	detail->inlined |= location->line_count > 1;
}

/* Returns the details of the mappings by id, which the caller frees, or NULL without memory. */
static struct detail *mapping_details(const struct pprof_builder *builder)
{
	struct detail *details = calloc(builder->mappings.count + 1, sizeof(*details));
	const struct location *location;
	size_t i;

	for (i = 0; details && i < builder->locations.count; i++) {
		location = &builder->locations.items[i];
		add_detail(builder, location, &details[location->mapping]);
	}
	return details;
}

/*
 * A protobuf message may be written in parts: readers concatenate repeated fields. Only one entry
 * of a table exists as a message at a time, and the arrays here have room for the largest one.
 */
struct encoder {
	ProtobufCBuffer buffer; /* first: protobuf-c passes its address to append_to_gzip() */
	const struct pprof_builder *builder;
	struct gzip_writer *gzip;
	struct detail *details; /* of the mappings, by id */
	uint64_t *location_ids;
	Perftools__Profiles__Line *lines, **line_table;
	Perftools__Profiles__Label *labels, **label_table;
};

static void append_to_gzip(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
	gzip_write(((struct encoder *)buffer)->gzip, data, size);
}

static void write_part(struct encoder *encoder, const Perftools__Profiles__Profile *part)
{
	protobuf_c_message_pack_to_buffer(&part->base, &encoder->buffer);
}

/* The strings that every profile has. */
struct head {
	uint32_t samples, count, cpu, nanoseconds;
};

static void write_head(struct encoder *encoder, const struct head *head)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType samples = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	Perftools__Profiles__ValueType cpu = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	Perftools__Profiles__ValueType *types[] = {&samples, &cpu};

	samples.type = head->samples;
	samples.unit = head->count;
	cpu.type = head->cpu;
	cpu.unit = head->nanoseconds;
	part.sample_type = types;
	part.n_sample_type = 2;
	part.default_sample_type = cpu.type;
	part.period_type = &cpu;
	part.period = encoder->builder->period_ns;
	part.time_nanos = encoder->builder->time_ns;
	part.duration_nanos = encoder->builder->duration_ns;
	write_part(encoder, &part);
}

static void write_comments(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	int64_t comment;
	size_t i;

	part.comment = &comment;
	part.n_comment = 1;
	for (i = 0; i < encoder->builder->comments.count; i++) {
		comment = encoder->builder->comments.items[i];
		write_part(encoder, &part);
	}
}

static void write_samples(struct encoder *encoder)
{
	const struct pprof_builder *builder = encoder->builder;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT;
	Perftools__Profiles__Sample *samples[] = {&sample};
	const struct sample *from;
	const struct label *label;
	int64_t values[2];
	size_t number;
	uint32_t i;

	part.sample = samples;
	part.n_sample = 1;
	sample.location_id = encoder->location_ids;
	sample.value = values;
	sample.n_value = 2;
	sample.label = encoder->label_table;
	for (number = 0; number < builder->samples.count; number++) {
		from = &builder->samples.items[number];
		values[0] = from->samples;
		values[1] = from->cpu_ns;
		sample.n_location_id = from->depth;
		for (i = 0; i < from->depth; i++)
			encoder->location_ids[i] = builder->stacks.items[from->first_location + i];
		sample.n_label = from->label_count;
		for (i = 0; i < from->label_count; i++) {
			label = &builder->labels.items[from->first_label + i];
			encoder->labels[i].key = label->key;
			encoder->labels[i].str = label->text;
			encoder->labels[i].num = label->number;
			encoder->labels[i].num_unit = label->unit;
		}
		write_part(encoder, &part);
	}
}

static void write_mappings(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT;
	Perftools__Profiles__Mapping *mappings[] = {&mapping};
	const struct mapping *from;
	const struct detail *detail;
	size_t i;

	part.mapping = mappings;
	part.n_mapping = 1;
	for (i = 0; i < encoder->builder->mappings.count; i++) {
		from = &encoder->builder->mappings.items[i];
		detail = &encoder->details[i + 1];
		mapping.id = i + 1;
		mapping.memory_start = from->start;
		mapping.memory_limit = from->limit;
		mapping.file_offset = from->offset;
		mapping.filename = from->file;
		mapping.build_id = from->build_id;
		mapping.has_functions = detail->functions;
		mapping.has_filenames = detail->functions && detail->files;
		mapping.has_line_numbers = detail->functions && detail->lines;
		mapping.has_inline_frames = detail->functions && detail->inlined;
		write_part(encoder, &part);
	}
}

static void write_locations(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Location location = PERFTOOLS__PROFILES__LOCATION__INIT;
	Perftools__Profiles__Location *locations[] = {&location};
	const struct location *from;
	const struct pprof_line *line;
	uint32_t i, j;

	part.location = locations;
	part.n_location = 1;
	location.line = encoder->line_table;
	for (i = 0; i < encoder->builder->locations.count; i++) {
		from = &encoder->builder->locations.items[i];
		location.id = i + 1;
		location.mapping_id = from->mapping;
		location.address = from->address;
		location.n_line = from->line_count;
		for (j = 0; j < from->line_count; j++) {
			line = &encoder->builder->lines.items[from->first_line + j];
			encoder->lines[j].function_id = line->function;
			encoder->lines[j].line = line->line;
		}
		write_part(encoder, &part);
	}
}

static void write_functions(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Function function = PERFTOOLS__PROFILES__FUNCTION__INIT;
	Perftools__Profiles__Function *functions[] = {&function};
	const struct function *from;
	size_t i;

	part.function = functions;
	part.n_function = 1;
	for (i = 0; i < encoder->builder->functions.count; i++) {
		from = &encoder->builder->functions.items[i];
		function.id = i + 1;
		function.name = from->name;
		function.system_name = from->system_name;
		function.filename = from->file;
		function.start_line = from->start_line;
		write_part(encoder, &part);
	}
}

static void write_strings(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	size_t i;

	part.n_string_table = 1;
	for (i = 0; i < encoder->builder->strings.count; i++) {
		part.string_table = &encoder->builder->strings.items[i];
		write_part(encoder, &part);
	}
}

static void init_messages(struct encoder *encoder, size_t lines, size_t labels)
{
	const Perftools__Profiles__Line line = PERFTOOLS__PROFILES__LINE__INIT;
	const Perftools__Profiles__Label label = PERFTOOLS__PROFILES__LABEL__INIT;
	size_t i;

	for (i = 0; i < lines; i++) {
		encoder->lines[i] = line;
		encoder->line_table[i] = &encoder->lines[i];
	}
	for (i = 0; i < labels; i++) {
		encoder->labels[i] = label;
		encoder->label_table[i] = &encoder->labels[i];
	}
}

static int encoder_allocate(struct encoder *encoder, struct atomic_file *file, struct error *error)
{
	const struct pprof_builder *builder = encoder->builder;
	size_t lines = 1, labels = 1, depth = 1, i;

	for (i = 0; i < builder->locations.count; i++)
		lines = MAX(lines, builder->locations.items[i].line_count);
	for (i = 0; i < builder->samples.count; i++) {
		labels = MAX(labels, builder->samples.items[i].label_count);
		depth = MAX(depth, builder->samples.items[i].depth);
	}
	encoder->gzip = gzip_writer_new(file, error);
	encoder->details = mapping_details(builder);
	encoder->location_ids = calloc(depth, sizeof(*encoder->location_ids));
	encoder->lines = calloc(lines, sizeof(*encoder->lines));
	encoder->line_table = calloc(lines, sizeof(*encoder->line_table));
	encoder->labels = calloc(labels, sizeof(*encoder->labels));
	encoder->label_table = calloc(labels, sizeof(*encoder->label_table));
	if (!encoder->gzip || !encoder->details || !encoder->location_ids || !encoder->lines ||
	    !encoder->line_table || !encoder->labels || !encoder->label_table)
		return -ENOMEM;
	init_messages(encoder, lines, labels);
	return 0;
}

static void encoder_free(struct encoder *encoder)
{
	gzip_writer_free(encoder->gzip);
	free(encoder->details);
	free(encoder->location_ids);
	free(encoder->lines);
	free(encoder->line_table);
	free(encoder->labels);
	free(encoder->label_table);
}

/* The argument of encode_builder(). */
struct contents {
	const struct pprof_builder *builder;
	struct head head;
};

static int encode_builder(const void *arg, struct atomic_file *file, struct error *error)
{
	const struct contents *contents = arg;
	struct encoder encoder = {.buffer = {append_to_gzip}, .builder = contents->builder};
	int err = encoder_allocate(&encoder, file, error);

	if (err) {
		error_errno(error, -err, "%s", file->path);
	} else {
		write_head(&encoder, &contents->head);
		write_comments(&encoder);
		write_samples(&encoder);
		write_mappings(&encoder);
		write_locations(&encoder);
		write_functions(&encoder);
		write_strings(&encoder);
		err = gzip_writer_finish(encoder.gzip);
	}
	encoder_free(&encoder);
	return err;
}

static int encode_message(const void *arg, struct atomic_file *file, struct error *error)
{
	const struct pprof_profile *profile = arg;
	struct encoder encoder = {.buffer = {append_to_gzip}};
	int err;

	encoder.gzip = gzip_writer_new(file, error);
	if (!encoder.gzip)
		return error_errno(error, ENOMEM, "%s", file->path);
	write_part(&encoder, profile->message);
	err = gzip_writer_finish(encoder.gzip);
	gzip_writer_free(encoder.gzip);
	return err;
}

/* Writes a file with `write`, which gets `arg`. */
static int write_file(int (*write)(const void *arg, struct atomic_file *file, struct error *error),
		      const void *arg, const char *path, uint64_t *size, struct error *error)
{
	struct atomic_file file;
	int err = atomic_file_create(&file, path, error);

	if (err)
		return err;
	err = write(arg, &file, error);
	if (err) {
		atomic_file_discard(&file);
		return err;
	}
	err = atomic_file_commit(&file, error);
	if (!err && size)
		*size = file.size;
	return err;
}

int pprof_write(struct pprof_builder *builder, const char *path, uint64_t *size,
		struct error *error)
{
	const struct contents contents = {
		.builder = builder,
		.head =
			{
				.samples = pprof_string(builder, "samples"),
				.count = pprof_string(builder, "count"),
				.cpu = pprof_string(builder, "cpu"),
				.nanoseconds = pprof_string(builder, "nanoseconds"),
			},
	};

	if (builder->error)
		return error_errno(error, -builder->error, "%s: the profile is not written", path);
	return write_file(encode_builder, &contents, path, size, error);
}

int pprof_write_profile(const struct pprof_profile *profile, const char *path, uint64_t *size,
			struct error *error)
{
	return write_file(encode_message, profile, path, size, error);
}
