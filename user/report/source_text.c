// SPDX-License-Identifier: GPL-2.0
#include "report/source_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/regular_file.h"

/* Larger files are no source. */
#define SOURCE_BYTES_MAX ((size_t)32 << 20)

struct source_file {
	char *path, *bytes;
	const char **lines;
	size_t count, capacity;
	struct error why; /* it has no lines */
};

static int open_source(const char *path, struct stat *st, struct error *error)
{
	int fd = open_regular_file(path, 0, st), err = fd < 0 ? -fd : 0;

	if (!err && !geteuid() && !(st->st_mode & S_IROTH))
		err = EACCES;
	if (!err && (uint64_t)st->st_size > SOURCE_BYTES_MAX)
		err = EFBIG;
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return error_errno(error, err, "%s", path);
}

/* Divides the bytes, which end with a NUL, into lines. */
static int divide_lines(struct source_file *file)
{
	for (char *line = file->bytes; line && *line;) {
		char *end = strchr(line, '\n');

		if (array_reserve(&file->lines, &file->capacity, file->count, 1,
				  sizeof(*file->lines)))
			return -ENOMEM;
		file->lines[file->count++] = line;
		if (end)
			*end++ = '\0';
		line = end;
	}
	return 0;
}

static int read_source(struct source_file *file)
{
	struct stat st;
	int fd = open_source(file->path, &st, &file->why), err = 0;
	size_t size = 0;
	ssize_t got = 1;

	if (fd < 0)
		return 0;
	file->bytes = calloc(1, (size_t)st.st_size + 1);
	while (file->bytes && size < (size_t)st.st_size && got > 0) {
		got = read(fd, file->bytes + size, (size_t)st.st_size - size);
		size += got > 0 ? (size_t)got : 0;
	}
	if (!file->bytes || divide_lines(file))
		err = -ENOMEM;
	close(fd);
	return err;
}

/* Finds or reads a file. Returns NULL without memory. */
static struct source_file *find_source(struct source_text *text, const char *path)
{
	struct source_file *file;

	for (size_t i = 0; i < text->count; i++) {
		if (!strcmp(text->files[i].path, path))
			return &text->files[i];
	}
	if (array_reserve(&text->files, &text->capacity, text->count, 1, sizeof(*text->files)))
		return NULL;
	file = &text->files[text->count];
	*file = (struct source_file){.path = strdup(path)};
	if (!file->path)
		return NULL;
	text->count++;
	return read_source(file) ? NULL : file;
}

const char *source_text_line(struct source_text *text, const char *path, uint32_t line,
			     struct error *error)
{
	const struct source_file *file = find_source(text, path);

	if (!file)
		error_errno(error, ENOMEM, "%s", path);
	else if (*file->why.text)
		*error = file->why;
	else if (!line || line > file->count)
		error_set(error, ENOENT, "%s has no line %u: it is not of this build", path, line);
	else
		return file->lines[line - 1];
	return NULL;
}

void source_text_clear(struct source_text *text)
{
	for (size_t i = 0; i < text->count; i++) {
		free(text->files[i].path);
		free(text->files[i].bytes);
		free(text->files[i].lines);
	}
	free(text->files);
	*text = (struct source_text){0};
}
