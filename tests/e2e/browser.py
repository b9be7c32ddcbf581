# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium over its debugging pipe, for tests that look at a page: open a
file at a width and in a colour scheme, ask the page, take a picture, and know every
request it made.  Needs Debian's `chromium` and nothing of Python's."""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "headless_shell")


def find():
    """Path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One process; `with Browser() as b`.  Descriptor 3 of it is read, 4 written."""

    def __init__(self, limit=120):
        self.limit, self.ids, self.buffer, self.events = limit, itertools.count(1), b"", []
        self.profile = tempfile.TemporaryDirectory(prefix="jaxbench-chromium-", ignore_cleanup_errors=True)
        theirs, self.out = os.pipe()
        self.inp, answers = os.pipe()
        command = [find(), "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                   "--user-data-dir=" + self.profile.name, "about:blank"]
        # The shell moves the pipes to 3 and 4, where Chromium looks for them.
        script = 'exec "$@" 3<&%d 4>&%d' % (theirs, answers)
        environment = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "FONTCONFIG_PATH")} | {"HOME": self.profile.name}
        self.process = subprocess.Popen(["/bin/bash", "-c", script, "chromium", *command], pass_fds=(theirs, answers), env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs)
        os.close(answers)
        self.version = self.call("Browser.getVersion")["product"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.inp)
        os.close(self.out)
        self.profile.cleanup()

    def call(self, method, session=None, **params):
        """Result of one command; events that come before it are kept."""
        number = next(self.ids)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError("%s: %s" % (method, answer["error"]))
            else:
                return answer["result"]

    def receive(self):
        deadline = time.monotonic() + self.limit
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inp], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.inp, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("Chromium %s" % ("ended (exit %s)" % self.process.poll() if ready else "said nothing for %d s" % self.limit))
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width, height=900, dark=False):
        """A `Page` of the file, loaded."""
        return Page(self, pathlib.Path(path).resolve().as_uri(), width, height, dark)


class Page:
    def __init__(self, browser, url, width, height, dark):
        self.browser, self.width, self.height = browser, width, height
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        begin = time.monotonic()
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")
        self.seconds = time.monotonic() - begin

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def mine(self, method):
        return [e for e in self.browser.events if e.get("sessionId") == self.session and e.get("method") == method]

    def wait(self, method):
        while not self.mine(method):
            self.browser.events.append(self.browser.receive())

    def ask(self, expression):
        """Value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError("%s: %s" % (expression, answer["exceptionDetails"]))
        return answer["result"].get("value")

    def requests(self):
        """URLs the page asked for, the page itself included."""
        return [e["params"]["request"]["url"] for e in self.mine("Network.requestWillBeSent")]

    def press(self, key, code=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **({"text": text} if text and kind == "keyDown" else {}))

    def picture(self, path, whole=True):
        """A PNG of the whole page, or of what is in view."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
