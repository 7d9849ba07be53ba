"""Velocities of links, and what forces on links amount to at the joints."""

import articulated_models as zoo
import casadi as ca
import numpy as np
import pytest

from sim_core.articulated import build, dynamics


@pytest.mark.parametrize("name", ["zoo", "floating"])
def test_forces_on_links_do_the_work_of_the_joint_forces(load, name):
    """Virtual work: tau . v = sum of n . w + f . v_link for every v, with tau from the forces and the twists from v."""
    model = load(name)
    q, v, F = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("F", 6, len(model.links))
    p = model.parameters.nominal
    tau = dynamics.generalised_force(model, dynamics.joint_transforms(model, q, p),
                                     [(F[:3, i], F[3:, i]) if i else None for i in range(len(model.links))])
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
