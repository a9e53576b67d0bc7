# SPDX-License-Identifier: GPL-2.0
"""Real programs in processes that end, for tests/bench/instructions: their stacks are folded when the reader notices."""

import os
import shutil
import subprocess
from pathlib import Path

from lab import keep_in_memory, ROOT, SCRATCH

SQL = """
CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT, weight INTEGER);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
INSERT INTO fruit SELECT i, 'fruit ' || (i * 7919 % 10007), i * 31 % 997 FROM n;
CREATE INDEX by_name ON fruit(name);
SELECT count(*) FROM fruit a JOIN fruit b ON a.name = b.name WHERE a.weight < 100;
"""
SCRIPT = """
import json, re
data = [{"name": f"fruit {i}", "weight": i * 31 % 997} for i in range(3000)]
text = json.dumps(data, indent=1)
words = re.findall(r"[a-z]+ \\\\d+", text)
json.loads(text), sorted(words, key=len)
"""
SOURCE = SCRATCH / "ended.c"
PYTHON_HOME = SCRATCH / "python"
LISTED = SCRATCH / "listed"
# What programs read at their start, beside themselves and their libraries.
READ = ["/etc/group", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/usr/include/stdc-predef.h"]
# {name: (one turn, turns in a second of the guest's time)}
PROGRAMS = {
    "python": (f"/usr/bin/python3 -S -c '{SCRIPT}'", 5),
    "sqlite": (f"sqlite3 :memory: \"{SQL}\" >/dev/null", 12),
    "gcc": (f"gcc -O2 -c -o {SCRATCH}/ended.o {SOURCE}", 2),
    "shell": (f"/bin/true; echo 1 2 3 | sed s/2/3/ >/dev/null; ls -l {LISTED} >/dev/null", 60),
}


def prepare(names):
    """Makes the programs run without the host: the guest's clock jumps while it waits for it, and the reader wakes."""
    binaries = {"python": ["/usr/bin/python3"], "sqlite": [shutil.which("sqlite3")],
                "shell": [shutil.which(name) for name in ("true", "sed", "ls")]}
    keep_in_memory(*READ)
    for name in names:
        if name == "gcc":
            keep_in_memory("/usr/bin/gcc", shutil.which("as"), gcc("-print-prog-name=cc1"))
            SOURCE.write_text(gcc("-E", f"-I{ROOT}/user", f"-I{ROOT}/include", ROOT / "user/lib/hash.c"))
        else:
            keep_in_memory("/bin/sh", *binaries[name])
        if name == "python":
            copy_modules()
        if name == "shell":
            LISTED.mkdir()
            for number in range(150):
                (LISTED / f"file {number}").touch()


def copy_modules():
    """Copies the modules that the script imports: Python lists their directories, which asks the host each time."""
    code = SCRIPT + """
import sys
for module in list(sys.modules.values()):
    for path in (getattr(module, "__file__", None), getattr(module, "__cached__", None)):
        if path:
            print(path)
"""
    listed = subprocess.run(["/usr/bin/python3", "-S", "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    for path in filter(os.path.exists, listed.split()):
        copy = PYTHON_HOME / Path(path).relative_to("/usr")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    keep_in_memory(*PYTHON_HOME.rglob("*.so"))


def gcc(*arguments):
    return subprocess.run(["gcc", *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def command(name, seconds):
    """A shell that runs the program in a loop, for program()."""
    turn, turns = PROGRAMS[name]
    return ("/bin/sh", "-c", f"export LC_ALL=C PYTHONHOME={PYTHON_HOME}; echo ready; read -r line; i=0\n"
            f"while [ $i -lt {int(turns * seconds)} ]; do {turn}\ni=$((i + 1)); done\necho '{{}}'")
