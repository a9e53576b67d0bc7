/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A reorder queue between the rings and the stack table. Samples wait in it while their metadata
 * may still arrive, or while their address space is changing. They are then added to the table in
 * the order of their address space's generations.
 */
#ifndef STACKBEAT_RECORD_SAMPLE_QUEUE_H
#define STACKBEAT_RECORD_SAMPLE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct sample_queue;
struct stack_copies;
struct stack_table;
struct address_spaces;

/* Bytes of queued samples. Before there are more, all are resolved with the metadata at hand. */
#define SAMPLE_QUEUE_BYTES_MAX (64u << 20)

/* Both must outlive the queue. NULL when out of memory. sample_queue_free() accepts NULL. */
struct sample_queue *sample_queue_new(struct address_spaces *spaces, struct stack_table *stacks);
void sample_queue_free(struct sample_queue *queue);

/* Lowers the limit of the queue from SAMPLE_QUEUE_BYTES_MAX. */
void sample_queue_limit(struct sample_queue *queue, size_t bytes);

/* Sets what samples with copies of their stacks are passed to; NULL: their copies are dropped. */
void sample_queue_set_copies(struct sample_queue *queue, struct stack_copies *copies);

/* Call before the samples of a drain. `settled`: all of their metadata has arrived. */
void sample_queue_begin(struct sample_queue *queue, bool settled);

/*
 * Counts the samples at the beginning of `data` that repeat recent ones (a decode_fast_path_fn):
 * their stacks are known, even if their address spaces have changed since.
 */
uint64_t sample_queue_repeat(const void *data, uint64_t available, void *queue);

/*
 * Adds or queues a sample (a decode_sample_fn). A queued sample stays where it is, with its stack,
 * until sample_queue_keep(). Returns 0, or -ENOMEM with nothing added.
 */
int sample_queue_sample(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
			void *queue);

/*
 * Call after a settled drain: adds the queued samples with a time (the kernel's CLOCK_MONOTONIC,
 * ns) up to `seen`, as no other sample of that time is still to come. Returns 0, or -ENOMEM: what
 * was not added stays in the queue.
 */
int sample_queue_flush(struct sample_queue *queue, uint64_t seen);

/* Copies the samples that still wait. Call before the room of a drain's samples is released. */
void sample_queue_keep(struct sample_queue *queue);

/* Returns the bytes of memory of the queue. */
size_t sample_queue_bytes(const struct sample_queue *queue);

/* Samples that were resolved before their metadata arrived, because the queue was full. */
uint64_t sample_queue_early(const struct sample_queue *queue);

#endif
