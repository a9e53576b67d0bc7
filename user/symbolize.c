// SPDX-License-Identifier: GPL-2.0
#include "symbolize.h"

#include "error.h"
#include "kallsyms.h"
#include "objects.h"
#include "space.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <search.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A few bytes of a mangled name can stand for gigabytes. */
#define DEMANGLED_MAX 4096u

/* Each unique place: `owner` is an object, a space, or the symbolizer (kernel). */
struct frame {
	struct frame_name name; /* first: it is what callers get */
	const void *owner;
	uint32_t place; /* see space.h; 0 for the kernel */
};

struct demangled {
	const char *system_name; /* key: the pointer */
	char function[];
};

struct kernel_part {
	const char *module; /* key: the pointer; NULL: the kernel itself */
	char path[128];
	char build_id[BUILD_ID_SIZE];
};

struct symbolizer {
	const struct kallsyms *kallsyms;
	const struct objects *objects;
	char *root;
	void *frames; /* trees of tsearch() */
	void *demangled;
	void *kernel_parts;
};

struct writer {
	char text[DEMANGLED_MAX];
	size_t length;
	jmp_buf overflow;
};

static int compare_pointers(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

static int compare_frames(const void *a, const void *b)
{
	const struct frame *left = a, *right = b;

	if (left->name.vaddr != right->name.vaddr)
		return left->name.vaddr < right->name.vaddr ? -1 : 1;
	if (left->place != right->place)
		return left->place < right->place ? -1 : 1;
	return compare_pointers(left->owner, right->owner);
}

static int compare_demangled(const void *a, const void *b)
{
	const struct demangled *left = a, *right = b;

	return compare_pointers(left->system_name, right->system_name);
}

static int compare_kernel_parts(const void *a, const void *b)
{
	const struct kernel_part *left = a, *right = b;

	return compare_pointers(left->module, right->module);
}

struct symbolizer *symbolizer_new(const struct kallsyms *kallsyms, const struct objects *objects,
				  const char *root, struct error *error)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	if (symbolizer)
		symbolizer->root = strdup(root);
	if (!symbolizer || !symbolizer->root) {
		free(symbolizer);
		error_errno(error, ENOMEM, "can't make the table of names");
		return NULL;
	}
	symbolizer->kallsyms = kallsyms;
	symbolizer->objects = objects;
	return symbolizer;
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	tdestroy(symbolizer->frames, free);
	tdestroy(symbolizer->demangled, free);
	tdestroy(symbolizer->kernel_parts, free);
	free(symbolizer->root);
	free(symbolizer);
}

/* Puts a new item into a tree. Frees it and returns NULL when out of memory. */
static void *tree_add(void **tree, void *item, int (*compare)(const void *, const void *))
{
	void **node = tsearch(item, tree, compare);

	if (!node) {
		free(item);
		return NULL;
	}
	/* As tsearch() has set it. Analyzers do not know that, and would see a leak. */
	*node = item;
	return item;
}

/* Demangling */

/* The demangler can't be told to stop, but keeps nothing that would leak. */
static void write_text(const char *text, size_t length, void *opaque)
{
	struct writer *writer = opaque;

	if (length >= sizeof(writer->text) - writer->length)
		longjmp(writer->overflow, 1);
	memcpy(writer->text + writer->length, text, length);
	writer->length += length;
}

static bool demangle(struct writer *writer, const char *name)
{
	if (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0)
		return false;
	if (setjmp(writer->overflow) != 0)
		return false;
	writer->length = 0;
	if (!rust_demangle_callback(name, DMGL_NO_OPTS, write_text, writer)) {
		writer->length = 0;
		if (!cplus_demangle_v3_callback(name, DMGL_NO_OPTS, write_text, writer))
			return false;
	}
	writer->text[writer->length] = '\0';
	return writer->length > 0;
}

/* `name` itself if it is not mangled; NULL when out of memory. */
static const char *function_name(struct symbolizer *symbolizer, const char *name)
{
	const struct demangled key = {.system_name = name};
	struct demangled *demangled, **node;
	struct writer writer;

	node = tfind(&key, &symbolizer->demangled, compare_demangled);
	if (node)
		return (*node)->function;
	if (!demangle(&writer, name))
		return name;
	demangled = malloc(sizeof(*demangled) + writer.length + 1);
	if (!demangled)
		return NULL;
	demangled->system_name = name;
	memcpy(demangled->function, writer.text, writer.length + 1);
	demangled = tree_add(&symbolizer->demangled, demangled, compare_demangled);
	return demangled ? demangled->function : NULL;
}

/* Frames */

static struct frame *find_frame(const struct symbolizer *symbolizer, const void *owner,
				uint32_t place, uint64_t vaddr)
{
	const struct frame key = {.name.vaddr = vaddr, .owner = owner, .place = place};
	struct frame **node = tfind(&key, &symbolizer->frames, compare_frames);

	return node ? *node : NULL;
}

static struct frame *add_frame(struct symbolizer *symbolizer, const void *owner, uint32_t place,
			       uint64_t vaddr)
{
	struct frame *frame = calloc(1, sizeof(*frame));

	if (!frame)
		return NULL;
	frame->owner = owner;
	frame->place = place;
	frame->name.vaddr = vaddr;
	frame->name.mapping_path = "";
	frame->name.build_id = "";
	return tree_add(&symbolizer->frames, frame, compare_frames);
}

/* Sets the name of a frame. Without memory the name stays as in the object. */
static void set_symbol(struct symbolizer *symbolizer, struct frame_name *frame, const char *name,
		       uint64_t start)
{
	const char *function = function_name(symbolizer, name);

	frame->system_name = name;
	frame->function = function ? function : name;
	frame->start = start;
	frame->resolved = true;
}

/* Kernel */

static const struct kernel_part *kernel_part(struct symbolizer *symbolizer, const char *module)
{
	const struct kernel_part key = {.module = module};
	struct kernel_part *part, **node;
	char notes[PATH_MAX];

	node = tfind(&key, &symbolizer->kernel_parts, compare_kernel_parts);
	if (node)
		return *node;
	part = calloc(1, sizeof(*part));
	if (!part)
		return NULL;
	part->module = module;
	if (module) {
		snprintf(part->path, sizeof(part->path), "[%s]", module);
		snprintf(notes, sizeof(notes), "%s/sys/module/%s/notes/.note.gnu.build-id",
			 symbolizer->root, module);
	} else {
		snprintf(part->path, sizeof(part->path), "%s", KERNEL_MAPPING);
		snprintf(notes, sizeof(notes), "%s%s", symbolizer->root, KERNEL_NOTES_PATH);
	}
	kernel_build_id(notes, part->build_id, NULL); /* "" without */
	return tree_add(&symbolizer->kernel_parts, part, compare_kernel_parts);
}

const struct frame_name *symbolize_kernel(struct symbolizer *symbolizer, uint64_t address)
{
	struct frame *frame = find_frame(symbolizer, symbolizer, PLACE_NONE, address);
	const char *name, *module = NULL;
	const struct kernel_part *part;
	uint64_t start;
	bool found;

	if (frame)
		return &frame->name;
	found = symbolizer->kallsyms &&
		kallsyms_lookup(symbolizer->kallsyms, address, &name, &start, &module);
	part = kernel_part(symbolizer, module);
	if (!part)
		return NULL;
	frame = add_frame(symbolizer, symbolizer, PLACE_NONE, address);
	if (!frame)
		return NULL;
	frame->name.kernel = true;
	frame->name.mapping_path = part->path;
	frame->name.build_id = part->build_id;
	if (found)
		set_symbol(symbolizer, &frame->name, name, start);
	return &frame->name;
}

/* User */

/* Where nothing but an address is known: each space has its own. */
static const struct frame_name *symbolize_memory(struct symbolizer *symbolizer,
						 const struct space *space, uint32_t place,
						 uint64_t address)
{
	static const char *const paths[PLACE_OBJECTS] = {
		[PLACE_ANON] = "[anon]",
		[PLACE_VSYSCALL] = "[vsyscall]",
		[PLACE_VDSO] = "[vdso]",
	};
	struct frame *frame = find_frame(symbolizer, space, place, address);

	if (frame)
		return &frame->name;
	frame = add_frame(symbolizer, space, place, address);
	if (!frame)
		return NULL;
	if (paths[place])
		frame->name.mapping_path = paths[place];
	return &frame->name;
}

const struct frame_name *symbolize_user(struct symbolizer *symbolizer, const struct space *space,
					uint32_t place, uint64_t number)
{
	bool is_offset;
	const struct object *object = place_object(symbolizer->objects, place, &is_offset);
	struct symbol symbol;
	struct frame *frame;

	if (!object)
		return symbolize_memory(symbolizer, space, place, number);
	/* The kernel could not read its segments. */
	if (is_offset && object_vaddr(object, number, &number))
		place--;
	/* The place in the object is the same for all processes that map it. */
	frame = find_frame(symbolizer, object, place, number);
	if (frame)
		return &frame->name;
	frame = add_frame(symbolizer, object, place, number);
	if (!frame)
		return NULL;
	frame->name.mapping_path = *object->path ? object->path : "[file]";
	frame->name.build_id = object->build_id;
	frame->name.normalized = (place - PLACE_OBJECTS) % 2 == 0;
	if (frame->name.normalized && object_lookup(object, number, &symbol))
		set_symbol(symbolizer, &frame->name, symbol.name, symbol.start);
	return &frame->name;
}

/* Roots */

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
	size_t length;

	for (size_t i = 0; i < count; i++) {
		length = strlen(list[i]);
		/* The compiler and Go add ".constprop.0", ".abi0" and the like. */
		if (strncmp(name, list[i], length) == 0 &&
		    (name[length] == '\0' || name[length] == '.'))
			return true;
	}
	return false;
}

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof((list)[0]))

/* Names that no program has for functions of its own. */
static bool is_reserved_root(const char *name)
{
	static const char *const roots[] = {
		"_start",
		"_start_c",
		"_dl_start",
		"_dl_start_user",
		"__libc_start_main",
		"__libc_start_main_impl",
		"__libc_start_call_main",
		"libc_start_main_stage2",
		"__clone",
		"__clone3",
		"__clone_internal",
		"runtime.goexit",
		"runtime.rt0_go",
		"runtime.mstart",
		"_rt0_amd64",
		"_rt0_amd64_linux",
		"_rt0_arm64_linux",
	};

	return IS_ONE_OF(name, roots);
}

/* Names of the C library that a program may use too. */
static bool is_library_root(const char *name)
{
	static const char *const roots[] = {"start_thread", "clone", "clone3"};

	return IS_ONE_OF(name, roots);
}

bool symbolize_is_root(const char *system_name)
{
	return is_reserved_root(system_name) || is_library_root(system_name);
}

/* Whether a file is the C library or the dynamic loader, by its name. */
static bool is_c_library(const char *path)
{
	static const char *const names[] = {"libc.so",    "libc-2.",  "libc.musl-",
					    "libpthread", "ld-linux", "ld-musl-",
					    "ld-2.",      "ld.so",    "ld64.so"};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

static bool is_root_frame(const struct frame_name *const *frames, size_t index, size_t count)
{
	const struct frame_name *frame = frames[index];
	bool in_library = is_c_library(frame->mapping_path);

	if (frame->resolved && is_reserved_root(frame->system_name))
		return true;
	/* In a static program it can't be told from a function of the program. */
	if (frame->resolved)
		return is_library_root(frame->system_name) && (in_library || index + 1 == count);
	return in_library && index > 0 && frames[index - 1]->resolved &&
	       strcmp(frames[index - 1]->system_name, "main") == 0;
}

size_t symbolize_complete(const struct frame_name *const *frames, size_t count,
			  enum stackbeat_end end)
{
	for (size_t i = count; i > 0; i--) {
		if (is_root_frame(frames, i - 1, count))
			return i;
	}
	return end == STACKBEAT_END_ROOT ? count : 0;
}
