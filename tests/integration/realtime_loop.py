# SPDX-License-Identifier: GPL-2.0
"""A CPU that a real-time loop keeps for itself, and what must be done before the loop ends.

The verdict needs no clock: what is done while the loop still runs has not waited for a task of
lower priority on the loop's CPU.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import traceback
from pathlib import Path

from harness import check, check_equal, Failure, PATIENCE, run, Skip, start, wait_until, workload
from stackbeat import online_cpus, S, Session

CPU = 1
# When the loop says that it is over. It ends by itself before the kernel takes what waits for it for hung.
SECONDS = 45 * min(PATIENCE, 2)

RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
STALL_SUPPRESS = Path("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress")
DEBUGFS = Path("/sys/kernel/debug")
# From 6.12 on: what the tasks of normal priority have of a CPU in any case.
FAIR_RUNTIME = DEBUGFS / f"sched/fair_server/cpu{CPU}/runtime"


def hotplug_thread(cpu):
    """The process id of the kernel's thread that takes this CPU online and offline."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == f"cpuhp/{cpu}":
                return int(path.parent.name)
    raise Failure(f"there is no cpuhp/{cpu}")


def switches(pid):
    """How often a task has left its CPU by itself, which it does whenever it was woken."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$",
                         Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def check_not_woken(cpu):
    """No thread of the kernel runs on a CPU for a session of others."""
    thread = hotplug_thread(cpu)
    others = ",".join(str(other) for other in online_cpus() if other != cpu)
    before = switches(thread)
    with Session(cpus=others) as session:
        for settings in ({"state": S.STATE_RUNNING}, {"rate": 99}, {"state": S.STATE_PAUSED},
                         {"state": S.STATE_RUNNING}, {"state": S.STATE_STOPPED}):
            session.set(**settings)
            check_equal(switches(thread), before, f"switches of cpuhp/{cpu} at {settings}")
    check_equal(switches(thread), before, f"switches of cpuhp/{cpu} at the end")


def kernel_stack(task):
    """The functions in which a task (a path in /proc) is in the kernel, leaf first."""
    return " < ".join(line.split()[1].partition("+")[0]
                      for line in (task / "stack").read_text().splitlines())


def kernel_stacks():
    """Those of all processes and threads of the kernel."""
    for task in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield kernel_stack(task)


def where(pid):
    """Where a process and those that it has started are in the kernel."""
    places = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            comm = (task / "comm").read_text().strip()
            places.append(f"{comm}: {kernel_stack(task) or 'not in the kernel'}")
            for child in (task / "children").read_text().split():
                places += where(int(child))
    return places


@contextlib.contextmanager
def move_user_tasks_away():
    """All of them, the caller too: what they start stays where they are."""
    before = {}
    for path in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            os.readlink(path.parent.parent / "exe")
            before[int(path.name)] = os.sched_getaffinity(int(path.name))
    for task, cpus in before.items():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(task, cpus - {CPU})
    try:
        yield
    finally:
        for task, cpus in before.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(task, cpus)


@contextlib.contextmanager
def written(path, value):
    before = path.read_text()
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(before)


class Loop:
    """The loop, with a witness of normal priority that was woken on its CPU and has not run yet."""

    def __init__(self, process, witness):
        self.process = process
        self.witness = witness
        self.is_over = False

    @property
    def pid(self):
        return self.process.pid

    def _check_runs(self, what):
        """Called when that is done: it was done while the loop ran, and kept the CPU."""
        check(not self.is_over and self.process.poll() is None, f"{what}: the loop has ended before")
        check(not select.select([self.witness.stdout], [], [], 0)[0],
              f"{what}: a task of normal priority has run on the loop's CPU")

    def end(self):
        """What waited for it can go on."""
        self.process.kill()
        self.process.wait()

    def _wait_for_end(self, pid, read=None):
        """Waits until a process has ended, or else until the loop is over. Returns what it has said to
        the file descriptor `read`. Its parent need not have waited for it."""
        said = b""
        poll = select.poll()
        over = self.process.stdout.fileno()
        with open(os.pidfd_open(pid), "rb") as ended:
            for fd in filter(None, (read, ended.fileno(), over)):
                poll.register(fd, select.POLLIN)
            while True:
                ready = {fd for fd, _ in poll.poll()}
                if read in ready:
                    data = os.read(read, 1 << 20)
                    said += data
                    if not data:
                        poll.unregister(read)
                elif ended.fileno() in ready:
                    return said
                elif over in ready:
                    self.is_over = True
                    return said

    def outlasts(self, process, what):
        """Waits for a process that ends while the loop runs. One that does not is let go on."""
        self._wait_for_end(process.pid)
        if self.is_over:
            places = "; ".join(where(process.pid))
            self.end()
            raise Failure(f"{what}: it did not end while the loop ran, but was at {places}")
        self._check_runs(what)

    def run(self, function, *arguments):
        """What function(step, *arguments) returns (something for JSON), which is called in a process of its
        own and must return while the loop runs. It calls step(NAME) before all that may hang, or step(NAME,
        PID) where it waits for another process."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _run_and_report(write, function, arguments)
        os.close(write)
        try:
            said = [json.loads(line) for line in self._wait_for_end(child, read).splitlines()]
            steps = [line for line in said if "step" in line]
            last, pid = steps[-1]["step"], steps[-1]["pid"] or child
            places = "; ".join(where(pid)) if self.is_over else ""
        finally:
            if self.is_over:
                # Or the child could not be killed.
                self.end()
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
        check(not self.is_over, f"{last}: it did not return while the loop ran, but was at {places}")
        self._check_runs(last)
        end = said[-1]
        check("error" not in end, f"{last}: {end.get('error')}")
        check("result" in end, f"{last}: the process has ended within")
        return end["result"]


def _run_and_report(say, function, arguments):
    """Never returns."""
    def tell(**line):
        os.write(say, json.dumps(line).encode() + b"\n")

    def step(name, pid=0):
        tell(step=name, pid=pid)

    try:
        try:
            step("its begin")
            tell(result=function(step, *arguments))
        except Failure as failure:
            tell(error=str(failure))
        except BaseException:  # pylint: disable=broad-exception-caught
            tell(error=traceback.format_exc().strip())
    finally:
        os._exit(0)


@contextlib.contextmanager
def loop(file=None, seconds=SECONDS):
    """A loop on its CPU, to which nothing else comes, nor is there any help against it. It maps
    `file` as code when it has a SIGUSR1."""
    if CPU not in online_cpus() or len(online_cpus()) < 2:
        raise Skip("there is one CPU")
    with contextlib.ExitStack() as before:
        before.enter_context(move_user_tasks_away())
        before.enter_context(written(RT_RUNTIME, "-1"))
        # The loop holds up grace periods, where these need a thread of the CPU.
        before.enter_context(written(STALL_SUPPRESS, "1"))
        if not (DEBUGFS / "sched").exists():
            run("mount", "-t", "debugfs", "none", DEBUGFS)
        if FAIR_RUNTIME.exists():
            before.enter_context(written(FAIR_RUNTIME, "0"))
        witness = start("cat", stdin=subprocess.PIPE, bufsize=0, text=False,
                        preexec_fn=lambda: os.sched_setaffinity(0, {CPU}))
        wait_until(lambda: Path(f"/proc/{witness.pid}/comm").read_text().strip() == "cat"
                   and "pipe_read" in kernel_stack(Path(f"/proc/{witness.pid}")), "the witness")
        process = start(*workload("rtloop", CPU, seconds, *filter(None, [file])))
        running = Loop(process, witness)
        before.callback(running.end)
        check_equal(process.stdout.readline(), "running\n", "what the loop says")
        witness.stdin.write(b"x")
        yield running
        running.end()
        check_equal(witness.stdout.read(1), b"x", "what the witness says, once there is room for it")
