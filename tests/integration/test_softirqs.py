# SPDX-License-Identifier: GPL-2.0
"""Softirqs that interrupt the idle task are sampled, in each kind of idle state."""

import math
import time
from pathlib import Path

from harness import check, check_equal, exact_test, load, long_exact_test, one_cpu_test, run, Skip, two_cpu_test
from cpuidle import (open_receivers, make_network, sample_softirqs, send_bursts, SoftirqTrace, stay_awake,
                     stay_on, use_driver)
from stackbeat import online_cpus, S, Session

RATE = 4000


def check_softirqs(cpu, seconds):
    """Bursts of packets arrive at `cpu`, which is idle except for their softirqs, some ms in each 10 ms.

    Each ns of the softirqs is equally likely to have a tick, and ticks are spread more evenly than by
    chance: the variance of a sum of weights of one period each is at most the sum of their squares. The
    bound is five standard deviations. A few us at the begin and end of each softirq, where the timer is
    started and cancelled, may be missed."""
    if "PREEMPT_RT" in Path("/proc/version").read_text():
        raise Skip("threads run the softirqs of this kernel")
    load()
    open_receivers(64)
    send_bursts(10000)
    # Tracepoint probes are called in the order of their registration: the begin of a softirq is traced before
    # the session's timer is started. The budget is at its maximum, as throttling would change the sums.
    with SoftirqTrace(cpu) as trace, Session(rate=RATE, cpus=str(cpu), ring_size=4 << 20,
                                             budget=S.BUDGET_MAX) as session:
        session.map()
        time.sleep(0.5)
        spans, weights = sample_softirqs(session, trace, seconds)
        check_equal(session.stats()["lost_full"], 0, "lost")
    truth, claimed = sum(spans), sum(weights)
    check(truth >= seconds * 10**8, f"only {truth} ns of {seconds} s are in softirqs from idle")
    bound = 5 * math.sqrt(truth * 10**9 / RATE) + 5000 * len(spans)
    check(abs(claimed - truth) <= bound, f"{claimed} ns in {len(weights)} samples of softirqs from idle, which took "
          f"{truth} ns in {len(spans)} softirqs; allowed difference {bound:.0f} ns")


def check_softirqs_of_timers(seconds):
    """A qdisc of the sender's device delays packets until a timer expires and interrupts the idle CPU."""
    make_network()
    run("ip", "netns", "exec", "far", "tc", "qdisc", "add", "dev", "far", "root", "netem", "slot", "10ms", "10ms")
    check_softirqs(online_cpus()[0], seconds)


@one_cpu_test(exact_test)
def softirqs_during_halt_are_sampled():
    check_softirqs_of_timers(2)


@one_cpu_test(long_exact_test)
def softirqs_after_sleep_with_interrupts_off_are_sampled():
    use_driver("masked=1")
    check_softirqs_of_timers(1)


@one_cpu_test(long_exact_test)
def softirqs_during_idle_polling_are_sampled():
    use_driver()
    stay_awake()
    check_softirqs_of_timers(1)


@two_cpu_test(long_exact_test)
def softirqs_steered_from_another_cpu_are_sampled():
    """Receive packet steering moves packets from the sending CPU to another one."""
    home, cpu = online_cpus()[:2]
    stay_on(home)
    make_network()
    Path("/sys/class/net/near/queues/rx-0/rps_cpus").write_text(f"{1 << cpu:x}")
    check_softirqs(cpu, 2)
