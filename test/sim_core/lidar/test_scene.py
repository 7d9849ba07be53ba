"""Meshes, bodies and materials: closed forms of shapes, and what is refused."""

import math

import numpy as np
import pytest

from sim_core.lidar.material import GLASS, MIRROR, Material
from sim_core.lidar.scene import Body, Mesh, Scene, joined, outline, rotation
from sim_core.lidar.shapes import ball, box, capsule, cylinder, pane, panel, room, stripes
from sim_core.lidar.stand_in import warped

pytestmark = pytest.mark.pure


def test_shapes_enclose_their_volumes_and_normals_point_out():
    assert (box((0.2, 0.3, 0.4), "wall")).volume() == pytest.approx(0.024)
    assert (ball(0.5, "glass", rings=60)).volume() == pytest.approx(4.0 / 3.0 * math.pi * 0.125, rel=5e-3)
    assert (room((2.0, 1.0, 0.5), "wall", ends=True)).volume() == pytest.approx(-1.0)
    assert cylinder(0.2, 0.6, "wall", around=200).volume() == pytest.approx(math.pi * 0.04 * 0.6, rel=1e-3)
    whole = math.pi * 0.04 * 0.6 + 4.0 / 3.0 * math.pi * 0.008
    assert capsule(0.2, 0.6, "wall", rings=80).volume() == pytest.approx(whole, rel=5e-3)
    for round_thing in (cylinder(0.2, 0.6, "wall"), capsule(0.2, 0.6, "wall")):
        assert round_thing.open_edges() == 0 and round_thing.vertices.mean(0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert pane(0.2, 0.3, 0.01, "glass").open_edges() == ball(0.1, "glass").open_edges() == 0
    assert panel(0.2, 0.1, "wall").open_edges() > 0


def test_a_board_alternates_and_is_as_wide_as_its_stripes():
    board = stripes(0.03, 7, 0.2, ("white", "black"))
    assert board.material[::2] == ("white", "black", "white", "black", "white", "black", "white")
    assert np.ptp(board.vertices[:, 1]) == pytest.approx(0.21) and np.allclose(board.normals, [-1.0, 0.0, 0.0])


def test_turns_are_about_fixed_axes_one_after_the_other():
    assert rotation([0.0, 0.0, math.pi / 2]) @ [1, 0, 0] == pytest.approx([0, 1, 0])
    r = rotation([0.3, -0.2, 0.7])
    assert r @ r.T == pytest.approx(np.eye(3)) and np.linalg.det(r) == pytest.approx(1.0)
    assert r == pytest.approx(rotation([0, 0, 0.7]) @ rotation([0, -0.2, 0]) @ rotation([0.3, 0, 0]))


def test_an_outline_leaves_out_diagonals():
    assert len(outline(panel(1.0, 1.0, "wall"))) == 4
    assert len(outline(box((1.0, 1.0, 1.0), "wall"))) == 12


def test_joined_meshes_keep_their_faces_and_warping_keeps_corners_together():
    two = joined([panel(1.0, 1.0, "a"), box((1, 1, 1), "b")])
    assert two.material == ("a",) * 2 + ("b",) * 12 and len(two.vertices) == 12
    moved = warped(Body("box", box((1, 1, 1), "b")), 0.002, seed=1)
    assert moved.mesh.open_edges() == 0
    assert 0.0 < np.abs(moved.mesh.vertices - box((1, 1, 1), "b").vertices).max() <= 0.002


WALL = {"wall": Material(albedo=0.5)}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Mesh.of(np.zeros((3, 3)), [], "wall"), "at least one face"),
        (lambda: Mesh.of([[0, 0, 0], [1, 0, 0], [0, math.nan, 0]], [[0, 1, 2]], "wall"), "vertex 2"),
        (lambda: Mesh.of(np.eye(3), [[0, 1, 3]], "wall"), "found 3"),
        (lambda: Mesh.of(np.eye(3), [[0, 1, 2]], ["a", "b"]), "one material for each"),
        (lambda: Scene((), WALL), "at least one body"),
        (lambda: Scene((Body("a", panel(1, 1, "wall")),) * 2, WALL), "more than once"),
        (lambda: Scene((Body("a", panel(1, 1, "paint")),), WALL), "'paint'"),
        (lambda: Scene((Body("sensor", panel(1, 1, "wall")),), WALL), "not sensor"),
        (lambda: Scene((Body("a", panel(1, 1, "wall"), (0, 0, math.inf, 0, 0, 0)),), WALL), "six finite"),
        (lambda: Scene((Body("a", panel(1, 1, "glass")),), {"glass": GLASS}), "edges are open"),
        (lambda: Scene((Body("a", room((1, 1, 1), "glass", ends=True)),), {"glass": GLASS}), "inside out"),
        (lambda: Material(albedo=1.2), "albedo is between"),
        (lambda: Material(albedo=0.6, transmission=0.6), "at most all light"),
        (lambda: Material(index=0.5), "at least 1"),
        (lambda: Material(index=1.5, reflectivity=0.5), "not by both"),
        (lambda: Material(roughness=math.nan), "roughness"),
        (lambda: panel(0.0, 1.0, "wall"), "positive"),
    ],
)
def test_what_is_no_scene_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_solid_may_touch_what_is_open_as_long_as_its_glass_is_closed():
    mesh = joined([pane(0.2, 0.2, 0.01, "glass"), panel(0.5, 0.5, "wall").moved((0.2, 0, 0, 0, 0, 0))])
    assert Scene((Body("window", mesh),), {"glass": GLASS, **WALL}).body("window").mesh is mesh
    scene = Scene((Body("m", panel(1, 1, "mirror")),), {"mirror": MIRROR})
    assert scene.at({"m": (1, 0, 0, 0, 0, 0)}).body("m").pose[0] == 1
    with pytest.raises(KeyError, match="no body 'n'"):
        scene.at({"n": (1, 0, 0, 0, 0, 0)})
