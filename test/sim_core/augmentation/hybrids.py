"""A double pendulum and what its networks may read and correct."""

from sim_core.augmentation import Blueprint, Network

DOUBLE_PENDULUM = """
<mujoco model="double_pendulum">
  <option timestep="0.002"><flag eulerdamp="disable" contact="disable"/></option>
  <worldbody>
    <body name="link1">
      <joint name="joint1" axis="0 1 0" damping="0.05"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/>
      <body name="link2" pos="0 0 -0.5">
        <joint name="joint2" axis="0 1 0" damping="0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="joint1" joint="joint1"/><motor name="joint2" joint="joint2"/></actuator>
</mujoco>
"""
STATE = ("joint1.position", "joint2.position", "joint1.velocity", "joint2.velocity")
TORQUES = ("joint1.passive_torque", "joint2.passive_torque")


def blueprint(name="net", hidden=(5,), mode="residual", evaluation="auto", activation="tanh", **options):
    """One network from the whole state to both passive torques."""
    network = Network(hidden, activation, evaluation=evaluation)
    return Blueprint(name, TORQUES, STATE, network, mode, **options)
