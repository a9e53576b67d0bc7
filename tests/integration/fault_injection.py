# SPDX-License-Identifier: GPL-2.0
"""Failing allocations, by the fault injection of the kernel."""

from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug")
ALLOCATIONS = ("failslab", "fail_page_alloc")


def has_fault_injection():
    return (DEBUGFS / ALLOCATIONS[0]).exists()


def set_faults(kind, **settings):
    for name, value in settings.items():
        (DEBUGFS / kind / name.replace("_", "-")).write_text(str(value))


def read_fault(kind, name):
    return (DEBUGFS / kind / name).read_text().strip()


def exclude_9p_requests():
    """Excludes requests of 9p, the guest's file system, from failing allocations.

    If the allocation for a clunk request fails, the request is not sent, but its fid is reused. The server
    still has this fid in use, and refuses all further opens with EINVAL.
    """
    symbols = sorted((int(line.split()[0], 16), line.split()[2])
                     for line in Path("/proc/kallsyms").read_text().splitlines())
    number = next(number for number, symbol in enumerate(symbols) if symbol[1] == "p9_client_rpc")
    for kind in ALLOCATIONS:
        set_faults(kind, reject_start=hex(symbols[number][0]), reject_end=hex(symbols[number + 1][0]))
