"""`python -m sim_core.adoption FILE`: print the folder of the robot that a model file describes, made first if need be.

What config.robot asks where a model file is named as a robot. Exit code 2: refused; the last line of stderr says why.
"""

from __future__ import annotations

import sys

from sim_core.adoption import AdoptionError, adopted


def main(path: str) -> int:
    """Exit code."""
    try:
        print(adopted(path))
    except AdoptionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
