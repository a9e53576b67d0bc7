/* SPDX-License-Identifier: GPL-2.0 */
/* The machine code of a function, with the values and source lines of each instruction. */
#ifndef STACKBEAT_REPORT_ANNOTATION_H
#define STACKBEAT_REPORT_ANNOTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/disassembler.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "symbolize/source_line.h"

struct profile;
struct symbol_source;
struct symbolize_options;

struct annotated_instruction {
	struct instruction code;
	int64_t self; /* of samples that were taken there */
	int64_t cum; /* also of samples in functions that it has called */
	struct source_line *lines; /* functions inlined there, innermost first */
	size_t line_count;
	size_t last_sample; /* private: 1 + number of the sample that was added last */
};

struct annotated_function {
	const char *path, *build_id; /* of the file, strings of the profile */
	const char *name;
	uint64_t start, size; /* ELF virtual addresses */
	int64_t self, cum;
	struct annotated_instruction *instructions; /* in the order of their addresses */
	size_t count, capacity;
	size_t file; /* private, as all below */
	uint64_t shift;
	size_t last_sample;
};

/* All zero: empty. */
struct annotation {
	struct annotated_function *functions; /* those with the largest `self` first */
	size_t count, capacity;
	size_t type; /* of the values */
	int64_t total; /* of the profile */
	bool is_inlined; /* the name is of inlined code, and `functions` have it */
	/* Why functions of the kernel with the name, or instructions, are missing; "": none is. */
	struct error left_out;
	struct string_table strings;
};

struct annotation_query {
	/*
	 * Of a function, as it is or demangled, perhaps without parameters; or FILE+0xADDRESS, as
	 * in reports, for the function there.
	 */
	const char *name;
	const char *file; /* path or its last component; NULL: any */
	const char *sample_type; /* NULL: the default of the profile */
	const char *advice; /* the end of the message that a file is missing; NULL: none */
	enum disassembler_syntax syntax;
};

/*
 * Finds the functions with a name that have samples in a symbolized profile, reads their code from
 * the files of `source`, and adds the values. A name that is only of inlined code finds the
 * functions that have it. Returns 0 with `annotation` filled, to be cleared in any case; -ENOENT if
 * the profile has no such function, -ENXIO if it has but the code is not there, -EINVAL for a
 * sample type that the profile does not have, or -ENOMEM; with `error` set.
 */
int annotation_make(const struct profile *profile, const struct annotation_query *query,
		    const struct symbol_source *source, const struct symbolize_options *options,
		    struct annotation *annotation, struct error *error);
/*
 * As annotation_make(), by the profile alone: the instructions are the addresses that have samples,
 * without size, bytes and text, with the lines of the profile. Addresses of a file are offsets in
 * it. Code of the kernel and generated code are not left out.
 */
int annotation_make_without_code(const struct profile *profile,
				 const struct annotation_query *query,
				 struct annotation *annotation, struct error *error);
void annotation_clear(struct annotation *annotation);

#endif
