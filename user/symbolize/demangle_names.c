// SPDX-License-Identifier: GPL-2.0
#include "symbolize/demangle_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debuginfo/demangle.h"
#include "lib/string_table.h"
#include "sandbox/worker_call.h"
#include "symbolize/source_line.h"

#define CPU_MS 10000u
#define TIMEOUT_MS 100000u
/* Longer names stay mangled. */
#define NAME_MAX_BYTES 4096u
/* Of the results in total, which bounds the memory that a compromised worker can fill. */
#define RESULT_BYTES_MAX ((size_t)64 << 20)

bool is_mangled(const char *name)
{
	return !strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2);
}

/* The worker: names, and results, end with a NUL each; an empty result means "not mangled". */

void run_demangle_worker(const int fds[], size_t count)
{
	char text[DEMANGLED_MAX], *name = NULL;
	FILE *in, *out;
	size_t capacity = 0;

	if (count != 2)
		return;
	in = fdopen(fds[0], "r");
	out = fdopen(fds[1], "w");
	if (!in || !out)
		_exit(1);
	rewind(in);
	while (getdelim(&name, &capacity, '\0', in) > 0) {
		if (demangle(name, text))
			fputs(text, out);
		fputc('\0', out);
	}
	fflush(out);
	/* Closing the files is left to the exit, by which the parent knows that all is written. */
	_exit(0);
}

/* The parent */

static int write_names(const char *const names[], size_t count)
{
	int fd = memfd_create("names", MFD_CLOEXEC), own;
	FILE *file;
	bool failed;

	if (fd < 0)
		return -errno;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	file = own >= 0 ? fdopen(own, "w") : NULL;
	if (!file) {
		if (own >= 0)
			close(own);
		close(fd);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		fprintf(file, "%.*s", (int)NAME_MAX_BYTES, names[i]);
		fputc('\0', file);
	}
	failed = ferror(file);
	if (!fclose(file) && !failed)
		return fd;
	close(fd);
	return -EIO;
}

/* Returns 0, -EBADMSG if the result has not `count` strings, or -ENOMEM. */
static int take_results(const char *result, size_t size, size_t count, struct string_table *strings,
			const char *demangled[])
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		const char *text = result + at, *end = memchr(text, '\0', size - at);
		uint32_t index;

		if (!end || end - text >= DEMANGLED_MAX)
			return -EBADMSG;
		at += (size_t)(end - text) + 1;
		if (end == text)
			continue;
		index = string_table_add(strings, text, (size_t)(end - text));
		if (index == STRING_NONE)
			return -ENOMEM;
		demangled[i] = strings->items[index];
	}
	return at == size ? 0 : -EBADMSG;
}

/* demangled[i] becomes a string of `strings`, or NULL if names[i] is not mangled. */
static int demangle_names(const struct sandbox_server *server, const char *const names[],
			  size_t count, struct string_table *strings, const char *demangled[])
{
	size_t size =
		count * DEMANGLED_MAX < RESULT_BYTES_MAX ? count * DEMANGLED_MAX : RESULT_BYTES_MAX;
	char *result;
	ssize_t got;
	int fd, err;

	memset(demangled, 0, count * sizeof(*demangled));
	if (!count)
		return 0;
	fd = write_names(names, count);
	if (fd < 0)
		return fd;
	result = malloc(size);
	got = result ? worker_call(server, WORKER_DEMANGLE, fd, result, size, CPU_MS, TIMEOUT_MS)
		     : -ENOMEM;
	err = got < 0 ? (int)got : take_results(result, (size_t)got, count, strings, demangled);
	free(result);
	close(fd);
	return err;
}

int demangle_lines(const struct sandbox_server *server, struct source_line *lines, size_t count,
		   struct string_table *strings)
{
	const char **names = calloc(count, 2 * sizeof(*names)), **demangled;
	size_t found = 0, next = 0;
	int err;

	if (!names)
		return -ENOMEM;
	demangled = names + count;
	for (size_t i = 0; i < count; i++) {
		if (is_mangled(lines[i].system_name))
			names[found++] = lines[i].system_name;
	}
	err = demangle_names(server, names, found, strings, demangled);
	for (size_t i = 0; i < count; i++) {
		if (!is_mangled(lines[i].system_name))
			continue;
		if (demangled[next])
			lines[i].function = demangled[next];
		next++;
	}
	free(names);
	return err == -ENOMEM ? err : 0;
}
