// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_module_elf.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debuginfo/debug_files.h"
#include "debuginfo/elf_symbols.h"
#include "lib/build_id.h"
#include "lib/error.h"

/* Any address except 0, which means that a section has no address yet. */
#define BASE 0x100000u

/* Init sections have a separate allocation, and are freed after initialization. */
static bool is_init_section(const char *name)
{
	return !strncmp(name, ".init", strlen(".init"));
}

/*
 * Computes the offsets of the code sections. The kernel lays them out one after the other in the
 * order of the file, before all other sections (layout_sections() in kernel/module).
 */
static int lay_out_sections(struct kernel_module_elf *module_elf, Elf *elf)
{
	const GElf_Xword code = SHF_ALLOC | SHF_EXECINSTR;
	Elf_Scn *section = NULL;
	uint64_t end = 0;
	GElf_Shdr header;
	size_t names, count;

	if (elf_getshdrnum(elf, &count) != 0 || elf_getshdrstrndx(elf, &names) != 0)
		return -EINVAL;
	module_elf->sections = calloc(count, sizeof(*module_elf->sections));
	if (!module_elf->sections)
		return -ENOMEM;
	while ((section = elf_nextscn(elf, section))) {
		struct kernel_module_section *next = &module_elf->sections[module_elf->count];
		const char *name;

		if (!gelf_getshdr(section, &header) || (header.sh_flags & code) != code)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || is_init_section(name))
			continue;
		if (header.sh_addralign > 1)
			end += -end % header.sh_addralign;
		*next = (struct kernel_module_section){end, header.sh_size, header.sh_addr};
		end += header.sh_size;
		module_elf->count++;
	}
	return 0;
}

static int no_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		  char **file_name, Elf **elf)
{
	(void)module, (void)data, (void)name, (void)base, (void)file_name, (void)elf;
	return -1;
}

static int no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			 const char *file_name, const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)data, (void)name, (void)base, (void)file_name;
	(void)link, (void)crc, (void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = no_elf, .find_debuginfo = no_debug_file};

/* Passes the file to libdwfl, which assigns an address to each section. */
static Dwfl_Module *report_file(struct kernel_module_elf *module_elf, int fd, const char *path)
{
	Dwfl_Module *module;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return NULL;
	module_elf->session = dwfl_begin(&callbacks);
	module = module_elf->session
			 ? dwfl_report_elf(module_elf->session, path, path, own, BASE, false)
			 : NULL;
	if (!module) {
		close(own);
		return NULL;
	}
	return dwfl_report_end(module_elf->session, NULL, NULL) == 0 ? module : NULL;
}

static int kernel_module_elf_read(struct kernel_module_elf *module_elf, Dwfl_Module *module,
				  const char *build_id, struct error *error)
{
	char found[BUILD_ID_SIZE];
	GElf_Ehdr header;
	GElf_Addr bias;
	Dwarf *dwarf;
	Elf *elf = dwfl_module_getelf(module, &bias);

	if (!elf || !gelf_getehdr(elf, &header) || header.e_type != ET_REL)
		return error_set(error, EINVAL, "is not a kernel module");
	debug_build_id(elf, found);
	if (!build_id_equal(found, build_id))
		return error_set(error, ESTALE, "has build ID %s, not %s: not taken", found,
				 build_id);
	dwarf = dwfl_module_getdwarf(module, &bias);
	module_elf->elf = dwarf ? dwarf_getelf(dwarf) : NULL;
	if (!module_elf->elf)
		return -ENODATA;
	return lay_out_sections(module_elf, elf);
}

/*
 * Returns whether a file is the module, and has no DWARF, as modules of distributions: libdwfl
 * applies all relocations before it finds that out.
 */
static bool lacks_dwarf(int fd, const char *build_id)
{
	struct elf_headers headers = {0};
	struct error ignored;
	GElf_Ehdr header;
	bool is_module;
	Elf *elf;

	if (elf_begin_read(fd, NULL, 0, true, &elf, &ignored))
		return false;
	is_module = gelf_getehdr(elf, &header) && header.e_type == ET_REL;
	if (is_module)
		debug_file_headers(elf, &headers);
	elf_end(elf);
	return is_module && build_id_equal(headers.build_id, build_id) && !headers.has_dwarf;
}

int kernel_module_elf_open(struct kernel_module_elf *module_elf, int fd, const char *path,
			   const char *build_id, struct error *error)
{
	Dwfl_Module *module;
	int err;

	*module_elf = (struct kernel_module_elf){0};
	if (lacks_dwarf(fd, build_id))
		return -ENODATA;
	module = report_file(module_elf, fd, path);
	err = module ? kernel_module_elf_read(module_elf, module, build_id, error)
		     : error_set(error, EINVAL, "can't be read: %s", dwfl_errmsg(-1));
	if (err)
		kernel_module_elf_close(module_elf);
	return err;
}

void kernel_module_elf_close(struct kernel_module_elf *module_elf)
{
	free(module_elf->sections);
	dwfl_end(module_elf->session);
	*module_elf = (struct kernel_module_elf){0};
}

bool kernel_module_elf_vaddr(const struct kernel_module_elf *module_elf, uint64_t offset,
			     uint64_t *vaddr)
{
	for (size_t i = 0; i < module_elf->count; i++) {
		const struct kernel_module_section *section = &module_elf->sections[i];

		if (offset < section->offset || offset - section->offset >= section->size)
			continue;
		*vaddr = offset - section->offset + section->vaddr;
		return true;
	}
	return false;
}
