"""Releases of a double pendulum with ball joints, filmed in MuJoCo, and lengths that Adam finds in them.

The loss is the source's: heading vectors of the links against those observed (Heiden, PhD thesis (University of Southern
California 2022), equation 2.3). It needs torch; callers ask `config.tiers.require` first.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from scipy.spatial.transform import Rotation

from experiments.problems.ids_layer import Layer, chain

__all__ = ["DT", "STEPS", "Filmed", "Found", "filmed", "found_by_adam", "headings"]

DT, STEPS = 0.04, 10  # published: ten steps at 25 Hz
RATE, DECAY = 0.03, 0.985  # of Adam [m], and the decay per epoch
DAMPING_UNIT = 0.5  # N m s beside one metre: both then turn the headings about equally


@dataclass(frozen=True)
class Filmed:
    """Releases from rest.

    Attributes:
        quaternions: of the two joints, observed (N, STEPS + 1, 8), w first.
    """

    quaternions: np.ndarray


@dataclass(frozen=True)
class Found:
    """What Adam found.

    Attributes:
        theta: after each epoch (epochs + 1, n): lengths [m], then the joints' damping [N m s] where it was free.
        loss: before each epoch, squared difference of headings per segment.
    """

    theta: np.ndarray
    loss: np.ndarray


def filmed(lengths: tuple[float, float], damping: float, count: int, noise: float, rng: np.random.Generator) -> Filmed:
    """Releases from rest in random directions, up to 1.2 rad off for each joint.

    Args:
        damping: of the joints [N m s]. noise: standard deviation of observed positions at the links' ends [m].
    """
    model = mujoco.MjModel.from_xml_string(chain(lengths, "ball", damping))
    data, every = mujoco.MjData(model), round(DT / model.opt.timestep)
    out = np.empty((count, STEPS + 1, 8))
    for release in out:
        mujoco.mj_resetData(model, data)
        turns = rng.uniform(-1.2, 1.2, (2, 3)) * (1.0, 1.0, 0.0)
        data.qpos[:] = Rotation.from_rotvec(turns).as_quat(scalar_first=True).ravel()
        for k, row in enumerate(release):
            if k:
                mujoco.mj_step(model, data, every)
            row[:] = data.qpos
    wobble = Rotation.from_rotvec(rng.standard_normal((out.size // 4, 3)) * noise / np.mean(lengths))
    seen = Rotation.from_quat(out.reshape(-1, 4), scalar_first=True) * wobble
    return Filmed(seen.as_quat(scalar_first=True).reshape(out.shape))


def headings(q: torch.Tensor) -> torch.Tensor:
    """Unit vectors along both links (..., 2, 3) in the world's frame, of the joints' quaternions (..., 8)."""
    first, second = q[..., :4], q[..., 4:8]
    down = torch.zeros_like(first[..., 1:])
    down[..., 2] = -1.0
    return torch.stack([_turned(first, down), _turned(first, _turned(second, down))], dim=-2)


def _turned(q: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """r (..., 3) turned by the quaternion q (..., 4), which need not have unit length."""
    q = q / q.norm(dim=-1, keepdim=True)
    twice = 2.0 * torch.linalg.cross(q[..., 1:], r)
    return r + q[..., :1] * twice + torch.linalg.cross(q[..., 1:], twice)


def found_by_adam(layer: Layer, data: Filmed, start: np.ndarray, epochs: int = 200) -> Found:
    """Free quantities (n,) from `start`; each epoch is one step on all releases, which begin as observed, at rest."""
    observed = torch.from_numpy(data.quaternions)
    x0 = torch.cat([observed[:, 0], torch.zeros(len(observed), 6, dtype=observed.dtype)], dim=1)
    target = headings(observed)
    unit = torch.tensor([1.0, 1.0] + [DAMPING_UNIT] * (len(start) - 2), dtype=torch.float64)
    scaled = (torch.from_numpy(start) / unit).requires_grad_()
    adam = torch.optim.Adam([scaled], RATE)
    slower = torch.optim.lr_scheduler.ExponentialLR(adam, DECAY)
    thetas, losses = [start], []
    for _ in range(epochs):
        adam.zero_grad()
        X = layer(x0, scaled * unit, STEPS)
        loss = (headings(X[..., :8]) - target).square().sum() / len(observed)
        loss.backward()
        adam.step()
        slower.step()
        with torch.no_grad():
            scaled.copy_(layer.within(scaled * unit) / unit)
        thetas.append((scaled.detach() * unit).numpy())
        losses.append(loss.item())
    return Found(np.array(thetas), np.array(losses))
