# SPDX-License-Identifier: GPL-2.0
"""Writes pprof files of given stacks."""

import gzip


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field, values):
    return block(field, b"".join(map(varint, values)))


class Profile:
    """A profile of CPU time. A stack is a list of functions, root first."""

    def __init__(self, sources=None):
        """Sources: file and line of functions, by name."""
        self.sources = sources or {}
        self.strings = {"": 0}
        self.functions = {}
        self.locations = {}
        self.body = [block(1, number(1, self.string("cpu")) + number(2, self.string("nanoseconds")))]
        for mapping, file in enumerate(("/usr/bin/program", "[kernel.kallsyms]"), 1):
            self.body.append(block(3, number(1, mapping) + number(2, mapping << 40) +
                                   number(3, (mapping + 1) << 40) + number(5, self.string(file))))

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def function(self, name):
        if name not in self.functions:
            self.functions[name] = len(self.functions) + 1
            file, line = self.sources.get(name, ("", 0))
            self.body.append(block(5, number(1, self.functions[name]) + number(2, self.string(name)) +
                                   number(4, self.string(file)) + number(5, line)))
        return self.functions[name]

    def location(self, frame):
        """A frame is a name; "[k]NAME" in the kernel; "CALLER>NAME": NAME is inlined in CALLER."""
        if frame not in self.locations:
            self.locations[frame] = len(self.locations) + 1
            mapping = 2 if frame.startswith("[k]") else 1
            lines = frame.removeprefix("[k]").split(">") if ">" in frame and "<" not in frame \
                else [frame.removeprefix("[k]")]
            content = number(1, self.locations[frame]) + number(2, mapping)
            content += number(3, (mapping << 40) + self.locations[frame])
            for name in reversed(lines):
                content += block(4, number(1, self.function(name)))
            self.body.append(block(4, content))
        return self.locations[frame]

    def add(self, stack, value, comm=None, **labels):
        content = packed(1, [self.location(frame) for frame in reversed(stack)])
        content += packed(2, [value])
        if comm is not None:
            labels["comm"] = comm
        for key, text in labels.items():
            content += block(3, number(1, self.string(key)) + number(2, self.string(text)))
        self.body.append(block(2, content))

    def write(self, path):
        strings = [block(6, text.encode()) for text in self.strings]
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"".join(self.body + strings))
