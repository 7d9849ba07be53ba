"""Parameters of the node sim_plant."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting
from sim_core.telepresence.competition import POINTS

__all__ = ["REHEARSALS", "SimPlantConfig", "rehearsed_boxes"]

#: tasks that may stand before a robot which a person acts through; "": none
REHEARSALS = ("", *POINTS)


@dataclass(frozen=True)
class SimPlantConfig:
    """Parameters of the plant node."""

    robot: str = setting("panda", "", None, "name in config/robots, or path of an MJCF file", read_only=True)
    params_file: str = setting(
        "",
        "",
        None,
        "YAML of physical parameters that differ from the MJCF (an identification's result)",
        read_only=True,
    )
    scenario: str = setting("", "", None, "hidden changes: YAML text or file, see docs/nodes/sim_plant.md")
    seed: int = setting(0, "", (0, 2**31 - 1), "of sensor noise and initial scatter", read_only=True)
    tick: float = setting(
        0.0,
        "s",
        (0.0, 1.0),
        "servo period, a multiple of the physics step; 0: the model's physics step",
        read_only=True,
    )
    state_period: float = setting(0.0, "s", (0.0, 1.0), "spacing of joint_states; 0: every tick", read_only=True)
    control_period: float = setting(
        0.0,
        "s",
        (0.0, 10.0),
        "spacing of the states that lock-step waits at, a multiple of state_period; 0: every tick",
        read_only=True,
    )
    lockstep: bool = setting(
        False, "", None, "step on only when the command for the present state has arrived", read_only=True
    )
    lockstep_timeout: float = setting(
        5.0, "s", (0.1, 3600.0), "wall time without that command before the plant halts", read_only=True
    )
    real_time_factor: float = setting(1.0, "", (0.0, 1000.0), "simulated per wall time; 0: as fast as possible")
    start_paused: bool = setting(False, "", None, "wait for play or step after activation", read_only=True)
    command_age_limit: float = setting(
        0.1,
        "s",
        (0.001, 10.0),
        "older commands are refused; after this long without one the servos stop",
        read_only=True,
    )
    stop_state: str = setting(
        "zero", "", None, "what the servos do without a command", choices=("zero", "damped", "hold"), read_only=True
    )
    servo_bandwidth: float = setting(25.0, "rad/s", (0.1, 500.0), "of the position loop", read_only=True)
    stop_damping: float = setting(
        10.0, "1/s", (0.0, 1000.0), "damping per inertia in the stop state 'damped'", read_only=True
    )
    position_noise: float = setting(
        0.0, "rad or m", (0.0, 1.0), "standard deviation of joint positions", read_only=True
    )
    velocity_noise: float = setting(
        0.0, "rad/s or m/s", (0.0, 10.0), "standard deviation of joint velocities", read_only=True
    )
    sensor_delay: float = setting(
        0.0, "s", (0.0, 0.5), "joint states are this old, whatever their stamp says", read_only=True
    )
    command_delay: float = setting(0.0, "s", (0.0, 0.5), "efforts act this much later", read_only=True)
    initial_position: tuple[float, ...] = setting(
        (), "rad or m", None, "joint positions after a reset; empty: the model's home keyframe"
    )
    initial_velocity: tuple[float, ...] = setting(
        (), "rad/s or m/s", None, "joint velocities after a reset; empty: at rest"
    )
    initial_position_std: tuple[float, ...] = setting(
        (0.0,), "rad or m", (0.0, 10.0), "scatter of the initial positions, one for all or one each", read_only=True
    )
    initial_velocity_std: tuple[float, ...] = setting(
        (0.0,),
        "rad/s or m/s",
        (0.0, 10.0),
        "scatter of the initial velocities, one for all or one each",
        read_only=True,
    )
    wrench_site: str = setting("", "", None, "site of the force-torque sensor; empty: none", read_only=True)
    frame_prefix: str = setting("", "", None, "put before every TF frame name", read_only=True)
    clock_period: float = setting(0.01, "s", (0.0, 1.0), "spacing of /clock; 0: no clock", read_only=True)
    tf_period: float = setting(0.02, "s", (0.0, 1.0), "spacing of /tf; 0: no TF", read_only=True)
    wrench_period: float = setting(0.002, "s", (0.0, 1.0), "spacing of the wrench", read_only=True)
    imu_period: float = setting(
        0.002, "s", (0.0, 1.0), "spacing of imu and foot_contacts, where the robot has them; 0: none", read_only=True
    )
    orientation_noise: float = setting(
        0.0, "rad", (0.0, 1.0), "standard deviation of the IMU's orientation", read_only=True
    )
    gyro_noise: float = setting(0.0, "rad/s", (0.0, 10.0), "of its angular velocity", read_only=True)
    accelerometer_noise: float = setting(0.0, "m/s^2", (0.0, 100.0), "of its linear acceleration", read_only=True)
    patient: int = setting(
        -1,
        "",
        (-1, 2**31 - 1),
        "number of the person who lies before a robot with a stethoscope; -1: nobody does",
        read_only=True,
    )
    patient_side: str = setting(
        "front", "", None, "of that person that is up", choices=("front", "back"), read_only=True
    )
    patient_position: tuple[float, ...] = setting(
        (0.5, 0.0, 0.18), "m", (-10.0, 10.0), "where the axes of that person's body begin in the world", read_only=True
    )
    tray: str = setting(
        "",
        "",
        None,
        "what lies before a robot with a scoop: pebbles, gravel, damp sand, paper balls or crumbs; with a bucket: blocks; empty: nothing",
        read_only=True,
    )
    tray_seed: int = setting(
        -1, "", (-1, 2**31 - 1), "of shapes and places of what lies there; -1: that of `seed`", read_only=True
    )
    rehearsal: str = setting(
        "",
        choices=REHEARSALS,
        description="task that stands before a robot which a person acts through; empty: none",
        read_only=True,
    )
    rehearsal_seed: int = setting(
        -1, "", (-1, 2**31 - 1), "of where its things are; -1: that of `seed`", read_only=True
    )
    object: str = setting(
        "",
        description="soft object before a robot with a probe: sloth, vest, lamb, shoe, bird, or a category and a number, "
        "as 'boxes 3'; empty: none",
        read_only=True,
    )
    object_seed: int = setting(0, "", (0, 2**31 - 1), "of its shape, stiffness and camera", read_only=True)
    object_position: tuple[float, ...] = setting(
        (0.5, 0.0, 0.1), "m", (-10.0, 10.0), "where the axes of that object begin in the world", read_only=True
    )
    probe: str = setting(
        "point", "", None, "that the robot pokes it with", choices=("point", "line", "cylinder"), read_only=True
    )
    require_supervisor: bool = setting(
        True,
        "",
        None,
        "follow commands only while a supervisor says whose; without, those of anybody, within the limits all the same",
        read_only=True,
    )
    world: str = setting(
        "",
        "",
        None,
        "shared memory in which emulated devices drive the robot and sense it; empty: commands and states are topics",
        read_only=True,
    )

    def __post_init__(self):
        for std in (self.initial_position_std, self.initial_velocity_std):
            if not std:
                raise ValueError("initial_*_std needs one number, or one per joint.")
        if len(self.patient_position) != 3:
            raise ValueError(f"patient_position: expected three numbers, found {len(self.patient_position)}.")
        if len(self.object_position) != 3:
            raise ValueError(f"object_position: expected three numbers, found {len(self.object_position)}.")
        if self.world and self.lockstep:
            raise ValueError("emulated devices run in real time: lockstep and world exclude each other.")


def rehearsed_boxes(rehearsal: str) -> str:
    """What stands before the robot in a task, as the launch argument `boxes` has it; of none: nothing."""
    if not rehearsal:
        return ""
    from sim_core.plant.rehearsal.tasks import rehearse  # and MuJoCo with it

    return "; ".join(rehearse(rehearsal).task.boxes)
