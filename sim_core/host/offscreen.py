"""Drawing without a screen, in a process of its own: the drawing library has to be chosen before MuJoCo is imported, and a missing
or broken one may end the process.

    why = draw_in_child("sim_core.plant.portrait", (str(job), str(pictures)))      # "" or the sentence why there is nothing

EGL is asked first, then OSMesa. A process that draws all its life chooses for itself, before it imports MuJoCo:

    os.environ.setdefault("MUJOCO_GL", installed_back_end())
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from ctypes.util import find_library

__all__ = ["BACK_ENDS", "draw_in_child", "installed_back_end"]

BACK_ENDS = ("egl", "osmesa")
_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}


def installed_back_end() -> str:
    """What MUJOCO_GL says, else the first drawing library that is installed; "disable" where there is none.

    With a library that is missing MuJoCo could not even be imported; with none, only drawing fails.
    """
    installed = (name for name in BACK_ENDS if find_library(_LIBRARIES[name]))
    return os.environ.get("MUJOCO_GL") or next(installed, "disable")


def draw_in_child(module: str, words: Sequence[str], timeout: float = 300.0) -> str:
    """Run a module of ours that draws, with each drawing library in turn until one works.

    Args:
        module: its dotted name. words: its arguments.
        timeout: [s] for one library.

    Returns:
        "" where it has drawn, else the sentence why not, with what the last library said.
    """
    said = ""
    for back_end in BACK_ENDS:
        try:
            child = subprocess.run(
                [sys.executable, "-P", "-m", module, *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "MUJOCO_GL": back_end},
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"{back_end} took more than {timeout:.0f} s"
            continue
        if child.returncode == 0:
            return ""
        said = f"{back_end}: {(child.stderr.strip().splitlines() or ['ended without a word'])[-1][:200]}"
    return f"Nothing can be drawn here ({said}). Debian: apt-get install libegl1 libegl-mesa0 libosmesa6."
