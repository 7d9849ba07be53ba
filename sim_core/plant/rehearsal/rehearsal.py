"""A task before a simulated robot, and the judge who watches it.

    rehearsal = rehearse("canisters", seed=3)               # with `MujocoPlant("avatar", rehearsal=rehearsal)`
    rehearsal.progress.sentence                             # what is to be done next

The judge looks at the true world 50 times a second and touches nothing; the robot learns nothing from it.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from sim_core.plant.rehearsal.scene_view import SceneView
from sim_core.plant.rehearsal.task import Progress, Task
from sim_core.plant.scene import Entity

__all__ = ["Rehearsal"]

#: [s] between two looks
LOOK = 0.02
#: bodies of a robot that judges look at
NEEDED = ("base", "right_palm")


class Rehearsal:
    """See the module's docstring.

    Args:
        task: to be done.

    Attributes:
        progress: as the judge saw it last.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._view: SceneView | None = None
        self.reset()

    @property
    def scenery(self) -> tuple[Entity, ...]:
        """What stands there."""
        return self.task.scenery

    def pictured(self) -> tuple[Entity, ...]:
        """The same for who draws it: textured faces are there, which nothing touches."""
        from sim_core.plant.textured_plate import drawn_face  # only for pictures

        entities = []
        for entity in self.task.scenery:
            face = self.task.faces.get(entity.name)
            if face is not None:
                asset, geom = drawn_face(face.surface, face.half, np.array(face.middle), np.array(face.axes))
                content = str(entity.content).replace("<worldbody>", f"<asset>{asset}</asset><worldbody>{geom}", 1)
                entity = dataclasses.replace(entity, content=content)
            entities.append(entity)
        return tuple(entities)

    def reset(self) -> None:
        """The task is set up anew."""
        self._done, self._looked = 0, float("-inf")
        self._began: float | None = None
        self._held: float | None = None
        self.progress = self._progress(self.task.steps[0].sentence, 0.0)

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """The world is another one, or was put elsewhere.

        Raises:
            PlantError: the robot is none whose doing could be judged.
        """
        self._view = SceneView(model, data)
        mujoco.mj_kinematics(model, data)
        for body in (*self.task.shown, *NEEDED):
            self._view.position(body)
        self._looked = t  # what touches what is known after steps from here

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Look, if it is time."""
        if t < self._looked + LOOK - 1e-9:
            return
        if self._view is None or self._view.model is not model:
            self._view = SceneView(model, data)
        self._looked = t
        self._judge(self._view, t)

    def _judge(self, view: SceneView, t: float) -> None:
        before = self.progress
        if before.done or before.failed:
            return
        if self._began is None:
            self._began = t
        elapsed = t - self._began
        for failure in self.task.failures:
            if failure.happened(view):
                self.progress = self._progress(failure.sentence, elapsed, failed=True)
                return
        step = self.task.steps[self._done]
        if not step.holds(view):
            self._held = None
        else:
            self._held = t if self._held is None else self._held
            if t - self._held >= step.seconds - 1e-9:
                self._done, self._held = self._done + 1, None
        if self._done == len(self.task.steps):
            self.progress = self._progress(f"Done: {self.task.title}.", elapsed)
        else:
            self.progress = self._progress(self.task.steps[self._done].sentence, elapsed)

    def _progress(self, sentence: str, elapsed: float, failed: bool = False) -> Progress:
        steps = self.task.steps
        return Progress(self._done, len(steps), sentence, self._done == len(steps), failed, elapsed)
