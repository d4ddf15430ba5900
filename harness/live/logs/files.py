"""Files that hold a log, and the JSON objects in their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from harness.errors import UsageError

_KINDS = (".jsonl", ".ndjson", ".json", ".log")
PACKED = (".gz", ".zst")
_NAME = re.compile(r"(.*?\.(?:jsonl|ndjson|json|log))(.*)", re.DOTALL)
_NUMBER = re.compile(r"\.(\d{1,6})(?:\.gz|\.zst)?")
_BLOCK = 1 << 20
_LONGEST = 10_000  # lines of one object that is written over several


def log_files(path: Path) -> list[Path]:
    """The files of a log: the one that `path` names, or those in a folder, rotated ones too.

    In a folder: what has .jsonl, .ndjson, .json or .log in its name (app.log.1, app.log-2026.gz),
    oldest first by their names. Raises UsageError where there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no such log file or folder")
    found = [one for one in sorted(path.iterdir(), key=by_age) if is_log(one)]
    if not found:
        raise UsageError(f"{path}: no log in this folder (*{', *'.join(_KINDS)}, also rotated)")
    return found


def by_age(path: Path) -> tuple[str, bool, int, str]:
    """Sorts files by name, oldest first: app.log.2.gz, app.log.1, app.log; dates as they count."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return (path.name, True, 0, "")
    base, rest = found.groups()
    number = _NUMBER.fullmatch(rest)
    return (base, rest == "", -int(number[1]) if number else 0, rest)


def is_log(path: Path) -> bool:
    """Whether a file in a folder is taken for a log, by its name."""
    kinds = {suffix.partition("-")[0] for suffix in path.suffixes}
    return not path.name.startswith(".") and not kinds.isdisjoint(_KINDS) and path.is_file()


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is. Raises UsageError where it cannot be read."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while block := stream.read(_BLOCK):
                yield block
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def split(data: bytes) -> tuple[list[tuple[int, bytes]], int, int]:
    """JSON objects in `data`: (line from 0, text) of each; bytes and ends of lines that they take.

    An object stands on one line, or over several where its braces stand alone at their beginning,
    as ConsoleSpanExporter writes it. What is not finished is not taken: neither a last line that is
    no whole object yet, nor one that lacks its closing brace.
    """
    lines = data.split(b"\n")
    rest = lines.pop()
    found: list[tuple[int, bytes]] = []
    taken = at = 0
    number = 0
    while number < len(lines):
        line = lines[number]
        end = number + 1
        if line.rstrip() == b"{":
            end = _closing(lines, number)
            if end == 0:
                if len(lines) - number < _LONGEST:
                    return found, taken, number
                end = number + 1
            line = b"\n".join(lines[number:end])
        at += len(line) + 1
        if not line.isspace() and line:
            found.append((number, line))
        number, taken = end, at
    if rest.strip() and _whole(rest):
        found.append((number, rest))  # its line ends, and is counted, with the next bytes
        taken = len(data)
    return found, taken, number


def _closing(lines: list[bytes], start: int) -> int:
    """The line after the one that closes the object at `start`; 0 where none does yet."""
    for at in range(start + 1, min(len(lines), start + _LONGEST)):
        if lines[at].rstrip() == b"}":
            return at + 1
    return 0


def _whole(text: bytes) -> bool:
    """True for a JSON object. No part of one is: it lacks the brace."""
    import orjson

    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
