// SPDX-License-Identifier: GPL-2.0
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/minmax.h>

#include "goroutine.h"
#include "stackbeat.h"
#include "stackbeat_unwind.h"
#include "unwind_user.h"

#define SB_USER_MASK (TASK_SIZE_MAX | (PAGE_SIZE - 1))
/* No address from here on is read: a read is of a word at most. */
#define SB_USER_LIMIT (TASK_SIZE_MAX - sizeof(u64))

/* Words of a string in Go: its address, and its bytes. */
#define SB_STRING_WORDS 2u
#define SB_LABEL_WORDS (2 * SB_STRING_WORDS)

/* The map of Go up to 1.23: words of its head, and what a bucket consists of, in bytes. */
#define SB_MAP_WORDS 4u			/* count, flags and others, buckets, old buckets */
#define SB_MAP_SAME_SIZE 8u		/* flag: there are as many old buckets as new ones */
#define SB_MAP_BITS_SHIFT 8u		/* the flags are the lowest byte of their word */
#define SB_MAP_BITS_MAX 3u		/* of the number of buckets that are read */
#define SB_MAP_CHAIN_MAX 2u		/* buckets that are read in the place of one */
#define SB_BUCKET_SLOTS 8u
#define SB_BUCKET_KEYS 8u
#define SB_BUCKET_VALUES (SB_BUCKET_KEYS + SB_BUCKET_SLOTS * SB_STRING_WORDS * sizeof(u64))
#define SB_BUCKET_NEXT (SB_BUCKET_VALUES + SB_BUCKET_SLOTS * SB_STRING_WORDS * sizeof(u64))
#define SB_BUCKET_SIZE (SB_BUCKET_NEXT + sizeof(u64))
#define SB_SLOT_IN_USE 5u		/* least hash in a slot; others: empty, or moved away */

/* Labels that are being written. */
struct sb_labels {
	struct stackbeat_go_labels *to;
	u32 used;		/* bytes of to->bytes */
};

#define SB_LABELS_ROOM (STACKBEAT_GO_LABELS_SIZE_MAX - sizeof(struct stackbeat_go_labels))

struct sb_unaligned {
	u64 word;
} __packed;

/* Offsets of fields are less than this. */
#define SB_FIELDS (U16_MAX + 1ul)

/*
 * Checks and masks a pointer to a structure, for reads of its fields; only for a user access section.
 * See sb_read_user().
 */
#define sb_use_pointer(pointer, user_size, error_label)                        \
	do {                                                                   \
		if (unlikely((pointer) >= (user_size) - SB_FIELDS - sizeof(u64))) \
			goto error_label;                                      \
		(pointer) &= (user_size) | (PAGE_SIZE - 1);                    \
	} while (0)

#define sb_read_field(value, pointer, offset, error_label)                     \
	unsafe_get_user(value, (u64 __user *)((pointer) + (offset)), error_label)

/* Reads words of user memory; false if that fails. */
static __always_inline bool sb_read_words(unsigned long from, u64 *to, const u32 count)
{
	unsigned long user_size = TASK_SIZE_MAX;
	u32 i;

	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin_nospec();
	sb_use_pointer(from, user_size, unreadable);
	for (i = 0; i < count; i++)
		sb_read_field(to[i], from, i * sizeof(u64), unreadable);
	__uaccess_end();
	return true;

unreadable:
	__uaccess_end();
	return false;
}

/*
 * Reads bytes of user memory; false if that fails. Reads and writes whole words, up to 7 bytes more, except
 * at the end of a page, behind which there may be no memory.
 */
static __always_inline bool sb_read_bytes(unsigned long from, u8 *to, int size)
{
	unsigned long user_size = TASK_SIZE_MAX;
	u64 word;
	u8 byte;

	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin_nospec();
	sb_use_pointer(from, user_size, unreadable);
	while (size > 0) {
		if (likely((from & (PAGE_SIZE - 1)) <= PAGE_SIZE - sizeof(u64))) {
			sb_read_field(word, from, 0, unreadable);
			((struct sb_unaligned *)to)->word = word;
			from += sizeof(u64);
			to += sizeof(u64);
			size -= sizeof(u64);
		} else {
			unsafe_get_user(byte, (u8 __user *)from, unreadable);
			*to++ = byte;
			from++;
			size--;
		}
	}
	__uaccess_end();
	return true;

unreadable:
	__uaccess_end();
	return false;
}

/* Adds a label; false: no room for it, so that further ones need not be read. */
static __always_inline bool sb_labels_add(struct sb_labels *labels, const u64 *label)
{
	u32 key = min_t(u64, label[1], STACKBEAT_GO_LABEL_KEY_MAX);
	u32 value = min_t(u64, label[SB_STRING_WORDS + 1], STACKBEAT_GO_LABEL_VALUE_MAX);
	u8 *to = labels->to->bytes + labels->used;

	if (labels->to->count == STACKBEAT_GO_LABELS_COUNT_MAX ||
	    labels->used + 2 + key + value > SB_LABELS_ROOM) {
		labels->to->flags |= STACKBEAT_GO_LABELS_CUT;
		return false;
	}
	if (key != label[1] || value != label[SB_STRING_WORDS + 1])
		labels->to->flags |= STACKBEAT_GO_LABELS_CUT;
	if (!sb_read_bytes(label[0], to + 2, key) ||
	    !sb_read_bytes(label[SB_STRING_WORDS], to + 2 + key, value)) {
		labels->to->flags |= STACKBEAT_GO_LABELS_CUT;
		return true;
	}
	to[0] = key;
	to[1] = value;
	labels->used += 2 + key + value;
	labels->to->count++;
	return true;
}

/* Reads the slice at an address. False: part of it is left out. */
static bool sb_labels_read_slice(struct sb_labels *labels, u64 slice)
{
	u64 head[2], label[SB_LABEL_WORDS];
	u32 count, i;

	if (!sb_read_words(slice, head, ARRAY_SIZE(head)))
		return false;
	count = min_t(u64, head[1], STACKBEAT_GO_LABELS_COUNT_MAX);
	for (i = 0; i < count; i++) {
		if (!sb_read_words(head[0] + i * sizeof(label), label, SB_LABEL_WORDS) ||
		    !sb_labels_add(labels, label))
			return false;
	}
	return count == head[1];
}

/* Reads a bucket, and those that it overflows into. False: part of it is left out. */
static bool sb_labels_read_bucket(struct sb_labels *labels, u64 bucket)
{
	u64 hashes, label[SB_LABEL_WORDS];
	u32 chain, slot, at;

	for (chain = 0; bucket && chain < SB_MAP_CHAIN_MAX; chain++) {
		if (!sb_read_words(bucket, &hashes, 1))
			return false;
		for (slot = 0; slot < SB_BUCKET_SLOTS; slot++, hashes >>= 8) {
			if ((hashes & 0xff) < SB_SLOT_IN_USE)
				continue;
			at = slot * SB_STRING_WORDS * sizeof(u64);
			if (!sb_read_words(bucket + SB_BUCKET_KEYS + at, label, SB_STRING_WORDS) ||
			    !sb_read_words(bucket + SB_BUCKET_VALUES + at, label + SB_STRING_WORDS,
					   SB_STRING_WORDS) ||
			    !sb_labels_add(labels, label))
				return false;
		}
		if (!sb_read_words(bucket + SB_BUCKET_NEXT, &bucket, 1))
			return false;
	}
	return !bucket;
}

static bool sb_labels_read_buckets(struct sb_labels *labels, u64 buckets, u32 count)
{
	bool whole = true;
	u32 i;

	for (i = 0; i < count && whole; i++)
		whole = sb_labels_read_bucket(labels, buckets + i * SB_BUCKET_SIZE);
	return whole;
}

/* Reads the map to which the word at an address points. False: part of it is left out. */
static bool sb_labels_read_map(struct sb_labels *labels, u64 at)
{
	u64 map, head[SB_MAP_WORDS];
	u32 bits, old_bits;

	if (!sb_read_words(at, &map, 1))
		return false;
	if (!map)
		return true;
	if (!sb_read_words(map, head, SB_MAP_WORDS))
		return false;
	if (!head[0])
		return true;
	bits = (u8)(head[1] >> SB_MAP_BITS_SHIFT);
	if (bits > SB_MAP_BITS_MAX)
		return false;
	/* While it grows, its entries are in both. */
	old_bits = bits && !(head[1] & SB_MAP_SAME_SIZE) ? bits - 1 : bits;
	return sb_labels_read_buckets(labels, head[2], 1u << bits) &&
	       (!head[3] || sb_labels_read_buckets(labels, head[3], 1u << old_bits));
}

/* Writes the labels at an address. False: there are none. */
static noinline bool sb_labels_read(u64 at, bool is_slice, u64 *words)
{
	struct sb_labels labels = { .to = (struct stackbeat_go_labels *)words };

	BUILD_BUG_ON(STACKBEAT_GO_LABELS_SIZE_MAX % sizeof(u64));
	BUILD_BUG_ON(STACKBEAT_GO_LABEL_KEY_MAX > U8_MAX || STACKBEAT_GO_LABEL_VALUE_MAX > U8_MAX);
	*labels.to = (struct stackbeat_go_labels){};
	if (!(is_slice ? sb_labels_read_slice(&labels, at) : sb_labels_read_map(&labels, at)))
		labels.to->flags |= STACKBEAT_GO_LABELS_CUT;
	/* The padding, and up to 7 bytes of what is behind it. */
	((struct sb_unaligned *)(labels.to->bytes + labels.used))->word = 0;
	labels.to->size = ALIGN(sizeof(*labels.to) + labels.used, sizeof(u64));
	return labels.to->count || labels.to->flags;
}

u32 sb_goroutine_read(const struct stackbeat_unwind_go *go, unsigned long fs_base, u32 wanted,
		      u64 *words)
{
	unsigned long user_size = TASK_SIZE_MAX, g, m, curg;
	u64 its_m, word, labels = 0;
	u32 found = 0;

	/* Keep it in a register: a 64-bit constant would be loaded repeatedly. */
	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin_nospec();
	sb_read_user(g, u64, fs_base + go->tls, SB_USER_LIMIT, SB_USER_MASK, out);
	if (!g)
		goto out;
	sb_use_pointer(g, user_size, out);
	sb_read_field(m, g, go->m, out);
	if (!m)
		goto out;
	sb_use_pointer(m, user_size, out);
	sb_read_field(curg, m, go->curg, out);
	if (!curg)
		goto out;
	if (unlikely(curg != g)) {
		/* Another thread may run the goroutine: then its m is another one. */
		sb_use_pointer(curg, user_size, out);
		sb_read_field(its_m, curg, go->m, out);
		if (its_m != m)
			goto out;
	}
	if (wanted & STACKBEAT_GOROUTINE_ID) {
		sb_read_field(word, curg, go->goid, out);
		if (likely(word)) {
			*words++ = word;
			found |= STACKBEAT_GOROUTINE_ID;
		}
	}
	/* 0 is no offset of a g: the reader does not know it. */
	if (wanted & STACKBEAT_GOROUTINE_CREATOR && go->gopc) {
		sb_read_field(word, curg, go->gopc, out);
		if (likely(word)) {
			*words++ = word;
			found |= STACKBEAT_GOROUTINE_CREATOR;
		}
	}
	if (wanted & STACKBEAT_GOROUTINE_LABELS && go->labels)
		sb_read_field(labels, curg, go->labels, out);
out:
	__uaccess_end();
	if (unlikely(labels) && sb_labels_read(labels, go->label_slices, words))
		found |= STACKBEAT_GOROUTINE_LABELS;
	return found;
}
