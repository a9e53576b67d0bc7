/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples whose user part is unwound a second time, by elfutils and a copy of the stack (record
 * --verify). The copies are kept until the recording has ended, in limited memory, and are
 * overwritten then.
 */
#ifndef STACKBEAT_RECORD_VERIFICATION_H
#define STACKBEAT_RECORD_VERIFICATION_H

#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct address_space;
struct mapped_files;
struct sandbox_server;
struct verification;

/* Bytes of all copies, with the mappings that they need. */
#define VERIFICATION_BYTES_MAX (64u << 20)

/* Returns NULL when out of memory. `files` must outlive it. verification_free() accepts NULL. */
struct verification *verification_new(struct mapped_files *files);
void verification_free(struct verification *verification);

/*
 * Keeps a sample, whose user part the module has unwound, and its copy. `space` is its address
 * space, which has advanced to its generation. Without memory, the sample is counted as dropped.
 */
void verification_add(struct verification *verification, const struct stackbeat_sample *sample,
		      const struct stackbeat_stack *stack, struct address_space *space);

/* As mapped_files_mark(), for the files that the samples need. Call it each second. */
void verification_mark(const struct verification *verification);

/* Returns the bytes of memory in use. */
size_t verification_bytes(const struct verification *verification);

/*
 * Unwinds all samples again, in workers of `sandbox`, and drops them. It takes `timeout_s` at most,
 * and a few seconds more if a file system hangs: the samples that are left then are counted as
 * late. A worker may take a part of this time only. Call it after mapped_files_finish().
 */
void verification_run(struct verification *verification, const struct sandbox_server *sandbox,
		      unsigned int timeout_s);

/* How two walks compare. */
enum comparison {
	COMPARED_EQUAL,
	COMPARED_LONGER, /* the first one has more frames than elfutils finds */
	COMPARED_SHORTER,
	COMPARED_DIFFERENT,
	COMPARISON_COUNT
};

/* Callers that were found for the frames in one file. */
struct verified_object {
	const char *path; /* owned by the verification; "": no file */
	uint64_t callers; /* all, with the end of a stack */
	uint64_t results[COMPARISON_COUNT];
};

struct verification_result {
	uint64_t results[COMPARISON_COUNT]; /* samples */
	uint64_t longer_outermost; /* of COMPARED_LONGER: those that end at the outermost caller */
	uint64_t dropped; /* samples for which there was no memory */
	uint64_t failed; /* samples that elfutils could not walk: its worker has crashed */
	uint64_t late; /* samples for which there was no time */
	const struct verified_object *objects; /* those with differences first, then by callers */
	size_t object_count;
};

/* Valid until the verification changes. */
void verification_result(const struct verification *verification,
			 struct verification_result *result);

#endif
