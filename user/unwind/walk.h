/* SPDX-License-Identifier: GPL-2.0 */
/* Walks a user stack by unwind tables, see stackbeat_unwind.h. */
#ifndef STACKBEAT_UNWIND_WALK_H
#define STACKBEAT_UNWIND_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>
#include <stackbeat_unwind_step.h>

/* Where code is mapped. */
struct walk_mapping {
	uint64_t start, end;
	uint64_t bias; /* address - ELF virtual address */
	const struct stackbeat_unwind_view *table; /* NULL: walked by frame pointers */
};

/* Why a walk has ended. */
enum walk_end {
	WALK_OUTERMOST, /* a rule says so, or the chain of frame pointers ends with 0 */
	WALK_NO_RULE, /* the table has no rule for the address */
	WALK_NO_MAPPING, /* the address is in no known mapping */
	WALK_UNREADABLE, /* memory can't be read */
	WALK_BAD_FRAME, /* the frame is not above the one before, or not aligned */
	WALK_LOST_REGISTER, /* the rule needs a register whose value is unknown */
	WALK_MAX_DEPTH,
};

struct walk {
	struct stackbeat_unwind_frame frame; /* its registers and fs_base are set by the caller */
	/* Returns the mapping of an address, or NULL. */
	const struct walk_mapping *(*mapping)(void *arg, uint64_t address);
	stackbeat_unwind_read *read;
	void *arg; /* of both */
	/*
	 * Called before the caller of each frame is looked for, with the rule for that; NULL: there
	 * is none in the table, or no table. NULL: not called.
	 */
	void (*visit)(void *arg, const struct stackbeat_unwind_frame *frame,
		      const struct walk_mapping *mapping, const struct stackbeat_unwind_rule *rule);
	/* rip is a return address: of a thread which has stored its own registers. */
	bool begins_at_call;
	size_t table_frames; /* frames that a table found; frame pointers found the others */
};

/*
 * Walks from the registers of an interrupted thread, all of which are known. Writes up to `max`
 * addresses, as in struct stackbeat_sample. Sets *end. Returns their number.
 */
size_t walk_stack(struct walk *walk, uint64_t *addresses, size_t max, enum walk_end *end);

/* How a copy of a stack was walked. */
struct walk_result {
	enum walk_end end;
	size_t frames; /* with the frame of rip itself, which needs no walk */
	size_t table_frames; /* as in struct walk */
	bool is_truncated; /* ended at the end of the copy: the stack is larger */
	uint64_t unreadable; /* the address that could not be read last */
	/*
	 * Bytes of the stack, from rsp on, that the walk has read, or would read next if the copy
	 * were the largest one.
	 */
	uint64_t need;
};

/*
 * Walks the copied stack of a sample; `mapping` as in struct walk. Writes up to `max` addresses.
 */
void walk_stack_copy(const struct stackbeat_stack *stack,
		     const struct walk_mapping *(*mapping)(void *arg, uint64_t address), void *arg,
		     uint64_t *addresses, size_t max, struct walk_result *result);

#endif
