"""A person on the table: closed forms of skin, breath and friction, and what the wrist's sensor feels of them."""

import mujoco
import numpy as np
import pytest

from config.robot import node_settings
from sim_core.auscultation.placement import facing
from sim_core.auscultation.simulated_patient import Flesh
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.patient import Patient, body_pose, patient_entity
from sim_core.plant.scene import build_model, robot_mjcf
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

STILL = Flesh(stiffness=1500.0, damping=40.0, breath=0.0)
AXES, ORIGIN = body_pose()


def patient(flesh=STILL, **kwargs):
    made = Patient(3, **kwargs)
    made.person.flesh = flesh
    return made


class Probe:
    """A membrane that is held anywhere, with any velocity: a free body with the site alone."""

    def __init__(self, somebody):
        self.patient = somebody
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><option gravity="0 0 0"/><worldbody><body name="piece"><freejoint/>'
            '<geom type="sphere" size="0.01" pos="0.01 0 0.03" mass="0.1"/><site name="membrane"/></body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)

    def touch(self, position, velocity=(0.0, 0.0, 0.0), t=0.0):
        self.data.qpos[:3], self.data.qvel[:3] = position, velocity
        mujoco.mj_forward(self.model, self.data)
        self.patient.press(self.model, self.data, t)
        return self.patient.contact


def skin(somebody, region=("heart", "front", "mitral"), side="front"):
    """A point on the undeformed skin and its normal, by the probe itself."""
    probe = Probe(somebody)
    point = ORIGIN + AXES @ somebody.person.torso[side].landmarks[region]
    for _ in range(5):
        contact = probe.touch(point)
        point = point + contact.depth * contact.normal
    return point, contact.normal


def below(torso, point):
    """How far a point (3,) is below a torso, and which way out of it is, by all of its triangles: (depth, normal)."""
    corners = torso.vertices[torso.faces]
    out = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    foot = point - np.sum((point - corners[:, 0]) * out, axis=1)[:, None] * out
    within, feet = np.ones(len(out), bool), [foot]
    for a, b in ((0, 1), (1, 2), (2, 0)):
        start, edge = corners[:, a], corners[:, b] - corners[:, a]
        within &= np.sum(np.cross(edge, foot - start) * out, axis=1) >= 0.0
        share = np.sum((point - start) * edge, axis=1) / np.sum(edge * edge, axis=1)
        feet.append(start + np.clip(share, 0.0, 1.0)[:, None] * edge)
    distances = np.linalg.norm(point - np.array(feet), axis=2)
    distances[0][~within] = np.inf
    triangle = int(distances.min(axis=0).argmin())
    away = point - np.array(feet)[distances[:, triangle].argmin(), triangle]
    return -np.sign(away @ out[triangle]) * np.linalg.norm(away), out[triangle]


def posture(point, normal):
    """Joint positions with which the membrane is at a point, against the normal."""
    arm = ArmKinematics(load_model("panda_stethoscope"), "membrane")
    ik, q = QpIk(arm, period=np.inf), arm.home.copy()
    q[0] = 0.0
    for _ in range(300):
        q = ik.step(Pose(point, facing(-normal, np.eye(3))), q, q)
    return q


def test_the_skin_is_where_the_torso_is():
    somebody = patient()
    torso = somebody.person.torso["front"]
    seen = np.flatnonzero(torso.normals[:, 2] > 0.5)
    probe = Probe(somebody)
    depths = [probe.touch(ORIGIN + AXES @ torso.vertices[k]).depth for k in seen[::7]]
    assert np.abs(depths).max() < 0.003 and np.abs(depths).mean() < 5e-4  # its edges are rounded


@pytest.mark.parametrize("number, side", [(3, "front"), (4, "front"), (11, "back")])
def test_the_nearest_point_is_that_of_all_triangles(number, side):
    """Where one listens, and a centimetre above and below the skin there."""
    somebody, rng = Patient(number, side), np.random.default_rng(number)
    somebody.person.flesh = STILL
    probe, torso = Probe(somebody), somebody.person.torso[side]
    errors, angles, marks = [], [], list(torso.landmarks.values())
    for k in range(120):
        point = marks[k % len(marks)] + [*rng.uniform(-0.0389, 0.0389, 2), 0.0]
        depth, out = below(torso, point)
        point = point + (depth + rng.uniform(-0.01, 0.01)) * out
        depth, out = below(torso, point)
        if out[2] > 0.4:  # the outermost of them are beyond the flanks of a slender body
            contact = probe.touch(ORIGIN + AXES @ point)
            errors.append(contact.depth - depth)
            angles.append(np.degrees(np.arccos(AXES @ out @ contact.normal)))
    assert len(errors) > 100
    assert np.abs(errors).max() < 0.001 and np.abs(errors).mean() < 2e-4
    assert max(angles) < 10.0 and np.mean(angles) < 4.0  # of triangles, whose normals jump from one to the next


def test_sliding_over_the_skin_is_smooth():
    """A membrane drawn over ten edges of the mesh at one depth: neither its force nor the normal jumps."""
    somebody = patient()
    probe, start = Probe(somebody), skin(somebody)[0]
    point, force, normal = start, [], []
    for _ in range(400):
        point = point + [0.00025, 0.0, 0.0]
        contact = probe.touch(point)
        point = point + (contact.depth - 0.004) * contact.normal
        contact = probe.touch(point)
        force.append(contact.force)
        normal.append(contact.normal)
    assert np.abs(np.diff(force)).max() < 0.02
    turned = np.degrees(np.linalg.norm(np.diff(normal, axis=0), axis=1))
    assert turned.max() < 0.5 and np.degrees(np.arccos(normal[0] @ normal[-1])) > 5.0


@pytest.mark.parametrize(
    "side, region", [("front", ("lung", "front", "right upper")), ("back", ("lung", "back", "left lower"))]
)
def test_places_are_those_of_the_coronal_plane(side, region):
    somebody = patient(side=side)
    point, _ = skin(somebody, region, side)
    place = Probe(somebody).touch(point).place
    assert np.linalg.norm(place - somebody.person.field[side].landmarks[region[0]][region[2]]) < 0.01


def test_a_spring_along_the_normal():
    somebody = patient()
    point, normal = skin(somebody)
    for depth in (0.001, 0.003, 0.006):
        contact = Probe(somebody).touch(point - depth * normal)
        assert contact.depth == pytest.approx(depth, rel=0.03)
        assert contact.force == pytest.approx(STILL.stiffness * contact.depth)
    probe = Probe(somebody)
    normal = probe.touch(point - 0.004 * normal).normal
    force, moment = probe.data.xfrc_applied[1, :3], probe.data.xfrc_applied[1, 3:]
    assert (
        force @ normal == pytest.approx(STILL.stiffness * 0.004, rel=0.03)
        and np.linalg.norm(np.cross(force, normal)) < 1e-9
    )
    assert np.allclose(moment, np.cross(probe.data.site_xpos[0] - probe.data.xipos[1], force))


def test_nothing_is_pulled():
    somebody = patient()
    point, normal = skin(somebody)
    probe = Probe(somebody)
    assert probe.touch(point - 0.002 * normal, 1.0 * normal).force == 0.0  # faster off than the flesh follows
    assert not probe.data.xfrc_applied.any()
    assert probe.touch(point + 0.001 * normal, -0.5 * normal).force == 0.0  # not there yet
    closing = probe.touch(point - 0.002 * normal, -0.03 * normal)
    assert closing.force == pytest.approx(STILL.stiffness * closing.depth + STILL.damping * 0.03, rel=1e-3)


def test_friction_is_coulomb_s_against_the_sliding():
    somebody = patient()
    point, normal = skin(somebody)
    probe = Probe(somebody)
    deep = point - 0.004 * normal
    normal = probe.touch(deep).normal  # there
    along = np.cross(normal, [1.0, 0.0, 0.0])
    along /= np.linalg.norm(along)
    for speed, share in ((0.002, 0.2), (0.05, 1.0)):
        contact = probe.touch(deep, speed * along)
        force = probe.data.xfrc_applied[1, :3]
        assert contact.slip == pytest.approx(speed)
        assert force @ along == pytest.approx(-share * STILL.friction * contact.force)


def test_breath_lifts_the_skin():
    flesh = Flesh(breath=0.005, breath_rate=0.25)
    somebody = patient(flesh)
    still = patient()
    point, normal = skin(still)
    times = np.arange(0.0, 8.0, 0.05)
    probe = Probe(somebody)
    depths = np.array([probe.touch(point, t=t).depth for t in times])
    assert np.allclose(depths, 0.005 * normal[2] * np.sin(2 * np.pi * 0.25 * times), atol=1e-4)
    # its speed, by the damper of a membrane that stands 10 mm deep
    deep = point - 0.01 * normal
    forces = np.array([probe.touch(deep, t=t).force for t in times])
    depths = np.array([probe.touch(deep, t=t).depth for t in times])
    rate = np.gradient(depths, times)
    assert np.allclose(forces[1:-1], (flesh.stiffness * depths + flesh.damping * rate)[1:-1], atol=0.01)


def test_a_person_moves_at_a_speed():
    somebody = patient()
    point, normal = skin(somebody)
    before = Probe(somebody).touch(point).depth
    somebody.move(np.array([0.0, 0.0, 0.02]), 0.1, 5.0)
    probe = Probe(somebody)
    half = probe.touch(point, t=5.1)
    assert half.depth - before == pytest.approx(0.01 * normal[2], rel=0.05)
    assert half.force == pytest.approx(STILL.stiffness * half.depth + STILL.damping * 0.1 * half.normal[2], rel=1e-3)
    assert probe.touch(point, t=9.0).depth - before == pytest.approx(0.02 * normal[2], rel=0.05)
    somebody.move_back(9.0)
    assert probe.touch(point, t=9.1).depth - before == pytest.approx(0.01 * normal[2], rel=0.05)
    assert probe.touch(point, t=9.2).depth == pytest.approx(before)
    somebody.move(np.array([0.0, 0.0, 0.02]), 0.1, 10.0)
    assert probe.touch(point, t=11.0).depth - before > 0.01
    somebody.reset()
    assert Probe(somebody).touch(point, t=9.0).depth == pytest.approx(before)
    somebody.move(np.array([0.0, 0.0, 0.02]), 0.1, 0.0, for_good=True)
    somebody.reset()
    assert Probe(somebody).touch(point, t=0.0).depth - before == pytest.approx(0.02 * normal[2], rel=0.05)


def test_far_away_nothing_presses_and_what_is_told_is_still_right():
    somebody = patient()
    point, normal = skin(somebody)
    probe = Probe(somebody)
    assert probe.touch(point - 0.004 * normal).force > 0.0 and probe.data.xfrc_applied.any()
    contact = probe.touch(point + 0.05 * normal, (0.0, 0.3, 0.0))
    assert not probe.data.xfrc_applied.any() and contact.force == 0.0
    assert contact.depth == pytest.approx(-0.05, abs=0.001) and contact.normal @ normal > 0.999
    beside = probe.touch(point + [0.0, 1.0, 0.0])
    assert not probe.data.xfrc_applied.any() and beside.depth < -0.1


def test_the_wrist_feels_what_presses():
    """Held still by its servos with the membrane in the flesh, the sensor tells the force and the stethoscope's weight."""
    somebody = patient()
    point, normal = skin(somebody)
    plant = MujocoPlant("panda_stethoscope", patient=somebody, wrench_site="wrist", stop_state="hold")
    q = posture(point - 0.004 * normal, normal)
    plant.set_initial_state(q)
    plant.reset()
    for _ in range(1000):
        plant.tick()
    contact = somebody.contact
    assert contact.force > 3.0 and contact.slip < 1e-3
    probe = plant.world.observe()
    rotation = probe.site("wrist").xmat.reshape(3, 3)
    weight = 0.12 * np.array([0.0, 0.0, -9.81])
    felt = rotation @ plant.wrench()[:3]
    pressed = probe.xfrc_applied[plant.world.model.site("wrist").bodyid[0], :3]
    assert np.allclose(felt, weight + pressed, atol=0.05)
    # something is spawned meanwhile: the world is compiled anew, and nothing jumps
    before = contact.force
    plant.spawn("box", "refit:box?mass=0.1&size=0.02,0.02,0.02", position=[1.5, 0.0, 0.5])
    plant.tick()
    assert somebody.contact.force == pytest.approx(before, abs=0.05)
    # put elsewhere, it is free at once, and so is what the sensor tells before the next tick
    plant.set_state([1.4, *q[1:]], np.zeros(7))
    assert somebody.contact.force == 0.0
    assert np.linalg.norm(plant.wrench()[:3]) == pytest.approx(0.12 * 9.81, abs=0.2)  # it begins to move
    plant.set_state(q, np.zeros(7))
    assert somebody.contact.force == pytest.approx(STILL.stiffness * 0.004, rel=0.1)


def test_the_same_again_to_the_bit():
    def run():
        plant = MujocoPlant("panda_stethoscope", patient=Patient(3), seed=1, stop_state="hold")
        plant.set_initial_state([0.0, 0.3, 0.0, -1.9, 0.0, 2.2, 0.8])
        plant.reset()
        forces = []
        for _ in range(300):
            plant.tick()
            forces.append(plant.patient.contact.force)
        return plant.true_q.copy(), forces, plant

    (q, forces, plant), (again, others, _) = run(), run()
    assert (q == again).all() and forces == others
    plant.reset()
    for k in range(300):
        plant.tick()
        assert plant.patient.contact.force == forces[k]


def test_a_scenario_moves_the_person():
    plant = MujocoPlant(
        "panda_stethoscope",
        patient=Patient(3),
        scenario="[{time: 0.1, action: patient, shift: [0, 0, 0.05]}]",
        initial_q=[0.0, 0.0, 0.0, -2.0, 0.0, 2.0, 0.8],  # above the body
        stop_state="hold",
    )
    depth = {}
    for k in range(500):
        plant.tick()
        depth[k] = plant.patient.contact.depth
    assert depth[499] - depth[10] > 0.03
    plant.set_scenario([])  # what the old one changed is undone, as a person moves
    for _ in range(500):
        plant.tick()
    assert plant.patient.contact.depth == pytest.approx(depth[10], abs=0.005)
    plant.apply(dict(action="patient", shift=[0.0, 0.0, 0.05]))
    plant.reset()
    plant.tick()
    assert plant.patient.contact.depth - depth[0] == pytest.approx(depth[499] - depth[10], abs=0.005)
    with pytest.raises(PlantError, match="nobody lies before"):
        MujocoPlant("panda_stethoscope", scenario="[{action: patient, shift: [0, 0, 0.05]}]")
    for bad in ("[0, 0]", "[0, 0, 5]", "[0, 0, nan]", "[a, b, c]"):
        with pytest.raises(PlantError, match="shift"):
            MujocoPlant("panda_stethoscope", patient=Patient(3), scenario=f"[{{action: patient, shift: {bad}}}]")
    with pytest.raises(PlantError, match="membrane"):
        MujocoPlant("panda", patient=Patient(3))


def test_an_arm_that_is_stopped_on_a_breathing_body_gives_way():
    """In its stop state, with the stiffness that nodes.yaml gives it, on a chest that breathes by 5 mm to either side."""
    somebody = patient(Flesh(stiffness=2000.0, breath=0.005))
    point, normal = skin(patient())
    bandwidth = node_settings("panda_stethoscope", "sim_plant")["servo_bandwidth"]
    q = posture(point - 0.0035 * normal, normal)
    plant = MujocoPlant("panda_stethoscope", patient=somebody, stop_state="hold", servo_bandwidth=bandwidth)
    plant.set_initial_state(q)
    plant.reset()
    peak = 0.0
    for _ in range(4000):
        plant.tick()
        peak = max(peak, somebody.contact.force)
    assert 5.0 < peak < 15.0


def test_what_a_camera_sees_of_it_is_the_same_body():
    entity = patient_entity(3)
    model = build_model(robot_mjcf("panda_stethoscope")[1], [entity])
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    torso = patient().person.torso["front"]
    hit, found = np.zeros(1, np.int32), []
    for place in torso.landmarks.values():
        above = ORIGIN + AXES @ place + [0.0, 0.0, 0.5]
        found.append(mujoco.mj_ray(model, data, above, np.array([0.0, 0.0, -1.0]), None, 1, -1, hit) - 0.5)
        assert "torso" in model.geom(int(hit[0])).name
    assert np.abs(found).max() < 0.002
