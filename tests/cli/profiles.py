# SPDX-License-Identifier: GPL-2.0
"""Profiles for tests of the command line."""

import gzip

START = 1_800_000_000  # seconds


def varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7f | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def make_profile(samples, start=START):
    """A recording: samples are (comm, functions from the leaf, count), or (..., block). A sample is 10 ms of CPU time.

    Functions whose name begins with "[k]" are the kernel's.
    """
    strings = ["", "samples", "count", "cpu", "nanoseconds", "comm", "pid", "block"]

    def string(text):
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    def value_type(name, unit):
        return field(1, string(name)) + field(2, string(unit))

    body = field(1, value_type("samples", "count")) + field(1, value_type("cpu", "nanoseconds"))
    names = sorted({name for _, stack, *_ in samples for name in stack})
    for comm, stack, count, *block in samples:
        locations = b"".join(varint(names.index(name) + 1) for name in stack)
        values = varint(count) + varint(count * 10_000_000)
        body += field(2, field(1, locations) + field(2, values) +
                      field(3, field(1, string("comm")) + field(2, string(comm))) +
                      field(3, field(1, string("pid")) + field(3, 4711)) +
                      b"".join(field(3, field(1, string("block")) + field(3, number) + field(4, string("block")))
                               for number in block))
    for i, name in enumerate(names, 1):
        is_kernel = name.startswith("[k]")
        name = name.removeprefix("[k]")
        body += field(4, field(1, i) + (field(2, 1) if is_kernel else b"") + field(3, 0x1000 + i) + field(4, field(1, i)))
        body += field(5, field(1, i) + field(2, string(name)) + field(3, string(name)))
    if any(name.startswith("[k]") for name in names):
        body += field(3, field(1, 1) + field(2, 0x1000) + field(3, 1 << 40) + field(5, string("[kernel.kallsyms]")))
    body += b"".join(field(6, text.encode()) for text in strings)
    body += field(9, start * 10**9) + field(10, 60 * 10**9)
    body += field(11, value_type("cpu", "nanoseconds")) + field(12, 10_000_000) + field(14, string("cpu"))
    return gzip.compress(body)


def make_timed_profile(samples, timed=True, start=START):
    """A recording with timestamps: samples are (thread ID, thread, CPU, functions from the leaf, milliseconds since the
    start; None: without a time), of 10 ms of CPU time, in the process "app" with the ID 4711. "A>B": A is inlined in B.
    """
    strings = ["", "samples", "count", "cpu", "nanoseconds", "comm", "app", "thread", "pid", "tid", "timestamp"]

    def string(text):
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    def value_type(name, unit):
        return field(1, string(name)) + field(2, string(unit))

    def number(key, value, unit):
        return field(3, field(1, string(key)) + field(3, value & (1 << 64) - 1) + field(4, string(unit)))

    def text(key, value):
        return field(3, field(1, string(key)) + field(2, string(value)))

    body = field(1, value_type("samples", "count")) + field(1, value_type("cpu", "nanoseconds"))
    frames = sorted({frame for *_, stack, _ in samples for frame in stack})
    names = sorted({name for frame in frames for name in frame.removeprefix("[k]").split(">")})
    for tid, thread, cpu, stack, time in samples:
        locations = b"".join(varint(frames.index(frame) + 1) for frame in stack)
        body += field(2, field(1, locations) + field(2, varint(1) + varint(10_000_000)) + text("comm", "app") +
                      text("thread", thread) + number("pid", 4711, "pid") + number("tid", tid, "tid") +
                      number("cpu", cpu, "cpu") +
                      (number("timestamp", start * 10**9 + time * 10**6, "nanoseconds") if timed and time is not None else b""))
    for i, frame in enumerate(frames, 1):
        lines = b"".join(field(4, field(1, names.index(name) + 1)) for name in frame.removeprefix("[k]").split(">"))
        body += field(4, field(1, i) + (field(2, 1) if frame.startswith("[k]") else b"") + field(3, 0x1000 + i) + lines)
    for i, name in enumerate(names, 1):
        body += field(5, field(1, i) + field(2, string(name)) + field(3, string(name)))
    body += field(3, field(1, 1) + field(2, 0x1000) + field(3, 1 << 40) + field(5, string("[kernel.kallsyms]")))
    body += b"".join(field(6, text.encode()) for text in strings)
    body += field(9, start * 10**9) + field(10, 60 * 10**9)
    body += field(11, value_type("cpu", "nanoseconds")) + field(12, 10_000_000) + field(14, string("cpu"))
    return gzip.compress(body)
