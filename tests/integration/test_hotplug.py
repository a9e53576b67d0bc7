# SPDX-License-Identifier: GPL-2.0
"""CPUs go offline and come online while they are sampled."""

import errno
import os
import random
import re
import resource
import time
from pathlib import Path

from harness import (check, check_balance, check_equal, comment, defer, fails_with, long_test, Recording,
                     Skip, start, test, use, wait_until, workload)
from stackbeat import Events, online_cpus, S, Session
from sample_weights import keep_busy

ROUNDS = 12


def set_online(cpu, online):
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(online)))


def removable_cpu():
    cpu = online_cpus()[-1]
    if not Path(f"/sys/devices/system/cpu/cpu{cpu}/online").exists():
        raise Skip(f"CPU {cpu} can't be taken offline")
    defer(set_online, cpu, True)
    return cpu


def wait_for_samples(session, cpu):
    """Waits for 20 more samples of a CPU. Lost samples count, too, as a slow guest may have filled the ring."""
    def samples():
        stats = session.get()["cpu_stats"].get(cpu)
        return stats["samples"] + stats["lost_full"] if stats else 0
    at = samples()
    wait_until(lambda: samples() >= at + 20, f"samples of CPU {cpu}")


@long_test
def cpus_go_offline_and_online_under_load():
    cpu = removable_cpu()
    events = use(Events())
    start(*workload("threads", 4))
    recording = Recording("-F", 997, "--ring-size", "4M")
    recorded = recording.session()
    # At a low rate any machine reads as fast as the kernel writes. Else each round would have more to read
    # than the previous one.
    with Session(rate=100, ring_size=4 << 20, watermark=4096) as session:
        session.start()
        wait_for_samples(session, cpu)
        samples = []
        for _ in range(ROUNDS):
            set_online(cpu, False)
            offline_since = time.monotonic_ns()
            check_equal(session.get()["cpu_stats"][cpu]["rate"], 0, "rate of the offline CPU")
            # The ring of an offline CPU can still be read.
            last = [sample for sample in session.read() if sample.cpu == cpu]
            check(last and last[-1].time <= offline_since, "samples of the offline CPU")
            check_equal(session.get()["cpu_stats"][cpu]["ticks"],
                        len(last) + sum(sample.cpu == cpu for sample in samples)
                        + sum(session.get()["cpu_stats"][cpu][name] for name in ("idle", "filtered")),
                        "ticks of the CPU, compared with the samples read")
            samples += last
            at = session.stats()["samples"]
            wait_until(lambda at=at: session.stats()["samples"] >= at + 20, "samples of other CPUs")
            check(cpu not in {sample.cpu for sample in session.read()}, "a sample of an offline CPU")
            set_online(cpu, True)
            wait_for_samples(session, cpu)
        session.stop()
        stats = session.stats()
        check_balance(stats)
        check_equal(stats["lost_full"] + stats["lost_bad_tail"], 0, "lost")
        for name in ("cpu_offline", "cpu_online"):
            received = events.of(session.id, name)
            check_equal([event["cpu"] for event in received], [cpu] * ROUNDS, f"events {name}")
    recording.netlink.session_set(recorded["session"], state=S.STATE_PAUSED)
    stats = recording.stats(recorded)
    recording.interrupt()
    profile = recording.profile()
    check_balance(stats)
    check_equal(profile.total("samples"), stats["samples"], "samples in the profile")


@test
def cpu_that_comes_online_is_sampled():
    cpu = removable_cpu()
    start(*workload("threads", 4))
    set_online(cpu, False)
    with Session(rate=1000, watermark=4096) as session:
        session.start()
        check(cpu not in {ring.cpu for ring in session.rings}, "a ring of an offline CPU")
        set_online(cpu, True)
        # poll() wakes for its ring although that is not mapped yet.
        wait_for_samples(session, cpu)
        session.map()
        check(any(sample.cpu == cpu for sample in session.read()), "no samples of the CPU")
    set_online(cpu, False)
    recording = Recording("-F", 997)
    session = recording.session()
    set_online(cpu, True)
    wait_until(lambda: recording.netlink.session_get(session["session"])["cpu_stats"]
               .get(cpu, {}).get("samples", 0) >= 100, "samples of the new CPU")
    recording.netlink.session_set(session["session"], state=S.STATE_PAUSED)
    stats = recording.stats(session)
    recording.interrupt()
    check_equal(recording.profile().total("samples"), stats["samples"], "samples in the profile")


def busy_ticks(cpu):
    """Ticks, of 10 ms, of user mode on a CPU."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} "))
    return int(line.split()[1])


def perf_events_of(process):
    """The number of perf events that a process has open."""
    def is_event(path):
        try:
            return os.readlink(path) == "anon_inode:[perf_event]"
        except FileNotFoundError:
            return False
    return sum(map(is_event, Path(f"/proc/{process.pid}/fd").iterdir()))


# Of each sampled CPU: a ring, a timer for each size of copies of stacks, and an event for mappings.
EVENTS = 1 + 5 + 1


def has_events_of_online_cpus(process):
    """Each CPU also has an event that announces generated code, which follows CPUs some seconds later; and the ring of a
    CPU that has gone stays, as it may have records."""
    cpus = len(online_cpus())
    return perf_events_of(process) - EVENTS * cpus in range(cpus - 1, cpus + 3)


@long_test
def perf_events_follow_cpus():
    cpu = removable_cpu()
    # Above 2, which mainline does not know, distributions ask for more than CAP_PERFMON, which record keeps.
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    defer(paranoid.write_text, paranoid.read_text())
    paranoid.write_text("2")
    set_online(cpu, False)
    recording = Recording("--source=perf", "-a", "-F", 199, "--labels", "cpu")
    wait_until(lambda: has_events_of_online_cpus(recording.process), "events without the CPU")
    for _ in range(2):
        set_online(cpu, True)
        wait_until(lambda: has_events_of_online_cpus(recording.process), "events of the CPU that came")
        set_online(cpu, False)
        wait_until(lambda: has_events_of_online_cpus(recording.process), "one event less")
    set_online(cpu, True)
    wait_until(lambda: has_events_of_online_cpus(recording.process), "events of the CPU that is back")
    keep_busy(cpu)
    # Each second of its time has 199 samples.
    busy = busy_ticks(cpu)
    wait_until(lambda: busy_ticks(cpu) >= busy + 50, "CPU time of the CPU")
    recording.interrupt()
    profile = recording.profile()
    check(profile.total("samples", lambda sample: sample.labels.get("cpu") == cpu), "no samples of the CPU")


@test
def sessions_on_offline_cpus():
    cpu = removable_cpu()
    keep_busy(0)
    with Session(rate=1000, cpus=str(cpu), watermark=1) as session:
        set_online(cpu, False)
        with fails_with(errno.EINVAL, "starting on an offline CPU", "online"):
            session.set(state=S.STATE_RUNNING)
        set_online(cpu, True)
        session.start()
        # Paused when the CPU goes offline, running again while it is offline.
        session.set(state=S.STATE_PAUSED)
        set_online(cpu, False)
        session.set(cpus=f"0,{cpu}")
        session.set(state=S.STATE_RUNNING)
        wait_until(lambda: session.stats()["samples"] >= 20, "samples of the other CPU")
        set_online(cpu, True)
        keep_busy(cpu)
        wait_for_samples(session, cpu)
        # The session is closed while the CPU is offline.
        set_online(cpu, False)
        session.stop()
        check_balance(session.stats())
    set_online(cpu, True)


@test
def idle_cpus_go_offline_and_online():
    cpu = removable_cpu()
    with Session(rate=1000) as session:
        session.start()
        for _ in range(3):
            set_online(cpu, False)
            set_online(cpu, True)
        keep_busy(cpu)
        wait_for_samples(session, cpu)
        session.stop()
        check_balance(session.stats())


@test
def settings_change_during_hotplug():
    cpu = removable_cpu()
    start(*workload("threads", 4))
    choice = random.Random(3)
    with Session(rate=1000, ring_size=4 << 20) as session:
        # An offline CPU has no ring to map.
        session.start()
        flipper = start("/bin/sh", "-c", "for i in 1 2 3 4 5; do echo 0 >$0; echo 1 >$0; done",
                        f"/sys/devices/system/cpu/cpu{cpu}/online")
        while flipper.poll() is None:
            session.set(**choice.choice(({"rate": choice.randrange(500, 2000)}, {"cpus": "0"},
                                         {"cpus": ""}, {"state": S.STATE_PAUSED},
                                         {"state": S.STATE_RUNNING})))
            session.read()
        session.set(state=S.STATE_RUNNING, cpus="", rate=1000)
        wait_for_samples(session, cpu)
        session.stop()
        check_balance(session.stats())


@long_test
def ring_that_cannot_be_mapped_leaves_a_profile():
    cpu = removable_cpu()
    set_online(cpu, False)
    start(*workload("threads", 2))
    recording = Recording("-F", 997, "--ring-size", "64M")
    session = recording.session()
    recording.wait_for(session, "samples", 200)
    # Enough memory for everything but one more ring.
    status = Path(f"/proc/{recording.process.pid}/status").read_text()
    limit = (int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) << 10) + (48 << 20)
    resource.prlimit(recording.process.pid, resource.RLIMIT_AS, (limit, limit))
    set_online(cpu, True)
    profile = recording.profile(1)
    check_equal(profile.total("samples"), comment(profile, "samples")[""], "samples")
    check("Cannot allocate memory" in recording.err.splitlines()[0], f"messages {recording.err!r}")
    check(any(line.startswith("ended by an error: ") for line in profile.comments),
          f"comments {profile.comments}")
    check(profile.total("samples") >= 200, f"{profile.total('samples')} samples")
