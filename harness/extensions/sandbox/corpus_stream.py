"""Sends a corpus to the process of a sandbox, without row numbers of the dataset."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import IO, Any

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Documents
from harness.retrievers.corpus import Changed, Corpus

_SENT = 1 << 16
"""Documents per batch that is sent to another process."""

_NUMBERS = ["number", "when", "group"]
"""Additional columns of a sent corpus, after those of its documents."""

_USERS = "user"
"""Column of the numbers of users, if there are any."""

_CHANGES, _OWNER = b"changes", b"owner"
"""Metadata keys of the changes and the owner of a sent corpus."""


def write_corpus(corpus: Corpus, stream: IO[bytes]) -> None:
    """Writes a corpus as an Arrow stream."""
    sessions = corpus._sessions
    if sessions is None:
        sessions = np.full(len(corpus), -1, np.int64)
    writer: Any = None
    for start in range(0, max(len(corpus), 1), _SENT):
        part = slice(start, start + _SENT)
        table = corpus._shown(part)
        numbers = (corpus._numbers[part], corpus._timestamps[part], sessions[part])
        for name, column in zip(_NUMBERS, numbers, strict=True):
            table = table.append_column(name, pa.array(column))
        if corpus._users is not None:
            table = table.append_column(_USERS, pa.array(corpus._users[part]))
        if writer is None:
            changes = json.dumps([astuple(change) for change in corpus.changes])
            table = table.replace_schema_metadata({_CHANGES: changes, _OWNER: corpus._owner})
            writer = pa.ipc.new_stream(pa.PythonFile(stream, "w"), table.schema)
        writer.write_table(table)
    writer.close()


def read_corpus(stream: IO[bytes]) -> Corpus:
    """Reads a corpus that `write_corpus` wrote; it differs only in its row numbers."""
    table = pa.ipc.open_stream(pa.PythonFile(stream, "r")).read_all()
    numbers, timestamps, sessions = (np.asarray(table[name].to_numpy()) for name in _NUMBERS)
    rows = np.arange(len(table), dtype=np.int32)
    changes = [Changed(*one) for one in json.loads(table.schema.metadata[_CHANGES])]
    users = None
    if _USERS in table.column_names:
        users = np.asarray(table[_USERS].to_numpy())
        table = table.drop_columns([_USERS])
    documents = Documents(table.drop_columns(_NUMBERS))
    owner = table.schema.metadata[_OWNER].decode()
    corpus = Corpus(documents, rows, numbers, timestamps, sessions, changes=changes, users=users)
    return corpus.with_owner(owner)
