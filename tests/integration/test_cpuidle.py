# SPDX-License-Identifier: GPL-2.0
"""A session does not keep an idle CPU from the deepest idle state."""

import time

from harness import check, exact_test, load
from cpuidle import idle_state_times, use_driver, use_governor
from stackbeat import online_cpus, Session
from test_idle_cpus import timer_interrupts

WINDOW = 1.0 # s
DEEPEST = "C6"


def measure_window(cpu):
    """(timer interrupts, share of idle time in the deepest state) of a CPU in a window."""
    interrupts, before = timer_interrupts()[cpu], idle_state_times(cpu)
    time.sleep(WINDOW)
    times = {name: ns - before[name] for name, ns in idle_state_times(cpu).items()}
    return timer_interrupts()[cpu] - interrupts, times[DEEPEST] / sum(times.values())


def median(values):
    return sorted(values)[len(values) // 2]


def busy_ticks(session):
    stats = session.stats()
    return stats["ticks"] - stats["idle"]


def check_sleep(rate):
    """Compares alternating windows with and without a session. The governor looks at the next timer: a CPU
    with timers less than a jiffy apart would keep its scheduler tick, 250 interrupts a second, in a
    shallow state."""
    load()
    cpu = online_cpus()[-1]
    use_governor("menu")
    use_driver()
    windows = {True: [], False: []}
    with Session(rate=rate, cpus=str(cpu)) as session:
        session.start()
        session.stop()
        for _ in range(5):
            windows[False].append(measure_window(cpu))
            session.start()
            before = busy_ticks(session)
            interrupts, deep = measure_window(cpu)
            # Ticks on the busy CPU wake it from no sleep.
            windows[True].append((interrupts - (busy_ticks(session) - before), deep))
            session.stop()
    interrupts, deep = ({with_session: median([window[part] for window in windows[with_session]])
                         for with_session in windows} for part in (0, 1))
    # A tenth of the scheduler ticks that there would be.
    check(interrupts[True] <= interrupts[False] + 25 * WINDOW, f"{interrupts[True]} timer interrupts in {WINDOW} s "
          f"with a session, {interrupts[False]} without: {windows}")
    check(deep[False] >= 0.9, f"the machine is not idle: {windows}")
    check(deep[True] >= 0.9 * deep[False], f"{deep[True]:.2f} of the idle time is in {DEEPEST} with a session, "
          f"{deep[False]:.2f} without: {windows}")


@exact_test
def deep_sleep_is_kept_at_997_hz():
    check_sleep(997)


@exact_test
def deep_sleep_is_kept_at_4000_hz():
    check_sleep(4000)
