#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""compare.py pprof|text THEIRS OURS: compares the goroutines of a Go program's own profile with ours.

The goroutine that has written the profile, main.main, is left out. For pprof, the files are outputs of
`go tool pprof -raw`: all stacks must be equal, with functions, files, lines and labels, as often as they occur. For text, they
are profiles with debug=2: each goroutine must have the same state and the same frames; arguments of functions are left
out. Prints the first difference, and exits with 1 if there is one.
"""
import re
import sys
from collections import Counter

LOCATION = re.compile(r"^\s*(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*)$")
LABEL = re.compile(r"\S+:\[[^\]]*\]")
LINE = re.compile(r"^(\S+) (\S+:\d+):\d+(?: s=\d+)?(?:\((.*)\))?$")


def frame_of(line):
    """The function, by its linker name, with file and line."""
    match = LINE.match(line.strip())
    return f"{match[3] or match[1]} {match[2]}" if match else line.strip()


def raw_stacks(path):
    """The stacks in the output of pprof -raw, and how often each occurs."""
    part, samples, locations, number = None, [], {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip()
            if line in ("Samples:", "Locations", "Mappings"):
                part = line
            elif part == "Samples:" and (match := re.match(r"^\s*(\d+):((?: \d+)+)\s*$", line)):
                samples.append((int(match[1]), match[2].split(), []))
            elif part == "Samples:" and (labels := LABEL.findall(line)):
                samples[-1][2].extend(label for label in labels if not label.startswith("truncated:"))
            elif part == "Locations" and (match := LOCATION.match(line)):
                number = match[1]
                locations[number] = [frame_of(match[2])]
            elif part == "Locations" and line:
                locations[number].append(frame_of(line))
    stacks = Counter()
    for count, ids, labels in samples:
        stacks[tuple(sorted(labels) + [frame for i in ids for frame in locations[i]])] += count
    return stacks


def compare_raw(theirs, ours):
    theirs, ours = ({stack: count for stack, count in raw_stacks(path).items()
                     if not any(frame.startswith("main.main ") for frame in stack)} for path in (theirs, ours))
    if len(theirs) < 10:
        return f"only {len(theirs)} stacks"
    for stack in theirs.keys() | ours.keys():
        if theirs.get(stack, 0) != ours.get(stack, 0):
            return f"{theirs.get(stack, 0)} of the program, {ours.get(stack, 0)} of ours: {'; '.join(stack)}"
    return None


def text_goroutines(path):
    """The header and the lines of each goroutine, by its ID."""
    with open(path, encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    goroutines = {}
    for block in blocks:
        header, *lines = block.split("\n")
        number, state = re.match(r"^goroutine (\d+) (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[([^,\]]*)", header).groups()
        lines = [line if line.startswith("\t") else re.sub(r"\((?!\*)[^()]*\)$", "()", line) for line in lines]
        goroutines[number] = [state.replace(" (scan)", "")] + lines
    return goroutines


def compare_text(theirs, ours):
    theirs, ours = text_goroutines(theirs), text_goroutines(ours)
    for number in theirs.keys() | ours.keys():
        if "main.main()" not in theirs.get(number, []) and theirs.get(number) != ours.get(number):
            return f"goroutine {number}: {theirs.get(number)} of the program, {ours.get(number)} of ours"
    return None


def main():
    kind, theirs, ours = sys.argv[1:]
    difference = {"pprof": compare_raw, "text": compare_text}[kind](theirs, ours)
    if difference:
        print(difference)
    sys.exit(bool(difference))


main()
