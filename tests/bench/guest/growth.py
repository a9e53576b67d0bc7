#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 6: growth of instructions per sample with the size of the workload. growth.py AXIS"""

import contextlib
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import measure, Profiler, Results, settle, Stackbeat, Window, work
from stackbeat import spaces_lost  # pylint: disable=wrong-import-position


class Sessions(Profiler):
    """Several concurrent sessions of stackbeat."""

    name = "stackbeat"

    def __init__(self, count):
        super().__init__()
        # At the start, all of them read the mappings of all processes, which exceeds the default budget.
        self.members = [Stackbeat(options=("--budget", 50), name=f"stackbeat-{index}") for index in range(count)]
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        for member in self.members:
            self.stack.enter_context(member)
        return self

    def __exit__(self, *error):
        self.stack.close()

    def count(self):
        return sum(member.count() for member in self.members)

    def parts(self):
        total = {}
        for member in self.members:
            for name, value in member.parts().items():
                total[name] = total.get(name, 0) + value
        return total


RINGS_OF_CROWDS = ("--ring-size", "16M")

# {axis: ({size: command}, function that creates the profiler for a size)}
AXES = {
    "depth": ({size: ("depth", "u", size, 3_000_000) for size in (1, 10, 30, 100, 300, 1000)},
              lambda _: Stackbeat(options=("--max-depth", 1023))),
    # A path is visited for half a period, and again after all others. From 10,000 paths on, each stack is
    # sampled twice on average. The high rate limits the duration. Rings of the default size hold a tenth of a
    # second of it, and the program goes on while the reader waits for a file of the host.
    "stacks": ({size: ("stacks", size, 20, max(40_000, 4 * size), 50)
                for size in (10, 100, 1000, 10_000, 100_000)},
               lambda _: Stackbeat(20_000, ("--budget", 50, "--ring-size", "4M"))),
    # Turns of 0.5 ms, six for each process. The scheduler prefers processes that have hardly run over the
    # reader, so the ring must hold many samples until the reader runs.
    "processes": ({size: ("crowd", size, max(3000, 6 * size), 1000, 0) for size in (1, 10, 100, 1000, 5000)},
                  lambda _: Stackbeat(options=RINGS_OF_CROWDS)),
    # One turn for each process.
    "new-processes": ({size: ("crowd", size, size, 1000, 0) for size in (100, 1000, 5000)},
                      lambda _: Stackbeat(options=RINGS_OF_CROWDS)),
    "sessions": ({size: ("depth", "u", 30, 3_000_000) for size in (1, 2, 4, 8)}, Sessions),
}


def measure_all(profiler, *command):
    """As measure(), but from the start of the program until all work for it is done: the metadata of new
    processes is written and read after their samples."""
    settle()
    window = Window(profiler)
    work(profiler, *command)
    settle()
    seen = window.end()
    stats = profiler.stats() if seen["count"] else {}
    counts = {"spaces": stats["address_spaces"], "spaces_lost": spaces_lost(stats)} if stats else {}
    return {**seen, **counts, "ticks": seen["busy"], "samples": seen["count"]}


def main():
    axis = sys.argv[1]
    results = Results(f"growth-{axis}")
    commands, profiler_for = AXES[axis]
    take = measure_all if "processes" in axis else measure
    for size, command in commands.items():
        # The shorter run: a guest that has just booted has more to do.
        plain = min(take(Profiler(), *command)["ticks"] for _ in range(2))
        with profiler_for(size) as profiler:
            seen = take(profiler, *command)
        results.add(axis=axis, size=size, plain=plain, **seen)


if __name__ == "__main__":
    main()
