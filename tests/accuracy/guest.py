#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py BIN [NAME...]: records programs in a guest, and unwinds each of their stacks a second time by elfutils.

Writes accuracy.json in /out: a row for each program, for each known chain of calls, and for the comparison with perf.
BIN has the programs of tests/accuracy/build; nginx, PostgreSQL and the JVM are recorded where they are.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

# pylint: disable=wrong-import-position
import harness
from test_unwind import count, is_right

BIN = Path(sys.argv[1])
WANTED = sys.argv[2:]
OUT = Path("/out/accuracy.json")
RATE = 499
COPY = 16 << 10
SECONDS = 4
KINDS = ("equal", "longer", "shorter", "different")
SCRATCH = Path("/tmp/accuracy")


def shell(script, *arguments):
    return ["sh", "-c", script, "sh", *map(str, arguments)]


def programs():
    """{name: command}."""
    found = {}
    for path in sorted(BIN.glob("unusual-*")):
        if path.suffix != ".log":
            found[path.name] = [path, SECONDS / 9]
    for path in sorted(BIN.glob("threads-*")):
        if path.suffix != ".log":
            found[path.name] = [path, SECONDS / 5, BIN / "plugin.so"]
    for path in sorted(BIN.glob("exceptions-*")):
        if path.suffix != ".log":
            found[path.name] = [path, SECONDS]
    for path in [BIN / "rust", *sorted(BIN.glob("go-*"))]:
        if path.exists() and path.suffix != ".log":
            found[path.name] = [path, SECONDS]
    cases = {
        "openssl sha256": ["openssl", "speed", "-seconds", "4", "-bytes", "1024", "-evp", "sha256"],
        "openssl aes-128-gcm": ["openssl", "speed", "-seconds", "4", "-bytes", "1024", "-evp", "aes-128-gcm"],
        "openssl rsa2048 (bn)": ["openssl", "speed", "-seconds", "2", "rsa2048"],
        "python3": ["/usr/bin/python3", "-c", "import json, re\nfor i in range(300):\n"
                    " text = json.dumps([{'a': j, 'b': str(j)} for j in range(300)])\n"
                    " re.findall(r'\\d+', text); sorted(json.loads(text), key=lambda row: row['b'])"],
        "git": shell("cd /tmp/accuracy/tree && git log --stat -p >/dev/null"),
        "cc1 (gcc -O2)": shell('for i in 1 2 3 4 5 6; do gcc -O2 -S -o /dev/null "$1" -iquote "$2" -I "$3"; done',
                               ROOT / "user/report/flamegraph.c", ROOT / "user", ROOT / "include"),
        "sqlite3": ["sqlite3", ":memory:", "create table t (a integer, b text);"
                    "insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000)"
                    " select i * 7919 % 10007, hex(i) from n;"
                    "select count(*), max(b) from t group by a % 100 order by 2; create index i on t (b);"
                    "select count(*) from t x, t y where x.b = y.b;"],
        "bash": ["bash", "-c", "for ((i = 0; i < 40000; i++)); do a=$((a + i)); b=${a/1/2}; done"],
        "find": ["find", "/usr/include", "-name", "*.h", "-size", "+1"],
        "tar and gzip": shell("tar cf - /usr/share/misc /usr/include/linux 2>/dev/null | gzip >/dev/null"),
        "ld.so (short processes)": shell("for i in $(seq 600); do /bin/true; done"),
        "node (JIT)": ["node", "-e", "const end = Date.now() + 5000; let n = 0; while (Date.now() < end) {"
                       "const rows = [...Array(300).keys()].map(i => ({a: i, b: String(i * 7919 % 1000)}));"
                       "rows.sort((x, y) => x.b < y.b ? -1 : 1); n += JSON.parse(JSON.stringify(rows)).length }"],
    }
    if (BIN / "Work.class").exists():
        cases["JVM (JIT)"] = ["java", "-XX:+PreserveFramePointer", "-cp", BIN, "Work", 6]
    # These two are not in PATH: if they are missing, main() says so.
    cases["nginx"], cases["PostgreSQL"] = ["nginx"], ["initdb"]
    nginx = BIN.parents[1] / "bench/root/usr/sbin/nginx"
    if nginx.exists() or shutil.which("nginx"):
        configuration = SCRATCH / "nginx.conf"
        configuration.write_text(
            f"daemon off; worker_processes 1; pid {SCRATCH}/nginx.pid; error_log {SCRATCH}/error.log; user root;\n"
            f"events {{}}\nhttp {{ access_log off; client_body_temp_path {SCRATCH}/t1; proxy_temp_path {SCRATCH}/t2;\n"
            f"fastcgi_temp_path {SCRATCH}/t3; uwsgi_temp_path {SCRATCH}/t4; scgi_temp_path {SCRATCH}/t5;\n"
            "server { listen 127.0.0.1:8080; root /usr/share; gzip on; gzip_types *; } }\n")
        cases["nginx"] = shell(
            '"$1" -c "$2" & sleep 0.3; wrk -c 4 -t 1 -d 3 http://127.0.0.1:8080/misc/magic >/dev/null; kill $!; wait',
            nginx if nginx.exists() else shutil.which("nginx"), configuration)
    initdb = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if initdb:
        tools = initdb[-1].parent
        cases["PostgreSQL"] = shell(
            'exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \''
            '"$1/pg_ctl" -s -D "$2/data" -o "-c listen_addresses= -k $2" -w start && '
            '"$1/pgbench" -n -h "$2" -t 400 -S postgres; "$1/psql" -qAt -h "$2" -c '
            '"select count(*) from generate_series(1, 60000) a join generate_series(1, 60000) b on a = b" postgres;'
            '"$1/pg_ctl" -s -D "$2/data" -m fast stop\' sh "$1" "$2" >/dev/null 2>&1', tools, SCRATCH / "pg")
    found.update(cases)
    return found


def prepare(name):
    """What a program needs before it is recorded."""
    if name == "git":
        subprocess.run(["git", "clone", "-q", "--depth", "60", f"file://{ROOT}", SCRATCH / "tree"], check=True)
    if name == "PostgreSQL":
        directory = SCRATCH / "pg"
        directory.mkdir()
        os.chown(directory, 65534, 65534)
        SCRATCH.chmod(0o755)
        tools = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))[-1].parent
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        subprocess.run([*user, tools / "initdb", "-N", "-A", "trust", "-D", directory / "data"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(directory)})
        subprocess.run([*user, tools / "pg_ctl", "-s", "-D", directory / "data", "-o",
                        f"-c listen_addresses= -k {directory}", "-w", "start"], check=True)
        subprocess.run([*user, tools / "pgbench", "-i", "-q", "-h", directory, "postgres"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([*user, tools / "pg_ctl", "-s", "-D", directory / "data", "-m", "fast", "stop"], check=True)


def parse_comparison(line):
    """{kind: number} of a line of --verify."""
    return {kind: int(found[1]) if (found := re.search(rf"(\d+) {kind}", line)) else 0 for kind in KINDS}


def measure(command):
    profile, _, err = harness.record("-F", RATE, "--verify=1", f"--stack-copy={COPY >> 10}K", "--ring-size=32M",
                                     command=list(map(str, command)))
    lines = err.splitlines()
    summary = next(line for line in lines if " samples in " in line)
    index, verified = next((i, line) for i, line in enumerate(lines) if "unwound again by elfutils:" in line)
    objects = {}
    for line in lines[index + 1:]:
        if found := re.match(r"stackbeat:   (\S.*): (\d+) callers: ", line):
            objects[found[1]] = {"callers": int(found[2]), **parse_comparison(line)}
    samples = [sample for sample in profile.samples if harness.user_part(sample)]
    causes = Counter()
    for sample in profile.samples:
        causes[sample.labels.get("truncated", "")] += count([sample])
    return {
        "samples": count(profile.samples),
        "truncated": {cause: number for cause, number in causes.most_common() if cause},
        "depth": round(sum(count([sample]) * len(harness.user_part(sample)) for sample in samples) /
                       max(count(samples), 1), 1),
        "summary": summary, **parse_comparison(verified),
        "outermost": next((int(found[1]) for line in lines if (found := re.search(
            r"(\d+) of the longer ones end at the outermost caller", line))), 0),
        "stacks": int(re.search(r"(\d+) user stacks", verified)[1]), "objects": objects,
    }


# The functions of a stack from the leaf on. Between the last one and main(), or the start of the thread, may be others.
CHAIN = ["inner", "middle", "outer", "work"]
GENERATED = ["generated_inner", "generated_outer", "work"]
STUBS = [[leaf, "caller"] for leaf in ("direct", "taken", "direct@plt", "taken@plt")]


def chains():
    """{name: (command, [chain], function at which the stack begins)}."""
    def mode(name, *libraries, program="chains"):
        return [BIN / program, name, SECONDS / 2, *(BIN / library for library in libraries)]
    return {
        "chain moved-pages": (mode("moved-pages", "chain-library-other.so"), [CHAIN], "main"),
        "chain moved-library": (mode("moved-library", "chain-library.so"), [CHAIN], "main"),
        "chain replaced-library": (mode("replaced-library", "chain-library.so", "chain-library-other.so"), [CHAIN], "main"),
        "chain jit-deleted-file": (mode("jit-deleted-file"), [GENERATED], "main"),
        # A symbol without a size is before the first function, which has none.
        "chain library-without-headers": (mode("library", "chain-headless.so"), [["", *CHAIN[1:]]], "main"),
        "chain stubs-gold": ([BIN / "chain-stubs-gold", SECONDS / 2], STUBS, "main"),
        "chain stubs-branch-tracking": ([BIN / "chain-stubs-branch-tracking", SECONDS / 2], STUBS, "main"),
        # All stubs share a jump, which has no name.
        "chain stubs-retpolines": ([BIN / "chain-stubs-retpolines", SECONDS / 2], [*STUBS, ["", "caller"]], "main"),
        "chain stubs-lazy-retpolines": ([BIN / "chain-stubs-lazy-retpolines", SECONDS / 2], [*STUBS, ["", "caller"]],
                                        "main"),
        "chain assembly-library": (mode("library", "chain-assembly.so"), [CHAIN], "main"),
        "chain val-offset": (mode("val-offset"), [["offset_inner", "by_offset", "work"]], "main"),
        "chain val-expression": (mode("val-expression"), [["expression_inner", "by_expression", "work"]], "main"),
        "chain switched-stack": (mode("switched-stack"), [CHAIN[:3]], "coroutine"),
        "chain raw-clone": (mode("raw-clone"), [CHAIN], "thread_function"),
        "chain thread": (mode("thread"), [CHAIN], "run_thread"),
        "chain thread-musl": (mode("thread", program="chains-musl"), [CHAIN], "run_thread"),
        "chain jit-recompiled": (mode("jit-recompiled"), [[*GENERATED, "before"], ["recompiled_inner", *GENERATED[1:], "after"]],
                                 "main"),
        "chain jit-forked": (mode("jit-forked"), [GENERATED], "main"),
    }


def follows_chain(functions, chain, first):
    """Whether a stack, leaf first, has a chain from its leaf on, or from one of the callers, and begins at a function."""
    if first not in functions or (first != "main" and "main" in functions):
        return False
    return any(functions[:len(chain) - skipped] == chain[skipped:] for skipped in range(len(chain)))


def measure_chain(command, ways, first):
    profile, _, err = harness.record("-F", RATE, command=list(map(str, command)))
    causes = Counter()
    right = 0
    for sample in profile.samples:
        causes[sample.labels.get("truncated", "")] += count([sample])
        functions = harness.user_part(sample)
        right += count([sample]) * any(follows_chain(functions, chain, first) for chain in ways)
    return {
        "samples": count(profile.samples), "right": right,
        "truncated": {cause: number for cause, number in causes.most_common() if cause},
        "summary": next(line for line in err.splitlines() if " samples in " in line),
    }


def cpu_of(function):
    """(result, CPU seconds of the children that the function waits for)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = function()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def perf_stacks(text):
    """(thread, [function, callee first]) of each sample of `perf script`."""
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if len(lines) < 2:
            continue
        thread = lines[0].split()[0]
        frames = [line.split() for line in lines[1:]]
        yield thread, [frame[1].split("+")[0] for frame in frames
                       if len(frame) > 1 and not int(frame[0], 16) >> 63]


def tally(stacks):
    """{thread: Counter(function of the program below which a sample is)} and {thread: share of right stacks}."""
    callers, right = {}, {}
    for thread, functions, number in stacks:
        if thread not in ("copies", "lengths", "sorts") or "start_thread" in functions[:1]:
            continue
        callee = next((name for name in functions if name in (thread, "is_over")), "?")
        callers.setdefault(thread, Counter())[callee] += number
        good = is_right(thread, functions)
        right.setdefault(thread, Counter())[good] += number
    return ({thread: dict(counter) for thread, counter in callers.items()},
            {thread: counter[True] / counter.total() for thread, counter in right.items()})


def compare_with_perf():
    program = [str(harness.workload("nofp")[0]), "2"]
    _, bare = cpu_of(lambda: subprocess.run(program, check=True))
    rows = {}
    (profile, _, err), seconds = cpu_of(lambda: harness.record("-F", RATE, command=program))
    callers, right = tally((sample.labels.get("thread"), harness.user_part(sample), count([sample]))
                           for sample in profile.samples)
    path = re.search(r"; (/\S+\.pb\.gz)", err)[1]
    rows["stackbeat"] = {"callers": callers, "right": right, "bytes": os.path.getsize(path),
                         "cpu": seconds - bare, "samples": count(profile.samples)}
    data = SCRATCH / "perf.data"

    def perf():
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(RATE), "--call-graph", "dwarf,32768",
                        "-o", data, "--", *program], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return subprocess.run(["perf", "script", "-i", data, "-F", "comm,ip,sym"], check=True,
                              capture_output=True, text=True).stdout
    text, seconds = cpu_of(perf)
    stacks = list(perf_stacks(text))
    callers, right = tally((thread, functions, 1) for thread, functions in stacks)
    rows["perf"] = {"callers": callers, "right": right, "bytes": os.path.getsize(data), "cpu": seconds - bare,
                    "samples": len(stacks)}
    return rows


def is_wanted(name):
    return not WANTED or any(name.startswith(wanted) for wanted in WANTED)


def main():
    SCRATCH.mkdir(parents=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    result = {"programs": {}, "chains": {}, "failed": {}, "perf": None}
    for name, command in programs().items():
        if not is_wanted(name):
            continue
        if not shutil.which(str(command[0])):
            result["failed"][name] = f"{command[0]} is missing"
            continue
        try:
            prepare(name)
            result["programs"][name] = measure(command)
        except (harness.Failure, subprocess.CalledProcessError, StopIteration) as error:
            result["failed"][name] = str(error)[-300:]
        print(name, result["programs"].get(name, {}).get("summary", result["failed"].get(name)), flush=True)
        row = result["programs"].get(name)
        if row:
            print("   ", {kind: row[kind] for kind in KINDS}, {path: row for path, row in row["objects"].items()
                                                            if row["callers"] > row["equal"]}, flush=True)
        harness.run_cleanups()
        OUT.write_text(json.dumps(result))
    for name, (command, ways, first) in chains().items():
        if not is_wanted(name):
            continue
        try:
            result["chains"][name] = measure_chain(command, ways, first)
        except (harness.Failure, subprocess.CalledProcessError, StopIteration) as error:
            result["failed"][name] = str(error)[-300:]
        print(name, result["chains"].get(name, result["failed"].get(name)), flush=True)
        harness.run_cleanups()
        OUT.write_text(json.dumps(result))
    if not WANTED or "perf" in WANTED:
        result["perf"] = compare_with_perf()
    OUT.write_text(json.dumps(result))
    OUT.with_name("kernel").write_text(os.uname().release)


main()
