"""`harness report`: a file, and pictures beside it."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from harness.__main__ import main
from harness.dataset.reader import Dataset
from harness.pages.plots import write_plots
from harness.pages.report import report_data


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
        ([bm25, tfidf, bm25], "a report is about one run, or two"),
        ([bm25, bm25], "is named twice"),
        ([tmp_path], "not the folder of a run"),
        ([bm25, "--ranks", "0"], "--ranks must be 1 or more"),
        ([bm25, "--out", tmp_path], "is a folder; name a file"),
    ):
        assert main(["report", *map(str, arguments)]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pictures_are_svg_and_png_and_the_same_when_drawn_again(
    bm25: Path, tfidf: Path, sample: Dataset, tmp_path: Path, whole: bool
) -> None:
    data = report_data([bm25, tfidf], sample)
    written = write_plots(data, tmp_path / "plots")
    names = {path.name for path in written}
    kinds = ("abilities", "metrics-by-k", "recall-by-tokens", "risk-coverage", "latency")
    assert names == {f"{kind}.{end}" for kind in kinds for end in ("svg", "png")}
    first = {path.name: path.read_bytes() for path in written}
    assert b"recall@10" in first["abilities.svg"]
    assert first["abilities.png"].startswith(b"\x89PNG")
    few = replace(data, by_k=[], by_tokens=[], latency=None)
    again = write_plots(data if whole else few, tmp_path / "again")
    assert len(again) == (10 if whole else 4)
    assert all(path.read_bytes() == first[path.name] for path in again)
