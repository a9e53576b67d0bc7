# SPDX-License-Identifier: GPL-2.0
"""Compiles unwind tables of the files that a session maps, and passes them to the module."""

import contextlib
import subprocess

from address_spaces import AddressSpaces
from harness import wait_until, workload
from stackbeat import FILE_VDSO


def compile_table(path):
    """The unwind table of an ELF file, or of the vDSO ("vdso")."""
    return subprocess.run([str(word) for word in workload("unwind_table", path)], check=True,
                          stdout=subprocess.PIPE).stdout


def set_tables(session, process, without=()):
    """Sets the tables of the files that a process maps, except those whose path contains a word of
    `without`. Returns the address spaces."""
    session.map_metadata()
    spaces = AddressSpaces(session, keep_files=True)

    def are_known():
        session.read()
        spaces.read()
        paths = [file.path for file in spaces.files.values()]
        return all(any(name in path for path in paths)
                   for name in (process.args[0], "ld-linux", "libc.so"))

    wait_until(are_known, "the mappings of the process")
    files = {FILE_VDSO: "vdso", **{file_id: file.path for file_id, file in spaces.files.items()
                                   if not any(word in file.path for word in without)}}
    for file_id, path in files.items():
        # Another session, or one that was just closed, may have set it.
        with contextlib.suppress(FileExistsError):
            session.set_table(file_id, compile_table(path))
    return spaces
