// SPDX-License-Identifier: GPL-2.0
#include "symbolize/stack_roots.h"

#include <string.h>

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
	size_t length;

	for (size_t i = 0; i < count; i++) {
		length = strlen(list[i]);
		/* The compiler and Go append suffixes such as ".constprop.0" and ".abi0". */
		if (!strncmp(name, list[i], length) &&
		    (name[length] == '\0' || name[length] == '.'))
			return true;
	}
	return false;
}

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof((list)[0]))

/* Reserved names, which no program uses for its own functions. */
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

/* Names of C library functions that a program may use for its own functions, too. */
static bool is_library_root(const char *name)
{
	static const char *const roots[] = {"start_thread", "clone", "clone3"};

	return IS_ONE_OF(name, roots);
}

bool stack_is_root(const char *system_name)
{
	return is_reserved_root(system_name) || is_library_root(system_name);
}

/* Whether a path names the C library or the dynamic loader. */
static bool is_c_library(const char *path)
{
	static const char *const names[] = {"libc.so",    "libc-2.",  "libc.musl-",
					    "libpthread", "ld-linux", "ld-musl-",
					    "ld-2.",      "ld.so",    "ld64.so"};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static bool is_root_frame(const struct root_frame *frames, size_t index, size_t count)
{
	const struct root_frame *frame = &frames[index];
	bool in_library = is_c_library(frame->path);

	if (frame->system_name && is_reserved_root(frame->system_name))
		return true;
	/* In a static program a library function looks like a function of the program. */
	if (frame->system_name)
		return is_library_root(frame->system_name) && (in_library || index + 1 == count);
	return in_library && index > 0 && frames[index - 1].system_name &&
	       !strcmp(frames[index - 1].system_name, "main");
}

size_t stack_root_depth(const struct root_frame *frames, size_t count)
{
	for (size_t i = count; i > 0; i--) {
		if (is_root_frame(frames, i - 1, count))
			return i;
	}
	return 0;
}
