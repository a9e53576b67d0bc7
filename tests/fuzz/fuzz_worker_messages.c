// SPDX-License-Identifier: GPL-2.0
/*
 * The messages of a compromised worker: the worker gets the input as its file, and writes it to its
 * pipe. The first byte selects the number of addresses, and its highest bit whether the
 * job wants code.
 */
#include "file.h"

#include "lib/error.h"
#include "lib/string_table.h"
#include "sandbox/fork_server.h"
#include "symbolize/opener.h"
#include "symbolize/worker_pool.h"

#include <errno.h>
#include <fcntl.h>

#define ADDRESSES_MAX 8u

static void send_input(enum worker_kind kind, const int fds[], size_t count)
{
	const struct open_request request = {.kind = OPEN_BINARY};
	struct open_response response;
	char bytes[4096];
	off_t at = 1;
	ssize_t got;
	int fd = opener_request(fds[WORKER_FD_OPENER], &request, &response);

	(void)kind, (void)count;
	while ((got = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		if (write(fds[WORKER_FD_OUTPUT], bytes, (size_t)got) != got)
			return;
		at += got;
	}
}

static int open_input(void *arg, unsigned int candidate, struct error *error)
{
	(void)error;
	return candidate ? -ENOENT : fcntl(*(const int *)arg, F_DUPFD_CLOEXEC, 0);
}

static int take_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
		      size_t count)
{
	size_t *sum = arg;

	if (job || index >= ADDRESSES_MAX)
		abort();
	for (size_t i = 0; i < count; i++) {
		*sum += lines[i].function ? strlen(lines[i].function) : 0;
		*sum += lines[i].system_name ? strlen(lines[i].system_name) : 0;
		*sum += lines[i].file ? strlen(lines[i].file) : 0;
	}
	return 0;
}

static int take_function(void *arg, size_t job, const struct code_function *function)
{
	size_t *sum = arg;

	if (job || !function->size || function->start + function->size < function->start)
		abort();
	*sum += function->name ? strlen(function->name) : 0;
	return 0;
}

static int take_instruction(void *arg, size_t job, const struct instruction *instruction)
{
	size_t *sum = arg;

	if (job || !instruction->size || instruction->size > INSTRUCTION_BYTES_MAX)
		abort();
	*sum += strlen(instruction->text);
	return 0;
}

static void take_problem(void *arg, const char *path, const char *text)
{
	(void)path;
	*(size_t *)arg += strlen(text);
}

static struct sandbox_server server;

/* Before libFuzzer starts a thread: the server needs a process with one thread. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct error error;

	(void)argc, (void)argv;
	if (sandbox_server_start(&server, send_input, &error))
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t addresses[ADDRESSES_MAX];
	struct string_table strings = {0};
	size_t sum = 0;
	int fd = fuzz_file(data, size);
	const struct worker_pool pool = {
		.options = {.sandbox = &server, .problem = take_problem, .arg = &sum},
		.processes = 1,
		.lines = take_lines,
		.function = take_function,
		.instruction = take_instruction,
		.arg = &sum,
	};
	const struct worker_job job = {
		.path = "p",
		.build_id = "",
		.addresses = addresses,
		.count = size ? 1 + data[0] % ADDRESSES_MAX : 1,
		.open = open_input,
		.arg = &fd,
		.syntax = size && data[0] & 0x80 ? SYNTAX_ATT : SYNTAX_NONE,
	};

	if (worker_pool_run(&pool, &job, 1, &strings))
		abort();
	string_table_clear(&strings);
	return 0;
}
