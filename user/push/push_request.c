// SPDX-License-Identifier: GPL-2.0
#include "push/push_request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"

/* The name by which servers know profiles of CPU time. */
#define METRIC "process_cpu"

static const struct form {
	const char *name, *path, *type, *encoding;
} forms[] = {
	[PUSH_PYROSCOPE] = {"pyroscope", "/push.v1.PusherService/Push", "application/json", NULL},
	[PUSH_PARCA] = {"parca", "/api/profiles/writeraw", "application/json", NULL},
	[PUSH_PPROF] = {"pprof", "", "application/octet-stream", NULL},
	[PUSH_OTLP] = {"otlp-experimental", "/v1development/profiles", HTTP_PROTOBUF, "gzip"},
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

int push_form_parse(const char *name, enum push_form *form, struct error *error)
{
	for (size_t i = 0; i < FORMS; i++) {
		if (!strcmp(name, forms[i].name)) {
			*form = (enum push_form)i;
			return 0;
		}
	}
	return error_set(error, EINVAL,
			 "--to: '%s' is none of pyroscope, parca, pprof, "
			 "otlp-experimental",
			 name);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS "0123456789"

bool push_label_is_valid(enum push_form form, const char *name)
{
	const char *more = form == PUSH_OTLP ? LETTERS DIGITS "." : LETTERS DIGITS;

	return *name && strchr(LETTERS, *name) && !name[strspn(name, more)] &&
	       strncmp(name, "__", 2);
}

const char *push_service_label(enum push_form form)
{
	return form == PUSH_OTLP ? "service.name" : "service_name";
}

const char *push_host_label(enum push_form form)
{
	return form == PUSH_OTLP ? "host.name" : "instance";
}

/* Base64 of RFC 4648, section 4. Returns a string, which the caller frees, or NULL. */
static char *encode_base64(const unsigned char *bytes, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((size + 2) / 3 * 4 + 1), *out = text;

	for (size_t i = 0; text && i < size; i += 3) {
		size_t left = size - i;
		uint32_t group = (uint32_t)bytes[i] << 16;

		if (left > 1)
			group |= (uint32_t)bytes[i + 1] << 8;
		if (left > 2)
			group |= bytes[i + 2];
		*out++ = digits[group >> 18];
		*out++ = digits[group >> 12 & 63];
		*out++ = (char)(left > 1 ? digits[group >> 6 & 63] : '=');
		*out++ = (char)(left > 2 ? digits[group & 63] : '=');
	}
	if (text)
		*out = '\0';
	return text;
}

static int push_request_add_string(struct json_object *object, const char *key, const char *text)
{
	struct json_object *string = json_object_new_string(text);

	return string ? json_object_object_add(object, key, string) : -1;
}

static int push_request_add_label(struct json_object *array, const char *name, const char *value)
{
	struct json_object *label = json_object_new_object();

	if (!label)
		return -1;
	if (push_request_add_string(label, "name", name) ||
	    push_request_add_string(label, "value", value) || json_object_array_add(array, label)) {
		json_object_put(label);
		return -1;
	}
	return 0;
}

static struct json_object *make_labels(const struct push_label *labels, size_t count)
{
	struct json_object *array = json_object_new_array();
	int err = array ? push_request_add_label(array, "__name__", METRIC) : -1;

	for (size_t i = 0; i < count && !err; i++)
		err = push_request_add_label(array, labels[i].name, labels[i].value);
	if (!err)
		return array;
	json_object_put(array);
	return NULL;
}

/* Returns an object with one member, and takes the ownership of that; NULL without memory. */
static struct json_object *push_request_wrap(const char *key, struct json_object *member)
{
	struct json_object *object = member ? json_object_new_object() : NULL;

	if (object && !json_object_object_add(object, key, member))
		return object;
	json_object_put(object);
	json_object_put(member);
	return NULL;
}

static struct json_object *wrap_in_array(struct json_object *item)
{
	struct json_object *array = item ? json_object_new_array() : NULL;

	if (array && !json_object_array_add(array, item))
		return array;
	json_object_put(array);
	json_object_put(item);
	return NULL;
}

/* {"series": [{"labels": ..., "samples": [{"rawProfile": ...}]}]}: both servers take that. */
static struct json_object *make_message(enum push_form form, const struct push_label *labels,
					size_t label_count, const char *base64)
{
	struct json_object *series, *set = make_labels(labels, label_count);

	if (form == PUSH_PARCA)
		set = push_request_wrap("labels", set);
	series = push_request_wrap("labels", set);
	if (series) {
		struct json_object *samples = wrap_in_array(
			push_request_wrap("rawProfile", json_object_new_string(base64)));

		if (!samples || json_object_object_add(series, "samples", samples)) {
			json_object_put(samples);
			json_object_put(series);
			return NULL;
		}
	}
	return push_request_wrap("series", wrap_in_array(series));
}

static int make_json(struct push_request *request, enum push_form form,
		     const struct push_label *labels, size_t label_count, const void *pprof,
		     size_t size)
{
	char *base64 = encode_base64(pprof, size);
	struct json_object *message =
		base64 ? make_message(form, labels, label_count, base64) : NULL;
	const char *text;

	free(base64);
	text = message ? json_object_to_json_string_ext(
				 message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
		       : NULL;
	request->body = text ? strdup(text) : NULL;
	if (request->body) {
		request->http.body = request->body;
		request->http.size = strlen(request->body);
	}
	json_object_put(message);
	return request->body ? 0 : -ENOMEM;
}

int push_request_make(struct push_request *request, enum push_form form,
		      const struct push_label *labels, size_t label_count, const void *profile,
		      size_t size)
{
	*request = (struct push_request){
		.http = {forms[form].path, forms[form].type, forms[form].encoding, NULL, size,
			 form == PUSH_OTLP},
	};
	if (form == PUSH_PYROSCOPE || form == PUSH_PARCA)
		return make_json(request, form, labels, label_count, profile, size);
	request->body = malloc(size);
	if (!request->body)
		return -ENOMEM;
	memcpy(request->body, profile, size);
	request->http.body = request->body;
	return 0;
}
