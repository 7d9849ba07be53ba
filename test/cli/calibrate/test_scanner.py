"""`refit calibrate scanner`: a scanner's place from the walls around it."""

import numpy as np
import pytest
from simulated_bags import found, inside, parameters, run, write_scan_bag


def test_scanner(tmp_path, capsys):
    X = write_scan_bag(tmp_path / "bag")
    words = ("--room", "2.76x2.76", "--center", "0.4,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 0
    document, rows = found(tmp_path / "out")
    yaw = np.arctan2(X[1, 0], X[0, 0])
    assert yaw == pytest.approx(0.06)
    for name, truth, assumed in (("x", X[0, 3], 0.12), ("y", X[1, 3], 0.0), ("yaw", yaw, 0.0)):
        assert inside(rows[f"laser.{name}"], truth) and rows[f"laser.{name}"]["assumed"] == pytest.approx(assumed)
        assert rows[f"laser.{name}"]["upper"] - rows[f"laser.{name}"]["lower"] < 0.003
    assert document["details"]["height"] == pytest.approx(0.07)
    node, values = parameters(tmp_path / "out", "static_transform.yaml")
    assert node == "/**" and (values["frame_id"], values["child_frame_id"]) == ("base_link", "laser")
    assert values["translation.x"] == pytest.approx(X[0, 3], abs=1e-3) and values["translation.z"] == pytest.approx(
        0.07
    )
    assert 2 * np.arctan2(values["rotation.z"], values["rotation.w"]) == pytest.approx(yaw, abs=2e-3)


def test_scanner_with_walls_from_a_file_and_a_guess(tmp_path, capsys):
    X = write_scan_bag(tmp_path / "bag", scans=3)
    (tmp_path / "walls.yaml").write_text(
        "- {from: [1.78, -1.4], to: [1.78, 1.4]}\n- {from: [-1.0, 1.38], to: [1.8, 1.38]}\n"
        "- {from: [-1.0, -1.38], to: [1.8, -1.38]}\n"
    )
    words = ("--walls", tmp_path / "walls.yaml", "--guess", "0.2,0,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 0
    _, rows = found(tmp_path / "out")
    assert rows["laser.x"]["value"] == pytest.approx(X[0, 3], abs=3e-3) and rows["laser.y"]["value"] == pytest.approx(
        X[1, 3], abs=3e-3
    )


def test_a_room_of_another_size_is_noticed(tmp_path, capsys):
    write_scan_bag(tmp_path / "bag", scans=3)
    words = ("--room", "2.9x2.6", "--center", "0.4,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 1
    assert not (tmp_path / "out" / "static_transform.yaml").exists() and (tmp_path / "out" / "report.html").exists()
    missed = [check["name"] for check in found(tmp_path / "out")[0]["checks"] if not check["passed"]]
    assert "ranges off the walls, in units of accuracy" in missed


def test_one_wall_leaves_the_way_along_it_open(tmp_path, capsys):
    write_scan_bag(tmp_path / "bag", scans=3)
    (tmp_path / "walls.yaml").write_text("- {from: [1.78, -1.4], to: [1.78, 1.4]}\n")
    assert (
        run(capsys, "scanner", tmp_path / "bag", "--walls", tmp_path / "walls.yaml", "--out", tmp_path / "out")[0] == 1
    )
    assert "y" in found(tmp_path / "out")[0]["details"]["not_determined"]
