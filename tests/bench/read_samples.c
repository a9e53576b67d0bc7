// SPDX-License-Identifier: GPL-2.0
/*
 * read_samples STACKS DEPTH PROCESSES SAMPLES: passes SAMPLES records of STACKS different stacks of
 * DEPTH user frames in three files through the reader, as the kernel writes them to the rings of
 * two CPUs. Each record has a random one of the stacks, and one of four threads. PROCESSES
 * processes run one after the other; the reader notices the end of all but the last one, and folds
 * their stacks. Prints the number of stacks found.
 *
 * For tests/bench/reader, which counts the instructions of drain().
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "record/sample_queue.h"
#include "record/stack_table.h"
#include "record/window.h"
#include "sample.h"
#include "source/ring_decode.h"

#define CPUS 2
#define RING_SIZE STACKBEAT_RING_SIZE_DEFAULT
/* Above all process IDs of the kernel: no process with it is alive. */
#define FIRST_PROCESS 5000000u
#define CODE UINT64_C(0x555555554000)
#define CODE_SIZE UINT64_C(0x10000)
#define FILES 3u
/* Stacks that differ only in their leaf. */
#define LEAVES 10

struct ring {
	uint64_t head, tail;
	uint8_t data[RING_SIZE] __attribute__((aligned(8)));
};

static struct ring rings[CPUS];

struct reader {
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *stacks;
	struct sample_queue *queue;
	struct window window;
	uint64_t file_ids[FILES];
	uint32_t process; /* that runs now */
};

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int fold(const struct stack *stack, void *arg)
{
	static const struct labels labels = {.chosen = LABELS_DEFAULT};

	return window_add(&((struct reader *)arg)->window, &labels, stack);
}

static void init(struct reader *reader)
{
	const struct file_source source = fake_source(&reader->files);
	static const char *const paths[FILES] = {"/proc/self/exe", "/bin/sh", "/bin/true"};
	struct error error;

	reader->mapped = mapped_files_new("", &source, &error);
	mapped_files_skip_symbols(reader->mapped);
	reader->spaces = address_spaces_new("", reader->mapped, &error);
	reader->stacks = stack_table_new(reader->spaces, LABELS_DEFAULT, fold, reader);
	reader->queue = sample_queue_new(reader->spaces, reader->stacks);
	if (!reader->queue || window_init(&reader->window, reader->mapped))
		abort();
	for (unsigned int i = 0; i < FILES; i++)
		reader->file_ids[i] = fake_file(reader->mapped, &reader->files, paths[i]);
}

static uint64_t code_of(unsigned int file)
{
	return CODE + file * 2 * CODE_SIZE;
}

/* Its address space has the number of the process. */
static void start_process(struct reader *reader, uint32_t process)
{
	reader->process = process;
	fake_space(reader->spaces, process, process, 1, "stacks");
	for (unsigned int i = 0; i < FILES; i++)
		fake_mapping(reader->spaces, process, 1,
			     STACKBEAT_MAPPING_VADDR | (i ? 0 : STACKBEAT_MAPPING_MAIN_BINARY),
			     code_of(i), code_of(i) + CODE_SIZE, reader->file_ids[i], 0);
	if (address_space_advance(address_spaces_get(reader->spaces, process, 0), 1))
		abort();
}

static void clear(struct reader *reader)
{
	sample_queue_free(reader->queue);
	stack_table_free(reader->stacks);
	window_clear(&reader->window);
	address_spaces_free(reader->spaces);
	mapped_files_free(reader->mapped);
	fake_clear(&reader->files);
}

/*
 * Makes a sample of a stack: a path of calls by the bits of its number, with one of LEAVES leaves.
 * A third of the frames is in each file.
 */
static void make_sample(const struct reader *reader, union any_sample *any, uint64_t stack,
			uint32_t depth)
{
	struct stackbeat_sample *sample = sample_begin(any, reader->process, "stacks");
	uint64_t path = stack / LEAVES;

	sample->address_space = reader->process;
	sample->generation = 1;
	sample->tid = reader->process + (uint32_t)(next_random() % 4);
	sample->weight = 250000;
	sample_user(sample, code_of(0) + 0x1000 + stack % LEAVES * 4);
	for (uint32_t i = 1; i < depth; i++, path >>= 1)
		sample_user(sample, code_of(i * FILES / depth) + i * 64 + (path & 1 ? 5 : 37));
}

/* Writes a record as the kernel does. Returns false if the ring is half full. */
static bool write_sample(struct ring *ring, const struct stackbeat_sample *sample)
{
	uint64_t at = ring->head % RING_SIZE;

	if (at + sample->record.size > RING_SIZE) {
		const struct stackbeat_record pad = {.type = STACKBEAT_RECORD_PAD,
						     .size = (uint32_t)(RING_SIZE - at)};

		memcpy(ring->data + at, &pad, sizeof(pad));
		ring->head += pad.size;
		at = 0;
	}
	memcpy(ring->data + at, sample, sample->record.size);
	ring->head += sample->record.size;
	return ring->head - ring->tail < RING_SIZE / 2;
}

/* As collector_drain() does. `ends`: processes may have ended. */
static __attribute__((noinline)) void drain(struct reader *reader, uint64_t now, bool ends)
{
	struct error error;

	sample_queue_begin(reader->queue, true);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		struct ring *ring = &rings[cpu];

		if (decode_records(ring->data, RING_SIZE, &ring->tail, ring->head,
				   sample_queue_repeat, sample_queue_sample, reader->queue, &error))
			abort();
	}
	if (sample_queue_flush(reader->queue, now))
		abort();
	sample_queue_keep(reader->queue);
	if (address_spaces_collect_garbage(reader->spaces, now, now, ends))
		abort();
	stack_table_sweep(reader->stacks);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!value || *end) {
		fprintf(stderr, "%s: not a number above 0\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static struct reader reader;
	static union any_sample any;
	uint64_t stacks, depth, samples, processes;

	if (argc != 5) {
		fprintf(stderr, "usage: read_samples STACKS DEPTH PROCESSES SAMPLES\n");
		return 2;
	}
	stacks = number(argv[1]);
	depth = number(argv[2]);
	processes = number(argv[3]);
	samples = number(argv[4]);
	if (depth > STACKBEAT_USER_FRAMES_MAX || processes > samples)
		return 2;
	init(&reader);
	for (uint64_t i = 1; i <= samples; i++) {
		uint32_t cpu = (uint32_t)(next_random() % CPUS);
		uint32_t process = FIRST_PROCESS + (uint32_t)(i * processes / (samples + 1));

		if (process != reader.process) {
			/* Twice: an end that is noticed once is acted on at the next drain. */
			drain(&reader, i * any.sample.weight, processes > 1);
			drain(&reader, i * any.sample.weight + 1, false);
			start_process(&reader, process);
		}
		make_sample(&reader, &any, next_random() % stacks, (uint32_t)depth);
		any.sample.cpu = cpu;
		any.sample.time = i * any.sample.weight;
		if (!write_sample(&rings[cpu], &any.sample) || i == samples)
			drain(&reader, any.sample.time, false);
	}
	if (stack_table_totals(reader.stacks)->samples != samples)
		abort();
	printf("%llu\n", (unsigned long long)stack_table_totals(reader.stacks)->stacks);
	clear(&reader);
	return 0;
}
