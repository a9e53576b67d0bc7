#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The guest's part of tests/stress/longrun/run: records for LONGRUN_SECONDS under a cyclic load, and saves the
profile and the measurements for judge.py.
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
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))

import harness  # pylint: disable=wrong-import-position
import judge  # pylint: disable=wrong-import-position

SECONDS = int(os.environ["LONGRUN_SECONDS"])
# Samples of an emulated CPU take more time than on a real one: at 499 Hz they exceed the budget, and the rate is
# lowered; with a larger budget, the reader has no time to read the symbols of as many files as this load creates.
RATE = 199
PHASES = 9
ROUNDS = max(4, SECONDS // (PHASES * 15))
PHASE_SECONDS = SECONDS / (ROUNDS * PHASES)
INTERVAL = PHASE_SECONDS / 2
# The load creates a file for each process, and the test does not need all of their symbols.
SYMBOLIZE_SECONDS = 300
OUT = Path("/out")
CPUS = [path for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/online")]


def threads(*arguments):
    return harness.workload("threads", *arguments)


def command_of_phase(phase, directory):
    """The command of a phase; None: an idle phase."""
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
    """A thread that calls a function until `ends` is set; join() fails if the function has failed."""

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
    """Runs the command of a phase again and again until the phase ends."""

    def __init__(self, ends):
        self.ends = ends
        self.phase = 0

    def __call__(self):
        until = time.monotonic() + PHASE_SECONDS
        while time.monotonic() < until and not self.ends.is_set():
            # Killed programs leave files behind.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                command = command_of_phase(self.phase, directory)
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
    """Takes CPUs offline and online, and changes the clock."""

    def __init__(self, choice, ends):
        self.choice, self.ends = choice, ends
        self.flips = self.jumps = 0

    def __call__(self):
        self.ends.wait(self.choice.uniform(1, 10))
        if CPUS and self.choice.randrange(2):
            cpu = self.choice.choice(CPUS)
            before = cpu.read_text()
            cpu.write_text(self.choice.choice("01"))
            self.flips += cpu.read_text() != before
        else:
            jump = self.choice.choice((-3600, -1, 1, 3600))
            time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
            self.jumps += 1


def resident(pid):
    """Anonymous memory of a process, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s+(\d+)", text)[1])


def module_bytes():
    """Bytes of the module without its code and data: in vmalloc regions, of these unwind tables; and unreclaimable
    slab bytes of the kernel."""
    own = tables = 0
    for line in Path("/proc/vmallocinfo").read_text().splitlines():
        if re.search(r"\bsb_unwind_(table_\w+|object_\w+)", line):
            tables += int(line.split()[1])
        elif re.search(r"\bsb_\w+", line):
            own += int(line.split()[1])
    text = Path("/proc/meminfo").read_text()
    return own, tables, 1024 * int(re.search(r"SUnreclaim:\s+(\d+)", text)[1])


def stats_of(recording, session):
    try:
        return recording.stats(session)
    except OSError as error:
        recording.process.kill()
        _, err = recording.process.communicate()
        raise harness.Failure(f"the recording has exited; output: {err}") from error


def measure(recording, session, began):
    stats = stats_of(recording, session)
    own, tables, slab = module_bytes()
    return {"time": time.monotonic() - began, "reader": resident(recording.process.pid),
            "held": len(os.listdir(f"/proc/{recording.process.pid}/fd")),
            "module": own, "tables": tables, "slab": slab,
            **{name: stats[name] for name in ("samples", "ticks", "address_spaces", "files", "samples_without_address_space",
                                              "address_spaces_unread", "mmap_events_lost", "throttled", *judge.LOST)}}


def record():
    """Records under load; returns the measurements for judge.py."""
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
    try:
        recording.process.wait(SYMBOLIZE_SECONDS)
    except subprocess.TimeoutExpired:
        recording.interrupt()
    summary = recording.end()
    harness.keep_profile(recording, "longrun")
    print(f"# {load.phase} phases, {trouble.flips} times a CPU went offline or online, "
          f"{trouble.jumps} times the clock changed", flush=True)
    return {"seconds": SECONDS, "rate": RATE, "phases": PHASES, "rounds": ROUNDS, "measurements": measurements,
            "stats": stats, "summary": summary, "flips": trouble.flips, "jumps": trouble.jumps,
            "patience": harness.PATIENCE}


def main():
    harness.run("stackbeat", "load", f"unwind_memory={judge.TABLES_MIB}")
    measured = record()
    (OUT / "measurements.json").write_text(json.dumps(measured, indent=1))
    harness.check_sessions_end()


try:
    main()
except harness.Failure as failure:
    sys.exit(f"not ok longrun: {failure}")
finally:
    harness.run_cleanups()
