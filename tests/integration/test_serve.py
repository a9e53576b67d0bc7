# SPDX-License-Identifier: GPL-2.0
"""`stackbeat serve`: profiles over HTTP, and the rights of its processes."""

import contextlib
import errno
import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import ssl
import subprocess
import time

from harness import (check, check_equal, check_within, defer, long_test, PATIENCE, pprof, run, start, temporary_directory,
                     test, use, wait_until, workload)

STACKBEAT = "stackbeat"
PORT = 7079
BUSY = "while :; do :; done"
TIMEOUT_S = 1200 * PATIENCE  # symbolizing takes minutes on a busy machine


class Server:
    """A server that is started and ready; it listens at a Unix socket and at the loopback."""

    def __init__(self, *arguments, token=None, **options):
        self.token = token
        run("ip", "link", "set", "lo", "up")
        self.directory = temporary_directory()
        self.directory.chmod(0o755)
        self.socket = self.directory / "http.sock"
        self.store = self.directory / "store"
        self.process = start(STACKBEAT, "serve", "--listen", f"unix:{self.socket}", "--listen",
                             f"127.0.0.1:{PORT}", "--store", self.store, "--window", 10, *arguments,
                             stderr=subprocess.PIPE, text=True, **options)
        # The source, the addresses and, at last, the store.
        for line in self.process.stderr:
            if line.startswith("stackbeat: storing in "):
                break
        wait_until(lambda: self.answers("/healthz"), "an answer")

    def get(self, path, method="GET", body=None, headers=None, connect_s=TIMEOUT_S):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=connect_s)
        try:
            connection.connect()
            connection.sock.settimeout(TIMEOUT_S)
            token = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(method, path, body, {**token, **(headers or {})})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def answers(self, path, **options):
        try:
            return self.get(path, **options)[0].status == 200
        except OSError:
            return False

    def profile(self, query):
        response, body = self.get(f"/debug/pprof/profile?{query}")
        check_equal(response.status, 200, f"status of {query}: {body[:200]}")
        path = self.directory / "answer.pb.gz"
        path.write_bytes(body)
        return pprof.Profile(path)

    def profile_with_samples(self, query, least=1):
        """Asks again while there are fewer samples: the host may not run a CPU of the guest for seconds."""
        def ask():
            profile = self.profile(query)
            return profile if profile.total("samples") >= least else None
        return wait_until(ask, f"{least} samples of {query}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        err = self.process.communicate()[1]
        check_equal(self.process.returncode, 0, f"exit status, with {err!r}")
        return err


def children(pid):
    """Children of a process; none if it has ended."""
    try:
        return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    except OSError:
        return []


def status_of(pid):
    return dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)


def open_files(pid):
    return [os.readlink(file.path) for file in os.scandir(f"/proc/{pid}/fd")]


def has_in_memory(pid, text):
    with contextlib.ExitStack() as stack:
        try:
            maps = stack.enter_context(open(f"/proc/{pid}/maps"))
            memory = stack.enter_context(open(f"/proc/{pid}/mem", "rb", 0))
            lines = maps.readlines()
        except OSError:
            return False  # a process that has ended
        for line in lines:
            start_end, rights = line.split()[:2]
            first, end = (int(number, 16) for number in start_end.split("-"))
            # The pages of the module can't be read by other processes.
            if rights.startswith("rw") and "/dev/stackbeat" not in line:
                with contextlib.suppress(OSError):  # memory that was unmapped meanwhile
                    memory.seek(first)
                    if text in memory.read(end - first):
                        return True
    return False


def find_http_process(server):
    for parent in children(server.process.pid):
        for pid in children(parent):
            with contextlib.suppress(OSError):  # a process that has ended
                if f"/proc/{pid}/statm" in open_files(pid):
                    return pid
    return None


def http_process(server):
    """Returns the ID of the process that serves HTTP: it alone has its own size open. A list of children may lack some when others
    end meanwhile."""
    return wait_until(lambda: find_http_process(server), "a process that serves HTTP")


@test
def profiles_are_deltas_of_the_session():
    start("sh", "-c", BUSY)
    server = Server("-F", 49, "--window", 2)
    before = time.time()
    profile = server.profile("seconds=1")
    after = time.time()
    check_within(profile.duration_nanos, (1e9, (after - before) * 1e9), "duration")
    check_within(profile.time_nanos, ((before - 1) * 1e9, after * 1e9 - profile.duration_nanos), "start")
    profile = server.profile_with_samples("seconds=1", 7)
    labels = {key for sample in profile.samples for key in sample.labels}
    check(not labels & {"comm", "thread"}, f"labels {labels}")
    profile = server.profile_with_samples("seconds=1&labels=comm,pid&service=sh")
    check_equal({sample.labels["comm"] for sample in profile.samples}, {"sh"}, "programs of the service")
    # The store ends a slice meanwhile.
    profile = server.profile_with_samples("seconds=3&labels=pid")
    check(all("pid" in sample.labels for sample in profile.samples),
          f"samples without a process: {[sample.labels for sample in profile.samples][:9]}")
    check_equal(server.profile("seconds=1&pid=1999999").total("samples"), 0, "samples of no process")
    profile = server.profile_with_samples("seconds=1&hz=499&service=sh")
    check_equal(profile.period, 1000000000 // 499, "period of a session of its own")

    def get_with_samples(query, has_samples):
        def ask():
            response, body = server.get(f"/debug/pprof/profile?{query}")
            return (response, body) if has_samples(body) else None
        return wait_until(ask, f"samples of {query}")

    response, body = get_with_samples("seconds=1&format=folded&service=sh", len)
    check_equal(response.getheader("Content-Type"), "text/plain; charset=utf-8", "type of folded stacks")
    check(re.fullmatch(rb"([^;\n]+(;[^;\n]+)* \d+\n)+", body), f"folded stacks: {body[:200]}")
    response, body = get_with_samples("seconds=1&format=speedscope&service=sh",
                                      lambda body: json.loads(body)["shared"]["frames"])
    check_equal(response.getheader("Content-Type"), "application/json", "type of a document for speedscope")
    document = json.loads(body)
    check(document["shared"]["frames"] and document["profiles"][0]["endValue"] > 0, f"document {body[:200]}")
    server.stop()


@test
def http_has_no_rights():
    server = Server("--window", 600)  # no process symbolizes
    # A list of children may lack some when others end meanwhile.
    processes = wait_until(lambda: len(found := children(server.process.pid)) >= 2 and found, "children")
    for pid in [*processes, http_process(server)]:
        status = status_of(pid)
        check(status["Uid"].split()[0] != "0", "a child is root")
        check_equal(status["CapEff"].strip("0") + status["CapPrm"].strip("0"), "", "capabilities")
        check_equal(status["NoNewPrivs"], "1", "no_new_privs")
        check_equal(status["Seccomp"], "2", "seccomp")
    check_equal(server.socket.stat().st_mode & 0o777, 0o660, "mode of the socket")
    check_equal(server.store.stat().st_mode & 0o777, 0o750, "mode of the store")
    server.stop()


@test
def a_crash_of_the_http_process_loses_no_samples():
    start("sh", "-c", BUSY)
    server = Server("-F", 49)
    # Before the next profile begins, there are samples: no window is stored of a time without any.
    server.profile_with_samples("seconds=1")
    profile = server.profile_with_samples("seconds=1")
    crashed = http_process(server)
    os.kill(crashed, signal.SIGKILL)
    wait_until(lambda: http_process(server) != crashed, "another process")
    wait_until(lambda: server.answers("/healthz"), "an answer")
    err = server.stop()
    check_equal(err, "stackbeat: the HTTP server was killed by signal 9; it is started again\n", "messages")
    windows = sorted((pprof.Profile(path) for path in server.store.glob("*.pb.gz")),
                     key=lambda window: window.time_nanos)
    check(windows[0].time_nanos <= profile.time_nanos,
          f"the first window begins at {windows[0].time_nanos}, a profile before the crash at {profile.time_nanos}")
    # A slice that is lost, or stored twice, would be a gap or an overlap.
    for window, following in zip(windows, windows[1:]):
        check_equal(window.time_nanos + window.duration_nanos, following.time_nanos, "end of a window")
    samples = sum(window.total("samples") for window in windows)
    check(samples >= profile.total("samples") > 0, f"{samples} samples of {profile.total('samples')}")


@contextlib.contextmanager
def restored_clock():
    ahead = time.time() - time.monotonic()
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, time.monotonic() + ahead)


@long_test
def windows_follow_the_clock():
    """In both directions; a clock that is ahead does not empty the store."""
    use(restored_clock())
    start("sh", "-c", BUSY)
    server = Server("-F", 49, "--window", 5, "--store-days", 1)

    def windows(since, until=None):
        """The windows of the time until now, and no later window."""
        return json.loads(server.get(f"/api/windows?from={since - 10:.6f}&until={until or time.time():.6f}")[1])

    def samples():
        path = server.directory / "all.pb.gz"
        path.write_bytes(server.get(f"/api/profile?from=1&until={int(time.time()) + 10**8}")[1])
        return pprof.Profile(path).total("samples")

    since = time.time()
    wait_until(lambda: windows(since), "a window")
    for hours in (20 * 24, -20 * 24 - 2):
        before = samples()
        since = time.time() + 3600 * hours
        check_equal(windows(since, since + 3600), [], "windows of a time that was not yet")
        time.clock_settime(time.CLOCK_REALTIME, since)
        wait_until(lambda: windows(since), "a window of the time that the clock has now")
        after = samples()
        check(after >= before > 0, f"{after} samples, {before} before the step")
    check(b"\nstackbeat_clock_steps_total 2\n" in server.get("/metrics")[1], "steps are not counted")
    messages = server.stop()
    steps = re.findall(r"^stackbeat: the clock was set (ahead|back) by (\d+)\.\d s: ", messages, re.M)
    check_equal([(way, round(int(seconds) / 3600)) for way, seconds in steps], [("ahead", 480), ("back", 482)],
                f"hours of the steps in {messages!r}")


class HalfOpen:
    """Clients that connect and send the beginning of a request. Those beyond the backlog wait for an answer to SYN."""

    def __init__(self, count):
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 1000, count + 1000))
        self.poll = select.epoll()
        defer(self.poll.close)
        self.established, self.clients = 0, {}
        for _ in range(count):
            client = socket.socket()
            client.setblocking(False)
            check_equal(client.connect_ex(("127.0.0.1", PORT)), errno.EINPROGRESS, "error of a client")
            self.clients[client.fileno()] = client
            self.poll.register(client, select.EPOLLOUT | select.EPOLLONESHOT)

    def send(self):
        for number, event in self.poll.poll(0):
            if event == select.EPOLLOUT:
                self.clients[number].send(b"GET /healthz HTTP/1.1\r\nHost: ")
                self.established += 1

    def close(self):
        for client in self.clients.values():
            client.close()


def check_half_open(count, established):
    """`count` clients begin a request, and all of them are connected at the same time."""
    start("sh", "-c", BUSY)
    server = Server("-F", 49, "--window", 2)
    clients = HalfOpen(count)

    def windows_of_store():
        clients.send()
        return len(list(server.store.glob("*.pb.gz")))

    wait_until(lambda: windows_of_store() and clients.established >= established, "connections")
    count = windows_of_store()
    wait_until(lambda: windows_of_store() >= count + 2, "windows")
    # Each address has its own limit of connections.
    local = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    local.sock = socket.socket(socket.AF_UNIX)
    local.sock.connect(str(server.socket))
    local.request("GET", "/healthz")
    check_equal(local.getresponse().status, 200, "status at the other address")
    clients.close()
    # Each SYN that the kernel drops for lack of room doubles the time to the next one: up to a minute.
    wait_until(lambda: server.answers("/healthz", connect_s=1), "an answer at the address of the clients")
    check_equal(server.stop(), "", "messages")
    windows = sorted((pprof.Profile(path) for path in server.store.glob("*.pb.gz")),
                     key=lambda window: window.time_nanos)
    for window, following in zip(windows, windows[1:]):
        check_equal(window.time_nanos + window.duration_nanos, following.time_nanos, "end of a window")
    for window in windows:
        check(window.total("samples") and "lost: 0" in window.comments, f"a window: {window.comments}")


@long_test
def half_open_connections_lose_no_samples():
    check_half_open(300, 300)


@long_test
def ten_thousand_half_open_connections_lose_no_samples():
    """The kernel has a place for 4,096 that are not accepted yet."""
    check_half_open(10_000, 4_000)


@long_test
def kept_symbols_are_those_of_the_first_profile():
    start(*workload("shares", 10**12))
    server = Server("-F", 199)
    first, names, again = {}, set(), set()

    def look():
        profile = server.profile("seconds=1&service=shares")
        later = {(frame.file, frame.address): (frame.inlined, frame.source, frame.line)
                 for sample in profile.samples for frame in sample.frames}
        names.update(frame.function for sample in profile.samples for frame in sample.frames
                     if os.path.basename(frame.file) == "shares")
        common = first.keys() & later.keys()
        check_equal({key: later[key] for key in common}, {key: first[key] for key in common}, "symbols again")
        again.update(common)
        first.update(later)

    for _ in range(3):
        look()
    wait_until(lambda: len(again) > 20 and {"leaf_a", "leaf_b", "leaf_c", "main"} <= names or look(),
               "addresses and functions again")
    check("" not in names, "an address without a function")
    server.stop()


@test
def page_has_its_data():
    start("sh", "-c", BUSY)
    start("python3", "-c", "while True: pass")
    server = Server("-F", 49, "--window", 2)
    before = time.time()
    server.profile("seconds=2")
    response, body = server.get("/")
    check_equal(response.getheader("Content-Type"), "text/html; charset=utf-8", "type of the page")
    for path in re.findall(rb'(?:src|href)="(/page[^"]*)"', body):
        check_equal(server.get(path.decode())[0].status, 200, f"status of {path}")

    def timeline():
        response, body = server.get(f"/api/timeline?from={int(before) - 20}&until={int(before) + 1000}&steps=51")
        check_equal(response.status, 200, f"status of the timeline: {body[:200]}")
        return {entry.get("service"): entry for entry in json.loads(body)["services"]}

    wait_until(lambda: {"sh", "python3"} <= timeline().keys(), "a window in the store")
    entry = timeline()["sh"]
    check_equal(sum(entry["steps"]), entry["cpu_ns"], "sum of the steps")
    response, body = server.get(f"/api/profile?from={int(before) - 20}&until={int(before) + 1000}&service=sh&format=flamegraph"
                                f"&group=comm&base_service=python3")
    check_equal(response.status, 200, f"status of the flame graph: {body[:200]}")
    check(b"<title>sh, compared with python3</title>" in body, f"flame graph {body[:200]}")
    response, body = server.get(f"/api/profile?until={int(before) - 86400}&from=1&format=flamegraph")
    check_equal((response.status, body.count(b"\n")), (404, 1), f"no flame graph: {body[:200]}")
    server.stop()


@long_test
def other_machines_need_tls_and_a_token():
    directory = temporary_directory()
    certificate, key, token = (directory / name for name in ("cert.pem", "key.pem", "token"))
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2,
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:192.0.2.1", "-keyout", key, "-out", certificate)
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    tls = ("--listen", "192.0.2.1:7443", "--tls-cert", certificate, "--tls-key", key)
    process = start(STACKBEAT, "serve", "--store", directory, *tls, stderr=subprocess.PIPE, text=True)
    err = process.communicate()[1]
    check_equal((process.returncode, err.count("\n")), (1, 1), f"status without a token: {err}")
    check("--tls-cert, and --token-file or --tls-client-ca" in err, err)
    process = start(STACKBEAT, "serve", "--store", directory, *tls[:-1], token, "--token-file", token,
                    stderr=subprocess.PIPE, text=True)
    err = process.communicate()[1]
    check_equal((process.returncode, err.count("\n")), (1, 1), f"status with a wrong key: {err}")
    check("--tls-key is not its key" in err, err)
    server = Server(*tls, "--token-file", token, token="0123456789abcdef", env={**os.environ, "DEBUGINFOD_URLS": "http://192.0.2.9"})
    # An exporter has a copy of the sampling process, and a job has a copy of the HTTP process.
    http_pid = http_process(server)
    keeper = int(status_of(http_pid)["PPid"])
    def all_processes():
        pids = {server.process.pid, *children(server.process.pid), http_pid}
        return pids if len(pids) >= 6 else None
    processes = wait_until(all_processes, "all processes")
    for secret in (b"0123456789abcdef", key.read_bytes().splitlines()[1]):
        check_equal({pid for pid in processes if has_in_memory(pid, secret)}, {keeper, http_pid},
                    "processes with a secret in memory")

    def status(headers):
        connection = http.client.HTTPSConnection("192.0.2.1", 7443, timeout=TIMEOUT_S,
                                                 context=ssl.create_default_context(cafile=certificate))
        connection.request("GET", "/debug/pprof/profile?seconds=1", headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body[:2]

    check_equal(status({})[0], 401, "status without the token")
    check_equal(status({"Authorization": "Bearer 0123456789abcdeg"})[0], 401, "status with another token")
    check_equal(status({"Authorization": "Bearer 0123456789abcdef"}), (200, b"\x1f\x8b"), "profile with the token")
    # A local user needs the token, too, but no TLS.
    check_equal(server.get("/healthz", headers={"X": "y"})[0].status, 200, "status at the loopback")
    server.token = None
    check_equal(server.get("/healthz")[0].status, 401, "status at the loopback without the token")
    server.stop()


@test
def certificates_of_clients_replace_the_token():
    directory = temporary_directory()

    def openssl(command):
        run("openssl", *command.split(), cwd=directory)

    for name in ("server", "ca"):
        openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
                f"-addext subjectAltName=IP:192.0.2.2 -keyout {name}.key -out {name}.pem")
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=client -keyout client.key "
            "-out client.csr")
    openssl("x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out client.pem")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "192.0.2.2/32", "dev", "lo")
    server = Server("--listen", "192.0.2.2:7444", "--tls-cert", directory / "server.pem", "--tls-key",
                    directory / "server.key", "--tls-client-ca", directory / "ca.pem")

    def get(name):
        context = ssl.create_default_context(cafile=directory / "server.pem")
        if name:
            context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
        connection = http.client.HTTPSConnection("192.0.2.2", 7444, timeout=TIMEOUT_S, context=context)
        try:
            connection.request("GET", "/debug/pprof/profile?seconds=1")
            return connection.getresponse().read()[:2]
        except OSError:
            return b""
        finally:
            connection.close()

    check_equal(get("client"), b"\x1f\x8b", "profile with a certificate of the authority")
    check_equal(get(None), b"", "profile without a certificate")
    check_equal(get("server"), b"", "profile with another certificate")
    server.stop()


@test
def other_addresses_are_refused():
    run("ip", "link", "set", "lo", "up")
    directory = temporary_directory()
    process = start(STACKBEAT, "serve", "--listen", "0.0.0.0:7079", "--store", directory, stderr=subprocess.PIPE,
                    text=True)
    err = process.communicate()[1]
    check_equal(process.returncode, 1, "exit status")
    check("--insecure 0.0.0.0:7079" in err and err.count("\n") == 1, err)
