#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""stackbeat export: formats as their specifications say, tracks, times, gaps, and what is refused."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from profiles import START, make_timed_profile
from trace_formats import check, check_firefox, check_perfetto, check_speedscope, equal

STACKBEAT = sys.argv[1]
MS = 1_000_000
# Thread ID, thread, CPU, functions from the leaf, milliseconds since the start. A period is 10 ms.
SAMPLES = [
    (4711, "app", 0, ["inner>outer", "main"], 20),
    (4711, "app", 1, ["inner>outer", "main"], 30),
    (4711, "app", 1, ["[k]read", "main"], 42),
    (4711, "app", 0, ["main"], 500),
    (4712, "worker", 0, ["work", "loop"], 35),
    (4712, "worker", 0, ["work", "loop"], 45),
]
# Begin and end of what each thread and CPU shows, and the leaf.
SHOWN = {
    "app": [(10, 30, "inner"), (30, 42, "read"), (490, 500, "main")],
    "worker": [(25, 45, "work")],
    "CPU 0": [(10, 20, "inner"), (20, 45, "work"), (490, 500, "main")],
    "CPU 1": [(20, 30, "inner"), (30, 42, "read")],
}


def run(*arguments, status=0):
    done = subprocess.run([STACKBEAT, "export", *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    equal(done.returncode, status, done.stderr.decode())
    return done.stdout, done.stderr.decode()


def export(form, *arguments):
    return run("--format", form, "-o", "-", *arguments, "timed")[0]


def joined(spans):
    """Spans of milliseconds, with those that follow each other and have the same leaf as one."""
    result = []
    for begin, end, leaf in spans:
        if result and result[-1][1:] == (begin, leaf):
            begin = result.pop()[0]
        result.append((begin, end, leaf))
    return result


def speedscope_has_each_thread_and_cpu():
    document = json.loads(export("speedscope"))
    check_speedscope(document)
    tracks = {profile["name"].split(" (")[0].split(" of ")[0]: profile for profile in document["profiles"]}
    equal(set(tracks), set(SHOWN), "profiles")
    equal(document["profiles"][0]["name"], "app (pid 4711, tid 4711)")
    equal(document["activeProfileIndex"], 0)
    frames = document["shared"]["frames"]
    for name, profile in tracks.items():
        at, spans = 0, []
        for stack, weight in zip(profile["samples"], profile["weights"]):
            if stack:
                spans.append((at // MS, (at + weight) // MS, frames[stack[-1]]["name"]))
            at += weight
        equal(joined(spans), SHOWN[name], name)
        equal(profile["endValue"], 60_000 * MS, name)


def firefox_has_each_thread_and_cpu():
    document = json.loads(export("firefox"))
    check_firefox(document)
    strings = document["shared"]["stringArray"]
    equal(document["meta"]["startTime"], START * 1000)
    equal({(thread["name"], thread["pid"], thread["isMainThread"]) for thread in document["threads"]},
          {("app", "4711", True), ("worker", "4711", False), ("CPU 0", "CPUs", False), ("CPU 1", "CPUs", False)})
    for thread in document["threads"]:
        samples, spans, before = thread["samples"], [], 0
        for stack, time, cpu in zip(samples["stack"], samples["time"], samples["threadCPUDelta"]):
            equal(cpu, 0 if stack is None else round((time - before) * MS), thread["name"])
            if stack is not None:
                function = thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]
                spans.append((round(before), round(time), strings[thread["funcTable"]["name"][function]]))
            before = time
        equal(joined(spans), SHOWN[thread["name"]], thread["name"])


def perfetto_has_each_sample():
    found = [(sample["tid"], sample["thread"], sample["cpu"], [frame["name"] for frame in reversed(sample["stack"])],
              sample["time"] // MS - START * 1000) for sample in check_perfetto(export("perfetto"))]
    expected = [(tid, thread, cpu, [name.removeprefix("[k]") for frame in stack for name in frame.split(">")], time)
                for tid, thread, cpu, stack, time in SAMPLES]
    equal(sorted(found), sorted(expected))
    samples = check_perfetto(export("perfetto"))
    equal({sample["process"] for sample in samples}, {"app"})
    equal([sample["time"] // MS % 1000 for sample in samples if sample["mode"] == 1], [42])
    equal({frame["path"] for sample in samples for frame in sample["stack"]}, {"/[kernel.kallsyms]", "/[unknown]"})


def stacks_have_inlined_and_kernel_frames():
    document = json.loads(export("firefox"))
    strings = document["shared"]["stringArray"]
    thread = document["threads"][0]
    frames, stacks = thread["frameTable"], thread["stackTable"]
    names = []
    for stack in dict.fromkeys(thread["samples"]["stack"]):
        path = []
        while stack is not None:
            frame = stacks["frame"][stack]
            name = strings[thread["funcTable"]["name"][frames["func"][frame]]]
            path.append((name, frames["inlineDepth"][frame], document["meta"]["categories"][frames["category"][frame]]["name"]))
            stack = stacks["prefix"][stack]
        names.append(path)
    equal(names, [[], [("inner", 1, "Other"), ("outer", 0, "Other"), ("main", 0, "Other")],
                  [("read", 0, "Kernel"), ("main", 0, "Other")], [("main", 0, "Other")]])


def samples_are_chosen_as_in_report():
    document = json.loads(export("speedscope", "--focus", "worker|work"))
    check_speedscope(document)
    equal([profile["name"] for profile in document["profiles"]], ["worker of app (pid 4711, tid 4712)", "CPU 0"])
    document = json.loads(export("firefox", "--hide", "^inner$"))
    check_firefox(document)
    check("inner" not in document["shared"]["stringArray"], "a hidden function is there")


def files_without_timestamps():
    for form in ("firefox", "perfetto"):
        done = run("--format", form, "sums", status=1)
        equal(done[1], "stackbeat export: sums: its samples have no timestamps, which the format needs: use 'stackbeat record "
              "--timestamps'\n")
    check(not Path("stackbeat.firefox.json").exists(), "an output was left behind")
    document = json.loads(run("--format", "speedscope", "-o", "-", "sums")[0])
    check_speedscope(document)
    equal([sum(profile["weights"]) for profile in document["profiles"]], [60 * MS])


def parts_without_timestamps_are_left_out():
    Path("mixed").write_bytes(make_timed_profile(SAMPLES + [(4711, "app", 0, ["main"], None)]))
    output, messages = run("--format", "speedscope", "-o", "-", "mixed")
    check_speedscope(json.loads(output))
    equal(messages, "stackbeat export: samples without timestamps are left out: 10ms in all\n")


def outputs_have_names():
    for form, name in (("firefox", "firefox.json"), ("perfetto", "perfetto-trace"), ("speedscope", "speedscope.json")):
        output, messages = run("--format", form, "timed")
        check(output.decode().startswith(f"stackbeat.{name}: 6 samples"), output)
        equal(messages, "")
        Path(f"stackbeat.{name}").unlink()


def all_views_have_sums():
    for arguments in (["report"], ["report", "--tree"], ["report", "--folded"], ["report", "--csv"], ["flamegraph", "-o", "-"]):
        outputs = [subprocess.run([STACKBEAT, *arguments, name], check=True, stdout=subprocess.PIPE).stdout.replace(
            name.encode(), b"NAME") for name in ("timed", "sums")]
        equal(outputs[0], outputs[1], arguments)


def hostile_times_are_no_error():
    hostile = [(4711, "app", 0, ["main"], time) for time in (-1 << 62, 1 << 62, 0, (1 << 62) // MS)]
    Path("hostile").write_bytes(make_timed_profile(hostile))
    for form, check_format in (("speedscope", check_speedscope), ("firefox", check_firefox)):
        check_format(json.loads(run("--format", form, "-o", "-", "hostile")[0]))
    check_perfetto(run("--format", "perfetto", "-o", "-", "hostile")[0])


TESTS = [speedscope_has_each_thread_and_cpu, firefox_has_each_thread_and_cpu, perfetto_has_each_sample,
         stacks_have_inlined_and_kernel_frames, samples_are_chosen_as_in_report, files_without_timestamps,
         parts_without_timestamps_are_left_out, outputs_have_names, all_views_have_sums, hostile_times_are_no_error]


def main():
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("timed").write_bytes(make_timed_profile(SAMPLES))
        Path("sums").write_bytes(make_timed_profile(SAMPLES, timed=False))
        for test in TESTS:
            name = test.__name__.replace("_", " ")
            try:
                test()
                print(f"ok {name}")
            except Exception as error:  # pylint: disable=broad-except
                failed = True
                print(f"not ok {name}: {type(error).__name__}: {error}".replace("\n", " "))
    return failed


sys.exit(main())
