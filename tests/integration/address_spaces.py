# SPDX-License-Identifier: GPL-2.0
"""Resolves user addresses to mappings and symbols, from the section "Address spaces" of stackbeat.h alone."""

import bisect
import os
from collections import defaultdict, namedtuple

from elf_file import Elf
from harness import check, check_equal, wait_until
from stackbeat import AddressSpace, MappedFile, PAGE, require, S

# The mapping at an address where it can't be known.
UNKNOWN = "unknown"
# Mapping events of up to this many pages are indexed by page.
INDEXED_PAGES = 1024

Frame = namedtuple("Frame", "function file build_id mapping")


class Snapshot:
    """The mappings of an address space as they were read at one time."""

    def __init__(self, record):
        self.record = record
        self.mappings = []
        self.starts = []

    def __repr__(self):
        return f"Snapshot({self.record})"

    def add_mapping(self, mapping):
        require(len(self.mappings) < self.record.mappings, "more mappings than announced", mapping)
        require(not self.mappings or self.mappings[-1].end <= mapping.start,
                "mappings out of order", (self.mappings[-1:], mapping))
        self.mappings.append(mapping)
        self.starts.append(mapping.start)

    def mapping_at(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0 or address >= self.mappings[at].end:
            return None
        return self.mappings[at]


class MappingHistory:
    """All records of one address space. `file_identity` returns which file a file id stands for."""

    def __init__(self, file_identity):
        self.file_identity = file_identity
        self.snapshots = []
        self._by_page = defaultdict(list)
        self._wide = []
        self.events = set()  # generations of the mapping events
        self._missing = {}

    def add_event(self, mapping):
        self.events.add(mapping.generation)
        self._missing.clear()
        pages = range(mapping.start // PAGE, mapping.end // PAGE)
        if len(pages) > INDEXED_PAGES:
            self._wide.append(mapping)
            return
        for page in pages:
            self._by_page[page].append(mapping)

    def add_snapshot(self, record):
        require(not any(other.record.generation > record.generation for other in self.snapshots),
                "a generation older than an earlier snapshot", (record, self.snapshots[-3:]))
        require(not self.snapshots or record.gap, "a second snapshot without a gap", record)
        require(not self.snapshots or record.pid == self.snapshots[0].record.pid, "another process",
                record)
        self.snapshots.append(Snapshot(record))

    def _first_missing(self, after):
        """The first generation without an event, after the generation of a snapshot (0: no snapshot)."""
        if after not in self._missing:
            generation = max(after, 1) + 1
            while generation in self.events:
                generation += 1
            self._missing[after] = generation
        return self._missing[after]

    def events_at(self, address):
        return self._by_page.get(address // PAGE, []) + [
            mapping for mapping in self._wide if mapping.start <= address < mapping.end]

    def _content(self, mapping, address):
        """File and file offset of an address: equal for two mappings with the same content there."""
        if mapping is None or mapping is UNKNOWN:
            return mapping
        return (self.file_identity(mapping.file_id), address - mapping.start + mapping.offset,
                mapping.flags & S.MAPPING_VDSO)

    def mapping_at(self, generation, address):
        """The mapping at an address, None if no reported mapping covers it, or UNKNOWN."""
        for snapshot in self.snapshots:
            gap = snapshot.record.gap
            if gap and gap <= generation < snapshot.record.generation:
                before, after = self.mapping_at(gap - 1, address), snapshot.mapping_at(address)
                same = self._content(before, address) == self._content(after, address)
                return after if same else UNKNOWN
        return self._mapping_outside_gaps(generation, address)

    def _mapping_outside_gaps(self, generation, address):
        """As mapping_at(), for a generation outside of all reported gaps."""
        if not self.snapshots:
            return UNKNOWN
        earlier = [snapshot for snapshot in self.snapshots if snapshot.record.generation <= generation]
        snapshot = (earlier or self.snapshots)[-1 if earlier else 0]
        read_at = snapshot.record.generation
        if generation >= self._first_missing(read_at if earlier else 0):
            return UNKNOWN
        events = self.events_at(address)
        applied = [event for event in events if event.generation <= generation
                   and not (earlier and event.generation <= read_at)]
        if applied:
            return max(applied, key=lambda event: event.generation)
        if not earlier and (any(generation < event.generation <= read_at for event in events)
                            or generation < snapshot.record.gap
                            or self._first_missing(0) <= read_at):
            return UNKNOWN
        return snapshot.mapping_at(address)


class AddressSpaces:
    """The address spaces of a session, by the records of its metadata ring.

    With `keep_files`, files are not released once their symbols are read; without `read_files`,
    files are neither read nor released.
    """

    def __init__(self, session, keep_files=False, read_files=True):
        self.session = session
        self.keep_files = keep_files
        self.read_files = read_files
        self.spaces = defaultdict(lambda: MappingHistory(self._identity))
        self.files = {}
        self.refused = {}
        self._elf_files = {}
        self._snapshots = {}

    def _identity(self, file_id):
        """The same file gets another id once it was released."""
        file = self.files.get(file_id)
        return file and (file.device, file.inode, file.inode_generation)

    def read(self):
        if not self.session.meta:
            self.session.map_metadata()
        for record in self.session.meta.read():
            if isinstance(record, MappedFile):
                require(record.file_id not in self.files, "a file id came twice", record)
                self.files[record.file_id] = record
                if self.read_files:
                    self._read_file(record)
            elif isinstance(record, AddressSpace):
                space = self.spaces[record.address_space]
                space.add_snapshot(record)
                self._snapshots[record.address_space] = space.snapshots[-1]
            else:
                self._add_mapping(record)

    def drain(self):
        """Reads all pending metadata of a stopped session."""
        def nothing_pending():
            pending = self.session.pending
            self.read()
            return not pending
        wait_until(nothing_pending, "the end of pending metadata")
        for number, space in self.spaces.items():
            for snapshot in space.snapshots:
                check_equal(len(snapshot.mappings), snapshot.record.mappings,
                            f"mappings of address space {number}")

    def _add_mapping(self, mapping):
        require(not mapping.file_id or mapping.file_id in self.files, "no such file", mapping)
        if mapping.flags & S.MAPPING_EVENT:
            self.spaces[mapping.address_space].add_event(mapping)
            return
        snapshot = self._snapshots.get(mapping.address_space)
        require(snapshot and snapshot.record.generation == mapping.generation,
                "a mapping without its address space record", mapping)
        snapshot.add_mapping(mapping)

    def _read_file(self, file):
        """Reads the symbols of a file, unless one with the same build ID was read before."""
        if file.build_id and file.build_id in self._elf_files:
            self._elf_files[file.file_id] = self._elf_files[file.build_id]
        else:
            self._elf_files[file.file_id] = elf = self._read_elf(file)
            if elf and file.build_id:
                check_equal(file.build_id, elf.build_id, f"build id of {file}")
                self._elf_files[file.build_id] = elf
        if not self.keep_files:
            self.session.release_file(file.file_id)

    def _read_elf(self, file):
        try:
            fd = self.session.open_file(file.file_id)
        except OSError as error:
            self.refused[file.file_id] = error.errno
            return None
        with open(fd, "rb") as opened:
            data = opened.read()
        check_equal(len(data), file.size, f"bytes of {file}")
        return Elf(data) if data[:4] == b"\x7fELF" else None

    def mapping_at(self, sample, address):
        return (self.spaces[sample.address_space].mapping_at(sample.generation, address)
                if sample.address_space in self.spaces else UNKNOWN)

    def is_in_gap(self, sample):
        """Whether the sample was taken while mapping events were lost."""
        return any(snapshot.record.gap
                   and snapshot.record.gap <= sample.generation < snapshot.record.generation
                   for snapshot in self.spaces[sample.address_space].snapshots)

    def symbolize(self, sample):
        """The user part of a sample, leaf first, as Frames; UNKNOWN or None as the mapping of an
        address without one."""
        frames = []
        for index, address in enumerate(sample.user):
            # All but the first one are return addresses: the call is before them.
            address -= bool(index)
            mapping = self.mapping_at(sample, address)
            if mapping is None or mapping is UNKNOWN:
                frames.append(Frame("", "", "", mapping))
                continue
            file, elf = self.files.get(mapping.file_id), self._elf_files.get(mapping.file_id)
            name = ""
            if elf and mapping.flags & S.MAPPING_VADDR:
                name = elf.function(address - mapping.start + mapping.vaddr)
            frames.append(Frame(name, file.path if file else "", file.build_id if file else "",
                                mapping))
        return frames

    def last_record(self, space):
        """The last AddressSpace record with this id."""
        check(space in self.spaces and self.spaces[space].snapshots,
              f"no record of address space {space}")
        return self.spaces[space].snapshots[-1].record


def vdso():
    """The vdso of this process, which every 64-bit process maps, as an Elf."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        line = next(line for line in maps if line.rstrip().endswith("[vdso]"))
    start, end = (int(word, 16) for word in line.split()[0].split("-"))
    fd = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return Elf(os.pread(fd, end - start, start))
    finally:
        os.close(fd)
