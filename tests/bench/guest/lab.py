# SPDX-License-Identifier: GPL-2.0
"""What is measured, and how, in a guest whose clock counts instructions.

Under `tests/env/vm/run --icount` one instruction is one nanosecond of the guest's
time. A program that does a fixed amount of work and takes the time-stamp counter
before and after it, measures what the whole guest executed meanwhile: the work,
interrupts, the profiler, its reader.
"""

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
    """A measurement that says nothing."""


def run(*command, **options):
    """Runs a command to its end; any other status than 0 ends the measurement."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode:
        raise Broken(f"{' '.join(done.args)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def keep_in_memory(*programs):
    """Has programs and their libraries in the guest's throw-away layer, which is memory: each opening
    of a file of the host is a message to it, whose cost is another one each time."""
    paths = {"/etc/ld.so.cache", *map(str, programs)}
    for program in programs:
        said = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False).stdout
        paths.update(re.findall(r"(/\S+) \(0x", said))
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
    raise Broken(f"it never came: {what}")


def idle_ns():
    """How long CPU 0 was idle, interrupts excluded, to the nanosecond."""
    text = Path("/proc/timer_list").read_text()
    return int(re.search(r"idle_sleeptime\s*:\s*(\d+)", text)[1])


def cpu_ns(pid):
    """What all threads of a process have executed, to the nanosecond."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in Path(f"/proc/{pid}/task").iterdir())


def peak_kb(pid):
    """The most memory that a process has had until now."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


class Profiler:
    """Nothing: the truth that the others are compared with. Entered, it runs."""

    name = "none"
    process = None
    # Whether its interrupts come at equal intervals, also on an idle CPU; then it has nothing
    # to count until it ends.
    fixed = False

    def __init__(self, rate=RATE):
        self.rate = rate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def count(self):
        """Beats until now."""
        return 0

    def parts(self):
        """What its parts have executed until now, by name."""
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
    """A profiler that is a command, which SIGINT ends. What it says is in `said`, then."""

    process = said = None

    def __init__(self, rate=RATE):
        super().__init__(rate)
        self.met = set()  # programs whose files it knows

    def command(self):
        raise NotImplementedError

    def wait(self):
        """Returns once it samples."""
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
        # It meets this process, too, whose symbols it reads once.
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


class Perf(Command):
    """`perf record` of the whole system."""

    name = "perf"
    path = SCRATCH / "perf.data"
    fixed = True

    def __init__(self, rate=RATE, options=()):
        super().__init__(rate)
        self.more = options

    def command(self):
        # Without a limit of its own to what it costs. A period instead of a rate (-F) is the same
        # for this event, and makes its records 8 bytes shorter.
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
    """What happens between two moments, of which the program knows the window within."""

    def __init__(self, profiler):
        self.profiler = profiler
        self.start = self.now()

    def now(self):
        return {"count": self.profiler.count(), "parts": self.profiler.parts(),
                "busy": time.monotonic_ns() - idle_ns()}

    def end(self):
        end = self.now()
        return {"count": end["count"] - self.start["count"],
                "busy": end["busy"] - self.start["busy"],
                "parts": {name: value - self.start["parts"][name]
                          for name, value in end["parts"].items()}}


def works(pid):
    """Whether a thread of a process runs, or waits for a file."""
    return any((task / "stat").read_text().rpartition(")")[2].split()[0] in ("D", "R")
               for task in Path(f"/proc/{pid}/task").iterdir())


def settle(profiler=None):
    """Lets what is under way come to its end. Costs nothing: an idle guest's clock jumps, and so
    may be far ahead of a file of the host that a profiler reads."""
    time.sleep(3)
    while profiler and profiler.process and works(profiler.process.pid):
        time.sleep(0.1)


def measure(profiler, *command):
    """work(), in a guest that has come to rest, of a program that the profiler has met."""
    if profiler.process and command[0] not in profiler.met:
        work(profiler, *command)
        profiler.met.add(command[0])
    settle(profiler)
    return work(profiler, *command)


def work(profiler, *command):
    """Runs a program that says that it is ready, waits for a line, and works.

    Returns the `ticks` that its work took, as it says (or, for a shell, as is seen
    from here), and the `samples` that were taken in it: for a timer of equal
    intervals by these, else what was counted around it, in proportion.
    """
    command = [str(PROGRAMS / command[0]) if "/" not in command[0] else command[0],
               *(str(word) for word in command[1:])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as process:
        if process.stdout.readline() != "ready\n":
            raise Broken(f"{' '.join(command)} does not work")
        # It has run a while; readers that wake once in a second have met the process after this.
        settle(profiler)
        window = Window(profiler)
        process.stdin.write("\n")
        said = json.loads(process.stdout.readline())
        seen = window.end()
    seen["ticks"] = said.get("ticks", seen["busy"])
    if profiler.fixed:
        seen["samples"] = seen["ticks"] * profiler.rate / 1e9
    else:
        seen["samples"] = seen["count"] * seen["ticks"] / seen["busy"]
    return seen


class Results:
    """Raw figures, written to /out as they come."""

    def __init__(self, name):
        self.path = Path("/out", f"{name}.json")
        self.rows = []

    def add(self, **row):
        self.rows.append(row)
        self.path.write_text("[\n" + ",\n".join(json.dumps(row) for row in self.rows) + "\n]\n")
        print(json.dumps(row), file=sys.stderr, flush=True)
