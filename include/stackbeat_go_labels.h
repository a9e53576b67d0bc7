/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Reads the labels of a goroutine from the memory of a Go program, which may hold anything, in bounded
 * time. The kernel module and the reader compile the same code.
 *
 * The labels are as in src/runtime/pprof/label.go of Go: from Go 1.24 on, a slice of pairs of strings;
 * before, a map from string to string, as in src/runtime/map.go.
 */
#ifndef STACKBEAT_GO_LABELS_H
#define STACKBEAT_GO_LABELS_H

#include <linux/stddef.h> /* __always_inline */

#include "stackbeat.h"

/*
 * Copies bytes of the program: a constant number of words, up to STACKBEAT_GO_WORDS_MAX, to aligned memory;
 * or a string of less than a page. For a string, the function may also write any bytes to the
 * STACKBEAT_GO_SLACK bytes behind `to` + `size`. Returns 0 if the bytes can't be read; then `to` has any
 * bytes.
 */
typedef int stackbeat_go_read(void *arg, __u64 address, void *to, __u32 size);

#define STACKBEAT_GO_WORDS_MAX 4u
#define STACKBEAT_GO_SLACK 8u /* bytes: a word of padding, or the rest of the last word of a string */

/* A string in Go. */
struct stackbeat_go_string {
	__u64 address, size;
};

struct stackbeat_go_label {
	struct stackbeat_go_string key, value;
};

struct stackbeat_go_slice {
	__u64 items, count;
};

/* The head of a map. */
struct stackbeat_go_map {
	__u64 count;
	__u8 flags; /* STACKBEAT_GO_MAP_SAME_SIZE, and others */
	__u8 bits; /* of the number of buckets */
	__u8 other[6];
	__u64 buckets, old_buckets;
};

#define STACKBEAT_GO_MAP_SAME_SIZE 8u /* there are as many old buckets as new ones; else half as many */
#define STACKBEAT_GO_MAP_BITS_MAX 3u /* of maps that are read */
#define STACKBEAT_GO_MAP_CHAIN_MAX 2u /* buckets that are read in the place of one */
#define STACKBEAT_GO_BUCKET_SLOTS 8u
#define STACKBEAT_GO_SLOT_IN_USE 5u /* least hash of a slot; below, it is empty, or moved away */

/* The layout of a bucket; it is read in parts. */
struct stackbeat_go_bucket {
	__u8 hashes[STACKBEAT_GO_BUCKET_SLOTS];
	struct stackbeat_go_string keys[STACKBEAT_GO_BUCKET_SLOTS];
	struct stackbeat_go_string values[STACKBEAT_GO_BUCKET_SLOTS];
	__u64 overflow; /* the next bucket of the chain */
};

/* Labels that are being written. */
struct stackbeat_go_labels_writer {
	__u8 *to; /* the next label */
	const __u8 *end; /* of the room for labels */
	__u32 missing; /* labels that were left out */
	__u32 count, flags; /* of struct stackbeat_go_labels */
	stackbeat_go_read *read;
	void *arg;
};

/* After this many labels that are left out, no more are read: each may take a page fault. */
#define STACKBEAT_GO_LABELS_MISSING_MAX 4u

/* Adds a label, or leaves it out. 0: further ones need not be read. */
static __always_inline int stackbeat_go_labels_add(struct stackbeat_go_labels_writer *writer,
						   const struct stackbeat_go_label *label)
{
	__u64 key = label->key.size, value = label->value.size;
	__u8 *to = writer->to;

	if (__builtin_expect(
		    key > STACKBEAT_GO_LABEL_KEY_MAX || value > STACKBEAT_GO_LABEL_VALUE_MAX, 0)) {
		writer->flags |= STACKBEAT_GO_LABELS_CUT;
		if (key > STACKBEAT_GO_LABEL_KEY_MAX)
			key = STACKBEAT_GO_LABEL_KEY_MAX;
		if (value > STACKBEAT_GO_LABEL_VALUE_MAX)
			value = STACKBEAT_GO_LABEL_VALUE_MAX;
	}
	if (writer->count == STACKBEAT_GO_LABELS_COUNT_MAX || to + 2 + key + value > writer->end ||
	    !writer->read(writer->arg, label->key.address, to + 2, key) ||
	    !writer->read(writer->arg, label->value.address, to + 2 + key, value)) {
		writer->flags |= STACKBEAT_GO_LABELS_CUT;
		return ++writer->missing < STACKBEAT_GO_LABELS_MISSING_MAX;
	}
	to[0] = key;
	to[1] = value;
	writer->to = to + 2 + key + value;
	writer->count++;
	return 1;
}

/* Reads a slice of labels. 0: part of it is left out. */
static __always_inline int stackbeat_go_labels_of_slice(struct stackbeat_go_labels_writer *writer,
							__u64 address)
{
	struct stackbeat_go_slice slice;
	struct stackbeat_go_label label;
	__u32 i;

	if (!writer->read(writer->arg, address, &slice, sizeof(slice)))
		return 0;
	for (i = 0; i < slice.count; i++) {
		if (i == STACKBEAT_GO_LABELS_COUNT_MAX ||
		    !writer->read(writer->arg, slice.items + i * sizeof(label), &label,
				  sizeof(label)) ||
		    !stackbeat_go_labels_add(writer, &label))
			return 0;
	}
	return 1;
}

/* Reads the label in a slot of a bucket, and adds it. 0: it could not be read, or there is no room. */
static __always_inline int stackbeat_go_labels_of_slot(struct stackbeat_go_labels_writer *writer,
						       __u64 bucket, __u32 slot)
{
	const __u64 keys = bucket + __builtin_offsetof(struct stackbeat_go_bucket, keys);
	const __u64 values = bucket + __builtin_offsetof(struct stackbeat_go_bucket, values);
	struct stackbeat_go_label label = { { 0, 0 }, { 0, 0 } };

	return writer->read(writer->arg, keys + slot * sizeof(label.key), &label.key,
			    sizeof(label.key)) &&
	       writer->read(writer->arg, values + slot * sizeof(label.value), &label.value,
			    sizeof(label.value)) &&
	       stackbeat_go_labels_add(writer, &label);
}

/* Reads a bucket, and those that it overflows into. 0: part of it is left out. */
static __always_inline int stackbeat_go_labels_of_chain(struct stackbeat_go_labels_writer *writer,
							__u64 bucket)
{
	__u64 hashes;
	__u32 chain, slot;

	for (chain = 0; bucket && chain < STACKBEAT_GO_MAP_CHAIN_MAX; chain++) {
		if (!writer->read(writer->arg, bucket, &hashes, sizeof(hashes)))
			return 0;
		for (slot = 0; slot < STACKBEAT_GO_BUCKET_SLOTS; slot++, hashes >>= 8) {
			if ((hashes & 0xff) >= STACKBEAT_GO_SLOT_IN_USE &&
			    !stackbeat_go_labels_of_slot(writer, bucket, slot))
				return 0;
		}
		bucket += __builtin_offsetof(struct stackbeat_go_bucket, overflow);
		if (!writer->read(writer->arg, bucket, &bucket, sizeof(bucket)))
			return 0;
	}
	return !bucket;
}

/*
 * Reads the map to which the word at an address points. 0: part of it is left out. While a map grows,
 * an entry is in the new buckets or in the old ones.
 */
static __always_inline int stackbeat_go_labels_of_map(struct stackbeat_go_labels_writer *writer,
						      __u64 address)
{
	struct stackbeat_go_map map;
	__u32 count, old_count, i;

	if (!writer->read(writer->arg, address, &address, sizeof(address)))
		return 0;
	if (!address)
		return 1;
	if (!writer->read(writer->arg, address, &map, sizeof(map)))
		return 0;
	if (!map.count)
		return 1;
	if (map.bits > STACKBEAT_GO_MAP_BITS_MAX)
		return 0;
	count = 1u << map.bits;
	old_count = map.flags & STACKBEAT_GO_MAP_SAME_SIZE || !map.bits ? count : count / 2;
	if (!map.old_buckets)
		old_count = 0;
	for (i = 0; i < count + old_count; i++) {
		address = i < count ? map.buckets + i * sizeof(struct stackbeat_go_bucket) :
				      map.old_buckets +
					      (i - count) * sizeof(struct stackbeat_go_bucket);
		if (!stackbeat_go_labels_of_chain(writer, address))
			return 0;
	}
	return 1;
}

/*
 * Reads the labels at an address, g.labels, into `labels`, which has room for
 * STACKBEAT_GO_LABELS_SIZE_MAX + STACKBEAT_GO_SLACK bytes. `is_slice`: see above. Returns 0 if
 * there are none.
 */
static __always_inline int stackbeat_go_labels_read(stackbeat_go_read *read, void *arg,
						    __u64 address, int is_slice,
						    struct stackbeat_go_labels *labels)
{
	struct stackbeat_go_labels_writer writer = {
		.to = labels->bytes,
		.end = (__u8 *)labels + STACKBEAT_GO_LABELS_SIZE_MAX,
		.read = read,
		.arg = arg,
	};

	if (!(is_slice ? stackbeat_go_labels_of_slice(&writer, address) :
			 stackbeat_go_labels_of_map(&writer, address)))
		writer.flags |= STACKBEAT_GO_LABELS_CUT;
	__builtin_memset(writer.to, 0, STACKBEAT_GO_SLACK);
	labels->size = (writer.to - (__u8 *)labels + 7) & ~7u;
	labels->count = writer.count;
	labels->flags = writer.flags;
	return writer.count || writer.flags;
}

#endif
