# SPDX-License-Identifier: GPL-2.0
"""A reader of requests that export profiles in OTLP 1.11.0, written from the wire format alone."""

import gzip
from collections import namedtuple

from pprof import read_message, read_numbers

# `values`: one for each sample type. `functions`: leaf first, with inlined ones.
Sample = namedtuple("Sample", "values attributes functions files")


def one(message, number, default=0):
    return message.get(number, [default])[-1]


def value_of(any_value, strings=()):
    """A string, also one of the dictionary, or a signed number of 64 bits."""
    message = read_message(any_value)
    if 8 in message:
        return strings[message[8][-1]]
    return message[1][-1].decode() if 1 in message else read_numbers(message[3])[-1]


class Request:
    """A request with its references resolved. The profiles of a resource have the same samples."""

    def __init__(self, packed):
        request = read_message(gzip.decompress(packed))
        resource, = request[1]
        dictionary = read_message(one(request, 2))
        self.strings = [text.decode() for text in dictionary[5]]
        self.mappings, self.locations, self.functions, links, attributes, self.stacks = (
            [read_message(item) for item in dictionary[number]] for number in (1, 2, 3, 4, 6, 7))
        for table in (self.mappings, self.locations, self.functions, attributes, self.stacks):
            if table[0] != {} or self.strings[0] != "":
                raise ValueError(f"item 0 is not empty: {table[0]}")
        if links != [{1: [bytes(16)], 2: [bytes(8)]}]:
            raise ValueError(f"links {links}")
        self.table = [("", 0)] + [(self.strings[one(attribute, 1)], value_of(one(attribute, 2), self.strings))
                                  for attribute in attributes[1:]]
        self._read_resource(read_message(resource))

    def _read_resource(self, resource):
        self.resource = {one(pair, 1).decode(): value_of(one(pair, 2))
                         for pair in map(read_message, read_message(one(resource, 1)).get(1, []))}
        scoped, = map(read_message, resource[2])
        scope = read_message(one(scoped, 1))
        self.scope = one(scope, 1).decode(), one(scope, 2).decode()
        profiles = [read_message(profile) for profile in scoped[2]]
        self.types = [self._value_type(one(profile, 1)) for profile in profiles]
        self.windows = {(one(profile, 3), one(profile, 4)) for profile in profiles}
        self.periods = {(self._value_type(one(profile, 5)), one(profile, 6)) for profile in profiles}
        self.samples = [self._sample(list(map(read_message, samples)))
                        for samples in zip(*(profile.get(2, []) for profile in profiles), strict=True)]

    def _value_type(self, data):
        message = read_message(data)
        return self.strings[one(message, 1)], self.strings[one(message, 2)]

    def _sample(self, samples):
        stack, attributes = one(samples[0], 1), read_numbers(samples[0].get(2, []))
        for sample in samples:
            if (one(sample, 1), read_numbers(sample.get(2, []))) != (stack, attributes):
                raise ValueError("the profiles have different samples")
        locations = [self.locations[index] for index in read_numbers(self.stacks[stack].get(1, []))]
        lines = [read_message(line) for location in locations for line in location.get(3, [])]
        values = [value for sample in samples for value in read_numbers(sample[4])]
        return Sample(dict(zip((kind for kind, _ in self.types), values, strict=True)),
                      dict(self.table[index] for index in attributes),
                      [self.strings[one(self.functions[one(line, 1)], 1)] for line in lines],
                      [self._file(one(location, 1)) for location in locations])

    def _file(self, mapping):
        """The path and the build ID."""
        message = self.mappings[mapping]
        attributes = dict(self.table[index] for index in read_numbers(message.get(5, [])))
        return self.strings[one(message, 4)], attributes.get("process.executable.build_id.gnu", "")
