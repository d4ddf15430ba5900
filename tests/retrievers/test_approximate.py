"""Approximate search by faiss: the best first, the same again, and what it leaves out is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from counting import Counting

from harness.cli.run_summary_lines import notes
from harness.errors import UsageError
from harness.extensions.dense import ann
from harness.extensions.dense.ann import Approximate
from harness.extensions.dense.embedder import VectorOptions, VectorRetriever
from harness.extensions.dense.exact_search import Vectors, nearest
from harness.records.run import DatasetRef, QueryCounts, RetrieverRecord, RunRecord, RunSettings

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((20, 16), np.float32)
DOCUMENTS = CENTRES[RNG.integers(0, 20, 3000)] + RNG.standard_normal((3000, 16), np.float32)
QUESTIONS = CENTRES[RNG.integers(0, 20, 150)] + RNG.standard_normal((150, 16), np.float32)


def pieces() -> Iterator[tuple[int, Vectors]]:
    """The documents, 700 at a time."""
    return ((start, DOCUMENTS[start : start + 700]) for start in range(0, 3000, 700))


def searched(kind: str, probe: str) -> tuple[Approximate, list[list[int]]]:
    made = Approximate(kind, probe)
    made.index(pieces, len(DOCUMENTS), 16)
    return made, [result.ids.tolist() for result in made.search(QUESTIONS, 10)]


def test_the_result_says_what_it_left_out_over_all_processes() -> None:
    reported = {"texts_asked": 9, "search": "HNSW32 efSearch=64", "build_seconds": 1.5}
    checked = [
        reported | {"checked_questions": n, "recall_of_exact": r} for n, r in ((50, 1), (150, 0.8))
    ]
    record = RunRecord(
        run_version=1,
        finished="",
        dataset=DatasetRef(
            name="d", granularity="turn", text="official", split="test", fingerprint="f"
        ),
        retriever=RetrieverRecord(name="dense"),
        settings=RunSettings(k=10),
        queries=QueryCounts(asked=1, answered=1, failed=0, abstained=0),
        reported=[*checked, {"texts_asked": 3}],
    )
    assert notes(record) == [
        "HNSW32 efSearch=64 found 85.0% of the documents of exact search (first 200 questions); "
        "built in 3.0 s"
    ]


@pytest.mark.dense
@pytest.mark.parametrize(("kind", "probe"), [("HNSW8", "efSearch=32"), ("IVF32,Flat", "nprobe=2")])
def test_its_recall_of_exact_search_is_counted_over_the_first_questions(
    kind: str, probe: str
) -> None:
    made, found = searched(kind, probe)
    exact = [result.ids.tolist() for result in nearest(QUESTIONS, pieces(), 10)]
    recalls = [len({*a} & {*b}) / 10 for a, b in zip(found[:100], exact, strict=False)]
    report = made.report()
    assert report["recall_of_exact"] == pytest.approx(np.mean(recalls))
    assert 0.5 < report["recall_of_exact"] < 1
    assert report["checked_questions"] == 100
    assert report["search"] == f"{kind} {probe}"
    assert report["build_seconds"] > 0
    assert searched(kind, probe)[1] == found


@pytest.mark.dense
def test_an_index_that_leaves_nothing_out_answers_as_exact_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ann, "_TRAINED_ON", 1000)
    for kind, probe in (("Flat", ""), ("IVF8,Flat", "nprobe=8")):
        made, found = searched(kind, probe)
        assert found == [result.ids.tolist() for result in nearest(QUESTIONS, pieces(), 10)]
        assert made.report()["recall_of_exact"] == 1


@pytest.mark.dense
def test_questions_of_one_corpus_are_checked_before_the_next_one_comes() -> None:
    made, _ = searched("Flat", "")
    made.index(lambda: iter([(0, -DOCUMENTS[:50])]), 50, 16)
    assert made.report()["recall_of_exact"] == 1
    assert len(made.search(QUESTIONS[:1], 100)[0].ids) == 50
    made.index(lambda: iter([]), 0, 16)
    assert [len(found.ids) for found in made.search(QUESTIONS[:2], 5)] == [0, 0]


@pytest.mark.dense
@pytest.mark.parametrize(
    ("kind", "probe"), [("HNSV32", ""), ("IVF4096,Flat", ""), ("HNSW8", "probes=3")]
)
def test_what_faiss_refuses_is_said_in_one_line(kind: str, probe: str) -> None:
    with pytest.raises(UsageError, match="search=exact") as caught:
        searched(kind, probe)
    assert kind in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_probe_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no effect with search=exact"):
        VectorRetriever(Counting(tmp_path / "log"), VectorOptions(probe="nprobe=3"))
