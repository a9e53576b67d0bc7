/* SPDX-License-Identifier: GPL-2.0 */
/* Roots of user stacks: the functions at which threads start. */
#ifndef STACKBEAT_SYMBOLIZE_STACK_ROOTS_H
#define STACKBEAT_SYMBOLIZE_STACK_ROOTS_H

#include <stdbool.h>
#include <stddef.h>

/* A frame of a user stack. */
struct root_frame {
	const char *path; /* of its mapping; "": none */
	/* Linker name of the function that is not inlined; NULL: the frame has no symbol. */
	const char *system_name;
};

/*
 * Whether user stacks begin at the function with this linker name: the entry of a program, a
 * thread or a goroutine, or a function of the C library between the entry and main().
 */
bool stack_is_root(const char *system_name);

/*
 * Returns the number of frames, from the leaf up to and including the root, of a user stack (leaf
 * first); 0 if no frame is a root.
 *
 * A root is a known one (stack_is_root()), or an address without a symbol in the C library or the
 * dynamic loader that called main(): the caller of main() has no symbol in a stripped library. The
 * outermost such frame counts. The frames above it are garbage: root functions built without frame
 * pointers leave an arbitrary value in the register, and the unwinder has followed it.
 */
size_t stack_root_depth(const struct root_frame *frames, size_t count);

#endif
