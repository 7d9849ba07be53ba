import sys
from pathlib import Path

# Test modules are imported by path; what they share is found here.
sys.path.insert(0, str(Path(__file__).parent))
