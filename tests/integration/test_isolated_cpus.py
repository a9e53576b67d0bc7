# SPDX-License-Identifier: GPL-2.0
"""Isolated CPUs are not sampled, unless they are selected.

Needs a guest with such CPUs: tests/env/vm/run --append "isolcpus=1 nohz_full=1"."""

import contextlib
from pathlib import Path

from harness import check, check_equal, load, Recording, test, wait_until
from realtime_loop import check_not_woken
from stackbeat import S
from sample_weights import keep_busy

CPUS = Path("/sys/devices/system/cpu")


def isolated_cpu_test(function):
    return test(function) if (CPUS / "isolated").read_text().strip() == "1" else function


@contextlib.contextmanager
def both_busy():
    """Both CPUs are busy until the block ends: the rest of a recording runs on the CPU that is not isolated."""
    programs = [keep_busy(cpu) for cpu in (0, 1)]
    yield
    for program in programs:
        program.kill()


def paused_after_samples(recording, session, cpus=()):
    """Pauses a session after some samples, and ticks of these CPUs, and returns it with its final counters. The host may not
    run one CPU while another one takes all samples."""
    recording.wait_for(session, "samples", 300)
    wait_until(lambda: all(recording.netlink.session_get(session["session"])["cpu_stats"].get(cpu, {}).get("ticks")
                           for cpu in cpus), f"ticks of CPUs {cpus}")
    recording.netlink.session_set(session["session"], state=S.STATE_PAUSED)
    return recording.netlink.session_get(session["session"])


@isolated_cpu_test
def isolated_cpus_are_not_sampled_by_default():
    load()
    check_equal((CPUS / "nohz_full").read_text().strip(), "1", "nohz_full CPUs")
    for options in ((), ("-a",)):
        recording = Recording("-F", 997, *options)
        with both_busy():
            reported = paused_after_samples(recording, recording.session())
        check_equal(reported["cpus"], "0", "CPUs of the session")
        check(1 not in reported["cpu_stats"] or not reported["cpu_stats"][1]["ticks"],
              f"ticks on an isolated CPU: {reported['cpu_stats']}")
        recording.interrupt()
        check(recording.profile().samples, "no samples")


@isolated_cpu_test
def isolated_cpus_are_sampled_on_request():
    load()
    for cpus, expected in (("1", {1}), ("0-1", {0, 1})):
        recording = Recording("-F", 997, "-C", cpus)
        with both_busy():
            reported = paused_after_samples(recording, recording.session(), expected)
        sampled = {cpu for cpu, stats in reported["cpu_stats"].items() if stats["ticks"]}
        check_equal(sampled, expected, f"CPUs with ticks of -C {cpus}")
        recording.interrupt()
        check(recording.profile().samples, "no samples")


@isolated_cpu_test
def isolated_cpus_are_not_woken():
    check_not_woken(1)
