#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 3: from the end of sampling to what can be read. after.py SAMPLES PROFILER..."""

import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Bpftrace, idle_ns, measure, peak_kb, Perf, Results, SCRATCH, settle, Stackbeat
from size import counted

RATE = 20000
SLICE = 10**9 // RATE // 500
# Large rings, so that no profiler loses samples: sampling itself is not measured here.
PROFILERS = (
    Stackbeat(RATE, ("--budget", 50, "--ring-size", "16M")),
    Perf(RATE, ("-m", "16M")),
    Bpftrace(RATE),
)


class Stretch:
    """Counts the instructions of the guest, which does nothing else. Idle time is excluded, as the clock
    jumps while the guest waits for files of the host."""

    def __init__(self):
        self.start = time.monotonic_ns() - idle_ns()

    def end(self):
        return {"instructions": time.monotonic_ns() - idle_ns() - self.start}


def stop(profiler):
    settle()
    during = peak_kb(profiler.process.pid)
    stretch = Stretch()
    profiler.stop()
    return {**stretch.end(), "peak_kb": profiler.usage.ru_maxrss, "peak_kb_before": during}


def perf_script():
    stretch = Stretch()
    with open(os.devnull, "wb") as null:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(["perf", "script", "-i", Perf.path], stdin=subprocess.DEVNULL,
                                   stdout=null, stderr=null)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return {**stretch.end(), "peak_kb": usage.ru_maxrss}


def main():
    wanted, *names = int(sys.argv[1]), *sys.argv[2:]
    results = Results(f"after-{wanted}")
    for profiler in (profiler for profiler in PROFILERS if profiler.name in names):
        with profiler:
            measure(profiler, "stacks", 1000, 30, wanted, SLICE)
            row = stop(profiler)
        results.add(profiler=profiler.name, step="end of recording", samples=counted(profiler),
                    **row)
        if profiler.name == "perf":
            results.add(profiler="perf", step="perf script", samples=counted(profiler),
                        **perf_script())
        for path in SCRATCH.glob(f"{profiler.name}.*"):
            path.unlink()


if __name__ == "__main__":
    main()
