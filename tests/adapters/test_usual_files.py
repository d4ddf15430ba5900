"""Eighty files and folders in the forms that people have: each is read, and as what it says."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runfiles.rankings import best_first
from harness.runfiles.readers import read_rankings
from harness.scoring.qrels import read_qrels

Rows = Sequence[Mapping[str, Any]]
Content = str | bytes | Rows

# -- Runs, whose rows are not in order ---------------------------------------------------------

RUN = [("q1", "d2"), ("q1", "d1"), ("q2", "d3")]
_RUN = [("q1", "d1", 2, 1.5), ("q2", "d3", 1, 7.0), ("q1", "d2", 1, 2.5)]


def _run(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Rows with the names of query, document and score or rank, and further fields."""
    found = []
    for query, document, rank, score in _RUN:
        order = {name: rank if name.lower() == "rank" else score for name in names[2:]}
        found.append({names[0]: query, names[1]: document, **order, **more})
    return found


def _lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _table(rows: Rows, delimiter: str = ",", end: str = "\n") -> str:
    lines = [rows[0], *(row.values() for row in rows)]
    return "".join(delimiter.join(map(str, line)) + end for line in lines)


def _parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def _trec(line: str) -> str:
    return "".join(line.format(q, d, r, s) + "\n" for q, d, r, s in _RUN)


_USUAL = _run("query", "document", "score")
_INDEXED = [{"": n, **row} for n, row in enumerate(_USUAL)]
_PYTERRIER = [
    {"qid": q, "docid": 40 + n, "docno": d, "rank": r - 1, "score": s, "query": "who?"}
    for n, (q, d, r, s) in enumerate(_RUN)
]
_HITS = {
    "q1": [{"docid": "d1", "rank": 2, "score": 1.5}, {"docid": "d2", "rank": 1, "score": 2.5}],
    "q2": [{"docid": "d3", "rank": 1, "score": 7.0}],
}


def _runs() -> Iterator[tuple[str, Content]]:
    for line in (
        "{} Q0 {} {} {} tag",
        "{}\tQ0\t{}\t{}\t{}\ttag",
        "{} Q0 {} {} {}",
        "{}  Q0   {}  {}  {}  a tag of words",
        "{} 0 {} {} {} tag\r",
    ):
        yield "run.trec", _trec(line)
    yield "run.txt", "# a comment\n" + _trec("{} Q0 {} {} {} tag")
    yield "run.trec.gz", gzip.compress(_trec("{} Q0 {} {} {} tag").encode())
    yield "run.tsv", _trec("{}\tQ0\t{}\t{}\t{}\ttag")
    for name in ("msmarco.tsv", "msmarco.txt", "msmarco"):
        yield name, _trec("{}\t{}\t{}")
    yield "msmarco.run", _trec("{} {} {}")
    yield "msmarco.tsv.gz", gzip.compress(_trec("{}\t{}\t{}").encode())
    yield "pyterrier.csv", _table(_PYTERRIER)
    yield "pyterrier.csv", _table([{"": n, **row} for n, row in enumerate(_PYTERRIER)])
    yield "pyterrier.parquet", _parquet(_PYTERRIER)
    yield "pandas.csv", _table(_INDEXED)
    yield "pandas.csv", _table([{"Unnamed: 0": n, **row} for n, row in enumerate(_INDEXED)])
    yield "pandas.csv", _table([{"": n, **r} for n, r in enumerate(_run("qid", "docno", "rank"))])
    yield "pandas.parquet", _parquet(_run("qid", "docno", "score", __index_level_0__=3))
    yield "pandas.parquet", _parquet(_run("qid", "docno", "rank", __index_level_0__=3))
    yield "run.csv", _table(_run("query_id", "doc_id", "score", comment="fine", lang="en"))
    yield "run.csv", _table(_run("Query ID", "Doc-ID", "Similarity"), ";")
    yield "run.csv", _table(_run("qid", "pid", "sim", text="a"), end="\r\n")
    yield "run.csv", "\ufeff" + _table(_run("query-id", "corpus-id", "score"))
    yield "run.tsv", _table(_run("query-id", "corpus-id", "score"), "\t")
    yield "run.tsv", _table(_run("query-id", "corpus-id", "score"), "\t", "\t\n")
    yield "run.tsv", _table(_USUAL, "\t", "\t\n").replace("\t\n", "\n", 1)
    yield "run.csv", _table(_run("question_id", "chunk_id", "rank", url="x"))
    yield "run.parquet", _parquet(_run("query", "document", "score", year=1999, source="x"))
    yield "run.parquet.gz", gzip.compress(_parquet(_USUAL))
    yield "run.jsonl", _lines(_run("qid", "docid", "score", text="a", meta={"page": 3}))
    yield "run.jsonl", _lines(_run("query-id", "passage_id", "rank", title=""))
    yield "run.jsonl.gz", gzip.compress(_lines(_USUAL).encode())
    yield "run.json", json.dumps(_run("query_id", "doc_id", "score", comment=None))
    yield "ranx.json", json.dumps({"q1": {"d1": 1.5, "d2": 2.5}, "q2": {"d3": 7}})
    yield "lists.json", json.dumps({"q1": ["d2", "d1"], "q2": ["d3"]})
    lists = [{"query": "q1", "docs": ["d1", "d2"], "scores": [1.5, 2.5]}]
    yield "lists.jsonl", _lines([*lists, {"query": "q2", "docs": ["d3"], "scores": [7]}])
    yield "pyserini.jsonl", _lines([{"qid": q, "hits": hits} for q, hits in _HITS.items()])
    yield "pyserini.json", json.dumps([{"query": q, "hits": hits} for q, hits in _HITS.items()])
    rank_gpt = [
        {"query": "who?", "hits": [{"content": "a", "qid": q, **hit} for hit in hits]}
        for q, hits in _HITS.items()
    ]
    yield "rank_gpt.json", json.dumps(rank_gpt)
    rank_llm = [
        {"query": {"text": "who?", "qid": q}, "candidates": [{**hit, "doc": {}} for hit in hits]}
        for q, hits in _HITS.items()
    ]
    yield "rank_llm.jsonl", _lines(rank_llm)


# -- Judgements --------------------------------------------------------------------------------

QRELS = {("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1)}
_QRELS = sorted(QRELS)


def _judged(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) | more for row in _QRELS]


def _judgements() -> Iterator[tuple[str, Content]]:
    usual = _judged("query-id", "corpus-id", "score")
    yield "qrels.txt", "".join(f"{q} 0 {d} {g}\n" for q, d, g in _QRELS)
    yield "qrels.trec", "".join(f"{q}\tQ0\t{d}\t{g}\t\n" for q, d, g in _QRELS)
    yield "test.tsv", _table(usual, "\t")
    yield "test.tsv", _table(usual, "\t", "\t\n")
    yield "test.tsv", _table(usual, "\t", "\t\n").replace("\t\n", "\n", 1)
    yield "test.tsv.gz", gzip.compress(_table(usual, "\t").encode())
    yield "qrels.csv", _table(_judged("qid", "docno", "label", iteration="0"))
    yield "qrels.csv", _table(_judged("query_id", "doc_id", "relevance", comment="sure"))
    yield "qrels.csv", _table([{"": n, **row} for n, row in enumerate(usual)])
    yield "qrels.jsonl", _lines(_judged("query", "document", "grade", annotator="a", seconds=3))
    yield "qrels.json", json.dumps({"q1": {"d1": 2, "d2": 0}, "q2": {"d3": 1}})
    yield "qrels.parquet", _parquet(_judged("query-id", "corpus-id", "score", subset="a"))
    indexed = _judged("qid", "docid", "rel", __index_level_0__=7)
    yield "qrels.parquet.gz", gzip.compress(_parquet(indexed))


# -- Folders -----------------------------------------------------------------------------------

DATASET = ([("d1", "Ferries leave at noon."), ("d2", "Bread rises.")], {("q1", "d1", 1)})
_CORPUS = [{"_id": id_, "title": "", "text": text} for id_, text in DATASET[0]]
_ASKED = [{"_id": "q1", "text": "when do ferries leave?"}]
_KEY = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
Folder = dict[str, Content]


def _beir(**files: Content) -> Folder:
    found: Folder = {"corpus": _CORPUS, "queries": _ASKED, "qrels/test": _KEY} | files
    endings = {"corpus": ".jsonl", "queries": ".jsonl"}
    return {name + endings.get(name, ".tsv"): content for name, content in found.items()}


def _both() -> Iterator[tuple[str, Folder]]:
    """Folders in BEIR's form, with what the hub's have besides."""
    for field in ({"query_type": "what"}, {"instruction": "find"}, {"lang": "en"}, {"title": ""},
                  {"date": "2020"}, {"time": "May 2020"}, {"relevance": "high"},
                  {"metadata": {}}, {"comment": None, "domain": "sea", "year": 3}):  # fmt: skip
        yield "test", _beir(queries=[_ASKED[0] | field])
    yield "test", _beir(corpus=[{**one, "lang": "en", "url": "x", "n": 3} for one in _CORPUS])
    yield "test", _beir(corpus=[{"_id": one["_id"], "text": one["text"]} for one in _CORPUS])
    yield "test", _beir(corpus=[{**one, "title": None} for one in _CORPUS])
    yield "test", _beir(corpus=[{**one, "date": "2020", "update": "x"} for one in _CORPUS])
    yield "test", _beir(corpus=[_CORPUS[0], _CORPUS[0], _CORPUS[1]])
    yield "test", _beir(corpus=[*_CORPUS, _CORPUS[0]])
    yield "test", _beir(**{"qrels/test": _KEY.replace("\n", "\t\n")})
    yield "test", _beir(**{"qrels/test": _KEY.replace("1\n", "1\t\n")})
    yield "test", _beir(**{"qrels/test": _KEY.replace("\n", "\r\n")})
    yield "test", _beir(**{"qrels/test": "q1\td1\t1\n"})
    yield "test", _beir(**{"qrels/test": _KEY + "q9\td1\t1\n"})
    yield "validation", {**_beir(), "qrels/validation.tsv": _KEY, "qrels/test.tsv": "q2\td2\t1\n"}


def _own() -> Iterator[tuple[str, Folder]]:
    """Folders in other forms."""
    xml = '<?xml version="1.0"?>\n<topics task="x">\n{}\n</topics>\n'
    topic = '<topic number="q1"{}>{}</topic>'
    text = "when do\nferries leave?"
    covid = f"\n<query>{text}</query>\n<question>Which hour?</question>\n<narrative>n</narrative>\n"
    web = (
        f"\n<query> {text} </query>\n<description>d</description>\n"
        '<subtopic number="1" type="nav">a page</subtopic>\n'
    )
    tagged = "<top>\n<num> Number: q1\n<title> when do ferries\nleave?\n<desc> d\n</top>\n"
    texts = (
        xml.format(topic.format("", covid)),
        xml.replace("topics", "webtrack2009").format(topic.format(' type="faceted"', web)),
        xml.format(topic.format("", f"<title>{text}</title><desc>d</desc>")),
        xml.format(topic.format("", text)),
        tagged,
        "q1\twhen do ferries leave?\n",
    )
    beside: Folder = {"docs.jsonl": _CORPUS, "qrels.txt": "q1 0 d1 1\n"}
    for number, content in enumerate(texts):
        yield "test", {f"topics.{'xml' if number < 4 else 'txt'}": content, **beside}
    tables: dict[str, Rows] = {
        "corpus": [{"doc_id": one["_id"], "text": one["text"]} for one in _CORPUS],
        "queries": [{"query_id": "q1", "query": _ASKED[0]["text"], "difficulty": "easy"}],
        "qrels": [{"query_id": "q1", "doc_id": "d1", "relevance": 1, "comment": "sure"}],
    }
    yield "test", {f"{name}.parquet": rows for name, rows in tables.items()}
    evidence = [{**one, "evidence": "as it says"} for one in tables["qrels"]]
    yield "test", {f"{n}.jsonl": rows for n, rows in (tables | {"qrels": evidence}).items()}
    yield "all", _beir() | {"qrels/README.md": "q2\td2\t1\n"}
    yield "dev", {**_beir(), "qrels/validation.tsv": _KEY, "qrels/test.tsv": "q2\td2\t1\n"}
    packed = {n: gzip.compress(_parquet(rows)) for n, rows in tables.items()}
    yield "test", {f"{name}.parquet.gz": rows for name, rows in packed.items()}
    for delimiter, ending in ((",", "csv"), ("\t", "tsv")):
        yield "test", {f"{n}.{ending}": _table(rows, delimiter) for n, rows in tables.items()}
    yield "test", {f"{n}.csv": _table([{"": 0, **r} for r in rows]) for n, rows in tables.items()}


# -- The test ----------------------------------------------------------------------------------

CASES: list[tuple[str, str, Any]] = [
    *(("run", name, content) for name, content in _runs()),
    *(("qrels", name, content) for name, content in _judgements()),
    *(("beir/fiqa", split, files) for split, files in _both()),
    *(("labelled", split, files) for split, files in (*_both(), *_own())),
]


def _write(path: Path, content: Content) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        content = _parquet(content) if path.suffix == ".parquet" else _lines(content).encode()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    CASES,
    ids=[f"{kind}-{name}-{n}" for n, (kind, name, _) in enumerate(CASES)],
)
def test_a_file_in_a_usual_form_is_read_as_what_it_says(
    kind: str, name: str, content: Any, tmp_path: Path, home: Path
) -> None:
    if kind == "run":
        run = best_first(read_rankings(_write(tmp_path / name, content)))
        queries = [run.query_ids[query] for query in run.query.tolist()]
        assert sorted(queries) == queries
        assert list(zip(queries, run.document.to_pylist(), strict=True)) == RUN
    elif kind == "qrels":
        found = read_qrels(_write(tmp_path / name, content))
        queries = [found.query_ids[query] for query in found.query.tolist()]
        judged = zip(queries, found.document.to_pylist(), found.grade.tolist(), strict=True)
        assert {*judged} == QRELS
    else:
        for file, data in content.items():
            _write(tmp_path / "mine" / file, data)
        split = "dev" if kind == "beir/fiqa" and name == "validation" else name
        dataset = open_dataset(kind, source=tmp_path / "mine", split=split)
        key = dataset.qrels()
        documents = [(one.id, one.text) for one in dataset.documents]
        judged = zip(
            key.query.tolist(), key.document_id.to_pylist(), key.grade.tolist(), strict=True
        )
        found = {(dataset.query_ids[query], document, grade) for query, document, grade in judged}
        assert (documents, found) == DATASET
        assert dataset.query(0).text == "when do ferries leave?"


def test_there_are_eighty_of_them() -> None:
    assert len(CASES) >= 80


@pytest.mark.parametrize(
    "name", ["bm25_score", "relevance", "cosine", "rrf", "logit", "prob", "l2"]
)
def test_numbers_that_nothing_reads_are_never_ignored_where_nothing_orders_the_rows(
    name: str, tmp_path: Path
) -> None:
    rows = _run("query", "document", name)
    lists = [{"query": "q1", "documents": ["d1", "d2"], name: [1.5, 2.5]}]
    files: dict[str, Content] = {
        "a.csv": _table(rows),
        "a.jsonl": _lines(rows),
        "b.jsonl": _lines([{**row, "n": "x"} if n else row for n, row in enumerate(rows)]),
        "c.jsonl": _lines(lists),
        "a.json": json.dumps(rows),
        "a.parquet": rows,
        "b.parquet": [{**row, name: str(row[name])} for row in rows],
    }
    for file, content in files.items():
        path = _write(tmp_path / file, content)
        with pytest.raises(UsageError, match=f"{name}' holds numbers") as error:
            read_rankings(path)
        if name == "l2":
            assert "of a distance less is better" in str(error.value)
            continue
        assert f"--score-column {name}" in str(error.value)
        found = best_first(read_rankings(path, score_column=name))
        assert found.document.to_pylist()[:2] == ["d2", "d1"]
    graded = tmp_path / "gain.csv"
    graded.write_text("query,document,gain\nq1,d1,0\n")
    with pytest.raises(UsageError, match="'gain' holds numbers, and there is no grade"):
        read_qrels(graded)


def _hits(*hits: Mapping[str, Any]) -> str:
    return _lines([{"query": "q1", "hits": hits}])


HIDDEN: list[tuple[str, Content]] = [
    ("comma.csv", "query;document;bm25\nq1;d2;1,5\nq1;d1;3,5\n"),
    ("blank.csv", "query,document,bm25\nq1,d2, 1.5\nq1,d1, 3.5\n"),
    ("missing.csv", "query,document,bm25\nq1,d2,NA\nq1,d1,3.5\n"),
    ("mixed.csv", "query,document,bm25\nq1,d2,1.5\nq1,d1,3.5\nq1,d3,n.d.\n"),
    ("text.jsonl", _lines(_run("query", "document", bm25="1.5"))),
    ("hits.jsonl", _hits({"docid": "d2", "bm25": 1.5}, {"docid": "d1", "bm25": 3.5})),
    ("null.jsonl", _hits({"docid": "d2", "score": None, "bm25": 1.5})),
    ("null.csv", "query,document,score,bm25\nq1,d2,,1.5\nq1,d1,,3.5\n"),
    ("null.jsonl", _lines(_run("query", "document", score=None, bm25=1.5))),
    ("null.json", json.dumps(_run("query", "document", rank=None, bm25=1.5))),
    ("null.parquet", _parquet(_run("query", "document", score=None, bm25=1.5))),
]


@pytest.mark.parametrize(
    ("name", "content"), HIDDEN, ids=[f"{n}-{one[0]}" for n, one in enumerate(HIDDEN)]
)
def test_numbers_that_nothing_reads_are_found_however_they_are_written(
    name: str, content: Content, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="'bm25' holds numbers, and there is no score or rank"):
        read_rankings(_write(tmp_path / name, content))


def test_numbers_in_a_column_of_categories_are_numbers(tmp_path: Path) -> None:
    table = pa.table({"query": ["q", "q"], "document": ["a", "b"], "bm25": ["1.5", "3.5"]})
    coded = table.set_column(2, "bm25", table["bm25"].dictionary_encode())
    pq.write_table(coded, tmp_path / "run.parquet")
    with pytest.raises(UsageError, match="'bm25' holds numbers"):
        read_rankings(tmp_path / "run.parquet")


def test_texts_of_which_few_are_numbers_are_not_read(tmp_path: Path) -> None:
    rows = [{"query": "q", "document": d, "title": d} for d in ("1984", "Emma", "Ulysses")]
    for name, content in (("a.csv", _table(rows)), ("a.json", json.dumps(rows))):
        found = read_rankings(_write(tmp_path / name, content))
        assert found.document.to_pylist() == ["1984", "Emma", "Ulysses"]


def test_hits_stand_in_the_order_of_their_ranks_or_scores(tmp_path: Path) -> None:
    path = tmp_path / "hits.jsonl"
    for hits in (
        ({"docid": "d2", "rank": 2}, {"docid": "d1", "rank": 1}),
        ({"docid": "d2", "sim": 1.5}, {"docid": "d1", "sim": 3.5}),
        ({"docid": "d2", "score": None, "rank": 2}, {"docid": "d1", "score": None, "rank": 1}),
    ):
        path.write_text(_hits(*hits))
        assert best_first(read_rankings(path)).document.to_pylist() == ["d1", "d2"]
    for ranks in ((1, 1), (1, None), (1, "2")):
        path.write_text(_hits(*({"docid": f"d{n}", "rank": r} for n, r in enumerate(ranks))))
        with pytest.raises(UsageError, match="the ranks of hits must be numbers, each once"):
            read_rankings(path)
    path.write_text(_hits({"docid": "d1", "distance": 1.5}))
    with pytest.raises(UsageError, match="of a distance less is better"):
        read_rankings(path)
    with pytest.raises(UsageError, match="--score-column is not for hits"):
        read_rankings(path, score_column="bm25")


def test_three_columns_are_ranks_only_where_each_query_has_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    path.write_text("# mine\n\nq1  d2 1\nq1\td1  0\n'q2 \"d1 1\n")
    assert read_rankings(path).document.to_pylist() == ["d1", "d2", '"d1']
    for numbers in ((30, 20, 10), (3, 2, 0), (1, 1, 2), (2, 3, 4), (0, 1.5, 2)):
        path.write_text("".join(f"q1\td{n}\t{number}\n" for n, number in enumerate(numbers)))
        with pytest.raises(UsageError, match="third column is no rank, as query 'q1' has not 1, 2"):
            read_rankings(path)
    path.write_text("q1\td1\t1\nq1\td2\t2\textra\n")
    with pytest.raises(UsageError, match="line 2: 4 fields where line 1 has 3"):
        read_rankings(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_a_column_that_is_not_there_is_named_as_it_was_asked_for(name: str, tmp_path: Path) -> None:
    content: Content = _table(_USUAL, "\t" if name == "a.tsv" else ",") if "sv" in name else _USUAL
    path = _write(tmp_path / name, content)
    with pytest.raises(UsageError, match="no field 'bm52'; it has query, document, score"):
        read_rankings(path, score_column="bm52")
    if name == "a.tsv":
        path.write_text("qury\tdocument\tbm25\nq\td1\t3\n")
        with pytest.raises(UsageError, match=r"line 1: no field 'query' .* did you mean 'qury'"):
            read_rankings(path, score_column="bm25")


def test_a_tab_is_taken_only_from_lines_with_a_cell_too_many(tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    path.write_text("query\tdocument\tscore\tnote\nq\td1\t1\t\nq\td2\t2\tx\t\n")
    assert read_rankings(path).document.to_pylist() == ["d1", "d2"]


def test_dates_are_times_where_they_can_be_read(tmp_path: Path, home: Path) -> None:
    corpus = [
        {**one, "date": said} for one, said in zip(_CORPUS, ("2024-03-01", "May"), strict=True)
    ]
    for name, content in _beir(corpus=corpus).items():
        _write(tmp_path / name, content)
    dataset = open_dataset("labelled", source=tmp_path)
    assert [one.timestamp for one in dataset.documents] == [1709251200, None]
    assert any("date (where it is not ISO 8601)" in str(one) for one in dataset.manifest.repairs)
    corpus[1] = {**_CORPUS[1], "timestamp": "May"}
    _write(tmp_path / "corpus.jsonl", corpus)
    with pytest.raises(UsageError, match="the timestamp 'May' is neither ISO 8601"):
        open_dataset("labelled", source=tmp_path)


def test_joined_lines_of_json_are_refused_as_joined(tmp_path: Path, home: Path) -> None:
    joined = "\ufeff".join(_lines([one]) for one in _CORPUS)
    for name, content in (_beir() | {"corpus.jsonl": joined}).items():
        _write(tmp_path / name, content)
    with pytest.raises(UsageError, match=r"jsonl:2: the line begins with a byte-order"):
        open_dataset("labelled", source=tmp_path)
    path = _write(tmp_path / "run.jsonl", "\ufeff".join(_lines([one]) for one in _USUAL))
    with pytest.raises(UsageError, match="line 2: the line begins with a byte-order mark"):
        read_rankings(path)


def test_the_time_that_judged_queries_take_grows_as_their_number(
    tmp_path: Path, home: Path
) -> None:
    n = 10_000
    content = {
        "corpus.tsv": "d1\tFerries leave at noon.\n",
        "queries.tsv": "".join(f"q{i}\twhen?\n" for i in range(n)),
        "qrels/test.tsv": "".join(f"q{i}\td1\t1\n" for i in range(n)),
    }
    for name, of in content.items():
        _write(tmp_path / name, of)
    began = time.process_time()
    assert open_dataset("labelled", source=tmp_path).n_queries == n
    assert time.process_time() - began < 4  # with a set made for each query: 14 s
