// SPDX-License-Identifier: GPL-2.0
/* Rings of perf events, which are files in memory here. */
#include "source/perf_rings.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING_SIZE (256u << 10)
#define RINGS_MAX 3u
#define ID_WORDS 3u /* behind a record */

static struct perf_rings rings;
static const char *problem;

/* What writes into a ring. */
static struct writer {
	struct perf_event_mmap_page *page;
	uint8_t *data;
} writers[RINGS_MAX];

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* The file of a ring, whose fd the rings own. */
static int make_ring_file(struct writer *writer)
{
	const int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(page_size() + RING_SIZE)), 0);
	if (writer) {
		writer->page = mmap(NULL, page_size() + RING_SIZE, PROT_READ | PROT_WRITE,
				    MAP_SHARED, fd, 0);
		assert_ptr_not_equal(writer->page, MAP_FAILED);
		writer->data = (uint8_t *)writer->page + page_size();
	}
	return fd;
}

static int add_rings(void **state)
{
	(void)state;
	rings.size = RING_SIZE;
	problem = NULL;
	for (uint32_t i = 0; i < RINGS_MAX; i++) {
		if (perf_rings_add(&rings, make_ring_file(&writers[i]), 10 + i))
			return -1;
	}
	return 0;
}

static int clear_rings(void **state)
{
	(void)state;
	perf_rings_clear(&rings);
	for (size_t i = 0; i < RINGS_MAX; i++)
		munmap(writers[i].page, page_size() + RING_SIZE);
	return rings.count || rings.items || rings.capacity || rings.read;
}

/* Begins a ring at a position, as if all before was read. */
static void begin_at(size_t ring, uint64_t position)
{
	perf_rings_remove(&rings, ring);
	munmap(writers[ring].page, page_size() + RING_SIZE);
	assert_int_equal(ring, rings.count);
	assert_int_equal(perf_rings_add(&rings, make_ring_file(&writers[ring]), 10), 0);
	rings.items[ring].tail = position;
	writers[ring].page->data_head = writers[ring].page->data_tail = position;
}

/* Writes a record with the name of a thread, of `size` bytes in all. */
static void write_record(size_t ring, uint64_t time, size_t size)
{
	struct writer *writer = &writers[ring];
	const struct perf_event_header header = {.type = PERF_RECORD_COMM, .size = (uint16_t)size};
	uint64_t *words = calloc(1, size);
	const size_t count = size / sizeof(*words);

	assert_non_null(words);
	memcpy(words, &header, sizeof(header));
	words[1] = 7 | UINT64_C(8) << 32;
	memset(&words[2], 'a', size - (2 + ID_WORDS) * sizeof(*words) - 1);
	words[count - 2] = time;
	for (size_t i = 0; i < size; i++)
		writer->data[(writer->page->data_head + i) % RING_SIZE] = ((uint8_t *)words)[i];
	writer->page->data_head += size;
	free(words);
}

/* Expects the next record up to a time; 0: none. */
static void expect_next(uint64_t until, uint64_t time, size_t size)
{
	const struct perf_record *record = perf_rings_next(&rings, until, &problem);

	if (!time) {
		assert_null(record);
		return;
	}
	assert_non_null(record);
	assert_int_equal(record->type, PERF_RECORD_COMM);
	assert_int_equal(record->time, time);
	assert_int_equal(record->pid, 7);
	assert_int_equal(record->tid, 8);
	assert_int_equal(strlen(record->comm), size - (2 + ID_WORDS) * sizeof(uint64_t) - 1);
	assert_int_equal(strspn(record->comm, "a"), strlen(record->comm));
}

static void expect_tail(size_t ring, uint64_t tail)
{
	assert_int_equal(writers[ring].page->data_tail, tail);
}

static void records_come_in_the_order_of_time(void **state)
{
	(void)state;
	write_record(0, 20, 48);
	write_record(0, 40, 64);
	write_record(1, 10, 48);
	write_record(2, 20, 56);
	write_record(2, 30, 48);
	/* Nothing is seen before. */
	expect_next(100, 0, 0);
	perf_rings_snapshot(&rings);
	write_record(1, 11, 48);
	expect_next(9, 0, 0);
	expect_next(10, 10, 48);
	expect_next(29, 20, 48);
	expect_next(29, 20, 56);
	expect_next(29, 0, 0);
	expect_tail(0, 0);
	perf_rings_release(&rings);
	expect_tail(0, 48);
	expect_tail(1, 48);
	expect_tail(2, 56);
	perf_rings_snapshot(&rings);
	expect_next(100, 11, 48);
	/* The last one is read as well, also if nobody has asked for another one. */
	perf_rings_release(&rings);
	expect_tail(1, 96);
	perf_rings_snapshot(&rings);
	expect_next(100, 30, 48);
	/* It was not released: it comes again. */
	perf_rings_snapshot(&rings);
	expect_next(100, 30, 48);
	expect_next(100, 40, 64);
	expect_next(100, 0, 0);
	perf_rings_release(&rings);
	perf_rings_release(&rings);
	expect_tail(0, 112);
	expect_tail(2, 104);
	assert_null(problem);
}

/* At each position, and as large as a record can be, with others behind it. */
static void records_may_wrap_around(void **state)
{
	static const size_t sizes[] = {48, 1024, (64 << 10) - 8};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const size_t size = sizes[i], step = size > 1024 ? 4096 - 8 : 8;

		for (size_t before = 0; before <= size; before += step) {
			begin_at(2, UINT64_C(3) * RING_SIZE - before);
			write_record(2, 5, size);
			write_record(2, 6, 48);
			write_record(2, 7, (64 << 10) - 8);
			perf_rings_snapshot(&rings);
			expect_next(100, 5, size);
			expect_next(100, 6, 48);
			expect_next(100, 7, (64 << 10) - 8);
			expect_next(100, 0, 0);
			perf_rings_release(&rings);
			expect_tail(2,
				    UINT64_C(3) * RING_SIZE - before + size + 48 + (64 << 10) - 8);
		}
	}
	assert_null(problem);
}

static void ring_may_be_full(void **state)
{
	const size_t size = 32 << 10;

	(void)state;
	begin_at(2, 48);
	for (uint64_t i = 0; i < RING_SIZE / size; i++)
		write_record(2, i + 1, size);
	perf_rings_snapshot(&rings);
	for (uint64_t i = 0; i < RING_SIZE / size; i++)
		expect_next(100, i + 1, size);
	expect_next(100, 0, 0);
	perf_rings_release(&rings);
	expect_tail(2, 48 + RING_SIZE);
}

static void malformed_record_costs_its_ring(void **state)
{
	(void)state;
	write_record(0, 20, 48);
	write_record(0, 21, 48);
	write_record(0, 22, 48);
	write_record(1, 30, 48);
	/* The size of the second one. */
	writers[0].data[48 + offsetof(struct perf_event_header, size)] = 4;
	perf_rings_snapshot(&rings);
	expect_next(100, 20, 48);
	assert_null(problem);
	expect_next(100, 30, 48);
	assert_string_equal(problem, "a record has a wrong size");
	expect_next(100, 0, 0);
	perf_rings_release(&rings);
	expect_tail(0, 144);
	/* What comes later is read. */
	write_record(0, 40, 48);
	perf_rings_snapshot(&rings);
	expect_next(100, 40, 48);
	perf_rings_release(&rings);
	/* A record of which a part is there. */
	write_record(0, 50, 48);
	writers[0].page->data_head -= sizeof(uint64_t);
	perf_rings_snapshot(&rings);
	expect_next(100, 0, 0);
	assert_string_equal(problem, "a record goes beyond the head");
}

static void expect_closed(int fd)
{
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void expect_unmapped(char *address)
{
	assert_int_equal(msync(address, page_size(), MS_ASYNC), -1);
	assert_int_equal(errno, ENOMEM);
}

static void removed_ring_is_closed(void **state)
{
	const int fds[] = {rings.items[0].fd, rings.items[1].fd, rings.items[2].fd};
	char *const page = (char *)rings.items[1].page;

	(void)state;
	write_record(0, 20, 48);
	write_record(1, 10, 48);
	write_record(2, 30, 48);
	perf_rings_remove(&rings, 1);
	expect_closed(fds[1]);
	expect_unmapped(page);
	expect_unmapped(page + RING_SIZE);
	assert_int_equal(rings.count, 2);
	assert_int_equal(rings.items[0].cpu, 10);
	assert_int_equal(rings.items[1].cpu, 12);
	assert_int_equal(rings.items[1].fd, fds[2]);
	perf_rings_snapshot(&rings);
	expect_next(100, 20, 48);
	expect_next(100, 30, 48);
	expect_next(100, 0, 0);
	perf_rings_clear(&rings);
	expect_closed(fds[0]);
	expect_closed(fds[2]);
}

static void rings_stay_in_order(void **state)
{
	(void)state;
	/* No room is left behind the last one. */
	while (rings.count < rings.capacity)
		assert_int_equal(
			perf_rings_add(&rings, make_ring_file(NULL), (uint32_t)(10 + rings.count)),
			0);
	perf_rings_remove(&rings, rings.count / 2);
	perf_rings_remove(&rings, 0);
	for (size_t i = 0; i < rings.count; i++)
		assert_int_equal(rings.items[i].cpu, 10 + i + 1 + (i + 1 >= rings.capacity / 2));
}

static void ring_that_is_not_mapped_is_closed(void **state)
{
	int fd = open("/dev/null", O_PATH | O_CLOEXEC);

	(void)state;
	assert_int_equal(perf_rings_add(&rings, fd, 0), -EBADF);
	expect_closed(fd);
	/* As without the right to lock the memory. */
	fd = make_ring_file(NULL);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(perf_rings_add(&rings, fd, 0), -ENOBUFS);
	expect_closed(fd);
	assert_int_equal(rings.count, RINGS_MAX);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, add_rings, clear_rings)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_in_the_order_of_time),
		TEST(records_may_wrap_around),
		TEST(ring_may_be_full),
		TEST(malformed_record_costs_its_ring),
		TEST(removed_ring_is_closed),
		TEST(rings_stay_in_order),
		TEST(ring_that_is_not_mapped_is_closed),
	};

	return cmocka_run_group_tests_name("perf_rings", tests, NULL, NULL);
}
