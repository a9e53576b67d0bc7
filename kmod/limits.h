/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits of memory and time, of each session.
 *
 * SB_TIGHT: limits so low that a small guest exceeds each of them within seconds. The normal ones
 * are exceeded by large machines only, after hours. For tests only.
 */
#ifndef STACKBEAT_LIMITS_H
#define STACKBEAT_LIMITS_H

#include <linux/build_bug.h>
#include <linux/jiffies.h>
#include <linux/time64.h>

#include "stackbeat.h"

#ifdef SB_TIGHT
#define SB_WAYS 2u
#define SB_SETS_BITS 1
#define SB_LEVELS_MAX 2u
#define SB_PENDING_MAX 2u
#define SB_MMAP_EVENTS_MAX 4u
#define SB_REREAD_NS NSEC_PER_MSEC
#define SB_REREAD_MAX_NS (16 * NSEC_PER_MSEC)
#define SB_LOCKED_JIFFIES 0
#define SB_LOCKED_MAX 1u
#define SB_MAPPINGS_WAITING_MAX 64u
#define SB_MAPPED_FILES_MAX 8u
#define SB_BIG_MAPPINGS 64
#define SB_UNWIND_MAPS_MAX 64u
#define SB_UNWIND_SPACE_MAPS_MAX 64u
#define SB_UNWIND_CHUNK_MAPS 4u
#define SB_MODULE_SYMBOLS_MAX 2u
#define SB_MODULE_SYMBOLS_BYTES (16ul << 10)
#define SB_OVERHEAD_MAX 0
#define SB_FRAME_OVERHEAD_MAX 100u
#else
/*
 * Maximum overhead that the budget counts for one tick: a constant, and an amount for each
 * possible user frame. Each frame is two words of memory, which may be on a page of its own, in no
 * cache, and of another node. A longer time means that the virtual machine did not run.
 */
#define SB_OVERHEAD_MAX (NSEC_PER_MSEC / 2)
#define SB_FRAME_OVERHEAD_MAX NSEC_PER_USEC

/*
 * The table of spaces: number of ways of a set, log2 of the number of sets of its first level, and the
 * number of levels. Each level doubles the table, up to 2^20 spaces.
 */
#define SB_WAYS 8u
#define SB_SETS_BITS 10
#define SB_LEVELS_MAX 8u
static_assert((SB_WAYS << SB_SETS_BITS) == STACKBEAT_ADDRESS_SPACES_MAX);

/* Requests to read spaces that wait for the worker, of each CPU. */
#define SB_PENDING_MAX STACKBEAT_ADDRESS_SPACES_PENDING_MAX

/* Mmap events that wait for the worker. */
#define SB_MMAP_EVENTS_MAX 1024u

/*
 * Time until the mappings of a space are read again after mmap events were lost: minimum and
 * maximum of an exponential backoff.
 */
#define SB_REREAD_NS (100 * NSEC_PER_MSEC)
#define SB_REREAD_MAX_NS (10 * NSEC_PER_SEC)

/* Spaces with mmap_lock held by others: time of retries, and maximum number. */
#define SB_LOCKED_JIFFIES HZ
#define SB_LOCKED_MAX 1024u

/* Mappings that wait for room in the metadata ring. */
#define SB_MAPPINGS_WAITING_MAX STACKBEAT_MAPPINGS_WAITING_MAX

#define SB_MAPPED_FILES_MAX STACKBEAT_FILES_MAX

/* Spaces with more mappings than this are read after the others, one by one. */
#define SB_BIG_MAPPINGS 2000

/*
 * Mappings in the arrays by which stacks are walked, of all spaces of a session; and as many in arrays
 * that were replaced and wait for a grace period.
 */
#define SB_UNWIND_MAPS_MAX (256u << 10)

/* Of the mappings of one space: an array grows by mapping events, and does not see munmap(). */
#define SB_UNWIND_SPACE_MAPS_MAX (2 * STACKBEAT_MAPPINGS_MAX)

/* Mappings of one chunk of an array, which takes 2 KiB then. */
#define SB_UNWIND_CHUNK_MAPS 31u

/* Parts of modules (see module_symbols.h) whose functions are kept for all sessions; and their memory. */
#define SB_MODULE_SYMBOLS_MAX STACKBEAT_MODULE_SYMBOLS_MAX
#define SB_MODULE_SYMBOLS_BYTES STACKBEAT_MODULE_SYMBOLS_BYTES
#endif

/* Bytes of the unwind tables of a restricted session. */
#define SB_RESTRICTED_UNWIND_BYTES (8ull << 20)

/* Replaced filters that wait for a grace period. */
#define SB_FILTERS_WAITING_MAX STACKBEAT_FILTERS_WAITING_MAX

/*
 * Memory of the machine for each space of a table that grows. A process takes more, so the table has room
 * for all that the machine can run; and takes at most 1/450 of memory.
 */
#define SB_SPACE_MEMORY (32ul << 10)

#endif
