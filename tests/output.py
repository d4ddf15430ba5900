"""Reads scores in the JSON output of commands."""

from __future__ import annotations

from typing import Any

from harness.io.records import convert
from harness.records.scores import ProtocolResult, ScoreReport


def protocols(scores: Any) -> list[ProtocolResult]:
    """The results of scores.json, or of `scores` in the output of a command."""
    return convert(scores, ScoreReport, "scores").protocols
