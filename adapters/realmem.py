"""RealMem: 1,415 queries during ten people's conversations with an assistant.

Source: https://github.com/AvatarMemory/RealMemBench (Apache-2.0). A query is a turn of a session
and is answered from the sessions before it, as in the authors' pipeline. Evidence is the sessions
with memories that the assistant's next turn used. The `realmem-official` qrels follow
eval/compute_auto_metrics_for_realmem.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.misspelt import refuse_near
from harness.datasets.adapters.raw_files import (
    DayClock,
    day,
    field,
    note_a_part,
    parts_in,
    published_files,
    read_once,
)
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

OFFICIAL_KEY = "realmem-official"
ABILITIES = {
    "Dynamic Incremental": Ability.MULTI_HOP,
    "Dynamic Updating": Ability.KNOWLEDGE_UPDATE,
    "Implicit Preference": Ability.LOOKUP,
    "Temporal-reasoning": Ability.TEMPORAL,
}
"""Abilities by `category_name`; docs/how-to/realmem.md gives the reasons."""

_RAW = (
    "https://raw.githubusercontent.com/AvatarMemory/RealMemBench/"
    "67afd0891d603adcc4458ff0449df306ef296b7a/dataset/"
)
_ENDS = "_dialogues_256k.json"
VARIANTS = (
    Variant(
        "",
        "1,415 queries of ten people, each over the sessions before it: 2,055 sessions",
        "Apache-2.0",
        files=published_files(Path(__file__).with_name("realmem.sha256"), _RAW),
        granularities=("session",),
        texts=("official", "dated"),
        as_of=True,
    ),
)


@dataclass(frozen=True, slots=True)
class _RealMemSession:
    """One session: its index, the `uuid` used by evidence, its turns."""

    id: str
    uuid: str
    place: int
    timestamp: int
    turns: list[Any]


@register_adapter("realmem")
class RealMem:
    """RealMem adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the people's files in a folder or in `dataset` of a clone, or one of them."""
        repository = "https://github.com/AvatarMemory/RealMemBench"
        return parts_in(source, variant, folder="dataset", pattern=f"*{_ENDS}", of=repository)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the sessions of each person, and the queries with both sets of qrels.

        The writer splits the haystack of a person by the times of its queries (see
        harness/datasets/build.py). Raises UsageError for a truncated file, a missing field or an
        invalid date.
        """
        note_a_part(raw, out, "people missing from this copy: it is a part of RealMem")
        for path in raw.files.values():
            _Person(path, config, out).write()


class _Person:
    """Writer of one person's sessions; maps uuids to documents."""

    def __init__(self, path: Path, config: DatasetConfig, out: DatasetWriter) -> None:
        self._id = path.name.removesuffix(_ENDS).removesuffix(".json")
        self._where = str(path)
        self._config = config
        self._out = out
        self._sessions = self._read(field(read_once(path), "dialogues", list, self._where))
        self._of_uuid = {session.uuid: session for session in self._sessions}
        self._rows: dict[str, int] = {}

    def write(self) -> None:
        """Writes the documents, the haystack, and the queries with their evidence."""
        for session in self._sessions:
            self._rows[session.uuid] = self._out.document(
                session.id,
                self._text(session),
                timestamp=session.timestamp,
                session=session.id,
            )
        self._out.haystack(self._id, [*self._rows.values()])
        for session in self._sessions:
            for place, turn in enumerate(session.turns):
                where = f"{self._where}, {session.id}, turn {place}"
                if isinstance(turn, dict):
                    refuse_near(turn, "is_query", where)
                if isinstance(turn, dict) and turn.get("is_query") is True:
                    self._query(session, place, where)

    def _read(self, dialogues: list[Any]) -> list[_RealMemSession]:
        """Reads the sessions in file order, which is chronological.

        A date before the previous one is replaced by it, so that no session is later than a query
        about it.
        """
        clock, latest = DayClock(), 0
        sessions: list[_RealMemSession] = []
        seen: set[str] = set()
        for place, record in enumerate(dialogues):
            where = f"{self._where}: session {place}"
            id_, uuid = (
                field(record, name, str, where) for name in ("session_identifier", "session_uuid")
            )
            for name in (id_, uuid):
                if name in seen:
                    raise UsageError(f"{where}: duplicate {name!r}; make it unique")
                seen.add(name)
            said = _day(field(record, "current_time", str, where), where)
            if said < latest:
                self._out.repair(
                    "sessions dated before an earlier session: date of that session used",
                    f"{self._id}: {id_}",
                )
            latest = max(latest, said)
            turns = field(record, "dialogue_turns", list, where)
            sessions.append(_RealMemSession(id_, uuid, place, clock.next(latest), turns))
        return sessions

    def _text(self, session: _RealMemSession) -> str:
        lines = []
        for place, turn in enumerate(session.turns):
            where = f"{self._where}, {session.id}, turn {place}"
            speaker, said = (field(turn, name, str, where) for name in ("speaker", "content"))
            lines.append(f"{speaker}: {said}")
        text = "\n".join(lines)
        return f"{day(session.timestamp)}\n{text}" if self._config.text == "dated" else text

    def _query(self, session: _RealMemSession, place: int, where: str) -> None:
        turn = session.turns[place]
        kind = field(turn, "category_name", str, where)
        if kind not in ABILITIES:
            raise UsageError(
                f"{where}: category_name {kind!r} is not one of {', '.join(ABILITIES)}"
            )
        answer = session.turns[place + 1] if place + 1 < len(session.turns) else None
        if answer is None or field(answer, "speaker", str, where) != "Assistant":
            raise UsageError(f"{where}: no assistant turn follows this query; correct the file")
        id_ = f"{self._id}_{field(turn, 'query_id', str, where)}"
        self._out.query(
            id_,
            field(turn, "content", str, where),
            self._id,
            ability=ABILITIES[kind],
            category=kind,
            # Just before its own session, which is not part of its haystack.
            timestamp=session.timestamp - 1,
            answers=[field(answer, "content", str, where)],
        )
        self._judge(id_, session, field(answer, "memory_session_uuids", list, where))

    def _judge(self, query: str, asked_in: _RealMemSession, uuids: list[Any]) -> None:
        """Judges the sessions before the query by both qrels, and records every correction."""
        judged = False
        for uuid in dict.fromkeys(uuids):
            session = self._of_uuid.get(uuid)
            if session is None:
                self._out.repair(
                    "evidence that names a session which does not exist: excluded",
                    f"{query}: {uuid!r:.40}",
                )
            elif session.place < asked_in.place:
                judged = True
                for key in ("default", OFFICIAL_KEY):
                    self._out.qrel(query, self._rows[session.uuid], qrels_set=key)
            else:
                own = session is asked_in
                self._out.repair(
                    "evidence in the query's own session, which is not in its haystack: excluded "
                    "from the default qrels"
                    if own
                    else "evidence in a later session: excluded from the default qrels",
                    f"{query}: {session.id}",
                )
                # The script still counts it, although it cannot be found.
                self._out.qrel(query, -1, qrels_set=OFFICIAL_KEY, document_id=session.id)
        for _ in range(len(uuids) - len({*uuids})):
            self._out.repair("evidence that names a session twice: merged", query)
        if not judged:
            self._out.repair("queries without evidence: kept, without judgements", query)


def _day(written: str, where: str) -> int:
    """Converts a date like `2025-12-15 (Monday)` to a timestamp. Raises UsageError."""
    try:
        return timestamp(datetime.strptime(written, "%Y-%m-%d (%A)"))
    except ValueError:
        raise UsageError(
            f"{where}: current_time {written!r:.40} is not a date like 2025-12-15 (Monday)"
        ) from None
