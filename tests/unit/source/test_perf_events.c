// SPDX-License-Identifier: GPL-2.0
/*
 * Events follow the CPUs that come and go. The kernel is this test: it has a machine of four CPUs,
 * whose events are files with the counts that are read of them.
 */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <mntent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/file_limit.h"
#include "sandbox.h"
#include "source/perf_events.h"

#define CPUS 4u
#define RING_SIZE (64u << 10)
#define COUNTS 3u /* after which an event is dead, unless it is given more */
#define FDS 256u
#define SIZES 5u /* of copies */

static struct {
	char online[32]; /* as the kernel writes it */
	bool is_offline[CPUS];
	unsigned int leaves_after[CPUS]; /* events, after which it goes offline; 0: stays */
	int timers[CPUS]; /* the last event of the CPU that fires */
	unsigned int opened[CPUS], rings[CPUS], enabled;
	int targets[64]; /* of the events that fire, in their order; -1: a control group or all */
	size_t target_count;
	const char *paranoid; /* the level of a kernel that refuses; NULL: it does not */
	size_t limit; /* of all events of targets: one more is too many at first; 0: none */
	size_t files; /* that this process may open; 0: as many as it likes */
	size_t lockable; /* bytes of a ring; 0: any */
	bool is_unwatched; /* no ring can be waited for */
	struct perf_event_attr attrs[3]; /* of the last ring, timer and tracking event */
	/* By descriptor. */
	struct {
		uint32_t copy; /* bytes of the stack */
		int cpu;
		bool is_enabled, reports_mappings, is_ring;
	} events[FDS];
} machine;

static struct perf_events *events;
static struct error error;

/* Returns a file, whose bytes are as many counts. */
static int file_of_counts(unsigned int counts)
{
	int fd = memfd_create("event", MFD_CLOEXEC);

	for (uint64_t i = 1; i <= counts; i++)
		assert_int_equal(write(fd, &i, sizeof(i)), sizeof(i));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static uint32_t ring_size = RING_SIZE;

enum { RING, TIMER, TRACKING }; /* indices of `attrs` */

static void note_event(int fd, const struct perf_event_attr *attr, int cpu)
{
	machine.attrs[attr->config != PERF_COUNT_SW_DUMMY ? TIMER
		      : attr->mmap2                       ? TRACKING
							  : RING] = *attr;
	assert_true(fd < (int)FDS);
	machine.events[fd].copy = attr->sample_stack_user;
	machine.events[fd].cpu = cpu;
	machine.events[fd].is_enabled = false;
	machine.events[fd].reports_mappings = attr->mmap2 && attr->comm && attr->task;
	machine.events[fd].is_ring = attr->config == PERF_COUNT_SW_DUMMY && !attr->mmap2;
}

/* Replace lib/file_limit.c. */
size_t file_limit(void)
{
	return machine.files ? machine.files : FILE_LIMIT_MAX;
}

void raise_file_limit(size_t count)
{
	(void)count;
}

/* Replaces libc's function. */
long syscall(long number, ...)
{
	long (*const real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	const struct perf_event_attr *attr;
	long values[5];
	va_list args;
	int cpu, fd;

	va_start(args, number);
	for (size_t i = 0; i < 5; i++)
		values[i] = va_arg(args, long);
	va_end(args);
	if (number != SYS_perf_event_open)
		return real(number, values[0], values[1], values[2], values[3], values[4]);
	attr = (const struct perf_event_attr *)values[0];
	cpu = (int)values[2];
	assert_true(cpu >= 0 && cpu < (int)CPUS);
	assert_int_equal((int)values[3], -1);
	assert_true(values[4] & PERF_FLAG_FD_CLOEXEC);
	if (attr->config == PERF_COUNT_SW_DUMMY && !attr->mmap2) {
		machine.rings[cpu]++;
		fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(fd, 4096 + ring_size), 0);
		/* It can't be mapped then. */
		if (machine.lockable && 4 * attr->wakeup_watermark > machine.lockable)
			assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
		note_event(fd, attr, cpu);
		return fd;
	}
	if (machine.paranoid &&
	    !(machine.paranoid[0] == '2' && (int)values[1] > 0 && attr->exclude_kernel)) {
		errno = EACCES;
		return -1;
	}
	if (machine.is_offline[cpu] ||
	    (machine.leaves_after[cpu] && machine.opened[cpu] == machine.leaves_after[cpu])) {
		errno = ENODEV;
		return -1;
	}
	if (machine.limit && machine.target_count == machine.limit) {
		/* Until these files are closed. */
		machine.limit = 0;
		errno = EMFILE;
		return -1;
	}
	assert_true(machine.target_count < sizeof(machine.targets) / sizeof(machine.targets[0]));
	machine.targets[machine.target_count++] =
		values[4] & PERF_FLAG_PID_CGROUP ? -1 : (int)values[1];
	machine.opened[cpu]++;
	fd = file_of_counts(COUNTS);
	note_event(fd, attr, cpu);
	if (attr->config != PERF_COUNT_SW_DUMMY)
		machine.timers[cpu] = fd;
	return fd;
}

int ioctl(int fd, unsigned long request, ...)
{
	assert_in_range(fd, STDERR_FILENO + 1, FDS - 1);
	machine.enabled += request == PERF_EVENT_IOC_ENABLE;
	if (request == PERF_EVENT_IOC_ENABLE || request == PERF_EVENT_IOC_DISABLE)
		machine.events[fd].is_enabled = request == PERF_EVENT_IOC_ENABLE;
	return 0;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	(void)epoll, (void)operation, (void)fd, (void)event;
	errno = ENOSPC;
	return machine.is_unwatched ? -1 : 0;
}

long sysconf(int name)
{
	long (*const real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");

	return name == _SC_NPROCESSORS_CONF ? (long)CPUS : real(name);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*const real)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	if (machine.paranoid && !strcmp(path, "/proc/sys/kernel/perf_event_paranoid"))
		return fmemopen((char *)machine.paranoid, strlen(machine.paranoid), "r");
	return strcmp(path, "/sys/devices/system/cpu/online")
		       ? real(path, mode)
		       : fmemopen(machine.online, strlen(machine.online), "r");
}

/* The only mount is in the sandbox. */
FILE *setmntent(const char *path, const char *mode)
{
	(void)path;
	return fopen(in_sandbox("mounts"), mode);
}

static struct cpulist cpus;
static struct perf_events_config config;

static void set_online(const char *list)
{
	struct cpulist online;

	snprintf(machine.online, sizeof(machine.online), "%s\n", list);
	assert_int_equal(cpulist_parse(list, &online, NULL), 0);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		machine.is_offline[cpu] = !cpulist_has(&online, cpu);
}

static int set_up(void **state)
{
	(void)state;
	memset(&machine, 0, sizeof(machine));
	ring_size = RING_SIZE;
	set_online("0-1");
	cpus = (struct cpulist){.all = true};
	config = (struct perf_events_config){
		.cpus = &cpus,
		.period_ns = 1000000,
		.ring_size = RING_SIZE,
		.parts = STACKBEAT_PARTS_ALL,
	};
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	perf_events_enable(events, true);
	assert_int_equal(machine.enabled, 2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	perf_events_close(events);
	return 0;
}

static void follow(bool checks_counts)
{
	perf_events_snapshot(events);
	perf_events_release(events);
	perf_events_follow_cpus(events, checks_counts);
}

static void assert_opened(unsigned int cpu0, unsigned int cpu1, unsigned int cpu2,
			  unsigned int cpu3)
{
	const unsigned int wanted[CPUS] = {cpu0, cpu1, cpu2, cpu3};

	for (size_t cpu = 0; cpu < CPUS; cpu++) {
		assert_int_equal(machine.opened[cpu], wanted[cpu]);
		assert_int_equal(machine.rings[cpu], wanted[cpu] ? 1 : 0);
	}
	assert_int_equal(machine.enabled, cpu0 + cpu1 + cpu2 + cpu3);
}

static void cpus_that_come_are_sampled(void **state)
{
	(void)state;
	follow(false);
	assert_opened(1, 1, 0, 0);
	set_online("0-3");
	follow(false);
	assert_opened(1, 1, 1, 1);
	follow(false);
	assert_opened(1, 1, 1, 1);
}

/* In its old ring, whose records may not be read yet. */
static void cpu_that_is_back_is_sampled(void **state)
{
	(void)state;
	set_online("0");
	follow(false);
	follow(false);
	assert_int_equal(fcntl(machine.timers[1], F_GETFD), -1);
	assert_opened(1, 1, 0, 0);
	set_online("0-1");
	follow(false);
	assert_opened(1, 2, 0, 0);
	/* The first one, too. */
	set_online("1");
	follow(false);
	assert_int_equal(fcntl(machine.timers[0], F_GETFD), -1);
	set_online("0-1");
	follow(false);
	assert_opened(2, 2, 0, 0);
}

/* Nobody has seen it offline: a suspend of the machine stops this process, too. */
static void events_that_do_not_count_are_opened_again(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < COUNTS; i++)
		follow(true);
	assert_opened(1, 1, 0, 0);
	/* Without counts. */
	follow(false);
	assert_opened(1, 1, 0, 0);
	follow(true);
	assert_opened(2, 2, 0, 0);
	/* Paused events do not count either. */
	perf_events_enable(events, false);
	for (unsigned int i = 0; i < 2 * COUNTS; i++)
		follow(true);
	assert_opened(2, 2, 0, 0);
}

/* Its count is there, but the same as before. */
static void event_that_stands_still_is_opened_again(void **state)
{
	const uint64_t same = 2;

	(void)state;
	follow(true);
	follow(true);
	assert_int_equal(pwrite(machine.timers[0], &same, sizeof(same), 2 * sizeof(same)),
			 sizeof(same));
	follow(true);
	assert_opened(2, 1, 0, 0);
}

static void only_chosen_cpus_are_sampled(void **state)
{
	(void)state;
	assert_int_equal(cpulist_parse("0-2", &cpus, NULL), 0);
	set_online("0-3");
	follow(false);
	assert_opened(1, 1, 1, 0);
}

static void what_fails_is_tried_again(void **state)
{
	(void)state;
	set_online("0-2");
	machine.is_offline[2] = true;
	follow(false);
	assert_int_equal(machine.opened[2], 0);
	machine.is_offline[2] = false;
	follow(false);
	assert_int_equal(machine.opened[2], 1);
	assert_int_equal(machine.rings[2], 1);
}

/* A capability is not enough at each level. */
static void refusals_say_what_helps(void **state)
{
	static const uint32_t tid = 1;
	struct perf_events *refused = NULL;

	(void)state;
	machine.paranoid = "2\n";
	assert_int_equal(perf_events_open(&refused, &config, &error), -EACCES);
	assert_string_equal(error.text,
			    "perf events: permission denied "
			    "(kernel.perf_event_paranoid is 2): sampling the whole "
			    "system needs root or CAP_PERFMON, or a level of 0 or less");
	/* A remedy names only what the subcommand has. */
	config.has_target_options = true;
	assert_int_equal(perf_events_open(&refused, &config, &error), -EACCES);
	assert_non_null(strstr(error.text, "or less; name a -p PID of your own instead"));
	config.has_command = true;
	assert_int_equal(perf_events_open(&refused, &config, &error), -EACCES);
	assert_non_null(strstr(error.text, "; name a COMMAND without -a and -C, or -p "
					   "PID, of your own instead"));
	machine.paranoid = "4\n";
	assert_int_equal(perf_events_open(&refused, &config, &error), -EACCES);
	assert_non_null(strstr(error.text, "is 4, "));
	assert_non_null(strstr(error.text, "perf_event_paranoid=2', CAP_PERFMON is enough"));
	config.tids = &tid;
	config.tid_count = 1;
	assert_int_equal(perf_events_open(&refused, &config, &error), -EACCES);
	assert_non_null(strstr(error.text, "=2', your own processes need no capability"));
	assert_null(refused);
}

static void lack_of_cpus_names_what_is_online(void **state)
{
	struct perf_events *refused = NULL;

	(void)state;
	assert_int_equal(cpulist_parse("2-3", &cpus, NULL), 0);
	assert_int_equal(perf_events_open(&refused, &config, &error), -ENODEV);
	assert_string_equal(error.text, "perf events: CPU 2-3 is not online; online: 0-1");
	assert_null(refused);
}

/* Their events are the kernel's to move. */
static void events_of_threads_stay(void **state)
{
	static const uint32_t tid = 1;

	(void)state;
	perf_events_close(events);
	config.tids = &tid;
	config.tid_count = 1;
	machine.target_count = 0;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_int_equal(machine.target_count, 2);
	/* Each has its first count, and then its second one. */
	assert_int_equal(perf_events_cpu_time(events), 2);
	assert_int_equal(perf_events_cpu_time(events), 4);
	set_online("0-3");
	follow(true);
	assert_int_equal(machine.opened[2], 0);
}

/* It is of all threads, and not known of some. */
static void events_of_cpus_have_no_cpu_time(void **state)
{
	(void)state;
	assert_int_equal(perf_events_cpu_time(events), 0);
}

/* What these events count has the time in kernel mode, in which they never fire. */
static void events_without_the_kernel_have_no_cpu_time(void **state)
{
	static const uint32_t tid = 1;

	(void)state;
	perf_events_close(events);
	machine.paranoid = "2\n";
	config.tids = &tid;
	config.tid_count = 1;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_true(perf_events_exclude_kernel(events));
	assert_int_equal(perf_events_cpu_time(events), 0);
}

/* Opens the events of the config on one CPU alone. Returns 0 or a negative errno value. */
static int open_again(void)
{
	perf_events_close(events);
	events = NULL;
	set_online("0");
	machine.target_count = 0;
	return perf_events_open(&events, &config, &error);
}

/* A thread with two events would have twice its CPU time. */
static void thread_of_two_targets_has_one_event(void **state)
{
	const pid_t child = fork();
	const uint32_t self = (uint32_t)getpid(), other = 1, both[] = {self, self},
		       two[] = {self, (uint32_t)child}, mixed[] = {self, other, other};

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	config.pids = two;
	config.pid_count = 2;
	assert_int_equal(open_again(), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(machine.target_count, 2);
	assert_int_equal(machine.targets[1], child);
	config.pids = both;
	config.pid_count = 2;
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 1);
	config.tids = mixed;
	config.tid_count = 3;
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 2);
	/* The event of the process, which is inherited, comes first. */
	assert_int_equal(machine.targets[0], self);
	assert_int_equal(machine.targets[1], other);
}

static void write_cgroups(void)
{
	char mount[PATH_MAX + 32];

	run("mkdir -p '%s' '%s'", in_sandbox("cgroup/a/b"), in_sandbox("cgroup/ab"));
	snprintf(mount, sizeof(mount), "cgroup2 %s/cgroup cgroup2 rw 0 0\n", sandbox);
	write_text(in_sandbox("mounts"), mount);
}

static void control_group_below_another_has_no_event(void **state)
{
	static const char *const paths[] = {"a/b", "/a", "a/", "ab", "a/b/.."},
				 *const reversed[] = {"a", "a/b"};
	static const uint32_t tid = 1;

	make_sandbox(state);
	write_cgroups();
	config.cgroups = paths;
	config.cgroup_count = 1;
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 1);
	/* "a" comes first. */
	config.cgroups = reversed;
	config.cgroup_count = 2;
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 1);
	config.cgroups = paths;
	/* "a" and "ab" */
	config.cgroup_count = sizeof(paths) / sizeof(paths[0]);
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 2);
	/* CPUs that come have events of the same groups. */
	set_online("0-1");
	follow(false);
	assert_int_equal(machine.target_count, 4);
	config.tids = &tid;
	config.tid_count = 1;
	assert_int_equal(open_again(), -EINVAL);
	assert_non_null(strstr(error.text, "-G can't be combined with -p or -t"));
	remove_sandbox(state);
}

static void close_events(void)
{
	perf_events_close(events);
	events = NULL;
	memset(&machine, 0, sizeof(machine));
	set_online("0-1");
}

/* Opens the events with sizes of copies that are adapted, from 8 KiB on. */
static void open_adapted(void)
{
	if (events)
		close_events();
	ring_size = 1u << 20;
	config.ring_size = ring_size;
	config.stack_copy = 8 << 10;
	config.stack_copy_max = 32 << 10;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
}

/* Returns the size of the timer of a CPU that is enabled; 0: none is. There is one at most. */
static uint32_t copy_of(int cpu)
{
	uint32_t copy = 0;

	for (int fd = 0; fd < (int)FDS; fd++) {
		if (machine.events[fd].cpu != cpu || !machine.events[fd].is_enabled ||
		    fcntl(fd, F_GETFD) < 0)
			continue;
		if (machine.events[fd].reports_mappings) {
			assert_int_equal(machine.events[fd].copy, 0);
			continue;
		}
		assert_int_equal(copy, 0);
		copy = machine.events[fd].copy;
	}
	return copy;
}

/* Returns the number of events of a CPU that report mappings now. */
static unsigned int tracking_events_of(int cpu)
{
	unsigned int count = 0;

	for (int fd = 0; fd < (int)FDS; fd++)
		count += machine.events[fd].cpu == cpu && machine.events[fd].is_enabled &&
			 machine.events[fd].reports_mappings && fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void note(uint32_t cpu, unsigned int stacks, uint64_t need)
{
	for (unsigned int i = 0; i < stacks; i++)
		perf_events_note_stack(events, cpu, need);
	perf_events_adapt(events);
}

/* Each CPU has its size. Mappings are reported all the time. */
static void copies_follow_what_stacks_need(void **state)
{
	(void)state;
	open_adapted();
	assert_true(perf_events_are_adapted(events));
	assert_int_equal(perf_events_stack_copy(events), 32 << 10);
	assert_int_equal(machine.opened[0], SIZES + 1);
	assert_int_equal(copy_of(0), 0);
	perf_events_enable(events, true);
	assert_int_equal(copy_of(0), 8 << 10);
	/* No right is needed from here on. */
	machine.paranoid = "4\n";
	note(1, 300, 1000);
	assert_int_equal(copy_of(0), 8 << 10);
	assert_int_equal(copy_of(1), 2 << 10);
	note(0, 9, 9000);
	assert_int_equal(copy_of(0), 16 << 10);
	assert_int_equal(copy_of(1), 2 << 10);
	assert_int_equal(tracking_events_of(0), 1);
	assert_int_equal(tracking_events_of(1), 1);
	/* Its ring was full. */
	perf_events_note_lost(events, 0);
	note(0, 1, 9000);
	assert_int_equal(copy_of(0), 8 << 10);
	/* There is no such CPU. */
	perf_events_note_lost(events, 77);
	note(77, 300, 1000);
	/* While it is paused, nothing is enabled. */
	perf_events_enable(events, false);
	assert_int_equal(copy_of(1), 0);
	note(1, 9, 9000);
	assert_int_equal(copy_of(1), 0);
	perf_events_enable(events, true);
	assert_int_equal(copy_of(1), 8 << 10);
}

/* The number of a CPU is not the index of its ring. */
static void sizes_are_of_the_chosen_cpus(void **state)
{
	(void)state;
	close_events();
	set_online("0-3");
	assert_int_equal(cpulist_parse("1-2", &cpus, NULL), 0);
	open_adapted();
	perf_events_enable(events, true);
	note(1, 300, 1000);
	assert_int_equal(copy_of(1), 2 << 10);
	assert_int_equal(copy_of(2), 8 << 10);
	note(2, 9, 9000);
	assert_int_equal(copy_of(1), 2 << 10);
	assert_int_equal(copy_of(2), 16 << 10);
}

static void cpus_that_come_are_adapted(void **state)
{
	(void)state;
	open_adapted();
	perf_events_enable(events, true);
	note(1, 300, 1000);
	set_online("0");
	follow(false);
	assert_int_equal(copy_of(1), 0);
	assert_int_equal(tracking_events_of(1), 0);
	set_online("0-2");
	follow(false);
	assert_int_equal(copy_of(1), 2 << 10);
	assert_int_equal(copy_of(2), 8 << 10);
	assert_int_equal(tracking_events_of(2), 1);
	note(2, 300, 1000);
	assert_int_equal(copy_of(2), 2 << 10);
}

/* Between the events that are opened on it. */
static void cpu_that_leaves_has_no_event(void **state)
{
	(void)state;
	close_events();
	machine.leaves_after[1] = 3;
	open_adapted();
	perf_events_enable(events, true);
	assert_int_equal(copy_of(0), 8 << 10);
	assert_int_equal(tracking_events_of(1), 0);
	machine.leaves_after[1] = 0;
	follow(false);
	assert_int_equal(copy_of(1), 8 << 10);
	assert_int_equal(tracking_events_of(1), 1);
}

/* Timers that are off do not count, and are not dead. */
static void dead_timers_of_a_size_are_opened_again(void **state)
{
	(void)state;
	open_adapted();
	perf_events_enable(events, true);
	for (unsigned int i = 0; i < COUNTS; i++)
		follow(true);
	assert_int_equal(machine.opened[0], SIZES + 1);
	follow(true);
	assert_int_equal(machine.opened[0], 2 * (SIZES + 1));
	assert_int_equal(copy_of(0), 8 << 10);
	assert_int_equal(tracking_events_of(0), 1);
}

/* The enabled timer of CPU 1 comes earlier among its timers than the one of CPU 0. */
static void dead_timers_of_smaller_sizes_are_opened_again(void **state)
{
	(void)state;
	open_adapted();
	perf_events_enable(events, true);
	note(1, 300, 1000);
	for (unsigned int i = 0; i < COUNTS; i++)
		follow(true);
	follow(true);
	assert_int_equal(machine.opened[0], 2 * (SIZES + 1));
	assert_int_equal(machine.opened[1], 2 * (SIZES + 1));
	assert_int_equal(copy_of(0), 8 << 10);
	assert_int_equal(copy_of(1), 2 << 10);
}

static void sizes_that_are_given_or_inherited_stay(void **state)
{
	const uint32_t self = (uint32_t)getpid();

	(void)state;
	config.stack_copy_given = true;
	open_adapted();
	assert_false(perf_events_are_adapted(events));
	assert_int_equal(perf_events_stack_copy(events), 8 << 10);
	perf_events_enable(events, true);
	note(0, 300, 1000);
	assert_int_equal(machine.opened[0], 1);
	config.stack_copy_given = false;
	config.pids = &self;
	config.pid_count = 1;
	open_adapted();
	assert_false(perf_events_are_adapted(events));
	assert_int_equal(machine.opened[0], 1);
}

/* One event for each CPU is better than none. */
static void too_many_files_leave_one_size(void **state)
{
	(void)state;
	open_adapted();
	perf_events_close(events);
	events = NULL;
	machine.limit = machine.target_count + 5;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_false(perf_events_are_adapted(events));
	assert_int_equal(perf_events_stack_copy(events), 8 << 10);
	perf_events_enable(events, true);
	/* The timer itself. */
	assert_int_equal(tracking_events_of(0), 1);
}

/* Mapped files need most of them. */
static void few_files_leave_one_size(void **state)
{
	(void)state;
	open_adapted();
	perf_events_close(events);
	events = NULL;
	machine.files = 8 * (SIZES + 1);
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_true(perf_events_are_adapted(events));
	perf_events_close(events);
	events = NULL;
	machine.files--;
	machine.target_count = 0;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_false(perf_events_are_adapted(events));
	assert_int_equal(machine.target_count, 2);
	assert_int_equal(perf_events_stack_copy(events), 8 << 10);
}

/* A ring has room for a number of the largest copies. */
static void small_rings_bound_the_sizes(void **state)
{
	(void)state;
	open_adapted();
	perf_events_close(events);
	config.ring_size = ring_size = 512u << 10;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_int_equal(perf_events_stack_copy(events), 16 << 10);
	/* Also the first size, unless the user has given it. */
	perf_events_close(events);
	config.stack_copy = 32 << 10;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_int_equal(perf_events_stack_copy(events), 16 << 10);
	perf_events_close(events);
	config.stack_copy_given = true;
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	assert_int_equal(perf_events_stack_copy(events), 32 << 10);
}

/* What the events ask for, with the parts of stacks that are chosen. */
static struct perf_event_attr expected_attr(int kind)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = kind == TIMER ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_ALWAYS,
		.disabled = kind != RING,
		.exclude_kernel = kind != TIMER,
		.exclude_hv = 1,
		.exclude_idle = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = ring_size / 4,
	};

	if (kind != RING)
		attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
	if (kind == TIMER) {
		attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
		attr.sample_period = config.period_ns;
	}
	return attr;
}

static void expect_attr(int kind, const struct perf_event_attr *expected)
{
	assert_memory_equal(&machine.attrs[kind], expected, sizeof(*expected));
}

static void events_ask_for_the_parts_of_stacks(void **state)
{
	struct perf_event_attr attr = expected_attr(RING);

	(void)state;
	expect_attr(RING, &attr);
	attr = expected_attr(TIMER);
	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = perf_record_registers;
	expect_attr(TIMER, &attr);
	/* Without the kernel's part, and with copies of stacks of one size. */
	config.parts = STACKBEAT_PART_USER;
	config.stack_copy = 4096;
	config.stack_copy_given = true;
	assert_int_equal(open_again(), 0);
	attr.exclude_callchain_kernel = 1;
	attr.sample_type |= PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = 4096;
	expect_attr(TIMER, &attr);
	/* Without the part of the user, no copy is needed. */
	config.parts = STACKBEAT_PART_KERNEL;
	assert_int_equal(open_again(), 0);
	attr = expected_attr(TIMER);
	attr.exclude_callchain_user = 1;
	expect_attr(TIMER, &attr);
	/* With sizes that are adapted, another event reports mappings. */
	config.parts = STACKBEAT_PARTS_ALL;
	config.stack_copy_given = false;
	open_adapted();
	attr = expected_attr(TRACKING);
	expect_attr(TRACKING, &attr);
	attr = expected_attr(TIMER);
	attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 0;
	attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = perf_record_registers;
	attr.sample_stack_user = 32 << 10; /* opened last */
	expect_attr(TIMER, &attr);
}

/* As large as the user may lock memory for, down to a size that has room for some samples. */
static void rings_are_as_large_as_may_be_locked(void **state)
{
	static const size_t sizes[] = {4 * RING_SIZE, 2 * RING_SIZE, RING_SIZE};

	(void)state;
	config.ring_size = ring_size = 4 * RING_SIZE;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		machine.lockable = 2 * sizes[i] - 1;
		assert_int_equal(open_again(), 0);
		assert_int_equal(machine.attrs[RING].wakeup_watermark, sizes[i] / 4);
	}
	machine.lockable = 1;
	assert_int_equal(open_again(), -EPERM);
	assert_string_equal(error.text,
			    "perf events: too little memory may be locked for a ring of 64 KiB for "
			    "each CPU: raise kernel.perf_event_mlock_kb or the limit (ulimit -l)");
	config.has_target_options = true;
	assert_int_equal(open_again(), -EPERM);
	assert_non_null(strstr(error.text, "(ulimit -l), or record fewer CPUs (-C)"));
}

/* Its files are closed, and no other ring is sampled for it. */
static void cpu_without_a_ring_is_not_sampled(void **state)
{
	(void)state;
	machine.is_unwatched = true;
	set_online("0-2");
	follow(false);
	assert_int_equal(machine.opened[2], 0);
	assert_int_equal(machine.opened[0], 1);
	assert_int_equal(open_again(), -ENOSPC);
	assert_null(events);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cpus_that_come_are_sampled),
		TEST(cpu_that_is_back_is_sampled),
		TEST(events_that_do_not_count_are_opened_again),
		TEST(event_that_stands_still_is_opened_again),
		TEST(only_chosen_cpus_are_sampled),
		TEST(what_fails_is_tried_again),
		TEST(refusals_say_what_helps),
		TEST(lack_of_cpus_names_what_is_online),
		TEST(events_of_threads_stay),
		TEST(events_of_cpus_have_no_cpu_time),
		TEST(events_without_the_kernel_have_no_cpu_time),
		TEST(thread_of_two_targets_has_one_event),
		TEST(control_group_below_another_has_no_event),
		TEST(copies_follow_what_stacks_need),
		TEST(sizes_are_of_the_chosen_cpus),
		TEST(cpus_that_come_are_adapted),
		TEST(cpu_that_leaves_has_no_event),
		TEST(dead_timers_of_a_size_are_opened_again),
		TEST(dead_timers_of_smaller_sizes_are_opened_again),
		TEST(sizes_that_are_given_or_inherited_stay),
		TEST(too_many_files_leave_one_size),
		TEST(few_files_leave_one_size),
		TEST(small_rings_bound_the_sizes),
		TEST(events_ask_for_the_parts_of_stacks),
		TEST(rings_are_as_large_as_may_be_locked),
		TEST(cpu_without_a_ring_is_not_sampled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
