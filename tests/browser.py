"""A real browser for tests: Debian's Chromium, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page in one Chromium. `console` collects what the page complains of, `requests` the addresses it asks for."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._next = 0
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._buffer = b""
        self._start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.page(f"{domain}.enable")
        self.page(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def _start(self) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={self._folder.name}"]

        def wire() -> None:  # the protocol's descriptors are 3 and 4
            os.dup2(to_read, 20)
            os.dup2(to_write, 21)
            os.dup2(20, 3)
            os.dup2(21, 4)

        self._process = subprocess.Popen(
            command,
            preexec_fn=wire,  # noqa: PLW1509  # no other thread runs while a browser starts
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def open(self, page: Path, *, scripts: bool = True) -> None:
        """Load a file and wait until its load event has fired."""
        self.page("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.page("Page.navigate", url=page.as_uri())
        self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def value(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.page(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 30) -> None:
        """Wait until an expression is true; fails after `seconds`."""
        until = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < until, f"never true: {script}"
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        size = self.page("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        shot = self.page("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it prints."""
        path.write_bytes(base64.b64decode(self.page("Page.printToPDF", printBackground=False)["data"]))

    def dark(self, wanted: bool) -> None:
        """Emulate a system that prefers dark (or light) pages."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.page("Emulation.setEmulatedMedia", features=[scheme])

    def page(self, method: str, **parameters: object) -> dict[str, Any]:
        """One protocol call to the page."""
        return self.call(method, self._session, **parameters)

    def call(self, method: str, session: str = "", **parameters: object) -> dict[str, Any]:
        """One protocol call; waits for its answer."""
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self._buffer:
                assert select.select([self._read], [], [], 60)[0], "the browser says nothing for a minute"
                piece = os.read(self._read, 1 << 20)
                assert piece, "the browser has gone"
                self._buffer += piece
            text, self._buffer = self._buffer.split(b"\0", 1)
            message: dict[str, Any] = json.loads(text)
            self._note(message)
            if wanted(message):
                return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(str(parameters["entry"]["text"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(str(parameters["request"]["url"]))
