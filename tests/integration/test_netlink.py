# SPDX-License-Identifier: GPL-2.0
"""Netlink configures sessions; an invalid message changes nothing and returns an error text."""

import errno
import os
import struct

from harness import check, check_equal, fails_with, start, test, use, workload
from stackbeat import (attribute, encode_settings, nested, Netlink, NetlinkError, NLA_F_NESTED,
                       online_cpus, S, Session)

SET, GET = S.CMD_SESSION_SET, S.CMD_SESSION_GET


def settings(session):
    """The attributes of a session without its counters, to check that none has changed."""
    return {key: value for key, value in session.get().items() if "stats" not in key}


def check_refused(session, code, text, payload, what, command=SET, name=True):
    """Checks that a message with the session's ID (without, if not `name`) is refused and changes nothing."""
    before = settings(session)
    own = attribute(S.A_SESSION, session.id) if name else b""
    with fails_with(code, what, text):
        session.netlink.request(command, own + payload)
    check_equal(settings(session), before, f"settings after {what}")


@test
def settings_can_be_read_back():
    with Session() as session:
        reported = session.get()
        expected = {"state": S.STATE_NEW, "rate": S.RATE_DEFAULT, "parts": 3, "inherit": 1,
                    "max_depth": S.USER_FRAMES_DEFAULT, "ring_size": S.RING_SIZE_DEFAULT,
                    "watermark": S.RING_SIZE_DEFAULT // 2, "cpus": "", "pids": [],
                    "owner": os.getpid(), "session": session.id}
        check_equal({key: reported[key] for key in expected}, expected, "a new session")
        wanted = {"rate": 1234, "parts": S.PART_USER, "inherit": 0, "max_depth": 77,
                  "ring_size": 128 << 10, "watermark": 5000, "cpus": "0", "pids": [os.getpid()]}
        session.set(**wanted)
        reported = session.get()
        # A filter of all CPUs is none.
        if len(online_cpus()) == 1:
            wanted["cpus"] = ""
        check_equal({key: reported[key] for key in wanted}, wanted, "changed settings")
        session.set(cpus="", pids=[], watermark=0)
        reported = session.get()
        check_equal((reported["cpus"], reported["pids"], reported["watermark"]), ("", [], 64 << 10),
                    "reset settings")
        session.set(stack_copy=4096)
        check_equal(session.get()["watermark"], 32 << 10, "watermark with copies")
        session.set(stack_copy=0, ring_size=256 << 10)
        check_equal(session.get()["watermark"], 128 << 10, "watermark without copies")


@test
def module_get_reports_version_and_limits():
    with Netlink() as netlink, Session(), Session():
        reported = netlink.module()
        check_equal((reported["abi"], reported["rate_max"], reported["sessions"]), (S.ABI, S.RATE_MAX, 2),
                    "ABI, rate_max and sessions")
        check(reported["version"], "no version")


@test
def dump_lists_all_sessions():
    sessions = [use(Session(rate=100 + index)) for index in range(S.SESSIONS_MAX)]
    with Netlink() as netlink:
        reported = {session["session"]: session["rate"] for session in netlink.sessions()}
    check_equal(reported, {session.id: 100 + index for index, session in enumerate(sessions)},
                "ids and rates")


@test
def numbers_out_of_range_are_refused():
    with Session() as session:
        for name, values, text in (
                ("rate", (0, S.RATE_MAX + 1, 2**32 - 1), "rate"),
                ("parts", (0, 4, 7, 2**31), "parts"),
                ("max_depth", (0, S.USER_FRAMES_MAX + 1, 2**32 - 1), "depth"),
                ("state", (S.STATE_NEW, S.STATE_COUNT, 2**32 - 1), "state"),
                ("ring_size", (0, 4096, S.RING_SIZE_MIN // 2, 2 * S.RING_SIZE_MAX), "ring size"),
                ("watermark", (S.RING_SIZE_DEFAULT + 1, 2**32 - 1), "watermark"),
                ("inherit", (2, 255), "inherit")):
            for value in values:
                check_refused(session, errno.ERANGE, text, encode_settings(**{name: value}),
                        f"{name} {value}")
        session.set(watermark=S.RING_SIZE_MIN + 1)
        check_refused(session, errno.ERANGE, "watermark", encode_settings(ring_size=S.RING_SIZE_MIN),
                "a ring that is smaller than the watermark")
        session.set(watermark=0)
        check_refused(session, errno.EINVAL, "power of two",
                encode_settings(ring_size=3 * S.RING_SIZE_MIN), "a ring size of 192 KiB")
        for wrong in ("x", "0-", "1-0", "0,,x", "99999999", str(8192), "-1", " "):
            with fails_with_any((errno.EINVAL, errno.ERANGE, errno.EOVERFLOW), f"CPUs {wrong!r}",
                                "CPU"):
                session.set(cpus=wrong)
        absent = str(session.cpus - 1)
        if session.cpus - 1 not in online_cpus():
            session.set(cpus=absent)
            check_refused(session, errno.EINVAL, "online", encode_settings(state=S.STATE_RUNNING),
                    "starting on an offline CPU")


class fails_with_any:
    """As fails_with(), with several allowed errnos."""

    def __init__(self, codes, what, text):
        self.codes, self.what, self.text = codes, what, text

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        check(isinstance(error, NetlinkError) and error.errno in self.codes
              and self.text in error.text, f"{self.what}: {error}")
        return True


@test
def attributes_of_a_wrong_size_are_refused():
    with Session() as session:
        for kind in (S.A_STATE, S.A_RATE, S.A_PARTS, S.A_MAX_DEPTH, S.A_RING_SIZE, S.A_WATERMARK):
            for size in (0, 1, 2, 3, 5, 8, 64):
                check_refused(session, errno.EINVAL, None, attribute(kind, bytes(size)),
                        f"attribute {kind} of {size} bytes")
        check_refused(session, errno.EINVAL, None, attribute(S.A_INHERIT, b""), "an empty u8")
        for size in (0, 3):
            check_refused(session, errno.EINVAL, None, attribute(S.A_SESSION, bytes(size)),
                    f"a session id of {size} bytes", name=False)
        check_refused(session, errno.EINVAL, None, attribute(S.A_CPUS, b"0"), "CPUs without a NUL")
        check_refused(session, errno.EINVAL, None, attribute(S.A_CPUS, b"0," * 3000 + b"0\0"),
                "CPUs of 6000 bytes")
        check_refused(session, errno.EINVAL, None, struct.pack("=HH", 8, S.A_RATE) + b"\1\0",
                "an attribute that is longer than its message")
        check_refused(session, errno.EINVAL, None, encode_settings(rate=100) + b"\1\0\0",
                "bytes after the last attribute")


@test
def unknown_and_misplaced_attributes_are_refused():
    with Session() as session:
        rate = encode_settings(rate=100)
        for kind in (S.A_COUNT, S.A_COUNT + 100, 0x3fff):
            check_refused(session, errno.EINVAL, ".", rate + attribute(kind, 1), f"attribute {kind}")
        for kind in (S.A_ABI, S.A_VERSION, S.A_RATE_MAX, S.A_SESSIONS, S.A_OWNER, S.A_OWNER_COMM,
                     S.A_STATS, S.A_CPU_STATS, S.A_PID, S.A_PAD, S.A_UNSPEC):
            check_refused(session, errno.EINVAL, None, rate + attribute(kind, 1),
                    f"attribute {kind}, which can't be set")
        check_refused(session, errno.EINVAL, None, attribute(S.A_RATE | NLA_F_NESTED, 100),
                "a number with the flag of nested attributes")
        check_refused(session, errno.EINVAL, None, attribute(S.A_PIDS, 1), "a nested attribute without nesting")
        check_refused(session, errno.EINVAL, ".", nested(S.A_PIDS, attribute(S.A_RATE, 1)),
                "a rate among process ids")
        check_refused(session, errno.EINVAL, None, nested(S.A_PIDS, attribute(S.A_PID, b"\1\0")),
                "a process id of two bytes")
        for kind in (S.A_RATE, S.A_STATE, S.A_COUNT):
            check_refused(session, errno.EINVAL, None, attribute(kind, 1), f"GET with attribute {kind}",
                    command=GET)
        for kind in (S.A_SESSION, S.A_RATE, S.A_COUNT):
            check_refused(session, errno.EINVAL, None, attribute(kind, 1),
                    f"MODULE_GET with attribute {kind}", command=S.CMD_MODULE_GET, name=False)


@test
def missing_and_unknown_session_ids_are_refused():
    with Session() as session:
        rate = encode_settings(rate=100)
        check_refused(session, errno.EINVAL, "session id", rate, "SET without an id", name=False)
        check_refused(session, errno.EINVAL, "session id", b"", "GET without an id", GET, name=False)
        check_refused(session, errno.EINVAL, "nothing", b"", "SET of nothing")
        for number in (0, session.id + 1, 2**32 - 1):
            gone = attribute(S.A_SESSION, number)
            check_refused(session, errno.ENODEV, "no such session", gone + rate, f"SET of {number}",
                    name=False)
            check_refused(session, errno.ENODEV, "no such session", gone, f"GET of {number}", GET,
                    name=False)
        for command in (S.CMD_UNSPEC, S.CMD_COUNT, 255):
            check_refused(session, errno.EOPNOTSUPP, None, b"", f"command {command}", command)
    with Netlink() as netlink, fails_with(errno.ENODEV, "a session that was closed"):
        netlink.session_get(session.id)


@test
def process_filters_are_checked():
    with Session() as session:
        child = start("/bin/true")
        child.wait()
        for pid in (child.pid, 0, 2**31 - 1, 2**31, 2**32 - 1):
            check_refused(session, errno.ESRCH, "no such process", encode_settings(pids=[pid]),
                    f"process {pid}")
        check_refused(session, errno.ERANGE, "1024",
                encode_settings(pids=[os.getpid()] * (S.PIDS_MAX + 1)), "1025 processes")
        session.set(pids=[os.getpid()] * S.PIDS_MAX)


@test
def invalid_setting_rejects_the_whole_message():
    with Session() as session:
        for wrong in (encode_settings(max_depth=0), encode_settings(pids=[2**31 - 1]),
                      encode_settings(watermark=S.RING_SIZE_DEFAULT + 1)):
            payload = encode_settings(rate=777, parts=1, state=S.STATE_RUNNING)
            before = settings(session)
            for message in (payload + wrong, wrong + payload):
                try:
                    session.netlink.request(SET, attribute(S.A_SESSION, session.id) + message)
                except NetlinkError:
                    pass
                else:
                    check(False, "not refused")
                check_equal(settings(session), before, "settings after a refusal")


@test
def ring_size_cannot_change_once_rings_exist():
    with Session() as session:
        session.start()
        check_refused(session, errno.EBUSY, "ring", encode_settings(ring_size=S.RING_SIZE_MIN),
                "a ring size while running")
        session.stop()
        check_refused(session, errno.EBUSY, "ring", encode_settings(ring_size=S.RING_SIZE_MIN),
                "a ring size once there is a ring")
        session.set(cpus="0")
        session.start()


@test
def errors_point_to_the_invalid_attribute():
    with Session() as session:
        own = attribute(S.A_SESSION, session.id)
        rate = encode_settings(rate=100)
        try:
            session.netlink.request(SET, own + rate + encode_settings(max_depth=0))
        except NetlinkError as error:
            # After the headers of netlink (16 bytes) and of generic netlink (4 bytes).
            check_equal(error.offset, 20 + len(own) + len(rate), "offset of the attribute")
        else:
            check(False, "not refused")


@test
def unprivileged_senders_change_nothing():
    with Session() as session:
        before = settings(session)
        child = os.fork()
        if not child:
            status = 255
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                with Netlink() as netlink:
                    netlink.session_set(session.id, rate=100)
                status = 0
            except NetlinkError as error:
                status = error.errno if "CAP_PERFMON" in error.text else 254
            finally:
                os._exit(status)
        check_equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), errno.EPERM,
                    "errno of an unprivileged sender")
        check_equal(settings(session), before, "settings after an unprivileged sender")


@test
def poll_reports_hangup_at_stop():
    with Session() as session:
        start(*workload("threads", 2))
        session.start()
        session.stop()
        check(session.poll() & 0x10, "no EPOLLHUP after the stop")
        session.start()
        session.set(watermark=1, rate=1000)
        check_equal(session.poll() & 0x11, 0x1, "events of a restarted session")
