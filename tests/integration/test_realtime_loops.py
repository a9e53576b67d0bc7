# SPDX-License-Identifier: GPL-2.0
"""A real-time loop that monopolizes a CPU does not block sessions on its CPU or on other CPUs."""

import os
import select
import signal

from harness import (check, check_balance, check_equal, check_sessions_end, Failure, load, long_test,
                     open_sessions, PATIENCE, Recording, samples_of, Skip, start, temporary_directory, test,
                     unload, wait_until)
from realtime_loop import check_not_woken, CPU, kernel_stacks, loop
from address_spaces import AddressSpaces
from stackbeat import online_cpus, PAGE, S, Session
from test_hotplug import removable_cpu, set_online, wait_for_samples
from sample_weights import keep_busy

OTHER = 0

# membarrier(MEMBARRIER_CMD_GLOBAL) returns after a grace period.
GRACE_PERIODS = """
import ctypes
for _ in range(50):
    if ctypes.CDLL(None).syscall(324, 1, 0):
        raise SystemExit("no membarrier")
"""


def run_session_lifecycle(step, cpus, rounds=3):
    """Opens, configures, runs and closes sessions on these CPUs, several times."""
    group = os.stat("/sys/fs/cgroup").st_ino
    for number in range(rounds):
        def change(name, number=number, **settings):
            step(f"{name} (round {number})")
            session.set(**settings)
        step(f"open (round {number})")
        session = Session(rate=1000, cpus=cpus, watermark=1)
        step(f"mmap (round {number})")
        session.map()
        change("start", state=S.STATE_RUNNING)
        step(f"samples (round {number})")
        wait_until(lambda: session.stats()["samples"] >= 5, "samples")
        for rate in (99, 1000, 499):
            change(f"rate {rate}", rate=rate)
        change("processes", pids=[os.getpid()])
        change("threads", tids=[os.getpid()])
        change("names", exclude_comms=["rtloop"])
        change("control groups", cgroups=[group])
        change("no filter", pids=[], tids=[], cgroups=[], exclude_comms=[])
        change("pause", state=S.STATE_PAUSED)
        change("resume", state=S.STATE_RUNNING)
        for mask in (str(OTHER), str(CPU), "", cpus):
            change(f"CPUs {mask!r}", cpus=mask)
        change("stop", state=S.STATE_STOPPED)
        check_balance(session.stats())
        change("start again", state=S.STATE_RUNNING)
        step(f"close while it runs (round {number})")
        session.close()
        step(f"open and close (round {number})")
        Session().close()
    step("the end of the sessions")
    wait_until(lambda: os.getpid() not in {session["owner"] for session in open_sessions()},
               "the end of the sessions")


@long_test
def sessions_of_other_cpus():
    with loop() as running:
        running.run(run_session_lifecycle, str(OTHER))


@long_test
def sessions_of_the_loops_cpu():
    with loop() as running:
        running.run(run_session_lifecycle, str(CPU))


@test
def sessions_of_all_cpus():
    with loop() as running:
        running.run(run_session_lifecycle, "")


@test
def first_session_of_the_module():
    unload()
    load()
    with loop() as running:
        running.run(run_session_lifecycle, str(OTHER), 1)


@test
def sessions_opened_before_the_loop():
    def end(step, session):
        for name, settings in {"rate": {"rate": 99}, "pause": {"state": S.STATE_PAUSED},
                               "resume": {"state": S.STATE_RUNNING},
                               "stop": {"state": S.STATE_STOPPED}}.items():
            step(name)
            session.set(**settings)

    for cpus in (str(OTHER), str(CPU), ""):
        with Session(rate=1000, cpus=cpus, watermark=1, state=S.STATE_RUNNING) as session:
            with loop() as running:
                running.run(end, session)


@test
def samples_of_the_loop_wake_the_reader():
    def read(step, session, pid):
        session.map()
        session.read()
        seen = 0
        for number in range(10):
            step(f"poll ({number})")
            check_equal(session.poll(), select.POLLIN, "events")
            seen += sum(sample.pid == pid for sample in session.read())
        return seen

    # At this low rate no sample arrives before poll().
    with Session(rate=10, cpus=str(CPU), watermark=1, state=S.STATE_RUNNING) as session:
        with loop() as running:
            check(running.run(read, session, running.pid) >= 9, "no samples of the loop")


@test
def mmap_events_of_the_loop_are_reported():
    file = temporary_directory() / "code"
    file.write_bytes(bytes(PAGE))

    def follow(step, session, pid):
        session.map()
        spaces = AddressSpaces(session, keep_files=True)

        def space():
            spaces.read()
            return next((spaces.spaces[sample.address_space] for sample in session.read()
                         if sample.pid == pid and sample.address_space in spaces.spaces), None)
        step("mappings")
        history = wait_until(space, "the address space of the loop")
        for number in range(3):
            known = set(history.events)

            def new_events(known=known):
                spaces.read()
                return history.events - known
            step(f"mapping event {number}")
            os.kill(pid, signal.SIGUSR1)
            wait_until(new_events, "the mapping event")
        check(str(file) in {mapped.path for mapped in spaces.files.values()}, "the mapped file was not reported")

    with Session(rate=1000, cpus=str(CPU), state=S.STATE_RUNNING) as session:
        with loop(file) as running:
            running.run(follow, session, running.pid)


def check_killed(cpus):
    """Checks that a killed reader of a session on these CPUs exits, and its session ends."""
    keep_busy(OTHER)
    recording = Recording("-F", 997, "-C", cpus)
    pid, session = recording.process.pid, recording.session()

    def kill(step):
        step("samples")
        before = recording.stats(session)["samples"]
        wait_until(lambda: recording.stats(session)["samples"] >= before + 100, "samples")
        step("the end of the reader", pid)
        os.kill(pid, signal.SIGKILL)
        with open(os.pidfd_open(pid), "rb") as ended:
            select.select([ended], [], [])
        step("the end of the session")
        check_sessions_end()

    with loop() as running:
        running.run(kill)
        check_equal(recording.process.wait(), -signal.SIGKILL, "status of the reader")


@test
def killed_reader_of_the_loops_cpu_exits():
    check_killed(str(CPU))


@long_test
def killed_reader_of_other_cpus_exits():
    check_killed(str(OTHER))


def recorded(cpus):
    """Records these CPUs while the loop runs, and returns the profile."""
    load()
    with loop() as running:
        recording = Recording("-F", 997, "-C", cpus)
        recording.wait_for(recording.session(), "samples", 100)
        recording.interrupt()
        running.check_finishes(recording.process, "record")
        return recording.profile()


@long_test
def other_cpus_are_recorded():
    keep_busy(OTHER)
    check(samples_of(recorded(str(OTHER)), "threads"), "no samples of the busy process")


@test
def the_loops_cpu_is_recorded():
    check(samples_of(recorded(str(CPU)), "rtloop"), "no samples of the loop")


@test
def pending_offline_of_the_loops_cpu_blocks_no_session():
    """Taking a CPU offline waits for a thread of the CPU, and holds the lock of CPU hotplug meanwhile."""
    check_equal(removable_cpu(), CPU, "a CPU that can go offline")
    with Session(rate=1000, cpus=str(CPU), watermark=1) as session:
        session.start()
        with loop() as running:
            writer = start("/bin/sh", "-c", f"echo 0 >/sys/devices/system/cpu/cpu{CPU}/online")
            # On -rt it may wait for a grace period before it takes the lock.
            wait_until(lambda: any("_cpu_down" in stack and ("kick_ap" in stack or "rcu_sync" in stack)
                                   for stack in kernel_stacks()), "the wait for the CPU")
            for cpus in (str(OTHER), str(CPU), ""):
                running.run(run_session_lifecycle, cpus, 1)
            check(writer.poll() is None, "the CPU went offline while the loop ran")
        check_equal(writer.wait(), 0, "status of the shell that takes the CPU offline")
        check(CPU not in online_cpus(), "the CPU is still online")
        set_online(CPU, True)
        keep_busy(CPU)
        wait_for_samples(session, CPU)


@long_test
def module_unloads_while_the_loop_runs():
    """Unloading waits for grace periods. The test is skipped where the loop blocks these."""
    if "PREEMPT_RT" in os.uname().version:
        raise Skip("grace periods wait for a thread of the loop's CPU")
    # Less than in other tests: where the loop blocks grace periods, this test waits for all of it.
    with loop(seconds=60 * PATIENCE) as running:
        running.run(run_session_lifecycle, "", 1)
        grace_periods = start("/usr/bin/python3", "-c", GRACE_PERIODS)
        try:
            running.check_finishes(start("stackbeat", "unload"), "unload")
        except Failure as failure:
            if grace_periods.poll() is None:
                raise Skip("the loop blocks grace periods") from failure
            check_equal(grace_periods.poll(), 0, "status of the process that waits for grace periods")
            raise


@test
def cpus_outside_of_the_session_are_not_woken():
    check_not_woken(CPU)
