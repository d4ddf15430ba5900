"""Reads what a folder publishes, and checks whether its files belong together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from harness.analysis.verify.inputs import Inputs, QueryRanking, best_first, iter_rankings
from harness.analysis.verify.means import Place
from harness.analysis.verify.metrics import Values
from harness.datasets.columns import verify as verify_content
from harness.errors import UsageError
from harness.io.checksums import ChecksummedRecord, check_file, has_digest, read_with_checksums
from harness.io.records import read_json_record, to_plain
from harness.records.scores import ProtocolResult, ScoreReport
from harness.records.submission import Submission, read_submission
from harness.runfiles.arrow import read_parquet

RANKINGS = ("rankings.parquet", "rankings.jsonl", "rankings.trec")
_SETTINGS = ("version", "threshold", "ks", "requested", "matching", "interval_bases", "checksums")
"""Keys of numbers that are no results."""


class _WithChecksums(ChecksummedRecord, forbid_unknown_fields=False):
    """The checksums of a record of any kind."""


@dataclass(frozen=True)
class FolderCheck:
    """Whether something is as it should be, and how it is."""

    what: str
    ok: bool
    message: str


@dataclass(frozen=True)
class Folder:
    """A run folder, or a submission that claims scores."""

    path: Path
    record: Submission
    report: ScoreReport

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Reads a folder. Raises UsageError for one that publishes no mean."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder; name the folder of a run or a submission")
        record, file = read_submission(path / "run.json"), path / "scores.json"
        if not file.is_file():
            raise UsageError(
                f"{path}: holds no scores.json, so there is no published number to verify; "
                "`harness score` scores a run folder, `harness leaderboard add` a submission"
            )
        report = read_json_record(file, ScoreReport, f"`harness score {path}` makes it again")
        if not any(protocol.slices for protocol in report.protocols):
            raise UsageError(f"{file}: publishes no mean, so nothing is verified")
        return cls(path, record, report)

    def rankings(self) -> list[Path]:
        """Returns the files of rankings, the first of which is scored. Raises UsageError."""
        found = [self.path / name for name in RANKINGS if (self.path / name).is_file()]
        if not found:
            texts = (self.path / "hits.jsonl").is_file()
            more = "; texts are matched by `harness leaderboard add`" if texts else ""
            needed = ", ".join(RANKINGS)
            raise UsageError(f"{self.path}: holds no rankings; one of {needed} is needed{more}")
        return found

    def numbers(self) -> dict[Place, float]:
        """Returns every result in scores.json, by the keys that lead to it."""
        tree = to_plain(self.report)
        for plain, protocol in zip(tree["protocols"], self.report.protocols, strict=True):
            plain["slices"] = to_plain(protocol.slices)
        return dict(_leaves(tree))

    def by_query(self, protocol: ProtocolResult, ids: list[str]) -> Values:
        """Returns a protocol's published values of the queries; nothing without scores.parquet."""
        path = self.path / "scores.parquet"
        if not path.is_file():
            return {}
        keys = [("protocol", "=", protocol.protocol), ("level", "=", protocol.level)]
        table = read_parquet(path, filters=keys)
        number = {id_: i for i, id_ in enumerate(ids)}
        rows = [number[query] for query in table["query"].to_pylist()]
        found = {}
        for metric in {metric for part in protocol.slices.values() for metric in part.metrics}:
            if len(table) and metric in table.column_names:
                found[metric] = np.full(len(ids), np.nan)
                found[metric][rows] = table[metric].to_numpy()
        return found


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, float]]:
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if name not in _SETTINGS:
                yield from _leaves(inner, (*place, str(name)))
    elif type(value) in (int, float):
        yield place, value


def checks(folder: Folder, inputs: Inputs) -> Iterator[FolderCheck]:
    """Yields whether the files are those that were written together, and say the same."""
    yield _checksums(folder)
    yield _content(folder, inputs)
    first, *others = folder.rankings()
    for path in others:
        one, other = ({q: best_first(r) for q, r in iter_rankings(file)} for file in (first, path))
        odd = [query for query in {**one, **other} if not _same(one.get(query), other.get(query))]
        found = f"as in {first.name}, {len(one)} queries"
        if odd:
            found = f"not as in {first.name}; queries: {len(odd)}, first {odd[0]!r}"
        yield FolderCheck(path.name, not odd, found)
    yield _signatures(folder, inputs)


def _same(one: QueryRanking | None, other: QueryRanking | None) -> bool:
    if one is None or other is None or one.documents != other.documents:
        return False
    return one.scores is None or other.scores is None or np.array_equal(one.scores, other.scores)


def _checksums(folder: Folder) -> FolderCheck:
    wrong = []
    for name in ("run.json", "scores.json"):
        try:
            record = read_with_checksums(folder.path / name, _WithChecksums)
            for file in record.checksums.files if record.checksums else ():
                if (folder.path / file).is_file():
                    check_file(folder.path / file, record)
        except UsageError as error:
            wrong.append(str(error))
    for name, sha256 in folder.report.inputs.items():
        if (folder.path / name).is_file() and not has_digest(folder.path / name, sha256):
            wrong.append(f"{folder.path / name}: is not the file that was scored")
    found = wrong[0] if wrong else "the files are those that were written together"
    return FolderCheck("checksums", not wrong, found)


def _content(folder: Folder, inputs: Inputs) -> FolderCheck:
    """Whether the prepared dataset is, byte by byte, the one that scores.json names."""
    content, manifest = verify_content(inputs.dataset)[0], inputs.dataset.manifest
    for name in ("name", "granularity", "text", "split", "fingerprint"):
        published, ours = getattr(folder.report.dataset, name), getattr(manifest, name)
        if published != ours:
            found = f"{name} is {published} in scores.json, {ours} in the data"
            return FolderCheck("dataset", False, found)
    found = f"{manifest.name}, content as its fingerprint {manifest.fingerprint[:8]} says"
    return FolderCheck("dataset", content.ok, found if content.ok else content.message)


def _signatures(folder: Folder, inputs: Inputs) -> FolderCheck:
    """Whether each section's signature names the data, depth and queries of the folder."""
    report, about = folder.report, folder.report.dataset
    counted = [inputs.dataset.query_ids[i] for i in np.flatnonzero(inputs.counted)]
    digest = hashlib.sha256("\n".join(counted).encode()).hexdigest()[:8]
    expected = {
        "data": f"{about.name}#{about.fingerprint[:8]}",
        "text": about.text,
        "split": about.split,
        "depth": str(report.depth),
        "queries": "all" if inputs.counted.all() else digest,
        "v": report.harness,
        "missing": report.missing,
    }
    others = (report.knowledge_update, report.changes, report.abstention, report.tokens)
    signatures = [(section.signature, expected) for section in others if section is not None]
    for one in report.protocols:
        own = {"protocol": one.name, "level": one.level, "ties": one.ties, "metric": "{metric}"}
        signatures.append((one.signature, expected | own))
    for signature, wanted in signatures:
        metric, *rest = signature.split("|")
        parts = (part.partition(":") for part in rest)
        said = {"metric": metric, **{name: unquote(value) for name, _, value in parts}}
        for name, value in wanted.items():
            if said.get(name) != value:
                found = f"{name} is {said.get(name)}, not {value}, in {signature}"
                return FolderCheck("signatures", False, found)
    return FolderCheck("signatures", True, f"all {len(signatures)} say what the folder says")
