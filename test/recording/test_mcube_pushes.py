"""MCube's files: what is written in their format comes back on one clock, and what is no push says so in a sentence."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from recording.mcube_pushes import PushError, PushFile, find_pushes

NAME = "motion_surface=plywood_shape=rect1_a=0_v=100_i=1.000_s=0.300_t=-0.349.json"


def motion(t):
    """Object pose (3,), tip (2,) and the tip's force on the object (2,) of one push, smooth, by time (n,)."""
    yaw = 2.9 + 1.5 * t**2  # through pi
    object_ = np.column_stack([0.25 + 0.08 * t, 0.05 - 0.03 * t**2, yaw])
    return (
        object_,
        np.column_stack([0.15 + 0.1 * t, 0.02 * t]),
        np.column_stack([2.0 + np.sin(9 * t), 0.5 * np.cos(5 * t)]),
    )


def as_published(seed=0, sign=1.0, shuffle=True):
    """The lists of a file: three clocks, repeated and unordered rows, wrapped yaw with the tracker's quarter turns."""
    rng = np.random.default_rng(seed)
    clocks = [
        1.4394e9 + np.linspace(start, 0.8 - start, 201) + np.r_[0, rng.uniform(-1e-3, 1e-3, 199), 0]
        for start in (0.0, 0.011, 0.004)
    ]
    (objects, _, _), (_, tips, _), (_, _, force) = (motion(clock - 1.4394e9) for clock in clocks)
    objects[60:90, 2] += np.pi / 2
    objects[150:, 2] -= np.pi
    objects[:, 2] = (objects[:, 2] + np.pi) % (2 * np.pi) - np.pi
    tables = {
        "object_pose": np.column_stack([clocks[0], objects]),
        "tip_pose": np.column_stack([clocks[1], tips, 0 * tips[:, 0]]),
        "ft_wrench": np.column_stack([clocks[2], sign * force, 0 * force[:, 0]]),
    }
    if shuffle:
        tables = {name: rng.permutation(np.concatenate([table, table[::7]])) for name, table in tables.items()}
    return {name: table.tolist() for name, table in tables.items()}


def write(path, lists):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(lists))
    return path


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_push_comes_back_on_one_clock_whatever_the_sensors_sign(tmp_path, sign):
    push = PushFile.named(write(tmp_path / NAME, as_published(sign=sign))).read(0.01)
    t = 0.011 + 0.01 * np.arange(len(push.object))  # from when the last sensor speaks
    object_, tip, _ = motion(t)
    assert len(t) == 78  # until the first falls silent, 0.789 s
    np.testing.assert_allclose(push.object[:, :2], object_[:, :2], atol=2e-5)
    np.testing.assert_allclose(push.tip, tip, atol=2e-5)
    # Whole quarters aside, yaw is continuous: the first sample says which quarter.
    turned = push.object[:, 2] - object_[:, 2]
    assert np.ptp(turned) < 1e-3 and abs(turned[0] / (np.pi / 2) - round(turned[0] / (np.pi / 2))) < 1e-3
    fine = np.linspace(t[:-1], t[1:], 201)
    mean = motion(fine.ravel())[2].reshape(*fine.shape, 2).mean(0)
    np.testing.assert_allclose(push.force[1:], mean, atol=0.02)
    assert push.force.shape == push.tip.shape and push.period == 0.01


def test_names_tell_what_was_done():
    file = PushFile.named(Path(NAME))
    assert (file.surface, file.shape, file.acceleration, file.speed) == ("plywood", "rect1", 0.0, 0.1)
    assert (file.side, file.place, file.angle) == (1.0, 0.3, -0.349)
    accelerated = PushFile.named(Path(NAME.replace("a=0_v=100", "a=2500_v=-1")))
    assert accelerated.acceleration == 2.5 and np.isnan(accelerated.speed)
    with pytest.raises(PushError, match="expected a name such as motion_surface="):
        PushFile.named(Path("push.json"))


def test_loose_files_and_archives_are_found_once_and_by_surface_and_shape(tmp_path):
    lists = as_published()
    write(tmp_path / "plywood" / "rect1" / NAME, lists)
    other = NAME.replace("s=0.300", "s=0.500")
    with zipfile.ZipFile(tmp_path / "plywood" / "rect1" / "rect1_json.zip", "w") as archive:
        for name in (NAME, other):
            archive.writestr(f"rect1/{name}", json.dumps(lists))
        archive.writestr("rect1/README.txt", "no push")
    write(tmp_path / "abs" / "hex" / NAME.replace("plywood", "abs").replace("rect1", "hex"), lists)
    found = find_pushes(tmp_path, "plywood", "rect1")
    assert [(file.place, bool(file.member)) for file in found] == [(0.3, False), (0.5, True)]
    np.testing.assert_array_equal(*(file.read(0.01).object for file in found))
    assert {file.surface for file in find_pushes(tmp_path)} == {"plywood", "abs"}
    with pytest.raises(
        PushError, match=r"expected recordings of delrin/rect1 \(json\), found abs/hex \(json\), plywood/rect1"
    ):
        find_pushes(tmp_path, "delrin", "rect1")


def test_hdf5_alone_names_what_to_download(tmp_path):
    (tmp_path / NAME.replace(".json", ".h5")).write_bytes(b"\x89HDF")
    with pytest.raises(PushError, match=r"found plywood/rect1 \(h5\); download the archive of JSON"):
        find_pushes(tmp_path)
    with pytest.raises(PushError, match="is no folder"):
        find_pushes(tmp_path / "nowhere")


def spoilt(name, value):
    return {**as_published(shuffle=False), name: value}


@pytest.mark.parametrize(
    "lists, sentence",
    [
        ("{", "cannot be read as JSON"),
        ("[1, 2]", "found a list"),
        (
            {"tip_poses": [], "ft_wrench": []},
            "expected object_pose, tip_pose and ft_wrench, found tip_poses, ft_wrench",
        ),
        (spoilt("ft_wrench", []), "ft_wrench: expected at least two rows of 3 finite numbers"),
        (spoilt("object_pose", [[0.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), "object_pose: expected at least two rows of 4"),
        (
            spoilt("object_pose", [[0.0, 1.0, 2.0, float("nan")], [1.0, 1.0, 2.0, 0.0]]),
            "object_pose: expected at least two rows of 4",
        ),
        (spoilt("tip_pose", [[0.0, 1.0], [1.0]]), "tip_pose is no table of numbers"),
        (
            spoilt("tip_pose", [[5.0, 1.0, 1.0], [6.0, 1.0, 1.0]]),
            "expected poses and forces of the same time, found 0.000 s",
        ),
        (
            spoilt("object_pose", [[1.4394e9 + t, 0.0, 0.0, 0.6 * (t > 0.4)] for t in np.arange(0, 0.8, 0.004)]),
            "turns by 34 degrees",
        ),
    ],
)
def test_what_is_no_push_says_so_in_a_sentence(tmp_path, lists, sentence):
    path = tmp_path / NAME
    path.write_text(lists if isinstance(lists, str) else json.dumps(lists))
    with pytest.raises(PushError, match=sentence) as caught:
        PushFile.named(path).read(0.01)
    assert NAME in str(caught.value) and "\n" not in str(caught.value)


def test_a_broken_archive_says_so(tmp_path):
    (tmp_path / "rect1_json.zip").write_bytes(b"PK no archive")
    with pytest.raises(PushError, match="cannot be read as an archive"):
        find_pushes(tmp_path)
