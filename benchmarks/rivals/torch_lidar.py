"""The same scan in torch, as one would write it first: all rays against all triangles, surface after surface, gradients by autograd.

float64, one thread. It has what the benchmark's scene needs: rough diffuse walls, mirrors, glass that refracts, and thin sheets.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from sim_core.lidar.scene import Scene
from sim_core.lidar.settings import LIGHT, LidarSettings

SURFACE = ("albedo", "roughness", "reflectivity", "index", "transmission", "thin")


class TorchLidar:
    """A scene scanned from poses (x, y, yaw)."""

    def __init__(self, scene: Scene, settings: LidarSettings) -> None:
        self.settings = settings
        corners = torch.tensor(np.concatenate([b.mesh.moved(b.pose).corners for b in scene.bodies]))
        self.a, self.u, self.v = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        normal = torch.linalg.cross(self.u, self.v)
        self.normal = normal / normal.norm(dim=1, keepdim=True)
        kind = [scene.materials[name] for b in scene.bodies for name in b.mesh.material]
        self.table = {q: torch.tensor([float(getattr(m, q)) for m in kind], dtype=torch.float64) for q in SURFACE}
        self.aim = torch.tensor(settings.directions.reshape(-1, 3))

    def ranges(self, pose: torch.Tensor) -> torch.Tensor:
        """(beams,) [m] at a pose (3,)."""
        s = self.settings
        c, n = torch.cos(pose[2]), torch.sin(pose[2])
        d = torch.stack(
            [c * self.aim[:, 0] - n * self.aim[:, 1], n * self.aim[:, 0] + c * self.aim[:, 1], self.aim[:, 2]], 1
        )
        o = torch.cat([pose[:2], torch.zeros(1, dtype=torch.float64)]).expand(len(d), 3)
        ray = torch.arange(len(d))
        path, share, last = (
            torch.zeros(len(d), dtype=torch.float64),
            torch.ones(len(d), dtype=torch.float64),
            ray * 0 - 1,
        )
        sums = [torch.zeros(s.beams, dtype=torch.complex128) for _ in range(2)]
        for _ in range(s.depth):
            hit, face, length = self._first(o, d, last)
            ray, o, d, path, share = ray[hit], o[hit], d[hit], path[hit] + length, share[hit]
            if not len(ray):
                break
            o = o + length[:, None] * d
            m = {q: column[face] for q, column in self.table.items()}
            normal = self.normal[face]
            facing = (d * normal).sum(1)
            outside = facing < 0
            normal = torch.where(outside[:, None], normal, -normal)
            cosine = facing.abs()
            glass, thin = m["index"] > 0, m["thin"] > 0
            index = torch.where(glass, m["index"], torch.ones_like(m["index"]))
            ratio = torch.where(outside | thin, 1 / index, index)
            sine = ratio**2 * (1 - cosine**2)
            total = sine >= 1
            behind = torch.sqrt(torch.where(total, torch.ones_like(sine), 1 - sine))
            parallel = (cosine - ratio * behind) / (cosine + ratio * behind)
            across = (ratio * cosine - behind) / (ratio * cosine + behind)
            mirror = torch.where(total, torch.ones_like(sine), 0.5 * (parallel**2 + across**2))
            mirror = torch.where(thin, 2 * mirror / (1 + mirror), mirror)
            mirror = torch.where(glass, mirror, m["reflectivity"])
            rough = m["roughness"] ** 2
            shape = 1 - rough / (2 * (rough + 0.33)) + 0.45 * rough / (rough + 0.09) * (1 - cosine**2) / cosine
            received = s.gain * share**2 / path**2
            diffuse = received * (1 - mirror) * m["albedo"] / math.pi * cosine * shape
            window = torch.clamp(1 - (1 - cosine) / (1 - math.cos(s.glint_angle)), min=0) ** 2
            for radiance in (diffuse, received * mirror * window * s.glint):
                for f in range(2):
                    phase = 4 * math.pi * s.frequencies[f] / LIGHT * path
                    sums[f] = sums[f].index_add(0, ray // s.rays, torch.polar(radiance / s.rays, phase))
            turned = torch.where(
                (thin | ~glass)[:, None], d, ratio[:, None] * d + (ratio * cosine - behind)[:, None] * normal
            )
            through = torch.where(total, torch.zeros_like(share), share * (1 - mirror) * m["transmission"])
            d, share = torch.cat([d + 2 * cosine[:, None] * normal, turned]), torch.cat([share * mirror, through])
            keep = share.detach() ** 2 > 1e-9
            ray, o, path, last = (torch.cat([x, x])[keep] for x in (ray, o, path, face))
            d, share = d[keep], share[keep]
        return self._resolved([torch.remainder(torch.angle(x), 2 * math.pi) for x in sums])

    def _first(
        self, o: torch.Tensor, d: torch.Tensor, last: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Which rays hit, which triangle, how far: the search without a graph, the distance with one."""
        with torch.no_grad():
            whole = d @ torch.linalg.cross(self.u, self.v).T
            from_a = o[:, None] - self.a
            t = -(from_a * torch.linalg.cross(self.u, self.v)).sum(2) / whole
            e = torch.linalg.cross(from_a, d[:, None].expand_as(from_a))
            p, q = -(e * self.v).sum(2) / whole, (e * self.u).sum(2) / whole
            inside = (p >= -1e-12) & (q >= -1e-12) & (p + q <= 1 + 1e-12) & (t > 1e-9)
            inside &= torch.arange(len(self.a)) != last[:, None]
            nearest, face = torch.where(inside, t, torch.inf).min(1)
            hit = torch.isfinite(nearest)
        face = face[hit]
        normal = self.normal[face]
        return hit, face, ((self.a[face] - o[hit]) * normal).sum(1) / (d[hit] * normal).sum(1)

    def _resolved(self, phases: list[torch.Tensor]) -> torch.Tensor:
        rounds = [
            span * (phase[:, None] / (2 * math.pi) + torch.arange(most))
            for span, phase, most in zip(self.settings.spans, phases, (7, 8))
        ]
        apart = (rounds[0][:, :, None] - rounds[1][:, None, :]).abs().amin(2)
        return rounds[0].gather(1, apart.argmin(1, keepdim=True))[:, 0]
