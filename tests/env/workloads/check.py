#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""check.py DIR: verifies the documented properties of the workloads in DIR.

Each function of the programs that use bare.h begins with the prologue that the unwinder recognizes, returns
directly after restoring the frame pointer, and does not write this register in between; and `shares` does
the work that it prints.
"""

import json
import re
import subprocess
import sys

BARE = ("shares", "sysread", "sysread32", "deep", "forker", "cycle", "naps", "churn", "crowd", "maps",
        "vdso", "bomb", "vforker", "work_00", "work_39")
# The outermost functions of a stack have no frame.
OUTERMOST = ("_start", "start_thread")


def functions(path):
    """Yields (name, instructions) of each function of a program."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path],
                          check=True, capture_output=True, text=True).stdout
    for part in re.split(r"\n\n(?=[0-9a-f]+ <)", text):
        header = re.match(r"[0-9a-f]+ <([^>]+)>:", part)
        if header:
            lines = re.findall(r"^\s+[0-9a-f]+:\s+(.+?)\s*$", part, re.M)
            yield header[1], [" ".join(line.split()) for line in lines]


def frame_faults(name, code):
    """Yields the errors in the frame setup of a function."""
    width = "e" if any("%ebp" in line for line in code) else "r"
    bp, sp = f"%{width}bp", f"%{width}sp"
    if code[:2] != [f"push {bp}", f"mov {sp},{bp}"]:
        yield f"{name} begins with {code[:2]}"
    for before, line in zip(code, code[1:]):
        if line == "ret" and before not in (f"pop {bp}", "leave"):
            yield f"{name} returns after {before}"
    for line in code[2:]:
        operands = line.partition(" ")[2]
        if operands.endswith(bp) and line != f"pop {bp}" and not line.startswith(("cmp", "test")):
            yield f"{name} writes the frame pointer: {line}"


def check_frames(directory):
    for program in BARE:
        seen = 0
        for name, code in functions(f"{directory}/{program}"):
            if name.startswith(".") or name in OUTERMOST:
                continue
            seen += 1
            yield from (f"{program}: {fault}" for fault in frame_faults(name, code))
        if seen < 3:
            yield f"{program}: only {seen} functions were found"


def check_shares(directory):
    run = subprocess.run([f"{directory}/shares", "10000000", "1000"],
                         check=True, capture_output=True, text=True)
    truth = json.loads(run.stdout)
    expected = {"leaf_a": 5000000, "leaf_b": 3000000, "leaf_c": 2000000}
    if {leaf: truth[leaf] for leaf in expected} != expected:
        yield f"shares: {truth}, expected {expected}"


def main():
    faults = [*check_frames(sys.argv[1]), *check_shares(sys.argv[1])]
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
