"""From judgements to a dataset that can be run, and what becomes of conflicts."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from harness import Ability, Settings, open_dataset, run, score_run
from harness.errors import UsageError
from harness.extensions.labelling.adjudication import Adjudication
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.export import export
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    Candidate,
    LabelDocument,
    Project,
    QueryEdit,
    Split,
)
from harness.extensions.labelling.render import render_status
from harness.extensions.labelling.reports import ConflictSummary
from harness.extensions.labelling.session import AnnotationSession
from harness.extensions.labelling.status import status

pytestmark = pytest.mark.usefixtures("home")

KEY = {("q1", "d1"): 3, ("q1", "d3"): 0, ("q2", "d2"): 2, ("q2", "d4"): 1}


def judge(
    project: Project, name: str, grades: dict[tuple[str, str], int], *more: Annotation
) -> None:
    lines = [Annotation(query=q, document=d, grade=g) for (q, d), g in grades.items()]
    project.annotation_log(name).append(*lines, *more)


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def exported(project: Project) -> Path:
    export(project.folder)
    return project.folder / "dataset"


@pytest.fixture
def judged(project: Project) -> Project:
    judge(
        project,
        "ann",
        KEY,
        Annotation(query="q3", unanswerable=True),
        Annotation(query="q2", ability=Ability.KNOWLEDGE_UPDATE),
    )
    return project


def test_the_export_is_a_labelled_dataset_that_runs(judged: Project, tmp_path: Path) -> None:
    made = export(judged.folder)
    dataset = open_dataset("labelled", source=judged.folder / "dataset")
    queries = {q.id: q for q in (dataset.query(row) for row in range(dataset.n_queries))}
    assert queries["q2"].ability is Ability.KNOWLEDGE_UPDATE
    assert queries["q3"].ability is Ability.ABSTENTION
    assert {
        (j["query"], j["document"]): j["grade"]
        for j in lines(judged.folder / "dataset" / "qrels.jsonl")
    } == KEY
    scores = score_run(run(dataset, "bm25", Settings(k=10), out=tmp_path / "results"), dataset)
    memory = next(one for one in scores.report.protocols if one.protocol == "memory")
    assert memory.slices["all"].n == 2
    assert memory.excluded == {"without relevant documents": 1}
    assert made.counts.grades == {"0": 1, "1": 1, "2": 1, "3": 1}
    readme = (judged.folder / "dataset" / "README.md").read_text("utf-8")
    assert "fewer than two annotators judged" in readme
    assert "* unanswerable queries (ability abstention): 1" in readme


def test_what_queries_carry_besides_is_passed_over_and_no_judgement_of_theirs_counts(
    judged: Project,
) -> None:
    extra: dict[str, object] = {"source": "mail", "relevant": ["d4"]}
    judged.queries = [replace(query, extra=extra) for query in judged.queries]
    judged.write()
    dataset = open_dataset("labelled", source=exported(judged))
    names, key = dataset.query_ids, dataset.qrels()
    pairs = zip((names[i] for i in key.query), key.document_id.to_pylist(), strict=True)
    assert dict(zip(pairs, key.grade.tolist(), strict=True)) == KEY


def test_edits_and_guidelines_are_exported_with_the_edited_text(
    judged: Project, tmp_path: Path
) -> None:
    judged.folder.joinpath("guidelines.md").write_text("A date counts.\n", "utf-8")
    edit = QueryEdit(text="When?", annotator="ann", time="2026-01-05T09:30:00+00:00", pooled=True)
    first, *others = judged.queries
    judged.queries = [replace(first, edits=[edit]), *others]
    judged.write()
    out = tmp_path / "out"
    made = export(judged.folder, out, conflicts="lower")
    lines = map(orjson.loads, (out / "queries.jsonl").read_bytes().splitlines())
    (line,) = (one for one in lines if "edits" in one)
    assert (line["text"], line["edits"][0]["text"]) == (first.text, "When?")
    assert made.counts.edited == 1
    assert "queries whose text an annotator changed" in (out / "README.md").read_text()
    assert (out / "guidelines.md").read_text() == "A date counts.\n"
    assert open_dataset("labelled", source=out).n_queries == made.counts.queries


def test_open_conflicts_are_refused_or_bounded(judged: Project, tmp_path: Path) -> None:
    judge(judged, "bob", {**KEY, ("q2", "d2"): 0, ("q3", "d1"): 2, ("q3", "d3"): 0})
    with pytest.raises(UsageError, match=r"2 conflicts are open .*label adjudicate"):
        export(judged.folder)
    low = export(judged.folder, tmp_path / "low", conflicts="lower")
    export(judged.folder, tmp_path / "high", conflicts="higher")

    def grades(folder: Path) -> dict[tuple[str, str], int]:
        return {(j["query"], j["document"]): j["grade"] for j in lines(folder / "qrels.jsonl")}

    assert grades(tmp_path / "low") == {**KEY, ("q2", "d2"): 0, ("q3", "d1"): 0, ("q3", "d3"): 0}
    assert grades(tmp_path / "high") == {**KEY, ("q3", "d1"): 2, ("q3", "d3"): 0}
    assert lines((tmp_path / "low") / "queries.jsonl")[2]["ability"] == "abstention"
    assert "ability" not in lines((tmp_path / "high") / "queries.jsonl")[2]
    assert low.counts.lowered_to_0 == 1
    assert low.conflicts == ConflictSummary(total=2, resolved=0, open=2, policy="lower")
    assert "the lower grade counts" in ((tmp_path / "low") / "README.md").read_text("utf-8")
    judged.adjudication_log().append(
        Annotation(query="q2", document="d2", grade=1), Annotation(query="q3", unanswerable=False)
    )
    resolved = export(judged.folder)
    assert grades(judged.folder / "dataset")[("q2", "d2")] == 1
    assert resolved.conflicts.resolved == 2
    assert [one.measure for one in resolved.agreement][:2] == [
        "alpha, ordinal",
        "kappa, quadratic",
    ]


def test_who_contradicts_himself_has_a_conflict(judged: Project) -> None:
    judge(judged, "ann", {("q3", "d1"): 2})
    with pytest.raises(UsageError, match="1 conflict is open"):
        export(judged.folder)


def test_unfinished_queries_are_left_out_and_counted(judged: Project) -> None:
    judge(judged, "ann", {})
    judged.annotation_log("ann").append(Annotation(query="q2", document="d4", grade=None))
    made = export(judged.folder)
    assert [query["id"] for query in lines(judged.folder / "dataset" / "queries.jsonl")] == [
        "q1",
        "q3",
    ]
    assert made.counts.excluded == 1
    whole = export(judged.folder, unfinished=True)
    assert whole.counts.unfinished == 1
    assert whole.counts.queries == 3


def test_queries_without_anything_relevant_are_counted(project: Project) -> None:
    judge(project, "ann", {**KEY, ("q3", "d1"): 0, ("q3", "d3"): 0})
    made = export(project.folder)
    assert made.counts.without_relevant == 1
    assert "queries without a relevant document in the pool: 1" in (
        project.folder / "dataset" / "README.md"
    ).read_text("utf-8")


def test_splits_hold_their_queries_those_without_an_answer_too(judged: Project) -> None:
    splits: tuple[Split, ...] = ("test", "dev", "dev")
    judged.queries = [
        replace(query, split=split) for query, split in zip(judged.queries, splits, strict=True)
    ]
    judged.write()
    made = export(judged.folder)
    assert made.splits == {"dev": 2, "test": 1}
    dataset = open_dataset("labelled", source=judged.folder / "dataset")
    assert dataset.query_ids == ["q1"]
    dev = open_dataset("labelled", source=judged.folder / "dataset", split="dev")
    assert dev.query_ids == ["q2", "q3"]


def test_a_generated_query_that_nobody_judged_is_exported_as_unreviewed(
    project: Project,
) -> None:
    judge(project, CONSTRUCTION, {("q1", "d1"): 3, ("q2", "d2"): 3})
    project.pool = [
        Candidate(query="q1", document="d1", proposal="construction"),
        Candidate(query="q1", document="d3", proposal="field"),
        Candidate(query="q2", document="d2", proposal="construction"),
    ]
    project.write()
    judge(project, "ann", {("q2", "d2"): 1})
    assert export(project.folder).counts.unreviewed == 0
    assert {j["query"] for j in lines(project.folder / "dataset" / "qrels.jsonl")} == {"q2"}
    made = export(project.folder, unfinished=True)
    assert {
        (j["query"], j["document"]): j["grade"]
        for j in lines(project.folder / "dataset" / "qrels.jsonl")
    } == {
        ("q1", "d1"): 3,
        ("q2", "d2"): 1,
    }
    assert (made.counts.unreviewed, made.counts.unfinished) == (1, 1)
    readme = (project.folder / "dataset" / "README.md").read_text("utf-8")
    assert "UNREVIEWED generated queries" in readme


def test_a_rejection_is_a_conflict_with_who_judged_the_query(project: Project) -> None:
    pairs = [(one.query, one.document) for one in project.pool]
    judge(project, "ann", dict.fromkeys(pairs, 2))
    judge(project, "bob", {pair: 0 if pair[0] == "q1" else 2 for pair in pairs})
    with pytest.raises(UsageError, match="2 conflicts are open"):
        export(project.folder)
    project.annotation_log("bob").append(Annotation(query="q1", rejected=True))
    with pytest.raises(UsageError, match=r"1 conflict is open \(1 of rejected\)"):
        export(project.folder)
    assert "1 open (1 rejected, but judged by others)" in render_status(status(project.folder))
    cid = Adjudication(project.folder, "cid")
    (item,) = cid.items
    votes = [{"annotator": "ann", "value": "judged"}, {"annotator": "bob", "value": "rejected"}]
    assert (cid.view(item).votes, cid.view(item).choices) == (votes, ["rejected"])
    cid.annotate(Annotation(query="q1", rejected=False))
    with pytest.raises(UsageError, match=r"2 conflicts are open \(2 of grade\)"):
        export(project.folder)
    cid.annotate(Annotation(query="q1", rejected=True))
    made = export(project.folder)
    assert (made.counts.queries, made.counts.rejected) == (2, 1)
    assert "q1" not in {q["id"] for q in lines(project.folder / "dataset" / "queries.jsonl")}
    project.annotation_log("bob").append(Annotation(query="q1", rejected=None))
    with pytest.raises(UsageError, match="2 conflicts are open"):
        export(project.folder)


def test_copies_are_looked_for_without_a_text_for_each_haystack(project: Project) -> None:
    haystacks = [f"h{number}" for number in range(50)]
    texts = [f"{number} " * 500 for number in (*range(100), 7)]
    project.documents = [
        LabelDocument(id=f"d{at}", text=text, haystack=haystacks) for at, text in enumerate(texts)
    ]
    project.queries = [replace(query, haystack="h1") for query in project.queries]
    project.pool = [Candidate(query="q1", document="d7"), Candidate(query="q2", document="d8")]
    tracemalloc.start()
    found = project.with_copies()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(one.query, one.document) for one in found[2:]] == [("q1", "d100")]
    assert peak < 10 * sum(map(len, texts))


def test_equal_texts_are_judged_once_and_get_the_same_grade(project: Project) -> None:
    text, more = project.documents[0].text, {"timestamp": "2026-01-01"}
    copies = [LabelDocument(id=name, text=f" {text}\n") for name in ("copy", "unpooled")]
    other = [
        LabelDocument(id="dated", text=text, **more),  # type: ignore[arg-type]
        LabelDocument(id="turn", text=text, session="s"),
    ]
    project.documents += [*copies, *other]
    project.pool.append(Candidate(query="q1", document="copy", ranks={"a": 3}))
    project.pool = project.with_copies()
    project.write()
    session = AnnotationSession(project.folder, "ann")
    assert {i.document for i in session.items if i.query == "q1"} == {"d1", "d3"}
    judge(project, "ann", {("q1", "d1"): 3, ("q1", "d3"): 0})
    export(project.folder)
    grades = {j["document"]: j["grade"] for j in lines(project.folder / "dataset" / "qrels.jsonl")}
    assert grades == {"d1": 3, "d3": 0, "copy": 3, "unpooled": 3}
    judge(project, "bob", {("q1", "d1"): 0, ("q1", "d3"): 0})
    export(project.folder, conflicts="lower")
    found = lines(project.folder / "dataset" / "qrels.jsonl")
    assert {j["document"]: j["grade"] for j in found}["unpooled"] == 0


def test_nothing_of_somebody_elses_is_replaced(judged: Project, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for out in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(UsageError, match="contains other files"):
            export(judged.folder, out)
    export(judged.folder, tmp_path / "out")
    export(judged.folder, tmp_path / "out")


def test_nothing_judged_is_nothing_to_export(project: Project) -> None:
    with pytest.raises(UsageError, match="no query is finished"):
        export(project.folder)
