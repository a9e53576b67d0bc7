# SPDX-License-Identifier: GPL-2.0
"""Real programs in processes that end, for tests/bench/instructions: their stacks are folded when the reader notices."""

import shutil
import subprocess

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
# {name: (one turn, turns in a second of the guest's time)}
PROGRAMS = {
    "python": (f"/usr/bin/python3 -S -c '{SCRIPT}'", 5),
    "sqlite": (f"sqlite3 :memory: \"{SQL}\" >/dev/null", 12),
    "gcc": (f"gcc -O2 -c -o {SCRATCH}/ended.o {SOURCE}", 2),
    "shell": ("/bin/true; echo 1 2 3 | sed s/2/3/ >/dev/null; ls -l /etc >/dev/null", 60),
}


def prepare(names):
    """Makes the programs start without the host, and what they read."""
    binaries = {"python": ["/usr/bin/python3"], "sqlite": [shutil.which("sqlite3")],
                "shell": [shutil.which(name) for name in ("true", "sed", "ls")]}
    for name in names:
        if name == "gcc":
            keep_in_memory("/usr/bin/gcc", shutil.which("as"), gcc("-print-prog-name=cc1"))
            SOURCE.write_text(gcc("-E", f"-I{ROOT}/user", f"-I{ROOT}/include", ROOT / "user/lib/hash.c"))
        else:
            keep_in_memory("/bin/sh", *binaries[name])


def gcc(*arguments):
    return subprocess.run(["gcc", *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def command(name, seconds):
    """A shell that runs the program in a loop, for program()."""
    turn, turns = PROGRAMS[name]
    return ("/bin/sh", "-c", f"echo ready; read -r line; i=0\n"
            f"while [ $i -lt {int(turns * seconds)} ]; do {turn}\ni=$((i + 1)); done\necho '{{}}'")
