// SPDX-License-Identifier: GPL-2.0
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/sched/user.h>

#include "memlock.h"

/* Number of pages of a session with the defaults. */
static unsigned long sb_free_pages(void)
{
	return (num_online_cpus() * (STACKBEAT_RING_SIZE_DEFAULT + 2 * PAGE_SIZE) +
		SB_META_BYTES) >> PAGE_SHIFT;
}

int sb_session_charge(struct sb_session *session, size_t bytes)
{
	struct user_struct *user = session->cred->user;
	unsigned long pages = PFN_UP(bytes);
	unsigned long all = atomic_long_add_return(pages, &user->locked_vm);

	if (session->locked_max != ULONG_MAX && all > session->locked_max + sb_free_pages()) {
		atomic_long_sub(pages, &user->locked_vm);
		return -ENOMEM;
	}
	session->locked += pages;
	return 0;
}

void sb_session_uncharge(struct sb_session *session, unsigned long pages)
{
	session->locked -= pages;
	atomic_long_sub(pages, &session->cred->user->locked_vm);
}
