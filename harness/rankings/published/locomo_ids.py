"""How projects call LoCoMo's sessions: `session_3`, `3` or `S3`."""

from __future__ import annotations

import re

_SESSION = re.compile(r"(?:session_|S)?(\d+)")


def session_id(name: str) -> str:
    """`S3`, as the dataset has it, of a session; what is none stays as it is."""
    found = _SESSION.fullmatch(name)
    return f"S{int(found[1])}" if found else name
