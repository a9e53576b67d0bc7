# SPDX-License-Identifier: GPL-2.0
"""Symbolizes addresses of a file by stackbeat and by other symbolizers."""

import os
import re
import subprocess
import tempfile
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
PROGRAM = BUILD / "names/name_addresses"

# Unknown strings are "" and unknown numbers 0. Other symbolizers give no start lines, and only one name.
Frame = namedtuple("Frame", "function system_name file line start_line")
# Seconds of CPU time and of elapsed time; bytes.
Cost = namedtuple("Cost", "cpu clock memory")


class Failure(Exception):
    pass


def run(*command, **options):
    """The output of a command. If it fails, raises a Failure with its last message."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    words = [str(word) for word in command]
    process = subprocess.run(words, check=False, **options)
    if process.returncode:
        err = (process.stderr or "").strip().splitlines()
        raise Failure(f"{' '.join(words[:3])} failed: {err[-1] if err else process.returncode}")
    return process.stdout


def feed(command, addresses, got):
    """Writes addresses to a command and its output to the file `got`; returns (its error messages, its Cost)."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as wrong:
        given.write("".join(f"{address:#x}\n" for address in addresses))
        given.seek(0)
        start = os.times().elapsed
        with subprocess.Popen([str(word) for word in command], stdin=given, stdout=got,
                              stderr=wrong) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        clock = os.times().elapsed - start
        wrong.seek(0)
        problems = wrong.read()
    if process.returncode:
        raise Failure(f"{command[0]} failed with status {process.returncode}: {problems}")
    return problems, Cost(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss << 10)


def ask(command, addresses):
    """(output of a command for addresses, its error messages)"""
    with tempfile.TemporaryFile("w+") as got:
        problems, _ = feed(command, addresses, got)
        got.seek(0)
        return got.read(), problems


def stackbeat_command(path, directory="/nonexistent"):
    return [PROGRAM, path, directory]


def addr2line_command(path, demangle=False):
    return ["addr2line", "-a", "-f", "-i", *(["-C"] if demangle else []), "-e", path]


def llvm_command(path, demangle=False):
    return ["llvm-symbolizer", "-a", "--demangle" if demangle else "--no-demangle", "--inlines",
            "-e", path]


def go_command(path, go="go"):
    return [go, "tool", "addr2line", path]


def plain_path(path):
    """A path without differences between symbolizers."""
    return os.path.normpath(path) if path not in ("", "??", "?") else ""


def stackbeat_answers(text):
    """{address: [Frame, ...]}, innermost first."""
    found = {}
    for line in text.splitlines():
        if "\t" not in line:
            frames = found.setdefault(int(line, 16), [])
            frames.clear()
        else:
            function, system_name, file, number, start = line.split("\t")
            frames.append(Frame(function, system_name, plain_path(file), int(number), int(start)))
    return found


def peer_answers(text):
    """As stackbeat_answers(), for addr2line and llvm-symbolizer."""
    found, frames, lines = {}, None, iter(text.splitlines())
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            frames = found.setdefault(int(line, 16), [])
            frames.clear()
        elif line:
            place = re.sub(r" \(discriminator \d+\)$", "", next(lines))
            place = re.sub(r"(:\d+):\d+$", r"\1", place)
            path, _, number = place.rpartition(":")
            number = int(number) if number != "?" else 0
            name = line if line != "??" else ""
            if name or number:
                frames.append(Frame("", name, plain_path(path), number, 0))
    return found


def go_answers(text, addresses):
    """{address: (function, file, line)} of `go tool addr2line`: the physical function and the innermost line."""
    lines = text.splitlines()
    found = {}
    for address, name, place in zip(addresses, lines[::2], lines[1::2]):
        path, _, number = place.rpartition(":")
        found[address] = (name, plain_path(path), max(int(number), 0))
    return found


def ask_stackbeat(path, addresses, directory="/nonexistent"):
    """(answers, error messages)"""
    text, problems = ask(stackbeat_command(path, directory), addresses)
    return stackbeat_answers(text), re.sub(r"peak \d+ KiB\n", "", problems)


def ask_addr2line(path, addresses):
    return peer_answers(ask(addr2line_command(path), addresses)[0])


def ask_llvm(path, addresses):
    return peer_answers(ask(llvm_command(path), addresses)[0])


def ask_go(path, addresses, go):
    return go_answers(ask(go_command(path, go), addresses)[0], addresses)
