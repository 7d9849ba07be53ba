"""A glove's calibration: its file, what it refuses, and the procedure that makes it."""

import numpy as np
import pytest
import yaml

from sim_core.telepresence.hand.calibration import CalibrationError, GloveCalibration
from sim_core.telepresence.hand.poses import CALIBRATION_POSES
from sim_core.telepresence.hand.procedure import GloveProcedure, Timing
from sim_core.telepresence.hand.synthetic_operator import CHANNELS, SyntheticOperator

RATE = 30.0


@pytest.fixture
def readings():
    operator = SyntheticOperator(1)
    return {pose.name: operator.readings(np.array(pose.angles), 6, 0) for pose in CALIBRATION_POSES}


def test_a_file_gives_back_what_it_was_given(readings, tmp_path):
    path = tmp_path / "ada.yaml"
    GloveCalibration("Ada", readings, "2026-11-24").save(path)
    found = GloveCalibration.load(path)
    assert (found.operator, found.made) == ("Ada", "2026-11-24")
    for name, rows in readings.items():
        assert found.readings[name] == pytest.approx(rows, abs=1e-5)


def test_what_no_calibration_may_hold(readings):
    for change, said in (
        (lambda r: r.pop("key"), "expected readings of 15 poses, found none of key"),
        (lambda r: r.update(wave=r["key"]), "found also wave"),
        (lambda r: r.update(key=r["key"][:, :19]), r"'key': expected rows of 20 angles, found the shape \(6, 19\)"),
        (lambda r: r.update(key=r["key"][:0]), "'key': expected rows of 20 angles"),
        (lambda r: r.update(key=np.where(r["key"] > 0.5, np.nan, r["key"])), "'key': expected angles within 10"),
        (lambda r: r.update(key=r["key"] + 50.0), "'key': expected angles within 10"),
    ):
        broken = dict(readings)
        change(broken)
        with pytest.raises(CalibrationError, match=said):
            GloveCalibration("Ada", broken)


def test_a_glove_that_does_not_move_is_named_by_its_channel(readings):
    rng = np.random.default_rng(0)
    for rows in readings.values():
        rows[:, 6] = 0.3 + 1e-3 * rng.standard_normal(len(rows))
    with pytest.raises(
        CalibrationError, match=rf"channel 6 \({CHANNELS[6]}\) of the glove differs by less than 0.01 rad"
    ):
        GloveCalibration("Ada", readings)


def test_a_file_that_is_none_is_refused_in_a_sentence(readings, tmp_path):
    path = tmp_path / "ada.yaml"
    with pytest.raises(CalibrationError, match="ada.yaml: cannot be read"):
        GloveCalibration.load(path)
    GloveCalibration("Ada", readings).save(path)
    document = yaml.safe_load(path.read_text())
    for change, said in (
        (lambda d: d.update(version=9), "version: expected"),
        (lambda d: d.pop("operator"), "operator is missing"),
        (lambda d: d["poses"]["key"][0].pop(), "'key': expected rows of 20 angles, found rows of several lengths"),
        (lambda d: d["poses"].pop("key"), "found none of key"),
        (lambda d: d["poses"]["key"][0].__setitem__(3, float("nan")), "poses.key"),
    ):
        broken = yaml.safe_load(yaml.safe_dump(document))
        change(broken)
        path.write_text(yaml.safe_dump(broken))
        with pytest.raises(CalibrationError, match=said) as refusal:
            GloveCalibration.load(path)
        assert str(path) in str(refusal.value)
    path.write_text("poses: [")
    with pytest.raises(CalibrationError, match="is not YAML near line"):
        GloveCalibration.load(path)


class Person:
    """Takes each pose as it is shown, and rests in it."""

    def __init__(self):
        self.operator, self.procedure, self.now = SyntheticOperator(2), GloveProcedure("Ada", 0.0), 0.0

    def glove(self):
        return self.operator.readings(np.array(self.procedure.pose.angles), 1, 0)[0]

    def run(self, seconds, glove=None):
        end = self.now + seconds
        while self.now < end - 1e-9 and not self.procedure.ended:
            self.procedure.hear((glove or self.glove)(), self.now)
            self.now += 1.0 / RATE
        return self.procedure


def test_fifteen_poses_are_done_in_less_than_seven_minutes():
    person, prompts = Person(), set()
    while not person.procedure.ended:
        prompts.add(person.procedure.prompt)
        person.run(0.5)
    procedure = person.procedure
    assert procedure.failure == "" and procedure.calibration.operator == "Ada"
    assert len(prompts) == 15 and any("Only index and thumb matter." in prompt for prompt in prompts)
    assert person.now == pytest.approx(15 * (Timing().taking + Timing().rest), abs=3.0)
    assert procedure.prompt == "All 15 poses are done."
    # who takes all the patience that there is still ends in time
    assert 15 * Timing().patience < 420.0


def test_what_is_read_is_the_resting_hand():
    person = Person()
    person.run(5.0)  # has rested for 1 s, then moves
    procedure = person.run(0.2, lambda: person.glove() + 0.5)
    person.run(1.7)
    assert procedure.number == 0
    person.run(0.5)
    assert procedure.number == 1
    rows = procedure.readings["open"]
    assert np.ptp(rows, axis=0).max() < 0.1


def test_a_hand_that_never_rests_fails():
    person = Person()
    procedure = person.run(40.0, lambda: person.glove() + np.sin(7.0 * person.now))
    assert "did not rest for 2 s in the pose 'open' within 25 s" in procedure.failure and procedure.calibration is None
    assert person.now < 26.0


def test_nobody_wears_the_glove():
    person = Person()
    person.run(7.0)
    procedure = person.run(1.5, lambda: None)  # a moment without a reading is no end
    assert not procedure.ended
    person.run(0.1)
    person.run(5.0, lambda: None)
    assert procedure.failure == "Nobody wears a glove: it has said nothing for 2 s." == procedure.prompt


def test_a_dead_channel_fails_at_the_end():
    def dead():
        glove = person.glove()
        glove[3] = 0.1
        return glove

    person = Person()
    procedure = person.run(200.0, dead)
    assert procedure.failure.startswith("The glove cannot be calibrated: channel 3 (index splay)")
