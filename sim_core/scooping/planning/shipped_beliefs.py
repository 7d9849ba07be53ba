"""What a robot may believe of scoops before its first one: one of the models that come with the project, or none.

    belief, size = shipped_belief("codega")
    planner = ScoopPlanner(grid(), belief, size=size)

data/scooping/README.md says how the models were made. It needs the packages of the tier "learning"; "swept" needs none.
"""

from __future__ import annotations

from pathlib import Path

from config.share import shared_folder
from config.tiers import require
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.bed.swept import Blade
from sim_core.scooping.planning.policies import Belief, ModelBelief, SweptBelief

__all__ = ["FOLDER", "POLICIES", "shipped_belief"]

FOLDER = "data/scooping"
#: policy -> in words
POLICIES = {
    "codega": "a deep kernel that adapts to the scoops so far",
    "codega_places": "one that besides knows where they were, which is ours",
    "non_adaptive": "the first expectation of codega, which does not adapt",
    "swept": "as much as the scoop passes through, without a model",
}
#: width of the views of a policy that sees none [px]
SMALL = 32


def shipped_belief(policy: str, folder: Path | None = None) -> tuple[Belief, int]:
    """A belief and the width of the views that it is shown [px].

    Args:
        policy: a key of `POLICIES`. folder: with the models; None: the project's.

    Raises:
        ValueError: there is no such policy. MissingTierError: torch is not installed.
        FileNotFoundError, ModelFileError: the model is not there, or cannot be read.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy: expected one of {', '.join(POLICIES)}, found '{policy}'")
    if policy == "swept":
        return SweptBelief(Blade(width=ScoopShape().width)), SMALL
    require("learning", f"the policy '{policy}'")
    from sim_core.meta.model import NonAdaptive
    from sim_core.meta.model_file import load_model
    from sim_core.scooping.learning.network import ScoopExtractor

    name = "codega" if policy == "non_adaptive" else policy
    path = (folder or shared_folder(FOLDER)) / f"{name}.safetensors"
    size = _crop(path)
    model = load_model(path, lambda: ScoopExtractor(crop=size))
    return ModelBelief(NonAdaptive(model) if policy == "non_adaptive" else model), size


def _crop(path: Path) -> int:
    """Width of the views that a model was trained with."""
    import json

    from safetensors import safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no model at {path}; data/scooping/README.md says how it is made")
    with safe_open(path, framework="pt") as file:
        return int(json.loads(file.metadata()["extractor"])["crop"])
