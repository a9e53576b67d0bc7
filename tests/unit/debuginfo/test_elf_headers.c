// SPDX-License-Identifier: GPL-2.0
/* Headers that a worker reads. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "debuginfo/elf_headers.h"
#include "lib/error.h"
#include "sandbox/fork_server.h"

static void missing_worker_is_an_error(void **state)
{
	const struct sandbox_server gone = {.socket = -1};
	struct elf_headers headers;
	struct error error = {""};

	(void)state;
	assert_int_equal(worker_read_headers(&gone, STDIN_FILENO, &headers, &error), -EBADF);
	assert_string_equal(error.text, "its headers can't be read: Bad file descriptor");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_worker_is_an_error),
	};

	return cmocka_run_group_tests_name("elf_headers", tests, NULL, NULL);
}
