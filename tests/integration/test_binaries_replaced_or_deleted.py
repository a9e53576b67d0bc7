# SPDX-License-Identifier: GPL-2.0
"""`stackbeat record` symbolizes each user frame (file, build ID and function), even if the process has
exited and the binary was replaced or deleted."""

import os
import re
import signal
from pathlib import Path

import workloads
from harness import (cgroup_mount, check, check_equal, check_no_fault, defer, kernel_part, load, long_test,
                     make_cgroup, PATIENCE, record, Recording, SLOWDOWN, start, temporary_directory, test, unload,
                     wait_for_work, wait_until, workload, WORKLOADS)
from address_spaces import vdso

# An emulated CPU needs more than the default budget to read this number of new processes, and a slow one more than two
# minutes for the names of all programs.
RATE = ("-F", 997, "--budget", 50, "--symbolize-timeout", 120 * PATIENCE)


def user_frames(sample):
    return [frame for frame in sample.frames
            if not frame.address >> 63 and not frame.file.startswith("[kernel")]


def stacks(profile):
    """(sample, user part) of each sample that has one."""
    for sample in profile.samples:
        frames = user_frames(sample)
        if frames:
            yield sample, frames


def check_workers(profile, least, each_program=True):
    """Checks file, build ID and function of each user frame of the workers and of churn."""
    seen, pids = set(), set()
    # Shown with a failure, as these counters may explain it.
    counts = [line for line in profile.comments if line.startswith(("lost", "address spaces"))]
    for sample, frames in stacks(profile):
        comm = sample.labels["comm"]
        if comm in workloads.WORKERS:
            fault = workloads.worker_fault(comm, frames)
            pids.add(sample.labels["pid"])
            seen.add(comm)
        elif comm == "churn":
            fault = workloads.driver_fault(frames)
        else:
            continue
        check_no_fault(fault, (sample, counts))
    check(len(pids) >= least, f"only {len(pids)} processes were sampled, {least} expected")
    if each_program:
        check_equal(sorted(seen), workloads.WORKERS, "sampled programs")
    check(any(frame.inlined == ("work",) and frame.function in workloads.WORKERS
              for _, frames in stacks(profile) for frame in frames), "work() is not inlined into any worker")
    broken = profile.total("samples", lambda sample: workloads.lacks_entry_frame(kernel_part(sample)) and
                        not workloads.is_in_trampoline(kernel_part(sample)))
    check(50 * broken <= profile.total("samples"), f"{broken} kernel parts without an entry function")


def wait_for_cpu_time(processes):
    """Waits until each process has worked for another 0.2 s of CPU time."""
    wait_for_work(processes, 20)


def stop_and_finish(recording, processes):
    """Stops processes, so that they don't slow the reader down, and ends the recording."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    recording.interrupt()
    return recording.profile()


def record_churn(mode, count, least, *arguments, work=100000):
    """Records `count` processes that do so much work, and checks that at least `least` of them are sampled, and each
    program. Returns the profile.

    On debug kernels, where processes are slow, a tenth of them, but at least four per program.
    """
    directory = workloads.tmpfs()
    fewer = min(count, max(count // SLOWDOWN, 4 * len(workloads.WORKERS)))
    profile, _, _ = record(*RATE, command=workloads.churn(directory, mode, fewer, work, *arguments))
    check_equal(list(directory.iterdir()), [], "remaining files")
    check_workers(profile, least * fewer // count)
    return profile


@test
def some_short_processes_are_symbolized():
    """Each works for half a millisecond on the fastest CPU: half of them or more are sampled."""
    profile, _, _ = record(*RATE, command=workloads.churn(workloads.tmpfs(), "fork", 60, 2000000))
    check_workers(profile, 15, each_program=False)


@long_test
def short_processes_are_symbolized():
    """The programs of few processes do more work, so that each is sampled."""
    record_churn("fork", 200, 50, work=1000000)


@long_test
def thousand_short_processes_are_symbolized():
    record_churn("fork", 1000, 250)


@long_test
def chains_of_vfork_and_exec_are_symbolized():
    record_churn("chain", 400, 100)


# Functions of load_elf_binary() while the old memory is gone and the registers are still the old ones.
REPLACES_THE_PROGRAM = {"setup_arg_pages", "elf_map", "elf_load", "load_elf_interp", "exec_mmap"}


def check_exec(count, least, **options):
    profile = record_churn("exec", count, least, **options)
    within = [sample for sample in profile.samples
              if REPLACES_THE_PROGRAM & set(kernel_part(sample)) and "load_elf_binary" in kernel_part(sample)]
    check(within, "no sample within execve()")
    for sample in within:
        check_equal(user_frames(sample), [], f"user part in {kernel_part(sample)}")
        check_equal(sample.labels.get("truncated"), "exec", f"label of {kernel_part(sample)}")


@long_test
def exec_at_the_same_addresses_is_symbolized():
    check_exec(240, 30, work=1000000)


@long_test
def exec_of_many_programs_is_symbolized():
    check_exec(400, 50)


@long_test
def short_threads_are_symbolized():
    profile = record_churn("vfork", 200, 50, 3)
    check(any("start_thread" in [frame.function for frame in frames]
              for _, frames in stacks(profile)), "no thread was sampled")


@test
def library_at_the_address_of_an_unloaded_one_is_symbolized():
    profile, _, _ = record(*RATE, command=workloads.dlswap(40))
    found = 0
    for sample, frames in stacks(profile):
        if sample.labels["comm"] == "dlswap":
            kernel = kernel_part(sample)
            # The unwinder can't walk the entry code of a fault: a single frame of the kernel.
            in_fault = len(kernel) == 1 or any("page_fault" in name for name in kernel)
            fault, in_library = workloads.swap_fault(frames, in_fault)
            check_no_fault(fault, sample)
            found += in_library
    # Equal stacks are merged into one sample.
    check(found >= len(workloads.LIBRARIES), f"only {found} stacks in libraries")
    functions = {frame.function for _, frames in stacks(profile) for frame in frames}
    check(set(workloads.LIBRARIES) <= functions, f"functions {functions}")


@test
def process_in_a_container_is_symbolized():
    """Its binary exists only in its mount namespace, and it has another process ID in its pid namespace."""
    container = "0123456789abcdef" * 4
    group = make_cgroup(make_cgroup(cgroup_mount(), f"stackbeat-{os.getpid()}.slice"),
                        f"docker-{container}.scope")

    def join():
        (group / "cgroup.procs").write_text("0")
    recording = Recording(*RATE, "-G", group)
    session = recording.session()
    name = workloads.WORKERS[9]
    process = start(*workload("contain", temporary_directory(), WORKLOADS / name, workloads.FOR_EVER),
                    preexec_fn=join)
    pid = int(process.stdout.readline())
    defer(lambda: wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text(),
                             "an empty group"))
    defer(os.kill, pid, signal.SIGKILL)
    # The setup of the container can take more samples than these.
    wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == f"{name}\n", "the program in the container")
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 200)
    recording.interrupt()
    found = 0
    for sample, frames in stacks(recording.profile()):
        if sample.labels["comm"] != name:
            continue
        fault = workloads.worker_fault(name, frames)
        check_no_fault(fault, sample)
        check_equal({frame.file for frame in frames}, {f"/app/{name}"}, "path")
        labels = {key: sample.labels.get(key) for key in ("pid", "nspid", "cgroup", "container")}
        check_equal(labels, {"pid": pid, "nspid": 1, "container": container,
                             "cgroup": f"/{group.relative_to(cgroup_mount())}"}, "labels")
        found += 1
    check(found, "the process was not sampled")


@long_test
def process_is_symbolized_after_its_main_thread_has_exited():
    """In /proc it looks like an exited process; the reader checks that once a second."""
    process = start(*workload("threads", os.cpu_count(), "leave"))
    recording = Recording("-F", 97, "-p", process.pid)
    recording.wait_for(recording.session(), "samples", 97 * os.cpu_count() * 5)
    check("\nState:\tZ" in Path(f"/proc/{process.pid}/status").read_text(), "the main thread still runs")
    found = 0
    for sample, frames in stacks(stop_and_finish(recording, [process])):
        check_equal([frame.address for frame in frames if not frame.file], [], "addresses without a file")
        found += sample.values["samples"] * (frames[0].function == "work_forever")
    check(found >= 97 * os.cpu_count() * 4, f"only {found} samples of its threads")


@long_test
def reader_in_a_time_namespace_symbolizes():
    """Its clocks are a day ahead of the kernel's: records don't look old, and process start times still match."""
    directory = workloads.tmpfs()
    process = start(*workload(workloads.WORKERS[11], workloads.FOR_EVER))
    recording = Recording(*RATE, "-a", command=workloads.churn(directory, "exec", 400, 100000),
                          within=("unshare", "--time", "--kill-child", "--monotonic", 86400,
                                  "--boottime", 86400))
    profile = recording.profile()
    check_workers(profile, 50)
    check(any(sample.labels["pid"] == process.pid for sample in profile.samples), "the process was not sampled")


@test
def replaced_binary_is_symbolized():
    """Each sample is symbolized by the binary that ran, not by the file that has its path now. When the
    reader ends, neither of them exists."""
    directory = workloads.tmpfs()
    path = directory / "program"
    recording = Recording(*RATE, "-a")
    recording.session()
    names, processes = {}, []
    for name in workloads.WORKERS[10:13]:
        workloads.copy_to(directory, name, "next").rename(path)
        processes.append(start(path, workloads.FOR_EVER))
        names[processes[-1].pid] = name
        wait_for_cpu_time(processes[-1:])
    path.unlink()
    path.write_bytes(b"\x7fELF, but what is this?")
    seen = set()
    for sample, frames in stacks(stop_and_finish(recording, processes)):
        name = names.get(sample.labels["pid"])
        if not name or sample.labels["comm"] != "program":
            continue
        for frame in frames:
            check_equal((frame.file, frame.build_id), (str(path), workloads.build_id(name)), name)
            check(frame.function in (name, "main", "_start"), f"{frame.function!r} of {name}")
        seen.add(name)
    check_equal(seen, set(names.values()), "sampled programs")


@long_test
def files_of_all_file_systems_are_symbolized():
    processes = workloads.start_on_file_systems()
    name, memfd = workloads.start_memfd()
    clock = start(*workload("vdso", workloads.FOR_EVER))
    huge = start(*workload("maps", "thp", workloads.FOR_EVER, 100000))
    everyone = [process for _, process in processes.values()] + [memfd, clock, huge]
    wanted = [process.pid for process in everyone]
    recording = Recording(*RATE, "-p", ",".join(map(str, wanted)))
    recording.session()
    wait_for_cpu_time(everyone)
    of_pid = {}
    for sample, frames in stacks(stop_and_finish(recording, everyone)):
        of_pid.setdefault(sample.labels["pid"], []).append(frames)
    check_equal(set(of_pid), set(wanted), "processes")
    for kind, (path, process) in processes.items():
        for frames in of_pid[process.pid]:
            fault = workloads.worker_fault(path.name, frames)
            check(not fault, f"{kind}: {fault}")
            check_equal({frame.file for frame in frames}, {str(path)}, f"{kind}: path")
    for frames in of_pid[memfd.pid]:
        check_equal({frame.build_id for frame in frames}, {workloads.build_id(name)}, "memfd")
        check({frame.function for frame in frames} <= {name, "main", "_start"}, f"memfd: {frames}")
    leaves = [frames[0] for frames in of_pid[clock.pid] if frames[0].file == "[vdso]"]
    check(leaves, f"no sample in the vdso: {of_pid[clock.pid]}")
    # Some functions of the vdso have no symbol.
    functions = {function for _, _, function in vdso().functions} | {""}
    names = {frame.function for frame in leaves}
    check(names <= functions and names != {""}, f"in the vdso: {leaves}")
    leaves = [frames[0] for frames in of_pid[huge.pid] if frames[1:2] and
              frames[1].function == "call"]
    check(leaves, f"no sample in anonymous memory: {of_pid[huge.pid]}")
    check_equal({frame.file for frame in leaves}, {"[anon]"}, "file of anonymous memory")


@test
def labels_identify_process_and_thread():
    name = workloads.WORKERS[0]
    command = workload(name, 10000000, 2)
    profile, _, _ = record(*RATE, "--label", "build=17", "--label", "host name=\u00e4 b",
                           command=command)
    own = [sample for sample in profile.samples if sample.labels["comm"] == name]
    check(own, "no sample of the program")
    for sample in profile.samples:
        check_equal((sample.labels.get("build"), sample.labels.get("host name")),
                    ("17", "\u00e4 b"), "added labels")
    for sample in own:
        check_equal(set(sample.labels) - {"cgroup", "container", "truncated"},
                    {"comm", "thread", "pid", "build", "host name"}, "default labels")
    profile, _, _ = record(*RATE, "--labels", "pid,tid,cpu,thread", command=command)
    own = [sample for sample in profile.samples if sample.labels.get("thread") == name]
    check(all(set(sample.labels) == {"pid", "tid", "cpu", "thread"} for sample in own),
          f"chosen labels: {own[0].labels}")
    check(len({sample.labels["tid"] for sample in own}) == 3, "number of threads is not 3")
    profile, _, _ = record(*RATE, "--labels", "none", command=command)
    check_equal([sample.labels for sample in profile.samples if sample.labels], [], "no labels")
    # A thread name that changes applies to later samples.
    profile, _, _ = record(*RATE, command=workload("forker", 2, 30000000))
    named = {sample.labels["thread"] for sample in profile.samples
             if any(frame.function == "child" for frame in user_frames(sample))}
    check_equal(named, {"forked"}, "names of threads after prctl()")


@test
def save_binaries_copies_sampled_binaries():
    directory, kept = workloads.tmpfs(), temporary_directory()
    profile, _, _ = record(*RATE, "--save-binaries", kept,
                           command=workloads.churn(directory, "vfork", 120, 2000000))
    sampled = {frame.build_id: os.path.basename(frame.file) for _, frames in stacks(profile)
               for frame in frames if os.path.basename(frame.file) in workloads.WORKERS}
    check(len(sampled) >= 10, f"only {sampled} were sampled")
    for number, name in sampled.items():
        path = kept / ".build-id" / number[:2] / number[2:]
        found = [path] if path.is_file() else list(path.glob("*"))
        check(found, f"{name} is not at {path}: {list(kept.rglob('*'))[:5]}")
        check_equal(found[0].read_bytes(), (WORKLOADS / name).read_bytes(), f"{path}")


@test
def file_system_can_be_unmounted_while_recording():
    directory = workloads.tmpfs()
    recording = Recording(*RATE, "-a")
    session = recording.session()
    start(*workload(workloads.WORKERS[1], workloads.FOR_EVER))
    name = workloads.WORKERS[0]
    process = start(workloads.copy_to(directory, name), workloads.FOR_EVER)
    wait_for_cpu_time([process])
    process.kill()
    process.wait()
    wait_until(lambda: workloads.unmount(directory), "a file system that is not busy")
    recording.wait_for(session, "samples", recording.stats(session)["samples"] + 1)
    recording.interrupt()
    own = [frames for sample, frames in stacks(recording.profile())
           if sample.labels["pid"] == process.pid and sample.labels["comm"] == name]
    check(own, "the process was not sampled")
    for frames in own:
        fault = workloads.worker_fault(name, frames)
        check(not fault, fault)


@long_test
def killed_reader_leaves_nothing():
    """The reader is killed while 5,000 processes (1,000 on debug kernels) fork as fast as they can. Their
    memory, files and processes are freed, and the module can be unloaded."""
    processes = 5000 if SLOWDOWN == 1 else 1000
    load()
    mount = cgroup_mount()
    (mount / "cgroup.subtree_control").write_text("+memory +pids")
    group = make_cgroup(mount, f"stackbeat-bomb-{os.getpid()}")
    (group / "pids.max").write_text("150")
    directory = workloads.tmpfs()
    bomb = workloads.copy_to(directory, "bomb")
    recording = Recording(*RATE, "-G", group)
    session = recording.session()

    def join():
        (group / "cgroup.procs").write_text("0")
    process = start(bomb, processes + 50, 20000, preexec_fn=join)
    recording.wait_for(session, "address_spaces", 300)
    recording.process.kill()
    recording.process.wait()
    check(process.poll() is None, "the program ended before the reader was killed")
    out, err = process.communicate()
    check_equal(process.returncode, 0, f"status; output: {err!r}")
    check(int(out) >= processes, f"only {out} processes")
    peak = re.search(r"max (\d+)", (group / "pids.events").read_text())
    check(peak and int(peak[1]), "the limit of processes was never reached")
    unload()
    check_equal((group / "cgroup.procs").read_text(), "", "remaining processes")
    zombies = [path.parent.name for path in Path("/proc").glob("[0-9]*/status")
               if "\nState:\tZ" in status_of(path)]
    check_equal(zombies, [], "zombies")

    def memory():
        numbers = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        if "pagetables" in numbers:
            return int(numbers["anon"]) + int(numbers["pagetables"])
        # 5.10 does not count page tables, and each CPU batches up to 32 pages of a counter.
        return max(0, int(numbers["anon"]) - os.cpu_count() * 32 * os.sysconf("SC_PAGESIZE"))
    wait_until(lambda: not memory(), "release of all memory of the control group")
    check(workloads.unmount(directory), "the file system is still busy")


def status_of(path):
    try:
        return path.read_text()
    except OSError:
        return ""
