# SPDX-License-Identifier: GPL-2.0
"""Cases of the instructions a sample, for tests/bench/instructions and tests/integration/test_cost.py.

A case is a letter and a depth: u is user code with frame pointers and .eh_frame, n user code without frame
pointers, k pread of /dev/zero.
"""

import time

from lab import Broken, program, settle, Stackbeat, wait_until

# Instructions a sample, the most of nine runs of least_costs() plus 2 %, for the kernel release of the commit that last changed
# them. A change lowers them, or argues in its commit why a sample costs more.
AT_MOST = {"u8": 1638, "u32": 1959, "n32": 2077, "k8": 1767}

PROGRAMS = {"u": ("depth", "u"), "n": ("depth-nofp", "u"), "k": ("depth", "k")}
# Amounts of work for one second of the guest's time.
AMOUNTS = {"u": 2_000_000, "n": 2_000_000, "k": 15000}

# The kernel's own work in a window varies by 10,000 instructions and more. At this rate a window of 500 samples is so
# short that most windows have little of it.
RATE = 5000
SECONDS = 0.1
ROUNDS = 16
# The reader drains the rings a second after it drained them last; the samples of a window do not half fill a ring,
# which would wake it, too.
DRAIN_SECONDS = 1
# The part of a window that precedes the drain.
BEFORE_DRAIN = 0.8


def command(name, seconds):
    binary, part = PROGRAMS[name[0]]
    return binary, part, int(name[1:]), int(AMOUNTS[name[0]] * seconds)


def baseline(name):
    """The case whose work without a profiler is the same."""
    return "k8" if name[0] == "k" else "u8"


def least_plain_ticks(name):
    def one_round():
        settle()
        return do_work()["ticks"]

    with program(*command(name, SECONDS)) as do_work:
        return min(one_round() for _ in range(ROUNDS))


def least_ticks(profiler, name):
    """The ticks of the round that takes the fewest of those in which the reader drains the rings."""
    def one_round():
        # This process wakes rarely, as its stacks are new to the reader.
        time.sleep(DRAIN_SECONDS - SECONDS)
        before = profiler.wakeups()
        wait_until(lambda: profiler.wakeups() != before, "the reader to drain the rings")
        before = profiler.wakeups()
        time.sleep(DRAIN_SECONDS - BEFORE_DRAIN * SECONDS)
        ticks = do_work()["ticks"]
        return ticks, profiler.wakeups() > before

    with program(*command(name, SECONDS)) as do_work:
        settle(profiler)
        rounds = [one_round() for _ in range(ROUNDS)]
    profiler.count()
    with_drain = [ticks for ticks, has_drain in rounds if has_drain]
    if not with_drain:
        raise Broken(f"{name}: the reader drained the rings in no round")
    return min(with_drain)


def least_costs():
    """{case: instructions a sample, everything included}, for the cases of AT_MOST.

    New stacks in the reader, its page faults, its checks for ended processes, and the kernel's own work differ between
    rounds, and only add to them: so the minimum repeats. The intervals are equal, as random ones would vary the number
    of samples of a window; and ticks may take any share of the CPU, as reading new programs at this rate takes more
    than the default budget.
    """
    plain = {name: least_plain_ticks(name) for name in sorted({*map(baseline, AT_MOST)})}
    with Stackbeat(RATE, ("--no-jitter", "--budget", 50)) as profiler:
        ticks = {name: least_ticks(profiler, name) for name in AT_MOST}
    return {name: (found - plain[baseline(name)]) / (found * RATE / 1e9) for name, found in ticks.items()}
