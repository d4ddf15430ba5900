"""The retrievers in examples/retrievers are imported by the names of their files."""

from __future__ import annotations

import sys

from places import EXAMPLES

sys.path.append(str(EXAMPLES / "retrievers"))
