# SPDX-License-Identifier: GPL-2.0
"""Many processes at once: each stays in the table of a session, and what is done for one file or one process takes no
longer because of the others. The guest's clock counts instructions."""

import shutil
import signal
import subprocess
import time

from address_spaces import AddressSpaces
from harness import (check, check_equal, check_within, exact_test, long_exact_test, start, temporary_directory,
                     wait_until, workload)
from stackbeat import S, Session
from unwind_tables import wait_for_files

# Each process works for some intervals between ticks, in each of its turns.
RATE = 10_000
ITERATIONS = 125_000
# Processes that work before the metadata is read.
STEP = 100
# Instructions of the ioctl that says that a file has no table. Some of them depend on its place in a hash table.
TABLE = 13_250
# Processes of the system that may be sampled for the first time, or again.
OTHERS = 5


class Crowd:
    """Processes that have all been sampled by a session, whose metadata is read, but not decoded."""

    def __init__(self, session, count):
        self.session = session
        self.process = start(*workload("crowd", count, ITERATIONS, STEP), stdin=subprocess.PIPE)

    def _is_read(self):
        self.session.meta.take()
        return not self.session.pending

    def work(self, count):
        """Lets the next `count` processes be sampled, and returns the number of address spaces that were read."""
        before = self.session.stats()
        for _ in range(0, count, STEP):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            check_equal(self.process.stdout.read(1), "\n", "the turns of some processes")
            self.session.take()
            wait_until(self._is_read, "metadata of the samples")
        after = self.session.stats()
        for counter in ("samples_without_address_space", "address_spaces_unread"):
            check_equal(after[counter] - before[counter], 0, counter)
        return after["address_spaces"] - before["address_spaces"]

    def end(self):
        """Waits until all processes have ended: they share their output."""
        self.process.stdin.close()
        check_equal(self.process.stdout.read(), "", "the rest of the output")
        self.process.wait()


def open_session():
    session = Session(rate=RATE, no_jitter=1, budget=S.BUDGET_MAX)
    session.map_metadata()
    session.start()
    return session


def sampled_files(session, count):
    """The ids of new files, of programs that were sampled, and sleep now."""
    spaces = AddressSpaces(session, keep_files=True)
    programs = []
    for _ in range(count):
        program = temporary_directory() / "deep"
        shutil.copy(workload("deep")[0], program)
        process = start(program, 8, 1 << 60)
        wait_for_files(session, process, spaces=spaces)
        process.send_signal(signal.SIGSTOP)
        programs.append(str(program))
    files = [file_id for file_id, file in spaces.files.items() if file.path in programs]
    check_equal(len(files), count, "files")
    return files


def table_cost(session, files):
    """The instructions of setting the table of a file: the least of some."""
    costs = []
    session.set(state=S.STATE_PAUSED)
    for file_id in files:
        began = time.monotonic_ns()
        session.set_table(file_id, None)
        costs.append(time.monotonic_ns() - began)
    session.start()
    return min(costs)


def check_crowd(count, again):
    """Of a crowd of `count` processes, `again` are sampled again: few of them for the first time."""
    with open_session() as session:
        files = sampled_files(session, 20)
        alone = table_cost(session, files[:10])
        room = session.stats()["address_spaces_room"]
        crowd = Crowd(session, count)
        first, later = crowd.work(count), crowd.work(again)
        among = table_cost(session, files[10:])
        print(f"# {count} processes: {first} address spaces read, and {later} later; a table: {alone} instructions, "
              f"{among} among them", flush=True)
        least = count if again == count else count * 0.95
        check_within(first + later, (least, count + OTHERS), "address spaces that were read")
        check_within(among, (0, TABLE), "instructions of a table")
        check(session.stats()["address_spaces_room"] > room, "the table has not grown")
        crowd.end()


@exact_test
def crowd_is_read_once():
    """Sets of the table's first level overflow, although it is half empty."""
    check_crowd(4000, again=4000)


@long_exact_test
def large_crowd_is_read_once():
    check_crowd(20_000, again=1000)


@long_exact_test
def processes_that_end_make_room():
    """The table does not grow with the number of processes that have run."""
    with open_session() as session:
        room = session.stats()["address_spaces_room"]
        read = 0
        while read <= room:
            crowd = Crowd(session, 500)
            read += crowd.work(500)
            crowd.end()
        check_equal(session.stats()["address_spaces_room"], room, f"room after {read} address spaces")
