"""Sections of other Markdown files of the repository, so that a table has one home."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def section(file: str, anchor: str) -> str:
    """Returns the text below a heading of a file, up to the next heading."""
    text = (ROOT / file).read_text("utf-8")
    for heading, body in re.findall(r"^#+ (.+)\n((?:(?!#+ ).*\n?)*)", text, re.M):
        if re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") == anchor:
            return str(body).strip()
    raise KeyError(f"{file} has no heading {anchor!r}")
