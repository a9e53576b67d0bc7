#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The module beside perf events as the source, beside `perf record --call-graph dwarf`: instructions a sample while a
program is sampled, and all that the profiler's processes execute until there are stacks with names.
sources.py [CASE...]"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Broken, Command, measure, Perf, PerfDwarf, Profiler, Results, SCRATCH, settle, Stackbeat, work

# Code with and without frame pointers, and of the kernel; the number is the depth.
CASES = {
    "u8": ("depth", "u", 8, 4_000_000),
    "n32": ("depth-nofp", "u", 32, 4_000_000),
    "k8": ("depth", "k", 8, 30_000),
}


class PerfSource(Command):
    """`stackbeat record` of the whole system by perf events."""

    name = "perf source"
    path = SCRATCH / "source.pb.gz"
    fixed = True

    def command(self):
        return ("stackbeat", "record", "--source=perf", "--no-cache", "-a", "-F", self.rate, "--stack-copy=8K", "-o",
                self.path)

    def wait(self):
        self.wait_for(lambda: "source: perf events" in self.output())
        settle()


def cpu_s(usage):
    return usage.ru_utime + usage.ru_stime


def script_s():
    """CPU time of `perf script`, which unwinds and prints each sample."""
    with open("/dev/null", "wb") as nothing:
        process = subprocess.Popen(["perf", "script", "-i", Perf.path], stdin=subprocess.DEVNULL, stdout=nothing,
                                   stderr=nothing)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise Broken(f"perf script: status {status}")
    return cpu_s(usage)


def main():
    results = Results("sources")
    cases = {case: CASES[case] for case in sys.argv[1:] or CASES}
    for case, command in cases.items():
        base = measure(Profiler(), *command)["ticks"]
        for make in (lambda: Stackbeat(options=("--no-cache",)), PerfSource, PerfDwarf):
            with make() as profiler:
                seen = measure(profiler, *command)
                more = work(profiler, *command)
                profiler.stop()
                all_s = cpu_s(profiler.usage) + (script_s() if isinstance(profiler, Perf) else 0)
            results.add(profiler=profiler.name, case=case, samples=round(seen["samples"]),
                        instructions_a_sample=round((seen["ticks"] - base) / seen["samples"]),
                        own_ms=round(1000 * all_s), sampled=round(seen["samples"] + more["samples"]))


if __name__ == "__main__":
    main()
