"""The metrics, each from its definition in docs/reference/metrics.md, for one query at a time.

At the end, the same for turns scored as sessions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference.key import Document, Judged

_NAME = re.compile(r"([a-z_0-9]+?)(?:\(rel=(\d+)\))?(?:@(\d+))?")

_EVERYTHING = 1 << 62
"""The cut-off of a metric without one."""

NAMES = (
    *("recall", "hit", "recall_all", "precision", "precision_returned", "f1", "rprec", "judged"),
    *("mrr", "map", "ndcg", "ndcg_exp", "ndcg_b2"),
)


@dataclass(frozen=True)
class Metric:
    """`recall(rel=2)@10`: a name, the grade from which on is relevant, a cut-off or none."""

    name: str
    rel: int
    k: int | None

    @classmethod
    def read(cls, text: str) -> Metric | None:
        """None for what stands not in NAMES."""
        found = _NAME.fullmatch(text)
        if found is None or found[1] not in NAMES:
            return None
        k = int(found[3]) if found[3] else None
        return (
            None if k is not None and not 0 < k < 1 << 31 else cls(found[1], int(found[2] or 1), k)
        )

    @property
    def of_sessions(self) -> bool:
        """Whether there is such a metric of turns scored as sessions."""
        counted = self.name in ("recall", "hit", "recall_all")
        return self.k is not None and (counted or self.name.startswith("ndcg"))


class Answer:
    """One query's ranking laid beside its judgements.

    `grade` of each judged document (the highest, where it stands for several pieces of evidence),
    `rank`, from 1, of those that were returned, and how many documents were `returned`.
    """

    def __init__(self, judged: Sequence[Judged], ranking: Sequence[str]) -> None:
        self.grade: dict[str, int] = {}
        for one in judged:
            self.grade[one.document] = max(one.grade, self.grade.get(one.document, one.grade))
        self.rank = {d: rank for rank, d in enumerate(ranking, 1) if d in self.grade}
        self.returned = len(ranking)
        self._judged = judged
        self._evidence: dict[int, list[set[str]]] = {}

    def evidence(self, rel: int = 1) -> list[set[str]]:
        """The pieces of evidence, each as the documents that carry it; see `evidence`."""
        if rel not in self._evidence:
            self._evidence[rel] = evidence(self._judged, rel)
        return self._evidence[rel]


def evidence(judged: Sequence[Judged], rel: int = 1) -> list[set[str]]:
    """The pieces of evidence, each as the documents that carry it.

    A document of grade `rel` or more is its own piece, unless the key names the piece (its unit).
    """
    pieces: dict[tuple[str, object], set[str]] = {}
    for line, one in enumerate(judged):
        if one.grade >= rel:
            piece = ("own", line) if one.evidence_id is None else ("named", one.evidence_id)
            pieces.setdefault(piece, set()).add(one.document)
    return list(pieces.values())


def value(metric: Metric, of: Answer) -> float | None:
    """A metric for one query; None where nothing is relevant (of `judged`: nothing is judged)."""
    k = metric.k if metric.k is not None else _EVERYTHING
    grade, rank = of.grade, of.rank
    if metric.name == "judged":
        if not grade:
            return None
        seen = [d for d, at in rank.items() if at <= k and grade[d] >= 0]
        return len(seen) / min(of.returned, k) if of.returned else 0.0
    if metric.name.startswith("ndcg"):
        return ndcg(metric.name, grade, rank, k)
    relevant = sum(g >= metric.rel for g in grade.values())
    if not relevant:
        return None
    found = [at for d, at in rank.items() if at <= k and grade[d] >= metric.rel]  # ascending
    match metric.name:
        case "recall" | "hit" | "recall_all":
            pieces = of.evidence(metric.rel)
            there = [piece for piece in pieces if any(rank.get(d, k + 1) <= k for d in piece)]
            if metric.name == "recall":
                return len(there) / len(pieces)
            return float(bool(there) if metric.name == "hit" else len(there) == len(pieces))
        case "precision":
            return len(found) / k
        case "precision_returned":
            return len(found) / min(of.returned, k) if of.returned else 0.0
        case "f1":
            return 2 * len(found) / (k + relevant)
        case "rprec":
            return sum(at <= relevant for at in found) / relevant
        case "mrr":
            return 1 / found[0] if found else 0.0
        case "map":
            return math.fsum(nth / at for nth, at in enumerate(found, 1)) / relevant
    raise AssertionError(metric.name)


def ndcg(name: str, grade: dict[str, int], rank: dict[str, int], k: int) -> float | None:
    """DCG of the ranking / DCG of the ideal order of everything relevant, both down to rank k.

    `ndcg`: gain = grade, discount log2(rank + 1). `ndcg_exp`: gain = 2^grade - 1. `ndcg_b2`:
    discount log2(rank), and none at ranks 1 and 2. None where nothing is relevant.
    """

    def gain(g: int) -> float:
        return 2.0**g - 1 if name == "ndcg_exp" else float(g)

    def discount(at: int) -> float:
        return math.log2(max(at, 2)) if name == "ndcg_b2" else math.log2(at + 1)

    best = sorted((g for g in grade.values() if g >= 1), reverse=True)
    if not best:
        return None
    ideal = math.fsum(gain(g) / discount(at) for at, g in enumerate(best[:k], 1))
    there = {d: at for d, at in rank.items() if at <= k and grade[d] >= 1}
    return math.fsum(gain(grade[d]) / discount(at) for d, at in there.items()) / ideal


Session = tuple[object, ...]


def session_values(
    metrics: Mapping[str, Metric],
    judged: Sequence[Judged],
    ranking: Sequence[str],
    held: Mapping[str, Document],
    *,
    renamed: bool,
) -> dict[str, tuple[float | None, bool]]:
    """Turns scored as sessions, by LongMemEval's rule (evaluate_retrieval_turn2session).

    Strip each returned turn to its session. Grow a cut-off from k until the turns above it come
    from k different sessions; that is the effective k, at which the ranking of turns is scored. The
    pieces of evidence are the sessions of the gold turns.

    Gives for each metric the value of one query, None where no turn is gold, and whether k
    different sessions were met at all. `renamed`: the turns of a gold session that are not gold
    count as another session, and do not bring it.
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
