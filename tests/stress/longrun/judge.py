#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""judge.py DIR: evaluates the measurements of tests/stress/longrun/guest.py in DIR, and draws a graph.

The load is cyclic: each round repeats the same phases. So the minimum of memory in use during a round must not
grow from the second round to the last one. That detects leaks, and ignores memory that is in use temporarily. For
the module, exact vmalloc bytes and open files are compared; its small allocations can't be distinguished from
the bytes of the kernel. Unwind tables are kept for programs that start again, so they may grow up to their limit.

The reader keeps the data of the profile in memory, and nothing of ended processes. Its memory is compared with the
number of samples, stacks and mappings in the profile.
"""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))

import graph  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position
import pprof  # pylint: disable=wrong-import-position

LOST = ("lost_full", "lost_bad_tail")

# A CPU goes offline or online, and the clock changes, about every 11 s; half of the former have no effect.
TROUBLE_SECONDS = 100
# Share of ticks of the largest round: the load is the same, but the CPU time from a shared host is not.
TICKS_LEAST = 1 / 4
# Share of the requested rate, as an emulated CPU may be throttled for a while, and longer on a debug kernel.
# Missed ticks count.
RATE_LEAST = 3 / 4

# Memory of the reader (user/pprof/profile.h), with the growth of tables by a half. Per sample of the profile: its
# values, its stack and labels, and slots in hash tables. Per different stack: its sequence, and a slot. Per frame of
# it: a location. Per mapping: the mapping of the profile, and the file (user/mappings/mapped_files.h).
BYTES_A_SAMPLE = 2 * (8 + 2 * 8 + 8 + 6 * 4 + 8 + 8)
BYTES_A_STACK = 2 * (8 + 8)
BYTES_A_FRAME = 2 * 4
BYTES_A_MAPPING = 2 * 40 + 560
# Stacks of the processes that live, or have just ended: struct stack (user/record/stack.h), and what it is recognized
# by (user/record/sample_cache.c); address spaces and their mappings.
LIVE_BYTES = 4 << 20
# Constant memory: initial tables, buffers, symbols, and free memory that the allocator keeps.
READER_BYTES = 4 << 20

# The module parameter unwind_memory, so small that tables of ended programs fill it in the first rounds. Each table of
# a page or more has a guard page.
TABLES_MIB = 3
GUARD_SHARE = 1

# By how much the minimum of a round may grow. Slab memory is mostly the kernel's; the allowed growth per address
# space is less than the smallest allocation of the module for one.
GROWTH = {"module": 0, "files": 16, "slab": 2 << 20}
SLAB_BYTES_A_SPACE = 32
# The reader holds the files of ended processes until their symbols are read, up to a limit
# (user/mappings/mapped_files.h). The kernel keeps a deleted file as long: its inodes in the overlay and in tmpfs, the
# open file, the entry of the directory and the nodes of its pages. (3.3 KiB with Linux 6.1.)
SLAB_BYTES_A_HELD_FILE = 4 << 10
HELD_FILES = 8192


def of_round(measured, number):
    return [row for row in measured["measurements"] if row["phase"] // measured["phases"] == number]


def check_flat(measured):
    """Compares the last round with the second one, as the first one fills caches."""
    early, late = (of_round(measured, number) for number in (1, measured["rounds"] - 1))
    spaces = late[-1]["address_spaces"] - early[0]["address_spaces"]
    held = max(row["held"] for row in late) - min(row["held"] for row in early)
    harness.check(held <= HELD_FILES, f"the reader holds {held} files more")
    for name, slack in GROWTH.items():
        if name == "slab":
            slack += SLAB_BYTES_A_SPACE * spaces + SLAB_BYTES_A_HELD_FILE * held
        before, after = (min(row[name] for row in rows) for rows in (early, late))
        print(f"# {name}: at least {before} in the second round, {after} in the last one, "
              f"allowed {before + slack}")
        harness.check(after <= before + slack, f"{name}: has grown from {before} to {after}")


def check_tables(measured):
    most = max(row["tables"] for row in measured["measurements"])
    print(f"# unwind tables: at most {most} bytes")
    harness.check(0 < most <= (TABLES_MIB << 20) * (1 + GUARD_SHARE), f"unwind tables of {most} bytes")


def check_work(measured):
    """Checks that all rounds were sampled at the rate, and CPUs and clocks have changed."""
    rounds = [of_round(measured, number) for number in range(measured["rounds"])]
    ticks = [rows[-1]["ticks"] - rows[0]["ticks"] for rows in rounds]
    stats = measured["stats"]
    rate = (stats["ticks"] + stats["missed_ticks"]) / (stats["tick_time_ns"] / 10**9)
    print(f"# ticks by round: {ticks}, at {rate:.1f} Hz; {stats['throttled']} times throttled; {measured['flips']} "
          f"times a CPU went offline or online, {measured['jumps']} times the clock changed")
    harness.check(min(ticks) >= TICKS_LEAST * max(ticks) > 0, f"rounds with too few ticks: {ticks}")
    harness.check(rate >= RATE_LEAST / measured["patience"] * measured["rate"],
                  f"ticks at {rate:.1f} Hz, requested {measured['rate']}")
    for trouble in ("flips", "jumps"):
        harness.check(measured[trouble] >= max(1, measured["seconds"] // TROUBLE_SECONDS),
                      f"only {measured[trouble]} {trouble}")


def expected_memory(profile):
    """Upper bound of the reader's memory in bytes, by its profile alone: ended processes are forgotten."""
    stacks = {tuple((frame.file, frame.address) for frame in sample.frames) for sample in profile.samples}
    return (READER_BYTES + LIVE_BYTES + BYTES_A_MAPPING * len(profile.mappings) +
            BYTES_A_SAMPLE * len(profile.samples) +
            sum(BYTES_A_STACK + BYTES_A_FRAME * len(stack) for stack in stacks))


def check_reader(measured, bound):
    kept = min(row["reader"] for row in of_round(measured, measured["rounds"] - 1))
    print(f"# reader: at least {kept} bytes in the last round; its profile explains {bound}")
    harness.check(kept <= bound, f"the reader kept {kept} bytes, its profile explains {bound}")


def check_losses(profile, stats, summary):
    """Checks that the outcome of each tick is counted, and the profile reports all losses."""
    harness.check_balance(stats)
    harness.check_equal(harness.comment(profile, "samples")[""], stats["samples"],
                        "samples in the profile")
    lost = harness.comment(profile, "lost")
    harness.check_equal(lost[""], sum(stats[name] for name in LOST), f"losses ({lost}; {summary})")


def main(directory):
    measured = json.loads((directory / "measurements.json").read_text())
    profile = pprof.Profile(directory / "longrun.pb.gz")
    stats = measured["stats"]
    bound = expected_memory(profile)
    (directory / "memory.svg").write_text(graph.memory(measured["measurements"], bound))
    check_work(measured)
    check_losses(profile, stats, measured["summary"])
    check_reader(measured, bound)
    check_flat(measured)
    check_tables(measured)
    print(f"ok longrun of {measured['seconds']} s at {measured['rate']} Hz, {stats['samples']} samples")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except harness.Failure as failure:
        sys.exit(f"not ok longrun: {failure}")
