"""How projects call LoCoMo's sessions: `session_3`, `3` or `S3`."""

from __future__ import annotations

import re

_SESSION = re.compile(r"(?:session_|S)?(\d+)")


def session_ids(names: list[str] | None) -> list[str] | None:
    """`S3`, as the dataset has it, of each session; what is none stays as it is."""
    if names is None:
        return None
    found = [(name, _SESSION.fullmatch(name)) for name in names]
    return [f"S{int(session[1])}" if session else name for name, session in found]
