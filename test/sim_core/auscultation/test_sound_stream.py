"""A stethoscope's endless sound: as loud in each band as a recording of the same law, without a joint that is heard, judged alike, and
what the faults of its microphone do to a recording.
"""

import time
from dataclasses import replace

import numpy as np
import pytest

from sim_core.auscultation.acoustic_field import AcousticField
from sim_core.auscultation.band_noise import band_power
from sim_core.auscultation.contact_sound import LONGEST_GAP, ContactSound, Touch
from sim_core.auscultation.heart_sound import HeartConfig
from sim_core.auscultation.lung_sound import LungConfig
from sim_core.auscultation.microphone_faults import dropped, faulty
from sim_core.auscultation.shipped_estimators import shipped_estimator
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.sound_stream import SoundStream
from sim_core.auscultation.stethoscope_contact import ContactConditions
from sim_core.auscultation.usability import Verdict, usable

#: a room and motors as of an examination by an arm
HELD = ContactConditions(room=0.034, electronics=5e-4, hum=0.001, hum_frequency=130.0)
QUIET = ContactConditions(room=0.0, electronics=0.0)
FIELD = SimulatedPatient(3).field["front"]
MITRAL = FIELD.landmarks["heart"]["mitral"]
RATE, CHUNK = 8000.0, 160


def heard(stream, place, force, slip, seconds, n=CHUNK):
    return np.concatenate([stream.block(place, force, slip, n) for _ in range(round(seconds * stream.rate) // n)])


def level(sound, band, rate=RATE):
    """RMS within a band [dB]."""
    return 10.0 * np.log10(band_power(sound, rate, band))


@pytest.mark.parametrize("force, slip", [(7.0, 0.0), (7.0, 5e-3), (3.0, 0.0), (1.0, 0.0)])
@pytest.mark.parametrize("sick", [False, True])
def test_the_stream_is_as_loud_as_a_recording_in_each_band(force, slip, sick):
    field = AcousticField(
        seed=2,
        heart=HeartConfig(murmur=0.15 * sick),
        lung=LungConfig(crackles=6 * sick, wheeze=0.5 * sick),
    )
    place = field.landmarks["lung"]["left upper"]
    conditions = replace(HELD, room=0.01, clothing=6.0 * sick)
    stream = heard(SoundStream(field, conditions, RATE), place, force, slip, 60.0)
    whole = field.listen(place, replace(conditions, force=force, speed=slip), 60.0, RATE).sound
    for band in ((20.0, 100.0), (100.0, 250.0), (250.0, 500.0), (500.0, 1000.0), (1000.0, 4000.0)):
        assert level(stream, band) == pytest.approx(level(whole, band), abs=0.7), band


def test_the_air_has_the_rooms_noise_alone_and_a_touch_lets_the_body_in():
    room = replace(HELD, hum=0.0)
    stream = SoundStream(FIELD, room, RATE)
    air = heard(stream, MITRAL, 0.0, 0.01, 20.0)
    assert np.std(air) == pytest.approx(np.hypot(0.034, 5e-4), rel=0.05)
    assert np.std(heard(SoundStream(FIELD, QUIET, RATE), MITRAL, 0.0, 0.01, 20.0)) == 0.0
    pressed = heard(stream, MITRAL, 7.0, 0.0, 20.0)
    assert level(pressed, (30.0, 100.0)) > level(air, (30.0, 100.0)) + 6.0
    assert level(pressed, (800.0, 1400.0)) < level(air, (800.0, 1400.0)) - 15.0  # the room stays outside


def test_nothing_is_heard_where_blocks_and_stretches_are_joined():
    """A click has power where none of the bodies and rooms has any; here nothing else does, over a minute of stretches of 4 to 8 s."""
    rate = 44100.0
    sound = heard(SoundStream(FIELD, replace(HELD, electronics=0.0), rate), MITRAL, 7.0, 1e-3, 60.0, n=882)
    above = sound[: len(sound) // 441 * 441].reshape(-1, 441)
    frequency = np.fft.rfftfreq(441, 1.0 / rate)
    power = (np.abs(np.fft.rfft(above * np.hanning(441))) ** 2)[:, frequency > 8000.0].sum(axis=1)
    limit = power.max()
    click = above[10].copy()
    click[200:] += 3e-3  # what would be found
    assert (np.abs(np.fft.rfft(click * np.hanning(441))) ** 2)[frequency > 8000.0].sum() > 10.0 * limit
    # Loudness changes steadily from block to block, however suddenly the contact does.
    stream = SoundStream(FIELD, replace(QUIET, room=0.034), rate)
    lifted = np.concatenate([stream.block(MITRAL, force, 0.0, 882) for force in 20 * [7.0] + 20 * [0.0] + 20 * [7.0]])
    assert np.abs(np.diff(lifted)).max() < 0.05


def test_a_seed_gives_the_same_sound_bit_by_bit_however_it_is_cut_and_from_when_on_it_is_heard():
    long = SoundStream(FIELD, replace(HELD, bump_rate=1.0), RATE, seed=4)
    whole = heard(long, MITRAL, 7.0, 1e-3, 24.0)
    np.testing.assert_array_equal(
        heard(SoundStream(FIELD, replace(HELD, bump_rate=1.0), RATE, seed=4), MITRAL, 7.0, 1e-3, 24.0), whole
    )
    other = SoundStream(FIELD, replace(HELD, bump_rate=1.0), RATE, seed=4)
    pieces = [other.block(MITRAL, 7.0, 1e-3, n) for n in (1, 17, 3000, 982)]
    np.testing.assert_allclose(np.concatenate(pieces), whole[:4000], rtol=0.0, atol=1e-12)
    late = SoundStream(FIELD, replace(HELD, bump_rate=1.0), RATE, seed=4)
    late.skip(round(15.0 * RATE))
    np.testing.assert_allclose(heard(late, MITRAL, 7.0, 1e-3, 9.0), whole[round(15.0 * RATE) :], rtol=0.0, atol=1e-12)
    assert np.abs(heard(SoundStream(FIELD, HELD, RATE, seed=5), MITRAL, 7.0, 1e-3, 2.0) - whole[:16000]).max() > 0.01


def test_hearts_and_lungs_keep_their_rhythm_from_stretch_to_stretch():
    """By the autocorrelation of the envelope over two minutes: one joint that lost a beat would spoil it."""
    field = AcousticField(heart=HeartConfig(75.0, variability=0.0), lung=LungConfig(0.25), spots=0.0)
    stream = SoundStream(field, QUIET, RATE)
    sound = heard(stream, field.landmarks["heart"]["mitral"], 7.0, 0.0, 120.0)
    loud = np.sqrt(np.mean(sound.reshape(-1, 80) ** 2, axis=1))  # 100 a second
    onsets = np.flatnonzero((loud > 0.5 * loud.max()) & (np.roll(loud, 1) <= 0.5 * loud.max())) / 100.0
    beats = onsets[np.diff(onsets, prepend=-1.0) > 0.4]  # S1 alone: S2 follows after 0.32 s, the next S1 after 0.48 s
    assert np.diff(beats).min() > 0.7 and np.diff(beats).max() < 0.9  # 0.8 s, with the swing by the breath
    back = AcousticField("back", lung=LungConfig(0.25), spots=0.0)
    sound = heard(SoundStream(back, QUIET, RATE), back.landmarks["lung"]["left upper"], 7.0, 0.0, 120.0)
    loud = np.sqrt(np.mean(sound.reshape(-1, 800) ** 2, axis=1))
    assert np.corrcoef(loud[:-40], loud[40:])[0, 1] > 0.9  # a breath later


def test_another_valve_is_faded_in_and_the_beat_goes_on():
    stream, areas = SoundStream(FIELD, QUIET, RATE), FIELD.landmarks["heart"]
    course = [areas["aortic"] + share * (areas["mitral"] - areas["aortic"]) for share in np.linspace(0.0, 1.0, 200)]
    sound = np.concatenate([stream.block(place, 7.0, 0.0, CHUNK) for place in course])
    assert np.abs(np.diff(sound)).max() < 0.05
    there = heard(stream, areas["mitral"], 7.0, 0.0, 20.0)
    stayed = heard(SoundStream(FIELD, QUIET, RATE), areas["mitral"], 7.0, 0.0, 20.0)
    assert level(there, (20.0, 250.0)) == pytest.approx(level(stayed, (20.0, 250.0)), abs=0.7)


def test_ten_seconds_of_it_are_judged_as_a_recording_is():
    rate, held = 44100.0, replace(HELD, bump_rate=0.02)
    begun = time.process_time()
    stream = heard(SoundStream(FIELD, held, rate), MITRAL, 7.0, 2e-4, 10.0, n=882)
    assert time.process_time() - begun < 4.0  # [s]; it is a tenth of that, and real time would be 10
    whole = FIELD.listen(MITRAL, replace(held, force=7.0, speed=2e-4), 10.0, rate).sound
    estimator = shipped_estimator("heart")
    assert estimator.predict(stream, rate) == pytest.approx(estimator.predict(whole, rate), abs=0.1)
    assert estimator.predict(whole, rate) > 0.5  # and is something to be heard


@pytest.mark.parametrize(
    "fault, verdict",
    [("", "USABLE"), ("silent", "SILENT"), ("clipped", "CLIPPED"), ("dropout", "GONE")],
)
def test_each_fault_of_the_microphone_is_found_on_a_recording(fault, verdict):
    rate = 44100.0
    stream, rng, parts, whole = SoundStream(FIELD, HELD, rate), np.random.default_rng(1), [], 441_000
    for begin in range(0, whole, 882):
        sound = faulty(stream.block(MITRAL, 7.0, 0.0, 882), fault, rng)
        parts.append(dropped(sound, begin, whole, rate) if fault == "dropout" else sound)
    sound = np.round(np.concatenate(parts) * 32767) / 32768  # as a file has it
    found = usable(sound, rate, "heart")
    assert found.verdict is Verdict[verdict], found.sentence
    if fault == "dropout":
        assert not sound[round(4.751 * rate) : round(5.249 * rate)].any() and sound[: round(4.749 * rate)].any()
        assert "to 5.25 s" in found.sentence


# ---- from touches to chunks ------------------------------------------------------------------------------------------------------


def chunks(sound, times, force=7.0):
    return [chunk for t in times for chunk in sound.touch(t, Touch(MITRAL, force, 0.0))]


def contact_sound(seed=0):
    return ContactSound(lambda: SoundStream(FIELD, HELD, RATE, seed), RATE, CHUNK)


def test_chunks_lie_at_multiples_of_their_length_and_follow_from_the_time_alone():
    early, late = (
        chunks(contact_sound(), np.arange(0.0, 4.0, 0.01)),
        chunks(contact_sound(), np.arange(3.004, 4.0, 0.02)),
    )
    assert [chunk.t for chunk in early] == pytest.approx(0.02 * np.arange(len(early))) and len(early) == 199
    assert {len(chunk.samples) for chunk in early} == {CHUNK} and not any(chunk.gap for chunk in early)
    same = {chunk.t: chunk.samples for chunk in early}
    assert late[0].t == pytest.approx(3.02) and len(late) > 40
    for chunk in late:
        np.testing.assert_allclose(chunk.samples, same[chunk.t], atol=1e-12)


def test_what_is_told_twice_counts_once_and_time_that_was_set_has_to_be_said():
    sound = contact_sound()
    assert sound.now is None and len(chunks(sound, [1.0, 1.02, 1.04])) == 2 and sound.now == 1.04
    assert chunks(sound, [1.04, 1.04]) == []
    with pytest.raises(ValueError, match="expected a time from 1.04 s on, found 0.5 s"):
        chunks(sound, [0.5])
    assert sound.now == 1.04
    sound.forget()
    assert sound.now is None and [chunk.t for chunk in chunks(sound, [0.5, 0.55])] == [0.5, 0.52]


def test_a_short_gap_is_bridged_and_a_long_one_is_lost():
    sound = contact_sound()
    chunks(sound, [0.0, 1.0])
    assert len(chunks(sound, [1.5])) == 25
    assert chunks(sound, [1.5 + 2.0 * LONGEST_GAP]) == []  # nobody knows how it touched meanwhile
    after = chunks(sound, [3.51, 3.53, 3.55])
    assert after[0].t == pytest.approx(3.5) and after[0].gap == round(2.0 * RATE) and after[1].gap == 0


def test_a_contact_that_changes_within_a_chunk_is_heard_where_it_does():
    sound = ContactSound(lambda: SoundStream(FIELD, replace(QUIET, room=0.1), RATE), RATE, 1600)  # of 0.2 s
    made = [c for k in range(401) for c in sound.touch(0.01 * k, Touch(MITRAL, 0.0 if k % 20 < 10 else 7.0, 0.0))]
    loud = np.stack([np.sqrt(np.mean(chunk.samples.reshape(20, -1) ** 2, axis=1)) for chunk in made]).mean(axis=0)
    assert loud[:9].mean() > 2.0 * loud[11:19].mean()


@pytest.mark.parametrize(
    "place, force, slip",
    [((np.nan, 0.0), 7.0, 0.0), ((0.0, 0.0), np.inf, 0.0), ((0.0, 0.0), 7.0, np.nan), ((0.0,), 7.0, 0.0)],
)
def test_a_touch_is_of_finite_numbers(place, force, slip):
    with pytest.raises(ValueError, match="expected a place of two finite numbers"):
        Touch(np.array(place), force, slip)


def test_times_of_the_wall_clock_are_no_reason_to_make_years_of_sound():
    made = chunks(contact_sound(), 1.7e9 + np.arange(0.0, 0.5, 0.01))
    assert len(made) > 20 and made[0].t >= 1.7e9
