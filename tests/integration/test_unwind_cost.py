# SPDX-License-Identifier: GPL-2.0
"""Instructions of a sample whose user stack is unwound by tables, and of a mapping event: the guest's clock counts
them."""

import contextlib
import math
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

from harness import check, check_equal, check_within, exact_test, long_exact_test, start, wait_until, workload
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


@long_exact_test
def sample_by_tables():
    for depth, most in ((8, 1538), (32, 1967), (100, 3157)):
        cost = cost_by_tables(depth)
        print(f"# depth {depth}: {cost}", flush=True)
        check_within(cost.instructions, (0, most), f"instructions of a sample of {cost.frames} frames")


@long_exact_test
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


@long_exact_test
def sample_by_frame_pointers():
    """The decision for frame pointers costs a few instructions.

    Some ticks do work of other ticks, too, such as timers that expire late: the least of three means has the fewest.
    """
    costs = [(measure("deep", 32, 1 << 60, unwind_tables=0), measure("deep", 32, 1 << 60, set_up=has_no_table))
             for _ in range(3)]
    off, decided = (min(column, key=lambda cost: cost.instructions) for column in zip(*costs))
    print(f"# off {off}, without a table {decided}", flush=True)
    check_within(decided.instructions - off.instructions, (-10, 10), "instructions of the decision")


Events = namedtuple("Events", "instructions by_tables")


def measure_events(mode, mappings, plain=0, rate=100, least=50, sessions=1):
    """The worker's instructions a mapping event, and the fraction of samples by tables meanwhile.

    The process has executable mappings, and others, and makes `rate` events a second; `least` are counted, three times:
    the worker may read all mappings once in between, so the least of the three means is the cost of an event.
    One of the sessions is measured.
    """
    process = start(*workload("frameless", mode, 8, 1 << 60, mappings, plain, 1_000_000 // rate))
    maps = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: maps.read_text().count(" r-xp ") >= mappings, "the executable mappings")
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Session(rate=100, pids=[process.pid])) for _ in range(sessions - 1)]
        for other in others:
            other.start()
        session = stack.enter_context(Session(rate=1000, no_jitter=1, watermark=4096, pids=[process.pid]))
        session.start()
        spaces = set_tables(session, process)
        session.read_until(lambda samples: len(samples) >= 100)
        before = after = session.stats()
        samples, costs = [], []
        for _ in range(3):
            begin = after
            while after["mmap_events"] - begin["mmap_events"] < least:
                session.poll()
                samples += session.read()
                spaces.read()
                after = session.stats()
            costs.append((after["worker_overhead_ns"] - begin["worker_overhead_ns"])
                         / (after["mmap_events"] - begin["mmap_events"]))
        for other in others:
            check_within(other.stats()["mmap_events"], (least, math.inf), "mapping events of another session")
    process.kill()
    process.wait()
    check_equal(after["mmap_events_lost"] - before["mmap_events_lost"], 0, "lost mapping events")
    users = [sample for sample in samples if sample.user]
    events = Events(min(costs), sum(sample.table_frames > 0 for sample in users) / len(users))
    print(f"# {mode}, {mappings} + {plain} mappings, {rate} events/s, {sessions} sessions: "
          f"{events.instructions:.0f} instructions an event, {events.by_tables:.1%} of the samples by tables", flush=True)
    return events


@exact_test
def code_that_is_made_executable_again():
    """A JIT compiler makes a page writable for each change: its mappings are as before afterwards."""
    events = measure_events("toggle", 2000)
    check_within(events.instructions, (0, 1490), "instructions of the worker a mapping event")
    check_within(events.by_tables, (0.98, 1), "fraction of samples by tables")


@long_exact_test
def code_that_is_replaced():
    """An event that changes a mapping copies its neighbours, and not all mappings."""
    events = measure_events("remap", 2000)
    check_within(events.instructions, (0, 7280), "instructions of the worker a mapping event")
    check_within(events.by_tables, (0.98, 1), "fraction of samples by tables")


@long_exact_test
def many_mappings_that_change_often():
    """15,000 executable mappings among 60,000, with 4,000 events a second."""
    events = measure_events("remap", 15_000, 30_000, rate=4000, least=4000)
    check_within(events.instructions, (0, 6415), "instructions of the worker a mapping event")
    check_within(events.by_tables, (0.98, 1), "fraction of samples by tables")


@long_exact_test
def mappings_that_change_in_many_sessions():
    events = measure_events("remap", 2000, sessions=64)
    check_within(events.instructions, (0, 7350), "instructions of the worker a mapping event")
    check_within(events.by_tables, (0.98, 1), "fraction of samples by tables")


# A process of its own: mappings of rings would make mmap() itself slower.
MAPS_A_PAGE = """
import mmap, time
least = 1 << 60
for _ in range(5):
    began = time.monotonic_ns()
    for _ in range(1000):
        mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC).close()
    least = min(least, time.monotonic_ns() - began)
print(least / 1000)
"""


def mapping_cost(sessions, started):
    """The instructions of mmap() and munmap() of an executable page, in a process that no session has sampled."""
    other = start("sleep", "infinity")
    with contextlib.ExitStack() as stack:
        for _ in range(sessions):
            session = stack.enter_context(Session(rate=1, pids=[other.pid]))
            if started:
                session.start()
        cost = float(subprocess.run([sys.executable, "-c", MAPS_A_PAGE], stdout=subprocess.PIPE, check=True).stdout)
    other.kill()
    other.wait()
    return cost


@long_exact_test
def mapping_of_a_program_beside_many_sessions():
    """Each session that has been started looks for the process in its table; the others cost nothing."""
    alone = mapping_cost(1, True)
    opened, eight, many = mapping_cost(64, False), mapping_cost(8, True), mapping_cost(64, True)
    print(f"# one session {alone:.0f} instructions a mapping, 64 opened {opened:.0f}, 8 started {eight:.0f}, "
          f"64 started {many:.0f}", flush=True)
    check_within(opened - alone, (-100, 100), "instructions of sessions that were only opened")
    check_within((many - alone) / 63, (0, 52), "instructions of a further session")
