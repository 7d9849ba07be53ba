"""What the pages' Python takes for granted, by the words of the comment above it: `<!-- given: a robot's recording -->`.

Each function gets the names of the session (a dict) and the folder in which it runs, and adds what the block needs.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

__all__ = ["GIVENS"]

FLOOR_AND_FEET = """<mujoco model="walker"><worldbody><geom name="floor" type="plane" size="1 1 0.1"/>
  <body name="trunk" pos="0 0 0.3"><freejoint/><geom name="box" type="box" size="0.1 0.1 0.05" mass="1"/>
    <body name="leg" pos="0 0 -0.1"><joint name="knee" axis="0 1 0"/>
      <geom name="foot1" type="sphere" size="0.02" pos="0.05 0 -0.1" mass="0.1"/>
      <geom name="foot2" type="sphere" size="0.02" pos="-0.05 0 -0.1" mass="0.1"/></body>
  </body>
  <body name="pole" pos="0.5 0 0.5"><joint name="hinge" axis="0 1 0"/>
    <geom name="tip" type="sphere" size="0.03" mass="0.1"/></body>
</worldbody></mujoco>"""


def models_with_contacts(names, folder):
    """robot.xml and arm.xml, whose shapes touch a floor and each other."""
    for name in ("robot.xml", "arm.xml"):
        (folder / name).write_text(FLOOR_AND_FEET)
    from sim_core.augmentation import Blueprint, Network
    from sim_core.multibody import load_model

    names.update(load_model=load_model, Blueprint=Blueprint, Network=Network)


def a_double_cart_pole_s_recording(names, folder):
    """trajectories of a double cart-pole with friction, 8 steps."""
    from sim_core.inference.data.trajectories import Trajectories
    from sim_core.multibody import Dynamics, load_model

    model = load_model("double_cartpole", friction=True)
    dynamics = Dynamics(model, dt=0.02, substeps=2)
    p = dynamics.nominal.copy()
    for joint in model.joint_names:
        p[model.parameters.index(f"{joint}.frictionloss")] = 0.05
    u = 5.0 * np.sin(0.3 * np.arange(8))[None, :, None]
    x0 = np.array([[0.0, 0.3, -0.2, 0.0, 0.0, 0.0]])
    names["trajectories"] = Trajectories(0.02, dynamics.rollout(x0, u, p), u)


def a_panda_s_recording(names, folder):
    """dt, x, u of a Panda that moves for 0.1 s, and x0, U to be predicted."""
    from sim_core.multibody import Dynamics, load_model

    dynamics = Dynamics(load_model("panda"), dt=0.01)
    q = dynamics.model.q_home
    u = np.zeros((1, 10, dynamics.nu)) + 0.3 * np.sin(np.arange(10))[None, :, None]
    x = dynamics.rollout(np.r_[q, np.zeros(7)], u, dynamics.nominal)
    names.update(dt=0.01, x=x, u=u, x0=x[0, 0], U=u[0])


def a_pendulum_s_density(names, folder):
    """density of a double pendulum's lengths."""
    from experiments.problems import point_mass_pendulum as pendulum
    from sim_core.inference.bayessim.simulations import simulate
    from sim_core.inference.samplers.sampler import sobol
    from sim_core.inference.shooting.likelihood import SingleShooting

    dynamics = pendulum.dynamics()
    lengths = pendulum.lengths(dynamics.model)
    data = pendulum.simulated(dynamics, lengths, [1.5, 2.0], steps=101)
    names.update(density=SingleShooting(dynamics, lengths, data), simulate=simulate, sobol=sobol)


def a_batch_of_pandas(names, folder):
    """x0, U, p of three Pandas, and directions in which their parameters move."""
    from sim_core.multibody import load_model

    model = load_model("panda")
    names.update(
        x0=np.tile(np.r_[model.q_home, np.zeros(7)], (3, 1)),
        U=np.zeros((3, 5, model.nu)),
        p=model.parameters.nominal,
        Xbar=np.ones((3, 6, model.nx)),
        dpdxi=np.eye(len(model.parameters.nominal))[:, :2],
    )


def a_double_cart_pole_s_state(names, folder):
    """x, x_now and t of a control loop, and the result of a refit."""
    from sim_core.multibody import load_model

    x = np.array([0.0, 3.1, 0.0, 0.0, 0.0, 0.0])
    nominal = load_model("double_cartpole").parameters.nominal
    names.update(x=x, x_now=x + 1e-3, t=0.0, result=SimpleNamespace(p=nominal), revision=1)


def a_scanner_in_a_room(names, folder):
    """angles and ranges of three scans in the middle of a room of 4 by 3.2 m, from a scanner 0.3 m ahead of it."""
    angles = np.linspace(-2.0, 2.0, 120)
    with np.errstate(divide="ignore"):
        x = np.where(np.cos(angles) > 0, 1.7, -2.3) / np.cos(angles)
        y = np.where(np.sin(angles) > 0, 1.6, -1.6) / np.sin(angles)
    names.update(angles=angles, ranges=np.tile(np.minimum(x, y), (3, 1)))


def names_of_the_framework(names, folder):
    """What a node's module imports."""
    imports = """
from dataclasses import dataclass
from sensor_msgs.msg import Temperature
from std_msgs.msg import Header
from hardware.rangefinder.device import Rangefinder as ThermometerLink
from nodes.devices.device_node import DeviceNode
from nodes.devices.rangefinder import RangefinderConfig as ThermometerConfig
from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.qos import SENSOR
"""
    exec(imports, names)


def a_bag_of_today(names, folder):
    """runs/today/bag with joint states, a wrench, a controller's status and what the recorder says of the run."""
    from recording import BagWriter
    from recording.message_types import typestore

    T = typestore().types
    header = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](1, 0), "hand")
    vector = T["geometry_msgs/msg/Vector3"]
    wrench = T["geometry_msgs/msg/Wrench"](vector(0.0, 0.0, 9.81), vector(0.0, 0.0, 0.0))
    one = np.ones(1)
    with BagWriter(folder / "runs" / "today" / "bag") as bag:
        for topic, kind, message in (
            ("/run_info", "std_msgs/msg/String", T["std_msgs/msg/String"]('{"robot": "toy", "seed": 7}')),
            (
                "/joint_states",
                "sensor_msgs/msg/JointState",
                T["sensor_msgs/msg/JointState"](header, ["a"], one, one, one),
            ),
            ("/wrench", "geometry_msgs/msg/WrenchStamped", T["geometry_msgs/msg/WrenchStamped"](header, wrench)),
            ("/controller/status", "std_msgs/msg/String", T["std_msgs/msg/String"]("running")),
        ):
            bag.add_topic(topic, kind)
            bag.write_message(topic, 1_000_000_000, message)


def an_error(names, folder):
    """error of an experiment."""
    names["error"] = 0.001


GIVENS = {
    function.__name__.replace("_s_", "'s ").replace("_", " "): function
    for function in (
        models_with_contacts,
        a_double_cart_pole_s_recording,
        a_panda_s_recording,
        a_pendulum_s_density,
        a_batch_of_pandas,
        a_double_cart_pole_s_state,
        a_scanner_in_a_room,
        names_of_the_framework,
        a_bag_of_today,
        an_error,
    )
}
