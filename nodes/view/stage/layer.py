"""What a layer of the live view is: it names the topics that it wants, draws what arrives, and cleans up.

    class Temperature(Layer):
        wants = (Want("motor_temperature", "sensor_msgs/msg/Temperature"),)

        def __init__(self, stage):
            super().__init__(stage)
            self._text = stage.tab("Devices").add_markdown("")

        def take(self, topic, message, time):
            self._text.content = f"motor: {message.temperature:.1f} degrees Celsius"

The same layer draws a running graph and a recorded bag: messages are read by their fields alone. Page: docs/view.md.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodes.view.stage.stage import Stage

__all__ = ["Keep", "Layer", "Want"]


class Keep(Enum):
    """Which messages of a topic a layer is given."""

    #: the newest at each refresh; nobody waits for a lost one
    NEWEST = "newest"
    #: likewise, and in a replay the past as well, thinned out: for curves over time
    COURSE = "course"
    #: every one from now on: several senders say different things on one topic
    EVERY = "every"
    #: every one, also those from before the page was opened, where the sender keeps them: parameter sets, states
    FACTS = "facts"


@dataclass(frozen=True)
class Want:
    """Topics that a layer wants.

    Attributes:
        topic: its name, relative to the robot's namespace; "*": every topic of the type.
        type: as "sensor_msgs/msg/JointState".
        keep: which of its messages.
        period: between two messages that are taken, at least [s]; 0: at every refresh.
    """

    topic: str
    type: str
    keep: Keep = Keep.NEWEST
    period: float = 0.0


class Layer(ABC):
    """One kind of content. Every call comes from one thread, so that a layer needs no locks.

    Args:
        stage: where it draws. What is drawn by the constructor is there before the first message.
    """

    wants: tuple[Want, ...] = ()

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def take(self, topic: str, message: Any, time: float) -> None:
        """A message has come.

        Args:
            topic: name without the robot's namespace.
            message: of ROS, or of a bag: fields of the same names, arrays as sequences or numpy arrays.
            time: its stamp, or the time of its reception where it has none [s].
        """

    def refresh(self) -> None:
        """Once per refresh, after all layers have taken what came: draw what depends on more than one message."""

    def forget(self) -> None:
        """Time went back (a reset, a slider): drop what has a time in it."""

    def close(self) -> None:
        """Remove what was drawn outside of the stage's own tabs and roots, which the stage removes itself."""
