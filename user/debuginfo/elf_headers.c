// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_headers.h"

#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/worker_call.h"

#define TIMEOUT_MS 5000u

/* What the worker sends. */
struct elf_headers_result {
	char problem[128]; /* "": none */
	struct elf_headers headers;
};

/* The worker */

static void read_segments(int fd, struct elf_headers *headers)
{
	struct elf_file file = {0};
	struct error problem;

	if (elf_read(&file, fd, NULL, 0, false, &problem))
		return;
	for (size_t i = 0; i < file.load_count && i < ELF_HEADERS_SEGMENTS_MAX; i++)
		headers->segments[headers->segment_count++] = file.loads[i];
	elf_clear(&file);
}

void run_headers_worker(const int fds[], size_t count)
{
	struct elf_headers_result *result = count == 2 ? calloc(1, sizeof(*result)) : NULL;
	struct error problem = {""};
	size_t sent = 0;
	ssize_t got = 0;
	Elf *elf;

	if (!result)
		return;
	if (elf_begin_read(fds[0], NULL, 0, true, &elf, &problem) == 0) {
		debug_file_headers(elf, &result->headers);
		elf_end(elf);
		read_segments(fds[0], &result->headers);
	}
	memccpy(result->problem, problem.text, '\0', sizeof(result->problem) - 1);
	while (sent < sizeof(*result) && got >= 0) {
		got = write(fds[1], (const char *)result + sent, sizeof(*result) - sent);
		sent += got > 0 ? (size_t)got : 0;
	}
	free(result);
}

/* The parent */

/* A compromised worker may have sent anything. */
static bool elf_headers_are_valid(struct elf_headers_result *result)
{
	struct elf_headers *headers = &result->headers;
	unsigned char has_dwarf;

	memcpy(&has_dwarf, &headers->has_dwarf, sizeof(has_dwarf));
	return has_dwarf <= 1 && headers->segment_count <= ELF_HEADERS_SEGMENTS_MAX &&
	       !result->problem[sizeof(result->problem) - 1] &&
	       !headers->build_id[sizeof(headers->build_id) - 1] &&
	       (!*headers->build_id || build_id_valid(headers->build_id)) &&
	       !headers->link[sizeof(headers->link) - 1] &&
	       !headers->alt_link[sizeof(headers->alt_link) - 1] &&
	       !headers->alt_build_id[sizeof(headers->alt_build_id) - 1];
}

int worker_read_headers(const struct sandbox_server *server, int fd, struct elf_headers *headers,
			struct error *error)
{
	struct elf_headers_result *result = malloc(sizeof(*result));
	ssize_t got;
	int err = 0;

	if (!result)
		return error_errno(error, ENOMEM, "its headers can't be read");
	got = worker_call(server, WORKER_READ_HEADERS, fd, result, sizeof(*result), TIMEOUT_MS,
			  TIMEOUT_MS);
	if (got < 0)
		err = error_errno(error, (int)-got, "its headers can't be read");
	else if ((size_t)got != sizeof(*result) || !elf_headers_are_valid(result))
		err = error_set(error, EBADMSG, "its headers can't be read");
	else if (*result->problem)
		err = error_set(error, EINVAL, "%s", result->problem);
	else
		*headers = result->headers;
	free(result);
	return err;
}
