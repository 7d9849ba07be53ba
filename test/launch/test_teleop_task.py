"""A whole task on the running graph: a scripted operator presses the lever through the node, the supervisor's gate, the plant and its judge.

What he sees of the robot is what the graph says to an operator; where the lever is he sees as cameras would show it, from what the plant says
of its scenery. Slower than real time, so that a busy machine's delays are not taken for a bad link.
"""

import threading
import time

import launch_pytest
import mujoco
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, seconds
from refit_interfaces.msg import OperatorSample, RehearsalStatus, SupervisorStatus, TeleopStatus
from rosgraph_msgs.msg import Clock
from sampled import sample_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState

from experiments.problems.scripted_operator import ScriptedOperator
from experiments.problems.task_scripts import SCRIPTS
from experiments.problems.teleoperation import Seen
from nodes.framework.qos import CLOCK, COMMAND, LATCHED, LEDGER, STATE
from nodes.plant.scenery_messages import scenery_joints
from sim_core.plant.rehearsal.tasks import rehearse
from sim_core.plant.scene import robot_mjcf, scene_mjcf
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.session import State

TASK, SEED, PACE = "switch", 1, 0.4
#: [s] of wall time between two samples; patience for the whole task, of which it takes 25 s where nothing else runs
BETWEEN, PATIENCE = 0.03, 150.0
LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 1.0}
/**/teleop:
  ros__parameters: {state_age_limit: 1.0, sample_age_limit: 0.5, hold_after: 0.8, release_after: 3.0}
/**/supervisor:
  ros__parameters: {state_age_limit: 1.0, command_age_limit: 1.5, lease_duration: 5.0, stop_timeout: 60.0}
"""


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("task") / "limits.yaml"
    settings.write_text(LIMITS)
    task = dict(rehearsal=TASK, rehearsal_seed=SEED)
    processes = Processes()
    avatar = include("sim.launch.py", robot="avatar", real_time_factor=PACE, params_file=settings, **task)
    return LaunchDescription([*processes.handlers(), avatar]), processes


class Eyes:
    """Where things are in the frame of the robot's base, by what the plant says of robot and scenery."""

    def __init__(self):
        task = rehearse(TASK, SEED).task
        self.shown = task.shown
        self.model = mujoco.MjModel.from_xml_string(scene_mjcf(robot_mjcf("avatar")[1], task.scenery))
        self.data = mujoco.MjData(self.model)

    def picture(self, states: JointState, scenery: JointState) -> dict[str, Pose]:
        data = self.data
        for name, place in (*zip(states.name, states.position), *scenery_joints(scenery).items()):
            data.joint(name).qpos[:] = place
        mujoco.mj_kinematics(self.model, data)
        base = data.body("base")
        R, p = base.xmat.reshape(3, 3), base.xpos
        return {
            name: Pose(R.T @ (data.body(name).xpos - p), R.T @ data.body(name).xmat.reshape(3, 3))
            for name in self.shown
        }


class RemoteOperator:
    """A scripted operator who lives on the graph's topics, in a thread of his own."""

    def __init__(self, probe):
        self.probe, self.eyes = probe, Eyes()
        self.clock = probe.watch(Clock, "clock", CLOCK)
        self.teleop = probe.watch(TeleopStatus, "teleop/status", STATE)
        self.states = probe.watch(JointState, "joint_states", COMMAND)
        self.scenery = probe.watch(JointState, "sim_plant/scenery", STATE)
        self.script = ScriptedOperator(SCRIPTS[TASK], SEED)
        self.error, self.number = None, 0
        self._publisher = probe.node.create_publisher(OperatorSample, "operator/sample", STATE)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _live(self):
        begin = None
        try:
            while not self._end.wait(BETWEEN):
                if not (len(self.clock) and len(self.teleop) and len(self.states) and len(self.scenery)):
                    continue
                now = seconds(self.clock[-1].clock)
                begin = now if begin is None else begin
                devices, _ = self.script.act(now - begin, self._seen(self.teleop[-1]))
                self.number += 1
                self._publisher.publish(sample_message(devices, now, self.number, "task"))
        except Exception as error:
            self.error = error

    def _seen(self, said: TeleopStatus) -> Seen:
        return Seen(
            seconds(said.header.stamp),
            State(said.state),
            said.message,
            tuple(said.arm_mode),
            tuple(said.arm_message),
            tuple(_pose(pose) for pose in said.effectors),
            tuple(said.force),
            picture=self.eyes.picture(self.states[-1], self.scenery[-1]),
        )

    def close(self):
        self._end.set()
        self._thread.join()
        self.probe.end(self._publisher)


def _pose(message) -> Pose:
    p, q = message.position, message.orientation
    return Pose(np.array([p.x, p.y, p.z]), Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix())


@pytest.mark.launch(fixture=graph)
def test_a_task_is_done_through_the_graph(graph, probe):
    probe.wait_active("sim_plant", "teleop", "supervisor")
    judge = probe.watch(RehearsalStatus, "sim_plant/rehearsal", LATCHED)
    supervisor = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
    assert judge.wait().sentence == "Press the lever down."
    operator = RemoteOperator(probe)
    try:
        end = time.monotonic() + PATIENCE
        while not judge[-1].done and not judge[-1].failed and operator.error is None and time.monotonic() < end:
            time.sleep(0.2)
    finally:
        operator.close()
    assert operator.error is None, operator.error
    said, last = operator.teleop[-1], judge[-1]
    assert last.done and not last.failed, (last.sentence, said.message, list(said.arm_message), operator.script.goal)
    assert last.sentence == "Done: a lever is pressed down." and last.progress == 1.0 and 3.0 < last.elapsed < 60.0
    halted = [status.message for status in supervisor if status.state == SupervisorStatus.STATE_HALTED]
    assert not halted and not any(message.state == TeleopStatus.STATE_FAULT for message in operator.teleop)
    assert scenery_joints(operator.scenery[-1])["switch/lever"] > 0.9


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_everybody_ends_well(graph):
    graph[1].assert_ended_well()
