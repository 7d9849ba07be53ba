"""What may change in a crop while the scoop's volume stays: the light's colour, and the errors of a depth camera.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.4, which names both and not their strengths; those are choices.
"""

from __future__ import annotations

import numpy as np
import torch

from sim_core.meta.settings import Augmentation
from sim_core.scooping.learning.network import flipped

__all__ = ["AUGMENTATION", "jittered"]

#: standard deviations: of the hue's turn [rad], of the brightness, of a pixel's height [m], of a crop's tilt over its width [m]
HUE, BRIGHT, HEIGHT, TILT = 0.15, 0.05, 0.002, 0.002


def jittered(views: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Crops (b, 4, h, w) under other light and with other noise.

    Each crop's colours are turned about the axis of greys and scaled; its heights get white noise and a plane's error.
    """
    n, _, rows, columns = views.shape
    turn = torch.from_numpy(HUE * rng.standard_normal(n))
    # Rodrigues' formula about (1, 1, 1) / sqrt 3.
    third, cosine, sine = 1.0 / 3.0, torch.cos(turn), torch.sin(turn) / 3.0**0.5
    ring = torch.stack(
        [cosine + (1.0 - cosine) * third, (1.0 - cosine) * third - sine, (1.0 - cosine) * third + sine], 1
    )
    matrix = torch.stack([torch.roll(ring, k, 1) for k in range(3)], 1)
    matrix = matrix * torch.from_numpy(1.0 + BRIGHT * rng.standard_normal(n))[:, None, None]
    colour = torch.einsum("bij,bjhw->bihw", matrix.float(), views[:, :3]).clamp(0.0, 1.0)
    tilt = torch.from_numpy(TILT * rng.standard_normal((n, 2))).float()
    u, v = torch.linspace(-0.5, 0.5, columns), torch.linspace(-0.5, 0.5, rows)
    plane = tilt[:, :1, None] * u[None, None, :] + tilt[:, 1:, None] * v[None, :, None]
    white = HEIGHT * torch.from_numpy(rng.standard_normal((n, rows, columns), dtype=np.float32))
    return torch.cat([colour, views[:, 3:] + (plane + white)[:, None]], 1)


#: of mean and kernel by flips, and of the mean by other light and depth
AUGMENTATION = Augmentation(symmetries=(flipped,), noise=jittered)
