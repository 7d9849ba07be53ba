import numpy as np

from identification.posterior_corner import posterior_corner
from sim_core.inference.posterior.particle_posterior import ParticlePosterior


def test_a_corner_shows_every_pair_or_the_narrowest_quantities():
    rng = np.random.default_rng(0)
    values = rng.normal([1.0, 0.2, 0.0], [0.1, 0.3, 0.01], (50, 3))
    posterior = ParticlePosterior(("mass", "com.z", "damping"), [0, -1, -1], [2, 1, 1], values, np.zeros(50))
    fig, shown = posterior_corner(posterior, truth=[1.0, np.nan, 0.0])
    assert shown == 3 and len(fig.axes) == 9 and len(fig.axes[0].lines) >= 1
    fig, shown = posterior_corner(posterior, most=2)
    assert shown == 2 and [axis.get_xlabel() for axis in fig.axes[-2:]] == ["mass", "damping"]
