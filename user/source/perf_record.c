// SPDX-License-Identifier: GPL-2.0
#include "source/perf_record.h"

#include <asm/perf_regs.h>
#include <string.h>

#include "lib/byte_cursor.h"

#define BIT_OF(reg) (UINT64_C(1) << (reg))

const uint64_t perf_record_registers =
	BIT_OF(PERF_REG_X86_AX) | BIT_OF(PERF_REG_X86_BX) | BIT_OF(PERF_REG_X86_CX) |
	BIT_OF(PERF_REG_X86_DX) | BIT_OF(PERF_REG_X86_SI) | BIT_OF(PERF_REG_X86_DI) |
	BIT_OF(PERF_REG_X86_BP) | BIT_OF(PERF_REG_X86_SP) | BIT_OF(PERF_REG_X86_IP) |
	BIT_OF(PERF_REG_X86_R8) | BIT_OF(PERF_REG_X86_R9) | BIT_OF(PERF_REG_X86_R10) |
	BIT_OF(PERF_REG_X86_R11) | BIT_OF(PERF_REG_X86_R12) | BIT_OF(PERF_REG_X86_R13) |
	BIT_OF(PERF_REG_X86_R14) | BIT_OF(PERF_REG_X86_R15);

/* In the order of their bits: the numbers of DWARF. */
static const uint8_t dwarf_numbers[STACKBEAT_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
							   8, 9, 10, 11, 12, 13, 14, 15};

static void perf_record_read_registers(struct cursor *cursor, struct perf_sample *sample)
{
	sample->abi = cursor_u64(cursor);
	for (size_t i = 0; sample->abi && i < STACKBEAT_REGISTERS; i++)
		sample->registers[dwarf_numbers[i]] = cursor_u64(cursor);
}

static void read_stack(struct cursor *cursor, struct perf_sample *sample)
{
	uint64_t size = cursor_u64(cursor), copied;

	sample->stack = cursor->at;
	if (!size || !cursor_skip(cursor, size))
		return;
	/* What could be read: the rest is undefined. */
	copied = cursor_u64(cursor);
	if (copied > size)
		cursor_break(cursor);
	else
		sample->stack_size = copied / sizeof(uint64_t) * sizeof(uint64_t);
	sample->stack_asked = size;
}

static void read_chain(struct cursor *cursor, struct perf_sample *sample)
{
	sample->chain_length = cursor_u64(cursor);
	sample->chain = (const void *)cursor->at;
	if (sample->chain_length > cursor_left(cursor) / sizeof(*sample->chain))
		cursor_break(cursor);
	else
		cursor_skip(cursor, sample->chain_length * sizeof(*sample->chain));
}

static void read_sample(struct cursor *cursor, uint64_t type, struct perf_record *record)
{
	record->pid = cursor_u32(cursor);
	record->tid = cursor_u32(cursor);
	record->time = cursor_u64(cursor);
	record->cpu = cursor_u32(cursor);
	cursor_u32(cursor);
	if (type & PERF_SAMPLE_CALLCHAIN)
		read_chain(cursor, &record->sample);
	if (type & PERF_SAMPLE_REGS_USER)
		perf_record_read_registers(cursor, &record->sample);
	if (type & PERF_SAMPLE_STACK_USER)
		read_stack(cursor, &record->sample);
}

static void read_mapping(struct cursor *cursor, struct perf_record *record)
{
	struct perf_mapping *mapping = &record->mapping;
	uint64_t length;

	record->pid = cursor_u32(cursor);
	record->tid = cursor_u32(cursor);
	mapping->start = cursor_u64(cursor);
	length = cursor_u64(cursor);
	mapping->offset = cursor_u64(cursor);
	mapping->device_major = cursor_u32(cursor);
	mapping->device_minor = cursor_u32(cursor);
	mapping->inode = cursor_u64(cursor);
	mapping->inode_generation = cursor_u64(cursor);
	cursor_u64(cursor); /* protection and flags */
	mapping->path = cursor_string(cursor);
	if (!length || __builtin_add_overflow(mapping->start, length, &mapping->end) ||
	    mapping->offset > UINT64_MAX - length)
		cursor_break(cursor);
}

static void read_kernel_symbol(struct cursor *cursor, struct perf_record *record)
{
	struct perf_kernel_symbol *symbol = &record->symbol;

	symbol->start = cursor_u64(cursor);
	if (__builtin_add_overflow(symbol->start, cursor_u32(cursor), &symbol->end))
		cursor_break(cursor);
	symbol->type = cursor_u16(cursor);
	symbol->is_gone = cursor_u16(cursor) & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	symbol->name = cursor_string(cursor);
}

static void read_fork(struct cursor *cursor, struct perf_record *record)
{
	record->pid = cursor_u32(cursor);
	record->parent.pid = cursor_u32(cursor);
	record->tid = cursor_u32(cursor);
	record->parent.tid = cursor_u32(cursor);
}

static void read_comm(struct cursor *cursor, struct perf_record *record)
{
	record->pid = cursor_u32(cursor);
	record->tid = cursor_u32(cursor);
	record->comm = cursor_string(cursor);
}

/* Reads what is behind a record that is no sample (perf_event_attr.sample_id_all). */
static void read_sample_id(struct cursor *cursor, struct perf_record *record)
{
	cursor_u64(cursor); /* the process and the thread that the record was written by */
	record->time = cursor_u64(cursor);
	record->cpu = cursor_u32(cursor);
}

const char *perf_record_decode(const void *data, size_t available, uint64_t sample_type,
			       struct perf_record *record)
{
	const size_t id_size = 3 * sizeof(uint64_t);
	struct perf_event_header header;
	struct cursor cursor, id;

	*record = (struct perf_record){.type = 0};
	if (available < sizeof(header))
		return "a record is shorter than its header";
	memcpy(&header, data, sizeof(header));
	if (header.size < sizeof(header) || header.size % sizeof(uint64_t))
		return "a record has a wrong size";
	if (header.size > available)
		return "a record goes beyond the head";
	record->type = header.type;
	record->misc = header.misc;
	cursor = cursor_at(data, header.size, sizeof(header));
	if (header.type == PERF_RECORD_SAMPLE) {
		read_sample(&cursor, sample_type, record);
		return cursor.broken ? "a sample is shorter than its fields" : NULL;
	}
	if (header.size < sizeof(header) + id_size)
		return "a record is shorter than its fields";
	cursor.end -= id_size;
	id = cursor_at(data, header.size, header.size - id_size);
	read_sample_id(&id, record);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		read_mapping(&cursor, record);
		break;
	case PERF_RECORD_KSYMBOL:
		read_kernel_symbol(&cursor, record);
		break;
	case PERF_RECORD_COMM:
		read_comm(&cursor, record);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		read_fork(&cursor, record);
		break;
	case PERF_RECORD_LOST:
		cursor_u64(&cursor); /* the event */
		record->lost = cursor_u64(&cursor);
		break;
	default:
		break;
	}
	return cursor.broken ? "a record is shorter than its fields" : NULL;
}
