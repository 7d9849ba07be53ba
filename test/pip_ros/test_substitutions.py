"""Substitutions and conditions: values, and errors that say what is wrong."""

import math
import sys

import pytest
from launch import LaunchContext
from launch.conditions import (
    IfCondition,
    InvalidConditionExpressionError,
    LaunchConfigurationEquals,
    LaunchConfigurationNotEquals,
    UnlessCondition,
)
from launch.substitutions import (
    AllSubstitution,
    AndSubstitution,
    AnySubstitution,
    Command,
    EnvironmentVariable,
    EqualsSubstitution,
    FileContent,
    FindExecutable,
    IfElseSubstitution,
    LaunchConfiguration,
    LocalSubstitution,
    NotEqualsSubstitution,
    NotSubstitution,
    OrSubstitution,
    PathJoinSubstitution,
    PythonExpression,
    SubstitutionFailure,
    TextSubstitution,
    ThisLaunchFileDir,
)
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch.utilities.type_utils import coerce_to_type, normalize_typed_substitution, perform_typed_substitution


@pytest.fixture
def context():
    context = LaunchContext()
    context.launch_configurations.update(robot="panda", sim="True", zero="0", n="3")
    return context


def test_launch_configuration(context):
    assert LaunchConfiguration("robot").perform(context) == "panda"
    assert LaunchConfiguration(["ro", TextSubstitution(text="bot")]).perform(context) == "panda"
    assert LaunchConfiguration("other", default=5).perform(context) == "5"
    assert LaunchConfiguration("other", default=LaunchConfiguration("n")).perform(context) == "3"
    with pytest.raises(SubstitutionFailure, match="launch configuration 'other' does not exist"):
        LaunchConfiguration("other").perform(context)


def test_text_lists_are_joined_and_numbers_refused(context):
    subs = normalize_to_list_of_substitutions(["/", LaunchConfiguration("robot"), "/arm"])
    assert perform_substitutions(context, subs) == "/panda/arm"
    with pytest.raises(TypeError, match="5"):
        normalize_to_list_of_substitutions(["a", 5])


def test_environment_variable(context, monkeypatch):
    monkeypatch.setenv("REFIT_TEST", "here")
    assert EnvironmentVariable("REFIT_TEST").perform(context) == "here"
    assert EnvironmentVariable("REFIT_NONE", default_value="x").perform(context) == "x"
    with pytest.raises(SubstitutionFailure, match="REFIT_NONE"):
        EnvironmentVariable("REFIT_NONE").perform(context)


def test_path_join_concatenates_within_a_part(context):
    path = PathJoinSubstitution(["/config", [LaunchConfiguration("robot"), ".yaml"]])
    assert path.perform(context) == "/config/panda.yaml"


def test_python_expression(context):
    expression = ["'", LaunchConfiguration("robot"), "' == 'panda' and ", LaunchConfiguration("n"), " > 2"]
    assert PythonExpression(expression).perform(context) == "True"
    assert float(PythonExpression("cos(math.pi)").perform(context)) == -1.0
    assert PythonExpression("sys.maxsize", ["sys"]).perform(context) == str(sys.maxsize)
    with pytest.raises(SubstitutionFailure, match="ZeroDivisionError"):
        PythonExpression("1/0").perform(context)


def test_command(context, tmp_path):
    assert Command(["echo ", LaunchConfiguration("robot")]).perform(context) == "panda\n"
    with pytest.raises(SubstitutionFailure, match="oops"):
        Command("sh -c 'echo oops >&2'").perform(context)
    assert Command("sh -c 'echo oops >&2'", on_stderr="ignore").perform(context) == ""
    with pytest.raises(SubstitutionFailure, match="no_such_program"):
        Command("no_such_program").perform(context)
    (tmp_path / "a.txt").write_text("content")
    assert FileContent([str(tmp_path), "/a.txt"]).perform(context) == "content"


def test_logic(context):
    yes, no = LaunchConfiguration("sim"), LaunchConfiguration("zero")
    assert NotSubstitution(yes).perform(context) == "false"
    assert AndSubstitution(yes, no).perform(context) == "false"
    assert OrSubstitution(yes, no).perform(context) == "true"
    assert AnySubstitution(no, no, yes).perform(context) == "true"
    assert AllSubstitution(yes, yes, no).perform(context) == "false"
    assert IfElseSubstitution(yes, "a", "b").perform(context) == "a"
    assert IfElseSubstitution(no, "a", "b").perform(context) == "b"
    with pytest.raises(SubstitutionFailure, match="panda"):
        NotSubstitution(LaunchConfiguration("robot")).perform(context)


@pytest.mark.parametrize(
    "left, right, equal",
    [
        ("panda", "panda", True),
        ("panda", "Panda", False),
        (True, "true", True),
        ("1", "True", True),
        (0, "false", True),
        ("1.0", "1", True),
        (1, 1 + 1e-12, True),
        (1, 1.001, False),
        (None, "None", True),
        (math.inf, math.inf, True),
        ("nan", "x", False),
        ([TextSubstitution(text="1"), "0"], 10, True),
    ],
)
def test_equals(context, left, right, equal):
    assert EqualsSubstitution(left, right).perform(context) == str(equal).lower()
    assert NotEqualsSubstitution(left, right).perform(context) == str(not equal).lower()


def test_find_executable(context):
    assert FindExecutable(name="sh").perform(context).endswith("/sh")
    with pytest.raises(SubstitutionFailure, match="no_such_program"):
        FindExecutable(name="no_such_program").perform(context)


def test_locals(context):
    context.extend_locals({"event": "e"})
    assert LocalSubstitution("event").perform(context) == "e"
    with pytest.raises(SubstitutionFailure):
        LocalSubstitution("nothing").perform(context)
    with pytest.raises(SubstitutionFailure, match="outside of a launch file"):
        ThisLaunchFileDir().perform(context)


@pytest.mark.parametrize(
    "text, truth",
    [("true", True), ("True", True), ("1", True), (" TRUE ", True), ("false", False), ("0", False), ("False", False)],
)
def test_conditions(context, text, truth):
    assert IfCondition(text).evaluate(context) is truth
    assert UnlessCondition(text).evaluate(context) is not truth


def test_condition_that_is_no_boolean(context):
    with pytest.raises(InvalidConditionExpressionError, match="got 'yes'"):
        IfCondition("yes").evaluate(context)


def test_configuration_equals(context):
    assert LaunchConfigurationEquals("robot", "panda").evaluate(context)
    assert LaunchConfigurationEquals("missing", None).evaluate(context)
    assert not LaunchConfigurationEquals("robot", None).evaluate(context)
    assert LaunchConfigurationNotEquals("robot", "ur5").evaluate(context)


@pytest.mark.parametrize(
    "text, data_type, value",
    [
        ("1", int, 1),
        ("1", float, 1.0),
        ("1e-3", float, 1e-3),
        ("true", bool, True),
        ("1", str, "1"),
        ("[1, 2]", list[int], [1, 2]),
        ("[1, 2.5]", list[float], [1.0, 2.5]),
        ("2.0", None, 2.0),
        ("panda", None, "panda"),
        ("'1'", None, "1"),
        ("[a, b]", None, ["a", "b"]),
    ],
)
def test_typed_text(text, data_type, value):
    result = coerce_to_type(text, data_type)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize("text, data_type", [("1.5", int), ("x", float), ("1", bool), ("[1, a]", list[int])])
def test_text_of_another_type(text, data_type):
    with pytest.raises(ValueError, match="expected"):
        coerce_to_type(text, data_type)


def test_typed_substitutions(context):
    value = normalize_typed_substitution([LaunchConfiguration("n"), ".5"], float)
    assert perform_typed_substitution(context, value, float) == 3.5
    with pytest.raises(TypeError, match="expected bool"):
        normalize_typed_substitution(3, bool)
