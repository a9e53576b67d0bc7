#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Instructions a sample of stackbeat alone: see tests/bench/instructions."""

import sys

sys.dont_write_bytecode = True

from lab import Floor, measure, Profiler, Stackbeat  # pylint: disable=wrong-import-position

CASES = {"u8": 1500, "u32": 1900, "u100": 3000, "k8": 3700, "k32": 4100, "k100": 5200}
# For one second of the guest's time; in the kernel half of it, which takes long enough.
AMOUNTS = {"u": 2_000_000, "k": 7500}


def measure_all(profiler, names):
    with profiler:
        found = {}
        for name in names:
            part, depth = name[0], int(name[1:])
            found[name] = measure(profiler, "depth", part, depth, AMOUNTS[part] * seconds)
            print(profiler.name, name, found[name], file=sys.stderr, flush=True)
        return found


seconds = int(sys.argv[1])
cases = sys.argv[2:]
shallow = ["u8"] + ["k8"] * any(name[0] == "k" for name in cases)

plain = measure_all(Profiler(), shallow)
floor = measure_all(Floor(), ["u8"])["u8"]
ours = measure_all(Stackbeat(), cases)
again = measure_all(Profiler(), ["u8"])["u8"]

noise = again["ticks"] - plain["u8"]["ticks"]
print("Instructions a sample at 1,000 Hz, everything included. "
      f"The floor is {(floor['ticks'] - plain['u8']['ticks']) / floor['samples']:.0f}, "
      f"the noise {abs(noise / floor['samples']):.0f}.")
print(f"{'':6}{'total':>8}{'at most':>8}  {'interrupt':>10}{'callback':>9}{'reader':>8}{'samples':>9}")
for name in cases:
    seen = ours[name]
    total = (seen["ticks"] - plain[name[0] + "8"]["ticks"]) / seen["samples"]
    callback = seen["parts"]["callback"] / seen["count"]
    reader = seen["parts"]["reader"] / seen["count"]
    print(f"{name:6}{total:8.0f}{CASES.get(name, '-'):>8}  {total - callback - reader:10.0f}"
          f"{callback:9.0f}{reader:8.0f}{seen['samples']:9.0f}")
