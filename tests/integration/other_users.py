# SPDX-License-Identifier: GPL-2.0
"""Runs functions as another user, without capabilities or with chosen ones."""

import ctypes
import os
import pickle
import struct
import traceback
from pathlib import Path

from harness import Failure

# User IDs without an account.
ALICE, BOB = 21001, 21002

CAP_IPC_LOCK = 14
CAP_PERFMON = 38
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
CLONE_NEWNS = 0x20000
CLONE_NEWUSER = 0x10000000

libc = ctypes.CDLL(None, use_errno=True)


def _call(function, *arguments):
    if function(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def set_capabilities(wanted):
    """Sets the effective and permitted capabilities of the calling process to exactly these."""
    bits = sum(1 << capability for capability in wanted)
    low, high = bits & 0xffffffff, bits >> 32
    # Version 3: effective, permitted, inheritable; the low words, then the high words.
    header = struct.pack("=Ii", 0x20080522, 0)
    _call(libc.capset, header, struct.pack("=6I", low, low, 0, high, high, 0))


def become(user, capabilities=()):
    _call(libc.prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    set_capabilities(capabilities)


def own_user_namespace():
    _call(libc.unshare, CLONE_NEWUSER)


def own_mounts():
    """Enters new user and mount namespaces, as root of them."""
    user, group = os.getuid(), os.getgid()
    # Else the /proc files of a process that has changed its user belong to root.
    _call(libc.prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)
    _call(libc.unshare, CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"),
                       ("gid_map", f"0 {group} 1")):
        Path(f"/proc/self/{name}").write_text(text)


def as_user(user, function, *arguments, capabilities=()):
    """Calls function in a process of that user; returns its result, or raises its error."""
    return begin_as_user(user, function, *arguments, capabilities=capabilities)()


def begin_as_user(user, function, *arguments, capabilities=()):
    """As as_user(), but returns at once: the returned function waits for the result."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            become(user, capabilities)
            result = True, function(*arguments)
        except OSError as error:
            result = False, (error.errno, getattr(error, "text", error.strerror))
        except BaseException:  # pylint: disable=broad-exception-caught
            result = False, traceback.format_exc()
        with os.fdopen(write, "wb") as file:
            pickle.dump(result, file)
        os._exit(0)
    os.close(write)

    def end():
        with os.fdopen(read, "rb") as file:
            passed, result = pickle.load(file)
        os.waitpid(child, 0)
        if passed:
            return result
        if isinstance(result, tuple):
            error = OSError(*result)
            error.text = result[1]
            raise error
        raise Failure(f"as user {user}: {result}")
    return end
