"""Bags and options that cannot be used end with one line and exit code 2."""

import numpy as np
import pytest
from simulated_bags import ANGLES, OFFSET, POSES, Recording, run, write_camera_bag, write_tool_bag


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """Bags that lack something."""
    folder = tmp_path_factory.mktemp("poor")
    write_tool_bag(folder / "few", POSES[:4])
    write_camera_bag(folder / "two", poses=POSES[:2])
    about_one_axis = np.tile(POSES[0], (6, 1))
    about_one_axis[:, 5] = np.linspace(-1.0, 1.0, 6)
    write_camera_bag(folder / "axis", poses=about_one_axis)
    with Recording(folder / "restless") as bag:
        for k in range(500):
            bag.joints(0.004 * k, 0.3 * np.sin(0.02 * k + np.arange(6)))
            bag.wrench(0.004 * k, OFFSET)
    with Recording(folder / "nameless", description=False) as bag:
        bag.scan(0.0, ANGLES, np.ones_like(ANGLES))
    (folder / "walls.yaml").write_text("- {from: [1.0], to: [1.0, 2.0]}\n")
    (folder / "there").mkdir()
    return folder


@pytest.mark.parametrize(("words", "expected"), [
    ("tool none", "No bag at"),
    ("tool two", "lacks ft_sensor/wrench_raw"),
    ("tool few --topic joint_states", "expected geometry_msgs/msg/WrenchStamped"),
    ("tool few", "4 poses at rest in 4 different orientations, at least 6 are needed"),
    ("tool restless", "never stands still for 0.5 s in the 2.0 s"),
    ("tool few --frame nose", "No frame 'nose'"),
    ("tool few --robot nobody", "--robot: "),
    ("tool few --max-std 0.001", "vary by less than 0.001 N"),
    ("camera few", "lacks target_pose"),
    ("camera two", "seen in 2 of 2 stretches at rest, at least 3"),
    ("camera axis", "about one axis only"),
    ("camera few --topic joint_states", "expected geometry_msgs/msg/PoseStamped"),
    ("servos few", "lacks run_info"),
    ("scanner few --room 3x3", "lacks scan"),
    ("scanner nameless", "either --room LENGTHxWIDTH or --walls FILE"),
    ("scanner nameless --room 3", "--room 3: expected 2 numbers"),
    ("scanner nameless --room 3x3", "give --guess"),
    ("scanner nameless --walls {}/walls.yaml", "expected a list of {from: [x, y], to: [x, y]}"),
    ("scanner nameless --walls {}/none.yaml", "cannot be read"),
    ("scanner nameless --room 3x3 --guess a,b,c", "--guess a,b,c: expected 3 numbers"),
    ("scanner few --room 3x3 --topic joint_states", "expected sensor_msgs/msg/LaserScan"),
    ("tool few --out {}/there", "exists already"),
    ("tool few --json {}/none/checks.json", "is no file in an existing folder"),
    ("camera two --mount nose", "--mount"),
    ("kettle few", "kettle"),
])  # fmt: skip
def test_one_line_and_exit_code_2(poor, capsys, monkeypatch, words, expected):
    monkeypatch.setenv("REFIT_RUNS", str(poor / "runs"))
    what, name, *options = words.format(poor).split()
    code, said = run(capsys, what, poor / name, *options)
    assert code == 2 and said.count("\n") == 1, said
    assert expected in said
    assert not (poor / "runs").exists()
