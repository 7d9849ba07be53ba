"""Velocities of links, and what forces on links amount to at the joints."""

import articulated_models as zoo
import casadi as ca
import numpy as np
import pytest

from sim_core.augmentation import Blueprint, Network, augment, tap_names
from sim_core.codegen import count_operations
from sim_core.multibody import load_model
from sim_core.multibody.equations import dynamics
from sim_core.multibody.model import build


@pytest.mark.parametrize("name", ["zoo", "floating"])
def test_forces_on_links_do_the_work_of_the_joint_forces(load, name):
    """Virtual work: tau . v = sum of n . w + f . v_link for every v, with tau from the forces and the twists from v."""
    model = load(name)
    q, v, F = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("F", 6, len(model.links))
    p = model.parameters.nominal
    tau = dynamics.generalised_force(
        model,
        dynamics.joint_transforms(model, q, p),
        [(F[:3, i], F[3:, i]) if i else None for i in range(len(model.links))],
    )
    twists = dynamics.link_velocities(model, q, v, p)
    power = sum(ca.dot(F[:, i], ca.vertcat(*twists[i])) for i in range(1, len(model.links)))
    f = ca.Function("powers", [q, v, F], [ca.dot(tau, v), power])
    rng = np.random.default_rng(3)
    for qk, vk in zip(*(a.T for a in zoo.random_states(model, 10, seed=2)[:2])):
        of_joints, of_links = f(qk, vk, rng.normal(size=(6, len(model.links))))
        assert np.isclose(float(of_joints), float(of_links), rtol=1e-11)


@pytest.mark.parametrize("name", ["zoo", "floating"])
def test_links_move_with_their_bodies(load, name):
    """Pose and twist of each body's link, carried to the body's frame, are those of kinematics.py."""
    model = load(name)
    q, v, p = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), model.parameters.nominal
    poses, twists = dynamics.link_poses(model, q, p), dynamics.link_velocities(model, q, v, p)
    point = zoo.random_states(model, 1, seed=4)[:2]
    moving = [body for body in model.bodies if body.link >= 0]
    assert len(moving) > 3
    for body in moving:
        r, R = poses[body.link]
        w, lin = twists[body.link]
        offset = ca.SX(body.r.constant)
        ours = ca.Function("ours", [q, v], [R @ offset + r, R @ body.R, R @ w, R @ (lin + ca.cross(w, offset))])(*point)
        theirs = (*build.frame_pose(model, body.name)(point[0], p), *build.frame_velocity(model, body.name)(*point, p))
        for found, want in zip(ours, theirs):
            np.testing.assert_allclose(found.full(), want.full(), atol=1e-11)


OIL = """
<mujoco model="balls_in_oil">
  <option gravity="0 0 -2" {medium}/>
  <worldbody>
    <body name="first" euler="20 10 0">
      <freejoint name="float"/><geom size="0.05" mass="0.3" contype="0" conaffinity="0"/>
      <body name="second" pos="0.2 0 0.1" euler="0 40 0">
        <joint name="socket" type="ball" pos="-0.2 0 0"/><geom size="0.05" mass="0.3" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_networks_on_bodies_can_be_stokes_drag():
    """A linear network, one for all bodies, with Stokes' coefficients moves as the fluid does."""
    mu, r = 0.7, 0.05 * np.sqrt(3 / 5)
    fluid = load_model(OIL.format(medium=f'viscosity="{mu}"'))
    fields = ("wx", "wy", "wz", "vx", "vy", "vz"), ("tx", "ty", "tz", "fx", "fy", "fz")
    drag = np.diag([-8 * np.pi * mu * r**3] * 3 + [-6 * np.pi * mu * r] * 3)
    stokes = Blueprint(
        "stokes",
        tuple(f"body.*.wrench.{f}" for f in fields[1]),
        tuple(f"body.*.velocity.{f}" for f in fields[0]),
        Network(hidden=(), biases=False),
        weights=drag.ravel(),
    )
    hybrid = augment(load_model(OIL.format(medium="")), stokes)
    q, v, _ = zoo.random_states(fluid, 20, seed=5)
    want = build.accel(fluid)(q, v, [], fluid.parameters.nominal).full()
    assert zoo.relative_error(build.accel(hybrid)(q, v, [], hybrid.parameters.nominal).full(), want) < 1e-11


def test_bodies_are_named_and_cost_nothing_unheard(load):
    model = load("zoo")
    names, correctable = tap_names(model)
    assert "body.arm.velocity.vz" in names and "body.arm.wrench.tx" in correctable
    assert not any(name.startswith("body.stand.") for name in names), "what stands still has no velocity"
    heard = augment(
        model, Blueprint("n", "wag.passive_torque", "wag.velocity", Network(hidden=(), biases=False), weights=[0.0])
    )
    extra = count_operations(build.step(heard, 0.01)) - count_operations(build.step(model, 0.01))
    assert extra <= 2
