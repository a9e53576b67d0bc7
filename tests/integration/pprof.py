# SPDX-License-Identifier: GPL-2.0
"""A reader of pprof profiles (profile.proto), written from the wire format alone."""

import gzip
from collections import namedtuple

# `source` and `line`: the position in the source code; `file`: the binary; `inlined`: the functions that
# are inlined into this one at this address, innermost first.
Frame = namedtuple("Frame", "function file address build_id inlined source line start_line system_name")
# `frames`: one physical frame for each address; `lines`: inlined functions, too.
Sample = namedtuple("Sample", "values labels frames lines")
Mapping = namedtuple("Mapping", "start limit offset filename build_id has_functions")

NO_MAPPING = Mapping(0, 0, 0, "", "", False)


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint of more than 10 bytes")


def _fields(data):
    """Yields (number, value): an int, also of fixed64, or the bytes of a length-delimited field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError(f"field {key >> 3} of {length} bytes at {at} of {len(data)}")
            value = data[at:at + length]
            at += length
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            raise ValueError(f"wire type {key & 7} of field {key >> 3}")
        yield key >> 3, value


def read_message(data):
    """A message of protobuf as {number: [value, ...]}."""
    message = {}
    for number, value in _fields(data):
        message.setdefault(number, []).append(value)
    return message


def read_numbers(values):
    """Decodes a repeated number, packed or not."""
    numbers = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(number)
    return [number - (1 << 64) if number >> 63 else number for number in numbers]


class Profile:
    """A profile with its references resolved; frames are leaf first."""

    def __init__(self, path):
        with gzip.open(path) as file:
            profile = read_message(file.read())
        self.strings = [text.decode() for text in profile.get(6, [])]
        if self.strings[:1] != [""]:
            raise ValueError("the first string is not empty")

        def one(message, number, default=0):
            return message.get(number, [default])[-1]

        def text(message, number):
            return self.strings[one(message, number)]

        def by_id(number):
            messages = [read_message(data) for data in profile.get(number, [])]
            if [one(message, 1) for message in messages] != list(range(1, len(messages) + 1)):
                raise ValueError(f"the ids of field {number} are not 1 to {len(messages)}")
            return messages

        self.sample_types = [(text(kind, 1), text(kind, 2))
                             for kind in map(read_message, profile.get(1, []))]
        self.mappings = [Mapping(one(mapping, 2), one(mapping, 3), one(mapping, 4),
                                 text(mapping, 5), text(mapping, 6), bool(one(mapping, 7)))
                         for mapping in by_id(3)]
        functions = [(text(function, 2), text(function, 4), one(function, 5), text(function, 3))
                     for function in by_id(5)]
        self.locations = []
        for location in by_id(4):
            lines = [(*functions[one(line, 1) - 1], one(line, 2))
                      for line in map(read_message, location.get(4, []))] or [("", "", 0, "", 0)]
            mapping = one(location, 2)
            mapping = self.mappings[mapping - 1] if mapping else NO_MAPPING
            # The last line is the physical function; those before are inlined into it.
            names = [name for name, *_ in lines]
            self.locations.append([Frame(name, mapping.filename, one(location, 3), mapping.build_id,
                                         tuple(names[:depth]), source, line, start, system_name)
                                   for depth, (name, source, start, system_name, line)
                                   in enumerate(lines)])
        self.samples = [self._sample(read_message(data), one) for data in profile.get(2, [])]
        self.comments = [self.strings[index] for index in read_numbers(profile.get(13, []))]
        self.time_nanos = one(profile, 9)
        self.duration_nanos = one(profile, 10)
        self.period = one(profile, 12)

    def _sample(self, sample, one):
        values = read_numbers(sample.get(2, []))
        if len(values) != len(self.sample_types):
            raise ValueError(f"{len(values)} values for {len(self.sample_types)} types")
        labels = {}
        for label in map(read_message, sample.get(3, [])):
            key = self.strings[one(label, 1)]
            if key in labels:
                raise ValueError(f"label {key} twice")
            labels[key] = self.strings[one(label, 2)] if 2 in label else one(label, 3)
        locations = [self.locations[index - 1] for index in read_numbers(sample.get(1, []))]
        return Sample(dict(zip((kind for kind, _ in self.sample_types), values)), labels,
                      [location[-1] for location in locations],
                      [frame for location in locations for frame in location])

    def contents(self):
        """All samples in a canonical order, to compare profiles."""
        return sorted((sorted(sample.values.items()), sorted(map(str, sample.labels.items())),
                       [tuple(frame) for frame in sample.lines]) for sample in self.samples)

    def total(self, kind, wanted=lambda sample: True):
        """The sum of values["samples" or "cpu"] over the samples for which wanted() is true."""
        return sum(sample.values[kind] for sample in self.samples if wanted(sample))
