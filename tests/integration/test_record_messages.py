# SPDX-License-Identifier: GPL-2.0
"""Exit statuses and messages of `stackbeat record`, and the comments of its profile."""

import os
import re
import signal
import time
from pathlib import Path

from harness import (check, check_equal, check_within, load, long_test, pprof, Recording, run, samples_of,
                     start, temporary_directory, test, use, wait_until, workload, WORKLOADS)
from cpuidle import stay_on
from stackbeat import online_cpus, S, Session
from sample_weights import keep_busy

NO_SAMPLES = 3
CLOCK_NANOSLEEP = ("35", "230")  # the numbers of nanosleep() and clock_nanosleep()


def check_record_fails(status, text, *arguments, command="stackbeat", before=None):
    """Checks that a recording exits with `status` and one line that matches `text`, and leaves no file."""
    directory = temporary_directory()
    process = start(command, "record", *arguments, cwd=directory)
    if before:
        before(process)
    out, err = process.communicate()
    what = f"record {' '.join(map(str, arguments))}"
    check_equal(process.returncode, status, f"{what}: status; output: {err!r}")
    check_equal(out, "", f"{what}: standard output")
    check_equal(len(err.splitlines()), 1, f"{what}: lines of {err!r}")
    check(re.search(text, err), f"{what}: message {err!r}, expected {text!r}")
    check_equal(list(directory.iterdir()), [], f"{what}: remaining files")


# --- no samples --------------------------------------------------------------


@test
def filter_matches_no_running_task():
    load()
    keep_busy(0)
    sleeper = start("/bin/sleep", "1000")
    # Before, it may still map its libraries. /proc gives the number of the system call that a process waits in.
    wait_until(lambda: Path(f"/proc/{sleeper.pid}/syscall").read_text().split()[0] in CLOCK_NANOSLEEP, "its sleep")

    def end_after_ticks(recorder):
        with Session() as session:
            wait_until(lambda: any(other["owner"] == recorder.pid and other["stats"]["filtered"] >= 100
                                   for other in session.netlink.sessions()), "ticks of the recording")
        recorder.send_signal(signal.SIGINT)

    for options in (("-p", sleeper.pid), ("-C", 0, "--exclude-comm", "nobody", "-t", sleeper.pid)):
        check_record_fails(NO_SAMPLES, r"was running at any of the \d+ ticks", "-F", 997, *options, before=end_after_ticks)


@test
def recording_ends_before_the_first_tick():
    """On an idle CPU, which has no tick either if the host lets the recording take seconds."""
    load()
    stay_on(0)
    check_record_fails(NO_SAMPLES, "before the first tick", "-F", 1, "--no-jitter", "-d", 0.01,
                       "-C", online_cpus()[-1])


# --- the target --------------------------------------------------------------


@test
def missing_target_is_reported():
    load()
    ended = start("/bin/true")
    ended.wait()
    check_record_fails(1, f"-p {ended.pid}: there is no such process", "-p", ended.pid)
    check_record_fails(1, f"-t {ended.pid}: there is no such thread", "-t", ended.pid)
    check_record_fails(1, f"-p {ended.pid}: there is no such process", "-p", f"{os.getpid()},{ended.pid}")
    check_record_fails(1, "-G no/such/group: there is no such control group", "-G", "no/such/group")
    check_record_fails(1, "can't run '/no/such/command'", "--", "/no/such/command")


@test
def target_exits_while_recording():
    load()
    process = keep_busy(0)

    def kill_target():
        with Session(rate=1) as session:
            wait_until(lambda: any(other["owner"] != os.getpid() and other["stats"]["samples"] > 50
                                   for other in session.netlink.sessions()), "samples")
        process.kill()
        process.wait()

    directory = temporary_directory()
    recorder = start("stackbeat", "record", "-F", 997, "-p", process.pid, cwd=directory)
    kill_target()
    _, err = recorder.communicate()
    check_equal(recorder.returncode, 0, f"status; output: {err!r}")
    profile = pprof.Profile(directory / "stackbeat.pb.gz")
    check_equal({sample.labels["pid"] for sample in profile.samples}, {process.pid}, "processes")


@test
def target_exits_without_samples():
    load()
    sleeper = start("/bin/sleep", "1000")
    comm = Path(f"/proc/{sleeper.pid}/comm")
    wait_until(lambda: comm.read_text() == "sleep\n", "exec")

    def kill_target(recorder):
        with Session() as session:
            wait_until(lambda: any(other["owner"] == recorder.pid
                                   and other["state"] == S.STATE_RUNNING
                                   for other in session.netlink.sessions()), "a recording")
        sleeper.kill()
        sleeper.wait()

    # The target runs while it exits, so exclude it by name.
    check_record_fails(NO_SAMPLES, "no samples", "-F", 1, "-p", sleeper.pid, "--exclude-comm", "sleep",
                       before=kill_target)


# --- the module --------------------------------------------------------------


@test
def session_limit_is_reported():
    for _ in range(S.SESSIONS_MAX):
        use(Session())
    check_record_fails(1, f"limit is {S.SESSIONS_MAX}", "-d", 0.1)


@test
def abi_mismatch_is_reported():
    """For commands that were built with the next and with the previous version of the ABI."""
    load()
    for other in (S.ABI + 1, S.ABI - 1):
        command = WORKLOADS / f"stackbeat-abi-{other}"
        check_record_fails(1, rf"another version of the interface \({S.ABI}\) than this command \({other}\)",
                           "-d", 0.1, command=command)


# --- the disk ----------------------------------------------------------------


@test
def profile_that_cannot_be_written_goes_elsewhere():
    load()
    elsewhere, directory = temporary_directory(), temporary_directory() / "removed"
    environment = {**os.environ, "TMPDIR": str(elsewhere)}

    def record(output, reason, *command):
        """Records, and checks that the profile is elsewhere, as the message says."""
        _, err = run("stackbeat", "record", "-F", 997, "-o", output, "--", *command, status=1,
                     env=environment)
        found = re.fullmatch(rf"stackbeat: {re.escape(str(output))}: {reason}\n"
                             rf"stackbeat: \d+ samples .*\n(?:stackbeat: .*\n)+?"
                             rf"stackbeat: the profile is in ({elsewhere}/\S+) instead\n", err)
        check(found, f"message {err!r}")
        check(samples_of(pprof.Profile(Path(found[1])), "deep"), "no samples")
        check_equal(os.stat(found[1]).st_mode & 0o777, 0o600, "mode of the profile")
        os.unlink(found[1])
        check_equal(list(elsewhere.iterdir()), [], "other files")
    deep = [str(word) for word in workload("deep", 5, 100000000)]
    record("/dev/full", "No space left on device", *deep)
    directory.mkdir()
    record(directory / "profile", "No such file or directory", "sh", "-c",
           f"rmdir {directory}; exec {' '.join(deep)}")
    check(not directory.exists(), "the directory exists")


# --- the comments ------------------------------------------------------------


@long_test
def comments_describe_the_recording():
    load()
    keep_busy(0)
    # Some ticks are filtered, and some stacks are truncated.
    start(*workload("deep", 100, 10**12))
    recording = Recording("-F", 499, "-C", 0, "--max-depth", 20, "--exclude-comm", "deep x")
    session = recording.session()
    recording.wait_for(session, "samples", 200)
    run("stackbeat", "rate", 250)
    recording.wait_for(session, "samples", 400)
    recording.wait_for(session, "unwind_tables", 1)
    recording.netlink.session_set(session["session"], state=S.STATE_PAUSED)
    paused = time.monotonic_ns()
    stats = recording.stats(session)
    recording.interrupt()
    wait_until(lambda: session["session"] not in [other["session"] for other in recording.netlink.sessions()],
               "the end of the session")
    most = time.monotonic_ns() - paused
    profile = recording.profile()
    text = "\n".join(profile.comments)
    release = os.uname().release
    version = (Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()
    for expected in (rf"^stackbeat {re.escape(version)} on Linux {re.escape(release)} x86_64$",
                     r"^command: stackbeat record -o \S+ -F 499 -C 0 --max-depth 20 "
                     r"--exclude-comm deep x$",
                     rf"^throttled: {stats['throttled']} times$",
                     rf"^samples: {stats['samples']}$",
                     rf"^lost: {stats['lost_full'] + stats['lost_bad_tail']} \(ring full "
                     rf"{stats['lost_full']}, bad reader position {stats['lost_bad_tail']}\)$",
                     r"^truncated: \d+ \(kernel \d+, max-depth \d+, unreadable-memory \d+, "
                     r"bad-frame-pointer \d+, exec \d+, no-unwind-rule \d+, no-unwind-table \d+, "
                     r"stack-copy \d+, unknown-mapping \d+\)$",
                     r"^callers in user mode: by unwind tables \d+, by frame pointers \d+, by copies of "
                     r"stacks \d+$",
                     r"^unwinding: copies of stacks lost \d+, kernel stacks that differed 0, unwind tables compiled \d+, "
                     r"unwind tables from the cache \d+, files without call frame information \d+, files without an unwind table 0, "
                     r"unwind tables refused 0, ranges of code not supported \d+, copies of stacks used \d+, bytes of copies used \d+, copies of stacks not used \d+$",
                     rf"^missed ticks: {stats['missed_ticks']}$",
                     rf"^ticks without a sample: idle {stats['idle']}, filtered "
                     rf"{stats['filtered']}$"):
        check(re.search(expected, text, re.M), f"no {expected!r} in {text}")
    compiled, cached = re.search(r"tables compiled (\d+), unwind tables from the cache (\d+)", text).groups()
    check(int(compiled) + int(cached), f"no unwind table in {text}")
    rate = re.search(r"^rate: 499 Hz requested, ([\d.]+) Hz on average, on (\d+) CPUs?$", text,
                     re.M)
    check(rate, f"no rate in {text}")
    check(abs(float(rate[1]) - stats["ticks"] * 1e9 / stats["tick_time_ns"]) <= 0.06,
          f"a mean rate of {rate[1]} Hz, from {stats}")
    check_equal(int(rate[2]), 1, "CPUs")
    overhead = re.search(r"^overhead: (\d+) ns in the kernel, (\d+) ns in the reader, ([\d.]+) % of the "
                     "sampled CPUs$", text, re.M)
    check(overhead, f"no overhead in {text}")
    # The kernel worker writes the last records after the counters were read, for as long as the session is there at most.
    least = stats["overhead_ns"] + stats["worker_overhead_ns"] + stats["probe_overhead_ns"]
    check_within(int(overhead[1]), (least, least + most), "overhead in the kernel")
    share = 100 * (int(overhead[1]) + int(overhead[2])) / profile.duration_nanos
    check(abs(float(overhead[3]) - share) <= 0.001 + share / 100,
          f"{overhead[3]} % of the sampled CPUs, expected {share}")
