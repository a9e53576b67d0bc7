# SPDX-License-Identifier: GPL-2.0
"""Unsymbolized profiles are symbolized offline: later, on another machine, from an archive."""

import os
import re
import shutil
from collections import Counter

import pprof
from harness import check, check_equal, is_kernel, long_test, PATIENCE, Recording, run, samples_of, temporary_directory, test, workload


def record_unsymbolized(directory):
    """Records a program that exists only in this guest, and system calls of dd: (program, profile)."""
    program = directory / "inlines"
    shutil.copy(workload("inlines")[0], program)
    reader = "dd if=/dev/zero of=/dev/null bs=4096 count=100000 2>/dev/null"
    recording = Recording("-F", 997, "--no-symbolize", "--", "sh", "-c",
                          f"{program} 6000; {reader}")
    recording.profile()
    path = directory / "unsymbolized.pb.gz"
    shutil.copy(recording.path, path)
    return program, path


def stackbeat(*arguments, status=0):
    """Runs a stackbeat command and returns its standard error. Checks that it leaves no temporary files."""
    unpacked = temporary_directory()
    if arguments[0] == "symbolize":
        arguments += ("--symbolize-timeout", 120 * PATIENCE)
    _, err = run("stackbeat", *arguments, status=status,
                 env={**os.environ, "TMPDIR": str(unpacked)})
    check_equal(os.listdir(unpacked), [], "temporary files")
    return err


def copy_to_host(path, name=None):
    if os.path.isdir("/out"):
        shutil.copy(path, f"/out/{name or path.name}")


@test
def archive_symbolizes_like_the_recording_machine():
    directory = temporary_directory()
    program, path = record_unsymbolized(directory)
    unsymbolized = pprof.Profile(path)
    check_equal([frame for sample in unsymbolized.samples for frame in sample.lines
                 if frame.function or frame.source], [], "symbolized frames")
    kernel = next(mapping for mapping in unsymbolized.mappings
                  if mapping.filename == "[kernel.kallsyms]")
    check(kernel.start >> 63 and kernel.build_id, f"mapping of the kernel: {kernel}")
    own = next(mapping for mapping in unsymbolized.mappings if mapping.filename == str(program))
    check(own.build_id, "the program has no build ID")

    at_once = directory / "at_once.pb.gz"
    stackbeat("symbolize", path, "-o", at_once)
    symbolized = pprof.Profile(at_once)
    stacks = Counter()
    for sample in samples_of(symbolized, "inlines"):
        stacks[tuple(frame.function for frame in sample.lines
                     if not is_kernel(frame))] += sample.values["samples"]
    check_equal(stacks.most_common(1)[0][0],
                ("innermost", "between", "outermost", "main", "_start"), "the stack")
    functions = {frame.function for sample in samples_of(symbolized, "dd") for frame in sample.lines}
    check("read_zero" in functions or "read_iter_zero" in functions,
          f"functions of dd: {sorted(functions)}")
    check_equal(symbolized.total("samples"), unsymbolized.total("samples"), "samples")
    check_equal(symbolized.total("cpu"), unsymbolized.total("cpu"), "ns")

    archive = directory / "unsymbolized.archive.tar.zst"
    said = stackbeat("archive", path)
    check(re.search(r"\d+ binaries and \d+ debug files, 0 missing", said), said)
    # For tests/interop/decoders/later, which symbolizes them on the host, without this program and kernel.
    for file in (path, at_once, archive, program):
        copy_to_host(file, f"late-{file.name}")

    shutil.move(program, directory / "moved")
    elsewhere = directory / "elsewhere.pb.gz"
    stackbeat("symbolize", path, "--binaries", archive, "-o", elsewhere)
    check(pprof.Profile(elsewhere).contents() == symbolized.contents(), "the archive gives other symbols")


@long_test
def file_with_another_build_id_is_refused():
    directory = temporary_directory()
    program, path = record_unsymbolized(directory)
    shutil.copy(workload("threads")[0], program)
    named = directory / "named.pb.gz"
    said = stackbeat("symbolize", path, "-o", named)
    check(re.search(rf"{re.escape(str(program))}.* has build ID \w+, not \w+: not taken", said), said)
    check(re.search(rf"{re.escape(str(program))} \(build ID \w+\): \d+ addresses still", said), said)
    profile = pprof.Profile(named)
    check_equal({frame.function for sample in samples_of(profile, "inlines")
                 for frame in sample.lines if frame.file == str(program)}, {""}, "functions of the program")
    # Once the binary is back, the missing symbols are added in place.
    shutil.copy(workload("inlines")[0], program)
    stackbeat("symbolize", "-q", named)
    stackbeat("symbolize", "-q", path)
    check(pprof.Profile(named).contents() == pprof.Profile(path).contents(), "other symbols in two steps")
    check("outermost" in {frame.function for sample in samples_of(pprof.Profile(path), "inlines")
                          for frame in sample.lines}, "the program has no symbols")


@long_test
def failed_commands_leave_no_files():
    directory = temporary_directory()
    (directory / "empty").touch()
    for arguments in (("symbolize", directory / "empty"), ("archive", directory / "empty"),
                      ("symbolize", directory / "missing"), ("archive", directory / "missing")):
        said = stackbeat(*arguments, status=1)
        check_equal(said.count("\n"), 1, f"lines of {said!r}")
    _, path = record_unsymbolized(directory)
    said = stackbeat("symbolize", path, "--binaries", directory / "empty", status=1)
    check_equal(said.count("\n"), 1, f"lines of {said!r}")
    said = stackbeat("symbolize", path, "--kallsyms", directory / "empty", status=1)
    check_equal(said.count("\n"), 1, f"lines of {said!r}")
    run("rm", path, directory / "inlines")
    check_equal(os.listdir(directory), ["empty"], "files")
