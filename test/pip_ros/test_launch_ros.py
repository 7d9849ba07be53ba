"""launch_ros with real rclpy nodes, each test on a ROS domain of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from launch import LaunchContext
from launch.actions import (
    GroupAction,
    OpaqueCoroutine,
    OpaqueFunction,
    RegisterEventHandler,
    SetLaunchConfiguration,
    Shutdown,
    TimerAction,
)
from launch.event_handlers import OnProcessIO
from launch.events import Shutdown as ShutdownEvent
from launch.substitutions import LaunchConfiguration, SubstitutionFailure
from launch_ros.actions import (
    LifecycleNode,
    LifecycleTransition,
    Node,
    PushROSNamespace,
    PushRosNamespace,
    SetParameter,
    SetParametersFromFile,
    SetRemap,
    SetUseSimTime,
)
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState, matches_node_name
from launch_ros.parameter_descriptions import Parameter, ParameterFile, ParameterValue
from launch_ros.substitutions import ExecutableInPackage, FindPackagePrefix, FindPackageShare
from launch_ros.utilities import normalize_parameters, prefix_namespace
from launch_ros.utilities.parameters import evaluate_parameters, to_parameter_rule
from lifecycle_msgs.msg import Transition

PATIENCE = 120.0  # [s] for anything that has to happen, far beyond what an idle machine needs

NODE = '''
import json, sys
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from std_msgs.msg import String


class Probe(LifecycleNode):
    """Reports its name, parameters and a topic; its parameter fail_at makes a transition fail."""

    def __init__(self):
        super().__init__('probe', automatically_declare_parameters_from_overrides=True)
        topic = self.create_publisher(String, 'chatter', 1).topic_name
        self.say({'name': self.get_fully_qualified_name(), 'topic': topic, 'argv': sys.argv[1:],
                  'parameters': {n: p.value if not hasattr(p.value, 'tolist') else list(p.value)
                                 for n, p in self.get_parameters_by_prefix('').items()}})

    def say(self, value):
        print(json.dumps(value), flush=True)

    def answer(self, transition):
        self.say(transition)
        fails = self.has_parameter('fail_at') and self.get_parameter('fail_at').value == transition
        return TransitionCallbackReturn.FAILURE if fails else TransitionCallbackReturn.SUCCESS

    def on_configure(self, state):
        return self.answer('configure')

    def on_activate(self, state):
        super().on_activate(state)
        return self.answer('activate')

    def on_deactivate(self, state):
        super().on_deactivate(state)
        return self.answer('deactivate')


try:
    rclpy.init()
    rclpy.spin(Probe())
except (KeyboardInterrupt, ExternalShutdownException):
    pass
'''


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An ament prefix with package probe_pkg and its executable probe."""
    executable = tmp_path / "lib" / "probe_pkg" / "probe"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!{sys.executable}{NODE}")
    executable.chmod(0o755)
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "probe_pkg").touch()
    (tmp_path / "share" / "probe_pkg").mkdir()
    monkeypatch.setenv(
        "AMENT_PREFIX_PATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("AMENT_PREFIX_PATH")]))
    )
    return tmp_path


def probe(action=Node, **kwargs):
    return action(package="probe_pkg", executable="probe", cached_output=True, output="screen", **kwargs)


def said(node):
    """Return the values a probe has printed; of complete lines only."""
    text = node.get_stdout()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line[:1] in '{"']


def ends_when(nodes, count):
    """Shut down once every node has said `count` things, at the latest after two minutes.

    To be visited before the nodes: then their own handlers, which keep the
    output, are asked first.
    """

    def on_stdout(event):
        return Shutdown() if all(len(said(node)) >= count for node in nodes) else None

    return [
        RegisterEventHandler(OnProcessIO(target_action=lambda action: action in nodes, on_stdout=on_stdout)),
        TimerAction(period=PATIENCE, actions=[Shutdown(reason="too slow")]),
    ]


# -- parameters --------------------------------------------------------------


@pytest.mark.parametrize(
    "value, expected",
    [
        (1, 1),
        (True, True),
        (1.5, 1.5),
        ("1", "1"),
        ("on", "on"),
        ("", ""),
        ([1, 2], [1, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, False], [True, False]),
        (["a", "2"], ["a", "2"]),
        (LaunchConfiguration("n"), 3),
        (LaunchConfiguration("robot"), "panda"),
        ([LaunchConfiguration("robot"), "_", LaunchConfiguration("n")], "panda_3"),
        (ParameterValue(LaunchConfiguration("n"), value_type=str), "3"),
        (ParameterValue(LaunchConfiguration("n"), value_type=float), 3.0),
        (ParameterValue("[1, 2.0]", value_type=list[float]), [1.0, 2.0]),
        ([[LaunchConfiguration("n")], ["4"]], [3, 4]),
    ],
)
def test_parameter_values(value, expected):
    context = LaunchContext()
    context.launch_configurations.update(n="3", robot="panda")
    (evaluated,) = evaluate_parameters(context, normalize_parameters([{"group": {"p": value}}]))
    assert evaluated == {"group.p": expected}
    assert type(evaluated["group.p"]) is type(expected)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"a": 1}, "expected a list"),
        ("file.yaml", "expected a list"),
        ([5], "expected a dictionary"),
        ([{"a": []}], "parameter 'a': an empty list"),
        ([{"a": None}], "parameter 'a'"),
        ([{"g": {"a": object()}}], "parameter 'a'"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(TypeError, match=message):
        Node(executable="x", parameters=parameters)


def test_parameter_of_wrong_type_is_named():
    context = LaunchContext()
    context.launch_configurations["rate"] = "fast"
    parameters = normalize_parameters([{"rate": ParameterValue(LaunchConfiguration("rate"), value_type=float)}])
    with pytest.raises(ValueError, match="parameter 'rate': expected float, found 'fast'"):
        evaluate_parameters(context, parameters)


def test_parameter_rules():
    assert to_parameter_rule("a", True) == "a:=true"
    assert to_parameter_rule("a", "1") == "a:='1'"
    assert to_parameter_rule("a", [1.5, 2.0]) == "a:=[1.5, 2.0]"


def test_parameters_reach_the_node(run_launch, prefix):
    """Precedence: SetParameter, then files and dictionaries in order."""
    (prefix / "global.yaml").write_text("/**: {ros__parameters: {a: 1, b: 1, c: 1}}")
    (prefix / "own.yaml").write_text(
        "/arm/left: {ros__parameters: {c: 3, d: 3}}\n/arm/right: {ros__parameters: {d: 4}}\n"
    )
    (prefix / "substituted.yaml").write_text(
        "# $(var undefined)\n/**: {ros__parameters: {robot: $(var robot), "
        'home: "$(env REFIT_HOME none)", share: $(find-pkg-share probe_pkg)}}'
    )
    node = probe(
        name="left",
        namespace="/arm",
        parameters=[
            str(prefix / "own.yaml"),
            {
                "d": 5,
                "e": {"f": [1, 2.0]},
                "text": "1e5",
                "small": 1e-7,
                "sub": LaunchConfiguration("n"),
                "words": ["on", "it's"],
                "long": "x " * 100,
            },
            ParameterFile([LaunchConfiguration("dir"), "/substituted.yaml"], allow_substs=True),
            Parameter("direct", LaunchConfiguration("n"), value_type=str),
            str(prefix / "missing.yaml"),
        ],
    )
    run_launch(
        *ends_when([node], 1),
        SetParametersFromFile(str(prefix / "global.yaml")),
        SetParameter("b", 2),
        SetParameter("greeting", ["hi ", LaunchConfiguration("robot")]),
        SetUseSimTime(True),
        node,
        configurations={"n": "7", "robot": "panda", "dir": str(prefix)},
    )
    report = said(node)[0]
    assert report["name"] == "/arm/left"
    parameters = report["parameters"]
    assert {name: parameters[name] for name in "abcd"} == {"a": 1, "b": 2, "c": 3, "d": 5}
    assert parameters["e.f"] == [1.0, 2.0] and parameters["text"] == "1e5"
    assert parameters["small"] == 1e-7 and parameters["sub"] == 7 and parameters["direct"] == "7"
    assert parameters["words"] == ["on", "it's"] and parameters["long"] == "x " * 100
    assert parameters["greeting"] == "hi panda" and parameters["use_sim_time"] is True
    assert parameters["robot"] == "panda" and parameters["home"] == "none"
    assert parameters["share"] == str(prefix / "share" / "probe_pkg")
    assert node.return_code == 0


# -- names -------------------------------------------------------------------


@pytest.mark.parametrize(
    "base, namespace, combined",
    [
        (None, None, None),
        (None, "a", "a"),
        ("/b", None, "/b"),
        ("/b", "a", "/b/a"),
        ("/b", "/a", "/a"),
        ("/b", "", "/b"),
        ("/", "a", "/a"),
        ("/b/", "a/", "/b/a"),
    ],
)
def test_prefix_namespace(base, namespace, combined):
    assert prefix_namespace(base, namespace) == combined


def test_namespaces_and_remappings(run_launch, prefix):
    pushed, absolute, plain = (
        probe(
            name=LaunchConfiguration("name"),
            namespace="inner",
            arguments=["--flag", "x"],
            remappings=[("chatter", ["/talk_", LaunchConfiguration("name")])],
        ),
        probe(name="n", namespace="/abs", ros_arguments=["--log-level", "error"]),
        probe(),
    )
    run_launch(
        SetLaunchConfiguration("name", "renamed"),
        *ends_when([pushed, absolute, plain], 1),
        GroupAction(
            [PushROSNamespace("robot"), PushRosNamespace("arm"), SetRemap("chatter", "heard"), pushed, absolute]
        ),
        plain,
    )
    assert [said(node)[0]["name"] for node in (pushed, absolute, plain)] == [
        "/robot/arm/inner/renamed",
        "/abs/n",
        "/probe",
    ]
    assert pushed.node_name == "/robot/arm/inner/renamed"
    # The first rule that matches counts in rcl, so that of the group does.
    assert [said(node)[0]["topic"] for node in (pushed, absolute, plain)] == [
        "/robot/arm/inner/heard",
        "/abs/heard",
        "/chatter",
    ]
    assert said(pushed)[0]["argv"][:3] == ["--flag", "x", "--ros-args"]


def test_invalid_names(run_launch, prefix, messages):
    assert run_launch(probe(name="a b"))[0] == 1
    assert run_launch(PushROSNamespace("a b"))[0] == 1
    with pytest.raises(RuntimeError, match="before executing"):
        probe(name="n").node_name
    text = "\n".join(messages())
    assert "Invalid node name" in text and "The resulting namespace is invalid" in text


def test_missing_package_and_executable(run_launch, prefix, messages):
    assert run_launch(Node(package="no_such_package", executable="x"))[0] == 1
    assert run_launch(Node(package="probe_pkg", executable="prob"))[0] == 1
    text = "\n".join(messages())
    assert "'no_such_package' not found" in text
    assert "executable 'prob' not found on the libexec directory" in text
    assert "present: probe" in text


def test_package_substitutions(prefix):
    context = LaunchContext()
    assert FindPackagePrefix("probe_pkg").perform(context) == str(prefix)
    assert FindPackageShare(["probe", "_pkg"]).perform(context) == str(prefix / "share" / "probe_pkg")
    executable = ExecutableInPackage(executable="probe", package="probe_pkg")
    assert executable.perform(context) == str(prefix / "lib" / "probe_pkg" / "probe")
    with pytest.raises(SubstitutionFailure):
        ExecutableInPackage(executable="x", package="probe_pkg").perform(context)


# -- lifecycle ---------------------------------------------------------------


def test_autostart_and_transitions(run_launch, prefix):
    """Two nodes start themselves; when the first is active, a transition is asked of it."""
    first = probe(LifecycleNode, name="first", namespace="", autostart=True)
    second = probe(LifecycleNode, name="second", namespace="ns", autostart=True)
    states = []

    def note(context):
        states.append((context.locals.event.action.node_name, context.locals.event.goal_state))
        return [Shutdown()] if {("/first", "inactive"), ("/ns/second", "active")} <= set(states) else []

    run_launch(
        TimerAction(period=PATIENCE, actions=[Shutdown(reason="too slow")]),
        RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=first,
                goal_state="active",
                handle_once=True,
                entities=[
                    LifecycleTransition(
                        lifecycle_node_names=["/first"], transition_ids=[Transition.TRANSITION_DEACTIVATE]
                    )
                ],
            )
        ),
        RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=first,
                start_state="deactivating",
                goal_state="inactive",
                entities=OpaqueFunction(function=note),
            )
        ),
        RegisterEventHandler(
            OnStateTransition(
                matcher=lambda event: event.action is second and event.goal_state == "active",
                entities=OpaqueFunction(function=note),
            )
        ),
        GroupAction([first, second]),
    )
    assert said(first)[1:4] == ["configure", "activate", "deactivate"]
    assert said(second)[1:3] == ["configure", "activate"]
    assert sorted(states) == [("/first", "inactive"), ("/ns/second", "active")]
    assert (first.return_code, second.return_code) == (0, 0)


@pytest.mark.parametrize("what", ["answer", "request"])
def test_what_is_lost_is_replaced_by_the_nodes_own_state(run_launch, prefix, monkeypatch, what):
    """The node configures and its answer never arrives, or it is never asked; the start goes on all the same."""
    from launch_ros.utilities import lifecycle_event_manager as manager
    from lifecycle_msgs.srv import ChangeState as ChangeStateService
    from rclpy.client import Client
    from rclpy.task import Future

    call, lost = Client.call_async, []

    def losing(client, request):
        if isinstance(request, ChangeStateService.Request) and not lost:
            lost.append(call(client, request) if what == "answer" else request)
            return Future()
        return call(client, request)

    monkeypatch.setattr(Client, "call_async", losing)
    monkeypatch.setattr(manager, "ANSWER_TIMEOUT", 0.3)
    node = probe(LifecycleNode, name="n", namespace="", autostart=True)
    run_launch(
        RegisterEventHandler(
            OnProcessIO(target_action=node, on_stdout=lambda event: Shutdown() if "activate" in said(node) else None)
        ),
        TimerAction(period=PATIENCE, actions=[Shutdown(reason="too slow")]),
        node,
    )
    assert lost and said(node)[1:3] == ["configure", "activate"]


def test_failed_transition_is_reported_and_stops_the_others(run_launch, prefix, messages):
    node = probe(LifecycleNode, name="n", namespace="", autostart=True, parameters=[{"fail_at": "configure"}])

    async def wait_for_the_report(context):
        (log,) = (prefix / "ros_log").glob("*/launch.log")
        while "Failed to make transition" not in log.read_text():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # for what must not follow
        await context.emit_event(ShutdownEvent(reason="reported"))

    run_launch(
        OpaqueCoroutine(coroutine=wait_for_the_report),
        TimerAction(period=PATIENCE, actions=[Shutdown(reason="too slow")]),
        node,
    )
    assert set(said(node)[1:]) == {"configure"}  # asked again where a busy machine has lost the answer
    assert any("Failed to make transition 'TRANSITION_CONFIGURE' for LifecycleNode '/n'" in line for line in messages())


def test_node_that_dies_does_not_keep_the_launch_waiting(run_launch, prefix, messages):
    (prefix / "lib" / "probe_pkg" / "probe").write_text("#!/bin/sh\nexit 3\n")
    node = probe(LifecycleNode, name="n", namespace="", autostart=True)
    code, _ = run_launch(node)
    assert code == 0 and node.return_code == 3
    assert any("due to the end of the node's process" in line for line in messages())


def test_lifecycle_arguments():
    with pytest.raises(TypeError, match="True or False"):
        LifecycleNode(package="p", executable="e", name="n", namespace="", autostart=LaunchConfiguration("autostart"))
    with pytest.raises(TypeError):
        LifecycleNode(package="p", executable="e", name="n")
    with pytest.raises(ValueError, match="TRANSITION_ACTIVATE: 3"):
        ChangeState(lifecycle_node_matcher=matches_node_name("n"), transition_id=77)


def test_ctrl_c_while_lifecycle_nodes_start(prefix):
    """Interrupted at several moments of start-up: exit code 0, no traceback of the launch."""
    script = prefix / "run.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from launch import LaunchDescription, LaunchService
        from launch_ros.actions import LifecycleNode
        service = LaunchService()
        service.include_launch_description(LaunchDescription([LifecycleNode(
            package='probe_pkg', executable='probe', name='n', namespace='', autostart=True,
            output='log', ros_arguments=['--log-level', 'fatal'])]))
        sys.exit(service.run())
        """)
    )
    for text in ("Default logging", "process started"):
        process = subprocess.Popen(
            [sys.executable, str(script)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for line in process.stdout:
            if text in line:
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and errors == ""


# -- launch_pytest, in process, as launch tests of the project use it --------


def test_launch_test_with_a_node(prefix, tmp_path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
        import time
        import launch, launch_pytest, pytest
        from launch_pytest.actions import ReadyToTest
        from launch_pytest.tools import process as process_tools
        from launch_ros.actions import LifecycleNode

        @launch_pytest.fixture(scope='module')
        def started():
            node = LifecycleNode(package='probe_pkg', executable='probe', name='n', namespace='',
                                 autostart=True, cached_output=True)
            return launch.LaunchDescription([node, ReadyToTest()]), node

        @pytest.mark.launch(fixture=started)
        def test_active(started, launch_context):
            assert process_tools.wait_for_output_sync(
                launch_context, started[1], lambda text: 'activate' in text, timeout=120)
            yield
            assert started[1].return_code == 0

        @pytest.mark.launch(fixture=started)
        def test_seen_by_another_node(started):
            import rclpy
            context = rclpy.Context()
            rclpy.init(context=context)
            node = rclpy.create_node('observer', context=context)
            while 'n' not in node.get_node_names():
                time.sleep(0.02)
            node.destroy_node()
            rclpy.shutdown(context=context)
        """)
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-p",
            "launch_pytest.plugin",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            "test_it.py",
        ],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
