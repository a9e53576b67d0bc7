/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads all goroutines of a running Go program from its memory, without stopping it.
 *
 * A goroutine that is parked does not change its stack. It is read twice, before and after its
 * stack, which is read twice, too. If all that matters is equal, the stack is a stack that the
 * goroutine had; else it is tried again. All that is read is untrusted.
 */
#ifndef STACKBEAT_INSPECT_GOROUTINES_H
#define STACKBEAT_INSPECT_GOROUTINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/hash.h"

struct error;
struct go_layout;
struct go_program;

/* See src/runtime/runtime2.go of Go. The status of a goroutine that the collector scans has a bit
 * more. */
enum goroutine_status {
	GOROUTINE_IDLE,
	GOROUTINE_RUNNABLE,
	GOROUTINE_RUNNING,
	GOROUTINE_SYSCALL,
	GOROUTINE_WAITING,
	GOROUTINE_DEAD = 6,
	GOROUTINE_COPYSTACK = 8,
	GOROUTINE_PREEMPTED,
	GOROUTINE_LEAKED, /* waiting, for something that can't happen (Go 1.26) */
	GOROUTINE_DEADEXTRA,
	GOROUTINE_STATUSES
};

#define GOROUTINES_MAX (1u << 22)
#define GOROUTINE_FRAMES_MAX 1024u /* of a stack */
/* Seconds that reading may take. */
#define GOROUTINES_TIMEOUT_S 60

/* Why a walk has ended. */
enum goroutine_end {
	GOROUTINE_COMPLETE,
	GOROUTINE_NO_RULE, /* the code of a frame is not Go's */
	GOROUTINE_BAD_FRAME, /* the stack ends before the first caller */
	GOROUTINE_MAX_DEPTH,
};

#define GOROUTINE_NO_STACK UINT32_MAX

struct goroutine {
	uint64_t id, parent_id; /* parent_id 0: unknown, before Go 1.21 */
	uint64_t creator; /* as a frame: the return address of the go statement; 0: none */
	uint64_t address; /* of its g */
	uint64_t labels; /* address of its pprof labels, see goroutine_labels.h; 0: none */
	uint64_t wait_since; /* ns, CLOCK_MONOTONIC of the process; 0: unknown */
	uint32_t stack; /* index in goroutines->stacks, or GOROUTINE_NO_STACK */
	uint8_t status; /* enum goroutine_status */
	uint8_t wait_reason; /* see runtime/go_wait_reasons.h */
	bool is_system; /* of the runtime: Go's own profile leaves it out */
};

/*
 * A frame: the ELF virtual address of the call, and the number of its file: 0 for the file with the
 * runtime, or n + 1 for source->others[n]. GOROUTINE_INTERRUPTED: it is the address of an
 * instruction that was interrupted, or of a function that has not begun.
 */
#define GOROUTINE_INTERRUPTED (UINT64_C(1) << 63)
#define GOROUTINE_FILE_SHIFT 48
#define GOROUTINE_OTHERS_MAX 63u

static inline uint64_t goroutine_frame_address(uint64_t frame)
{
	return frame & ((UINT64_C(1) << GOROUTINE_FILE_SHIFT) - 1);
}

static inline size_t goroutine_frame_file(uint64_t frame)
{
	return (frame & ~GOROUTINE_INTERRUPTED) >> GOROUTINE_FILE_SHIFT;
}

struct goroutine_stack {
	size_t first; /* in goroutines->frames, leaf first, without runtime.goexit */
	uint32_t count;
	uint32_t end; /* enum goroutine_end */
};

struct goroutines {
	struct goroutine *items; /* in the order of their creation, mostly */
	size_t count;
	struct goroutine_stack *stacks; /* each once */
	size_t stack_count;
	uint64_t *frames;
	size_t frame_count;
	uint64_t running; /* of the items: without a stack, as they run */
	uint64_t
		moving; /* of the items: without a stack, as it has changed each time it was read */
	uint64_t unread; /* not in the items: time or memory were not enough */
	/* Private. */
	size_t stack_capacity, frame_capacity;
	struct hash stack_index;
};

/* A file with Go's code, but without the runtime that is used. */
struct goroutines_file {
	uint64_t bias; /* address - ELF virtual address */
	const struct go_program *program;
};

struct goroutines_source {
	pid_t pid;
	uint64_t bias; /* address - ELF virtual address */
	const struct go_program *program; /* with the runtime */
	const struct go_layout *layout;
	const struct goroutines_file *others;
	size_t other_count; /* up to GOROUTINE_OTHERS_MAX */
};

/*
 * Reads the goroutines. Returns 0, to be followed by goroutines_clear(); or a negative errno value
 * with `error` set: -ESRCH if the process has exited, -EACCES, -ENODATA if the memory is not that
 * of a Go program with this layout, or -ENOMEM.
 */
int goroutines_read(const struct goroutines_source *source, struct goroutines *goroutines,
		    struct error *error);
void goroutines_clear(struct goroutines *goroutines);

/* The stored registers of a goroutine that does not run. */
struct goroutine_place {
	uint64_t pc, sp;
	uint64_t bp; /* 0: unknown */
};

/*
 * Finds the goroutine with a number. Returns 0, or a negative errno value with `error` set as
 * goroutines_read(); -ENOENT if there is none, -EBUSY if it runs.
 */
int goroutine_find(const struct goroutines_source *source, uint64_t id,
		   struct goroutine_place *place, struct error *error);

#endif
