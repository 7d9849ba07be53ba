"""Repairs the ROS wheels of this Python environment after an installation.

Their exported CMake files name the include folders of the machine that built the wheels
(/opt/python/cp311-cp311/...), where CMake refuses to generate. Both are rewritten to this
environment's. Run by `./refit` with the environment's Python; running it again changes nothing.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

_BUILDER = r"/opt/python/cp\d+-cp\d+"
_PYTHON_INCLUDE = re.compile(_BUILDER + r"/include/python3\.\d+")
_NUMPY_INCLUDE = re.compile(_BUILDER + r"/lib/python3\.\d+/site-packages/numpy/_?core/include")


def repaired(text: str, python_include: str, numpy_include: str) -> str:
    """`text` of a CMake file with the builder's include folders replaced by the given ones."""
    text = _NUMPY_INCLUDE.sub(lambda _: numpy_include, text)
    return _PYTHON_INCLUDE.sub(lambda _: python_include, text)


def repair(prefix: Path, python_include: str, numpy_include: str) -> tuple[list[Path], list[Path]]:
    """Repair every CMake file below `prefix`/share.

    Returns:
        Files changed, and files that still name the builder's paths (a layout not known here).
    """
    changed, left = [], []
    for path in sorted((prefix / "share").glob("*/cmake/*.cmake")):
        before = path.read_text(encoding="utf-8")
        after = repaired(before, python_include, numpy_include)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
        if re.search(_BUILDER, after):
            left.append(path)
    return changed, left


def main() -> int:
    import numpy

    changed, left = repair(Path(sys.prefix), sysconfig.get_paths()["include"], numpy.get_include())
    print(f"{len(changed)} CMake files repaired")
    for path in left:
        print(f"{path}: still names the path of the wheel's builder; building interfaces may fail", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
