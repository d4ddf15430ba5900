"""Reads scored run folders, and checks whether they compare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError
from harness.io.records import to_plain
from harness.records.answers import AnswersRecord
from harness.records.run import RunRecord
from harness.records.scores import ProtocolResult, ScoreReport
from harness.runs.folder.answers_folder import AnswersFolder, is_answers
from harness.runs.folder.run_folder import RunFolder, read_scores_by_query
from harness.scoring.signatures import digest

Values = npt.NDArray[np.float64]
Names = npt.NDArray[np.str_]
Block = tuple[str, str]
"""Name of a protocol, and its level: `("memory", "turn>session")`."""


@dataclass(frozen=True)
class ScoredRun:
    """run.json (answers.json for answers), scores.json and scores.parquet of one folder."""

    folder: Path
    record: RunRecord | AnswersRecord | None
    scores: ScoreReport
    table: pa.Table

    @classmethod
    def read(cls, folder: Path) -> ScoredRun:
        """Read a folder.

        Raises UsageError for a folder that is no run or was not scored, and for files that were
        changed or contradict each other."""
        record = record_of(folder)
        for name in ("scores.json", "scores.parquet"):
            if not (folder / name).is_file():
                raise UsageError(f"{folder}: has no {name}; `harness score {folder}` makes it")
        return cls(folder, record, *read_scores_by_query(folder))

    @property
    def run_record(self) -> RunRecord:
        """The record of a run. Raises UsageError for a folder of answers."""
        if not isinstance(self.record, RunRecord):
            raise UsageError(f"{self.folder}: holds answers, and is no run")
        return self.record

    @property
    def title(self) -> str:
        """The name of the run or the answers in tables and pages."""
        if isinstance(self.record, AnswersRecord):
            return self.record.name
        return self.run_record.title

    @cached_property
    def blocks(self) -> dict[Block, ProtocolResult]:
        """The protocols of scores.json."""
        return {(one.protocol, one.level): one for one in self.scores.protocols}

    @cached_property
    def asked(self) -> list[str]:
        """Ids of the queries that the run was asked, sorted."""
        ids: list[str] = pc.unique(self.table["query"]).to_pylist()
        return sorted(ids)

    @property
    def scorable(self) -> tuple[int, str]:
        """The number of queries that a protocol could score, and the digest of their ids.

        Other queries, without an answer or evidence, do not change scores.
        """
        scorable = self.scores.queries.scorable
        return scorable.n, scorable.digest

    def rows(self, block: Block) -> BlockRows:
        """The per-query rows of one protocol."""
        protocol, level = block
        mine = pc.and_(
            pc.equal(self.table["protocol"], protocol), pc.equal(self.table["level"], level)
        )
        return BlockRows(self.table.filter(mine))


def record_of(folder: Path) -> RunRecord | AnswersRecord:
    """Reads the record of a run or of answers. Raises UsageError for a folder of neither."""
    return AnswersFolder(folder).record if is_answers(folder) else RunFolder(folder).record


@dataclass(frozen=True)
class BlockRows:
    """The rows of scores.parquet of one protocol, one per query."""

    table: pa.Table

    @cached_property
    def queries(self) -> list[str]:
        """Ids of the queries, in the order of the rows."""
        ids: list[str] = self.table["query"].to_pylist()
        return ids

    def names(self, column: str) -> Names:
        """A column of names: `ability`, `category`."""
        return np.array(self.table[column].to_pylist(), dtype=str)

    def values(self, metric: str, order: Sequence[str] | None = None) -> Values:
        """A metric by query, in the order of these ids; NaN if it was not scored."""
        found = np.asarray(self.table[metric].to_numpy(zero_copy_only=False), np.float64)
        if order is None or order == self.queries:
            return found
        place = {query: i for i, query in enumerate(self.queries)}
        at = np.array([place.get(query, len(found)) for query in order], np.int64)
        return np.append(found, np.nan)[at]

    def haystacks(self) -> list[str]:
        """Haystack of each query."""
        names: list[str] = self.table["haystack"].to_pylist()
        return names


# -- Settings that must agree for runs to compare, and those that differ ---------------------------


@dataclass(frozen=True)
class Differing:
    """A setting that differs between runs, with its value in each, as text."""

    what: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} {' / '.join(self.short_values)}"

    @property
    def short_values(self) -> list[str]:
        """Values, with the first digits of SHA-256 digests."""
        return [one[:12] if re.fullmatch("[0-9a-f]{64}", one) else one for one in self.values]


def essentials(runs: Sequence[ScoredRun], blocks: Sequence[Block]) -> list[dict[str, str]]:
    """Settings that must agree, by run; `blocks` are the protocols to compare."""
    queries = [(len(run.asked), digest(run.asked)) for run in runs]
    if len({run.scorable for run in runs}) == 1:  # other queries make no difference
        queries = [run.scorable for run in runs]
    return [_essentials(run, blocks, *of) for run, of in zip(runs, queries, strict=True)]


def _essentials(run: ScoredRun, blocks: Sequence[Block], n: int, of: str) -> dict[str, str]:
    dataset = run.scores.dataset
    essential = {
        "dataset": dataset.name,
        "data fingerprint": dataset.fingerprint[:12],
        "granularity": dataset.granularity,
        "text": dataset.text,
        "split": dataset.split,
        "queries asked": f"{n} (#{of})",
        "metric version": f"{run.scores.harness} (scores {run.scores.version})",
    }
    if run.scores.reader is not None:
        essential["reader"] = run.scores.reader
    for block in blocks:
        name = " ".join(block)
        found = run.blocks.get(block)
        if found is None:
            essential[f"protocol {name}"] = "not scored"
            continue
        essential[f"protocol {name}"] = f"version {found.version}"
        essential[f"ties of {name}"] = found.ties
        essential[f"missing queries of {name}"] = found.missing
    return essential


def by_depth(runs: Sequence[ScoredRun], block: Block) -> dict[str, str]:
    """The metrics of a protocol that do not compare at the depths of the runs, with the remedy.

    These are the ones that a deeper ranking could change in a shallower run, or add to it.
    """
    deepest = max(run.scores.depth for run in runs)
    known = {metric: None for run in runs for metric in _metrics_of(run, block)}
    remedies: dict[str, list[str]] = {}
    for run in runs:
        depth = run.scores.depth
        if block not in run.blocks or depth == deepest:
            continue
        mine = _metrics_of(run, block)
        sensitive = run.blocks[block].depth_sensitive
        remedy = f"run {run.folder} (at most {depth} deep) again with --k {deepest}"
        for metric in known:
            if metric in sensitive or (metric not in mine and _cut(metric) > depth):
                remedies.setdefault(metric, []).append(remedy)
    return {metric: " and ".join(found) for metric, found in remedies.items()}


def require_depth(runs: Sequence[ScoredRun], block: Block, metric: str) -> None:
    """Raise UsageError for a metric that the depths of the runs could change; see `by_depth`."""
    if remedy := by_depth(runs, block).get(metric):
        raise UsageError(f"{metric} does not compare, as depth could change it: {remedy}")


def depths_refuse(
    runs: Sequence[ScoredRun], blocks: Sequence[Block], metrics: Sequence[str]
) -> str:
    """The remedy if depths exclude all `metrics` (empty: all common ones) under every protocol.

    Empty if a metric is left."""
    if len({run.scores.depth for run in runs}) == 1:
        return ""
    remedy = ""
    for block in blocks:
        apart = by_depth(runs, block)
        common = set.intersection(*({*_metrics_of(run, block)} for run in runs))
        if (common & {*metrics} if metrics else common) - {*apart}:
            return ""
        mine = [metric for metric in metrics or apart if metric in apart]
        remedy = remedy or (apart[mine[0]] if mine else "")
    return remedy


def _metrics_of(run: ScoredRun, block: Block) -> list[str]:
    """Names of the metrics of a protocol."""
    return list(run.blocks[block].overall) if block in run.blocks else []


def _cut(metric: str) -> int:
    """The cut-off in a metric's name, or 0."""
    cut = metric.rpartition("@")[2]
    return int(cut) if cut.isdecimal() else 0


def shared_blocks(runs: Sequence[ScoredRun], protocols: Sequence[str]) -> list[Block]:
    """Protocols to compare: the named ones, else those common to all runs.

    If none is common, those of the first run, which is then reported as a difference.
    """
    order = list(dict.fromkeys(block for run in runs for block in run.blocks))
    if protocols:
        return [block for block in order if block[0] in protocols]
    common = [block for block in order if all(block in run.blocks for run in runs)]
    return common or list(runs[0].blocks)


def differing(maps: Sequence[Mapping[str, str]]) -> list[Differing]:
    """The keys with different values."""
    keys = dict.fromkeys(key for values in maps for key in values)
    rows = [Differing(key, tuple(values.get(key, "-") for values in maps)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def settings(run: ScoredRun) -> dict[str, str]:
    """The system, its parameters, settings and versions of a run, as flat text."""
    record = to_plain(run.record)
    if isinstance(run.record, AnswersRecord):
        record["retriever"] = {"name": run.record.name, "baseline": run.record.baseline}
    parts = {name: record.get(name) for name in ("retriever", "settings", "versions")}
    flat: dict[str, str] = {}
    _flatten("", parts, flat)
    if "retriever.name" in flat:  # run names always differ
        flat = {"system": flat.pop("retriever.name"), **flat}
    return {name.removeprefix("settings.").removeprefix("retriever."): flat[name] for name in flat}


def _flatten(prefix: str, value: Any, into: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, into)
    else:
        into[prefix] = "-" if value is None else str(value)
