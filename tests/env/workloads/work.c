// SPDX-License-Identifier: GPL-2.0
/*
 * work_NN [ITERATIONS [THREADS [MODE [NEXT...]]]]
 *
 * One of WORKERS programs that differ in the name of their working function, which is the name of
 * the program. Stacks: _start, main, work_NN; and in a thread start_thread, run, work_NN. All
 * programs have the same addresses. The main thread and THREADS more threads work ITERATIONS each.
 *
 * Letters of MODE: u unlinks the program's file before the work. After the work, the program NEXT
 * is executed with the rest of the arguments: with v by a child that shares the memory until then,
 * with e by this process itself.
 */
#include "bare.h"

#define THREADS_MAX 8
#define STACK_SIZE 4096
#define NEXT 4

/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, PARENT_SETTID, CHILD_CLEARTID */
#define CLONE_FLAGS 0x350f00

/*
 * clone(): the new thread calls the function whose address is on the top of its stack, with frame
 * pointer 0, and exits when the function returns.
 */
long start_thread(unsigned long flags, void *stack, int *id, int *id_too, u64 argument);
__asm__(".globl start_thread\n"
	".type start_thread, @function\n"
	"start_thread:\n"
	"	mov %rcx, %r10\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %eax, %eax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	xor %ebp, %ebp\n"
	"	mov %r8, %rdi\n"
	"	pop %rax\n"
	"	call *%rax\n"
	"	mov $60, %eax\n"
	"	xor %edi, %edi\n"
	"	syscall\n"
	"	hlt\n"
	".size start_thread, . - start_thread\n");

struct thread {
	int id; /* 0 when the thread has exited */
	_Alignas(16) char stack[STACK_SIZE];
};

static struct thread threads[THREADS_MAX];

static NOINLINE void NAME(u64 iterations)
{
	work(iterations);
}

static NOINLINE void run(u64 iterations)
{
	NAME(iterations);
}

static void start(struct thread *thread, u64 iterations)
{
	void **top = (void **)(thread->stack + STACK_SIZE) - 2;

	*top = run;
	start_thread(CLONE_FLAGS, top, &thread->id, &thread->id, iterations);
}

static void join(struct thread *thread)
{
	int id;

	/* 0: FUTEX_WAIT */
	while ((id = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE)))
		system_call(SYS_FUTEX, (long)&thread->id, 0, id, 0);
}

static int has(const char *mode, char letter)
{
	while (*mode && *mode != letter)
		mode++;
	return *mode == letter;
}

/* The arguments for the next program: the arguments of this program, with the path of the next one
 * first. */
static char **arguments_of_next(int argc, char **argv)
{
	char *next = argv[NEXT];
	int index;

	for (index = NEXT; index > 1; index--)
		argv[index] = argv[index - 1];
	argv[1] = next;
	argv[argc] = 0;
	return argv + 1;
}

NOINLINE int main(int argc, char **argv)
{
	u64 iterations = argument(argc, argv, 1, 1000000);
	u64 count = argument(argc, argv, 2, 0);
	const char *mode = argc > 3 ? argv[3] : "";
	int status = 0;
	char **next;
	u64 index;
	long pid;

	if (count > THREADS_MAX)
		return 2;
	if (has(mode, 'u'))
		system_call(SYS_UNLINK, (long)argv[0], 0, 0, 0);
	for (index = 0; index < count; index++)
		start(&threads[index], iterations);
	NAME(iterations);
	for (index = 0; index < count; index++)
		join(&threads[index]);

	if (argc <= NEXT)
		return 0;
	next = arguments_of_next(argc, argv);
	pid = has(mode, 'v') ? system_call(SYS_VFORK, 0, 0, 0, 0) : 0;
	if (!pid) {
		system_call(SYS_EXECVE, (long)*next, (long)next, 0, 0);
		system_call(SYS_EXIT_GROUP, 127, 0, 0, 0);
	}
	system_call(SYS_WAIT4, pid, (long)&status, 0, 0);
	return status ? 1 : 0;
}
