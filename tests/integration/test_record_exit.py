# SPDX-License-Identifier: GPL-2.0
"""`stackbeat record` ends with a complete profile, or with a one-line error message."""

import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

from harness import (check, check_equal, comment, long_test, pprof, Recording, run, samples_of, start,
                     temporary_directory, test, wait_until, workload, WORKLOADS)


def check_refused(arguments, status, cwd, command="record"):
    """Checks that a command prints one line on standard error, exits with `status`, and leaves no file."""
    out, err = run("stackbeat", command, *arguments, status=status, cwd=cwd)
    what = f"stackbeat {command} {' '.join(arguments)}"
    check_equal(out, "", f"{what}: standard output")
    check_equal(len(err.splitlines()), 1, f"{what}: lines of {err!r}")
    check(err.startswith("stackbeat"), f"{what}: {err!r}")
    check_equal(list(cwd.iterdir()), [], f"{what}: remaining files")
    return err


@test
def impossible_requests_are_refused_in_one_line():
    directory = temporary_directory()
    ended = start("/bin/true")
    ended.wait()
    for arguments in (("-o", "/nowhere/at/all", "true"), ("-o", "/proc/x", "true"),
                      ("-o", "/", "true"), ("-p", str(ended.pid)), ("-C", "8191", "true"),
                      ("--", "/no/such/command"), ("--", "/etc/passwd")):
        check_refused(arguments, 1, directory)
    check_refused(("99", "--session", "4000000000"), 1, directory, "rate")


@test
def missing_privilege_is_reported():
    directory = temporary_directory()
    os.chmod(directory, 0o777)
    _, err = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "stackbeat",
                 "record", "-d", "1", status=1, cwd=directory)
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    check("root" in err or "CAP_PERFMON" in err, f"no advice in {err!r}")
    check_equal(list(directory.iterdir()), [], "remaining files")


@test
def exit_statuses_are_passed_on():
    for status in (0, 1, 7, 255):
        recording = Recording("-F", 997, command=workload("forker", 1, 20000000, status))
        profile = recording.profile(status)
        check(samples_of(profile, "forked"), f"no samples with status {status}")


@test
def fatal_signals_are_passed_on():
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
        recording = Recording("-F", 997, command=workload("threads", 1))
        session = recording.session()
        recording.wait_for(session, "samples", 50)
        child = recording.netlink.session_get(session["session"])["pids"][0]
        os.kill(child, number)
        check(recording.profile(-number).samples, f"no samples with signal {number}")


def check_complete(recording, status=0):
    """Checks that the profile holds as many samples as its comment says, and no other file is left."""
    profile = recording.profile(status)
    check_equal(profile.total("samples"), comment(profile, "samples")[""], "samples")
    check_equal([path.name for path in recording.path.parent.iterdir()], [recording.path.name],
                "files")
    return profile


@test
def sigint_and_sigterm_leave_a_complete_profile():
    start(*workload("threads", 1))
    for number in (signal.SIGINT, signal.SIGTERM):
        recording = Recording("-F", 997)
        session = recording.session()
        recording.wait_for(session, "samples", 200)
        recording.interrupt(number)
        profile = check_complete(recording)
        check(profile.total("samples") >= 200, f"{profile.total('samples')} samples")


@long_test
def sighup_and_sigquit_leave_a_profile_and_status_1():
    start(*workload("threads", 1))
    for number, name in ((signal.SIGHUP, "SIGHUP"), (signal.SIGQUIT, "SIGQUIT")):
        recording = Recording("-F", 997)
        session = recording.session()
        recording.wait_for(session, "samples", 200)
        recording.interrupt(number)
        profile = check_complete(recording, 1)
        check(profile.total("samples") >= 200, f"{profile.total('samples')} samples")
        check(f"{name} has ended the recording" in recording.err, f"message {recording.err!r}")
        check(any(line == f"ended by an error: {name} has ended the recording"
                  for line in profile.comments), f"comments {profile.comments}")


@test
def recording_that_lacks_memory_at_the_end_leaves_a_profile():
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "--no-cache")
    session = recording.session()
    recording.wait_for(session, "samples", 200)
    # Without the 16 MiB that the reader keeps for this, it has less memory than it uses.
    status = Path(f"/proc/{recording.process.pid}/status").read_text()
    limit = (int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) << 10) - (14 << 20)
    resource.prlimit(recording.process.pid, resource.RLIMIT_AS, (limit, limit))
    recording.interrupt()
    profile = check_complete(recording, 1)
    check(profile.total("samples") >= 200, f"{profile.total('samples')} samples")
    check("out of memory: symbols are missing" in recording.err, f"messages {recording.err!r}")


@test
def sighup_is_ignored_under_nohup():
    start(*workload("threads", 1))
    recording = Recording("-F", 997, within=("nohup",))
    session = recording.session()
    recording.interrupt(signal.SIGHUP)
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 200)
    recording.interrupt()
    check_complete(recording)


def cmdline_of(path):
    """The arguments of a process, each with a NUL; none if it has ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@long_test
def command_is_killed_when_the_recording_ends():
    start(*workload("threads", 1))
    for number, words in enumerate(("kill -STOP $$", "trap '' TERM; while :; do :; done")):
        name = f"command-{number}-of-{os.getpid()}"

        def processes(name=name):
            return [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline")
                    if f"\0{name}\0" in cmdline_of(path)]

        # By its arguments: a look at the processes while it records may come too late.
        recording = Recording("-a", "-F", 997, "-d", 1, command=("/bin/sh", "-c", words, name))
        check_complete(recording)
        # A killed process needs a CPU to end.
        wait_until(lambda processes=processes: not processes(), f"{words}: the end of {processes()}")
    # As it is found above.
    start("/bin/sh", "-c", "read -r line", name, stdin=subprocess.PIPE)
    check_equal(len(processes()), 1, "processes that are found")


@test
def sigchld_ignored_by_parent():
    path = temporary_directory() / "profile"
    run("/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", "stackbeat", "record", "-F", 997,
        "-o", path, "--", *workload("forker", 1, 20000000, 0))
    check(samples_of(pprof.Profile(path), "forked"), "no samples")


@test
def profile_is_well_formed():
    start(*workload("threads", 1))
    start(*workload("sysread", 10**9))
    recording = Recording("-F", 499)
    session = recording.session()
    began = time.monotonic_ns()
    recording.wait_for(session, "samples", 500)
    took = time.monotonic_ns() - began
    recording.interrupt()
    profile = check_complete(recording)
    check_equal(profile.sample_types, [("samples", "count"), ("cpu", "nanoseconds")],
                "sample types")
    check_equal(profile.period, 10**9 // 499, "period")
    check(profile.duration_nanos >= took, f"duration {profile.duration_nanos}, at least {took}")
    check(any(mapping.filename == "[kernel.kallsyms]" for mapping in profile.mappings),
          f"no mapping of the kernel in {profile.mappings}")
    for sample in profile.samples:
        check(isinstance(sample.labels["pid"], int) and isinstance(sample.labels["comm"], str),
              f"labels {sample.labels}")
        check(sample.frames, "a sample without frames")
        check(sample.values["samples"] > 0 and sample.values["cpu"] > 0, f"values {sample.values}")
    # The command's own workers run seccomp filters: compiled code of the kernel without symbols, and at some of
    # its instructions without a known caller in the kernel.
    unsymbolized = [(sample.labels["comm"], frame, caller) for sample in profile.samples
                    for frame, caller in zip(sample.frames, sample.frames[1:])
                    if not frame.function and frame.address >> 63
                    and "seccomp" not in (caller.function or "")
                    and not (sample.labels["comm"] == "stackbeat" and caller.address >> 63 == 0)]
    check_equal(unsymbolized, [], "samples with kernel frames without a symbol")


@test
def recording_without_samples_says_why():
    directory = temporary_directory()
    stopped = start("/bin/sleep", "1000")
    stopped.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
    _, err = run("stackbeat", "record", "-d", "0.2", "-p", stopped.pid, status=3, cwd=directory)
    check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
    check_equal(list(directory.iterdir()), [], "remaining files")


@test
def profile_is_written_to_standard_output():
    path = temporary_directory() / "out"
    with open(path, "wb") as file:
        run("stackbeat", "record", "-F", 997, "-q", "-o", "-", *workload("deep", 5, 100000000),
            stdout=file)
    profile = pprof.Profile(path)
    check(samples_of(profile, "deep"), "no samples on standard output")
    # pprof takes the first mapping for the program's.
    check_equal(profile.mappings[0].filename, str(WORKLOADS / "deep"), "first mapping")


@test
def summary_has_three_lines_at_most():
    start(*workload("threads", 1))
    recording = Recording("-F", 997, "-d", 2)
    profile = recording.profile()
    check(profile.duration_nanos >= 2 * 10**9, f"duration {profile.duration_nanos}")
    lines = recording.err.splitlines()
    check(2 <= len(lines) <= 3, f"lines of {recording.err!r}")
    check(f"{comment(profile, 'samples')['']} samples" in lines[0], lines[0])
    check(str(recording.path) in lines[0], lines[0])


@test
def status_and_rate_show_a_recording():
    start(*workload("threads", 1))
    recording = Recording("-F", 421)
    session = recording.session()
    out, _ = run("stackbeat", "status")
    check("421" in out and str(session["session"]) in out and str(recording.process.pid) in out,
          f"status does not show the recording: {out}")
    run("stackbeat", "rate", 567)
    check_equal(recording.netlink.session_get(session["session"])["rate"], 567, "rate")
    out, _ = run("stackbeat", "rate")
    check("567" in out, f"rate prints {out}")
    recording.interrupt()
    recording.profile()


@test
def existing_profile_is_replaced_at_the_end():
    directory = temporary_directory()
    path = directory / "profile"
    path.write_text("old")
    run("stackbeat", "record", "-F", 997, "-o", path, "--", "/no/such/command", status=1)
    check_equal(path.read_text(), "old", "the file after a recording that failed")
    run("stackbeat", "record", "-F", 997, "-o", path, *workload("deep", 5, 100000000))
    check(pprof.Profile(path).samples, "the file was not replaced")
    check_equal(Path(path).stat().st_nlink, 1, "links of the new file")


def status_of(pid):
    """The fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@test
def viewer_of_top_gives_up_rights():
    """The process that shows names of any file keeps CAP_DAC_OVERRIDE and CAP_FOWNER."""
    output = temporary_directory() / "output"
    with open(output, "w", encoding="utf-8") as file:
        top = start("stackbeat", "top", "--batch", "--delay", "0.1", stdout=file)
    wait_until(lambda: output.stat().st_size, "an update")
    viewer = status_of(top.pid)
    check_equal(int(viewer["CapEff"], 16), 1 << 1 | 1 << 3, "capabilities")
    check_equal(int(viewer["CapBnd"], 16), 0, "the bounding set")
    check_equal(viewer["NoNewPrivs"], "1", "no_new_privs")
    top.send_signal(signal.SIGTERM)
    check_equal(top.wait(), 0, "the status")


@test
def reader_and_its_server_give_up_rights():
    recording = Recording("-a", command=("sleep", "1000"))
    recording.session()
    pid = recording.process.pid
    reader = status_of(pid)
    kept = int(reader["CapEff"], 16)
    for name, number in (("CAP_SETUID", 7), ("CAP_NET_ADMIN", 12), ("CAP_SYS_MODULE", 16), ("CAP_SYS_ADMIN", 21)):
        check(not kept >> number & 1, f"the reader has {name}")
    check_equal(int(reader["CapBnd"], 16), 0, "the bounding set")
    check_equal(reader["NoNewPrivs"], "1", "no_new_privs")
    children = Path(f"/proc/{pid}/task/{pid}/children")

    def statuses():
        return {status["Name"]: status for status in map(status_of, children.read_text(encoding="ascii").split())}

    # The session is open before the command is executed.
    names = wait_until(lambda: "sleep" in (found := statuses()) and found, "the command")
    check_equal(set(names), {"stackbeat", "sleep"}, "children")
    server, command = names["stackbeat"], names["sleep"]
    check_equal(server["Uid"].split(), ["65534"] * 4, "users of the server")
    check_equal(int(server["CapEff"], 16), 0, "capabilities of the server")
    check_equal(server["Seccomp"], "2", "filter of the server")
    # The command has all rights of the user.
    own = status_of("self")
    for field in ("CapEff", "CapBnd", "NoNewPrivs", "Uid", "Seccomp"):
        check_equal(command[field], own[field], f"{field} of the command")
    recording.interrupt()
    err = recording.end()
    check("sandbox" not in err, f"the sandbox is incomplete: {err}")
