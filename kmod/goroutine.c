// SPDX-License-Identifier: GPL-2.0
#include <linux/build_bug.h>
#include <linux/kernel.h>

#include "goroutine.h"
#include "stackbeat.h"
#include "stackbeat_go_labels.h"
#include "stackbeat_unwind.h"
#include "unwind_user.h"

#define SB_USER_MASK (TASK_SIZE_MAX | (PAGE_SIZE - 1))
/* No address from here on is read: a read is of a word at most. */
#define SB_USER_LIMIT (TASK_SIZE_MAX - sizeof(u64))

struct sb_unaligned {
	union {
		u64 word;
		u32 half;
		u16 quarter;
	};
} __packed;

/* Offsets of fields are less than this. */
#define SB_FIELDS (U16_MAX + 1ul)

/*
 * Checks and masks a pointer, for reads of words at less than `size` bytes from it; only for a user access
 * section. `size` is at most SB_FIELDS. See sb_read_user().
 */
#define sb_use_pointer(pointer, size, user_size, error_label)                  \
	do {                                                                   \
		if (unlikely((pointer) >= (user_size) - (size) - sizeof(u64))) \
			goto error_label;                                      \
		(pointer) &= (user_size) | (PAGE_SIZE - 1);                    \
	} while (0)

#define sb_read_field(value, pointer, offset, error_label)                     \
	unsafe_get_user(value, (u64 __user *)((pointer) + (offset)), error_label)

/* Writes the lowest bytes of a word, less than all of them. */
static __always_inline void sb_write_bytes(u8 *to, u64 word, u32 size)
{
	if (size & 4) {
		((struct sb_unaligned *)to)->half = word;
		word >>= 32;
		to += 4;
	}
	if (size & 2) {
		((struct sb_unaligned *)to)->quarter = word;
		word >>= 16;
		to += 2;
	}
	if (size & 1)
		*to = word;
}

/* A stackbeat_go_read. */
static __always_inline int sb_read_go(void *arg, __u64 address, void *to, __u32 size)
{
	unsigned long user_size = TASK_SIZE_MAX, from = address;
	u8 *next = to, byte;
	u64 word;

	(void)arg;
	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin_nospec();
	sb_use_pointer(from, PAGE_SIZE, user_size, unreadable);
	for (; size >= sizeof(word); size -= sizeof(word)) {
		sb_read_field(word, from, 0, unreadable);
		((struct sb_unaligned *)next)->word = word;
		from += sizeof(word);
		next += sizeof(word);
	}
	/* There may be no memory behind the end of a page. */
	for (; size && (from & (PAGE_SIZE - 1)) > PAGE_SIZE - sizeof(word); size--) {
		unsafe_get_user(byte, (u8 __user *)from, unreadable);
		*next++ = byte;
		from++;
	}
	if (size) {
		sb_read_field(word, from, 0, unreadable);
		sb_write_bytes(next, word, size);
	}
	__uaccess_end();
	return 1;

unreadable:
	__uaccess_end();
	return 0;
}

static noinline bool sb_read_go_labels(u64 address, bool is_slice, u64 *words)
{
	BUILD_BUG_ON(STACKBEAT_GO_LABELS_SIZE_MAX % sizeof(u64));
	BUILD_BUG_ON(STACKBEAT_GO_LABEL_KEY_MAX > U8_MAX || STACKBEAT_GO_LABEL_VALUE_MAX > U8_MAX);
	BUILD_BUG_ON(U8_MAX >= PAGE_SIZE);
	return stackbeat_go_labels_read(sb_read_go, NULL, address, is_slice,
					(struct stackbeat_go_labels *)words);
}

u32 sb_goroutine_read(const struct stackbeat_unwind_go *go, unsigned long fs_base, u32 wanted,
		      u64 *words)
{
	unsigned long user_size = TASK_SIZE_MAX, g, m, curg;
	u64 its_m, word, labels = 0;
	u32 found = 0;

	/*
	 * As stackbeat_unwind_goroutine(), but in one user access section, which takes fewer
	 * instructions. The constant is kept in a register.
	 */
	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin_nospec();
	sb_read_user(g, u64, fs_base + go->tls, SB_USER_LIMIT, SB_USER_MASK, out);
	if (!g)
		goto out;
	sb_use_pointer(g, SB_FIELDS, user_size, out);
	sb_read_field(m, g, go->m, out);
	if (!m)
		goto out;
	sb_use_pointer(m, SB_FIELDS, user_size, out);
	sb_read_field(curg, m, go->curg, out);
	if (!curg)
		goto out;
	/* Also if it is g, which is masked: the comparison may be mispredicted. */
	sb_use_pointer(curg, SB_FIELDS, user_size, out);
	if (unlikely(curg != g)) {
		/* Another thread may run the goroutine: then its m is another one. */
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
	if (unlikely(labels) && sb_read_go_labels(labels, go->label_slices, words))
		found |= STACKBEAT_GOROUTINE_LABELS;
	return found;
}
