#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 6: a beat's time with COUNT busy CPUs. Emulated CPUs have no exact time: this is a hint."""

import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import PROGRAMS, Results, Stackbeat, Window


def main():
    count = os.cpu_count()
    results = Results(f"cpus-{count}")
    # More work than is waited for.
    # pylint: disable-next=consider-using-with
    busy = subprocess.Popen([PROGRAMS / "threads", str(count), str(10**9)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    busy.stdout.readline()
    busy.stdin.write(b"\n")
    busy.stdin.flush()
    with Stackbeat(options=("--budget", 50)) as profiler:
        window = Window(profiler)
        time.sleep(10)
        seen = window.end()
    busy.kill()
    busy.communicate()
    results.add(axis="CPUs", size=count, **seen)


if __name__ == "__main__":
    main()
