# SPDX-License-Identifier: GPL-2.0
"""Common parts of measurements in a guest whose clock counts instructions.

Under `tests/env/vm/run --icount` one instruction is one nanosecond of the guest's time. A program that
does a fixed amount of work, and reads the TSC before and after it, measures all instructions of the
guest in between: the work, interrupts, the profiler, its reader.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
PROGRAMS = BUILD / "bench/programs"
SCRATCH = Path("/dev/shm")
RATE = 1000

sys.path.insert(0, str(ROOT / "tests/integration"))
from stackbeat import Netlink  # pylint: disable=wrong-import-position


class Broken(Exception):
    """An invalid measurement."""


def run(*command, **options):
    """Runs a command to its end. Any status other than 0 aborts the measurement."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode:
        raise Broken(f"{' '.join(done.args)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def keep_in_memory(*programs):
    """Copies programs and their libraries to the guest's throw-away layer in memory: opening a file of the
    host is a request to the host, with a varying cost."""
    paths = {"/etc/ld.so.cache", *map(str, programs)}
    for program in programs:
        libraries = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False).stdout
        paths.update(re.findall(r"(/\S+) \(0x", libraries))
    for path in paths:
        os.utime(os.path.realpath(path))


def load():
    run("stackbeat", "load")


def unload():
    run("stackbeat", "unload")


def wait_until(condition, what):
    for _ in range(3000):
        if found := condition():
            return found
        time.sleep(0.01)
    raise Broken(f"timed out waiting for {what}")


def idle_ns():
    """Idle time of CPU 0 without interrupts, in ns."""
    text = Path("/proc/timer_list").read_text()
    return int(re.search(r"idle_sleeptime\s*:\s*(\d+)", text)[1])


def busy_ns():
    """Time of CPU 0 outside idle, from an unknown beginning, in ns."""
    return time.monotonic_ns() - idle_ns()


def cpu_ns(pid):
    """CPU time of all threads of a process, in ns."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in Path(f"/proc/{pid}/task").iterdir())


def peak_kb(pid):
    """Peak memory of a process so far, in KiB."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


class Profiler:
    """No profiler: the baseline. A profiler is a context manager, and runs within the context."""

    name = "none"
    process = None
    # Whether its interrupts have fixed intervals, also on an idle CPU. Such a profiler has no counter
    # before its end.
    fixed = False

    def __init__(self, rate=RATE):
        self.rate = rate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def count(self):
        """Ticks so far."""
        return 0

    def parts(self):
        """{part: its CPU time in ns so far}."""
        return {}


class Floor(Profiler):
    """A timer whose callback does nothing."""

    name = "floor"
    fixed = True

    def __enter__(self):
        run("insmod", BUILD / "bench/floor/floor.ko", f"period={10**9 // self.rate}")
        return self

    def __exit__(self, *_):
        run("rmmod", "floor")


class Command(Profiler):
    """A profiler that is a command, which SIGINT ends. Its output is in `said` then."""

    process = said = None

    def __init__(self, rate=RATE):
        super().__init__(rate)
        self.met = set()  # programs that it has profiled before

    def command(self):
        raise NotImplementedError

    def wait(self):
        """Waits until it samples."""
        raise NotImplementedError

    def output(self):
        return (SCRATCH / f"{self.name}.out").read_text(errors="replace")

    def wait_for(self, condition):
        def is_so():
            if self.process.poll() is not None:
                raise Broken(f"{self.name} ended too early: {self.output()}")
            return condition()
        return wait_until(is_so, f"{self.name} to be ready")

    def __enter__(self):
        with open(SCRATCH / f"{self.name}.out", "wb") as output:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([str(word) for word in self.command()],
                                            stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=output, **self.options())
        self.wait()
        return self

    @staticmethod
    def options():
        return {}

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        _, status, self.usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status = os.waitstatus_to_exitcode(status)
        self.said = self.output()
        if status not in (0, -signal.SIGINT):
            raise Broken(f"{self.name}: status {status}: {self.said}")

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.stop()

    def parts(self):
        return {"reader": cpu_ns(self.process.pid)}


class Stackbeat(Command):
    """`stackbeat record` of the whole system, with its default settings."""

    name = "stackbeat"
    netlink = session = None

    def __init__(self, rate=RATE, options=(), name=name):
        super().__init__(rate)
        self.more, self.name, self.path = options, name, SCRATCH / f"{name}.pb.gz"

    def command(self):
        return ("stackbeat", "record", "-a", "-F", self.rate, "-o", self.path, *self.more)

    def find(self):
        for session in self.netlink.sessions():
            if session["owner"] == self.process.pid:
                self.session = session["session"]
        return self.session

    def wait(self):
        self.wait_for(self.find)
        self.wait_for(self.count)
        # Let it read the symbols of this process, too.
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            self.parts()

    def __enter__(self):
        load()
        self.netlink = Netlink()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        last = len(self.netlink.sessions()) == 0
        self.netlink.close()
        if last:
            unload()

    def stats(self):
        return self.netlink.session_get(self.session)["stats"]

    def count(self):
        stats = self.stats()
        if stats["lost_full"] or stats["throttled"]:
            raise Broken(f"samples were lost, or it was throttled: {stats}")
        return stats["ticks"]

    def parts(self):
        return {"ticks": self.stats()["overhead_ns"], **super().parts()}

    def wakeups(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])


class Perf(Command):
    """`perf record` of the whole system."""

    name = "perf"
    path = SCRATCH / "perf.data"
    fixed = True

    def __init__(self, rate=RATE, options=()):
        super().__init__(rate)
        self.more = options

    def command(self):
        # Without perf's own limit of overhead. A period instead of a rate (-F) is equivalent for this event, and
        # makes the records 8 bytes shorter.
        return ("perf", "record", "-a", "-e", "cpu-clock", "-c", 10**9 // self.rate, "-g",
                "-o", self.path, "-D", "-1", "--control", f"fd:{self.control[0]},{self.ack[1]}",
                *self.more)

    def options(self):
        return {"pass_fds": (self.control[0], self.ack[1])}

    def __enter__(self):
        Path("/proc/sys/kernel/perf_cpu_time_max_percent").write_text("0")
        self.control, self.ack = os.pipe(), os.pipe()
        return super().__enter__()

    def wait(self):
        os.write(self.control[1], b"enable\n")
        if os.read(self.ack[0], 5) != b"ack\n\0":
            raise Broken(f"perf is not enabled: {self.output()}")

    def __exit__(self, *error):
        super().__exit__(*error)
        for end in (*self.control, *self.ack):
            os.close(end)


class PerfDwarf(Perf):
    """`perf record` with copies of the stack of its default size, which `perf script` unwinds."""

    name = "perf dwarf"

    def __init__(self, rate=RATE):
        super().__init__(rate, ("--call-graph", "dwarf"))


class Bpftrace(Command):
    """bpftrace counts stacks in the kernel."""

    name = "bpftrace"
    fixed = True

    def command(self):
        return ("bpftrace", "-B", "line", "-e",
                'BEGIN { printf("ready\\n"); } '
                f"profile:hz:{self.rate} {{ @[kstack, ustack] = count(); }}")

    def options(self):
        return {"env": {**os.environ, "BPFTRACE_MAP_KEYS_MAX": "200000"}}

    def wait(self):
        self.wait_for(lambda: "ready" in self.output())


PROFILERS = {profiler.name: profiler
             for profiler in (Profiler, Floor, Stackbeat, Perf, Bpftrace)}


class Window:
    """Counters of the profiler and busy time, from the creation of the Window to end()."""

    def __init__(self, profiler):
        self.profiler = profiler
        self.start = self.now()

    def now(self):
        return {"count": self.profiler.count(), "parts": self.profiler.parts(),
                "busy": busy_ns()}

    def end(self):
        end = self.now()
        return {"count": end["count"] - self.start["count"],
                "busy": end["busy"] - self.start["busy"],
                "parts": {name: value - self.start["parts"][name]
                          for name, value in end["parts"].items()}}


def is_working(pid):
    """Whether a thread of a process runs or waits for a file."""
    return any((task / "stat").read_text().rpartition(")")[2].split()[0] in ("D", "R")
               for task in Path(f"/proc/{pid}/task").iterdir())


def settle(profiler=None):
    """Waits until pending work is done. That takes no real time, as the clock of an idle guest jumps. So also
    wait while the profiler waits for files of the host."""
    time.sleep(3)
    while profiler and profiler.process and is_working(profiler.process.pid):
        time.sleep(0.1)


def measure(profiler, *command, ends=False):
    """work() in an idle guest, with a program that the profiler has profiled before."""
    if profiler.process and (ends or command[0] not in profiler.met):
        work(profiler, *command)
        profiler.met.add(command[0])
    settle(profiler)
    return work(profiler, *command, ends=ends)


@contextlib.contextmanager
def program(*command):
    """Starts a program that prints "ready", waits for a line of input, and works. Yields a function that lets it
    work and returns what it prints then."""
    command = [str(PROGRAMS / command[0]) if "/" not in command[0] else command[0],
               *(str(word) for word in command[1:])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as process:
        if process.stdout.readline() != "ready\n":
            raise Broken(f"{' '.join(command)} does not work")

        def do_work():
            process.stdin.write("\n")
            return json.loads(process.stdout.readline())
        yield do_work


def work(profiler, *command, ends=False):
    """Lets a program work once: see program(). With `ends`, the window also has what a reader does about
    processes that have ended, a second and more after their end.

    Returns the `ticks` (of the TSC) of its work, as it prints them (for a shell: the busy time of the
    window), and the number of its `samples`: with fixed intervals computed from the ticks, else the
    count of the window in proportion to the ticks.
    """
    with program(*command) as do_work:
        # Readers that wake once per second have read the process after this.
        settle(profiler)
        window = Window(profiler)
        answer = do_work()
        if ends:
            settle(profiler)
        seen = window.end()
    seen["ticks"] = answer.get("ticks", seen["busy"])
    if profiler.fixed:
        seen["samples"] = seen["ticks"] * profiler.rate / 1e9
    else:
        seen["samples"] = seen["count"] * seen["ticks"] / seen["busy"]
    return seen


class Results:
    """Raw results, written to /out one by one."""

    def __init__(self, name):
        self.path = Path("/out", f"{name}.json")
        self.rows = []

    def add(self, **row):
        self.rows.append(row)
        self.path.write_text("[\n" + ",\n".join(json.dumps(row) for row in self.rows) + "\n]\n")
        print(json.dumps(row), file=sys.stderr, flush=True)
