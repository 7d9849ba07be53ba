"""Recordings in MCube's format become the arrays that the experiment trains on: the world's own pushes, written and read back."""

import json

import numpy as np
import pytest

from experiments.neuralsim import neuralsim_pushing
from experiments.problems.planar_pushing import PERIOD, TIP_MASS, Field, draw_pushes, push_in_the_world, recorded
from identification import UnusableInput
from recording.mcube_pushes import PushError

LEAD = 0.05  # the tip rests before the push [s]


def write(folder, pushes, poses, impulses, place=(0.3, -0.1)):
    """Files of MCube's format: three clocks, the robot's frame, force of the object on the sensor."""
    rng = np.random.default_rng(2)
    t = PERIOD * np.arange(poses.shape[1])
    folder.mkdir(parents=True)
    for k in range(len(poses)):
        speed = np.linalg.norm(pushes.velocity[k])
        tip = pushes.tip[k] + place + pushes.velocity[k] * t[:, None]
        rates = np.diff(impulses[k], axis=0, prepend=impulses[k, :1]) / PERIOD
        lists = {}
        for name, values in (
            ("object_pose", poses[k] + (*place, 0)),
            ("tip_pose", np.column_stack([tip, 0 * t])),
            ("ft_wrench", -rates),
        ):
            clock = np.r_[-LEAD, np.sort(rng.uniform(-LEAD, t[-1], 300)), t[-1]]
            now = np.maximum(clock, 0.0)
            lists[name] = np.column_stack([1.4e9 + clock] + [np.interp(now, t, column) for column in values.T]).tolist()
        name = f"motion_surface=plywood_shape=rect1_a=0_v={1e3 * speed:.0f}_i={k:.3f}_s=0.500_t=0.000.json"
        (folder / name).write_text(json.dumps(lists))


def test_recordings_become_the_arrays_of_the_world(tmp_path):
    pushes = draw_pushes(18, np.random.default_rng(1))
    poses, impulses = push_in_the_world(pushes, Field(), 0.5, dt=5e-4)
    write(tmp_path / "plywood" / "rect1", pushes, poses, impulses)
    seen = recorded(tmp_path / "plywood", 16, np.random.default_rng(0))
    assert (seen.count, seen.steps, seen.x.shape[2]) == (16, 40, 10)
    for x in seen.x:
        k = int(np.argmin(np.linalg.norm(pushes.velocity - x[0, 8:10], axis=1)))
        # Read from the first tick at which the tip has its speed, within 10 ms of the second one of the world.
        np.testing.assert_allclose(x[0, 8:10], pushes.velocity[k], atol=2e-4)
        moved, true = x[-1, :3] - x[0, :3], poses[k, 41] - poses[k, 1]
        np.testing.assert_allclose(moved[:2], true[:2], atol=1.5e-3)
        turn = (moved[2] - true[2] + np.pi / 4) % (np.pi / 2) - np.pi / 4
        assert abs(turn) < np.deg2rad(2)
        pushed = -(x[-1, 8:10] - x[0, 8:10]) * TIP_MASS
        np.testing.assert_allclose(pushed, impulses[k, 41] - impulses[k, 1], atol=0.05)
    np.testing.assert_allclose(seen.x[..., :2].reshape(-1, 2).mean(0), 0, atol=1e-12)


def test_too_few_and_mixed_recordings_say_so(tmp_path, monkeypatch):
    pushes = draw_pushes(2, np.random.default_rng(1))
    poses, impulses = np.repeat(pushes.pose[:, None], 51, 1), np.zeros((2, 51, 2))
    write(tmp_path / "plywood" / "rect1", pushes, poses, impulses)
    with pytest.raises(PushError, match="expected sixteen pushes of rect1 or more, a=0, v=80 to 120"):
        recorded(tmp_path, 16, np.random.default_rng(0))
    monkeypatch.setenv("REFIT_MCUBE_PUSHES", str(tmp_path / "none"))
    with pytest.raises(UnusableInput, match="REFIT_MCUBE_PUSHES: .*is no folder"):
        neuralsim_pushing.run("quick")
    for path in list((tmp_path / "plywood" / "rect1").iterdir())[:1]:
        path.with_name(path.name.replace("plywood", "abs")).write_text(path.read_text())
    with pytest.raises(PushError, match="expected the pushes of one surface, found abs, plywood"):
        recorded(tmp_path, 16, np.random.default_rng(0))
