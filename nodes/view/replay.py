"""A recorded bag on the page, with a time slider, through the layers that draw a running graph. Nothing is published.

replay = Replay(BagReader("runs/demo-panda-.../with_refit/bag"), port=8080)
print(replay.url)
replay.run()                  # until Ctrl-C
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nodes.view.player import Player, robot_shape
from nodes.view.stage.layer import Keep, Want
from nodes.view.stage.page import open_page, url_of
from nodes.view.stage.robot_shape import RobotShape
from recording import BagError, BagReader
from sim_core.plant.errors import PlantError

__all__ = ["Replay"]

#: [Hz] of the page, and of what is kept of streams of which the newest message matters
RATE = 12.0
#: [s] of the past that curves are drawn of after a jump, and that several senders' last words are taken from
COURSE, LAST_WORDS = 150.0, 3.0
#: [s] by which the slider may be ahead without everything being drawn anew
JUMP = 1.5
SPEEDS = ("0.25", "0.5", "1", "2", "4")


@dataclass
class _Track:
    """One topic's messages for a want."""

    want: Want
    topic: str  # in the bag
    name: str  # as layers are told
    times: list[float] = field(default_factory=list)  # [s] of the replay, ascending
    data: list[bytes] = field(default_factory=list)


class Replay:
    """See the module's docstring.

    Args:
        bag: to be replayed. port: of the page; 0: a free one. robot: name or path; "": the one that was recorded.
        complain: told when a layer fails.

    Attributes:
        duration: of the bag [s]. time: shown now [s] since the bag's beginning.
        url: of the page.

    Raises:
        BagError: nothing in the bag is shown by any layer, or it is damaged.
        PageError: the port is taken. PlantError: no such robot.
    """

    def __init__(
        self, bag: BagReader, port: int = 0, robot: str = "", complain: Callable[[str], None] = lambda text: None
    ) -> None:
        self._bag = bag
        shape = robot_shape(robot) if robot else _recorded_robot(bag)
        self.server = open_page(port, f"refit · {bag.path.parent.name or bag.path.name}")
        try:
            self._slider = self._controls()
            self.player = Player(self.server, shape, complain=complain)
            self._tracks = self._read()
        except BaseException:
            self.server.stop()
            raise
        self._slider.max = max(round(self.duration, 2), 0.01)
        self.url = url_of("127.0.0.1", self.server.get_port())
        self.time = -1.0
        self._wanted: float | None = 0.0
        self._turn = threading.Condition()
        self._playing, self._closed = True, False
        self.server.on_client_connect(lambda client: self._wake())
        self._play.on_click(lambda event: self._toggle())
        self._slider.on_update(lambda event: self._drag(event))

    def _controls(self) -> Any:
        gui = self.server.gui
        slider = gui.add_slider("time [s]", min=0.0, max=1.0, step=0.01, initial_value=0.0, order=-20)
        self._play = gui.add_button("Pause", icon="player-pause", order=-19)
        self._speed = gui.add_dropdown("speed", SPEEDS, initial_value="1", order=-18)
        return slider

    # -- the bag -----------------------------------------------------------------------------------

    def _read(self) -> list[_Track]:
        """What the layers want, thinned out to what can be seen."""
        tracks = [track for want in self.player.wants for track in self._tracks_of(want)]
        if not tracks:
            raise BagError(
                f"'{self._bag.path}' holds nothing that is shown; recorded: {', '.join(sorted(self._bag.topics)) or 'nothing'}"
            )
        by_topic: dict[str, list[_Track]] = {}
        for track in tracks:
            by_topic.setdefault(track.topic, []).append(track)
        first, self.duration = None, 0.0
        for topic, stamp, data in self._bag.raw(*by_topic):
            first = stamp if first is None else first
            t = max(0.0, 1e-9 * (stamp - first))
            self.duration = max(self.duration, t)
            for track in by_topic[topic]:
                thin = track.want.keep in (Keep.NEWEST, Keep.COURSE)
                if not thin or not track.times or t - track.times[-1] >= max(1.0 / RATE, track.want.period):
                    track.times.append(t)
                    track.data.append(data)
        found = [track for track in tracks if track.times]
        if not found:
            raise BagError(f"'{self._bag.path}' holds no message that is shown")
        return found

    def _tracks_of(self, want: Want) -> list[_Track]:
        if want.topic == "*":
            return [
                _Track(want, topic, topic.lstrip("/"))
                for topic, entry in self._bag.topics.items()
                if entry.message_type == want.type
            ]
        try:
            topic = self._bag.resolve(want.topic)
        except BagError:
            return []
        return [_Track(want, topic, want.topic)] if self._bag.topics[topic].message_type == want.type else []

    # -- time --------------------------------------------------------------------------------------

    def show(self, t: float) -> None:
        """Draw the bag at a time [s] since its beginning; backwards or far ahead, the past is drawn anew.

        Raises:
            BagError: a message cannot be decoded.
        """
        before = self.time
        if t < before or t > before + JUMP:
            self.player.forget()
            before = -1.0
        due: list[tuple[float, _Track, int]] = []
        for track in self._tracks:
            begin, end = bisect_right(track.times, before), bisect_right(track.times, t)
            if track.want.keep is Keep.NEWEST:
                begin = max(begin, end - 1)
            elif before < 0.0 and track.want.keep is not Keep.FACTS:
                past = COURSE if track.want.keep is Keep.COURSE else LAST_WORDS
                begin = max(begin, bisect_right(track.times, t - past))
            due += [(track.times[index], track, index) for index in range(begin, end)]
        for received, track, index in sorted(due, key=lambda each: each[0]):
            message = self._bag.decode(track.topic, track.data[index])
            header = getattr(message, "header", None)
            stamp = received if header is None else header.stamp.sec + 1e-9 * header.stamp.nanosec
            self.player.take(track.want, track.name, message, stamp)
        self.time = t
        self.player.refresh()

    def _toggle(self) -> None:
        with self._turn:
            self._set_playing(not self._playing)
            if self._playing and self.time >= self.duration:
                self._wanted = 0.0
        self._wake()

    def _set_playing(self, playing: bool) -> None:
        self._playing = playing
        self._play.label = "Pause" if playing else "Play"
        self._play.icon = "player-pause" if playing else "player-play"

    def _drag(self, event: Any) -> None:
        if event.client is not None:  # a hand, rather than the replay itself
            with self._turn:
                self._wanted = float(self._slider.value)
            self._wake()

    def _wake(self) -> None:
        with self._turn:
            self._turn.notify_all()

    def run(self) -> None:
        """Play while somebody looks, until `close` or Ctrl-C."""
        last = time.monotonic()
        while not self._closed:
            now = time.monotonic()
            with self._turn:
                wanted, self._wanted = self._wanted, None
                playing, speed = self._playing, float(self._speed.value)
            if wanted is None and playing and self.server.get_clients():
                wanted = min(self.duration, self.time + speed * (now - last))
            last = now
            if wanted is not None:
                self.show(wanted)
                if abs(self._slider.value - wanted) > 1e-3:
                    self._slider.value = round(wanted, 2)
                if playing and wanted >= self.duration:
                    self._set_playing(False)
            with self._turn:
                idle = not (self._playing and self.server.get_clients())
                if self._wanted is None and not self._closed:
                    self._turn.wait(None if idle else 1.0 / RATE)
            if idle:
                last = time.monotonic()

    def close(self) -> None:
        """End `run`, and the page."""
        self._closed = True
        self._wake()
        self.player.close()
        self.server.stop()


def _recorded_robot(bag: BagReader) -> RobotShape | None:
    """By the name that was recorded, else by the recorded description; None: neither can be read here."""
    with contextlib.suppress(BagError, PlantError, OSError, ValueError):
        if name := str(bag.run_info().get("robot") or ""):
            return robot_shape(name)
    with contextlib.suppress(BagError, PlantError, OSError, ValueError):
        return robot_shape(bag.robot_description())
    return None
