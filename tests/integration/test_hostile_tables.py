# SPDX-License-Identifier: GPL-2.0
"""Wrong unwind tables, which the module can't recognize as wrong, do no harm."""

import collections
import contextlib
import os
import random
import shutil
import signal
import struct
import threading
import time
import traceback
from pathlib import Path

from address_spaces import AddressSpaces
from harness import (check, check_balance, defer, long_test, SLOWDOWN, start, start_busy, temporary_directory, test,
                     workload, WORKLOADS)
from stackbeat import S, Session
from unwind_tables import compile_table, pack_table, set_tables, unpack_table, wait_for_files

SAMPLES = 60
ROUNDS = 12


def random_rule(randomness):
    """A valid rule, of any kind."""
    kind = randomness.choices(range(7), (1, 1, 2, 12, 2, 2, 2))[0]
    base = randomness.choice((S.REGISTER_RSP, S.REGISTER_RSP, S.REGISTER_RBP, randomness.randrange(16)))
    place = randomness.choice((0, 1, 2, 4))
    extra = randomness.choice((0, 8, 0x10, 0x20)) if kind < 4 else 0
    cfa = 8 * randomness.choice((randomness.randrange(-4, 40), randomness.randrange(-(1 << 23) + 1, 1 << 23)))
    return (cfa, base << 4 | kind, place | extra | randomness.choice((0, 0, 0x40)),
            randomness.randrange(16) if place == 4 else randomness.randrange(-128, 128),
            randomness.randrange(16) if extra == 0x20 else randomness.randrange(-128, 128))


def start_copy(path, mode):
    shutil.copy(workload("frameless")[0], path)
    return start_busy(path, mode, 20)


def random_go(randomness):
    """struct stackbeat_unwind_go: offsets of words near the thread pointer, or anywhere, also such that are in memory."""
    return struct.pack("=q10HI", randomness.choice((randomness.randrange(-512, 512, 8),
                                                   randomness.randrange(-1 << 63, 1 << 63))),
                       *(randomness.randrange(8, 256, 8) for _ in range(9)), randomness.randrange(2), randomness.randrange(2))


def has_frames_or_end(sample):
    return sample.table_frames or sample.user_stop


def sample_with(directory, number, change, go=bytes(32), runs=lambda size: (), wanted=has_frames_or_end, most=2000):
    """Samples a program with its table changed by `change`, with the runs that `runs` makes for a size of code, until some
    samples are wanted, or there are `most`. Returns them."""
    process = start_copy(directory / f"program-{number}", ("sort", "signal", "altstack")[number % 3])
    table = compile_table(process.args[0])
    with Session(rate=4000, watermark=4096, pids=[process.pid], stack_copy=1024 * (number % 2),
                 goroutines=S.GOROUTINE_ID | S.GOROUTINE_CREATOR | S.GOROUTINE_LABELS) as session:
        session.start()
        spaces = set_tables(session, process, without=["program-"])
        file_id = next(file_id for file_id, file in spaces.files.items()
                       if file.path == process.args[0])
        changed = change(*unpack_table(table))
        session.set_table(file_id, pack_table(*changed, runs(256 * (len(changed[1]) - 1)), go=go))
        pairs = []
        while sum(bool(wanted(sample)) for sample, _ in pairs) < SAMPLES and len(pairs) < most:
            session.poll()
            pairs += session.read_with_stacks()
        session.stop()
        check_balance(session.stats())
        process.kill()
    for sample, _ in pairs:
        check(len(sample.user) <= S.USER_FRAMES_DEFAULT, f"{len(sample.user)} frames")
    return [sample for sample, _ in pairs]


@long_test
def random_rules():
    randomness = random.Random(20261124)
    directory = temporary_directory()
    for number in range(ROUNDS):
        sample_with(directory, number, lambda first, blocks, rows, starts, rules: (
            first, blocks, rows, starts, [random_rule(randomness) for _ in rules]), random_go(randomness))


@long_test
def random_addresses():
    """The code of the table begins elsewhere, even so that its end wraps."""
    randomness = random.Random(1)
    directory = temporary_directory()
    for number in range(ROUNDS):
        sample_with(directory, number, lambda first, blocks, rows, starts, rules: (
            (first + randomness.choice((256, -256, 1, 1 << 40, -(1 << 47), randomness.randrange(1 << 63)))) % 2**63,
            blocks, rows, starts, rules))


@test
def one_rule_for_all_code():
    directory = temporary_directory()
    rules = [(8, 0x73, 0, 0, 0), (0, 0x73, 0, 0, 0), (16, 0x63, 1, -2, 0), (0, 2, 0, 0, 0),
             (0, 0x73, 0x10, 0, 0), (-8, 0x73, 2, 0, 0), (8, 0x73, 0x20, 0, 7)]
    for number, rule in enumerate(rules):
        sample_with(directory, number, lambda first, blocks, rows, starts, _, rule=rule: (
            first, blocks, [0] * len(rows), starts, [rule]))


@test
def goroutine_whose_place_cannot_be_read_is_not_outermost():
    """Only ld.so knows where a library has it: the stack ends for lack of memory, and is not complete."""
    go = struct.pack("=q10HI", 1 << 40, *range(8, 80, 8), 0, 1)
    samples = sample_with(temporary_directory(), 0, lambda first, blocks, rows, starts, _: (
        first, blocks, [0] * len(rows), starts, [(0, 0x75, 0, 0, 0)]), go,
        wanted=lambda sample: sample.user_stop in (S.STOP_FAULT, S.STOP_OUTERMOST), most=100_000)
    stops = collections.Counter((len(sample.user), sample.user_stop) for sample in samples)
    check(stops[1, S.STOP_FAULT] and not stops[1, S.STOP_OUTERMOST], f"frames and ends of stacks: {stops}")


@long_test
def runs_in_code_without_frame_pointers():
    """rbp is any number there; and rules are followed before and after."""
    randomness = random.Random(43)
    directory = temporary_directory()

    def cut(size):
        ends = sorted(randomness.sample(range(size), 32))
        return list(zip(ends[::2], ends[1::2]))

    for number in range(ROUNDS):
        sample_with(directory, number, lambda *table: table,
                    runs=(lambda size: [(0, size)]) if number < 3 else cut)


@long_test
def killed_while_setting_tables():
    """A reader that dies while it copies a large table."""
    large = pack_table(0x1000, [0] + [1] * 4000000, [0], b"\0", [(8, 0x73, 0, 0, 0)])
    directory = temporary_directory()
    for number in range(5):
        process = start_copy(directory / f"killed-{number}", "sort")
        session = Session(rate=2000, pids=[process.pid])
        session.start()
        spaces = wait_for_files(session, process)
        file_id = next(file_id for file_id, file in spaces.files.items()
                       if file.path == process.args[0])
        child = os.fork()
        if not child:
            threads = [threading.Thread(target=session.set_table, args=(file_id, large))
                       for _ in range(3)]
            for thread in threads:
                thread.start()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        session.close()
        process.kill()


def set_and_drop_tables(seed, tables, of_libraries, number, report):
    """In a process of its own: threads read samples, and set and release the tables of all files that they see, until
    `number` tables are set and some samples were unwound by tables. It ends with SIGKILL, also while they do so, or with
    a balance. Writes both numbers to `report`."""
    randomness = random.Random(seed)
    # More samples than Python can decode on a slow kernel would leave no time for the threads.
    session = Session(rate=50, stack_copy=512 * randomness.randrange(2),
                      goroutines=S.GOROUTINE_ID | S.GOROUTINE_CREATOR | S.GOROUTINE_LABELS)
    session.start()
    spaces = AddressSpaces(session, read_files=False)
    files, counts, ends, failures = [], collections.Counter(), threading.Event(), []

    def set_tables_of_files():
        while not ends.is_set():
            if not files:
                time.sleep(0.001)
                continue
            file = randomness.choice(files)
            table = of_libraries.get(Path(file.path).name)
            # A race may be the cause: the file is gone, or another thread or session has set its table.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                if not table and randomness.random() < 0.2:
                    session.release_file(file.file_id)
                else:
                    session.set_table(file.file_id, table or randomness.choice(tables))
                    counts["set"] += 1

    def set_tables_and_note_failures():
        try:
            set_tables_of_files()
        except Exception as error:  # pylint: disable=broad-exception-caught
            failures.append(error)

    threads = [threading.Thread(target=set_tables_and_note_failures) for _ in range(2)]
    for thread in threads:
        thread.start()
    while counts["set"] < number or counts["by tables"] < 5:
        counts["by tables"] += sum(bool(sample.table_frames) for sample, _ in session.read_with_stacks())
        spaces.read()
        files[:] = [file for file in spaces.files.values()
                    if "raced-" in file.path or Path(file.path).name in of_libraries]
        check(not failures, f"setting tables has failed: {failures}")
        time.sleep(0.01)
    os.write(report, f"{counts['set']} {counts['by tables']}\n".encode())
    if randomness.random() < 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
    ends.set()
    for thread in threads:
        thread.join()
    session.stop()
    check_balance(session.stats())


def start_setting_tables(*arguments):
    """Starts set_and_drop_tables(), and returns the process."""
    child = os.fork()
    if child:
        return child
    try:
        set_and_drop_tables(*arguments)
        os._exit(0)
    except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
    finally:
        os._exit(1)


def has_ended(child):
    """Whether a process of start_setting_tables() has ended, as it should."""
    child, status = os.waitpid(child, os.WNOHANG)
    check(os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), f"a session has ended with {status}")
    return child


def kill_all(children):
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@long_test
def racing_threads_set_and_drop_tables():
    """Sessions that come and go share the tables of programs that start and end, while threads of each set them."""
    directory = temporary_directory()
    randomness = random.Random(7)
    valid = compile_table(workload("frameless")[0])
    first, blocks, rows, starts, rules = unpack_table(valid)
    tables = [valid, valid, None] + [
        pack_table(first, blocks, rows, starts, [random_rule(randomness) for _ in rules], go=random_go(randomness))
        for _ in range(9)]
    of_libraries = {path.name: compile_table(path)
                    for path in (Path("/lib/x86_64-linux-gnu/libc.so.6"), Path("/lib64/ld-linux-x86-64.so.2").resolve())}
    reports, report = os.pipe()
    sessions, running, programs, processes = 0, set(), [], 0
    defer(kill_all, running)
    while sessions < 12 or running:
        while sessions < 12 and len(running) < 3:
            running.add(start_setting_tables(sessions, tables, of_libraries, randomness.randrange(2, 12), report))
            sessions += 1
        # The libraries are never executed: they add files.
        libraries = [directory / f"raced-{processes}-{number}.so" for number in range(4)]
        for library in libraries:
            shutil.copy(WORKLOADS / "libswap_0.so", library)
        program = directory / f"raced-{processes}"
        shutil.copy(workload("frameless")[0], program)
        programs.append(start(program, ("sort", "signal", "altstack")[processes % 3], 20,
                              env={"LD_PRELOAD": " ".join(map(str, libraries))}))
        processes += 1
        if len(programs) > 3:
            ended = programs.pop(0)
            ended.kill()
            ended.wait()
        # A program lives long enough for its tables to be set.
        time.sleep(0.3 * SLOWDOWN)
        for child in list(running):
            if has_ended(child):
                running.remove(child)
    for process in programs:
        process.kill()
        process.wait()
    os.close(report)
    with os.fdopen(reports) as file:
        counts = [tuple(map(int, line.split())) for line in file]
    print(f"# {sessions} sessions, {processes} programs, (tables set, samples by tables): {counts}", flush=True)
    check(len(counts) == sessions, f"{len(counts)} of {sessions} sessions have set tables")


@long_test
def tables_while_mappings_change():
    """Libraries come and go at one address, and programs end, while their tables are set."""
    process = start(*workload("dlswap", workload("")[0], 10**9, 20000))
    with Session(rate=4000, watermark=4096, pids=[process.pid], stack_copy=512) as session:
        session.start()
        spaces = wait_for_files(session, process)
        known = set()
        count = tables = 0
        # How many depends on the time that the worker takes for the mapping events.
        while tables < 20 or count < 2000:
            check(process.poll() is None, "the program has ended")
            session.poll()
            for sample, _ in session.read_with_stacks():
                count += 1
                tables += bool(sample.table_frames)
            spaces.read()
            for file_id, file in list(spaces.files.items()):
                if file_id not in known:
                    known.add(file_id)
                    try:
                        session.set_table(file_id, compile_table(file.path))
                    except FileExistsError:
                        pass
                    session.release_file(file_id)
        session.stop()
        check_balance(session.stats())


def available():
    """Bytes of memory that are available."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise LookupError("no MemAvailable")


@long_test
def mapping_events_of_many_mappings_hold_little_memory():
    """Each event of a process with thousands of mappings replaces the array by which its stacks are walked.
    The kernel frees the replaced ones seconds later, so their number has a limit."""
    process = start(*workload("maps", "bursts", 32000))
    process.stdout.readline()
    with Session(rate=500, watermark=4096, pids=[process.pid], budget=S.BUDGET_MAX) as session:
        session.map_metadata()
        before = least = available()
        session.start()
        while session.stats()["mmap_events"] < 2000:
            session.poll()
            session.read()
            session.meta.read()
            least = min(least, available())
        session.stop()
    check(before - least < 128 << 20, f"{before - least >> 20} MiB are held")
