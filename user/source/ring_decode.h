/* SPDX-License-Identifier: GPL-2.0 */
/* Decodes and verifies the records of a ring: a record is used only between tail and head. */
#ifndef STACKBEAT_SOURCE_RING_DECODE_H
#define STACKBEAT_SOURCE_RING_DECODE_H

#include <stdint.h>

#include <stackbeat.h>

struct error;

/*
 * Handles a verified sample, and the verified copy of its stack, or NULL. Returns 0, or a negative
 * errno value to stop.
 */
typedef int decode_sample_fn(const struct stackbeat_sample *sample,
			     const struct stackbeat_stack *stack, void *arg);

/*
 * In the flags of struct stackbeat_stack, beside STACKBEAT_STACK_*: the bytes that perf events have
 * asked for, which are more than `size` where memory ends. 0: what the session asks for.
 */
#define DECODE_STACK_ASKED 0xfff8u

/*
 * Handles the first samples of `available` unverified bytes, as long as they equal samples that
 * were verified before. Returns the number of bytes of these samples. The next record is verified,
 * and passed to the decode_sample_fn.
 */
typedef uint64_t decode_fast_path_fn(const void *data, uint64_t available, void *arg);

/*
 * Passes the samples between *tail and head to `fn`, oldest first, and advances *tail behind each
 * that `fn` has handled.
 * `data` is the ring of `size` bytes, a power of two; head and tail are byte counts as in
 * stackbeat.h. Records of unknown type are skipped. `fast_path` is called before each record is
 * verified; it may be NULL.
 *
 * Returns 0; the error of `fn`; or -EBADMSG when a record is malformed: no record behind it can be
 * trusted, and *tail is set to head.
 */
int decode_records(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		   decode_fast_path_fn *fast_path, decode_sample_fn *fn, void *arg,
		   struct error *error);

/* Handlers of the records of the metadata ring. They return like decode_sample_fn. */
struct metadata_handler {
	int (*address_space)(const struct stackbeat_address_space *record, void *arg);
	int (*mapping)(const struct stackbeat_mapping *record, void *arg);
	int (*file)(const struct stackbeat_file *record, void *arg);
	void *arg;
};

/* Like decode_records(), for the metadata ring. Strings in the records are terminated. */
int decode_metadata(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		    const struct metadata_handler *handler, struct error *error);

#endif
