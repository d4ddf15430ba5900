"""The random baseline of all that a run is given, against every order of the haystack."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import lists, one_corpus, prepared

from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.extensions.answers.scoring import returned_texts
from harness.records.scores import MetricResult, ScoreReport
from harness.schema import Ability
from harness.scoring import tokens
from harness.scoring.protocols import Choices
from harness.scoring.ranks import from_dataset, rank_judged
from harness.scoring.score import score
from harness.scoring.sessions import DRAWS
from harness.scoring.tokens import TokenCounts

TURNS = {
    "a": ("s1", 100, "the kiln is in the old barn"),
    "b": ("s1", 100, "nothing of note w w w w w w"),
    "c": ("s2", 200, "in the new barn, they said"),
    "d": ("s3", 300, "the barn"),
    "e": ("s3", 300, "w w"),
}
ORDERS = list(permutations(TURNS))
GOLD = ("a", "c", "d")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """One question, asked once for every order of five turns in three sessions."""

    def fill(out: DatasetWriter) -> None:
        rows = {
            id_: out.document(id_, text, session=session, timestamp=when)
            for id_, (session, when, text) in TURNS.items()
        }
        out.haystack("all")
        for at in range(len(ORDERS)):
            kind = {"ability": Ability.KNOWLEDGE_UPDATE, "answers": ["old barn", "the new barn"]}
            out.query(f"q{at}", "?", "all", **kind)
            for gold in GOLD:
                out.qrel(f"q{at}", rows[gold])
                out.qrel(f"q{at}", rows[gold], qrels_set="longmemeval-official")

    return prepared(tmp_path_factory.mktemp("orders") / "data", fill)


def report(dataset: Dataset, depth: int = len(TURNS)) -> ScoreReport:
    run = lists({f"q{at}": order[:depth] for at, order in enumerate(ORDERS)})
    choices = Choices(ks=(1, 2, 3), answers=True)
    return score(dataset, run, choices, depth=depth).report


def results(found: ScoreReport) -> Iterator[tuple[str, MetricResult]]:
    for protocol in found.protocols:
        for name, result in protocol.overall.items():
            yield f"{protocol.protocol} {protocol.level} {name}", result


@pytest.mark.slow
def test_chance_of_documents_sessions_and_answers_is_the_mean_over_all_orders(
    dataset: Dataset,
) -> None:
    seen = set()
    for name, cell in results(report(dataset)):
        exact = not cell.random_method
        seen.add((name.split("@")[0], exact))
        # Drawn for each query anew; the values are no further than 0.5 from their mean.
        error = 1e-10 if exact else 5 * 0.5 / np.sqrt(DRAWS * len(ORDERS))
        assert cell.random_baseline == pytest.approx(cell.value, abs=error), name
    for exact in ("recall", "hit", "recall_all"):
        assert (f"memory turn>session {exact}", True) in seen
    assert ("longmemeval-official turn>session hit", True) in seen
    assert ("longmemeval-official turn>session ndcg_b2", False) in seen
    for metric in ("success", "token_f1", "rouge_l", "bleu", "exact_match"):
        assert (f"answers turn {metric}", True) in seen


@pytest.mark.slow
@pytest.mark.parametrize("depth", [5, 3])
def test_chance_of_knowledge_updates_is_the_mean_over_all_orders(
    dataset: Dataset, depth: int
) -> None:
    found = report(dataset, depth).knowledge_update
    assert found is not None
    assert set(found.random_baseline) == set(found.values)
    for name, level in found.random_baseline.items():
        assert level == pytest.approx(found.values[name], abs=1e-12), name
    assert 0 < found.random_baseline["update_ranked_first"] < 1


# -- Recall within a budget of tokens --------------------------------------------------------------

COSTS = {"q": 1, "b": 2, "c": 3, "d": 5, "e": 8, "f": 0}
# A piece in one document, in two, in one that costs much, in the query's own too, in none.
PIECES = {"one": ["c"], "two": ["b", "d"], "large": ["e"], "own": ["q", "f"], "gone": ["gone"]}
BUDGETS = (0, 2, 3, 7, 12, 100)


@pytest.mark.parametrize(("depth", "exclude_self"), [(6, False), (3, False), (3, True)])
@pytest.mark.parametrize("shuffled", [6, 5])
def test_chance_of_recall_within_a_budget_is_the_mean_over_all_orders(
    tmp_path: Path, depth: int, exclude_self: bool, shuffled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(out: DatasetWriter) -> None:
        rows = {d: out.document(d, "w " * cost) for d, cost in COSTS.items()}
        out.haystack("all")
        out.query("q", "?", "all")
        for piece, documents in PIECES.items():
            for d in documents:
                out.qrel("q", rows.get(d, -1), evidence_id=piece, document_id=d)

    data = prepared(tmp_path / "data", fill, unknown_documents="keep", exclude_self=exclude_self)
    documents = [d for d in COSTS if not (exclude_self and d == "q")]
    expected = np.zeros(len(BUDGETS))
    for order in permutations(documents):
        spent = np.cumsum([COSTS[d] for d in order[:depth]])
        for at, budget in enumerate(BUDGETS):
            prefix = set(order[: int((spent <= budget).sum())])
            expected[at] += np.mean([not prefix.isdisjoint(p) for p in PIECES.values()])
    expected /= len(list(permutations(documents)))

    monkeypatch.setattr(tokens, "ORDERS", 10_000)
    monkeypatch.setattr(tokens, "_SHUFFLED", shuffled)
    levels = tokens.recall_random_baseline(
        data,
        rank_judged(lists({"q": []}), from_dataset(data)),
        np.ones(1, bool),
        depth,
        BUDGETS,
        TokenCounts(data),
    )
    # Two draws differ by 1 at most; where everything fits nothing is left to draw.
    np.testing.assert_allclose(levels[0], expected, rtol=0, atol=5 * 0.5 / 100)
    if depth == 6:
        assert levels[0, -1] == pytest.approx(0.8, abs=1e-12)


@pytest.mark.slow
def test_a_document_that_was_not_drawn_is_as_likely_as_one_that_was(tmp_path: Path) -> None:
    # One of 300 documents deep: what fits is in the prefix of one order in 300, drawn or not.
    ids = [f"d{i}" for i in range(300)]
    texts = {d: "w " * (1 + i % 40) for i, d in enumerate(ids)}
    data = one_corpus(tmp_path / "data", ids, {"q": {"d0": 1}}, texts=texts)
    orders = tokens.Orders.draw(data, 0, 1, 1, (5, 20, 50), TokenCounts(data))
    drawn = set(np.unique(orders.row).tolist())
    assert not drawn.issuperset(range(300))
    for row in range(300):
        cost = 1 + row % 40
        expected = [(cost <= budget) / 300 for budget in (5, 20, 50)]
        for found in (orders.of_one({row: cost})[row], orders.of_several({row: cost}, -1)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_small_haystack_of_many_documents_has_the_costs_of_its_own(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        rows = [out.document(f"d{i}", "w " * (1 + i % 7)) for i in range(10_000)]
        out.haystack("small", rows[:5])
        out.query("q", "?", "small")
        out.qrel("q", rows[0])

    data = prepared(tmp_path / "data", fill)
    counts = TokenCounts(data)
    orders = tokens.Orders.draw(data, 0, 1, 1, (5,), counts)
    assert (orders.cost[:, :-1] == 1 + orders.row[:, :-1] % 7).all()
    assert not orders.cost[:, -1].any()  # of the end of an order
    assert counts.of(np.array([9_999, -1], np.int32)).tolist() == [1 + 9_999 % 7, 0]


def test_both_ways_of_counting_what_fits_agree_order_by_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"d{i}" for i in range(40)]
    costs = rng.integers(0, 30, 40).tolist()
    texts = {d: "w " * cost for d, cost in zip(ids, costs, strict=True)}
    data = one_corpus(tmp_path / "data", ids, {"q": {"d0": 1}}, texts=texts)
    for depth in (1, 7, 39, 40, 60):
        budgets = (0, 20, 100, 10_000)
        orders = tokens.Orders.draw(data, 0, depth, 2, budgets, TokenCounts(data))
        together = orders.of_one(dict(enumerate(costs)))
        for row, cost in enumerate(costs):
            alone = orders.of_several({row: cost}, -1)
            np.testing.assert_allclose(together[row], alone, rtol=0, atol=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 8))
def test_the_best_of_random_texts_is_the_mean_over_all_sets_of_so_many(
    values: list[float], k: int
) -> None:
    best = [max(some) for some in combinations(values, min(k, len(values)))]
    found = returned_texts.best_of_random(np.sort(values), k)
    assert found == pytest.approx(np.mean(best), abs=1e-12)


def test_answers_of_a_large_haystack_are_expected_from_a_sample_that_is_said(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["old barn"]] * len(ORDERS)
    whole, how = returned_texts.random_baseline_of_texts(dataset, answers, ["token_f1"], (1, 2))
    assert how == ""
    monkeypatch.setattr(returned_texts, "PAIRS", 3 * len(ORDERS))
    some, how = returned_texts.random_baseline_of_texts(dataset, answers, ["token_f1"], (1, 2))
    assert how == "from 3 random documents a query"
    for name, values in some.items():
        assert values.std() > 0
        assert values.mean() == pytest.approx(whole[name].mean(), abs=5 * 0.5 / len(ORDERS) ** 0.5)
