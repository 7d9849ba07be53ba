"""`refit localize` on bags of simulated scans: poses with the numbers of the search itself, every scan in the table, sentences for the rest."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "calibrate"))
from simulated_bags import Recording

from cli.main import main
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import seen_by
from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import FOLLOWING, SearchOptions, flat, locate

SCENE = Path(__file__).resolve().parents[2] / "data" / "lidar" / "mirror.yaml"
STEP = 2.0 * np.pi / 1024.0
WAY = np.array([[-0.3, 0.0, 0.0], [-0.29, 0.01, 0.03], [-0.27, 0.015, 0.06]])


def lidar():
    scene, values = scene_of_file(SCENE)
    step = float(np.float32(STEP))
    first = float(np.float32(-340 * STEP))
    return Lidar(scene, seen_by(first, step, 682), values)


def recorded(folder, rows, angles=None):
    """A bag with scans `rows`, ten a second."""
    angles = lidar().settings.angles if angles is None else angles
    with Recording(folder, description=False) as bag:
        for k, ranges in enumerate(rows):
            bag.scan(1.0 + 0.1 * k, angles[: len(ranges)], ranges)
    return folder


def scans():
    noise = np.random.default_rng(0)
    model = lidar()
    return [np.float32(model.scan(dict(zip(flat(), p))).range + noise.normal(0.0, 0.005, 682)) for p in WAY]


def localize(capsys, *words):
    code = main(["localize", *map(str, words)])
    return code, capsys.readouterr().err


def test_poses_are_those_of_the_search_and_the_page_has_its_pictures(tmp_path, capsys):
    rows = scans()
    bag = recorded(tmp_path / "bag", rows)
    code, said = localize(capsys, bag, "--scene", SCENE, "--guess", "-0.25,0.03,0.1", "--out", tmp_path / "out")
    assert code == 0, said
    told = json.loads((tmp_path / "out" / "poses.json").read_text())
    assert [row["outcome"] for row in told] == ["found"] * 3
    model, start, options = lidar(), dict(zip(flat(), (-0.25, 0.03, 0.1))), SearchOptions()
    for row, ranges, truth in zip(told, rows, WAY):
        valid = np.where(ranges <= 5.6, ranges, np.nan).astype(float)  # as the message's range_max has it
        start = locate(model, valid, start, options=options).values
        options = FOLLOWING
        assert [row[name] for name in flat()] == list(start.values())
        assert list(start.values()) == pytest.approx(truth, abs=4e-3)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "image/webp" in page and "Over time" in page


def test_what_cannot_be_used_is_in_the_table_and_the_rest_is_found(tmp_path, capsys):
    rows = scans()
    bad = [rows[0], np.full(682, np.nan, np.float32), rows[1][:300], rows[2]]
    bag = recorded(tmp_path / "bag", bad)
    code, said = localize(capsys, bag, "--scene", SCENE, "--out", tmp_path / "out")
    assert code == 1, said  # found in half of the scans
    told = json.loads((tmp_path / "out" / "poses.json").read_text())
    assert [row["outcome"] for row in told] == ["found", "no_scan", "no_scan", "found"]
    assert "invalid" in told[1]["message"] and "682 beams is expected" in told[2]["message"]


@pytest.mark.parametrize(
    "words, said",
    [
        (("--scene", "nowhere.yaml"), "nothing is there"),
        (("--scene", SCENE, "--body", "unicorn"), "it has walls, mirror"),
        (("--scene", SCENE, "--guess", "1,2"), "three numbers"),
        (("--scene", SCENE, "--reach", "1,0,1"), "positive"),
        (("--scene", SCENE, "--topic", "lidar"), "lacks lidar"),
        (("--scene", SCENE, "--from", "100"), "within the stretch"),
    ],
)
def test_what_makes_no_search_is_one_line(tmp_path, capsys, words, said):
    bag = recorded(tmp_path / "bag", scans()[:1])
    code, line = localize(capsys, bag, *words)
    assert code == 2 and said in line and len(line.strip().splitlines()) == 1
