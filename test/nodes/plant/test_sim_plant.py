"""The plant node through its topics: rate, bad commands, lock-step, resets, endings, namespaces."""

import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco
import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Point, Pose, WrenchStamped
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from refit_interfaces.msg import JointCommand, RehearsalStatus, StethoscopeContact
from refit_interfaces.srv import ResetPile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState, PointCloud2
from simulation_interfaces.msg import EntityState, SimulationState
from simulation_interfaces.srv import (
    GetSimulationState,
    ResetSimulation,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from nodes.framework.messages import seconds, to_stamp
from nodes.framework.qos import CLOCK, COMMAND, LATCHED, SENSOR, STATE
from nodes.plant.scenery_messages import scenery_joints
from nodes.plant.sim_plant import SimPlant
from nodes.plant.sim_plant_config import SimPlantConfig
from sim_core.command import Command, Mode
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.patient import Patient
from sim_core.plant.rehearsal.tasks import rehearse


def stamp(message):
    return seconds(message.header.stamp)


def commander(ros, topic="joint_command"):
    """A function that publishes a command answering a state."""
    publisher = ros.node.create_publisher(JointCommand, topic, COMMAND)

    def send(state, **fields):
        message = JointCommand(**{"joint_names": list(state.name), **fields})
        message.header.stamp = state.header.stamp
        publisher.publish(message)

    send.publisher = publisher
    return send


def applied(ros, states, send, effort):
    """Until the plant exerts these efforts: said to one state after the other, since one may be late and another early."""

    def exerted():
        if list(states[-1].effort) == effort:
            return True
        if stamp(states[-1]) > said[0]:
            said[0] = stamp(states[-1])
            send(states[-1], mode=0, effort=effort)
        return False

    said = [-1.0]
    ros.until(exerted, what=f"efforts {effort}")


def pushed():
    """Efforts that carry the Panda at home and push its base slowly, so that no bound of its motion changes them."""
    world = MujocoPlant("panda").world
    mujoco.mj_forward(world.model, world.data)
    return [*(world.data.qfrc_bias[world.dof] + np.eye(7)[0])]


def set_state(ros, state, prefix=""):
    return ros.call(SetSimulationState, f"{prefix}set_simulation_state", state=SimulationState(state=state)).result


def test_every_tick_is_published_and_described(ros):
    numbered = []
    ros.node.create_subscription(
        JointState, "joint_states", lambda message, info: numbered.append((message, info)), STATE
    )
    clocks, wrenches = ros.listen(Clock, "/clock", CLOCK), ros.listen(WrenchStamped, "wrench", SENSOR)
    moving, static = ros.listen(TFMessage, "/tf", STATE), ros.listen(TFMessage, "/tf_static", LATCHED)
    text, urdf = (ros.listen(String, topic, LATCHED) for topic in ("robot_description_mjcf", "robot_description"))
    diagnostics = ros.diagnostics("sim_plant")
    ros.start(
        "sim_plant",
        require_supervisor=False,
        robot="panda",
        stop_state="hold",
        wrench_site="flange",
        wrench_period=0.01,
    )
    ros.up("sim_plant")
    ros.until(lambda: numbered and stamp(numbered[-1][0]) > 2.0 and diagnostics()[0] is not None)
    ros.until(lambda: wrenches and moving and static and text and urdf)
    states = [message for message, _ in numbered]
    # Every tick is said, whatever the machine's speed: time goes with the publisher's own count, which also counts what
    # this reader missed while it was held up for a second.
    t, sent = np.array([(stamp(m), info["publication_sequence_number"]) for m, info in numbered]).T
    np.testing.assert_allclose(np.diff(t), 0.002 * np.diff(sent), atol=1e-9)
    assert list(states[0].name) == [f"joint{i}" for i in range(1, 8)]
    assert np.all(np.isfinite([m.effort for m in states]))
    assert '<mujoco model="panda">' in text[0].data
    # RViz draws every link at its frame.
    links = {link.get("name") for link in ElementTree.fromstring(urdf[0].data).findall("link")}
    assert links - {"world"} == {t.child_frame_id for m in (static[-1], moving[-1]) for t in m.transforms}
    base = next(t for t in static[-1].transforms if t.child_frame_id == "base_link")
    assert base.header.frame_id == "world" and base.transform.rotation.w == 1.0
    assert {c.clock.nanosec % 10_000_000 for c in clocks} == {0}
    # Whatever the arm does, the hand below the flange weighs about 0.76 kg.
    force = wrenches[-1].wrench.force
    assert np.hypot(np.hypot(force.x, force.y), force.z) == pytest.approx(0.76 * 9.81, rel=0.05)
    assert {x.child_frame_id for x in moving[-1].transforms} == {f"link{i}" for i in range(1, 8)}
    assert {"link0", "hand", "flange", "hand_site"} <= {x.child_frame_id for x in static[0].transforms}
    level, _, values = diagnostics()
    assert level == 0 and float(values["ticks_rate"]) > 0 and values["servos"] == "no command yet"
    assert float(values["real_time_factor"]) > 0.0


def test_bad_commands_are_refused_counted_and_move_nothing(ros):
    states = ros.listen(JointState, "joint_states", STATE)
    diagnostics = ros.diagnostics("sim_plant")
    send = commander(ros)
    process = ros.start(
        "sim_plant", require_supervisor=False, robot="panda", stop_state="hold", tick=0.01, command_age_limit=1.0
    )
    ros.up("sim_plant")
    ros.until(lambda: states and send.publisher.get_subscription_count())
    good = dict(mode=0, effort=[0.0] * 7)
    bad = {
        "not_finite": dict(effort=[np.nan] + [0.0] * 6),
        "size": dict(effort=[0.0] * 6),
        "names": dict(joint_names=[f"joint{i}" for i in range(1, 7)], effort=[0.0] * 6),
        "mode": dict(mode=9),
    }
    ros.until(lambda: stamp(states[-1]) > 1.5)
    # Time stands still, so that what was said to the newest state is not old when a busy machine gets to it.
    assert set_state(ros, SimulationState.STATE_PAUSED).result == 1
    settled(ros, states)
    for reason, fields in bad.items():
        send(states[-1], **{**good, **fields})
        ros.until(lambda: diagnostics()[2].get(f"refused_{reason}") == "1", what=f"refusal for {reason}")
    old = states[0]
    send(old, **good)
    ros.until(lambda: diagnostics()[2].get("refused_old") == "1")
    future = JointState(name=states[-1].name)
    future.header.stamp.sec = 10**6
    send(future, **good)
    ros.until(lambda: diagnostics()[2].get("refused_future") == "1")
    level, message, values = diagnostics()
    assert level == 1 and message.startswith("Command refused: ")
    assert values["commands_refused"] == "6" and values["servos"] == "no command yet"
    assert set_state(ros, SimulationState.STATE_PLAYING).result == 1
    q = np.array([m.position for m in states])
    assert np.max(np.abs(q[-1] - q[len(q) // 2])) < 0.05  # still held
    applied(ros, states, send, [1.5] * 7)
    ros.until(lambda: list(states[-1].effort) != [1.5] * 7, what="its age limit")
    code, seconds, output = ros.finish(process)
    assert code == 0 and "Command refused" in output and "Traceback" not in output


def settled(ros, states):
    """Until what was under way has come: the plant stands still, so nothing new does."""
    count = -1
    while count != len(states):
        count = len(states)
        ros.spin(0.5)


def drive(ros, states, send, ticks):
    """Answers each new state with the same feedback law; returns {stamp: (q, v, effort)}."""
    seen, answered = {}, -1.0
    while len(seen) < ticks:
        ros.until(lambda: states, what="a state")
        state = states.pop(0)
        if stamp(state) < answered:
            continue
        # A state is said again if its answer came late, or went to a plant that did not know this publisher yet.
        answered = stamp(state)
        seen[round(answered, 6)] = (list(state.position), list(state.velocity), list(state.effort))
        send(
            state,
            mode=2,
            effort=[20.0 * np.sin(3.0 * answered), 0.0],
            position=[0.0, np.pi],
            gain=[8.0, 1.0, 2.0, 0.5, 0, 0, 0, 0],
        )
    return seen


CARTPOLE = dict(robot="cartpole", tick=0.02, position_noise=1e-3, seed=3, initial_position_std=[0.1])


def test_lockstep_through_topics_equals_the_library_bit_for_bit(ros):
    plant = MujocoPlant("cartpole", tick=0.02, position_noise=1e-3, seed=3, initial_q_std=0.1)
    expected = {0.0: (list(plant.q), list(plant.v), [0.0, 0.0])}
    for _ in range(99):
        t = seconds(to_stamp(plant.t))  # as it comes out of a message
        plant.command(
            Command(
                Mode.FEEDBACK,
                t,
                plant.joints,
                np.array([20.0 * np.sin(3.0 * t), 0.0]),
                np.array([0.0, np.pi]),
                (),
                np.array([[8.0, 1.0, 2.0, 0.5], [0, 0, 0, 0]]),
            )
        )
        plant.tick()
        expected[round(plant.t, 6)] = (list(plant.q), list(plant.v), list(plant.effort))

    states = ros.listen(JointState, "joint_states", STATE)
    send = commander(ros)
    ros.start("sim_plant", require_supervisor=False, **CARTPOLE, lockstep=True, lockstep_timeout=5.0)
    ros.up("sim_plant")
    assert drive(ros, states, send, 100) == expected
    # A reset in the middle replays the same run.
    assert ros.call(ResetSimulation, "reset_simulation").result.result == 1
    ros.until(lambda: states and stamp(states[-1]) == 0.0)
    del states[:-1]
    assert drive(ros, states, send, 100) == expected

    # Now nobody answers: the plant halts with a sentence, and a late answer sets it going again.
    diagnostics = ros.diagnostics("sim_plant")
    halt = "Lock-step: no command for the state at t = 2.0"
    ros.until(
        lambda: diagnostics()[0] == DiagnosticStatus.ERROR[0] and halt in diagnostics()[1],
        what="the halt",
    )
    ros.until(lambda: [stamp(state) for state in states].count(pytest.approx(2.0)) >= 2, what="the state said again")
    last = states[-1]
    send(last, mode=0, effort=[0.0, 0.0])
    ros.until(lambda: stamp(states[-1]) == pytest.approx(stamp(last) + 0.02), what="the state after the late answer")


def test_paused_and_stepped(ros):
    states = ros.listen(JointState, "joint_states", STATE)
    diagnostics = ros.diagnostics("sim_plant")
    ros.start("sim_plant", require_supervisor=False, **CARTPOLE, start_paused=True)
    ros.transition("sim_plant", "configure")
    assert ros.call(StepSimulation, "step_simulation", steps=1).result.result == 3  # not active
    assert set_state(ros, SimulationState.STATE_PLAYING).result == 3
    ros.transition("sim_plant", "activate")
    ros.until(lambda: states)
    assert stamp(states[-1]) == 0.0
    assert ros.call(GetSimulationState, "get_simulation_state").state.state == SimulationState.STATE_PAUSED
    for steps in (1, 7, 0):
        before = stamp(states[-1])
        assert ros.call(StepSimulation, "step_simulation", steps=steps).result.result == 1
        if steps:
            ros.until(lambda: stamp(states[-1]) == pytest.approx(before + steps * 0.02))
        ros.spin(0.2)
        assert stamp(states[-1]) == pytest.approx(before + steps * 0.02)
    ros.until(lambda: diagnostics()[1] == "paused")
    assert set_state(ros, SimulationState.STATE_PAUSED).result == 101  # already
    assert set_state(ros, SimulationState.STATE_PLAYING).result == 1
    assert ros.call(StepSimulation, "step_simulation", steps=1).result.result == 3
    ros.until(lambda: stamp(states[-1]) > 0.5)
    assert set_state(ros, SimulationState.STATE_STOPPED).result == 1
    ros.until(lambda: stamp(states[-1]) == 0.0)
    assert ros.call(GetSimulationState, "get_simulation_state").state.state == SimulationState.STATE_STOPPED


def test_states_may_be_told_less_often_than_servos_tick_but_the_last_is_told_always(ros):
    states = ros.listen(JointState, "joint_states", STATE)
    process = ros.start("sim_plant", require_supervisor=False, **CARTPOLE, state_period=0.06, start_paused=True)
    ros.up("sim_plant")
    ros.call(StepSimulation, "step_simulation", steps=10)
    ros.until(lambda: len(states) == 4)
    assert [stamp(state) for state in states] == pytest.approx([0.0, 0.06, 0.12, 0.18])
    set_state(ros, SimulationState.STATE_PLAYING)
    ros.until(lambda: len(states) > 8)
    code, _, output = ros.finish(process)
    assert code == 0, output
    ros.spin(0.2)
    told = np.diff([stamp(state) for state in states])
    assert told[:-1] == pytest.approx(0.06) and 0.0 < told[-1] <= 0.08 and not any(states[-1].effort)


def test_twenty_resets_during_motion(ros):
    states = ros.listen(JointState, "joint_states", STATE)
    # Deeper than the clock's own readers, so that a reset is not overwritten by the time after it before it is read.
    clocks = ros.listen(Clock, "/clock", QoSProfile(depth=500, reliability=CLOCK.reliability))
    send = commander(ros)
    ros.start("sim_plant", require_supervisor=False, robot="panda", stop_state="damped", tick=0.01)
    ros.up("sim_plant")
    home, effort = MujocoPlant("panda").q, pushed()
    for k in range(20):
        ros.until(lambda: states and stamp(states[-1]) > 0.01 * k)
        applied(ros, states, send, effort)
        ros.until(lambda: stamp(states[-1]) > 0.03 + 0.01 * k and np.any(np.abs(states[-1].velocity) > 0.01))
        states.clear()
        assert ros.call(ResetSimulation, "reset_simulation").result.result == 1
        ros.until(lambda: any(stamp(m) == 0.0 for m in states))
        first = next(m for m in states if stamp(m) == 0.0)
        np.testing.assert_allclose(first.position, home, atol=1e-12)
        np.testing.assert_array_equal(first.velocity, 0.0)
        np.testing.assert_array_equal(first.effort, 0.0)
        # States before the reset are older than it; none mixes with those after.
        after = states[states.index(first) :]
        assert np.all(np.diff([stamp(m) for m in after]) > 0)
    assert (
        sum(
            b.clock.sec + b.clock.nanosec * 1e-9 < a.clock.sec + a.clock.nanosec * 1e-9
            for a, b in zip(clocks, clocks[1:], strict=False)
        )
        >= 15
    )  # best effort: some may be lost


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_in_motion_leaves_torque_zero(ros, number):
    states = ros.listen(JointState, "joint_states", STATE)
    send = commander(ros)
    process = ros.start("sim_plant", require_supervisor=False, robot="panda", command_age_limit=5.0)
    ros.up("sim_plant")
    ros.until(lambda: states and send.publisher.get_subscription_count())
    applied(ros, states, send, pushed())
    process.send_signal(number)
    ros.until(lambda: process.poll() is not None)
    ros.until(lambda: list(states[-1].effort) == [0.0] * 7, what="a last state without torque")
    output, _ = process.communicate()
    assert process.returncode == 0 and "Traceback" not in output


def catches(pid, number):
    """Whether a process has a handler for a signal: Python itself has none for SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_ending_while_nothing_runs_yet(ros):
    for wait in (0.0, 0.3, 0.6, 1.0):
        process = ros.start("sim_plant", require_supervisor=False, robot="panda")
        # Before Python has read its first line, a signal is the interpreter's own affair.
        ros.until(lambda process=process: catches(process.pid, signal.SIGTERM), what="the node's first line")
        ros.spin(wait)
        code, _, output = ros.finish(process)
        assert code == 0 and "Traceback" not in output, output


def test_two_robots_by_namespace_keep_their_own_time(ros):
    remap = ("-r", "/clock:=clock")
    for name in ("left", "right"):
        ros.start("sim_plant", "-r", f"__ns:=/{name}", *remap, **CARTPOLE, start_paused=True, require_supervisor=False)
    states = {name: ros.listen(JointState, f"/{name}/joint_states", STATE) for name in ("left", "right")}
    clocks = {name: ros.listen(Clock, f"/{name}/clock", CLOCK) for name in ("left", "right")}
    for name in ("left", "right"):
        ros.up(f"/{name}/sim_plant")
    ros.until(lambda: all(states.values()))
    assert ros.call(StepSimulation, "/left/step_simulation", steps=25).result.result == 1
    ros.until(lambda: stamp(states["left"][-1]) == pytest.approx(0.5))
    ros.until(lambda: clocks["left"] and clocks["left"][-1].clock.nanosec == 500_000_000)  # said again while paused
    later = len(clocks["right"])
    ros.until(lambda: len(clocks["right"]) > later + 3)
    assert {stamp(m) for m in states["right"]} == {0.0} and {m.clock.nanosec for m in clocks["right"]} == {0}


def test_live_scenario_and_initial_state(ros):
    states = ros.listen(JointState, "joint_states", STATE)
    ros.start("sim_plant", require_supervisor=False, robot="cartpole", tick=0.02, start_paused=True)
    ros.up("sim_plant")
    refused = ros.set_parameter("sim_plant", "scenario", "[{time: 0, action: scale, target: poll.mass, factor: 2}]")
    assert not refused.successful and "Did you mean 'pole'" in refused.reason
    assert ros.set_parameter("sim_plant", "initial_position", [0.5, 0.1]).successful
    assert not ros.set_parameter("sim_plant", "initial_position", [0.5]).successful
    assert not ros.set_parameter("sim_plant", "seed", 4).successful
    ros.call(ResetSimulation, "reset_simulation")
    ros.until(lambda: states and list(states[-1].position) == [0.5, 0.1])
    assert ros.set_parameter(
        "sim_plant", "scenario", "[{time: 0, action: set, target: gravity.z, value: 0}]"
    ).successful
    ros.call(StepSimulation, "step_simulation", steps=50)
    ros.until(lambda: stamp(states[-1]) == pytest.approx(1.0))
    np.testing.assert_allclose(states[-1].position, [0.5, 0.1], atol=1e-9)  # weightless


def test_an_identified_set_becomes_its_physics(ros):
    from refit_interfaces.msg import ParameterSet
    from refit_interfaces.srv import SetParameterSet

    from sim_core.multibody import load_model

    model = load_model("cartpole")
    ros.start(
        "sim_plant",
        require_supervisor=False,
        robot="cartpole",
        tick=0.01,
        start_paused=True,
        initial_position=[0.0, 0.5],
    )
    states = ros.listen(JointState, "joint_states", STATE)
    ros.up("sim_plant")
    ros.until(lambda: states)
    assert ros.call(StepSimulation, "step_simulation", steps=20).result.result == 1
    # Weightless, the pole stays about as fast as it is; falling, it would double its speed in twenty ticks.
    p = model.parameters.values({"gravity.z": 0.0})
    given = ParameterSet(robot="cartpole", model_hash=model.hash, vector=p.tolist())
    answer = ros.call(SetParameterSet, "sim_plant/set", parameters=given)
    assert answer.success and answer.revision == 1, answer.message
    assert ros.call(StepSimulation, "step_simulation", steps=20).result.result == 1
    ros.until(lambda: stamp(states[-1]) == pytest.approx(0.4))
    speeds = np.array([state.velocity[1] for state in states if stamp(state) > 0.2 + 1e-9])
    assert np.ptp(speeds) < 0.2 * abs(speeds).max()
    given.model_hash = "another"
    refused = ros.call(SetParameterSet, "sim_plant/set", parameters=given)
    assert not refused.success and "nothing was changed" in refused.message


def test_a_person_on_the_table_is_felt_and_told_of(ros):
    """The same plant beside it, with the membrane in the flesh: every fifth of its contacts is told, with its stamp."""
    lying = dict(patient=4, patient_side="back", patient_position=[0.55, 0.05, 0.136])
    body = Patient(4, "back", (0.55, 0.05, 0.136))
    plant = MujocoPlant("panda_stethoscope", patient=body, wrench_site="wrist", stop_state="hold", tick=0.002)
    q = [0.0, 0.0, 0.0, -2.2, 0.0, 2.2, 0.785]
    plant.set_initial_state(q)
    expected = {}
    plant.reset()
    for _ in range(500):
        plant.tick()
        expected[round(plant.t, 6)] = body.contact
    assert 3.0 < max(contact.force for contact in expected.values()) < 20.0, "a posture in contact"
    told = ros.listen(StethoscopeContact, "sim_plant/stethoscope", QoSProfile(depth=500))
    settings = dict(tick=0.002, stop_state="hold", wrench_site="wrist", initial_position=q, real_time_factor=0.0)
    process = ros.start("sim_plant", robot="panda_stethoscope", start_paused=True, **settings, **lying)
    ros.up("sim_plant")
    ros.call(StepSimulation, "step_simulation", steps=500)
    ros.until(lambda: told and stamp(told[-1]) >= 1.0 - 1e-9, what="a second of contacts")
    code, _, output = ros.finish(process)
    assert code == 0, output
    stamps = [round(stamp(contact), 6) for contact in told if stamp(contact) > 0.0]
    assert np.allclose(np.diff(stamps), 0.01) and len(stamps) == 100
    for contact in told:
        if stamp(contact) > 0.0:
            true = expected[round(stamp(contact), 6)]
            assert contact.force == true.force and contact.depth == true.depth and contact.slip == true.slip
            assert list(contact.place) == true.place.tolist()
            assert [contact.position.x, contact.position.y, contact.position.z] == true.position.tolist()
            assert [contact.normal.x, contact.normal.y, contact.normal.z] == true.normal.tolist()
            assert contact.side == "back" and contact.header.frame_id == "world"


def test_a_new_pile_lies_there_on_request_and_the_robot_begins_anew(ros):
    """Time is 0 and the robot at home; a seed names one pile."""
    told = ros.listen(PointCloud2, "sim_plant/grains", LATCHED)
    states = ros.listen(JointState, "joint_states", QoSProfile(depth=50))
    process = ros.start("sim_plant", robot="panda_bucket", tray="blocks", tray_seed=2, tick=0.002, start_paused=True)
    ros.up("sim_plant")
    ros.until(lambda: told, what="the first pile")
    piles = [bytes(told[-1].data)]
    for seed in (3, 2):
        ros.call(StepSimulation, "step_simulation", steps=20)
        ros.until(lambda: stamp(states[-1]) == pytest.approx(0.04), what="the robot has moved")
        assert states[-1].position != states[0].position
        count = len(told)
        answer = ros.call(ResetPile, "sim_plant/reset_pile", seed=seed)
        assert answer.success and answer.message == f"blocks, seed {seed}"
        ros.until(lambda: len(told) > count and stamp(states[-1]) == 0.0, what="a new pile")
        assert states[-1].position == states[0].position and stamp(told[-1]) == 0.0
        piles.append(bytes(told[-1].data))
    assert piles[0] == piles[2] != piles[1]
    code, _, output = ros.finish(process)
    assert code == 0, output


def test_a_task_stands_before_the_robot_and_is_judged(ros):
    """Where its things are is told as they are in the same plant beside it, and how far it is."""
    told = ros.listen(RehearsalStatus, "sim_plant/rehearsal", LATCHED)
    where = ros.listen(JointState, "sim_plant/scenery", QoSProfile(depth=50))
    process = ros.start("sim_plant", robot="avatar", rehearsal="drill", rehearsal_seed=2, start_paused=True, tick=0.002)
    ros.up("sim_plant")
    ros.call(StepSimulation, "step_simulation", steps=50)
    ros.until(lambda: told and where and stamp(where[-1]) >= 0.1 - 1e-9, what="a tenth of a second")
    plant = MujocoPlant("avatar", tick=0.002, rehearsal=rehearse("drill", 2))
    for _ in range(50):
        plant.tick()
    expected = plant.world.scenery_joints()
    found = scenery_joints(where[-1])
    assert found.keys() == expected.keys() == {"drill/free"}
    np.testing.assert_array_equal(found["drill/free"], expected["drill/free"])
    assert told[-1].task == "drill" and told[-1].sentence.startswith("Take the drill") and told[-1].progress == 0.0
    ros.call(
        SetEntityState,
        "set_entity_state",
        entity="drill",
        set_pose=True,
        state=EntityState(pose=Pose(position=Point(x=2.0, z=0.2))),
    )
    ros.call(StepSimulation, "step_simulation", steps=60)
    ros.until(lambda: told[-1].failed, what="a drill that has fallen down")
    assert told[-1].sentence == "The drill fell down." and not told[-1].done
    code, _, output = ros.finish(process)
    assert code == 0, output


def test_what_cannot_be_configured_is_said(ros):
    for parameters, text in (
        (dict(robot="pandda"), "No robot named 'pandda'"),
        (dict(robot="panda", scenario="[{action: attach}]"), "also needs frame, mass"),
        (dict(robot="panda", tick=0.003), "not a multiple of the physics step"),
        (dict(robot="panda", control_period=0.003, lockstep=True), "multiple of the servo"),
        (dict(robot="panda", control_period=0.006, state_period=0.004, lockstep=True), "multiple of state_period"),
        (dict(robot="panda", wrench_site="wrist"), "sites: flange, hand_site"),
        (dict(robot="panda", patient=3), "a site 'membrane'"),
        (dict(robot="panda", tray="blocks"), "no place for blocks before this robot"),
        (dict(robot="panda_stethoscope", scenario="[{action: patient, shift: [0, 0, 0.02]}]"), "nobody lies before"),
    ):
        node = SimPlant(
            context=ros.context,
            parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()],
        )
        with pytest.raises(PlantError, match=text):
            node.configure()
        node.cleanup()
        node.destroy_node()


def test_the_page_names_everything(documentation):
    assert (
        documentation.missing(
            "sim_plant.md", SimPlantConfig, "nodes/plant/sim_plant.py", "nodes/plant/simulation_interfaces_server.py"
        )
        == []
    )
