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
            text = text.replace("[Service]", f"[Service]\nStandardOutput=null\nStandardError=append:{UNITS.parent}/errors\n"
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


@long_test
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


class Packaged:
    """The service of the package, and a busy one. No module is loaded yet."""

    def __init__(self, *more):
        need_systemd()
        install_packaged_files()
        unload()
        units = {name: (PACKAGED / name).read_text() for name in (SERVICE, "stackbeat.socket")}
        units[SERVICE] = "\n".join((units[SERVICE].replace("stackbeat serve", "stackbeat serve --window 10 --sandbox=require"),
                                    "[Service]", *more))
        # The root directory is an overlay, whose functions are in a module.
        walker = "bash -c 'while :; do [[ -e /usr/share/doc/none ]]; done'"
        for name, command in (("busy", f"{hidden_program()} 1000000000000"), ("walker", walker)):
            units[f"{name}.service"] = f"[Unit]\n[Service]\nCPUSchedulingPolicy=idle\nExecStart={command}\n"
        start("/lib/systemd/systemd-udevd")
        wait_until(Path("/run/udev/control").exists, "udevd")
        self.systemd = Systemd(units)
        self.systemd.systemctl("start", "stackbeat.socket", "busy.service")
        check(not is_loaded(), "the module was loaded before the service")
        self.path = temporary_directory() / "answer.pb.gz"

    def profile(self, service):
        """A profile of a second."""
        status, body = get(f"/debug/pprof/profile?service={service}.service&seconds=1")
        check_equal(status, 200, f"status: {body[:200]}")
        self.path.write_bytes(body)
        return pprof.Profile(self.path)

    def frames(self, service):
        return [frame for sample in self.profile(service).samples for frame in sample.frames]

    def has_names(self):
        """The named functions of the hidden program and of the kernel are in a profile."""
        frames = self.frames("busy")
        return ({"main", "read_loop"} <= {frame.function for frame in frames if Path(frame.file).name == "hidden"}
                and any("read_zero" in frame.function for frame in frames if frame.address >> 63))

    def check_mappings_of_modules(self):
        """The service may see the addresses of functions of modules, but not of the modules."""
        if not Path("/sys/module/overlay/initstate").exists():
            print("# the overlay file system is not a module: no functions of modules", flush=True)
            return
        self.systemd.systemctl("start", "walker.service")
        wait_until(lambda: any(frame.function.startswith("ovl_") for frame in self.frames("walker") if frame.file == "[overlay]"),
                   "functions of a module")
        self.systemd.systemctl("stop", "walker.service")

    def check_samples(self, source):
        wait_until(self.has_names, "names of functions of the program and of the kernel")
        comments = self.profile("busy").comments
        check(any(line.startswith(f"source: {source}") for line in comments), f"comments: {comments}")

    def stop(self, *sources):
        """Stops the service, which has been started once for each source."""
        self.systemd.systemctl("stop", "stackbeat.socket", SERVICE)
        check_equal(self.systemd.property("Result"), "success", "result of the service")
        check_equal(self.systemd.property("NRestarts"), "0", "restarts")
        lines = self.messages().splitlines()
        check_equal(len(lines), 2 * len(sources), f"lines: {lines}")
        for source, line, other in zip(sources, lines[::2], lines[1::2]):
            check(line.startswith(f"stackbeat: source: {source}"), line)
            check_equal(other, f"stackbeat: storing in {STORE}", "message")

    @staticmethod
    def messages():
        return (UNITS.parent / "errors").read_text()


@test
def packaged_service_samples_and_answers():
    packaged = Packaged()
    # The first request starts the service, which loads the module.
    packaged.systemd.await_answer("an answer")
    state = DEVICE.stat()
    check_equal((grp.getgrgid(state.st_gid).gr_name, state.st_mode & 0o777), ("stackbeat", 0o660), "group and mode of the device")
    check_equal(Path("/sys/module/stackbeat/parameters/unprivileged").read_text(), "Y\n", "parameter")
    packaged.check_samples("kernel module")
    wait_until(lambda: list(STORE.glob("*.pb.gz")), "a window")
    check_equal({file.owner() for file in STORE.iterdir()}, {"_stackbeat"}, "owners of the store")
    packaged.stop("kernel module")


def keep_module_from_loading():
    """As where there is no module for this kernel. Returns the file to remove when there is one."""
    path = Path("/run/modprobe.d/stackbeat-none.conf")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("blacklist stackbeat\n")
    defer(path.unlink, True)
    return path


def set_paranoid(level):
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    defer(path.write_text, path.read_text())
    path.write_text(f"{level}\n")


@long_test
def packaged_service_samples_by_perf_events_until_there_is_a_module():
    obstacle = keep_module_from_loading()
    set_paranoid(2)
    packaged = Packaged()
    packaged.systemd.await_answer("an answer")
    packaged.check_samples("perf events (the module is not loaded): user stacks by copies of 2 to 32 KiB, ")
    packaged.check_mappings_of_modules()
    check(not is_loaded(), "the module was loaded")
    # DKMS has built it.
    obstacle.unlink()
    packaged.systemd.systemctl("restart", SERVICE)
    packaged.systemd.await_answer("an answer after the restart")
    packaged.check_samples("kernel module")
    packaged.stop("perf events (the module is not loaded): ", "kernel module")


@long_test
def packaged_service_is_skipped_without_a_source():
    keep_module_from_loading()
    set_paranoid(4)
    # Kernels that are no distribution's permit it with CAP_PERFMON at any level.
    packaged = Packaged("SystemCallFilter=~perf_event_open")
    for starts in (1, 2):
        if starts == 1:
            packaged.systemd.systemctl("start", SERVICE)
        else:
            # A request starts it, too, and has no answer.
            check(not answers(), "an answer of a service that was skipped")
            wait_until(lambda: packaged.messages().count("\n") == 2, "a start")
        wait_until(lambda: packaged.systemd.property("SubState") == "dead", "the end of the start")
        check_equal((packaged.systemd.property("Result"), packaged.systemd.property("NRestarts")), ("exec-condition", "0"),
                    "result and restarts")
        check_equal(packaged.systemd.systemctl("is-active", "stackbeat.socket"), "active", "state of the socket")
        messages = packaged.messages().splitlines()
        check_equal(len(messages), starts, f"messages: {messages}")
        check("with 'sysctl kernel.perf_event_paranoid=2', CAP_PERFMON is enough; nor can the module be used: the module is not "
              "loaded; " in messages[-1], messages[-1])
