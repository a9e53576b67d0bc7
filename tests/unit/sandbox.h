/* SPDX-License-Identifier: GPL-2.0 */
/* A temporary directory for the files of one test, and helpers to fill it. */
#ifndef STACKBEAT_TEST_SANDBOX_H
#define STACKBEAT_TEST_SANDBOX_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char sandbox[64];

/* Returns the path of a file in the sandbox, in one of a few static buffers. */
__attribute__((format(printf, 1, 2))) static inline const char *in_sandbox(const char *format, ...)
{
	static char paths[16][PATH_MAX];
	static unsigned int next;
	char *path = paths[next++ % 16];
	va_list args;
	int used;

	used = snprintf(path, PATH_MAX, "%s/", sandbox);
	va_start(args, format);
	vsnprintf(path + used, PATH_MAX - (size_t)used, format, args);
	va_end(args);
	return path;
}

/* Runs a shell command, which must succeed. */
__attribute__((format(printf, 1, 2))) static inline void run(const char *format, ...)
{
	char command[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command))
		fail_msg("failed: %s", command);
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text)
{
	write_file(path, text, strlen(text));
}

/* Returns the bytes of a file, which the caller frees. */
static inline unsigned char *read_bytes(const char *path, size_t *size)
{
	FILE *file = fopen(path, "r");
	unsigned char *bytes;
	struct stat st;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	bytes = malloc((size_t)st.st_size + 1);
	assert_non_null(bytes);
	*size = fread(bytes, 1, (size_t)st.st_size, file);
	assert_int_equal(*size, st.st_size);
	fclose(file);
	return bytes;
}

/* For cmocka's group or test fixtures. */
static inline int make_sandbox(void **state)
{
	(void)state;
	strcpy(sandbox, "/tmp/stackbeat-unit-XXXXXX");
	return mkdtemp(sandbox) ? 0 : -1;
}

static inline int remove_sandbox(void **state)
{
	(void)state;
	run("rm -rf '%s'", sandbox);
	return 0;
}

#endif
