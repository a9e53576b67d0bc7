// SPDX-License-Identifier: GPL-2.0
// gendisk.diskseq: a new number for each image or medium of a disk (5.15).
#include <linux/blkdev.h>

u64 sb_probe(const struct gendisk *disk);

u64 sb_probe(const struct gendisk *disk)
{
	return disk->diskseq;
}
