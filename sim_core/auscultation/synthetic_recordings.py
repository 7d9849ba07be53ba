"""Synthetic recordings with ratings to train and to judge estimators with: bodies, places, contacts and rooms drawn at random.

A body is one number; bodies of training and of judgement are different numbers, so that no voice, rhythm or bad spot is known.
One recording serves both structures, since heart and lungs sound at once. As in the published set, some recordings hold noise alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.acoustic_field import AcousticField, Heard
from sim_core.auscultation.heart_sound import HeartConfig
from sim_core.auscultation.hidden_rating import hidden_rating
from sim_core.auscultation.lung_sound import LungConfig
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.regions import Side, Structure, places
from sim_core.auscultation.stethoscope_contact import ContactConditions

__all__ = ["RECORDINGS_OF_A_BODY", "Rated", "random_body", "random_recording", "recordings"]

RECORDINGS_OF_A_BODY = 8
NOISE_ALONE = 0.05  # of the recordings, after the published 5 of 85
MURMURS, CRACKLES, WHEEZES = 0.1, 0.1, 0.1  # of the bodies


@dataclass(frozen=True)
class Rated:
    """A recording (m,) at RATE and its hidden rating for each structure."""

    sound: np.ndarray
    rating: dict[Structure, float]
    body: int


def random_body(
    body: int, side: Side = "front", landmarks: Mapping[Structure, Mapping[str, np.ndarray]] | None = None
) -> AcousticField:
    """The field of body number `body`; landmarks as for `AcousticField`."""
    rng = np.random.default_rng([body, 1])
    breath = rng.uniform(0.2, 0.3)
    heart = HeartConfig(
        rate=rng.uniform(55.0, 95.0),
        s1=(rng.uniform(45.0, 60.0), rng.uniform(0.09, 0.13)),
        s2=(rng.uniform(60.0, 85.0), rng.uniform(0.06, 0.1)),
        breath_rate=breath,
        murmur=0.15 * (rng.uniform() < MURMURS),
    )
    lung = LungConfig(
        breath_rate=breath,
        inspiration=rng.uniform(0.35, 0.5),
        expiration_loudness=rng.uniform(0.25, 0.6),
        crackles=6 * int(rng.uniform() < CRACKLES),
        crackle_frequency=rng.choice([350.0, 650.0]),
        wheeze=0.5 * (rng.uniform() < WHEEZES),
    )
    loudness: dict[Structure, float] = {"heart": 10 ** rng.normal(0.0, 0.15), "lung": 10 ** rng.normal(0.0, 0.15)}
    return AcousticField(side, body, heart, lung, landmarks, loudness)


def random_recording(body: int, number: int, rate: float = RATE) -> Heard:
    """Recording `number` of a body, 10 s: near one of its landmarks, held well or badly, in a quiet or a noisy room."""
    rng = np.random.default_rng([body, number, 2])
    side: Side = "front" if rng.uniform() < 0.75 else "back"
    marks = [*places("heart", side).values(), *places("lung", side).values()]
    angle, away = rng.uniform(0.0, 2.0 * np.pi), rng.exponential(0.015)
    place = marks[rng.integers(len(marks))] + away * np.array([np.cos(angle), np.sin(angle)])
    air = rng.uniform() < NOISE_ALONE
    conditions = ContactConditions(
        force=0.0 if air else rng.uniform(2.0, 10.0),
        speed=10.0 ** rng.uniform(-4.5, -2.3) if rng.uniform() < 0.5 else 0.0,
        room=10.0 ** rng.uniform(-3.0, -0.7),
        electronics=10.0 ** rng.uniform(-4.0, -3.0),
        hum=10.0 ** rng.uniform(-4.0, -2.0),
        hum_frequency=rng.uniform(60.0, 300.0),
        bump_rate=0.1 * (rng.uniform() < 0.3),
        clothing=rng.choice([0.0, 0.0, 6.0]),
        gain=10.0 ** rng.uniform(-0.5, 0.5),
    )
    return random_body(body, side).listen(place, conditions, rate=rate, seed=number)


def recordings(body: int, count: int = RECORDINGS_OF_A_BODY) -> list[Rated]:
    """Recordings of a body with their hidden ratings."""
    heard = [random_recording(body, number) for number in range(count)]
    return [Rated(h.sound, {"heart": hidden_rating(h, "heart"), "lung": hidden_rating(h, "lung")}, body) for h in heard]
