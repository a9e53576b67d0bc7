# SPDX-License-Identifier: GPL-2.0
"""Idle CPUs are not woken; busy CPUs and CPUs that are busy now and then are sampled at the full rate."""

import os
import time
from pathlib import Path

from harness import (check, check_balance, check_equal, exact_test, last_json, load, long_exact_test, release,
                     start_waiting, test, use, workload)
from stackbeat import online_cpus, S, samples_of, Session
from sample_weights import by_cpu, check_span, keep_busy

RATE = 1000
WINDOW = 1.0 # s


def timer_interrupts():
    """The number of local timer interrupts of each CPU so far."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    counts = next(line.split() for line in lines if line.split()[0] == "LOC:")
    return [int(count) for count in counts[1:1 + len(online_cpus())]]


def busy_seconds():
    """Time in which CPUs were not idle, summed over all CPUs, since some moment. Computed from the idle time,
    which the kernel counts exactly, while it counts other times by scheduler ticks."""
    idle, waiting = Path("/proc/stat").read_text().split()[4:6]
    return time.monotonic() * len(online_cpus()) - (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")


def interrupts_in_a_window():
    before = timer_interrupts()
    time.sleep(WINDOW)
    return sum(timer_interrupts()) - sum(before)


@exact_test
def idle_machine_takes_no_additional_timer_interrupts():
    """Compares alternating windows with and without a session. Without parking there would be 1,000
    additional interrupts per second and CPU. A twentieth of that is allowed for other activity, and
    the median of five windows excludes occasional activity. Ticks must not be more than these
    interrupts plus the ticks of the time in which the machine was not idle."""
    load()
    counts, ticks, busy = {True: [], False: []}, [], 0
    with Session(rate=RATE) as session:
        session.start()
        session.stop()
        session.read()
        for _ in range(5):
            counts[False].append(interrupts_in_a_window())
            before, busy_before = session.stats()["ticks"], busy_seconds()
            session.start()
            counts[True].append(interrupts_in_a_window())
            session.stop()
            busy += busy_seconds() - busy_before
            session.read()
            ticks.append(session.stats()["ticks"] - before)
        check_balance(session.stats())
    usual, sampled = sorted(counts[False])[2], sorted(counts[True])[2]
    allowed = WINDOW * RATE * len(online_cpus()) / 20
    check(sampled <= usual + allowed, f"{sampled} timer interrupts in {WINDOW} s with a session, "
          f"{usual} without: {counts}")
    check(sum(ticks) <= len(ticks) * (usual + allowed) + RATE * busy, f"ticks in windows of a machine that was "
          f"idle but for {busy:.2f} s: {ticks}, where {usual} timer interrupts are usual")


@test
def busy_cpu_gets_its_full_rate_beside_an_idle_one():
    busy, idle = online_cpus()[:2]
    keep_busy(busy)
    # Debug kernels need more than the default budget.
    with Session(rate=RATE, no_jitter=1, watermark=512 << 10, ring_size=4 << 20,
                 budget=S.BUDGET_MAX) as session:
        session.start()
        taken = []
        while session.get()["cpu_stats"][busy]["samples"] < 3 * RATE:
            session.poll()
            taken += session.take()
        session.stop()
        samples = samples_of(taken + session.take())
        stats = session.get()["cpu_stats"]
    check_span(by_cpu(samples)[busy], True, "the busy CPU")
    due = stats[busy]["tick_time_ns"] * RATE // 10**9
    # The session is charged for the time in which the host does not run the kernel's worker, and is throttled.
    check_equal(sum(sample.weight for sample in by_cpu(samples)[busy]) * RATE // 10**9, due, "intervals of the busy CPU")
    if not stats[busy]["throttled"]:
        check_equal(stats[busy]["ticks"] + stats[busy]["missed_ticks"], due, "ticks of the busy CPU")
    check_equal(stats[busy]["idle"], 0, "idle ticks of the busy CPU")
    # The idle CPU runs only the reader of the samples.
    check(stats[idle]["ticks"] <= due / 2, f"{stats[idle]['ticks']} ticks of the idle CPU, {due} "
          "of the busy one")


@exact_test
def weights_of_napping_program_match_its_cpu_time():
    """A program that works for 30 % of every 2 ms. The sum of its 3,000 samples has a standard deviation below
    2 %; the bound of 10 % is more than five of them."""
    load()
    process = start_waiting(*workload("naps", 5000, 2000, 300000))
    session = use(Session(rate=RATE, pids=[process.pid], ring_size=4 << 20))
    session.start()
    release(process)
    truth = last_json(process.communicate()[0])["cpu_ns"]
    session.stop()
    samples = session.read()
    claimed = sum(sample.weight for sample in samples)
    check(2.5e9 <= truth <= 3.5e9, f"the program used {truth} ns")
    check_equal(session.stats()["lost_full"], 0, "lost")
    check(abs(claimed - truth) <= truth / 10, f"{claimed} ns in {len(samples)} samples, "
          f"the program used {truth} ns")
    missed = sum(sample.missed for sample in samples)
    check(missed <= len(samples) / 100, f"{missed} intervals missed of {len(samples)}")


@long_exact_test
def fixed_intervals_stay_in_phase_across_idle_time():
    """Fixed intervals keep their phase across idle time: all samples of a program that sleeps are a multiple
    of the interval apart."""
    load()
    process = start_waiting(*workload("naps", 500, 3300, 500000))
    session = use(Session(rate=RATE, no_jitter=1, pids=[process.pid], ring_size=4 << 20))
    session.start()
    release(process)
    process.communicate()
    session.stop()
    samples = session.read()
    check(len(samples) >= 300, f"only {len(samples)} samples")
    period = 10**9 // RATE
    off = [(sample.time - samples[0].time + period // 2) % period - period // 2
           for sample in samples]
    wrong = [time for time in off if abs(time) > period / 20]
    check(len(wrong) <= len(off) / 50, f"{len(wrong)} of {len(off)} samples are out of phase: "
          f"{wrong[:5]}")


@exact_test
def parked_sampler_restarts_without_backlog():
    """After a long idle time a busy CPU is sampled at once, without missed ticks for the idle time."""
    cpu = online_cpus()[-1]
    with Session(rate=100, cpus=str(cpu), watermark=1) as session:
        session.start()
        time.sleep(1)
        keep_busy(cpu)
        session.read()
        samples = session.read_until(lambda samples: len(samples) >= 50)
        session.stop()
        samples += session.read()
        check(samples[0].missed < 50, f"{samples[0].missed} intervals missed before the first "
              "tick, 100 were in the idle time")
        check_span(samples, False, "after the idle time")
