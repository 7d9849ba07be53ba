"""An operator who does tasks by a script: eyes that see what the robot sends, hands that lead, and no other knowledge.

    operator = ScriptedOperator(press_lever, seed=0)          # a script of `task_scripts`
    Rehearsed(operator, rehearse("switch", 0)).until(60.0)

A script is a generator: it sets where the hands shall lead to, waits by `yield`, and looks again. What it sees is 20 looks a second, as
old as the link makes them. He errs as people do: by a few millimetres where he sees something, by a tremor of his hand, and his
arm is not endless, so that he opens the clutch, takes his hand back and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from experiments.problems.teleoperation import Seen
from sim_core.telepresence.clutch import OPENXR, Pose
from sim_core.telepresence.link_ends import Devices
from sim_core.telepresence.session import State
from sim_core.telepresence.turns import rotation_matrix, rotation_vector

__all__ = ["AHEAD", "Script", "ScriptedOperator"]

Waiting = Generator[None, None, None]
Script = Callable[["ScriptedOperator"], Waiting]

#: a hand that looks straight ahead: x up, z forward
AHEAD = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
#: of the hand over what is seen to be missing [1/s]; its speeds [m/s], [rad/s]
GAIN, SPEED, TURNING = 1.2, 0.18, 0.7
#: from where it began to where his arm ends [m]; time for which the clutch is open then [s]
ARM, REGRIP = 0.35, 0.4
#: deviation of where he sees something [m], of his tremor [m], and its time constant [s]
EYE, TREMOR, TREMBLING = 0.002, 0.001, 0.15
#: full stick over what is missing [1/m], and what he pushes at least, beyond the stick's dead zone
STICK_GAIN, STICK_LEAST = 3.0, 0.12


class ScriptedOperator:
    """See the module's docstring.

    Args:
        script: what he does. seed: of his errors.

    Attributes:
        now: [s]. seen: the newest look. goal: where the right end effector shall be, in the frame of the robot's base; None: he leads nothing.
        grip: of the right trigger, 0 open to 1. stick: forward, left, anticlockwise, -1 to 1.
        buttons: to be pressed next. ended: whether the script has.
    """

    def __init__(self, script: Script, seed: int = 0) -> None:
        self.now, self.grip, self.ended = 0.0, 0.0, False
        self.goal: Pose | None = None
        self.stick = (0.0, 0.0, 0.0)
        self.buttons: list[str] = []
        self._seen: Seen | None = None
        self._rng = np.random.default_rng([seed, 77])
        self._errors: dict[str, np.ndarray] = {}
        self._rest = np.array([0.0, -0.2, 1.0])
        self._hand, self._turn = self._rest.copy(), np.eye(3)
        self._tremor, self._open_until, self._acted = np.zeros(3), 0.5, 0.0
        self._script = script(self)

    # -- what a script calls -------------------------------------------------------------------------

    @property
    def seen(self) -> Seen:
        """The newest look; scripts begin when there is one."""
        assert self._seen is not None
        return self._seen

    @property
    def effector(self) -> Pose:
        """The right end effector in the frame of the robot's base, as seen."""
        return self.seen.effectors[0]

    def see(self, name: str) -> Pose:
        """Something that the cameras show, in the frame of the robot's base, a little off."""
        if name not in self._errors:
            self._errors[name] = EYE * self._rng.standard_normal(3)
        pose = self.seen.picture[name]
        return Pose(pose.position + self._errors[name], pose.rotation)

    def wait(self, seconds: float) -> Waiting:
        """Do nothing else for so long [s]."""
        end = self.now + seconds
        while self.now < end:
            yield

    def reach(
        self,
        goal: Callable[[], Pose],
        near: float = 0.012,
        turned: float = 0.12,
        patience: float = 20.0,
        rests: float = 0.25,
    ) -> Waiting:
        """Lead the right end effector there, looking again all the time.

        Args:
            goal: where, in the frame of the robot's base. near, turned: that is close enough [m], [rad], for `rests` [s].
            patience: after which he goes on all the same [s].
        """
        end, since = self.now + patience, None
        while self.now < end:
            self.goal = goal()
            away, turn = _apart(self.goal, self.effector)
            if np.linalg.norm(away) < near and np.linalg.norm(turn) < turned:
                since = self.now if since is None else since
                if self.now - since >= rests:
                    return
            else:
                since = None
            yield

    def close(self, grip: float, seconds: float = 1.2) -> Waiting:
        """Move the trigger, and wait for the fingers [s]."""
        self.grip = grip
        yield from self.wait(seconds)

    def ask(self, button: str, patience: float = 5.0) -> Generator[None, None, float]:
        """Press a button with the clutch open, and wait for the robot's word; NaN: there is none."""
        before, self.goal = self.seen.words.get(button, np.nan), None
        yield from self.wait(0.8)  # what shall be measured has to be at rest
        self.buttons.append(button)
        end = self.now + patience
        while self.now < end:
            yield
            word = self.seen.words.get(button, np.nan)
            if np.isfinite(word) and word != before:
                return word
        return np.nan

    def drive(
        self, missing: Callable[[], tuple[float, float, float]], near: float = 0.02, patience: float = 60.0
    ) -> Waiting:
        """Push the stick after what is missing: forward, left [m] and anticlockwise [rad], as seen, until it is less than `near`."""
        end = self.now + patience
        while self.now < end:
            wanted = np.array(missing())
            if np.abs(wanted).max() < near:
                break
            pushed = np.sign(wanted) * STICK_LEAST + STICK_GAIN * wanted
            self.stick = tuple(np.where(np.abs(wanted) < 0.5 * near, 0.0, np.clip(pushed, -1.0, 1.0)).tolist())
            yield
        self.stick = (0.0, 0.0, 0.0)
        yield from self.wait(0.8)

    # -- what the robot's side calls -----------------------------------------------------------------

    def act(self, now: float, seen: Seen | None) -> tuple[Devices, tuple[str, ...]]:
        dt, self.now, self._seen = now - self._acted, now, seen
        self._acted = now
        if seen is not None and not self.ended:
            try:
                next(self._script)
            except StopIteration:
                self.ended, self.goal, self.stick = True, None, (0.0, 0.0, 0.0)
        clutched = self._lead(dt)
        pressed, self.buttons = tuple(self.buttons), []
        level = Pose(np.zeros(3), np.eye(3))
        hand = Pose(OPENXR.T @ (self._hand + self._tremor), OPENXR.T @ self._turn @ OPENXR)
        left = Pose(OPENXR.T @ np.array([0.0, 0.2, 1.0]), np.eye(3))
        return Devices(level, (hand, left), (clutched, False), (self.grip, 0.0), self.stick), pressed

    def _lead(self, dt: float) -> bool:
        """Move the hand; whether the clutch is pressed."""
        decay = np.exp(-dt / TREMBLING)
        self._tremor = decay * self._tremor + TREMOR * np.sqrt(1.0 - decay**2) * self._rng.standard_normal(3)
        if self._seen is None or self.goal is None:
            return False
        if self._seen.state is State.HANDSHAKE:
            self._open_until = max(self._open_until, self.now + REGRIP)
        if self.now < self._open_until:
            # With the clutch open nothing follows: the hand goes back to where it is comfortable.
            self._hand, self._turn = self._rest.copy(), np.eye(3)
            return False
        away, turn = _apart(self.goal, self.effector)
        self._hand = self._hand + dt * _limited(GAIN * away, SPEED)
        self._turn = rotation_matrix(dt * _limited(GAIN * turn, TURNING)) @ self._turn
        if np.linalg.norm(self._hand - self._rest) > ARM:
            self._open_until = self.now + REGRIP
        return True


def _apart(goal: Pose, pose: Pose) -> tuple[np.ndarray, np.ndarray]:
    """Way (3,) [m] and turn (3,) [rad] from a pose to a goal, in the axes of what both are given in."""
    turn = rotation_vector(goal.rotation @ pose.rotation.T)
    return goal.position - pose.position, turn


def _limited(velocity: np.ndarray, most: float) -> np.ndarray:
    size = float(np.linalg.norm(velocity))
    return velocity if size <= most else velocity * (most / size)
