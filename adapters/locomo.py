"""LoCoMo: 1,986 questions over ten very long conversations of two people.

Source: https://github.com/snap-research/locomo (CC BY-NC 4.0: downloaded, never shipped). The
`official` texts and the `locomo-official` answer key follow its task_eval; the `default` key holds
the evidence after the mends that every preparation counts and lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.locomo_conversation import (
    carriers,
    dates_without_session,
    read_sessions,
)
from harness.datasets.adapters.raw_files import field, one_file, read_once
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

OFFICIAL_KEY = "locomo-official"
CATEGORIES = {
    1: ("multi-hop", Ability.MULTI_HOP),
    2: ("temporal", Ability.TEMPORAL),
    3: ("open-domain", Ability.LOOKUP),
    4: ("single-hop", Ability.LOOKUP),
    5: ("adversarial", Ability.ABSTENTION),
}
"""Fixed by the paper's counts and by the official code, which splits sub-answers for 1
(task_eval/evaluation.py) and asks for a date in 2 (gpt_utils.py); many projects have it wrong."""

VARIANTS = (
    Variant(
        "",
        "1,986 questions over ten conversations of two people: 272 sessions, 5,882 turns",
        "CC BY-NC 4.0",
        files=(
            RemoteFile(
                "locomo10.json",
                "https://raw.githubusercontent.com/snap-research/locomo/"
                "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/data/locomo10.json",
                sha256="79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
                bytes=2_805_274,
            ),
        ),
        granularities=("turn", "session", "observation", "session-summary"),
        texts=("official", "dated"),
    ),
)
_TURN = re.compile(r"D:?(\d{1,9}):(\d{1,9})(?!\d)")
_OF_SESSIONS = ("session", "session-summary")


@register_adapter("locomo")
class LoCoMo:
    """The adapter of LoCoMo."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """The one dataset there is."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """locomo10.json itself, its folder, or a clone of the official repository."""
        return one_file(source, variant, "data")

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Write one haystack a conversation, and its questions with both answer keys.

        Raises UsageError for a file that is cut off, a field that is missing, a bad date.
        """
        (path,) = raw.files.values()
        records = read_once(path)
        if not isinstance(records, list):
            raise UsageError(f"{path}: not a list of conversations; is it really locomo10.json?")
        for number, record in enumerate(records):
            id_ = field(record, "sample_id", str, f"{path}: record {number}")
            _Conversation(record, id_, f"{path}: {id_}", config, out).write()


class _Conversation:
    """One conversation being written: where its pieces of evidence are, by turn or session."""

    def __init__(
        self,
        record: dict[str, object],
        id: str,
        where: str,
        config: DatasetConfig,
        out: DatasetWriter,
    ) -> None:
        self._record = record
        self._id = id
        self._where = where
        self._config = config
        self._out = out
        conversation = field(record, "conversation", dict, where)
        for name in dates_without_session(conversation):
            out.repair("dates of sessions that do not exist: ignored", f"{id}: {name}")
        self._sessions = read_sessions(conversation, where)
        self._session_of = {t.id: s.number for s in self._sessions for t in s.turns}
        self._rows: dict[str, list[int]] = {}

    def write(self) -> None:
        """Write the documents, the haystack, the questions and both answer keys."""
        config, rows = self._config, []
        for carrier in carriers(
            self._record, self._sessions, config.granularity, config.text, self._where
        ):
            document = carrier.document
            row = self._out.document(
                document.id,
                document.text,
                timestamp=document.timestamp,
                session=document.session,
                speaker=document.speaker,
                position=document.position,
            )
            rows.append(row)
            for piece in carrier.pieces:
                self._rows.setdefault(piece, []).append(row)
        self._out.haystack(self._id, rows)
        for index, question in enumerate(field(self._record, "qa", list, self._where)):
            id_, at = f"{self._id}_qa{index}", f"{self._where}, qa {index}"
            evidence = [str(string) for string in field(question, "evidence", list, at)]
            self._query(id_, question, at)
            self._official_key(id_, evidence)
            self._default_key(id_, evidence)

    def _query(self, id_: str, question: dict[str, object], where: str) -> None:
        number = field(question, "category", int, where)
        if number not in CATEGORIES:
            raise UsageError(f"{where}: category {number} is none of 1 to 5; correct it")
        category, ability = CATEGORIES[number]
        if "answer" not in question and ability is not Ability.ABSTENTION:
            raise UsageError(f"{where}: the field 'answer' is missing; add it")
        # `adversarial_answer` is the trap of an adversarial question, not a reference answer.
        self._out.query(
            id_,
            field(question, "question", str, where),
            self._id,
            ability=ability,
            category=category,
            answers=[str(question["answer"])] if "answer" in question else [],
        )

    def _official_key(self, query: str, evidence: list[str]) -> None:
        """One unit an evidence STRING, found by exact match alone, as task_eval/evaluation.py does.

        What is malformed or dangling can never be found; what stands twice counts twice.
        """
        for place, string in enumerate(evidence):
            of_session = self._config.granularity in _OF_SESSIONS
            piece = string.split(":")[0][1:] if of_session else string
            self._judge(
                query, piece, string, evidence_id=f"{place}:{string}", qrels_set=OFFICIAL_KEY
            )

    def _default_key(self, query: str, evidence: list[str]) -> None:
        """The turns that exist, each once, or their sessions."""
        turns = self._normalised(query, evidence)
        if not turns:
            self._out.repair("questions without evidence: kept, without judgements", query)
        if self._config.granularity in _OF_SESSIONS:
            pieces = {str(self._session_of[turn]): f"S{self._session_of[turn]}" for turn in turns}
        else:
            pieces = {turn: turn for turn in turns}
        for piece, name in pieces.items():
            if piece not in self._rows:
                self._out.repair(
                    f"evidence that no {self._config.granularity} carries: kept as judgements of "
                    "documents that cannot be found",
                    f"{query}: {name}",
                )
            # Several observations may carry one turn: then any of them will do.
            unit = piece if self._config.granularity == "observation" else None
            self._judge(query, piece, name, evidence_id=unit)

    def _judge(
        self,
        query: str,
        piece: str,
        name: str,
        *,
        evidence_id: str | None = None,
        qrels_set: str = "default",
    ) -> None:
        """Judge every document that carries `piece`; where none does, `name`, never to be found."""
        for row in self._rows.get(piece, []):
            self._out.qrel(query, row, evidence_id=evidence_id, qrels_set=qrels_set)
        if piece not in self._rows:
            self._out.qrel(
                query, -1, evidence_id=evidence_id, qrels_set=qrels_set, document_id=name
            )

    def _normalised(self, query: str, evidence: list[str]) -> list[str]:
        """Ids of the evidence turns that exist, each once; every mend is recorded."""
        turns: list[str] = []
        for string in evidence:
            found = [f"D{int(s)}:{int(t)}" for s, t in _TURN.findall(string)]
            said = f"{query}: {string!r}"
            if not found:
                self._out.repair("evidence that names no turn: left out of the default key", said)
            elif len(found) > 1:
                self._out.repair("evidence strings that name several turns: split", said)
            elif found != [string]:
                self._out.repair("evidence in another spelling: read as the turn it means", said)
            for turn in found:
                if turn not in self._session_of:
                    self._out.repair(
                        "evidence that names a turn which does not exist: left out of the default "
                        "key",
                        said,
                    )
                elif turn in turns:
                    self._out.repair("evidence that names a turn twice: merged", said)
                else:
                    turns.append(turn)
        return turns
