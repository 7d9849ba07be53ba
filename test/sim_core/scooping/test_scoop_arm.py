"""The arm that scoops, with servos, gate and sensors as in the graph: on thin air, against something hard, and after a halt."""

import numpy as np
import pytest

from sim_core.command import Command, Mode
from sim_core.gate import CommandGate
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, joint_limits
from sim_core.scooping.arm.execution import ExecutionConfig, Outcome, Stage
from sim_core.scooping.arm.felt_wrench import FeltWrench
from sim_core.scooping.arm.primitive import PrimitiveConfig, ScoopAction
from sim_core.scooping.arm.scoop_arm import BLADE, WRIST, ScoopArm

pytestmark = pytest.mark.pure

ROBOT, PERIOD = "ur5e_scoop", 0.008
#: faster than it scoops, so that a test takes half as long
QUICK = ExecutionConfig(
    primitive=PrimitiveConfig(speed=0.2, turning=1.3), transit=0.8, turning=3.0, rising=0.5, limit=40.0, stopped=1.0
)


class Day:
    """A robot, and a wall below its blade that pushes up: a spring from a height on.

    Attributes:
        rows: of each cycle: stage, blade's place, the place it was told, force felt.
    """

    def __init__(self, wall=-1.0, stiffness=2e4):
        self.wall, self.stiffness = wall, stiffness
        model = load_model(ROBOT)
        self.plant = MujocoPlant(
            ROBOT, tick=0.002, stop_state="hold", position_noise=1e-5, velocity_noise=1e-3, wrench_site=WRIST
        )
        self.plant.gate = CommandGate(joint_limits(self.plant.world), self.plant.tick_period, supervised=False)
        self.arm, self.felt = ScoopArm(model, QUICK), FeltWrench(model, WRIST, BLADE)
        self.arm.start_at(self.plant.q)
        mj = self.plant.world.model
        self.site, self.body = mj.site(BLADE).id, mj.body("scoop").id
        self.rows = []

    def cycle(self, commanded=True):
        plant, arm = self.plant, self.arm
        self.felt.feel(plant.wrench(), arm.pose(plant.q).rotation, plant.t)
        if commanded:
            m = arm.cycle(plant.q, plant.v, self.felt.at(plant.t), PERIOD)
            gain = np.hstack([np.diag(m.kp), np.diag(m.kd)])
            plant.command(Command(Mode.FEEDBACK, plant.t, plant.joints, m.effort, m.position, m.velocity, gain))
        for _ in range(4):
            data = plant.world.data
            push = np.array([0.0, 0.0, self.stiffness * max(0.0, self.wall - data.site_xpos[self.site][2])])
            at = data.site_xpos[self.site] - data.xipos[self.body]
            data.xfrc_applied[self.body] = np.r_[push, np.cross(at, push)]
            plant.tick()
        e = arm.execution
        stage = None if e is None else e.stage
        self.rows.append((stage, arm.pose(plant.true_q).position, np.linalg.norm(push)))

    def until(self, done, longest=40.0):
        end = self.plant.t + longest
        while not done():
            assert self.plant.t < end, self.arm.execution and self.arm.execution.stage
            self.cycle()

    def during(self, *stages):
        return [row for row in self.rows if row[0] in stages]


def action(day, stiffness="hard", depth=0.05, yaw=1.0):
    found = ScoopAction(np.array([0.5, 0.1, 0.15]), yaw, depth, stiffness)
    assert day.arm.out_of_reach(found) == ""
    return found


@pytest.fixture(scope="module")
def free():
    """A soft scoop through the air, then over the bin and home."""
    day = Day()
    execution = day.arm.scoop(action(day, "soft", yaw=np.pi))  # which noise may turn into -pi
    day.until(lambda: execution.ended)
    day.scooped = len(day.rows)
    day.arm.empty()
    day.until(lambda: not day.arm.moving)
    day.emptied = len(day.rows)
    day.arm.go_home()
    day.until(lambda: not day.arm.moving)
    return day


def test_through_the_air_even_a_soft_arm_goes_where_the_scoop_shall(free):
    execution = free.arm.execution
    assert execution.outcome is Outcome.SCOOPED and execution.peak < 3.0
    trajectory = execution.trajectory
    places = np.array([row[1] for row in free.during(Stage.PENETRATE, Stage.DRAG)])
    for t in np.linspace(0.0, trajectory.ends[1], 20):
        assert (
            np.linalg.norm(places - trajectory.at(t).pose.position, axis=1).min() < 0.006
        )  # it is twice as fast as it scoops
    assert free.rows[free.scooped - 1][1] == pytest.approx(QUICK.measuring.position, abs=0.003)
    low = [row[1][2] for row in free.during(Stage.CARRY)]
    assert min(low) > QUICK.safe - 0.01


def test_it_empties_the_scoop_over_the_bin_and_goes_home(free):
    pouring = np.array([row[1] for row in free.rows[free.scooped : free.emptied]])
    assert np.linalg.norm(pouring - free.arm.places.over_bin.position, axis=1).min() < 0.005
    assert free.arm.why == "" and np.abs(free.plant.true_q - free.arm.kinematics.home).max() < 0.005
    assert not free.plant.gate.refused


@pytest.mark.parametrize("stiffness, outcome", [("hard", Outcome.TOO_MUCH_FORCE), ("soft", Outcome.SCOOPED)])
def test_something_hard_stops_a_hard_arm_and_turns_a_soft_one_aside(stiffness, outcome):
    """Hard ground 5 mm below the surface where 7 cm deep is asked for: 750 N/m come to 40 N, 250 N/m do not."""
    day = Day(wall=0.145)
    execution = day.arm.scoop(action(day, stiffness, 0.07))
    day.until(lambda: execution.ended)
    assert execution.outcome is outcome, execution.why
    worked = [row[2] for row in day.rows]
    assert max(worked) < 1.25 * QUICK.limit
    assert execution.peak == pytest.approx(max(force for _, force in execution.trace))
    if outcome is Outcome.TOO_MUCH_FORCE:
        assert "N were felt, at most 40 N may be" in execution.why
        up = np.array([row[1][2] for row in day.during(Stage.RETREAT)])
        assert (np.diff(up) > -1e-3).all() and up[-1] > QUICK.safe - 0.01
    else:
        assert max(worked) > 0.6 * 250.0 * 0.065  # the spring's force, but for what the arm turned
    assert day.rows[-1][1] == pytest.approx(QUICK.measuring.position, abs=0.004)


def test_after_a_halt_in_the_ground_it_comes_out_without_a_jump():
    day = Day()
    execution = day.arm.scoop(action(day))
    day.until(lambda: execution.stage is Stage.DRAG)
    day.arm.stop("halted by the supervisor")
    day.plant.release_command("halted")
    for _ in range(60):
        day.cycle(commanded=False)
    begin = len(day.rows)
    day.arm.start_at(day.plant.q)
    day.until(lambda: execution.ended)
    assert execution.outcome is Outcome.ARM_STOPPED and execution.why == "halted by the supervisor"
    places = np.array([row[1] for row in day.rows[begin:]])
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 1.1 * QUICK.transit * PERIOD
    assert places[-1] == pytest.approx(QUICK.measuring.position, abs=0.004)


def test_one_scoop_at_a_time():
    day = Day()
    day.arm.scoop(action(day))
    for another in (lambda: day.arm.scoop(action(day)), day.arm.empty, day.arm.measure, day.arm.go_home):
        with pytest.raises(RuntimeError, match="a scoop is under way"):
            another()
