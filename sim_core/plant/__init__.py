"""A simulated robot (MuJoCo) with servos, sensors and hidden changes; knows nothing of ROS."""

from sim_core.plant.command import Command, Mode
from sim_core.plant.errors import CommandRefused, EntityError, PlantError, Refusal
from sim_core.plant.plant import MujocoPlant
from sim_core.plant.scenario import Event, parse_scenario
from sim_core.plant.scene import SPAWNABLES, robot_mjcf
from sim_core.plant.world import EntityState

__all__ = ["SPAWNABLES", "Command", "CommandRefused", "EntityError", "EntityState", "Event", "Mode",
           "MujocoPlant", "PlantError", "Refusal", "parse_scenario", "robot_mjcf"]
