// SPDX-License-Identifier: GPL-2.0
/*
 * The module's arrays of mappings, compiled for user space: beside a model that has an entry for
 * each page, and with what a tick may still use until a grace period ends.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <linux/kernel.h>

static inline void cond_resched(void)
{
}

#include "../../../kmod/unwind_maps.c"

#define PAGES 2048u /* of the address space of the model */
#define OBJECTS 4u
#define ID 77u

struct page {
	bool mapped, vdso, uprobes, biased;
	u64 offset;
	struct sb_unwind_object *object;
};

struct sb_unwind_table sb_unwind_no_table;

static struct sb_unwind_object objects[OBJECTS];
static struct sb_unwind_table tables[OBJECTS];
static struct sb_unwind_spaces spaces;
static struct sb_unwind_slot slot, other_slot;
static struct page model[PAGES];
static struct rcu_head *waiting_heads;
static u64 allocated; /* bytes */
static size_t allocations_left = SIZE_MAX; /* until one fails */
static u32 generation;

void *shim_alloc(size_t size)
{
	if (!allocations_left)
		return NULL;
	allocations_left--;
	allocated += size;
	return malloc(size);
}

void call_rcu(struct rcu_head *rcu, void (*function)(struct rcu_head *rcu))
{
	rcu->next = waiting_heads;
	rcu->function = function;
	waiting_heads = rcu;
}

void shim_end_grace_period(void)
{
	struct rcu_head *rcu;

	while ((rcu = waiting_heads)) {
		waiting_heads = rcu->next;
		rcu->function(rcu);
	}
}

struct sb_unwind_object *sb_unwind_object_hold(struct sb_unwind_object *object)
{
	object->refs.count++;
	return object;
}

void sb_unwind_object_put(struct sb_unwind_object *object)
{
	if (object)
		assert_true(object->refs.count-- > 0);
}

bool sb_elf_vaddr(const struct sb_elf *elf, u64 offset, u64 *vaddr)
{
	*vaddr = offset;
	return elf->segment_count;
}

static void lose(void *arg, void *owner, u64 id)
{
	(void)arg;
	(void)owner;
	(void)id;
	fail();
}

/* Mappings that wait for tables. */
static u32 count_waiting(void)
{
	u32 count = 0;

	for (u32 i = 0; i < ARRAY_SIZE(spaces.waiting); i++) {
		for (struct hlist_node *node = spaces.waiting[i].first; node; node = node->next)
			count++;
	}
	return count;
}

static int setup(void **state)
{
	(void)state;
	memset(model, 0, sizeof(model));
	memset(objects, 0, sizeof(objects));
	memset(tables, 0, sizeof(tables));
	for (u32 i = 0; i < OBJECTS; i++)
		tables[i].elf.segment_count = 1;
	allocations_left = SIZE_MAX;
	generation = 1;
	sb_unwind_spaces_init(&spaces);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sb_unwind_spaces_free(&spaces);
	assert_int_equal(count_waiting(), 0);
	assert_int_equal(atomic_read(&spaces.dropped), 0);
	for (u32 i = 0; i < OBJECTS; i++)
		assert_int_equal(objects[i].refs.count, 0);
	memset(&spaces, 0, sizeof(spaces));
	slot.maps = other_slot.maps = NULL;
	return 0;
}

static struct sb_unwind_map make_map(u32 page, u32 pages, u64 offset, int object)
{
	struct sb_unwind_map map = {
		.start = (u64)page * PAGE_SIZE,
		.end = (u64)(page + pages) * PAGE_SIZE,
		.offset = offset,
		.object = object < 0 ? NULL : &objects[object],
	};

	map.biased = object >= 0 && rcu_access_pointer(objects[object].table);
	map.bias = map.biased ? map.start - offset : 0;
	return map;
}

static void model_set(const struct sb_unwind_map *map)
{
	for (u64 at = map->start; at < map->end; at += PAGE_SIZE)
		model[at / PAGE_SIZE] = (struct page){
			.mapped = true,
			.vdso = map->vdso,
			.uprobes = map->uprobes,
			.biased = map->biased,
			.offset = map->offset + (at - map->start),
			.object = map->object,
		};
}

static struct sb_unwind_maps *maps_of_slot(void)
{
	return sb_unwind_maps_of(&slot);
}

static void publish(u32 count, const struct sb_unwind_map *list)
{
	struct sb_unwind_maps *maps = sb_unwind_maps_alloc(&spaces, &slot, NULL, count, lose, NULL);

	assert_non_null(maps);
	memset(model, 0, sizeof(model));
	for (u32 i = 0; i < count; i++) {
		assert_int_equal(sb_unwind_maps_add(maps, &list[i]), 0);
		model_set(&list[i]);
	}
	sb_unwind_maps_publish(maps, ID, generation);
}

static int apply(const struct sb_unwind_map *map)
{
	return sb_unwind_maps_apply(&slot, ID, ++generation, map, lose, NULL);
}

/* What a walk finds at a page is what the model has there. */
static void check_page(const struct sb_unwind_maps *maps, u32 page)
{
	u64 at = (u64)page * PAGE_SIZE + page % PAGE_SIZE;
	const struct sb_unwind_map *map = sb_unwind_maps_find(maps, at);
	const struct page *expected = &model[page];

	assert_int_equal(!!map, expected->mapped);
	if (!map)
		return;
	assert_in_range(at, map->start, map->end - 1);
	assert_ptr_equal(map->object, expected->object);
	assert_int_equal(map->vdso, expected->vdso);
	assert_int_equal(map->uprobes, expected->uprobes);
	if (!map->object)
		return;
	assert_int_equal(map->offset + (at - map->start), expected->offset + page % PAGE_SIZE);
	assert_int_equal(map->biased, expected->biased);
	if (map->biased)
		assert_int_equal(at - map->bias, expected->offset + page % PAGE_SIZE);
}

/* The mappings that wait for a table are in the list of their object, and no others. */
static void check_waiting(const struct sb_unwind_map *map, u32 *count)
{
	bool waits = map->object && !map->object->table;

	assert_int_equal(hlist_unhashed(&map->waiting), !waits);
	*count += waits;
}

static bool page_is_by_tables(const struct page *page)
{
	return page->mapped && !page->vdso &&
	       (page->uprobes || (page->object && page->object->table != &sb_unwind_no_table));
}

/* The array is sorted, is what the model says, and its counts and references are right. */
static void check_maps(void)
{
	const struct sb_unwind_maps *maps = maps_of_slot();
	u32 count = 0, by_tables = 0, refs[OBJECTS] = {0}, before = SB_UNWIND_CHUNK_MAPS,
	    waiting = 0;
	bool some_by_tables = false;
	u64 end = 0;

	for (u32 i = 0; i < maps->chunk_count; i++) {
		const struct sb_unwind_chunk *chunk = sb_unwind_maps_chunk(maps, i);

		assert_in_range(chunk->count, 1, SB_UNWIND_CHUNK_MAPS);
		assert_true(!i || before + chunk->count > SB_UNWIND_CHUNK_MAPS / 2);
		before = chunk->count;
		assert_true(i ? maps->chunks[i].start >= end : !maps->chunks[i].start);
		end = maps->chunks[i].start;
		for (u32 j = 0; j < chunk->count; j++) {
			const struct sb_unwind_map *map = &chunk->items[j];

			assert_true(map->start >= end && map->start < map->end);
			end = map->end;
			count++;
			by_tables += map->by_tables;
			check_waiting(map, &waiting);
			if (map->object)
				refs[map->object - objects]++;
		}
	}
	assert_int_equal(maps->count, count);
	assert_int_equal(spaces.items, count);
	assert_int_equal(maps->by_tables, by_tables);
	assert_int_equal(count_waiting(), waiting);
	for (u32 i = 0; i < OBJECTS; i++)
		assert_int_equal(objects[i].refs.count, refs[i]);
	for (u32 i = 0; i < PAGES; i++) {
		check_page(maps, i);
		some_by_tables = some_by_tables || page_is_by_tables(&model[i]);
	}
	assert_int_equal(maps->frame_pointers, !some_by_tables);
	assert_int_equal(maps->generation, generation);
}

/* Small mappings, and some that replace a large part of all. */
static struct sb_unwind_map random_map(void)
{
	u32 pages = 1 + (u32)rand() % (rand() % 50 ? 4 : PAGES / 2);
	u32 page = (u32)rand() % (PAGES - pages);
	struct sb_unwind_map map = make_map(page, pages, (u64)(rand() % 8) * PAGE_SIZE,
					    rand() % ((int)OBJECTS + 1) - 1);

	if (!(rand() % 40)) {
		map.object = NULL;
		map.uprobes = true;
	} else if (!(rand() % 40)) {
		map.object = NULL;
		map.vdso = true;
	}
	return map;
}

static void events_change_what_walks_find(void **state)
{
	struct sb_unwind_map map, last = {0};
	const struct sb_unwind_map *found;
	const struct sb_unwind_maps *maps;
	u64 serial;

	(void)state;
	srand(1);
	publish(0, NULL);
	objects[0].table = &tables[0];
	objects[1].table = &sb_unwind_no_table;
	for (u32 round = 0; round < 4000; round++) {
		/* What a tick has found before the event is there until its grace period ends. */
		maps = maps_of_slot();
		serial = maps->serial;
		found = sb_unwind_maps_find(maps, last.start);
		map = rand() % 8 ? random_map() : last;
		if (map.start == map.end)
			continue;
		assert_int_equal(apply(&map), 0);
		if (found)
			assert_in_range(last.start, found->start, found->end - 1);
		if (maps_of_slot()->serial == serial)
			assert_ptr_equal(maps, maps_of_slot());
		else
			assert_true(maps_of_slot()->serial > serial);
		assert_true(maps->chunk_count <= PAGES);
		model_set(&map);
		last = map;
		if (!(rand() % 4))
			shim_end_grace_period();
		if (!(round % 8))
			check_maps();
	}
	shim_end_grace_period();
	assert_int_equal(atomic_read(&spaces.dropped), 0);
	check_maps();
}

static void an_event_that_changes_nothing_keeps_the_array(void **state)
{
	struct sb_unwind_map list[] = {make_map(1, 4, 0, 0), make_map(8, 1, 0, -1)}, map;
	u64 serial;

	(void)state;
	publish(2, list);
	serial = maps_of_slot()->serial;
	allocated = 0;
	map = make_map(1, 2, 0, 0);
	assert_int_equal(apply(&map), 0);
	map = make_map(8, 1, PAGE_SIZE, -1);
	assert_int_equal(apply(&map), 0);
	check_maps();
	assert_int_equal(maps_of_slot()->serial, serial);
	assert_int_equal(allocated, 0);
}

static void lost_events_remove_the_array(void **state)
{
	struct sb_unwind_map map = make_map(1, 4, 0, 0);

	(void)state;
	publish(1, &map);
	generation++;
	assert_int_equal(apply(&map), -ESTALE);
	assert_null(maps_of_slot());
	assert_int_equal(spaces.items, 0);
	/* The next ones are for nothing. */
	assert_int_equal(apply(&map), 0);
}

/* Mappings that have their tables later. */
static void tables_complete_mappings(void **state)
{
	struct sb_unwind_map list[PAGES / 4], map;

	(void)state;
	for (u32 i = 0; i < PAGES / 4; i++)
		list[i] = make_map(4 * i, 2, PAGE_SIZE, (int)(i % 2));
	publish(PAGES / 4, list);
	for (u32 i = 0; i < 100; i++) {
		map = make_map(4 * i + 1, 2, PAGE_SIZE, (int)(i % 3));
		assert_int_equal(apply(&map), 0);
		model_set(&map);
	}
	map = make_map(0, 1, 0, -1);
	assert_int_equal(apply(&map), 0);
	model_set(&map);
	check_maps();
	for (u32 known = 0; known < 3; known++) {
		objects[known].table = known == 1 ? &tables[1] : &sb_unwind_no_table;
		if (known == 1)
			for (u32 i = 0; i < PAGES; i++)
				model[i].biased = model[i].object == &objects[1];
		sb_unwind_spaces_update(&spaces, &objects[known]);
		check_maps();
	}
	assert_false(maps_of_slot()->frame_pointers);
	map = make_map(0, PAGES, 0, 0);
	assert_int_equal(apply(&map), 0);
	model_set(&map);
	check_maps();
	assert_true(maps_of_slot()->frame_pointers);
	assert_int_equal(maps_of_slot()->chunk_count, 1);
}

/* Anonymous pages 4 and 5, the file of object 0 at 8 to 11, and a vDSO. */
static int move_text(u32 page, u32 pages, u32 beside, u32 at)
{
	const struct stackbeat_moved_text moved = {
		.address_space = ID,
		.start = (u64)page * PAGE_SIZE,
		.end = (u64)(page + pages) * PAGE_SIZE,
		.beside = (u64)beside * PAGE_SIZE,
		.generation = at,
	};

	return sb_unwind_spaces_move_text(&spaces, &moved, lose, NULL);
}

static void moved_text_is_walked_by_the_table_of_its_file(void **state)
{
	struct sb_unwind_map list[] = {make_map(4, 2, 0, -1), make_map(8, 4, 10 * PAGE_SIZE, 0),
				       make_map(20, 1, 0, -1)},
			     map;
	struct stackbeat_moved_text other = {.address_space = ID + 1, .end = PAGE_SIZE};

	(void)state;
	list[2].vdso = true;
	assert_int_equal(sb_unwind_spaces_move_text(&spaces, &other, lose, NULL), -ENOENT);
	publish(3, list);
	assert_int_equal(sb_unwind_spaces_move_text(&spaces, &other, lose, NULL), -ENOENT);
	assert_int_equal(move_text(4, 2, 8, generation + 1), -ESTALE);
	assert_int_equal(move_text(4, 3, 8, generation), -EINVAL);
	assert_int_equal(move_text(3, 2, 8, generation), -EINVAL);
	assert_int_equal(move_text(8, 2, 8, generation), -EINVAL);
	assert_int_equal(move_text(20, 1, 8, generation), -EINVAL);
	assert_int_equal(move_text(4, 2, 7, generation), -EINVAL);
	assert_int_equal(move_text(4, 2, 5, generation), -EINVAL);
	assert_int_equal(move_text(4, 2, 20, generation), -EINVAL);
	allocations_left = 0;
	assert_int_equal(move_text(4, 2, 8, generation), -ENOMEM);
	allocations_left = SIZE_MAX;
	check_maps();
	/* Page 4 stays anonymous. */
	assert_int_equal(move_text(5, 1, 9, generation), 0);
	map = make_map(5, 1, 7 * PAGE_SIZE, 0);
	model_set(&map);
	check_maps();
	assert_int_equal(move_text(5, 1, 9, generation), -EINVAL);
	/* An event replaces it. */
	map = make_map(5, 1, 0, -1);
	assert_int_equal(apply(&map), 0);
	model_set(&map);
	check_maps();
	/* The table is known meanwhile. */
	objects[0].table = &tables[0];
	sb_unwind_spaces_update(&spaces, &objects[0]);
	for (u32 i = 0; i < PAGES; i++)
		model[i].biased = model[i].object;
	assert_int_equal(move_text(4, 2, 11, generation), 0);
	map = make_map(4, 2, 6 * PAGE_SIZE, 0);
	model_set(&map);
	check_maps();
}

/* Object 0 at pages 8 to 11, its neighbours without an object, and a vDSO at page 20. */
static void a_range_that_touches_a_file_is_known(void **state)
{
	struct sb_unwind_map list[] = {make_map(7, 1, 0, -1), make_map(8, 4, 0, 0),
				       make_map(12, 2, 0, -1), make_map(20, 1, 0, -1)};
	const struct {
		u32 page, pages;
		bool touches;
	} ranges[] = {
		{0, 1, false},  {6, 1, false},  {6, 2, true},   {7, 1, true},
		{9, 1, true},   {12, 1, true},  {12, 2, true},  {13, 1, false},
		{14, 2, false}, {19, 1, false}, {21, 1, false}, {60, 4, false},
	};

	(void)state;
	assert_false(sb_unwind_maps_touch_object(&slot, ID, 0, PAGE_SIZE));
	list[3].vdso = true;
	list[3].object = &objects[1];
	publish(4, list);
	for (u32 i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const u64 start = (u64)ranges[i].page * PAGE_SIZE;
		const u64 end = start + (u64)ranges[i].pages * PAGE_SIZE;

		assert_int_equal(sb_unwind_maps_touch_object(&slot, ID, start, end),
				 ranges[i].touches);
		assert_false(sb_unwind_maps_touch_object(&slot, ID + 1, start, end));
	}
}

/* Events that leave few mappings of each chunk. */
static void small_chunks_are_merged(void **state)
{
	struct sb_unwind_map list[PAGES / 4], map;

	(void)state;
	for (u32 i = 0; i < PAGES / 4; i++)
		list[i] = make_map(4 * i, 2, PAGE_SIZE, 0);
	publish(PAGES / 4, list);
	assert_true(maps_of_slot()->chunk_count > 16);
	for (u32 i = 0; i + SB_UNWIND_CHUNK_MAPS < PAGES / 4; i += SB_UNWIND_CHUNK_MAPS) {
		map = make_map(4 * i + 4, 4 * (SB_UNWIND_CHUNK_MAPS - 2), 0, -1);
		assert_int_equal(apply(&map), 0);
		model_set(&map);
		check_maps();
	}
	assert_true(maps_of_slot()->chunk_count < 8);
}

static void allocations_may_fail(void **state)
{
	struct sb_unwind_map list[PAGES / 4], map = make_map(PAGES / 2 + 3, 1, 0, 0);
	struct sb_unwind_maps *maps;
	size_t least;

	(void)state;
	for (u32 i = 0; i < PAGES / 4; i++)
		list[i] = make_map(4 * i, 2, PAGE_SIZE, (int)(i % 2));
	/* All chunks are full: two new ones, and a new array. */
	for (least = 0; least < 3; least++) {
		allocations_left = SIZE_MAX;
		publish(PAGES / 4, list);
		allocations_left = least;
		assert_int_equal(apply(&map), -ENOMEM);
		assert_null(maps_of_slot());
		assert_int_equal(spaces.items, 0);
	}
	allocations_left = 1;
	maps = sb_unwind_maps_alloc(&spaces, &slot, NULL, 2, lose, NULL);
	assert_int_equal(sb_unwind_maps_add(maps, &list[0]), -ENOMEM);
	sb_unwind_maps_discard(maps);
	assert_int_equal(objects[0].refs.count, 0);
}

static void note_loss(void *arg, void *owner, u64 id)
{
	u64 *lost = arg;

	assert_ptr_equal(owner, &other_slot);
	assert_int_equal(*lost, 0);
	*lost = id;
}

/* An array that no tick has used makes room for another one. */
static void unused_arrays_make_room(void **state)
{
	u32 count = SB_UNWIND_SPACE_MAPS_MAX, arrays = SB_UNWIND_MAPS_MAX / count;
	struct sb_unwind_slot slots[SB_UNWIND_MAPS_MAX / SB_UNWIND_SPACE_MAPS_MAX] = {0};
	struct sb_unwind_map map;
	struct sb_unwind_maps *maps;
	u64 lost = 0;

	(void)state;
	for (u32 i = 0; i < arrays; i++) {
		maps = sb_unwind_maps_alloc(&spaces, i == 1 ? &other_slot : &slots[i],
					    i == 1 ? &other_slot : NULL, count, lose, NULL);
		assert_non_null(maps);
		for (u32 page = 0; page < count; page++) {
			map = make_map(2 * page, 1, 0, 0);
			assert_int_equal(sb_unwind_maps_add(maps, &map), 0);
		}
		sb_unwind_maps_publish(maps, ID + i, 1);
		maps->used = i != 1;
	}
	assert_int_equal(spaces.items, SB_UNWIND_MAPS_MAX);
	maps = sb_unwind_maps_alloc(&spaces, &slot, NULL, count, note_loss, &lost);
	assert_non_null(maps);
	sb_unwind_maps_discard(maps);
	assert_int_equal(lost, ID + 1);
	assert_null(other_slot.maps);
	assert_int_equal(spaces.array_count, arrays - 1);
	shim_end_grace_period();
}

/* What 1,000 events write, with many and with few mappings. */
static u64 bytes_of_events(u32 count)
{
	struct sb_unwind_map *list = calloc(count, sizeof(*list)), map;

	assert_non_null(list);
	for (u32 i = 0; i < count; i++)
		list[i] = make_map(8 * i, 1, PAGE_SIZE, 0);
	struct sb_unwind_maps *maps = sb_unwind_maps_alloc(&spaces, &slot, NULL, count, lose, NULL);

	assert_non_null(maps);
	for (u32 i = 0; i < count; i++)
		assert_int_equal(sb_unwind_maps_add(maps, &list[i]), 0);
	sb_unwind_maps_publish(maps, ID, ++generation);
	allocated = 0;
	srand(2);
	for (u32 i = 0; i < 1000; i++) {
		/* Half of them move a mapping within its file, and half are new. */
		map = make_map(8 * ((u32)rand() % count) + 3 * (i % 2), 1, i * PAGE_SIZE, 0);
		assert_int_equal(apply(&map), 0);
		shim_end_grace_period();
	}
	free(list);
	return allocated / 1000;
}

static void events_cost_the_same_with_many_mappings(void **state)
{
	u64 few, many;

	(void)state;
	few = bytes_of_events(200);
	many = bytes_of_events(16384);
	print_message("%lu bytes an event with 200 mappings, %lu with 16,384\n", few, many);
	assert_true(few <= 2100);
	assert_true(many <= 6000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(events_change_what_walks_find, setup, teardown),
		cmocka_unit_test_setup_teardown(an_event_that_changes_nothing_keeps_the_array,
						setup, teardown),
		cmocka_unit_test_setup_teardown(lost_events_remove_the_array, setup, teardown),
		cmocka_unit_test_setup_teardown(tables_complete_mappings, setup, teardown),
		cmocka_unit_test_setup_teardown(moved_text_is_walked_by_the_table_of_its_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_range_that_touches_a_file_is_known, setup,
						teardown),
		cmocka_unit_test_setup_teardown(small_chunks_are_merged, setup, teardown),
		cmocka_unit_test_setup_teardown(allocations_may_fail, setup, teardown),
		cmocka_unit_test_setup_teardown(unused_arrays_make_room, setup, teardown),
		cmocka_unit_test_setup_teardown(events_cost_the_same_with_many_mappings, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
