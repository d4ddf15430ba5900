"""PrecisionMemBench: 77 cases over 35 beliefs, with what must and what must not be returned.

Source: https://github.com/tenurehq/precisionMemBench (MIT; read from a copy, never shipped). All
beliefs are one haystack. As in the authors' code,

* the evidence of a case is `relevantBeliefs.shouldOnlyInclude` or, without that list, `mustInclude`
  without the pinned beliefs of `test-user`. The qrels `precisionmembench-official` have only this;
* a case may read the beliefs of its user (default `test-user`) with one of its scopes. A principal
  is a user and its scopes, `test-user/domain:code`; the groups of a case are the principals whose
  beliefs it may read;
* the text is name, aliases, content and reason, joined by spaces.

The default qrels also have grade 0: `mustExclude` of any part and, with `shouldOnlyInclude`, every
other belief that is not pinned for the case. `superseded_by` is an update, at the later time of
the old belief's `updated_at` and the new one's `created_at`; `resolved_at` is a forget.

Cases without evidence are `abstention`: anything returned for them has precision 0. "Relation
expansion" is multi-hop, "Counter-signal retrieval" (a rejected term must find its replacement)
knowledge-update, all others lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.raw_files import all_files, field, read_once
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, Change, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

OFFICIAL_KEY = "precisionmembench-official"
ABILITIES = {
    "Relation expansion": Ability.MULTI_HOP,
    "Counter-signal retrieval": Ability.KNOWLEDGE_UPDATE,
}
_RAW = (
    "https://raw.githubusercontent.com/tenurehq/precisionMemBench/"
    "18c7955357b33098a64d601bc8e4624c41743972/fixtures/"
)
BELIEFS, CASES = "beliefs.seed.json", "retrieval.cases.json"
VARIANTS = (
    Variant(
        "",
        "77 cases over 35 beliefs of two users, with ids that must and must not be returned",
        "MIT",
        files=(
            RemoteFile(
                BELIEFS,
                _RAW + BELIEFS,
                sha256="35659b3b9a581b644fc6746e1b4e902c3e7b56c0973b546bf7b0816a69e3de98",
                bytes=33_303,
            ),
            RemoteFile(
                CASES,
                _RAW + CASES,
                sha256="09e99f0852280538abe34b03570f65583fdb10df3c554b7150f0f665d5db709c",
                bytes=35_940,
            ),
        ),
        granularities=("belief",),
        k=20,
    ),
)
_HAYSTACK = "beliefs"
_USER = "test-user"
_PARTS = ("pinnedFacts", "relevantBeliefs", "openQuestions")


@register_adapter("precisionmembench")
class PrecisionMemBench:
    """PrecisionMemBench adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds both files in a folder, or in a clone of the repository."""
        repository = "https://github.com/tenurehq/precisionMemBench"
        return all_files(source, variant, folder="fixtures", of=repository)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the beliefs as one haystack, their changes, and the cases with both qrels sets.

        Raises UsageError for a missing field, an invalid date, or the id of an unknown belief.
        """
        beliefs: dict[str, Belief] = {}
        for where, record in _records(raw.files[BELIEFS]):
            belief = _read_belief(record, where)
            if belief.id in beliefs:
                raise UsageError(f"{where}: duplicate _id {belief.id!r}; make it unique")
            beliefs[belief.id] = belief
        for belief in beliefs.values():
            out.document(belief.id, belief.text, timestamp=belief.created, user_id=belief.principal)
        out.haystack(_HAYSTACK)
        for belief in beliefs.values():
            _write_changes(belief, beliefs, out)
        for where, case in _records(raw.files[CASES]):
            _write_case(case, where, beliefs, out)


@dataclass(frozen=True)
class Belief:
    """A belief of the seed; times are schema timestamps."""

    id: str
    text: str
    user: str
    scopes: tuple[str, ...]
    pinned: bool
    is_question: bool
    superseded_by: str | None
    resolved: int | None
    created: int
    updated: int
    where: str

    @property
    def principal(self) -> str:
        """Its user and scopes."""
        return _principal(self.user, self.scopes)

    def shown_to(self, user: str, scopes: Iterable[str]) -> bool:
        """Tests whether a user may read it in some scopes."""
        return self.user == user and not set(self.scopes).isdisjoint(scopes)

    def pinned_for(self, user: str, scopes: Iterable[str]) -> bool:
        """Tests whether the authors' code shows it without a search."""
        current = self.superseded_by is None and self.resolved is None
        return self.pinned and current and not self.is_question and self.shown_to(user, scopes)


def _principal(user: str, scopes: Iterable[str]) -> str:
    return f"{user}/{'+'.join(scopes)}"


def _records(path: Path) -> Iterable[tuple[str, Any]]:
    """Yields each record of a file with its location. Raises UsageError if it is not a list."""
    records = read_once(path)
    if not isinstance(records, list):
        raise UsageError(f"{path}: not a list; is it a file of PrecisionMemBench?")
    for number, record in enumerate(records):
        yield f"{path}: record {number}", record


def _read_belief(record: Any, where: str) -> Belief:
    name, content, reason = (
        field(record, key, str, where) for key in ("canonical_name", "content", "why_it_matters")
    )
    parts = [name, *_texts(record, "aliases", where), content, reason]
    superseded, resolved = (
        _optional(record, key, where) for key in ("superseded_by", "resolved_at")
    )
    if not isinstance(record.get("pinned"), bool):
        raise UsageError(f"{where}: the field 'pinned' must be true or false; correct it")
    return Belief(
        id=field(record, "_id", str, where),
        text=" ".join(part for part in parts if part),
        user=field(record, "user_id", str, where),
        scopes=tuple(_texts(record, "scope", where)),
        pinned=record["pinned"],
        is_question=field(record, "type", str, where) == "open_question",
        superseded_by=superseded,
        resolved=None if resolved is None else _moment(resolved, where),
        created=_moment(field(record, "created_at", str, where), where),
        updated=_moment(field(record, "updated_at", str, where), where),
        where=where,
    )


def _texts(record: Any, name: str, where: str) -> list[str]:
    """Returns a field that is a list of texts. Raises UsageError."""
    values = field(record, name, list, where)
    if not all(isinstance(value, str) for value in values):
        raise UsageError(f"{where}: the field {name!r} must be a list of texts")
    return values


def _optional(record: Any, name: str, where: str) -> str | None:
    """Returns a field that is a text or null. Raises UsageError."""
    if name in record and record[name] is None:
        return None
    return field(record, name, str, where)


def _moment(written: str, where: str) -> int:
    try:
        return timestamp(datetime.fromisoformat(written))
    except ValueError:
        raise UsageError(
            f"{where}: {written!r:.40} is not a time like 2026-09-01T00:00:00Z"
        ) from None


def _write_changes(belief: Belief, beliefs: Mapping[str, Belief], out: DatasetWriter) -> None:
    if belief.superseded_by is not None:
        new = _known([belief.superseded_by], beliefs, belief.where)[0]
        when = max(belief.updated, beliefs[new].created)
        out.change(Change(_HAYSTACK, "update", belief.id, when, new), belief.where)
    if belief.resolved is not None:
        out.change(Change(_HAYSTACK, "forget", belief.id, belief.resolved), belief.where)


def _known(ids: list[str], beliefs: Mapping[str, Belief], where: str) -> list[str]:
    """Returns the ids. Raises UsageError for one that is no belief."""
    for id_ in ids:
        if id_ not in beliefs:
            raise UsageError(f"{where}: names the belief {id_!r}, which {BELIEFS} does not have")
    return ids


def _write_case(case: Any, where: str, beliefs: Mapping[str, Belief], out: DatasetWriter) -> None:
    """Writes a case, and its evidence in both qrels sets."""
    id_ = field(case, "caseId", str, where)
    category = field(case, "category", str, where)
    scopes = _texts(case, "scope", where)
    user = field(case, "userId", str, where) if "userId" in case else _USER
    lists = _read_lists(field(case, "expect", dict, where), beliefs, where)
    only = lists.get(("relevantBeliefs", "shouldOnlyInclude"))
    evidence = only
    if evidence is None:
        pinned = {one.id for one in beliefs.values() if one.pinned and one.user == _USER}
        listed = lists.get(("relevantBeliefs", "mustInclude"), [])
        evidence = [one for one in listed if one not in pinned]
    own = _principal(user, scopes)
    readable = {one.principal for one in beliefs.values() if one.shown_to(user, scopes)}
    out.query(
        id_,
        field(case, "query", str, where),
        _HAYSTACK,
        ability=ABILITIES.get(category, Ability.LOOKUP) if evidence else Ability.ABSTENTION,
        category=category,
        user_id=own,
        groups=sorted(readable - {own}),
    )
    grades = {one: 0 for part in _PARTS for one in lists.get((part, "mustExclude"), [])}
    if only is not None:
        grades |= {one.id: 0 for one in beliefs.values() if not one.pinned_for(user, scopes)}
    for belief, grade in (grades | dict.fromkeys(evidence, 1)).items():
        out.qrel(id_, belief, grade)
        if grade:
            out.qrel(id_, belief, qrels_set=OFFICIAL_KEY)


def _read_lists(
    expect: Any, beliefs: Mapping[str, Belief], where: str
) -> dict[tuple[str, str], list[str]]:
    """Returns the lists of beliefs in a case, by part and name, each id once."""
    found = {}
    for part in _PARTS:
        if part in expect:
            record, at = field(expect, part, dict, where), f"{where}, {part}"
            for name in ("mustInclude", "mustExclude", "shouldOnlyInclude"):
                if name in record:
                    ids = _known(_texts(record, name, at), beliefs, at)
                    found[part, name] = list(dict.fromkeys(ids))
    return found
