// SPDX-License-Identifier: GPL-2.0
/*
 * sharer
 *
 * Prints "ready" when its libraries are mapped, and works until there is input; then a child that
 * shares the memory creates one executable mapping and exits. Prints the address of the mapping,
 * and works on.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(int wait)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	while (wait < 0 || !poll(&input, 1, wait))
		;
}

int main(void)
{
	static void *volatile mapping = MAP_FAILED;
	pid_t child;

	puts("ready");
	fflush(stdout);
	work(0);
	child = vfork();
	if (!child) {
		mapping =
			mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0 || mapping == MAP_FAILED)
		return 1;
	printf("%p\n", mapping);
	fflush(stdout);
	work(-1);
	return 0;
}
