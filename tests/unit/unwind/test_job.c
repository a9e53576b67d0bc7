// SPDX-License-Identifier: GPL-2.0
/* Also covers compile.c and go_frames.c: tables of real files. */
#include "unit.h"

#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/clock.h"
#include "patience.h"
#include "sandbox.h"
#include "sandbox/fork_server.h"
#include "unwind/job.h"
#include "unwind/libdw_reference.h"
#include "worker_server.h"

#define ADDRESSES 3000u

static int wait_and_finish(struct unwind_job *job, struct unwind_summary *summary,
			   struct stackbeat_unwind_table **table)
{
	struct pollfd lifeline = {.fd = job->lifeline, .events = POLLIN};

	assert_int_equal(poll(&lifeline, 1, hang_ms()), 1);
	return unwind_job_finish(job, summary, table);
}

/* Compiles an open file, which it closes, in a worker. */
static struct unwind_summary compile(int fd, struct stackbeat_unwind_table **table)
{
	struct unwind_summary summary;
	struct unwind_job job;

	assert_true(fd >= 0);
	assert_int_equal(unwind_job_start(&job, worker_server(), fd, false), 0);
	close(fd);
	assert_int_equal(wait_and_finish(&job, &summary, table), 0);
	return summary;
}

static struct unwind_summary compile_path(const char *path, struct stackbeat_unwind_table **table)
{
	return compile(open(path, O_RDONLY | O_CLOEXEC), table);
}

/* Builds a program, and compiles its table. */
static struct unwind_summary build(const char *flags, const char *text,
				   struct stackbeat_unwind_table **table)
{
	write_text(in_sandbox("source.c"), text);
	run("cd '%s' && gcc -w %s -o program source.c", sandbox, flags);
	return compile_path(in_sandbox("program"), table);
}

static void expect_result(int fd, enum unwind_result result)
{
	struct stackbeat_unwind_table *table;

	assert_int_equal(compile(fd, &table).result, result);
	assert_null(table);
}

/* The largest executable segment. */
static void find_code(Elf *elf, GElf_Phdr *code)
{
	GElf_Phdr header;
	size_t count;

	*code = (GElf_Phdr){0};
	assert_int_equal(elf_getphdrnum(elf, &count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(gelf_getphdr(elf, (int)i, &header));
		if (header.p_type == PT_LOAD && header.p_flags & PF_X &&
		    header.p_filesz > code->p_filesz)
			*code = header;
	}
}

/* Compares the table of a file with elfutils at random addresses. */
static void expect_equal_rules(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_view view;
	unsigned int equal = 0;
	Dwarf_CFI *cfi;
	GElf_Phdr code;
	Elf *elf;

	assert_true(fd >= 0);
	assert_int_equal(compile_path(path, &table).result, UNWIND_COMPILED);
	stackbeat_unwind_open(table, &view);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	find_code(elf, &code);
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		uint64_t address = code.p_vaddr + (uint64_t)random() % code.p_filesz;
		struct reference_caller expected, got;
		Dwarf_Frame *frame;

		if (dwarf_cfi_addrframe(cfi, address, &frame))
			continue;
		expected = reference_libdw(frame, address);
		free(frame);
		got = reference_rule(stackbeat_unwind_find(&view, address));
		if (!reference_equal(&expected, &got))
			fail_msg("%s: other rule at %lx", path, (unsigned long)address);
		equal++;
	}
	/* Some linkers put constants into the segment, half of it in this program. */
	assert_true(equal > ADDRESSES / 4);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	free(table);
}

static int see_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *path = arg;

	(void)size;
	if (strstr(info->dlpi_name, "/libc.so"))
		snprintf(path, PATH_MAX, "%s", info->dlpi_name);
	return 0;
}

static void rules_of_real_files_are_those_of_elfutils(void **state)
{
	char libc[PATH_MAX] = "";

	(void)state;
	srandom(1);
	dl_iterate_phdr(see_library, libc);
	expect_equal_rules(libc);
	expect_equal_rules("/proc/self/exe");
	expect_equal_rules("/bin/sh");
	expect_equal_rules("/lib64/ld-linux-x86-64.so.2");
}

static void the_vdso_has_a_table(void **state)
{
	const Elf64_Ehdr *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct stackbeat_unwind_table *table;
	int fd = memfd_create("vdso", MFD_CLOEXEC);
	size_t size;

	(void)state;
	assert_non_null(header);
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	assert_int_equal(write(fd, header, size), size);
	assert_int_equal(compile(fd, &table).result, UNWIND_COMPILED);
	free(table);
}

static void section_headers_are_not_needed(void **state)
{
	struct stackbeat_unwind_table *table, *other;
	Elf64_Ehdr *header;
	size_t size;

	(void)state;
	assert_int_equal(build("-O2 -static -nostdlib -Wl,--eh-frame-hdr,-e,start",
			       "int other(int a) { return a; }\n"
			       "void start(void) { for (;;) other(1); }\n",
			       &table)
				 .result,
			 UNWIND_COMPILED);
	header = (void *)read_bytes(in_sandbox("program"), &size);
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	write_file(in_sandbox("stripped"), header, size);
	assert_int_equal(compile_path(in_sandbox("stripped"), &other).result, UNWIND_COMPILED);
	assert_int_equal(other->size, table->size);
	assert_memory_equal(other, table, table->size);
	free(header);
	free(table);
	free(other);
}

/* .debug_frame, also compressed in both ways, gives the rules of .eh_frame. */
static void debug_frame_is_read(void **state)
{
	static const char program[] = "int called(int a);\n"
				      "int other(int a) { return called(a) + 1; }\n"
				      "int called(int a) { return a; }\n"
				      "void start(void) { for (;;) other(1); }\n";
	static const char *const flags[] = {"-gz=none", "-gz=zlib", "-gz=zlib-gnu"};
	const char *base = "-O0 -static -nostdlib -Wl,-e,start";
	struct stackbeat_unwind_table *table, *other;
	char all[256];

	(void)state;
	snprintf(all, sizeof(all), "%s -fasynchronous-unwind-tables", base);
	assert_int_equal(build(all, program, &table).result, UNWIND_COMPILED);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		snprintf(all, sizeof(all), "%s -g %s -fno-asynchronous-unwind-tables", base,
			 flags[i]);
		assert_int_equal(build(all, program, &other).result, UNWIND_COMPILED);
		assert_int_equal(other->row_count, table->row_count);
		assert_int_equal(other->rule_count, table->rule_count);
		free(other);
	}
	free(table);
}

/* Returns the rule at a symbol + offset of the program that was built last, or NULL. */
static const struct stackbeat_unwind_rule *rule_at(const struct stackbeat_unwind_table *table,
						   const char *symbol, int64_t offset)
{
	struct stackbeat_unwind_view view;
	unsigned long address;
	char command[256];
	FILE *output;

	snprintf(command, sizeof(command), "nm '%s' | sed -n 's/ . %s$//p'", in_sandbox("program"),
		 symbol);
	output = popen(command, "re");
	assert_non_null(output);
	assert_int_equal(fscanf(output, "%lx", &address), 1);
	pclose(output);
	stackbeat_unwind_open(table, &view);
	return stackbeat_unwind_find(&view, address + (uint64_t)offset);
}

/* Returns the kind of the rule. */
static unsigned int kind_at(const struct stackbeat_unwind_table *table, const char *symbol,
			    long offset)
{
	const struct stackbeat_unwind_rule *rule = rule_at(table, symbol, offset);

	return rule ? rule->kind_base & 0xfu : STACKBEAT_UNWIND_NONE;
}

/* As musl has it: assembly without call frame information. */
static void entry_and_trampoline_without_information(void **state)
{
	struct stackbeat_unwind_table *table;

	(void)state;
	assert_int_equal(
		build("-O2 -static -nostdlib -Wl,-e,entry",
		      "__asm__(\".globl entry; entry: xor %ebp, %ebp; call start; hlt;\"\n"
		      "	\".skip 64, 0x90; .globl restore; restore: mov $15, %rax;\"\n"
		      "	\"syscall; .skip 64, 0xcc\");\n"
		      "void start(void) { for (;;); }\n",
		      &table)
			.result,
		UNWIND_COMPILED);
	assert_int_equal(kind_at(table, "entry", 0), STACKBEAT_UNWIND_END);
	assert_int_equal(kind_at(table, "entry", 6), STACKBEAT_UNWIND_END);
	assert_int_equal(kind_at(table, "restore", -1), STACKBEAT_UNWIND_SIGNAL);
	assert_int_equal(kind_at(table, "restore", 8), STACKBEAT_UNWIND_SIGNAL);
	assert_int_equal(kind_at(table, "start", 0), STACKBEAT_UNWIND_CALLER);
	free(table);
}

static void _init_has_rules(void **state)
{
	struct stackbeat_unwind_table *table;

	(void)state;
	assert_int_equal(build("-O2", "int main(void) { return 0; }\n", &table).result,
			 UNWIND_COMPILED);
	assert_int_equal(kind_at(table, "_init", 0), STACKBEAT_UNWIND_CALLER);
	assert_int_equal(kind_at(table, "_init", 10), STACKBEAT_UNWIND_CALLER);
	assert_int_equal(kind_at(table, "_start", 20), STACKBEAT_UNWIND_END);
	free(table);
}

/* The code of crtstuff.c has no call frame information. */
static void destructors_have_rules(void **state)
{
	static const char *const flags[] = {"-O2", "-O2 -static", "-O2 -shared -fPIC",
					    "-O2 -fcf-protection=none"};
	static const struct {
		unsigned int base;
		int cfa;
	} expected[] = {{CFI_RSP, 8}, {CFI_RSP, 16}, {CFI_RBP, 16}, {CFI_RSP, 8}};
	const size_t steps = sizeof(expected) / sizeof(expected[0]);
	struct stackbeat_unwind_table *table;

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const struct stackbeat_unwind_rule *rule = NULL;
		size_t step = 0;

		assert_int_equal(build(flags[i], "int main(void) { return 0; }\n", &table).result,
				 UNWIND_COMPILED);
		for (long offset = 0; offset < 64 && step <= steps; offset++) {
			const struct stackbeat_unwind_rule *next =
				rule_at(table, "__do_global_dtors_aux", offset);

			bool is_known = next && (next->kind_base & 0xfu) == STACKBEAT_UNWIND_CALLER;

			if (step && !is_known)
				break;
			/* At endbr64, there is no rule. */
			if (!is_known)
				continue;
			if (rule && !memcmp(rule, next, sizeof(*rule)))
				continue;
			rule = next;
			assert_in_range(step, 0, steps - 1);
			assert_int_equal(rule->kind_base >> 4, expected[step].base);
			assert_int_equal(rule->cfa, expected[step].cfa);
			assert_int_equal(!!(rule->flags & STACKBEAT_UNWIND_RBP_SAVED),
					 rule->cfa == 16);
			if (rule->cfa == 16)
				assert_int_equal(rule->rbp, -2);
			step++;
		}
		assert_int_equal(step, steps);
		free(table);
	}
}

/* As the builtins of V8: many functions with frame pointers, and without any information. */
#define BUILTINS(count, fill)                                                                      \
	"__asm__(\".globl builtins; builtins: .rept " count "; push %rbp; mov %rsp,%rbp;"          \
	"	.fill " fill ",1,0x90; call start; mov %rbp,%rsp; pop %rbp; ret; .endr\");\n"      \
	"void start(void) { for (;;); }\n"

static void code_with_frame_pointers_has_rules(void **state)
{
	static const char flags[] = "-O2 -static -nostdlib -Wl,-e,start";
	static const struct {
		long offset;
		unsigned int base;
		int cfa;
	} expected[] = {{0, CFI_RSP, 8},    {1, CFI_RSP, 16},   {4, CFI_RBP, 16},
			{109, CFI_RBP, 16}, {112, CFI_RBP, 16}, {113, CFI_RSP, 8},
			{114, CFI_RSP, 8},  {115, CFI_RSP, 16}};
	struct stackbeat_unwind_table *table;

	(void)state;
	assert_int_equal(build(flags, BUILTINS("1000", "100"), &table).result, UNWIND_COMPILED);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct stackbeat_unwind_rule *rule =
			rule_at(table, "builtins", expected[i].offset);

		assert_int_equal(rule->kind_base, STACKBEAT_UNWIND_CALLER | expected[i].base << 4);
		assert_int_equal(rule->cfa, expected[i].cfa);
		assert_int_equal(!!(rule->flags & STACKBEAT_UNWIND_RBP_SAVED), rule->cfa == 16);
	}
	free(table);
	/* So has less code. Fewer frames are no reason to trust rbp. */
	assert_int_equal(build(flags, BUILTINS("5", "100"), &table).result, UNWIND_COMPILED);
	assert_int_equal(rule_at(table, "builtins", 4)->kind_base,
			 STACKBEAT_UNWIND_CALLER | CFI_RBP << 4);
	free(table);
	assert_int_equal(build(flags, BUILTINS("40", "5000"), &table).result, UNWIND_COMPILED);
	assert_int_equal(kind_at(table, "builtins", 4), STACKBEAT_UNWIND_NONE);
	free(table);
}

/*
 * A compiler moves instructions into what sets up a frame, and functions that call nothing have
 * none. Before them is code of which nothing is known, and no call goes to `loop`.
 */
#define SCHEDULED                                                                                  \
	"__asm__(\".globl unknown, leaf, loop, caller; .p2align 4; unknown: push %rbx;\"\n"        \
	"	\"pop %rbx; ret; .p2align 4, 0x90; leaf: mov %rdi,%rax; mov "                            \
	"$0x5851f42d4c957f2d,%rcx;\"\n"                                                            \
	"	\"mov %rax,%rbx; .p2align 4, 0x90; loop: or %rcx,%rax; jne loop; ret;\"\n"               \
	"	\".p2align 4, 0x90; caller: push %rbp; mov $2,%edi; mov %rsp,%rbp;\"\n"                  \
	"	\"call leaf; .p2align 4, 0x90; 1: add %rax,%rbx; cmp %rbx,%rcx;\"\n"                     \
	"	\"jne 1b; mov %rax,%rbx; nop; pop %rbp; ret;\");\n"                                      \
	"void start(void) { for (;;); }\n"

static void functions_without_frames_among_others_have_rules(void **state)
{
	static const struct {
		const char *name;
		long offset;
		unsigned int base;
		int cfa;
	} expected[] = {{"leaf", 0, CFI_RSP, 8},    {"leaf", 3, CFI_RSP, 8},
			{"loop", 0, CFI_RSP, 8},    {"caller", 0, CFI_RSP, 8},
			{"caller", 1, CFI_RSP, 16}, {"caller", 6, CFI_RSP, 16},
			{"caller", 9, CFI_RBP, 16}, {"caller", 16, CFI_RBP, 16}};
	struct stackbeat_unwind_table *table;

	(void)state;
	assert_int_equal(build("-O2 -static -nostdlib -Wl,-e,start", SCHEDULED, &table).result,
			 UNWIND_COMPILED);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct stackbeat_unwind_rule *rule =
			rule_at(table, expected[i].name, expected[i].offset);

		assert_int_equal(rule->kind_base, STACKBEAT_UNWIND_CALLER | expected[i].base << 4);
		assert_int_equal(rule->cfa, expected[i].cfa);
	}
	assert_int_equal(kind_at(table, "unknown", 0), STACKBEAT_UNWIND_NONE);
	free(table);
}

#define ENTRY                                                                                      \
	"__asm__(\".skip 8, 0x90; .globl entry; entry: xor %ebp, %ebp; call start; hlt;\"\n"       \
	"	\".globl restore; restore: mov $15, %rax; syscall;\"\n"                                  \
	"	\".rept 1000; push %rbp; mov %rsp,%rbp; .fill 100,1,0x90;\"\n"                           \
	"	\"mov %rbp,%rsp; pop %rbp; ret; .endr\");\n"

/* What has a rule of its own keeps it there. */
static void entry_and_trampoline_in_code_with_frame_pointers(void **state)
{
	static const char source[] = BUILTINS("1000", "100") ENTRY;
	struct stackbeat_unwind_table *table;

	(void)state;
	assert_int_equal(build("-O2 -static -nostdlib -Wl,-e,entry", source, &table).result,
			 UNWIND_COMPILED);
	assert_int_equal(rule_at(table, "entry", -80)->kind_base,
			 STACKBEAT_UNWIND_CALLER | CFI_RBP << 4);
	assert_int_equal(kind_at(table, "entry", 0), STACKBEAT_UNWIND_END);
	assert_int_equal(kind_at(table, "entry", 6), STACKBEAT_UNWIND_END);
	assert_int_equal(kind_at(table, "restore", -1), STACKBEAT_UNWIND_SIGNAL);
	assert_int_equal(kind_at(table, "restore", 8), STACKBEAT_UNWIND_SIGNAL);
	assert_int_equal(rule_at(table, "restore", 1000)->kind_base,
			 STACKBEAT_UNWIND_CALLER | CFI_RBP << 4);
	free(table);
}

#define FRAMED                                                                                     \
	"	.rept 20; .cfi_startproc; push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6, "            \
	"-16;\"\n"                                                                                 \
	"	\"mov %rsp,%rbp; .cfi_def_cfa_register 6; call start; .fill 20,1,0x90; pop "             \
	"%rbp;\"\n"                                                                                \
	"	\".cfi_def_cfa 7, 8; ret; .cfi_endproc; .endr;\"\n"

/* A function without a frame pointer is part of a run, unless a call in it pushes a return address.
 */
static void calls_without_frame_pointer_end_a_run(void **state)
{
	static const struct {
		const char *code;
		unsigned int runs;
	} cases[] = {
		{"ret", 1},
		{"jmp *%rax", 1},
		{"push (%rax); pop %rcx; mov $-1,%eax", 1},
		/* What would be a call ends in the next function. */
		{".byte 0xe8, 0", 1},
		{"call start", 2},
		{"call *%rax", 2},
		{"call *(%rax)", 2},
		{"call *8(%rax)", 2},
		{"call *(%rax,%rbx,8)", 2},
		{"call *8(%rsp)", 2},
		{"call *4096(%rax)", 2},
		{"call *4096(%rax,%rbx)", 2},
		{"call *start(%rip)", 2},
		{"lcall *(%rax)", 2},
	};
	static const char before[] = "__asm__(\"" FRAMED "\".cfi_startproc;",
			  behind[] = "; .cfi_endproc;\"\n\"" FRAMED
				     "\"\");\nvoid start(void) { for (;;); }\n";
	char source[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stackbeat_unwind_table *table;
		struct stackbeat_unwind_view view;

		snprintf(source, sizeof(source), "%s%s%s", before, cases[i].code, behind);
		assert_int_equal(build("-O2 -static -nostdlib -Wl,-e,start", source, &table).result,
				 UNWIND_COMPILED);
		stackbeat_unwind_open(table, &view);
		assert_int_equal(view.run_count, cases[i].runs);
		for (uint32_t run = 0; run < view.run_count; run++)
			assert_in_range(view.runs[run].end - view.runs[run].start, 600, 1500);
		free(table);
	}
}

static int memfd_with(const void *bytes, size_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}

static void files_without_table(void **state)
{
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
	};
	struct stackbeat_unwind_table *table;
	Elf32_Ehdr narrow = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_386,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(narrow),
	};

	(void)state;
	expect_result(memfd_with("#!/bin/sh\n", 10), UNWIND_BROKEN_FILE);
	expect_result(memfd_with("", 0), UNWIND_BROKEN_FILE);
	expect_result(memfd_with(&narrow, sizeof(narrow)), UNWIND_OTHER_MACHINE);
	expect_result(memfd_with(&header, sizeof(header)), UNWIND_NO_INFORMATION);
	header.e_machine = EM_AARCH64;
	expect_result(memfd_with(&header, sizeof(header)), UNWIND_OTHER_MACHINE);
	assert_int_equal(build("-O2 -static -nostdlib -fno-asynchronous-unwind-tables -Wl,-e,start",
			       "void start(void) { for (;;); }\n", &table)
				 .result,
			 UNWIND_NO_INFORMATION);
	assert_null(table);
	for (unsigned int i = 0; i < UNWIND_RESULT_COUNT; i++)
		assert_true(*unwind_result_text(i));
	assert_string_equal(unwind_result_text(UNWIND_RESULT_COUNT), "unknown");
}

/* Each byte of the headers and of .eh_frame of a small file is changed. */
static void a_changed_file_is_harmless(void **state)
{
	struct stackbeat_unwind_table *table;
	unsigned char *bytes;
	size_t size;
	int fd = memfd_create("file", MFD_CLOEXEC);

	(void)state;
	build("-O2 -static -nostdlib -Wl,-e,start -Wl,-z,noseparate-code,--build-id=none",
	      "void start(void) { for (;;); }\n", &table);
	free(table);
	bytes = read_bytes(in_sandbox("program"), &size);
	for (size_t at = 0; at < size; at++) {
		bytes[at] ^= (unsigned char)(1 + random() % 255);
		assert_int_equal(pwrite(fd, bytes, size, 0), size);
		unwind_compile(fd, &table);
		if (table)
			assert_true(stackbeat_unwind_check(table, table->size));
		free(table);
	}
	close(fd);
	free(bytes);
}

/* What a worker does: writes what a test wants, and exits or not. */
static enum {
	WRITE_NOTHING,
	WRITE_GARBAGE,
	WRITE_WRONG_SIZE,
	WRITE_BAD_TABLE,
	CRASH,
	KILLED,
	COMPUTE,
	WAIT,
	HANG
} mode;

static void misbehave(enum worker_kind kind, const int fds[], size_t count)
{
	struct stackbeat_unwind_table table = {.magic = STACKBEAT_UNWIND_MAGIC};
	struct unwind_summary summary = {.result = UNWIND_COMPILED};
	unsigned int word = 0;
	ssize_t done = 1;

	(void)kind, (void)count;
	switch (mode) {
	case WRITE_NOTHING:
		break;
	case WRITE_GARBAGE:
		memset(&summary, 0xff, sizeof(summary));
		done = write(fds[1], &summary, sizeof(summary));
		break;
	case WRITE_WRONG_SIZE:
		summary.size = UINT64_MAX;
		done = write(fds[1], &summary, sizeof(summary));
		break;
	case WRITE_BAD_TABLE:
		summary.size = sizeof(table);
		done = write(fds[1], &summary, sizeof(summary));
		done = write(fds[1], &table, sizeof(table));
		break;
	case CRASH:
		abort();
	case WAIT:
		for (;;)
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	case KILLED:
	case COMPUTE:
	case HANG:
		while (done)
			fstat(fds[0], &(struct stat){0});
	}
	_exit(done <= 0);
}

static void a_worker_is_not_trusted(void **state)
{
	struct stackbeat_unwind_table *table;
	struct unwind_summary summary;
	struct sandbox_server server;
	struct unwind_job job;
	struct error error;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	for (mode = WRITE_NOTHING; mode <= HANG; mode++) {
		assert_int_equal(sandbox_server_start(&server, misbehave, &error), 0);
		assert_int_equal(unwind_job_start(&job, &server, fd, true), 0);
		if (mode == KILLED)
			sandbox_worker_kill(job.lifeline);
		/* Less than the job has given it. */
		if (mode == COMPUTE)
			sandbox_worker_limit(job.lifeline, NS_PER_MS, UNWIND_JOB_HANG_NS);
		if (mode == WAIT)
			sandbox_worker_limit(job.lifeline, UNWIND_JOB_CPU_NS, 100 * NS_PER_MS);
		if (mode == HANG)
			assert_int_equal(unwind_job_finish(&job, &summary, &table), -ETIMEDOUT);
		else
			assert_int_equal(wait_and_finish(&job, &summary, &table),
					 mode == KILLED    ? -ECANCELED
					 : mode == COMPUTE ? -ETIME
					 : mode == WAIT    ? -ETIMEDOUT
							   : -EBADMSG);
		assert_null(table);
		assert_int_equal(job.lifeline, -1);
		sandbox_server_stop(&server);
	}
	/* The server has died. */
	assert_int_equal(unwind_job_start(&job, &server, fd, true), -EBADF);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_of_real_files_are_those_of_elfutils),
		cmocka_unit_test(the_vdso_has_a_table),
		cmocka_unit_test(section_headers_are_not_needed),
		cmocka_unit_test(debug_frame_is_read),
		cmocka_unit_test(entry_and_trampoline_without_information),
		cmocka_unit_test(_init_has_rules),
		cmocka_unit_test(destructors_have_rules),
		cmocka_unit_test(code_with_frame_pointers_has_rules),
		cmocka_unit_test(functions_without_frames_among_others_have_rules),
		cmocka_unit_test(entry_and_trampoline_in_code_with_frame_pointers),
		cmocka_unit_test(calls_without_frame_pointer_end_a_run),
		cmocka_unit_test(files_without_table),
		cmocka_unit_test(a_changed_file_is_harmless),
		cmocka_unit_test(a_worker_is_not_trusted),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
