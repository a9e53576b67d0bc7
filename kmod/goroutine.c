// SPDX-License-Identifier: GPL-2.0
#include <linux/build_bug.h>
#include <linux/kernel.h>

#include "goroutine.h"
#include "stackbeat.h"
#include "stackbeat_go_labels.h"
#include "stackbeat_unwind.h"
#include "unwind_user.h"

struct sb_unaligned {
	u64 word;
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

/* A stackbeat_go_read, for a user access section. `arg`: TASK_SIZE_MAX, kept in a register. */
static __always_inline int sb_read_go(void *arg, __u64 address, void *to, __u32 size)
{
	unsigned long user_size = *(unsigned long *)arg, from = address;
	u64 word, *words = to;
	u8 *next = to, byte;

	sb_use_pointer(from, PAGE_SIZE, user_size, unreadable);
	BUILD_BUG_ON(STACKBEAT_GO_WORDS_MAX != 4);
	/* A compiler may also find that the size of a string is constant on one path. */
	if (__builtin_constant_p(size) && size <= STACKBEAT_GO_WORDS_MAX * sizeof(word) &&
	    !(size % sizeof(word))) {
		sb_read_field(words[0], from, 0, unreadable);
		if (size > 8)
			sb_read_field(words[1], from, 8, unreadable);
		if (size > 16)
			sb_read_field(words[2], from, 16, unreadable);
		if (size > 24)
			sb_read_field(words[3], from, 24, unreadable);
		return 1;
	}
	for (; size > sizeof(word); size -= sizeof(word)) {
		sb_read_field(word, from, 0, unreadable);
		((struct sb_unaligned *)next)->word = word;
		from += sizeof(word);
		next += sizeof(word);
	}
	/* There may be no memory behind the end of a page. */
	if (likely((from & (PAGE_SIZE - 1)) <= PAGE_SIZE - sizeof(word))) {
		if (!size)
			return 1;
		sb_read_field(word, from, 0, unreadable);
		((struct sb_unaligned *)next)->word = word;
		return 1;
	}
	for (; size; size--) {
		unsafe_get_user(byte, (u8 __user *)from, unreadable);
		*next++ = byte;
		from++;
	}
	return 1;

unreadable:
	return 0;
}

static __always_inline u32 sb_add_go_labels(u32 found, u64 *words, u64 address, const bool is_slice)
{
	unsigned long user_size = TASK_SIZE_MAX;

	BUILD_BUG_ON((STACKBEAT_GO_LABELS_SIZE_MAX | STACKBEAT_GO_SLACK) % sizeof(u64));
	/* A byte of the record holds the size of a string, and a string is shorter than a page. */
	BUILD_BUG_ON(STACKBEAT_GO_LABEL_KEY_MAX > U8_MAX || STACKBEAT_GO_LABEL_VALUE_MAX > U8_MAX);
	BUILD_BUG_ON(U8_MAX >= PAGE_SIZE);
	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin();
	if (stackbeat_go_labels_read(sb_read_go, &user_size, address, is_slice,
				     (struct stackbeat_go_labels *)words))
		found |= STACKBEAT_GOROUTINE_LABELS;
	__uaccess_end();
	return found;
}

/*
 * Adds the labels at an address to what was found. Each kind has a function of its own, so that fewer
 * registers are saved.
 */
static noinline u32 sb_add_label_slice(u32 found, u64 *words, u64 address)
{
	return sb_add_go_labels(found, words, address, true);
}

static noinline u32 sb_add_label_map(u32 found, u64 *words, u64 address)
{
	return sb_add_go_labels(found, words, address, false);
}

u32 sb_goroutine_read(u32 wanted, u64 *words, const struct stackbeat_unwind_go *go,
		      unsigned long fs_base)
{
	unsigned long user_size = TASK_SIZE_MAX, at = fs_base + go->tls, m;
	u64 g, its_m, id, word, labels = 0;
	u32 found = 0;

	/*
	 * One user access section and one limit take fewer instructions than several. The constant
	 * is kept in a register. The section needs no barrier, because each pointer is masked.
	 */
	OPTIMIZER_HIDE_VAR(user_size);
	__uaccess_begin();
	sb_use_pointer(at, SB_FIELDS, user_size, out);
	sb_read_field(g, at, 0, out);
	if (!g)
		goto out;
	sb_use_pointer(g, SB_FIELDS, user_size, out);
	sb_read_field(id, g, go->goid, out);
	if (unlikely(!id)) {
		/*
		 * This g has the stack of the thread, or the one of signals. As in
		 * stackbeat_unwind_goroutine(): the goroutine is the goroutine that its m runs, unless
		 * another thread may run it.
		 */
		sb_read_field(m, g, go->m, out);
		if (!m)
			goto out;
		sb_use_pointer(m, SB_FIELDS, user_size, out);
		sb_read_field(g, m, go->curg, out);
		if (!g)
			goto out;
		sb_use_pointer(g, SB_FIELDS, user_size, out);
		sb_read_field(its_m, g, go->m, out);
		if (its_m != m)
			goto out;
		sb_read_field(id, g, go->goid, out);
		if (!id)
			goto out;
	}
	if (wanted & STACKBEAT_GOROUTINE_ID) {
		*words++ = id;
		found |= STACKBEAT_GOROUTINE_ID;
	}
	/* 0 is no offset of a g: the reader does not know it. */
	if (wanted & STACKBEAT_GOROUTINE_CREATOR && go->gopc) {
		sb_read_field(word, g, go->gopc, out);
		if (likely(word)) {
			*words++ = word;
			found |= STACKBEAT_GOROUTINE_CREATOR;
		}
	}
	if (wanted & STACKBEAT_GOROUTINE_LABELS && go->labels)
		sb_read_field(labels, g, go->labels, out);
out:
	__uaccess_end();
	if (!labels)
		return found;
	return go->label_slices ? sb_add_label_slice(found, words, labels) :
				  sb_add_label_map(found, words, labels);
}
