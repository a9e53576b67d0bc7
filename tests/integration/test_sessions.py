# SPDX-License-Identifier: GPL-2.0
"""Concurrent sessions, each at its own rate, also during rate changes."""

import errno
import time
from pathlib import Path

from harness import (binomial_bounds, check, check_balance, check_equal, check_within, exact_test, fails_with,
                     last_json, load, long_exact_test, release, start, start_waiting, test, use, workload)
from stackbeat import S, Session

# 5 ns are 5 instructions: two of them make an iteration, so this is CPU time of 1.2 s.
ITERATIONS = 600000000


@exact_test
def sessions_at_199_and_997_hz_have_expected_sample_counts():
    load()
    process = start_waiting(*workload("shares", ITERATIONS))
    # Fixed intervals, so that their number is known.
    sessions = {rate: use(Session(rate=rate, pids=[process.pid], no_jitter=1)) for rate in (199, 997)}
    # The shell that waits has used CPU time before the sessions began.
    before = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
    for session in sessions.values():
        session.start()
    release(process)
    cpu_ns = last_json(process.communicate()[0])["cpu_ns"] - before
    for rate, session in sessions.items():
        session.stop()
        samples = session.read()
        stats = session.stats()
        check_balance(stats, f"ticks at {rate} Hz")
        check_equal(len(samples), stats["samples"], f"samples read and counted at {rate} Hz")
        check_equal(stats["lost_full"] + stats["lost_bad_tail"], 0, f"lost at {rate} Hz")
        # Of all ticks, plus the incomplete intervals at both ends: a tick before the first sample has none if
        # the CPU was idle.
        intervals = stats["ticks"] + 2
        share = cpu_ns * rate / 1e9 / intervals
        check(share < 1, f"{rate} Hz, {cpu_ns} ns: {stats}")
        check_within(len(samples), binomial_bounds(intervals, share), f"samples at {rate} Hz in {cpu_ns} ns")


@long_exact_test
def cpu_time_stays_correct_when_the_rate_changes():
    # Fixed intervals: test_interval_jitter.py tests random ones. No reader takes the only CPU from the program, and the
    # harness does not poll: each time, an interval is counted for one of both, by chance. The clock counts instructions.
    load()
    process = start_waiting(*workload("shares", ITERATIONS))
    session = use(Session(rate=199, pids=[process.pid], no_jitter=1))
    before = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
    session.start()
    release(process)
    time.sleep(0.4)
    session.set(rate=997)
    check_equal(session.get()["rate"], 997, "rate")
    truth = last_json(process.communicate()[0])["cpu_ns"] - before
    session.stop()
    samples = session.read()
    check_balance(session.stats())

    count = len(samples)
    claimed = sum(sample.weight for sample in samples)
    check(abs(claimed - truth) <= truth / 100, f"{claimed} ns in samples, the program used {truth} ns")
    # About 160 of 240 intervals are left at the first rate; the second rate takes five times as many samples.
    check(count > 2 * truth * 199 // 10**9, f"{count} samples: the new rate took no effect")


@test
def rates_change_while_sessions_run():
    # The session is charged for the time in which the host does not run the kernel's worker, and is throttled.
    with Session(rate=1, budget=S.BUDGET_MAX) as session:
        start(*workload("threads", 2))
        session.start()
        # At 1 Hz this would take an hour; the current interval is shortened, too.
        session.set(rate=5000, watermark=4096)
        check_equal(session.get()["rate"], 5000, "rate")
        samples = session.read_until(lambda samples: len(samples) >= 3600)
        session.stop()
        samples += session.read()
        stats = session.stats()
        check_balance(stats)
        check_equal(stats["samples"], len(samples), "samples counted")
        periods = {sample.weight // (1 + sample.missed) for sample in samples}
        # The module halves a rate while the period is at most 500 ms: 13 periods from 200 us on.
        known = {10**9} | {200000 << shift for shift in range(13 if stats["throttled"] else 1)}
        check(periods <= known, f"periods of the samples: {periods}")
        check(200000 in periods, "the new period is not in effect")


@test
def sixteen_sessions_run_concurrently():
    sessions = [use(Session(rate=97 + index, watermark=1)) for index in range(S.SESSIONS_MAX)]
    check_equal(len({session.id for session in sessions}), S.SESSIONS_MAX, "different ids")
    with fails_with(errno.EUSERS, "one session more"):
        Session()
    start(*workload("threads", 2))
    # 16 sessions must be able to run; their rings fit into the memory of the guest.
    running = sessions[:16]
    for session in running:
        session.start()
    for session in running:
        session.read_until(lambda samples: len(samples) >= 3)
    for session in running:
        session.stop()
        check_balance(session.stats())
    sessions[0].close()
    use(Session())
