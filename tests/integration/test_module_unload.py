# SPDX-License-Identifier: GPL-2.0
"""Nothing is left of a session that was closed, nor of a module that was unloaded."""

import ctypes
import os
import re
import signal
from pathlib import Path

from harness import (check, check_equal, check_sessions_end, comment, is_loaded, load, module_range,
                     Recording, run, start, test, unload, workload, wait_until)
from stackbeat import libc, Session


@test
def killed_readers_leave_no_session():
    start(*workload("threads", 2))
    recording = Recording("-F", 997)
    recording.wait_for(recording.session(), "samples", 100)
    recording.interrupt(signal.SIGKILL)
    recording.process.wait()
    check_sessions_end()
    check(not recording.path.exists(), "a killed reader left a profile")
    check_equal(list(recording.path.parent.iterdir()), [], "files of a killed reader")
    unload()
    check(not is_loaded(), "the module is still loaded")


@test
def unloading_while_recording_is_refused():
    start(*workload("threads", 2))
    recording = Recording("-F", 997)
    session = recording.session()
    out, err = run("stackbeat", "unload", status=1)
    check_equal(out, "", "standard output of the refused unload")
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    before = recording.stats(session)["samples"]
    recording.wait_for(session, "samples", before + 100)
    recording.interrupt()
    check(comment(recording.profile(), "samples")[""] >= before + 100, "samples were lost")


def slab_objects():
    """How many objects each kmalloc cache holds, exactly."""
    counts = {}
    for cache in Path("/sys/kernel/slab").glob("kmalloc-*"):
        (cache / "shrink").write_text("1")
        # "N N0=N": all, and by node
        counts[cache.name] = int((cache / "objects").read_text().split()[0])
    return counts


def vmalloc_bytes(*ranges):
    """What vmalloc holds, and the regions in it of a module that was loaded in these ranges: when it is
    unloaded, who has made a region is a bare address."""
    total = 0
    ours = []
    for line in Path("/proc/vmallocinfo").read_text().splitlines():
        size, maker = re.match(r"\S+\s+(\d+) (\S*)", line).groups()
        total += int(size)
        if "[stackbeat]" in line or (maker.startswith("0x") and
                                     any(int(maker, 16) in code for code in ranges)):
            ours.append(line)
    return total, ours


def check_result(result):
    code = ctypes.get_errno()
    check_equal(result, 0, f"a system call's result ({os.strerror(code)})")


def load_file(file):
    """Loads a module without a process that would cost more than that."""
    check_result(libc.init_module(file, ctypes.c_ulong(len(file)), b""))


@test
def load_record_unload_leaks_no_memory():
    def once():
        load_file(file)
        ranges.add(module_range())
        with Session(rate=5000, pids=[os.getpid()]) as session:
            session.start()
            # At work, and so sampled, until it is.
            while not session.read():
                pass
        check_result(libc.delete_module(b"stackbeat", os.O_NONBLOCK))

    unload()
    file = Path(run("modinfo", "-n", "stackbeat")[0].strip()).read_bytes()
    ranges = set()
    for _ in range(10):
        once()
    before, (vmalloc_before, _) = slab_objects(), vmalloc_bytes()
    for _ in range(100):
        once()
    vmalloc_after, ours = vmalloc_bytes(*ranges)

    check_equal(ours, [], "vmalloc regions of the unloaded module")

    # One object, or one page, that is lost each time makes 100; half of that
    # is left to whatever else the kernel does meanwhile.
    def grown():
        after = slab_objects()
        return {cache: after[cache] - before.get(cache, 0) for cache in after
                if after[cache] - before.get(cache, 0) >= 50}

    # What the kernel frees after a grace period (the hashes of a probe) is there until then.
    wait_until(lambda: not grown(), f"caches that have grown: {grown()}, back as they were")
    check(vmalloc_after - vmalloc_before < 50 * 4096,
          f"vmalloc has grown by {vmalloc_after - vmalloc_before} bytes")


@test
def load_and_unload_report_the_module_state():
    load()
    run("stackbeat", "load")
    _, err = run("stackbeat", "load", "rate_max=1000", status=1)
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    unload()
    _, err = run("stackbeat", "unload", status=1)
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    run("stackbeat", "load", "rate_max=1000")
    _, err = run("stackbeat", "record", "-F", "2000", "-o", "/nowhere/x", "true", status=1)
    check_equal(Path("/sys/module/stackbeat/parameters/rate_max").read_text().strip(), "1000",
                "rate_max")
    unload()
    run("stackbeat", "load", "rate_max=50")
    with Session() as session:
        check_equal(session.get()["rate"], 50, "rate by default")
    # Longer than the longest first interval at 50 Hz, also where the emulator is fast.
    comments = Recording(command=workload("shares", 100000000)).profile().comments
    check(any(comment.startswith("rate: 50 Hz requested") for comment in comments),
          f"the default gives way to it: {comments}")
    unload()
    run("stackbeat", "load", "unprivileged=1")
    # The kernel tells a flag as Y.
    run("stackbeat", "load", "unprivileged=1")
    run("stackbeat", "load", "unprivileged=0", status=1)
    unload()
    for wrong in ("rate_max=0", "rate_max=20001", "rate_max=x"):
        _, err = run("stackbeat", "load", wrong, status=1)
        check(err, f"{wrong}: nothing was said")
        check(not is_loaded(), f"{wrong}: loaded")


@test
def record_loads_the_module():
    unload()
    recording = Recording("-F", 997, command=workload("shares", 100000000))
    recording.out, recording.err = recording.process.communicate()
    check_equal(recording.process.returncode, 0, f"status; it said {recording.err}")
    check("loaded" in recording.err, f"it does not say so: {recording.err}")
    check(is_loaded(), "the module is not loaded")
