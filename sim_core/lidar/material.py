"""What a surface does with light: scatter, reflect, let through, emit.

Source: Heiden, PhD thesis (University of Southern California), section 3.1.3; Heiden, Liu, Ramachandran, Sukhatme (ICRA 2020);
Oren and Nayar (SIGGRAPH 1994) for rough surfaces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ACRYLIC", "GLASS", "MIRROR", "PAPER", "Material", "black_body"]

#: Planck's constant [J s], speed of light [m/s], Boltzmann's constant [J/K]; wavelength of the URG-04LX's laser [m]
PLANCK, LIGHT, BOLTZMANN = 6.62607015e-34, 299792458.0, 1.380649e-23
LASER = 785e-9


@dataclass(frozen=True)
class Material:
    """A weighted set of ways to scatter.

    Of the light that arrives, a share F is reflected as by a mirror: Fresnel's for an `index`, else `reflectivity`. Of the rest,
    `albedo` is scattered and `transmission` goes through, so that no energy is made.

    Attributes:
        albedo: share scattered diffusely, k_R of the source [1]. roughness: standard deviation of the tilt of facets, Oren and
            Nayar's sigma [rad]; 0: Lambertian.
        reflectivity: of a mirror [1]; without an index. index: of refraction [1]; 0: none.
        transmission: share that goes through [1]; with an index it is refracted, unless `thin`.
        emission: radiance that it sends by itself, not modulated, in the emitter's unit (`black_body` over what that is). It is
            an offset of what is received, which the phases do not see.
        thin: a sheet with two faces at one place, which light crosses straight on.

    Raises:
        ValueError: a value out of its range, or more light goes out than comes in.
    """

    albedo: float = 0.0
    roughness: float = 0.0
    reflectivity: float = 0.0
    index: float = 0.0
    transmission: float = 0.0
    emission: float = 0.0
    thin: bool = False

    def __post_init__(self) -> None:
        ranges = {
            "albedo": 1.0,
            "roughness": 1.0,
            "reflectivity": 1.0,
            "index": 5.0,
            "transmission": 1.0,
            "emission": 1e6,
        }
        for name, most in ranges.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value <= most):
                raise ValueError(f"a material's {name} is between 0 and {most:g}, not {value}")
        if 0.0 < self.index < 1.0:
            raise ValueError(f"a material's index is 0 (none) or at least 1, not {self.index}")
        if self.index > 0.0 and self.reflectivity > 0.0:
            raise ValueError("a material reflects by its index or by a reflectivity, not by both; leave one of them 0")
        if self.albedo + self.transmission > 1.0 + 1e-12:
            raise ValueError(
                f"a material scatters and lets through at most all light: albedo {self.albedo} and "
                f"transmission {self.transmission} are more than 1 together"
            )

    @property
    def refracts(self) -> bool:
        """Whether light changes its direction inside, so that its surface must be closed."""
        return self.transmission > 0.0 and self.index > 0.0 and not self.thin


def black_body(temperature: float, wavelength: float = LASER) -> float:
    """Radiance of a black body per wavelength [W / (m^2 sr m)] at a temperature [K] (Planck; the source's section 3.1.3.1).

    Raises:
        ValueError: a temperature or wavelength that is not positive.
    """
    if not (temperature > 0.0 and wavelength > 0.0):
        raise ValueError(f"a temperature [K] and a wavelength [m] are positive, not {temperature} and {wavelength}")
    exponent = PLANCK * LIGHT / (wavelength * BOLTZMANN * temperature)
    return 2.0 * PLANCK * LIGHT**2 / wavelength**5 * math.exp(-exponent) / -math.expm1(-exponent)


PAPER = Material(albedo=0.8)
MIRROR = Material(reflectivity=0.95)
GLASS = Material(index=1.5, transmission=1.0)
ACRYLIC = Material(albedo=0.02, index=1.49, transmission=0.98, thin=True)
