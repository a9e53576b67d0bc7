#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 6: time of a tick with all CPUs busy. Emulated CPUs have no exact time: an estimate."""

import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import PROGRAMS, Results, Stackbeat

# Many short windows: the host deschedules a CPU in few of them, which does not affect the median.
WINDOWS, SECONDS = 200, 0.05


def windows(profiler):
    """Yields the average time of a tick in ns, for each window."""
    end = profiler.stats()
    for _ in range(WINDOWS):
        time.sleep(SECONDS)
        start, end = end, profiler.stats()
        if end["ticks"] > start["ticks"]:
            yield (end["overhead_ns"] - start["overhead_ns"]) / (end["ticks"] - start["ticks"])


def main():
    count = os.cpu_count()
    results = Results(f"cpus-{count}")
    # More work than the measurement takes.
    with subprocess.Popen([PROGRAMS / "threads", str(count), str(10**9)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as busy:
        busy.stdout.readline()
        busy.stdin.write(b"\n")
        busy.stdin.flush()
        with Stackbeat(options=("--budget", 50)) as profiler:
            seen = list(windows(profiler))
        busy.kill()
    results.add(axis="CPUs", size=count, windows=len(seen), tick=statistics.median(seen))


if __name__ == "__main__":
    main()
