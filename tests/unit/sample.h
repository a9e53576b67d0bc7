/* SPDX-License-Identifier: GPL-2.0 */
/* Samples as the kernel module writes them. */
#ifndef STACKBEAT_TEST_SAMPLE_H
#define STACKBEAT_TEST_SAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <stackbeat.h>

#define SAMPLE_FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

union any_sample {
	struct stackbeat_sample sample;
	/* With the words of a goroutine, and its labels. */
	uint8_t bytes[sizeof(struct stackbeat_sample) + (SAMPLE_FRAMES_MAX + 2) * sizeof(uint64_t) +
		      STACKBEAT_GO_LABELS_SIZE_MAX];
};

/* Returns CRC-32C of words before, and of one more, as the module hashes frames. */
static inline uint64_t sample_hash_word(uint64_t hash, uint64_t word)
{
	hash ^= word;
	for (int bit = 0; bit < 64; bit++)
		hash = hash >> 1 ^ (UINT64_C(0x82f63b78) & -(hash & 1));
	return hash;
}

/* Sets the hash of frames that were not added by the functions below. */
static inline void sample_set_hash(struct stackbeat_sample *sample)
{
	sample->hash = 0;
	for (unsigned int i = 0; i < (unsigned int)sample->kernel_frames + sample->user_frames; i++)
		sample->hash = sample_hash_word(sample->hash, sample->frames[i]);
}

/* Makes a user-mode sample without frames yet, of weight 1 ms. */
static inline struct stackbeat_sample *sample_begin(union any_sample *any, uint32_t pid,
						    const char *comm)
{
	struct stackbeat_sample *sample = &any->sample;

	memset(any, 0, sizeof(*any));
	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.size = sizeof(*sample);
	sample->weight = 1000000;
	sample->pid = pid;
	sample->tid = pid;
	sample->kernel_stop = STACKBEAT_STOP_USER_MODE;
	snprintf(sample->comm, sizeof(sample->comm), "%s", comm);
	return sample;
}

/* Adds a kernel frame. Kernel frames must be added before user frames. */
static inline void sample_kernel(struct stackbeat_sample *sample, uint64_t address)
{
	sample->record.flags |= STACKBEAT_SAMPLE_KERNEL;
	if (sample->kernel_stop == STACKBEAT_STOP_USER_MODE)
		sample->kernel_stop = STACKBEAT_STOP_OUTERMOST;
	sample->frames[sample->kernel_frames++] = address;
	sample->hash = sample_hash_word(sample->hash, address);
	sample->record.size += sizeof(address);
}

static inline void sample_user(struct stackbeat_sample *sample, uint64_t address)
{
	sample->frames[sample->kernel_frames + sample->user_frames++] = address;
	sample->hash = sample_hash_word(sample->hash, address);
	sample->record.size += sizeof(address);
}

/*
 * Adds a label of the sample's goroutine, behind all frames and the words of the goroutine. The
 * record of the labels has at least one label then.
 */
static inline void sample_go_label(struct stackbeat_sample *sample, const char *key,
				   const char *value)
{
	const uint32_t words = sample->kernel_frames + sample->user_frames +
			       !!(sample->record.flags & STACKBEAT_SAMPLE_GOROUTINE) +
			       !!(sample->record.flags & STACKBEAT_SAMPLE_GO_CREATOR);
	struct stackbeat_go_labels *labels = (void *)(sample->frames + words);
	uint8_t *to = labels->bytes;

	sample->record.flags |= STACKBEAT_SAMPLE_GO_LABELS;
	for (uint32_t i = 0; i < labels->count; i++)
		to += 2u + to[0] + to[1];
	*to++ = (uint8_t)strlen(key);
	*to++ = (uint8_t)strlen(value);
	to = (uint8_t *)stpcpy(stpcpy((char *)to, key), value);
	labels->count++;
	labels->size = (uint32_t)(to - (uint8_t *)labels + 7) / 8 * 8;
	sample->record.size = (uint32_t)(sizeof(*sample) + words * sizeof(uint64_t) + labels->size);
}

#endif
