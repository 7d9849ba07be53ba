import io

import numpy as np

from reporting.posterior import convergence, corner_plot, likelihood_slice, rollout_bands


def drawn(fig):
    """The figure as PNG, so that everything in it has really been drawn."""
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=40)
    return len(out.getvalue())


def test_corner_marks_truth_and_near_limits():
    values = np.random.default_rng(0).normal([0.95, 0.0], [0.05, 1.0], (80, 2))
    fig = corner_plot(np.minimum(values, [1.0, 9.0]), ["a", "b"], ["kg", ""], [0.0, -9.0], [1.0, 9.0], truth=[0.9, 0.1])
    assert drawn(fig) > 1000
    at = [float(line.get_xdata()[0]) for line in fig.axes[0].lines]
    assert 1.0 in at and 0.9 in at and 0.0 not in at  # the far limit is off the axes


def test_a_collapsed_posterior_can_be_drawn():
    assert drawn(corner_plot(np.ones((10, 2)), ["a", "b"], ["", ""], [0.0, 0.0], [2.0, 2.0])) > 1000


def test_bands_leave_out_what_diverged_and_say_so():
    t, X = np.arange(20) * 0.1, np.random.default_rng(1).normal(size=(30, 20, 2))
    X[3, 10:] = np.nan
    fig = rollout_bands(t, X, X[0], ["q [rad]", "v [rad/s]"], best=2)
    assert drawn(fig) > 1000 and fig.axes[0].get_legend().get_title().get_text() == "1 of 30 roll-outs are not finite"


def test_convergence_and_slices():
    x = np.arange(1, 20)
    fig = convergence(
        {"log p": {"svgd": (x, -1.0 / x), "nuts": (x, -2.0 / x)}, "MMD": {"svgd": (x, 1.0 / x)}}, log=("MMD",)
    )
    assert drawn(fig) > 1000 and fig.axes[1].get_yscale() == "log"
    log_p = -np.add.outer(np.square(np.linspace(-1, 1, 10)), np.square(np.linspace(-1, 1, 12)))
    log_p[0, 0] = -np.inf
    assert (
        drawn(likelihood_slice({"one": log_p}, np.arange(12), np.arange(10), ("x", "y"), (5, 5), {"one": [[5, 4]]}))
        > 1000
    )
