"""What a model answered, one JSON line a document, on the disk before it counts.

So a call that was stopped goes on where it was, and nothing is paid for twice. A line is found
again by the hash of model and messages: another prompt, model or text is another question.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from harness.errors import UsageError
from harness.files import fsync_path
from harness.labelling.generate.endpoint import Message

NAME = "answers.jsonl"


class Journal:
    """The answers in a file, by the hash of what was asked. The file need not be there yet."""

    def __init__(self, path: Path) -> None:
        """Reads the file; a last line that was cut off is dropped, and said.

        Raises UsageError, naming the line, for any other that cannot be read.
        """
        self._path = path
        self._lock = Lock()
        self._held: dict[str, str] = {}
        data = path.read_bytes() if path.is_file() else b""
        *whole, rest = data.split(b"\n")
        if rest:
            print(f"note: {path}: its last line was cut off and is dropped", file=sys.stderr)
            os.truncate(path, len(data) - len(rest))
        for number, line in enumerate(whole, 1):
            try:
                record = orjson.loads(line)
                self._held[record["asked"]] = str(record["answer"])
            except (ValueError, TypeError, KeyError):
                raise UsageError(
                    f"{path}, line {number}: is no answer; take the line out, and it is asked again"
                ) from None

    def get(self, asked: str) -> str | None:
        """The answer to what has this hash; None where it was not asked."""
        return self._held.get(asked)

    def add(self, asked: str, document: str, answer: str, usage: dict[str, Any] | None) -> None:
        """Keep an answer; safe to call from several threads."""
        record = {"asked": asked, "document": document, "answer": answer, "usage": usage}
        with self._lock:
            new = not self._path.exists()
            with open(self._path, "ab") as file:
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self._path.parent)
            self._held[asked] = answer


def question_hash(model: str, messages: list[Message]) -> str:
    """What an answer is found again by."""
    return hashlib.sha256(orjson.dumps([model, messages])).hexdigest()
