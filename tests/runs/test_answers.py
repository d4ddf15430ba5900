"""What a retriever may return, and what becomes of answers that are odd or wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from corpora import labelled, ranked

from harness.datasets.reader import Dataset
from harness.errors import RunError, UsageError
from harness.io.records import to_plain
from harness.records.run import QueryCounts, RunRecord
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Eight notes, told apart by their last word; the answer to `want 3` is note 3."""
    documents = [{"id": f"n{i}", "text": f"note number {i}"} for i in range(8)]
    queries = [{"id": f"q{i}", "text": f"want {i}"} for i in range(4)]
    return labelled(tmp_path / "files", documents, queries, {f"q{i}": [f"n{i}"] for i in range(4)})


class Returns:
    """Answers with what `make` makes of the handles and positions of the notes, in their order."""

    def __init__(self, make: Callable[[list[str], list[int]], Any]) -> None:
        self._make = make

    def index(self, corpus: Corpus) -> None:
        order = sorted(range(len(corpus)), key=lambda i: corpus[i].text)
        self._handles = [corpus.handles[i] for i in order]
        self._positions = order

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        return [self._make(self._handles, self._positions) for _ in queries]


def _record(folder: Path) -> RunRecord:
    return RunFolder(folder).record


def _errors(folder: Path) -> dict[str, str]:
    lines = (folder / "errors.jsonl").read_bytes().splitlines()
    return {line["query"]: line["error"] for line in map(orjson.loads, lines)}


@pytest.mark.parametrize(
    "make",
    [
        lambda h, p: h[:3],
        lambda h, p: tuple(h[:3]),
        lambda h, p: p[:3],
        lambda h, p: np.array(p[:3]),
        lambda h, p: np.array(p[:3], np.uint8),
        lambda h, p: [np.int32(i) for i in p[:3]],
        lambda h, p: (i for i in p[:3]),
        lambda h, p: [(h[0], 3), (h[1], 2.5), (h[2], np.float32(1))],
        lambda h, p: [[p[0], 3], [p[1], 2], [p[2], 1]],
        lambda h, p: {h[2]: 1.0, h[0]: 3.0, h[1]: 2.0},
        lambda h, p: Result(h[:3]),
        lambda h, p: Result(np.array(p[:3]), np.array([3, 2, 1], np.float32)),
        lambda h, p: Result([p[1], p[0], p[2]], [2, 3, 1], ranked_by="score"),
        lambda h, p: Result(h[:3], [0.1, 0.2, 0.9], ranked_by="order"),
        lambda h, p: Result(np.array(p[:3]), [float("inf"), 0, float("-inf")]),
    ],
)
def test_handles_positions_arrays_pairs_and_results_all_mean_the_same(
    notes: Dataset, tmp_path: Path, make: Callable[..., Any]
) -> None:
    folder = run(notes, Returns(make), Settings(k=3), out=tmp_path)
    assert ranked(folder) == {f"q{i}": ["n0", "n1", "n2"] for i in range(4)}
    assert _record(folder).queries == QueryCounts(asked=4, answered=4, failed=0, abstained=0)


@dataclass
class Page:
    """As LangChain's Document."""

    page_content: str
    metadata: dict[str, Any]
    id: str | None = None


@dataclass
class Node:
    """As LlamaIndex's NodeWithScore, and the node in it."""

    metadata: dict[str, Any]
    score: float | None = None

    @property
    def node(self) -> Node:
        return self

    def get_content(self) -> str:
        return "a text"


@pytest.mark.parametrize(
    "make",
    [
        lambda h, p: [Hit("a text", [i]) for i in h[:3]],
        lambda h, p: [{"text": "a text", "sources": [i]} for i in h[:3]],
        lambda h, p: [
            {"memory": "a text", "score": s, "metadata": {"source": i}}
            for s, i in zip((3, 2, 1), h, strict=False)
        ],
        lambda h, p: {
            "results": [{"id": "7f", "memory": "a", "metadata": {"handle": i}} for i in h[:3]]
        },
        lambda h, p: [{"id": i, "score": s} for s, i in zip((3, 2, 1), h[:3], strict=True)],
        lambda h, p: [Page("a text", {"source": i}) for i in h[:3]],
        lambda h, p: [Page("a text", {}, id=i) for i in h[:3]],
        lambda h, p: [
            (Page("a text", {"doc_id": i}), s) for s, i in zip((3, 2, 1), h, strict=False)
        ],
        lambda h, p: [Node({"handle": i}, 1 / (1 + n)) for n, i in enumerate(h[:3])],
        lambda h, p: [
            {"text": "note number 0"},
            {"content": "note number 1"},
            Page("note number 2", {}),
        ],
    ],
)
def test_what_memories_and_frameworks_return_are_hits_on_the_documents_they_name(
    notes: Dataset, tmp_path: Path, make: Callable[..., Any]
) -> None:
    folder = run(notes, Returns(make), Settings(k=3), out=tmp_path)
    assert ranked(folder) == {f"q{i}": ["n0", "n1", "n2"] for i in range(4)}
    assert _record(folder).hits.unknown_sources == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda h, p: np.array([*p[:3], -1, -1]),
        lambda h, p: Result(np.array([-1, *p[:3], -1]), np.array([0, 3, 2, 1, 0], np.float32)),
        lambda h, p: Result(np.array([*p[:3], -1, -1]), [3.0, 2.0, 1.0, -3.4e38, -3.4e38]),
    ],
)
def test_minus_one_in_an_array_is_padding_which_is_dropped_and_counted(
    notes: Dataset, tmp_path: Path, make: Callable[..., Any]
) -> None:
    folder = run(notes, Returns(make), Settings(k=3), out=tmp_path)
    assert ranked(folder) == {f"q{i}": ["n0", "n1", "n2"] for i in range(4)}
    counted = to_plain(_record(folder).notes)
    assert counted == {"padding": 2 * 4}


@pytest.mark.parametrize("answer", [None, [None]])
def test_no_answer_is_said_with_the_class_and_without_a_trace(
    notes: Dataset, tmp_path: Path, answer: Any
) -> None:
    class Forgot:
        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> Any:
            return answer

    with pytest.raises(RunError, match=r"first error: .*Forgot: search returned None"):
        run(notes, Forgot(), out=tmp_path)
    (errors,) = tmp_path.glob(".*/errors.jsonl")
    assert "Traceback" not in errors.read_text()


def test_an_object_that_is_no_retriever_is_refused_in_one_line(
    notes: Dataset, tmp_path: Path
) -> None:
    class Store:
        def search(self, queries: Sequence[Question], k: int) -> Any: ...

    with pytest.raises(UsageError, match=r"Store is no retriever: it lacks index; give one with"):
        run(notes, Store(), out=tmp_path)  # type: ignore[arg-type]


def test_what_is_mended_is_counted(notes: Dataset, tmp_path: Path) -> None:
    def notes_of(make: Callable[..., Any]) -> dict[str, Any]:
        folder = run(notes, Returns(make), Settings(k=3), out=tmp_path)
        assert ranked(folder)["q0"] == ["n0", "n1", "n2"]
        counted: dict[str, Any] = to_plain(_record(folder).notes)
        return counted

    assert notes_of(lambda h, p: h[:3]) == {}
    assert notes_of(lambda h, p: h) == {"documents_beyond_k": 4 * 5}
    assert notes_of(lambda h, p: [h[0], h[0], h[1], h[0], h[2]]) == {"duplicate_documents": 4 * 2}
    assert notes_of(lambda h, p: {h[2]: 1, h[1]: 2, h[0]: 3}) == {}
    # The best score of a repeated document counts, wherever it stands.
    twice = [(0, 1), (2, 2), (1, 3), (0, 4)]
    assert notes_of(
        lambda h, p: Result([h[i] for i, _ in twice], [s for _, s in twice], ranked_by="score")
    ) == {"duplicate_documents": 4}


@pytest.mark.parametrize(
    "make",
    [
        lambda h, p: [(h[0], 0.1), (h[1], 0.2), (h[2], 0.9)],
        lambda h, p: Result(np.array(p[:3]), np.array([1.0, 3.0, 2.0])),
        lambda h, p: [Hit("note", [one], score) for one, score in zip(h, (0.1, 0.2), strict=False)],
    ],
    ids=["pairs", "result", "hits"],
)
def test_scores_that_contradict_the_order_are_an_error_unless_one_is_declared(
    notes: Dataset, tmp_path: Path, make: Callable[..., Any]
) -> None:
    with pytest.raises(RunError, match=r"contradicts its scores: .* are these distances"):
        run(notes, Returns(make), Settings(k=3), out=tmp_path / "none")
    firsts = []
    for by in ("order", "score"):
        retriever = Returns(make)
        retriever.ranked_by = by  # type: ignore[attr-defined]
        firsts.append(ranked(run(notes, retriever, Settings(k=3), out=tmp_path / by))["q0"][0])
    assert firsts[0] == "n0" != firsts[1]
    retriever = Returns(make)
    retriever.ranked_by = "distance"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="must be 'order' or 'score', not 'distance'"):
        run(notes, retriever, Settings(k=3), out=tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()  # no query was asked
    result = Returns(lambda h, p: Result(h, ranked_by="distance"))
    with pytest.raises(RunError, match="Returns: ranked_by must be 'order' or 'score'"):
        run(notes, result, Settings(k=3), out=tmp_path / "wrong")


def test_scores_that_rise_by_rounding_alone_are_sorted(notes: Dataset, tmp_path: Path) -> None:
    single = np.float32(0.8)
    for low, high in ((0.8, 0.8 + 1e-12), (-0.8, -0.8 + 1e-12), (single, np.nextafter(single, 1))):
        make = Returns(lambda h, p, s=(low, high): [(h[3], 0.9), (h[1], s[0]), (h[2], s[1])])
        found = ranked(run(notes, make, Settings(k=3), out=tmp_path))
        assert found["q0"] == ["n3", "n2", "n1"]
    rise = Returns(lambda h, p: [(h[3], 0.9), (h[1], 0.8), (h[2], 0.80001)])
    with pytest.raises(RunError, match=r"0\.8 is above 0\.80001; are"):
        run(notes, rise, Settings(k=3), out=tmp_path)


def test_equal_scores_keep_the_order_of_the_answer(notes: Dataset, tmp_path: Path) -> None:
    make = Returns(lambda h, p: [(h[3], 1.0), (h[1], 1.0), (h[2], 1.0)])
    assert ranked(run(notes, make, Settings(k=3), out=tmp_path))["q0"] == ["n3", "n1", "n2"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["d8"], "'d8' is not a handle of this haystack; index(corpus) is called once per hay"),
        (["n1"], "'n1' is not a handle of this haystack; return document.id or a position"),
        (["a text"], "in the corpus, or Hit(text=...) for a text"),
        ([(0.5, "d0")], "returned the pair (0.5, 'd0'); a pair is (id, score), not (score, id)"),
        ([8], "position 8 is not in a haystack of 8 documents"),
        ([-1], "position -1 is not in a haystack of 8 documents"),
        (np.array([0, 9]), "position 9 is not in a haystack of 8 documents"),
        ([1.5], "search returned float instead of ids; return document.id, a position in the"),
        ([("d0", float("nan"))], "a score is NaN"),
        (Result(["d0"], [1.0, 2.0]), "1 ids, but scores of shape (2,)"),
        (Result([0], confidence=float("nan")), "the confidence is nan"),
        (Result([0], confidence="high"), "could not convert string to float"),  # type: ignore[arg-type]
        (None, "search returned None for a query; it must return a list of ids"),
        ("d0", "search returned str for a query; it must return a list of ids"),
        (7, "search returned int for a query; it must return a list of ids"),
    ],
)
def test_an_answer_that_cannot_be_costs_its_own_query_alone(
    notes: Dataset, tmp_path: Path, wrong: Any, said: str
) -> None:
    class Mostly:
        batch_size = 4

        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Any]:
            return [wrong if query.text == "want 2" else [0] for query in queries]

    folder = run(notes, Mostly(), Settings(k=3), out=tmp_path)
    assert list(_errors(folder)) == ["q2"]
    assert said in _errors(folder)["q2"]
    assert sorted(ranked(folder)) == ["q0", "q1", "q3"]
    assert _record(folder).queries.failed == 1
    table = RunFolder(folder).queries.to_pydict()
    assert table["query"] == ["q0", "q1", "q2", "q3"]
    assert table["failed"] == [False, False, True, False]


def test_a_query_has_no_id(notes: Dataset, tmp_path: Path) -> None:
    class Asks:
        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Any]:
            return [[query.id] for query in queries]

    with pytest.raises(RunError, match=r"a query has only .*, no \.id; ids "):
        run(notes, Asks(), out=tmp_path)


def test_too_few_answers_for_a_batch_are_an_error_not_a_shift(
    notes: Dataset, tmp_path: Path
) -> None:
    class Short:
        batch_size = 4

        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Any]:
            return [[0] for query in queries if query.text != "want 1"]

    folder = run(notes, Short(), out=tmp_path)
    assert list(_errors(folder)) == ["q1"]
    assert "search got 1 query and returned 0 results" in _errors(folder)["q1"]


def test_confidence_and_abstention_are_kept_and_nothing_is_an_answer(
    notes: Dataset, tmp_path: Path
) -> None:
    class Unsure:
        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Result]:
            known = {
                "want 0": Result([0, 1], confidence=0.9),
                "want 1": Result([], abstain=True),
                "want 2": Result([2], abstain=True, confidence=0.1),
                "want 3": Result([]),
            }
            return [known[query.text] for query in queries]

    folder = run(notes, Unsure(), out=tmp_path)
    table = RunFolder(folder).queries.to_pydict()
    assert table["query"] == ["q0", "q1", "q2", "q3"]
    assert table["returned"] == [2, 0, 1, 0]
    assert table["abstained"] == [False, True, True, False]
    assert table["confidence"] == [0.9, None, 0.1, None]
    assert all(seconds > 0 for seconds in table["seconds"])
    assert _record(folder).queries.abstained == 2


def test_answers_with_and_without_scores_are_kept_by_order_and_that_is_said(
    notes: Dataset, tmp_path: Path
) -> None:
    class Half:
        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Any]:
            scored = [(1, 5.0), (0, 4.0)]
            return [[1, 0] if query.text == "want 0" else scored for query in queries]

    folder = run(notes, Half(), out=tmp_path)
    assert "score" not in pq.read_schema(folder / "rankings.parquet").names
    assert _record(folder).notes.scores_dropped == 3
    assert len({tuple(ids) for ids in ranked(folder).values()}) == 1


def test_own_documents_are_left_out_before_k_is_counted(home: Path, tmp_path: Path) -> None:
    """As BEIR does for arguana: the harness asks for one more, so that k are left."""
    from harness.datasets.registry import open_dataset

    files = tmp_path / "arguana"
    (files / "qrels").mkdir(parents=True)
    lines = [orjson.dumps({"_id": f"a{i}", "title": "", "text": f"claim {i}"}) for i in range(6)]
    (files / "corpus.jsonl").write_bytes(b"\n".join(lines))
    (files / "queries.jsonl").write_bytes(b"\n".join(lines[:3]))
    qrels = "".join(f"a{i}\ta{i + 3}\t1\n" for i in range(3))
    (files / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    dataset = open_dataset("beir/arguana", source=files)

    asked = []

    def retrieve(text: str, k: int) -> list[str]:
        asked.append(k)
        own = int(text[-1])
        return [f"a{own}", *(f"a{i}" for i in range(6) if i != own)][:k]

    folder = run(dataset, retrieve, Settings(k=4), out=tmp_path)
    assert asked == [5, 5, 5]
    for query, ids in ranked(folder).items():
        assert len(ids) == 4
        assert query not in ids
    assert _record(folder).notes.self_excluded is True
    assert _record(folder).notes.documents_beyond_k == 0

    def without(text: str, k: int) -> list[str]:
        return [id_ for id_ in retrieve(text, k + 1) if id_[-1] != text[-1]][:k]

    folder = run(dataset, without, Settings(k=4), out=tmp_path)
    # It did not return more than it was asked for, though one is not kept.
    assert _record(folder).notes.documents_beyond_k == 0
    assert {len(ids) for ids in ranked(folder).values()} == {4}


@pytest.mark.parametrize("own", [0, -1, None, "4"])
def test_a_batch_size_that_cannot_be_is_refused(notes: Dataset, tmp_path: Path, own: Any) -> None:
    class Batched:
        batch_size = own

        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
            return [[0] for _ in queries]

    with pytest.raises(UsageError, match=f"batch size must be a whole number .* not {own!r}"):
        run(notes, Batched(), out=tmp_path)
