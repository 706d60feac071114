"""A headless Chromium, and what a person does with its tabs.

Owns: the process and its folder. Promises: each tab is of a person of its own, who shares no cookies with others; the browser
ends with the block. Must not: know a page.
"""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import time

from websockets.sync.client import connect

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"]
PATIENCE = 60


def chromium():
    named = os.environ.get("TIDELINE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Failed(Exception):
    """The page is just being loaded, or its script is wrong."""


def until(what, holds):
    """Waits until it holds, and returns what it is."""
    end, failed = time.monotonic() + PATIENCE, ""
    while True:
        try:
            if found := holds():
                return found
        except Failed as error:
            failed = error
        assert time.monotonic() < end, f"{what() if callable(what) else what} {failed}"
        time.sleep(0.05)


class Wire:
    """The protocol of Chromium's tools."""

    def __init__(self, url):
        self.socket, self.numbers = connect(url, max_size=None), itertools.count(1)

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv(PATIENCE))).get("id") != number:
            pass
        if "error" in answer:
            raise Failed(answer)
        return answer["result"]


class Tab(Wire):
    def run(self, script):
        """What the script in the page comes to."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise Failed(done)
        return done["result"].get("value")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)")

    def shows(self, selector, *wanted):
        until(lambda: f"{selector} shows {self.texts(selector)} in place of {wanted}", lambda: self.texts(selector) == list(wanted))

    def click(self, selector, text):
        find = f"[...document.querySelectorAll({json.dumps(selector)})].find((one) => one.innerText.startsWith({json.dumps(text)}))"
        until(f"no {text}", lambda: self.run(f"(() => {{ const one = {find}; one?.click(); return one !== undefined; }})()"))

    def submit(self, form, **fields):
        """Fills a form and sends it, once it is there."""
        until(f"no {form}", lambda: self.run(f"document.querySelector({json.dumps(form)}) !== null && document.readyState === 'complete'"))
        for name, text in fields.items():
            self.run(f"document.querySelector({json.dumps(form)}).elements[{json.dumps(name)}].value = {json.dumps(text)}")
        self.run(f"document.querySelector({json.dumps(form)}).requestSubmit()")


class Browser:
    def __init__(self, folder):
        # What is tested is a page: a Chromium that does not come up is started once more, and what it said is shown.
        for attempt in (1, 2):
            self.folder = pathlib.Path(f"{folder}-{attempt}")
            self.log = open(f"{self.folder}.log", "w+b")
            command = [chromium(), *FLAGS, f"--user-data-dir={self.folder}", "about:blank"]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            try:
                port, path = until(self.failed, self.listens)
                break
            except AssertionError:
                self.kill()
                if attempt == 2:
                    raise
        self.place = f"ws://127.0.0.1:{port}"
        self.wire = Wire(self.place + path)

    def listens(self):
        assert self.process.poll() is None, self.failed()
        told = self.folder / "DevToolsActivePort"
        words = told.read_text().split() if told.exists() else []
        return words if len(words) == 2 else None

    def failed(self):
        said = pathlib.Path(self.log.name).read_text(errors="replace")
        return f"no browser (exit code {self.process.poll()}): {said[-2000:]}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def person(self, url):
        context = self.wire.call("Target.createBrowserContext")["browserContextId"]
        target = self.wire.call("Target.createTarget", url=url, browserContextId=context)["targetId"]
        return Tab(f"{self.place}/devtools/page/{target}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            # One that is killed leaves files behind.
            self.wire.call("Browser.close")
            self.process.wait(60)
        finally:
            self.kill()
