"""The recorder beside a running plant: complete, explained, and readable however it ends."""

import gc
import json
import os
import signal

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.duration import Duration
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from simulation_interfaces.srv import ResetSimulation, StepSimulation
from std_msgs.msg import String

from nodes.framework.messages import seconds
from nodes.framework.polled import take
from nodes.framework.qos import CLOCK, LATCHED, STATE
from nodes.supervision.loss_counter import LossCounter
from nodes.supervision.recorder import Recorder, RecorderConfig
from nodes.supervision.silence import Silence
from recording import BagReader
from sim_core.plant import MujocoPlant

COUNT = 200  # messages of a burst, fewer than a reader remembers


def run_info(ros):
    """A function giving what a recorder has found out about its run so far, a dictionary."""
    said = ros.listen(String, "run_info", LATCHED)
    return lambda: json.loads(said[-1].data) if said else {}


def test_a_run_is_recorded_whole_and_explained(ros, tmp_path):
    diagnostics = ros.diagnostics("recorder")
    recorder = ros.start("recorder", bag=str(tmp_path / "bag"), profile="full", extra_topics=["chatter"])
    ros.up("recorder")
    plant = ros.start(
        "sim_plant",
        robot="panda",
        seed=5,
        stop_state="hold",
        wrench_site="flange",
        start_paused=True,
        initial_position_std=[0.01],
    )
    ros.up("sim_plant")
    chatter = ros.node.create_publisher(String, "chatter", 10)
    known = run_info(ros)

    def all_heard():
        """Whether the recorder has every topic; a reset lets the plant say its own again."""
        chatter.publish(String(data="hello"))
        ros.call(ResetSimulation, "reset_simulation")
        ros.spin(0.5)
        silent = diagnostics()[2].get("topics_silent")
        return silent is not None and not {"/joint_states", "/wrench", "/tf_static", "/chatter"} & set(
            silent.split(", ")
        )

    ros.until(all_heard, what="every topic at the recorder")
    ros.until(lambda: "/sim_plant" in known().get("parameters", {}) and known()["model_hash"], what="what explains it")
    for _ in range(10):
        ros.call(StepSimulation, "step_simulation", steps=20)
        ros.spin(0.05)
    assert ros.finish(plant)[0] == 0
    seen = diagnostics.count
    ros.until(lambda: diagnostics.count > seen + 1, what="two seconds in which the recorder writes")
    code, _, output = ros.finish(recorder)
    assert code == 0 and "Traceback" not in output

    bag = BagReader(tmp_path / "bag")
    assert bag.truncated == ""
    lost = bag.run_info()["lost"]
    # Best effort may fall by the wayside on a busy machine, and is said; of everything else not one message may.
    assert set(lost) <= {"/wrench", "/clock"} and f" {sum(lost.values())} lost." in output
    joints = bag.joint_states()
    t, first = np.unique(joints.t, return_index=True)
    # Bit for bit what the plant did: the bag alone replays the run.
    twin = MujocoPlant("panda", seed=5, stop_state="hold", initial_q_std=0.01)
    q = [twin.q]
    for _ in range(200):
        twin.tick()
        q.append(twin.q)
    np.testing.assert_allclose(t, 0.002 * np.arange(201), atol=1e-9)
    np.testing.assert_array_equal(joints.q[first], q)
    assert next(iter(bag.messages("chatter")))[1].data == "hello"
    assert bag.has("/tf_static") and bag.has("wrench") and "<mujoco" in bag.robot_description()
    info = bag.run_info()
    assert (info["robot"], info["seed"], info["profile"]) == ("panda", 5, "full")
    assert info["parameters"]["/sim_plant"]["wrench_site"] == "flange"
    assert info["counts"]["/joint_states"] == len(joints.t)
    assert len(info["model_hash"]) == 64 and info["git_hash"] and info["versions"]["mujoco"]


def test_sigkill_leaves_a_readable_bag_and_a_second_one_gets_a_number(ros, tmp_path):
    ros.start("sim_plant", robot="cartpole", tick=0.01)
    ros.up("sim_plant")
    for number, name in enumerate(("bag", "bag_1")):
        # Discovery takes a killed process for alive a while longer, so each has its own name.
        recorder = ros.start("recorder", "-r", f"__node:=recorder{number}", bag=str(tmp_path / "bag"), flush_period=0.1)
        ros.up(f"recorder{number}")
        diagnostics, known = ros.diagnostics(f"recorder{number}"), run_info(ros)
        ros.until(
            lambda: (
                diagnostics()[2].get("bag") == str(tmp_path / name)
                and int(diagnostics()[2].get("messages", 0)) > 600
                and known().get("robot") == "cartpole"
            ),
        )
        seen = diagnostics.count  # with each of them goes all that was written before to the disk
        ros.until(lambda: diagnostics.count > seen + 1)
        ros.finish(recorder, signal.SIGKILL)
        bag = BagReader(tmp_path / name)
        assert "cut off" in bag.truncated and len(bag.joint_states().t) > 100
        assert bag.run_info()["robot"] == "cartpole"


def test_losses_are_counted_exactly(ros, tmp_path):
    ros.start("sim_plant", robot="panda")
    ros.up("sim_plant")
    diagnostics = ros.diagnostics("recorder")
    recorder = ros.start("recorder", bag=str(tmp_path / "bag"), profile="identify")
    ros.up("recorder")
    ros.until(lambda: int(diagnostics()[2].get("messages", 0)) > 200)
    clock = ros.listen(Clock, "/clock", CLOCK)
    ros.until(lambda: clock)
    os.kill(recorder.pid, signal.SIGSTOP)  # the machine is too slow for a while
    begin = seconds(clock[-1].clock)
    ros.until(lambda: seconds(clock[-1].clock) > begin + 4.0, what="2000 states, twice what a reader has")
    os.kill(recorder.pid, signal.SIGCONT)
    ros.until(lambda: int(diagnostics()[2].get("lost", 0)) > 0, what="losses")
    ros.until(lambda: diagnostics.said("was not run for"), what="the sentence that it was stopped")
    ros.until(lambda: int(diagnostics()[2].get("queue", 1)) == 0, what="the end of what had waited")
    end = seconds(clock[-1].clock)
    ros.until(lambda: seconds(clock[-1].clock) > end + 1.0, what="a second more")
    code, _, output = ros.finish(recorder)
    assert code == 0
    bag = BagReader(tmp_path / "bag")
    gaps = np.round(np.diff(bag.joint_states().t) / 0.002).astype(int) - 1
    assert gaps.sum() > 0
    assert bag.run_info()["lost"]["/joint_states"] == gaps.sum()
    assert bag.run_info()["not_run"] >= 2.0  # the watch tells no shorter stop
    assert bag.joint_states().t[-1] > end
    assert "made no turn" not in output and "This process was not run for" in output


@pytest.fixture
def recorder(ros, tmp_path):
    """A recorder in this process whose executor never runs: it takes only when it is told to."""
    parameters = {"bag": str(tmp_path / "bag"), "profile": "identify", "extra_topics": ["question", "answer"]}
    node = Recorder(
        "recorder_in_here",
        context=ros.context,
        parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()],
    )
    question, answer = (ros.node.create_publisher(String, name, STATE) for name in ("question", "answer"))
    ros.until(lambda: {"/question", "/answer"} <= {name for name, _ in node.get_topic_names_and_types()})
    node.trigger_configure()
    node.trigger_activate()
    ros.until(lambda: question.get_subscription_count() and answer.get_subscription_count())

    def say(k):
        for publisher in (question, answer):
            publisher.publish(String(data=str(k)))
            assert publisher.wait_for_all_acked(Duration(seconds=60))

    node.say = say
    yield node
    node.close()
    gc.unfreeze()  # activation freezes all there is, which would keep this node's services alive in here
    gc.collect()


def said(bag, topic):
    return [int(message.data) for _, message in bag.messages(topic)]


def test_whatever_has_arrived_is_in_the_bag(recorder, tmp_path):
    for k in range(COUNT):
        recorder.say(k)
    recorder.stop()
    bag = BagReader(tmp_path / "bag")
    assert said(bag, "question") == said(bag, "answer") == list(range(COUNT))
    assert bag.run_info()["counts"]["/answer"] == COUNT and bag.run_info()["lost"] == {}
    order = [(t, topic) for topic in ("answer", "question") for t, _ in bag.messages(topic)]
    assert [topic for _, topic in sorted(order)] == ["question", "answer"] * COUNT


def test_a_bag_ends_at_one_moment_for_all_topics(recorder, tmp_path, monkeypatch):
    """Between the emptying of two readers a question and its answer arrive, of which only the answer would be seen."""
    recorder.say(0)
    taken = []

    def interrupted(reader):
        messages = take(reader)
        taken.append(reader.topic_name)
        if taken == ["/question"]:
            recorder.say(1)
        return messages

    monkeypatch.setattr("nodes.supervision.recorder.take", interrupted)
    recorder._readers = {topic: recorder._readers[topic] for topic in ("/question", "/answer")}
    recorder.stop()
    assert taken == ["/question", "/answer"]
    bag = BagReader(tmp_path / "bag")
    assert said(bag, "question") == said(bag, "answer") == [0]


def test_late_messages_are_no_losses_and_restarts_no_gaps():
    def lost(*numbers):
        counter = LossCounter()
        for number in numbers:
            counter.see(number)
        return counter.lost

    assert lost() == 0 and lost(7) == 0  # what was before is unknown
    assert lost(1, 2, 5, 6) == 2
    assert lost(1, 2, 5, 3, 4, 6) == 0  # overtaken, not lost
    assert lost(1, 2, 4, 1, 2, 3) == 1  # publisher restarted
    assert lost(5000, 5001, 20, 22) == 1


def test_a_second_publisher_is_no_loss(ros, recorder, tmp_path):
    """Its numbers begin at 1, beside those of the first, before and after both are known to be there."""

    def say(publisher, *numbers):
        for k in numbers:
            publisher.publish(String(data=str(k)))
            assert publisher.wait_for_all_acked(Duration(seconds=60))

    def publishers(count):
        ros.until(lambda: recorder.count_publishers("/chatter") == count, what=f"{count} publishers at the recorder")

    recorder._wanted["/chatter"] = None
    first = ros.node.create_publisher(String, "chatter", STATE)
    publishers(1)
    recorder._discover()
    ros.until(lambda: first.get_subscription_count() == 1)
    say(first, *range(10))
    recorder._take()
    second = ros.node.create_publisher(String, "chatter", STATE)
    publishers(2)
    ros.until(lambda: second.get_subscription_count() == 1)
    say(second, 100)
    say(first, 10)
    recorder._take()
    recorder._discover()
    say(second, 101, 102)
    say(first, *range(11, 20))
    ros.node.destroy_publisher(second)
    publishers(1)
    recorder._discover()
    say(first, 20, 21)
    recorder.stop()
    bag = BagReader(tmp_path / "bag")
    assert bag.run_info()["lost"] == {} and bag.run_info()["uncounted"] == ["/chatter"]
    assert {*range(22), 100} <= set(said(bag, "chatter"))


def test_readers_wait_for_no_events_of_the_middleware(recorder):
    """To take the event of a loss while another is found is a deadlock, with the interpreter held (see `_count_losses`)."""
    assert [reader.event_handlers for reader, _ in recorder._readers.values()] == [[]] * len(recorder._readers)
    assert recorder._readers


def test_silence_is_said_of_streams_that_have_publishers():
    silence = Silence(limit=5.0)
    counts, publishers = {"/joint_states": 500, "/robot_description": 1}, {"/joint_states": 1, "/robot_description": 1}
    assert silence.look(100.0, counts, publishers) == ""
    assert silence.look(104.9, counts, publishers) == ""
    assert "6 s of /joint_states, which have publishers" in silence.look(106.0, counts, publishers)
    assert silence.look(106.0, counts, {"/robot_description": 1}) == ""  # whoever said it is gone
    assert silence.look(107.0, {**counts, "/joint_states": 501}, publishers) == ""
    assert Silence(limit=5.0).look(100.0, {"/robot_description": 1}, publishers) == ""  # said once, and meant to be


def test_a_best_effort_publisher_is_recorded_too(ros, tmp_path):
    """A driver that offers less than the profile asks for."""
    publisher = ros.node.create_publisher(
        JointState, "joint_states", QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    )
    diagnostics = ros.diagnostics("recorder")
    recorder = ros.start("recorder", bag=str(tmp_path / "bag"), profile="identify")
    ros.up("recorder")

    def recorded():
        """Whether it has written enough; what is said before the two know each other is lost."""
        publisher.publish(JointState(name=["a"], position=[0.0]))
        ros.spin(0.01)
        return int(diagnostics()[2].get("messages", 0)) >= 60

    ros.until(recorded, what="messages over the weaker subscription")
    code, _, output = ros.finish(recorder)
    assert code == 0
    assert len(BagReader(tmp_path / "bag").joint_states().t) >= 40


def test_a_full_disk_is_refused_or_ends_in_good_order(ros, tmp_path):
    diagnostics = ros.diagnostics("recorder")
    recorder = ros.start("recorder", bag=str(tmp_path / "bag"), min_free_space=1.0e6)
    ros.transition("recorder", "configure")
    assert not ros.try_transition("recorder", "activate")
    ros.until(lambda: diagnostics.said("MB are free"))
    code, _, output = ros.finish(recorder)
    assert code == 0 and "min_free_space is 1e+06 MB" in output and "Traceback" not in output
    assert not (tmp_path / "bag").exists()


def test_the_page_names_everything(documentation):
    assert documentation.missing("recorder.md", RecorderConfig, "nodes/supervision/recorder.py") == []


def test_a_timer_that_was_due_when_the_recorder_stopped_does_nothing(recorder):
    """An executor may hold a turn of a timer that a deactivation has just taken away."""
    recorder.stop()
    recorder._discover()
    assert not recorder._readers
