"""The folder of a run, also of an imported one.

Scoring, boards and pages need no other files.

| file | what |
|---|---|
| rankings.parquet | query, document, rank, score: the dataset's ids, best first |
| rankings.trec | the same as a TREC run file (missing if an id has white space) |
| run.json | dataset, system, settings, times, machine, versions, git state |
| queries.parquet | query, seconds, returned, confidence, abstained, failed (if known) |
| hits.parquet | texts that the system returned, and the documents they were resolved to |
| answers.jsonl | question_id and hypothesis, if the system answers questions itself |
| errors.jsonl | query and trace, one line per failed query; only if there are any |
| scores.json | protocols x slices x metrics, with n, random baseline, upper bound |
| scores.parquet | one row per query and protocol |
| semantic.parquet | one row per query: by text similarity, and by ids; only if requested |
| excluded.json | ids that a protocol did not score, by reason |
| feedback.json | clicks and ratings, with their limits (runs from a log that has any) |
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.checksums import (
    check_file,
    digests,
    has_digest,
    read_with_checksums,
    rewrite_with_checksums,
    write_with_checksums,
)
from harness.io.masking import redact_in
from harness.io.records import ChecksummedRecord, convert, to_plain
from harness.records.run import DatasetRef, EmptyHaystacks, QueryCounts, RunRecord
from harness.records.scores import ScoreReport
from harness.runfiles.arrow import read_parquet
from harness.runs.folder.run_state import OWN_ANSWERS, RUN_AGAIN, RUN_RECORD, require_run

BESIDE_RUN = ("rankings.parquet", "queries.parquet", "hits.parquet", OWN_ANSWERS)
"""The files with checksums in run.json, from which all scores are computed."""

BESIDE_SCORES = ("scores.parquet", "semantic.parquet", "excluded.json")
"""The files with checksums in scores.json."""


class _AnyRecord(ChecksummedRecord, forbid_unknown_fields=False):
    """The checksums of a record of any kind."""


@dataclass(frozen=True)
class RunFolder:
    """A finished run on disk."""

    path: Path

    @cached_property
    def record(self) -> RunRecord:
        """run.json, read once; secrets that another program wrote into it are masked.

        Raises UsageError if the folder is not a run's.
        """
        require_run(self.path)
        path = self.path / RUN_RECORD
        record = read_with_checksums(path, RunRecord, RUN_AGAIN)
        plain = to_plain(record)
        shown = redact_in(plain)
        return record if shown == plain else convert(shown, RunRecord, str(path))

    @property
    def rankings(self) -> Path:
        """The rankings, the only file that scoring needs. Raises UsageError if they were changed
        since the run was written."""
        return check_file(self.path / "rankings.parquet", self.record, RUN_AGAIN)

    @property
    def hits(self) -> Path:
        """Returned texts and the documents they were resolved to; may not exist. Raises UsageError
        as `rankings`."""
        return check_file(self.path / "hits.parquet", self.record, RUN_AGAIN)

    @property
    def queries(self) -> pa.Table | None:
        """queries.parquet; None for an imported run without it. Raises UsageError as `rankings`,
        and if run.json has other counts."""
        path = check_file(self.path / "queries.parquet", self.record, RUN_AGAIN)
        if not path.is_file():
            return None
        table = read_parquet(path)
        check_counts(self.path, self.record, table)
        return table

    @property
    def said(self) -> Path:
        """The system's own answers; may not exist. Raises UsageError as `rankings`."""
        return check_file(self.path / OWN_ANSWERS, self.record, RUN_AGAIN)


def count_queries(table: pa.Table) -> QueryCounts:
    """Counts the rows of queries.parquet by their outcome."""
    n = len(table)
    failed, abstained = (pc.sum(table[name]).as_py() or 0 for name in ("failed", "abstained"))
    return QueryCounts(asked=n, answered=n - failed, failed=failed, abstained=abstained)


def check_counts(folder: Path, record: RunRecord, table: pa.Table) -> None:
    """Checks that queries.parquet has the queries that run.json counts."""
    counted, stated = count_queries(table), record.queries
    for name in ("asked", "failed", "abstained"):
        found, expected = getattr(counted, name), getattr(stated, name)
        if found != expected:
            raise UsageError(
                f"{folder / 'queries.parquet'}: has {found} queries {name}, but run.json says "
                f"{expected}"
            )


def write_record(folder: Path, record: RunRecord) -> None:
    """Writes run.json with the checksums of the files in the folder."""
    write_with_checksums(folder / RUN_RECORD, record, BESIDE_RUN)


def write_scores(folder: Path, report: ScoreReport) -> None:
    """Writes scores.json with checksums of the existing scores by query, and of the rankings (or
    answers) that were scored."""
    record = _record_of(folder)
    if record is None or record.checksums is None:
        inputs = digests(folder / name for name in BESIDE_RUN)
    else:
        inputs = dict(record.checksums.files)
    path = folder / "scores.json"
    write_with_checksums(path, replace(report, inputs=inputs), BESIDE_SCORES, compact=True)


def read_scores(folder: Path, *, check_inputs: bool = True) -> ScoreReport:
    """Reads scores.json and verifies the folder: checksums of run.json, scores.json and the files
    that the scores were computed from, counts of queries, and that means are in their intervals.

    Raises UsageError for a file that was changed since it was written, for scores of other rankings
    than those in the folder, and for numbers that contradict each other. Without `check_inputs`
    only scores.json itself is checked.
    """
    if folder.is_dir() and not (folder / "scores.json").exists():
        raise UsageError(f"{folder}: has no scores.json; `harness score {folder}` makes it")
    again = f"`harness score {folder}` makes it again"
    report = read_with_checksums(folder / "scores.json", ScoreReport, again, required=True)
    if check_inputs:
        from harness.runs.folder.consistency import check_report

        record = _record_of(folder)
        _check_inputs(folder, record, report, again)
        check_report(folder, record if isinstance(record, RunRecord) else None, report)
    return report


def read_scores_by_query(folder: Path) -> tuple[ScoreReport, pa.Table]:
    """Reads scores.json and scores.parquet. Raises UsageError as `read_scores`, and if a mean is
    not that of its queries."""
    from harness.runs.folder.consistency import check_means

    report = read_scores(folder)
    table = read_parquet(scores_by_query(folder, report))
    check_means(folder, report, table)
    return report, table


def _check_inputs(
    folder: Path, record: ChecksummedRecord | None, report: ScoreReport, again: str
) -> None:
    """Checks that the scores are of the folder's files, and that these are unchanged."""
    checksums = None if record is None else record.checksums
    if record is not None and checksums is not None:
        same = report.inputs == checksums.files
        for name in checksums.files:
            check_file(folder / name, record, RUN_AGAIN)
    else:  # another program's record, without checksums
        inputs = report.inputs.items()
        same = bool(inputs) and all(has_digest(folder / name, sha) for name, sha in inputs)
    if not same:
        raise UsageError(f"{folder / 'scores.json'}: is of other rankings than those here; {again}")


def _record_of(folder: Path) -> ChecksummedRecord | None:
    """Reads run.json, or the checksums of answers.json. Raises UsageError for a changed one."""
    if (folder / RUN_RECORD).is_file():
        return read_with_checksums(folder / RUN_RECORD, RunRecord, RUN_AGAIN)
    path = folder / "answers.json"
    return read_with_checksums(path, _AnyRecord) if path.is_file() else None


def scores_by_query(folder: Path, scores: ScoreReport, name: str = "scores.parquet") -> Path:
    """Returns the path of scores.parquet, or of another of BESIDE_SCORES. Raises UsageError if it
    does not belong to these scores."""
    again = f"`harness score {folder}` makes it again"
    return check_file(folder / name, scores, again)


def run_name(text: str) -> str:
    """Returns a valid name of a run: printable, and unlike a path or an option. Raises UsageError
    for any other."""
    plain = text.isprintable() and text == text.strip() and 0 < len(text) <= 80
    if not plain or text[0] in "-." or "/" in text or "\\" in text:
        raise UsageError(
            f"--name {text!r}: a name has up to 80 characters, no / and no \\, and begins with "
            "neither - nor ."
        )
    return text


def empty_haystacks(found: EmptyHaystacks | None) -> str:
    """Describes haystacks in which every query returned nothing; empty for None."""
    if found is None:
        return ""
    from harness.runs.folder.empty_message import empty_message

    return empty_message(found)


def rename(folder: Path, name: str) -> None:
    """Changes the name of a run; its folder stays where it is. Raises UsageError."""
    run_name(name)
    require_run(folder)
    note_in(folder, name=name)


def note_in(folder: Path, *, name: str = "", submitted_by: str = "") -> None:
    """Sets the name and the submitter of a finished run; empty texts change nothing."""
    record = RunFolder(folder).record
    changed = msgspec.structs.replace(
        record, name=name or record.name, submitted_by=submitted_by or record.submitted_by
    )
    if changed != record:
        rewrite_with_checksums(folder / RUN_RECORD, changed)


def folder_name(dataset: Dataset, system: str, identity: object) -> str:
    """Returns the name of a run's folder: dataset, granularity, system, digest of all settings.

    Injected documents are part of the dataset's name: `sample-imitate-1-turn-bm25-5cb50a24`.
    """
    settings = {**to_plain(identity), "dataset": dataset.fingerprint}
    key = hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:8]
    name = re.sub(r"[^\w.\-]+", "-", Path(system).name)
    data = "-".join(filter(None, [dataset.name.replace("/", "-"), dataset.manifest.injected]))
    return f"{data}-{dataset.manifest.granularity}-{name}-{key}"


def dataset_ref(dataset: Dataset) -> DatasetRef:
    """Returns the reference to a dataset in a record."""
    manifest = dataset.manifest
    return DatasetRef(
        name=manifest.name,
        granularity=manifest.granularity,
        text=manifest.text,
        split=manifest.split,
        fingerprint=manifest.fingerprint,
        published_files=manifest.published,
        counts=manifest.counts,
        licence=manifest.licence,
    )
