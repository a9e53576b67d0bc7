# SPDX-License-Identifier: GPL-2.0
"""User stacks of programs with uretprobes, which replace return addresses by the address of a trampoline."""

import re
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

from address_spaces import AddressSpaces
from harness import check, check_equal, defer, long_test, run, start, start_busy, test, workload
from stackbeat import S, Session
from test_address_spaces import in_user_mode, sampled
from test_unwind_tables import check_stacks, read_pairs
from unwind_tables import wait_for_files

TRACING = Path("/sys/kernel/tracing")
DEPTH = 7
COPY = 4096


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def file_offset(path, function):
    """The offset of a function's code in its file."""
    address = int(re.search(rf"^(\w+) \w {function}$", output("nm", path), re.M)[1], 16)
    for line in output("readelf", "-lW", path).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, start_address, _, size = (int(word, 16) for word in words[1:5])
            if start_address <= address < start_address + size:
                return address - start_address + offset
    raise ValueError(f"{path} has no code at {address:#x}")


def probe_returns(path, *functions):
    """Sets uretprobes until the test ends."""
    if not (TRACING / "uprobe_events").exists():
        run("mount", "-t", "tracefs", "none", TRACING)
        defer(run, "umount", TRACING)
    (TRACING / "uprobe_events").write_text("".join(
        f"r:returns/{function} {path}:{file_offset(path, function):#x}\n" for function in functions))
    enable = TRACING / "events/returns/enable"
    defer((TRACING / "uprobe_events").write_text, "")
    defer(enable.write_text, "0")
    enable.write_text("1")


def trampoline(process):
    """The address of the trampoline, which is mapped when a function with a uretprobe is first called."""
    for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
        if line.endswith("[uprobes]"):
            return int(line.split("-")[0], 16)
    raise ValueError("no uretprobe was hit")


@test
def by_tables():
    """Of frames of a recursive function, of a callback of libc, and of a signal handler. Before Linux 6.13
    addresses are not replaced in interrupts of user mode."""
    probe_returns(workload("frameless")[0], "descend", "work_rounds", "compare", "main", "on_signal")
    calls = ["bottom"] + ["descend"] * DEPTH + ["main", "_start"]
    check_stacks("plain", ["work_rounds"] + calls, 2, in_user_mode)
    check_stacks("sort", ["work_rounds", "compare"] + calls, 2 + 2, in_user_mode)
    check_stacks("altstack", ["work_rounds", "on_signal"] + calls, 2 + 2, in_user_mode)


def check_frame_pointers(**settings):
    # The first instruction of main(), where the probe is, has no frame pointer yet.
    process = start_busy(*workload("deep", DEPTH, 1 << 60))
    with Session(rate=1000, watermark=4096, pids=[process.pid], **settings) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = in_user_mode(sampled(session, spaces, [process], 100))
    check(trampoline(process), "no trampoline")
    names = Counter(tuple(frame.function for frame in spaces.symbolize(sample)) for sample in samples)
    check_equal(list(names), [("bottom",) + ("descend",) * DEPTH + ("main", "_start")], "stacks")
    process.kill()


@test
def by_frame_pointers():
    probe_returns(workload("deep")[0], "bottom", "descend", "main")
    check_frame_pointers(unwind_tables=0)
    check_frame_pointers()


def has_no_table(session, process):
    for file_id in wait_for_files(session, process).files:
        session.set_table(file_id, None)


@test
def by_frame_pointers_of_files_without_tables():
    """The uretprobe is hit when it is known that the files of the process have no tables."""
    probe_returns(workload("deep")[0], "descend")
    process = start_busy(*workload("deep", DEPTH, 1 << 60))
    with Session(rate=1000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        has_no_table(session, process)
        # A tick before that may still write its sample, if the host does not run its CPU.
        at = time.monotonic_ns()
        session.read()
        samples = in_user_mode(session.read_until(lambda samples: len(in_user_mode(samples)) >= 100))
    samples = [sample for sample in samples if sample.time > at]
    place = trampoline(process)
    check(not any(place in sample.user for sample in samples), f"{place:#x} in {samples[-1]}")
    check_equal({len(sample.user) for sample in samples}, {DEPTH + 3}, "depths")


@long_test
def copies_have_the_original_addresses():
    probe_returns(workload("frameless")[0], "descend", "work_rounds")
    process = start(*workload("frameless", "plain", DEPTH))
    with Session(rate=2000, watermark=4096, pids=[process.pid], stack_copy=COPY) as session:
        session.start()
        pairs = [pair for pair in read_pairs(session, 200) if pair[1] and pair[0].comm == "frameless"]
    place = trampoline(process)
    words = [struct.unpack_from(f"={len(stack.bytes) // 8}Q", stack.bytes)
             for sample, stack in pairs if not sample.flags & S.SAMPLE_KERNEL]
    # By the last of DEPTH calls, main() calls descend(); the others return into descend() itself.
    repeated = [max(Counter(word for word in stack if word >> 40 in (0x55, 0x56)).values(), default=0)
                for stack in words]
    check(repeated and max(repeated) >= DEPTH - 1, f"return addresses in copies: {repeated}")
    check_equal(sum(place in stack for stack in words[-100:]), 0, "copies with the trampoline")


def stacks_in_kernel(name):
    """How often each user stack occurs in samples of a program that works in a system call."""
    process = start("setarch", "-R", workload(name)[0], 1 << 30)
    with Session(rate=1000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        samples = session.read_until(lambda samples: sum(
            sample.comm == name and len(sample.kernel) > 3 for sample in samples) >= 300)
    process.kill()
    return Counter(tuple(sample.user[1:]) for sample in samples
                   if sample.comm == name and len(sample.kernel) > 3)


def check_system_calls(name):
    expected, count = stacks_in_kernel(name).most_common(1)[0]
    check(count >= 250 and len(expected) == 3, f"without uretprobes: {count} times {expected}")
    probe_returns(workload(name)[0], "read_loop", "main")
    found = stacks_in_kernel(name)
    # Before Linux 6.13 not in interrupts of user mode.
    check(found[expected] >= 0.9 * sum(found.values()), f"{name}: not {expected}, but {found}")


@test
def in_system_calls():
    check_system_calls("sysread")


@test
def in_system_calls_of_32_bit_programs():
    check_system_calls("sysread32")
