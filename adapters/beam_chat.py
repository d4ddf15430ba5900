"""A BEAM chat: its messages in order, by the exchanges that they make, each dated by its batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.datasets.adapters.raw_files import DayClock, field, refuse_near
from harness.errors import UsageError
from harness.schema import timestamp

_MARK = re.compile(r"\s*->->[\s\d,/NA()]*$")
"""`->-> 3,8`, the place in the plan from which a message was made; with a few slips in it."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. `text` is without the mark of the plan; `marked`: there was one."""

    id: int
    role: str
    text: str
    marked: bool
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question of the user's and all that was said of it; the files call it a turn."""

    id: str
    day: int | None
    messages: list[ChatMessage]


def read_exchanges(chat: Any, where: str) -> list[Exchange]:
    """The exchanges of a chat, in order. A chat of 10M is a list of plans, `{"plan-1": batches}`.

    Raises UsageError for a missing field, a bad date, and an id that stands twice.
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
            raise UsageError(f"{where}: the message id {message.id} stands twice; make it unique")
        ids.add(message.id)
    return exchanges


def _plans(chat: Any, where: str) -> Iterator[tuple[str, list[Any]]]:
    """The batches of a chat, or those of each of its plans with the plan's name before them."""
    if not isinstance(chat, list):
        raise UsageError(f"{where}: not a list of batches; is it really a chat of BEAM?")
    if any(isinstance(part, dict) and "turns" in part for part in chat):
        yield "", chat
        return
    for part in chat:
        # The hub's rows hold every plan's name in each part, all but one of them empty.
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
    """The day of a batch: its own `time_anchor`, else that of its first message; None: neither."""
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
