"""Makes a run folder from a file of published rankings.

Run formats (runfiles/run_formats.py) read the files. A question without a record was not asked;
records that are duplicate, broken, empty, or of an unknown question are counted and named. A record
identifies its question by id, or by haystack with the text or the position of the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.io.files import digest
from harness.records.run import PublishedFile
from harness.runfiles.rankings import Rankings
from harness.runfiles.run_formats import (
    PublishedRanking,
    QuestionRef,
    Records,
    RunFormat,
    read_records,
    run_format,
)
from harness.runs.folder.hits import write_hit_rankings, write_resolved_hits
from harness.runs.folder.imported import (
    REPEATS,
    ImportOptions,
    import_record,
    known_queries,
    say,
    unasked_rows,
)
from harness.runs.folder.rankings import write_query_table, write_rankings
from harness.runs.folder.run_folder import write_record
from harness.scoring.matching.matcher import TextHit
from harness.scoring.resolve import resolve


@dataclass(frozen=True)
class Published:
    """A published file, and how it is read.

    `ranking`: which of a record's rankings. `repeats`: which of several records of a question
    counts. `unasked`: questions without a record count 0 instead of being excluded. `cut`: number
    of documents to use of each ranking; None: all.
    """

    path: Path
    format: str
    ranking: str
    repeats: str = "latest"
    unasked: bool = False
    cut: int | None = None

    @property
    def form(self) -> RunFormat:
        """The run format that reads it."""
        return run_format(self.format)

    @property
    def granularities(self) -> tuple[str, ...]:
        """The granularities that the ids of its ranking may have."""
        return tuple(self.form.rankings[self.ranking])

    @cached_property
    def records(self) -> Records:
        """The records of the file. Raises UsageError as `read_records`."""
        return read_records(self.path, self.format, self.form, self.ranking)


def open_published(
    path: Path,
    format: str,
    *,
    ranking: str = "",
    granularity: str = "",
    repeats: str = "latest",
    unasked: bool = False,
    cut: int | None = None,
) -> Published:
    """Returns the file with one of its rankings: the named one, or the first of the granularity.

    Raises UsageError for an unknown name or rule, and if no ranking is of the granularity.
    """
    known = run_format(format).rankings
    if cut is not None and cut < 1:
        raise UsageError(f"--cut must be 1 or more, not {cut}")
    if repeats not in REPEATS:
        raise UsageError(f"--repeats must be {', '.join(REPEATS)}, not {repeats!r}")
    if ranking and ranking not in known:
        raise UsageError(
            f"--ranking {ranking!r}: {path.name} has none{suggest(ranking, list(known))}"
        )
    of = [name for name in known if ranking in ("", name)]
    fit = [name for name in of if granularity in ("", *known[name])]
    if not fit:
        units = sorted({unit for name in of for unit in known[name]})
        raise UsageError(
            f"{path}: its rankings are of {' and '.join(units)}s, not of {granularity}s "
            f"(--granularity {' or '.join(units)})"
        )
    return Published(path, format, fit[0], repeats, unasked, cut)


def import_published(file: Published, dataset: Dataset, options: ImportOptions) -> Path:
    """Makes a run folder from a published file; warns of irregularities.

    Raises UsageError for a file that cannot be read, one without any question of the dataset, and,
    if `strict`, for irregularities.
    """
    records, texts = file.records, file.form.texts
    joined = join(records.answers, dataset, file.repeats, file.path)
    if not joined.answers:
        raise UsageError(f"{file.path}: {_nothing_joined(records, dataset)}")
    answers = {row: answer.found or [] for row, answer in joined.answers.items()}
    if file.cut is not None:
        answers = {row: _first_of(found, texts, file.cut) for row, found in answers.items()}
    if file.unasked:
        answers |= {row: [] for row in unasked_rows(answers, dataset)}
        answers = dict(sorted(answers.items()))
    deepest = max(map(len, answers.values()))
    if options.k is not None and deepest > options.k:
        raise UsageError(f"{file.path}: holds rankings of {deepest}, more than --k {options.k}")
    depth = options.k or max(deepest, 1)
    notes, rankings = _odd(file, records, joined, dataset), None
    returned = [*map(len, answers.values())]
    if not texts:
        rankings, more = known_queries(_rankings(answers, dataset), dataset, file.path)
        notes, returned = notes + more, np.diff(rankings.starts).tolist()
    say(file.path, notes, options.strict, quiet=options.quiet)
    about = PublishedFile(
        file=file.path.name,
        sha256=digest(file.path),
        format=file.format,
        ranking=file.ranking,
        repeats=file.repeats,
        cut=file.cut,
        records=len(records.answers) + len(records.unread),
        broken=records.broken,
        unknown=len(joined.unknown),
        ambiguous=len(joined.ambiguous),
        silent=len(joined.silent),
        duplicates=len(joined.duplicates),
        conflicts=len(joined.conflicts),
        asked=len(joined.answers),
        queries=dataset.n_queries,
        haystacks_asked=len(np.unique(dataset.query_shares[[*joined.answers]])),
        haystacks=len(np.unique(dataset.query_shares)),
        notes=notes,
    )
    identity: dict[str, object] = {
        "sha256": about.sha256,
        "format": about.format,
        "ranking": about.ranking,
        "repeats": about.repeats,
        "cut": about.cut,
        "k": depth,
        "unasked": file.unasked,
    }
    if options.matching is not None:
        identity["matching"] = asdict(options.matching)
    folder = options.folder(dataset, identity)
    record = import_record(dataset, options.name, depth, about, len(answers))
    ids = [dataset.query_ids[row] for row in answers]
    with options.written(folder) as aside:
        if rankings is None:
            hits = _hits(answers, depth)
            ranked, resolved = write_resolved_hits(aside, dataset, hits, depth, options.matching)
            record = replace(record, hits=resolved)
            write_hit_rankings(aside, dataset, ranked, ids, options.name)
        else:
            write_rankings(rankings, aside, options.name)
        write_query_table(aside, ids, returned)
        write_record(aside, record)
    return folder


def fits(file: Published, dataset: Dataset) -> bool:
    """Tests whether any document that the file names is in the haystack of its question."""
    if file.form.texts:
        return True  # texts are matched to documents of any granularity
    joined = join(file.records.answers, dataset, "latest", file.path)
    answers = {row: answer.found or [] for row, answer in joined.answers.items()}
    return bool((resolve(_rankings(answers, dataset), dataset).row >= 0).any())


def _first_of(found: list[str], texts: bool, cut: int) -> list[str]:
    """Returns the first `cut` texts, or distinct documents."""
    return found[:cut] if texts else [*dict.fromkeys(found)][:cut]


def _rankings(answers: Mapping[int, list[str]], dataset: Dataset) -> Rankings:
    each = [*answers.values()]
    # Without scores: rounding may have made ties, but the order is still the returned one.
    return Rankings(
        [dataset.query_ids[row] for row in answers],
        np.repeat(np.arange(len(each), dtype=np.int32), [len(one) for one in each]),
        pa.chunked_array([pa.array(list(chain(*each)), pa.string())]),
        None,
    )


def _hits(answers: Mapping[int, list[str]], depth: int) -> list[TextHit]:
    return [
        TextHit(row, place, text, [], None, 0)
        for row, found in answers.items()
        for place, text in enumerate(found[:depth], 1)
    ]


def _odd(file: Published, records: Records, joined: Joined, dataset: Dataset) -> list[str]:
    cannot = "records cannot be read"
    broken = (
        (records.unread, f"{cannot}, nor whose question they are, passed over"),
        (joined.broken, f"{cannot} and count 0"),
    )
    silent = f"records name nothing that was retrieved (no {file.ranking}) and count 0"
    others = (
        (joined.unknown, f"records are of no question of {dataset.name}, ignored"),
        (joined.ambiguous, "records may be of several questions, ignored"),
        (joined.silent, silent),
        (joined.duplicates, f"records are of a question again, the {file.repeats} counts"),
        (joined.conflicts, "of those say something else than the one before"),
    )
    notes = counted_notes(broken, shown=1) + counted_notes(others)
    if not any(answer.found for answer in joined.answers.values()):
        notes.append("every ranking is empty")
    return notes


def _nothing_joined(records: Records, dataset: Dataset) -> str:
    first = records.answers[0].question
    return (
        f"none of its {len(records.answers)} records is of a question of {dataset.name}: the first "
        f"is {str(first)!r:.80}, where the dataset has {dataset.query_ids[0]!r}; is it another "
        "--dataset?"
    )


@dataclass
class Joined:
    """The ranking of each answered question by row, and the names of irregular records by kind."""

    answers: dict[int, PublishedRanking] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def join(answers: Sequence[PublishedRanking], dataset: Dataset, repeats: str, path: Path) -> Joined:
    """Assigns each record to its question. Raises UsageError for duplicates under `refuse`.

    Of several records of a question, one that cannot be read counts only if none can.
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
        # It was asked and names no document: it must count in the means.
        if answer.broken:
            joined.broken.append(answer.broken)
        elif answer.found is None:
            joined.silent.append(dataset.query_ids[row])
    joined.answers = dict(sorted(joined.answers.items()))
    return joined


def counted_notes(counts: Iterable[tuple[Sequence[str], str]], shown: int = 3) -> list[str]:
    """Returns a note for each kind of irregularity: how many, what, and the first names."""
    return [
        f"{len(names)} {what} ({', '.join(names[:shown])}{', ...' if len(names) > shown else ''})"
        for names, what in counts
        if names
    ]


class _Questions:
    """Finds the questions of a dataset by what records contain of them."""

    def __init__(self, dataset: Dataset, answers: Sequence[PublishedRanking]) -> None:
        self._by_id = dataset.query_rows
        bases = dataset.haystack_bases
        self._haystacks = list(dict.fromkeys(bases))
        self._of: dict[str, list[int]] = {name: [] for name in self._haystacks}
        for row, haystack in enumerate(dataset.query_haystack.tolist()):
            self._of[bases[haystack]].append(row)
        self._texts: list[str] = dataset.query_table["text"].to_pylist()
        # Of equal questions in one haystack, the n-th record is the n-th question.
        self._asked = Counter(self._words(a.question) for a in answers if a.question.id is None)
        self._met = Counter[tuple[str, str]]()

    def find(self, question: QuestionRef) -> int | None:
        """Returns the row of a question; None if there is none, -1 if it may be one of several."""
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
