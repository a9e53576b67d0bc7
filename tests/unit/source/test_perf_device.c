// SPDX-License-Identifier: GPL-2.0
/*
 * Records of perf events become records of stackbeat.h. Functions of this file replace some of
 * perf_events.c.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absent_processes.h"
#include "lib/error.h"
#include "patience.h"
#include "source/netlink.h"
#include "source/perf_device.h"

#define RECORDS_MAX 64u
#define PERIOD_NS 10000000u
#define EXE_INODE 4242u

/* The events: their records. */
static struct {
	struct perf_record records[RECORDS_MAX];
	size_t count, next;
	const char *problem;
	uint64_t cpu_time;
	bool enabled;
	unsigned int follows, checks; /* of CPUs */
	unsigned int adapted, closes; /* times */
	uint32_t noted_cpu, lost_cpu; /* last; the first CPU is 1 */
	uint64_t noted_need;
} kernel;

int perf_events_open(struct perf_events **events, const struct perf_events_config *config,
		     struct error *error)
{
	(void)config;
	(void)error;
	*events = (struct perf_events *)&kernel;
	return 0;
}

void perf_events_close(struct perf_events *events)
{
	(void)events;
	kernel.closes++;
}

void perf_events_enable(struct perf_events *events, bool enable)
{
	(void)events;
	kernel.enabled = enable;
}

uint64_t perf_events_cpu_time(const struct perf_events *events)
{
	(void)events;
	return kernel.cpu_time;
}

int perf_events_fd(const struct perf_events *events)
{
	(void)events;
	return 77;
}

void perf_events_snapshot(struct perf_events *events)
{
	(void)events;
}

void perf_events_follow_cpus(struct perf_events *events, bool checks_counts)
{
	(void)events;
	kernel.follows++;
	kernel.checks += checks_counts;
}

void perf_events_note_stack(struct perf_events *events, uint32_t cpu, uint64_t need)
{
	(void)events;
	kernel.noted_cpu = cpu;
	kernel.noted_need = need;
}

void perf_events_note_lost(struct perf_events *events, uint32_t cpu)
{
	(void)events;
	kernel.lost_cpu = cpu;
}

void perf_events_adapt(struct perf_events *events)
{
	(void)events;
	kernel.adapted++;
}

const struct perf_record *perf_events_next(struct perf_events *events, uint64_t until,
					   const char **problem)
{
	(void)events;
	if (kernel.problem)
		*problem = kernel.problem;
	kernel.problem = NULL;
	if (kernel.next == kernel.count || kernel.records[kernel.next].time > until)
		return NULL;
	return &kernel.records[kernel.next++];
}

void perf_events_release(struct perf_events *events)
{
	(void)events;
}

/* The device, and what it has given. */

static struct device *device;
static struct perf_device_config config;
static struct error error;

static struct {
	struct stackbeat_sample samples[16];
	uint64_t frames[16][8];
	uint64_t stack_sizes[16];
	uint16_t stack_flags[16];
	struct stackbeat_address_space spaces[16];
	struct stackbeat_mapping mappings[256];
	char paths[256][32];
	size_t sample_count, space_count, mapping_count, file_count;
	int err; /* of the next sample */
} got;

static int take_sample(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
		       void *arg)
{
	const size_t frames = (size_t)sample->kernel_frames + sample->user_frames;

	(void)arg;
	if (got.err)
		return got.err;
	assert_true(frames <= 8);
	memcpy(got.frames[got.sample_count], sample->frames, frames * sizeof(uint64_t));
	got.stack_sizes[got.sample_count] = stack ? stack->size : UINT64_MAX;
	got.stack_flags[got.sample_count] = stack ? stack->record.flags : 0;
	got.samples[got.sample_count++] = *sample;
	return 0;
}

static int take_space(const struct stackbeat_address_space *record, void *arg)
{
	(void)arg;
	got.spaces[got.space_count++] = *record;
	return 0;
}

static int take_mapping(const struct stackbeat_mapping *record, void *arg)
{
	(void)arg;
	got.mappings[got.mapping_count++] = *record;
	return 0;
}

static int take_file(const struct stackbeat_file *record, void *arg)
{
	(void)arg;
	snprintf(got.paths[got.file_count++], sizeof(got.paths[0]), "%s", record->path);
	return 0;
}

/* Drains once, into an empty `got`. */
static int drain(void)
{
	const struct metadata_handler handler = {
		.address_space = take_space, .mapping = take_mapping, .file = take_file};
	int err;

	memset(&got, 0, sizeof(got));
	device_snapshot_heads(device);
	assert_false(device_pending(device));
	assert_int_equal(device_drain_metadata(device, &handler, &error), 0);
	err = device_drain(device, NULL, take_sample, NULL, &error);
	device_release(device);
	return err;
}

static const uint32_t target = PID;

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	config = (struct perf_device_config){
		.events = {.period_ns = PERIOD_NS,
			   .parts = STACKBEAT_PARTS_ALL,
			   .stack_copy = 8192,
			   /* So that /proc is not read as a whole. */
			   .pids = &target,
			   .pid_count = 1},
		.max_depth = 255,
	};
	device = perf_device_new();
	assert_non_null(device);
	assert_int_equal(perf_device_configure(device, &config, &error), 0);
	assert_int_equal(perf_device_set_state(device, STACKBEAT_STATE_RUNNING, &error), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	device_close(device);
	return 0;
}

/* Records of the kernel, each with a later time. */

static struct perf_record *put(uint32_t type, uint32_t pid, uint32_t tid)
{
	struct perf_record *record = &kernel.records[kernel.count];

	assert_true(kernel.count < RECORDS_MAX);
	*record =
		(struct perf_record){.type = type, .pid = pid, .tid = tid, .time = ++kernel.count};
	return record;
}

static void put_exec(uint32_t pid, const char *comm)
{
	struct perf_record *record = put(PERF_RECORD_COMM, pid, pid);

	record->misc = PERF_RECORD_MISC_COMM_EXEC;
	record->comm = comm;
}

static void put_map(uint32_t pid, uint64_t start, uint64_t inode, const char *path)
{
	put(PERF_RECORD_MMAP2, pid, pid)->mapping = (struct perf_mapping){
		.start = start,
		.end = start + 0x1000,
		.offset = inode ? 0x2000 : start,
		.device_major = inode ? 8 : 0,
		.inode = inode,
		.path = path,
	};
}

static const uint64_t chain[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001,
				 0xffffffff81000002, (uint64_t)PERF_CONTEXT_USER, 0x401010};
static const uint8_t stack[64];

static struct perf_record *put_sample(uint32_t pid, uint32_t tid)
{
	struct perf_record *record = put(PERF_RECORD_SAMPLE, pid, tid);

	record->misc = PERF_RECORD_MISC_KERNEL;
	record->sample = (struct perf_sample){
		.chain = chain,
		.chain_length = sizeof(chain) / sizeof(*chain),
		.abi = PERF_SAMPLE_REGS_ABI_64,
		.registers = {[STACKBEAT_REGISTER_RIP] = 0x401010},
		.stack = stack,
		.stack_size = sizeof(stack),
		.stack_asked = sizeof(stack),
	};
	return record;
}

static void put_program(void)
{
	put_exec(PID, "program");
	put_map(PID, 0x401000, EXE_INODE, "/none/program");
	put_map(PID, 0x7000000, EXE_INODE + 1, "/none/libx.so (deleted)");
	put_map(PID, 0x9000000, 0, "//anon");
}

/* Tests */

static void a_sample_follows_its_address_space(void **state)
{
	(void)state;
	put_program();
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.space_count, 1);
	assert_int_equal(got.spaces[0].pid, PID);
	assert_int_equal(got.spaces[0].mappings, 3);
	assert_string_equal(got.spaces[0].comm, "program");
	assert_int_equal(got.mapping_count, 3);
	assert_int_equal(got.file_count, 2);
	assert_string_equal(got.paths[0], "/none/program");
	assert_string_equal(got.paths[1], "/none/libx.so");
	assert_int_equal(got.mappings[0].record.flags, STACKBEAT_MAPPING_MAIN_BINARY);
	assert_int_equal(got.mappings[0].file, 1);
	assert_int_equal(got.mappings[0].offset, 0x2000);
	assert_int_equal(got.mappings[2].file, 0);
	assert_int_equal(got.mappings[2].offset, 0);

	assert_int_equal(got.sample_count, 1);
	assert_int_equal(got.samples[0].address_space, got.spaces[0].address_space);
	assert_int_equal(got.samples[0].generation, got.spaces[0].generation);
	assert_int_equal(got.samples[0].kernel_frames, 2);
	assert_int_equal(got.samples[0].user_frames, 1);
	assert_int_equal(got.frames[0][0], 0xffffffff81000001);
	assert_int_equal(got.frames[0][2], 0x401010);
	assert_int_equal(got.samples[0].weight, PERIOD_NS);
	assert_int_equal(got.samples[0].kernel_stop, STACKBEAT_STOP_OUTERMOST);
	assert_string_equal(got.samples[0].comm, "program");
	assert_int_equal(got.stack_sizes[0], sizeof(stack));
}

static void later_mappings_are_events(void **state)
{
	uint32_t generation;

	(void)state;
	put_program();
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	generation = got.samples[0].generation;
	put_map(PID, 0x7000000, EXE_INODE + 2, "/none/liby.so");
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.space_count, 0);
	assert_int_equal(got.mapping_count, 1);
	assert_int_equal(got.mappings[0].record.flags, STACKBEAT_MAPPING_EVENT);
	assert_int_equal(got.mappings[0].generation, generation + 1);
	assert_int_equal(got.samples[0].generation, generation + 1);
}

static void a_fork_has_the_mappings_of_its_parent(void **state)
{
	uint64_t parent;

	(void)state;
	put_program();
	put_sample(PID, PID);
	put(PERF_RECORD_FORK, CHILD, CHILD)->parent.pid = PID;
	kernel.records[kernel.count - 1].parent.tid = PID;
	put_sample(CHILD, CHILD);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.space_count, 2);
	parent = got.spaces[0].address_space;
	assert_int_not_equal(got.spaces[1].address_space, parent);
	assert_int_equal(got.spaces[1].parent, PID);
	assert_int_equal(got.spaces[1].mappings, 3);
	assert_string_equal(got.samples[1].comm, "program");
	/* exec: nothing of the old program is there. */
	put_exec(CHILD, "other");
	put_map(CHILD, 0x500000, EXE_INODE + 3, "/none/other");
	put_sample(CHILD, CHILD);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.space_count, 1);
	assert_int_equal(got.spaces[0].mappings, 1);
	assert_int_equal(got.mappings[0].start, 0x500000);
	assert_int_equal(got.mappings[0].record.flags, STACKBEAT_MAPPING_MAIN_BINARY);
	assert_string_equal(got.samples[0].comm, "other");
}

/* A mapping in the middle of another one leaves both of its ends. */
static void mappings_replace_what_they_cover(void **state)
{
	(void)state;
	put_exec(PID, "program");
	put(PERF_RECORD_MMAP2, PID, PID)->mapping = (struct perf_mapping){.start = 0x10000,
									  .end = 0x20000,
									  .offset = 0,
									  .inode = EXE_INODE,
									  .path = "/none/a"};
	put_map(PID, 0x14000, EXE_INODE + 1, "/none/b");
	put_map(PID, 0xf800, EXE_INODE + 2, "/none/c");
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.mapping_count, 4);
	assert_int_equal(got.mappings[0].end, 0x10800);
	assert_int_equal(got.mappings[1].start, 0x10800);
	assert_int_equal(got.mappings[1].offset, 0x800);
	assert_int_equal(got.mappings[1].end, 0x14000);
	assert_int_equal(got.mappings[2].start, 0x14000);
	assert_int_equal(got.mappings[3].start, 0x15000);
	assert_int_equal(got.mappings[3].offset, 0x5000);
	assert_int_equal(got.mappings[3].end, 0x20000);
}

static void lost_records_are_counted_and_leave_a_gap(void **state)
{
	struct netlink_session counters;
	uint32_t generation;

	(void)state;
	put_program();
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	generation = got.samples[0].generation;
	put(PERF_RECORD_LOST, 0, 0)->lost = 5;
	put_sample(PID, PID);
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.samples[0].lost, 5);
	assert_int_equal(got.samples[1].lost, 0);
	/* The mappings are announced again, as an event may be missing. */
	assert_int_equal(got.space_count, 1);
	assert_int_equal(got.spaces[0].gap, generation + 1);
	assert_int_equal(got.spaces[0].generation, generation + 2);
	assert_int_equal(got.samples[0].generation, generation + 2);
	perf_device_get(device, &counters);
	assert_int_equal(counters.stats[STACKBEAT_S_LOST_FULL], 5);
	assert_int_equal(counters.stats[STACKBEAT_S_SAMPLES], 3);
	assert_int_equal(counters.stats[STACKBEAT_S_TICKS], 8);
	assert_int_equal(counters.stats[STACKBEAT_S_STACK_COPIES], 3);
}

static void ticks_that_the_timer_has_missed_are_counted(void **state)
{
	struct netlink_session counters;

	(void)state;
	put_program();
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	kernel.cpu_time = 4 * PERIOD_NS;
	perf_device_get(device, &counters);
	assert_int_equal(counters.stats[STACKBEAT_S_MISSED_TICKS], 3);
	assert_int_equal(counters.stats[STACKBEAT_S_TICK_TIME_NS], 4 * PERIOD_NS);
}

static void filters_are_applied_to_samples(void **state)
{
	char *excluded[] = {"quiet"};
	struct netlink_session counters;

	(void)state;
	config.excluded_comms = excluded;
	config.excluded_comm_count = 1;
	config.no_inherit = true;
	put_program();
	put(PERF_RECORD_COMM, PID, PID + 1)->comm = "quiet";
	put_sample(PID, PID + 1);
	put(PERF_RECORD_FORK, CHILD, CHILD)->parent.pid = PID;
	put_sample(CHILD, CHILD);
	put_sample(PID, PID);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 1);
	assert_int_equal(got.samples[0].tid, PID);
	perf_device_get(device, &counters);
	assert_int_equal(counters.stats[STACKBEAT_S_FILTERED], 2);
}

static void samples_without_user_memory_have_no_address_space(void **state)
{
	struct perf_record *record;

	(void)state;
	put(PERF_RECORD_COMM, 2, 2)->comm = "kthreadd";
	record = put_sample(2, 2);
	record->sample.abi = PERF_SAMPLE_REGS_ABI_NONE;
	record->sample.chain_length = 3;
	record->sample.stack_size = 0;
	assert_int_equal(drain(), 0);
	assert_int_equal(got.space_count, 0);
	assert_int_equal(got.samples[0].address_space, 0);
	assert_int_equal(got.samples[0].user_stop, STACKBEAT_STOP_NO_USER_MEMORY);
	assert_int_equal(got.samples[0].user_frames, 0);
	assert_true(got.stack_sizes[0] == UINT64_MAX);
}

/*
 * Of a thread in user mode, of one in kernel mode and of a kernel thread; each tick counts. Events
 * of the kernel part alone have no registers.
 */
static void put_sample_of_each_mode(bool with_registers)
{
	struct perf_record *records[] = {put_sample(PID, PID), put_sample(PID, PID + 1),
					 put_sample(2, 2)};

	records[0]->misc = PERF_RECORD_MISC_USER;
	records[0]->sample.chain += 3;
	records[0]->sample.chain_length -= 3;
	for (size_t i = 0; i < 3; i++) {
		if (with_registers && i < 2)
			continue;
		records[i]->sample.abi = PERF_SAMPLE_REGS_ABI_NONE;
		records[i]->sample.stack_size = 0;
	}
}

static void expect_ticks(uint64_t samples, uint64_t filtered)
{
	struct netlink_session counters;

	kernel.cpu_time = (samples + filtered) * PERIOD_NS;
	perf_device_get(device, &counters);
	assert_int_equal(counters.stats[STACKBEAT_S_TICKS], samples + filtered);
	assert_int_equal(counters.stats[STACKBEAT_S_SAMPLES], samples);
	assert_int_equal(counters.stats[STACKBEAT_S_FILTERED], filtered);
	assert_int_equal(counters.stats[STACKBEAT_S_MISSED_TICKS], 0);
}

static void only_kernel_mode_has_a_kernel_part(void **state)
{
	(void)state;
	config.events.parts = STACKBEAT_PART_KERNEL;
	config.events.stack_copy = 0;
	put_sample_of_each_mode(false);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 2);
	assert_int_equal(got.samples[0].tid, PID + 1);
	assert_int_equal(got.samples[1].tid, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(got.samples[i].record.flags & STACKBEAT_SAMPLE_KERNEL);
		assert_int_equal(got.samples[i].kernel_frames, 2);
		assert_int_equal(got.samples[i].user_stop, STACKBEAT_STOP_EXCLUDED);
		assert_int_equal(got.samples[i].weight, PERIOD_NS);
	}
	expect_ticks(2, 1);
}

/* In kernel mode, too. */
static void kernel_threads_have_no_user_part(void **state)
{
	(void)state;
	config.events.parts = STACKBEAT_PART_USER;
	put_program();
	put_sample_of_each_mode(true);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 2);
	assert_int_equal(got.samples[0].tid, PID);
	assert_int_equal(got.samples[1].tid, PID + 1);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(got.samples[i].user_frames, 1);
		assert_int_equal(got.samples[i].kernel_stop, STACKBEAT_STOP_EXCLUDED);
	}
	expect_ticks(2, 1);
}

static void both_parts_are_of_all_modes(void **state)
{
	(void)state;
	put_program();
	put_sample_of_each_mode(true);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 3);
	assert_int_equal(got.samples[0].kernel_stop, STACKBEAT_STOP_USER_MODE);
	expect_ticks(3, 0);
}

/* The stack of a 32-bit program is not walked by tables of 64-bit code. */
static void a_32_bit_program_has_no_copy(void **state)
{
	(void)state;
	put_program();
	put_sample(PID, PID)->sample.abi = PERF_SAMPLE_REGS_ABI_32;
	assert_int_equal(drain(), 0);
	assert_true(got.samples[0].record.flags & STACKBEAT_SAMPLE_COMPAT);
	assert_true(got.stack_sizes[0] == UINT64_MAX);
}

static void samples_stay_until_they_are_handled(void **state)
{
	(void)state;
	put_program();
	put_sample(PID, PID);
	put_sample(PID, PID);
	memset(&got, 0, sizeof(got));
	device_snapshot_heads(device);
	got.err = -ENOMEM;
	assert_int_equal(device_drain(device, NULL, take_sample, NULL, &error), -ENOMEM);
	device_release(device);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 2);
	assert_int_equal(drain(), 0);
	assert_int_equal(got.sample_count, 0);
}

/* Where memory ends, a copy is shorter than asked for. */
static void copies_know_their_size(void **state)
{
	(void)state;
	put_program();
	put_sample(PID, PID);
	put_sample(PID, PID)->sample.stack_asked = sizeof(stack) + 8;
	assert_int_equal(drain(), 0);
	assert_int_equal(got.stack_flags[0], sizeof(stack));
	assert_int_equal(got.stack_flags[1], sizeof(stack) + 8);
	assert_int_equal(got.stack_sizes[1], sizeof(stack));
}

static void sizes_of_copies_are_adapted(void **state)
{
	(void)state;
	device_note_stack(device, 3, 4000);
	assert_int_equal(kernel.noted_cpu, 3);
	assert_int_equal(kernel.noted_need, 4000);
	assert_int_equal(kernel.adapted, 0);
	put(PERF_RECORD_LOST, 0, 0)->lost = 1;
	kernel.records[kernel.count - 1].cpu = 2;
	assert_int_equal(drain(), 0);
	assert_int_equal(kernel.lost_cpu, 2);
	assert_int_equal(kernel.adapted, 1);
}

static void cpus_are_followed(void **state)
{
	(void)state;
	assert_int_equal(drain(), 0);
	assert_int_equal(kernel.follows, 1);
	assert_int_equal(kernel.checks, 1);
}

static void a_damaged_ring_is_reported_once(void **state)
{
	(void)state;
	put_program();
	put_sample(PID, PID);
	kernel.problem = "a record has a wrong size";
	assert_int_equal(drain(), -EBADMSG);
	assert_string_equal(error.text,
			    "a ring of perf events is damaged: a record has a wrong size");
	assert_int_equal(got.sample_count, 1);
	assert_int_equal(drain(), 0);
}

/*
 * Samples this program: its mappings and its file are read from /proc. Returns the id of the file;
 * 0: no mapping is known as its own.
 */
static uint64_t sample_this_program(void)
{
	static uint32_t self;

	self = (uint32_t)getpid();
	config.events.pids = &self;
	assert_int_equal(perf_device_set_state(device, STACKBEAT_STATE_STOPPED, &error), 0);
	put_sample(self, self);
	assert_int_equal(drain(), 0);
	for (size_t i = 0; i < got.mapping_count; i++) {
		if (!(got.mappings[i].record.flags & STACKBEAT_MAPPING_MAIN_BINARY))
			continue;
		assert_true(got.mappings[i].record.flags & STACKBEAT_MAPPING_VADDR);
		return got.mappings[i].file;
	}
	return 0;
}

static void files_of_living_processes_are_held_open(void **state)
{
	const uint64_t file = sample_this_program();
	char bytes[4] = "";
	int fd;

	(void)state;
	assert_int_not_equal(file, 0);
	assert_int_equal(got.space_count, 1);
	assert_int_equal(got.spaces[0].parent, getppid());
	assert_true(got.spaces[0].start_time > 0);
	fd = device_file_open(device, file);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	assert_memory_equal(bytes, "\177ELF", sizeof(bytes));
	assert_int_equal(device_file_release(device, file), 0);
	assert_int_equal(device_file_open(device, file), -ENOENT);
	assert_int_equal(device_file_release(device, file), -ENOENT);
}

/* A thread stays in fcntl(), as long as a process lives that was forked meanwhile. */
static sem_t fcntl_begun, fcntl_may_end;
static bool fcntl_stays;

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	if (fcntl_stays) {
		sem_post(&fcntl_begun);
		sem_wait(&fcntl_may_end);
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static void *open_file(void *file)
{
	const int fd = device_file_open(device, *(const uint64_t *)file);

	if (fd >= 0)
		close(fd);
	return NULL;
}

/* Its parent has a thread with the lock of the files. */
static void forked_process_leaves_the_session(void **state)
{
	uint64_t file = sample_this_program();
	pthread_t thread;
	pid_t child, ended;
	int status = -1;

	(void)state;
	assert_int_not_equal(file, 0);
	assert_int_equal(sem_init(&fcntl_begun, 0, 0), 0);
	assert_int_equal(sem_init(&fcntl_may_end, 0, 0), 0);
	fcntl_stays = true;
	assert_int_equal(pthread_create(&thread, NULL, open_file, &file), 0);
	wait_until(!sem_trywait(&fcntl_begun));
	fcntl_stays = false;
	kernel.closes = 0;
	child = fork();
	if (!child) {
		alarm((unsigned int)hang_s());
		device_leave(device);
		_exit(kernel.closes != 1);
	}
	ended = child < 0 ? -1 : waitpid(child, &status, 0);
	sem_post(&fcntl_may_end);
	pthread_join(thread, NULL);
	assert_int_equal(ended, child);
	assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_sample_follows_its_address_space),
		TEST(later_mappings_are_events),
		TEST(a_fork_has_the_mappings_of_its_parent),
		TEST(mappings_replace_what_they_cover),
		TEST(lost_records_are_counted_and_leave_a_gap),
		TEST(ticks_that_the_timer_has_missed_are_counted),
		TEST(filters_are_applied_to_samples),
		TEST(samples_without_user_memory_have_no_address_space),
		TEST(only_kernel_mode_has_a_kernel_part),
		TEST(kernel_threads_have_no_user_part),
		TEST(both_parts_are_of_all_modes),
		TEST(a_32_bit_program_has_no_copy),
		TEST(samples_stay_until_they_are_handled),
		TEST(copies_know_their_size),
		TEST(sizes_of_copies_are_adapted),
		TEST(cpus_are_followed),
		TEST(a_damaged_ring_is_reported_once),
		TEST(files_of_living_processes_are_held_open),
		TEST(forked_process_leaves_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
