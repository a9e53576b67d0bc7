# SPDX-License-Identifier: GPL-2.0
"""`stackbeat serve` as a service of systemd, by the units of docs/fleet.md."""

import http.client
import re
import shutil
import socket
from pathlib import Path

from harness import check, check_equal, defer, long_test, PATIENCE, run, Skip, start, test, wait_until

SYSTEMD = Path("/lib/systemd/systemd")
UNITS = Path("/run/systemd/system")
DOCUMENT = Path(__file__).parents[2] / "docs/fleet.md"
SOCKET = "/run/stackbeat/http.sock"
STORE = Path("/var/lib/stackbeat")
SERVICE = "stackbeat.service"


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def answers():
    connection = UnixConnection("localhost", timeout=600 * PATIENCE)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def documented_units():
    """Returns the contents of the units in the document by name."""
    blocks = re.findall(r"```ini\n# /etc/systemd/system/(\S+)\n(.*?)```", DOCUMENT.read_text(), re.S)
    return dict(blocks)


class Systemd:
    """The system manager, in a PID namespace. It starts only the units of the test."""

    def __init__(self, *names):
        if not SYSTEMD.exists():
            raise Skip("this machine has no systemd")
        run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "_stackbeat")
        defer(run, "userdel", "_stackbeat")
        defer(shutil.rmtree, STORE, True)
        UNITS.mkdir(parents=True, exist_ok=True)
        defer(shutil.rmtree, UNITS.parent, True)
        units = documented_units()
        for name in names:
            # The guest runs neither the basic target nor the journal.
            text = units[name].replace("[Unit]", "[Unit]\nDefaultDependencies=no")
            text = text.replace("[Service]", "[Service]\nStandardOutput=null\nStandardError=null\n"
                                             "TimeoutSec=infinity")
            text = text.replace("/usr/local/bin/stackbeat serve",
                                f"{shutil.which('stackbeat')} serve --window 10")
            (UNITS / name).write_text(text)
        (UNITS / "test.target").write_text("[Unit]\nDefaultDependencies=no\n")
        manager = start("unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc", "env", "container=test",
                        SYSTEMD, "--system", "--unit=test.target")
        wait_until(lambda: (UNITS.parent / "private").is_socket(), "the system manager")
        child = Path(f"/proc/{manager.pid}/task/{manager.pid}/children").read_text()
        self.enter = ("nsenter", "--target", child.strip(), "--pid", "--mount",
                      "env", f"SYSTEMD_BUS_TIMEOUT={600 * PATIENCE}", "systemctl")

    def systemctl(self, *arguments):
        return run(*self.enter, *arguments)[0].strip()

    def property(self, name):
        return self.systemctl("show", "--value", "--property", name, SERVICE)


@long_test
def service_is_started_restarted_and_stopped():
    systemd = Systemd(SERVICE)
    systemd.systemctl("start", SERVICE)
    wait_until(answers, "an answer")
    wait_until(lambda: list(STORE.glob("*.pb.gz")), "a window")
    check_equal({file.owner() for file in STORE.iterdir()}, {"_stackbeat"}, "owners of the store")
    systemd.systemctl("kill", "--kill-who=main", "--signal=KILL", SERVICE)
    wait_until(lambda: systemd.property("NRestarts") == "1", "a restart")
    wait_until(answers, "an answer after the restart")
    systemd.systemctl("stop", SERVICE)
    check_equal((systemd.property("Result"), systemd.property("ActiveState")), ("success", "inactive"),
                "result and state of the service")
    check(not answers(), "an answer of a service that was stopped")


@test
def request_starts_the_service():
    systemd = Systemd(SERVICE, "stackbeat.socket")
    systemd.systemctl("start", "stackbeat.socket")
    check_equal(systemd.property("ActiveState"), "inactive", "state before a request")
    wait_until(answers, "an answer")
    check_equal(systemd.property("ActiveState"), "active", "state after a request")
    systemd.systemctl("stop", "stackbeat.socket", SERVICE)
    check_equal(systemd.property("Result"), "success", "result of the service")
