"""One line for an error of a retriever, with the file and line of the user's own code."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

import orjson

import harness

_FRAME = re.compile(r'^ +File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
_OWN_CLASS = re.compile(r"^harness\.[\w.]+: ")
_NOT_OF_THE_USER = tuple(
    os.path.join(folder, "")
    for folder in (str(Path(harness.__file__).parent), *sysconfig.get_paths().values())
)


def error_line(trace: str, query: str) -> str:
    """Formats the error of a query as `mine.py:12 in search: KeyError: 'x' (query q7)`."""
    return f"{_place(trace)}{_message(trace)} (query {query})"


def first_error(errors: Path) -> str:
    """Returns the line of the first error in an errors.jsonl."""
    with errors.open("rb") as lines:
        found = orjson.loads(next(lines))
    return error_line(found["error"], found["query"])


def _place(trace: str) -> str:
    """Returns the last frame of the user's code; empty if there is none."""
    block = trace.rpartition("Traceback (most recent call last)")[2]
    frames = [one for one in _FRAME.findall(block) if not one[0].startswith(_NOT_OF_THE_USER)]
    if not frames:
        return ""
    file, line, function = frames[-1]
    shown = os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file
    return f"{shown}:{line} in {function}: "


def _message(trace: str) -> str:
    """Returns the line of a trace that names the error; a message may have further lines below."""
    lines = trace.strip().splitlines()
    inside = max((i for i, line in enumerate(lines) if line.startswith("  File ")), default=-1)
    named = (line for line in lines[inside + 1 :] if line and not line.startswith(" "))
    return _OWN_CLASS.sub("", next(named, lines[-1]))
