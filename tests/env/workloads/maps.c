// SPDX-License-Identifier: GPL-2.0
/*
 * maps MODE [COUNT [ITERATIONS [DIR]]]
 *
 * Creates executable mappings like a JIT. Each begins with a function without a symbol, which is
 * called from _start, main, call. MODE:
 *
 *	regions	COUNT mappings; each is called once, for ITERATIONS
 *	huge	one mapping with MAP_HUGETLB; called COUNT times
 *	thp	one mapping with transparent huge pages; called COUNT times
 *	many	COUNT mappings, every other one executable, in ITERATIONS (1) processes
 *	storm	maps and unmaps one page COUNT times
 *	files	COUNT mappings, each of a new file in DIR
 *	abuse	as `many` in one process, and then as `storm`, forever
 *	bursts	as `many` in one process, and then, forever, works a while, and as `storm` 900 times
 *	patches	as `many` in one process, and then, forever, works for ITERATIONS, and
 *		makes a page of code writable and executable again
 *	compiles as `patches`, with a new page of code each time
 *
 * The modes many, files, abuse, bursts, patches and compiles print "ready" when the mappings exist,
 * and work forever; regions and storm work for a while first, so that a session knows the process.
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
/* Less than the mapping events that the module keeps. */
#define BURST 900

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

/* A page of code, and an inaccessible one, so that the kernel does not merge neighbours. */
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
	/* Fails on kernels without transparent huge pages, as with PREEMPT_RT. */
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

/* The first process prints "ready" when all are forked; the others die with it. */
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

/* Each mprotect() creates two mappings of a page each. */
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

static NOINLINE void patches(u64 iterations, int again)
{
	long address = region();

	print("ready\n");
	for (;;) {
		work(iterations);
		if (again) {
			protect(address, PAGE, PROT_READ | PROT_WRITE);
			protect(address, PAGE, PROT_READ | PROT_EXEC);
		} else {
			region();
		}
	}
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
	else if (mode == 'm' || mode == 'a' || mode == 'b' || mode == 'p' || mode == 'c')
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
	if (mode == 'p' || mode == 'c')
		patches(iterations, mode == 'p');
	if (mode == 'b')
		print("ready\n");
	while (mode == 'b') {
		work(10 * WARM_UP);
		storm(BURST);
	}
	if (mode == 'm' || mode == 'f') {
		last = region();
		multiply(mode == 'm' ? argument(argc, argv, 3, 1) : 1);
		call(last, 1ull << 62);
	}
	return 0;
}
