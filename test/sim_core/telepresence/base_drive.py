"""The avatar's base among things, moved as it is told with the delay that it may have: true shapes, true cones, no forces."""

from collections import deque

import mujoco
import numpy as np

from config.robot import load_robot
from sim_core.plant.rangefinders import Rangefinders, rangefinders_of
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.omni_base import OmniBase
from sim_core.telepresence.range_readings import RangeReadings

ROBOT, DT = "avatar", 0.008
#: [s] by which the base obeys later than it is told
LATE = 0.06


def post(x, y, half=0.05):
    """Square, as wide as twice `half` [m], 1 m high."""
    return f'<geom name="thing{x:.3f}{y:.3f}" type="box" pos="{x} {y} 0.5" size="{half} {half} 0.5"/>'


def wall(bearing, distance):
    """8 m wide, its face so far from the base's middle [m], square to the bearing [rad]."""
    x, y = (distance + 0.05) * np.cos(bearing), (distance + 0.05) * np.sin(bearing)
    return f'<geom name="thing{bearing:.3f}" type="box" pos="{x} {y} 0.5" size="0.05 4 0.5" euler="0 0 {bearing}"/>'


class BaseDrive:
    """`things`: geoms whose names begin with "thing"."""

    def __init__(self, avatar: Avatar, *things: str, seed=0):
        spec = mujoco.MjSpec.from_file(str(load_robot(ROBOT).model))
        inner = mujoco.MjSpec.from_string(
            f"<mujoco><compiler angle='radian'/><worldbody><body name='b'>{''.join(things)}</body></worldbody></mujoco>"
        )
        spec.worldbody.add_frame().attach_body(inner.body("b"), "x_", "")
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.finders = Rangefinders(self.model, rangefinders_of(ROBOT), seed)
        self.readings = RangeReadings(0.3)
        avatar.look_with(avatar.own_rangefinders())
        self.base: OmniBase = avatar.base
        self.pose, self.t, self.silent = np.zeros(3), 0.0, ()
        self._told = deque([np.zeros(3)] * round(LATE / DT))
        body = self.model.body("base").id
        self._own = [g for g in range(self.model.ngeom) if self.model.geom_bodyid[g] == body]
        self._things = [g for g in range(self.model.ngeom) if self.model.geom(g).name.startswith("x_thing")]
        self._place()

    def _place(self):
        self.data.qpos[:3] = self.pose
        mujoco.mj_kinematics(self.model, self.data)

    def put(self, x, y):
        """All things elsewhere, by so much from where they were made [m]."""
        self.model.body("x_b").pos[:2] = x, y
        self._place()

    def clearance(self):
        """Between any shape of the base and any thing [m]."""
        pairs = [(a, b) for a in self._own for b in self._things]
        return min((mujoco.mj_geomDistance(self.model, self.data, a, b, 2.0, None) for a, b in pairs), default=np.inf)

    def run(self, stick, seconds, each=None):
        """(least clearance [m], motion at the end (3,))."""
        least, k = np.inf, 0
        end = self.t + seconds
        while self.t < end - 1e-9:
            for one in self.finders.read(self.t, lambda: (self.model, self.data)):
                if one.site not in self.silent:
                    self.readings.hear(one.site, one.range, one.stamp, self.t)
            self._told.append(self.base.follow(stick, self.readings.fresh(self.t), DT).copy())
            forward, left, turn = self._told.popleft()
            heading = self.pose[2] + 0.5 * turn * DT
            c, s = np.cos(heading), np.sin(heading)
            self.pose += DT * np.array([c * forward - s * left, s * forward + c * left, turn])
            self.t += DT
            self._place()
            if k % 5 == 0:
                least = min(least, self.clearance())
            if each is not None:
                each(self)
            k += 1
        return min(least, self.clearance()), self.base.velocity.copy()
