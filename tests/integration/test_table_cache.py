# SPDX-License-Identifier: GPL-2.0
"""Unwind tables that are kept on disk: used by later recordings, each for its own file."""

import os
import re
import shutil
import threading
import time
from pathlib import Path

from harness import (check, check_equal, has_whole_stack, load, long_test, Recording, run, samples_of, temporary_directory,
                     test, user_part, WORKLOADS)

# A file is trusted when it has not changed for so long.
SETTLED_S = 3
ITERATIONS = 10**15


def program(name, source, build_id=None):
    """A copy of a program, in a directory of its own, which may get another build ID."""
    path = temporary_directory() / name
    shutil.copy(source, path)
    if build_id:
        run("objcopy", "--update-section", f".note.gnu.build-id={build_id}", path)
    return path


def build_id_of(path):
    """The path of a file with the note that has the build ID."""
    note = temporary_directory() / "note"
    run("objcopy", "--dump-section", f".note.gnu.build-id={note}", path, "/dev/null")
    return note


def settle(*paths):
    """Puts the guest's clock forward to when the files have not changed for long enough."""
    changed = max(os.stat(path).st_ctime for path in paths)
    time.clock_settime(time.CLOCK_REALTIME, max(time.time(), changed + SETTLED_S + 1))


def await_lines(recording, *beginnings):
    """Reads the messages of a recording until there is a line with each beginning. Returns the messages."""
    text, missing = "", set(beginnings)
    while missing:
        line = recording.process.stderr.readline()
        check(line, f"no line with {missing} in {text}")
        text += line
        missing = {beginning for beginning in missing if beginning not in line}
    return text


def tables(*arguments, command, comm, functions):
    """Records a program, which does not end by itself, and checks its stacks. Returns the compiled files, the files whose
    table is from the cache, and whether the program is among these."""
    recording = Recording("-F", 997, "-v", *arguments, command=command)
    session = recording.session()
    err = await_lines(recording, f"unwind table of {command[0]}:", "unwind table of [vdso]:")
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 100)
    recording.interrupt()
    profile = recording.profile()
    err += recording.err
    stacks = [user_part(sample) for sample in samples_of(profile, comm) if has_whole_stack(sample)]
    stacks = [stack for stack in stacks if functions[0] in stack]
    check(stacks, "no whole stacks")
    wrong = [stack for stack in stacks
             if stack[stack.index(functions[0]):][:len(functions) + 1] != [*functions, "main"]]
    check(not wrong, f"{len(wrong)} of {len(stacks)} stacks are wrong: {wrong[:3]}")
    text = "\n".join(profile.comments)
    counts = re.search(r"unwind tables compiled (\d+), unwind tables from the cache (\d+)", text)
    check(counts, f"no numbers of tables in {text}")
    files = re.findall(r"unwind table of (.*?): .* rows .*?(; from the cache)?$", err, re.M)
    compiled = {path for path, is_cached in files if not is_cached}
    cached = {path for path, is_cached in files if is_cached}
    check(int(counts[1]) >= len(compiled) and int(counts[2]) >= len(cached), f"{counts[0]}, {files}")
    check(str(command[0]) in compiled | cached, f"no line about {command[0]} in {err}")
    return compiled, cached, str(command[0]) in cached


def run_deep(cache, path=None, depth=5):
    functions = ["bottom"] + ["descend"] * depth
    return tables(*cache, command=[path or WORKLOADS / "deep", depth, ITERATIONS], comm="deep", functions=functions)


@test
def second_recording_compiles_nothing():
    load()
    directory = temporary_directory() / "cache"
    path = program("deep", WORKLOADS / "deep")
    settle(path)
    # The process is stackbeat's before it executes the program: some recordings have its files, too.
    first, cached, _ = run_deep(("--cache", directory), path)
    check({str(path), "[vdso]"} <= first and not cached, f"first: {first} compiled, {cached} cached")
    check_equal((directory.stat().st_mode & 0o777, directory.stat().st_uid), (0o700, 0), "mode and owner")
    compiled, cached, _ = run_deep(("--cache", directory), path)
    check({str(path), "[vdso]"} <= cached and not compiled & first, f"second: {compiled} compiled, {cached} cached")
    entries = sorted(directory.iterdir())
    compiled, cached, _ = run_deep(("--cache", directory, "--no-cache"), path)
    check({str(path), "[vdso]"} <= compiled and not cached, f"without a cache: {compiled} compiled, {cached} cached")
    check_equal(sorted(directory.iterdir()), entries, "files of the cache")
    # What is damaged is compiled again.
    for entry in entries:
        with entry.open("r+b") as file:
            file.seek(entry.stat().st_size // 2)
            file.write(b"damaged!")
    compiled, cached, _ = run_deep(("--cache", directory), path)
    check({str(path), "[vdso]"} <= compiled and not cached, f"damaged: {compiled} compiled, {cached} cached")
    compiled, cached, _ = run_deep(("--cache", directory), path)
    check({str(path), "[vdso]"} <= cached, f"repaired: {compiled} compiled, {cached} cached")


@test
def forged_build_id_gets_a_table_of_its_own():
    """A program claims the build ID of another one, whose table is in the cache; and the other way round."""
    load()
    cache = ("--cache", temporary_directory() / "cache")
    victim = program("deep", WORKLOADS / "deep")
    forger = program("frameless", WORKLOADS / "frameless", build_id_of(victim))
    check_equal(build_id_of(forger).read_bytes(), build_id_of(victim).read_bytes(), "build IDs")
    settle(victim, forger)

    def run_forger():
        return tables(*cache, command=[forger, "plain", 3], comm="frameless",
                      functions=["bottom"] + ["descend"] * 3)
    check(not run_deep(cache, victim)[2], "the first program's table is from the cache")
    check(not run_forger()[2], "the second program has got the table of the first one")
    check(run_deep(cache, victim)[2] and run_forger()[2], "a table was not kept")


@long_test
def changed_file_gets_another_table():
    """In place: it has the same inode, and the same size and build ID."""
    load()
    cache = ("--cache", temporary_directory() / "cache")
    path = program("deep", WORKLOADS / "deep")
    settle(path)
    check(not run_deep(cache, path)[2], "the table is from the cache")
    check(run_deep(cache, path)[2], "the table was not kept")
    contents = path.read_bytes()
    with path.open("r+b") as file:
        file.write(contents)
    # It changes as long as it is recorded, however long that takes, and not afterwards.
    recorded = threading.Event()

    def change():
        os.utime(path)
        while not recorded.wait(0.1):
            os.utime(path)
    changes = threading.Thread(target=change)
    changes.start()
    try:
        check(not run_deep(cache, path)[2], "the table of a file that has just changed is from the cache")
    finally:
        recorded.set()
        changes.join()
    settle(path)
    check(not run_deep(cache, path)[2], "a table was kept of a file that had just changed")
    check(run_deep(cache, path)[2], "the table was not kept")


@test
def tables_of_files_that_users_may_have_made_are_not_kept():
    load()
    directory = temporary_directory()
    run("mount", "-t", "tmpfs", "-o", "nosuid", "none", directory)
    path = Path(directory) / "deep"
    shutil.copy(WORKLOADS / "deep", path)
    cache = ("--cache", temporary_directory() / "cache")
    settle(path)
    for _ in range(2):
        check(not run_deep(cache, path)[2], "the table is from the cache")
    run("umount", "-l", directory)
