"""robot.yaml: what the project's robots say, what a broken one is answered, and that its page names every key."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest
import yaml

from config.description import (
    Dig,
    Listen,
    PayloadDemo,
    Poke,
    Robot,
    RobotError,
    Scoop,
    SwingUp,
    Teleoperate,
    Track,
    Trot,
)
from config.robot import (
    load_robot,
    loadable_robots,
    node_parameters,
    node_settings,
    robot_folder,
    robot_names,
    runnable_robots,
)
from config.typed import TypedError, key, keys, read

ROOT = Path(__file__).resolve().parents[2]
KEYS = [name for name, _ in keys(Robot)]
RANGED = [(name, field.metadata) for name, field in keys(Robot) if field.metadata["limits"]]


@pytest.fixture
def folder(tmp_path):
    """A robot of one's own, outside the project: a folder with the least that an arm needs."""
    folder = tmp_path / "arm6"
    folder.mkdir()
    (folder / "arm6.xml").write_text('<mujoco model="arm6"/>')
    (folder / "nodes.yaml").write_text("/**/sim_plant:\n  ros__parameters: {tick: 0.004}\n")
    document = yaml.safe_load((robot_folder("panda") / "robot.yaml").read_text())
    (folder / "robot.yaml").write_text(yaml.safe_dump(document | {"title": "Sixth"}))
    return folder


def rewrite(folder: Path, change) -> None:
    """Change the document in place."""
    path = folder / "robot.yaml"
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document))


def test_every_robot_of_the_project_can_be_loaded():
    robots = [load_robot(name) for name in robot_names()]
    assert robots == loadable_robots() and all(robot.title and robot.model.is_file() for robot in robots)
    assert {robot.name for robot in robots if robot.controller} == set(runnable_robots())
    kinds = {robot.name: type(robot.task) for robot in robots if robot.task}
    assert set(kinds.values()) == {Track, SwingUp, Trot, Teleoperate, Listen, Scoop, Dig, Poke} and set(kinds) == set(
        runnable_robots()
    )


def test_a_path_to_a_folder_works_like_a_name(folder, monkeypatch):
    for given in (folder, str(folder), f"{folder}/"):
        robot = load_robot(given)
        assert (robot.name, robot.title, robot.folder) == ("arm6", "Sixth", folder)
    assert node_parameters(folder) == folder / "nodes.yaml" and node_settings(folder, "sim_plant") == {"tick": 0.004}
    assert node_settings(folder, "adaptive_mpc") == {} and "arm6" not in robot_names()
    monkeypatch.setenv("REFIT_ROBOTS", f"/nowhere:{folder.parent}")
    assert "arm6" in robot_names() and "arm6" in runnable_robots() and load_robot("arm6") == robot
    # A further robot of a name that there is already changes nothing.
    (folder.parent / "panda").mkdir()
    (folder.parent / "panda" / "panda.xml").write_text('<mujoco model="panda"/>')
    assert load_robot("panda").title == "Panda"


@pytest.mark.parametrize("name", ["pandas", "", "/nowhere/arm", ".."])
def test_a_robot_that_is_not_there(name):
    with pytest.raises(FileNotFoundError, match="No robot named .*Known: avatar, cartpole, .*panda.*path of a folder"):
        load_robot(name)


def test_a_model_without_nodes_cannot_be_launched():
    with pytest.raises(FileNotFoundError, match="'swimmer3' has no nodes.yaml.* can be launched: avatar, cartpole"):
        node_parameters("swimmer3")


def drop(*path):
    def change(document):
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def put(value, *path):
    def change(document):
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return change


BROKEN = [
    (drop("title"), "title is missing; expected a text: what people call it"),
    (put("Six", "titel"), "titel is no key here; did you mean title?"),
    (
        put(1, "zzz"),
        "zzz is no key here; expected only title, controller, task, refit, identify, devices, capsules, demo",
    ),
    (put(6, "title"), "title: expected a text, found 6"),
    (
        put("mpc", "controller"),
        "controller: expected one of 'adaptive_mpc', 'stance_controller', 'teleop', 'placement', 'scoop_arm', 'bucket_arm', 'poke_arm', found 'mpc'",
    ),
    (put("stance_controller", "controller"), "controller: a task of kind track needs adaptive_mpc"),
    (drop("controller"), "controller: a task of kind track needs adaptive_mpc, found ''"),
    (drop("task"), "task is missing; adaptive_mpc needs one of kind track or swing_up"),
    (put([], "task"), "task: expected keys with values, found []"),
    (drop("task", "kind"), "task.kind is missing; expected track or swing_up or trot or teleoperate"),
    (put("dance", "task", "kind"), "task.kind is 'dance', expected track or swing_up or trot or teleoperate"),
    (drop("task", "weights"), "task.weights is missing; expected keys with values: of the controller's cost"),
    (drop("task", "weights", "rate"), "task.weights.rate is missing; expected a number from 0 to 1e+09 [s^2/rad^2]"),
    (put(-1, "task", "weights", "rate"), "task.weights.rate: expected a number from 0 to 1e+09 [s^2/rad^2], found -1"),
    (put("1e-5", "task", "weights", "control"), "found '1e-5' (YAML wants a point and a sign: 1.0e-5)"),
    (put(float("nan"), "task", "weights", "rate"), "task.weights.rate: expected a number"),
    (put(True, "task", "weights", "rate"), "task.weights.rate: expected a number"),
    (drop("refit"), "refit is missing; adaptive_mpc needs it: resolution, bridge"),
    (put([1e-5], "refit", "resolution"), "refit.resolution: expected a list (2 values, each a number from 1e-09 to 1"),
    (
        put([1e-5, 7], "refit", "resolution"),
        "refit.resolution[1]: expected a number from 1e-09 to 1 [rad, rad/s], found 7",
    ),
    (
        put(2.5, "refit", "segment_length"),
        "refit.segment_length: expected a whole number from 1 to 1000 [steps], found 2.5",
    ),
    (put("held", "refit", "initial_state"), "refit.initial_state: expected one of 'free', 'measured', found 'held'"),
    (put("hand.inertia", "identify", "free"), "identify.free: expected a list (each a text), found 'hand.inertia'"),
    (put([{"node": "urg", "emulater": []}], "devices"), "devices[0].emulater is no key here; did you mean emulator?"),
    (put([{"executable": "urg"}], "devices"), "devices[0].node is missing; expected a text"),
    (put(9.0, "demo", "mass"), "demo.mass: expected a number in mass_range, 0.1 to 4 [kg], found 9"),
    (
        put({"paused": None}, "demo", "arguments"),
        "demo.arguments.paused: expected true or false or a whole number or a number or a text",
    ),
    (put(100, "demo", "view", "elevation"), "demo.view.elevation: expected a number from -90 to 90 [deg], found 100"),
    (put("swing_up", "demo", "kind"), "demo.ball is no key here; expected only view, change, kind"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN, ids=[said[:40] for _, said in BROKEN])
def test_a_broken_description_is_refused_in_one_sentence(folder, change, said):
    rewrite(folder, change)
    with pytest.raises(RobotError) as refused:
        load_robot(folder)
    text = str(refused.value)
    assert text.startswith(f"{folder}/robot.yaml: ") and said in text and "\n" not in text


def test_files_that_do_not_belong_together(folder, monkeypatch):
    (folder / "arm6.xml").write_text('<mujoco model="panda"/>')
    with pytest.raises(RobotError, match="arm6.xml: expected a model of the folder's name 'arm6', found 'panda'"):
        load_robot(folder)
    (folder / "arm6.xml").write_text("<mujoco")
    with pytest.raises(RobotError, match="arm6.xml is not well-formed XML"):
        load_robot(folder)
    (folder / "arm6.xml").write_text('<mujoco model="arm6"/>')
    (folder / "nodes.yaml").unlink()
    with pytest.raises(RobotError, match="robot.yaml: controller needs the nodes' parameters in nodes.yaml"):
        load_robot(folder)
    for content, said in (("a: [1\n", "is no YAML: line 2"), ("", "the file: expected keys with values, found None")):
        (folder / "robot.yaml").write_text(content)
        with pytest.raises(RobotError, match=said):
            load_robot(folder)
    # A broken one beside them takes nothing from the others.
    monkeypatch.setenv("REFIT_ROBOTS", str(folder.parent))
    assert "arm6" in robot_names() and "arm6" not in [robot.name for robot in loadable_robots()]
    (folder / "robot.yaml").unlink()
    with pytest.raises(RobotError, match="robot.yaml is missing; expected at least 'title:"):
        load_robot("arm6")


def test_a_robot_says_whether_it_does_what_is_asked():
    panda = load_robot("panda")
    assert panda.task_as(Track) is panda.task and panda.demo_as(PayloadDemo) is panda.demo
    with pytest.raises(RobotError, match="robot.yaml: expected a task of kind swing_up or trot, found track"):
        panda.task_as(SwingUp, Trot)
    with pytest.raises(RobotError, match="robot.yaml: expected a demo of kind payload, it is missing"):
        load_robot("quadruped").demo_as(PayloadDemo)


# -- the reader --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Leaf:
    kind: typing.ClassVar[str] = "leaf"
    count: int = key("steps", (0, 9), "of it", default=3)


@dataclasses.dataclass(frozen=True)
class Tree:
    name: str
    rate: float = key("Hz", (1.0, 2.0), "of it")
    leaf: Leaf | None = key("", None, "of it", default=None)
    words: dict[str, str] = key("", None, "of it", factory=dict)
    leaves: tuple[Leaf, ...] = key("", None, "of it", default=())


def test_values_become_types():
    tree = read(Tree, {"rate": 2, "leaf": {"kind": "leaf"}, "leaves": [{"count": 1}]}, name="oak")
    assert tree == Tree("oak", 2.0, Leaf(3), {}, (Leaf(1),)) and isinstance(tree.rate, float)
    assert [name for name, _ in keys(Tree)] == ["rate", "leaf", "leaf.count", "words", "leaves", "leaves.count"]
    for document, said in (
        ({"rate": 1.5, "name": "oak"}, "name is no key here; expected only rate, leaf, words, leaves"),
        ({"rate": 1.5, "words": {"a": 1}}, "words.a: expected a text, found 1"),
        ({"rate": 1.5, "leaves": [{"count": 10}]}, r"leaves\[0\].count: expected a whole number from 0 to 9 \[steps\]"),
        ({}, r"rate is missing; expected a number from 1 to 2 \[Hz\]: of it"),
    ):
        with pytest.raises(TypedError, match=said):
            read(Tree, document, name="oak")


# -- its page ----------------------------------------------------------------------------------------


def rows() -> list[tuple[str, list[str]]]:
    """(key, further cells) of the tables of docs/robots.md."""
    lines = re.findall(r"^\| `([a-z_.]+)` \|(.*)\|$", (ROOT / "docs" / "robots.md").read_text(), re.MULTILINE)
    cells = [(name, [cell.strip() for cell in rest.split("|")]) for name, rest in lines]
    return [row for row in cells if not row[0].endswith(".yaml") and row[0] not in robot_names()]


def test_the_page_names_every_key_and_no_other():
    leaves = {name for name in KEYS if not any(other.startswith(f"{name}.") for other in KEYS)}
    assert {name for name, _ in rows()} == leaves | {"task.kind", "demo.kind"}


@pytest.mark.parametrize(("name", "metadata"), RANGED, ids=[name for name, _ in RANGED])
def test_the_page_has_units_and_ranges(name, metadata):
    low, high = metadata["limits"]
    assert [metadata["unit"], f"{low:g} to {high:g}"] in [cells[:2] for key, cells in rows() if key == name]
