"""Writes the values of the golden runs: `PYTHONPATH=tests python tests/golden/freeze.py`.

Run once, at the commit whose behaviour is kept. README.md says when to run it again.
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

import golden_runs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from places import DATA


def _frozen_names() -> dict[str, str]:
    """Key today -> frozen key, of what is frozen already: a key keeps its first name."""
    tables = golden_runs.FROZEN.glob("*.parquet")
    frozen = [key for path in tables for key in pq.read_table(path)["key"].to_pylist()]
    return {golden_runs.now(key): key for key in frozen}


def main() -> None:
    """Makes every golden run, and writes a table of numbers a dataset and the rankings' digests."""
    golden_runs.FROZEN.mkdir(exist_ok=True)
    digests: dict[str, dict[str, str]] = {}
    names = _frozen_names()
    for dataset in golden_runs.DATASETS:
        columns: dict[str, dict[str, float]] = {}
        for name, retriever in golden_runs.RUNS:
            if name == dataset:
                with tempfile.TemporaryDirectory() as out:
                    folder = golden_runs.make(dataset, retriever, DATA, Path(out))
                    found = golden_runs.numbers(folder)
                    columns[retriever] = {names.get(key, key): n for key, n in found.items()}
                    run = f"{dataset}/{retriever}"
                    digests[run] = golden_runs.ranking_digests(folder, retriever)
        keys = sorted(set().union(*columns.values()))
        table = {name: [values.get(key) for key in keys] for name, values in columns.items()}
        pq.write_table(
            pa.table({"key": keys, **table}),
            golden_runs.FROZEN / f"{dataset}.parquet",
            compression="zstd",
            compression_level=19,
            use_dictionary=list(columns),
            column_encoding={"key": "DELTA_BYTE_ARRAY"},
            write_statistics=False,
        )
        print(f"{dataset}: {len(columns)} runs, {len(keys):,} keys")
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    record = {"versions": versions, "rankings": digests}
    (golden_runs.FROZEN / "rankings.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
