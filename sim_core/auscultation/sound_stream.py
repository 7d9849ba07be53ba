"""What a stethoscope hears without an end, block by block, while it is moved, pressed and slips.

    stream = SoundStream(field, ContactConditions(room=0.034))
    sound = stream.block(place, force=7.0, slip=0.0, n=4410)   # the next tenth of a second

The laws are those of `AcousticField.listen`, and so are the sounds: bodies and disturbances are made by the same functions, in stretches of
some seconds. A heart's stretches are joined where a beat begins, a lung's where a breath does, noise is faded over with equal power,
and hum turns on, so that nothing is heard of a joint. A stretch follows from its number, and what nobody hears is not made:
a stream can be moved on to any time at almost no cost, and sounds the same from there as one that was heard all along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
from scipy.fft import next_fast_len

from sim_core.auscultation.acoustic_field import LOUDNESS, AcousticField
from sim_core.auscultation.heart_sound import AREAS, heart_sound, heartbeats
from sim_core.auscultation.lung_sound import lung_sound
from sim_core.auscultation.stethoscope_contact import (
    ContactConditions,
    bump_sound,
    coupling,
    friction_loudness,
    hum_sound,
    room_noise,
    room_share,
    rubbed_noise,
    through_contact,
)

__all__ = ["SoundStream"]

BEATING, BREATHING, RUSHING = 8.0, 8.0, 4.0  # [s] of a stretch of heart, lung and noise, about
MARGIN = 0.1  # [s] of lung beyond a stretch, so that what a gap lets through does not end with it
FADE = 0.1  # [s] in which one stretch of noise gives way to the next
HARDLY = 1e-9  # [N] with which a membrane leaves nothing but a gap

NOISES = ("rubbed", "room", "bumps", "electronics")


class SoundStream:
    """See the module's docstring.

    Args:
        field: the side of the body that is listened to.
        conditions: room, converter, motors, bumps, clothing and gain; force and speed are told with each block instead.
        rate: samples per second [Hz]. seed: of rhythm and noise.
    """

    def __init__(
        self,
        field: AcousticField,
        conditions: ContactConditions = ContactConditions(),
        rate: float = 44100.0,
        seed: int = 0,
    ) -> None:
        self.field, self.conditions, self.rate, self._seed = field, conditions, rate, seed
        self.heard = 0  # samples since the begin
        begin = self._rng(1)
        self._first_breath, self._hum_phases = float(begin.uniform()), begin.uniform(0.0, 2.0 * np.pi, 3)
        self._heart, self._lung, self._noise = (
            _Endless(stretches) for stretches in (self._heart_stretch, self._lung_stretch, self._noise_stretch)
        )
        self._newest: dict[str, tuple[int, np.ndarray]] = {}  # noise -> number of its newest stretch, and that
        self._loud: dict[str, np.ndarray] = {}  # at the end of the last block
        self._area = ""  # of the valve heard there

    def block(self, place: np.ndarray, force: float | np.ndarray, slip: float | np.ndarray, n: int) -> np.ndarray:
        """The next n samples, clipped at full scale 1, shape (n,).

        Each argument is one for the block, or a course over it whose last entry holds at the block's end; in between, and from the end
        of the block before, loudness changes steadily.

        Args:
            place: on the side's coronal plane, (2,) or (k, 2) [m]. force: along the normal, number or (k,) [N].
            slip: speed of the membrane over the skin, number or (k,) [m/s].
        """
        places, force, slip = np.atleast_2d(place), np.atleast_1d(force), np.atleast_1d(slip)
        course = self._courses(places, force, slip, n)
        sound = hum_sound(self.conditions, (self.heard + np.arange(n)) / self.rate, self._hum_phases)
        for structure, body in (
            ("heart", self._beating(places[-1], n, "heart" in course)),
            ("lung", self._lung.take(n, ["lung"] if "lung" in course else []).get("lung")),
        ):
            if body is not None:
                sound += np.sum(course[structure] * body, axis=0)
        noise = self._noise.take(n, [name for name in NOISES if name in course])
        sound += np.sum([course[name] * noise[name] for name in noise], axis=0)
        self.heard += n
        return np.clip(self.conditions.gain * sound, -1.0, 1.0)

    def skip(self, n: int) -> None:
        """Move on by n samples that nobody hears; the next block has its own contact from its first sample on."""
        for sound in (self._heart, self._lung, self._noise):
            sound.take(n)
        self.heard += n
        self._loud, self._area = {}, ""

    # -- loudness ----------------------------------------------------------------------------------

    def _courses(self, places: np.ndarray, force: np.ndarray, slip: np.ndarray, n: int) -> dict[str, np.ndarray]:
        """What is heard -> its loudness at each of n samples, shape (n,), or (2, n) where pressed and through the gap."""
        k = max(len(places), len(force), len(slip))
        conditions, one = self.conditions, np.ones(k)
        c, open_gap = coupling(force), (force > 0.0)
        loud: dict[str, np.ndarray] = {
            "rubbed": friction_loudness(force, slip) * one,
            "room": conditions.room * room_share(force) * one,
            "bumps": conditions.bump * (conditions.bump_rate > 0.0) * one,
            "electronics": conditions.electronics * one,
        }
        for structure, most in LOUDNESS.items():
            gain = most * self.field.gain(structure, places)
            loud[structure] = np.stack([gain * c * one, gain * (1.0 - c) * open_gap * one])
        before, self._loud = self._loud, {name: end[..., -1] for name, end in loud.items()}
        at, known, found = np.arange(1, n + 1), np.linspace(0.0, n, k + 1), {}
        for name, end in loud.items():
            values = np.concatenate([before.get(name, end[..., 0])[..., None], end], axis=-1)
            if values.any():
                steady = [np.interp(at, known, row) for row in values.reshape(-1, k + 1)]
                found[name] = np.reshape(steady, (*values.shape[:-1], n))
        return found

    # -- sounds ------------------------------------------------------------------------------------

    def _beating(self, place: np.ndarray, n: int, heard: bool) -> np.ndarray | None:
        """The heart, pressed and through the gap, (2, n); where the nearest valve area is another one than before, it fades over."""
        if not heard:
            self._heart.take(n)
            self._area = ""
            return None
        areas = self.field.landmarks["heart"]
        nearest = min(areas, key=lambda name: float(np.linalg.norm(place - areas[name])))
        area = nearest if nearest in AREAS else "mitral"
        before, self._area = self._area or area, area
        made = self._heart.take(n, {before, area})
        if before == area:
            return made[area]
        share = np.arange(1, n + 1) / n
        return (1.0 - share) * made[before] + share * made[area]

    def _heart_stretch(self, number: int) -> tuple[int, Callable[[str], np.ndarray]]:
        """From one beat to another; layers are valve areas. All areas have the same beats, as they have the same seed."""
        n = next_fast_len(round(BEATING * self.rate))
        config, duration = self.field.heart, n / self.rate
        beats = heartbeats(config, duration, self._rng(2, number)).s1
        begin, end = 0 if number == 0 else round(beats[beats >= 0.0][0] * self.rate), round(beats[-1] * self.rate)

        def render(area: str) -> np.ndarray:
            return self._through(heart_sound(config, area, duration, self.rate, self._rng(2, number))[0])[:, begin:end]

        return end - begin, render

    def _lung_stretch(self, number: int) -> tuple[int, Callable[[str], np.ndarray]]:
        """From one breath to another; the only layer is "lung"."""
        config = self.field.lung
        breaths = max(1, round(BREATHING * config.breath_rate))

        def first(stretch: int) -> int:
            return round(max(0.0, stretch * breaths - self._first_breath) / config.breath_rate * self.rate)

        begin, length = first(number), first(number + 1) - first(number)

        def render(_: str) -> np.ndarray:
            duration = next_fast_len(length + round(MARGIN * self.rate)) / self.rate
            phase = self._first_breath + config.breath_rate * begin / self.rate
            sound = lung_sound(config, duration, self.rate, self._rng(3, number), phase)
            return self._through(sound)[:, :length]

        return length, render

    def _through(self, sound: np.ndarray) -> np.ndarray:
        """A body's sound (n,) through a membrane that is pressed and through the gap below one that is not, shape (2, n)."""
        gap = through_contact(sound, replace(self.conditions, force=HARDLY), self.rate)
        if self.conditions.clothing > 0.0:
            sound = through_contact(sound, replace(self.conditions, force=np.inf), self.rate)
        return np.stack([sound, gap])

    def _noise_stretch(self, number: int) -> tuple[int, Callable[[str], np.ndarray]]:
        """As long as any other; layers are NOISES."""
        n, fade = next_fast_len(round(RUSHING * self.rate)), round(FADE * self.rate)
        length = n - fade

        def render(name: str) -> np.ndarray:
            if name == "bumps":
                return self._bumped(number, length)
            if name == "electronics":
                return self._rng(4 + NOISES.index(name), number).standard_normal(length)
            made, turn = self._raw_noise(name, number, n), 0.5 * np.pi * (np.arange(fade) + 0.5) / fade
            head = made[:fade]
            if number > 0:
                head = np.sin(turn) * head + np.cos(turn) * self._raw_noise(name, number - 1, n)[length:]
            self._newest[name] = number, made
            return np.concatenate([head, made[fade:length]])

        return length, render

    def _raw_noise(self, name: str, number: int, n: int) -> np.ndarray:
        known, made = self._newest.get(name, (-1, np.zeros(0)))
        rng = self._rng(4 + NOISES.index(name), number)
        return made if known == number else {"rubbed": rubbed_noise, "room": room_noise}[name](n, self.rate, rng)

    def _bumped(self, number: int, length: int) -> np.ndarray:
        """Bumps of a stretch of noise and the ends of those of the one before, shape (length,)."""
        t, lasts, sound = np.arange(length) / self.rate, length / self.rate, np.zeros(length)
        for back in (0, 1):
            rng = self._rng(4 + NOISES.index("bumps"), number - back) if number >= back else None
            for at in [] if rng is None else rng.uniform(0.0, lasts, rng.poisson(self.conditions.bump_rate * lasts)):
                sound += bump_sound(t + back * lasts - at)
        return sound

    def _rng(self, *which: int) -> np.random.Generator:
        return np.random.default_rng([self.field.seed, self._seed, *which])


class _Endless:
    """Sound without an end, made stretch by stretch, and only those layers of it that are heard.

    Args:
        stretches: number of a stretch -> (its samples, layer -> that layer's sound (..., samples)).
    """

    def __init__(self, stretches: Callable[[int], tuple[int, Callable[[str], np.ndarray]]]) -> None:
        self._stretches, self._number, self._at = stretches, 0, 0
        self._length, self._render = stretches(0)
        self._made: dict[str, np.ndarray] = {}

    def take(self, n: int, layers: Collection[str] = ()) -> dict[str, np.ndarray]:
        """The next n samples (..., n) of each of the layers."""
        pieces: dict[str, list[np.ndarray]] = {layer: [] for layer in layers}
        while n > 0:
            if self._at == self._length:
                self._number, self._at, self._made = self._number + 1, 0, {}
                self._length, self._render = self._stretches(self._number)
            m = min(n, self._length - self._at)
            for layer in layers:
                if layer not in self._made:
                    self._made[layer] = self._render(layer)
                pieces[layer].append(self._made[layer][..., self._at : self._at + m])
            self._at, n = self._at + m, n - m
        return {layer: np.concatenate(found, axis=-1) for layer, found in pieces.items()}
