// SPDX-License-Identifier: GPL-2.0
/* Tables of files that are made byte by byte; test_job.c has the tables of real files. */
#include "unit.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "go_image.h"
#include "sandbox.h"
#include "unwind/cfi.h"
#include "unwind/compile.h"

#define PAGE 4096u
#define CODE_MAX ((size_t)64 << 10) /* of a case; large code begins there */

/* Replaces libc's function: behind the last page of a file, nothing can be read. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fd >= 0 && !address) {
		address = (void *)syscall(SYS_mmap, NULL, (size + PAGE - 1) / PAGE * PAGE + PAGE,
					  PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		flags |= MAP_FIXED;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

static struct stackbeat_unwind_table *table;
static struct stackbeat_unwind_view view;

static struct unwind_summary compile(const void *bytes, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct unwind_summary summary;

	assert_int_equal(write(fd, bytes, size), size);
	summary = unwind_compile(fd, &table);
	close(fd);
	assert_true(!table == (summary.result != UNWIND_COMPILED));
	assert_true(!table == !summary.size);
	if (table) {
		assert_true(stackbeat_unwind_check(table, summary.size));
		stackbeat_unwind_open(table, &view);
	}
	return summary;
}

/* `saved`: rbp is at CFA - 16. */
static void expect_rule(uint64_t address, unsigned int base, int32_t cfa, bool saved)
{
	const struct stackbeat_unwind_rule *rule = stackbeat_unwind_find(&view, address);

	assert_non_null(rule);
	if (rule->kind_base != (STACKBEAT_UNWIND_CALLER | base << 4) || rule->cfa != cfa ||
	    rule->flags != (saved ? STACKBEAT_UNWIND_RBP_SAVED : 0) ||
	    rule->rbp != (saved ? -2 : 0))
		fail_msg("%#lx: kind and base %#x, CFA %d, flags %#x, rbp %d",
			 (unsigned long)address, rule->kind_base, rule->cfa, rule->flags,
			 rule->rbp);
}

static void expect_kind(uint64_t address, unsigned int kind)
{
	const struct stackbeat_unwind_rule *rule = stackbeat_unwind_find(&view, address);

	assert_int_equal(rule ? rule->kind_base & 0xf : STACKBEAT_UNWIND_NONE, kind);
}

/* A program of Go whose functions have the usual prologue, in a segment of its own. */
static void make_go(struct go_image *image, bool has_section_headers, uint64_t text)
{
	static const unsigned char sizes[] = {0x02, 0x01, 0x10, 0x1f, 0};
	static const unsigned char prologue[] = {0x55, 0x48, 0x89, 0xe5};
	struct go_options options = go_1_20;
	Elf64_Phdr segments[2];
	uint32_t records[3], at;
	Elf64_Ehdr elf;
	size_t code;

	options.has_section_headers = has_section_headers;
	go_image_make(image, &options);
	at = (uint32_t)(go_align(image) - image->values);
	go_put(image, sizes, sizeof(sizes));
	for (size_t i = 0; i < 3; i++) {
		memcpy(&records[i], image->bytes + image->functions + 8 * i + 4, 4);
		memcpy(image->bytes + image->functions + records[i] + 16, &at, sizeof(at));
	}
	code = go_align(image);
	for (size_t i = 0; i < GO_TEXT_SIZE / 0x20; i++) {
		go_put(image, prologue, sizeof(prologue));
		image->size += 0x20 - sizeof(prologue);
	}
	memcpy(&elf, image->bytes, sizeof(elf));
	elf.e_phnum = 2;
	elf.e_entry = 0;
	memcpy(image->bytes, &elf, sizeof(elf));
	memcpy(segments, image->bytes + sizeof(elf), sizeof(segments));
	segments[0].p_filesz = segments[0].p_memsz = code;
	segments[0].p_flags = PF_R | PF_W;
	segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
				   .p_flags = PF_R | PF_X,
				   .p_offset = code,
				   .p_vaddr = text,
				   .p_filesz = GO_TEXT_SIZE,
				   .p_memsz = GO_TEXT_SIZE};
	/* In any order. */
	for (size_t i = 0; i < 2; i++)
		memcpy(image->bytes + sizeof(elf) + i * sizeof(*segments),
		       &segments[has_section_headers ? i : 1 - i], sizeof(*segments));
}

static void programs_of_go(void **state)
{
	static struct go_image image;

	(void)state;
	for (int sections = 0; sections < 2; sections++) {
		struct unwind_summary summary;

		make_go(&image, sections, GO_TEXT);
		summary = compile(image.bytes, image.size);
		assert_int_equal(summary.result, UNWIND_COMPILED);
		assert_int_equal(summary.functions, 3);
		assert_int_equal(summary.broken, 0);
		/* All versions have the end of a goroutine's stack there; the rest is not known. */
		assert_int_equal(table->go.stack_hi, 8);
		assert_int_equal(table->go.goid, 0);
		for (uint64_t start = 0; start < GO_TEXT_SIZE; start += 0x20) {
			/* main.outer has 0x40 bytes. */
			if (start == 0x40) {
				expect_rule(GO_TEXT + start, CFI_RSP, 16, true);
				continue;
			}
			expect_rule(GO_TEXT + start, CFI_RSP, 8, false);
			expect_rule(GO_TEXT + start + 1, CFI_RSP, 16, true);
			expect_rule(GO_TEXT + start + 0x1f, CFI_RSP, 16, true);
		}
		free(table);
	}
}

/* The code of the table is not in the file: there is no prologue, but the sizes hold. */
static void go_without_code(void **state)
{
	static struct go_image image;

	(void)state;
	make_go(&image, false, GO_TEXT + 0x100000);
	/* What is there has no frames. */
	memset(image.bytes + image.size - GO_TEXT_SIZE, 0x90, GO_TEXT_SIZE);
	assert_int_equal(compile(image.bytes, image.size).result, UNWIND_NO_INFORMATION);
}

/*
 * Assembles a program with .text at 0x1000, and other sections at the addresses of `flags`. Returns
 * its bytes, which the caller frees.
 */
static unsigned char *assemble(const char *flags, const char *text, size_t *size)
{
	write_text(in_sandbox("source.s"), text);
	run("cd '%s' && gcc -nostdlib -static -Wl,--build-id=none,-z,noseparate-code,"
	    "-Ttext=0x1000,-e,0%s -o program source.s",
	    sandbox, flags);
	return read_bytes(in_sandbox("program"), size);
}

static struct unwind_summary build(const char *flags, const char *text)
{
	struct unwind_summary summary;
	size_t size;
	unsigned char *bytes = assemble(flags, text, &size);

	summary = compile(bytes, size);
	free(bytes);
	return summary;
}

/* One function with call frame information, at 0x1000: 16 bytes. */
#define FUNCTION                                                                                   \
	".text\n.cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\n.skip 15, 0x90\n"             \
	".cfi_endproc\n"

#define INIT ",--section-start=.init=0x2000"

/* _init and _fini: only code that begins and ends as they do. */
static void code_of_init(void **state)
{
	static const struct {
		const char *text;
		unsigned int body, end; /* 0: it is other code */
	} cases[] = {
		{"sub $8, %rsp\n.skip 4, 0x90\nadd $8, %rsp\nret\n", 4, 12},
		{"endbr64\nsub $8, %rsp\n.skip 4, 0x90\nadd $8, %rsp\nret\n", 8, 16},
		{"sub $8, %rsp\nadd $8, %rsp\nret\n", 4, 8},
		{"sub $16, %rsp\n.skip 4, 0x90\nadd $8, %rsp\nret\n", 0, 0},
		{"sub $8, %rsp\n.skip 4, 0x90\nadd $16, %rsp\nret\n", 0, 0},
		{"sub $8, %rsp\n.skip 4, 0x90\nadd $8, %rsp\nret\nnop\n", 0, 0},
		{"endbr64\nadd $8, %rsp\nret\n", 0, 0},
		{"endbr64\n", 0, 0},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s.section .init, \"ax\"\n%s", FUNCTION,
			 cases[i].text);
		assert_int_equal(build(INIT, text).result, UNWIND_COMPILED);
		expect_rule(0x1000, CFI_RSP, 8, false);
		expect_rule(0x100f, CFI_RSP, 16, false);
		if (!cases[i].body) {
			expect_kind(0x2000, STACKBEAT_UNWIND_NONE);
			free(table);
			continue;
		}
		expect_rule(0x2000, CFI_RSP, 8, false);
		expect_rule(0x2000 + cases[i].body - 1, CFI_RSP, 8, false);
		expect_rule(0x2000 + cases[i].body, CFI_RSP, 16, false);
		expect_rule(0x2000 + cases[i].end - 1, CFI_RSP, 16, false);
		expect_rule(0x2000 + cases[i].end, CFI_RSP, 8, false);
		expect_kind(0x2000 + cases[i].end + 1, STACKBEAT_UNWIND_NONE);
		free(table);
	}
}

/* Nothing is read behind a section at the end of the file that is shorter. */
static void code_of_init_at_the_end_of_the_file(void **state)
{
	unsigned char *bytes, *larger;
	size_t size, larger_size;
	Elf64_Shdr section;
	Elf64_Ehdr elf;
	bool found = false;

	(void)state;
	bytes = assemble(INIT, FUNCTION ".section .init, \"ax\"\n.byte 0x48\n", &size);
	larger_size = size / PAGE * PAGE + PAGE;
	larger = calloc(1, larger_size);
	assert_non_null(larger);
	memcpy(larger, bytes, size);
	memcpy(&elf, bytes, sizeof(elf));
	for (size_t i = 0; i < elf.e_shnum; i++) {
		unsigned char *header = larger + elf.e_shoff + i * sizeof(section);

		memcpy(&section, header, sizeof(section));
		if (section.sh_addr != 0x2000 || section.sh_size != 1)
			continue;
		section.sh_offset = larger_size - 1;
		memcpy(header, &section, sizeof(section));
		larger[larger_size - 1] = 0x48;
		found = true;
	}
	assert_true(found);
	assert_int_equal(compile(larger, larger_size).result, UNWIND_COMPILED);
	expect_kind(0x2000, STACKBEAT_UNWIND_NONE);
	free(table);
	free(larger);
	free(bytes);
}

/* The destructors of gcc's crtstuff.c, with and without a check of __cxa_finalize. */
#define DESTRUCTORS_CODE(shared, set)                                                              \
	".byte 0x80, 0x3d, 1, 2, 3, 4, 0, 0x75, 5, 0x55\n" shared set                              \
	".skip 6, 0x90\npop %rbp\nret\n"
#define DESTRUCTORS(shared, set)                                                                   \
	FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\n" DESTRUCTORS_CODE(shared, set)
#define SHARED ".byte 0x48, 0x83, 0x3d, 1, 2, 3, 4, 0\n"
#define SET ".byte 0x48, 0x89, 0xe5\n"
#define MORE ",--section-start=.more=0x2000"

static void code_of_destructors(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		const unsigned int set = 0x201a + 8 * i;

		assert_int_equal(
			build(MORE, i ? DESTRUCTORS(SHARED, SET) : DESTRUCTORS("", SET)).result,
			UNWIND_COMPILED);
		expect_kind(0x200f, STACKBEAT_UNWIND_NONE);
		expect_rule(0x2010, CFI_RSP, 8, false);
		expect_rule(0x2019, CFI_RSP, 8, false);
		expect_rule(0x201a, CFI_RSP, 16, true);
		expect_rule(set + 2, CFI_RSP, 16, true);
		expect_rule(set + 3, CFI_RBP, 16, true);
		expect_rule(set + 9, CFI_RBP, 16, true);
		expect_rule(set + 10, CFI_RSP, 8, false);
		expect_kind(set + 11, STACKBEAT_UNWIND_NONE);
		free(table);
	}
	assert_int_equal(build(MORE, DESTRUCTORS("", ".byte 0x48, 0x89, 0xe6\n")).result,
			 UNWIND_COMPILED);
	expect_kind(0x2010, STACKBEAT_UNWIND_NONE);
	expect_kind(0x201e, STACKBEAT_UNWIND_NONE);
	free(table);
}

/* They may be the first code that has no information. */
static void code_of_destructors_at_the_start(void **state)
{
	(void)state;
	assert_int_equal(
		build(MORE, FUNCTION ".section .more, \"ax\"\n" DESTRUCTORS_CODE("", SET)).result,
		UNWIND_COMPILED);
	expect_rule(0x2000, CFI_RSP, 8, false);
	expect_rule(0x200a, CFI_RSP, 16, true);
	expect_rule(0x200d, CFI_RBP, 16, true);
	expect_rule(0x2014, CFI_RSP, 8, false);
	expect_kind(0x2015, STACKBEAT_UNWIND_NONE);
	free(table);
}

/* The last bytes of the last page. */
static void code_of_destructors_at_the_end_of_the_file(void **state)
{
	unsigned char *bytes, *larger;
	size_t size, larger_size;
	bool found = false;
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	(void)state;
	bytes = assemble(MORE, FUNCTION ".section .more, \"ax\"\n" DESTRUCTORS_CODE("", SET),
			 &size);
	larger_size = size / PAGE * PAGE + 2 * PAGE;
	larger = calloc(1, larger_size);
	assert_non_null(larger);
	memcpy(larger, bytes, size);
	memcpy(&elf, bytes, sizeof(elf));
	for (size_t i = 0; i < elf.e_phnum; i++) {
		unsigned char *header = larger + elf.e_phoff + i * sizeof(segment);

		memcpy(&segment, header, sizeof(segment));
		if (segment.p_type != PT_LOAD || segment.p_vaddr != 0x2000)
			continue;
		memcpy(larger + larger_size - segment.p_filesz, bytes + segment.p_offset,
		       segment.p_filesz);
		segment.p_offset = larger_size - segment.p_filesz;
		memcpy(header, &segment, sizeof(segment));
		found = true;
	}
	assert_true(found);
	assert_int_equal(compile(larger, larger_size).result, UNWIND_COMPILED);
	expect_rule(0x2000, CFI_RSP, 8, false);
	expect_rule(0x2014, CFI_RSP, 8, false);
	expect_kind(0x2015, STACKBEAT_UNWIND_NONE);
	free(table);
	free(larger);
	free(bytes);
}

/* In code with frame pointers, a frame is left by pop %rbp and one of the two returns. */
static void ends_of_frames(void **state)
{
	static const struct {
		const char *end; /* of the code */
		unsigned int size; /* bytes */
		bool leaves;
	} cases[] = {
		{"pop %rbp\nret\n", 2, true},     {"pop %rbp\nret $8\n", 4, true},
		{".byte 0x5d, 0xc4\n", 2, false}, {".byte 0x5d, 0xc1\n", 2, false},
		{".byte 0x5c, 0xc3\n", 2, false}, {".byte 0x5d\n", 1, false},
	};
	/* As much code as is needed to trust rbp, and as many frames. */
	const unsigned int count = 40, frame = 2000;
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t end = 0x2000 + count * frame;

		snprintf(text, sizeof(text),
			 "%s.section .more, \"ax\"\n.rept %u\npush %%rbp\nmov %%rsp,%%rbp\n"
			 ".skip %u, 0x90\n.endr\n%s",
			 FUNCTION, count, frame - 4, cases[i].end);
		assert_int_equal(build(MORE, text).result, UNWIND_COMPILED);
		expect_rule(end - 1, CFI_RBP, 16, true);
		expect_rule(end, CFI_RBP, 16, true);
		if (cases[i].leaves)
			expect_rule(end + 1, CFI_RSP, 8, false);
		else if (cases[i].size > 1)
			expect_rule(end + 1, CFI_RBP, 16, true);
		expect_kind(end + cases[i].size, STACKBEAT_UNWIND_NONE);
		free(table);
	}
}

/* Few bytes of code without call frame information have rules from their first frame on. */
static void small_code_with_frames(void **state)
{
	static const char *const prologues[] = {"mov %rsp, %rbp\n", ".byte 0x48, 0x8b, 0xec\n"},
				 *const ends[] = {"leave\nret\n", "pop %rbp\nret\n"};
	char text[512];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(text, sizeof(text),
			 "%s.section .more, \"ax\"\n.skip 5, 0x90\npush %%rbp\n%s.skip 20, 0x90\n%s"
			 ".skip 3, 0x90\npush %%rbp\nmov %%rsp, %%rbp\n.skip 8, 0x90\n",
			 FUNCTION, prologues[i % 2], ends[i / 2]);
		assert_int_equal(build(MORE, text).result, UNWIND_COMPILED);
		expect_rule(0x100f, CFI_RSP, 16, false);
		expect_kind(0x2000, STACKBEAT_UNWIND_NONE);
		expect_kind(0x2004, STACKBEAT_UNWIND_NONE);
		expect_rule(0x2005, CFI_RSP, 8, false);
		expect_rule(0x2006, CFI_RSP, 16, true);
		expect_rule(0x2008, CFI_RSP, 16, true);
		expect_rule(0x2009, CFI_RBP, 16, true);
		expect_rule(0x201d, CFI_RBP, 16, true);
		expect_rule(0x201e, CFI_RSP, 8, false);
		expect_rule(0x2022, CFI_RSP, 8, false);
		expect_rule(0x2023, CFI_RSP, 16, true);
		expect_rule(0x202d, CFI_RBP, 16, true);
		free(table);
	}
	/* No frame, too few frames, and padding. */
	assert_int_equal(build(MORE, FUNCTION ".section .more, \"ax\"\n.rept 20\npush %rbp\n"
					      "mov %rsp, %rbx\n.endr\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x2010, STACKBEAT_UNWIND_NONE);
	free(table);
	assert_int_equal(build(MORE, FUNCTION ".section .more, \"ax\"\npush %rbp\n"
					      "mov %rsp, %rbp\n.skip 5000, 0x90\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x2010, STACKBEAT_UNWIND_NONE);
	free(table);
	assert_int_equal(build(MORE, FUNCTION ".section .more, \"ax\"\npush %rbp\n"
					      "mov %rsp, %rbp\n.skip 8, 0x90\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x2008, STACKBEAT_UNWIND_NONE);
	free(table);
}

#define CONTEXT_END "mov %%rbx, %%rsp\nmov (%%rsp), %%rdi\ntest %%rdi, %%rdi\n"

/* Functions that run on stacks of their own return to the first byte of code that ends them. */
static void ends_of_contexts(void **state)
{
	static const char *const starts[] = {"", "endbr64\n"};
	char text[512];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const unsigned int size = 10 + 4 * (unsigned int)i;

		/* glibc, with call frame information as if it was called */
		snprintf(text, sizeof(text),
			 "%s.section .more, \"ax\"\n.skip 16, 0x90\n.cfi_startproc\n%s" CONTEXT_END
			 ".cfi_endproc\n",
			 FUNCTION, starts[i]);
		assert_int_equal(build(MORE, text).result, UNWIND_COMPILED);
		expect_kind(0x200e, STACKBEAT_UNWIND_NONE);
		expect_kind(0x200f, STACKBEAT_UNWIND_END);
		expect_kind(0x2010, STACKBEAT_UNWIND_END);
		expect_kind(0x2010 + size - 1, STACKBEAT_UNWIND_END);
		free(table);
		/* Another function that ends there keeps its byte. */
		snprintf(text, sizeof(text),
			 "%s.section .more, \"ax\"\n.cfi_startproc\n.skip 16, 0x90\n.cfi_endproc\n"
			 ".cfi_startproc\n%s" CONTEXT_END ".cfi_endproc\n",
			 FUNCTION, starts[i]);
		assert_int_equal(build(MORE, text).result, UNWIND_COMPILED);
		expect_rule(0x200f, CFI_RSP, 8, false);
		expect_kind(0x2010, STACKBEAT_UNWIND_END);
		free(table);
		/* Boost.Context, without any */
		snprintf(text, sizeof(text),
			 "%s.section .more, \"ax\"\n.skip 16, 0x90\npush %%rbp\njmp *%%rbx\n%s"
			 "xor %%rdi, %%rdi\n.skip 16, 0x90\n",
			 FUNCTION, starts[i]);
		assert_int_equal(build(MORE, text).result, UNWIND_COMPILED);
		expect_kind(0x2011, STACKBEAT_UNWIND_NONE);
		expect_kind(0x2012, STACKBEAT_UNWIND_END);
		expect_kind(0x2013, STACKBEAT_UNWIND_END);
		expect_kind(0x2015, STACKBEAT_UNWIND_END);
		free(table);
	}
	/* Other code that begins in the same way. */
	assert_int_equal(build(MORE, FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\n"
					      ".cfi_startproc\nmov %rbx, %rsp\n"
					      "mov (%rsp), %rsi\ntest %rdi, %rdi\n.cfi_endproc\n"
					      ".skip 16, 0x90\npush %rbp\njmp *%rbx\n"
					      "xor %rsi, %rsi\n.skip 16, 0x90\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x200f, STACKBEAT_UNWIND_NONE);
	expect_rule(0x2010, CFI_RSP, 8, false);
	expect_kind(0x202c, STACKBEAT_UNWIND_NONE);
	expect_kind(0x202d, STACKBEAT_UNWIND_NONE);
	free(table);
}

/* A return goes to its first byte, before which a walk looks. */
static void trampoline_with_information_begins_early(void **state)
{
	size_t size;
	unsigned char *bytes = assemble("",
					FUNCTION ".skip 4, 0x90\n.cfi_startproc\n"
						 ".cfi_signal_frame\nmov $15, %rax\nsyscall\n"
						 ".cfi_endproc\n",
					&size);
	unsigned char *code = memmem(bytes, size, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);

	(void)state;
	assert_non_null(code);
	assert_int_equal(compile(bytes, size).result, UNWIND_COMPILED);
	expect_rule(0x1012, CFI_RSP, 16, false);
	expect_kind(0x1013, STACKBEAT_UNWIND_SIGNAL);
	expect_kind(0x101c, STACKBEAT_UNWIND_SIGNAL);
	free(table);
	/* Other code that is entered by the kernel. */
	code[3] = 0x0e;
	assert_int_equal(compile(bytes, size).result, UNWIND_COMPILED);
	expect_rule(0x1013, CFI_RSP, 16, false);
	expect_kind(0x1014, STACKBEAT_UNWIND_SIGNAL);
	free(table);
	free(bytes);
}

/* Without section headers, .eh_frame is where its segment says, in the one form that linkers write.
 */
static void segment_leads_to_call_frame_information(void **state)
{
	static const struct {
		size_t at;
		unsigned char value;
		enum unwind_result result;
	} cases[] = {
		{0, 1, UNWIND_COMPILED},
		{0, 2, UNWIND_NO_INFORMATION},
		{1, 0x3b, UNWIND_NO_INFORMATION},
	};
	unsigned char *bytes, *header = NULL, *segment_header = NULL;
	Elf64_Phdr segment;
	Elf64_Ehdr elf;
	size_t size;

	(void)state;
	bytes = assemble(",--eh-frame-hdr", FUNCTION, &size);
	memcpy(&elf, bytes, sizeof(elf));
	elf.e_shoff = elf.e_shnum = elf.e_shstrndx = 0;
	memcpy(bytes, &elf, sizeof(elf));
	for (size_t i = 0; i < elf.e_phnum && !header; i++) {
		segment_header = bytes + elf.e_phoff + i * sizeof(segment);
		memcpy(&segment, segment_header, sizeof(segment));
		if (segment.p_type == PT_GNU_EH_FRAME)
			header = bytes + segment.p_offset;
	}
	assert_non_null(header);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const unsigned char before = header[cases[i].at];

		header[cases[i].at] = cases[i].value;
		assert_int_equal(compile(bytes, size).result, cases[i].result);
		header[cases[i].at] = before;
		free(table);
	}
	for (segment.p_filesz = 7; segment.p_filesz < 9; segment.p_filesz++) {
		memcpy(segment_header, &segment, sizeof(segment));
		assert_int_equal(compile(bytes, size).result,
				 segment.p_filesz < 8 ? UNWIND_NO_INFORMATION : UNWIND_COMPILED);
		free(table);
	}
	free(bytes);
}

#define THREAD(start, call, end)                                                                   \
	FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\nsyscall\n" start "pop %rdi\n" call       \
		 "mov %eax, %edi\nmov $60, %al\n" end ".skip 16, 0x90\n"

/* Code without call frame information at which a thread begins, as in musl's clone(). */
static void ends_of_threads(void **state)
{
	static const char *const others[] = {
		THREAD("xor %ebx, %ebx\n", "call *%r9\n", "syscall\nhlt\n"),
		THREAD("xor %ebp, %ebp\n", "call *%r9\n", "syscall\nret\n"),
		THREAD("xor %ebp, %ebp\n", "jmp *%r9\n", "syscall\nhlt\n"),
		THREAD("xor %ebp, %ebp\n", "mov %r9, %r8\n", "syscall\nhlt\n"),
		THREAD("xor %ebp, %ebp\n", "call *%rax\n.skip 32, 0x90\n", "syscall\nhlt\n"),
		FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\nsyscall\nhlt\n.skip 16, 0x90\n",
	};

	(void)state;
	assert_int_equal(
		build(MORE, THREAD("xor %ebp, %ebp\n", "call *%r9\n", "syscall\nhlt\n")).result,
		UNWIND_COMPILED);
	expect_kind(0x2013, STACKBEAT_UNWIND_NONE);
	for (uint64_t address = 0x2014; address < 0x201f; address++)
		expect_kind(address, STACKBEAT_UNWIND_END);
	expect_kind(0x201f, STACKBEAT_UNWIND_NONE);
	free(table);
	/* Two of them, with an old register and without an argument on the stack. */
	assert_int_equal(build(MORE, FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\n"
					      "syscall\nhlt\nxor %ebp, %ebp\ncall *%rax\n"
					      "syscall\nhlt\n.skip 16, 0x90\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x2010, STACKBEAT_UNWIND_NONE);
	expect_kind(0x2014, STACKBEAT_UNWIND_NONE);
	expect_kind(0x2015, STACKBEAT_UNWIND_END);
	expect_kind(0x2019, STACKBEAT_UNWIND_END);
	free(table);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(build(MORE, others[i]).result, UNWIND_COMPILED);
		for (uint64_t address = 0x2010; address < 0x2020; address++)
			expect_kind(address, STACKBEAT_UNWIND_NONE);
		free(table);
	}
}

/* Moves the section out of the file, and gives it another name of the same length. */
static void move_section(unsigned char *bytes, size_t size, const char *from, const char *to)
{
	Elf64_Ehdr elf;
	Elf64_Shdr names, section;
	bool found = false;

	memcpy(&elf, bytes, sizeof(elf));
	memcpy(&names, bytes + elf.e_shoff + elf.e_shstrndx * sizeof(names), sizeof(names));
	for (size_t i = 0; i < elf.e_shnum; i++) {
		unsigned char *header = bytes + elf.e_shoff + i * sizeof(section);
		char *name;

		memcpy(&section, header, sizeof(section));
		name = (char *)bytes + names.sh_offset + section.sh_name;
		if (strcmp(name, from) != 0)
			continue;
		memcpy(name, to, strlen(to));
		section.sh_offset = size;
		memcpy(header, &section, sizeof(section));
		found = true;
	}
	assert_true(found);
}

/* It is left out. */
static void compressed_section_beyond_the_file(void **state)
{
	size_t size;
	unsigned char *bytes = assemble(
		"", FUNCTION ".section .others_frame, \"\"\n.ascii \"ZLIB\"\n.skip 60\n", &size);

	(void)state;
	/* The old form of compression. */
	move_section(bytes, size, ".others_frame", ".zdebug_frame");
	assert_int_equal(compile(bytes, size).result, UNWIND_COMPILED);
	expect_rule(0x1000, CFI_RSP, 8, false);
	expect_rule(0x100f, CFI_RSP, 16, false);
	free(table);
	free(bytes);
}

/* As in a file of debug information, whose code and its information are elsewhere. */
static void section_without_contents(void **state)
{
	Elf64_Shdr names, section;
	unsigned char *bytes;
	bool found = false;
	Elf64_Ehdr elf;
	size_t size;

	(void)state;
	bytes = assemble("", FUNCTION, &size);
	memcpy(&elf, bytes, sizeof(elf));
	memcpy(&names, bytes + elf.e_shoff + elf.e_shstrndx * sizeof(names), sizeof(names));
	for (size_t i = 0; i < elf.e_shnum; i++) {
		unsigned char *header = bytes + elf.e_shoff + i * sizeof(section);

		memcpy(&section, header, sizeof(section));
		if (strcmp((char *)bytes + names.sh_offset + section.sh_name, ".eh_frame") != 0)
			continue;
		section.sh_type = SHT_NOBITS;
		memcpy(header, &section, sizeof(section));
		found = true;
	}
	assert_true(found);
	assert_int_equal(compile(bytes, size).result, UNWIND_NO_INFORMATION);
	free(bytes);
}

/* Stubs of calls to shared libraries: each section whose name says so, if it is code. */
static void code_of_stubs(void **state)
{
	static const char *const names[] = {".plt", ".plt.sec", ".plt.got", ".other"};
	char flags[64], text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(flags, sizeof(flags), ",--section-start=%s=0x2000", names[i]);
		snprintf(text, sizeof(text),
			 "%s.section %s, \"ax\"\njmp *0x100(%%rip)\nxchg %%ax, %%ax\n", FUNCTION,
			 names[i]);
		assert_int_equal(build(flags, text).result, UNWIND_COMPILED);
		if (i < 3)
			expect_rule(0x2000, CFI_RSP, 8, false);
		else
			expect_kind(0x2000, STACKBEAT_UNWIND_NONE);
		free(table);
	}
}

/* Code without call frame information, by its bytes */

/* A program whose segment at 0x2000 gets the bytes of each case. */
static struct {
	unsigned char *bytes;
	size_t size; /* without the bytes of a case */
	size_t header; /* offset of the segment's header */
} frame;

static void make_frame(void)
{
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	frame.bytes =
		assemble(MORE, FUNCTION ".section .more, \"ax\"\n.skip 16, 0x90\n", &frame.size);
	frame.size = frame.size / PAGE * PAGE + PAGE;
	frame.bytes = realloc(frame.bytes, frame.size + CODE_MAX);
	assert_non_null(frame.bytes);
	memcpy(&elf, frame.bytes, sizeof(elf));
	for (size_t i = 0; i < elf.e_phnum; i++) {
		const size_t header = elf.e_phoff + i * sizeof(segment);

		memcpy(&segment, frame.bytes + header, sizeof(segment));
		if (segment.p_type == PT_LOAD && segment.p_vaddr == 0x2000)
			frame.header = header;
	}
	assert_true(frame.header);
}

static const char *behind_code; /* bytes of the file behind the code of a case; NULL: none */

/* As a character: see expect_code(). */
static char rule_at(uint64_t address)
{
	static const struct {
		struct stackbeat_unwind_rule rule;
		char character;
	} rules[] = {
		{{.kind_base = STACKBEAT_UNWIND_CALLER | CFI_RSP << 4, .cfa = 8}, 'c'},
		{{.kind_base = STACKBEAT_UNWIND_CALLER | CFI_RSP << 4, .cfa = 16}, 'p'},
		{{.kind_base = STACKBEAT_UNWIND_CALLER | CFI_RBP << 4, .cfa = 16}, 'f'},
	};
	const struct stackbeat_unwind_rule *rule = stackbeat_unwind_find(&view, address);

	if (!rule || (rule->kind_base & 0xf) == STACKBEAT_UNWIND_NONE)
		return '.';
	if ((rule->kind_base & 0xf) == STACKBEAT_UNWIND_END)
		return 'e';
	if ((rule->kind_base & 0xf) == STACKBEAT_UNWIND_SIGNAL)
		return 's';
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (rule->kind_base == rules[i].rule.kind_base && rule->cfa == rules[i].rule.cfa)
			return rules[i].character;
	}
	return '?';
}

static void compile_code(const void *code, size_t size)
{
	const size_t rest = behind_code ? strlen(behind_code) : 0;
	Elf64_Phdr segment;

	assert_true(size + rest <= CODE_MAX);
	memcpy(&segment, frame.bytes + frame.header, sizeof(segment));
	segment.p_offset = frame.size;
	segment.p_filesz = segment.p_memsz = size;
	memcpy(frame.bytes + frame.header, &segment, sizeof(segment));
	memcpy(frame.bytes + frame.size, code, size);
	memcpy(frame.bytes + frame.size + size, behind_code ? behind_code : "", rest);
	assert_int_equal(compile(frame.bytes, frame.size + size + rest).result, UNWIND_COMPILED);
}

/*
 * Each byte has a rule: 'c' of the caller, 'p' with rbp pushed, 'f' by the frame pointer, 'e' of
 * the end of a stack, 's' of a signal handler's return; '.': none.
 */
static void expect_code(const void *code, size_t size, const char *rules)
{
	char found[128];

	assert_true(size < sizeof(found));
	compile_code(code, size);
	for (size_t i = 0; i < size; i++)
		found[i] = rule_at(0x2000 + i);
	found[size] = '\0';
	assert_string_equal(found, rules);
	assert_int_equal(rule_at(0x2000 + size), '.');
	free(table);
}

#define EXPECT_CODE(code, rules) expect_code(code, sizeof(code) - 1, rules)

#define PUSH "\x55"
#define SET_UP PUSH "\x48\x89\xe5"
#define NOPS_4 "\x90\x90\x90\x90"
#define NOPS_16 NOPS_4 NOPS_4 NOPS_4 NOPS_4

struct code_case {
	const char *code;
	size_t size;
	unsigned int expected;
};

#define CASE(code, expected)                                                                       \
	{                                                                                          \
		code, sizeof(code) - 1, expected                                                   \
	}

/* Instructions between push %rbp and mov %rsp,%rbp; how many bytes set the frame up. */
static void set_up_of_frames(void **state)
{
	static const struct code_case cases[] = {
		CASE(SET_UP, 4),
		CASE(PUSH "\x48\x8b\xec", 4),
		CASE(PUSH "\x90\x48\x89\xe5", 5),
		CASE("\x54\x48\x89\xe5", 0),
		CASE(PUSH "\x48\x89\xe6", 0),
		/* ret, push %rax, push $1, call, mov %rsp,%rax, add %eax,%esp */
		CASE(PUSH "\xc3\x48\x89\xe5", 0),
		CASE(PUSH "\x50\x48\x89\xe5", 0),
		CASE(PUSH "\x5f\x48\x89\xe5", 0),
		CASE(PUSH "\x6a\x01\x48\x89\xe5", 0),
		CASE(PUSH "\x68\x01\x01\x01\x01\x48\x89\xe5", 0),
		CASE(PUSH "\xe8\x01\x01\x01\x01\x48\x89\xe5", 0),
		CASE(PUSH "\x89\xe0\x48\x89\xe5", 0),
		CASE(PUSH "\x01\xc4\x48\x89\xe5", 0),
		/* mov %eax,(%rsp), inc %eax: rsp stays. */
		CASE(PUSH "\x89\x04\x24\x48\x89\xe5", 7),
		CASE(PUSH "\xff\xc0\x48\x89\xe5", 6),
		/* No longer than 24 bytes. */
		CASE(PUSH NOPS_16 NOPS_4 "\x48\x89\xe5", 24),
		CASE(PUSH NOPS_16 NOPS_4 "\x90\x48\x89\xe5", 0),
		CASE(PUSH NOPS_16 NOPS_4 "\x90\x48\x8b\xec", 0),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char code[] = SET_UP NOPS_16 NOPS_16 NOPS_16, rules[sizeof(code)];

		memset(rules, 'f', sizeof(rules));
		rules[sizeof(rules) - 1] = '\0';
		memcpy(rules, "cppp", 4);
		memcpy(code + 18, cases[i].code, cases[i].size);
		memset(rules + 18, 'p', cases[i].expected);
		rules[18] = cases[i].expected ? 'c' : 'f';
		expect_code(code, sizeof(code) - 1, rules);
	}
	/* One behind the other. */
	EXPECT_CODE(NOPS_16 SET_UP SET_UP SET_UP "\x90", "................cpppcpppcpppf");
	/* The last bytes. */
	EXPECT_CODE(NOPS_16 SET_UP, "................cppp");
	EXPECT_CODE(SET_UP NOPS_16 PUSH "\x48\x89", "cpppfffffffffffffffffff");
}

/* Functions that are called, and leave the stack as it is up to their last return. */
static void code_that_leaves_the_stack(void **state)
{
	static const struct code_case cases[] = {
		CASE("\xc3", 1),
		CASE("\x90\x90\xc3", 3),
		CASE("\x90\xc3\x90\x90\xc3\x90", 5),
		CASE("\x90", 0),
		/* No call: push, pop, call, call *%rax, push (%rax); jmp *%rax does no harm. */
		CASE("\x50\xc3", 0),
		CASE("\x5f\xc3", 0),
		CASE("\x60\xc3", 2),
		CASE("\x4f\xc3", 2),
		CASE("\xe8\x01\x01\x01\x01\xc3", 0),
		CASE("\xff\xd0\xc3", 0),
		CASE("\xff\x1f\xc3", 0),
		CASE("\xff\x30\xc3", 0),
		CASE("\xff\xc0\xc3", 3),
		CASE("\xff\xe0\xc3", 3),
		/* Constants have any bytes; other instructions have none of ten. */
		CASE("\x48\xb8\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 11),
		CASE("\x49\xbf\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 11),
		CASE("\xc3\x90\x90\x90\x90\x90\x48\xb8\x50\x50\x50\x50\x50\x50\x50\x50", 1),
		CASE("\x4a\xb8\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 0),
		CASE("\x48\xb7\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 0),
		CASE("\x48\xc0\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 0),
		CASE("\x48\xb8\x50\x50\x50\x50\x50\x50\x50\xc3\x50\xc3", 0),
		CASE("\x48\xb8\x50\x50\x50\x50\x50\x50\x50\x50\x50\xc3", 0),
		/* sub %rax,%rsp; xor; sub $8,%rsp; mov %rax,%rsp; lea (%rax),%rsp; xchg; mov $ */
		CASE("\x48\x29\xc4\xc3", 0),
		CASE("\x31\xe4\xc3", 0),
		CASE("\x48\x83\xec\x08\xc3", 0),
		CASE("\x48\x81\xec\x08\x01\x01\x01\xc3", 0),
		CASE("\x48\x83\xc0\x08\xc3", 5),
		CASE("\x48\x89\xc4\xc3", 0),
		CASE("\x48\x8b\x20\xc3", 0),
		CASE("\x48\x8d\x20\xc3", 0),
		CASE("\x48\x87\xe0\xc3", 0),
		CASE("\x94\xc3", 0),
		CASE("\xbc\x01\x01\x01\x01\xc3", 0),
		/* The next one, which sets up a frame, has no call. */
		CASE("\x90\xc3\x90" SET_UP "\xc3", 2),
	};
	/* It calls 0x20. */
	static const char caller[] = SET_UP "\xe8\x17\0\0\0\xc9\xc3";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char code[] = NOPS_16 NOPS_16 NOPS_16 SET_UP "\x90", rules[sizeof(code)];
		const char *next = memmem(cases[i].code, cases[i].size, SET_UP, 4);

		memset(rules, 'f', sizeof(rules));
		rules[sizeof(rules) - 1] = '\0';
		memcpy(rules, "cpppffffffc", 11);
		memcpy(rules + 48, "cppp", 4);
		memcpy(code, caller, sizeof(caller) - 1);
		memcpy(code + 32, cases[i].code, cases[i].size);
		memset(rules + 32, 'c', cases[i].expected);
		if (next)
			memcpy(rules + 32 + (next - cases[i].code), "cppp", 4);
		expect_code(code, sizeof(code) - 1, rules);
	}
}

/* The targets of calls, which decide where functions begin. */
static void functions_begin_at_targets_of_calls(void **state)
{
	(void)state;
	/* The first one ends before the second one. */
	EXPECT_CODE(SET_UP "\xe8\x17\0\0\0\xe8\x22\0\0\0\xc9\xc3" NOPS_16
			   "\x90\xc3" NOPS_4 NOPS_4 NOPS_4 "\x90\x90\x90\xc3" NOPS_4,
		    "cpppfffffffffffcffffffffffffffffccffffffffffffffccffff");
	/* The last bytes are a call backwards. */
	EXPECT_CODE(SET_UP NOPS_4 NOPS_4 NOPS_4 "\x90\xc3" SET_UP NOPS_4 "\x90\xe8\xf0\xff\xff\xff",
		    "cpppffffffffffffcccpppffffffffff");
	/* To an address that is not aligned, and to the end. */
	EXPECT_CODE(SET_UP "\xe8\x18\0\0\0\xe8\x22\0\0\0\x90\x90" NOPS_16
			   "\x90\x90\xc3" NOPS_4 NOPS_4 NOPS_4 "\x90",
		    "cpppffffffffffffffffffffffffffffffffffffffffffff");
}

/* How much code there is to each frame. */
static void frames_are_in_all_of_the_code(void **state)
{
	static const struct {
		size_t size, first; /* bytes, and where the first frame is */
		size_t count; /* of frames */
		char before, at; /* the rules before the first frame, and there */
	} cases[] = {
		{15, 0, 1, '.', '.'},           {16, 1, 1, '.', 'c'},
		{100 + 4095, 100, 1, '.', 'c'}, {100 + 4096, 100, 1, '.', '.'},
		{100 + 4096, 100, 2, '.', 'c'}, {CODE_MAX - 1, 100, 31, '.', 'c'},
		{CODE_MAX, 100, 32, 'f', 'c'},  {CODE_MAX, 100, 31, '.', '.'},
	};
	unsigned char *code = malloc(CODE_MAX);

	(void)state;
	assert_non_null(code);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(code, 0x90, CODE_MAX);
		for (size_t j = 0; j < cases[i].count; j++)
			memcpy(code + cases[i].first + 5 * j, SET_UP, 4);
		compile_code(code, cases[i].size);
		if (cases[i].first)
			assert_int_equal(rule_at(0x2000 + cases[i].first - 1), cases[i].before);
		assert_int_equal(rule_at(0x2000 + cases[i].first), cases[i].at);
		free(table);
	}
	free(code);
}

/* Returns from signal handlers, and ends of stacks. */
#define RESTORER "\x48\xc7\xc0\x0f\0\0\0\x0f\x05"
#define JUMP PUSH "\xff\xe3"
#define CLEAR "\x48\x31\xff"

static void known_code_by_its_bytes(void **state)
{
	(void)state;
	EXPECT_CODE(RESTORER, "sssssssss");
	EXPECT_CODE("\x90" RESTORER, "ssssssssss");
	EXPECT_CODE("\x90\x90\x05" RESTORER "\x90", "..ssssssssss.");
	EXPECT_CODE("\x05\x90\x90\x90\x90\x90\x90\x90\x90\x05\x90" RESTORER,
		    "..........ssssssssss");
	EXPECT_CODE("\x48\xc7\xc0\x0f\0\0\0\x0f\x04", ".........");
	EXPECT_CODE(JUMP CLEAR NOPS_4, "..eeee....");
	EXPECT_CODE(NOPS_4 JUMP CLEAR, "......eeee");
	EXPECT_CODE(NOPS_4 JUMP "\xf3\x0f\x1e\xfa" CLEAR, "......eeeeeeee");
	EXPECT_CODE(NOPS_4 JUMP "\xf3\x0f\x1e\xfa", "...........");
	EXPECT_CODE(NOPS_4 NOPS_4 JUMP "\x48\x31", ".............");
	EXPECT_CODE(NOPS_4 NOPS_4 JUMP, "...........");
}

/* Also in the first byte behind a return, or behind the set-up: rbp is the frame there. */
static void frames_are_left_twice(void **state)
{
	(void)state;
	EXPECT_CODE(SET_UP NOPS_16 "\x5d\xc3\x5d\xc3", "cpppfffffffffffffffffcfc");
	EXPECT_CODE(SET_UP NOPS_16 "\xc9\xc3\xc9\xc3", "cpppfffffffffffffffffcfc");
	EXPECT_CODE(SET_UP NOPS_16 SET_UP "\x5d\xc3", "cpppffffffffffffffffcpppfc");
}

/* An executable segment beyond the file, where the program begins: it has no code. */
static void segment_beyond_the_file(void **state)
{
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	(void)state;
	memcpy(&elf, frame.bytes, sizeof(elf));
	elf.e_entry = 0x2000;
	memcpy(frame.bytes, &elf, sizeof(elf));
	memcpy(&segment, frame.bytes + frame.header, sizeof(segment));
	segment.p_offset = frame.size;
	segment.p_filesz = segment.p_memsz = 32;
	memcpy(frame.bytes + frame.header, &segment, sizeof(segment));
	assert_int_equal(compile(frame.bytes, frame.size).result, UNWIND_COMPILED);
	expect_rule(0x1000, CFI_RSP, 8, false);
	expect_rule(0x100f, CFI_RSP, 16, false);
	expect_kind(0x2000, STACKBEAT_UNWIND_NONE);
	free(table);
	elf.e_entry = 0;
	memcpy(frame.bytes, &elf, sizeof(elf));
}

/* What is behind the segment in the file is no code, even if it would end an instruction. */
static void code_ends_with_its_segment(void **state)
{
	(void)state;
	behind_code = "\x48\x89\xe5";
	EXPECT_CODE(NOPS_16 PUSH, ".................");
	EXPECT_CODE(SET_UP NOPS_16 PUSH, "cpppfffffffffffffffff");
	/* A function that is called at 0x10 has no end before it. */
	EXPECT_CODE(SET_UP "\xe8\x07\0\0\0\xc9\xc3\x90\x90\x90\x90\x90\xc3" PUSH,
		    "cpppffffffcfffffff");
	behind_code = "\xc3";
	EXPECT_CODE(SET_UP NOPS_16 "\x5d", "cpppfffffffffffffffff");
	/* The function at 0x10 keeps its rule. */
	EXPECT_CODE(SET_UP "\xe8\x07\0\0\0\xc9\xc3\x90\x90\x90\x90\x90\xc3\xc9",
		    "cpppffffffcfffffcf");
	behind_code = CLEAR;
	EXPECT_CODE(NOPS_16 JUMP, "...................");
	behind_code = "\xf3\x0f\x1e\xfa" CLEAR;
	EXPECT_CODE(NOPS_16 JUMP, "...................");
	behind_code = CLEAR;
	EXPECT_CODE(NOPS_16 JUMP "\xf3\x0f\x1e\xfa", ".......................");
	behind_code = &CLEAR[1];
	EXPECT_CODE(NOPS_16 JUMP "\x48", "....................");
	behind_code = NULL;
}

/* Also beside a function that has call frame information. */
static void known_code_is_found_in_the_first_segment(void **state)
{
	(void)state;
	assert_int_equal(build("", FUNCTION ".skip 32, 0x90\nmov $15, %rax\nsyscall\n"
					    ".skip 16, 0x90\n")
				 .result,
			 UNWIND_COMPILED);
	expect_kind(0x102e, STACKBEAT_UNWIND_NONE);
	expect_kind(0x102f, STACKBEAT_UNWIND_SIGNAL);
	expect_kind(0x1038, STACKBEAT_UNWIND_SIGNAL);
	expect_kind(0x1039, STACKBEAT_UNWIND_NONE);
	free(table);
}

/*
 * Instructions between two bodies with frame pointers, in which an address that a call has pushed
 * may be found, or not: then the bodies are one run.
 */
static void calls_end_a_run(void **state)
{
	static const struct code_case cases[] = {
		CASE("\x90", 1),
		/* call, call *%rax, lcall; with all of their bytes */
		CASE("\xe8\1\1\1\1", 2),
		CASE("\xe8\1\1\1", 1),
		CASE("\x90\xe8\1\1\1\1\x90", 2),
		CASE("\x90\xe8\1\1\1", 1),
		CASE("\xff\xd0", 2),
		CASE("\x90\x90\xff\xd7", 2),
		CASE("\xff\xd4", 2),
		CASE("\xff\xd8", 2),
		CASE("\xff", 1),
		CASE("\xfe\xd0", 1),
		/* inc, dec, jmp, ljmp, push */
		CASE("\xff\xc0\x90\x90\x90\x90\x90\x90", 1),
		CASE("\xff\xc8\x90\x90\x90\x90\x90\x90", 1),
		CASE("\xff\xe0\x90\x90\x90\x90\x90\x90", 1),
		CASE("\xff\xe8\x90\x90\x90", 1),
		CASE("\xff\xf0\x90\x90\x90\x90\x90\x90", 1),
		/* call *(%rax), *1(%rax), *n(%rax), *n(%rip) */
		CASE("\xff\x10", 2),
		CASE("\xff\x18", 2),
		CASE("\xff\x50\1", 2),
		CASE("\xff\x50", 1),
		CASE("\xff\x55\1", 2),
		CASE("\xff\x90\1\1\1\1", 2),
		CASE("\xff\x90\1\1\1", 1),
		CASE("\xff\x95\1\1\1\1", 2),
		CASE("\xff\x15\1\1\1\1", 2),
		CASE("\xff\x15\1\1\1", 1),
		CASE("\x90\xff\x15\1\1\1", 1),
		/* call *(%rsp), *1(%rsp), *n(%rsp) */
		CASE("\xff\x14\x24", 2),
		CASE("\xff\x14", 1),
		CASE("\xff\x54\x24\1", 2),
		CASE("\xff\x54\x24", 1),
		CASE("\xff\x94\x24\1\1\1\1", 2),
		CASE("\xff\x94\x24\1\1\1", 1),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char bytes[64] = "", text[512];

		for (size_t j = 0; j < cases[i].size; j++)
			sprintf(bytes + strlen(bytes), "%s%u", j ? ", " : "",
				(unsigned char)cases[i].code[j]);
		snprintf(text, sizeof(text),
			 ".text\n.cfi_startproc\n.cfi_def_cfa %%rbp, 16\n.cfi_offset %%rbp, -16\n"
			 ".skip 4096, 0x90\n.cfi_def_cfa %%rsp, 8\n.cfi_restore %%rbp\n.byte %s\n"
			 ".cfi_def_cfa %%rbp, 16\n.cfi_offset %%rbp, -16\n.skip 4096, 0x90\n"
			 ".cfi_endproc\n",
			 bytes);
		assert_int_equal(build("", text).result, UNWIND_COMPILED);
		if (view.run_count != cases[i].expected)
			fail_msg("%s: %u runs", bytes, view.run_count);
		free(table);
	}
}

/* In each form that assemblers and objcopy write, behind sections that are left out. */
static void debug_frame_may_be_compressed(void **state)
{
	static const char *const forms[] = {"none", "zlib", "zlib-gnu"};
	unsigned char *bytes;
	size_t size;

	(void)state;
	free(assemble("",
		      ".bss\n.skip 8\n.cfi_sections .debug_frame\n" FUNCTION
		      ".rept 64\n.cfi_startproc\n.skip 16, 0x90\n.cfi_endproc\n.endr\n",
		      &size));
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		run("cd '%s' && objcopy --compress-debug-sections=%s program form", sandbox,
		    forms[i]);
		bytes = read_bytes(in_sandbox("form"), &size);
		assert_int_equal(!!memmem(bytes, size, ".zdebug_frame", 13), i == 2);
		assert_int_equal(compile(bytes, size).result, UNWIND_COMPILED);
		expect_rule(0x1000, CFI_RSP, 8, false);
		expect_rule(0x100f, CFI_RSP, 16, false);
		expect_rule(0x140f, CFI_RSP, 8, false);
		free(table);
		free(bytes);
	}
}

static void code_of_other_machines_is_refused(void **state)
{
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
	};

	(void)state;
	assert_int_equal(compile(&header, sizeof(header)).result, UNWIND_NO_INFORMATION);
	header.e_machine = EM_AARCH64;
	assert_int_equal(compile(&header, sizeof(header)).result, UNWIND_OTHER_MACHINE);
	/* x32 */
	header.e_machine = EM_X86_64;
	header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(compile(&header, sizeof(header)).result, UNWIND_OTHER_MACHINE);
	header.e_ident[EI_CLASS] = ELFCLASSNONE;
	assert_int_equal(compile(&header, sizeof(header)).result, UNWIND_BROKEN_FILE);
}

static void summaries_are_verified(void **state)
{
	static const struct {
		struct unwind_summary summary;
		bool is_valid;
	} cases[] = {
		{{.result = UNWIND_COMPILED, .size = 1}, true},
		{{.result = UNWIND_COMPILED, .size = 0}, false},
		{{.result = UNWIND_COMPILED, .size = UNWIND_TABLE_MAX}, true},
		{{.result = UNWIND_COMPILED, .size = UNWIND_TABLE_MAX + 1}, false},
		{{.result = UNWIND_NO_INFORMATION, .size = 0}, true},
		{{.result = UNWIND_NO_INFORMATION, .size = 1}, false},
		{{.result = UNWIND_RESULT_COUNT - 1, .size = 0}, true},
		{{.result = UNWIND_RESULT_COUNT, .size = 0}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(unwind_summary_is_valid(&cases[i].summary), cases[i].is_valid);
}

static int set_up_code(void **state)
{
	if (make_sandbox(state))
		return -1;
	make_frame();
	return 0;
}

static int tear_down_code(void **state)
{
	free(frame.bytes);
	return remove_sandbox(state);
}

static void results_have_texts(void **state)
{
	(void)state;
	for (int i = 0; i < UNWIND_RESULT_COUNT; i++)
		assert_non_null(unwind_result_text((enum unwind_result)i));
	assert_string_equal(unwind_result_text(UNWIND_NO_MEMORY), "out of memory");
	assert_string_equal(unwind_result_text(UNWIND_RESULT_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_of_go),
		cmocka_unit_test(go_without_code),
		cmocka_unit_test(code_of_init),
		cmocka_unit_test(code_of_init_at_the_end_of_the_file),
		cmocka_unit_test(code_of_destructors),
		cmocka_unit_test(code_of_destructors_at_the_start),
		cmocka_unit_test(code_of_destructors_at_the_end_of_the_file),
		cmocka_unit_test(ends_of_frames),
		cmocka_unit_test(small_code_with_frames),
		cmocka_unit_test(ends_of_contexts),
		cmocka_unit_test(ends_of_threads),
		cmocka_unit_test(trampoline_with_information_begins_early),
		cmocka_unit_test(segment_leads_to_call_frame_information),
		cmocka_unit_test(compressed_section_beyond_the_file),
		cmocka_unit_test(section_without_contents),
		cmocka_unit_test(code_of_stubs),
		cmocka_unit_test(results_have_texts),
		cmocka_unit_test(frames_are_left_twice),
		cmocka_unit_test(segment_beyond_the_file),
		cmocka_unit_test(code_ends_with_its_segment),
		cmocka_unit_test(known_code_is_found_in_the_first_segment),
		cmocka_unit_test(calls_end_a_run),
		cmocka_unit_test(debug_frame_may_be_compressed),
		cmocka_unit_test(code_of_other_machines_is_refused),
		cmocka_unit_test(summaries_are_verified),
		cmocka_unit_test(set_up_of_frames),
		cmocka_unit_test(code_that_leaves_the_stack),
		cmocka_unit_test(functions_begin_at_targets_of_calls),
		cmocka_unit_test(frames_are_in_all_of_the_code),
		cmocka_unit_test(known_code_by_its_bytes),
	};

	return cmocka_run_group_tests_name("compile", tests, set_up_code, tear_down_code);
}
