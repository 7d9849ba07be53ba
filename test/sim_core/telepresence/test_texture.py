"""Texture from depth pictures: closed forms, invariance to where the camera stands, what is learnt, and cues."""

import json
from itertools import combinations

import numpy as np
import pytest

from config.share import shared_folder
from sim_core.telepresence.texture.__main__ import SEEDS, sample
from sim_core.telepresence.texture.cues import SAMPLE_RATE, cue_of, just_noticeable, sound_levels
from sim_core.telepresence.texture.depth_pictures import depth_pictures, surface_view, true_depth
from sim_core.telepresence.texture.height_map import NEAREST, ScanError, height_map
from sim_core.telepresence.texture.recognition import features, known_surfaces
from sim_core.telepresence.texture.scans import PART, K, random_scan, true_heights
from sim_core.telepresence.texture.spectrum import FLOOR, texture_of_heights, texture_of_map
from sim_core.telepresence.texture.surfaces import HARMONIC, KINDS, sinusoid, texture_surface

A = 0.0008
PLANE = sinusoid(0.0, 100.0)


def scanned(surface, distance=0.3, tilt=0.0, towards=0.3, turn=0.0, pictures=10, step=1e-3, seed=0):
    view, rng = surface_view(distance, tilt, towards, turn), np.random.default_rng(seed)
    return height_map(depth_pictures(surface, view, K, (PART, PART), pictures, rng, step), K)


# ---- surfaces and spectra whose values are known -----------------------------------------------------------------
def test_a_sinusoids_heights():
    line = np.linspace(-0.05, 0.05, 101)
    heights = sinusoid(A, 100.0, 0.0).heights(line, line)
    assert heights == pytest.approx(np.tile(A * np.cos(2.0 * np.pi * 100.0 * line), (101, 1)), abs=1e-12)
    texture = texture_of_heights(heights[:100, :100], 0.001)  # ten whole waves
    assert texture.roughness == pytest.approx(A / np.sqrt(2.0), rel=1e-6)
    assert texture.frequency == pytest.approx(100.0, rel=1e-3)
    assert texture.direction == pytest.approx(1.0, abs=0.01)


def test_power_by_rings_sums_to_the_mean_square():
    heights = np.random.default_rng(1).standard_normal((101, 101))
    texture = texture_of_heights(heights, 0.001)
    disc = np.pi / 4.0  # of the square of wave numbers, what lies within the highest ring
    assert texture.power.sum() == pytest.approx(disc * np.mean(heights**2), rel=0.1)
    assert texture.frequency == 0.0 and texture.direction < 0.1


def test_grooves_have_their_harmonic():
    surface = texture_surface("grooves", 4)
    assert surface.amplitudes[1] / surface.amplitudes[0] == pytest.approx(HARMONIC)
    assert np.std(surface.grid) == pytest.approx(surface.roughness, rel=0.02)


def test_a_rock_is_self_affine():
    """Power per octave falls as k^(-2 H): a quarter turn of 2^(-1.6) between neighbouring octaves."""
    surface = texture_surface("rock", 1)
    k = np.linalg.norm(surface.vectors, axis=1)
    octave = [np.sum(surface.amplitudes[(k >= low) & (k < 2.0 * low)] ** 2) for low in (20.0, 40.0, 80.0)]
    assert octave[1] / octave[0] == pytest.approx(2.0**-1.6, rel=0.1)
    assert octave[2] / octave[1] == pytest.approx(2.0**-1.6, rel=0.1)


def test_pictures_of_a_plane_are_those_of_its_equation():
    X = surface_view(0.3, 0.3, 1.0, 0.5)
    depth = true_depth(PLANE, X, K, (PART, PART))
    v, u = np.mgrid[:PART, :PART]
    rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones(u.shape)], axis=-1)
    expected = (X[:3, 2] @ X[:3, 3]) / (rays @ X[:3, 2])
    assert np.nanmax(np.abs(depth - expected)) < 1e-9


# ---- scans ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("distance", "tilt", "turn"),
    [(0.25, 0.15, 0.0), (0.3, 0.2, 0.0), (0.3, 0.4, 1.1), (0.35, 0.1, 2.5), (0.42, 0.2, 0.7)],
)
def test_a_sinusoid_is_measured_from_anywhere(distance, tilt, turn):
    texture = texture_of_map(scanned(sinusoid(A, 100.0), distance, tilt, 0.3, turn))
    assert texture.roughness == pytest.approx(A / np.sqrt(2.0), rel=0.06)
    assert texture.frequency == pytest.approx(100.0, rel=0.02)
    assert texture.direction > 0.8


def test_seen_face_on_from_near_millimetres_bias_it_by_no_more_than_the_floor():
    """Every crest of 0.8 mm is then told as 1 mm, and little noise smears it."""
    assert texture_of_map(scanned(sinusoid(A, 100.0), 0.25)).roughness == pytest.approx(A / np.sqrt(2.0), abs=FLOOR)


def test_the_map_knows_from_where_it_was_made():
    scan = scanned(PLANE, 0.32, 0.25)
    assert scan.distance == pytest.approx(0.32, abs=5e-4) and scan.tilt == pytest.approx(0.25, abs=5e-3)
    assert scan.heights.shape == (101, 101) and scan.pictures == 10


def test_turned_in_its_plane_a_surface_feels_the_same():
    surface = texture_surface("gravel", 2000)
    one, other = (texture_of_map(scanned(surface, turn=turn)) for turn in (0.0, 1.3))
    assert one.roughness == pytest.approx(other.roughness, rel=0.05)
    assert one.frequency == pytest.approx(other.frequency, rel=0.03)
    assert features(one) == pytest.approx(features(other), abs=0.15)


@pytest.mark.parametrize("distance", [NEAREST + 0.001, 0.3, 0.44])
@pytest.mark.parametrize("tilt", [0.0, 0.02, 0.1])
def test_a_plane_is_as_rough_as_millimetres_leave_it(distance, tilt):
    texture = texture_of_map(scanned(PLANE, distance + 4e-4, tilt))
    assert texture.roughness <= FLOOR and texture.frequency == 0.0
    assert known_surfaces().recognise(texture).name == "smooth"


def test_noise_that_is_none_of_the_surface_is_left_out():
    """Depths that are told as they are: each height is off by 2.5 mm z^2 / sqrt(n), less what is linear between pixels."""
    scan = scanned(PLANE, 0.3, 0.1, step=0.0)
    assert 0.5 < scan.noise / (0.0025 * 0.3**2 / np.sqrt(10)) < 1.05
    assert texture_of_map(scan).roughness < 0.25 * scan.noise
    assert scanned(PLANE, 0.3, 0.1, step=0.0, pictures=40).noise == pytest.approx(0.5 * scan.noise, rel=0.1)


def test_pixels_that_average_flatten_a_wave_as_a_gaussian_does():
    """exp(-2 (pi s k)^2) of its amplitude is left, with s = z / f at a pixel's standard deviation."""
    view, rng = surface_view(0.3), np.random.default_rng(2)
    wave = sinusoid(0.001, 100.0, 0.5)
    texture = texture_of_map(height_map(depth_pictures(wave, view, K, (PART, PART), 20, rng, 0.0, blur=1.5), K))
    left = np.exp(-2.0 * (np.pi * 1.5 * 0.3 / K[0, 0] * 100.0) ** 2)
    assert texture.roughness == pytest.approx(left * 0.001 / np.sqrt(2.0), rel=0.04)


def test_heights_are_those_of_the_surface():
    surface = texture_surface("cobbles", 2001)
    scan = random_scan(surface, np.random.default_rng(5))
    off = scan.measured.heights - true_heights(surface, scan.X_CS, scan.measured)
    assert np.nanstd(off) < 0.00015
    assert (
        np.corrcoef(scan.measured.heights.ravel(), true_heights(surface, scan.X_CS, scan.measured).ravel())[0, 1] > 0.97
    )


def test_what_is_no_flat_surface_is_refused():
    depths = np.full((6, PART, PART), 0.3)
    depths[:, :, PART // 2 :] += 0.03
    with pytest.raises(ScanError, match="no flat surface"):
        height_map(depths, K)
    with pytest.raises(ScanError, match="4 pictures at least, found 3"):
        height_map(depths[:3], K)
    with pytest.raises(ScanError, match="focal lengths"):
        height_map(depths, np.zeros((3, 3)))
    with pytest.raises(ScanError, match="the optical axis is beside them"):
        height_map(depths, K + np.array([[0.0, 0.0, 1000.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))


# ---- kinds and cues ------------------------------------------------------------------------------------------------
def test_the_file_is_what_its_command_writes():
    shipped = json.loads((shared_folder("data/telepresence") / "surfaces.json").read_text())["samples"]
    assert list(shipped) == list(KINDS) and {len(rows) for rows in shipped.values()} == {len(SEEDS)}
    for name in ("gravel", "rock"):
        assert sample(name, 3) == pytest.approx(shipped[name][3], abs=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_surfaces_that_were_not_learnt_are_named(name):
    for seed in (3000, 3001):
        scan = random_scan(texture_surface(name, seed), np.random.default_rng(seed))
        assert known_surfaces().recognise(texture_of_map(scan.measured)).name == name


def test_what_is_far_from_every_kind_is_none():
    told = known_surfaces().recognise(texture_of_map(scanned(sinusoid(0.004, 30.0))))
    assert (told.name, told.certainty) == ("", 0.0)


def test_a_kind_that_does_not_exist():
    with pytest.raises(ValueError, match="expected a surface among smooth, gravel"):
        texture_surface("velvet")


def test_every_kind_has_a_cue_of_its_own():
    cues = {name: cue_of(name, 0.0007, 0.0) for name in KINDS}
    for one, other in combinations(cues.values(), 2):
        assert just_noticeable(one, other) >= 1.0
        assert 0.5 * np.abs(sound_levels(one.sound) - sound_levels(other.sound)).sum() > 0.3
    for name, cue in cues.items():
        assert np.abs(cue.sound).max() <= 1.0 and len(cue.sound) < SAMPLE_RATE and cue.sound[0] == 0.0
        assert np.array_equal(cue.sound, cue_of(name, 0.0007, 0.0).sound)


def test_a_cue_grows_with_the_roughness_and_an_unknown_surface_follows_its_waves():
    assert [cue_of("rock", r, 0.0).amplitude for r in (0.0, 0.0005, 0.002)] == pytest.approx([0.05, 0.5, 1.0])
    assert cue_of("", 0.0005, 100.0).vibration == pytest.approx(120.0)
    assert cue_of("", 0.0005, 0.0).vibration == pytest.approx(30.0)
