/* SPDX-License-Identifier: GPL-2.0 */
/* The rights of processes that record, and that show what others record. */
#ifndef STACKBEAT_RECORD_READER_RIGHTS_H
#define STACKBEAT_RECORD_READER_RIGHTS_H

struct error;

/*
 * Gives up all capabilities of this process that a recording does not need, and the way to get
 * others (no_new_privs). Call it after the device is open and the command is forked, and before
 * threads are started. Returns 0 or a negative errno value.
 */
int reader_rights_reduce(struct error *error);

/*
 * The same for a process that only shows, and may write files: after what records was started. The
 * names that it shows may come from hostile files.
 */
int viewer_rights_reduce(struct error *error);

#endif
