"""Knowledge updates: the newest statement of a fact against the older ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import lists, prepared

from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.schema import Ability
from harness.scoring.protocols import Choices
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus

DATES = {"new": 300, "new too": 300, "old": 200, "older": 100, "undated": None, "filler": 900}
UPDATE = Ability.KNOWLEDGE_UPDATE


def dataset(folder: Path, queries: dict[str, tuple[Ability, dict[str, int]]]) -> Dataset:
    """Queries over six dated documents, with their ability and grades."""

    def fill(out: DatasetWriter) -> None:
        for id_, when in DATES.items():
            out.document(id_, id_, timestamp=when)
        out.haystack("all")
        for id_, (ability, grades) in queries.items():
            out.query(id_, id_, "all", ability=ability)
            for document, grade in grades.items():
                out.qrel(id_, document, grade)

    return prepared(folder, fill)


def update_numbers(data: Dataset, run: dict[str, list[str]], **choices: Any) -> dict[str, Any]:
    found = score(data, lists(run), Choices(**choices)).report.knowledge_update
    assert found is not None
    return {"n": found.n, **found.values}


@pytest.mark.parametrize(
    ("ranking", "above", "found", "stale"),
    [
        (["new", "old", "older"], 1, (1, 1), (0, 0)),
        (["filler", "new", "old"], 1, (0, 1), (0, 0)),
        (["old", "new", "older"], 0, (0, 1), (1, 0)),
        (["older", "filler", "old"], 0, (0, 0), (1, 1)),
        (["filler"], 0, (0, 0), (0, 0)),
        (["filler", "new"], 1, (0, 1), (0, 0)),
        (["filler", "undated", "new too"], 1, (0, 1), (0, 0)),
        ([], 0, (0, 0), (0, 0)),
    ],
)
def test_one_ranking(
    tmp_path: Path,
    ranking: list[str],
    above: int,
    found: tuple[int, int],
    stale: tuple[int, int],
) -> None:
    gold = {"new": 1, "new too": 2, "old": 1, "older": 1, "undated": 1, "filler": 0}
    data = dataset(tmp_path / "data", {"q": (UPDATE, gold)})
    numbers = update_numbers(data, {"q": ranking, "?": ["filler"] * 3}, ks=(1, 3))
    assert numbers["n"] == 1
    assert numbers["update_ranked_first"] == above
    if len(ranking) == 3:
        assert (numbers["update_recall@1"], numbers["update_recall@3"]) == found
        assert (numbers["stale_only_rate@1"], numbers["stale_only_rate@3"]) == stale


def test_only_updates_with_gold_of_different_dates_count(tmp_path: Path) -> None:
    data = dataset(
        tmp_path / "data",
        {
            "update": (UPDATE, {"new": 1, "old": 1}),
            "one date": (UPDATE, {"new": 1, "new too": 1}),
            "undated": (UPDATE, {"new": 1, "undated": 1}),
            "grade 0": (UPDATE, {"new": 1, "old": 0}),
            "lookup": (Ability.LOOKUP, {"new": 1, "old": 1}),
            "failed": (UPDATE, {"new": 1, "old": 1}),
        },
    )
    run = lists({q: ["old", "new"] for q in data.query_ids})
    answered = QueryStatus.everything(data.n_queries)
    answered.failed[data.query_ids.index("failed")] = True
    numbers = score(data, run, answered=answered).report.knowledge_update
    assert numbers is not None
    assert numbers.n == 2
    assert numbers.values["update_ranked_first"] == 0
    assert numbers.values["stale_only_rate@1"] == 0.5  # the failed query has found nothing
    without = dataset(tmp_path / "without", {"q": (UPDATE, {"new": 1})})
    assert score(without, lists({"q": ["new"]})).report.knowledge_update is None


def test_a_date_is_that_of_the_query_s_own_haystack(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        a, b, c = (out.document(id_, id_, timestamp=5) for id_ in "abc")
        out.haystack("first", [b, a], [200, 100])
        out.haystack("second", [a, b], [200, 100])
        for haystack in ("first", "second"):
            out.query(haystack, "?", haystack, ability=UPDATE)
            for row in (a, b, c):  # c is in neither haystack: it has no date there
                out.qrel(haystack, row)

    run = lists({"first": ["c", "b", "a"], "second": ["c", "b", "a"]})
    found = score(prepared(tmp_path / "data", fill), run, Choices(ks=(1, 2)))
    assert found.report.knowledge_update is not None
    assert found.report.knowledge_update.n == 2
    numbers = found.report.knowledge_update.values
    assert (numbers["update_recall@1"], numbers["stale_only_rate@1"]) == (0, 0)
    assert (numbers["update_recall@2"], numbers["stale_only_rate@2"]) == (0.5, 0.5)
    assert numbers["update_ranked_first"] == 0.5


def test_random_rankings_are_as_the_definition_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = list(DATES)
    gold = {f"q{i}": {d: int(rng.integers(0, 2)) for d in names} for i in range(60)}
    data = dataset(tmp_path / "data", {q: (UPDATE, grades) for q, grades in gold.items()})
    run = {q: [str(d) for d in rng.permutation(names)] for q in gold}
    expected = []
    for q, grades in gold.items():
        stamps = [DATES[d] for d in names if grades[d] and DATES[d] is not None]
        newest = max(filter(None, stamps), default=None)
        place = {d: run[q].index(d) for d in names if grades[d] and DATES[d] is not None}
        new = [p for d, p in place.items() if DATES[d] == newest]
        old = [p for d, p in place.items() if DATES[d] != newest]
        if old:
            expected.append((min(new) < min(old), min(new) < 2, min(old) < 2 <= min(new)))
    numbers = update_numbers(data, run, ks=(2,))
    assert numbers["n"] == len(expected) > 20
    keys = ("update_ranked_first", "update_recall@2", "stale_only_rate@2")
    assert [numbers[k] for k in keys] == pytest.approx(np.mean(expected, axis=0).tolist())
