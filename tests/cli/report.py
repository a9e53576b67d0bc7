#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""stackbeat report: on terminals of several widths, with and without a pager, and in pipes."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from profiles import make_profile

STACKBEAT = sys.argv[1]

LONG = "std::map<std::string, std::vector<int> >::find(std::string const&)"
PROFILE = make_profile([("app", [LONG, "main"], 4), ("app", ["inner", "main"], 2)])


def check(condition, why):
    if not condition:
        raise AssertionError(why)


def on_terminal(arguments, columns, **environment):
    """What `stackbeat ARGUMENT...` writes to a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = {"PATH": os.environ["PATH"], "TERM": "xterm", "LC_ALL": "C.UTF-8", "PAGER": "", **environment}
    with subprocess.Popen([STACKBEAT, *arguments], stdin=slave, stdout=slave, stderr=slave, env=settings) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                output += os.read(master, 65536)
            except OSError:  # the last writer is gone
                break
    os.close(master)
    check(process.returncode == 0, f"exit status {process.returncode}: {output}")
    return output.decode().replace("\r\n", "\n")


def in_pipe(arguments, **environment):
    settings = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run([STACKBEAT, *arguments], env=settings, check=True, stdout=subprocess.PIPE).stdout.decode()


def names_fit_the_terminal():
    for columns in (80, 60):
        output = on_terminal(["report"], columns, NO_COLOR="1")
        lines = output.splitlines()
        check(all(len(line) <= columns for line in lines[1:]), f"{columns} columns: {output}")
        check("\033" not in output and LONG not in output, output)
    check("std::map<…>::find(…)" in on_terminal(["report"], 80), "no short name")
    check("…map<…>::find(…)" in on_terminal(["report"], 54), "no shorter name")
    check(LONG in on_terminal(["report"], 300), "no whole name")


def pipes_have_whole_names():
    output = in_pipe(["report"], TERM="xterm")
    check(LONG in output and "\033" not in output, output)
    check(output.startswith("cpu ") and output.splitlines()[1].split()[0] == "flat", output)


def terminals_have_colors():
    check("\033[31m" in on_terminal(["report"], 80), "no colors")
    check("\033" not in on_terminal(["report"], 80, TERM="dumb"), "colors of a dumb terminal")
    check("\033" not in on_terminal(["report"], 80, NO_COLOR="1"), "colors against NO_COLOR")


def pager_shows_the_text():
    output = on_terminal(["report"], 80, PAGER="sed s/^/paged:/", NO_COLOR="1")
    check(all(line.startswith("paged:") for line in output.splitlines()), output)
    output = on_terminal(["report"], 80, PAGER="false", STACKBEAT_PAGER="head -n 1", NO_COLOR="1")
    check(len(output.splitlines()) == 1, output)
    # A pager that is not there, and none.
    for pager in ("/no/such", "cat", ""):
        output = on_terminal(["report"], 80, PAGER=pager)
        check("find(…)" in output, output)


def trees_are_ascii_without_utf8():
    check("├─ " in in_pipe(["report", "--tree"]), "no branches")
    output = in_pipe(["report", "--tree"], LC_ALL="C")
    check("|- " in output and output.isascii(), output)
    output = on_terminal(["report", "--tree"], 60, LC_ALL="C")
    check("|- " in output and output.isascii(), output)


def rows(*arguments):
    """{name: (flat, cum)} of the table."""
    table = in_pipe(["report", *arguments]).splitlines()[2:]
    return {line.split(None, 5)[5]: (line.split()[0], line.split()[3]) for line in table}


def samples_are_chosen_as_in_pprof():
    check(rows("--focus", "inner") == {"inner": ("20ms", "20ms"), "main": ("0", "20ms")}, rows("--focus", "inner"))
    check(rows("--ignore", "inn|none") == {LONG: ("40ms", "40ms"), "main": ("0", "40ms")}, rows("--ignore", "inn|none"))
    # The time of hidden frames is their caller's; a sample that has lost all frames is left out.
    check(rows("--hide", "std::") == {"main": ("40ms", "60ms"), "inner": ("20ms", "20ms")}, rows("--hide", "std::"))
    check(rows("--show", "^inner$") == {"inner": ("20ms", "20ms")}, rows("--show", "^inner$"))
    check(rows("--focus", "main", "--ignore", "main") == {}, rows("--focus", "main", "--ignore", "main"))
    check(in_pipe(["report", "--folded", "--focus", "inner"]) == "main;inner 20000000\n", "folded")
    svg = in_pipe(["flamegraph", "--hide", "std::", "-o", "-"])
    check("inner" in svg and "map" not in svg.split('id="data"')[1].split("</script>")[0], "flame graph")


def rows_are_those_of_keys():
    check(rows("--sort", "comm") == {"app": ("60ms", "60ms")}, rows("--sort", "comm"))
    check(rows("--sort", "pid,comm") == {"4711             app": ("60ms", "60ms")}, rows("--sort", "pid,comm"))
    check(rows("--sort", "symbol") == rows(), rows("--sort", "symbol"))
    refused = subprocess.run([STACKBEAT, "report", "--sort", "pid,none"], stderr=subprocess.PIPE)
    check((refused.returncode, refused.stderr) == (1, b"stackbeat report: --sort: no sample has the label 'none'\n"), refused)
    found = rows("--sort", "comm,sym")
    check(found == {"app              " + name: value for name, value in rows().items()}, found)
    check(rows("--sort", "dso") == {"-": ("60ms", "60ms")}, rows("--sort", "dso"))
    check(rows("--sort", "service") == {"app": ("60ms", "60ms")}, rows("--sort", "service"))


def rows_have_a_limit():
    check(set(rows("--percent-limit", "50")) == {LONG, "main"}, rows("--percent-limit", "50"))
    check(set(rows("--percent-limit", "100")) == {"main"}, rows("--percent-limit", "100"))


def files_are_added_up():
    single, double = in_pipe(["report"]), in_pipe(["report", "stackbeat.pb.gz", "stackbeat.pb.gz"])
    check(single.splitlines()[0].split()[1] == "60ms", single)
    check(double.splitlines()[0].split()[1] == "120ms", double)


def symbolize_without_symbols_changes_nothing():
    before = Path("stackbeat.pb.gz").stat(), Path("stackbeat.pb.gz").read_bytes()
    result = subprocess.run([STACKBEAT, "symbolize", "stackbeat.pb.gz"], check=True, stderr=subprocess.PIPE)
    check(b"symbolized none of " in result.stderr and b"stackbeat.pb.gz is unchanged\n" in result.stderr, result.stderr)
    after = Path("stackbeat.pb.gz").stat(), Path("stackbeat.pb.gz").read_bytes()
    check(before[0].st_ino == after[0].st_ino and before[1] == after[1], "the file was written")


def main():
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("stackbeat.pb.gz").write_bytes(PROFILE)
        for test in (names_fit_the_terminal, pipes_have_whole_names, terminals_have_colors, pager_shows_the_text,
                     trees_are_ascii_without_utf8, files_are_added_up, samples_are_chosen_as_in_pprof,
                     rows_are_those_of_keys, rows_have_a_limit, symbolize_without_symbols_changes_nothing):
            name = test.__name__.replace("_", " ")
            try:
                test()
                print("ok", name)
            except AssertionError as error:
                print(f"# {error}".replace("\n", "\n# "))
                print("not ok", name)
                failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
