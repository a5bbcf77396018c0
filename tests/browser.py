"""A headless Chromium that opens report pages, driven through its debugging pipe.

    page = browser.open(tmp_path / "report.html", width=400, dark=True)
    assert page.errors == [] and page.requests == []
    assert page.evaluate("document.querySelectorAll('svg').length") == 2

Commands and answers are JSON, each followed by a zero byte: the Chrome DevTools Protocol on the
file descriptors 3 and 4 of the browser.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine."""

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-dev-shm-usage", "--disable-sync", "--hide-scrollbars", "--no-first-run",
    "--remote-debugging-pipe",
)  # fmt: skip

# Descriptors 3 and 4 are what the browser reads and writes; the process itself becomes it.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


def chromium() -> str | None:
    """The path of a Chromium; the environment variable CHROMIUM may name it."""
    named = os.environ.get("CHROMIUM")
    return named if named else next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Page:
    """An open page: what its console says, and what it asks the network for."""

    browser: Browser
    session: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    loaded: bool = False

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, as JSON carries it."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Writes what is seen, or the whole page, as PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def call(self, method: str, **params: Any) -> Any:
        """The answer to a command of the protocol."""
        return self.browser.call(method, self.session, **params)

    def hears(self, method: str, params: dict[str, Any]) -> None:
        """An event of the page."""
        match method:
            case "Page.loadEventFired":
                self.loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])


class Browser:
    """One process, many pages."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._pages: dict[str, Page] = {}

    def open(
        self,
        path: Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        media: str = "",
    ) -> Page:
        """Opens a file and waits until it is loaded."""
        target = self.call("Target.createTarget", None, url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", None, targetId=target, flatten=True)
        page = Page(self, session["sessionId"])
        self._pages[page.session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.loaded = False
        url = path.resolve().as_uri()
        page.call("Page.navigate", url=url)
        end = time.monotonic() + PATIENCE
        while not page.loaded:
            self._hear(end)
        page.requests.remove(url)
        return page

    def call(self, method: str, session: str | None, **params: Any) -> Any:
        """The answer to a command of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        end = time.monotonic() + PATIENCE
        while (answer := self._hear(end)).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        return answer["result"]

    def _hear(self, end: float) -> dict[str, Any]:
        """The next message; events go to their pages."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._answers, 1 << 16)
            assert data, "the browser ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.hears(message["method"], message["params"])
        return message


def _pipe() -> tuple[int, int]:
    """A pipe whose ends lie above the numbers that the browser wants for its own."""
    ends = os.pipe()
    higher = [fcntl(end, F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return higher[0], higher[1]


@contextmanager
def running_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Starts a browser with a profile folder of its own, and ends it."""
    (commands_read, commands_write), (answers_read, answers_write) = _pipe(), _pipe()
    process = subprocess.Popen(
        [
            sys.executable, "-c", LAUNCH, str(commands_read), str(answers_write),
            program, *OPTIONS, f"--user-data-dir={profile}",
        ],
        pass_fds=(commands_read, answers_write), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(commands_read)
    os.close(answers_write)
    browser = Browser(commands_write, answers_read)
    try:
        yield browser
        browser.call("Browser.close", None)
    finally:
        os.close(commands_write)
        os.close(answers_read)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
