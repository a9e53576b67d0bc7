// SPDX-License-Identifier: GPL-2.0
#include "push/push_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/atomic_file.h"
#include "lib/error.h"
#include "store/window_name.h"

#define FIRST "next: "
#define EARLY "early: "
#define DIGITS_MAX 20 /* of a number of 64 bits */
#define LINE_SIZE 96u /* at most, with the newline */
#define TEXT_MAX ((size_t)16 << 20) /* far more than a store can have */
#define LOCK_SUFFIX ".lock"

/* The state file itself is replaced, so the lock is a file of its own. */
static int take_lock(struct push_state *state, struct error *error)
{
	char *path;

	if (asprintf(&path, "%s" LOCK_SUFFIX, state->path) < 0)
		return error_errno(error, ENOMEM, "%s", state->path);
	state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (state->lock < 0)
		return error_errno(error, errno, "can't lock %s", state->path);
	if (flock(state->lock, LOCK_EX | LOCK_NB))
		return error_set(error, EBUSY, "%s: another process pushes", state->path);
	return 0;
}

/* Parses digits up to `end`, and sets *text behind that. */
static bool parse_digits(const char **text, char end, uint64_t *number)
{
	char *stop;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*number = strtoull(*text, &stop, 10);
	if (errno || *stop != end || stop - *text > DIGITS_MAX)
		return false;
	*text = stop + 1;
	return true;
}

/* Parses the lines of early windows; `early` has room for those. */
static bool parse_early(struct push_state *state, const char *text)
{
	uint64_t start, seconds;

	while (!strncmp(text, EARLY, strlen(EARLY))) {
		text += strlen(EARLY);
		if (!parse_digits(&text, ' ', &start) || !parse_digits(&text, '\n', &seconds) ||
		    start > WINDOW_START_MAX || !seconds || seconds > WINDOW_SECONDS_MAX)
			return false;
		state->early[state->early_count++] =
			(struct window_name){(int64_t)start, (uint32_t)seconds};
	}
	state->early_is_known = state->early_count;
	return !*text && (state->ahead_us || !state->early_count);
}

static bool push_state_parse(struct push_state *state, const char *text)
{
	uint64_t next, done, ahead = 0;
	bool is_complete;

	if (strncmp(text, FIRST, strlen(FIRST)))
		return false;
	text += strlen(FIRST);
	if (!parse_digits(&text, ' ', &next))
		return false;
	is_complete = parse_digits(&text, '\n', &done) ||
		      (parse_digits(&text, ' ', &done) && parse_digits(&text, '\n', &ahead));
	if (!is_complete || next > INT64_MAX || done > SIZE_MAX || ahead > INT64_MAX)
		return false;
	state->next_us = (int64_t)next;
	state->done = (size_t)done;
	state->ahead_us = (int64_t)ahead;
	return parse_early(state, text);
}

/*
 * Reads a file of at most TEXT_MAX bytes as a string, which the caller frees. Returns 0 or a
 * negative errno value, with *text NULL.
 */
static int push_state_read_text(int fd, char **text)
{
	struct stat status;
	size_t size, used = 0;
	ssize_t got;

	*text = NULL;
	if (fstat(fd, &status))
		return -errno;
	/* What has no size is read as empty. */
	size = (size_t)status.st_size;
	if (size > TEXT_MAX)
		return -EFBIG;
	*text = malloc(size + 1);
	if (!*text)
		return -ENOMEM;
	do {
		got = read(fd, *text + used, size - used);
		if (got < 0) {
			got = -errno;
			free(*text);
			*text = NULL;
			return (int)got;
		}
		used += (size_t)got;
	} while (got && used < size);
	(*text)[used] = '\0';
	return 0;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static int read_state(struct push_state *state, int64_t now_us, struct error *error)
{
	int fd = open(state->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err;
	char *text;

	if (fd < 0 && errno == ENOENT) {
		state->next_us = now_us;
		return 0;
	}
	if (fd < 0)
		return error_errno(error, errno, "can't read %s", state->path);
	err = push_state_read_text(fd, &text);
	close(fd);
	if (!err) {
		state->early = calloc(count_lines(text) + 1, sizeof(*state->early));
		err = state->early ? 0 : -ENOMEM;
	}
	if (err)
		error_errno(error, -err, "can't read %s", state->path);
	else if (!push_state_parse(state, text))
		err = error_set(error, EBADMSG, "%s is not the state of a push: remove it",
				state->path);
	free(text);
	return err;
}

int push_state_open(struct push_state *state, const char *path, int64_t now_us, struct error *error)
{
	int err;

	*state = (struct push_state){.path = path, .lock = -1};
	err = take_lock(state, error);
	return err ? err : read_state(state, now_us, error);
}

void push_state_close(struct push_state *state)
{
	if (state->lock >= 0)
		close(state->lock);
	state->lock = -1;
	free(state->early);
	state->early = NULL;
	state->early_count = 0;
}

/* Formats the state as a string, which the caller frees. NULL: no memory. */
static char *format_state(const struct push_state *state)
{
	const size_t count = state->ahead_us ? state->early_count : 0,
		     size = (1 + count) * LINE_SIZE;
	char *text = malloc(size);
	size_t used;

	if (!text)
		return NULL;
	used = (size_t)snprintf(text, size, FIRST "%" PRId64 " %zu", state->next_us, state->done);
	if (state->ahead_us)
		used += (size_t)snprintf(text + used, size - used, " %" PRId64, state->ahead_us);
	used += (size_t)snprintf(text + used, size - used, "\n");
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used,
					 EARLY "%" PRId64 " %" PRIu32 "\n",
					 state->early[i].start_us, state->early[i].seconds);
	return text;
}

int push_state_write(const struct push_state *state, struct error *error)
{
	char *text = format_state(state);
	int err;

	if (!text)
		return error_errno(error, ENOMEM, "%s", state->path);
	err = atomic_file_store(state->path, text, strlen(text), error);
	free(text);
	return err;
}
