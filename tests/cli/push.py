# SPDX-License-Identifier: GPL-2.0
"""push.py STACKBEAT: pushes profiles to a stub server, and looks at what arrives.

Prints lines like a test. The stub keeps each request, and answers with the statuses of a list.
"""

import base64
import gzip
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

# pylint: disable=wrong-import-position
import otlp
from pprof import Profile
from profiles import START, field, make_profile

STACKBEAT = sys.argv[1]
PYROSCOPE, PARCA = "/push.v1.PusherService/Push", "/api/profiles/writeraw"
HANG = 300 * int(os.environ.get("STACKBEAT_PATIENCE", "1"))  # seconds


class Server:
    """
    Requests are (path, headers, body). All further requests get the last status. `answer` is the body of the
    answers, a message of protobuf.
    """

    def __init__(self, *statuses, tls=None, answer=None, retry_after=None):
        self.requests, self.statuses, self.answer = [], list(statuses) or [200], answer
        self.times = []  # of the requests
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.times.append(time.monotonic())
                outer.requests.append((self.path, dict(self.headers), body))
                status = outer.statuses[0] if len(outer.statuses) == 1 else outer.statuses.pop(0)
                answer = b"the reason\nand more" if status >= 300 else b"" if status == 204 else b"{}"
                self.send_response(status)
                if outer.answer is not None:
                    self.send_header("Content-Type", "application/x-protobuf")
                    answer = outer.answer
                if status != 204:
                    self.send_header("Content-Length", str(len(answer)))
                if status == 429 and retry_after is not None:
                    self.send_header("Retry-After", str(retry_after))
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


SAMPLES = [("web", ["read", "main"], 5), ("web", ["write", "main"], 2), ("db", ["read", "main"], 3)]
TOTALS = {"web": 7, "db": 3}


def check(condition, why):
    if not condition:
        raise AssertionError(why)


def check_equal(found, expected, what):
    check(found == expected, f"{what}: {found}, expected {expected}")


def push(*arguments, status=0):
    done = subprocess.run([STACKBEAT, "push", *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=HANG)
    check_equal(done.returncode, status, f"exit status with '{done.stderr}'")
    return done.stderr


def decode(packed, scratch):
    path = scratch / "received.pb.gz"
    path.write_bytes(packed)
    return Profile(path)


def of_request(request, scratch):
    """The labels and the profile of a request of Pyroscope or Parca."""
    path, headers, body = request
    check(headers["Content-Type"] == "application/json", headers)
    series, = json.loads(body)["series"]
    labels = series["labels"]["labels"] if path == PARCA else series["labels"]
    sample, = series["samples"]
    packed = base64.b64decode(sample["rawProfile"], validate=True)
    return {label["name"]: label["value"] for label in labels}, decode(packed, scratch)


def totals(requests, scratch):
    found = Counter()
    for request in requests:
        labels, profile = of_request(request, scratch)
        found[labels["service_name"]] += profile.total("samples")
    return dict(found)


def write(scratch, samples, name="profile.pb.gz"):
    path = scratch / name
    path.write_bytes(make_profile(samples))
    return path


def services_become_series(scratch):
    for form, path in (("pyroscope", PYROSCOPE), ("parca", PARCA)):
        with Server() as server:
            push("--to", form, server.url, write(scratch, SAMPLES))
            check_equal({request[0] for request in server.requests}, {path}, "paths")
            check_equal(totals(server.requests, scratch), TOTALS, "samples")
            for request in server.requests:
                labels, profile = of_request(request, scratch)
                check_equal((labels["__name__"], labels["instance"]), ("process_cpu", socket.gethostname()), "labels")
                check_equal(profile.total("cpu"), TOTALS[labels["service_name"]] * 10**7, "CPU time")
                # Servers make a series of each set of labels.
                check(not any(sample.labels for sample in profile.samples), "a sample has labels")
                check_equal((profile.time_nanos, profile.duration_nanos), (START * 10**9, 60 * 10**9), "time")


def profiles_are_sent_as_they_are(scratch):
    with Server(204) as server:
        push("--to", "pprof", f"{server.url}/v1/pprof", write(scratch, SAMPLES))
        check_equal([request[0] for request in server.requests], ["/v1/pprof"] * 2, "paths")
        check_equal({request[1]["Content-Type"] for request in server.requests}, {"application/octet-stream"}, "types")
        check_equal(sorted(decode(request[2], scratch).total("samples") for request in server.requests), [3, 7],
                    "samples")


def services_become_resources(scratch):
    with Server(answer=b"") as server:
        push("-q", "--to", "otlp-experimental", "--label", "zone.name=x", "--labels", "comm,pid", server.url,
             write(scratch, SAMPLES))
    requests = {}
    for path, headers, body in server.requests:
        check_equal((path, headers["Content-Type"], headers["Content-Encoding"]),
                    ("/v1development/profiles", "application/x-protobuf", "gzip"), "path and headers")
        request = otlp.Request(body)
        requests[request.resource["service.name"]] = request
    check_equal(requests.keys(), TOTALS.keys(), "services")
    for service, request in requests.items():
        check_equal(request.resource, {"service.name": service, "host.name": socket.gethostname(), "zone.name": "x"},
                    "attributes of the resource")
        check_equal(request.scope[0], "stackbeat", "scope")
        check_equal(request.types, [("cpu", "nanoseconds"), ("samples", "count")], "types, the default one first")
        check_equal(request.windows, {(START * 10**9, 60 * 10**9)}, "windows")
        check_equal(request.periods, {(("cpu", "nanoseconds"), 10_000_000)}, "periods")
        found = sorted((sample.attributes["comm"], sample.functions, sample.values["samples"])
                       for sample in request.samples)
        check_equal(found, sorted((comm, stack, count) for comm, stack, count in SAMPLES if comm == service),
                    f"samples of {service}")
        for sample in request.samples:
            check_equal(sample.values["cpu"], sample.values["samples"] * 10_000_000, "CPU time")
            check_equal(sample.attributes["pid"], 4711, "attribute pid")


def answers_of_otlp_are_read(scratch):
    file = write(scratch, SAMPLES)
    rejection = field(1, field(1, 1) + field(2, b"no \x1b[31m room"))
    for status, answer, messages in ((200, b"", None), (200, field(1, field(2, b"a warning")), None),
                                     (200, rejection, "the server has rejected profiles (1): no "),
                                     (200, b"\xff", "no message of OTLP"),
                                     (400, field(1, 3) + field(2, b"too old"), "status 400: too old"),
                                     (400, b"\xff", "status 400\n")):
        with Server(status, answer=answer) as server:
            text = push("--to", "otlp-experimental", server.url, file, status=1 if messages else 0)
        check((messages or "") in text, f"message for {status} {answer}: {text}")
        check("\x1b" not in text, text)
        check_equal(len(server.requests), 2, "requests")
    # An error that is not said to pass is of this request, and an answer of another protocol is no answer.
    for status, answer, requests, messages in ((500, b"", 2, "status 500"), (503, b"", 1, "status 503"),
                                               (200, None, 2, "the answer is no message of OTLP")):
        with Server(status, answer=answer) as server:
            text = push("--to", "otlp-experimental", server.url, file, status=1)
        check(messages in text, f"message for {status}: {text}")
        check_equal(len(server.requests), requests, f"requests with status {status}")


def chosen_labels_are_sent(scratch):
    with Server() as server:
        push("--label", "region=north", "--label", "tier=a b", "--labels", "comm", f"{server.url}/",
             write(scratch, SAMPLES[:1]))
        labels, profile = of_request(server.requests[0], scratch)
        check_equal(labels, {"__name__": "process_cpu", "service_name": "web", "region": "north", "tier": "a b",
                             "instance": socket.gethostname()},
                    "labels")
        check_equal([sample.labels for sample in profile.samples], [{"comm": "web"}], "labels of samples")


def headers_come_from_a_file(scratch):
    secret = scratch / "headers"
    secret.write_text("Authorization: Bearer abc\r\n\nX-Scope-OrgID: 7\n")
    with Server() as server:
        push("--header-file", secret, server.url, write(scratch, SAMPLES[:1]))
        headers = server.requests[0][1]
        check_equal((headers["Authorization"], headers["X-Scope-OrgID"]), ("Bearer abc", "7"), "headers")
        secret.write_text("Authorization: Bearer abc\nsecret\n")
        message = push("--header-file", secret, server.url, write(scratch, SAMPLES), status=1)
        check("line 2 is not NAME: VALUE" in message and "abc" not in message and "\n" not in message[:-1], message)
        check_equal(len(server.requests), 1, "requests")
    message = push("--header-file", secret, "http://192.0.2.1/", write(scratch, SAMPLES), status=1)
    check("without TLS" in message, message)
    message = push("http://me:secret@127.0.0.1/", write(scratch, SAMPLES), status=1)
    check("--header-file" in message and "secret" not in message, message)


def openssl(scratch, command):
    subprocess.run(["openssl", *command.split()], cwd=scratch, check=True, capture_output=True, timeout=HANG)


def server_that_needs_certificates(scratch):
    """Returns the context of a server that accepts the certificates of client.pem."""
    for name in ("server", "client", "other"):
        openssl(scratch, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
                         f"-addext subjectAltName=IP:127.0.0.1 -keyout {name}.key -out {name}.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch / "server.pem", scratch / "server.key")
    context.load_verify_locations(scratch / "client.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def certificates_of_clients_are_sent(scratch):
    ca = ("--cacert", scratch / "server.pem")
    path = write(scratch, SAMPLES)
    with Server(tls=server_that_needs_certificates(scratch)) as server:
        push(*ca, "--cert", scratch / "client.pem", "--key", scratch / "client.key", server.url, path)
        check_equal(totals(server.requests, scratch), TOTALS, "samples")
        both = scratch / "both.pem"
        both.write_bytes((scratch / "client.key").read_bytes() + (scratch / "client.pem").read_bytes())
        push(*ca, "--cert", both, server.url, path)
        check_equal(len(server.requests), 4, "requests")
        push(*ca, server.url, path, status=1)
        push(*ca, "--cert", scratch / "other.pem", "--key", scratch / "other.key", server.url, path, status=1)
        openssl(scratch, "ec -in client.key -out locked.key -aes128 -passout pass:secret")
        push(*ca, "--cert", scratch / "client.pem", "--key", scratch / "locked.key", server.url, path, status=1)
        check_equal(len(server.requests), 4, "requests")


def certificates_outlive_the_rights(scratch):
    """The rights of root, for the store of another user."""
    context = server_that_needs_certificates(scratch)
    scratch.chmod(0o755)
    (scratch / "client.key").chmod(0o400)
    with Server(tls=context) as server:
        arguments = ("--spread", 0, "--cacert", scratch / "server.pem", "--cert", scratch / "client.pem", "--key",
                     scratch / "client.key")
        follower = Follower(scratch, server.url, *arguments)
        if os.geteuid() == 0:
            os.chown(follower.store, 1001, 1001)
        with follower:
            add_window(follower.store, START, SAMPLES)
            wait_for(lambda: len(server.requests) == 2, "the window does not arrive")
            check_equal(follower.stop(), 0, f"exit status with {follower.message}")
        check_equal(totals(server.requests, scratch), TOTALS, "samples")


def lightest_stacks_are_merged_within_the_limits(scratch):
    samples = [("web", [f"leaf{i % 10}", f"caller_{i:0100}", "main"], 1000 - i) for i in range(500)]
    whole = sum(count for _, _, count in samples)
    for arguments, most in ((("--max-samples", 100), 100), (("--max-samples", 8), 8), (("--max-size", "64K"), 499)):
        with Server() as server:
            message = push(*arguments, server.url, write(scratch, samples))
            _, profile = of_request(server.requests[0], scratch)
            check(1 < len(profile.samples) <= most, f"{arguments}: {len(profile.samples)} samples")
            check_equal(profile.total("samples"), whole, f"samples with {arguments}")
            check_equal(profile.total("cpu"), whole * 10**7, f"CPU time with {arguments}")
            merged = [sample for sample in profile.samples if sample.frames[-1].function == "[merged]"]
            check(merged and max(sample.values["samples"] for sample in profile.samples
                                 if sample not in merged) == 1000, "the heaviest stack was merged")
            check(f"{500 - len(profile.samples)} stacks merged" in message, message)
            if arguments[0] == "--max-size":
                size = len(gzip.decompress(base64.b64decode(
                    json.loads(server.requests[0][2])["series"][0]["samples"][0]["rawProfile"])))
                check(size <= 65536, f"{size} bytes")


def errors_of_the_server_are_printed(scratch):
    path = write(scratch, SAMPLES)
    for status in (400, 422, 500, 302):
        with Server(status) as server:
            message = push(server.url, path, status=1)
            check(f"status {status}: the reason" in message and "and more" not in message, message)
            check(all(request[0] == PYROSCOPE for request in server.requests), "a redirection was followed")
    with Server(400, 200) as server:
        # The other service arrives.
        message = push(server.url, path, status=1)
        check_equal(len(server.requests), 2, "requests")
        check("3 samples in 1 profile, 1 refused" in message, message)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        message = push(f"http://127.0.0.1:{closed.getsockname()[1]}", path, status=1)
        check(message.count("\n") == 1, message)


def other_files_are_refused(scratch):
    path = scratch / "profile.pb.gz"
    with Server() as server:
        one_type = field(1, field(1, 1) + field(2, 2)) + b"".join(field(6, text) for text in (b"", b"heap", b"bytes"))
        for content, why in ((b"text", "profile.pb.gz"), (gzip.compress(one_type), "not a recording")):
            path.write_bytes(content)
            check(why in push(server.url, path, status=1), why)
        push("ftp://127.0.0.1/", path, status=1)
        push("http:///x", path, status=1)
        check_equal(server.requests, [], "requests")


class Follower:
    """stackbeat push --store, until the end of the block."""

    def __init__(self, scratch, url, *arguments):
        self.store = scratch / "store"
        self.store.mkdir(exist_ok=True)
        self.command = [STACKBEAT, "push", "--store", self.store, *map(str, arguments), url]
        self.process, self.message = None, ""
        self.started = 0  # the first start: later windows are pushed

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: any(path.name.startswith(".push-") and not path.name.endswith(".lock")
                             for path in self.store.iterdir()), "there is no state")
        self.started = self.started or int(time.time())
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, self.message = self.process.communicate(timeout=HANG)
        return self.process.returncode

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def wait_for(condition, why):
    end = time.monotonic() + HANG
    while not condition():
        check(time.monotonic() < end, why)
        time.sleep(0.02)


def add_window(store, start, samples):
    """As stackbeat serve does it: a window appears completely."""
    name = time.strftime("%Y%m%dT%H%M%S.000000Z-60s.pb.gz", time.gmtime(start))
    (store / "new").write_bytes(make_profile(samples, start))
    (store / "new").rename(store / name)


def windows_are_pushed_once(scratch):
    with Server() as server:
        (scratch / "store").mkdir()
        add_window(scratch / "store", int(time.time()) - 600, SAMPLES)  # before the first start
        with Follower(scratch, server.url) as follower:
            add_window(follower.store, follower.started + 60, SAMPLES)
            wait_for(lambda: len(server.requests) == 2, "a window is not pushed")
            check_equal(follower.stop(), 0, "exit status")
            check("10 samples in 2 profiles" in follower.message, follower.message)
        add_window(follower.store, follower.started + 120, SAMPLES[:2])
        with follower:
            wait_for(lambda: len(server.requests) == 3, "the window between is not pushed")
            add_window(follower.store, follower.started + 180, SAMPLES[2:])
            wait_for(lambda: len(server.requests) == 4, "the last window is not pushed")
            follower.stop(signal.SIGINT)
        check_equal(totals(server.requests, scratch), {"web": 14, "db": 6}, "samples")


def renewed_tokens_are_used(scratch):
    """A process that follows a store outlives its first token."""
    (scratch / "token").write_text("Authorization: Bearer first\n")
    with Server(401) as server, Follower(scratch, server.url, "--header-file", scratch / "token") as follower:

        def tokens():
            return [headers["Authorization"].removeprefix("Bearer ") for _, headers, _ in server.requests]
        add_window(follower.store, follower.started + 60, SAMPLES[:1])
        wait_for(tokens, "the window is not pushed")
        (scratch / "new").write_text("Authorization: Bearer second\n")
        (scratch / "new").rename(scratch / "token")
        wait_for(lambda: "second" in tokens(), "the window is not pushed with the second token")
        check_equal(tokens(), sorted(tokens()), "tokens")


def nothing_is_lost_while_the_server_is_away(scratch):
    # The first service arrives before the server goes away; the third answer refuses for good.
    with Server(200, 503, 503, 200, 413, 200) as server:
        with Follower(scratch, server.url) as follower:
            add_window(follower.store, follower.started + 60, SAMPLES)
            wait_for(lambda: len(server.requests) >= 4, "it is not tried again")
            add_window(follower.store, follower.started + 120, SAMPLES)
            wait_for(lambda: len(server.requests) == 6, "the other window is not pushed")
            follower.stop()
        check(follower.message.count("status 503") == 1 and follower.message.count("status 413") == 1, follower.message)
        check("accepts profiles again" in follower.message, follower.message)
        services = [of_request(request, scratch)[0]["service_name"] for request in server.requests]
        check_equal(services, ["web", "db", "db", "db", "web", "db"], "services")


def pauses_of_the_server_are_kept(scratch):
    """Without them, it is asked again within a second."""
    with Server(429, 200, retry_after=3) as server, Follower(scratch, server.url) as follower:
        add_window(follower.store, int(time.time()) + 50, SAMPLES[:1])
        wait_for(lambda: len(server.requests) == 2, "it is not tried again")
        check(server.times[1] - server.times[0] >= 3, f"times of the requests: {server.times}")


def position_survives_an_end_while_the_server_is_away(scratch):
    with Server(200, 503) as server:
        with Follower(scratch, server.url) as follower:
            add_window(follower.store, follower.started + 60, SAMPLES)
            wait_for(lambda: len(server.requests) >= 2, "it is not tried")
            follower.stop()
        server.statuses = [200]
        before = len(server.requests)
        with follower:
            wait_for(lambda: len(server.requests) > before, "it does not go on")
            follower.stop()
        services = [of_request(request, scratch)[0]["service_name"] for request in server.requests]
        check_equal(services.count("web"), 1, "requests of the service that was accepted")


def broken_windows_are_left_out(scratch):
    with Server() as server:
        with Follower(scratch, server.url) as follower:
            for seconds in (60, 120):
                name = time.strftime("%Y%m%dT%H%M%S.000000Z-60s.pb.gz", time.gmtime(follower.started + seconds))
                (follower.store / name).write_bytes(b"text")
            add_window(follower.store, follower.started + 180, SAMPLES)
            wait_for(lambda: len(server.requests) == 2, "the window is not pushed")
            follower.stop()
        check("could not be read: " in follower.message and "again" not in follower.message, follower.message)


def states_are_checked(scratch):
    (scratch / "store").mkdir()
    state = scratch / "state"
    for content in ("", "next: \n", "next: -1 0\n", "next: 1 0", "next: 1 0\nx", "next: 99999999999999999999 0\n"):
        state.write_text(content)
        message = push("--store", scratch / "store", "--state", state, "http://127.0.0.1:1", status=1)
        check("not the state of a push" in message and state.read_text() == content, message)
    state.unlink()
    with Server() as server, Follower(scratch, server.url) as follower:
        message = push("--store", follower.store, server.url, status=1)
        check("another process" in message, message)


def main():
    tests = [services_become_series, profiles_are_sent_as_they_are, services_become_resources,
             answers_of_otlp_are_read, chosen_labels_are_sent, headers_come_from_a_file,
             certificates_of_clients_are_sent, certificates_outlive_the_rights, lightest_stacks_are_merged_within_the_limits, errors_of_the_server_are_printed, other_files_are_refused,
             windows_are_pushed_once, renewed_tokens_are_used, nothing_is_lost_while_the_server_is_away,
             pauses_of_the_server_are_kept,
             position_survives_an_end_while_the_server_is_away, broken_windows_are_left_out, states_are_checked]
    failed = 0
    for test in tests:
        name = "push " + test.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                test(Path(scratch))
                print(f"ok {name}", flush=True)
            except Exception as error:  # pylint: disable=broad-exception-caught
                failed += 1
                traceback.print_exc()
                why = " ".join(str(error).split()) or type(error).__name__
                print(f"not ok {name}: {why}", flush=True)
    return 1 if failed else 0


sys.exit(main())
