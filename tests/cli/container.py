#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""container.py MANIFEST ROOT VOLUME WITHOUT ARGUMENT...

Runs the container of a Kubernetes manifest on this machine, as a runtime does: its command, with the root file system
ROOT, and VOLUME in the place of its volume. It has the rights of the manifest and no others: capabilities, user, name
spaces, a read-only root, no_new_privs, and the system calls that the runtimes' default filter leaves. WITHOUT names a
right that it does not get: a capability, hostPID or volume; "": it gets all. ARGUMENTs are added to the manifest's.
`container.py --rights MANIFEST` prints these names.
"""

import ctypes
import fcntl
import os
import re
import resource
import socket
import struct
import sys
from pathlib import Path

CAPABILITIES = {name: number for number, name in enumerate(
    """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
    SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
    MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE""".split())}

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 1 << 17, 1 << 25, 1 << 26, 1 << 27
CLONE_NEWPID, CLONE_NEWNET = 1 << 29, 1 << 30
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 24, 22, 38
PIVOT_ROOT, CLONE, CLONE3, CAPSET = 155, 56, 435, 126
EPERM, ENOSYS = 1, 38

# Of the default filter of Docker and containerd: what needs CAP_SYS_ADMIN or another right that this container has not.
FORBIDDEN = {
    "": [153, 155, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 212, 227, 246, 248, 249, 250,
         272, 305, 308, 313, 320, 321, 323, 428, 429, 430, 431, 432, 433, 442],
    "PERFMON": [298],
    "SYSLOG": [103],
    "DAC_READ_SEARCH": [304],
    "SYS_PTRACE": [312],
}
NAMESPACE_FLAGS = 0x7E020000

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), f"{function.__name__}{arguments}")


def mount(source, target, kind, flags, options=None):
    call(libc.mount, *(text and os.fsencode(text) for text in (source, target, kind)), flags,
         options and os.fsencode(options))


class Manifest:
    """What of a manifest a runtime needs; the manifest has a value or an item a line."""

    def __init__(self, path):
        self.text = Path(path).read_text(encoding="utf-8")

    def value(self, key):
        return re.search(rf"^ *(?:- )?{key}: (.*)$", self.text, re.M)[1]

    def items(self, key):
        lines = re.search(rf"^( *){key}:\n((?:\1 +(?:-|#) ?.*\n)+)", self.text, re.M)[2].splitlines()
        return [line.strip()[2:] for line in lines if line.strip().startswith("- ")]

    def rights(self):
        for key, wanted in (("privileged", "false"), ("allowPrivilegeEscalation", "false"),
                            ("readOnlyRootFilesystem", "true"), ("runAsUser", "0"), ("runAsGroup", "0")):
            if self.value(key) != wanted:
                sys.exit(f"container.py: {key} is not {wanted}")
        if self.items("drop") != ["ALL"]:
            sys.exit("container.py: not all capabilities are dropped")
        return [*self.items("add"), *(["hostPID"] if self.value("hostPID") == "true" else []), "volume"]


def enter_root(root, volume, target):
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(root, root, None, MS_BIND | MS_REC)
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # As runtimes do: settings can't be changed.
    mount(f"{root}/proc/sys", f"{root}/proc/sys", None, MS_BIND)
    mount(None, f"{root}/proc/sys", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", f"{root}/sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("/dev/null", f"{root}/dev/null", None, MS_BIND)
    if volume:
        mount(volume, root + target, None, MS_BIND)
    mount(None, root, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
    os.chdir(root)
    call(libc.syscall, PIVOT_ROOT, b".", b".")
    call(libc.umount2, b".", MNT_DETACH)
    os.chdir("/")


def limit_capabilities(names):
    bits = sum(1 << CAPABILITIES[name] for name in names)
    for number in range(64):
        if not bits >> number & 1 and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break
    header = struct.pack("=II", 0x20080522, 0)
    data = struct.pack("=6I", bits & 0xFFFFFFFF, bits & 0xFFFFFFFF, 0, bits >> 32, bits >> 32, 0)
    call(libc.syscall, CAPSET, header, data)


def limit_system_calls(names):
    """A filter of classic BPF: struct seccomp_data has the number at 0, the first argument at 16."""
    def statement(code, value, if_true=0, if_false=0):
        return struct.pack("=HBBI", code, if_true, if_false, value)
    load, equal, and_set, end = 0x20, 0x15, 0x45, 0x06
    forbidden = [number for name, numbers in FORBIDDEN.items() if name not in names for number in numbers]
    program = [statement(load, 0)]
    for number in forbidden:
        program += [statement(equal, number, 0, 1), statement(end, 0x50000 | EPERM)]
    program += [statement(equal, CLONE3, 0, 1), statement(end, 0x50000 | ENOSYS),
                statement(equal, CLONE, 0, 3), statement(load, 16), statement(and_set, NAMESPACE_FLAGS, 0, 1),
                statement(end, 0x50000 | EPERM), statement(end, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(program))
    call(libc.prctl, PR_SET_SECCOMP, 2, struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code)), 0, 0)


def main():
    if sys.argv[1] == "--rights":
        print(*Manifest(sys.argv[2]).rights(), sep="\n")
        return
    path, root, volume, without, *arguments = sys.argv[1:]
    manifest = Manifest(path)
    rights = [right for right in manifest.rights() if right != without]
    capabilities = [right for right in rights if right in CAPABILITIES]
    # The limit of locked memory before Linux 5.16.
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))
    call(libc.unshare, CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET
         | (0 if "hostPID" in rights else CLONE_NEWPID))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    if "hostPID" not in rights:
        child = os.fork()
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    enter_root(root, volume if "volume" in rights else None, manifest.value("mountPath"))
    limit_capabilities(capabilities)
    call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    limit_system_calls(capabilities)
    os.execve("/usr/bin/stackbeat", ["stackbeat", *manifest.items("args"), *arguments], {"PATH": "/usr/bin"})


if __name__ == "__main__":
    main()
