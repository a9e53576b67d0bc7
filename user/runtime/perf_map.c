// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/hex.h"
#include "lib/regular_file.h"
#include "lib/upper_bound.h"

#define NO_NAME SIZE_MAX

/* A wanted address. */
struct perf_map_entry {
	uint64_t address; /* first, for upper_bound() */
	size_t name; /* offset in names, or NO_NAME */
};

struct perf_map {
	struct perf_map_entry *entries; /* by address */
	size_t count;
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

int perf_map_directory(const char *root, uint32_t pid, uint32_t *user)
{
	char path[PATH_MAX];
	struct stat process;
	int length, fd;

	length = snprintf(path, sizeof(path), "%s/proc/%" PRIu32, root, pid);
	if (length < 0 || (size_t)length >= sizeof(path) - sizeof("/root"))
		return -ENAMETOOLONG;
	if (stat(path, &process) != 0)
		return errno == ENOENT ? -ESRCH : -errno;
	strcat(path, "/root");
	fd = open_directory_in(path, "/tmp");
	if (fd >= 0)
		*user = process.st_uid;
	return fd;
}

int perf_map_own_directory(const char *root, uint32_t *user)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/proc/self/root", root);

	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	*user = geteuid();
	return open_directory_in(path, "/tmp");
}

int perf_map_open(int directory, uint32_t ns_pid, uint64_t start_time, uint32_t user)
{
	char name[64];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "perf-%" PRIu32 ".map", ns_pid);
	fd = open_regular_entry(directory, name, &st);
	/*
	 * Anybody may write to /tmp, and could otherwise name the code of other users. A file that
	 * only root may read was not written for this process.
	 */
	if (fd >= 0 && st.st_uid != user && (st.st_uid != 0 || !(st.st_mode & S_IROTH))) {
		close(fd);
		return -EPERM;
	}
	if (fd >= 0 && is_older(&st, start_time)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/* Lines */

/* A line of a map, whose range is [start, end). */
struct perf_map_line {
	uint64_t start, end;
	const char *name; /* not empty */
	size_t length; /* of the name */
};

/* Parses a hex number and the blank after it, and advances *text past both. */
static bool parse_hex(const char **text, const char *end, uint64_t *number)
{
	const char *at = *text, *digits;

	/* Some programs write "0x". */
	if (end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
		at += 2;
	*number = 0;
	for (digits = at; at < end && hex_digit(*at) >= 0; at++) {
		if (*number >> 60)
			return false;
		*number = *number << 4 | (uint64_t)hex_digit(*at);
	}
	*text = at + 1;
	return at > digits && at < end && *at == ' ';
}

/* Parses "START SIZE NAME", up to `end`. line->name points into the text. */
static bool perf_map_parse_line(const char *text, const char *end, struct perf_map_line *line)
{
	uint64_t size;

	if (!parse_hex(&text, end, &line->start) || !parse_hex(&text, end, &size) || size == 0 ||
	    size > UINT64_MAX - line->start || text == end)
		return false;
	line->end = line->start + size;
	line->name = text;
	line->length = strnlen(text, (size_t)(end - text));
	return line->length;
}

/* Reading */

/*
 * The latest line at each address, as a segment tree: the leaf of entry i is latest[count + i], and
 * the line of an entry is the maximum of its leaf and of all nodes above it. So each line costs the
 * logarithm of the number of entries, however many of them it covers.
 */
struct line_search {
	struct perf_map *map;
	uint64_t *latest; /* offset of a line in the file, plus 1; 0: none */
};

/* Returns the number of entries before an address. */
static size_t entries_before(const struct perf_map *map, uint64_t address)
{
	return address ? upper_bound(map->entries, map->count, sizeof(*map->entries), address - 1)
		       : 0;
}

/* Notes a line, which comes after all noted lines. */
static void note_line(struct line_search *search, const char *text, const char *end,
		      uint64_t offset)
{
	const struct perf_map *map = search->map;
	struct perf_map_line line;
	size_t first, after;

	if (!map->count || !perf_map_parse_line(text, end, &line) ||
	    line.end <= map->entries[0].address ||
	    line.start > map->entries[map->count - 1].address)
		return;
	first = entries_before(map, line.start) + map->count;
	after = entries_before(map, line.end) + map->count;
	for (; first < after; first /= 2, after /= 2) {
		if (first % 2)
			search->latest[first++] = offset + 1;
		if (after % 2)
			search->latest[--after] = offset + 1;
	}
}

static uint64_t latest_line(const struct line_search *search, size_t entry)
{
	uint64_t latest = 0;

	for (size_t node = entry + search->map->count; node; node /= 2) {
		if (search->latest[node] > latest)
			latest = search->latest[node];
	}
	return latest;
}

#define BLOCK (1u << 16)
#define CHARGE_BYTES ((uint64_t)16 << 20) /* that are charged at a time */

_Static_assert(BLOCK > PERF_MAP_LINE_MAX, "the start of each line fits into a block");

/* A block of the file, which begins in a line. */
struct map_block {
	char bytes[BLOCK];
	size_t used;
	uint64_t offset; /* in the file */
	bool in_long_line; /* it begins in a line that was noted already */
};

/* Notes the lines that end in a block, and moves the rest to its beginning. */
static void note_block(struct line_search *search, struct map_block *block)
{
	const char *at = block->bytes, *end = block->bytes + block->used, *newline;

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		if (!block->in_long_line)
			note_line(search, at, newline,
				  block->offset + (uint64_t)(at - block->bytes));
		block->in_long_line = false;
		at = newline + 1;
	}
	if (at == block->bytes && block->used == BLOCK) {
		if (!block->in_long_line)
			note_line(search, at, end, block->offset);
		block->in_long_line = true;
		at = end;
	}
	block->offset += (uint64_t)(at - block->bytes);
	block->used = (size_t)(end - at);
	memmove(block->bytes, at, block->used);
}

/*
 * Moves *at past a hole, in which the line that the block begins has bytes of zero. Returns whether
 * there may be data there.
 */
static bool skip_hole(struct map_block *block, int fd, uint64_t *at)
{
	off_t data = lseek(fd, (off_t)*at, SEEK_DATA);

	/* Not all file systems know their holes. */
	if (data < 0)
		return errno != ENXIO;
	if ((uint64_t)data > *at) {
		*at = block->offset = (uint64_t)data;
		block->used = 0;
		block->in_long_line = true;
	}
	return true;
}

/* Ignores an incomplete last line: the program is still writing it. */
static int note_lines(struct line_search *search, int fd, const struct perf_map_quota *quota)
{
	struct map_block *block = calloc(1, sizeof(*block));
	uint64_t at = 0, done = 0, charged = 0;
	ssize_t size = 0;
	int err;
	char next;

	if (!block)
		return -ENOMEM;
	while (done < quota->bytes && skip_hole(block, fd, &at)) {
		size = pread(fd, block->bytes + block->used,
			     MIN(BLOCK - block->used, quota->bytes - done), (off_t)at);
		if (size <= 0)
			break;
		at += (uint64_t)size;
		done += (uint64_t)size;
		block->used += (size_t)size;
		note_block(search, block);
		if (quota->charge && done - charged >= CHARGE_BYTES) {
			quota->charge(quota->arg, done - charged);
			charged = done;
		}
	}
	err = size < 0 ? -errno : 0;
	if (quota->charge && done > charged)
		quota->charge(quota->arg, done - charged);
	search->map->truncated = done == quota->bytes && skip_hole(block, fd, &at) &&
				 pread(fd, &next, 1, (off_t)at) > 0;
	free(block);
	return err;
}

/* Names */

/* Reads the line at an offset again. Returns whether it is still a line that covers the address. */
static bool read_line(int fd, uint64_t offset, uint64_t address, char bytes[PERF_MAP_LINE_MAX],
		      struct perf_map_line *line)
{
	ssize_t size = pread(fd, bytes, PERF_MAP_LINE_MAX, (off_t)offset);
	const char *end;

	if (size <= 0)
		return false;
	end = memchr(bytes, '\n', (size_t)size) ?: bytes + size;
	return perf_map_parse_line(bytes, end, line) && line->start <= address &&
	       address < line->end;
}

/* Appends a name. Returns its offset, or NO_NAME: out of memory. */
static size_t append_name(struct perf_map *map, const struct perf_map_line *line)
{
	size_t name = map->names_size;

	if (array_reserve(&map->names, &map->names_capacity, name, line->length + 1, 1))
		return NO_NAME;
	memcpy(map->names + name, line->name, line->length);
	map->names[name + line->length] = '\0';
	map->names_size += line->length + 1;
	return name;
}

/* The program may rewrite the file meanwhile: an address whose line is gone has no name then. */
static int set_names(const struct line_search *search, int fd)
{
	struct perf_map *map = search->map;
	char bytes[PERF_MAP_LINE_MAX];
	struct perf_map_line line = {0};
	uint64_t known = 0, latest;

	for (size_t i = 0; i < map->count; i++) {
		struct perf_map_entry *entry = &map->entries[i];

		latest = latest_line(search, i);
		entry->name = NO_NAME;
		if (!latest)
			continue;
		if (latest == known) {
			entry->name = entry[-1].name;
			continue;
		}
		if (!read_line(fd, latest - 1, entry->address, bytes, &line))
			continue;
		entry->name = append_name(map, &line);
		if (entry->name == NO_NAME)
			return -ENOMEM;
		known = latest;
	}
	return 0;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct perf_map_entry *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static int perf_map_init(struct perf_map *map, const uint64_t *addresses, size_t count)
{
	if (!count)
		return 0;
	map->entries = calloc(count, sizeof(*map->entries));
	if (!map->entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		map->entries[i].address = addresses[i];
	map->count = count;
	qsort(map->entries, count, sizeof(*map->entries), compare_wanted);
	return 0;
}

int perf_map_read(int fd, const uint64_t *addresses, size_t count,
		  const struct perf_map_quota *quota, struct perf_map **map)
{
	struct line_search search = {
		.map = calloc(1, sizeof(*search.map)),
		.latest = calloc(2 * count + 1, sizeof(*search.latest)),
	};
	int err = search.map && search.latest ? 0 : -ENOMEM;

	if (!err)
		err = perf_map_init(search.map, addresses, count);
	if (!err)
		err = note_lines(&search, fd, quota);
	if (!err)
		err = set_names(&search, fd);
	free(search.latest);
	if (err)
		perf_map_free(search.map);
	else
		*map = search.map;
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
	const struct perf_map_entry *entry = after ? &map->entries[after - 1] : NULL;

	if (!entry || entry->address != address || entry->name == NO_NAME)
		return NULL;
	return map->names + entry->name;
}
