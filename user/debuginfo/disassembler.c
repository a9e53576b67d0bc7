// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/disassembler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "lib/error.h"
#include "lib/optional_library.h"

/* Of capstone.h, whose package the build would need otherwise. Versions 4 and 5 have them. */
#define CAPSTONE_ARCH_X86 3
#define CAPSTONE_MODE_64 8
#define CAPSTONE_OPTION_SYNTAX 1
#define CAPSTONE_SYNTAX_INTEL 1
#define CAPSTONE_SYNTAX_ATT 2
#define CAPSTONE_MNEMONIC_SIZE 32
#define CAPSTONE_OPERANDS_SIZE 160

/* The instruction of the library begins so, and goes on with its bytes: 16, 24 since version 5. */
struct capstone_head {
	unsigned int id;
	uint64_t address;
	uint16_t size;
};

#define CAPSTONE_BYTES_AT (offsetof(struct capstone_head, size) + sizeof(uint16_t))
#define CAPSTONE_BYTES_4 16u
#define CAPSTONE_BYTES_5 24u

/* In the order of the names. */
static struct {
	unsigned int (*version)(int *major, int *minor);
	int (*open)(int arch, int mode, size_t *handle);
	int (*close)(size_t *handle);
	int (*option)(size_t handle, int type, size_t value);
	void *(*allocate)(size_t handle);
	void (*release)(void *instruction, size_t count);
	bool (*next)(size_t handle, const uint8_t **code, size_t *size, uint64_t *address,
		     void *instruction);
} capstone;

/* Where the text of an instruction begins: behind its bytes. */
static size_t capstone_text_at(void)
{
	int major = 0;

	capstone.version(&major, NULL);
	return CAPSTONE_BYTES_AT + (major < 5 ? CAPSTONE_BYTES_4 : CAPSTONE_BYTES_5);
}

int disassembler_load(struct error *error)
{
	static const char *const names[] = {"cs_version", "cs_open", "cs_close",      "cs_option",
					    "cs_malloc",  "cs_free", "cs_disasm_iter"};
	static const struct optional_library library = {
		.files = {"libcapstone.so.5", "libcapstone.so.4"},
		.names = names,
		.count = sizeof(names) / sizeof(names[0]),
		.missing = "there is no libcapstone, which disassembles: install it (in Debian: "
			   "package libcapstone4 or libcapstone5)",
		.too_old = "libcapstone is too old for stackbeat",
	};

	return optional_library_load(&library, &capstone, error) ? 0 : -EOPNOTSUPP;
}

/* Instructions that the library does not know */

#define VEX_2 0xc5
#define VEX_3 0xc4
#define EVEX 0x62
#define MAP_0F 1u
#define MAP_0F3A 3u
#define VZEROUPPER 0x77

/* Whether an instruction of a map ends with a byte of data. */
static bool has_immediate(unsigned int map, uint8_t opcode)
{
	return map == MAP_0F3A ||
	       (map == MAP_0F && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
				  (opcode >= 0xc4 && opcode <= 0xc6)));
}

/* The bytes of ModRM, SIB and displacement; see Intel's manual, volume 2, section 2.1.5. */
static size_t operand_length(const uint8_t *modrm, size_t size)
{
	const unsigned int mod = modrm[0] >> 6, rm = modrm[0] & 7;
	size_t length = 1;
	bool is_wide = mod == 2 || (mod == 0 && rm == 5);

	if (mod == 3)
		return length;
	if (rm == 4) {
		length++;
		is_wide |= mod == 0 && size > 1 && (modrm[1] & 7) == 5;
	}
	return length + (is_wide ? 4 : mod == 1);
}

/* Returns the length of an instruction that is VEX or EVEX coded, or 0f 01; else, or if it is
 * incomplete, 1. */
static size_t unknown_length(const uint8_t *code, size_t size)
{
	size_t prefix = code[0] == VEX_2 ? 2 : code[0] == VEX_3 ? 3 : 4, length;
	unsigned int map = MAP_0F;

	/* Of the operating system: "rdpkru" and others. */
	if (size >= 3 && code[0] == 0x0f && code[1] == 0x01 && code[2] >= 0xc0)
		return 3;
	if ((code[0] != VEX_2 && code[0] != VEX_3 && code[0] != EVEX) || size < prefix + 2)
		return 1;
	if (code[0] == VEX_3)
		map = code[1] & 0x1f;
	else if (code[0] == EVEX)
		map = code[1] & 7;
	if (map == MAP_0F && code[prefix] == VZEROUPPER && code[0] != EVEX)
		return prefix + 1;
	length = prefix + 1 + operand_length(code + prefix + 1, size - prefix - 1) +
		 has_immediate(map, code[prefix]);
	return length <= MIN(size, INSTRUCTION_BYTES_MAX) ? length : 1;
}

static void print_bytes(struct instruction *instruction)
{
	size_t used = (size_t)sprintf(instruction->text, ".byte");

	for (size_t i = 0; i < instruction->size; i++)
		used += (size_t)snprintf(instruction->text + used, sizeof(instruction->text) - used,
					 "%s 0x%02x", i ? "," : "", instruction->bytes[i]);
}

/* Returns the bytes of the instruction that `next` has filled in, with its text. */
static size_t take_text(const char *next, size_t text_at, struct instruction *instruction)
{
	struct capstone_head head;

	memcpy(&head, next, CAPSTONE_BYTES_AT);
	/* Pads the mnemonic as objdump does. */
	snprintf(instruction->text, sizeof(instruction->text), "%-6.*s %.*s",
		 CAPSTONE_MNEMONIC_SIZE, next + text_at, CAPSTONE_OPERANDS_SIZE - 1,
		 next + text_at + CAPSTONE_MNEMONIC_SIZE);
	for (size_t end = strlen(instruction->text); end && instruction->text[end - 1] == ' ';)
		instruction->text[--end] = '\0';
	return head.size;
}

int disassemble(const uint8_t *code, size_t size, uint64_t address, enum disassembler_syntax syntax,
		instruction_fn *fn, void *arg)
{
	const size_t value = syntax == SYNTAX_INTEL ? CAPSTONE_SYNTAX_INTEL : CAPSTONE_SYNTAX_ATT;
	size_t handle, text_at;
	struct instruction instruction = {0};
	char *next;
	int err = 0;

	if (!capstone.open || capstone.open(CAPSTONE_ARCH_X86, CAPSTONE_MODE_64, &handle))
		return -EOPNOTSUPP;
	next = capstone.option(handle, CAPSTONE_OPTION_SYNTAX, value) ? NULL
								      : capstone.allocate(handle);
	text_at = capstone_text_at();
	while (size && next && !err) {
		const uint8_t *at = code;
		uint64_t at_address = address;
		size_t left = size;
		bool known = capstone.next(handle, &at, &left, &at_address, next);

		size_t length = known ? take_text(next, text_at, &instruction) : 0;

		known = length && length <= MIN(size, INSTRUCTION_BYTES_MAX);
		if (!known)
			length = unknown_length(code, size);
		instruction.address = address;
		instruction.size = (uint8_t)length;
		memcpy(instruction.bytes, code, length);
		if (!known)
			print_bytes(&instruction);
		err = fn(arg, &instruction);
		code += length;
		address += length;
		size -= length;
	}
	if (next)
		capstone.release(next, 1);
	else
		err = -EOPNOTSUPP;
	capstone.close(&handle);
	return err;
}
