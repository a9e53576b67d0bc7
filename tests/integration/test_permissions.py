# SPDX-License-Identifier: GPL-2.0
"""Permissions: CAP_PERFMON allows all profiling. Other users may not profile, unless the module's parameter
`unprivileged` is set: then they may profile the user part of their own processes."""

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import workloads
from harness import (cgroup_mount, check, check_equal, defer, fails_with, load, long_test, make_cgroup, pprof, release,
                     run, Skip, start, temporary_directory, test, unload, use, wait_until, workload,
                     WORKLOADS)
from address_spaces import AddressSpaces
from stackbeat import STOP_NAMES, Events, Netlink, online_cpus, S, Session
from other_users import (ALICE, as_user, become, begin_as_user, BOB, CAP_IPC_LOCK, CAP_PERFMON,
                         own_mounts, own_user_namespace)

DEVICE = Path("/dev/stackbeat")
PARAMETER = Path("/sys/module/stackbeat/parameters/unprivileged")
KERNEL, BOTH = S.PART_KERNEL, S.PART_KERNEL | S.PART_USER


def reload_module(parameter="unprivileged=1", mode=0o666):
    """Reloads the module with a parameter, and sets the mode of its device."""
    unload()
    run("stackbeat", "load", *filter(None, [parameter]))
    defer(unload)
    wait_until(DEVICE.exists, "the device")
    DEVICE.chmod(mode)


def as_user_prefix(user):
    """The prefix of a command line to run it as this user."""
    return "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"


def open_and_close():
    with Session() as session:
        return session.get()


# --- CAP_PERFMON --------------------------------------------------------------


@test
def unprivileged_users_are_refused_by_default():
    unload()
    load()
    check_equal(PARAMETER.read_text().strip(), "N", "unprivileged, by default")
    check_equal(DEVICE.stat().st_mode & 0o777, 0o600, "mode of the device")
    with fails_with(errno.EACCES, "a user without privileges"):
        as_user(ALICE, open_and_close)
    with fails_with(errno.EACCES, "a user with CAP_PERFMON and no access to the device"):
        as_user(ALICE, open_and_close, capabilities=[CAP_PERFMON])
    DEVICE.chmod(0o666)
    defer(unload)
    with fails_with(errno.EPERM, "a user with access to the device alone"):
        as_user(ALICE, open_and_close)


@test
def cap_perfmon_is_enough():
    reload_module(parameter=None)
    reported = as_user(ALICE, open_and_close, capabilities=[CAP_PERFMON])
    check_equal((reported["restricted"], reported["parts"]), (0, BOTH), "restricted, parts")
    others = start(*workload("threads", 2))

    def record():
        with Session(rate=1000, parts=BOTH, budget=S.BUDGET_MAX, watermark=4096) as session:
            session.start()
            samples = session.read_until(
                lambda samples: others.pid in {sample.pid for sample in samples}
                and any(sample.kernel for sample in samples))
            return len(samples)
    check(as_user(ALICE, record, capabilities=[CAP_PERFMON]), "no samples")


@test
def memfd_is_opened_for_its_owner_only():
    """The mode of a memfd lets all users write to it: with a descriptor they could reopen it for writing."""
    reload_module(parameter=None)
    _, memfd = workloads.start_memfd()

    def open_memfd():
        with Session(rate=1000, watermark=4096, pids=[memfd.pid]) as session:
            spaces = AddressSpaces(session, keep_files=True)
            session.start()

            def memfd_ids():
                spaces.read()
                return [file.file_id for file in spaces.files.values()
                        if file.path.startswith("/memfd:")]
            number, = wait_until(memfd_ids, "the memfd")
            try:
                os.close(session.open_file(number))
            except OSError as error:
                return error.errno
        return 0
    check_equal(as_user(ALICE, open_memfd, capabilities=[CAP_PERFMON]), errno.EACCES, "errno for another user")
    check_equal(open_memfd(), 0, "errno for the owner")


@test
def capability_in_own_user_namespace_is_not_enough():
    def open_as_namespace_root():
        own_user_namespace()
        return open_and_close()
    reload_module(parameter=None)
    with fails_with(errno.EPERM, "root of a namespace"):
        as_user(ALICE, open_as_namespace_root)
    reload_module()
    check_equal(as_user(ALICE, open_as_namespace_root)["restricted"], 1, "restricted")


@test
def errors_name_the_missing_capability():
    load()
    directory = temporary_directory()
    directory.chmod(0o777)
    setpriv = as_user_prefix(ALICE)
    perfmon = ("--inh-caps=+perfmon", "--ambient-caps=+perfmon")
    for mode in (0o600, 0o666):
        DEVICE.chmod(mode)
        _, err = run(*setpriv, "stackbeat", "record", "-d", 1, status=1, cwd=directory)
        check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
        check("CAP_PERFMON" in err, f"no advice in {err!r}")
        check_equal(list(directory.iterdir()), [], "remaining files")
    run(*setpriv, *perfmon, "stackbeat", "record", "-F", 997, "-o", "profile",
        *workload("deep", 5, 100000000), cwd=directory)
    DEVICE.chmod(0o600)
    with Session() as session:
        for command in (("rate", 5), ("pause",), ("resume",)):
            _, err = run(*setpriv, "stackbeat", *command, "--session", session.id, status=1)
            check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
            check("CAP_PERFMON" in err, f"no advice in {err!r}")
        run(*setpriv, *perfmon, "stackbeat", "rate", 5, "--session", session.id)
        check_equal(session.get()["rate"], 5, "rate")


@test
def privileged_sessions_are_hidden_from_users():
    reload_module()
    with Session() as session:
        def look():
            with Netlink() as netlink:
                return netlink.sessions(), netlink.module()["abi"]
        check_equal(as_user(ALICE, look), ([], S.ABI), "sessions visible to a user")
        for function in (lambda netlink: netlink.session_get(session.id),
                         lambda netlink: netlink.session_set(session.id, rate=7)):
            def ask(function=function):
                with Netlink() as netlink:
                    return function(netlink)
            with fails_with(errno.EPERM, "another's session", "CAP_PERFMON"):
                as_user(ALICE, ask)
            as_user(ALICE, ask, capabilities=[CAP_PERFMON])
        check_equal(session.get()["rate"], 7, "rate set with CAP_PERFMON")


# --- restricted sessions -----------------------------------------------------


@contextlib.contextmanager
def sessions_of_user(user, count, **settings):
    """Holds sessions of a user open in another process; yields their IDs."""
    ready, done = os.pipe(), os.pipe()

    def hold():
        sessions = [Session(**settings) for _ in range(count)]
        os.write(ready[1], " ".join(str(session.id) for session in sessions).encode())
        os.read(done[0], 1)

    child = os.fork()
    if not child:
        try:
            as_user(user, hold)
        finally:
            os._exit(0)
    try:
        yield [int(number) for number in os.read(ready[0], 4096).split()]
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)
        for pipe in (*ready, *done):
            os.close(pipe)


def busy_as(user, path, capabilities=()):
    """Starts a busy process of a user on CPU 0, and waits until it works."""
    def prepare():
        os.sched_setaffinity(0, {0})
        become(user, capabilities)
    process = start(path, 1, preexec_fn=prepare)
    wait_until(lambda: Path(f"/proc/{process.pid}/task").exists()
               and len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 2, "its thread")
    return process


def copy_of_threads(mode, owner=0, group=0):
    directory = temporary_directory()
    directory.chmod(0o755)
    path = directory / "threads"
    shutil.copy(WORKLOADS / "threads", path)
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def with_capability(path, capability):
    """Sets a file capability, permitted and effective."""
    low, high = (1 << capability) & 0xffffffff, 1 << capability >> 32
    os.setxattr(path, "security.capability", struct.pack("=5I", 0x02000001, low, 0, high, 0))
    return path


def pids_of(samples):
    return {sample.pid for sample in samples}


def samples_as_user(count, enough=bool, **settings):
    """Runs a session for at least `count` ticks, until enough(samples): (samples, counters, settings). Ticks alone may all be of one
    process, while the CPU makes up for time of another one in which the host did not run it."""
    with Session(**({"rate": 1000, "cpus": "0", "watermark": 4096} | settings)) as session:
        session.start()
        samples = []
        wait_until(lambda: samples.extend(session.read()) or (session.stats()["ticks"] >= count and enough(samples)),
                   f"{count} ticks, with samples")
        session.stop()
        return samples + session.read(), session.stats(), session.get()


@test
def users_see_only_their_own_processes():
    reload_module()
    own = busy_as(ALICE, copy_of_threads(0o755))
    hidden = {
        "of another user": busy_as(BOB, copy_of_threads(0o755)),
        "of root": busy_as(0, copy_of_threads(0o755)),
        "setuid root": busy_as(ALICE, copy_of_threads(0o4755)),
        "setuid to another user": busy_as(ALICE, copy_of_threads(0o4755, BOB)),
        "setgid": busy_as(ALICE, copy_of_threads(0o2755, 0, BOB)),
        "not readable": busy_as(ALICE, copy_of_threads(0o711)),
        "with a capability of its file": busy_as(ALICE, with_capability(
            copy_of_threads(0o755), 13)),
    }
    samples, stats, reported = as_user(ALICE, samples_as_user, 3000)
    check_equal(reported["restricted"], 1, "restricted")
    seen = pids_of(samples)
    for what, process in hidden.items():
        check(process.pid not in seen, f"a process {what} was sampled")
    # The process of the session has changed its user, so it is not dumpable and not sampled either.
    check_equal(seen, {own.pid}, "processes")
    check(stats["filtered"] >= 1000, f"counters {stats}")
    # Root samples them: they do run.
    samples_as_user(1, lambda samples: pids_of(samples) >= {process.pid for process in hidden.values()})


@test
def overridden_credentials_do_not_expose_a_process():
    """Overlayfs reads files with the credentials of the user that has mounted it."""
    reload_module()
    directory = temporary_directory()
    directory.chmod(0o777)
    file = directory / "overlay" / "file"
    mounted, reads = os.pipe(), os.pipe()

    def read_in_a_loop():
        os.sched_setaffinity(0, {0})
        path = f"/proc/{int(os.read(mounted[0], 64))}/root{file}"
        with open(path, "rb", buffering=0) as opened:
            os.pread(opened.fileno(), 1 << 20, 0)
            os.write(reads[1], b"x")
            while True:
                os.pread(opened.fileno(), 1 << 20, 0)

    def mount_and_look():
        own_mounts()
        run("mount", "-t", "tmpfs", "none", directory)
        for name in ("lower", "upper", "work", "overlay"):
            (directory / name).mkdir()
        (directory / "lower" / "file").write_bytes(bytes(1 << 20))
        options = ",".join(f"{name}dir={directory / name}" for name in ("lower", "upper", "work"))
        mount = start("mount", "-t", "overlay", "-o", f"userxattr,{options}", "none", file.parent)
        if mount.wait():
            return None
        os.write(mounted[1], str(os.getpid()).encode())
        check(os.read(reads[0], 1), "root's process can't read")
        samples, stats, _ = samples_as_user(500, lambda samples: True)
        return pids_of(samples), stats

    reader = os.fork()
    if not reader:
        try:
            read_in_a_loop()
        finally:
            os._exit(1)
    # The reader alone has it: its end is noticed.
    os.close(reads[1])
    defer(os.waitpid, reader, 0)
    defer(os.kill, reader, signal.SIGKILL)
    seen = as_user(ALICE, mount_and_look)
    if seen is None:
        raise Skip("this kernel does not let users mount overlayfs")
    check(reader not in seen[0], f"root's process was sampled: {seen[1]}")
    # It does read.
    samples_as_user(1, lambda samples: reader in pids_of(samples))


EXECS_SETUID = """
import mmap, os, select, sys
memory = mmap.mmap(-1, 256 << 20)
for at in range(0, len(memory), 4096):
    memory[at] = 1
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    pass
os.execv(sys.argv[1], [sys.argv[1], "1"])
"""


def set_fifo_priority(pid, priority):
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(priority))


@contextlib.contextmanager
def monopolize_cpus(process, cpus):
    """Runs only `process` and the caller: real-time hogs monopolize `cpus` meanwhile. The caller must be
    single-threaded, as another thread could not run to release the interpreter lock."""
    limit = Path("/proc/sys/kernel/sched_rt_runtime_us")
    own = os.sched_getaffinity(0)
    with contextlib.ExitStack() as before:
        before.callback(limit.write_text, limit.read_text())
        limit.write_text("-1")
        hogs = []
        for cpu in cpus:
            hog = start(*workload("threads", 1),
                        preexec_fn=lambda cpu=cpu: os.sched_setaffinity(0, {cpu}))
            wait_until(lambda hog=hog: len(os.listdir(f"/proc/{hog.pid}/task")) == 2, "a hog")
            hogs.append(hog)
        before.callback(os.sched_setaffinity, 0, own)
        os.sched_setaffinity(0, {cpus[0]})
        # Not before: the hogs would inherit the caller's priority, and the caller would not run again.
        before.callback(os.sched_setscheduler, 0, os.SCHED_OTHER, os.sched_param(0))
        set_fifo_priority(0, 50)
        for hog in hogs:
            before.callback(hog.kill)
            for task in os.listdir(f"/proc/{hog.pid}/task"):
                set_fifo_priority(int(task), 10)
        set_fifo_priority(process.pid, 10)
        before.callback(process.kill)
        yield


@test
def setuid_program_is_not_reported():
    """During execve() of a setuid program, the new memory is in use before the new credentials, for as long
    as freeing the old memory takes. Samples of that time are processed much later here, as no kernel
    worker can run before."""
    others = online_cpus()[1:]
    if not others:
        raise Skip("only one CPU")
    reload_module()
    path = copy_of_threads(0o4755)

    def prepare():
        os.sched_setaffinity(0, {0})
        become(ALICE)
    process = start("/usr/bin/python3", "-c", EXECS_SETUID, path, stdin=subprocess.PIPE,
                    preexec_fn=prepare)
    check_equal(process.stdout.readline(), "ready\n", "output")
    seen, changed = os.pipe(), os.pipe()

    def look():
        with Session(rate=S.RESTRICTED_RATE_MAX, cpus="0", watermark=4096) as session:
            spaces = AddressSpaces(session, read_files=False)
            session.start()
            wait_until(lambda: spaces.read() or spaces.files, "the first program")
            os.write(seen[1], b"x")
            os.read(changed[0], 1)
            session.stop()
            spaces.drain()
            return sorted(file.path for file in spaces.files.values()), session.stats()

    looked = begin_as_user(ALICE, look)
    os.read(seen[0], 1)
    with monopolize_cpus(process, others):
        release(process)
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 2, "the setuid program")
    os.write(changed[1], b"x")
    paths, stats = looked()
    check(any("python" in name for name in paths), f"the first program is missing: {paths}")
    check(str(path) not in paths, f"the setuid program was reported: {stats}")


@test
def users_see_only_the_user_part():
    reload_module()
    process = busy_as(ALICE, workload("threads")[0])

    def prepare():
        os.sched_setaffinity(0, {0})
        become(ALICE)
    reader = start(*workload("sysread", 10**9), preexec_fn=prepare)
    def in_kernel(samples):
        return [sample for sample in samples if sample.flags & S.SAMPLE_KERNEL]
    samples, _, reported = as_user(ALICE, samples_as_user, 2000, lambda samples: in_kernel(samples) and pids_of(samples) >= {
        process.pid, reader.pid})
    check_equal(reported["parts"], S.PART_USER, "parts")
    for sample in samples:
        check(not sample.kernel, f"kernel frames: {sample}")
        check(all(not frame >> 47 for frame in sample.user), f"a kernel address: {sample}")
    check_equal({STOP_NAMES[sample.kernel_stop] for sample in in_kernel(samples)}, {"excluded"}, "stops of kernel parts")


@test
def users_cannot_raise_restricted_settings():
    reload_module()

    def ask(settings):
        with Session() as session:
            session.set(**settings)
            return session.get()
    for settings, text in (({"parts": KERNEL}, "kernel part"), ({"parts": BOTH}, "kernel part"),
                           ({"budget": S.BUDGET_DEFAULT + 1}, "budget"),
                           ({"ring_size": 2 * S.RING_SIZE_DEFAULT}, "ring"),
                           ({"rate": S.RESTRICTED_RATE_MAX + 1}, "rate")):
        with fails_with(errno.EPERM, f"{settings}", text):
            as_user(ALICE, ask, settings)
        as_user(ALICE, ask, settings, capabilities=[CAP_PERFMON])
    for settings in ({"parts": S.PART_USER}, {"budget": S.BUDGET_DEFAULT}, {"budget": 1},
                     {"ring_size": S.RING_SIZE_DEFAULT}, {"rate": S.RESTRICTED_RATE_MAX}, {"no_jitter": 1}):
        reported = as_user(ALICE, ask, settings)
        check_equal({name: reported[name] for name in settings}, settings, "settings")


@test
def pid_filter_does_not_expose_a_process():
    reload_module()
    other, own = busy_as(BOB, workload("threads")[0]), busy_as(ALICE, workload("threads")[0])
    samples, _, _ = as_user(ALICE, lambda: samples_as_user(1000, lambda _: True, pids=[other.pid]))
    check_equal(samples, [], "samples of another user's process")
    samples, _, _ = as_user(ALICE, lambda: samples_as_user(1000, pids=[other.pid, own.pid]))
    check_equal(pids_of(samples), {own.pid}, "processes")


@test
def users_control_only_their_own_sessions():
    reload_module()
    events = use(Events())
    with sessions_of_user(ALICE, 1, rate=123) as (number,):
        def get():
            with Netlink() as netlink:
                return netlink.session_get(number)["rate"]

        def sessions():
            with Netlink() as netlink:
                return [session["session"] for session in netlink.sessions()]

        def change(settings):
            with Netlink() as netlink:
                netlink.session_set(number, **settings)

        for function, *arguments in ((get,), (change, {"rate": 5})):
            with fails_with(errno.EPERM, "another user", "CAP_PERFMON"):
                as_user(BOB, function, *arguments)
        check_equal(as_user(BOB, sessions), [], "sessions visible to another user")
        check_equal(as_user(ALICE, sessions), [number], "sessions visible to their user")
        check_equal(as_user(ALICE, get), 123, "rate, read by the user")
        as_user(ALICE, change, {"rate": 124})
        check_equal(get(), 124, "rate, read by root")
        change({"rate": 125})
        # Root must not grant a restricted session what its user may not have.
        with fails_with(errno.EPERM, "root, for the user", "kernel part"):
            change({"parts": BOTH})
        for user, expected in ((ALICE, [number]), (BOB, [])):
            out, _ = run(*as_user_prefix(user), "stackbeat", "status", "--json")
            check_equal([session["session"] for session in json.loads(out)["sessions"]], expected,
                        f"sessions in the status of {user}")
    check_equal(events.of(number), [], "events of a user's session")


@test
def sessions_per_user_are_limited():
    reload_module()

    def open_many():
        sessions = [Session() for _ in range(S.RESTRICTED_USER_SESSIONS_MAX)]
        try:
            Session().close()
        except OSError as error:
            sessions[0].close()
            Session().close()
            return error.errno
        return 0

    check_equal(as_user(ALICE, open_many), errno.EUSERS, "errno of one session too many")
    with sessions_of_user(ALICE, S.RESTRICTED_USER_SESSIONS_MAX):
        with fails_with(errno.EUSERS, "one more of the same user"):
            as_user(ALICE, open_and_close)
        as_user(BOB, open_and_close)
        as_user(ALICE, open_and_close, capabilities=[CAP_PERFMON])
        open_and_close()
        _, err = run(*as_user_prefix(ALICE), "stackbeat", "record", "-d", 1, "-o", "/dev/null", status=1)
        check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
        check("session" in err, f"message {err!r}")


@test
def rings_count_against_memlock_limit():
    """Except for the rings of one session per user. CAP_IPC_LOCK lifts the limit."""
    reload_module()

    def set_limit(limit):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))

    def start_two(limit):
        set_limit(limit)
        with Session() as first, Session() as second:
            first.start()
            second.start()
            check_equal(second.get()["state"], S.STATE_RUNNING, "state")
    defer(resource.setrlimit, resource.RLIMIT_MEMLOCK, resource.getrlimit(resource.RLIMIT_MEMLOCK))
    set_limit(64 << 20)
    for _ in range(10):
        as_user(ALICE, start_two, 64 << 20)
    with fails_with(errno.ENOMEM, "a second session without locked memory"):
        as_user(ALICE, start_two, 0)
    as_user(ALICE, open_and_close)
    as_user(ALICE, start_two, 0, capabilities=[CAP_IPC_LOCK])
    start_two(0)


@test
def rings_are_charged_to_the_cgroup():
    if os.uname().release.startswith("5.10."):
        raise Skip("this kernel can't map charged memory")
    if "memory" not in (cgroup_mount() / "cgroup.controllers").read_text().split():
        raise Skip("no memory controller")
    (cgroup_mount() / "cgroup.subtree_control").write_text("+memory")
    group = make_cgroup(cgroup_mount(), "rings")
    path = cgroup_mount() / "cgroup.procs"
    defer(path.write_text, str(os.getpid()))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    before = int((group / "memory.current").read_text())
    with Session(cpus="0", ring_size=16 << 20) as session:
        session.start()
        charged = int((group / "memory.current").read_text()) - before
        check(charged >= 16 << 20, f"{charged} bytes of 16 MiB are charged")
        session.stop()


@test
def sessions_of_all_users_are_limited():
    """The limit holds for all users together, as one person can use many user IDs in a user namespace."""
    reload_module()
    with contextlib.ExitStack() as held:
        for number in range(S.RESTRICTED_SESSIONS_MAX // S.RESTRICTED_USER_SESSIONS_MAX):
            held.enter_context(sessions_of_user(BOB + 1 + number, S.RESTRICTED_USER_SESSIONS_MAX))
        with fails_with(errno.EUSERS, "one more of another user"):
            as_user(ALICE, open_and_close)
        open_and_close()
    as_user(ALICE, open_and_close)


def record_as_alice(directory, *options, status=0):
    """Returns the standard error of `record`: the summary of a recording, or an error."""
    path = directory / "profile"
    _, err = run(*as_user_prefix(ALICE), "stackbeat", "record", "-F", 997, *options, "-o", path,
                 *workload("deep", 5, 100000000), status=status)
    check(len(err.splitlines()) in ((1,) if status else (2, 3)), f"lines of {err!r}")
    return err


def check_records_without_privilege(*options):
    reload_module()
    directory = temporary_directory()
    directory.chmod(0o777)
    start(*workload("threads", len(online_cpus())))
    for words in options:
        record_as_alice(directory, *words)
        profile = pprof.Profile(directory / "profile")
        check_equal({sample.labels["comm"] for sample in profile.samples} - {"stackbeat"},
                    {"deep"}, f"programs in the profile with {words}")
        check(not any(frame.address >> 63 or frame.file.startswith("[kernel")
                      for sample in profile.samples for frame in sample.frames), "kernel frames")


@test
def record_works_without_privilege():
    check_records_without_privilege(("-a",))


@long_test
def options_of_record_work_without_privilege():
    check_records_without_privilege((), ("--user",), ("-F", "max"))


@long_test
def record_refuses_what_needs_privilege():
    reload_module()
    directory = temporary_directory()
    directory.chmod(0o777)
    for options in (("--kernel",), ("--budget", 20), ("--ring-size", "1M"), ("-F", S.RESTRICTED_RATE_MAX + 1)):
        err = record_as_alice(directory, *options, status=1)
        check("CAP_PERFMON" in err, f"{options}: message {err!r}")
        check_equal(list(directory.iterdir()), [], "remaining files")


@test
def unprivileged_parameter_can_be_turned_off():
    reload_module()
    as_user(ALICE, open_and_close)
    PARAMETER.write_text("0")
    with fails_with(errno.EPERM, "a user after turning it off"):
        as_user(ALICE, open_and_close)
    reload_module(parameter=None)
    with fails_with(errno.EPERM, "a user, module loaded without the parameter"):
        as_user(ALICE, open_and_close)
    reload_module(mode=0o600)
    with fails_with(errno.EACCES, "a user without access to the device"):
        as_user(ALICE, open_and_close)
