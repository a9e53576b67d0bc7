#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 1: instructions per sample, everything included. cost.py stacks|programs|workloads"""

import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import ended
from lab import busy_ns, keep_in_memory, measure, PerfDwarf, PROFILERS, Results, settle, Stackbeat, Window
from sample_cost import baseline, command

# Two seconds of the guest's time: long enough for a reader that wakes once per second.
STACKS = {name: command(name, 2) for part in "unk" for name in (f"{part}8", f"{part}32", f"{part}100")}
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
AGAIN = ("stackbeat", "none")


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


def measure_programs():
    """Processes that end. The programs' own work differs between runs, so that only stackbeat's parts are compared."""
    results = Results("cost-programs")
    ended.prepare(ended.PROGRAMS)
    for number in range(2):
        with Stackbeat() as profiler:
            for name in ended.PROGRAMS:
                seen = measure(profiler, *ended.command(name, 1), ends=True)
                results.add(round=number, profiler=profiler.name, case=name, **seen)


def main():
    part = sys.argv[1]
    if part == "programs":
        measure_programs()
        return
    cases, profilers = WORKLOADS, PROFILERS
    results = Results(f"cost-{part}")
    if part == "stacks":
        cases, profilers = STACKS, {**PROFILERS, PerfDwarf.name: PerfDwarf}
    else:
        keep_in_memory("/bin/sh", "/bin/true")
    for number, names in enumerate((profilers, AGAIN)):
        for name in names:
            with profilers[name]() as profiler:
                for case, program in cases.items():
                    # Without a profiler, neither depth nor frame pointers make a difference.
                    if name in ("none", "floor") and part == "stacks" and case != baseline(case):
                        continue
                    seen = measure(profiler, *program) if program else stay_idle(profiler)
                    results.add(round=number, profiler=name, case=case, **seen)
        cases = dict(reversed(cases.items()))


if __name__ == "__main__":
    main()
