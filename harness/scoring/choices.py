"""How to score, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ties


@dataclass(frozen=True)
class Choices:
    """How to score. Empty: every fitting protocol, and each protocol's own cut-offs.

    `answers`: returned texts against reference answers too, which systems that return texts get
    anyway (see answers.py).
    """

    protocols: Sequence[str] = ()
    ks: Sequence[int] = ()
    metrics: Sequence[Metric] = ()
    ties: Ties | None = None
    missing: str = "zero"
    answers: bool = False


@dataclass
class Scores:
    """The result: `summary` is plain JSON values, `per_query` one row a query and protocol,
    `left_out` the ids that a protocol did not score, by protocol and reason."""

    summary: dict[str, Any]
    per_query: pa.Table
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)
