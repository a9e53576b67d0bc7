// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/optional_library.h"

#define LIBRARY "libdebuginfod.so.1"
#define URLS_VARIABLE "DEBUGINFOD_URLS"

struct client; /* of the library */

/* Functions of the library, with the types of its header. */
struct debuginfod_library {
	struct client *(*begin)(void);
	void (*end)(struct client *client);
	int (*find_debuginfo)(struct client *client, const unsigned char *build_id, int size,
			      char **path);
	void (*set_progressfn)(struct client *client,
			       int (*progress)(struct client *client, long done, long total));
};

static const struct optional_library debuginfod_library = {
	.files = {LIBRARY},
	.names = (const char *const[]){"debuginfod_begin", "debuginfod_end",
				       "debuginfod_find_debuginfo", "debuginfod_set_progressfn"},
	.count = 4,
	.missing = URLS_VARIABLE " is set, but there is no " LIBRARY ": install it",
	.too_old = LIBRARY " is too old for stackbeat",
};

struct debuginfod_request {
	int (*progress)(void *arg, long done, long total);
	void *arg;
};

/* Request of this thread's current call: the library's callback has no argument for it. */
static _Thread_local const struct debuginfod_request *current;

int debuginfod_is_enabled(void)
{
	const char *urls = getenv(URLS_VARIABLE);

	return urls && *urls;
}

static int debuginfod_report_progress(struct client *client, long done, long total)
{
	(void)client;
	return current->progress(current->arg, done, total);
}

static int find_debuginfo(const struct debuginfod_library *library, const char *build_id,
			  char **path, struct error *error)
{
	struct client *client = library->begin();
	int fd;

	if (!client)
		return error_set(error, ENOMEM, "debuginfod: out of memory");
	library->set_progressfn(client, debuginfod_report_progress);
	/* Size 0: the build ID is in hex. */
	fd = library->find_debuginfo(client, (const unsigned char *)build_id, 0, path);
	library->end(client);
	return fd < 0 ? error_errno(error, -fd, "debuginfod: build ID %s", build_id) : fd;
}

int debuginfod_fetch(const char *build_id, int (*progress)(void *arg, long done, long total),
		     void *arg, char **path, struct error *error)
{
	const struct debuginfod_request request = {.progress = progress, .arg = arg};
	struct debuginfod_library library;
	void *handle = optional_library_load(&debuginfod_library, &library, error);
	int fd;

	if (!handle)
		return -EOPNOTSUPP;
	current = &request;
	fd = find_debuginfo(&library, build_id, path, error);
	current = NULL;
	dlclose(handle);
	return fd;
}
