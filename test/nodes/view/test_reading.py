"""When the live view reads the graph; test/launch/test_view.py has the graph."""

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from nodes.view.view import View


def test_a_picture_that_was_due_as_the_last_one_looked_away_reads_nothing():
    """An executor hands on what a timer has queued, though the timer is destroyed by then."""
    searched, drawn = [], []
    player = SimpleNamespace(refresh=lambda: drawn.append("picture"))
    view = SimpleNamespace(
        _player=player, _timer=None, _readers={}, _searched=0.0, _search=searched.append,
        diagnostics=SimpleNamespace(tick=lambda name: None),
    )  # fmt: skip
    View._draw(view)
    assert not searched and not drawn
    view._timer = object()
    View._draw(view)
    assert len(searched) == len(drawn) == 1
