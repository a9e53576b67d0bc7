/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads DWARF call frame information (.eh_frame and .debug_frame) of x86-64 code: for ranges of
 * addresses, how to find the caller's frame. See DWARF 5, 6.4, the x86-64 psABI, and the LSB for
 * .eh_frame. The sections are untrusted.
 *
 * Only what a walk over return addresses needs is read: the CFA (canonical frame address: the value
 * of rsp before the call), the return address, rbp, and rbx, by which ld.so finds its frames during
 * lazy binding.
 */
#ifndef STACKBEAT_UNWIND_CFI_H
#define STACKBEAT_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DWARF numbers of registers, see the psABI, figure 3.36. */
enum {
	CFI_RDX = 1,
	CFI_RBX = 3,
	CFI_RBP = 6,
	CFI_RSP = 7,
	CFI_REGISTERS = 16, /* general registers: 0 to 15 */
	CFI_RETURN_ADDRESS = 16, /* also stands for rip in expressions */
};

/* Where the caller's value of a register is. */
enum cfi_place {
	CFI_SAME, /* in the register itself: it is not changed */
	CFI_AT_CFA, /* in memory at CFA + offset */
	CFI_AT_BASE, /* in memory at `reg` + offset */
	CFI_IN_REGISTER, /* in the register `reg` */
	CFI_UNKNOWN, /* undefined, or an expression that is not supported */
};

struct cfi_value {
	enum cfi_place place;
	uint8_t reg;
	int64_t offset;
};

enum cfi_kind {
	CFI_CALLER, /* CFA and return address are known */
	CFI_END, /* the outermost frame: the return address is undefined */
	CFI_SIGNAL, /* the frame of a signal handler's return trampoline: see sigreturn(2) */
	CFI_UNSUPPORTED, /* an expression that can't be expressed in a row */
	/* Functions of Go that change stacks: see stackbeat_unwind.h. No CFI has them. */
	CFI_GO_SWITCH,
	CFI_GO_RESUME,
	CFI_GO_CALL, /* addend: of the two words, from rsp on */
};

/* How to find the caller from one range of addresses. */
struct cfi_row {
	enum cfi_kind kind;
	uint8_t base; /* register of the CFA, or of the caller's rsp, where that is another value */
	bool is_indirect; /* CFA = *(base + offset) + addend, instead of base + offset */
	bool is_exact; /* the caller has not called: its address is an instruction's */
	int64_t offset, addend;
	struct cfi_value return_address, rbp, rbx;
};

/* Size limits of one section, against files that need too much time or memory. */
#define CFI_ROWS_MAX (UINT32_C(1) << 24)

struct cfi_section {
	const void *bytes;
	size_t size;
	uint64_t vaddr; /* ELF virtual address of the section */
	bool is_eh_frame; /* else .debug_frame */
	bool is_terminated; /* an entry of size 0 is the end; else each linked part has one */
};

struct cfi_counts {
	uint64_t entries; /* frame description entries (FDEs) */
	uint64_t broken; /* FDEs that were skipped, or only read in part */
	uint64_t unsupported; /* rows with an unsupported expression */
};

/*
 * Calls `fn` for each range [start, end) of ELF virtual addresses with its row, in the order of the
 * section: ranges of one FDE ascend, FDEs come in any order. Broken FDEs are skipped and counted.
 * Returns 0, the first result of `fn` that is not 0, -E2BIG beyond CFI_ROWS_MAX, or -EBADMSG if the
 * section itself is broken; what was read before was passed to `fn`.
 */
int cfi_read(const struct cfi_section *section,
	     int (*fn)(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row),
	     void *arg, struct cfi_counts *counts);

#endif
