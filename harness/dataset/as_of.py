"""Questions as of when they are asked: each is put to what had been said by then.

Every haystack becomes one for each time at which it is asked: the documents up to that moment, and
those of which nobody knows when they were said. What was said later is no evidence either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.dataset.reader import BETWEEN
from harness.dataset.writer import DatasetWriter
from harness.errors import UsageError
from harness.schema import Ability, Change, as_datetime


class AsOfWriter(DatasetWriter):
    """Writes a dataset whose questions are asked as of their own time."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._said: list[int | None] = []
        self._ids: list[str] = []
        self._whole: dict[str, tuple[Sequence[int] | None, Sequence[int] | None]] = {}
        self._asked: dict[str, int | None] = {}
        self._changed: list[tuple[Change, str]] = []

    def document(self, id: str, text: str, *, timestamp: int | None = None, **about: Any) -> int:
        """Add one document and return its row."""
        self._said.append(timestamp)
        self._ids.append(id)
        return super().document(id, text, timestamp=timestamp, **about)

    def documents(
        self, ids: Sequence[str], texts: Sequence[str], titles: Sequence[str | None] | None = None
    ) -> None:
        """Add many plain documents at once; none of them is dated."""
        self._said += [None] * len(ids)
        self._ids += ids
        super().documents(ids, texts, titles)

    def haystack(
        self,
        id: str,
        rows: Sequence[int] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> None:
        """Add a haystack, which is written when its questions are known."""
        if id in self._whole:
            raise UsageError(f"haystack {id!r} is defined twice")
        self._whole[id] = (rows, timestamps)

    def query(
        self,
        id: str,
        text: str,
        haystack: str,
        *,
        ability: Ability = Ability.LOOKUP,
        category: str = "",
        timestamp: int | None = None,
        answers: Sequence[str] = (),
    ) -> None:
        """Add one query; its haystack may be defined later."""
        self._asked[id] = timestamp
        about = {"ability": ability, "category": category, "answers": answers}
        super().query(id, text, haystack, timestamp=timestamp, **about)  # type: ignore[arg-type]

    def change(self, change: Change, where: str = "") -> None:
        """Add what became of a document; it is so in what is later than it."""
        self._changed.append((change, where))

    def finish(self) -> None:
        """As a writer does; raises UsageError where no question is dated, or nothing was said."""
        if all(when is None for when in self._asked.values()):
            raise UsageError("--as-of: none of these questions has a date; leave it out")
        if all(when is None for when in self._said) and not any(t for _, t in self._whole.values()):
            raise UsageError("--as-of: none of these documents has a date; leave it out")
        times: dict[str, set[int | None]] = {}
        for query, haystack in zip(self._queries, self._query_haystack, strict=True):
            times.setdefault(haystack, set()).add(self._asked[query])
        there: dict[str, set[int]] = {}
        for name, (rows, stamps) in self._whole.items():
            for when in sorted(times.get(name, ()), key=lambda t: (t is None, t or 0)):
                kept = _until(rows, stamps, when, self._said)
                there[_named(name, when)] = {*kept[0]}
                super().haystack(_named(name, when), *kept)
                for change, where in self._changed:
                    if change.haystack == name and (when is None or change.timestamp <= when):
                        super().change(replace(change, haystack=_named(name, when)), where)
        self._query_haystack = [
            _named(haystack, self._asked[query])
            for query, haystack in zip(self._queries, self._query_haystack, strict=True)
        ]
        self._leave_out_what_came_later(there)
        super().finish()

    def _leave_out_what_came_later(self, there: dict[str, set[int]]) -> None:
        """Judgements of documents that were said after the question was asked."""
        haystack = dict(zip(self._queries, self._query_haystack, strict=True))
        rows = {id_: row for row, id_ in enumerate(self._ids)}
        judged, kept = self._judged, []
        for i, query in enumerate(self._judged_query):
            row = judged["document"][i]
            row = rows.get(judged["document_id"][i], -1) if row is None else row
            later = row >= 0 and row not in there.get(haystack.get(query, ""), {row})
            if later:
                self.repair("evidence that was said after the question was asked: left out", query)
            else:
                kept.append(i)
        self._judged_query = [self._judged_query[i] for i in kept]
        self._judged = {
            name: [column[i] for i in kept] if column else [] for name, column in judged.items()
        }


def _named(haystack: str, when: int | None) -> str:
    moment = "end" if when is None else as_datetime(when).isoformat()
    return f"{haystack}{BETWEEN}{moment}"


def _until(
    rows: Sequence[int] | None,
    stamps: Sequence[int] | None,
    when: int | None,
    said: Sequence[int | None],
) -> tuple[list[int], list[int] | None]:
    """Rows of what was said until `when` (None: all), and their dates where the haystack has its
    own."""
    chosen = range(len(said)) if rows is None else rows
    dates = [said[row] for row in chosen] if stamps is None else stamps
    kept = [i for i, t in enumerate(dates) if when is None or t is None or t <= when]
    return [chosen[i] for i in kept], None if stamps is None else [stamps[i] for i in kept]
