# SPDX-License-Identifier: GPL-2.0
"""CPUs that are kept free of the kernel's own work are left alone, unless they are named.

Of a guest that has such CPUs: tests/env/vm/run --append "isolcpus=1 nohz_full=1"."""

from pathlib import Path

from harness import check, check_equal, load, Recording, test
from realtime_loop import check_not_woken
from stackbeat import S
from sample_weights import keep_busy

CPUS = Path("/sys/devices/system/cpu")


def where_cpus_are_isolated(function):
    return test(function) if (CPUS / "isolated").read_text().strip() == "1" else function


def paused_after_samples(recording, session):
    """The counters of each CPU, after some samples, while nothing moves."""
    recording.wait_for(session, "samples", 300)
    recording.netlink.session_set(session["session"], state=S.STATE_PAUSED)
    return recording.netlink.session_get(session["session"])


@where_cpus_are_isolated
def isolated_cpus_have_no_beat():
    load()
    check_equal((CPUS / "nohz_full").read_text().strip(), "1", "nohz_full CPUs")
    for cpu in (0, 1):
        keep_busy(cpu)
    for options in ((), ("-a",)):
        recording = Recording("-F", 997, *options)
        told = paused_after_samples(recording, recording.session())
        check_equal(told["cpus"], "0", "CPUs of the session")
        check(1 not in told["cpu_stats"] or not told["cpu_stats"][1]["ticks"],
              f"beats on an isolated CPU: {told['cpu_stats']}")
        recording.interrupt()
        check(recording.profile().samples, "no samples")


@where_cpus_are_isolated
def isolated_cpus_are_sampled_where_they_are_named():
    load()
    for cpu in (0, 1):
        keep_busy(cpu)
    for cpus, expected in (("1", {1}), ("0-1", {0, 1})):
        recording = Recording("-F", 997, "-C", cpus)
        told = paused_after_samples(recording, recording.session())
        beating = {cpu for cpu, stats in told["cpu_stats"].items() if stats["ticks"]}
        check_equal(beating, expected, f"CPUs with a beat of -C {cpus}")
        recording.interrupt()
        check(recording.profile().samples, "no samples")


@where_cpus_are_isolated
def isolated_cpus_are_not_woken():
    check_not_woken(1)
