/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program of the guest's fuzzer: a list of steps, each of which does something to the module that
 * a process could do, by what it draws from its own seed. The same program does the same, as far as
 * the kernel lets it.
 */
#ifndef STACKBEAT_FUZZ_STEPS_H
#define STACKBEAT_FUZZ_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 48u

struct step {
	uint8_t kind; /* below step_kinds() */
	uint8_t slot; /* of what it begins to look for a file or a mapping */
	uint16_t unused; /* 0 */
	uint32_t seed;
};

struct program {
	uint32_t count;
	struct step steps[STEPS_MAX];
};

/* Random numbers that are the same for the same seed. */
struct random {
	uint64_t state; /* never 0 */
};

void random_init(struct random *random, uint64_t seed);
/* Uniform in [0, below). */
uint32_t draw(struct random *random, uint32_t below);
uint64_t draw_bits(struct random *random);
/* True once in `times`. */
bool draw_once_in(struct random *random, uint32_t times);

/* How many kinds of steps there are. */
unsigned int step_kinds(void);
/* A kind, by how often it should come. */
uint8_t draw_kind(struct random *random);

/*
 * Finds the module, and what is needed to speak to it. Ends the process where it is not there.
 * Once, before programs are run.
 */
void steps_init(void);

/* What came of the programs that were run. */
struct steps_counts {
	uint64_t sessions; /* opened */
	uint64_t balances; /* of sessions that have beaten, that were looked at and right */
};

const struct steps_counts *steps_counts(void);

/*
 * Runs the steps, and lets go of all that they have made, or, where `leave` says so, leaves that to
 * the end of the process. Ends the process with VIOLATION, and says why, where the module did what
 * it must not.
 */
void run_program(const struct program *program, bool leave);

#define VIOLATION 3

#endif
