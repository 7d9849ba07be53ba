"""Recordings of the double pendulum: angles, velocities, windows, and files that are none."""

import gzip
import hashlib

import numpy as np
import pytest

from experiments.problems.double_pendulum_data import (
    LENGTHS,
    RATE,
    RecordingError,
    load_recording,
    load_recordings,
    recordings_folder,
    windows,
)
from experiments.problems.ibm_pendulum import Study
from identification import UnusableInput
from sim_core.multibody import load_model
from sim_core.multibody.model import build


def write(path, q, pixels=(120.0, 92.0), pivot=(240.0, 244.0)):
    """A file as the camera would have written it: fifths of a pixel, whole numbers."""
    a = np.array([q[:, 0], q[:, 0] + q[:, 1]])
    elbow = np.array(pivot) + pixels[0] * np.stack([np.cos(a[0]), np.sin(a[0])], 1)
    tip = elbow + pixels[1] * np.stack([np.cos(a[1]), np.sin(a[1])], 1)
    rows = 5 * np.hstack([np.tile(pivot, (len(q), 1)), elbow, tip])
    np.savetxt(path, np.round(rows), fmt="%d", delimiter=",")
    return path


def motion(frames=1200):
    t = np.arange(frames) / RATE
    q = np.stack([0.8 * np.sin(9 * t) + 0.1, 9.0 * t + 1.2 * np.sin(20 * t)], 1)
    v = np.stack([7.2 * np.cos(9 * t), 9.0 + 24 * np.cos(20 * t)], 1)
    return q, v


def test_angles_and_velocities_come_back(tmp_path):
    q, v = motion()
    recording = load_recording(write(tmp_path / "0.csv", q))
    np.testing.assert_allclose(recording.x[:, :2], q, atol=0.004)  # a fifth of a pixel in 92 is 2 mrad, twice
    assert np.sqrt(np.mean((recording.x[:, 2:] - v) ** 2, 0)).max() < 0.15
    np.testing.assert_allclose(recording.pixels, (120, 92), rtol=2e-3)
    assert recording.metres_per_pixel == pytest.approx(sum(LENGTHS) / 212, rel=2e-3)


def test_angles_are_the_models(tmp_path):
    """Elbow and tip of the model at the recorded angles lie where the film shows them."""
    q, _ = motion(50)
    path = write(tmp_path / "3.csv", q)
    model = load_model("double_pendulum")
    recording = load_recording(path)
    elbow, tip = (build.frame_position(model, name) for name in ("link2", "tip"))
    pixels = np.loadtxt(path, delimiter=",") / 5
    for k in (0, 30, 49):
        for place, column in ((elbow, 2), (tip, 4)):
            _, y, z = np.array(place(recording.x[k, :2], model.parameters.nominal)).ravel()
            seen = (pixels[k, column : column + 2] - pixels[k, :2]) * recording.metres_per_pixel
            np.testing.assert_allclose([-z, y], seen, atol=1e-3)


def test_windows_begin_within_a_turn_and_know_their_end(tmp_path):
    q, _ = motion()
    write(tmp_path / "0.csv", q)
    recordings = load_recordings(tmp_path)
    whole = recordings["0"]
    assert whole.x[800, 1] > 2 * np.pi
    window = windows(recordings, [("0", 0), ("0", 800)], steps=300)
    assert window.x.shape == (2, 301, 4) and window.u.shape == (2, 300, 0) and window.dt == 1 / 400
    assert (np.abs(window.x[:, 0, :2]) <= np.pi).all()
    turns = (whole.x[800:1101, :2] - window.x[1, :, :2]) / (2 * np.pi)
    np.testing.assert_allclose(turns, np.broadcast_to(np.round(turns[0]), turns.shape), atol=1e-12)
    np.testing.assert_array_equal(window.x[1, :, 2:], whole.x[800:1101, 2:])
    with pytest.raises(RecordingError, match="0: expected frames 1000 to 1300, found 1200"):
        whole.window(1000, 300)


def damaged(tmp_path, name):
    q, _ = motion(200)
    path = write(tmp_path / "7.csv", q)
    rows = np.loadtxt(path, delimiter=",")
    if name == "text":
        path.write_text("x,y\n1,2\n")
    elif name == "columns":
        np.savetxt(path, rows[:, :4], delimiter=",")
    elif name == "short":
        np.savetxt(path, rows[:5], delimiter=",")
    elif name == "nan":
        rows[17, 3] = np.nan
        np.savetxt(path, rows, delimiter=",")
    elif name == "swapped":
        np.savetxt(path, rows[:, [2, 3, 0, 1, 4, 5]], delimiter=",")
    elif name == "lost":
        rows[50:, 2:] = (
            2 * np.tile(rows[50:, :2], 2) - rows[50:, 2:]
        )  # from one frame to the next both links point back
        np.savetxt(path, rows, delimiter=",")
    return path


@pytest.mark.parametrize(
    "name, says",
    [
        ("text", "7.csv: expected rows of six numbers"),
        ("columns", r"six numbers, found \(200, 4\)"),
        ("short", r"at least 11 rows of six numbers, found \(5, 6\)"),
        ("nan", "expected finite pixels, found .* in row 18"),
        ("swapped", "lower link of constant length, found .* pivot, elbow, tip"),
        ("lost", "turns below 0.6 rad between frames, found .* after row 50"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, name, says):
    with pytest.raises(RecordingError, match=says):
        load_recording(damaged(tmp_path, name))


def test_a_missing_folder_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_DOUBLE_PENDULUM", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="found none; unset REFIT_DOUBLE_PENDULUM"):
        recordings_folder()


def test_a_study_of_other_recordings_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_DOUBLE_PENDULUM", str(tmp_path))
    with pytest.raises(UnusableInput, match="found none; unset REFIT_DOUBLE_PENDULUM"):
        Study.load()
    write(tmp_path / "10.csv", motion()[0])
    with pytest.raises(UnusableInput, match="expected frames 16000 to 16400, found 1200"):
        Study.load()
    (tmp_path / "10.csv").rename(tmp_path / "11.csv")
    with pytest.raises(UnusableInput, match="expected recordings 10, found none of the name 10; REFIT_DOUBLE_PEND"):
        Study.load()


def test_compressed_files_say_the_same(tmp_path, monkeypatch):
    q, _ = motion(50)
    plain = write(tmp_path / "2.csv", q)
    expected = load_recording(plain)
    (tmp_path / "10.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "notes.csv").write_text("no recording")
    monkeypatch.setenv("REFIT_DOUBLE_PENDULUM", str(tmp_path))
    found = load_recordings()
    assert list(found) == ["2", "10"] and found["10"].name == "10"
    np.testing.assert_array_equal(found["10"].x, expected.x)


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip"])
def test_a_damaged_compressed_file_is_refused(tmp_path, damage):
    packed = bytearray(gzip.compress(write(tmp_path / "1.csv", motion(400)[0]).read_bytes()))
    if damage == "cut":
        packed = packed[:-200]
    elif damage == "flipped":
        packed[200] ^= 0xFF
    else:
        packed = b"1,2,3,4,5,6\n" * 20
    (tmp_path / "1.csv.gz").write_bytes(packed)
    with pytest.raises(RecordingError, match="1.csv.gz: expected rows of six numbers"):
        load_recording(tmp_path / "1.csv.gz")


#: SHA-256 of the files as IBM published them
ORIGINALS = {
    "0": "0c02780291f4d19c1e92ad45c0f8e958ae15413def5834b98dd4c6935ad3adbd",
    "1": "11bc145e34c0745a71881ec48089cda43da2171ee3e4081ba24d335acbfa1f2e",
    "2": "94d326951762fd133a549a4c8b2de81c97d330e6dbe997407b8b367d7a73c3bd",
    "3": "3d8e91f8e52cee26de41ae32081aabd9e2463ad423a59e9714d78bb402f48547",
    "4": "8c20addd10d5ab78df894927ec4ae1a278eaf56d96b1ed3ed49dcbea076217ae",
    "5": "dbd310a7e512d46b7e9e0d16b932d965746ef46685055fb5031f6ecfa094c465",
    "10": "a7042a4efde78b017fcab37defa73624efd92f8bacf1a87085044ccd9b3fdcde",
}


def test_the_shipped_files_are_the_originals_compressed(monkeypatch):
    monkeypatch.delenv("REFIT_DOUBLE_PENDULUM", raising=False)
    folder = recordings_folder()
    files = {path.name.partition(".")[0]: path for path in folder.glob("*.csv.gz")}
    found = {name: hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() for name, path in files.items()}
    assert found == ORIGINALS
    assert max(path.stat().st_size for path in files.values()) < 2**20
    assert "Community Data License Agreement - Sharing - Version 1.0" in (folder / "LICENSE.txt").read_text()


def test_the_files_are_found_where_a_package_installs_them(tmp_path, monkeypatch):
    from config import share

    installed = tmp_path / "prefix" / "share" / "refit" / "data" / "ibm-double-pendulum"
    installed.mkdir(parents=True)
    write(installed / "0.csv", motion(50)[0])
    monkeypatch.delenv("REFIT_DOUBLE_PENDULUM", raising=False)
    monkeypatch.setattr(share, "_SOURCE_TREE", tmp_path / "elsewhere")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path / 'prefix'}")
    assert recordings_folder() == installed
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")
    with pytest.raises(FileNotFoundError, match="source the workspace's setup file"):
        recordings_folder()


@pytest.fixture(scope="module")
def recordings():
    return load_recordings()


def test_the_published_files(recordings):
    """Camera scales and plumb line of the real films."""
    for recording in recordings.values():
        assert 588 / 5 < recording.pixels[0] < 603 / 5 and 450 / 5 < recording.pixels[1] < 462 / 5
        heading = recording.x[-4000:, 0]
        assert abs(np.arctan2(np.sin(heading).mean(), np.cos(heading).mean())) < np.deg2rad(1.5)
    # Both links give the same scale: the lengths are those of this pendulum.
    for recording in recordings.values():
        assert LENGTHS[0] / recording.pixels[0] == pytest.approx(LENGTHS[1] / recording.pixels[1], rel=0.01)


def test_velocities_of_the_films_integrate_to_their_angles(recordings):
    for recording in recordings.values():
        x = recording.window(16000, 400)
        drift = np.cumsum((x[1:, 2:] + x[:-1, 2:]) / 2, 0) / RATE - (x[1:, :2] - x[0, :2])
        assert np.abs(drift).max() < 0.02


def test_windows_of_the_study_do_not_overlap(recordings):
    """Training, held-out and validation windows of the experiments, replicas included, share no frame; all are late ones."""
    from experiments.problems.ibm_pendulum import HELD_OUT, STEPS, TRAINING, VALIDATION
    from sim_core.inference.posterior.predictive import replicas

    assert len(TRAINING) == 1 and len(HELD_OUT) == 10
    used = {}
    for purpose, starts in (("training", TRAINING), ("held out", HELD_OUT), ("validation", VALIDATION)):
        for name, first in replicas(starts):
            assert first > 0.75 * len(recordings[name].x)
            for frame in range(first, first + STEPS + 1):
                assert used.setdefault((name, frame), purpose) == purpose
