"""Damaged files of every form: each is read, or refused in one line; none says something else."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forms import Form, forms, silently_other, try_form

from harness.__main__ import main
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runfiles import raw
from harness.runfiles.readers import read_rankings
from harness.scoring.evaluate import evaluate
from harness.scoring.qrels import read_qrels

_FORMS = {form.name: form for form in forms()}
_SCORED = {name for name in _FORMS if name.startswith(("score", "published"))}


@pytest.fixture(params=sorted(_FORMS.keys() - _SCORED))
def form(request: pytest.FixtureRequest) -> Form:
    return _FORMS[request.param]


def test_a_damaged_file_is_read_or_refused_in_one_line(form: Form) -> None:
    found = try_form(form, 12, seed=17)
    assert (found.tried, found.broken) == (12, [])


def test_what_is_nearly_right_is_refused_or_read_as_the_same(form: Form) -> None:
    assert silently_other(form, seed=17) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_SCORED))
def test_a_damaged_file_to_score_is_read_or_refused(name: str) -> None:
    found = try_form(_FORMS[name], 12, seed=1)
    assert (found.tried, found.broken + silently_other(_FORMS[name], seed=1)) == (12, [])


def test_lines_of_run_files_that_ran_together_are_refused(tmp_path: Path) -> None:
    one = b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t"
    for joined in (one + one, one + b"q2 Q0 d2 1 0.5\n", one.replace(b" ", b"\t") + one):
        (tmp_path / "a.trec").write_bytes(joined)
        with pytest.raises(UsageError, match=r"a.trec, line 2: 1[01] fields; two lines, with no"):
            read_rankings(tmp_path / "a.trec")
    (tmp_path / "a.trec").write_bytes(b"q1 Q0 d1 1 2.5 a tag of words\n")
    assert read_rankings(tmp_path / "a.trec").document.to_pylist() == ["d1"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.trec", b"q1 Q0 d1 1 2.5 t\n"),
        ("a.trec.gz", gzip.compress(b"\xef\xbb\xbfq1 Q0 d1 1 2.5 t\n", mtime=0)),
        ("a.jsonl", b'{"query": "q1", "document": "d1"}\n'),
        ("a.json", b'{"q1": ["d1"]}'),
        ("a.csv", b"query,document\nq1,d1\n"),
    ],
)
def test_a_byte_order_mark_is_no_part_of_a_query(tmp_path: Path, name: str, content: bytes) -> None:
    marked = content if name.endswith(".gz") else b"\xef\xbb\xbf" + content
    (tmp_path / name).write_bytes(marked)
    assert read_rankings(tmp_path / name).query_ids == ["q1"]
    (tmp_path / "qrels").write_bytes(b"\xef\xbb\xbfq1 0 d1 1\n")
    assert read_qrels(tmp_path / "qrels").query_ids == ["q1"]


def test_qrels_with_a_header_in_another_order_are_refused(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("corpus-id\tquery-id\tscore\nd1\tq1\t1\n")
    with pytest.raises(UsageError, match="line 1: the columns corpus-id, query-id, score are not"):
        read_qrels(tmp_path / "qrels.txt")


def test_ranks_order_what_has_no_scores_and_a_misspelt_rank_is_refused(tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {"query": ["q", "q"], "document": ["b", "a"], "rank": [2, 1]}
    for name in ("rank", "arnk", "rnk"):
        table = pa.table(rows).rename_columns(["query", "document", name])
        pq.write_table(table, tmp_path / "a.parquet")
        if name == "rank":
            assert read_rankings(tmp_path / "a.parquet").document.to_pylist() == ["a", "b"]
        else:
            with pytest.raises(UsageError, match=f"unknown field '{name}'; did you mean rank"):
                read_rankings(tmp_path / "a.parquet")


@pytest.mark.parametrize("rank", ["nan", "inf", "-inf"])
def test_a_rank_that_is_no_number_is_refused(tmp_path: Path, rank: str) -> None:
    (tmp_path / "a.csv").write_text(f"query,document,rank\nq,a,1\nq,b,{rank}\n")
    with pytest.raises(UsageError, match=f"the rank {rank} of query 'q' is not a rank"):
        read_rankings(tmp_path / "a.csv")


def test_infinite_scores_order_as_the_largest_numbers_do(tmp_path: Path) -> None:
    means = []
    for most in ("inf", "1e308"):
        run = f"q Q0 a 1 -{most} t\nq Q0 b 1 {most} t\nq Q0 c 1 0 t\n"
        (tmp_path / "a.trec").write_text(run)
        means.append(evaluate({"q": {"b": 1, "c": 1}}, tmp_path / "a.trec", "map,recall@2").means)
    assert means == [{"map": 1.0, "recall@2": 1.0}] * 2


def test_what_has_no_line_ends_or_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "LONGEST_LINE", 1_000_000)
    monkeypatch.setattr(raw, "BOMB_BYTES", 2_000_000)
    long, bomb = tmp_path / "long.trec", tmp_path / "bomb.jsonl.gz"
    long.write_bytes(b"q1 Q0 d1 1 2.5 t\n" + b"x" * 2_000_000)
    for read in (read_rankings, read_qrels):
        with pytest.raises(UsageError, match=r"long.trec, line \d"):
            read(long)
    bomb.write_bytes(gzip.compress(b'{"query": "q", "document": "d"}\n' * 100_000))
    for read in (read_rankings, read_qrels):
        with pytest.raises(UsageError, match=r"bomb.jsonl.gz: unpacks to more than 200 times"):
            read(bomb)


DOC = "<DOC><DOCNO>{0}</DOCNO><TEXT>text {0}</TEXT></DOC>"


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        (DOC.format("d1").replace("</DOC>", "") + "\n" + DOC.format("d2"),
         "trec:2: <doc>, but the one on line 1 has no </doc>; add it"),
        (DOC.format("d1").replace("<DOC>", "") + "\n", "trec:1: </doc> without <doc>"),
        ("<DOC><DOCNO>d1</DOCNO><TEXT>a</TEXT>\n<DOCNO>d2</DOCNO><TEXT>b</TEXT></DOC>",
         "trec:1: this <DOC> contains 2 <DOCNO>; is a </DOC> missing"),
        ("<DOC><DOCNO>d1</DOCNO><TEXT>a</TEXT><TEXT>b</DOC>", "trec:1: unclosed <TEXT>"),
    ],
)  # fmt: skip
def test_documents_that_ran_together_are_refused(
    home: Path, tmp_path: Path, documents: str, says: str
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "documents.trec").write_text(documents)
    (folder / "topics.txt").write_text("q1\twhat?\n")
    (folder / "qrels.txt").write_text("q1 0 d1 1\n")
    with pytest.raises(UsageError) as error:
        open_dataset("labelled", source=folder)
    assert says in str(error.value)


def test_two_documents_on_a_line_are_two(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "documents.trec").write_text(DOC.format("d1") + DOC.format("d2") + "\n")
    (folder / "topics.txt").write_text("q1\twhat?\n")
    (folder / "qrels.txt").write_text("q1 0 d1 1\n")
    found = [(one.id, one.text) for one in open_dataset("labelled", source=folder).documents]
    assert found == [("d1", "text d1"), ("d2", "text d2")]


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    said = str(UsageError("a name\nof two lines, " + "x" * 5000 + ", is none"))
    assert said == f"a name of two lines, {'x' * 200}...{'x' * 39},, is none".replace(",,", ",")


def test_a_name_that_is_not_utf8_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(tmp_path / "run") + "\udcff.trec"
    Path(name).write_text("q1 Q0 d1 1 2.5 t\n")
    with pytest.raises(UsageError, match="is not a name in UTF-8; rename it"):
        read_rankings(name)
    assert main(["score", name, "--qrels", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1
