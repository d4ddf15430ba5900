"""Answers for people to judge, and what they judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import digest, disk_errors, file_aside
from harness.rankings.raw import read_lines
from harness.runs.answering.folder import JUDGEMENTS, PEOPLE, AnswersFolder
from harness.runs.answering.judging import write_judgements


def sample_for_people(folder: AnswersFolder, dataset: Dataset, n: int, seed: int, out: Path) -> int:
    """Write a random sample of answers for people to judge, as lines of JSON whose `right` is null
    until they say true or false. Returns how many there are.

    The file appears whole or not at all. Raises UsageError for a file that is there already.
    """
    import orjson

    if n < 1:
        raise UsageError(f"--sample must be 1 or more, not {n}")
    if out.exists():
        raise UsageError(f"{out}: exists; name a new file")
    rows = [row for row in folder.table.to_pylist() if row["answer"] is not None]
    chosen = np.sort(np.random.default_rng(seed).permutation(len(rows))[:n]).tolist()
    known = {name: row for row, name in enumerate(dataset.query_ids)}
    lines = []
    for at in chosen:
        row, query = rows[at], dataset.query(known[rows[at]["query"]])
        told = {"question_id": query.id, "repeat": row["repeat"], "question": query.text}
        told |= {"reference": list(query.answers), "answer": row["answer"], "right": None}
        lines.append(orjson.dumps(told) + b"\n")
    with disk_errors(out.parent, "name another place with --out"), file_aside(out) as aside:
        aside.write_bytes(b"".join(lines))
    return len(lines)


def take_people(folder: AnswersFolder, path: Path) -> Path:
    """Take in what people judged: lines of question_id, right (true or false) and maybe repeat.

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
    rows = [
        {"query": query, "repeat": repeat, "judgement": 0, "right": right}
        for (query, repeat), right in found.items()
    ]
    about = {"judge": PEOPLE, "version": 1, "signature": PEOPLE, "model": PEOPLE, "repeat": 1}
    given = {"file": path.name, "sha256": digest(path)}
    return write_judgements(
        folder, pa.Table.from_pylist(rows, JUDGEMENTS), {**about, "given": given}
    )
