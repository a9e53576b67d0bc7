#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 6: a beat's time with all CPUs busy. Emulated CPUs have no exact time: this is a hint."""

import os
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Results, Stackbeat, work

# Times 500 instructions of a loop, for each CPU.
AMOUNT = 12_000_000


def main():
    count = os.cpu_count()
    results = Results(f"cpus-{count}")
    with Stackbeat(options=("--budget", 50)) as profiler:
        seen = work(profiler, "threads", count, count * AMOUNT)
    results.add(axis="CPUs", size=count, worked=500 * AMOUNT, **seen)


if __name__ == "__main__":
    main()
