# SPDX-License-Identifier: GPL-2.0
"""Idle CPUs: cpuidle drivers and governors, softirqs that interrupt idle CPUs, and the counters and traces
of the kernel to compare with."""

import contextlib
import ctypes
import os
import re
import socket
import struct
import subprocess
import time
from pathlib import Path

from harness import check, check_equal, defer, run, Skip, start, workload

CPUIDLE = Path("/sys/devices/system/cpu/cpuidle")
TRACING = Path("/sys/kernel/tracing")


def stay_on(cpu):
    """Pins this process and its children to one CPU until the test ends."""
    defer(os.sched_setaffinity, 0, os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})


# --- sleep -------------------------------------------------------------------


def use_driver(*parameters):
    """Loads a cpuidle driver (tests/env/vm/sleeper) on a machine without one, until the test ends."""
    check_equal((CPUIDLE / "current_driver").read_text().strip(), "none", "the machine's cpuidle driver")
    run("modprobe", "sleeper", *parameters)
    defer(run, "rmmod", "sleeper")
    check_equal((CPUIDLE / "current_driver").read_text().strip(), "sleeper", "the cpuidle driver")


def use_governor(name):
    """Sets the cpuidle governor until the test ends."""
    if name not in (CPUIDLE / "available_governors").read_text().split():
        raise Skip(f"this kernel has no cpuidle governor {name}")
    path = CPUIDLE / "current_governor"
    defer(path.write_text, path.read_text())
    path.write_text(name)


def stay_awake():
    """Requests a wakeup latency of 0: idle CPUs poll until the test ends."""
    request = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    defer(os.close, request)
    os.write(request, struct.pack("=i", 0))


def idle_state_times(cpu):
    """{idle state: ns that a CPU has spent in it}. The kernel updates them when the CPU wakes."""
    states = Path(f"/sys/devices/system/cpu/cpu{cpu}/cpuidle").iterdir()
    return {(state / "name").read_text().strip(): int((state / "time").read_text()) * 1000 for state in states}


# --- softirqs ----------------------------------------------------------------

# A socket filter that multiplies, drops the packet, and fits into the memory limit of a socket.
SO_ATTACH_FILTER = 26
FILTER_SIZE = 2000
FILTER = ctypes.create_string_buffer(
    struct.pack("=HBBI", 0x24, 0, 0, 3) * (FILTER_SIZE - 1) + struct.pack("=HBBI", 0x06, 0, 0, 0))

PORT = 5000
PACKETS = 20


def open_receivers(count):
    """Opens sockets that all receive each packet, and drop it after some work in the softirq."""
    for _ in range(count):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        defer(receiver.close)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        receiver.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                            struct.pack("=H6xQ", FILTER_SIZE, ctypes.addressof(FILTER)))
        receiver.bind(("10.1.0.255", PORT))


def make_network():
    """Creates a pair of devices: `near` here, `far` in a network namespace of that name."""
    if subprocess.run(["modprobe", "veth"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise Skip("this kernel has no veth")
    run("ip", "netns", "add", "far")
    defer(run, "ip", "netns", "delete", "far")
    run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", "far")
    run("ip", "address", "add", "10.1.0.1/24", "broadcast", "+", "dev", "near")
    run("ip", "link", "set", "near", "up")
    run("ip", "-n", "far", "address", "add", "10.1.0.2/24", "broadcast", "+", "dev", "far")
    run("ip", "-n", "far", "link", "set", "far", "up")


def send_bursts(period):
    """Sends PACKETS packets from the far end to all receivers, every `period` us."""
    return start("ip", "netns", "exec", "far", *workload("bursts", "10.1.0.255", PORT, PACKETS, period))


class SoftirqTrace:
    """The kernel's trace of the begin and end of softirqs on a CPU, by CLOCK_MONOTONIC."""

    LINE = re.compile(r"-(\d+) .* (\d+)\.(\d+): softirq_(entry|exit): ")

    def __init__(self, cpu):
        self.path = TRACING / "instances" / "softirqs"
        self.cpu = cpu

    def __enter__(self):
        self.path.mkdir()
        (self.path / "tracing_on").write_text("0")
        (self.path / "trace_clock").write_text("mono")
        (self.path / "buffer_size_kb").write_text("16384")
        for event in ("softirq_entry", "softirq_exit"):
            (self.path / "events/irq" / event / "enable").write_text("1")
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    @contextlib.contextmanager
    def window(self):
        (self.path / "tracing_on").write_text("1")
        yield
        (self.path / "tracing_on").write_text("0")

    def idle_softirq_times(self):
        """The duration in ns of each traced softirq that interrupted the idle task."""
        stats = (self.path / f"per_cpu/cpu{self.cpu}/stats").read_text()
        for loss in ("overrun", "dropped events"):
            check(f"\n{loss}: 0\n" in stats, f"events were lost: {stats}")
        spans, begun = [], None
        with open(self.path / f"per_cpu/cpu{self.cpu}/trace", encoding="utf-8") as trace:
            for line in trace:
                found = self.LINE.search(line)
                if not found:
                    continue
                pid, at = int(found[1]), int(found[2] + found[3])
                if found[4] == "entry":
                    begun = at
                elif begun is not None:
                    if pid == 0:
                        spans.append((at - begun) * 1000)
                    begun = None
        return spans


def sample_softirqs(session, trace, seconds):
    """Samples for some seconds: (ns of each softirq that interrupted the idle task, weights of their samples)."""
    session.start()
    with trace.window():
        time.sleep(seconds)
    session.stop()
    spans = trace.idle_softirq_times()
    return spans, [sample.weight for sample in session.read() if sample.pid == 0]
