// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbol_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debuginfo/dwarf_lookup.h"
#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "lib/string_table.h"

#define MAGIC "sbname2"
#define SUFFIX ".names"
#define NO_STRING UINT32_MAX

/* A file is this header, strings with their NULs, entries, and lines. */
struct header {
	char magic[8];
	char version[24]; /* of stackbeat: other versions may symbolize differently */
	uint32_t entry_count, line_count;
	uint64_t string_size; /* bytes */
};

struct entry {
	uint64_t address;
	uint32_t first_line, line_count;
};

struct line {
	uint32_t function, system_name, file; /* offsets in the strings, or NO_STRING */
	uint32_t line, start_line, padding;
	uint64_t start;
};

struct cached_symbols {
	char *bytes; /* of the file; the pointers below point into it, and are read-only */
	const char *strings;
	const struct entry *entries; /* sorted by address */
	const struct line *lines;
	size_t entry_count, line_count, string_size;
	/* Added since. */
	struct entry *new_entries;
	struct line *new_lines;
	size_t new_entry_count, new_line_count, entry_capacity, line_capacity;
	struct string_table new_strings; /* the offsets in new_lines are indices of it */
};

/* The directory */

/*
 * Whether only this user and root can replace entries of the directory. In a sticky directory such
 * as /tmp, other users can't replace our entries or those of root.
 */
static bool is_protected(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0) &&
	       (!(st->st_mode & (S_IWGRP | S_IWOTH)) || st->st_mode & S_ISVTX);
}

/*
 * Whether is_protected() holds for all directories from / to a path, which has no symbolic links.
 * From / downwards, as each directory protects the next one.
 */
static bool is_protected_path(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	size_t end = 0;

	if (lstat("/", &st) || !is_protected(&st))
		return false;
	while (path[end]) {
		end += 1 + strcspn(path + end + 1, "/");
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		if (lstat(part, &st) || !is_protected(&st))
			return false;
	}
	return true;
}

/*
 * Writes the path, without symbolic links, of the directory `name` in `parent`, and creates the
 * directory if needed. Returns false if other users can write to it, or could replace it.
 */
static bool make_own_directory(const char *parent, const char *name, char directory[PATH_MAX])
{
	char *real = realpath(parent, NULL);
	struct stat st;
	bool fits = real &&
		    snprintf(directory, PATH_MAX, "%s/%s", real[1] ? real : "", name) < PATH_MAX;
	bool is_safe = fits && is_protected_path(real);

	free(real);
	if (!is_safe || (mkdir(directory, 0700) && errno != EEXIST))
		return false;
	return !lstat(directory, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Like make_own_directory(), for an absolute path. */
static bool make_own_path(const char *path, char directory[PATH_MAX])
{
	char *parent = strdup(path), *slash;
	bool made = false;

	if (!parent)
		return false;
	for (size_t length = strlen(parent); length > 1 && parent[length - 1] == '/';)
		parent[--length] = '\0';
	slash = strrchr(parent, '/');
	*slash = '\0';
	if (slash[1])
		made = make_own_directory(slash == parent ? "/" : parent, slash + 1, directory);
	free(parent);
	return made;
}

bool symbol_cache_directory(char directory[PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char parent[PATH_MAX];
	bool made = false;

	if (cache && *cache == '/')
		made = make_own_path(cache, parent);
	else if (home && *home == '/')
		made = make_own_directory(home, ".cache", parent);
	if (made && make_own_directory(parent, "stackbeat", directory))
		return true;
	*directory = '\0';
	return false;
}

/* Build IDs become parts of paths: only hex digits are allowed. */
static bool cache_path(const char *directory, const char *build_id, char path[PATH_MAX])
{
	return build_id_valid(build_id) &&
	       snprintf(path, PATH_MAX, "%s/%s" SUFFIX, directory, build_id) < PATH_MAX;
}

struct cached_file {
	struct timespec used;
	uint64_t size;
	char name[NAME_MAX + 1];
};

static int compare_last_use(const void *a, const void *b)
{
	const struct cached_file *left = a, *right = b;

	if (left->used.tv_sec != right->used.tv_sec)
		return left->used.tv_sec < right->used.tv_sec ? -1 : 1;
	return (left->used.tv_nsec > right->used.tv_nsec) -
	       (left->used.tv_nsec < right->used.tv_nsec);
}

static bool is_cache_file(const char *name)
{
	size_t length = strlen(name);

	return length > strlen(SUFFIX) && !strcmp(name + length - strlen(SUFFIX), SUFFIX);
}

void symbol_cache_trim(const char *directory)
{
	DIR *stream = opendir(directory);
	struct cached_file *files = NULL;
	size_t count = 0, capacity = 0;
	const struct dirent *entry;
	uint64_t total = 0;
	struct stat st;

	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		if (!is_cache_file(entry->d_name) ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    array_reserve(&files, &capacity, count, 1, sizeof(*files)))
			continue;
		files[count] = (struct cached_file){st.st_mtim, (uint64_t)st.st_size, ""};
		strcpy(files[count++].name, entry->d_name);
		total += (uint64_t)st.st_size;
	}
	if (count > 0)
		qsort(files, count, sizeof(*files), compare_last_use);
	for (size_t i = 0; i < count && total > SYMBOL_CACHE_BYTES_MAX; i++) {
		if (!unlinkat(dirfd(stream), files[i].name, 0))
			total -= files[i].size;
	}
	free(files);
	closedir(stream);
}

/* Reading */

static bool is_string(const struct cached_symbols *symbols, uint32_t offset)
{
	return offset == NO_STRING || offset < symbols->string_size;
}

static bool is_valid(const struct cached_symbols *symbols)
{
	if (symbols->string_size && symbols->strings[symbols->string_size - 1])
		return false;
	for (size_t i = 0; i < symbols->entry_count; i++) {
		const struct entry *entry = &symbols->entries[i];

		if (entry->line_count > INLINE_DEPTH_MAX ||
		    entry->first_line > symbols->line_count ||
		    entry->line_count > symbols->line_count - entry->first_line)
			return false;
		if (i && entry[-1].address >= entry->address)
			return false;
	}
	for (size_t i = 0; i < symbols->line_count; i++) {
		const struct line *line = &symbols->lines[i];

		if (!is_string(symbols, line->function) || !is_string(symbols, line->system_name) ||
		    !is_string(symbols, line->file) ||
		    (line->function == NO_STRING) != (line->system_name == NO_STRING))
			return false;
	}
	return true;
}

/* Sets the pointers into the bytes of a file. Returns false if the file is invalid. */
static bool parse_file(struct cached_symbols *symbols, size_t size)
{
	const struct header *header = (const struct header *)symbols->bytes;
	uint64_t entries, lines;

	if (size < sizeof(*header) || memcmp(header->magic, MAGIC, sizeof(header->magic)) ||
	    strncmp(header->version, STACKBEAT_VERSION, sizeof(header->version)))
		return false;
	entries = (uint64_t)header->entry_count * sizeof(struct entry);
	lines = (uint64_t)header->line_count * sizeof(struct line);
	if (header->string_size % sizeof(uint64_t) || header->string_size > size ||
	    sizeof(*header) + header->string_size + entries + lines != size)
		return false;
	symbols->strings = symbols->bytes + sizeof(*header);
	symbols->string_size = header->string_size;
	symbols->entries = (const struct entry *)(symbols->strings + symbols->string_size);
	symbols->entry_count = header->entry_count;
	symbols->lines = (const struct line *)(symbols->entries + symbols->entry_count);
	symbols->line_count = header->line_count;
	return is_valid(symbols);
}

/* Reads a whole file into symbols->bytes, and marks the file as used now. */
static bool read_file(struct cached_symbols *symbols, const char *path, size_t *size)
{
	struct stat st;
	ssize_t got = -1;
	int fd = open_regular_file(path, O_NOFOLLOW, &st);

	if (fd < 0)
		return false;
	*size = (size_t)st.st_size;
	if ((uint64_t)st.st_size <= SYMBOL_CACHE_FILE_MAX)
		symbols->bytes = malloc(*size + 1);
	if (symbols->bytes)
		got = read(fd, symbols->bytes, *size);
	futimens(fd, NULL);
	close(fd);
	return symbols->bytes && got == (ssize_t)*size;
}

struct cached_symbols *symbol_cache_read(const char *directory, const char *build_id)
{
	struct cached_symbols *symbols = calloc(1, sizeof(*symbols));
	char path[PATH_MAX];
	size_t size = 0;

	if (!symbols || !cache_path(directory, build_id, path))
		return symbols;
	if (read_file(symbols, path, &size) && parse_file(symbols, size))
		return symbols;
	free(symbols->bytes);
	*symbols = (struct cached_symbols){0};
	return symbols;
}

void cached_symbols_free(struct cached_symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->bytes);
	free(symbols->new_entries);
	free(symbols->new_lines);
	string_table_clear(&symbols->new_strings);
	free(symbols);
}

static const char *string_at(const struct cached_symbols *symbols, uint32_t offset)
{
	return offset == NO_STRING ? NULL : symbols->strings + offset;
}

bool cached_symbols_find(const struct cached_symbols *symbols, uint64_t address,
			 struct source_line *lines, size_t *count)
{
	size_t low = 0, high = symbols->entry_count;
	const struct entry *entry;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symbols->entries[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	entry = &symbols->entries[low];
	if (low == symbols->entry_count || entry->address != address)
		return false;
	*count = entry->line_count;
	for (size_t i = 0; i < *count; i++) {
		const struct line *line = &symbols->lines[entry->first_line + i];

		lines[i] = (struct source_line){
			.function = string_at(symbols, line->function),
			.system_name = string_at(symbols, line->system_name),
			.file = string_at(symbols, line->file),
			.line = line->line,
			.start_line = line->start_line,
			.start = line->start,
		};
	}
	return true;
}

/* Adding */

static bool add_string(struct cached_symbols *symbols, const char *text, uint32_t *number)
{
	*number = text ? string_table_add(&symbols->new_strings, text, strlen(text)) : NO_STRING;
	return !text || *number != STRING_NONE;
}

int cached_symbols_add(struct cached_symbols *symbols, uint64_t address,
		       const struct source_line *lines, size_t count)
{
	if (array_reserve(&symbols->new_entries, &symbols->entry_capacity, symbols->new_entry_count,
			  1, sizeof(struct entry)) ||
	    array_reserve(&symbols->new_lines, &symbols->line_capacity, symbols->new_line_count,
			  count, sizeof(struct line)))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct line *line = &symbols->new_lines[symbols->new_line_count + i];

		*line = (struct line){
			.line = lines[i].line,
			.start_line = lines[i].start_line,
			.start = lines[i].start,
		};
		if (!add_string(symbols, lines[i].function, &line->function) ||
		    !add_string(symbols, lines[i].system_name, &line->system_name) ||
		    !add_string(symbols, lines[i].file, &line->file))
			return -ENOMEM;
	}
	symbols->new_entries[symbols->new_entry_count++] = (struct entry){
		.address = address,
		.first_line = (uint32_t)symbols->new_line_count,
		.line_count = (uint32_t)count,
	};
	symbols->new_line_count += count;
	return 0;
}

/* Writing */

/* The contents of the new file: strings of the old file first, then the added ones. */
struct image {
	uint32_t *offsets; /* of added strings */
	size_t string_size;
	struct entry *entries;
	struct line *lines;
	size_t entry_count, line_count;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static uint32_t string_offset(const struct image *image, uint32_t number)
{
	return number == NO_STRING ? NO_STRING : image->offsets[number];
}

/* Removes entries of an address that was added twice. */
static void remove_duplicates(struct image *image)
{
	size_t kept = 0;

	for (size_t i = 0; i < image->entry_count; i++) {
		if (!kept || image->entries[kept - 1].address != image->entries[i].address)
			image->entries[kept++] = image->entries[i];
	}
	image->entry_count = kept;
}

static bool make_image(const struct cached_symbols *symbols, struct image *image)
{
	image->entry_count = symbols->entry_count + symbols->new_entry_count;
	image->line_count = symbols->line_count + symbols->new_line_count;
	image->offsets = calloc(symbols->new_strings.count + 1, sizeof(uint32_t));
	image->entries = calloc(image->entry_count + 1, sizeof(struct entry));
	image->lines = calloc(image->line_count + 1, sizeof(struct line));
	if (!image->offsets || !image->entries || !image->lines)
		return false;
	image->string_size = symbols->string_size;
	for (size_t i = 0; i < symbols->new_strings.count; i++) {
		image->offsets[i] = (uint32_t)image->string_size;
		image->string_size += strlen(symbols->new_strings.items[i]) + 1;
		if (image->string_size > SYMBOL_CACHE_FILE_MAX)
			return false;
	}
	if (symbols->entry_count)
		memcpy(image->entries, symbols->entries,
		       symbols->entry_count * sizeof(struct entry));
	if (symbols->line_count)
		memcpy(image->lines, symbols->lines, symbols->line_count * sizeof(struct line));
	for (size_t i = 0; i < symbols->new_entry_count; i++) {
		image->entries[symbols->entry_count + i] = symbols->new_entries[i];
		image->entries[symbols->entry_count + i].first_line +=
			(uint32_t)symbols->line_count;
	}
	for (size_t i = 0; i < symbols->new_line_count; i++) {
		struct line *line = &image->lines[symbols->line_count + i];

		*line = symbols->new_lines[i];
		line->function = string_offset(image, line->function);
		line->system_name = string_offset(image, line->system_name);
		line->file = string_offset(image, line->file);
	}
	qsort(image->entries, image->entry_count, sizeof(struct entry), compare_entries);
	remove_duplicates(image);
	return true;
}

static int write_strings(struct atomic_file *file, const struct cached_symbols *symbols,
			 size_t padding)
{
	static const char zeros[sizeof(uint64_t)];
	int err = atomic_file_write(file, symbols->strings, symbols->string_size, NULL);

	for (size_t i = 0; i < symbols->new_strings.count && !err; i++)
		err = atomic_file_write(file, symbols->new_strings.items[i],
					strlen(symbols->new_strings.items[i]) + 1, NULL);
	return err ? err : atomic_file_write(file, zeros, padding, NULL);
}

static int write_image(struct atomic_file *file, const struct cached_symbols *symbols,
		       const struct image *image)
{
	size_t padding = -image->string_size % sizeof(uint64_t);
	struct header header = {
		.magic = MAGIC,
		.version = STACKBEAT_VERSION,
		.entry_count = (uint32_t)image->entry_count,
		.line_count = (uint32_t)image->line_count,
		.string_size = image->string_size + padding,
	};
	int err = atomic_file_write(file, &header, sizeof(header), NULL);

	if (!err)
		err = write_strings(file, symbols, padding);
	if (!err)
		err = atomic_file_write(file, image->entries,
					image->entry_count * sizeof(struct entry), NULL);
	return err ? err
		   : atomic_file_write(file, image->lines, image->line_count * sizeof(struct line),
				       NULL);
}

void symbol_cache_write(const char *directory, const char *build_id,
			const struct cached_symbols *symbols)
{
	struct image image = {0};
	char path[PATH_MAX];
	struct atomic_file file;

	if (!symbols->new_entry_count || !cache_path(directory, build_id, path))
		return;
	if (make_image(symbols, &image) &&
	    image.string_size + image.entry_count * sizeof(struct entry) +
			    image.line_count * sizeof(struct line) <
		    SYMBOL_CACHE_FILE_MAX - sizeof(struct header) - sizeof(uint64_t) &&
	    atomic_file_create(&file, path, NULL) == 0) {
		file.transient = true;
		if (write_image(&file, symbols, &image) == 0)
			atomic_file_commit(&file, NULL);
		else
			atomic_file_discard(&file);
	}
	free(image.offsets);
	free(image.entries);
	free(image.lines);
}
