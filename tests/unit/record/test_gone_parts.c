// SPDX-License-Identifier: GPL-2.0
#include "record/gone_parts.h"

#include "unit.h"

#include <errno.h>
#include <string.h>

#include <stackbeat.h>

#include "debuginfo/gone_modules.h"
#include "lib/clock.h"
#include "source/device_ops.h"
#include "source/generated_code.h"

#define CODE UINT64_C(0xffffffffc0230000)

/* What the module has. */
static struct {
	struct stackbeat_module_symbols parts[8];
	size_t count;
	uint64_t changes, dropped;
	int err; /* of all calls */
	unsigned int calls, texts;
	bool grows; /* a part, before its text is read */
	bool vanishes; /* the same */
	int text_err; /* of calls that read a text */
} kernel;

static int fake_module_symbols(const struct device *device,
			       struct stackbeat_module_symbols *symbols)
{
	const struct stackbeat_module_symbols *part = NULL;
	const uint64_t buffer = symbols->buffer, size = symbols->size;

	(void)device;
	kernel.calls++;
	if (kernel.err || (size && kernel.text_err))
		return kernel.err ?: kernel.text_err;
	symbols->serial += size && kernel.vanishes;
	for (size_t i = 0; i < kernel.count && !part; i++) {
		if (kernel.parts[i].serial >= symbols->serial)
			part = &kernel.parts[i];
	}
	if (!part) {
		symbols->changes = kernel.changes;
		symbols->dropped = kernel.dropped;
		return -ENOENT;
	}
	*symbols = *part;
	symbols->buffer = buffer;
	symbols->changes = kernel.changes;
	symbols->dropped = kernel.dropped;
	symbols->size += size && kernel.grows;
	if (size < symbols->size)
		return -ENOSPC;
	kernel.texts += size > 0;
	if (size)
		memset((void *)(uintptr_t)buffer, 'a' + (int)part->serial, symbols->size);
	return 0;
}

static const struct device_ops ops = {.module_symbols = fake_module_symbols};
static const struct device device = {&ops};

static struct stackbeat_module_symbols *add_part(uint64_t came, uint64_t gone, uint64_t start,
						 uint64_t end)
{
	struct stackbeat_module_symbols *part = &kernel.parts[kernel.count++];

	*part = (struct stackbeat_module_symbols){
		.serial = ++kernel.changes,
		.came = came,
		.gone = gone,
		.start = CODE + start,
		.end = CODE + end,
		.size = end > start ? 10 : 0,
		.module = "a_module",
	};
	return part;
}

static int setup(void **state)
{
	static struct gone_parts parts;

	memset(&kernel, 0, sizeof(kernel));
	memset(&parts, 0, sizeof(parts));
	*state = &parts;
	return 0;
}

static int teardown(void **state)
{
	gone_parts_clear(*state);
	return 0;
}

static void without_changes_one_call_is_made(void **state)
{
	assert_false(gone_parts_refresh(*state, &device, 0));
	assert_int_equal(kernel.calls, 1);
	add_part(1, 2, 0, 0x100);
	assert_true(gone_parts_refresh(*state, &device, 0));
	kernel.calls = 0;
	assert_false(gone_parts_refresh(*state, &device, 0));
	assert_int_equal(kernel.calls, 1);
}

/* In this session, no part was there before the first part that is seen. */
static void parts_that_were_dropped_at_first_are_counted(void **state)
{
	struct gone_parts *parts = *state;

	/* Parts of others, which are gone since their sessions were closed. */
	kernel.changes = 20;
	kernel.dropped = 4;
	assert_true(gone_parts_refresh(parts, &device, 0));
	add_part(1, 2, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 0);
	gone_parts_clear(parts);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 0);
	gone_parts_clear(parts);
	kernel.count = 0;
	kernel.changes = 20;
	assert_true(gone_parts_refresh(parts, &device, 0));
	kernel.dropped += 3;
	add_part(1, 2, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 3);
}

/* Serials are consecutive: what is missing was dropped before it was read. */
static void parts_that_were_never_read_are_counted(void **state)
{
	struct gone_parts *parts = *state;

	/* Before this session, whatever they were. */
	add_part(1, 2, 0, 0x100);
	kernel.parts[0].serial = kernel.changes = 7;
	assert_true(gone_parts_refresh(parts, &device, 0));
	add_part(3, 4, 0x100, 0x200);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 0);
	/* Two parts that were read, and two others. */
	kernel.count = 0;
	kernel.changes += 2;
	add_part(5, 6, 0x200, 0x300);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 2);
	assert_int_equal(parts->count, 3);
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 2);
}

/* As of a session without the kernel part. */
static void refused_reader_asks_once(void **state)
{
	kernel.err = -EPERM;
	assert_false(gone_parts_refresh(*state, &device, 0));
	assert_false(gone_parts_refresh(*state, &device, 0));
	assert_int_equal(kernel.calls, 1);
}

/* Also without a change of modules. */
static void parts_are_removed_with_their_samples(void **state)
{
	struct gone_parts *parts = *state;
	size_t bytes;

	add_part(10, 20, 0, 0x100);
	add_part(10, 0, 0x1000, 0x1100);
	assert_true(gone_parts_refresh(parts, &device, 20));
	assert_int_equal(parts->count, 2);
	bytes = gone_parts_bytes(parts);
	assert_false(gone_parts_refresh(parts, &device, 20));
	assert_true(gone_parts_refresh(parts, &device, 21));
	assert_int_equal(parts->count, 1);
	assert_int_equal(gone_parts_bytes(parts), bytes - 10);
	assert_int_equal(parts->items[0].start, CODE + 0x1000);
	assert_false(gone_parts_refresh(parts, &device, 22));
}

static void parts_are_read_once(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 0, 0, 0x100)->init = 1;
	add_part(10, 0, 0x1000, 0x1100);
	add_part(10, 0, 0, 0); /* no functions */
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 2);
	assert_int_equal(kernel.texts, 2);
	assert_true(parts->items[0].is_init);
	assert_false(parts->items[1].is_init);
	assert_string_equal(parts->items[1].module, "a_module");
	assert_memory_equal(parts->items[1].text, "cccccccccc", 10);
	kernel.parts[0].gone = 20;
	kernel.changes++;
	add_part(30, 0, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 3);
	assert_int_equal(kernel.texts, 3);
	assert_int_equal(parts->items[0].gone, 20);
	assert_memory_equal(parts->items[0].text, "bbbbbbbbbb", 10);
}

static void parts_that_went_before_are_left_out(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 20, 0, 0x100);
	add_part(10, 30, 0x100, 0x200);
	assert_true(gone_parts_refresh(parts, &device, 25));
	assert_int_equal(parts->count, 1);
	assert_int_equal(parts->items[0].gone, 30);
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 35));
	assert_int_equal(parts->count, 0);
	/* They are not even looked for. */
	kernel.calls = 0;
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 35));
	assert_int_equal(kernel.calls, 2);
}

/* The module has room for some parts only. */
static void dropped_parts_stay(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 20, 0, 0x100);
	add_part(10, 0, 0x100, 0x200);
	assert_true(gone_parts_refresh(parts, &device, 0));
	kernel.count = 0;
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 20));
	assert_int_equal(parts->count, 2);
	assert_int_equal(parts->items[0].gone, 20);
	assert_true(parts->items[1].gone > 20);
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 21));
	assert_int_equal(parts->count, 1);
}

static void part_without_its_text_is_left_out(void **state)
{
	struct gone_parts *parts = *state;

	kernel.grows = true;
	add_part(10, 20, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 0);
	/* It can't be read, or is of another part. */
	kernel.grows = false;
	kernel.text_err = -EIO;
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 0);
	kernel.text_err = 0;
	kernel.vanishes = true;
	add_part(10, 20, 0, 0x100)->serial = 2;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 0);
}

static void parts_are_in_the_order_of_their_starts(void **state)
{
	static const uint64_t starts[] = {0x300, 0x100, 0x500, 0x100, 0x200};
	static const uint64_t serials[] = {2, 4, 5, 1, 3};
	struct gone_parts *parts = *state;

	for (size_t i = 0; i < 5; i++)
		add_part(10, 20, starts[i], starts[i] + 0x80);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(parts->items[i].serial, serials[i]);
	assert_int_equal(gone_parts_bytes(parts), 50 + parts->capacity * sizeof(*parts->items));
}

static void dropped_parts_are_counted_once(void **state)
{
	struct gone_parts *parts = *state;

	kernel.dropped = 3;
	assert_false(gone_parts_refresh(parts, &device, 0));
	kernel.dropped = 5;
	add_part(10, 0, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 2);
	kernel.changes++;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->dropped, 2);
}

/* They are of generated code. */
static void serials_are_limited(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 0, 0, 0x100)->serial = GONE_SERIAL_MAX / 2 - 1;
	add_part(10, 0, 0x100, 0x200)->serial = GONE_SERIAL_MAX / 2;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 1);
	assert_int_equal(parts->items[0].start, CODE);
}

static void texts_are_limited(void **state)
{
	struct gone_parts *parts = *state;

	for (uint64_t i = 0; i < 3; i++)
		add_part(10, 0, 0x1000 * i, 0x1000 * i + 0x100)->size =
			i == 2 ? 1 : STACKBEAT_MODULE_SYMBOLS_BYTES;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 2);
	assert_int_equal(parts->dropped, 1);
}

static uint64_t alias(const struct gone_parts *parts, uint64_t time, uint64_t address, bool lasts)
{
	assert_int_equal(gone_parts_set_aliases(parts, time, &address, 1), lasts);
	return address;
}

/* Of parts that have come at once, the address is of the first that went. */
static void part_that_went_first_has_the_address(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 30, 0, 0x100);
	add_part(10, 20, 0x10, 0x100);
	add_part(10, 0, 0x20, 0x100);
	add_part(10, 25, 0x30, 0x100);
	add_part(10, 0, 0x40, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(alias(parts, 15, CODE + 0x50, false), gone_alias(2, CODE + 0x50));
	assert_int_equal(alias(parts, 22, CODE + 0x50, false), gone_alias(4, CODE + 0x50));
	assert_int_equal(alias(parts, 28, CODE + 0x50, false), gone_alias(1, CODE + 0x50));
}

static void time_decides_which_part_has_an_address(void **state)
{
	struct gone_parts *parts = *state;
	uint64_t frames[] = {CODE + 0x50, UINT64_C(0xffffffff81000000), CODE + 0x1050, 0};

	assert_true(gone_parts_set_aliases(parts, 15, frames, 4));
	assert_int_equal(frames[0], CODE + 0x50);
	add_part(10, 20, 0, 0x100);
	add_part(30, 40, 0x80, 0x200);
	add_part(30, 0, 0x1000, 0x1100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(alias(parts, 10, CODE, false), gone_alias(1, CODE));
	assert_int_equal(alias(parts, 20, CODE + 0xff, false), gone_alias(1, CODE + 0xff));
	assert_int_equal(alias(parts, 21, CODE + 0xff, false), gone_alias(0, CODE + 0xff));
	assert_int_equal(alias(parts, 30, CODE + 0xff, false), gone_alias(2, CODE + 0xff));
	assert_int_equal(alias(parts, 41, CODE + 0xff, false), gone_alias(0, CODE + 0xff));
	/* A part that is there has a later sample, too. */
	assert_int_equal(alias(parts, 99, CODE + 0x1000, true), gone_alias(3, CODE + 0x1000));
	/* Before it came, the address was of something else. */
	assert_int_equal(alias(parts, 29, CODE + 0x1000, false), gone_alias(0, CODE + 0x1000));
	/* No later sample is of the parts that are gone. */
	assert_int_equal(alias(parts, 41 + GONE_PARTS_SAMPLE_AGE_NS, CODE + 0xff, true),
			 gone_alias(0, CODE + 0xff));
	/* In none of them. */
	assert_int_equal(alias(parts, 15, CODE + 0x200, true), CODE + 0x200);
	assert_int_equal(alias(parts, 15, CODE - 1, true), CODE - 1);
	assert_int_equal(alias(parts, 15, CODE + 0x1100, true), CODE + 0x1100);
	assert_false(gone_parts_set_aliases(parts, 35, frames, 4));
	assert_int_equal(frames[0], gone_alias(0, CODE + 0x50));
	assert_int_equal(frames[1], UINT64_C(0xffffffff81000000));
	assert_int_equal(frames[2], gone_alias(3, CODE + 0x1050));
	assert_int_equal(frames[3], 0);
}

/* Generated code */

#define FIRST_SERIAL (GONE_SERIAL_MAX / 2)

static void announce(struct gone_parts *parts, uint64_t time, bool is_gone, uint64_t start,
		     const char *name)
{
	gone_parts_announce(parts, &(struct generated_code_change){
					   .time = time,
					   .start = CODE + start,
					   .end = CODE + start + 0x100,
					   .is_gone = is_gone,
					   .is_bpf = true,
					   .name = name,
				   });
}

/* As a sample of a part, by its number. */
static uint64_t generated(uint64_t number, uint64_t offset)
{
	return gone_alias(FIRST_SERIAL + number, CODE + offset);
}

static void programs_have_their_times(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 10, false, 0, "first");
	assert_int_equal(parts->items[0].came, 10);
	assert_int_equal(parts->items[0].gone, 0);
	assert_string_equal(parts->items[0].module, "bpf");
	assert_string_equal(parts->items[0].text, "first");
	assert_int_equal(alias(parts, 9, CODE + 5, false), gone_alias(0, CODE + 5));
	assert_int_equal(alias(parts, 10, CODE + 5, true), generated(0, 5));
	/* Another CPU may be in it, until something else is there. */
	announce(parts, 20, true, 0, "first");
	assert_int_equal(alias(parts, 25, CODE, false), generated(0, 0));
	assert_int_equal(alias(parts, 21 + GONE_PARTS_END_NS, CODE, false), gone_alias(0, CODE));
	announce(parts, 24, false, 0x80, "second");
	assert_int_equal(alias(parts, 23, CODE, false), generated(0, 0));
	assert_int_equal(alias(parts, 24, CODE + 0x80, false), generated(1, 0x80));
	assert_int_equal(alias(parts, 25, CODE, false), gone_alias(0, CODE));
	assert_int_equal(parts->count, 2);
}

/* Up to the byte, on both sides. */
static void neighbours_stay(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 10, false, 0, "low");
	announce(parts, 10, false, 0x200, "high");
	announce(parts, 20, false, 0x100, "between");
	assert_int_equal(alias(parts, 25, CODE + 0xff, true), generated(0, 0xff));
	assert_int_equal(alias(parts, 25, CODE + 0x100, true), generated(2, 0x100));
	assert_int_equal(alias(parts, 25, CODE + 0x1ff, true), generated(2, 0x1ff));
	assert_int_equal(alias(parts, 25, CODE + 0x200, true), generated(1, 0x200));
	announce(parts, 30, false, 0x101, "other");
	assert_int_equal(alias(parts, 35, CODE + 0x100, false), gone_alias(0, CODE + 0x100));
	assert_int_equal(alias(parts, 35, CODE + 0x200, false), generated(3, 0x200));
	assert_int_equal(alias(parts, 35, CODE + 0x201, false), gone_alias(0, CODE + 0x201));
	assert_int_equal(alias(parts, 35, CODE + 0xff, true), generated(0, 0xff));
}

/* What has come in its place may be unknown. */
static void name_ends_with_lost_announcements(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 10, false, 0, "first");
	gone_parts_lose_announcements(parts, 20);
	assert_int_equal(alias(parts, 15, CODE, false), generated(0, 0));
	assert_int_equal(alias(parts, 21, CODE, false), gone_alias(0, CODE));
	announce(parts, 30, false, 0, "second");
	assert_int_equal(alias(parts, 31, CODE, false), generated(1, 0));
}

static void program_from_before_has_its_end(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 20, true, 0, "early");
	assert_int_equal(parts->items[0].came, 0);
	assert_int_equal(alias(parts, 5, CODE, false), generated(0, 0));
	/* What it had replaced in this recording was another one. */
	announce(parts, 30, false, 0, "next");
	announce(parts, 40, true, 0, "next");
	announce(parts, 60, true, 0, "unannounced");
	assert_int_equal(parts->count, 3);
	assert_int_equal(alias(parts, 35, CODE, false), generated(1, 0));
	assert_int_equal(alias(parts, 60, CODE, false), generated(2, 0));
}

/* The rings of the CPUs are not read at once. */
static void changes_may_be_read_in_the_wrong_order(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 20, true, 0, "a");
	announce(parts, 10, false, 0, "a");
	assert_int_equal(parts->count, 1);
	assert_int_equal(parts->items[0].came, 10);
	assert_int_equal(alias(parts, 9, CODE, false), gone_alias(0, CODE));
	/* The end of the one, after the start of the other. */
	announce(parts, 100, false, 0x1000, "b");
	announce(parts, 120, false, 0x1000, "c");
	announce(parts, 110, true, 0x1000, "b");
	assert_int_equal(parts->count, 3);
	assert_int_equal(alias(parts, 115, CODE + 0x1000, false), generated(1, 0x1000));
	assert_int_equal(alias(parts, 120, CODE + 0x1000, false), generated(2, 0x1000));
}

static void names_are_cleaned(void **state)
{
	struct gone_parts *parts = *state;
	char longest[1000];

	announce(parts, 10, false, 0, "a\n\033[2Jb c\tffffffff81000000 T \xff");
	assert_string_equal(parts->items[0].text, "a??[2Jb?c?ffffffff81000000?T??");
	announce(parts, 20, true, 0, "a\n\033[2Jb c\tffffffff81000000 T \xff");
	assert_int_equal(parts->count, 1);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	announce(parts, 30, false, 0x1000, longest);
	announce(parts, 40, true, 0x1000, longest);
	assert_int_equal(parts->count, 2);
	assert_int_equal(strlen(parts->items[1].text), 511);
	announce(parts, 50, false, 0x2000, "");
	announce(parts, 60, true, 0x2000, "");
	assert_int_equal(parts->count, 3);
}

static void each_character_is_cleaned(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 10, false, 0, " !~\x7f");
	assert_string_equal(parts->items[0].text, "?!~?");
	assert_int_equal(gone_parts_bytes(parts), 5 + parts->capacity * sizeof(*parts->items));
}

/* It is another one with another name, start or end. */
static void end_is_of_the_same_program(void **state)
{
	static const char *const names[] = {"xb", "ac", "a", "abc", ""};
	struct generated_code_change change = {
		.time = 10,
		.start = CODE,
		.end = CODE + 0x100,
		.is_bpf = true,
		.name = "ab",
	};
	struct gone_parts *parts = *state;

	for (size_t i = 0; i < 7; i++) {
		const size_t before = parts->count;

		change.time += 1000;
		change.is_gone = false;
		gone_parts_announce(parts, &change);
		assert_int_equal(parts->count, before + 1);
		change.time++;
		change.is_gone = true;
		if (i < 5)
			change.name = names[i];
		change.start -= i == 5;
		change.end += i == 6;
		gone_parts_announce(parts, &change);
		assert_int_equal(parts->count, before + 2);
		change.name = "ab";
		change.start = CODE;
		change.end = CODE + 0x100;
	}
}

/* A large program begins before a small one, which has replaced a part of it. */
static void large_program_is_found_behind_a_small_one(void **state)
{
	struct generated_code_change change = {
		.time = 10,
		.start = CODE,
		.end = CODE + 0x1000,
		.is_bpf = true,
		.name = "large",
	};
	struct gone_parts *parts = *state;

	gone_parts_announce(parts, &change);
	announce(parts, 20, false, 0x200, "small");
	announce(parts, 20, false, 0x300, "second");
	assert_int_equal(alias(parts, 15, CODE + 0xfff, false), generated(0, 0xfff));
	assert_int_equal(alias(parts, 15, CODE + 0x1000, true), CODE + 0x1000);
	assert_int_equal(alias(parts, 25, CODE + 0xfff, false), gone_alias(0, CODE + 0xfff));
}

/* Their number is right also after changes of modules. */
static void programs_make_room_after_a_refresh(void **state)
{
	struct gone_parts *parts = *state;

	for (uint64_t i = 0; i < GONE_PARTS_GENERATED_MAX; i++) {
		announce(parts, 10 + i, false, 0x100 * i, "program");
		if (i % 2)
			announce(parts, 10 + i, true, 0x100 * i, "program");
	}
	add_part(10, 0, 0x800000, 0x800100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, GONE_PARTS_GENERATED_MAX + 1);
	announce(parts, 10000, false, 0x900000, "new");
	/* Half of those that are gone have left, but one. */
	assert_int_equal(parts->dropped, GONE_PARTS_GENERATED_MAX / 4 + 1);
	assert_int_equal(parts->count + parts->dropped, GONE_PARTS_GENERATED_MAX + 2);
	assert_int_equal(alias(parts, 10001, CODE + 0x900000, true),
			 generated(GONE_PARTS_GENERATED_MAX, 0x900000));
}

static void what_can_have_no_alias_is_left_out(void **state)
{
	struct gone_parts *parts = *state;

	announce(parts, 10, false, UINT64_C(0xffffffff7fffff80) - CODE, "below");
	announce(parts, 10, false, 0x401000 - CODE, "user");
	announce(parts, 10, false, UINT64_C(0xffffffffffffff80) - CODE, "wraps");
	assert_int_equal(parts->count, 0);
}

static void other_generated_code_has_the_names_of_kallsyms(void **state)
{
	struct generated_code_change change = {
		.time = 10, .start = CODE, .end = CODE + 0x100, .name = "ftrace_trampoline"};
	struct gone_parts *parts = *state;

	gone_parts_announce(parts, &change);
	change.start += 0x1000;
	change.end += 0x1000;
	change.name = "kprobe_insn_page";
	gone_parts_announce(parts, &change);
	assert_string_equal(parts->items[0].module, "__builtin__ftrace");
	assert_string_equal(parts->items[1].module, "__builtin__kprobes");
}

/* A program is loaded again and again, while another one stays. */
static void thousands_of_programs_are_bounded(void **state)
{
	const uint64_t count = 2 * GONE_PARTS_GENERATED_MAX;
	struct gone_parts *parts = *state;

	announce(parts, 1, false, 0x1000, "stays");
	for (uint64_t i = 1; i <= count; i++) {
		announce(parts, 10 * i, false, 0, "short");
		announce(parts, 10 * i + 5, true, 0, "short");
	}
	assert_in_range(parts->count, GONE_PARTS_GENERATED_MAX / 2, GONE_PARTS_GENERATED_MAX);
	assert_int_equal(parts->dropped + parts->count, count + 1);
	assert_true(gone_parts_bytes(parts) < 2 << 20);
	assert_int_equal(alias(parts, 10 * count, CODE, false), generated(count, 0));
	assert_int_equal(alias(parts, 2, CODE + 0x1000, true), generated(0, 0x1000));
}

/* As with lost announcements: all of them are of one time. */
static void programs_that_ended_at_once_make_room(void **state)
{
	const uint64_t count = GONE_PARTS_GENERATED_MAX;
	struct gone_parts *parts = *state;

	for (uint64_t i = 0; i < count; i++)
		announce(parts, 10 + i, false, 0x100 * i, "ended");
	gone_parts_lose_announcements(parts, 1000000);
	announce(parts, 1000001, false, 0x100 * count, "new");
	assert_int_equal(alias(parts, 1000002, CODE + 0x100 * count, true),
			 generated(count, 0x100 * count));
	assert_int_equal(parts->count, 1);
	assert_int_equal(parts->dropped, count);
}

/* All that can be kept are there: their names are in /proc/kallsyms, too. */
static void programs_that_are_there_are_not_dropped(void **state)
{
	struct gone_parts *parts = *state;

	for (uint64_t i = 0; i < GONE_PARTS_GENERATED_MAX + 5; i++)
		announce(parts, 10 + i, false, 0x100 * i, "stays");
	assert_int_equal(parts->count, GONE_PARTS_GENERATED_MAX);
	assert_int_equal(parts->dropped, 5);
	assert_int_equal(parts->items[0].came, 10);
}

/* Changes of modules do not end programs. */
static void modules_and_programs_are_independent(void **state)
{
	struct gone_parts *parts = *state;

	add_part(10, 0, 0, 0x100);
	assert_true(gone_parts_refresh(parts, &device, 0));
	announce(parts, 20, false, 0x200, "a");
	announce(parts, 20, false, 0x400, "b");
	kernel.parts[0].gone = 30;
	kernel.changes++;
	add_part(40, 0, 0x300, 0x380)->serial = 2;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 4);
	assert_int_equal(alias(parts, 50, CODE + 0x200, true), generated(0, 0x200));
	assert_int_equal(alias(parts, 50, CODE + 0x300, true), gone_alias(2, CODE + 0x300));
	assert_int_equal(alias(parts, 50, CODE + 0x400, true), generated(1, 0x400));
	/* They are removed with their samples. */
	announce(parts, 50, true, 0x200, "a");
	assert_true(gone_parts_refresh(parts, &device, 51 + GONE_PARTS_END_NS));
	assert_int_equal(parts->count, 2);
	assert_int_equal(alias(parts, 60, CODE + 0x400, true), generated(1, 0x400));
	assert_int_equal(parts->dropped, 0);
}

/* The texts of modules are full; the names of generated code have a bound of their own. */
static void names_of_programs_leave_the_bound_of_texts(void **state)
{
	const uint64_t half = STACKBEAT_MODULE_SYMBOLS_BYTES;
	struct gone_parts *parts = *state;

	add_part(1, 2, 0x5000, 0x5100)->size = 100;
	assert_true(gone_parts_refresh(parts, &device, 0));
	announce(parts, 10, false, 0, "a_program_with_a_long_name");
	/* The module has dropped its oldest part, for two large ones. */
	add_part(3, 0, 0x1000, 0x1100)->size = half - 5;
	add_part(3, 0, 0x2000, 0x2100)->size = half - 5;
	kernel.parts[0] = kernel.parts[2];
	kernel.parts[0].serial = 2;
	kernel.parts[1].serial = 3;
	kernel.count = 2;
	assert_true(gone_parts_refresh(parts, &device, 0));
	assert_int_equal(parts->count, 3);
	assert_int_equal(parts->dropped, 1);
}

#define PARTS_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PARTS_TEST(without_changes_one_call_is_made),
		PARTS_TEST(parts_that_were_never_read_are_counted),
		PARTS_TEST(parts_that_were_dropped_at_first_are_counted),
		PARTS_TEST(programs_have_their_times),
		PARTS_TEST(neighbours_stay),
		PARTS_TEST(name_ends_with_lost_announcements),
		PARTS_TEST(program_from_before_has_its_end),
		PARTS_TEST(changes_may_be_read_in_the_wrong_order),
		PARTS_TEST(names_are_cleaned),
		PARTS_TEST(each_character_is_cleaned),
		PARTS_TEST(end_is_of_the_same_program),
		PARTS_TEST(large_program_is_found_behind_a_small_one),
		PARTS_TEST(programs_make_room_after_a_refresh),
		PARTS_TEST(part_that_went_first_has_the_address),
		PARTS_TEST(parts_are_in_the_order_of_their_starts),
		PARTS_TEST(dropped_parts_are_counted_once),
		PARTS_TEST(serials_are_limited),
		PARTS_TEST(texts_are_limited),
		PARTS_TEST(what_can_have_no_alias_is_left_out),
		PARTS_TEST(other_generated_code_has_the_names_of_kallsyms),
		PARTS_TEST(thousands_of_programs_are_bounded),
		PARTS_TEST(programs_that_ended_at_once_make_room),
		PARTS_TEST(programs_that_are_there_are_not_dropped),
		PARTS_TEST(modules_and_programs_are_independent),
		PARTS_TEST(refused_reader_asks_once),
		PARTS_TEST(parts_are_removed_with_their_samples),
		PARTS_TEST(parts_are_read_once),
		PARTS_TEST(parts_that_went_before_are_left_out),
		PARTS_TEST(dropped_parts_stay),
		PARTS_TEST(part_without_its_text_is_left_out),
		PARTS_TEST(time_decides_which_part_has_an_address),
		PARTS_TEST(names_of_programs_leave_the_bound_of_texts),
	};

	return cmocka_run_group_tests_name("gone_parts", tests, NULL, NULL);
}
