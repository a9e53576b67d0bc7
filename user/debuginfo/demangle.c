// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/* The demangler recurses: a longer name could overflow the stack. */
#define MANGLED_MAX 16384u

struct writer {
	char *text;
	size_t length;
	jmp_buf overflow;
};

/* longjmp() is the only way to stop the demangler; it holds no memory that would leak. */
static void append_text(const char *text, size_t length, void *opaque)
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

	if ((strncmp(name, "_Z", 2) && strncmp(name, "_R", 2)) ||
	    strnlen(name, MANGLED_MAX) == MANGLED_MAX || setjmp(writer.overflow) != 0)
		return false;
	/* Rust's legacy names have a hash ("17h"), which is rare in C++ names. */
	if ((name[1] == 'Z' && !strstr(name, "17h")) ||
	    !rust_demangle_callback(name, DMGL_NO_OPTS, append_text, &writer)) {
		writer.length = 0;
		if (!cplus_demangle_v3_callback(name, DMGL_NO_OPTS, append_text, &writer))
			return false;
	}
	text[writer.length] = '\0';
	return writer.length > 0;
}
