"""Results that authors report for their systems, for comparison with measured ones.

A claim is one number, with its protocol as far as known, whether and why it is comparable with
measured numbers, and the score of its published rankings, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from harness.errors import UsageError
from harness.io.files import read_toml
from harness.io.records import Record, convert
from harness.records.scores import ScoredDataset

_SAME_DATA = {"longmemeval/s-ids": "longmemeval/s"}
"""Datasets with the questions and evidence of another dataset."""

Text = Annotated[str, Meta(pattern=r"\S")]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]


class ClaimedFile(Record):
    """The published rankings behind a claim."""

    url: Text
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class RescoredResult(Record):
    """The score of the published file, to six decimals; `metric` is of memory/1."""

    metric: Text
    dataset: Text
    value: Share
    n: Count
    signature: Text


class Claim(Record):
    """One number that is claimed for a system."""

    id: Annotated[Text, Meta(description="Unique; it never changes.")]
    system: Annotated[Text, Meta(description="As its authors name it.")]
    version: Text | None = None
    dataset: Annotated[Text, Meta(description="The dataset here that it is about.")]
    granularity: Annotated[Text, Meta(description="What a document is: turn, session.")]
    measure: Annotated[Text, Meta(description="As its authors name it.")]
    value: Share
    n: Annotated[Count | None, Meta(description="Number of questions; omitted if unknown.")] = None
    protocol: Annotated[Text, Meta(description="What it is, as far as it is known.")]
    comparable: Annotated[
        bool, Meta(description="Whether our numbers on that dataset mean the same.")
    ]
    reason: Annotated[Text, Meta(description="Why it is comparable, or is not.")]
    source: Annotated[Text, Meta(description="Where it is claimed: an address, or words.")]
    date: Annotated[Text | None, Meta(description="When it was claimed.")] = None
    checked: Annotated[
        Text | None, Meta(description="When the row was last compared with its source.")
    ] = None
    reproducible: Annotated[
        bool | Text,
        Meta(description="true where the rankings are published in `file`, else what there is."),
    ]
    file: ClaimedFile | None = None
    rescored: RescoredResult | None = None


class ClaimsFile(Record):
    """claims.toml: each claim is a table, `[[claims]]`."""

    claims: list[Claim]


def read_claims(path: Path) -> list[Claim]:
    """Reads the claims of a TOML file.

    Raises UsageError, which names the row, for unknown, missing and wrong fields, and for an id
    that occurs twice.
    """
    table = read_toml(path)
    rows = table.get("claims")
    if not isinstance(rows, list) or set(table) != {"claims"}:
        raise UsageError(f"{path}: claims must be tables, [[claims]], and nothing else")
    found: dict[str, Claim] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}, claim {number}"
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            where += f" ({row['id']})"
        claim = convert(row, Claim, where)
        if (claim.reproducible is True) != (claim.file is not None):
            raise UsageError(f"{where}: what is reproducible has a file, and nothing else has")
        if claim.rescored is not None and claim.file is None:
            raise UsageError(f"{where}: rescored is what a file gives; name the file")
        if claim.id in found:
            raise UsageError(f"{where}: the id occurs twice; give each claim its own")
        found[claim.id] = claim
    return list(found.values())


def claims_for(claims: Sequence[Claim], dataset: ScoredDataset) -> list[Claim]:
    """Returns the claims on a board's dataset, of any granularity.

    Claims of another granularity are not comparable, with that as reason. LongMemEval-S and its ids
    are one dataset.
    """
    granularity = dataset.granularity
    return [
        claim
        if claim.granularity == granularity
        else replace(
            claim,
            comparable=False,
            reason=f"{claim.granularity}s, where this board has {granularity}s",
        )
        for claim in on_dataset(claims, dataset.name)
    ]


def on_dataset(claims: Iterable[Claim], name: str) -> list[Claim]:
    """Returns the claims on a dataset, or on one with the same questions and evidence."""
    return [one for one in claims if one.dataset in (name, _SAME_DATA.get(name, name))]
