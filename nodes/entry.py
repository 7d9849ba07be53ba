"""Console scripts: the first lines that run, so that Ctrl-C during the slow imports is quiet too."""

from __future__ import annotations

import importlib
import os
import signal

__all__ = ["ability_hand", "adaptive_mpc", "audio", "augmentation", "dynamixel", "estop", "force_torque", "inference", "rangefinder", "realsense",
           "recorder", "refit_worker", "robot_state", "robotiq", "sim_plant", "stance_controller", "static_transform", "supervisor", "urg"]


def _main(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))     # nothing has started: nothing to end
    # Blocked until here by nodes/launching.py's shield.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    return importlib.import_module(f"nodes.{module}").main()


def sim_plant() -> int:
    return _main("sim_plant")


def adaptive_mpc() -> int:
    return _main("adaptive_mpc")


def refit_worker() -> int:
    return _main("refit_worker")


def stance_controller() -> int:
    return _main("stance_controller")


def recorder() -> int:
    return _main("recorder")


def supervisor() -> int:
    return _main("supervisor")


def urg() -> int:
    return _main("urg")


def audio() -> int:
    return _main("audio")


def realsense() -> int:
    return _main("realsense")


def dynamixel() -> int:
    return _main("dynamixel")


def robotiq() -> int:
    return _main("robotiq")


def ability_hand() -> int:
    return _main("ability_hand")


def force_torque() -> int:
    return _main("force_torque")


def rangefinder() -> int:
    return _main("rangefinder")


def augmentation() -> int:
    return _main("augmentation")


def inference() -> int:
    return _main("inference")


def estop() -> int:
    return _main("estop")


def static_transform() -> int:
    return _main("static_transform")


def robot_state() -> int:
    return _main("robot_state")
