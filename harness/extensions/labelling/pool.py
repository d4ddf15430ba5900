"""Pools the top documents of several systems."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import orjson

from harness.datasets.adapters.labelled import Labelled
from harness.datasets.reader import Dataset
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.extensions.labelling.project import (
    LabelDocument,
    LabelQuery,
    PooledSystem,
    encode_lines,
)
from harness.io.files import fsync_path, write_bytes
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.fields import QUERIES


@register_adapter("label-pool")
class LabelPool(Labelled):
    """Documents and queries as `labelled` reads them, without judgements."""

    needs_qrels = False


def pooled_system(
    retriever: str, params: Mapping[str, object], plugins: Iterable[str] = ()
) -> PooledSystem:
    """Describes a retriever with its parameters; its name in the pool is like `bm25:k1=0.9`.
    Raises UsageError for an unknown one."""
    RetrieverSpec(retriever, dict(params), tuple(plugins)).check()
    listed = ",".join(f"{key}={_format(value)}" for key, value in sorted(params.items()))
    name = f"{retriever}:{listed}" if listed else retriever
    return PooledSystem(name=name, retriever=retriever, params=dict(params), plugins=[*plugins])


@dataclass(frozen=True)
class PooledRun:
    """The results of a system: `ranks[query][document]` is the rank from 1.

    `record` is its entry in label.json; `failed`: the number of queries it failed on.
    """

    ranks: dict[str, dict[str, int]]
    record: PooledSystem
    failed: int


def top_k(
    systems: Iterable[PooledSystem],
    documents: Sequence[LabelDocument],
    queries: Sequence[LabelQuery],
    *,
    k: int,
    seed: int,
    work_folder: Path,
    quiet: bool = True,
) -> list[PooledRun]:
    """Returns the top k of each system, as `harness run` returns it: over opaque handles, without
    qrels.

    `work_folder` is temporary and removed. Raises the errors of a run, and UsageError for a
    retriever that reads the qrels.
    """
    from harness.datasets.registry import open_dataset

    shutil.rmtree(work_folder, ignore_errors=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, work_folder, ignore_errors=True)
        write_bytes(work_folder / "documents.jsonl", encode_lines(documents))
        write_bytes(work_folder / "queries.jsonl", encode_lines(map(_without_qrels, queries)))
        fsync_path(work_folder)
        dataset = open_dataset("label-pool", source=work_folder, quiet=quiet)
        stack.callback(shutil.rmtree, dataset.folder, ignore_errors=True)
        out = work_folder / "runs"
        return [_run(system, dataset, k, seed, out, quiet) for system in systems]


def _without_qrels(query: LabelQuery) -> LabelQuery:
    """Returns the query with the fields that `labelled` knows, without judgements."""
    known = {*QUERIES.names} - {"relevant"}
    extra = {name: value for name, value in query.extra.items() if name in known}
    return msgspec.structs.replace(query, generated=None, edits=[], extra=extra)


def _run(
    system: PooledSystem, dataset: Dataset, k: int, seed: int, out: Path, quiet: bool
) -> PooledRun:
    from harness.runfiles.arrow import read_parquet
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.run import run
    from harness.runs.settings import Settings
    from harness.scoring.matching.matcher import UNRESOLVED

    spec = RetrieverSpec(system.retriever, system.params, tuple(system.plugins))
    folder = RunFolder(
        run(dataset, spec, Settings(k=k, seed=seed, allow_empty=True), out=out, quiet=quiet)
    )
    about = folder.record.retriever
    if about.sees_gold_labels:
        raise UsageError(
            f"--retriever {system.name}: reads the qrels, which a new project does not have"
        )
    ranks: dict[str, dict[str, int]] = {}
    table = read_parquet(folder.rankings)
    for query, document, rank in zip(
        *(table[name].to_pylist() for name in ("query", "document", "rank")), strict=True
    ):
        if not document.startswith(UNRESOLVED):  # a text that matches no document
            ranks.setdefault(query, {}).setdefault(document, rank)
    record = msgspec.structs.replace(system, version=about.version)
    return PooledRun(ranks, record, folder.record.queries.failed)


def _format(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
