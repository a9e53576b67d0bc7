#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""judge.py DIR: judges what tests/stress/longrun/guest.py has left in DIR, and draws it.

The load goes round: what is there at one place of a round is there at the same place of the next one. So the
least that is in use during a round must not grow from the second to the last, which is how a leak shows, and
no more memory that is in use for a while. Of the module that is said of its vmalloc memory, to the byte, and
of the files that it keeps open; its small allocations are not told apart from those of the kernel.

The reader keeps what the profile will tell. It is held against just that: the stacks of the profile, and
the processes.
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

# A CPU goes or comes, and the clock jumps, each some 11 s; half of the former change nothing.
TROUBLE_SECONDS = 100
# Of the beats of a round: the load is the same, but not what a shared host gives to it.
BEATS_LEAST = 1 / 4
# Of the rate, where an emulated CPU may be throttled for a while, and longer on a kernel that checks itself.
# Intervals that it came too late for count.
RATE_LEAST = 3 / 4

# What the reader keeps of a stack: struct stack (user/record/stack.h), rounded up, and its place in a table that is
# doubled when it is full; of a frame: its address and its place.
BYTES_A_STACK = 80 + 8 + 2 * 8
BYTES_A_FRAME = 8 + 4
# Of the latest stacks also the samples as they came, with their headers and the allocator's (user/record/sample_cache.c).
RECENT_STACKS = 8192
BYTES_A_RECENT = 112 + 16
BYTES_A_RECENT_FRAME = 8
# Of a process: struct space (user/process/address_space.c), its places in two tables, and what its mappings leave of holes;
# and of its program's file, which the load makes anew for each: struct object_file (user/process/mapped_files.c), path,
# build id, and places in two tables.
BYTES_A_SPACE = 256 + 560
# What does not grow: tables before they do, buffers, symbols of what was met, and what an allocator holds back.
READER_BYTES = 4 << 20

# By how much the least of a round may grow. Slab memory is mostly the kernel's own; of it a process may leave
# less than the smallest thing that the module allocates for one.
GROWTH = {"module": 0, "files": 16, "slab": 2 << 20}
SLAB_BYTES_A_SPACE = 32


def of_round(measured, number):
    return [row for row in measured["measurements"] if row["phase"] // measured["phases"] == number]


def check_flat(measured):
    """The last round against the second one: the first leaves what is kept for later."""
    early, late = (of_round(measured, number) for number in (1, measured["rounds"] - 1))
    spaces = late[-1]["address_spaces"] - early[0]["address_spaces"]
    for name, slack in GROWTH.items():
        if name == "slab":
            slack += SLAB_BYTES_A_SPACE * spaces
        before, after = (min(row[name] for row in rows) for rows in (early, late))
        print(f"# {name}: at least {before} in the second round, {after} in the last one, "
              f"which may be {before + slack}")
        harness.check(after <= before + slack, f"{name}: has grown from {before} to {after}")


def check_work(measured):
    """It was sampled from the first round to the last, at the rate, and through what is hard."""
    rounds = [of_round(measured, number) for number in range(measured["rounds"])]
    beats = [rows[-1]["ticks"] - rows[0]["ticks"] for rows in rounds]
    stats = measured["stats"]
    rate = (stats["ticks"] + stats["missed_ticks"]) / (stats["tick_time_ns"] / 10**9)
    print(f"# beats by round: {beats}, at {rate:.1f} Hz; {stats['throttled']} times throttled; {measured['flips']} "
          f"times a CPU went or came, {measured['jumps']} times the clock jumped")
    harness.check(min(beats) >= BEATS_LEAST * max(beats) > 0, f"rounds with too few beats: {beats}")
    harness.check(rate >= RATE_LEAST / measured["patience"] * measured["rate"],
                  f"beats at {rate:.1f} Hz, {measured['rate']} asked for")
    for trouble in ("flips", "jumps"):
        harness.check(measured[trouble] >= max(1, measured["seconds"] // TROUBLE_SECONDS),
                      f"only {measured[trouble]} {trouble}")


def explained(profile, spaces):
    """Bytes of the reader that such a profile explains."""
    recent = sorted((BYTES_A_RECENT + BYTES_A_RECENT_FRAME * len(sample.frames)
                     for sample in profile.samples), reverse=True)[:RECENT_STACKS]
    return (READER_BYTES + BYTES_A_SPACE * spaces + sum(recent) +
            sum(BYTES_A_STACK + BYTES_A_FRAME * len(sample.frames) for sample in profile.samples))


def check_reader(measured, bound):
    kept = min(row["reader"] for row in of_round(measured, measured["rounds"] - 1))
    print(f"# reader: at least {kept} bytes in the last round; its profile explains {bound}")
    harness.check(kept <= bound, f"the reader kept {kept} bytes, where its profile explains {bound}")


def check_losses(profile, stats, closing):
    """Each beat has an end that is counted, and what was lost is told."""
    harness.check_balance(stats)
    harness.check_equal(harness.comment(profile, "samples")[""], stats["samples"],
                        "samples in the profile")
    told = harness.comment(profile, "lost")
    harness.check_equal(told[""], sum(stats[name] for name in LOST), f"losses ({told}; {closing})")


def main(directory):
    measured = json.loads((directory / "measurements.json").read_text())
    profile = pprof.Profile(directory / "longrun.pb.gz")
    stats = measured["stats"]
    bound = explained(profile, stats["address_spaces"])
    (directory / "memory.svg").write_text(graph.memory(measured["measurements"], bound))
    check_work(measured)
    check_losses(profile, stats, measured["closing"])
    check_reader(measured, bound)
    check_flat(measured)
    print(f"ok longrun of {measured['seconds']} s at {measured['rate']} Hz, {stats['samples']} samples")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except harness.Failure as failure:
        sys.exit(f"not ok longrun: {failure}")
