"""Records as tasks, and what may change in their crops."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sim_core.scooping.bed.actions import grid, random_actions
from sim_core.scooping.bed.rendering import PIXEL, Picture
from sim_core.scooping.learning.augmentation import BRIGHT, HEIGHT, HUE, jittered
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.learning.dataset import TerrainRecord
from sim_core.scooping.learning.network import flipped
from sim_core.scooping.learning.tasks import scoop_inputs, tasks_of

pytestmark = pytest.mark.pure


def picture(mirrored=False):
    """A scene that is not symmetric, or its mirror image about the tray's x axis."""
    x, y = np.meshgrid((np.arange(360) + 0.5) * PIXEL - 0.45, (np.arange(240) + 0.5) * PIXEL - 0.30)
    y = -y if mirrored else y
    colour = 127.0 * (1.0 + np.stack([np.sin(20.0 * x + 30.0 * y), np.cos(25.0 * y), np.sin(9.0 * x * y)], -1))
    return Picture(colour.astype(np.uint8), (0.1 + 0.1 * x - 0.2 * y).astype(np.float32), np.array([-0.45, -0.30]))


def test_tasks_hold_what_the_records_say():
    some = random_actions(7, np.random.default_rng(0))
    seen = crops(picture(), some, 32)
    record = TerrainRecord(9, "Mixture", ("sand", "corn"), seen, some, np.arange(7) * 1e-6, np.zeros(7, bool))
    (task,) = tasks_of([record], 32)
    assert task.name == "9 Mixture sand + corn" and task.characteristics == ("sand", "corn")
    assert task.values.numpy() == pytest.approx(np.arange(7))
    assert np.array_equal(task.inputs[0].numpy(), seen)
    assert np.allclose(task.inputs[1].numpy(), np.column_stack([some.depth, some.stiff]))
    (half,) = tasks_of([record], 16)
    assert half.inputs[0].shape == (7, 4, 16, 16)
    with pytest.raises(ValueError, match="24 or 48 pixels"):
        tasks_of([record], 24)


def test_shared_views_are_those_of_each_action():
    some = grid((2, 2), yaws=3)
    views, numbers = scoop_inputs(picture(), some, 16, shared=8)
    alone, same = scoop_inputs(picture(), some, 16)
    assert len(views) == 12 and np.array_equal(np.repeat(views, 8, 0), alone) and np.array_equal(numbers, same)


def test_a_flip_is_what_a_mirrored_tray_would_show():
    """So that a flip leaves the volume: the mirrored scoop on the mirrored tray."""
    some = random_actions(5, np.random.default_rng(1))
    other = type(some)(some.place * [1.0, -1.0], -some.yaw, some.depth, some.stiff)
    views = torch.from_numpy(crops(picture(), some, 32))
    mirrored, numbers = flipped((views, torch.from_numpy(some.numbers)))
    assert np.allclose(mirrored.numpy(), crops(picture(mirrored=True), other, 32), atol=0.02)
    assert np.array_equal(numbers.numpy(), some.numbers)


def test_other_light_and_depth_have_their_stated_size():
    rng = np.random.default_rng(2)
    views = torch.full((400, 4, 16, 16), 0.4)
    views[:, 0], views[:, 2] = 0.5, 0.3
    found = jittered(views, rng)
    colour, height = found[:, :3, 0, 0].numpy(), found[:, 3].numpy() - 0.4
    grey = colour.mean(1)
    assert np.std(grey / 0.4) == pytest.approx(BRIGHT, rel=0.15) and np.mean(grey) == pytest.approx(0.4, rel=0.01)
    # In the plane across the greys, (r - b, 2 g - r - b) / sqrt(2), / sqrt(6) turn by the hue's angle.
    u, v = (colour[:, 0] - colour[:, 2]) / 2**0.5, (2 * colour[:, 1] - colour[:, 0] - colour[:, 2]) / 6**0.5
    assert np.std(np.arctan2(v, u)) == pytest.approx(HUE, rel=0.15)
    assert np.hypot(u, v) / grey == pytest.approx(np.full(400, 0.2 / 2**0.5 / 0.4), rel=1e-3)
    steps = np.diff(height, axis=1)
    assert np.std(steps) == pytest.approx(2**0.5 * HEIGHT, rel=0.05)
    same = jittered(views, np.random.default_rng(2))
    assert torch.equal(same, found)
    assert (views == torch.full_like(views, 0.4))[:, 1].all(), "what is given stays as it is"
