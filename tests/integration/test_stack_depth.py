# SPDX-License-Identifier: GPL-2.0
"""Stacks deeper than the limit are truncated there, and marked as truncated."""

from harness import (check, check_equal, comment, has_whole_stack, long_test, Recording, samples_of, test,
                     user_part, workload)
from test_table_cache import await_lines


def record_deep(depth, *arguments):
    command = workload("deep", depth, 10**15)
    recording = Recording("-F", 997, "-v", *arguments, command=command)
    session = recording.session()
    # Until its unwind table is there, however long that takes.
    err = await_lines(recording, f"unwind table of {command[0]}:")
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 200)
    recording.interrupt()
    profile = recording.profile()
    err += recording.err
    samples = samples_of(profile, "deep")
    stacks = [user_part(sample) for sample in samples if has_whole_stack(sample)]
    for copied in (user_part(sample) for sample in samples if not has_whole_stack(sample)):
        check_equal(copied[-10:], ["descend"] * 10, "the end of a stack that is longer than its copy")
    at_bottom = [stack for stack in stacks if stack and stack[0] == "bottom"]
    check(at_bottom, f"none of {len(stacks)} stacks is at the bottom")
    return at_bottom, comment(profile, "truncated"), err


def check_truncated(limit, *arguments):
    stacks, truncated, err = record_deep(2000, *arguments)
    for stack in stacks:
        check_equal(stack, ["bottom"] + ["descend"] * (limit - 1), "a truncated stack")
    check(truncated["max-depth"] >= len(stacks), f"{len(stacks)} stacks were truncated, counted {truncated}")
    check("max-depth" in err, f"no truncated stacks in the summary: {err}")


@test
def depth_2000_is_truncated_at_the_default_limit():
    check_truncated(255)


@long_test
def depth_2000_is_truncated_at_the_highest_limit():
    check_truncated(1023, "--max-depth", 1023)


@long_test
def depth_2000_is_truncated_at_the_lowest_limit():
    check_truncated(1, "--max-depth", 1)


@test
def depth_below_the_limit_is_not_truncated():
    # bottom, 250 times descend, main, _start: 253
    stacks, truncated, _ = record_deep(250)
    for stack in stacks:
        check_equal(stack, ["bottom"] + ["descend"] * 250 + ["main", "_start"], "a complete stack")
    check_equal(truncated["max-depth"], 0, "truncated stacks")
