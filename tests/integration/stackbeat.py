# SPDX-License-Identifier: GPL-2.0
"""A reader of /dev/stackbeat, written from include/stackbeat.h alone.

It shares no code with the command `stackbeat`, and can break the rules of the interface: request
invalid mappings, send malformed messages, write a bad reader position.
"""

import ctypes
import errno
import fcntl
import os
import re
import select
import socket
import struct
from collections import namedtuple
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "include/stackbeat.h"
PAGE = os.sysconf("SC_PAGESIZE")

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                      ctypes.c_int, ctypes.c_int64)
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4
MAP_SHARED, MAP_PRIVATE = 1, 2
MREMAP_MAYMOVE = 1


def watch_closing(path):
    """A descriptor that is readable once any file of this path was closed for the last time (inotify(7))."""
    closed = 0x8 | 0x10  # IN_CLOSE_WRITE, IN_CLOSE_NOWRITE
    watch = libc.inotify_init1(os.O_CLOEXEC)
    if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(path), closed) < 0:
        raise OSError(ctypes.get_errno(), f"inotify: {path}")
    return watch


def _read_header():
    """The enumeration constants and the numeric macros of the header."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    numbers = {}
    for body in re.findall(r"^enum \w+ \{(.*?)\}", text, re.S | re.M):
        value = 0
        for name, given in re.findall(r"(\w+)\s*(?:=\s*(\d+))?\s*,?", body):
            value = int(given) if given else value
            numbers[name] = value
            value += 1
    for name, number in re.findall(r"^#define (STACKBEAT_\w+)\s+(.+?)\s*$", text, re.M):
        number = re.sub(r"(?<=[0-9a-fA-F])(?:ULL|u)\b", "", number)
        if re.fullmatch(r"[\s0-9a-fA-Fx()<]+", number):
            numbers[name] = eval(number)  # pylint: disable=eval-used
    return {name.removeprefix("STACKBEAT_"): value for name, value in numbers.items()}


class Numbers:
    """The constants of the header as attributes, without the prefix STACKBEAT_."""

    def __init__(self):
        self.__dict__.update(_read_header())


S = Numbers()
STOP_NAMES = {value: name.removeprefix("STOP_").lower().replace("_", " ")
             for name, value in vars(S).items() if name.startswith("STOP_") and name != "STOP_COUNT"}
EVENT_NAMES = {value: name.removeprefix("EVENT_").lower() for name, value in vars(S).items()
               if name.startswith("EVENT_") and name not in ("EVENT_UNSPEC", "EVENT_COUNT")}
FLAGS = (S.A_INHERIT, S.A_NO_JITTER, S.A_RESTRICTED, S.A_UNWIND_TABLES, S.A_GOROUTINES)
# Nested attributes, and the type of their members.
NESTS = {S.A_PIDS: S.A_PID, S.A_TIDS: S.A_PID, S.A_CGROUPS: S.A_CGROUP,
         S.A_EXCLUDE_COMMS: S.A_COMM}
STAT_NAMES = {value: name.removeprefix("S_").lower() for name, value in vars(S).items()
              if name.startswith("S_") and name not in ("S_UNSPEC", "S_PAD", "S_COUNT")}


# _IOW(STACKBEAT_IOC_MAGIC, number, __u64), and the offset of `metadata_pending` in the session page.
IOC_FILE_OPEN, IOC_FILE_RELEASE = (0x40080000 | S.IOC_MAGIC << 8 | number for number in (1, 2))
# _IOW(STACKBEAT_IOC_MAGIC, 3, struct stackbeat_unwind_push)
FILE_VDSO = 2**64 - 1
IOC_UNWIND_TABLE = 0x40180000 | S.IOC_MAGIC << 8 | 3
# _IOW(STACKBEAT_IOC_MAGIC, 4, struct stackbeat_moved_text)
IOC_MOVED_TEXT = 0x40280000 | S.IOC_MAGIC << 8 | 4
# _IOWR(STACKBEAT_IOC_MAGIC, 5, struct stackbeat_module_symbols)
IOC_MODULE_SYMBOLS = 0xc0900000 | S.IOC_MAGIC << 8 | 5
ModulePart = namedtuple("ModulePart", "serial came gone start end init symbols changes dropped module")
PENDING_OFFSET = 28


def offset_of_cpu(cpu):
    return (cpu + 1) << 32


# --- netlink -----------------------------------------------------------------

NETLINK_GENERIC, SOL_NETLINK = 16, 270
SO_RCVBUFFORCE = 33
NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK = 10, 11, 12
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLMSGERR_ATTR_MSG, NLMSGERR_ATTR_OFFS = 1, 2
NETLINK_ADD_MEMBERSHIP = 1
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 7, 1, 2
NLA_F_NESTED, NLA_TYPE_MASK = 0x8000, 0x3fff


class NetlinkError(OSError):
    """An error from the kernel, with the text of its extended acknowledgement."""

    def __init__(self, code, text, offset=None):
        super().__init__(code, text)
        self.text = text
        self.offset = offset


def attribute(kind, payload):
    """One attribute. `payload` is bytes, a str (NUL-terminated), or a number."""
    if isinstance(payload, int):
        payload = struct.pack("=Q" if kind == S.A_CGROUP else "=I", payload)
    elif isinstance(payload, str):
        payload = payload.encode() + b"\0"
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def nested(kind, *attributes):
    return attribute(kind | NLA_F_NESTED, b"".join(attributes))


def attributes(data):
    """Yields (kind, payload) of each attribute in data."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            raise ValueError(f"attribute of {length} bytes at {at} of {len(data)}")
        yield kind & NLA_TYPE_MASK, data[at + 4:at + length]
        at += (length + 3) & ~3


class Netlink:
    """A generic netlink socket of one family."""

    def __init__(self, family="stackbeat"):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC,
                                    NETLINK_GENERIC)
        self.socket.bind((0, 0))
        for option in (NETLINK_EXT_ACK, NETLINK_CAP_ACK):
            self.socket.setsockopt(SOL_NETLINK, option, 1)
        self.sequence = 0
        self.family = GENL_ID_CTRL
        answer = self.request(CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, family))
        found = dict(attributes(answer[0]))
        self.family = struct.unpack("=H", found[CTRL_ATTR_FAMILY_ID])[0]
        self.groups = {}
        for _, group in attributes(found.get(CTRL_ATTR_MCAST_GROUPS, b"")):
            group = dict(attributes(group))
            self.groups[_text(group[CTRL_ATTR_MCAST_GRP_NAME])] = _u32(
                group[CTRL_ATTR_MCAST_GRP_ID])

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def request(self, command, payload=b"", dump=False, version=1):
        """Sends a command and returns the attributes of each answer, as bytes."""
        self.socket.send(self._message(command, payload, dump, version))
        return self._answers()

    def _message(self, command, payload, dump=False, version=1):
        self.sequence += 1
        flags = NLM_F_REQUEST | NLM_F_ACK | (NLM_F_DUMP if dump else 0)
        body = struct.pack("=BBH", command, version, 0) + payload
        return struct.pack("=IHHII", 16 + len(body), self.family, flags, self.sequence, 0) + body

    def _answers(self):
        """Receives the answers to the last message."""
        answers = []
        while True:
            data = self.socket.recv(1 << 20)
            at = 0
            while at < len(data):
                length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, at)
                message = data[at + 16:at + length]
                at += (length + 3) & ~3
                if sequence != self.sequence:
                    continue
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    self._check_error(kind, flags, message)
                    return answers
                answers.append(message[4:])

    @staticmethod
    def _check_error(kind, flags, message):
        code = -struct.unpack_from("=i", message)[0] if len(message) >= 4 else 0
        if code <= 0:
            return
        text = offset = None
        if flags & NLM_F_ACK_TLVS:
            # The error of a message is followed by the header of that message.
            for key, value in attributes(message[20 if kind == NLMSG_ERROR else 4:]):
                if key == NLMSGERR_ATTR_MSG:
                    text = value.rstrip(b"\0").decode()
                elif key == NLMSGERR_ATTR_OFFS:
                    offset = struct.unpack("=I", value)[0]
        raise NetlinkError(code, text or os.strerror(code), offset)

    def session_set(self, session, **settings):
        self.request(S.CMD_SESSION_SET,
                     attribute(S.A_SESSION, session) + encode_settings(**settings))

    def session_set_at_once(self, session, count, **settings):
        """Sends `count` equal messages in one buffer, so that the kernel handles them in one system call. Returns the
        errors."""
        payload = attribute(S.A_SESSION, session) + encode_settings(**settings)
        self.socket.send(b"".join(self._message(S.CMD_SESSION_SET, payload) for _ in range(count)))
        errors, answered = [], 0
        while answered < count:
            data = self.socket.recv(1 << 20)
            at = 0
            while at < len(data):
                length, kind, flags, _, _ = struct.unpack_from("=IHHII", data, at)
                try:
                    self._check_error(kind, flags, data[at + 16:at + length])
                except NetlinkError as error:
                    errors.append(error)
                answered += 1
                at += (length + 3) & ~3
        return errors

    def session_get(self, session):
        return decode_session(self.request(S.CMD_SESSION_GET, attribute(S.A_SESSION, session))[0])

    def sessions(self):
        return [decode_session(answer) for answer in self.request(S.CMD_SESSION_GET, dump=True)]

    def module(self):
        answer = dict(attributes(self.request(S.CMD_MODULE_GET)[0]))
        return {"abi": _u32(answer[S.A_ABI]), "version": _text(answer[S.A_VERSION]),
                "rate_max": _u32(answer[S.A_RATE_MAX]), "sessions": _u32(answer[S.A_SESSIONS])}


class Events(Netlink):
    """Receives the multicast events of the module, from now on."""

    def __init__(self):
        super().__init__()
        # The buffer must hold all events that arrive while a test does something else.
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
                               self.groups["events"])
        self.seen = []

    def read(self):
        """All events so far, as dictionaries with names in lower case; `event` is one too."""
        while True:
            try:
                data = self.socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return self.seen
            event = dict(attributes(data[20:]))
            event = {ATTRIBUTE_NAMES[kind]: _text(value) if kind == S.A_OWNER_COMM
                     else _number(value)
                     for kind, value in event.items() if kind != S.A_PAD}
            event["event"] = EVENT_NAMES[event["event"]]
            self.seen.append(event)

    def of(self, session, *names):
        """Events of a session, all or those with one of these names."""
        return [event for event in self.read() if event["session"] == session
                and (not names or event["event"] in names)]


def encode_settings(**settings):
    """Attributes of STACKBEAT_CMD_SESSION_SET by their names in lower case."""
    payload = b""
    for name, value in settings.items():
        kind = getattr(S, "A_" + name.upper())
        if kind in NESTS:
            payload += nested(kind, *(attribute(NESTS[kind], member) for member in value))
        elif kind in FLAGS:
            payload += attribute(kind, bytes([value]))
        else:
            payload += attribute(kind, value)
    return payload


def _u32(data):
    return struct.unpack("=I", data)[0]


def _number(data):
    return int.from_bytes(data, "little")


def _text(data):
    return data.rstrip(b"\0").decode(errors="replace")


def _decode_stats(data):
    return {STAT_NAMES[kind]: struct.unpack("=Q" if len(value) == 8 else "=I", value)[0]
            for kind, value in attributes(data) if kind in STAT_NAMES}


def decode_session(data):
    """One answer of STACKBEAT_CMD_SESSION_GET as a dictionary, names in lower case."""
    session = {"cpu_stats": {}}
    for kind, value in attributes(data):
        if kind == S.A_STATS:
            session["stats"] = _decode_stats(value)
        elif kind == S.A_CPU_STATS:
            stats = _decode_stats(value)
            session["cpu_stats"][stats.pop("cpu")] = stats
        elif kind in NESTS:
            decode = _text if NESTS[kind] == S.A_COMM else _number
            session[ATTRIBUTE_NAMES[kind]] = [decode(member) for member_kind, member
                                              in attributes(value) if member_kind != S.A_PAD]
        elif kind in FLAGS:
            session[ATTRIBUTE_NAMES[kind]] = value[0]
        elif kind in (S.A_CPUS, S.A_OWNER_COMM):
            session["cpus" if kind == S.A_CPUS else "owner_comm"] = _text(value)
        elif kind != S.A_PAD:
            session[ATTRIBUTE_NAMES[kind]] = _u32(value)
    return session


ATTRIBUTE_NAMES = {value: name.removeprefix("A_").lower() for name, value in vars(S).items()
                   if name.startswith("A_")}


# --- records -----------------------------------------------------------------

def spaces_lost(stats):
    """Samples without an address space, plus address spaces whose mappings were not read."""
    return stats["samples_without_address_space"] + stats["address_spaces_unread"]


SAMPLE = struct.Struct("=HHIQQIIIIIHHBBHIQQ16s")
assert SAMPLE.size == 88

Sample = namedtuple("Sample", "flags time weight cpu pid tid lost missed kernel_stop user_stop "
                    "comm kernel user address_space generation hash table_frames goroutine go_labels")

STACK = struct.Struct(f"=HHI{S.REGISTERS}QQ")

Stack = namedtuple("Stack", "registers bytes")

ADDRESS_SPACE = struct.Struct("=HHIQQQIIIIIIII16s")
assert ADDRESS_SPACE.size == 80

AddressSpace = namedtuple("AddressSpace", "address_space start_time cgroup generation gap pid ns_pid "
                          "parent mappings dropped comm cgroup_path")

MAPPING = struct.Struct("=HHIQQQQQQII")
assert MAPPING.size == 64

Mapping = namedtuple("Mapping", "flags address_space start end offset vaddr file_id generation")

FILE = struct.Struct("=HHIQQQIIII64s")
assert FILE.size == 112

MappedFile = namedtuple("MappedFile", "flags file_id inode size device inode_generation build_id path")


class BadRecord(Exception):
    """A record that stackbeat.h does not allow."""


def require(condition, what, record):
    if not condition:
        raise BadRecord(f"{what}: {record}")


def decode(data, decoders):
    """Yields the records in data, which must hold complete records; decoders: {type: function}."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise BadRecord(f"truncated header at {at}")
        kind, _, size = struct.unpack_from("=HHI", data, at)
        if size < 8 or size % 8 or at + size > len(data):
            raise BadRecord(f"record of type {kind} with {size} bytes at {at} of {len(data)}")
        if kind in decoders:
            yield decoders[kind](data[at:at + size])
        elif kind != S.RECORD_PAD:
            raise BadRecord(f"record of type {kind}")
        at += size


def _decode_go_labels(record):
    """The labels of a goroutine, as pairs of bytes, and whether some are cut."""
    size, count, flags = struct.unpack_from("=IHH", record)
    require(size == len(record) <= S.GO_LABELS_SIZE_MAX and count <= S.GO_LABELS_COUNT_MAX and
            not flags & ~S.GO_LABELS_CUT, "labels", (size, count, flags))
    labels, at = [], 8
    for _ in range(count):
        key, value = record[at:at + 2]
        require(key <= S.GO_LABEL_KEY_MAX and value <= S.GO_LABEL_VALUE_MAX and at + 2 + key + value <= size,
                "label", (key, value))
        labels.append((record[at + 2:at + 2 + key], record[at + 2 + key:at + 2 + key + value]))
        at += 2 + key + value
    require(not any(record[at:]) and len(record) - at < 8, "padding of labels", record[at:])
    return labels, bool(flags)


# A byte's CRC-32C: Castagnoli's polynomial, the lowest bit first (RFC 3720, appendix B.4).
CRC_TABLE = list(range(256))
for _ in range(8):
    CRC_TABLE = [crc >> 1 ^ 0x82f63b78 * (crc & 1) for crc in CRC_TABLE]
HAS_CRC = re.search(r"^flags\s*:.*\bsse4_2\b", Path("/proc/cpuinfo").read_text(), re.M)
STACKS_OF_A_KIND = 4  # whose hashes are computed
_hashed = {}


def hash_of_frames(frames):
    """What the module says of the same frames."""
    found = 0
    for frame in frames:
        if HAS_CRC:
            for byte in frame.to_bytes(8, "little"):
                found = found >> 8 ^ CRC_TABLE[byte ^ found & 0xff]
        else:
            found = ((found << 1 | found >> 63) + frame) % 2**64
    return found


def _check_hash(sample):
    """The reader relies on the hash: it does not compare all frames. Each way of the stack walk computes it."""
    frames = sample.kernel + sample.user
    kind = (sample.flags, sample.kernel_stop, sample.user_stop, len(frames).bit_length(),
            sample.table_frames.bit_length(), (len(sample.user) - sample.table_frames).bit_length())
    hashed = _hashed.setdefault(kind, set())
    if len(hashed) < STACKS_OF_A_KIND and frames not in hashed:
        hashed.add(frames)
        require(hash_of_frames(frames) == sample.hash, "hash of frames", (sample.hash, frames))


def _decode_sample(record):
    (_, flags, size, time, weight, cpu, pid, tid, lost, missed, kernel, user, kernel_stop,
     user_stop, table_frames, generation, space, stack_hash, comm) = SAMPLE.unpack_from(record)
    goroutine = bool(flags & S.SAMPLE_GOROUTINE)
    words = kernel + user + goroutine + bool(flags & S.SAMPLE_GO_CREATOR)
    labels = record[SAMPLE.size + 8 * words:]
    go_labels = _decode_go_labels(labels) if flags & S.SAMPLE_GO_LABELS else None
    if size != SAMPLE.size + 8 * words + (len(labels) if flags & S.SAMPLE_GO_LABELS else 0):
        raise BadRecord(f"{size} bytes for {kernel} + {user} frames")
    if b"\0" not in comm or flags & ~(S.SAMPLE_KERNEL | S.SAMPLE_COMPAT | S.SAMPLE_STACK | S.SAMPLE_GOROUTINE |
                                      S.SAMPLE_GO_CREATOR | S.SAMPLE_GO_LABELS):
        raise BadRecord(f"flags {flags:#x}, comm {comm}")
    if table_frames > max(user - 1, 0) or (table_frames and flags & S.SAMPLE_STACK):
        raise BadRecord(f"{table_frames} frames of {user} by tables, flags {flags:#x}")
    if kernel_stop >= S.STOP_COUNT or user_stop >= S.STOP_COUNT or not kernel + user:
        raise BadRecord(f"stops {kernel_stop} and {user_stop}, {kernel} + {user} frames")
    frames = struct.unpack_from(f"={words}Q", record, SAMPLE.size)
    sample = Sample(flags, time, weight, cpu, pid, tid, lost, missed, kernel_stop, user_stop,
                    _string(comm), frames[:kernel], frames[kernel:kernel + user], space, generation,
                    stack_hash, table_frames, frames[kernel + user] if goroutine else 0, go_labels)
    _check_hash(sample)
    return sample


def _decode_stack(record):
    _, flags, size, *registers, copied = STACK.unpack_from(record)
    require(not flags and not copied % 8 and size == STACK.size + copied, "stack", (flags, size, copied))
    return Stack(registers, record[STACK.size:])


def _string(data):
    """Decodes bytes up to the first NUL."""
    return data.split(b"\0")[0].decode(errors="replace")


def _padded_string(record, at):
    """The string at the end of a record: NUL-terminated, with the least padding that aligns it."""
    tail = record[at:]
    text = tail.rstrip(b"\0")
    require(len(text) < len(tail) <= len(text) + 8 and b"\0" not in text and
            len(text) < S.PATH_MAX, "string", tail)
    return text.decode(errors="replace")


def _decode_address_space(record):
    (_, flags, _, space, start_time, cgroup, generation, gap, pid, ns_pid, parent, mappings,
     dropped, reserved, comm) = ADDRESS_SPACE.unpack_from(record)
    decoded = AddressSpace(space, start_time, cgroup, generation, gap, pid, ns_pid, parent, mappings,
                           dropped, _string(comm), _padded_string(record, ADDRESS_SPACE.size))
    require(not flags and not reserved and b"\0" in comm, "address space", (flags, reserved, decoded))
    require(space and pid and gap <= generation and mappings <= S.MAPPINGS_MAX, "address space", decoded)
    return decoded


def _decode_mapping(record):
    (_, flags, size, space, start, end, offset, vaddr, file_id, generation,
     reserved) = MAPPING.unpack_from(record)
    mapping = Mapping(flags, space, start, end, offset, vaddr, file_id, generation)
    known = (S.MAPPING_EVENT | S.MAPPING_MAIN_BINARY | S.MAPPING_VDSO | S.MAPPING_VADDR)
    require(size == MAPPING.size and not flags & ~known and not reserved, "mapping",
            (size, reserved, mapping))
    require(space and start < end and not start % PAGE and not end % PAGE, "mapping", mapping)
    require(not (file_id and flags & S.MAPPING_VDSO), "vdso with a file", mapping)
    return mapping


def _decode_file(record):
    (_, flags, _, file_id, inode, size, major, minor, inode_generation, id_size,
     build_id) = FILE.unpack_from(record)
    require(id_size <= S.BUILD_ID_MAX and not any(build_id[id_size:]), "build id",
            (id_size, build_id))
    file = MappedFile(flags, file_id, inode, size, (major, minor), inode_generation,
                      build_id[:id_size].hex(), _padded_string(record, FILE.size))
    known = S.FILE_HEADERS_NOT_READ | S.FILE_UNLINKED | S.FILE_UNWIND_TABLE | S.FILE_LASTING
    require(file_id and not flags & ~known, "file", file)
    return file


SAMPLES = {S.RECORD_SAMPLE: _decode_sample, S.RECORD_STACK: _decode_stack}
METADATA = {S.RECORD_ADDRESS_SPACE: _decode_address_space, S.RECORD_MAPPING: _decode_mapping,
            S.RECORD_FILE: _decode_file}


# --- the device --------------------------------------------------------------


def mmap(fd, length, protection=PROT_READ, offset=0, flags=MAP_SHARED):
    """As mmap(2): an address, or OSError."""
    address = libc.mmap(None, length, protection, flags, fd, offset)
    if address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return address


def munmap(address, length):
    if libc.munmap(address, length):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Ring:
    """A mapped ring: the ring of a CPU, or the metadata ring (cpu None)."""

    def __init__(self, fd, cpu, size):
        self.cpu, self.size = cpu, size
        self.decoders = METADATA if cpu is None else SAMPLES
        offset = S.OFFSET_META if cpu is None else offset_of_cpu(cpu)
        self.consumer = mmap(fd, PAGE, PROT_READ | PROT_WRITE, offset)
        try:
            self.producer = mmap(fd, PAGE + size, PROT_READ, offset + PAGE)
        except OSError:
            munmap(self.consumer, PAGE)
            raise
        self._tail = ctypes.c_uint64.from_address(self.consumer)
        self._head = ctypes.c_uint64.from_address(self.producer)
        header = struct.unpack("=II", ctypes.string_at(self.producer + 8, 8))
        require(header == (size, 0xffffffff if cpu is None else cpu), "size and CPU", header)

    def close(self):
        munmap(self.consumer, PAGE)
        munmap(self.producer, PAGE + self.size)

    @property
    def head(self):
        return self._head.value

    @property
    def tail(self):
        return self._tail.value

    @tail.setter
    def tail(self, value):
        self._tail.value = value

    def take(self):
        """Consumes and returns the bytes between tail and head: whole records, for decode()."""
        head, tail = self.head, self.tail
        if head - tail > self.size or head < tail:
            raise BadRecord(f"head {head}, tail {tail}, size {self.size}")
        data = b""
        while tail < head:
            at = tail % self.size
            length = min(head - tail, self.size - at)
            # Records never cross the end of the data.
            data += ctypes.string_at(self.producer + PAGE + at, length)
            tail += length
        self.tail = head
        return data

    def read(self):
        """Consumes and returns the records between tail and head."""
        return list(decode(self.take(), self.decoders))


def samples_of(taken):
    """The samples in what Session.take() returned."""
    return [record for data, decoders in taken for record in decode(data, decoders) if isinstance(record, Sample)]


def online_cpus():
    text = Path("/sys/devices/system/cpu/online").read_text().strip()
    cpus = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


class Session:
    """An open session with its rings. start() starts it."""

    def __init__(self, **settings):
        self.rings = []
        self.meta = None
        self.fd = os.open("/dev/stackbeat", os.O_RDWR | os.O_CLOEXEC)
        self.page = None
        self.netlink = None
        try:
            self.page = mmap(self.fd, PAGE)
            magic, self.abi, self.id, self.cpus = struct.unpack(
                "=QIII", ctypes.string_at(self.page, 20))
            if magic != S.MAGIC or self.abi != S.ABI:
                raise OSError(errno.EPROTO, f"magic {magic:#x}, ABI {self.abi}")
            self.netlink = Netlink()
            if settings:
                self.set(**settings)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for ring in self.rings:
            ring.close()
        if self.meta:
            self.meta.close()
        if self.page:
            munmap(self.page, PAGE)
        if self.netlink:
            self.netlink.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.rings, self.meta, self.page, self.netlink, self.fd = [], None, None, None, -1

    def set(self, **settings):
        self.netlink.session_set(self.id, **settings)

    def get(self):
        return self.netlink.session_get(self.id)

    def stats(self):
        return self.get()["stats"]

    def map(self):
        """Maps the rings of online CPUs that are not mapped yet."""
        size = self.get()["ring_size"]
        mapped = {ring.cpu for ring in self.rings}
        for cpu in online_cpus():
            if cpu not in mapped:
                self.rings.append(Ring(self.fd, cpu, size))

    def map_metadata(self):
        self.meta = Ring(self.fd, None, S.META_RING_SIZE)

    @property
    def pending(self):
        return struct.unpack("=I", ctypes.string_at(self.page + PENDING_OFFSET, 4))[0]

    def module_symbols(self, serial=0, buffer=0, size=0):
        """STACKBEAT_IOC_MODULE_SYMBOLS: (error number or 0, ModulePart with the number of bytes as `symbols`)."""
        argument = bytearray(struct.pack("=10Q64s", serial, 0, 0, 0, 0, 0, buffer, size, 0, 0, b""))
        error = 0
        try:
            fcntl.ioctl(self.fd, IOC_MODULE_SYMBOLS, argument)
        except OSError as failure:
            error = failure.errno
        *numbers, module = struct.unpack("=10Q64s", argument)
        return error, ModulePart(*numbers[:6], *numbers[7:], _text(module))

    def module_parts(self):
        """All parts of modules that have symbols, as ModulePart."""
        parts, serial = [], 0
        while True:
            error, part = self.module_symbols(serial)
            if error == errno.ENOENT:
                return parts
            text = ctypes.create_string_buffer(part.symbols + 1)
            error, part = self.module_symbols(part.serial, ctypes.addressof(text), part.symbols)
            if error:
                raise OSError(error, "STACKBEAT_IOC_MODULE_SYMBOLS")
            parts.append(part._replace(symbols=text.raw[:part.symbols].decode()))
            serial = part.serial + 1

    def open_file(self, file_id):
        """Opens a mapped file and returns the file descriptor."""
        # With an immutable argument, fcntl.ioctl() would return the argument, not the result.
        return fcntl.ioctl(self.fd, IOC_FILE_OPEN, bytearray(struct.pack("=Q", file_id)))

    def release_file(self, file_id):
        fcntl.ioctl(self.fd, IOC_FILE_RELEASE, struct.pack("=Q", file_id))

    def set_table(self, file_id, table):
        """Sets the unwind table of a file: bytes, or None if it has none."""
        buffer = ctypes.create_string_buffer(table, len(table)) if table else None
        address = ctypes.addressof(buffer) if table else 0
        fcntl.ioctl(self.fd, IOC_UNWIND_TABLE,
                    struct.pack("=QQQ", file_id, address, len(table or b"")))

    def start(self):
        if not self.rings:
            self.map()
        self.set(state=S.STATE_RUNNING)

    def stop(self):
        self.set(state=S.STATE_STOPPED)

    def take(self):
        """Consumes the records of all CPUs. Returns them undecoded, for samples_of(). For loops while a session
        runs: in a slow guest, decoding a sample can take longer than the period, and each turn of a loop that
        decodes finds more samples than the one before."""
        return [(data, ring.decoders) for ring in self.rings if (data := ring.take())]

    def read(self):
        return samples_of(self.take())

    def read_with_stacks(self):
        """(sample, copy of its stack or None) of each sample."""
        pairs = []
        for ring in self.rings:
            expected = False
            for record in ring.read():
                require(expected == isinstance(record, Stack), "stack after a sample", record)
                if expected:
                    pairs[-1] = (pairs[-1][0], record)
                else:
                    pairs.append((record, None))
                expected = not expected and bool(record.flags & S.SAMPLE_STACK)
            require(not expected, "no stack after the last sample", pairs[-1:])
        return pairs

    def poll(self):
        """Waits for the watermark of a ring or the stop of the session; returns the poll events."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return poll.poll()[0][1]

    def read_until(self, enough):
        """Reads at each wakeup until enough(all samples so far); returns the samples."""
        samples = []
        while not enough(samples):
            self.poll()
            samples += self.read()
        return samples
