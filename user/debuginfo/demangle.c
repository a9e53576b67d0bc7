// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/* The demangler recurses: a longer name could take all of the stack. */
#define MANGLED_MAX 16384u

struct writer {
	char *text;
	size_t length;
	jmp_buf overflow;
};

/* The demangler can't be told to stop, but keeps nothing that would leak. */
static void write_text(const char *text, size_t length, void *opaque)
{
	struct writer *writer = opaque;

	if (length >= DEMANGLED_MAX - writer->length)
		longjmp(writer->overflow, 1);
	memcpy(writer->text + writer->length, text, length);
	writer->length += length;
}

bool demangle(const char *name, char text[DEMANGLED_MAX])
{
	struct writer writer = {.text = text};

	if ((strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0) ||
	    strnlen(name, MANGLED_MAX) == MANGLED_MAX || setjmp(writer.overflow) != 0)
		return false;
	/* Rust's legacy names have a hash; of C++ they are few. */
	if ((name[1] == 'Z' && !strstr(name, "17h")) ||
	    !rust_demangle_callback(name, DMGL_NO_OPTS, write_text, &writer)) {
		writer.length = 0;
		if (!cplus_demangle_v3_callback(name, DMGL_NO_OPTS, write_text, &writer))
			return false;
	}
	text[writer.length] = '\0';
	return writer.length > 0;
}
