// SPDX-License-Identifier: GPL-2.0
/*
 * contain DIR PROGRAM [ARG...]
 *
 * Runs a copy of PROGRAM as process 1 of a new pid namespace, in a new mount namespace that
 * contains only this copy. DIR is an empty directory. Prints the process ID of PROGRAM outside;
 * exits with the status of PROGRAM. PROGRAM is killed when contain is killed.
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

static void check_result(int result, const char *what)
{
	if (result >= 0)
		return;
	perror(what);
	exit(1);
}

/* Creates the new root with a copy of PROGRAM. Sets `path` to the path of the copy. */
static void make_root(const char *directory, const char *program, char *path, size_t size)
{
	const char *copy;
	int from, to;

	check_result(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
	check_result(mount("none", directory, "tmpfs", 0, NULL), "mount of a tmpfs");
	check_result(chdir(directory), directory);
	check_result(mkdir("app", 0755), "app");
	snprintf(path, size, "/app/%s", strrchr(program, '/') + 1);
	copy = path + 1;
	from = open(program, O_RDONLY | O_CLOEXEC);
	check_result(from, program);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	check_result(to, copy);
	check_result(sendfile(to, from, NULL, 1 << 30), "sendfile");
	close(to);
	close(from);
	check_result(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	check_result(umount2(".", MNT_DETACH), "umount");
	check_result(chdir("/"), "/");
}

int main(int argc, char **argv)
{
	char path[4096];
	int status;
	pid_t pid;

	if (argc < 3 || !strchr(argv[2], '/'))
		return 2;
	check_result(unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare");
	pid = fork();
	check_result(pid, "fork");
	if (!pid) {
		check_result(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
		make_root(argv[1], argv[2], path, sizeof(path));
		argv[2] = path;
		execv(path, argv + 2);
		check_result(-1, path);
	}
	printf("%d\n", pid);
	fflush(stdout);
	check_result(waitpid(pid, &status, 0), "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
