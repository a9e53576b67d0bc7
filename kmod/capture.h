/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The worker of a session's spaces: reads the mappings of new spaces, and writes records of
 * the spaces, their mappings and mmap events into the metadata ring.
 */
#ifndef STACKBEAT_CAPTURE_H
#define STACKBEAT_CAPTURE_H

struct sb_spaces;
struct work_struct;

/* The function of sb_spaces.work: does all due work, and queues itself for deferred work. */
void sb_capture_work(struct work_struct *work);

/*
 * Stops the worker, and frees the captures that are not written yet. No sampler and no probe
 * runs any more. NULL is allowed.
 */
void sb_captures_stop(struct sb_spaces *spaces);

#endif
