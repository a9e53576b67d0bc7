// SPDX-License-Identifier: GPL-2.0
#include "push/otlp_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/error.h"
#include "lib/invariant.h"
#include "lib/utf8.h"
#include "otlp.pb-c.h"
#include "pprof/gzip.h"
#include "pprof/profile.h"

#define SCOPE_NAME "stackbeat"
#define TRACE_ID_SIZE 16
#define SPAN_ID_SIZE 8
/* Of OpenTelemetry's semantic conventions. */
#define BUILD_ID_KEY "process.executable.build_id.gnu"

/* A message that is written in parts, whose repeated fields readers concatenate. */
struct message_buffer {
	ProtobufCBuffer base; /* first: protobuf-c passes its address to append_bytes() */
	unsigned char *bytes;
	size_t size, capacity;
	bool lacks_memory;
};

struct otlp_writer {
	const struct profile *profile;
	struct message_buffer dictionary;
	struct message_buffer *profiles; /* one for each value type, the default one first */
	int32_t *build_ids; /* attributes, by string; 0: none yet */
	size_t build_id_count;
	int32_t *indices; /* with room for the longest stack and label set */
	Stackbeat__Otlp__Line *lines, **line_table; /* for the location with most */
};

static void append_bytes(ProtobufCBuffer *base, size_t size, const uint8_t *bytes)
{
	struct message_buffer *buffer = (struct message_buffer *)base;

	if (buffer->lacks_memory ||
	    array_reserve(&buffer->bytes, &buffer->capacity, buffer->size, size, 1)) {
		buffer->lacks_memory = true;
		return;
	}
	if (size)
		memcpy(buffer->bytes + buffer->size, bytes, size);
	buffer->size += size;
}

static void otlp_write_part(struct message_buffer *buffer, const ProtobufCMessage *part)
{
	protobuf_c_message_pack_to_buffer(part, &buffer->base);
}

static ProtobufCBinaryData as_bytes(const struct message_buffer *buffer)
{
	return (ProtobufCBinaryData){buffer->size, buffer->bytes};
}

/* The dictionary: its tables have the items, and so the indices, of the profile's tables. */

static Stackbeat__Otlp__AnyValue string_value(uint32_t string)
{
	Stackbeat__Otlp__AnyValue value = STACKBEAT__OTLP__ANY_VALUE__INIT;

	value.value_case = STACKBEAT__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX;
	value.string_value_strindex = (int32_t)string;
	return value;
}

static void write_attribute(struct otlp_writer *writer, uint32_t key, uint32_t unit,
			    Stackbeat__Otlp__AnyValue *value)
{
	Stackbeat__Otlp__ProfilesDictionary part = STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
	Stackbeat__Otlp__KeyValueAndUnit attribute = STACKBEAT__OTLP__KEY_VALUE_AND_UNIT__INIT;
	Stackbeat__Otlp__KeyValueAndUnit *attributes[] = {&attribute};

	attribute.key_strindex = (int32_t)key;
	attribute.unit_strindex = (int32_t)unit;
	attribute.value = value;
	part.attribute_table = attributes;
	part.n_attribute_table = 1;
	otlp_write_part(&writer->dictionary, &part.base);
}

static void write_labels(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;

	write_attribute(writer, 0, 0, NULL);
	for (size_t i = 1; i < profile->labels.count; i++) {
		const struct profile_label *label = &profile->labels.items[i];
		Stackbeat__Otlp__AnyValue value = string_value(label->text);

		if (!label->text) {
			value.value_case = STACKBEAT__OTLP__ANY_VALUE__VALUE_INT_VALUE;
			value.int_value = label->number;
		}
		write_attribute(writer, label->key, label->unit, &value);
	}
}

/*
 * The build IDs are attributes behind the labels. Returns the index of a mapping's ID, which is
 * the index of an equal ID before.
 */
static int32_t write_build_id(struct otlp_writer *writer, uint32_t build_id)
{
	Stackbeat__Otlp__AnyValue value = string_value(build_id);
	int32_t *attribute = &writer->build_ids[build_id];

	if (!*attribute) {
		*attribute = (int32_t)(writer->profile->labels.count + writer->build_id_count++);
		/* The string behind the profile's strings. */
		write_attribute(writer, (uint32_t)writer->profile->strings.count, 0, &value);
	}
	return *attribute;
}

static void otlp_write_mappings(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;

	for (size_t i = 0; i < profile->mappings.count; i++) {
		Stackbeat__Otlp__ProfilesDictionary part =
			STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
		Stackbeat__Otlp__Mapping mapping = STACKBEAT__OTLP__MAPPING__INIT;
		Stackbeat__Otlp__Mapping *mappings[] = {&mapping};
		const struct profile_mapping *from = &profile->mappings.items[i];
		int32_t attribute;

		if (from->build_id) {
			attribute = write_build_id(writer, from->build_id);
			mapping.attribute_indices = &attribute;
			mapping.n_attribute_indices = 1;
		}
		mapping.memory_start = from->start;
		mapping.memory_limit = from->limit;
		mapping.file_offset = from->offset;
		mapping.filename_strindex = (int32_t)from->file;
		part.mapping_table = mappings;
		part.n_mapping_table = 1;
		otlp_write_part(&writer->dictionary, &part.base);
	}
}

static void otlp_write_locations(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;

	for (size_t i = 0; i < profile->locations.count; i++) {
		Stackbeat__Otlp__ProfilesDictionary part =
			STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
		Stackbeat__Otlp__Location location = STACKBEAT__OTLP__LOCATION__INIT;
		Stackbeat__Otlp__Location *locations[] = {&location};
		const struct profile_location *from = &profile->locations.items[i];
		const struct profile_line *lines = profile_lines(profile, from);

		location.mapping_index = (int32_t)from->mapping;
		location.address = from->address;
		for (uint32_t j = 0; j < from->line_count; j++) {
			writer->lines[j].function_index = (int32_t)lines[j].function;
			writer->lines[j].line = lines[j].line;
			writer->lines[j].column = lines[j].column;
		}
		location.lines = writer->line_table;
		location.n_lines = from->line_count;
		part.location_table = locations;
		part.n_location_table = 1;
		otlp_write_part(&writer->dictionary, &part.base);
	}
}

static void otlp_write_functions(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;

	for (size_t i = 0; i < profile->functions.count; i++) {
		Stackbeat__Otlp__ProfilesDictionary part =
			STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
		Stackbeat__Otlp__Function function = STACKBEAT__OTLP__FUNCTION__INIT;
		Stackbeat__Otlp__Function *functions[] = {&function};
		const struct profile_function *from = &profile->functions.items[i];

		function.name_strindex = (int32_t)from->name;
		function.system_name_strindex = (int32_t)from->system_name;
		function.filename_strindex = (int32_t)from->file;
		function.start_line = from->start_line;
		part.function_table = functions;
		part.n_function_table = 1;
		otlp_write_part(&writer->dictionary, &part.base);
	}
}

static size_t copy_indices(struct otlp_writer *writer, const uint32_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		writer->indices[i] = (int32_t)from[i];
	return count;
}

static void write_stacks(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;

	for (uint32_t i = 0; i < profile->stacks.count; i++) {
		Stackbeat__Otlp__ProfilesDictionary part =
			STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
		Stackbeat__Otlp__Stack stack = STACKBEAT__OTLP__STACK__INIT;
		Stackbeat__Otlp__Stack *stacks[] = {&stack};

		stack.location_indices = writer->indices;
		stack.n_location_indices = copy_indices(writer, profile_stack_locations(profile, i),
							profile->stacks.items[i].count);
		part.stack_table = stacks;
		part.n_stack_table = 1;
		otlp_write_part(&writer->dictionary, &part.base);
	}
}

static void write_string(struct otlp_writer *writer, const char *text)
{
	Stackbeat__Otlp__ProfilesDictionary part = STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
	char *strings[] = {(char *)text};

	part.string_table = strings;
	part.n_string_table = 1;
	otlp_write_part(&writer->dictionary, &part.base);
}

static void write_dictionary(struct otlp_writer *writer)
{
	Stackbeat__Otlp__ProfilesDictionary part = STACKBEAT__OTLP__PROFILES_DICTIONARY__INIT;
	/* Of these lengths also without a value. */
	static uint8_t zero_ids[TRACE_ID_SIZE];
	Stackbeat__Otlp__Link link = STACKBEAT__OTLP__LINK__INIT, *links[] = {&link};

	link.trace_id = (ProtobufCBinaryData){TRACE_ID_SIZE, zero_ids};
	link.span_id = (ProtobufCBinaryData){SPAN_ID_SIZE, zero_ids};
	write_labels(writer);
	otlp_write_mappings(writer);
	otlp_write_locations(writer);
	otlp_write_functions(writer);
	write_stacks(writer);
	part.link_table = links;
	part.n_link_table = 1;
	otlp_write_part(&writer->dictionary, &part.base);
	for (size_t i = 0; i < writer->profile->strings.count; i++)
		write_string(writer, writer->profile->strings.items[i]);
	if (writer->build_id_count)
		write_string(writer, BUILD_ID_KEY);
}

/* Profiles */

static Stackbeat__Otlp__ValueType as_value_type(const struct profile_value_type *from)
{
	Stackbeat__Otlp__ValueType type = STACKBEAT__OTLP__VALUE_TYPE__INIT;

	type.type_strindex = (int32_t)from->type;
	type.unit_strindex = (int32_t)from->unit;
	return type;
}

/* Of labels with the same key, which pprof allows, the last one. */
static size_t copy_labels(struct otlp_writer *writer, uint32_t label_set)
{
	const struct profile *profile = writer->profile;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	size_t count = profile->label_sets.items[label_set].count, copied = 0;

	for (size_t i = 0; i < count; i++) {
		size_t other = i + 1;

		while (other < count && profile->labels.items[labels[other]].key !=
						profile->labels.items[labels[i]].key)
			other++;
		if (other == count)
			writer->indices[copied++] = (int32_t)labels[i];
	}
	return copied;
}

static void otlp_write_samples(struct otlp_writer *writer, size_t type,
			       struct message_buffer *buffer)
{
	const struct profile *profile = writer->profile;

	for (size_t i = 0; i < profile->samples.count; i++) {
		Stackbeat__Otlp__Profile part = STACKBEAT__OTLP__PROFILE__INIT;
		Stackbeat__Otlp__Sample sample = STACKBEAT__OTLP__SAMPLE__INIT;
		Stackbeat__Otlp__Sample *samples[] = {&sample};
		const struct profile_sample *from = &profile->samples.items[i];
		int64_t value = profile_values(profile, i)[type];

		sample.stack_index = (int32_t)from->stack;
		sample.attribute_indices = writer->indices;
		sample.n_attribute_indices = copy_labels(writer, from->label_set);
		sample.values = &value;
		sample.n_values = 1;
		part.samples = samples;
		part.n_samples = 1;
		otlp_write_part(buffer, &part.base);
	}
}

static void otlp_write_profile(struct otlp_writer *writer, size_t type,
			       struct message_buffer *buffer)
{
	const struct profile *profile = writer->profile;
	Stackbeat__Otlp__Profile part = STACKBEAT__OTLP__PROFILE__INIT;
	Stackbeat__Otlp__ValueType sample_type = as_value_type(&profile->types.items[type]);
	Stackbeat__Otlp__ValueType period_type = as_value_type(&profile->period_type);

	part.sample_type = &sample_type;
	part.period_type = &period_type;
	part.period = profile->period;
	part.time_unix_nano = (uint64_t)MAX(profile->time_ns, 0);
	part.duration_nano = (uint64_t)MAX(profile->duration_ns, 0);
	otlp_write_part(buffer, &part.base);
	otlp_write_samples(writer, type, buffer);
}

static void write_profiles(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;
	size_t count = 0;

	/* Viewers show the first profile. */
	for (int is_default = 1; is_default >= 0; is_default--) {
		for (size_t i = 0; i < profile->types.count; i++) {
			if ((profile->types.items[i].type == profile->default_type) == is_default)
				otlp_write_profile(writer, i, &writer->profiles[count++]);
		}
	}
}

/* The request */

static int make_request(const struct otlp_writer *writer, const struct push_label *labels,
			size_t label_count, struct message_buffer *request)
{
	const size_t types = writer->profile->types.count;
	Stackbeat__Otlp__ResourceProfiles source = STACKBEAT__OTLP__RESOURCE_PROFILES__INIT;
	Stackbeat__Otlp__Resource resource = STACKBEAT__OTLP__RESOURCE__INIT;
	Stackbeat__Otlp__ScopeProfiles scoped = STACKBEAT__OTLP__SCOPE_PROFILES__INIT;
	Stackbeat__Otlp__ScopeProfiles *scopes[] = {&scoped};
	Stackbeat__Otlp__InstrumentationScope scope = STACKBEAT__OTLP__INSTRUMENTATION_SCOPE__INIT;
	Stackbeat__Otlp__KeyValue attributes[PUSH_SERIES_LABELS_MAX],
		*attribute_table[PUSH_SERIES_LABELS_MAX];
	Stackbeat__Otlp__AnyValue values[PUSH_SERIES_LABELS_MAX];
	Stackbeat__Otlp__ExportProfilesServiceRequest message =
		STACKBEAT__OTLP__EXPORT_PROFILES_SERVICE_REQUEST__INIT;
	Stackbeat__Otlp__ResourceProfiles *sources[] = {&source};
	ProtobufCBinaryData *profiles = calloc(types + 1, sizeof(*profiles));

	if (!profiles)
		return -ENOMEM;
	invariant(label_count <= PUSH_SERIES_LABELS_MAX);
	for (size_t i = 0; i < label_count; i++) {
		stackbeat__otlp__key_value__init(&attributes[i]);
		stackbeat__otlp__any_value__init(&values[i]);
		values[i].value_case = STACKBEAT__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
		values[i].string_value = (char *)labels[i].value;
		attributes[i].key = (char *)labels[i].name;
		attributes[i].value = &values[i];
		attribute_table[i] = &attributes[i];
	}
	for (size_t i = 0; i < types; i++)
		profiles[i] = as_bytes(&writer->profiles[i]);
	resource.attributes = attribute_table;
	resource.n_attributes = label_count;
	scope.name = SCOPE_NAME;
	scope.version = STACKBEAT_VERSION;
	scoped.scope = &scope;
	scoped.profiles = profiles;
	scoped.n_profiles = types;
	source.resource = &resource;
	source.scope_profiles = scopes;
	source.n_scope_profiles = 1;
	message.resource_profiles = sources;
	message.n_resource_profiles = 1;
	message.dictionary = as_bytes(&writer->dictionary);
	otlp_write_part(request, &message.base);
	free(profiles);
	return request->lacks_memory ? -ENOMEM : 0;
}

/* Memory */

static int writer_allocate(struct otlp_writer *writer)
{
	const struct profile *profile = writer->profile;
	size_t lines = 1;

	for (size_t i = 0; i < profile->locations.count; i++)
		lines = MAX(lines, profile->locations.items[i].line_count);
	writer->profiles = calloc(profile->types.count + 1, sizeof(*writer->profiles));
	writer->build_ids = calloc(profile->strings.count + 1, sizeof(*writer->build_ids));
	writer->indices = calloc(profile_longest_sequence(profile), sizeof(*writer->indices));
	writer->lines = calloc(lines, sizeof(*writer->lines));
	writer->line_table = calloc(lines, sizeof(*writer->line_table));
	if (!writer->profiles || !writer->build_ids || !writer->indices || !writer->lines ||
	    !writer->line_table)
		return -ENOMEM;
	writer->dictionary.base.append = append_bytes;
	for (size_t i = 0; i < profile->types.count; i++)
		writer->profiles[i].base.append = append_bytes;
	for (size_t i = 0; i < lines; i++) {
		stackbeat__otlp__line__init(&writer->lines[i]);
		writer->line_table[i] = &writer->lines[i];
	}
	return 0;
}

static bool lacks_memory(const struct otlp_writer *writer)
{
	bool lacks = writer->dictionary.lacks_memory;

	for (size_t i = 0; i < writer->profile->types.count; i++)
		lacks |= writer->profiles[i].lacks_memory;
	return lacks;
}

static void writer_free(struct otlp_writer *writer)
{
	for (size_t i = 0; writer->profiles && i < writer->profile->types.count; i++)
		free(writer->profiles[i].bytes);
	free(writer->dictionary.bytes);
	free(writer->profiles);
	free(writer->build_ids);
	free(writer->indices);
	free(writer->lines);
	free(writer->line_table);
}

static int otlp_compress(const struct message_buffer *request, int fd, struct error *error)
{
	struct atomic_file file = {.path = (char *)"a request", .fd = fd};
	struct gzip_writer *gzip = gzip_writer_new(&file, GZIP_DEFAULT, error);
	int err;

	if (!gzip)
		return error_errno(error, ENOMEM, "can't encode a profile");
	gzip_write(gzip, request->bytes, request->size);
	err = gzip_writer_finish(gzip);
	gzip_writer_free(gzip);
	return err;
}

int otlp_write_fd(const struct profile *profile, const struct push_label *labels,
		  size_t label_count, int fd, struct error *error)
{
	struct message_buffer request = {.base = {append_bytes}};
	struct otlp_writer writer = {.profile = profile};
	int err = profile->error ? profile->error : writer_allocate(&writer);

	if (!err) {
		write_dictionary(&writer);
		write_profiles(&writer);
		err = lacks_memory(&writer) ? -ENOMEM
					    : make_request(&writer, labels, label_count, &request);
	}
	writer_free(&writer);
	if (err)
		error_errno(error, -err, "can't encode a profile");
	else
		err = otlp_compress(&request, fd, error);
	free(request.bytes);
	return err;
}

/* Answers */

/* What the server has rejected is not to be sent again, nor what it may have accepted. */
static int read_response(const void *answer, size_t size, struct error *error)
{
	Stackbeat__Otlp__ExportProfilesServiceResponse *response =
		stackbeat__otlp__export_profiles_service_response__unpack(NULL, size, answer);
	const Stackbeat__Otlp__ExportProfilesPartialSuccess *partial =
		response ? response->partial_success : NULL;
	int err = 0;

	if (partial && partial->rejected_profiles > 0)
		err = error_set(error, EREMOTEIO,
				"the server has rejected profiles (%" PRId64 ")%s%s",
				partial->rejected_profiles, *partial->error_message ? ": " : "",
				partial->error_message);
	else if (!response)
		err = error_set(error, EREMOTEIO, "the answer is no message of OTLP");
	if (response)
		stackbeat__otlp__export_profiles_service_response__free_unpacked(response, NULL);
	return err;
}

static int read_status(const void *answer, size_t size, struct error *error)
{
	Stackbeat__Otlp__Status *status = stackbeat__otlp__status__unpack(NULL, size, answer);
	int err = 0;

	if (status && *status->message)
		err = error_set(error, EREMOTEIO, "%s", status->message);
	if (status)
		stackbeat__otlp__status__free_unpacked(status, NULL);
	return err;
}

int otlp_read_answer(const void *answer, size_t size, bool is_accepted, struct error *error)
{
	int err =
		is_accepted ? read_response(answer, size, error) : read_status(answer, size, error);

	/* It is printed, and the server may be hostile. */
	if (err)
		utf8_sanitize(error->text);
	return err;
}
