"""Which queries count, what they count, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import lists, one_corpus, prepared

from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.io.records import decode, encode, to_tree
from harness.records.scores import AnsweredOnly, MetricResult, ProtocolResult, ScoreReport
from harness.schema import Ability
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus
from harness.scoring.scores import Scores

IDS = [f"d{i}" for i in range(12)]


def block(scores: Scores, protocol: str) -> ProtocolResult:
    (found,) = [b for b in scores.report.protocols if b.protocol == protocol]
    return found


def cell(scores: Scores, protocol: str, metric: str, slice_: str = "all") -> MetricResult:
    return block(scores, protocol).slices[slice_].metrics[metric]


def test_every_way_not_to_be_scored_is_named_once_by_its_first_reason(tmp_path: Path) -> None:
    kind = {"ability": Ability.ABSTENTION}
    dataset = one_corpus(
        tmp_path / "data",
        IDS,
        {
            "good": {"d0": 1},
            "silent": {"d0": 1},
            "not asked": {"d0": 1},
            "failed": {"d0": 1},
            "trap": {"d1": 1},
            "no answer": {},
            "no judgement": {},
            "all zero": {"d1": 0},
            "all negative": {"d1": -1},
        },
        query={"trap": kind, "no answer": kind},
    )
    answered = QueryStatus.everything(dataset.n_queries)
    answered.asked[dataset.query_ids.index("not asked")] = False
    answered.failed[dataset.query_ids.index("failed")] = True
    run = lists({q: ["d0"] for q in ("good", "trap", "all zero", "failed", "not asked")})
    gone = {"not asked in this run": ["not asked"]}
    scores = score(dataset, run, answered=answered)
    assert scores.excluded["trec"] == gone | {"without a judgement": ["no answer", "no judgement"]}
    assert scores.excluded["memory"] == gone | {
        "without relevant documents": ["no answer", "no judgement", "all zero", "all negative"]
    }
    for protocol, n in {"trec": 6, "memory": 4}.items():
        counts = {reason: len(ids) for reason, ids in scores.excluded[protocol].items()}
        assert block(scores, protocol).excluded == counts
        assert block(scores, protocol).slices["all"].n == n
    # good is found; silent, failed (whatever its ranking), trap, all zero and all negative count 0.
    assert cell(scores, "trec", "mrr").value == 1 / 6
    assert cell(scores, "trec", "mrr").answered_only == AnsweredOnly(value=1 / 5, n=5)
    assert cell(scores, "memory", "hit@1").value == 1 / 4
    queries = to_tree(scores.report.queries)
    assert queries.pop("scorable")["n"] == 6
    assert queries == {
        "in_dataset": 9,
        "asked": 8,
        "failed": 1,
        "without_ranking": 4,
        "unknown_in_run": 0,
    }
    skipped = score(dataset, run, Choices(["memory"], missing="skip"), answered=answered)
    assert skipped.excluded["memory"]["without a ranking"] == ["silent"]
    # good is found, trap and failed are not: a failure is no missing query, and counts 0.
    assert cell(skipped, "memory", "hit@1").value == 1 / 3
    assert decode(encode(scores.report), ScoreReport, "scores.json") == scores.report


@pytest.mark.parametrize("failed", [False, True])
def test_a_failed_query_counts_0_even_where_no_evidence_counts_1(
    tmp_path: Path, failed: bool
) -> None:
    def fill(out: DatasetWriter) -> None:
        out.document("d0", "text")
        out.haystack("all")
        for query in ("judged", "no evidence"):
            out.query(query, query, "all")
        out.qrel("judged", 0, qrels_set="locomo-official")

    dataset = prepared(tmp_path / "data", fill)
    answered = QueryStatus.everything(2)
    answered.failed[1] = failed
    choices = Choices(["locomo-official"])
    scores = score(dataset, lists({"judged": ["d0"]}), choices, answered=answered)
    result = cell(scores, "locomo-official", "recall@5")
    assert (result.value, result.n) == ((0.5, 2) if failed else (1.0, 2))


@pytest.mark.extensions
def test_what_is_left_out_as_missing_is_left_out_everywhere_as_its_signatures_say(
    tmp_path: Path,
) -> None:
    def fill(out: DatasetWriter) -> None:
        for i, id_ in enumerate(IDS):
            out.document(id_, f"text {id_}", timestamp=i, session=f"s{i // 2}")
        out.haystack("all")
        for q in ("found", "other", "missing"):
            out.query(q, q, "all", ability=Ability.KNOWLEDGE_UPDATE, answers=["d0"])
            out.qrel(q, 0)
            out.qrel(q, 1)

    dataset = prepared(tmp_path / "data", fill)
    run = lists({"found": ["d0", "d1", "d2"], "other": ["d1", "d2", "d0"]})
    skipped = score(dataset, run, Choices(missing="skip", answers=True))
    unasked = QueryStatus.everything(3)
    unasked.asked[2] = False
    expected = score(dataset, run, Choices(answers=True), answered=unasked)
    for scores in (skipped, expected):
        assert scores.excluded["answers"] == (
            {"without a ranking": ["missing"]} if scores is skipped else {}
        )
        assert scores["success@1", "all", "answers"] == 1 / 2
    for section in ("knowledge_update", "tokens", "abstention"):
        ours, theirs = (getattr(scores.report, section) for scores in (skipped, expected))
        assert plain(ours) == plain(theirs), section
    assert skipped.report.knowledge_update.n == 2
    assert skipped.report.tokens.recall_within_budget["500"].n == 2
    assert skipped.report.tokens.per_query.n == 2
    zero = score(dataset, run, Choices(answers=True))
    assert zero.report.knowledge_update.n == 3
    assert zero["success@1", "all", "answers"] == 1 / 3
    assert (zero.report.missing, skipped.report.missing) == ("zero", "skip")


def plain(section: Any) -> Any:
    """A section less its signature."""
    tree = to_tree(section)
    return tree and {name: value for name, value in tree.items() if name != "signature"}


def test_what_a_ranking_cannot_hold_counts_for_no_level(tmp_path: Path) -> None:
    # The query's own document, and one of another's haystack, are gold that nothing can find.
    judged = {"q": {"q": 1, "a": 1}}
    own = one_corpus(tmp_path / "own", ["a", "b", "q"], judged, exclude_self=True)
    found = cell(
        score(own, lists({"q": ["q", "a", "b"]}), Choices(["memory"], ks=(1, 2))),
        "memory",
        "recall@2",
    )
    assert (found.value, found.upper_bound, found.random_baseline) == (1 / 2, 1 / 2, 1 / 2)

    def fill(out: DatasetWriter) -> None:
        rows = [out.document(id_, id_, session=id_) for id_ in ("a", "b", "c")]
        out.haystack("two", rows[:2])
        out.haystack("three", rows)
        for haystack in ("two", "three"):
            out.query(haystack, "?", haystack)
            out.qrel(haystack, rows[0])
            out.qrel(haystack, rows[2])

    both = prepared(tmp_path / "both", fill)
    scores = score(
        both, lists({"two": ["a", "b"], "three": ["c", "b"]}), Choices(["memory"], ks=(1, 2))
    )
    for unit in ("turn", "turn>session"):
        (block_,) = [b for b in scores.report.protocols if b.level == unit]
        found = block_.slices["all"].metrics["recall@2"]
        # Half of the evidence is in one haystack, all of it in the other.
        assert found.upper_bound == pytest.approx((1 / 2 + 1) / 2)
        assert found.random_baseline == pytest.approx((1 / 2 + 2 / 3) / 2)


@pytest.mark.parametrize("judged", [{"q": 2, "a": 1, "b": 0}, {"q": 1}, {"q": 0, "a": 2, "c": -1}])
def test_levels_without_the_own_document_are_those_of_all_orders_of_the_others(
    tmp_path: Path, judged: dict[str, int]
) -> None:
    names = [
        *("recall@2", "hit@1", "recall_all@3", "precision@2", "precision_returned@3", "f1@2"),
        *("judged@2", "mrr", "map@3", "rprec", "ndcg", "ndcg_exp@2", "recall(rel=2)@2"),
    ]
    own = one_corpus(tmp_path / "own", ["a", "b", "c", "q"], {"q": judged}, exclude_self=True)
    choices = Choices(["trec"], ks=(1,), metrics=[Metric.parse(name) for name in names])

    def cells(order: Sequence[str]) -> dict[str, MetricResult]:
        found = score(own, lists({"q": order}), choices, depth=4)
        return {name: cell(found, "trec", name) for name in names}

    every = [cells(["q", *order]) for order in permutations("abc")]
    short = [cells(order) for n in (1, 2) for order in permutations("abc", n)]
    for name in names:
        values = [found[name].value for found in every]
        assert every[0][name].random_baseline == pytest.approx(np.mean(values), abs=1e-12), name
        best = max(found[name].value for found in every + short)
        assert every[0][name].upper_bound == pytest.approx(best, abs=1e-12), name


def test_a_negative_grade_is_unjudged_and_counts_for_nothing(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", IDS, {"q": {"d0": -2, "d1": 0, "d2": 2}})
    scores = score(dataset, lists({"q": ["d0", "d1", "d2", "d3"]}), Choices(["trec"], ks=(1, 2, 3)))
    values = {m: cell(scores, "trec", m).value for m in ("judged@1", "judged@2", "judged@3")}
    assert values == {"judged@1": 0, "judged@2": 1 / 2, "judged@3": pytest.approx(2 / 3)}
    assert cell(scores, "trec", "mrr").value == pytest.approx(1 / 3)
    assert cell(scores, "trec", "ndcg@3").value == pytest.approx(1 / 2)


def test_a_slice_is_there_only_where_it_holds_a_scored_query_and_its_mean_is_its_own(
    tmp_path: Path,
) -> None:
    kinds = [
        *({"ability": Ability.TEMPORAL, "category": c} for c in ("when", "", "when")),
        {"ability": Ability.ABSTENTION, "category": "trick"},
        {"ability": Ability.MULTI_HOP},
    ]
    judged = {f"q{i}": {"d0": 1} for i in range(3)} | {"q3": {}, "q4": {}}
    dataset = one_corpus(
        tmp_path / "data", IDS, judged, query={f"q{i}": k for i, k in enumerate(kinds)}
    )
    run = lists({"q0": ["d0"], "q1": ["d0"], "q2": ["d1"]})
    scores = score(dataset, run, Choices(["memory"], ks=(1,)))
    found = {
        name: (part.n, part.metrics["hit@1"].value)
        for name, part in block(scores, "memory").slices.items()
    }
    two_of_three = (3, pytest.approx(2 / 3))
    assert found == {
        "all": two_of_three,
        "answerable": two_of_three,
        "temporal": two_of_three,
        "category:when": (2, 0.5),
    }


def test_nothing_is_reported_deeper_than_the_rankings_go(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", IDS, {"q": {"d5": 1}, "r": {"d1": 1}})
    run = lists({"q": IDS[:4], "r": IDS[:2]})
    scores = score(dataset, run, Choices(["memory"], ks=(1, 4, 5), metrics=[Metric("ndcg", 9)]))
    names = block(scores, "memory").slices["all"].metrics
    assert {"hit@1", "hit@4"} <= set(names)
    assert not {"hit@5", "ndcg@9"} & set(names)
    assert any("nothing is reported at k = 5, 9" in warning for warning in scores.report.warnings)
    # A system that could have ranked nine deep was measured at five.
    deep = score(dataset, run, Choices(["memory"], ks=(5,)), depth=9)
    assert cell(deep, "memory", "hit@5").value == 1 / 2
    # Rankings as deep as the haystack is know everything.
    whole = score(dataset, lists({"q": IDS, "r": IDS}), Choices(["memory"], ks=(5, 99)))
    assert cell(whole, "memory", "hit@99").value == 1


def test_chance_and_ceiling_stand_beside_the_value(tmp_path: Path) -> None:
    judged = {"q": {"d0": 1, "d1": 1, "gone": 1}, "r": {"d2": 1}}
    dataset = one_corpus(tmp_path / "data", IDS, judged)
    scores = score(dataset, lists({"q": ["d0", "d5"], "r": ["d7", "d2"]}), Choices(ks=(1, 2)))
    found = cell(scores, "memory", "recall@2")
    assert found.value == pytest.approx((1 / 3 + 1) / 2)
    assert found.upper_bound == pytest.approx((2 / 3 + 1) / 2)
    assert found.random_baseline == pytest.approx((2 / 12 * 2 / 3 + 2 / 12) / 2)
    assert cell(scores, "memory", "recall_all@2").upper_bound == 1 / 2


def test_ties_are_shown_where_they_could_change_the_number(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", IDS, {"q": {"d0": 1}, "r": {"d1": 1}})
    run = {"q": {"d0": 2.0, "d3": 2.0, "d4": 1.0}, "r": {"d1": 9.0, "d2": 1.0}}
    scores = score(dataset, run, Choices(ks=(1, 2)))
    for protocol, value in {"trec": 1 / 2, "memory": 1}.items():
        found = cell(scores, protocol, "hit@1")
        assert found.value == value
        assert (found.ties.best, found.ties.worst) == (1, 1 / 2)
        assert found.ties.expected == pytest.approx(3 / 4, abs=0.13)
        assert cell(scores, protocol, "hit@2").ties is None


def test_dictionaries_and_files_count_by_their_scores_whatever_their_order(tmp_path: Path) -> None:
    dataset = one_corpus(
        tmp_path / "data", ["a", "b", "c"], {"q": {"b": 1}}, texts={"a": "w " * 600, "b": "w"}
    )
    run = {"q": {"a": 1.0, "c": 2.0, "b": 3.0}}
    (tmp_path / "run").write_text("q Q0 a 1 1 t\nq Q0 c 2 2 t\nq Q0 b 3 3 t\n")
    for source in (run, tmp_path / "run"):
        for ties in (None, *Ties):
            scores = score(dataset, source, Choices(ks=(1,), ties=ties))
            assert cell(scores, "memory", "hit@1").value == 1, ties
            assert cell(scores, "trec", "hit@1").value == 1, ties
        assert scores.report.tokens.recall_within_budget["500"].recall == 1


def test_repeated_documents_and_the_query_s_own_are_taken_out_before_ranking(
    tmp_path: Path,
) -> None:
    run = lists({"q": ["x", "q", "x", "b"]})
    dataset = one_corpus(tmp_path / "data", ["a", "b", "q"], {"q": {"b": 1}})
    scores = score(dataset, run, Choices(["trec"]))
    assert cell(scores, "trec", "mrr").value == 1 / 3
    assert scores.report.repeated_documents == 1
    assert scores.report.unknown_documents == 1
    assert scores.report.depth == 3
    own = one_corpus(tmp_path / "own", ["a", "b", "q"], {"q": {"b": 1}}, exclude_self=True)
    scores = score(own, run, Choices(["trec"]))
    assert cell(scores, "trec", "mrr").value == 1 / 2
    assert scores.report.dataset.excludes_own_document is True
    # The haystack is smaller by it, and so is the random baseline greater.
    assert cell(scores, "trec", "mrr").random_baseline == pytest.approx((1 + 1 / 2) / 2)


def test_a_saturated_metric_is_said_to_be(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", IDS, {"q": {"d0": 1}})
    warnings = score(dataset, lists({"q": IDS}), Choices(["memory"], ks=(1,))).report.warnings
    assert any("saturated" in warning and "hit@1" in warning for warning in warnings)
    far = lists({"q": [*IDS[1:], "d0"]})
    assert score(dataset, far, Choices(["memory"], ks=(1,))).report.warnings == []


def test_a_protocol_that_is_unknown_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", IDS, {"q": {"d0": 1}})
    run = lists({"q": IDS})
    with pytest.raises(UsageError, match="unknown protocol 'memroy'; did you mean memory"):
        score(dataset, run, Choices(["memroy"]))
    with pytest.raises(UsageError, match="needs the qrels 'locomo-official', which small"):
        score(dataset, run, Choices(["locomo-official"]))
    with pytest.raises(UsageError, match="cut-off"):
        score(dataset, run, Choices(ks=(0,)))


def test_every_protocol_that_fits_is_applied_and_a_fixed_one_keeps_its_rules(
    tmp_path: Path,
) -> None:
    dataset = with_official_key(tmp_path / "data")
    choices = Choices(ks=(2,), metrics=[Metric("map")], ties=Ties.TREC)
    scores = score(dataset, {"q": {"s1": 1.0, "s2": 1.0}}, choices)
    found = {b.protocol: b for b in scores.report.protocols}
    assert set(found) == {"memory", "trec", "locomo-official", "locomo-official-aggregate"}
    official = found["locomo-official"]
    assert official.ties == "order"
    assert set(official.slices["all"].metrics) == {f"recall@{k}" for k in (5, 10, 25, 50)}
    assert found["memory"].ties == "trec"
    assert {"map", "hit@2"} <= set(found["memory"].slices["all"].metrics)
    # Two strings of evidence, one of them malformed and never to be found.
    assert cell(scores, "locomo-official", "recall@5").value == (0.5 + 1) / 2
    assert cell(scores, "locomo-official-aggregate", "recall@5").value == (0.5 + 0) / 2


def with_official_key(folder: Path) -> Dataset:
    def fill(out: DatasetWriter) -> None:
        row = out.document("s1", "x")
        out.document("s2", "y")
        out.haystack("all")
        out.query("q", "?", "all")
        out.query("without evidence", "?", "all")
        out.qrel("q", row)
        out.qrel("q", row, evidence_id="0:s1", qrels_set="locomo-official")
        out.qrel("q", -1, evidence_id="1:D", document_id="D", qrels_set="locomo-official")

    return prepared(folder, fill)
