"""Surfaces from synthetic scans whose truth is known, their files, and scans that are bad."""

import numpy as np
import pytest

from sim_core.elastic.rigid_body import sphere
from sim_core.elastic.surface import COLUMNS, Surface, export_cloud, load_surface, save_surface
from sim_core.elastic.surface_builder import Cloud, SurfaceOptions, build_surface

pytestmark = pytest.mark.pure
AXES = np.array([0.09, 0.06, 0.04])
CAMERAS = np.array([[0.0, 0.0, 0.5], [0.35, 0.1, 0.3], [-0.3, 0.25, 0.25]])


def ellipsoid(points):
    """Outward normals at points on it."""
    n = points / AXES**2
    return n / np.linalg.norm(n, axis=1, keepdims=True)


def seen(camera, rng, count=10_000, noise=5e-4, outliers=0.01):
    """What a camera sees of the ellipsoid: what faces it, with noise along the ray, and some points anywhere."""
    on = 2.0 * AXES * sphere(1.0, count).points
    back = camera - on
    back /= np.linalg.norm(back, axis=1, keepdims=True)
    on, back = (a[(ellipsoid(on) * back).sum(1) > 0.05] for a in (on, back))
    points = on + noise * rng.normal(size=(len(on), 1)) * back
    wild = rng.random(len(points)) < outliers
    points[wild] += rng.uniform(0.02, 0.1, (wild.sum(), 3)) * rng.choice([-1.0, 1.0], (wild.sum(), 3))
    colours = np.where(points[:, :1] > 0.0, [0.9, 0.1, 0.1], [0.1, 0.1, 0.9])
    return Cloud(points, colours, camera)


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    return [seen(camera, rng) for camera in CAMERAS]


@pytest.fixture(scope="module")
def built(clouds):
    return build_surface(clouds)


def test_normals_point_out_and_features_have_nine_columns(built):
    surface, quality = built
    truth = ellipsoid(surface.points)
    cosine = (surface.normals * truth).sum(1)
    assert (cosine > 0.0).mean() >= 0.98 and np.median(cosine) > 0.98
    assert surface.features.shape == (len(surface), len(COLUMNS)) == (quality.points, 9)
    assert np.linalg.norm(surface.normals, axis=1) == pytest.approx(np.ones(len(surface)))
    assert (surface.features[:, :3] == surface.points).all() and (surface.features[:, 6:] == surface.normals).all()
    # colours are where they were
    red = surface.colours[:, 0] > 0.5
    assert (red == (surface.points[:, 0] > 0.0))[np.abs(surface.points[:, 0]) > 0.003].all()
    # on the surface, but for what is left of the outliers
    off = np.abs(np.linalg.norm(surface.points / AXES, axis=1) - 1.0) * AXES.min()
    assert np.quantile(off, 0.99) < 2e-3
    assert quality.outward > 0.98 and quality.holes < 0.01 and quality.views == 3 and not quality.complaint


def test_outliers_are_left_out(clouds, built):
    wild = sum(int((np.abs(np.linalg.norm(c.points / AXES, axis=1) - 1.0) > 0.2).sum()) for c in clouds)
    surface, quality = built
    left = int((np.abs(np.linalg.norm(surface.points / AXES, axis=1) - 1.0) > 0.2).sum())
    assert wild > 60 and left < 0.1 * wild and quality.outliers > 0.8 * wild


def test_points_that_were_not_measured_and_those_elsewhere_are_left_out(clouds):
    points = clouds[0].points.copy()
    points[::7] = np.nan
    table = np.concatenate([points, np.random.default_rng(1).uniform(-0.4, 0.4, (5000, 3)) * [1, 1, 0] - [0, 0, 0.1]])
    cloud = Cloud(table, np.full(table.shape, 0.5), CAMERAS[0])
    surface, _ = build_surface([cloud], SurfaceOptions(low=(-0.2, -0.2, -0.05), high=(0.2, 0.2, 0.2)))
    assert surface.points[:, 2].min() > -0.05 and len(surface) > 1000


def test_a_hole_is_measured(clouds):
    surface, whole = build_surface(clouds[:1])
    cut = np.linalg.norm(clouds[0].points[:, :2], axis=1) > 0.03
    holed = Cloud(clouds[0].points[cut], clouds[0].colours[cut], CAMERAS[0])
    _, quality = build_surface([holed])
    flat = np.pi * AXES[0] * AXES[1]
    assert quality.holes - whole.holes == pytest.approx(np.pi * 0.03**2 / flat, rel=0.25)
    assert "were not seen" in quality.complaint
    assert len(surface) > quality.points


def test_cameras_that_are_not_where_they_are_said_to_be_are_noticed(clouds):
    """Views of opposite sides whose cameras are exchanged: normals cannot point to both."""
    rng = np.random.default_rng(2)
    above, below = np.array([0.0, 0.0, 0.5]), np.array([0.05, 0.0, -0.5])
    right = [seen(above, rng), seen(below, rng)]
    wrong = [Cloud(c.points, c.colours, k) for c, k in zip(right, (below, above))]
    assert not build_surface(right)[1].complaint
    inverted, _ = build_surface(wrong)
    assert ((inverted.normals * ellipsoid(inverted.points)).sum(1) < 0.0).mean() > 0.9  # so it goes, if one lies
    # a view from above whose camera is said to be beside: half of what it saw looks away from there
    beside = Cloud(right[0].points, right[0].colours, np.array([0.5, 0.0, 0.0]))
    quality = build_surface([beside, right[0], right[1]])[1]
    assert quality.outward < 0.9 and "where the cameras are said to be" in quality.complaint


def test_a_file_holds_a_surface(tmp_path, built):
    surface, _ = built
    found = load_surface(save_surface(tmp_path / "toy.npz", surface))
    assert (found.features == surface.features).all()
    with pytest.raises(FileNotFoundError, match="expected at"):
        load_surface(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("no surface")
    np.savez(tmp_path / "array.npz", points=np.zeros((3, 3)))
    for name in ("text.npz", "array.npz"):
        with pytest.raises(ValueError, match="holds no surface"):
            load_surface(tmp_path / name)


def test_a_pressed_surface_is_exported_as_a_coloured_cloud(tmp_path, built):
    import trimesh

    surface, _ = built
    pressed = surface.pressed(np.where(surface.points[:, 2] > 0.02, 0.003, 0.0))
    way = ((surface.points - pressed.points) * surface.normals).sum(1)
    assert way == pytest.approx(np.where(surface.points[:, 2] > 0.02, 0.003, 0.0))
    found = trimesh.load(export_cloud(tmp_path / "toy.ply", pressed))
    assert np.asarray(found.vertices) == pytest.approx(pressed.points, abs=1e-6)
    assert np.asarray(found.colors)[:, :3] == pytest.approx(255.0 * pressed.colours, abs=0.51)
    with pytest.raises(ValueError, match="as many displacements"):
        surface.pressed(np.zeros(3))


def test_the_nearest_point_is_found(built):
    surface, _ = built
    assert surface.nearest(surface.points[17] + 1e-6) == 17
    assert (surface.nearest(surface.points[:9]) == np.arange(9)).all()


UP = np.tile([0.0, 0.0, 1.0], (4, 1))
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Surface(CORNERS, CORNERS[:3], UP), "one shape"),
        (lambda: Surface(CORNERS[:2], CORNERS[:2], UP[:2]), "at least three points"),
        (lambda: Surface(CORNERS * np.nan, CORNERS, UP), "point 0"),
        (lambda: Surface(CORNERS, 255.0 * CORNERS, UP), "divide bytes by 255"),
        (lambda: Surface(CORNERS, CORNERS, 2.0 * UP), "unit vectors"),
        (lambda: Cloud(np.zeros((60, 2)), np.zeros((60, 3)), np.zeros(3)), "one shape"),
        (lambda: Cloud(np.full((60, 3), np.nan), np.zeros((60, 3)), np.zeros(3)), "this one 0 of 60"),
        (lambda: Cloud(np.zeros((60, 3)), np.zeros((60, 3)), np.zeros(2)), "at a place"),
        (lambda: build_surface([]), "at least one cloud"),
        (lambda: build_surface([Cloud(np.eye(3).repeat(30, 0), np.zeros((90, 3)), UP[0])]), "leave 3"),
        (lambda: SurfaceOptions(voxel=-1.0), "voxel"),
        (lambda: SurfaceOptions(neighbours=2), "normal by 3"),
        (lambda: SurfaceOptions(outlier_deviations=0.0), "above 0"),
    ],
)
def test_what_is_no_surface_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_space_without_the_object_is_noticed(clouds):
    with pytest.raises(ValueError, match="only 0 lie in the object's space"):
        build_surface(clouds, SurfaceOptions(low=(1.0, 1.0, 1.0)))
