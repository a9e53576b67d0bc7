// SPDX-License-Identifier: GPL-2.0
#include "sandbox/namespaces.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/child.h"
#include "sandbox/seccomp_filter.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* A directory that every system has. Only this process sees what is mounted there. */
#define MOUNT_POINT "/proc"
/* An unmount detaches mounts within microseconds; this is for a machine that does not run it. */
#define DETACH_TRIES 10000
#define DETACH_PAUSE_MS 1

int unshare_as_user(void)
{
	if (!unshare(CLONE_NEWUSER | NAMESPACES))
		return 0;
	/* systemd/stackbeat.service forbids the calls of System V IPC instead. */
	return unshare(CLONE_NEWUSER | (NAMESPACES & ~CLONE_NEWIPC)) ? -errno : 0;
}

/* Whether no other mount lies on the root directory, which is also the working directory. */
static bool is_top_mount(void)
{
	struct stat here, above;

	/* ".." of a root directory is what lies on it. */
	return !stat(".", &here) && !stat("..", &above) && here.st_dev == above.st_dev &&
	       here.st_ino == above.st_ino;
}

/*
 * Unmounts what lies on the root directory. The kernel detaches it at once, and then lets the
 * caller wait for a grace period of RCU, which a real-time loop on another CPU can delay for as
 * long as it runs. So a child makes the call, and waits alone.
 */
static int detach_old_root(void)
{
	pid_t pid = child_fork(CHILD_UNMOUNTER);

	if (pid == 0) {
		/* The parent process must see the end of the server, not of this child. */
		close_other_fds(NULL, 0);
		_exit(umount2(".", MNT_DETACH) ? 1 : 0);
	}
	if (pid < 0)
		return -errno;
	for (int i = 0; i < DETACH_TRIES; i++) {
		const bool has_ended = waitpid(pid, NULL, WNOHANG) == pid;

		if (is_top_mount())
			return 0;
		if (has_ended)
			return -EPERM;
		poll(NULL, 0, DETACH_PAUSE_MS);
	}
	return -ETIMEDOUT;
}

int enter_empty_root(void)
{
	int err;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("stackbeat", MOUNT_POINT, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=4k,nr_inodes=1,mode=0555") ||
	    chdir(MOUNT_POINT))
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0) {
		err = detach_old_root();
		if (err)
			return err;
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
