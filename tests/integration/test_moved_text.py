# SPDX-License-Identifier: GPL-2.0
"""Text that a program has moved to anonymous memory at the same addresses, for huge pages, keeps the names and the unwind tables of
its file; generated code in the place of text has none."""

import errno
import fcntl
import struct
from collections import Counter

from harness import (check, check_equal, exact_test, fails_with, load, long_exact_test, Recording, samples_of, start_busy, test, user_part,
                     workload)
from stackbeat import IOC_MOVED_TEXT, PAGE, Session

CHAIN = ["inner", "middle", "outer", "main"]
# Samples of a program. Samples that are taken before the reader has compared its text have no callers: 59 of them where the program
# and the reader share a CPU, as the module wakes the reader 50 ms after the text was moved.
SAMPLES, EARLY = 1000, 120


def profile_of(mode, attach, *arguments, samples=SAMPLES):
    """Records a program until it has some samples, from its start on or when it runs."""
    load()
    program = workload("moved_text", mode)
    target = ("-p", start_busy(*program).pid) if attach else ()
    recording = Recording("-F", 997, "--budget", 50, *arguments, *target, command=() if attach else program)
    recording.wait_for(recording.session(), "samples", samples)
    recording.interrupt()
    return recording.profile()


def keep_tables():
    """Lets the reader compile and keep the unwind tables of the program and its libraries, which takes some time on a shared CPU."""
    profile_of("overlay", False, samples=SAMPLES // 2)


def check_chain(profile):
    stacks = Counter()
    for sample in samples_of(profile, "moved_text"):
        stacks[tuple(user_part(sample))] += sample.values["samples"]
    total = sum(stacks.values())
    named = sum(count for stack, count in stacks.items() if stack and stack[0] in CHAIN)
    # A sample may be in one of the callers.
    right = sum(count for stack, count in stacks.items() if any(list(stack[:4 - skipped]) == CHAIN[skipped:] for skipped in range(4)))
    print(f"{total} samples, {named} named, {right} with their callers")
    check(total >= SAMPLES * 9 // 10, f"only {total} samples")
    check(right >= total - EARLY and named >= 0.95 * total, f"{named} of {total} named, {right} with their callers: {stacks.most_common(5)}")


@exact_test
def text_that_was_copied_keeps_names_and_callers():
    keep_tables()
    check_chain(profile_of("overlay", False))


@long_exact_test
def text_that_mremap_has_moved_keeps_names_and_callers():
    check_chain(profile_of("remap", True))


@exact_test
def text_that_mremap_moves_meanwhile_keeps_names_and_callers():
    """The memory is executable at another place first, which is an event of its own."""
    keep_tables()
    check_chain(profile_of("remap", False))


@test
def generated_code_in_the_place_of_text_has_no_name():
    profile = profile_of("generate", True)
    names = Counter()
    for sample in samples_of(profile, "moved_text"):
        names[tuple(user_part(sample)[:1])] += sample.values["samples"]
    total = sum(names.values())
    check(names[("",)] + names[()] >= 0.95 * total, f"leaves of {total} samples: {names.most_common(4)}")
    check_equal([name for name in names if "place" in name], [], "names of generated code")


@test
def wrong_ranges_are_refused():
    load()
    with Session() as session:
        for start, end, reserved, code in ((0, 0, 0, errno.EINVAL), (1, PAGE, 0, errno.EINVAL), (0, PAGE + 1, 0, errno.EINVAL),
                                           (PAGE, 0, 0, errno.EINVAL), (0, PAGE, 1, errno.EINVAL), (0, PAGE, 0, errno.ENOENT)):
            with fails_with(code, f"range {start} to {end}, reserved {reserved}"):
                fcntl.ioctl(session.fd, IOC_MOVED_TEXT, struct.pack("=QQQQII", 1, start, end, 0, 1, reserved))
