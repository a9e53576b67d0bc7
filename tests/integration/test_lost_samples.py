# SPDX-License-Identifier: GPL-2.0
"""Each lost sample is counted."""

import signal
from pathlib import Path

from harness import (check, check_balance, check_equal, comment, exact_test, long_exact_test, long_test, Recording, start,
                     test, use, wait_until, workload)
from stackbeat import online_cpus, Session

RATE = 10000


def stop_and_count(recording, session):
    """Stops the session and compares its counters with the profile; returns the counters."""
    stats = recording.stop(session)
    profile = recording.profile()
    check_balance(stats)
    check_equal(profile.total("samples"), stats["samples"], "samples in the profile")
    check_equal(comment(profile, "samples")[""], stats["samples"], "samples in its comment")
    lost = comment(profile, "lost")
    check_equal((lost["ring full"], lost["bad reader position"]), (stats["lost_full"], stats["lost_bad_tail"]),
                f"losses in the comment {lost}")
    check_equal(lost[""], stats["ticks"] - stats["samples"] - stats["idle"] - stats["filtered"],
                "written + lost = ticks")
    return stats


def record_all_cpus(seconds):
    """Records the ticks of some seconds with all CPUs busy; returns the counters."""
    cpus = len(online_cpus())
    start(*workload("threads", cpus))
    recording = Recording("-F", RATE, "--budget", 50)
    session = recording.session()
    # A missed tick was due, too.
    wait_until(lambda: sum(recording.stats(session)[name] for name in ("ticks", "missed_ticks"))
               >= cpus * seconds * RATE, f"the ticks of {seconds} s")
    return stop_and_count(recording, session)


def check_nothing_is_lost(stats):
    check_equal(stats["lost_full"] + stats["lost_bad_tail"], 0, f"lost of {stats['ticks']}")


@long_test
def losses_at_10000_hz_on_all_cpus_are_counted():
    # The emulated CPU of the reader may be descheduled by the host while other CPUs go on.
    if "TCG" in Path("/proc/cpuinfo").read_text():
        record_all_cpus(1)
    else:
        check_nothing_is_lost(record_all_cpus(5))


@exact_test
def nothing_is_lost_at_10000_hz():
    check_nothing_is_lost(record_all_cpus(0.5))


@long_exact_test
def nothing_is_lost_in_5_seconds_at_10000_hz():
    check_nothing_is_lost(record_all_cpus(5))


@test
def losses_of_a_stopped_reader_are_counted():
    start(*workload("threads", 2))
    recording = Recording("-F", RATE, "--budget", 50)
    session = recording.session()
    recording.wait_for(session, "samples", 100)
    recording.interrupt(signal.SIGSTOP)
    recording.wait_for(session, "lost_full", RATE)
    lost = recording.stats(session)["lost_full"]
    recording.interrupt(signal.SIGCONT)
    written = recording.stats(session)["samples"]
    recording.wait_for(session, "samples", written + 1000)
    stats = stop_and_count(recording, session)
    check(stats["lost_full"] >= lost, f"{stats['lost_full']} lost, {lost} before")


@test
def records_count_the_losses_before_them():
    with Session(rate=RATE, ring_size=64 << 10) as session:
        start(*workload("threads", 2))
        session.start()
        wait_until(lambda: all(stat["lost_full"] >= 1000
                               for stat in session.get()["cpu_stats"].values()), "losses")
        samples = session.read()
        check_equal(sum(sample.lost for sample in samples), 0, "losses before the first record")
        # By then the next record after the losses is written.
        wait_until(lambda: all(ring.head > ring.tail for ring in session.rings), "records")
        session.stop()
        samples += session.read()
        for cpu, stats in session.get()["cpu_stats"].items():
            check_balance(stats, f"ticks of CPU {cpu}")
            of_cpu = [sample for sample in samples if sample.cpu == cpu]
            check_equal(len(of_cpu), stats["samples"], f"samples of CPU {cpu}")
            # Losses after the last record are in no record.
            reported = sum(sample.lost for sample in of_cpu)
            check(1000 <= reported <= stats["lost_full"],
                  f"CPU {cpu}: records report {reported} losses, {stats['lost_full']} were counted")


@test
def bad_reader_positions_lose_records_only():
    session = use(Session(rate=RATE, ring_size=64 << 10))
    start(*workload("threads", 2))
    session.start()
    # Positions wrap around: a tail just below 0 is valid while the head is in the first lap.
    session.read_until(lambda _: all(ring.head > ring.size for ring in session.rings))
    for wrong in (1 << 63, (1 << 64) - 1, 1 << 32):
        before = session.stats()["lost_bad_tail"]
        for ring in session.rings:
            ring.tail = wrong
        wait_until(lambda before=before: session.stats()["lost_bad_tail"] >= before + 100,
                   f"losses by the reader position {wrong:#x}")
        for ring in session.rings:
            ring.tail = ring.head
        read = session.stats()["samples"]
        wait_until(lambda read=read: session.stats()["samples"] >= read + 100,
                   "samples after the reader position was corrected")
    session.stop()
    check_balance(session.stats())
    for ring in session.rings:
        check(ring.head - ring.tail <= ring.size, f"head {ring.head}, tail {ring.tail}")
