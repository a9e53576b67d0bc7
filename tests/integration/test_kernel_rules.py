# SPDX-License-Identifier: GPL-2.0
"""Kernel stacks by learnt rules equal the stacks of the kernel's unwinder, which checks each of them here."""

import os
import subprocess
from collections import Counter
from pathlib import Path

from harness import check, check_equal, defer, load, long_test, run, Skip, start, test, unload, use, wait_until, workload
from stackbeat import Events, S, Session
from workloads import spinning

CHECK = Path("/sys/module/stackbeat/parameters/kernel_stack_check")
TRACING = Path("/sys/kernel/tracing")
# A socket filter, which the kernel compiles to code outside all modules: ret #65535.
DATAGRAMS = """
import ctypes, socket
code = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 255, 255, 0, 0]))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 26, bytes(Filter(1, ctypes.addressof(code))))
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    sender.sendto(bytes(1000), receiver.getsockname())
    receiver.recv(2000)
"""
FILES = "while :; do ls -R /usr/include; find /usr/share/man -newer /etc; gzip -c /bin/bash; done >/dev/null 2>&1"
FORKS = "while :; do /bin/true; (:); done"


def check_each_stack():
    load()
    check_equal(CHECK.read_text(), "1000\n", "kernel_stack_check, by default")
    defer(CHECK.write_text, "1000")
    CHECK.write_text("1")


def sample(session, enough):
    """Reads samples until enough(samples), and checks that no stack differed. Returns samples and statistics."""
    samples = session.read_until(enough)
    stats = session.stats()
    check_equal(stats["kernel_stacks_different"], 0, f"stacks that differ from the unwinder's, in {stats}")
    return samples, stats


def kernel_session(**settings):
    session = Session(rate=2000, parts=S.PART_KERNEL, watermark=4096, ring_size=1 << 20, budget=S.BUDGET_MAX,
                      **settings)
    defer(session.close)
    session.start()
    return session


def code_of(module):
    """The addresses of a loaded module."""
    line = next(line for line in Path("/proc/modules").read_text().splitlines() if line.startswith(f"{module} "))
    address = int(line.split()[5], 16)
    check(address, "the kernel hides its addresses")
    return range(address, address + int(line.split()[1]))


def is_in(code, sample):
    return any(address in code for address in sample.kernel)


def mount_tracing():
    if not (TRACING / "trace").exists():
        run("mount", "-t", "tracefs", "none", TRACING)
        defer(run, "umount", TRACING)


@test
def rules_find_the_stacks_of_the_unwinder():
    check_each_stack()
    for script in (FILES, FORKS):
        start("/bin/sh", "-c", script)
    start("/usr/bin/python3", "-c", DATAGRAMS)
    start(*workload("sysread", 10**9))
    def is_varied(samples):
        return len(samples) >= 6000 and len({tuple(sample.kernel) for sample in samples}) >= 500
    _, stats = sample(kernel_session(), is_varied)
    check(stats["kernel_stacks_compared"] >= 2 * stats["kernel_stacks_unwound"], f"most stacks by rules: {stats}")


@test
def a_stack_in_a_thousand_is_compared():
    load()
    start(*workload("sysread", 10**9))
    _, stats = sample(kernel_session(), lambda samples: len(samples) >= 5000)
    check(0 < stats["kernel_stacks_compared"] <= stats["samples"] // 500, f"comparisons: {stats}")
    CHECK.write_text("0")
    defer(CHECK.write_text, "1000")
    session = kernel_session()
    samples, stats = sample(session, lambda samples: len(samples) >= 1000)
    check(stats["kernel_stacks_unwound"] >= len(samples), f"without rules: {stats}")
    check_equal(stats["kernel_stacks_compared"], 0, "comparisons without rules")


@test
def rules_of_a_module_end_with_the_module():
    for module in ("brd", "null_blk"):
        if subprocess.run(["modprobe", "-n", module], check=False).returncode:
            raise Skip(f"no module {module}")
    check_each_stack()
    session = kernel_session()
    addresses = []
    for turn in range(10):
        module, device = (("brd", "/dev/ram0"), ("null_blk", "/dev/nullb0"))[turn % 2]
        run("modprobe", module)
        code = code_of(module)
        addresses.append(code.start)
        reader = start("/bin/sh", "-c", f"while :; do dd if={device} of=/dev/null bs=4k count=1000; done 2>/dev/null")
        sample(session, lambda samples: sum(is_in(code, sample) for sample in samples) >= 20)
        reader.kill()
        reader.wait()
        run("/bin/sh", "-c", f"until rmmod {module} 2>/dev/null; do :; done")
    check(len(set(addresses)) < len(addresses), f"no address was used again: {addresses}")


@long_test
def replaced_return_addresses_are_left_to_the_unwinder():
    """Kretprobes and the function graph tracer put the addresses of their trampolines on the stack."""
    mount_tracing()
    if not (TRACING / "kprobe_events").exists() or "function_graph" not in (TRACING / "available_tracers").read_text().split():
        raise Skip("no kretprobes or no function graph tracer")
    check_each_stack()
    session = kernel_session(pids=[start(*workload("sysread", 10**9)).pid])

    def trace(file, value, nothing):
        defer((TRACING / file).write_text, nothing)
        (TRACING / file).write_text(value)

    def sample_reader():
        """Returns the most frequent stack of the reader, without the leaf, and the unwinder's share of the stacks."""
        # Samples from before the tracer.
        session.read()
        before = session.stats()
        samples, after = sample(session, lambda samples: len(samples) >= 1000)
        stacks = Counter(tuple(sample.kernel[1:]) for sample in samples).most_common(1)
        unwound, taken = (after[name] - before[name] for name in ("kernel_stacks_unwound", "samples"))
        return stacks[0][0], unwound / taken

    plain, share = sample_reader()
    check(share < 0.5, f"the unwinder has found {share:.1%} of the stacks")
    trace("kprobe_events", "r:returns/read vfs_read\n", "")
    trace("events/returns/enable", "1", "0")
    for tracer in ("kretprobe", "function graph"):
        stack, share = sample_reader()
        check_equal(stack, plain, f"the stack with a {tracer}")
        check(share > 0.5, f"{tracer}: the unwinder has found {share:.1%} of the stacks")
        (TRACING / "events/returns/enable").write_text("0")
        trace("set_ftrace_filter", "vfs_read\n", "")
        trace("current_tracer", "function_graph", "nop")
    (TRACING / "current_tracer").write_text("nop")
    stack, share = sample_reader()
    check_equal(stack, plain, "the stack after tracing")
    check(share < 0.5, f"the unwinder has found {share:.1%} of the stacks after tracing")


# The module of tests/stress/stray/run whose unwind tables can be made wrong.
MODULE = os.environ.get("STACKBEAT_STRAY")
PARAMETERS = Path("/sys/module/turncoat/parameters")


def turncoat_test(function):
    return test(function) if MODULE else function


@turncoat_test
def a_difference_ends_rules():
    """The same code has other stacks after it is loaded again, which is no difference, and while it is loaded."""
    # So that rules are used again after the test.
    defer(unload)
    check_each_stack()
    events = use(Events())
    session = kernel_session()
    turncoat = str(Path(MODULE).with_name("turncoat.ko"))
    addresses = []

    def sample_spinning(enough):
        code = code_of("turncoat")
        session.read()
        with spinning("turncoat"):
            samples = session.read_until(lambda samples: enough([sample for sample in samples if is_in(code, sample)]))
        return [sample for sample in samples if is_in(code, sample)]

    for lie in 0, 1, 0:
        run("insmod", turncoat, f"lie={lie}")
        addresses.append(code_of("turncoat").start)
        whole = {sample.kernel_stop == S.STOP_OUTERMOST for sample in sample_spinning(lambda found: len(found) >= 100)}
        check_equal(whole, {not lie}, f"whole stacks if the tables are {'wrong' if lie else 'right'}")
        if len(addresses) < 3:
            run("rmmod", "turncoat")
    defer(run, "rmmod", "turncoat")
    check_equal(len(set(addresses)), 1, f"number of addresses of the module: {addresses}")
    check_equal(session.stats()["kernel_stacks_different"], 0, "differences after loading it again")

    (PARAMETERS / "lie").write_text("1")
    sample_spinning(lambda _: session.stats()["kernel_stacks_different"])
    wait_until(lambda: events.of(session.id, "kernel_rules_off"), "the event")
    before = session.stats()
    start(*workload("sysread", 10**9))
    after = wait_until(lambda: (stats := session.stats())["samples"] >= before["samples"] + 1000 and stats, "samples")
    check_equal([after[name] for name in ("kernel_stacks_different", "kernel_stacks_compared")],
                [1, before["kernel_stacks_compared"]], "stacks different and compared, in the end")
    check(after["kernel_stacks_unwound"] >= before["kernel_stacks_unwound"] + 1000, f"unwound: {before}, {after}")
    check_equal(len(events.of(session.id, "kernel_rules_off")), 1, "events")
