"""The `dated` text form of conversations: what was said, with when and by whom."""

from __future__ import annotations

from collections.abc import Iterable

from harness.schema import as_datetime


def date(timestamp: int) -> str:
    """A schema timestamp as `[2023-05-08 13:56]`."""
    return f"[{as_datetime(timestamp):%Y-%m-%d %H:%M}]"


def dated_turn(timestamp: int, speaker: str, text: str) -> str:
    """One turn as `[date] speaker: text`."""
    return f"{date(timestamp)} {speaker}: {text}"


def dated_session(timestamp: int, turns: Iterable[tuple[str, str]]) -> str:
    """A session as a line with its date and a line `speaker: text` for each (speaker, text)."""
    return "\n".join([date(timestamp), *(f"{speaker}: {text}" for speaker, text in turns)])
