"""Tasks and rows: what is refused, and views that rows share."""

import numpy as np
import pytest
import torch

from sim_core.meta.tasks import Encoded, Rows, Task

pytestmark = pytest.mark.pure
rng = np.random.default_rng(0)


def test_rows_share_views_and_keep_them_when_some_are_taken():
    views, numbers = rng.random((3, 2, 2)), rng.random((12, 1))
    rows = Rows.of((views, numbers))
    assert rows.which.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    some = rows.take(torch.tensor([9, 1, 0]))
    assert len(some.views) == 2
    np.testing.assert_allclose(some.views[some.which].numpy(), views[[2, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(some.numbers[0].numpy(), numbers[[9, 1, 0]], rtol=1e-6)
    both = Rows.joined([rows, some])
    np.testing.assert_allclose(both.views[both.which][-3:].numpy(), views[[2, 0, 0]], rtol=1e-6)
    encoded = Rows.of((Encoded((torch.arange(3.0)[:, None],)), numbers)).take(torch.tensor([9, 1]))
    assert encoded.views.parts[0][encoded.which].flatten().tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    "taken, shown", [([4, 0], [1, 0]), ([0, 2, 4, 5], [0, 1]), ([0, 1, 4], [0, 0, 1]), ([3, 0, 4], [1, 0, 1]), ([], [])]
)
def test_a_task_gives_some_rows_that_share_views_where_they_can(taken, shown):
    views, numbers, values = rng.random((2, 5)), rng.random((6, 1)), rng.random(6)
    (seen, number), value = Task("t", ("a",), (views, numbers), values).take(taken)
    np.testing.assert_allclose(seen.numpy(), views[shown], rtol=1e-6)
    np.testing.assert_allclose(number.numpy(), numbers[taken], rtol=1e-6)
    np.testing.assert_allclose(value.numpy(), values[taken], rtol=1e-6)


@pytest.mark.parametrize(
    "characteristics, inputs, values, message",
    [
        ((), (np.ones((2, 1)),), np.ones(2), "one characteristic"),
        ("sand", (np.ones((2, 1)),), np.ones(2), "tuple of one characteristic"),
        (("a",), (), np.empty(0), "tuple of views and numbers"),
        (("a",), (np.ones((2, 1)), np.ones((3, 1))), np.ones(3), "multiple of the 2 views, found .3"),
        (("a",), (np.ones((2, 1)), np.ones((2, 1)), np.ones((4, 1))), np.ones(2), "of one count"),
        (("a",), (np.ones((2, 1)),), np.ones(3), r"values \(2,\), found \(3,\)"),
        (("a",), (np.full((2, 1), np.nan),), np.ones(2), "finite views"),
        (("a",), (np.ones((2, 1)), np.full((2, 1), np.inf)), np.ones(2), "finite numbers"),
        (("a",), (np.ones((2, 1)),), np.array([1.0, np.nan]), "finite values"),
    ],
)
def test_refusals(characteristics, inputs, values, message):
    with pytest.raises(ValueError, match=message):
        Task("t", characteristics, inputs, values)
