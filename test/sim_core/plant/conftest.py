"""A two-link arm in a vertical plane, small enough to check by hand."""

import pytest

ARM = """
<mujoco model="arm">
  <option timestep="0.001" integrator="RK4"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="0.2"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.4 0 0" mass="1" contype="0" conaffinity="0"/>
      <body name="lower" pos="0.4 0 0">
        <joint name="elbow" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="0.5" contype="0" conaffinity="0"/>
        <site name="tool" pos="0.3 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="shoulder" joint="shoulder" gear="2" ctrlrange="-20 20" ctrllimited="true"/>
    <motor name="elbow" joint="elbow" ctrlrange="-15 15" ctrllimited="true"/>
  </actuator>
  <keyframe><key name="home" qpos="0.1 0.2"/></keyframe>
</mujoco>
"""

SLIDER = """
<mujoco model="slider">
  <option timestep="0.001"/>
  <worldbody>
    <body name="cart"><joint name="rail" type="slide" axis="1 0 0"/>
      <geom type="box" size="0.1 0.1 0.1" mass="2"/>
      <body name="pole"><joint name="pivot" axis="0 1 0"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.5" mass="0.1"/></body>
    </body>
  </worldbody>
  <actuator><motor name="drive" joint="rail"/></actuator>
</mujoco>
"""


@pytest.fixture
def arm():
    return ARM


@pytest.fixture
def slider():
    """Cart (actuated) with a pole (passive)."""
    return SLIDER
