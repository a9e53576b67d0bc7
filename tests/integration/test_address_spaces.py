# SPDX-License-Identifier: GPL-2.0
"""Records of address spaces, mappings and files, read by a reader written from stackbeat.h alone."""

import contextlib
import errno
import fcntl
import os
import signal
import statistics
import subprocess
import time
from pathlib import Path

import workloads
from harness import (cgroup_mount, check, check_equal, check_no_fault, defer, fails_with, last_json, load,
                     long_exact_test, long_test, make_cgroup, release, run, Skip, SLOWDOWN, start, start_busy,
                     start_waiting, test, use, wait_until, workload, WORKLOADS)
from address_spaces import AddressSpaces, UNKNOWN, vdso
from stackbeat import online_cpus, PAGE, S, Session, spaces_lost
from test_permissions import reload_module, monopolize_cpus
from other_users import ALICE, as_user, become, BOB, CAP_PERFMON

# An emulated CPU needs more than the default budget to read this number of new processes.
SETTINGS = {"rate": 1000, "watermark": 4096, "ring_size": 4 << 20, "budget": S.BUDGET_MAX}
WORKER = workloads.WORKERS[0]


def in_user_mode(samples):
    return [sample for sample in samples if sample.user and not sample.flags & S.SAMPLE_KERNEL]


def sampled(session, spaces, processes, count=20, wanted=lambda sample: True):
    """Runs the session until there are `count` wanted samples of each process, and returns all samples of
    user mode. Then stops the session and, where permitted, the processes."""
    samples = []
    while not samples_of_each(processes, count)(list(filter(wanted, samples))):
        session.poll()
        samples += in_user_mode(session.read())
        spaces.read()
    session.stop()
    for process in processes:
        with contextlib.suppress(PermissionError):
            os.kill(process.pid, signal.SIGSTOP)
    samples += in_user_mode(session.read())
    spaces.drain()
    return samples


def samples_of_each(processes, count):
    """A function that checks for `count` samples of each process."""
    def enough(samples):
        pids = [sample.pid for sample in samples]
        return all(pids.count(process.pid) >= count for process in processes)
    return enough


def run_sampled(session, spaces, *command):
    """Runs a command to its end in the session; returns (its samples of user mode, the counters)."""
    process = start_waiting(*command)
    session.set(pids=[process.pid])
    session.start()
    release(process)
    samples = []
    while process.poll() is None:
        samples += in_user_mode(session.read())
        spaces.read()
    check_equal(process.returncode, 0, f"status of {command}; output: {process.stderr.read()}")
    session.stop()
    samples += in_user_mode(session.read())
    spaces.drain()
    stats = session.stats()
    check_equal(stats["lost_full"], 0, "lost samples")
    return samples, stats


def executable_mappings(pid):
    """({(start, end, offset)} of the executable mappings in /proc/PID/maps, {start} of the vdso)."""
    found, of_kernel = set(), set()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, rights, offset, *rest = line.split()
        if "x" in rights and rest[-1] != "[vsyscall]":
            start, end = (int(word, 16) for word in addresses.split("-"))
            found.add((start, end, int(offset, 16)))
            if rest[-1] == "[vdso]":
                of_kernel.add(start)
    return found, of_kernel


# --- records -----------------------------------------------------------------


@test
def address_space_record_matches_maps():
    path = workloads.on_tmpfs()
    process = start_busy(path, workloads.FOR_EVER)
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = sampled(session, spaces, [process], 50)
        check_equal(len({(sample.address_space, sample.generation) for sample in samples}), 1, "address spaces")
        space = spaces.last_record(samples[0].address_space)
        started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        group = Path(f"/proc/{process.pid}/cgroup").read_text().strip().partition("::")[2]
        check_equal((space.pid, space.ns_pid, space.parent, space.comm, space.dropped, space.gap),
                    (process.pid, process.pid, os.getpid(), path.name, 0, 0), "process")
        check_equal(space.start_time * os.sysconf("SC_CLK_TCK") // 10**9, started, "start time")
        check_equal(space.cgroup_path, group, "control group")
        check_equal(space.cgroup, (cgroup_mount() / group.lstrip("/")).stat().st_ino,
                    "id of the control group")

        mappings = spaces.spaces[samples[0].address_space].snapshots[0].mappings
        expected, of_kernel = executable_mappings(process.pid)
        check_equal({(mapping.start, mapping.end, mapping.offset) for mapping in mappings},
                    expected, "mappings")
        for mapping in mappings:
            expected = (S.MAPPING_VDSO if mapping.start in of_kernel
                        else S.MAPPING_MAIN_BINARY | S.MAPPING_VADDR)
            check_equal(mapping.flags, expected, f"flags of {mapping}")
            check_equal(bool(mapping.file_id), mapping.start not in of_kernel, "has a file")
        file, = spaces.files.values()
        status = path.stat()
        check_equal((file.flags, file.path, file.inode, file.size, file.build_id),
                    (S.FILE_LASTING, str(path), status.st_ino, status.st_size, workloads.build_id(path.name)),
                    "file")
        check_equal(file.device, (os.major(status.st_dev), os.minor(status.st_dev)), "device")
        for sample in samples:
            fault = workloads.worker_fault(sample.comm, spaces.symbolize(sample))
            check_no_fault(fault, sample)
        stats = session.stats()
        check_equal((stats["address_spaces"], spaces_lost(stats), stats["files"]), (1, 0, 0),
                    "address spaces, lost ones, open files")


@long_test
def metadata_is_kept_for_a_late_reader():
    """The metadata is first read after the session has ended, and is larger than its ring. Each process has
    its own address spaces and symbols."""
    directory = workloads.tmpfs()
    with Session(**SETTINGS) as session:
        spaces = AddressSpaces(session, keep_files=True)
        samples = []
        # How many of the processes are sampled depends on the CPUs of the host.
        while len({sample.address_space for sample in samples}) < 600:
            process = start_waiting(*workloads.churn(directory, "fork", 200, 200000))
            session.set(pids=[process.pid])
            session.start()
            release(process)
            process.communicate()
            check_equal(process.returncode, 0, "status")
            samples += in_user_mode(session.read())
        session.stop()
        samples += in_user_mode(session.read())
        stats = spaces.session.stats()
        spaces.drain()
        print(f"# {session.meta.head} bytes of metadata")
        check(session.meta.head > S.META_RING_SIZE, f"only {session.meta.head} bytes")
        check_equal((spaces_lost(stats), stats["mmap_events_lost"], stats["mappings_without_file"]),
                    (0, 0, 0), "losses")
        check_equal(session.stats()["address_spaces"], sum(len(space.snapshots)
                                                   for space in spaces.spaces.values()), "address spaces")
        workers = 0
        for sample in samples:
            check(sample.address_space, f"no address space: {sample}")
            check_equal(spaces.last_record(sample.address_space).pid, sample.pid, "process of the address space")
            frames = spaces.symbolize(sample)
            fault = (workloads.worker_fault(sample.comm, frames) if sample.comm in workloads.WORKERS
                     else workloads.driver_fault(frames) if sample.comm == "churn" else None)
            check_no_fault(fault, sample)
            workers += sample.comm in workloads.WORKERS
        check(workers >= 400, f"only {workers} samples of {len(samples)} are of workers")
        unlinked = [file for file in spaces.files.values() if file.flags & S.FILE_UNLINKED]
        check(unlinked, "no file was unlinked")
        check_equal({Path(file.path).parent for file in unlinked}, {directory}, "paths of unlinked files")


@test
def exec_at_the_same_addresses_gets_a_new_address_space():
    directory = workloads.tmpfs()
    with Session(**SETTINGS) as session:
        spaces = AddressSpaces(session)
        samples, _ = run_sampled(session, spaces, *workloads.churn(directory, "exec", 160, 2000000))
        seen = {}
        for sample in samples:
            if sample.comm in workloads.WORKERS:
                fault = workloads.worker_fault(sample.comm, spaces.symbolize(sample))
                check_no_fault(fault, sample)
                seen.setdefault(sample.pid, {}).setdefault(sample.comm, set()).add(sample.address_space)
        check(any(len(programs) > 1 for programs in seen.values()),
              "no process was seen in two programs")
        for programs in seen.values():
            ids = [number for spaces_of in programs.values() for number in spaces_of]
            check_equal(len(ids), len(programs), f"address spaces of {programs}")


@long_test
def library_at_the_address_of_an_unloaded_one_is_reported():
    with Session(**SETTINGS) as session:
        spaces = AddressSpaces(session)
        samples, stats = run_sampled(session, spaces, *workloads.dlswap(60))
        found = 0
        for sample in samples:
            if sample.comm != "dlswap":
                continue
            frames = spaces.symbolize(sample)
            if any(frame.mapping is UNKNOWN for frame in frames):
                check(stats["mmap_events_lost"], f"unknown mapping without a lost event: {frames}")
                continue
            fault, in_library = workloads.swap_fault(frames)
            check(not fault, f"{fault}; generation {sample.generation} of {frames}")
            found += in_library
        check(found >= 50, f"only {found} of {len(samples)} samples are of libraries")
        check(stats["mmap_events"], f"no mapping event was reported: {stats}")


@test
def address_space_is_kept_until_its_mappings_are_read():
    """Even if they are read late: the kernel worker can't run here, and many processes that share the memory
    compete for the slot in the table."""
    others = online_cpus()[1:]
    if not others:
        raise Skip("only one CPU")
    process = start(*workload("vforker", 24, 2000000), stdin=subprocess.PIPE,
                    preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    check_equal(process.stdout.readline(), "ready\n", "first output")
    with Session(**{**SETTINGS, "rate": 5000}, cpus="0", pids=[process.pid]) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = []
        with monopolize_cpus(process, others):
            release(process)
            wait_until(lambda: samples.extend(in_user_mode(session.read())) or samples,
                       "first sample")
            release(process)
            check_equal(process.stdout.readline(), "done\n", "output")
        session.stop()
        samples += in_user_mode(session.read())
        spaces.drain()
    check(len({sample.pid for sample in samples}) > 16, "too few processes were sampled")
    check_equal(samples[0].pid, process.pid, "process of the first sample")
    record = spaces.last_record(samples[0].address_space)
    check(record.mappings, f"the mappings were not read: {record}")
    check_equal([frame.function for frame in spaces.symbolize(samples[0])], ["main", "_start"], "stack of the first sample")


# --- files -------------------------------------------------------------------


@test
def opened_file_is_the_mapped_file():
    """Also after its path was unlinked and replaced, and its process has exited. Its file system can be
    unmounted as soon as the file is released, while the session goes on."""
    directory = workloads.tmpfs()
    other = start(*workload(WORKER, workloads.FOR_EVER))
    path = workloads.copy_to(directory, workloads.WORKERS[7])
    content = path.read_bytes()
    process = start(path, workloads.FOR_EVER)
    file, session = mapped_file_of(process, path, keep_files=True)
    with session:
        session.set(pids=[process.pid, other.pid])
        number = file.file_id
        process.kill()
        process.wait()
        # A file that the session holds open can be written to.
        with wait_until(lambda: writable(path), "release of the address space"):
            pass
        path.unlink()
        path.write_bytes((WORKLOADS / workloads.WORKERS[8]).read_bytes())
        files = [session.open_file(number), session.open_file(number)]
        for file in files:
            check_equal(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE, os.O_RDONLY, "access")
            check_equal(fcntl.fcntl(file, fcntl.F_GETFD), fcntl.FD_CLOEXEC, "flags")
            with fails_with(errno.EBADF, "write"):
                os.write(file, b"x")
            check_equal(os.read(file, len(content) + 1), content, "content")
            os.close(file)
        for unknown in (0, number + 1000, 2**64 - 1):
            with fails_with(errno.ENOENT, f"file {unknown}"):
                session.open_file(unknown)
            with fails_with(errno.ENOENT, f"release of file {unknown}"):
                session.release_file(unknown)
        check(not workloads.unmount(directory), "unmounted although a file is held open")
        session.release_file(number)
        with fails_with(errno.ENOENT, "a released file"):
            session.open_file(number)
        with fails_with(errno.ENOENT, "release of a released file"):
            session.release_file(number)
        wait_until(lambda: workloads.unmount(directory), "a file system that is not busy")
        written = session.stats()["samples"]
        wait_until(lambda: session.stats()["samples"] > written, "more samples")


def writable(path):
    try:
        return open(path, "r+b")
    except OSError as error:
        check_equal(error.errno, errno.ETXTBSY, "errno")
        return None


@test
def close_releases_all_files():
    directory = workloads.tmpfs()
    process = start(workloads.copy_to(directory, WORKER), workloads.FOR_EVER)
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session, keep_files=True)
        session.start()
        sampled(session, spaces, [process])
        check_equal(session.stats()["files"], 1, "files")
        process.kill()
        process.wait()
        check(not workloads.unmount(directory), "unmounted although a file is held open")
    wait_until(lambda: workloads.unmount(directory), "a file system that is not busy")


LOCKS_AND_MAPS = """
import fcntl, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
code = mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
while True:
    pass
"""


def mapped_file_of(process, path, **options):
    """(record of a file that the process maps, the session). The session goes on."""
    session = use(Session(**SETTINGS, pids=[process.pid]))
    spaces = AddressSpaces(session, **options)
    session.start()

    def mapped():
        spaces.read()
        return next((file for file in spaces.files.values() if file.path == str(path)), None)
    return wait_until(mapped, "the record of the file"), session


@test
def file_locks_end_with_their_process():
    """The session's reference keeps neither locks nor write access: a file open for writing can't be executed."""
    path = workloads.copy_to(workloads.tmpfs(), WORKER)
    process = start("/usr/bin/python3", "-c", LOCKS_AND_MAPS, path)
    file, session = mapped_file_of(process, path, keep_files=True)
    process.kill()
    process.wait()
    # The address space is released a moment later.
    wait_until(lambda: can_be_locked(path), "an unlocked file")
    run(path, 1)
    os.close(session.open_file(file.file_id))


LEASES_AND_MAPS = """
import fcntl, mmap, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDONLY)
code = mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
while True:
    pass
"""


@test
def leases_make_no_reader_wait():
    """Until the kernel breaks the lease, after 45 s, which its owner can repeat with another file."""
    path = workloads.copy_to(workloads.tmpfs(), WORKER)
    process = start("/usr/bin/python3", "-c", LEASES_AND_MAPS, path)
    file, session = mapped_file_of(process, path, read_files=False, keep_files=True)
    wait_until(lambda: "LEASE" in Path("/proc/locks").read_text(), "a lease")
    with fails_with(errno.EAGAIN, "a file with a lease"):
        session.open_file(file.file_id)
    process.kill()
    process.wait()
    os.close(session.open_file(file.file_id))


def can_be_locked(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False


POISONS = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
code = mmap.mmap(file, 0, flags=mmap.MAP_SHARED)
code[0]
code.madvise(100, 0, mmap.PAGESIZE) # MADV_HWPOISON
"""


@test
def poisoned_memory_is_not_read():
    path = workloads.copy_to(workloads.tmpfs(), WORKER)
    poisons = start("/usr/bin/python3", "-c", POISONS, path)
    _, err = poisons.communicate()
    if "Invalid argument" in err:
        raise Skip("this kernel has no MADV_HWPOISON")
    # Processes that have mapped the page get SIGBUS or SIGKILL.
    check(poisons.returncode in (0, -signal.SIGBUS, -signal.SIGKILL), f"output: {err}")
    process = start("/usr/bin/python3", "-c", LOCKS_AND_MAPS, path)
    file, _ = mapped_file_of(process, path, read_files=False)
    check_equal((file.flags & S.FILE_HEADERS_NOT_READ, file.build_id), (S.FILE_HEADERS_NOT_READ, ""),
                "flags and build id")


@long_test
def queued_metadata_is_bounded_by_its_bytes():
    """The metadata is not read. Its queue is bounded in bytes, to which long control group paths count."""
    group = cgroup_mount()
    for number in range(15):
        group = make_cgroup(group, f"{number:x}".ljust(254, "-"))
    with Session(rate=5000, ring_size=4 << 20, budget=S.BUDGET_MAX) as session:
        process = start_waiting(*workloads.churn(workloads.tmpfs(), "fork", 2500, 200000))
        (group / "cgroup.procs").write_text(str(process.pid))
        session.set(pids=[process.pid])
        session.start()
        release(process)
        while process.poll() is None and not spaces_lost(session.stats()):
            session.poll()
            session.read()
        session.stop()
        stats = session.stats()
        check(spaces_lost(stats), f"no address space was lost: {stats}")
        process.kill()
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty control group")


def user_process(path, user):
    return start_busy(path, workloads.FOR_EVER, preexec_fn=lambda: become(user))


def symbols_and_errors(processes):
    """({pid: {(function, build id)}} of processes, the errors of refused files)."""
    with Session(rate=1000, watermark=4096, pids=[process.pid for process in processes]) as session:
        spaces = AddressSpaces(session)
        session.start()
        named = {}
        for sample in sampled(session, spaces, processes):
            frame = spaces.symbolize(sample)[0]
            named.setdefault(sample.pid, set()).add((frame.function, frame.build_id))
        return named, sorted(spaces.refused.values())


@test
def files_unreadable_to_the_opener_are_refused():
    """For a user whose process runs a file that became unreadable, and for a user with CAP_PERFMON. The
    credentials of the opener of the session count."""
    reload_module()
    directory = workloads.tmpfs()
    readable, hidden = (workloads.copy_to(directory, name) for name in workloads.WORKERS[:2])
    mine, lost = (user_process(path, ALICE) for path in (readable, hidden))
    others = user_process(hidden, BOB)
    workloads.root_only(hidden)
    expected = {readable.name: {(readable.name, workloads.build_id(readable.name))},
                hidden.name: {("", workloads.build_id(hidden.name))}}
    named, refused = as_user(ALICE, symbols_and_errors, [mine, lost])
    check_equal(named, {mine.pid: expected[readable.name], lost.pid: expected[hidden.name]},
                "symbols for a user")
    check_equal(refused, [errno.EACCES], "errors for a user")
    mine.send_signal(signal.SIGCONT)
    named, refused = as_user(ALICE, symbols_and_errors, [mine, others],
                             capabilities=[CAP_PERFMON])
    check_equal(named, {mine.pid: expected[readable.name], others.pid: expected[hidden.name]},
                "symbols with CAP_PERFMON")
    check_equal(refused, [errno.EACCES], "errors with CAP_PERFMON")
    with Session(**SETTINGS, pids=[others.pid]) as session:
        spaces = AddressSpaces(session, keep_files=True)
        session.start()
        sampled(session, spaces, [others])
        file_id, = spaces.files

        def read_mapped_file():
            with open(session.open_file(file_id), "rb") as file:
                return file.read()
        check_equal(as_user(ALICE, read_mapped_file), hidden.read_bytes(), "content of a file opened by root's session")


@test
def open_files_are_bounded_and_counted():
    count = S.FILES_MAX + 100
    process = workloads.start_ready(*workload("maps", "files", count, 0, workloads.tmpfs()))
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session, read_files=False)
        session.start()
        sampled(session, spaces, [process])
        stats = session.stats()
        # The main binary is one more.
        check_equal((stats["files"], stats["mappings_without_file"], len(spaces.files)),
                    (S.FILES_MAX, 101, S.FILES_MAX), "open files, mappings without a file, reported files")
        snapshot, = (snapshot for space in spaces.spaces.values() for snapshot in space.snapshots)
        known = [mapping.file_id for mapping in snapshot.mappings if mapping.file_id]
        check_equal(sorted(known), sorted(spaces.files), "files of the mappings")
        for number in known:
            session.release_file(number)
        check_equal(session.stats()["files"], 0, "open files")


# --- file systems ------------------------------------------------------------


@long_test
def files_of_all_file_systems_are_reported():
    processes = workloads.start_on_file_systems()
    name, memfd = workloads.start_memfd()
    all_processes = [process for _, process in processes.values()] + [memfd]
    with Session(**SETTINGS, pids=[process.pid for process in all_processes]) as session:
        spaces = AddressSpaces(session, keep_files=True)
        session.start()
        samples = sampled(session, spaces, all_processes)

        def file_and_stacks(process):
            """(file that holds the functions of a process, symbolized stacks of its samples)."""
            own = [sample for sample in samples if sample.pid == process.pid]
            own = [spaces.symbolize(sample) for sample in own[:20]]
            return spaces.files[own[0][0].mapping.file_id], own

        for kind, (path, process) in processes.items():
            file, stacks = file_and_stacks(process)
            for frames in stacks:
                fault = workloads.worker_fault(path.name, frames)
                check(not fault, f"{kind}: {fault}")
            check_equal((file.path, file.size, file.build_id),
                        (str(path), path.stat().st_size, workloads.build_id(path.name)), kind)
            with open(session.open_file(file.file_id), "rb") as opened:
                check_equal(opened.read(), path.read_bytes(), f"{kind}: content")
        file, stacks = file_and_stacks(memfd)
        check_equal((file.path, file.build_id), (f"/memfd:{name}", workloads.build_id(name)), "memfd")
        for frames in stacks:
            check({frame.function for frame in frames} <= {name, "main", "_start"},
                  f"memfd: {frames}")


def is_before_frame(elf, address):
    """Whether an address may be before its function has set up a frame: up to mov %rsp,%rbp, which need
    not follow push %rbp directly, as in the vdso of 7.2."""
    start = max((value for value, _, _ in elf.functions if value <= address), default=0)
    return address <= elf.data.find(b"\x48\x89\xe5", start)


@test
def vdso_is_reported():
    process = start_busy(*workload("vdso", workloads.FOR_EVER))
    functions = vdso()
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session)
        session.start()

        def in_vdso(sample):
            return sample.user[0] >> 40 == 0x7f
        for sample in filter(in_vdso, sampled(session, spaces, [process], 50, in_vdso)):
            frames = spaces.symbolize(sample)
            mapping = frames[0].mapping
            check(mapping and mapping.flags & S.MAPPING_VDSO, f"no vdso: {frames}")
            # The first one or two functions of the vdso have no symbol.
            address = sample.user[0] - mapping.start
            is_nameless = address < functions.functions[0][0]
            check("clock_gettime" in functions.function(address) or is_nameless,
                  f"{address:#x} in the vdso: {sample}")
            callers = [frame.function for frame in frames[1:]]
            # These functions have no frame, but at their return the caller is known: a function of the vdso, too.
            if is_nameless and "clock_gettime" in functions.function(sample.user[1] - 1 - mapping.start):
                callers.pop(0)
            # The vdso of the debug kernels has more such addresses.
            if (SLOWDOWN > 1 or is_before_frame(functions, address)) and "read_clock" not in callers:
                callers.insert(0, "read_clock")
            check_equal(callers, ["read_clock", "main", "_start"], "callers")


@test
def anonymous_code_is_reported():
    for mode in ("thp", "huge"):
        process = workloads.start_huge(mode)
        with Session(**SETTINGS, pids=[process.pid]) as session:
            spaces = AddressSpaces(session)
            session.start()
            samples = sampled(session, spaces, [process], 50)
            for sample in samples:
                frames = spaces.symbolize(sample)
                names = [frame.function for frame in frames]
                check(names[-2:] == ["main", "_start"], f"{mode}: {frames}")
                if len(names) == 5:
                    check_equal(names, ["", "call", "call_often", "main", "_start"], mode)
                    check(frames[0].mapping and not frames[0].mapping.flags & S.MAPPING_VADDR,
                          f"{mode}: {frames[0]}")
            check(any(len(sample.user) == 5 for sample in samples), f"{mode}: no sample in the generated code")
        process.kill()
        process.wait()


# --- bounds ------------------------------------------------------------------


@long_test
def first_mappings_are_reported_beyond_the_limit():
    workloads.raise_limit_of_mappings(200000)
    process = workloads.start_ready(*workload("maps", "many", 60000))
    expected, _ = executable_mappings(process.pid)
    check(len(expected) > 30000, f"only {len(expected)} mappings")
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session)
        session.start()
        samples = sampled(session, spaces, [process], 50)
        check_equal(len({sample.address_space for sample in samples}), 1, "address spaces")
        snapshot, = spaces.spaces[samples[0].address_space].snapshots
        reported = [(mapping.start, mapping.end, mapping.offset) for mapping in snapshot.mappings]
        check_equal(len(reported), S.MAPPINGS_MAX, "mappings that were reported")
        check(set(reported) <= expected, "mappings that /proc does not show")
        check_equal(snapshot.record.dropped, len(expected) - S.MAPPINGS_MAX, "dropped mappings")
        check_equal(session.stats()["mappings_dropped"], snapshot.record.dropped, "counter of dropped mappings")
        for sample in samples:
            check_equal([frame.function for frame in spaces.symbolize(sample)][-2:],
                        ["main", "_start"], "callers")


def check_event_counts(spaces, stats, count):
    """Checks that each of `count` mapping events was reported or counted as lost; returns the number of
    reported events.

    A program that was first sampled within execve() has another address space afterwards.
    """
    events = [len(space.events) for space in spaces.spaces.values()]
    check_equal(sum(events), stats["mmap_events"], "reported mapping events")
    check(max(events) + stats["mmap_events_lost"] >= count, f"{events} of {count} mapping events: {stats}")
    check(max(events) <= count + 10, f"{events} mapping events, there were {count}")
    return sum(events)


@long_test
def jit_with_ten_thousand_regions_is_followed():
    regions = 10000
    with Session(**(SETTINGS | {"rate": 250})) as session:
        spaces = AddressSpaces(session)
        samples, stats = run_sampled(session, spaces, *workload("maps", "regions", regions, 30000))
        inside = unknown = 0
        for sample in samples:
            check(sample.address_space, f"no address space: {sample}")
            frames = spaces.symbolize(sample)
            if len(frames) < 2 or frames[1].function != "call" or frames[0].function:
                continue
            inside += 1
            mapping = frames[0].mapping
            if mapping is UNKNOWN:
                unknown += 1
                continue
            check(mapping and not mapping.file_id and mapping.end - mapping.start == PAGE,
                  f"a region is {mapping}, sampled at generation {sample.generation}")
        check(inside >= 100, f"only {inside} samples in regions")
        check(not unknown or stats["mmap_events_lost"] or stats["mappings_dropped"],
              f"{unknown} regions are unknown, of {inside}: {stats}")
        events = check_event_counts(spaces, stats, regions)
        read = sum(len(snapshot.mappings) for space in spaces.spaces.values()
                   for snapshot in space.snapshots)
        # Each region is reported once for an address space, and later snapshots are smaller in total. Where the
        # worker is slow, as on a debug kernel, events are lost, and all mappings are read again.
        rereads = sum(bool(snapshot.record.gap) for space in spaces.spaces.values() for snapshot in space.snapshots)
        limit = (4 + bool(stats["mmap_events_lost"]) * rereads) * regions
        check(events + read <= limit, f"{events} events and {read} mappings were reported: {stats}")


def check_mmap_storm(storms):
    """The program ends, other samples go on, and each mapping event is reported or counted as lost."""
    bystander = start(*workload(WORKER, workloads.FOR_EVER),
                      preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    process = start_waiting(*workload("maps", "storm", storms))
    with Session(**SETTINGS, pids=[process.pid, bystander.pid]) as session:
        spaces = AddressSpaces(session)
        session.start()
        release(process)
        samples = []
        while process.poll() is None or len(samples) < 20:
            samples += [sample for sample in in_user_mode(session.read())
                        if sample.pid == bystander.pid]
            spaces.read()
        check_equal(process.returncode, 0, "status")
        stats = session.stats()
        wait_until(lambda: session.stats()["samples"] > stats["samples"], "more samples")
        session.stop()
        spaces.drain()
        stats = session.stats()
        check_event_counts(spaces, stats, storms)
        for sample in samples:
            fault = workloads.worker_fault(sample.comm, spaces.symbolize(sample))
            check_no_fault(fault, sample)


@test
def mmap_storm_is_survived():
    check_mmap_storm(8000)


@long_test
def long_mmap_storm_is_survived():
    check_mmap_storm(30000)


@test
def unread_metadata_is_bounded():
    """Queued mappings are bounded, and dropped beyond the limit. The session ends as usual."""
    workloads.raise_limit_of_mappings(200000)
    # On slow debug kernels: the fewest processes that exceed the limit of queued mappings.
    processes = 8 if SLOWDOWN == 1 else S.MAPPINGS_WAITING_MAX // S.MAPPINGS_MAX + 1
    process = workloads.start_ready(*workload("maps", "many", 2 * S.MAPPINGS_MAX - 100, processes))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    pids = [process.pid, *map(int, children.split())]
    with Session(**SETTINGS, pids=pids) as session:
        session.start()
        wait_until(lambda: session.stats()["mappings_dropped"], "dropped mappings")
        session.stop()
        check(session.pending, "no metadata is pending")
        session.map_metadata()
        # The ring is written after all sampled address spaces have been read.
        wait_until(lambda: session.meta.head >= S.META_RING_SIZE // 2, "metadata")
        check(session.meta.head <= S.META_RING_SIZE, f"{session.meta.head} bytes in it")
    process.kill()
    process.wait()
    with Session() as session:
        stats = session.stats()
        check_equal((stats["address_spaces"], stats["files"]), (0, 0), "counters of another session")


def count_worker_runs(seconds):
    """How often the kernel worker runs in that time."""
    tracing = Path("/sys/kernel/tracing")
    if not (tracing / "trace").exists():
        run("mount", "-t", "tracefs", "none", tracing)
        defer(run, "umount", tracing)
    event = tracing / "events/workqueue/workqueue_execute_start/enable"
    defer((tracing / "trace").write_text, "")
    defer(event.write_text, "0")
    event.write_text("1")
    time.sleep(seconds)
    event.write_text("0")
    return (tracing / "trace").read_text().count("sb_capture_work")


@long_exact_test
def worker_backs_off_from_an_unread_metadata_ring():
    """The worker runs less and less often, and resumes as soon as the reader reads."""
    workloads.raise_limit_of_mappings(200000)
    process = workloads.start_ready(*workload("maps", "many", 2 * S.MAPPINGS_MAX - 100))
    with Session(**SETTINGS, pids=[process.pid]) as session:
        spaces = AddressSpaces(session, read_files=False)
        session.map_metadata()
        session.start()
        wait_until(lambda: session.meta.head > S.META_RING_SIZE - PAGE, "a full ring")
        session.stop()
        runs = count_worker_runs(3)
        check(1 <= runs <= 10, f"the worker ran {runs} times in 3 s")
        head = session.meta.head
        spaces.read()
        session.poll()
        wait_until(lambda: session.meta.head > head, "more metadata")
        spaces.drain()
        check_equal(session.stats()["mappings_dropped"], 0, "dropped mappings")


@long_exact_test
def exit_of_a_big_process_is_not_delayed():
    """A process of 64 MiB, in a guest whose clock counts instructions. The median of its exits counts, as
    some of them are interrupted by other work of the kernel."""
    load()
    took = {}
    for name in ("alone", "sampled"):
        with Session(rate=1000, ring_size=4 << 20) as session:
            if name == "sampled":
                session.start()
            out, _ = run(*workload("bigexit", 64, 3, 5000000))
            took[name] = statistics.median(last_json(out))
            if name == "sampled":
                comms = [sample.comm for sample in session.read() if sample.address_space]
                check(comms.count("bigexit") >= 100, "too few samples of bigexit")
    check(took["sampled"] <= 1.2 * took["alone"], f"nanoseconds to exit: {took}")
