"""Turns scored as sessions, by LongMemEval's rule (evaluate_retrieval_turn2session).

Strip each returned turn to its session. Grow a cut-off from k until the turns above it come from k
different sessions; that is the effective k, at which the ranking of turns is scored. The pieces of
evidence are the sessions of the gold turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.verdicts.verify.formulas import Answer, Metric, ndcg
from harness.verdicts.verify.key import Document, Judged

Session = tuple[object, ...]


def session_values(
    metrics: Mapping[str, Metric],
    judged: Sequence[Judged],
    ranking: Sequence[str],
    held: Mapping[str, Document],
    *,
    renamed: bool,
) -> dict[str, tuple[float | None, bool]]:
    """For each metric the value of one query, and whether k different sessions were met at all.

    None where no turn is gold. `renamed`: the turns of a gold session that are not gold count as
    another session, and do not bring it.
    """
    grade = Answer(judged, ()).grade
    gold = {d for d in grade if grade[d] >= 1}

    def session(document: str) -> Session:
        named = held[document].session if document in held else None
        return ("none", document) if named is None else ("session", named)

    of_turns = [session(d) for d in ranking]
    counted_as = of_turns
    if renamed:
        counted_as = [(*s, d in gold) for s, d in zip(of_turns, ranking, strict=True)]
    wanted = {session(d) for d in gold}
    found: dict[str, tuple[float | None, bool]] = {}
    for text, metric in metrics.items():
        assert metric.k is not None
        cut = effective_k(counted_as, metric.k)
        top = range(len(ranking) if cut is None else cut)
        value = None
        if gold and metric.name.startswith("ndcg"):
            rank = {ranking[i]: i + 1 for i in top if ranking[i] in grade}
            value = ndcg(metric.name, grade, rank, len(ranking) + 1 if cut is None else cut)
        elif gold:
            brought = wanted & {of_turns[i] for i in top if ranking[i] in gold or not renamed}
            value = {
                "recall": len(brought) / len(wanted),
                "hit": float(bool(brought)),
                "recall_all": float(brought == wanted),
            }[metric.name]
        found[text] = value, cut is not None
    return found


def effective_k(sessions: Sequence[Session], k: int) -> int | None:
    """How many turns it takes to meet k different sessions; None where there are fewer."""
    met: set[Session] = set()
    for at, session in enumerate(sessions, 1):
        met.add(session)
        if len(met) == k:
            return at
    return None
