// SPDX-License-Identifier: GPL-2.0
/*
 * unwind_table FILE|vdso
 *
 * Writes the unwind table of an ELF file, or of the vDSO of this process, to standard output.
 */
#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/cfi.h"
#include "unwind/table_builder.h"

static int add_row(void *builder, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	return table_builder_add(builder, start, end, row);
}

static const unsigned char *read_image(const char *name)
{
	struct stat status;
	void *image;
	int fd;

	if (!strcmp(name, "vdso"))
		return (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
	fd = open(name, O_RDONLY);
	if (fd < 0 || fstat(fd, &status))
		err(1, "%s", name);
	image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		err(1, "%s", name);
	close(fd);
	return image;
}

int main(int argc, char **argv)
{
	const unsigned char *image = read_image(argc == 2 ? argv[1] : "");
	const Elf64_Ehdr *header = (const void *)image;
	const Elf64_Shdr *sections = (const void *)(image + header->e_shoff);
	struct table_builder *builder = table_builder_new();
	struct stackbeat_unwind_table *table;
	struct table_counts table_counts;
	struct cfi_counts cfi_counts;
	int result;

	for (int i = 0; i < header->e_shnum; i++) {
		const char *name = (const char *)image + sections[header->e_shstrndx].sh_offset +
				   sections[i].sh_name;
		struct cfi_section section = {
			.bytes = image + sections[i].sh_offset,
			.size = sections[i].sh_size,
			.vaddr = sections[i].sh_addr,
			.is_eh_frame = true,
		};

		if (!strcmp(name, ".eh_frame") && cfi_read(&section, add_row, builder, &cfi_counts))
			errx(1, "%s: .eh_frame is broken", argv[1]);
	}
	result = table_builder_finish(builder, NULL, &table, &table_counts);
	if (result)
		errx(1, "%s: %s", argv[1], strerror(-result));
	if (fwrite(table, table->size, 1, stdout) != 1)
		err(1, "standard output");
	return 0;
}
