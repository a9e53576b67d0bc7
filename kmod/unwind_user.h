/* SPDX-License-Identifier: GPL-2.0 */
/* Common parts of the walks of user stacks. */
#ifndef STACKBEAT_UNWIND_USER_H
#define STACKBEAT_UNWIND_USER_H

#include <linux/mm.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#include <asm/alternative.h>
#include <asm/cpufeatures.h>

/*
 * One instruction a frame, two on CPUs without SSE4.2. Each stored frame is hashed once, in order: the
 * reader does not compare most user frames of a known stack.
 */
#define SB_HASH                                                                \
	ALTERNATIVE("rolq %[hash]; addq %[ret], %[hash]",                      \
		    "crc32q %[ret], %[hash]", X86_FEATURE_XMM4_2)

static __always_inline u64 sb_hash(u64 hash, u64 address)
{
	asm_inline(SB_HASH
		   : [hash] "+r" (hash)
		   : [ret] "r" (address)
		   : "cc");
	return hash;
}

/*
 * Reads user memory; only for a user access section. The address may be
 * any value: a value not below `limit` is refused. The mask keeps it in the user half
 * under speculation, since the next address depends on the value read.
 */
#define sb_read_user(value, type, address, limit, mask, error_label)           \
	do {                                                                   \
		unsigned long __at = (address);                                \
									       \
		if (unlikely(__at >= (limit)))                                 \
			goto error_label;                                      \
		__at &= (mask);                                                \
		unsafe_get_user(value, (type __user *)__at, error_label);      \
	} while (0)

/*
 * Whether code can return to an address: not if it is in page 0 or in the kernel half; such a
 * frame is invalid. (The two pages after the end of user memory are accepted, although they
 * hold no code: so the fast path can check all addresses of a round by their bits.)
 */
static __always_inline bool sb_is_user_code(unsigned long address, unsigned long user_mask)
{
	return address - PAGE_SIZE <= user_mask;
}

#endif
