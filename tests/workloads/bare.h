/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program's beginning without a C library, for x86-64 and i386. Debian's
 * library is built without frame pointers, and what it leaves in the register
 * when it calls main() is no frame: the stack of a program that is linked with
 * it has no end that could be known in advance. Here it is _start, main, ...,
 * and the frame pointer of _start is 0.
 */
#ifndef BARE_H
#define BARE_H

typedef unsigned long long u64;

#define NOINLINE __attribute__((noipa))

int main(int argc, char **argv);

#ifdef __x86_64__
#define SYS_WRITE 1
#define SYS_PREAD64 17
#define SYS_FORK 57
#define SYS_WAIT4 61
#define SYS_OPEN 2
#define SYS_PRCTL 157
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

/*
 * For functions that call nothing: gcc leaves out the frame of one that does
 * not touch its stack, whatever it was told.
 */
static inline __attribute__((always_inline)) void keep_frame(void)
{
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
}

/* The work of all programs: two instructions an iteration, no memory. */
static inline __attribute__((always_inline)) void work(unsigned long iterations)
{
	keep_frame();
	__asm__ volatile("1:	dec %0\n"
			 "	jnz 1b"
			 : "+r"(iterations)
			 :
			 : "cc");
}

/* The decimal number that is the argument `index`, or `otherwise`. */
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
static inline void print_number(u64 value)
{
	char digits[21];
	char *at = digits + sizeof(digits) - 1;

	*at = 0;
	do {
		*--at = '0' + value % 10;
		value /= 10;
	} while (value);
	print(at);
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
