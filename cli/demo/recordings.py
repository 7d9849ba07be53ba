"""A bag of this stack as arrays: everything the reports say is computed from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml

from nodes.control.refit_session import Round, config_from, replay
from nodes.framework.joint_state_gate import JointSample, JointStateGate, seconds
from recording import BagReader

__all__ = ["Recording", "Timing", "load"]


@dataclass(frozen=True)
class Timing:
    """How the control loop kept time, seen by the recorder.

    Attributes:
        rate: commands per simulated second [Hz].
        met: share of control periods whose command was there within one period of its state [-].
        missed: number of the others.
        latency: from a state's to its command's reception by the recorder, shape (N,) [s].
        solve: solver's wall time per cycle, shape (N,) [s].
        factor: simulated seconds per second.
    """

    rate: float
    met: float
    missed: int
    latency: np.ndarray
    solve: np.ndarray
    factor: float

    def percentiles(self) -> dict[str, float]:
        """Solve time and latency in milliseconds."""
        return {
            f"{name} p{q}": 1e3 * float(np.percentile(values, q))
            for name, values in (("solve", self.solve), ("latency", self.latency))
            if len(values)
            for q in (50, 95, 99)
        }


@dataclass(frozen=True)
class Recording:
    """One run.

    Attributes:
        path: of the bag. info: run_info, with every node's parameters.
        joint_names, t, received, q, v, effort: joint states in order of arrival, see BagReader.joint_states.
        commands: (stamp, received, effort) rows of joint_command: arrays (C,), (C,), (C, n).
        status: list of controller/status messages. parameters: list of refit/parameters messages.
        halts: (stamp, sentence) of every halt of the supervisor.
        plant_clock: (received, simulated time) of a plant beside emulated devices, shape (K, 2) [s].
    """

    path: Path
    info: dict
    joint_names: tuple[str, ...]
    t: np.ndarray
    received: np.ndarray
    q: np.ndarray
    v: np.ndarray
    effort: np.ndarray
    commands: tuple[np.ndarray, np.ndarray, np.ndarray]
    status: list
    parameters: list
    halts: list[tuple[float, str]]
    plant_clock: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))

    def plant_origin(self) -> float:
        """Stamp at which the plant's time was zero [s]: not 0 where the plant is driven by emulated devices, in real time."""
        running = self.plant_clock[self.plant_clock[:, 1] > 0.0] if len(self.plant_clock) else self.plant_clock
        return float(np.median(running[:, 0] - running[:, 1])) if len(running) else 0.0

    def node(self, name: str) -> dict:
        """Parameters of one node as recorded."""
        return next((values for full, values in self.info["parameters"].items() if full.endswith(name)), {})

    @property
    def scenario(self) -> list[dict]:
        """The hidden changes that the plant was given: the truth that nobody else was told."""
        return yaml.safe_load(self.node("sim_plant").get("scenario") or "") or []

    @property
    def accepted(self) -> list:
        """Accepted parameter sets in order."""
        return [message for message in self.parameters if message.accepted]

    @property
    def refits(self) -> list:
        """Parameter sets that stem from a fit, accepted or not, in order."""
        return [message for message in self.parameters if message.window_end > 0.0]

    def samples(self) -> list[JointSample]:
        """Joint states as the nodes' gate passed them on."""
        return [JointSample(*row) for row in zip(self.t, self.q, self.v, self.effort)]

    def replay(self, model) -> list[tuple[object, Round]]:
        """Every refit of the run once more, from the recorded samples: (published message, round)."""
        return list(replay(model, config_from(self.node("refit_worker")), self.samples(), self.parameters))

    def timing(self, period: float) -> Timing:
        """Rate, deadlines and latencies of the control loop."""
        stamps, received, _ = self.commands
        arrival = dict(zip(np.round(self.t, 6), self.received))
        latency = np.array([r - arrival[key] for s, r in zip(stamps, received) if (key := round(s, 6)) in arrival])
        span = stamps[-1] - stamps[0]
        due = round(span / period) + 1
        # A period without any command is as missed as one whose command came late.
        in_time = int(np.sum(latency <= period))
        # Without the first state, which may have waited long for time to run.
        inside = np.flatnonzero((self.t > stamps[0]) & (self.t <= stamps[-1]))[[0, -1]]
        factor = np.ptp(self.t[inside]) / np.ptp(self.received[inside])
        solve = np.array([message.solve_time for message in self.status if message.solve_time > 0.0])
        return Timing(
            (len(stamps) - 1) / span,
            in_time / max(due, len(stamps)),
            max(due, len(stamps)) - in_time,
            latency,
            solve,
            factor,
        )


def load(folder: Path, names: Sequence[str] | None = None) -> Recording:
    """Read the bag of a run directory.

    Args:
        names: joints of interest, in order (a driver may publish more, a gripper's); None: all.

    Raises:
        BagError: missing, unreadable, or without the topics needed.
    """
    bag = BagReader(Path(folder) / "bag")
    bag.require("joint_states", "joint_command", "controller/status")
    gate, joints = None, [[], [], [], [], []]
    for received, message in bag.messages("joint_states"):
        gate = gate or JointStateGate(names or message.name)
        sample, _ = gate.read(message)
        if sample is not None:
            for column, value in zip(
                joints, (sample.stamp, 1e-9 * received, sample.position, sample.velocity, sample.effort)
            ):
                column.append(value)
    commands = [
        (seconds(m.header.stamp), 1e-9 * received, np.array(m.effort)) for received, m in bag.messages("joint_command")
    ]
    halts = (
        [(seconds(m.header.stamp), m.message) for _, m in bag.messages("supervisor/status") if m.state == 4]
        if bag.has("supervisor/status")
        else []
    )
    parameters = [m for _, m in bag.messages("refit/parameters")] if bag.has("refit/parameters") else []
    clock = (
        np.array([(1e-9 * received, seconds(m.clock)) for received, m in bag.messages("sim_plant/clock")])
        if bag.has("sim_plant/clock")
        else np.empty((0, 2))
    )
    return Recording(
        bag.path,
        bag.run_info(),
        gate.joint_names,
        *(np.array(column) for column in joints),
        tuple(np.array(column) for column in zip(*commands)),
        [m for _, m in bag.messages("controller/status")],
        parameters,
        halts,
        clock,
    )
