"""From recording to parameters and report: the use cases, which commands, nodes, experiments and scripts call alike.

    from identification import calibrate_tool, identify, infer, open_bag, train

    outcome = identify("runs/today/bag", ["hand.payload", "joint*.damping"])    # one optimum with intervals
    write_identification(outcome, "runs/today/bag")

    recordings = [open_recording("runs/today/bag")]                             # of the package `recording`
    inference = infer(recordings, InferConfig("csvgd", limits={"hand.mass": (0.5, 3.0)}))   # particles
    trained = train(recordings, "friction.yaml", TrainConfig())                 # networks in the equations

    found = calibrate_tool(open_bag("runs/today/bag"))                          # also camera, scanner, servos
    write_calibration(found, "runs/today/bag")

What cannot be used raises UnusableInput, with one sentence. To import this package costs nothing: a name loads its module
when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identification.calibrate.calibration import Calibration, open_bag, write_calibration
    from identification.calibrate.camera import CameraSettings, calibrate_camera
    from identification.calibrate.scanner import ScannerSettings, calibrate_scanner
    from identification.calibrate.servos import ServoSettings, calibrate_servos
    from identification.calibrate.tool import ToolSettings, calibrate_tool
    from identification.errors import UnusableInput
    from identification.identify_bag import BagIdentification, identify, parameter_file
    from identification.identify_results import write_identification
    from identification.infer_report import inference_result, write_inference
    from identification.infer_settings import InferConfig
    from identification.inference import Inference, infer
    from identification.training import TrainConfig, Trained, train
    from identification.training_report import write_training

#: name -> module below this package that defines it
_HOME = {
    "BagIdentification": "identify_bag",
    "Calibration": "calibrate.calibration",
    "CameraSettings": "calibrate.camera",
    "InferConfig": "infer_settings",
    "Inference": "inference",
    "ScannerSettings": "calibrate.scanner",
    "ServoSettings": "calibrate.servos",
    "ToolSettings": "calibrate.tool",
    "TrainConfig": "training",
    "Trained": "training",
    "UnusableInput": "errors",
    "calibrate_camera": "calibrate.camera",
    "calibrate_scanner": "calibrate.scanner",
    "calibrate_servos": "calibrate.servos",
    "calibrate_tool": "calibrate.tool",
    "identify": "identify_bag",
    "infer": "inference",
    "inference_result": "infer_report",
    "open_bag": "calibrate.calibration",
    "parameter_file": "identify_bag",
    "train": "training",
    "write_calibration": "calibrate.calibration",
    "write_identification": "identify_results",
    "write_inference": "infer_report",
    "write_training": "training_report",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'identification' has no attribute '{name}'")
    return getattr(importlib.import_module(f"identification.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOME)
