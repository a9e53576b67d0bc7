// SPDX-License-Identifier: GPL-2.0
#include "elf.h"

#include "error.h"
#include "upper_bound.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <limits.h>
#include <link.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Beyond these a file is broken or means harm. */
#define SECTION_BYTES_MAX (256u << 20)
#define NOTES_BYTES_MAX (1u << 20)
#define PROGRAM_HEADERS_MAX 4096u
#define SYMBOLS_MAX (1u << 22)
#define SYMBOL_NAME_MAX (16u << 10)
#define SYMBOL_NESTING_MAX 64u

#define NO_FUNCTION UINT32_MAX

/* An executable PT_LOAD. */
struct load {
	uint64_t offset, size; /* in the file */
	uint64_t vaddr;
};

struct range {
	uint64_t start, end;
};

struct function {
	uint64_t start;
	uint32_t size;
	uint32_t name; /* offset in names */
	uint32_t outer; /* index of the next function outwards that holds `start` */
	uint32_t rank; /* lower is the better of two at one address */
};

struct object_file {
	struct object object; /* first, for object_file() */
	struct objects *objects;
	struct object_file *next; /* in objects->all */
	struct object_file *older; /* with the same device, inode and path */
	struct mapped_file file; /* where it was first seen; path is object.path */
	const void *image; /* of the vdso, instead of a file */
	size_t image_size;
	bool seen; /* the file was found: the next three are set */
	off_t size;
	struct timespec changed;
	int fd; /* -1 if it is not kept */
	bool loaded; /* functions were read, or can't be */
	struct load *loads;
	size_t load_count;
	struct function *functions; /* sorted by start, one for each */
	size_t function_count;
	char *names;
};

struct objects {
	char *root;
	void *tree; /* newest struct object_file by device, inode and path */
	struct object_file *all;
	struct object_file *vdso;
	unsigned int open; /* fds that are kept */
};

/* What reading a symbol table fills. */
struct symbols {
	struct function *list;
	size_t count, capacity;
	char *names;
	size_t names_size;
	struct range *code; /* executable sections, sorted */
	size_t code_count;
};

static struct object_file *object_file(struct object *object)
{
	return (struct object_file *)object;
}

__attribute__((format(printf, 2, 3))) static void object_problem(struct object_file *object,
								 const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(object->object.problem, sizeof(object->object.problem), format, args);
	va_end(args);
}

/* Finding and opening files */

static int open_regular(const char *path, int flags, struct stat *st)
{
	int fd = open(path, O_PATH | O_CLOEXEC | flags);

	if (fd < 0)
		return -1;
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

/*
 * Overlayfs and btrfs tell stat() other device numbers than /proc/PID/maps;
 * both have no device of their own, which shows as major number 0. For them
 * the inode, found at the same path, has to do.
 */
static bool is_mapped_file(const struct stat *st, const struct mapped_file *file)
{
	if (st->st_ino != file->inode)
		return false;
	return st->st_dev == file->device || major(st->st_dev) == 0 || major(file->device) == 0;
}

__attribute__((format(printf, 4, 5))) static int try_path(const struct mapped_file *file, int flags,
							  struct stat *st, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	int fd, length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open_regular(path, flags, st);
	if (fd < 0 || is_mapped_file(st, file))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

/*
 * Gives an O_PATH fd, which can't block and has no side effects, of the very
 * file: through the mapping, then by path as the process sees it, then by path.
 */
static int find_file(const struct objects *objects, const struct mapped_file *file, struct stat *st)
{
	const char *root = objects->root;
	int fd;

	fd = try_path(file, 0, st, "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, root,
		      file->pid, file->start, file->end);
	if (fd >= 0 || file->deleted || file->path[0] != '/')
		return fd;
	fd = try_path(file, O_NOFOLLOW, st, "%s/proc/%" PRIu32 "/root%s", root, file->pid,
		      file->path);
	if (fd >= 0)
		return fd;
	return try_path(file, O_NOFOLLOW, st, "%s%s", root, file->path);
}

static int open_found(int found)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool same_content(const struct object_file *object, const struct stat *st)
{
	return object->size == st->st_size && object->changed.tv_sec == st->st_mtim.tv_sec &&
	       object->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static void forget_fd(struct object_file *object)
{
	if (object->fd < 0)
		return;
	close(object->fd);
	object->fd = -1;
	object->objects->open--;
}

/* Headers: build id and loads */

bool build_id_from_notes(const void *notes, size_t size, size_t align, char hex[BUILD_ID_SIZE])
{
	const unsigned char *at = notes;
	uint64_t name_size, id_size;
	Elf64_Nhdr note;

	while (size >= sizeof(note)) {
		memcpy(&note, at, sizeof(note));
		at += sizeof(note);
		size -= sizeof(note);
		name_size = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		if (align == 8) /* the name follows the header of 12 bytes */
			name_size = (((uint64_t)note.n_namesz + 12 + 7) & ~UINT64_C(7)) - 12;
		id_size = ((uint64_t)note.n_descsz + align - 1) & ~(uint64_t)(align - 1);
		if (name_size > size || note.n_descsz > size - name_size)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(at, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= (BUILD_ID_SIZE - 1) / 2) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(hex + 2 * i, 3, "%02x", at[name_size + i]);
			return true;
		}
		if (id_size > size - name_size) /* the last one need not be padded */
			return false;
		at += name_size + id_size;
		size -= name_size + id_size;
	}
	return false;
}

static bool read_build_id(Elf *elf, const GElf_Phdr *header, char hex[BUILD_ID_SIZE])
{
	bool wide = header->p_align == 8;
	Elf_Data *data;

	if (header->p_filesz > NOTES_BYTES_MAX || header->p_offset > INT64_MAX)
		return false;
	data = elf_getdata_rawchunk(elf, (int64_t)header->p_offset, header->p_filesz,
				    wide ? ELF_T_NHDR8 : ELF_T_NHDR);
	return data && data->d_buf &&
	       build_id_from_notes(data->d_buf, data->d_size, wide ? 8 : 4, hex);
}

static void read_elf_build_id(Elf *elf, size_t headers, char hex[BUILD_ID_SIZE])
{
	GElf_Phdr header;

	hex[0] = '\0';
	for (size_t i = 0; i < headers; i++) {
		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_NOTE &&
		    read_build_id(elf, &header, hex))
			return;
	}
}

static int program_headers(struct object_file *object, Elf *elf, size_t *count)
{
	if (elf_kind(elf) != ELF_K_ELF) {
		object_problem(object, "not an ELF file");
		return -EINVAL;
	}
	if (elf_getphdrnum(elf, count) != 0) {
		object_problem(object, "broken ELF headers: %s", elf_errmsg(-1));
		return -EINVAL;
	}
	if (*count > PROGRAM_HEADERS_MAX) {
		object_problem(object, "broken ELF headers: %zu program headers", *count);
		return -EINVAL;
	}
	return 0;
}

static void read_headers(struct object_file *object, Elf *elf)
{
	GElf_Phdr header;
	size_t count;

	if (program_headers(object, elf, &count) != 0 || count == 0)
		return;
	object->loads = calloc(count, sizeof(*object->loads));
	if (!object->loads) {
		object_problem(object, "out of memory");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X))
			continue;
		object->loads[object->load_count++] = (struct load){
			.offset = header.p_offset,
			.size = header.p_filesz,
			.vaddr = header.p_vaddr,
		};
	}
	read_elf_build_id(elf, count, object->object.build_id);
}

/*
 * Files with more than 65,279 sections say so in another way: the count in the
 * header is 0. Programs and libraries are none, and libelf takes memory for as
 * many sections as such a file claims.
 */
static bool has_countless_sections(int fd)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} header = {0};

	if (pread(fd, &header, sizeof(header), 0) < (ssize_t)sizeof(header.narrow))
		return false;
	/* Zero is the same in both byte orders. */
	if (header.ident[EI_CLASS] == ELFCLASS32)
		return header.narrow.e_shnum == 0 && header.narrow.e_shoff != 0;
	return header.wide.e_shnum == 0 && header.wide.e_shoff != 0;
}

static Elf *begin_elf(struct object_file *object, int fd)
{
	Elf *elf;

	if (!object->image && has_countless_sections(fd)) {
		object_problem(object, "broken ELF headers: sections without a count");
		return NULL;
	}

	elf_version(EV_CURRENT);
	if (object->image)
		elf = elf_memory((char *)object->image, object->image_size);
	else
		/* Not mapped: a file that shrinks then must not kill the reader. */
		elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		object_problem(object, "can't be read: %s", elf_errmsg(-1));
	return elf;
}

/* `found` is the fd of find_file(), or -1 with its errno value in `reason`. */
static void first_sight(struct object_file *object, int found, const struct stat *st, int reason)
{
	char text[64];
	Elf *elf;
	int fd;

	fd = found < 0 ? -1 : open_found(found);
	if (fd < 0) {
		object_problem(object, "can't be opened: %s",
			       strerror_r(found < 0 ? reason : errno, text, sizeof(text)));
		return;
	}
	object->seen = true;
	object->size = st->st_size;
	object->changed = st->st_mtim;
	object->object.problem[0] = '\0';
	elf = begin_elf(object, fd);
	if (elf) {
		read_headers(object, elf);
		elf_end(elf);
	}
	if (object->object.problem[0]) {
		object->loaded = true;
		close(fd);
		return;
	}
	if (object->objects->open >= OBJECTS_OPEN_MAX) {
		close(fd);
		return;
	}
	object->fd = fd;
	object->objects->open++;
}

/* The table */

static int compare_files(const void *a, const void *b)
{
	const struct object_file *left = a, *right = b;

	if (left->file.inode != right->file.inode)
		return left->file.inode < right->file.inode ? -1 : 1;
	if (left->file.device != right->file.device)
		return left->file.device < right->file.device ? -1 : 1;
	return strcmp(left->file.path, right->file.path);
}

struct objects *objects_new(const char *root, struct error *error)
{
	struct objects *objects = calloc(1, sizeof(*objects));

	if (objects)
		objects->root = strdup(root);
	if (!objects || !objects->root) {
		free(objects);
		error_errno(error, ENOMEM, "can't make the table of object files");
		return NULL;
	}
	return objects;
}

static void object_free(struct object_file *object)
{
	forget_fd(object);
	free(object->loads);
	free(object->functions);
	free(object->names);
	free(object->object.path);
	free(object);
}

static void keep_node(void *node)
{
	(void)node; /* what the tree refers to is freed from the list of all */
}

void objects_free(struct objects *objects)
{
	struct object_file *object, *next;

	if (!objects)
		return;
	tdestroy(objects->tree, keep_node);
	for (object = objects->all; object; object = next) {
		next = object->next;
		object_free(object);
	}
	free(objects->root);
	free(objects);
}

static struct object_file *object_new(struct objects *objects, const struct mapped_file *file)
{
	struct object_file *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	object->object.path = strdup(file->path);
	if (!object->object.path) {
		free(object);
		return NULL;
	}
	object->objects = objects;
	object->file = *file;
	object->file.path = object->object.path;
	object->fd = -1;
	object->next = objects->all;
	objects->all = object;
	return object;
}

/* Makes a new object the newest of its device, inode and path. */
static struct object_file *add_object(struct objects *objects, const struct mapped_file *file)
{
	struct object_file *object = object_new(objects, file);
	struct object_file **node;

	if (!object)
		return NULL;
	node = tsearch(object, &objects->tree, compare_files);
	if (!node)
		return NULL; /* it is in the list of all, which frees it */
	if (*node != object) {
		object->older = *node;
		*node = object;
	}
	return object;
}

struct object *objects_get(struct objects *objects, const struct mapped_file *file)
{
	const struct object_file key = {.file = *file};
	struct object_file *object, **node;
	struct stat st = {0};
	int found, reason;

	found = find_file(objects, file, &st);
	reason = errno;
	node = tfind(&key, &objects->tree, compare_files);
	object = node ? *node : NULL;
	if (object && object->seen && found >= 0 && !same_content(object, &st))
		object = NULL;
	if (!object)
		object = add_object(objects, file);
	if (object && !object->seen)
		first_sight(object, found, &st, reason);
	if (found >= 0)
		close(found);
	return object ? &object->object : NULL;
}

struct object *objects_vdso(struct objects *objects)
{
	const struct mapped_file file = {.path = "[vdso]"};
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	Elf *elf;

	if (objects->vdso)
		return &objects->vdso->object;
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	objects->vdso = object_new(objects, &file);
	if (!objects->vdso)
		return NULL;
	/* The section headers are at the end of the image. */
	objects->vdso->image = header;
	objects->vdso->image_size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	elf = begin_elf(objects->vdso, -1);
	if (elf) {
		read_headers(objects->vdso, elf);
		elf_end(elf);
	}
	return &objects->vdso->object;
}

bool object_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr)
{
	const struct object_file *file = (const struct object_file *)object;

	for (size_t i = 0; i < file->load_count; i++) {
		const struct load *load = &file->loads[i];

		if (offset >= load->offset && offset - load->offset < load->size) {
			*vaddr = offset - load->offset + load->vaddr;
			return true;
		}
	}
	return false;
}

/* Symbol tables */

static int compare_ranges(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int read_code_sections(struct symbols *symbols, Elf *elf)
{
	Elf_Scn *section = NULL;
	struct range *code;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    header.sh_size == 0 || header.sh_size > UINT64_MAX - header.sh_addr)
			continue;
		code = reallocarray(symbols->code, symbols->code_count + 1, sizeof(*code));
		if (!code)
			return -ENOMEM;
		symbols->code = code;
		code[symbols->code_count++] =
			(struct range){header.sh_addr, header.sh_addr + header.sh_size};
	}
	if (symbols->code_count > 0)
		qsort(symbols->code, symbols->code_count, sizeof(*code), compare_ranges);
	return 0;
}

/* The end of the executable section that holds vaddr, or 0. */
static uint64_t code_end(const struct symbols *symbols, uint64_t vaddr)
{
	size_t after =
		upper_bound(symbols->code, symbols->code_count, sizeof(*symbols->code), vaddr);

	if (after == 0 || vaddr >= symbols->code[after - 1].end)
		return 0;
	return symbols->code[after - 1].end;
}

/* Lower is better; false for what is not a function. */
static bool symbol_rank(const GElf_Sym *symbol, uint32_t *rank)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    symbol->st_shndx == SHN_COMMON)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		*rank = 0;
		break;
	case STB_WEAK:
		*rank = 1;
		break;
	default:
		*rank = 2;
	}
	if (type == STT_NOTYPE)
		*rank += 3;
	return true;
}

/* The mapping symbols of ARM and RISC-V ("$x"), and assembler labels (".L1"). */
static bool is_name_of_function(const char *name)
{
	return name[0] && name[0] != '$' && strncmp(name, ".L", 2) != 0;
}

static int add_symbol(struct symbols *symbols, const struct function *function)
{
	size_t capacity = symbols->capacity ? symbols->capacity * 2 : 256;
	struct function *list;

	if (symbols->count == symbols->capacity) {
		list = reallocarray(symbols->list, capacity, sizeof(*list));
		if (!list)
			return -ENOMEM;
		symbols->list = list;
		symbols->capacity = capacity;
	}
	symbols->list[symbols->count++] = *function;
	return 0;
}

static uint32_t clip_size(uint64_t size, uint64_t room)
{
	if (size > room)
		size = room;
	return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

/* `names` to `names_end` is the string table, copied into symbols->names. */
static int take_symbol(struct symbols *symbols, const GElf_Sym *symbol, size_t names)
{
	size_t room = symbols->names_size - names;
	struct function function;
	const char *name;
	uint64_t end;

	if (!symbol_rank(symbol, &function.rank) || symbol->st_name >= room)
		return 0;
	end = code_end(symbols, symbol->st_value);
	if (end == 0)
		return 0;
	room -= symbol->st_name;
	name = symbols->names + names + symbol->st_name;
	if (room > SYMBOL_NAME_MAX)
		room = SYMBOL_NAME_MAX;
	if (strnlen(name, room) == room || !is_name_of_function(name))
		return 0;
	function.start = symbol->st_value;
	function.size = clip_size(symbol->st_size, end - symbol->st_value);
	function.name = (uint32_t)(names + symbol->st_name);
	function.outer = NO_FUNCTION;
	return add_symbol(symbols, &function);
}

/* Copies the string table to the end of symbols->names, ended by a NUL. */
static int copy_names(struct symbols *symbols, Elf *elf, size_t index)
{
	Elf_Scn *section = elf_getscn(elf, index);
	GElf_Shdr header;
	Elf_Data *data;
	char *names;

	if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB ||
	    (header.sh_flags & SHF_COMPRESSED) || header.sh_size > SECTION_BYTES_MAX)
		return -EINVAL;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf || data->d_size == 0)
		return -EINVAL;
	names = realloc(symbols->names, symbols->names_size + data->d_size + 1);
	if (!names)
		return -ENOMEM;
	symbols->names = names;
	memcpy(names + symbols->names_size, data->d_buf, data->d_size);
	symbols->names_size += data->d_size;
	names[symbols->names_size++] = '\0';
	return 0;
}

static int read_symbols(struct symbols *symbols, Elf *elf, Elf_Scn *section,
			const GElf_Shdr *header)
{
	size_t count, names = symbols->names_size;
	GElf_Sym symbol;
	Elf_Data *data;
	int result;

	if ((header->sh_flags & SHF_COMPRESSED) || header->sh_size > SECTION_BYTES_MAX)
		return -EINVAL;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return -EINVAL;
	count = data->d_size / gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
	if (count > SYMBOLS_MAX)
		return -EINVAL;
	result = copy_names(symbols, elf, header->sh_link);
	for (size_t i = 0; i < count && result == 0; i++) {
		if (gelf_getsym(data, (int)i, &symbol))
			result = take_symbol(symbols, &symbol, names);
	}
	return result;
}

static int compare_functions(const void *a, const void *b, void *names)
{
	const struct function *left = a, *right = b;
	const char *left_name = (const char *)names + left->name;
	const char *right_name = (const char *)names + right->name;
	size_t left_size, right_size;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	left_size = strspn(left_name, "_");
	right_size = strspn(right_name, "_");
	if (left_size != right_size)
		return left_size < right_size ? -1 : 1;
	left_size = strlen(left_name);
	right_size = strlen(right_name);
	if (left_size != right_size)
		return left_size < right_size ? -1 : 1;
	return strcmp(left_name, right_name);
}

/* Keeps the best name of each address, with a size if any of them has one. */
static void merge_aliases(struct symbols *symbols)
{
	struct function *list = symbols->list, *kept = list;

	if (symbols->count == 0)
		return;
	qsort_r(list, symbols->count, sizeof(*list), compare_functions, symbols->names);
	for (size_t i = 1; i < symbols->count; i++) {
		if (list[i].start != kept->start)
			*++kept = list[i];
		else if (kept->size == 0)
			kept->size = list[i].size;
	}
	symbols->count = (size_t)(kept - list) + 1;
}

static uint32_t enclosing(const struct function *list, uint32_t index, uint64_t vaddr)
{
	while (index != NO_FUNCTION && vaddr - list[index].start >= list[index].size)
		index = list[index].outer;
	return index;
}

/*
 * Links each function to the one around it. Unsized symbols end at what follows
 * them; those within a sized function are labels in it, and go.
 */
static void nest_functions(struct symbols *symbols)
{
	struct function *list = symbols->list;
	uint64_t end, next;
	uint32_t kept = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		uint32_t outer = enclosing(list, kept ? kept - 1 : NO_FUNCTION, list[i].start);

		if (list[i].size == 0 && outer != NO_FUNCTION)
			continue;
		if (list[i].size == 0) {
			end = code_end(symbols, list[i].start);
			next = i + 1 < symbols->count ? list[i + 1].start : end;
			list[i].size = clip_size(next - list[i].start, end - list[i].start);
		}
		list[kept] = list[i];
		list[kept++].outer = outer;
	}
	symbols->count = kept;
}

/* "memcpy@@GLIBC_2.14" is memcpy. The names are ours: cut them in place. */
static void cut_versions(struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++) {
		char *name = symbols->names + symbols->list[i].name;
		char *version = strchr(name, '@');

		if (version && version != name)
			*version = '\0';
	}
}

/* The first section of a type. A second one would be there to make us read much. */
static Elf_Scn *find_section(Elf *elf, uint32_t type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		if (gelf_getshdr(section, header) && header->sh_type == type)
			break;
	}
	return section;
}

static int read_functions(struct object_file *object, Elf *elf, struct symbols *symbols)
{
	static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
	GElf_Shdr header;
	Elf_Scn *section;
	int result;

	result = read_code_sections(symbols, elf);
	for (size_t i = 0; i < 2 && result == 0; i++) {
		section = find_section(elf, types[i], &header);
		if (section)
			result = read_symbols(symbols, elf, section, &header);
		if (result == -EINVAL) {
			object_problem(object, "has a broken symbol table");
			result = 0; /* the other one may be good */
		}
	}
	if (result != 0)
		return result;
	merge_aliases(symbols);
	nest_functions(symbols);
	cut_versions(symbols);
	return 0;
}

/* The kept fd, or the file opened again, if it is still what it was. */
static int open_again(struct object_file *object)
{
	struct stat st;
	int found, fd;

	if (object->fd >= 0) {
		fd = object->fd;
		object->fd = -1;
		object->objects->open--;
		if (fstat(fd, &st) == 0 && same_content(object, &st))
			return fd;
		close(fd);
		goto changed;
	}
	found = find_file(object->objects, &object->file, &st);
	if (found < 0) {
		object_problem(object, "can't be opened again after the recording");
		return -1;
	}
	fd = same_content(object, &st) ? open_found(found) : -1;
	close(found);
	if (fd >= 0)
		return fd;
changed:
	object_problem(object, "was changed during the recording");
	return -1;
}

static bool same_build_id(struct object_file *object, Elf *elf)
{
	char build_id[BUILD_ID_SIZE];
	size_t count;

	if (program_headers(object, elf, &count) != 0)
		return false;
	read_elf_build_id(elf, count, build_id);
	if (strcmp(build_id, object->object.build_id) == 0)
		return true;
	object_problem(object, "was changed during the recording");
	return false;
}

static void load_functions(struct object_file *object)
{
	struct symbols symbols = {0};
	Elf *elf = NULL;
	int fd = -1;

	if (!object->image && !object->seen)
		return;
	object->loaded = true;
	if (!object->image) {
		fd = open_again(object);
		if (fd < 0)
			return;
	}
	elf = begin_elf(object, fd);
	if (!elf || !same_build_id(object, elf))
		goto close;
	if (read_functions(object, elf, &symbols) != 0) {
		object_problem(object, "out of memory");
		goto close;
	}
	if (symbols.count == 0 && !object->object.problem[0])
		object_problem(object, "has no symbols of functions");
	object->functions = symbols.list;
	object->function_count = symbols.count;
	object->names = symbols.names;
	symbols.list = NULL;
	symbols.names = NULL;
close:
	free(symbols.list);
	free(symbols.names);
	free(symbols.code);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
}

bool object_lookup(struct object *object, uint64_t vaddr, struct symbol *symbol)
{
	struct object_file *file = object_file(object);
	uint32_t index, depth = 0;
	size_t after;

	if (!file->loaded)
		load_functions(file);
	if (!file->functions)
		return false;
	after = upper_bound(file->functions, file->function_count, sizeof(*file->functions), vaddr);
	if (after == 0)
		return false;
	index = (uint32_t)(after - 1);
	for (; index != NO_FUNCTION && depth < SYMBOL_NESTING_MAX; depth++) {
		const struct function *function = &file->functions[index];

		if (vaddr - function->start < function->size) {
			symbol->name = file->names + function->name;
			symbol->start = function->start;
			symbol->size = function->size;
			return true;
		}
		index = function->outer;
	}
	return false;
}
