"""Which part of a recording is of the robot as it is now: particles are of one robot, and a recording may hold two."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from identification.errors import UnusableInput
from reporting import Progress
from sim_core.augmentation import Blueprint, attaching
from sim_core.inference.data.window import Window
from sim_core.inference.fit.change_point import ChangeConfig, find_changes
from sim_core.inference.fit.free_names import DELAY, free_parameters
from sim_core.inference.fit.identify import IdentifyConfig, dynamics_at, shooting_problem
from sim_core.inference.fit.stretches import cut_at
from sim_core.inference.shooting.shooting import DelayPrior

__all__ = ["SHORTEST", "since_last_change"]

#: [s] of data after the last change, as many as a short trajectory to learn from and one to judge by take
SHORTEST = 1.0


def since_last_change(
    source: str,
    windows: list[Window],
    free: Sequence[str],
    networks: tuple[Blueprint, ...] = (),
    detect: ChangeConfig = ChangeConfig(),
    progress: Progress | None = None,
) -> tuple[list[Window], list[str]]:
    """The windows after the last change of the robot, and a sentence about it; all of them and none where it did not change.

    Args:
        source: what load_model takes. windows: of one recording, in order of time.
        free: what may have changed, names as for `free_parameters`.

    Raises:
        FreeNameError: the robot has no such quantity.
        UnusableInput: what follows the change is too short.
    """
    # Particles know no delay of the sensors, and one that is there must not hide a change.
    model, spec, _ = free_parameters(source, [*free, *([] if DELAY in free else [DELAY])], attaching(networks))
    config = replace(IdentifyConfig(), delay=DelayPrior())
    problem = shooting_problem(dynamics_at(model, windows[0].dt), spec, windows, config.segment_time, config)
    with progress.stage("looking for changes of the robot") if progress else nullcontext():
        changes = find_changes(problem, windows, detect)
    if not changes:
        return windows, []
    last = changes[-1]
    after = cut_at(windows, changes, detect.margin)[-1]
    found = f"The robot changed at {last.time:.3f} s ({last.lower:.3f} .. {last.upper:.3f} s)"
    if (left := sum(w.transitions * w.dt for w in after)) < SHORTEST:
        raise UnusableInput(
            f"{found}, and {left:.2f} s follow where {SHORTEST:g} s are needed; record longer, ask for what it was before (--to "
            f"{last.lower - detect.margin:.3f}), or take all of it for one robot (--changes off)"
        )
    return after, [f"{found}; this is of what came after it (--changes off takes all of the recording for one robot)."]
