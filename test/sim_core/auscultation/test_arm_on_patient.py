"""The robot with a stethoscope on a simulated person, servos, gate and sensor as in the graph, but without it: good and bad days."""

import numpy as np
import pytest

from config.robot import node_settings
from sim_core.auscultation.listening_arm import ListeningArm
from sim_core.auscultation.placement import Outcome, Phase, PlacementConfig
from sim_core.auscultation.pressing_force import PressingForce, wrist_load
from sim_core.auscultation.simulated_patient import Flesh
from sim_core.command import Command, Mode
from sim_core.gate import CommandGate
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, joint_limits
from sim_core.plant.patient import Patient, body_pose

ROBOT, PERIOD = "panda_stethoscope", 0.008
SHORT = PlacementConfig(duration=2.0)


def place_of(person, region):
    """A landmark and the skin's normal there, in the world (3,), (3,)."""
    torso, (axes, origin) = person.torso[region[1]], body_pose()
    mark = torso.landmarks[region]
    normal = torso.normals[np.linalg.norm(torso.vertices - mark, axis=1).argmin()]
    return origin + axes @ mark, axes @ normal


class Day:
    """A robot, a person, and what is told at each tick.

    Attributes:
        force: on the body [N]; speed: of the membrane [m/s]; phase: names; depth: of the membrane below the skin [m]; where: it
            is on the coronal plane (2,) [m].
    """

    def __init__(self, person=3, flesh=None, side="front", scenario=()):
        settings = node_settings(ROBOT, "sim_plant")
        named = ("tick", "stop_state", "servo_bandwidth", "position_noise", "velocity_noise", "wrench_site")
        self.patient = Patient(person, side)
        if flesh is not None:
            self.patient.person.flesh = flesh
        self.plant = MujocoPlant(
            ROBOT, patient=self.patient, scenario=scenario, **{name: settings[name] for name in named}
        )
        self.plant.gate = CommandGate(joint_limits(self.plant.world), self.plant.tick_period, supervised=False)
        model = load_model(ROBOT)
        self.arm = ListeningArm(model, "membrane")
        self.felt = PressingForce(wrist_load(model, "wrist", "membrane"))
        self.arm.start_at(self.plant.q)
        self.membrane = self.arm.kinematics.at(self.plant.true_q).position
        self.force, self.speed, self.phase, self.depth, self.where = [], [], [], [], []

    def cycle(self, commanded=True, deaf=False):
        plant, arm = self.plant, self.arm
        if not deaf:
            self.felt.feel(plant.wrench(), arm.pose(plant.q).rotation, plant.t)
        if commanded:
            m = arm.cycle(plant.q, plant.v, self.felt.at(plant.t), PERIOD)
            gain = np.hstack([np.diag(m.kp), np.diag(m.kd)])
            plant.command(Command(Mode.FEEDBACK, plant.t, plant.joints, m.effort, m.position, m.velocity, gain))
        for _ in range(round(PERIOD / plant.tick_period)):
            plant.tick()
            now = self.patient.contact
            self.force.append(now.force)
            self.depth.append(now.depth)
            self.where.append(now.place)
            before, self.membrane = self.membrane, arm.kinematics.at(plant.true_q).position
            self.speed.append(np.linalg.norm(self.membrane - before) / plant.tick_period)
            self.phase.append("none" if arm.placement is None else arm.placement.phase.name)

    def place(self, point, normal, config=SHORT, meanwhile=lambda day: {}, longest=60.0):
        """A placement to its end; `meanwhile(day)` gives the arguments of each cycle."""
        assert self.arm.out_of_reach(point, normal, config) == ""
        placement, end = self.arm.place(point, normal, config), self.plant.t + longest
        while not placement.ended:
            assert self.plant.t < end, f"it is {placement.phase.value}"
            self.cycle(**meanwhile(self))
        return placement

    def during(self, *phases):
        return np.isin(self.phase, [phase.name for phase in phases])


MITRAL = ("heart", "front", "mitral")


@pytest.mark.parametrize(
    "person, region",
    [(3, MITRAL), (3, ("lung", "front", "right upper")), (8, MITRAL), (5, ("lung", "back", "left lower"))],
)
def test_it_holds_seven_newton_where_it_was_told_to(person, region):
    day = Day(person, side=region[1])
    point, normal = place_of(day.patient.person, region)
    placement = day.place(point, normal)
    force, speed = np.array(day.force), np.array(day.speed)
    recorded = force[day.during(Phase.RECORD)]
    assert placement.outcome is Outcome.RECORDED, placement.why
    assert np.abs(recorded - 7.0).max() < 1.0 and force.max() < 14.0
    assert np.abs(np.array(placement.trace) - 7.0).max() < 1.0
    assert speed[day.during(Phase.TRANSIT, Phase.RETREAT)].max() <= 0.065
    assert speed[day.during(Phase.APPROACH)].max() <= 0.03
    assert force[-1] == 0.0 and day.depth[-1] < -0.06
    landmark = day.patient.person.field[region[1]].landmarks[region[0]][region[2]]
    away = np.linalg.norm(np.array(day.where)[day.during(Phase.RECORD)] - landmark, axis=1)
    assert away.max() < 0.006  # it sinks into the flesh along a normal that leans


@pytest.mark.parametrize("error", [-0.02, 0.02])
def test_a_surface_that_is_told_wrongly_is_found(error):
    day = Day(flesh=Flesh(stiffness=2000.0, breath=0.005))
    point, normal = place_of(day.patient.person, MITRAL)
    placement = day.place(point + error * normal, normal)
    recorded = np.array(day.force)[day.during(Phase.RECORD)]
    assert placement.outcome is Outcome.RECORDED
    assert abs(recorded[0] - 7.0) < 1.0 and np.mean(np.abs(recorded - 7.0) < 1.0) >= 0.95
    assert max(day.force) < 14.0


def shifted(way, speed):
    """The person moves up by so much [m] when it has been recorded for a second."""

    def act(day):
        placement = day.arm.placement
        if placement.recorded > 1.0 and not getattr(day, "moved", False):
            day.moved = True
            day.patient.move(np.array([0.0, 0.0, way]), speed, day.plant.t)
        return {}

    return act


def once_recorded(cycles, **arguments):
    """Arguments of so many cycles from when it has been recorded for a second."""

    def act(day):
        if day.arm.placement.recorded > 1.0 or getattr(day, "left", cycles) < cycles:
            day.left = getattr(day, "left", cycles) - 1
            return arguments if day.left >= 0 else {}
        return {}

    return act


@pytest.mark.parametrize(
    "act, outcomes",
    [
        (shifted(0.005, 0.1), {Outcome.RECORDED, Outcome.TOO_MUCH_FORCE}),
        (shifted(0.03, 0.06), {Outcome.RECORDED, Outcome.TOO_MUCH_FORCE}),
        (shifted(-0.05, 0.1), {Outcome.CONTACT_LOST}),
        (once_recorded(10_000, deaf=True), {Outcome.SENSOR_SILENT}),
    ],
    ids=["jerk", "towards", "away", "deaf"],
)
def test_no_bad_day_presses_with_more_than_15_newton(act, outcomes):
    day = Day(flesh=Flesh(stiffness=1500.0, breath=0.005))
    placement = day.place(*place_of(day.patient.person, MITRAL), PlacementConfig(duration=4.0), act)
    assert placement.outcome in outcomes, placement.why
    assert max(day.force) < 15.0 and day.force[-1] == 0.0
    assert max(day.speed) <= (
        0.065 if outcomes == {Outcome.SENSOR_SILENT} else 0.1
    )  # faster than that are people alone


def test_a_stop_in_contact_gives_way_and_comes_back_when_it_may():
    """For four seconds nobody commands, so that the servos hold in their stop state; then the controller is let in again."""
    day = Day(flesh=Flesh(stiffness=1500.0, breath=0.005))
    point, normal = place_of(day.patient.person, MITRAL)
    placement = day.arm.place(point, normal, PlacementConfig(duration=30.0))
    while placement.recorded < 1.0:
        day.cycle()
    day.arm.stop("halted by the supervisor")
    day.plant.release_command("halted")
    for _ in range(500):
        day.cycle(commanded=False)
    assert day.plant.stop_reason and day.force[-1] > 0.0, "still in contact"
    begin = len(day.speed)
    day.arm.start_at(day.plant.q)
    while not placement.ended:
        day.cycle()
    assert placement.outcome is Outcome.ARM_STOPPED and placement.why == "halted by the supervisor"
    assert max(day.force) < 15.0 and day.force[-1] == 0.0 and day.depth[-1] < -0.06
    assert max(day.speed[begin:]) <= 0.065


def test_the_way_home_after_it_touches_nobody():
    day = Day()
    day.place(*place_of(day.patient.person, ("lung", "front", "left lower")), PlacementConfig(duration=0.2))
    begin = len(day.force)
    assert day.arm.go_home() == ""
    while day.arm.homing:
        day.cycle()
    for _ in range(50):
        day.cycle()
    assert max(day.force[begin:]) == 0.0 and max(day.speed[begin:]) <= 0.065
    assert np.abs(day.plant.q - day.arm.kinematics.home).max() < 0.01
