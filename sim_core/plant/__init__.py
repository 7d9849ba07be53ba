"""A simulated robot (MuJoCo) with servos, sensors and hidden changes; knows nothing of ROS."""

from sim_core.plant.errors import EntityError, PlantError
from sim_core.plant.limits import joint_limits
from sim_core.plant.plant import MujocoPlant
from sim_core.plant.scenario import Event, parse_scenario
from sim_core.plant.scene import SPAWNABLES, robot_mjcf
from sim_core.plant.world import EntityState

__all__ = [
    "SPAWNABLES",
    "EntityError",
    "EntityState",
    "Event",
    "MujocoPlant",
    "PlantError",
    "joint_limits",
    "parse_scenario",
    "robot_mjcf",
]
