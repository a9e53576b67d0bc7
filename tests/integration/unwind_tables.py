# SPDX-License-Identifier: GPL-2.0
"""Compiles unwind tables of the files that a session maps, and passes them to the module."""

import contextlib
import struct
import subprocess

from address_spaces import AddressSpaces
from harness import wait_until, workload
from stackbeat import FILE_VDSO


HEADER = struct.Struct("=IIQIIII32s")  # struct stackbeat_unwind_table
RULE = struct.Struct("=iBBbb")  # struct stackbeat_unwind_rule
RUN = struct.Struct("=II")  # struct stackbeat_unwind_run
MAGIC = 0x79626b73


def pack_table(first, blocks, row_rules, row_starts, rules, runs=(), **changes):
    """A table; `changes`: other values of header fields."""
    size = HEADER.size + RULE.size * len(rules) + RUN.size * len(runs) + 4 * len(blocks) + 3 * len(row_rules)
    fields = {"magic": MAGIC, "size": (size + 7) & ~7, "start": first,
              "block_count": len(blocks) - 1, "row_count": len(row_rules),
              "rule_count": len(rules), "run_count": len(runs), "go": bytes(32), **changes}
    packed = (HEADER.pack(*fields.values()) + b"".join(RULE.pack(*rule) for rule in rules)
              + b"".join(RUN.pack(*run) for run in runs) + struct.pack(f"={len(blocks)}I{len(row_rules)}H", *blocks, *row_rules)
              + bytes(row_starts))
    return packed + bytes(-len(packed) % 8)


def unpack_table(table):
    """The arguments of pack_table(), without runs."""
    _, _, first, block_count, row_count, rule_count, run_count, _ = HEADER.unpack_from(table)
    at = HEADER.size
    rules = [RULE.unpack_from(table, at + i * RULE.size) for i in range(rule_count)]
    at += RULE.size * rule_count + RUN.size * run_count
    blocks = struct.unpack_from(f"={block_count + 1}I", table, at)
    at += 4 * len(blocks)
    row_rules = struct.unpack_from(f"={row_count}H", table, at)
    at += 2 * row_count
    return first, blocks, row_rules, table[at:at + row_count], rules


def compile_table(path):
    """The unwind table of an ELF file, or of the vDSO ("vdso")."""
    return subprocess.run([str(word) for word in workload("unwind_table", path)], check=True,
                          stdout=subprocess.PIPE).stdout


def wait_for_files(session, process, *names, spaces=None):
    """Waits until the mappings of a process are known, with its program and files of these names.
    Returns the address spaces, which may be given."""
    spaces = spaces or AddressSpaces(session, keep_files=True)

    def are_known():
        session.read()
        spaces.read()
        paths = [file.path for file in spaces.files.values()]
        return all(any(name in path for path in paths) for name in (process.args[0], *names))

    wait_until(are_known, "the mappings of the process")
    return spaces


def set_tables(session, process, without=()):
    """Sets the tables of the files that a process maps, except those whose path contains a word of
    `without`. Returns the address spaces."""
    spaces = wait_for_files(session, process, "ld-linux", "libc.so")
    files = {FILE_VDSO: "vdso", **{file_id: file.path for file_id, file in spaces.files.items()
                                   if not any(word in file.path for word in without)}}
    for file_id, path in files.items():
        # Another session, or a session that was just closed, may have set it.
        with contextlib.suppress(FileExistsError):
            session.set_table(file_id, compile_table(path))
    return spaces
