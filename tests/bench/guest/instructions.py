#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions per sample of stackbeat alone: see tests/bench/instructions."""

import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import ended
from lab import Floor, measure, Profiler, Stackbeat
from sample_cost import AT_MOST, baseline, command


def measure_all(profiler, names, seconds):
    with profiler:
        found = {}
        for name in names:
            if name in ended.PROGRAMS:
                found[name] = measure(profiler, *ended.command(name, seconds), ends=True)
            else:
                # Kernel stacks take longer.
                found[name] = measure(profiler, *command(name, seconds / 2 if name[0] == "k" else seconds))
            print(profiler.name, name, found[name], file=sys.stderr, flush=True)
        return found


def main():
    seconds, cases = int(sys.argv[1]), sys.argv[2:]
    ended.prepare(name for name in cases if name in ended.PROGRAMS)
    shallow = ["u8"] + ["k8"] * any(name[0] == "k" for name in cases)
    plain = measure_all(Profiler(), shallow, seconds)
    floor = measure_all(Floor(), ["u8"], seconds)["u8"]
    ours = measure_all(Stackbeat(), cases, seconds)
    again = measure_all(Profiler(), ["u8"], seconds)["u8"]

    noise = again["ticks"] - plain["u8"]["ticks"]
    print("Instructions a sample at 1,000 Hz, everything included. "
          f"The floor is {(floor['ticks'] - plain['u8']['ticks']) / floor['samples']:.0f}, "
          f"the noise {abs(noise / floor['samples']):.0f}.")
    print(f"{'':6}{'total':>8}{'at most':>8}  {'rest':>10}{'ticks':>9}{'reader':>8}"
          f"{'samples':>9}")
    for name, seen in ours.items():
        ticks = seen["parts"]["ticks"] / seen["count"]
        reader = seen["parts"]["reader"] / seen["count"]
        if name in ended.PROGRAMS:
            print(f"{name:6}{'-':>8}{'-':>8}  {'-':>10}{ticks:9.0f}{reader:8.0f}{seen['count']:9.0f}")
            continue
        total = (seen["ticks"] - plain[baseline(name)]["ticks"]) / seen["samples"]
        print(f"{name:6}{total:8.0f}{AT_MOST.get(name, '-'):>8}  "
              f"{total - ticks - reader:10.0f}{ticks:9.0f}{reader:8.0f}"
              f"{seen['samples']:9.0f}")


if __name__ == "__main__":
    main()
