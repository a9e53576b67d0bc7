# SPDX-License-Identifier: GPL-2.0
"""A real-time loop that monopolizes a CPU, and operations that must finish while it runs.

The tests need no clock: an operation that finishes while the loop still runs has not waited for a task
of lower priority on the loop's CPU.
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
# Until the loop reports its timeout, and once more until it exits by itself.
SECONDS = 300 * PATIENCE

RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
HUNG_TASK_SECONDS = Path("/proc/sys/kernel/hung_task_timeout_secs")
STALL_SUPPRESS = Path("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress")
DEBUGFS = Path("/sys/kernel/debug")
# The CPU time that is reserved for tasks of normal priority.
FAIR_SERVER_SINCE = (6, 12)
FAIR_RUNTIME = DEBUGFS / f"sched/fair_server/cpu{CPU}/runtime"


def hotplug_thread(cpu):
    """The process ID of the kernel thread that takes this CPU online and offline."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == f"cpuhp/{cpu}":
                return int(path.parent.name)
    raise Failure(f"there is no cpuhp/{cpu}")


def voluntary_switches(pid):
    """The number of voluntary context switches of a task; each wakeup of an idle task adds one."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$",
                         Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def check_not_woken(cpu):
    """Checks that no hotplug thread runs on a CPU for a session on other CPUs."""
    thread = hotplug_thread(cpu)
    others = ",".join(str(other) for other in online_cpus() if other != cpu)
    before = voluntary_switches(thread)
    with Session(cpus=others) as session:
        for settings in ({"state": S.STATE_RUNNING}, {"rate": 99}, {"state": S.STATE_PAUSED},
                         {"state": S.STATE_RUNNING}, {"state": S.STATE_STOPPED}):
            session.set(**settings)
            check_equal(voluntary_switches(thread), before, f"switches of cpuhp/{cpu} at {settings}")
    check_equal(voluntary_switches(thread), before, f"switches of cpuhp/{cpu} at the end")


def kernel_stack(task):
    """The kernel stack of a task (a path in /proc), leaf first."""
    return " < ".join(line.split()[1].partition("+")[0]
                      for line in (task / "stack").read_text().splitlines())


def kernel_stacks():
    """The kernel stacks of all processes and kernel threads."""
    for task in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield kernel_stack(task)


def kernel_stacks_of(pid):
    """The kernel stacks of the threads of a process and of its descendants."""
    stacks = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            comm = (task / "comm").read_text().strip()
            stacks.append(f"{comm}: {kernel_stack(task) or 'not in the kernel'}")
            for child in (task / "children").read_text().split():
                stacks += kernel_stacks_of(int(child))
    return stacks


@contextlib.contextmanager
def move_user_tasks_away():
    """Moves all user tasks, with the caller, off the loop's CPU. Their children inherit that."""
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
    """A running loop, with a witness: a task of normal priority that was woken on its CPU and can't run."""

    def __init__(self, process, witness):
        self.process = process
        self.witness = witness
        self.is_over = False

    @property
    def pid(self):
        return self.process.pid

    def _check_runs(self, what):
        """Checks, after an operation, that the loop has run and has kept its CPU all the time."""
        check(not self.is_over and self.process.poll() is None, f"{what}: the loop ended first")
        check(not select.select([self.witness.stdout], [], [], 0)[0],
              f"{what}: a task of normal priority has run on the loop's CPU")

    def end(self):
        """Kills the loop, so that its waiters can run."""
        self.process.kill()
        self.process.wait()

    def _wait_for_end(self, pid, read=None):
        """Waits until a process has exited or the loop is over, without reaping the process. Returns the
        data from the file descriptor `read`."""
        output = b""
        poll = select.poll()
        over = self.process.stdout.fileno()
        with open(os.pidfd_open(pid), "rb") as ended:
            for fd in filter(None, (read, ended.fileno(), over)):
                poll.register(fd, select.POLLIN)
            while True:
                ready = {fd for fd, _ in poll.poll()}
                if read in ready:
                    data = os.read(read, 1 << 20)
                    output += data
                    if not data:
                        poll.unregister(read)
                elif ended.fileno() in ready:
                    return output
                elif over in ready:
                    self.is_over = True
                    return output

    def check_finishes(self, process, what):
        """Waits for a process, which must exit while the loop runs. Ends the loop if it does not."""
        self._wait_for_end(process.pid)
        if self.is_over:
            stacks = "; ".join(kernel_stacks_of(process.pid))
            self.end()
            raise Failure(f"{what}: it did not exit while the loop ran; kernel stacks: {stacks}")
        self._check_runs(what)

    def run(self, function, *arguments):
        """Calls function(step, *arguments) in another process, and returns its result, which must be valid
        JSON. The function must return while the loop runs. It calls step(NAME) before each operation that
        may hang, or step(NAME, PID) before it waits for another process."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _run_and_report(write, function, arguments)
        os.close(write)
        try:
            messages = [json.loads(line) for line in self._wait_for_end(child, read).splitlines()]
            steps = [message for message in messages if "step" in message]
            last, pid = steps[-1]["step"], steps[-1]["pid"] or child
            stacks = "; ".join(kernel_stacks_of(pid)) if self.is_over else ""
        finally:
            if self.is_over:
                # The child can't be killed while it waits for the loop.
                self.end()
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
        check(not self.is_over, f"{last}: it did not return while the loop ran; kernel stacks: {stacks}")
        self._check_runs(last)
        end = messages[-1]
        check("error" not in end, f"{last}: {end.get('error')}")
        check("result" in end, f"{last}: the process has exited")
        return end["result"]


def _run_and_report(pipe, function, arguments):
    """Child process of Loop.run(): reports steps and the result as lines of JSON. Never returns."""
    def report(**line):
        os.write(pipe, json.dumps(line).encode() + b"\n")

    def step(name, pid=0):
        report(step=name, pid=pid)

    try:
        try:
            step("begin")
            report(result=function(step, *arguments))
        except Failure as failure:
            report(error=str(failure))
        except BaseException:  # pylint: disable=broad-exception-caught
            report(error=traceback.format_exc().strip())
    finally:
        os._exit(0)


@contextlib.contextmanager
def loop(file=None, seconds=SECONDS):
    """Runs a loop on its CPU, without other tasks there and without RT throttling. The loop maps `file` as
    code when it receives a SIGUSR1."""
    if CPU not in online_cpus() or len(online_cpus()) < 2:
        raise Skip("only one CPU")
    with contextlib.ExitStack() as before:
        before.enter_context(move_user_tasks_away())
        before.enter_context(written(RT_RUNTIME, "-1"))
        # The loop blocks grace periods where they need a thread of its CPU.
        before.enter_context(written(STALL_SUPPRESS, "1"))
        if HUNG_TASK_SECONDS.exists():
            before.enter_context(written(HUNG_TASK_SECONDS, "0"))
        if not DEBUGFS.is_mount():
            run("mount", "-t", "debugfs", "none", DEBUGFS)
        if FAIR_RUNTIME.exists():
            before.enter_context(written(FAIR_RUNTIME, "0"))
        elif FAIR_SERVER_SINCE <= tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())):
            raise Skip("the kernel reserves CPU time for other tasks, and has no SCHED_DEBUG to change it")
        witness = start("cat", stdin=subprocess.PIPE, bufsize=0, text=False,
                        preexec_fn=lambda: os.sched_setaffinity(0, {CPU}))
        wait_until(lambda: Path(f"/proc/{witness.pid}/comm").read_text().strip() == "cat"
                   and "pipe_read" in kernel_stack(Path(f"/proc/{witness.pid}")), "the witness")
        process = start(*workload("rtloop", CPU, seconds, *filter(None, [file])))
        running = Loop(process, witness)
        before.callback(running.end)
        check_equal(process.stdout.readline(), "running\n", "output of the loop")
        witness.stdin.write(b"x")
        yield running
        running.end()
        check_equal(witness.stdout.read(1), b"x", "output of the witness after the loop")
