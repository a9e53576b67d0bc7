# SPDX-License-Identifier: GPL-2.0
"""Stacks of code without frame pointers, by the unwind tables of its files."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import workloads
from address_spaces import AddressSpaces
from harness import (check, check_balance, check_equal, defer, Failure, fails_with, finish, load, long_exact_test, run,
                     Skip, start, start_busy, temporary_directory, test, unload, wait_until, workload)
from stackbeat import FILE_VDSO, IOC_UNWIND_TABLE, PAGE, S, Session, STOP_NAMES
from unwind_tables import HEADER, MAGIC, RULE, compile_table, pack_table, set_tables, unpack_table, wait_for_files

SAMPLES = 200
DEPTH = 7
COPY = 4096
OUTERMOST_RULE = (0, 1, 0, 0, 0)  # of kind STACKBEAT_UNWIND_END


def wait_for_no_tables(session):
    """Waits until there is no table of an earlier session: the kernel frees them a grace period after the session was closed. The
    session has not been started."""
    wait_until(lambda: not session.stats()["unwind_tables"], "the end of the tables of earlier sessions")


def sample_frameless(mode):
    process = start_busy(*workload("frameless", mode, DEPTH))
    with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
        wait_for_no_tables(session)
        session.start()
        spaces = set_tables(session, process)
        # A tick before that may still write its sample, if the host does not run its CPU.
        at = time.monotonic_ns()
        session.read()
        samples = session.read_until(lambda samples: len(samples) >= SAMPLES)
        first = [sample for sample in samples if sample.time > at]
        session.stop()
        spaces.drain()
        check_balance(session.stats())
        stats = session.stats()
    return first, spaces, stats


def check_stacks(mode, expected, libc_frames, select=list):
    """`select`: returns the samples that are checked."""
    samples, spaces, stats = sample_frameless(mode)
    samples = select(samples)
    check(len(samples) >= SAMPLES / 2, f"only {len(samples)} samples")
    # The program, libc and ld.so, and the vDSO.
    check_equal(stats["unwind_tables"], 4, f"unwind tables of {[file.path for file in spaces.files.values()]}")
    good = 0
    for sample in samples:
        frames = spaces.symbolize(sample)
        own = [frame.function for frame in frames if frame.file.endswith("/frameless")]
        foreign = len(frames) - len(own)
        good += (own[1 if own and own[0] == "spin" else 0:] == expected and foreign == libc_frames
                 and sample.user_stop == S.STOP_OUTERMOST and sample.table_frames == len(frames) - 1)
    check(good == len(samples), f"{good} of {len(samples)} stacks are right; " + str(Counter(
        (STOP_NAMES[sample.user_stop], sample.table_frames,
         tuple(frame.function for frame in spaces.symbolize(sample))) for sample in samples)
        .most_common(5)))


@test
def calls():
    check_stacks("plain", ["work_rounds", "bottom"] + ["descend"] * DEPTH + ["main", "_start"], 2)


@test
def callback_of_libc():
    check_stacks("sort", ["work_rounds", "compare", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)


@test
def signal_handler():
    check_stacks("signal", ["work_rounds", "on_signal", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)


@test
def signal_handler_on_an_alternate_stack():
    check_stacks("altstack", ["work_rounds", "on_signal", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2 + 2)


@test
def frame_in_a_register_during_a_call():
    check_stacks("register", ["count_down", "cfa_in_rax", "bottom"] + ["descend"] * DEPTH
                 + ["main", "_start"], 2)


def start_copy(directory, name, owner=0, mode="sort"):
    """Runs a program as a file of its own, which has no table yet, also if a session has just been closed that had one."""
    path = directory / name
    shutil.copy(workload("frameless")[0], path)
    os.chown(path, owner, owner)
    return start_busy(path, mode, DEPTH)


def read_pairs(session, count):
    pairs = []
    while len(pairs) < count:
        session.poll()
        pairs += session.read_with_stacks()
    return pairs


@test
def stack_is_copied_until_the_tables_are_there():
    process = start_copy(temporary_directory(), "frameless", mode="plain")
    with Session(rate=2000, watermark=4096, pids=[process.pid], stack_copy=COPY) as session:
        session.start()
        pairs = read_pairs(session, 50)
        session.set(state=S.STATE_PAUSED)
        pairs = [pair for pair in pairs + session.read_with_stacks() if pair[0].comm == "frameless"]
        # Where the ring has no room, as its reader does not run in time, the copy is lost, and counted.
        copied = [pair for pair in pairs if pair[1]]
        check(copied, "no copies")
        check_equal(len(pairs) - len(copied), session.stats()["stack_copies_lost"], f"samples of {len(pairs)} without a copy")
        for sample, stack in copied:
            check_equal(stack.registers[S.REGISTER_RIP], sample.user[0], "rip")
            # The top of the stack is less than COPY above.
            check(len(stack.bytes) > 0, "an empty copy")
        words = struct.unpack_from("=9Q", copied[-1][1].bytes)
        session.set(state=S.STATE_RUNNING)
        spaces = set_tables(session, process)
        read_pairs(session, SAMPLES)
        session.set(watermark=1)
        pairs = read_pairs(session, SAMPLES)
        check(not any(stack for _, stack in pairs[-SAMPLES // 2:]), "copies in spite of tables")
        check(all(sample.table_frames for sample, _ in pairs[-SAMPLES // 2:]), "no frames by tables")
        # The walk has found the return address that the copy shows.
        frames = pairs[-1][0].user
        check(set(words) & set(frames), f"no frame of {frames} is in the copy {words}")
        session.stop()
        stats = session.stats()
        check(0 < stats["stack_copies"] < stats["samples"], f"copies: {stats}")
        check_equal(stats["stack_copies"], sum(cpu["stack_copies"]
                    for cpu in session.get()["cpu_stats"].values()), "copies of all CPUs")
        spaces.drain()
        check_balance(stats)


@test
def stack_of_a_fiber_ends_at_its_return_address():
    """It is 0, below any saved frame pointer, in code that is walked by frame pointers."""
    for mode in ("zero", "stale"):
        process = start_busy(*workload("fiber", mode))
        with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
            session.start()
            file_id = next(iter(wait_for_files(session, process).files))
            parts = unpack_table(compile_table(process.args[0]))
            # The session before may have set it.
            with contextlib.suppress(FileExistsError):
                session.set_table(file_id, pack_table(*parts, [(0, 256 * (len(parts[1]) - 1))]))
            samples = session.read_until(lambda samples: sum(bool(sample.table_frames) for sample in samples) >= SAMPLES)
        process.kill()
        stacks = {(len(sample.user), STOP_NAMES[sample.user_stop]) for sample in samples if sample.table_frames}
        # bottom, four times descend, run
        check_equal(stacks, {(6, "outermost")}, f"frames and ends with {mode}")


@test
def misses_of_the_cache_of_rules_are_counted():
    """A rule that is used again is in the cache."""
    process = start(*workload("frameless", "plain", DEPTH))
    with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        set_tables(session, process)
        session.read_until(lambda samples: sum(bool(sample.table_frames) for sample in samples) >= SAMPLES)
        first = session.stats()
        session.read_until(lambda samples: len(samples) >= 5 * SAMPLES)
        session.stop()
        last = session.stats()
        frames, misses = (last[name] - first[name] for name in ("frames_by_tables", "unwind_rule_misses"))
        check(first["unwind_rule_misses"] > 0, f"no miss: {first}")
        check(frames >= SAMPLES * DEPTH, f"frames: {first}, {last}")
        check(misses < frames / 50, f"{misses} misses of {frames} frames")
        check_equal(last["unwind_rule_misses"], sum(cpu["unwind_rule_misses"]
                    for cpu in session.get()["cpu_stats"].values()), "misses of all CPUs")


@test
def copy_without_room_loses_only_the_copy():
    process = start_copy(temporary_directory(), "frameless", mode="plain")
    with Session(rate=2000, watermark=4096, pids=[process.pid], ring_size=S.RING_SIZE_MIN,
                 stack_copy=S.STACK_COPY_MAX) as session:
        session.start()
        check(not any(stack for _, stack in read_pairs(session, 50)), "a copy larger than the ring")
        session.stop()
        stats = session.stats()
        check(stats["stack_copies_lost"] >= 50, f"lost copies: {stats}")
        check_balance(stats)


@test
def copies_leave_half_of_the_ring_to_samples():
    process = start_copy(temporary_directory(), "frameless", mode="plain")
    # Nothing is read: copies fill their half, and samples go on. The other half has room for the samples of some seconds, in
    # which this process may not run.
    size = 4 << 20
    with Session(rate=2000, pids=[process.pid], ring_size=size, stack_copy=COPY) as session:
        session.start()
        wait_until(lambda: session.stats()["stack_copies_lost"] >= SAMPLES, "lost copies")
        session.stop()
        stats = session.stats()
        check_equal(stats["lost_full"], 0, f"lost samples of {stats}")
        copied = Counter()
        for sample, stack in session.read_with_stacks():
            copied[sample.cpu] += len(stack.bytes) if stack else 0
        for cpu, bytes_of_copies in copied.items():
            check(bytes_of_copies <= size // 2, f"{bytes_of_copies} bytes of copies in the ring of CPU {cpu}")


@test
def nothing_is_copied_without_tables():
    process = start_copy(temporary_directory(), "frameless", mode="plain")
    with Session(rate=2000, watermark=4096, pids=[process.pid], stack_copy=COPY,
                 unwind_tables=0) as session:
        check_equal((session.get()["unwind_tables"], session.get()["stack_copy"]), (0, COPY), "settings")
        session.start()
        set_tables(session, process)
        check(not any(stack or sample.table_frames for sample, stack in read_pairs(session, 50)),
              "tables are used")


@test
def settings_are_checked():
    with Session() as session:
        check_equal((session.get()["unwind_tables"], session.get()["stack_copy"]), (1, 0), "defaults")
        for settings, code in (({"unwind_tables": 2}, errno.ERANGE),
                               ({"stack_copy": S.STACK_COPY_MAX + 8}, errno.ERANGE),
                               ({"stack_copy": 12}, errno.EINVAL)):
            with fails_with(code, str(settings), "must be"):
                session.set(**settings)


def code_with_frame_pointer(path):
    """An address in a function of a file in which the CFA is rbp + 16, and rbp at CFA - 16."""
    first, blocks, row_rules, row_starts, rules = unpack_table(compile_table(path))
    by_rbp = {number for number, (cfa, base, places, rbp, _) in enumerate(rules)
              if (cfa, base, places & ~8, rbp) == (16, S.REGISTER_RBP << 4 | 3, 1, -2)}
    for block, (row, last) in enumerate(zip(blocks, blocks[1:])):
        for number in range(row, last - 1):
            if row_rules[number] in by_rbp and row_starts[number + 1] - row_starts[number] > 16:
                return first + 256 * block + row_starts[number] + 8
    raise Failure(f"{path} has no function with a frame pointer")


@test
def stacks_that_differ_in_one_word_have_their_own_callers():
    """Walks remember the outermost frames of a stack, behind the last change of file, with the words that decide them."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    process = start(*workload("roots", f"{code_with_frame_pointer(libc):x}"))
    with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        spaces = set_tables(session, process)
        samples = session.read_until(lambda samples: sum(bool(sample.table_frames) for sample in samples) >= 10 * SAMPLES)
        session.stop()
        spaces.drain()
        check_balance(session.stats())
    stacks = Counter()
    for sample in samples:
        frames = spaces.symbolize(sample)
        if sample.table_frames and frames[0].function.startswith("spin_"):
            stacks[(frames[0].function, *(frame.function if frame.file == process.args[0] else Path(frame.file).name
                                          for frame in frames[1:]), STOP_NAMES[sample.user_stop])] += 1
    name = Path(os.path.realpath(libc)).name
    # Between the change of rbp and of rsp, and back, the stack is the one of main().
    stacks = Counter({stack: count for stack, count in stacks.items() if "main" not in stack})
    check_equal(set(stacks), {*((f"spin_{n}", name, name, f"outer_{n}", "outermost") for n in (0, 1, 2, 3, 5)),
                              ("spin_4", name, "fault")}, f"stacks of {stacks}")
    for stack, count in stacks.items():
        check(count >= SAMPLES, f"only {count} of {stack}")


def file_of(spaces, process):
    return next(file_id for file_id, file in spaces.files.items() if file.path == process.args[0])


def end(process):
    process.kill()
    process.wait()


def small_table(**changes):
    return pack_table(0x1000, [0, 1], [0], b"\0", [(8, S.REGISTER_RSP << 4 | 3, 0, 0, 0)], **changes)


@test
def tables_are_checked():
    table = small_table()
    wrong = [table[:8], table[:-8], table + bytes(8), bytes(len(table)), table * 2]
    wrong += [small_table(**{field: value}) for field, values in {
        "magic": (0,), "size": (0, len(table) - 8, 2**32 - 1), "start": (2**64 - 1,),
        "block_count": (0, 2, 1 << 24, 2**32 - 1), "row_count": (0, 2, 2**32 - 1),
        "rule_count": (0, 2, 2**32 - 1), "run_count": (1, 17, 2**32 - 1)}.items() for value in values]
    wrong += [pack_table(0, blocks, [0] * rows, starts, [rule]) for blocks, rows, starts, rule in (
        ([1, 1], 1, b"\0", (8, 0x73, 0, 0, 0)), ([0, 0], 1, b"\0", (8, 0x73, 0, 0, 0)),
        ([0, 2, 1], 1, b"\0", (8, 0x73, 0, 0, 0)), ([0, 1], 1, b"\1", (8, 0x73, 0, 0, 0)),
        ([0, 2], 2, b"\0\0", (8, 0x73, 0, 0, 0)), ([0, 0, 1], 1, b"\0", (8, 0x73, 0, 0, 0)),
        ([0, 1], 1, b"\0", (4, 0x73, 0, 0, 0)), ([0, 1], 1, b"\0", (1 << 26, 0x73, 0, 0, 0)),
        ([0, 1], 1, b"\0", (8, 0x77, 0, 0, 0)), ([0, 1], 1, b"\0", (8, 0x73, 3, 0, 0)),
        ([0, 1], 1, b"\0", (8, 0x73, 0x80, 0, 0)), ([0, 1], 1, b"\0", (8, 0x73, 4, 16, 0)),
        ([0, 1], 1, b"\0", (8, 0x74, 0x10, 0, 0)), ([0, 1], 1, b"\0", (8, 0x75, 0x20, 0, 0)),
        ([0, 1], 1, b"\0", (8, 0x76, 8, 0, 0)),
        ([0, 1], 1, b"\0", (8, 0x73, 0x20, 0, -1)))]
    wrong += [pack_table(0, [0, 1], [1], b"\0", [(8, 0x73, 0, 0, 0)])]
    wrong += [small_table(runs=runs) for runs in (
        [(4, 4)], [(8, 4)], [(0, 257)], [(256, 257)], [(0, 8), (7, 12)], [(8, 12), (0, 8)],
        [(number, number + 1) for number in range(17)])]
    process = start_copy(temporary_directory(), "checked")
    with Session(rate=2000, pids=[process.pid]) as session:
        wait_for_no_tables(session)
        session.start()
        file_id = file_of(wait_for_files(session, process), process)
        for number, broken in enumerate(wrong):
            with fails_with(errno.EINVAL, f"table {number}"):
                session.set_table(file_id, broken)
        check_equal(session.stats()["unwind_tables"], 0, "tables")


@test
def sizes_that_no_table_has_are_refused():
    """They are invalid whatever the memory limit is, and no memory is taken for them."""
    process = start_copy(temporary_directory(), "sizes")
    with Session(rate=2000, pids=[process.pid]) as session:
        session.start()
        file_id = file_of(wait_for_files(session, process), process)
        address = ctypes.addressof(buffer := ctypes.create_string_buffer(small_table()))
        check(len(buffer), "no table")
        for size in (0, 8, (1 << 27), (1 << 31), (1 << 32) - 8, 1 << 32, (1 << 64) - 8):
            with fails_with(errno.EINVAL, f"a table of {size} bytes"):
                fcntl.ioctl(session.fd, IOC_UNWIND_TABLE, struct.pack("=QQQ", file_id, address, size))
        check_equal(session.stats()["unwind_tables_refused"], 0, "tables refused for lack of memory")


# Prints the longest time in ms between two wakeups of a real-time thread, which wants to run each
# millisecond, until its standard input ends.
WAKEUPS = """
import os, select, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
longest = 0
last = time.monotonic()
print("ready", flush=True)
while not select.select([0], [], [], 0.001)[0]:
    now = time.monotonic()
    longest = max(longest, now - last)
    last = now
print(1000 * longest)
"""


@long_exact_test
def large_table_lets_other_threads_run():
    """The module copies and checks 56 MB in parts, also where the kernel does not preempt itself."""
    blocks = 14_000_000
    size = HEADER.size + RULE.size + 4 * (blocks + 1) + 3
    table = (HEADER.pack(MAGIC, size + -size % 8, 0x1000, blocks, 1, 1, 0, bytes(32))
             + RULE.pack(8, S.REGISTER_RSP << 4 | 3, 0, 0, 0) + bytes(4) + b"\1\0\0\0" * blocks
             + bytes(3 + -size % 8))
    process = start_copy(temporary_directory(), "large")
    with Session(rate=100, pids=[process.pid]) as session:
        session.start()
        file_id = file_of(wait_for_files(session, process), process)
        session.stop()
        process.kill()
        watcher = start(sys.executable, "-c", WAKEUPS, stdin=subprocess.PIPE)
        watcher.stdout.readline()
        session.set_table(file_id, table)
        longest = float(finish(watcher)[0])
    print(f"# longest wait: {longest} ms", flush=True)
    check(longest < 10, f"a real-time thread had to wait for {longest} ms")


def check_mapping_events(mode, most):
    """100 mapping events a second, in a process with 2,000 other mappings of code. `most`: instructions of the worker
    an event. The reader wakes up rarely: its time would be time between the events. Returns how many samples have
    frames by tables, and how many there are."""
    process = workloads.start_ready(*workload("maps", mode, 4000, 5_000_000))
    with Session(rate=1000, watermark=4096, ring_size=4 << 20, pids=[process.pid]) as session:
        session.start()
        spaces = wait_for_files(session, process)
        session.set_table(FILE_VDSO, compile_table("vdso"))
        session.set_table(file_of(spaces, process), compile_table(process.args[0]))
        session.set(watermark=100_000)
        session.read()
        before = session.stats()
        samples = session.read_until(lambda samples: len(samples) >= 1000)
        after = session.stats()
        session.stop()
        spaces.drain()
    events, instructions = (after[name] - before[name] for name in ("mmap_events", "worker_overhead_ns"))
    by_tables = sum(sample.table_frames > 0 for sample in samples)
    print(f"# {events} events, {instructions / max(events, 1):.0f} instructions of the worker an event; "
          f"{by_tables} of {len(samples)} samples by tables", flush=True)
    check(events >= 0.05 * len(samples), f"only {events} events")
    check_equal(after["mmap_events_lost"], 0, "lost events")
    check(instructions < most * events, f"{instructions} instructions for {events} events")
    return by_tables, len(samples)


@long_exact_test
def code_made_executable_again_keeps_tables():
    """As a JIT compiler does with a page to change its code."""
    by_tables, samples = check_mapping_events("patches", 20_000)
    check(by_tables >= 0.9 * samples, f"only {by_tables} of {samples} samples by tables")


@long_exact_test
def new_code_moves_other_mappings():
    """Most of the instructions clear and copy the memory of the array of mappings, byte by byte."""
    check_mapping_events("compiles", 285_000)


@test
def errors_of_set_table():
    process = start_copy(temporary_directory(), "errors")
    with Session(rate=2000, pids=[process.pid]) as session:
        wait_for_no_tables(session)
        session.start()
        file_id = file_of(wait_for_files(session, process), process)
        with fails_with(errno.ENOENT, "an unknown file"):
            session.set_table(file_id + 1000, small_table())
        with fails_with(errno.EFAULT, "an unmapped table"):
            fcntl.ioctl(session.fd, IOC_UNWIND_TABLE, struct.pack("=QQQ", file_id, 64, 4096))
        session.set_table(file_id, small_table())
        for table in (small_table(), None):
            with fails_with(errno.EEXIST, "a second table"):
                session.set_table(file_id, table)
        session.release_file(file_id)
        with fails_with(errno.ENOENT, "a released file"):
            session.set_table(file_id, small_table())
        check_equal(session.stats()["unwind_tables"], 1, "tables after the release")


@test
def released_file_keeps_its_table():
    directory = temporary_directory()
    process = start_copy(directory, "released")
    with Session(rate=2000, watermark=4096, pids=[process.pid]) as session:
        session.start()
        spaces = set_tables(session, process)
        session.release_file(file_of(spaces, process))
        end(process)
        again = start(directory / "released", "sort", DEPTH)
        session.set(pids=[again.pid])
        spaces.files.clear()
        samples = session.read_until(lambda samples: sum(
            sample.table_frames > DEPTH for sample in samples if sample.pid == again.pid) >= 20)
        check(samples, "no samples")


@test
def changed_file_of_an_overlay_gets_no_table():
    """Its path leads to a copy from then on, whereas other overlays map what it was."""
    directory = temporary_directory()
    run("mount", "-t", "tmpfs", "none", directory)
    defer(run, "umount", "-l", directory)
    for name in ("lower", "upper", "work", "merged", "other", "other-work", "other-upper"):
        (directory / name).mkdir()
    shutil.copy(workload("frameless")[0], directory / "lower/program")

    def start_in(merged, upper, work):
        run("mount", "-t", "overlay", "none", directory / merged, "-o",
            f"lowerdir={directory}/lower,upperdir={directory}/{upper},workdir={directory}/{work}")
        defer(run, "umount", "-l", directory / merged)
        return start(directory / merged / "program", "sort", DEPTH)

    changed = start_in("merged", "upper", "work")
    (directory / "merged/program").chmod(0o700)
    other = start_in("other", "other-upper", "other-work")
    with Session(rate=2000, watermark=4096, pids=[changed.pid]) as session:
        session.start()
        spaces = wait_for_files(session, changed)
        for table in (small_table(), None):
            with fails_with(errno.ESTALE, "a changed file"):
                session.set_table(file_of(spaces, changed), table)
        session.set(pids=[other.pid])
        wait_for_files(session, other, spaces=spaces)
        check_equal(spaces.files[file_of(spaces, other)].flags & S.FILE_UNWIND_TABLE, 0, "flag")
        session.set_table(file_of(spaces, other), small_table())


# Runs a program twice, in a file system that an unprivileged user could have mounted.
IN_USER_NAMESPACE = """
mount -t tmpfs none "$1" && cp "$2" "$1/owned" || exit 1
while :; do
	"$1/owned" sort 7 >/dev/null & echo $!
	read -r line || exit
	kill $! && wait $!
done
"""


@test
def table_is_not_kept_where_users_choose_identities():
    """A user who mounts a file system can choose inode numbers and times of its files; and the device number of a
    file system that was unmounted is given to another one."""
    directory = temporary_directory()
    shell = start("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", IN_USER_NAMESPACE, "sh",
                  directory, workload("frameless")[0], stdin=subprocess.PIPE)

    with Session(rate=2000, watermark=4096) as session:
        spaces = AddressSpaces(session, keep_files=True)
        session.start()
        flags, known = [], set()

        def new_files():
            session.read()
            spaces.read()
            return [file for file in spaces.files.values()
                    if file.path.endswith("/owned") and file.file_id not in known]
        for _ in range(2):
            session.set(pids=[int(shell.stdout.readline())])
            file = wait_until(new_files, "the file")[0]
            known.add(file.file_id)
            flags.append(file.flags & (S.FILE_UNWIND_TABLE | S.FILE_LASTING))
            if not flags[-1] & S.FILE_UNWIND_TABLE:
                session.set_table(file.file_id, small_table())
            session.release_file(file.file_id)
            shell.stdin.write("\n")
            shell.stdin.flush()
    check_equal(flags, [0, 0], "flags of file records")


def make_image(path, directory):
    """Makes a file system with the files of a directory."""
    run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", directory, path, "8M")


@test
def table_is_not_that_of_another_file_on_the_same_device():
    """A loop device, or a drive with removable media, gives its number to one image after another. Who makes an image
    chooses inode numbers, sizes and times."""
    directory = temporary_directory()
    for name in ("files", "mounted"):
        (directory / name).mkdir()
    shutil.copy(workload("frameless")[0], directory / "files/exchanged")
    make_image(directory / "first", directory / "files")
    first = (directory / "first").read_bytes()
    second = first.replace(b"GCC: (", b"ICC: (")
    check(second != first, "both images have the same program")
    (directory / "second").write_bytes(second)
    for module in ("loop", "ext4"):
        run("modprobe", module)
    device = run("losetup", "-f")[0].strip()
    path = directory / "mounted/exchanged"
    has_sequence = Path("/sys/block", Path(device).name, "diskseq").exists()
    for command in (("losetup", "-d", device), ("umount", "-l", directory / "mounted")):
        defer(lambda command=command: subprocess.run(command, check=False, capture_output=True))
    flags, files = [], {}
    with Session(rate=2000, watermark=4096) as session:
        spaces = AddressSpaces(session, keep_files=True)
        session.start()

        def new_files():
            session.read()
            spaces.read()
            return [file for file in spaces.files.values() if file.path == str(path) and file.file_id not in files]
        for image, runs in (("first", 2), ("second", 1)):
            run("losetup", "--read-only", device, directory / image)
            run("mount", "-o", "ro", device, directory / "mounted")
            for _ in range(runs):
                process = start(path, "sort", DEPTH)
                session.set(pids=[process.pid])
                file = wait_until(new_files, "the file")[0]
                files[file.file_id] = (file.device, file.inode, file.inode_generation, file.size)
                flags.append(file.flags & (S.FILE_UNWIND_TABLE | S.FILE_LASTING))
                if not flags[-1] & S.FILE_UNWIND_TABLE:
                    session.set_table(file.file_id, small_table())
                session.release_file(file.file_id)
                end(process)
            # The kernel may free the memory of a process a moment after its end.
            wait_until(lambda: not subprocess.run(["umount", directory / "mounted"], check=False,
                                                  capture_output=True).returncode, "the end of the mount")
            run("losetup", "-d", device)
    check_equal(len(set(files.values())), 1, f"number of identities in {files}")
    # The table stays with its image, if the kernel tells images apart. Another recording may have another image.
    check_equal(flags, [0, S.FILE_UNWIND_TABLE if has_sequence else 0, 0],
                "flags of the first image, again, and of the second one")


# Maps a page of a file as code, and runs it for ever.
RUN_PAGE = """
import ctypes, mmap, sys
with open(sys.argv[1], "rb") as file:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    code = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE,
                     file.fileno(), ctypes.c_long(mmap.PAGESIZE))
run = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(code)
run(1)
print("ready", flush=True)
run(1 << 63)
"""


@test
def table_of_another_session_serves_a_file_whose_headers_were_not_in_memory():
    """The second session does not know where the code is in the file, and its reader sets no table, as there is one."""
    directory = temporary_directory()
    for name in ("files", "mounted"):
        (directory / name).mkdir()
    # A page with the headers of one segment, and one with "1: dec %rdi; jnz 1b; ret".
    (directory / "files/headless").write_bytes(
        (b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("=HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
         + struct.pack("=IIQQQQQQ", 1, 5, *[PAGE] * 6)).ljust(PAGE, b"\0")
        + bytes.fromhex("48ffcf75fbc3").ljust(PAGE, b"\0"))
    make_image(directory / "image", directory / "files")
    for module in ("loop", "ext4"):
        run("modprobe", module)
    run("mount", "-o", "loop,ro", directory / "image", directory / "mounted")
    defer(run, "umount", "-l", directory / "mounted")
    path = directory / "mounted/headless"
    process = start(sys.executable, "-c", RUN_PAGE, path)
    check_equal(process.stdout.readline(), "ready\n", "output")
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, PAGE, os.POSIX_FADV_DONTNEED)
    os.close(file)
    settings = {"rate": 2000, "watermark": 4096, "pids": [process.pid]}
    with Session(**settings) as session, Session(**settings) as other:
        records = []
        for opened in (session, other):
            opened.start()
            spaces = AddressSpaces(opened, read_files=False)

            def headless(opened=opened, spaces=spaces):
                opened.read()
                spaces.read()
                return [record for record in spaces.files.values() if record.path == str(path)]
            records += wait_until(headless, "the file")
        if not records[0].flags & S.FILE_HEADERS_NOT_READ:
            raise Skip("the kernel keeps the headers in memory, with the code")
        # As its reader does before it sets the table, by which the code is the outermost frame. By the frame pointer, it
        # has a caller.
        path.read_bytes()
        other.set_table(records[1].file_id, pack_table(PAGE, [0, 1], [0], b"\0", [OUTERMOST_RULE]))
        session.read()
        samples = [sample for sample in session.read_until(lambda samples: len(samples) >= SAMPLES) if sample.user]
        check_equal({(len(sample.user), STOP_NAMES[sample.user_stop]) for sample in samples[SAMPLES // 2:]},
                    {(1, STOP_NAMES[S.STOP_OUTERMOST])}, "user frames and why they end")


@test
def files_whose_identity_lasts_have_a_flag():
    """No user can make another one of the same identity. In a file system without set-user-ID bits, a user may have
    made the image; on a read-only one, files of two versions of an image may differ in nothing but the build ID."""
    directory = temporary_directory()
    program = Path(workload("frameless")[0])
    run("mount", "-t", "tmpfs", "none", directory)
    defer(run, "umount", "-l", directory)
    paths = {}
    for name, with_id in (("usual", True), ("without", False), ("unlinked", True)):
        paths[name] = directory / name
        shutil.copy(program, paths[name])
        if not with_id:
            run("objcopy", "--remove-section", ".note.gnu.build-id", paths[name])
    for name, options in (("nosuid", "nosuid"), ("readonly", "ro")):
        place = temporary_directory()
        run("mount", "-t", "tmpfs", "none", place)
        defer(run, "umount", "-l", place)
        # No path is a part of another one, as a process is found by a part of its path.
        for path in ("with", "without"):
            paths[f"{name} {path}"] = place / f"{path} build ID"
            shutil.copy(paths["without" if path == "without" else "usual"], paths[f"{name} {path}"])
        run("mount", "-o", f"remount,{options}", place)
    processes = {name: start(path, "sort", DEPTH) for name, path in paths.items()}
    paths["unlinked"].unlink()
    lasting = {}
    # Few samples: this process, which decodes them, shares the CPUs with seven busy ones.
    with Session(rate=100, watermark=4096, pids=[process.pid for process in processes.values()]) as session:
        session.start()
        spaces = AddressSpaces(session, keep_files=True)
        for name, process in processes.items():
            wait_for_files(session, process, spaces=spaces)
            lasting[name] = bool(spaces.files[file_of(spaces, process)].flags & S.FILE_LASTING)
    check_equal(lasting, {
        "usual": True, "without": True, "unlinked": False, "nosuid with": False, "nosuid without": False,
        "readonly with": True, "readonly without": False,
    }, "files that are recognized")


@test
def tables_have_a_memory_limit():
    unload()
    run("stackbeat", "load", "unwind_memory=1")
    directory = temporary_directory()
    large, larger = (pack_table(0x1000, [0] + [1] * blocks, [0], b"\0", [(8, 0x73, 0, 0, 0)])
                     for blocks in (90000, 180000))
    try:
        with Session(rate=2000) as session:
            session.start()
            processes, spaces = [], AddressSpaces(session, keep_files=True)
            for number in range(3):
                processes.append(start_copy(directory, f"limit-{number}"))
                wait_for_files(session, processes[-1], spaces=spaces)
                file_id = file_of(spaces, processes[-1])
                if number < 2:
                    session.set_table(file_id, large)
                    session.release_file(file_id)
            with fails_with(errno.ENOSPC, "a table beyond the limit"):
                session.set_table(file_id, large)
            stats = session.stats()
            check_equal((stats["unwind_tables"], stats["unwind_tables_refused"]), (2, 1), "tables")
            # The table of a program that has ended makes room.
            end(processes[0])
            session.set_table(file_id, large)
            check_equal(session.stats()["unwind_tables"], 2, "tables after the end of a program")
            # One for which there is no room without it, either, makes none.
            end(processes[1])
            processes.append(start_copy(directory, "limit-3"))
            wait_for_files(session, processes[-1], spaces=spaces)
            with fails_with(errno.ENOSPC, "a table that is too large beside another one"):
                session.set_table(file_of(spaces, processes[-1]), larger)
            check_equal(session.stats()["unwind_tables"], 2, "tables after one was refused")
    finally:
        unload()
        load()


@test
def ended_processes_of_a_session_leave_memory_to_others():
    """Also if its reader pushes no further table, which would free them."""
    unload()
    run("stackbeat", "load", "unwind_memory=1")
    directory = temporary_directory()
    table = pack_table(0x1000, [0] + [1] * 90000, [0], b"\0", [(8, 0x73, 0, 0, 0)])

    def set_table(session, spaces, name):
        process = start_copy(directory, name)
        session.set(pids=[process.pid])
        wait_for_files(session, process, spaces=spaces)
        file_id = file_of(spaces, process)
        session.set_table(file_id, table)
        session.release_file(file_id)
        end(process)

    try:
        with Session(rate=2000) as ended, Session(rate=2000) as session:
            ended.start()
            spaces = AddressSpaces(ended, keep_files=True)
            for name in ("first", "second"):
                set_table(ended, spaces, name)
            ended.set(state=S.STATE_PAUSED)
            session.start()
            set_table(session, AddressSpaces(session, keep_files=True), "third")
            check_equal(session.stats()["unwind_tables_refused"], 0, "tables refused")
    finally:
        unload()
        load()


@test
def small_tables_take_little_memory():
    """As the tables of many small programs, or of files that are built and run once."""
    unload()
    run("stackbeat", "load", "unwind_memory=1")
    directory = temporary_directory()
    count = 400
    for number in range(count):
        (directory / f"small-{number}").write_bytes(bytes(4096))
    code = ("import mmap, os, sys\n"
            "kept = [mmap.mmap(os.open(entry.path, os.O_RDONLY), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, "
            "flags=mmap.MAP_PRIVATE) for entry in os.scandir(sys.argv[1])]\n"
            "while True: pass\n")
    try:
        process = start(sys.executable, "-c", code, directory)
        with Session(rate=2000, pids=[process.pid]) as session:
            session.start()
            spaces = AddressSpaces(session, keep_files=True, read_files=False)

            def small_files():
                spaces.read()
                return [file.file_id for file in spaces.files.values() if "/small-" in file.path]

            wait_until(lambda: len(small_files()) == count, "all files")
            for file_id in small_files():
                session.set_table(file_id, small_table())
            stats = session.stats()
            check_equal((stats["unwind_tables"], stats["unwind_tables_refused"]), (count, 0), "tables")
    finally:
        unload()
        load()


@test
def files_of_users_leave_memory_to_others():
    """Any user can let sampled programs map large files: one owner gets half of the memory, and all but root get
    three quarters."""
    unload()
    run("stackbeat", "load", "unwind_memory=1")
    directory = temporary_directory()
    spaces = None

    def set_table(owner, blocks):
        """Starts a program of this owner, and sets its table of 4 bytes a block."""
        nonlocal spaces
        # The module takes the owner when it first sees the file, which may be at once.
        process = start_copy(directory, f"owned-{len(processes)}", owner)
        processes.append(process)
        session.set(pids=[process.pid])
        spaces = wait_for_files(session, process, spaces=spaces)
        file_id = file_of(spaces, process)
        try:
            session.set_table(file_id, pack_table(0x1000, [0] + [1] * blocks, [0], b"\0", [(8, 0x73, 0, 0, 0)]))
        finally:
            session.release_file(file_id)

    processes = []
    try:
        with Session(rate=2000) as session:
            session.start()
            set_table(1000, 90000)
            with fails_with(errno.ENOSPC, "more than half of the memory for one owner"):
                set_table(1000, 90000)
            set_table(1001, 90000)
            with fails_with(errno.ENOSPC, "more than three quarters of the memory for users"):
                set_table(1002, 20000)
            set_table(0, 60000)
            check_equal(session.stats()["unwind_tables"], 3, "tables")
            # The table of an owner's program that has ended makes room for other ones of the owner, and only that one.
            end(processes[0])
            end(processes[4])
            set_table(1000, 90000)
            check_equal(session.stats()["unwind_tables"], 3, "tables after the end of programs")
            # Beyond the shares, the oldest one makes room.
            set_table(0, 60000)
            check_equal(session.stats()["unwind_tables"], 3, "tables after the table of another program of root")
    finally:
        unload()
        load()
