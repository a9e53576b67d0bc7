// SPDX-License-Identifier: GPL-2.0
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *error, int code, const char *format, ...)
{
	va_list args;

	if (error) {
		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
	}
	return -code;
}

int error_errno(struct error *error, int code, const char *format, ...)
{
	char reason[128];
	va_list args;
	size_t used;

	if (error) {
		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
		used = strlen(error->text);
		snprintf(error->text + used, sizeof(error->text) - used, ": %s",
			 strerror_r(code, reason, sizeof(reason)));
	}
	return -code;
}
