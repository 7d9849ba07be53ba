"""Where layers draw: the scene with the robot in it, tabs for plots and tables, and who answers the operator's buttons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from nodes.view.stage.frames import Frames
from nodes.view.stage.robot_shape import RobotShape

if TYPE_CHECKING:
    import viser

__all__ = ["Operator", "Stage", "TABS"]

#: presses a verb of the supervisor: (verb, what is done with its answer: whether it was granted, and the sentence)
Operator = Callable[[str, Callable[[bool, str], None]], None]

#: [s] beyond which a stamp is the time of day
TIME_OF_DAY = 1e8
#: tabs of the page, in this order; others come after them
TABS = ("Motion", "Learnt", "Sensors", "Devices")


class Stage:
    """See the module's docstring.

    Args:
        server: viser's. robot: what is drawn of the robot; None: nothing is known of it.
        operator: asks the supervisor; None: there is none to ask, as in a replay.
        reference: bag of an earlier run that is drawn beside this one; "": none.

    Attributes:
        frames: where frames are, by the robot's joints and by what is published.
        time: of the newest joint state [s].
    """

    def __init__(
        self,
        server: viser.ViserServer,
        robot: RobotShape | None,
        operator: Operator | None = None,
        reference: str = "",
    ) -> None:
        self.server, self.robot, self.operator, self.reference = server, robot, operator, reference
        self.scene, self.gui = server.scene, server.gui
        self.frames = Frames(robot)
        self.time = 0.0
        self._first = math.inf
        self._tabs: viser.GuiTabGroupHandle | None = None
        self._by_title: dict[str, viser.GuiTabHandle] = {}
        self._switches: viser.GuiFolderHandle | None = None

    def elapsed(self, time: float) -> float:
        """What a person is told of a stamp [s]: simulated time as it is, the time of day from the first stamp on."""
        return time - self.elapsed_from(time)

    def elapsed_from(self, time: float) -> float:
        """The stamp that counts as zero, see `elapsed` [s]."""
        if time < TIME_OF_DAY:
            return 0.0
        self._first = min(self._first, time)
        return self._first

    def forget(self) -> None:
        """Time went back."""
        self._first = math.inf

    def arrange(self) -> None:
        """Make the standing parts of the panel: below what has been added until now come switches and tabs."""
        self._switches = self.gui.add_folder("Show", expand_by_default=False)
        self._tabs = self.gui.add_tab_group()
        for title in TABS:
            self._tab(title)

    def _tab(self, title: str) -> viser.GuiTabHandle:
        assert self._tabs is not None, "arrange() comes before the first tab"
        if title not in self._by_title:
            self._by_title[title] = self._tabs.add_tab(title)
        return self._by_title[title]

    def tab(self, title: str) -> viser.GuiTabHandle:
        """A tab of the page, made when it is first asked for: `with stage.tab("Sensors"): stage.gui.add_...`."""
        return self._tab(title)

    def root(self, name: str, label: str, visible: bool = True) -> viser.FrameHandle:
        """A node of the scene in world axes with a switch in the page; a layer draws below `/<name>`.

        Args:
            name: of the node, without slash. label: of the switch.
        """
        node = self.scene.add_frame(f"/{name}", show_axes=False, visible=visible)
        if self._switches is not None:
            with self._switches:
                switch = self.gui.add_checkbox(label, visible)

            @switch.on_update
            def _(_) -> None:
                node.visible = switch.value

        return node
