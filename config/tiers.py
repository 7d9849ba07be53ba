"""Tiers: groups of packages that only some uses of the project need, installed when a command first needs them.

A robot that runs drivers and MPC has the base alone. `docs/environment.md` explains the tiers; each has its lock file,
`requirements-<tier>.lock`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util

__all__ = ["TIERS", "MissingTierError", "require"]

#: tier -> import names of the packages that the project asks of it directly; of one that holds data alone, its own name
TIERS = {
    "inference": ("numpyro", "jax", "jaxlib", "cma", "distributed"),
    "learning": ("torch", "sklearn"),
    "calibration": ("cv2",),
    "security": ("cryptography",),
    "robots": ("pinocchio", "example-robot-data"),
    "view": ("viser",),
    "telepresence": ("aiohttp", "aiortc"),
    "docs": ("pdoc",),
}


class MissingTierError(ImportError):
    """Something needs a tier that is not installed. The text is one sentence and names the remedy."""


def require(tier: str, purpose: str) -> None:
    """Refuse early, and in one sentence, what cannot be done without a tier.

    Args:
        tier: a key of `TIERS`.
        purpose: what needs it, as the subject of the sentence: "the method 'nuts'".

    Raises:
        MissingTierError: a package of the tier is absent.
    """
    missing = [name for name in TIERS[tier] if not _installed(name)]
    if missing:
        raise MissingTierError(
            f"{purpose} needs the packages of the tier '{tier}', of which {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed; run ./refit setup {tier}"
        )


def _installed(name: str) -> bool:
    if name.isidentifier():
        return importlib.util.find_spec(name) is not None
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
