"""What no longer holds, was to be forgotten, or was not yet said: the same by ids, one at a time.

Numbers stand by the path where scores.json has them, as in sections.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from reference.key import Changed, Key
from reference.rankings import Ranking
from reference.sections import Numbers


def changes(
    key: Key,
    counted: Sequence[str],
    replied: Collection[str],
    run: Mapping[str, Ranking],
    ks: Sequence[int],
) -> Numbers:
    """How many questions there are of each kind, and their numbers at each k.

    Over queries that are `counted`, and have a ranking or are known to have been answered.
    """
    found: dict[str, list[float]] = {}
    n = {"n_after_update": 0, "n_after_forget": 0, "n_with_future": 0}
    if not key.changes:
        return {}
    for id_ in counted:
        if id_ not in run and id_ not in replied:
            continue
        query, ranking = key.queries[id_], run[id_].documents if id_ in run else []
        grades: dict[str, int] = {}
        for one in key.of("default", id_):
            grades[one.document] = max(one.grade, grades.get(one.document, one.grade))
        came = [
            change
            for change in key.changes.get(query.haystack, ())
            if query.timestamp is None or change.timestamp <= query.timestamp
        ]
        left_out = key.left_out(id_)
        forgotten = {c.document for c in came if c.kind == "forget" if _judged(grades, c) >= 0}
        updates = [change for change in came if change.kind != "forget"]
        evidence = {
            change.document
            for change in updates
            if change.kind == "key-update" and query.ability == "knowledge-update"
            if _judged(grades, change) > 0 and grades.get(change.by or "", -1) > 0
        }
        outdated = evidence | {c.document for c in updates if _judged(grades, c) == 0}
        now = set()
        for document in outdated:
            now |= _ends(document, updates, set())
        now -= outdated | forgotten
        outdated.discard(left_out or "")
        forgotten.discard(left_out or "")
        latest = key.latest.get(query.haystack)
        early = query.timestamp is not None and latest is not None and latest > query.timestamp
        n["n_after_update"] += bool(outdated)
        n["n_after_forget"] += bool(forgotten)
        n["n_with_future"] += early
        for k in ks:
            top = ranking[:k]
            if outdated:
                first = next((d for d in top if d in outdated or d in now), None)
                _add(found, f"outdated_returned@{k}", bool(outdated & set(top)))
                _add(found, f"outdated_above@{k}", first in outdated)
            if forgotten:
                _add(found, f"forgotten_returned@{k}", bool(forgotten & set(top)))
            if early:
                held = key.held(id_)
                said = [held[d].timestamp for d in top if d in held]
                later = any(at is not None and at > (query.timestamp or 0) for at in said)
                _add(found, f"future_returned@{k}", later)
    means: Numbers = {(name,): fmean(values) for name, values in found.items()}
    return {**{(name,): count for name, count in n.items()}, **means}


def _judged(grades: Mapping[str, int], change: Changed) -> int:
    """The grade of what was changed; -1 where nobody judged it."""
    return grades.get(change.document, -1)


def _ends(document: str, updates: Sequence[Changed], seen: set[str]) -> set[str]:
    """What replaced a document, by one step or several."""
    for one in updates:
        if one.document == document and one.by is not None and one.by not in seen:
            seen.add(one.by)
            _ends(one.by, updates, seen)
    return seen


def _add(found: dict[str, list[float]], name: str, value: bool) -> None:
    found.setdefault(name, []).append(float(value))
