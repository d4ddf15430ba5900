"""Rankings laid beside a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import lists, one_corpus, prepared

from harness.datasets import reader
from harness.datasets.writer import DatasetWriter
from harness.runfiles.readers import read_rankings
from harness.scoring.resolve import canonicalize, in_haystack, places, resolve


def two_haystacks(out: DatasetWriter) -> None:
    """The same ids in two haystacks, as every LoCoMo conversation has its D1:1."""
    first = [out.document(id_, f"first {id_}") for id_ in ("t1", "t2", "t3")]
    second = [out.document(id_, f"second {id_}") for id_ in ("t2", "t1")]
    out.haystack("first", first[::-1])
    out.haystack("second", second)
    for name, haystack in (("q1", "first"), ("q2", "second"), ("q3", "first")):
        out.query(name, "?", haystack)


def test_an_id_is_looked_up_in_the_haystack_of_its_query(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "data", two_haystacks)
    found = resolve(lists({"q1": ["t1", "t2"], "q2": ["t1", "t2", "t3"], "q3": ["t3"]}), dataset)
    assert found.query.tolist() == [0, 0, 1, 1, 1, 2]
    assert found.row.tolist() == [0, 1, 4, 3, -1, 2]
    assert found.rank.tolist() == [1, 2, 1, 2, 3, 1]
    assert found.unknown_documents == 1


def test_queries_may_come_in_any_order_and_unknown_ones_are_named(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "data", two_haystacks)
    found = resolve(
        lists({"q3": ["t2", "x"], "?": ["t1"], "q1": ["t3"], "!": [], "q2": ["t2"]}), dataset
    )
    assert found.query.tolist() == [0, 1, 2, 2]
    assert found.row.tolist() == [2, 3, 1, -1]
    assert found.rank.tolist() == [1, 1, 1, 2]
    assert found.unknown_queries == ["?", "!"]
    # A document of a query that nobody knows is not an unknown document.
    assert found.unknown_documents == 1


@pytest.mark.parametrize("run", [{}, {"q1": []}, {"?": ["t1"]}])
def test_nothing_returned_is_nothing_found(tmp_path: Path, run: dict[str, list[str]]) -> None:
    found = resolve(lists(run), prepared(tmp_path / "data", two_haystacks))
    assert (len(found.query), len(found.row), len(found.rank)) == (0, 0, 0)
    assert found.unknown_queries == [q for q in run if q == "?"]


@pytest.mark.parametrize("form", ["d{}", "{}"])
def test_random_runs_resolve_as_a_dictionary_does(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(2)
    documents = [form.format(i) for i in rng.permutation(50)]
    queries = [f"q{i}" for i in range(20)]
    dataset = one_corpus(tmp_path / "data", documents, {q: {} for q in queries})
    names = [*documents, "x", "07", "+7", " 7", "", "50", "-1", "\u0667", "7" * 30]
    run = {
        str(q): [str(d) for d in rng.choice(names, rng.integers(0, 30), False)]
        for q in rng.permutation([*queries, "other"])
    }
    found = resolve(lists(run), dataset)
    row_of = {id_: row for row, id_ in enumerate(documents)}
    expected = [
        (i, row_of.get(d, -1), rank)
        for i, q in enumerate(queries)
        for rank, d in enumerate(run[q], 1)
    ]
    assert list(zip(found.query, found.row, found.rank, strict=True)) == expected


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("at_once", [1, 5, 1 << 20])
def test_haystacks_that_share_documents_are_searched_as_a_dictionary_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, whole: bool
) -> None:
    monkeypatch.setattr(reader, "_MEMBERS", at_once)
    rng = np.random.default_rng(3)
    # Two ids are of two documents each, unless a haystack has all documents.
    ids = [*(f"d{i}" for i in range(12)), *(("d12", "d13") if whole else ("d0", "d1"))]
    held = {f"h{i}": rng.permutation(12)[: rng.integers(1, 9)] + 2 for i in range(6)}
    held |= {"none": np.zeros(0, int), "twice": np.array([3, 3, 0])}
    held |= {"all": np.arange(len(ids))} if whole else {}

    def fill(out: DatasetWriter) -> None:
        for at, id_ in enumerate(ids):
            out.document(id_, f"{at}")
        for name, rows in held.items():
            out.haystack(name, None if name == "all" else rows.tolist())
        for i in range(20):
            out.query(f"q{i}", "?", [*held][i % len(held)])

    dataset = prepared(tmp_path / "data", fill)
    run = {f"q{i}": [str(d) for d in rng.permutation([*ids[:12], "x"])] for i in range(19, -1, -1)}
    row_of = {name: {ids[row]: row for row in rows} for name, rows in held.items()}
    of_query = [row_of[[*held][i % len(held)]] for i in range(20)]
    found = resolve(lists(run), dataset)
    assert found.row.tolist() == [of_query[i].get(d, -1) for i in range(20) for d in run[f"q{i}"]]
    query, document = (part.ravel() for part in np.indices((20, len(ids) + 1), np.int32))
    expected = [row - 1 in of_query[i].values() for i, row in zip(query, document, strict=True)]
    assert in_haystack(dataset, query, document - 1).tolist() == expected


@given(
    st.lists(
        st.sampled_from(
            ["0", "7", "07", "00", "+7", "", "x7", "\u0667", "123456789", "2147483648"]
            + [str(i) for i in range(20)]
        )
    ),
    st.sets(st.integers(0, 60).map(str) | st.sampled_from(["07", "", "x", "999999999", "9" * 40])),
)
def test_ids_that_are_numbers_are_found_as_texts_are(ids: list[str], names: set[str]) -> None:
    held = sorted(names)
    expected = [held.index(id_) if id_ in names else -1 for id_ in ids]
    found = places(pa.chunked_array([ids], pa.string()), pa.array(held, pa.string()))
    assert found.tolist() == expected


def test_before_scoring_each_document_stands_once_and_best_first(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", ["a", "b", "q"], {"q": {"a": 1}})
    (tmp_path / "run").write_text(
        "q Q0 a 1 0.5 t\nq Q0 q 1 0.75 t\nq Q0 a 1 0.9 t\nq Q0 b 1 0.6 t\n"
    )
    rankings, again = canonicalize(read_rankings(tmp_path / "run"), dataset)
    assert rankings.document.to_pylist() == ["a", "q", "b"]
    assert again == 1
    own = one_corpus(tmp_path / "own", ["a", "b", "q"], {"q": {"a": 1}}, exclude_self=True)
    rankings, again = canonicalize(read_rankings(tmp_path / "run"), own)
    assert rankings.document.to_pylist() == ["a", "b"]
    assert again == 1
