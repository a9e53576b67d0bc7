# SPDX-License-Identifier: GPL-2.0
"""A session above its overhead budget is throttled, reports that, and keeps correct weights."""

import itertools
import json
import re
import time

import workloads
from harness import (check, check_balance, check_equal, check_no_fault, exact_test, long_exact_test,
                     long_test, Recording, run, start, test, tight_test, use, wait_until, workload)
from address_spaces import AddressSpaces
from stackbeat import Events, S, Session
from sample_weights import check_span, keep_busy

RATE = 20000
# One thousandth, or 100 us of a window of 100 ms; a tick takes some microseconds.
BUDGET = 1


def busy_session(**settings):
    keep_busy(0)
    return use(Session(**{"rate": RATE, "cpus": "0", "ring_size": 16 << 20, "watermark": 64 << 10,
                          **settings}))


@test
def session_above_its_budget_is_throttled():
    events = use(Events())
    session = busy_session(budget=BUDGET)
    session.start()
    throttled = wait_until(lambda: (stats := session.stats())["throttled"] >= 3 and stats, "throttling")
    # One step may have lowered the rate as often: a tick after it has the lower rate.
    wait_until(lambda: session.stats()["ticks"] >= throttled["ticks"] + 2, "ticks at a lower rate")
    stats = session.get()
    check_equal(stats["rate"], RATE, "requested rate")
    check(1 <= stats["stats"]["rate"] < RATE, f"rate in effect: {stats['stats']}")
    session.stop()
    samples = session.read()
    stats = session.stats()
    check_balance(stats)
    check_equal(stats["samples"], stats["ticks"], "ticks with a sample")
    check_equal(stats["tick_time_ns"], sum(sample.weight for sample in samples), "time of the ticks")
    periods = {sample.weight // (1 + sample.missed) for sample in samples}
    check(periods <= {(10**9 // RATE) << shift for shift in range(16)}, f"periods {periods}")
    # The rate may have recovered in between: at least two periods.
    check(len(periods) >= 2, f"periods {periods} after {stats['throttled']} times")
    check_span(samples, False, "across throttling")
    throttled = events.of(session.id, "throttled")
    check(throttled, f"no event of {events.seen}")
    for event in throttled:
        check_equal(event["cpu"], 0, f"CPU of {event}")
        check(1 <= event["rate"] < RATE, f"rate of {event}")


@tight_test
def ticks_beyond_the_maximum_are_counted():
    """With small limits and a depth of 1 the budget counts 100 ns of a tick, and each tick takes longer. At 4,000 Hz the
    ticks take more than the budget, 250 ns each, and what it counts is less than half of it."""
    session = use(Session(rate=4000, budget=S.BUDGET_MAX, max_depth=1, cpus="0", pids=[keep_busy(0).pid]))
    session.start()

    def stats_after(ticks):
        last = session.stats()["ticks"] + ticks
        return wait_until(lambda: (stats := session.stats())["ticks"] >= last and stats, "ticks")

    def mappings_are_read():
        """They are charged, too, in a window of 400 ticks."""
        charged = session.stats()["worker_overhead_ns"]
        return charged and stats_after(ticks=2000)["worker_overhead_ns"] == charged
    wait_until(mappings_are_read, "the end of the work for a new process")
    before = session.stats()["throttled"]
    session.set(budget=BUDGET)
    stats_after(ticks=5000)
    session.stop()
    stats = session.stats()
    check_equal(stats["long_ticks"], stats["ticks"], "ticks beyond the maximum")
    check(stats["overhead_ns"] > 250 * stats["ticks"], f"the ticks take less than the budget: {stats}")
    check_equal(stats["throttled"], before, "times that the session was throttled")


@long_test
def weights_add_up_with_fixed_intervals():
    session = busy_session(budget=BUDGET, no_jitter=1)
    session.start()
    wait_until(lambda: session.stats()["throttled"] >= 3, "throttling")
    at = session.stats()["ticks"]
    wait_until(lambda: session.stats()["ticks"] >= at + 200, "ticks at the lower rate")
    session.stop()
    check_span(session.read(), True, "equal intervals across throttling")


@exact_test
def overhead_stays_within_the_budget():
    """After throttling: at most the budget plus one more window. An exact test, as a host that preempts the
    CPU within a callback would be measured as overhead."""
    session = busy_session(budget=2)
    session.start()
    wait_until(lambda: session.stats()["throttled"], "throttling")
    before, begin = session.stats(), session.read()[-1].time
    samples = []
    while not samples or samples[-1].time < begin + 10**9:
        wait_until(lambda: any(ring.head > ring.tail for ring in session.rings), "samples")
        samples += session.read()
    overhead = session.stats()["overhead_ns"] - before["overhead_ns"]
    span = samples[-1].time - begin
    check(overhead <= 2 * span * 2 // 1000, f"{overhead} ns of {span}, the budget is 2 thousandths")


@exact_test
def rate_recovers_when_the_budget_is_raised():
    """An exact test: a host that preempts the CPU within a callback throttles the session to a few Hz, from which it
    recovers within minutes."""
    events = use(Events())
    session = busy_session(budget=BUDGET)
    session.start()
    wait_until(lambda: session.stats()["throttled"] >= 3, "throttling")
    session.set(budget=S.BUDGET_MAX)
    wait_until(lambda: session.stats()["rate"] == RATE, "the requested rate")
    wait_until(lambda: any(event["rate"] == RATE for event in events.of(session.id, "recovered")),
               "an event of the recovery")
    session.stop()
    check_span(session.read(), False, "across throttling and recovery")


@long_exact_test
def session_recovers_when_its_rate_is_lowered():
    """To 20 Hz, with a budget that suffices for all ticks of a window, even if each takes the maximum that is
    accounted to a tick."""
    events = use(Events())
    session = busy_session(budget=25)
    session.start()
    wait_until(lambda: events.of(session.id, "throttled"), "throttling")
    session.set(rate=20)
    check_equal(session.stats()["rate"], 20, "rate in effect")
    times = session.stats()["throttled"]
    wait_until(lambda: [event["rate"] for event in events.of(session.id, "recovered")][-1:] == [20],
               "an event of the recovery")
    at = session.stats()["ticks"]
    wait_until(lambda: session.stats()["ticks"] >= at + 20, "ticks at 20 Hz")
    session.stop()
    check_equal(session.stats()["throttled"], times, "throttled again")
    check_span(session.read(), False, "across throttling and a lower rate")


@test
def profile_and_status_report_throttling():
    keep_busy(0)
    recording = Recording("-F", RATE, "--budget", 0.1, "-C", 0)
    session = recording.session()
    check_equal(session["budget"], 1, "budget, in thousandths")
    recording.wait_for(session, "throttled", 3)
    out, _ = run("stackbeat", "status", "--json")
    shown = next(shown for shown in json.loads(out)["sessions"]
                if shown["session"] == session["session"])
    check(shown["throttled"] >= 3 and shown["rate"] == RATE and 1 <= shown["current_rate"] < RATE
          and shown["budget_permille"] == 1, f"status --json: {shown}")
    out, _ = run("stackbeat", "status")
    line = next(line for line in out.splitlines() if line.split()[:1] == [str(session["session"])])
    rates = [int(rate) for rate in re.findall(r"(\d+) Hz", line)]
    check(len(rates) == 2 and rates[0] == RATE and rates[1] < RATE, f"status: {line!r}")
    # Paused, not stopped: the session of a stopped recording is closed before its counters can be read.
    recording.netlink.session_set(session["session"], state=S.STATE_PAUSED)
    stats = recording.stats(session)
    recording.interrupt()
    profile = recording.profile()
    text = "\n".join(profile.comments)
    check(f"throttled: {stats['throttled']} times" in text, f"comments: {text}")
    mean = re.search(r"rate: 20000 Hz requested, ([\d.]+) Hz on average", text)
    check(mean, f"comments: {text}")
    check(abs(float(mean[1]) - stats["ticks"] * 1e9 / stats["tick_time_ns"]) <= 0.1,
          f"a mean rate of {mean[1]}, from {stats}")
    check(f"throttled {stats['throttled']} times" in recording.err, recording.err)
    check_equal(profile.total("cpu"), stats["tick_time_ns"], "CPU time in the profile")


@exact_test
def session_within_its_budget_is_not_throttled():
    """An exact test: a host that preempts the CPU while the kernel worker reads the mappings of a process throttles the
    session."""
    session = busy_session(rate=100)
    session.start()
    wait_until(lambda: session.stats()["ticks"] >= 50, "ticks")
    check_equal(session.get()["budget"], S.BUDGET_DEFAULT, "default budget")
    session.stop()
    check_equal(session.stats()["throttled"], 0, "throttled at 100 Hz")


@test
def programs_make_progress_at_the_highest_rate():
    """With 16 sessions at the highest rate, a program still runs to its end."""
    sessions = [use(Session(rate=RATE, budget=S.BUDGET_MAX, ring_size=S.RING_SIZE_MIN))
                for _ in range(16)]
    for session in sessions:
        session.start()
    run(*workload("shares", 10000000))
    for session in sessions:
        session.stop()
        check_balance(session.stats())


@long_exact_test
def overhead_of_hostile_mappings_stays_within_the_budget():
    """Three processes with thousands of mappings map and unmap more all the time. Their mappings are read
    again and again within the budget, and another process is still symbolized."""
    hostile = [workloads.start_ready(*workload("maps", "abuse", 8000)) for _ in range(3)]
    worker = start(*workload(workloads.WORKERS[0], workloads.FOR_EVER))
    pids = [process.pid for process in (*hostile, worker)]
    with Session(rate=1000, ring_size=4 << 20, watermark=4096, pids=pids) as session:
        spaces = AddressSpaces(session, read_files=True)
        session.start()
        samples = []

        def read():
            session.poll()
            samples.extend(sample for sample in session.read() if sample.pid == worker.pid and sample.user
                           and not sample.flags & S.SAMPLE_KERNEL)
            spaces.read()
        wait_until(lambda: (read(), session.stats()["mmap_events_lost"] >= 10000)[1], "lost mapping events")
        at, before = time.monotonic_ns(), session.stats()
        # One snapshot of a hostile process may take the budget of several seconds, in which no event is reported.
        wait_until(lambda: (read(), time.monotonic_ns() >= at + 10 * 10**9
                            and session.stats()["mmap_events"] > before["mmap_events"])[1], "mapping events")
        after, elapsed = session.stats(), time.monotonic_ns() - at
        session.stop()
        read()
        took = after["worker_overhead_ns"] - before["worker_overhead_ns"]
        # The worker may begin its last snapshot, or its last thousand events, just before the end.
        allowed = elapsed * session.get()["budget"] // 1000 + before["worker_overhead_ns"]
        check(0 < took <= allowed, f"{took} ns in {elapsed}, allowed {allowed}")
        check(after["probe_overhead_ns"] > before["probe_overhead_ns"], f"overhead of the probe: {after}")
        check(len(samples) >= 100, f"only {len(samples)} samples of another program")
        for sample in samples:
            check_no_fault(workloads.worker_fault(sample.comm, spaces.symbolize(sample)), sample)


def measure_overhead(sessions, seconds, step):
    """(overhead of all sessions in ns, elapsed ns), while step() is called every 5 ms."""
    def overhead():
        return sum(session.stats()["overhead_ns"] for session in sessions)
    before, begin = overhead(), time.monotonic_ns()
    while time.monotonic_ns() < begin + seconds * 10**9:
        step()
        time.sleep(0.005)
    return overhead() - before, time.monotonic_ns() - begin


def check_not_evaded(sessions, step, budget):
    """Checks that step() does not reset throttling: at most the budget, in thousandths, plus one window."""
    step()
    overhead, span = measure_overhead(sessions, 1, step)
    check(overhead <= 2 * span * budget // 1000, f"{overhead} ns of {span}, the budget is {budget} thousandths")


@long_exact_test
def rate_changes_do_not_undo_throttling():
    session = busy_session(budget=2)
    session.start()
    wait_until(lambda: session.stats()["throttled"] >= 2, "throttling")
    rates = itertools.cycle((RATE, RATE - 1, 1))
    check_not_evaded([session], lambda: session.set(rate=next(rates)), 2)


@long_exact_test
def pause_and_start_do_not_undo_throttling():
    session = busy_session(budget=2)
    session.start()
    wait_until(lambda: session.stats()["throttled"] >= 2, "throttling")

    def restart():
        session.set(state=S.STATE_PAUSED)
        session.start()
    check_not_evaded([session], restart, 2)


@long_exact_test
def sessions_of_a_cpu_share_one_budget():
    """Together they take at most the budget of one; each alone would be below it."""
    sessions = [busy_session(budget=10, ring_size=S.RING_SIZE_MIN, watermark=0) for _ in range(8)]
    for session in sessions:
        session.start()
    measure_overhead(sessions, 1, lambda: None)
    overhead, span = measure_overhead(sessions, 1, lambda: None)
    check(overhead <= 2 * span * 10 // 1000, f"{overhead} ns of {span}, the budget is 10 thousandths")
    for session in sessions:
        session.stop()
        check_balance(session.stats())


@long_exact_test
def light_session_keeps_its_rate_beside_heavy_ones():
    light = busy_session(rate=50, budget=10)
    heavy = [busy_session(budget=10, ring_size=S.RING_SIZE_MIN, watermark=0) for _ in range(4)]
    for session in [light, *heavy]:
        session.start()
    measure_overhead(heavy, 2, lambda: None)
    check(all(session.stats()["throttled"] for session in heavy), "a heavy session was not throttled")
    check_equal(light.stats()["throttled"], 0, "throttling of the light session")
