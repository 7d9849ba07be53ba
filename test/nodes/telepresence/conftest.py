"""Where the tests find what they share."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the tier 'telepresence' is not installed: ./refit setup telepresence")

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what all tests share
sys.path.insert(0, str(Path(__file__).parent))
