// SPDX-License-Identifier: GPL-2.0
/*
 * churn SOURCE DIR MODE COUNT [ITERATIONS [THREADS]]
 *
 * Runs COUNT short processes, a few at a time, of the programs work_00 to
 * work_39 of the directory SOURCE in turn. Each runs from its own copy in DIR,
 * which it unlinks when it starts. Each works ITERATIONS to 2.5 times ITERATIONS,
 * also in THREADS additional threads. MODE:
 *
 *	fork	each is forked and executes its program
 *	vfork	as fork, without a copy of the memory
 *	chain	chains of 4: each works, and then starts the next by vfork and exec
 *	exec	chains of 4, where each process executes the next program itself
 *
 * Fails if one of the processes fails.
 */
#include "bare.h"

#define WORKERS 40
#define JOBS 4
#define CHAIN 4
#define PATH_SIZE 128
#define ARGUMENTS 4

/* O_RDONLY | O_CLOEXEC, and O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC */
#define FOR_READING 02000000
#define FOR_WRITING 02000301

static long sources[WORKERS];
static char paths[CHAIN][PATH_SIZE];
static long running[JOBS];
static int failures;

static void fail(const char *what, const char *path)
{
	print("churn: ");
	print(what);
	print(" ");
	print(path);
	print("\n");
	system_call(SYS_EXIT_GROUP, 1, 0, 0, 0);
}

static void path_of(char *path, const char *directory, u64 worker)
{
	const char *name = "/work_";
	int length = 0;

	keep_frame();
	while (directory[length] && length < PATH_SIZE - 16) {
		path[length] = directory[length];
		length++;
	}
	while (*name)
		path[length++] = *name++;
	path[length++] = '0' + worker / 10;
	path[length++] = '0' + worker % 10;
	path[length] = 0;
}

static void open_sources(const char *directory)
{
	u64 worker;

	for (worker = 0; worker < WORKERS; worker++) {
		path_of(paths[0], directory, worker);
		sources[worker] = system_call(SYS_OPEN, (long)paths[0], FOR_READING, 0, 0);
		if (sources[worker] < 0)
			fail("can't open", paths[0]);
	}
}

static void copy(const char *path, u64 worker)
{
	long file = system_call(SYS_OPEN, (long)path, FOR_WRITING, 0755, 0);
	u64 offset = 0;
	long count;

	if (file < 0)
		fail("can't make", path);
	do {
		count = system_call(SYS_SENDFILE, file, sources[worker], (long)&offset, 1 << 20);
	} while (count > 0);
	if (count < 0)
		fail("can't write", path);
	system_call(SYS_CLOSE, file, 0, 0, 0);
}

/* A child that shares our memory must not return from this function. */
static NOINLINE long execute(long fork, char **argv)
{
	long pid = system_call(fork, 0, 0, 0, 0);

	if (!pid) {
		system_call(SYS_EXECVE, (long)*argv, (long)argv, 0, 0);
		system_call(SYS_EXIT_GROUP, 127, 0, 0, 0);
	}
	if (pid < 0)
		fail("can't fork for", *argv);
	return pid;
}

static NOINLINE void reap(u64 job)
{
	int status = 0;

	if (running[job])
		system_call(SYS_WAIT4, running[job], (long)&status, 0, 0);
	if (status)
		failures++;
}

NOINLINE int main(int argc, char **argv)
{
	u64 count = argument(argc, argv, 4, 0);
	u64 iterations = argument(argc, argv, 5, 500000);
	char digits[DIGITS_SIZE], letters[] = "u?", *mode, none[] = "0";
	char *arguments[ARGUMENTS + CHAIN + 1];
	u64 length, index, link, job = 0;

	if (argc < 5)
		return 2;
	mode = argv[3];
	length = *mode == 'c' || *mode == 'e' ? CHAIN : 1;
	letters[1] = *mode == 'e' ? 'e' : 'v';
	open_sources(argv[1]);
	for (index = 0; index < count; index += length) {
		/* At most JOBS chains run at once, so that no two of them use the same path. */
		reap(job);
		for (link = 0; link < length; link++) {
			path_of(paths[link], argv[2], (index + link) % WORKERS);
			copy(paths[link], (index + link) % WORKERS);
			arguments[link ? ARGUMENTS + link - 1 : 0] = paths[link];
		}
		arguments[ARGUMENTS + length - 1] = 0;
		arguments[1] = decimal(iterations * (4 + index % 7) / 4, digits);
		arguments[2] = argc > 6 ? argv[6] : none;
		arguments[3] = letters;
		running[job] = execute(*mode == 'f' ? SYS_FORK : SYS_VFORK, arguments);
		job = (job + 1) % JOBS;
	}
	for (job = 0; job < JOBS; job++)
		reap(job);
	return failures ? 1 : 0;
}
