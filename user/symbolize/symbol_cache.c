// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbol_cache.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/random.h>

#include "debuginfo/dwarf_lookup.h"
#include "lib/hash.h"
#include "lib/invariant.h"

#define BYTES_MIN ((size_t)64 << 10)
#define BYTES_MAX ((size_t)1 << 30)
#define BYTES_A_SLOT 128u /* of the cache, for one of each kind */
#define FILE_SIZE (PATH_MAX + 512u) /* of the bytes that identify a file */
#define LOCK_ATTEMPTS 100u
#define PAGE_SHIFT 12
#define BLOCK_SHIFT 16
#define PAGE_RANGES_MAX 32u /* further addresses of the page have entries of their own */
/* Of one range: further pages on each side of its address. */
#define PAGES_BESIDE 32u

/*
 * Offsets in the memory, in which they are followed by what they refer to; 0: none. Nothing moves,
 * and all goes at once.
 */
typedef uint32_t offset;

/* Bytes, each sequence once: strings with their NUL, and identities of files. */
struct symbol_cache_text {
	uint32_t hash, size;
	char bytes[];
};

struct cached_line {
	offset function, system_name, file;
	uint32_t line, start_line;
};

/* Kinds of keys of the entries of a file; each key is a number. */
enum key {
	KEY_ADDRESS, /* itself: the lines belong to no other address */
	KEY_PAGE, /* the addresses of the page that are in the range have the lines */
	KEY_BLOCK, /* all addresses of the block have the lines */
	KEY_FILE, /* 0: all addresses have the lines */
};

struct symbol_cache_entry {
	uint64_t number; /* of the key */
	uint64_t start, size; /* of the range */
	offset file;
	uint32_t key;
	uint32_t has_symbol, count;
	struct cached_line lines[];
};

struct symbol_cache {
	pthread_mutex_t lock; /* of all else, between processes */
	uint32_t size; /* of all, in bytes */
	uint32_t slots; /* of each kind, a power of two */
	uint32_t
		seed; /* of the hashes: workers that send the strings know the key of the process */
	uint32_t used; /* bytes, from the beginning */
	uint32_t text_count, entry_count;
	offset contents[]; /* slots of texts, slots of entries; then these */
};

#define ALIGNMENT _Alignof(struct symbol_cache_entry)

static void *cache_pointer_at(struct symbol_cache *cache, offset place)
{
	return (char *)cache + place;
}

static offset *text_slots(struct symbol_cache *cache)
{
	return cache->contents;
}

static offset *entry_slots(struct symbol_cache *cache)
{
	return cache->contents + cache->slots;
}

static size_t slot_bytes(const struct symbol_cache *cache)
{
	return 2 * (size_t)cache->slots * sizeof(offset);
}

/* Where all slots are 0. */
static void symbol_cache_begin(struct symbol_cache *cache)
{
	cache->used = (uint32_t)roundup(sizeof(*cache) + slot_bytes(cache), ALIGNMENT);
	cache->text_count = cache->entry_count = 0;
}

static void symbol_cache_empty(struct symbol_cache *cache)
{
	memset(cache->contents, 0, slot_bytes(cache));
	symbol_cache_begin(cache);
}

/* Returns false if another process has the lock for long: it may have been stopped. */
static bool symbol_cache_lock(struct symbol_cache *cache)
{
	int err = pthread_mutex_trylock(&cache->lock);

	for (unsigned int i = 0; err == EBUSY && i < LOCK_ATTEMPTS; i++) {
		sched_yield();
		err = pthread_mutex_trylock(&cache->lock);
	}
	/* Its owner was killed, perhaps in the middle of a change. */
	if (err == EOWNERDEAD) {
		symbol_cache_empty(cache);
		err = pthread_mutex_consistent(&cache->lock);
	}
	return !err;
}

static void symbol_cache_unlock(struct symbol_cache *cache)
{
	pthread_mutex_unlock(&cache->lock);
}

/* Returns the place of `size` bytes, or 0 if there is no room. */
static offset symbol_cache_allocate(struct symbol_cache *cache, size_t size)
{
	offset place = cache->used;

	if (size > cache->size - cache->used)
		return 0;
	cache->used = (uint32_t)MIN(roundup(place + size, ALIGNMENT), cache->size);
	return place;
}

static bool symbol_cache_is_full(const struct symbol_cache *cache, uint32_t count)
{
	return count >= cache->slots / 4 * 3;
}

/* Returns the slot of a text, which is 0 if it is not there. */
static offset *find_text(struct symbol_cache *cache, uint32_t hash, const void *bytes, size_t size)
{
	offset *slots = text_slots(cache);
	uint32_t slot = hash & (cache->slots - 1);

	for (; slots[slot]; slot = (slot + 1) & (cache->slots - 1)) {
		const struct symbol_cache_text *text = cache_pointer_at(cache, slots[slot]);

		if (text->hash == hash && text->size == size && !memcmp(text->bytes, bytes, size))
			break;
	}
	return &slots[slot];
}

/* Sets *place to the place of a copy of the bytes. Returns false if there is no room. */
static bool add_text(struct symbol_cache *cache, const void *bytes, size_t size, offset *place)
{
	uint32_t hash = hash_bytes(cache->seed, bytes, size);
	offset *slot = find_text(cache, hash, bytes, size);
	struct symbol_cache_text *text;

	*place = *slot;
	if (*place)
		return true;
	*place = symbol_cache_is_full(cache, cache->text_count)
			 ? 0
			 : symbol_cache_allocate(cache, sizeof(*text) + size);
	if (!*place)
		return false;
	text = cache_pointer_at(cache, *place);
	text->hash = hash;
	text->size = (uint32_t)size;
	memcpy(text->bytes, bytes, size);
	*slot = *place;
	cache->text_count++;
	return true;
}

/* As add_text(), for a string or NULL. */
static bool symbol_cache_add_string(struct symbol_cache *cache, const char *string, offset *place)
{
	*place = 0;
	return !string || add_text(cache, string, strlen(string) + 1, place);
}

static const char *symbol_cache_string_at(struct symbol_cache *cache, offset place)
{
	return place ? ((const struct symbol_cache_text *)cache_pointer_at(cache, place))->bytes
		     : NULL;
}

/*
 * Writes what identifies a file: its numbers, then the strings with their NUL. Returns the length;
 * FILE_SIZE: the strings are too long.
 */
static size_t symbol_cache_identify(const struct symbol_file *file, char identity[FILE_SIZE])
{
	const uint64_t numbers[] = {file->device, file->inode, file->size, file->generation,
				    file->owner};
	const size_t build_id = strlen(file->build_id) + 1, path = strlen(file->path) + 1;

	if (sizeof(numbers) + build_id + path >= FILE_SIZE)
		return FILE_SIZE;
	memcpy(identity, numbers, sizeof(numbers));
	memcpy(identity + sizeof(numbers), file->build_id, build_id);
	memcpy(identity + sizeof(numbers) + build_id, file->path, path);
	return sizeof(numbers) + build_id + path;
}

static uint64_t number_of(enum key key, uint64_t address)
{
	switch (key) {
	case KEY_ADDRESS:
		return address;
	case KEY_PAGE:
		return address >> PAGE_SHIFT;
	case KEY_BLOCK:
		return address >> BLOCK_SHIFT;
	case KEY_FILE:
		break;
	}
	return 0;
}

static uint32_t hash_entry(const struct symbol_cache *cache, offset file, enum key key,
			   uint64_t number)
{
	return hash_number(hash_number(hash_number(cache->seed, file), key), number);
}

/* Returns the slot of the entry for an address, which is 0 if it is not there. */
static offset *find_entry(struct symbol_cache *cache, offset file, enum key key, uint64_t address)
{
	const uint64_t number = number_of(key, address);
	offset *slots = entry_slots(cache);
	uint32_t slot = hash_entry(cache, file, key, number) & (cache->slots - 1);

	for (; slots[slot]; slot = (slot + 1) & (cache->slots - 1)) {
		const struct symbol_cache_entry *entry = cache_pointer_at(cache, slots[slot]);

		if (entry->file == file && entry->key == key && entry->number == number &&
		    address - entry->start < entry->size)
			break;
	}
	return &slots[slot];
}

static int symbol_cache_give(struct symbol_cache *cache, const struct symbol_cache_entry *entry,
			     symbol_cache_fn found, void *arg)
{
	struct source_line lines[INLINE_DEPTH_MAX];

	invariant(entry->count <= INLINE_DEPTH_MAX);
	for (uint32_t i = 0; i < entry->count; i++) {
		const struct cached_line *line = &entry->lines[i];

		lines[i] = (struct source_line){
			.function = symbol_cache_string_at(cache, line->function),
			.system_name = symbol_cache_string_at(cache, line->system_name),
			.file = symbol_cache_string_at(cache, line->file),
			.line = line->line,
			.start_line = line->start_line,
		};
	}
	return found(arg, lines, entry->count);
}

static offset find_address(struct symbol_cache *cache, offset file, uint64_t address)
{
	return *find_entry(cache, file, KEY_ADDRESS, address)
		       ?: *find_entry(cache, file, KEY_PAGE, address)
		       ?: *find_entry(cache, file, KEY_BLOCK, address)
		       ?: *find_entry(cache, file, KEY_FILE, address);
}

bool symbol_cache_find(struct symbol_cache *cache, const struct symbol_file *file, uint64_t address,
		       symbol_cache_fn found, void *arg, int *err)
{
	char identity[FILE_SIZE];
	size_t length = symbol_cache_identify(file, identity);
	offset place = 0;

	*err = 0;
	if (length >= FILE_SIZE || !symbol_cache_lock(cache))
		return false;
	place = *find_text(cache, hash_bytes(cache->seed, identity, length), identity, length);
	if (place)
		place = find_address(cache, place, address);
	if (place && ((struct symbol_cache_entry *)cache_pointer_at(cache, place))->has_symbol)
		*err = symbol_cache_give(cache, cache_pointer_at(cache, place), found, arg);
	symbol_cache_unlock(cache);
	return place != 0;
}

static bool add_line(struct symbol_cache *cache, const struct source_line *line,
		     struct cached_line *cached)
{
	cached->line = line->line;
	cached->start_line = line->start_line;
	return symbol_cache_add_string(cache, line->function, &cached->function) &&
	       symbol_cache_add_string(cache, line->system_name, &cached->system_name) &&
	       symbol_cache_add_string(cache, line->file, &cached->file);
}

/* Lines of addresses of a file. */
struct addition {
	const char *identity; /* of the file */
	size_t length;
	uint64_t address;
	struct address_range range; /* end 0: the address only */
	const struct source_line *lines;
	size_t count; /* or SYMBOL_CACHE_NONE */
};

/* Returns false if there is no room. */
static bool symbol_cache_add_entry(struct symbol_cache *cache, const struct addition *addition,
				   offset file, enum key key)
{
	const bool has_symbol = addition->count != SYMBOL_CACHE_NONE;
	const size_t count = has_symbol ? addition->count : 0;
	const uint64_t number = number_of(key, addition->address);
	offset *slot = find_entry(cache, file, key, addition->address), place;
	struct symbol_cache_entry *entry;
	bool complete = true;

	if (*slot)
		return true;
	place = symbol_cache_is_full(cache, cache->entry_count)
			? 0
			: symbol_cache_allocate(cache,
						sizeof(*entry) + count * sizeof(entry->lines[0]));
	if (!place)
		return false;
	entry = cache_pointer_at(cache, place);
	*entry = (struct symbol_cache_entry){
		.number = number,
		.start = addition->address,
		.size = 1,
		.file = file,
		.key = key,
		.has_symbol = has_symbol,
		.count = (uint32_t)count,
	};
	if (key != KEY_ADDRESS) {
		entry->start = addition->range.start;
		entry->size = addition->range.end - addition->range.start;
	}
	for (size_t i = 0; i < count && complete; i++)
		complete = add_line(cache, &addition->lines[i], &entry->lines[i]);
	if (!complete)
		return false;
	*slot = place;
	cache->entry_count++;
	return true;
}

/* Returns whether a page has too many ranges to look them up quickly. */
static bool is_crowded(struct symbol_cache *cache, offset file, uint64_t address)
{
	const uint64_t page = number_of(KEY_PAGE, address);
	uint32_t slot = hash_entry(cache, file, KEY_PAGE, page) & (cache->slots - 1), count = 0;

	for (; entry_slots(cache)[slot]; slot = (slot + 1) & (cache->slots - 1)) {
		const struct symbol_cache_entry *entry =
			cache_pointer_at(cache, entry_slots(cache)[slot]);

		count += entry->file == file && entry->key == KEY_PAGE && entry->number == page;
	}
	return count >= PAGE_RANGES_MAX;
}

/* Whether a range has all of the block of an address. */
static bool has_block(const struct address_range *range, uint64_t address)
{
	const uint64_t first = address >> BLOCK_SHIFT << BLOCK_SHIFT;
	const uint64_t last = first + ((UINT64_C(1) << BLOCK_SHIFT) - 1);

	return range->start <= first && last < range->end;
}

/* Adds the lines for the page or the block of an address of the range. */
static bool add_page(struct symbol_cache *cache, const struct addition *addition, offset file,
		     uint64_t address)
{
	struct addition page = *addition;

	page.address = address;
	if (has_block(&addition->range, address))
		return symbol_cache_add_entry(cache, &page, file, KEY_BLOCK);
	if (!is_crowded(cache, file, address))
		return symbol_cache_add_entry(cache, &page, file, KEY_PAGE);
	return address != addition->address ||
	       symbol_cache_add_entry(cache, &page, file, KEY_ADDRESS);
}

/* Pages without samples take half of the room at most: a few large functions do not fill it. */
static bool has_room_beside(const struct symbol_cache *cache)
{
	return !symbol_cache_is_full(cache, 2 * cache->entry_count) &&
	       cache->used <= cache->size / 2;
}

/* Adds the lines for the pages and blocks of a range: first where its address is. */
static bool add_pages(struct symbol_cache *cache, const struct addition *addition, offset file)
{
	const struct address_range *range = &addition->range;
	bool complete = add_page(cache, addition, file, addition->address);
	uint64_t at = addition->address;

	for (unsigned int i = 0; i < PAGES_BESIDE && complete && has_room_beside(cache); i++) {
		at = has_block(range, at) ? at >> BLOCK_SHIFT << BLOCK_SHIFT
					  : at >> PAGE_SHIFT << PAGE_SHIFT;
		if (at <= range->start)
			break;
		at--;
		complete = add_page(cache, addition, file, at);
	}
	at = addition->address;
	for (unsigned int i = 0; i < PAGES_BESIDE && complete && has_room_beside(cache); i++) {
		at |= has_block(range, at) ? (UINT64_C(1) << BLOCK_SHIFT) - 1
					   : (UINT64_C(1) << PAGE_SHIFT) - 1;
		if (at >= range->end - 1)
			break;
		at++;
		complete = add_page(cache, addition, file, at);
	}
	return complete;
}

/* Returns false if there is no room. */
static bool symbol_cache_try_add(struct symbol_cache *cache, const struct addition *addition)
{
	const struct address_range *range = &addition->range;
	offset file;

	if (!add_text(cache, addition->identity, addition->length, &file))
		return false;
	if (!range->end)
		return symbol_cache_add_entry(cache, addition, file, KEY_ADDRESS);
	if (!range->start && range->end == UINT64_MAX)
		return symbol_cache_add_entry(cache, addition, file, KEY_FILE);
	return add_pages(cache, addition, file);
}

void symbol_cache_add(struct symbol_cache *cache, const struct symbol_file *file, uint64_t address,
		      const struct address_range *same, const struct source_line *lines,
		      size_t count)
{
	char identity[FILE_SIZE];
	struct addition addition = {
		.identity = identity,
		.length = symbol_cache_identify(file, identity),
		.address = address,
		.range = *same,
		.lines = lines,
		.count = count,
	};

	invariant(!same->end || (address >= same->start && address < same->end));
	if (addition.length >= FILE_SIZE ||
	    (count > INLINE_DEPTH_MAX && count != SYMBOL_CACHE_NONE) || !symbol_cache_lock(cache))
		return;
	if (!symbol_cache_try_add(cache, &addition)) {
		symbol_cache_empty(cache);
		/* If it is too large even so, only itself is missing. */
		if (!symbol_cache_try_add(cache, &addition))
			symbol_cache_empty(cache);
	}
	symbol_cache_unlock(cache);
}

bool symbol_cache_clear(struct symbol_cache *cache)
{
	if (!symbol_cache_lock(cache))
		return false;
	symbol_cache_empty(cache);
	symbol_cache_unlock(cache);
	return true;
}

struct symbol_cache *symbol_cache_new(size_t bytes)
{
	struct symbol_cache *cache;
	pthread_mutexattr_t attributes;
	int err;

	invariant(bytes >= BYTES_MIN && bytes <= BYTES_MAX);
	cache = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cache == MAP_FAILED)
		return NULL;
	cache->size = (uint32_t)bytes;
	cache->slots = 1;
	while (cache->slots <= bytes / BYTES_A_SLOT / 2)
		cache->slots *= 2;
	symbol_cache_begin(cache);
	/* Without it, lookups can be made slow, and no more. */
	if (getrandom(&cache->seed, sizeof(cache->seed), GRND_NONBLOCK) < 0)
		cache->seed = HASH_START;
	pthread_mutexattr_init(&attributes);
	err = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!err)
		err = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (!err)
		err = pthread_mutex_init(&cache->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	if (!err)
		return cache;
	munmap(cache, bytes);
	return NULL;
}

void symbol_cache_free(struct symbol_cache *cache)
{
	if (cache)
		munmap(cache, cache->size);
}
