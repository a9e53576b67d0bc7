// SPDX-License-Identifier: GPL-2.0
/* The rings of a session: a memory file with the layout of the device plays the kernel's side. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stackbeat.h>

#include "lib/error.h"
#include "source/device.h"

#define PAGE 4096u
#define CPUS 4u
#define OFFLINE 2u
#define RING_SIZE 4096u

static struct {
	int memory; /* the device's file */
	int open_err; /* errno value */
	int ioctl_err; /* errno value */
	uint64_t refused; /* offset that can't be mapped */
	int refused_err; /* errno value */
	unsigned long request;
	uint64_t file;
} kernel;

static struct stackbeat_session_page *page;
static struct device *device;
static struct error error;

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (strcmp(path, STACKBEAT_DEVICE) != 0)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	assert_int_equal(flags, O_RDWR | O_CLOEXEC);
	if (!kernel.open_err)
		return dup(kernel.memory);
	errno = kernel.open_err;
	return -1;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fd >= 0 && kernel.refused_err && (uint64_t)offset == kernel.refused) {
		errno = kernel.refused_err;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;

	va_start(args, request);
	kernel.request = request;
	kernel.file = *va_arg(args, uint64_t *);
	va_end(args);
	assert_int_equal(fd, device_fd(device));
	if (!kernel.ioctl_err)
		return 0;
	errno = kernel.ioctl_err;
	return -1;
}

/* Returns the kernel's mapping of a part of the device. */
static void *map(uint64_t offset, size_t size)
{
	void *part = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				     kernel.memory, offset);

	assert_ptr_not_equal(part, MAP_FAILED);
	return part;
}

/* Returns the number of mappings of the device. */
static size_t mapping_count(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	size_t count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += !!strstr(line, "memfd:stackbeat-test");
	fclose(maps);
	return count;
}

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.memory = memfd_create("stackbeat-test", MFD_CLOEXEC);
	if (kernel.memory < 0 || ftruncate(kernel.memory, (off_t)STACKBEAT_OFFSET_CPU(CPUS)))
		return -1;
	page = map(STACKBEAT_OFFSET_SESSION, PAGE);
	page->magic = STACKBEAT_MAGIC;
	page->abi = STACKBEAT_ABI;
	page->session = 17;
	page->cpus = CPUS;
	page->ring_size = RING_SIZE;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	munmap(page, PAGE);
	close(kernel.memory);
	return 0;
}

static void open_device(void)
{
	assert_int_equal(device_open(&device, &error), 0);
}

/* Closing leaves neither mappings nor descriptors. */
static void close_device(void)
{
	int fd = device_fd(device);

	device_close(device);
	assert_int_equal(mapping_count(), 1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void map_rings(const char *cpus)
{
	struct cpulist list;

	assert_int_equal(cpulist_parse(cpus, &list, &error), 0);
	assert_int_equal(device_map(device, &list, &error), 0);
}

static void failure_to_open_is_explained(void **state)
{
	static const struct {
		int code, err;
		const char *text;
	} cases[] = {
		{ENOENT, ENOENT, "stackbeat load"},  {ENXIO, ENOENT, "stackbeat load"},
		{ENODEV, ENOENT, "stackbeat load"},  {EOPNOTSUPP, EOPNOTSUPP, "ftrace_enabled"},
		{ENOMEM, ENOMEM, "locked memory"},   {EACCES, EACCES, "try sudo"},
		{EPERM, EPERM, "try sudo"},          {EUSERS, EUSERS, "the limit is 64"},
		{EIO, EIO, "/dev/stackbeat: Input"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kernel.open_err = cases[i].code;
		assert_int_equal(device_open(&device, &error), -cases[i].err);
		assert_non_null(strstr(error.text, cases[i].text));
	}
	kernel.open_err = 0;
	kernel.refused_err = EAGAIN;
	kernel.refused = STACKBEAT_OFFSET_SESSION;
	assert_int_equal(device_open(&device, &error), -EAGAIN);
	assert_non_null(strstr(error.text, "can't map the session"));
	device_close(NULL);
}

static void other_versions_are_refused(void **state)
{
	int lowest = dup(0);

	(void)state;
	close(lowest);
	page->abi = STACKBEAT_ABI + 1;
	assert_int_equal(device_open(&device, &error), -EPROTO);
	page->abi = STACKBEAT_ABI;
	page->magic++;
	assert_int_equal(device_open(&device, &error), -EPROTO);
	assert_int_equal(mapping_count(), 1);
	assert_int_equal(dup(0), lowest);
	close(lowest);
}

static void rings_of_listed_cpus_are_mapped(void **state)
{
	(void)state;
	open_device();
	assert_int_equal(device_session(device), 17);
	assert_int_equal(mapping_count(), 2);
	/* A ring has two mappings; the metadata ring is always mapped. */
	page->rings = 1;
	map_rings("1");
	assert_int_equal(mapping_count(), 6);
	/* Nothing is new. */
	map_rings("1-3");
	assert_int_equal(mapping_count(), 6);
	page->rings++;
	map_rings("1-3");
	assert_int_equal(mapping_count(), 10);
	close_device();
}

static void rings_are_looked_for_until_there_are_some(void **state)
{
	(void)state;
	open_device();
	kernel.refused_err = ENXIO;
	kernel.refused = STACKBEAT_OFFSET_CPU(OFFLINE);
	map_rings("2");
	assert_int_equal(mapping_count(), 4);
	kernel.refused_err = 0;
	map_rings("2");
	assert_int_equal(mapping_count(), 6);
	close_device();
}

static void rings_of_offline_cpus_are_skipped(void **state)
{
	struct cpulist all;

	(void)state;
	open_device();
	assert_int_equal(cpulist_parse("", &all, &error), 0);
	page->rings = CPUS;
	kernel.refused_err = ENXIO;
	kernel.refused = STACKBEAT_OFFSET_CPU(OFFLINE);
	assert_int_equal(device_map(device, &all, &error), 0);
	assert_int_equal(mapping_count(), 2 + 2 + 2 * (CPUS - 1));
	close_device();
}

static void failure_to_map_is_an_error(void **state)
{
	static const uint64_t offsets[] = {STACKBEAT_OFFSET_META, STACKBEAT_OFFSET_META + PAGE,
					   STACKBEAT_OFFSET_CPU(OFFLINE),
					   STACKBEAT_OFFSET_CPU(OFFLINE) + PAGE};
	struct cpulist all;

	(void)state;
	assert_int_equal(cpulist_parse("", &all, &error), 0);
	page->rings = CPUS;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		open_device();
		kernel.refused_err = ENOMEM;
		kernel.refused = offsets[i];
		assert_int_equal(device_map(device, &all, &error), -ENOMEM);
		assert_non_null(strstr(error.text, i < 2 ? "metadata ring" : "ring of CPU 2"));
		kernel.refused_err = 0;
		/* It is tried again. */
		assert_int_equal(device_map(device, &all, &error), 0);
		close_device();
	}
}

/* Appends samples with these numbers as process ids. */
static void write_samples(uint32_t cpu, uint32_t first, uint32_t count)
{
	struct stackbeat_producer_page *producer =
		map(STACKBEAT_OFFSET_CPU(cpu) + PAGE, PAGE + RING_SIZE);

	for (uint32_t i = 0; i < count; i++) {
		struct stackbeat_sample *sample =
			(void *)((uint8_t *)producer + PAGE + producer->head % RING_SIZE);

		memset(sample, 0, sizeof(*sample));
		sample->record.type = STACKBEAT_RECORD_SAMPLE;
		sample->record.size = sizeof(*sample);
		sample->pid = first + i;
		producer->head += sizeof(*sample);
	}
	munmap(producer, PAGE + RING_SIZE);
}

static uint64_t tail_of(uint64_t offset)
{
	struct stackbeat_consumer_page *consumer = map(offset, PAGE);
	uint64_t tail = consumer->tail;

	munmap(consumer, PAGE);
	return tail;
}

/* The process ID of a sample that can't be handled; 0: none. */
static uint32_t refused_pid;

static int sum_pid(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
		   void *arg)
{
	(void)stack;
	*(uint32_t *)arg += sample->pid;
	return refused_pid && sample->pid == refused_pid ? -ECANCELED : 0;
}

static uint32_t drain(int expected)
{
	uint32_t sum = 0;

	assert_int_equal(device_drain(device, NULL, sum_pid, &sum, &error), expected);
	device_release(device);
	return sum;
}

static void samples_stay_in_the_ring_until_they_are_released(void **state)
{
	uint32_t sum = 0;

	(void)state;
	open_device();
	page->rings = CPUS;
	map_rings("1,3");
	device_release(device);
	write_samples(1, 10, 1);
	device_snapshot_heads(device);
	assert_int_equal(device_drain(device, NULL, sum_pid, &sum, &error), 0);
	assert_int_equal(sum, 10);
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(1)), 0);
	device_release(device);
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(1)), sizeof(struct stackbeat_sample));
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(3)), 0);
	close_device();
}

static void samples_up_to_the_snapshot_are_drained(void **state)
{
	(void)state;
	open_device();
	page->rings = CPUS;
	map_rings("1,3");
	write_samples(0, 7, 1);
	write_samples(1, 10, 2);
	write_samples(3, 100, 1);
	assert_int_equal(drain(0), 0);
	device_snapshot_heads(device);
	write_samples(1, 50, 1);
	assert_int_equal(drain(0), 10 + 11 + 100);
	assert_int_equal(drain(0), 0);
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(1)), 2 * sizeof(struct stackbeat_sample));
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(3)), sizeof(struct stackbeat_sample));
	assert_int_equal(tail_of(STACKBEAT_OFFSET_CPU(0)), 0);
	device_snapshot_heads(device);
	assert_int_equal(drain(0), 50);
	close_device();
}

static void other_rings_are_drained_after_an_error(void **state)
{
	(void)state;
	open_device();
	page->rings = CPUS;
	map_rings("");
	write_samples(0, 1, 1);
	write_samples(1, 1000, 2);
	write_samples(3, 5, 1);
	device_snapshot_heads(device);
	refused_pid = 1000;
	assert_int_equal(drain(-ECANCELED), 1 + 1000 + 5);
	/* The sample stays in its ring. */
	refused_pid = 0;
	assert_int_equal(drain(0), 1000 + 1001);
	close_device();
}

static int count_file(const struct stackbeat_file *file, void *arg)
{
	(void)file;
	++*(uint32_t *)arg;
	return 0;
}

/* The kernel goes on with waiting records when there is room. */
static uint32_t waiting;

static void write_file(void)
{
	struct stackbeat_producer_page *producer =
		map(STACKBEAT_OFFSET_META + PAGE, PAGE + STACKBEAT_META_RING_SIZE);
	struct stackbeat_file *file = (void *)((uint8_t *)producer + PAGE + producer->head);

	file->record.type = STACKBEAT_RECORD_FILE;
	file->record.size = sizeof(*file) + 8;
	file->file = 1;
	strcpy(file->path, "/a");
	producer->head += file->record.size;
	munmap(producer, PAGE + STACKBEAT_META_RING_SIZE);
}

static int count_file_and_add(const struct stackbeat_file *file, void *arg)
{
	count_file(file, arg);
	if (waiting) {
		waiting--;
		write_file();
	}
	return 0;
}

static void metadata_is_drained_while_it_grows(void **state)
{
	uint32_t files = 0;
	const struct metadata_handler handler = {.file = count_file_and_add, .arg = &files};

	(void)state;
	open_device();
	assert_int_equal(device_drain_metadata(device, &handler, &error), 0);
	page->rings = CPUS;
	map_rings("0");
	write_file();
	waiting = 5;
	assert_int_equal(device_drain_metadata(device, &handler, &error), 0);
	assert_int_equal(files, 6);
	assert_int_equal(tail_of(STACKBEAT_OFFSET_META), 6 * (sizeof(struct stackbeat_file) + 8));
	/* It must not keep the reader from the samples. */
	waiting = 100;
	files = 0;
	write_file();
	assert_int_equal(device_drain_metadata(device, &handler, &error), 0);
	assert_int_equal(files, 16);
	assert_false(device_pending(device));
	page->metadata_pending = 1;
	assert_true(device_pending(device));
	close_device();
}

static void files_are_opened_and_released(void **state)
{
	(void)state;
	open_device();
	assert_int_equal(device_file_open(device, 5), 0);
	assert_int_equal(kernel.request, STACKBEAT_IOC_FILE_OPEN);
	assert_int_equal(kernel.file, 5);
	assert_int_equal(device_file_release(device, 6), 0);
	assert_int_equal(kernel.request, STACKBEAT_IOC_FILE_RELEASE);
	assert_int_equal(kernel.file, 6);
	kernel.ioctl_err = ENOENT;
	assert_int_equal(device_file_open(device, 5), -ENOENT);
	assert_int_equal(device_file_release(device, 5), -ENOENT);
	close_device();
}

static void moved_text_is_passed_on(void **state)
{
	const struct stackbeat_moved_text moved = {.address_space = 7};

	(void)state;
	open_device();
	assert_int_equal(device_move_text(device, &moved), 0);
	assert_int_equal(kernel.request, STACKBEAT_IOC_MOVED_TEXT);
	assert_int_equal(kernel.file, 7);
	kernel.ioctl_err = ESTALE;
	assert_int_equal(device_move_text(device, &moved), -ESTALE);
	close_device();
}

/* Few of its samples have copies. */
static void needs_of_stacks_are_not_passed_on(void **state)
{
	(void)state;
	open_device();
	kernel.request = 0;
	device_note_stack(device, 0, 4096);
	assert_int_equal(kernel.request, 0);
	close_device();
}

static void symbols_of_modules_are_read(void **state)
{
	struct stackbeat_module_symbols symbols = {.serial = 8};

	(void)state;
	open_device();
	assert_int_equal(device_module_symbols(device, &symbols), 0);
	assert_int_equal(kernel.request, STACKBEAT_IOC_MODULE_SYMBOLS);
	assert_int_equal(kernel.file, 8);
	kernel.ioctl_err = ENOSPC;
	assert_int_equal(device_module_symbols(device, &symbols), -ENOSPC);
	close_device();
}

#define DEVICE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(failure_to_open_is_explained),
		DEVICE_TEST(other_versions_are_refused),
		DEVICE_TEST(rings_of_listed_cpus_are_mapped),
		DEVICE_TEST(rings_are_looked_for_until_there_are_some),
		DEVICE_TEST(rings_of_offline_cpus_are_skipped),
		DEVICE_TEST(failure_to_map_is_an_error),
		DEVICE_TEST(samples_stay_in_the_ring_until_they_are_released),
		DEVICE_TEST(samples_up_to_the_snapshot_are_drained),
		DEVICE_TEST(other_rings_are_drained_after_an_error),
		DEVICE_TEST(metadata_is_drained_while_it_grows),
		DEVICE_TEST(files_are_opened_and_released),
		DEVICE_TEST(moved_text_is_passed_on),
		DEVICE_TEST(needs_of_stacks_are_not_passed_on),
		DEVICE_TEST(symbols_of_modules_are_read),
	};

	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
