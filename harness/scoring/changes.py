"""Measures how often outdated, forgotten and future documents are returned. Lower is better.

Uses the default qrels of a dataset with changes (schema.Change). A question follows a change if it
has no time, or a time that is not before the change. For such a question

* a document is *outdated* if an update has replaced it and its grade is 0: a question may ask for
  a replaced document that is relevant ("where did she live before?"). If updates are known from
  the qrels only (`key-update`), the old document may be evidence together with the new one; for a
  knowledge-update question it is outdated nevertheless;
* a document is *forgotten* if it should have been deleted and is judged, with any grade;
* a document is in the *future* if it is later than the question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.datasets.reader import ChangedRow, Dataset
from harness.records.scores import ChangesResult
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values, mean, ratio
from harness.scoring.metrics.definition import none_found
from harness.scoring.ranks import NOT_RETRIEVED
from harness.scoring.resolve import Resolved, sizes_by_query


@dataclass(frozen=True)
class _Group:
    """Number of documents of a kind in a question's haystack, and the rank of the first."""

    n: int
    rank: int


@dataclass(frozen=True)
class _Case:
    """A question. `current`: replacements of its outdated documents that are not outdated."""

    size: int
    outdated: _Group
    current: _Group
    forgotten: _Group
    future: _Group


def after_changes(
    dataset: Dataset, resolved: Resolved, asked: Flags, cutoffs: Sequence[int], signature: str
) -> ChangesResult | None:
    """Computes the shares of the questions `asked`, (n,), with such documents in the top k.

    outdated_returned@k, forgotten_returned@k, future_returned@k: over the questions that have such
    documents. outdated_above@k: an outdated document is in the top k, ranked above all documents
    that replaced it. None without such questions. `random_baseline` has the expected values of
    random orders, with the same keys; `signature` is the signature template.
    """
    if not dataset.has_changes:
        return None
    cases = list(_cases(dataset, resolved, asked))
    updated = [case for case in cases if case.outdated.n]
    told_to_forget = [case for case in cases if case.forgotten.n]
    early = [case for case in cases if case.future.n]
    if not updated and not told_to_forget and not early:
        return None
    values: dict[str, tuple[Flags, Values]] = {}
    for cutoff in cutoffs:
        if updated:
            values[f"outdated_returned@{cutoff}"] = _returned(updated, "outdated", cutoff)
            values[f"outdated_above@{cutoff}"] = _above(updated, cutoff)
        if told_to_forget:
            values[f"forgotten_returned@{cutoff}"] = _returned(told_to_forget, "forgotten", cutoff)
        if early:
            values[f"future_returned@{cutoff}"] = _returned(early, "future", cutoff)
    counts = {"outdated": len(updated), "forgotten": len(told_to_forget), "future": len(early)}
    return ChangesResult(
        n_after_update=len(updated),
        n_after_forget=len(told_to_forget),
        n_with_future=len(early),
        n={name: counts[name.partition("_")[0]] for name in values},
        values={name: mean(found.astype(float)) for name, (found, _) in values.items()},
        random_baseline={name: mean(level) for name, (_, level) in values.items()},
        signature=signature,
    )


def _returned(cases: Sequence[_Case], kind: str, cutoff: int) -> tuple[Flags, Values]:
    """Tests whether a document of a kind is in the top k; also returns the random baseline."""
    groups: list[_Group] = [getattr(case, kind) for case in cases]
    size = np.array([case.size for case in cases])
    n, rank = _columns(groups)
    return rank <= cutoff, 1 - none_found(size, n, np.minimum(cutoff, size))


def _above(cases: Sequence[_Case], cutoff: int) -> tuple[Flags, Values]:
    size = np.array([case.size for case in cases])
    old, first_old = _columns([case.outdated for case in cases])
    new, first_new = _columns([case.current for case in cases])
    seen = 1 - none_found(size, old + new, np.minimum(cutoff, size))
    return (first_old <= cutoff) & (first_old < first_new), ratio(old, old + new) * seen


def _columns(groups: Sequence[_Group]) -> tuple[Ints, Ints]:
    return np.array([one.n for one in groups]), np.array([one.rank for one in groups])


def _cases(dataset: Dataset, resolved: Resolved, asked: Flags) -> Iterator[_Case]:
    sizes = sizes_by_query(dataset)
    stamps = dataset.query_table["timestamp"].to_pylist()
    starts = np.searchsorted(resolved.query, np.arange(dataset.n_queries + 1))
    grades = _Grades(dataset)
    haystacks, abilities = dataset.query_haystack, dataset.abilities
    for haystack in np.unique(haystacks[asked]).tolist():
        changes, said = dataset.changes(haystack), _SaidTimes(dataset, haystack)
        for query in np.flatnonzero(asked & (haystacks == haystack)).tolist():
            when = stamps[query]
            by_then = [one for one in changes if when is None or one.timestamp <= when]
            judged = grades.of(query)
            forgotten = {
                c.row for c in by_then if c.kind == "forget" and judged.get(c.row, -1) >= 0
            }
            updates = [change for change in by_then if change.kind != "forget"]
            of_update = abilities[query] == Ability.KNOWLEDGE_UPDATE
            outdated = {
                one.row
                for one in updates
                if judged.get(one.row) == 0
                or (of_update and one.kind == "key-update" and _both(one, judged))
            }
            current = _replaced_by(outdated, updates) - outdated - forgotten
            part = slice(starts[query], starts[query + 1])
            rows, ranks = resolved.row[part], resolved.rank[part].astype(np.int64)
            own = (
                {int(dataset.rows_with_query_id[query])} if dataset.manifest.exclude_self else {-1}
            )
            yield _Case(
                int(sizes[query]),
                _group(outdated - own, rows, ranks),
                _group(current - own, rows, ranks),
                _group(forgotten - own, rows, ranks),
                said.after(when, rows, ranks),
            )


def _both(change: ChangedRow, judged: Mapping[int, int]) -> bool:
    """Tests whether the replaced and the new document are both evidence."""
    return all(judged.get(row, -1) > 0 for row in (change.row, change.by_row) if row is not None)


def _group(wanted: Collection[int], rows: np.ndarray, ranks: Ints) -> _Group:
    found = ranks[np.isin(rows, list(wanted))] if wanted else ranks[:0]
    return _Group(len(wanted), int(found.min(initial=NOT_RETRIEVED)))


def _replaced_by(outdated: set[int], updates: Sequence[ChangedRow]) -> set[int]:
    """Returns these documents and all that directly or indirectly replaced them."""
    reached, new = set(outdated), set(outdated)
    while new:
        new = {u.by_row for u in updates if u.row in new and u.by_row is not None} - reached
        reached |= new
    return reached


class _Grades:
    """The default qrels, by question."""

    def __init__(self, dataset: Dataset) -> None:
        self._judged = dataset.qrels()
        self._starts = np.searchsorted(self._judged.query, np.arange(dataset.n_queries + 1))

    def of(self, query: int) -> dict[int, int]:
        """Returns the highest grade of each judged document of a question, by row."""
        part = slice(self._starts[query], self._starts[query + 1])
        found: dict[int, int] = {}
        rows, grades = self._judged.document[part].tolist(), self._judged.grade[part].tolist()
        for row, grade in zip(rows, grades, strict=True):
            found[row] = max(grade, found.get(row, grade))
        return found


class _SaidTimes:
    """Dates of the documents in a haystack."""

    def __init__(self, dataset: Dataset, haystack: int) -> None:
        rows = dataset.haystack_rows(haystack)
        stamps = dataset.haystack_timestamps(haystack).to_numpy(zero_copy_only=False).astype(float)
        order = np.argsort(rows, kind="stable")
        self._rows, self._stamps = rows[order], stamps[order]
        self._in_time = np.sort(stamps[~np.isnan(stamps)])

    def after(self, when: int | None, rows: np.ndarray, ranks: Ints) -> _Group:
        """Returns the number of documents later than a question, and the best rank of one."""
        later = 0 if when is None else int((self._in_time > when).sum())
        if when is None or not later:
            return _Group(0, NOT_RETRIEVED)
        known = rows >= 0
        at = np.searchsorted(self._rows, rows[known])
        found = ranks[known][self._stamps[at] > when]
        return _Group(later, int(found.min(initial=NOT_RETRIEVED)))
