#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 5: slowdown of real programs while the whole system is recorded."""

import random
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import (Bpftrace, BUILD, idle_ns, keep_in_memory, Perf, Profiler, Results, ROOT, run, SCRATCH,
                 settle, Stackbeat, wait_until)

ROUNDS = 2
TEXT = SCRATCH / "text"
SQL = """
CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT, weight INTEGER);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 15000)
INSERT INTO fruit SELECT i, 'fruit ' || (i * 7919 % 10007), i * 31 % 997 FROM n;
CREATE INDEX by_name ON fruit(name);
SELECT weight, count(*), max(name) FROM fruit GROUP BY weight ORDER BY 2 DESC LIMIT 5;
SELECT count(*) FROM fruit a JOIN fruit b ON a.name = b.name WHERE a.weight < 100;
"""
NGINX = f"""
worker_processes 1;
pid {SCRATCH}/nginx.pid;
error_log /dev/null;
events {{ worker_connections 64; }}
http {{
	access_log off;
	client_body_temp_path {SCRATCH}/nginx-body;
	proxy_temp_path {SCRATCH}/nginx-proxy;
	fastcgi_temp_path {SCRATCH}/nginx-fastcgi;
	uwsgi_temp_path {SCRATCH}/nginx-uwsgi;
	scgi_temp_path {SCRATCH}/nginx-scgi;
	server {{ listen 127.0.0.1:8080; root {SCRATCH}; }}
}}
"""


def instructions(*command):
    """Instructions of the guest until the command ends."""
    start = time.monotonic_ns() - idle_ns()
    run(*command)
    return time.monotonic_ns() - idle_ns() - start


def sqlite():
    return instructions("sqlite3", ":memory:", SQL)


def gzip():
    return instructions("gzip", "-kf", TEXT)


def gofmt():
    # On one CPU, garbage collector and program share one thread.
    return instructions(BUILD / "bench/gofmt", "-l", SCRATCH / "go")


def openssl():
    """ns per MiB."""
    out = run("openssl", "speed", "-elapsed", "-mr", "-seconds", 1, "-bytes", 1024, "-evp", "sha256")
    per_second = float(re.search(r"^\+F:.*:([\d.]+)$", out, re.M)[1])
    return (1 << 20) / per_second * 1e9


def nginx():
    """ns per request."""
    out = run("wrk", "-t", 1, "-c", 4, "-d", "1s", "http://127.0.0.1:8080/page")
    return 1e9 / float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


PROGRAMS = {program.__name__: program for program in (gzip, sqlite, openssl, gofmt, nginx)}


def prepare():
    keep_in_memory(nginx_binary(), BUILD / "bench/gofmt", *(
        shutil.which(name) for name in ("sqlite3", "gzip", "openssl", "wrk")))
    sources = sorted((ROOT / "kmod").glob("*.c")) + sorted((ROOT / "user").glob("*/*.c"))
    TEXT.write_bytes(4 * b"".join(path.read_bytes() for path in sources))
    (SCRATCH / "page").write_bytes(b"x" * 4096)
    (SCRATCH / "go").mkdir()
    for path in (BUILD / "bench/gofmt-input").glob("*.go"):
        (SCRATCH / "go" / path.name).write_bytes(path.read_bytes())
    (SCRATCH / "nginx.conf").write_text(NGINX)
    subprocess.run([nginx_binary(), "-e", "/dev/null", "-c", SCRATCH / "nginx.conf"], check=True,
                   stderr=subprocess.DEVNULL)
    wait_until((SCRATCH / "nginx.pid").exists, "nginx")


def nginx_binary():
    unpacked = BUILD / "bench/root/usr/sbin/nginx"
    return unpacked if unpacked.exists() else shutil.which("nginx")


def main():
    prepare()
    results = Results("slowdown")
    for program in PROGRAMS.values():
        program()
    setups = [(Profiler, 0)] + [(kind, rate) for kind in (Stackbeat, Perf, Bpftrace)
                                for rate in (99, 999)]
    random.Random(1).shuffle(setups)
    for kind, rate in setups:
        with kind(rate or 1) as profiler:
            # Round 0 is a warm-up: the profiler reads the programs for the first time.
            for number in range(ROUNDS + 1):
                for name, program in PROGRAMS.items():
                    settle()
                    results.add(round=number, profiler=profiler.name, rate=rate, program=name,
                                ns=program())


if __name__ == "__main__":
    main()
