#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Section 7: serve.py CASE. What an always-on `stackbeat serve` costs, all of its processes together, and what it
stores and pushes."""

import base64
import gzip
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from lab import load, Results, run, SCRATCH, unload, wait_until

GROUPS = Path("/sys/fs/cgroup")
STORE = SCRATCH / "store"
TEXT, BINARY = SCRATCH / "text", "/usr/lib/x86_64-linux-gnu/libc.so.6"
# Each is a service of its own, with the work of a real program.
SERVICES = {
    "json": "python3 -c 'import json; [json.loads(json.dumps(list(range(5000)))) for _ in range(20)]'",
    "regex": f"python3 -c 'import re; re.findall(r\"(\\w+) (\\w+)\", open(\"{TEXT}\").read())'",
    "digest": f"sha256sum {BINARY}",
    "checksum": f"md5sum {BINARY}",
    "compress": f"gzip -c {BINARY}",
    "archive": f"tar -cf - {TEXT} {BINARY}",
    "strong": f"xz -0 -c {TEXT}",
    "sorting": f"sort {TEXT}",
    "search": f"grep -c -i 'licen[cs]e.*work' {TEXT}",
    "awk": "awk 'BEGIN { for (i = 0; i < 100000; i++) s += i * i; print s }'",
    "stream": f"sed -n 's/the \\(.*\\) of/\\1/p' {TEXT}",
    "walk": "find /usr/share/doc /usr/lib -name 'x*'",
    "list": "ls -lR /usr/share/zoneinfo",
    "encode": f"base64 {BINARY}",
    "dump": f"od -x {TEXT}",
    "perl": "perl -e 'my %h; $h{$_ % 1000} .= $_ for 1 .. 50000; print length join \"\", values %h'",
    "shell": "bash -c 'for ((i = 0; i < 20000; i++)); do s=$((s + i)); done'",
    "crypt": f"openssl enc -aes-256-cbc -pbkdf2 -k x -in {BINARY}",
    "unique": f"uniq -c {TEXT}",
    "compile": "gcc -O2 -S -o /dev/null -x c /usr/include/stdio.h",
}
BUSY = ["while :; do gzip -c " + BINARY + "; done",
        "while :; do /bin/true; ls /; sed s/a/b/ /etc/passwd; bash -c :; done"]


class Group:
    """A control group."""

    def __init__(self, path):
        self.path = GROUPS / path
        self.path.mkdir(parents=True)

    def start(self, *command, **options):
        def enter():
            (self.path / "cgroup.procs").write_text("0")

        return subprocess.Popen([str(word) for word in command], preexec_fn=enter, stdin=subprocess.DEVNULL,
                                **options)

    def cpu_s(self):
        return int(re.search(r"usage_usec (\d+)", (self.path / "cpu.stat").read_text())[1]) / 1e6

    def mib(self):
        """Proportional set size of all processes: a page that others share counts in part."""
        total = 0
        for pid in (self.path / "cgroup.procs").read_text().split():
            try:
                total += int(re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())[1])
            except (OSError, TypeError):
                pass  # It has ended.
        return total / 1024

    def peak_mib(self):
        return int((self.path / "memory.peak").read_text()) / 2**20


class Server:
    """`stackbeat serve` in a control group of its own."""

    def __init__(self):
        # Without debug information, as packages are: the server samples itself, the module, and libc.
        os.makedirs("/usr/lib/debug", exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/usr/lib/debug")
        program, module = SCRATCH / "stackbeat", SCRATCH / "stackbeat.ko"
        run("strip", "-o", program, shutil.which("stackbeat"))
        built = f"{os.environ['B']}/kmod/{os.uname().release}/stackbeat.ko"
        run("strip", "--strip-debug", "-o", module, built)
        for path in {built, run("modinfo", "-n", "stackbeat").strip()}:
            run("mount", "--bind", module, path)
        load()
        self.group = Group("serve")
        with open(SCRATCH / "serve.err", "wb") as err:
            self.process = self.group.start(program, "serve", "--store", STORE, "--listen",
                                            f"unix:{SCRATCH}/http.sock", stderr=err)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        unload()


class Receiver:
    """Takes what `stackbeat push` sends to Pyroscope: (bytes of the body, of the gzipped profile, unpacked)."""

    def __init__(self):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for series in json.loads(body)["series"]:
                    for sample in series["samples"]:
                        profile = base64.b64decode(sample["rawProfile"])
                        requests.append((len(body), len(profile), len(gzip.decompress(profile))))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"


def start_loop(name, script):
    group = Group(f"system.slice/{name}.service")
    return group.start("/bin/sh", "-c", script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_services(pause):
    return [start_loop(name, f"sleep {pause * index / len(SERVICES)}; while :; do {work}; sleep {pause}; done")
            for index, (name, work) in enumerate(SERVICES.items())]


def windows():
    return sorted(STORE.glob("*-60s.pb.gz"))


def wait_for_window():
    """Waits until the server has written another window, and returns it."""
    known = set(windows())
    wait_until(lambda: time.sleep(1) or set(windows()) - known, "a window")
    return min(set(windows()) - known)


def add_costs(results, case, server, busy_cpus, wait, count):
    """Adds a row for each of `count` waits: CPU time and memory since the last one."""
    # The first window reads all symbols.
    wait_for_window()
    start = last = time.monotonic()
    cpu_s = server.group.cpu_s()
    for _ in range(count):
        wait()
        now, cpu_s_now = time.monotonic(), server.group.cpu_s()
        # A CPU of the guest has only a part of the instructions of a second while others are busy as well.
        results.add(case=case, minutes=(now - start) / 60, mib=server.group.mib(), peak_mib=server.group.peak_mib(),
                    instructions=(cpu_s_now - cpu_s) * 1e9 / busy_cpus / ((now - last) / 60))
        last, cpu_s = now, cpu_s_now
    server.stop()


def measure_fleet(results, minutes):
    """Sizes of windows of a machine with 20 services."""
    server, receiver = Server(), Receiver()
    start_services(2)
    push = subprocess.Popen(["stackbeat", "push", "--quiet", "--spread", "0", "--store", STORE, receiver.url()])
    wait_for_window()
    for _ in range(minutes):
        sent = count = len(receiver.requests)
        new = wait_for_window()
        # Its requests have come when there was none for a while.
        while count == sent or count != len(receiver.requests):
            count = len(receiver.requests)
            time.sleep(20)
        requests = receiver.requests[sent:]
        bodies, packed, unpacked = (sum(column) for column in zip(*requests))
        results.add(case="20 services", window=new.name, file=new.stat().st_size, requests=len(requests),
                    bodies=bodies, packed=packed, unpacked=unpacked, largest=max(row[2] for row in requests))
    push.terminate()
    push.wait()
    server.stop()


def main():
    case = sys.argv[1]
    results = Results(case)
    if not os.path.ismount(GROUPS):
        run("mount", "-t", "cgroup2", "none", GROUPS)
    (GROUPS / "cgroup.subtree_control").write_text("+memory")
    TEXT.write_text(Path("/usr/share/common-licenses/GPL-3").read_text() * 20)
    if case == "serve-idle":
        add_costs(results, "idle", Server(), 1, lambda: time.sleep(3600), 24)
    elif case == "serve-busy":
        server = Server()
        for index, script in enumerate(BUSY):
            start_loop(f"busy{index}", script)
        add_costs(results, "2 CPUs busy", server, 2, wait_for_window, 4)
    else:
        measure_fleet(results, 6)


if __name__ == "__main__":
    main()
