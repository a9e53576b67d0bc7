// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "lib/upper_bound.h"

#define MODULES_MAX UINT16_MAX
#define NO_NAME UINT32_MAX
#define PADDING sizeof(uint64_t)
/* Of modules, the lowest that a kernel gives them. */
#define MODULES_START UINT64_C(0xffffffffa0000000)
#define PAGE UINT64_C(4096)
#define LOCK_TRIES 20
#define LOCK_PAUSE_MS 50

/*
 * An address with its best symbol. An entry that is not a function (data, section boundary) has no
 * name and only ends the function before it.
 */
struct kallsyms_entry {
	uint64_t address;
	uint32_t name; /* offset in names, or NO_NAME */
	uint16_t module; /* 1 + index in modules; 0: the kernel */
	uint16_t rank; /* among symbols at an address, the lowest wins */
};

struct kallsyms {
	struct kallsyms_entry *entries; /* sorted by address, one per address */
	size_t count, capacity;
	char *names;
	size_t names_size, names_capacity;
	struct string_table modules;
	bool hidden; /* the file has an address of 0 */
	void *bytes; /* owned, with entries and names; NULL: these are owned */
};

struct line {
	uint64_t address;
	char type;
	const char *name;
	const char *module; /* NULL: the kernel */
};

static bool kallsyms_has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool has_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), suffix_length = strlen(suffix);

	return length >= suffix_length && !strcmp(text + length - suffix_length, suffix);
}

/* Returns whether the linker script defines the symbol as a section boundary. */
static bool is_section_boundary(const char *name)
{
	static const char *const borders[] = {"_text", "_stext", "_etext", "_sinittext",
					      "_einittext"};

	for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
		if (!strcmp(name, borders[i]))
			return true;
	}
	return kallsyms_has_prefix(name, "__") &&
	       (has_suffix(name, "_text_start") || has_suffix(name, "_text_end"));
}

/* Returns the end of an address of up to 16 digits, or NULL. There are a hundred thousand of them.
 */
static char *parse_address(char *text, uint64_t *address)
{
	const char *const start = text;
	unsigned int digit;

	for (*address = 0; text - start <= 16; text++) {
		if (*text >= '0' && *text <= '9')
			digit = (unsigned int)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			digit = (unsigned int)(*text - 'a') + 10;
		else
			return text > start ? text : NULL;
		*address = *address << 4 | digit;
	}
	return NULL;
}

/* Parses "ADDRESS TYPE NAME[\t[MODULE]]". The strings in *line point into `text`. */
static bool kallsyms_parse_line(char *text, struct line *line)
{
	char *end, *module;

	text[strcspn(text, "\n")] = '\0';
	end = parse_address(text, &line->address);
	if (!end || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
		return false;
	line->type = end[1];
	line->name = end + 3;
	line->module = NULL;
	module = strpbrk(end + 3, "\t ");
	if (module) {
		*module++ = '\0';
		module += strspn(module, "\t [");
		module[strcspn(module, "]")] = '\0';
		line->module = *module ? module : NULL;
	}
	return line->name[0] != '\0';
}

/* module_init(f) also names f init_module, module_exit(f) cleanup_module (linux/module.h). */
static bool is_name_of_every_module(const struct line *line)
{
	return line->module &&
	       (!strcmp(line->name, "init_module") || !strcmp(line->name, "cleanup_module"));
}

static uint16_t line_rank(const struct line *line)
{
	uint16_t rank = 2;

	if (is_name_of_every_module(line))
		rank = 3;
	else if (line->type == 'T')
		rank = 0;
	else if (line->type == 'W' || line->type == 'w')
		rank = 1;
	if (kallsyms_has_prefix(line->name, "__pfx_") || kallsyms_has_prefix(line->name, "__cfi_"))
		rank += 4;
	return rank;
}

static int kallsyms_add_name(struct kallsyms *kallsyms, const char *name, uint32_t *offset)
{
	size_t size = strlen(name) + 1;

	if (size > NO_NAME - 1 - kallsyms->names_size ||
	    array_reserve(&kallsyms->names, &kallsyms->names_capacity, kallsyms->names_size, size,
			  1) != 0)
		return -ENOMEM;
	memcpy(kallsyms->names + kallsyms->names_size, name, size);
	*offset = (uint32_t)kallsyms->names_size;
	kallsyms->names_size += size;
	return 0;
}

static int kallsyms_find_module(struct kallsyms *kallsyms, const char *name, uint16_t *module)
{
	uint32_t index;

	*module = 0;
	if (!name)
		return 0;
	index = string_table_add(&kallsyms->modules, name, strlen(name));
	if (index >= MODULES_MAX) /* STRING_NONE, too */
		return -ENOMEM;
	*module = (uint16_t)(index + 1);
	return 0;
}

static int kallsyms_add_entry(struct kallsyms *kallsyms, const struct line *line)
{
	struct kallsyms_entry entry = {
		.address = line->address, .name = NO_NAME, .rank = UINT16_MAX};

	if (array_reserve(&kallsyms->entries, &kallsyms->capacity, kallsyms->count, 1,
			  sizeof(entry)) != 0)
		return -ENOMEM;
	if (strchr("tTwW", line->type) && !is_section_boundary(line->name)) {
		entry.rank = line_rank(line);
		if (kallsyms_find_module(kallsyms, line->module, &entry.module) != 0 ||
		    kallsyms_add_name(kallsyms, line->name, &entry.name) != 0)
			return -ENOMEM;
	}
	kallsyms->entries[kallsyms->count++] = entry;
	return 0;
}

/* Other values are offsets of per-CPU data, or hidden addresses. */
static bool is_kernel_address(uint64_t address)
{
	return address >> 63;
}

static int kallsyms_read_lines(struct kallsyms *kallsyms, FILE *stream)
{
	struct line line;
	size_t capacity = 0;
	char *text = NULL;
	int err = 0;

	errno = 0;
	while (!err && getline(&text, &capacity, stream) > 0) {
		if (!kallsyms_parse_line(text, &line))
			continue;
		kallsyms->hidden |= line.address == 0;
		if (is_kernel_address(line.address))
			err = kallsyms_add_entry(kallsyms, &line);
	}
	free(text);
	if (!err && ferror(stream))
		err = errno ? -errno : -EIO;
	return err;
}

/* Orders by address, then rank, then name, for a deterministic result. */
static int kallsyms_compare_entries(const void *a, const void *b, void *names)
{
	const struct kallsyms_entry *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	if (left->name == NO_NAME || right->name == NO_NAME)
		return 0;
	return strcmp((char *)names + left->name, (char *)names + right->name);
}

/* Returns the number of entries at the start whose addresses ascend: in general the kernel's own.
 */
static size_t count_ascending(const struct kallsyms_entry *entries, size_t count)
{
	size_t ascending = 1;

	while (ascending < count && entries[ascending].address >= entries[ascending - 1].address)
		ascending++;
	return ascending;
}

/* Moves `first` entries and those after them, each in the order of addresses, to `merged`. */
static void merge_entries(const struct kallsyms_entry *entries, size_t first, size_t count,
			  struct kallsyms_entry *merged)
{
	size_t left = 0, right = first;

	while (left < first && right < count) {
		const bool is_left = entries[left].address <= entries[right].address;

		*merged++ = entries[is_left ? left++ : right++];
	}
	memcpy(merged, entries + left, (first - left) * sizeof(*entries));
	memcpy(merged + (first - left), entries + right, (count - right) * sizeof(*entries));
}

/* Keeps the best entry of each address. */
static void kallsyms_merge_aliases(struct kallsyms *kallsyms)
{
	struct kallsyms_entry *entries = kallsyms->entries, *kept = entries;

	for (size_t i = 1; i < kallsyms->count; i++) {
		if (entries[i].address != kept->address)
			*++kept = entries[i];
		else if (kallsyms_compare_entries(&entries[i], kept, kallsyms->names) < 0)
			*kept = entries[i];
	}
	kallsyms->count = (size_t)(kept - entries) + 1;
}

static void sort_entries(struct kallsyms *kallsyms)
{
	const size_t count = kallsyms->count;
	struct kallsyms_entry *entries = kallsyms->entries, *merged = NULL;
	size_t ascending;

	if (!entries)
		return;
	ascending = count_ascending(entries, count);
	if (ascending < count)
		merged = calloc(count, sizeof(*merged));
	/* Without memory, all are sorted in place. */
	if (ascending < count && !merged)
		ascending = 0;
	qsort_r(entries + ascending, count - ascending, sizeof(*entries), kallsyms_compare_entries,
		kallsyms->names);
	if (merged) {
		merge_entries(entries, ascending, count, merged);
		free(entries);
		kallsyms->entries = merged;
		kallsyms->capacity = count;
	}
	kallsyms_merge_aliases(kallsyms);
}

/* Pads the names for kallsyms_pack(). */
static int pad_names(struct kallsyms *kallsyms)
{
	const size_t more = roundup(kallsyms->names_size, PADDING) - kallsyms->names_size;

	if (array_reserve(&kallsyms->names, &kallsyms->names_capacity, kallsyms->names_size, more,
			  1))
		return -ENOMEM;
	memset(kallsyms->names + kallsyms->names_size, 0, more);
	kallsyms->names_size += more;
	return 0;
}

static int check_result(const struct kallsyms *kallsyms, int err, const char *name,
			struct error *error)
{
	if (err)
		return error_errno(error, -err, "can't read kernel symbols from %s", name);
	if (kallsyms->count == 0 && kallsyms->hidden)
		return error_set(
			error, EPERM,
			"the kernel hides the addresses of its symbols in %s: run as root, "
			"and set /proc/sys/kernel/kptr_restrict to 0 or 1",
			name);
	if (kallsyms->names_size == 0)
		return error_set(error, ENODATA, "%s has no kernel functions", name);
	return 0;
}

int kallsyms_parse(FILE *stream, const char *name, struct kallsyms **kallsyms, struct error *error)
{
	struct kallsyms *table = calloc(1, sizeof(*table));
	int err;

	if (!table)
		return error_errno(error, ENOMEM, "can't read kernel symbols from %s", name);
	err = kallsyms_read_lines(table, stream);
	if (!err && table->names_size)
		err = pad_names(table);
	err = check_result(table, err, name, error);
	if (err) {
		kallsyms_free(table);
		return err;
	}
	sort_entries(table);
	*kallsyms = table;
	return 0;
}

/* Standard input, read at an offset of its own, as processes share the position of it. */
struct kallsyms_input {
	off_t offset;
	bool has_turn; /* of the processes that share it */
	int lock; /* -1: none */
};

/* The processes of kallsyms_share_input(), in turn; NULL: there are none. */
static pthread_mutex_t *input_turn;

int kallsyms_share_input(void)
{
	pthread_mutexattr_t attributes;
	void *memory;

	if (input_turn)
		return 0;
	memory = mmap(NULL, sizeof(pthread_mutex_t), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	input_turn = memory;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(input_turn, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return 0;
}

/* Waits as long as others read. Returns whether there is anything to end. */
static bool begin_input_turn(void)
{
	/* The one before may have been killed. */
	if (input_turn && pthread_mutex_lock(input_turn) == EOWNERDEAD)
		pthread_mutex_consistent(input_turn);
	return input_turn;
}

static ssize_t kallsyms_input_read(void *cookie, char *bytes, size_t size)
{
	struct kallsyms_input *input = cookie;
	ssize_t got = pread(STDIN_FILENO, bytes, size, input->offset);

	if (got > 0)
		input->offset += got;
	return got;
}

static int kallsyms_input_close(void *cookie)
{
	struct kallsyms_input *input = cookie;

	if (input->lock >= 0)
		close(input->lock);
	if (input->has_turn)
		pthread_mutex_unlock(input_turn);
	free(input);
	return 0;
}

/*
 * Returns a file that is locked as long as it is open, or -1. The kernel reads from the beginning
 * again for each read that does not follow the previous one, so two readers at a time would take
 * minutes. Other users can hold the lock, too, so that a reader does not wait for it for long: this
 * is for processes that do not take turns.
 */
static int lock_input(void)
{
	int fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB); i++)
		poll(NULL, 0, LOCK_PAUSE_MS);
	return fd;
}

/* The kernel decides by the rights of the process that has opened it what it shows. */
static FILE *kallsyms_open_input(void)
{
	static const cookie_io_functions_t functions = {
		.read = kallsyms_input_read,
		.close = kallsyms_input_close,
	};
	struct kallsyms_input *input = calloc(1, sizeof(*input));
	FILE *stream;

	if (!input)
		return NULL;
	input->has_turn = begin_input_turn();
	input->lock = lock_input();
	stream = fopencookie(input, "r", functions);
	if (!stream)
		kallsyms_input_close(input);
	return stream;
}

/*
 * ProtectKernelTunables= of systemd lays an empty file over KALLSYMS_PATH. The unit passes the true
 * file as standard input.
 */
static FILE *kallsyms_open(const char *path)
{
	FILE *stream = fopen(path, "re");
	struct stat st;
	struct statfs fs;
	int first = stream ? getc(stream) : EOF;

	if (first != EOF) {
		ungetc(first, stream);
	} else if (!strcmp(path, KALLSYMS_PATH) && !fstat(STDIN_FILENO, &st) &&
		   S_ISREG(st.st_mode) && !fstatfs(STDIN_FILENO, &fs) &&
		   fs.f_type == PROC_SUPER_MAGIC) {
		if (stream)
			fclose(stream);
		return kallsyms_open_input();
	}
	return stream;
}

int kallsyms_read(const char *path, struct kallsyms **kallsyms, struct error *error)
{
	FILE *stream = kallsyms_open(path);
	int err;

	if (!stream)
		return error_errno(error, errno, "can't read kernel symbols from %s", path);
	err = kallsyms_parse(stream, path, kallsyms, error);
	fclose(stream);
	return err;
}

void kallsyms_free(struct kallsyms *kallsyms)
{
	if (!kallsyms)
		return;
	string_table_clear(&kallsyms->modules);
	if (!kallsyms->bytes) {
		free(kallsyms->entries);
		free(kallsyms->names);
	}
	free(kallsyms->bytes);
	free(kallsyms);
}

/* Packed tables */

int kallsyms_pack(const struct kallsyms *kallsyms, struct kallsyms_packed *packed,
		  struct iovec parts[KALLSYMS_PARTS], char **modules)
{
	const struct string_table *names = &kallsyms->modules;
	size_t size = 0;
	char *next;

	for (size_t i = 0; i < names->count; i++)
		size += strlen(names->items[i]) + 1;
	size = roundup(size, PADDING);
	*modules = next = calloc(size + 1, 1);
	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++)
		next = stpcpy(next, names->items[i]) + 1;
	*packed = (struct kallsyms_packed){
		.count = kallsyms->count,
		.names_size = kallsyms->names_size,
		.modules_size = size,
		.module_count = names->count,
	};
	parts[0] =
		(struct iovec){kallsyms->entries, kallsyms->count * sizeof(struct kallsyms_entry)};
	parts[1] = (struct iovec){kallsyms->names, kallsyms->names_size};
	parts[2] = (struct iovec){*modules, size};
	return 0;
}

static bool are_entries_valid(const struct kallsyms *kallsyms, uint64_t module_count)
{
	const struct kallsyms_entry *entries = kallsyms->entries;

	for (size_t i = 0; i < kallsyms->count; i++) {
		if ((entries[i].name != NO_NAME && entries[i].name >= kallsyms->names_size) ||
		    entries[i].module > module_count ||
		    (i && entries[i].address <= entries[i - 1].address))
			return false;
	}
	return true;
}

static bool unpack_modules(struct kallsyms *kallsyms, const char *names, size_t size,
			   uint64_t count)
{
	const char *const end = names + size;

	if (count > MODULES_MAX || (count && !size) || (size && end[-1]))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		if (names >= end || string_table_add(&kallsyms->modules, names, strlen(names)) != i)
			return false;
		names += strlen(names) + 1;
	}
	return true;
}

struct kallsyms *kallsyms_unpack(const struct kallsyms_packed *packed, void *bytes, size_t size)
{
	const uint64_t count = packed->count, names = packed->names_size;
	struct kallsyms *table;
	size_t rest;

	if (!count || count > size / sizeof(struct kallsyms_entry))
		return NULL;
	rest = size - count * sizeof(struct kallsyms_entry);
	if (!names || names > rest || packed->modules_size > rest - names)
		return NULL;
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->bytes = bytes;
	table->entries = bytes;
	table->count = count;
	table->names = (char *)bytes + count * sizeof(struct kallsyms_entry);
	table->names_size = names;
	if (!table->names[names - 1] &&
	    unpack_modules(table, table->names + names, packed->modules_size,
			   packed->module_count) &&
	    are_entries_valid(table, packed->module_count))
		return table;
	table->bytes = NULL;
	table->entries = NULL;
	table->names = NULL;
	kallsyms_free(table);
	return NULL;
}

/* Returns the size of the function of entry `index` in bytes. */
static uint64_t function_size(const struct kallsyms *kallsyms, size_t index)
{
	const struct kallsyms_entry *entry = &kallsyms->entries[index], *next = entry + 1;
	uint64_t limit = KALLSYMS_LAST_FUNCTION_MAX;

	if (index + 1 == kallsyms->count)
		return limit;
	if (next->name != NO_NAME && next->module == entry->module)
		limit = KALLSYMS_FUNCTION_MAX;
	return next->address - entry->address < limit ? next->address - entry->address : limit;
}

static const char *kallsyms_module_of(const struct kallsyms *kallsyms,
				      const struct kallsyms_entry *entry)
{
	return entry->module ? kallsyms->modules.items[entry->module - 1] : NULL;
}

int kallsyms_each_function(const struct kallsyms *kallsyms, kallsyms_function_fn *fn, void *arg)
{
	int err = 0;

	for (size_t i = 0; i < kallsyms->count && !err; i++) {
		const struct kallsyms_entry *entry = &kallsyms->entries[i];

		if (entry->name != NO_NAME)
			err = fn(arg, &(struct kallsyms_function){
					      .name = kallsyms->names + entry->name,
					      .module = kallsyms_module_of(kallsyms, entry),
					      .start = entry->address,
					      .size = function_size(kallsyms, i),
				      });
	}
	return err;
}

int kallsyms_each_module(const struct kallsyms *kallsyms, kallsyms_module_fn *fn, void *arg)
{
	const struct kallsyms_entry *entries = kallsyms->entries;
	size_t i = upper_bound(entries, kallsyms->count, sizeof(*entries), MODULES_START - 1);
	uint16_t module = 0;
	int err = 0;

	for (; i < kallsyms->count && !err; i++) {
		if (entries[i].name == NO_NAME || entries[i].module == module)
			continue;
		module = entries[i].module;
		if (module)
			err = fn(arg, kallsyms_module_of(kallsyms, &entries[i]),
				 entries[i].address & ~(PAGE - 1));
	}
	return err;
}

bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **name,
		     uint64_t *start, const char **module)
{
	size_t after = upper_bound(kallsyms->entries, kallsyms->count, sizeof(*kallsyms->entries),
				   address);
	const struct kallsyms_entry *entry;

	if (after == 0)
		return false;
	entry = &kallsyms->entries[after - 1];
	if (entry->name == NO_NAME ||
	    address - entry->address >= function_size(kallsyms, after - 1))
		return false;
	*name = kallsyms->names + entry->name;
	*start = entry->address;
	*module = kallsyms_module_of(kallsyms, entry);
	return true;
}

bool kallsyms_is_bounded(const struct kallsyms *kallsyms, uint64_t address)
{
	size_t after = upper_bound(kallsyms->entries, kallsyms->count, sizeof(*kallsyms->entries),
				   address);
	const struct kallsyms_entry *entry = kallsyms->entries + after;

	return after && after < kallsyms->count && entry[-1].name != NO_NAME &&
	       entry->name != NO_NAME && entry->module == entry[-1].module;
}

bool kallsyms_text(const char *path, uint64_t *address)
{
	FILE *stream = kallsyms_open(path);
	struct line line;
	size_t capacity = 0;
	bool found = false;
	char *text = NULL;

	if (!stream)
		return false;
	while (!found && getline(&text, &capacity, stream) > 0) {
		if (!kallsyms_parse_line(text, &line))
			continue;
		found = !strcmp(line.name, "_text");
		if (found)
			*address = line.address;
	}
	free(text);
	fclose(stream);
	return found && is_kernel_address(*address);
}

int kernel_build_id(const char *path, char hex[BUILD_ID_SIZE], struct error *error)
{
	char notes[4096];
	FILE *stream;
	size_t count;

	hex[0] = '\0';
	stream = fopen(path, "re");
	if (!stream)
		return error_errno(error, errno, "can't read the build ID from %s", path);
	count = fread(notes, 1, sizeof(notes), stream);
	fclose(stream);
	if (!build_id_from_notes(notes, count, 4, hex))
		return error_set(error, ENODATA, "%s has no build ID", path);
	return 0;
}
