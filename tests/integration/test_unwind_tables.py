# SPDX-License-Identifier: GPL-2.0
"""Stacks of code without frame pointers, by the unwind tables of its files."""

from collections import Counter

from harness import check, check_balance, check_equal, start, test, workload
from stackbeat import S, Session, STOP_NAMES
from unwind_tables import set_tables

SAMPLES = 200
DEPTH = 7


def sample_frameless(mode):
    process = start(*workload("frameless", mode, DEPTH))
    with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        spaces = set_tables(session, process)
        session.read()
        first = session.read_until(lambda samples: len(samples) >= SAMPLES)
        session.stop()
        spaces.drain()
        check_balance(session.stats())
        stats = session.stats()
    return [sample for sample in first], spaces, stats


def check_stacks(mode, expected, libc_frames):
    samples, spaces, stats = sample_frameless(mode)
    # The program, libc and ld.so, and the vDSO.
    check_equal(stats["unwind_tables"], 4, "unwind tables")
    good = 0
    for sample in samples:
        frames = spaces.symbolize(sample)
        own = [frame.function for frame in frames if frame.file.endswith("/frameless")]
        foreign = len(frames) - len(own)
        good += (own[1 if own and own[0] == "spin" else 0:] == expected and foreign == libc_frames
                 and sample.user_stop == S.STOP_OUTERMOST and sample.table_frames == len(frames) - 1)
    check(good == len(samples), f"{good} of {len(samples)} stacks are right; " + str(Counter(
        (STOP_NAMES[sample.user_stop], sample.table_frames,
         tuple(frame.function for frame in spaces.symbolize(sample))) for sample in samples)
        .most_common(5)))


@test
def calls():
    check_stacks("plain", ["work_rounds", "bottom"] + ["descend"] * DEPTH + ["main", "_start"], 2)


@test
def callback_of_libc():
    check_stacks("sort", ["work_rounds", "compare", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)


@test
def signal_handler():
    check_stacks("signal", ["work_rounds", "on_signal", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)


@test
def signal_handler_on_an_alternate_stack():
    check_stacks("altstack", ["work_rounds", "on_signal", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)
