"""Helpers beside these tests, and the GPU's stand-in above them, can be imported by name."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
