"""A stand-in for a real sensor: scans by another way than the one that is fitted, with what the fitted model does not know.

Every ray is tried against every triangle, in numpy; nothing of the kernel is used. Beams have many rays, phases are noisy, samples are
quantised and demodulated by least squares, and the diode saturates where the fitted model has a quadratic. Numbers are choices of ours:
no data were published with the source (Heiden, PhD thesis, University of Southern California, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim_core.lidar.scene import Body, Mesh, Scene

__all__ = ["RealSensor", "Returns", "followed", "real_scan", "warped"]

SPEED = 299792458.0
FREQUENCIES = (46.55e6, 53.2e6)
#: rays tried at once against all triangles
CHUNK = 4096


@dataclass(frozen=True)
class RealSensor:
    """What a scan suffers.

    Attributes:
        beams, spacing [rad], rays, divergence [rad], depth: as the sensor's settings have them.
        phase_noise: standard deviation of a phase [rad]. bits: of the converter; 0: exact.
        delay: phase by which the brightest returns lag the darkest [rad], and `bright`: the radiance at which 63 % of it is reached.
        glint, glint_angle [rad]: as the sensor's settings have them.
    """

    beams: int = 682
    spacing: float = 2.0 * math.pi / 1024.0
    rays: int = 31
    divergence: float = 0.005
    depth: int = 5
    phase_noise: float = 0.005
    bits: int = 10
    delay: float = 0.0
    bright: float = 0.3
    glint: float = 1.0
    glint_angle: float = 0.005


@dataclass(frozen=True, eq=False)
class Returns:
    """Of rays: number of the `ray` (r,), `path` (r,) [m], `radiance` (r,), `depth` (r,)."""

    ray: np.ndarray
    path: np.ndarray
    radiance: np.ndarray
    depth: np.ndarray


def warped(body: Body, most: float, seed: int) -> Body:
    """With every corner moved by up to `most` [m] along each axis."""
    places, which = np.unique(np.round(body.mesh.vertices, 9) + 0.0, axis=0, return_inverse=True)
    moved = np.random.default_rng(seed).uniform(-most, most, places.shape)[which.reshape(-1)]
    return replace(body, mesh=Mesh(body.mesh.vertices + moved, body.mesh.faces, body.mesh.material))


def real_scan(scene: Scene, pose: Sequence[float], sensor: RealSensor = RealSensor(), seed: int = 0) -> np.ndarray:
    """Ranges (beams,) [m] from `pose` (6,), NaN where nothing comes back."""
    noise = np.random.default_rng(seed)
    turn = _turn(*pose[3:])
    angle = (np.arange(sensor.beams) - (sensor.beams - 1) / 2.0) * sensor.spacing
    # the cone's disc evenly, by a spiral
    k = np.arange(sensor.rays)
    off = math.tan(sensor.divergence) * np.sqrt((k + 0.5) / sensor.rays) * np.exp(2.399963229728653j * k)
    sine, cosine = np.sin(angle)[:, None], np.cos(angle)[:, None]
    aim = np.stack(
        [cosine - off.real * sine, sine + off.real * cosine, np.broadcast_to(off.imag, (sensor.beams, sensor.rays))], -1
    )
    aim = aim.reshape(-1, 3) @ turn.T
    aim /= np.linalg.norm(aim, axis=1)[:, None]
    origin = np.broadcast_to(np.asarray(pose[:3], float), aim.shape)
    back = followed(scene, origin, aim, sensor)
    lag = sensor.delay * (1.0 - np.exp(-back.radiance / sensor.bright))
    phases = np.zeros((2, sensor.beams))
    for f, frequency in enumerate(FREQUENCIES):
        wave = back.radiance * np.exp(1j * (4.0 * math.pi * frequency / SPEED * back.path + lag)) / sensor.rays
        beam = back.ray // sensor.rays
        total = np.bincount(beam, wave.real, sensor.beams) + 1j * np.bincount(beam, wave.imag, sensor.beams)
        phases[f] = _demodulated(total, sensor.bits) + noise.normal(0.0, sensor.phase_noise, sensor.beams)
        dark = np.abs(total) < 1e-6
    rounds = [np.arange(7), np.arange(8)]
    first, second = (
        SPEED / (2.0 * f) * (np.mod(p, 2.0 * math.pi)[:, None] / (2.0 * math.pi) + n)
        for f, p, n in zip(FREQUENCIES, phases, rounds)
    )
    miss = np.abs(first[:, :, None] - second[:, None, :]).min(2)
    found = first[np.arange(sensor.beams), miss.argmin(1)]
    return np.where(dark, np.nan, found)


def followed(scene: Scene, origin: np.ndarray, aim: np.ndarray, sensor: RealSensor) -> Returns:
    """All returns of rays (r, 3) [m] with unit directions (r, 3) in the world."""
    corners = np.concatenate([b.mesh.corners @ _turn(*b.pose[3:]).T + np.asarray(b.pose[:3]) for b in scene.bodies])
    kind = [scene.materials[name] for b in scene.bodies for name in b.mesh.material]
    table = {
        q: np.array([getattr(m, q) for m in kind], float)
        for q in ("albedo", "roughness", "reflectivity", "index", "transmission", "thin")
    }
    rays = np.arange(len(origin))
    path, share, last = np.zeros(len(origin)), np.ones(len(origin)), np.full(len(origin), -1)
    back: list[tuple[np.ndarray, ...]] = []
    for depth in range(sensor.depth):
        distance, face, normal = _first(corners, origin, aim, last)
        hit = np.isfinite(distance)
        rays, origin, aim, share, face, normal = (a[hit] for a in (rays, origin, aim, share, face, normal))
        path = path[hit] + distance[hit]
        if not len(rays):
            break
        origin = origin + distance[hit, None] * aim
        m = {q: column[face] for q, column in table.items()}
        facing = np.einsum("ij,ij->i", aim, normal)
        outside = facing < 0.0
        normal = np.where(outside[:, None], normal, -normal)
        c = np.abs(facing)
        refracts = m["index"] > 0.0
        ratio = np.where(
            refracts, np.where(outside | (m["thin"] > 0), 1.0 / np.maximum(m["index"], 1.0), m["index"]), 1.0
        )
        mirror, behind = _fresnel(c, ratio)
        mirror = np.where(m["thin"] > 0, 2.0 * mirror / (1.0 + mirror), mirror)
        mirror = np.where(refracts, mirror, m["reflectivity"])
        received = share**2 / path**2
        s2, sine2 = m["roughness"] ** 2, 1.0 - c**2
        rough = 1.0 - s2 / (2.0 * (s2 + 0.33)) + 0.45 * s2 / (s2 + 0.09) * sine2 / np.maximum(c, 1e-12)
        diffuse = received * (1.0 - mirror) * m["albedo"] / math.pi * c * rough
        window = np.maximum(0.0, 1.0 - (1.0 - c) / (1.0 - math.cos(sensor.glint_angle))) ** 2
        for radiance in (diffuse, received * mirror * window * sensor.glint):
            some = radiance > 0.0
            back.append((rays[some], path[some], radiance[some], np.full(some.sum(), depth)))
        straight = (m["thin"] > 0) | ~refracts
        onward = np.where(
            straight[:, None],
            aim,
            ratio[:, None] * aim + (ratio * c - np.where(behind < 0, 0.0, behind))[:, None] * normal,
        )
        through = np.where(behind < 0.0, 0.0, share * (1.0 - mirror) * m["transmission"])
        aim = np.concatenate([aim + 2.0 * c[:, None] * normal, onward])
        share, keep = np.concatenate([share * mirror, through]), np.concatenate([share * mirror, through]) ** 2 > 1e-9
        twice = np.tile(np.arange(len(rays)), 2)[keep]
        rays, path, last, origin, aim, share = (
            rays[twice],
            path[twice],
            face[twice],
            origin[twice],
            aim[keep],
            share[keep],
        )
    columns = [np.concatenate(c) for c in zip(*back)] if back else [np.zeros(0)] * 4
    return Returns(columns[0].astype(int), columns[1], columns[2], columns[3].astype(int))


def _first(
    corners: np.ndarray, origin: np.ndarray, aim: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distance, face and its normal, by Cramer's rule for every pair of a ray and a triangle (Moeller and Trumbore 1997)."""
    a, u, v = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(u, v)
    distance, face = np.empty(len(aim)), np.empty(len(aim), int)
    for k in range(0, len(aim), CHUNK):
        some = slice(k, k + CHUNK)
        d, from_a = aim[some, None], origin[some, None] - a
        with np.errstate(divide="ignore", invalid="ignore"):
            whole = -(d @ normal.T)[:, 0]
            e = np.cross(from_a, d)
            t = np.einsum("rfi,fi->rf", from_a, normal) / whole
            p, q = np.einsum("fi,rfi->rf", v, e) / whole, -np.einsum("fi,rfi->rf", u, e) / whole
            inside = (p >= -1e-12) & (q >= -1e-12) & (p + q <= 1.0 + 1e-12) & (t > 1e-9)
        t = np.where(inside & (np.arange(len(corners)) != last[some, None]), t, np.inf)
        face[some] = t.argmin(1)
        distance[some] = t.min(1)
    unit = normal[face]
    return distance, face, unit / np.linalg.norm(unit, axis=1)[:, None]


def _fresnel(c: np.ndarray, ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share reflected, and cosine behind the surface, -1 where all is reflected."""
    sine = ratio**2 * (1.0 - c**2)
    through = np.sqrt(np.maximum(0.0, 1.0 - sine))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 0.5 * (
            ((c - ratio * through) / (c + ratio * through)) ** 2 + ((ratio * c - through) / (ratio * c + through)) ** 2
        )
    return np.where(sine >= 1.0, 1.0, share), np.where(sine >= 1.0, -1.0, through)


def _demodulated(total: np.ndarray, bits: int) -> np.ndarray:
    """Phase of waves (beams,) by least squares over 30 samples of 15 periods; the converter's range is set to the wave's height."""
    time = 2.0 * math.pi * np.linspace(0.0, 15.0, 30, endpoint=False) * 17.0 / 15.0
    samples = np.abs(total)[:, None] * np.sin(time - np.angle(total)[:, None])
    if bits:
        step = 2.0 * np.maximum(np.abs(total), 1e-12)[:, None] / 2**bits
        samples = np.round(samples / step) * step
    columns = np.stack([np.sin(time), np.cos(time)], 1)
    sine, cosine = np.linalg.lstsq(columns, samples.T, rcond=None)[0]
    return np.arctan2(-cosine, sine)


def _turn(roll: float, pitch: float, yaw: float) -> np.ndarray:
    x, y, z = (
        np.eye(3) + math.sin(a) * k + (1.0 - math.cos(a)) * k @ k
        for a, k in zip((roll, pitch, yaw), (np.cross(np.eye(3), e) for e in np.eye(3)))
    )
    return z @ y @ x
