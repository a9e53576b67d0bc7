# SPDX-License-Identifier: GPL-2.0
"""Intervals are random, so that samples do not alias with periodic programs."""

from harness import (check, check_balance, check_equal, exact_test, last_json, long_exact_test,
                     long_test, Recording, samples_of, test, user_part, workload)
from stackbeat import S, samples_of as decoded, Session
from sample_weights import by_cpu, check_span, keep_busy


def share_of_part_a(samples):
    """(share of part_a by count, number of samples), of the samples in one of the two parts."""
    count = {"part_a": 0, "part_b": 0}
    for sample in samples:
        for function in user_part(sample)[:1]:
            if function in count:
                count[function] += sample.values["samples"]
    total = sum(count.values())
    check(total, "no samples in either part")
    return count["part_a"] / total, total


def true_share(truth):
    return truth["part_a"] / (truth["part_a"] + truth["part_b"])


@long_exact_test
def jitter_samples_a_periodic_program_without_bias():
    """Each interval is uniform over one cycle, so samples are independent draws. For 4,000 samples or more, 3.6
    points are by chance in less than one of a million runs."""
    # The compilation of unwind tables takes half of a busy CPU, in slices of some cycles.
    recording = Recording("-F", 1000, "--unwind=fp", command=workload("cycle", 4500))
    profile = recording.profile()
    truth = last_json(recording.out)
    share, total = share_of_part_a(samples_of(profile, "cycle"))
    check(0.29 <= true_share(truth) <= 0.31, f"the program used {truth}")
    check(total >= 4000, f"only {total} samples")
    check(abs(share - true_share(truth)) <= 0.036,
          f"part_a has {share:.4f} of {total} samples, but used {true_share(truth):.4f}")


@long_exact_test
def fixed_intervals_alias_with_a_periodic_program():
    """Two programs, half a cycle apart: if the ticks are at a boundary between the parts of one program, they
    are far from the boundaries of the other."""
    shares = {}
    recording = Recording("-F", 1000, "--no-jitter", "--unwind=fp", command=[
        "/bin/sh", "-c", '"$1" 400 0; "$1" 400 500', "sh", *workload("cycle")])
    profile = recording.profile()
    for line in recording.out.splitlines():
        truth = last_json(line)
        samples = [sample for sample in samples_of(profile, "cycle")
                   if sample.labels["pid"] == truth["pid"]]
        shares[truth["pid"]], total = share_of_part_a(samples)
        check(0.29 <= true_share(truth) <= 0.31, f"the program used {truth}")
        check(total >= 350, f"only {total} samples")
    check_equal(len(shares), 2, "programs")
    check(any(share <= 0.05 or share >= 0.95 for share in shares.values()),
          f"part_a has {shares} of the samples of the two")


def samples_of_a_busy_cpu(rate, count, **settings):
    """At least `count` samples of the busy CPU 0, in their order."""
    keep_busy(0)
    # With this budget debug kernels are not throttled either.
    with Session(rate=rate, cpus="0", ring_size=4 << 20, watermark=64 << 10, budget=S.BUDGET_MAX,
                 **settings) as session:
        session.start()
        # Decoded after the end, as more samples would arrive meanwhile.
        taken = []
        while session.stats()["samples"] < count:
            session.poll()
            taken += session.take()
        session.stop()
        samples = decoded(taken + session.take())
        stats = session.stats()
        check_balance(stats)
        check_equal(stats["samples"], stats["ticks"], "ticks, all on a busy CPU")
        check_equal(stats["tick_time_ns"], sum(sample.weight for sample in samples), "time of the ticks")
        return samples


@exact_test
def intervals_are_uniform_between_half_a_period_and_one_and_a_half():
    """With a clock that counts instructions, ticks are on time to the microsecond."""
    period = 10**9 // 2000
    samples = samples_of_a_busy_cpu(2000, 2000)
    intervals = [later.time - earlier.time for earlier, later in zip(samples, samples[1:])
                 if not later.missed]
    late = period / 20
    check(len(intervals) >= 1950, f"{len(samples) - 1 - len(intervals)} intervals were missed")
    outside = [interval for interval in intervals
               if not period / 2 - late <= interval <= 3 * period / 2 + late]
    # Long sections with interrupts off are rare.
    check(len(outside) <= len(intervals) / 100, f"{len(outside)} of {len(intervals)} intervals "
          f"are not in 0.5 to 1.5 periods: {outside[:5]}")
    for tenth in range(10):
        low = period / 2 + period * tenth / 10
        share = sum(low <= interval < low + period / 10 for interval in intervals) / len(intervals)
        # Of 1,950 intervals. The share of any tenth is outside by chance in less than one of a million runs.
        check(0.063 <= share <= 0.138, f"{share:.3f} of the intervals are in tenth {tenth}")
    check_span(samples, False, "random intervals")


@long_exact_test
def fixed_intervals_are_equal():
    period = 10**9 // 2000
    samples = samples_of_a_busy_cpu(2000, 1000, no_jitter=1)
    check_span(samples, True, "fixed intervals")
    late = [sample.time - samples[0].time - period * round((sample.time - samples[0].time) / period)
            for sample in samples]
    wrong = [time for time in late if abs(time) > period / 20]
    check(len(wrong) <= len(late) / 100, f"{len(wrong)} of {len(late)} ticks are out of phase")


@exact_test
def jitter_is_switched_off_and_on_while_a_session_runs():
    """The guest's clock counts instructions. The first tick was set before the switch: the test starts with the second one."""
    period = 10**9 // 2000
    keep_busy(0)
    with Session(rate=2000, cpus="0", ring_size=4 << 20, watermark=64 << 10, budget=S.BUDGET_MAX) as session:
        session.start()
        for fixed in (1, 0):
            session.set(no_jitter=fixed)
            session.read()
            times = []
            while len(times) < 200:
                session.poll()
                times += [sample.time for sample in session.read() if not sample.missed]
            intervals = [later - earlier for earlier, later in zip(times[1:], times[2:200])]
            equal = sum(abs(interval / period - round(interval / period)) < 0.05 for interval in intervals)
            # A tenth of random intervals is as near to a period, and long sections with interrupts off are rare.
            check(equal >= 190 if fixed else equal <= 45, f"no_jitter={fixed}: {equal} of {len(intervals)} intervals are of whole periods")


@long_test
def weights_add_up_to_the_elapsed_time():
    for fixed in (0, 1):
        samples = samples_of_a_busy_cpu(1000, 2000, no_jitter=fixed)
        check_equal({sample.weight // (1 + sample.missed) for sample in samples}, {10**6},
                    "periods of the samples")
        for cpu, own in by_cpu(samples).items():
            check_span(own, fixed, f"CPU {cpu}, no_jitter={fixed}")


@test
def no_jitter_is_a_setting_of_the_session():
    with Session() as session:
        check_equal(session.get()["no_jitter"], 0, "no_jitter by default")
        session.set(no_jitter=1)
        check_equal(session.get()["no_jitter"], 1, "no_jitter after setting it")
    recording = Recording("-F", 997, "--no-jitter")
    check_equal(recording.session()["no_jitter"], 1, "no_jitter with --no-jitter")
    recording.interrupt()
    recording.process.wait()
    recording = Recording("-F", 997)
    check_equal(recording.session()["no_jitter"], 0, "no_jitter without --no-jitter")
