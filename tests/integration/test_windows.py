# SPDX-License-Identifier: GPL-2.0
"""Profiles while a recording goes on (--snapshot, --rotate), and the memory of the recorder."""

import errno
import os
import re
import signal
from pathlib import Path

import workloads
from harness import (check, check_equal, comment, defer, long_exact_test, long_test, pprof, record, Recording, run,
                     start, temporary_directory, test, wait_until, workload)

MEMORY_MOST = 64 << 20
ROTATED = re.compile(r"profile\.\d{8}T\d{6}Z(\.\d+)?\.pb\.gz")


def written(recording):
    return list(recording.path.parent.glob("*.pb.gz"))


def check_snapshots(*options):
    """Returns the first snapshot."""
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "--snapshot", 1, *options)
    session = recording.session()
    wait_until(recording.path.exists, "a snapshot")
    # One file: the next snapshot may replace it at any time.
    with open(recording.path, "rb") as file:
        inode = os.fstat(file.fileno()).st_ino
        first = pprof.Profile(file)
    check_equal(first.total("samples"), comment(first, "samples")[""], "samples of a snapshot")
    wait_until(lambda: recording.path.stat().st_ino != inode, "another snapshot")
    second = pprof.Profile(recording.path)
    check(second.total("samples") > first.total("samples"), "no more samples in a later snapshot")
    check(second.duration_nanos > first.duration_nanos, "a later snapshot is no longer")
    check_equal(second.time_nanos, first.time_nanos, "start of a later snapshot")
    stats = recording.stop(session)
    profile = recording.profile()
    check_equal(profile.total("samples"), stats["samples"], "samples of the whole recording")
    check_equal([path.name for path in recording.path.parent.iterdir()], [recording.path.name], "files")
    check(2 <= len(recording.err.splitlines()) <= 3, f"lines of {recording.err!r}")
    return first


@test
def snapshots_are_complete_profiles():
    check_snapshots("--no-symbolize")


@long_test
def snapshots_have_names():
    first = check_snapshots()
    check(any(frame.function for sample in first.samples for frame in sample.frames), "no names")


@test
def failed_snapshots_do_not_end_the_recording():
    directory = workloads.mount("tmpfs", "-o", "size=2M")
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "--snapshot", 1, "--no-symbolize", "-o",
                          directory / "profile.pb.gz")
    session = recording.session()
    # The recording holds its room.
    filler = os.open(directory / "filler", os.O_WRONLY | os.O_CREAT)
    defer(os.close, filler)
    try:
        while os.write(filler, bytes(4096)):
            pass
    except OSError as error:
        check_equal(error.errno, errno.ENOSPC, "error of the filler")
    wait_until(lambda: recording.process.stderr.readline().startswith("stackbeat: snapshot: "),
               "a failed snapshot")
    stats = recording.stop(session)
    recording.end()
    profile = pprof.Profile(directory / "profile.pb.gz")
    check_equal(profile.total("samples"), stats["samples"], "samples")


def check_rotated_files(interval, *options):
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "--rotate", interval, *options)
    session = recording.session()
    wait_until(lambda: len(written(recording)) >= 2, "two files")
    # SIGUSR2 ends a file early.
    count = len(written(recording))
    recording.interrupt(signal.SIGUSR2)
    wait_until(lambda: len(written(recording)) > count, "a file by SIGUSR2")
    stats = recording.stop(session)
    recording.end()
    files = written(recording)
    profiles = sorted((pprof.Profile(path) for path in files), key=lambda profile: profile.time_nanos)
    check(all(ROTATED.fullmatch(path.name) for path in files), f"names {files}")
    for profile in profiles:
        check_equal(profile.total("samples"), comment(profile, "samples")[""], "samples of a file")
    check_equal(sum(profile.total("samples") for profile in profiles), stats["samples"], "all samples")
    check_equal(sum(comment(profile, "lost")[""] for profile in profiles),
                stats["lost_full"] + stats["lost_bad_tail"], "all losses")
    check_equal(sum(comment(profile, "missed ticks")[""] for profile in profiles),
                stats["missed_ticks"], "all missed ticks")
    for before, after in zip(profiles, profiles[1:]):
        check_equal(after.time_nanos, before.time_nanos + before.duration_nanos, "start of the next file")
    check_equal(sum(" samples in " in line for line in recording.err.splitlines()), len(files),
                f"lines of {recording.err!r}")


@test
def rotated_files_have_each_sample_once():
    check_rotated_files(1, "--no-symbolize")


@long_test
def rotated_files_with_names_have_each_sample_once():
    check_rotated_files(2)


@test
def samples_are_kept_apart_by_their_times():
    profile, _, _ = record("-F", 997, "--timestamps", command=workload(workloads.WORKERS[0], 10000000, 2))
    check_equal(profile.total("samples"), comment(profile, "samples")[""], "samples")
    count = len(profile.samples)
    check(f"timestamps: of {count} of {count} samples" in profile.comments, f"comments: {profile.comments}")
    for sample in profile.samples:
        check_equal(sample.values["samples"], 1, "samples with a time")
        check(profile.time_nanos <= sample.labels["timestamp"] <= profile.time_nanos + profile.duration_nanos,
              f"{sample.labels} of {profile.time_nanos} and {profile.duration_nanos} ns")
        check({"pid", "tid", "cpu"} <= set(sample.labels), f"labels: {sample.labels}")
    # A CPU has one sample at a time.
    check_equal(len({(sample.labels["cpu"], sample.labels["timestamp"]) for sample in profile.samples}), count, "times")
    check(len({sample.labels["tid"] for sample in profile.samples}) >= 3, "number of threads is below 3")


@test
def full_disk_is_found_before_the_recording():
    directory = workloads.mount("tmpfs", "-o", "size=512K")
    path = directory / "profile.pb.gz"
    _, err = run("stackbeat", "record", "-d", 1, "-o", path, status=1)
    check("no room for 1024 KiB" in err, f"message {err!r}")
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    check_equal(list(directory.iterdir()), [], "remaining files")


def memory_of(process):
    """The peak of the memory of a process, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10


def record_short_processes(count):
    recording = Recording("-a", "-F", 997)
    recording.session()
    run(*workloads.churn(temporary_directory(), "fork", count, 20000))
    # The end of the last processes is noticed, and their stacks are folded.
    memory = memory_of(recording.process)
    recording.interrupt()
    profile = recording.profile()
    short = [sample for sample in profile.samples if sample.labels["comm"].startswith("work_")]
    processes = {sample.labels["pid"] for sample in short}
    print(f"# {len(processes)} sampled processes, peak of {memory / (1 << 20):.1f} MiB")
    check(len(processes) > count / 10, f"{len(processes)} processes were sampled")
    check(memory < MEMORY_MOST, f"peak of {memory} bytes")
    for sample in short:
        own = [frame for frame in sample.frames if "work_" in frame.file]
        check(all(sample.labels["comm"] in frame.file for frame in own),
              f"files of {sample.labels}: {own}")


@long_test
def short_processes_take_little_memory():
    record_short_processes(2500)


@long_exact_test
def ten_thousand_short_processes_take_little_memory():
    record_short_processes(10000)
