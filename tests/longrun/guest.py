#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The guest's part of tests/longrun/run: records for LONGRUN_SECONDS, and judges what it has measured.

Memory must be flat: from a quarter of the time on, when all of the load has been there, the module's must
not go beyond what it was, and the reader's only with what it keeps of each process that it has met and of
each stack (a bound for each, below).
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import harness  # pylint: disable=wrong-import-position
import graph  # pylint: disable=wrong-import-position

SECONDS = int(os.environ["LONGRUN_SECONDS"])
RATE = 999
PHASE_SECONDS = 15
OUT = Path("/out")
CPUS = [path for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/online")]
LOST = ("lost_full", "lost_tail")

# What the reader may keep for the profile.
BYTES_A_SPACE = 1024
BYTES_A_STACK = 2048
# What an allocator holds back, and a graph of an allocation's pages shows.
SLACK = 4 << 20


def threads(*arguments):
    return harness.workload("threads", *arguments)


def load_of(phase, directory):
    """A command for each phase; None: nothing to do."""
    return (None,
            threads(1),
            threads(8),
            harness.workload("churn", harness.WORKLOADS, directory, "chain", 400, 200000),
            harness.workload("gowork", 60),
            harness.workload("dlswap", harness.WORKLOADS, 2000, 20000),
            harness.workload("churn", harness.WORKLOADS, directory, "vfork", 400, 200000, 2),
            harness.workload("maps", "storm", 20000),
            harness.workload("sysread", 100000000))[phase % 9]


def in_background(function, ends):
    """Has a thread call it until `ends` is set."""
    def work():
        while not ends.is_set():
            function()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class Load:
    """Changes each phase; ends with it."""

    def __init__(self, directory, ends):
        self.directory, self.ends = directory, ends
        self.phase = 0

    def __call__(self):
        command = load_of(self.phase, self.directory)
        until = time.monotonic() + PHASE_SECONDS
        self.phase += 1
        while time.monotonic() < until and not self.ends.is_set():
            if not command:
                self.ends.wait(until - time.monotonic())
                continue
            with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True) as process:
                try:
                    process.wait(max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


class Trouble:
    """CPUs go and come back, and the clock jumps."""

    def __init__(self, choice, ends):
        self.choice, self.ends = choice, ends
        self.flips = self.jumps = 0

    def __call__(self):
        self.ends.wait(self.choice.uniform(1, 10))
        if CPUS and self.choice.randrange(2):
            self.choice.choice(CPUS).write_text(self.choice.choice("01"))
            self.flips += 1
        else:
            jump = self.choice.choice((-3600, -1, 1, 3600))
            time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
            self.jumps += 1


def resident(pid):
    """Bytes of a process that no file backs."""
    text = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s+(\d+)", text)[1])


def module_bytes():
    """What the module has of vmalloc, its code and data without, and of the kernel's own caches."""
    own = sum(int(line.split()[1]) for line in Path("/proc/vmallocinfo").read_text().splitlines()
              if re.search(r"\bsb_\w+", line))
    text = Path("/proc/meminfo").read_text()
    return own, 1024 * int(re.search(r"SUnreclaim:\s+(\d+)", text)[1])


def measure(recording, session, began):
    stats = recording.stats(session)
    own, slab = module_bytes()
    return {"time": time.monotonic() - began, "reader": resident(recording.process.pid),
            "module": own, "slab": slab,
            **{name: stats[name] for name in ("samples", "beats", "spaces", "objects", "spaces_lost",
                                              "changes_lost", "throttled", *LOST)}}


def record():
    """The measurements, the final statistics of the session, and the profile."""
    ends = threading.Event()
    choice = random.Random(1)
    trouble = Trouble(choice, ends)
    recording = harness.Recording("-F", RATE)
    session = recording.session()
    began = time.monotonic()
    measurements = []
    workers = [in_background(Load(harness.temporary_directory(), ends), ends),
               in_background(trouble, ends)]
    while time.monotonic() - began < SECONDS:
        measurements.append(measure(recording, session, began))
        print(f"# {measurements[-1]}", flush=True)
        time.sleep(min(10, SECONDS / 60))
    ends.set()
    for worker in workers:
        worker.join()
    for cpu in CPUS:
        cpu.write_text("1")
    stats = recording.stop(session)
    recording.interrupt()
    profile = recording.profile()
    harness.keep(recording, "longrun")
    print(f"# {trouble.flips} times a CPU went or came, {trouble.jumps} times the clock jumped")
    return measurements, stats, profile, recording.err


def check_flat(measurements, stacks):
    """The second half against what was there after a quarter."""
    quarter = len(measurements) // 4
    early, late = measurements[quarter:2 * quarter], measurements[2 * quarter:]
    for name, slack in (("module", 1 << 20), ("reader", SLACK)):
        before, after = max(row[name] for row in early), max(row[name] for row in late)
        if name == "reader":
            slack += BYTES_A_SPACE * (late[-1]["spaces"] - early[-1]["spaces"])
            slack += BYTES_A_STACK * stacks
        harness.check(after <= before + slack,
                      f"memory of the {name} has grown from {before} to {after} bytes")


def check_losses(profile, stats, closing):
    """Each beat has an end that is counted, and what was lost is told."""
    harness.check_balance(stats)
    harness.check_equal(harness.comment(profile, "samples")[""], stats["samples"],
                        "samples in the profile")
    told = harness.comment(profile, "lost")
    harness.check_equal(told[""], sum(stats[name] for name in LOST), f"losses ({told}; {closing})")


def main():
    harness.load()
    measurements, stats, profile, closing = record()
    (OUT / "measurements.json").write_text(json.dumps({"seconds": SECONDS, "rate": RATE,
                                                       "measurements": measurements,
                                                       "stats": stats}, indent=1))
    (OUT / "memory.svg").write_text(graph.memory(measurements))
    print(closing.strip())
    check_losses(profile, stats, closing)
    check_flat(measurements, len(profile.samples))
    harness.check_equal(harness.open_sessions(), [], "sessions that are left")
    print(f"ok longrun of {SECONDS} s at {RATE} Hz, {stats['samples']} samples")


try:
    main()
except harness.Failure as failure:
    sys.exit(f"not ok longrun: {failure}")
finally:
    harness.undo()
