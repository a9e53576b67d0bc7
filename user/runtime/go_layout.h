/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layout of goroutines (g) and threads (m) in the memory of Go programs on x86-64, by the
 * version of Go. As in src/runtime/runtime2.go of each version, and the debug information of
 * programs that it has built.
 */
#ifndef STACKBEAT_RUNTIME_GO_LAYOUT_H
#define STACKBEAT_RUNTIME_GO_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Offsets in bytes. 0: no such field, except stack_lo and m_g0. */
struct go_layout {
	unsigned int first, last; /* minor versions of Go 1 that have this layout */
	/* of g: */
	uint16_t stack_lo, stack_hi;
	uint16_t m;
	uint16_t sched_sp, sched_pc, sched_bp;
	uint16_t syscall_sp, syscall_pc, syscall_bp;
	uint16_t status; /* 32 bits */
	uint16_t goid;
	uint16_t wait_since;
	uint16_t wait_reason; /* 8 bits */
	uint16_t sync_safe_point; /* 8 bits */
	uint16_t parent_goid;
	uint16_t gopc, startpc;
	uint16_t labels;
	/* of m: */
	uint16_t m_g0, m_procid, m_gsignal, m_curg;
	/* g.labels points to a slice of {key, value}, sorted by key; before, to a map. */
	bool has_label_slices;
};

/*
 * Returns the layout of a version of Go, or NULL: before 1.18. A version newer than all known ones
 * has the layout of the last one; then `minor` is above its `last`, and the caller checks what it
 * reads.
 */
const struct go_layout *go_layout_of_version(unsigned int major, unsigned int minor);

#endif
