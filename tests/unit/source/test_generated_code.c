// SPDX-License-Identifier: GPL-2.0
/*
 * Announcements of code that the kernel generates. The kernel is this test: it has a machine of
 * four CPUs, and writes into rings that are files.
 */
#include "source/generated_code.h"

#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/file_limit.h"
#include "source/cpulist.h"
#include "source/perf_record.h"

#define CPUS 4u
#define RING_SIZE (32u << 10)
#define CODE UINT64_C(0xffffffffc0001000)

static struct {
	char online[32], isolated[32]; /* as the kernel writes them */
	unsigned int opened[CPUS];
	int events[CPUS]; /* the last one of each CPU */
	uint64_t enabled; /* ns, of all events but the dead one */
	uint32_t dead_cpu; /* its event stands still; CPUS: none */
	uint32_t ended_cpu; /* its event has nothing to read; CPUS: none */
	uint8_t *rings[CPUS]; /* the last one of each CPU */
	int refusal; /* errno of new events */
	uint32_t refusing_cpu; /* CPUS: each */
	bool is_unwatched; /* no event can be waited for */
	const char *version; /* of the kernel */
	size_t files; /* that this process may open; 0: as many as it likes */
	int64_t passed, suspended; /* ns, beside those that really pass */
} machine;

/* What each event asks for. */
static const struct perf_event_attr announcer = {
	.type = PERF_TYPE_SOFTWARE,
	.size = sizeof(announcer),
	.config = PERF_COUNT_SW_DUMMY,
	.sample_type = PERF_SAMPLE_ALWAYS,
	.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	.exclude_kernel = 1,
	.exclude_hv = 1,
	.sample_id_all = 1,
	.use_clockid = 1,
	.clockid = CLOCK_MONOTONIC,
	.watermark = 1,
	.wakeup_watermark = RING_SIZE / 2,
	.ksymbol = 1,
};

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
	uint32_t cpu;
	int fd;

	va_start(args, number);
	for (size_t i = 0; i < 5; i++)
		values[i] = va_arg(args, long);
	va_end(args);
	if (number != SYS_perf_event_open)
		return real(number, values[0], values[1], values[2], values[3], values[4]);
	attr = (const struct perf_event_attr *)values[0];
	cpu = (uint32_t)values[2];
	assert_true(cpu < CPUS);
	assert_memory_equal(attr, &announcer, sizeof(announcer));
	assert_int_equal((int)values[1], -1);
	assert_int_equal((int)values[3], -1);
	assert_int_equal(values[4], PERF_FLAG_FD_CLOEXEC);
	if (machine.refusal && (machine.refusing_cpu == CPUS || machine.refusing_cpu == cpu)) {
		errno = machine.refusal;
		return -1;
	}
	fd = memfd_create("ring", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096 + RING_SIZE), 0);
	if (machine.rings[cpu])
		munmap(machine.rings[cpu], 4096 + RING_SIZE);
	machine.rings[cpu] =
		mmap(NULL, 4096 + RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(machine.rings[cpu], MAP_FAILED);
	machine.opened[cpu]++;
	machine.events[cpu] = fd;
	machine.dead_cpu = machine.dead_cpu == cpu ? CPUS : machine.dead_cpu;
	return fd;
}

/* The times of events go on with each look. */
ssize_t read(int fd, void *buffer, size_t size)
{
	ssize_t (*const real)(int, void *, size_t) =
		(ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");

	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		const uint64_t values[] = {0, cpu == machine.dead_cpu ? 1 : ++machine.enabled};

		if (!machine.opened[cpu] || fd != machine.events[cpu])
			continue;
		assert_int_equal(size, sizeof(values));
		if (cpu == machine.ended_cpu)
			return 0;
		memcpy(buffer, values, sizeof(values));
		return sizeof(values);
	}
	return real(fd, buffer, size);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	(void)epoll, (void)operation, (void)fd, (void)event;
	errno = ENOSPC;
	return machine.is_unwatched ? -1 : 0;
}

int uname(struct utsname *name)
{
	memset(name, 0, sizeof(*name));
	strcpy(name->version, machine.version);
	return 0;
}

long sysconf(int name)
{
	long (*const real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");

	return name == _SC_NPROCESSORS_CONF ? (long)CPUS : real(name);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int (*const real)(clockid_t, struct timespec *) =
		(int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int err = real(clock, time);

	time->tv_sec += machine.passed / NS_PER_SECOND;
	if (clock == CLOCK_BOOTTIME)
		time->tv_sec += machine.suspended / NS_PER_SECOND;
	return err;
}

static FILE *open_list(char *list)
{
	return fmemopen(list, strlen(list), "r");
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*const real)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	static char possible[] = "0-3\n", none[] = "\n";

	if (!strcmp(path, "/sys/devices/system/cpu/online"))
		return open_list(machine.online);
	if (!strcmp(path, "/sys/devices/system/cpu/isolated"))
		return open_list(machine.isolated);
	if (!strcmp(path, "/sys/devices/system/cpu/possible"))
		return open_list(possible);
	if (!strcmp(path, "/sys/devices/system/cpu/nohz_full"))
		return open_list(none);
	return real(path, mode);
}

static struct cpulist chosen;
static struct generated_code *code;

static int set_up(void **state)
{
	(void)state;
	memset(&machine, 0, sizeof(machine));
	strcpy(machine.online, "0-3\n");
	strcpy(machine.isolated, "\n");
	machine.refusing_cpu = machine.dead_cpu = machine.ended_cpu = CPUS;
	machine.enabled = 10;
	machine.version = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.170-3";
	chosen = (struct cpulist){.all = true};
	code = NULL;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	generated_code_close(code);
	for (size_t cpu = 0; cpu < CPUS; cpu++) {
		if (machine.rings[cpu])
			munmap(machine.rings[cpu], 4096 + RING_SIZE);
	}
	return 0;
}

static void open_code(void)
{
	code = generated_code_open(false, &chosen);
	assert_non_null(code);
}

/* Writes a record into the ring of a CPU: `words` and a name, if any. */
static void write_record(uint32_t cpu, uint32_t type, uint64_t time, const uint64_t *words,
			 size_t count, const char *name)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)machine.rings[cpu];
	uint64_t record[32] = {0};
	size_t used = 1;
	struct perf_event_header header = {.type = type};

	memcpy(record + used, words, count * sizeof(*words));
	used += count;
	if (name) {
		memcpy(record + used, name, strlen(name));
		used += strlen(name) / sizeof(*record) + 1;
	}
	record[used + 1] = time;
	record[used + 2] = cpu;
	used += 3;
	header.size = (uint16_t)(used * sizeof(*record));
	memcpy(record, &header, sizeof(header));
	for (size_t i = 0; i < used; i++) {
		memcpy(machine.rings[cpu] + 4096 + (page->data_head & (RING_SIZE - 1)), &record[i],
		       sizeof(*record));
		page->data_head += sizeof(*record);
	}
}

static void write_change(uint32_t cpu, uint64_t time, uint32_t length, uint16_t type,
			 uint16_t flags, const char *name)
{
	const uint64_t words[] = {CODE, length | (uint64_t)type << 32 | (uint64_t)flags << 48};

	write_record(cpu, PERF_RECORD_KSYMBOL, time, words, 2, name);
}

/* What was read, as text. */
static char log_text[1024];

static void log_change(const struct generated_code_change *change, void *arg)
{
	const size_t used = strlen(log_text);

	assert_null(arg);
	assert_int_equal(change->start, CODE);
	snprintf(log_text + used, sizeof(log_text) - used, "%lu %s%s %lx;", change->time,
		 change->is_gone ? "-" : "+", change->name,
		 (change->end - change->start) | (change->is_bpf ? 0xb000 : 0));
}

static void expect_changes(const char *text)
{
	*log_text = '\0';
	generated_code_read(code, log_change, NULL);
	assert_string_equal(log_text, text);
}

static void changes_are_read_in_their_order(void **state)
{
	(void)state;
	open_code();
	expect_changes("");
	write_change(1, 20, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF,
		     PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, "a");
	write_change(0, 10, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "a");
	write_change(0, 30, 0x200, PERF_RECORD_KSYMBOL_TYPE_OOL, 0, "kprobe_insn_page");
	/* A program that is interpreted. */
	write_change(3, 15, 0, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "b");
	expect_changes("10 +a b100;20 -a b100;30 +kprobe_insn_page 200;");
	expect_changes("");
	assert_int_equal(generated_code_lost(code), 0);
}

/* More than a ring holds, with records that end at each of its words. */
static void rings_are_read_over_and_over(void **state)
{
	static const char *const names[] = {"a", "a_longer_name", "a_name_of_23_characters"};
	char expected[128];

	(void)state;
	open_code();
	for (unsigned int i = 0; i < 1500; i++) {
		for (uint32_t cpu = 0; cpu < 2; cpu++)
			write_change(cpu, 2 * i + cpu, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0,
				     names[(i + cpu) % 3]);
		snprintf(expected, sizeof(expected), "%u +%s b100;%u +%s b100;", 2 * i,
			 names[i % 3], 2 * i + 1, names[(i + 1) % 3]);
		expect_changes(expected);
		for (uint32_t cpu = 0; cpu < 2; cpu++) {
			const struct perf_event_mmap_page *page =
				(const struct perf_event_mmap_page *)machine.rings[cpu];

			assert_int_equal(page->data_tail, page->data_head);
		}
	}
	assert_int_equal(generated_code_lost(code), 0);
}

static void lost_changes_are_counted(void **state)
{
	const uint64_t lost[] = {0, 5};
	struct perf_event_mmap_page *page;

	(void)state;
	open_code();
	write_record(2, PERF_RECORD_LOST, 10, lost, 2, NULL);
	expect_changes("");
	assert_int_equal(generated_code_lost(code), 5);
	/* A damaged ring. */
	page = (struct perf_event_mmap_page *)machine.rings[1];
	page->data_head += 64;
	write_change(0, 10, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "a");
	expect_changes("10 +a b100;");
	assert_int_equal(generated_code_lost(code), 6);
}

static void without_rights_there_is_none(void **state)
{
	(void)state;
	machine.refusal = EACCES;
	assert_null(generated_code_open(false, &chosen));
	/* Nor with a part of the machine. */
	machine.refusing_cpu = 2;
	assert_null(generated_code_open(false, &chosen));
	/* A CPU that has just gone. */
	machine.refusal = ENODEV;
	open_code();
}

static void preempt_rt_has_events_beside_perf_events_only(void **state)
{
	(void)state;
	machine.version = "#1 SMP PREEMPT_RT Debian 6.1.170-3";
	assert_null(generated_code_open(false, &chosen));
	for (size_t cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(machine.opened[cpu], 0);
	code = generated_code_open(true, &chosen);
	assert_non_null(code);
}

/* Its files are closed. */
static void events_that_cannot_be_watched_are_not_kept(void **state)
{
	(void)state;
	machine.is_unwatched = true;
	assert_null(generated_code_open(false, &chosen));
	for (size_t cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(fcntl(machine.events[cpu], F_GETFD), -1);
}

/* Samples and mapped files are more important than names. */
static void few_files_are_left_to_others(void **state)
{
	(void)state;
	machine.files = 8 * CPUS - 1;
	assert_null(generated_code_open(false, &chosen));
	machine.files++;
	open_code();
}

static void assert_events(unsigned int cpu0, unsigned int cpu1, unsigned int cpu2,
			  unsigned int cpu3)
{
	const unsigned int wanted[CPUS] = {cpu0, cpu1, cpu2, cpu3};

	for (size_t cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(machine.opened[cpu], wanted[cpu]);
}

/* An event interrupts its CPU when it is opened. */
static void isolated_cpus_have_events_if_they_are_chosen(void **state)
{
	(void)state;
	strcpy(machine.isolated, "1-2\n");
	assert_int_equal(cpulist_parse("2", &chosen, NULL), 0);
	open_code();
	assert_events(1, 0, 1, 1);
}

static void pass_interval(void)
{
	machine.passed += 11 * NS_PER_SECOND;
	expect_changes("");
}

static void cpus_are_followed(void **state)
{
	(void)state;
	strcpy(machine.online, "0-1\n");
	open_code();
	assert_events(1, 1, 0, 0);
	strcpy(machine.online, "0-2\n");
	expect_changes("");
	assert_events(1, 1, 0, 0);
	pass_interval();
	assert_events(1, 1, 1, 0);
	/* Not before the next interval. */
	strcpy(machine.online, "0-3\n");
	expect_changes("");
	assert_events(1, 1, 1, 0);
	/* Its changes are read before. */
	write_change(1, 10, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "a");
	strcpy(machine.online, "0,2\n");
	machine.passed += 11 * NS_PER_SECOND;
	expect_changes("10 +a b100;");
	strcpy(machine.online, "0-2\n");
	machine.refusal = ENODEV;
	pass_interval();
	assert_events(1, 1, 1, 0);
	/* What has failed is tried again. */
	machine.refusal = 0;
	pass_interval();
	assert_events(1, 2, 1, 0);
	write_change(1, 20, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "b");
	expect_changes("20 +b b100;");
}

/* It was offline, and is back before anybody has looked. */
static void cpu_that_is_back_has_a_new_event(void **state)
{
	(void)state;
	open_code();
	pass_interval();
	pass_interval();
	assert_events(1, 1, 1, 1);
	assert_int_equal(generated_code_lost(code), 0);
	machine.dead_cpu = 2;
	pass_interval();
	assert_events(1, 1, 1, 1);
	pass_interval();
	assert_events(1, 1, 2, 1);
	assert_int_equal(generated_code_lost(code), 1);
	write_change(2, 20, 0x100, PERF_RECORD_KSYMBOL_TYPE_BPF, 0, "b");
	expect_changes("20 +b b100;");
	machine.ended_cpu = 3;
	pass_interval();
	assert_events(1, 1, 2, 2);
	assert_int_equal(generated_code_lost(code), 2);
}

/* In a suspend of the machine, all CPUs but the first go offline; nobody sees it. */
static void suspend_renews_the_events(void **state)
{
	(void)state;
	open_code();
	machine.suspended = 5 * NS_PER_SECOND;
	pass_interval();
	assert_events(2, 2, 2, 2);
	pass_interval();
	assert_events(2, 2, 2, 2);
}

#define CODE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CODE_TEST(changes_are_read_in_their_order),
		CODE_TEST(rings_are_read_over_and_over),
		CODE_TEST(lost_changes_are_counted),
		CODE_TEST(without_rights_there_is_none),
		CODE_TEST(preempt_rt_has_events_beside_perf_events_only),
		CODE_TEST(events_that_cannot_be_watched_are_not_kept),
		CODE_TEST(few_files_are_left_to_others),
		CODE_TEST(isolated_cpus_have_events_if_they_are_chosen),
		CODE_TEST(cpus_are_followed),
		CODE_TEST(cpu_that_is_back_has_a_new_event),
		CODE_TEST(suspend_renews_the_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
