/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program of the guest's fuzzer: a list of steps. Each step performs an operation on the module's
 * interface, with parameters from its own seed. A program is repeatable, as far as the kernel is.
 */
#ifndef STACKBEAT_FUZZ_STEPS_H
#define STACKBEAT_FUZZ_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 48u

struct step {
	uint8_t kind; /* below step_kinds() */
	uint8_t slot; /* where the step begins to search for a file or a mapping */
	uint16_t unused; /* 0 */
	uint32_t seed;
};

struct program {
	uint32_t count;
	struct step steps[STEPS_MAX];
};

/* A random number generator; the same seed gives the same numbers. */
struct random {
	uint64_t state; /* never 0 */
};

void random_init(struct random *random, uint64_t seed);
/* Uniform in [0, below). */
uint32_t draw(struct random *random, uint32_t below);
uint64_t draw_bits(struct random *random);
/* True with a probability of 1 in `times`. */
bool draw_once_in(struct random *random, uint32_t times);

/* The number of kinds of steps. */
unsigned int step_kinds(void);
/* Draws a kind, by the weights of the kinds. */
uint8_t draw_kind(struct random *random);

/*
 * Prepares the process for programs: netlink, signal handlers, address space for mappings. Exits if
 * the module is not loaded. Call once.
 */
void steps_init(void);

/* Counters of the programs so far. */
struct steps_counts {
	uint64_t sessions; /* opened */
	uint64_t balances; /* sessions with ticks whose counters were checked */
};

const struct steps_counts *steps_counts(void);

/*
 * Runs the steps, and then checks the sessions and releases all resources; if `leave` is set,
 * leaves that to the exit of the process. Prints a message and exits with VIOLATION if the module
 * violates its interface.
 */
void run_program(const struct program *program, bool leave);

#define VIOLATION 3

#endif
