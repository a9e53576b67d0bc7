/* SPDX-License-Identifier: GPL-2.0 */
/* Restricts access to files by Landlock (Linux 5.13). */
#ifndef STACKBEAT_SANDBOX_LANDLOCK_H
#define STACKBEAT_SANDBOX_LANDLOCK_H

/* Permits no file. Open files stay open. Returns 0 or a negative errno value. Needs no_new_privs.
 */
int landlock_forbid_files(void);

/* Permits reading and changes below `directory` only; else as landlock_forbid_files(). */
int landlock_confine(const char *directory);

/* Permits reading everywhere, and no changes; else as landlock_forbid_files(). */
int landlock_forbid_changes(void);

/*
 * Permits reading everywhere, and changes below `directory` only. Returns 0 or a negative errno
 * value. Needs no_new_privs.
 */
int landlock_confine_writing(const char *directory);

#endif
