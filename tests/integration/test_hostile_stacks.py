# SPDX-License-Identifier: GPL-2.0
"""Hostile frame pointers harm nothing, and each stack says how it ended."""

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
    """Starts it and returns its process and the code in which it spins."""
    process = start(*workload("hostile", mode))
    for line in process.stdout:
        said = json.loads(line)
        if "session" in said:
            session.netlink.session_set(said["session"], state=S.STATE_RUNNING)
        if "begin" in said:
            return process, range(said["begin"], said["end"])
    raise Failure(f"hostile {mode}: {process.stderr.read().strip()}")


def check_mode(mode, ends, frames):
    # A small watermark: a few records wake the reader.
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
    check({STOP_NAMES[sample.user_stop] for sample in in_code} <= stop_names(ends),
          f"{mode}: ends {sorted({STOP_NAMES[sample.user_stop] for sample in in_code})}, "
          f"expected {sorted(stop_names(ends))}")
    for sample in in_code:
        check_within(len(sample.user), frames, f"{mode}: frames of a stack")


def define_test(mode, ends, frames):
    def hostile():
        if mode == "device" and not os.path.exists("/dev/hpet"):
            raise Skip("this machine has no /dev/hpet")
        check_mode(mode, ends, frames)
    hostile.__name__ = mode
    test(hostile)


for row in json.loads(subprocess.run([WORKLOADS / "hostile"], check=True, capture_output=True,
                                     text=True).stdout):
    define_test(**row)
