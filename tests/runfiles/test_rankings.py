"""Rankings in and out: what is read, what is refused and where it stands, what comes back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small import lists

from harness.errors import UsageError
from harness.runfiles.rankings import Rankings, best_first, without
from harness.runfiles.readers import read_rankings
from harness.runfiles.write import blocks, write_trec

GOOD = b"q1 Q0 d1 1 0.9 t\nq1 Q0 d2 2 0.8 t\n"
ZIPPED = gzip.compress(GOOD * 9000, mtime=0)
TRUNCATED = ": cannot be read (Truncated compressed"
JSON_FORM = 'expected {"query": id, "document": id, "score": number}'


def as_dict(rankings: Rankings) -> dict[str, list[tuple[str, float | None]]]:
    """query -> [(document, score)], in order."""
    documents = rankings.document.to_pylist()
    scores = [None] * len(rankings) if rankings.score is None else rankings.score.tolist()
    starts = rankings.starts
    return {
        q: list(zip(documents[a:b], scores[a:b], strict=True))
        for q, a, b in zip(rankings.query_ids, starts[:-1], starts[1:], strict=True)
    }


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.run", GOOD + b"q2 Q0 d1 1 nan t\n", ", line 3: the score is NaN"),
        ("a.run", b"\n" + GOOD + b"\nq2 Q0 d1 1 NaN t\n", ", line 5: the score is NaN"),
        ("a.run", GOOD + b"q2 Q0 d1 1 high t\n", ", line 3: the score 'high' is not a number"),
        ("a.run", GOOD + b"q2 Q0 d1 1 0,5 t\n", ", line 3: the score '0,5' is not a number"),
        ("a.run", GOOD + b"q2 Q0 d1 1 0.5\n", ", line 3: 5 fields where line 1 has 6"),
        ("a.run", b"q Q0 d 1 0.5\n" + GOOD, ", line 2: 6 fields where line 1 has 5"),
        ("a.run", b"q d 0.5\n", ", line 1: 3 fields, but a run file has `query Q0 document"),
        ("a.run", GOOD + b"q1 Q0 d\xff 3 0.7 t\n", ", line 3: not UTF-8"),
        ("a.run", GOOD + b"q\xff Q0 d 3 0.7 t\n", ", line 3: not UTF-8"),
        (
            "a.run",
            b"qid,docid,score\nq,d,1\n",
            "; a table with a header line is called .csv or .ts",
        ),
        ("a.run", b'{"q": {"d": 1, "e": 2, "f": 0.5}}', ", line 1: is JSON; call it .json, or .js"),
        ("a.run", b"", ": empty; a run file has lines `query Q0"),
        ("a.run", b" \n\n", ": empty; a run file has lines `query Q0"),
        # Named here, since a packed file holds the time of packing and its bytes would be the name.
        pytest.param("a.run.gz", ZIPPED[: len(ZIPPED) // 2], TRUNCATED, id="a.run.gz-half"),
        pytest.param("a.run.gz", ZIPPED[:9], TRUNCATED, id="a.run.gz-no-header"),
        ("a.run.gz", GOOD, ": cannot be read ("),
        ("a.jsonl", b"", ": empty; a run has lines"),
        ("a.jsonl", b'{"query":"q","document":"d"}\n{"query":"q"', ", line 2: not valid JSON"),
        (
            "a.jsonl",
            b'\n{"query":"q","dcument":"d"}',
            f", line 2: {JSON_FORM} (no field 'document'",
        ),
        ("a.jsonl", b'{"query":"q","doc":"d"}\nnull\n', ", line 2: null is not a record"),
        ("a.jsonl", b'{"document":"d"}', "(no field 'query' (or query_id, qid, question_id)"),
        ("a.jsonl", b'{"query":"q","pid":"d","doc_id":"e"}', "'pid' and 'doc_id' both mean docum"),
        ("a.jsonl", b'{"query":"q","doc":"d","scor":1}', "unknown field 'scor'; did you mean sco"),
        ("a.jsonl", b'{"query":"q","doc":"d","distance":1}', "of a distance less is better"),
        ("a.jsonl", b'{"query":"q","doc":"d","score":1,"score":2}', "line 1: 'score' occurs twice"),
        ("a.jsonl", b'{"query":"q","docs":["d"],"scores":[1],"scores":[2]}', "'scores' occurs tw"),
        ("a.jsonl", b'["q","d"]', "line 1: expected"),
        ("a.jsonl", b'{"query":1.0,"document":"d"}', "line 1: "),
        ("a.jsonl", b'{"query":"1","document":2.0}', "(ids must be text)"),
        ("a.jsonl", b'{"query":"1","document":true}', "(ids must be text)"),
        ("a.jsonl", b'{"query":"1","document":null}', "(ids must be text)"),
        ("a.jsonl", b'{"query":"1","documents":"abc"}', "(documents and scores must be lists)"),
        ("a.jsonl", b'{"query":"1","documents":["a"],"scores":[1,2]}', "(1 documents, 2 scores)"),
        ("a.jsonl", b'{"query":"1","document":"a","score":"1"}', "(scores must be numbers)"),
        ("a.jsonl", b'{"query":"1","document":"a","score":NaN}', "line 1: not valid JSON"),
        ("a.jsonl", b'{"query":"\xff","document":"a"}', "line 1: not valid JSON"),
        (
            "a.jsonl",
            b'{"query":"1","document":"a","score":1}\n{"query":"1","document":"b"}',
            ", line 2: no score, but line 1 has one; give all or none",
        ),
        pytest.param("a.jsonl.gz", ZIPPED[:50], TRUNCATED, id="a.jsonl.gz-beginning"),
        ("a.json", b"", ": empty; a run has lines"),
        ("a.json", b"[]", ": empty; a run has records"),
        ("a.json", b"7", "record 1: expected"),
        ("a.json", b'{"q": {"d": 1}, "r": {"d": "1"}}', ", query 'r': scores must be numbers"),
        ("a.json", b'{"q": {"d": 1}, "r": ["d"]}', ", query 'r': no scores, but query 'q' has the"),
        ("a.json", b'{"q": {"d": 1}, "q": {"e": 1}}', ": 'q' occurs twice in one object; keep one"),
        ("a.json", b'{"q": {"d": 1, "d": 2}}', ": 'd' occurs twice in one object; keep one"),
        ("a.json", b'{"q": [["d", 1]]}', ", query 'q': ids must be text"),
        ("a.json", b'[{"query":"q","doc":"d"}, 5]', ", record 2: expected"),
        ("a.json", b'[{"query":"q","doc":"d","score":1,"score":2}]', ": 'score' occurs twice in"),
        ("a.csv", b"", ", line 1: no field 'query'"),
        ("a.csv", b"q1,d1,0.5\n", ", line 1: no field 'query'"),
        ("a.csv", b"query,docment,score\nq,d,1\n", "; did you mean 'docment' for it?"),
        (
            "a.csv",
            b"qid,docid,score,score\nq,d,1,2\n",
            ", line 1: 'score' occurs 2 times; keep one",
        ),
        ("a.csv", b"qid,docid,score,sim\nq,d,1,2\n", "line 1: 'score' and 'sim' both mean score"),
        ("a.csv", b"qid,docid,SCOER\nq,d,1\n", "unknown field 'SCOER'; did you mean score?"),
        ("a.csv", b"qid,docid,score\nq,d,1\n\nq,e,high\n", ", line 4: the score 'high' is not a n"),
        ("a.csv", b"qid,docid,score\nq,d,1\nq,e,\n", ", line 3: no score, the first of 1 without"),
        ("a.csv", b"qid,docid,score\nq,d,1\n,e,2\n", ", line 3: no query, the first of 1 without"),
        ("a.csv", b"qid,docid,score\nq,d,1,5\n", ", line 2: 4 cells where the header has 3"),
        ("a.csv", b"qid;docid;score\nq;d;0,5\n", ", line 2: the score '0,5' is not a number"),
        ("a.csv", b"qid,docid,score\nq,d\xff,1\n", ", line 2: not UTF-8"),
        ("a.csv", b"qid,docid,score\nq,d,nan\n", "NaN, first for query 'q'"),
        ("a.csv", b"qid,docid,rank\nq,d,1\nq,e,1\n", ": the rank 1 occurs twice for query 'q'"),
        ("a.csv.gz", GOOD, ": cannot be read ("),
        ("a.tsv", b"query_id\tdoc_id\tscore\nq\td\thigh\n", ", line 2: the score 'high' is not"),
        ("a.parquet", b"", ": not a readable Parquet file"),
        ("a.parquet", b"PAR1" + GOOD, ": not a readable Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line_that_says_where(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_rankings(path)
    assert str(error.value).startswith(str(path))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"qid": ["a"]}, "no field 'document' (or doc, document_id, doc_id, "),
        ({"qid": ["a"], "docid": ["a"], "pid": ["b"]}, "'docid' and 'pid' both mean document"),
        ({"query": ["a", None], "document": ["x", "y"]}, "row 1: no query"),
        ({"query": ["a", "b"], "document": [None, "y"]}, "row 0: no document"),
        (
            {"query": ["a", "b"], "document": ["x", "y"], "score": [1.0, None]},
            "row 1: no score, the first of 1 without; give all scores or none",
        ),
        ({"query": ["a"], "document": ["x"], "score": ["high"]}, "row 0: the score 'high'"),
        ({"query": ["a"], "document": ["x"], "score": [True]}, "the column score holds bool"),
        ({"query": ["a"], "document": [1.0]}, "the column document holds double, not string"),
        ({"query": ["a"], "document": [["x"]]}, "the column document holds list"),
        ({"query": ["a"], "document": ["x"], "score": [np.nan]}, "NaN, first for query 'a'"),
    ],
)
def test_a_parquet_file_of_another_form_is_refused_in_one_line(
    tmp_path: Path, columns: dict[str, list[Any]], says: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UsageError) as error:
        read_rankings(tmp_path / "a.parquet")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "run",
    [
        {"q": ["d"]},
        {"q": "d"},
        {"q": {"d": "high"}},
        {"q": {1: 1.0}},
        {1: {"d": 1.0}},
        {"q": {"d": np.nan}},
    ],
    ids=str,
)
def test_a_dictionary_of_another_form_is_refused(run: Any) -> None:
    with pytest.raises(UsageError, match="the run"):
        read_rankings(run)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.run", tmp_path):
        with pytest.raises(UsageError, match="no such run file"):
            read_rankings(path)


def test_blanks_tabs_tags_and_odd_ids_are_read_as_trec_eval_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "odd.run"
    path.write_bytes(
        b'q1 Q0 "d,1" 1 1e-3 t\n  q1   Q0\td\xc3\xa9\t2  -.5 t with more \r\n\nq2 0 d\\n 1 inf t'
    )
    expected = {"q1": [('"d,1"', 0.001), ("dé", -0.5)], "q2": [("d\\n", np.inf)]}
    assert as_dict(read_rankings(path)) == expected


def test_lines_of_a_query_may_stand_apart(tmp_path: Path) -> None:
    path = tmp_path / "apart.run"
    path.write_text("b Q0 x 1 3 t\na Q0 x 1 9 t\nb Q0 y 2 4 t\na Q0 y 2 1 t\n")
    expected = {"b": [("x", 3.0), ("y", 4.0)], "a": [("x", 9.0), ("y", 1.0)]}
    assert as_dict(read_rankings(path)) == expected
    assert as_dict(best_first(read_rankings(path))) == expected | {"b": [("y", 4.0), ("x", 3.0)]}


RUN = {"q": {"a": 3.0, "b": 1.5}, "r": {"c": -2.0}}
ROWS = [("q", "a", 3.0), ("q", "b", 1.5), ("r", "c", -2.0)]
TABLE = "".join(f"{q},{d},{s}\n" for q, d, s in ROWS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(RUN)),
        ("a.json", json.dumps(RUN, indent=1)),
        ("a.json", json.dumps([{"qid": q, "docid": d, "similarity": s} for q, d, s in ROWS])),
        ("a.json", "".join(json.dumps({"qid": q, "pid": d, "sim": s}) + "\n" for q, d, s in ROWS)),
        ("a.jsonl", "".join(json.dumps({"query-id": q, "docno": d, "score": s, "text": "x"}) + "\n"
                            for q, d, s in ROWS)),
        ("a.ndjson", '{"qid": "q", "docs": ["a", "b"], "scores": [3, 1.5]}\n'
                     '{"query": "r", "passage_id": "c", "sim": -2}\n'),
        ("a.csv", "query_id,doc_id,score\n" + TABLE),
        ("a.csv", "query,qid,doc_id,doc,score\nwho?,q,a,x,3\nwho?,q,b,y,1.5\nwhat?,r,c,z,-2\n"),
        ("a.csv", "\ufeffScore;Query ID;text;Doc-ID\r\n3;q;;a\r\n1.5;q;\"x;y\";b\r\n\r\n-2;r;;c"),
        ("a.tsv", "query-id\tcorpus-id\tscore\n" + TABLE.replace(",", "\t")),
        ("a.tsv", "q\tQ0\ta\t1\t3\tt\nq\tQ0\tb\t2\t1.5\tt\nr\tQ0\tc\t1\t-2\tt\n"),
    ],
)  # fmt: skip
def test_a_run_is_read_in_every_form_that_people_have(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        assert as_dict(read_rankings(path)) == as_dict(read_rankings(RUN))


def test_whole_numbers_are_ids_in_every_form_that_has_types(tmp_path: Path) -> None:
    lines = '{"qid": 7, "docid": 12, "score": 1}\n{"qid": 7, "docid": 9, "score": 2}\n'
    (tmp_path / "a.jsonl").write_text(lines)
    pq.write_table(
        pa.table({"qid": [7, 7], "docid": [12, 9], "sim": [1, 2]}), tmp_path / "a.parquet"
    )
    for name in ("a.jsonl", "a.parquet"):
        assert as_dict(read_rankings(tmp_path / name)) == {"7": [("12", 1.0), ("9", 2.0)]}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_ranks_order_what_has_no_scores_and_say_nothing_where_there_are_some(
    tmp_path: Path, ending: str
) -> None:
    rows = [("q", "late", 10, 9.0), ("r", "x", 1, 1.0), ("q", "soon", 2, 1.0), ("q", "top", 1, 2.0)]
    columns = dict(
        zip(("query", "document", "rank", "score"), zip(*rows, strict=True), strict=True)
    )
    table = pa.table({name: list(values) for name, values in columns.items()})
    path = tmp_path / f"a.{ending}"
    for fields in (["query", "document", "rank"], ["query", "document", "rank", "score"]):
        part = table.select(fields)
        if ending == "parquet":
            pq.write_table(part, path)
        elif ending == "csv":
            lines = [",".join(map(str, row.values())) for row in part.to_pylist()]
            path.write_text("\n".join([",".join(fields), *lines]))
        else:
            lines = [json.dumps(row) for row in part.to_pylist()]
            path.write_text("\n".join(lines) if ending == "jsonl" else f"[{','.join(lines)}]")
        found = as_dict(best_first(read_rankings(path)))
        first = "late" if "score" in fields else "top"
        assert found["q"][0][0] == first
        assert len(found["q"]) == 3


def test_a_query_answered_with_nothing_is_kept_where_the_form_can_say_so(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"query":"q","documents":["b","a"]}\n{"query":"r","documents":[]}\n')
    assert as_dict(read_rankings(path)) == {"q": [("b", None), ("a", None)], "r": []}
    assert as_dict(read_rankings({"r": {}, "q": {"b": 1.0}})) == {"r": [], "q": [("b", 1.0)]}


def test_an_empty_parquet_file_is_a_run_that_returned_nothing(tmp_path: Path) -> None:
    types = pa.schema([("query", pa.string()), ("document", pa.string()), ("score", pa.float64())])
    pq.write_table(types.empty_table(), tmp_path / "a.parquet")
    assert as_dict(read_rankings(tmp_path / "a.parquet")) == {}


# -- out and in again -----------------------------------------------------------------------------

ids = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=12)
runs = st.dictionaries(
    ids.filter(lambda id_: not id_.startswith("#")),  # which would be a comment
    st.lists(st.tuples(ids, st.floats(allow_nan=False)), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)


def columns(run: dict[str, list[tuple[str, float]]], *, scored: bool) -> Rankings:
    made = lists({q: [d for d, _ in ranking] for q, ranking in run.items()})
    scores = np.array([s for ranking in run.values() for _, s in ranking])
    return Rankings(made.query_ids, made.query, made.document, scores if scored else None)


@given(runs, st.booleans())
@example({'{"0': [("d", 1.0)]}, True)
def test_what_is_written_as_trec_comes_back_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, list[tuple[str, float]]], scored: bool
) -> None:
    path = tmp_path_factory.mktemp("trec") / "a.run"
    rankings = columns(run, scored=scored)
    write_trec(blocks(rankings), path, "tag")
    found = read_rankings(path)
    if scored:
        assert as_dict(found) == as_dict(rankings)
    else:
        # Scores were made up so that every tool keeps the order.
        assert as_dict(best_first(found)) == as_dict(found)
        assert found.document.to_pylist() == rankings.document.to_pylist()
        assert found.query_ids == rankings.query_ids
        strict = {q: len({s for _, s in ranking}) for q, ranking in as_dict(found).items()}
        assert strict == {q: len(ranking) for q, ranking in run.items()}


numbers = st.floats(allow_nan=False) | st.sampled_from(
    [0.0, -0.0, 1.0, 35.0, 1e-4, 9.9e-5, 1e10, 9999999999.5, 1e15, 0.1 + 0.2]
)


@given(st.lists(st.lists(numbers, max_size=9), max_size=6), st.integers(1, 7))
def test_trec_lines_have_the_shortest_digits_wherever_blocks_are_cut(
    tmp_path_factory: pytest.TempPathFactory, scores: list[list[float]], rows: int
) -> None:
    run = {f"q{i}é": [(f'd"{j}', s) for j, s in enumerate(of)] for i, of in enumerate(scores)}
    path = tmp_path_factory.mktemp("trec") / "a.run"
    write_trec(blocks(columns(run, scored=True), rows), path, 'a"tag')
    texts = iter(pa.array([s for of in scores for s in of], pa.float64()).cast(pa.string()))
    assert path.read_text() == "".join(
        f'{query} Q0 {document} {rank} {next(texts)} a"tag\n'
        for query, ranking in run.items()
        for rank, (document, _) in enumerate(ranking, 1)
    )


@pytest.mark.parametrize("id_", ["a b", "a\tb", "a\nb", "", "\u00a0a", "a\u3000b", "a\u0085b"])
def test_an_id_that_the_trec_format_cannot_carry_is_refused(tmp_path: Path, id_: str) -> None:
    for run in ({"q": [id_]}, {id_: ["d"]}):
        with pytest.raises(UsageError, match="ids that are empty or hold white space"):
            write_trec(blocks(lists(run)), tmp_path / "a.run", "t")
    assert not (tmp_path / "a.run").exists()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xé", max_size=20)), max_size=60))
def test_duplicates_are_the_rows_that_a_set_has_seen_before(rows: list[tuple[str, str]]) -> None:
    rows.sort(key=lambda row: row[0])
    query = np.array(["abc".index(q) for q, _ in rows], np.int32)
    cut = len(rows) // 2  # in two chunks, as a file in blocks
    parts = [pa.array([d for _, d in part], pa.string()) for part in (rows[:cut], rows[cut:])]
    rankings = Rankings(list("abc"), query, pa.chunked_array(parts), None)
    seen: set[tuple[str, str]] = set()
    expected = [i for i, row in enumerate(rows) if row in seen or seen.add(row)]
    assert rankings.pairs.repeated().tolist() == expected
    left = without(rankings, rankings.pairs.repeated())
    assert len(left.pairs.repeated()) == 0
    assert len(left) == len(seen)


def test_duplicates_of_many_rows_are_all_found() -> None:
    rng = np.random.default_rng(0)
    documents = [f"document-{i}" for i in rng.integers(0, 3000, 60_000)]
    query = np.sort(rng.integers(0, 40, 60_000)).astype(np.int32)
    column = pa.chunked_array([pa.array(documents)])
    rankings = Rankings([str(i) for i in range(40)], query, column, None)
    pairs = list(zip(query.tolist(), documents, strict=True))
    assert len(rankings.pairs.repeated()) == len(pairs) - len(set(pairs))


def test_a_jsonl_file_says_what_a_dictionary_says(tmp_path: Path) -> None:
    run = {"q": {"a": 3.0, "b": 1.5}, "r": {"é": -2.0}}
    path = tmp_path / "a.jsonl.gz"
    lines = [
        orjson.dumps({"query": q, "documents": list(found), "scores": list(found.values())})
        for q, found in run.items()
    ]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    assert as_dict(read_rankings(path)) == as_dict(read_rankings(run))
