"""Test modules are imported by path; what those of controllers share is found here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
