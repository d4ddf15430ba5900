"""Reads the published numbers of a folder, and checks whether its files are consistent."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

import harness
from harness.analysis.verify.inputs import Inputs, QueryRanking, best_first, iter_rankings
from harness.analysis.verify.means import Place
from harness.analysis.verify.metrics import Values
from harness.datasets.reader import Dataset, choose_queries
from harness.datasets.verify import verify as verify_content
from harness.errors import UsageError
from harness.io.checksums import ChecksummedRecord, check_file, has_digest, read_with_checksums
from harness.io.records import read_json_record, to_plain
from harness.records.run import RunRecord
from harness.records.scores import ProtocolResult, ScoreReport
from harness.records.submission import Submission, read_submission
from harness.runfiles.arrow import read_parquet
from harness.runs.folder.consistency import check_means, check_report
from harness.runs.folder.run_folder import check_counts

RANKINGS = ("rankings.parquet", "rankings.jsonl", "rankings.trec")
_SETTINGS = ("version", "threshold", "ks", "requested", "matching", "interval_bases", "checksums")
"""Keys of numbers that are not results."""
_BY_HAND = "run.json was written by hand"

Rescore = Callable[[Path, Dataset], ScoreReport]
"""Scores a run folder again with its settings. Passed in, since the scorer is not imported."""

_OWN_FIELDS = {"run_version", "retriever", "settings", "queries", "measured"}
"""Fields of run.json that only the harness writes."""


class _WithChecksums(ChecksummedRecord, forbid_unknown_fields=False):
    """The checksums of a record of any kind."""


@dataclass(frozen=True)
class FolderCheck:
    """The result of a check, with details; `ok` is None if it was not checked."""

    what: str
    ok: bool | None
    message: str


@dataclass(frozen=True)
class Folder:
    """A run folder, or a submission with scores; `run` is None if run.json was written by hand."""

    path: Path
    record: Submission
    report: ScoreReport
    run: RunRecord | None

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Reads a folder. Raises UsageError for one without published means."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder; name the folder of a run or a submission")
        if not (path / "run.json").is_file():
            raise UsageError(f"{path}: has no run.json; name the folder of a run or a submission")
        record, file = read_submission(path / "run.json"), path / "scores.json"
        if not file.is_file():
            raise UsageError(
                f"{path}: contains no scores.json, so there is no number to verify; "
                "`harness score` scores a run folder, `harness leaderboard add` a submission"
            )
        report = read_json_record(file, ScoreReport, f"`harness score {path}` makes it again")
        if not any(protocol.slices for protocol in report.protocols):
            raise UsageError(f"{file}: publishes no mean, so nothing is verified")
        own = _OWN_FIELDS & read_json_record(path / "run.json", dict[str, object]).keys()
        run = read_json_record(path / "run.json", RunRecord) if own else None
        return cls(path, record, report, run)

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
        """Returns all results of scores.json, by their path of keys."""
        return dict(_leaves(_tree(self.report)))

    def by_query(self, protocol: ProtocolResult, ids: list[str]) -> Values:
        """Returns a protocol's published values by query; empty without scores.parquet."""
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


def _tree(report: ScoreReport) -> dict[str, Any]:
    """Returns a report as JSON values, with a record for each metric of a slice."""
    tree: dict[str, Any] = to_plain(report)
    for plain, protocol in zip(tree["protocols"], report.protocols, strict=True):
        plain["slices"] = to_plain(protocol.slices)
    return tree


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, float]]:
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if name not in _SETTINGS:
                yield from _leaves(inner, (*place, str(name)))
    elif type(value) in (int, float):
        yield place, value


def checks(folder: Folder, inputs: Inputs, rescore: Rescore | None) -> Iterator[FolderCheck]:
    """Yields the checks of the files against each other, the dataset and the scorer."""
    yield _content(folder, inputs)
    if folder.run is None:
        yield _unchecked("consistency", _BY_HAND)
    else:
        yield _passes("consistency", _counts, folder, folder.run, inputs)
    first, *others = folder.rankings()
    for path in others:
        one, other = ({q: best_first(r) for q, r in iter_rankings(file)} for file in (first, path))
        odd = [query for query in {**one, **other} if not _same(one.get(query), other.get(query))]
        found = f"as in {first.name}, {len(one)} queries"
        if odd:
            found = f"not as in {first.name}; queries: {len(odd)}, first {odd[0]!r}"
        yield FolderCheck(path.name, not odd, found)
    yield _signatures(folder, inputs)
    version = folder.report.harness
    if folder.run is None:
        yield _unchecked("rescored", _BY_HAND)
    elif rescore is None:
        yield _unchecked("rescored", "needs the scorer, and files as they were written")
    elif version != harness.__version__:
        why = f"scores.json is of version {version}, and this is {harness.__version__}"
        yield _unchecked("rescored", why)
    else:
        yield _passes("rescored", _rescored, folder, inputs.dataset, rescore)


def _unchecked(what: str, why: str) -> FolderCheck:
    return FolderCheck(what, None, f"not checked: {why}")


P = ParamSpec("P")


def _passes(what: str, check: Callable[P, str], *given: P.args, **named: P.kwargs) -> FolderCheck:
    """Turns a function that returns its result, or raises UsageError, into a FolderCheck."""
    try:
        return FolderCheck(what, True, check(*given, **named))
    except UsageError as error:
        return FolderCheck(what, False, str(error))


def _same(one: QueryRanking | None, other: QueryRanking | None) -> bool:
    if one is None or other is None or one.documents != other.documents:
        return False
    return one.scores is None or other.scores is None or np.array_equal(one.scores, other.scores)


def check_sums(folder: Folder) -> FolderCheck:
    """Checks the checksums of all files, and lists files without one."""
    wrong, covered, own = [], set(folder.report.inputs), folder.run is not None
    for name in ("run.json", "scores.json"):
        path = folder.path / name
        try:
            record = read_with_checksums(path, _WithChecksums, required=own or name != "run.json")
            covered |= {name, *record.checksums.files} if record.checksums else set()
            for file in record.checksums.files if record.checksums else ():
                if own or (folder.path / file).is_file():  # a submission may have fewer files
                    check_file(folder.path / file, record)
        except UsageError as error:
            wrong.append(str(error))
    for name, sha256 in folder.report.inputs.items():
        if (folder.path / name).is_file() and not has_digest(folder.path / name, sha256):
            wrong.append(f"{folder.path / name}: is not the file that was scored")
    there = {path.name for path in folder.path.iterdir() if path.is_file()}
    found = f"of {', '.join(sorted(covered & there))}"
    if without := ", ".join(sorted(there - covered)):
        found += f"; none of {without}"
    return FolderCheck("checksums", not wrong, wrong[0] if wrong else found)


def _counts(folder: Folder, run: RunRecord, inputs: Inputs) -> str:
    """Checks counts, times, means and versions of the files against each other, and against the
    dataset."""
    dataset, path, imported = inputs.dataset, folder.path, run.imported_from
    scored, made = folder.report.harness, run.versions.get("harness", "")
    if _release(scored) < _release(made):
        raise UsageError(
            f"scores.json is of version {scored}, but run.json of version {made}, which is newer; "
            f"`harness score {path}` makes it again"
        )
    check_report(path, run, folder.report)
    check_means(path, folder.report, read_parquet(path / "scores.parquet"))
    n, asked = dataset.n_queries, int(inputs.asked.sum())
    if run.executed:
        chosen = choose_queries(dataset, run.settings.limit, run.settings.seed or 0)
        if not np.array_equal(np.flatnonzero(inputs.asked), chosen):
            raise UsageError(
                f"{asked} queries, which are not the {len(chosen)} of {n} that the run was to ask"
            )
    elif imported is not None and asked < (n if imported.asked is None else imported.asked):
        raise UsageError(f"{asked} queries, fewer than the file that was imported had")
    if run.executed or (path / "queries.parquet").is_file():
        table = read_parquet(path / "queries.parquet")
        check_counts(path, run, table)
        _times(run, table)
    times = "times, " if run.executed else ""
    return f"{asked} of the {n} queries; counts, {times}means and intervals agree"


def _release(version: str) -> list[int]:
    """Returns the numbers of a release."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _times(run: RunRecord, table: pa.Table) -> None:
    """Checks the summary of search times in run.json against the times of the queries."""
    stated = run.measured.search_ms if run.measured else None
    times = table["seconds"].drop_null().to_numpy() * 1000
    if stated is None or not run.executed:
        return
    found = [times.mean(), *np.percentile(times, [50, 95, 99])] if len(times) else [np.nan] * 4
    if not np.allclose([stated.mean, stated.p50, stated.p95, stated.p99], found, rtol=1e-6, atol=0):
        raise UsageError("search_ms in run.json is not that of the times in queries.parquet")


def _rescored(folder: Folder, dataset: Dataset, rescore: Rescore) -> str:
    """Compares flags, warnings and all numbers with what the scorer writes here."""
    one, other = _tree(folder.report), _tree(rescore(folder.path, dataset))
    for tree in (one, other):
        for name in ("checksums", "inputs", "semantic"):  # the last needs a model
            tree.pop(name, None)
        for protocol in tree["protocols"]:
            protocol.pop("interval_bases", None)  # each result has its own
    if where := next(_differing(one, other), ""):
        raise UsageError(f"{where} in scores.json is not what the scorer writes for these rankings")
    return "flags, warnings and numbers are what the scorer writes for these rankings"


def _differing(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Yields where two JSON values differ, numbers by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from _differing(one.get(name), other.get(name), f"{place}.{name}".strip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, pair in enumerate(zip(one, other, strict=True)):
            yield from _differing(*pair, f"{place}.{at}")
    elif isinstance(one, float) and isinstance(other, int | float):
        if not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9):
            yield place
    elif one != other:
        yield place


def _content(folder: Folder, inputs: Inputs) -> FolderCheck:
    """Checks the fingerprint of the prepared dataset against scores.json."""
    content, manifest = verify_content(inputs.dataset)[0], inputs.dataset.manifest
    for name in ("name", "granularity", "text", "split", "fingerprint"):
        published, ours = getattr(folder.report.dataset, name), getattr(manifest, name)
        stated = published if folder.run is None else getattr(folder.run.dataset, name)
        if published != ours or stated != ours:
            found = (
                f"{name} is {published} in scores.json, {stated} in run.json, {ours} in the data"
            )
            return FolderCheck("dataset", False, found)
    if folder.report.dataset.published_files and not manifest.published:
        found = "published_files is true in scores.json, but these are not the published files"
        return FolderCheck("dataset", False, found)
    found = f"{manifest.name}, content matches its fingerprint {manifest.fingerprint[:8]}"
    return FolderCheck("dataset", content.ok, found if content.ok else content.message)


def _signatures(folder: Folder, inputs: Inputs) -> FolderCheck:
    """Checks the signature of each section against the data, depth and queries of the folder."""
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
    return FolderCheck("signatures", True, f"all {len(signatures)} match the folder")
