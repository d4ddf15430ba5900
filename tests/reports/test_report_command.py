"""`harness report`: one file beside a run."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.__main__ import main
from harness.datasets.reader import Dataset


def inside(page: Path) -> Any:
    """The data that a page holds."""
    found = re.search(rb'id="data">([^<]*)</script>', page.read_bytes())
    assert found
    return orjson.loads(gzip.decompress(base64.b64decode(found[1])))


def test_a_report_is_one_file_beside_the_run_and_the_same_when_made_again(
    bm25: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(bm25)]) == 0
    page = bm25 / "report.html"
    assert "report.html" in capsys.readouterr().out
    first = page.read_bytes()
    assert main(["report", str(bm25), "--quiet"]) == 0
    assert page.read_bytes() == first
    assert not re.search(rb'(?:src|href)="(?!#|data:)', first)
    assert inside(page)["shown"] == 10


def test_the_page_lets_no_script_run_but_its_own(bm25: Path) -> None:
    assert main(["report", str(bm25), "--quiet"]) == 0
    html = (bm25 / "report.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    scripts = len(re.findall(r"<script(?: type=\"module\")?>", html))
    assert policy[1].count("'sha256-") == scripts == 3


def test_a_shared_report_says_nothing_of_texts(bm25: Path, sample: Dataset) -> None:
    assert main(["report", str(bm25), "--share", "--quiet"]) == 0
    page = bm25 / "report-share.html"
    data = inside(page)
    assert data["queries"]["texts"] == []
    documents = data["queries"]["documents"]
    assert [name for name, column in documents.items() if column is not None] == ["id"]
    html = page.read_text()
    assert not [i for i in range(sample.n_queries) if sample.query(i).text in html]


def test_wrong_use_is_said_in_one_line(
    bm25: Path, tfidf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        ([bm25, tfidf, bm25], "a report takes one run or two"),
        ([bm25, bm25], "is named twice"),
        ([tmp_path], "not a run folder"),
        ([bm25, "--ranks", "0"], "--ranks must be 1 or more"),
        ([bm25, "--out", tmp_path], "is a folder; name a file"),
    ):
        assert main(["report", *map(str, arguments)]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
