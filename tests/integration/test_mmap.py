# SPDX-License-Identifier: GPL-2.0
"""The device can be mapped only as stackbeat.h specifies."""

import ctypes
import errno
import os
import stat

from harness import check, check_equal, defer, fails_with, test, use
from stackbeat import (libc, MAP_PRIVATE, mmap, MREMAP_MAYMOVE, munmap, offset_of_cpu,
                       online_cpus, PAGE, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, S, Session)

DATA = S.RING_SIZE_DEFAULT
MADV_DOFORK = 11
CPU0 = offset_of_cpu(0)


def open_session():
    return use(Session())


def refused(fd, code, what, length=PAGE, **mapping):
    with fails_with(code, what):
        munmap(mmap(fd, length, **mapping), length)


def system_call(result):
    if result not in (-1, ctypes.c_void_p(-1).value):
        return
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))


@test
def wrong_offsets_are_refused():
    fd = open_session().fd
    for offset in (PAGE, 2 * PAGE, CPU0 - PAGE, CPU0 + 2 * PAGE, CPU0 + PAGE + DATA, CPU0 + 2**31):
        refused(fd, errno.EINVAL, f"offset {offset:#x}", offset=offset)
    absent = 1 + max(online_cpus())
    for offset in (offset_of_cpu(absent), offset_of_cpu(absent) + PAGE, offset_of_cpu(8192),
                   offset_of_cpu(1 << 20)):
        refused(fd, errno.ENXIO, f"offset {offset:#x}", offset=offset)
    refused(fd, errno.EINVAL, "an offset within a page", offset=1)


@test
def wrong_lengths_are_refused():
    fd = open_session().fd
    for length in (2 * PAGE, 16 * PAGE):
        refused(fd, errno.EINVAL, f"{length} bytes of the session page", length=length)
        refused(fd, errno.EINVAL, f"{length} bytes of a consumer page", length=length, offset=CPU0)
    for length in (PAGE, DATA, DATA + 2 * PAGE, 2 * (DATA + PAGE)):
        refused(fd, errno.EINVAL, f"{length} bytes of a ring", length=length, offset=CPU0 + PAGE)


@test
def wrong_protections_are_refused():
    fd = open_session().fd
    for protection in (PROT_READ | PROT_WRITE, PROT_WRITE, PROT_READ | PROT_EXEC, PROT_EXEC):
        refused(fd, errno.EPERM, f"session page with {protection}", protection=protection)
        refused(fd, errno.EPERM, f"ring with {protection}", protection=protection,
                length=PAGE + DATA, offset=CPU0 + PAGE)
    refused(fd, errno.EPERM, "executable consumer page", offset=CPU0,
            protection=PROT_READ | PROT_WRITE | PROT_EXEC)


@test
def private_mappings_are_refused():
    fd = open_session().fd
    refused(fd, errno.EINVAL, "private session page", flags=MAP_PRIVATE)
    refused(fd, errno.EINVAL, "private consumer page", flags=MAP_PRIVATE, offset=CPU0)
    refused(fd, errno.EINVAL, "private ring", flags=MAP_PRIVATE, length=PAGE + DATA,
            offset=CPU0 + PAGE)


@test
def second_mappings_are_refused():
    fd = open_session().fd
    for what, length, offset in (("session page", PAGE, None), ("consumer page", PAGE, CPU0),
                                 ("ring", PAGE + DATA, CPU0 + PAGE)):
        if offset is None:
            refused(fd, errno.EBUSY, f"second {what}", length=length)
            continue
        address = mmap(fd, length, offset=offset)
        refused(fd, errno.EBUSY, f"second {what}", length=length, offset=offset)
        munmap(address, length)
        # Only one mapping at a time: after munmap() it can be mapped again.
        munmap(mmap(fd, length, offset=offset), length)


@test
def mappings_cannot_be_made_writable_or_executable():
    mapped = open_session()
    mapped.map()
    ring = mapped.rings[0]
    for what, address, length in (("session page", mapped.page, PAGE),
                                  ("producer page", ring.producer, PAGE + ring.size),
                                  ("consumer page", ring.consumer, PAGE)):
        if what != "consumer page":
            with fails_with(errno.EACCES, f"writable {what}"):
                system_call(libc.mprotect(address, length, PROT_READ | PROT_WRITE))
        with fails_with(errno.EACCES, f"executable {what}"):
            system_call(libc.mprotect(address, length, PROT_READ | PROT_EXEC))
    system_call(libc.mprotect(mapped.page, PAGE, PROT_NONE))
    system_call(libc.mprotect(mapped.page, PAGE, PROT_READ))


@test
def mappings_cannot_be_split_grown_or_duplicated():
    mapped = open_session()
    mapped.map()
    ring = mapped.rings[0]
    length = PAGE + ring.size
    for what, address, size in (("first page", ring.producer, PAGE),
                                ("middle page", ring.producer + 4 * PAGE, PAGE),
                                ("last page", ring.producer + length - PAGE, PAGE)):
        with fails_with(errno.EINVAL, f"unmapping the {what} of a ring"):
            munmap(address, size)
        with fails_with(errno.EINVAL, f"protecting the {what} of a ring"):
            system_call(libc.mprotect(address, size, PROT_NONE))
    with fails_with(errno.EFAULT, "growing a ring"):
        system_call(libc.mremap(ring.producer, length, length + PAGE, MREMAP_MAYMOVE))
    with fails_with(errno.EINVAL, "shrinking a ring"):
        system_call(libc.mremap(ring.producer, length, length - PAGE, 0))
    # An old size of 0 duplicates a shared mapping.
    try:
        address = libc.mremap(ring.producer, 0, length, MREMAP_MAYMOVE)
        system_call(address)
    except OSError as error:
        check(error.errno in (errno.EFAULT, errno.EINVAL), f"duplicating a ring: {error}")
    else:
        munmap(address, length)
        check(False, "a ring was duplicated")


@test
def moved_mappings_stay_valid():
    mapped = open_session()
    address = libc.mremap(mapped.page, PAGE, PAGE, MREMAP_MAYMOVE)
    system_call(address)
    mapped.page = address
    refused(mapped.fd, errno.EBUSY, "second session page after a move")


@test
def mappings_are_not_inherited():
    mapped = open_session()
    child = os.fork()
    if not child:
        # msync() instead of an access: it fails with ENOMEM (12) if the page is not mapped.
        libc.msync(ctypes.c_void_p(mapped.page), PAGE, 1)
        os._exit(ctypes.get_errno())
    check_equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), errno.ENOMEM,
                "errno of a child's access to the session page")
    with fails_with(errno.EINVAL, "madvise(MADV_DOFORK)"):
        system_call(libc.madvise(ctypes.c_void_p(mapped.page), ctypes.c_size_t(PAGE), MADV_DOFORK))


@test
def mappings_outlive_the_file_descriptor():
    fd = os.open("/dev/stackbeat", os.O_RDWR | os.O_CLOEXEC)
    page = mmap(fd, PAGE)
    os.close(fd)
    defer(munmap, page, PAGE)
    check_equal(ctypes.c_uint64.from_address(page).value, S.MAGIC, "magic after close()")


@test
def device_is_accessible_to_root_only():
    mode = os.stat("/dev/stackbeat").st_mode
    check(stat.S_ISCHR(mode) and stat.S_IMODE(mode) == 0o600, f"mode {mode:o}")


def open_as(setup):
    """The errno of opening the device in a child that has called setup()."""
    child = os.fork()
    if not child:
        status = 0
        try:
            setup()
            os.close(os.open("/dev/stackbeat", os.O_RDWR))
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@test
def unprivileged_users_cannot_open_the_device():
    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    check_equal(open_as(nobody), errno.EACCES, "errno as nobody")
    os.chmod("/dev/stackbeat", 0o666)
    defer(os.chmod, "/dev/stackbeat", 0o600)
    check_equal(open_as(nobody), errno.EPERM, "errno as nobody with access to the device node")


@test
def read_write_and_unknown_ioctls_are_refused():
    fd = open_session().fd
    with fails_with(errno.EINVAL, "read()"):
        os.read(fd, 8)
    with fails_with(errno.EINVAL, "write()"):
        os.write(fd, b"12345678")
    with fails_with(errno.ENOTTY, "ioctl()"):
        system_call(libc.ioctl(fd, 0, 0))
