"""Two short conversations, as a memory is shown them: by session, dated, with speakers."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Documents
from harness.retrievers.contract import Corpus
from harness.schema import timestamp

ANN = [
    ("2023-05-08 13:56", "Ann", "I bought a cello yesterday. My teacher is strict."),
    ("2023-05-08 13:56", "Bob", "The bees need syrup before winter."),
    ("2023-06-02 09:10", "Ann", "My cat Pickle went deaf in spring."),
    ("2023-06-02 09:10", "Bob", "I sold the boat with the leaking hull."),
]
"""Two sessions of two turns."""

MIRA = [
    ("2024-01-03 18:00", "user", "My marathon is in March."),
    ("2024-01-03 18:00", "assistant", "Rest your Achilles on Sundays."),
]
"""One session with an assistant."""


def corpus(turns: list[tuple[str, str, str]]) -> Corpus:
    """The turns; those of one date are a session. Handles run backwards: d3, d2, d1, d0."""
    n = len(turns)
    dates, speakers, texts = zip(*turns, strict=True) if turns else ((), (), ())
    sessions = sorted(set(dates))
    none, numbers = pa.array([None] * n, pa.string()), pa.array([None] * n, pa.int64())
    table = pa.table(
        {
            "id": pa.array([f"t{i}" for i in range(n)], pa.string()),
            "text": pa.array(texts, pa.string()),
            "title": none,
            "timestamp": numbers,
            "session": none,
            "speaker": pa.array(speakers, pa.string()),
            "position": numbers,
        }
    )
    return Corpus(
        Documents(table),
        np.arange(n, dtype=np.int32),
        np.arange(n)[::-1].copy(),
        np.array([timestamp(datetime.fromisoformat(date)) for date in dates], float),
        np.array([sessions.index(date) for date in dates], np.int64),
    )
