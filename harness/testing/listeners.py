"""Who wants to know what `assert_quality` measured: the pytest plug-in. Imports nothing heavy."""

from __future__ import annotations

from typing import Any

LISTENING: list[list[dict[str, Any]]] = []
"""Every check is appended to each of these, as plain values (Checked.plain)."""
