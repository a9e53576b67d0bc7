// SPDX-License-Identifier: GPL-2.0
#include "process/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "debuginfo/file_cache.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "process/binary_store.h"
#include "process/file_ids.h"
#include "process/file_opener.h"
#include "process/kept_files.h"

/* gcc's analyzer loses sight of what is stored in the table, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* More would not fit into the segments of address_space.h. */
#define FILES_MAX (1u << 30)
/* Sweeps that a file must have seen without a mark before it is released. */
#define SWEEPS_UNMARKED 2u
/* Sweeps after which a file that has hung is opened again. */
#define SWEEPS_HUNG 60u
/* Sweeps without a mark after which an entry is forgotten. */
#define SWEEPS_FORGOTTEN 16u

#define VDSO "[vdso]"

enum state {
	FILE_UNTOUCHED, /* not requested, or not known yet */
	FILE_REQUESTED, /* the opener has a job of it */
	FILE_OPENED, /* the opener is done: `fd`, or a problem */
	FILE_HUNG, /* it was given up; after SWEEPS_HUNG, it is tried again */
};

/*
 * Only the main thread uses an entry: jobs have copies of what they need. Invariants: a file is
 * in `identities` if it is `announced`; `fd` is a kept descriptor, counted in
 * files->kept_count, only if it is FILE_OPENED.
 */
struct file_entry {
	struct mapped_file file; /* first, for file_entry() */
	struct file_identity identity; /* if `announced` */
	char *text; /* owned: file.path and file.build_id point into it */
	char *own_problem; /* owned: file.problem, or NULL */
	uint64_t id; /* the kernel's, that can be opened; 0: none */
	uint64_t table_id; /* by which `table_fd` was opened; 0: by none */
	struct file_stamp table_stamp;
	struct file_key *proven; /* owned: see mapped_file_prove(); or NULL */
	struct file_stamp proven_stamp; /* with it */
	uint64_t start, end; /* a mapping of `pid` */
	uint32_t pid; /* 0: none is known */
	uint32_t holds; /* see mapped_file_hold() */
	uint32_t id_count; /* of the file in files->ids */
	int fd; /* kept; -1: none */
	int table_fd; /* opened for its unwind table; -1: none; or a negative errno value */
	uint32_t owner; /* uid, see struct file_owner; of an opened file */
	uint32_t table_owner; /* likewise, of a file that was opened for its table */
	uint8_t state; /* enum state */
	uint8_t unmarked_sweeps; /* at most SWEEPS_FORGOTTEN */
	uint8_t hung_sweeps; /* since it is FILE_HUNG */
	bool announced : 1; /* its record has arrived */
	bool headers_not_read : 1; /* by the kernel: nothing proves its build ID */
	bool has_kernel_id : 1; /* the kernel has read its build ID */
	bool requested_early : 1; /* before it was announced */
	bool is_untrusted : 1;
	bool is_copy : 1; /* of `fd` */
	bool copying : 1; /* the copier has a job of it */
	bool saving : 1; /* a job saves it, or has saved it */
	bool stays : 1; /* it can't be copied: `fd` stays the file itself */
	bool pinned : 1; /* for its unwind table */
	bool opening_for_table : 1; /* the opener has a job of it */
	bool is_lasting : 1; /* the file of `id`: STACKBEAT_FILE_LASTING */
};

struct mapped_files {
	char *root;
	struct file_source source;
	struct file_entry **list; /* by index; NULL: free */
	size_t count, capacity;
	size_t entries_bytes; /* of the entries, with what they own */
	uint32_t *free_list; /* free indices */
	size_t free_count, free_capacity;
	struct hash identities; /* indices of `list` */
	struct file_ids ids;
	struct file_entry *vdso;
	struct file_opener *opener;
	struct file_opener *copier; /* at idle priority: saves and copies */
	struct binary_store *store; /* the copier's, or NULL */
	struct table_hooks table_hooks; /* all zero: none */
	int event; /* -1: none */
	char boot[FILE_KEY_BOOT_SIZE]; /* with table_hooks: the ID of this boot; "": unknown */
	size_t kept_count; /* descriptors */
	uint64_t copies_bytes; /* of those kept and requested */
	struct mapped_files_counts counts;
	struct error save_problem;
	bool finished;
	bool skip_symbols;
};

static struct file_entry *file_entry(struct mapped_file *file)
{
	return (struct file_entry *)file;
}

/* The table */

static struct file_opener *new_copier(const struct mapped_files *files, struct binary_store *store,
				      const struct sandbox_server *sandbox)
{
	const struct file_opener_config config = {
		.root = files->root,
		.store = store,
		.sandbox = sandbox,
		.idle = true,
		.timeout_s = files->source.timeout_s,
	};

	return file_opener_new(&config);
}

static struct file_opener *new_opener(const struct mapped_files *files)
{
	const struct file_opener_config config = {
		.root = files->root,
		.open = files->source.open,
		.arg = files->source.arg,
		.event = files->event >= 0 ? files->event : 0,
		.timeout_s = files->source.timeout_s,
	};

	return file_opener_new(&config);
}

struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error)
{
	struct mapped_files *files = calloc(1, sizeof(*files));

	if (files) {
		files->event = -1;
		files->root = strdup(root);
		files->source = *source;
		files->opener = files->root ? new_opener(files) : NULL;
		files->copier = files->root ? new_copier(files, NULL, NULL) : NULL;
	}
	if (files && files->opener && files->copier)
		return files;
	mapped_files_free(files);
	error_errno(error, ENOMEM, "can't make the table of mapped files");
	return NULL;
}

static void close_kept(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->fd < 0)
		return;
	close(entry->fd);
	entry->fd = -1;
	files->kept_count--;
	if (entry->is_copy)
		files->copies_bytes -= entry->identity.size;
	entry->is_copy = false;
}

static void mapped_files_keep(struct mapped_files *files, struct file_entry *entry, int fd)
{
	close_kept(files, entry);
	entry->fd = fd;
	files->kept_count++;
}

static void close_table_fd(struct file_entry *entry)
{
	if (entry->table_fd >= 0)
		close(entry->table_fd);
	entry->table_fd = -1;
}

static size_t text_bytes(const struct file_entry *entry)
{
	return entry->text ? strlen(entry->file.path) + strlen(entry->file.build_id) + 2 : 0;
}

static size_t problem_bytes(const struct file_entry *entry)
{
	return entry->own_problem ? strlen(entry->own_problem) + 1 : 0;
}

static void free_entry(struct mapped_files *files, struct file_entry *entry)
{
	close_kept(files, entry);
	close_table_fd(entry);
	files->entries_bytes -= sizeof(*entry) + text_bytes(entry) + problem_bytes(entry) +
				(entry->proven ? sizeof(*entry->proven) : 0);
	free(entry->proven);
	free(entry->own_problem);
	free(entry->text);
	free(entry);
}

void mapped_files_free(struct mapped_files *files)
{
	if (!files)
		return;
	file_opener_free(files->opener);
	file_opener_free(files->copier);
	file_ids_clear(&files->ids);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			free_entry(files, files->list[i]);
	}
	free(files->list);
	free(files->free_list);
	hash_clear(&files->identities);
	if (files->event >= 0)
		close(files->event);
	free(files->root);
	free(files);
}

int mapped_files_save(struct mapped_files *files, const char *directory,
		      const struct sandbox_server *sandbox, struct error *error)
{
	struct binary_store *store = binary_store_new(directory, error);
	struct file_opener *copier;

	if (!store)
		return -errno;
	copier = new_copier(files, store, sandbox);
	if (!copier) {
		binary_store_free(store);
		return error_errno(error, ENOMEM, "%s", directory);
	}
	file_opener_free(files->copier);
	files->copier = copier;
	files->store = store;
	return 0;
}

void mapped_files_skip_symbols(struct mapped_files *files)
{
	files->skip_symbols = true;
}

bool mapped_files_have_symbols(const struct mapped_files *files)
{
	return !files->skip_symbols;
}

/* Sets path and build ID. Returns 0 or -ENOMEM. */
static int set_text(struct mapped_files *files, struct file_entry *entry, const char *path,
		    const char *build_id)
{
	size_t size = strlen(path) + 1;
	char *text = malloc(size + strlen(build_id) + 1);

	if (!text)
		return -ENOMEM;
	memcpy(text, path, size);
	strcpy(text + size, build_id);
	files->entries_bytes -= text_bytes(entry);
	free(entry->text);
	entry->text = text;
	entry->file.path = text;
	entry->file.build_id = text + size;
	files->entries_bytes += text_bytes(entry);
	return 0;
}

/* Returns a free index, or UINT32_MAX. Its slot in the list is reserved. */
static uint32_t new_index(struct mapped_files *files)
{
	if (files->free_count)
		return files->free_list[--files->free_count];
	/* Room for all indices to become free. */
	if (files->count == FILES_MAX ||
	    array_reserve(&files->free_list, &files->free_capacity, 0, files->count + 1,
			  sizeof(*files->free_list)) ||
	    array_reserve(&files->list, &files->capacity, files->count, 1,
			  sizeof(struct file_entry *)))
		return UINT32_MAX;
	return (uint32_t)files->count++;
}

size_t mapped_files_bytes(const struct mapped_files *files)
{
	return files->entries_bytes + files->capacity * sizeof(*files->list) +
	       files->free_capacity * sizeof(*files->free_list) +
	       files->identities.capacity * HASH_SLOT_SIZE + file_ids_bytes(&files->ids);
}

static struct file_entry *mapped_files_add_entry(struct mapped_files *files)
{
	struct file_entry *entry = calloc(1, sizeof(*entry));
	uint32_t index = entry ? new_index(files) : UINT32_MAX;

	if (index == UINT32_MAX) {
		free(entry);
		return NULL;
	}
	entry->fd = -1;
	entry->table_fd = -1;
	entry->file = (struct mapped_file){index, "", "", ""};
	files->list[index] = entry;
	files->entries_bytes += sizeof(*entry);
	return entry;
}

static uint32_t identity_hash(const struct file_entry *entry)
{
	uint32_t hash = hash_number(HASH_START, entry->identity.device);

	hash = hash_number(hash, entry->identity.inode);
	hash = hash_number(hash, entry->identity.size);
	return hash_number(hash,
			   (uint64_t)entry->identity.generation << 1 | entry->headers_not_read);
}

/* The build ID of a file whose headers were not read is no part of its identity. */
static bool is_identical(const void *context, uint32_t index, const void *key)
{
	const struct file_entry *a = ((const struct mapped_files *)context)->list[index], *b = key;

	return a->identity.device == b->identity.device && a->identity.inode == b->identity.inode &&
	       a->identity.size == b->identity.size &&
	       a->identity.generation == b->identity.generation &&
	       a->headers_not_read == b->headers_not_read && a->has_kernel_id == b->has_kernel_id &&
	       (!a->has_kernel_id || build_id_equal(a->file.build_id, b->file.build_id));
}

/* Returns the entry with the same identity, which the kernel announced by another id, or NULL. */
static struct file_entry *find_identical(struct mapped_files *files, const struct file_entry *key)
{
	uint32_t index =
		hash_find(&files->identities, identity_hash(key), is_identical, files, key);

	return index == HASH_NONE ? NULL : files->list[index];
}

/* Sets the identity of an entry, with path and build ID, from `key`. */
static int mapped_files_announce(struct mapped_files *files, struct file_entry *entry,
				 const struct file_entry *key)
{
	uint32_t hash = identity_hash(key);
	int err = set_text(files, entry, key->file.path, key->file.build_id);

	if (!err)
		err = hash_add(&files->identities, hash, entry->file.index);
	if (err)
		return err;
	entry->identity = key->identity;
	entry->headers_not_read = key->headers_not_read;
	entry->has_kernel_id = key->has_kernel_id;
	entry->announced = true;
	return 0;
}

/* Frees an entry and its index. No id refers to it. */
static void forget_entry(struct mapped_files *files, struct file_entry *entry)
{
	uint32_t index = entry->file.index;

	if (files->table_hooks.forgotten)
		files->table_hooks.forgotten(index, files->table_hooks.arg);
	if (entry->announced)
		hash_remove(&files->identities, identity_hash(entry), index);
	free_entry(files, entry);
	files->list[index] = NULL;
	files->free_list[files->free_count++] = index;
}

/* The kernel's ids */

static int mapped_files_add_id(struct mapped_files *files, uint64_t id, struct file_entry *entry)
{
	int err = file_ids_add(&files->ids, id, entry->file.index);

	entry->id_count += !err;
	return err;
}

/* Returns NULL if the id is unknown. */
static struct file_entry *mapped_files_find_id(const struct mapped_files *files, uint64_t id)
{
	uint32_t index = file_ids_find(&files->ids, id);

	return index == FILE_NONE ? NULL : files->list[index];
}

static void release_id(struct mapped_files *files, uint64_t id)
{
	files->source.release(id, files->source.arg);
	file_ids_retire(&files->ids, id);
}

static void release_kernel_file(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->pinned)
		return;
	if (entry->id)
		release_id(files, entry->id);
	entry->id = 0;
}

/* Otherwise, the id is needed to open the file, or a sweep releases it. */
static void release_if_opened(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->state == FILE_OPENED || entry->state == FILE_HUNG)
		release_kernel_file(files, entry);
}

static void forget_id(uint32_t file, void *arg)
{
	((struct mapped_files *)arg)->list[file]->id_count--;
}

/* Records */

/* Returns a job that opens a file, or NULL. */
static struct file_job *open_job(const struct file_entry *entry, enum file_job_kind kind)
{
	struct file_job *job = file_job_new(kind, entry->file.index);

	if (!job)
		return NULL;
	job->path = strdup(entry->file.path);
	job->identity = entry->identity;
	job->id = entry->id;
	job->pid = entry->pid;
	job->start = entry->start;
	job->end = entry->end;
	return job;
}

static int mapped_files_request(struct mapped_files *files, struct file_entry *entry)
{
	struct file_job *job;
	int err;

	if (entry->state != FILE_UNTOUCHED || files->finished)
		return 0;
	if (!entry->announced) {
		entry->requested_early = true;
		return 0;
	}
	if (files->skip_symbols && !entry->headers_not_read && !files->store)
		return 0;
	job = open_job(entry, FILE_JOB_OPEN);
	if (!job)
		return -ENOMEM;
	err = file_opener_add(files->opener, job);
	if (!err)
		entry->state = FILE_REQUESTED;
	return err;
}

int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record)
{
	struct file_entry *known = mapped_files_find_id(files, record->file);
	bool has_id = record->build_id_size && record->build_id_size <= BUILD_ID_BYTES_MAX;
	char build_id[BUILD_ID_SIZE] = "";
	const struct file_entry key = {
		.file = {.path = record->path, .build_id = build_id},
		.identity = {.device = makedev(record->device_major, record->device_minor),
			     .inode = record->inode,
			     .size = record->size,
			     .generation = record->inode_generation},
		.headers_not_read = record->record.flags & STACKBEAT_FILE_HEADERS_NOT_READ,
		.has_kernel_id = has_id,
	};
	bool lacks_table =
		files->table_hooks.missing && !(record->record.flags & STACKBEAT_FILE_UNWIND_TABLE);
	struct file_entry *entry;
	int err = 0;

	if (has_id)
		build_id_format(record->build_id, record->build_id_size, build_id);
	/* A mapping record of it may have come first: then it has an entry already. */
	entry = known ? known : find_identical(files, &key);
	if (!entry)
		entry = mapped_files_add_entry(files);
	if (!entry || (!known && mapped_files_add_id(files, record->file, entry)))
		return -ENOMEM;
	if (!entry->announced)
		err = mapped_files_announce(files, entry, &key);
	if (err)
		return err;
	entry->unmarked_sweeps = 0;
	/* A file that was requested, or has an id already, needs no other one. */
	if ((entry->state == FILE_UNTOUCHED || lacks_table) &&
	    (!entry->id || entry->id == record->file)) {
		entry->id = record->file;
		entry->is_lasting = record->record.flags & STACKBEAT_FILE_LASTING;
	} else {
		release_id(files, record->file);
	}
	if (lacks_table) {
		err = files->table_hooks.missing(&entry->file, files->table_hooks.arg);
		release_if_opened(files, entry);
	}
	return !err && entry->requested_early ? mapped_files_request(files, entry) : err;
}

struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end)
{
	struct file_entry key = {.headers_not_read = true}, *entry;
	struct mapping_link link;

	if (read_mapping_link(files->root, pid, start, end, &link))
		return NULL;
	key.file = (struct mapped_file){.path = link.path, .build_id = ""};
	key.identity = link.identity;
	entry = find_identical(files, &key);
	if (!entry) {
		entry = mapped_files_add_entry(files);
		if (entry && mapped_files_announce(files, entry, &key)) {
			forget_entry(files, entry);
			entry = NULL;
		}
	}
	if (!entry)
		return NULL;
	mapped_file_note_mapping(files, &entry->file, pid, start, end);
	return &entry->file;
}

struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id)
{
	struct file_entry *known = mapped_files_find_id(files, id);
	struct file_entry *entry = known ? known : mapped_files_add_entry(files);

	if (!entry)
		return NULL;
	if (!known && mapped_files_add_id(files, id, entry)) {
		forget_entry(files, entry);
		return NULL;
	}
	if (!known)
		entry->id = id;
	return &entry->file;
}

/* Returns an fd with a copy of the vdso, or -1. */
static int mapped_files_copy_vdso(const ElfW(Ehdr) * header)
{
	/* The section headers are at the end of the image. */
	size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	int fd = memfd_create(VDSO, MFD_CLOEXEC);

	/* A memfd can be written by others, unless its mode says otherwise. */
	if (fd >= 0 && !fchmod(fd, 0400) && write(fd, header, size) == (ssize_t)size)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The image is the kernel's: it is parsed here, so that archives find it by its build ID. */
static void read_vdso_build_id(const ElfW(Ehdr) * header, char hex[BUILD_ID_SIZE])
{
	const char *image = (const char *)header;
	const ElfW(Phdr) *segments = (const void *)(image + header->e_phoff);

	*hex = '\0';
	for (size_t i = 0; i < header->e_phnum; i++) {
		if (segments[i].p_type == PT_NOTE &&
		    build_id_from_notes(image + segments[i].p_offset, segments[i].p_filesz,
					segments[i].p_align, hex))
			return;
	}
}

struct mapped_file *mapped_files_vdso(struct mapped_files *files)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	char build_id[BUILD_ID_SIZE];
	struct file_entry *vdso;
	int fd;

	if (files->vdso)
		return &files->vdso->file;
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	read_vdso_build_id(header, build_id);
	fd = mapped_files_copy_vdso(header);
	vdso = fd >= 0 ? mapped_files_add_entry(files) : NULL;
	if (!vdso || set_text(files, vdso, VDSO, build_id)) {
		if (vdso)
			forget_entry(files, vdso);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	mapped_files_keep(files, vdso, fd);
	vdso->state = FILE_OPENED;
	vdso->holds = 1;
	vdso->stays = true;
	files->vdso = vdso;
	return &vdso->file;
}

uint32_t mapped_files_vdso_index(const struct mapped_files *files)
{
	return files->vdso ? files->vdso->file.index : UINT32_MAX;
}

struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index)
{
	return &files->list[index]->file;
}

void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end)
{
	struct file_entry *entry = file_entry(file);

	(void)files;
	entry->pid = pid;
	entry->start = start;
	entry->end = end;
	entry->unmarked_sweeps = 0;
}

void mapped_file_release(struct mapped_files *files, struct mapped_file *file)
{
	(void)files;
	file_entry(file)->holds--;
}

/* Unwind tables */

int mapped_files_set_table_hooks(struct mapped_files *files, const struct table_hooks *hooks)
{
	struct file_opener *opener;

	files->table_hooks = hooks ? *hooks : (struct table_hooks){.arg = NULL};
	if (!hooks || files->event >= 0)
		return 0;
	file_key_read_boot(files->root, files->boot);
	files->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (files->event < 0)
		return -errno;
	opener = new_opener(files);
	if (!opener)
		return -ENOMEM;
	file_opener_free(files->opener);
	files->opener = opener;
	return 0;
}

int mapped_files_event(const struct mapped_files *files)
{
	return files->event;
}

void mapped_file_pin_for_table(struct mapped_files *files, struct mapped_file *file)
{
	(void)files;
	file_entry(file)->pinned = true;
}

void mapped_file_unpin_for_table(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);

	entry->pinned = false;
	close_table_fd(entry);
	release_if_opened(files, entry);
}

void mapped_file_drop_id(struct mapped_files *files, struct mapped_file *file)
{
	release_kernel_file(files, file_entry(file));
}

int mapped_file_open_for_table(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	struct file_job *job;
	int err;

	if (entry->opening_for_table || files->finished)
		return 0;
	close_table_fd(entry);
	/*
	 * With an id, the kernel verifies what the table is made of. A file that was opened by
	 * another id of the same identity may be a changed copy in an overlay file system.
	 */
	if (entry->fd >= 0 && !entry->id) {
		entry->table_fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		entry->table_owner = entry->owner;
		entry->table_id = 0;
		return 0;
	}
	job = open_job(entry, FILE_JOB_OPEN_FOR_TABLE);
	err = job ? file_opener_add(files->opener, job) : -ENOMEM;
	entry->opening_for_table = !err;
	return err;
}

int mapped_file_table_fd(struct mapped_files *files, struct mapped_file *file, struct error *error)
{
	struct file_entry *entry = file_entry(file);
	int fd = entry->table_fd;

	(void)files;
	if (entry->opening_for_table)
		return -EAGAIN;
	entry->table_fd = -1;
	return fd >= 0 ? fd : error_errno(error, -fd, "can't be opened");
}

uint32_t mapped_file_table_owner(const struct mapped_file *file)
{
	return ((const struct file_entry *)file)->table_owner;
}

/* The vDSO is the same one until the next boot. */
static bool vdso_table_key(const struct mapped_files *files, struct file_key *key)
{
	snprintf(key->build_id, sizeof(key->build_id), "%s", files->vdso->file.build_id);
	memcpy(key->boot, files->boot, sizeof(key->boot));
	return *key->build_id && *key->boot;
}

bool mapped_file_table_key(const struct mapped_files *files, const struct mapped_file *file,
			   struct file_key *key)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	const struct file_stamp *stamp = &entry->table_stamp;

	memset(key, 0, sizeof(*key));
	if (entry == files->vdso)
		return vdso_table_key(files, key);
	if (!entry->id || entry->table_id != entry->id || !entry->is_lasting ||
	    !stamp->is_settled || entry->table_owner == FILE_UID_ANY)
		return false;
	key->device = entry->identity.device;
	key->inode = entry->identity.inode;
	key->generation = entry->identity.generation;
	key->size = stamp->size;
	key->changed_s = stamp->changed_s;
	key->changed_ns = stamp->changed_ns;
	key->owner = entry->table_owner;
	if (entry->has_kernel_id)
		snprintf(key->build_id, sizeof(key->build_id), "%s", entry->file.build_id);
	/* Another file system may have a number without a block device after the next boot. */
	if (!major(entry->identity.device))
		memcpy(key->boot, files->boot, sizeof(key->boot));
	return major(entry->identity.device) || *key->boot;
}

void mapped_file_prove(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	struct file_key key;

	if (entry == files->vdso || !mapped_file_table_key(files, file, &key))
		return;
	if (!entry->proven) {
		entry->proven = malloc(sizeof(*entry->proven));
		files->entries_bytes += entry->proven ? sizeof(*entry->proven) : 0;
	}
	/* Without memory, nothing that is read of the file is kept. */
	if (!entry->proven)
		return;
	*entry->proven = key;
	entry->proven_stamp = entry->table_stamp;
}

bool mapped_file_symbols_key(const struct mapped_files *files, const struct mapped_file *file,
			     int fd, struct file_key *key)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	const struct file_stamp *stamp = &entry->proven_stamp;
	struct file_owner owner;
	struct stat st;

	(void)files;
	if (!entry->proven || fstat(fd, &st) || st.st_dev != stamp->device ||
	    st.st_ino != stamp->inode || (uint64_t)st.st_size != stamp->size ||
	    st.st_ctim.tv_sec != stamp->changed_s || st.st_ctim.tv_nsec != stamp->changed_ns)
		return false;
	file_owner_read(&owner, fd);
	*key = *entry->proven;
	return owner.uid == key->owner;
}

uint64_t mapped_file_kernel_id(const struct mapped_files *files, const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry == files->vdso ? STACKBEAT_FILE_VDSO : entry->id;
}

bool mapped_file_is_held(const struct mapped_file *file)
{
	return ((const struct file_entry *)file)->holds;
}

/* Too many descriptors */

static size_t list_kept(const struct mapped_files *files, struct kept_file *kept)
{
	size_t count = 0;

	for (size_t i = 0; i < files->count; i++) {
		const struct file_entry *entry = files->list[i];

		if (entry && entry->fd >= 0 && entry != files->vdso)
			kept[count++] = (struct kept_file){
				.file = entry->file.index,
				.owner = entry->owner,
				.is_linked = is_file_linked(entry->fd),
			};
	}
	return count;
}

/* Closes descriptors if there are too many, and one eighth more, as it takes a while. */
static void bound_kept(struct mapped_files *files)
{
	size_t max = kept_files_max(files->source.open_max ? files->source.open_max
							   : MAPPED_FILES_OPEN_MAX);
	struct kept_file *kept;
	size_t count;

	if (files->kept_count <= max)
		return;
	kept = calloc(files->kept_count, sizeof(*kept));
	if (!kept)
		return;
	count = list_kept(files, kept);
	kept_files_sort(kept, count);
	for (size_t i = 0; i < count && files->kept_count > max - max / 8; i++)
		close_kept(files, files->list[kept[i].file]);
	free(kept);
}

/* Results of the threads */

static void mapped_files_set_problem(struct mapped_files *files, struct file_entry *entry,
				     const char *text)
{
	char *problem = strdup(text);

	if (!problem)
		return;
	files->entries_bytes -= problem_bytes(entry);
	free(entry->own_problem);
	entry->own_problem = problem;
	entry->file.problem = problem;
	files->entries_bytes += problem_bytes(entry);
}

static void clear_problem(struct file_entry *entry)
{
	free(entry->own_problem);
	entry->own_problem = NULL;
	entry->file.problem = "";
}

/* Returns a job of the copier with its own descriptor of the file, or NULL with errno set. */
static struct file_job *copier_job(const struct file_entry *entry, enum file_job_kind kind)
{
	struct file_job *job = file_job_new(kind, entry->file.index);
	int code;

	if (!job)
		return NULL;
	job->identity = entry->identity;
	job->owner = (struct file_owner){entry->owner, !entry->is_untrusted};
	job->fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
	if (job->fd >= 0)
		return job;
	code = errno;
	file_job_free(job);
	errno = code;
	return NULL;
}

static void save_failed(struct mapped_files *files, const struct error *problem)
{
	if (!files->counts.not_saved)
		files->save_problem = *problem;
	files->counts.not_saved++;
}

static int request_save(struct mapped_files *files, const struct file_entry *entry)
{
	struct file_job *job = copier_job(entry, FILE_JOB_SAVE);

	if (!job)
		return -errno;
	if (*entry->file.build_id) {
		job->build_id = strdup(entry->file.build_id);
		if (!job->build_id) {
			file_job_free(job);
			return -ENOMEM;
		}
	}
	return file_opener_add(files->copier, job);
}

/* Saves a file that is open, once. */
static void mapped_files_save_entry(struct mapped_files *files, struct file_entry *entry)
{
	struct error problem;
	int err;

	if (!files->store || entry->saving || entry->fd < 0)
		return;
	entry->saving = true;
	if (!*entry->file.build_id && !entry->headers_not_read) {
		files->counts.without_id++;
		return;
	}
	err = request_save(files, entry);
	if (!err)
		return;
	error_errno(&problem, -err, "%s", entry->file.path);
	save_failed(files, &problem);
}

int mapped_file_hold(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	int err = mapped_files_request(files, entry);

	if (err)
		return err;
	entry->holds++;
	/* The other files are saved when they were opened. */
	if (entry == files->vdso)
		mapped_files_save_entry(files, entry);
	return 0;
}

static void finish_open(struct mapped_files *files, struct file_entry *entry, struct file_job *job)
{
	entry->state = job->err == -ETIMEDOUT ? FILE_HUNG : FILE_OPENED;
	release_kernel_file(files, entry);
	if (job->err) {
		mapped_files_set_problem(files, entry, job->problem.text);
		return;
	}
	entry->owner = job->owner.uid;
	entry->is_untrusted = !job->owner.is_trusted;
	clear_problem(entry);
	mapped_files_keep(files, entry, job->fd);
	job->fd = -1;
	files->counts.opened++;
	mapped_files_save_entry(files, entry);
	bound_kept(files);
}

/* A file that was closed meanwhile, or can't be copied, stays as it is. */
static void finish_copy(struct mapped_files *files, struct file_entry *entry, struct file_job *job)
{
	entry->copying = false;
	if (job->err || entry->fd < 0) {
		files->copies_bytes -= entry->identity.size;
		entry->stays = true;
		return;
	}
	mapped_files_keep(files, entry, job->fd);
	job->fd = -1;
	entry->is_copy = true;
}

static void finish_open_for_table(struct file_entry *entry, struct file_job *job)
{
	entry->opening_for_table = false;
	entry->table_owner = job->err ? FILE_UID_ANY : job->owner.uid;
	entry->table_id = job->err ? 0 : job->id;
	entry->table_stamp = job->stamp;
	if (!entry->pinned)
		return;
	close_table_fd(entry);
	entry->table_fd = job->err ? job->err : job->fd;
	job->fd = -1;
}

static void mapped_files_finish_job(struct mapped_files *files, struct file_job *job)
{
	struct file_entry *entry = files->list[job->file];

	switch (job->kind) {
	case FILE_JOB_OPEN:
		finish_open(files, entry, job);
		break;
	case FILE_JOB_OPEN_FOR_TABLE:
		finish_open_for_table(entry, job);
		break;
	case FILE_JOB_COPY:
		finish_copy(files, entry, job);
		break;
	case FILE_JOB_SAVE: /* its entry may be another one by now */
		if (job->err == -ENODATA)
			files->counts.without_id++;
		else if (job->err)
			save_failed(files, &job->problem);
		else
			files->counts.saved++;
		break;
	}
	file_job_free(job);
}

static void collect_from(struct mapped_files *files, struct file_opener *opener)
{
	struct file_job *job = file_opener_take(opener), *next;

	for (; job; job = next) {
		next = job->next;
		mapped_files_finish_job(files, job);
	}
}

void mapped_files_collect(struct mapped_files *files)
{
	eventfd_t count;

	if (files->event >= 0)
		eventfd_read(files->event, &count);
	collect_from(files, files->opener);
	collect_from(files, files->copier);
}

/* Sweeps */

void mapped_files_mark(struct mapped_files *files, uint32_t index)
{
	files->list[index]->unmarked_sweeps = 0;
}

/*
 * Replaces the descriptor by a copy's, if the file has a name: without one, only a process
 * that has it open keeps its file system from being unmounted.
 */
static void copy_unmapped(struct mapped_files *files, struct file_entry *entry)
{
	struct file_job *job;

	if (entry->is_copy || entry->copying || entry->stays || !is_file_linked(entry->fd))
		return;
	entry->stays = entry->identity.size > MAPPED_FILES_COPY_MAX ||
		       entry->identity.size > MAPPED_FILES_COPIES_MAX - files->copies_bytes;
	job = entry->stays ? NULL : copier_job(entry, FILE_JOB_COPY);
	if (!job || file_opener_add(files->copier, job))
		return;
	entry->copying = true;
	files->copies_bytes += entry->identity.size;
}

static bool is_forgettable(const struct file_entry *entry)
{
	return !entry->holds && !entry->id && !entry->id_count && !entry->copying &&
	       !entry->pinned && !entry->opening_for_table && entry->state != FILE_REQUESTED &&
	       entry->unmarked_sweeps >= SWEEPS_FORGOTTEN;
}

/*
 * A file may be mapped for weeks, and what hung may be another file of its file system. If it
 * hangs again, that takes no more threads than FILE_OPENER_STUCK_MAX_PER_DEVICE.
 */
static void try_again(struct mapped_files *files, struct file_entry *entry)
{
	if (++entry->hung_sweeps < SWEEPS_HUNG)
		return;
	entry->hung_sweeps = 0;
	entry->state = FILE_UNTOUCHED;
	/* Without memory, the next stack with a frame in it requests it. */
	if (entry->holds)
		mapped_files_request(files, entry);
}

static void sweep_entry(struct mapped_files *files, struct file_entry *entry)
{
	bool is_unmapped = entry->unmarked_sweeps >= SWEEPS_UNMARKED;

	if (entry->state == FILE_HUNG)
		try_again(files, entry);
	if (entry->unmarked_sweeps < SWEEPS_FORGOTTEN)
		entry->unmarked_sweeps++;
	if (is_unmapped && entry->state == FILE_UNTOUCHED)
		release_kernel_file(files, entry);
	if (is_unmapped && entry->fd >= 0 && entry->holds)
		copy_unmapped(files, entry);
	if (is_forgettable(entry))
		forget_entry(files, entry);
}

void mapped_files_watch(struct mapped_files *files)
{
	file_opener_watch(files->opener);
	file_opener_watch(files->copier);
	mapped_files_collect(files);
}

void mapped_files_sweep(struct mapped_files *files)
{
	file_ids_sweep(&files->ids, forget_id, files);
	mapped_files_watch(files);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			sweep_entry(files, files->list[i]);
	}
}

/* The end */

void mapped_files_abandon(struct mapped_files *files)
{
	if (!files || files->finished)
		return;
	file_opener_cancel(files->opener);
	file_opener_cancel(files->copier);
	file_opener_finish(files->opener);
	file_opener_finish(files->copier);
	files->finished = true;
}

void mapped_files_finish(struct mapped_files *files)
{
	if (files->finished)
		return;
	file_opener_finish(files->opener);
	collect_from(files, files->opener);
	file_opener_finish(files->copier);
	collect_from(files, files->copier);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			release_kernel_file(files, files->list[i]);
	}
	files->finished = true;
}

void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts)
{
	*counts = files->counts;
}

const char *mapped_files_save_problem(const struct mapped_files *files)
{
	return files->save_problem.text;
}

/* Opened files */

void mapped_files_forked(struct mapped_files *files)
{
	files->finished = true;
	files->store = NULL;
}

void mapped_file_set_build_id(struct mapped_files *files, struct mapped_file *file,
			      const char *build_id)
{
	struct file_entry *entry = file_entry(file);

	/* Without memory, it stays unknown. */
	if (!*file->build_id)
		set_text(files, entry, file->path, build_id);
}

bool mapped_file_identity(const struct mapped_file *file, struct file_identity *identity)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	*identity = entry->identity;
	return entry->announced && identity->inode && entry->fd >= 0;
}

uint32_t mapped_file_owner(const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry->state == FILE_OPENED && !*file->problem ? entry->owner : FILE_UID_ANY;
}

/* Returns an fd at a place where the file may be: the same inode, unless its build ID proves it. */
static int open_at_place(const struct mapped_files *files, const struct file_entry *entry,
			 unsigned int number)
{
	const struct file_place place = {
		.path = entry->file.path,
		.pid = entry->pid,
		.start = entry->start,
		.end = entry->end,
	};

	return find_mapped_file_timed(files->root, &place, number,
				      entry->has_kernel_id ? NULL : &entry->identity);
}

int mapped_file_open_candidate(const struct mapped_files *files, const struct mapped_file *file,
			       unsigned int candidate, struct error *error)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	int fd;

	if (candidate == 0 && entry->fd >= 0) {
		fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	if (entry->announced && entry->state != FILE_HUNG && candidate <= FILE_PLACES)
		return candidate ? open_at_place(files, entry, candidate - 1) : -ESTALE;
	if (*file->problem)
		error_set(error, ENOENT, "%s", file->problem);
	return -ENOENT;
}
