# SPDX-License-Identifier: GPL-2.0
"""Hostile frame pointers do no harm, and each stack reports why the unwinder stopped."""

import json
import os
import subprocess

from harness import (check, check_balance, check_within, Failure, Skip, start, test, WORKLOADS,
                     workload)
from stackbeat import STOP_NAMES, S, Session

SAMPLES = 100


def stop_names(mask):
    return {name for number, name in STOP_NAMES.items() if mask & 1 << number}


def start_hostile(mode, session):
    """Starts the program; returns (process, address range of the code in which it spins)."""
    process = start(*workload("hostile", mode))
    for line in process.stdout:
        message = json.loads(line)
        if "session" in message:
            session.netlink.session_set(message["session"], state=S.STATE_RUNNING)
        if "begin" in message:
            return process, range(message["begin"], message["end"])
    raise Failure(f"hostile {mode}: {process.stderr.read().strip()}")


def check_mode(mode, stops, frames):
    # With a small watermark a few records wake the reader.
    with Session(rate=2000, watermark=4096) as session:
        process, code = start_hostile(mode, session)
        session.set(pids=[process.pid])
        session.start()
        in_code = session.read_until(lambda samples: sum(
            sample.user[0] in code for sample in samples if sample.user) >= SAMPLES)
        session.stop()
        check_balance(session.stats())
        process.kill()
    in_code = [sample for sample in in_code if sample.user and sample.user[0] in code]
    check({STOP_NAMES[sample.user_stop] for sample in in_code} <= stop_names(stops),
          f"{mode}: stops {sorted({STOP_NAMES[sample.user_stop] for sample in in_code})}, "
          f"expected {sorted(stop_names(stops))}")
    for sample in in_code:
        check_within(len(sample.user), frames, f"{mode}: frames of a stack")


def define_test(mode, stops, frames):
    def hostile():
        if mode == "device" and not os.path.exists("/dev/hpet"):
            raise Skip("this machine has no /dev/hpet")
        check_mode(mode, stops, frames)
    hostile.__name__ = mode
    test(hostile)


for row in json.loads(subprocess.run([WORKLOADS / "hostile"], check=True, capture_output=True,
                                     text=True).stdout):
    define_test(**row)
