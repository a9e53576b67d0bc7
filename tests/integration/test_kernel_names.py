# SPDX-License-Identifier: GPL-2.0
"""Kernel functions have the same names and shares as with perf, for the same workload; of modules that are gone, the names that
they had. The code of a function is the code that runs."""

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

from harness import (check, check_equal, defer, fails_with, finish, is_kernel, load, long_test, record, Recording, run, samples_of,
                     Skip, SLOWDOWN, start, temporary_directory, test, wait_until, workload)
from pprof import Profile
from stackbeat import IOC_MODULE_SYMBOLS, S, Session

# On debug kernels and on a busy host, timer interrupts take so long that, at a higher rate, the tick of the other
# profiler often waits for the end of the interrupt, and so samples handle_softirqs(); and each profiler misses most
# ticks, not the samples of the same times.
RATE = 397 // SLOWDOWN
SAMPLES = 3000
TOP = 10
# Twenty shares are compared: the chance that one of them exceeds this is 1 in 1,000.
DEVIATIONS = 4.1


@contextlib.contextmanager
def no_module_files():
    """Hides the files of kernel modules from perf: walking them takes minutes over 9p on 5.10, and perf uses
    kallsyms in any case."""
    directory = Path("/lib/modules", os.uname().release)
    run("mount", "-t", "tmpfs", "none", directory)
    try:
        yield
    finally:
        run("umount", directory)


class Perf:
    """`perf record` of all CPUs, which takes samples from enable() to disable().

    Not of a process: perf rearms the timer of a process whenever the process is scheduled in, 10 us ahead
    if it was due, which would bias samples towards the kernel code that runs then.
    """

    def __init__(self):
        self.data = temporary_directory() / "perf.data"
        (commands, self.commands), (self.answers, answers) = os.pipe(), os.pipe()
        for end in (commands, self.commands, self.answers):
            defer(os.close, end)
        with no_module_files():
            # -N -B: no build ID tables, for which perf would read all files of the system.
            self.process = start("perf", "record", "-q", "-N", "-B", "-e", "cpu-clock", "-F", RATE,
                                 "-a", "-o", self.data, "-D", "-1", "--control",
                                 f"fd:{commands},{answers}", pass_fds=(commands, answers))
            os.close(answers)
            self.disable()

    def _control(self, command):
        os.write(self.commands, command)
        check_equal(os.read(self.answers, 5), b"ack\n\0", "answer of perf")

    def enable(self):
        self._control(b"enable\n")

    def disable(self):
        """Disables sampling. If it is disabled already: waits until perf is ready."""
        self._control(b"disable\n")

    def end(self):
        """Ends perf by SIGINT: it writes its file, and then kills itself by the same signal."""
        self.process.send_signal(signal.SIGINT)
        finish(self.process, -signal.SIGINT)

    def counts(self, comm):
        """{kernel function: number of samples} of the programs with a name."""
        with no_module_files():
            out, _ = run("perf", "report", "-i", self.data, "--stdio", "-q",
                         "-F", "sample,comm,sym", "-t", "|")
        found = re.findall(rf"^ *(\d+) *\|{comm} *\|\[k\] (.*?) *$", out, re.M)
        return Counter({name: int(count) for count, name in found})


def addresses_of_symbols():
    """{name: addresses of the kernel functions with this name}"""
    found = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, kind, name = line.split()[:3]
        if kind in "tTwW":
            found.setdefault(name, set()).add(int(address, 16))
    check(any(address for addresses in found.values() for address in addresses),
          "the kernel hides its addresses")
    return found


def counts_of(profile):
    counts = Counter()
    for sample in samples_of(profile, "calls"):
        if is_kernel(sample.frames[0]):
            counts[sample.frames[0].function] += sample.values["samples"]
    return counts


def same_names(counts, others, addresses):
    """Renames functions with several names (aliases) to the names in `others`."""
    names = {address: name for name in others for address in addresses.get(name, ())}
    same = Counter()
    for name, count in counts.items():
        known = {names[address] for address in addresses.get(name, ()) if address in names}
        same[name if name in others or len(known) != 1 else known.pop()] += count
    return same


@long_test
def shares_of_kernel_functions_match_perf():
    """Each function among the top ten of either profiler has the same share in both, within the bounds of
    chance. Both profilers sample during the same time, as on a busy host the shares vary by half."""
    if not shutil.which("perf"):
        raise Skip("perf is not installed")
    limit = Path("/proc/sys/kernel/perf_cpu_time_max_percent")
    defer(limit.write_text, limit.read_text())
    limit.write_text("0")
    process = start(*workload("calls", 10**9))
    perf = Perf()
    recording = Recording("-F", RATE, "--budget", 50, "-p", process.pid)
    session = recording.session()
    perf.enable()
    recording.wait_for(session, "samples", SAMPLES)
    perf.disable()
    recording.interrupt()
    profile = recording.profile()
    perf.end()
    process.kill()
    theirs = perf.counts("calls")
    ours = same_names(counts_of(profile), theirs, addresses_of_symbols())
    total, their_total = sum(ours.values()), sum(theirs.values())
    for who, count in (("stackbeat", total), ("perf", their_total)):
        check(count >= SAMPLES / 2, f"{who} has only {count} samples in the kernel")
    top, their_top = (counts.most_common(TOP) for counts in (ours, theirs))
    for name, _ in top + their_top:
        share, their_share = ours[name] / total, theirs[name] / their_total
        both = (ours[name] + theirs[name]) / (total + their_total)
        bound = DEVIATIONS * math.sqrt(both * (1 - both) * (1 / total + 1 / their_total))
        check(abs(share - their_share) <= bound,
              f"{name}: {share:.2%} of {total} samples, with perf {their_share:.2%} of "
              f"{their_total}, allowed difference {bound:.2%}; {top}; {their_top}")


@test
def code_of_the_kernel_is_what_runs():
    """annotate has the instructions that objdump finds in /proc/kcore."""
    if not Path("/proc/kcore").exists():
        raise Skip("no /proc/kcore")
    process = start(*workload("calls", 10**9))
    recording = Recording("-F", RATE, "--budget", 50, "-p", process.pid)
    recording.wait_for(recording.session(), "samples", 200)
    recording.interrupt()
    counts = counts_of(recording.profile())
    process.kill()
    addresses = addresses_of_symbols()
    name = next(name for name, _ in counts.most_common() if len(addresses.get(name, ())) == 1)
    text, _ = run("stackbeat", "annotate", "--asm-raw", "--no-source", name, recording.path)
    ours = re.findall(r"^ +[0-9.]+ : +([0-9a-f]+):  ((?:[0-9a-f]{2} )+)", text, re.M)
    check_equal({int(ours[0][0], 16)}, addresses[name], f"start of {name}")
    end = int(ours[-1][0], 16) + len(bytes.fromhex(ours[-1][1]))
    text, _ = run("objdump", "-D", "-w", f"--start-address=0x{ours[0][0]}", f"--stop-address={end:#x}", "/proc/kcore")
    theirs = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", text, re.M)
    check_equal(ours, theirs, f"instructions of {name}")


# Their benchmarks run when they are initialized, for a number of ticks of the clock.
LOADED = ("xor", "raid6_pq")
LOADS = "for round in 1 2; do modprobe xor; modprobe raid6_pq; sleep 1; rmmod raid6_pq xor; done; sleep 1"


def need_modules():
    for module in LOADED:
        if subprocess.run(["modprobe", "-n", module], check=False).returncode:
            raise Skip(f"no module {module}")
    defer(unload_modules)
    unload_modules()


def unload_modules():
    for module in reversed(LOADED):
        subprocess.run(["rmmod", module], check=False, stderr=subprocess.DEVNULL)


def check_init_functions(*profiles):
    """Of LOADED, which the recorded command has loaded by LOADS."""
    total, named, nameless, aliases, wrong = 0, 0, 0, 0, Counter()
    for sample in (sample for profile in profiles for sample in samples_of(profile, "modprobe")):
        names = [frame.function for frame in sample.frames]
        callees = sample.frames[:names.index("do_one_initcall")] if "do_one_initcall" in names else ()
        if not callees:
            continue
        count = sample.values["samples"]
        total += count
        nameless += count * any(not frame.function for frame in callees)
        aliases += count * any(frame.function == "init_module" for frame in callees)
        modules = {frame.file for frame in callees if frame.function and frame.file.strip("[]") in LOADED}
        named += count if modules else 0
        wrong.update(frame.function for frame in callees if "raid6" in frame.function and frame.file != "[raid6_pq]")
    print(f"{total} samples of init functions, {named} named by their module, {nameless} with a frame without name")
    check(total >= 20, f"only {total} samples of init functions")
    check(named >= 0.95 * total, f"{named} of {total} samples have a function of the module")
    check(nameless < 0.02 * total, f"{nameless} of {total} samples have a frame without a name")
    check_equal(wrong, Counter(), "functions in the mapping of another module")
    check_equal(aliases, 0, "samples with the name that each module's first function has")


@test
def functions_of_modules_that_are_gone_have_names():
    """Of modules that were loaded and unloaded twice, also of their init sections: these are gone within 0.1 s, and in general
    the next one has the same addresses."""
    need_modules()
    profile, _, _ = record("--budget", 50, "-a", "-F", 499, command=("sh", "-c", LOADS))
    check_init_functions(profile)


@long_test
def windows_have_names_of_modules_that_go_before_these_are_read():
    need_modules()
    directory = temporary_directory()
    run("stackbeat", "record", "--budget", 50, "-a", "-F", 499, "--rotate", 1, "-o", directory / "profile.pb.gz",
        "--", "sh", "-c", LOADS)
    check_init_functions(*map(Profile, directory.iterdir()))


SOURCES = ("module", "perf")


def check_bpf_programs(names, *profiles):
    """Of programs that have done the same work."""
    found = Counter()
    for sample in (sample for profile in profiles for sample in samples_of(profile, "bpf")):
        frame = sample.frames[0]
        program = re.fullmatch(r"bpf_prog_[0-9a-f]{16}_(\w+)", frame.function)
        found[program[1] if program else "others" if frame.function else ""] += sample.values["samples"]
        if program:
            check_equal(frame.file, "[bpf]", "mapping of a BPF program")
    print(f"samples: {dict(found)}")
    total = found.total() - found["others"]
    check(total >= 100, f"only {total} samples")
    for name in names:
        check(found[name] >= 0.5 * total / len(names), f"{name} has {found[name]} of {total} samples: {found}")
    check(found[""] < 0.02 * total, f"{found['']} of {total} samples have no name")
    check_equal(set(found) - {*names, "others", ""}, set(), "other programs")


def need_bpf():
    if not Path("/proc/sys/kernel/unprivileged_bpf_disabled").exists():
        raise Skip("no bpf(2)")


@test
def bpf_programs_that_are_gone_have_names():
    """The second one has, in general, the addresses of the first one."""
    need_bpf()
    for source in SOURCES:
        profile, _, _ = record("--budget", 50, f"--source={source}", "-a", "-F", 499,
                               command=workload("bpf", 400, "first", "second"))
        check_bpf_programs(("first", "second"), profile)


@long_test
def windows_have_names_of_bpf_programs_that_go_before_these_are_read():
    need_bpf()
    directory = temporary_directory()
    run("stackbeat", "record", "--budget", 50, "-a", "-F", 499, "--rotate", 1, "-o", directory / "profile.pb.gz",
        "--", *workload("bpf", 400, "first", "second", "third"))
    check_bpf_programs(("first", "second", "third"), *map(Profile, directory.iterdir()))


def is_loaded(program, process=None):
    check(not process or process.poll() is None, "the process of the BPF program has ended")
    return re.search(rf"_{program}\t\[bpf\]$", Path("/proc/kallsyms").read_text(), re.M)


@long_test
def bpf_program_that_was_there_before_and_is_gone_has_its_name():
    need_bpf()
    for source in SOURCES:
        process = start(*workload("bpf", 10**9, "early"))
        wait_until(lambda process=process: is_loaded("early", process), "the BPF program")
        profile, _, _ = record("--budget", 50, f"--source={source}", "-a", "-F", 499,
                               command=("sh", "-c", f"sleep 2; kill {process.pid}; sleep 1"))
        check(not is_loaded("early"), "the program is still there")
        check_bpf_programs(("early",), profile)


def part_lines(part):
    """The symbols of a part: {name: (address, type)}."""
    lines = {}
    for line in part.symbols.splitlines():
        symbol, module = line.split("\t")
        check_equal(module, f"[{part.module}]", "module of a symbol")
        address, kind, name = symbol.split(" ")
        lines[name] = int(address, 16), kind
    return lines


@test
def symbols_of_modules_are_kept_while_a_session_is_open():
    need_modules()
    run("modprobe", "xor")
    kept = {line.split()[2]: int(line.split()[0], 16) for line in Path("/proc/kallsyms").read_text().splitlines()
            if line.endswith("\t[xor]") and line.split()[1] in "tT"}
    with Session() as session:
        check_equal(session.module_parts(), [], "parts of modules at first")
        run("rmmod", "xor")
        run("modprobe", "xor")
        old, init, new = session.module_parts()
        check_equal([(part.module, part.init, part.came > 0, part.gone > 0) for part in (old, init, new)],
                    [("xor", 0, False, True), ("xor", 1, True, True), ("xor", 0, True, False)], "parts")
        check(old.gone < init.came == new.came < init.gone, f"times of parts: {old.gone}, {init.came}, {init.gone}")
        lines = part_lines(old)
        # The kernel also lists an init function, which is gone.
        check_equal({name: address for name, (address, kind) in lines.items() if kind in "tT"},
                    {name: address for name, address in kept.items() if old.start <= address < old.end}, "functions of xor")
        check("cleanup_module" in lines, f"functions of xor: {list(lines)}")
        check("init_module" in part_lines(init), f"init functions: {init.symbols}")
        for part in (old, init, new):
            addresses = [address for address, _ in part_lines(part).values()]
            check_equal((min(addresses), max(addresses)), (part.start, part.end), "range of a part")
            check_equal(part.symbols.splitlines()[-1].split()[1:3], ["A", "_end"], "last line")
        run("rmmod", "xor")
        new = session.module_parts()[-1]
        check(new.gone > init.gone, f"times of parts: {init.gone}, {new.gone}")
    with Session() as session:
        check_equal(session.module_parts(), [], "parts of modules after the last session")


@test
def wrong_arguments_for_symbols_of_modules_are_refused():
    need_modules()
    load()
    with Session() as session:
        error, part = session.module_symbols()
        check_equal((error, part.serial), (errno.ENOENT, 0), "answer without modules")
        run("modprobe", "xor")
        run("rmmod", "xor")
        first, *_, last = session.module_parts()
        size = len(first.symbols)
        room = ctypes.create_string_buffer(b"x" * size)
        address = ctypes.addressof(room)
        for given in (0, 1, size - 1):
            error, part = session.module_symbols(0, address, given)
            check_equal((error, part.serial, part.symbols), (errno.ENOSPC, first.serial, size), f"answer with {given} bytes")
        check_equal(room.raw[:size], b"x" * size, "the buffer that was too small")
        for bad in (0, 1, 2**47, 2**63, 2**64 - 1):
            for given in (size, 2**64 - 1):
                check_equal(session.module_symbols(0, bad, given)[0], errno.EFAULT, f"answer at {bad:#x} with {given} bytes")
        error, part = session.module_symbols(first.serial, address, 2**64 - 1)
        check_equal((error, part.symbols), (0, size), "answer with a huge size")
        check_equal(room.raw[:size].decode(), first.symbols, "symbols")
        for serial in (last.serial + 1, 2**63, 2**64 - 1):
            error, part = session.module_symbols(serial, address, size)
            check_equal((error, part.serial, part.changes), (errno.ENOENT, serial, last.changes), f"answer for {serial}")
        with fails_with(errno.EFAULT, "no argument"):
            fcntl.ioctl(session.fd, IOC_MODULE_SYMBOLS, 0)
        session.set(parts=S.PART_USER)
        check_equal(session.module_symbols()[0], errno.EPERM, "answer without the kernel part")
        session.set(parts=S.PART_USER | S.PART_KERNEL)
        before = last.changes
        run("modprobe", "xor")
        run("rmmod", "xor")
        check(session.module_symbols()[1].changes > before, "no change was counted")
