/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Charges a session's memory, which can't be swapped out, to the user of the opener, against
 * the opener's RLIMIT_MEMLOCK.
 */
#ifndef STACKBEAT_MEMLOCK_H
#define STACKBEAT_MEMLOCK_H

#include <linux/mm.h>
#include <linux/types.h>

#include "session_types.h"

/* Size of a session's metadata ring, with its two pages. */
#define SB_META_BYTES (STACKBEAT_META_RING_SIZE + 2 * PAGE_SIZE)

/*
 * Charge and uncharge memory of a session. The memory of one session with the defaults is free
 * for each user, in addition to RLIMIT_MEMLOCK. ENOMEM: the limit is exceeded. Called under
 * samplers_lock, or while no sampler can be added: before the session is open and after it is
 * closed.
 */
int sb_session_charge(struct sb_session *session, size_t bytes);
void sb_session_uncharge(struct sb_session *session, unsigned long pages);

#endif
