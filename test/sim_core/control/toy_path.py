"""Makes the toy cart-pole of the inference tests importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))
