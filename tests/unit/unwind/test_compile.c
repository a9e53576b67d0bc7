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
	memcpy(image->bytes + sizeof(elf), segments, sizeof(segments));
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

/* Moves the section out of the file, and gives it another name of the same length. */
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
		cmocka_unit_test(code_of_destructors),
		cmocka_unit_test(code_of_destructors_at_the_start),
		cmocka_unit_test(code_of_destructors_at_the_end_of_the_file),
		cmocka_unit_test(ends_of_frames),
		cmocka_unit_test(small_code_with_frames),
		cmocka_unit_test(ends_of_contexts),
		cmocka_unit_test(ends_of_threads),
		cmocka_unit_test(compressed_section_beyond_the_file),
		cmocka_unit_test(code_of_stubs),
		cmocka_unit_test(results_have_texts),
	};

	return cmocka_run_group_tests_name("compile", tests, make_sandbox, remove_sandbox);
}
