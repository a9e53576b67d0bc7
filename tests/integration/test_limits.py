# SPDX-License-Identifier: GPL-2.0
"""Beyond the limits of kmod/limits.h, in a module whose limits are small (tests/env/vm/run --instrument tight).

What is beyond them is lost and counted. What is told is right, and a reader can follow it.
"""

import os
import signal

from harness import (check, check_balance, check_equal, check_no_fault, comment, defer, Recording, start,
                     temporary_directory, tight_test, wait_until, workload, WORKLOADS)
from address_spaces import AddressSpaces, UNKNOWN
from stackbeat import S, Session
import workloads

FOR_EVER = 10 ** 8


def storm(*commands):
    """Has programs work until the test ends, with all that they start; returns their processes."""
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


@tight_test
def recording_is_complete_beyond_the_limits():
    recording = Recording("-a", "-F", "999")
    session = recording.session()
    storm(*[MAPPING] * 3, SWAPPING,
          workload("churn", WORKLOADS, temporary_directory(), "chain", FOR_EVER, 200000))

    def ended_or_enough():
        return recording.process.poll() is not None or reaches(
            recording.stats(session), address_spaces=300, mmap_events=1000,
            samples_without_space=100, mmap_events_lost=10000, mappings_without_file=300)
    wait_until(ended_or_enough, f"enough of {recording.stats(session)}")
    check(recording.process.poll() is None, "the recording has ended by itself")
    stats = recording.stop(session)
    recording.interrupt()
    profile = recording.profile()
    check_balance(stats)
    check_equal(comment(profile, "samples")[""], stats["samples"], "samples in the profile")


def count_library_samples(processes):
    """Libraries come and go at the same address: none is taken for another. Returns how many samples
    are known to be in one, and how many are not known, of the processes or of the whole system."""
    with Session(rate=999, ring_size=4 << 20, pids=[process.pid for process in processes]) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = []
        while len(samples) < 1000 or not reaches(session.stats(), mmap_events=1000, mmap_events_lost=10000):
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
        # What has gone and come back within a gap passes for what has stayed.
        if fault and spaces.is_in_gap(sample):
            unknown += 1
            continue
        check_no_fault(fault, sample)
        known += in_library
    return known, unknown


@tight_test
def lost_mmap_events_cause_no_wrong_symbols():
    known, unknown = count_library_samples(storm(MAPPING, SWAPPING))
    check(known and unknown, f"{known} samples are known, {unknown} are not")


@tight_test
def evicted_address_spaces_cause_no_wrong_symbols():
    """Which may be so at each of their samples."""
    storm(MAPPING, SWAPPING)
    _, unknown = count_library_samples([])
    check(unknown, "all samples are known")
