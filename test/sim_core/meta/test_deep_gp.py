"""The deep Gaussian process against a dense reference, central differences, and what must hold of any."""

import numpy as np
import pytest
import torch
from lines import LineExtractor, in_patches, lines

from sim_core.meta.deep_gp import DeepGp, Kernel
from sim_core.meta.model import MeanModel, NonAdaptive
from sim_core.meta.neural_process import NeuralProcess

pytestmark = pytest.mark.pure
SCALE = 20.0
(TASK,) = lines([1], 1, 60, seed=0)
(PLACED,) = in_patches([TASK], seed=3)


WAYS = {
    "one": (0, 0.0, 0.0),
    "three branches": (3, 0.0, 0.0),
    "places": (0, 0.4, 0.0),
    "both": (3, 0.4, 0.0),
    "warped": (0, 0.4, 0.3),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def model(request):
    branches, reach, warp = request.param
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        own = [LineExtractor() for _ in range(branches)]
        model = DeepGp(LineExtractor(), scale=SCALE, branches=own, reach=reach, warp=warp)
        with torch.no_grad():
            model.kernel.log_signal += 0.4
            model.kernel.log_length -= 1.5
            model.kernel.log_noise -= 1.0
            if reach:
                model.kernel.log_level += 0.3
                model.kernel.log_patch += 0.6
                model.kernel.log_reach -= 0.5
    return model


@pytest.fixture
def task(model):
    """As the model is told it."""
    return PLACED if model.places else TASK


def dense_reference(model, support, values, queries):
    """Mean and deviation by the textbook's formula with an explicit inverse, from nothing but the networks' outputs."""
    kernel, length = model.kernel, float(model.kernel.log_length.detach().exp())
    signal2, noise2 = float(kernel.log_signal.detach().exp()) ** 2, float(kernel.log_noise.detach().exp()) ** 2 + 1e-6

    def network(inputs):
        with torch.no_grad():
            phi = model.extractor.features(model.extractor.encode(inputs[0]), inputs[1])
            own = [each.features(each.encode(inputs[0]), inputs[1]) for each in model.branches] or [phi]
            return model.mean_head(phi)[:, 0].double().numpy(), [kernel.head(each).double().numpy() for each in own]

    def k(a, b):
        return np.mean(
            [signal2 * np.exp(-((p[:, None] - q[None]) ** 2).sum(2) / (2 * length**2)) for p, q in zip(a, b)], axis=0
        )

    (ms, gs), (mq, gq) = network(support), network(queries)
    within, across, extra = k(gs, gs), k(gq, gs), 0.0
    if model.places:
        level2, patch2, reach = np.exp(
            [
                k * float(each.detach())
                for k, each in ((2, kernel.log_level), (2, kernel.log_patch), (1, kernel.log_reach))
            ]
        )
        at, asked = support[-1].double().numpy(), queries[-1].double().numpy()
        near = lambda a, b: level2 + patch2 * np.exp(-((a[:, None] - b[None]) ** 2).sum(2) / (2 * reach**2))
        within, across, extra = within + near(at, at), across + near(asked, at), level2 + patch2
    inverse = np.linalg.inv(within + noise2 * np.eye(len(ms)))
    w = model.warp.width
    inside = (lambda v: np.arcsinh(v / w) / np.arcsinh(1 / w)) if w else (lambda v: v)
    outside = (lambda y: w * np.sinh(y * np.arcsinh(1 / w))) if w else (lambda y: y)
    mean = inside(mq) + across @ inverse @ (inside(values / SCALE) - inside(ms))
    deviation = np.sqrt(signal2 + extra - np.einsum("ij,jk,ik->i", across, inverse, across))
    return SCALE * outside(mean), SCALE * (outside(mean + deviation) - outside(mean - deviation)) / 2


@pytest.mark.parametrize("n", [1, 5, 20])
def test_conditioning_equals_a_dense_reference(model, task, n):
    support, values = task.take(range(n))
    queries, _ = task.take(range(20, 60))
    mean, std = model.condition(support, values).predict(queries)
    expected_mean, expected_std = dense_reference(model, support, values.double().numpy(), queries)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-5, atol=1e-5)  # predictions are of the order of 20
    np.testing.assert_allclose(std, expected_std, rtol=1e-5)


def test_without_trials_it_believes_the_prior(model, task):
    for belief in (model.condition(), model.condition(task.inputs, np.empty(0))):
        mean, std = belief.predict(task.inputs)
        with torch.no_grad():
            prior, deviation = model(task.rows)[0], model.kernel.variance().sqrt()
        np.testing.assert_allclose(mean, SCALE * model.warp.inverse(prior.double()).numpy(), rtol=1e-6)
        above, below = (model.warp.inverse(prior.double() + s * deviation).detach().numpy() for s in (1, -1))
        np.testing.assert_allclose(std, SCALE * (above - below) / 2, rtol=1e-6)


def test_a_further_trial_never_makes_it_less_certain(model, task):
    """On the scale on which values are normal: of a logarithm, a trial that raises the value raises its deviation as well."""
    w = model.warp.width

    def deviation(n):
        value, std = (each / SCALE for each in model.condition(*task.take(range(n)) if n else ()).predict(task.inputs))
        return np.arcsinh(std / np.sqrt(w**2 + value**2)) / np.arcsinh(1 / w) if w else std

    last = np.full(60, np.inf)
    for n in range(0, 40):
        now = deviation(n)
        assert (now <= last * (1 + 1e-9)).all()
        last = now
    assert last[:40].max() < deviation(0).min()


def test_the_noise_of_a_reading_is_one_of_values(model, task):
    """Near zero values are y times the slope w asinh(1 / w), and without a warp y itself."""
    noise, w = float(model.kernel.noise().detach()) ** 0.5, model.warp.width
    slope = np.arcsinh(1 / w) if w else 1.0
    expected = SCALE * (w * np.sinh(slope * noise) if w else noise)
    assert model.condition(*task.take(range(3))).noise() == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="warp of 0"):
        DeepGp(LineExtractor(), warp=-0.1)


def test_conditioning_changes_no_parameter(model, task):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.condition(*task.take(range(9))).predict(task.inputs)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_nlml_is_the_negative_log_density_of_a_normal_distribution(model, task):
    with torch.no_grad():
        mean, embedded = model(task.rows)
        K = model.kernel.covariance(embedded, embedded) + model.kernel.noise() * torch.eye(60, dtype=torch.float64)
        normal = torch.distributions.MultivariateNormal(mean.double(), K)
        expected = -normal.log_prob(model.warp(task.values.double() / SCALE))
        assert float(model.nlml(task.inputs, task.values)) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("reach", [0.0, 0.7])
@pytest.mark.parametrize("last", [0, 4])
def test_gradient_of_the_nlml_equals_central_differences(reach, last):
    """Every parameter of the kernel and every feature, in double precision, with two rows at the same place."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kernel = Kernel(6, 5, 3, last, reach).double()
        features = torch.randn(2, 12, 6, dtype=torch.float64)
        residuals = torch.randn(12, dtype=torch.float64)
        places = torch.rand(12, 2, dtype=torch.float64)
    features[:, 7], places[7] = features[:, 3], places[3]
    features.requires_grad_()
    loss = lambda: kernel.nlml(kernel.embed(features, places), residuals)
    loss().backward()
    step = 1e-5
    for value in [*kernel.parameters(), features]:
        flat, gradient = value.detach().reshape(-1), value.grad.reshape(-1)
        for k in range(0, len(flat), max(len(flat) // 12, 1)):
            with torch.no_grad():
                flat[k] += step
                above = float(loss())
                flat[k] -= 2 * step
                below = float(loss())
                flat[k] += step
            assert float(gradient[k]) == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("kind", ["deep gp", "mean", "neural process", "non-adaptive"])
def test_views_that_are_shared_or_encoded_beforehand_change_nothing(model, task, kind):
    others = {"mean": MeanModel, "neural process": NeuralProcess}
    face = others[kind](LineExtractor()) if kind in others else NonAdaptive(model) if kind != "deep gp" else model
    # A view for eight rows each, which are at places of their own where these are told.
    views, numbers = task.inputs[0][:5], (torch.linspace(-1, 1, 40)[:, None], *(p[:40] for p in task.inputs[2:]))
    belief = face.condition(*task.take(range(6)))
    expected = belief.predict((views.repeat_interleave(8, 0), *numbers))
    told = [each.numpy() for each in numbers]
    for found in (belief.predict((views, *numbers)), belief.predict((face.encode(views), *told))):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)


def test_non_adaptive_ignores_the_trials(model, task):
    face = NonAdaptive(model)
    found, prior = face.condition(*task.take(range(9))).predict(task.inputs), model.condition().predict(task.inputs)
    np.testing.assert_array_equal(found[0], prior[0])
    np.testing.assert_array_equal(found[1], prior[1])


def test_a_neural_process_without_trials_decodes_the_zero_vector():
    model = NeuralProcess(LineExtractor(), scale=SCALE)
    with torch.no_grad():
        mean, _ = model.decoded(model.extractor(TASK.rows), torch.zeros(model.hidden))
    np.testing.assert_allclose(model.condition().predict(TASK.inputs)[0], SCALE * mean.numpy(), rtol=1e-6)
    inputs, values = TASK.take([3, 1, 2])
    turned = model.condition(tuple(each.flip(0) for each in inputs), values.flip(0)).predict(TASK.inputs)[0]
    np.testing.assert_allclose(turned, model.condition(inputs, values).predict(TASK.inputs)[0], rtol=1e-4)


@pytest.mark.parametrize(
    "inputs, values, message",
    [
        (TASK.inputs, np.ones(3), "inputs of 3 rows, as many as values, found 60"),
        (None, np.ones(3), "inputs of 3 rows, as many as values, found 0"),
        (TASK.inputs, np.full(60, np.nan), "finite values"),
        (TASK.inputs, np.ones((60, 1)), "finite values"),
    ],
)
def test_trials_that_do_not_fit_are_refused(model, inputs, values, message):
    with pytest.raises(ValueError, match=message):
        model.condition(inputs, values)
