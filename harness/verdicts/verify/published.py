"""What a folder publishes, and whether its files belong together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from harness.errors import UsageError
from harness.files import read_json
from harness.records.base import read_json_record, to_tree
from harness.records.scores import ProtocolResult, ScoreReport
from harness.verdicts.verify.rankings import parquet_rows

Place = tuple[str, ...]
"""Where a number stands in scores.json: the keys that lead to it."""

Table = dict[tuple[str, str], dict[str, dict[str, float | None]]]
"""scores.parquet: (protocol, level) -> query -> metric -> value."""


@dataclass(frozen=True)
class Check:
    """Whether something is as it should be; `found` says how it is."""

    what: str
    ok: bool
    found: str


@dataclass(frozen=True)
class Folder:
    """A run folder, or a submission that claims scores."""

    path: Path
    record: dict[str, Any]
    report: ScoreReport
    scores: dict[str, Any]
    per_query: Table | None

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Raises UsageError for what is no such folder, or publishes no numbers."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder; name the folder of a run or a submission")
        record = read_json(path / "run.json")
        if not (path / "scores.json").is_file():
            raise UsageError(
                f"{path}: holds no scores.json, so there is no published number to verify; "
                "`harness score` scores a run folder, `harness leaderboard add` a submission"
            )
        if not isinstance(record, dict):
            raise UsageError(f"{path / 'run.json'}: must be a JSON object")
        again = f"`harness score {path}` makes it again"
        report = read_json_record(path / "scores.json", ScoreReport, again)
        scores = number_tree(report)
        table = path / "scores.parquet"
        return cls(path, record, report, scores, _table(table) if table.is_file() else None)

    @property
    def dataset(self) -> dict[str, Any]:
        """What run.json says of the dataset; a submission by hand says it in its own first level.

        Raises UsageError where it names none, or not with its fingerprint.
        """
        said = self.record.get("dataset")
        about = said if isinstance(said, dict) else {**self.record, "name": said}
        for name in ("name", "fingerprint"):
            if not isinstance(about.get(name), str) or not about[name]:
                raise UsageError(f"{self.path / 'run.json'}: does not say the dataset's {name}")
        return about

    @property
    def depth(self) -> int:
        """How many documents a ranking could hold. Raises UsageError where nobody says."""
        settings = self.record.get("settings")
        k = self.record.get("k") or (settings.get("k") if isinstance(settings, dict) else None)
        if not isinstance(k, int):
            raise UsageError(f"{self.path / 'run.json'}: does not say k, the depth of its rankings")
        return k

    @property
    def executed(self) -> bool:
        """Whether the harness ran the system, rather than import its rankings."""
        return "measured" in self.record and "imported_from" not in self.record

    @property
    def system(self) -> str:
        """What was run."""
        retriever = self.record.get("retriever") or {}
        return str(self.record.get("system") or retriever.get("name") or "a system")

    def rows(self, index: int) -> dict[str, dict[str, float | None]] | None:
        """The values by query of the protocol that stands there; None without scores.parquet."""
        if self.per_query is None:
            return None
        block = self.scores["protocols"][index]
        return self.per_query.get((block["protocol"], block["level"]), {})

    def signatures(self) -> Iterator[tuple[Place, str]]:
        """Every signature, and where it stands."""
        for place, leaf in leaves(self.scores):
            if isinstance(leaf, str) and ("signature" in place or "signatures" in place):
                yield place, leaf

    @property
    def missing(self) -> str:
        """What a query without a ranking counts."""
        return str(self.scores.get("missing", "zero"))


def number_tree(report: ScoreReport) -> dict[str, Any]:
    """Lays out scores as a tree in which each number has one path of keys."""
    tree: dict[str, Any] = to_tree(report)
    tree["protocols"] = [_protocol_tree(one) for one in report.protocols]
    for name, section in (
        ("knowledge_update", report.knowledge_update),
        ("changes", report.changes),
    ):
        if section is not None:
            plain = to_tree(section)
            del plain["signature"], plain["values"]
            if isinstance(plain["n"], dict):  # of each metric; the counts say the same
                del plain["n"]
            tree[name] = {**plain, **section.values, "signatures": section.signatures}
    if report.abstention is not None:
        plain = to_tree(report.abstention)
        del plain["signature"]
        tree["abstention"] = {**plain, "signatures": report.abstention.signatures}
    if report.tokens is not None:
        plain = to_tree(report.tokens)
        del plain["signature"]
        for budget, found in plain["recall_within_budget"].items():
            found["signature"] = report.tokens.signature_of(budget)
            for ability, part in found["by_ability"].items():
                part["signature"] = report.tokens.signature_of(budget, ability)
        tree["tokens"] = plain
    if report.semantic is not None:
        tree["semantic"]["results"] = _protocol_tree(report.semantic.results)
    return tree


def _protocol_tree(protocol: ProtocolResult) -> dict[str, Any]:
    tree: dict[str, Any] = to_tree(protocol)
    for name in ("signature", "metrics", "interval_bases"):
        tree.pop(name, None)
    tree["excluded"] = protocol.excluded
    tree["slices"] = to_tree(protocol.slices)
    return tree


def _table(path: Path) -> Table:
    found: Table = {}
    for row in parquet_rows(path, ("protocol", "level", "query")):
        of = found.setdefault((row.pop("protocol"), row.pop("level")), {})
        query = row.pop("query")
        of[query] = {name: v for name, v in row.items() if v is None or type(v) is float}
    return found


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Everything in a JSON value that holds nothing itself, and where it stands."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield place, value
    for name, inner in items:
        yield from leaves(inner, (*place, str(name)))


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
    scores, about = folder.scores, folder.scores["dataset"]
    digest = hashlib.sha256("\n".join(counted).encode()).hexdigest()[:8]
    everything = {
        "data": f"{about['name']}#{about['fingerprint'][:8]}",
        "text": about["text"],
        "split": about["split"],
        "depth": str(scores["depth"]),
        "queries": "all" if len(counted) == len(queries) else digest,
        "v": scores["harness"],
        "missing": folder.missing,
    }
    wrong, n = [], 0
    for place, text in folder.signatures():
        if place[0] == "semantic":  # of its own model and queries
            continue
        n += 1
        said, cell = parts(text), dict(everything)
        if place[0] == "protocols":
            block = scores["protocols"][int(place[1])]
            here = block["slices"][place[3]]["metrics"][place[5]]
            cell |= {
                "metric": place[5],
                "protocol": f"{block['protocol']}/{block['version']}",
                "level": block["level"],
                "slice": place[3],
                "n": str(here["n"]),
                "ties": block["ties"],
            }
        for name, value in cell.items():
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


def kind(scores: Mapping[str, Any], place: Place) -> str:
    """What kind of number stands there, in words."""
    if place[0] == "semantic":
        return "accuracy by similarity of texts"
    if place[0] != "protocols" or len(place) < 7:
        if "random_baseline" in place:
            return f"random baseline of {place[0]}"
        return "abstention at a threshold" if "at_threshold" in place else ".".join(place)
    if place[6] in _KINDS:
        return _KINDS[place[6]]
    block = scores["protocols"][int(place[1])]  # of a metric or a protocol that nobody knows here
    return f"{place[5]} of {block['protocol']}/{block['version']}"


_KINDS = {
    "interval": "ends of 95% intervals",
    "macro_category": "means over categories",
    "macro_haystack": "ends of intervals over haystacks",
    "ties": "expected value of ties",
    "random_baseline": "random baseline",
    "upper_bound": "upper bound",
}
