/* SPDX-License-Identifier: GPL-2.0 */
/* What the reader asks of the mapped files of address spaces, in its process. */
#ifndef STACKBEAT_SPACE_FILES_H
#define STACKBEAT_SPACE_FILES_H

#include <linux/types.h>

struct sb_spaces;
struct sb_unwind_object;
struct stackbeat_moved_text;
struct stackbeat_unwind_push;

/* Implement STACKBEAT_IOC_FILE_OPEN and _RELEASE, for a file id. */
int sb_spaces_open_file(struct sb_spaces *spaces, u64 id);
int sb_spaces_release_file(struct sb_spaces *spaces, u64 id);

/*
 * Sets the unwind table of a file, in the memory that is free. *set: without an error, the object of
 * the file, with a reference. Errors as STACKBEAT_IOC_UNWIND_TABLE.
 */
int sb_spaces_set_table(struct sb_spaces *spaces, const struct stackbeat_unwind_push *push,
			struct sb_unwind_object **set);
/* The table of an object, to which the caller has a reference, was set by another session. */
void sb_spaces_update_table(struct sb_spaces *spaces, const struct sb_unwind_object *object);

/* Implements STACKBEAT_IOC_MOVED_TEXT. */
int sb_spaces_move_text(struct sb_spaces *spaces, const struct stackbeat_moved_text *moved);

#endif
