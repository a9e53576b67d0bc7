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
#define NO_TEXT UINT32_MAX

/* A file: this, then texts with their NULs, then entries, then lines. */
struct header {
	char magic[8];
	char version[24]; /* of stackbeat: another one may name otherwise */
	uint32_t entry_count, line_count;
	uint64_t text_size; /* bytes */
};

struct entry {
	uint64_t address;
	uint32_t first_line, line_count;
};

struct line {
	uint32_t function, system_name, file; /* offsets in the texts, or NO_TEXT */
	uint32_t line, start_line, padding;
	uint64_t start;
};

struct cached_symbols {
	char *bytes; /* of the file; the next ones point into it, and are not changed */
	const char *text;
	const struct entry *entries; /* by address */
	const struct line *lines;
	size_t entry_count, line_count, text_size;
	/* What was added. */
	struct entry *new_entries;
	struct line *new_lines;
	size_t new_entry_count, new_line_count, entry_capacity, line_capacity;
	struct string_table texts; /* offsets of these are numbers of theirs */
};

/* The directory */

/*
 * Whether only this user and root can change what the directory holds. In one like /tmp nobody can
 * put another thing in the place of what is ours or root's.
 */
static bool is_trusted(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0) &&
	       (!(st->st_mode & (S_IWGRP | S_IWOTH)) || st->st_mode & S_ISVTX);
}

/* The same of all directories from / to a path, which has no links. Downwards: each holds the next.
 */
static bool is_trusted_path(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	size_t end = 0;

	if (lstat("/", &st) || !is_trusted(&st))
		return false;
	while (path[end]) {
		end += 1 + strcspn(path + end + 1, "/");
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		if (lstat(part, &st) || !is_trusted(&st))
			return false;
	}
	return true;
}

/*
 * Writes the path, without links, of a directory in another one, and makes it if need be. False
 * where it is not this user's alone, or somebody else could put another one in its place.
 */
static bool make_own_directory(const char *parent, const char *name, char directory[PATH_MAX])
{
	char *real = realpath(parent, NULL);
	struct stat st;
	bool fits = real &&
		    snprintf(directory, PATH_MAX, "%s/%s", real[1] ? real : "", name) < PATH_MAX;
	bool trusted = fits && is_trusted_path(real);

	free(real);
	if (!trusted || (mkdir(directory, 0700) && errno != EEXIST))
		return false;
	return !lstat(directory, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* As make_own_directory(), of a path that begins with '/'. */
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

/* Build ids become parts of paths. */
static bool path_of(const char *directory, const char *build_id, char path[PATH_MAX])
{
	return build_id_valid(build_id) &&
	       snprintf(path, PATH_MAX, "%s/%s" SUFFIX, directory, build_id) < PATH_MAX;
}

struct cached_file {
	struct timespec used;
	uint64_t size;
	char name[NAME_MAX + 1];
};

static int compare_use(const void *a, const void *b)
{
	const struct cached_file *left = a, *right = b;

	if (left->used.tv_sec != right->used.tv_sec)
		return left->used.tv_sec < right->used.tv_sec ? -1 : 1;
	return (left->used.tv_nsec > right->used.tv_nsec) -
	       (left->used.tv_nsec < right->used.tv_nsec);
}

static bool is_names(const char *name)
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
		if (!is_names(entry->d_name) ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    array_reserve(&files, &capacity, count, 1, sizeof(*files)))
			continue;
		files[count] = (struct cached_file){st.st_mtim, (uint64_t)st.st_size, ""};
		strcpy(files[count++].name, entry->d_name);
		total += (uint64_t)st.st_size;
	}
	if (count > 0)
		qsort(files, count, sizeof(*files), compare_use);
	for (size_t i = 0; i < count && total > SYMBOL_CACHE_BYTES_MAX; i++) {
		if (!unlinkat(dirfd(stream), files[i].name, 0))
			total -= files[i].size;
	}
	free(files);
	closedir(stream);
}

/* Reading */

static bool is_text(const struct cached_symbols *names, uint32_t offset)
{
	return offset == NO_TEXT || offset < names->text_size;
}

static bool are_sound(const struct cached_symbols *names)
{
	if (names->text_size && names->text[names->text_size - 1])
		return false;
	for (size_t i = 0; i < names->entry_count; i++) {
		const struct entry *entry = &names->entries[i];

		if (entry->line_count > INLINE_DEPTH_MAX || entry->first_line > names->line_count ||
		    entry->line_count > names->line_count - entry->first_line)
			return false;
		if (i && entry[-1].address >= entry->address)
			return false;
	}
	for (size_t i = 0; i < names->line_count; i++) {
		const struct line *line = &names->lines[i];

		if (!is_text(names, line->function) || !is_text(names, line->system_name) ||
		    !is_text(names, line->file) ||
		    (line->function == NO_TEXT) != (line->system_name == NO_TEXT))
			return false;
	}
	return true;
}

/* Lets the names point into the bytes. False: they are no such file. */
static bool lay_out(struct cached_symbols *names, size_t size)
{
	const struct header *header = (const struct header *)names->bytes;
	uint64_t entries, lines;

	if (size < sizeof(*header) || memcmp(header->magic, MAGIC, sizeof(header->magic)) != 0 ||
	    strncmp(header->version, STACKBEAT_VERSION, sizeof(header->version)) != 0)
		return false;
	entries = (uint64_t)header->entry_count * sizeof(struct entry);
	lines = (uint64_t)header->line_count * sizeof(struct line);
	if (header->text_size % sizeof(uint64_t) || header->text_size > size ||
	    sizeof(*header) + header->text_size + entries + lines != size)
		return false;
	names->text = names->bytes + sizeof(*header);
	names->text_size = header->text_size;
	names->entries = (const struct entry *)(names->text + names->text_size);
	names->entry_count = header->entry_count;
	names->lines = (const struct line *)(names->entries + names->entry_count);
	names->line_count = header->line_count;
	return are_sound(names);
}

/* Reads a whole file into names->bytes. */
static bool read_bytes(struct cached_symbols *names, const char *path, size_t *size)
{
	struct stat st;
	ssize_t got = -1;
	int fd = open_regular_file(path, O_NOFOLLOW, &st);

	if (fd < 0)
		return false;
	*size = (size_t)st.st_size;
	if ((uint64_t)st.st_size <= SYMBOL_CACHE_FILE_MAX)
		names->bytes = malloc(*size + 1);
	if (names->bytes)
		got = read(fd, names->bytes, *size);
	/* It was of use now. */
	futimens(fd, NULL);
	close(fd);
	return names->bytes && got == (ssize_t)*size;
}

struct cached_symbols *symbol_cache_read(const char *directory, const char *build_id)
{
	struct cached_symbols *names = calloc(1, sizeof(*names));
	char path[PATH_MAX];
	size_t size = 0;

	if (!names || !path_of(directory, build_id, path))
		return names;
	if (read_bytes(names, path, &size) && lay_out(names, size))
		return names;
	free(names->bytes);
	*names = (struct cached_symbols){0};
	return names;
}

void cached_symbols_free(struct cached_symbols *names)
{
	if (!names)
		return;
	free(names->bytes);
	free(names->new_entries);
	free(names->new_lines);
	string_table_clear(&names->texts);
	free(names);
}

static const char *text_at(const struct cached_symbols *names, uint32_t offset)
{
	return offset == NO_TEXT ? NULL : names->text + offset;
}

bool cached_symbols_find(const struct cached_symbols *names, uint64_t address,
			 struct source_line *lines, size_t *count)
{
	size_t low = 0, high = names->entry_count;
	const struct entry *entry;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (names->entries[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	entry = &names->entries[low];
	if (low == names->entry_count || entry->address != address)
		return false;
	*count = entry->line_count;
	for (size_t i = 0; i < *count; i++) {
		const struct line *line = &names->lines[entry->first_line + i];

		lines[i] = (struct source_line){
			.function = text_at(names, line->function),
			.system_name = text_at(names, line->system_name),
			.file = text_at(names, line->file),
			.line = line->line,
			.start_line = line->start_line,
			.start = line->start,
		};
	}
	return true;
}

/* Adding */

static bool add_text(struct cached_symbols *names, const char *text, uint32_t *number)
{
	*number = text ? string_table_add(&names->texts, text, strlen(text)) : NO_TEXT;
	return !text || *number != STRING_NONE;
}

int cached_symbols_add(struct cached_symbols *names, uint64_t address,
		       const struct source_line *lines, size_t count)
{
	if (array_reserve(&names->new_entries, &names->entry_capacity, names->new_entry_count, 1,
			  sizeof(struct entry)) ||
	    array_reserve(&names->new_lines, &names->line_capacity, names->new_line_count, count,
			  sizeof(struct line)))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct line *line = &names->new_lines[names->new_line_count + i];

		*line = (struct line){
			.line = lines[i].line,
			.start_line = lines[i].start_line,
			.start = lines[i].start,
		};
		if (!add_text(names, lines[i].function, &line->function) ||
		    !add_text(names, lines[i].system_name, &line->system_name) ||
		    !add_text(names, lines[i].file, &line->file))
			return -ENOMEM;
	}
	names->new_entries[names->new_entry_count++] = (struct entry){
		.address = address,
		.first_line = (uint32_t)names->new_line_count,
		.line_count = (uint32_t)count,
	};
	names->new_line_count += count;
	return 0;
}

/* Writing */

/* What is in the file next: texts that are there, and after them those that were added. */
struct image {
	uint32_t *offsets; /* of added texts */
	size_t text_size;
	struct entry *entries;
	struct line *lines;
	size_t entry_count, line_count;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static uint32_t offset_of(const struct image *image, uint32_t number)
{
	return number == NO_TEXT ? NO_TEXT : image->offsets[number];
}

/* An address that was added twice. */
static void drop_repeated(struct image *image)
{
	size_t kept = 0;

	for (size_t i = 0; i < image->entry_count; i++) {
		if (!kept || image->entries[kept - 1].address != image->entries[i].address)
			image->entries[kept++] = image->entries[i];
	}
	image->entry_count = kept;
}

static bool make_image(const struct cached_symbols *names, struct image *image)
{
	image->entry_count = names->entry_count + names->new_entry_count;
	image->line_count = names->line_count + names->new_line_count;
	image->offsets = calloc(names->texts.count + 1, sizeof(uint32_t));
	image->entries = calloc(image->entry_count + 1, sizeof(struct entry));
	image->lines = calloc(image->line_count + 1, sizeof(struct line));
	if (!image->offsets || !image->entries || !image->lines)
		return false;
	image->text_size = names->text_size;
	for (size_t i = 0; i < names->texts.count; i++) {
		image->offsets[i] = (uint32_t)image->text_size;
		image->text_size += strlen(names->texts.items[i]) + 1;
		if (image->text_size > SYMBOL_CACHE_FILE_MAX)
			return false;
	}
	if (names->entry_count)
		memcpy(image->entries, names->entries, names->entry_count * sizeof(struct entry));
	if (names->line_count)
		memcpy(image->lines, names->lines, names->line_count * sizeof(struct line));
	for (size_t i = 0; i < names->new_entry_count; i++) {
		image->entries[names->entry_count + i] = names->new_entries[i];
		image->entries[names->entry_count + i].first_line += (uint32_t)names->line_count;
	}
	for (size_t i = 0; i < names->new_line_count; i++) {
		struct line *line = &image->lines[names->line_count + i];

		*line = names->new_lines[i];
		line->function = offset_of(image, line->function);
		line->system_name = offset_of(image, line->system_name);
		line->file = offset_of(image, line->file);
	}
	qsort(image->entries, image->entry_count, sizeof(struct entry), compare_entries);
	drop_repeated(image);
	return true;
}

static int write_texts(struct atomic_file *file, const struct cached_symbols *names, size_t padding)
{
	static const char nothing[sizeof(uint64_t)];
	int err = atomic_file_write(file, names->text, names->text_size, NULL);

	for (size_t i = 0; i < names->texts.count && !err; i++)
		err = atomic_file_write(file, names->texts.items[i],
					strlen(names->texts.items[i]) + 1, NULL);
	return err ? err : atomic_file_write(file, nothing, padding, NULL);
}

static int write_image(struct atomic_file *file, const struct cached_symbols *names,
		       const struct image *image)
{
	size_t padding = -image->text_size % sizeof(uint64_t);
	struct header header = {
		.magic = MAGIC,
		.version = STACKBEAT_VERSION,
		.entry_count = (uint32_t)image->entry_count,
		.line_count = (uint32_t)image->line_count,
		.text_size = image->text_size + padding,
	};
	int err = atomic_file_write(file, &header, sizeof(header), NULL);

	if (!err)
		err = write_texts(file, names, padding);
	if (!err)
		err = atomic_file_write(file, image->entries,
					image->entry_count * sizeof(struct entry), NULL);
	return err ? err
		   : atomic_file_write(file, image->lines, image->line_count * sizeof(struct line),
				       NULL);
}

void symbol_cache_write(const char *directory, const char *build_id,
			const struct cached_symbols *names)
{
	struct image image = {0};
	char path[PATH_MAX];
	struct atomic_file file;

	if (!names->new_entry_count || !path_of(directory, build_id, path))
		return;
	if (make_image(names, &image) &&
	    image.text_size + image.entry_count * sizeof(struct entry) +
			    image.line_count * sizeof(struct line) <
		    SYMBOL_CACHE_FILE_MAX - sizeof(struct header) - sizeof(uint64_t) &&
	    atomic_file_create(&file, path, NULL) == 0) {
		file.transient = true;
		if (write_image(&file, names, &image) == 0)
			atomic_file_commit(&file, NULL);
		else
			atomic_file_discard(&file);
	}
	free(image.offsets);
	free(image.entries);
	free(image.lines);
}
