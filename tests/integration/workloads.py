# SPDX-License-Identifier: GPL-2.0
"""Expected stacks of the workloads with short-lived processes, libraries and mappings, and the file
systems from which these workloads run."""

import contextlib
import functools
import os
import re
import shutil
import tempfile
from pathlib import Path

import elf_file
from harness import check, check_equal, defer, run, Skip, start, start_busy, WORKLOADS, workload

WORKERS = [f"work_{number:02}" for number in range(40)]
LIBRARIES = [f"swap_{number}" for number in range(4)]
# Functions of a worker, besides the one named like the worker.
WORKER_FUNCTIONS = {"_start", "main", "start_thread", "run"}


def root_only(path):
    """Makes a file readable to root only. Processes that run it already go on."""
    os.chown(path, 0, 0)
    path.chmod(0o700)


@contextlib.contextmanager
def spinning(module):
    """The process that has a module of tests/stress/stray spin again and again, as the host may not run the CPU while
    the module spins. The process has ended after the block: a module that spins can't be removed."""
    process = start("/bin/sh", "-c", f"while echo 100 >/sys/module/{module}/parameters/spin; do :; done")
    yield process
    check_equal(process.poll(), None, "status of the spinning shell")
    process.kill()
    process.wait()


@functools.cache
def build_id(name):
    return elf_file.build_id(WORKLOADS / name)


# Prefixes of the functions at kernel entry.
ENTRIES = ("entry_", "asm_", "ret_from_fork")


def lacks_entry_frame(functions):
    """Whether a kernel part does not end in a function of kernel entry."""
    return bool(functions) and not functions[-1].startswith(ENTRIES)


def is_in_trampoline(functions):
    """Whether a kernel part ends in an optimized kprobe, from which 5.10 can't unwind."""
    return (bool(functions) and functions[-1] == "kprobe_optinsn_page"
            and os.uname().release.startswith("5.10."))


def worker_fault(comm, frames):
    """Returns the first error in the user part of a sample of the worker `comm`, or None.

    Each frame must have the function, the file and the build ID of the worker.
    """
    for frame in frames:
        if os.path.basename(frame.file) != comm or frame.build_id != build_id(comm):
            return f"a frame in {frame.file or '?'} ({frame.build_id})"
        if frame.function != comm and frame.function not in WORKER_FUNCTIONS:
            return f"a frame of {frame.function or '?'}"
    return None


def driver_fault(frames):
    """As worker_fault(), for churn, which runs the workers."""
    return next((f"a frame of {frame.function or '?'} in {frame.file or '?'}" for frame in frames
                 if os.path.basename(frame.file) != "churn" or not frame.function
                 or frame.build_id != build_id("churn")), None)


def swap_fault(frames, in_fault=False):
    """Returns (error in the user part of a sample of dlswap or None, whether the sample is in a
    library). The callee of call_N must be swap_N of libswap_N.so.

    During a page fault at the first instruction of a function (in_fault), the unwinder can't read the
    code to see that the function has no frame yet, and so misses its caller.
    """
    functions = [frame.function for frame in frames]
    found = [(index, match[1]) for index, name in enumerate(functions)
             if (match := re.fullmatch(r"call_(\d)", name))]
    if not found and in_fault:
        return None, False
    if not found:
        wrong = [frame for frame in frames if frame.function in LIBRARIES
                 or "libswap" in frame.file]
        return wrong and f"{wrong[0].function} in {wrong[0].file}, not called", False
    index, number = found[0]
    for frame in frames[:index]:
        if (frame.function, os.path.basename(frame.file), frame.build_id) != (
                f"swap_{number}", f"libswap_{number}.so", build_id(f"libswap_{number}.so")):
            return f"{frame.function or '?'} in {frame.file or '?'}, called by call_{number}", True
    return None, index > 0


def churn(directory, mode, count, *arguments):
    return workload("churn", WORKLOADS, directory, mode, count, *arguments)


def dlswap(loops):
    return workload("dlswap", WORKLOADS, loops, 3000000)


# --- file systems ------------------------------------------------------------


def unmount(path):
    """Returns whether unmounting has succeeded."""
    process = start("umount", path)
    process.communicate()
    return not process.returncode


def mount(kind, *arguments, source="none"):
    """A mount that all users can read, until the test ends."""
    path = Path(tempfile.mkdtemp(prefix="stackbeat-"))
    defer(path.rmdir)
    run("mount", "-t", kind, *arguments, source, path)
    # Lazily: only some tests check that the file system is not busy.
    defer(lambda: os.path.ismount(path) and run("umount", "--lazy", path))
    path.chmod(0o755)
    return path


def tmpfs():
    return mount("tmpfs")


def copy_to(directory, name, target=None):
    """Copies a workload to a directory."""
    path = directory / (target or name)
    shutil.copy(WORKLOADS / name, path)
    path.chmod(0o755)
    return path


def on_ext4():
    for module in ("loop", "ext4"):
        run("modprobe", module)
    image = tmpfs() / "image"
    with open(image, "wb") as file:
        file.truncate(8 << 20)
    run("mkfs.ext4", "-q", "-I", "256", image)
    return copy_to(mount("ext4", "-o", "loop", source=image), WORKERS[0])


def on_tmpfs():
    return copy_to(tmpfs(), WORKERS[1])


def _overlay():
    layers = tmpfs()
    for name in ("lower", "upper", "work"):
        (layers / name).mkdir()
    copy_to(layers / "lower", WORKERS[2])
    options = ",".join(f"{name}dir={layers / name}" for name in ("lower", "upper", "work"))
    return mount("overlay", "-o", options)


def on_overlayfs_below():
    return _overlay() / WORKERS[2]


def on_overlayfs_above():
    return copy_to(_overlay(), WORKERS[3])


def in_huge_pages_of_tmpfs():
    path = copy_to(mount("tmpfs", "-o", "huge=always"), WORKERS[4])
    with open(path, "ab") as file:
        file.truncate(4 << 20)
    return path


# {file system: function that copies a worker there}
FILE_SYSTEMS = {"ext4": on_ext4, "tmpfs": on_tmpfs, "overlayfs, below": on_overlayfs_below,
                "overlayfs, above": on_overlayfs_above}
# PREEMPT_RT kernels have no transparent huge pages.
if Path("/sys/kernel/mm/transparent_hugepage").exists():
    FILE_SYSTEMS["tmpfs with huge pages"] = in_huge_pages_of_tmpfs
FOR_EVER = 1 << 50


def start_memfd():
    """(name of the worker, a process that runs it from a memfd)."""
    name = WORKERS[5]
    written = os.memfd_create(name)
    os.write(written, (WORKLOADS / name).read_bytes())
    file = os.open(f"/proc/self/fd/{written}", os.O_RDONLY | os.O_CLOEXEC)
    defer(os.close, file)
    # A file that is open for writing can't be executed.
    os.close(written)
    return name, start(f"/proc/{os.getpid()}/fd/{file}", FOR_EVER)


def start_on_file_systems():
    """{file system: (path, process)} of workers that run until they are killed."""
    paths = {kind: put() for kind, put in FILE_SYSTEMS.items()}
    return {kind: (path, start(path, FOR_EVER)) for kind, path in paths.items()}


def start_huge(mode):
    """A process that runs code without a symbol in a huge page."""
    if mode == "huge":
        pages = Path("/proc/sys/vm/nr_hugepages")
        before = pages.read_text()
        pages.write_text("8")
        defer(pages.write_text, before)
        if int(pages.read_text()) < 2:
            raise Skip("this machine has no huge pages")
    return start_busy(*workload("maps", mode, FOR_EVER, 100000))


def raise_limit_of_mappings(count):
    limit = Path("/proc/sys/vm/max_map_count")
    before = limit.read_text()
    limit.write_text(str(count))
    defer(limit.write_text, before)


def start_ready(*command):
    """Starts a process and waits for its line "ready"."""
    process = start(*command)
    line = process.stdout.readline()
    check(line == "ready\n", f"{command}: printed {line!r}")
    return process
