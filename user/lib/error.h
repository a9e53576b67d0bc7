/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Error messages of one line: the operation, its object, the reason, and advice.
 *
 * A function takes a `struct error *` if its failures need a message, and returns a negative errno
 * value; it never prints. Only the cmd_*.c files print, once.
 */
#ifndef STACKBEAT_LIB_ERROR_H
#define STACKBEAT_LIB_ERROR_H

struct error {
	char text[512];
};

/*
 * Sets the message of `error` (printf-style, without a newline) and returns -code. `code` is a
 * positive errno value. `error` may be NULL. Control characters become '?'. A message that is too
 * long is truncated.
 */
int error_set(struct error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Like error_set(), and appends ": " and strerror(code), which is never truncated. */
int error_errno(struct error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * For steps that run also after an error: if *err is 0, it becomes `later_err`, and `error` a copy
 * of `later`.
 */
void error_keep_first(int *err, struct error *error, int later_err, const struct error *later);

#endif
