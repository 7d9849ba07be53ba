"""Actions without processes: arguments, scopes, includes, events, timers."""

import asyncio
import os
import textwrap

import pytest
from launch import LaunchDescription
from launch.actions import (
    AppendEnvironmentVariable,
    DeclareLaunchArgument,
    EmitEvent,
    GroupAction,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueCoroutine,
    OpaqueFunction,
    PopLaunchConfigurations,
    PushLaunchConfigurations,
    RegisterEventHandler,
    SetEnvironmentVariable,
    SetLaunchConfiguration,
    Shutdown,
    TimerAction,
    UnregisterEventHandler,
    UnsetEnvironmentVariable,
    UnsetLaunchConfiguration,
)
from launch.conditions import IfCondition
from launch.event import Event
from launch.event_handler import EventHandler
from launch.event_handlers import OnExecutionComplete, OnShutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir


class Recorder:
    """An action factory that notes launch configurations and environment when visited."""

    def __init__(self):
        self.seen = []

    def note(self, *names):
        def function(context):
            self.seen.append({n: context.launch_configurations.get(n, os.environ.get(n)) for n in names})

        return OpaqueFunction(function=function)


@pytest.fixture
def recorder():
    return Recorder()


def test_argument_default_given_and_missing(run_launch, recorder, messages):
    declare = DeclareLaunchArgument("a", default_value=["x", LaunchConfiguration("b")])
    assert run_launch(SetLaunchConfiguration("b", "1"), declare, recorder.note("a"))[0] == 0
    assert run_launch(declare, recorder.note("a"), configurations={"a": "given"})[0] == 0
    assert recorder.seen == [{"a": "x1"}, {"a": "given"}]
    assert run_launch(DeclareLaunchArgument("a", description="what for"))[0] == 1
    assert 'Required launch argument "a" was not provided' in "\n".join(messages())


def test_choices(run_launch, messages):
    declare = DeclareLaunchArgument("robot", default_value="panda", choices=["panda", "cartpole"])
    assert run_launch(declare)[0] == 0
    assert run_launch(declare, configurations={"robot": "pnda"})[0] == 1
    assert (
        "Argument \"robot\" provided value \"pnda\" is not valid. Valid options are: ['panda', 'cartpole']"
    ) in "\n".join(messages())
    assert declare.description == "One of: ['panda', 'cartpole']"
    with pytest.raises(RuntimeError, match="not in provided choices"):
        DeclareLaunchArgument("robot", default_value="ur5", choices=["panda"])


def test_group_scopes_configurations_and_environment(run_launch, recorder):
    change = [SetLaunchConfiguration("a", "in"), SetEnvironmentVariable("REFIT_E", "in")]
    look = recorder.note("a", "REFIT_E")
    run_launch(
        SetLaunchConfiguration("a", "out"),
        SetEnvironmentVariable("REFIT_E", "out"),
        GroupAction([*change, look]),
        look,
        GroupAction(change, scoped=False),
        look,
    )
    assert [s["a"] for s in recorder.seen] == ["in", "out", "in"]
    assert [s["REFIT_E"] for s in recorder.seen] == ["in", "out", "in"]


def test_group_without_forwarding(run_launch, recorder):
    look = recorder.note("a", "b", "REFIT_E")
    run_launch(
        SetLaunchConfiguration("a", "1"),
        SetEnvironmentVariable("REFIT_E", "1"),
        GroupAction([look], forwarding=False, launch_configurations={"b": LaunchConfiguration("a")}),
        look,
    )
    assert recorder.seen == [{"a": None, "b": "1", "REFIT_E": None}, {"a": "1", "b": None, "REFIT_E": "1"}]


def test_conditions_and_stacks(run_launch, recorder):
    look = recorder.note("a")
    run_launch(
        SetLaunchConfiguration("a", "1"),
        PushLaunchConfigurations(),
        SetLaunchConfiguration("a", "2", condition=IfCondition("false")),
        look,
        UnsetLaunchConfiguration("a"),
        look,
        PopLaunchConfigurations(),
        look,
    )
    assert [s["a"] for s in recorder.seen] == ["1", None, "1"]


def test_environment_actions(run_launch, recorder):
    run_launch(
        SetEnvironmentVariable("REFIT_E", "a"),
        AppendEnvironmentVariable("REFIT_E", "b"),
        AppendEnvironmentVariable("REFIT_E", "c", prepend=True),
        recorder.note("REFIT_E"),
        UnsetEnvironmentVariable("REFIT_E"),
        recorder.note("REFIT_E"),
    )
    assert [s["REFIT_E"] for s in recorder.seen] == ["c:a:b", None]


@pytest.fixture
def included(tmp_path):
    """A launch file in a folder of its own, which includes a sibling relative to itself."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "inner.launch.py").write_text(
        textwrap.dedent("""
        from launch import LaunchDescription
        from launch.actions import DeclareLaunchArgument, SetLaunchConfiguration
        from launch.substitutions import LaunchConfiguration, ThisLaunchFileDir
        def generate_launch_description():
            return LaunchDescription([
                DeclareLaunchArgument('needed', description='this and that'),
                DeclareLaunchArgument('kind', default_value='plain', choices=['plain', 'fancy']),
                SetLaunchConfiguration('where', ThisLaunchFileDir()),
                SetLaunchConfiguration('result', [LaunchConfiguration('needed'), '!']),
            ])""")
    )
    (folder / "outer.launch.py").write_text(
        textwrap.dedent("""
        from launch import LaunchDescription
        from launch.actions import IncludeLaunchDescription
        from launch.launch_description_sources import PythonLaunchDescriptionSource
        from launch.substitutions import ThisLaunchFileDir
        def generate_launch_description():
            return LaunchDescription([IncludeLaunchDescription(
                PythonLaunchDescriptionSource([ThisLaunchFileDir(), '/inner.launch.py']),
                launch_arguments={'needed': 'from outer'}.items())])""")
    )
    return folder


def include(path, **arguments):
    return IncludeLaunchDescription(PythonLaunchDescriptionSource(str(path)), launch_arguments=arguments.items())


def test_include_passes_arguments_and_leaks_without_group(run_launch, recorder, included):
    look = recorder.note("result", "where")
    inner = included / "inner.launch.py"
    run_launch(GroupAction([include(inner, needed="x"), look]), look, include(inner, needed="y"), look)
    assert recorder.seen == [
        {"result": "x!", "where": str(included)},
        {"result": None, "where": None},
        {"result": "y!", "where": str(included)},
    ]


def test_include_relative_to_the_including_file(run_launch, recorder, included):
    code, _ = run_launch(include(included / "outer.launch.py"), recorder.note("result"))
    assert code == 0 and recorder.seen == [{"result": "from outer" + "!"}]


def test_include_without_required_argument(run_launch, included, messages):
    assert run_launch(include(included / "inner.launch.py", kind="fancy"))[0] == 1
    assert (
        "Included launch description missing required argument 'needed' (description: 'this and that'), given: [kind]"
    ) in "\n".join(messages())


def test_include_of_missing_and_wrong_files(run_launch, tmp_path, messages):
    assert run_launch(include(tmp_path / "no.launch.py"))[0] == 1
    (tmp_path / "empty.launch.py").write_text("")
    assert run_launch(include(tmp_path / "empty.launch.py"))[0] == 1
    text = "\n".join(messages())
    assert "no.launch.py' does not exist" in text
    assert "function 'generate_launch_description()'" in text


def test_arguments_are_found_in_groups_and_includes(included):
    description = LaunchDescription(
        [
            DeclareLaunchArgument("top", default_value=[LaunchConfiguration("x"), "/y"]),
            GroupAction([include(included / "inner.launch.py")], condition=IfCondition("true")),
        ]
    )
    arguments = {a.name: a for a in description.get_launch_arguments()}
    assert list(arguments) == ["top", "needed", "kind"]
    assert arguments["kind"]._conditionally_included and not arguments["top"]._conditionally_included
    assert arguments["top"].describe_default() == "LaunchConfig('x') + '/y'"


class Ping(Event):
    name = "test.Ping"


def test_event_handlers(run_launch):
    calls = []

    def call(what):
        return OpaqueFunction(function=lambda context: calls.append(what))

    matcher = lambda event: isinstance(event, Ping)
    removed = EventHandler(matcher=matcher, entities=call("removed"))
    run_launch(
        RegisterEventHandler(EventHandler(matcher=matcher, entities=[call("older")])),
        RegisterEventHandler(EventHandler(matcher=matcher, entities=call("once"), handle_once=True)),
        RegisterEventHandler(removed),
        UnregisterEventHandler(removed),
        RegisterEventHandler(OnShutdown(on_shutdown=[call("shutdown")])),
        EmitEvent(event=Ping()),
        EmitEvent(event=Ping()),
    )
    assert calls == ["once", "older", "older", "shutdown"]


def test_handlers_may_return_actions_and_see_the_event(run_launch):
    seen = []
    run_launch(
        RegisterEventHandler(
            OnShutdown(
                on_shutdown=lambda event, context: OpaqueFunction(
                    function=lambda context: seen.append((event.reason, context.locals.event is event))
                )
            )
        ),
        Shutdown(reason="enough"),
    )
    assert seen == [("enough", True)]


def test_timers(run_launch):
    order = []

    def note(what):
        return OpaqueFunction(function=lambda context: order.append((what, context.launch_configurations.get("a"))))

    late = TimerAction(period="60", actions=[note("never")])
    cancelled = TimerAction(period=0.05, actions=[note("cancelled")])
    run_launch(
        TimerAction(period=0.2, actions=[note("second"), Shutdown()]),
        TimerAction(period=[LaunchConfiguration("t")], actions=[note("first")]),
        late,
        cancelled,
        OpaqueFunction(function=lambda context: cancelled.cancel()),
        note("now"),
        configurations={"t": "0.1", "a": "1"},
    )
    assert order == [("now", "1"), ("first", "1"), ("second", "1")]


def test_execution_complete(run_launch):
    order = []
    timer = TimerAction(period=0.05, actions=[])
    run_launch(
        RegisterEventHandler(
            OnExecutionComplete(target_action=timer, on_completion=lambda event, context: order.append("timer"))
        ),
        timer,
    )
    assert order == ["timer"]


def test_coroutine_is_cancelled_at_shutdown(run_launch):
    ended = []

    async def work(context, name):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)

    code, _ = run_launch(OpaqueCoroutine(coroutine=work, args=["w"]), TimerAction(period=0.05, actions=[Shutdown()]))
    assert code == 0 and ended == ["w"]


def test_exception_ends_the_launch_with_code_1(run_launch, messages):
    def fail(context):
        raise ValueError("no good")

    code, _ = run_launch(OpaqueFunction(function=fail), TimerAction(period=60.0, actions=[]))
    assert code == 1
    assert "[ERROR] [launch]: Caught exception in launch (see debug for traceback): no good" in messages()


def test_log_info_and_log_file(run_launch, messages, tmp_path):
    run_launch(LogInfo(msg=["hello ", LaunchConfiguration("a")]), configurations={"a": "you"})
    assert "[INFO] [launch.user]: hello you" in messages()
    (log,) = (tmp_path / "ros_log").glob("*/launch.log")
    assert "[INFO] [launch.user]: hello you" in log.read_text()


def test_path_substitutions_in_sources(run_launch, recorder, included):
    source = PythonLaunchDescriptionSource(PathJoinSubstitution([LaunchConfiguration("d"), "inner.launch.py"]))
    code, _ = run_launch(
        IncludeLaunchDescription(source, launch_arguments=[("needed", "x")]),
        recorder.note("result"),
        configurations={"d": str(included)},
    )
    assert code == 0 and recorder.seen == [{"result": "x!"}]
    assert ThisLaunchFileDir().describe() == "ThisLaunchFileDir()"
