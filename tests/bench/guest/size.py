#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 2: bytes per sample, in the rings and in the file."""

import ctypes
import re
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import Bpftrace, Broken, load, Perf, Profiler, Results, settle, Stackbeat, unload, work
from stackbeat import mmap, munmap, PAGE, S, Session

CASES = {
    **{f"u{depth}": ("depth", "u", depth, 5_000_000) for depth in (8, 32, 100)},
    "k8": ("depth", "k", 8, 15_000),
    "stacks": ("stacks", 1000, 30, 6000, 1000),
    "processes": ("crowd", 200, 3000, 2000, 1),
}
RATE = 1000


class Heads:
    """Counts the bytes that were written to a session's rings, by their heads."""

    def __init__(self, session):
        self.rings = session.rings
        size = PAGE + S.META_RING_SIZE
        self.page = mmap(session.fd, size, offset=S.OFFSET_META + PAGE)
        self.unmap = lambda: munmap(self.page, size)

    def bytes(self):
        return (sum(ring.head for ring in self.rings),
                ctypes.c_uint64.from_address(self.page).value)


def through_rings(command):
    """Runs a session without a reader, in rings that hold all records."""
    load()
    with Session(rate=RATE, ring_size=64 << 20) as session:
        session.start()
        heads = Heads(session)
        work(Profiler(), *command)
        session.stop()
        samples, (sampled, metadata) = session.stats()["samples"], heads.bytes()
        lost = session.stats()["lost_full"]
        heads.unmap()
    unload()
    if lost:
        raise Broken(f"{lost} samples were lost")
    return {"samples": samples, "bytes": sampled + metadata, "metadata": metadata}


def in_file(profiler, command):
    settle()
    with profiler:
        work(profiler, *command)
        profiler.stop()
        samples = counted(profiler)
    path = getattr(profiler, "path", None)
    size = path.stat().st_size if path else len(profiler.said)
    return {"samples": samples, "bytes": size}


def counted(profiler):
    """The number of samples by the output of a profiler."""
    if isinstance(profiler, Bpftrace):
        return sum(int(count) for count in re.findall(r"\]: (\d+)$", profiler.said, re.M))
    if isinstance(profiler, Perf):
        return int(re.search(r"\((\d+) samples\)", profiler.said)[1])
    return int(re.search(r"(\d+) samples in", profiler.said)[1])


def main():
    results = Results("size")
    for case, command in CASES.items():
        results.add(case=case, profiler="stackbeat", where="rings", **through_rings(command))
        for profiler in (Stackbeat(RATE), Perf(RATE), Bpftrace(RATE)):
            results.add(case=case, profiler=profiler.name, where="file",
                        **in_file(profiler, command))


if __name__ == "__main__":
    main()
