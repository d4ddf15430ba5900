"""LongMemEval: 500 questions, each over its own haystack of dated chat sessions.

Source: https://github.com/xiaowu0162/LongMemEval (code and data MIT); the cleaned files of
September 2025 are the default. The `official` text and the `longmemeval-official` qrels follow
src/retrieval/run_retrieval.py in the repository. Files of 2.7 GB are streamed.

`s-ids` is S without texts, for scoring published rankings. Its table, shipped in this folder, holds
only facts: 500 question ids with their types, and the evidence sessions of the 470 answerable ones.
These equal `answer_session_ids` in longmemeval_s_cleaned.json and were taken from the published
results of two projects that agree (memory-core-eval and cogito-ergo). The rest of each haystack is
unknown.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.json_stream import records
from harness.datasets.adapters.misspelt import refuse_near
from harness.datasets.adapters.raw_files import dated_session, dated_turn, field, one_file
from harness.datasets.manifest import IDS_ONLY
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


_IDS_FILE = "longmemeval_s_ids.tsv"
IDS_VARIANT = Variant(
    "s-ids",
    "ids, types and evidence of the 500 questions of s, without texts: for rankings published "
    "elsewhere; ships with the harness",
    "MIT",
    pinned={_IDS_FILE: "95ff189e4c4a9f1a17e3ce0df1507aab4b39c56e134b4f1cb9f6b49986070f4e"},
    granularities=("session",),
    texts=(IDS_ONLY,),
)
_COLUMNS = ["question_id", "question_type", "answer_session_ids"]


def _find_ids(source: Path) -> Path:
    """Finds the table, or the folder that contains it. Raises UsageError."""
    path = source / _IDS_FILE if source.is_dir() else source
    if not path.is_file():
        raise UsageError(f"{path}: no such file; omit --source, the table ships with the harness")
    return path


def _write_ids(path: Path, out: DatasetWriter) -> None:
    """Writes one haystack per question, which contains only its evidence, and the judgements.

    Raises UsageError for unexpected columns or an unknown type.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        if rows.fieldnames != _COLUMNS:
            raise UsageError(f"{path}: its columns must be {', '.join(_COLUMNS)}")
        for number, row in enumerate(rows, 2):
            id_, kind = row["question_id"], row["question_type"]
            if kind not in ABILITIES:
                raise UsageError(
                    f"{path}, line {number}: unknown question_type {kind!r}; expected one of "
                    f"{', '.join(ABILITIES)}"
                )
            evidence = (row["answer_session_ids"] or "").split()
            documents = [out.document(session, "", session=session) for session in evidence]
            out.haystack(id_, documents)
            ability = Ability.ABSTENTION if "_abs" in id_ else ABILITIES[kind]
            out.query(id_, "", id_, ability=ability, category=kind)
            for document in documents:
                out.qrel(id_, document)


OFFICIAL_KEY = "longmemeval-official"
ABILITIES = {
    "single-session-user": Ability.LOOKUP,
    "single-session-assistant": Ability.LOOKUP,
    "single-session-preference": Ability.LOOKUP,
    "multi-session": Ability.MULTI_HOP,
    "temporal-reasoning": Ability.TEMPORAL,
    "knowledge-update": Ability.KNOWLEDGE_UPDATE,
}
_TURN = ("role", "content")
_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d) \(\w{3}\) (\d\d):(\d\d)")
_CLEANED = "hf://datasets/xiaowu0162/longmemeval-cleaned@98d7416c24c778c2fee6e6f3006e7a073259d48f/"
_ORIGINAL = "hf://datasets/xiaowu0162/longmemeval@2ec2a557f339b6c0369619b1ed5793734cc87533/"


def _variant(name: str, about: str, file: str, sha256: str, size: int) -> Variant:
    root = _ORIGINAL if name == "s-original" else _CLEANED
    return Variant(
        name,
        about,
        "MIT",
        files=(RemoteFile(file, root + file, sha256=sha256, bytes=size),),
        granularities=("session", "turn"),
        texts=("official", "dated"),
        # Scoring sessions from turns at k = 50 needs most of a haystack's turns.
        depths={"turn": 500},
    )


VARIANTS = (
    _variant(
        "s",
        "500 questions, each over about 48 chat sessions of a user and an assistant (cleaned)",
        "longmemeval_s_cleaned.json",
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442",
        277_383_467,
    ),
    _variant(
        "m",
        "the same questions, each over about 475 sessions (cleaned)",
        "longmemeval_m_cleaned.json",
        "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f",
        2_737_100_077,
    ),
    _variant(
        "oracle",
        "the same questions over their evidence sessions only: recall is trivially 1",
        "longmemeval_oracle.json",
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c",
        15_388_478,
    ),
    _variant(
        "s-original",
        "S before its fillers were cleaned; not comparable with s",
        "longmemeval_s",
        "08d8dad4be43ee2049a22ff5674eb86725d0ce5ff434cde2627e5e8e7e117894",
        0,  # the exact size is unknown
    ),
    IDS_VARIANT,
)


@dataclass(frozen=True, slots=True)
class EvidenceSession:
    """A session that may hold evidence: the rows of its documents, and its turns.

    At turn granularity rows and turns align; at session granularity there is one row. `ids` are the
    ids of the rows in the official script, where copies of a session share one id.
    """

    session: str
    rows: range
    turns: list[Any]
    ids: list[str]


@register_adapter("longmemeval")
class LongMemEval:
    """LongMemEval adapter; the default variant is `s`."""

    version: ClassVar[int] = 2
    shipped: ClassVar[Path] = Path(__file__).parent

    def variants(self) -> Iterable[Variant]:
        """Returns S, M, the oracle, S before its cleaning, and the ids of S."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the variant's only file."""
        if variant is IDS_VARIANT:
            return {_IDS_FILE: _find_ids(source)}
        return one_file(source, variant)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the documents, and a haystack and two sets of qrels for each question.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        from tqdm import tqdm

        (path,) = raw.files.values()
        if raw.variant is IDS_VARIANT:
            _write_ids(path, out)
            return
        documents = SessionDocuments(config, out)
        with tqdm(
            total=path.stat().st_size,
            unit="B",
            unit_scale=True,
            desc=path.name,
            disable=True if raw.quiet else None,
        ) as bar:
            for record in records(path):
                _question(record.value, f"{path}: record {record.number}", config, documents, out)
                bar.update(record.offset + record.size - bar.n)


def _question(
    record: Any, where: str, config: DatasetConfig, documents: SessionDocuments, out: DatasetWriter
) -> None:
    id_ = field(record, "question_id", str, where)
    where = f"{where} (question {id_})"
    kind = field(record, "question_type", str, where)
    if kind not in ABILITIES:
        raise UsageError(f"{where}: question_type {kind!r} is not one of {', '.join(ABILITIES)}")
    if "answer" not in record:
        raise UsageError(f"{where}: the field 'answer' is missing; add it, or get the file again")
    named = [str(session) for session in field(record, "answer_session_ids", list, where)]
    rows, timestamps = array("i"), array("q")
    sessions = config.granularity == "session"
    evidence: list[EvidenceSession] = []
    for slot in _slots(record, id_, where, out):
        span = documents.rows(slot, where)
        rows.extend(span)
        timestamps.extend([slot.timestamp] * len(span))
        if "answer" in slot.session or slot.session in named:
            held = [at for at, turn in enumerate(slot.turns) if documents.holds(turn)]
            ids = [slot.session] if sessions else [f"{slot.session}_{at + 1}" for at in held]
            turns = [slot.turns[at] for at in held]
            evidence.append(EvidenceSession(slot.session, span, turns, ids))
            _note_unmarked(slot, id_, out)
    abstention = "_abs" in id_
    out.haystack(id_, rows, timestamps)
    out.query(
        id_,
        field(record, "question", str, where),
        id_,
        ability=Ability.ABSTENTION if abstention else ABILITIES[kind],
        category=kind,
        timestamp=_timestamp(field(record, "question_date", str, where), "question_date", where),
        answers=[str(record["answer"])],
    )
    pieces = _pieces(evidence)
    for row in _official_gold(evidence, sessions):
        out.qrel(id_, row, evidence_id=pieces.get(row), qrels_set=OFFICIAL_KEY)
    if not abstention:
        _default_key(id_, evidence, named, sessions, pieces, out)


def _pieces(evidence: list[EvidenceSession]) -> dict[int, str]:
    """Maps rows with a duplicate id in the haystack to their evidence item.

    Copies are one item, found with any of them, because the official script compares ids.
    """
    rows: dict[str, list[int]] = {}
    for found in evidence:
        for id_, row in zip(found.ids, found.rows, strict=True):
            rows.setdefault(id_, []).append(row)
    return {row: id_ for id_, copies in rows.items() if len(copies) > 1 for row in copies}


def _official_gold(evidence: list[EvidenceSession], sessions: bool) -> Iterator[int]:
    """Returns the official gold: marked turns or sessions, in sessions with `answer` in their id.

    A turn is marked by its has_answer, a session by one of its turns; only user turns count. The
    script renames unmarked ids (answer -> noans) and never reads `answer_session_ids`.
    """
    for found in evidence:
        if "answer" in found.session:
            marked = [turn["role"] == "user" and _has_answer(turn) for turn in found.turns]
            yield from compress(found.rows, [any(marked)] if sessions else marked)


def _default_key(
    question: str,
    evidence: list[EvidenceSession],
    named: list[str],
    sessions: bool,
    pieces: Mapping[int, str],
    out: DatasetWriter,
) -> None:
    """Returns the gold in the file: the evidence sessions, or their marked turns."""
    judged = 0
    for found in evidence:
        if found.session in named:
            marked = [True] if sessions else [_has_answer(turn) for turn in found.turns]
            for row in compress(found.rows, marked):
                out.qrel(question, row, evidence_id=pieces.get(row))
                judged += 1
    for missing in sorted(set(named) - {found.session for found in evidence}):
        out.repair(
            "evidence sessions missing from the haystack: kept as judgements of documents that "
            "cannot be found",
            f"{question}: {missing}",
        )
        out.qrel(question, -1, document_id=missing)
        judged += 1
    if not judged:
        out.repair(
            "questions whose evidence is not in this text (it is in assistant turns, or "
            "unmarked): kept, without judgements",
            question,
        )


def _slots(record: Any, question: str, where: str, out: DatasetWriter) -> Iterator[Slot]:
    ids = field(record, "haystack_session_ids", list, where)
    dates = field(record, "haystack_dates", list, where)
    sessions = field(record, "haystack_sessions", list, where)
    if not len(ids) == len(dates) == len(sessions):
        raise UsageError(
            f"{where}: {len(ids)} haystack_session_ids, {len(dates)} haystack_dates and "
            f"{len(sessions)} haystack_sessions; they must align"
        )
    times: dict[str, int] = {}
    for place, (session, date, turns) in enumerate(zip(ids, dates, sessions, strict=True)):
        if not isinstance(session, str) or not isinstance(turns, list):
            raise UsageError(f"{where}: session {place} is not a list of turns with a text as id")
        times[session] = times.get(session, 0) + 1
        id_ = session
        if times[session] > 1:
            id_ = f"{session}#{times[session]}"
            out.repair(
                "duplicate sessions in a haystack: all kept, with #2, #3 and so on appended to "
                "the ids of later ones",
                f"{question}: {session}",
            )
        yield Slot(id_, session, _timestamp(date, f"haystack_dates[{place}]", where), turns)


def _has_answer(turn: Mapping[str, object]) -> bool:
    return turn.get("has_answer") is True


def _note_unmarked(slot: Slot, question: str, out: DatasetWriter) -> None:
    for position, turn in enumerate(slot.turns):
        if not isinstance(turn.get("has_answer"), bool):
            refuse_near(turn, "has_answer", f"{question}, {slot.id}, turn {position}", _TURN)
            out.repair(
                "turns of evidence sessions without has_answer: read as false (the official "
                "script fails at a user turn)",
                f"{question}: {slot.id}_{position + 1}",
            )


def _timestamp(text: Any, name: str, where: str) -> int:
    """Converts `2023/05/20 (Sat) 02:21` to a schema timestamp. Raises UsageError."""
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    try:
        if match is not None:
            year, month, day, hour, minute = map(int, match.groups())
            return timestamp(datetime(year, month, day, hour, minute))
    except ValueError:
        pass
    raise UsageError(f"{where}: {name} {text!r:.40} is not a date like 2023/05/20 (Sat) 02:21")


@dataclass(frozen=True, slots=True)
class Slot:
    """One position in a haystack; `id` is `session`, the id in the file, made unique."""

    id: str
    session: str
    timestamp: int
    turns: list[Any]


class SessionDocuments:
    """Writes each session's documents once, however many haystacks contain it.

    Sessions are equal if their ids, their texts and (in the `dated` text) their dates are equal.
    Texts are compared by a 64-bit hash to limit memory.
    """

    def __init__(self, config: DatasetConfig, out: DatasetWriter) -> None:
        self._turns = config.granularity == "turn"
        self._dated = config.text == "dated"
        self._out = out
        self._rows: dict[tuple[str, int, int], range] = {}
        self._content: dict[str, int] = {}

    def holds(self, turn: Mapping[str, object]) -> bool:
        """Returns whether a turn is part of the documents' text."""
        return self._dated or turn["role"] == "user"

    def rows(self, slot: Slot, where: str) -> range:
        """Returns the rows of the session: one, or one for each turn that `holds`.

        Raises UsageError, prefixed with `where`, for a turn without role or content.
        """
        try:
            turns = [
                (position, turn["role"], turn["content"])
                for position, turn in enumerate(slot.turns)
                if self.holds(turn)
            ]
            text = "\0".join([part for _, role, said in turns for part in (role, said)])
        except (KeyError, TypeError):
            _check_turns(slot, where)
            raise
        positions = tuple([position for position, _, _ in turns]) if self._turns else ()
        content = hash((text, positions))
        key = (slot.id, content, slot.timestamp if self._dated else 0)
        rows = self._rows.get(key)
        if rows is None:
            if self._content.setdefault(slot.id, content) != content:
                self._out.repair(
                    "sessions with one id and different texts: each kept as its own document",
                    slot.id,
                )
            rows = self._rows[key] = self._write(slot, turns)
        return rows

    def _write(self, slot: Slot, turns: list[tuple[int, str, str]]) -> range:
        written = (
            [self._write_turn(slot, *turn) for turn in turns]
            if self._turns
            else [self._write_session(slot, turns)]
        )
        return range(written[0], written[-1] + 1) if written else range(0)

    def _write_session(self, slot: Slot, turns: list[tuple[int, str, str]]) -> int:
        if self._dated:
            text = dated_session(slot.timestamp, ((role, said) for _, role, said in turns))
        else:
            text = " ".join([said for _, _, said in turns])
        when = slot.timestamp if self._dated else None
        return self._out.document(slot.id, text, timestamp=when, session=slot.session)

    def _write_turn(self, slot: Slot, position: int, role: str, said: str) -> int:
        return self._out.document(
            f"{slot.id}_{position + 1}",
            dated_turn(slot.timestamp, role, said) if self._dated else said,
            timestamp=slot.timestamp if self._dated else None,
            session=slot.session,
            speaker=role,
            position=position,
        )


def _check_turns(slot: Slot, where: str) -> None:
    """Raises UsageError for the first invalid turn of a session."""
    for position, turn in enumerate(slot.turns):
        for name in ("role", "content"):
            field(turn, name, str, f"{where}, session {slot.id}, turn {position}")
