"""Several recordings of one robot as training and held-out trajectories of equal length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from identification.bag_data import Bag, Table, read_description, read_windows
from identification.errors import UnusableInput
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.data.window import Window
from sim_core.inference.fit.free_names import model_with
from sim_core.multibody import RobotModel

__all__ = ["cut", "read_recordings"]

# A recording that is shorter than five trajectories is cut into five all the same.
PIECES = 5


def cut(windows: Sequence[Window], length: float, held_out: float) -> tuple[Trajectories, Trajectories]:
    """Windows (in order of time) as trajectories of equal length, in seconds: the earlier ones and the last share.

    Raises:
        UnusableInput: they hold fewer than two.
    """
    dt, total = windows[0].dt, sum(w.transitions for w in windows)
    steps = min(round(length / dt), max(total // PIECES, 2))
    pieces = [w.slice(at, at + steps) for w in windows for at in range(0, w.transitions - steps + 1, steps)]
    if len(pieces) < 2 or steps < 2:
        raise UnusableInput(
            f"the recording holds {len(pieces)} stretches of {steps * dt:g} s without gaps, expected at least two: "
            "one to infer from and one to judge by; record longer or choose a shorter length"
        )
    count = max(1, round(held_out * len(pieces)))
    together = Trajectories(dt, np.array([w.x for w in pieces]), np.array([w.u for w in pieces]))
    return together.pick(slice(None, -count)), together.pick(slice(-count, None))


def read_recordings(
    recordings: Iterable[Bag | Table], robot: str = "", begin: float = 0.0, end: float = np.inf
) -> tuple[str, RobotModel, list[Window], list[str]]:
    """(what load_model takes, nominal model, windows in order of time, notes) of recordings of one robot.

    Args:
        recordings: of `recording.open_recording`. robot: of tables, and what a bag must have been recorded with.
        begin, end: stretch of each to use [s].

    Raises:
        UnusableInput: none, of different robots or periods, or one that cannot be used.
    """
    source = ""
    nominal: RobotModel | None = None
    windows: list[Window] = []
    notes: list[str] = []
    for recording in recordings:
        if isinstance(recording, Bag):
            model, text = read_description(recording, robot or None)
        elif not robot:
            raise UnusableInput("a table holds no robot; name it with --robot")
        else:
            model, text = model_with(robot, []), robot
        if nominal is not None and model.hash != nominal.hash:
            raise UnusableInput(
                f"the recordings are of two robots: '{nominal.name}' and '{model.name}', or two versions of one"
            )
        nominal, source = model, text
        data = read_windows(recording, model, begin, end)
        if windows and not np.isclose(windows[0].dt, data.dt, rtol=1e-6):
            raise UnusableInput(
                f"the recordings have different periods: {windows[0].dt * 1e3:g} and {data.dt * 1e3:g} ms"
            )
        windows += data.windows
        notes += data.notes
    if nominal is None:
        raise UnusableInput("no recordings; name at least one bag or table")
    return source, nominal, windows, notes
