// SPDX-License-Identifier: GPL-2.0
#include "unwind/go_frames.h"

#include <string.h>

#include "runtime/go_pclntab.h"
#include "unit.h"
#include "unwind/cfi.h"

#include "go_code.h"

#define START UINT64_C(0x401000)
#define SIZE_MAX_PARTS 8u

/* A function of the test, in place of a pclntab. */
struct go_pclntab {
	struct go_function function;
	const unsigned char *code;
	/* The frame has this size from this offset on, until the next. */
	struct {
		uint32_t offset;
		int32_t size;
	} parts[SIZE_MAX_PARTS];
	size_t part_count;
	/* The rows, by offset. */
	struct cfi_row rows[1024];
	bool has_row[1024];
};

int go_pclntab_each_function(const struct go_pclntab *pclntab,
			     int (*fn)(void *arg, const struct go_function *function), void *arg)
{
	return fn(arg, &pclntab->function);
}

int go_pclntab_each_stack_size(const struct go_pclntab *pclntab, const struct go_function *function,
			       int (*fn)(void *arg, uint64_t start, uint64_t end, int32_t size),
			       void *arg)
{
	int err = 0;

	for (size_t i = 0; i < pclntab->part_count && !err; i++) {
		uint64_t end = i + 1 < pclntab->part_count ? START + pclntab->parts[i + 1].offset
							   : function->end;

		err = fn(arg, START + pclntab->parts[i].offset, end, pclntab->parts[i].size);
	}
	return err;
}

static const unsigned char *code_at(void *arg, uint64_t address, size_t *size)
{
	struct go_pclntab *pclntab = arg;

	if (address < START || address >= pclntab->function.end)
		return NULL;
	*size = pclntab->function.end - address;
	return pclntab->code + (address - START);
}

static int add_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct go_pclntab *pclntab = arg;

	assert_true(start < end && start >= START && end <= pclntab->function.end);
	for (uint64_t at = start - START; at < end - START; at++) {
		assert_false(pclntab->has_row[at]);
		pclntab->rows[at] = *row;
		pclntab->has_row[at] = true;
	}
	return 0;
}

/* Reads a function that sets rsp, with a frame of `frame` bytes from `offset` on (0: none). */
static struct go_runtime read_rows(struct go_pclntab *pclntab, const char *name,
				   const unsigned char *code, size_t size, uint32_t offset,
				   int32_t frame)
{
	struct go_frames frames = {code_at, add_row, pclntab};
	struct go_runtime runtime;

	memset(pclntab, 0, sizeof(*pclntab));
	pclntab->function = (struct go_function){
		.name = name, .start = START, .end = START + size, .changes_stack = true};
	pclntab->code = code;
	pclntab->part_count = 1;
	if (offset) {
		pclntab->parts[1].offset = offset;
		pclntab->parts[1].size = frame;
		pclntab->part_count = 2;
	}
	assert_int_equal(go_frames_read(pclntab, &frames, &runtime), 1);
	for (size_t i = 0; i < size; i++)
		assert_true(pclntab->has_row[i]);
	return runtime;
}
#define READ(pclntab, name, code, offset, frame)                                                   \
	read_rows(pclntab, name, code, sizeof(code), offset, frame)

/* Compares the kinds of all rows: each offset from `from` on, up to the next, has `kind`. */
struct expected {
	uint32_t from;
	enum cfi_kind kind;
};

static void expect(const struct go_pclntab *pclntab, const struct expected *expected, size_t count)
{
	size_t size = pclntab->function.end - START, next = 0;
	enum cfi_kind kind = CFI_CALLER;

	for (size_t i = 0; i < size; i++) {
		if (next < count && expected[next].from == i)
			kind = expected[next++].kind;
		if (pclntab->rows[i].kind != kind)
			fail_msg("offset %zx: kind %d instead of %d", i, pclntab->rows[i].kind,
				 kind);
	}
	assert_int_equal(next, count);
}
#define EXPECT(pclntab, ...)                                                                       \
	expect(pclntab, (const struct expected[]){__VA_ARGS__},                                    \
	       sizeof((struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static struct go_pclntab pclntab;

static void systemstack_without_a_frame(void **state)
{
	struct go_runtime runtime;

	(void)state;
	runtime = READ(&pclntab, "runtime.systemstack.abi0", systemstack_1_19, 0, 0);
	EXPECT(&pclntab, {0x41, CFI_GO_SWITCH}, {0x6a, CFI_CALLER});
	assert_int_equal(pclntab.rows[0x41].offset, 8);
	assert_int_equal(pclntab.rows[0x41].addend, 0);
	assert_int_equal(runtime.curg, 192);
}

static void systemstack_with_a_frame(void **state)
{
	struct go_runtime runtime;

	(void)state;
	runtime = READ(&pclntab, "runtime.systemstack", systemstack_1_26, 1, 8);
	EXPECT(&pclntab, {0, CFI_CALLER});
	assert_int_equal(pclntab.rows[0].base, CFI_RSP);
	/* The frame pointer belongs to the goroutine. */
	assert_int_equal(pclntab.rows[0x4a].base, CFI_RBP);
	assert_int_equal(runtime.curg, 184);
}

static void expect_call(size_t from, size_t to, int64_t cfa, int64_t addend)
{
	for (size_t i = from; i < to; i++) {
		assert_int_equal(pclntab.rows[i].kind, CFI_GO_CALL);
		assert_int_equal(pclntab.rows[i].offset, cfa);
		assert_int_equal(pclntab.rows[i].addend, addend);
	}
}

static void calls_of_c(void **state)
{
	(void)state;
	READ(&pclntab, "runtime.asmcgocall.abi0", asmcgocall_1_19, 0, 0);
	EXPECT(&pclntab, {0x43, CFI_GO_SWITCH}, {0x5c, CFI_GO_CALL}, {0x7e, CFI_CALLER},
	       {0x86, CFI_UNSUPPORTED}, {0x99, CFI_GO_CALL}, {0xa9, CFI_CALLER});
	expect_call(0x5c, 0x7e, 8, 40);
	expect_call(0x99, 0xa9, 8, 40);
	/* A frame without a frame pointer. */
	READ(&pclntab, "runtime.asmcgocall.abi0", asmcgocall_1_19, 1, 8);
	expect_call(0x5c, 0x7e, 16, 40);
	assert_int_not_equal(pclntab.rows[0x5c].rbp.place, CFI_AT_CFA);
	READ(&pclntab, "runtime.asmcgocall.abi0", asmcgocall_1_26, 1, 8);
	EXPECT(&pclntab, {0x5f, CFI_GO_CALL}, {0x7d, CFI_CALLER}, {0xa5, CFI_GO_CALL},
	       {0xb1, CFI_CALLER});
	expect_call(0x5f, 0x7d, 16, 0);
	assert_int_equal(pclntab.rows[0x5f].rbp.place, CFI_AT_CFA);
	assert_int_equal(pclntab.rows[0x5f].rbp.offset, -16);
}

static void the_scheduler(void **state)
{
	struct go_runtime runtime;

	(void)state;
	READ(&pclntab, "runtime.mcall", mcall_1_19, 0, 0);
	EXPECT(&pclntab, {0x3c, CFI_GO_RESUME});
	READ(&pclntab, "runtime.mcall", mcall_1_26, 1, 8);
	EXPECT(&pclntab, {0x47, CFI_GO_RESUME});
	runtime = READ(&pclntab, "runtime.morestack.abi0", morestack_1_26, 0, 0);
	EXPECT(&pclntab, {0x71, CFI_GO_RESUME});
	assert_true(runtime.has_tls);
	assert_int_equal(runtime.tls, -8);
	assert_int_equal(runtime.m, 48);
	assert_int_equal(runtime.sched_bp, 96);
	runtime = READ(&pclntab, "runtime.morestack.abi0", morestack_pie_1_19, 0, 0);
	assert_true(runtime.has_tls);
	assert_int_equal(runtime.tls, -8);
	assert_int_equal(runtime.sched_bp, 104);
	READ(&pclntab, "gogo", gogo_1_26, 0, 0);
	EXPECT(&pclntab, {0xf, CFI_END});
	READ(&pclntab, "runtime.clone.abi0", clone_1_26, 0, 0);
	EXPECT(&pclntab, {0x5d, CFI_END});
}

/* ld.so writes the offset: mov disp(%rip),%rcx instead of mov $disp,%rcx. */
static void a_library_has_the_place_of_g_in_memory(void **state)
{
	static const unsigned char load[] = {0x48, 0x8b, 0x0d, 0x71, 0x4c, 0x12, 0x00};
	unsigned char code[sizeof(morestack_pie_1_19)];
	struct go_runtime runtime;

	(void)state;
	runtime = READ(&pclntab, "runtime.morestack", morestack_pie_1_19, 0, 0);
	assert_false(runtime.tls_in_memory);
	memcpy(code, morestack_pie_1_19, sizeof(code));
	memcpy(code, load, sizeof(load));
	runtime = READ(&pclntab, "runtime.morestack", code, 0, 0);
	assert_true(runtime.has_tls);
	assert_true(runtime.tls_in_memory);
	assert_int_equal(runtime.tls, START + 7 + 0x124c71);
	code[2] = 0x15; /* %rdx */
	assert_false(READ(&pclntab, "runtime.morestack", code, 0, 0).has_tls);
	runtime = READ(&pclntab, "runtime.morestack.abi0", morestack_1_26, 0, 0);
	assert_false(runtime.tls_in_memory);
}

/* Where the first instruction does not load g, its place is unknown. */
static void place_of_g_is_that_of_the_first_load(void **state)
{
	static const struct {
		const unsigned char *code;
		size_t at;
		unsigned char value;
	} changes[] = {
		{morestack_1_26, 0, 0x65},     {morestack_1_26, 1, 0x49},
		{morestack_1_26, 2, 0x89},     {morestack_1_26, 3, 0x3d},
		{morestack_1_26, 4, 0x24},     {morestack_pie_1_19, 0, 0x49},
		{morestack_pie_1_19, 1, 0xc6}, {morestack_pie_1_19, 2, 0xc0},
		{morestack_pie_1_19, 7, 0x65}, {morestack_pie_1_19, 8, 0x49},
		{morestack_pie_1_19, 9, 0x89}, {morestack_pie_1_19, 10, 0x18},
	};
	unsigned char code[64];

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		memcpy(code, changes[i].code, sizeof(code));
		assert_true(READ(&pclntab, "runtime.morestack", code, 0, 0).has_tls);
		code[changes[i].at] = changes[i].value;
		if (READ(&pclntab, "runtime.morestack", code, 0, 0).has_tls)
			fail_msg("change %zu", i);
	}
}

/* Of the first moves with an offset of one byte that is not negative. */
static void offsets_are_small(void **state)
{
	static const unsigned char code[32] = {
		0x48, 0x8b, 0x58, 0x80, /* mov -0x80(%rax),%rbx */
		0x48, 0x89, 0x68, 0x80, /* mov %rbp,-0x80(%rax) */
		0x48, 0x8b, 0x58, 0x7f, 0x48, 0x89, 0x68, 0x7f, /* 0x7f(%rax) */
		0x48, 0x8b, 0x58, 0x10, 0x48, 0x89, 0x68, 0x10, 0x90, 0xc3,
	};
	struct go_runtime runtime = READ(&pclntab, "runtime.morestack", code, 0, 0);

	(void)state;
	assert_int_equal(runtime.m, 0x7f);
	assert_int_equal(runtime.sched_bp, 0x7f);
}

/* The first and the last instruction of a function, and the shortest code with a load of g. */
static void all_bytes_of_the_code_are_searched(void **state)
{
	static const unsigned char code[] = {0x48, 0x8b, 0x58, 0x30, 0x48, 0x89, 0x68, 0x68};
	static const unsigned char load[16] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff,
					       0xff, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
	struct go_runtime runtime = READ(&pclntab, "runtime.morestack", code, 0, 0);

	(void)state;
	assert_int_equal(runtime.m, 0x30);
	assert_int_equal(runtime.sched_bp, 0x68);
	runtime = READ(&pclntab, "runtime.morestack", load, 0, 0);
	assert_true(runtime.has_tls);
	assert_int_equal(runtime.tls, -8);
	runtime = read_rows(&pclntab, "runtime.morestack", load, 15, 0, 0);
	assert_false(runtime.has_tls);
}

/* With a SIB byte, the address is the sum of two registers, whatever the byte is. */
static void loads_by_two_registers_are_others(void **state)
{
	static const unsigned char code[] = {0x90, 0x90, 0x48, 0x8b,
					     0x64, 0x38, 0x10, /* mov 0x10(%rax,%rdi),%rsp */
					     0x49, 0x8b, 0x66, 0x38, /* mov 0x38(%r14),%rsp */
					     0x90, 0xc3};

	(void)state;
	READ(&pclntab, "runtime.mcall", code, 0, 0);
	EXPECT(&pclntab, {0xb, CFI_GO_RESUME});
}

static void injected_calls(void **state)
{
	static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0xc3};

	(void)state;
	READ(&pclntab, "runtime.asyncPreempt.abi0", code, 1, 8);
	for (size_t i = 0; i < sizeof(code); i++)
		assert_true(pclntab.rows[i].is_exact);
	READ(&pclntab, "runtime.asyncPreempt2", code, 1, 8);
	assert_false(pclntab.rows[0].is_exact);
}

/* Names with other code: each row is of a known kind, and nothing is read outside. */
static void unexpected_code_has_unknown_callers(void **state)
{
	static const char *const names[] = {"runtime.systemstack", "runtime.mcall",
					    "runtime.morestack",   "gogo",
					    "runtime.asmcgocall",  "runtime.clone"};
	static const unsigned char code[] = {0x90, 0x90, 0xc3};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		READ(&pclntab, names[i], code, 0, 0);
		EXPECT(&pclntab, {0, CFI_UNSUPPORTED});
	}
	/* A function that is cut at any byte. */
	for (size_t size = 1; size < sizeof(asmcgocall_1_19); size++)
		read_rows(&pclntab, "runtime.asmcgocall", asmcgocall_1_19, size, 0, 0);
	for (size_t size = 1; size < sizeof(morestack_1_26); size++)
		read_rows(&pclntab, "runtime.morestack", morestack_1_26, size, 0, 0);
	for (size_t size = 1; size < sizeof(systemstack_1_26); size++)
		read_rows(&pclntab, "runtime.systemstack", systemstack_1_26, size, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(systemstack_without_a_frame),
		cmocka_unit_test(systemstack_with_a_frame),
		cmocka_unit_test(calls_of_c),
		cmocka_unit_test(the_scheduler),
		cmocka_unit_test(a_library_has_the_place_of_g_in_memory),
		cmocka_unit_test(place_of_g_is_that_of_the_first_load),
		cmocka_unit_test(offsets_are_small),
		cmocka_unit_test(all_bytes_of_the_code_are_searched),
		cmocka_unit_test(loads_by_two_registers_are_others),
		cmocka_unit_test(injected_calls),
		cmocka_unit_test(unexpected_code_has_unknown_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
