/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The worker of a session's spaces: reads the mappings of spaces that beats have
 * seen first, and tells them, and their changes, in the metadata ring.
 */
#ifndef STACKBEAT_CAPTURE_H
#define STACKBEAT_CAPTURE_H

struct sb_spaces;
struct work_struct;

/* Does all that there is to do, and comes again for what has to wait. */
void sb_capture_work(struct work_struct *work);

/* Frees what was still to be read or told; the worker does not run any more. */
void sb_captures_free(struct sb_spaces *spaces);

#endif
