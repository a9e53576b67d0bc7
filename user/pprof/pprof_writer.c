// SPDX-License-Identifier: GPL-2.0
#include "pprof/pprof_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/param.h>

#include "lib/atomic_file.h"
#include "lib/error.h"
#include "pprof/gzip.h"
#include "pprof/profile.h"
#include "profile.pb-c.h"

/* The details that all shown locations of a mapping have, and whether one has several lines. */
struct detail {
	bool used, functions, files, lines, inlined;
};

static void add_detail(const struct profile *profile, const struct profile_location *location,
		       struct detail *detail)
{
	const struct profile_line *lines = profile_lines(profile, location);

	if (!detail->used)
		*detail = (struct detail){true, true, true, true, false};
	if (!location->line_count)
		detail->functions = false;
	for (uint32_t i = 0; i < location->line_count; i++) {
		detail->files &= profile->functions.items[lines[i].function].file != 0;
		detail->lines &= lines[i].line != 0;
	}
	detail->inlined |= location->line_count > 1;
}

/* Returns the details of the mappings, which the caller frees, or NULL without memory. */
static struct detail *mapping_details(const struct profile *profile)
{
	struct detail *details = calloc(profile->mappings.count, sizeof(*details));

	for (size_t i = 1; details && i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		if (!location->elided)
			add_detail(profile, location, &details[location->mapping]);
	}
	return details;
}

/*
 * A protobuf message may be written in parts: readers concatenate repeated fields. Only one entry
 * of a table exists as a message at a time, and the arrays here have room for the largest one.
 */
struct encoder {
	ProtobufCBuffer buffer; /* first: protobuf-c passes its address to append_to_gzip() */
	const struct profile *profile;
	struct gzip_writer *gzip;
	struct detail *details; /* of the mappings */
	uint64_t *location_ids;
	int64_t *values, *moment_values;
	Perftools__Profiles__ValueType *types, **type_table;
	Perftools__Profiles__Line *lines, **line_table;
	Perftools__Profiles__Label *labels, **label_table; /* 0: of the moment; then of the set */
	uint32_t *first_moments, *moments; /* see sort_moments() */
};

static void append_to_gzip(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
	gzip_write(((struct encoder *)buffer)->gzip, data, size);
}

static void encoder_write_part(struct encoder *encoder, const Perftools__Profiles__Profile *part)
{
	protobuf_c_message_pack_to_buffer(&part->base, &encoder->buffer);
}

static void write_head(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType period_type = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;

	for (size_t i = 0; i < profile->types.count; i++) {
		encoder->types[i].type = profile->types.items[i].type;
		encoder->types[i].unit = profile->types.items[i].unit;
	}
	part.sample_type = encoder->type_table;
	part.n_sample_type = profile->types.count;
	part.default_sample_type = profile->default_type;
	period_type.type = profile->period_type.type;
	period_type.unit = profile->period_type.unit;
	if (period_type.type || period_type.unit)
		part.period_type = &period_type;
	part.period = profile->period;
	part.time_nanos = profile->time_ns;
	part.duration_nanos = profile->duration_ns;
	part.drop_frames = profile->drop_frames;
	part.keep_frames = profile->keep_frames;
	part.doc_url = profile->doc_url;
	encoder_write_part(encoder, &part);
}

static void write_comments(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	int64_t comment;

	part.comment = &comment;
	part.n_comment = 1;
	for (size_t i = 0; i < encoder->profile->comments.count; i++) {
		comment = encoder->profile->comments.items[i];
		encoder_write_part(encoder, &part);
	}
}

static size_t set_locations(struct encoder *encoder, uint32_t stack)
{
	const uint32_t *locations = profile_stack_locations(encoder->profile, stack);
	size_t depth = encoder->profile->stacks.items[stack].count;

	for (size_t i = 0; i < depth; i++)
		encoder->location_ids[i] = locations[i];
	return depth;
}

static size_t set_labels(struct encoder *encoder, uint32_t label_set)
{
	const struct profile *profile = encoder->profile;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	size_t count = profile->label_sets.items[label_set].count;

	for (size_t i = 0; i < count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		encoder->labels[i + 1].key = label->key;
		encoder->labels[i + 1].str = label->text;
		encoder->labels[i + 1].num = label->number;
		encoder->labels[i + 1].num_unit = label->unit;
	}
	return count;
}

/*
 * Sorts the moments by their samples: sample i has encoder->moments from index first_moments[i] up
 * to first_moments[i + 1]. Returns 0 or -ENOMEM.
 */
static int sort_moments(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	const size_t samples = profile->samples.count;
	uint32_t *next;

	if (!profile->moments.count)
		return 0;
	encoder->first_moments = calloc(samples + 2, sizeof(uint32_t));
	encoder->moments = calloc(profile->moments.count, sizeof(uint32_t));
	if (!encoder->first_moments || !encoder->moments)
		return -ENOMEM;
	/* Where the moments of a sample begin is where those that were put there have ended. */
	next = encoder->first_moments + 1;
	for (size_t i = 0; i < profile->moments.count; i++)
		next[profile->moments.items[i].sample + 1]++;
	for (size_t i = 1; i <= samples; i++)
		next[i] += next[i - 1];
	for (uint32_t i = 0; i < profile->moments.count; i++)
		encoder->moments[next[profile->moments.items[i].sample]++] = i;
	return 0;
}

/*
 * Writes a sample for each moment of a sample. Subtracts them from encoder->values, and returns
 * whether anything is left. The label with the time comes first, behind the values: so what differs
 * between these samples is in one place, and the rest is a repetition for gzip.
 */
static bool write_moments(struct encoder *encoder, Perftools__Profiles__Profile *part,
			  Perftools__Profiles__Sample *sample, size_t number)
{
	const struct profile *profile = encoder->profile;
	const uint32_t first = encoder->first_moments[number];
	const uint32_t end = encoder->first_moments[number + 1];
	bool is_left = first == end;

	if (is_left)
		return true;
	sample->value = encoder->moment_values;
	sample->label = encoder->label_table;
	sample->n_label++;
	for (uint32_t i = first; i < end; i++) {
		const uint32_t moment = encoder->moments[i];

		for (size_t j = 0; j < profile->types.count; j++) {
			encoder->moment_values[j] = profile_moment_values(profile, moment)[j];
			/* Wraps around on the way, perhaps, but not in the end. */
			encoder->values[j] = (int64_t)((uint64_t)encoder->values[j] -
						       (uint64_t)encoder->moment_values[j]);
		}
		encoder->labels[0].num = profile->moments.items[moment].time_ns;
		encoder_write_part(encoder, part);
	}
	sample->n_label--;
	for (size_t j = 0; j < profile->types.count; j++)
		is_left |= encoder->values[j] != 0;
	return is_left;
}

static void encoder_write_samples(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT;
	Perftools__Profiles__Sample *samples[] = {&sample};

	part.sample = samples;
	part.n_sample = 1;
	sample.location_id = encoder->location_ids;
	sample.n_value = profile->types.count;
	encoder->labels[0].key = profile->moment_key;
	encoder->labels[0].num_unit = profile->moment_unit;
	for (size_t number = 0; number < profile->samples.count; number++) {
		const struct profile_sample *from = &profile->samples.items[number];

		for (size_t i = 0; i < profile->types.count; i++)
			encoder->values[i] = profile_values(profile, number)[i];
		sample.n_location_id = set_locations(encoder, from->stack);
		sample.n_label = set_labels(encoder, from->label_set);
		if (encoder->moments && !write_moments(encoder, &part, &sample, number))
			continue;
		sample.value = encoder->values;
		sample.label = encoder->label_table + 1;
		encoder_write_part(encoder, &part);
	}
}

static void encoder_write_mappings(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT;
	Perftools__Profiles__Mapping *mappings[] = {&mapping};

	part.mapping = mappings;
	part.n_mapping = 1;
	for (size_t i = 1; i < encoder->profile->mappings.count; i++) {
		const struct profile_mapping *from = &encoder->profile->mappings.items[i];
		const struct detail *detail = &encoder->details[i];

		mapping.id = i;
		mapping.memory_start = from->start;
		mapping.memory_limit = from->limit;
		mapping.file_offset = from->offset;
		mapping.filename = from->file;
		mapping.build_id = from->build_id;
		mapping.has_functions = detail->functions;
		mapping.has_filenames = detail->functions && detail->files;
		mapping.has_line_numbers = detail->functions && detail->lines;
		mapping.has_inline_frames = detail->functions && detail->inlined;
		encoder_write_part(encoder, &part);
	}
}

static void encoder_write_locations(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Location location = PERFTOOLS__PROFILES__LOCATION__INIT;
	Perftools__Profiles__Location *locations[] = {&location};

	part.location = locations;
	part.n_location = 1;
	location.line = encoder->line_table;
	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *from = &profile->locations.items[i];
		const struct profile_line *lines = profile_lines(profile, from);

		location.id = i;
		location.mapping_id = from->mapping;
		location.address = from->address;
		location.is_folded = from->is_folded;
		location.n_line = from->line_count;
		for (uint32_t j = 0; j < from->line_count; j++) {
			encoder->lines[j].function_id = lines[j].function;
			encoder->lines[j].line = lines[j].line;
			encoder->lines[j].column = lines[j].column;
		}
		encoder_write_part(encoder, &part);
	}
}

static void encoder_write_functions(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Function function = PERFTOOLS__PROFILES__FUNCTION__INIT;
	Perftools__Profiles__Function *functions[] = {&function};

	part.function = functions;
	part.n_function = 1;
	for (size_t i = 1; i < encoder->profile->functions.count; i++) {
		const struct profile_function *from = &encoder->profile->functions.items[i];

		function.id = i;
		function.name = from->name;
		function.system_name = from->system_name;
		function.filename = from->file;
		function.start_line = from->start_line;
		encoder_write_part(encoder, &part);
	}
}

static void write_strings(struct encoder *encoder)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;

	part.n_string_table = 1;
	for (size_t i = 0; i < encoder->profile->strings.count; i++) {
		part.string_table = &encoder->profile->strings.items[i];
		encoder_write_part(encoder, &part);
	}
}

static void init_messages(struct encoder *encoder, size_t lines, size_t labels)
{
	const Perftools__Profiles__ValueType type = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	const Perftools__Profiles__Line line = PERFTOOLS__PROFILES__LINE__INIT;
	const Perftools__Profiles__Label label = PERFTOOLS__PROFILES__LABEL__INIT;

	for (size_t i = 0; i < encoder->profile->types.count; i++) {
		encoder->types[i] = type;
		encoder->type_table[i] = &encoder->types[i];
	}
	for (size_t i = 0; i < lines; i++) {
		encoder->lines[i] = line;
		encoder->line_table[i] = &encoder->lines[i];
	}
	for (size_t i = 0; i < labels; i++) {
		encoder->labels[i] = label;
		encoder->label_table[i] = &encoder->labels[i];
	}
}

static int encoder_allocate(struct encoder *encoder, struct atomic_file *file,
			    enum gzip_effort effort, struct error *error)
{
	const struct profile *profile = encoder->profile;
	size_t types = profile->types.count + 1, items = profile_longest_sequence(profile) + 1;
	size_t lines = 1;

	for (size_t i = 0; i < profile->locations.count; i++)
		lines = MAX(lines, profile->locations.items[i].line_count);
	encoder->gzip = gzip_writer_new(file, effort, error);
	encoder->details = mapping_details(profile);
	encoder->location_ids = calloc(items, sizeof(*encoder->location_ids));
	encoder->values = calloc(types, sizeof(*encoder->values));
	encoder->moment_values = calloc(types, sizeof(*encoder->moment_values));
	encoder->types = calloc(types, sizeof(*encoder->types));
	encoder->type_table = calloc(types, sizeof(*encoder->type_table));
	encoder->lines = calloc(lines, sizeof(*encoder->lines));
	encoder->line_table = calloc(lines, sizeof(*encoder->line_table));
	encoder->labels = calloc(items, sizeof(*encoder->labels));
	encoder->label_table = calloc(items, sizeof(*encoder->label_table));
	if (!encoder->gzip || !encoder->details || !encoder->location_ids || !encoder->values ||
	    !encoder->moment_values || !encoder->types || !encoder->type_table || !encoder->lines ||
	    !encoder->line_table || !encoder->labels || !encoder->label_table)
		return -ENOMEM;
	init_messages(encoder, lines, items);
	return sort_moments(encoder);
}

static void encoder_free(struct encoder *encoder)
{
	gzip_writer_free(encoder->gzip);
	free(encoder->details);
	free(encoder->location_ids);
	free(encoder->values);
	free(encoder->moment_values);
	free(encoder->types);
	free(encoder->type_table);
	free(encoder->lines);
	free(encoder->line_table);
	free(encoder->labels);
	free(encoder->label_table);
	free(encoder->first_moments);
	free(encoder->moments);
}

static int encode_profile(const struct profile *profile, struct atomic_file *file,
			  enum gzip_effort effort, struct error *error)
{
	struct encoder encoder = {.buffer = {append_to_gzip}, .profile = profile};
	int err = encoder_allocate(&encoder, file, effort, error);

	if (err) {
		error_errno(error, -err, "%s", file->path);
	} else {
		write_head(&encoder);
		write_comments(&encoder);
		encoder_write_samples(&encoder);
		encoder_write_mappings(&encoder);
		encoder_write_locations(&encoder);
		encoder_write_functions(&encoder);
		write_strings(&encoder);
		err = gzip_writer_finish(encoder.gzip);
	}
	encoder_free(&encoder);
	return err;
}

static int pprof_write_file(const struct profile *profile, const char *path,
			    enum gzip_effort effort, uint64_t *size, struct error *error)
{
	struct atomic_file file;
	int err;

	if (profile->error)
		return error_errno(error, -profile->error, "%s: the profile is not written", path);
	err = atomic_file_create(&file, path, error);
	if (err)
		return err;
	err = encode_profile(profile, &file, effort, error);
	if (err) {
		atomic_file_discard(&file);
		return err;
	}
	err = atomic_file_commit(&file, error);
	if (!err && size)
		*size = file.size;
	return err;
}

int pprof_write(const struct profile *profile, const char *path, uint64_t *size,
		struct error *error)
{
	return pprof_write_file(profile, path, GZIP_DEFAULT, size, error);
}

int pprof_write_fast(const struct profile *profile, const char *path, uint64_t *size,
		     struct error *error)
{
	return pprof_write_file(profile, path, GZIP_FAST, size, error);
}

static int write_fd(const struct profile *profile, int fd, const char *name,
		    enum gzip_effort effort, struct error *error)
{
	struct atomic_file file = {.path = (char *)name, .fd = fd};

	if (profile->error)
		return error_errno(error, -profile->error, "%s: the profile is not written", name);
	return encode_profile(profile, &file, effort, error);
}

int pprof_write_fd(const struct profile *profile, int fd, const char *name, struct error *error)
{
	return write_fd(profile, fd, name, GZIP_DEFAULT, error);
}

int pprof_write_fd_fast(const struct profile *profile, int fd, const char *name,
			struct error *error)
{
	return write_fd(profile, fd, name, GZIP_FAST, error);
}

int pprof_write_fd_plain(const struct profile *profile, int fd, const char *name,
			 struct error *error)
{
	return write_fd(profile, fd, name, GZIP_NONE, error);
}
