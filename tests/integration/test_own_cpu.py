# SPDX-License-Identifier: GPL-2.0
"""
The CPU time that stackbeat states for its own processes, beside what a control group has counted for them.

The numbers differ by the end of a process, which comes after its statement: a fiftieth of a second. On the host's clock,
that is any time for which the host runs something else meanwhile.
"""

import re
import subprocess

from harness import (Recording, cgroup_mount, check, check_within, defer, exact_test, long_exact_test, make_cgroup, start,
                     wait_until)
from test_serve import Server

# Programs that start and end, each with mappings, unwind tables and symbols of its own.
PROGRAMS = "while :; do python3 -c 'import json'; ls -lR /usr/bin >/dev/null; sed --version >/dev/null; done"
# The other parts are the module's: its ticks and probes interrupt other processes, too, its worker is a kernel thread.
PROCESS_PARTS = ("unwind tables", "reading", "symbols", "writing", "http")
SHARE = 0.05


class Group:
    """A control group, which counts the CPU time of all processes that were started in it."""

    def __init__(self, name):
        self.path = make_cgroup(cgroup_mount(), name)
        # Processes that were killed leave the group when they are reaped.
        defer(wait_until, lambda: "populated 0" in (self.path / "cgroup.events").read_text(), f"an empty group {name}")

    def enter(self):
        (self.path / "cgroup.procs").write_text("0")

    def cpu_s(self):
        return int(re.search(r"^usage_usec (\d+)", (self.path / "cpu.stat").read_text(), re.M)[1]) / 1e6


def check_share(stated, group, what):
    used = group.cpu_s()
    check_within(stated, (used * (1 - SHARE), used * (1 + SHARE)), f"CPU time of {what}, in s")


def stated_by_record(text):
    line = re.search(r"^stackbeat: overhead [\d.]+ s of CPU time: (.*)$", text, re.M)
    check(line, f"no CPU time in {text}")
    parts = dict(re.findall(r"([a-z ]+?) ([\d.]+) s(?:, |$)", line[1]))
    check(list(parts) == ["sampling", "mappings", "unwind tables", "reading", "symbols", "writing"], f"parts {parts}")
    return sum(float(parts[part]) for part in PROCESS_PARTS if part in parts)


def check_record(name, *arguments, command=()):
    group = Group(f"record-{name}")
    err = Recording("-v", "-F", 199, *arguments, command=command, preexec_fn=group.enter).end()
    check_share(stated_by_record(err), group, f"record, {name}: {err}")


@long_exact_test
def record_counts_all_its_processes():
    # On a machine without any sample, there is no profile.
    little = start("sh", "-c", "while sleep 0.1; do :; done")
    check_record("idle", "-a", "-d", 3, "--no-cache")
    little.kill()
    start("sh", "-c", PROGRAMS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check_record("busy", "-a", "-d", 5)


@exact_test
def record_does_not_count_its_command():
    other = Group("command")
    loop = PROGRAMS.replace("while :", "for i in 1 2 3")
    check_record("command", "--no-cache", command=("sh", "-c", f"echo $$ >{other.path}/cgroup.procs; {loop}"))
    check(other.cpu_s() > 0, "the command used no CPU time in its group")


def stated_by_serve(server):
    text = server.get("/metrics")[1].decode()
    parts = dict(re.findall(r'^stackbeat_overhead_seconds_total\{part="([^"]+)"\} ([\d.]+)$', text, re.M))
    check(set(PROCESS_PARTS) < set(parts), f"parts {parts}")
    return sum(float(parts[part]) for part in PROCESS_PARTS), text


def await_windows(server, count):
    def written():
        text = server.get("/metrics")[1].decode()
        return int(re.search(r"^stackbeat_windows_written_total (\d+)$", text, re.M)[1]) >= count
    wait_until(written, f"{count} windows")


@long_exact_test
def serve_counts_all_its_processes():
    group = Group("serve")
    server = Server("-F", 49, "--window", 5, preexec_fn=group.enter)
    await_windows(server, 1)
    check_share(stated_by_serve(server)[0], group, "serve, idle")
    programs = start("sh", "-c", PROGRAMS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await_windows(server, 4)
    programs.kill()
    # A process that names functions counts when it has ended, which takes long after a busy time.
    wait_until(lambda: abs(stated_by_serve(server)[0] / group.cpu_s() - 1) <= SHARE, "the CPU time of serve, busy")
    server.stop()
