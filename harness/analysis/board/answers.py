"""Reads the judged answers to show with a board.

A group has the systems and baselines of one reader and one judge, since answers of others do not
compare. Answers are not entries of the board of rankings.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from harness.analysis.board.records import AnswersGroup, AnswersRow
from harness.analysis.board.summary import short_result, six_digits
from harness.errors import UsageError
from harness.records.answers import BASELINES, CLASSES, AnswersRecord, reader_of
from harness.records.run import DatasetRef
from harness.records.scores import ProtocolResult, ScoredDataset
from harness.runs.folder.answers_folder import RECORD, AnswersFolder, display_names
from harness.runs.folder.run_folder import read_scores_by_query
from harness.schema import Ability
from harness.scoring.scores import main_metrics, main_protocol, range_over_judges

DatasetKey = tuple[str, str, str, str]
"""Name, granularity, split and fingerprint of a dataset."""


def dataset_key(dataset: ScoredDataset | DatasetRef) -> DatasetKey:
    """Returns the settings that answers and a board must share."""
    return dataset.name, dataset.granularity, dataset.split, dataset.fingerprint


def read_answers(results: Path) -> dict[DatasetKey, list[AnswersGroup]]:
    """Reads the groups of answers below a folder of results, by dataset.

    Sorted, so the same folders give the same groups. Folders that cannot be read or were not scored
    are excluded.
    """
    groups: dict[tuple[DatasetKey, str, str, str], list[tuple[AnswersRecord, AnswersRow]]] = {}
    for path in sorted(results.glob(f"*.answers/{RECORD}")):
        folder = AnswersFolder(path.parent)
        try:
            record, scores = folder.record, read_scores_by_query(path.parent)[0]
        except UsageError:
            continue
        judged = [one for one in scores.protocols if one.protocol.startswith("judge:")]
        judges = range_over_judges(judged)
        ends = [float(f"{end:.6g}") for end in judges] if judges else None
        for protocol in judged or filter(None, [main_protocol(scores.protocols)]):
            metric = next(iter(main_metrics(protocol.overall)), "")
            if metric:
                row = _row(path.parent.name, record, protocol, metric, ends)
                reader, key = reader_of(record), dataset_key(record.dataset)
                alike = groups.setdefault((key, reader, protocol.protocol, metric), [])
                alike.append((record, row))
    found: dict[DatasetKey, list[AnswersGroup]] = {}
    for (key, reader, judge, metric), members in sorted(groups.items(), key=lambda one: one[0]):
        names = display_names([record for record, _ in members])
        named = [replace(row, system=name) for name, (_, row) in zip(names, members, strict=True)]
        # A baseline is repeated for each run, and equal for contexts of one size.
        unique = {_identity(row): row for row in sorted(named, key=_order, reverse=True)}
        rows = sorted(unique.values(), key=_order)
        group = AnswersGroup(reader=reader, protocol=judge, metric=metric, rows=rows)
        found.setdefault(key, []).append(group)
    return found


def _row(
    folder: str,
    record: AnswersRecord,
    protocol: ProtocolResult,
    metric: str,
    judge_range: list[float] | None,
) -> AnswersRow:
    slices = {name: part.metrics for name, part in protocol.slices.items()}
    return AnswersRow(
        folder=folder,
        system=record.name,
        condition=record.settings.condition,
        tokens=six_digits(record.mean_context_tokens),
        judge_range=judge_range,
        usd=six_digits(record.usage.usd if record.usage else None),
        failed=record.queries.failed,
        values={
            name: short_result(slices[name][metric])
            for name in ("all", *(str(ability) for ability in Ability))
            if name in slices and metric in slices[name]
        },
        error_classes={
            name: short_result(slices["all"][name]) for name in CLASSES if name in slices["all"]
        },
    )


def _identity(row: AnswersRow) -> str:
    """Returns the key of duplicate rows: everything but the folder of a baseline."""
    return repr(replace(row, folder="")) if row.condition in BASELINES else row.folder


def _order(row: AnswersRow) -> tuple[int, str, str]:
    """Sorts systems first, then the baselines in their order."""
    baseline = row.condition in BASELINES
    return BASELINES.index(row.condition) + 1 if baseline else 0, row.system, row.folder
