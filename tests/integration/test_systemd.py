# SPDX-License-Identifier: GPL-2.0
"""`stackbeat serve` as a service of systemd, by the units of docs/fleet.md and of the Debian package."""

import grp
import http.client
import os
import re
import shutil
import socket
import threading
from pathlib import Path

from harness import (check, check_equal, defer, is_loaded, long_test, PATIENCE, pprof, ROOT, run, Skip, start,
                     temporary_directory, test, unload, wait_until, workload)

SYSTEMD = Path("/lib/systemd/systemd")
UNITS = Path("/run/systemd/system")
DOCUMENT = ROOT / "docs/fleet.md"
PACKAGED = ROOT / "systemd"
COMMAND = Path("/usr/bin/stackbeat")
DEVICE = Path("/dev/stackbeat")
SOCKET = "/run/stackbeat/http.sock"
STORE = Path("/var/lib/stackbeat")
SERVICE = "stackbeat.service"


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def get(path):
    connection = UnixConnection("localhost", timeout=600 * PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answers():
    try:
        return get("/healthz")[0] == 200
    except OSError:
        return False


def documented_units():
    """Returns the contents of the units in the document by name."""
    blocks = re.findall(r"```ini\n# /etc/systemd/system/(\S+)\n(.*?)```", DOCUMENT.read_text(), re.S)
    return dict(blocks)


class Systemd:
    """The system manager, in a PID namespace. It starts only these units, and what they want."""

    def __init__(self, units):
        # The guest has the directories of the machine: a service that ran there may have left it.
        shutil.rmtree(STORE, True)
        defer(shutil.rmtree, STORE, True)
        UNITS.mkdir(parents=True, exist_ok=True)
        defer(shutil.rmtree, UNITS.parent, True)
        for name, text in units.items():
            # The guest runs neither the basic target nor the journal.
            text = text.replace("[Unit]", "[Unit]\nDefaultDependencies=no")
            text = text.replace("[Service]", f"[Service]\nStandardOutput=null\nStandardError=file:{UNITS.parent}/errors\n"
                                             "TimeoutSec=infinity")
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

    def await_answer(self, what):
        """A client of the socket of a service that fails would wait for ever: systemd starts the service again and again."""
        answered = threading.Event()
        threading.Thread(target=lambda: wait_until(answers, what) and answered.set(), daemon=True).start()
        restarts = self.property("NRestarts")
        wait_until(lambda: answered.wait(1) or self.property("NRestarts") != restarts, what)
        check(answered.is_set(), f"{what}: {(UNITS.parent / 'errors').read_text()}")


def need_systemd():
    if not SYSTEMD.exists():
        raise Skip("this machine has no systemd")


def start_documented(*names):
    need_systemd()
    run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "_stackbeat")
    defer(run, "userdel", "_stackbeat")
    units = documented_units()
    return Systemd({name: units[name].replace("/usr/local/bin/stackbeat serve",
                                              f"{shutil.which('stackbeat')} serve --window 10") for name in names})


@long_test
def service_is_started_restarted_and_stopped():
    systemd = start_documented(SERVICE)
    systemd.systemctl("start", SERVICE)
    systemd.await_answer("an answer")
    wait_until(lambda: list(STORE.glob("*.pb.gz")), "a window")
    check_equal({file.owner() for file in STORE.iterdir()}, {"_stackbeat"}, "owners of the store")
    systemd.systemctl("kill", "--kill-who=main", "--signal=KILL", SERVICE)
    wait_until(lambda: systemd.property("NRestarts") == "1", "a restart")
    systemd.await_answer("an answer after the restart")
    systemd.systemctl("stop", SERVICE)
    check_equal((systemd.property("Result"), systemd.property("ActiveState")), ("success", "inactive"),
                "result and state of the service")
    check(not answers(), "an answer of a service that was stopped")


@test
def request_starts_the_service():
    systemd = start_documented(SERVICE, "stackbeat.socket")
    systemd.systemctl("start", "stackbeat.socket")
    check_equal(systemd.property("ActiveState"), "inactive", "state before a request")
    systemd.await_answer("an answer")
    check_equal(systemd.property("ActiveState"), "active", "state after a request")
    systemd.systemctl("stop", "stackbeat.socket", SERVICE)
    check_equal(systemd.property("Result"), "success", "result of the service")


# --- the Debian package ---------------------------------------------------------


def install_packaged_files():
    """Installs what the package has beside the units, where it lies only until the next boot."""
    run("systemd-sysusers", PACKAGED / "stackbeat.sysusers")
    defer(run, "groupdel", "stackbeat")
    defer(run, "userdel", "_stackbeat")
    for path, name in (("/run/modprobe.d/stackbeat.conf", "modprobe"), ("/run/udev/rules.d/60-stackbeat.rules", "udev")):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGED / f"stackbeat.{name}", path)
        defer(os.unlink, path)
    # ProtectHome= may hide the build tree.
    shutil.copy(shutil.which("stackbeat"), COMMAND)
    defer(COMMAND.unlink)


def hidden_program():
    """A program that only its user and CAP_DAC_READ_SEARCH can read, which always calls the kernel."""
    directory = temporary_directory()
    program = Path(shutil.copy(workload("sysread")[0], directory / "hidden"))
    program.chmod(0o700)
    return program


@test
def packaged_service_samples_and_answers():
    need_systemd()
    install_packaged_files()
    unload()
    units = {name: (PACKAGED / name).read_text() for name in (SERVICE, "stackbeat.socket")}
    units[SERVICE] = units[SERVICE].replace("stackbeat serve", "stackbeat serve --window 10 --sandbox=require")
    units["busy.service"] = f"[Unit]\n[Service]\nCPUSchedulingPolicy=idle\nExecStart={hidden_program()} 1000000000000\n"
    start("/lib/systemd/systemd-udevd")
    wait_until(Path("/run/udev/control").exists, "udevd")
    systemd = Systemd(units)
    systemd.systemctl("start", "stackbeat.socket", "busy.service")
    check(not is_loaded(), "the module was loaded before the service")
    # The first request starts the service, which loads the module.
    systemd.await_answer("an answer")
    state = DEVICE.stat()
    check_equal((grp.getgrgid(state.st_gid).gr_name, state.st_mode & 0o777), ("stackbeat", 0o660), "group and mode of the device")
    check_equal(Path("/sys/module/stackbeat/parameters/unprivileged").read_text(), "Y\n", "parameter")

    def functions():
        """The named functions of the hidden program and of the kernel, in a profile of a second."""
        status, body = get("/debug/pprof/profile?service=busy.service&seconds=1")
        check_equal(status, 200, f"status: {body[:200]}")
        path.write_bytes(body)
        frames = [frame for sample in pprof.Profile(path).samples for frame in sample.frames]
        return ({"main", "read_loop"} <= {frame.function for frame in frames if Path(frame.file).name == "hidden"}
                and any("read_zero" in frame.function for frame in frames if frame.address >> 63))
    path = temporary_directory() / "answer.pb.gz"
    wait_until(functions, "names of functions of the program and of the kernel")
    wait_until(lambda: list(STORE.glob("*.pb.gz")), "a window")
    check_equal({file.owner() for file in STORE.iterdir()}, {"_stackbeat"}, "owners of the store")
    systemd.systemctl("stop", "stackbeat.socket", SERVICE)
    check_equal(systemd.property("Result"), "success", "result of the service")
    check_equal(systemd.property("NRestarts"), "0", "restarts")
    check_equal((UNITS.parent / "errors").read_text(), "", "messages")
