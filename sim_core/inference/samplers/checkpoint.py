"""Where a long run stands, as a file of plain arrays: one that stopped goes on as if it had not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from config.whole_file import whole_file
from sim_core.inference.samplers.sampler import Run

__all__ = ["Checkpoint"]


class Checkpoint:
    """A run's state in `path` (.npz, nothing pickled), written every `every` iterations and when it is told to stop.

    Args:
        path: None: nothing is ever kept.
        identity: what must be equal for a run to go on (method, sizes, seed, options); plain data.
    """

    def __init__(self, path: str | Path | None, identity: dict, every: int = 50) -> None:
        self.path = None if path is None else Path(path)
        self.every, self._identity = every, json.loads(json.dumps(identity, default=_plain))

    def due(self, iteration: int) -> bool:
        return self.path is not None and iteration % self.every == 0

    def save(self, run: Run, iteration: int, arrays: dict[str, np.ndarray]) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        head = {"identity": self._identity, "iteration": iteration, "run": run.state()}
        with whole_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, head=np.array(json.dumps(head)), **arrays)

    def load(self, run: Run) -> tuple[int, dict[str, np.ndarray]] | None:
        """(iterations done, arrays) of the run that stopped here, whose bookkeeping `run` takes over; None: none has.

        Raises:
            ValueError: the file is damaged, or belongs to another run.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            head = json.loads(str(arrays.pop("head")))
        except Exception as error:
            raise ValueError(f"{self.path} is no readable checkpoint ({error}); delete it to start afresh") from None
        other = [k for k in self._identity if head["identity"].get(k) != self._identity[k]]
        if other:
            was = ", ".join(f"{k} {head['identity'].get(k)} there, {self._identity[k]} here" for k in other)
            raise ValueError(f"the checkpoint {self.path} is of another run ({was}); name another file or delete it")
        run.restore(head["run"])
        return head["iteration"], arrays


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
