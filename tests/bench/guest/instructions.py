#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions per sample of stackbeat alone: see tests/bench/instructions."""

import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Floor, measure, Profiler, Stackbeat

PROGRAMS = {"u": ("depth", "u"), "n": ("depth-nofp", "u"), "k": ("depth", "k")}
# For one second of the guest's time; for kernel stacks half a second, as these take longer.
AMOUNTS = {"u": 2_000_000, "n": 2_000_000, "k": 7500}


def baseline(name):
    """The case whose work without a profiler is the same."""
    return "k8" if name[0] == "k" else "u8"


def measure_all(profiler, names, seconds):
    with profiler:
        found = {}
        for name in names:
            program, part = PROGRAMS[name[0]]
            found[name] = measure(profiler, program, part, int(name[1:]), AMOUNTS[name[0]] * seconds)
            print(profiler.name, name, found[name], file=sys.stderr, flush=True)
        return found


def main():
    seconds, cases = int(sys.argv[1]), sys.argv[2:]
    shallow = ["u8"] + ["k8"] * any(name[0] == "k" for name in cases)
    plain = measure_all(Profiler(), shallow, seconds)
    floor = measure_all(Floor(), ["u8"], seconds)["u8"]
    ours = measure_all(Stackbeat(), cases, seconds)
    again = measure_all(Profiler(), ["u8"], seconds)["u8"]

    noise = again["ticks"] - plain["u8"]["ticks"]
    print("Instructions a sample at 1,000 Hz, everything included. "
          f"The floor is {(floor['ticks'] - plain['u8']['ticks']) / floor['samples']:.0f}, "
          f"the noise {abs(noise / floor['samples']):.0f}.")
    print(f"{'':6}{'total':>8}  {'rest':>10}{'ticks':>9}{'reader':>8}"
          f"{'samples':>9}")
    for name, seen in ours.items():
        total = (seen["ticks"] - plain[baseline(name)]["ticks"]) / seen["samples"]
        ticks = seen["parts"]["ticks"] / seen["count"]
        reader = seen["parts"]["reader"] / seen["count"]
        print(f"{name:6}{total:8.0f}  "
              f"{total - ticks - reader:10.0f}{ticks:9.0f}{reader:8.0f}"
              f"{seen['samples']:9.0f}")


if __name__ == "__main__":
    main()
