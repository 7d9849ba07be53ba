"""Few pokes of a new object: what a learnt model believes then, beside a dense solution, and its file."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from balls import ball, poked

from sim_core.elastic.force_response.clouds import frame_of
from sim_core.elastic.force_response.learned_model import ForceModel, load_force_model
from sim_core.elastic.force_response.network import ForceExtractor
from sim_core.elastic.force_response.training import (
    PAIRS,
    WARP,
    numbers_of,
    pairs_of,
    settings_for,
    task_of,
    train_force_model,
)
from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface
from sim_core.meta.codega import fold_means, folds_of
from sim_core.meta.fitting import Pool, reproducible
from sim_core.meta.model_file import ModelFileError, save_model
from sim_core.meta.settings import TaskFit
from sim_core.meta.tasks import Task

pytestmark = pytest.mark.pure
rng = np.random.default_rng(0)
OBJECTS = [(c, k, *ball(c, k)) for c in range(4) for k in range(2)]
TASKS = [task_of(f"{c}-{k}", f"kind {c}", s, poked(s, law, on, 20, 10 * c + k), 256) for c, k, s, law, on in OBJECTS]
SHORT = settings_for(TASKS, epochs=3)


@pytest.fixture(scope="module")
def model():
    return train_force_model(TASKS, settings=SHORT)


@pytest.fixture(scope="module")
def new():
    """An object of a category that was not learnt from, and its pokes."""
    surface, law, onset = ball(9, 0)
    return surface, poked(surface, law, onset, 30, 5)


def test_a_belief_is_a_dense_solution_of_the_process(model, new):
    """mu = m + k' K^-1 (f - m), var = k - k' K^-1 k, all in double precision from the network's own means and points."""
    surface, pokes = new
    known = ForceModel(model).of(surface)
    belief = known.condition(pokes[:5])
    features, displacement, forces = pairs_of(pokes[:5])
    given = numbers_of(features, displacement, known.frame)
    asked = numbers_of(*pairs_of(pokes[5:])[:2], known.frame)
    with torch.no_grad():
        mean, points = [
            np.concatenate(each)
            for each in zip(
                *(
                    (m.double().numpy(), e[0].numpy())
                    for m, e in (model(model.rows((known.encoded, *n))) for n in (given, asked))
                )
            )
        ]
        kernel, noise = model.kernel, float(model.kernel.noise())
        signal, level, patch = (
            float(each.exp()) ** 2 for each in (kernel.log_signal, kernel.log_level, kernel.log_patch)
        )
    # a poke's place and displacement [radii], then its place and normal once more, each divided by its length
    assert points.shape[1] == 4 + 6
    square = (points[:, None] - points[None]) ** 2
    covariance = signal * np.exp(-0.5 * square[..., :4].sum(2)) + level + patch * np.exp(-0.5 * square[..., 4:].sum(2))
    n = len(forces)
    warp = np.arcsinh(forces / (WARP * model.scale)) / np.arcsinh(1.0 / WARP)
    solved = np.linalg.solve(
        covariance[:n, :n] + noise * np.eye(n), np.column_stack([warp - mean[:n], covariance[:n, n:]])
    )
    middle = mean[n:] + covariance[n:, :n] @ solved[:, 0]
    spread = np.sqrt(signal + level + patch - (covariance[n:, :n] * solved[:, 1:].T).sum(1))
    low, expected, high = (
        model.scale * WARP * np.sinh((middle + s * spread) * np.arcsinh(1.0 / WARP)) for s in (-1.0, 0.0, 1.0)
    )
    deviation = 0.5 * (high - low)
    features = np.repeat([poke.feature for poke in pokes[5:]], PAIRS, axis=0)
    displacement = np.concatenate([poke.displacement for poke in pokes[5:]])
    found = belief.predict_with_deviation(features, displacement)
    np.testing.assert_allclose(found[0], np.maximum(expected, 0.0), atol=1e-6)
    np.testing.assert_allclose(found[1], deviation, atol=1e-6)
    np.testing.assert_array_equal(belief.predict(features, displacement), found[0])


def test_deviation_shrinks_where_it_was_poked_and_is_the_priors_far_away(model, new):
    surface, pokes = new
    known = ForceModel(model).of(surface)
    belief, prior = known.condition(pokes[:1]), known.condition()
    there = np.tile(pokes[0].feature, (PAIRS, 1)), pokes[0].displacement
    assert (belief.predict_with_deviation(*there)[1] < 0.7 * prior.predict_with_deviation(*there)[1]).all()
    far = np.tile(pokes[0].feature, (1, 1)) + [50.0, 0, 0, 0, 0, 0, 0, 0, 0]
    level = model.kernel.log_level.detach().clone()
    try:
        with torch.no_grad():
            model.kernel.log_level.fill_(-20.0)  # what a whole object shares, and a poke tells of wherever
        a, b = (known.condition(each).predict_with_deviation(far, np.array([0.01])) for each in (pokes[:1], ()))
        np.testing.assert_allclose(a, b, atol=1e-6)
    finally:
        with torch.no_grad():
            model.kernel.log_level.copy_(level)


def test_no_force_of_a_held_out_category_reaches_its_folds_mean():
    """Also with the folds that a force model is trained with: one for each category."""
    folds = folds_of(TASKS, SHORT.folds, 0)
    assert sorted(name for fold in folds for name in fold.held_out) == [f"kind {c}" for c in range(4)]
    assert all(len(fold.held_out) == 1 for fold in folds)
    for fold in folds:
        assert {TASKS[k].characteristics for k in fold.kernel} == {fold.held_out}
        assert fold.held_out not in {TASKS[k].characteristics for k in fold.mean}
    other = [
        Task(task.name, task.characteristics, task.inputs, task.values + 5.0 * (k in folds[1].kernel))
        for k, task in enumerate(TASKS)
    ]
    factory = lambda: ForceExtractor("small")
    with reproducible():
        a, b = (fold_means(Pool(tasks, SHORT.scale), folds[:2], factory, SHORT, 0) for tasks in (TASKS, other))
    same = [
        all(torch.equal(x, y) for x, y in zip(one.state_dict().values(), two.state_dict().values()))
        for one, two in zip(a, b)
    ]
    assert same == [False, True]


def test_pokes_tell_of_an_object_whatever_its_place_and_turn(model, new):
    """The prior and what pokes make of it do not change with the place of the object in the world."""
    surface, pokes = new
    away = np.array([0.7, -0.2, 0.4])
    moved = Surface(surface.points + away, surface.colours, surface.normals)
    shift = np.concatenate([away, np.zeros(6)])
    others = [Poke(poke.feature + shift, poke.displacement, poke.force) for poke in pokes]
    d = np.full(len(surface), 0.005)
    one = ForceModel(model).of(surface).condition(pokes[:3]).predict(surface.features, d)
    two = ForceModel(model).of(moved).condition(others[:3]).predict(moved.features, d)
    np.testing.assert_allclose(one, two, atol=2e-3)


def test_longer_pokes_are_reduced_to_eight_pairs(new):
    surface, pokes = new
    frame = frame_of(surface.points)
    poke = pokes[0]
    d = np.linspace(poke.displacement[0], poke.displacement[-1], 500)
    long = Poke(poke.feature, d, 300.0 * d)
    features, displacement, forces = pairs_of([long, pokes[1]])
    numbers, where = numbers_of(features, displacement, frame)
    assert numbers.shape == (2 * PAIRS, 4) and where.shape == (2 * PAIRS, 6)
    np.testing.assert_allclose(1.5 * where[:, 3:], features[:, 6:], atol=1e-6)
    np.testing.assert_allclose(numbers[:PAIRS, 3] * frame.radius, np.linspace(d[0], d[-1], PAIRS), rtol=1e-5)
    np.testing.assert_allclose(forces[:PAIRS], 300.0 * np.linspace(d[0], d[-1], PAIRS), rtol=1e-9)


def test_a_model_comes_back_from_its_file(model, new, tmp_path):
    surface, pokes = new
    path = save_model(tmp_path / "model.safetensors", model)
    assert path.stat().st_size < 2e6
    again = load_force_model(path)
    d = np.full(len(surface), 0.004)
    np.testing.assert_array_equal(
        again.of(surface).condition(pokes[:2]).predict(surface.features, d),
        ForceModel(model).of(surface).condition(pokes[:2]).predict(surface.features, d),
    )
    assert again.meta["deepest"] == pytest.approx(max(float(t.inputs[1][:, 3].max()) for t in TASKS))
    with pytest.raises(FileNotFoundError, match="no model"):
        load_force_model(tmp_path / "nothing.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelFileError, match="train it again"):
        load_force_model(path)


def test_few_pokes_tell_more_than_none():
    """A model that was trained to its end knows unseen objects better after ten pokes than after two, and after two than without any."""
    settings = replace(settings_for(TASKS, epochs=12), kernel=TaskFit(patience=20, epochs=100))
    model, errors = ForceModel(train_force_model(TASKS, settings=settings)), []
    for category in (9, 10, 11):
        surface, law, onset = ball(category, 0)
        known, pokes = model.of(surface), poked(surface, law, onset, 60, 5)
        features, displacement, forces = pairs_of(pokes[30:])
        errors.append([
            np.abs(known.condition(pokes[:k]).predict(features, displacement) - forces).mean() for k in (0, 2, 10)
        ])  # fmt: skip
    none, two, ten = np.mean(errors, axis=0)
    assert ten < 0.9 * two < 0.8 * none


def test_what_is_refused(model, new):
    surface, pokes = new
    with pytest.raises(ValueError, match="method"):
        train_force_model(TASKS, "guessing")
    bad = Poke(pokes[0].feature, pokes[0].displacement, np.full(8, np.nan))
    with pytest.raises(ValueError, match="finite"):
        ForceModel(train_force_model(TASKS[:4], settings=settings_for(TASKS[:4], epochs=1))).of(surface).condition(
            [bad]
        )
