"""What a system reports of its costs, found wherever it stands in the report."""

from __future__ import annotations

from typing import Any


def embedders(reported: Any) -> list[dict[str, Any]]:
    """What embedders say of themselves, at any depth: a retriever may stand inside another."""
    if isinstance(reported, dict):
        if "texts_asked" in reported:
            return [reported]
        reported = list(reported.values())
    if not isinstance(reported, list):
        return []
    return [found for one in reported for found in embedders(one)]
