"""A headless Chromium, driven through its debugging pipe. No driver and no web socket are needed.

It stands for the browser of a person who looks at the page; it does not judge what it looks like.
"""

import base64
import json
import os
import shutil
import subprocess
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")


class Browser:
    """One tab. Any: what the debugging protocol answers is JSON."""

    def __init__(self, profile: Path, *, width: int = 1300, height: int = 900) -> None:
        assert CHROMIUM is not None
        to_us, from_it = os.pipe()
        to_it, from_us = os.pipe()
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        shell = f"exec 3<&{to_it} 4>&{from_it}; exec " + " ".join(map(_quoted, command))
        self._process = subprocess.Popen(
            ["bash", "-c", shell],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        self._out, self._in = from_us, os.fdopen(to_us, "rb", buffering=0)
        self._buffer = b""
        self._numbers = count(1)
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.resize(width, height)

    def open(self, url: str) -> None:
        self._call("Page.enable")
        self._call("Page.navigate", url=url)

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Light or dark, as the person's system has it."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of an expression on the page; raises what it throws."""
        answer = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, condition: str, timeout_s: int = 30) -> None:
        """Returns once an expression is true; looks again after each frame of the page."""
        self.run(
            "new Promise((done, fail) => { const until = performance.now() + "
            f"{timeout_s * 1000}; const look = () => {{ let held = false; "
            f"try {{ held = {condition}; }} catch {{}} "
            "if (held) done(true); else if (performance.now() > until) "
            f"fail(new Error({json.dumps(condition)} + ' never held: ' + document.body.innerText));"
            " else setTimeout(look, 50); }; look(); })"
        )

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def picture(self, path: Path) -> None:
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._out)
        self._in.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(answer["error"])
                return answer["result"]

    def _receive(self) -> Any:
        while b"\0" not in self._buffer:
            piece = self._in.read(1 << 16)
            if not piece:
                raise AssertionError("the browser has ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
