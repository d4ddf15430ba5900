"""What a system logged while it served, as a run folder: recalls joined to labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import digest, disk_errors, folder_aside, write_json
from harness.live.logs.join import chosen
from harness.live.logs.mapping import Mapping
from harness.live.logs.read import Log, read_log
from harness.live.logs.recall import Recall, feedback_summary, with_feedback
from harness.rankings.rankings import Rankings
from harness.records.run import (
    ImportedLog,
    LogJoin,
    LogLines,
    Measured,
    QueryCounts,
    RunRecord,
)
from harness.runs.folder.from_hits import resolve_into, write_queries
from harness.runs.folder.imported import (
    REPEATS,
    import_record,
    known_queries,
    say,
    unasked_rows,
    write_asked,
)
from harness.runs.folder.run_folder import (
    OURS,
    folder_name,
    write_rankings,
    write_record,
)
from harness.runs.record import percentiles
from harness.scoring.matching.found import Matching
from harness.scoring.matching.hits import Hit


@dataclass(frozen=True)
class LogChoices:
    """How a log is taken.

    `repeats`: which recall of a query counts that was asked several times: the `latest` or the
    `first` by its time (by its place in the log where one has no time), or `refuse`. `lenient`:
    lines that cannot be read are counted, not refused. `unasked`: labelled queries that nobody
    asked count 0 instead of being left out.
    """

    mapping: Mapping = field(default_factory=Mapping)
    repeats: str = "latest"
    lenient: bool = False
    unasked: bool = False

    def __post_init__(self) -> None:
        if self.repeats not in REPEATS:
            raise UsageError(f"--repeats must be {', '.join(REPEATS)}, not {self.repeats!r}")


def import_log(
    source: Path,
    dataset: Dataset,
    choices: LogChoices | None = None,
    *,
    out: Path,
    name: str | None = None,
    k: int | None = None,
    strict: bool = False,
    matching: Matching | None = None,
) -> Path:
    """Make a run folder of a log; what the log held stands in its run.json, and feedback.json.

    Raises UsageError for a log that cannot be read, or that joins no labelled query, for recalls of
    several systems, and, when `strict`, for whatever is odd.
    """
    choices = choices or LogChoices()
    log = read_log(source, choices.mapping, lenient=choices.lenient)
    lost = with_feedback(log.recalls, log.feedback)
    joined = chosen(source, log, dataset, choices.repeats)
    name = name or _system(source, joined.recalls.values())
    asked = joined.recalls
    if choices.unasked:
        silent = dict.fromkeys(unasked_rows(asked, dataset), Recall(returned=()))
        asked = dict(sorted({**asked, **silent}.items()))
    texts = [r for r in asked.values() if r.texts is not None and r.returned is None]
    deepest = max((len(r.returned or r.texts or ()) for r in asked.values()), default=1)
    if k is not None and deepest > k:
        raise UsageError(f"{source}: holds recalls of {deepest} documents, more than --k {k}")
    depth = k or max(deepest, 1)
    rankings, notes = None, _odd(log, joined.counts, dataset)
    if not texts:
        rankings, odd = known_queries(_rankings(asked, dataset), dataset, source)
        notes += odd
    say(source, notes, strict)
    each = {file.name: digest(file) for file in log.files}
    sha256 = next(iter(each.values())) if len(each) == 1 else _digest_of("".join(each.values()))
    about = ImportedLog(
        files=each,
        sha256=sha256,
        mapping=choices.mapping.as_json(),
        repeats=choices.repeats,
        lines=LogLines(
            requests=log.tally.recalls,
            feedback=log.tally.feedback,
            other=log.tally.other,
            unreadable=log.tally.unreadable,
            silent=log.tally.silent,
            torn=log.tally.torn,
            first=log.tally.first or None,
        ),
        joined=LogJoin(**joined.counts),
        feedback_to_unknown_requests=lost,
        labelled=dataset.n_queries,
        asked=len(joined.recalls),
        notes=notes,
    )
    identity: dict[str, object] = {"log": sha256, "k": depth, "mapping": about.mapping}
    identity |= {"repeats": choices.repeats, "unasked": choices.unasked}
    if matching is not None:
        identity["matching"] = asdict(matching)
    folder = out / folder_name(dataset, name, identity)
    record = replace(
        import_record(dataset, name, depth, about),
        queries=_query_counts(asked),
        measured=_measured(asked),
    )
    remedy = "name another folder with --out"
    with disk_errors(out, remedy), folder_aside(folder, ours=OURS) as aside:
        if rankings is None:
            ranked, resolved = resolve_into(
                aside, dataset, _hits(asked, dataset, depth), depth, matching
            )
            record = replace(record, hits=resolved)
            write_queries(aside, dataset, ranked, [dataset.query_ids[q] for q in asked], name)
        else:
            write_rankings(rankings, aside, name)
        recalls = asked.values()
        write_asked(
            aside,
            [dataset.query_ids[row] for row in asked],
            [len(r.returned or r.texts or ()) for r in recalls],
            seconds=[r.seconds for r in recalls],
            confidence=[r.confidence for r in recalls],
            abstained=[r.abstained for r in recalls],
            failed=[r.failed for r in recalls],
        )
        feedback = feedback_summary(log.recalls)
        if feedback is not None:
            write_json(aside / "feedback.json", feedback)
        write_record(aside, record)
    return folder


def _system(source: Path, recalls: Any) -> str:
    """The one system that the log names, else the name of the log."""
    systems = sorted({recall.system for recall in recalls if recall.system is not None})
    if len(systems) > 1:
        raise UsageError(
            f"{source}: holds recalls of {len(systems)} systems ({', '.join(systems[:5])}); choose "
            "one with [log.where] in --log-config, or call them one with --name"
        )
    return systems[0] if systems else source.name.partition(".")[0] or "log"


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _odd(log: Log, counts: dict[str, int], dataset: Dataset) -> list[str]:
    tally = log.tally
    said = (
        (tally.unreadable, f"lines could not be read and are passed over, first {tally.first}"),
        (tally.silent, "recalls do not say what was returned and are left out"),
        (counts["unlabelled"], f"recalls are of no query of {dataset.name} and are left out"),
        (counts["ambiguous_text"], "recalls have a text that several queries share; left out"),
    )
    return [f"{n} {what}" for n, what in said if n]


def _rankings(asked: dict[int, Recall], dataset: Dataset) -> Rankings:
    """Columns of the recalls, one a query. Scores where every recall has them."""
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


def _hits(asked: dict[int, Recall], dataset: Dataset, depth: int) -> list[Hit]:
    """Texts, and documents where a recall names them, as hits to be resolved."""
    hits = []
    places: dict[int, dict[str, int]] = {}
    for row, recall in asked.items():
        haystack = int(dataset.query_haystack[row])
        if haystack not in places:
            places[haystack] = dataset.rows_by_id(haystack)
        n = len(recall.returned or recall.texts or ())
        for i in range(min(n, depth)):
            named = recall.returned[i] if recall.returned else None
            known = [] if named is None or named not in places[haystack] else [named]
            hits.append(
                Hit(
                    row,
                    i + 1,
                    recall.texts[i] if recall.texts else "",
                    [places[haystack][one] for one in known],
                    recall.scores[i] if recall.scores else None,
                    int(named is not None and not known),
                )
            )
    return hits


def _query_counts(asked: dict[int, Recall]) -> QueryCounts:
    n, failed = len(asked), sum(recall.failed for recall in asked.values())
    abstained = sum(recall.abstained for recall in asked.values())
    return QueryCounts(asked=n, answered=n - failed, failed=failed, abstained=abstained)


def _measured(asked: dict[int, Recall]) -> Measured | None:
    """Times of the recalls that count, as far as the log has them."""
    times: Sequence[float] = [r.seconds for r in asked.values() if r.seconds is not None]
    search_ms = percentiles(np.array(times) * 1000)
    return None if search_ms is None else Measured(search_ms=search_ms)


# -- What a person is told of the log behind a run -------------------------------------------------


def log_lines(record: RunRecord, feedback: dict[str, Any] | None) -> list[str]:
    """What a person is told of the log behind a run, in sentences."""
    about = record.imported_from
    if not isinstance(about, ImportedLog):
        return []
    joined, asked, labelled = about.joined, about.asked, about.labelled
    lines = [
        f"log: {about.lines.requests} recalls; {joined.by_id} joined to labels by id, "
        f"{joined.by_text} by their exact text, {joined.unlabelled} are of no labelled query",
        f"coverage: {asked} of {labelled} labelled queries were asked ({asked / labelled:.1%}); "
        f"scores are over {'all, the others count 0' if record.queries.asked > asked else 'those'}",
    ]
    if joined.repeated:
        lines.append(
            f"repeats: {joined.repeated} recalls of queries asked more than once do not count; "
            f"the {about.repeats} of each does"
        )
    if feedback is not None:
        lines += feedback_lines(feedback)
    return lines


def feedback_lines(feedback: dict[str, Any]) -> list[str]:
    """Clicks and ratings with what they cannot tell."""
    parts = []
    for key, what in (
        ("click_rate", "recalls with a click"),
        ("first_click_mrr", "reciprocal rank of the first click"),
        ("rating", "mean rating"),
    ):
        cell = feedback[key]
        if cell["value"] is not None:
            parts.append(f"{what} {cell['value']:.3f} (n {cell['n']})")
    return [f"feedback: {', '.join(parts)}", *(f"  {one}" for one in feedback["caveats"])]
