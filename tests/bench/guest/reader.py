#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 4: what the reader takes while it records the whole system."""

import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Bpftrace, cpu_ns, peak_kb, Perf, PROGRAMS, Results, settle, Stackbeat

SECONDS = 10


def switches(pid):
    """How often the threads of a process were woken after a wait of their own."""
    return sum(int(line.split()[1]) for task in Path(f"/proc/{pid}/task").iterdir()
               for line in (task / "status").read_text().splitlines()
               if line.startswith("voluntary"))


class Load:
    """Something to sample: nothing, or a program that goes through stacks of depth 30."""

    def __init__(self, stacks, seconds):
        self.process = None
        if stacks:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                [PROGRAMS / "stacks", str(stacks), "30", str(seconds * 2200), "1000"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process.stdout.readline()
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def end(self):
        if self.process:
            self.process.kill()
            self.process.communicate()


def observe(profiler, stacks, seconds):
    with profiler:
        settle()
        load = Load(stacks, seconds)
        time.sleep(2)
        pid = profiler.process.pid
        start = time.monotonic_ns(), cpu_ns(pid), switches(pid)
        time.sleep(seconds)
        end = time.monotonic_ns(), cpu_ns(pid), switches(pid)
        load.end()
        elapsed = (end[0] - start[0]) / 1e9
        return {"instructions_per_s": (end[1] - start[1]) / elapsed,
                "wakeups_per_s": (end[2] - start[2]) / elapsed, "peak_kb": peak_kb(pid)}


def main():
    results = Results("reader")
    for rate in (99, 1000):
        for name, stacks in (("idle", 0), ("busy", 100)):
            for profiler in (Stackbeat(rate), Perf(rate), Bpftrace(rate)):
                results.add(profiler=profiler.name, case=f"{rate} Hz, {name}",
                            **observe(profiler, stacks, SECONDS))
    # Long enough to have seen nearly all of them.
    for profiler in (Stackbeat(1000), Perf(1000), Bpftrace(1000)):
        results.add(profiler=profiler.name, case="1000 Hz, 10,000 stacks",
                    **observe(profiler, 10_000, 3 * SECONDS))


if __name__ == "__main__":
    main()
