// SPDX-License-Identifier: GPL-2.0
/*
 * jitmap MEMORY WHEN COUNT
 *
 * Works as a program with a JIT compiler: two functions of generated code, which main, call call
 * COUNT times, and the perf map of them. MEMORY has the code:
 *
 *	anon	anonymous memory
 *	memfd	a memory file that is mapped twice, once to write and once to execute
 *	deleted	a deleted file in /tmp
 *	calls	anonymous memory; the code calls a function of the program, which works, and has
 *		no frame pointers: as the trampolines of CPython's -X perf
 *
 * WHEN is the time when the map is written:
 *
 *	start	before the functions run
 *	exit	after the functions have run, right before the end
 *	again	at both times; the first map is another file, with names that are wrong at the end
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536
#define DISTANCE 64

#define NOINLINE __attribute__((noinline))

typedef uint64_t function(uint64_t value, uint64_t (*called)(uint64_t value));

/* push %rbp; mov %rsp, %rbp; mov $1000000, %ecx; 1: imul %rdi, %rax; add %rdi, %rax; dec %ecx;
 * jnz 1b; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f,
				     0x00, 0x48, 0x0f, 0xaf, 0xc7, 0x48, 0x01, 0xf8,
				     0xff, 0xc9, 0x75, 0xf5, 0x5d, 0xc3};

/* sub $8, %rsp; call *%rsi; add $8, %rsp; ret */
static const unsigned char trampoline[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6,
					   0x48, 0x83, 0xc4, 0x08, 0xc3};

static const char *const names[] = {"int jit.Hot.spin(int, a<b>)", "Lcom/example/Other;::get"};

#define FUNCTIONS (sizeof(names) / sizeof(*names))

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned char *map_file(int fd, int protection)
{
	void *memory = mmap(NULL, SIZE, protection, MAP_SHARED, fd, SIZE);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static unsigned char *make_code(int fd, bool calls)
{
	unsigned char *written, *executed;

	if (fd >= 0) {
		if (ftruncate(fd, (off_t)2 * SIZE))
			fail("ftruncate");
		written = map_file(fd, PROT_READ | PROT_WRITE);
		executed = map_file(fd, PROT_READ | PROT_EXEC);
	} else {
		written = executed = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (written == MAP_FAILED)
			fail("mmap");
	}
	for (size_t i = 0; i < FUNCTIONS; i++)
		memcpy(written + i * DISTANCE, calls ? trampoline : code,
		       calls ? sizeof(trampoline) : sizeof(code));
	return executed;
}

static int open_memory(const char *memory)
{
	char path[] = "/tmp/jitmap-XXXXXX";
	int fd = -1;

	if (!strcmp(memory, "memfd")) {
		fd = memfd_create("doublemapper", 0);
	} else if (!strcmp(memory, "deleted")) {
		fd = mkstemp(path);
		unlink(path);
	} else {
		return -1;
	}
	if (fd < 0)
		fail(memory);
	return fd;
}

static void write_map(const unsigned char *start, const char *prefix)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	file = fopen(path, "w");
	if (!file)
		fail(path);
	for (size_t i = 0; i < FUNCTIONS; i++)
		fprintf(file, "%lx %zx %s%s\n", (unsigned long)(start + i * DISTANCE), sizeof(code),
			prefix, names[i]);
	fclose(file);
}

/* What the generated code calls. */
static NOINLINE uint64_t called(uint64_t value)
{
	for (unsigned int i = 0; i < 1000000; i++) {
		value = value * value + value;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

static NOINLINE uint64_t call(const unsigned char *start, unsigned int count)
{
	uint64_t sum = 1;

	for (unsigned int i = 0; i < count; i++)
		sum += ((function *)(uintptr_t)(start + i % FUNCTIONS * DISTANCE))(sum, called);
	return sum;
}

int main(int argc, char **argv)
{
	const unsigned char *start;
	uint64_t sum;

	if (argc != 4)
		return 2;
	start = make_code(open_memory(argv[1]), !strcmp(argv[1], "calls"));
	if (argv[2][0] != 'e')
		write_map(start, argv[2][0] == 'a' ? "old " : "");
	sum = call(start, (unsigned int)atoi(argv[3]));
	if (argv[2][0] != 's')
		write_map(start, "");
	return sum == 7;
}
