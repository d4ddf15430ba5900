"""A corpus of turns with speakers, sessions, titles and dates, as a retriever is shown one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Documents
from harness.retrievers.contract import Corpus


@dataclass(frozen=True)
class Turn:
    text: str
    speaker: str | None = None
    session: int = -1
    title: str = ""
    timestamp: int | None = None


def corpus(*turns: Turn) -> Corpus:
    """The turns in this order; those of one session number (0 or more) are a session."""
    n = len(turns)
    none = pa.array([None] * n, pa.string())
    numbers = pa.array([None] * n, pa.int64())
    columns = {
        "id": pa.array([f"t{i}" for i in range(n)], pa.string()),
        "text": pa.array([turn.text for turn in turns], pa.string()),
        "title": pa.array([turn.title for turn in turns], pa.string()),
        "timestamp": numbers,
        "session": none,
        "speaker": pa.array([turn.speaker for turn in turns], pa.string()),
        "position": numbers,
    }
    return Corpus(
        Documents(pa.table(columns)),
        np.arange(n, dtype=np.int32),
        np.arange(n)[::-1].copy(),
        np.array([np.nan if turn.timestamp is None else turn.timestamp for turn in turns], float),
        np.array([turn.session for turn in turns], np.int64),
    )
