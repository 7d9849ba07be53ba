"""What `refit demo` refuses before anything starts, and which robot gives which demonstration."""

import pytest

from cli.demo import command
from cli.demo.command import ALONE, DEMONSTRATIONS, _robot, demo
from cli.errors import CommandError
from config.robot import SHOWN, load_robot


def test_every_demonstration_has_a_robot_that_gives_it():
    for name, kind in DEMONSTRATIONS.items():
        assert isinstance(_robot(SHOWN[name], name).demo, kind)
    kinds = {robot.demo.kind for robot in command.ROBOTS}
    assert kinds == set(DEMONSTRATIONS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            dict(name="pancake"),
            "expected one of payload, swing_up, auscultation, scooping, excavation, poking, lidar; the robot is named by --robot",
        ),
        (
            dict(name="panda"),
            "expected one of payload, swing_up, auscultation, scooping, excavation, poking, lidar; the robot is named by --robot",
        ),
        (dict(name="swing_up", robot="panda"), "swing_up is a demonstration of .*cartpole.*: panda has payload"),
        (dict(name="payload", robot="cartpole"), "payload is a demonstration of .*panda.*: cartpole has swing_up"),
    ],
)
def test_a_demonstration_that_the_robot_does_not_have_is_refused(words, said):
    with pytest.raises(CommandError, match=said):
        demo(**words)


@pytest.mark.parametrize(
    ("name", "robot", "expected"),
    [
        (None, None, "panda"),
        ("payload", None, "panda"),
        ("swing_up", None, "double_cartpole"),
        ("swing_up", "cartpole", "cartpole"),
        (None, "dxl_arm", "dxl_arm"),
    ],
)
def test_the_name_chooses_the_robot(monkeypatch, tmp_path, name, robot, expected):
    class Reached(Exception):
        pass

    def new_run(folder, *_, **options):
        raise Reached(folder, options["robot"])

    monkeypatch.setattr("reporting.new_run", new_run)
    with pytest.raises(Reached) as reached:
        demo(name=name, robot=robot, headless=True, output=tmp_path)
    folder, given = reached.value.args
    assert folder == f"demo-{expected.replace('_', '-')}" and load_robot(given).name == expected


def test_the_list_names_every_demonstration_and_the_robots_that_give_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert demo(list_=True) == 0
    lines = dict(line.rstrip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines.keys() == {*DEMONSTRATIONS, *ALONE}
    assert lines["payload"].endswith("(--robot panda, dxl_arm)") and lines["swing_up"].endswith(
        "(--robot double_cartpole, cartpole)"
    )
