/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks of time in profiles: the label "block" of a sample is the number of the part of the
 * recording in which it was taken. From the sums of the blocks follows how much a profile differs
 * from another one by chance (report/noise.h): samples that follow each other are no independent
 * ones.
 *
 * A recording has blocks of a fixed length. Before it is written, they are joined to at most
 * BLOCKS_KEPT, as a sample is written once for each of its blocks.
 */
#ifndef STACKBEAT_PPROF_BLOCKS_H
#define STACKBEAT_PPROF_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct profile;

#define LABEL_BLOCK_KEY "block"
#define BLOCKS_KEPT 32u
#define BLOCKS_COMMENT "blocks of time: "

/* The number of the block of half a second in which a sample is taken. `time`: in ns. */
static inline uint64_t block_of_time(uint64_t time)
{
	return time >> 29;
}

/*
 * Numbers the blocks of a profile from 0 on, with at most BLOCKS_KEPT, and adds a comment with the
 * number of blocks. Labels may be equal then. Does nothing without blocks; errors are the
 * profile's.
 */
void blocks_join(struct profile *profile);

/* Returns the number of blocks of a profile; 0: it has none, or numbers that are not ours. */
size_t blocks_count(const struct profile *profile);

#endif
