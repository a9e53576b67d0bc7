// SPDX-License-Identifier: GPL-2.0
#include "lib/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/utf8.h"

int error_set(struct error *error, int code, const char *format, ...)
{
	va_list args;

	if (error) {
		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
		/* The message may quote untrusted names. */
		utf8_sanitize(error->text);
	}
	return -code;
}

int error_errno(struct error *error, int code, const char *format, ...)
{
	char buffer[128];
	const char *reason;
	va_list args;
	size_t used, room;

	if (error) {
		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
		utf8_sanitize(error->text);
		reason = strerror_r(code, buffer, sizeof(buffer));
		/* If both are too long, keep the reason. */
		used = strlen(error->text);
		room = sizeof(error->text) - sizeof(": ") - strlen(reason);
		if (used > room)
			used = room;
		sprintf(error->text + used, ": %s", reason);
	}
	return -code;
}

void error_keep_first(int *err, struct error *error, int later_err, const struct error *later)
{
	if (*err || !later_err)
		return;
	*err = later_err;
	*error = *later;
}
