"""SVGD and CSVGD: known targets, constraints, equality where they must agree, runs that stop and go on."""

import numpy as np
import pytest
from pendulum import dynamics, lengths, noisy, simulated

from sim_core.inference.data.density import Box
from sim_core.inference.samplers import Run, sample
from sim_core.inference.samplers.csvgd import AdamCSVGD
from sim_core.inference.samplers.stein import Adam, bounded, median_bandwidth, stein_direction
from sim_core.inference.samplers.stein_newton import newton_system
from sim_core.inference.samplers.svgd_newton import NewtonCSVGD, NewtonSVGD
from sim_core.inference.shooting.curvature import Curvature
from sim_core.inference.shooting.likelihood import Evaluation, MultipleShooting, SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters

TRUTH = np.array([1.5, 2.0])


class Mixture(Box):
    """Equal Gaussians of std `s` in the unit square."""

    not_finite = 0

    def __init__(self, centres, s):
        super().__init__(("a", "b"), (0, 0), (1, 1))
        self.centres, self.s = np.asarray(centres), s

    def log_p(self, z):
        return self.log_p_and_grad(z)[0]

    def log_p_and_grad(self, z):
        apart = self.centres - z[:, None]
        e = -0.5 * (apart**2).sum(-1) / self.s**2
        total = np.logaddexp.reduce(e, axis=1)
        return total, np.einsum("nk,nki->ni", np.exp(e - total[:, None]), apart) / self.s**2


def pendulum_density(windows=1, truths=(TRUTH,), steps=200, noise=0.02, density=MultipleShooting, **options):
    d = dynamics()
    parameters = lengths(d.model)
    data = simulated(d, parameters, truths, steps=steps)
    return density(
        d,
        parameters,
        noisy(data, noise) if noise else data,
        **({"windows": windows} if density is MultipleShooting else {}),
        **options,
    )


def test_direction_is_the_sum_over_pairs():
    rng = np.random.default_rng(0)
    z, score = rng.random((7, 3)), rng.standard_normal((7, 3))
    phi, h = stein_direction(z, score)
    distances = [np.linalg.norm(z[i] - z[j]) for i in range(7) for j in range(i)]
    assert h == pytest.approx(np.median(np.square(distances)) / np.log(7)) == median_bandwidth(z)
    expected = np.zeros_like(z)
    for i in range(7):
        for j in range(7):
            k = np.exp(-((z[j] - z[i]) ** 2).sum() / h)
            expected[i] += (k * score[j] + 2 / h * (z[i] - z[j]) * k) / 7
    assert np.allclose(phi, expected)


def test_one_enormous_gradient_is_cut_to_a_hundred_medians():
    g = np.random.default_rng(2).standard_normal((9, 3))
    assert bounded(g) is g
    g[4] *= 1e120
    cut = bounded(g)
    assert np.array_equal(cut[:4], g[:4]) and np.linalg.norm(cut[4]) == pytest.approx(
        100 * np.median(np.linalg.norm(g, axis=1))
    )
    assert np.allclose(cut[4] / np.linalg.norm(cut[4]), g[4] / np.linalg.norm(g[4]))


def test_adam_is_the_published_recursion():
    """Kingma & Ba's Alg. 1 with its moments written out as weighted sums over all gradients so far."""
    gradients, ours, x = np.random.default_rng(1).standard_normal((20, 3)), Adam(), np.zeros(3)
    expected = np.zeros(3)
    for t in range(1, 21):
        m, v = (
            sum((1 - b) * b ** (t - k) * g**p for k, g in enumerate(gradients[:t], 1)) / (1 - b**t)
            for b, p in ((0.9, 1), (0.999, 2))
        )
        expected += 0.1 * m / (np.sqrt(v) + 1e-8)
        x = x + ours.step(0.1, gradients[t - 1])[0]
    assert np.allclose(x, expected, rtol=1e-12)


def test_both_modes_are_kept():
    target = Mixture([[0.3, 0.3], [0.7, 0.7]], 0.05)
    z = sample("svgd", target, 100, seed=0).z
    near = np.linalg.norm(z[:, None] - target.centres, axis=-1) < 0.2
    assert (near.mean(0) >= 0.3).all() and (near.mean(0) <= 0.7).all() and near.any(1).all()


def test_a_gaussian_is_met_in_mean_and_spread():
    target = Mixture([[0.4, 0.6]], 0.08)
    z = sample("svgd", target, 100, iterations=1000, seed=0).z
    assert np.allclose(z.mean(0), [0.4, 0.6], atol=0.01) and np.allclose(z.std(0), 0.08, rtol=0.15)


@pytest.mark.parametrize("metric, step", [("adam", 0.005), ("gauss-newton", 0.05)])
def test_csvgd_with_one_window_is_svgd_step_for_step(metric, step):
    """Without defects, and without a particle that meets a limit."""
    d = dynamics()
    parameters = lengths(d.model, (1.0, 2.5))
    density = MultipleShooting(d, parameters, simulated(d, parameters, [[1.7, 1.7]], steps=60), windows=1)
    paths = {"svgd": [], "csvgd": []}
    for method, path in paths.items():
        keep = lambda i, z, log_p: path.append(np.c_[z, log_p])
        sample(method, density, 16, iterations=60, seed=1, step=step, metric=metric, callback=keep)
    path = np.array(paths["svgd"])
    assert 0 < path[..., :2].min() and path[..., :2].max() < 1 and np.abs(path[-1] - path[0])[:, :2].max() > 0.1
    assert np.array_equal(path, paths["csvgd"])


@pytest.mark.parametrize("metric, iterations", [("adam", 1000), ("gauss-newton", 60)])
def test_constraints_hold_in_the_end(metric, iterations):
    """Limits that exclude the truth: no particle beyond by 1 % of the range, no defect above 2 sigma_def."""
    d = dynamics()
    parameters = LimitedParameters(
        d.model,
        {"length1": (0.5, 1.4), "length2": (1.0, 5.0)},
        ties={"length1": {"link1.com.z": -1.0, "link2.pos.z": -1.0}, "length2": {"link2.com.z": -1.0}},
    )
    data = noisy(simulated(d, parameters, [TRUTH], steps=200))
    samples = sample(
        "csvgd", MultipleShooting(d, parameters, data, windows=5), 24, iterations=iterations, seed=0, metric=metric
    )
    assert samples.trace.extra["defect"][-1] < 2.0 < samples.trace.extra["defect"][0]
    assert 0 < samples.trace.extra["violation"][-1] < 0.01
    assert (samples.z >= 0).all() and (samples.z <= 1).all() and np.median(samples.z[:, 0]) > 0.99


def test_multiple_shooting_finds_the_truth_where_single_shooting_gets_stuck():
    within = {}
    for method, windows in (("svgd", 1), ("csvgd", 10)):
        density = pendulum_density(windows, steps=400, noise=0.0)
        theta = density.theta(sample(method, density, 48, iterations=600, seed=0, metric="adam").z)
        within[method] = (np.abs(theta - TRUTH).max(1) < 0.3).mean()
    assert within["csvgd"] >= 0.95 > within["svgd"]


def test_sum_splits_and_product_averages():
    """E2: two trajectories of different lengths."""
    truths = np.array([[1.5, 2.0], [3.0, 1.5]])
    theta = {}
    for combine in ("sum", "product"):
        density = pendulum_density(truths=truths, steps=300, noise=0.0, combine=combine)
        theta[combine] = density.theta(sample("svgd", density, 100, seed=0).z)
    near = np.linalg.norm(theta["sum"][:, None] - truths, axis=-1) < 0.2
    assert (near.mean(0) >= 0.35).all()
    to = lambda point: np.linalg.norm(theta["product"].mean(0) - point)
    assert to(truths.mean(0)) < min(map(to, truths))


def test_the_same_seed_gives_the_same_particles_and_another_others():
    density = pendulum_density(4, steps=40)
    run = lambda seed: sample("csvgd", density, 16, iterations=20, seed=seed).z
    assert np.array_equal(run(5), run(5)) and not np.array_equal(run(5), run(6))


@pytest.mark.parametrize(
    "method, metric, form",
    [
        ("svgd", "adam", None),
        ("csvgd", "adam", "vector"),
        ("csvgd", "adam", "squared"),
        ("csvgd", "gauss-newton", "vector"),
    ],
)
def test_a_run_that_stopped_goes_on_to_the_bit(tmp_path, method, metric, form):
    density = pendulum_density(4, steps=40)
    options = {"iterations": 30, "seed": 1, "metric": metric} | ({"form": form} if form else {})
    whole = sample(method, density, 16, **options)
    file = tmp_path / "run.npz"
    first = sample(method, density, 16, checkpoint=file, callback=lambda i, *_: i == 11, **options)
    assert first.cancelled and len(first.trace.iteration) == 12
    second = sample(method, density, 16, checkpoint=file, **options)
    assert np.array_equal(second.z, whole.z) and np.array_equal(second.log_p, whole.log_p)
    assert (
        np.array_equal(second.trace.mean, whole.trace.mean)
        and second.evaluations - first.evaluations < whole.evaluations
    )
    with pytest.raises(ValueError, match="is of another run .seed 1 there, 2 here"):
        sample(method, density, 16, checkpoint=file, **{**options, "seed": 2})
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match="no readable checkpoint"):
        sample(method, density, 16, checkpoint=file, **options)


def test_csvgd_ends_once_the_middle_particle_rises_no_more_and_goes_on_from_a_file_to_the_same_end(tmp_path):
    density = pendulum_density(windows=5)
    whole = sample("csvgd", density, 20, 200, 0, settled=1.0)
    median = whole.trace.extra["median"]
    assert 10 < len(median) < 200 and not whole.cancelled
    risen = median[10:] - median[:-10]
    assert abs(risen[-1]) < 1.0 and (np.abs(risen[:-1]) >= 1.0).all()
    file = tmp_path / "particles.npz"
    sample("csvgd", density, 20, 200, 0, callback=lambda i, z, log_p: i == 6, settled=1.0, checkpoint=file)
    again = sample("csvgd", density, 20, 200, 0, settled=1.0, checkpoint=file)
    np.testing.assert_array_equal(again.z, whole.z)
    assert len(sample("csvgd", density, 20, 30, 0).trace.best) == 30


def test_particles_without_a_density_do_not_stop_the_others():
    d = dynamics()
    wild = LimitedParameters(d.model, {"joint1.damping": (-300.0, 300.0), "link1.mass": (0.5, 2.0)})
    data = simulated(d, wild, [[0.5, 1.2]], steps=100)
    for method, density in (("svgd", SingleShooting(d, wild, data)), ("csvgd", MultipleShooting(d, wild, data, 4))):
        samples = sample(method, density, 32, iterations=300, seed=0, metric="adam")
        assert samples.not_finite == density.not_finite > 0 and np.isfinite(samples.z).all()
        # How many are brought back hangs on the machine's rounding: sums that overflow. More than there were, in any case.
        begun = sample(method, density, 32, iterations=1, seed=0, metric="adam")
        others = np.isfinite(begun.log_p)
        assert np.isfinite(samples.log_p).sum() > others.sum()
        # Of the others, as what is brought back may be very unlikely yet.
        assert np.median(samples.log_p[others]) > np.median(begun.log_p[others]) + 1000


def test_newton_steps_bring_back_particles_without_a_density():
    d = dynamics()
    wild = LimitedParameters(d.model, {"joint1.damping": (-300.0, 300.0), "link1.mass": (0.5, 2.0)})
    density = MultipleShooting(d, wild, simulated(d, wild, [[0.5, 1.2]], steps=100), 4)
    samples = sample("csvgd", density, 32, iterations=60, seed=0)
    assert samples.not_finite == density.not_finite > 0 and np.isfinite(samples.z).all()
    assert np.isfinite(samples.log_p).sum() >= 24 and (samples.log_p > samples.trace.best[-1] - 20).sum() >= 16


class Ridge(Box):
    """A Gaussian about `mean` with precision A (M, M), which knows its curvature; what `sample` needs of one window."""

    not_finite, windows, starts_shape = 0, 1, (1, 0, 1)

    def __init__(self, mean, A):
        n = len(A)
        super().__init__([f"a{i}" for i in range(n)], np.zeros(n), np.ones(n))
        self.mean, self.A = mean, A

    def log_p(self, z):
        return -0.5 * np.einsum("ni,ij,nj->n", z - self.mean, self.A, z - self.mean)

    def log_p_and_grad(self, z):
        return self.log_p(z), -(z - self.mean) @ self.A

    def evaluate(self, z, starts=None, *_):
        none = np.zeros((len(z), *self.starts_shape))
        return Evaluation(*self.log_p_and_grad(z), none, none, np.zeros_like(z), none)

    def curvature(self, z, starts=None, damping=1.0):
        n = len(self.A)
        return Curvature(np.tile(self.A, (len(z), 1, 1)), np.zeros((len(z), 1, 0, 0)), np.zeros((len(z), 1, 0, n)))


def test_newton_steps_find_a_ridge_in_a_hundred_iterations_and_adam_does_not():
    """Condition 1e4 across the coordinates. In coordinates in which the target is a unit Gaussian: mean within 0.02, every
    variance within 0.8 to 1.1 (the kernel's own bias for 50 particles in 4 dimensions), against Adam's."""
    rng = np.random.default_rng(1)
    V, std = np.linalg.qr(rng.standard_normal((4, 4)))[0], np.geomspace(0.1, 0.001, 4)
    target = Ridge(np.array([0.45, 0.5, 0.55, 0.5]), V / std**2 @ V.T)
    found = {}
    for metric in ("gauss-newton", "adam"):
        white = (sample("svgd", target, 50, iterations=100, seed=0, metric=metric).z - target.mean) @ V / std
        found[metric] = np.abs(white.mean(0)).max(), np.linalg.eigvalsh(np.cov(white.T))
    mean, variances = found["gauss-newton"]
    assert mean < 0.02 and 0.8 < variances.min() and variances.max() < 1.1
    assert found["adam"][1].max() > 10


def test_newton_steps_are_the_same_in_other_linear_coordinates():
    """But for the limits' own curvature, which is made negligible."""
    rng = np.random.default_rng(2)
    z, T = rng.standard_normal((12, 3)), rng.standard_normal((3, 3)) + 2 * np.eye(3)
    F = np.einsum("nij,nkj->nik", J := rng.standard_normal((12, 3, 5)), J) * 1e9
    score = rng.standard_normal((12, 3)) * 1e5
    drive, Q = newton_system(z * 1e-4, score, F)
    step = np.linalg.solve(Q, drive[..., None])[..., 0]
    Ti = np.linalg.inv(T)  # w = z T, d/dw = (d/dz) T^-T
    drive, Q = newton_system(z * 1e-4 @ T, score @ Ti.T, Ti @ F @ Ti.T)
    assert np.allclose(
        np.linalg.solve(Q, drive[..., None])[..., 0], step @ T, rtol=1e-5, atol=1e-6 * np.abs(step).max()
    )


def test_newton_particles_of_a_pendulum_have_the_chains_spread():
    """Windows and all: emcee's long chain on single shooting is the reference."""
    chain = sample("emcee", pendulum_density(1, noise=0.1), 100, iterations=300, seed=0)
    best = chain.z[chain.log_p > chain.log_p.max() - 15]
    found = sample("csvgd", pendulum_density(4, noise=0.1), 40, iterations=80, seed=0)
    assert found.trace.extra["defect"][-1] < 1.0
    z = found.z[found.log_p > found.log_p.max() - 15]
    assert len(z) >= 36 and (np.abs(z.mean(0) - best.mean(0)) < 0.5 * best.std(0)).all()
    assert (z.std(0) > 0.6 * best.std(0)).all() and (z.std(0) < 1.5 * best.std(0)).all()


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"metric": "newton"}, "expected one of adam, gauss-newton, found 'newton'"),
        ({"form": "squared", "metric": "gauss-newton"}, "needs form 'vector'"),
        ({"damping": 0.0}, "needs damping > 0"),
        ({"final_step": 0.01}, "metric 'gauss-newton' has no option final_step; it has step, refresh"),
        ({"metric": "adam", "refresh": 2}, "metric 'adam' has no option refresh; it has step, final_step"),
    ],
)
def test_options_that_a_metric_does_not_have_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        sample("csvgd", pendulum_density(2, steps=20), 8, iterations=2, **wrong)
    with pytest.raises(ValueError, match="needs a density with a curvature"):
        sample("svgd", Mixture([[0.5, 0.5]], 0.1), 10, iterations=2, metric="gauss-newton")


def test_a_solver_is_a_value_with_its_own_settings():
    """`sample` chooses it by name; NewtonSVGD is NewtonCSVGD on one window."""
    density = pendulum_density(1, steps=20)
    run = lambda: Run(density, 8, 3)
    expected = sample("svgd", density, 8, iterations=4, seed=3, metric="gauss-newton", step=0.2).z
    assert np.array_equal(NewtonSVGD(step=0.2)(run(), 4)[0], expected)
    assert np.array_equal(NewtonCSVGD(step=0.2)(run(), 4)[0], expected)
    assert AdamCSVGD() == AdamCSVGD(step=0.02) != AdamCSVGD(form="squared")
    with pytest.raises(ValueError, match="needs one window, found 2"):
        sample("svgd", pendulum_density(2, steps=20), 8, iterations=2, metric="gauss-newton")


def test_csvgd_needs_windows():
    with pytest.raises(
        ValueError, match="needs a density with shooting windows .MultipleShooting., found Mixture; use svgd"
    ):
        sample("csvgd", Mixture([[0.5, 0.5]], 0.1), 10)
