"""Who looks at a page of viser's: over a plain socket (`Watcher`), or in a headless Chromium (`Chromium`)."""

from __future__ import annotations

import base64
import ctypes
import json
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import msgspec
import websockets.exceptions
from websockets.sync.client import connect

__all__ = ["CHROMIUM", "Chromium", "Watcher"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --disable-background-networking "
    "--disable-quic --no-first-run --disable-component-update --disable-sync --remote-debugging-port=0"
).split()
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, CAP_SYS_NICE = 1, 24, 23  # linux/prctl.h, linux/capability.h
PATIENCE = 180.0  # [s]: a browser draws with the processor here, and other tests want that too
#: finds what carries a text, and can be pressed
FIND = "[...document.querySelectorAll('button,[role=tab]')].find(e => e.textContent.trim().endsWith({text}) && !e.disabled)"


class Watcher:
    """Speaks viser's protocol as a page does: it counts as one that looks, and presses buttons.

    Args:
        port: of the page. origin: of the page that the browser would name; None: a program's, which names none.
    """

    def __init__(self, port: int, origin: str | None = None) -> None:
        import viser

        self._socket = connect(
            f"ws://127.0.0.1:{port}",
            origin=origin,
            subprotocols=[f"viser-v{viser.__version__}"],
            max_size=None,
            compression=None,
        )
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()
        self._send(
            type="ViewerCameraMessage", wxyz=(1, 0, 0, 0), position=(1, 0, 0), fov=1.0, near=0.1, far=10.0,
            image_height=100, image_width=100, look_at=(0, 0, 0), up_direction=(0, 0, 1),
        )  # fmt: skip

    def _send(self, **message: object) -> None:
        self._socket.send(msgspec.msgpack.encode(message))

    def _drain(self) -> None:
        try:
            for _ in self._socket:
                pass
        except websockets.exceptions.ConnectionClosed:
            pass

    def set(self, handle: object, value: object) -> None:
        """What a hand does to a control whose handle is in this process: press a button, move a slider."""
        self._send(type="GuiUpdateMessage", uuid=handle._impl.uuid, updates={"value": value})

    def close(self) -> None:
        self._socket.close()
        self._thread.join(5.0)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Chromium:
    """A page in a headless browser.

    Args:
        url: of the page. folder: new and empty, for the browser's own files. flags: of the browser, more than FLAGS.
    """

    def __init__(self, url: str, folder: Path, flags: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={folder}", "--window-size=1000,640", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=self._modestly,
        )  # fmt: skip
        self._count = 0
        try:
            port_file = folder / "DevToolsActivePort"
            self.until(lambda: port_file.exists() and port_file.read_text().strip(), "the browser starts")
            listing = f"http://127.0.0.1:{port_file.read_text().split()[0]}/json"
            page = self.until(lambda: self._page(listing), "the browser has a page")
            self._socket = connect(page, max_size=None, compression=None)
        except BaseException:
            self._end()
            raise

    @staticmethod
    def _modestly() -> None:
        """Root's browser would raise what draws above everybody else (-8), and it draws with the processor here.

        It ends with whoever started it: left behind by a killed test, it would go on drawing.
        """
        libc = ctypes.CDLL(None)
        libc.prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    @staticmethod
    def _page(listing: str) -> str:
        with urllib.request.urlopen(listing, timeout=PATIENCE) as answer:
            return next((p["webSocketDebuggerUrl"] for p in json.load(answer) if p["type"] == "page"), "")

    def _call(self, method: str, **parameters: object) -> dict:
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") == self._count:
                return answer.get("result", {})

    def evaluate(self, expression: str) -> object:
        """The value of an expression in the page."""
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True).get("result", {}).get("value")

    def text(self) -> str:
        """All that stands on the page."""
        return str(self.evaluate("document.body.innerText"))

    def press(self, text: str) -> None:
        """Click on the button or tab with this text, as a hand does, once it is there and can be pressed."""
        element = FIND.format(text=json.dumps(text))
        middle = (
            f"(() => {{const r = {element}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]}})()"
        )
        self.until(lambda: self.evaluate(f"!!{element}"), f"'{text}' can be pressed")
        x, y = self.evaluate(middle)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int) -> None:
        """Show the page as a phone of this size does [px]."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)
        self.until(lambda: self.evaluate("innerWidth") == width, "the page has the size of a phone")

    def screenshot(self, path: Path) -> bytes:
        """What is seen, written as a PNG file and returned."""
        image = base64.b64decode(self._call("Page.captureScreenshot")["data"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
        return image

    def until(self, condition, what: str, patience: float = PATIENCE):
        """The first true value of `condition()`."""
        end = time.monotonic() + patience
        while not (value := condition()):
            if time.monotonic() > end:
                said = f"; the page says:\n{self.text()}" if self._count else ""
                raise AssertionError(f"did not happen within {patience:g} s: {what}{said}")
            time.sleep(0.1)
        return value

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self._socket.close()
        self._end()

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
