# SPDX-License-Identifier: GPL-2.0
"""Samples of a program match the known shares and stacks of its three functions."""

from harness import (binomial_bounds, check, check_equal, check_within, exact_test, keep_profile, kernel_part,
                     last_json, Recording, samples_of, user_part, workload)

# Root first, as tests/env/workloads/shares.c has it.
PATHS = {
    "leaf_a": ["_start", "main", *(f"a_{n:02}" for n in range(1, 4)), "leaf_a"],
    "leaf_b": ["_start", "main", *(f"b_{n:02}" for n in range(1, 13)), "leaf_b"],
    "leaf_c": ["_start", "main", *(f"c_{n:02}" for n in range(1, 41)), "leaf_c"],
}

# The stack while the program prints its own measurements.
PRINTING = ["_start", "main", "print_number"]


def is_complete(stack):
    """Whether a stack, root first, is a path from the root of the program's call tree."""
    if stack == PRINTING:
        return True
    if stack[-1] in PATHS:
        return stack == PATHS[stack[-1]]
    return any(stack == path[:len(stack)] for path in PATHS.values())


def record_shares(rate, *arguments):
    """(samples with a user part, the measurements that the program prints)."""
    recording = Recording("-F", rate, command=workload("shares", *arguments))
    profile = recording.profile()
    keep_profile(recording, "shares")
    # Samples within execve() have the registers of the old program.
    samples = [sample for sample in samples_of(profile, "shares")
               if user_part(sample) and not any("execve" in name for name in kernel_part(sample))]
    stacks = {tuple(reversed(user_part(sample))): sample.values["samples"] for sample in samples}
    broken = [stack for stack in stacks if not is_complete(list(stack))]
    check(not broken, f"{len(broken)} of {len(stacks)} stacks are incomplete: {broken[:3]}")
    return samples, last_json(recording.out)


@exact_test
def shares_are_within_binomial_bounds():
    samples, truth = record_shares(1999, 500000000)
    total = sum(sample.values["samples"] for sample in samples)
    in_leaves = 0
    for leaf, path in PATHS.items():
        hits = sum(sample.values["samples"] for sample in samples
                   if user_part(sample) == path[::-1])
        share = truth[leaf] / (truth["leaf_a"] + truth["leaf_b"] + truth["leaf_c"])
        check_within(hits, binomial_bounds(total, share), f"samples of {leaf} of {total}")
        in_leaves += hits
    # About 200 instructions lie between slices of a million iterations.
    check(total - in_leaves <= total // 500,
          f"{total - in_leaves} of {total} samples are not in a leaf")
    check(total >= 1900, f"only {total} samples in a second at 1999 Hz")


@exact_test
def stacks_are_complete_at_each_instruction_of_a_call():
    """Slices of 10 iterations: most samples are in prologues, calls and returns."""
    samples, _ = record_shares(19997, 20000000, 5)
    functions = {user_part(sample)[0] for sample in samples}
    # _start and print_number run only a few instructions, once.
    check_equal(functions - {"print_number"} | {"_start"}, {name for path in PATHS.values() for name in path},
                "interrupted functions")
