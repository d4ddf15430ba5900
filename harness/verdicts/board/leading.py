"""What a board is shown by, where there is room for a few numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.scoring.scores import main_metrics

_METRICS = {
    "memory": ("recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "recall@100", "map@100"),
}

Key = tuple[str, str, str, str]
"""Protocol with its version, unit, order of ties, and what a missing ranking counts."""


def key_of(block: Mapping[str, Any]) -> Key:
    """What must be the same for the cells of two entries to stand in one column."""
    return (block["protocol"], block["level"], block["ties"], str(block["missing"]))


def leading(entry: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, list[str]]:
    """The protocol and the metrics that an entry is shown by, the first of them before all.

    Memory's where there are several abilities, else trec's; None where neither has a number.
    """
    blocks = {b["protocol"].partition("/")[0]: b for b in reversed(entry["protocols"])}
    several = len(blocks.get("memory", {}).get("slices", {})) > 3
    for name in ("memory", "trec") if several else ("trec", "memory"):
        cells = blocks.get(name, {}).get("slices", {}).get("all", {})
        if cells:
            shown = [metric for metric in _METRICS[name] if metric in cells]
            # The haystacks may hold fewer documents than the usual cut-offs.
            shown = shown or main_metrics(cells, main=_METRICS[name]) or list(cells)[:4]
            return blocks[name], shown
    return None, []
