// SPDX-License-Identifier: GPL-2.0
#include "serve/http_rights.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/capabilities.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp_filter.h"

static int http_rights_give_up(uid_t id, struct error *error)
{
	int err;

	capabilities_clear_bounding_set();
	err = geteuid() ? 0 : become_user(id);
	if (!err)
		err = capabilities_keep(0);
	if (err)
		return error_errno(error, -err, "can't give up the rights of root");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

static int check_filter(int err, struct error *error)
{
	return err ? error_errno(error, -err, "can't restrict system calls") : 0;
}

int http_rights_reduce(uid_t id, struct error *error)
{
	return http_rights_give_up(id, error) ?: check_filter(seccomp_confine_acceptor(), error);
}

int code_rights_reduce(uid_t id, struct error *error)
{
	return http_rights_give_up(id, error) ?: check_filter(seccomp_confine_reader(), error);
}

static int check_landlock(int err, struct error *error)
{
	/* Kernels before 5.13 have none, and others may have it disabled. */
	if (err && err != -ENOSYS && err != -EOPNOTSUPP)
		return error_errno(error, -err, "can't restrict the access to files");
	return 0;
}

int http_rights_confine(const char *store, struct error *error)
{
	return check_landlock(store ? landlock_confine(store) : landlock_forbid_files(), error);
}

int code_rights_confine(struct error *error)
{
	return check_landlock(landlock_forbid_changes(), error)
		       ?: check_filter(seccomp_confine_acceptor(), error)
		       ?: check_filter(seccomp_forbid_attributes(), error);
}
