"""The plant's side of the world that emulated devices share with it.

Emulated servos write what their motors exert, the plant moves, and what encoders and the force-torque sensor
would feel goes back. Until every servo has torque the robot rests on a stand and its time stands still. It stands still
also while a busy machine does not run an emulator: a motor that keeps its last torque has neither a current loop nor a
back-EMF, and no servo is like that. An emulator that stays away is dead, and the robot goes on without its motors.
"""

from __future__ import annotations

from hardware.emulation.world import DEAD_AFTER, SharedWorld
from sim_core.plant import MujocoPlant

__all__ = ["PlantWorld"]

#: [s] without a word of an emulator, which has one every 2 ms, or every 5: the machine does not run it
NOT_RUN = 0.012


class PlantWorld:
    """See the module's docstring. Everything runs on the plant's thread.

    Args:
        path: of the shared memory; a file in /dev/shm never touches a disk.
        plant: whose joints and model emulators will read.

    Attributes:
        released: whether the robot has left its stand.
    """

    def __init__(self, path: str, plant: MujocoPlant) -> None:
        self._world = SharedWorld.create(path, plant.joints, plant.mjcf)
        self.released = False
        self.publish(plant)

    def held(self) -> bool:
        """True until every joint's servo has torque for the first time, and while one that lives is not run."""
        if not self.released:
            _, driven = self._world.efforts()
            self.released = bool(driven.all())
            return not self.released
        silent = self._world.silent_for()
        return bool(((silent > NOT_RUN) & (silent <= DEAD_AFTER)).any())

    def drive(self, plant: MujocoPlant) -> None:
        """What the motors exert now drives the plant's next tick; silent motors exert nothing."""
        plant.drive(self._world.efforts()[0])

    def publish(self, plant: MujocoPlant, wrench: bool = True) -> None:
        """The true state, for the emulated sensors to measure; the wrench costs a forward pass of its own."""
        self._world.publish(
            plant.t, plant.true_q, plant.true_v, plant.wrench() if wrench and plant.wrench_site else None
        )

    def rest(self) -> None:
        """After a reset: back onto the stand."""
        self.released = False

    def close(self) -> None:
        """Take the world away; who has it open keeps its last state."""
        self._world.path.unlink(missing_ok=True)
