# SPDX-License-Identifier: GPL-2.0
"""A minimal reader of 64-bit ELF files: the build ID and the function symbols."""

import bisect
import struct
from pathlib import Path

SYMTAB, NOTE, DYNSYM = 2, 7, 11
FUNCTION = 2
BUILD_ID = 3


class Elf:
    """An ELF file in memory."""

    def __init__(self, data):
        if data[:5] != b"\x7fELF\2":
            raise ValueError(f"no ELF file of 64 bits: {data[:5]}")
        offset, = struct.unpack_from("=Q", data, 40)
        size, count = struct.unpack_from("=HH", data, 58)
        self.sections = [struct.unpack_from("=IIQQQQIIQQ", data, offset + size * index)
                         for index in range(count)]
        self.data = data
        self.build_id = self._build_id()
        self.functions = sorted(self._functions())

    def _content(self, section):
        return self.data[section[4]:section[4] + section[5]]

    def _build_id(self):
        for section in self.sections:
            content = self._content(section)
            if section[1] != NOTE or len(content) < 12:
                continue
            name, length, kind = struct.unpack_from("=III", content)
            if kind == BUILD_ID and content[12:12 + name] == b"GNU\0":
                return content[12 + name:12 + name + length].hex()
        return ""

    def _functions(self):
        for section in self.sections:
            if section[1] not in (SYMTAB, DYNSYM):
                continue
            strings = self._content(self.sections[section[6]])
            for name, info, _, _, value, size in struct.iter_unpack("=IBBHQQ",
                                                                    self._content(section)):
                if info & 15 == FUNCTION and size:
                    yield value, size, strings[name:strings.index(b"\0", name)].decode()

    def function(self, address):
        """The name of the function at a virtual address, or ""."""
        at = bisect.bisect_right(self.functions, (address, float("inf")))
        for value, size, name in self.functions[max(at - 1, 0):at]:
            if value <= address < value + size:
                return name
        return ""


def build_id(path):
    return Elf(Path(path).read_bytes()).build_id
