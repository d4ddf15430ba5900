"""What counts as evidence is said where it is chosen; a turn is shown with its neighbours."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.export import export
from harness.extensions.labelling.page import session_info
from harness.extensions.labelling.pool import pooled_system
from harness.extensions.labelling.project import (
    Candidate,
    LabelDocument,
    LabelQuery,
    LabelSettings,
    PooledSystem,
    Project,
)
from harness.extensions.labelling.session import AnnotationSession, Item
from harness.extensions.labelling.start import StartOptions, start
from harness.extensions.labelling.status import status
from harness.extensions.labelling.views import TurnContext
from harness.io.records import to_plain
from harness.schema import Ability


def judged(project: Project, name: str = "ann", **grades: int) -> None:
    """Judge the first query's documents so, and nothing of the others."""
    for document, grade in grades.items():
        line = Annotation(query="q1", document=document, grade=grade)
        project.annotation_log(name).append(line)


def with_threshold(project: Project, grade: int) -> Project:
    made = Project.read(project.folder)
    made.settings = replace(made.settings, relevance_level=grade)
    made.write()
    return made


def test_each_grade_says_whether_it_counts(project: Project) -> None:
    for least, counting in ((None, [1, 2, 3]), (2, [2, 3])):
        if least is not None:
            with_threshold(project, least)
        session = AnnotationSession(project.folder, "ann")
        grades = session_info(session)["grades"]
        yes = [one["grade"] for one in grades if one["effect"] == "counts as evidence"]
        assert yes == counting


def test_a_grade_below_the_threshold_is_no_evidence_anywhere(project: Project) -> None:
    judged(project, d1=1, d3=2)
    export(project.folder, project.folder / "before")
    lines = (project.folder / "before" / "qrels.jsonl").read_bytes()
    assert [orjson.loads(line)["grade"] for line in lines.splitlines()] == [1, 2]
    assert (
        "Grades from 1 count as evidence" in (project.folder / "before" / "README.md").read_text()
    )

    with_threshold(project, 2)
    after = export(project.folder, project.folder / "after")
    lines = (project.folder / "after" / "qrels.jsonl").read_bytes()
    assert [orjson.loads(line)["grade"] for line in lines.splitlines()] == [0, 2]
    assert after.relevance_level == 2
    assert "Grades from 2 count as evidence" in (project.folder / "after" / "README.md").read_text()

    with_threshold(project, 3)
    done = status(project.folder, metric="recall@2")
    assert (done.progress.scorable, done.progress.without_relevant) == (0, 1)


def test_marking_a_query_as_unanswerable_contradicts_only_what_counts(project: Project) -> None:
    judged(project, d1=1)
    project.annotation_log("ann").append(Annotation(query="q1", unanswerable=True))
    item = Item(query="q1", document="d1")
    assert "its documents 1 or more" in AnnotationSession(project.folder, "ann").view(item).warning
    with_threshold(project, 2)
    assert AnnotationSession(project.folder, "ann").view(item).warning == ""


def test_the_threshold_is_chosen_at_the_start_and_a_change_is_said(
    sources: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, systems = tmp_path / "labels", [pooled_system("bm25", {})]
    start(folder, *sources, systems, options=StartOptions(relevance_level=1))
    assert Project.read(folder).settings.relevance_level == 1
    judged(Project.read(folder), d1=1)
    started = start(folder, *sources, options=StartOptions(relevance_level=2))
    assert Project.read(folder).settings.relevance_level == 2
    assert any("relevance level changed from 1 to" in one for one in started.warnings)
    assert start(folder, *sources).project.settings.relevance_level == 2
    with pytest.raises(UsageError, match="--relevance-level is a grade, 1, 2 or 3, not 0"):
        start(folder, *sources, options=StartOptions(relevance_level=0))


def test_a_grade_that_does_not_answer_is_not_relevant_by_default(
    sources: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "labels"
    start(folder, *sources, [pooled_system("bm25", {})])
    grades = session_info(AnnotationSession(folder, "ann"))["grades"]
    assert [(one["meaning"], one["effect"]) for one in grades[1:3]] == [
        ("same topic, but no answer", "not evidence"),
        ("part of the answer, or an unclear answer", "counts as evidence"),
    ]
    project = Project.read(folder)
    for one in project.candidates["q1"]:
        judged(project, **{one.document: 1})
    export(folder)
    lines = (folder / "dataset" / "qrels.jsonl").read_bytes().splitlines()
    assert {orjson.loads(line)["grade"] for line in lines} == {0}


@pytest.fixture
def talk(tmp_path: Path) -> Project:
    """Two sessions of five turns; the third turn of the first is judged."""
    turns = [
        LabelDocument(id=f"{s}{i}", text=f"turn {i} of {s}", session=s, speaker="Ann")
        for i in range(1, 6)
        for s in ("s", "t")
    ]
    made = Project(
        tmp_path / "talk",
        LabelSettings(
            version=1,
            depth=1,
            seed=0,
            overlap=1.0,
            systems=[PooledSystem(name="a", retriever="a", params={}, plugins=[])],
        ),
        turns,
        [LabelQuery(id="q", text="which?", ability=Ability.TEMPORAL)],
        [Candidate(query="q", document=one, ranks={"a": 1}) for one in ("s3", "s1")],
    )
    made.write()
    return made


def texts(context: TurnContext) -> tuple[list[str], list[str]]:
    return [one.text for one in context.before], [one.text for one in context.after]


def test_a_turn_is_shown_with_those_before_and_after_it_in_its_session(talk: Project) -> None:
    session = AnnotationSession(talk.folder, "ann")
    context = session.view(Item(query="q", document="s3")).context
    assert texts(context) == (["turn 1 of s", "turn 2 of s"], ["turn 4 of s", "turn 5 of s"])
    assert texts(session.view(Item(query="q", document="s1")).context)[0] == []
    # s1 is in the pool too, and judged; nothing tells it from the others.
    session.annotate(Annotation(query="q", document="s1", grade=3))
    assert session.view(Item(query="q", document="s3")).context == context
    shown = [set(to_plain(one)) for one in context.before]
    assert shown == [{"speaker", "session", "text"}] * 2
    session.annotate(Annotation(query="q", document="s1", grade=None))


def test_neighbours_go_by_time_where_all_have_one(talk: Project) -> None:
    talk.documents = [
        replace(turn, timestamp=1_700_000_000 - 60 * at) for at, turn in enumerate(talk.documents)
    ]
    talk.write()
    context = AnnotationSession(talk.folder, "ann").view(Item(query="q", document="s3")).context
    assert texts(context) == (["turn 5 of s", "turn 4 of s"], ["turn 2 of s", "turn 1 of s"])


def test_documents_without_a_session_have_no_neighbours(project: Project) -> None:
    view = AnnotationSession(project.folder, "ann").view(Item(query="q1", document="d1"))
    assert view.context == TurnContext(before=[], after=[])


def test_the_ability_that_was_given_is_shown_and_can_be_changed(talk: Project) -> None:
    session = AnnotationSession(talk.folder, "ann")
    item = session.items[0]
    assert session.view(item).given_ability == Ability.TEMPORAL
    session.annotate(Annotation(query="q", ability=Ability.LOOKUP))
    view = AnnotationSession(talk.folder, "ann").view(item)
    assert (view.given_ability, view.ability) == (Ability.TEMPORAL, Ability.LOOKUP)
