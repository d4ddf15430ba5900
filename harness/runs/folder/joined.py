"""The question of each published record: by its id, or by its haystack with words or place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.runfiles.run_formats import PublishedRanking, QuestionRef


@dataclass
class Joined:
    """The answer of each question of the dataset that has one, by row; and what else there was."""

    answers: dict[int, PublishedRanking] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def join(answers: Sequence[PublishedRanking], dataset: Dataset, repeats: str, path: Path) -> Joined:
    """Find the question of each answer. Raises UsageError for doubled ones under `refuse`.

    Of a question that has several records one that cannot be read counts only if none can.
    """
    joined, known = Joined(), _Questions(dataset, answers)
    for answer in answers:
        row = known.find(answer.question)
        if row is None or row < 0:
            (joined.unknown if row is None else joined.ambiguous).append(str(answer.question))
            continue
        if row in joined.answers:
            joined.duplicates.append(dataset.query_ids[row])
            before = joined.answers[row]
            if not (before.broken or answer.broken) and before.found != answer.found:
                joined.conflicts.append(dataset.query_ids[row])
            if not before.broken and (answer.broken or repeats == "first"):
                continue
        joined.answers[row] = answer
    if joined.duplicates and repeats == "refuse":
        raise UsageError(
            f"{path}: the question {joined.duplicates[0]!r} has several records; say which counts "
            "with --repeats latest or first"
        )
    for row, answer in joined.answers.items():
        # Asked, and what came names no document: left out, it would be in no mean.
        if answer.broken:
            joined.broken.append(answer.broken)
        elif answer.found is None:
            joined.silent.append(dataset.query_ids[row])
    joined.answers = dict(sorted(joined.answers.items()))
    return joined


def counted_notes(counts: Iterable[tuple[Sequence[str], str]], shown: int = 3) -> list[str]:
    """Return a note for each kind of oddity that there is: how many, what, and the first names."""
    return [
        f"{len(names)} {what} ({', '.join(names[:shown])}{', ...' if len(names) > shown else ''})"
        for names, what in counts
        if names
    ]


class _Questions:
    """The questions of a dataset, to be found by what a record says of them."""

    def __init__(self, dataset: Dataset, answers: Sequence[PublishedRanking]) -> None:
        self._by_id = {id_: row for row, id_ in enumerate(dataset.query_ids)}
        bases = dataset.haystack_bases
        self._haystacks = list(dict.fromkeys(bases))
        self._of: dict[str, list[int]] = {name: [] for name in self._haystacks}
        for row, haystack in enumerate(dataset.query_haystack.tolist()):
            self._of[bases[haystack]].append(row)
        self._texts: list[str] = dataset.query_table["text"].to_pylist()
        # Of questions with the same words in one haystack the n-th record is the n-th question.
        self._asked = Counter(self._words(a.question) for a in answers if a.question.id is None)
        self._met = Counter[tuple[str, str]]()

    def find(self, question: QuestionRef) -> int | None:
        """Return the row of a question; None where there is none, -1 where it may be one of
        several."""
        if question.id is not None:
            return self._by_id.get(question.id)
        haystack, text = self._words(question)
        rows = self._of.get(haystack, [])
        if question.place is not None:
            row = rows[question.place] if 0 <= question.place < len(rows) else None
            right = row is not None and (not text or self._texts[row].strip() == text)
            return row if right else None
        same = [row for row in rows if self._texts[row].strip() == text]
        if not same:
            return None
        met = self._met[haystack, text]
        self._met[haystack, text] += 1
        return same[met % len(same)] if self._asked[haystack, text] >= len(same) else -1

    def _words(self, question: QuestionRef) -> tuple[str, str]:
        at = question.haystack
        if isinstance(at, int):
            at = self._haystacks[at] if 0 <= at < len(self._haystacks) else ""
        return at or "", (question.text or "").strip()
