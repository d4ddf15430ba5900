"""The input of a report: a scored run with its dataset, and the texts that a page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from harness.analysis.scored_run import Block, BlockRows, ScoredRun
from harness.datasets.reader import Dataset
from harness.errors import HarnessError
from harness.io.plugins import FAILURES, describe_error, failure, find_all, load
from harness.reports.records import DocumentColumns, ReportSection
from harness.runs.folder.ranking_parts import rankings_by_part
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import query_outcomes
from harness.schema import as_datetime
from harness.scoring.arrays import Flags, Values
from harness.scoring.matching.matcher import TextHit, read_hits
from harness.scoring.protocols import PROTOCOLS
from harness.scoring.ranks import QrelsIndex, Ranked, Ranks, Ties, from_dataset, gather_ranks
from harness.scoring.resolve import Resolved, canonicalize, resolve
from harness.scoring.score_columns import QueryStatus, slices
from harness.scoring.tokens import TokenCounts

T = TypeVar("T")

LONGEST = 700
"""Maximum characters of a text on a page; the rest is in the dataset."""
SHORTEST = 100
"""Texts are not cut below this length; of too many documents only the first have theirs."""
_PART = 1 << 20  # rows of a run that are in memory as texts
ALL_TEXTS = 2_500_000
"""Characters of all documents of a page, from which the length of each follows: 3 MB in all."""
OMITTED = -2
"""The number of a text that is omitted to keep a page small."""


@dataclass(frozen=True)
class Material:
    """One run with the data that scoring used.

    `ranked` uses the default qrels and the returned order, `by_rule` the qrels and ties of each
    protocol; `answered` is the status of each query; `hits` are the returned texts, if any.
    `top_scores` are the best score of each query's ranking, NaN without.
    """

    run: ScoredRun
    dataset: Dataset
    resolved: Resolved
    ranked: Ranked
    answered: QueryStatus
    hits: list[TextHit]
    by_rule: dict[tuple[str, Ties], Ranked]
    top_scores: Values

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> Material:
        """Reads a run folder. Raises UsageError if it is not a run's, or was not scored."""
        run = ScoredRun.read(folder)
        files = RunFolder(folder)
        hits = read_hits(dataset, files.hits) if files.hits.is_file() else []
        rules = {("default", Ties.ORDER): from_dataset(dataset)}
        for (name, _), result in run.blocks.items():
            if name in PROTOCOLS:
                key = PROTOCOLS[name].key
                rules[key, Ties(result.ties)] = from_dataset(dataset, key)
        judged = {rule: QrelsIndex(qrels) for rule, qrels in rules.items()}
        ranks: dict[tuple[str, Ties], list[Ranks]] = {rule: [] for rule in rules}
        top, found = np.full(dataset.n_queries, np.nan), []
        row_of = dataset.query_rows
        # Each part looks its documents up among all of the dataset.
        for part in rankings_by_part(files.rankings, max(_PART, len(dataset.documents))):
            rankings, _ = canonicalize(part, dataset)
            found.append(resolve(rankings, dataset))
            for rule, index in judged.items():
                ranks[rule].append(index.places(rankings, rule[1]))
            if rankings.score is not None and len(rankings):
                first = np.unique(rankings.query, return_index=True)
                for query, at in zip(*(each.tolist() for each in first), strict=True):
                    if (name := rankings.query_ids[query]) in row_of:
                        top[row_of[name]] = rankings.score[at]
            del part, rankings
            pa.default_memory_pool().release_unused()
        by_rule = {rule: gather_ranks(rules[rule], parts) for rule, parts in ranks.items()}
        return cls(
            run,
            dataset,
            _joined(found),
            by_rule["default", Ties.ORDER],
            query_outcomes(files, dataset),
            hits,
            by_rule,
            top,
        )

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
    def costs(self) -> npt.NDArray[np.integer[Any]]:
        """Tokens of each row of `resolved` in a prompt."""
        given, counts = self.answered.tokens, TokenCounts(self.dataset)
        if given is not None:
            return given
        rows = self.resolved.row
        parts = (rows[start : start + _PART] for start in range(0, len(rows), _PART))
        none = np.zeros(0, np.int32)
        return np.concatenate([none, *(counts.of(part).astype(np.int32) for part in parts)])

    @cached_property
    def seconds(self) -> Values:
        """Search seconds of each query, shape (queries,); NaN if not measured."""
        seconds = np.full(self.dataset.n_queries, np.nan)
        table = RunFolder(self.run.folder).queries
        if table is not None:
            at = [self.dataset.query_rows[name] for name in table["query"].to_pylist()]
            seconds[at] = table["seconds"].to_numpy(zero_copy_only=False).astype(float)
        return seconds

    @cached_property
    def _by_block(self) -> dict[Block, tuple[BlockRows, list[int]]]:
        """The rows of each protocol in scores.parquet, and their queries' rows in the dataset."""
        place = self.dataset.query_rows
        rows = {block: self.run.rows(block) for block in self.run.blocks}
        return {block: (one, [place[id_] for id_ in one.queries]) for block, one in rows.items()}

    def values(self, block: Block, metric: str) -> Values:
        """Returns a metric of scores.parquet, shape (queries,); NaN if it was not scored."""
        rows, at = self._by_block[block]
        values = np.full(self.dataset.n_queries, np.nan)
        values[at] = rows.values(metric)
        return values

    def scored(self, block: Block) -> Flags:
        """Returns the mask of queries with any value under a protocol."""
        metrics = self.metrics(block)
        found = [~np.isnan(self.values(block, metric)) for metric in metrics]
        return np.any(found, axis=0) if found else np.zeros(self.dataset.n_queries, bool)

    def metrics(self, block: Block) -> list[str]:
        """Returns the metrics of a protocol."""
        return list(self.run.blocks[block].overall)


def _joined(parts: Sequence[Resolved]) -> Resolved:
    """Joins the parts of a run, which have different queries, in the order of the query table."""
    names = ("query", "row", "rank")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    if (np.diff(columns[0]) < 0).any():
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
    query, row, rank = columns
    return Resolved(query, row, rank, [name for part in parts for name in part.unknown_queries])


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
    """The documents that a page names, each once for every haystack that dates it.

    Those that are placed first have their texts, if a page cannot have all.
    """

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

        longest = max(SHORTEST, min(LONGEST, ALL_TEXTS // max(1, n)))
        some = ALL_TEXTS // longest
        contents = documents.contents(rows[:some])
        texts = [self._texts.number(content, longest) for content in contents]
        texts += [OMITTED] * (len(rows) - len(texts))
        return DocumentColumns(
            id=ids,
            text=[-1 if at is None else at for at in column(texts)],
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
