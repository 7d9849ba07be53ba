"""The operator's page in a headless Chromium, on a desktop or in an emulated headset; and a server on a thread of its own."""

import asyncio
import contextlib
import threading
from pathlib import Path

from link_client import Ground
from page_watcher import Chromium

HERE = Path(__file__).parent
#: where the pictures are kept
PICTURES = HERE.parents[2] / "runs" / "test_station"
#: of the page's own pictures a second: a display of 6 Hz, which leaves the processor to the others
FRAME_MS = 150
#: before everything else in the page: fewer pictures, and a headset with its hands in front of a person who stands
SLOW = f"window.requestAnimationFrame = f => setTimeout(() => f(performance.now()), {FRAME_MS});"
HEADSET = """
const device = window.device = new IWER.XRDevice(IWER.metaQuest3);
device.installRuntime({forceInstall: true});
device.position.set(0, 1.6, 0);
device.controllers.right.position.set(0.2, 1.1, -0.4);
device.controllers.left.position.set(-0.2, 1.1, -0.4);
"""


class Station(Chromium):
    """The page.

    Args:
        url: its address. folder: new and empty. headset: whether the browser has one.
        flags: of the browser.
    """

    def __init__(self, url, folder, headset=False, size=(1280, 860), flags=()):
        super().__init__("about:blank", folder, flags)
        emulator = (HERE / "iwer.min.js").read_text(encoding="utf-8") + HEADSET if headset else ""
        self._call("Page.enable")
        self._call("Page.addScriptToEvaluateOnNewDocument", source=SLOW + emulator)
        self.size(*size)
        self.go(url)

    def size(self, width, height):
        """Of the window [px]; a headset's pictures are as large, and drawn by the processor here."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def go(self, url):
        """Load an address."""
        self._call("Page.navigate", url=url)
        self.until(lambda: self.evaluate("!!document.querySelector('#menu button')"), "the page is there")

    def has(self, element, words):
        """Wait until an element, by its id, says some words."""
        what = f"#{element} says '{words}'"
        return self.until(lambda: words in str(self.evaluate(f"document.getElementById('{element}').innerText")), what)

    def join(self, name="Ada", token="", button="Drive"):
        """Fill the form and join."""
        fields = {"name": name, "token": token}
        for field, value in fields.items():
            self.evaluate(f"document.getElementById('{field}').value = '{value}'")
        self.press(button)

    def key(self, code, key="", down=True, up=True):
        """Press a key, and let it go."""
        for kind, wanted in (("rawKeyDown", down), ("keyUp", up)):
            if wanted:
                # of the keys that are more than a letter, a browser asks for the number also
                number = {"Space": 32, "Escape": 27, "Tab": 9, "Enter": 13}.get(code, ord(code[-1]))
                words = dict(text="\r") if code == "Enter" and kind == "rawKeyDown" else {}
                kind = "keyDown" if words else kind
                self._call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    code=code,
                    key=key or code,
                    windowsVirtualKeyCode=number,
                    **words,
                )

    def drag(self, start, end, steps=20):
        """Move the mouse with its left button held [px], from where it goes down to where it goes up."""
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end))
            self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def hand(self, side="right", **words):
        """Of a controller: its place `p` and buttons by name, as `squeeze=1`."""
        controller = f"device.controllers.{side}"
        if "p" in words:
            self.evaluate(f"{controller}.position.set({','.join(map(str, words.pop('p')))})")
        for button, value in words.items():
            self.evaluate(f"{controller}.updateButtonValue('{button.replace('_', '-')}', {value})")

    def point(self, side, x, y):
        """Point a controller at a place of the board [px of its canvas], from where the hand is."""
        # The board is 1.3 m by 0.833 m, 1.05 m from the eyes and 38 degrees below; see station/src/panel.ts and xr.ts.
        self.evaluate(
            f"""(() => {{
              const a = 38 * Math.PI / 180, u = {x} / 1560 - 0.5, v = 0.5 - {y} / 1000, h = 1.3 * 1000 / 1560;
              const at = [1.3 * u, 1.6 - 1.05 * Math.sin(a) + h * v * Math.cos(a), -1.05 * Math.cos(a) - h * v * Math.sin(a)];
              const c = device.controllers.{side}, d = at.map((w, i) => w - [c.position.x, c.position.y, c.position.z][i]);
              const yaw = Math.atan2(-d[0], -d[2]), pitch = Math.atan2(d[1], Math.hypot(d[0], d[2]));
              const [sy, cy, sp, cp] = [Math.sin(yaw/2), Math.cos(yaw/2), Math.sin(pitch/2), Math.cos(pitch/2)];
              c.quaternion.set(cy * sp, sy * cp, -sy * sp, cy * cp);
            }})()"""
        )


class Server:
    """A `Ground` whose loop runs beside the test: what the page meets where no robot is needed."""

    def __init__(self, **words):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.ground = Ground(**words)
        self.does(self.ground.__aenter__())
        self.url = self.ground.url

    def does(self, work):
        """The outcome of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120.0)

    def show(self, status):
        """Show everybody a status, 20 times a second from now on."""
        self._shown = status
        if not hasattr(self, "_showing"):
            self._showing = asyncio.run_coroutine_threadsafe(self._keep_showing(), self.loop)

    async def _keep_showing(self):
        while True:
            self.ground.server.show(self._shown)
            await asyncio.sleep(0.05)

    def close(self):
        if hasattr(self, "_showing"):
            self._showing.cancel()
        with contextlib.suppress(TimeoutError):
            self.does(self.ground.__aexit__())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10.0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
