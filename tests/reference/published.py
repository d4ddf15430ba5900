"""Reads what a folder publishes, and checks whether its files belong together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import msgspec

from harness.errors import UsageError
from harness.io.records import read_json_record
from harness.records.scores import (
    AbstentionResult,
    ChangesResult,
    KnowledgeUpdateResult,
    ProtocolResult,
    ScoreReport,
    TokensResult,
    fill_signature,
)
from harness.records.submission import Submission, read_submission
from reference.rankings import parquet_rows

Place = tuple[str, ...]
"""The path of a number in scores.json: the keys that lead to it."""

Table = dict[tuple[str, str], dict[str, dict[str, float | None]]]
"""scores.parquet: (protocol, level) -> query -> metric -> value."""


@dataclass(frozen=True)
class Check:
    """Whether something is as it should be; `message` says how it is."""

    what: str
    ok: bool
    message: str


@dataclass(frozen=True)
class Folder:
    """A run folder, or a submission that claims scores."""

    path: Path
    record: Submission
    report: ScoreReport
    per_query: Table | None

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Reads a folder. Raises UsageError for what is no such folder, or publishes no numbers."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder; name the folder of a run or a submission")
        record = read_submission(path / "run.json")
        if not (path / "scores.json").is_file():
            raise UsageError(
                f"{path}: holds no scores.json, so there is no published number to verify; "
                "`harness score` scores a run folder, `harness leaderboard add` a submission"
            )
        again = f"`harness score {path}` makes it again"
        report = read_json_record(path / "scores.json", ScoreReport, again)
        table = path / "scores.parquet"
        return cls(path, record, report, _table(table) if table.is_file() else None)

    def rows(self, index: int) -> dict[str, dict[str, float | None]] | None:
        """Returns the values by query of a protocol; None without scores.parquet."""
        if self.per_query is None:
            return None
        protocol = self.report.protocols[index]
        return self.per_query.get((protocol.protocol, protocol.level), {})

    def signatures(self) -> Iterator[tuple[Place, str]]:
        """Yields every signature, and its path."""
        for place, leaf in leaves(self.report):
            if isinstance(leaf, str) and ("signature" in place or "signatures" in place):
                yield place, leaf


def leaves(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Yields all texts and numbers of a record, and the path of each: one path a number."""
    if isinstance(value, msgspec.Struct | dict | list):
        for name, inner in _items(value):
            yield from leaves(inner, (*place, name))
    else:
        yield place, value


def _items(value: object) -> Iterator[tuple[str, object]]:
    """Yields the parts of a record; signatures are filled in, and columns taken apart."""
    if isinstance(value, list):
        yield from ((str(i), one) for i, one in enumerate(value))
        return
    if isinstance(value, dict):
        yield from value.items()
        return
    assert isinstance(value, msgspec.Struct)
    parts: dict[str, object] = msgspec.structs.asdict(value)
    if isinstance(value, ProtocolResult):
        for name in ("signature", "metrics", "interval_bases", "columns"):
            del parts[name]
        parts["slices"] = value.slices
    elif isinstance(value, KnowledgeUpdateResult | ChangesResult):
        del parts["signature"], parts["values"]
        if isinstance(value, ChangesResult):
            del parts["n"]  # of each metric; the counts say the same
        parts |= {**value.values, "signatures": value.signatures}
    elif isinstance(value, AbstentionResult):
        parts |= {"signatures": value.signatures}
        del parts["signature"]
    elif isinstance(value, TokensResult):
        del parts["signature"]
        parts["signatures"] = [
            fill_signature(value.signature, f"recall_in_tokens@{budget}", slice_, part.n)
            for budget, found in value.recall_within_budget.items()
            for slice_, part in {"answerable": found, **found.by_ability}.items()
        ]
    yield from parts.items()


def _table(path: Path) -> Table:
    found: Table = {}
    for row in parquet_rows(path, ("protocol", "level", "query")):
        of = found.setdefault((row.pop("protocol"), row.pop("level")), {})
        query = row.pop("query")
        of[query] = {name: v for name, v in row.items() if v is None or type(v) is float}
    return found


def parts(signature: str) -> dict[str, str]:
    """A signature taken apart: `name:value` with `|` between, percent-encoded; metric first."""
    metric, *rest = signature.split("|")
    named = (part.partition(":") for part in rest)
    return {"metric": unquote(metric)} | {name: unquote(value) for name, _, value in named}


def signature_check(folder: Folder, counted: Sequence[str], queries: Sequence[str]) -> Check:
    """Whether every signature says what the folder says: data, depth, queries, slice, n, metric.

    `counted`: the queries that something can be said of; `queries`: those of the dataset, in its
    order.
    """
    report, about = folder.report, folder.report.dataset
    digest = hashlib.sha256("\n".join(counted).encode()).hexdigest()[:8]
    everything = {
        "data": f"{about.name}#{about.fingerprint[:8]}",
        "text": about.text,
        "split": about.split,
        "depth": str(report.depth),
        "queries": "all" if len(counted) == len(queries) else digest,
        "v": report.harness,
        "missing": report.missing,
    }
    wrong, n = [], 0
    for place, text in folder.signatures():
        if place[0] == "semantic":  # of its own model and queries
            continue
        n += 1
        said, expected = parts(text), dict(everything)
        if place[0] == "protocols":
            protocol = report.protocols[int(place[1])]
            expected |= {
                "metric": place[5],
                "protocol": protocol.name,
                "level": protocol.level,
                "slice": place[3],
                "n": str(protocol.slices[place[3]].metrics[place[5]].n),
                "ties": protocol.ties,
            }
        for name, value in expected.items():
            if said.get(name) != value:
                wrong.append(f"{name} is {said.get(name)}, not {value}, in {text}")
                break
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Check("signatures", False, f"{wrong[0]}{more}")
    return Check("signatures", True, f"all {n} say what the folder and the dataset say")


def is_number(place: Place, leaf: object) -> bool:
    """Whether a leaf of scores.json is a result, and not a version or a setting."""
    settings = place[-1] in ("version", "threshold") or place[:2] == ("hits", "matching")
    return type(leaf) in (int, float) and not settings


def kind(report: ScoreReport, place: Place) -> str:
    """What kind of number stands there, in words."""
    if place[0] == "semantic":
        return "accuracy by similarity of texts"
    if place[0] != "protocols" or len(place) < 7:
        if "random_baseline" in place:
            return f"random baseline of {place[0]}"
        return "abstention at a threshold" if "at_threshold" in place else ".".join(place)
    if place[6] in _KINDS:
        return _KINDS[place[6]]
    # Of a metric or a protocol that has no recomputation here.
    return f"{place[5]} of {report.protocols[int(place[1])].name}"


_KINDS = {
    "interval": "ends of 95% intervals",
    "macro_category": "means over categories",
    "macro_haystack": "ends of intervals over haystacks",
    "ties": "expected value of ties",
    "random_baseline": "random baseline",
    "upper_bound": "upper bound",
}
