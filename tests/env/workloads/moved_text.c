// SPDX-License-Identifier: GPL-2.0
/*
 * moved_text overlay|remap|generate
 *
 * Works in inner(), called by middle() and outer(), for ever, without frame pointers. Before that:
 *
 * overlay	maps anonymous memory over its text, and copies the text there
 * remap	copies its text to anonymous memory, and moves that over the text by mremap()
 * generate	maps anonymous memory over a part of its text, place(), and calls code that it
 *generates there
 *
 * The functions that move the text have pages of their own, behind it.
 */
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096ul
#define MOVER __attribute__((section("mover"), noipa, aligned(4096)))

static volatile unsigned long work_left = 1;

static __attribute__((noipa)) void inner(unsigned long iterations)
{
	__asm__ volatile("1:	dec %0\n"
			 "	jnz 1b"
			 : "+r"(iterations)
			 :
			 : "cc");
}

static __attribute__((noipa)) void middle(void)
{
	inner(100000);
	__asm__ volatile("");
}

static __attribute__((noipa)) void outer(void)
{
	for (int i = 0; i < 100; i++)
		middle();
	__asm__ volatile("");
}

/* Two pages, of which the second one starts within the function. */
static __attribute__((noipa, aligned(4096))) void place(void)
{
	__asm__ volatile(".skip 8192, 0x90");
}

/* The C library may be called by no code that is moved. */
static inline __attribute__((always_inline)) long
system_call(long number, unsigned long first, unsigned long second, unsigned long third,
	    unsigned long fourth, unsigned long fifth)
{
	register unsigned long r10 __asm__("r10") = fourth, r8 __asm__("r8") = fifth,
				   r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

MOVER static void overlay(unsigned long start, unsigned long size, const unsigned char *copy)
{
	volatile unsigned char *to = (unsigned char *)start;

	system_call(SYS_mmap, start, size, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1ul);
	for (unsigned long i = 0; i < size; i++)
		to[i] = copy[i];
	system_call(SYS_mprotect, start, size, PROT_READ | PROT_EXEC, 0, 0);
}

MOVER static void remap(unsigned long start, unsigned long size, const unsigned char *copy)
{
	system_call(SYS_mprotect, (unsigned long)copy, size, PROT_READ | PROT_EXEC, 0, 0);
	system_call(SYS_mremap, (unsigned long)copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		    start);
}

/* The first object is the program. */
static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long *start = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && (header->p_flags & PF_X))
			*start = (info->dlpi_addr + header->p_vaddr) & -PAGE;
	}
	return 1;
}

static void move(void (*mover)(unsigned long, unsigned long, const unsigned char *))
{
	const unsigned long end = (unsigned long)overlay < (unsigned long)remap
					  ? (unsigned long)overlay
					  : (unsigned long)remap;
	unsigned long start = 0, size;
	unsigned char *copy;

	dl_iterate_phdr(find_text, &start);
	size = end - start;
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, (void *)start, size);
	mover(start, size, copy);
}

static void run_generated(void)
{
	/* 1: dec %rdi; jnz 1b; ret */
	static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
	unsigned char *to = mmap((void *)place, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	memcpy(to, code, sizeof(code));
	while (work_left)
		((void (*)(unsigned long))(uintptr_t)to)(100000);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "overlay"))
		move(overlay);
	else if (!strcmp(argv[1], "remap"))
		move(remap);
	else if (!strcmp(argv[1], "generate"))
		run_generated();
	else
		return 2;
	while (work_left)
		outer();
	return 0;
}
