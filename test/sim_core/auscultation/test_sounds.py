"""What a heart and a lung sound like, by their spectra and their events, and what a stethoscope makes of it."""

import numpy as np
import pytest

from sim_core.auscultation.acoustic_field import AcousticField
from sim_core.auscultation.heart_sound import AREAS, HeartConfig, heart_sound, heartbeats, systole
from sim_core.auscultation.lung_sound import LungConfig, lung_sound
from sim_core.auscultation.stethoscope_contact import ContactConditions, coupling, disturbances, through_contact

RATE = 4000.0


def share(sound, band):
    """Of the power that lies within a band [Hz]."""
    power, f = np.abs(np.fft.rfft(sound)) ** 2, np.fft.rfftfreq(len(sound), 1.0 / RATE)
    return power[(f >= band[0]) & (f < band[1])].sum() / power.sum()


@pytest.mark.parametrize("rate", [50.0, 72.0, 110.0])
def test_beats_come_at_their_rate_and_s2_after_the_ejection(rate):
    beats = heartbeats(HeartConfig(rate), 120.0, np.random.default_rng(0))
    assert np.diff(beats.s1).mean() == pytest.approx(60.0 / rate, rel=0.02)
    assert (beats.s2 - beats.s1).mean() == pytest.approx(systole(rate), rel=0.03)
    assert (beats.s1[1:] > beats.s2[:-1]).all()  # a diastole is left
    assert ((0.02 <= beats.split) & (beats.split <= 0.045)).all()


def test_the_tones_lie_where_hearts_sound_and_s2_above_s1():
    sound, beats = heart_sound(HeartConfig(60.0, variability=0.0), "mitral", 20.0, RATE, np.random.default_rng(1))
    assert share(sound, (20.0, 150.0)) > 0.95
    centres = []
    for onsets in (beats.s1, beats.s2):
        cuts = [sound[round(t * RATE) : round((t + 0.1) * RATE)] for t in onsets if 0.0 < t < 19.0]
        power, f = sum(np.abs(np.fft.rfft(cut, 4096)) ** 2 for cut in cuts), np.fft.rfftfreq(4096, 1.0 / RATE)
        centres.append(f @ power / power.sum())
    assert 35.0 < centres[0] < centres[1] < 110.0


def test_s1_is_louder_over_the_apex_and_s2_over_the_base():
    ratio = {}
    for area in AREAS:
        sound, beats = heart_sound(HeartConfig(60.0), area, 20.0, RATE, np.random.default_rng(2))
        loud = [
            np.mean([np.abs(sound[round(t * RATE) : round((t + 0.12) * RATE)]).max() for t in onsets if 0.0 < t < 19.0])
            for onsets in (beats.s1, beats.s2)
        ]
        ratio[area] = loud[0] / loud[1]
    assert ratio["mitral"] > 1.2 and ratio["tricuspid"] > 1.1 and ratio["aortic"] < 0.8 and ratio["pulmonic"] < 1.0


def test_a_murmur_fills_the_systole_and_no_other_area_is_known():
    rng = np.random.default_rng(3)
    calm, _ = heart_sound(HeartConfig(60.0), "aortic", 10.0, RATE, np.random.default_rng(3))
    sick, beats = heart_sound(HeartConfig(60.0, murmur=0.3), "aortic", 10.0, RATE, rng)
    added = sick - calm
    assert share(added, (100.0, 400.0)) > 0.8  # the swelling widens its edges
    t = np.arange(len(added)) / RATE
    inside = np.zeros(len(added), bool)
    for begin, end in zip(beats.s1, beats.s2):
        inside |= (t >= begin) & (t <= end)
    assert np.sum(added[~inside] ** 2) < 1e-12 * np.sum(added**2)
    with pytest.raises(ValueError, match="no valve area 'knee'"):
        heart_sound(HeartConfig(), "knee", 1.0, RATE, rng)
    with pytest.raises(ValueError, match="heart rate of 20"):
        HeartConfig(20.0)


def test_breath_swells_and_lies_above_the_heart():
    sound = lung_sound(LungConfig(), 20.0, RATE, np.random.default_rng(4))
    assert share(sound, (100.0, 1000.0)) > 0.7
    loud = np.sqrt(np.mean(sound[: len(sound) // 400 * 400].reshape(-1, 400) ** 2, axis=1))
    assert np.quantile(loud, 0.9) > 3.0 * np.quantile(loud, 0.1)


def test_force_couples_and_what_is_not_pressed_lets_the_room_in():
    assert coupling(7.0) == pytest.approx(1.0 - np.exp(-4.0)) and coupling(0.0) == 0.0 and coupling(-3.0) == 0.0
    tone = np.sin(2.0 * np.pi * 60.0 * np.arange(8000) / RATE)
    loud = [np.std(through_contact(tone, ContactConditions(force=force), RATE)) for force in (0.0, 1.0, 3.5, 7.0)]
    assert loud[0] == 0.0 and (np.diff(loud) > 0.0).all() and loud[3] == pytest.approx(np.std(tone), rel=0.02)
    rooms = [
        np.std(disturbances(ContactConditions(force=force), 8000, RATE, np.random.default_rng(5))["room"])
        for force in (0.0, 7.0)
    ]
    assert rooms[0] == pytest.approx(0.002, rel=0.1) and rooms[1] == pytest.approx(rooms[0] * (1 - 0.9 * coupling(7.0)))


def test_friction_grows_with_speed_and_none_is_heard_at_rest():
    heard = [
        np.std(disturbances(ContactConditions(speed=speed), 8000, RATE, np.random.default_rng(6))["friction"])
        for speed in (0.0, 0.01, 0.02)
    ]
    assert heard[0] == 0.0 and heard[2] == pytest.approx(2.0 * heard[1])


def test_a_field_falls_away_from_its_landmark_and_is_the_same_again():
    field = AcousticField(seed=3, spots=0.0)
    mark = field.landmarks["heart"]["mitral"]
    away = np.array([0.0, -1.0])
    gains = field.gain("heart", mark + np.array([0.0, 0.02, 0.04, 0.08])[:, None] * away)
    assert gains[0] == pytest.approx(1.0) and (np.diff(gains) < 0.0).all()
    ratios = np.log(gains[1:] / gains[:-1])
    assert ratios[1] == pytest.approx(ratios[0]) and ratios[2] == pytest.approx(2.0 * ratios[0])  # exponential
    first, again, other = (field.listen(mark, duration=2.0, rate=RATE, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.sound, again.sound)
    assert np.abs(first.sound - other.sound).max() > 0.01
    np.testing.assert_allclose(first.sound, np.clip(sum(first.parts.values()), -1.0, 1.0))
    assert AcousticField(side="back").gain("heart", mark) == 0.0


def test_bad_spots_have_their_size():
    field = AcousticField(seed=4, spots=3.0)
    places = np.random.default_rng(7).uniform(-2.0, 2.0, (4000, 2))
    assert np.std(field._spot("lung", places)) == pytest.approx(3.0, rel=0.2)
