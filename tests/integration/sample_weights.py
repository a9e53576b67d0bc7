# SPDX-License-Identifier: GPL-2.0
"""Checks that the weights of samples add up to the elapsed time."""

import math
import os
from collections import defaultdict
from pathlib import Path

from harness import check, start, wait_until, workload


def keep_busy(cpu):
    """Starts a process that keeps a CPU busy, and waits until it is."""
    process = start(*workload("threads", 1), preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))

    def is_busy():
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            # The 12th field after the name is the CPU time in user mode.
            name, _, rest = (task / "stat").read_text().rpartition(")")
            if name.endswith("(worker-0") and int(rest.split()[11]):
                return True
        return False

    wait_until(is_busy, "a busy CPU")
    return process


def by_cpu(samples):
    """{CPU: its samples in order}."""
    found = defaultdict(list)
    for sample in samples:
        found[sample.cpu].append(sample)
    return found


def check_span(samples, fixed, what):
    """Checks that the weights of one CPU's samples add up to the time from the first to the last sample.

    Each tick of that CPU must be a sample. A random interval of mean w has a variance of w * w / 12;
    the bound is five standard deviations of the sum. A sample is late by less than one interval:
    later ticks are missed, and are in its weight.
    """
    weights = [sample.weight for sample in samples[1:]]
    drawn = [sample.weight // (1 + sample.missed) for sample in samples[1:]]
    span = samples[-1].time - samples[0].time
    bound = 2 * max(drawn)
    if not fixed:
        bound += 5 * math.sqrt(sum(weight * weight for weight in drawn) / 12)
    check(abs(span - sum(weights)) <= bound,
          f"{what}: {len(weights)} weights sum up to {sum(weights)} ns of {span}, allowed difference {bound:.0f}")
