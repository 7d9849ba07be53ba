"""Each step of the training does what the method says, and the outcome is calibrated where the joint training is not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from lines import LineExtractor, in_patches, lines
from safetensors import safe_open

from sim_core.meta.codega import Entry, _seen, fit_kernel, fold_means, folds_of, residual_entries, train_codega
from sim_core.meta.fitting import Pool, reproducible
from sim_core.meta.joint import new_deep_gp, train_joint
from sim_core.meta.model_file import ModelFileError, load_model, save_model
from sim_core.meta.neural_process import train_neural_process
from sim_core.meta.settings import Augmentation, FoldSettings, MeanFit, MetaSettings, ProcessFit, TaskFit
from sim_core.meta.supervised import train_mean
from sim_core.meta.tasks import Task

pytestmark = pytest.mark.pure


def mirrored(inputs):
    """The last three nuisances with the other sign."""
    views, *numbers = inputs
    return (torch.cat([views[:, :-3], -views[:, -3:]], 1), *numbers)


TASKS = lines(range(6), 2, 12, seed=1)
UNSEEN = lines(range(100, 120), 1, 60, seed=2)
SHORT = MetaSettings(
    scale=2.0,
    augmentation=Augmentation(
        (mirrored,), lambda views, rng: views + torch.from_numpy(0.01 * rng.normal(size=views.shape)).float()
    ),
    folds=FoldSettings(3),
    mean=MeanFit(epochs=3),
    kernel=TaskFit(epochs=3),
    joint=TaskFit(epochs=3),
    process=ProcessFit(epochs=3, validation=3),
)


@pytest.fixture(scope="module")
def steps():
    """The steps by hand: pool, folds, their means, entries, and the kernel before and after its training."""
    with reproducible():
        pool = Pool(TASKS, SHORT.scale)
        folds = folds_of(TASKS, SHORT.folds, 5)
        means = fold_means(pool, folds, LineExtractor, SHORT, 5)
        entries = residual_entries(pool, folds, means, SHORT)
        model = new_deep_gp(LineExtractor, SHORT, 5)
    return pool, folds, means, entries, model


def test_no_value_that_a_fold_holds_out_reaches_its_mean(steps):
    _, folds, means, _, _ = steps
    other = [
        Task(task.name, task.characteristics, task.inputs, task.values + 7.0 * (k in folds[0].kernel))
        for k, task in enumerate(TASKS)
    ]
    with reproducible():
        again = fold_means(Pool(other, SHORT.scale), folds, LineExtractor, SHORT, 5)
    same = [
        all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values()))
        for one, two in zip(means, again)
    ]
    assert same == [True, False, False]


def test_entries_hold_what_the_folds_own_mean_leaves_by_the_folds_own_extractor(steps):
    pool, folds, means, entries, _ = steps
    assert [(entry.fold, entry.task) for entry in entries] == [
        (k, t) for k, fold in enumerate(folds) for t in fold.kernel
    ]
    for entry in entries:
        task, mean = TASKS[entry.task], means[entry.fold]
        np.testing.assert_allclose(
            SHORT.scale * entry.residuals.numpy(),
            task.values.numpy() - mean.predict(task.inputs)[0],
            rtol=1e-5,
            atol=1e-5,
        )
        with torch.no_grad():
            for inputs, found in zip((task.inputs, mirrored(task.inputs)), entry.features):
                assert torch.allclose(found, mean.extractor.features(mean.extractor.encode(inputs[0]), inputs[1]))
                other = means[entry.fold - 1].extractor
                assert not torch.allclose(found, other.features(other.encode(inputs[0]), inputs[1]), atol=1e-3)


def test_the_kernels_step_trains_the_kernel_alone(steps):
    pool, _, means, entries, model = steps
    for part in (*means, model):
        part.zero_grad(set_to_none=True)
    before = [{name: value.clone() for name, value in part.state_dict().items()} for part in (*means, model)]
    with reproducible():
        fit_kernel(model, entries, pool, SHORT, 5)
    touched = {name for name, value in model.named_parameters() if value.grad is not None}
    assert touched == {name for name, _ in model.named_parameters() if name.startswith("kernel.")}
    assert all(value.grad is None for mean in means for value in mean.parameters())
    after = [part.state_dict() for part in (*means, model)]
    changed = {
        (k, name) for k, (a, b) in enumerate(zip(before, after)) for name in a if not torch.equal(a[name], b[name])
    }
    assert changed == {(len(means), name) for name in touched}


def test_rows_of_one_view_are_mirrored_together(steps):
    """Places of one object that were mirrored one by one would have no distance from each other that means anything."""
    _, _, _, _, model = steps
    task = Task("two views", ("a",), (np.zeros((2, 18)), np.zeros((20, 1))), np.zeros(20))
    pool = Pool([task], 1.0)
    variants = torch.arange(4.0)[:, None, None].expand(4, 20, 3)
    seen, rng = set(), np.random.default_rng(0)
    for _ in range(40):
        found = _seen(model, Entry(0, 0, torch.zeros(20), variants), pool, SHORT, rng)[:, 0]
        assert len(found[:10].unique()) == len(found[10:].unique()) == 1
        seen.add((int(found[0]), int(found[10])))
    assert len(seen) > 10


def test_a_step_of_the_kernel_sees_so_many_rows_as_it_is_asked_to(steps, monkeypatch):
    pool, _, _, entries, _ = steps
    seen = []
    for rows in (0, 5, 50):
        model = new_deep_gp(LineExtractor, SHORT, 5)
        nlml = model.kernel.nlml
        monkeypatch.setattr(
            model.kernel, "nlml", lambda e, r, nlml=nlml: seen.append((e.shape[1], len(r))) or nlml(e, r)
        )
        with reproducible():
            fit_kernel(model, entries, pool, replace(SHORT, kernel=TaskFit(epochs=1, rows=rows)), 5)
    n = len(entries)
    assert seen[:n] == seen[2 * n :] == [(12, 12)] * n and seen[n : 2 * n] == [(5, 5)] * n


def test_the_whole_is_its_steps_and_the_last_mean_leaves_the_kernel_as_it_is():
    with reproducible():
        pool, folds = Pool(TASKS, SHORT.scale), folds_of(TASKS, SHORT.folds, 5)
        means = fold_means(pool, folds, LineExtractor, SHORT, 5)
        by_steps = new_deep_gp(LineExtractor, SHORT, 5)
        fit_kernel(by_steps, residual_entries(pool, folds, means, SHORT), pool, SHORT, 5)
    whole, last = train_codega(TASKS, LineExtractor, SHORT, 5), train_mean(TASKS, LineExtractor, SHORT, 5)
    assert equal(whole.kernel, by_steps.kernel)
    assert equal(whole.extractor, last.extractor) and equal(whole.mean_head, last.mean_head)
    assert not any(equal(whole.extractor, mean.extractor) for mean in means)


def equal(one, two):
    a, b = one.state_dict(), two.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_starts_and_ways_of_the_kernel(steps):
    """From other seeds the folds begin apart; shared, near one; the folds' extractors are deployed where asked for."""
    _, folds, means, _, _ = steps
    frozen = replace(SHORT, mean=MeanFit(rate=0.0, epochs=1))
    with reproducible():
        pool = Pool(TASKS, SHORT.scale)
        same = fold_means(pool, folds, LineExtractor, frozen, 5)
        apart = fold_means(pool, folds, LineExtractor, replace(frozen, folds=FoldSettings(3, start="seeds")), 5)
        shared = fold_means(pool, folds, LineExtractor, frozen, 5, shared=means[1])
    assert equal(same[0], same[1]) and not equal(apart[0].extractor, apart[1].extractor)
    assert all(equal(each.extractor, means[1].extractor) for each in shared)
    deployed = train_codega(TASKS, LineExtractor, replace(SHORT, kernel_input="folds"), 5)
    assert [equal(a, b.extractor) for a, b in zip(deployed.branches, means, strict=True)] == [True] * 3
    own = train_codega(TASKS, LineExtractor, replace(SHORT, kernel_input="branch"), 5, held_out=UNSEEN[:2])
    assert len(own.branches) == 1 and not equal(own.branches[0], own.extractor)
    assert own.meta["nlml_fold"] == pytest.approx(own.meta["nlml_final"]), "a branch is the same in folds and deployed"
    assert set(own.meta) >= {"unseen_fold", "unseen_final"}


TRAININGS = {"codega": train_codega, "joint": train_joint, "neural process": train_neural_process, "mean": train_mean}


@pytest.mark.parametrize("method", TRAININGS)
def test_the_same_seed_gives_the_same_model_and_its_file_the_same_predictions(method, tmp_path):
    state = torch.random.get_rng_state()
    one, two, other = (TRAININGS[method](TASKS, LineExtractor, SHORT, seed) for seed in (3, 3, 4))
    assert torch.equal(state, torch.random.get_rng_state())
    assert equal(one, two) and not equal(one, other)
    read = load_model(save_model(tmp_path / "model.safetensors", one), LineExtractor)
    assert type(read) is type(one) and read.meta == one.meta
    support = TASKS[0].take(range(5))
    for a, b in zip(
        read.condition(*support).predict(UNSEEN[0].inputs), one.condition(*support).predict(UNSEEN[0].inputs)
    ):
        np.testing.assert_array_equal(a, b)


def test_files_that_are_something_else_are_refused(tmp_path):
    path = save_model(tmp_path / "model", train_codega(TASKS, LineExtractor, replace(SHORT, kernel_input="folds"), 0))
    assert len(load_model(path, LineExtractor).branches) == 3
    with pytest.raises(ModelFileError, match="it needs the extractor .*32.*, found .*16"):
        load_model(path, lambda: LineExtractor(width=16))
    with pytest.raises(FileNotFoundError, match="train one"):
        load_model(tmp_path / "none", LineExtractor)
    (tmp_path / "torn").write_bytes(path.read_bytes()[:900])
    with pytest.raises(ModelFileError, match="no readable model"):
        load_model(tmp_path / "torn", LineExtractor)


def test_a_file_whose_arrays_are_others_is_refused_in_one_line(tmp_path):
    """As a file from before a kernel of numbers had lengths in place of a network."""
    from safetensors.torch import save_file

    path = save_model(tmp_path / "model.safetensors", train_codega(TASKS, LineExtractor, SHORT, 5))
    with safe_open(path, framework="pt") as file:
        header, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    save_file({name.replace("kernel.head.0", "kernel.head.lengths"): a for name, a in arrays.items()}, path, header)
    with pytest.raises(ModelFileError, match="earlier version.*kernel.head.lengths.*train it again") as refused:
        load_model(path, LineExtractor)
    assert "\n" not in str(refused.value)


def test_training_refuses_what_it_cannot_learn_from():
    with pytest.raises(ValueError, match="more than 6 tasks"):
        train_neural_process(TASKS[:5], LineExtractor)
    with pytest.raises(ValueError, match="one task or more"):
        train_mean([], LineExtractor)
    odd = Task("odd", ("x",), (np.ones((3, 15)), np.ones((3, 2))), np.ones(3))
    with pytest.raises(ValueError, match="equal shapes"):
        train_joint([*TASKS, odd], LineExtractor)
    with pytest.raises(ValueError, match="diverged.*lower the rate"):
        train_mean(TASKS, LineExtractor, replace(SHORT, mean=MeanFit(rate=1e18)))


def standardised_errors(model, shots):
    """(reading - mean) / deviation of a reading, on tasks of groups that no training saw, after some trials of each."""
    found = []
    for task in UNSEEN:
        belief = model.condition(*task.take(range(shots)))
        queries, values = task.take(range(20, 60))
        mean, std = belief.predict(queries)
        found.append((values.numpy() - mean) / np.hypot(std, belief.noise()))
    return np.concatenate(found)


def test_the_joint_kernel_is_over_confident_and_codegas_is_not():
    """Mean and kernel that are trained together take noise that they memorised for certainty; 95 % intervals show it."""
    tasks = lines(range(8), 2, 40, seed=1)
    codega, joint = train_codega(tasks, LineExtractor, seed=0), train_joint(tasks, LineExtractor, seed=0)
    for shots in (5, 10):
        inside = {model: np.mean(np.abs(standardised_errors(model, shots)) < 1.96) for model in (codega, joint)}
        assert inside[codega] > 0.85 and inside[joint] < 0.65
        errors = standardised_errors(joint, shots)
        assert np.sqrt(np.mean(errors**2)) > 2.0 * np.sqrt(np.mean(standardised_errors(codega, shots) ** 2))


def test_a_kernel_that_knows_of_places_learns_that_tasks_have_patches(tmp_path):
    """Patches that no view tells: twenty trials tell of what lies near them, and a kernel without places knows less of it."""
    tasks = in_patches(lines(range(8), 2, 60, seed=1, noise=0.2), seed=4)
    unseen = in_patches(lines(range(50, 56), 1, 60, seed=2, noise=0.2), seed=5)
    short = replace(SHORT, mean=MeanFit(epochs=20), kernel=TaskFit(epochs=20))
    blind = train_codega(tasks, LineExtractor, short, 0)
    placed = train_codega(tasks, LineExtractor, replace(short, reach=0.5), 0)
    assert placed.places and not blind.places

    def error(model):
        left = []
        for task in unseen:
            (support, values), (queries, truth) = task.take(range(20)), task.take(range(20, 60))
            left.append(model.condition(support, values).predict(queries)[0] - truth.numpy())
        return float(np.sqrt(np.mean(np.square(left))))

    assert error(placed) < 0.85 * error(blind)
    again = load_model(save_model(tmp_path / "placed.safetensors", placed), LineExtractor)
    assert error(again) == error(placed)
    for unplaced in (
        lambda: placed.condition(*lines([60], 1, 9, seed=3)[0].take(range(3))).predict(unseen[0].inputs),
        lambda: placed.condition().predict(lines([60], 1, 9, seed=3)[0].inputs),
        lambda: train_codega(TASKS, LineExtractor, replace(short, reach=0.5), 0),
    ):
        with pytest.raises(ValueError, match="after them places"):
            unplaced()


class Numbered(LineExtractor):
    """Features that end in x itself."""

    def __init__(self):
        super().__init__()
        self.width, self.numbers = 33, 1

    def features(self, encoded, *numbers):
        return torch.cat([super().features(encoded, *numbers), *numbers], 1)


def test_a_kernel_of_numbers_sees_nothing_else_and_is_the_same_behind_any_extractor(tmp_path):
    settings = replace(SHORT, kernel_input="numbers")
    model = train_codega(TASKS, Numbered, settings, 5)
    features = torch.rand(1, 7, 33)
    other = torch.cat([torch.rand(1, 7, 32), features[..., 32:]], 2)
    assert torch.equal(model.kernel.embed(features), model.kernel.embed(other))
    lengths = model.kernel.log_length.exp() * model.kernel.head.log_lengths.exp()
    torch.testing.assert_close(model.kernel.embed(features), (features[..., 32:] / lengths).double())
    again = load_model(save_model(tmp_path / "model.safetensors", model), Numbered)
    support = TASKS[0].take(range(5))
    for one, two in zip(model.condition(*support).predict(support[0]), again.condition(*support).predict(support[0])):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="end in its numbers"):
        train_codega(TASKS, LineExtractor, settings, 5)
