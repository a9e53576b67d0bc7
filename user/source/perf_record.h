/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decodes and verifies records of a ring of perf_event_open(2), as perf_event_attr of
 * source/perf_events.c asks for them. Source of the layout: perf_event_open(2), and enum
 * perf_event_type of linux/perf_event.h.
 */
#ifndef STACKBEAT_SOURCE_PERF_RECORD_H
#define STACKBEAT_SOURCE_PERF_RECORD_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

/* What all events ask for in their samples, and behind their other records. */
#define PERF_SAMPLE_ALWAYS (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

/* Bytes of a record, at most: its header has 16 bits for them. */
#define PERF_RECORD_SIZE_MAX (1u << 16)

/* A mapping that can be executed: PERF_RECORD_MMAP2. */
struct perf_mapping {
	uint64_t start, end, offset;
	uint32_t device_major, device_minor; /* of the file, as inode and generation; 0: none */
	uint64_t inode, inode_generation;
	const char *path; /* "//anon" and the like without a file */
};

/* Code that the kernel generates has come or gone: PERF_RECORD_KSYMBOL. */
struct perf_kernel_symbol {
	uint64_t start, end; /* equal for what is not compiled */
	uint16_t type; /* PERF_RECORD_KSYMBOL_TYPE_* */
	bool is_gone;
	const char *name; /* a user may have chosen a part of it */
};

struct perf_sample {
	const uint64_t *chain; /* call chains, with PERF_CONTEXT_* before each part */
	uint64_t chain_length;
	uint64_t abi; /* PERF_SAMPLE_REGS_ABI_* of the user part */
	uint64_t registers[STACKBEAT_REGISTERS]; /* in the order of stackbeat.h */
	const uint8_t *stack; /* from rsp on */
	uint64_t stack_size; /* bytes */
	uint64_t stack_asked; /* bytes: more than stack_size where memory ends */
};

/* Pointers lead into the record. */
struct perf_record {
	uint32_t type; /* PERF_RECORD_* */
	uint16_t misc; /* PERF_RECORD_MISC_* */
	uint32_t pid, tid; /* the process and the thread that the record is about */
	uint32_t cpu;
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	union {
		struct perf_sample sample;
		struct perf_mapping mapping;
		struct perf_kernel_symbol symbol;
		const char *comm; /* PERF_RECORD_COMM */
		struct {
			uint32_t pid, tid;
		} parent; /* PERF_RECORD_FORK, PERF_RECORD_EXIT */
		uint64_t lost; /* PERF_RECORD_LOST: number of records */
	};
};

/*
 * The registers of samples: PERF_REG_X86_*, all of STACKBEAT_REGISTERS. The kernel writes them in
 * the order of their bits.
 */
extern const uint64_t perf_record_registers;

/*
 * Decodes the record at the start of `available` bytes, aligned to 8. `sample_type`: of the
 * events. Records of other types have their type and misc only. Returns NULL, or what is wrong with
 * the record.
 */
const char *perf_record_decode(const void *data, size_t available, uint64_t sample_type,
			       struct perf_record *record);

#endif
