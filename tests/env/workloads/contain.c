// SPDX-License-Identifier: GPL-2.0
/*
 * contain DIR PROGRAM [ARG...]
 *
 * Runs a copy of PROGRAM, which is all that there is in the mount namespace of
 * its own, as process 1 of a pid namespace of its own. DIR is an empty directory.
 * Prints the process id that it has outside; ends as it does, or when it is
 * killed itself, with it.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	perror(what);
	exit(1);
}

/* Makes the new root, with PROGRAM in it, at `path`. */
static void make_root(const char *directory, const char *program, char *path, size_t size)
{
	const char *copy;
	int from, to;

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
	must(mount("none", directory, "tmpfs", 0, NULL), "mount of a tmpfs");
	must(chdir(directory), directory);
	must(mkdir("app", 0755), "app");
	snprintf(path, size, "/app/%s", strrchr(program, '/') + 1);
	copy = path + 1;
	from = open(program, O_RDONLY | O_CLOEXEC);
	must(from, program);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	must(to, copy);
	must(sendfile(to, from, NULL, 1 << 30), "sendfile");
	close(to);
	close(from);
	must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "umount");
	must(chdir("/"), "/");
}

int main(int argc, char **argv)
{
	char path[4096];
	int status;
	pid_t pid;

	if (argc < 3 || !strchr(argv[2], '/'))
		return 2;
	must(unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare");
	pid = fork();
	must(pid, "fork");
	if (!pid) {
		must(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
		make_root(argv[1], argv[2], path, sizeof(path));
		argv[2] = path;
		execv(path, argv + 2);
		must(-1, path);
	}
	printf("%d\n", pid);
	fflush(stdout);
	must(waitpid(pid, &status, 0), "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
