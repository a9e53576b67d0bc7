// SPDX-License-Identifier: GPL-2.0
#include "mappings/address_space.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "mappings/mapped_files.h"
#include "mappings/mapped_vdso.h"
#include "mappings/mapping_history.h"
#include "mappings/moved_text.h"
#include "runtime/perf_map_watcher.h"

#define VSYSCALL_START UINT64_C(0xffffffffff600000)
#define VSYSCALL_END UINT64_C(0xffffffffff601000)

/* Processes that are found alive in one round of checks, at most; others follow in the next one. */
#define CHECKS_MAX 1024u
/* Checks that are skipped for a process that was alive at each one: it is unlikely to end soon. */
#define SKIPPED_CHECKS_MAX 15u
/* Rounds of checks after which an address space without a record is forgotten: none is pending. */
#define UNANNOUNCED_CHECKS 8u
/*
 * Rounds of checks between the records of two address spaces of a process after which the older one
 * is over: a sample creates another one only where the kernel has no valid entry of the process, so
 * that it has called exec since, or its entry was evicted. Two CPUs may create one each, but at the
 * same time.
 */
#define REPLACED_ROUNDS 10u
/*
 * Comparisons of anonymous memory with files, of all processes together, in pages a second: 1 to
 * 2 % of a CPU. Processes could make the reader compare for ever. They may be used at once.
 */
#define COMPARED_PAGES 4096
/* A comparison also costs a thread and an open file, and a range that is passed on an ioctl(). */
#define COMPARISON_PAGES 32
#define SENT_PAGES 4
/* Seconds without a comparison after a slow comparison, and after a hanging comparison. */
#define SLOW_SECONDS 10
#define HUNG_SECONDS 600
/* Pages that were compared, and differ: sampled code is often in few pages. A power of two. */
#define DIFFERENT_PAGES 64u
/* Ranges of moved text that are not passed on yet, of an address space; others are not. */
#define UNSENT_MAX 8u
#define NO_SLOT UINT32_MAX

/* Text that was moved, and an address in a mapping of its file. */
struct unsent_text {
	uint64_t start, end, beside;
};

struct unsent_texts {
	struct unsent_text items[UNSENT_MAX];
	uint32_t tried_at; /* generation of the last attempt */
	bool has_new; /* items that were added since */
};

/* A page of an address space, at a generation, that has not the bytes of a file. */
struct different_page {
	uint64_t address_space; /* 0: none */
	uint64_t page;
	uint32_t generation, segment;
};

/* Anonymous memory of an address space, at a generation, that no file reaches. */
struct plain_memory {
	uint64_t address_space;
	uint64_t start, end;
	uint32_t generation;
};

struct address_space {
	uint64_t id;
	struct address_spaces *table;
	uint64_t start_time; /* ns */
	char *cgroup_path; /* NULL: none */
	struct mapping_history *history; /* NULL: no record yet */
	struct unsent_texts *unsent; /* NULL: there were none yet */
	uint32_t index; /* see address_space_index() */
	uint64_t ended; /* ns, when the end of the process was noticed; 0: it is alive */
	uint32_t pid, ns_pid, parent;
	uint32_t perf_map; /* number in table->perf_maps, or UINT32_MAX */
	uint32_t announced_at; /* round of checks */
	uint32_t noted_generation; /* the latest one at table->noted_at */
	uint32_t holds; /* see address_space_hold() */
	bool comparison_hung; /* of its memory with a file: there is no other one */
	uint8_t unsent_count;
	bool announced; /* by a record of its own */
	uint8_t unannounced_checks; /* rounds of checks without a record */
	uint8_t skipped_checks; /* after the last check */
	uint8_t checks_to_skip; /* still, until the next check */
	char comm[STACKBEAT_COMM_SIZE];
};

/* The state of a process, from /proc. */
struct process {
	uint64_t read_at; /* ns */
	uint64_t start; /* clock ticks; 0: unknown */
	uint32_t pid;
	bool ended;
};

/* An entry of the table: `space`, or NULL and the next unused entry. */
struct space_slot {
	struct address_space *space;
	uint32_t next_unused; /* NO_SLOT: none */
};

struct address_spaces {
	char *root;
	struct mapped_files *files;
	struct perf_map_watcher *perf_maps; /* NULL: none is needed */
	struct space_slot *slots; /* by index */
	size_t slot_count, slot_capacity;
	struct address_space *last; /* that was looked up, or NULL */
	uint32_t unused; /* the first unused slot, or NO_SLOT */
	struct hash by_id; /* indices of `slots` */
	struct hash by_pid; /* of the address space of each process that was announced last */
	struct address_space **list; /* all of them, in the order of creation */
	size_t count, capacity;
	size_t next_check; /* index of `list` */
	uint32_t rounds; /* of checks */
	forget_address_space_fn *forget;
	void *forget_arg;
	moved_text_fn *moved_text;
	void *moved_text_arg;
	uint64_t anonymous_code; /* events */
	int64_t compared_pages; /* that may be compared; less than 0: later ones, too */
	uint64_t compared_at; /* ns, when they were counted last */
	struct plain_memory plain; /* which was found last */
	struct different_page different[DIFFERENT_PAGES]; /* by hash */
	struct process process; /* read last: a process that calls exec has several spaces */
	bool same_pid_ns;
	uint64_t noted_at; /* ns: when the latest generations were noted */
	uint32_t main_pid; /* see address_spaces_follow_main() */
	char *main_path;
	struct address_space_counts counts;
};

struct address_spaces *address_spaces_new(const char *root, struct mapped_files *files,
					  struct error *error)
{
	struct address_spaces *spaces = calloc(1, sizeof(*spaces));

	if (spaces)
		spaces->root = strdup(root);
	if (!spaces || !spaces->root) {
		free(spaces);
		error_errno(error, ENOMEM, "can't make the table of address spaces");
		return NULL;
	}
	spaces->files = files;
	spaces->same_pid_ns = true;
	spaces->compared_pages = COMPARED_PAGES;
	spaces->unused = NO_SLOT;
	return spaces;
}

static void free_space(struct address_space *space)
{
	mapping_history_free(space->history);
	free(space->unsent);
	free(space->cgroup_path);
	free(space);
}

void address_spaces_free(struct address_spaces *spaces)
{
	if (!spaces)
		return;
	for (size_t i = 0; i < spaces->count; i++)
		free_space(spaces->list[i]);
	perf_map_watcher_free(spaces->perf_maps);
	hash_clear(&spaces->by_id);
	hash_clear(&spaces->by_pid);
	free(spaces->slots);
	free(spaces->list);
	free(spaces->main_path);
	free(spaces->root);
	free(spaces);
}

struct mapped_files *address_spaces_files(const struct address_spaces *spaces)
{
	return spaces->files;
}

void address_spaces_on_forget(struct address_spaces *spaces, forget_address_space_fn *forget,
			      void *arg)
{
	spaces->forget = forget;
	spaces->forget_arg = arg;
}

void address_spaces_on_moved_text(struct address_spaces *spaces, moved_text_fn *fn, void *arg)
{
	spaces->moved_text = fn;
	spaces->moved_text_arg = arg;
}

void address_spaces_same_pid_ns(struct address_spaces *spaces, bool same)
{
	spaces->same_pid_ns = same;
}

/* The table */

struct space_key {
	uint64_t id;
	uint32_t pid; /* where id is 0 */
};

static bool is_space_of(const void *context, uint32_t index, const void *key)
{
	const struct address_space *space =
		((const struct address_spaces *)context)->slots[index].space;
	const struct space_key *wanted = key;

	return space->id == wanted->id && (wanted->id || space->pid == wanted->pid);
}

/* Returns the index of an unused slot, which stays unused; NO_SLOT: out of memory. */
static uint32_t address_spaces_reserve(struct address_spaces *spaces)
{
	if (spaces->unused != NO_SLOT)
		return spaces->unused;
	if (spaces->slot_count == HASH_NONE ||
	    array_reserve(&spaces->slots, &spaces->slot_capacity, spaces->slot_count, 1,
			  sizeof(*spaces->slots)))
		return NO_SLOT;
	spaces->unused = (uint32_t)spaces->slot_count++;
	spaces->slots[spaces->unused] = (struct space_slot){NULL, NO_SLOT};
	return spaces->unused;
}

static struct address_space *address_spaces_insert(struct address_spaces *spaces,
						   const struct space_key *key, uint32_t hash)
{
	struct address_space *space = calloc(1, sizeof(*space));
	uint32_t index;

	if (!space)
		return NULL;
	index = address_spaces_reserve(spaces);
	if (index == NO_SLOT ||
	    array_reserve(&spaces->list, &spaces->capacity, spaces->count, 1,
			  sizeof(struct address_space *)) ||
	    hash_add(&spaces->by_id, hash, index)) {
		free(space);
		return NULL;
	}
	space->id = key->id;
	space->table = spaces;
	space->perf_map = UINT32_MAX;
	space->pid = key->pid;
	space->index = index;
	spaces->unused = spaces->slots[index].next_unused;
	spaces->slots[index].space = space;
	spaces->list[spaces->count++] = space;
	return space;
}

static uint32_t key_hash(const struct space_key *key)
{
	return hash_number(HASH_START, key->id ? key->id : (uint64_t)key->pid << 32);
}

static struct address_space *find_or_insert(struct address_spaces *spaces, uint64_t id,
					    uint32_t pid)
{
	const struct space_key key = {id, pid};
	uint32_t hash = key_hash(&key);
	uint32_t index = hash_find(&spaces->by_id, hash, is_space_of, spaces, &key);

	return index == HASH_NONE ? address_spaces_insert(spaces, &key, hash)
				  : spaces->slots[index].space;
}

struct address_space *address_spaces_get(struct address_spaces *spaces, uint64_t id, uint32_t pid)
{
	/* Adjacent records are mostly of one address space. */
	if (!spaces->last || spaces->last->id != id || (!id && spaces->last->pid != pid))
		spaces->last = find_or_insert(spaces, id, pid);
	return spaces->last;
}

/* The address space of a process that was announced last */

static bool is_space_of_pid(const void *context, uint32_t index, const void *key)
{
	return ((const struct address_spaces *)context)->slots[index].space->pid ==
	       *(const uint32_t *)key;
}

static uint32_t pid_hash(uint32_t pid)
{
	return hash_number(HASH_START, pid);
}

/* Returns its index, or HASH_NONE. */
static uint32_t latest_index(const struct address_spaces *spaces, uint32_t pid)
{
	return hash_find(&spaces->by_pid, pid_hash(pid), is_space_of_pid, spaces, &pid);
}

/* Returns 0 or -ENOMEM. */
static int set_latest(struct address_spaces *spaces, uint32_t pid, uint32_t index)
{
	uint32_t earlier = latest_index(spaces, pid);

	if (earlier != HASH_NONE)
		hash_remove(&spaces->by_pid, pid_hash(pid), earlier);
	return hash_add(&spaces->by_pid, pid_hash(pid), index);
}

/* Whether the process has another address space, or its ID belongs to another process. */
static bool is_replaced(const struct address_spaces *spaces, const struct address_space *space)
{
	uint32_t index = latest_index(spaces, space->pid);
	const struct address_space *latest;

	if (index == HASH_NONE)
		return false;
	latest = spaces->slots[index].space;
	return latest->start_time > space->start_time ||
	       (latest->start_time == space->start_time &&
		latest->announced_at - space->announced_at >= REPLACED_ROUNDS);
}

/* Frees an address space. It stays in the list, from which the caller removes it. */
static void address_spaces_forget(struct address_spaces *spaces, struct address_space *space)
{
	const struct space_key key = {space->id, space->pid};

	hash_remove(&spaces->by_id, key_hash(&key), space->index);
	if (latest_index(spaces, space->pid) == space->index)
		hash_remove(&spaces->by_pid, pid_hash(space->pid), space->index);
	spaces->slots[space->index] = (struct space_slot){NULL, spaces->unused};
	spaces->unused = space->index;
	if (space->perf_map != UINT32_MAX)
		perf_map_watcher_retire(spaces->perf_maps, space->perf_map);
	spaces->counts.ended += space->announced;
	if (spaces->last == space)
		spaces->last = NULL;
	free_space(space);
}

/* Returns the address space of an id, with a history, or NULL when out of memory. */
static struct address_space *get_with_history(struct address_spaces *spaces, uint64_t id)
{
	struct address_space *space = address_spaces_get(spaces, id, 0);

	if (space && !space->history)
		space->history = mapping_history_new();
	return space && space->history ? space : NULL;
}

/* Records */

int address_spaces_add(struct address_spaces *spaces, const struct stackbeat_address_space *record)
{
	struct address_space *space = get_with_history(spaces, record->address_space);

	if (!space)
		return -ENOMEM;
	if (!space->announced) {
		/* It may be there after an attempt that lacked memory. */
		if (*record->cgroup_path && !space->cgroup_path) {
			space->cgroup_path = strdup(record->cgroup_path);
			if (!space->cgroup_path)
				return -ENOMEM;
		}
		if (set_latest(spaces, record->pid, space->index))
			return -ENOMEM;
		space->announced = true;
		space->announced_at = spaces->rounds;
		space->start_time = record->start_time;
		space->pid = record->pid;
		space->ns_pid = record->ns_pid;
		space->parent = record->parent;
		memcpy(space->comm, record->comm, sizeof(space->comm));
	}
	return mapping_history_add_snapshot(space->history, record->generation, record->gap,
					    record->mappings_dropped);
}

/* Sets the segment and the bias of the mapping of a record. Returns 0 or -ENOMEM. */
static int resolve_segment(struct address_spaces *spaces, const struct address_space *space,
			   const struct stackbeat_mapping *record, struct mapping *mapping)
{
	uint16_t flags = record->record.flags;
	bool is_offset = !(flags & STACKBEAT_MAPPING_VADDR);
	struct mapped_file *file = NULL;

	if (record->file) {
		file = mapped_files_get(spaces->files, record->file);
		if (!file)
			return -ENOMEM;
		mapped_file_note_mapping(spaces->files, file, space->pid, record->start,
					 record->end);
	} else if (flags & STACKBEAT_MAPPING_VDSO) {
		/* The vdso of 32-bit programs is another one; it is mapped below 4 GiB. */
		if (record->start > UINT32_MAX)
			file = mapped_files_vdso(spaces->files);
		mapping->segment = SEGMENT_VDSO;
		/* Offsets in a vdso are its ELF virtual addresses. */
		is_offset = !file;
	} else if (record->offset || (flags & STACKBEAT_MAPPING_MAIN_BINARY)) {
		file = mapped_files_find_mapped(spaces->files, space->pid, record->start,
						record->end);
		/* A program may have moved its text to anonymous memory. */
		mapping->segment = record->offset ? SEGMENT_NONE : SEGMENT_ANON;
	} else {
		mapping->segment = SEGMENT_ANON;
	}
	if (!file)
		return 0;
	if (!is_offset)
		file->vaddr_bias = record->vaddr - record->offset;
	mapping->segment =
		segment_of_file(file->index, is_offset ? SEGMENT_OFFSETS : SEGMENT_VADDRS);
	mapping->bias =
		(flags & STACKBEAT_MAPPING_VADDR ? record->vaddr : record->offset) - record->start;
	return 0;
}

void address_spaces_follow_main(struct address_spaces *spaces, uint32_t pid)
{
	spaces->main_pid = pid;
}

const char *address_spaces_main_path(const struct address_spaces *spaces)
{
	return spaces->main_path;
}

/*
 * Notes the executable file of the process that is followed. Without memory, the file before stays.
 */
static void note_main(struct address_spaces *spaces, const struct address_space *space,
		      const struct mapping *mapping)
{
	uint32_t pid = spaces->same_pid_ns ? space->pid : space->ns_pid;
	bool is_offset;
	char *path;

	if (!spaces->main_pid || pid != spaces->main_pid || mapping->segment < SEGMENT_FILES)
		return;
	path = strdup(segment_file(spaces->files, mapping->segment, &is_offset)->path);
	if (!path)
		return;
	free(spaces->main_path);
	spaces->main_path = path;
}

int address_spaces_add_mapping(struct address_spaces *spaces,
			       const struct stackbeat_mapping *record)
{
	struct mapping mapping = {.start = record->start, .end = record->end};
	struct address_space *space = get_with_history(spaces, record->address_space);
	int err;

	if (!space)
		return -ENOMEM;
	err = resolve_segment(spaces, space, record, &mapping);
	if (err)
		return err;
	if (record->record.flags & STACKBEAT_MAPPING_MAIN_BINARY)
		note_main(spaces, space, &mapping);
	if (record->record.flags & STACKBEAT_MAPPING_EVENT) {
		spaces->anonymous_code += mapping.segment == SEGMENT_ANON;
		return mapping_history_add_event(space->history, record->generation, &mapping,
						 &spaces->counts.mappings_dropped);
	}
	return mapping_history_add_mapping(space->history, record->generation, &mapping,
					   &spaces->counts.mappings_dropped);
}

/* Lookups */

bool address_space_ready(const struct address_space *space, uint32_t generation, bool settled)
{
	if (!space->id)
		return true;
	return space->history && mapping_history_ready(space->history, generation, settled);
}

int address_space_advance(struct address_space *space, uint32_t generation)
{
	return space->history ? mapping_history_advance(space->history, generation) : 0;
}

/* Moved text, see moved_text.h */

/*
 * Passes on what was not accepted before; what has been replaced since is forgotten. The module
 * refuses all of them alike as long as it is at another generation.
 */
static void send_texts(struct address_space *space, uint32_t generation)
{
	struct address_spaces *spaces = space->table;
	bool refused = false;
	size_t kept = 0;

	/* Nothing is tried without time for it: a later lookup does. */
	if (spaces->compared_pages <= 0)
		return;
	for (size_t i = 0; i < space->unsent_count; i++) {
		const struct unsent_text *text = &space->unsent->items[i];
		const struct stackbeat_moved_text moved = {
			.address_space = space->id,
			.start = text->start,
			.end = text->end,
			.beside = text->beside,
			.generation = generation,
		};
		const struct mapping *mapping =
			mapping_history_find(space->history, generation, text->start);

		if (!mapping || mapping->segment < SEGMENT_FILES || mapping->end < text->end)
			continue;
		if (!refused) {
			spaces->compared_pages -= SENT_PAGES;
			refused = spaces->moved_text(&moved, spaces->moved_text_arg) == -ESTALE;
			if (!refused)
				continue;
		}
		space->unsent->items[kept++] = *text;
	}
	space->unsent_count = (uint8_t)kept;
	space->unsent->tried_at = generation;
	space->unsent->has_new = false;
}

static void add_unsent_text(struct address_space *space, const struct mapping *text,
			    const struct mapping *beside)
{
	if (!space->table->moved_text || space->unsent_count == UNSENT_MAX)
		return;
	if (!space->unsent)
		space->unsent = calloc(1, sizeof(*space->unsent));
	/* Without memory, callers of the text are found by frame pointers only. */
	if (!space->unsent)
		return;
	space->unsent->items[space->unsent_count++] =
		(struct unsent_text){text->start, text->end, beside->start};
	space->unsent->has_new = true;
}

static struct different_page *different_page_of(struct address_spaces *spaces, uint64_t id,
						uint64_t page)
{
	const uint32_t hash = hash_number(hash_number(HASH_START, id), page);

	return &spaces->different[hash % DIFFERENT_PAGES];
}

/* Accounts for a comparison that has returned `result`. */
static void count_comparison(struct address_space *space, int result, const struct moved_text *text)
{
	struct address_spaces *spaces = space->table;

	spaces->compared_pages -= COMPARISON_PAGES;
	if (result > 0)
		spaces->compared_pages -= (int64_t)((text->end - text->start) / MOVED_TEXT_PAGE);
	if (result == -ETIMEDOUT)
		spaces->compared_pages -= (int64_t)HUNG_SECONDS * COMPARED_PAGES;
	else if (text->is_slow)
		spaces->compared_pages -= (int64_t)SLOW_SECONDS * COMPARED_PAGES;
	space->comparison_hung |= result == -ETIMEDOUT;
}

/*
 * Sets *part to the part of an anonymous mapping, around an address, that has the text of the file
 * of another mapping, at the addresses that it would have there. Returns whether there is one. Sets
 * *reaches if another address of the anonymous mapping may be in such a part.
 */
static bool find_text_of(struct address_space *space, uint32_t generation,
			 const struct mapping *mapping, uint64_t address,
			 const struct mapping *other, struct mapping *part, bool *reaches)
{
	const struct mapped_files *files = space->table->files;
	bool is_offset;
	const struct mapped_file *file = segment_file(files, other->segment, &is_offset);
	const uint64_t size = file ? mapped_file_size(file) : 0;
	const struct different_page tried = {space->id, address & -MOVED_TEXT_PAGE, generation,
					     other->segment};
	struct different_page *known = different_page_of(space->table, space->id, tried.page);
	struct moved_text text = {.address = address, .pid = space->pid};
	int result;

	text.offset = address + other->bias - (file && !is_offset ? file->vaddr_bias : 0);
	if (text.offset >= size) {
		/* The file could begin in the memory behind the address, or end in it before. */
		*reaches |= file && (!size || -text.offset < mapping->end - address ||
				     text.offset - size < address - mapping->start);
		return false;
	}
	*reaches = true;
	if (known->address_space == tried.address_space && known->page == tried.page &&
	    known->generation == tried.generation && known->segment == tried.segment)
		return false;
	text.start = MAX(mapping->start, address - MIN(address, text.offset));
	text.end = MIN(mapping->end, address + (size - text.offset));
	result = moved_text_compare(files, file, &text);
	count_comparison(space, result, &text);
	if (result == -EAGAIN)
		return false;
	if (!result)
		*known = tried;
	*part = (struct mapping){text.start, text.end, other->bias, other->segment};
	return result > 0;
}

static bool may_have_moved_text(const struct address_space *space)
{
	return space->history && space->announced && space->table->same_pid_ns &&
	       !space->comparison_hung && space->table->compared_pages > 0;
}

/*
 * Finds out whether an address in an anonymous mapping is in text that was moved, of a file that is
 * mapped beside it. If so, the history has it in a mapping of the file from now on.
 */
static bool join_text(struct address_space *space, uint32_t generation,
		      const struct mapping *mapping, uint64_t address)
{
	struct plain_memory *plain = &space->table->plain;
	const struct mapping whole = *mapping;
	struct mapping neighbour, text;
	bool reaches = false;

	/* Generated code: there is a lookup for each of its frames. */
	if (plain->address_space == space->id && plain->generation == generation &&
	    address >= plain->start && address < plain->end)
		return false;

	for (unsigned int after = 0; after < 2 && may_have_moved_text(space); after++) {
		if (!mapping_history_neighbour(space->history, address, after, &neighbour) ||
		    !find_text_of(space, generation, &whole, address, &neighbour, &text,
				  &reaches) ||
		    mapping_history_correct(space->history, &text))
			continue;
		add_unsent_text(space, &text, &neighbour);
		return true;
	}
	if (!reaches && may_have_moved_text(space))
		*plain = (struct plain_memory){space->id, whole.start, whole.end, generation};
	return false;
}

/* Returns the mapping of an address that was found in an anonymous mapping. */
__attribute__((noinline)) static const struct mapping *join_found(struct address_space *space,
								  uint32_t generation,
								  const struct mapping *found,
								  uint64_t address)
{
	if (!may_have_moved_text(space) || !join_text(space, generation, found, address))
		return found;
	if (space->unsent_count)
		send_texts(space, generation);
	return mapping_history_find(space->history, generation, address);
}

/* Looks an address up, and finds out whether it is in text that was moved. */
static inline const struct mapping *find_joined(struct address_space *space, uint32_t generation,
						uint64_t address)
{
	const struct mapping *found;

	if (!space->history)
		return NULL;
	found = mapping_history_find(space->history, generation, address);
	if (!found || found->segment != SEGMENT_ANON)
		return found;
	return join_found(space, generation, found, address);
}

/* Where addresses are looked up. */
struct lookup {
	const struct mapping_view *view; /* NULL: in an address space at a generation */
	struct address_space *space;
	uint32_t generation;
};

static const struct mapping *find_in_view(const struct mapping_view *view, uint64_t address)
{
	size_t first = 0, count = view->count;

	/* The number of mappings that end at or before the address. */
	while (count) {
		size_t half = count / 2;

		if (view->mappings[first + half].end <= address) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return first < view->count && view->mappings[first].start <= address
		       ? &view->mappings[first]
		       : NULL;
}

static const struct mapping *address_space_find_mapping(const struct lookup *lookup,
							uint64_t address)
{
	if (lookup->view)
		return find_in_view(lookup->view, address);
	return find_joined(lookup->space, lookup->generation, address);
}

__attribute__((always_inline)) static inline size_t
find_segments(const struct lookup *lookup, uint64_t *addresses, uint32_t *segments, size_t count)
{
	size_t i = 0;

	while (i < count) {
		const struct mapping *mapping = address_space_find_mapping(lookup, addresses[i]);
		uint64_t start, length, bias;
		uint32_t segment;

		if (!mapping) {
			bool vsyscall =
				addresses[i] >= VSYSCALL_START && addresses[i] < VSYSCALL_END;

			segments[i++] = vsyscall ? SEGMENT_VSYSCALL : SEGMENT_NONE;
			if (!vsyscall)
				break;
			continue;
		}
		start = mapping->start;
		length = mapping->end - start;
		bias = mapping->bias;
		segment = mapping->segment;
		/* Consecutive frames are often in one mapping. */
		for (; i < count && addresses[i] - start < length; i++) {
			addresses[i] += bias;
			segments[i] = segment;
		}
	}
	return i;
}

size_t address_space_segments_at(struct address_space *space, uint32_t generation,
				 uint64_t *addresses, uint32_t *segments, size_t count)
{
	const struct lookup lookup = {.space = space, .generation = generation};

	if (space->unsent_count && (space->unsent->has_new || generation > space->unsent->tried_at))
		send_texts(space, generation);
	return find_segments(&lookup, addresses, segments, count);
}

const struct mapping *address_space_mapping_at(struct address_space *space, uint32_t generation,
					       uint64_t address)
{
	return find_joined(space, generation, address);
}

/* Whether mapping_history_neighbour() would find a mapping of a file. */
static bool has_file_beside(const struct mapping_view *view, size_t index)
{
	const size_t first = index - MIN(index, MAPPING_HISTORY_NEIGHBOURS + 1);
	const size_t end = MIN(view->count, index + MAPPING_HISTORY_NEIGHBOURS + 2);

	for (size_t i = first; i < end; i++) {
		if (view->mappings[i].segment >= SEGMENT_FILES)
			return true;
	}
	return false;
}

/* As find_joined(), of all mappings of a view. Returns whether one was text. */
static bool join_texts(struct address_space *space, uint32_t generation,
		       const struct mapping_view *view)
{
	bool joined = false;

	for (size_t i = 0; i < view->count && may_have_moved_text(space); i++) {
		if (view->mappings[i].segment == SEGMENT_ANON && has_file_beside(view, i))
			joined |= join_text(space, generation, &view->mappings[i],
					    view->mappings[i].start);
	}
	if (joined && space->unsent_count)
		send_texts(space, generation);
	return joined;
}

static int copy_mappings(struct mapping_view *view, const struct address_space *space,
			 uint32_t generation)
{
	ssize_t count = mapping_history_copy(space->history, generation, &view->mappings);

	if (count < 0)
		return (int)count;
	view->count = (size_t)count;
	return 0;
}

int mapping_view_init(struct mapping_view *view, struct address_space *space, uint32_t generation)
{
	int err = 0;

	*view = (struct mapping_view){.is_certain = address_space_is_certain(space, generation)};
	if (space->history)
		err = copy_mappings(view, space, generation);
	while (!err && join_texts(space, generation, view)) {
		free(view->mappings);
		*view = (struct mapping_view){.is_certain = view->is_certain};
		err = copy_mappings(view, space, generation);
	}
	return err;
}

void mapping_view_clear(struct mapping_view *view)
{
	free(view->mappings);
	*view = (struct mapping_view){.count = 0};
}

size_t mapping_view_segments(const struct mapping_view *view, uint64_t *addresses,
			     uint32_t *segments, size_t count)
{
	const struct lookup lookup = {.view = view};

	return find_segments(&lookup, addresses, segments, count);
}

const struct mapping *mapping_view_mapping(const struct mapping_view *view, uint64_t address)
{
	return find_in_view(view, address);
}

size_t mapping_view_bytes(const struct mapping_view *view)
{
	return view->count * sizeof(*view->mappings);
}

void address_space_hold(struct address_space *space)
{
	space->holds++;
}

void address_space_release(struct address_space *space)
{
	space->holds--;
}

bool address_space_is_certain(const struct address_space *space, uint32_t generation)
{
	return space->history && mapping_history_is_certain(space->history, generation);
}

struct mapped_file *segment_file(const struct mapped_files *files, uint32_t segment,
				 bool *is_offset)
{
	if (segment < SEGMENT_FILES)
		return NULL;
	*is_offset = (segment - SEGMENT_FILES) % SEGMENTS_OF_FILE != SEGMENT_VADDRS;
	return mapped_files_at(files, (segment - SEGMENT_FILES) / SEGMENTS_OF_FILE);
}

/* Processes that have ended */

/* Fields of /proc/PID/stat after the name, see proc_pid_stat(5). */
enum { STAT_STATE, STAT_THREADS = 17, STAT_START = 19 };

/*
 * Parses the contents of /proc/PID/stat. A main thread that has ended stays a zombie as long as
 * other threads of the process run.
 */
static void read_stat(const char *text, struct process *process)
{
	const char *at = strrchr(text, ')');
	bool zombie = false;

	for (int field = STAT_STATE; at && field <= STAT_START; field++) {
		at = strchr(at + 1, ' ');
		if (at && field == STAT_STATE)
			zombie = at[1] == 'Z' || at[1] == 'X';
		else if (at && field == STAT_THREADS)
			process->ended = zombie && strtoull(at, NULL, 10) <= 1;
	}
	if (at)
		process->start = strtoull(at, NULL, 10);
}

static bool has_no_process(uint32_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* Reads the state of a process, once per round of checks. */
static const struct process *read_process(struct address_spaces *spaces, uint32_t pid, uint64_t now)
{
	struct process *process = &spaces->process;
	char path[PATH_MAX], text[1024];
	ssize_t length;
	int fd;

	if (process->pid == pid && process->read_at == now)
		return process;
	*process = (struct process){.pid = pid, .read_at = now};
	/* Most have ended, and a path takes longer to look up. */
	if (!*spaces->root && has_no_process(pid)) {
		process->ended = true;
		return process;
	}
	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/stat", spaces->root, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		/* /proc may hide the processes of others. */
		process->ended = errno == ENOENT && has_no_process(pid);
		return process;
	}
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length > 0) {
		text[length] = '\0';
		read_stat(text, process);
	}
	return process;
}

/* Returns whether the process has ended, or another process has its id now. */
static bool address_space_has_ended(struct address_spaces *spaces,
				    const struct address_space *space, uint64_t now)
{
	uint64_t clock_tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start = space->start_time + (uint64_t)clock_offset_ns(CLOCK_BOOTTIME);
	const struct process *process = read_process(spaces, space->pid, now);

	return process->ended || process->start > start / clock_tick;
}

/*
 * Backs off exponentially: noticing the end of a process late only costs memory. Returns whether
 * the process was found alive.
 */
static bool address_space_check(struct address_spaces *spaces, struct address_space *space,
				uint64_t now)
{
	if (space->checks_to_skip) {
		space->checks_to_skip--;
		return false;
	}
	if (address_space_has_ended(spaces, space, now)) {
		space->ended = now;
		return false;
	}
	if (space->skipped_checks < SKIPPED_CHECKS_MAX)
		space->skipped_checks = 2 * space->skipped_checks + 1;
	space->checks_to_skip = space->skipped_checks;
	return true;
}

/* An address space without a record has no process that could be checked. */
static void check_unannounced(struct address_space *space, uint64_t now)
{
	if (++space->unannounced_checks >= UNANNOUNCED_CHECKS)
		space->ended = now;
}

static void check_spaces(struct address_spaces *spaces, uint64_t now)
{
	unsigned int alive = 0;

	spaces->rounds++;
	for (size_t i = 0; i < spaces->count && alive < CHECKS_MAX; i++, spaces->next_check++) {
		struct address_space *space;

		if (spaces->next_check >= spaces->count)
			spaces->next_check = 0;
		space = spaces->list[spaces->next_check];
		if (space->ended)
			continue;
		if (!space->announced)
			check_unannounced(space, now);
		else if (is_replaced(spaces, space))
			space->ended = now;
		else if (spaces->same_pid_ns)
			alive += address_space_check(spaces, space, now);
		if (space->perf_map != UINT32_MAX)
			perf_map_watcher_poll(spaces->perf_maps, space->perf_map, !space->ended);
	}
}

static void mark_file(uint32_t segment, void *arg)
{
	if (segment >= SEGMENT_FILES)
		mapped_files_mark(arg, (segment - SEGMENT_FILES) / SEGMENTS_OF_FILE);
}

void mapping_view_mark(const struct mapping_view *view, struct mapped_files *files)
{
	for (size_t i = 0; i < view->count; i++)
		mark_file(view->mappings[i].segment, files);
}

/* Applies events that were announced before the last sample. Returns 0 or -ENOMEM. */
static int apply_noted(struct address_space *space)
{
	int err = 0;

	if (!space->history)
		return 0;
	if (space->noted_generation && mapping_history_has_pending(space->history))
		err = mapping_history_advance(space->history, space->noted_generation);
	space->noted_generation = mapping_history_latest_generation(space->history);
	return err;
}

/* Returns whether the address space was forgotten. *err: see forget_address_space_fn. */
static bool try_forget(struct address_spaces *spaces, struct address_space *space, uint64_t seen,
		       int *err)
{
	if (*err || !space->ended || seen <= space->ended || space->holds)
		return false;
	if (spaces->forget)
		*err = spaces->forget(space, spaces->forget_arg);
	if (*err)
		return false;
	address_spaces_forget(spaces, space);
	return true;
}

static void count_time_for_comparisons(struct address_spaces *spaces, uint64_t now)
{
	const uint64_t elapsed_ms = (now - spaces->compared_at) / (NS_PER_SECOND / 1000);

	if (now < spaces->compared_at || !elapsed_ms)
		return;
	/* A program may have copied its text meanwhile. */
	memset(spaces->different, 0, sizeof(spaces->different));
	if (spaces->compared_at)
		spaces->compared_pages =
			MIN(COMPARED_PAGES,
			    spaces->compared_pages + (int64_t)elapsed_ms * COMPARED_PAGES / 1000);
	spaces->compared_at = now;
}

int address_spaces_collect_garbage(struct address_spaces *spaces, uint64_t seen, uint64_t now,
				   bool check_alive)
{
	bool noted = seen >= spaces->noted_at;
	size_t kept = 0;
	int err = 0;

	count_time_for_comparisons(spaces, now);
	for (size_t i = 0; i < spaces->count; i++) {
		struct address_space *space = spaces->list[i];

		if (try_forget(spaces, space, seen, &err))
			continue;
		if (noted && !err)
			err = apply_noted(space);
		if (check_alive && space->history)
			mapping_history_each_segment(space->history, mark_file, spaces->files);
		spaces->list[kept++] = space;
	}
	spaces->count = kept;
	if (noted)
		spaces->noted_at = now;
	if (check_alive)
		check_spaces(spaces, now);
	return err;
}

/* JIT code */

void address_space_has_jit_code(struct address_space *space)
{
	struct address_spaces *spaces = space->table;

	if (space->perf_map != UINT32_MAX || !space->announced || !spaces->same_pid_ns)
		return;
	if (!spaces->perf_maps)
		spaces->perf_maps = perf_map_watcher_new(spaces->root);
	if (spaces->perf_maps)
		space->perf_map = perf_map_watcher_add(spaces->perf_maps, space->pid,
						       space->ns_pid ? space->ns_pid : space->pid,
						       space->start_time);
}

void address_spaces_finish(struct address_spaces *spaces)
{
	if (!spaces->perf_maps)
		return;
	for (size_t i = 0; i < spaces->count; i++) {
		const struct address_space *space = spaces->list[i];

		if (space->perf_map != UINT32_MAX)
			perf_map_watcher_poll(spaces->perf_maps, space->perf_map, !space->ended);
	}
	perf_map_watcher_finish(spaces->perf_maps);
}

uint32_t address_space_perf_map(const struct address_space *space)
{
	return space->perf_map == UINT32_MAX ? 0
					     : perf_map_watcher_id(space->table->perf_maps,
								   space->perf_map, !space->ended);
}

const struct mapping *address_space_mapping_of(const struct address_space *space, uint32_t segment,
					       uint64_t offset)
{
	return space->history ? mapping_history_mapping_of(space->history, segment, offset,
							   ADDRESS_MAPPINGS_MAX)
			      : NULL;
}

int address_spaces_take_perf_maps(struct address_spaces *spaces, bool forget,
				  struct perf_map_fd **maps, size_t *count)
{
	*maps = NULL;
	*count = 0;
	if (!spaces->perf_maps)
		return 0;
	return perf_map_watcher_take(spaces->perf_maps, forget, maps, count);
}

uint64_t address_spaces_anonymous_code(const struct address_spaces *spaces)
{
	return spaces->anonymous_code;
}

size_t address_spaces_bytes(const struct address_spaces *spaces)
{
	size_t bytes = spaces->slot_capacity * sizeof(*spaces->slots) +
		       (spaces->by_id.capacity + spaces->by_pid.capacity) * HASH_SLOT_SIZE +
		       spaces->capacity * sizeof(struct address_space *) +
		       spaces->count * sizeof(struct address_space);

	for (size_t i = 0; i < spaces->count; i++) {
		if (spaces->list[i]->history)
			bytes += mapping_history_bytes(spaces->list[i]->history);
		if (spaces->list[i]->unsent)
			bytes += sizeof(struct unsent_texts);
	}
	return bytes;
}

uint32_t address_space_index(const struct address_space *space)
{
	return space->index;
}

void address_spaces_counts(const struct address_spaces *spaces, struct address_space_counts *counts)
{
	*counts = spaces->counts;
	if (spaces->perf_maps)
		counts->perf_maps_dropped = perf_maps_dropped(spaces->perf_maps);
}

bool address_space_is_announced(const struct address_space *space)
{
	return space->announced;
}

uint32_t address_space_pid(const struct address_space *space)
{
	return space->pid;
}

uint32_t address_space_ns_pid(const struct address_space *space)
{
	return space->ns_pid;
}

uint32_t address_space_parent(const struct address_space *space)
{
	return space->parent;
}

uint64_t address_space_start_time(const struct address_space *space)
{
	return space->start_time;
}

const char *address_space_comm(const struct address_space *space)
{
	return space->comm;
}

const char *address_space_cgroup_path(const struct address_space *space)
{
	return space->cgroup_path ? space->cgroup_path : "";
}
