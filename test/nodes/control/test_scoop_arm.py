"""The node `scoop_arm` alone: the test leads it through time as a plant in lock-step would, with the robot's own servos.

The ground is a force that the test puts onto the sensor; with grains the arm is tried in test/sim_core/scooping.
"""

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from led_robot import PERIOD, LedRobot
from refit_interfaces.action import ExecuteScoop
from refit_interfaces.msg import SupervisorStatus
from std_msgs.msg import String
from std_srvs.srv import Trigger

from config.description import Scoop
from config.robot import load_robot
from nodes.control.scoop_arm import ScoopArmControllerConfig
from nodes.control.scoop_messages import action_of
from nodes.framework.qos import LATCHED, STATE
from sim_core.multibody import load_model
from sim_core.scooping.arm.execution import ExecutionConfig
from sim_core.scooping.arm.scoop_arm import BLADE
from sim_core.telepresence.arm_kinematics import ArmKinematics

ROBOT = "ur5e_scoop"
POINT = np.array([0.5, 0.0, 0.15])
REST = ("at home", "at the measuring pose")
O, S = ExecuteScoop.Result, GoalStatus


def test_the_page_names_everything(documentation):
    files = ("scoop_arm", "arm_controller", "joint_controller")
    assert not documentation.missing(
        "scoop_arm.md", ScoopArmControllerConfig, *(f"nodes/control/{name}.py" for name in files)
    )


# ---- what a goal may ask for -------------------------------------------------------------------------------------


def goal(point=POINT, yaw=0.0, depth=0.04, hard=True, frame="world"):
    """A goal as a client sends it."""
    made = ExecuteScoop.Goal(yaw=yaw, depth=depth, hard=hard)
    made.header.frame_id = frame
    made.point.x, made.point.y, made.point.z = map(float, point)
    return made


BAD = [
    (goal(frame="camera"), "frame of the arm's base, 'world' or '', found 'camera'"),
    (goal(point=[0.5, np.nan, 0.3]), "three finite numbers"),
    (goal(yaw=np.inf), "finite yaw"),
    (goal(depth=0.0), "depth: expected a positive number"),
    (goal(depth=np.nan), "depth: expected a positive number"),
]


@pytest.mark.parametrize("asked, says", BAD)
def test_a_goal_that_makes_no_sense_is_refused_with_a_sentence(asked, says):
    with pytest.raises(ValueError, match=says):
        action_of(asked)


def test_a_goal_becomes_an_action():
    action = action_of(goal(yaw=1.0, frame="", hard=False))
    assert (action.point.tolist(), action.yaw, action.depth, action.stiffness) == (POINT.tolist(), 1.0, 0.04, "soft")


def test_the_nodes_own_settings_are_those_that_the_algorithms_were_tried_with():
    tried = ExecutionConfig()
    assert ScoopArmControllerConfig().execution(tried.measuring) == tried


# ---- the node in its graph ---------------------------------------------------------------------------------------


class Robot(LedRobot):
    """The robot with a scoop; `push` is the ground's.

    Attributes:
        fastest: speed of the edge so far [m/s].
    """

    def __init__(self, ros):
        self.kinematics = ArmKinematics(load_model(ROBOT), BLADE)
        self.blades = ros.listen(PoseStamped, "scoop/blade", STATE)
        self.said = ros.listen(String, "scoop/state", LATCHED)
        super().__init__(ros, ROBOT, ExecuteScoop, "scoop/execute")

    def calm(self):
        super().calm()
        self.fastest = 0.0

    @property
    def place(self):
        """Of the edge (3,) [m]."""
        return self.kinematics.at(self.plant.true_q).position

    @property
    def forward(self):
        """Along the scoop's floor (3,)."""
        return self.kinematics.at(self.plant.true_q).rotation[:, 0]

    @property
    def state(self):
        return self.said[-1].data if self.said else ""

    def step(self):
        before = self.place
        super().step()
        self.fastest = max(self.fastest, float(np.linalg.norm(self.place - before)) / PERIOD)

    def until(self, condition, longest=40.0):
        """Let time go on until something is so."""
        end = self.now + longest
        while not condition():
            assert self.now < end, f"did not happen within {longest:g} s; it says {self.state}"
            self.step()

    def ask(self, asked=None, **fields):
        """The goal's handle; None where it is refused."""
        self.feedback = []
        sent = self.client.send_goal_async(
            asked or goal(**fields), lambda message: self.feedback.append(message.feedback)
        )
        self.ros.until(sent.done, what="the answer to a goal")
        return sent.result() if sent.result().accepted else None

    def result(self, handle, steps=True):
        """(result, status), while time goes on or stands still."""
        future, end = handle.get_result_async(), self.now + 40.0
        while not future.done():
            assert self.now < end, f"no result; it says {self.state}"
            self.step() if steps else self.ros.spin(0.02)
        return future.result().result, future.result().status

    def begun(self, seconds=0.3):
        """A goal's handle, so long after its beginning."""
        handle = self.ask()
        assert handle is not None
        self.until(lambda: self.state == "on the way to the stand-off")
        self.run(seconds)
        return handle

    def home(self):
        assert self.ros.call(Trigger, "scoop/home").success
        self.until(lambda: self.state == "on the way home")
        self.until(lambda: self.state == "at home")

    def close(self):
        self.client.destroy()
        self.supervisor.destroy_node()


@pytest.fixture(scope="module")
def one(shared_ros):
    shared_ros.start("scoop_arm", lockstep=True, control_period=PERIOD, robot=ROBOT, halt_patience=1.0)
    shared_ros.up("scoop_arm")
    robot = Robot(shared_ros)
    robot.permit(SupervisorStatus.STATE_READY)
    robot.until(lambda: robot.state == "at home")
    yield robot
    robot.close()


@pytest.fixture
def robot(one):
    one.calm()
    one.until(lambda: one.state in (*REST, "at rest"))
    if one.state not in REST:  # where the last test left it
        one.home()
    return one


def test_it_scoops_and_holds_the_load_where_it_is_measured(robot):
    heard, lowest = len(robot.said), []
    handle = robot.ask()
    assert robot.ask() is None, "one at a time"
    robot.until(lambda: robot.state == "approaching the surface")
    robot.push[2] = 12.0
    robot.until(lambda: lowest.append(robot.place[2]) or robot.state == "going up from the ground")
    robot.push[2] = 0.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.SCOOPED, S.STATUS_SUCCEEDED), result.message
    assert result.message == f"Scooped: the ground pushed with up to {result.peak:.0f} N."
    assert min(lowest) == pytest.approx(POINT[2] - 0.04, abs=2e-3)
    assert result.peak == pytest.approx(12.0, abs=1.0) and max(result.force) == result.peak
    assert result.period == PERIOD and 4.0 < len(result.force) * PERIOD < 10.0
    blade, measuring = result.blade.position, load_robot(ROBOT).task_as(Scoop).measuring
    assert [blade.x, blade.y, blade.z] == pytest.approx(measuring, abs=1e-3)
    assert robot.blades[-1].header.frame_id == "world" and np.abs(robot.plant.true_v).max() < 0.01
    phases = [
        *("on the way to the stand-off", "approaching the surface", "going into the ground", "dragging", "closing"),
        *("lifting", "going up from the ground", "carrying the load to the measuring pose", "coming to rest"),
    ]
    robot.ros.until(lambda: robot.state == "at the measuring pose")
    assert [said.data for said in robot.said[heard:]] == [*phases, "at the measuring pose"]
    assert {said.phase for said in robot.feedback} <= set(phases) and robot.feedback[0].phase == phases[0]
    assert max(said.force for said in robot.feedback) == pytest.approx(12.0, abs=1.0)


def test_it_goes_to_the_bin_to_the_measuring_pose_and_home_one_after_the_other(robot):
    def ask(name):
        answer = robot.ros.call(Trigger, f"scoop/{name}")
        return answer.success, answer.message

    assert ask("empty") == (True, "The scoop is emptied.")
    robot.until(lambda: robot.state == "emptying the scoop")
    assert robot.ask() is None, "a load on its way to the bin is not lost"
    assert ask("home") == (False, "The arm is emptying the scoop: wait until it is there.")
    poured = []
    robot.until(lambda: poured.append((robot.forward[2], *robot.place)) or robot.state == "at the measuring pose")
    steepest, *place = min(poured)
    assert steepest < -np.sin(np.deg2rad(65.0)), "the edge pointed down"
    assert place == pytest.approx(load_robot(ROBOT).task_as(Scoop).bin, abs=5e-3)
    robot.home()
    np.testing.assert_allclose(robot.plant.true_q, robot.kinematics.home, atol=2e-3)
    assert ask("measure_pose") == (True, "The scoop goes to the measuring pose.")
    robot.until(lambda: robot.state == "on the way to the measuring pose")
    robot.until(lambda: robot.state == "at the measuring pose")
    assert robot.fastest < 0.4


@pytest.mark.parametrize(
    "asked, says",
    [
        (goal(point=[1.4, 0.0, 0.15]), "from a wall of the tray"),
        (goal(depth=0.2), "above the tray's floor"),
    ],
)
def test_out_of_reach_nothing_moves(robot, asked, says):
    robot.run(PERIOD)
    told = robot.commanded
    result, status = robot.result(robot.ask(asked))
    assert (result.outcome, status) == (O.OUT_OF_REACH, S.STATUS_ABORTED)
    assert result.message.startswith("Out of reach: The scoop would come to") and says in result.message
    robot.run(0.2)
    np.testing.assert_array_equal(robot.commanded, told)
    assert not result.force and result.peak == 0.0


@pytest.mark.parametrize("asked", [case[0] for case in BAD[:2]])
def test_what_makes_no_sense_is_not_begun(robot, asked):
    assert robot.ask(asked) is None and robot.state in REST


def is_back(robot, blade):
    robot.ros.until(lambda: robot.state == "at the measuring pose")
    measuring = load_robot(ROBOT).task_as(Scoop).measuring
    return [blade.x, blade.y, blade.z] == pytest.approx(measuring, abs=2e-3)


@pytest.mark.parametrize("change", [dict(deaf=True), dict(frame="camera")])
def test_without_a_force_it_comes_back(robot, change):
    handle = robot.begun()
    for name, value in change.items():
        setattr(robot, name, value)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.SENSOR_SILENT, S.STATUS_ABORTED) and "no force was told" in result.message
    assert is_back(robot, result.blade.position)


def in_the_ground(robot):
    """A goal's handle, once the blade is below the surface."""
    handle = robot.begun()
    robot.until(lambda: robot.state == "going into the ground")
    robot.run(0.3)
    return handle


def test_too_much_force_in_the_ground_and_it_comes_up(robot):
    handle = in_the_ground(robot)
    robot.push[2] = 95.0
    robot.until(lambda: robot.state == "going up from the ground")
    robot.push[2] = 0.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.TOO_MUCH_FORCE, S.STATUS_ABORTED)
    assert "at most 80 N may be, going into the ground" in result.message
    assert result.peak > 80.0 and is_back(robot, result.blade.position)


def test_a_scoop_that_cannot_be_drawn_out_stays_and_is_fetched_by_hand(robot):
    handle = in_the_ground(robot)
    robot.push[2] = 95.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.STUCK, S.STATUS_ABORTED), result.message
    robot.ros.until(lambda: robot.state == "at rest")
    assert result.blade.position.z < POINT[2] + 0.05
    robot.push[2] = 0.0
    robot.home()


def test_a_client_calls_it_back_in_the_ground(robot):
    handle = in_the_ground(robot)
    cancelled = handle.cancel_goal_async()
    robot.ros.until(cancelled.done)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED)
    assert result.message == "Cancelled: it was called back." and is_back(robot, result.blade.position)


def test_a_halt_on_the_way_and_a_resume_bring_it_back_from_where_it_is(robot):
    handle = robot.begun()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    robot.ros.until(lambda: robot.state == "halted")
    assert robot.ask() is None, "nothing is begun in a halt"
    answer = robot.ros.call(Trigger, "scoop/home")
    assert (answer.success, answer.message) == (False, "halted by the supervisor: stopped by an operator")
    robot.permit(SupervisorStatus.STATE_READY)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert result.message == "Arm stopped: halted by the supervisor: stopped by an operator."
    assert is_back(robot, result.blade.position) and robot.fastest < 0.4


def test_a_halt_that_lasts_ends_the_goal_and_the_way_back_follows(robot):
    handle = robot.begun()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    result, status = robot.result(handle, steps=False)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert "the scoop is not back yet" in result.message
    robot.permit(SupervisorStatus.STATE_READY)
    robot.run(0.1)
    assert robot.ask() is None, "still on its way back"
    robot.until(lambda: robot.state == "coming to rest")
    robot.until(lambda: robot.state == "at the measuring pose")
    assert np.abs(robot.plant.true_v).max() < 0.01


def test_a_pause_without_joint_states_is_a_stop(robot):
    handle = robot.begun()
    robot.now += 0.5
    result, _ = robot.result(handle)
    assert result.outcome == O.ARM_STOPPED and "no joint states came for 0.52 s" in result.message
    assert is_back(robot, result.blade.position)


def test_time_that_goes_back_ends_the_goal_and_moves_nothing(robot):
    handle = robot.begun()
    robot.now = 1.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED) and "time went back" in result.message
    robot.run(0.5)
    assert np.abs(robot.plant.true_v).max() < 0.02
    robot.home()


def test_a_node_that_is_deactivated_ends_its_goal_and_comes_back_when_it_may(robot):
    handle = robot.begun()
    future = handle.get_result_async()
    robot.ros.transition("scoop_arm", "deactivate")
    robot.ros.until(future.done)
    assert future.result().result.outcome == O.ARM_STOPPED and "not active any more" in future.result().result.message
    assert robot.ask() is None
    robot.ros.transition("scoop_arm", "activate")
    robot.until(lambda: robot.state == "going up from the ground")
    robot.until(lambda: robot.state == "at the measuring pose")
