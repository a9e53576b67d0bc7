// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/regular_file.h"
#include "lib/upper_bound.h"

struct perf_map_entry {
	uint64_t start; /* first, for upper_bound() */
	uint64_t end;
	size_t name; /* offset in names */
	uint32_t order; /* of the lines in the file */
};

struct perf_map {
	struct perf_map_entry *entries; /* sorted by start, disjoint */
	size_t count, capacity;
	char *names;
	size_t names_size, names_capacity;
	bool truncated;
};

/* Opening */

/* Lag of a file system's clock: some ticks, or a second where times have no fractions. */
#define TICKS_NS (NS_PER_SECOND / 20)

/* Returns whether the file was last written before `time` (the kernel's CLOCK_BOOTTIME, ns). */
static bool is_older(const struct stat *st, uint64_t time)
{
	int64_t boot = now_ns(CLOCK_REALTIME) - kernel_now_ns(CLOCK_BOOTTIME);
	int64_t late = st->st_mtim.tv_nsec ? TICKS_NS : NS_PER_SECOND;

	return time_ns(st->st_mtim) + late < boot + (int64_t)time;
}

int perf_map_open(const char *root, uint32_t pid, uint32_t ns_pid, uint64_t start_time,
		  uint32_t *user)
{
	char path[PATH_MAX], name[64];
	struct stat process, st;
	int fd, length;

	length = snprintf(path, sizeof(path), "%s/proc/%" PRIu32, root, pid);
	if (length < 0 || (size_t)length >= sizeof(path) - sizeof("/root"))
		return -ENAMETOOLONG;
	if (stat(path, &process) != 0)
		return -errno;
	strcat(path, "/root");
	snprintf(name, sizeof(name), "perf-%" PRIu32 ".map", ns_pid);
	fd = open_regular_entry_in(path, "/tmp", name, &st);
	/*
	 * Anybody may write to /tmp, and could otherwise name the code of other users. A file that
	 * only root may read was not written for this process.
	 */
	if (fd >= 0 && st.st_uid != process.st_uid && (st.st_uid != 0 || !(st.st_mode & S_IROTH))) {
		close(fd);
		return -EPERM;
	}
	if (fd >= 0 && is_older(&st, start_time)) {
		close(fd);
		return -ESTALE;
	}
	*user = process.st_uid;
	return fd;
}

/* Reading */

/* Parses a hex number and the blank after it, and advances *text past both. */
static bool parse_hex(const char **text, uint64_t *number)
{
	const char *start = *text;
	char *end;

	/* strtoull() also accepts signs and blanks. Its "0x" is fine: some programs write it. */
	if (strspn(start, "0123456789abcdefABCDEF") == 0)
		return false;
	errno = 0;
	*number = strtoull(start, &end, 16);
	*text = end + 1;
	return errno == 0 && *end == ' ';
}

/* Parses "START SIZE NAME". *name points into `line`. */
static bool perf_map_parse_line(const char *line, struct perf_map_entry *entry, const char **name)
{
	uint64_t size;

	if (!parse_hex(&line, &entry->start) || !parse_hex(&line, &size) || size == 0 ||
	    size > UINT64_MAX - entry->start || !*line)
		return false;
	entry->end = entry->start + size;
	*name = line;
	return true;
}

static int parse_and_add_line(struct perf_map *map, const char *line)
{
	struct perf_map_entry entry = {.name = map->names_size, .order = (uint32_t)map->count};
	const char *name;
	size_t size;

	if (!perf_map_parse_line(line, &entry, &name))
		return 0;
	size = strlen(name) + 1;
	if (array_reserve(&map->entries, &map->capacity, map->count, 1, sizeof(entry)) != 0 ||
	    array_reserve(&map->names, &map->names_capacity, map->names_size, size, 1) != 0)
		return -ENOMEM;
	map->entries[map->count++] = entry;
	memcpy(map->names + map->names_size, name, size);
	map->names_size += size;
	return 0;
}

/* Skips the rest of a line. */
static void skip_line(FILE *stream, uint64_t *total)
{
	int byte;

	while (*total < PERF_MAP_BYTES_MAX && (byte = getc_unlocked(stream)) != EOF) {
		++*total;
		if (byte == '\n')
			break;
	}
}

static int perf_map_read_lines(struct perf_map *map, FILE *stream)
{
	char line[PERF_MAP_LINE_MAX];
	uint64_t total = 0;
	int err = 0;

	while (!err && total < PERF_MAP_BYTES_MAX && map->count < PERF_MAP_ENTRIES_MAX &&
	       fgets(line, sizeof(line), stream)) {
		size_t length = strlen(line);
		bool complete = length > 0 && line[length - 1] == '\n';

		/* Not by the length, which is too small where the line holds a NUL. */
		total = (uint64_t)ftello(stream);
		/* Ignore an incomplete last line: the program is still writing it. */
		if (!complete && feof(stream))
			break;
		if (complete)
			line[length - 1] = '\0';
		else
			skip_line(stream, &total);
		err = parse_and_add_line(map, line);
	}
	map->truncated = !feof(stream) && getc(stream) != EOF;
	return err;
}

/* Overlapping entries */

static int perf_map_compare_entries(const void *a, const void *b)
{
	const struct perf_map_entry *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->order < right->order ? -1 : 1;
}

/* Entries that hold the current address: a heap of their indices with the latest on top. */
struct heap {
	const struct perf_map_entry *entries;
	uint32_t *items;
	size_t count;
};

static bool is_later(const struct heap *heap, size_t a, size_t b)
{
	return heap->entries[heap->items[a]].order > heap->entries[heap->items[b]].order;
}

static void heap_swap(struct heap *heap, size_t a, size_t b)
{
	uint32_t item = heap->items[a];

	heap->items[a] = heap->items[b];
	heap->items[b] = item;
}

static void heap_push(struct heap *heap, uint32_t item)
{
	size_t at = heap->count++;

	heap->items[at] = item;
	for (; at > 0 && is_later(heap, at, (at - 1) / 2); at = (at - 1) / 2)
		heap_swap(heap, at, (at - 1) / 2);
}

static void heap_pop(struct heap *heap)
{
	size_t at = 0, child;

	heap->items[0] = heap->items[--heap->count];
	while ((child = 2 * at + 1) < heap->count) {
		if (child + 1 < heap->count && is_later(heap, child + 1, child))
			child++;
		if (!is_later(heap, child, at))
			break;
		heap_swap(heap, at, child);
		at = child;
	}
}

static int append_range(struct perf_map *map, const struct perf_map_entry *source, uint64_t start,
			uint64_t end)
{
	if (array_reserve(&map->entries, &map->capacity, map->count, 1, sizeof(*source)) != 0)
		return -ENOMEM;
	map->entries[map->count] = *source;
	map->entries[map->count].start = start;
	map->entries[map->count++].end = end;
	return 0;
}

/* Sweeps over the sorted entries and appends the latest one at each address to `map`. */
static int append_latest(struct perf_map *map, const struct perf_map_entry *entries, size_t count,
			 struct heap *heap)
{
	uint64_t at = 0, end;
	size_t next = 0;
	int err = 0;

	while (!err && (next < count || heap->count > 0)) {
		if (heap->count == 0)
			at = entries[next].start;
		for (; next < count && entries[next].start <= at; next++)
			heap_push(heap, (uint32_t)next);
		while (heap->count > 0 && entries[heap->items[0]].end <= at)
			heap_pop(heap);
		if (heap->count == 0)
			continue;
		end = entries[heap->items[0]].end;
		if (next < count && entries[next].start < end)
			end = entries[next].start;
		err = append_range(map, &entries[heap->items[0]], at, end);
		at = end;
	}
	return err;
}

static int resolve_overlaps(struct perf_map *map)
{
	struct perf_map_entry *entries = map->entries;
	struct heap heap = {.entries = entries};
	size_t count = map->count;
	int err;

	if (count == 0)
		return 0;
	heap.items = calloc(count, sizeof(*heap.items));
	if (!heap.items)
		return -ENOMEM;
	qsort(entries, count, sizeof(*entries), perf_map_compare_entries);
	map->entries = NULL;
	map->count = map->capacity = 0;
	err = append_latest(map, entries, count, &heap);
	free(heap.items);
	free(entries);
	return err;
}

int perf_map_read(int fd, struct perf_map **map)
{
	struct perf_map *loaded = calloc(1, sizeof(*loaded));
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0), err;
	FILE *stream = copy < 0 ? NULL : fdopen(copy, "r");

	if (!loaded || !stream || fseek(stream, 0, SEEK_SET) != 0) {
		err = loaded ? -errno : -ENOMEM;
	} else {
		err = perf_map_read_lines(loaded, stream);
		if (!err)
			err = resolve_overlaps(loaded);
	}
	if (stream)
		fclose(stream);
	else if (copy >= 0)
		close(copy);
	if (err)
		perf_map_free(loaded);
	else
		*map = loaded;
	return err;
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	free(map->entries);
	free(map->names);
	free(map);
}

bool perf_map_is_truncated(const struct perf_map *map)
{
	return map->truncated;
}

const char *perf_map_lookup(const struct perf_map *map, uint64_t address)
{
	size_t after = upper_bound(map->entries, map->count, sizeof(*map->entries), address);

	if (after == 0 || address >= map->entries[after - 1].end)
		return NULL;
	return map->names + map->entries[after - 1].name;
}
