"""What the numbers of a half-judged project can show, and what they cannot yet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness import evaluate
from harness.errors import UsageError
from harness.labelling.folder import Project
from harness.labelling.records import Candidate
from harness.labelling.render import render_status
from harness.labelling.status import status
from harness.statistics.intervals import mean_intervals

N, DOCUMENTS = 30, 6


@pytest.fixture
def large(project: Project) -> Project:
    """Thirty queries; `a` and `b` each found three of six documents."""
    rng = np.random.default_rng(1)
    project.documents = [{"id": f"d{number}", "text": "x"} for number in range(DOCUMENTS)]
    project.queries = [{"id": f"q{number}", "text": "x"} for number in range(N)]
    project.settings["k"] = 3
    project.pool = []
    for query in project.queries:
        ranks: dict[str, dict[str, int]] = {}
        for system in ("a", "b"):
            for rank, number in enumerate(rng.permutation(DOCUMENTS)[:3].tolist(), 1):
                ranks.setdefault(f"d{number}", {})[system] = rank
        project.pool += [Candidate(query["id"], d, found) for d, found in sorted(ranks.items())]
    project.write()
    return project


def judge(project: Project, name: str, queries: int) -> dict[str, dict[str, int]]:
    """`d0` and `d1` are relevant to even queries, `d0` to odd ones."""
    qrels: dict[str, dict[str, int]] = {}
    lines: list[dict[str, Any]] = []
    for one in project.pool:
        number = int(one.query[1:])
        if number < queries:
            grade = 2 if one.document in ("d0", "d1")[: 2 - number % 2] else 0
            qrels.setdefault(one.query, {})[one.document] = grade
            lines.append({"query": one.query, "document": one.document, "grade": grade})
    project.journal(name).append(*lines)
    return qrels


def test_the_metric_and_its_interval_are_those_of_every_score(
    large: Project,
) -> None:
    qrels = {q: of for q, of in judge(large, "ann", 20).items() if any(of.values())}
    found = status(large.folder, metric="ndcg@3", precision=0.1)
    run = {
        query: {c.document: -float(c.ranks["a"]) for c in large.candidates[query] if "a" in c.ranks}
        for query in qrels
    }
    values = evaluate(qrels, run, "ndcg@3").per_query["ndcg@3"]
    one = found["scores"]["systems"][0]
    (expected,) = mean_intervals(values, bounds=(0, 1))
    low, high = expected.low, expected.high
    assert found["finished"]["scorable"] == one["n"] == len(values)
    assert (one["value"], one["low"], one["high"]) == pytest.approx((values.mean(), low, high))

    wanted = one["needed"]
    spread = values.std(ddof=1)
    for n, narrow in ((wanted, True), (wanted - 1, False)):
        reach = stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n)
        assert bool(reach <= 0.1) is narrow
    needed = found["scores"]["needed"]
    assert needed["queries"] == max(s["needed"] for s in found["scores"]["systems"])
    assert needed["more_scored"] == needed["queries"] - len(values)
    share = len(values) / 20
    assert needed["more_judged"] == math.ceil(needed["more_scored"] / share)
    assert needed["new_queries"] == max(needed["more_judged"] - 10, 0)
    assert f"{needed['judgements']} judgements by one annotator" in " ".join(
        render_status(found).split()
    )
    (pair,) = found["scores"]["differences"]
    assert (pair["a"], pair["b"], pair["n"]) == ("a", "b", len(values))
    assert pair["detectable"] > 0


def test_what_cannot_be_told_yet_is_not_told(large: Project) -> None:
    found = status(large.folder)
    assert found["scores"]["metric"] == "ndcg@3"
    assert [one["value"] for one in found["scores"]["systems"]] == [None, None]
    assert found["scores"]["needed"] is None
    assert "cannot be told yet" in render_status(found)
    assert "nobody has judged yet" in render_status(found)
    judge(large, "ann", 1)
    found = status(large.folder)
    assert [one["half_width"] for one in found["scores"]["systems"]] == [None, None]
    assert "cannot be told yet" in render_status(found)
    assert "not measurable" in render_status(found)


def test_who_judged_what_and_how_far_they_agree(large: Project) -> None:
    judge(large, "ann", 30)
    judge(large, "bob", 10)
    kept = large.pool[0]
    large.journal("bob").append({"query": kept.query, "document": kept.document, "grade": 1})
    found = status(large.folder)
    ann, bob = found["annotators"]
    assert (ann["left"], ann["queries_left"], bob["queries_left"]) == (0, 0, 20)
    assert found["conflicts"]["open"] == {"how relevant": 1}
    alpha = found["agreement"][0]
    assert (alpha["of"], alpha["measure"], alpha["queries"]) == ("grades", "alpha, ordinal", 10)
    assert 0.9 < alpha["value"] < 1
    assert found["scores"]["open_grades_taken_lower"] == 1
    assert found["scores"]["systems"][0]["judged"] == 1.0
    assert "1 open (1 how relevant)" in render_status(found)


def test_queries_that_share_haystacks_are_no_sample_of_their_own(large: Project) -> None:
    for number, query in enumerate(large.queries):
        query["haystack"] = f"h{number % 5}"
    for document in large.documents:
        document["haystack"] = [f"h{number}" for number in range(5)]
    large.write()
    judge(large, "ann", 30)
    found = status(large.folder, precision=0.02)
    one = found["scores"]["systems"][0]
    assert (one["needed_of"], found["scores"]["needed"]["units_now"]) == ("haystacks", 5)
    assert "over 5 clusters" in render_status(found)


def test_wrong_choices_are_one_line(large: Project) -> None:
    for words, choice in (
        ("looks deeper than the pool", {"metric": "ndcg@10"}),
        ("looks deeper than the pool", {"metric": "map"}),
        ("unknown metric", {"metric": "magic@3"}),
        ("half-width", {"precision": 0.0}),
        ("half-width", {"precision": math.nan}),
    ):
        with pytest.raises(UsageError, match=words):
            status(large.folder, **choice)  # type: ignore[arg-type]
