#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""forge.py PID ALLGLEN ALLGPTR SEED SECONDS COMMAND...: runs COMMAND while the stopped Go program PID has forged goroutines.

Overwrites the list of goroutines, goroutines and stacks with random and with plausible numbers, in many ways, and each
time restores what was there. ALLGLEN and ALLGPTR are the addresses of these variables of the runtime, in hex. COMMAND
must exit with 0, or with 1 and one line of explanation, within SECONDS. Prints the first violation, and exits with 1
if there is one.
"""
import random
import struct
import subprocess
import sys

G_SIZE = 320


def words_of(data):
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


class Memory:
    """The memory of a process, with all changes undone by restore()."""

    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.undo = []

    def read(self, address, size):
        self.file.seek(address)
        return self.file.read(size)

    def word(self, address):
        return words_of(self.read(address, 8))[0]

    def write(self, address, value):
        self.undo.append((address, self.read(address, 8)))
        self.file.seek(address)
        self.file.write(struct.pack("<Q", value % 2**64))

    def restore(self):
        for address, data in reversed(self.undo):
            self.file.seek(address)
            self.file.write(data)
        self.undo.clear()


def interesting(rng, known):
    """A number: random, small, at a limit, or a number that the program uses."""
    return rng.choice([rng.getrandbits(64), rng.getrandbits(8), 2**63, 2**64 - 1, 2**47 - 8, rng.choice(known),
                       rng.choice(known) + rng.choice([-8, 1, 8, 4096, 2**32])])


def forge(rng, memory, allglen, allgptr):
    """Changes something; returns what."""
    length, pointer = memory.word(allglen), memory.word(allgptr)
    goroutines = words_of(memory.read(pointer, 8 * length))
    known = goroutines + words_of(memory.read(rng.choice(goroutines), G_SIZE))
    what = rng.choice(["length", "pointer", "list", "fields", "stack", "all"])
    if what == "length":
        memory.write(allglen, interesting(rng, known + [2**22, 2**24, length + 1]))
    elif what == "pointer":
        memory.write(allgptr, interesting(rng, known))
    if what in ("list", "all"):
        for _ in range(rng.choice([1, 10])):
            memory.write(pointer + 8 * rng.randrange(length), interesting(rng, known))
    if what in ("fields", "all"):
        for _ in range(rng.choice([1, 10, 100])):
            memory.write(rng.choice(goroutines) + 8 * rng.randrange(G_SIZE // 8), interesting(rng, known))
    if what in ("stack", "all"):
        for goroutine in goroutines:
            low, high = words_of(memory.read(goroutine, 16))
            for _ in range(20 if high - low in range(1, 2**20) else 0):
                memory.write(high - 8 * rng.randrange(1, min(100, (high - low) // 8)), interesting(rng, known))
    return what


def main():
    pid, allglen, allgptr = int(sys.argv[1]), int(sys.argv[2], 16), int(sys.argv[3], 16)
    seed, seconds = int(sys.argv[4]), int(sys.argv[5])
    rng = random.Random(seed)
    memory = Memory(pid)
    for step in range(25):
        what = forge(rng, memory, allglen, allgptr)
        try:
            done = subprocess.run(sys.argv[6:], capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(print(f"step {step}: {what}: it hangs") or 1)
        finally:
            memory.restore()
        if done.returncode not in (0, 1) or done.stderr.count(b"\n") > (1 if done.returncode else 9):
            sys.exit(print(f"step {step}: {what}: status {done.returncode}: {done.stderr!r}") or 1)
    done = subprocess.run(sys.argv[6:], capture_output=True, timeout=seconds, check=False)
    if done.returncode:
        sys.exit(print(f"at the end: {done.stderr!r}") or 1)


main()
