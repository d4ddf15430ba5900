"""The input of a report: a scored run with its dataset, and the texts that a page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.analysis.scored_run import Block, ScoredRun
from harness.datasets.reader import Dataset
from harness.errors import HarnessError
from harness.io.plugins import FAILURES, describe_error, failure, find_all, load
from harness.reports.records import DocumentColumns, ReportSection
from harness.runfiles.rankings import Rankings
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import query_outcomes
from harness.schema import as_datetime
from harness.scoring.arrays import Flags, Ints, Values
from harness.scoring.matching.matcher import TextHit, read_hits
from harness.scoring.ranks import Ranked, Ties, from_dataset, rank_judged
from harness.scoring.resolve import Resolved, canonicalize, resolve
from harness.scoring.score_columns import QueryStatus, slices
from harness.scoring.tokens import token_counts

T = TypeVar("T")

LONGEST = 700
"""Maximum characters of a text on a page; the rest is in the dataset."""
SHORTEST = 100
"""Texts are not cut below this length, however many documents a page has."""
ALL_TEXTS = 6_000_000
"""Characters of all documents of a page, from which the length of each follows."""


@dataclass(frozen=True)
class Material:
    """One run with the data that scoring used.

    `ranked` uses the default qrels and the returned order; `answered` is the status of each query;
    `hits` are the returned texts, if any.
    """

    run: ScoredRun
    dataset: Dataset
    rankings: Rankings
    resolved: Resolved
    ranked: Ranked
    answered: QueryStatus
    hits: list[TextHit]

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> Material:
        """Reads a run folder. Raises UsageError if it is not a run's, or was not scored."""
        run = ScoredRun.read(folder)
        files = RunFolder(folder)
        hits = read_hits(dataset, files.hits) if files.hits.is_file() else []
        rankings, _ = canonicalize(read_run_rankings(files.rankings), dataset)
        ranked = rank_judged(rankings, from_dataset(dataset), Ties.ORDER)
        found = resolve(rankings, dataset)
        return cls(run, dataset, rankings, found, ranked, query_outcomes(files, dataset), hits)

    @property
    def depth(self) -> int:
        """The maximum number of documents in a ranking."""
        return self.run.scores.depth

    @cached_property
    def counted(self) -> Flags:
        """The queries that count, without those that scoring skipped as missing."""
        skipped = self.answered.skipped(self.ranked.answered, self.run.scores.missing)
        return self.answered.counted & ~skipped

    @cached_property
    def masks(self) -> dict[str, Flags]:
        """Slices of the queries: `all`, `answerable` and the abilities."""
        named = slices(self.dataset)
        return {name: mask for name, mask in named.items() if not name.startswith("category:")}

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of the query table by id."""
        return {name: row for row, name in enumerate(self.dataset.query_ids)}

    @cached_property
    def costs(self) -> Ints:
        """Tokens of each row of `resolved` in a prompt."""
        given = self.answered.tokens
        return token_counts(self.dataset, self.resolved.row) if given is None else given

    @cached_property
    def seconds(self) -> Values:
        """Search seconds of each query, shape (queries,); NaN if not measured."""
        seconds = np.full(self.dataset.n_queries, np.nan)
        table = RunFolder(self.run.folder).queries
        if table is not None:
            at = [self.row_of[name] for name in table["query"].to_pylist()]
            seconds[at] = table["seconds"].to_numpy(zero_copy_only=False).astype(float)
        return seconds

    def values(self, block: Block, metric: str) -> Values:
        """Returns a metric of scores.parquet, shape (queries,); NaN if it was not scored."""
        rows = self.run.rows(block)
        values = np.full(self.dataset.n_queries, np.nan)
        values[[self.row_of[name] for name in rows.queries]] = rows.values(metric)
        return values

    def scored(self, block: Block) -> Flags:
        """Returns the mask of queries with any value under a protocol."""
        metrics = self.metrics(block)
        found = [~np.isnan(self.values(block, metric)) for metric in metrics]
        return np.any(found, axis=0) if found else np.zeros(self.dataset.n_queries, bool)

    def metrics(self, block: Block) -> list[str]:
        """Returns the metrics of a protocol."""
        return list(self.run.blocks[block].overall)

    @cached_property
    def top_scores(self) -> npt.NDArray[np.float64]:
        """Best score of each query's ranking, shape (queries,); NaN without."""
        top = np.full(self.dataset.n_queries, np.nan)
        if self.rankings.score is not None:
            starts = self.rankings.starts
            for i, name in enumerate(self.rankings.query_ids):
                if name in self.row_of and starts[i + 1] > starts[i]:
                    mine = self.rankings.score[starts[i] : starts[i + 1]]
                    top[self.row_of[name]] = mine.max()
        return top


# -- Texts and documents of a page, each stored once -----------------------------------------------


class Texts:
    """Numbers texts, each once, and cuts long ones. With `share`, there are none."""

    def __init__(self, *, share: bool) -> None:
        self.all: list[str] = []
        self._share = share
        self._number: dict[str, int] = {}

    def number(self, text: str | None, longest: int = LONGEST) -> int:
        """Returns the number of a text, -1 for one that is empty or not to be shown."""
        if self._share or not text:
            return -1
        if len(text) > longest:
            text = f"{text[:longest].rstrip()} … ({len(text) - longest:,} characters more)"
        if text not in self._number:
            self._number[text] = len(self.all)
            self.all.append(text)
        return self._number[text]


class Shelf:
    """The documents that a page names, each once for every haystack that dates it."""

    def __init__(self, dataset: Dataset, texts: Texts, *, share: bool) -> None:
        self._dataset, self._texts, self._share = dataset, texts, share
        self._places: dict[tuple[int, int], int] = {}
        self._names: dict[str, int] = {}

    def place(self, haystack: int, row: int) -> int:
        """Returns the number of a document row in a haystack."""
        return self._places.setdefault((haystack, row), len(self._places) + len(self._names))

    def unknown(self, name: str) -> int:
        """Returns the number of a document that is known by its id only."""
        if name not in self._names:
            self._names[name] = len(self._places) + len(self._names)
        return self._names[name]

    def columns(self) -> DocumentColumns:
        """Returns id, text, date, session and speaker of each number, as parallel lists."""
        n = len(self._places) + len(self._names)
        ids: list[str] = [""] * n
        for name, at in self._names.items():
            ids[at] = name
        keys, numbers = list(self._places), list(self._places.values())
        rows = np.array([row for _, row in keys], np.int32)
        documents = self._dataset.documents
        for at, name in zip(numbers, documents.column("id", rows).to_pylist(), strict=True):
            ids[at] = name
        if self._share:
            return DocumentColumns(id=ids)

        def column(values: Iterable[T | None]) -> list[T | None]:
            found: list[T | None] = [None] * n
            for at, value in zip(numbers, values, strict=True):
                found[at] = value
            return found

        contents = column(documents.contents(rows))
        longest = max(SHORTEST, min(LONGEST, ALL_TEXTS // max(1, n)))
        return DocumentColumns(
            id=ids,
            text=[self._texts.number(text, longest) for text in contents],
            date=column(self._dates(keys)),
            session=column(documents.column("session", rows).to_pylist()),
            speaker=column(documents.column("speaker", rows).to_pylist()),
        )

    def _dates(self, keys: list[tuple[int, int]]) -> list[str | None]:
        """Returns the time of each document in its haystack."""
        known: dict[int, dict[int, Any]] = {}
        dated = self._dataset.documents.column("timestamp")
        if dated.null_count == len(dated) and self._dataset.haystack_ids:
            one = self._dataset.haystack_timestamps(0)
            if one.null_count == len(one):
                return [None] * len(keys)
        for haystack in {haystack for haystack, _ in keys}:
            rows = self._dataset.haystack_rows(haystack).tolist()
            stamps = self._dataset.haystack_timestamps(haystack).to_pylist()
            known[haystack] = dict(zip(rows, stamps, strict=True))
        return [moment(known[haystack].get(row)) for haystack, row in keys]


def moment(seconds: int | None) -> str | None:
    """Formats a schema timestamp as `2023-05-08 13:56`."""
    return None if seconds is None else f"{as_datetime(seconds):%Y-%m-%d %H:%M}"


# -- Sections that packages add through the entry-point group --------------------------------------


GROUP = "harness.report_sections"


@dataclass(frozen=True)
class ReportContext:
    """The data for a section: the runs, their dataset, and the texts of the page by number.

    `asked` has the rows of the queries. With `share` no text of the dataset or of a system may be
    shown.
    """

    materials: Sequence[Material]
    asked: npt.NDArray[np.int64]
    texts: Texts
    share: bool

    @property
    def dataset(self) -> Dataset:
        """The dataset of the runs."""
        return self.materials[0].dataset

    @property
    def folders(self) -> list[Path]:
        """The folders of the runs."""
        return [material.run.folder for material in self.materials]


def added_sections(context: ReportContext) -> list[ReportSection]:
    """Returns the sections that installed packages add, by name.

    Raises PluginError, which names the package, if one of them fails, and UsageError if two
    packages add the same name.
    """
    found = []
    for entry in sorted(find_all(GROUP), key=lambda entry: entry.name):
        build = load(entry, "report section")
        try:
            section = build(context)
            if section is not None:
                found.append(replace(section, name=entry.name))
        except HarnessError:
            raise
        except FAILURES as error:
            raise failure(entry, "report section", describe_error(error)) from error
    return found
