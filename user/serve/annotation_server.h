/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads the code of functions for jobs of the HTTP server, which can't open binaries. A server
 * process forks an annotator for each request, at most two at a time. They are the user who serves
 * HTTP, without capabilities, and read only files that all users may read: with the path and the
 * build ID in the profile, in workers of their own.
 */
#ifndef STACKBEAT_SERVE_ANNOTATION_SERVER_H
#define STACKBEAT_SERVE_ANNOTATION_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct error;
struct profile;

/* All zero but `socket`, which is -1: not started. */
struct annotation_server {
	pid_t pid;
	int socket; /* of those who ask; the server ends when all have closed it */
};

struct annotation_server_config {
	uid_t uid; /* of the server, if this process is root */
	bool requires_sandbox; /* all parts of it */
};

/* Whose code is read. */
struct annotation_request {
	const char *function; /* see annotation_query.name */
	const char *file; /* see annotation_query.file; or NULL */
};

/*
 * Forks the server, and waits until it has lost its rights. This process has no secrets yet, and
 * nothing of value is open. Returns 0 or a negative errno value; annotation_server_stop() is to be
 * called in both cases.
 */
int annotation_server_start(struct annotation_server *server,
			    const struct annotation_server_config *config, struct error *error);
/* Waits until the server has ended. */
void annotation_server_stop(struct annotation_server *server);

/*
 * In a job: writes annotated functions as JSON to the file `out`. If their code can't be read, the
 * instructions are the addresses that have samples, and "problem" says why. `server`: NULL: no code
 * is read. Returns 0, -ENODATA if the profile has no such function, or another negative errno
 * value.
 */
int annotation_server_answer(const struct annotation_server *server, const struct profile *profile,
			     const struct annotation_request *request, int out,
			     struct error *error);

#endif
