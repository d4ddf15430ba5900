"""Reads a log: its files, the JSON objects in them, and the requests in these objects.

Lines and spans that are not requests are counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa

from harness.errors import UsageError
from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.extensions.online.logs.field_mapping import EventReader, FieldMapping, LineError
from harness.extensions.online.logs.spans import is_spans, retrievals
from harness.records.run import LogCounts
from harness.runfiles.fields import RUN, RUN_LISTS, FieldError, Fields

_KINDS = (".jsonl", ".ndjson", ".json", ".log")
PACKED = (".gz", ".zst")
_NAME = re.compile(r"(.*?\.(?:jsonl|ndjson|json|log))(.*)", re.DOTALL)
_NUMBER = re.compile(r"\.(\d{1,6})(?:\.gz|\.zst)?")
_BLOCK = 1 << 20
_LOOKED_AT = 9  # records read to detect a log
_LONGEST = 10_000  # maximum lines of one object

BOM = b"\xef\xbb\xbf"
"""Byte order mark that some programs write before UTF-8 text."""


@dataclass(frozen=True)
class Log:
    """The requests and feedback of a log, in the order of the files."""

    files: list[Path]
    events: list[RetrievalEvent]
    feedback: list[Feedback]
    counts: LogCounts


def read_log(
    path: str | Path, mapping: FieldMapping | None = None, *, lenient: bool = False
) -> Log:
    """Reads a log file or a folder of log files, including compressed ones (.gz, .zst).

    An unfinished last line is dropped and counted. Any other unreadable line raises UsageError,
    or is counted if `lenient`. The error names file and line. A log without a request also raises
    UsageError.
    """
    files = log_files(Path(path))
    parser = LogParser(mapping or FieldMapping())
    events: list[RetrievalEvent] = []
    feedback: list[Feedback] = []
    for file in files:
        for found in _read(file, parser):
            if isinstance(found, Feedback):
                feedback.append(found)
            else:
                if found.returned:  # ids repeat across requests: share them
                    found.returned = tuple(map(sys.intern, found.returned))
                events.append(found)
        if parser.counts.unreadable and not lenient:
            raise UsageError(
                f"{parser.counts.first_error}; correct it, map the fields with --log-config, or "
                "skip such lines with --lenient"
            )
    counts = parser.counts
    if events and (unused := parser.reader.unused_field()):
        raise UsageError(f"{path}: {unused}")
    if not events:
        more = f"; {counts.unreadable} unreadable lines, first {counts.first_error}"
        raise UsageError(
            f"{path}: contains no request ({counts.other} other lines or spans)"
            + (more if counts.unreadable else "")
        )
    return Log(files, events, feedback, counts)


def _read(file: Path, parser: LogParser) -> Iterator[RetrievalEvent | Feedback]:
    rest, line = b"", 1
    for block in read_blocks(file):
        data = rest + block if rest or line > 1 else block.removeprefix(BOM)
        found, taken, lines = split_objects(data)
        for at, text in found:
            yield from parser.events(str(file), line + at, text)
        rest, line = data[taken:], line + lines
    parser.counts.torn += bool(rest.strip())


@dataclass
class LogParser:
    """Parses JSON objects of a log as events; counts them in `counts`."""

    mapping: FieldMapping = field(default_factory=FieldMapping)
    counts: LogCounts = field(default_factory=LogCounts)

    def __post_init__(self) -> None:
        self.reader = EventReader(self.mapping)

    def events(self, name: str, line: int, text: bytes) -> Iterator[RetrievalEvent | Feedback]:
        """Parses one JSON object, which contains several requests if it contains several spans.

        Unreadable objects are counted; the first is described in `counts.first_error`.
        """
        counts = self.counts
        try:
            record = orjson.loads(text)
            if not isinstance(record, dict):
                raise LineError("not a JSON object")
            spans = self.mapping.format == "otel" or (
                self.mapping.format is None and is_spans(record)
            )
            for one in retrievals(record) if spans else (record,):
                found = None if one is None else self.reader.read(one)
                if found is None:
                    counts.other += 1
                    continue
                if isinstance(found, Feedback):
                    counts.feedback += 1
                else:
                    counts.requests += 1
                    counts.without_result += found.returned is None and found.texts is None
                yield found
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            counts.unreadable += 1
            if not counts.first_error:
                counts.first_error = f"{name}, line {line}: {_message(error)}"


def _message(error: Exception) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return f"invalid JSON ({error.msg})"
    return f"no field {error}" if isinstance(error, KeyError) else str(error)


def is_request_log(path: Path) -> bool:
    """Tests by its first records whether a file is a request log rather than a run."""
    parser = LogParser()
    try:
        block = next(read_blocks(path), b"").removeprefix(BOM)
    except UsageError:
        return False
    for at, text in split_objects(block)[0][:_LOOKED_AT]:
        for one in parser.events("", at, text):
            if isinstance(one, RetrievalEvent) and (one.returned or one.texts):
                return not any(_fits(form, [*orjson.loads(text)]) for form in (RUN, RUN_LISTS))
    return False


def _fits(form: Fields, fields: list[str]) -> bool:
    try:
        form.read(fields)
    except FieldError:
        return False
    return True


# -- Files, and the JSON objects in them -----------------------------------------------------------


def log_files(path: Path) -> list[Path]:
    """Returns the files of a log: the file at `path`, or those in a folder, rotated ones included.

    In a folder: names that contain .jsonl, .ndjson, .json or .log (app.log.1, app.log-2026.gz),
    oldest first by name. Raises UsageError if there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no such log file or folder")
    found = [one for one in sorted(path.iterdir(), key=age_key) if is_log(one)]
    if not found:
        raise UsageError(f"{path}: this folder has no log (*{', *'.join(_KINDS)}, also rotated)")
    return found


def age_key(path: Path) -> tuple[str, bool, int, str]:
    """Sort key of file names, oldest first: app.log.2.gz, app.log.1, app.log; dates ascending."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return (path.name, True, 0, "")
    base, rest = found.groups()
    number = _NUMBER.fullmatch(rest)
    return (base, rest == "", -int(number[1]) if number else 0, rest)


def is_log(path: Path) -> bool:
    """Tests by its name whether a file in a folder is a log."""
    kinds = {suffix.partition("-")[0] for suffix in path.suffixes}
    return not path.name.startswith(".") and not kinds.isdisjoint(_KINDS) and path.is_file()


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file. Raises UsageError if it cannot be read."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while block := stream.read(_BLOCK):
                yield block
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def split_objects(data: bytes) -> tuple[list[tuple[int, bytes]], int, int]:
    """Splits `data` into JSON objects: (line from 0, text) of each; bytes and lines consumed.

    An object is on one line, or on several if its braces are alone on their lines, as
    ConsoleSpanExporter writes it. Unfinished objects are not consumed: a last line that is not yet
    a complete object, or an object without its closing brace.
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
            end = _closing_line(lines, number)
            if end == 0:
                if len(lines) - number < _LONGEST:
                    return found, taken, number
                end = number + 1
            line = b"\n".join(lines[number:end])
        at += len(line) + 1
        if not line.isspace() and line:
            found.append((number, line))
        number, taken = end, at
    if rest.strip() and _is_complete(rest):
        found.append((number, rest))  # its newline is counted with the next bytes
        taken = len(data)
    return found, taken, number


def _closing_line(lines: list[bytes], start: int) -> int:
    """Returns the line after the end of the object at `start`; 0 if it is unfinished."""
    for at in range(start + 1, min(len(lines), start + _LONGEST)):
        if lines[at].rstrip() == b"}":
            return at + 1
    return 0


def _is_complete(text: bytes) -> bool:
    """Tests for a complete JSON object; a prefix of one lacks the closing brace."""
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
