"""`harness explain`: a signature taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from output import protocols


@pytest.mark.slow
def test_every_signature_that_is_written_is_explained(harness: Callable[..., Any]) -> None:
    said = harness("run", "--dataset", "sample", "--retriever", "bm25", "--json")
    scores = orjson.loads(said.out)["scores"]
    signatures = {
        metric: cell.signature
        for block in protocols(scores)
        for part in block.slices.values()
        for metric, cell in part.metrics.items()
    }
    assert len(signatures) > 30
    for metric, signature in signatures.items():
        told = harness("explain", signature)
        assert told.status == 0
        assert told.out.startswith(f"metric    {metric}\n")
    told = harness("explain", signatures["recall@10"], "--json")
    parts = orjson.loads(told.out)
    assert parts["metric"] == "recall@10"
    assert parts["data"].startswith("sample#")
    assert parts["formula"]


@pytest.mark.parametrize(
    "text",
    ["", "recall@10", "recall@10|protocol:memory/1", "nonsense|", "recal@10|" + "x:1|" * 11],
)
def test_what_is_no_signature_is_said_in_one_line(harness: Callable[..., Any], text: str) -> None:
    told = harness("explain", text)
    assert told.status == 2
    assert told.err.startswith("harness: not a signature: ")
    assert told.err.count("\n") == 1
