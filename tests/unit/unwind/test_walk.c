// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi.h"
#include "unwind/walk.h"

/* Each function has one block of a table: function n is at CODE + 256 n, its rule is rules[n]. */
#define CODE UINT64_C(0x400000)
#define FUNCTIONS 16u
#define BIAS UINT64_C(0x10000000)
#define JIT UINT64_C(0x7f0000000000) /* a mapping without a table */
#define STACK UINT64_C(0x7ffc00001000)
#define WORDS 512u
#define FRAMES_MAX 64u

/* The address of a call in function n; a return address to it. */
#define AT(n) (BIAS + CODE + 256 * (n) + 0x40)

struct machine {
	struct {
		struct stackbeat_unwind_table header;
		struct stackbeat_unwind_rule rules[FUNCTIONS];
		uint32_t blocks[FUNCTIONS + 1];
		uint16_t row_rules[FUNCTIONS];
		uint8_t row_starts[FUNCTIONS];
	} table;
	struct stackbeat_unwind_view view;
	struct walk_mapping mappings[2];
	struct stackbeat_stack *stack;
	uint64_t *words; /* of the stack */
	uint64_t frames[FRAMES_MAX];
	struct walk_result result;
};

static struct machine *new_machine(void)
{
	struct machine *machine = calloc(1, sizeof(*machine));

	assert_non_null(machine);
	machine->stack = calloc(1, sizeof(*machine->stack) + WORDS * sizeof(uint64_t));
	assert_non_null(machine->stack);
	machine->words = (void *)machine->stack->bytes;
	machine->table.header = (struct stackbeat_unwind_table){
		.magic = STACKBEAT_UNWIND_MAGIC,
		.start = CODE,
		.block_count = FUNCTIONS,
		.row_count = FUNCTIONS,
		.rule_count = FUNCTIONS,
	};
	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		machine->table.blocks[i + 1] = i + 1;
		machine->table.row_rules[i] = (uint16_t)i;
	}
	stackbeat_unwind_open(&machine->table.header, &machine->view);
	machine->mappings[0] = (struct walk_mapping){
		BIAS + CODE, BIAS + CODE + 256 * (uint64_t)FUNCTIONS, BIAS, &machine->view};
	machine->mappings[1] = (struct walk_mapping){JIT, JIT + 4096, JIT, NULL};
	machine->stack->registers[STACKBEAT_REGISTER_RSP] = STACK;
	machine->stack->size = WORDS * sizeof(uint64_t);
	return machine;
}

static void free_machine(struct machine *machine)
{
	free(machine->stack);
	free(machine);
}

static void set_rule(struct machine *machine, unsigned int function, unsigned int base, int32_t cfa,
		     unsigned int flags, int rbp, int extra)
{
	machine->table.rules[function] = (struct stackbeat_unwind_rule){
		.cfa = cfa,
		.kind_base = (uint8_t)(STACKBEAT_UNWIND_CALLER | base << 4),
		.flags = (uint8_t)flags,
		.rbp = (int8_t)rbp,
		.extra = (int8_t)extra,
	};
	assert_true(stackbeat_unwind_rule_is_valid(&machine->table.rules[function]));
}

static void set_kind(struct machine *machine, unsigned int function, unsigned int kind)
{
	machine->table.rules[function] = (struct stackbeat_unwind_rule){.kind_base = (uint8_t)kind};
}

static void set_register(struct machine *machine, unsigned int number, uint64_t value)
{
	machine->stack->registers[number] = value;
}

static const struct walk_mapping *find_mapping(void *arg, uint64_t address)
{
	struct machine *machine = arg;

	for (size_t i = 0; i < 2; i++) {
		if (address >= machine->mappings[i].start && address < machine->mappings[i].end)
			return &machine->mappings[i];
	}
	return NULL;
}

static void walk_limited(struct machine *machine, size_t max)
{
	walk_stack_copy(machine->stack, find_mapping, machine, machine->frames, max,
			&machine->result);
}

/* Walks, and compares the frames and the end. */
static void expect(struct machine *machine, const uint64_t *frames, size_t count, enum walk_end end)
{
	walk_limited(machine, FRAMES_MAX);
	assert_int_equal(machine->result.frames, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(machine->frames[i], frames[i]);
	assert_int_equal(machine->result.end, end);
}
#define EXPECT(machine, end, ...)                                                                  \
	expect(machine, (const uint64_t[]){__VA_ARGS__},                                           \
	       sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), end)

static void frames_without_frame_pointers(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 8, 0, 0, 0);
	set_rule(machine, 1, CFI_RSP, 32, 0, 0, 0);
	set_kind(machine, 2, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[0] = AT(1);
	machine->words[4] = AT(2);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2));
	assert_int_equal(machine->result.table_frames, 2);
	assert_false(machine->result.is_truncated);
	assert_int_equal(machine->result.need, 5 * 8);
	free_machine(machine);
}

/* Row boundaries: the leaf by its address, callers by the address before. */
static void a_return_address_is_looked_up_at_its_call(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 16, 0, 0, 0);
	set_rule(machine, 1, CFI_RSP, 24, 0, 0, 0);
	set_rule(machine, 2, CFI_RSP, 32, 0, 0, 0);
	set_kind(machine, 3, STACKBEAT_UNWIND_END);
	/* At the first byte of function 1; then behind a call at the end of function 1. */
	set_register(machine, STACKBEAT_REGISTER_RIP, BIAS + CODE + 256);
	machine->words[2] = BIAS + CODE + 512;
	machine->words[5] = AT(3);
	EXPECT(machine, WALK_OUTERMOST, BIAS + CODE + 256, BIAS + CODE + 512, AT(3));
	free_machine(machine);
}

static void each_place_of_rbp(void **state)
{
	static const struct {
		unsigned int flags;
		int rbp;
		uint64_t expected; /* the word that rbp points to, which is a frame of function 2 */
	} cases[] = {
		{0, 0, 10},
		{STACKBEAT_UNWIND_RBP_SAVED, -2, 20},
		{STACKBEAT_UNWIND_RBP_AT_RBP, 1, 30},
		{STACKBEAT_UNWIND_RBP_IN_REGISTER, 12, 40},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine *machine = new_machine();

		set_rule(machine, 0, CFI_RSP, 24, cases[i].flags, cases[i].rbp, 0);
		set_rule(machine, 2, CFI_RBP, 16, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
		set_kind(machine, 3, STACKBEAT_UNWIND_END);
		set_kind(machine, 4, STACKBEAT_UNWIND_NONE);
		set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
		set_register(machine, CFI_RBP, STACK + 10 * 8);
		set_register(machine, 12, STACK + 40 * 8);
		machine->words[1] = STACK + 20 * 8;
		machine->words[2] = AT(2);
		machine->words[11] = AT(4);
		machine->words[21] = AT(4);
		machine->words[31] = AT(4);
		machine->words[41] = AT(4);
		if (cases[i].expected == 30)
			machine->words[11] = STACK + 30 * 8;
		machine->words[cases[i].expected + 1] = AT(3);
		EXPECT(machine, WALK_OUTERMOST, AT(0), AT(2), AT(3));
		free_machine(machine);
	}
}

/* Lazy binding: _dl_runtime_resolve (1) has aligned rsp and calls _dl_fixup (0). */
static void rbx_is_followed(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 32, STACKBEAT_UNWIND_RBX_SAVED, 0, -2);
	set_rule(machine, 1, CFI_RBX, 32, 0, 0, 0);
	set_kind(machine, 2, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[2] = STACK + 100 * 8;
	machine->words[3] = AT(1);
	machine->words[103] = AT(2);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2));
	free_machine(machine);
}

/* OpenSSL's assembly: *(rsp + 16) + 8, and gcc's realigned frames: *(rbp - 8), rbp at *rbp. */
static void the_cfa_in_memory(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 16, STACKBEAT_UNWIND_INDIRECT, 0, 1);
	set_rule(machine, 1, CFI_RBP, -8, STACKBEAT_UNWIND_INDIRECT | STACKBEAT_UNWIND_RBP_AT_RBP,
		 0, 0);
	set_rule(machine, 2, CFI_RBP, 16, 0, 0, 0);
	set_kind(machine, 3, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	set_register(machine, CFI_RBP, STACK + 50 * 8);
	machine->words[2] = STACK + 39 * 8;
	machine->words[39] = AT(1);
	machine->words[49] = STACK + 60 * 8;
	machine->words[50] = STACK + 70 * 8;
	machine->words[59] = AT(2);
	machine->words[71] = AT(3);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2), AT(3));
	free_machine(machine);
}

/* vfork() of glibc. */
static void a_return_address_in_a_register(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 0, STACKBEAT_UNWIND_RIP_IN_REGISTER, 0, 5);
	set_kind(machine, 1, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	set_register(machine, 5, AT(1));
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1));
	/* Beyond the leaf, a frame must grow. */
	set_rule(machine, 2, CFI_RSP, 8, 0, 0, 0);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(2));
	machine->words[0] = AT(0);
	EXPECT(machine, WALK_BAD_FRAME, AT(2), AT(0));
	free_machine(machine);
}

/* Beyond the leaf, r12 to r15 may be changed by then. */
static void registers_that_callees_save_are_unknown(void **state)
{
	(void)state;
	for (unsigned int reg = 12; reg < 16; reg++) {
		struct machine *machine = new_machine();

		set_rule(machine, 0, reg, 16, 0, 0, 0);
		set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
		set_register(machine, reg, STACK);
		machine->words[1] = AT(0);
		EXPECT(machine, WALK_LOST_REGISTER, AT(0), AT(0));
		free_machine(machine);
	}
}

/*
 * As in OpenSSL's AES-GCM: aesni_gcm_encrypt (1) has its CFA in rax during its call of
 * _aesni_ctr32_ghash_6x (0).
 */
static void registers_that_calls_may_change_are_followed(void **state)
{
	static const unsigned int registers[] = {0, 1, 2, 4, 5, 8, 9, 10, 11};

	(void)state;
	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		struct machine *machine = new_machine();

		set_rule(machine, 0, CFI_RSP, 8, 0, 0, 0);
		set_rule(machine, 1, registers[i], 8, STACKBEAT_UNWIND_RBP_SAVED, -3, 0);
		set_rule(machine, 2, CFI_RBP, 16, 0, 0, 0);
		set_kind(machine, 3, STACKBEAT_UNWIND_END);
		set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
		set_register(machine, registers[i], STACK + 50 * 8);
		machine->words[0] = AT(1);
		machine->words[48] = STACK + 60 * 8;
		machine->words[50] = AT(2);
		machine->words[61] = AT(3);
		EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2), AT(3));
		free_machine(machine);
	}
}

static void a_signal_frame_restores_all_registers(void **state)
{
	/* The order of struct sigcontext: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
	 */
	enum { R10 = 2, RSP = 15, RIP = 16 };
	struct machine *machine = new_machine();
	uint64_t *context = &machine->words[1 + 5];

	(void)state;
	set_rule(machine, 0, CFI_RSP, 8, 0, 0, 0);
	set_kind(machine, 1, STACKBEAT_UNWIND_SIGNAL);
	set_rule(machine, 3, 10, 8, 0, 0, 0);
	set_kind(machine, 4, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[0] = AT(1);
	/* Interrupted at the first byte of function 3, which finds its CFA by r10. */
	context[RIP] = BIAS + CODE + 768;
	context[RSP] = STACK + 90 * 8;
	context[R10] = STACK + 100 * 8;
	machine->words[100] = AT(4);
	/* Its address points to its instruction once it is decremented as a return address. */
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), BIAS + CODE + 768 + 1, AT(4));
	assert_int_equal(machine->result.table_frames, 3);
	free_machine(machine);
}

static void code_without_table_is_walked_by_frame_pointers(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 24, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
	set_kind(machine, 1, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, JIT + 100);
	set_register(machine, CFI_RBP, STACK + 10 * 8);
	machine->words[10] = STACK + 20 * 8;
	machine->words[11] = JIT + 200;
	machine->words[20] = STACK + 30 * 8;
	machine->words[21] = AT(0); /* back to tables */
	machine->words[22] = 0;
	machine->words[23] = STACK + 40 * 8;
	machine->words[24] = JIT + 300; /* and again */
	machine->words[40] = 0;
	machine->words[41] = AT(1);
	EXPECT(machine, WALK_OUTERMOST, JIT + 100, JIT + 200, AT(0), JIT + 300, AT(1));
	assert_int_equal(machine->result.table_frames, 1);
	/* The chain ends with 0. */
	machine->words[41] = JIT + 400;
	EXPECT(machine, WALK_OUTERMOST, JIT + 100, JIT + 200, AT(0), JIT + 300, JIT + 400);
	machine->words[41] = 0;
	EXPECT(machine, WALK_OUTERMOST, JIT + 100, JIT + 200, AT(0), JIT + 300);
	/* The register of the first frame may be data, which happens to lead to a 0. */
	machine->words[11] = 0;
	EXPECT(machine, WALK_BAD_FRAME, JIT + 100);
	set_register(machine, CFI_RBP, 0);
	EXPECT(machine, WALK_BAD_FRAME, JIT + 100);
	free_machine(machine);
}

static void each_end(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 16, 0, 0, 0);
	set_kind(machine, 1, STACKBEAT_UNWIND_NONE);
	set_register(machine, STACKBEAT_REGISTER_RIP, 0x1234);
	EXPECT(machine, WALK_NO_MAPPING, 0x1234);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[1] = AT(1);
	EXPECT(machine, WALK_NO_RULE, AT(0), AT(1));
	machine->words[1] = 0x1234;
	EXPECT(machine, WALK_NO_MAPPING, AT(0), 0x1234);
	machine->words[1] = 0;
	EXPECT(machine, WALK_OUTERMOST, AT(0));
	/* A mapping that is larger than its table. */
	machine->mappings[0].end += 4096;
	machine->words[1] = AT(FUNCTIONS);
	EXPECT(machine, WALK_NO_RULE, AT(0), AT(FUNCTIONS));
	free_machine(machine);
}

/* As where Go switches stacks. */
static void a_frame_pointer_may_lead_to_a_lower_stack(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RBP, 16, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
	set_kind(machine, 1, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	set_register(machine, CFI_RBP, STACK + 10 * 8);
	machine->words[10] = STACK + 8;
	machine->words[11] = AT(0);
	machine->words[2] = AT(1);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(0), AT(1));
	free_machine(machine);
}

static void a_bad_frame_ends_the_walk(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RBP, 16, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	/* A circle: the saved frame pointer points to the frame itself. */
	set_register(machine, CFI_RBP, STACK + 10 * 8);
	machine->words[10] = STACK + 10 * 8;
	machine->words[11] = AT(0);
	walk_limited(machine, FRAMES_MAX);
	assert_int_equal(machine->result.frames, 2 + STACKBEAT_FP_DESCENTS_MAX);
	assert_int_equal(machine->result.end, WALK_BAD_FRAME);
	/* Misaligned. */
	machine->words[10] = STACK + 20 * 8 + 4;
	EXPECT(machine, WALK_BAD_FRAME, AT(0), AT(0));
	/* The same CFA twice. */
	set_rule(machine, 0, CFI_RSP, 16, 0, 0, 0);
	set_rule(machine, 1, CFI_RSP, 0, 0, 0, 0);
	machine->words[1] = AT(1);
	EXPECT(machine, WALK_BAD_FRAME, AT(0), AT(1));
	free_machine(machine);
}

static void memory_outside_of_the_copy_is_unreadable(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, (WORDS - 1) * 8, 0, 0, 0);
	set_rule(machine, 1, CFI_RSP, 8, 0, 0, 0);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[WORDS - 2] = AT(1);
	machine->words[WORDS - 1] = AT(1);
	EXPECT(machine, WALK_UNREADABLE, AT(0), AT(1), AT(1));
	assert_true(machine->result.is_truncated);
	/* It would read one more. */
	assert_int_equal(machine->result.need, (WORDS + 1) * 8);
	/* A part of a word. */
	machine->stack->size -= 4;
	EXPECT(machine, WALK_UNREADABLE, AT(0), AT(1));
	assert_true(machine->result.is_truncated);
	machine->stack->size = 4;
	EXPECT(machine, WALK_UNREADABLE, AT(0));
	assert_true(machine->result.is_truncated);
	/* Below it. */
	set_rule(machine, 0, CFI_RBP, 16, 0, 0, 0);
	set_register(machine, CFI_RBP, STACK - 64);
	EXPECT(machine, WALK_UNREADABLE, AT(0));
	assert_false(machine->result.is_truncated);
	/* At the end of the address space. */
	set_register(machine, CFI_RBP, UINT64_MAX - 19);
	EXPECT(machine, WALK_UNREADABLE, AT(0));
	free_machine(machine);
}

/* An unreadable slot costs only frames that need the register. */
static void a_lost_rbp_matters_where_it_is_used(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 16, STACKBEAT_UNWIND_RBP_SAVED, -100, 0);
	set_rule(machine, 1, CFI_RSP, 16, 0, 0, 0);
	set_kind(machine, 2, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[1] = AT(1);
	machine->words[3] = AT(2);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2));
	machine->words[3] = JIT;
	machine->words[3] += 8;
	EXPECT(machine, WALK_LOST_REGISTER, AT(0), AT(1), JIT + 8);
	free_machine(machine);
}

static void depth_is_limited(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 8, 0, 0, 0);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	for (size_t i = 0; i < WORDS; i++)
		machine->words[i] = AT(0);
	for (size_t max = 0; max <= FRAMES_MAX; max++) {
		machine->frames[max % FRAMES_MAX] = 0;
		walk_limited(machine, max);
		assert_int_equal(machine->result.frames, max);
		assert_int_equal(machine->result.end, WALK_MAX_DEPTH);
		assert_int_equal(machine->result.table_frames, max ? max - 1 : 0);
	}
	free_machine(machine);
}

/* Signal frames can lead anywhere: steps to a lower stack pointer have a limit. */
static void a_circle_of_signal_frames_ends(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_kind(machine, 1, STACKBEAT_UNWIND_SIGNAL);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(1));
	machine->words[5 + 15] = STACK;
	machine->words[5 + 16] = AT(1);
	walk_limited(machine, FRAMES_MAX);
	assert_int_equal(machine->result.frames, STACKBEAT_FP_DESCENTS_MAX + 1);
	assert_int_equal(machine->result.end, WALK_BAD_FRAME);
	/* A part of it is unreadable. */
	machine->stack->size = (5 + 16) * 8;
	EXPECT(machine, WALK_UNREADABLE, AT(1));
	assert_true(machine->result.is_truncated);
	free_machine(machine);
}

/* Go */

static void set_go_rule(struct machine *machine, unsigned int function, unsigned int kind,
			int32_t cfa, int extra)
{
	set_rule(machine, function, CFI_RSP, cfa, 0, 0, extra);
	machine->table.rules[function].kind_base = (uint8_t)(kind | CFI_RSP << 4);
	assert_true(stackbeat_unwind_rule_is_valid(&machine->table.rules[function]));
}

/* The stack of C, from word 0 on, and the stack of the goroutine behind it, which ends at word 40.
 */
static void a_call_of_c_leads_back_to_the_goroutine(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	machine->table.header.go.stack_hi = 8;
	set_rule(machine, 0, CFI_RSP, 8, 0, 0, 0);
	set_go_rule(machine, 1, STACKBEAT_UNWIND_GO_CALL, 16, 2);
	set_kind(machine, 2, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[0] = AT(1);
	/* rsp is at word 1; at 3 the distance from the end, and a g, whose stack_hi is word 11. */
	machine->words[3] = UINT64_C(20) * 8;
	machine->words[4] = STACK + UINT64_C(10) * 8;
	machine->words[11] = STACK + UINT64_C(40) * 8;
	machine->words[21] = AT(2);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2));
	/* Without a g: the stack pointer itself. */
	machine->words[3] = STACK + UINT64_C(30) * 8;
	machine->words[4] = 0;
	machine->words[21] = 0;
	machine->words[31] = AT(2);
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(1), AT(2));
	free_machine(machine);
}

/* The base of fs is not in a copy. */
static void a_copy_ends_where_go_changes_stacks(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	machine->table.header.go =
		(struct stackbeat_unwind_go){-8, 48, 8, 56, 64, 104, 192, 152, 0, 0, 0, 0};
	set_go_rule(machine, 0, STACKBEAT_UNWIND_GO_RESUME, 0, 0);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	EXPECT(machine, WALK_UNREADABLE, AT(0));
	assert_true(machine->result.is_truncated);
	/* Nor is the memory of a library, where the offset from there is. */
	machine->table.header.go.tls = 16;
	machine->table.header.go.tls_in_memory = 1;
	EXPECT(machine, WALK_UNREADABLE, AT(0));
	assert_true(machine->result.is_truncated);
	/* No size of the copy would help. */
	assert_int_equal(machine->result.need, 0);
	free_machine(machine);
}

/* Words of memory by number, at addresses from MEMORY on, where an m and a g are. */
#define MEMORY UINT64_C(0xc000000000)
#define WORD(n) (MEMORY + 8 * (uint64_t)(n))

static int read_memory(void *arg, __u64 address, __u64 *word)
{
	const uint64_t *memory = arg;

	if (address % 8 || address < MEMORY || address >= WORD(64))
		return 0;
	*word = memory[(address - MEMORY) / 8];
	return 1;
}

static const struct stackbeat_unwind_go go_offsets = {-8, 8, 0, 16, 24, 32, 16, 40, 0, 0, 0, 0};

/* At word 0 the g of the thread, at 10 that g, at 20 its m, at 30 the goroutine. */
static struct stackbeat_unwind_frame new_goroutine(uint64_t *memory)
{
	struct stackbeat_unwind_frame frame = {
		.known = STACKBEAT_UNWIND_ALL_KNOWN, .is_return_address = 1, .fs_base = WORD(1)};

	memset(memory, 0, 64 * sizeof(*memory));
	memory[0] = WORD(10);
	memory[11] = WORD(20);
	memory[22] = WORD(30);
	memory[31] = WORD(20);
	memory[32] = WORD(50); /* sp */
	memory[33] = 0x401234; /* pc */
	memory[34] = WORD(60); /* bp */
	memory[50] = 0x405678;
	frame.registers[STACKBEAT_REGISTER_RSP] = WORD(40);
	return frame;
}

static enum stackbeat_unwind_result go_step(struct stackbeat_unwind_frame *frame, uint64_t *memory,
					    unsigned int kind, const struct stackbeat_unwind_go *go)
{
	struct stackbeat_unwind_rule rule = {.cfa = 8, .kind_base = (uint8_t)kind};

	return stackbeat_unwind_step(frame, &rule, go, read_memory, memory);
}

static void a_goroutine_is_resumed(void **state)
{
	uint64_t memory[64];
	struct stackbeat_unwind_frame frame = new_goroutine(memory);

	(void)state;
	assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &go_offsets),
			 STACKBEAT_UNWIND_STEPPED);
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RSP], WORD(50));
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RIP], 0x401234);
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RBP], WORD(60));
	assert_true(frame.is_return_address);
	frame = new_goroutine(memory);
	assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_SWITCH, &go_offsets),
			 STACKBEAT_UNWIND_STEPPED);
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RSP], WORD(51));
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RIP], 0x405678);
	assert_int_equal(frame.registers[STACKBEAT_REGISTER_RBP], WORD(60));
}

/* A machine with memory in place of a stack. */
struct machine_memory {
	struct machine *machine;
	uint64_t words[64];
};

static const struct walk_mapping *find_mapping_beside_memory(void *arg, uint64_t address)
{
	return find_mapping(((struct machine_memory *)arg)->machine, address);
}

static int read_beside_mappings(void *arg, __u64 address, __u64 *word)
{
	return read_memory(((struct machine_memory *)arg)->words, address, word);
}

/* Walks from a rule of kind STACKBEAT_UNWIND_GO_RESUME to the end in the goroutine. */
static enum walk_end walk_to_goroutine(struct machine_memory *memory, size_t *frames)
{
	struct walk walk = {
		.mapping = find_mapping_beside_memory, .read = read_beside_mappings, .arg = memory};
	uint64_t addresses[4];
	enum walk_end end;

	walk.frame.fs_base = WORD(1);
	walk.frame.registers[STACKBEAT_REGISTER_RIP] = AT(0);
	walk.frame.registers[STACKBEAT_REGISTER_RSP] = WORD(40);
	*frames = walk_stack(&walk, addresses, 4, &end);
	if (*frames == 2)
		assert_int_equal(addresses[1], AT(2));
	return end;
}

/* ld.so writes it in each process. */
static void the_place_of_g_is_in_the_memory_of_a_library(void **state)
{
	struct machine_memory memory = {.machine = new_machine()};
	struct stackbeat_unwind_table *table = &memory.machine->table.header;
	size_t frames;

	(void)state;
	new_goroutine(memory.words);
	memory.words[33] = AT(2);
	memory.words[63] = (uint64_t)-8;
	set_go_rule(memory.machine, 0, STACKBEAT_UNWIND_GO_RESUME, 0, 0);
	set_kind(memory.machine, 2, STACKBEAT_UNWIND_END);
	table->go = go_offsets;
	table->go.tls = (int64_t)(WORD(63) - BIAS);
	table->go.tls_in_memory = 1;
	assert_int_equal(walk_to_goroutine(&memory, &frames), WALK_OUTERMOST);
	assert_int_equal(frames, 2);
	table->go.tls = (int64_t)(WORD(64) - BIAS);
	assert_int_equal(walk_to_goroutine(&memory, &frames), WALK_UNREADABLE);
	assert_int_equal(frames, 1);
	/* Other rules do not need it. */
	set_rule(memory.machine, 0, CFI_RSP, 8, 0, 0, 0);
	memory.words[40] = AT(2);
	assert_int_equal(walk_to_goroutine(&memory, &frames), WALK_OUTERMOST);
	assert_int_equal(frames, 2);
	free_machine(memory.machine);
}

/* Nothing is known of goroutines where the place can't be read, and as little of a table without
 * curg. */
static void the_place_of_g_may_be_unknown(void **state)
{
	struct stackbeat_unwind_go of = go_offsets, go;
	struct machine *machine = new_machine();
	uint64_t memory[64] = {0};

	(void)state;
	of.tls = 8;
	of.tls_in_memory = 1;
	memory[9] = (uint64_t)-24;
	assert_true(stackbeat_unwind_go_in_process(&go, &of, WORD(8), read_memory, memory));
	assert_int_equal(go.tls, -24);
	assert_int_equal(go.tls_in_memory, 0);
	assert_int_equal(go.curg, of.curg);
	assert_false(stackbeat_unwind_go_in_process(&go, &of, WORD(64), read_memory, memory));
	assert_int_equal(go.curg, 0);
	assert_int_equal(go.tls_in_memory, 0);
	assert_true(stackbeat_unwind_go_in_process(&go, &go_offsets, WORD(64), NULL, NULL));
	assert_int_equal(go.tls, -8);
	machine->table.header.size = (uint32_t)stackbeat_unwind_size(&machine->table.header);
	for (unsigned int in_memory = 0; in_memory < 3; in_memory++) {
		for (uint16_t curg = 0; curg < 2; curg++) {
			machine->table.header.go.tls_in_memory = in_memory;
			machine->table.header.go.curg = curg;
			assert_int_equal(stackbeat_unwind_check_head(&machine->table.header,
								     machine->table.header.size),
					 in_memory <= curg);
		}
	}
	free_machine(machine);
}

/* Of the code at a return address, little-endian. */
static void code_that_only_returns_has_a_frame_size(void **state)
{
	(void)state;
	/* add $8, %rsp; ret; and any other code */
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0x9090c308c48348)), 8);
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0xffffffc378c48348)), 0x78);
	/* add $-8, %rsp; add $9, %rsp; add $8, %r12 */
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0xc3f8c48348)), 0);
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0xc309c48348)), 0);
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0xc308c48349)), 0);
	/* pop %rbx before ret */
	assert_int_equal(stackbeat_unwind_epilogue_size(UINT64_C(0xc35b08c48348)), 0);
	assert_int_equal(stackbeat_unwind_epilogue_size(0), 0);
}

/* Where a thread was interrupted, the register may have data; beyond, a caller has set it to 0. */
static void frame_pointer_of_0_ends_the_stack_of_a_caller(void **state)
{
	struct stackbeat_unwind_frame frame = {.known = STACKBEAT_UNWIND_ALL_KNOWN};
	uint64_t memory[64] = {0};

	(void)state;
	assert_int_equal(stackbeat_unwind_step_frame_pointer(&frame, read_memory, memory),
			 STACKBEAT_UNWIND_BAD_FRAME);
	frame.is_return_address = 1;
	assert_int_equal(stackbeat_unwind_step_frame_pointer(&frame, read_memory, memory),
			 STACKBEAT_UNWIND_OUTERMOST);
}

/* The scheduler runs no goroutine, or another thread has it; or nothing is known of the version. */
static void without_a_goroutine_the_scheduler_is_outermost(void **state)
{
	static const struct stackbeat_unwind_go unknown = {.stack_hi = 8};
	static const unsigned int none[] = {0, 11, 22, 31, 32};
	uint64_t memory[64];
	struct stackbeat_unwind_frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		frame = new_goroutine(memory);
		memory[none[i]] = 0;
		assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &go_offsets),
				 STACKBEAT_UNWIND_OUTERMOST);
	}
	frame = new_goroutine(memory);
	memory[31] = WORD(21);
	assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &go_offsets),
			 STACKBEAT_UNWIND_OUTERMOST);
	assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_SWITCH, &go_offsets),
			 STACKBEAT_UNWIND_NO_RULE);
	assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &unknown),
			 STACKBEAT_UNWIND_OUTERMOST);
}

static void forged_goroutines_end_the_walk(void **state)
{
	static const uint64_t addresses[] = {1, WORD(64), UINT64_C(1) << 47, UINT64_C(1) << 63,
					     UINT64_MAX};
	static const unsigned int pointers[] = {0, 11, 22};
	uint64_t memory[64];
	struct stackbeat_unwind_frame frame;
	unsigned int steps = 0;

	(void)state;
	for (size_t i = 0; i < 15; i++) {
		frame = new_goroutine(memory);
		memory[pointers[i / 5]] = addresses[i % 5];
		assert_int_equal(go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &go_offsets),
				 STACKBEAT_UNWIND_UNREADABLE);
	}
	/* A circle: the goroutine is in the scheduler itself. */
	frame = new_goroutine(memory);
	while (go_step(&frame, memory, STACKBEAT_UNWIND_GO_RESUME, &go_offsets) ==
	       STACKBEAT_UNWIND_STEPPED)
		assert_true(++steps <= STACKBEAT_FP_DESCENTS_MAX + 1);
	assert_int_equal(steps, STACKBEAT_FP_DESCENTS_MAX + 1);
}

/* The caller of an injected call is at an instruction: its address is looked up as it is. */
static void an_exact_address_is_no_return_address(void **state)
{
	struct machine *machine = new_machine();

	(void)state;
	set_rule(machine, 0, CFI_RSP, 8, STACKBEAT_UNWIND_RIP_EXACT, 0, 0);
	set_kind(machine, 1, STACKBEAT_UNWIND_NONE);
	set_kind(machine, 2, STACKBEAT_UNWIND_END);
	set_register(machine, STACKBEAT_REGISTER_RIP, AT(0));
	machine->words[0] = AT(2) - 0x40;
	EXPECT(machine, WALK_OUTERMOST, AT(0), AT(2) - 0x40 + 1);
	free_machine(machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_without_frame_pointers),
		cmocka_unit_test(a_return_address_is_looked_up_at_its_call),
		cmocka_unit_test(each_place_of_rbp),
		cmocka_unit_test(rbx_is_followed),
		cmocka_unit_test(the_cfa_in_memory),
		cmocka_unit_test(a_return_address_in_a_register),
		cmocka_unit_test(registers_that_callees_save_are_unknown),
		cmocka_unit_test(registers_that_calls_may_change_are_followed),
		cmocka_unit_test(a_signal_frame_restores_all_registers),
		cmocka_unit_test(code_without_table_is_walked_by_frame_pointers),
		cmocka_unit_test(each_end),
		cmocka_unit_test(a_frame_pointer_may_lead_to_a_lower_stack),
		cmocka_unit_test(a_bad_frame_ends_the_walk),
		cmocka_unit_test(memory_outside_of_the_copy_is_unreadable),
		cmocka_unit_test(a_lost_rbp_matters_where_it_is_used),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(code_that_only_returns_has_a_frame_size),
		cmocka_unit_test(frame_pointer_of_0_ends_the_stack_of_a_caller),
		cmocka_unit_test(a_circle_of_signal_frames_ends),
		cmocka_unit_test(a_call_of_c_leads_back_to_the_goroutine),
		cmocka_unit_test(a_copy_ends_where_go_changes_stacks),
		cmocka_unit_test(a_goroutine_is_resumed),
		cmocka_unit_test(the_place_of_g_is_in_the_memory_of_a_library),
		cmocka_unit_test(the_place_of_g_may_be_unknown),
		cmocka_unit_test(without_a_goroutine_the_scheduler_is_outermost),
		cmocka_unit_test(forged_goroutines_end_the_walk),
		cmocka_unit_test(an_exact_address_is_no_return_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
