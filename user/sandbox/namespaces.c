// SPDX-License-Identifier: GPL-2.0
#include "sandbox/namespaces.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* A directory that every system has. Only this process sees what is mounted there. */
#define MOUNT_POINT "/proc"

int unshare_as_user(void)
{
	return unshare(CLONE_NEWUSER | NAMESPACES) ? -errno : 0;
}

int enter_empty_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("stackbeat", MOUNT_POINT, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=4k,nr_inodes=1,mode=0555") ||
	    chdir(MOUNT_POINT))
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0) {
		if (umount2(".", MNT_DETACH))
			return -errno;
	} else if (mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".")) {
		/* pivot_root() can't replace an initramfs. */
		return -errno;
	}
	if (chdir("/"))
		return -errno;
	return mount(NULL, "/", NULL,
		     MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)
		       ? -errno
		       : 0;
}
