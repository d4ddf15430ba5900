"""DevMemBench: 200 questions of a developer over 25 sessions with a coding assistant.

Source: https://github.com/prosperitypirate/opencode-memory (MIT). The field `haystackSessionIds` of
a question holds the sessions with its EVIDENCE; every question searches all 25 sessions. No
official retrieval scorer is known: the official code lets a model judge each result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.raw_files import all_files, day, field, read_once
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

ABILITIES = {
    "tech-stack": Ability.LOOKUP,
    "architecture": Ability.LOOKUP,
    "session-continuity": Ability.LOOKUP,  # 24 of 25 need one session
    "preference": Ability.LOOKUP,
    "error-solution": Ability.LOOKUP,
    "knowledge-update": Ability.KNOWLEDGE_UPDATE,
    "cross-session-synthesis": Ability.MULTI_HOP,
    "abstention": Ability.ABSTENTION,
}
_RAW = (
    "https://raw.githubusercontent.com/prosperitypirate/opencode-memory/"
    "9019b20e3968c36a5d005db27cbba7123a94a47e/benchmark/src/dataset/"
)
VARIANTS = (
    Variant(
        "",
        "200 questions of a developer over 25 sessions with a coding assistant",
        "MIT",
        files=(
            RemoteFile(
                "sessions.json",
                f"{_RAW}sessions.json",
                sha256="3228bdcb9019f1e1c3adf1089f0e940ef529a43033d4ceca9dfb410c4ce14bff",
                bytes=38_524,
            ),
            RemoteFile(
                "questions.json",
                f"{_RAW}questions.json",
                sha256="b0fb1c9ac7a3facbe66494a99058e3b77348b22e1e15aca491476ffb3b2ef8c1",
                bytes=71_706,
            ),
        ),
        granularities=("session",),
        texts=("official", "dated"),
    ),
)
_HAYSTACK = "sessions"


@register_adapter("devmembench")
class DevMemBench:
    """DevMemBench adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds both files in a folder, or in a clone of the repository."""
        repository = "https://github.com/prosperitypirate/opencode-memory"
        return all_files(source, variant, folder="benchmark/src/dataset", of=repository)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the sessions as one haystack, and the questions with their evidence.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        rows: dict[str, int] = {}
        for where, session in _records(raw.files["sessions.json"]):
            id_ = field(session, "sessionId", str, where)
            rows[id_] = _write_session(id_, session, where, config, out)
        out.haystack(_HAYSTACK, [*rows.values()])
        for where, question in _records(raw.files["questions.json"]):
            _write_question(question, where, rows, out)


def _records(path: Path) -> Iterable[tuple[str, Any]]:
    """Yields each record of a file with its location. Raises UsageError if it is not a list."""
    records = read_once(path)
    if not isinstance(records, list):
        raise UsageError(f"{path}: not a list; is it a file of DevMemBench?")
    for number, record in enumerate(records):
        yield f"{path}: record {number}", record


def _write_session(
    id_: str, session: Any, where: str, config: DatasetConfig, out: DatasetWriter
) -> int:
    written = field(field(session, "metadata", dict, where), "date", str, where)
    try:
        date = timestamp(datetime.strptime(written, "%Y-%m-%d"))
    except ValueError:
        raise UsageError(f"{where}: date {written!r:.40} is not a date like 2025-01-15") from None
    lines = [
        f"{field(message, 'role', str, where)}: {field(message, 'content', str, where)}"
        for message in field(session, "messages", list, where)
    ]
    dated = [day(date)] if config.text == "dated" else []
    return out.document(id_, "\n".join([*dated, *lines]), timestamp=date, session=id_)


def _write_question(question: Any, where: str, rows: dict[str, int], out: DatasetWriter) -> None:
    id_, category, text, answer = (
        field(question, name, str, where)
        for name in ("questionId", "questionType", "question", "groundTruth")
    )
    if category not in ABILITIES:
        raise UsageError(f"{where}: questionType {category!r} is not one of {', '.join(ABILITIES)}")
    out.query(
        id_, text, _HAYSTACK, ability=ABILITIES[category], category=category, answers=[answer]
    )
    for session in dict.fromkeys(field(question, "haystackSessionIds", list, where)):
        if session not in rows:
            raise UsageError(f"{where}: evidence in session {session!r}, which does not exist")
        out.qrel(id_, rows[session])
