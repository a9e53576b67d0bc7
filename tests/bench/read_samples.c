// SPDX-License-Identifier: GPL-2.0
/*
 * read_samples STACKS DEPTH SAMPLES [LIFETIME]: passes SAMPLES records of STACKS different stacks
 * of DEPTH user frames through the reader, as the kernel writes them to the rings of two CPUs. Each
 * record has a random one of the stacks, and one of four threads. After LIFETIME samples, the
 * process ends, and another one begins: its stacks are folded into the window. Prints the number of
 * stacks found.
 *
 * For tests/bench/reader, which counts the instructions of drain().
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "record/sample_queue.h"
#include "record/stack.h"
#include "record/stack_table.h"
#include "record/window.h"
#include "sample.h"
#include "session/ring_decode.h"

#define CPUS 2
#define RING_SIZE STACKBEAT_RING_SIZE_DEFAULT
/* No process has this ID or a higher one: the first one has ended when another one begins. */
#define PROCESS 5000000u
#define SPACE 7u
#define CODE UINT64_C(0x555555554000)
#define CODE_SIZE UINT64_C(0x10000)
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
	struct labels labels;
	uint64_t file;
	uint32_t processes; /* that have ended */
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
	struct reader *reader = arg;

	return window_add(&reader->window, &reader->labels, stack);
}

static void start_process(struct reader *reader)
{
	const uint64_t space = SPACE + reader->processes;

	fake_space(reader->spaces, space, PROCESS + reader->processes, 1, "stacks");
	fake_mapping(reader->spaces, space, 1, STACKBEAT_MAPPING_MAIN_BINARY, CODE,
		     CODE + CODE_SIZE, reader->file, 0);
	if (address_space_advance(address_spaces_get(reader->spaces, space, 0), 1))
		abort();
}

static void init(struct reader *reader)
{
	const struct file_source source = fake_source(&reader->files);
	struct error error;

	reader->labels.chosen = LABELS_DEFAULT;
	reader->mapped = mapped_files_new("", &source, &error);
	mapped_files_skip_symbols(reader->mapped);
	reader->spaces = address_spaces_new("", reader->mapped, &error);
	reader->stacks = stack_table_new(reader->spaces, LABELS_DEFAULT, fold, reader);
	reader->queue = sample_queue_new(reader->spaces, reader->stacks);
	if (!reader->queue || window_init(&reader->window, reader->mapped))
		abort();
	reader->file = fake_file(reader->mapped, &reader->files, "/proc/self/exe");
	start_process(reader);
}

static void clear(struct reader *reader)
{
	window_clear(&reader->window);
	sample_queue_free(reader->queue);
	stack_table_free(reader->stacks);
	address_spaces_free(reader->spaces);
	mapped_files_free(reader->mapped);
	fake_clear(&reader->files);
}

/* Makes a sample of a stack: a path of calls by the bits of its number, with one of LEAVES leaves.
 */
static void make_sample(union any_sample *any, uint32_t process, uint64_t stack, uint32_t depth)
{
	struct stackbeat_sample *sample = sample_begin(any, PROCESS + process, "stacks");
	uint64_t path = stack / LEAVES;

	sample->address_space = SPACE + process;
	sample->generation = 1;
	sample->tid = PROCESS + process + (uint32_t)(next_random() % 4);
	sample->weight = 250000;
	sample_user(sample, CODE + 0x1000 + stack % LEAVES * 4);
	for (uint32_t i = 1; i < depth; i++, path >>= 1)
		sample_user(sample, CODE + (path & 1 ? 0x2345 : 0x3456));
	for (uint32_t i = 0; i < depth; i++)
		sample->hash = (sample->hash << 7 | sample->hash >> 57) + sample->frames[i];
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

/* As collector_drain() does. */
static __attribute__((noinline)) void drain(struct reader *reader, uint64_t now, bool check_alive)
{
	struct error error;

	sample_queue_begin(reader->queue, true);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		struct ring *ring = &rings[cpu];

		if (decode_records(ring->data, RING_SIZE, &ring->tail, ring->head,
				   sample_queue_repeat, sample_queue_sample, reader->queue, &error))
			abort();
	}
	if (sample_queue_flush(reader->queue, now) ||
	    address_spaces_collect_garbage(reader->spaces, now, now, check_alive))
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
	uint64_t stacks, depth, samples, lifetime;
	bool ends;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: read_samples STACKS DEPTH SAMPLES [LIFETIME]\n");
		return 2;
	}
	stacks = number(argv[1]);
	depth = number(argv[2]);
	samples = number(argv[3]);
	lifetime = argc > 4 ? number(argv[4]) : samples + 1;
	if (depth > STACKBEAT_USER_FRAMES_MAX)
		return 2;
	init(&reader);
	for (uint64_t i = 1; i <= samples; i++) {
		uint32_t cpu = (uint32_t)(next_random() % CPUS);

		make_sample(&any, reader.processes, next_random() % stacks, (uint32_t)depth);
		any.sample.cpu = cpu;
		any.sample.time = i * any.sample.weight;
		ends = i % lifetime == 0;
		if (!write_sample(&rings[cpu], &any.sample) || i == samples || ends)
			drain(&reader, any.sample.time, ends);
		reader.processes += ends;
		if (ends)
			start_process(&reader);
	}
	if (stack_table_totals(reader.stacks)->samples != samples)
		abort();
	printf("%llu\n", (unsigned long long)stack_table_totals(reader.stacks)->stacks);
	clear(&reader);
	return 0;
}
