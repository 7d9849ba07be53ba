"""Estimators of sound quality: trees and network against other implementations, files, what is shipped."""

import numpy as np
import pytest
from scipy.signal import resample_poly

from config.share import shared_folder
from sim_core.auscultation.boosted_trees import BoostedTrees, TreeSettings, choose_trees, fit_trees, folds_of
from sim_core.auscultation.estimator_file import EstimatorFileError, read_estimator, write_estimator
from sim_core.auscultation.log_mel import BANDS_OF_MEL
from sim_core.auscultation.network_training import TrainingSettings, train_network
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.quality_estimator import FEATURES, QualityEstimator
from sim_core.auscultation.quality_network import KERNEL, LEAST_FRAMES, SHAPES, STRIDES, QualityNetwork, seen_by_network
from sim_core.auscultation.shipped_estimators import FOLDER, shipped_estimator, shipped_path
from sim_core.auscultation.synthetic_recordings import random_recording, recordings
from sim_core.auscultation.usability import UnusableRecording, Verdict, usable

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (1500, 5))


def smooth_and_steep(x):
    return 0.4 + 0.25 * np.sin(3.0 * x[:, 0]) + 0.2 * (x[:, 2] > 0.3) + 0.1 * x[:, 1] * (x[:, 0] > 0.0)


Y = smooth_and_steep(X)
WHOLE = TreeSettings(trees=60, depth=4, rate=0.1, leaf=5, share=1.0, bins=32)


# ---- trees


def test_one_split_is_the_one_that_leaves_least():
    x = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 4.0], [3.0, 5.0], [4.0, 4.0], [5.0, 4.0]])
    y = np.array([0.1, 0.1, 0.1, 0.7, 0.9, 0.8])
    trees = fit_trees(x, y, TreeSettings(trees=1, depth=1, rate=1.0, leaf=1, share=1.0, bins=48))
    assert trees.feature[0, 0] == 0 and 2.0 <= trees.edge[0, 0] < 3.0
    assert trees(x) == pytest.approx([0.1, 0.1, 0.1, 0.8, 0.8, 0.8], abs=1e-6)
    assert trees(np.array([[-9.0, 0.0], [9.0, 0.0]])) == pytest.approx([0.1, 0.8], abs=1e-6)


def test_a_tree_of_depth_two_by_hand():
    trees = BoostedTrees(
        0.5,
        np.array([[1, 0, 0]]),
        np.array([[0.0, 1.0, np.inf]], np.float32),
        np.array([[0.1, 0.2, 0.3, 0.4]], np.float32),
        2,
    )
    assert trees(np.array([[0.5, -1.0], [1.5, -1.0], [9.0, 1.0], [1.0, 0.0]])) == pytest.approx([0.6, 0.7, 0.8, 0.6])


def test_boosting_lowers_the_error_of_what_it_learns_and_stages_end_at_the_prediction():
    trees = fit_trees(X, Y, WHOLE)
    stages = list(trees.stages(X))
    errors = [np.mean((stage - Y) ** 2) for stage in stages]
    assert len(stages) == 60 and (np.diff(errors) <= 1e-12).all()
    assert stages[-1] == pytest.approx(trees(X), abs=1e-6)
    assert trees.value[0].max() <= WHOLE.rate * np.ptp(Y)


def test_trees_are_as_good_as_those_of_another_implementation():
    ensemble = pytest.importorskip("sklearn.ensemble")
    theirs = ensemble.HistGradientBoostingRegressor(
        max_iter=60, learning_rate=0.1, max_depth=4, max_leaf_nodes=None, min_samples_leaf=5, max_bins=32
    )
    fresh = RNG.uniform(-1.0, 1.0, (2000, 5))
    truth = smooth_and_steep(fresh)
    ours = fit_trees(X, Y, WHOLE)(fresh)
    other = theirs.fit(X, Y).predict(fresh)
    assert np.abs(ours - truth).mean() == pytest.approx(np.abs(other - truth).mean(), rel=0.1)
    assert np.abs(ours - other).mean() < 1.2 * np.abs(other - truth).mean() < 0.02


def test_leaves_hold_as_many_rows_as_asked():
    trees = fit_trees(X[:200], Y[:200], TreeSettings(trees=5, depth=6, rate=0.5, leaf=25, share=1.0))
    for tree in range(5):
        _, counts = np.unique(trees._leaves(X[:200], slice(tree, tree + 1)), return_counts=True)
        assert counts.min() >= 25


def test_one_seed_gives_one_forest():
    some = TreeSettings(trees=10, share=0.5)
    first, again, other = (fit_trees(X, Y, some, seed)(X) for seed in (3, 3, 4))
    assert (first == again).all() and (first != other).any()


def test_folds_keep_bodies_together():
    bodies = np.repeat(np.arange(23), 8)
    fold = folds_of(bodies, 5)
    assert all(len(np.unique(fold[bodies == body])) == 1 for body in range(23))
    assert np.unique(fold, return_counts=True)[1].min() >= 4 * 8
    with pytest.raises(ValueError, match="expected 5 groups or more for 5 folds, found 3"):
        folds_of(np.array([1, 1, 2, 3]), 5)


def test_cross_validation_prefers_what_foretells_other_groups():
    # Each group has a level of its own, which a feature gives away: deep trees learn it by heart, in vain.
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 10)
    level = rng.uniform(0.2, 0.8, 30)
    x = np.stack([rng.uniform(size=300), groups + 0.0], 1)
    y = np.clip(level[groups] + 0.2 * (x[:, 0] > 0.5) - 0.1, 0.0, 1.0)
    shallow, deep = TreeSettings(40, 1, 0.1, 5, 1.0), TreeSettings(40, 8, 0.3, 1, 1.0)
    chosen, tried = choose_trees(x, y, groups, [deep, shallow], 5)
    assert chosen.depth == 1 and tried[0][1] > tried[1][1]


@pytest.mark.parametrize(
    "x, y, said",
    [
        (X, Y[:-1], "as many targets"),
        (X[:5], Y[:5], "expected 20 rows or more for leaves of 10, found 5"),
        (np.where(X == X.max(), np.nan, X), Y, "NaN or infinity"),
    ],
)
def test_trees_refuse_what_they_cannot_learn(x, y, said):
    with pytest.raises(ValueError, match=said):
        fit_trees(x, y)
    with pytest.raises(ValueError, match=r"expected finite inputs \(n, 5\), found shape \(1500, 4\)"):
        fit_trees(X, Y, TreeSettings(trees=2))(X[:, :4])


# ---- estimators


def toy(structure="heart"):
    names, _ = FEATURES[structure]
    features = np.random.default_rng(2).uniform(size=(240, len(names)))
    return QualityEstimator.fit(
        structure,
        features,
        np.clip(2.0 * features[:, 0] - 0.5, 0.0, 1.0),
        np.repeat(np.arange(30), 8),
        (TreeSettings(50, 3, 0.2),),
    ), features


def random_network(structure="heart"):
    rng = np.random.default_rng(3)
    arrays = {name: 0.1 * rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    arrays["scale"] = np.abs(arrays["scale"]) + 0.5
    arrays["dense1.bias"] = np.array([0.8], np.float32)
    return QualityNetwork(structure, arrays)


def test_estimates_are_qualities_and_come_back_from_a_file(tmp_path):
    estimator, features = toy()
    wild = np.concatenate([features, 100.0 * features - 50.0])
    found = estimator.predict_features(wild)
    assert found.min() == 0.0 and found.max() == 1.0  # clipped: trees overshoot
    assert estimator.trees(wild).max() > 1.0
    back = QualityEstimator.load(estimator.save(tmp_path / "heart.safetensors"))
    assert (back.predict_features(wild) == found).all() and back.meta["bodies"] == 30


@pytest.mark.parametrize("make", [lambda: toy()[0], random_network], ids=["trees", "network"])
def test_what_cannot_be_judged_has_no_quality(make):
    estimator, noise = make(), 0.1 * np.random.default_rng(4).standard_normal(10 * RATE)
    assert 0.0 <= estimator.predict(noise, RATE) <= 1.0
    for sound, rate, verdict in (
        (0.0 * noise, RATE, Verdict.SILENT),
        (noise[:RATE], RATE, Verdict.TOO_SHORT),
        (np.clip(40.0 * noise, -1.0, 1.0), RATE, Verdict.CLIPPED),
        (np.append(noise, np.nan), RATE, Verdict.NOT_FINITE),
        (noise, 400.0, Verdict.WRONG_RATE),
    ):
        with pytest.raises(UnusableRecording, match=verdict.value) as caught:
            estimator.predict(sound, rate)
        assert caught.value.verdict is verdict


def test_ratings_that_are_none():
    _, features = toy()
    for ratings, said in (
        (np.full(240, 5.0), "from 0 to 1"),
        (np.full(240, np.nan), "from 0 to 1"),
        (np.zeros(3), "a body for each of n"),
    ):
        with pytest.raises(ValueError, match=said):
            QualityEstimator.fit("heart", features, ratings, np.repeat(np.arange(30), 8))


@pytest.mark.parametrize(
    "cls, make", [(QualityEstimator, lambda: toy()[0]), (QualityNetwork, random_network)], ids=["trees", "network"]
)
def test_files_that_are_none(tmp_path, cls, make):
    path = make().save(tmp_path / "one.safetensors")
    content = path.read_bytes()
    kind, version = (b'"version":"1"', b'"version":"2"')
    assert kind in content
    path.write_bytes(content.replace(kind, version))
    with pytest.raises(EstimatorFileError, match="of version 1, found .* of version 2"):
        cls.load(path)
    path.write_bytes(content[:-50])
    with pytest.raises(EstimatorFileError, match="no readable estimator"):
        cls.load(path)
    other = QualityNetwork if cls is QualityEstimator else QualityEstimator
    path.write_bytes(content)
    with pytest.raises(EstimatorFileError, match="expected refit sound quality by"):
        other.load(path)
    with pytest.raises(FileNotFoundError, match="auscultation_quality` fits one"):
        cls.load(tmp_path / "none.safetensors")


def test_files_of_other_arrays(tmp_path):
    network = random_network()
    path = tmp_path / "one.safetensors"
    kind = "refit sound quality by a network"
    write_estimator(path, kind, 1, "heart", {**network.arrays, "shift": np.zeros(3, np.float32)}, {})
    with pytest.raises(EstimatorFileError, match=r"array shift has the shape \(24,\), found \(3,\)"):
        QualityNetwork.load(path)
    write_estimator(path, kind, 1, "heart", {**network.arrays, "shift": np.full(24, np.nan, np.float32)}, {})
    with pytest.raises(EstimatorFileError, match="not finite"):
        QualityNetwork.load(path)
    write_estimator(path, kind, 1, "spleen", network.arrays, {})
    with pytest.raises(EstimatorFileError, match="lacks its structure"):
        QualityNetwork.load(path)
    estimator = toy("lung")[0]
    estimator.save(path)
    structure, arrays, meta = read_estimator(path, "refit sound quality by trees", 1, ("mean",))
    write_estimator(path, "refit sound quality by trees", 1, structure, arrays, {**meta, "features": ["pitch"]})
    with pytest.raises(EstimatorFileError, match="fitted to other features"):
        QualityEstimator.load(path)
    arrays["feature"] = arrays["feature"] + 50
    write_estimator(path, "refit sound quality by trees", 1, structure, arrays, meta)
    with pytest.raises(EstimatorFileError, match="expected features from 0 to 19"):
        QualityEstimator.load(path)


# ---- the network


def test_the_network_is_what_torch_makes_of_it():
    torch = pytest.importorskip("torch")
    network, seen = random_network(), np.random.default_rng(5).standard_normal((BANDS_OF_MEL, 100)).astype(np.float32)
    a = {name: torch.tensor(array) for name, array in network.arrays.items()}
    h = ((torch.tensor(seen) - a["shift"][:, None]) / a["scale"][:, None])[None]
    for k, stride in enumerate(STRIDES):
        h = torch.relu(torch.nn.functional.conv1d(h, a[f"conv{k}.weight"], a[f"conv{k}.bias"], stride))
    pooled = torch.cat([h.mean(-1), h.amax(-1), torch.sqrt(h.var(-1, correction=0) + 1e-6)], 1)
    hidden = torch.relu(torch.nn.functional.linear(pooled, a["dense0.weight"], a["dense0.bias"]))
    expected = torch.nn.functional.linear(hidden, a["dense1.weight"], a["dense1.bias"])
    assert 0.0 < float(expected) < 1.0
    assert network.predict_seen(seen) == pytest.approx(float(expected), abs=1e-5)


def test_the_gain_of_the_microphone_does_not_count():
    sound = 0.1 * np.random.default_rng(6).standard_normal(10 * RATE)
    assert seen_by_network(0.2 * sound) == pytest.approx(seen_by_network(sound), abs=2e-3)


def test_the_shortest_recording_of_the_network():
    network = random_network()
    assert KERNEL == 5 and 0.0 <= network.predict_seen(np.zeros((BANDS_OF_MEL, LEAST_FRAMES))) <= 1.0
    for bad in (np.zeros((BANDS_OF_MEL, LEAST_FRAMES - 1)), np.zeros((3, 100)), np.full((BANDS_OF_MEL, 100), np.nan)):
        with pytest.raises(ValueError, match="expected finite numbers of 24 bands"):
            network.predict_seen(bad)


def test_training_finds_what_decides_and_repeats_itself():
    pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    seen = rng.standard_normal((192, BANDS_OF_MEL, 64)).astype(np.float32)
    ratings = rng.uniform(0.1, 0.9, 192)
    # A quality that lies in one band's spread over time, which a mean over time does not show.
    seen[:, 4] *= (0.2 + 5.0 * ratings)[:, None]
    settings = TrainingSettings(epochs=60, batch=32, dropout=0.0)
    network = train_network("lung", seen[:128], ratings[:128], settings, seed=1)
    found = np.array([network.predict_seen(one) for one in seen[128:]])
    mean = np.abs(ratings[128:] - ratings[:128].mean()).mean()
    assert np.abs(found - ratings[128:]).mean() < 0.6 * mean
    short = TrainingSettings(epochs=1, batch=32)
    first, again = (train_network("lung", seen, ratings, short, seed=1).arrays for _ in range(2))
    assert all((first[name] == again[name]).all() for name in SHAPES)
    with pytest.raises(ValueError, match="expected 32 recordings or more"):
        train_network("lung", seen[:20], ratings[:20], short)
    with pytest.raises(ValueError, match="ratings from 0 to 1"):
        train_network("lung", seen, 2.0 * ratings, short)
    with pytest.raises(ValueError, match="expected spectrograms"):
        train_network("lung", seen[:, :3], ratings, short)


# ---- what is shipped


@pytest.mark.parametrize("kind", ["trees", "network"])
@pytest.mark.parametrize("structure", ["heart", "lung"])
def test_shipped_estimators_say_what_they_said(structure, kind):
    estimator = shipped_estimator(structure, kind)
    probe = estimator.meta["probe"]
    heard = random_recording(probe["body"], probe["number"])
    assert estimator.structure == structure
    assert estimator.predict(heard.sound, heard.rate) == pytest.approx(probe["quality"], abs=2e-3)
    assert shipped_path(structure, kind).stat().st_size < 300_000


@pytest.mark.parametrize("structure", ["heart", "lung"])
def test_shipped_networks_tell_good_recordings_from_bad_ones(structure):
    """Forty recordings of bodies that nobody learnt from; docs/auscultation.md has the errors of many more."""
    said, true = [], []
    for body in range(80_000, 80_005):
        for one in recordings(body):
            if usable(one.sound, RATE, structure):
                said.append(shipped_estimator(structure).predict(one.sound, RATE))
                true.append(one.rating[structure])
    assert np.corrcoef(said, true)[0, 1] > 0.9
    assert np.abs(np.subtract(said, true)).mean() < {"heart": 0.0945, "lung": 0.0733}[structure]


@pytest.mark.parametrize("kind", ["trees", "network"])
@pytest.mark.parametrize("structure", ["heart", "lung"])
def test_the_converters_rate_does_not_count(structure, kind):
    estimator = shipped_estimator(structure, kind)
    heard = random_recording(**{name: estimator.meta["probe"][name] for name in ("body", "number")})
    faster = resample_poly(heard.sound, 44100 // 100, RATE // 100)
    at_once, stereo = (estimator.predict(one, 44100.0) for one in (faster, np.stack([faster, faster], 1)))
    assert at_once == pytest.approx(estimator.predict(heard.sound, RATE), abs=0.05)
    assert stereo == pytest.approx(at_once, abs=1e-6)


def test_the_folder_says_what_is_in_it():
    names = {path.name for path in shared_folder(FOLDER).iterdir()}
    assert names == {"README.md", *(f"{s}_{k}.safetensors" for s in ("heart", "lung") for k in ("trees", "network"))}
