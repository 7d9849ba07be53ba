"""What all training shares: when to stop and what is kept, changed inputs, one thread."""

import numpy as np
import pytest
import torch
from torch import nn

from sim_core.meta.fitting import Best, augmented, batches, reproducible
from sim_core.meta.settings import Augmentation, MeanFit
from sim_core.meta.tasks import Rows

pytestmark = pytest.mark.pure


def test_training_ends_after_epochs_without_improvement_and_keeps_the_best_weights():
    module = nn.Linear(1, 1, bias=False)
    best = Best(module, patience=2)
    stopped = []
    for epoch, loss in enumerate([3.0, 2.0, 2.5, 1.0, 1.0, 1.5]):
        module.weight.data[:] = epoch
        stopped.append(best.stop(loss))
    assert stopped == [False, False, False, False, False, True]
    assert best.restore() == 1.0 and module.weight.item() == 3.0
    with pytest.raises(ValueError, match="diverged in epoch 7"):
        best.stop(float("nan"))


def test_each_view_changes_with_its_rows_or_stays_with_them():
    """Views (b, 1) hold 1 to b and so do the numbers of their rows; mirrored, both change their sign."""
    views = torch.arange(1.0, 201.0)[:, None]
    rows = Rows.of((views, views.repeat_interleave(3, 0)))
    flips = Augmentation((lambda inputs: tuple(-each for each in inputs),), lambda views, rng: views + 0.25)
    seen = augmented(rows, flips, np.random.default_rng(0), noise=False)
    assert torch.equal(seen.views[seen.which], seen.numbers[0]) and torch.equal(seen.views.abs(), views)
    assert 70 < int((seen.views < 0).sum()) < 130
    noisy = augmented(rows, flips, np.random.default_rng(0), noise=True)
    assert torch.equal(noisy.views, seen.views + 0.25) and torch.equal(noisy.numbers[0], seen.numbers[0])


def test_a_step_sees_few_views_where_it_is_asked_to_and_each_row_once_an_epoch():
    which = torch.arange(10).repeat_interleave(40)
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(400))
    steps = batches(shuffled, which[shuffled], MeanFit(batch=32, views=4), np.random.default_rng(1))
    assert torch.equal(torch.cat(list(steps)).sort().values, torch.arange(400))
    assert max(len(rows) for rows in steps) == 32 and len(steps) == 13
    seen = [set(which[rows].tolist()) for rows in steps]
    assert max(len(views) for views in seen) <= 4 and len(set(map(frozenset, seen))) > 8
    plain = batches(shuffled, which[shuffled], MeanFit(batch=32), np.random.default_rng(1))
    assert torch.equal(torch.cat(list(plain)), shuffled)


def test_training_takes_one_thread_and_gives_the_others_back():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        state = torch.random.get_rng_state()
        with reproducible():
            assert torch.get_num_threads() == 1
            torch.rand(3)
        assert torch.get_num_threads() == 2 and torch.equal(state, torch.random.get_rng_state())
    finally:
        torch.set_num_threads(threads)
