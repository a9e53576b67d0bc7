# SPDX-License-Identifier: GPL-2.0
"""The confinement of workers, on kernels that refuse a part of it."""

import ctypes
import struct
from pathlib import Path

from harness import check, check_equal, defer, finish, PATIENCE, pprof, Skip, start, temporary_directory, test, workload

MOUNT_NAMESPACES = Path("/proc/sys/user/max_mnt_namespaces")
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
LANDLOCK_CREATE_RULESET = 444
ENOSYS = 38


def refuse_mount_namespaces():
    limit = MOUNT_NAMESPACES.read_text()
    defer(MOUNT_NAMESPACES.write_text, limit)
    MOUNT_NAMESPACES.write_text("0")


def refuse_landlock():
    """Makes landlock_create_ruleset() of this process and of its children fail with ENOSYS."""
    # Load the number of the system call; ERRNO for that one, ALLOW for the others.
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in (
        (0x20, 0, 0, 0),
        (0x15, 0, 1, LANDLOCK_CREATE_RULESET),
        (0x06, 0, 0, 0x00050000 | ENOSYS),
        (0x06, 0, 0, 0x7fff0000),
    ))
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program):
        raise OSError(ctypes.get_errno(), "prctl")


def record(*options, status=0, **others):
    """Records a workload: (profile or None, stderr)."""
    path = temporary_directory() / "profile.pb.gz"
    process = start("stackbeat", "record", "-F", 997, "--symbolize-timeout", 120 * PATIENCE, *options, "-o", path, "--",
                    *workload("deep", 5, 100000000), **others)
    _, err = finish(process, status)
    return (pprof.Profile(path) if path.exists() else None), err


def check_names(profile):
    check(any(frame.function == "main" for sample in profile.samples for frame in sample.frames),
          "no frame of main()")


@test
def sandbox_is_complete():
    profile, err = record("--sandbox=require")
    check("sandbox" not in err, err)
    check_names(profile)


@test
def landlock_replaces_mount_namespaces():
    # Its version.
    if ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) < 1:
        raise Skip("no Landlock")
    refuse_mount_namespaces()
    profile, err = record("--sandbox=require")
    check("sandbox" not in err, err)
    check_names(profile)


@test
def missing_parts_of_the_sandbox_are_named():
    refuse_mount_namespaces()
    profile, err = record(preexec_fn=refuse_landlock)
    check("sandbox: no namespaces" in err, err)
    check_names(profile)
    profile, err = record("--sandbox=require", status=1, preexec_fn=refuse_landlock)
    check_equal(err.count("\n"), 1, f"lines of {err!r}")
    check("sandbox" in err, err)
    check(profile is None, "a profile was written")
