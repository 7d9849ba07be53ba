"""Compiled kernels that a demonstration's nodes will ask for: made before they start, so that the wait is seen for what it is.

What a robot's nodes need is remembered beside the kernels themselves. If all of it is still there, the models need not be built
here a second time only to find that nothing is to be done.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from config.description import SwingUp
from config.robot import load_robot, node_settings
from config.whole_file import whole_file
from reporting.progress import SilentProgress
from sim_core.codegen import compiler

__all__ = ["load_kernels"]

ROOT = Path(__file__).parents[2]
SOURCES = ("config", "nodes/control", "sim_core")  # what the kernels' text is made by


def load_kernels(robot: str, recipe: str, progress=SilentProgress(), free: str = "") -> bool:
    """Compile what the controller and the refit worker of a robot will need, unless it is there.

    Args:
        robot: name in config/robots, or the path of its folder.
        recipe: "robust" or "literal". free: what the refit may change besides what the task says.

    Returns:
        Had anything to be built or looked up in the models?
    """
    memory = compiler.cache_directory() / f"needed-{_key(robot, recipe, free)}.json"
    needed = _remembered(memory)
    if needed and all(compiler.intact(memory.parent / name) for name in needed):
        return False
    before = set(compiler.USED)
    compiler.USED.clear()
    with progress.stage("physics kernels (compiled on the first start only)", None):
        _build(robot, recipe, free)
    with whole_file(memory) as complete:
        complete.write_text(json.dumps(sorted(path.name for path in compiler.USED)))
    compiler.USED.update(before)
    return True


def _key(robot: str, recipe: str, free: str) -> str:
    """Stands for all that the kernels depend on: the program's text, the robot's files, options, compiler and CPU."""
    digest = hashlib.sha256()
    for part in (recipe, free, compiler.cpu(), compiler.compiler_version(compiler.find_compiler() or "")):
        digest.update(part.encode() + b"\0")
    folders = [*(ROOT / source for source in SOURCES), load_robot(robot).folder]
    for folder in folders:
        for file in sorted(each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:24]


def _remembered(memory: Path) -> list[str]:
    """Names of files; none if there is no such memory or it makes no sense."""
    try:
        names = json.loads(memory.read_text())
    except (OSError, ValueError):
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _build(robot: str, recipe: str, free: str) -> None:
    from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
    from nodes.control.refit_session import RefitSession, session_model
    from nodes.control.refit_worker_config import RefitWorkerConfig
    from nodes.control.robot_task import control_task
    from sim_core.control.ilqr import BoxIlqr

    description = load_robot(robot)
    prior = dict(physical_parameters="start") if isinstance(description.task, SwingUp) else {}
    profile = node_settings(robot, "refit_worker") | prior | ({"free": free} if free else {})
    config = RefitWorkerConfig(robot=robot, recipe=recipe, **profile)
    model = session_model(config)
    task = control_task(description, model, AdaptiveMpcConfig(robot=robot, recipe=recipe))
    BoxIlqr(model, task.cost, task.ilqr)
    RefitSession(model, config).warm_up()
