"""The network that sees a scoop."""

import numpy as np
import pytest
import torch

from sim_core.meta.model import MeanModel
from sim_core.meta.tasks import Rows
from sim_core.scooping.learning.network import ScoopExtractor, flipped

pytestmark = pytest.mark.pure
rng = np.random.default_rng(0)


@pytest.mark.parametrize("crop", [32, 64])
def test_sixteen_pixels_become_one_and_the_numbers_join_behind(crop):
    extractor = ScoopExtractor(crop=crop)
    crops, actions = torch.rand(3, 4, crop, crop), torch.rand(12, 2)
    assert extractor.convolutions(crops).shape == (3, 64, crop // 16, crop // 16)
    encoded = extractor.encode(crops)
    assert encoded.shape == (3, 64)
    rows = Rows.of((crops, actions))
    with torch.no_grad():
        whole = extractor(rows)
        assert whole.shape == (12, extractor.width)
        np.testing.assert_allclose(
            whole, extractor.features(encoded.repeat_interleave(4, 0), actions), rtol=1e-5, atol=1e-6
        )


def test_each_input_counts_and_height_does_so_in_its_own_unit():
    extractor = ScoopExtractor(crop=32)
    crops, actions = torch.rand(1, 4, 32, 32), torch.tensor([[0.05, 0.0]])
    with torch.no_grad():
        base = extractor.features(extractor.encode(crops), actions)
        for channel in range(4):
            other = crops.clone()
            other[:, channel] += 0.05
            assert not torch.allclose(extractor.features(extractor.encode(other), actions), base)
        for other in ([[0.08, 0.0]], [[0.05, 1.0]]):
            assert not torch.allclose(extractor.features(extractor.encode(crops), torch.tensor(other)), base)


def test_mirroring_keeps_the_drag_along_the_rows():
    crops, actions = torch.rand(2, 4, 32, 32), torch.rand(2, 2)
    mirrored, same = flipped((crops, actions))
    np.testing.assert_array_equal(mirrored.numpy(), crops.numpy()[:, :, ::-1])
    assert same is actions
    np.testing.assert_array_equal(flipped((mirrored, actions))[0], crops)


def test_all_actions_of_a_grid_by_their_crops():
    """1,440 crops, each with four depths and two stiffnesses, in the order of the grid."""
    model = MeanModel(ScoopExtractor(crop=32), scale=31.3)
    crops = rng.random((1440, 4, 32, 32), dtype=np.float32)
    numbers = np.tile([[d, b] for d in np.linspace(0.03, 0.08, 4) for b in (0.0, 1.0)], (1440, 1))
    mean, _ = model.predict((model.encode(crops), numbers))
    assert mean.shape == (11520,)
    some = [0, 5, 8, 11519]
    np.testing.assert_allclose(model.predict((crops[[k // 8 for k in some]], numbers[some]))[0], mean[some], rtol=1e-4)


def test_another_crop_is_refused():
    with pytest.raises(ValueError, match="multiple of 16 pixels, found 40"):
        ScoopExtractor(crop=40)
    with pytest.raises(ValueError, match=r"expected crops \(b, 4, 32, 32\), found \(1, 4, 64, 64\)"):
        ScoopExtractor(crop=32).encode(torch.zeros(1, 4, 64, 64))
