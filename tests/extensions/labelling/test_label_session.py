"""What an annotator is asked, in which order, and what a key press comes to."""

from __future__ import annotations

import msgspec
import pytest

from harness.errors import UsageError
from harness.extensions.labelling.adjudication import Adjudication
from harness.extensions.labelling.annotations import Annotation, Kind
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    Candidate,
    LabelDocument,
    Project,
    QueryOrigin,
)
from harness.extensions.labelling.session import AnnotationSession, Item
from harness.schema import Ability


def grade(query: str, document: str | None, value: int | None) -> Annotation:
    return Annotation(query=query, document=document, grade=value)


def item(query: str, document: str | None = None, kind: Kind | None = None) -> Item:
    return Item(query=query, document=document, kind=kind)


def judge_all(session: AnnotationSession, value: int = 0) -> None:
    for one in list(session.items):
        if one.document is not None:
            session.annotate(grade(one.query, one.document, value))


def test_two_annotators_see_the_same_in_orders_of_their_own(project: Project) -> None:
    many = [f"d{number}" for number in range(40)]
    project.documents = [LabelDocument(id=id_, text=id_) for id_ in many]
    project.pool = [
        Candidate(query="q1", document=id_, ranks={"a": rank}) for rank, id_ in enumerate(many, 1)
    ]
    project.write()
    ann, bob = (AnnotationSession(project.folder, name) for name in ("ann", "bob"))
    of_q1 = [one for one in ann.items if one.query == "q1"]
    assert sorted(ann.items, key=str) == sorted(bob.items, key=str)
    assert of_q1 != [one for one in bob.items if one.query == "q1"]
    assert [one.query for one in ann.items] == [one.query for one in bob.items]
    assert of_q1 != [item("q1", id_) for id_ in many]
    assert ann.items == AnnotationSession(project.folder, "ann").items


def test_nothing_shown_tells_systems_ranks_or_other_annotators(project: Project) -> None:
    bob = AnnotationSession(project.folder, "bob")
    judge_all(bob, 3)
    ann = AnnotationSession(project.folder, "ann")
    views = [ann.view(one) for one in ann.items]
    assert {view.grade for view in views} == {None}
    assert not any(word in str(view) for view in views for word in ("rank", "'a'", "bob"))


def test_work_goes_on_behind_the_newest_judgement(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first, second, third = session.items[:3]
    assert session.current_item() == first
    session.annotate(grade(second.query, second.document, 2))
    again = AnnotationSession(project.folder, "ann")
    assert again.current_item() == third
    assert again.view(second).grade == 2
    assert (again.view(third).done, again.view(third).total) == (1, 6)
    for one in (*again.items[2:], *again.items[:1]):
        again.annotate(grade(one.query, one.document, 0))
    view = again.view(again.items[0])
    assert (view.done, view.total) == (6, 6)


def test_a_query_that_cannot_be_answered_is_done_and_contradicts_grades(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first = session.items[0]
    session.annotate(Annotation(query=first.query, unanswerable=True))
    view = session.view(first)
    assert (view.done, view.next_open.query != first.query, view.warning) == (2, True, "")
    session.annotate(grade(first.query, first.document, 1))
    assert "graded 1 of its documents 1 or more" in session.view(first).warning
    session.annotate(Annotation(query=first.query, unanswerable=None))
    assert session.view(first).warning == ""


def test_a_query_without_candidates_is_asked_once(project: Project) -> None:
    project.pool = [one for one in project.pool if one.query != "q3"]
    project.write()
    session = AnnotationSession(project.folder, "ann")
    assert item("q3") in session.items
    assert session.view(item("q3")).choices == ["unanswerable", "rejected", "ability", "note"]
    session.annotate(Annotation(query="q3", unanswerable=False))
    assert session.view(item("q3")).done == 1


def test_undo_survives_the_end_of_the_session(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first, other = session.items[:2]
    session.annotate(grade(first.query, first.document, 1))
    session.annotate(grade(first.query, first.document, 3))
    session.annotate(Annotation(query=first.query, ability=Ability.TEMPORAL))
    again = AnnotationSession(project.folder, "ann")
    assert again.undo(other) == other  # of the query as a whole: one stays where one is
    assert again.undo() == first
    assert again.view(first).grade == 1
    assert again.undo() == first
    assert again.undo() is None
    assert again.annotations.grades == {}


def test_the_same_judgement_sent_twice_is_one(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first = session.items[0]
    session.annotate(grade(first.query, first.document, 1))
    session.annotate(grade(first.query, first.document, 1))
    assert len(project.annotation_log("ann").lines) == 1


def test_what_is_not_in_the_pool_is_refused(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    for line in (grade("q1", "d9", 1), grade("q9", "d1", 1), grade("q1", "d1", 5)):
        with pytest.raises(UsageError):
            session.annotate(line)
    for name in ("", "../ann", ".hidden", "a/b", CONSTRUCTION):
        with pytest.raises(UsageError, match="--annotator"):
            AnnotationSession(project.folder, name)


def test_only_the_shared_queries_are_judged_twice(project: Project) -> None:
    project.settings = msgspec.structs.replace(project.settings, overlap=0.3)
    project.write()
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    shared = ann.items[0].query
    assert bob.items[0].query == shared
    own = next(one for one in bob.items if one.query != shared)
    bob.annotate(grade(own.query, own.document, 1))
    ann.refresh()
    assert own.query not in {one.query for one in ann.items}
    assert {shared} < {one.query for one in ann.items}
    bob.refresh()
    assert own.query in {one.query for one in bob.items}


def test_what_construction_judged_is_shown_to_a_person(project: Project) -> None:
    project.annotation_log(CONSTRUCTION).append(grade("q1", "d1", 3))
    session = AnnotationSession(project.folder, "ann")
    assert item("q1", "d1") in session.items
    assert session.view(item("q1", "d1")).grade is None
    assert project.annotators() == []


def test_a_rejected_query_is_done(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first = session.items[0]
    session.annotate(Annotation(query=first.query, rejected=True))
    view = session.view(first)
    assert (view.done, view.rejected, view.next_open.query != first.query) == (2, True, True)
    session.undo()
    assert session.view(first).done == 0


def test_a_query_that_another_annotator_rejected_is_not_asked(project: Project) -> None:
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    ann.annotate(Annotation(query="q1", rejected=True))
    bob.refresh()
    assert {one.query for one in bob.items} == {"q2", "q3"}
    assert item("q1", "d1") in AnnotationSession(project.folder, "ann").items  # to take it back
    project.adjudication_log().append(Annotation(query="q1", rejected=False))
    bob.refresh()
    assert {one.query for one in bob.items} == {"q1", "q2", "q3"}


def test_a_query_is_edited_for_all_until_another_annotator_judges_it(project: Project) -> None:
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    ann.annotate(grade("q1", "d1", 3))
    checks = project.folder / "leakage.json"
    checks.write_text("{}")
    ann.reword("q1", " When does it  sail? ")
    ann.reword("q1", "When does the boat sail?")
    assert not checks.exists()  # it was of the text before
    bob.refresh()
    view = bob.view(item("q1", "d1"))
    assert (view.text, ann.view(item("q1", "d1")).why_fixed) == ("When does the boat sail?", "")
    with pytest.raises(UsageError, match="another annotator judged it"):
        bob.reword("q1", "x")
    before = [(one.text, one.annotator, one.pooled) for one in view.edits]
    assert before == [
        ("When does the ferry leave?", "ann", False),
        ("When does it sail?", "ann", False),
    ]
    assert ann.annotations.grades == {("q1", "d1"): 3}
    bob.annotate(grade("q1", "d1", 2))
    bob.reword("q2", "x")
    for session, query, text, why in (
        (ann, "q1", "x", "another annotator judged it"),
        (ann, "q2", "", "the new one is empty"),
        (ann, "q2", "What is the name of the captain?", "'q3' has the new one"),
    ):
        session.refresh()
        with pytest.raises(UsageError, match=why):
            session.reword(query, text)


def test_a_document_outside_the_pool_is_found_added_and_judged_by_all(project: Project) -> None:
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    found = {one.item.document: one.pooled for one in ann.search("q1", "dentist ferries")}
    assert found == {"d1": True, "d2": False, "d3": True, "d4": False}
    added = ann.add_candidate(item("q1", "d4"))
    assert added == ann.add_candidate(item("q1", "d4"))
    bob.refresh()
    assert added in bob.items
    (one,) = (c for c in bob.project.pool if c.proposal)
    assert (one.document, one.proposal, one.annotator) == ("d4", "search", "ann")
    assert one.time
    with pytest.raises(UsageError, match="'d9' cannot be added"):
        ann.add_candidate(item("q1", "d9"))


def test_the_list_of_queries_has_progress_marks_edits_and_own_notes(project: Project) -> None:
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    bob.annotate(Annotation(query="q1", note="not for ann"))
    ann.annotate(grade("q1", "d1", 3))
    ann.annotate(Annotation(query="q1", document="d3", note="late?"))
    ann.annotate(Annotation(query="q2", rejected=True))
    ann.reword("q3", "Who is the captain?")
    ann.refresh()
    by_text = {one.text: one for one in ann.overview()}
    first, second = by_text["When does the ferry leave?"], by_text["When is the dentist?"]
    assert (first.done, first.total, first.item) == (1, 2, item("q1", "d3"))
    assert [one["note"] for one in first.notes] == ["late?"]
    assert (second.rejected, by_text["Who is the captain?"].edited) == (True, True)


def test_no_query_is_reworded_into_a_leak(project: Project) -> None:
    origin = QueryOrigin(method="model", documents=["d1"], model="m")
    project.queries = [
        msgspec.structs.replace(project.query["q1"], generated=origin, answers=["at seven"]),
        project.query["q2"],
    ]
    project.pool = [
        Candidate(query=q, document="d1", proposal="construction") for q in ("q1", "q2")
    ]
    project.write()
    project.annotation_log(CONSTRUCTION).append(grade("q1", "d1", 3))
    ann = AnnotationSession(project.folder, "ann")
    for text, why in (
        (
            "Is it that the ferry to Bastø leaves?",
            "quotes its document, 'the ferry to Bastø leaves'",
        ),
        ("Why do seven leave?", "contains its answer"),
        ("The dentist: when is it?", "'q2' asks the same as the new one"),
    ):
        with pytest.raises(UsageError, match=why):
            ann.reword("q1", text)
    assert Project.read(project.folder).queries == project.queries
    ann.reword("q1", "When does the boat go?")


def test_a_pool_that_grew_is_taken_in_while_one_works(project: Project) -> None:
    session = AnnotationSession(project.folder, "ann")
    first = session.items[0]
    project.pool.append(Candidate(query="q3", document="d4", ranks={"b": 2}))
    project.write()
    session.refresh()
    assert item("q3", "d4") in session.items
    assert session.view(first).total == 7


def test_conflicts_are_shown_side_by_side_and_resolved(project: Project) -> None:
    ann, bob = AnnotationSession(project.folder, "ann"), AnnotationSession(project.folder, "bob")
    for one in ann.items:
        ann.annotate(grade(one.query, one.document, 0))
        if one.query != "q3":
            bob.annotate(grade(one.query, one.document, 2 if one.document == "d1" else 0))
    bob.annotate(grade("q3", "d1", 1))
    bob.annotate(Annotation(query="q3", unanswerable=True))
    for name, session in ((Ability.TEMPORAL, ann), (Ability.LOOKUP, bob)):
        session.annotate(Annotation(query="q2", ability=name))
    adjudication = Adjudication(project.folder, "cid")
    assert set(adjudication.items) == {
        item("q1", "d1", "grade"),
        item("q3", "d1", "grade"),
        item("q3", None, "unanswerable"),
        item("q2", None, "ability"),
    }
    view = adjudication.view(item("q1", "d1", "grade"))
    assert view.votes == [{"annotator": "ann", "value": 0}, {"annotator": "bob", "value": 2}]
    assert adjudication.view(item("q3", None, "unanswerable")).evidence[0]["votes"] == [
        {"annotator": "ann", "value": 0},
        {"annotator": "bob", "value": 1},
    ]
    with pytest.raises(UsageError, match="no such conflict"):
        adjudication.annotate(grade("q2", "d2", 1))
    adjudication.annotate(grade("q1", "d1", 1))
    # This closes the grades of q3, too.
    adjudication.annotate(Annotation(query="q3", unanswerable=True))
    adjudication.refresh()
    assert [(one.kind, one.query) for one in adjudication.items] == [
        ("grade", "q1"),
        ("ability", "q2"),
        ("unanswerable", "q3"),
    ]
    assert adjudication.current_item() == item("q2", None, "ability")
    assert project.adjudication_log().lines[0].adjudicator == "cid"
    assert adjudication.undo() == item("q3", None, "unanswerable")
    assert item("q3", "d1", "grade") in adjudication.items


def test_nothing_to_resolve_is_an_error(project: Project) -> None:
    judge_all(AnnotationSession(project.folder, "ann"))
    with pytest.raises(UsageError, match="no conflicts; only one annotator"):
        Adjudication(project.folder, "cid")
