/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The samples of a drain on their way into a profile. Those of which something may
 * still be told, or whose address space is changing, wait: then they are taken in the
 * order of its generations.
 */
#ifndef STACKBEAT_RECORD_SAMPLE_QUEUE_H
#define STACKBEAT_RECORD_SAMPLE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

struct sample_queue;
struct stack_table;
struct address_spaces;

/* Bytes of samples that wait at the same time. Beyond, they do with what is known. */
#define SAMPLE_QUEUE_BYTES_MAX (64u << 20)

/* Both must outlive it. NULL when out of memory. sample_queue_free() takes NULL too. */
struct sample_queue *sample_queue_new(struct address_spaces *spaces, struct stack_table *profile);
void sample_queue_free(struct sample_queue *intake);

/* Before the samples of a drain. `settled`: all that is to be told of them was told. */
void sample_queue_begin(struct sample_queue *intake, bool settled);

/*
 * Takes the samples at the beginning of `data` that repeat ones that were taken lately (a
 * decode_fast_path_fn): what they are of is known, however far their spaces have gone since.
 */
uint64_t sample_queue_repeat(const void *data, uint64_t available, void *intake);

/* Takes a sample (a decode_sample_fn). Returns 0 or -ENOMEM. */
int sample_queue_sample(const struct stackbeat_sample *sample, void *intake);

/*
 * After the samples of a drain that was settled: no sample of a time (the kernel's
 * CLOCK_MONOTONIC, ns) up to `seen` is still to come. Returns 0 or -ENOMEM.
 */
int sample_queue_flush(struct sample_queue *intake, uint64_t seen);

/* Samples that could not wait until all was told of them. */
uint64_t sample_queue_early(const struct sample_queue *intake);

#endif
