"""All layers on one page, whoever brings the messages: the running graph (view.py) or a bag (replay.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from config.description import Track
from config.robot import load_robot
from nodes.view.layers_table import layer_classes
from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.robot_shape import RobotShape
from nodes.view.stage.stage import Operator, Stage

if TYPE_CHECKING:
    import viser

__all__ = ["Player", "robot_shape"]


def robot_shape(robot: str) -> RobotShape:
    """What is drawn of a robot, with the tool that its robot.yaml names.

    Args:
        robot: name in config/robots, path of its folder or of a model, or a model's text.

    Raises:
        PlantError: no such robot.
    """
    tool = ""
    with contextlib.suppress(FileNotFoundError, ValueError, OSError):
        description = load_robot(robot)
        if isinstance(description.task, Track):
            tool = description.task.frame
    return RobotShape(robot, tool)


class Player:
    """Hands messages to the layers that want them. One thread at a time.

    Args:
        server: viser's, of a page without content. robot: see `Stage`. operator, reference: likewise.
        extra: layers of others, "module:Class".
        complain: told when a layer fails; the others go on.

    Raises:
        ValueError: a layer that cannot be loaded.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        robot: RobotShape | None,
        operator: Operator | None = None,
        reference: str = "",
        extra: Iterable[str] = (),
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.stage = Stage(server, robot, operator, reference)
        self._complain = complain
        self._complaints: set[str] = set()
        self.layers: list[Layer] = []
        classes = layer_classes(extra)
        self.stage.arrange()
        for kind in classes:
            with self._guarded(kind):
                self.layers.append(kind(self.stage))
        if robot is not None:
            _look_at(server, robot)

    @property
    def wants(self) -> list[Want]:
        """What all layers want, each once."""
        return list(dict.fromkeys(want for layer in self.layers for want in layer.wants))

    def take(self, want: Want, topic: str, message: Any, time: float) -> None:
        """Hand a message to the layers with this want."""
        for layer in self.layers:
            if want in layer.wants:
                with self._guarded(layer):
                    layer.take(topic, message, time)

    def refresh(self) -> None:
        """Draw what has changed, all at once."""
        with self.stage.server.atomic():
            for layer in self.layers:
                with self._guarded(layer):
                    layer.refresh()

    def forget(self) -> None:
        """Time went back."""
        self.stage.forget()
        for layer in self.layers:
            with self._guarded(layer):
                layer.forget()

    def close(self) -> None:
        """Take every layer from the page."""
        for layer in self.layers:
            with contextlib.suppress(Exception):
                layer.close()
        self.layers = []

    @contextlib.contextmanager
    def _guarded(self, layer: Layer | type[Layer]) -> Iterator[None]:
        """A layer that fails is said, once for each reason; the others go on, and the operator's buttons with them."""
        try:
            yield
        except Exception as error:
            name = (layer if isinstance(layer, type) else type(layer)).__name__
            text = f"{name} failed: {error or type(error).__name__}"
            if text not in self._complaints:
                self._complaints.add(text)
                self._complain(text)


def _look_at(server: viser.ViserServer, robot: RobotShape) -> None:
    centre, extent = robot.centre
    camera = server.initial_camera
    camera.look_at = tuple(centre)
    camera.position = tuple(centre + 1.9 * extent * _DIRECTION)
    camera.fov = 0.7


#: from the robot to the camera: in front of it, a little aside and above
_DIRECTION = np.array([0.78, -0.72, 0.36])
