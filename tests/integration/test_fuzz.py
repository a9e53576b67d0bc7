# SPDX-License-Identifier: GPL-2.0
"""Fuzzes the module's interface with random programs (tests/fuzz/guest) for FUZZ_SECONDS.

Half of the processes have only the rights that the parameter `unprivileged` gives to all users. The seed
is printed first; FUZZ_SEED sets it. If /out exists, the last programs are saved in /out/fuzz-programs.
"""

import os
import socket
from pathlib import Path

from harness import (check_equal, defer, load, module_range, open_sessions, start, test,
                     unload, wait_until, workload, WORKLOADS)
from stackbeat import Session
from test_module_unload import check_vmalloc_is_freed, slab_objects

SECONDS = int(os.environ.get("FUZZ_SECONDS", "5"))
SEED = int(os.environ.get("FUZZ_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
UNPRIVILEGED = Path("/sys/module/stackbeat/parameters/unprivileged")
DEVICE = Path("/dev/stackbeat")
OUT = Path("/out/fuzz-programs")
# The debug kernel delays freeing (KASAN quarantine); its kmemleak detects leaks.
DELAYS_FREEING = Path("/sys/kernel/debug/kmemleak").exists()


def only_sessions_left(number):
    """Whether only `number` sessions are left. Closes sockets, as that triggers the garbage collection of
    sockets that were sent through themselves, with the sessions in them."""
    for end in socket.socketpair():
        end.close()
    return len(open_sessions()) == number


def fuzz(seconds, seed, others=0):
    file = [OUT] if OUT.parent.is_dir() else []
    command = [WORKLOADS / "fuzz-guest", str(seconds), str(seed), *file]
    check_equal(os.spawnv(os.P_WAIT, command[0], [str(word) for word in command]), 0,
                f"fuzz-guest, seed {seed}: exit status")
    wait_until(lambda: only_sessions_left(others), "the end of all sessions")


@test
def random_programs_do_no_harm():
    # Writable by all, for the unprivileged processes.
    load()
    UNPRIVILEGED.write_text("1")
    defer(lambda: UNPRIVILEGED.exists() and UNPRIVILEGED.write_text("0"))
    DEVICE.chmod(0o666)
    defer(lambda: DEVICE.exists() and DEVICE.chmod(0o600))
    # Without another session, each first session sets up global state that the last one tears down, which
    # is slow. This run also fills caches of the kernel.
    fuzz(max(1, SECONDS // 10), SEED + 1000)
    before = slab_objects()
    with Session():
        fuzz(SECONDS, SEED, 1)

    def grown():
        after = slab_objects()
        return {cache: after[cache] - before.get(cache, 0) for cache in after
                if after[cache] - before.get(cache, 0) >= 1000}

    # The kernel frees some objects after a grace period.
    if not DELAYS_FREEING:
        wait_until(lambda: not grown(), f"caches to shrink again: {grown()}")
    with Session(rate=999, watermark=4096) as session:
        spinner = start(*workload("threads", 1))
        session.start()
        session.read_until(lambda samples: any(sample.pid == spinner.pid for sample in samples))
    code = module_range()
    unload()
    check_vmalloc_is_freed(code)


random_programs_do_no_harm.seconds = SECONDS * 2 + 300
