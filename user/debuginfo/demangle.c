// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#include "debuginfo/elf_symbols.h"

/* The demangler recurses: a longer name could overflow the stack. */
#define MANGLED_MAX 16384u

struct demangle_buffer {
	char *text;
	size_t length;
	bool is_rust;
	bool full; /* the name is too long */
	jmp_buf overflow;
};

static bool is_ascii(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] >= 0x80)
			return false;
	}
	return true;
}

/*
 * longjmp() is the only way to stop a demangler. Rust's has allocated the text of an identifier
 * that is not ASCII, and frees it after the call: the next text, at the latest a separator,
 * stops it.
 */
static void demangle_append(const char *text, size_t length, void *opaque)
{
	struct demangle_buffer *writer = opaque;

	writer->full = writer->full || length >= DEMANGLED_MAX - writer->length;
	if (writer->full) {
		if (!writer->is_rust || is_ascii(text, length))
			longjmp(writer->overflow, 1);
		return;
	}
	memcpy(writer->text + writer->length, text, length);
	writer->length += length;
}

static bool demangle_whole(const char *name, char text[DEMANGLED_MAX])
{
	struct demangle_buffer writer = {.text = text};

	if ((strncmp(name, "_Z", 2) && strncmp(name, "_R", 2)) ||
	    strnlen(name, MANGLED_MAX) == MANGLED_MAX || setjmp(writer.overflow) != 0)
		return false;
	/* Rust's legacy names have a hash ("17h"), which is rare in C++ names. */
	writer.is_rust = name[1] == 'R' || strstr(name, "17h");
	if (!writer.is_rust ||
	    !rust_demangle_callback(name, DMGL_NO_OPTS, demangle_append, &writer)) {
		writer.is_rust = false;
		writer.full = false;
		writer.length = 0;
		if (!cplus_demangle_v3_callback(name, DMGL_NO_OPTS, demangle_append, &writer))
			return false;
	}
	text[writer.length] = '\0';
	return writer.length > 0 && !writer.full;
}

bool demangle(const char *name, char text[DEMANGLED_MAX])
{
	static const char suffix[] = ELF_STUB_SUFFIX;
	const size_t length = strnlen(name, MANGLED_MAX);
	char function[MANGLED_MAX];
	size_t end;

	if (length < sizeof(suffix) || length == MANGLED_MAX ||
	    strcmp(name + length - (sizeof(suffix) - 1), suffix) != 0)
		return demangle_whole(name, text);
	memcpy(function, name, length);
	function[length - (sizeof(suffix) - 1)] = '\0';
	if (!demangle_whole(function, text))
		return false;
	end = strlen(text);
	if (end + sizeof(suffix) > DEMANGLED_MAX)
		return false;
	memcpy(text + end, suffix, sizeof(suffix));
	return true;
}
