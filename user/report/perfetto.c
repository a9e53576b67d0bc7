// SPDX-License-Identifier: GPL-2.0
#include "report/perfetto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/hex.h"
#include "lib/string_table.h"
#include "perfetto.pb-c.h"
#include "report/frame_name.h"
#include "report/trace.h"

#define CLOCK_ID_REALTIME 1
#define CLOCK_ID_BOOTTIME 6
#define COUNTER_CPU_CLOCK 1
#define SEQUENCE 1 /* all packets are of one */
#define SEQUENCE_BEGINS 1u
#define SEQUENCE_GOES_ON 2u
#define BUILD_ID_MAX 64
/* The function of a stack without frames, and the mapping of a frame without one. */
#define NO_FRAMES "[no frames]"
#define NO_MAPPING "[unknown]"

typedef Stackbeat__Perfetto__TracePacket Packet;
typedef Stackbeat__Perfetto__InternedData Interned;
typedef Stackbeat__Perfetto__InternedString InternedText;

enum mode { MODE_KERNEL = 1, MODE_USER };

/* Fields of InternedData with strings. */
enum texts { TEXTS_FUNCTIONS, TEXTS_PATHS, TEXTS_SOURCES, TEXTS_BUILD_IDS, TEXTS };

struct perfetto {
	ProtobufCBuffer buffer; /* first: protobuf-c passes its address to append_to_stream() */
	FILE *out;
	const struct trace *trace;
	struct string_table texts[TEXTS]; /* iid: number + 1 */
	/* Which entries were written: an iid is a number + 1. */
	bool *has_frame, *has_mapping, *has_stack;
	uint32_t *path; /* frames of a stack */
	uint64_t *frame_iids;
	int err;
};

static void append_to_stream(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
	fwrite(data, 1, size, ((struct perfetto *)buffer)->out);
}

/* A trace may be written in parts: each has one packet. */
static void write_packet(struct perfetto *perfetto, Packet *packet)
{
	Stackbeat__Perfetto__Trace trace = STACKBEAT__PERFETTO__TRACE__INIT;

	packet->has_trusted_packet_sequence_id = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	trace.packet = &packet;
	trace.n_packet = 1;
	protobuf_c_message_pack_to_buffer(&trace.base, &perfetto->buffer);
}

static void write_interned(struct perfetto *perfetto, Interned *interned)
{
	Packet packet = STACKBEAT__PERFETTO__TRACE_PACKET__INIT;

	packet.interned_data = interned;
	packet.has_sequence_flags = true;
	packet.sequence_flags = SEQUENCE_GOES_ON;
	write_packet(perfetto, &packet);
}

/* Interned data */

static void write_text(struct perfetto *perfetto, enum texts which, InternedText *text)
{
	Interned interned = STACKBEAT__PERFETTO__INTERNED_DATA__INIT;
	size_t *counts[TEXTS] = {
		[TEXTS_FUNCTIONS] = &interned.n_function_names,
		[TEXTS_PATHS] = &interned.n_mapping_paths,
		[TEXTS_SOURCES] = &interned.n_source_paths,
		[TEXTS_BUILD_IDS] = &interned.n_build_ids,
	};
	InternedText ***tables[TEXTS] = {
		[TEXTS_FUNCTIONS] = &interned.function_names,
		[TEXTS_PATHS] = &interned.mapping_paths,
		[TEXTS_SOURCES] = &interned.source_paths,
		[TEXTS_BUILD_IDS] = &interned.build_ids,
	};

	*tables[which] = &text;
	*counts[which] = 1;
	write_interned(perfetto, &interned);
}

/* Returns the bytes of a build ID in hex; 0: it is none. */
static size_t perfetto_build_id(const char *hex, uint8_t bytes[BUILD_ID_MAX])
{
	size_t size = 0;

	for (; *hex; hex += 2) {
		const int high = hex_digit(hex[0]), low = high < 0 ? -1 : hex_digit(hex[1]);

		if (low < 0 || size == BUILD_ID_MAX)
			return 0;
		bytes[size++] = (uint8_t)(high << 4 | low);
	}
	return size;
}

/* Returns the iid of a text, which is written if it is new; 0: out of memory. */
static uint64_t perfetto_text(struct perfetto *perfetto, enum texts which, const char *text)
{
	struct string_table *table = &perfetto->texts[which];
	const size_t count = table->count;
	const uint32_t number = string_table_add(table, text, strlen(text));
	InternedText written = STACKBEAT__PERFETTO__INTERNED_STRING__INIT;
	uint8_t bytes[BUILD_ID_MAX];

	if (number == STRING_NONE) {
		perfetto->err = -ENOMEM;
		return 0;
	}
	if (table->count > count) {
		written.has_iid = written.has_str = true;
		written.iid = (uint64_t)number + 1;
		written.str = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
		if (which == TEXTS_BUILD_IDS)
			written.str = (ProtobufCBinaryData){perfetto_build_id(text, bytes), bytes};
		write_text(perfetto, which, &written);
	}
	return (uint64_t)number + 1;
}

/* Returns the iid of a mapping; all frames have one, as older readers demand. */
static uint64_t perfetto_mapping(struct perfetto *perfetto, uint32_t number)
{
	const struct profile *profile = perfetto->trace->profile;
	const struct profile_mapping *mapping = &profile->mappings.items[number];
	const char *path = number ? profile_text(profile, mapping->file) : NO_MAPPING;
	Interned interned = STACKBEAT__PERFETTO__INTERNED_DATA__INIT;
	Stackbeat__Perfetto__Mapping written = STACKBEAT__PERFETTO__MAPPING__INIT;
	Stackbeat__Perfetto__Mapping *mappings = &written;
	uint64_t part;

	if (perfetto->has_mapping[number])
		return (uint64_t)number + 1;
	perfetto->has_mapping[number] = true;
	/* A reader puts a slash before each part. */
	part = perfetto_text(perfetto, TEXTS_PATHS, path + (*path == '/'));
	written.has_iid = written.has_start = written.has_end = written.has_exact_offset = true;
	written.iid = (uint64_t)number + 1;
	written.start = mapping->start;
	written.end = mapping->limit;
	written.exact_offset = mapping->offset;
	written.path_string_ids = &part;
	written.n_path_string_ids = 1;
	if (mapping->build_id) {
		written.has_build_id = true;
		written.build_id = perfetto_text(perfetto, TEXTS_BUILD_IDS,
						 profile_text(profile, mapping->build_id));
	}
	interned.mappings = &mappings;
	interned.n_mappings = 1;
	write_interned(perfetto, &interned);
	return (uint64_t)number + 1;
}

static void set_frame_source(struct perfetto *perfetto, const struct profile_line *line,
			     Stackbeat__Perfetto__Frame *frame)
{
	const struct profile *profile = perfetto->trace->profile;
	const uint32_t file = profile->functions.items[line->function].file;

	if (file) {
		frame->has_source_path_iid = true;
		frame->source_path_iid =
			perfetto_text(perfetto, TEXTS_SOURCES, profile_text(profile, file));
	}
	if (line->line > 0 && line->line <= UINT32_MAX) {
		frame->has_line_number = true;
		frame->line_number = (uint32_t)line->line;
	}
}

static void write_frame(struct perfetto *perfetto, Stackbeat__Perfetto__Frame *frame, uint64_t iid,
			const char *name, uint32_t mapping, uint64_t address)
{
	Interned interned = STACKBEAT__PERFETTO__INTERNED_DATA__INIT;

	frame->has_iid = frame->has_function_name_id = true;
	frame->has_mapping_id = frame->has_rel_pc = true;
	frame->iid = iid;
	frame->function_name_id = perfetto_text(perfetto, TEXTS_FUNCTIONS, name);
	frame->mapping_id = perfetto_mapping(perfetto, mapping);
	frame->rel_pc = address;
	interned.frames = &frame;
	interned.n_frames = 1;
	write_interned(perfetto, &interned);
}

/* Returns the iid of a frame by its number. */
static uint64_t perfetto_frame(struct perfetto *perfetto, uint32_t number)
{
	const struct trace *trace = perfetto->trace;
	const struct profile *profile = trace->profile;
	const uint32_t location = trace_frame_location(trace, number);
	const struct profile_location *at = &profile->locations.items[location];
	const struct profile_mapping *mapping = &profile->mappings.items[at->mapping];
	const struct profile_line *line =
		trace_line(trace, location, number - trace->first_frames[location]);
	Stackbeat__Perfetto__Frame frame = STACKBEAT__PERFETTO__FRAME__INIT;
	char *name;

	if (perfetto->has_frame[number])
		return (uint64_t)number + 1;
	perfetto->has_frame[number] = true;
	if (trace_frame_name(trace, location, line, &name)) {
		perfetto->err = -ENOMEM;
		return 0;
	}
	if (line)
		set_frame_source(perfetto, line, &frame);
	write_frame(perfetto, &frame, (uint64_t)number + 1, name, at->mapping,
		    at->mapping ? at->address - mapping->start + mapping->offset : at->address);
	free(name);
	return (uint64_t)number + 1;
}

/* Returns the iid of a stack. */
static uint64_t perfetto_stack(struct perfetto *perfetto, uint32_t stack)
{
	const uint64_t no_frames = (uint64_t)trace_frame_count(perfetto->trace) + 1;
	Interned interned = STACKBEAT__PERFETTO__INTERNED_DATA__INIT;
	Stackbeat__Perfetto__Callstack written = STACKBEAT__PERFETTO__CALLSTACK__INIT;
	Stackbeat__Perfetto__Frame frame = STACKBEAT__PERFETTO__FRAME__INIT;
	Stackbeat__Perfetto__Callstack *stacks = &written;
	size_t depth;

	if (perfetto->has_stack[stack])
		return (uint64_t)stack + 1;
	perfetto->has_stack[stack] = true;
	depth = trace_stack_frames(perfetto->trace, stack, perfetto->path);
	for (size_t i = 0; i < depth; i++)
		perfetto->frame_iids[i] = perfetto_frame(perfetto, perfetto->path[i]);
	if (!depth) {
		write_frame(perfetto, &frame, no_frames, NO_FRAMES, 0, 0);
		perfetto->frame_iids[depth++] = no_frames;
	}
	written.has_iid = true;
	written.iid = (uint64_t)stack + 1;
	written.frame_ids = perfetto->frame_iids;
	written.n_frame_ids = depth;
	interned.callstacks = &stacks;
	interned.n_callstacks = 1;
	write_interned(perfetto, &interned);
	return (uint64_t)stack + 1;
}

/* Packets */

/* Times are since 1970 by all clocks of the trace. */
static void write_clocks(struct perfetto *perfetto)
{
	Packet packet = STACKBEAT__PERFETTO__TRACE_PACKET__INIT;
	Stackbeat__Perfetto__ClockSnapshot snapshot = STACKBEAT__PERFETTO__CLOCK_SNAPSHOT__INIT;
	Stackbeat__Perfetto__ClockSnapshot__Clock real =
		STACKBEAT__PERFETTO__CLOCK_SNAPSHOT__CLOCK__INIT;
	Stackbeat__Perfetto__ClockSnapshot__Clock boot, *clocks[] = {&boot, &real};

	real.has_clock_id = real.has_timestamp = true;
	real.timestamp = (uint64_t)perfetto->trace->start_ns;
	boot = real;
	real.clock_id = CLOCK_ID_REALTIME;
	boot.clock_id = CLOCK_ID_BOOTTIME;
	snapshot.clocks = clocks;
	snapshot.n_clocks = 2;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = CLOCK_ID_BOOTTIME;
	packet.has_timestamp = true;
	packet.timestamp = (uint64_t)perfetto->trace->start_ns;
	packet.clock_snapshot = &snapshot;
	write_packet(perfetto, &packet);
}

/* The first packet of the sequence, with what all samples have in common. */
static void write_defaults(struct perfetto *perfetto)
{
	Packet packet = STACKBEAT__PERFETTO__TRACE_PACKET__INIT;
	Stackbeat__Perfetto__TracePacketDefaults defaults =
		STACKBEAT__PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
	Stackbeat__Perfetto__PerfSampleDefaults sample =
		STACKBEAT__PERFETTO__PERF_SAMPLE_DEFAULTS__INIT;
	Stackbeat__Perfetto__Timebase timebase = STACKBEAT__PERFETTO__TIMEBASE__INIT;

	timebase.has_period = timebase.has_counter = true;
	timebase.period = (uint64_t)MAX(1, perfetto->trace->profile->period);
	timebase.counter = COUNTER_CPU_CLOCK;
	timebase.name = (char *)"cpu-clock";
	sample.timebase = &timebase;
	defaults.perf_sample_defaults = &sample;
	packet.trace_packet_defaults = &defaults;
	packet.has_sequence_flags = packet.has_first_packet_on_sequence = true;
	packet.sequence_flags = SEQUENCE_BEGINS;
	packet.first_packet_on_sequence = true;
	write_packet(perfetto, &packet);
}

/* A process for the first of its threads, and each thread. */
static void write_thread(struct perfetto *perfetto, const struct trace_track *thread,
			 bool is_process)
{
	Packet packet = STACKBEAT__PERFETTO__TRACE_PACKET__INIT;
	Stackbeat__Perfetto__ProcessTree tree = STACKBEAT__PERFETTO__PROCESS_TREE__INIT;
	Stackbeat__Perfetto__ProcessTree__Process process =
		STACKBEAT__PERFETTO__PROCESS_TREE__PROCESS__INIT;
	Stackbeat__Perfetto__ProcessTree__Thread written =
		STACKBEAT__PERFETTO__PROCESS_TREE__THREAD__INIT;
	Stackbeat__Perfetto__ProcessTree__Process *processes = &process;
	Stackbeat__Perfetto__ProcessTree__Thread *threads = &written;
	char *name = (char *)(*thread->process ? thread->process : thread->name);

	process.has_pid = true;
	process.pid = (int32_t)thread->pid;
	process.cmdline = &name;
	process.n_cmdline = 1;
	written.has_tid = written.has_tgid = true;
	written.tid = (int32_t)(thread->tid ? thread->tid : thread->pid);
	written.tgid = (int32_t)thread->pid;
	written.name = (char *)thread->name;
	tree.processes = &processes;
	tree.n_processes = is_process;
	tree.threads = &threads;
	tree.n_threads = 1;
	packet.has_timestamp = true;
	packet.timestamp = (uint64_t)perfetto->trace->start_ns;
	packet.process_tree = &tree;
	write_packet(perfetto, &packet);
}

static enum mode mode_of(const struct profile *profile, uint32_t stack)
{
	const uint32_t *locations = profile_stack_locations(profile, stack);

	if (!profile->stacks.items[stack].count)
		return MODE_USER;
	return is_kernel_file(location_file(profile, &profile->locations.items[*locations]))
		       ? MODE_KERNEL
		       : MODE_USER;
}

static void write_perf_sample(struct perfetto *perfetto, const struct trace_track *thread,
			      const struct trace_sample *from)
{
	Packet packet = STACKBEAT__PERFETTO__TRACE_PACKET__INIT;
	Stackbeat__Perfetto__PerfSample sample = STACKBEAT__PERFETTO__PERF_SAMPLE__INIT;

	sample.has_cpu = from->cpu != TRACE_NO_CPU;
	sample.cpu = from->cpu;
	sample.has_pid = sample.has_tid = sample.has_callstack_iid = sample.has_cpu_mode = true;
	sample.pid = (uint32_t)thread->pid;
	sample.tid = (uint32_t)(thread->tid ? thread->tid : thread->pid);
	sample.callstack_iid = perfetto_stack(perfetto, from->stack);
	sample.cpu_mode = mode_of(perfetto->trace->profile, from->stack);
	packet.has_timestamp = packet.has_sequence_flags = true;
	packet.timestamp = (uint64_t)from->time_ns;
	packet.sequence_flags = SEQUENCE_GOES_ON;
	packet.perf_sample = &sample;
	write_packet(perfetto, &packet);
}

static int write_packets(struct perfetto *perfetto)
{
	const struct trace *trace = perfetto->trace;

	write_clocks(perfetto);
	write_defaults(perfetto);
	for (size_t i = 0; i < trace->thread_count; i++)
		write_thread(perfetto, &trace->threads[i],
			     !i || trace->threads[i - 1].pid != trace->threads[i].pid);
	for (size_t i = 0; i < trace->sample_count && !perfetto->err; i++)
		write_perf_sample(perfetto, &trace->threads[trace->samples[i].thread],
				  &trace->samples[i]);
	return perfetto->err;
}

int write_perfetto(const struct trace *trace, FILE *out)
{
	struct perfetto perfetto = {
		.buffer = {append_to_stream},
		.out = out,
		.trace = trace,
		.has_frame = calloc(trace_frame_count(trace) + 1, sizeof(bool)),
		.has_mapping = calloc(trace->profile->mappings.count, sizeof(bool)),
		.has_stack = calloc(trace->profile->stacks.count, sizeof(bool)),
		.path = calloc(trace->deepest + 1, sizeof(uint32_t)),
		.frame_iids = calloc(trace->deepest + 1, sizeof(uint64_t)),
	};
	int err = -ENOMEM;

	if (perfetto.has_frame && perfetto.has_mapping && perfetto.has_stack && perfetto.path &&
	    perfetto.frame_iids)
		err = write_packets(&perfetto);
	for (size_t i = 0; i < TEXTS; i++)
		string_table_clear(&perfetto.texts[i]);
	free(perfetto.has_frame);
	free(perfetto.has_mapping);
	free(perfetto.has_stack);
	free(perfetto.path);
	free(perfetto.frame_iids);
	return err;
}
