// SPDX-License-Identifier: GPL-2.0
#include "report/source_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/regular_file.h"
#include "lib/timed_call.h"

/* Larger files are no source. */
#define SOURCE_BYTES_MAX ((size_t)32 << 20)
/* A name may be below a directory that is mounted when it is looked up, from a dead server. */
#define SOURCE_TIMEOUT_NS (5 * NS_PER_SECOND)
/* The offset of each such line is kept. */
#define LINES_STEP 64u

/* A file that was read. */
struct source_file {
	dev_t device;
	ino_t inode;
	char *bytes; /* each line ends with a NUL */
	uint32_t *lines; /* offsets of the lines 1, 1 + LINES_STEP, ... */
	size_t capacity;
	uint32_t count; /* of lines */
};

/* A name of a file: debug information may have many for one. */
struct source_name {
	char *path;
	size_t file;
	char *why; /* it has no lines; NULL: it has a file */
};

/* What may block. */
struct source_call {
	char *path, *bytes;
	struct stat st;
	size_t size;
	int fd, err;
};

static void source_call_free(void *arg)
{
	struct source_call *call = arg;

	if (call->fd >= 0)
		close(call->fd);
	free(call->path);
	free(call->bytes);
	free(call);
}

static void open_source(void *arg)
{
	struct source_call *call = arg;

	call->fd = open_regular_file(call->path, 0, &call->st);
	if (call->fd < 0)
		call->err = -call->fd;
	else if (!geteuid() && !(call->st.st_mode & S_IROTH))
		call->err = EACCES;
	else if ((uint64_t)call->st.st_size > SOURCE_BYTES_MAX)
		call->err = EFBIG;
}

static void read_source(void *arg)
{
	struct source_call *call = arg;
	const size_t size = (size_t)call->st.st_size;
	ssize_t got = 1;

	call->bytes = calloc(1, size + 1);
	if (!call->bytes)
		call->err = ENOMEM;
	while (!call->err && call->size < size && got > 0) {
		got = read(call->fd, call->bytes + call->size, size - call->size);
		call->size += got > 0 ? (size_t)got : 0;
	}
}

/* Divides the bytes, which end with a NUL, into lines, up to another NUL. */
static int divide_lines(struct source_file *file)
{
	for (char *line = file->bytes; line && *line; file->count++) {
		char *end = strchr(line, '\n');
		const size_t number = file->count / LINES_STEP;

		if (file->count % LINES_STEP == 0) {
			if (array_reserve(&file->lines, &file->capacity, number, 1,
					  sizeof(*file->lines)))
				return -ENOMEM;
			file->lines[number] = (uint32_t)(line - file->bytes);
		}
		if (end)
			*end++ = '\0';
		line = end;
	}
	return 0;
}

/* Keeps the bytes of a call. Returns 0 or an errno value. */
static int add_file(struct source_text *text, struct source_call *call)
{
	struct source_file *file;

	if (array_reserve(&text->files, &text->file_capacity, text->file_count, 1,
			  sizeof(*text->files)))
		return ENOMEM;
	file = &text->files[text->file_count++];
	*file = (struct source_file){
		.device = call->st.st_dev,
		.inode = call->st.st_ino,
		.bytes = call->bytes,
	};
	call->bytes = NULL;
	text->bytes += call->size;
	return divide_lines(file) ? ENOMEM : 0;
}

static size_t source_file_find(const struct source_text *text, const struct stat *st)
{
	size_t i = 0;

	while (i < text->file_count &&
	       (text->files[i].device != st->st_dev || text->files[i].inode != st->st_ino))
		i++;
	return i;
}

/*
 * Finds or reads the file of a name. Returns 0 or an errno value, and sets *is_freed: a call that
 * hangs owns itself.
 */
static int load_file(struct source_text *text, struct source_call *call, size_t *file,
		     bool *is_freed)
{
	int err = -timed_call(open_source, source_call_free, call, SOURCE_TIMEOUT_NS);

	*is_freed = err == ETIMEDOUT;
	if (err || call->err)
		return err ?: call->err;
	*file = source_file_find(text, &call->st);
	if (*file < text->file_count)
		return 0;
	if ((uint64_t)call->st.st_size > SOURCE_TEXT_BYTES_MAX - text->bytes)
		return ENOBUFS;
	err = -timed_call(read_source, source_call_free, call, SOURCE_TIMEOUT_NS);
	*is_freed = err == ETIMEDOUT;
	return err || call->err ? err ?: call->err : add_file(text, call);
}

/* Sets why a name has no file. Returns NULL without memory. */
static struct source_name *explain_name(struct source_name *name, int err)
{
	struct error error;

	if (err == ENOBUFS)
		error_set(&error, err,
			  "%s is left out: the source files have more than %zu MiB in total",
			  name->path, SOURCE_TEXT_BYTES_MAX >> 20);
	else if (err == ETIMEDOUT)
		error_set(&error, err, "%s: its file system hangs", name->path);
	else if (err == EAGAIN)
		error_set(&error, err,
			  "%s: it is not read, as too many file systems hang: try again, or use "
			  "--no-source",
			  name->path);
	else
		error_errno(&error, err, "%s", name->path);
	name->why = strdup(error.text);
	return name->why ? name : NULL;
}

static struct source_name *load_name(struct source_text *text, struct source_name *name)
{
	struct source_call *call = calloc(1, sizeof(*call));
	bool is_freed = false;
	int err;

	if (!call)
		return NULL;
	call->fd = -1;
	call->path = strdup(name->path);
	err = call->path ? load_file(text, call, &name->file, &is_freed) : ENOMEM;
	if (!is_freed)
		source_call_free(call);
	return err ? explain_name(name, err) : name;
}

/* Finds or adds a name. Returns NULL without memory. */
static struct source_name *source_name_find(struct source_text *text, const char *path)
{
	struct source_name *name;

	for (size_t i = 0; i < text->name_count; i++) {
		if (!strcmp(text->names[i].path, path))
			return &text->names[i];
	}
	if (array_reserve(&text->names, &text->name_capacity, text->name_count, 1,
			  sizeof(*text->names)))
		return NULL;
	name = &text->names[text->name_count];
	*name = (struct source_name){.path = strdup(path)};
	if (!name->path)
		return NULL;
	text->name_count++;
	return load_name(text, name);
}

static const char *find_line(const struct source_file *file, uint32_t number)
{
	const char *line = file->bytes + file->lines[number / LINES_STEP];

	for (uint32_t i = 0; i < number % LINES_STEP; i++)
		line += strlen(line) + 1;
	return line;
}

const char *source_text_line(struct source_text *text, const char *path, uint32_t line,
			     struct error *error)
{
	const struct source_name *name = source_name_find(text, path);

	if (!name)
		error_errno(error, ENOMEM, "%s", path);
	else if (name->why)
		error_set(error, ENOENT, "%s", name->why);
	else if (!line || line > text->files[name->file].count)
		error_set(error, ENOENT, "%s has no line %u: it is not of this build", path, line);
	else
		return find_line(&text->files[name->file], line - 1);
	return NULL;
}

void source_text_clear(struct source_text *text)
{
	for (size_t i = 0; i < text->name_count; i++) {
		free(text->names[i].path);
		free(text->names[i].why);
	}
	for (size_t i = 0; i < text->file_count; i++) {
		free(text->files[i].bytes);
		free(text->files[i].lines);
	}
	free(text->names);
	free(text->files);
	*text = (struct source_text){0};
}
