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
#include <unistd.h>

#include "lib/atomic_file.h"
#include "lib/error.h"

#define FIRST "next: "
#define TEXT_SIZE 96u
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
	if (errno || *stop != end)
		return false;
	*text = stop + 1;
	return true;
}

static bool parse(struct push_state *state, const char *text)
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
	if (!is_complete || *text || next > INT64_MAX || done > SIZE_MAX || ahead > INT64_MAX)
		return false;
	state->next_us = (int64_t)next;
	state->done = (size_t)done;
	state->ahead_us = (int64_t)ahead;
	return true;
}

static int read_state(struct push_state *state, int64_t now_us, struct error *error)
{
	char text[TEXT_SIZE] = "";
	int fd = open(state->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t got;

	if (fd < 0 && errno == ENOENT) {
		state->next_us = now_us;
		return 0;
	}
	if (fd < 0)
		return error_errno(error, errno, "can't read %s", state->path);
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got < 0)
		return error_errno(error, errno, "can't read %s", state->path);
	if (!parse(state, text))
		return error_set(error, EBADMSG, "%s is not the state of a push: remove it",
				 state->path);
	return 0;
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

int push_state_write(const struct push_state *state, struct error *error)
{
	struct atomic_file file;
	char text[TEXT_SIZE];
	int length, err = atomic_file_create(&file, state->path, error);

	if (err)
		return err;
	length = snprintf(text, sizeof(text), FIRST "%" PRId64 " %zu", state->next_us, state->done);
	if (state->ahead_us)
		length += snprintf(text + length, sizeof(text) - (size_t)length, " %" PRId64,
				   state->ahead_us);
	text[length++] = '\n';
	err = atomic_file_write(&file, text, (size_t)length, error);
	if (!err)
		return atomic_file_commit(&file, error);
	atomic_file_discard(&file);
	return err;
}
