"""Golden runs: which they are, how one is made, and its run folder as numbers under keys.

The values under `frozen/` were written once, by `freeze.py` (see README.md), and keep the names of
that day. `KEYS` maps them to the names of today: after a renaming it is the only place to edit.
After a change of the layout of a file, edit `numbers` too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness import RetrieverSpec, open_dataset, run, score_run
from harness.io.records import to_tree
from harness.runs.folder.run_folder import RunFolder, read_scores

KEYS: dict[str, str | None] = {
    "unit": "level",
    "counts/judgements": "counts/qrels",
    "answers_sorted_by_score": None,  # such answers are refused
    "answers_whose_scores_were_dropped": "scores_dropped",
    "documents_beyond_k_left_out": "documents_beyond_k",
    "own_document_left_out": "self_excluded",
    "padding_left_out": "padding",
    "repeated_documents_left_out": "duplicate_documents",
    "left_out": "excluded",
    "left_out.json": "excluded.json",
    "chance": "random_baseline",
    "ceiling": "upper_bound",
    "interval/units": "interval/clusters",
    "interval/effective": "interval/effective_clusters",
    "over_haystacks/value": "macro_haystack/value",
    "over_haystacks/low": "macro_haystack/interval/low",
    "over_haystacks/high": "macro_haystack/interval/high",
    "over_haystacks/units": "macro_haystack/interval/clusters",
    "over_haystacks/effective": "macro_haystack/interval/effective_clusters",
    "over_categories/value": "macro_category/value",
    "over_categories/categories": "macro_category/groups",
    "not_measurable": "unmeasurable",
    "touched_by_depth": "depth_sensitive",
    "asked_for": "requested",
    "scores/dataset/own_document_left_out": "scores/dataset/excludes_own_document",
    "scores/score_version": "scores/version",
    "scores/unknown_documents_in_run": "scores/unknown_documents",
    "scores/repeated_documents_in_run": "scores/repeated_documents",
    "came": "returned",
    "came/least": "returned/min",
    "came/k_beyond": "returned/unreached_cutoffs",
    "false_evidence_rate": "false_positive_rate",
    "newest_above_all_older": "update_ranked_first",
    **{f"newest_found@{k}": f"update_recall@{k}" for k in (1, 5, 10)},
    **{f"only_stale_found@{k}": f"stale_only_rate@{k}" for k in (1, 5, 10)},
    "retrieved_a_query": "per_query",
    "retrieved_a_query_top_10": "per_query_top_10",
    "rankings_that_ended_before": "ended",
    "no evidence in the answer key": "without relevant documents",
    "no answer exists (abstention)": "unanswerable",
    "no judgement": "without a judgement",
}
"""Frozen name -> name today, for keys, columns, files, reasons of exclusion and folders.

A name is one part of a key or several ("tokens/chance"), matched as a whole; of two that fit, the
longer one counts. None: the number is no longer stored, with the reason in a comment beside it.
"""

ADDED: tuple[str, ...] = ("unmeasurable", "macro_haystack/groups", "confidence/n")
"""Parts of keys, in today's names, that did not exist when the values were frozen."""

TOLERANCE = 1e-12
"""Relative above 1, absolute below. Equal code gives equal bits, but a sum in another order or a
power of another processor differs in the last bits of 53: by 2e-13 in a mean of 2,000 values at
worst. The smallest change of a ranking moves a mean by more than 1e-6."""

DATASETS: dict[str, tuple[str, str, str]] = {
    "sample": ("sample", "turn", ""),
    "sample-session": ("sample", "session", ""),
    "changes": ("changes", "turn", ""),
    "locomo": ("locomo", "turn", "locomo/locomo10.json"),
    "longmemeval": ("longmemeval/s", "turn", "longmemeval/longmemeval_s_sample.json"),
    "longmemeval-session": ("longmemeval/s", "session", "longmemeval/longmemeval_s_sample.json"),
    "scifact": ("beir/scifact", "", "beir/scifact"),
}
"""Name here -> name, granularity and source below the folder with the real data ("": shipped)."""

RETRIEVERS: dict[str, str | RetrieverSpec] = {
    "bm25": "bm25",
    "tfidf": "tfidf",
    "hybrid": RetrieverSpec("hybrid", {"retrievers": "bm25,tfidf"}),
    "recency-weighted": "recency-weighted",
    "recency": "recency",
    "random": "random",
}
SHIPPED_ONLY = ("recency", "random")
INEXACT = ("recency-weighted",)
"""Retrievers whose scores may differ in the last bit by processor, since they take a power: of
these the order of the documents is compared, not the bytes of the scores."""

RUNS = [
    (dataset, retriever)
    for dataset, (_, _, source) in DATASETS.items()
    for retriever in RETRIEVERS
    if not source or retriever not in SHIPPED_ONLY
]
FROZEN = Path(__file__).parent / "frozen"


def make(dataset: str, retriever: str, data: Path, out: Path) -> Path:
    """Runs a retriever over a dataset and scores the run; returns the run folder."""
    name, granularity, source = DATASETS[dataset]
    opened = open_dataset(name, granularity=granularity, source=data / source if source else None)
    folder = run(opened, RETRIEVERS[retriever], out=out)
    score_run(folder, opened)
    return folder


def now(key: str) -> str:
    """Translates a frozen key, or a part of one, to today's names; "" if it is no longer stored."""
    if not KEYS:
        return key
    gone = False

    def name(match: re.Match[str]) -> str:
        nonlocal gone
        found = KEYS[match[0]]
        gone = gone or found is None
        return found or ""

    longest_first = "|".join(map(re.escape, sorted(KEYS, key=len, reverse=True)))
    translated = re.sub(f"(?<![^/])(?:{longest_first})(?![^/])", name, key)
    return "" if gone else translated


def ranking_digests(folder: Path, retriever: str) -> dict[str, str]:
    """SHA-256 of rankings.trec, and of what rankings.parquet holds whatever its encoding."""
    queries, documents, ranks, scores = pq.read_table(folder / now("rankings.parquet")).columns
    order = zip(queries.to_pylist(), documents.to_pylist(), ranks.to_pylist(), strict=True)
    content = hashlib.sha256("\n".join(map(repr, order)).encode())
    digests = {"order": content.hexdigest()}
    if retriever not in INEXACT:
        content.update(scores.to_numpy().astype("<f8").tobytes())
        digests["content"] = content.hexdigest()
        digests["trec"] = hashlib.sha256((folder / now("rankings.trec")).read_bytes()).hexdigest()
    return digests


def numbers(folder: Path) -> dict[str, float]:
    """Every number of a run folder but times and versions, under keys of today's names."""
    return dict(_numbers(folder))


def _numbers(folder: Path) -> Iterator[tuple[str, float]]:
    report = read_scores(folder)
    for protocol in report.protocols:
        where = f"{protocol.protocol}/{protocol.level}"
        for slice_, part in protocol.slices.items():
            yield from _walk(to_tree(part.metrics), f"cells/{where}/{slice_}")
            yield f"slice/{where}/{slice_}/n", part.n
        yield f"protocol/{where}/version", protocol.version
        yield from _walk(protocol.excluded, f"protocol/{where}/excluded")
        yield from _walk(protocol.depth_sensitive, f"protocol/{where}/depth_sensitive")
    yield "warnings", len(report.warnings)
    for name, section in (
        ("knowledge_update", report.knowledge_update),
        ("changes", report.changes),
    ):
        if section is not None:
            tree = to_tree(section)
            counts = {key: n for key, n in tree.items() if type(n) is int}
            random = {"random_baseline": tree["random_baseline"]}
            yield from _walk(counts | tree["values"] | random, f"scores/{name}")
    apart = ("protocols", "warnings", "knowledge_update", "changes", "checksums")
    rest = {name: one for name, one in to_tree(report).items() if name not in apart}
    yield from _walk(rest, "scores")
    yield from _walk(json.loads((folder / "excluded.json").read_bytes()), "excluded")
    record = RunFolder(folder).record
    for name, part in (
        ("queries", record.queries),
        ("dataset", record.dataset),
        ("notes", record.notes),
    ):
        yield from _walk(to_tree(part), f"run/{name}")
    yield from _per_query(folder)


def _per_query(folder: Path) -> Iterator[tuple[str, float]]:
    """The columns of the tables that have a row a query, and a checksum of each ranking's order."""
    scores = pq.read_table(folder / now("scores.parquet")).to_pydict()
    rows = [scores.pop(now(name)) for name in ("protocol", "unit", "query")]
    queries = pq.read_table(folder / now("queries.parquet")).to_pydict()
    asked = queries.pop(now("query"))
    del queries[now("seconds")]
    for metric, values in scores.items():
        for protocol, level, query, value in zip(*rows, values, strict=True):
            yield from _walk(value, f"query/{protocol}/{level}/{metric}/{query}")
    for column, values in queries.items():
        for query, value in zip(asked, values, strict=True):
            yield from _walk(value, f"query/{column}/{query}")
    order: dict[str, int] = {}
    ranked, documents, *_ = pq.read_table(folder / now("rankings.parquet")).columns
    for query, document in zip(ranked.to_pylist(), documents.to_pylist(), strict=True):
        order[query] = zlib.crc32(f"{document}\n".encode(), order.get(query, 0))
    for query, checksum in order.items():
        yield f"query/order/{query}", checksum


def _walk(value: Any, key: str) -> Iterator[tuple[str, float]]:
    """The numbers in a JSON value; of a list of texts, a 1 for each; other texts are no numbers."""
    if isinstance(value, bool | int | float):
        yield key, float(value)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _walk(one, f"{key}/{name}")
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from [(f"{key}/{one}", 1.0)] if isinstance(one, str) else _walk(one, f"{key}/{i}")


@cache
def _frozen_table(dataset: str) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = pq.read_table(FROZEN / f"{dataset}.parquet").to_pydict()
    table["key"] = list(map(now, table["key"]))
    return table


def frozen_numbers(dataset: str, retriever: str) -> dict[str, float]:
    """The frozen numbers of a run, under keys of today's names."""
    table = _frozen_table(dataset)
    pairs = zip(table["key"], table[retriever], strict=True)
    return {key: value for key, value in pairs if key and value is not None}


def frozen_digests(dataset: str, retriever: str) -> dict[str, str]:
    """The frozen digests of a run's rankings."""
    record = json.loads((FROZEN / "rankings.json").read_bytes())
    digests: dict[str, str] = record["rankings"][f"{dataset}/{retriever}"]
    return digests


def differences(frozen: Mapping[str, float], current: Mapping[str, float]) -> list[str]:
    """One line for each key whose number differs, is missing or is new."""
    lines = []
    for key in sorted({*frozen, *current}):
        was, is_ = frozen.get(key), current.get(key)
        if was is None and any(f"/{part}/" in f"/{key}/" for part in ADDED):
            continue
        if was is None or is_ is None or not _close(was, is_):
            lines.append(f"{key}: frozen {was}, now {is_}")
    return lines


def _close(a: float, b: float) -> bool:
    return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
