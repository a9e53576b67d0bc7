# SPDX-License-Identifier: GPL-2.0
"""
Filters by process, thread, control group and name select exactly the matching tasks.

A number of samples is not enough to have one of each task: a task that ran while the host ran something else instead of its CPU
has used its share of the next second, which then has samples of other tasks only.
"""

import os
import subprocess
import time
from pathlib import Path

from harness import (cgroup_mount, check, check_balance, check_equal, defer, exact_test, finish, load, long_test, make_cgroup,
                     open_sessions, pprof, record, Recording, release, start, start_busy, start_waiting, temporary_directory, test,
                     wait_until, workload)
from stackbeat import S, Session

SETTINGS = {"rate": 1000, "watermark": 4096, "ring_size": 4 << 20}


def pinned(*command, **options):
    """Starts a process on CPU 0; its children inherit that."""
    return start(*command, preexec_fn=lambda: os.sched_setaffinity(0, {0}), **options)


def threads_of(process, count):
    """{name: thread ID} of the workers of `threads`, once all are started."""
    def workers_by_name():
        names = {(task / "comm").read_text().strip(): int(task.name)
                 for task in Path(f"/proc/{process.pid}/task").iterdir()}
        workers = {name: tid for name, tid in names.items() if name.startswith("worker-")}
        return workers if len(workers) == count else None
    return wait_until(workers_by_name, f"{count} threads")


def pids_of(samples):
    return {sample.pid for sample in samples}


def tids_of(samples):
    return {sample.tid for sample in samples}


def comms_of(samples):
    return {sample.comm for sample in samples}


def sampled(count, kind, wanted, **settings):
    """Runs a session with these settings for at least `count` samples, until kind(samples) has all that is wanted: (samples,
    counters)."""
    with Session(**(SETTINGS | settings)) as session:
        session.start()
        samples = session.read_until(lambda samples: len(samples) >= count and kind(samples) >= wanted)
        session.stop()
        samples += session.read()
        stats = session.stats()
        check_balance(stats)
        return samples, stats


@test
def all_threads_of_a_process_are_sampled():
    wanted, other = pinned(*workload("threads", 4)), pinned(*workload("threads", 2))
    tids = threads_of(wanted, 4)
    threads_of(other, 2)
    samples, stats = sampled(400, tids_of, set(tids.values()), pids=[wanted.pid])
    check_equal(pids_of(samples), {wanted.pid}, "processes")
    check(stats["filtered"], f"nothing was filtered: {stats}")


@test
def single_threads_are_sampled():
    process = pinned(*workload("threads", 4))
    tids = threads_of(process, 4)
    wanted = {tids["worker-1"], tids["worker-3"]}
    samples, stats = sampled(100, tids_of, wanted, tids=sorted(wanted))
    check_equal(tids_of(samples), wanted, "threads")
    check_equal({sample.comm for sample in samples}, {"worker-1", "worker-3"}, "names")
    check(stats["filtered"], f"nothing was filtered: {stats}")
    recording = Recording("-F", 997, "-t", ",".join(map(str, wanted)))
    session = recording.session()
    check_equal(sorted(recording.netlink.session_get(session["session"])["tids"]), sorted(wanted),
                "threads of the session")
    recording.wait_for(session, "samples", 100)
    recording.wait_for_each(tids=sorted(wanted))
    recording.interrupt()
    check_equal({sample.labels["thread"] for sample in recording.profile().samples},
                {"worker-1", "worker-3"}, "names in the profile")


# After a line of input, starts a busy child, and another child with a busy grandchild.
FAMILY = 'read -r line; "$@" & ("$@" & wait) & wait'


def family_of(process):
    """The process IDs of a process and its descendants."""
    found = [process]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def start_family():
    process = pinned("/bin/sh", "-c", FAMILY, "sh", *workload("threads", 1),
                     stdin=subprocess.PIPE, start_new_session=True)
    defer(lambda: os.killpg(process.pid, 9))
    return process


def workers_of(family):
    release(family)

    def busy():
        pids = [pid for pid in family_of(family.pid)
                if Path(f"/proc/{pid}/comm").read_text().strip() == "threads"]
        return pids if len(pids) == 2 else None
    return set(wait_until(busy, "two grandchildren"))


@test
def forked_children_are_sampled_by_default():
    family = start_family()
    with Session(**SETTINGS, pids=[family.pid]) as session:
        session.start()
        workers = workers_of(family)
        samples = session.read_until(
            lambda samples: workers <= {sample.pid for sample in samples})
        pids = {sample.pid for sample in samples}
        check(workers <= pids, f"{pids}, expected {workers}")
        # Children stay in the filter after their parent has exited.
        family.kill()
        family.wait()
        samples = []

        def are_sampled():
            samples.extend(session.read())
            return len([s for s in samples if s.pid in workers]) >= 200 and workers <= {s.pid for s in samples}
        wait_until(are_sampled, "samples of the children of an exited process")
        # Without inherit, no more children are added; those in the filter stay.
        session.set(inherit=0)
        session.stop()
        check_balance(session.stats())


@long_test
def no_inherit_excludes_forked_children():
    family = start_family()
    with Session(**SETTINGS, pids=[family.pid], inherit=0) as session:
        session.start()
        workers_of(family)
        wait_until(lambda: session.stats()["filtered"] >= 500, "filtered ticks")
        session.stop()
        check({sample.pid for sample in session.read()} <= {family.pid}, "a child was sampled")
    profile, _, _ = record("-F", 997, "--no-inherit", command=["/bin/sh", "-c", '"$@"; exit', "sh",
                                                               *workload("deep", 5, 300000000)])
    check("deep" not in {sample.labels["comm"] for sample in profile.samples},
          "a child is in the profile")


def busy_in(path):
    """Starts a busy process in a control group."""
    def join():
        os.sched_setaffinity(0, {0})
        (path / "cgroup.procs").write_text("0")
    return start(*workload("threads", 1), preexec_fn=join)


def three_groups():
    """({group: path}, {group: process}): `wanted`, `below` it, and `beside` it."""
    mount = cgroup_mount()
    name = f"stackbeat-{os.getpid()}-{time.monotonic_ns()}"
    groups = {"wanted": make_cgroup(mount, name)}
    groups["below"] = make_cgroup(groups["wanted"], "below")
    groups["beside"] = make_cgroup(mount, name + "-beside")
    processes = {name: busy_in(path) for name, path in groups.items()}

    def empty():
        for process in processes.values():
            process.kill()
        wait_until(lambda: all("populated 0" in (path / "cgroup.events").read_text()
                               for path in groups.values()), "empty groups")

    defer(empty)
    return groups, processes


@long_test
def cgroups_are_sampled_with_their_descendants():
    groups, processes = three_groups()
    ids = {name: path.stat().st_ino for name, path in groups.items()}
    for wanted, expected in ((["wanted"], {"wanted", "below"}), (["below"], {"below"}),
                             (["beside"], {"beside"}), (["below", "beside"], {"below", "beside"})):
        pids = {processes[name].pid for name in expected}
        samples, stats = sampled(300, pids_of, pids, cgroups=[ids[name] for name in wanted])
        check_equal(pids_of(samples), pids, f"processes of {wanted}")
        check(stats["filtered"], f"nothing was filtered: {stats}")
    with Session(cgroups=list(ids.values())) as session:
        check_equal(session.get()["cgroups"], list(ids.values()), "groups of the session")
        session.set(cgroups=[])
        check_equal(session.get()["cgroups"], [], "groups after removing the filter")
    # With the command: as an absolute path, and relative to the mount point.
    pids = {processes["wanted"].pid, processes["below"].pid}
    for path in (groups["wanted"], groups["wanted"].name):
        recording = Recording("-F", 997, "-G", path)
        recording.wait_for(recording.session(), "samples", 200)
        recording.wait_for_each(pids=sorted(pids))
        recording.interrupt()
        check_equal({sample.labels["pid"] for sample in recording.profile().samples}, pids, f"processes of -G {path}")


@test
def filter_follows_moves_between_cgroups():
    groups, processes = three_groups()
    with Session(**SETTINGS, cgroups=[groups["wanted"].stat().st_ino]) as session:
        session.start()
        (groups["beside"] / "cgroup.procs").write_text(str(processes["below"].pid))
        (groups["wanted"] / "cgroup.procs").write_text(str(processes["beside"].pid))
        at = time.monotonic_ns()
        pids = {processes["wanted"].pid, processes["beside"].pid}
        later = []
        session.read_until(lambda samples: later.extend(sample for sample in samples[len(later):] if sample.time > at)
                           or (len(later) >= 200 and pids_of(later) >= pids))
        check_equal(pids_of(later), pids, "processes")


@test
def excluded_comms_are_not_sampled():
    process = pinned(*workload("threads", 3))
    threads_of(process, 3)
    samples, stats = sampled(200, comms_of, {"worker-1"}, pids=[process.pid], exclude_comms=["worker-0", "worker-2"])
    check_equal(comms_of(samples) - {"threads"}, {"worker-1"}, "names")
    check(stats["filtered"], f"nothing was filtered: {stats}")
    # Also for the whole system. Names are compared completely, not as prefixes.
    samples, _ = sampled(200, comms_of, {"worker-1"}, cpus="0", exclude_comms=["worker-0", "worker-2", "worker"])
    names = comms_of(samples)
    check(not names & {"worker-0", "worker-2"}, f"names {names}")
    recording = Recording("-F", 997, "-p", process.pid, "--exclude-comm", "worker-0",
                          "--exclude-comm", "worker-1")
    recording.wait_for(recording.session(), "samples", 100)
    recording.interrupt()
    names = {sample.labels["thread"] for sample in recording.profile().samples}
    check_equal(names - {"threads"}, {"worker-2"}, "names in the profile")


@long_test
def filter_criteria_are_combined():
    groups, processes = three_groups()
    process, other = pinned(*workload("threads", 3)), pinned(*workload("threads", 2))
    tids = threads_of(other, 2)
    threads_of(process, 3)
    with Session(**SETTINGS, pids=[process.pid], tids=[tids["worker-1"]],
                 cgroups=[groups["below"].stat().st_ino],
                 exclude_comms=["worker-2"]) as session:
        session.start()
        samples = session.read_until(lambda samples: len(samples) >= 600)
        seen = {(sample.pid, sample.comm) for sample in samples if sample.comm[:6] == "worker"}
        expected = {(process.pid, "worker-0"), (process.pid, "worker-1"), (other.pid, "worker-1"),
                    (processes["below"].pid, "worker-0")}
        check_equal(seen, expected, "sampled tasks")
        # Changing one criterion keeps the others.
        session.set(pids=[])
        at = time.monotonic_ns()
        written = session.stats()["samples"]
        wait_until(lambda: session.stats()["samples"] >= written + 300, "samples")
        seen = {(sample.pid, sample.comm) for sample in session.read() if sample.time > at}
        check_equal(seen, {pair for pair in expected if pair[0] != process.pid},
                    "sampled tasks without the process")
        reported = session.get()
        check_equal((reported["pids"], reported["tids"], reported["exclude_comms"]),
                    ([], [tids["worker-1"]], ["worker-2"]), "remaining filter")


def start_with_pid(number):
    """Starts a busy process with this free process ID."""
    def begin():
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
        process = pinned(*workload("threads", 1))
        return process if process.pid == number else process.kill()
    return wait_until(begin, f"a process with the pid {number}")


@test
def reused_pid_does_not_match_the_filter():
    process, stays = pinned(*workload("threads", 1)), pinned(*workload("threads", 1))
    with Session(**SETTINGS, pids=[process.pid, stays.pid]) as session:
        session.start()
        session.read_until(lambda samples: {process.pid, stays.pid}
                           <= {sample.pid for sample in samples})
        process.kill()
        process.wait()
        heir = start_with_pid(process.pid)
        threads_of(heir, 1)
        at = time.monotonic_ns()
        written = session.stats()["samples"]
        wait_until(lambda: session.stats()["samples"] >= written + 300, "samples")
        pids = {sample.pid for sample in session.read() if sample.time > at}
        check_equal(pids, {stays.pid}, "processes, the other pid is reused")


@long_test
def reused_tid_does_not_match_the_filter():
    process, stays = pinned(*workload("threads", 1)), pinned(*workload("threads", 1))
    gone = threads_of(process, 1)["worker-0"]
    kept = threads_of(stays, 1)["worker-0"]
    with Session(**SETTINGS, tids=[gone, kept]) as session:
        session.start()
        process.kill()
        process.wait()
        threads_of(start_with_pid(gone), 1)
        at = time.monotonic_ns()
        written = session.stats()["samples"]
        wait_until(lambda: session.stats()["samples"] >= written + 300, "samples")
        tids = {sample.tid for sample in session.read() if sample.time > at}
        check_equal(tids, {kept}, "threads, the other tid is reused")


@test
def pids_are_those_of_the_callers_namespace():
    """In another pid namespace, `-p` takes the process IDs of that namespace."""
    load()
    path = temporary_directory() / "profile"
    # The program works and ends once it is recorded, however late that is.
    process = start("unshare", "--pid", "--fork", "--mount-proc", "/bin/sh", "-c",
                    'exec 3<&0; (read -r line <&3; exec "$1" 100000000) >/dev/null & exec stackbeat record -F 997 -o "$2" -p $!', "sh",
                    *workload("shares"), path, stdin=subprocess.PIPE)
    wait_until(lambda: any(session["state"] == S.STATE_RUNNING for session in open_sessions()) or process.poll() is not None,
               "a session")
    release(process)
    check_equal(finish(process)[0], "", "output")
    check(pprof.Profile(path).samples, "no samples")


@exact_test
def filtered_tick_has_low_overhead():
    """In instructions, by a clock that counts them: a sample of 100 frames takes at least 1,700; a filtered
    tick takes a few tens, including reading the clocks."""
    load()
    overhead = {}
    sleeper = start("/bin/sleep", "1000")
    # While an idle CPU waits for a file of the host, that clock jumps from tick to tick, and these have the overhead of parking, too.
    busy = start_busy("/bin/sh", "-c", "while :; do :; done")
    os.sched_setscheduler(busy.pid, os.SCHED_IDLE, os.sched_param(0))
    for name, settings in (("sampled", {}), ("filtered", {"pids": [sleeper.pid]})):
        process = start_waiting(*workload("deep", 100, 400000000))
        with Session(rate=2000, ring_size=16 << 20, **settings) as session:
            session.start()
            release(process)
            process.communicate()
            session.stop()
            stats = session.stats()
        check(stats["ticks"] >= 1000, f"only {stats['ticks']} ticks")
        overhead[name] = stats["overhead_ns"] / stats["ticks"]
    check(overhead["sampled"] - overhead["filtered"] >= 1200 and overhead["filtered"] <= 1500,
          f"overhead of a tick: {overhead}")
