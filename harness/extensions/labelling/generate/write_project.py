"""Generated queries, and the labelling project that contains them.

Splits are assigned by the hash of a group, never by order, and no group is in two splits. A group
is a connected component: documents are connected if they are judged or proposed for one query
(except by shared words alone) or share a query. A group keeps the split of its earlier queries;
otherwise the hash of one of its documents decides. So later documents and queries move no
earlier ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import msgspec

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    Candidate,
    GenerationBatch,
    GenerationSettings,
    LabelDocument,
    LabelQuery,
    Project,
    ProposalReason,
    QueryOrigin,
    Split,
    encode_lines,
)
from harness.io.files import write_bytes
from harness.schema import Ability
from harness.scoring.matching.words import WORD, plain

GRADE = 3
"""The grade of the document that a query was generated from: it contains the answer."""

REASONS: tuple[ProposalReason, ...] = get_args(ProposalReason)

Rows = Mapping[tuple[str | None, str], int]
"""The row of each document by haystack (None: any) and id."""


def normalised(text: str) -> str:
    """Returns the words of a text for comparison: without case, punctuation and extra spaces."""
    return " ".join(plain(word) for word in WORD.findall(text))


def rows_of(documents: Sequence[LabelDocument]) -> Rows:
    """Returns the row of each document."""
    rows: dict[tuple[str | None, str], int] = {}
    for row, document in enumerate(documents):
        rows.setdefault((None, document.id), row)
        for name in document.haystacks:
            rows[name, document.id] = row
    return rows


def new_id(text: str, haystack: str | None) -> str:
    """Returns the id of a new query, from text and haystack; it reveals nothing of the document."""
    data = f"{haystack or ''}\0{text}".encode("utf-8", "surrogatepass")
    return f"q-{hashlib.sha256(data).hexdigest()[:12]}"


@dataclass(frozen=True)
class SetQuery:
    """A query of a labelled set. `relevant` are rows of its documents (of a generated query, its
    sources); `proposed` maps rows that may be relevant to the reason. `haystack` None: all.
    """

    id: str
    text: str
    haystack: str | None
    split: str | None
    relevant: tuple[int, ...]
    answers: tuple[str, ...] = ()
    ability: Ability | None = None
    origin: QueryOrigin | None = None
    proposed: Mapping[int, ProposalReason] = field(default_factory=dict)

    @classmethod
    def of(cls, query: LabelQuery, relevant: Iterable[int]) -> SetQuery:
        """Returns a query of a project with these relevant documents."""
        rest = (tuple(sorted(relevant)), tuple(query.answers), query.ability, query.generated)
        return cls(query.id, query.text, query.haystack or None, query.split, *rest)

    def with_proposed(self, more: Mapping[int, ProposalReason]) -> SetQuery:
        """Returns the query with more proposed documents; of two reasons the first counts."""
        known = dict(self.proposed)
        for row, reason in more.items():
            known[row] = min(known.get(row, reason), reason, key=REASONS.index)
        kept = {row: reason for row, reason in known.items() if row not in self.relevant}
        return replace(self, proposed=kept)

    def merged(self, other: SetQuery) -> SetQuery:
        """Merges two queries with the same text and haystack."""
        relevant = tuple(sorted({*self.relevant, *other.relevant}))
        both = replace(self, relevant=relevant, answers=(*self.answers, *other.answers))
        return both.with_proposed(other.proposed)


def read_earlier(folder: Path, settings: GenerationSettings) -> Project:
    """Reads the project to extend, or returns an empty one.

    `settings` determine the splits, so they must match the project's. Raises UsageError if they
    differ, and for a project that was not generated.
    """
    if not (folder / "label.json").is_file():
        return Project.new(folder)
    project = Project.read(folder)
    before = project.settings.generated
    if before is None:
        raise UsageError(
            f"--out {folder}: is a labelling project that was not generated; name a new folder"
        )
    shares = ",".join(f"{name}={share:g}" for name, share in before.splits.items())
    for name, same, old in (
        ("--split", before.splits == settings.splits, shares),
        ("--seed", before.seed == settings.seed, before.seed),
    ):
        if not same:
            raise UsageError(
                f"--out {folder}: was generated with {name} {old}, which fixes its splits; leave "
                "it as it was, or name a new folder"
            )
    return project


def earlier_queries(project: Project, documents: Sequence[LabelDocument]) -> list[SetQuery]:
    """Returns the queries of earlier calls."""
    rows = rows_of(documents)
    return [
        SetQuery.of(query, [rows[query.haystack or None, one] for one in query.generated.documents])
        for query in project.queries
        if query.generated is not None
    ]


def write(
    project: Project,
    documents: Sequence[LabelDocument],
    queries: Sequence[SetQuery],
    settings: GenerationSettings,
    batch: GenerationBatch,
) -> Project:
    """Writes the project: old queries unchanged, then the new ones with their splits.

    New queries are sorted by id, which does not depend on the order of documents. `queries` are all
    queries; `batch` describes the new ones. Grades are written first, so that a crash loses none.
    """
    folder = project.folder
    old = {query.id for query in project.queries}
    new = [_record(query, documents) for query in queries if query.id not in old]
    lines = [
        Annotation(query=query.id, document=documents[row].id, grade=GRADE)
        for query in queries
        for row in query.relevant
    ]
    folder.mkdir(parents=True, exist_ok=True)
    # Rewritten, not appended, and without a time: equal documents and seed give equal bytes.
    write_bytes(folder / "annotations" / f"{CONSTRUCTION}.jsonl", encode_lines(lines))
    earlier = project.settings.generated
    batches = list(earlier.batches) if earlier else []
    if new:
        batches.append(msgspec.structs.replace(batch, queries=len(new)))
    generated = msgspec.structs.replace(settings, batches=batches)
    written = Project(
        folder,
        msgspec.structs.replace(project.settings, seed=settings.seed, generated=generated),
        list(documents),
        [*project.queries, *new],
        _pool(project.pool, queries, documents),
    )
    written.pool = written.with_copies()
    written.write()
    return Project.read(folder)


def _pool(
    old: Sequence[Candidate],
    queries: Sequence[SetQuery],
    documents: Sequence[LabelDocument],
) -> list[Candidate]:
    """Returns the old candidates, then the documents of new queries and new proposals."""
    pool = list(old)
    known = {(one.query, one.document) for one in pool}
    for query in queries:
        golds = dict.fromkeys(query.relevant, CONSTRUCTION)
        for row, reason in (*golds.items(), *sorted(query.proposed.items())):
            document = documents[row].id
            if (query.id, document) not in known:
                pool.append(Candidate(query=query.id, document=document, proposal=reason))
    return pool


def _record(query: SetQuery, documents: Sequence[LabelDocument]) -> LabelQuery:
    """Returns a line of queries.jsonl; no retriever sees its `generated`."""
    made_from = [documents[row].id for row in query.relevant]
    return LabelQuery(
        id=query.id,
        text=query.text,
        haystack=query.haystack,
        ability=query.ability,
        answers=list(query.answers),
        split=next(name for name in NAMES if name == query.split),
        generated=query.origin and msgspec.structs.replace(query.origin, documents=made_from),
    )


# -- Splits ----------------------------------------------------------------------------------------


NAMES: tuple[Split, ...] = get_args(Split)
"""The splits of the dataset `labelled`."""
DEFAULT_SPLITS = "test=0.5,dev=0.2,train=0.3"


def parse_splits(text: str) -> dict[Split, float]:
    """Parses `test=0.5,dev=0.2,train=0.3`. Raises UsageError for anything else."""
    shares: dict[Split, float] = {}
    for part in text.split(","):
        given, _, value = part.strip().partition("=")
        name = next((split for split in NAMES if split == given), None)
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if name is None or name in shares or not 0 < share <= 1:
            raise UsageError(
                f"--split {text}: {part.strip()!r} is no share; write {DEFAULT_SPLITS}, each of "
                f"{', '.join(NAMES)} at most once, above 0"
            )
        shares[name] = share
    if not math.isclose(sum(shares.values()), 1, abs_tol=1e-6):
        raise UsageError(f"--split {text}: the shares sum to {sum(shares.values()):g}, not to 1")
    return {name: shares[name] for name in NAMES if name in shares}


def fraction(seed: int, text: str) -> float:
    """Returns a number in [0, 1) from the seed and the text: 53 bits of their sha256."""
    data = hashlib.sha256(f"{seed}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(data[:8], "big") >> 11) / (1 << 53)


def groups(n: int, ties: Iterable[Sequence[int]]) -> list[int]:
    """Returns the group of each of n documents; `ties` are lists of connected documents."""
    from scipy.cluster.hierarchy import DisjointSet

    sets = DisjointSet(range(n))
    for first, *others in ties:
        for other in others:
            sets.merge(first, other)
    return [sets[row] for row in range(n)]


def assign(
    group_of: Sequence[int],
    keys: Sequence[str],
    shares: Mapping[Split, float],
    seed: int,
    before: Iterable[tuple[int, str]] = (),
) -> list[str | None]:
    """Returns the split of each query; None for one that would connect two splits.

    `group_of` and `keys` have, for each query, its group and the key of its document; `before`
    has the group and the split of queries with a fixed split.
    """
    fixed: dict[int, set[str]] = {}
    for group, split in before:
        fixed.setdefault(group, set()).add(split)
    first: dict[int, tuple[float, str]] = {}
    for group, key in zip(group_of, keys, strict=True):
        one = (fraction(seed, f"first\0{key}"), key)
        first[group] = min(one, first.get(group, one))
    found: list[str | None] = []
    for group in group_of:
        # Not the hash that chose the key: the minimum of many hashes is near 0.
        splits = fixed.get(group) or {_at(shares, fraction(seed, f"split\0{first[group][1]}"))}
        found.append(next(iter(splits)) if len(splits) == 1 else None)
    return found


def _at(shares: Mapping[Split, float], position: float) -> Split:
    """Returns the split at a position in [0, 1)."""
    passed = 0.0
    for name, share in shares.items():
        passed += share
        if position < passed:
            return name
    return list(shares)[-1]  # rounding of the sum of shares
