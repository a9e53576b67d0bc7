// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debug_files.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <lzma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "debuginfo/debuginfod_helper.h"
#include "lib/build_id.h"

/* A file beyond these limits is broken or malicious. */
#define FILE_BYTES_MAX ((uint64_t)64 << 30)
#define UNCOMPRESSED_MAX ((uint64_t)4 << 30) /* sections of one file */
#define MINI_DEBUG_BYTES_MAX (256u << 20) /* uncompressed */
#define DECODER_MEMORY_MAX ((uint64_t)128 << 20)
#define DECODER_STEP (1u << 20)

/* Properties of a separate file that belongs to the binary. */
struct expected {
	const char *build_id; /* "": none to compare */
	Elf *binary; /* NULL if unknown */
	bool has_crc; /* compared if there is no build ID */
	uint32_t crc;
};

static const struct debug_file no_file = {.fd = -1};

/* Problems */

/* Keeps the first problem. */
__attribute__((format(printf, 2, 3))) static void debug_files_set_problem(struct debug_files *files,
									  const char *format, ...)
{
	char text[sizeof(files->problem.text)];
	va_list args;

	if (*files->problem.text)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error_set(&files->problem, EINVAL, "%s", text);
}

/* ELF files */

static void file_close(struct debug_file *file)
{
	elf_end(file->elf);
	free(file->image);
	free(file->path);
	if (file->fd >= 0)
		close(file->fd);
	*file = no_file;
}

/* Returns whether the uncompressed sections of a file are within the limit. */
static bool has_bounded_sections(Elf *elf)
{
	Elf_Scn *section = NULL;
	uint64_t total = 0;
	GElf_Chdr compressed;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header))
			return false;
		if (!(header.sh_flags & SHF_COMPRESSED) || !gelf_getchdr(section, &compressed))
			continue;
		if (compressed.ch_size > UNCOMPRESSED_MAX - total)
			return false;
		total += compressed.ch_size;
	}
	return true;
}

/* Opens a file, or an image in memory if that is not NULL. */
static Elf *begin_elf(int fd, const void *image, size_t size, const char *path, struct error *error)
{
	struct error why;
	Elf *elf;

	if (elf_begin_read(fd, image, size, true, &elf, &why) != 0) {
		error_set(error, EINVAL, "%s: %s", path, why.text);
		return NULL;
	}
	if (has_bounded_sections(elf))
		return elf;
	error_set(error, EINVAL, "%s has broken sections, or too large ones", path);
	elf_end(elf);
	return NULL;
}

/* Prefers sections: the segments of a debug file may have no contents. */
void debug_build_id(Elf *elf, char hex[BUILD_ID_SIZE])
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf_Data *data;

	*hex = '\0';
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE)
			continue;
		data = elf_rawdata(section, NULL);
		if (data && data->d_buf &&
		    build_id_from_notes(data->d_buf, data->d_size, header.sh_addralign == 8 ? 8 : 4,
					hex))
			return;
	}
	elf_build_id(elf, hex);
}

static Elf_Scn *debug_files_find_section(Elf *elf, const char *name, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	const char *found;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, header) || header->sh_type == SHT_NOBITS)
			continue;
		found = elf_strptr(elf, names, header->sh_name);
		if (found && !strcmp(found, name))
			return section;
	}
	return NULL;
}

static bool has_dwarf(Elf *elf)
{
	GElf_Shdr header;

	return debug_files_find_section(elf, ".debug_info", &header) ||
	       debug_files_find_section(elf, ".zdebug_info", &header);
}

static bool is_same_machine(Elf *a, Elf *b)
{
	GElf_Ehdr left, right;

	return gelf_getehdr(a, &left) && gelf_getehdr(b, &right) &&
	       left.e_machine == right.e_machine &&
	       left.e_ident[EI_CLASS] == right.e_ident[EI_CLASS] &&
	       left.e_ident[EI_DATA] == right.e_ident[EI_DATA];
}

/* Separate files */

static bool has_crc(int fd, uint32_t expected)
{
	unsigned char block[1u << 16];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t got;

	while ((uint64_t)at < FILE_BYTES_MAX && (got = pread(fd, block, sizeof(block), at)) > 0) {
		crc = crc32(crc, block, (uInt)got);
		at += got;
	}
	return crc == expected;
}

static bool debug_file_is_expected(const struct debug_file *file, const struct expected *expected,
				   struct error *error)
{
	char build_id[BUILD_ID_SIZE];

	if (expected->binary && !is_same_machine(file->elf, expected->binary)) {
		error_set(error, EINVAL, "%s is for another machine", file->path);
		return false;
	}
	debug_build_id(file->elf, build_id);
	if (*expected->build_id && !build_id_equal(build_id, expected->build_id)) {
		error_set(error, ESTALE, "%s has %s%s, not %s", file->path,
			  *build_id ? "build ID " : "no build ID", build_id, expected->build_id);
		return false;
	}
	if (!*expected->build_id && expected->has_crc && !has_crc(file->fd, expected->crc)) {
		error_set(error, ESTALE, "%s does not match the checksum of the debug link",
			  file->path);
		return false;
	}
	return true;
}

/* Takes ownership of `fd` and `path`. Returns 0, or a negative errno value with `file` empty. */
static int debug_file_open(struct debug_file *file, int fd, char *path,
			   const struct expected *expected, struct error *error)
{
	*file = (struct debug_file){.fd = fd, .path = path};
	file->elf = begin_elf(fd, NULL, 0, path, error);
	if (file->elf && debug_file_is_expected(file, expected, error))
		return 0;
	file_close(file);
	return -EINVAL;
}

/*
 * Opens the first file for a name that matches. A file that exists and does not match is a problem
 * to report. `beside` is the path of the file that has the name.
 */
static bool debug_files_find(struct debug_files *files, struct debug_file *file,
			     const struct expected *expected, const struct debug_search *search,
			     enum debug_name kind, const char *name, const char *beside)
{
	unsigned int candidate = 0;
	struct error error;
	char *path;
	int fd;

	for (;;) {
		fd = search->open(search->arg, kind, name, beside, &candidate, &path);
		if (fd >= 0 && debug_file_open(file, fd, path, expected, &error) == 0)
			return true;
		if (fd >= 0) {
			debug_files_set_problem(files, "%s", error.text);
			continue;
		}
		if (!path)
			return false;
		if (fd == -EINVAL)
			debug_files_set_problem(files, "%s is not a regular file", path);
		else if (fd == -ENOEXEC)
			debug_files_set_problem(files, "%s is not an ELF file", path);
		else
			debug_files_set_problem(files, "%s can't be opened: %s", path,
						strerrordesc_np(-fd));
		free(path);
	}
}

static bool find_by_build_id(struct debug_files *files, struct debug_file *file,
			     const struct expected *expected, const struct debug_search *search)
{
	return build_id_valid(expected->build_id) &&
	       debug_files_find(files, file, expected, search, DEBUG_BUILD_ID, expected->build_id,
				NULL);
}

/* Searches by .gnu_debuglink: beside the binary, then below the debug directories. */
static bool find_by_link(struct debug_files *files, const char *path, struct expected expected,
			 const struct debug_search *search)
{
	GElf_Word crc;
	const char *name = dwelf_elf_gnu_debuglink(files->binary.elf, &crc);

	if (!name)
		return false;
	expected.has_crc = true;
	expected.crc = crc;
	return debug_files_find(files, &files->debug, &expected, search, DEBUG_LINK, name, path);
}

static bool fetch_file(struct debug_files *files, struct debug_file *file,
		       const struct expected *expected, const struct debug_search *search)
{
	struct error error;
	char *path = NULL;
	int fd;

	if (!search->fetcher || !build_id_valid(expected->build_id))
		return false;
	fd = debuginfod_helper_fetch(search->fetcher, expected->build_id, search->progress,
				     search->arg, &path, &error);
	if (fd >= 0 && debug_file_open(file, fd, path, expected, &error) == 0)
		return true;
	if (fd != -ENOENT)
		debug_files_set_problem(files, "%s", error.text);
	return false;
}

static void debug_files_find_debug_file(struct debug_files *files, const char *path,
					const struct debug_search *search)
{
	const struct expected expected = {.build_id = files->build_id, .binary = files->binary.elf};

	if (find_by_build_id(files, &files->debug, &expected, search))
		return;
	if (files->binary.elf && find_by_link(files, path, expected, search))
		return;
	fetch_file(files, &files->debug, &expected, search);
}

/* dwz */

/* Reads .gnu_debugaltlink. Returns 0, -ENOENT if there is none, or -EINVAL if it is broken. */
static int read_alt_link(Elf *elf, const char **name, char build_id[BUILD_ID_SIZE])
{
	GElf_Shdr header;
	const char *end;
	Elf_Scn *section;
	Elf_Data *data;
	size_t size;

	section = debug_files_find_section(elf, ".gnu_debugaltlink", &header);
	if (!section)
		return -ENOENT;
	data = elf_rawdata(section, NULL);
	*name = data ? data->d_buf : NULL;
	end = *name ? memchr(*name, '\0', data->d_size) : NULL;
	if (!end)
		return -EINVAL;
	size = (size_t)(*name + data->d_size - (end + 1));
	if (!size || size > BUILD_ID_BYTES_MAX)
		return -EINVAL;
	build_id_format(end + 1, size, build_id);
	return 0;
}

/*
 * Finds the shared file of dwz for the file with DWARF at `path`. Returns false if it needs one
 * that is missing: the DWARF is unusable then.
 */
static bool find_alt(struct debug_files *files, Elf *elf, const char *path,
		     const struct debug_search *search)
{
	struct expected expected = {.binary = elf};
	char build_id[BUILD_ID_SIZE];
	const char *name;
	int err = read_alt_link(elf, &name, build_id);

	if (err == -ENOENT)
		return true;
	if (err) {
		debug_files_set_problem(files, "%s has a broken .gnu_debugaltlink section", path);
		return false;
	}
	expected.build_id = build_id;
	if (find_by_build_id(files, &files->alt, &expected, search) ||
	    debug_files_find(files, &files->alt, &expected, search, DEBUG_ALT_LINK, name, path) ||
	    fetch_file(files, &files->alt, &expected, search))
		return true;
	debug_files_set_problem(files, "%s needs %s (build ID %s), which was not found", path, name,
				build_id);
	return false;
}

void debug_file_headers(Elf *elf, struct elf_headers *headers)
{
	char build_id[BUILD_ID_SIZE];
	const char *name;
	GElf_Word crc;

	debug_build_id(elf, headers->build_id);
	headers->has_dwarf = has_dwarf(elf);
	name = dwelf_elf_gnu_debuglink(elf, &crc);
	if (name && strlen(name) < sizeof(headers->link))
		strcpy(headers->link, name);
	if (read_alt_link(elf, &name, build_id) || strlen(name) >= sizeof(headers->alt_link))
		return;
	strcpy(headers->alt_link, name);
	strcpy(headers->alt_build_id, build_id);
}

/* MiniDebugInfo */

static int decompress_all(lzma_stream *stream, unsigned char **image, size_t *size)
{
	size_t capacity = 0;
	lzma_ret ret = LZMA_OK;
	unsigned char *grown;

	while (ret == LZMA_OK) {
		if (capacity == MINI_DEBUG_BYTES_MAX)
			return -E2BIG;
		capacity += DECODER_STEP;
		grown = realloc(*image, capacity);
		if (!grown)
			return -ENOMEM;
		*image = grown;
		stream->next_out = grown + stream->total_out;
		stream->avail_out = capacity - stream->total_out;
		while (ret == LZMA_OK && stream->avail_out > 0)
			ret = lzma_code(stream, LZMA_FINISH);
	}
	*size = stream->total_out;
	return ret == LZMA_STREAM_END ? 0 : -EINVAL;
}

/* Returns the uncompressed bytes of an xz file, to be freed, or NULL. */
static void *debug_files_decompress(const void *compressed, size_t compressed_size, size_t *size)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	unsigned char *image = NULL;

	if (lzma_stream_decoder(&stream, DECODER_MEMORY_MAX, 0) != LZMA_OK)
		return NULL;
	stream.next_in = compressed;
	stream.avail_in = compressed_size;
	if (decompress_all(&stream, &image, size) != 0) {
		free(image);
		image = NULL;
	}
	lzma_end(&stream);
	return image;
}

static void find_mini(struct debug_files *files, const char *path)
{
	struct debug_file *mini = &files->mini;
	GElf_Shdr header;
	Elf_Scn *section;
	Elf_Data *data;

	section = debug_files_find_section(files->binary.elf, ".gnu_debugdata", &header);
	if (!section)
		return;
	data = elf_rawdata(section, NULL);
	if (data && data->d_buf)
		mini->image = debug_files_decompress(data->d_buf, data->d_size, &mini->image_size);
	if (mini->image)
		mini->elf = begin_elf(-1, mini->image, mini->image_size, path, NULL);
	if (mini->elf && is_same_machine(mini->elf, files->binary.elf))
		return;
	file_close(mini);
	debug_files_set_problem(files, "%s has broken mini debug information", path);
}

/* All files */

static int check_build_id(Elf *elf, const char *path, const char *expected,
			  char build_id[BUILD_ID_SIZE], struct error *error)
{
	debug_build_id(elf, build_id);
	if (!*expected || build_id_equal(expected, build_id))
		return 0;
	return error_set(error, *build_id ? ESTALE : ENODATA, "%s has %s%s, not %s: not taken",
			 path, *build_id ? "build ID " : "no build ID", build_id, expected);
}

int debug_files_check_binary(int fd, const char *path, const char *build_id, struct error *error)
{
	char found[BUILD_ID_SIZE];
	struct error why;
	Elf *elf;
	int err;

	if (elf_begin_read(fd, NULL, 0, true, &elf, &why))
		return error_set(error, EINVAL, "%s: %s: not taken", path, why.text);
	err = check_build_id(elf, path, build_id, found, error);
	elf_end(elf);
	return err;
}

static int debug_files_open_binary(struct debug_files *files, int fd, const char *path,
				   struct error *error)
{
	char build_id[BUILD_ID_SIZE];
	int err;

	files->binary.elf = begin_elf(fd, NULL, 0, path, error);
	if (!files->binary.elf)
		return -EINVAL;
	err = check_build_id(files->binary.elf, path, files->build_id, build_id, error);
	if (!err)
		strcpy(files->build_id, build_id);
	return err;
}

static void find_dwarf(struct debug_files *files, const char *path,
		       const struct debug_search *search)
{
	Elf *elf = files->binary.elf;

	if (!elf || !has_dwarf(elf)) {
		debug_files_find_debug_file(files, path, search);
		elf = files->debug.elf;
		if (elf)
			path = files->debug.path;
	}
	if (!elf)
		error_set(&files->missing, ENOENT,
			  "%s has no debug information, and no debug file was found", path);
	else if (!has_dwarf(elf))
		error_set(&files->missing, ENOENT, "%s has no debug information", path);
	else if (find_alt(files, elf, path, search))
		files->dwarf = elf;
}

int debug_files_open(struct debug_files *files, int fd, const char *path, const char *build_id,
		     const struct debug_search *search, struct error *error)
{
	int err = 0;

	*files = (struct debug_files){
		.binary = no_file,
		.mini = no_file,
		.debug = no_file,
		.alt = no_file,
	};
	snprintf(files->build_id, sizeof(files->build_id), "%s", build_id);
	if (fd >= 0)
		err = debug_files_open_binary(files, fd, path, error);
	if (err) {
		debug_files_close(files);
		return err;
	}
	if (files->binary.elf)
		find_mini(files, path);
	find_dwarf(files, path, search);
	return 0;
}

void debug_files_close(struct debug_files *files)
{
	file_close(&files->alt);
	file_close(&files->debug);
	file_close(&files->mini);
	file_close(&files->binary);
	files->dwarf = NULL;
}
