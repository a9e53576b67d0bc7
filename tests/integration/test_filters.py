# SPDX-License-Identifier: GPL-2.0
"""A session samples exactly the tasks and CPUs that its settings select."""

import errno
import json
import os
import signal
import subprocess
import time

from harness import (cgroup_mount, check, check_balance, check_equal, defer, finish, long_test, make_cgroup,
                     record, Recording, release, samples_of, SLOWDOWN, start, start_waiting, test, user_part, wait_until,
                     workload)
from stackbeat import online_cpus, S, Session


@test
def commands_are_sampled_with_their_children():
    start(*workload("threads", 2))
    profile, _, _ = record("-F", 997, command=workload("forker", 3, 50000000))
    comms = {sample.labels["comm"] for sample in profile.samples}
    check(comms <= {"forker", "forked", "stackbeat"}, f"commands in the profile: {comms}")
    children = {sample.labels["pid"] for sample in samples_of(profile, "forked")}
    check_equal(len(children), 3, "children in the profile")
    for sample in samples_of(profile, "forked"):
        if user_part(sample) and user_part(sample)[0] == "child":
            check_equal(user_part(sample), ["child", "main", "_start"], "stack of a child")


@long_test
def option_a_samples_the_whole_system():
    threads = start(*workload("threads", 2))
    profile, _, _ = record("-F", 997, "-a", command=workload("shares", 300000000))
    pids = {sample.labels["pid"] for sample in profile.samples}
    check(threads.pid in pids, "another process is not in a profile of the whole system")
    names = {sample.labels["thread"] for sample in profile.samples
             if sample.labels["pid"] == threads.pid}
    check(names & {"worker-0", "worker-1"}, f"names of its threads: {names}")


@test
def processes_are_selected_by_pid():
    wanted = [start(*workload("threads", 1)).pid for _ in range(2)]
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "-p", ",".join(map(str, wanted)))
    recording.wait_for(recording.session(), "samples", 300)
    recording.wait_for_each(pids=wanted)
    recording.interrupt()
    pids = {sample.labels["pid"] for sample in recording.profile().samples}
    check_equal(pids, set(wanted), "processes in the profile")


@test
def recording_ends_with_its_target_processes():
    # It works and ends once it is recorded, however late that is.
    process = start_waiting(*workload("shares", 500000000))
    recording = Recording("-F", 997, "-p", process.pid)
    recording.session()
    release(process)
    check(recording.profile().samples, "no samples")
    finish(process)


@test
def other_cpus_are_not_sampled():
    cpu = online_cpus()[-1]
    start(*workload("threads", 2))
    with Session(rate=1000, cpus=str(cpu), watermark=4096) as session:
        session.start()
        samples = session.read_until(lambda samples: len(samples) >= 200)
        session.stop()
        check_equal({sample.cpu for sample in samples}, {cpu}, "CPUs of the samples")
        stats = session.get()["cpu_stats"]
        check_balance(stats[cpu])
        check(all(stat["ticks"] == 0 for other, stat in stats.items() if other != cpu),
              f"ticks on other CPUs: {stats}")


@test
def children_are_not_sampled_without_inherit():
    with Session(rate=1000, inherit=0) as session:
        parent = start("/bin/sh", "-c", "read -r line; \"$@\"; exit", "sh",
                       *workload("forker", 2, 100000000), stdin=subprocess.PIPE)
        session.set(pids=[parent.pid])
        session.start()
        parent.communicate("\n")
        session.stop()
        check({sample.pid for sample in session.read()} <= {parent.pid}, "a child was sampled")
        check_balance(session.stats())


@test
def idle_cpus_give_no_samples():
    with Session(rate=1000) as session:
        session.start()
        # Short bursts of work leave the CPU idle in between.
        for _ in range(200):
            time.sleep(0.005)
        session.stop()
        idle = [sample for sample in session.read() if sample.pid == 0]
        # The idle task is sampled only during interrupts.
        for sample in idle:
            check(sample.kernel, "a sample of the idle task without a kernel part")
        check_balance(session.stats())


# Forks children with the pids of exited children at once, before the kernel has freed those.
IDS_TWICE = """
import ctypes, os, signal, struct, sys
CLONE3 = 435
libc = ctypes.CDLL(None, use_errno=True)

def twice():
    ready, begin = os.pipe()
    first = os.fork()
    if not first:
        os.close(begin)
        os.read(ready, 1)
        os._exit(0)
    wanted = (ctypes.c_int * 1)(first)
    arguments = struct.pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    os.close(begin)
    os.waitpid(first, 0)
    second = libc.syscall(CLONE3, arguments, len(arguments))
    while not second:
        pass
    os.close(ready)
    return first, second

sys.stdin.readline()
pairs = [twice() for _ in range(int(sys.argv[1]))]
print([pair[1] for pair in pairs if pair[0] == pair[1]], flush=True)
while True:
    pass
"""


@long_test
def children_with_reused_pids_are_sampled():
    """When the kernel frees the exited children later, the new children stay in the filter."""
    count = 6
    with Session(rate=1000, watermark=4096, ring_size=4 << 20) as session:
        parent = start("python3", "-c", IDS_TWICE, count, stdin=subprocess.PIPE)
        session.set(pids=[parent.pid])
        session.start()
        release(parent)
        children = json.loads(parent.stdout.readline())
        for child in children:
            defer(os.kill, child, signal.SIGKILL)
        check_equal(len(children), count, "children with a reused pid")
        # They are still sampled after many grace periods.
        at = time.monotonic_ns() + 10**9
        seen = set()

        def all_seen():
            seen.update(sample.pid for sample in session.read() if sample.time > at)
            return seen >= set(children)
        wait_until(all_seen, "samples of all children")


@test
def replacing_a_filter_does_not_block():
    """The old filter is freed after a grace period. If too many wait for that, a new one is refused with EBUSY."""
    with Session(rate=1000) as session:
        def is_refused():
            # Together, as messages of their own can take longer than a grace period.
            errors = session.netlink.session_set_at_once(session.id, 4 * S.FILTERS_WAITING_MAX, pids=[os.getpid()])
            for error in errors:
                check_equal(error.errno, errno.EBUSY, "error")
                check("too many replaced filters" in error.text, f"the message is {error.text!r}")
            return errors

        # Grace periods vary: on a busy machine, one can end within the messages of a buffer.
        if SLOWDOWN == 1:
            wait_until(is_refused, "a refused filter")
        else:
            # On debug kernels, all can.
            for _ in range(20):
                is_refused()
        wait_until(lambda: try_settings(session, pids=[os.getpid()]), "room for one more filter")
        # Settings without a filter are not refused.
        for _ in range(100):
            session.set(rate=500)


def try_settings(session, **settings):
    try:
        session.set(**settings)
    except OSError as error:
        check_equal(error.errno, errno.EBUSY, "error")
        return False
    return True


@test
def cgroup_filter_matches_down_to_level_63():
    """Deeper groups never match, as the depth of the search in a tick is bounded."""
    groups = [cgroup_mount()]
    for level in range(1, 66):
        groups.append(make_cgroup(groups[-1], f"level-{level}"))
    process = start(*workload("threads", 1))
    (groups[-1] / "cgroup.procs").write_text(str(process.pid))
    for level, is_found in ((1, True), (63, True), (64, False), (65, False)):
        with Session(rate=1000, cgroups=[groups[level].stat().st_ino]) as session:
            session.start()
            # The host may not run the CPU of the process while another one takes all ticks.
            wait_until(lambda: (stats := session.stats())["ticks"] >= 300 and (stats["samples"] or not is_found), "ticks")
            session.stop()
            pids = {sample.pid for sample in session.read()}
            check_equal(pids, {process.pid} if is_found else set(), f"processes at level {level}")
    process.kill()
    process.wait()
