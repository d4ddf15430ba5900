"""What people judged of answers, beside what judges say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import UsageError
from harness.files import digest
from harness.rankings.raw import read_lines
from harness.runs.answering.folder import JUDGEMENTS, PEOPLE, AnswersFolder
from harness.runs.answering.judging import write_judgements


def read_people(
    path: Path, folder: AnswersFolder
) -> tuple[Mapping[tuple[str, int], bool], dict[str, Any]]:
    """What people judged, by question and repetition, and where it stood: lines of question_id,
    right (true or false) and maybe repeat.

    Lines whose `right` is null were not judged. Raises UsageError for a line that is none, for an
    answer that is not there, and for two that contradict each other.
    """
    import orjson

    known = {
        (query, repeat)
        for query, repeat, answer in zip(
            *(folder.table[name].to_pylist() for name in ("query", "repeat", "answer")),
            strict=True,
        )
        if answer is not None
    }
    found: dict[tuple[str, int], bool] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = orjson.loads(line)
            key, right = (str(record["question_id"]), record.get("repeat", 0)), record["right"]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise UsageError(
                f'{where}: expected {{"question_id": id, "right": true or false}}'
            ) from None
        if right is None:
            continue
        if not isinstance(right, bool):
            raise UsageError(f"{where}: right must be true, false or null, not {right!r}")
        if key not in known:
            raise UsageError(f"{where}: {folder.path} has no answer to {key[0]!r}")
        if found.setdefault(key, right) != right:
            raise UsageError(f"{where}: {key[0]!r} is judged right and wrong; keep one line")
    if not found:
        raise UsageError(f"{path}: judges no answer yet: every `right` is null")
    return found, {"file": path.name, "sha256": digest(path)}


def keep(
    folder: AnswersFolder, verdicts: Mapping[tuple[str, int], bool], given: Mapping[str, Any]
) -> Path:
    """Put people's verdicts beside those of judges, in place of earlier ones."""
    rows = [
        {"query": query, "repeat": repeat, "judgement": 0, "right": right}
        for (query, repeat), right in verdicts.items()
    ]
    about = {"judge": PEOPLE, "version": 1, "signature": PEOPLE, "model": PEOPLE, "repeat": 1}
    return write_judgements(
        folder, pa.Table.from_pylist(rows, JUDGEMENTS), {**about, "given": dict(given)}
    )
