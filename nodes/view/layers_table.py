"""Every layer of the live view: the one table that the node, the replay and the tests read.

Plain data, so that a layer is loaded when it is drawn. Another package's layer is named the same way in the node's
parameter `extra_layers`. Page: docs/view.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from nodes.view.stage.layer import Layer

__all__ = ["LAYERS", "layer_classes"]

#: name -> module and class; what comes first is drawn first, and its controls stand higher
LAYERS = {
    "supervisor": "nodes.view.layers.supervisor:SupervisorLayer",
    "robot": "nodes.view.layers.robot:RobotLayer",
    "ghost": "nodes.view.layers.ghost:GhostLayer",
    "path": "nodes.view.layers.path:PathLayer",
    "tracking": "nodes.view.layers.tracking:TrackingLayer",
    "parameters": "nodes.view.layers.parameters:ParametersLayer",
    "wrench": "nodes.view.layers.wrench:WrenchLayer",
    "scan": "nodes.view.layers.scan:ScanLayer",
    "lidar": "nodes.view.layers.lidar:LidarLayer",
    "cloud": "nodes.view.layers.cloud:CloudLayer",
    "belief": "nodes.view.layers.belief:BeliefLayer",
    "scores": "nodes.view.layers.scores:ScoresLayer",
    "stiffness": "nodes.view.layers.stiffness:StiffnessLayer",
    "image": "nodes.view.layers.image:ImageLayer",
    "devices": "nodes.view.layers.devices:DevicesLayer",
}


def layer_classes(extra: Iterable[str] = ()) -> list[type[Layer]]:
    """The classes of all layers, and of further ones given as "module:Class".

    Raises:
        ValueError: one that cannot be imported or is no layer; the text names it.
    """
    return [_load(where) for where in (*LAYERS.values(), *extra)]


def _load(where: str) -> type[Layer]:
    module, _, name = where.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"layer '{where}': expected 'module:Class' that can be imported ({error})") from None
    if not (isinstance(found, type) and issubclass(found, Layer)):
        raise ValueError(
            f"layer '{where}': expected a class derived from nodes.view.stage.layer.Layer, found {found!r}"
        )
    return found
