# SPDX-License-Identifier: GPL-2.0
"""Frames, including inlined ones, have functions, source files and lines, in several languages."""

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import elf_file
from harness import (check, check_equal, defer, is_kernel, long_test, record, Recording, ROOT, run, samples_of, Skip,
                     SLOWDOWN, start, temporary_directory, test, user_part, wait_until, workload)

SOURCES = ROOT / "tests/env/workloads"


def marked_lines(path, mark):
    """The numbers of the lines with `mark` in a comment."""
    return {number for number, line in enumerate(path.read_text().split("\n"), 1)
            if re.search(rf"/[*/] {mark}", line)}


def start_line(path, function):
    return next(number for number, line in enumerate(path.read_text().split("\n"), 1)
                if re.search(rf"\b{function}\(.*\)$|^func {re.escape(function)}\(", line))


@long_test
def inlined_functions_have_line_numbers():
    profile, _, _ = record("-F", 997, command=workload("inlines", 20000))
    source = SOURCES / "inlines.c"
    seen = Counter()
    for sample in samples_of(profile, "inlines"):
        lines = [frame for frame in sample.lines if not is_kernel(frame)]
        names = [frame.function for frame in lines]
        if names[:1] != ["innermost"]:
            seen["other"] += sample.values["samples"]
            continue
        seen["innermost"] += sample.values["samples"]
        check_equal(names, ["innermost", "between", "outermost", "main", "_start"], "the stack")
        check_equal([frame.source for frame in lines[:4]], [str(source)] * 4, "the files")
        for frame, mark in zip(lines[:4], ("in the loop", "innermost is called",
                                           "between is called", "outermost is called")):
            check(frame.line in marked_lines(source, mark),
                  f"{frame.function} at line {frame.line}")
            check_equal(frame.start_line, start_line(source, frame.function),
                        f"the first line of {frame.function}")
    check(seen["innermost"] > 10 * seen["other"], f"leaf functions: {dict(seen)}")


@test
def go_programs_have_line_numbers():
    profile, _, err = record("-F", 997, command=workload("gowork", 30))
    source = SOURCES / "gowork.go"
    text = source.read_text().split("\n")
    with_line = without = 0
    for sample in samples_of(profile, "gowork"):
        for frame in sample.lines:
            if not frame.function.startswith("main."):
                continue
            if not frame.line:
                without += sample.values["samples"]
                continue
            with_line += sample.values["samples"]
            check_equal(frame.source, str(source), f"the file of {frame.function}")
            check(text[frame.line - 1].strip(), f"{frame.function} at line {frame.line}")
    # At the first instruction of a goroutine the pseudo caller is before the function, without a line.
    check(with_line > 50 * without, f"{with_line} frames with a line, {without} without: {err}")


@test
def stripped_binaries_are_symbolized_by_debug_files():
    directory = temporary_directory()
    program = directory / "inlines"
    shutil.copy(workload("inlines")[0], program)
    run("objcopy", "--only-keep-debug", program, directory / "inlines.debug")
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={directory / 'inlines.debug'}", program)
    profile, _, _ = record("-F", 997, command=[program, 5000])
    stacks = [user_part(sample) for sample in samples_of(profile, "inlines")]
    check(["outermost", "main", "_start"] in stacks, f"stacks: {stacks[:3]}")
    lines = {frame.function for sample in samples_of(profile, "inlines") for frame in sample.lines}
    check("innermost" in lines, f"functions: {lines}")


@long_test
def nodejs_jit_code_is_symbolized():
    if not shutil.which("node"):
        raise Skip("node is not installed")
    script = Path(temporary_directory()) / "spin.js"
    script.write_text("function hotFunction(n) { let s = 0; "
                      "for (let i = 0; i < n; i++) s = (s + i * i) % 1000003; return s; }\n"
                      "let sum = 0; for (let i = 0; i < 500; i++) sum += hotFunction(100000);\n")
    profile, _, _ = record("-F", 499, command=["node", "--perf-basic-prof", script])
    generated = Counter()
    for sample in samples_of(profile, "node"):
        for frame in sample.frames:
            if frame.file == "[anon]":
                generated[frame.function] += sample.values["samples"]
    hot = sum(count for name, count in generated.items() if re.search(r"\bhotFunction\b", name))
    check(hot > 20, f"functions of generated code: {generated.most_common(8)}")
    check(generated[""] <= sum(generated.values()) / 10, f"{generated['']} of {sum(generated.values())} have no symbol")


# See jitmap.c.
JIT_FUNCTIONS = ("int jit.Hot.spin(int, a<b>)", "Lcom/example/Other;::get")


def jit_leaves(memory, when, calls, rate):
    profile, _, _ = record("-F", rate, command=workload("jitmap", memory, when, calls))
    leaves = Counter()
    for sample in samples_of(profile, "jitmap"):
        user = user_part(sample)
        if user:
            leaves[user[0] if user[1:3] == ["call", "main"] else f"{user[0]}, not called by call, main"] += \
                sample.values["samples"]
    return leaves


def check_jit_functions(memory, when):
    leaves = jit_leaves(memory, when, 400, 499)
    for name in JIT_FUNCTIONS:
        check(leaves[name] > sum(leaves.values()) / 3, f"{memory}, map written at {when}: {leaves.most_common(6)}")


@test
def perf_map_of_the_exit_names_the_whole_run():
    check_jit_functions("anon", "exit")


@test
def perf_map_of_a_process_that_ends_at_once_is_read():
    """Before the reader looks for its map, which is in the reader's /tmp."""
    leaves = jit_leaves("anon", "exit", 10, 4000)
    check(leaves[""] == 0 and all(leaves[name] for name in JIT_FUNCTIONS), f"leaves: {leaves.most_common(6)}")


@test
def perf_map_names_code_in_memory_files():
    check_jit_functions("memfd", "start")


@test
def callers_of_trampolines_without_frame_pointers_are_found():
    process = start(*workload("jitmap", "calls", "start", 1 << 30))
    recording = Recording("-F", 499, "-p", process.pid)
    session = recording.session()

    def by_tables():
        stats = recording.stats(session)
        return stats["samples"] - stats["stack_copies"] - stats["stack_copies_lost"]

    # Copies of stacks do not have the code.
    wait_until(lambda: by_tables() >= 300, "samples by unwind tables")
    recording.interrupt()
    stacks = Counter()
    for sample in samples_of(recording.profile(), "jitmap"):
        stacks[tuple(user_part(sample)[:4])] += sample.values["samples"]
    found = sum(stacks["called", name, "call", "main"] for name in JIT_FUNCTIONS)
    check(found >= 200, f"stacks: {stacks.most_common(4)}")


@long_test
def perf_maps_of_any_time_are_read():
    check_jit_functions("anon", "start")
    check_jit_functions("anon", "again")
    check_jit_functions("deleted", "start")


@test
def kernel_modules_have_line_numbers():
    build_id = Path("/sys/module/stackbeat/notes/.note.gnu.build-id").read_bytes()[16:].hex()
    module = ROOT / f"build/kmod/{os.uname().release}/stackbeat.ko"
    if elf_file.build_id(module) != build_id:
        raise Skip(f"the loaded module is not {module}")
    # The debug kernels and their modules may be built without debug info.
    if SLOWDOWN > 1 and b".debug_line\0" not in module.read_bytes():
        raise Skip("the module is built without line numbers")
    debug = Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    debug.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(module, debug)
    defer(debug.unlink)
    # Answers that are not decoded leave more of the time to the module.
    script = ("import stackbeat\nwith stackbeat.Netlink() as n:\n"
              "  while True: n.request(stackbeat.S.CMD_SESSION_GET, dump=True)")
    recording = Recording("-F", 997, command=[
        "env", f"PYTHONPATH={ROOT / 'tests/integration'}", "python3", "-c", script])
    recording.wait_for(recording.session(), "samples", 2500)
    recording.interrupt()
    profile = recording.profile()
    lines = Counter()
    for sample in profile.samples:
        for frame in sample.lines:
            if frame.file == "[stackbeat]" and frame.line:
                lines[frame] += sample.values["samples"]
    for frame in lines:
        path = Path(frame.source)
        if path.parts[-2:-1] == ("kmod",):
            begin = (ROOT / "kmod" / path.name).read_text().split("\n")[frame.start_line - 1]
            check(f"{frame.function}(" in begin and frame.line >= frame.start_line,
                  f"line {frame.line} of {frame.function}, which begins with {begin}")
    check(sum(lines.values()) > 50, f"lines in {lines}")
    check(any(frame.function.startswith("sb_netlink_") for frame in lines), f"lines in {lines}")
