#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 4: overhead of the reader while it records the whole system. reader.py NAME CASE..."""

import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Bpftrace, Broken, cpu_ns, peak_kb, Perf, PROGRAMS, Results, settle, Stackbeat
from pprof import Profile

# {case: (Hz, distinct stacks of the sampled program, seconds)}
CASES = {
    "99 Hz, idle": (99, 0, 6),
    "99 Hz, busy": (99, 100, 6),
    "1,000 Hz, idle": (1000, 0, 6),
    "1,000 Hz, busy": (1000, 100, 6),
    # Enough samples to see nearly all stacks, within an acceptable time.
    "4,000 Hz, 10,000 stacks": (4000, 11_000, 10),
}
# Minimum of the last case.
STACKS_SEEN = 10_000


def switches(pid):
    """The number of voluntary context switches of a process."""
    return sum(int(line.split()[1]) for task in Path(f"/proc/{pid}/task").iterdir()
               for line in (task / "status").read_text().splitlines()
               if line.startswith("voluntary"))


class Load:
    """The sampled workload: none, or a program with stacks of depth 30."""

    def __init__(self, stacks, seconds):
        self.process = None
        if stacks:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                [PROGRAMS / "stacks", str(stacks), "30", str(seconds * 2600), "1000"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process.stdout.readline()
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def end(self):
        if self.process:
            self.process.kill()
            self.process.communicate()


def observe(profiler, stacks, seconds):
    """Measures a running profiler, without its end, which is section 3."""
    with profiler:
        settle()
        load = Load(stacks, seconds)
        time.sleep(2)
        pid = profiler.process.pid
        start = time.monotonic_ns(), cpu_ns(pid), switches(pid)
        time.sleep(seconds)
        end = time.monotonic_ns(), cpu_ns(pid), switches(pid)
        elapsed, peak = (end[0] - start[0]) / 1e9, peak_kb(pid)
        load.end()
        # The ends of perf and bpftrace take long, and their output is not needed.
        if profiler.fixed:
            profiler.process.kill()
            profiler.process.wait()
        return {"instructions_per_s": (end[1] - start[1]) / elapsed,
                "wakeups_per_s": (end[2] - start[2]) / elapsed, "peak_kb": peak}


def main():
    results = Results(sys.argv[1])
    for case in sys.argv[2:]:
        rate, stacks, seconds = CASES[case]
        for profiler in (Stackbeat(rate), Perf(rate), Bpftrace(rate)):
            row = observe(profiler, stacks, seconds)
            if stacks > STACKS_SEEN and profiler.name == "stackbeat":
                row["stacks"] = len(Profile(profiler.path).samples)
                if row["stacks"] < STACKS_SEEN:
                    raise Broken(f"only {row['stacks']} stacks were seen")
            results.add(profiler=profiler.name, case=case, **row)


if __name__ == "__main__":
    main()
