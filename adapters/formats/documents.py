"""A batch of plain documents, as columns: how the readers of large corpora hand them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Documents:
    """Columns of equal length; `lines` says where in the file each document stands."""

    lines: Sequence[int]
    ids: list[str]
    texts: list[str]
    titles: list[str | None] | None = None
