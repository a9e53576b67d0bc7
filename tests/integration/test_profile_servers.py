# SPDX-License-Identifier: GPL-2.0
"""Parca, Pyroscope, promtool and a Collector (tests/interop/servers/build) take what `stackbeat serve` and `push` give."""

import base64
import datetime
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
from collections import Counter

from harness import (WORKLOADS, Skip, check, check_equal, defer, finish, PATIENCE, pprof, run, server_test, start,
                     temporary_directory, wait_until, workload)
from test_serve import PORT, STACKBEAT, TIMEOUT_S, Server

SERVERS = WORKLOADS.parent / "servers"
PARCA_PORT, PYROSCOPE_PORT, COLLECTOR_PORT = 7070, 4040, 4318
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
# What finds out the address of the machine, where there is none but the loopback's.
PYROSCOPE_ADDRESSES = (
    "compactor.ring.instance-addr", "distributor.ring.instance-addr", "ingester.lifecycler.addr",
    "memberlist.advertise-addr", "overrides-exporter.ring.instance-addr", "query-frontend.instance-addr",
    "query-scheduler.ring.instance-addr", "store-gateway.sharding-ring.instance-addr")
# Programs with symbols, and the arguments with which they do not end.
SERVICES = {"shares": [10**12], "frameless": ["plain", 8, 10**9]}


def program(name):
    """The path of a server. Skips the test if it could not be built, with the last line of the compiler."""
    path = SERVERS / name
    if not os.access(path, os.X_OK):
        log = SERVERS / f"{name}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        raise Skip(f"no {name}: {lines[-1] if lines else 'not built'}")
    return path


def ask(port, path, body=None, headers=None):
    """Status and body of the answer; a request with a body is a POST of JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("POST" if body else "GET", path, body, headers or {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answers(port, path):
    try:
        return ask(port, path)[0] == 200
    except OSError:
        return False


def is_listening(port):
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def as_rfc3339(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def await_equal(function, expected, what):
    """Waits until function() returns `expected`: servers need a while to start, and to make what is new visible."""
    until = time.monotonic() + 2000 * PATIENCE
    while (found := function()) != expected and time.monotonic() < until:
        time.sleep(1)
    check_equal(found, expected, what)


class Profiles(Server):
    """`stackbeat serve` with two programs that use the CPUs."""

    def __init__(self, **options):
        for name, arguments in SERVICES.items():
            start(*workload(name, *arguments))
        self.began = time.time()
        super().__init__("-F", 49, **options)

    def services(self):
        return {service["service"] for service in json.loads(self.get("/api/services")[1])}

    def stored(self):
        """The profiles in the store."""
        return [pprof.Profile(path) for path in self.store.glob("*.pb.gz")]


def functions(profiles, service):
    """CPU time of a program by function."""
    times = Counter()
    for profile in profiles:
        for sample in profile.samples:
            if sample.labels.get("comm", service) == service:
                times[sample.frames[0].function] += sample.values["cpu"]
    return times


class Parca:
    url = f"http://127.0.0.1:{PARCA_PORT}"

    def __init__(self, **scrape):
        self.directory = temporary_directory()
        run("ip", "link", "set", "lo", "up")
        (self.directory / "config.yaml").write_text(json.dumps({
            "object_storage": {"bucket": {"type": "FILESYSTEM", "config": {"directory": str(self.directory)}}},
            **scrape}))
        start(program("parca"), "--config-path", self.directory / "config.yaml", "--http-address",
              f"127.0.0.1:{PARCA_PORT}", stdout=(self.directory / "log").open("w"), stderr=subprocess.STDOUT)
        await_equal(lambda: answers(PARCA_PORT, "/api/profiles/types"), True, "whether Parca is ready")

    def functions(self, service, began):
        """CPU time of a service by function, as Parca has it."""
        query = urllib.parse.urlencode({
            "mode": "MODE_MERGE", "merge.query": f'{TYPE}:delta{{service_name="{service}"}}',
            "merge.start": as_rfc3339(began - 60), "merge.end": as_rfc3339(time.time() + 60),
            "report_type": "REPORT_TYPE_PPROF"})
        status, body = ask(PARCA_PORT, f"/api/profiles/query?{query}")
        if status == 404:
            return Counter()
        check_equal(status, 200, f"status of Parca: {body[:300]}")
        path = self.directory / "answer.pb.gz"
        path.write_bytes(base64.b64decode(json.loads(body)["pprof"]))
        return functions([pprof.Profile(path)], service)


class Pyroscope:
    url = f"http://127.0.0.1:{PYROSCOPE_PORT}"

    def __init__(self):
        self.directory = temporary_directory()
        run("ip", "link", "set", "lo", "up")
        start(program("pyroscope"), f"-server.http-listen-port={PYROSCOPE_PORT}", "-usage-stats.enabled=false",
              "-self-profiling.disable-push=true", f"-pyroscopedb.data-path={self.directory}",
              *(f"-{name}=127.0.0.1" for name in PYROSCOPE_ADDRESSES), stdout=(self.directory / "log").open("w"),
              stderr=subprocess.STDOUT, cwd=self.directory)
        await_equal(lambda: answers(PYROSCOPE_PORT, "/ready"), True, "whether Pyroscope is ready")

    def functions(self, service, began):
        """CPU time of a service by function, as Pyroscope has it."""
        status, body = ask(PYROSCOPE_PORT, "/querier.v1.QuerierService/SelectMergeProfile", json.dumps({
            "profileTypeID": TYPE, "labelSelector": f'{{service_name="{service}"}}',
            "start": int(began - 60) * 1000, "end": int(time.time() + 60) * 1000}))
        check_equal(status, 200, f"status of Pyroscope: {body[:300]}")
        profile = json.loads(body)
        names = {function["id"]: profile["stringTable"][int(function["name"])]
                 for function in profile.get("function", [])}
        leaves = {location["id"]: names[location["line"][-1]["functionId"]] for location in profile.get("location", [])}
        times = Counter()
        for sample in profile.get("sample", []):
            times[leaves[sample["locationId"][0]]] += int(sample["value"][0])
        return times


class Collector:
    """The Collector of OpenTelemetry writes what it receives to a file: a line with a document of JSON for a request."""

    url = f"http://127.0.0.1:{COLLECTOR_PORT}"

    def __init__(self):
        self.directory = temporary_directory()
        self.file = self.directory / "received.json"
        run("ip", "link", "set", "lo", "up")
        (self.directory / "config.yaml").write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{COLLECTOR_PORT}"}}}},
            "exporters": {"file": {"path": str(self.file)}},
            "service": {"telemetry": {"metrics": {"level": "none"}},
                        "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["file"]}}}}))
        start(program("collector"), "--config", self.directory / "config.yaml",
              "--feature-gates=service.profilesSupport", stdout=(self.directory / "log").open("w"),
              stderr=subprocess.STDOUT)
        await_equal(lambda: is_listening(COLLECTOR_PORT), True, "whether the Collector is ready")

    def functions(self, service, _):
        """CPU time of a service by function, as the Collector has it."""
        times = Counter()
        # The last line may be incomplete.
        for line in self.file.read_text().splitlines(keepends=True) if self.file.exists() else []:
            if line.endswith("\n"):
                times += self.functions_of(json.loads(line), service)
        return times

    @staticmethod
    def functions_of(document, service):
        tables = document["dictionary"]
        strings = tables["stringTable"]

        def text(message, name):
            """A string may be in the message or in the dictionary."""
            return message.get(name, strings[message.get(f"{name}Strindex", 0)])

        def leaf(sample):
            location = tables["locationTable"][tables["stackTable"][sample["stackIndex"]]["locationIndices"][0]]
            lines = location.get("lines")
            return strings[tables["functionTable"][lines[-1]["functionIndex"]]["nameStrindex"]] if lines else ""

        times = Counter()
        for resource in document["resourceProfiles"]:
            attributes = {text(pair, "key"): text(pair["value"], "stringValue")
                          for pair in resource["resource"]["attributes"]}
            if attributes["service.name"] != service:
                continue
            scope, = resource["scopeProfiles"]
            for profile in scope["profiles"]:
                if strings[profile["sampleType"]["typeStrindex"]] == "cpu":
                    for sample in profile["samples"]:
                        times[leaf(sample)] += sum(map(int, sample["values"]))
        return times


class Proxy:
    """Passes the requests of a server that scrapes on, and keeps `wanted` profiles of each service: then it refuses."""

    def __init__(self, wanted):
        self.profiles = {service: [] for service in SERVICES}
        self.directory = temporary_directory()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                url = urllib.parse.urlsplit(self.path)
                service = dict(urllib.parse.parse_qsl(url.query)).get("service")
                if service and len(outer.profiles[service]) >= wanted:
                    return self.send_error(503)
                status, body = ask(PORT, self.path, headers=dict(self.headers))
                if service and status == 200:
                    path = outer.directory / f"{len(outer.profiles[service])}-{service}.pb.gz"
                    path.write_bytes(body)
                    outer.profiles[service].append(pprof.Profile(path))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        defer(self.server.server_close)
        defer(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_port}"


@server_test
def parca_scrapes_each_service():
    server, proxy = Profiles(token="0123456789abcdef"), Proxy(wanted=2)
    # A service is a target once a window is stored.
    wait_until(lambda: SERVICES.keys() <= server.services(), "the services")
    disabled = {name: {"enabled": False} for name in ("memory", "block", "goroutine", "mutex")}
    parca = Parca(scrape_configs=[{
        "job_name": "stackbeat", "scrape_interval": "5s", "scrape_timeout": f"{TIMEOUT_S}s",
        "authorization": {"credentials": server.token},
        "http_sd_configs": [{"url": f"http://{proxy.address}/api/targets", "refresh_interval": "5s",
                             "authorization": {"credentials": server.token}}],
        "relabel_configs": [{"source_labels": ["service_name"], "regex": "|".join(SERVICES), "action": "keep"}],
        "profiling_config": {"pprof_config": disabled}}])
    wait_until(lambda: all(len(profiles) == 2 for profiles in proxy.profiles.values()), "profiles of each service")
    for service, profiles in proxy.profiles.items():
        expected = functions(profiles, service)
        check(sum(expected.values()) > 10**9, f"CPU time of {service}: {expected}")
        await_equal(lambda: parca.functions(service, server.began), expected, f"CPU time of {service} in Parca")
    server.stop()


def is_pushed(form, receiver):
    server = Profiles()
    # From the first window on, which may have begun before. The owner of the store, as whom push runs, replaces it.
    state = temporary_directory() / "state"
    state.write_text("next: 0 0\n")
    for path in (state.parent, state):
        os.chown(path, server.store.stat().st_uid, server.store.stat().st_gid)
    messages = server.directory / "messages"
    push = start(STACKBEAT, "push", "-q", "--to", form, "--store", server.store, "--state", state, receiver.url,
                 stderr=messages.open("w"))
    wait_until(lambda: len(server.stored()) >= 3, "three windows")
    server.stop()
    windows = server.stored()
    for service in SERVICES:
        expected = functions(windows, service)
        check(sum(expected.values()) > 3 * 10**9, f"CPU time of {service}: {expected}")
        await_equal(lambda: receiver.functions(service, server.began), expected, f"CPU time of {service} in {form}")
        check_equal(messages.read_text(), "", "messages of push")
    push.send_signal(signal.SIGTERM)
    finish(push)


@server_test
def parca_receives():
    is_pushed("parca", Parca())


@server_test
def pyroscope_receives():
    is_pushed("pyroscope", Pyroscope())


@server_test
def collector_receives():
    is_pushed("otlp-experimental", Collector())


@server_test
def promtool_accepts_metrics():
    server = Profiles()
    server.profile("seconds=1")
    metrics = server.get("/metrics")[1].decode()
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=metrics, capture_output=True, text=True,
                             check=False)
    check_equal((checked.returncode, checked.stdout + checked.stderr), (0, ""), "status and messages of promtool")
    server.stop()
