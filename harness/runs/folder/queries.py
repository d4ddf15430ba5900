"""What became of each query of a run, and how long the queries took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.records.run import Percentiles


def write_asked(
    folder: Path,
    ids: list[str],
    returned: list[int],
    *,
    seconds: Sequence[float | None] | None = None,
    confidence: Sequence[float | None] | None = None,
    abstained: Sequence[bool] | None = None,
    failed: Sequence[bool] | None = None,
) -> None:
    """Write queries.parquet, as a run of the harness leaves it; what nobody says is null, or
    false."""
    import pyarrow.parquet as pq

    n = len(ids)
    table = {
        "query": pa.array(ids, pa.string()),
        "seconds": pa.array(seconds or [None] * n, pa.float64()),
        "returned": pa.array(returned, pa.int32()),
        "confidence": pa.array(confidence or [None] * n, pa.float64()),
        "abstained": pa.array(abstained or [False] * n, pa.bool_()),
        "failed": pa.array(failed or [False] * n, pa.bool_()),
    }
    pq.write_table(pa.table(table), folder / "queries.parquet")


def percentiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> Percentiles | None:
    """Summarises durations; None for none."""
    if len(values) == 0:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return Percentiles(mean=float(values.mean()), p50=float(p50), p95=float(p95), p99=float(p99))
