/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Errors as one line for a person: what failed, on what, why, what to do.
 *
 * A function that can fail for a reason that a person should read takes a
 * `struct error *` and returns a negative errno value; it never prints. Only
 * the cmd_*.c files print, once.
 */
#ifndef STACKBEAT_LIB_ERROR_H
#define STACKBEAT_LIB_ERROR_H

struct error {
	char text[512];
};

/*
 * Sets the text of `error` (printf-style, without a newline) and returns -code.
 * `code` is a positive errno value. `error` may be NULL. Control characters in
 * what is quoted become '?'; what is too long is cut.
 */
int error_set(struct error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As error_set(), with ": " and the system's sentence for `code` appended, which is never cut. */
int error_errno(struct error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
