/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records of a ring, checked: nothing of a record is used before it is
 * known to lie between tail and head.
 */
#ifndef STACKBEAT_SESSION_RING_DECODE_H
#define STACKBEAT_SESSION_RING_DECODE_H

#include <stdint.h>

#include <stackbeat.h>

struct error;

/* Gets a sample whose lengths were checked. Returns 0, or a negative errno value to stop. */
typedef int decode_sample_fn(const struct stackbeat_sample *sample, void *arg);

/*
 * Gets what is in the ring next, `available` bytes that nobody has checked. Takes the samples at
 * its beginning that are the same as samples that were checked; returns their bytes. The next
 * record is checked, and goes on.
 */
typedef uint64_t decode_fast_path_fn(const void *data, uint64_t available, void *arg);

/*
 * Hands the samples between *tail and head to `fn`, oldest first, and advances
 * *tail behind each. `data` are the `size` bytes of a ring, a power of two; head
 * and tail are byte counts as in stackbeat.h. Records of unknown type are
 * skipped. `repeat` is asked before each; NULL: nobody is.
 *
 * Returns 0; what `fn` returned; or -EBADMSG when a record is malformed: then
 * nothing behind it can be trusted, and *tail is set to head.
 */
int decode_records(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		   decode_fast_path_fn *repeat, decode_sample_fn *fn, void *arg,
		   struct error *error);

/* What gets the records of the metadata ring. Each returns as a decode_sample_fn. */
struct metadata_handler {
	int (*space)(const struct stackbeat_address_space *space, void *arg);
	int (*mapping)(const struct stackbeat_mapping *mapping, void *arg);
	int (*object)(const struct stackbeat_file *object, void *arg);
	void *arg;
};

/* As decode_records(), for the metadata ring. Texts in the records end. */
int decode_metadata(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		    const struct metadata_handler *handler, struct error *error);

#endif
