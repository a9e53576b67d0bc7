# SPDX-License-Identifier: GPL-2.0
"""Beyond the limits of kmod/limits.h, in a module with small limits (tests/env/vm/run --instrument tight).

Data beyond the limits is lost and counted. The reported data stays correct and consistent.
"""

import os
import signal
import sys

from harness import (cgroup_mount, check, check_balance, check_equal, check_no_fault, comment, defer,
                     load, long_tight_test, make_cgroup, Recording, run, Skip, start, temporary_directory, test, tight_test,
                     use, wait_until, workload, WORKLOADS)
from address_spaces import AddressSpaces, UNKNOWN
from stackbeat import PAGE, S, Session, spaces_lost
from test_kernel_names import need_modules
import workloads

FOR_EVER = 10 ** 8

# Files in directories, and the bytes that their paths have at least.
FILES, PATH = 500, 3500


def start_storm(*commands):
    """Runs programs until the test ends, in process groups of their own; returns the processes."""
    processes = []
    for command in commands:
        process = start(*command, start_new_session=True)
        defer(os.killpg, process.pid, signal.SIGKILL)
        processes.append(process)
    return processes


MAPPING = workload("maps", "storm", FOR_EVER)
SWAPPING = workloads.dlswap(FOR_EVER)


def reaches(stats, **least):
    return all(stats[name] >= number for name, number in least.items())


def check_recording_beyond_limits(fraction):
    """Until a fraction of the losses that the whole test waits for."""
    recording = Recording("-a", "-F", "999")
    session = recording.session()
    start_storm(*[MAPPING] * 3, SWAPPING,
                workload("churn", WORKLOADS, temporary_directory(), "chain", FOR_EVER, 200000))

    def ended_or_overloaded():
        stats = recording.stats(session)
        return recording.process.poll() is not None or spaces_lost(stats) >= 100 * fraction and reaches(
            stats, address_spaces=300 * fraction, mmap_events=1000 * fraction, mmap_events_lost=10000 * fraction,
            mappings_without_file=300 * fraction)
    wait_until(ended_or_overloaded, f"more than {recording.stats(session)}")
    check(recording.process.poll() is None, "the recording has exited")
    stats = recording.stop(session)
    recording.interrupt()
    profile = recording.profile()
    check_balance(stats)
    check_equal(comment(profile, "samples")[""], stats["samples"], "samples in the profile")


@tight_test
def recording_is_complete_at_the_limits():
    check_recording_beyond_limits(0.02)


@long_tight_test
def recording_is_complete_beyond_the_limits():
    check_recording_beyond_limits(1)


# Maps the files of a directory as code, one after another, and works.
MAP_FILES = """
import mmap, os, sys
os.chdir(sys.argv[1])
kept = [mmap.mmap(os.open(entry.name, os.O_RDONLY), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC,
                  flags=mmap.MAP_PRIVATE) for entry in os.scandir()]
print("ready", flush=True)
while True:
    pass
"""


@test
def metadata_that_waits_is_charged_to_the_opener():
    """Paths of mapped files, by which any process can let a session take memory. The reader reads no metadata."""
    root = cgroup_mount()
    if "memory" not in (root / "cgroup.controllers").read_text().split():
        raise Skip("control groups do not count memory")
    (root / "cgroup.subtree_control").write_text("+memory")
    group = make_cgroup(root, "opener")
    directory = temporary_directory()
    while len(str(directory)) < PATH:
        directory /= "d" * 200
    directory.mkdir(parents=True)
    for number in range(FILES):
        (directory / f"f{number}").write_bytes(bytes(PAGE))
    process = start(sys.executable, "-c", MAP_FILES, directory)
    check_equal(process.stdout.readline(), "ready\n", "output")
    defer((root / "cgroup.procs").write_text, str(os.getpid()))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    session = use(Session(rate=1000, pids=[process.pid]))
    (root / "cgroup.procs").write_text(str(os.getpid()))
    session.map()
    before = int((group / "memory.current").read_text())
    session.start()
    wait_until(lambda: (session.read(), session.stats()["files"] >= FILES)[1], "all files")
    charged = int((group / "memory.current").read_text()) - before
    check(charged > 0.9 * FILES * PATH, f"{charged} bytes are charged for {FILES} paths of {PATH} bytes")


def count_library_samples(processes, fraction=1.0):
    """Checks that libraries that are loaded and unloaded at the same address are not confused. Until a fraction of the samples
    and losses that the whole test waits for. Returns (samples in a library, samples with unknown mappings), of the processes or
    of the whole system."""
    with Session(rate=999, ring_size=4 << 20, pids=[process.pid for process in processes]) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = []
        while len(samples) < 1000 * fraction or not reaches(
                session.stats(), mmap_events=1000 * fraction, mmap_events_lost=10000 * fraction):
            session.poll()
            samples += [sample for sample in session.read() if sample.comm == "dlswap" and sample.user
                        and not sample.flags & S.SAMPLE_KERNEL]
            spaces.read()
        session.stop()
        spaces.drain()
    known = unknown = 0
    for sample in samples:
        frames = spaces.symbolize(sample)
        if any(frame.mapping is UNKNOWN or not frame.file for frame in frames):
            unknown += 1
            continue
        fault, in_library = workloads.swap_fault(frames)
        # A library that was unloaded and loaded again within a gap looks as if it had stayed.
        if fault and spaces.is_in_gap(sample):
            unknown += 1
            continue
        check_no_fault(fault, sample)
        known += in_library
    return known, unknown


@tight_test
def lost_mmap_events_cause_no_wrong_symbols():
    known, unknown = count_library_samples(start_storm(MAPPING, SWAPPING), 0.3)
    check(known and unknown, f"{known} samples in libraries, {unknown} unknown")


@long_tight_test
def evicted_address_spaces_cause_no_wrong_symbols():
    """Without a filter the table overflows, and an address space may be evicted between any two samples."""
    start_storm(MAPPING, SWAPPING)
    _, unknown = count_library_samples([])
    check(unknown, "no sample is unknown")


@tight_test
def oldest_symbols_of_modules_are_dropped():
    """Two parts are kept. A module has two."""
    need_modules()
    load()
    with Session() as session:
        serials = []
        for _ in range(3):
            run("modprobe", "xor")
            run("rmmod", "xor")
            parts = session.module_parts()
            check_equal([(part.module, part.gone > 0) for part in parts], [("xor", True)] * 2, "parts")
            serials += [part.serial for part in parts]
        check_equal(serials, list(range(serials[0], serials[0] + 6)), "serials of parts")
        check_equal(parts[0].dropped, 4, "dropped parts")
