"""Sizes and kinds of the networks that predict what primitives lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CHANNELS", "CPU", "KERNELS", "PIXELS", "PUBLISHED", "STRIDES", "ModelSettings"]

#: of a picture; of the convolutions on it, which stand in for a ResNet50
PIXELS = (64, 32)
CHANNELS, KERNELS, STRIDES = (3, 12, 24, 32), (4, 3, 3), (4, 2, 2)


@dataclass(frozen=True)
class ModelSettings:
    """What a network is made of.

    Attributes:
        kind: "recurrent", or "forward": the baseline that says all k states at once.
        history, horizon: states that it sees (l), states that it says (k).
        features: of picture, pose and force each. state: of the whole state (z). action: of an action. hidden: of both GRUs.
        attention: width of the additive attention.
        vision, touch: whether it sees pictures and feels forces.
        past_actions: whether the encoder is told the action before each state.
        change: says how states change from step to step instead of what they are.
        peaks: also says the largest lasting force inside of each primitive, which is what stops an arm (not published; recurrent only).
    """

    kind: Literal["recurrent", "forward"] = "recurrent"
    history: int = 7
    horizon: int = 7
    features: int = 24
    state: int = 64
    action: int = 16
    hidden: int = 64
    attention: int = 32
    vision: bool = True
    touch: bool = True
    past_actions: bool = False
    change: bool = True
    peaks: bool = False


#: for a machine without a GPU
CPU = ModelSettings()
#: widths with which it has about a third of the parameters of the published baseline, which the thesis says; reconstructed
PUBLISHED = ModelSettings(features=256, state=512, action=128, hidden=1024, attention=1024, change=False)
