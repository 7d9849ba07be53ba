"""Which physical parameters the controller uses, and why: refit, last good, nominal, or a person's.

Pure. The refit is never trusted further than one message: a set that is not finite, of another
model or not physical is refused; a refit that falls silent leaves its last good set in force for
a while, after which the nominal one returns. Control goes on in every case.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

__all__ = ["ParameterBook", "Source", "other_model"]


class Source(IntEnum):
    """Values of refit_interfaces/ControllerStatus.parameters_source."""

    NOMINAL = 0
    REFIT = 1
    LAST_GOOD = 2


def other_model(found: str, here: str) -> str:
    """Why numbers of the model with the hash `found` are not for the one `here`, or "". An empty `found` is taken on trust.

    What is behind the plus in a hash stands for the networks in the equations (sim_core.augmentation).
    """
    if not found or found == here:
        return ""
    (base, _, theirs), (mine, _, ours) = found.partition("+"), here.partition("+")
    if base != mine:
        return f"made for another model (hash {base[:12]}, here {mine[:12]})"
    said = [f"networks {networks[:12]}" if networks else "no networks" for networks in (theirs, ours)]
    return f"computed with {said[0]} in the model, here are {said[1]}"


class ParameterBook:
    """The set in force, the nominal set, and the rules between them.

    Args:
        robot, model_hash: what an offered set must have been made for, networks included; a set with an empty hash
            is taken by its name and length alone.
        start: physical vector to start from and to return to, shape (np_,).
        silence_limit: the refit counts as silent after this long without any proposal [s]; 0: never.
        nominal_after: after this much silence the nominal set returns [s].
        objection: callable p -> sentence why p is not physical, or "".

    Attributes:
        p, revision, source, since: the set in force, (np_,) or one for each particle (N, np_), and the time it came into
            force [s].
        message: one sentence about the last thing that happened.
    """

    def __init__(
        self,
        robot: str,
        model_hash: str,
        start,
        silence_limit: float = 0.0,
        nominal_after: float = 10.0,
        objection: Callable[[np.ndarray], str] = lambda p: "",
    ) -> None:
        self.robot, self.model_hash, self.objection = robot, model_hash, objection
        self.nominal = np.array(start, dtype=float)
        self._size = self.nominal.size
        self.silence_limit, self.nominal_after = silence_limit, nominal_after
        self.frozen = False
        self.p, self.revision, self.source, self.since = self.nominal, 0, Source.NOMINAL, 0.0
        self.message = "nominal parameters"
        self._good: tuple[np.ndarray, int] | None = None
        self._heard: float | None = None  # when the refit last said something sensible

    def offer(self, message, now: float) -> str:
        """Take a ParameterSet from the refit; returns "" or why it is not used."""
        # A refit of another model is no sign of life of one for this: not even its rejected proposals count.
        why = self._refusal(message, message.vector) if message.accepted else self._stranger(message)
        if why:
            self._fall_back(f"parameter set {message.revision} refused: {why}; the last good set stays")
            return why
        self._hear(now)
        if not message.accepted:
            return "a rejected proposal, published for the record"
        if self.frozen:
            return "frozen"
        self._good = np.array(message.vector, dtype=float), int(message.revision)
        self._use(*self._good, Source.REFIT, now, f"revision {message.revision} from the refit")
        return ""

    def set_by_person(self, message, now: float) -> tuple[int, str]:
        """Take a ParameterSet from a service call; returns (revision in force, "" or the refusal).

        It becomes what "nominal" means from now on: a person's word outlives the refit.
        """
        why = self._refusal(message, message.vector)
        if why:
            return self.revision, why
        return self._set(np.array(message.vector, dtype=float), int(message.revision), now, "set by a person"), ""

    def set_particles(self, message, vectors, now: float) -> tuple[int, str]:
        """Take vectors (N, np_) of a ParticleSet, as `set_by_person` takes one."""
        for vector in vectors:
            if why := self._refusal(message, vector):
                return self.revision, why
        return self._set(np.array(vectors, dtype=float), 0, now, f"{len(vectors)} particles"), ""

    def tick(self, now: float) -> bool:
        """Judge the refit's silence; True if that changed anything."""
        if self.silence_limit <= 0.0 or self._heard is None or self.source is Source.NOMINAL:
            return False
        silence = now - self._heard
        if silence > self.nominal_after:
            self._use(
                self.nominal, 0, Source.NOMINAL, now, f"refit silent for {silence:.1f} s: back to nominal parameters"
            )
            return True
        if silence > self.silence_limit and self.source is Source.REFIT:
            self._fall_back(f"refit silent for {silence:.1f} s: on its last good parameters (revision {self.revision})")
            return True
        return False

    def silent(self, now: float, why: str) -> None:
        """The caller knows by other means that the refit is gone (an unanswered request)."""
        self._fall_back(f"{why}: on the last good parameters (revision {self.revision})")

    def model_changed(self, model_hash: str) -> None:
        """Networks were exchanged: a refit of the model before stays as the last good set until there is one of this model."""
        self.model_hash, self._good = model_hash, None
        self._fall_back(f"the networks were exchanged: on the last good parameters (revision {self.revision})")

    def time_jumped(self, now: float) -> None:
        """Ages start anew; what was learnt stays, physics does not change with a reset."""
        self.since = now
        if self._heard is not None:
            self._heard = now

    def age(self, now: float) -> float:
        """Time since the set in force arrived [s]."""
        return max(0.0, now - self.since)

    # -- internals ---------------------------------------------------------------------------------

    def _set(self, p: np.ndarray, revision: int, now: float, what: str) -> int:
        revision = max(revision, self.revision + 1)
        self.nominal = p
        self._use(p, revision, Source.NOMINAL, now, f"revision {revision} {what}")
        return revision

    def _stranger(self, message) -> str:
        if message.robot != self.robot:
            return f"made for robot '{message.robot}', this is '{self.robot}'"
        return other_model(message.model_hash, self.model_hash)

    def _refusal(self, message, vector) -> str:
        vector = np.asarray(vector, dtype=float)
        if why := self._stranger(message):
            return why
        if vector.shape != (self._size,):
            return f"{vector.size} numbers, the model has {self._size}"
        if not np.all(np.isfinite(vector)):
            return f"{np.count_nonzero(~np.isfinite(vector))} of {vector.size} numbers are not finite"
        return self.objection(vector)

    def _hear(self, now: float) -> None:
        self._heard = now
        if self.source is not Source.REFIT and self._good is not None and not self.frozen:
            # It was silent, or its last set was bad, and now it speaks sense again: what it works
            # from is the last set it had accepted, so the controller returns to the same.
            self._use(*self._good, Source.REFIT, now, f"the refit is back: revision {self._good[1]}")

    def _fall_back(self, message: str) -> None:
        self.message = message
        if self.source is Source.REFIT:
            self.source = Source.LAST_GOOD

    def _use(self, p, revision: int, source: Source, now: float, message: str) -> None:
        self.p, self.revision, self.source, self.since, self.message = p, revision, source, now, message
