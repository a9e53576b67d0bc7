#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""stackbeat report: on terminals of several widths, with and without a pager, and in pipes."""

import csv
import fcntl
import io
import json
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
from profiles import START, make_profile

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


def refused(message, *arguments, status=1):
    result = subprocess.run([STACKBEAT, "report", *arguments], capture_output=True, check=False)
    check(result.returncode == status and message in result.stderr and not result.stdout, result)


def samples_are_chosen_as_in_pprof():
    check(rows("--focus", "inner") == {"inner": ("20ms", "20ms"), "main": ("0", "20ms")}, rows("--focus", "inner"))
    check(rows("--ignore", "inn|none") == {LONG: ("40ms", "40ms"), "main": ("0", "40ms")}, rows("--ignore", "inn|none"))
    # The time of hidden frames is their caller's; a sample that has lost all frames is left out.
    check(rows("--hide", "std::") == {"main": ("40ms", "60ms"), "inner": ("20ms", "20ms")}, rows("--hide", "std::"))
    check(rows("--show", "^inner$") == {"inner": ("20ms", "20ms")}, rows("--show", "^inner$"))
    refused(b"no sample is left by --focus, --ignore, --hide and --show", "--focus", "main", "--ignore", "main")
    refused(b"--focus: no frame matches 'other'", "--focus", "other")
    result = subprocess.run([STACKBEAT, "report", "--ignore", "other"], check=True, capture_output=True)
    check(result.stderr == b"stackbeat report: --ignore: no frame matches 'other'\n" and LONG.encode() in result.stdout, result)
    check(in_pipe(["report", "--folded", "--focus", "inner"]) == "main;inner 20000000\n", "folded")
    svg = in_pipe(["flamegraph", "--hide", "std::", "-o", "-"])
    check("inner" in svg and "map" not in svg.split('id="data"')[1].split("</script>")[0], "flame graph")


def percentages_are_of_all_samples():
    def main_percent(*arguments):
        return [line for line in in_pipe(["report", *arguments]).splitlines() if line.endswith("  main")][0].split()[4]

    check(main_percent("--focus", "inner") == "33.33%", "not of the total")
    check(main_percent("--focus", "inner", "--percentage", "absolute") == "33.33%", "not of the total")
    check(main_percent("--focus", "inner", "--percentage", "relative") == "100%", "not of what is shown")
    check(main_percent("--focus", "inner", "--relative-percentages") == "100%", "not of what is shown")
    check(in_pipe(["report", "--tree", "--focus", "inner"]).splitlines()[2].split()[0] == "33.33%", "tree")
    # Both sides of a difference are scaled by their totals, not by what is shown.
    Path("more.pb.gz").write_bytes(make_profile([("app", [LONG, "main"], 4), ("app", ["inner", "main"], 8)]))
    table = in_pipe(["report", "--all", "--diff", "stackbeat.pb.gz", "--focus", "inner", "more.pb.gz"])
    check("+20ms 33.33%" in table, table)


def callers_and_callees_are_tables():
    table = in_pipe(["report", "--callees", "main"]).splitlines()
    check(table[1] == "callees of main: flat 0 (0%), cum 60ms (100%)", table)
    check([line.split(None, 3) for line in table[3:]] ==
          [["40ms", "66.67%", "66.67%", LONG], ["20ms", "33.33%", "33.33%", "inner"]], table)
    table = in_pipe(["report", "--callers", "find"]).splitlines()
    check(table[1].startswith(f"callers of {LONG}: flat 40ms (66.67%)") and table[3:] ==
          ["      40ms 66.67%   100%  main"], table)
    check("(no caller)" in in_pipe(["report", "--callers", "main"]), "no root")
    check("20ms 33.33%   100%  (itself)" in in_pipe(["report", "--callees", "inner"]), "no leaf")
    tree = in_pipe(["report", "--tree", "--callers", "inner"]).splitlines()
    check([line.split()[-1] for line in tree[2:5]] == ["all", "inner", "main"], tree)
    tree = in_pipe(["report", "--tree", "--callees", "main"]).splitlines()
    check([line.split()[0] for line in tree[2:4]] == ["100%", "100%"] and tree[3].endswith("  main"), tree)
    # With other names of frames, they are functions, too.
    check("(no caller)" in in_pipe(["report", "--sort", "dso", "--callers", "-"]), "files")
    refused(b"no function 'iner'; did you mean 'inner'?", "--callers", "iner")
    refused(b"no function 'STD::'; did you mean 'std::map<", "--tree", "--callees", "STD::")
    refused(b"no function 'x'\n", "--callees", "x")


HOSTILE = 'a"b,c\x1b[31m;\r\n=1+1\u202e\u00e9'


def document(*arguments):
    text = in_pipe(["report", "--json", *arguments])
    check("\x1b" not in text and "\u202e" not in text, text)
    return json.loads(text)


def tables_are_json():
    Path("hostile.pb.gz").write_bytes(make_profile([("<b>", [HOSTILE, "main"], 1), ("app", ["main"], 2)]))
    found = document("hostile.pb.gz")
    check({key: found[key] for key in found if key != "rows"} ==
          {"schema": "stackbeat-report/1", "kind": "functions", "sample_type": "cpu", "unit": "nanoseconds",
           "time_ns": START * 10**9, "duration_ns": 60 * 10**9, "total": 30_000_000, "comments": []}, found)
    check(found["rows"] == [
        {"group": None, "function": "main", "flat": 20_000_000, "cum": 30_000_000},
        {"group": None, "function": HOSTILE, "flat": 10_000_000, "cum": 10_000_000}], found)
    check([row["group"] for row in document("--group", "comm", "hostile.pb.gz")["rows"]] == ["app", "<b>", "<b>"], "groups")
    tree = document("--tree", "hostile.pb.gz")["rows"]
    check([(row["id"], row["parent"], row["kind"], row["function"], row["flat"], row["cum"]) for row in tree] ==
          [(0, None, "root", "all", 0, 30_000_000), (1, 0, "user", "main", 20_000_000, 30_000_000),
           (2, 1, "user", HOSTILE, 10_000_000, 10_000_000)], tree)
    calls = document("--callees", "main", "hostile.pb.gz")
    check(calls["kind"] == "callees" and calls["rows"] ==
          [{"function": "main", "caller": "main", "callee": None, "cum": 20_000_000},
           {"function": "main", "caller": "main", "callee": HOSTILE, "cum": 10_000_000}], calls)
    refused(b"no function 'x'\n", "--json", "--callers", "x", "hostile.pb.gz")
    result = subprocess.run([STACKBEAT, "report", "--json", "--folded"], stderr=subprocess.PIPE, check=False)
    check(result.returncode == 2, "--folded")


def programs_get_all_rows():
    Path("many.pb.gz").write_bytes(make_profile([("app", [f"f{i}"], 1000 - i) for i in range(300)]))
    check(len(document("many.pb.gz")["rows"]) == 300, "rows")
    check(len(document("--tree", "many.pb.gz")["rows"]) == 301, "rows of the tree")
    check(len(document("-n", "7", "many.pb.gz")["rows"]) == 7, "7 rows")
    check(len(document("--tree", "--min-percent", "0.39", "many.pb.gz")["rows"]) == 6, "limit")
    check(len(document("--percent-limit", "0.39", "many.pb.gz")["rows"]) == 5, "limit of functions")


def tables_are_csv():
    def table(*arguments):
        text = subprocess.run([STACKBEAT, "report", "--csv", *arguments], check=True, stdout=subprocess.PIPE).stdout
        check(text.endswith(b"\r\n") and text.count(b"\n") == text.count(b"\r\n") and b"\x1b" not in text, text)
        return list(csv.reader(io.StringIO(text.decode(), newline=""), strict=True))

    name = 'a"b,c\\x1b[31m;\\x0d\\x0a=1+1\\u202e\u00e9'
    check(table("hostile.pb.gz") == [["group", "function", "flat", "cum"], ["", "main", "20000000", "30000000"],
                                     ["", name, "10000000", "10000000"]], table("hostile.pb.gz"))
    found = table("--tree", "hostile.pb.gz")
    check(found[0] == ["id", "parent", "kind", "function", "flat", "cum"] and found[3][3] == name, found)
    found = table("--sort", "comm,sym", "--group", "pid", "hostile.pb.gz")
    check(found[0] == ["group", "comm", "sym", "flat", "cum"] and found[2][1:3] == ["<b>", name], found)
    check(document("--sort", "sym,comm", "hostile.pb.gz")["rows"][0] ==
          {"group": None, "sym": "main", "comm": "app", "flat": 20000000, "cum": 20000000}, "keys in JSON")
    for key in "group", "flat", "cum":
        for form in "--json", "--csv":
            refused(f"stackbeat report: --sort: --json and --csv have another column '{key}'\n".encode(), form, "--sort",
                    "comm," + key, "hostile.pb.gz", status=2)
    refused(b"--sort: no sample has the label 'flat'; ", "--sort", "flat", "hostile.pb.gz")
    refused(b"--sort: no sample has the label 'flat'; ", "--tree", "--json", "--sort", "flat", "hostile.pb.gz")
    check(table("--tree", "--sort", "comm", "hostile.pb.gz")[0][3] == "function", "a tree")
    check(table("--callers", "main", "hostile.pb.gz")[1:] == [["main", "", "main", "30000000"]], "callers")


def blocks(shares, count=100):
    """A recording of 16 blocks: {function: samples of 10 in each block}, and 10 more in odd blocks for all but `steady`."""
    return make_profile([("app", [name, "main"], share * (count + (30 if block % 2 and name != "steady" else 0)), block)
                         for name, share in shares.items() for block in range(16)])


def differences_are_no_noise():
    Path("old.pb.gz").write_bytes(blocks({"parse": 20, "steady": 10, "<b>": 70}))
    Path("same.pb.gz").write_bytes(blocks({"parse": 20, "steady": 10, "<b>": 70}, 101))
    Path("new.pb.gz").write_bytes(blocks({"parse": 26, "steady": 10, "<b>": 64}))
    table = in_pipe(["report", "--diff", "old.pb.gz", "same.pb.gz"]).splitlines()
    check(table[1] == "183200 samples in 16 blocks of time, compared with 181600 samples in 16 blocks of time;"
          " +- is the interval of 95%", table)
    check(table[2] == "no difference: 3 functions differ by no more than noise (--all shows them)", table)
    table = in_pipe(["report", "--diff", "old.pb.gz", "new.pb.gz"]).splitlines()
    check(table[2].split() == ["flat", "flat%", "+-", "cum", "cum%", "+-"], table)
    check({line.split()[-1] for line in table[3:5]} == {"parse", "<b>"} and len(table) == 5, table)
    check(len(in_pipe(["report", "--all", "--diff", "old.pb.gz", "new.pb.gz"]).splitlines()) >= 5, "--all")
    found = document("--diff", "old.pb.gz", "new.pb.gz")
    check((found["kind"], found["samples"], found["blocks"], found["base_samples"], found["base_blocks"]) ==
          ("diff", 181600, 16, 181600, 16), found)
    row = [row for row in found["rows"] if row["function"] == "parse"][0]
    check((row["base_cum"], row["cum"]) == (368_000_000_000, 478_400_000_000), row)
    check(0 < row["cum_interval"] < 10_000_000_000, row)
    check((row["cum_is_noise"], row["flat_is_noise"]) == (0, 0), row)
    check(subprocess.run([STACKBEAT, "report", "--csv", "--diff", "old.pb.gz", "new.pb.gz"], check=True, stdout=subprocess.PIPE)
          .stdout.startswith(b"function,flat,cum,base_flat,base_cum,flat_interval,cum_interval,flat_is_noise,cum_is_noise\r\n"),
          "columns")
    # Without blocks, there is no telling, and the report says so.
    table = in_pipe(["report", "--diff", "stackbeat.pb.gz", "stackbeat.pb.gz"]).splitlines()
    check(table[2].startswith("without blocks of time ('stackbeat record --blocks'), samples count as a 10th"), table)


def limits_have_a_status():
    def status(*limits, new="new.pb.gz", form=()):
        arguments = [word for limit in limits for word in ("--fail-if", limit)]
        result = subprocess.run([STACKBEAT, "report", *form, "--diff", "old.pb.gz", *arguments, new],
                                capture_output=True, check=False)
        return result.returncode, result.stderr.decode()

    code, message = status("parse>+5%")
    check(code == 3 and message.startswith("stackbeat report: parse>+5%: parse +6.08% of the total, +-"), message)
    check(status("parse>+9%") == (0, ""), status("parse>+9%"))
    check(status("^b>+5%") == (0, ""), "a function without a difference")
    check(status("<b><-5%")[0] == 3 and status("<b>>+5%")[0] == 0, "a decrease")
    check(status("other>+1%", "pa.se>+5%", form=["--json"])[0] == 3, "--json")
    check(status(".>+0%", ".<-0%", new="same.pb.gz") == (0, ""), "noise")
    for wrong in ("parse", "parse>5", ">+5%", "parse<+5%", "parse>-5%", "(>+5%", "parse>+x%", "parse>+nan%"):
        check(status(wrong)[0] == 2 and "--fail-if: " in status(wrong)[1], wrong)
    check(status("parse>+5%", form=["--tree"])[0] == 2, "--tree")
    result = subprocess.run([STACKBEAT, "report", "--fail-if", "a>+1%"], stderr=subprocess.PIPE, check=False)
    check(result.returncode == 2 and b"--fail-if needs --diff" in result.stderr, result)


def leaves_with_interrupts_off_are_marked():
    name = "_raw_spin_unlock_irqrestore"
    Path("irqs.pb.gz").write_bytes(make_profile([
        ("app", ["[k]" + name, "[k]try_to_wake_up", "main"], 3), ("app", ["[k]finish_task_switch.isra.0", "[k]schedule"], 2),
        ("app", ["[k]work", "[k]" + name, "main"], 1), ("app", ["finish_task_switch", "main"], 1)]))
    table = in_pipe(["report", "irqs.pb.gz"])
    check([line.split(None, 5)[5] for line in table.splitlines() if "[irqs off]" in line and not line.startswith("[")] ==
          [name + " [irqs off]", "finish_task_switch.isra.0 [irqs off]"], table)
    check(table.splitlines()[-1].startswith("[irqs off]: "), table)
    tree = in_pipe(["report", "--tree", "irqs.pb.gz"])
    check(tree.count(" [irqs off]\n") == 2 and "\n[irqs off]: " in tree, tree)
    check("[irqs off]" not in in_pipe(["report", "--raw-values", "irqs.pb.gz"]), "raw values")
    check("[irqs off]" not in in_pipe(["report"]), "a profile without them")
    # Their time is the callers'; what is no leaf stays, and so does a function of a program.
    check(sorted(in_pipe(["report", "--folded", "--fold-irqs-off", "irqs.pb.gz"]).splitlines()) ==
          [f"main;{name};work 10000000", "main;finish_task_switch 10000000", "main;try_to_wake_up 30000000",
           "schedule 20000000"], "folded")
    svg = in_pipe(["flamegraph", "--fold-irqs-off", "-o", "-", "irqs.pb.gz"])
    check("isra" not in svg.split('id="data"')[1].split("</script>")[0], "flame graph")


def groups_have_a_table_each():
    Path("two.pb.gz").write_bytes(make_profile([("app", ["f", "main"], 4), ("<b>", ["f", "main"], 2), ("<b>", ["g"], 3)]))
    table = in_pipe(["report", "--group", "comm", "-n", "1", "two.pb.gz"]).splitlines()
    check(table[2] == "comm <b>: 50ms (55.56%), 1 of 3 functions" and table[4].split()[-1] == "g", table)
    check(table[6] == "comm app: 40ms (44.44%), 1 of 2 functions" and table[8].split()[0] == "40ms", table)
    table = in_pipe(["report", "--group", "service", "-n", "1", "two.pb.gz"]).splitlines()
    check(table[2] == "service <b>: 50ms (55.56%), 1 of 3 functions", table)
    refused(b"--group: no sample has the label 'none'; there are: service, comm, pid\n", "--group", "none")


def rows_are_those_of_keys():
    check(rows("--sort", "comm") == {"app": ("60ms", "60ms")}, rows("--sort", "comm"))
    check(rows("--sort", "pid,comm") == {"4711             app": ("60ms", "60ms")}, rows("--sort", "pid,comm"))
    check(rows("--sort", "symbol") == rows(), rows("--sort", "symbol"))
    refused(b"--sort: no sample has the label 'none'; there are: dso, sym, line, service, comm, pid\n", "--sort", "pid,none")
    refused(b"--sort: leave 'overhead' out: flat% is in each row\n", "--sort", "overhead,sym")
    refused(b"--sort: no sample has the label 'cpu', which 'stackbeat record --labels' adds; ", "--sort", "cpu")
    refused(b"stackbeat report: --sort: 'comm' is given twice\n", "--sort", "comm,pid,comm", status=2)
    refused(b"--sort: no sample has the label 'com'; ", "--sort", "comm,com")
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
                     rows_are_those_of_keys, rows_have_a_limit, percentages_are_of_all_samples,
                     callers_and_callees_are_tables, groups_have_a_table_each, tables_are_json,
                     programs_get_all_rows, tables_are_csv, differences_are_no_noise, leaves_with_interrupts_off_are_marked, limits_have_a_status, symbolize_without_symbols_changes_nothing):
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
