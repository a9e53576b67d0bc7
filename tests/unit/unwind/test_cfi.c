// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "unwind/cfi.h"

/* The function of most tests has 0x100 bytes at TEXT, its section is at EH_FRAME. */
#define TEXT 0x1000u
#define SIZE 0x100u
#define EH_FRAME 0x8000u

struct bytes {
	unsigned char data[4096];
	size_t size;
};

struct result {
	char text[8192]; /* a line for each row */
	size_t rows;
	struct cfi_counts counts;
	int err;
	int stop_after; /* rows; 0: never */
};

static void add(struct bytes *bytes, const void *data, size_t size)
{
	assert_true(bytes->size + size <= sizeof(bytes->data));
	memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

static void add_u32(struct bytes *bytes, uint32_t number)
{
	add(bytes, &number, sizeof(number));
}

static void add_u64(struct bytes *bytes, uint64_t number)
{
	add(bytes, &number, sizeof(number));
}

/* Sets the size of the entry that begins at `start`. */
static void end_entry(struct bytes *bytes, size_t start)
{
	uint32_t size = (uint32_t)(bytes->size - start - 4);

	memcpy(bytes->data + start, &size, sizeof(size));
}

/* A CIE as compilers write it: rsp + 8, the return address at CFA - 8. */
static void add_cie_with(struct bytes *bytes, uint32_t id, unsigned char version,
			 const char *augmentation, const void *data, size_t size)
{
	const unsigned char address_size[] = {8, 0};
	size_t start = bytes->size;

	add_u32(bytes, 0);
	add_u32(bytes, id);
	add(bytes, &version, 1);
	add(bytes, augmentation, strlen(augmentation) + 1);
	if (version == 4)
		add(bytes, address_size, 2);
	add(bytes, "\x01\x78\x10", 3); /* code by 1, data by -8, column 16 */
	add(bytes, data, size);
	add(bytes, "\x0c\x07\x08\x90\x01", 5); /* def_cfa rsp 8; offset r16 1 */
	end_entry(bytes, start);
}

static void add_cie(struct bytes *bytes)
{
	add_cie_with(bytes, 0, 1, "zR", "\x01\x1b", 2);
}

/* Adds an FDE of the CIE at offset 0, for `size` bytes at `text`. */
static void add_fde_at(struct bytes *bytes, uint64_t text, uint32_t size, const void *code,
		       size_t code_size)
{
	size_t start = bytes->size;

	add_u32(bytes, 0);
	add_u32(bytes, (uint32_t)(bytes->size));
	add_u32(bytes, (uint32_t)(text - (EH_FRAME + bytes->size)));
	add_u32(bytes, size);
	add(bytes, "", 1); /* augmentation data */
	add(bytes, code, code_size);
	end_entry(bytes, start);
}

static const char *place_text(const struct cfi_value *value)
{
	static char texts[4][64];
	static unsigned int next;
	char *text = texts[next++ % 4];

	switch (value->place) {
	case CFI_SAME:
		return "same";
	case CFI_AT_CFA:
		snprintf(text, sizeof(texts[0]), "c%+" PRId64, value->offset);
		return text;
	case CFI_AT_BASE:
		snprintf(text, sizeof(texts[0]), "[r%u%+" PRId64 "]", value->reg, value->offset);
		return text;
	case CFI_IN_REGISTER:
		snprintf(text, sizeof(texts[0]), "r%u", value->reg);
		return text;
	default:
		return "unknown";
	}
}

/* Appends "0-4 r7+8 rip c-8 rbp same rbx same\n", without what is usual. */
static int take_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct result *result = arg;
	char *at = result->text + strlen(result->text);
	char *stop = result->text + sizeof(result->text);

	at += snprintf(at, (size_t)(stop - at), "%" PRIx64 "-%" PRIx64 " ", start - TEXT,
		       end - TEXT);
	result->rows++;
	if (row->kind != CFI_CALLER) {
		snprintf(at, (size_t)(stop - at), "%s\n",
			 row->kind == CFI_END      ? "end"
			 : row->kind == CFI_SIGNAL ? "signal"
						   : "unsupported");
	} else {
		if (row->is_indirect)
			at += snprintf(at, (size_t)(stop - at), "*(r%u%+" PRId64 ")%+" PRId64,
				       row->base, row->offset, row->addend);
		else
			at += snprintf(at, (size_t)(stop - at), "r%u%+" PRId64, row->base,
				       row->offset);
		if (row->return_address.place != CFI_AT_CFA || row->return_address.offset != -8)
			at += snprintf(at, (size_t)(stop - at), " rip %s",
				       place_text(&row->return_address));
		if (row->rbp.place != CFI_SAME)
			at += snprintf(at, (size_t)(stop - at), " rbp %s", place_text(&row->rbp));
		if (row->rbx.place != CFI_SAME)
			at += snprintf(at, (size_t)(stop - at), " rbx %s", place_text(&row->rbx));
		snprintf(at, (size_t)(stop - at), "\n");
	}
	return result->stop_after && --result->stop_after == 0 ? -ECANCELED : 0;
}

static void read_section(const struct bytes *bytes, bool is_eh_frame, struct result *result)
{
	/* A copy without room behind it, for ASan. */
	unsigned char *data = malloc(bytes->size ? bytes->size : 1);
	const struct cfi_section section = {
		.bytes = data,
		.size = bytes->size,
		.vaddr = is_eh_frame ? EH_FRAME : 0,
		.is_eh_frame = is_eh_frame,
	};

	assert_non_null(data);
	memcpy(data, bytes->data, bytes->size);
	result->err = cfi_read(&section, take_row, result, &result->counts);
	free(data);
}

/* Reads a function with these instructions, and compares its rows. */
static void expect(const void *code, size_t size, const char *rows)
{
	struct result result = {0};
	struct bytes bytes = {0};

	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, SIZE, code, size);
	read_section(&bytes, true, &result);
	assert_string_equal(result.text, rows);
	assert_int_equal(result.err, 0);
	assert_int_equal(result.counts.entries, 1);
	assert_int_equal(result.counts.broken, 0);
}
#define EXPECT(code, rows) expect(code, sizeof(code) - 1, rows)

/* As EXPECT(), of an FDE that is broken behind these rows. */
static void expect_broken(const void *code, size_t size, const char *rows)
{
	struct result result = {0};
	struct bytes bytes = {0};

	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, SIZE, code, size);
	read_section(&bytes, true, &result);
	assert_string_equal(result.text, rows);
	assert_int_equal(result.counts.broken, 1);
}
#define EXPECT_BROKEN(code, rows) expect_broken(code, sizeof(code) - 1, rows)

static void a_function_without_frame(void **state)
{
	(void)state;
	EXPECT("", "0-100 r7+8\n");
	EXPECT("\x00\x00", "0-100 r7+8\n");
}

static void prologue_and_epilogue(void **state)
{
	(void)state;
	/* push rbp; mov rsp,rbp; ...; leave; ret */
	EXPECT("\x41\x0e\x10\x86\x02\x43\x0d\x06\x02\xf0\x0c\x07\x08", "0-1 r7+8\n"
								       "1-4 r7+16 rbp c-16\n"
								       "4-f4 r6+16 rbp c-16\n"
								       "f4-100 r7+8 rbp c-16\n");
}

static void each_advance(void **state)
{
	(void)state;
	EXPECT("\x41\x0e\x10"
	       "\x02\x01\x0e\x18"
	       "\x03\x01\x00\x0e\x20"
	       "\x04\x01\x00\x00\x00\x0e\x28",
	       "0-1 r7+8\n1-2 r7+16\n2-3 r7+24\n3-4 r7+32\n4-100 r7+40\n");
	/* set_loc, pc-relative like all addresses of the CIE, to TEXT + 0x10 */
	EXPECT("\x01\xe8\x8f\xff\xff\x0e\x10", "0-10 r7+8\n10-100 r7+16\n");
	/* Beyond the end. */
	EXPECT("\x03\x00\xf0\x0e\x10\x02\x10\x0e\x18", "0-100 r7+8\n");
	/* Two changes at an address make one row. */
	EXPECT("\x40\x0e\x10\x40\x0e\x18", "0-100 r7+24\n");
}

static void each_definition_of_the_cfa(void **state)
{
	(void)state;
	EXPECT("\x0c\x06\x10", "0-100 r6+16\n");
	EXPECT("\x0d\x06", "0-100 r6+8\n");
	EXPECT("\x0e\x90\x01", "0-100 r7+144\n");
	EXPECT("\x12\x06\x7e", "0-100 r6+16\n"); /* def_cfa_sf: -2 * -8 */
	EXPECT("\x13\x7d", "0-100 r7+24\n"); /* def_cfa_offset_sf */
	EXPECT("\x0c\x0a\x00", "0-100 r10+0\n");
	/* More than 32 KiB: 33,360 is in glibc. */
	EXPECT("\x0e\xd0\x84\x02", "0-100 r7+33360\n");
	EXPECT("\x0e\x80\x80\x80\x01", "0-100 r7+2097152\n");
	/* A vector register has no known value. */
	EXPECT("\x0c\x11\x10", "0-100 unsupported\n");
	EXPECT("\x0d\x86\x02", "0-100 unsupported\n"); /* 262, whose low byte is rbp */
}

static void each_rule_of_a_register(void **state)
{
	(void)state;
	EXPECT("\x86\x02\x83\x03", "0-100 r7+8 rbp c-16 rbx c-24\n");
	EXPECT("\x05\x06\x02", "0-100 r7+8 rbp c-16\n"); /* offset_extended */
	EXPECT("\x11\x06\x7e", "0-100 r7+8 rbp c+16\n"); /* offset_extended_sf */
	EXPECT("\x2f\x06\x02", "0-100 r7+8 rbp c+16\n"); /* GNU_negative_offset_extended */
	EXPECT("\x86\x02\xc6", "0-100 r7+8\n"); /* restore */
	EXPECT("\x86\x02\x06\x06", "0-100 r7+8\n"); /* restore_extended */
	EXPECT("\x07\x06", "0-100 r7+8 rbp unknown\n"); /* undefined */
	EXPECT("\x86\x02\x08\x06", "0-100 r7+8\n"); /* same_value */
	EXPECT("\x09\x06\x0a", "0-100 r7+8 rbp r10\n"); /* register */
	EXPECT("\x09\x10\x05", "0-100 r7+8 rip r5\n"); /* vfork of glibc */
	EXPECT("\x10\x06\x02\x76\x00", "0-100 r7+8 rbp [r6+0]\n"); /* expression: breg6 0 */
	EXPECT("\x10\x06\x02\x77\x78", "0-100 r7+8 rbp [r7-8]\n");
	EXPECT("\x14\x06\x02", "0-100 r7+8 rbp unknown\n"); /* val_offset */
	EXPECT("\x15\x06\x02", "0-100 r7+8 rbp unknown\n"); /* val_offset_sf */
	EXPECT("\x16\x06\x02\x76\x00", "0-100 r7+8 rbp unknown\n"); /* val_expression */
	EXPECT("\x8c\x03\x8d\x04\x8e\x05\x8f\x06", "0-100 r7+8\n"); /* r12 to r15 */
	EXPECT("\x2e\x10\x86\x02", "0-100 r7+8 rbp c-16\n"); /* GNU_args_size */
}

/* glibc's longjmp(): the CFA is the buffer, and rsp, rbp and rip are in registers. */
static void the_rsp_of_longjmp(void **state)
{
	(void)state;
	EXPECT("\x0c\x05\x00\x09\x07\x08\x09\x06\x09\x09\x10\x01\x11\x03\x00",
	       "0-100 r8+0 rip r1 rbp r9 rbx unknown\n");
	/* A return address or rsp in memory, as in setcontext(), has no row. */
	EXPECT("\x0c\x05\x00\x09\x07\x08", "0-100 unsupported\n");
	EXPECT("\x0c\x05\x00\x11\x07\x6c\x09\x10\x01", "0-100 unsupported\n");
	EXPECT("\x09\x07\x11\x09\x10\x01", "0-100 unsupported\n");
	/* rsp is the CFA by default, or because an instruction says so. */
	EXPECT("\x14\x07\x00", "0-100 r7+8\n");
	EXPECT("\x14\x07\x01", "0-100 unsupported\n");
	EXPECT("\x14\x07\x01\x08\x07", "0-100 r7+8\n");
}

/* As in the stubs of locks of glibc 2.18, which jump back to rip plus a constant. */
static void a_computed_return_address_is_no_end(void **state)
{
	(void)state;
	EXPECT("\x16\x10\x02\x80\x03", "0-100 unsupported\n"); /* val_expression: breg16 3 */
	EXPECT("\x14\x10\x02", "0-100 unsupported\n"); /* val_offset */
	EXPECT("\x15\x10\x7e", "0-100 unsupported\n"); /* val_offset_sf */
	EXPECT("\x16\x10\x02\x80\x03\x44\xd0", "0-4 unsupported\n4-100 r7+8\n");
	/* Of another register, it costs that register. */
	EXPECT("\x16\x03\x02\x77\x08", "0-100 r7+8 rbx unknown\n");
}

static void an_undefined_return_address_is_the_end(void **state)
{
	(void)state;
	EXPECT("\x07\x10", "0-100 end\n");
	EXPECT("\x42\x07\x10", "0-2 r7+8\n2-100 end\n");
}

static void a_state_is_remembered_with_its_cfa(void **state)
{
	(void)state;
	EXPECT("\x41\x0e\x10\x86\x02\x44\x0a\x41\x0e\x08\xc6\x41\x0b", "0-1 r7+8\n"
								       "1-5 r7+16 rbp c-16\n"
								       "5-6 r7+16 rbp c-16\n"
								       "6-7 r7+8\n"
								       "7-100 r7+16 rbp c-16\n");
	/* Also a rule that is an expression. */
	EXPECT("\x0f\x02\x76\x58\x0a\x41\x0c\x07\x08\x41\x0b",
	       "0-1 r6-40\n1-2 r7+8\n2-100 r6-40\n");
	EXPECT_BROKEN("\x0b", "");
	EXPECT_BROKEN("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", "");
}

static void expressions_over_memory(void **state)
{
	(void)state;
	/* OpenSSL's assembly: *(rsp + 16) + 8 */
	EXPECT("\x0f\x05\x77\x10\x06\x23\x08", "0-100 *(r7+16)+8\n");
	EXPECT("\x0f\x05\x77\x10\x06\x38\x1c", "0-100 *(r7+16)-8\n");
	/* gcc's realigned frames: *(rbp - 8), with rbp at *rbp */
	EXPECT("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00", "0-100 *(r6-8)+0 rbp [r6+0]\n");
	/* *(rsp + 8 + 8 * r9) + 8 can't be expressed. */
	EXPECT("\x0f\x0a\x79\x00\x38\x1e\x77\x08\x22\x06\x23\x08", "0-100 unsupported\n");
	/* Two levels, and the sum of two registers. */
	EXPECT("\x0f\x04\x77\x10\x06\x06", "0-100 unsupported\n");
	EXPECT("\x0f\x05\x77\x10\x76\x00\x22", "0-100 unsupported\n");
	/* A constant is no frame. */
	EXPECT("\x0f\x01\x38", "0-100 unsupported\n");
}

static void constants_and_operators(void **state)
{
	(void)state;
	/* breg7 0, a constant, plus */
	EXPECT("\x0f\x05\x77\x00\x08\xf8\x22", "0-100 r7+248\n");
	EXPECT("\x0f\x05\x77\x00\x09\xf8\x22", "0-100 r7-8\n");
	EXPECT("\x0f\x06\x77\x00\x0a\x00\x01\x22", "0-100 r7+256\n");
	EXPECT("\x0f\x06\x77\x00\x0b\xf8\xff\x22", "0-100 r7-8\n");
	EXPECT("\x0f\x08\x77\x00\x0c\x00\x00\x01\x00\x22", "0-100 r7+65536\n");
	EXPECT("\x0f\x08\x77\x00\x0d\xf8\xff\xff\xff\x22", "0-100 r7-8\n");
	EXPECT("\x0f\x0c\x77\x00\x0e\x10\x00\x00\x00\x00\x00\x00\x00\x22", "0-100 r7+16\n");
	EXPECT("\x0f\x0c\x77\x00\x0f\x10\x00\x00\x00\x00\x00\x00\x00\x22", "0-100 r7+16\n");
	EXPECT("\x0f\x06\x77\x00\x10\x80\x01\x22", "0-100 r7+128\n");
	EXPECT("\x0f\x05\x77\x00\x11\x78\x22", "0-100 r7-8\n");
	EXPECT("\x0f\x04\x38\x77\x08\x22", "0-100 r7+16\n"); /* the constant first */
	EXPECT("\x0f\x04\x77\x10\x38\x1c", "0-100 r7+8\n"); /* minus */
	EXPECT("\x0f\x04\x77\x10\x38\x13", "0-100 r7+16\n"); /* drop */
	EXPECT("\x0f\x06\x38\x77\x10\x16\x13\x96", "0-100 r7+16\n"); /* swap, drop, nop */
	EXPECT("\x0f\x05\x38\x77\x10\x16\x22", "0-100 r7+24\n");
	EXPECT("\x0f\x06\x77\x00\x34\x12\x22\x22", "0-100 r7+8\n"); /* dup */
	/* 4 op 3 of each operator, added to rsp. */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x1a\x22", "0-100 r7+0\n"); /* and */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x21\x22", "0-100 r7+7\n"); /* or */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x1e\x22", "0-100 r7+12\n"); /* mul */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x24\x22", "0-100 r7+32\n"); /* shl */
	EXPECT("\x0f\x06\x77\x00\x34\x31\x25\x22", "0-100 r7+2\n"); /* shr */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x2a\x22", "0-100 r7+1\n"); /* ge */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x2b\x22", "0-100 r7+1\n"); /* gt */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x2c\x22", "0-100 r7+0\n"); /* le */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x2d\x22", "0-100 r7+0\n"); /* lt */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x29\x22", "0-100 r7+0\n"); /* eq */
	EXPECT("\x0f\x06\x77\x00\x34\x33\x2e\x22", "0-100 r7+1\n"); /* ne */
	/* 4 op 4, and 3 op 4 */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x2a\x22", "0-100 r7+1\n"); /* ge */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x2b\x22", "0-100 r7+0\n"); /* gt */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x2c\x22", "0-100 r7+1\n"); /* le */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x2d\x22", "0-100 r7+0\n"); /* lt */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x29\x22", "0-100 r7+1\n"); /* eq */
	EXPECT("\x0f\x06\x77\x00\x34\x34\x2e\x22", "0-100 r7+0\n"); /* ne */
	EXPECT("\x0f\x06\x77\x00\x33\x34\x2c\x22", "0-100 r7+1\n"); /* le */
	EXPECT("\x0f\x06\x77\x00\x33\x34\x2d\x22", "0-100 r7+1\n"); /* lt */
	EXPECT("\x0f\x07\x77\x00\x34\x08\x40\x24\x22", "0-100 r7+0\n"); /* shl by 64 */
	EXPECT("\x0f\x07\x77\x00\x34\x08\x40\x25\x22", "0-100 r7+0\n");
	/* Unknown operators, too few values, and too many. */
	EXPECT("\x0f\x01\x9c", "0-100 unsupported\n");
	EXPECT("\x0f\x01\x22", "0-100 unsupported\n");
	EXPECT("\x0f\x00", "0-100 unsupported\n");
	EXPECT("\x0f\x11\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30",
	       "0-100 unsupported\n");
	/* The first and the last constant, and the first register: lit0, lit31, breg0. */
	EXPECT("\x0f\x04\x77\x08\x30\x22", "0-100 r7+8\n");
	EXPECT("\x0f\x04\x77\x00\x4f\x22", "0-100 r7+31\n");
	EXPECT("\x0f\x02\x70\x08", "0-100 r0+8\n");
	/* A register that has no number here: breg17. */
	EXPECT("\x0f\x02\x81\x00", "0-100 unsupported\n");
}

/* CFA = rsp + 8 + ((((rip & 15) >= 11) ? 1 : 0) << 3), as GNU ld writes it. */
static void the_plt_is_evaluated_at_each_address(void **state)
{
	static const char plt[] = "\x0e\x10\x46\x0e\x18\x4a"
				  "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, 0x30, plt, sizeof(plt) - 1);
	read_section(&bytes, true, &result);
	assert_string_equal(result.text, "0-6 r7+16\n6-10 r7+24\n"
					 "10-1b r7+8\n1b-20 r7+16\n20-2b r7+8\n2b-30 r7+16\n");
}

/* CFA = rsp + 8 + what depends on rip: on its low bits, or on others. */
static void expressions_of_rip(void **state)
{
	static const struct {
		const char *code;
		size_t size;
		const char *rows;
	} cases[] = {
		/* (rip + 5) & 8; 8 & rip; rip & 0x88 */
		{"\x0f\x07\x77\x08\x80\x05\x38\x1a\x22", 9,
		 "0-3 r7+8\n3-b r7+16\nb-13 r7+8\n13-1b r7+16\n1b-20 r7+8\n"},
		{"\x0f\x07\x77\x08\x38\x80\x00\x1a\x22", 9,
		 "0-8 r7+8\n8-10 r7+16\n10-18 r7+8\n18-20 r7+16\n"},
		{"\x0f\x09\x77\x08\x80\x00\x0a\x88\x00\x1a\x22", 11,
		 "0-8 r7+8\n8-10 r7+16\n10-18 r7+8\n18-20 r7+16\n"},
		/* ((rip >> 4) & 1) << 3; (rip - rip) + (rip & 8) */
		{"\x0f\x0b\x77\x08\x80\x00\x34\x25\x31\x1a\x33\x24\x22", 13,
		 "0-10 r7+8\n10-20 r7+16\n"},
		{"\x0f\x0d\x77\x08\x80\x00\x80\x00\x1c\x22\x80\x00\x38\x1a\x22", 15,
		 "0-8 r7+8\n8-10 r7+16\n10-18 r7+8\n18-20 r7+16\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct result result = {0};
		struct bytes bytes = {0};

		add_cie(&bytes);
		add_fde_at(&bytes, TEXT, 0x20, cases[i].code, cases[i].size);
		read_section(&bytes, true, &result);
		assert_string_equal(result.text, cases[i].rows);
	}
}

static int count_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	size_t *rows = arg;

	(void)row;
	assert_in_range(end - start, 5, 11);
	++*rows;
	return 0;
}

/* libcrypto's has 48,000 bytes. */
static void steps_for_the_plt(void **state)
{
	static const char plt[] = "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";
	enum { PLT_SIZE = 48000, STEPS_EACH = 20 };
	struct bytes bytes = {0};
	struct cfi_counts counts;
	size_t rows = 0;
	uint64_t before;

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, PLT_SIZE, plt, sizeof(plt) - 1);
	before = steps;
	assert_int_equal(cfi_read(&(struct cfi_section){.bytes = bytes.data,
							.size = bytes.size,
							.vaddr = EH_FRAME,
							.is_eh_frame = true},
				  count_row, &rows, &counts),
			 0);
	printf("# steps for each byte of a PLT: %.1f\n", (double)(steps - before) / PLT_SIZE);
	assert_int_equal(rows, 2 * PLT_SIZE / 16);
	assert_in_range(steps - before, PLT_SIZE, PLT_SIZE * STEPS_EACH);
}

static void a_huge_plt_is_unsupported(void **state)
{
	static const char plt[] = "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, 2u << 20, plt, sizeof(plt) - 1);
	read_section(&bytes, true, &result);
	assert_string_equal(result.text, "0-200000 unsupported\n");
	assert_int_equal(result.counts.unsupported, 1);
}

static void each_augmentation(void **state)
{
	static const struct {
		const char *text, *data;
		size_t size;
		const char *rows;
	} cases[] = {
		{"zR", "\x01\x1b", 2, "0-100 r7+8\n"},
		{"zRS", "\x01\x1b", 2, "0-100 signal\n"},
		{"zPLR", "\x07\x9b\x00\x00\x00\x00\x1b\x1b", 8, "0-100 r7+8\n"},
		{"zPLR", "\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x1b\x1b", 12, "0-100 r7+8\n"},
		{"zPR", "\x03\x01\x05\x1b", 4, "0-100 r7+8\n"}, /* uleb128 */
		{"zPR", "\x04\x02\x05\x00\x1b", 5, "0-100 r7+8\n"}, /* udata2 */
		{"zRB", "\x01\x1b", 2, "0-100 r7+8\n"}, /* aarch64's, unknown here */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct result result = {0};
		struct bytes bytes = {0};

		add_cie_with(&bytes, 0, 1, cases[i].text, cases[i].data, cases[i].size);
		add_fde_at(&bytes, TEXT, SIZE, "", 0);
		read_section(&bytes, true, &result);
		assert_string_equal(result.text, cases[i].rows);
		assert_int_equal(result.counts.broken, 0);
	}
}

static void an_unknown_augmentation_is_broken(void **state)
{
	static const char *const texts[] = {"eh", "R", "zP"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct result result = {0};
		struct bytes bytes = {0};

		add_cie_with(&bytes, 0, 1, texts[i], "\x01\x50", 2);
		add_fde_at(&bytes, TEXT, SIZE, "", 0);
		read_section(&bytes, true, &result);
		assert_string_equal(result.text, "");
		assert_int_equal(result.counts.broken, 1);
	}
}

/* An FDE whose addresses have the encoding of the CIE. */
static void each_encoding(void **state)
{
	static const struct {
		unsigned char encoding, size;
		uint64_t address, length;
	} cases[] = {
		{DW_EH_PE_absptr, 8, TEXT, SIZE},
		{DW_EH_PE_udata2, 2, TEXT, SIZE},
		{DW_EH_PE_udata4, 4, TEXT, SIZE},
		{DW_EH_PE_udata8, 8, TEXT, SIZE},
		{DW_EH_PE_sdata2, 2, TEXT, SIZE},
		{DW_EH_PE_sdata4, 4, TEXT, SIZE},
		{DW_EH_PE_sdata8, 8, TEXT, SIZE},
		{DW_EH_PE_uleb128, 2, 0x2080, 0x0280}, /* 0x1000, 0x100 */
		{DW_EH_PE_sleb128, 2, 0x2080, 0x0280},
		/* The address is 8 bytes into the FDE, behind a CIE of 24 bytes. */
		{DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, (uint64_t)TEXT - EH_FRAME - 32, SIZE},
		{DW_EH_PE_pcrel | DW_EH_PE_sdata8, 8, (uint64_t)TEXT - EH_FRAME - 32, SIZE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const unsigned char data[] = {1, cases[i].encoding};
		struct result result = {0};
		struct bytes bytes = {0};
		size_t start;

		add_cie_with(&bytes, 0, 1, "zR", data, 2);
		while (bytes.size < 24)
			add(&bytes, "", 1);
		end_entry(&bytes, 0);
		start = bytes.size;
		add_u32(&bytes, 0);
		add_u32(&bytes, (uint32_t)bytes.size);
		add(&bytes, &cases[i].address, cases[i].size);
		add(&bytes, &cases[i].length, cases[i].size);
		add(&bytes, "", 1);
		end_entry(&bytes, start);
		read_section(&bytes, true, &result);
		assert_string_equal(result.text, "0-100 r7+8\n");
	}
}

static void encodings_of_the_dynamic_linker_are_broken(void **state)
{
	static const unsigned char encodings[] = {DW_EH_PE_textrel, DW_EH_PE_datarel,
						  DW_EH_PE_funcrel, DW_EH_PE_aligned, 0x0d};

	(void)state;
	for (size_t i = 0; i < sizeof(encodings); i++) {
		const unsigned char data[] = {1, encodings[i]};
		struct result result = {0};
		struct bytes bytes = {0};

		add_cie_with(&bytes, 0, 1, "zR", data, 2);
		add_fde_at(&bytes, TEXT, SIZE, "", 0);
		read_section(&bytes, true, &result);
		assert_string_equal(result.text, "");
		assert_int_equal(result.counts.broken, 1);
	}
}

static void each_version_of_debug_frame(void **state)
{
	static const unsigned char versions[] = {1, 3, 4};

	(void)state;
	for (size_t i = 0; i < sizeof(versions); i++) {
		struct result result = {0};
		struct bytes bytes = {0};
		size_t start;

		add_cie_with(&bytes, UINT32_MAX, versions[i], "", "", 0);
		start = bytes.size;
		add_u32(&bytes, 0);
		add_u32(&bytes, 0); /* offset of the CIE */
		add_u64(&bytes, TEXT);
		add_u64(&bytes, SIZE);
		add(&bytes, "\x41\x0e\x10", 3);
		end_entry(&bytes, start);
		read_section(&bytes, false, &result);
		assert_string_equal(result.text, "0-1 r7+8\n1-100 r7+16\n");
		assert_int_equal(result.counts.broken, 0);
	}
}

static void an_unknown_version_is_broken(void **state)
{
	static const unsigned char versions[] = {0, 2, 5};

	(void)state;
	for (size_t i = 0; i < sizeof(versions); i++) {
		struct result result = {0};
		struct bytes bytes = {0};

		add_cie_with(&bytes, 0, versions[i], "zR", "\x01\x1b", 2);
		add_fde_at(&bytes, TEXT, SIZE, "", 0);
		read_section(&bytes, true, &result);
		assert_int_equal(result.rows, 0);
		assert_int_equal(result.counts.broken, 1);
	}
}

static void debug_frame_of_64_bit_dwarf(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_u32(&bytes, UINT32_MAX);
	add_u64(&bytes, 19);
	add_u64(&bytes, UINT64_MAX);
	add(&bytes, "\x03\x00\x01\x78\x10\x0c\x07\x08\x90\x01\x00", 11);
	add_u32(&bytes, UINT32_MAX);
	add_u64(&bytes, 24);
	add_u64(&bytes, 0);
	add_u64(&bytes, TEXT);
	add_u64(&bytes, SIZE);
	read_section(&bytes, false, &result);
	assert_string_equal(result.text, "0-100 r7+8\n");
}

static void several_functions(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT + 0x100, 0x10, "\x41\x0e\x10", 3);
	add_fde_at(&bytes, TEXT, 0x10, "", 0);
	/* A terminator, as of a linked part. */
	add_u32(&bytes, 0);
	add_fde_at(&bytes, TEXT + 0x200, 0x10, "", 0);
	read_section(&bytes, true, &result);
	assert_string_equal(result.text, "100-101 r7+8\n101-110 r7+16\n0-10 r7+8\n200-210 r7+8\n");
	assert_int_equal(result.counts.entries, 3);
	/* The first error of the callback ends it. */
	result = (struct result){.stop_after = 2};
	read_section(&bytes, true, &result);
	assert_int_equal(result.rows, 2);
	assert_int_equal(result.err, -ECANCELED);
	assert_int_equal(result.counts.broken, 0);
}

static void a_terminator_ends_a_terminated_section(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};
	struct cfi_section section = {
		.vaddr = EH_FRAME,
		.is_eh_frame = true,
		.is_terminated = true,
	};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, SIZE, "", 0);
	add_u32(&bytes, 0);
	add(&bytes, "\x10\x00\x00\x00garbage", 11);
	section.bytes = bytes.data;
	section.size = bytes.size;
	assert_int_equal(cfi_read(&section, take_row, &result, &result.counts), 0);
	assert_string_equal(result.text, "0-100 r7+8\n");
}

static void discarded_functions_are_skipped(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, 0, SIZE, "", 0);
	add_fde_at(&bytes, TEXT, 0, "", 0);
	read_section(&bytes, true, &result);
	assert_int_equal(result.rows, 0);
	assert_int_equal(result.counts.broken, 0);
}

static void broken_instructions(void **state)
{
	(void)state;
	EXPECT_BROKEN("\x3f", ""); /* unknown */
	EXPECT_BROKEN("\x41\x0e\x10\x41\x26", "0-1 r7+8\n1-2 r7+16\n");
	EXPECT_BROKEN("\x0e", ""); /* without its operand */
	EXPECT_BROKEN("\x03\x01", "");
	EXPECT_BROKEN("\x0f\x10\x77\x08", ""); /* a block behind the end */
	EXPECT_BROKEN("\x01\x00\x80\xff\xff", ""); /* set_loc backwards */
}

static void broken_sections(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	add_cie(&bytes);
	add_fde_at(&bytes, TEXT, SIZE, "", 0);
	add_u32(&bytes, 100); /* an entry behind the end */
	read_section(&bytes, true, &result);
	assert_int_equal(result.err, -EBADMSG);
	assert_string_equal(result.text, "0-100 r7+8\n");
	/* Every prefix of it. */
	for (size_t size = bytes.size; size-- > 0;) {
		bytes.size = size;
		result = (struct result){0};
		read_section(&bytes, true, &result);
		assert_true(result.rows <= 1);
	}
}

static void an_fde_without_cie_is_broken(void **state)
{
	static const uint32_t ids[] = {4, 0x7fffffff, 0xffffffff, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct result result = {0};
		struct bytes bytes = {0};

		add_u32(&bytes, 12);
		add_u32(&bytes, ids[i]);
		add_u64(&bytes, TEXT);
		read_section(&bytes, true, &result);
		assert_int_equal(result.rows, 0);
		assert_int_equal(result.counts.broken, 1);
	}
}

static void an_empty_section_has_no_rows(void **state)
{
	struct result result = {0};
	struct bytes bytes = {0};

	(void)state;
	read_section(&bytes, true, &result);
	assert_int_equal(result.err, 0);
	assert_int_equal(result.rows, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_without_frame),
		cmocka_unit_test(prologue_and_epilogue),
		cmocka_unit_test(each_advance),
		cmocka_unit_test(each_definition_of_the_cfa),
		cmocka_unit_test(each_rule_of_a_register),
		cmocka_unit_test(the_rsp_of_longjmp),
		cmocka_unit_test(a_computed_return_address_is_no_end),
		cmocka_unit_test(an_undefined_return_address_is_the_end),
		cmocka_unit_test(a_state_is_remembered_with_its_cfa),
		cmocka_unit_test(expressions_over_memory),
		cmocka_unit_test(constants_and_operators),
		cmocka_unit_test(the_plt_is_evaluated_at_each_address),
		cmocka_unit_test(expressions_of_rip),
		cmocka_unit_test(steps_for_the_plt),
		cmocka_unit_test(a_huge_plt_is_unsupported),
		cmocka_unit_test(each_augmentation),
		cmocka_unit_test(an_unknown_augmentation_is_broken),
		cmocka_unit_test(each_encoding),
		cmocka_unit_test(encodings_of_the_dynamic_linker_are_broken),
		cmocka_unit_test(each_version_of_debug_frame),
		cmocka_unit_test(an_unknown_version_is_broken),
		cmocka_unit_test(debug_frame_of_64_bit_dwarf),
		cmocka_unit_test(several_functions),
		cmocka_unit_test(a_terminator_ends_a_terminated_section),
		cmocka_unit_test(discarded_functions_are_skipped),
		cmocka_unit_test(broken_instructions),
		cmocka_unit_test(broken_sections),
		cmocka_unit_test(an_fde_without_cie_is_broken),
		cmocka_unit_test(an_empty_section_has_no_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
