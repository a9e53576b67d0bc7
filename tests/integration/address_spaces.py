# SPDX-License-Identifier: GPL-2.0
"""What user addresses mean, by the section "Address spaces" of stackbeat.h alone."""

import bisect
import os
from collections import defaultdict, namedtuple

from elf_file import Elf
from harness import check, check_equal, wait_until
from stackbeat import Object, PAGE, require, S, Space

# What is mapped at an address where that can't be known.
UNKNOWN = "unknown"
# Pages of a change that are indexed one by one.
INDEXED_PAGES = 1024

Frame = namedtuple("Frame", "function file build_id mapping")


class Reading:
    """The mappings of a space as they were read at one time."""

    def __init__(self, told):
        self.told = told
        self.mappings = []
        self.starts = []

    def __repr__(self):
        return f"Reading({self.told})"

    def add(self, mapping):
        require(len(self.mappings) < self.told.mappings, "more mappings than told", mapping)
        require(not self.mappings or self.mappings[-1].end <= mapping.start,
                "mappings out of order", (self.mappings[-1:], mapping))
        self.mappings.append(mapping)
        self.starts.append(mapping.start)

    def holder(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0 or address >= self.mappings[at].end:
            return None
        return self.mappings[at]


class AddressSpace:
    """All that was told of one space. `files` tells of an object's id which file it is."""

    def __init__(self, files):
        self.files = files
        self.readings = []
        self._by_page = defaultdict(list)
        self._wide = []
        self.changes = set()  # their generations
        self._untold = {}

    def add_change(self, mapping):
        self.changes.add(mapping.generation)
        self._untold.clear()
        pages = range(mapping.start // PAGE, mapping.end // PAGE)
        if len(pages) > INDEXED_PAGES:
            self._wide.append(mapping)
            return
        for page in pages:
            self._by_page[page].append(mapping)

    def add_reading(self, told):
        require(not any(other.told.generation > told.generation for other in self.readings),
                "an earlier generation than was read before", (told, self.readings[-3:]))
        require(not self.readings or told.gap, "read again without a gap", told)
        require(not self.readings or told.pid == self.readings[0].told.pid, "another process",
                told)
        self.readings.append(Reading(told))

    def _first_untold(self, after):
        """The first generation after that of a reading (0: none) that is of no change."""
        if after not in self._untold:
            generation = max(after, 1) + 1
            while generation in self.changes:
                generation += 1
            self._untold[after] = generation
        return self._untold[after]

    def changes_at(self, address):
        return self._by_page.get(address // PAGE, []) + [
            mapping for mapping in self._wide if mapping.start <= address < mapping.end]

    def _content(self, mapping, address):
        """What of which file a mapping has at an address, whichever mapping it is."""
        if mapping is None or mapping is UNKNOWN:
            return mapping
        return (self.files(mapping.object), address - mapping.start + mapping.offset,
                mapping.flags & S.MAPPING_VDSO)

    def holder(self, generation, address):
        """The mapping that has an address, None for none of the told ones, or UNKNOWN."""
        for reading in self.readings:
            gap = reading.told.gap
            if gap and gap <= generation < reading.told.generation:
                before, after = self.holder(gap - 1, address), reading.holder(address)
                same = self._content(before, address) == self._content(after, address)
                return after if same else UNKNOWN
        return self._holder(generation, address)

    def _holder(self, generation, address):
        """As holder(), of a generation that is in no gap that was told."""
        if not self.readings:
            return UNKNOWN
        earlier = [reading for reading in self.readings if reading.told.generation <= generation]
        reading = (earlier or self.readings)[-1 if earlier else 0]
        read_at = reading.told.generation
        if generation >= self._first_untold(read_at if earlier else 0):
            return UNKNOWN
        changes = self.changes_at(address)
        ours = [change for change in changes if change.generation <= generation
                and not (earlier and change.generation <= read_at)]
        if ours:
            return max(ours, key=lambda change: change.generation)
        if not earlier and (any(generation < change.generation <= read_at for change in changes)
                            or generation < reading.told.gap
                            or self._first_untold(0) <= read_at):
            return UNKNOWN
        return reading.holder(address)


class Spaces:
    """The address spaces of a session, as its metadata ring tells them.

    With `keep`, objects are not given back once their names are known; without `names`, they
    are neither looked at nor given back.
    """

    def __init__(self, session, keep=False, names=True):
        self.session = session
        self.keep = keep
        self.names = names
        self.spaces = defaultdict(lambda: AddressSpace(self._identity))
        self.objects = {}
        self.refused = {}
        self._files = {}
        self._reading = {}

    def _identity(self, number):
        """The same file has another object once it was given back."""
        told = self.objects.get(number)
        return told and (told.device, told.inode, told.inode_generation)

    def read(self):
        if not self.session.meta:
            self.session.map_metadata()
        for record in self.session.meta.read():
            if isinstance(record, Object):
                require(record.object not in self.objects, "an object's id came twice", record)
                self.objects[record.object] = record
                if self.names:
                    self._open(record)
            elif isinstance(record, Space):
                self.spaces[record.space].add_reading(record)
                self._reading[record.space] = self.spaces[record.space].readings[-1]
            else:
                self._add_mapping(record)

    def drain(self):
        """Reads all that there will be for the samples of a session that was stopped."""
        def nothing_pending():
            pending = self.session.pending
            self.read()
            return not pending
        wait_until(nothing_pending, "an end of what is pending")
        for number, space in self.spaces.items():
            for reading in space.readings:
                check_equal(len(reading.mappings), reading.told.mappings,
                            f"mappings of space {number}")

    def _add_mapping(self, mapping):
        require(not mapping.object or mapping.object in self.objects, "no such object", mapping)
        if mapping.flags & S.MAPPING_EVENT:
            self.spaces[mapping.space].add_change(mapping)
            return
        reading = self._reading.get(mapping.space)
        require(reading and reading.told.generation == mapping.generation,
                "a mapping that is not of the last space record", mapping)
        reading.add(mapping)

    def _open(self, told):
        """Reads the file of an object, unless one of the same contents was read before."""
        if told.build_id and told.build_id in self._files:
            self._files[told.object] = self._files[told.build_id]
        else:
            self._files[told.object] = file = self._file(told)
            if file and told.build_id:
                check_equal(told.build_id, file.build_id, f"build id of {told}")
                self._files[told.build_id] = file
        if not self.keep:
            self.session.release_object(told.object)

    def _file(self, told):
        try:
            fd = self.session.open_object(told.object)
        except OSError as error:
            self.refused[told.object] = error.errno
            return None
        with open(fd, "rb") as file:
            data = file.read()
        check_equal(len(data), told.size, f"bytes of {told}")
        return Elf(data) if data[:4] == b"\x7fELF" else None

    def holder(self, sample, address):
        return (self.spaces[sample.space].holder(sample.generation, address)
                if sample.space in self.spaces else UNKNOWN)

    def is_in_gap(self, sample):
        """Whether changes were lost between which the sample was taken."""
        return any(reading.told.gap and reading.told.gap <= sample.generation < reading.told.generation
                   for reading in self.spaces[sample.space].readings)

    def name(self, sample):
        """The user part of a sample, leaf first, as Frames; UNKNOWN or None instead of a mapping
        where there is none."""
        frames = []
        for index, address in enumerate(sample.user):
            # All but the first one are return addresses: the call is before them.
            address -= bool(index)
            mapping = self.holder(sample, address)
            if mapping is None or mapping is UNKNOWN:
                frames.append(Frame("", "", "", mapping))
                continue
            told, file = self.objects.get(mapping.object), self._files.get(mapping.object)
            name = ""
            if file and mapping.flags & S.MAPPING_VADDR:
                name = file.function(address - mapping.start + mapping.vaddr)
            frames.append(Frame(name, told.path if told else "", told.build_id if told else "",
                                mapping))
        return frames

    def process(self, space):
        """The last space record of a space."""
        check(space in self.spaces and self.spaces[space].readings, f"space {space} was not told")
        return self.spaces[space].readings[-1].told


def vdso():
    """This process' vdso, which is every 64-bit process', as an Elf."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        line = next(line for line in maps if line.rstrip().endswith("[vdso]"))
    start, end = (int(word, 16) for word in line.split()[0].split("-"))
    fd = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return Elf(os.pread(fd, end - start, start))
    finally:
        os.close(fd)
