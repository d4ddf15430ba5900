"""What others say of their systems, as data: read, checked, and laid beside what is measured here.

A claim is one number, with what it really is as far as anybody can tell, whether it compares with a
number of ours and why, and, where its rankings are published, what our instrument gives for them.
The form is `claims.schema.json` beside this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml

SCHEMA = Path(__file__).with_name("claims.schema.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAME_DATA = {"longmemeval/s-ids": "longmemeval/s"}
"""Datasets of which the questions and evidence are those of another."""


@dataclass(frozen=True)
class PublishedFile:
    """Where the rankings behind a claim are published, and the file that they are."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Ours:
    """What our instrument gives: a metric on a dataset, its value, n and signature."""

    metric: str
    dataset: str
    value: float
    n: int
    signature: str


@dataclass(frozen=True)
class Claim:
    """One number that is claimed of a system.

    `measure` is as its authors name it, `protocol` what it really is; `compares` with numbers of
    ours on `dataset`, or not, and `why`. `n` None: not known. `reproducible`: True where the
    rankings are published in `file`, else what there is instead. `checked`: when the row was last
    held against its source.
    """

    id: str
    system: str
    dataset: str
    granularity: str
    measure: str
    value: float
    protocol: str
    compares: bool
    why: str
    source: str
    reproducible: bool | str
    n: int | None = None
    version: str | None = None
    date: str | None = None
    checked: str | None = None
    file: PublishedFile | None = None
    ours: Ours | None = None


def read_claims(path: Path) -> list[Claim]:
    """The claims of a TOML file. Raises UsageError, naming the row, for what is not as it must be:
    unknown and missing fields, values beyond 0 to 1, an id that stands twice."""
    table = read_toml(path)
    rows = table.get("claims")
    if not isinstance(rows, list) or set(table) != {"claims"}:
        raise UsageError(f"{path}: claims must be tables, [[claims]], and nothing else")
    found: dict[str, Claim] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}, claim {number}"
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            where += f" ({row['id']})"
        claim = _claim(row, where)
        if claim.id in found:
            raise UsageError(f"{where}: the id stands twice; give each claim its own")
        found[claim.id] = claim
    return list(found.values())


def _claim(row: Any, where: str) -> Claim:
    values = _fields(Claim, row, where)
    texts = ("id", "system", "dataset", "granularity", "measure", "protocol", "why", "source")
    given = (one for one in ("version", "date", "checked") if one in values)
    _texts(values, (*texts, *given), where)
    if not isinstance(values["compares"], bool):
        raise UsageError(f"{where}: compares must be true or false, and why says why")
    if not isinstance(values["reproducible"], bool | str) or values["reproducible"] == "":
        raise UsageError(f"{where}: reproducible must be true, or what there is instead")
    if (values["reproducible"] is True) != ("file" in values):
        raise UsageError(f"{where}: what is reproducible has a file, and nothing else has")
    values["value"] = _share(values["value"], where)
    if "n" in values:
        _count(values["n"], where)
    if "file" in values:
        file = _fields(PublishedFile, values["file"], f"{where}, file")
        _texts(file, ("url", "sha256"), f"{where}, file")
        if not _SHA256.fullmatch(file["sha256"]):
            raise UsageError(f"{where}, file: sha256 must be 64 digits of 0-9a-f, as sha256sum has")
        values["file"] = PublishedFile(**file)
    if "ours" in values:
        if "file" not in values:
            raise UsageError(f"{where}: ours is what a file gives; name the file")
        ours = _fields(Ours, values["ours"], f"{where}, ours")
        _texts(ours, ("metric", "dataset", "signature"), f"{where}, ours")
        ours["value"] = _share(ours["value"], f"{where}, ours")
        _count(ours["n"], f"{where}, ours")
        values["ours"] = Ours(**ours)
    return Claim(**values)


def _texts(values: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    for name in names:
        if not isinstance(values[name], str) or not values[name].strip():
            raise UsageError(f"{where}: {name} must be a text")


def _fields(kind: type[Any], row: Any, where: str) -> dict[str, Any]:
    """The fields of a table. Raises UsageError for unknown ones and for those that are missing."""
    if not isinstance(row, dict):
        raise UsageError(f"{where}: must be a table")
    known = [one.name for one in fields(kind)]
    needed = [one.name for one in fields(kind) if not _may_be_absent(kind, one.name)]
    for name in row:
        if name not in known:
            raise UsageError(f"{where}: unknown field {name!r}{near(name, known)}")
    for name in needed:
        if name not in row:
            raise UsageError(f"{where}: no {name}; add it")
    return dict(row)


def _may_be_absent(kind: type[Any], name: str) -> bool:
    return hasattr(kind, name)  # it has a default


def _share(value: Any, where: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 1:
        raise UsageError(f"{where}: value must be a number from 0 to 1, not {value!r}")
    return float(value)


def _count(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{where}: n must be a whole number above 0, not {value!r}")


def claims_for(claims: Sequence[Claim], board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims that stand beside a board, in the form of `claim` in leaderboard.schema.json.

    Those on its dataset, whatever their granularity: one on another unit does not compare, and says
    so. LongMemEval-S and its ids are one.
    """
    dataset = board["dataset"]
    return [_beside(claim, dataset["granularity"]) for claim in on_dataset(claims, dataset["name"])]


def on_dataset(claims: Iterable[Claim], name: str) -> list[Claim]:
    """The claims on a dataset, or on another that has the same questions and evidence."""
    return [one for one in claims if one.dataset in (name, _SAME_DATA.get(name, name))]


def _beside(claim: Claim, granularity: str) -> dict[str, Any]:
    here = claim.granularity == granularity
    why = claim.why if here else f"{claim.granularity}s, where this board has {granularity}s"
    ours = claim.ours
    return {
        "system": claim.system,
        "version": claim.version,
        "measure": claim.measure,
        "value": claim.value,
        "n": claim.n,
        "protocol": claim.protocol,
        "compares": claim.compares and here,
        "why": why,
        "source": claim.source,
        "date": claim.date,
        "reproducible": claim.reproducible,
        "ours": None
        if ours is None
        else {
            "system": f"{claim.system}, {ours.metric}",
            **{name: asdict(ours)[name] for name in ("value", "n", "signature")},
        },
    }
