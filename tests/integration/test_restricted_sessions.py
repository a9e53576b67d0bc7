# SPDX-License-Identifier: GPL-2.0
"""Restricted sessions report only data that their opener can access: by the opener's pid, cgroup and mount
namespaces, and by file permissions. Also the restrictions of kernel lockdown, which can't be undone
(tests/env/vm/run --env STACKBEAT_LOCKDOWN=1), and Secure Boot (--mok)."""

import ctypes
import errno
import fcntl
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
from pathlib import Path

from harness import (cgroup_mount, check, check_equal, defer, fails_with, load, make_cgroup, record,
                     run, samples_of, start, temporary_directory, test, unload, wait_until, workload, WORKLOADS)
from address_spaces import AddressSpaces
from stackbeat import MappedFile, S, Session, AddressSpace, spaces_lost
from test_permissions import reload_module, busy_as, copy_of_threads
from other_users import ALICE, as_user, become, CAP_PERFMON, libc
from unwind_tables import pack_table, wait_for_files

CLONE_NEWPID, CLONE_NEWCGROUP = 0x20000000, 0x02000000
BOTH = S.PART_KERNEL | S.PART_USER
LOCKDOWN = Path("/sys/kernel/security/lockdown")


def lockdown_test(function):
    return test(function) if os.environ.get("STACKBEAT_LOCKDOWN") else function


def secure_boot_test(function):
    """A test for a guest that trusts certificate.pem in the directory STACKBEAT_MOK, which has its key, too."""
    # The module of the other tests is not signed.
    function.loads = False
    return test(function) if os.environ.get("STACKBEAT_MOK") else function


def unshare(flags):
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")


def as_root_child(function, *arguments):
    """Calls function in another process, so that namespaces and root directory of this one do not change."""
    return as_user(0, function, *arguments, capabilities=range(CAP_PERFMON))


def collect_records(session, enough):
    """Runs a session until enough(samples, metadata records), and returns both."""
    session.map_metadata()
    session.start()
    samples, records = [], []

    def read_until_enough():
        nonlocal samples, records
        samples += session.read()
        records += session.meta.read()
        return enough(samples, records)
    wait_until(read_until_enough, "samples and their metadata")
    session.stop()
    samples += session.read()
    wait_until(lambda: not session.pending, "pending metadata")
    return samples, records + session.meta.read()


# --- namespaces ----------------------------------------------------------------


def in_namespaces(cgroup, path, function):
    """Runs a program as process 1 of a new pid namespace, and calls function in another process of it, both as
    ALICE and in the control group that is the root of their cgroup namespace. Returns function's result."""
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    unshare(CLONE_NEWPID | CLONE_NEWCGROUP)
    first = os.fork()
    if not first:
        os.sched_setaffinity(0, {0})
        become(ALICE)
        os.execv(path, [path, "1"])
    try:
        return as_user(ALICE, function)
    finally:
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)


@test
def pids_and_cgroups_are_relative_to_the_openers_namespaces():
    reload_module()
    path = copy_of_threads(0o755)
    outside = busy_as(ALICE, path)
    cgroup = make_cgroup(cgroup_mount(), "stackbeat-policy")

    def look():
        with Session(rate=1000, cpus="0", watermark=4096) as session:
            session.set(pids=[1])
            reported = session.get()
            session.set(pids=[])
            samples, records = collect_records(session, lambda samples, records: len(samples) >= 300 and any(
                isinstance(record, AddressSpace) for record in records))
            return (os.getpid(), reported["owner"], reported["pids"], {sample.pid for sample in samples},
                    {sample.tid for sample in samples},
                    [record for record in records if isinstance(record, AddressSpace)])

    own, owner, pids, seen, threads, spaces = as_root_child(in_namespaces, cgroup, path, look)
    # Process 1 has a thread, which may be there before the opener.
    check(own in (2, 3) and owner == own, f"the opener is {own}, and reported as {owner}")
    check_equal(pids, [1], "processes of the filter")
    check_equal(seen, {1}, f"sampled processes (outside is {outside.pid})")
    check(threads <= set(range(1, 20)), f"threads: {threads}")
    check_equal({(space.pid, space.ns_pid, space.parent, space.cgroup_path) for space in spaces},
                {(1, 1, 0, "/")}, "pid, pid in own namespace, parent and control group")


# --- files ---------------------------------------------------------------------


def open_error_of(path, user=ALICE):
    """Opens a file that a user's process maps, as that user: 0 or the errno."""
    def open_mapped_file():
        with Session(rate=1000, cpus="0", watermark=4096) as session:
            spaces = AddressSpaces(session, keep_files=True, read_files=False)
            session.start()

            def file_ids():
                spaces.read()
                return [file.file_id for file in spaces.files.values() if file.path == str(path)]
            number = wait_until(file_ids, str(path))[0]
            try:
                os.close(session.open_file(number))
            except OSError as error:
                return error.errno
            return 0
    return as_user(user, open_mapped_file)


@test
def files_below_inaccessible_directories_are_refused():
    reload_module()
    path = copy_of_threads(0o755)
    directory = path.parent / "directory"
    inner = directory / "inner"
    inner.mkdir(parents=True)
    moved = path.rename(inner / "threads")
    busy_as(ALICE, moved)
    check_equal(open_error_of(moved), 0, "an accessible file")
    for closed in (inner, directory):
        closed.chmod(0o700)
        check_equal(open_error_of(moved), errno.EACCES, f"a file below {closed.name}, closed")
        closed.chmod(0o711)
        check_equal(open_error_of(moved), 0, f"a file below {closed.name}, which is searchable only")
    # The path by which the file is mounted counts, not the path of the bind mount's source.
    mounted = temporary_directory()
    mounted.chmod(0o755)
    (mounted / "there").mkdir()
    run("mount", "--bind", inner, mounted / "there")
    defer(run, "umount", "-l", mounted / "there")
    directory.chmod(0o700)
    busy_as(ALICE, mounted / "there" / "threads")
    check_equal(open_error_of(mounted / "there" / "threads"), 0, "a file below an accessible mount point")
    mounted.chmod(0o700)
    check_equal(open_error_of(mounted / "there" / "threads"), errno.EACCES, "a file below an inaccessible mount point")


@test
def deleted_files_open_if_their_directory_is_accessible():
    reload_module()
    path = copy_of_threads(0o755)
    busy_as(ALICE, path)
    path.unlink()
    check_equal(open_error_of(path), 0, "a deleted file")
    path.parent.chmod(0o700)
    check_equal(open_error_of(path), errno.EACCES, "a deleted file in an inaccessible directory")


@test
def paths_are_relative_to_the_openers_root():
    reload_module()
    directory = temporary_directory()
    directory.chmod(0o755)
    (directory / "jail").mkdir()
    # Its name has the name of the root directory as a prefix.
    (directory / "jailer").mkdir()
    for name in ("jail", "jailer"):
        shutil.copy(WORKLOADS / "threads", directory / name / f"in-{name}")
        busy_as(ALICE, directory / name / f"in-{name}")
    for name in ("dev", "sys"):
        (directory / "jail" / name).mkdir()
        run("mount", "--rbind", f"/{name}", directory / "jail" / name)
        defer(run, "umount", "-l", directory / "jail" / name)

    def look():
        os.chroot(directory / "jail")
        os.chdir("/")
        become(ALICE)
        with Session(rate=1000, cpus="0", watermark=4096) as session:
            _, records = collect_records(session, lambda _, records: len({
                record.pid for record in records if isinstance(record, AddressSpace)}) >= 2)
            files = [record for record in records if isinstance(record, MappedFile)]
            own = [file.file_id for file in files if file.path]
            for number in own:
                os.close(session.open_file(number))
            return {file.path for file in files}
    check_equal(as_root_child(look), {"/in-jail", ""}, "paths")


# --- processes that have ended -------------------------------------------------


@test
def short_processes_have_address_space_records():
    """When the kernel worker runs, many of these processes have exited."""
    reload_module()
    count = 50

    def look():
        os.sched_setaffinity(0, {0})
        with Session(rate=S.RESTRICTED_RATE_MAX, cpus="0", watermark=4096, budget=S.BUDGET_DEFAULT) as session:
            program = []

            # How many of the processes are sampled depends on the CPUs of the host.
            def are_sampled(samples, _):
                if not program:
                    program.append(subprocess.Popen(["/bin/sh", "-c", f"while :; do {WORKLOADS}/deep 3 20000; done"],
                                                    stdout=subprocess.DEVNULL))
                return len({sample.pid for sample in samples if sample.address_space}) > count
            try:
                samples, records = collect_records(session, are_sampled)
            finally:
                program[0].kill()
                program[0].wait()
            return ({(sample.pid, sample.address_space) for sample in samples if sample.address_space},
                    {record.address_space for record in records if isinstance(record, AddressSpace)},
                    session.stats())
    seen, recorded, stats = as_user(ALICE, look)
    check_equal({space for _, space in seen} - recorded, set(), f"address spaces without a record, of {stats}")
    check_equal(spaces_lost(stats), 0, f"lost address spaces, of {stats}")


# --- unwind tables -------------------------------------------------------------


@test
def tables_are_the_sessions_own_and_limited():
    reload_module()
    path = copy_of_threads(0o755)
    process = busy_as(ALICE, path)
    small = pack_table(0x1000, [0, 1], [0], b"\0", [(8, 0x73, 0, 0, 0)])
    # Of nearly 8 MiB, the limit, and of more.
    large = pack_table(0x1000, [0] + [1] * 2000000, [0], b"\0", [(8, 0x73, 0, 0, 0)])
    larger = pack_table(0x1000, [0] + [1] * 2200000, [0], b"\0", [(8, 0x73, 0, 0, 0)])

    def file_of_process(session):
        session.start()
        spaces = wait_for_files(session, process)
        return next(number for number, file in spaces.files.items() if file.path == str(path))

    def set_and_refuse():
        with Session(rate=1000, cpus="0", watermark=4096) as session, \
             Session(rate=1000, cpus="0", watermark=4096) as other:
            number = file_of_process(session)
            with fails_with(errno.ENOSPC, "a table beyond the limit"):
                session.set_table(number, larger)
            stats = session.stats()
            check_equal((stats["unwind_tables"], stats["unwind_tables_refused"]), (0, 1), "tables, refused")
            session.set_table(number, large)
            with fails_with(errno.EEXIST, "a second table"):
                session.set_table(number, small)
            # Another session of the same user does not have it.
            check_equal(other.stats()["unwind_tables"], 0, "tables of the other session")
            other.set_table(file_of_process(other), small)
            check_equal((session.stats()["unwind_tables"], other.stats()["unwind_tables"]), (1, 1), "tables")

    def set_without_locked_memory():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        with Session(rate=1000, cpus="0", watermark=4096) as session:
            number = file_of_process(session)
            with fails_with(errno.ENOMEM, "a table without locked memory"):
                session.set_table(number, large)
            check_equal(session.stats()["unwind_tables"], 0, "tables")

    def set_after(function):
        """A session with CAP_PERFMON does not have the table of a restricted one."""
        with Session(rate=1000, cpus="0", watermark=4096) as session:
            number = file_of_process(session)
            as_user(ALICE, function)
            before = session.stats()["unwind_tables"]
            session.set_table(number, small)
            check_equal(session.stats()["unwind_tables"], before + 1, "tables of all")

    defer(resource.setrlimit, resource.RLIMIT_MEMLOCK, resource.getrlimit(resource.RLIMIT_MEMLOCK))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 20, 64 << 20))
    set_after(set_and_refuse)
    as_user(ALICE, set_without_locked_memory)


# --- lockdown ------------------------------------------------------------------


@lockdown_test
def lockdown_excludes_the_kernel_part():
    load()
    if not LOCKDOWN.exists():
        run("mount", "-t", "securityfs", "none", "/sys/kernel/security")
    with Session() as session:
        check_equal(session.get()["parts"], BOTH, "parts before lockdown")
        LOCKDOWN.write_text("confidentiality")
        for parts in (S.PART_KERNEL, BOTH):
            with fails_with(errno.EPERM, "the kernel part", "the kernel is locked down"):
                session.set(parts=parts)
    with Session() as session:
        check_equal(session.get()["parts"], S.PART_USER, "parts of a session")
    reader = workload("sysread", 30000)
    profile, _, err = record("-F", 997, command=reader)
    check_equal([line for line in err.splitlines() if "locked down" in line],
                ["stackbeat: the kernel is locked down: the user part alone is recorded"], "message")
    samples = samples_of(profile, "sysread")
    check(samples and not any(frame.address >> 63 for sample in samples for frame in sample.frames),
          "no samples, or kernel frames")
    _, err = run("stackbeat", "record", "--kernel", "-o", temporary_directory() / "profile", *reader,
                 status=1)
    check("the kernel is locked down: no kernel part" in err, f"message {err!r}")
    _, _, err = record("-F", 997, "--user", command=reader)
    check("locked down" not in err, f"an unnecessary message: {err!r}")


def own_command():
    """A copy of the command with a module of its own, which is not signed: (command, module)."""
    unload()
    directory = temporary_directory()
    command = Path(shutil.copy(shutil.which("stackbeat"), directory))
    module = directory / "kmod" / os.uname().release / "stackbeat.ko"
    module.parent.mkdir(parents=True)
    shutil.copy(WORKLOADS.parent / "kmod" / module.parent.name / module.name, module)
    return command, module


def make_key(directory, name):
    run("openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}/",
        "-keyout", directory / "key.pem", "-out", directory / "certificate.pem")
    return directory


def sign(module, keys):
    """Appends a signature to a module, as scripts/sign-file of the kernel does."""
    signature = temporary_directory() / "signature"
    run("openssl", "cms", "-sign", "-md", "sha256", "-binary", "-noattr", "-nocerts", "-signer", keys / "certificate.pem",
        "-inkey", keys / "key.pem", "-outform", "DER", "-in", module, "-out", signature)
    with open(module, "ab") as file:
        size = file.write(signature.read_bytes())
        # struct module_signature of the kernel: PKCS#7, and the size.
        file.write(struct.pack(">2xB5xI", 2, size) + b"~Module signature appended~\n")


ENROLL = "'mokutil --import CERT.der', a reboot, and 'Enroll MOK' in the firmware's menu (DKMS signs with /var/lib/dkms/mok.pub)"


def check_refused(command, *texts):
    """Checks that `load` does not load the module of a command, for a reason with these texts, and names the remedy."""
    _, err = run(command, "load", status=1)
    for text in (f"can't load {command.parent}/kmod/", *texts, f"enroll the key: {ENROLL}"):
        check(text in err, f"{text!r} is missing: {err!r}")


def check_doctor(command, reason):
    report, _ = start(command, "doctor").communicate()
    check(re.search(rf"module signature +{re.escape(reason)}\n +-> {re.escape(ENROLL)}\n", report), report)


@lockdown_test
def lockdown_refuses_untrusted_modules():
    command, module = own_command()
    if not LOCKDOWN.exists():
        run("mount", "-t", "securityfs", "none", "/sys/kernel/security")
    # The test before it may have locked more.
    if "[none]" in LOCKDOWN.read_text():
        LOCKDOWN.write_text("integrity")
    check_refused(command, "the kernel is locked down", "this one has no signature; install stackbeat-dkms")
    Path("/sys/module/module/parameters/sig_enforce").write_text("1")
    check_refused(command, "this one has no signature; install stackbeat-dkms")
    sign(module, make_key(module.parent, "a key of nobody"))
    check_refused(command, "does not trust the key of this signature (a key of nobody)")
    check_doctor(command, "the kernel takes signed modules only")


@secure_boot_test
def secure_boot_takes_a_module_with_an_enrolled_key():
    run("mount", "-t", "securityfs", "none", "/sys/kernel/security")
    run("mount", "-t", "efivarfs", "none", "/sys/firmware/efi/efivars")
    check("[integrity]" in LOCKDOWN.read_text(), "the kernel is not locked down by Secure Boot")
    command, module = own_command()
    check_refused(command, "this one has no signature; install stackbeat-dkms")
    check_doctor(command, "the kernel takes signed modules only (Secure Boot)")
    sign(module, Path(os.environ["STACKBEAT_MOK"]))
    run(command, "load")
    profile, _, err = record("-F", 997, command=workload("sysread", 30000))
    check("source: perf" not in err, err)
    check(any(frame.address >> 63 for sample in samples_of(profile, "sysread") for frame in sample.frames), "no kernel frames")


# --- ioctl ---------------------------------------------------------------------


@test
def nsfs_ioctl_numbers_are_refused():
    load()
    with Session() as session:
        for number in (1, 2):
            with fails_with(errno.ENOTTY, "an ioctl number of nsfs"):
                fcntl.ioctl(session.fd, 0x4008b700 | number, struct.pack("=Q", 1))
            with fails_with(errno.ENOENT, "an unknown file id"):
                fcntl.ioctl(session.fd, 0x40080000 | S.IOC_MAGIC << 8 | number, struct.pack("=Q", 1))


def read_module_symbols():
    with Session() as session:
        return session.module_symbols()[0]


@test
def symbols_of_modules_are_for_privileged_sessions():
    reload_module()
    check_equal(as_user(ALICE, read_module_symbols), errno.EPERM, "answer to a restricted session")
    check_equal(as_user(ALICE, read_module_symbols, capabilities=[CAP_PERFMON]), errno.ENOENT, "answer to a session with CAP_PERFMON")
