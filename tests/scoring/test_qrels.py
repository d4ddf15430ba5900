"""Judgements from files and dictionaries: what is read, what is refused and where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.scoring.qrels import from_dict, read_qrels


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"q 0 d 1\nq 0 d\n", ", line 2: expected `query 0 document grade`"),
        (b"q 0 d 1\nq 0 e high\n", ", line 2: expected `query 0 document grade`"),
        (b"q 0 d 1\nq 0 e 0.5\n", ", line 2: expected `query 0 document grade`"),
        (b"q 0 d\xff 1\n", ", line 1: expected `query 0 document grade`"),
        (b"q 0 d 1\nq 0 d 2\n", ", line 2: 'd' is judged twice for query 'q', with grades 1 and 2"),
        (b"\n", ": no judgements in it"),
    ],
)
def test_a_qrels_file_that_cannot_be_read_is_refused_in_one_line_that_says_where(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "a.qrels"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_qrels(path)
    assert str(error.value).startswith(f"{path}{says}")
    assert "\n" not in str(error.value)
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match=str(missing)):
            read_qrels(missing)


def test_both_kinds_of_qrels_file_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "trec").write_bytes(b"q 0 d 1\r\nq 0 \xc3\xa9 -1\nr 0 d 2\nr 0 d 2\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\nq\té\t-1\nr\td\t2\n")
    for name in ("trec", "beir.tsv"):
        qrels = read_qrels(tmp_path / name)
        assert qrels.query_ids == ["q", "r"]
        assert qrels.query.tolist() == [0, 0, 1]
        assert qrels.document.to_pylist() == ["d", "é", "d"]
        assert qrels.grade.tolist() == [1, -1, 2]


@pytest.mark.parametrize("grade", [0.5, float("nan"), float("inf"), 2**40])
def test_a_grade_that_is_none_is_refused_not_rounded(grade: Any) -> None:
    with pytest.raises(UsageError, match="a grade that is not a whole number"):
        from_dict({"q": {"d": grade}})


def test_a_file_of_several_qrels_sets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "qrels.jsonl"
    path.write_text(
        '{"query": "q", "document": "d"}\n{"query": "q", "document": "e", "qrels_set": "other"}\n'
    )
    with pytest.raises(UsageError, match="holds several qrels sets"):
        read_qrels(path)
