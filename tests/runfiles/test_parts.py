"""Reading the rankings of a run folder in parts of whole queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.errors import UsageError
from harness.runfiles.rankings import Rankings, from_dict
from harness.runfiles.write import write_parquet
from harness.runs.folder.ranking_parts import rankings_by_part
from harness.runs.folder.rankings import read_run_rankings

SIZES = (3, 1, 700, 2, 40, 1, 1, 253)


def written(path: Path) -> Path:
    run = {f"q{q}": {f"q{q}-d{d}": 1 / (d + 1) for d in range(n)} for q, n in enumerate(SIZES)}
    write_parquet(from_dict(run), path)
    return path


def rows(rankings: Rankings) -> list[tuple[str, str, float]]:
    assert rankings.score is not None
    queries = np.array(rankings.query_ids)[rankings.query].tolist()
    columns = (queries, rankings.document.to_pylist(), rankings.score.tolist())
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("n", [1, 3, 64, 700, 5000])
def test_parts_have_whole_queries_and_all_rows_in_order(tmp_path: Path, n: int) -> None:
    path = written(tmp_path / "rankings.parquet")
    parts = list(rankings_by_part(path, n))
    assert len(parts) > 1 or n > 64
    queries = [query for part in parts for query in part.query_ids]
    assert queries == [f"q{number}" for number in range(len(SIZES))]
    assert [row for part in parts for row in rows(part)] == rows(read_run_rankings(path))


def test_queries_in_several_places_are_read_whole(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = written(tmp_path / "rankings.parquet")
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(2), table.slice(0, 2)]), path)
    (part,) = rankings_by_part(path, 10)
    assert len(part) == sum(SIZES)


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "rankings.parquet")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UsageError, match=r"rankings\.parquet"):
        list(rankings_by_part(path, 10))
