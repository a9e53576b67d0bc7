# SPDX-License-Identifier: GPL-2.0
"""Mapping events belong to the address space of the process, not to an older one with the same mm_struct
address."""

import os
import subprocess

from harness import check_equal, release, start, start_busy, test, wait_until, workload
from stackbeat import Session

PROGRAMS = 100


def event_counts(session):
    stats = session.stats()
    return {name: stats[name] for name in ("mmap_events", "mmap_events_lost")}


@test
def reused_mm_is_not_confused_with_an_exited_process():
    # What they map after their first samples would be events, which may come late.
    processes = [start_busy(*workload("threads", 1)) for _ in range(4)]
    wait_until(lambda: all(len(os.listdir(f"/proc/{process.pid}/task")) == 2 for process in processes), "their threads")
    with Session(rate=1000, pids=[process.pid for process in processes], inherit=0) as session:
        session.start()
        # Each address space is in the table.
        wait_until(lambda: session.stats()["address_spaces"] >= len(processes), "their address spaces")
        wait_until(lambda: not session.pending, "the end of pending mapping events")
        for process in processes:
            process.kill()
            process.wait()
        before = event_counts(session)
        # The kernel reuses freed memory first. These programs map libraries, and are not sampled.
        for _ in range(PROGRAMS):
            subprocess.run(["/bin/true"], check=True)
        check_equal(event_counts(session), before, f"mapping events after {PROGRAMS} other programs")


@test
def mmap_by_a_child_that_shares_memory_is_reported():
    process = start(*workload("sharer"), stdin=subprocess.PIPE)
    # Its first sample may otherwise come before its libraries, whose mappings are events.
    process.stdout.readline()
    with Session(rate=1000, pids=[process.pid], inherit=0) as session:
        session.start()
        wait_until(lambda: session.stats()["address_spaces"], "its address space")
        before = event_counts(session)
        release(process)
        process.stdout.readline()
        wait_until(lambda: event_counts(session) != before, "a mapping event")
        check_equal(event_counts(session), {**before, "mmap_events": before["mmap_events"] + 1}, "mmap_events")
