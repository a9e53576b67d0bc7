# SPDX-License-Identifier: GPL-2.0
"""New mappings are reported however they are made, and sessions do not open if the probes do not work."""

import errno
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from harness import (check, check_equal, defer, exact_test, fails_with, load, long_test, release, run, Skip, start, start_busy,
                     temporary_directory, test, unload, use, wait_until)
from address_spaces import AddressSpaces, UNKNOWN
from stackbeat import Events, online_cpus, PAGE, S, Session

# Both are 1 by default. The second is in debugfs.
PROBE_SWITCHES = (Path("/proc/sys/kernel/ftrace_enabled"), Path("/sys/kernel/debug/kprobes/enabled"))


def set_switch(path, value):
    path.write_text(f"{value}\n")


def may_switch_off(path):
    """Whether the kernel has the switch: the kernel 7.3 refuses to switch ftrace off."""
    if not path.exists():
        return False
    try:
        set_switch(path, 0)
    except OSError as error:
        if path != PROBE_SWITCHES[0] or error.errno != errno.EOPNOTSUPP:
            raise
        return False
    set_switch(path, 1)
    return True


def mount_debugfs():
    if not PROBE_SWITCHES[1].exists():
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
        defer(run, "umount", "/sys/kernel/debug")


def probe_uses_ftrace():
    """Whether the probe is based on ftrace. Else, as on 5.10, only the second switch affects it."""
    probes = Path("/sys/kernel/debug/kprobes/list").read_text().splitlines()
    # The offset is not 0 on kernels with IBT, whose functions begin with an endbr instruction.
    return any(" perf_event_mmap+0x" in re.sub(r"\s+", " ", line) and "[FTRACE]" in line for line in probes)


@test
def probe_of_the_modules_own_function_goes_with_it():
    """The kernel optimizes probes some milliseconds after they were registered: an entry that stayed in its table would be found
    when the module is loaded at the same address, with a warning."""
    mount_debugfs()
    for _ in range(2):
        load()
        with Session(rate=100):
            time.sleep(0.5)
            probes = Path("/sys/kernel/debug/kprobes/list").read_text().splitlines()
            own = [line for line in probes if "sb_kprobe_test" in line]
            check_equal([len(own), any("[OPTIMIZED]" in line for line in own)], [1, False], f"probes of the module: {own}")
        unload()


@test
def open_fails_while_probes_are_off():
    mount_debugfs()
    load()
    for path in filter(may_switch_off, PROBE_SWITCHES):
        with Session(rate=100) as session:
            by_ftrace = probe_uses_ftrace()
            defer(set_switch, path, 1)
            set_switch(path, 0)
            if path == PROBE_SWITCHES[0] and not by_ftrace:
                Session().close()
                set_switch(path, 1)
                continue
            with fails_with(errno.EOPNOTSUPP, f"an open without {path}"):
                Session().close()
            _, err = run("stackbeat", "record", "-o", temporary_directory() / "profile.pb.gz",
                          "-d", "1", status=1)
            check_equal(err.count("\n"), 1, f"lines of {err!r}")
            for word in ("kernel.ftrace_enabled", "/sys/kernel/debug/kprobes/enabled"):
                check(word in err, f"{word} is not in {err!r}")
            set_switch(path, 1)
            Session().close()
            session.start()


def check_reads(snapshots, off, *, starts_while_off):
    """A session has queued a test of the probes, and ends. The probes are off for a time that includes the start of the next
    session, or ends before it: how often that session reads the mappings of its process, and whether it gets the event that
    the probes are off."""
    mount_debugfs()
    load()
    with Session(rate=100) as session:
        session.start()
    events = use(Events())
    process = start_busy("/bin/sh", "-c", "while :; do :; done")
    with Session(rate=1000, ring_size=4 << 20, pids=[process.pid]) as session:
        spaces = AddressSpaces(session, read_files=False)
        process.send_signal(signal.SIGSTOP)
        defer(set_switch, PROBE_SWITCHES[1], 1)
        set_switch(PROBE_SWITCHES[1], 0)
        # In the guest's time, which counts instructions.
        time.sleep(2 * S.MMAP_PROBE_TEST_SECONDS)
        if not starts_while_off:
            set_switch(PROBE_SWITCHES[1], 1)
        session.start()
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: spaces.read() or any(space.snapshots for space in spaces.spaces.values()), "the mappings")
        process.send_signal(signal.SIGSTOP)
        set_switch(PROBE_SWITCHES[1], 1)
        time.sleep(2 * S.MMAP_PROBE_TEST_SECONDS)
        process.send_signal(signal.SIGCONT)
        # A sample requests what is to be read again.
        before = session.stats()["samples"]
        wait_until(lambda: session.stats()["samples"] >= before + 100, "samples after the test of the probes")
        session.stop()
        spaces.drain()
        check_equal([len(space.snapshots) for space in spaces.spaces.values()], [snapshots], "how often its mappings were read")
        check_equal([len(events.of(session.id, "mmap_events_off")), session.stats()["mmap_events_off"]], [off, off],
                    "events that the probes are off, and tests")


@exact_test
def probes_that_were_off_before_the_start_leave_no_gap():
    check_reads(1, 0, starts_while_off=False)


@exact_test
def probes_that_are_off_at_the_start_leave_a_gap():
    check_reads(2, 1, starts_while_off=True)


# Calls code at one address until there is a line of input, and then moves it and calls it at the new address.
MOVING = """
import ctypes, mmap, select, sys
PAGE, FIXED = mmap.PAGESIZE, 1 | 2
CODE = bytes.fromhex("554889e548ffcf75fb5dc3")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p

def pages(count, protection):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return libc.mmap(None, ctypes.c_size_t(count * PAGE), protection, flags, -1, ctypes.c_long(0))

def call(address, iterations):
    ctypes.CFUNCTYPE(None, ctypes.c_uint64)(address)(iterations)

old = pages(1, mmap.PROT_READ | mmap.PROT_WRITE)
ctypes.memmove(old, CODE, len(CODE))
libc.mprotect(ctypes.c_void_p(old), ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_EXEC)
print(old, flush=True)
while not select.select([0], [], [], 0)[0]:
    call(old, 1000000)
sys.stdin.readline()
# In the middle of a reserved area, so that the mapping has no neighbours.
new = pages(3, 0) + PAGE
assert libc.mremap(ctypes.c_void_p(old), ctypes.c_size_t(PAGE), ctypes.c_size_t(PAGE), FIXED,
                   ctypes.c_void_p(new)) == new
print(new, flush=True)
call(new, 1 << 62)
"""


@test
def mremap_of_code_is_reported():
    process = start("python3", "-c", MOVING, stdin=subprocess.PIPE)
    with Session(rate=1000, watermark=4096, ring_size=4 << 20, pids=[process.pid]) as session:
        spaces = AddressSpaces(session, read_files=False)
        session.start()
        process.stdout.readline()
        samples = []

        def is_read():
            spaces.read()
            samples.extend(session.read())
            return any(spaces.spaces[sample.address_space].snapshots for sample in samples)
        wait_until(is_read, "the mappings before the move")
        release(process)
        new = int(process.stdout.readline())

        def moved():
            return [sample for sample in samples if sample.user and sample.user[0] - new in range(PAGE)]
        while len(moved()) < 50:
            session.poll()
            samples += session.read()
            spaces.read()
        session.stop()
        samples += session.read()
        spaces.drain()
        for sample in moved():
            mapping = spaces.mapping_at(sample, sample.user[0])
            check(mapping and mapping is not UNKNOWN, f"no mapping: {sample}")
            check_equal((mapping.start, mapping.end, mapping.flags), (new, new + PAGE, S.MAPPING_EVENT),
                        "the mapping")


def check_switch_is_noticed(path):
    if not may_switch_off(path):
        return
    events = use(Events())
    process = start("python3", "-c", MOVING, stdin=subprocess.PIPE)
    with Session(rate=1000, ring_size=4 << 20, pids=[process.pid]) as session:
        if path == PROBE_SWITCHES[0] and not probe_uses_ftrace():
            return
        spaces = AddressSpaces(session, read_files=False)
        session.start()
        wait_until(lambda: any(sample.address_space for sample in session.read()), "a sample before the move")
        process.stdout.readline()
        defer(set_switch, path, 1)
        set_switch(path, 0)
        release(process)
        new = int(process.stdout.readline())
        known = []

        def read(event):
            for sample in session.read():
                spaces.read()
                mapping = spaces.mapping_at(sample, sample.user[0]) if sample.user else None
                if mapping and mapping is not UNKNOWN and sample.user[0] - new in range(PAGE):
                    check_equal((mapping.start, mapping.end), (new, new + PAGE), f"the mapping of {sample}")
                    known.append(sample)
            return events.of(session.id, event)
        wait_until(lambda: read("mmap_events_off"), "the event that there are no mapping events")
        check(session.stats()["mmap_events_off"], f"no test has failed: {session.stats()}")
        set_switch(path, 1)
        wait_until(lambda: read("mmap_events_on"), "the event that there are mapping events again")
        known.clear()
        wait_until(lambda: read("mmap_events_on") and known, "a sample with its mapping")
        off = session.stats()["mmap_events_off"]
        check_equal([len(read(event)) for event in ("mmap_events_off", "mmap_events_on")], [1, 1], "events")
        check_equal(session.stats()["mmap_events_off"], off, "tests that have failed")


@long_test
def probes_that_are_switched_off_in_a_session_are_noticed():
    """What was mapped meanwhile is found when the mappings are read again."""
    mount_debugfs()
    load()
    check_switch_is_noticed(PROBE_SWITCHES[1])


@long_test
def ftrace_that_is_switched_off_in_a_session_is_noticed():
    mount_debugfs()
    load()
    check_switch_is_noticed(PROBE_SWITCHES[0])


# Works until there is a line of input; then monopolizes a CPU by a real-time policy, maps code, and keeps running.
IN_REAL_TIME = """
import mmap, os, select, sys

while not select.select([0], [], [], 0)[0]:
    pass
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
code = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                 prot=mmap.PROT_READ | mmap.PROT_EXEC)
while True:
    pass
"""


@test
def mmap_events_of_a_real_time_task_are_sent_while_it_runs():
    """On -rt, too, where work for a thread of the task's CPU waits until the task ends."""
    other = online_cpus()[-1]
    if not other:
        raise Skip("only one CPU")
    limit = Path("/proc/sys/kernel/sched_rt_runtime_us")
    defer(limit.write_text, limit.read_text())
    limit.write_text("-1")
    defer(os.sched_setaffinity, 0, os.sched_getaffinity(0))
    os.sched_setaffinity(0, {0})
    process = start("python3", "-c", IN_REAL_TIME, other, stdin=subprocess.PIPE)
    with Session(rate=1000, cpus="0", ring_size=4 << 20, pids=[process.pid]) as session:
        session.start()
        wait_until(lambda: any(sample.address_space for sample in session.read()), "a sample of the process")
        before = session.stats()["mmap_events"]
        release(process)
        wait_until(lambda: session.stats()["mmap_events"] > before, "the mapping event")
        check(process.poll() is None, "the process has exited")
