# SPDX-License-Identifier: GPL-2.0
"""Symbols that are kept on disk: later recordings read them from there, each file's from its own files only."""

import re

from harness import check, check_equal, exact_test, load, Recording, samples_of, temporary_directory, test, WORKLOADS
from test_table_cache import await_lines, program, settle


def record(path, *arguments):
    """Records a program with a cache, or without. Returns its functions, the names by file and address of all samples, and the CPU time
    for symbols in s."""
    recording = Recording("-F", 997, "-v", *arguments, command=[path])
    session = recording.session()
    # What is read of a file is kept once the module has compared the file with the mapped one.
    err = await_lines(recording, f"unwind table of {path}:")
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 100)
    recording.interrupt()
    profile = recording.profile()
    err += recording.err
    frames = [frame for sample in samples_of(profile, "program") for frame in sample.frames]
    functions = {frame.function for frame in frames if frame.file == str(path)}
    names = {(frame.file, frame.address): frame.function for frame in frames}
    symbols_s = re.search(r"symbols ([\d.]+) s", err)
    check(symbols_s, f"no CPU time of symbols in {err}")
    return functions, names, float(symbols_s[1])


def entries(directory):
    """The kept symbols, each with what changes when it is written again."""
    return {path.name: path.stat().st_ino for path in directory.iterdir() if path.name.endswith(("-symbols", "-kernel"))}


def check_names(actual, expected):
    common = actual.keys() & expected.keys()
    check(common, f"no address of {len(actual)} and {len(expected)} in both profiles")
    wrong = [(at, actual[at], expected[at]) for at in common if actual[at] != expected[at]]
    check(not wrong, f"{len(wrong)} of {len(common)} names are others: {wrong[:5]}")


@exact_test
def second_recording_reads_few_symbols():
    load()
    directory = temporary_directory() / "cache"
    path = program("program", WORKLOADS / "many_alpha")
    settle(path)
    _, names, without_s = record(path, "--no-cache")
    _, first, first_s = record(path, "--cache", directory)
    kept = entries(directory)
    inode = f"{path.stat().st_ino:x}"
    check(any(f"-{inode}-" in name for name in kept) and any(name.endswith("-kernel") for name in kept),
          f"symbols are missing in {kept}")
    functions, second, second_s = record(path, "--cache", directory)
    check({"alpha_hot"} <= functions, f"functions {functions}")
    check(second_s <= first_s / 2 and second_s <= without_s / 2,
          f"symbols took {without_s} s without a cache, {first_s} s in the first recording, {second_s} s in the second one")
    check_names(first, names)
    check_names(second, names)
    later = entries(directory)
    check_equal({name: later.get(name) for name in kept}, kept, "kept symbols")
    # What is damaged is read again, and replaced.
    for name in kept:
        with (directory / name).open("r+b") as file:
            file.seek((directory / name).stat().st_size // 2)
            file.write(b"damaged!")
    functions, third, _ = record(path, "--cache", directory)
    check({"alpha_hot"} <= functions, f"functions {functions}")
    check_names(third, names)
    replaced = entries(directory)
    check(not [name for name in kept if f"-{inode}-" in name and replaced.get(name) == kept[name]],
          f"damaged symbols were not replaced: {kept}, {replaced}")


@test
def forger_decides_its_own_names_only():
    """Two files with the same name, size and build ID, then one in the place of the other."""
    load()
    cache = ("--cache", temporary_directory() / "cache")
    victim, forger = program("program", WORKLOADS / "many_alpha"), program("program", WORKLOADS / "many_bravo")
    check_equal(forger.stat().st_size, victim.stat().st_size, "sizes")
    settle(victim, forger)
    for path, name, other in ((forger, "bravo", "alpha"), (victim, "alpha", "bravo"), (victim, "alpha", "bravo")):
        functions = record(path, *cache)[0]
        check(f"{name}_hot" in functions and f"{other}_hot" not in functions, f"functions of {name}: {functions}")
    # The same inode: what has just changed is not kept, and what has changed is another file.
    with victim.open("r+b") as file:
        file.write(forger.read_bytes())
    for _ in range(2):
        functions = record(victim, *cache)[0]
        check("bravo_hot" in functions and "alpha_hot" not in functions, f"functions of a changed file: {functions}")
        settle(victim)
