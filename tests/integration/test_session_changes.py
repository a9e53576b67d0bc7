# SPDX-License-Identifier: GPL-2.0
"""Changes of a running session take effect immediately and keep weights correct. The messages are encoded
here, from stackbeat.h alone."""

import json
import math
import os
import random
import re
import select
import signal
import time
import traceback

from harness import (check, check_balance, check_equal, comment, load, long_exact_test, long_test,
                     Recording, run, SLOWDOWN, start, test, use, wait_until, workload)
from stackbeat import Events, online_cpus, S, samples_of, Session
from sample_weights import by_cpu, check_span, keep_busy
from test_filters import try_settings

PARTS_ALL = S.PART_KERNEL | S.PART_USER
# With this budget debug kernels are not throttled either.
SETTINGS = {"ring_size": 16 << 20, "watermark": 64 << 10, "budget": S.BUDGET_MAX}


def period_of(sample):
    return sample.weight // (1 + sample.missed)


def period(rate):
    return 10**9 // rate


def wait_for_ticks_of_each(session, cpus, count):
    """The host may deschedule one virtual CPU while another one takes many ticks."""
    def ticks():
        stats = session.get()["cpu_stats"]
        return [stats[cpu]["ticks"] for cpu in cpus]
    least = [number + count for number in ticks()]
    wait_until(lambda: all(number >= end for number, end in zip(ticks(), least)), f"{count} ticks of CPUs {cpus}")


def wait_for_ticks(session, count):
    at = session.stats()["ticks"]
    wait_until(lambda: session.stats()["ticks"] >= at + count, f"{count} ticks")


@long_test
def rate_takes_effect_within_one_old_period():
    for cpu in online_cpus()[:2]:
        keep_busy(cpu)
    with Session(rate=1, **SETTINGS) as session:
        session.start()
        old = 1
        for rate in (1000, 3, 500, 20, 2000, 1, 250):
            session.set(rate=rate)
            at = time.monotonic_ns()
            check_equal(session.stats()["rate"], rate, "rate in effect")
            if rate < 50:
                wait_for_ticks(session, 8)
            else:
                wait_for_ticks_of_each(session, online_cpus()[:2], 50)
            samples = session.read()
            for cpu, own in by_cpu(samples).items():
                after = [period_of(sample) for sample in own if sample.time > at]
                # A tick that was due before the change keeps the old period.
                check(set(after[:1]) <= {period(old), period(rate)} and set(after[1:]) <= {period(rate)},
                      f"CPU {cpu}, from {old} to {rate} Hz: periods of {after}")
            check(all(any(sample.cpu == cpu and period_of(sample) == period(rate)
                          for sample in samples) for cpu in online_cpus()[:2]) or rate < 50,
                  f"no sample of {rate} Hz on some CPU")
            old = rate
        session.stop()
        check_balance(session.stats())


@test
def rate_takes_effect_on_idle_cpus():
    cpu = online_cpus()[-1]
    with Session(rate=1, cpus=str(cpu), **SETTINGS) as session:
        session.start()
        time.sleep(1.6)
        session.read()
        session.set(rate=1000)
        at = time.monotonic_ns()
        keep_busy(cpu)
        wait_for_ticks(session, 100)
        samples = [sample for sample in session.read() if sample.time > at]
        periods = {period_of(sample) for sample in samples}
        # The session is charged for the time in which the host does not run the kernel's worker, and is throttled.
        known = {period(1000) << shift for shift in range(10 if session.stats()["throttled"] else 1)}
        check(period(1000) in periods and periods <= known, f"periods: {periods}")


@long_exact_test
def rate_changes_preserve_the_phase():
    """With fixed intervals the phase advances by exactly one period from tick to tick, when time is measured
    in periods of the rate that is set at each moment. So no change loses, duplicates or restarts a
    tick."""
    load()
    keep_busy(0)
    choice = random.Random(1)
    changes = []
    with Session(rate=500, no_jitter=1, **SETTINGS) as session:
        session.start()
        for _ in range(300):
            rate = choice.choice((100, 200, 400, 500, 800, 1000, 1600))
            before = time.monotonic_ns()
            session.set(rate=rate)
            changes.append((before, time.monotonic_ns(), rate))
            end = time.monotonic_ns() + choice.randrange(8000000)
            while time.monotonic_ns() < end:
                pass
        session.stop()
        samples = session.read()
        check_balance(session.stats())
        check_equal(session.stats()["throttled"], 0, "throttled")

    def phase(moment):
        """(elapsed periods since the first change, uncertainty)."""
        elapsed = uncertainty = 0.0
        for (before, after, rate), (until, _, _) in zip(changes, changes[1:] + [(10**30, 0, 0)]):
            if moment <= before:
                break
            elapsed += (min(moment, until) - before) / period(rate)
        for before, after, rate in changes:
            # The change took effect at some time within the call. The error is largest at 1,600 Hz.
            if before <= moment + 10**7 and after >= moment - 2 * 10**7:
                uncertainty += (after - before) / period(1600)
        return elapsed, uncertainty

    samples = [sample for sample in samples if sample.time > changes[0][1]]
    check(len(samples) >= 300, f"only {len(samples)} samples")
    for earlier, later in zip(samples, samples[1:]):
        (begin, unsure), (end, more) = phase(earlier.time), phase(later.time)
        check(abs(end - begin - 1 - later.missed) <= 0.05 + unsure + more,
              f"{end - begin:.3f} periods between two ticks, {later.missed} were missed, "
              f"uncertainty {unsure + more:.3f}")


@long_test
def weights_add_up_across_many_rate_changes():
    """Each weight is a multiple of a period that was in effect, and the sum is the elapsed time. A rate change
    adds the variance of less than one and a half intervals."""
    keep_busy(0)
    choice = random.Random(2)
    rates = [700]
    taken = []
    with Session(rate=rates[0], cpus="0", **SETTINGS) as session:
        session.start()
        while len(rates) < 300:
            rates.append(choice.randrange(700, 5000))
            session.set(rate=rates[-1])
            wait_for_ticks(session, choice.randrange(60))
            taken += session.take()
        session.stop()
        samples = samples_of(taken + session.take())
        stats = session.stats()
        check_balance(stats)
        check_equal(stats["samples"], stats["ticks"], "ticks with a sample")
        check_equal(stats["tick_time_ns"], sum(sample.weight for sample in samples), "time of the ticks")
        throttled = stats["throttled"]
    periods = {period(rate) << shift for rate in rates for shift in range(8 if throttled else 1)}
    wrong = {period_of(sample) for sample in samples} - periods
    check(not wrong, f"periods that were never in effect: {sorted(wrong)[:5]}")
    span = samples[-1].time - samples[0].time
    claimed = sum(sample.weight for sample in samples[1:])
    longest = 1.5 * max(period_of(sample) for sample in samples)
    bound = 5 * math.sqrt(sum(period_of(sample) ** 2 for sample in samples) / 12
                          + len(rates) * longest ** 2) + longest
    check(bound < span / 10, f"{span} ns are too short for the bound {bound:.0f}")
    check(abs(claimed - span) <= bound, f"weights of {claimed} ns in {span} ns, allowed difference {bound:.0f}")


@test
def paused_session_takes_no_samples():
    keep_busy(0)
    with Session(rate=1000, cpus="0", **SETTINGS) as session:
        session.start()
        for _ in range(5):
            wait_for_ticks(session, 20)
            session.set(state=S.STATE_PAUSED)
            paused = time.monotonic_ns()
            samples = session.read()
            check(all(sample.time <= paused for sample in samples), "a sample while paused")
            check_span(samples, False, "up to the pause")
            check_equal((session.get()["state"], session.stats()["rate"]), (S.STATE_PAUSED, 0),
                        "state and rate while paused")
            poll = select.poll()
            poll.register(session.fd, select.POLLIN)
            check_equal(poll.poll(0), [], "poll events while paused")
            ticks = session.stats()["ticks"]
            run("/bin/true")
            check_equal(session.stats()["ticks"], ticks, "ticks while paused")
            # Settings can be changed while paused.
            session.set(rate=997)
            session.set(rate=1000)
            resumed = time.monotonic_ns()
            session.set(state=S.STATE_RUNNING)
            # A tick is counted before its sample is in the ring.
            wait_until(lambda: session.rings[0].head > session.rings[0].tail, "a sample")
            first = session.read()[0]
            check(resumed < first.time <= time.monotonic_ns(), "the time of the first sample")
            # The paused time is in no weight.
            check(first.weight <= first.time - paused + period(1000),
                  f"{first.weight} ns in the first sample, {first.time - paused} since the pause")
        session.stop()
        check_balance(session.stats())


@test
def filter_change_takes_effect_immediately():
    wanted = [keep_busy(0), keep_busy(0)]
    with Session(rate=1000, cpus="0", pids=[wanted[0].pid], **SETTINGS) as session:
        session.start()
        for process in (*wanted[::-1], *wanted):
            session.set(pids=[process.pid])
            at = time.monotonic_ns()
            written = session.stats()["samples"]
            wait_until(lambda written=written: session.stats()["samples"] >= written + 50,
                       "samples")
            pids = {sample.pid for sample in session.read() if sample.time > at}
            check_equal(pids, {process.pid}, "processes after the change")
        session.set(pids=[])
        wait_until(lambda: {process.pid for process in wanted}
                   <= {sample.pid for sample in session.read()}, "samples of both")


@test
def depth_and_parts_changes_take_effect_immediately():
    start(*workload("deep", 100, 10**12))
    with Session(rate=1000, **SETTINGS) as session:
        session.start()
        for settings, right in (
                ({"max_depth": 10}, lambda sample: len(sample.user) <= 10),
                ({"max_depth": 255}, lambda sample: len(sample.user) <= 255),
                ({"max_depth": 1}, lambda sample: len(sample.user) <= 1),
                ({"parts": S.PART_USER}, lambda sample: not sample.kernel),
                ({"parts": S.PART_KERNEL, "max_depth": 255}, lambda sample: not sample.user),
                ({"parts": PARTS_ALL}, lambda sample: sample.kernel or sample.user)):
            session.set(**settings)
            at = time.monotonic_ns()
            wait_for_ticks(session, 100)
            samples = [sample for sample in session.read() if sample.time > at]
            if settings == {"max_depth": 255}:
                # The host may not run the virtual CPU of the program while the other one takes its 100 ticks.
                wait_until(lambda samples=samples: samples.extend(session.read())
                           or any(len(sample.user) == 103 for sample in samples), "a complete stack")
            check(all(map(right, samples)), f"a sample that {settings} does not allow")
        session.stop()
        check_balance(session.stats())


@test
def cpu_set_change_takes_effect_immediately():
    """At a rate at which this test reads faster than samples arrive."""
    first, second = online_cpus()[:2]
    for cpu in (first, second):
        keep_busy(cpu)
    with Session(rate=200, cpus=str(first), **SETTINGS) as session:
        session.start()
        for wanted in ({second}, {first, second}, {first}, {second}, {first, second}):
            session.set(cpus=",".join(map(str, wanted)))
            at = time.monotonic_ns()
            sampled = {cpu for cpu, stats in session.get()["cpu_stats"].items() if stats["rate"]}
            check_equal(sampled, wanted, "CPUs with a sampler after the change")
            session.map()
            wait_for_ticks(session, 100)
            seen = set()
            # The host may deschedule one virtual CPU while another one takes its 100 ticks.
            wait_until(lambda at=at, seen=seen, wanted=wanted: seen.update(
                sample.cpu for sample in session.read() if sample.time > at) or seen >= wanted,
                "samples of all CPUs")
            check_equal(seen, wanted, "CPUs after the change")
        session.stop()
        check_balance(session.stats())


@test
def added_cpu_wakes_the_reader():
    """poll() returns for the ring of a CPU that is not mapped yet."""
    first, second = online_cpus()[:2]
    keep_busy(second)
    with Session(rate=1000, cpus=str(first), watermark=4096) as session:
        session.start()
        session.rings = [ring for ring in session.rings if ring.cpu == first or ring.close()]
        session.set(cpus=str(second))
        check(session.poll() & select.POLLIN, "no POLLIN")
        session.map()
        check(session.read(), "no samples of the added CPU")


def set_with_room(session, **settings):
    """Changes settings, as soon as there is room for another filter: those that were replaced wait for a grace period, which takes
    as long as the host does not run a CPU."""
    is_filter = {"pids", "exclude_comms"} & set(settings)
    wait_until(lambda: try_settings(session, **settings) or check(is_filter, f"no filter, and refused: {settings}"), "room for a filter")


@long_test
def concurrent_settings_changes():
    """Four processes change a running session at random, a fifth reads it."""
    for cpu in online_cpus()[:2]:
        keep_busy(cpu)
    process = start(*workload("threads", 1))
    # With small rings each read ends soon, even if samples arrive faster than they are read.
    with Session(rate=1000, **SETTINGS | {"ring_size": 256 << 10}) as session:
        session.start()
        children = []
        for seed in range(4):
            child = os.fork()
            if not child:
                status = 1
                try:
                    choice = random.Random(seed)
                    # Each change waits for grace periods, which are long on debug kernels.
                    for _ in range(150 if SLOWDOWN == 1 else 40):
                        session.netlink.__init__()
                        set_with_room(session, **choice.choice((
                            {"rate": choice.randrange(1, 5000)}, {"pids": [process.pid]},
                            {"pids": []}, {"cpus": "0"}, {"cpus": ""}, {"no_jitter": 1}, {"no_jitter": 0},
                            {"exclude_comms": ["nobody"]}, {"state": S.STATE_PAUSED},
                            {"state": S.STATE_RUNNING}, {"max_depth": choice.randrange(1, 1023)},
                            {"budget": choice.randrange(1, 500)}, {"inherit": 0},
                            {"inherit": 1}, {"parts": choice.randrange(1, 4)})))
                        session.netlink.close()
                    status = 0
                except Exception:  # pylint: disable=broad-exception-caught
                    traceback.print_exc()
                finally:
                    os._exit(status)
            children.append(child)
        taken = []
        while children:
            taken += session.take()
            done, status = os.waitpid(-1, os.WNOHANG)
            if done in children:
                check_equal(status, 0, "status of a changing process")
                children.remove(done)
        session.set(state=S.STATE_RUNNING, rate=1000, pids=[], cpus="", parts=PARTS_ALL)
        wait_for_ticks(session, 20)
        session.stop()
        samples = samples_of(taken + session.take())
        stats = session.stats()
        check_balance(stats)
        check_equal(len(samples), stats["samples"], "samples")


# --- commands ----------------------------------------------------------------


def session_line(word, session):
    """A pattern of a line of `stackbeat events` about a session."""
    return rf"^\d+\.\d{{6}}  session {session}  {word}"


@test
def events_are_printed():
    keep_busy(0)
    path = "/run/stackbeat-events"
    with open(path, "w", encoding="utf-8") as file:
        printer = start("stackbeat", "events", stdout=file)

    def find(pattern):
        with open(path, encoding="utf-8") as lines:
            return re.search(pattern, lines.read(), re.M)

    def joined():
        Session().close()
        return find("closed")

    wait_until(joined, "the first event")
    recording = Recording("-F", 20000, "--budget", "0.1", "-C", 0)
    info = recording.session()
    session = info["session"]
    own = rf"\({recording.process.pid}\)"
    wait_until(lambda: find(session_line(rf"opened by stackbeat {own}", session)), "opened")
    wait_until(lambda: find(session_line(rf"changed by stackbeat {own}: 20000 Hz, running",
                                         session)), "started")
    wait_until(lambda: find(session_line(r"throttled on CPU 0 to \d+ Hz", session)), "throttled")

    def recovered():
        """At 2 Hz, the overhead of a tick is within the budget. A sampler recovers from a throttled rate: after a time in which
        the host did not run the CPU, its rate may be 321 Hz for some ticks, so that nothing is left to recover from."""
        run("stackbeat", "rate", 321)
        wait_until(lambda: recording.stats(info)["rate"] < 321, "a throttled rate")
        run("stackbeat", "rate", 2)
        return find(session_line("recovered on CPU 0 to 2 Hz", session))

    wait_until(recovered, "recovered")
    check(find(session_line(r"changed by stackbeat \(\d+\): 321 Hz, running", session)), "no changed rate")
    run("stackbeat", "pause", "--session", session)
    wait_until(lambda: find(session_line(r"changed by stackbeat \(\d+\): 2 Hz, paused",
                                         session)), "paused")
    run("stackbeat", "resume")
    recording.interrupt()
    recording.process.wait()
    wait_until(lambda: find(session_line("closed$", session)), "closed")

    with Session(rate=5000, cpus="0", ring_size=S.RING_SIZE_MIN) as lossy:
        lossy.start()
        wait_until(lambda: find(session_line(r"lost \d+ samples on CPU 0", lossy.id)), "lost")
    cpu = online_cpus()[-1]
    with Session(rate=100) as session:
        session.start()
        for value, word in (("0", "offline"), ("1", "online")):
            with open(f"/sys/devices/system/cpu/cpu{cpu}/online", "w", encoding="utf-8") as file:
                file.write(value)
            wait_until(lambda word=word: find(session_line(rf"CPU {cpu} {word}$", session.id)),
                       f"CPU {word}")
    check(printer.poll() is None, "stackbeat events has exited")
    with open(path, encoding="utf-8") as lines:
        for line in lines.read().splitlines():
            check(re.match(session_line(r"\w", r"\d+"), line), f"a line {line!r}")
    os.unlink(path)


@long_exact_test
def loss_events_are_rate_limited_and_complete():
    events = use(Events())
    keep_busy(0)
    with Session(rate=2000, cpus="0", ring_size=S.RING_SIZE_MIN, budget=S.BUDGET_MAX) as session:
        session.start()
        wait_until(lambda: session.stats()["lost_full"] >= 3000, "losses")
        session.stop()
        lost = session.stats()["lost_full"]
        wait_until(lambda: sum(event["lost_samples"] for event in events.of(session.id, "lost"))
                   == lost, f"{lost} losses in the events")
        times = [event["time"] for event in events.of(session.id, "lost")]
        changes = [event["time"] for name in ("throttled", "recovered") for event in events.of(session.id, name)]
        # The last event is sent at the stop, and further ones where throttling changes the rate. Each event is
        # sent a moment after its tick.
        early = [later - earlier for earlier, later in zip(times, times[1:-1])
                 if later - earlier < 10**9 / 2
                 and not any(abs(change - time) < 10**8 for change in changes for time in (earlier, later))]
        check(not early, f"intervals of loss events: {early} ns")
        check({event["cpu"] for event in events.of(session.id, "lost")} == {0}, "CPUs")


@test
def recording_is_paused_resumed_and_shown_in_status():
    keep_busy(0)
    recording = Recording("-F", 500, "-C", 0)
    session = recording.session()
    recording.wait_for(session, "samples", 100)
    # A reader that runs would push tables and release files meanwhile.
    recording.interrupt(signal.SIGSTOP)
    os.waitid(os.P_PID, recording.process.pid, os.WSTOPPED)
    run("stackbeat", "pause")
    stats = recording.stats(session)
    out, _ = run("stackbeat", "status", "--json")
    shown = json.loads(out)
    module = recording.netlink.module()
    check_equal((shown["version"], shown["abi"], shown["rate_max"]),
                (module["version"], module["abi"], module["rate_max"]), "the module")
    shown, = shown["sessions"]
    own = recording.netlink.session_get(session["session"])
    expected = {name: own[name] for name in ("session", "owner_comm", "rate", "cpus", "max_depth",
                                             "ring_size", "watermark")}
    expected |= {"owner_pid": own["owner"], "state": "paused", "budget_permille": own["budget"],
                 "kernel": True, "user": True, "no_jitter": False, "restricted": False,
                 "use_unwind_tables": bool(own["unwind_tables"]),
                 "goroutines": bool(own["goroutines"] & S.GOROUTINE_ID),
                 "go_creators": bool(own["goroutines"] & S.GOROUTINE_CREATOR),
                 "go_labels": bool(own["goroutines"] & S.GOROUTINE_LABELS),
                 "stack_copy": own["stack_copy"],
                 "stack_copy_every": own["stack_copy_every"]}
    for name, counter in (("ticks", "ticks"), ("samples", "samples"),
                          ("lost_ring_full", "lost_full"),
                          ("lost_bad_reader_position", "lost_bad_tail"),
                          ("idle", "idle"), ("filtered", "filtered"),
                          ("missed_ticks", "missed_ticks"), ("overhead_ns", "overhead_ns"),
                          ("tick_time_ns", "tick_time_ns"), ("throttled", "throttled"),
                          ("current_rate", "rate"),
                          ("samples_without_address_space", "samples_without_address_space"),
                          ("stack_copies", "stack_copies"),
                          ("stack_copies_lost", "stack_copies_lost"),
                          ("kernel_stacks_unwound", "kernel_stacks_unwound"),
                          ("kernel_stacks_compared", "kernel_stacks_compared"),
                          ("kernel_stacks_different", "kernel_stacks_different"),
                          ("frames_by_tables", "frames_by_tables"),
                          ("unwind_rule_misses", "unwind_rule_misses"),
                          ("long_ticks", "long_ticks")):
        expected[name] = stats[counter]
    # The kernel worker still runs.
    check(shown.pop("worker_overhead_ns") >= stats["worker_overhead_ns"] > 0, f"overhead of the worker: {stats}")
    check(shown.pop("probe_overhead_ns") >= stats["probe_overhead_ns"], f"overhead of the probe: {stats}")
    # The kernel worker still reads the mappings that it was asked for, and writes mapping events.
    later = recording.stats(session)
    recording.interrupt(signal.SIGCONT)
    for name in ("address_spaces", "address_spaces_unread", "address_spaces_room", "files", "mmap_events", "mmap_events_lost",
                 "mmap_events_off", "mappings_dropped", "mappings_without_file", "unwind_tables", "unwind_table_bytes",
                 "unwind_tables_refused"):
        value = shown.pop(name)
        check(stats[name] <= value <= later[name],
              f"{name}: {value}, between {stats[name]} and {later[name]}")
    check_equal(shown, expected, "status --json")
    out, _ = run("stackbeat", "status")
    check("paused" in out, f"status prints {out}")
    run("stackbeat", "resume")
    recording.wait_for(session, "samples", stats["samples"] + 50)
    run("stackbeat", "pause", "--session", session["session"])
    stats = recording.stats(session)
    check(recording.process.poll() is None, "a paused recording has exited")
    recording.interrupt()
    profile = recording.profile()
    check_equal(profile.total("samples"), stats["samples"], "samples")
    check_equal(profile.total("cpu"), stats["tick_time_ns"], "CPU time")
    check_equal(comment(profile, "samples")[""], stats["samples"], "samples in the comment")


@test
def pause_without_a_session_fails():
    load()
    for command in ("pause", "resume"):
        for arguments in ((), ("--session", 4000000000)):
            _, err = run("stackbeat", command, *arguments, status=1)
            check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
        for arguments in (("x",), ("--session",), ("--session", "0"), ("--nonsense",)):
            _, err = run("stackbeat", command, *arguments, status=2)
            check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    with Session(), Session():
        _, err = run("stackbeat", "pause", status=1)
        check("session" in err, f"two sessions: {err!r}")
    _, err = run("stackbeat", "events", "x", status=2)
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
