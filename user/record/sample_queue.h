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

struct intake;
struct profile;
struct spaces;

/* Bytes of samples that wait at the same time. Beyond, they do with what is known. */
#define INTAKE_BYTES_MAX (64u << 20)

/* Both must outlive it. NULL when out of memory. intake_free() takes NULL too. */
struct intake *intake_new(struct spaces *spaces, struct profile *profile);
void intake_free(struct intake *intake);

/* Before the samples of a drain. `settled`: all that is to be told of them was told. */
void intake_begin(struct intake *intake, bool settled);

/*
 * Takes the samples at the beginning of `data` that repeat ones that were taken lately (a
 * decode_repeat_fn): what they are of is known, however far their spaces have gone since.
 */
uint64_t intake_repeat(const void *data, uint64_t available, void *intake);

/* Takes a sample (a decode_sample_fn). Returns 0 or -ENOMEM. */
int intake_sample(const struct stackbeat_sample *sample, void *intake);

/*
 * After the samples of a drain that was settled: no sample of a time (the kernel's
 * CLOCK_MONOTONIC, ns) up to `seen` is still to come. Returns 0 or -ENOMEM.
 */
int intake_settle(struct intake *intake, uint64_t seen);

/* Samples that could not wait until all was told of them. */
uint64_t intake_hasty(const struct intake *intake);

#endif
