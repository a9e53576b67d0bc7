#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The guest's part of tests/longrun/run: records for LONGRUN_SECONDS, and judges what it has measured.

The load goes round: what is there at one place of a round is there at the same place of the next one. So the
least that is in use during a round must not grow from the second to the last, which is how a leak shows, and
no more memory that is in use for a while. Of the module that is said of its vmalloc memory, to the byte, and
of the files that it keeps open; its small allocations are not told apart from those of the kernel.

The reader keeps what the profile will tell. It is held against just that: the stacks of the profile, and
the processes.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import harness  # pylint: disable=wrong-import-position
import graph  # pylint: disable=wrong-import-position

SECONDS = int(os.environ["LONGRUN_SECONDS"])
RATE = 999
PHASES = 9
ROUNDS = max(4, SECONDS // (PHASES * 15))
PHASE_SECONDS = SECONDS / (ROUNDS * PHASES)
INTERVAL = PHASE_SECONDS / 2
OUT = Path("/out")
CPUS = [path for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/online")]
LOST = ("lost_full", "lost_tail")

# What the reader keeps of a stack: struct stack (user/profile.h), rounded up, and its place in a table that is
# doubled when it is full; of a frame: its address and its place.
BYTES_A_STACK = 80 + 8 + 2 * 8
BYTES_A_FRAME = 8 + 4
# Of the latest stacks also the samples as they came, with their headers and the allocator's (user/recent.c).
RECENT_STACKS = 8192
BYTES_A_RECENT = 112 + 16
BYTES_A_RECENT_FRAME = 8
# Of a process: struct space (user/space.c), its places in two tables, and what its mappings leave of holes;
# and of its program's file, which the load makes anew for each: struct object_file (user/objects.c), path,
# build id, and places in two tables.
BYTES_A_SPACE = 256 + 560
# What does not grow: tables before they do, buffers, symbols of what was met, and what an allocator holds back.
READER_BYTES = 4 << 20

# By how much the least of a round may grow. Slab memory is mostly the kernel's own; of it a process may leave
# less than the smallest thing that the module allocates for one.
GROWTH = {"module": 0, "objects": 16, "slab": 2 << 20}
SLAB_BYTES_A_SPACE = 32


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
            harness.workload("sysread", 100000000))[phase % PHASES]


class Background:
    """Has a thread call a function until `ends` is set; join() says how that has failed."""

    def __init__(self, function, ends):
        self.function, self.ends = function, ends
        self.failure = None
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        try:
            while not self.ends.is_set():
                self.function()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.failure = error

    def join(self):
        self.thread.join()
        harness.check(not self.failure, f"{type(self.function).__name__}: {self.failure!r}")


class Load:
    """Changes each phase; ends with it."""

    def __init__(self, ends):
        self.ends = ends
        self.phase = 0

    def __call__(self):
        until = time.monotonic() + PHASE_SECONDS
        while time.monotonic() < until and not self.ends.is_set():
            # What is killed leaves its files.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                command = load_of(self.phase, directory)
                if command:
                    self.run(command, until)
                else:
                    self.ends.wait(until - time.monotonic())
        self.phase += 1

    def run(self, command, until):
        with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            try:
                status = process.wait(max(0.1, until - time.monotonic()))
                harness.check_equal(status, 0, f"status of {command}")
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


def stats_of(recording, session):
    try:
        return recording.stats(session)
    except OSError as error:
        recording.process.kill()
        _, said = recording.process.communicate()
        raise harness.Failure(f"the recording has ended by itself; it said: {said}") from error


def measure(recording, session, began):
    stats = stats_of(recording, session)
    own, slab = module_bytes()
    return {"time": time.monotonic() - began, "reader": resident(recording.process.pid),
            "module": own, "slab": slab,
            **{name: stats[name] for name in ("samples", "beats", "spaces", "objects", "spaces_lost",
                                              "changes_lost", "throttled", *LOST)}}


def record():
    """The measurements, the final statistics of the session, and the profile."""
    ends = threading.Event()
    load, trouble = Load(ends), Trouble(random.Random(1), ends)
    recording = harness.Recording("-F", RATE)
    session = recording.session()
    began = time.monotonic()
    measurements = []
    workers = [Background(load, ends), Background(trouble, ends)]
    while load.phase < ROUNDS * PHASES and not any(worker.failure for worker in workers):
        measurements.append({"phase": load.phase, **measure(recording, session, began)})
        print(f"# {measurements[-1]}", flush=True)
        time.sleep(INTERVAL)
    ends.set()
    for worker in workers:
        worker.join()
    for cpu in CPUS:
        cpu.write_text("1")
    stats = recording.stop(session)
    recording.interrupt()
    profile = recording.profile()
    harness.keep(recording, "longrun")
    print(f"# {load.phase} phases, {trouble.flips} times a CPU went or came, "
          f"{trouble.jumps} times the clock jumped", flush=True)
    return measurements, stats, profile, recording.err


def of_round(measurements, number):
    return [row for row in measurements if row["phase"] // PHASES == number]


def check_flat(measurements):
    """The last round against the second one: the first leaves what is kept for later."""
    early, late = (of_round(measurements, number) for number in (1, ROUNDS - 1))
    spaces = late[-1]["spaces"] - early[0]["spaces"]
    for name, slack in GROWTH.items():
        if name == "slab":
            slack += SLAB_BYTES_A_SPACE * spaces
        before, after = (min(row[name] for row in rows) for rows in (early, late))
        print(f"# {name}: at least {before} in the second round, {after} in the last one, "
              f"which may be {before + slack}")
        harness.check(after <= before + slack, f"{name}: has grown from {before} to {after}")


def explained(profile, spaces):
    """Bytes of the reader that such a profile explains."""
    recent = sorted((BYTES_A_RECENT + BYTES_A_RECENT_FRAME * len(sample.frames)
                     for sample in profile.samples), reverse=True)[:RECENT_STACKS]
    return (READER_BYTES + BYTES_A_SPACE * spaces + sum(recent) +
            sum(BYTES_A_STACK + BYTES_A_FRAME * len(sample.frames) for sample in profile.samples))


def check_reader(measurements, bound):
    kept = min(row["reader"] for row in of_round(measurements, ROUNDS - 1))
    print(f"# reader: at least {kept} bytes in the last round; its profile explains {bound}")
    harness.check(kept <= bound, f"the reader kept {kept} bytes, where its profile explains {bound}")


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
    bound = explained(profile, stats["spaces"])
    (OUT / "memory.svg").write_text(graph.memory(measurements, bound))
    print(closing.strip())
    check_losses(profile, stats, closing)
    check_reader(measurements, bound)
    check_flat(measurements)
    harness.check_sessions_end()
    print(f"ok longrun of {SECONDS} s at {RATE} Hz, {stats['samples']} samples")


try:
    main()
except harness.Failure as failure:
    sys.exit(f"not ok longrun: {failure}")
finally:
    harness.undo()
