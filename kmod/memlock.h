/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Charges a session's memory, which can't be swapped out, to the user who has opened the
 * session, against RLIMIT_MEMLOCK of the opener.
 */
#ifndef STACKBEAT_MEMLOCK_H
#define STACKBEAT_MEMLOCK_H

#include <linux/mm.h>
#include <linux/types.h>

#include "session_types.h"

/* Memory of a session for metadata: the ring with its two pages. */
#define SB_META_BYTES (STACKBEAT_META_RING_SIZE + 2 * PAGE_SIZE)

/*
 * Each user has the memory of a session with the defaults for free, beside RLIMIT_MEMLOCK.
 * ENOMEM. Under samplers_lock, or before the session is open.
 */
int sb_session_charge(struct sb_session *session, size_t bytes);
void sb_session_uncharge(struct sb_session *session, unsigned long pages);

#endif
