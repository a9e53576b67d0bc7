// SPDX-License-Identifier: GPL-2.0
/* Which functions are annotated, their values by instruction, and their text. */
#include <errno.h>
#include <inttypes.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "report/annotation.h"
#include "report/annotation_json.h"
#include "report/annotation_text.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "symbolize/find_binary.h"
#include "symbolize/offline_source.h"
#include "symbolize/symbolize_options.h"
#include "worker_server.h"

static struct error error;
static struct annotation annotation;

/* The program */

static const char *program;

static void build_program(void)
{
	program = strdup(in_sandbox("program"));
	write_text(in_sandbox("source.cc"),
		   "namespace deep {\n"
		   "static inline __attribute__((always_inline)) int inner(volatile int *x)\n"
		   "{\n"
		   "	return *x + 1;\n"
		   "}\n"
		   "__attribute__((noinline)) int outer(volatile int *x)\n"
		   "{\n"
		   "	return inner(x);\n"
		   "}\n"
		   "}\n"
		   "int main(int argc, char **)\n"
		   "{\n"
		   "	volatile int x = argc;\n"
		   "	return deep::outer(&x) + 1;\n"
		   "}\n");
	run("cd '%s' && g++ -O2 -g -fcf-protection=none -o program source.cc", sandbox);
}

static uint64_t address_of(const char *symbol)
{
	char command[PATH_MAX + 128];
	uint64_t address;
	FILE *pipe;

	snprintf(command, sizeof(command), "nm '%s' | awk '$3 == \"%s\" {print $1}'", program,
		 symbol);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	return address;
}

static const char *kernel_root = ""; /* of the kernel's files */

static int make(const struct profile *profile, const struct annotation_query *query)
{
	const struct binary_finder search = {.time = INT64_MAX};
	const struct symbolize_options options = {.sandbox = worker_server()};
	struct symbol_source source;

	offline_source_init(&source, profile, &search, NULL, NULL);
	source.root = kernel_root;
	annotation_clear(&annotation);
	return annotation_make(profile, query, &source, &options, &annotation, &error);
}

static int make_named(const struct profile *profile, const char *name)
{
	return make(profile, &(struct annotation_query){.name = name, .syntax = SYNTAX_ATT});
}

/* Instructions */

#define OUTER "_ZN4deep5outerEPVi"

/* The offset of the call of outer() in main(): 5 bytes before the instruction that follows it. */
static uint64_t call_address(void)
{
	const struct annotated_function *function = &annotation.functions[0];

	for (size_t i = 0; i < function->count; i++) {
		if (strstr(function->instructions[i].code.text, "<deep::outer"))
			return function->instructions[i].code.address;
	}
	fail_msg("no call");
	return 0;
}

static const struct annotated_instruction *instruction_at(size_t function, uint64_t address)
{
	const struct annotated_function *found = &annotation.functions[function];

	for (size_t i = 0; i < found->count; i++) {
		if (found->instructions[i].code.address == address)
			return &found->instructions[i];
	}
	fail_msg("no instruction at 0x%" PRIx64, address);
	return NULL;
}

/*
 * main() calls outer(), whose first instruction is of inner(): 3 samples there, once with itself as
 * a caller, as in a recursion; 1 in main(), in the middle of its first instruction.
 */
static struct profile *program_profile(bool offsets, uint64_t call)
{
	struct profile *profile = empty_profile();
	const uint64_t start = offsets ? 0x7f0000001000 : 0, shift = offsets ? start - 0x1000 : 0;
	uint32_t mapping = example_mapping(profile, start, start ? start + 0x1000 : 0,
					   offsets ? 0x1000 : 0, program, NULL);
	uint32_t leaf = example_location(profile, mapping, address_of(OUTER) + shift, "inner",
					 "deep::outer(int volatile*)");
	uint32_t caller = example_location(profile, mapping, call + 4 + shift, NULL, "main");
	uint32_t main =
		example_location(profile, mapping, address_of("main") + 1 + shift, NULL, "main");

	example_sample(profile, (uint32_t[]){leaf, caller}, 2, 2, "app");
	example_sample(profile, (uint32_t[]){leaf, leaf, caller, caller}, 4, 1, "app");
	example_sample(profile, (uint32_t[]){main}, 1, 1, "app");
	return profile;
}

/* A profile to find the address of the call with. */
static uint64_t find_call(void)
{
	struct profile *profile = program_profile(false, address_of("main"));

	assert_int_equal(make_named(profile, "main"), 0);
	profile_free(profile);
	return call_address();
}

static void instructions_have_values(void **state)
{
	const uint64_t call = find_call();

	(void)state;
	for (int offsets = 0; offsets < 2; offsets++) {
		struct profile *profile = program_profile(offsets, call);
		const struct annotated_instruction *first;

		assert_int_equal(make_named(profile, "main"), 0);
		assert_int_equal(annotation.count, 1);
		assert_int_equal(annotation.total, 40 * MS);
		assert_string_equal(annotation.functions[0].name, "main");
		assert_int_equal(annotation.functions[0].start, address_of("main"));
		assert_int_equal(annotation.functions[0].self, 10 * MS);
		assert_int_equal(annotation.functions[0].cum, 40 * MS);
		/* The address of a caller is in its call. */
		assert_int_equal(instruction_at(0, call)->self, 0);
		assert_int_equal(instruction_at(0, call)->cum, 30 * MS);
		assert_int_equal(instruction_at(0, call)->lines[0].line, 14);
		assert_int_equal(instruction_at(0, address_of("main"))->self, 10 * MS);

		assert_int_equal(make_named(profile, "deep::outer"), 0);
		assert_false(annotation.is_inlined);
		assert_int_equal(annotation.functions[0].self, 30 * MS);
		assert_int_equal(annotation.functions[0].cum, 30 * MS);
		first = instruction_at(0, address_of(OUTER));
		assert_int_equal(first->self, 30 * MS);
		assert_int_equal(first->line_count, 2);
		assert_string_equal(first->lines[0].function, "inner");
		assert_int_equal(first->lines[0].line, 4);
		assert_string_equal(first->lines[1].function, "deep::outer");
		assert_int_equal(first->lines[1].line, 8);
		profile_free(profile);
	}
}

static void inlined_names_find_their_callers(void **state)
{
	struct profile *profile = program_profile(false, address_of("main"));
	struct annotation_query query = {.name = "inner", .syntax = SYNTAX_INTEL};

	(void)state;
	assert_int_equal(make(profile, &query), 0);
	assert_true(annotation.is_inlined);
	assert_int_equal(annotation.count, 1);
	assert_string_equal(annotation.functions[0].name, "deep::outer");
	query.file = "program";
	assert_int_equal(make(profile, &query), 0);
	query.file = program;
	assert_int_equal(make(profile, &query), 0);
	query.file = "rogram";
	assert_int_equal(make(profile, &query), -ENOENT);
	assert_string_equal(error.text, "the profile has no function 'inner' in rogram");
	query = (struct annotation_query){
		.name = "inner", .sample_type = "samples", .syntax = SYNTAX_ATT};
	assert_int_equal(make(profile, &query), 0);
	assert_int_equal(annotation.functions[0].self, 3);
	query.sample_type = "bytes";
	assert_int_equal(make(profile, &query), -EINVAL);
	profile_free(profile);
}

static void addresses_find_their_functions(void **state)
{
	struct profile *profile = empty_profile();
	const uint64_t address = address_of(OUTER);
	uint32_t location = example_location(
		profile, example_mapping(profile, 0, 0, 0, program, NULL), address, NULL, NULL);
	char name[64];

	(void)state;
	example_sample(profile, &location, 1, 1, "app");
	snprintf(name, sizeof(name), "program+0x%" PRIx64, address);
	assert_int_equal(make_named(profile, name), 0);
	assert_false(annotation.is_inlined);
	assert_string_equal(annotation.functions[0].name, "deep::outer");
	assert_int_equal(annotation.functions[0].self, 10 * MS);
	snprintf(name, sizeof(name), "program+0x%" PRIx64, address + 1);
	assert_int_equal(make_named(profile, name), -ENOENT);
	/* Without symbols, the range is of the call frame information. */
	run("cd '%s' && cp program kept && strip program", sandbox);
	snprintf(name, sizeof(name), "program+0x%" PRIx64, address);
	assert_int_equal(make_named(profile, name), 0);
	run("cd '%s' && mv kept program", sandbox);
	assert_string_equal(annotation.functions[0].name, name);
	assert_int_equal(annotation.functions[0].start, address);
	assert_int_equal(annotation.functions[0].self, 10 * MS);
	profile_free(profile);
}

static void names_without_code_are_refused(void **state)
{
	struct profile *profile = example_profile();
	uint32_t generated = example_location(
		profile, example_mapping(profile, 0, 0, 0, "[anon]", NULL), 0x1000, NULL, "jit");

	(void)state;
	example_sample(profile, &generated, 1, 1, "app");
	assert_int_equal(make_named(profile, "mai"), -ENOENT);
	assert_string_equal(error.text, "the profile has no function 'mai'");
	assert_int_equal(make_named(profile, "main"), -ENXIO);
	assert_non_null(strstr(error.text, "/usr/bin/app is missing, or does not say"));
	assert_int_equal(make_named(profile, "vfs_read"), -ENXIO);
	assert_non_null(strstr(error.text, "'vfs_read' is a function of the kernel"));
	assert_int_equal(make_named(profile, "jit"), -ENXIO);
	assert_non_null(strstr(error.text, "'jit' is code that a program has generated"));
	assert_int_equal(make_named(profile, ""), -ENOENT);
	profile_free(profile);
}

/* The kernel */

#define KERNEL_TEXT UINT64_C(0xffffffff81000000)
#define KERNEL_MODULE UINT64_C(0xffffffffc0000000)

/* A kernel with the functions first() and second(), and a module with third(): an ELF file as
 * /proc/kcore is. */
static void build_kernel(void)
{
	run("mkdir -p '%s'/boot '%s'/proc '%s'/sys/kernel '%s'/sys/module/driver/notes", sandbox,
	    sandbox, sandbox, sandbox);
	write_text(in_sandbox("kernel.s"), ".text\n"
					   "second: ret\n"
					   "first: call second\n"
					   "nopl (%rax)\n" /* line 4 */
					   "ret\n"
					   ".section .driver, \"ax\", @progbits\n"
					   "third: call first\n"
					   "int3\n"
					   ".skip 200\n"
					   ".byte 0x8b\n");
	/* The kernel with debug information is the same file. */
	run("cd '%s' && gcc -g -nostdlib -static -no-pie -Wl,--build-id=sha1,-z,noseparate-code "
	    "-Wl,-Ttext=%#" PRIx64 ",--section-start=.driver=%#" PRIx64 ",-e,%#" PRIx64
	    " -o proc/kcore kernel.s && "
	    "objcopy -O binary --only-section=.note.gnu.build-id proc/kcore sys/kernel/notes && "
	    "cp sys/kernel/notes sys/module/driver/notes/.note.gnu.build-id",
	    sandbox, KERNEL_TEXT, KERNEL_MODULE, KERNEL_TEXT);
	write_text(in_sandbox("proc/modules"), "driver 4096 0 - Live 0xffffffffc0000000\n");
	write_text(in_sandbox("proc/kallsyms"),
		   "ffffffff81000000 T _text\nffffffff81000000 t second\n"
		   "ffffffff81000001 T first\nffffffff8100000a D _etext\n"
		   "ffffffffc0000000 t third\t[driver]\n"
		   "ffffffffc0001000 t bpf_prog_new\t[bpf]\n");
}

static struct profile *kernel_profile(uint64_t start, const char *name, uint64_t address,
				      const char *function)
{
	struct profile *profile = empty_profile();
	char build_id[BUILD_ID_SIZE];
	uint32_t mapping, location;

	assert_int_equal(kernel_build_id(in_sandbox("sys/kernel/notes"), build_id, &error), 0);
	mapping = example_mapping(profile, start, UINT64_MAX, 0, name, build_id);
	location = example_location(profile, mapping, address, NULL, function);
	example_sample(profile, &location, 1, 1, "app");
	return profile;
}

static void code_of_the_running_kernel_is_annotated(void **state)
{
	struct profile *profile =
		kernel_profile(KERNEL_TEXT, KERNEL_MAPPING, KERNEL_TEXT + 6, "first");
	uint32_t location;

	(void)state;
	kernel_root = sandbox;
	assert_int_equal(make_named(profile, "first"), 0);
	assert_int_equal(annotation.count, 1);
	assert_string_equal(annotation.functions[0].path, KERNEL_MAPPING);
	assert_int_equal(annotation.functions[0].start, KERNEL_TEXT + 1);
	assert_int_equal(annotation.functions[0].size, 9);
	assert_int_equal(annotation.functions[0].count, 3);
	assert_non_null(strstr(annotation.functions[0].instructions[0].code.text, " <second>"));
	assert_int_equal(instruction_at(0, KERNEL_TEXT + 1)->self, 0);
	assert_int_equal(instruction_at(0, KERNEL_TEXT + 6)->self, 10 * MS);
	assert_int_equal(instruction_at(0, KERNEL_TEXT + 6)->line_count, 0);
	profile_comment(profile, "stackbeat 1 on host 9.9");
	run("cp '%s'/proc/kcore '%s'/boot/vmlinux-9.9", sandbox, sandbox);
	assert_int_equal(make_named(profile, "first"), 0);
	assert_int_equal(instruction_at(0, KERNEL_TEXT + 6)->line_count, 1);
	assert_int_equal(instruction_at(0, KERNEL_TEXT + 6)->lines[0].line, 4);
	/* Two functions have the name. */
	location = example_location(profile, 1, KERNEL_TEXT, NULL, "first");
	example_sample(profile, &location, 1, 2, "app");
	assert_int_equal(make_named(profile, "first"), 0);
	assert_int_equal(annotation.count, 2);
	assert_int_equal(annotation.functions[0].start, KERNEL_TEXT);
	assert_int_equal(annotation.functions[0].self, 20 * MS);
	assert_int_equal(annotation.functions[1].start, KERNEL_TEXT + 1);
	profile_free(profile);

	profile = kernel_profile(KERNEL_MODULE, "[driver]", KERNEL_MODULE + 5, "third");
	assert_int_equal(make_named(profile, "third"), 0);
	profile_free(profile);
	assert_int_equal(annotation.functions[0].start, KERNEL_MODULE);
	/* Up to the filler, as nothing says where the last function of a module ends. */
	assert_int_equal(annotation.functions[0].size, 8);
	assert_non_null(strstr(annotation.functions[0].instructions[0].code.text, " <first>"));
	assert_int_equal(instruction_at(0, KERNEL_MODULE + 5)->self, 10 * MS);
	kernel_root = "";
}

/* Expects that first() of a mapping is refused, for a reason. */
static void expect_refused_in(const char *name, uint64_t start, uint64_t address,
			      const char *reason)
{
	struct profile *profile = kernel_profile(start, name, address, "first");
	char expected[256];

	snprintf(expected, sizeof(expected), "'first' is a function of the kernel: %s", reason);
	kernel_root = sandbox;
	assert_int_equal(make_named(profile, "first"), -ENXIO);
	assert_ptr_equal(strstr(error.text, expected), error.text);
	kernel_root = "";
	profile_free(profile);
}

static void expect_refused(uint64_t start, uint64_t address, const char *reason)
{
	expect_refused_in(KERNEL_MAPPING, start, address, reason);
}

static void code_of_another_kernel_is_refused(void **state)
{
	(void)state;
	expect_refused(KERNEL_TEXT + 0x200000, KERNEL_TEXT + 0x200006,
		       "its code is not what runs here now");
	/* Beyond all functions, in a module that came later, and in a program of BPF. */
	expect_refused(KERNEL_TEXT, KERNEL_TEXT + 0x1000, "its code was generated");
	expect_refused(KERNEL_TEXT, KERNEL_MODULE + 5, "its code was generated");
	expect_refused(KERNEL_TEXT, KERNEL_MODULE + 0x1000, "its code was generated");
	expect_refused_in("[bpf]", KERNEL_MODULE, KERNEL_MODULE + 5, "its code was generated");
	expect_refused_in("[__builtin__ftrace]", KERNEL_MODULE, KERNEL_MODULE + 5,
			  "its code was generated");
}

static void code_that_must_not_be_read_is_refused(void **state)
{
	(void)state;
	run("mv '%s'/proc/kcore '%s'/kept", sandbox, sandbox);
	expect_refused(KERNEL_TEXT, KERNEL_TEXT + 6,
		       "there is no /proc/kcore with its code here; 'objdump -d'");
	write_text(in_sandbox("proc/kcore"), "");
	expect_refused(KERNEL_TEXT, KERNEL_TEXT + 6,
		       "/proc/kcore: not an ELF file; a container may hide it");
	run("mv '%s'/kept '%s'/proc/kcore", sandbox, sandbox);
	run("cd '%s'/proc && mv kallsyms kept && sed 's/^[0-9a-f]*/0000000000000000/' kept "
	    ">kallsyms",
	    sandbox);
	expect_refused(KERNEL_TEXT, KERNEL_TEXT + 6, "the kernel hides the addresses");
	run("cd '%s'/proc && mv kept kallsyms", sandbox);
}

/* A program that inlines a function has its name, too, and samples of another machine can be there.
 */
static void code_is_annotated_beside_functions_of_the_kernel(void **state)
{
	struct profile *profile = program_profile(false, address_of("main"));
	char build_id[BUILD_ID_SIZE];
	uint32_t kernel, other, location;

	(void)state;
	assert_int_equal(kernel_build_id(in_sandbox("sys/kernel/notes"), build_id, &error), 0);
	other = example_mapping(profile, KERNEL_TEXT, UINT64_MAX, 0, KERNEL_MAPPING, "ccdd");
	location = example_location(profile, other, KERNEL_TEXT + 6, NULL, "inner");
	example_sample(profile, &location, 1, 1, "app");
	kernel_root = sandbox;
	assert_int_equal(make_named(profile, "inner"), 0);
	assert_true(annotation.is_inlined);
	assert_string_equal(annotation.functions[0].name, "deep::outer");
	assert_non_null(strstr(annotation.left_out.text, "its code is not what runs here now"));
	kernel = example_mapping(profile, KERNEL_TEXT, UINT64_MAX, 0, KERNEL_MAPPING, build_id);
	location = example_location(profile, kernel, KERNEL_TEXT + 6, NULL, "inner");
	example_sample(profile, &location, 1, 1, "app");
	assert_int_equal(make_named(profile, "inner"), 0);
	assert_false(annotation.is_inlined);
	assert_int_equal(annotation.count, 1);
	assert_string_equal(annotation.functions[0].path, KERNEL_MAPPING);
	assert_int_equal(annotation.functions[0].self, 10 * MS);
	assert_non_null(strstr(annotation.left_out.text, "its code is not what runs here now"));
	kernel_root = "";
	profile_free(profile);
}

/* Text */

static struct source_line lines[3];

static struct annotated_instruction *made_instruction(uint64_t address, const char *text,
						      const struct source_line *from, size_t count)
{
	struct annotated_function *function = &annotation.functions[0];
	struct annotated_instruction *made = &function->instructions[function->count++];

	*made = (struct annotated_instruction){
		.code = {.address = address, .size = 2, .bytes = {0x90, 0xc3}},
		.lines = count ? source_lines_copy(from, count) : NULL,
		.line_count = count,
	};
	strcpy(made->code.text, text);
	return made;
}

/* outer() at 0x1000, with leaf(), in middle(), inlined in its second instruction. */
static void make_annotation(void)
{
	const char *source = strdup(in_sandbox("a.c")), *header = strdup(in_sandbox("a.h"));

	annotation_clear(&annotation);
	annotation.functions = calloc(2, sizeof(*annotation.functions));
	annotation.functions[0] = (struct annotated_function){
		.path = "/bin/a",
		.build_id = "",
		.name = "outer",
		.start = 0x1000,
		.size = 8,
		.self = 80 * MS,
		.cum = 100 * MS,
		.instructions = calloc(4, sizeof(struct annotated_instruction)),
	};
	annotation.count = 1;
	annotation.type = PROFILE_CPU;
	annotation.total = 160 * MS;
	lines[0] = (struct source_line){
		.function = "leaf", .system_name = "leaf", .file = header, .line = 2};
	lines[1] = (struct source_line){
		.function = "middle", .system_name = "middle", .file = source, .line = 1};
	lines[2] = (struct source_line){
		.function = "outer", .system_name = "outer", .file = source, .line = 3};
	made_instruction(0x1000, "push %rbp", lines + 2, 1)->self = 20 * MS;
	made_instruction(0x1002, "inc %eax", lines, 3)->self = 60 * MS;
	made_instruction(0x1004, "call 0x2000", lines + 2, 1)->cum = 20 * MS;
	made_instruction(0x1006, "ret", NULL, 0);
	for (size_t i = 0; i < 2; i++)
		annotation.functions[0].instructions[i].cum =
			annotation.functions[0].instructions[i].self;
}

static void expect_text(const struct annotation_text_options *options, const char *expected)
{
	struct profile *profile = empty_profile();
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	make_annotation();
	assert_int_equal(annotation_print(&annotation, profile, options, out), 0);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	free((char *)lines[0].file);
	free((char *)lines[1].file);
	profile_free(profile);
}

#define HEAD "outer: cpu flat 80ms (50.00%), cum 100ms (62.50%)\n"
#define RULE "------------------------------------------------------------------------\n"

static void text_has_source_and_inlined_code(void **state)
{
	(void)state;
	write_text(in_sandbox("a.c"), "static void middle(void)\n{\n\touter(\x1b[2J);\n}\n");
	write_text(in_sandbox("a.h"), "// header\n\tleaf\n");
	expect_text(
		&(struct annotation_text_options){0}, HEAD
		"\nSorted summary by source line\n"
		"   75.00  a.h:2  leaf\n"
		"   25.00  a.c:3  outer(\\x1b[2J);\n"
		"\n Percent | Source code & Disassembly of /bin/a (percent of the function)\n" RULE
		"         : 0000000000001000 <outer>:\n"
		"         : 3          outer(\\x1b[2J);\n"
		"   25.00 :     1000:  push %rbp\n"
		"         : > middle, inlined at a.c:3\n"
		"         :   > leaf, inlined at a.c:1\n"
		"         : a.h:2          leaf\n"
		"   75.00 :     1002:  inc %eax\n"
		"         : 3          outer(\\x1b[2J);\n"
		"    0.00 :     1004:  call 0x2000\n"
		"    0.00 :     1006:  ret\n");
}

static void text_has_the_columns_that_are_wanted(void **state)
{
	(void)state;
	write_text(in_sandbox("a.c"), "\n\n\n");
	write_text(in_sandbox("a.h"), "\n\n");
	expect_text(
		&(struct annotation_text_options){.cum = true,
						  .bytes = true,
						  .places = true,
						  .no_source = true,
						  .colors = true},
		HEAD
		"\nSorted summary by source line\n"
		" \x1b[31m  75.00\x1b[m \x1b[31m  60.00\x1b[m  a.h:2  \n"
		" \x1b[31m  25.00\x1b[m \x1b[31m  40.00\x1b[m  a.c:3  \n"
		"\n Percent    Cum. | Disassembly of /bin/a (percent of the function)\n" RULE
		"                 : 0000000000001000 <outer>:\n"
		" \x1b[31m  25.00\x1b[m \x1b[31m  20.00\x1b[m :     1000:  90 c3                   "
		" push %rbp\n"
		" \x1b[31m  75.00\x1b[m \x1b[31m  60.00\x1b[m :     1002:  90 c3                   "
		" inc %eax\n"
		"    0.00 \x1b[31m  20.00\x1b[m :     1004:  90 c3                    call 0x2000\n"
		"    0.00    0.00 :     1006:  90 c3                    ret\n");
}

static void missing_source_has_one_line(void **state)
{
	char expected[2048];

	(void)state;
	run("cd '%s' && rm -f a.c a.h", sandbox);
	snprintf(expected, sizeof(expected),
		 "%sNo source: %s/a.c: No such file or directory\n"
		 "\nSorted summary by source line\n"
		 "   75.00  a.h:2\n"
		 "   25.00  a.c:3\n"
		 "\n Percent | Source code & Disassembly of /bin/a (percent of the function)\n" RULE
		 "         : 0000000000001000 <outer>:\n"
		 "         : a.c:3\n"
		 "   25.00 :     1000:  push %%rbp\n"
		 "         : > middle, inlined at a.c:3\n"
		 "         :   > leaf, inlined at a.c:1\n"
		 "         : a.h:2\n"
		 "   75.00 :     1002:  inc %%eax\n"
		 "         : a.c:3\n"
		 "    0.00 :     1004:  call 0x2000\n"
		 "    0.00 :     1006:  ret\n",
		 HEAD, sandbox);
	expect_text(&(struct annotation_text_options){0}, expected);
}

static void json_has_all(void **state)
{
	struct profile *profile = empty_profile();
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	make_annotation();
	annotation.functions[0].name = "a\"\x1b\xff";
	assert_int_equal(annotation_print_json(&annotation, profile, out), 0);
	fclose(out);
	assert_ptr_equal(text, strstr(text, "{\"type\":\"cpu\",\"unit\":\"nanoseconds\","
					    "\"total\":160000000,\"functions\":[\n"));
	assert_non_null(strstr(text, "{\"function\":\"a\\\"\\u001b\\ufffd\","
				     "\"file\":\"/bin/a\",\"build_id\":\"\",\"start\":4096,"
				     "\"size\":8,\"flat\":80000000,\"cum\":100000000,"
				     "\"instructions\":[\n"));
	assert_non_null(strstr(
		text,
		"{\"address\":4102,\"offset\":6,\"bytes\":\"90c3\",\"text\":\"ret\",\"flat\":0,"
		"\"cum\":0,\"lines\":[]}]}]}\n"));
	assert_non_null(strstr(text, "a.h\",\"line\":2},{\"function\":\"middle\""));
	free(text);
	annotation.functions[1] = (struct annotated_function){
		.path = "/bin/b", .build_id = "aabb", .name = "second", .start = 16};
	annotation.count = 2;
	out = open_memstream(&text, &size);
	assert_int_equal(annotation_print_json(&annotation, profile, out), 0);
	fclose(out);
	assert_non_null(strstr(
		text,
		"\"lines\":[]}]},\n{\"function\":\"second\",\"file\":\"/bin/b\",\"build_id\":"
		"\"aabb\",\"start\":16,\"size\":0,\"flat\":0,\"cum\":0,\"instructions\":[]}]}\n"));
	free(text);
	free((char *)lines[0].file);
	free((char *)lines[1].file);
	profile_free(profile);
}

/* Without code */

static int make_without_code(const struct profile *profile, const char *name, const char *file)
{
	const struct annotation_query query = {.name = name, .file = file};

	annotation_clear(&annotation);
	return annotation_make_without_code(profile, &query, &annotation, &error);
}

/* By offsets in the file, as two mappings have other addresses. */
static void addresses_are_annotated_without_code(void **state)
{
	struct profile *profile = example_profile();
	const struct annotated_instruction *instructions;
	uint32_t mapping = example_mapping(profile, 0x800000, 0x900000, 0, "/usr/bin/app", "aabb");
	uint32_t leaf = example_location(profile, mapping, 0x800204, NULL, "fib");
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	example_sample(profile, &leaf, 1, 1, "app");
	assert_int_equal(make_without_code(profile, "fib", NULL), 0);
	assert_int_equal(annotation.count, 1);
	assert_int_equal(annotation.total, (EXAMPLE_SAMPLES + 1) * 10 * MS);
	assert_string_equal(annotation.functions[0].name, "fib");
	assert_string_equal(annotation.functions[0].path, "/usr/bin/app");
	assert_string_equal(annotation.functions[0].build_id, "aabb");
	/* A function that calls itself counts once. */
	assert_int_equal(annotation.functions[0].cum, 40 * MS);
	assert_int_equal(annotation.functions[0].self, 40 * MS);
	assert_int_equal(annotation.functions[0].count, 2);
	instructions = annotation.functions[0].instructions;
	assert_int_equal(instructions[0].code.address, 0x200);
	assert_int_equal(instructions[0].self, 0);
	assert_int_equal(instructions[0].cum, 30 * MS);
	assert_int_equal(instructions[1].code.address, 0x204);
	assert_int_equal(instructions[1].self, 40 * MS);
	assert_int_equal(instructions[1].line_count, 1);
	assert_string_equal(instructions[1].lines[0].file, "/src/app.c");
	assert_int_equal(instructions[1].lines[0].line, 42);
	error_set(&annotation.left_out, ENXIO, "no code");
	assert_int_equal(annotation_print_json(&annotation, profile, out), 0);
	fclose(out);
	assert_non_null(strstr(text, ",\"problem\":\"no code\",\"functions\":["));
	assert_non_null(
		strstr(text, "{\"address\":516,\"offset\":4,\"bytes\":\"\",\"text\":\"\","));
	free(text);
	profile_free(profile);
}

/* As the file has it, or as it is shown. */
static void names_are_mangled_or_not(void **state)
{
	static const char *const names[] = {"_Z4workv", "work", "work()", "work(", "_Z4work"};
	struct profile *profile = empty_profile();
	const uint32_t function = profile_function(
		profile, &(struct profile_function){
				 .name = profile_string(profile, "work()"),
				 .system_name = profile_string(profile, "_Z4workv"),
			 });
	const struct profile_line line = {.function = function, .line = -1};
	const uint32_t mapping = example_mapping(profile, 0, 0, 0, "/usr/bin/app", "aabb"),
		       location = profile_location(profile, mapping, 0x1000, &line, 1);

	(void)state;
	example_sample(profile, &location, 1, 1, "app");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(make_without_code(profile, names[i], NULL), i < 3 ? 0 : -ENOENT);
	assert_int_equal(make_without_code(profile, "work", NULL), 0);
	assert_false(annotation.is_inlined);
	assert_string_equal(annotation.functions[0].name, "work()");
	assert_int_equal(annotation.functions[0].instructions[0].lines[0].line, 0);
	assert_string_equal(annotation.functions[0].instructions[0].lines[0].system_name,
			    "_Z4workv");
	profile_free(profile);
}

/* The name of inlined code stands for all sampled code of the functions that have it. */
static void inlined_names_are_annotated_without_code(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	assert_int_equal(make_without_code(profile, "inner", NULL), 0);
	assert_true(annotation.is_inlined);
	assert_int_equal(annotation.count, 1);
	assert_string_equal(annotation.functions[0].name, "outer");
	assert_int_equal(annotation.functions[0].count, 2);
	assert_int_equal(annotation.functions[0].self, 30 * MS);
	assert_int_equal(annotation.functions[0].instructions[1].line_count, 2);
	assert_string_equal(annotation.functions[0].instructions[1].lines[0].function, "inner");
	profile_free(profile);
}

static void all_mapped_code_is_annotated_without_code(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	assert_int_equal(make_without_code(profile, "vfs_read", NULL), 0);
	assert_int_equal(annotation.functions[0].self, 40 * MS);
	assert_true(annotation.functions[0].start == 0xffffffff80000200);
	assert_int_equal(make_without_code(profile, "libx.so+0x1234", NULL), 0);
	assert_string_equal(annotation.functions[0].name, "libx.so+0x1234");
	assert_int_equal(annotation.functions[0].instructions[0].line_count, 0);
	assert_int_equal(make_without_code(profile, "main", "app"), 0);
	assert_int_equal(make_without_code(profile, "main", "/usr/bin/other"), -ENOENT);
	assert_non_null(strstr(error.text, "no function 'main' in /usr/bin/other"));
	assert_int_equal(make_without_code(profile, "mai", NULL), -ENOENT);
	profile_free(profile);
}

static int set_up(void **state)
{
	(void)state;
	if (disassembler_load(&error) || make_sandbox(NULL))
		return -1;
	worker_server();
	build_program();
	build_kernel();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	annotation_clear(&annotation);
	free((char *)program);
	return remove_sandbox(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_have_values),
		cmocka_unit_test(inlined_names_find_their_callers),
		cmocka_unit_test(addresses_find_their_functions),
		cmocka_unit_test(names_without_code_are_refused),
		cmocka_unit_test(code_of_the_running_kernel_is_annotated),
		cmocka_unit_test(code_of_another_kernel_is_refused),
		cmocka_unit_test(code_that_must_not_be_read_is_refused),
		cmocka_unit_test(code_is_annotated_beside_functions_of_the_kernel),
		cmocka_unit_test(text_has_source_and_inlined_code),
		cmocka_unit_test(text_has_the_columns_that_are_wanted),
		cmocka_unit_test(missing_source_has_one_line),
		cmocka_unit_test(json_has_all),
		cmocka_unit_test(addresses_are_annotated_without_code),
		cmocka_unit_test(names_are_mangled_or_not),
		cmocka_unit_test(inlined_names_are_annotated_without_code),
		cmocka_unit_test(all_mapped_code_is_annotated_without_code),
	};

	return cmocka_run_group_tests_name("annotation", tests, set_up, tear_down);
}
