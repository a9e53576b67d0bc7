# SPDX-License-Identifier: GPL-2.0
"""Usage: decode_perfetto.py TRACE: prints the samples of a trace as JSON, decoded by Perfetto's own messages, which must know
each of its fields: [thread ID, thread, CPU, ns, functions from the root]."""

import json
import pathlib
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace


def expect_known(message):
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    if unknown:
        raise SystemExit(f"{message.DESCRIPTOR.full_name} has no fields {unknown}")
    for field, value in message.ListFields():
        if field.message_type:
            for item in [value] if hasattr(value, "ListFields") else value:
                expect_known(item)


def main():
    trace = Trace()
    trace.ParseFromString(pathlib.Path(sys.argv[1]).read_bytes())
    expect_known(trace)
    functions, frames, stacks, threads, samples = {}, {}, {}, {}, []
    for packet in trace.packet:
        interned = packet.interned_data
        functions.update((entry.iid, entry.str.decode()) for entry in interned.function_names)
        frames.update((frame.iid, functions[frame.function_name_id]) for frame in interned.frames)
        stacks.update((stack.iid, ";".join(frames[frame] for frame in stack.frame_ids)) for stack in interned.callstacks)
        threads.update((thread.tid, thread.name) for thread in packet.process_tree.threads)
        if packet.HasField("perf_sample"):
            sample = packet.perf_sample
            samples.append([sample.tid, threads[sample.tid], sample.cpu, packet.timestamp, stacks[sample.callstack_iid]])
    json.dump(samples, sys.stdout)


main()
