// SPDX-License-Identifier: GPL-2.0
/*
 * chains MODE SECONDS [LIBRARY [LIBRARY]]
 *
 * Works for SECONDS of CPU time in inner(), which middle() calls, which outer() calls, where
 * profilers lose names or callers:
 *
 * library: in a library.
 *
 * replaced-library: in a library that another one replaces, as a package manager does.
 *
 * moved-pages: in a library whose later pages of text are moved to other memory at the same
 * addresses, for huge pages.
 *
 * moved-library: the same with all of its text. Nothing of its file stays mapped as executable.
 *
 * jit-deleted-file: in generated code in a file that is mapped twice, and deleted.
 *
 * jit-recompiled: in generated code that replaces other code, and its name in the perf map.
 *
 * jit-forked: in generated code of the parent process, in a child.
 *
 * val-offset: in a function whose caller's %rbp is a value that has no place
 * (DW_CFA_val_offset_sf).
 *
 * val-expression: the same by DW_CFA_val_expression.
 *
 * switched-stack: in a coroutine with a hand-written switch, whose first return address is 0.
 *
 * raw-clone: in a thread that was made by the system call alone, in code without call frame
 * information.
 *
 * thread: in a thread of the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chain.h"

#define PAGE 4096ul
#define STACK_WORDS 8192u
#define NOINLINE __attribute__((noinline))

static double seconds;

static void fail(const char *what)
{
	fprintf(stderr, "chains: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Whether a part of the time is over. */
static bool is_over(double part)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9 >= part * seconds;
}

static NOINLINE void work(void (*function)(void), double part)
{
	while (!is_over(part))
		function();
	__asm__ volatile("");
}

/* Libraries */

/* Copies a library to another file, which replaces what has the name `to`. */
static void install(const char *from, const char *to)
{
	char name[256], bytes[4096];
	const int in = open(from, O_RDONLY);
	ssize_t count;
	int out;

	snprintf(name, sizeof(name), "%s.new", to);
	out = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (in < 0 || out < 0)
		fail(name);
	while ((count = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)count) != count)
			fail(name);
	if (count || rename(name, to))
		fail(to);
	close(in);
	close(out);
}

static void (*load_outer(const char *library))(void)
{
	void *handle = dlopen(library, RTLD_NOW);
	void (*function)(void) = NULL;

	if (handle)
		*(void **)&function = dlsym(handle, "outer");
	if (!function)
		fail(library);
	return function;
}

static void replaced_library(const char *library, const char *other)
{
	void (*function)(void);
	char path[64];

	snprintf(path, sizeof(path), "/tmp/chains-%d.so", getpid());
	install(library, path);
	function = load_outer(path);
	install(other, path);
	work(function, 1);
	unlink(path);
}

struct text {
	uintptr_t address; /* within it */
	uintptr_t start, end;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct text *text = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const uintptr_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_LOAD && header->p_flags & PF_X && text->address >= start &&
		    text->address < start + header->p_memsz) {
			text->start = start & -PAGE;
			text->end = (start + header->p_memsz + PAGE - 1) & -PAGE;
			return 1;
		}
	}
	return 0;
}

/* Moves the text of a library, or only its pages from the functions on. */
static void move_text(const char *library, bool all)
{
	void (*function)(void) = load_outer(library);
	struct text text = {.address = (uintptr_t)function};
	void *copy;
	size_t size;

	if (!dl_iterate_phdr(find_text, &text))
		fail("no text");
	if (!all)
		text.start = (uintptr_t)function & -PAGE;
	size = text.end - text.start;
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		fail("mmap");
	memcpy(copy, (void *)text.start, size);
	if (mprotect(copy, size, PROT_READ | PROT_EXEC) ||
	    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)text.start) ==
		    MAP_FAILED)
		fail("mremap");
	work(function, 1);
}

/* Generated code, with frame pointers */

/* push %rbp; mov %rsp, %rbp; mov $2000000, %ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
static const unsigned char generated_inner[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x80, 0x84, 0x1e,
						0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
/* push %rbp; mov %rsp, %rbp; call .+0x3c; pop %rbp; ret */
static const unsigned char generated_outer[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0x37,
						0x00, 0x00, 0x00, 0x5d, 0xc3};

/* Where the generated functions are written, and where they are called. */
struct code {
	unsigned char *write, *call;
	FILE *map;
};

#define INNER_OFFSET 64u

static struct code generate(unsigned char *to, unsigned char *address)
{
	struct code code = {.write = to, .call = address};
	char path[64];

	memcpy(to, generated_outer, sizeof(generated_outer));
	memcpy(to + INNER_OFFSET, generated_inner, sizeof(generated_inner));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	code.map = fopen(path, "w");
	if (!code.map)
		fail(path);
	fprintf(code.map, "%lx %zx generated_outer\n%lx %zx generated_inner\n", (long)address,
		sizeof(generated_outer), (long)(address + INNER_OFFSET), sizeof(generated_inner));
	fflush(code.map);
	return code;
}

static struct code generate_in_memory(void)
{
	unsigned char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return generate(memory, memory);
}

static void (*function_of(const struct code *code))(void)
{
	return (void (*)(void))(uintptr_t)code->call;
}

static void jit_deleted_file(void)
{
	struct code code;
	unsigned char *to, *address;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/chains-%d.code", getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || unlink(path) || ftruncate(fd, PAGE))
		fail(path);
	to = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	address = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (to == MAP_FAILED || address == MAP_FAILED)
		fail("mmap");
	code = generate(to, address);
	work(function_of(&code), 1);
}

static NOINLINE void before(const struct code *code)
{
	work(function_of(code), 0.5);
	__asm__ volatile("");
}

static NOINLINE void after(const struct code *code)
{
	work(function_of(code), 1);
	__asm__ volatile("");
}

/* The code that is generated later is the same, but has another name. */
static void jit_recompiled(void)
{
	struct code code = generate_in_memory();

	before(&code);
	memset(code.write + INNER_OFFSET, 0xcc, sizeof(generated_inner));
	memcpy(code.write + INNER_OFFSET, generated_inner, sizeof(generated_inner));
	fprintf(code.map, "%lx %zx recompiled_inner\n", (long)(code.call + INNER_OFFSET),
		sizeof(generated_inner));
	fflush(code.map);
	after(&code);
}

static void jit_forked(void)
{
	struct code code = generate_in_memory();
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid)
		work(function_of(&code), 1);
	else
		waitpid(pid, NULL, 0);
}

/*
 * Values of registers. The frame of a caller is found by %rbp only. Its callee uses %rbp, as
 * assembly of ciphers does, does not save it, and computes it again before it returns: it is the
 * address of the frame plus 64.
 */

void by_offset(void);
void by_expression(void);

__asm__(".macro	rule_function name, callee, rule:vararg\n"
	"	.p2align 4\n"
	"	.type	\\name, @function\n"
	"\\name:\n"
	"	.cfi_startproc\n"
	"	push	%rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov	%rsp, %rbp\n"
	"	.cfi_def_cfa %rbp, 16\n"
	"	sub	$64, %rsp\n"
	"	call	\\callee\n"
	"	mov	%rbp, %rsp\n"
	"	.cfi_def_cfa %rsp, 16\n"
	"	pop	%rbp\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	\\name, . - \\name\n"
	"	.p2align 4\n"
	"	.type	\\callee, @function\n"
	"\\callee:\n"
	"	.cfi_startproc\n"
	"	.cfi_escape \\rule\n"
	"	mov	$2000000, %ebp\n"
	"1:	dec	%ebp\n"
	"	jnz	1b\n"
	"	lea	72(%rsp), %rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	\\callee, . - \\callee\n"
	".endm\n"
	".text\n"
	/* DW_CFA_val_offset_sf %rbp, -8 * data alignment */
	"rule_function by_offset, offset_inner, 0x15, 6, 0x78\n"
	/* DW_CFA_val_expression %rbp: DW_OP_const1u 64, DW_OP_plus */
	"rule_function by_expression, expression_inner, 0x16, 6, 3, 0x08, 0x40, 0x22\n");

/* Stacks of their own */

static uint64_t stack[STACK_WORDS] __attribute__((aligned(64)));
static uint64_t *main_stack, *coroutine_stack;

void switch_stack(uint64_t **save, uint64_t *to);

__asm__(".text\n"
	"	.p2align 4\n"
	"	.type	switch_stack, @function\n"
	"switch_stack:\n"
	"	.cfi_startproc\n"
	"	push	%rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push	%rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push	%r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push	%r13\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push	%r14\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push	%r15\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov	%rsp, (%rdi)\n"
	"	mov	%rsi, %rsp\n"
	"	pop	%r15\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop	%r14\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop	%r13\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop	%r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop	%rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop	%rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	switch_stack, . - switch_stack\n");

static NOINLINE void coroutine(void)
{
	for (;;) {
		outer();
		switch_stack(&coroutine_stack, main_stack);
	}
}

/* The registers that the switch takes from the stack, the function, and its return address. */
static void switched_stack(void)
{
	coroutine_stack = &stack[STACK_WORDS - 10];
	coroutine_stack[6] = (uintptr_t)coroutine;
	while (!is_over(1))
		switch_stack(&main_stack, coroutine_stack);
}

/* As the C library musl does; a frame pointer of 0 marks the outermost frame. */
long raw_clone(unsigned long flags, void *stack_end, void (*function)(void));

__asm__(".text\n"
	"	.p2align 4\n"
	"	.type	raw_clone, @function\n"
	"raw_clone:\n"
	"	mov	%rdx, %r9\n"
	"	mov	$56, %eax\n"
	"	xor	%edx, %edx\n"
	"	xor	%r10d, %r10d\n"
	"	xor	%r8d, %r8d\n"
	"	syscall\n"
	"	test	%eax, %eax\n"
	"	jnz	1f\n"
	"	xor	%ebp, %ebp\n"
	"	call	*%r9\n"
	"	mov	%eax, %edi\n"
	"	mov	$60, %eax\n"
	"	syscall\n"
	"	hlt\n"
	"1:	ret\n"
	"	.size	raw_clone, . - raw_clone\n");

static NOINLINE void thread_function(void)
{
	work(outer, 1);
	syscall(SYS_exit_group, 0);
	__asm__ volatile("");
}

static void raw_clone_thread(void)
{
	/* Words that are no return addresses. */
	memset(stack, 0x5a, sizeof(stack));
	if (raw_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			      CLONE_SYSVSEM,
		      &stack[STACK_WORDS - 64], thread_function) < 0)
		fail("clone");
	for (;;)
		pause();
}

static NOINLINE void *run_thread(void *arg)
{
	work(outer, 1);
	return arg;
}

static void thread(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, run_thread, NULL))
		fail("pthread_create");
	pthread_join(id, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
	if (!strcmp(mode, "library") && argc == 4)
		work(load_outer(argv[3]), 1);
	else if (!strcmp(mode, "replaced-library") && argc == 5)
		replaced_library(argv[3], argv[4]);
	else if (!strcmp(mode, "moved-library") && argc == 4)
		move_text(argv[3], true);
	else if (!strcmp(mode, "moved-pages") && argc == 4)
		move_text(argv[3], false);
	else if (!strcmp(mode, "jit-deleted-file"))
		jit_deleted_file();
	else if (!strcmp(mode, "jit-recompiled"))
		jit_recompiled();
	else if (!strcmp(mode, "jit-forked"))
		jit_forked();
	else if (!strcmp(mode, "val-offset"))
		work(by_offset, 1);
	else if (!strcmp(mode, "val-expression"))
		work(by_expression, 1);
	else if (!strcmp(mode, "switched-stack"))
		switched_stack();
	else if (!strcmp(mode, "raw-clone"))
		raw_clone_thread();
	else if (!strcmp(mode, "thread"))
		thread();
	else
		return 2;
	return 0;
}
