# SPDX-License-Identifier: GPL-2.0
"""Instructions of a sample whose user stack is unwound by tables: the guest's clock counts them."""

import contextlib
from collections import namedtuple

from harness import check, check_within, exact_test, start, workload
from stackbeat import S, Session
from unwind_tables import set_tables, wait_for_files

# Bytes of samples of which the cost is measured. No program but the sampled one runs meanwhile: if one does, it is
# measured again.
BYTES = 200_000
ATTEMPTS = 5

Cost = namedtuple("Cost", "instructions frames")


def measure(program, *arguments, set_up=None, **settings):
    """The mean cost of a sample, and its number of user frames."""
    process = start(*workload(program, *arguments))
    with Session(rate=1000, no_jitter=1, budget=S.BUDGET_MAX, watermark=4096, pids=[process.pid],
                 **settings) as session:
        session.start()
        if set_up:
            set_up(session, process)
        # The caches of rules are filled.
        session.read_until(lambda samples: len(samples) >= 100)
        session.set(watermark=BYTES)
        session.read()
        for _ in range(ATTEMPTS):
            before = session.stats()
            session.poll()
            after = session.stats()
            samples = session.read()
            count = after["samples"] - before["samples"]
            others = after["filtered"] - before["filtered"]
            if others < count / 50:
                break
    process.kill()
    process.wait()
    check(others < count / 50, f"other programs ran in all attempts: {others} ticks, {count} samples")
    return Cost((after["overhead_ns"] - before["overhead_ns"]) / count,
                sum(len(sample.user) for sample in samples) / len(samples))


def has_no_table(session, process):
    spaces = wait_for_files(session, process)
    for file_id in spaces.files:
        # It may still be known from an earlier session.
        with contextlib.suppress(FileExistsError):
            session.set_table(file_id, None)


def cost_by_tables(depth):
    return measure("frameless", "plain", depth, set_up=set_tables)


@exact_test
def sample_by_tables():
    for depth, most in ((8, 1538), (32, 1967), (100, 3157)):
        cost = cost_by_tables(depth)
        print(f"# depth {depth}: {cost}", flush=True)
        check_within(cost.instructions, (0, most), f"instructions of a sample of {cost.frames} frames")


@exact_test
def sessions_take_turns():
    """A walk uses what the walks of its session have found, also after a tick of another session."""
    with contextlib.ExitStack() as sessions:
        def set_up(session, process):
            set_tables(session, process)
            other = sessions.enter_context(Session(rate=500, budget=S.BUDGET_MAX, pids=[process.pid]))
            other.start()
            set_tables(other, process)

        beside = measure("frameless", "plain", 8, set_up=set_up)
    alone = cost_by_tables(8)
    print(f"# alone {alone}, beside another session {beside}", flush=True)
    check_within(beside.instructions - alone.instructions, (-20, 40), "instructions after ticks of another session")


@exact_test
def sample_by_frame_pointers():
    """The decision for frame pointers costs a few instructions.

    Some ticks do work of other ticks, too, such as timers that expire late: the least of three means has the fewest.
    """
    costs = [(measure("deep", 32, 1 << 60, unwind_tables=0), measure("deep", 32, 1 << 60, set_up=has_no_table))
             for _ in range(3)]
    off, decided = (min(column, key=lambda cost: cost.instructions) for column in zip(*costs))
    print(f"# off {off}, without a table {decided}", flush=True)
    check_within(decided.instructions - off.instructions, (-10, 10), "instructions of the decision")
