"""Tables in memory, of whatever library, wherever Python takes rankings, judgements and data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness import evaluate, open_dataset, read_rankings, score
from harness.errors import UsageError


def _pandas(columns: dict[str, list[Any]]) -> Any:
    # A row too many that is filtered out, which leaves an index of its own.
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: [values[0], *values] for name, values in columns.items()})
    return frame[frame.index > 0]


def _polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def _hugging_face(columns: dict[str, list[Any]]) -> Any:
    # A row too many that is left out, of which the table below still knows.
    datasets = pytest.importorskip("datasets")
    n = len(next(iter(columns.values())))
    rows = {name: [values[0], *values] for name, values in columns.items()}
    return datasets.Dataset.from_dict(rows).select(range(1, n + 1))


KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": _pandas,
    "polars": _polars,
    "datasets": _hugging_face,
    "pyarrow": pa.table,
}
RUN = {"q_id": ["q", "q", "r"], "docid": ["a", "b", "c"], "similarity": [1, 2, 3]}
QRELS = {"query-id": ["q", "q", "r"], "corpus-id": ["a", "b", "c"], "score": [1, 0, 2]}
DOCUMENTS = {"doc_id": [1, 2, 3], "contents": ["bread", "ferry", "oboe"], "n": [0.5, None, 1.0]}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> Callable[[dict[str, list[Any]]], Any]:
    return KINDS[request.param]


def test_a_table_is_a_run_and_judgements_as_a_dictionary_is(table: Callable[..., Any]) -> None:
    run = {"query_id": RUN["q_id"], "docid": RUN["docid"], "similarity": RUN["similarity"]}
    expected = evaluate(
        {"q": {"a": 1, "b": 0}, "r": {"c": 2}}, {"q": {"a": 1.0, "b": 2.0}, "r": {"c": 3.0}},
        "ndcg@10,mrr",
    )  # fmt: skip
    assert evaluate(table(QRELS), table(run), "ndcg@10,mrr").means == expected.means
    assert read_rankings(table(run)).document.to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_categories_are_ids_as_their_names_are(library: str) -> None:
    of = pytest.importorskip(library)
    values = ["q", "q", "r"]
    coded = (
        of.Categorical(values)
        if library == "pandas"
        else of.Series(values, dtype=of.Enum(["r", "q"]))
    )
    frame = of.DataFrame({"qid": coded, "docid": ["a", "b", "c"]})
    assert read_rankings(frame).query_ids == ["q", "r"]


def test_a_dataset_is_made_of_tables_and_found_again(table: Callable[..., Any], home: Path) -> None:
    source = {
        "documents": table(DOCUMENTS),
        "queries": table({"id": ["q1"], "question": ["which boat?"], "ability": ["temporal"]}),
        "qrels": table({"qid": ["q1", "q1"], "doc_id": [2, 3], "relevance": [1, 0]}),
    }
    dataset = open_dataset("labelled", source=source)
    assert [(d.id, d.text) for d in dataset.documents] == [
        ("1", "bread"), ("2", "ferry"), ("3", "oboe"),
    ]  # fmt: skip
    assert dataset.qrels().grade.tolist() == [1, 0]
    assert open_dataset("labelled", source=source).folder == dataset.folder
    run = table({"query_id": ["q1", "q1"], "doc_id": [2, 3], "rank": [1, 2]})
    assert score(dataset, run)["hit@1"] == 1.0
    inline = {**source, "queries": table({"id": ["q1"], "text": ["?"], "relevant": [["2"]]})}
    del inline["qrels"]
    assert open_dataset("labelled", source=inline).qrels().grade.tolist() == [1]


def test_what_is_wrong_with_a_table_is_said_by_its_name(
    table: Callable[..., Any], home: Path
) -> None:
    good = {"documents": table({"id": ["a"], "text": ["b"]}), "queries": table({"id": ["q"]})}
    for source, says in (
        (good, "source['queries'], record 1: no field 'text' (or query, question, query_text)"),
        ({"documents": good["documents"]}, "source: the table 'queries' is missing"),
        ({**good, "judgements": 1}, "source: 'judgements' is none of the tables documents, queri"),
        ({**good, "queries": 3}, "source['queries']: int is not a table; pass a data frame"),
        ({"documents": table({"id": ["a", "a"], "text": ["b", "c"]}),
          "queries": table({"id": ["q"], "text": ["?"], "relevant": ["a"]})},
         "source['documents'], record 2: the haystack and document id ('corpus', 'a') is "
         "already used on record 1"),
        ({**good, "queries": table({"id": ["q"], "text": ["?"]})}, "source: no qrels file"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as error:
            open_dataset("labelled", source=source)
        assert str(error.value).startswith(says)
    with pytest.raises(UsageError, match="only the dataset 'labelled' reads tables"):
        open_dataset("sample", source=good)
    with pytest.raises(UsageError, match=r"^the run, row 1: no score, the first of 1 without"):
        read_rankings(table({"qid": ["q", "q"], "docid": ["a", "b"], "score": [1.0, None]}))
    for column, values, says in (
        ("grade", [1.0, None], r"^the judgements, row 1: the grade is empty"),
        ("grad", [1, 0], "^the judgements: unknown field 'grad'; did you mean grade"),
    ):
        grades = table({"qid": ["q", "q"], "docid": ["a", "b"], column: values})
        with pytest.raises(UsageError, match=says):
            evaluate(grades, {"q": {"a": 1.0}}, "map")
