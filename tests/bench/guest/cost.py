#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 1: instructions per sample, everything included. cost.py stacks|workloads"""

import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import busy_ns, keep_in_memory, measure, PROFILERS, Results, settle, Window

# Two seconds of the guest's time: long enough for a reader that wakes once per second.
STACKS = {f"{part}{depth}": ("depth", part, depth, amount)
          for part, amount in (("u", 4_000_000), ("k", 30_000)) for depth in (8, 32, 100)}
SHELL_LOOP = """
echo ready; read -r line; i=0
while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done
echo "{}"
"""
WORKLOADS = {
    "pipe": ("pingpong", 100_000),
    "fork": ("/bin/sh", "-c", SHELL_LOOP),
    "threads": ("threads", 64, 4_000_000),
    "idle": None,
}


# stackbeat's intervals are random, so measure it twice; fixed intervals would give the same result again.
ROUNDS = (list(PROFILERS), ["stackbeat", "none"])


def stay_idle(profiler):
    """
    A profiler in a guest that has been idle for a while: without the tables and copies of files of the programs before.
    Reading a profiler's counters takes more than an idle profiler does, so the ticks exclude it.
    """
    time.sleep(20)
    settle(profiler)
    window = Window(profiler)
    start = busy_ns()
    time.sleep(10)
    ticks = busy_ns() - start
    return {**window.end(), "ticks": ticks, "seconds": 10}


def main():
    part = sys.argv[1]
    cases = STACKS if part == "stacks" else WORKLOADS
    results = Results(f"cost-{part}")
    if part == "workloads":
        keep_in_memory("/bin/sh", "/bin/true")
    for number, names in enumerate(ROUNDS):
        for name in names:
            with PROFILERS[name]() as profiler:
                for case, command in cases.items():
                    # Without a profiler the depth makes no difference.
                    if name in ("none", "floor") and case[1:] in ("32", "100"):
                        continue
                    seen = measure(profiler, *command) if command else stay_idle(profiler)
                    results.add(round=number, profiler=name, case=case, **seen)
        cases = dict(reversed(cases.items()))


if __name__ == "__main__":
    main()
