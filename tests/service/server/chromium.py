"""A headless Chromium that tests speak to over a pipe, by the protocol of its developer tools."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    """The browser of this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Tab:
    """One page of a browser."""

    def __init__(self, writing: BinaryIO, reading: BinaryIO) -> None:
        self._writing, self._reading, self._number, self._session = writing, reading, 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{part}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer; what happens meanwhile is in `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._writing.write(json.dumps(message).encode() + b"\0")
        self._writing.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def visit(self, address: str) -> None:
        """Open a page and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.loaded()

    def loaded(self) -> None:
        """Wait for a page that is being opened."""
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._next())

    def ask(self, script: str) -> Any:
        """What a line of JavaScript gives, awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screen(self, width: int, dark: bool = False, media: str = "") -> None:
        """How large the screen is, and what its owner likes."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def press(self, key: str, code: int) -> None:
        """A key, down and up."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def picture(self, path: Path) -> None:
        """The whole page as an image."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        content = b""
        while not content.endswith(b"\0"):
            byte = self._reading.read(1)
            assert byte, "the browser is gone"
            content += byte
        answer: dict[str, Any] = json.loads(content[:-1])
        return answer


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with nothing in it."""
    path = found()
    assert path is not None
    (here_in, there_out), (there_in, here_out) = os.pipe(), os.pipe()

    def give() -> None:
        # It reads from 3 and writes to 4, whatever these were.
        into, out = os.dup(there_in), os.dup(there_out)
        os.dup2(into, 3)
        os.dup2(out, 4)

    process = subprocess.Popen(
        [
            path,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={folder}",
            "--remote-debugging-pipe",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=give,
        close_fds=False,
    )
    os.close(there_in)
    os.close(there_out)
    with os.fdopen(here_out, "wb") as writing, os.fdopen(here_in, "rb") as reading:
        try:
            yield Tab(writing, reading)
        finally:
            process.terminate()
            process.wait(20)
