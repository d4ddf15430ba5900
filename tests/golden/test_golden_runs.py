"""Runs give the rankings and the scores that were frozen: behaviour survives renaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_runs
import pytest
from golden_runs import DATASETS, RUNS, differences

SHOWN = 10
LARGE = ("locomo", "scifact")
"""Datasets of which only BM25 is run by default."""


def _parameters() -> list[Any]:
    slow = pytest.mark.slow
    return [
        pytest.param(*run, marks=slow if run[0] in LARGE and run[1] != "bm25" else ())
        for run in RUNS
    ]


@pytest.mark.parametrize(("dataset", "retriever"), _parameters())
def test_a_run_gives_the_frozen_rankings_and_numbers(
    dataset: str, retriever: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shipped = not DATASETS[dataset][2]
    data = Path() if shipped else request.getfixturevalue("data")
    folder = golden_runs.make(dataset, retriever, data, tmp_path)
    frozen = golden_runs.frozen_numbers(dataset, retriever)
    lines = differences(frozen, golden_runs.numbers(folder))
    expected = golden_runs.frozen_digests(dataset, retriever)
    found = golden_runs.ranking_digests(folder, retriever)
    lines += [
        f"rankings, {name}: other bytes" for name in expected if found[name] != expected[name]
    ]
    if lines:
        first = "\n  ".join(lines[:SHOWN])
        pytest.fail(
            f"{dataset} with {retriever}: {len(lines)} of {len(frozen)} numbers and digests differ "
            f"from the frozen ones (see tests/golden/README.md); the first:\n  {first}"
        )


def test_changed_missing_and_new_numbers_are_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = golden_runs.frozen_numbers("sample", "bm25")
    key = "cells/memory/turn/all/recall@10/value"
    rest = {name: value for name, value in frozen.items() if name != key}
    assert differences(frozen, frozen) == []
    assert differences(frozen, frozen | {key: frozen[key] + 1e-13}) == []
    (changed,) = differences(frozen, frozen | {key: frozen[key] + 1e-11})
    assert changed.startswith(f"{key}: frozen 0.549")
    assert differences(frozen, rest) == [f"{key}: frozen {frozen[key]}, now None"]
    assert differences(rest, frozen) == [f"{key}: frozen None, now {frozen[key]}"]
    monkeypatch.setattr(golden_runs, "ADDED", ("recall@10/value",))
    assert differences(rest, frozen) == []
    assert differences(frozen, rest) != []


def test_keys_are_translated_by_whole_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"n": "count", "interval/n": "clusters", "chance": None, "unit": "level", "level": "x"}
    monkeypatch.setattr(golden_runs, "KEYS", names)
    assert golden_runs.now("cells/all/n") == "cells/all/count"
    assert golden_runs.now("cells/interval/n") == "cells/clusters"
    assert golden_runs.now("n/n/nn/unit") == "count/count/nn/level"
    assert golden_runs.now("cells/all/chance") == ""
