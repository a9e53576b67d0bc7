# SPDX-License-Identifier: GPL-2.0
"""A tick takes a bounded number of instructions, whatever unwind table and stack it meets. The guest's clock counts
them."""

import os
import shutil
import time
from contextlib import contextmanager, ExitStack

from cpuidle import stay_on
from harness import check, check_equal, exact_test, long_exact_test, start, temporary_directory, two_cpu_test, use, workload
from stackbeat import online_cpus, S, Session, STOP_NAMES
from unwind_tables import pack_table, wait_for_files

DEPTH = S.USER_FRAMES_MAX
CODE_SIZE = 65536
# Instructions of a tick.
AT_MOST = 100_000
# Thousandths of a CPU.
BUDGET = 50

# Of enum stackbeat_unwind_kind, and STACKBEAT_UNWIND_CALLER with its base.
SIGNAL, CALLER = 2, 3
RSP, RBP, RBX = (register << 4 | CALLER for register in (S.REGISTER_RSP, S.REGISTER_RBP, 3))
RBP_SAVED, RBP_AT_RBP, RBX_SAVED = 1, 2, 8
OUTERMOST = (0, 1, 0, 0, 0)


class Hostile:
    """The program hostile_walk with a stack, and the table of its code."""

    def __init__(self, size, rule, holes=0, order="0", step=0, last=None, rules=None, runs=(), frames=DEPTH + 20, at_most=AT_MOST):
        """`order`: digits, of the part of the code that each frame has, in turn. `rule`: of all code, except the blocks of 256
        bytes that are keys of `rules`. `at_most`: instructions of a tick."""
        last = int(max(order)) * step + 8 if last is None else last
        self.command = workload("hostile_walk", frames, size, holes, order, step, last)
        self.at_most = at_most
        self.rule, self.rules, self.runs = rule, rules or {}, runs
        self.code = self.turns = 0

    def start(self, path=None, **options):
        process = start(path or self.command[0], *self.command[1:], **options)
        self.code, self.turns = (int(process.stdout.readline()) for _ in range(2))
        return process

    def table(self):
        kinds = [self.rule, *self.rules.values()]
        blocks = CODE_SIZE // 256
        numbers = {block: number + 1 for number, block in enumerate(self.rules)}
        return pack_table(self.code, list(range(blocks + 1)), [numbers.get(block, 0) for block in range(blocks)],
                          bytes(blocks), kinds, self.runs)

    def set_table(self, session, process):
        """Waits for the mappings of the process, which nothing has read before."""
        file_id = next(file_id for file_id, file in wait_for_files(session, process).files.items()
                       if file.path == process.args[0])
        session.set_table(file_id, self.table())


STACKS = {
    "unreadable words": Hostile(8192, (8192, RSP, RBP_SAVED, 0, 0), holes=1),
    "unreadable words of two registers": Hostile(8192, (8192, RSP, RBP_SAVED | RBX_SAVED, 0, 1), holes=1),
    "unreadable words by rules that are not cached": Hostile(8192, (8192, RSP, RBX_SAVED | RBP_AT_RBP, 2, 0), holes=1),
    "a register that the fast walk does not follow": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), last=32768, frames=1018,
                                                             rules={n: (64, RBX, 0, 0, 0) for n in (127, 128)}),
    "rules that are not cached": Hostile(64, (64, RSP, RBP_AT_RBP, 0, 0)),
    "rules that evict each other": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="012", step=4096),
    "ranges that evict each other": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="01234", step=4096,
                                            runs=[(4096 * n + 2048, 4096 * n + 2052) for n in range(15)]),
    "rules of runs and frames in turn": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="0123", step=1024,
                                               runs=[(4096 * n + 2048, 4096 * n + 3072) for n in range(15)]),
    "bases in turn": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="01", step=4096,
                             rules={block: (16, RBP, RBP_SAVED, -2, 0) for block in range(16, 32)}),
    "ranges in an order that changes": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="012021", step=4096,
                                               runs=[(4096 * n + 2048, 4096 * n + 2052) for n in range(3)]),
    "runs and frames in an order that changes": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="012021", step=4096,
                                                        runs=[(4096 * n + 2048, 4096 * n + 2052) for n in range(2)] + [(8192, 12288)]),
    "ranges in an order that changes, and then does not": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), order="012021" * 10 + "02" * 490,
                                                                  step=4096,
                                                                  runs=[(4096 * n + 2048, 4096 * n + 2052) for n in range(3)]),
    # The walks look for their outermost frames only near the end.
    "a range that is left once": Hostile(64, (64, RSP, RBP_SAVED, -2, 0), last=32768, frames=1018, runs=[(0, 7)], at_most=25_000,
                                         rules={n: OUTERMOST for n in (127, 128)}),
    "signal frames": Hostile(256, (0, SIGNAL, 0, 0, 0)),
}


def measure(hostile):
    """The mean of the instructions of a tick."""
    # Each a file of its own: the kernel frees the table of the session before it some time after its end.
    process = hostile.start(shutil.copy(hostile.command[0], temporary_directory()))
    with Session(rate=500, no_jitter=1, budget=S.BUDGET_MAX, watermark=4096, pids=[process.pid], max_depth=DEPTH,
                 parts=S.PART_USER) as session:
        session.start()
        hostile.set_table(session, process)
        session.read()
        session.read_until(lambda samples: len(samples) >= 10)
        before = session.stats()
        samples = session.read_until(lambda samples: len(samples) >= 100)
        after = session.stats()
    process.kill()
    process.wait()
    sample = samples[-1]
    cost = (after["overhead_ns"] - before["overhead_ns"]) / (after["samples"] - before["samples"])
    return cost, f"{len(sample.user)} frames, {sample.table_frames} by tables, then {STOP_NAMES[sample.user_stop]}"


def turns_of(process, address, seconds):
    """(turns of the program's loop, ns) in some seconds, by a test that sleeps meanwhile."""
    with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
        def read():
            memory.seek(address)
            return int.from_bytes(memory.read(8), "little"), time.monotonic_ns()
        before = read()
        time.sleep(seconds)
        after = read()
    return after[0] - before[0], after[1] - before[1]


@contextmanager
def sessions_at_the_highest_rate(hostile, process, sessions):
    """Their rate is raised when all of them follow the process and have its table."""
    with ExitStack() as stack:
        opened = [stack.enter_context(Session(rate=100, budget=BUDGET, ring_size=16 << 20, watermark=16 << 20, pids=[process.pid],
                                              max_depth=DEPTH, parts=S.PART_USER)) for _ in range(sessions)]
        for session in opened:
            session.start()
        # All sessions use it.
        hostile.set_table(opened[0], process)
        for session in opened[1:]:
            wait_for_files(session, process)
        for session in opened:
            session.read()
        before = sum(session.stats()["overhead_ns"] for session in opened)
        begin = time.monotonic_ns()
        for session in opened:
            session.set(rate=20000)
        yield opened, before, begin


def share_of_the_cpu(hostile, sessions):
    """The share of a CPU, in percent, that `sessions` sessions at the highest rate take from a program with this stack: by
    the turns of its loop without and in the first two seconds with them, so with all that their timers cost."""
    process = hostile.start(shutil.copy(hostile.command[0], temporary_directory()))
    alone, alone_ns = turns_of(process, hostile.turns, 1)
    with sessions_at_the_highest_rate(hostile, process, sessions) as (opened, _, _):
        turns, ns = turns_of(process, hostile.turns, 2)
        stats = [session.stats() for session in opened]
    process.kill()
    process.wait()
    lost = sum(one["lost_full"] for one in stats)
    check(not lost, f"{lost} samples lost: their stacks were not walked")
    check(any(one["throttled"] for one in stats), f"not throttled: {stats}")
    return 100 * (1 - turns / ns * alone_ns / alone), sum(one["long_ticks"] for one in stats)


def check_share(sessions):
    """Of some sessions, with a stack whose walks cost most."""
    share, long_ticks = share_of_the_cpu(STACKS["rules that are not cached"], sessions)
    print(f"# {sessions} sessions: {share:.2f} % of the CPU, {long_ticks} ticks beyond the maximum", flush=True)
    check(0 < share <= BUDGET / 10 + 1, f"{sessions} sessions take {share:.2f} % of the CPU")
    check_equal(long_ticks, 0, "ticks that took longer than the budget counts")


@exact_test
def share_is_at_most_the_budget_and_one_percent():
    check_share(4)


@long_exact_test
def share_of_one_session_is_at_most_the_budget_and_one_percent():
    check_share(1)


@exact_test
def sessions_whose_ticks_fill_the_cpu_are_throttled_in_one_window():
    """The module throttles each session by as much as all ticks require, missed ones, too: until then, the
    sessions take a budget of a window beyond what they may, or somewhat more, since their windows end at
    different times."""
    hostile, window, beyond = STACKS["rules that are not cached"], S.BUDGET_WINDOW_NS, []
    for _ in range(5):
        process = hostile.start(shutil.copy(hostile.command[0], temporary_directory()))
        with sessions_at_the_highest_rate(hostile, process, 4) as (opened, before, begin):
            time.sleep(3 * window / 1e9)
            windows = (time.monotonic_ns() - begin) / window
            stats = [session.stats() for session in opened]
        overhead = sum(one["overhead_ns"] for one in stats) - before
        check(all(one["throttled"] and not one["lost_full"] for one in stats), f"not throttled, or stacks not walked: {stats}")
        beyond.append(overhead * 1000 / (window * BUDGET) - windows)
        process.kill()
        process.wait()
    print("# budgets beyond:", *(f"{one:.2f}" for one in beyond), flush=True)
    check(sum(beyond) / len(beyond) <= 1.75, f"budgets beyond: {beyond}")


@two_cpu_test(long_exact_test)
def rate_of_one_hertz_at_the_limit_does_not_evade_the_budget():
    """The ticks take as long as two periods, so that the next one is missed, and the tick after it keeps its time when the rate
    is changed: its session has 1 Hz when it reaches the limit."""
    hostile, budget = STACKS["rules that are not cached"], BUDGET * S.BUDGET_WINDOW_NS // 1000
    home, cpu = online_cpus()[:2]
    stay_on(home)
    process = hostile.start(shutil.copy(hostile.command[0], temporary_directory()))
    os.sched_setaffinity(process.pid, {cpu})

    def open_session():
        session = use(Session(rate=100, budget=BUDGET, ring_size=16 << 20, cpus=str(cpu), pids=[process.pid], max_depth=DEPTH,
                              parts=S.PART_USER))
        session.start()
        return session
    # This one keeps the table for the others.
    keeper = open_session()
    hostile.set_table(keeper, process)
    keeper.stop()
    rates = []
    for _ in range(24):
        session = open_session()
        wait_for_files(session, process)
        session.stop()
        # The next start opens a window.
        time.sleep(2 * S.BUDGET_WINDOW_NS / 1e9)
        before, begin = session.stats(), time.monotonic_ns()
        session.set(rate=20000)
        session.start()
        while session.stats()["overhead_ns"] - before["overhead_ns"] <= budget:
            for _ in range(4):
                session.set(rate=1)
                session.set(rate=20000)
        elapsed = time.monotonic_ns() - begin
        # The interrupt of this change waits for the end of a tick.
        session.set(rate=19999)
        stats = session.stats()
        session.close()
        check(stats["missed_ticks"] > before["missed_ticks"], f"the ticks are too short: {stats}")
        # Long ticks are counted in part.
        if elapsed < S.BUDGET_WINDOW_NS and stats["long_ticks"] == before["long_ticks"]:
            rates.append(stats["rate"])
    check(len(rates) >= 8, f"only {len(rates)} sessions took their budget in one window")
    check_equal(rates.count(19999), 0, f"rates that were not lowered at the limit, of {rates}")


@exact_test
def instructions_of_a_tick():
    dear = {}
    for name, hostile in STACKS.items():
        cost, stack = measure(hostile)
        print(f"# {name}: {cost:.0f} instructions a tick; {stack}", flush=True)
        if cost > hostile.at_most:
            dear[name] = round(cost)
    check(not dear, f"too many instructions a tick: {dear}")
