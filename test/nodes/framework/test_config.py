"""Dataclass to parameters: types, ranges, sentences, live changes; and the signals of `spin_main`."""

import dataclasses
import signal
import subprocess
import sys
import textwrap
import time

import pytest

rclpy = pytest.importorskip("rclpy")

from rclpy.parameter import Parameter

from nodes.framework.config import ConfigError, changed, declare, group, setting, settings


@dataclasses.dataclass(frozen=True)
class Config:
    horizon: int = setting(20, "steps", (1, 200), "lookahead")
    period: float = setting(0.5, "s", (0.02, 10.0), "time between refits")
    robot: str = setting("panda", "", None, "which", choices=("panda", "cartpole"), read_only=True)
    weights: tuple[float, ...] = setting((), "1/m", (0.0, None), "of the cost")
    topics: tuple[str, ...] = setting((), "", None, "recorded")
    verbose: bool = setting(False, "", None, "say more")

    def __post_init__(self):
        if self.verbose and self.horizon > 100:
            raise ValueError("verbose output cannot keep up with a horizon beyond 100 steps.")


@pytest.fixture
def make_node():
    context = rclpy.Context()
    context.init()
    nodes = []

    def make(**given):
        node = rclpy.create_node(
            "under_test",
            context=context,
            parameter_overrides=[Parameter(name, value=value) for name, value in given.items()],
        )
        node.said = []
        log = node.get_logger()
        node.get_logger = lambda: _Log(log, node.said)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.destroy_node()
    context.try_shutdown()


class _Log:
    def __init__(self, log, said):
        self._said = said

    def info(self, text, **_):
        self._said.append(text)

    warning = error = info


def test_defaults_and_given_values(make_node):
    node = make_node()
    assert declare(node, Config) == Config()
    assert node.said == ["All parameters at their defaults."]
    node = make_node(horizon=30, period=2, weights=[1.0, 2.0], topics=["a", "b"])
    config = declare(node, Config)
    assert config == Config(horizon=30, period=2.0, weights=(1.0, 2.0), topics=("a", "b"))
    assert isinstance(config.period, float)  # YAML's 2 is taken for 2.0
    assert changed(config) == {"horizon": 30, "period": 2.0, "weights": (1.0, 2.0), "topics": ("a", "b")}
    assert "horizon=30 (default 20)" in node.said[0] and "verbose" not in node.said[0]
    assert node.get_parameter("period").value == 2.0


def test_descriptors_carry_unit_range_and_description(make_node):
    node = make_node()
    declare(node, Config)
    horizon = node.describe_parameter("horizon")
    assert horizon.description == "lookahead [steps]"
    assert (horizon.integer_range[0].from_value, horizon.integer_range[0].to_value) == (1, 200)
    assert node.describe_parameter("period").floating_point_range[0].to_value == 10.0
    robot = node.describe_parameter("robot")
    assert robot.read_only and robot.additional_constraints == "one of panda, cartpole"
    assert node.describe_parameter("weights").additional_constraints == "each at least 0 1/m"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"horizon": 500}, "'horizon' is 500; expected 1 to 200 steps \\(lookahead\\)"),
        ({"horizon": 2.5}, "'horizon' is 2.5"),
        ({"period": float("nan")}, "'period' is nan; expected 0.02 to 10 s"),
        ({"robot": "pand"}, "Did you mean 'panda'"),
        ({"weights": [1.0, -2.0]}, "each at least 0"),
        ({"weights": 3.0}, "'weights' is 3.0"),
        ({"verbose": "yes"}, "expected true or false"),
        ({"verbose": True, "horizon": 150}, "do not fit together: verbose output"),
    ],
)
def test_unusable_values_are_one_sentence(make_node, given, text):
    with pytest.raises(ConfigError, match=text):
        declare(make_node(**given), Config)


def test_unknown_keys_are_named_with_the_nearest_known(make_node):
    node = make_node(horizn=3, use_sim_time=True, flux=1)
    declare(node, Config)
    assert any("'horizn'" in s and "Did you mean 'horizon'?" in s for s in node.said)
    assert any("'flux'" in s and "Known: horizon, period" in s for s in node.said)
    assert not any("use_sim_time" in s for s in node.said)


def test_live_changes_are_checked_and_handed_over(make_node):
    node, seen = make_node(), []

    def on_change(new):
        if new.period > 5.0:
            raise ValueError("too slow for this robot.")
        seen.append(new)

    declare(node, Config, on_change)

    def change(name, value):
        return node.set_parameters([Parameter(name, value=value)])[0]

    assert change("horizon", 40).successful and seen[-1].horizon == 40
    assert change("weights", [1.0]).successful and seen[-1] == Config(horizon=40, weights=(1.0,))
    for name, value, reason in (
        ("horizon", 0, "out of range"),
        ("weights", [-1.0], "at least 0"),
        ("period", 6.0, "too slow"),
        ("robot", "cartpole", "read-only"),
    ):
        result = change(name, value)
        assert not result.successful and reason in result.reason
    assert len(seen) == 2
    other = make_node()
    declare(other, Config)
    assert "only at start" in other.set_parameters([Parameter("horizon", value=3)])[0].reason


def test_settings_refuse_types_that_ros_lacks():
    @dataclasses.dataclass(frozen=True)
    class Wrong:
        table: dict = setting(None, "", None, "no")

    with pytest.raises(TypeError, match="Wrong.table"):
        settings(Wrong)


#: [s] for anything that has to happen, far beyond what an idle machine needs
PATIENCE = 120.0

NODE = textwrap.dedent("""
    import sys, time
    from nodes.framework.lifecycle import RefitNode, spin_main
    class Busy(RefitNode):
        name = "busy"
        executor_threads = {threads}
        def configure(self):
            print("configuring", flush=True)
            time.sleep({configure})
        def activate(self): self.create_timer(0.005, lambda: time.sleep(0.001)); print("active", flush=True)
        def stop(self): print("stopped", flush=True)
    sys.exit(spin_main(Busy))
""")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("threads", "moment"), [(1, "active"), (3, "active"), (1, "configuring")])
def test_signals_are_normal_endings(ros, tmp_path, number, threads, moment):
    code, said = NODE.format(threads=threads, configure=0 if moment == "active" else 600), tmp_path / "said"
    with said.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=file, stderr=subprocess.STDOUT)
    ros.processes.append(process)
    if moment == "active":
        ros.up("busy")
    else:
        from lifecycle_msgs.msg import Transition
        from lifecycle_msgs.srv import ChangeState

        client = ros.node.create_client(ChangeState, "busy/change_state")
        ros.until(client.service_is_ready)
        client.call_async(ChangeState.Request(transition=Transition(label="configure")))
        ros.until(lambda: "configuring" in said.read_text())
    process.send_signal(number)
    time.sleep(0.05)
    if process.poll() is None:
        process.send_signal(number)  # terminal and launch both send one
    # By itself and within ENDING_LIMIT, after which its code would be another; configuring takes ten minutes.
    assert process.wait(PATIENCE) == 0, said.read_text()
    assert "Traceback" not in said.read_text() and "stopped" in said.read_text()


def test_a_node_that_hangs_at_its_end_is_ended_and_shows_where(ros):
    """The interpreter's lock is held for ever, as a library's deadlock may do."""
    # A name of its own: ended like this, it haunts the graph until its lease is over.
    code = (
        NODE.format(threads=1, configure=0)
        .replace('"busy"', '"stuck"')
        .replace('print("stopped", flush=True)', "hang()")
        .replace(
            "class Busy",
            "import ctypes, nodes.framework.lifecycle\nnodes.framework.lifecycle.ENDING_LIMIT = 1.0\n"
            "def hang(): ctypes.PyDLL(None).sleep(600)\nclass Busy",
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    ros.processes.append(process)
    ros.up("stuck")
    status, _, output = ros.finish(process)
    assert status == 1
    assert "Timeout" in output and "in hang" in output


def test_impossible_transitions_and_failing_hooks_are_answers(ros):
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            NODE.format(threads=1, configure=0).replace(
                'print("configuring", flush=True)', 'raise ValueError("no such robot: expected panda")'
            ),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ros.processes.append(process)
    assert not ros.try_transition("busy", "activate")
    assert not ros.try_transition("busy", "configure")
    assert not ros.try_transition("busy", "configure")  # still there, still unconfigured
    code, _, output = ros.finish(process)
    assert code == 0 and "could not configure: no such robot: expected panda" in output
    assert "Traceback" not in output


def test_a_bad_parameter_is_one_sentence_and_exit_2(ros):
    process = ros.start("sim_plant", tick=-1.0)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "'tick' is -1.0; expected 0 to 1 s" in output and "Traceback" not in output


@dataclasses.dataclass(frozen=True)
class Joint:
    id: int = setting(1, "", (0, 252), "on the bus")
    gain: float = setting(800.0, "", (0.0, None), "of position", name="position.p")


@dataclasses.dataclass(frozen=True)
class Arm:
    initial: float = setting(0.25, "s", (0.01, 60.0), "first delay", name="reconnect.initial_s")
    joints: dict[str, Joint] = group(Joint)


def test_dotted_names_and_groups(make_node):
    node = make_node(
        **{"reconnect.initial_s": 1, "joints.waist.id": 11, "joints.left.elbow.position.p": 20, "joints.waist.idd": 3}
    )
    config = declare(node, Arm)
    assert config.initial == 1.0
    assert config.joints == {"waist": Joint(id=11), "left.elbow": Joint(gain=20.0)}
    assert node.get_parameter("joints.left.elbow.id").value == 1
    assert any("joints.waist.idd" in line and "joints.waist.id" in line for line in node.said)
    assert changed(config) == {"reconnect.initial_s": 1.0, "joints.waist.id": 11, "joints.left.elbow.position.p": 20.0}


def test_a_member_out_of_range_is_named(make_node):
    with pytest.raises(ConfigError, match="joints.waist.id"):
        declare(make_node(**{"joints.waist.id": 300}), Arm)


def test_a_member_changes_while_running(make_node):
    node, seen = make_node(**{"joints.waist.id": 11}), []
    declare(node, Arm, seen.append)
    assert node.set_parameters([Parameter("joints.waist.position.p", value=5.0)])[0].successful
    assert seen[0].joints["waist"] == Joint(11, 5.0)


def test_groups_are_documented_by_a_placeholder():
    assert list(settings(Arm)) == ["reconnect.initial_s", "joints.<name>.id", "joints.<name>.position.p"]
