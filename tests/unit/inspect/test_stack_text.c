// SPDX-License-Identifier: GPL-2.0
/* The text of walked stacks with each kind of rule, which the test makes up. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/stack_symbols.h"
#include "inspect/stack_text.h"
#include "inspect/stack_walk.h"

#define STACK UINT64_C(0x7000)
#define OTHER UINT64_C(0x9000) /* another stack */
#define CODE UINT64_C(0x400000)
#define WORDS 24u
#define WORDS_ALL 100u

struct text {
	struct stack_walk walk;
	struct stack_symbols symbols;
	struct process_mapping mappings[4];
	struct stack_file files[2];
	struct stack_frame frames[6];
	struct stack_symbol items[8];
	uint64_t words[2][WORDS];
	char *printed;
	size_t size;
};

static struct text *text_new(void)
{
	struct text *text = calloc(1, sizeof(*text));

	text->mappings[0] = (struct process_mapping){
		.start = CODE, .end = CODE + 0x1000, .is_executable = true, .path = "/bin/app"};
	text->mappings[1] = (struct process_mapping){
		.start = 0x500000, .end = 0x501000, .path = "/lib/data.so"};
	text->mappings[2] =
		(struct process_mapping){.start = 0x600000, .end = 0x601000, .path = ""};
	text->files[0] = (struct stack_file){.path = "/bin/app", .fd = -1};
	text->files[1] = (struct stack_file){
		.path = "/lib/odd\n.so", .fd = -1, .problem = "it has no call frame information"};
	text->walk.maps.items = text->mappings;
	text->walk.maps.count = 3;
	text->walk.files = text->files;
	text->walk.file_count = 2;
	text->walk.frames = text->frames;
	text->walk.stops = 1;
	for (unsigned int i = 0; i < 2; i++)
		text->walk.copy.regions[i] = (struct stack_region){
			.start = i ? OTHER : STACK,
			.size = sizeof(text->words[i]),
			.bytes = (unsigned char *)text->words[i],
		};
	text->walk.copy.region_count = 1;
	text->symbols.items = text->items;
	return text;
}

/* Adds a frame of the first file whose function is `name`+8 (`name`.c:7). */
static struct stack_frame *add_frame(struct text *text, const char *name, uint64_t rip,
				     uint64_t rsp, uint64_t rbp)
{
	struct stack_frame *frame = &text->frames[text->walk.frame_count++];
	static char sources[8][16];

	*frame = (struct stack_frame){.is_mapped = true, .by_table = true, .has_rule = true};
	frame->frame.registers[STACKBEAT_REGISTER_RIP] = rip;
	frame->frame.registers[STACKBEAT_REGISTER_RSP] = rsp;
	frame->frame.registers[STACKBEAT_REGISTER_RBP] = rbp;
	frame->frame.known = 1u << STACKBEAT_REGISTER_RSP | 1u << STACKBEAT_REGISTER_RBP;
	frame->frame.is_return_address = text->walk.frame_count > 1;
	if (name) {
		struct stack_symbol *symbol = &text->items[text->symbols.count];

		snprintf(sources[text->symbols.count], sizeof(sources[0]), "/src/%s.c", name);
		*symbol = (struct stack_symbol){
			.address = rip - frame->frame.is_return_address,
			.vaddr = rip - frame->frame.is_return_address - CODE,
			.function = name,
			.start = rip - 8 - CODE,
			.source = sources[text->symbols.count++],
			.line = 7,
		};
	}
	return frame;
}

static void set_rule(struct stack_frame *frame, unsigned int kind, unsigned int base, int cfa,
		     unsigned int flags, int rbp, int extra)
{
	frame->rule = (struct stackbeat_unwind_rule){
		.cfa = cfa,
		.kind_base = (__u8)(kind | base << 4),
		.flags = (__u8)flags,
		.rbp = (__s8)rbp,
		.extra = (__s8)extra,
	};
}

static void set_end(struct text *text, enum walk_end end)
{
	set_rule(&text->frames[text->walk.frame_count - 1], STACKBEAT_UNWIND_END, 0, 0, 0, 0, 0);
	text->walk.end = end;
}

/* Prints, and compares what follows the line `from`, or all for NULL. Frees `text`. */
static void expect_words(struct text *text, size_t words, const char *from, const char *expected)
{
	FILE *out = open_memstream(&text->printed, &text->size);
	const char *found;

	assert_int_equal(stack_text_print(&text->walk, &text->symbols, words, out), 0);
	fclose(out);
	found = from ? strstr(text->printed, from) : text->printed;
	assert_non_null(found);
	assert_string_equal(found, expected);
	free(text->printed);
	free(text);
}

static void expect(struct text *text, const char *expected)
{
	expect_words(text, WORDS_ALL, "frames:\n", expected);
}

static void registers_are_in_the_usual_order(void **state)
{
	struct text *text = text_new();

	(void)state;
	for (unsigned int i = 0; i < STACKBEAT_REGISTERS; i++)
		text->walk.copy.registers[i] = 0x100 + i;
	text->walk.copy.region_count = 0;
	text->walk.end = WALK_NO_MAPPING;
	expect_words(text, WORDS_ALL, NULL,
		     "registers:\n"
		     "  rip 0x0000000000000110  rsp 0x0000000000000107  rbp 0x0000000000000106\n"
		     "  rax 0x0000000000000100  rbx 0x0000000000000103  rcx 0x0000000000000102\n"
		     "  rdx 0x0000000000000101  rsi 0x0000000000000104  rdi 0x0000000000000105\n"
		     "  r8  0x0000000000000108  r9  0x0000000000000109  r10 0x000000000000010a\n"
		     "  r11 0x000000000000010b  r12 0x000000000000010c  r13 0x000000000000010d\n"
		     "  r14 0x000000000000010e  r15 0x000000000000010f\n"
		     "frames:\n"
		     "  the stack ends here: the address is not in code\n");
}

static void goroutines_have_three_registers(void **state)
{
	struct text *text = text_new();

	(void)state;
	text->walk.stops = 0;
	text->walk.copy.region_count = 0;
	text->walk.copy.registers[STACKBEAT_REGISTER_RBP] = 3;
	text->walk.end = WALK_MAX_DEPTH;
	expect_words(text, WORDS_ALL, NULL,
		     "registers:\n"
		     "  rip 0x0000000000000000  rsp 0x0000000000000000  rbp 0x0000000000000003\n"
		     "frames:\n"
		     "  there are more frames\n");
}

/* leaf has rsp = STACK, and 16 bytes of its own; rbp is saved, and rbx. */
static void words_have_their_meaning(void **state)
{
	struct text *text = text_new();
	struct stack_frame *leaf = add_frame(text, "leaf", CODE + 0x108, STACK, 0x1111);

	(void)state;
	set_rule(leaf, STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RSP, 40,
		 STACKBEAT_UNWIND_RBP_SAVED | STACKBEAT_UNWIND_RBX_SAVED, -2, -3);
	add_frame(text, "main", CODE + 0x208, STACK + 40, STACK + 0x30);
	set_end(text, WALK_OUTERMOST);
	text->words[0][0] = 0x500010; /* points to a file */
	text->words[0][1] = 0x600010; /* points to memory */
	text->words[0][2] = 0x42;
	text->words[0][4] = CODE + 0x208;
	expect(text,
	       "frames:\n"
	       "  #0    0x0000000000400108 leaf+0x8 (leaf.c:7)\n"
	       "        row of /bin/app: CFA = rsp + 40, rip at CFA - 8, rbp at CFA - 16, rbx at "
	       "CFA - 24\n"
	       "  #1    0x0000000000400208 main+0x8 (main.c:7)\n"
	       "        row of /bin/app: the outermost frame\n"
	       "  the stack is complete\n"
	       "stack:\n"
	       "  address            offset  value               meaning\n"
	       "  0x0000000000007000 +0x0000 0x0000000000500010  unknown: points to data.so   <- "
	       "rsp of #0\n"
	       "  0x0000000000007008 +0x0008 0x0000000000600010  unknown: points to memory\n"
	       "  0x0000000000007010 +0x0010 0x0000000000000042  saved rbx of #1\n"
	       "  0x0000000000007018 +0x0018 0x0000000000000000  saved frame pointer (rbp) of #1\n"
	       "  0x0000000000007020 +0x0020 0x0000000000400208  return address of #0 to main+0x8 "
	       "(main.c:7)\n"
	       "  0x0000000000007028 +0x0028 0x0000000000000000  unknown   <- rsp of #1\n"
	       "  0x0000000000007030 +0x0030 0x0000000000000000  unknown   <- rbp of #1\n"
	       "  0x0000000000007038 +0x0038 0x0000000000000000  unknown\n");
}

static void long_stacks_are_cut(void **state)
{
	struct text *text = text_new();
	struct stack_frame *leaf = add_frame(text, NULL, CODE + 0x108, STACK, 0);

	(void)state;
	set_rule(leaf, STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RSP, 96, 0, 0, 0);
	leaf->frame.known = 0;
	add_frame(text, NULL, CODE + 0x208, STACK + 96, 0)->frame.known = 0;
	set_end(text, WALK_OUTERMOST);
	expect_words(text, 1, "stack:\n",
		     "stack:\n"
		     "  address            offset  value               meaning\n"
		     "  0x0000000000007000 +0x0000 0x0000000000000000  unknown\n"
		     "  and 11 more words; --words prints more\n");
}

static void places_without_symbols(void **state)
{
	struct text *text = text_new();

	(void)state;
	text->walk.copy.region_count = 0;
	text->items[0] = (struct stack_symbol){.address = CODE + 0x107, .vaddr = 0x107, .file = 1};
	text->items[1] = (struct stack_symbol){
		.address = CODE + 0x207, .vaddr = 0x207, .function = "no_start"};
	text->symbols.count = 2;
	add_frame(text, NULL, 5, 0, 0)->is_mapped = false;
	text->frames[0].file = STACK_NO_FILE;
	add_frame(text, NULL, CODE + 0x108, 0, 0)->has_rule = false;
	add_frame(text, NULL, CODE + 0x208, 0, 0)->by_table = false;
	text->frames[2].file = 1;
	add_frame(text, NULL, 9, 0, 0)->by_table = false;
	text->frames[3].file = STACK_NO_FILE;
	add_frame(text, NULL, 9, 0, 0)->file = STACK_NO_FILE;
	text->walk.end = WALK_UNREADABLE;
	text->walk.unreadable = 0xabc;
	expect(text,
	       "frames:\n"
	       "  #0    0x0000000000000005 code outside of all files\n"
	       "        in no mapping with code\n"
	       "  #1    0x0000000000400108 odd\\x0a.so+0x108\n"
	       "        row of /bin/app: no rule\n"
	       "  #2    0x0000000000400208 no_start\n"
	       "        no table of /lib/odd\\x0a.so (it has no call frame information): by frame "
	       "pointer, CFA = rbp + 16, rip at CFA - 8, rbp at CFA - 16\n"
	       "  #3    0x0000000000000009 code outside of all files\n"
	       "        no table: by frame pointer, CFA = rbp + 16, rip at CFA - 8, rbp at CFA - "
	       "16\n"
	       "  #4    0x0000000000000009 code outside of all files\n"
	       "        in no mapping with code\n"
	       "  the stack ends here: memory can't be read at 0xabc\n");
}

/* Prints the rule of one frame of `app`. */
static void expect_rule(unsigned int kind, unsigned int base, int cfa, unsigned int flags, int rbp,
			int extra, const char *expected)
{
	struct text *text = text_new();
	char all[512];

	text->walk.copy.region_count = 0;
	set_rule(add_frame(text, NULL, 9, 0, 0), kind, base, cfa, flags, rbp, extra);
	text->walk.end = WALK_BAD_FRAME;
	snprintf(all, sizeof(all),
		 "        row of /bin/app: %s\n"
		 "  the stack ends here: the caller's frame is not above this one\n",
		 expected);
	expect_words(text, WORDS_ALL, "        row of", all);
}

static void rules_are_printed(void **state)
{
	(void)state;
	expect_rule(STACKBEAT_UNWIND_CALLER, 10, 0, STACKBEAT_UNWIND_RIP_IN_REGISTER, 0, 11,
		    "CFA = r10, rip in r11");
	expect_rule(STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RBP, -16,
		    STACKBEAT_UNWIND_RBP_AT_RBP | STACKBEAT_UNWIND_RIP_EXACT, 0, 0,
		    "CFA = rbp - 16, rip at CFA - 8, rbp at rbp, rip is no return address");
	expect_rule(STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RSP, 8,
		    STACKBEAT_UNWIND_INDIRECT | STACKBEAT_UNWIND_RBP_IN_REGISTER, 9, 1,
		    "CFA = word at rsp + 8, then + 8, rip at CFA - 8, rbp in r9");
	expect_rule(STACKBEAT_UNWIND_GO_SWITCH, 0, 8, 0, 0, 0,
		    "CFA = sched.sp of the goroutine + 8, rip at CFA - 8, rbp = sched.bp");
	expect_rule(STACKBEAT_UNWIND_GO_SWITCH, 0, 8, STACKBEAT_UNWIND_RBP_SAVED, -2, 0,
		    "CFA = sched.sp of the goroutine + 8, rip at CFA - 8, rbp at CFA - 16");
	expect_rule(STACKBEAT_UNWIND_GO_CALL, 0, 24, 0, 0, 5,
		    "CFA = rsp of the goroutine, by the words at rsp + 40, then + 24, rip at CFA - "
		    "8");
	expect_rule(STACKBEAT_UNWIND_GO_RESUME, 0, 0, 0, 0, 0,
		    "rip, rsp and rbp in sched of the goroutine; without one the outermost frame");
	expect_rule(STACKBEAT_UNWIND_SIGNAL, 0, 0, 0, 0, 0,
		    "frame of a signal handler, all registers from struct ucontext");
	expect_rule(STACKBEAT_UNWIND_NONE, 0, 0, 0, 0, 0, "no rule");
}

static void ends_are_printed(void **state)
{
	static const struct {
		enum walk_end end;
		const char *text;
	} ends[] = {
		{WALK_NO_RULE, "the stack ends here: the table has no rule for the address"},
		{WALK_LOST_REGISTER, "the stack ends here: the value of a register is not known"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct text *text = text_new();
		char all[128];

		text->walk.copy.region_count = 0;
		text->walk.end = ends[i].end;
		snprintf(all, sizeof(all), "frames:\n  %s\n", ends[i].text);
		expect(text, all);
	}
}

/* A handler on another stack: the registers that the kernel has saved, then the interrupted one. */
static void signal_frames_lead_to_another_stack(void **state)
{
	struct text *text = text_new();
	struct stack_frame *trampoline = add_frame(text, "tramp", CODE + 0x108, STACK, 0);

	(void)state;
	set_rule(trampoline, STACKBEAT_UNWIND_SIGNAL, 0, 0, 0, 0, 0);
	text->walk.copy.region_count = 2;
	text->frames[0].frame.known = 0;
	set_rule(add_frame(text, "work", CODE + 0x208, OTHER, OTHER + 8), STACKBEAT_UNWIND_CALLER,
		 STACKBEAT_REGISTER_RBP, 16, STACKBEAT_UNWIND_RBP_AT_RBP, 0, 0);
	text->frames[1].frame.is_return_address = 0;
	text->items[1].address++;
	text->items[1].vaddr++;
	add_frame(text, "main", CODE + 0x308, OTHER + 24, 0)->frame.known = 0;
	set_end(text, WALK_OUTERMOST);
	text->words[0][5] = 8;
	text->words[0][21] = CODE + 0x208;
	text->words[1][2] = CODE + 0x308;
	expect_words(
		text, WORDS_ALL, "stack:\n",
		"stack:\n"
		"  address            offset  value               meaning\n"
		"  0x0000000000007000 +0x0000 0x0000000000000000  unknown\n"
		"  0x0000000000007008 +0x0008 0x0000000000000000  unknown\n"
		"  0x0000000000007010 +0x0010 0x0000000000000000  unknown\n"
		"  0x0000000000007018 +0x0018 0x0000000000000000  unknown\n"
		"  0x0000000000007020 +0x0020 0x0000000000000000  unknown\n"
		"  0x0000000000007028 +0x0028 0x0000000000000008  r8 of #1, saved by the kernel\n"
		"  0x0000000000007030 +0x0030 0x0000000000000000  r9 of #1, saved by the kernel\n"
		"  0x0000000000007038 +0x0038 0x0000000000000000  r10 of #1, saved by the kernel\n"
		"  0x0000000000007040 +0x0040 0x0000000000000000  r11 of #1, saved by the kernel\n"
		"  0x0000000000007048 +0x0048 0x0000000000000000  r12 of #1, saved by the kernel\n"
		"  0x0000000000007050 +0x0050 0x0000000000000000  r13 of #1, saved by the kernel\n"
		"  0x0000000000007058 +0x0058 0x0000000000000000  r14 of #1, saved by the kernel\n"
		"  0x0000000000007060 +0x0060 0x0000000000000000  r15 of #1, saved by the kernel\n"
		"  0x0000000000007068 +0x0068 0x0000000000000000  rdi of #1, saved by the kernel\n"
		"  0x0000000000007070 +0x0070 0x0000000000000000  rsi of #1, saved by the kernel\n"
		"  0x0000000000007078 +0x0078 0x0000000000000000  rbp of #1, saved by the kernel\n"
		"  0x0000000000007080 +0x0080 0x0000000000000000  rbx of #1, saved by the kernel\n"
		"  0x0000000000007088 +0x0088 0x0000000000000000  rdx of #1, saved by the kernel\n"
		"  0x0000000000007090 +0x0090 0x0000000000000000  rax of #1, saved by the kernel\n"
		"  0x0000000000007098 +0x0098 0x0000000000000000  rcx of #1, saved by the kernel\n"
		"  0x00000000000070a0 +0x00a0 0x0000000000000000  rsp of #1, saved by the kernel\n"
		"  0x00000000000070a8 +0x00a8 0x0000000000400208  rip of #1, saved by the kernel\n"
		"another stack:\n"
		"  address            offset  value               meaning\n"
		"  0x0000000000009008 +0x0000 0x0000000000000000  saved frame pointer (rbp) of #2  "
		" "
		"<- rbp of #1\n"
		"  0x0000000000009010 +0x0008 0x0000000000400308  return address of #1 to main+0x8 "
		"(main.c:7)\n");
}

/* Words of which the walk has used one more than once, and rules that use other words. */
static void other_words_are_noted(void **state)
{
	struct text *text = text_new();
	struct stack_frame *first = add_frame(text, NULL, CODE + 0x108, STACK, 0);
	struct stack_frame *second;

	(void)state;
	first->frame.known = 0;
	set_rule(first, STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RSP, 8,
		 STACKBEAT_UNWIND_INDIRECT | STACKBEAT_UNWIND_RIP_IN_REGISTER, 0, 1);
	second = add_frame(text, NULL, CODE + 0x208, STACK + 16, 0);
	second->frame.known = 0;
	set_rule(second, STACKBEAT_UNWIND_GO_CALL, 0, 8, 0, 0, -1);
	add_frame(text, NULL, CODE + 0x308, STACK + 32, 0)->frame.known = 0;
	set_end(text, WALK_OUTERMOST);
	expect_words(
		text, WORDS_ALL, "stack:\n",
		"stack:\n"
		"  address            offset  value               meaning\n"
		"  0x0000000000007000 +0x0000 0x0000000000000000  unknown\n"
		"  0x0000000000007008 +0x0008 0x0000000000000000  CFA of #0; place of #2 on the "
		"stack of the goroutine\n"
		"  0x0000000000007010 +0x0010 0x0000000000000000  place of #2 on the stack of the "
		"goroutine\n"
		"  0x0000000000007018 +0x0018 0x0000000000000000  return address of #1 to code "
		"outside of all files\n"
		"  0x0000000000007020 +0x0020 0x0000000000000000  unknown\n"
		"  0x0000000000007028 +0x0028 0x0000000000000000  unknown\n"
		"  0x0000000000007030 +0x0030 0x0000000000000000  unknown\n"
		"  0x0000000000007038 +0x0038 0x0000000000000000  unknown\n");
}

static void registers_that_point_to_words(void **state)
{
	struct text *text = text_new();
	struct stack_frame *leaf = add_frame(text, NULL, CODE + 0x108, STACK, STACK + 8);

	(void)state;
	set_rule(leaf, STACKBEAT_UNWIND_CALLER, STACKBEAT_REGISTER_RSP, 16, 0, 0, 0);
	leaf->frame.registers[5] = STACK + 8; /* rdi */
	leaf->frame.registers[4] = STACK + 8; /* rsi, of which nothing is known */
	leaf->frame.known |= 1u << 5;
	/* The same rbp, and an rdi that was not followed. */
	add_frame(text, NULL, CODE + 0x208, STACK + 16, STACK + 8);
	text->frames[1].frame.registers[5] = STACK + 16;
	text->frames[1].frame.known |= 1u << 5;
	set_end(text, WALK_OUTERMOST);
	text->words[0][0] = CODE + 0x107;
	text->items[0] = (struct stack_symbol){
		.address = CODE + 0x107, .function = "f", .vaddr = 9, .start = 8};
	text->symbols.count = 1;
	expect_words(
		text, 3, "stack:\n",
		"stack:\n"
		"  address            offset  value               meaning\n"
		"  0x0000000000007000 +0x0000 0x0000000000400107  unknown: in code, f+0x1   <- "
		"rsp of #0\n"
		"  0x0000000000007008 +0x0008 0x0000000000000000  return address of #0 to code "
		"outside of all files   <- rdi of #0, rbp of #0\n"
		"  0x0000000000007010 +0x0010 0x0000000000000000  unknown   <- rsp of #1\n"
		"  and 5 more words; --words prints more\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_in_the_usual_order),
		cmocka_unit_test(goroutines_have_three_registers),
		cmocka_unit_test(words_have_their_meaning),
		cmocka_unit_test(long_stacks_are_cut),
		cmocka_unit_test(places_without_symbols),
		cmocka_unit_test(rules_are_printed),
		cmocka_unit_test(ends_are_printed),
		cmocka_unit_test(signal_frames_lead_to_another_stack),
		cmocka_unit_test(other_words_are_noted),
		cmocka_unit_test(registers_that_point_to_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
