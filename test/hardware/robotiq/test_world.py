"""G4 against the simulator: the fingers are a joint in MuJoCo, and the driver's width is the gap between the simulated pads."""

import threading
import time

import mujoco
import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.emulation.world import SharedWorld
from hardware.robotiq.device import RobotiqGripper
from hardware.robotiq.protocol import Contact

STROKE = 0.085
PATIENCE = 90.0  # [s]
MJCF = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast" gravity="0 0 0"/>
  <default><geom type="box" solref="0.004 1" solimp="0.98 0.999 0.0001"/></default>
  <worldbody>
    <geom name="fixed_pad" size="0.005 0.01 0.01" pos="-0.005 0 0"/>
    <geom name="object" size="0.020 0.01 0.01" pos="0.020 0 0"/>
    <body name="finger">
      <joint name="finger_joint" type="slide" axis="-1 0 0" range="0 0.085" damping="2"/>
      <geom name="moving_pad" size="0.005 0.01 0.01" pos="0.090 0 0" mass="0.3"/>
    </body>
  </worldbody>
</mujoco>
"""


class Plant:
    """MuJoCo, no faster than real time: state out, efforts in.

    It goes on for at most STEPS after each word of the gripper, so that neither runs away while a busy machine holds the
    other.
    """

    STEPS = 10  # of the simulation: two turns of the gripper

    def __init__(self, path):
        self.model = mujoco.MjModel.from_xml_string(MJCF)
        self.data = mujoco.MjData(self.model)
        self.world = SharedWorld.create(path, ["finger_joint"], MJCF)
        mujoco.mj_forward(self.model, self.data)
        self.world.publish(0.0, self.data.qpos, self.data.qvel)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(5.0)

    def _run(self):
        began, heard, steps = time.monotonic(), 0, 0
        while not self._stop.is_set():
            words = int(self.world._effort_counts[0])
            if words != heard:
                heard, steps = words, self.STEPS
            if steps and self.data.time < time.monotonic() - began:
                self.data.qfrc_applied[:] = self.world.efforts(age_limit=float("inf"))[0]
                mujoco.mj_step(self.model, self.data)
                self.world.publish(self.data.time, self.data.qpos, self.data.qvel)
                steps -= 1
            else:
                time.sleep(0.001)

    @property
    def gap(self):
        """Between the faces of the pads [m]."""
        pads = [self.data.geom(name).xpos[0] for name in ("fixed_pad", "moving_pad")]
        return float(abs(pads[1] - pads[0]) - 0.010)


@pytest.fixture
def plant(tmp_path):
    with Plant(tmp_path / "world") as plant:
        yield plant


def test_width_and_object(plant):
    """A joint position of 0 is open, of 0.085 m closed; an object of 40 mm is in the way."""
    plant.model.geom_conaffinity[plant.model.geom("object").id] = 0
    plant.model.geom_contype[plant.model.geom("object").id] = 0
    samples = []
    with EmulatorProcess(
        "robotiq", "--world", plant.world.path, "--joint-open", 0.0, "--joint-closed", STROKE
    ) as emulator:
        driver = RobotiqGripper(emulator.link, reply_timeout=5.0, on_sample=lambda sample, t: samples.append(sample))

        def settled(command):
            def at_rest():
                return samples[-1].command >= command and samples[-1].status.contact is not Contact.MOVING

            assert driver.wait_for(at_rest, PATIENCE), (driver.status, plant.gap)
            now = plant.data.time
            assert driver.wait_for(lambda: plant.data.time > now + 0.2, PATIENCE)  # it has come to rest there
            answered = driver.counters.samples
            assert driver.wait_for(lambda: driver.counters.samples > answered + 1, PATIENCE)
            return samples[-1]

        driver.start()
        driver.enable()
        assert driver.wait_for(lambda: samples and driver.status.ready and not driver.busy, PATIENCE), (
            driver.status,
            plant.gap,
        )
        for width in (0.060, 0.020, 0.075):
            state = settled(driver.go_to(width, 0.15, 60.0))
            assert state.status.contact is Contact.ARRIVED
            assert abs(state.width - plant.gap) <= 0.001 and abs(plant.gap - width) <= 0.001, (
                state.width,
                plant.gap,
                width,
            )
        plant.model.geom_conaffinity[plant.model.geom("object").id] = 1
        plant.model.geom_contype[plant.model.geom("object").id] = 1
        state = settled(driver.go_to(0.0, 0.15, 60.0))
        assert state.status.contact is Contact.CLOSING
        assert abs(state.width - plant.gap) <= 0.001 and abs(plant.gap - 0.040) <= 0.001, (state.width, plant.gap)
        # It presses with what was asked for, no more.
        assert plant.data.qfrc_applied[0] == pytest.approx(60.0, abs=1.5) and np.isfinite(plant.data.qpos).all()
        driver.close()
