// SPDX-License-Identifier: GPL-2.0
/*
 * frameless MODE [DEPTH [ROUNDS [MAPPINGS PLAIN INTERVAL]]]
 *
 * Works at the bottom of DEPTH calls of descend(), without frame pointers: main, descend (DEPTH
 * times), and then by MODE
 *	plain		spin
 *	sort		qsort of libc, compare, spin
 *	signal		on_signal, in a handler on the same stack, spin
 *	altstack	the same, on an alternate stack
 *	register	cfa_in_rax, count_down
 *	toggle		spin; each INTERVAL microseconds, the first of MAPPINGS executable pages
 *beside the program's files is made writable, and executable again
 *	remap		the same, but another page of the program is mapped there
 * With MAPPINGS, there are PLAIN mappings of data, too.
 * spin() works and returns, again and again.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "work.h"

static u64 rounds;

static NOINLINE u64 spin(u64 iterations)
{
	u64 sum = iterations;

	while (iterations--)
		__asm__ volatile("" : "+r"(sum));
	return sum;
}

static NOINLINE u64 work_rounds(u64 seed)
{
	u64 sum = seed;

	for (u64 i = 0; i < rounds; i++)
		sum += spin(100);
	return sum;
}

/* As in OpenSSL's AES-GCM: during the call, the frame is found by rax, which the callee leaves
 * alone. */
void cfa_in_rax(u64 iterations);
__asm__(".type count_down, @function\n"
	"count_down: .cfi_startproc\n"
	"	dec %rdi\n"
	"	jnz count_down\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size count_down, . - count_down\n"
	"	.type cfa_in_rax, @function\n"
	"cfa_in_rax: .cfi_startproc\n"
	"	lea (%rsp), %rax\n"
	"	.cfi_def_cfa_register %rax\n"
	"	and $-128, %rsp\n"
	"	sub $128, %rsp\n"
	"	call count_down\n"
	"	lea (%rax), %rsp\n"
	"	.cfi_def_cfa_register %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size cfa_in_rax, . - cfa_in_rax\n");

static NOINLINE int compare(const void *a, const void *b)
{
	return work_rounds(*(const u64 *)a) < *(const u64 *)b;
}

static NOINLINE void on_signal(int number)
{
	work_rounds((u64)number);
}

#define PAGE 4096

static char *changed_page;
static int program; /* -1: the page is toggled */
static off_t program_offset;

static void page_protect(char *page, int protection)
{
	if (mprotect(page, PAGE, protection))
		abort();
}

static void on_alarm(int number)
{
	(void)number;
	if (program >= 0) {
		program_offset ^= PAGE;
		if (mmap(changed_page, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
			 program, program_offset) == MAP_FAILED)
			abort();
		return;
	}
	page_protect(changed_page, PROT_READ | PROT_WRITE);
	page_protect(changed_page, PROT_READ | PROT_EXEC);
}

/* Makes every second page one with this protection: each page is a mapping. */
static char *pages_map(u64 count, int protection)
{
	char *pages = mmap(NULL, (count + 1) * 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		abort();
	for (u64 i = 0; i < count; i++)
		page_protect(pages + i * 2 * PAGE, protection);
	return pages;
}

static void pages_change(const char *mode, char **numbers)
{
	suseconds_t interval = (suseconds_t)strtoull(numbers[2], NULL, 10);
	struct itimerval timer = {.it_interval.tv_usec = interval, .it_value.tv_usec = interval};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	program = strcmp(mode, "remap") ? -1 : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	pages_map(strtoull(numbers[1], NULL, 10) / 2, PROT_READ);
	changed_page = pages_map(strtoull(numbers[0], NULL, 10), PROT_READ | PROT_EXEC);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static NOINLINE u64 bottom(const char *mode)
{
	u64 numbers[2] = {1, 2};

	if (!strcmp(mode, "sort"))
		qsort(numbers, 2, sizeof(*numbers), compare);
	else if (!strcmp(mode, "plain") || !strcmp(mode, "toggle") || !strcmp(mode, "remap"))
		return work_rounds(numbers[1]);
	else if (!strcmp(mode, "register"))
		cfa_in_rax(rounds);
	else
		kill(getpid(), SIGUSR1);
	return numbers[0];
}

/* Its frame is not of constant size, and its caller has another frame. */
static NOINLINE u64 descend(u64 depth, const char *mode)
{
	volatile char bytes[40];

	bytes[depth % sizeof(bytes)] = (char)depth;
	return depth > 1 ? descend(depth - 1, mode) + (u64)bytes[3] : bottom(mode);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	u64 depth = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
	static char alternate[65536];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = on_signal};

	rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 1ull << 60;
	if (!strcmp(mode, "altstack")) {
		sigaltstack(&stack, NULL);
		action.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGUSR1, &action, NULL);
	if (argc > 6)
		pages_change(mode, argv + 4);
	return !descend(depth, mode);
}
