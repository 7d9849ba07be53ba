"""Files in the format of the published scoops, written here, become the records that they were written from."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from sim_core.scooping.bed.actions import random_actions
from sim_core.scooping.bed.rendering import PIXEL, Picture
from sim_core.scooping.bed.terrain import TRAY
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.learning.dataset import DataSetError
from sim_core.scooping.learning.public_dataset import FIELDS, load_public, tray_map

pytestmark = pytest.mark.pure
CORNERS = np.array([[210.0, 640.0], [1090.0, 655.0], [1045.0, 90.0], [245.0, 80.0]])


def scene(x, y, number):
    """Colours in [0, 1] and height [m], both smooth, at places of the tray."""
    colour = np.stack([0.5 + 0.4 * np.sin(7.0 * x + number), 0.5 + 0.4 * np.cos(6.0 * y), 0.3 + 0.0 * x], -1)
    return colour, 0.1 + 0.05 * np.sin(8.0 * x) * np.cos(9.0 * y) + 0.01 * number


def mapped(homography, places):
    x = np.column_stack([places, np.ones(len(places))]) @ homography.T
    return x[:, :2] / x[:, 2:]


def write(folder, samples=((3, 2), (3, 10), (3, 1), (12, 1))):
    """The given terrains and samples, in that order; returns actions and volumes by (terrain, sample)."""
    for name in ("rgb_images", "depth_images"):
        (folder / name).mkdir()
    homography = tray_map(CORNERS)
    v, u = np.mgrid[0:720, 0:1280].astype(float)
    x, y = mapped(np.linalg.inv(homography), np.stack([u.ravel(), v.ravel()], 1)).T.reshape(2, 720, 1280)
    rng = np.random.default_rng(0)
    told = {}
    with (folder / "metadata.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, (*FIELDS, "ft_csv_path"))
        rows.writeheader()
        for terrain, sample in samples:
            colour, height = scene(x, y, terrain)
            depth = 1.2 - height
            low, high = depth.min(), depth.max()
            stem = f"terrain_{terrain}_sample_{sample}"
            Image.fromarray(np.round(np.clip(colour, 0.0, 1.0) * 255.0).astype(np.uint8)).save(
                folder / "rgb_images" / f"{stem}_rgb.png"
            )
            Image.fromarray(np.round((depth - low) / (high - low) * 65535.0).astype(np.uint16)).save(
                folder / "depth_images" / f"{stem}_depth.png"
            )
            action, volume = random_actions(1, rng), float(rng.uniform(0.0, 1e-4))
            pixel = mapped(homography, action.place)[0]
            told[terrain, sample] = action, volume
            rows.writerow(
                dict(
                    terrain_id=terrain, sample_index=sample, composition="Partition", material_1="Sand",
                    material_2="Packing Peanuts", material_3="", depth_min=low, depth_max=high, pixel_x=pixel[0],
                    pixel_y=pixel[1], yaw=action.yaw[0], scoop_depth=action.depth[0], stiffness=float(action.stiff[0]),
                    scooped_volume=volume, ft_csv_path="x.csv",
                )
            )  # fmt: skip
    (folder / "tray.json").write_text(json.dumps({"corners": CORNERS.tolist()}))
    return told


def test_records_are_joined_by_terrain_and_sample(tmp_path):
    told = write(tmp_path)
    records = load_public(tmp_path, size=32)
    assert [record.number for record in records] == [3, 12]
    assert records[0].materials == ("sand", "packing peanuts") and records[0].composition == "Partition"
    assert records[0].volumes == pytest.approx([told[3, k][1] for k in (1, 2, 10)])
    columns, rows = (round(length / PIXEL) for length in TRAY)
    x = np.tile((np.arange(columns) + 0.5) * PIXEL - TRAY[0] / 2.0, (rows, 1))
    y = np.tile(((np.arange(rows) + 0.5) * PIXEL - TRAY[1] / 2.0)[:, None], (1, columns))
    for record in records:
        colour, height = scene(x, y, record.number)
        exact = Picture(np.round(colour * 255.0).astype(np.uint8), height.astype(np.float32), -np.array(TRAY) / 2.0)
        for k, sample in enumerate(sorted(s for t, s in told if t == record.number)):
            action, _ = told[record.number, sample]
            assert np.allclose(record.actions.table()[k], action.table()[0], atol=1e-5)
            seen = crops(exact, action, 32)[0]
            assert np.abs(record.crops[k, :3] - seen[:3]).max() < 0.015
            assert np.abs(record.crops[k, 3] - seen[3]).max() < 1e-3


def test_corners_map_to_corners():
    half = np.array(TRAY) / 2.0
    places = half * [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]
    assert mapped(tray_map(CORNERS), places) == pytest.approx(CORNERS)


def test_what_is_missing_is_named(tmp_path):
    write(tmp_path, ((3, 1), (3, 11)))
    lost = tmp_path / "rgb_images" / "terrain_3_sample_1_rgb.png"
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(DataSetError, match="expected one file terrain_3_sample_1"):
        load_public(tmp_path)
    lost.write_bytes(kept[:500])
    with pytest.raises(DataSetError, match="download it again"):
        load_public(tmp_path)
    lost.write_bytes(kept)
    (tmp_path / "tray.json").write_text('{"corners": [[0, 0]]}')
    with pytest.raises(DataSetError, match="four corners"):
        load_public(tmp_path)
    (tmp_path / "metadata.csv").write_text("terrain_id,yaw\n3,0.1\n")
    (tmp_path / "tray.json").write_text(json.dumps({"corners": CORNERS.tolist()}))
    with pytest.raises(DataSetError, match="sample_index"):
        load_public(tmp_path)
