"""BEAM: probing questions of ten kinds over long chats between a user and an assistant.

Source: https://github.com/mohammadtavakoli78/BEAM (no licence stated, so the data is downloaded and
never shipped). The copy on the Hugging Face hub is not used: it holds the chats before they were
truncated to the size of their tier. BEAM scores answers with a judge and has no retrieval scorer,
so there is one set of qrels: the messages in a question's `source_chat_ids`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.misspelt import refuse_near
from harness.datasets.adapters.raw_files import (
    DayClock,
    day,
    field,
    published_files,
    read_once,
    refuse_a_part,
)
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, Change, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


_CHAT = re.compile(r"[0-9]{1,9}")
CHAT, CUT, QUESTIONS = (
    "chat.json",
    "chat_trunecated.json",
    "probing_questions/probing_questions.json",
)
REPOSITORY = "https://github.com/mohammadtavakoli78/BEAM"
_RAW = (
    "https://raw.githubusercontent.com/mohammadtavakoli78/BEAM/"
    "b2a3ee8ba12d68f83143dda191097dc3e028ddd3/"
)
CHATS = {"100K": 20, "500K": 35, "1M": 35, "10M": 10}
"""Number of chats in each tier, numbered from 1."""

_CUT = {
    "100K": (5, 7, 10, 11, 12, 16, 17, 18, 19, 20),
    "500K": (),
    "1M": (6, 11, 12, 13, 14, 18, 19, 20, 21, 24, 25, 26, 28, 30, 33, 34),
}
"""Chats truncated to the size of their tier; the authors' code reads that version."""

_PINS = Path(__file__).with_name("beam.sha256")
"""Checksums of the 100K files; those of the other tiers are unknown."""


def published(tier: str) -> tuple[RemoteFile, ...]:
    """Returns the files of a tier, or none if their names are unknown (10M)."""
    if tier not in _CUT:
        return ()
    pinned = {one.name: one for one in published_files(_PINS, _RAW)}
    paths = (
        f"chats/{tier}/{chat}/{name}"
        for chat in range(1, CHATS[tier] + 1)
        for name in (CUT if chat in _CUT[tier] else CHAT, QUESTIONS)
    )
    return tuple(pinned.get(path) or RemoteFile(path, _RAW + path) for path in paths)


def local(source: Path, variant: Variant) -> Mapping[str, Path]:
    """Finds the files of a local copy: a clone of the repository, its `chats`, or a tier's folder.

    Raises UsageError if the folder, a chat or its questions are missing.
    """
    tier = variant.name.upper()
    folder = _folder(source, tier)
    files = {}
    for chat in _numbered(folder):
        cut = (folder / str(chat) / CUT).is_file()
        for name in (CUT if cut else CHAT, QUESTIONS):
            path = folder / str(chat) / name
            if not path.is_file():
                raise UsageError(f"{path}: no such file; download it again from {REPOSITORY}")
            files[f"chats/{tier}/{chat}/{name}"] = path
    refuse_a_part(files, variant, folder)
    return files


def _folder(source: Path, tier: str) -> Path:
    """Finds the folder that contains the chats of the tier. Raises UsageError."""
    for folder in (source / "chats" / tier, source / tier):
        if folder.is_dir():
            return folder
    if source.is_dir() and source.name not in {*CHATS} - {tier} and _numbered(source):
        return source
    raise UsageError(
        f"{source}: no {tier} chats found; pass a clone of {REPOSITORY}, its chats folder, or "
        f"chats/{tier}"
    )


def _numbered(folder: Path) -> list[int]:
    """Returns the numbers of the chats in a folder."""
    return sorted(int(path.name) for path in folder.iterdir() if _CHAT.fullmatch(path.name))


ABILITIES = {
    "abstention": Ability.ABSTENTION,
    "contradiction_resolution": Ability.KNOWLEDGE_UPDATE,
    "event_ordering": Ability.TEMPORAL,
    "information_extraction": Ability.LOOKUP,
    "instruction_following": Ability.LOOKUP,
    "knowledge_update": Ability.KNOWLEDGE_UPDATE,
    "multi_session_reasoning": Ability.MULTI_HOP,
    "preference_following": Ability.LOOKUP,
    "summarization": Ability.MULTI_HOP,
    "temporal_reasoning": Ability.TEMPORAL,
}
"""Abilities by BEAM's kind of question; docs/how-to/beam.md gives the reasons."""

_ANSWERS = ("answer", "ideal_answer", "ideal_summary")
_UPDATE = ("original_info", "updated_info")


def _variant(tier: str, messages: str) -> Variant:
    return Variant(
        tier.lower(),
        f"{20 * CHATS[tier]} questions of ten kinds over {CHATS[tier]} chats with an assistant, "
        f"{messages}",
        "none stated in the repository",
        files=published(tier),
        granularities=("turn", "session"),
        texts=("official", "dated"),
    )


VARIANTS = (
    _variant("100K", "5,094 messages"),
    _variant("500K", "about 1,090 messages each"),
    _variant("1M", "about 2,130 messages each"),
    _variant("10M", "about 20,900 messages each; needs a clone of the repository (--source)"),
)


@register_adapter("beam")
class Beam:
    """BEAM adapter; the default variant is `100k`."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """The four tiers."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds a clone of the repository, its `chats` folder, or the folder of the tier."""
        return local(source, variant)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes one haystack per chat, and its questions.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        tier = raw.variant.name.upper()
        if not raw.files:
            raise UsageError(
                f"beam/{raw.variant.name} cannot be downloaded: clone {REPOSITORY} and pass it "
                f"with --source, or its chats/{tier}"
            )
        here = {name.split("/")[2] for name in raw.files}
        for chat in map(str, range(1, CHATS[tier] + 1)):
            if chat not in here:
                out.repair(f"chats of {tier} missing from this copy: it is a part of BEAM", chat)
        paths = [*raw.files.values()]
        for (name, path), questions in zip([*raw.files.items()][::2], paths[1::2], strict=True):
            _BeamChat(name.split("/")[2], path, config, out).write(questions)


class _BeamChat:
    """Writer of one chat; maps message ids to documents and to timestamps."""

    def __init__(self, id: str, path: Path, config: DatasetConfig, out: DatasetWriter) -> None:
        self._id = id
        self._config = config
        self._out = out
        self._rows: dict[int, int] = {}
        self._said: dict[int, int] = {}
        self._told: set[Change] = set()
        if path.name == CUT:
            out.repair("chats that their authors truncated: truncated version read", id)
        self._exchanges = read_exchanges(read_once(path), str(path))

    def write(self, questions: Path) -> None:
        """Writes the documents, the haystack, and the questions with their evidence."""
        for exchange in self._exchanges:
            if self._config.granularity == "session":
                self._write_session(exchange)
            else:
                for position, message in enumerate(exchange.messages):
                    self._rows[message.id] = self._write_message(exchange, message, position)
        self._note(message for exchange in self._exchanges for message in exchange.messages)
        self._out.haystack(self._id, list(dict.fromkeys(self._rows.values())))
        of_kind = read_once(questions)
        for kind in of_kind if isinstance(of_kind, dict) else ():
            if kind not in ABILITIES:
                raise UsageError(f"{questions}: {kind!r} is not one of {', '.join(ABILITIES)}")
        for kind in ABILITIES:
            for place, question in enumerate(field(of_kind, kind, list, str(questions))):
                self._question(kind, place, question, f"{questions}, {kind} {place}")

    def _write_message(self, exchange: Exchange, message: ChatMessage, position: int) -> int:
        text = message.text
        if self._config.text == "dated":
            text = f"{_before(exchange)}{message.role}: {text}"
        return self._out.document(
            str(message.id),
            text,
            timestamp=message.timestamp,
            session=exchange.id,
            speaker=message.role,
            position=position,
        )

    def _write_session(self, exchange: Exchange) -> None:
        if not exchange.messages:
            return
        said = "\n".join(f"{message.role}: {message.text}" for message in exchange.messages)
        row = self._out.document(
            exchange.id,
            f"{_before(exchange)}{said}" if self._config.text == "dated" else said,
            timestamp=exchange.messages[0].timestamp,
            session=exchange.id,
        )
        self._rows.update(dict.fromkeys((message.id for message in exchange.messages), row))

    def _note(self, messages: Iterable[ChatMessage]) -> None:
        for message in messages:
            if message.marked:
                self._out.repair(
                    "marks ->-> n,m (position in the plan) at the end of a message: removed",
                    f"{self._id}: {message.role}, message {message.id}",
                )
            if message.timestamp is not None:
                self._said[message.id] = message.timestamp
            else:
                self._out.repair(
                    "messages of a batch without a date: kept undated", f"{self._id}: {message.id}"
                )

    def _question(self, kind: str, place: int, question: Any, where: str) -> None:
        id_ = f"{self._id}_{kind}_{place}"
        text = field(question, "question", str, where)
        ability = ABILITIES[kind]
        for name in () if any(one in question for one in _ANSWERS) else _ANSWERS:
            refuse_near(question, name, where)
        self._out.query(
            id_,
            text,
            self._id,
            ability=ability,
            category=kind,
            answers=[str(question[name]) for name in _ANSWERS if name in question],
        )
        if ability is Ability.ABSTENTION and "source_chat_ids" not in question:
            return
        if "source_chat_ids" not in question:
            refuse_near(question, "source_chat_ids", where)
            self._out.repair("questions without source_chat_ids: kept, without judgements", id_)
            return
        named = question["source_chat_ids"]
        if kind == "knowledge_update" and self._config.granularity == "turn":
            # A session holds many messages, so it has no single validity.
            self._update(id_, named, where)
        self._judge(id_, [*_flat(named, where)])

    def _update(self, query: str, named: Any, where: str) -> None:
        """Records that new messages of an update replace the old ones, if both are identified."""
        if isinstance(named, list):  # which does not separate old from new
            named = {_UPDATE[0]: named, _UPDATE[1]: []}
        pair = [{*_flat(field(named, name, list, where), where)} for name in _UPDATE]
        old, new = (sorted(ids & self._said.keys()) for ids in pair)
        if not old or not new:
            why = "one of the two is not identified"
        elif max(self._said[id_] for id_ in old) >= min(self._said[id_] for id_ in new):
            why = "the old message is not before the new one"
        else:
            for one, by in product(old, new):
                change = Change(self._id, "key-update", str(one), self._said[by], str(by))
                if change not in self._told:
                    self._told.add(change)
                    self._out.change(change, where)
            return
        self._out.repair(f"updates that outdate no message: {why}", query)

    def _judge(self, query: str, named: list[int]) -> None:
        """Judges the documents of existing messages, once each, and records corrections."""
        there = [message for message in dict.fromkeys(named) if message in self._rows]
        for message in dict.fromkeys(named):
            if message not in self._rows:
                self._out.repair(
                    "evidence that names a message which does not exist: excluded",
                    f"{query}: {message}",
                )
        for _ in range(len(named) - len(set(named))):
            self._out.repair("evidence that names a message twice: merged", query)
        if not there:
            self._out.repair("questions without evidence: kept, without judgements", query)
        for row in dict.fromkeys(self._rows[message] for message in there):
            self._out.qrel(query, row)


def _before(exchange: Exchange) -> str:
    """Returns the date prefix of a dated text."""
    return "" if exchange.day is None else f"{day(exchange.day)} "


def _flat(named: Any, where: str) -> Iterator[int]:
    """Flattens a list of message ids, nested lists, or an object of old and new ids.

    Raises UsageError for an invalid id.
    """
    if isinstance(named, int) and not isinstance(named, bool):
        yield named
        return
    if not isinstance(named, (list, dict)):
        raise UsageError(f"{where}: {named!r:.40} in source_chat_ids is not a message id")
    for one in named.values() if isinstance(named, dict) else named:
        yield from _flat(one, where)


_MARK = re.compile(r"\s*->->[\s\d,/NA()]*$")
"""`->-> 3,8`, the position in the plan that produced a message; tolerates typos in the data."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message; `text` excludes the plan mark, and `marked` records that there was one."""

    id: int
    role: str
    text: str
    marked: bool
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user question and all replies to it; the files call it a turn."""

    id: str
    day: int | None
    messages: list[ChatMessage]


def read_exchanges(chat: Any, where: str) -> list[Exchange]:
    """Reads the exchanges of a chat in order. A 10M chat is a list of plans, `{"plan-1": batches}`.

    Raises UsageError for a missing field, an invalid date or a duplicate id.
    """
    clock = DayClock()
    exchanges = [
        exchange
        for plan, batches in _plans(chat, where)
        for place, batch in enumerate(batches)
        for exchange in _of_batch(batch, plan, f"{where}, {plan}batch {place}", clock)
    ]
    ids: set[int] = set()
    for message in (message for exchange in exchanges for message in exchange.messages):
        if message.id in ids:
            raise UsageError(f"{where}: duplicate message id {message.id}; make it unique")
        ids.add(message.id)
    return exchanges


def _plans(chat: Any, where: str) -> Iterator[tuple[str, list[Any]]]:
    """Yields the batches of a chat, or those of each plan with the name of the plan."""
    if not isinstance(chat, list):
        raise UsageError(f"{where}: not a list of batches; is it a chat of BEAM?")
    if any(isinstance(part, dict) and "turns" in part for part in chat):
        yield "", chat
        return
    for part in chat:
        # In the hub's rows each part has a key for every plan, and all but one are empty.
        named = part.items() if isinstance(part, dict) else ()
        full = [name for name, batches in named if batches is not None]
        if len(full) != 1:
            raise UsageError(f"{where}: {part!r:.60} is neither a batch nor one plan's batches")
        yield f"{full[0]}:", field(part, full[0], list, where)


def _of_batch(batch: Any, plan: str, where: str, clock: DayClock) -> Iterator[Exchange]:
    number = field(batch, "batch_number", int, where)
    turns = field(batch, "turns", list, where)
    day = _day(batch, turns, where)
    for place, turn in enumerate(turns):
        at = f"{where}, turn {place}"
        if not isinstance(turn, list):
            raise UsageError(f"{at}: not a list of messages; the file is damaged")
        messages = [_message(one, f"{at}, message {n}", day, clock) for n, one in enumerate(turn)]
        yield Exchange(f"{plan}{number}:{place}", day, messages)


def _message(message: Any, where: str, day: int | None, clock: DayClock) -> ChatMessage:
    said = field(message, "content", str, where)
    text = _MARK.sub("", said)
    return ChatMessage(
        field(message, "id", int, where),
        field(message, "role", str, where),
        text,
        text != said,
        None if day is None else clock.next(day),
    )


def _day(batch: Any, turns: list[Any], where: str) -> int | None:
    """Returns the date of a batch: `time_anchor`, else that of its first message, else None."""
    refuse_near(batch, "time_anchor", where)
    first = turns[0][0] if turns and isinstance(turns[0], list) and turns[0] else {}
    written = batch.get("time_anchor") or (
        first.get("time_anchor") if isinstance(first, dict) else None
    )
    if isinstance(first, dict):
        refuse_near(first, "time_anchor", where)
    if written is None:
        return None
    try:
        return timestamp(datetime.strptime(written, "%B-%d-%Y"))
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: the time_anchor {written!r:.40} is not a date like March-15-2024"
        ) from None
