# SPDX-License-Identifier: GPL-2.0
"""A sample in the kernel has a kernel part and a user part, joined."""

import re

from harness import check, check_equal, kernel_part, record, samples_of, test, user_part, workload

USER = ["do_pread", "read_loop", "main", "_start"]


def read_stacks(program):
    """The kernel parts, leaf first, of all samples of a program that reads /dev/zero."""
    profile, _, _ = record("-F", 997, command=workload(program, 30000))
    samples = [sample for sample in samples_of(profile, program) if kernel_part(sample)]
    reads = []
    for sample in samples:
        kernel = kernel_part(sample)
        check_equal([frame.function for frame in sample.frames], kernel + user_part(sample),
                    "frames of a stack: kernel frames first")
        if any(re.search("pread", name) for name in kernel):
            check_equal(user_part(sample), USER, f"user part below {kernel}")
            reads.append(kernel)
    check(reads, f"no sample of {len(samples)} is in pread")
    return reads


def check_path(reads, *patterns):
    """Checks that one stack matches all patterns, in this order from the leaf on."""
    for kernel in reads:
        names = iter(kernel)
        if all(any(re.fullmatch(pattern, name) for name in names) for pattern in patterns):
            return
    raise AssertionError(f"no stack matches {patterns}, stacks: {reads[:3]}")


@test
def stack_of_64_bit_pread_joins_user_and_kernel_frames():
    check_path(read_stacks("sysread"), "read_(iter_)?zero", "vfs_read", ".*sys_pread64.*",
               "do_syscall_64", "entry_SYSCALL_64.*")


@test
def stack_of_32_bit_pread_joins_user_and_kernel_frames():
    check_path(read_stacks("sysread32"), "read_(iter_)?zero", "vfs_read", ".*pread.*",
               "(do_int80.*|.*do_syscall_32.*|.*int80.*|.*INT80.*)")


@test
def excluded_parts_have_no_frames():
    profile, _, _ = record("-F", 997, "--user", command=workload("sysread", 30000))
    samples = samples_of(profile, "sysread")
    check(samples, "no samples with --user")
    check(not any(kernel_part(sample) for sample in samples), "--user has kernel frames")
    check(any(user_part(sample) == USER for sample in samples), "--user has no stack of pread")

    profile, _, _ = record("-F", 997, "--kernel", command=workload("sysread", 30000))
    samples = samples_of(profile, "sysread")
    check(samples, "no samples with --kernel")
    check(not any(user_part(sample) for sample in samples), "--kernel has user frames")
