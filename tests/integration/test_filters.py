# SPDX-License-Identifier: GPL-2.0
"""A session samples what it was asked to, and nothing else."""

import subprocess
import time

from harness import (check, check_balance, check_equal, finish, record, Recording, samples_of, start,
                     test, user_part, workload)
from stackbeat import online_cpus, Session


@test
def commands_are_sampled_with_their_children():
    start(*workload("threads", 2))
    profile, _, _ = record("-F", 997, command=workload("forker", 3, 300000000))
    comms = {sample.labels["comm"] for sample in profile.samples}
    check(comms <= {"forker", "forked", "stackbeat"}, f"commands in the profile: {comms}")
    children = {sample.labels["pid"] for sample in samples_of(profile, "forked")}
    check_equal(len(children), 3, "children in the profile")
    for sample in samples_of(profile, "forked"):
        if user_part(sample) and user_part(sample)[0] == "child":
            check_equal(user_part(sample), ["child", "main", "_start"], "stack of a child")


@test
def the_whole_system_is_sampled_unless_told_otherwise():
    threads = start(*workload("threads", 2))
    profile, _, _ = record("-F", 997, "-a", command=workload("shares", 300000000))
    pids = {sample.labels["pid"] for sample in profile.samples}
    check(threads.pid in pids, "another process is not in a profile of the whole system")
    names = {sample.labels["thread"] for sample in profile.samples
             if sample.labels["pid"] == threads.pid}
    check(names & {"worker-0", "worker-1"}, f"names of its threads: {names}")


@test
def processes_are_sampled_by_their_ids():
    wanted = [start(*workload("threads", 1)) for _ in range(2)]
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "-p", ",".join(str(process.pid) for process in wanted))
    session = recording.session()
    recording.wait_for(session, "samples", 300)
    recording.interrupt()
    pids = {sample.labels["pid"] for sample in recording.profile().samples}
    check_equal(pids, {process.pid for process in wanted}, "processes in the profile")


@test
def a_recording_ends_with_the_processes_it_was_for():
    process = start(*workload("shares", 500000000))
    recording = Recording("-F", 997, "-p", process.pid)
    check(recording.profile().samples, "no samples")
    finish(process)


@test
def other_cpus_are_left_alone():
    cpu = online_cpus()[-1]
    start(*workload("threads", 2))
    with Session(rate=1000, cpus=str(cpu), watermark=4096) as session:
        session.start()
        samples = session.read_until(lambda samples: len(samples) >= 200)
        session.stop()
        check_equal({sample.cpu for sample in samples}, {cpu}, "CPUs of the samples")
        stats = session.get()["cpu_stats"]
        check_balance(stats[cpu])
        check(all(stat["beats"] == 0 for other, stat in stats.items() if other != cpu),
              f"beats elsewhere: {stats}")


@test
def children_are_left_out_where_they_are_not_wanted():
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
        # What runs in short bursts leaves its CPU idle in between.
        for _ in range(200):
            time.sleep(0.005)
        session.stop()
        idle = [sample for sample in session.read() if sample.pid == 0]
        # The idle task is seen only where it does an interrupt's work.
        for sample in idle:
            check(sample.kernel, "a sample of the idle task without a kernel part")
        check_balance(session.stats())
