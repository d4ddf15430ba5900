"""What no longer holds, was to be forgotten, or was not yet said, against plain counting."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import lists, prepared

from harness import RetrieverSpec, Settings, run, score_run
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.writer import DatasetWriter
from harness.schema import Change
from harness.scoring.protocols import Choices
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus

SAID = {"lyon": 10, "porto": 20, "rome": 30, "knee": 10, "hush": 40, "cat": 50}
CHANGES = [
    Change("h", "update", "lyon", 20, "porto"),
    Change("h", "update", "porto", 30, "rome"),
    Change("h", "forget", "knee", 40, "hush"),
]
Judged = dict[str, dict[str, int]]
Times = dict[str, int | None]


def made(folder: Path, changes: list[Change], judged: Judged, times: Times) -> Dataset:
    """One haystack of SAID, and questions with their grades and times."""

    def fill(out: DatasetWriter) -> None:
        for id_, when in SAID.items():
            out.document(id_, id_, timestamp=when)
        out.haystack("h")
        for change in changes:
            out.change(change)
        for query, grades in judged.items():
            out.query(query, query, "h", timestamp=times[query])
            for document, grade in grades.items():
                out.qrel(query, document, grade)

    return prepared(folder, fill)


def numbers(data: Dataset, rankings: dict[str, list[str]], ks: tuple[int, ...]) -> Any:
    return score(data, lists(rankings), Choices(ks=ks), depth=len(SAID)).report.changes


def counted(
    changes: list[Change], judged: Judged, times: Times, rankings: dict[str, list[str]], k: int
) -> dict[str, list[bool]]:
    """The numbers once more, a question at a time, as the definitions say them."""
    found: dict[str, list[bool]] = {}
    for query, grades in judged.items():
        now = times[query] if times[query] is not None else 10**9
        came = [c for c in changes if c.timestamp <= now]
        old = {c.document for c in came if c.kind == "update" and grades.get(c.document) == 0}
        secret = {c.document for c in came if c.kind == "forget" and c.document in grades}
        later = {d for d, when in SAID.items() if times[query] is not None and when > now}
        new = set(old)
        for _ in SAID:
            new |= {c.by or "" for c in came if c.kind == "update" and c.document in new}
        new -= old | secret
        top = rankings.get(query, [])[:k]
        places = {d: i for i, d in enumerate(top)}
        if old:
            first_old = min((places[d] for d in old if d in places), default=None)
            first_new = min((places[d] for d in new if d in places), default=None)
            above = first_old is not None and (first_new is None or first_old < first_new)
            found.setdefault("outdated_returned", []).append(first_old is not None)
            found.setdefault("outdated_above", []).append(above)
        if secret:
            found.setdefault("forgotten_returned", []).append(bool(secret & set(top)))
        if later:
            found.setdefault("future_returned", []).append(bool(later & set(top)))
    return found


@pytest.mark.parametrize(
    ("when", "ranking", "expected"),
    [
        # (outdated returned, outdated above) in the top 2; None: no such question
        (15, ["lyon", "porto"], None),
        (20, ["lyon", "porto"], (1, 1)),
        (25, ["porto", "lyon"], (1, 0)),
        (25, ["cat", "porto", "lyon"], (0, 0)),
        (25, ["lyon", "cat"], (1, 1)),
        (25, ["cat", "hush"], (0, 0)),
        (None, ["porto", "lyon"], (1, 0)),
    ],
)
def test_what_was_replaced_is_outdated_from_the_update_on(
    tmp_path: Path, when: int | None, ranking: list[str], expected: tuple[int, int] | None
) -> None:
    judged = {"q": {"porto": 1, "lyon": 0}}
    data = made(tmp_path / "data", CHANGES[:1], judged, {"q": when})
    found = numbers(data, {"q": ranking}, (2,))
    if expected is None:
        assert found.n_after_update == 0
        assert "outdated_returned@2" not in found.values
    else:
        assert found.n_after_update == 1
        assert (found.values["outdated_returned@2"], found.values["outdated_above@2"]) == expected


def test_of_a_chain_of_updates_the_last_one_counts_as_what_holds(tmp_path: Path) -> None:
    judged = {"all": {"lyon": 0, "porto": 0, "rome": 1}, "first": {"lyon": 0}}
    data = made(tmp_path / "data", CHANGES, judged, {"all": 90, "first": 90})
    found = numbers(data, {"all": ["porto", "rome"], "first": ["rome", "lyon"]}, (2,))
    assert found.n_after_update == 2
    assert found.values["outdated_returned@2"] == 1
    assert found.values["outdated_above@2"] == 0.5


def test_what_a_question_asks_for_is_not_outdated_and_what_nobody_judged_is_not_counted(
    tmp_path: Path,
) -> None:
    judged = {"where before?": {"lyon": 1, "porto": 1}, "the cat?": {"cat": 1}}
    times: Times = dict.fromkeys(judged, 90)
    data = made(tmp_path / "data", CHANGES, judged, times)
    assert numbers(data, {q: ["lyon", "knee"] for q in judged}, (2,)) is None


def test_a_forgotten_document_counts_whatever_its_grade_and_silence_is_right(
    tmp_path: Path,
) -> None:
    judged = {"a": {"knee": 0}, "b": {"knee": 1}, "early": {"knee": 1}, "c": {"knee": 0}}
    data = made(tmp_path / "data", CHANGES, judged, {"a": 40, "b": None, "early": 39, "c": 60})
    rankings: dict[str, list[str]] = {"a": ["hush", "knee"], "b": ["cat"], "early": ["knee"]}
    found = numbers(data, rankings | {"c": ["hush"]}, (1, 2))
    assert found.n_after_forget == 3
    assert (found.values["forgotten_returned@1"], found.values["forgotten_returned@2"]) == (
        0,
        pytest.approx(1 / 3),
    )


def test_a_query_that_a_run_file_leaves_out_is_not_one_that_kept_silent(tmp_path: Path) -> None:
    judged = {"a": {"knee": 0}, "b": {"knee": 0}}
    data = made(tmp_path / "data", CHANGES, judged, {"a": 90, "b": 90})
    file = lists({"a": ["knee"]})
    assert score(data, file).report.changes.n_after_forget == 1
    answered = QueryStatus.everything(data.n_queries)
    answered.replied[:] = True
    found = score(data, file, answered=answered).report.changes
    assert (found.n_after_forget, found.values["forgotten_returned@1"]) == (2, 0.5)


def test_what_was_said_after_the_question_is_the_future(tmp_path: Path) -> None:
    judged: Judged = {"a": {"lyon": 1}, "b": {"lyon": 1}, "undated": {"lyon": 1}}
    data = made(tmp_path / "data", CHANGES, judged, {"a": 20, "b": 50, "undated": None})
    found = numbers(data, {query: ["lyon", "rome"] for query in judged}, (1, 2))
    assert found.n_with_future == 1
    assert (found.values["future_returned@1"], found.values["future_returned@2"]) == (0, 1)


_DOCUMENT = st.sampled_from(sorted(SAID))
_CHANGE = st.builds(
    lambda kind, pair, wait: Change(
        "h", kind, pair[0], max(SAID[pair[0]], SAID[pair[1]]) + wait, pair[1]
    ),
    st.sampled_from(["update", "forget"]),
    st.tuples(_DOCUMENT, _DOCUMENT).filter(lambda pair: pair[0] != pair[1]),
    st.integers(0, 15),
)
_QUESTION = st.tuples(
    st.dictionaries(_DOCUMENT, st.integers(0, 1), min_size=1),
    st.none() | st.integers(5, 60),
    st.permutations(sorted(SAID)),
    st.integers(1, len(SAID)),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(_CHANGE, min_size=1, max_size=5, unique=True), st.lists(_QUESTION, min_size=1))
def test_any_changes_questions_and_rankings_are_counted_as_plain_python_does(
    changes: list[Change], questions: list[tuple[dict[str, int], int | None, list[str], int]]
) -> None:
    judged = {f"q{i}": grades for i, (grades, *_) in enumerate(questions)}
    times = {f"q{i}": when for i, (_, when, *_) in enumerate(questions)}
    rankings = {f"q{i}": order[:deep] for i, (*_, order, deep) in enumerate(questions)}
    with TemporaryDirectory() as folder:
        data = made(Path(folder) / "data", changes, judged, times)
        found = numbers(data, rankings, (1, 2, 3, 6))
    values = found.values if found else {}
    for k in (1, 2, 3, 6):
        expected = counted(changes, judged, times, rankings, k)
        said = {name: values.get(f"{name}@{k}") for name in _NAMES}
        means = {name: sum(v) / len(v) for name, v in expected.items()}
        assert said == {name: pytest.approx(means.get(name)) for name in _NAMES}
        assert all(found.random_baseline[f"{name}@{k}"] >= 0 for name in means)
        n = {name: len(expected.get(name, ())) for name in _NAMES}
        if found:
            assert found.n_after_update == n["outdated_returned"] == n["outdated_above"]
            assert found.n_after_forget == n["forgotten_returned"]
            assert found.n_with_future == n["future_returned"]


_NAMES = ("outdated_returned", "outdated_above", "forgotten_returned", "future_returned")


def test_chance_is_the_mean_over_all_orders_of_the_haystack(tmp_path: Path) -> None:
    judged = {
        "home": {"lyon": 0, "porto": 0, "rome": 1},
        "knee": {"knee": 0},
        "both": {"lyon": 0, "knee": 0},
    }
    times: Times = {"home": 90, "knee": 45, "both": None}
    data = made(tmp_path / "data", CHANGES, judged, times)
    orders = list(permutations(SAID))
    found = numbers(data, {q: list(SAID) for q in judged}, (1, 2, 4))
    for k in (1, 2, 4):
        by_name: dict[str, list[bool]] = {}
        for order in orders:
            rankings = {q: list(order) for q in judged}
            for name, values in counted(CHANGES, judged, times, rankings, k).items():
                by_name.setdefault(name, []).extend(values)
        for name, values in by_name.items():
            chance = sum(values) / len(values)
            assert found.random_baseline[f"{name}@{k}"] == pytest.approx(chance, abs=1e-12)


def test_a_dataset_without_changes_says_nothing_of_them(tmp_path: Path) -> None:
    data = made(tmp_path / "data", [], {"q": {"lyon": 1}}, {"q": 20})
    assert score(data, lists({"q": ["lyon", "cat"]})).report.changes is None


def test_who_forgets_the_old_is_seen_by_each_number_with_its_signature(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("changes")
    found = {}
    for name in ("bm25", "recency"):
        folder = run(dataset, RetrieverSpec(name), Settings(k=20), out=tmp_path)
        found[name] = score_run(folder, dataset).report.changes
    bm25, recency = found["bm25"], found["recency"]
    for name in ("outdated_returned@10", "outdated_above@10", "forgotten_returned@10"):
        assert recency.values[name] < recency.random_baseline[name] < bm25.values[name]
        assert bm25.signatures[name].startswith(f"{name}|protocol:changes/1|data:chan")
    assert set(bm25.signatures) == set(bm25.random_baseline)
