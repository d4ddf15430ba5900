"""What the numbers of a half-judged project can show, and what they cannot yet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from harness import evaluate
from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    Candidate,
    LabelDocument,
    LabelQuery,
    Project,
)
from harness.extensions.labelling.render import render_status
from harness.extensions.labelling.reports import ScoreStatus, StatusReport
from harness.extensions.labelling.status import status
from harness.stats.intervals import mean_intervals

N, DOCUMENTS = 30, 6


@pytest.fixture
def large(project: Project) -> Project:
    """Thirty queries; `a` and `b` each found three of six documents."""
    rng = np.random.default_rng(1)
    project.documents = [
        LabelDocument(id=f"d{number}", text=f"x{number}") for number in range(DOCUMENTS)
    ]
    project.queries = [LabelQuery(id=f"q{number}", text="x") for number in range(N)]
    project.settings = replace(project.settings, depth=3)
    project.pool = []
    for query in project.queries:
        ranks: dict[str, dict[str, int]] = {}
        for system in ("a", "b"):
            for rank, number in enumerate(rng.permutation(DOCUMENTS)[:3].tolist(), 1):
                ranks.setdefault(f"d{number}", {})[system] = rank
        project.pool += [
            Candidate(query=query.id, document=d, ranks=found) for d, found in sorted(ranks.items())
        ]
    project.write()
    return project


def scores_of(report: StatusReport) -> ScoreStatus:
    assert report.scores is not None
    return report.scores


def judge(project: Project, name: str, queries: int) -> dict[str, dict[str, int]]:
    """`d0` and `d1` are relevant to even queries, `d0` to odd ones."""
    qrels: dict[str, dict[str, int]] = {}
    lines: list[Annotation] = []
    for one in project.pool:
        number = int(one.query[1:])
        if number < queries:
            grade = 2 if one.document in ("d0", "d1")[: 2 - number % 2] else 0
            qrels.setdefault(one.query, {})[one.document] = grade
            lines.append(Annotation(query=one.query, document=one.document, grade=grade))
    project.annotation_log(name).append(*lines)
    return qrels


def test_the_metric_and_its_interval_are_those_of_every_score(
    large: Project,
) -> None:
    qrels = {q: of for q, of in judge(large, "ann", 20).items() if any(of.values())}
    found = status(large.folder, metric="ndcg@3", half_width=0.1)
    run = {
        query: {c.document: -float(c.ranks["a"]) for c in large.candidates[query] if "a" in c.ranks}
        for query in qrels
    }
    values = evaluate(qrels, run, "ndcg@3").per_query["ndcg@3"]
    one = scores_of(found).systems[0]
    (expected,) = mean_intervals(values, bounds=(0, 1))
    low, high = expected.low, expected.high
    assert found.progress.scorable == one.n == len(values)
    assert (one.value, one.low, one.high) == pytest.approx((values.mean(), low, high))

    wanted = one.required
    assert wanted is not None
    spread = values.std(ddof=1)
    for n, narrow in ((wanted, True), (wanted - 1, False)):
        reach = stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n)
        assert bool(reach <= 0.1) is narrow


def test_what_cannot_be_told_yet_is_not_told(large: Project) -> None:
    found = status(large.folder)
    assert scores_of(found).metric == "ndcg@3"
    assert [one.value for one in scores_of(found).systems] == [None, None]
    assert "cannot be estimated yet" in render_status(found)
    assert "no judgements yet" in render_status(found)
    assert render_status(found).endswith(
        f"next: harness label open {large.folder} --annotator NAME"
    )
    judge(large, "ann", 1)
    found = status(large.folder)
    assert [one.low for one in scores_of(found).systems] == [None, None]
    assert "cannot be estimated yet" in render_status(found)
    assert "not measurable" in render_status(found)


def test_who_judged_what_and_how_far_they_agree(large: Project) -> None:
    judge(large, "ann", 30)
    judge(large, "bob", 10)
    kept = large.pool[0]
    large.annotation_log("bob").append(
        Annotation(query=kept.query, document=kept.document, grade=1)
    )
    found = status(large.folder)
    ann, bob = found.annotators
    assert (ann.remaining, ann.queries_remaining, bob.queries_remaining) == (0, 0, 20)
    assert found.conflicts.open == {"how relevant": 1}
    alpha = found.agreement[0]
    assert (alpha.variable, alpha.measure, alpha.queries) == ("grades", "alpha, ordinal", 10)
    assert 0.9 < (alpha.value or 0) < 1
    assert found.conflicts.grades == 1
    assert scores_of(found).systems[0].judged == 1.0
    assert "1 open (1 how relevant)" in render_status(found)
    assert found.next_command == f"harness label open {large.folder} --annotator bob"


def test_two_grades_of_one_text_finish_no_query(large: Project) -> None:
    large.documents[1] = replace(large.documents[1], text=large.documents[0].text)
    large.pool = [Candidate(query="q0", document=f"d{number}") for number in range(3)]
    large.write()
    for name, documents in (("ann", "d0 d1"), ("bob", "d0 d2")):  # as older projects graded copies
        lines = [Annotation(query="q0", document=one, grade=2) for one in documents.split()]
        large.annotation_log(name).append(*lines)
    answerable = [
        one for one in status(large.folder).agreement if one.variable == "cannot be answered"
    ]
    assert answerable == []  # ann has not finished it


def test_generated_queries_that_nobody_judged_are_not_finished(large: Project) -> None:
    large.pool = [replace(one, ranks={}, proposal="construction") for one in large.pool]
    large.write()
    grades = [Annotation(query=c.query, document=c.document, grade=3) for c in large.pool]
    large.annotation_log(CONSTRUCTION).append(*grades)
    found = status(large.folder)
    assert (found.progress.scorable, found.progress.unfinished, found.unreviewed) == (0, N, N)
    assert "harness label open" in found.next_command
    large.annotation_log("ann").append(*grades)
    found = status(large.folder)
    assert (found.progress.scorable, found.progress.unfinished, found.unreviewed) == (N, 0, 0)
    assert found.next_command == f"harness label export {large.folder}"


def test_queries_that_share_haystacks_are_no_sample_of_their_own(large: Project) -> None:
    large.queries = [
        replace(query, haystack=f"h{number % 5}") for number, query in enumerate(large.queries)
    ]
    every = [f"h{number}" for number in range(5)]
    large.documents = [replace(document, haystack=every) for document in large.documents]
    large.write()
    judge(large, "ann", 30)
    found = status(large.folder, half_width=0.02)
    one = scores_of(found).systems[0]
    assert one.required is not None
    assert (one.clustered, one.clusters) == (True, 5)
    assert "over 5 haystacks" in render_status(found)


def test_wrong_choices_are_one_line(large: Project) -> None:
    for words, choice in (
        ("looks deeper than the pool", {"metric": "ndcg@10"}),
        ("looks deeper than the pool", {"metric": "map"}),
        ("unknown metric", {"metric": "magic@3"}),
        ("--half-width", {"half_width": 0.0}),
        ("--half-width", {"half_width": math.nan}),
    ):
        with pytest.raises(UsageError, match=words):
            status(large.folder, **choice)  # type: ignore[arg-type]
