"""Where things stand: the checkout, the examples in it, and the real data beside it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
DATA = Path(os.environ.get("HARNESS_TEST_DATA", ROOT.parent / "shared" / "data"))
