/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Start code for programs without a C library, for x86-64 and i386. Debian's C library is built
 * without frame pointers, and calls main() with a frame pointer that points to no frame, so the
 * outermost frames of programs that use it are unpredictable. Here stacks are _start, main, ...,
 * and the frame pointer of _start is 0.
 */
#ifndef BARE_H
#define BARE_H

#include "work.h"

int main(int argc, char **argv);

#ifdef __x86_64__
#define SYS_READ 0
#define SYS_WRITE 1
#define SYS_OPEN 2
#define SYS_CLOSE 3
#define SYS_POLL 7
#define SYS_MMAP 9
#define SYS_MPROTECT 10
#define SYS_MUNMAP 11
#define SYS_PREAD64 17
#define SYS_MADVISE 28
#define SYS_SENDFILE 40
#define SYS_FORK 57
#define SYS_VFORK 58
#define SYS_EXECVE 59
#define SYS_WAIT4 61
#define SYS_FTRUNCATE 77
#define SYS_UNLINK 87
#define SYS_PRCTL 157
#define SYS_FUTEX 202
#define SYS_CLOCK_GETTIME 228
#define SYS_EXIT_GROUP 231

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov (%rsp), %edi\n"
	"	lea 8(%rsp), %rsi\n"
	"	and $-16, %rsp\n"
	"	call main\n"
	"	mov %eax, %edi\n"
	"	mov $231, %eax\n"
	"	syscall\n"
	"	hlt\n"
	".size _start, . - _start\n");

static inline long system_call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x20

/* mmap() at offset 0 of a file or of anonymous memory. Returns the address or a negative errno. */
static inline long map(u64 length, long protection, long flags, long file)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = file;
	register long r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(SYS_MMAP), "D"(0), "S"(length), "d"(protection), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#else
#define SYS_WRITE 4
#define SYS_OPEN 5
#define SYS_PREAD64 180
#define SYS_EXIT_GROUP 252

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov (%esp), %eax\n"
	"	lea 4(%esp), %edx\n"
	"	push %edx\n"
	"	push %eax\n"
	"	call main\n"
	"	mov %eax, %ebx\n"
	"	mov $252, %eax\n"
	"	int $0x80\n"
	"	hlt\n"
	".size _start, . - _start\n");

/* The fifth argument, the upper half of an offset, is 0. */
static inline long system_call(long number, long a, long b, long c, long d)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "0"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(0)
			 : "memory");
	return result;
}
#endif

/* The argument `index` as a decimal number, or `otherwise` if it is missing. */
static inline __attribute__((always_inline)) u64 argument(int argc, char **argv, int index,
							  u64 otherwise)
{
	u64 value = 0;
	const char *at;

	if (index >= argc)
		return otherwise;
	for (at = argv[index]; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (*at - '0');
	return value;
}

static inline void print(const char *text)
{
	long length = 0;

	while (text[length])
		length++;
	system_call(SYS_WRITE, 1, (long)text, length, 0);
}

#ifdef __x86_64__
#define DIGITS_SIZE 21

/* Formats a number at the end of `digits`. */
static inline char *decimal(u64 value, char digits[DIGITS_SIZE])
{
	char *at = digits + DIGITS_SIZE - 1;

	*at = 0;
	do {
		*--at = '0' + value % 10;
		value /= 10;
	} while (value);
	return at;
}

static inline void print_number(u64 value)
{
	char digits[DIGITS_SIZE];

	print(decimal(value, digits));
}

/* CPU time of this process in ns, as the kernel accounts it. */
static inline u64 cpu_time(void)
{
	struct {
		long seconds, nanoseconds;
	} time;

	/* 2: CLOCK_PROCESS_CPUTIME_ID */
	system_call(SYS_CLOCK_GETTIME, 2, (long)&time, 0, 0);
	return time.seconds * 1000000000ULL + time.nanoseconds;
}
#endif

#endif
