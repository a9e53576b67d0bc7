// SPDX-License-Identifier: GPL-2.0
#include "mappings/mapped_vdso.h"

#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/build_id.h"
#include "mappings/file_table.h"

#define VDSO "[vdso]"

/* Returns an fd with a copy of the vdso, or -1. */
static int mapped_files_copy_vdso(const ElfW(Ehdr) * header)
{
	/* The section headers are at the end of the image. */
	size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	int fd = memfd_create(VDSO, MFD_CLOEXEC);

	/* A memfd can be written by others, unless its mode says otherwise. */
	if (fd >= 0 && !fchmod(fd, 0400) && write(fd, header, size) == (ssize_t)size)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The image is the kernel's: it is parsed here, so that archives find it by its build ID. */
static void read_vdso_build_id(const ElfW(Ehdr) * header, char hex[BUILD_ID_SIZE])
{
	const char *image = (const char *)header;
	const ElfW(Phdr) *segments = (const void *)(image + header->e_phoff);

	*hex = '\0';
	for (size_t i = 0; i < header->e_phnum; i++) {
		if (segments[i].p_type == PT_NOTE &&
		    build_id_from_notes(image + segments[i].p_offset, segments[i].p_filesz,
					segments[i].p_align, hex))
			return;
	}
}

struct mapped_file *mapped_files_vdso(struct mapped_files *files)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	char build_id[BUILD_ID_SIZE];
	struct file_entry *vdso;
	int fd;

	if (files->vdso)
		return &files->vdso->file;
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	read_vdso_build_id(header, build_id);
	fd = mapped_files_copy_vdso(header);
	vdso = fd >= 0 ? file_table_add(files) : NULL;
	if (!vdso || file_entry_set_text(files, vdso, VDSO, build_id)) {
		if (vdso)
			file_table_forget(files, vdso);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	file_entry_keep(files, vdso, fd);
	vdso->state = FILE_OPENED;
	vdso->holds = 1;
	vdso->stays = true;
	files->vdso = vdso;
	return &vdso->file;
}

uint32_t mapped_files_vdso_index(const struct mapped_files *files)
{
	return files->vdso ? files->vdso->file.index : UINT32_MAX;
}
