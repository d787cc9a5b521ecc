"""Tests here share the module ``msccl_files``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
