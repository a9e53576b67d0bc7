// SPDX-License-Identifier: GPL-2.0
/*
 * maps MODE [COUNT [ITERATIONS [DIR]]]
 *
 * Makes executable memory, as a JIT does, which begins with a function: a call
 * of it is in _start, main, call, where it has no name. MODE:
 *
 *	regions	COUNT mappings; each is called once, for ITERATIONS
 *	huge	one, of a huge page that was asked for; called COUNT times
 *	thp	one that the kernel may make of huge pages; called COUNT times
 *	many	COUNT mappings, every other one executable, in ITERATIONS (1) processes
 *	storm	COUNT times one mapping is made and unmapped
 *	files	COUNT mappings, each of a new file in DIR
 *	abuse	as many in one process, and then as storm, for ever
 *
 * With many, files and abuse it says "ready" when it has them, and works for ever; with
 * regions and storm it works a while before, to be known to who samples it.
 */
#include "bare.h"

#define PAGE 4096ul
#define HUGE_PAGE (2ul << 20)
#define MAP_HUGETLB 0x40000
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define MADV_HUGEPAGE 14
/* O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC */
#define NEW_FILE 02000302
#define PATH_SIZE 128
#define WARM_UP 20000000

typedef void function(u64 iterations);

/* push %rbp; mov %rsp, %rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff,
				     0xcf, 0x75, 0xfb, 0x5d, 0xc3};

static NOINLINE void call(long address, u64 iterations)
{
	((function *)address)(iterations);
	keep_frame();
}

static NOINLINE void fail(const char *what)
{
	keep_frame();
	print("maps: ");
	print(what);
	print("\n");
	system_call(SYS_EXIT_GROUP, 1, 0, 0, 0);
}

static long checked(long result, const char *what)
{
	if (result < 0 && result > -4096)
		fail(what);
	return result;
}

static long protect(long address, u64 length, long protection)
{
	return checked(system_call(SYS_MPROTECT, address, length, protection, 0), "mprotect");
}

static NOINLINE void write_code(long address)
{
	volatile unsigned char *to = (unsigned char *)address;
	u64 index;

	keep_frame();
	for (index = 0; index < sizeof(code); index++)
		to[index] = code[index];
}

/* A page of code, and one that is not mapped like it, or the next would be the same mapping. */
static NOINLINE long region(void)
{
	long address = checked(map(2 * PAGE, 0, PRIVATE, -1), "mmap");

	protect(address, PAGE, PROT_READ | PROT_WRITE);
	write_code(address);
	protect(address, PAGE, PROT_READ | PROT_EXEC);
	return address;
}

static NOINLINE void regions(u64 count, u64 iterations)
{
	while (count--)
		call(region(), iterations);
}

static NOINLINE long huge(long flags)
{
	long address = checked(map(2 * HUGE_PAGE, PROT_READ | PROT_WRITE, PRIVATE | flags, -1),
			       "mmap of huge pages");

	address = (address + HUGE_PAGE - 1) & -HUGE_PAGE;
	/* Refused by a kernel that has no such pages, as with PREEMPT_RT. */
	if (!flags)
		system_call(SYS_MADVISE, address, HUGE_PAGE, MADV_HUGEPAGE, 0);
	write_code(address);
	protect(address, HUGE_PAGE, PROT_READ | PROT_EXEC);
	return address;
}

static NOINLINE void call_often(long address, u64 count, u64 iterations)
{
	while (count--)
		call(address, iterations);
}

/* The others end with the first one, which says "ready" when all are there. */
static NOINLINE void multiply(u64 processes)
{
	while (processes-- > 1) {
		if (system_call(SYS_FORK, 0, 0, 0, 0))
			continue;
		/* 1: PR_SET_PDEATHSIG, 9: SIGKILL */
		system_call(SYS_PRCTL, 1, 9, 0, 0);
		return;
	}
	print("ready\n");
}

/* Two in one go: a page of each. */
static NOINLINE void many(u64 count)
{
	long address = checked(map(count * PAGE, PROT_READ, PRIVATE, -1), "mmap");
	u64 index;

	for (index = 0; index < count; index += 2)
		protect(address + index * PAGE, PAGE, PROT_READ | PROT_EXEC);
}

static NOINLINE void storm(u64 count)
{
	long address;

	while (count--) {
		address = checked(map(PAGE, PROT_READ | PROT_EXEC, PRIVATE, -1), "mmap");
		system_call(SYS_MUNMAP, address, PAGE, 0, 0);
	}
}

static NOINLINE void map_file(const char *directory, u64 number)
{
	char path[PATH_SIZE], digits[DIGITS_SIZE];
	char *name = decimal(number, digits);
	int length = 0;
	long file;

	while (directory[length] && length < PATH_SIZE - DIGITS_SIZE - 1) {
		path[length] = directory[length];
		length++;
	}
	path[length++] = '/';
	while ((path[length] = *name++))
		length++;
	file = checked(system_call(SYS_OPEN, (long)path, NEW_FILE, 0755, 0), "open");
	checked(system_call(SYS_FTRUNCATE, file, PAGE, 0, 0), "ftruncate");
	checked(map(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file), "mmap of a file");
	system_call(SYS_CLOSE, file, 0, 0, 0);
}

NOINLINE int main(int argc, char **argv)
{
	u64 count = argument(argc, argv, 2, 0);
	u64 iterations = argument(argc, argv, 3, 1000000);
	char mode = argc > 1 ? argv[1][0] : 0;
	u64 index;
	long last;

	if (mode == 'r' || mode == 's')
		work(WARM_UP);
	if (mode == 'r')
		regions(count, iterations);
	else if (mode == 'h')
		call_often(huge(MAP_HUGETLB), count, iterations);
	else if (mode == 't')
		call_often(huge(0), count, iterations);
	else if (mode == 's')
		storm(count);
	else if (mode == 'm' || mode == 'a')
		many(count);
	else if (mode == 'f' && argc > 4)
		for (index = 0; index < count; index++)
			map_file(argv[4], index);
	else
		return 2;
	if (mode == 'a') {
		print("ready\n");
		storm(1ull << 62);
	}
	if (mode == 'm' || mode == 'f') {
		last = region();
		multiply(mode == 'm' ? argument(argc, argv, 3, 1) : 1);
		call(last, 1ull << 62);
	}
	return 0;
}
