# SPDX-License-Identifier: GPL-2.0
"""Chromium without a window, driven by the DevTools protocol over pipes."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
]
PATIENCE = 300 * int(os.environ.get("STACKBEAT_PATIENCE", "1"))  # seconds for an answer


class BrowserError(Exception):
    """Chromium did not answer, or with an error."""


class Chromium:
    """One page of a browser with a profile of its own, which close() removes."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="stackbeat-browser.")
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.buffer = b""
        self.events = []
        self.number = 0

        def keep_pipes():
            # Chromium reads from 3 and writes to 4.
            reader, writer = os.dup(commands), os.dup(answers)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        self.process = subprocess.Popen(
            ["chromium", *ARGUMENTS, f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TZ": "UTC"}, preexec_fn=keep_pipes, close_fds=False, start_new_session=True)
        os.close(commands)
        os.close(answers)
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        self.size(1280, 800)

    def close(self):
        # The process that we started leads the group.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise BrowserError("Chromium does not answer")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """Calls a method of the protocol, and returns its result. Events are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.read(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def wait_for(self, event):
        deadline = time.monotonic() + PATIENCE
        while not any(seen.get("method") == event for seen in self.events):
            self.events.append(self.read(deadline))

    def problems(self):
        """Exceptions and messages of the console since the page was opened."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(event["params"]["args"]))
        return found

    def requests(self):
        """The URLs that the page has requested."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def open(self, url):
        # A URL that differs in its fragment alone would not load the page again.
        for place in ("about:blank", url):
            self.events.clear()
            self.call("Page.navigate", url=place)
            self.wait_for("Page.loadEventFired")

    def run(self, expression):
        """The value of an expression, or of its promise, in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):
        """Waits until what has happened so far is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def mouse(self, kind, x, y, count=1):
        """Presses or releases the left button: "mousePressed", "mouseReleased"."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)

    def click(self, x, y, count=1):
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, number)
            self.mouse("mouseReleased", x, y, number)
        self.settle()

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def key(self, key, modifiers=0):
        """Presses a key; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
                "ArrowDown": 40}.get(key, ord(key.upper()[0]))
        text = {"text": "\r"} if key == "Enter" else \
            {"text": key} if len(key) == 1 and not modifiers & 3 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers,
                  windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers,
                  windowsVirtualKeyCode=code)
        self.settle()

    def write(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
