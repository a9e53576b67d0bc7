# SPDX-License-Identifier: GPL-2.0
"""Closed sessions and an unloaded module leave nothing behind."""

import ctypes
import os
import re
import signal
from pathlib import Path

from harness import (check, check_equal, check_sessions_end, comment, is_loaded, load, long_test,
                     module_range, Recording, run, start, test, unload, wait_until, workload)
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
    """{kmalloc cache: number of its objects}."""
    counts = {}
    for cache in Path("/sys/kernel/slab").glob("kmalloc-*"):
        (cache / "shrink").write_text("1")
        # "N N0=N": total, and by node
        counts[cache.name] = int((cache / "objects").read_text().split()[0])
    return counts


def slab_uncertainty(cache):
    """By how much slab_objects() may exceed the objects in use: the slab from which a CPU allocates counts as full."""
    directory = Path("/sys/kernel/slab") / cache
    return (int((directory / "cpu_slabs").read_text().split()[0]) *
            int((directory / "objs_per_slab").read_text()))


def vmalloc_bytes(*ranges):
    """(bytes in vmalloc, regions that the module has allocated). `ranges` are addresses of the module's code:
    once it is unloaded, /proc/vmallocinfo shows callers by their bare addresses."""
    total = 0
    regions = []
    for line in Path("/proc/vmallocinfo").read_text().splitlines():
        size, caller = re.match(r"\S+\s+(\d+) (\S*)", line).groups()
        total += int(size)
        if "[stackbeat]" in line or (caller.startswith("0x") and
                                     any(int(caller, 16) in code for code in ranges)):
            regions.append(line)
    return total, regions


def check_vmalloc_is_freed(code):
    """`code`: addresses of the unloaded module. The kernel frees unwind tables after a grace period."""
    wait_until(lambda: not vmalloc_bytes(code)[1],
               f"vmalloc regions of the unloaded module to be freed: {vmalloc_bytes(code)[1]}")


def check_result(result):
    code = ctypes.get_errno()
    check_equal(result, 0, f"a system call's result ({os.strerror(code)})")


def load_file(file):
    """Loads a module without the cost of starting a process."""
    check_result(libc.init_module(file, ctypes.c_ulong(len(file)), b""))


@long_test
def load_record_unload_leaks_no_memory():
    def once():
        load_file(file)
        ranges.add(module_range())
        with Session(rate=5000, pids=[os.getpid()]) as session:
            session.start()
            # This process keeps running until it is sampled.
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
    vmalloc_after, regions = vmalloc_bytes(*ranges)

    check_equal(regions, [], "vmalloc regions of the unloaded module")

    # A leak of one object or page per round adds up to 100; half of that is allowed for other activity of
    # the kernel.
    def grown():
        after = slab_objects()
        return {cache: after[cache] - before.get(cache, 0) for cache in after
                if after[cache] - before.get(cache, 0) >= 50}

    # The kernel frees some objects (hash tables of a probe) after a grace period.
    wait_until(lambda: not grown(), f"caches to shrink again: {grown()}")
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
        check_equal(session.get()["rate"], 50, "default rate")
    # Longer than the longest first interval at 50 Hz, also where the emulator is fast.
    comments = Recording(command=workload("shares", 100000000)).profile().comments
    check(any(comment.startswith("rate: 50 Hz requested") for comment in comments),
          f"rate_max limits the default rate: {comments}")
    unload()
    run("stackbeat", "load", "unprivileged=1")
    # The kernel prints a boolean parameter as Y.
    run("stackbeat", "load", "unprivileged=1")
    run("stackbeat", "load", "unprivileged=0", status=1)
    unload()
    for wrong in ("rate_max=0", "rate_max=20001", "rate_max=x"):
        _, err = run("stackbeat", "load", wrong, status=1)
        check(err, f"{wrong}: no message")
        check(not is_loaded(), f"{wrong}: loaded")


@test
def record_loads_the_module():
    unload()
    recording = Recording("-F", 997, command=workload("shares", 100000000))
    recording.out, recording.err = recording.process.communicate()
    check_equal(recording.process.returncode, 0, f"status; output: {recording.err}")
    check("loaded" in recording.err, f"no message about loading: {recording.err}")
    check(is_loaded(), "the module is not loaded")
