"""A report shows the answers that were made of its run, every verdict, and where it was lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from answering_rule import DECLINED, Rule
from browsers import opened
from openai_endpoint import CHAT, Failure, OpenAIEndpoint
from resealed import reseal

from harness.analysis.board.records import Leaderboard
from harness.datasets.reader import Dataset
from harness.extensions.answers.answering.templates import (
    built_in_template,
)
from harness.io.records import decode, to_tree
from harness.reports.report import report_data
from harness.runs.folder.run_folder import read_scores

HOSTILE = "<img src=https://example.org/x onerror=hit()>"
JUDGED = "judge:plain(m)"


@pytest.fixture
def run(
    sample_run: Callable[..., Path],
    harness: Callable[..., Any],
    sample: Dataset,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A run of 30 questions with answers, controls and judgements."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    folder = sample_run("bm25", limit=30)
    copy = Path(shutil.copytree(folder, tmp_path / "results" / folder.name))
    rule = Rule(sample, accuracy_given_evidence=0.8, accuracy_given_no_evidence=0.2, neither=0.1)
    with OpenAIEndpoint(lambda chat: rule(chat).replace("Something", HOSTILE)) as endpoint:
        asked = ["--model", "m", "--endpoint", endpoint.url, "--quiet"]
        assert harness("answer", copy, *asked, "--k", 3).status == 0
        folders = sorted(copy.parent.glob("*.answers"))
        assert harness("judge", *folders, "--judge", "plain", *asked).status == 0
    return copy


@pytest.mark.slow
def test_answers_stand_in_the_report_and_texts_stay_out_of_a_shared_one(
    run: Path, sample: Dataset
) -> None:
    data = to_tree(report_data([run], sample))
    (answers,) = (section["data"] for section in data["sections"])
    (rows,) = answers["readers"]
    names = ["bm25", "no context", "newest documents", "random documents", "evidence only"]
    assert [row["system"] for row in rows] == names
    scores = read_scores(next(run.parent.glob("*-bm25.plain-*")))
    cell = scores.protocols[-1].slices["all"].metrics["accuracy"]
    shown = rows[0]["protocols"][-1]["slices"]["all"]["accuracy"]
    assert (shown["value"], shown["n"]) == (cell.value, cell.n)
    (questions,) = answers["queries"]
    texts, own = data["queries"]["texts"], questions[0]
    assert all(len(own[name]) == data["asked"] == 30 for name in ("answer", "context"))
    for at in range(30):
        (verdict,) = own["verdicts"]
        said, lost = texts[own["answer"][at]], verdict["error_class"][at]
        assert len(own["context"][at]) <= 3
        if verdict["correct"][at] is None:
            assert lost is None
            assert texts[verdict["reply"][at]] == "I would rather not say."
        elif lost in ("correct_given_evidence", "correct_without_evidence"):
            assert verdict["correct"][at] is True
            assert said != DECLINED
        else:
            assert lost is None or verdict["correct"][at] is (lost == "correct_abstention")
    shared = orjson.dumps(to_tree(report_data([run], sample, share=True)))
    assert DECLINED.encode() not in shared
    assert b"rather not say" not in shared
    assert b"onerror" not in shared


@pytest.mark.slow
def test_failed_answers_are_wrong_and_the_answered_only_stand_beside(
    run: Path,
    harness: Callable[..., Any],
    sample: Dataset,
) -> None:
    rule = Rule(sample)
    with OpenAIEndpoint(rule) as endpoint:
        endpoint.fail(CHAT, *[Failure(400, code="content_filter")] * 12)
        asked = ["--model", "n", "--endpoint", endpoint.url, "--quiet"]
        options = ["--k", 3, "--no-baselines", "--concurrency", 1]
        assert harness("answer", run, *asked, *options).status == 0
        (own,) = (
            path
            for path in run.parent.glob("*-bm25.plain-*")
            if b'"model":"n"' in (path / "answers.json").read_bytes().replace(b" ", b"")
        )
        assert harness("judge", own, "--judge", "plain", *asked).status == 0
    cell = read_scores(own).protocols[-1].slices["all"].metrics["accuracy"]
    assert cell.answered_only is not None
    assert (cell.n, cell.answered_only.n) == (30, 18)
    only = {"value": cell.answered_only.value, "n": 18}

    data = to_tree(report_data([run], sample))
    (answers,) = (section["data"] for section in data["sections"])
    rows, found = answers["readers"][0], answers["queries"][0]
    (at,) = (i for i, row in enumerate(rows) if row["reader"] == "plain/1(n),reasoning:stripped/1")
    shown = rows[at]["protocols"][-1]["slices"]["all"]["accuracy"]
    assert (shown["value"], shown["answered_only"]) == (cell.value, only)
    assert len(found[at]["failed"]) == 12
    (verdict,) = found[at]["verdicts"]
    for place in found[at]["failed"]:
        assert (found[at]["answer"][place], verdict["correct"][place]) == (-1, False)
        assert verdict["error_class"][place] in {
            "reader_error",
            "partial_retrieval_error",
            "retrieval_error",
            "hallucinated",
        }
    assert all(not one["failed"] for i, one in enumerate(found) if i != at)

    assert harness("leaderboard", "--results", run.parent, "--quiet").status == 0
    text = (run.parent / "leaderboard.json").read_bytes()
    decode(text, Leaderboard, "leaderboard.json")
    (board,) = orjson.loads(text)["boards"]
    (row,) = (r for group in board["answers"] for r in group["rows"] if r["folder"] == own.name)
    assert row["failed"] == 12
    assert row["values"]["all"]["value"] == pytest.approx(cell.value, abs=1e-5)
    assert row["values"]["all"]["answered_only"] == {
        "value": pytest.approx(only["value"], abs=1e-5),
        "n": 18,
    }


@pytest.mark.slow
def test_answers_of_other_rankings_are_not_shown(run: Path, sample: Dataset) -> None:
    for path in run.parent.glob("*.answers/answers.json"):
        record = orjson.loads(path.read_bytes())
        record["run"]["rankings_sha256"] = "0" * 64
        path.write_bytes(orjson.dumps(record))
        reseal(path.parent)
    assert to_tree(report_data([run], sample))["sections"] == []


@pytest.mark.browser
def test_the_page_shows_answers_and_executes_none(
    run: Path, harness: Callable[..., Any], tmp_path: Path
) -> None:
    page_file = tmp_path / "report.html"
    assert harness("report", run, "--out", page_file, "--quiet").status == 0
    with opened(page_file) as page:
        section = page.locator("#answers")
        assert section.is_visible()
        text = section.inner_text()
        assert "evidence only" in text
        assert "reader error: wrong, all evidence in the context" in text
        assert "are undecided and excluded" in text
        assert section.locator("svg.cost circle").count() == 5
        page.locator(".rows tbody tr[data-at]").first.click()
        said = page.locator("#question").inner_text()
        assert "Answers with verdicts" in said
        assert "plain(m)" in said
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_board_has_answers_in_groups_of_one_reader_and_judge(
    run: Path, harness: Callable[..., Any]
) -> None:
    results = run.parent
    assert harness("leaderboard", "--results", results, "--quiet").status == 0
    data = (results / "leaderboard.json").read_bytes()
    decode(data, Leaderboard, "leaderboard.json")
    (board,) = orjson.loads(data)["boards"]
    (group,) = board["answers"]
    assert (group["reader"], group["protocol"], group["metric"]) == (
        "plain/1(m),reasoning:stripped/1",
        JUDGED,
        "accuracy",
    )
    arms = ["retrieved", "none", "newest", "random", "evidence"]
    assert [row["condition"] for row in group["rows"]] == arms
    scores = read_scores(next(results.glob("*-bm25.plain-*")))
    cell = scores.protocols[-1].slices["all"].metrics["accuracy"]
    shown = group["rows"][0]["values"]["all"]
    assert (shown["n"], shown["value"]) == (cell.n, pytest.approx(cell.value, abs=1e-5))
    assert [entry["system"] for entry in board["entries"]] == ["bm25"], "no row of the board"
    assert DECLINED.encode() not in data
    assert harness("leaderboard", "--results", results, "--quiet").status == 0
    assert (results / "leaderboard.json").read_bytes() == data


@pytest.mark.slow
def test_the_range_over_judges_and_what_was_shown_stand_where_they_must(
    run: Path, harness: Callable[..., Any], sample: Dataset, tmp_path: Path
) -> None:
    own = next(run.parent.glob("*-bm25.plain-*"))
    plain = built_in_template("judge", "plain")
    assert plain is not None
    (tmp_path / "strict.toml").write_text(plain.read_text().replace('"plain"', '"strict"'))
    with OpenAIEndpoint(lambda _: "WRONG") as endpoint:
        asked = ["--model", "m", "--endpoint", endpoint.url]
        told = harness("judge", own, "--judge", tmp_path / "strict.toml", *asked)
    first = read_scores(own).protocols
    rates = [b.slices["all"].metrics["accuracy"].value for b in first[1:]]
    assert min(rates) == 0
    assert f"0.000 to {max(rates):.3f}" in told.out
    rule = Rule(sample)
    with OpenAIEndpoint(rule) as endpoint:  # the same system, shown more
        asked = ["--model", "m", "--endpoint", endpoint.url, "--quiet"]
        assert harness("answer", run, *asked, "--k", 9, "--baselines", "random").status == 0
        more = [str(path) for path in run.parent.glob("*.answers") if path != own]
        assert harness("judge", *more, "--judge", "plain", *asked).status == 0
    assert harness("leaderboard", "--results", run.parent, "--quiet").status == 0
    (board,) = orjson.loads((run.parent / "leaderboard.json").read_bytes())["boards"]
    rows = next(g for g in board["answers"] if g["protocol"] == JUDGED)["rows"]
    names = {row["system"]: row.get("judge_range") for row in rows}
    assert names["bm25, top 3"] == [0, pytest.approx(max(rates), abs=1e-5)]
    assert names["bm25, top 9"] is None
    assert {"random documents, top 3", "random documents, top 9", "evidence only"} <= names.keys()


@pytest.mark.browser
def test_the_boards_page_shows_answers_below_the_board(
    run: Path, harness: Callable[..., Any]
) -> None:
    assert harness("leaderboard", "--results", run.parent, "--quiet").status == 0
    with opened(run.parent / "leaderboard.html") as page:
        text = page.locator("#answers").inner_text()
        assert "accuracy, judge plain(m)" in text
        assert "evidence only" in text
        assert "retrieval error" in text
        assert page.locator("#answers svg.cost circle").count() == 5
        names = page.locator("#answers svg.cost text.name").all_text_contents()
        assert sorted(names)[:2] == ["bm25", "evidence only"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
