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
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox.h"
#include "source/perf_events.h"

#define CPUS 4u
#define RING_SIZE (64u << 10)
#define COUNTS 3u /* after which an event is dead, unless it is given more */

static struct {
	char online[32]; /* as the kernel writes it */
	bool is_offline[CPUS];
	int timers[CPUS]; /* the last event of the CPU that fires */
	unsigned int opened[CPUS], rings[CPUS], enabled;
	int targets[16]; /* of the events that fire, in their order; -1: a control group or all */
	size_t target_count;
	const char *paranoid; /* the level of a kernel that refuses; NULL: it does not */
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
	if (attr->config == PERF_COUNT_SW_DUMMY) {
		machine.rings[cpu]++;
		fd = memfd_create("ring", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, 4096 + RING_SIZE), 0);
		return fd;
	}
	if (machine.paranoid) {
		errno = EACCES;
		return -1;
	}
	if (machine.is_offline[cpu]) {
		errno = ENODEV;
		return -1;
	}
	assert_true(machine.target_count < sizeof(machine.targets) / sizeof(machine.targets[0]));
	machine.targets[machine.target_count++] =
		values[4] & PERF_FLAG_PID_CGROUP ? -1 : (int)values[1];
	machine.opened[cpu]++;
	machine.timers[cpu] = file_of_counts(COUNTS);
	return machine.timers[cpu];
}

int ioctl(int fd, unsigned long request, ...)
{
	(void)fd;
	machine.enabled += request == PERF_EVENT_IOC_ENABLE;
	return 0;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	(void)epoll, (void)operation, (void)fd, (void)event;
	return 0;
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
	assert_non_null(strstr(error.text, "; name a COMMAND or -p PID of your own instead"));
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
	assert_int_equal(perf_events_open(&events, &config, &error), 0);
	set_online("0-3");
	follow(true);
	assert_int_equal(machine.opened[2], 0);
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
	const uint32_t self = (uint32_t)getpid(), other = 1, both[] = {self, self},
		       mixed[] = {self, other, other};

	(void)state;
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
	static const char *const paths[] = {"a/b", "/a", "a/", "ab", "a/b/.."};
	static const uint32_t tid = 1;

	make_sandbox(state);
	write_cgroups();
	config.cgroups = paths;
	config.cgroup_count = 1;
	assert_int_equal(open_again(), 0);
	assert_int_equal(machine.target_count, 1);
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

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cpus_that_come_are_sampled),
		TEST(cpu_that_is_back_is_sampled),
		TEST(events_that_do_not_count_are_opened_again),
		TEST(only_chosen_cpus_are_sampled),
		TEST(what_fails_is_tried_again),
		TEST(refusals_say_what_helps),
		TEST(lack_of_cpus_names_what_is_online),
		TEST(events_of_threads_stay),
		TEST(thread_of_two_targets_has_one_event),
		TEST(control_group_below_another_has_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
