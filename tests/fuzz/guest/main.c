// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz-guest SECONDS SEED [FILE]
 * fuzz-guest replay FILE
 *
 * Fuzzes the module with random programs (steps.h) for SECONDS. Every second process is
 * unprivileged. Without coverage, a process does the same for the same seed. With coverage (kcov,
 * see tests/env/vm/run --instrument), programs that reach new code are kept in a corpus, and most
 * new programs are mutations of these.
 *
 * Programs are saved to FILE, which may be outside of the guest, before they run: `replay` runs
 * them again, forever. Prints violations of the module's interface, and exits with 1 then.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kcov.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

#define WORKERS 4u
#define PROGRAMS_A_PROCESS 32u
#define KEPT_MAX 8192u
#define LOCATION_BITS 18
/* Longer than a program takes on the slowest kernel: after that it hangs. */
#define HANG_SECONDS 300
#define NOBODY 65534u
#define COVERED_MAX (64u << 10)
/* After SOME programs of a kind of processes, a session was opened; after MANY, one has had ticks.
 */
#define SOME 10u
#define MANY 100u

/* Shared memory of the processes. */
static struct {
	_Atomic uint64_t steps, kept, locations;
	/* [0]: privileged processes, [1]: unprivileged ones. */
	_Atomic uint64_t programs[2], sessions[2], balances[2];
	_Atomic uint8_t reached[1u << LOCATION_BITS];
	/* Each entry is written before `kept` counts it. Two processes may write the same entry:
	 * then one program is lost. */
	struct program corpus[KEPT_MAX];
} * shared;

struct worker {
	unsigned int number;
	uint64_t seed;
	uint64_t *coverage; /* NULL: this kernel has none */
	int file; /* -1: programs are not saved */
	time_t until;
	const struct program *replayed; /* NULL: random programs */
};

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec;
}

static void *map_shared(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

/* --- coverage ------------------------------------------------------------- */

/* Maps the coverage buffer of this process; NULL without kcov. */
static uint64_t *open_coverage(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	uint64_t *words;

	if (fd < 0)
		return NULL;
	if (ioctl(fd, KCOV_INIT_TRACE, COVERED_MAX))
		return NULL;
	words = mmap(NULL, COVERED_MAX * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED || ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		return NULL;
	return words;
}

/* Counts code locations that were reached for the first time since the last call. */
static uint64_t count_new(uint64_t *coverage)
{
	uint64_t count = __atomic_load_n(&coverage[0], __ATOMIC_RELAXED), found = 0;

	for (uint64_t index = 1; index <= count && index < COVERED_MAX; index++) {
		uint64_t location = coverage[index] * 0x9e3779b97f4a7c15 >> (64 - LOCATION_BITS);

		if (!shared->reached[location] && !shared->reached[location]++)
			found++;
	}
	__atomic_store_n(&coverage[0], 0, __ATOMIC_RELAXED);
	shared->locations += found;
	return found;
}

/* --- programs ------------------------------------------------------------- */

static struct step draw_step(struct random *random)
{
	return (struct step){.kind = draw_kind(random),
			     .slot = (uint8_t)draw(random, 16),
			     .seed = (uint32_t)draw_bits(random)};
}

static void draw_program(struct program *program, struct random *random)
{
	program->count = 1 + draw(random, STEPS_MAX);
	for (uint32_t index = 0; index < program->count; index++)
		program->steps[index] = draw_step(random);
	/* A program without a session has no effect: begin with step_open. */
	program->steps[0].kind = 0;
}

static void insert_steps(struct program *program, uint32_t at, const struct step *steps,
			 uint32_t count)
{
	if (count > STEPS_MAX - program->count)
		count = STEPS_MAX - program->count;
	memmove(&program->steps[at + count], &program->steps[at],
		(program->count - at) * sizeof(*steps));
	memmove(&program->steps[at], steps, count * sizeof(*steps));
	program->count += count;
}

static void mutate(struct program *program, struct random *random)
{
	uint32_t at = draw(random, program->count);
	const struct program *other;
	struct step step = draw_step(random);

	switch (draw(random, 6)) {
	case 0:
		program->steps[at].seed = step.seed;
		break;
	case 1:
		program->steps[at].slot = step.slot;
		break;
	case 2:
		program->steps[at] = step;
		break;
	case 3:
		insert_steps(program, at, &step, 1);
		break;
	case 4:
		if (program->count == 1)
			break;
		program->count--;
		memmove(&program->steps[at], &program->steps[at + 1],
			(program->count - at) * sizeof(step));
		break;
	default: { /* a part of another program */
		struct program part;
		uint32_t first;

		other = &shared->corpus[draw(random, (uint32_t)shared->kept)];
		part = *other;
		first = draw(random, part.count);
		insert_steps(program, at, &part.steps[first], 1 + draw(random, part.count - first));
	}
	}
}

static void make_program(struct program *program, struct random *random)
{
	uint32_t kept = shared->kept < KEPT_MAX ? (uint32_t)shared->kept : KEPT_MAX;

	if (!kept || draw_once_in(random, 4)) {
		draw_program(program, random);
		return;
	}
	*program = shared->corpus[draw(random, kept)];
	for (uint32_t times = 1 + draw(random, 4); times; times--)
		mutate(program, random);
}

static void keep_program(const struct program *program)
{
	uint64_t at = shared->kept;

	if (at >= KEPT_MAX)
		return;
	shared->corpus[at] = *program;
	shared->kept = at + 1;
}

/* --- processes ------------------------------------------------------------ */

static void drop_privileges(void)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY)) {
		perror("setresuid");
		_exit(1);
	}
	/* A restricted session samples only dumpable processes. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void save_program(const struct worker *worker, const struct program *program)
{
	if (worker->file < 0)
		return;
	if (pwrite(worker->file, program, sizeof(*program),
		   (off_t)(worker->number * sizeof(*program))) != sizeof(*program)) {
		perror("saving a program");
		_exit(1);
	}
}

static void run_process(struct worker *worker, struct random *random)
{
	struct program program;
	struct steps_counts before;
	bool leave = draw_once_in(random, 2);

	worker->coverage = open_coverage();
	if (worker->number % 2)
		drop_privileges();
	steps_init();
	for (uint32_t left = PROGRAMS_A_PROCESS; left && seconds_now() < worker->until; left--) {
		if (worker->replayed)
			program = *worker->replayed;
		else
			make_program(&program, random);
		save_program(worker, &program);
		alarm(HANG_SECONDS);
		before = *steps_counts();
		run_program(&program, leave && left == 1);
		shared->sessions[worker->number % 2] += steps_counts()->sessions - before.sessions;
		shared->balances[worker->number % 2] += steps_counts()->balances - before.balances;
		shared->programs[worker->number % 2]++;
		shared->steps += program.count;
		if (worker->coverage && count_new(worker->coverage) && !worker->replayed)
			keep_program(&program);
	}
	_exit(0);
}

/* Runs one process after the other until the time is over. Returns whether all have succeeded. */
static bool run_worker(struct worker *worker)
{
	struct random random;
	int status;
	pid_t process;

	random_init(&random, worker->seed + worker->number);
	while (seconds_now() < worker->until) {
		/* Each process gets its own seed, independent of the previous one. */
		struct random process_random = {draw_bits(&random) | 1};

		process = fork();
		if (process == 0)
			run_process(worker, &process_random);
		if (process < 0 || waitpid(process, &status, 0) != process) {
			perror("fork");
			return false;
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (WIFSIGNALED(status))
			fprintf(stderr, "violation: %s\n",
				WTERMSIG(status) == SIGALRM ? "a program hangs"
							    : strsignal(WTERMSIG(status)));
		fprintf(stderr, "in a program of worker %u\n", worker->number);
		return false;
	}
	return true;
}

/* Returns the number of failed workers. */
static int run_workers(struct worker *common, const struct program *replayed)
{
	int failed = 0, status;

	for (unsigned int number = 0; number < WORKERS; number++) {
		pid_t process = fork();

		if (process < 0) {
			perror("fork");
			return 1;
		}
		if (process)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		common->number = number;
		common->replayed = replayed ? &replayed[number] : NULL;
		_exit(run_worker(common) ? 0 : 1);
	}
	for (unsigned int number = 0; number < WORKERS; number++) {
		if (wait(&status) > 0 && status != 0)
			failed++;
	}
	return failed;
}

/* Prints counters. Returns whether the programs have reached enough of the module. */
static bool report(void)
{
	static const char *const users[] = {"privileged", "unprivileged"};
	bool enough = true;

	printf("# %llu programs of %llu steps, %llu code locations reached, %llu programs kept\n",
	       (unsigned long long)(shared->programs[0] + shared->programs[1]),
	       (unsigned long long)shared->steps, (unsigned long long)shared->locations,
	       (unsigned long long)shared->kept);
	for (unsigned int i = 0; i < 2; i++) {
		printf("# %s: %llu programs, %llu sessions, %llu checked after ticks\n", users[i],
		       (unsigned long long)shared->programs[i],
		       (unsigned long long)shared->sessions[i],
		       (unsigned long long)shared->balances[i]);
		enough &= shared->programs[i] < SOME || shared->sessions[i];
		enough &= shared->programs[i] < MANY || shared->balances[i];
		/* A kind that gets no CPU for a while has some programs all the same. */
		enough &= shared->programs[!i] < 10 * MANY || shared->programs[i] >= SOME;
	}
	/* Set if the kernel has kcov. */
	if (getenv("FUZZ_COVERAGE"))
		enough &= shared->locations > 0 || !(shared->programs[0] + shared->programs[1]);
	if (!enough)
		fprintf(stderr, "violation: the programs reach nothing\n");
	return enough;
}

static int replay(const char *path)
{
	struct worker worker = {.file = -1, .until = INT32_MAX};
	struct program programs[WORKERS];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, programs, sizeof(programs)) != sizeof(programs)) {
		perror(path);
		return 1;
	}
	close(fd);
	return run_workers(&worker, programs) ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct worker worker = {.file = -1};
	int failed;

	setlinebuf(stdout);
	shared = map_shared(sizeof(*shared));
	if (argc == 3 && !strcmp(argv[1], "replay"))
		return replay(argv[2]);
	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: fuzz-guest SECONDS SEED [FILE] | fuzz-guest replay FILE\n");
		return 2;
	}
	worker.until = seconds_now() + strtol(argv[1], NULL, 10);
	worker.seed = strtoull(argv[2], NULL, 0);
	if (argc == 4) {
		worker.file = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (worker.file < 0) {
			perror(argv[3]);
			return 1;
		}
	}
	printf("# fuzz-guest: seed %llu, %u processes, %s s\n", (unsigned long long)worker.seed,
	       WORKERS, argv[1]);
	failed = run_workers(&worker, NULL);
	return report() && !failed ? 0 : 1;
}
