// SPDX-License-Identifier: GPL-2.0
/*
 * vdso [COUNT]
 *
 * Reads the clock COUNT times by the kernel's vdso: _start, main, read_clock,
 * __vdso_clock_gettime.
 */
#include <elf.h>

#include "bare.h"

typedef int clock_function(int clock, void *time);

static int is_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* Searches the auxiliary vector, which follows the environment, which follows the arguments. */
static NOINLINE const char *find_vdso(char **argv)
{
	const Elf64_auxv_t *entry;

	keep_frame();
	while (*argv)
		argv++;
	argv++;
	while (*argv)
		argv++;
	for (entry = (const Elf64_auxv_t *)(argv + 1); entry->a_type != AT_NULL; entry++)
		if (entry->a_type == AT_SYSINFO_EHDR)
			return (const char *)entry->a_un.a_val;
	return 0;
}

/* The vdso is linked at address 0, and its memory is the image of its file. */
static NOINLINE clock_function *find_function(const char *vdso, const char *name)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)vdso;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(vdso + header->e_shoff);
	const Elf64_Sym *symbol, *end;
	const char *names;
	int index;

	keep_frame();
	for (index = 0; index < header->e_shnum; index++)
		if (sections[index].sh_type == SHT_DYNSYM)
			break;
	if (index == header->e_shnum)
		return 0;
	symbol = (const Elf64_Sym *)(vdso + sections[index].sh_offset);
	end = symbol + sections[index].sh_size / sizeof(*symbol);
	names = vdso + sections[sections[index].sh_link].sh_offset;
	for (; symbol < end; symbol++)
		if (is_same(names + symbol->st_name, name))
			return (clock_function *)(vdso + symbol->st_value);
	return 0;
}

static NOINLINE void read_clock(clock_function *function, u64 count)
{
	long time[2];

	/* 1: CLOCK_MONOTONIC */
	while (count--)
		function(1, time);
}

NOINLINE int main(int argc, char **argv)
{
	const char *vdso = find_vdso(argv);
	clock_function *function = vdso ? find_function(vdso, "__vdso_clock_gettime") : 0;

	if (!function)
		return 1;
	read_clock(function, argument(argc, argv, 1, 10000000));
	return 0;
}
