"""Imports the log of a system as a run folder: requests joined to labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.logs.events import (
    AMBIGUOUS,
    FeedbackStats,
    FeedbackSummary,
    QueryIndex,
    RetrievalEvent,
    add_feedback,
    feedback_summary,
)
from harness.extensions.online.logs.field_mapping import FieldMapping
from harness.extensions.online.logs.read import Log, read_log
from harness.io.files import digest, disk_errors, folder_aside
from harness.io.records import to_plain, write_json_record
from harness.records.run import ImportedLog, JoinCounts, Measured, QueryCounts
from harness.runfiles.rankings import Rankings
from harness.runs.folder.hits import write_hit_rankings, write_resolved_hits
from harness.runs.folder.imported import (
    REPEATS,
    import_record,
    known_queries,
    say,
    unasked_rows,
)
from harness.runs.folder.rankings import percentiles, write_query_table, write_rankings
from harness.runs.folder.run_folder import folder_name, write_record
from harness.runs.folder.run_state import OURS
from harness.scoring.matching.matcher import Matching, TextHit


@dataclass(frozen=True)
class LogImportOptions:
    """Options of importing a log.

    `repeats`: which request of a repeated query counts: the `latest` or `first` by time (by
    position if one has no time), or `refuse`. `lenient`: count unreadable lines. `unasked`:
    labelled queries without a request count 0. `strict`: warnings are errors.
    """

    mapping: FieldMapping = field(default_factory=FieldMapping)
    repeats: str = "latest"
    lenient: bool = False
    unasked: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if self.repeats not in REPEATS:
            raise UsageError(f"--repeats must be {', '.join(REPEATS)}, not {self.repeats!r}")


def import_log(
    source: Path,
    dataset: Dataset,
    choices: LogImportOptions | None = None,
    *,
    out: Path,
    name: str | None = None,
    k: int | None = None,
    matching: Matching | None = None,
) -> Path:
    """Imports a log as a run folder; run.json and feedback.json describe the log.

    Raises UsageError for a log that cannot be read or that joins no labelled query, for requests
    of several systems, and, if `strict`, for every warning.
    """
    choices = choices or LogImportOptions()
    log = read_log(source, choices.mapping, lenient=choices.lenient)
    lost = add_feedback(log.events, log.feedback)
    asked, joined = join_labels(source, log, dataset, choices.repeats)
    name = name or _system(source, asked.values())
    files = {file.name: digest(file) for file in log.files}
    source_record = ImportedLog(
        # One digest over all files if there are several.
        sha256=(
            next(iter(files.values()))
            if len(files) == 1
            else hashlib.sha256("".join(files.values()).encode()).hexdigest()
        ),
        files=files,
        mapping=to_plain(choices.mapping),
        repeats=choices.repeats,
        lines=log.counts,
        joined=joined,
        feedback_to_unknown_requests=lost,
        labelled=dataset.n_queries,
        asked=len(asked),
    )
    if choices.unasked:
        silent = dict.fromkeys(unasked_rows(asked, dataset), RetrievalEvent(returned=()))
        asked = dict(sorted({**asked, **silent}.items()))
    texts = [r for r in asked.values() if r.texts is not None and r.returned is None]
    deepest = max((len(r.returned or r.texts or ()) for r in asked.values()), default=1)
    if k is not None and deepest > k:
        raise UsageError(
            f"{source}: a request has {deepest} documents, more than --k {k}; set a larger --k"
        )
    depth = k or max(deepest, 1)
    rankings, notes = None, _warnings(log, joined, dataset)
    if not texts:
        rankings, odd = known_queries(_rankings(asked, dataset), dataset, source)
        notes += odd
    say(source, notes, choices.strict)
    identity = {
        "log": source_record.sha256,
        "k": depth,
        "mapping": source_record.mapping,
        "repeats": choices.repeats,
        "unasked": choices.unasked,
        **({} if matching is None else {"matching": asdict(matching)}),
    }
    folder = out / folder_name(dataset, name, identity)
    source_record = msgspec.structs.replace(source_record, notes=notes)
    events = asked.values()
    search_ms = percentiles(np.array([r.seconds for r in events if r.seconds is not None]) * 1000)
    failed, abstained = (sum(getattr(r, what) for r in events) for what in ("failed", "abstained"))
    record = msgspec.structs.replace(
        import_record(dataset, name, depth, source_record),
        queries=QueryCounts(
            asked=len(asked), answered=len(asked) - failed, failed=failed, abstained=abstained
        ),
        measured=None if search_ms is None else Measured(search_ms=search_ms),
    )
    remedy = "name another folder with --out"
    with disk_errors(out, remedy), folder_aside(folder, ours=OURS) as aside:
        if rankings is None:
            ranked, resolved = write_resolved_hits(
                aside, dataset, _hits(asked, dataset, depth), depth, matching
            )
            record = msgspec.structs.replace(record, hits=resolved)
            write_hit_rankings(aside, dataset, ranked, [dataset.query_ids[q] for q in asked], name)
        else:
            write_rankings(rankings, aside, name)
        write_query_table(
            aside,
            [dataset.query_ids[row] for row in asked],
            [len(r.returned or r.texts or ()) for r in events],
            seconds=[r.seconds for r in events],
            confidence=[r.confidence for r in events],
            abstained=[r.abstained for r in events],
            failed=[r.failed for r in events],
        )
        feedback = feedback_summary(log.events)
        if feedback is not None:
            write_json_record(aside / "feedback.json", feedback)
        write_record(aside, record)
    return folder


def join_labels(
    source: Path, log: Log, dataset: Dataset, repeats: str
) -> tuple[dict[int, RetrievalEvent], JoinCounts]:
    """Returns the counted request of each labelled query that was asked, by row, and join counts.

    A request is joined by its id, else by the exact text of its query, never by similarity. Raises
    UsageError if no request is joined.
    """
    labelled = QueryIndex(dataset.query_ids, dataset.query_table["text"].to_pylist())
    by_query: dict[int, list[RetrievalEvent]] = {}
    counts = JoinCounts()
    for event in log.events:
        row, by_id = labelled.find(event.query_id, event.query)
        if row < 0:
            counts.ambiguous_text += row == AMBIGUOUS
            counts.unlabelled += row != AMBIGUOUS
            continue
        counts.by_id += by_id
        counts.by_text += not by_id
        if event.returned is not None or event.texts is not None or event.failed:
            by_query.setdefault(row, []).append(event)
    if not by_query:
        raise UsageError(f"{source}: {_nothing_joined(log, counts, dataset)}")
    found = {}
    for row in sorted(by_query):
        mine = by_query[row]
        counts.repeated += len(mine) - 1
        if len(mine) > 1 and repeats == "refuse":
            raise UsageError(
                f"{source}: query {dataset.query_ids[row]!r} has {len(mine)} requests; choose one "
                "with --repeats latest or --repeats first"
            )
        if all(event.time is not None for event in mine):
            mine.sort(key=lambda event: event.time or 0.0)
        found[row] = mine[0] if repeats == "first" else mine[-1]
    return found, counts


def _nothing_joined(log: Log, counts: JoinCounts, dataset: Dataset) -> str:
    n = len(log.events)
    if counts.by_id + counts.by_text:
        return (
            f"none of the {n} requests has the returned documents; OpenTelemetry records them only "
            "if the instrumentation enables it"
        )
    first = log.events[0]
    has = f"id {first.query_id!r}" if first.query_id is not None else "no id"
    return (
        f"none of the {n} requests is a query of {dataset.name}: the first has {has} and the "
        f"text {first.query!r}; the dataset's first has {dataset.query_ids[0]!r} and "
        f"{dataset.query(0).text!r}; map the fields with --log-config"
    )


def _system(source: Path, events: Iterable[RetrievalEvent]) -> str:
    """Returns the single system that the log names, else the name of the log."""
    systems = sorted({event.system for event in events if event.system is not None})
    if len(systems) > 1:
        raise UsageError(
            f"{source}: contains requests of {len(systems)} systems ({', '.join(systems[:5])}); "
            "select one with [log.where] in --log-config, or give them one name with --name"
        )
    return systems[0] if systems else source.name.partition(".")[0] or "log"


def _warnings(log: Log, joined: JoinCounts, dataset: Dataset) -> list[str]:
    counts = log.counts
    kinds = (
        (counts.unreadable, f"unreadable lines were skipped, first {counts.first_error}"),
        (counts.without_result, "requests without the returned documents are excluded"),
        (joined.unlabelled, f"requests that are no query of {dataset.name} are excluded"),
        (joined.ambiguous_text, "requests whose text several queries share are excluded"),
    )
    return [f"{n} {what}" for n, what in kinds if n]


def _rankings(asked: dict[int, RetrievalEvent], dataset: Dataset) -> Rankings:
    """Converts the requests to rankings, with scores if every non-empty result has them."""
    kept = [(() if r.failed else r.returned or (), r.scores) for r in asked.values()]
    documents = [document for ids, _ in kept for document in ids]
    score = None
    if documents and all(scores is not None for ids, scores in kept if ids):
        score = np.array([s for ids, scores in kept if ids for s in scores or ()], np.float64)
    sizes = [len(ids) for ids, _ in kept]
    return Rankings(
        [dataset.query_ids[row] for row in asked],
        np.repeat(np.arange(len(asked), dtype=np.int32), sizes),
        pa.chunked_array([pa.array(documents, pa.string())]),
        score,
    )


def _hits(asked: dict[int, RetrievalEvent], dataset: Dataset, depth: int) -> list[TextHit]:
    """Converts the requests to hits: texts, and documents if a request names them."""
    hits = []
    places: dict[int, dict[str, int]] = {}
    for row, event in asked.items():
        haystack = int(dataset.query_haystack[row])
        if haystack not in places:
            places[haystack] = dataset.rows_by_id(haystack)
        n = len(event.returned or event.texts or ())
        for i in range(min(n, depth)):
            named = event.returned[i] if event.returned else None
            known = [] if named is None or named not in places[haystack] else [named]
            hits.append(
                TextHit(
                    row,
                    i + 1,
                    event.texts[i] if event.texts else "",
                    [places[haystack][one] for one in known],
                    event.scores[i] if event.scores else None,
                    int(named is not None and not known),
                )
            )
    return hits


# -- Text ------------------------------------------------------------------------------------------


def log_lines(source: ImportedLog, n_scored: int, feedback: FeedbackSummary | None) -> list[str]:
    """Describes the log of a run; `n_scored` is the number of scored queries."""
    joined, others = source.joined, ""
    if source.asked < source.labelled:
        score_0 = n_scored > source.asked
        others = f"; the others {'score 0' if score_0 else 'are excluded'}"
    lines = [
        f"log: requests={source.lines.requests}  joined_by_id={joined.by_id}  "
        f"joined_by_text={joined.by_text}  unlabelled={joined.unlabelled}",
        f"coverage: {source.asked} of {source.labelled} labelled queries have a request "
        f"({source.asked / source.labelled:.1%}){others}",
    ]
    if joined.repeated:
        lines.append(
            f"repeats: {joined.repeated} repeated requests are excluded; the {source.repeats} "
            "request of each query counts"
        )
    return lines if feedback is None else [*lines, *feedback_lines(feedback)]


def feedback_lines(feedback: FeedbackStats) -> list[str]:
    """Describes clicks and ratings, and their limits."""
    rates = (
        (feedback.click_rate, "click rate"),
        (feedback.first_click_mrr, "reciprocal rank of the first click"),
        (feedback.rating, "mean rating"),
    )
    parts = [f"{what} {r.value:.3f} (n {r.n:,})" for r, what in rates if r.value is not None]
    return [f"feedback: {', '.join(parts)}", *(f"  {one}" for one in feedback.caveats)]
