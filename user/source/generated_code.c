// SPDX-License-Identifier: GPL-2.0
#include "source/generated_code.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/file_limit.h"
#include "source/cpulist.h"
#include "source/perf_rings.h"

/* Of each CPU: for a few hundred changes. */
#define CHANGES_RING_SIZE (32u << 10)
/* Events take one in eight of the files that may be open, at most. */
#define FILES_SHARE 8u
/* To look for them costs more than to read the rings. */
#define FOLLOW_INTERVAL_NS (10 * NS_PER_SECOND)
/* The clocks are read one after the other. */
#define SUSPEND_MIN_NS (NS_PER_SECOND / 10)

struct generated_code {
	struct perf_rings rings;
	const struct cpulist *chosen;
	struct cpulist usual; /* CPUs that are not isolated */
	struct cpulist followed; /* CPUs that were online, when all of them had events */
	int epoll;
	uint64_t lost;
	int64_t next_follow; /* CLOCK_MONOTONIC, ns */
	int64_t suspended; /* ns, since the boot */
};

/* The source of the fields: perf_event_open(2). */
static int open_announcer(uint32_t cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_ALWAYS,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = CHANGES_RING_SIZE / 2,
		.ksymbol = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Returns 0 or a negative errno value; -ENODEV: the CPU is offline. */
static int add_announcer(struct generated_code *code, uint32_t cpu)
{
	struct epoll_event watch = {.events = EPOLLIN};
	int fd = open_announcer(cpu), err;

	if (fd < 0)
		return fd;
	err = perf_rings_add(&code->rings, fd, cpu);
	if (!err && epoll_ctl(code->epoll, EPOLL_CTL_ADD, fd, &watch)) {
		err = -errno;
		perf_rings_remove(&code->rings, code->rings.count - 1);
	}
	return err;
}

static bool cpu_has_announcer(const struct generated_code *code, uint32_t cpu)
{
	for (size_t i = 0; i < code->rings.count; i++) {
		if (code->rings.items[i].cpu == cpu)
			return true;
	}
	return false;
}

/* Opens the events that are missing. Returns 0 or the first error. */
static int add_announcers(struct generated_code *code, const struct cpulist *online)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int first = 0;

	for (uint32_t cpu = 0; cpu < (uint32_t)cpus; cpu++) {
		int err = 0;

		if (cpulist_has(online, cpu) &&
		    (cpulist_has(&code->usual, cpu) || cpulist_has(code->chosen, cpu)) &&
		    !cpu_has_announcer(code, cpu))
			err = add_announcer(code, cpu);
		first = first ? first : err;
	}
	return first;
}

static int64_t suspended_ns(void)
{
	return now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC);
}

/*
 * When a CPU goes offline, its event ends for good, also if the CPU comes back: as all but the
 * first one in a suspend of the machine. Its time stands still then. To read it interrupts the CPU.
 */
static bool announcer_is_dead(struct perf_ring *ring)
{
	struct {
		uint64_t count, enabled;
	} values;
	const uint64_t before = ring->enabled;

	if (read(ring->fd, &values, sizeof(values)) != sizeof(values))
		return true;
	ring->enabled = values.enabled;
	return values.enabled == before;
}

static void follow_cpus(struct generated_code *code)
{
	const int64_t suspended = suspended_ns();
	const bool was_suspended = suspended - code->suspended > SUSPEND_MIN_NS;
	const size_t before = code->rings.count;
	struct cpulist online;

	cpulist_online("", &online);
	for (size_t i = code->rings.count; i-- > 0;) {
		struct perf_ring *ring = &code->rings.items[i];

		if (was_suspended || !cpulist_has(&online, ring->cpu)) {
			perf_rings_remove(&code->rings, i);
		} else if (announcer_is_dead(ring)) {
			/* What other code has done there since is unknown. */
			code->lost++;
			perf_rings_remove(&code->rings, i);
		}
	}
	if (before == code->rings.count && cpulist_equal(&online, &code->followed))
		return;
	code->suspended = suspended;
	code->followed = online;
	/* What has failed is tried again. */
	if (add_announcers(code, &online))
		code->followed = (struct cpulist){.all = false};
}

/*
 * To close an event waits for a grace period, which ends there when a thread of each CPU has run: a
 * real-time task that never sleeps would keep the reader from ending.
 */
static bool kernel_is_preempt_rt(void)
{
	struct utsname name;

	return !uname(&name) && strstr(name.version, "PREEMPT_RT");
}

struct generated_code *generated_code_open(bool is_perf, const struct cpulist *cpus)
{
	struct generated_code *code;
	char ignored[1];
	int err;

	if (!is_perf && kernel_is_preempt_rt())
		return NULL;
	code = calloc(1, sizeof(*code));
	if (!code)
		return NULL;
	code->chosen = cpus;
	code->rings.size = CHANGES_RING_SIZE;
	/* Where all CPUs are isolated, the list is empty. */
	cpulist_default("", ignored, sizeof(ignored), &code->usual);
	raise_file_limit(FILE_LIMIT_MAX);
	code->epoll = epoll_create1(EPOLL_CLOEXEC);
	code->suspended = suspended_ns();
	code->next_follow = now_ns(CLOCK_MONOTONIC) + FOLLOW_INTERVAL_NS;
	cpulist_online("", &code->followed);
	err = code->epoll < 0 ? -errno : add_announcers(code, &code->followed);
	/* A CPU may have gone offline. */
	if ((!err || err == -ENODEV) && code->rings.count &&
	    code->rings.count <= file_limit() / FILES_SHARE)
		return code;
	generated_code_close(code);
	return NULL;
}

void generated_code_close(struct generated_code *code)
{
	if (!code)
		return;
	perf_rings_clear(&code->rings);
	if (code->epoll >= 0)
		close(code->epoll);
	free(code);
}

int generated_code_fd(const struct generated_code *code)
{
	return code->epoll;
}

static void pass_change(const struct perf_record *record, generated_code_fn *fn, void *arg)
{
	const struct perf_kernel_symbol *symbol = &record->symbol;
	const struct generated_code_change change = {
		.time = record->time,
		.start = symbol->start,
		.end = symbol->end,
		.is_gone = symbol->is_gone,
		.is_bpf = symbol->type == PERF_RECORD_KSYMBOL_TYPE_BPF,
		.name = symbol->name,
	};

	/* A program that is not compiled runs in the interpreter. */
	if (change.end > change.start)
		fn(&change, arg);
}

void generated_code_read(struct generated_code *code, generated_code_fn *fn, void *arg)
{
	const struct perf_record *record;
	const char *problem = NULL;
	int64_t now;

	perf_rings_snapshot(&code->rings);
	while ((record = perf_rings_next(&code->rings, UINT64_MAX, &problem))) {
		if (record->type == PERF_RECORD_KSYMBOL)
			pass_change(record, fn, arg);
		else if (record->type == PERF_RECORD_LOST)
			code->lost += record->lost;
	}
	/* A ring that is damaged is read on from its head. */
	code->lost += problem != NULL;
	perf_rings_release(&code->rings);
	now = now_ns(CLOCK_MONOTONIC);
	if (now < code->next_follow)
		return;
	follow_cpus(code);
	code->next_follow = now + FOLLOW_INTERVAL_NS;
}

uint64_t generated_code_lost(const struct generated_code *code)
{
	return code->lost;
}
