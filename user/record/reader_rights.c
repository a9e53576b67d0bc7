// SPDX-License-Identifier: GPL-2.0
#include "record/reader_rights.h"

#include <linux/capability.h>
#include <sys/prctl.h>

#include "lib/error.h"
#include "sandbox/capabilities.h"

/* Headers may be older than the kernel. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* What each is for: the session and its rings; other processes' files; kallsyms; the output. */
#define SESSION (CAPABILITY(CAP_PERFMON) | CAPABILITY(CAP_IPC_LOCK))
#define OTHER_PROCESSES                                                                            \
	(CAPABILITY(CAP_SYS_PTRACE) | CAPABILITY(CAP_CHECKPOINT_RESTORE) |                         \
	 CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_KILL))
#define KERNEL_ADDRESSES CAPABILITY(CAP_SYSLOG)
#define OUTPUT (CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_FOWNER))

static int keep_rights(uint64_t kept, struct error *error)
{
	int err = capabilities_keep(kept);

	if (err)
		return error_errno(error, -err, "can't give up capabilities");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return 0;
}

int reader_rights_reduce(struct error *error)
{
	return keep_rights(SESSION | OTHER_PROCESSES | KERNEL_ADDRESSES | OUTPUT, error);
}

int viewer_rights_reduce(struct error *error)
{
	return keep_rights(OUTPUT, error);
}
