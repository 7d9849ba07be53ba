"""What the doctor's two examinations, of the machine and of its devices, have in common.

Uses the standard library alone and runs on Python 3.9, as `cli/doctor.py` has to.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

#: the checkout
ROOT = Path(__file__).resolve().parent.parent

#: OK; NOTE: absent, and only some uses need it; WARNING: works, but not well; ESSENTIAL: refit cannot work like this
OK, NOTE, WARNING, ESSENTIAL = "ok", "note", "warning", "essential"


@dataclass(frozen=True)
class Finding:
    """One line about one thing.

    Attributes:
        topic: what was looked at.
        status: OK; NOTE: absent, and only some uses need it; WARNING: works, but not well;
            ESSENTIAL: refit cannot work like this.
        text: what was found.
        remedy: what to do about it; "" when there is nothing to do.
    """

    topic: str
    status: str
    text: str
    remedy: str = ""


def in_environment() -> bool:
    """Whether this Python is that of refit's environment, where its packages are."""
    return sys.prefix != sys.base_prefix and Path(sys.prefix).parent == ROOT
