// SPDX-License-Identifier: GPL-2.0
#include "report/json_string.h"

#include <errno.h>
#include <json-c/json.h>

#include "lib/utf8.h"

int json_string_print(const char *text, FILE *out)
{
	struct json_object *string = json_object_new_string(text);
	const char *json = NULL;

	if (string)
		json = json_object_to_json_string_ext(string, JSON_C_TO_STRING_NOSLASHESCAPE);
	if (json)
		utf8_print_json(out, json);
	json_object_put(string);
	return json ? 0 : -ENOMEM;
}
