# SPDX-License-Identifier: GPL-2.0
"""Common parts of the integration tests: registration, checks, processes and recordings.

A test is a function with @test; with @exact_test if it compares counts with time, and so needs a
guest whose clock counts instructions; with @tight_test if it needs a module with small limits; or with
@server_test if it needs programs that tests/interop/servers/build builds. With @long_test, @long_exact_test
and @long_tight_test, it belongs to the tier `long`, which `make check` does not run (tests/README.md). A test
passes if it returns. Processes, files and settings of a test are cleaned up when it ends.
"""

import contextlib
import functools
import inspect
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pprof
import stackbeat

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = Path(os.environ.get("B", ROOT / "build")).resolve() / "workloads"

# Debug kernels are slower: tests do less there.
SLOWDOWN = 10 if re.search(r"-(debug|kcsan)$", os.uname().release) else 1
# By how much timeouts, which only end what hangs, are longer: by a factor of the host, too.
PATIENCE = SLOWDOWN * int(os.environ.get("STACKBEAT_PATIENCE", "1"))

# wait_until() gives up after at least this number of polls.
polls_least = 0  # pylint: disable=invalid-name

# The tests of each kind of guest and tier, by name: (kind, tier) -> {name: function}.
KINDS = ("default", "exact", "tight", "server")
TIERS = ("check", "long")
TESTS = {(kind, tier): {} for kind in KINDS for tier in TIERS}


class Failure(Exception):
    """A check has failed."""


class Skip(Exception):
    """The test can't run on this machine."""


def _registers(kind, tier):
    def register(function):
        name = f"{Path(inspect.getfile(function)).stem.removeprefix('test_')}.{function.__name__}"
        if any(name in TESTS[kind, other] for other in TIERS):
            raise ValueError(f"{name} is registered twice")
        TESTS[kind, tier][name] = function
        return function
    return register


test = _registers("default", "check")
long_test = _registers("default", "long")
exact_test = _registers("exact", "check")
long_exact_test = _registers("exact", "long")
tight_test = _registers("tight", "check")
long_tight_test = _registers("tight", "long")
server_test = _registers("server", "check")


def one_cpu_test(register):
    """`register`, as @exact_test, in a guest with one CPU."""
    return register if os.cpu_count() == 1 else lambda function: function


def two_cpu_test(register):
    """`register` in a guest with more CPUs: the suite `steered` has two."""
    return register if os.cpu_count() > 1 else lambda function: function


# --- checks ------------------------------------------------------------------


def check(condition, message):
    if not condition:
        raise Failure(message)


def check_equal(actual, expected, what):
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")


def check_no_fault(fault, subject):
    """Fails with `fault`, unless it is None. The subject is formatted only then, as its text may be long."""
    if fault:
        raise Failure(f"{fault}, in {subject}")


def check_within(actual, bounds, what):
    low, high = bounds
    check(low <= actual <= high, f"{what}: {actual}, expected {low} to {high}")


@contextlib.contextmanager
def fails_with(code, what, text=None):
    """Expects the block to end in OSError `code`; a netlink error must match the pattern `text`."""
    try:
        yield
    except OSError as error:
        check(error.errno == code,
              f"{what}: {os.strerror(error.errno)}, expected {os.strerror(code)}")
        if text:
            message = getattr(error, "text", "")
            check(re.search(text, message), f"{what}: the message is {message!r}, expected {text!r}")
    else:
        raise Failure(f"{what}: not refused, expected {os.strerror(code)}")


def binomial_bounds(count, share, chance=1e-7):
    """The lowest and the highest number of hits in `count` draws: an exact two-sided interval, which is left with this
    chance. A run of all tests compares some tens of numbers with such bounds, and must not fail by chance."""
    tail = chance / 2

    def probability(hits):
        return math.exp(math.lgamma(count + 1) - math.lgamma(hits + 1)
                        - math.lgamma(count - hits + 1) + hits * math.log(share)
                        + (count - hits) * math.log1p(-share))

    low = total = 0
    while (total := total + probability(low)) <= tail:
        low += 1
    high, total = count, 0
    while (total := total + probability(high)) <= tail:
        high -= 1
    return low, high


def check_balance(stats, what="ticks"):
    """Checks that each tick is counted in exactly one of the outcomes."""
    outcomes = ("samples", "lost_full", "lost_bad_tail", "idle", "filtered")
    check_equal(stats["ticks"], sum(stats[name] for name in outcomes), f"{what}, compared with {stats}")


# --- processes and clean-up ---------------------------------------------------

_cleanup = contextlib.ExitStack()


def defer(function, *arguments):
    """Calls function when the test ends, whether it has passed or not."""
    _cleanup.callback(function, *arguments)


def run_cleanups():
    _cleanup.close()


def use(manager):
    """Enters a context until the test ends."""
    return _cleanup.enter_context(manager)


def temporary_directory():
    path = Path(tempfile.mkdtemp(prefix="stackbeat-"))
    defer(shutil.rmtree, path)
    return path


def _kill_process(process):
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def start(*command, **options):
    """Starts a process that is killed when the test ends, with its output in pipes."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               "text": True, **options}
    process = subprocess.Popen([str(word) for word in command], **options)
    defer(_kill_process, process)
    return process


def finish(process, status=0):
    """Waits for a process and returns (stdout, stderr). Fails if its exit status is another one."""
    out, err = process.communicate()
    check(process.returncode == status,
          f"{' '.join(process.args)}: status {process.returncode}, expected {status}; "
          f"output: {(err or out or '').strip()}")
    return out, err


def run(*command, status=0, **options):
    return finish(start(*command, **options), status)


def workload(name, *arguments):
    return [WORKLOADS / name, *arguments]


def user_ticks(process):
    """The CPU time of a process in user mode, in ticks of the kernel's clock."""
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11])


def wait_for_work(processes, ticks):
    """Waits until each process has worked for some ticks of CPU time in user mode. A look counts one of them at most: time in which
    the host did not run the CPU is CPU time of a process, too, and can be many ticks at once."""
    before, worked = {process: user_ticks(process) for process in processes}, dict.fromkeys(processes, 0)

    def have_worked():
        for process in processes:
            now = user_ticks(process)
            worked[process] += now > before[process]
            before[process] = now
        return min(worked.values()) >= ticks
    wait_until(have_worked, "CPU time of the processes")


def start_busy(*command, **options):
    """Starts a process that uses the CPU all the time, and waits until it does: start() returns while the kernel still maps the
    program, and a virtual CPU that the host does not run may stay there for long."""
    process = start(*command, **options)
    wait_for_work([process], 2)
    return process


def start_waiting(*command):
    """Starts a process that executes `command` at release()."""
    return start("/bin/sh", "-c", 'read -r line; exec "$@"', "sh", *command,
                 stdin=subprocess.PIPE)


def release(process):
    process.stdin.write("\n")
    process.stdin.flush()


def cgroup_mount():
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            return Path(line.split()[1])
    path = Path(tempfile.mkdtemp(prefix="cgroup-"))
    run("mount", "-t", "cgroup2", "none", path)
    return path


def make_cgroup(parent, name):
    path = parent / name
    path.mkdir()
    defer(path.rmdir)
    return path


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def wait_until(condition, what):
    """Waits until condition() is true, and returns its result. Fails only after a long time, so that no
    result depends on the speed of the machine. A clock that counts instructions jumps by each sleep while all
    CPUs wait for files of the host: there, the number of polls counts."""
    until = time.monotonic() + 600 * PATIENCE
    polls = 0
    while polls < polls_least or time.monotonic() < until:
        result = condition()
        if result:
            return result
        # Later polls are rare, to leave the CPU to what is waited for.
        time.sleep(min(0.005 + polls * 0.0001, 0.1))
        polls += 1
    raise Failure(f"timed out waiting for {what}")


@contextlib.contextmanager
def steady_clock(process):
    """Until `process` has ended. While all CPUs wait for a file of the host, a clock that counts instructions jumps from timer to
    timer: without the timers of a session, over the time after which reading a file has hung, so that its names are missing. From the
    end of the session on, an idle process keeps the CPU from waiting."""
    if not polls_least or not os.path.exists("/dev/stackbeat"):
        yield
        return
    watch, ended = stackbeat.watch_closing("/dev/stackbeat"), os.pidfd_open(process.pid)
    busy = []

    def keep_busy():
        if ended not in select.select([watch, ended], [], [])[0]:
            busy.append(start("chrt", "--idle", "0", "sh", "-c", "while :; do :; done"))
    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        os.close(watch)
        os.close(ended)
        for spinner in busy:
            spinner.kill()
            spinner.wait()


# --- the module and the command ----------------------------------------------


def is_loaded():
    return Path("/sys/module/stackbeat/refcnt").exists()


def module_range():
    """The address range of the loaded module."""
    line = next(line for line in Path("/proc/modules").read_text().splitlines()
                if line.startswith("stackbeat "))
    start_address = int(line.split()[5], 16)
    check(start_address, "the kernel hides its addresses")
    return range(start_address, start_address + int(line.split()[1]))


def load():
    if not is_loaded():
        run("stackbeat", "load")


def unload():
    if is_loaded():
        run("stackbeat", "unload")


def open_sessions():
    with stackbeat.Netlink() as netlink:
        return netlink.sessions()


def check_sessions_end(*others):
    """Waits until all sessions but `others` have ended. The session of a killed reader ends late if the
    module was reading the mappings of that process, as the module then holds its memory for a moment."""
    def left():
        return [session for session in open_sessions() if session["session"] not in others]
    wait_until(lambda: not left(), f"the end of {left()}")


class Recording:
    """A running `stackbeat record`: its process, its session and, when it has ended, its profile."""

    def __init__(self, *arguments, command=(), within=(), **options):
        """`within`: a prefix of the command line, such as a program that enters a namespace."""
        self.path = temporary_directory() / "profile.pb.gz"
        tail = ["--", *command] if command else []
        # The default is elapsed time for a machine of usual speed.
        slow = ["--symbolize-timeout", 120 * PATIENCE] if PATIENCE > 1 else []
        self.process = start(*within, "stackbeat", "record", "-o", self.path, *slow, *arguments, *tail, **options)
        self.out = self.err = ""

    @functools.cached_property
    def netlink(self):
        """Opened on first use, as the recording may have to load the module first."""
        return use(stackbeat.Netlink())

    def session(self):
        """Waits until the session is running, and returns it."""
        def running():
            if self.process.poll() is not None:
                raise Failure(f"record exited before its session ran: {self.process.stderr.read()}")
            return next((session for session in self.netlink.sessions()
                         if session["owner"] == self.process.pid
                         and session["state"] == stackbeat.S.STATE_RUNNING), None)
        return wait_until(running, "a running session")

    def stats(self, session):
        return self.netlink.session_get(session["session"])["stats"]

    def wait_for(self, session, counter, least):
        wait_until(lambda: self.stats(session)[counter] >= least, f"{least} {counter}")

    def wait_for_each(self, **wanted):
        """Waits until a running recording of about 1000 Hz has samples of each of the wanted `pids` or `tids`: a session beside it
        has some of each. Their number alone may be of one of them, while the CPU makes up for time of another one in which the host
        did not run it."""
        (kind, ids), = wanted.items()
        with stackbeat.Session(rate=1000, watermark=4096, **wanted) as beside:
            beside.start()
            counts = dict.fromkeys(ids, 0)

            def are_sampled():
                for sample in beside.read():
                    counts[getattr(sample, kind.removesuffix("s"))] += 1
                return min(counts.values()) >= 50
            wait_until(are_sampled, f"samples of {wanted}")

    def stop(self, session):
        """Stops the session and returns its final counters.

        The reader is stopped by SIGSTOP meanwhile, as it would close the session at once.
        """
        self.interrupt(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        self.netlink.session_set(session["session"], state=stackbeat.S.STATE_STOPPED)
        stats = self.stats(session)
        self.interrupt(signal.SIGCONT)
        return stats

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def end(self, status=0):
        """Waits until record exits, and returns its standard error."""
        with steady_clock(self.process):
            self.out, self.err = finish(self.process, status)
        return self.err

    def profile(self, status=0):
        self.end(status)
        return pprof.Profile(self.path)


def keep_profile(recording, name):
    """Copies a profile to /out, where it exists, for tests that run on the host."""
    if os.path.isdir("/out"):
        shutil.copy(recording.path, f"/out/{name}.pb.gz")


def record(*arguments, command=(), status=0):
    """Runs a recording to its end: (profile, stdout, stderr)."""
    recording = Recording(*arguments, command=command)
    profile = recording.profile(status)
    return profile, recording.out, recording.err


def comment(profile, key):
    """The numbers in the profile's comment `key`: {"": total, cause: number, ...}."""
    for line in profile.comments:
        found = re.fullmatch(rf"{key}: (\d+)(?: \((.*)\))?", line)
        if not found:
            continue
        numbers = {"": int(found[1])}
        for part in found[2].split(", ") if found[2] else ():
            cause, _, number = part.rpartition(" ")
            numbers[cause] = int(number)
        return numbers
    raise Failure(f"the profile has no comment {key!r}: {profile.comments}")


def is_kernel(frame):
    return frame.address >> 63 or frame.file.startswith("[kernel")


def kernel_part(sample):
    return [frame.function for frame in sample.frames if is_kernel(frame)]


def user_part(sample):
    return [frame.function for frame in sample.frames if not is_kernel(frame)]


def samples_of(profile, comm):
    return [sample for sample in profile.samples if sample.labels.get("comm") == comm]


def has_whole_stack(sample):
    """Whether a sample was unwound in the kernel, or by a copy that has the stack up to its end.

    The first samples of a program, before its unwind tables are there, carry a copy of limited size,
    which does not have the stack below another one either.
    """
    return sample.labels.get("truncated") != "stack-copy"
