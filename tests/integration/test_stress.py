# SPDX-License-Identifier: GPL-2.0
"""Concurrent stress for STRESS_SECONDS (10 by default): no crash, no uncounted loss, no leak.

Eight processes interfere with each other, each with a role below. Their operations are random; failures
print the seed, and STRESS_SEED sets it.
"""

import contextlib
import ctypes
import errno
import mmap as memory
import os
import random
import signal
import subprocess
import threading
import time
import traceback
from pathlib import Path

from fault_injection import ALLOCATIONS, has_fault_injection, read_fault, set_faults, exclude_9p_requests
from harness import (check, check_balance, check_equal, check_sessions_end, defer, load, long_test, long_tight_test,
                     module_range, PATIENCE, run, Skip, temporary_directory, test, tight_test, unload,
                     wait_until, WORKLOADS)
from stackbeat import AddressSpace, libc, MappedFile, Netlink, online_cpus, S, Session
from test_module_unload import check_vmalloc_is_freed, slab_objects, slab_uncertainty

SECONDS = int(os.environ.get("STRESS_SECONDS", "10"))
SEED = int(os.environ.get("STRESS_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
CPUS = [int(path.name[3:]) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")
        if (path / "online").exists()]

# Errors of sessions while CPUs, processes and other sessions come and go.
EXPECTED = {errno.EUSERS, errno.EBUSY, errno.ERANGE, errno.EINVAL, errno.ENXIO, errno.ESRCH,
            errno.ENODEV, errno.ENOENT}
SHORT_OF_MEMORY = {errno.ENOMEM, errno.ENOBUFS}
FAULTS = 10 ** 9 # more than the number of allocations

COUNTED = ("sessions", "samples", "rates", "flips", "loads", "address_spaces", "files", "tails", "kills",
           "balances", "refusals")


class Counters:
    """Counters in shared memory; each process has its own row. They end when `ended` is set."""

    def __init__(self, rows):
        self.map = memory.mmap(-1, (rows * len(COUNTED) + 1) * 8)
        self.ended = ctypes.c_uint64.from_buffer(self.map, rows * len(COUNTED) * 8)
        self.rows = [(ctypes.c_uint64 * len(COUNTED)).from_buffer(self.map, row * len(COUNTED) * 8)
                     for row in range(rows)]

    def total(self):
        return {name: sum(row[index] for row in self.rows) for index, name in enumerate(COUNTED)}


class Worker:
    """A process that performs random operations of its role until `ended` is set."""

    def __init__(self, role, row, directory, ended, expected):
        self.role, self.row, self.directory = role, row, directory
        self.ended, self.expected = ended, expected
        self.choice = None
        self.pid = 0

    def count(self, what, number=1):
        self.row[COUNTED.index(what)] += number

    def goes_on(self):
        return not self.ended.value

    def attempt(self, function, *arguments, **named):
        """Returns the result of function, or None after an expected error."""
        try:
            return function(*arguments, **named)
        except OSError as error:
            if error.errno not in self.expected:
                raise
            self.count("refusals", error.errno in SHORT_OF_MEMORY)
            return None

    def start(self, seed, report):
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self.choice = random.Random(f"{seed} {self.role.__name__}")
            self.role(self)
            status = 0
        except BaseException:  # pylint: disable=broad-exception-caught
            os.write(report, f"{self.role.__name__}, seed {SEED}: "
                             f"{traceback.format_exc()}\n".encode())
        finally:
            os._exit(status)


# --- roles -------------------------------------------------------------------


def random_settings(choice):
    """Random settings, not all of them valid."""
    drawn = {"rate": lambda: choice.choice((1, 99, 997, 5000, S.RATE_MAX)),
             "parts": lambda: choice.randint(1, 3),
             "pids": lambda: choice.choice(([], [os.getpid()], [1, os.getppid()])),
             "tids": lambda: choice.choice(([], [os.getpid()])),
             "inherit": lambda: choice.randint(0, 1),
             "cpus": lambda: choice.choice(("", "0", str(choice.choice(CPUS or [0])))),
             "max_depth": lambda: choice.choice((1, 127, S.USER_FRAMES_MAX)),
             "ring_size": lambda: S.RING_SIZE_MIN << choice.randint(0, 3),
             "watermark": lambda: choice.choice((0, 1, 4096, S.RING_SIZE_MAX)),
             "no_jitter": lambda: choice.randint(0, 1),
             "budget": lambda: choice.choice((1, 50, 500)),
             "cgroups": lambda: choice.choice(([], [1])),
             "exclude_comms": lambda: choice.choice(([], ["churn", "sh"])),
             "state": lambda: choice.choice((S.STATE_RUNNING, S.STATE_PAUSED))}
    return {name: drawn[name]() for name in choice.sample(sorted(drawn), choice.randint(1, 4))}


def read_metadata(worker, session):
    if not session.meta:
        worker.attempt(session.map_metadata)
    for record in session.meta.read() if session.meta else ():
        if isinstance(record, AddressSpace):
            worker.count("address_spaces")
        if isinstance(record, MappedFile):
            worker.count("files")
            file = worker.attempt(session.open_file, record.file_id)
            if file is not None:
                os.close(file)
            if worker.choice.randrange(4):
                worker.attempt(session.release_file, record.file_id)


def read_samples(worker, session):
    worker.count("samples", len(session.read()))


def stop_and_check_balance(worker, session):
    session.stop()
    # The netlink request may fail without memory.
    stats = worker.attempt(session.stats)
    if stats:
        check_balance(stats)
        worker.count("balances", stats["ticks"] > 0)


def fork_with_session(_, session):
    child = os.fork()
    if not child:
        os._exit(session.fd & 1)
    os.waitpid(child, 0)


def sessions(worker):
    """Opens, configures, maps, reads and closes sessions; may be killed at any moment."""
    choice = worker.choice
    steps = (lambda session: session.set(**random_settings(choice)),
             lambda session: session.set(**random_settings(choice)),
             lambda session: session.map(),
             lambda session: session.set(state=S.STATE_RUNNING),
             lambda session: session.get(),
             lambda session: session.netlink.sessions(),
             lambda session: time.sleep(choice.random() / 20),
             lambda session: read_samples(worker, session),
             lambda session: read_metadata(worker, session),
             lambda session: fork_with_session(worker, session),
             lambda session: stop_and_check_balance(worker, session))
    while worker.goes_on():
        session = worker.attempt(Session)
        if not session:
            continue
        worker.count("sessions")
        with session:
            for _ in range(choice.randint(1, 20)):
                worker.attempt(choice.choice(steps), session)
            worker.attempt(stop_and_check_balance, worker, session)


def lazy_readers(worker):
    """Stop reading until records are lost, and then continue: all records are complete."""
    while worker.goes_on():
        session = worker.attempt(Session, rate=5000, ring_size=S.RING_SIZE_MIN)
        if not session:
            continue
        worker.count("sessions")
        with session:
            worker.attempt(session.map)
            worker.attempt(session.set, state=S.STATE_RUNNING)
            read_metadata(worker, session)
            while worker.goes_on():
                stats = worker.attempt(session.stats)
                if stats and stats["lost_full"] >= 10:
                    break
            read_samples(worker, session)
            read_metadata(worker, session)
            read_samples(worker, session)
            worker.attempt(stop_and_check_balance, worker, session)


def hostile_readers(worker):
    """Write random reader positions while the kernel writes; with correct ones, sampling continues."""
    choice = worker.choice
    while worker.goes_on():
        session = worker.attempt(Session, rate=5000, ring_size=S.RING_SIZE_MIN)
        if not session:
            continue
        worker.count("sessions")
        with session:
            worker.attempt(session.map)
            worker.attempt(session.map_metadata)
            worker.attempt(session.set, state=S.STATE_RUNNING)
            rings = session.rings + ([session.meta] if session.meta else [])
            done = threading.Event()
            failures = []

            def scribble():
                try:
                    scribble_until_done()
                except Exception as error:  # pylint: disable=broad-exception-caught
                    failures.append(error)

            def scribble_until_done():
                while not done.is_set():
                    ring = choice.choice(rings)
                    ring.tail = choice.choice((0, 1, ring.head + 8, ring.head - ring.size - 8,
                                               choice.getrandbits(64), 2 ** 64 - 1, ring.head - 8,
                                               ring.head & ~0xfff)) % 2 ** 64
                    worker.count("tails")

            writer = threading.Thread(target=scribble)
            if rings:
                writer.start()
                time.sleep(choice.random() / 2)
                done.set()
                writer.join()
                if failures:
                    raise failures[0]
            for ring in rings:
                ring.tail = ring.head
            time.sleep(choice.random() / 10)
            read_samples(worker, session)
            worker.attempt(stop_and_check_balance, worker, session)


def change_rate(worker, netlink, session):
    netlink.session_set(session, rate=worker.choice.randint(S.RATE_MIN, S.RATE_MAX))
    worker.count("rates")


def rates(worker):
    """Changes the rates of all sessions, again and again."""
    with Netlink() as netlink:
        while worker.goes_on():
            for session in worker.attempt(netlink.sessions) or ():
                for _ in range(100):
                    worker.attempt(change_rate, worker, netlink, session["session"])


def cpus(worker):
    """Takes CPUs offline and online. The module must not make that fail, not even for lack of memory."""
    while CPUS and worker.goes_on():
        path = Path(f"/sys/devices/system/cpu/cpu{worker.choice.choice(CPUS)}/online")
        try:
            before = path.read_text()
            path.write_text(worker.choice.choice("01"))
            worker.count("flips", path.read_text() != before)
        except OSError as error:
            # The last CPU can't go offline.
            if error.errno != errno.EBUSY:
                raise
        time.sleep(worker.choice.random() / 10)
    for cpu in CPUS:
        Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1")


def loads(worker):
    """Tries to load and unload the module, all of which is refused."""
    file = Path(run("modinfo", "-n", "stackbeat")[0].strip()).read_bytes()
    while worker.goes_on():
        for image, parameters in ((file, b""), (file, b"rate_max=0"), (file[:100], b"")):
            check(libc.init_module(image, ctypes.c_ulong(len(image)), parameters),
                  "a module was loaded twice")
            worker.count("loads")
        check(libc.delete_module(b"stackbeat", os.O_NONBLOCK), "the module was unloaded while in use")
        time.sleep(worker.choice.random() / 5)


def programs(worker):
    """Runs programs that fork, exec, load libraries, generate code, and exit."""
    while worker.goes_on():
        mode = worker.choice.choice(("fork", "vfork", "chain", "exec"))
        directory = worker.directory / str(worker.choice.getrandbits(64))
        directory.mkdir()
        command = worker.choice.choice((("churn", WORKLOADS, directory, mode, "12", "20000"),
                                        ("dlswap", WORKLOADS, "8", "20000"),
                                        ("maps", "regions", "40", "20000"),
                                        ("maps", "storm", "1000"), ("bomb", "40", "20000"),
                                        ("threads", "3")))
        with subprocess.Popen([WORKLOADS / command[0], *map(str, command[1:])],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


ROLES = (sessions, sessions, lazy_readers, hostile_readers, rates, cpus, loads, programs)
# Roles that may be killed at any moment.
MORTAL = (sessions, lazy_readers, hostile_readers)


# --- the tests ---------------------------------------------------------------


def work_and_kill(workers, goes_on, choice):
    """Runs the workers while goes_on(), and kills and restarts some of them; returns the failures of the others or
    None."""
    reports, report = os.pipe()
    failures = {}

    def wait_worker(worker, *expected):
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        worker.pid = 0
        if status not in expected:
            failures[worker.role.__name__] = status

    for worker in workers:
        worker.start(choice.random(), report)
    while not failures and goes_on():
        time.sleep(0.2 + choice.random())
        victim = choice.choice([worker for worker in workers if worker.role in MORTAL])
        os.kill(victim.pid, signal.SIGKILL)
        wait_worker(victim, 0, -signal.SIGKILL)
        victim.count("kills")
        victim.start(choice.random(), report)
    workers[0].ended.value = 1
    for worker in workers:
        wait_worker(worker, 0)
    os.close(report)
    with os.fdopen(reports, errors="replace") as file:
        return f"{failures}: {file.read()}" if failures else None


def under_stress(seconds, seed, needed=frozenset(), expected=frozenset(EXPECTED), circumstances=None):
    """Runs all roles under `circumstances`, a context, for so long, and on until the needed counters, and the counters of
    each run, have moved: a slow machine needs more time. Returns all counters."""
    counters = Counters(len(ROLES))
    defer(setattr, counters.ended, "value", 1)
    needed = {"samples", "rates", "sessions", *needed}
    directory = temporary_directory()
    # A session that stays open, so that the module can't be unloaded.
    with Session() as guard:
        with circumstances or contextlib.nullcontext():
            until = time.monotonic() + seconds
            give_up = until + 600 * PATIENCE
            workers = [Worker(role, row, directory, counters.ended, expected)
                       for role, row in zip(ROLES, counters.rows)]
            failures = work_and_kill(workers, lambda: time.monotonic() < until or time.monotonic() < give_up
                                     and idle(needed, counters.total()), random.Random(seed))
        check(not failures, f"roles that failed, seed {SEED}: {failures}")
        check_sessions_end(guard.id)
    check_equal(sorted(online_cpus()), sorted({0, *CPUS}), "CPUs that are online")
    counted = counters.total()
    print("# " + ", ".join(f"{number} {name}" for name, number in counted.items()), flush=True)
    check_equal(idle(needed, counted), set(), "counters that have not moved")
    return counted


def idle(names, *counted):
    """The counters of these that have not moved."""
    return {name for name in names if not any(counts[name] for counts in counted)}


def check_stress(seconds):
    load()
    # The first round fills caches of the kernel.
    first = under_stress(seconds / 4, SEED)
    before = slab_objects()
    exempt = {"refusals"} | (set() if CPUS else {"flips"})
    second = under_stress(seconds, SEED + 1, idle(set(COUNTED) - exempt, first))
    sessions_before = second["sessions"]
    code = module_range()
    unload()
    check_vmalloc_is_freed(code)
    if has_fault_injection():
        return # the debug kernel delays freeing; its kmemleak detects leaks
    # A leak of one object per session adds up to the number of sessions; half of that is allowed.
    def grown():
        after = slab_objects()
        return {cache: after[cache] - before.get(cache, 0) for cache in after
                if after[cache] - before.get(cache, 0)
                >= max(200, sessions_before / 2) + slab_uncertainty(cache)}

    # The kernel frees some objects after a grace period.
    wait_until(lambda: not grown(),
               f"caches to shrink again after {sessions_before} sessions: {grown()}")


@long_test
@long_tight_test
def concurrent_stress():
    check_stress(SECONDS)


@tight_test
def seconds_of_stress():
    check_stress(3)


concurrent_stress.seconds = int(SECONDS * 10)


@contextlib.contextmanager
def allocations_fail(failed):
    """Makes one in a hundred allocations of the module fail. With four CPUs a session makes some eighty allocations to open, so
    that about half of the sessions open. Afterwards `failed` has the number of failures by kind."""
    code = module_range()
    exclude_9p_requests()
    set_faults("fail_page_alloc", min_order=0)
    for kind in ALLOCATIONS:
        set_faults(kind, ignore_gfp_wait="N", require_start=hex(code.start), interval=1,
                   require_end=hex(code.stop), stacktrace_depth=32, verbose=0, times=FAULTS,
                   task_filter="N", probability=1)
    try:
        yield
    finally:
        failed.update((kind, FAULTS - int(read_fault(kind, "times"))) for kind in ALLOCATIONS)
        for kind in ALLOCATIONS:
            set_faults(kind, probability=0, require_start=0, require_end=hex(2 ** 64 - 1))


@test
def concurrent_stress_with_failing_allocations():
    if not has_fault_injection():
        raise Skip("this kernel has no fault injection")
    load()
    failed = {}
    # The other roles may fail all the time for lack of memory.
    under_stress(SECONDS, SEED + 2, {"balances", "refusals"}, EXPECTED | SHORT_OF_MEMORY, allocations_fail(failed))
    print(f"# allocations that failed: {failed}", flush=True)
    check(all(failed.values()), f"no allocation failed: {failed}")


concurrent_stress_with_failing_allocations.seconds = int(SECONDS * 10)
