# SPDX-License-Identifier: GPL-2.0
"""Each failing allocation causes a clean error and leaves nothing behind.

Needs a kernel with fault injection (tests/env/vm/run --kernel debug).
"""

import contextlib
import ctypes
import errno
import os
from pathlib import Path

from fault_injection import set_faults, exclude_9p_requests
from harness import (check, check_balance, check_equal, defer, is_loaded, load, open_sessions, run,
                     Skip, start, test, unload, use, wait_until, workload)
from stackbeat import Events, libc, mmap, munmap, offset_of_cpu, online_cpus, PAGE, S, Session

# Errors of failing allocations: netlink returns ENOBUFS, and injected faults in copies from or to user
# memory cause EFAULT.
CLEAN = (errno.ENOMEM, errno.ENOBUFS, errno.EFAULT)
# More than the number of allocations of any operation.
ALLOCATIONS_MAX = 2000


class Faults:
    """Makes the N-th allocation of this thread fail."""

    def __init__(self):
        try:
            self.fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Skip("this kernel has no fault injection") from None
        defer(os.close, self.fd)
        # Also allocations that may sleep, and without messages on the console.
        for kind, settings in {"failslab": {"ignore_gfp_wait": 0},
                               "fail_page_alloc": {"ignore_gfp_wait": 0, "ignore_gfp_highmem": 0, "min_order": 0},
                               "fail_usercopy": {}}.items():
            set_faults(kind, verbose=0, **settings)
        exclude_9p_requests()

    def arm(self, number):
        os.pwrite(self.fd, str(number).encode(), 0)

    def disarm(self):
        """Stops injecting faults; returns whether an allocation has failed."""
        failed = None
        while failed is None:
            # The allocation that fails may be one of pread().
            with contextlib.suppress(OSError):
                failed = os.pread(self.fd, 16, 0).strip() == b"0"
        with contextlib.suppress(OSError):
            os.pwrite(self.fd, b"0", 0)
        return failed


def fail_each(what, begin, operation, verify):
    """Calls operation(begin()) with its first allocation failing, its second, and so on, until none fails.

    verify(state, result) checks the effect of each successful call, also if an allocation has failed.
    """
    faults = Faults()
    sessions = len(open_sessions())
    failures = 0
    for number in range(1, ALLOCATIONS_MAX):
        with contextlib.ExitStack() as undo:
            state = begin(undo)
            code, result = 0, None
            faults.arm(number)
            try:
                result = operation(state, undo)
            except OSError as error:
                code = error.errno
            finally:
                failed = faults.disarm()
            if not failed:
                check_equal(code, 0, f"{what}: errno where no allocation failed")
            elif code:
                failures += 1
                check(code in CLEAN, f"{what}: {os.strerror(code)} as allocation {number} failed")
            if not code:
                verify(state, result)
        check_equal(len(open_sessions()), sessions,
                    f"{what}: sessions after allocation {number} failed")
        if not failed:
            break
    else:
        check(False, f"{what}: more than {ALLOCATIONS_MAX} allocations")
    check(failures, f"{what}: {number - 1} allocations failed, but never the operation")
    print(f"# {what}: {number - 1} allocations failed in turn, with {failures} errors", flush=True)


def open_session(undo):
    return undo.enter_context(Session())


def open_device(_, undo):
    fd = os.open("/dev/stackbeat", os.O_RDWR | os.O_CLOEXEC)
    undo.callback(os.close, fd)
    return fd


def check_page(_, fd):
    address = mmap(fd, PAGE)
    check_equal(ctypes.c_uint64.from_address(address).value, S.MAGIC, "the session page's magic")
    munmap(address, PAGE)


def check_set(session, settings, running=False):
    """Checks that settings are in effect; if the session runs, on all of its CPUs."""
    got = session.get()
    for name, value in settings.items():
        if isinstance(value, list):
            check_equal(sorted(got[name]), sorted(value), name)
        else:
            check_equal(got[name], value, name)
    rates = {cpu: stats["rate"] for cpu, stats in got["cpu_stats"].items() if stats["rate"]}
    check_equal(set(rates), set(online_cpus() if running else ()), "CPUs with a sampler")
    # Ticks are slow on debug kernels, so throttling may have halved the rate several times.
    allowed = {got["rate"] >> times for times in range(15)}
    check(allowed.issuperset(rates.values()), f"rates: {rates}, requested {got['rate']}")


def mapper(length, protection, offset):
    def operation(session, undo):
        address = mmap(session.fd, length, protection, offset)
        undo.callback(munmap, address, length)
        return address
    return operation


@test
def opening():
    # The first session sets up more than later ones.
    fail_each("opening the first session", lambda undo: None, open_device, check_page)
    use(Session())
    use(Events())
    fail_each("opening one more", lambda undo: None, open_device, check_page)


@test
def mapping():
    use(Session())
    ring = PAGE + S.RING_SIZE_DEFAULT
    for what, length, protection, offset in (
            ("the consumer page of a CPU", PAGE, 3, offset_of_cpu(0)),
            ("the ring of a CPU", ring, 1, offset_of_cpu(0) + PAGE),
            ("the metadata", PAGE + S.META_RING_SIZE, 1, S.OFFSET_META + PAGE)):
        fail_each(f"mapping {what}", open_session, mapper(length, protection, offset),
                  lambda _, address, length=length: check_equal(
                      len(ctypes.string_at(address, length)), length, "readable bytes"))


@test
def configuring():
    use(Session())
    use(Events())
    settings = {"rate": 997, "pids": [os.getpid(), 1], "tids": [os.getpid()], "cgroups": [1],
                "exclude_comms": ["a", "b"], "cpus": "0", "ring_size": S.RING_SIZE_MIN,
                "watermark": 4096, "max_depth": 9, "budget": 9, "no_jitter": 1}
    fail_each("settings", open_session, lambda session, _: session.set(**settings),
              lambda session, _: check_set(session, settings))


@test
def starting():
    use(Session())
    use(Events())
    start(*workload("threads", 2))

    def begin(undo):
        session = open_session(undo)
        undo.callback(check_stopped, session)
        return session

    def check_stopped(session):
        session.stop()
        check_balance(session.stats())

    fail_each("a start", begin, lambda session, _: session.set(state=S.STATE_RUNNING),
              lambda session, _: check_set(session, {"state": S.STATE_RUNNING}, True))

    def begin_running(undo):
        session = begin(undo)
        session.set(cpus="0", state=S.STATE_RUNNING)
        return session

    fail_each("more CPUs", begin_running, lambda session, _: session.set(cpus="", rate=1999),
              lambda session, _: check_set(session, {"rate": 1999}, True))


@test
def queries():
    session = use(Session(pids=[os.getpid()]))
    for what, ask in (("the state of a session", session.get),
                      ("a list of sessions", session.netlink.sessions),
                      ("the module", session.netlink.module)):
        fail_each(what, lambda undo: session, lambda *_, ask=ask: ask(),
                  lambda _, result, what=what, right=ask(): check_equal(result, right, what))


@test
def opening_files():
    session = use(Session(rate=999))
    start(*workload("threads", 2))
    session.map_metadata()
    session.start()
    seen = []

    def file_records():
        seen.extend(record for record in session.meta.read() if hasattr(record, "inode"))
        return seen

    number = wait_until(file_records, "a file record")[0].file_id
    def open_file(session, undo):
        fd = session.open_file(number)
        undo.callback(os.close, fd)
        return fd

    fail_each("a mapped file", lambda undo: session, open_file,
              lambda _, fd: check_equal(os.pread(fd, 4, 0), b"\x7fELF", "first bytes of the file"))


@test
def loading():
    """Allocations of the kernel's module loader fail, too; only the result can be checked."""
    faults = Faults()
    unload()
    path = Path(run("modinfo", "-n", "stackbeat")[0].strip())
    file = path.read_bytes()
    for number in range(1, ALLOCATIONS_MAX):
        faults.arm(number)
        result = libc.init_module(file, ctypes.c_ulong(len(file)), b"")
        code = ctypes.get_errno()
        failed = faults.disarm()
        if not result:
            # Success: the kernel loads a module even if it can't create a sysfs attribute.
            unload()
        if not failed:
            check_equal(result, 0, f"loading where no allocation failed ({os.strerror(code)})")
            break
        if result:
            check(code in CLEAN, f"{os.strerror(code)} as allocation {number} failed")
            check(not is_loaded(), f"loaded, though allocation {number} failed")
    else:
        check(False, f"loading: more than {ALLOCATIONS_MAX} allocations")
    print(f"# loading: {number - 1} allocations failed in turn", flush=True)
    load()
