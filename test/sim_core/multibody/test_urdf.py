"""URDF as people publish it: mimic joints, links without mass, rods, inertias that no body has, floating roots."""

import xml.etree.ElementTree as ElementTree

import casadi as ca
import mujoco
import numpy as np
import pytest

from sim_core.multibody import Dynamics, ModelError, build, load_model
from sim_core.multibody.equations.inertia import com_inertia
from sim_core.multibody.model.parameter_blocks import JointDamping
from sim_core.multibody.model.parameters import FreeParameters
from sim_core.plant import MujocoPlant


def link(name, mass=0.0, com=(0, 0, 0), I=(0, 0, 0)):
    if not mass and not any(I):
        return f'<link name="{name}"/>'
    x, y, z = com
    return (
        f'<link name="{name}"><inertial><origin xyz="{x} {y} {z}"/><mass value="{mass}"/>'
        f'<inertia ixx="{I[0]}" iyy="{I[1]}" izz="{I[2]}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(name, parent, child, kind="revolute", xyz=(0, 0, 0), axis=(0, 1, 0), mimic=None, extra=""):
    limit = '<limit lower="-2" upper="2" effort="10" velocity="4"/>' if kind != "fixed" else ""
    follows = f'<mimic joint="{mimic[0]}" multiplier="{mimic[1]}" offset="{mimic[2]}"/>' if mimic else ""
    origin, axes = " ".join(map(str, xyz)), " ".join(map(str, axis))
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{origin}"/>'
        f'<axis xyz="{axes}"/>{limit}{follows}{extra}</joint>'
    )


def robot(*parts):
    return f'<robot name="test">{"".join(parts)}</robot>'


BASE = link("base", 3.0, I=(0.1, 0.2, 0.15))
ROD = dict(mass=0.6, com=(0, 0, -0.25), I=(0.0125, 0.0125, 0.0004))


def finger(mimic=True, damping=""):
    """Three phalanges; the second follows the first, the third the second, and a slide the first."""
    return robot(
        BASE,
        *(link(f"l{k}", **ROD) for k in (1, 2, 3)),
        link("nut", 0.4, (0.05, 0, 0), (1e-3, 2e-3, 1.5e-3)),
        joint("a", "base", "l1", extra=damping),
        joint("b", "l1", "l2", xyz=(0, 0, -0.5), mimic=("a", -0.5, 0.3) if mimic else None, extra=damping),
        joint("c", "l2", "l3", xyz=(0, 0.1, -0.5), axis=(1, 0, 0), mimic=("b", 2.0, 0.1) if mimic else None),
        joint("s", "base", "nut", kind="prismatic", axis=(0.6, 0, 0.8), mimic=("a", 0.2, -0.1) if mimic else None),
        joint("free", "l3", "tip", xyz=(0, 0, -0.5), axis=(0, 0, 1)),
        link("tip", 0.1, (0.05, 0, 0), (1e-4, 2e-4, 2e-4)),
    )


#: joints a, b, c, free, s of the tree = C (a, free) + d
C = np.array([[1, 0], [-0.5, 0], [-1.0, 0], [0, 1], [0.2, 0]])
D = np.array([0, 0.3, 2 * 0.3 + 0.1, 0, -0.1])


@pytest.fixture(scope="module")
def coupled():
    return load_model(finger())


@pytest.fixture(scope="module")
def tree():
    return load_model(finger(mimic=False))


def states(model, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (model.nq, count)), rng.normal(size=(model.nv, count)), rng.normal(size=(model.nv, count))


def test_followers_have_no_coordinates(coupled):
    assert coupled.joint_names == coupled.q_names == coupled.v_names == coupled.actuator_names == ("a", "free")
    assert coupled.followers == {"b": ("a", -0.5, 0.3), "c": ("a", -1.0, pytest.approx(0.7)), "s": ("a", 0.2, -0.1)}
    assert any("b (a), c (a), s (a)" in note for note in coupled.notes)
    with pytest.raises(KeyError, match="'c' follows 'a'"):
        coupled.joint_index("c")
    qpos, qvel = coupled.plant_state([0.4, 0.9], [1.0, 2.0])
    assert np.allclose(qpos, C @ [0.4, 0.9] + D) and np.allclose(qvel, C @ [1.0, 2.0])


def test_limits_of_followers_hold_for_whom_they_follow(coupled):
    # c = -a + 0.7 within 2 either way, and b = -0.5 a + 0.3 needs a in [-3.4, 4.6]; s is as wide as that of a tenth.
    assert np.allclose([coupled.q_lower[0], coupled.q_upper[0]], [-1.3, 2.0])
    assert np.allclose(coupled.v_limit, [4.0, 4.0])


def test_coupled_dynamics_are_the_trees_in_fewer_coordinates(coupled, tree):
    """M = C'MC, tau = C'(...): of the tree without couplings, at s = C q + d."""
    p, q, (v, a) = tree.parameters.nominal, states(coupled, 20)[0], states(coupled, 20)[1:]
    s, sv, sa = C @ q + D[:, None], C @ v, C @ a
    theirs = C.T @ build.inverse_dynamics(tree)(s, sv, sa, p).full()
    pc = coupled.parameters.nominal
    assert np.abs(build.inverse_dynamics(coupled)(q, v, a, pc).full() - theirs).max() < 1e-12
    assert np.abs(build.forward_dynamics(coupled)(q, v, theirs, pc).full() - a).max() < 1e-10
    for k in range(3):
        M = C.T @ build.mass_matrix(tree)(s[:, k], p).full() @ C
        assert np.abs(build.mass_matrix(coupled)(q[:, k], pc).full() - M).max() < 1e-12
        ours, whole = build.energy(coupled)(q[:, k], v[:, k], pc), build.energy(tree)(s[:, k], sv[:, k], p)
        assert np.allclose([float(x) for x in ours], [float(x) for x in whole], atol=1e-12)
        for frame in ("l3", "nut", "tip"):
            assert np.allclose(
                build.frame_position(coupled, frame)(q[:, k], pc).full(),
                build.frame_position(tree, frame)(s[:, k], p).full(),
            )
            for own, other in zip(
                build.frame_velocity(coupled, frame)(q[:, k], v[:, k], pc),
                build.frame_velocity(tree, frame)(s[:, k], sv[:, k], p),
            ):
                assert np.allclose(own.full(), other.full())


def test_reflected_inertia_of_gears():
    """Two wheels on parallel axes, the second n times as fast: m_eff = I1 + n^2 I2, damping d1 + n^2 d2."""
    n, I1, I2, d1, d2 = -3.0, 0.02, 0.003, 0.5, 0.07
    model = load_model(
        robot(
            BASE,
            link("w1", 1.0, I=(0.01, I1, 0.012)),
            link("w2", 0.5, I=(0.0016, I2, 0.0018)),
            joint("j1", "base", "w1", extra=f'<dynamics damping="{d1}"/>'),
            joint("j2", "base", "w2", xyz=(0.3, 0, 0), mimic=("j1", n, 0.2), extra=f'<dynamics damping="{d2}"/>'),
        )
    )
    p = model.parameters.nominal
    assert float(build.mass_matrix(model)(0.3, p)) == pytest.approx(I1 + n**2 * I2, rel=1e-13)
    v, u = 0.8, 1.5
    a = float(build.accel(model)(0.3, v, u, p))
    assert a == pytest.approx((u - (d1 + n**2 * d2) * v) / (I1 + n**2 * I2), rel=1e-12)


def test_coupled_motion_keeps_its_energy(coupled):
    step, energy, p = build.step(coupled, 2e-3, "rk4"), build.energy(coupled), coupled.parameters.nominal
    x = np.array([0.5, 0.2, 0.0, 3.0])
    start = sum(map(float, energy(x[:2], x[2:], p)))
    for _ in range(1000):
        x = step(x, np.zeros(2), p).full()[:, 0]
    assert sum(map(float, energy(x[:2], x[2:], p))) == pytest.approx(start, abs=1e-6)


def test_gradients_of_coupled_steps_against_central_differences():
    model = load_model(finger(damping='<dynamics damping="0.3"/>'))
    dynamics, p = Dynamics(model), model.parameters.nominal
    x, u = np.array([0.4, -0.3, 0.7, 2.0]), np.array([0.5, -0.02])
    found = dynamics.sensitivity(x, u, p)
    for k, (J, z) in enumerate(zip(found, (x, u, p))):
        for i in range(len(z)):
            h, steps = 1e-5 * max(1e-3, abs(z[i])), []
            for sign in (1, -1):
                at = [x, u, p]
                at[k] = z + sign * h * np.eye(len(z))[i]
                steps.append(dynamics.step(*at))
            assert np.allclose((steps[0] - steps[1]) / (2 * h), J[:, i], rtol=1e-6, atol=1e-6), (k, i)
    X = dynamics.rollout(x, np.tile(u, (5, 1)), p)
    assert np.allclose(X[1], dynamics.step(x, u, p), atol=1e-14)


def test_parameters_of_followers_are_free_as_others_are(coupled):
    model = load_model(finger(damping='<dynamics damping="0.3"/>'))
    free = FreeParameters(model, [JointDamping("b")])
    assert free.written == ("b.damping",) and "c.armature" in model.parameters


def test_plant_moves_as_the_equations_do(coupled):
    """MuJoCo holds the followers by a stiff constraint; the equations have them exactly where they belong."""
    plant = MujocoPlant(finger(), initial_q=[0.5, 0.05, 0.2, 0.1, 0.0])
    assert plant.joints == ["a", "b", "c", "free", "s"] and plant.actuated_joints == ["a", "free"]
    x, p = np.array([0.5, 0.1, 0.0, 0.0]), coupled.parameters.nominal
    step = build.step(coupled, plant.physics_step)
    for _ in range(100):
        plant.step([0.3, 0.01])
        x = step(x, [0.3, 0.01], p).full()[:, 0]
    qpos, _ = coupled.plant_state(x[:2], x[2:])
    assert abs(x[0] - 0.5) > 0.1  # it has moved
    assert np.abs(plant.true_q - qpos).max() < 0.02 * abs(x[0] - 0.5)


def test_plant_starts_where_followers_belong():
    plant = MujocoPlant(finger())
    assert np.allclose(plant.true_q, D)
    plant.step([0.0, 0.0])
    assert np.abs(plant.true_v).max() < 1.0


def test_rod_without_inertia_about_its_axis():
    """A rod's period: a = -(3 g / 2 l) sin q about its end."""
    m, l = 0.3, 0.8
    text = robot(
        BASE,
        link("rod", m, (0, 0, -l / 2), (m * l**2 / 12, m * l**2 / 12, 0.0)),
        joint("pivot", "base", "rod"),
    )
    model = load_model(text)
    assert not any("No rigid body" in note for note in model.notes)  # a rod is one, if a thin one
    a = float(build.accel(model)(0.7, 0.0, 0.0, model.parameters.nominal))
    assert a == pytest.approx(-1.5 * 9.81 / l * np.sin(0.7), rel=1e-12)
    assert model.mj_model.body("rod").inertia.min() == 0.0


BAD = {
    "triangle": (0.5, (1e-3, 2e-3, 9e-3), "the last more than the sum"),
    "negative": (0.5, (-1e-4, 2e-3, 2e-3), "a principal moment of -0.0001"),
    "massless": (0.0, (1e-3, 1e-3, 2e-3), "an inertia without mass"),
    "tiny": (1e-6, (1e-15, 1e-15, 1e-15), ""),
}


@pytest.mark.parametrize("kind", BAD)
def test_implausible_inertia_is_taken_as_written_and_said(kind):
    mass, I, why = BAD[kind]
    text = robot(
        BASE,
        link("odd", mass, (0.02, 0.01, -0.1), I),
        joint("j", "base", "odd", axis=(0, 0, 1)),
        link("arm", **ROD),
        joint("k", "odd", "arm", xyz=(0.1, 0, 0)),
    )
    model = load_model(text)
    assert any("odd" in note and why in note for note in model.notes) == bool(why)
    where = model.parameters.inertia_slice("odd")
    m, com, I_C = com_inertia(model.parameters.nominal[where]) if mass else (0.0, None, None)
    if mass:
        assert m == pytest.approx(mass) and np.allclose(com, (0.02, 0.01, -0.1))
        assert np.allclose(I_C, np.diag(I), atol=1e-9 * mass)
    else:
        assert np.allclose(model.parameters.nominal[where], [0, 0, 0, 0, *I, 0, 0, 0])
    # The plant has it too: its M is that of the equations.
    data, M = mujoco.MjData(model.mj_model), np.zeros((2, 2))
    data.qpos[:] = 0.4, -0.7
    mujoco.mj_forward(model.mj_model, data)
    mujoco.mj_fullM(model.mj_model, data, M)
    assert np.allclose(
        M, build.mass_matrix(model)([0.4, -0.7], model.parameters.nominal).full(), rtol=1e-10, atol=1e-15
    )
    plant = MujocoPlant(text)
    assert np.array_equal(plant.world.model.body("odd").inertia, model.mj_model.body("odd").inertia)


def test_implausible_inertia_is_repaired_on_request():
    mass, I, _ = BAD["triangle"]
    text = robot(BASE, link("odd", mass, (0.02, 0, 0), I), joint("j", "base", "odd", axis=(0, 0, 1)))
    model = load_model(text, inertia="repaired")
    moments = model.mj_model.body("odd").inertia
    assert moments.sum() - 2 * moments.max() > -1e-12 and moments.min() > 0
    # Of the second moments of its mass (tr I / 2 - I) = (5, 4, -3) g m^2 the negative one is left out.
    assert np.allclose(np.sort(moments), [4e-3, 5e-3, 9e-3], atol=1e-9)
    with pytest.raises(ValueError, match='inertia must be "written" or "repaired"'):
        load_model(text, inertia="balanced")


def test_links_without_mass_carry_and_are_named():
    dummy = robot(
        link("footprint"),
        joint("mount", "footprint", "base", "fixed", xyz=(0, 0, 0.2)),
        BASE,
        link("yoke"),
        joint("yaw", "base", "yoke", axis=(0, 0, 1)),
        link("l1", **ROD),
        joint("pitch", "yoke", "l1", xyz=(0.1, 0, 0)),
    )
    model = load_model(dummy)
    assert any("neither mass nor inertia: yoke" in note for note in model.notes)
    q, v, tau = np.array([0.3, 0.8]), np.array([1.0, -2.0]), np.array([0.1, 0.2])
    # As if the yoke's joint were the arm's second one: M_yaw = I_yy' of the rod about the yaw axis.
    s, c, r = np.sin(0.8), np.cos(0.8), 0.1
    x = r - 0.25 * s
    M_yaw = 0.6 * x**2 + 0.0125 * s**2 + 0.0004 * c**2
    assert build.mass_matrix(model)(q, model.parameters.nominal)[0, 0] == pytest.approx(M_yaw, rel=1e-12)
    assert np.isfinite(build.forward_dynamics(model)(q, v, tau, model.parameters.nominal).full()).all()


def test_joint_that_moves_nothing_is_fixed_and_said():
    text = robot(
        BASE,
        link("l1", **ROD),
        joint("a", "base", "l1"),
        link("jaw"),
        joint("grip", "l1", "jaw", "prismatic", xyz=(0, 0, -0.5), extra="").replace('lower="-2"', 'lower="0.01"'),
    )
    model = load_model(text)
    assert model.joint_names == ("a",) and any(
        "neither mass nor inertia, so" in note and "grip" in note for note in model.notes
    )
    jaw = build.frame_position(model, "jaw")(0.0, model.parameters.nominal).full()
    assert np.allclose(np.ravel(jaw), [0, 0.01, -0.5])  # at the nearest position to zero that it reaches


def test_floating_root_falls():
    model = load_model(finger(), floating_base=True)
    assert model.nq == 9 and model.nv == 8 and model.joint_names == ("floating_base", "a", "free")
    q, p = model.q_home, model.parameters.nominal
    assert q[3] == 1.0
    a = build.accel(model)(q, np.zeros(8), np.zeros(2), p).full()[:, 0]
    assert np.allclose(a, [0, 0, -9.81, 0, 0, 0, 0, 0], atol=1e-10)
    again = load_model(model.xml, floating_base=True)
    assert again.hash == model.hash
    arm = '<mujoco><worldbody><body name="b"><geom size=".1"/><body><joint name="j"/><geom size=".1"/></body></body></worldbody></mujoco>'
    assert load_model(arm, floating_base=True).joint_names == ("floating_base", "j")
    with pytest.raises(ModelError, match="without joints"):
        load_model("cartpole", floating_base=True)


@pytest.mark.parametrize(
    "text",
    [
        finger(),
        robot(BASE, link("odd", *BAD["negative"][:1], (0, 0, 0.1), BAD["negative"][1]), joint("j", "base", "odd")),
    ],
)
def test_the_models_xml_is_the_same_model(text):
    model = load_model(text)
    again = load_model(model.xml)
    assert again.hash == model.hash and np.array_equal(again.parameters.nominal, model.parameters.nominal)
    assert np.array_equal(again.v_limit, model.v_limit)
    ElementTree.fromstring(model.xml)


WRONG = {
    "two roots": (robot(BASE, link("other")), "one link that is no joint's child, found base, other"),
    "link": (robot(BASE, joint("j", "base", "gone")), "joint 'j' names the link 'gone'"),
    "loop": (
        robot(BASE, link("x", **ROD), joint("j", "base", "x"), joint("k", "base", "x")),
        "link 'x' hangs on two joints, 'j' and 'k'",
    ),
    "ring": (
        robot(
            BASE,
            link("x", **ROD),
            joint("j", "base", "x", mimic=("k", 1, 0)),
            link("y", **ROD),
            joint("k", "x", "y", mimic=("j", 1, 0)),
        ),
        "mimics itself",
    ),
    "type": (robot(BASE, link("x", **ROD), joint("j", "base", "x", "screw")), "of type 'screw', expected one of"),
    "floating": (robot(BASE, link("x", **ROD), joint("j", "base", "x", "floating")), "floating within the tree"),
    "number": (
        robot(BASE, link("x", **ROD), joint("j", "base", "x").replace('lower="-2"', 'lower="pi"')),
        'in lower="pi"',
    ),
    "axis": (robot(BASE, link("x", **ROD), joint("j", "base", "x", axis=(0, 0, 0))), "a vector of length zero"),
    "empty": ("<robot/>", "at least one <link>"),
    "still": (robot(BASE), "Add at least one joint, or load with floating_base=True"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_element(case):
    text, message = WRONG[case]
    with pytest.raises(ModelError) as refused:
        load_model(text)
    assert message in str(refused.value)


def test_mimicking_nobody_moves_by_itself():
    model = load_model(robot(BASE, link("x", **ROD), joint("j", "base", "x", mimic=("gone", 1, 0))))
    assert model.joint_names == ("j",) and any("j ('gone')" in note for note in model.notes)


COUPLED = (
    '<mujoco><worldbody><body><joint name="x" {x}/><geom size=".1"/><body pos="0 0 1"><joint name="y" ref="0.2"/>'
    '<geom size=".1"/></body></body></worldbody><equality><joint joint1="y" joint2="x" polycoef="{c}"/></equality>{end}</mujoco>'
)


def test_mjcf_couples_as_well():
    model = load_model(COUPLED.format(x='ref="-0.1"', c="0.3 -2 0 0 0", end=""))
    # MuJoCo: y - 0.2 = 0.3 - 2 (x + 0.1)
    assert model.followers == {"y": ("x", -2.0, pytest.approx(0.3))}


@pytest.mark.parametrize(
    "x, c, end, message",
    [
        ("", "0 1 1 0 0", "", "a polynomial of degree 2"),
        ("", "0 1 0 0 0", '<actuator><motor joint="y"/></actuator>', "an actuator on joint 'y'"),
    ],
)
def test_couplings_that_are_refused(x, c, end, message):
    with pytest.raises(ModelError, match=message):
        load_model(COUPLED.format(x=x, c=c, end=end))


def test_robots_without_followers_keep_their_graph():
    """No operation is added where nothing is coupled: forward dynamics are articulated bodies, and M is not solved."""
    model = load_model(finger(mimic=False))
    f = build.forward_dynamics(model)
    assert f.n_instructions() < build.forward_dynamics(load_model(finger())).n_instructions() * 10
    from sim_core.multibody.equations import dynamics

    q, v, tau, p = (ca.SX.sym(name, n) for name, n in zip("qvtp", (model.nq, model.nv, model.nv, model.np_)))
    plain = ca.Function("f", [q, v, tau, p], ca.cse([ca.densify(dynamics.aba(model, q, v, tau, p))]))
    assert plain.n_instructions() == f.n_instructions()
