/* SPDX-License-Identifier: GPL-2.0 */
/* Roots of user stacks: the functions at which threads start. */
#ifndef STACKBEAT_SYMBOLIZE_STACK_ROOTS_H
#define STACKBEAT_SYMBOLIZE_STACK_ROOTS_H

#include <stdbool.h>
#include <stddef.h>

#include <stackbeat.h>

struct frame_name;

/*
 * Whether user stacks begin at the function with this linker name: the entry of a program, a
 * thread or a goroutine, or a function of the C library between the entry and main().
 */
bool stack_is_root(const char *system_name);

/*
 * Returns the number of frames, from the leaf up to and including the root, of a user stack (leaf
 * first) that ended with the stop `end`; 0 if the stack is truncated.
 *
 * A stack is complete if a frame is a known root (stack_is_root()), or an unresolved address in
 * the C library or the dynamic loader that called main(): the caller of main() has no symbol in a
 * stripped library. The outermost such frame counts. The frames above it are garbage: root
 * functions built without frame pointers leave an arbitrary value in the register, and the
 * unwinder has followed it. Without such a frame, a stack is complete if the kernel reached its
 * end (STACKBEAT_STOP_OUTERMOST).
 */
size_t stack_root_depth(const struct frame_name *const *frames, size_t count,
			enum stackbeat_unwind_stop end);

#endif
