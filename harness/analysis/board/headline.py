"""The headline metrics of a board: those that are shown where there is room for a few numbers."""

from __future__ import annotations

from harness.analysis.board.records import BoardProtocol, Entry
from harness.scoring.scores import main_metrics

_METRICS = {
    "memory": ("recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "recall@100", "map@100"),
}


def headline(entry: Entry) -> tuple[BoardProtocol | None, list[str]]:
    """Returns the headline protocol and metrics of an entry; the first metric orders the board.

    Memory's where there are several abilities, else trec's; None where neither has a number.
    """
    protocols = {one.name: one for one in reversed(entry.protocols)}
    several = "memory" in protocols and len(protocols["memory"].slices) > 3
    for name in ("memory", "trec") if several else ("trec", "memory"):
        if name in protocols and (overall := protocols[name].overall):
            shown = [metric for metric in _METRICS[name] if metric in overall]
            # The haystacks may hold fewer documents than the usual cut-offs.
            shown = shown or main_metrics(overall, main=_METRICS[name]) or list(overall)[:4]
            return protocols[name], shown
    return None, []


def board_headline(entries: list[Entry]) -> tuple[BoardProtocol | None, list[str]]:
    """Returns the headline protocol and metrics of the first entry that has them."""
    return next((found for entry in entries if (found := headline(entry))[0]), (None, []))
