// SPDX-License-Identifier: GPL-2.0
/* Records of perf events, well-formed and malformed. */
#include "unit.h"

#include <asm/perf_regs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "source/perf_record.h"

#define SAMPLE_TYPE                                                                                \
	(PERF_SAMPLE_ALWAYS | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |                      \
	 PERF_SAMPLE_STACK_USER)
#define WORDS_MAX 128u

/* A record that is being written. */
static uint64_t words[WORDS_MAX];
static size_t count;

static void begin(uint32_t type, uint16_t misc)
{
	const struct perf_event_header header = {.type = type, .misc = misc};

	memset(words, 0, sizeof(words));
	memcpy(words, &header, sizeof(header));
	count = 1;
}

static void put(uint64_t word)
{
	assert_true(count < WORDS_MAX);
	words[count++] = word;
}

static void put_halves(uint32_t low, uint32_t high)
{
	put(low | (uint64_t)high << 32);
}

static void put_string(const char *string)
{
	size_t size = strlen(string) + 1;

	memcpy(words + count, string, size);
	count += (size + 7) / 8;
}

/* What is behind each record but samples. */
static void put_sample_id(void)
{
	put_halves(7, 8);
	put(1234); /* time */
	put_halves(3, 0); /* CPU */
}

static void set_size(size_t bytes)
{
	const uint16_t size = (uint16_t)bytes;

	memcpy((char *)words + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

/* Decodes a copy of exactly these bytes, so that a read beyond them is found. */
static const char *decode_bytes(size_t bytes, uint64_t sample_type, struct perf_record *record)
{
	static void *copy;

	free(copy);
	copy = malloc(bytes);
	assert_non_null(copy);
	memcpy(copy, words, bytes);
	return perf_record_decode(copy, bytes, sample_type, record);
}

static const char *decode(struct perf_record *record)
{
	set_size(count * sizeof(*words));
	return decode_bytes(count * sizeof(*words), SAMPLE_TYPE, record);
}

static void put_sample(void)
{
	begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	put_halves(70, 71);
	put(99);
	put_halves(2, 0);
	put(4); /* call chain */
	put((uint64_t)PERF_CONTEXT_KERNEL);
	put(0xffffffff81000000);
	put((uint64_t)PERF_CONTEXT_USER);
	put(0x401000);
	put(PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < STACKBEAT_REGISTERS; i++)
		put(0x1000 + i);
	put(16); /* stack */
	put(0x11);
	put(0x22);
	put(8);
}

static void samples_have_registers_in_the_order_of_dwarf(void **state)
{
	struct perf_record record;

	(void)state;
	put_sample();
	assert_null(decode(&record));
	assert_int_equal(record.type, PERF_RECORD_SAMPLE);
	assert_int_equal(record.misc, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(record.pid, 70);
	assert_int_equal(record.tid, 71);
	assert_int_equal(record.time, 99);
	assert_int_equal(record.cpu, 2);
	assert_int_equal(record.sample.chain_length, 4);
	assert_int_equal(record.sample.chain[3], 0x401000);
	assert_int_equal(record.sample.abi, PERF_SAMPLE_REGS_ABI_64);
	/* The kernel's order: ax, bx, cx, dx, si, di, bp, sp, ip, r8 to r15. */
	assert_int_equal(record.sample.registers[STACKBEAT_REGISTER_RBX], 0x1001);
	assert_int_equal(record.sample.registers[1], 0x1003);
	assert_int_equal(record.sample.registers[2], 0x1002);
	assert_int_equal(record.sample.registers[STACKBEAT_REGISTER_RBP], 0x1006);
	assert_int_equal(record.sample.registers[STACKBEAT_REGISTER_RSP], 0x1007);
	assert_int_equal(record.sample.registers[STACKBEAT_REGISTER_RIP], 0x1008);
	assert_int_equal(record.sample.registers[8], 0x1009);
	assert_int_equal(record.sample.registers[15], 0x1010);
	assert_int_equal(__builtin_popcountll(perf_record_registers), STACKBEAT_REGISTERS);
	/* Of 16 bytes, 8 could be read. */
	assert_int_equal(record.sample.stack_size, 8);
	assert_int_equal(record.sample.stack_asked, 16);
	assert_int_equal(*record.sample.stack, 0x11);
}

static void a_kernel_thread_has_no_registers(void **state)
{
	struct perf_record record;

	(void)state;
	begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	put_halves(2, 2);
	put(99);
	put_halves(0, 0);
	put(0);
	put(PERF_SAMPLE_REGS_ABI_NONE);
	put(0);
	assert_null(decode(&record));
	assert_int_equal(record.sample.abi, PERF_SAMPLE_REGS_ABI_NONE);
	assert_int_equal(record.sample.stack_size, 0);
}

static void put_mapping(uint64_t length)
{
	begin(PERF_RECORD_MMAP2, 0);
	put_halves(70, 71);
	put(0x7f0000000000);
	put(length);
	put(0x2000);
	put_halves(8, 1);
	put(555);
	put(6);
	put_halves(5, 2);
	put_string("/lib/libx.so");
	put_sample_id();
}

static void mappings_have_file_and_time(void **state)
{
	struct perf_record record;

	(void)state;
	put_mapping(0x3000);
	assert_null(decode(&record));
	assert_int_equal(record.pid, 70);
	assert_int_equal(record.time, 1234);
	assert_int_equal(record.cpu, 3);
	assert_int_equal(record.mapping.start, 0x7f0000000000);
	assert_int_equal(record.mapping.end, 0x7f0000003000);
	assert_int_equal(record.mapping.offset, 0x2000);
	assert_int_equal(record.mapping.device_major, 8);
	assert_int_equal(record.mapping.device_minor, 1);
	assert_int_equal(record.mapping.inode, 555);
	assert_int_equal(record.mapping.inode_generation, 6);
	assert_string_equal(record.mapping.path, "/lib/libx.so");
	put_mapping(0);
	assert_non_null(decode(&record));
	put_mapping(UINT64_MAX);
	assert_non_null(decode(&record));
}

static void put_symbol(uint64_t start, uint32_t length, uint16_t type, uint16_t flags)
{
	begin(PERF_RECORD_KSYMBOL, 0);
	put(start);
	put_halves(length, type | (uint32_t)flags << 16);
	put_string("bpf_prog_6deef7357e7b4530_a");
	put_sample_id();
}

static void generated_code_has_its_range_and_name(void **state)
{
	struct perf_record record;

	(void)state;
	put_symbol(0xffffffffc0000040, 0x123, PERF_RECORD_KSYMBOL_TYPE_BPF, 0);
	assert_null(decode(&record));
	assert_int_equal(record.time, 1234);
	assert_int_equal(record.symbol.start, 0xffffffffc0000040);
	assert_int_equal(record.symbol.end, 0xffffffffc0000163);
	assert_int_equal(record.symbol.type, PERF_RECORD_KSYMBOL_TYPE_BPF);
	assert_false(record.symbol.is_gone);
	assert_string_equal(record.symbol.name, "bpf_prog_6deef7357e7b4530_a");
	put_symbol(0xffffffffc0000040, 0x123, PERF_RECORD_KSYMBOL_TYPE_OOL,
		   PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	assert_null(decode(&record));
	assert_int_equal(record.symbol.type, PERF_RECORD_KSYMBOL_TYPE_OOL);
	assert_true(record.symbol.is_gone);
	put_symbol(UINT64_MAX - 0x10, 0x11, PERF_RECORD_KSYMBOL_TYPE_BPF, 0);
	assert_non_null(decode(&record));
}

static void tasks_and_losses_are_decoded(void **state)
{
	struct perf_record record;

	(void)state;
	begin(PERF_RECORD_FORK, 0);
	put_halves(80, 70);
	put_halves(81, 71);
	put(1);
	put_sample_id();
	assert_null(decode(&record));
	assert_int_equal(record.pid, 80);
	assert_int_equal(record.tid, 81);
	assert_int_equal(record.parent.pid, 70);
	assert_int_equal(record.parent.tid, 71);

	begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put_halves(80, 80);
	put_string("worker");
	put_sample_id();
	assert_null(decode(&record));
	assert_string_equal(record.comm, "worker");
	assert_true(record.misc & PERF_RECORD_MISC_COMM_EXEC);

	begin(PERF_RECORD_LOST, 0);
	put(0);
	put(17);
	put_sample_id();
	assert_null(decode(&record));
	assert_int_equal(record.lost, 17);

	/* A type that is not known. */
	begin(200, 0);
	put_sample_id();
	assert_null(decode(&record));
	assert_int_equal(record.type, 200);
}

/* A sample has only what its event asks for. */
static void samples_have_parts(void **state)
{
	struct perf_record record;

	(void)state;
	put_sample();
	words[count - 1] = 16;
	assert_null(decode(&record));
	assert_int_equal(record.sample.stack_size, 16);
	/* The rest of the record would be more than there is. */
	begin(PERF_RECORD_SAMPLE, 0);
	put_halves(70, 71);
	put(99);
	put_halves(2, 0);
	set_size(count * sizeof(*words));
	assert_null(decode_bytes(count * sizeof(*words), PERF_SAMPLE_ALWAYS, &record));
	assert_int_equal(record.cpu, 2);
	/* A call chain up to the end. */
	put(2);
	put((uint64_t)PERF_CONTEXT_USER);
	put(0x401000);
	set_size(count * sizeof(*words));
	assert_null(decode_bytes(count * sizeof(*words), PERF_SAMPLE_ALWAYS | PERF_SAMPLE_CALLCHAIN,
				 &record));
	assert_int_equal(record.sample.chain_length, 2);
	assert_int_equal(record.sample.chain[1], 0x401000);
}

static void mappings_end_in_memory_and_file(void **state)
{
	static const struct {
		uint64_t start, length, offset;
		bool is_refused;
	} cases[] = {
		{UINT64_MAX - 0x1000, 0x1000, 0, false},
		{UINT64_MAX - 0x1000, 0x1001, 0, true},
		{0x1000, 0x1000, UINT64_MAX - 0x1000, false},
		{0x1000, 0x1001, UINT64_MAX - 0x1000, true},
	};
	struct perf_record record;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_mapping(cases[i].length);
		words[2] = cases[i].start;
		words[4] = cases[i].offset;
		assert_int_equal(!!decode(&record), cases[i].is_refused);
	}
}

static void refused_records_have_a_reason(void **state)
{
	const size_t header = sizeof(struct perf_event_header);
	struct perf_record record;

	(void)state;
	begin(PERF_RECORD_SAMPLE, 0);
	set_size(header);
	assert_string_equal(decode_bytes(header - 1, SAMPLE_TYPE, &record),
			    "a record is shorter than its header");
	assert_int_equal(record.type, 0);
	assert_string_equal(decode_bytes(header, SAMPLE_TYPE, &record),
			    "a sample is shorter than its fields");
	set_size(header + 4);
	assert_string_equal(decode_bytes(header + 4, SAMPLE_TYPE, &record),
			    "a record has a wrong size");
	set_size(2 * header);
	assert_string_equal(decode_bytes(header, SAMPLE_TYPE, &record),
			    "a record goes beyond the head");
	/* Without room for the time. */
	begin(200, 0);
	set_size(header + 16);
	assert_string_equal(decode_bytes(header + 16, SAMPLE_TYPE, &record),
			    "a record is shorter than its fields");
}

static void malformed_records_are_refused(void **state)
{
	struct perf_record record;
	uint64_t size;

	(void)state;
	/* Each record, cut at each word. */
	put_sample();
	size = count;
	for (size_t words_left = 1; words_left < size; words_left++) {
		put_sample();
		set_size(words_left * sizeof(*words));
		assert_non_null(decode_bytes(words_left * sizeof(*words), SAMPLE_TYPE, &record));
	}
	put_mapping(0x1000);
	size = count;
	for (size_t words_left = 1; words_left < size; words_left++) {
		put_mapping(0x1000);
		set_size(words_left * sizeof(*words));
		decode_bytes(words_left * sizeof(*words), SAMPLE_TYPE, &record);
	}
	/* Wrong sizes: beyond the head, not aligned, shorter than the header. */
	put_sample();
	set_size(count * sizeof(*words) + 8);
	assert_non_null(decode_bytes(count * sizeof(*words), SAMPLE_TYPE, &record));
	set_size(12);
	assert_non_null(decode_bytes(count * sizeof(*words), SAMPLE_TYPE, &record));
	set_size(0);
	assert_non_null(decode_bytes(count * sizeof(*words), SAMPLE_TYPE, &record));
	assert_non_null(decode_bytes(4, SAMPLE_TYPE, &record));
	/* A call chain longer than the record, and one whose size overflows. */
	put_sample();
	words[4] = 1000;
	assert_non_null(decode(&record));
	put_sample();
	words[4] = UINT64_MAX / 8 + 1;
	assert_non_null(decode(&record));
	/* More bytes of the stack than were asked for. */
	put_sample();
	words[count - 1] = 24;
	assert_non_null(decode(&record));
	/* A name that is not terminated. */
	begin(PERF_RECORD_COMM, 0);
	put_halves(80, 80);
	put(0x4141414141414141);
	put_sample_id();
	assert_non_null(decode(&record));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_have_registers_in_the_order_of_dwarf),
		cmocka_unit_test(a_kernel_thread_has_no_registers),
		cmocka_unit_test(mappings_have_file_and_time),
		cmocka_unit_test(generated_code_has_its_range_and_name),
		cmocka_unit_test(tasks_and_losses_are_decoded),
		cmocka_unit_test(samples_have_parts),
		cmocka_unit_test(mappings_end_in_memory_and_file),
		cmocka_unit_test(refused_records_have_a_reason),
		cmocka_unit_test(malformed_records_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
