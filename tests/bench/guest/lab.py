# SPDX-License-Identifier: GPL-2.0
"""What is measured, and how, in a guest whose clock counts instructions.

Under `tests/vm/run --icount` one instruction is one nanosecond of the guest's
time. A program that does a fixed amount of work and takes the time-stamp counter
before and after it, measures what the whole guest executed meanwhile: the work,
interrupts, the profiler, its reader.
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
    """A measurement that says nothing."""


def run(*command, **options):
    """Runs a command to its end; any other status than 0 ends the measurement."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode:
        raise Broken(f"{' '.join(done.args)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


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


class Profiler:
    """Nothing: the truth that the others are compared with.

    Entered, it runs. samples() and cost() tell what is known of it until now.
    """

    name = "none"
    process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def count(self):
        """Samples (beats) until now, or None where only its end will tell."""
        return 0

    def parts(self):
        """What its parts have executed until now."""
        return {}


class Floor(Profiler):
    name = "floor"

    def __enter__(self):
        run("insmod", BUILD / "bench/floor/floor.ko", f"period={10**9 // RATE}")
        return self

    def __exit__(self, *_):
        run("rmmod", "floor")

    def count(self):
        return int(Path("/sys/module/floor/parameters/beats").read_text())


class Command(Profiler):
    """A profiler that is a command, ended by SIGINT."""

    command = ()

    def is_ready(self):
        raise NotImplementedError

    def __enter__(self):
        self.errors = open(SCRATCH / f"{self.name}.err", "w+b")
        self.process = subprocess.Popen([str(word) for word in self.command],
                                        stdin=subprocess.DEVNULL, stdout=self.errors,
                                        stderr=self.errors)
        wait_until(self.is_ready, f"{self.name} ready")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        self.errors.close()
        if self.process.returncode not in (0, -signal.SIGINT, 130):
            raise Broken(f"{self.name}: status {self.process.returncode}: {said}")

    def parts(self):
        return {"reader": cpu_ns(self.process.pid)}


class Stackbeat(Command):
    name = "stackbeat"

    def __init__(self, *options):
        self.path = SCRATCH / "stackbeat.pb.gz"
        self.command = ("stackbeat", "record", "-a", "-F", RATE, "-q", "-o", self.path, *options)
        self.netlink = None

    def is_ready(self):
        if self.process.poll() is not None:
            raise Broken(f"stackbeat ended: {(SCRATCH / 'stackbeat.err').read_text()}")
        return any(session["owner"] == self.process.pid for session in self.netlink.sessions())

    def __enter__(self):
        run("stackbeat", "load")
        self.netlink = Netlink()
        super().__enter__()
        self.session = next(session["session"] for session in self.netlink.sessions()
                            if session["owner"] == self.process.pid)
        wait_until(self.count, "beats")
        return self

    def __exit__(self, *error):
        self.netlink.close()
        super().__exit__(*error)
        run("stackbeat", "unload")

    def stats(self):
        return self.netlink.session_get(self.session)["stats"]

    def count(self):
        stats = self.stats()
        if stats["lost_full"] or stats["throttled"]:
            raise Broken(f"samples were lost, or it was throttled: {stats}")
        return stats["beats"]

    def parts(self):
        return {"callback": self.stats()["cost"], **super().parts()}


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


def settle():
    """Lets what is under way come to its end. Costs nothing: an idle guest's clock jumps."""
    time.sleep(3)


def measure(profiler, program, *arguments):
    """Runs a program that tells the ticks of its work: {"ticks", "samples", "parts"}.

    It waits for a line before that work, so that nothing else is in the window.
    `samples` are those within the work: what was counted around it, in proportion.
    """
    settle()
    command = [str(word) for word in (PROGRAMS / program, *arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as process:
        if process.stdout.readline() != "ready\n":
            raise Broken(f"{' '.join(command)} does not work")
        window = Window(profiler)
        process.stdin.write("\n")
        ticks = json.loads(process.stdout.readline())["ticks"]
        seen = window.end()
    seen["ticks"] = ticks
    seen["samples"] = seen["count"] * ticks / seen["busy"]
    return seen


@contextlib.contextmanager
def results(name):
    """A dictionary that is written to /out at the end of the block."""
    result = {}
    yield result
    Path("/out", f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
