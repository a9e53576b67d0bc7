// SPDX-License-Identifier: GPL-2.0
#include "sandbox/child.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cpu_time.h"
#include "lib/error.h"
#include "lib/invariant.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID)

/* How the parent learns what a child has done. */
enum child_outcome {
	OUTCOME_STATUS,
	OUTCOME_SOCKET, /* messages */
	OUTCOME_FILE, /* in memory, with a struct child_result */
};

/* Rights less than its parent's are final: no program that it executes brings them back. */
enum child_rights {
	RIGHTS_OF_PARENT,
	RIGHTS_NONE, /* sandbox/fork_server.h */
	RIGHTS_NETWORK, /* debuginfo/debuginfod_helper.h */
	RIGHTS_HTTP, /* serve/http_rights.h */
	RIGHTS_READER, /* serve/http_rights.h */
};

/* tests/lint-processes reads this table. */
/* clang-format off */
static const struct child_rules {
	enum child_rights rights;
	enum child_outcome outcome;
	int nice; /* at least */
	int nicer; /* than its parent: a command with a low priority keeps it */
	unsigned int cpu_s, deadline_s, memory_mib, file_mib; /* limits; 0: its parent's */
	bool has_namespaces; /* of its own, if its parent has CAP_SYS_ADMIN */
	bool has_secrets; /* it may have the secrets of its parent */
	bool outlives_parent; /* or it dies with it by other means, after a change of its user */
	bool can_be_stopped; /* by child_stop() */
} child_rules[] = {
	[CHILD_SANDBOX_SERVER] = {RIGHTS_NONE, .outcome = OUTCOME_SOCKET, .has_namespaces = true,
				  .outlives_parent = true},
	[CHILD_UNMOUNTER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_STATUS},
	[CHILD_WORKER] = {RIGHTS_NONE, .outcome = OUTCOME_SOCKET},
	/*
	 * Beside a busy thread of the usual priority, it gets a quarter of the CPU. At the lowest
	 * priority it would get a hundredth, and a result that others wait for would take seconds.
	 */
	[CHILD_TABLE_WORKER] = {RIGHTS_NONE, .outcome = OUTCOME_SOCKET, .nice = 5},
	[CHILD_OPENER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_SOCKET},
	[CHILD_DEBUGINFOD_HELPER] = {RIGHTS_NETWORK, .outcome = OUTCOME_SOCKET,
				    .outlives_parent = true},
	[CHILD_DOWNLOAD] = {RIGHTS_NETWORK, .outcome = OUTCOME_SOCKET},
	/* It gets a third of the CPU time of a sampled thread. */
	[CHILD_FILE_EXPORTER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_STATUS, .nicer = 5,
				 .outlives_parent = true},
	[CHILD_SLICE_EXPORTER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_FILE, .nicer = 5},
	[CHILD_EXTRA_SESSION] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_FILE, .nicer = 5},
	[CHILD_TOP_SAMPLER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_SOCKET},
	/* It ends after its parent, when the rest is stored. */
	[CHILD_HTTP_KEEPER] = {RIGHTS_HTTP, .outcome = OUTCOME_STATUS, .has_secrets = true,
			       .outlives_parent = true},
	[CHILD_HTTP_SERVER] = {RIGHTS_HTTP, .outcome = OUTCOME_STATUS, .has_secrets = true},
	/*
	 * The answer is in memory, which the limit of memory does not count. On a busy machine, it gets
	 * its CPU time in ten times as long.
	 */
	[CHILD_JOB] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_FILE, .nice = 5, .cpu_s = 60,
		       .deadline_s = 600,
		       .memory_mib = 1024, .file_mib = 256, .has_secrets = true,
		       .can_be_stopped = true},
	/* It ends when the HTTP server has ended. */
	[CHILD_ANNOTATION_SERVER] = {RIGHTS_READER, .outcome = OUTCOME_SOCKET,
				     .outlives_parent = true},
	[CHILD_ANNOTATOR] = {RIGHTS_READER, .outcome = OUTCOME_SOCKET, .nice = 5, .cpu_s = 30,
			     .deadline_s = 60, .memory_mib = 1024, .file_mib = 64},
	/* It shows what there is until the user ends it. */
	[CHILD_PAGER] = {RIGHTS_OF_PARENT, .outcome = OUTCOME_STATUS, .outlives_parent = true},
};
/* clang-format on */

_Static_assert(sizeof(child_rules) / sizeof(child_rules[0]) == CHILD_ROLES, "a row for each role");

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static bool secrets_are_here;

void child_forks_stop(void)
{
	pthread_mutex_lock(&fork_lock);
}

void child_forks_go_on(void)
{
	pthread_mutex_unlock(&fork_lock);
}

void child_note_secrets(bool has_secrets)
{
	secrets_are_here = has_secrets;
}

/* `parent` has called getpid() before: it may be gone already. */
static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static void set_limit(__rlimit_resource_t resource, rlim_t value)
{
	const struct rlimit limit = {value, value};

	if (value)
		setrlimit(resource, &limit);
}

static void obey_rules(const struct child_rules *rules, pid_t parent)
{
	sigset_t alarms;

	if (!rules->outlives_parent)
		die_with_parent(parent);
	if (rules->rights != RIGHTS_OF_PARENT)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	set_limit(RLIMIT_DATA, (rlim_t)rules->memory_mib << 20);
	set_limit(RLIMIT_CPU, rules->cpu_s);
	set_limit(RLIMIT_FSIZE, (rlim_t)rules->file_mib << 20);
	/* write() fails instead. */
	if (rules->file_mib)
		signal(SIGXFSZ, SIG_IGN);
	/* Root could raise a lower priority, too. */
	if (rules->nice && rules->nice > getpriority(PRIO_PROCESS, 0))
		setpriority(PRIO_PROCESS, 0, rules->nice);
	if (rules->nicer)
		setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + rules->nicer);
	if (!rules->deadline_s)
		return;
	/*
	 * SIGALRM ends it. What its parent blocks stays blocked: a terminal and systemd send the
	 * signals that end the parent to all of its processes.
	 */
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(rules->deadline_s);
}

pid_t child_fork(enum child_role role)
{
	const struct child_rules *rules = &child_rules[role];
	pid_t parent = getpid(), pid = -1;
	int code;

	if (secrets_are_here && !rules->has_secrets) {
		errno = EPERM;
		return -1;
	}
	child_forks_stop();
	/* The function of glibc has no flags. */
	if (rules->has_namespaces)
		pid = (pid_t)syscall(SYS_clone, NAMESPACES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0)
		pid = fork();
	code = errno;
	child_forks_go_on();
	if (!pid)
		obey_rules(rules, parent);
	errno = code;
	return pid;
}

int child_prepare(struct child *child, enum child_role role, size_t result_size)
{
	invariant(child_rules[role].outcome == OUTCOME_FILE);
	*child = (struct child){.role = role, .file = memfd_create("profile", MFD_CLOEXEC)};
	child->result =
		mmap(NULL, result_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (child->result == MAP_FAILED) {
		child->result = NULL;
	} else {
		child->result_size = result_size;
		sem_init(&child->result->stop, 1, 0);
	}
	if (child->file >= 0 && child->result)
		return 0;
	child_release(child);
	return -ENOMEM;
}

static void *end_when_stopped(void *arg)
{
	struct child_result *result = arg;

	while (sem_wait(&result->stop))
		;
	_exit(1);
}

int child_run(struct child *child, child_function *work, void *arg)
{
	struct child_result *result = child->result;
	struct error error = {""};
	int err = work(arg, child, &error);

	if (!result)
		return err;
	result->err = err;
	snprintf(result->error, sizeof(result->error), "%.*s", (int)sizeof(result->error) - 1,
		 error.text);
	result->done = true;
	return err;
}

int child_start(struct child *child, child_function *work, void *arg)
{
	pid_t pid = child_fork(child->role);
	pthread_t thread;

	if (pid < 0)
		return -errno;
	child->pid = pid;
	if (pid)
		return 0;
	/* Without the thread, the limits end it. */
	if (child_rules[child->role].can_be_stopped &&
	    !pthread_create(&thread, NULL, end_when_stopped, child->result))
		pthread_detach(thread);
	_exit(child_run(child, work, arg) ? EXIT_FAILURE : 0);
}

bool child_has_ended(struct child *child, bool waits)
{
	struct rusage usage;

	if (child->pid &&
	    wait4(child->pid, &child->status, waits ? 0 : WNOHANG, &usage) == child->pid) {
		child->cpu_ns = cpu_time_of_usage(&usage);
		child->pid = 0;
	}
	return !child->pid;
}

void child_stop(struct child *child)
{
	if (child->result)
		sem_post(&child->result->stop);
}

void child_release(struct child *child)
{
	if (child->file >= 0)
		close(child->file);
	if (child->result)
		munmap(child->result, child->result_size);
	*child = (struct child){.file = -1};
}
