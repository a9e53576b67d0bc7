// SPDX-License-Identifier: GPL-2.0
/* Symbols of an ELF file. The last 8 bytes of the input are an address to look up. */
#include "fuzz.h"

#include "debuginfo/elf_symbols.h"
#include "lib/error.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static char path[PATH_MAX];
static int fd = -1;

static void remove_file(void)
{
	unlink(path);
}

static void make_file(void)
{
	const char *directory = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/stackbeat-fuzz-XXXXXX", directory ? directory : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		abort();
	atexit(remove_file);
}

static void look_up(const struct elf_file *file, uint64_t address)
{
	struct symbol symbol;
	uint64_t vaddr;

	if (!elf_vaddr(file, address, &vaddr))
		vaddr = address;
	if (elf_lookup(file, vaddr, &symbol) && (symbol.start > vaddr || strlen(symbol.name) == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file file = {0};
	struct error problem = {""};
	uint64_t address = 0;

	if (fd < 0)
		make_file();
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (size >= sizeof(address))
		memcpy(&address, data + size - sizeof(address), sizeof(address));
	if (elf_read(&file, fd, NULL, 0, true, &problem) && !*problem.text)
		abort();
	look_up(&file, address);
	look_up(&file, 0x401000);
	look_up(&file, 0x1000);
	elf_clear(&file);
	return 0;
}
