"""What the doctor's two examinations, of the machine and of its devices, have in common.

Uses the standard library alone and runs on Python 3.9, as `cli/doctor.py` has to.
"""

from pathlib import Path

#: the checkout
ROOT = Path(__file__).resolve().parent.parent

#: OK; NOTE: absent, and only some uses need it; WARNING: works, but not well; ESSENTIAL: refit cannot work like this
OK, NOTE, WARNING, ESSENTIAL = "ok", "note", "warning", "essential"
