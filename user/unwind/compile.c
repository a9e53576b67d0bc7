// SPDX-License-Identifier: GPL-2.0
#include "unwind/compile.h"

#include <dwarf.h>
#include <elf.h>
#include <emmintrin.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "debuginfo/elf_symbols.h"
#include "debuginfo/plt.h"
#include "lib/byte_cursor.h"
#include "runtime/go_layout.h"
#include "runtime/go_pclntab.h"
#include "runtime/go_version.h"
#include "unwind/cfi.h"
#include "unwind/go_frames.h"
#include "unwind/table_builder.h"

/* A file beyond these limits is broken or malicious. */
#define PROGRAM_HEADERS_MAX 4096u
#define SECTION_BYTES_MAX ((uint64_t)1 << 30)

/* The code at the entry point of a program or of a dynamic linker is shorter. */
#define ENTRY_MAX 256u
/* So is the code of gcc's crtstuff.c, and of its function that calls destructors. */
#define CRT_MAX 512u
#define DESTRUCTORS_MAX 64u
/*
 * Code without call frame information is taken to have frame pointers if it sets one up at least
 * once in FRAMED_DISTANCE bytes on average. In less than FRAMED_LARGE bytes, this holds from its
 * first frame on. Fewer bytes than FRAMED_MIN are padding.
 */
#define FRAMED_LARGE (64u << 10)
#define FRAMED_MIN 16u
#define FRAMED_DISTANCE 2048u
#define SET_UP_MAX 24u
#define FUNCTION_ALIGNMENT 16u
#define CALL_SIZE 5u
#define MOVE_OF_CONSTANT_SIZE 10u
#define CALLED_MAX (16u << 20)

/* mov $__NR_rt_sigreturn,%rax; syscall: by these, debuggers recognize the trampoline, too. */
static const unsigned char restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

/*
 * Where a function that makecontext() of glibc starts returns to (__start_context.S): mov
 * %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi
 */
static const unsigned char context_end[] = {0x48, 0x89, 0xdc, 0x48, 0x8b,
					    0x3c, 0x24, 0x48, 0x85, 0xff};
/*
 * Where a function that make_fcontext() of Boost.Context starts is called, and returns to: push
 * %rbp; jmp *%rbx; [endbr64;] xor %rdi,%rdi
 */
static const unsigned char fcontext_start[] = {0x55, 0xff, 0xe3},
			   fcontext_end[] = {0x48, 0x31, 0xff};
/*
 * Code at which a thread of a clone system call begins and ends, as in musl: xor %ebp,%ebp; then a
 * call of a register; and within THREAD_MAX bytes, with the number of exit in %eax: syscall; hlt
 */
static const unsigned char thread_start[] = {0x31, 0xed}, thread_end[] = {0x0f, 0x05, 0xf4};
#define THREAD_MAX 32u
static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* Bytes of an executable segment that are in the file. */
struct code {
	uint64_t start, size; /* start: ELF virtual address */
	const unsigned char *bytes;
	bool *called; /* by block of FUNCTION_ALIGNMENT bytes, see note_called(); NULL: unknown */
};

struct section {
	GElf_Shdr header;
	Elf_Scn *section;
	const unsigned char *bytes;
	size_t size;
};

struct compilation {
	Elf *elf;
	uint64_t entry; /* 0: none */
	struct code *codes;
	size_t code_count;
	struct table_builder *builder;
	struct unwind_summary *summary;
	bool has_gap; /* in which code may have frame pointers */
	uint64_t plt; /* address of the section that is read */
	struct stackbeat_unwind_go go;
};

/* The file */

/* Returns the bytes at an offset of the file, or NULL. They live as long as `elf`. */
static const unsigned char *file_bytes(Elf *elf, uint64_t offset, uint64_t size)
{
	Elf_Data *data;

	if (offset > INT64_MAX || !size || size > SIZE_MAX)
		return NULL;
	data = elf_getdata_rawchunk(elf, (int64_t)offset, size, ELF_T_BYTE);
	return data && data->d_size == size ? data->d_buf : NULL;
}

/* Returns a load segment with all of an executable address range, or NULL. */
static struct code *find_code(const struct compilation *compilation, uint64_t address)
{
	for (size_t i = 0; i < compilation->code_count; i++) {
		struct code *code = &compilation->codes[i];

		if (address - code->start < code->size)
			return code;
	}
	return NULL;
}

static int read_codes(struct compilation *compilation)
{
	GElf_Phdr header;
	size_t count;

	if (elf_getphdrnum(compilation->elf, &count) || count > PROGRAM_HEADERS_MAX)
		return -EINVAL;
	compilation->codes = calloc(count + 1, sizeof(*compilation->codes));
	if (!compilation->codes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct code *code = &compilation->codes[compilation->code_count];

		if (!gelf_getphdr(compilation->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X) || header.p_vaddr + header.p_filesz < header.p_vaddr)
			continue;
		code->start = header.p_vaddr;
		code->size = header.p_filesz;
		code->bytes = file_bytes(compilation->elf, header.p_offset, header.p_filesz);
		compilation->code_count += code->bytes != NULL;
	}
	return 0;
}

/* Calls `fn` for each section with contents, until it returns true. */
static bool each_section(struct compilation *compilation,
			 bool (*fn)(struct compilation *compilation, const char *name,
				    struct section *section, void *arg),
			 void *arg)
{
	struct section section = {0};
	const char *name;
	size_t names;

	if (elf_getshdrstrndx(compilation->elf, &names))
		return false;
	while ((section.section = elf_nextscn(compilation->elf, section.section))) {
		if (!gelf_getshdr(section.section, &section.header) ||
		    section.header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(compilation->elf, names, section.header.sh_name);
		if (name && fn(compilation, name, &section, arg))
			return true;
	}
	return false;
}

/* Sets the bytes of a section that is not compressed. */
static bool compilation_read_section(struct compilation *compilation, struct section *section)
{
	section->size = section->header.sh_size;
	section->bytes = section->header.sh_size > SECTION_BYTES_MAX
				 ? NULL
				 : file_bytes(compilation->elf, section->header.sh_offset,
					      section->header.sh_size);
	return section->bytes;
}

/* Call frame information */

static int compilation_add_row(struct compilation *compilation, uint64_t start, uint64_t end,
			       const struct cfi_row *row)
{
	const struct code *code = find_code(compilation, start);

	/* Linkers keep the entries of discarded functions in .debug_frame. */
	if (!code)
		return 0;
	if (end > code->start + code->size)
		end = code->start + code->size;
	return table_builder_add(compilation->builder, start, end, row);
}

static bool is_restorer(const struct code *code, uint64_t address)
{
	return code && code->start + code->size - address >= sizeof(restorer) &&
	       !memcmp(code->bytes + (address - code->start), restorer, sizeof(restorer));
}

static bool is_context_end(const struct code *code, uint64_t address)
{
	const unsigned char *bytes;
	size_t size;

	if (!code)
		return false;
	bytes = code->bytes + (address - code->start);
	size = code->start + code->size - address;
	if (size >= sizeof(endbr64) && !memcmp(bytes, endbr64, sizeof(endbr64))) {
		bytes += sizeof(endbr64);
		size -= sizeof(endbr64);
	}
	return size >= sizeof(context_end) && !memcmp(bytes, context_end, sizeof(context_end));
}

/* Code that ends a stack, and is returned to at its first byte: no call is before it. */
static int add_end(struct compilation *compilation, uint64_t start, uint64_t end)
{
	const struct cfi_row row = {.kind = CFI_END};
	int err = compilation_add_row(compilation, start, end, &row);

	/* A range of its own: another function may end with this byte, and is right then. */
	return err ? err : compilation_add_row(compilation, start - 1, start, &row);
}

/*
 * A walk looks return addresses up at address - 1, and the trampoline is entered by a return. glibc
 * begins its entry one byte early for that.
 */
static int add_cfi_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct compilation *compilation = arg;

	if (row->kind == CFI_CALLER && row->base == CFI_RSP && row->offset == 8 &&
	    is_context_end(find_code(compilation, start), start))
		return add_end(compilation, start, end);

	if (row->kind == CFI_SIGNAL && is_restorer(find_code(compilation, start), start) &&
	    find_code(compilation, start - 1))
		start--;
	return compilation_add_row(compilation, start, end, row);
}

static int read_cfi(struct compilation *compilation, const struct cfi_section *section)
{
	struct cfi_counts counts;
	int err = cfi_read(section, add_cfi_row, compilation, &counts);

	compilation->summary->functions += counts.entries;
	compilation->summary->broken += counts.broken;
	/* What was read before the section breaks is good. */
	if (err == -EBADMSG) {
		compilation->summary->broken++;
		err = 0;
	}
	return err ? err : table_builder_end_source(compilation->builder);
}

static bool find_eh_frame(struct compilation *compilation, const char *name,
			  struct section *section, void *arg)
{
	if (strcmp(name, ".eh_frame") || !compilation_read_section(compilation, section))
		return false;
	*(struct section *)arg = *section;
	return true;
}

/* Sets the section by the header of a file without section headers. */
static bool find_eh_frame_by_segment(const struct compilation *compilation,
				     struct cfi_section *section)
{
	GElf_Phdr header, load;
	uint64_t vaddr = 0;
	size_t count;

	if (elf_getphdrnum(compilation->elf, &count))
		return false;
	for (size_t i = 0; i < count && !vaddr; i++) {
		const unsigned char *bytes;
		struct cursor cursor;

		if (!gelf_getphdr(compilation->elf, (int)i, &header) ||
		    header.p_type != PT_GNU_EH_FRAME || header.p_filesz < 8)
			continue;
		/* Its version, three encodings, and the address; linkers use one encoding only. */
		bytes = file_bytes(compilation->elf, header.p_offset, 8);
		if (!bytes || bytes[0] != 1 || bytes[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
			return false;
		cursor = cursor_at(bytes, 8, 4);
		vaddr = header.p_vaddr + 4 + (uint64_t)(int32_t)cursor_u32(&cursor);
	}
	for (size_t i = 0; i < count && vaddr; i++) {
		if (!gelf_getphdr(compilation->elf, (int)i, &load) || load.p_type != PT_LOAD ||
		    vaddr - load.p_vaddr >= load.p_filesz)
			continue;
		section->vaddr = vaddr;
		section->size = load.p_filesz - (vaddr - load.p_vaddr);
		section->bytes = file_bytes(compilation->elf,
					    load.p_offset + (vaddr - load.p_vaddr), section->size);
		section->is_terminated = true;
		return section->bytes;
	}
	return false;
}

static int read_eh_frame(struct compilation *compilation)
{
	struct cfi_section cfi = {.is_eh_frame = true};
	struct section section;

	if (each_section(compilation, find_eh_frame, &section)) {
		cfi.bytes = section.bytes;
		cfi.size = section.size;
		cfi.vaddr = section.header.sh_addr;
	} else if (!find_eh_frame_by_segment(compilation, &cfi)) {
		return 0;
	}
	return read_cfi(compilation, &cfi);
}

/* Decompresses a section of the old or the new form. Returns false if it is broken or too large. */
static bool compilation_decompress(struct compilation *compilation, struct section *section,
				   bool is_gnu)
{
	GElf_Chdr header;
	struct cursor cursor;
	Elf_Data *data;

	if (is_gnu) {
		/* "ZLIB", and the size as a big-endian number. */
		if (!compilation_read_section(compilation, section) || section->size < 12)
			return false;
		cursor = cursor_at(section->bytes, section->size, 4);
		if (__builtin_bswap64(cursor_u64(&cursor)) > SECTION_BYTES_MAX ||
		    elf_compress_gnu(section->section, 0, 0) < 0)
			return false;
	} else if (!gelf_getchdr(section->section, &header) || header.ch_size > SECTION_BYTES_MAX ||
		   elf_compress(section->section, 0, 0) < 0) {
		return false;
	}
	data = elf_getdata(section->section, NULL);
	section->bytes = data ? data->d_buf : NULL;
	section->size = data ? data->d_size : 0;
	return section->bytes;
}

static bool find_debug_frame(struct compilation *compilation, const char *name,
			     struct section *section, void *arg)
{
	bool is_gnu = !strcmp(name, ".zdebug_frame"), found;

	if (!is_gnu && strcmp(name, ".debug_frame"))
		return false;
	if (is_gnu || section->header.sh_flags & SHF_COMPRESSED)
		found = compilation_decompress(compilation, section, is_gnu);
	else
		found = compilation_read_section(compilation, section);
	if (found)
		*(struct section *)arg = *section;
	return found;
}

static int read_debug_frame(struct compilation *compilation)
{
	struct section section;
	struct cfi_section cfi = {0};

	if (!each_section(compilation, find_debug_frame, &section))
		return 0;
	cfi.bytes = section.bytes;
	cfi.size = section.size;
	return read_cfi(compilation, &cfi);
}

/* Go */

static bool compilation_is_go_section(struct compilation *compilation, const char *name,
				      struct section *section, void *arg)
{
	(void)compilation, (void)section, (void)arg;
	return !strcmp(name, ".gopclntab") || !strcmp(name, ".data.rel.ro.gopclntab") ||
	       !strcmp(name, ".go.buildinfo");
}

/* Searching the whole file is left to programs of Go, and files without section headers. */
static bool may_be_go(struct compilation *compilation)
{
	size_t count;

	return elf_getshdrnum(compilation->elf, &count) || !count ||
	       each_section(compilation, compilation_is_go_section, NULL);
}

static const unsigned char *code_at(void *arg, uint64_t address, size_t *size)
{
	const struct code *code = find_code(arg, address);

	if (!code)
		return NULL;
	*size = code->size - (address - code->start);
	return code->bytes + (address - code->start);
}

static bool find_version(struct compilation *compilation, const char *name, struct section *section,
			 void *arg)
{
	struct go_version *version = arg;

	return !strcmp(name, ".go.buildinfo") && compilation_read_section(compilation, section) &&
	       go_version_find(section->bytes, section->size, 0, version);
}

/* Without section headers: in a segment of data. */
static bool find_version_in_segments(const struct compilation *compilation,
				     struct go_version *version)
{
	GElf_Phdr header;
	size_t count;

	if (elf_getphdrnum(compilation->elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		const unsigned char *bytes;

		if (!gelf_getphdr(compilation->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    header.p_flags & PF_X)
			continue;
		bytes = file_bytes(compilation->elf, header.p_offset, header.p_filesz);
		if (bytes && go_version_find(bytes, header.p_filesz, header.p_vaddr, version))
			return true;
	}
	return false;
}

/*
 * Sets the layout of the runtime's structures, if the code agrees with the code of the version. A
 * version that is not known yet passes the same test.
 */
static void compilation_set_layout(struct compilation *compilation,
				   const struct go_runtime *runtime)
{
	struct stackbeat_unwind_go *go = &compilation->go;
	const struct go_layout *layout;
	struct go_version version;

	/* The start of g has never changed. */
	go->stack_hi = 8;
	if (!each_section(compilation, find_version, &version) &&
	    !find_version_in_segments(compilation, &version))
		return;
	layout = go_layout_of_version(version.major, version.minor);
	if (!layout || !runtime->has_tls || runtime->m != layout->m ||
	    runtime->sched_bp != layout->sched_bp || runtime->curg != layout->m_curg)
		return;
	compilation->summary->go_minor = version.minor;
	*go = (struct stackbeat_unwind_go){
		.tls = runtime->tls,
		.m = layout->m,
		.stack_hi = layout->stack_hi,
		.sched_sp = layout->sched_sp,
		.sched_pc = layout->sched_pc,
		.sched_bp = layout->sched_bp,
		.curg = layout->m_curg,
		.goid = layout->goid,
		.gopc = layout->gopc,
		.labels = layout->labels,
		.label_slices = layout->has_label_slices,
		.tls_in_memory = runtime->tls_in_memory,
	};
}

static int read_go(struct compilation *compilation)
{
	const struct go_frames frames = {code_at, add_cfi_row, compilation};
	struct go_runtime runtime;
	struct go_pclntab *pclntab;
	int64_t functions;
	size_t size;
	char *image;

	if (!may_be_go(compilation))
		return 0;
	image = elf_rawfile(compilation->elf, &size);
	if (!image || go_pclntab_open(image, size, &pclntab, NULL))
		return 0;
	functions = go_frames_read(pclntab, &frames, &runtime);
	go_pclntab_close(pclntab);
	if (functions < 0)
		return (int)functions;
	compilation_set_layout(compilation, &runtime);
	compilation->summary->functions += (uint64_t)functions;
	return table_builder_end_source(compilation->builder);
}

/* Code without call frame information */

/* Adds a row of a function that has not saved rbp. */
static int add_frameless(struct compilation *compilation, uint64_t start, uint64_t end,
			 unsigned int cfa)
{
	const struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.offset = cfa,
		.return_address = {.place = CFI_AT_CFA, .offset = -8},
	};

	return compilation_add_row(compilation, start, end, &row);
}

/* Adds a row of a function that has pushed rbp; base: rsp, or rbp, which is the same then. */
static int add_framed(struct compilation *compilation, uint64_t start, uint64_t end, uint8_t base)
{
	const struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = base,
		.offset = 16,
		.return_address = {.place = CFI_AT_CFA, .offset = -8},
		.rbp = {.place = CFI_AT_CFA, .offset = -16},
	};

	return start < end ? compilation_add_row(compilation, start, end, &row) : 0;
}

static int add_plt_row(void *arg, size_t start, size_t end, unsigned int cfa)
{
	struct compilation *compilation = arg;

	return add_frameless(compilation, compilation->plt + start, compilation->plt + end, cfa);
}

/* _init and _fini of crti.o: [endbr64;] sub $8,%rsp; ...; add $8,%rsp; ret */
static int read_init(struct compilation *compilation, const struct section *section)
{
	static const unsigned char first[] = {0x48, 0x83, 0xec, 0x08},
				   last[] = {0x48, 0x83, 0xc4, 0x08, 0xc3};
	uint64_t start = section->header.sh_addr, end = start + section->size;
	size_t body = 0;
	int err;

	if (section->size > sizeof(endbr64) && !memcmp(section->bytes, endbr64, sizeof(endbr64)))
		body = sizeof(endbr64);
	if (section->size < body + sizeof(first) + sizeof(last) ||
	    memcmp(section->bytes + body, first, sizeof(first)) ||
	    memcmp(section->bytes + section->size - sizeof(last), last, sizeof(last)))
		return 0;
	body += sizeof(first);
	err = add_frameless(compilation, start, start + body, 8);
	if (!err)
		err = add_frameless(compilation, start + body, end - 1, 16);
	return err ? err : add_frameless(compilation, end - 1, end, 8);
}

static bool read_stubs(struct compilation *compilation, const char *name, struct section *section,
		       void *arg)
{
	bool is_init = !strcmp(name, ".init") || !strcmp(name, ".fini");
	bool is_plt = !strncmp(name, ".plt", 4) || !strcmp(name, ".iplt");
	int *err = arg;

	if ((!is_init && !is_plt) || !(section->header.sh_flags & SHF_EXECINSTR) ||
	    !compilation_read_section(compilation, section))
		return false;
	compilation->plt = section->header.sh_addr;
	if (is_init)
		*err = read_init(compilation, section);
	else
		*err = plt_read(section->bytes, section->size, add_plt_row, compilation);
	return *err;
}

/* Returns whether `bytes` begin with a pattern, in which -1 stands for any byte. */
static bool has_pattern(const unsigned char *bytes, size_t size, const int16_t *pattern,
			size_t length)
{
	if (size < length)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (pattern[i] >= 0 && pattern[i] != bytes[i])
			return false;
	}
	return true;
}

/*
 * __do_global_dtors_aux() of gcc's crtstuff.c, which runs the destructors of a program or library:
 * cmpb $0,completed(%rip); jne; push %rbp; [cmpq $0,__cxa_finalize(%rip);] mov %rsp,%rbp; ...;
 * pop %rbp; ret
 */
static int add_destructors(struct compilation *compilation, uint64_t address,
			   const unsigned char *bytes, size_t size)
{
	static const int16_t first[] = {0x80, 0x3d, -1, -1, -1, -1, 0, 0x75, -1, 0x55},
			     shared[] = {0x48, 0x83, 0x3d, -1, -1, -1, -1, 0};
	static const unsigned char set_frame[] = {0x48, 0x89, 0xe5}, last[] = {0x5d, 0xc3};
	const unsigned char *pop;
	size_t pushed = sizeof(first) / sizeof(*first), body = pushed;
	int err;

	if (!has_pattern(bytes, size, first, pushed))
		return 0;
	if (has_pattern(bytes + body, size - body, shared, sizeof(shared) / sizeof(*shared)))
		body += sizeof(shared) / sizeof(*shared);
	if (size - body < sizeof(set_frame) ||
	    memcmp(bytes + body, set_frame, sizeof(set_frame)) != 0)
		return 0;
	body += sizeof(set_frame);
	pop = memmem(bytes + body, MIN(size - body, DESTRUCTORS_MAX), last, sizeof(last));
	if (!pop)
		return 0;
	err = add_frameless(compilation, address, address + pushed, 8);
	if (!err)
		err = add_framed(compilation, address + pushed, address + body, CFI_RSP);
	if (!err)
		err = add_framed(compilation, address + body, address + (uint64_t)(pop + 1 - bytes),
				 CFI_RBP);
	address += (uint64_t)(pop + 1 - bytes);
	return err ? err : add_frameless(compilation, address, address + 1, 8);
}

static int find_destructors(struct compilation *compilation, uint64_t start, uint64_t end)
{
	const struct code *code = find_code(compilation, start);
	const unsigned char *bytes = code->bytes + (start - code->start);
	const size_t size = MIN(end - start, CRT_MAX);
	int err = 0;

	for (size_t i = 0; i < size && !err; i++) {
		if (bytes[i] == 0x80)
			err = add_destructors(compilation, start + i, bytes + i, size - i);
	}
	return err;
}

/* Whether a byte may be an instruction that pushes, pops or calls. What it has pushed is popped. */
static bool may_move_stack(unsigned char byte)
{
	return (byte >= 0x50 && byte < 0x60) || byte == 0x68 || byte == 0x6a || byte == 0xe8;
}

/* Whether an instruction of two bytes and more, without prefixes, may change %rsp. */
static bool may_set_stack(const unsigned char *bytes)
{
	const unsigned int reg = bytes[1] >> 3 & 7, rm = bytes[1] & 7, mod = bytes[1] >> 6;

	switch (bytes[0]) {
	case 0x01:
	case 0x29:
	case 0x31:
	case 0x81:
	case 0x83:
	case 0x87:
	case 0x89:
	case 0x8b:
	case 0x8d:
	case 0x94: /* xchg %eax,%esp */
	case 0xbc: /* mov $n,%esp */
		return bytes[0] == 0x94 || bytes[0] == 0xbc || reg == 4 || (mod == 3 && rm == 4);
	case 0xff: /* call, push */
		return reg == 2 || reg == 3 || reg == 6;
	default:
		return false;
	}
}

/*
 * Whether code begins with push %rbp and mov %rsp,%rbp, between which a compiler may have moved
 * instructions that do not touch the stack. Returns the size of all of it, or 0.
 */
static size_t frame_set_up(const unsigned char *bytes, size_t size)
{
	static const unsigned char code[][3] = {{0x48, 0x89, 0xe5}, {0x48, 0x8b, 0xec}};

	if (!size || *bytes != 0x55)
		return 0;
	for (size_t i = 1; i + sizeof(code[0]) <= MIN(size, SET_UP_MAX); i++) {
		if (!memcmp(bytes + i, code[0], sizeof(code[0])) ||
		    !memcmp(bytes + i, code[1], sizeof(code[1])))
			return i + sizeof(code[0]);
		if (bytes[i] == 0xc3 || may_move_stack(bytes[i]) || may_set_stack(bytes + i))
			return 0;
	}
	return 0;
}

/*
 * Returns the index from `at` on of the next byte with which the set-up or the end of a frame may
 * begin: push %rbp, pop %rbp, leave; `size` if there is none. In a browser without call frame
 * information, these are 3 % of 190 MB.
 */
static size_t next_frame_byte(const unsigned char *bytes, size_t at, size_t size)
{
	const __m128i push = _mm_set1_epi8(0x55), pop = _mm_set1_epi8(0x5d),
		      leave = _mm_set1_epi8((char)0xc9);

	for (; at + sizeof(__m128i) <= size; at += sizeof(__m128i)) {
		const __m128i block = _mm_loadu_si128((const __m128i *)(bytes + at));
		const __m128i found = _mm_or_si128(
			_mm_cmpeq_epi8(block, push),
			_mm_or_si128(_mm_cmpeq_epi8(block, pop), _mm_cmpeq_epi8(block, leave)));
		const unsigned int mask = (unsigned int)_mm_movemask_epi8(found);

		if (mask)
			return at + (size_t)__builtin_ctz(mask);
	}
	while (at < size && bytes[at] != 0x55 && bytes[at] != 0x5d && bytes[at] != 0xc9)
		at++;
	return at;
}

/* Notes the aligned addresses that direct calls seem to have as targets: functions begin there. */
static void note_called(struct code *code)
{
	const uint64_t blocks = code->size / FUNCTION_ALIGNMENT + 1;

	code->called = calloc(blocks, 1);
	for (size_t i = 0; code->called && i + CALL_SIZE <= code->size; i++) {
		uint64_t target;
		int32_t distance;

		if (code->bytes[i] != 0xe8)
			continue;
		memcpy(&distance, code->bytes + i + 1, sizeof(distance));
		target = code->start + i + CALL_SIZE + (uint64_t)(int64_t)distance;
		if (!(target % FUNCTION_ALIGNMENT) && target - code->start < code->size)
			code->called[(target - code->start) / FUNCTION_ALIGNMENT] = true;
	}
}

static bool is_called(const struct code *code, uint64_t address)
{
	return code->called && !(address % FUNCTION_ALIGNMENT) &&
	       !(code->start % FUNCTION_ALIGNMENT) &&
	       code->called[(address - code->start) / FUNCTION_ALIGNMENT];
}

/* Whether code begins with movabs $n,%r, whose constant can have any bytes. */
static bool is_move_of_constant(const unsigned char *bytes, size_t size)
{
	return size >= MOVE_OF_CONSTANT_SIZE && (bytes[0] == 0x48 || bytes[0] == 0x49) &&
	       bytes[1] >= 0xb8 && bytes[1] < 0xc0;
}

/*
 * Returns the size of a function without a frame that calls nothing and leaves the stack as it is,
 * up to its last return; 0 if it may do other things.
 */
static size_t leaf_size(const struct code *code, uint64_t address, size_t size)
{
	const unsigned char *bytes = code->bytes + (address - code->start);
	size_t end = 0;

	for (size_t i = 0; i < size && !(i && is_called(code, address + i)); i++) {
		/* The next function, which nothing calls directly. */
		if (end && frame_set_up(bytes + i, size - i))
			break;
		if (bytes[i] == 0xc3) {
			end = i + 1;
			continue;
		}
		if (is_move_of_constant(bytes + i, size - i)) {
			i += MOVE_OF_CONSTANT_SIZE - 1;
			continue;
		}
		if (may_move_stack(bytes[i]) || (i + 1 < size && may_set_stack(bytes + i)))
			return 0;
	}
	return end;
}

/*
 * Adds code without frames that are set up: functions that leave the stack as it is, and between
 * them, if `framed`, code that has the frame of before, or of a caller.
 */
static int add_leaves(struct compilation *compilation, uint64_t start, uint64_t end, bool framed)
{
	const struct code *code = find_code(compilation, start);
	uint64_t from = start;
	int err = 0;

	for (uint64_t at = start; at < end && !err; at++) {
		size_t leaf = is_called(code, at) ? leaf_size(code, at, end - at) : 0;

		if (!leaf)
			continue;
		if (framed)
			err = add_framed(compilation, from, at, CFI_RBP);
		if (!err)
			err = add_frameless(compilation, at, at + leaf, 8);
		from = at + leaf;
		at = from - 1;
	}
	return err || !framed ? err : add_framed(compilation, from, end, CFI_RBP);
}

/* Whether code begins with pop %rbp or leave, and ret */
static bool leaves_frame(const unsigned char *bytes, size_t size)
{
	return size >= 2 && (bytes[0] == 0x5d || bytes[0] == 0xc9) &&
	       (bytes[1] == 0xc3 || bytes[1] == 0xc2);
}

/*
 * Code that a compiler without call frame information has written, such as the builtins of V8 in
 * node: by frame pointers, exact where a function sets up or leaves its frame, and in functions
 * that leave the stack as it is. As with all frame pointers, the caller of another function without
 * a frame is missing.
 */
static int find_framed(void *arg, uint64_t start, uint64_t end)
{
	struct compilation *compilation = arg;
	struct code *code = find_code(compilation, start);
	const unsigned char *bytes = code->bytes + (start - code->start);
	const size_t size = end - start;
	size_t frames = 0, done = 0, set_up;
	int err;

	if (size < FRAMED_MIN)
		return 0;
	/* In much code, some bytes that look like a call are none. */
	if (code->size <= CALLED_MAX && !code->called)
		note_called(code);
	for (size_t i = 0; (i = next_frame_byte(bytes, i, size)) < size; i++) {
		if (!frame_set_up(bytes + i, size - i))
			continue;
		if (!frames++ && size < FRAMED_LARGE)
			done = i;
	}
	if (!frames || frames < (size - done) / FRAMED_DISTANCE)
		return 0;
	err = add_leaves(compilation, start, start + done, false);
	for (size_t i = done; !err && (i = next_frame_byte(bytes, i, size)) < size; i++) {
		set_up = frame_set_up(bytes + i, size - i);
		if (set_up) {
			err = add_leaves(compilation, start + done, start + i, true);
			if (!err)
				err = add_frameless(compilation, start + i, start + i + 1, 8);
			if (!err)
				err = add_framed(compilation, start + i + 1, start + i + set_up,
						 CFI_RSP);
			done = i + set_up;
			i = done - 1;
		} else if (leaves_frame(bytes + i, size - i)) {
			err = add_framed(compilation, start + done, start + i + 1, CFI_RBP);
			if (!err)
				err = add_frameless(compilation, start + i + 1, start + i + 2, 8);
			done = i + 2;
			i++;
		}
	}
	return err ? err : add_leaves(compilation, start + done, end, true);
}

/*
 * As memmem(). `rare` is the index of a byte of the pattern that code seldom has: memchr() finds it
 * several times faster.
 */
static const unsigned char *find_pattern(const unsigned char *bytes, size_t size,
					 const unsigned char *pattern, size_t pattern_size,
					 size_t rare)
{
	const unsigned char *end;

	if (size < pattern_size)
		return NULL;
	end = bytes + size - (pattern_size - rare - 1);
	for (const unsigned char *at = bytes + rare; at < end; at++) {
		at = memchr(at, pattern[rare], (size_t)(end - at));
		if (!at)
			return NULL;
		if (!memcmp(at - rare, pattern, pattern_size))
			return at - rare;
	}
	return NULL;
}

static int find_restorer(struct compilation *compilation, uint64_t start, uint64_t end)
{
	const struct cfi_row row = {.kind = CFI_SIGNAL};
	const struct code *code = find_code(compilation, start);
	const unsigned char *bytes = code->bytes + (start - code->start);
	const unsigned char *found =
		find_pattern(bytes, end - start, restorer, sizeof(restorer), sizeof(restorer) - 1);

	if (!found)
		return 0;
	start += (uint64_t)(found - bytes);
	return compilation_add_row(compilation, found > code->bytes ? start - 1 : start,
				   start + sizeof(restorer), &row);
}

static int find_fcontext(struct compilation *compilation, uint64_t start, uint64_t end)
{
	const struct code *code = find_code(compilation, start);
	const unsigned char *bytes = code->bytes + (start - code->start);
	const unsigned char *found =
		find_pattern(bytes, end - start, fcontext_start, sizeof(fcontext_start),
			     sizeof(fcontext_start) - 1);
	size_t at, size;

	if (!found)
		return 0;
	at = (size_t)(found - bytes) + sizeof(fcontext_start);
	size = end - start - at;
	if (size >= sizeof(endbr64) && !memcmp(bytes + at, endbr64, sizeof(endbr64)))
		size = sizeof(endbr64);
	else
		size = 0;
	if (end - start - at - size < sizeof(fcontext_end) ||
	    memcmp(bytes + at + size, fcontext_end, sizeof(fcontext_end)) != 0)
		return 0;
	return add_end(compilation, start + at, start + at + size + sizeof(fcontext_end));
}

/* Whether code pops its arguments, and calls what is in a register. */
static bool calls_register(const unsigned char *bytes, size_t size)
{
	size_t at = 0;

	while (at < size && (bytes[at] & 0xf8) == 0x58)
		at++;
	if (at < size && bytes[at] == 0x41)
		at++;
	return size - at >= 2 && bytes[at] == 0xff && (bytes[at + 1] & 0xf8) == 0xd0;
}

static int find_threads(struct compilation *compilation, uint64_t start, uint64_t end)
{
	const struct cfi_row row = {.kind = CFI_END};
	const struct code *code = find_code(compilation, start);
	const unsigned char *bytes = code->bytes + (start - code->start),
			    *last = bytes + (end - start);
	const unsigned char *from = bytes, *to, *begin;
	int err = 0;

	while (!err && (to = find_pattern(from, (size_t)(last - from), thread_end,
					  sizeof(thread_end), sizeof(thread_end) - 1))) {
		begin = to - MIN((size_t)(to - from), (size_t)THREAD_MAX);
		while (begin < to && (memcmp(begin, thread_start, sizeof(thread_start)) != 0 ||
				      !calls_register(begin + sizeof(thread_start),
						      (size_t)(to - begin) - sizeof(thread_start))))
			begin++;
		from = to + sizeof(thread_end);
		if (begin < to)
			err = compilation_add_row(compilation,
						  start + (uint64_t)(begin - bytes) +
							  sizeof(thread_start),
						  start + (uint64_t)(from - bytes), &row);
	}
	return err;
}

/* Finds known code in a gap. */
static int find_known(void *arg, uint64_t start, uint64_t end)
{
	struct compilation *compilation = arg;
	int err;

	/* Padding. */
	if (end - start < sizeof(restorer))
		return 0;
	compilation->has_gap |= end - start >= FRAMED_MIN;
	err = find_restorer(compilation, start, end);
	if (!err)
		err = find_fcontext(compilation, start, end);
	if (!err)
		err = find_threads(compilation, start, end);
	return err ? err : find_destructors(compilation, start, end);
}

static int compilation_add_entry(void *arg, uint64_t start, uint64_t end)
{
	const struct cfi_row row = {.kind = CFI_END};
	struct compilation *compilation = arg;

	/* Gaps behind the one of the entry point are of other functions. */
	return start == compilation->entry ? compilation_add_row(compilation, start, end, &row) : 0;
}

/* Calls `fn` for each range of code without a row. */
static int each_gap(struct compilation *compilation,
		    int (*fn)(void *arg, uint64_t start, uint64_t end))
{
	int err = 0;

	for (size_t i = 0; i < compilation->code_count && !err; i++) {
		const struct code *code = &compilation->codes[i];

		err = table_builder_each_gap(compilation->builder, code->start,
					     code->start + code->size, fn, compilation);
	}
	return err;
}

static int read_entry(struct compilation *compilation)
{
	const uint64_t entry = compilation->entry;
	const struct code *code = find_code(compilation, entry);

	if (!code)
		return 0;
	return table_builder_each_gap(
		compilation->builder, entry,
		entry + MIN(code->start + code->size - entry, (uint64_t)ENTRY_MAX),
		compilation_add_entry, compilation);
}

static int read_gaps(struct compilation *compilation)
{
	int err = 0;

	each_section(compilation, read_stubs, &err);
	if (!err)
		err = table_builder_end_source(compilation->builder);
	if (!err)
		err = each_gap(compilation, find_known);
	if (!err)
		err = read_entry(compilation);
	/* What has its own rules keeps them in a range with frame pointers. */
	if (!err)
		err = table_builder_end_source(compilation->builder);
	return err || !compilation->has_gap ? err : each_gap(compilation, find_framed);
}

/* Calls */

/*
 * Returns the size of an indirect call, or a size that is not too large if the rest of it may be
 * missing; 0: it is another instruction.
 */
static size_t indirect_call_size(const unsigned char *bytes, size_t size)
{
	unsigned int mod, rm;

	if (size < 2 || bytes[0] != 0xff || ((bytes[1] >> 3 & 7) != 2 && (bytes[1] >> 3 & 7) != 3))
		return 0;
	mod = bytes[1] >> 6;
	rm = bytes[1] & 7;
	if (mod == 3)
		return 2;
	if (mod == 0 && rm == 5)
		return 6;
	return 2 + (rm == 4) + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/*
 * A table_code. Where instructions begin is not known, so what looks like a call may be a part of
 * another one: but no call is missed.
 */
static bool may_call(void *arg, uint64_t start, uint64_t end)
{
	const struct compilation *compilation = arg;
	const struct code *code = find_code(compilation, start);
	const unsigned char *bytes;
	size_t size = end - start;

	if (!code || code->start + code->size < end)
		return true;
	bytes = code->bytes + (start - code->start);
	for (size_t i = 0; i < size; i++) {
		size_t indirect = indirect_call_size(bytes + i, size - i);

		if ((bytes[i] == 0xe8 && size - i >= 5) || (indirect && indirect <= size - i))
			return true;
	}
	return false;
}

/* All of it */

static int compilation_open_file(struct compilation *compilation, int fd)
{
	GElf_Ehdr header;

	Elf *elf;

	if (elf_begin_read(fd, NULL, 0, true, &elf, NULL))
		return -EINVAL;
	compilation->elf = elf;
	if (!gelf_getehdr(elf, &header))
		return -EINVAL;
	if (header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOTSUP;
	compilation->entry = header.e_entry;
	return read_codes(compilation);
}

static int compilation_read_file(struct compilation *compilation)
{
	/* The debug information of Go's assembly is less exact. */
	int err = read_go(compilation);

	if (!err)
		err = read_eh_frame(compilation);
	if (!err)
		err = read_debug_frame(compilation);
	/* Without any, nothing is known about the functions, and frame pointers may work. */
	if (!err && !compilation->summary->functions)
		err = -ENOENT;
	return err ? err : read_gaps(compilation);
}

static enum unwind_result result_of(int err)
{
	switch (err) {
	case 0:
		return UNWIND_COMPILED;
	case -ENOENT:
		return UNWIND_NO_INFORMATION;
	case -ENOTSUP:
		return UNWIND_OTHER_MACHINE;
	case -E2BIG:
		return UNWIND_TOO_LARGE;
	case -ENOMEM:
		return UNWIND_NO_MEMORY;
	default:
		return UNWIND_BROKEN_FILE;
	}
}

struct unwind_summary unwind_compile(int fd, struct stackbeat_unwind_table **table)
{
	struct unwind_summary summary = {0};
	struct compilation compilation = {.builder = table_builder_new(), .summary = &summary};
	const struct table_code code = {may_call, &compilation};
	struct table_counts counts = {0};
	int err = compilation.builder ? compilation_open_file(&compilation, fd) : -ENOMEM;

	*table = NULL;
	if (!err)
		err = compilation_read_file(&compilation);
	if (!err)
		err = table_builder_finish(compilation.builder, &code, table, &counts);
	if (!err)
		(*table)->go = compilation.go;
	if (!err && (*table)->size > UNWIND_TABLE_MAX) {
		free(*table);
		*table = NULL;
		err = -E2BIG;
	}
	summary.result = result_of(err);
	summary.size = *table ? (*table)->size : 0;
	summary.rows = counts.rows;
	summary.unsupported = counts.unsupported;
	summary.overlapping = counts.overlapping;
	table_builder_free(compilation.builder);
	for (size_t i = 0; i < compilation.code_count; i++)
		free(compilation.codes[i].called);
	free(compilation.codes);
	elf_end(compilation.elf);
	return summary;
}

const char *unwind_result_text(enum unwind_result result)
{
	static const char *const texts[] = {
		[UNWIND_COMPILED] = "compiled",
		[UNWIND_NO_INFORMATION] = "no call frame information",
		[UNWIND_OTHER_MACHINE] = "32-bit code, or code of another machine",
		[UNWIND_BROKEN_FILE] = "not an ELF file, or a broken one",
		[UNWIND_TOO_LARGE] = "too large",
		[UNWIND_NO_MEMORY] = "out of memory",
	};

	return result < UNWIND_RESULT_COUNT ? texts[result] : "unknown";
}

bool unwind_summary_is_valid(const struct unwind_summary *summary)
{
	bool has_table = summary->result == UNWIND_COMPILED;

	return summary->result < UNWIND_RESULT_COUNT && summary->size <= UNWIND_TABLE_MAX &&
	       has_table == (summary->size > 0);
}
