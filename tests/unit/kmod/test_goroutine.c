// SPDX-License-Identifier: GPL-2.0
/* The module's reader of goroutines, compiled for user space, on the memory of made-up programs. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* The kernel's own header of the name is not the one of libc. */
#include "../../../kmod/goroutine.c"

#define BASE 0x7000000000ul /* of the memory of the program */
#define MEMORY 65536u
#define FS_BASE (BASE + 256)
#define G (BASE + 0x1000)
#define OTHER_G (BASE + 0x1400)
#define M (BASE + 0x1800)
#define LABELS (BASE + 0x2000)
#define STRINGS (BASE + 0x4000)
#define MAP (BASE + 0x6000)
#define BUCKETS (BASE + 0x7000)
#define OVERFLOW_BUCKETS (BASE + 0x9000)

static uint8_t memory[MEMORY];
static size_t strings; /* bytes in use at STRINGS */
static size_t reads;
static unsigned long unreadable; /* an address; 0: none */

int shim_user_access;

bool shim_read_user(void *to, unsigned long from, size_t size)
{
	reads++;
	assert_int_equal(shim_user_access, 1);
	if (from < BASE || from + size > BASE + MEMORY ||
	    (unreadable >= from && unreadable < from + size))
		return false;
	memcpy(to, memory + (from - BASE), size);
	return true;
}

static struct stackbeat_unwind_go go;
/* With a guard behind what the longest result has, and STACKBEAT_GO_SLACK. */
static struct {
	u64 words[2 + (STACKBEAT_GO_LABELS_SIZE_MAX + STACKBEAT_GO_SLACK) / sizeof(u64)];
	u64 guard;
} result;

static void put(unsigned long at, u64 word)
{
	assert_in_range(at, BASE, BASE + MEMORY - sizeof(word));
	memcpy(memory + (at - BASE), &word, sizeof(word));
}

/* Puts the head of a string, and the string itself. */
static void put_string(unsigned long at, const char *text, size_t size)
{
	put(at, STRINGS + strings);
	put(at + 8, size);
	memcpy(memory + (STRINGS - BASE) + strings, text, size);
	strings += size;
}

static u32 read_goroutine(u32 wanted)
{
	u32 found;

	memset(&result, 0xaa, sizeof(result));
	reads = 0;
	found = sb_goroutine_read(wanted, result.words, &go, FS_BASE);
	assert_int_equal(shim_user_access, 0);
	assert_int_equal(result.guard, 0xaaaaaaaaaaaaaaaa);
	return found;
}

/* A goroutine that runs, with id 42. */
static int setup(void **state)
{
	(void)state;
	memset(memory, 0, sizeof(memory));
	strings = 0;
	unreadable = 0;
	go = (struct stackbeat_unwind_go){
		.tls = -8, .m = 48, .curg = 192, .goid = 152, .gopc = 280, .labels = 344};
	put(FS_BASE - 8, G);
	put(G + 48, M);
	put(M + 192, G);
	put(G + 152, 42);
	put(G + 280, 0x401000);
	return 0;
}

static void set_slice(u64 count)
{
	go.label_slices = 1;
	put(G + 344, LABELS);
	put(LABELS, LABELS + 64);
	put(LABELS + 8, count);
	put(LABELS + 16, count);
}

/* Sets label `i` of the slice. */
static void put_label(size_t i, const char *key, const char *value)
{
	put_string(LABELS + 64 + 32 * i, key, strlen(key));
	put_string(LABELS + 64 + 32 * i + 16, value, strlen(value));
}

static struct stackbeat_go_labels *labels_of(u32 found)
{
	assert_int_equal(found, STACKBEAT_GOROUTINE_LABELS);
	return (struct stackbeat_go_labels *)result.words;
}

/* Checks that the labels of the result have exactly these bytes. */
static void expect_labels(u16 count, u16 flags, const char *bytes, size_t size)
{
	const struct stackbeat_go_labels *labels =
		labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));

	assert_int_equal(labels->count, count);
	assert_int_equal(labels->flags, flags);
	assert_int_equal(labels->size, (sizeof(*labels) + size + 7) / 8 * 8);
	assert_memory_equal(labels->bytes, bytes, size);
	for (size_t i = sizeof(*labels) + size; i < labels->size; i++)
		assert_int_equal(((const u8 *)labels)[i], 0);
}

#define EXPECT_LABELS(count, flags, bytes) expect_labels(count, flags, bytes, sizeof(bytes) - 1)

static void words_are_in_the_order_of_the_bits(void **state)
{
	(void)state;
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ID), STACKBEAT_GOROUTINE_ID);
	assert_int_equal(result.words[0], 42);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_CREATOR), STACKBEAT_GOROUTINE_CREATOR);
	assert_int_equal(result.words[0], 0x401000);
	set_slice(1);
	put_label(0, "k", "v");
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), STACKBEAT_GOROUTINE_ALL);
	assert_int_equal(result.words[0], 42);
	assert_int_equal(result.words[1], 0x401000);
	assert_int_equal(((struct stackbeat_go_labels *)(result.words + 2))->count, 1);
	/* Not wanted. */
	assert_int_equal(read_goroutine(0), 0);
}

/* The thread is on its own stack, whose g has no id. */
static void set_other_stack(void)
{
	put(FS_BASE - 8, OTHER_G);
	put(OTHER_G + 48, M);
}

/* On the stack of the thread, the goroutine is m.curg, if no other thread runs it. */
static void goroutine_of_the_thread_is_found(void **state)
{
	(void)state;
	set_other_stack();
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ID), STACKBEAT_GOROUTINE_ID);
	assert_int_equal(result.words[0], 42);
	put(G + 48, M + 8);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
	put(G + 48, M);
	put(M + 192, 0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
}

static void missing_parts_are_left_out(void **state)
{
	(void)state;
	put(G + 280, 0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), STACKBEAT_GOROUTINE_ID);
	put(G + 280, 0x401000);
	go.gopc = 0;
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), STACKBEAT_GOROUTINE_ID);
	set_slice(1);
	put_label(0, "k", "v");
	go.labels = 0;
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), STACKBEAT_GOROUTINE_ID);
	put(G + 152, 0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
	put(G + 48, 0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
	put(FS_BASE - 8, 0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
}

static void any_pointer_may_be_invalid(void **state)
{
	static const u64 invalid[] = {1,         BASE - 8,       BASE + MEMORY - 4, TASK_SIZE_MAX,
				      1ul << 63, UINT64_MAX - 7, UINT64_MAX};
	static const unsigned long places[] = {FS_BASE - 8, OTHER_G + 48, M + 192};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(invalid); i++) {
		for (size_t place = 0; place < ARRAY_SIZE(places); place++) {
			setup(state);
			set_other_stack();
			put(places[place], invalid[i]);
			assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), 0);
		}
		setup(state);
		put(G + 344, invalid[i]);
		EXPECT_LABELS(0, STACKBEAT_GO_LABELS_CUT, "");
		go.label_slices = 1;
		EXPECT_LABELS(0, STACKBEAT_GO_LABELS_CUT, "");
		set_slice(1);
		put(LABELS, invalid[i]);
		EXPECT_LABELS(0, STACKBEAT_GO_LABELS_CUT, "");
	}
}

static void labels_of_a_slice(void **state)
{
	(void)state;
	set_slice(0);
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_LABELS), 0);
	set_slice(3);
	put_label(0, "path", "/api/v1/query");
	put_label(1, "", "");
	put_label(2, "k", "12345678");
	EXPECT_LABELS(3, 0,
		      "\x04\x0d"
		      "path/api/v1/query"
		      "\x00\x00"
		      "\x01\x08"
		      "k12345678");
}

/* A string that can't be read, or is at an invalid address, leaves the others. */
static void unreadable_strings_are_left_out(void **state)
{
	(void)state;
	set_slice(2);
	put_label(0, "first", "one");
	put_label(1, "second", "two");
	unreadable = STRINGS + 2;
	EXPECT_LABELS(1, STACKBEAT_GO_LABELS_CUT,
		      "\x06\x03"
		      "secondtwo");
	unreadable = 0;
	put(LABELS + 64, TASK_SIZE_MAX - 12);
	EXPECT_LABELS(1, STACKBEAT_GO_LABELS_CUT,
		      "\x06\x03"
		      "secondtwo");
}

/* Behind the end of a page there may be no memory; nothing behind the slack is written. */
static void strings_end_at_any_byte(void **state)
{
	static const char text[] = "0123456789abcdefghij";
	const struct stackbeat_go_labels *labels;
	const unsigned long page = STRINGS + PAGE_SIZE;

	(void)state;
	unreadable = page;
	for (size_t size = 1; size < sizeof(text); size++) {
		for (size_t before = 0; before < 9; before++) {
			const unsigned long at = page - before - size;

			set_slice(1);
			put(LABELS + 64, at);
			put(LABELS + 72, size);
			memcpy(memory + (at - BASE), text, size);
			put(LABELS + 80, at + size - 1);
			put(LABELS + 88, 1);
			labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
			assert_int_equal(labels->count, 1);
			assert_int_equal(labels->flags, 0);
			assert_int_equal(labels->bytes[0], size);
			assert_memory_equal(labels->bytes + 2, text, size);
			assert_int_equal(labels->bytes[2 + size], text[size - 1]);
			assert_int_equal(result.words[labels->size / sizeof(u64) + 1],
					 0xaaaaaaaaaaaaaaaa);
		}
	}
}

static void long_strings_are_cut(void **state)
{
	char key[STACKBEAT_GO_LABEL_KEY_MAX + 2], value[STACKBEAT_GO_LABEL_VALUE_MAX + 2];
	const struct stackbeat_go_labels *labels;

	(void)state;
	for (unsigned int longer = 0; longer < 4; longer++) {
		setup(state);
		memset(key, 'k', sizeof(key));
		memset(value, 'v', sizeof(value));
		key[STACKBEAT_GO_LABEL_KEY_MAX + (longer & 1)] = '\0';
		value[STACKBEAT_GO_LABEL_VALUE_MAX + (longer >> 1)] = '\0';
		set_slice(1);
		put_label(0, key, value);
		labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
		assert_int_equal(labels->count, 1);
		assert_int_equal(labels->flags, longer ? STACKBEAT_GO_LABELS_CUT : 0);
		assert_int_equal(labels->bytes[0], STACKBEAT_GO_LABEL_KEY_MAX);
		assert_int_equal(labels->bytes[1], STACKBEAT_GO_LABEL_VALUE_MAX);
		assert_int_equal(labels->size, 8 + 2 + 63 + 127);
	}
}

static void number_of_labels_is_limited(void **state)
{
	const struct stackbeat_go_labels *labels;

	(void)state;
	for (u64 more = 0; more < 2; more++) {
		setup(state);
		set_slice(STACKBEAT_GO_LABELS_COUNT_MAX + more);
		for (size_t i = 0; i < STACKBEAT_GO_LABELS_COUNT_MAX + more; i++)
			put_label(i, "a", "b");
		labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
		assert_int_equal(labels->count, STACKBEAT_GO_LABELS_COUNT_MAX);
		assert_int_equal(labels->flags, more ? STACKBEAT_GO_LABELS_CUT : 0);
	}
	put(LABELS + 8, UINT64_MAX);
	labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
	assert_int_equal(labels->count, STACKBEAT_GO_LABELS_COUNT_MAX);
	assert_int_equal(labels->flags, STACKBEAT_GO_LABELS_CUT);
}

/* The largest labels that fit fill the room to the last byte. */
static void size_of_labels_is_limited(void **state)
{
	char value[STACKBEAT_GO_LABEL_VALUE_MAX + 1] = "";
	const struct stackbeat_go_labels *labels;

	(void)state;
	for (unsigned int more = 0; more < 2; more++) {
		setup(state);
		set_slice(4);
		memset(value, 'v', STACKBEAT_GO_LABEL_VALUE_MAX);
		value[STACKBEAT_GO_LABEL_VALUE_MAX] = '\0';
		for (size_t i = 0; i < 3; i++)
			put_label(i, "k", value);
		/* 504 bytes are room for all labels, 390 are in use. */
		value[504 - 390 - 3 + more] = '\0';
		put_label(3, "k", value);
		labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
		assert_int_equal(labels->count, more ? 3 : 4);
		assert_int_equal(labels->flags, more ? STACKBEAT_GO_LABELS_CUT : 0);
		assert_int_equal(labels->size, more ? 400 : STACKBEAT_GO_LABELS_SIZE_MAX);
		/* Behind the id and the creator, they fill the result: the guard must stay. */
		assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_ALL), STACKBEAT_GOROUTINE_ALL);
	}
}

static void set_map(u64 count, u64 flags, u64 bits)
{
	put(G + 344, LABELS);
	put(LABELS, MAP);
	put(MAP, count);
	put(MAP + 8, flags | bits << 8 | 0x123400000000);
	put(MAP + 16, BUCKETS);
}

/* Sets a slot of the bucket at an address. */
static void put_slot(unsigned long bucket, size_t slot, u8 hash, const char *key, const char *value)
{
	memory[bucket - BASE + slot] = hash;
	put_string(bucket + 8 + 16 * slot, key, strlen(key));
	put_string(bucket + 8 + 128 + 16 * slot, value, strlen(value));
}

static void labels_of_a_map(void **state)
{
	(void)state;
	put(G + 344, LABELS);
	/* No map. */
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_LABELS), 0);
	set_map(0, 0, 0);
	put_slot(BUCKETS, 0, 200, "x", "y");
	assert_int_equal(read_goroutine(STACKBEAT_GOROUTINE_LABELS), 0);
	set_map(2, 0, 0);
	put_slot(BUCKETS, 1, 4, "moved", "away");
	put_slot(BUCKETS, 7, 5, "last", "z");
	EXPECT_LABELS(2, 0,
		      "\x01\x01"
		      "xy"
		      "\x04\x01"
		      "lastz");
}

static void buckets_overflow(void **state)
{
	(void)state;
	set_map(3, 0, 0);
	put_slot(BUCKETS, 0, 5, "a", "1");
	put(BUCKETS + 264, OVERFLOW_BUCKETS);
	put_slot(OVERFLOW_BUCKETS, 0, 5, "b", "2");
	EXPECT_LABELS(2, 0,
		      "\x01\x01"
		      "a1"
		      "\x01\x01"
		      "b2");
	/* Two buckets are read; what is in a third one is missing. */
	put(OVERFLOW_BUCKETS + 264, OVERFLOW_BUCKETS + 512);
	put_slot(OVERFLOW_BUCKETS + 512, 0, 5, "c", "3");
	EXPECT_LABELS(2, STACKBEAT_GO_LABELS_CUT,
		      "\x01\x01"
		      "a1"
		      "\x01\x01"
		      "b2");
}

/* While a map grows, entries are in the old buckets, too: half as many, or as many. */
static void growing_maps_are_whole(void **state)
{
	(void)state;
	for (unsigned int same_size = 0; same_size < 2; same_size++) {
		setup(state);
		set_map(4, 8 * same_size, 2);
		put(MAP + 24, OVERFLOW_BUCKETS);
		put_slot(BUCKETS + 3 * 272, 2, 99, "new", "1");
		put_slot(OVERFLOW_BUCKETS + 272, 0, 2, "new", "moved");
		put_slot(OVERFLOW_BUCKETS + 272, 1, 99, "old", "2");
		put_slot(OVERFLOW_BUCKETS + 2 * 272, 1, 99, "same", "3");
		if (same_size)
			EXPECT_LABELS(3, 0,
				      "\x03\x01"
				      "new1"
				      "\x03\x01"
				      "old2"
				      "\x04\x01"
				      "same3");
		else
			EXPECT_LABELS(2, 0,
				      "\x03\x01"
				      "new1"
				      "\x03\x01"
				      "old2");
	}
	/* The smallest map has one old bucket. */
	setup(state);
	set_map(1, 0, 0);
	put(MAP + 24, OVERFLOW_BUCKETS);
	put_slot(OVERFLOW_BUCKETS, 0, 99, "old", "2");
	put_slot(OVERFLOW_BUCKETS + 272, 0, 99, "none", "3");
	EXPECT_LABELS(1, 0,
		      "\x03\x01"
		      "old2");
}

static void large_maps_are_not_read(void **state)
{
	(void)state;
	set_map(100, 0, 3);
	put_slot(BUCKETS + 7 * 272, 0, 99, "k", "v");
	EXPECT_LABELS(1, 0,
		      "\x01\x01"
		      "kv");
	set_map(100, 0, 4);
	EXPECT_LABELS(0, STACKBEAT_GO_LABELS_CUT, "");
}

/* A smaller label may fit behind a label that does not. */
static void labels_behind_a_large_one_are_read(void **state)
{
	char value[STACKBEAT_GO_LABEL_VALUE_MAX + 1] = "";
	const struct stackbeat_go_labels *labels;

	(void)state;
	set_slice(6);
	memset(value, 'v', STACKBEAT_GO_LABEL_VALUE_MAX);
	for (size_t i = 0; i < 5; i++)
		put_label(i, "k", value);
	put_label(5, "s", "1");
	labels = labels_of(read_goroutine(STACKBEAT_GOROUTINE_LABELS));
	assert_int_equal(labels->count, 4);
	assert_int_equal(labels->flags, STACKBEAT_GO_LABELS_CUT);
	assert_memory_equal(labels->bytes + 3 * 130, "\1\1s1", 4);
}

/* A bound of the reads for forged labels: heads, and 4 unreadable labels behind 16 others. */
static const size_t reads_max = 10 + 32 * 2 + (16 + 4) * (4 + 63 / 8 + 7 + 127 / 8 + 7);

/* All slots of all buckets are in use, and no string can be read to its end. */
static void unreadable_labels_are_limited(void **state)
{
	const unsigned long page = STRINGS + PAGE_SIZE;

	(void)state;
	set_map(1000, 8, 3);
	put(MAP + 24, BUCKETS);
	unreadable = page;
	for (unsigned long bucket = 0; bucket < 8; bucket++) {
		const unsigned long at = BUCKETS + bucket * 272;

		put(at, UINT64_MAX);
		for (unsigned long slot = 0; slot < 8; slot++) {
			put(at + 8 + 16 * slot, page - 63);
			put(at + 16 + 16 * slot, 63);
			put(at + 136 + 16 * slot, page - 126);
			put(at + 144 + 16 * slot, 127);
		}
		put(at + 264, BUCKETS + (bucket + 1) % 8 * 272);
	}
	EXPECT_LABELS(0, STACKBEAT_GO_LABELS_CUT, "");
	assert_in_range(reads, 4 * 30, reads_max);
}

/* Whatever the memory holds, the result is valid, and takes bounded time. */
static void any_memory_is_read_in_bounded_time(void **state)
{
	static const u64 pointers[] = {BASE,    G,   M,       LABELS,
				       STRINGS, MAP, BUCKETS, BASE + MEMORY - 8};
	size_t most = 0;

	(void)state;
	srand(1);
	for (unsigned int round = 0; round < 20000; round++) {
		setup(state);
		go.label_slices = round % 2;
		put(G + 344, LABELS);
		for (unsigned long at = LABELS; at < BASE + MEMORY - 8; at += 8) {
			unsigned int kind = (unsigned int)rand() % 4;

			if (round % 64 && at > LABELS + 512 && (at < MAP || at > BUCKETS + 4096))
				continue;
			put(at, kind == 0   ? pointers[rand() % 8] + (u64)(rand() % 512)
				: kind == 1 ? (u64)rand() % 20
				: kind == 2 ? (u64)rand() << 40 | (u64)rand()
					    : (u64)rand());
		}
		if (read_goroutine(STACKBEAT_GOROUTINE_LABELS)) {
			const struct stackbeat_go_labels *labels = (void *)result.words;

			assert_in_range(labels->size, 8, STACKBEAT_GO_LABELS_SIZE_MAX);
			assert_in_range(labels->count, 0, STACKBEAT_GO_LABELS_COUNT_MAX);
		}
		if (reads > most)
			most = reads;
	}
	assert_in_range(most, 20, reads_max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(words_are_in_the_order_of_the_bits, setup),
		cmocka_unit_test_setup(goroutine_of_the_thread_is_found, setup),
		cmocka_unit_test_setup(missing_parts_are_left_out, setup),
		cmocka_unit_test_setup(any_pointer_may_be_invalid, setup),
		cmocka_unit_test_setup(labels_of_a_slice, setup),
		cmocka_unit_test_setup(unreadable_strings_are_left_out, setup),
		cmocka_unit_test_setup(strings_end_at_any_byte, setup),
		cmocka_unit_test_setup(long_strings_are_cut, setup),
		cmocka_unit_test_setup(number_of_labels_is_limited, setup),
		cmocka_unit_test_setup(size_of_labels_is_limited, setup),
		cmocka_unit_test_setup(labels_of_a_map, setup),
		cmocka_unit_test_setup(buckets_overflow, setup),
		cmocka_unit_test_setup(growing_maps_are_whole, setup),
		cmocka_unit_test_setup(large_maps_are_not_read, setup),
		cmocka_unit_test_setup(labels_behind_a_large_one_are_read, setup),
		cmocka_unit_test_setup(unreadable_labels_are_limited, setup),
		cmocka_unit_test_setup(any_memory_is_read_in_bounded_time, setup),
	};

	return cmocka_run_group_tests_name("goroutine", tests, NULL, NULL);
}
