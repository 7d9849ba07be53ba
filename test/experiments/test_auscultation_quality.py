"""The helpers of the quality experiment: errors over bodies, importance, and real hearts from files."""

import wave
from itertools import product

import numpy as np
import pytest

from experiments.auscultation.auscultation_quality import error, importance
from experiments.problems.changed_recordings import errors_when_changed
from experiments.problems.rated_recordings import RatedSet, rated_bodies
from experiments.problems.real_quality import area_under_curve, judged_cinc2016
from sim_core.auscultation.boosted_trees import TreeSettings
from sim_core.auscultation.heart_sound import HeartConfig, heart_sound
from sim_core.auscultation.quality_estimator import QualityEstimator
from sim_core.auscultation.shipped_estimators import shipped_estimator
from sim_core.auscultation.synthetic_recordings import recordings
from sim_core.auscultation.usability import usable


def test_error_of_bodies_that_agree_within_themselves():
    # Eight recordings of a body err alike, so that the number of bodies counts, not that of recordings.
    each = np.array([0.1, 0.2, 0.3, 0.4])
    body = np.repeat(np.arange(4), 8)
    mean, spread = error(each[body], np.zeros(32), body)
    assert mean == pytest.approx(0.25)
    assert spread == pytest.approx(each.std(ddof=1) / 2.0)


def test_only_the_feature_that_decides_is_important():
    rng = np.random.default_rng(0)
    features = rng.uniform(size=(400, 5))
    body = np.repeat(np.arange(50), 8)
    estimator = QualityEstimator.fit("heart", features, features[:, 3], body, (TreeSettings(40, 3, 0.2),))
    data = RatedSet(features, np.zeros((400, 0, 0)), features[:, 3], features[:, 3], body, 0)
    added = importance(estimator, data, 0)
    assert added.argmax() == 3 and added[3] == pytest.approx(1.0 / 3.0, abs=0.05)  # of two uniform numbers
    assert np.abs(np.delete(added, 3)).max() < 0.02


def test_rated_bodies_are_those_that_were_asked_for():
    advanced = []
    found = rated_bodies([7], None, lambda: advanced.append(1))
    for structure, width in (("heart", 5), ("lung", 20)):
        one = found[structure]
        assert len(one.truth) + one.refused == 8 and set(one.body) == {7} and one.features.shape[1] == width
        assert np.allclose(32.0 * one.label, np.round(32.0 * one.label))  # means of four marks by 1/8
        assert np.abs(one.label - one.truth).mean() < 0.2
    assert advanced == [1]


def test_area_under_the_curve_by_its_definition():
    rng = np.random.default_rng(1)
    value, good = rng.integers(0, 6, 40).astype(float), rng.uniform(size=40) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a, b in product(value[good], value[~good])]
    assert area_under_curve(value, good) == pytest.approx(np.mean(pairs))


def test_hearts_from_files_are_told_from_noise(tmp_path):
    rng, lines = np.random.default_rng(2), []
    for k in range(6):
        noise = 0.05 * rng.standard_normal(2000 * 12)
        sound = 0.3 * heart_sound(HeartConfig(60.0 + 5.0 * k), "mitral", 12.0, 2000.0, rng)[0] if k < 3 else 0.0
        name = f"a{k:04d}"
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setnchannels(1), file.setsampwidth(2), file.setframerate(2000)
            file.writeframes(
                np.round(32767 * np.clip((0.02 if k < 3 else 1.0) * noise + sound, -1, 1)).astype("<i2").tobytes()
            )
        (tmp_path / f"{name}.hea").write_text(f"{name} 1 2000 24000\n{name}.wav 16+44 1 16 0 0 0 0 PCG\n")
        lines.append(f"{name},-1,{int(k < 3)}\n")
    (tmp_path / "REFERENCE_withSQI.csv").write_text("".join(lines))
    found = judged_cinc2016(tmp_path, [shipped_estimator("heart", kind) for kind in ("trees", "network")])
    assert (found["good"], found["poor"], found["refused"]) == (3, 3, 0)
    assert found["areas"] == [1.0, 1.0]
    (tmp_path / "REFERENCE_withSQI.csv").write_text("".join(lines[:3]))
    with pytest.raises(ValueError, match="expected good and poor recordings"):
        judged_cinc2016(tmp_path, [])


def test_changed_recordings_are_changed():
    class Listener:
        structure = "heart"

        def __init__(self):
            self.heard = []

        def predict(self, sound, rate):
            self.heard.append((len(sound), rate, np.ptp(sound)))
            if rate == 2000.0:
                usable(sound, 100.0, "heart").require()
            return 0.0

    listener = Listener()
    (found,) = errors_when_changed([listener], [5])
    assert {heard[:2] for heard in listener.heard} == {
        (40_000, 4000),
        (441_000, 44100.0),
        (20_000, 2000.0),
        (20_000, 4000),
    }
    assert found["2 kHz"] is None and found["16 bits"] == found["as learnt from"] == found["44.1 kHz"]
    truth = [one.rating["heart"] for one in recordings(5)]
    assert found["as learnt from"] == pytest.approx(np.mean(truth))
