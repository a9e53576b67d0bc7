// SPDX-License-Identifier: GPL-2.0
#include "source/perf_events.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/error.h"
#include "lib/file_limit.h"
#include "source/cgroup.h"
#include "source/copy_size.h"
#include "source/perf_process.h"
#include "source/perf_rings.h"

/* Bytes of a ring below which it is not worth a session. */
#define PERF_RING_SIZE_MIN (64u << 10)
/* Copies of stacks that a ring has room for, unless their size is given. */
#define RING_COPIES_MIN 32u
#define STACK_COPY_MIN (8u << 10)
/* Events of more than one size take one in four of the files that may be open, at most. */
#define FILES_SHARE 4u
/* Kernels of distributions have higher levels. */
#define PARANOID_MAX 2
#define CPUS_TEXT_MAX 128u /* of a list of CPUs in a message */
#define PARANOID "/proc/sys/kernel/perf_event_paranoid"

enum event_kind {
	EVENT_RING, /* has the ring of a CPU */
	EVENT_TIMER, /* takes samples */
	EVENT_TRACKING, /* reports mappings and tasks, if timers do not */
};

/* An event of a target. */
struct perf_timer {
	int fd;
	size_t ring; /* index */
	uint64_t count; /* ns, when it was read last */
	enum event_kind kind;
	uint8_t step; /* of struct copy_size */
};

struct perf_events {
	const struct perf_events_config *config; /* `chosen` */
	struct perf_events_config chosen;
	const char *cgroups[STACKBEAT_CGROUPS_MAX]; /* of `chosen`: none is below another one */
	uint32_t *tids; /* of the threads that have events */
	size_t tid_count, tid_capacity;
	struct perf_rings rings; /* each of an event of this process that never fires */
	struct perf_timer *timers;
	size_t timer_count, timer_capacity;
	int epoll;
	uint32_t stack_copy, stack_copy_max; /* bytes */
	/*
	 * Each target has timers of all sizes, of which one is enabled, so that a change needs no
	 * rights. None of them reports mappings, as it would be off at times.
	 */
	bool adapts;
	struct copy_size *copies; /* if it adapts, the size of each ring */
	size_t copy_capacity;
	bool excludes_kernel;
	bool inherits;
	bool counts_threads; /* and not CPUs */
	bool is_enabled;
	struct cpulist followed; /* CPUs that were online, when all of them had events */
};

/* The source of the fields: perf_event_open(2). */
static void set_attr(const struct perf_events *events, enum event_kind kind, unsigned int step,
		     struct perf_event_attr *attr)
{
	const struct perf_events_config *config = events->config;
	const bool fires = kind == EVENT_TIMER;
	const bool user = config->parts & STACKBEAT_PART_USER;

	*attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(*attr),
		.config = fires ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY,
		.sample_type = fires ? events->rings.sample_type : PERF_SAMPLE_ALWAYS,
		.disabled = kind != EVENT_RING,
		.inherit = fires && events->inherits,
		.exclude_kernel = events->excludes_kernel || !fires,
		.exclude_hv = 1,
		.exclude_idle = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = events->rings.size / 4,
	};
	if (kind == EVENT_TRACKING || (fires && !events->adapts))
		attr->mmap = attr->mmap2 = attr->comm = attr->comm_exec = attr->task = 1;
	if (!fires)
		return;
	attr->sample_period = config->period_ns;
	attr->exclude_callchain_kernel =
		events->excludes_kernel || !(config->parts & STACKBEAT_PART_KERNEL);
	attr->exclude_callchain_user = !user;
	if (events->rings.sample_type & PERF_SAMPLE_REGS_USER)
		attr->sample_regs_user = perf_record_registers;
	if (events->rings.sample_type & PERF_SAMPLE_STACK_USER)
		attr->sample_stack_user =
			events->adapts ? copy_size_bytes(step) : events->stack_copy;
}

/* `step`: of a timer. Returns an fd, or a negative errno value. */
static int open_event(const struct perf_events *events, enum event_kind kind, unsigned int step,
		      int pid, uint32_t cpu, unsigned long flags)
{
	struct perf_event_attr attr;
	int fd;

	set_attr(events, kind, step, &attr);
	fd = (int)syscall(SYS_perf_event_open, &attr, pid, (int)cpu, -1,
			  flags | PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Messages */

static int read_paranoid(void)
{
	FILE *file = fopen(PARANOID, "re");
	char text[16] = "-1";

	if (file && !fgets(text, sizeof(text), file))
		strcpy(text, "-1");
	if (file)
		fclose(file);
	return (int)strtol(text, NULL, 10);
}

/* What a user may sample who may not sample the whole system. */
static const char *own_processes_remedy(const struct perf_events_config *config)
{
	if (config->has_command)
		return "; name a COMMAND without -a and -C, or -p PID, of your own instead";
	return config->has_target_options ? "; name a -p PID of your own instead" : "";
}

/* The CPUs that are online are what the user can choose from. */
static int offline_error(const struct cpulist *chosen, struct error *error)
{
	char text[2][CPUS_TEXT_MAX];
	struct cpulist online;

	cpulist_online("", &online);
	cpulist_format(chosen, text[0], sizeof(text[0]));
	cpulist_format(&online, text[1], sizeof(text[1]));
	return error_set(error, ENODEV, "perf events: CPU %s is not online; online: %s", text[0],
			 text[1]);
}

static int open_error(const struct perf_events *events, int err, struct error *error)
{
	const struct perf_events_config *config = events->config;
	const bool all = !config->pid_count && !config->tid_count;
	const int paranoid = read_paranoid();

	switch (err) {
	case -EACCES:
	case -EPERM:
		if (paranoid > PARANOID_MAX)
			return error_set(
				error, -err,
				"perf events: permission denied (kernel.perf_event_paranoid is %d, "
				"at which kernels of distributions may ask for CAP_SYS_ADMIN): "
				"with 'sysctl kernel.perf_event_paranoid=2', %s",
				paranoid,
				all ? "CAP_PERFMON is enough"
				    : "your own processes need no capability");
		return error_set(
			error, -err,
			"perf events: permission denied (kernel.perf_event_paranoid is "
			"%d): %s needs root or CAP_PERFMON%s%s",
			paranoid, all ? "sampling the whole system" : "sampling",
			all ? ", or a level of 0 or less" : "",
			all ? own_processes_remedy(config)
			    : ", or your own processes and a level of 2 or less; a container "
			      "may forbid it, too");
	case -ENODEV:
		return offline_error(config->cpus, error);
	case -ENOSYS:
		return error_set(error, ENOSYS,
				 "perf events: the kernel has none, or a container forbids them");
	case -ESRCH:
		return error_set(error, ESRCH, "perf events: there is no such process or thread");
	case -EMFILE:
		return error_set(
			error, EMFILE,
			"perf events: too many files are open: an event takes one for each "
			"thread and CPU; raise the limit (ulimit -n)");
	default:
		return error_errno(error, -err, "perf events: can't open them");
	}
}

/* Rings */

/* Opens the ring of a CPU. Returns 0 or a negative errno value; -ENODEV: the CPU is offline. */
static int perf_ring_open(struct perf_events *events, uint32_t cpu)
{
	struct epoll_event watch = {.events = EPOLLIN};
	int fd, err;

	if (array_reserve(&events->copies, &events->copy_capacity, events->rings.count, 1,
			  sizeof(*events->copies)))
		return -ENOMEM;
	fd = open_event(events, EVENT_RING, 0, 0, cpu, 0);
	if (fd < 0)
		return fd;
	err = perf_rings_add(&events->rings, fd, cpu);
	if (!err && epoll_ctl(events->epoll, EPOLL_CTL_ADD, fd, &watch)) {
		err = -errno;
		perf_rings_remove(&events->rings, events->rings.count - 1);
	}
	return err;
}

/* Opens a ring for each CPU that is sampled. Returns 0 or a negative errno value. */
static int open_ring_of_each_cpu(struct perf_events *events, const struct cpulist *online)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	for (uint32_t cpu = 0; cpu < (uint32_t)cpus; cpu++) {
		int err;

		if (!cpulist_has(events->config->cpus, cpu) || !cpulist_has(online, cpu))
			continue;
		err = perf_ring_open(events, cpu);
		if (err && err != -ENODEV)
			return err;
	}
	return events->rings.count ? 0 : -ENODEV;
}

/* Opens the rings, all of one size: smaller ones if the user may not lock so much memory. */
static int open_rings(struct perf_events *events, struct error *error)
{
	struct cpulist online;
	int err;

	cpulist_online("", &online);
	events->rings.size = events->config->ring_size;
	for (;;) {
		err = open_ring_of_each_cpu(events, &online);
		if (!err)
			return 0;
		/* Without rings, targets are not tried again. */
		perf_rings_clear(&events->rings);
		if (err != -ENOBUFS)
			return open_error(events, err, error);
		if (events->rings.size / 2 < PERF_RING_SIZE_MIN)
			break;
		events->rings.size /= 2;
	}
	return error_set(error, EPERM,
			 "perf events: too little memory may be locked for a ring of %u KiB for "
			 "each CPU: raise kernel.perf_event_mlock_kb or the limit (ulimit -l)%s",
			 events->rings.size >> 10,
			 events->config->has_target_options ? ", or record fewer CPUs (-C)" : "");
}

/* A ring that is full of few large copies loses samples while the reader waits for a CPU. */
static void fit_stack_copy(struct perf_events *events)
{
	while (!events->config->stack_copy_given && events->stack_copy > STACK_COPY_MIN &&
	       events->rings.size / RING_COPIES_MIN < events->stack_copy)
		events->stack_copy /= 2;
	events->stack_copy_max = MAX(events->config->stack_copy_max, events->stack_copy);
	while (events->stack_copy_max > events->stack_copy &&
	       events->rings.size / RING_COPIES_MIN < events->stack_copy_max)
		events->stack_copy_max /= 2;
}

/* Whether timers of all sizes leave most of the files that may be open to mapped files. */
static bool sizes_fit_file_limit(const struct perf_events *events)
{
	const size_t targets = events->rings.count * MAX(events->config->cgroup_count, 1u);
	size_t each = 1; /* the tracking event */

	for (unsigned int step = 0; copy_size_bytes(step) <= events->stack_copy_max; step++)
		each++;
	return targets <= file_limit() / FILES_SHARE / each;
}

/*
 * Sizes of whole CPUs are adapted. A thread would inherit each event that it is not sampled by,
 * which makes it slower to start.
 */
static void choose_adapting(struct perf_events *events)
{
	const struct perf_events_config *config = events->config;

	events->adapts = events->rings.sample_type & PERF_SAMPLE_STACK_USER &&
			 !config->stack_copy_given && !config->pid_count && !config->tid_count &&
			 sizes_fit_file_limit(events);
	for (size_t i = 0; i < events->rings.count && events->adapts; i++)
		copy_size_init(&events->copies[i], events->stack_copy, events->stack_copy_max);
}

/* Targets */

/*
 * Opens an event of a target on a CPU, and lets it write into the CPU's ring. Returns 0 or a
 * negative errno value; -ENODEV: the CPU is offline.
 */
static int open_timer(struct perf_events *events, enum event_kind kind, unsigned int step,
		      int target, size_t ring, unsigned long flags)
{
	int fd;

	if (array_reserve(&events->timers, &events->timer_capacity, events->timer_count, 1,
			  sizeof(*events->timers)))
		return -ENOMEM;
	fd = open_event(events, kind, step, target, events->rings.items[ring].cpu, flags);
	if (fd < 0)
		return fd;
	events->timers[events->timer_count++] =
		(struct perf_timer){.fd = fd, .ring = ring, .kind = kind, .step = (uint8_t)step};
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, events->rings.items[ring].fd) ? -errno : 0;
}

static void close_timers_of_ring(struct perf_events *events, size_t ring)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->timer_count; i++) {
		if (events->timers[i].ring != ring)
			events->timers[kept++] = events->timers[i];
		else
			close(events->timers[i].fd);
	}
	events->timer_count = kept;
}

/* Opens the events of a target on a CPU, as open_timer(). */
static int open_timers(struct perf_events *events, int target, size_t ring, unsigned long flags)
{
	int err;

	if (!events->adapts)
		return open_timer(events, EVENT_TIMER, 0, target, ring, flags);
	err = open_timer(events, EVENT_TRACKING, 0, target, ring, flags);
	for (unsigned int step = 0; copy_size_bytes(step) <= events->stack_copy_max && !err; step++)
		err = open_timer(events, EVENT_TIMER, step, target, ring, flags);
	return err;
}

/* Opens one on each CPU. Returns 0 or a negative errno value; -ENODEV: all CPUs are offline. */
static int open_target(struct perf_events *events, int target, unsigned long flags)
{
	bool is_open = false;

	for (size_t i = 0; i < events->rings.count; i++) {
		int err = open_timers(events, target, i, flags);

		if (err && err != -ENODEV)
			return err;
		/* It went offline in between: what it has would never count, and hide that. */
		if (err && events->adapts)
			close_timers_of_ring(events, i);
		is_open |= !err;
	}
	return is_open ? 0 : -ENODEV;
}

static bool perf_events_has_thread(const struct perf_events *events, uint32_t tid)
{
	for (size_t i = 0; i < events->tid_count; i++) {
		if (events->tids[i] == tid)
			return true;
	}
	return false;
}

/*
 * Opens the events of a thread, unless it has some: it would be counted twice. Returns 0 or a
 * negative errno value.
 */
static int open_thread(struct perf_events *events, uint32_t tid)
{
	int err;

	if (perf_events_has_thread(events, tid))
		return 0;
	if (array_reserve(&events->tids, &events->tid_capacity, events->tid_count, 1,
			  sizeof(*events->tids)))
		return -ENOMEM;
	err = open_target(events, (int)tid, 0);
	if (!err)
		events->tids[events->tid_count++] = tid;
	return err;
}

/* The threads of a process that is opened. */
struct process_threads {
	struct perf_events *events;
	size_t alive;
};

/* A thread that has ended since it was listed is none. */
static int open_listed_thread(uint32_t tid, void *arg)
{
	struct process_threads *threads = arg;
	int err = open_thread(threads->events, tid);

	threads->alive += !err;
	return err == -ESRCH ? 0 : err;
}

static int open_process(struct perf_events *events, uint32_t pid)
{
	struct process_threads threads = {.events = events};
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	err = perf_process_each(path, open_listed_thread, &threads);
	if (err == -ENOENT)
		return -ESRCH;
	return !err && !threads.alive ? -ESRCH : err;
}

static int open_cgroup(struct perf_events *events, const char *path, struct error *error)
{
	int fd = cgroup_open(path, error), err;

	if (fd < 0)
		return fd;
	err = open_target(events, fd, PERF_FLAG_PID_CGROUP);
	close(fd);
	return err ? open_error(events, err, error) : 0;
}

static int open_targets(struct perf_events *events, struct error *error)
{
	const struct perf_events_config *config = events->config;
	int err = 0;

	events->tid_count = 0;
	for (size_t i = 0; i < config->cgroup_count && !err; i++) {
		err = open_cgroup(events, config->cgroups[i], error);
		if (err)
			return err;
	}
	/* First: only the events of processes are inherited by what these start. */
	events->inherits = true;
	for (size_t i = 0; i < config->pid_count && !err; i++) {
		err = open_process(events, config->pids[i]);
		if (err == -ESRCH)
			return error_set(error, ESRCH, "-p %u: there is no such process",
					 config->pids[i]);
	}
	events->inherits = false;
	for (size_t i = 0; i < config->tid_count && !err; i++) {
		err = open_thread(events, config->tids[i]);
		if (err == -ESRCH)
			return error_set(error, ESRCH, "-t %u: there is no such thread",
					 config->tids[i]);
	}
	if (!config->cgroup_count && !config->pid_count && !config->tid_count)
		err = open_target(events, -1, 0);
	return err ? open_error(events, err, error) : 0;
}

/*
 * Keeps the control groups that are not below another one, whose events count for them, too.
 * Returns 0 or a negative errno value.
 */
static int choose_cgroups(struct perf_events *events, const struct perf_events_config *config,
			  struct error *error)
{
	char(*paths)[PATH_MAX] = calloc(config->cgroup_count, sizeof(*paths));
	size_t kept = 0;
	int err = paths ? 0 : error_errno(error, ENOMEM, "can't open perf events");

	for (size_t i = 0; i < config->cgroup_count && !err; i++)
		err = cgroup_resolve(config->cgroups[i], paths[i], error);
	for (size_t i = 0; i < config->cgroup_count && !err; i++) {
		bool is_counted = false;

		for (size_t j = 0; j < config->cgroup_count && !is_counted; j++)
			is_counted = j != i && cgroup_path_is_below(paths[i], paths[j]) &&
				     (j < i || strcmp(paths[i], paths[j]) != 0);
		if (!is_counted)
			events->cgroups[kept++] = config->cgroups[i];
	}
	free(paths);
	events->chosen.cgroups = events->cgroups;
	events->chosen.cgroup_count = kept;
	return err;
}

/* Copies the config: no thread is in two targets. Returns 0 or a negative errno value. */
static int choose_targets(struct perf_events *events, const struct perf_events_config *config,
			  struct error *error)
{
	events->chosen = *config;
	events->config = &events->chosen;
	if (!config->cgroup_count)
		return 0;
	/* Threads enter and leave groups, and the kernel counts each event alone. */
	if (config->pid_count || config->tid_count)
		return error_set(error, EINVAL,
				 "perf events: -G can't be combined with -p or -t: a thread "
				 "in both would be counted twice");
	return choose_cgroups(events, config, error);
}

static void close_targets(struct perf_events *events)
{
	for (size_t i = 0; i < events->timer_count; i++)
		close(events->timers[i].fd);
	events->timer_count = 0;
}

/* Where too many files are open all the same, one size for each target has to do. */
static int open_targets_within_limit(struct perf_events *events, struct error *error)
{
	int err = open_targets(events, error);

	if (err != -EMFILE || !events->adapts)
		return err;
	close_targets(events);
	events->adapts = false;
	return open_targets(events, error);
}

int perf_events_open(struct perf_events **opened, const struct perf_events_config *config,
		     struct error *error)
{
	struct perf_events *events = calloc(1, sizeof(*events));
	int err;

	if (!events)
		return error_errno(error, ENOMEM, "can't open perf events");
	err = choose_targets(events, config, error);
	if (err) {
		free(events);
		return err;
	}
	events->stack_copy = config->stack_copy;
	events->counts_threads = !config->cgroup_count && (config->pid_count || config->tid_count);
	events->rings.sample_type = PERF_SAMPLE_ALWAYS | PERF_SAMPLE_CALLCHAIN;
	if (config->parts & STACKBEAT_PART_USER)
		events->rings.sample_type |= PERF_SAMPLE_REGS_USER;
	if (config->parts & STACKBEAT_PART_USER && config->stack_copy)
		events->rings.sample_type |= PERF_SAMPLE_STACK_USER;
	/* An event for each thread and CPU. */
	raise_file_limit(FILE_LIMIT_MAX);
	events->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = events->epoll < 0 ? error_errno(error, errno, "can't open perf events")
				: open_rings(events, error);
	fit_stack_copy(events);
	choose_adapting(events);
	if (!err)
		err = open_targets_within_limit(events, error);
	/* A user may sample user mode where kernel mode is refused. */
	if ((err == -EACCES || err == -EPERM) && config->parts & STACKBEAT_PART_USER &&
	    events->rings.count) {
		close_targets(events);
		events->excludes_kernel = true;
		err = open_targets_within_limit(events, error);
	}
	if (err)
		perf_events_close(events);
	else
		*opened = events;
	return err;
}

void perf_events_close(struct perf_events *events)
{
	if (!events)
		return;
	close_targets(events);
	perf_rings_clear(&events->rings);
	if (events->epoll >= 0)
		close(events->epoll);
	free(events->timers);
	free(events->tids);
	free(events->copies);
	free(events);
}

uint64_t perf_events_sample_type(const struct perf_events *events)
{
	return events->rings.sample_type;
}

uint32_t perf_events_stack_copy(const struct perf_events *events)
{
	return events->adapts ? events->stack_copy_max : events->stack_copy;
}

bool perf_events_are_adapted(const struct perf_events *events)
{
	return events->adapts;
}

bool perf_events_exclude_kernel(const struct perf_events *events)
{
	return events->excludes_kernel;
}

/* Whether an event counts when the events are enabled. */
static bool perf_timer_is_used(const struct perf_events *events, const struct perf_timer *timer)
{
	return timer->kind == EVENT_TRACKING || !events->adapts ||
	       timer->step == events->copies[timer->ring].step;
}

void perf_events_enable(struct perf_events *events, bool enable)
{
	events->is_enabled = enable;
	for (size_t i = 0; i < events->timer_count; i++) {
		if (perf_timer_is_used(events, &events->timers[i]))
			ioctl(events->timers[i].fd,
			      enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
	}
}

uint64_t perf_events_cpu_time(const struct perf_events *events)
{
	uint64_t sum = 0, count;

	if (!events->counts_threads || events->excludes_kernel)
		return 0;
	for (size_t i = 0; i < events->timer_count; i++) {
		if (read(events->timers[i].fd, &count, sizeof(count)) == sizeof(count))
			sum += count;
	}
	return sum;
}

int perf_events_fd(const struct perf_events *events)
{
	return events->epoll;
}

/* Sizes of copies */

/* Returns the size of a CPU's copies, if it is adapted, or NULL. */
static struct copy_size *adapted_size(struct perf_events *events, uint32_t cpu)
{
	const struct perf_ring *rings = events->rings.items;

	if (!events->adapts)
		return NULL;
	/* Usually, all CPUs have rings. */
	if (cpu < events->rings.count && rings[cpu].cpu == cpu)
		return &events->copies[cpu];
	for (size_t i = 0; i < events->rings.count; i++) {
		if (rings[i].cpu == cpu)
			return &events->copies[i];
	}
	return NULL;
}

void perf_events_note_stack(struct perf_events *events, uint32_t cpu, uint64_t need)
{
	struct copy_size *size = adapted_size(events, cpu);

	if (size)
		copy_size_note(size, need);
}

void perf_events_note_lost(struct perf_events *events, uint32_t cpu)
{
	struct copy_size *size = adapted_size(events, cpu);

	if (size)
		copy_size_lost(size);
}

/*
 * Enables or disables the timers of the size that a ring has. A timer goes on where it was
 * disabled: it samples each period of the time in which it is enabled.
 */
static void enable_timers_of_ring(struct perf_events *events, size_t ring, unsigned long request)
{
	for (size_t i = 0; i < events->timer_count; i++) {
		const struct perf_timer *timer = &events->timers[i];

		if (timer->ring == ring && timer->kind == EVENT_TIMER &&
		    perf_timer_is_used(events, timer))
			ioctl(timer->fd, request, 0);
	}
}

void perf_events_adapt(struct perf_events *events)
{
	for (size_t i = 0; i < events->rings.count && events->adapts; i++) {
		struct copy_size *copy = &events->copies[i], chosen = *copy;

		if (!copy_size_choose(&chosen) || !events->is_enabled) {
			*copy = chosen;
			continue;
		}
		/* In this order, no time is sampled twice. */
		enable_timers_of_ring(events, i, PERF_EVENT_IOC_DISABLE);
		*copy = chosen;
		enable_timers_of_ring(events, i, PERF_EVENT_IOC_ENABLE);
	}
}

/* CPUs that come and go */

/*
 * When a CPU goes offline, the kernel takes its events away for good: they never count again, also
 * when the CPU is back, as after a suspend of the machine. Reading a count interrupts the CPU.
 */
static bool perf_timer_is_dead(struct perf_timer *timer)
{
	const uint64_t before = timer->count;

	return read(timer->fd, &timer->count, sizeof(timer->count)) != sizeof(timer->count) ||
	       timer->count == before;
}

static bool ring_has_timer(const struct perf_events *events, size_t ring)
{
	for (size_t i = 0; i < events->timer_count; i++) {
		if (events->timers[i].ring == ring)
			return true;
	}
	return false;
}

/* Opens the events of a CPU that came online, all or none. */
static void open_timers_of_ring(struct perf_events *events, size_t ring)
{
	const struct perf_events_config *config = events->config;
	const size_t before = events->timer_count;
	int err = 0;

	for (size_t i = 0; i < config->cgroup_count && !err; i++) {
		int fd = cgroup_open(config->cgroups[i], NULL);

		if (fd < 0)
			continue;
		err = open_timers(events, fd, ring, PERF_FLAG_PID_CGROUP);
		close(fd);
	}
	if (!config->cgroup_count)
		err = open_timers(events, -1, ring, 0);
	if (err)
		close_timers_of_ring(events, ring);
	for (size_t i = before; i < events->timer_count && events->is_enabled; i++) {
		if (perf_timer_is_used(events, &events->timers[i]))
			ioctl(events->timers[i].fd, PERF_EVENT_IOC_ENABLE, 0);
	}
}

/* Returns the index of the CPU's ring, which is new if need be; -1: there can be none. */
static ssize_t ring_of_cpu(struct perf_events *events, uint32_t cpu)
{
	for (size_t i = 0; i < events->rings.count; i++) {
		if (events->rings.items[i].cpu == cpu)
			return (ssize_t)i;
	}
	if (perf_ring_open(events, cpu))
		return -1;
	copy_size_init(&events->copies[events->rings.count - 1], events->stack_copy,
		       events->stack_copy_max);
	return (ssize_t)events->rings.count - 1;
}

/* Whether a timer of a ring, of those that are enabled, is dead. */
static bool ring_has_dead_timer(const struct perf_events *events, size_t ring)
{
	bool is_dead = false;

	for (size_t i = 0; i < events->timer_count; i++) {
		struct perf_timer *timer = &events->timers[i];

		if (timer->ring == ring && timer->kind == EVENT_TIMER &&
		    perf_timer_is_used(events, timer) && perf_timer_is_dead(timer))
			is_dead = true;
	}
	return is_dead;
}

/* Timers of whole CPUs always count. Returns whether all of them do that are enabled. */
static bool close_dead_timers(struct perf_events *events)
{
	bool all = true;

	for (size_t i = 0; i < events->rings.count; i++) {
		if (!ring_has_dead_timer(events, i))
			continue;
		close_timers_of_ring(events, i);
		all = false;
	}
	return all;
}

void perf_events_follow_cpus(struct perf_events *events, bool checks_counts)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct cpulist online;
	bool all = true;

	/* Events of threads stay. */
	if (events->config->pid_count || events->config->tid_count)
		return;
	if (checks_counts && events->is_enabled && !events->config->cgroup_count)
		all = close_dead_timers(events);
	cpulist_online("", &online);
	if (all && cpulist_equal(&online, &events->followed))
		return;
	for (size_t i = 0; i < events->rings.count; i++) {
		if (!cpulist_has(&online, events->rings.items[i].cpu))
			close_timers_of_ring(events, i);
	}
	events->followed = online;
	for (uint32_t cpu = 0; cpu < (uint32_t)cpus; cpu++) {
		ssize_t ring;

		if (!cpulist_has(events->config->cpus, cpu) || !cpulist_has(&online, cpu))
			continue;
		ring = ring_of_cpu(events, cpu);
		if (ring >= 0 && !ring_has_timer(events, (size_t)ring))
			open_timers_of_ring(events, (size_t)ring);
		/* What has failed is tried again. */
		if (ring < 0 || !ring_has_timer(events, (size_t)ring))
			events->followed = (struct cpulist){.all = false};
	}
}

/* Reading */

void perf_events_snapshot(struct perf_events *events)
{
	perf_rings_snapshot(&events->rings);
}

const struct perf_record *perf_events_next(struct perf_events *events, uint64_t until,
					   const char **problem)
{
	return perf_rings_next(&events->rings, until, problem);
}

void perf_events_release(struct perf_events *events)
{
	perf_rings_release(&events->rings);
}
