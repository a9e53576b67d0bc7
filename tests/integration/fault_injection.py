# SPDX-License-Identifier: GPL-2.0
"""Allocations that fail, where the kernel has fault injection."""

from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug")
ALLOCATIONS = ("failslab", "fail_page_alloc")


def can_fail():
    return (DEBUGFS / ALLOCATIONS[0]).exists()


def set_faults(kind, **settings):
    for name, value in settings.items():
        (DEBUGFS / kind / name.replace("_", "-")).write_text(str(value))


def read_fault(kind, name):
    return (DEBUGFS / kind / name).read_text().strip()


def spare_requests_of_9p():
    """No request of 9p, on which the guest has its files, is without memory.

    One that ends the use of a file id is then not sent, and the id is given again: the server, for whom it is
    in use, refuses that and all that follows, so that no file is opened any more (EINVAL).
    """
    symbols = sorted((int(line.split()[0], 16), line.split()[2])
                     for line in Path("/proc/kallsyms").read_text().splitlines())
    number = next(number for number, symbol in enumerate(symbols) if symbol[1] == "p9_client_rpc")
    for kind in ALLOCATIONS:
        set_faults(kind, reject_start=hex(symbols[number][0]), reject_end=hex(symbols[number + 1][0]))
