"""Adds submissions: runs from elsewhere are validated, and scored again from their rankings.

A submission is a run folder: `rankings.parquet`, `.trec` or `.jsonl` (or `hits.jsonl` with texts),
and `run.json`, either one that the harness wrote or a few lines by hand:

    {"system": "mine", "version": "2.1", "params": {}, "dataset": "locomo", "granularity": "turn",
     "fingerprint": "ff853148...", "k": 50, "submitted_by": "our group", "command": "make locomo"}

Claimed scores (`scores.json`) are never copied; where they are not what the rankings give, the
submission is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from harness.analysis.board.validate import check_answered, check_asked, check_metadata
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset, open_prepared
from harness.errors import UsageError
from harness.io.files import TemporaryFolder, replace_folder
from harness.io.records import read_json_record
from harness.records.scores import ScoreReport
from harness.records.submission import Submission, read_submission
from harness.runfiles.arrow import read_parquet
from harness.runfiles.rankings import best_first
from harness.runfiles.readers import read_rankings
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.run_folder import RunFolder, count_queries, write_record
from harness.runs.folder.score_folder import score_run
from harness.scoring.protocols import Choices

_RANKINGS = ("rankings.parquet", "rankings.jsonl", "rankings.trec", "hits.jsonl")
_TOLERANCE = 1e-9


def add(
    folder: Path,
    results: Path,
    source: str | None = None,
    others: Mapping[Path, Path] | None = None,
) -> Path:
    """Adds a submission; returns its run folder below `results`.

    `others` are the submissions added in the same call, by run folder. Raises UsageError if the
    folder is not a submission, its dataset differs from the one here, its rankings have unknown
    documents or queries, duplicate documents or a larger depth than declared, its claimed scores
    are not those of its rankings, or it repeats one of the others.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; a submission is a folder with run.json")
    if folder.resolve().parent == results.resolve() and (folder / "scores.json").is_file():
        raise UsageError(f"{folder}: is a run of {results}, so already on its leaderboard")
    submission = read_submission(folder / "run.json")
    check_metadata(folder / "run.json", submission)
    dataset = _dataset(folder, submission, source)
    queries = folder / "queries.parquet"
    asked = check_asked(queries, dataset) if queries.is_file() else None
    results.mkdir(parents=True, exist_ok=True)
    # Check outside the folder of runs first: a run with the same rankings may exist.
    with TemporaryFolder("add", results) as aside:
        rankings = _rankings(folder, dataset, Path(aside))
        made = import_rankings(
            rankings,
            dataset,
            ImportOptions(Path(aside) / "run", submission.system, submission.k, strict=True),
        )
        if asked is not None:
            check_answered(made, asked, queries)
            shutil.copy(queries, made / queries.name)
            counts = count_queries(read_parquet(queries))
            write_record(made, replace(RunFolder(made).record, queries=counts))
        _check_claimed(folder, score_run(made, dataset, _requested(folder)).report)
        record = RunFolder(made).record
        record = replace(
            record,
            retriever=replace(
                record.retriever, version=submission.version, params=submission.params
            ),
            name=submission.name,
            submitted_by=submission.submitted_by,
            submitted=True,
            command=submission.command,
        )
        write_record(made, record)
        if (same := (others or {}).get(results / made.name)) is not None:
            raise UsageError(
                f"{folder}: repeats the run {same} (same system, same rankings); remove one of them"
            )
        replace_folder(made, results / made.name)
    return results / made.name


def _requested(folder: Path) -> Choices:
    """Returns what the claimed scores include beyond the defaults: metrics, cut-offs, answers."""
    path = folder / "scores.json"
    if not path.is_file():
        return Choices()
    claimed = read_json_record(path, ScoreReport, "remove it")
    return Choices() if claimed.requested is None else Choices().wider(claimed.requested)


def _dataset(folder: Path, submission: Submission, source: str | None) -> Dataset:
    """Opens the dataset of a submission, by its fingerprint."""
    about = submission.dataset
    config = {name: getattr(about, name) for name in ("granularity", "text", "split")}
    try:
        dataset = None if source else open_prepared(about.name, about.fingerprint)
        if dataset is None or any(
            value and getattr(dataset.manifest, name) != value for name, value in config.items()
        ):
            dataset = open_dataset(about.name, source=source, **config)
    except UsageError as error:
        raise UsageError(f"{folder}: {error}") from None
    if not dataset.fingerprint.startswith(about.fingerprint):
        raise UsageError(
            f"{folder}: was run on {about.name} {about.fingerprint[:8]}, but here it is "
            f"{dataset.fingerprint[:8]}: the data differ, so scores are not comparable"
        )
    return dataset


def _rankings(folder: Path, dataset: Dataset, aside: Path) -> Path:
    """Returns the file to score: hits with texts are preferred over rankings made from them."""
    hits = folder / "hits.parquet"
    if hits.is_file():
        return _as_lines(hits, aside / "hits.jsonl")
    found = [folder / name for name in _RANKINGS if (folder / name).is_file()]
    if not found:
        raise UsageError(f"{folder}: contains no rankings; one of {', '.join(_RANKINGS)} is needed")
    for other in found[1:]:
        if not _same(found[0], other):
            raise UsageError(f"{folder}: {found[0].name} and {other.name} differ in their rankings")
    return found[0]


def _same(one: Path, other: Path) -> bool:
    """Returns whether two files have the same rankings, ignoring the format of scores."""
    a, b = best_first(read_rankings(one)), best_first(read_rankings(other))
    by_query = []
    for found in (a, b):
        parts = zip(found.query_ids, found.starts[:-1], found.starts[1:], strict=True)
        by_query.append(
            {q: found.document.slice(i, j - i).to_pylist() for q, i, j in parts if j > i}
        )
    return by_query[0] == by_query[1]


def _as_lines(hits: Path, out: Path) -> Path:
    """Converts hits.parquet to JSON lines with only the output of the system."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[str, list[dict[str, object]]] = {}
    kinds = pa.schema(
        [
            ("query", pa.string()),
            ("hit", pa.int64()),
            ("text", pa.string()),
            ("sources", pa.list_(pa.string())),
            ("score", pa.float64()),
        ]
    )
    try:
        table = pq.read_table(hits, columns=kinds.names).select(kinds.names).cast(kinds)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{hits}: not a file of the harness ({error})") from None
    for row in table.sort_by("hit").to_pylist():
        hit = {name: row[name] for name in ("text", "sources", "score")}
        found.setdefault(row["query"], []).append(hit)
    lines = (orjson.dumps({"query": query, "hits": mine}) for query, mine in found.items())
    out.write_bytes(b"\n".join(lines) + b"\n")
    return out


def _check_claimed(folder: Path, ours: ScoreReport) -> None:
    """Compares claimed scores with those of the rankings. Raises UsageError if they differ."""
    path = folder / "scores.json"
    if not path.is_file():
        return
    claimed = _values(read_json_record(path, ScoreReport, "remove it"))
    computed = _values(ours)
    scored = {key[:3] for key in computed}
    for key, one in claimed.items():
        # Metrics that are not scored here by default are neither compared nor copied.
        if key not in computed and key[:3] in scored:
            continue
        other = computed.get(key)
        if one != other and not _close(one, other):
            protocol, level, part, metric = key
            raise UsageError(
                f"{path}: claims {metric} {_format(one)} ({protocol}, {level}, {part}), but its "
                f"rankings give {_format(other)}"
            )


Value = tuple[float | None, int, float, float]
"""A mean, None if unknown, its number of queries, and its interval."""


def _values(report: ScoreReport) -> dict[tuple[str, str, str, str], Value]:
    return {
        (protocol.name, protocol.level, part, metric): (
            result.value,
            result.n,
            result.interval.low if result.interval else 0.0,
            result.interval.high if result.interval else 0.0,
        )
        for protocol in report.protocols
        for part, slice_ in protocol.slices.items()
        for metric, result in slice_.metrics.items()
    }


def _close(one: Value, other: Value | None) -> bool:
    if other is None or one[1] != other[1] or one[0] is None or other[0] is None:
        return False
    ends = zip(one[2:], other[2:], strict=True)
    return abs(one[0] - other[0]) <= _TOLERANCE and all(abs(a - b) <= 1e-6 for a, b in ends)


def _format(value: Value | None) -> str:
    if value is None or value[0] is None:
        return "nothing"
    return f"{value[0]:.6f} (n {value[1]}, 95% {value[2]:.4f} to {value[3]:.4f})"
