"""What an annotator is asked, in which order, and what a key press comes to."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.labelling.annotating import Annotating
from harness.labelling.folder import CONSTRUCTION, Project
from harness.labelling.records import Candidate
from harness.labelling.resolving import Resolving


def grade(query: str, document: str, value: int | None) -> dict[str, Any]:
    return {"query": query, "document": document, "grade": value}


def judge_all(session: Annotating, value: int = 0) -> None:
    for query, document in list(session.places):
        if document is not None:
            session.judge(grade(query, document, value))


def test_two_annotators_see_the_same_in_orders_of_their_own(project: Project) -> None:
    many = [f"d{number}" for number in range(40)]
    project.documents = [{"id": id_, "text": id_} for id_ in many]
    project.pool = [Candidate("q1", id_, {"a": rank}) for rank, id_ in enumerate(many, 1)]
    project.write()
    ann, bob = (Annotating(project.folder, name) for name in ("ann", "bob"))
    of_q1 = [place for place in ann.places if place[0] == "q1"]
    assert sorted(ann.places, key=str) == sorted(bob.places, key=str)
    assert of_q1 != [place for place in bob.places if place[0] == "q1"]
    assert [query for query, _ in ann.places] == [query for query, _ in bob.places]
    assert of_q1 != [("q1", id_) for id_ in many]
    assert ann.places == Annotating(project.folder, "ann").places


def test_nothing_shown_tells_systems_ranks_or_other_annotators(project: Project) -> None:
    bob = Annotating(project.folder, "bob")
    judge_all(bob, 3)
    ann = Annotating(project.folder, "ann")
    views = [ann.view(place) for place in ann.places]
    assert {view["grade"] for view in views} == {None}
    assert not any(word in str(view) for view in views for word in ("rank", "'a'", "bob"))


def test_work_goes_on_behind_the_newest_judgement(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    first, second, third = session.places[:3]
    assert session.here() == first
    session.judge(grade(second[0], str(second[1]), 2))
    again = Annotating(project.folder, "ann")
    assert again.here() == third
    assert again.view(second)["grade"] == 2
    assert (again.view(third)["done"], again.view(third)["total"]) == (1, 6)
    for place in (*again.places[2:], *again.places[:1]):
        again.judge(grade(place[0], str(place[1]), 0))
    view = again.view(again.places[0])
    assert (view["done"], view["total"]) == (6, 6)


def test_a_query_that_cannot_be_answered_is_done_and_contradicts_grades(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    query, document = session.places[0]
    session.judge({"query": query, "unanswerable": True})
    view = session.view((query, document))
    assert (view["done"], view["then"]["query"] != query, view["warning"]) == (2, True, "")
    session.judge(grade(query, str(document), 1))
    assert "1 of its documents a grade of 1 or more" in session.view((query, document))["warning"]
    session.judge({"query": query, "unanswerable": None})
    assert session.view((query, document))["warning"] == ""


def test_a_query_without_candidates_is_asked_once(project: Project) -> None:
    project.pool = [one for one in project.pool if one.query != "q3"]
    project.write()
    session = Annotating(project.folder, "ann")
    assert ("q3", None) in session.places
    assert session.view(("q3", None))["choices"] == ["unanswerable", "ability", "note"]
    session.judge({"query": "q3", "unanswerable": False})
    assert session.view(("q3", None))["done"] == 1


def test_undo_survives_the_end_of_the_session(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    (query, document), other = session.places[:2]
    session.judge(grade(query, str(document), 1))
    session.judge(grade(query, str(document), 3))
    session.judge({"query": query, "ability": "temporal"})
    again = Annotating(project.folder, "ann")
    assert again.undo(other) == other  # of the query as a whole: one stays where one is
    assert again.undo() == (query, document)
    assert again.view((query, document))["grade"] == 1
    assert again.undo() == (query, document)
    assert again.undo() is None
    assert again.held.grades == {}


def test_the_same_judgement_sent_twice_is_one(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    query, document = session.places[0]
    session.judge(grade(query, str(document), 1))
    session.judge(grade(query, str(document), 1))
    assert len(project.journal("ann").lines) == 1


def test_what_is_not_in_the_pool_is_refused(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    for line in (grade("q1", "d9", 1), grade("q9", "d1", 1), grade("q1", "d1", 5)):
        with pytest.raises(UsageError):
            session.judge(line)
    for name in ("", "../ann", ".hidden", "a/b", CONSTRUCTION):
        with pytest.raises(UsageError, match="--annotator"):
            Annotating(project.folder, name)


def test_only_the_shared_queries_are_judged_twice(project: Project) -> None:
    project.settings["overlap"] = 0.3
    project.write()
    ann, bob = Annotating(project.folder, "ann"), Annotating(project.folder, "bob")
    shared = ann.places[0][0]
    assert bob.places[0][0] == shared
    query, document = next(place for place in bob.places if place[0] != shared)
    bob.judge(grade(query, str(document), 1))
    ann.refresh()
    assert query not in {place[0] for place in ann.places}
    assert {shared} < {place[0] for place in ann.places}
    bob.refresh()
    assert query in {place[0] for place in bob.places}


def test_what_construction_judged_is_not_asked(project: Project) -> None:
    project.journal(CONSTRUCTION).append(grade("q1", "d1", 3))
    assert ("q1", "d1") not in Annotating(project.folder, "ann").places
    assert project.annotators() == []


def test_a_pool_that_grew_is_taken_in_while_one_works(project: Project) -> None:
    session = Annotating(project.folder, "ann")
    place = session.places[0]
    project.pool.append(Candidate("q3", "d4", {"b": 2}))
    project.write()
    session.refresh()
    assert ("q3", "d4") in session.places
    assert session.view(place)["total"] == 7


def test_conflicts_are_shown_side_by_side_and_settled(project: Project) -> None:
    ann, bob = Annotating(project.folder, "ann"), Annotating(project.folder, "bob")
    for query, document in ann.places:
        ann.judge(grade(query, str(document), 0))
        if query != "q3":
            bob.judge(grade(query, str(document), 2 if document == "d1" else 0))
    bob.judge(grade("q3", "d1", 1))
    bob.judge({"query": "q3", "unanswerable": True})
    for name, session in (("temporal", ann), ("lookup", bob)):
        session.judge({"query": "q2", "ability": name})
    resolving = Resolving(project.folder, "cid")
    kinds = {(kind, query, document) for kind, query, document in resolving.places}
    assert kinds == {
        ("grade", "q1", "d1"),
        ("grade", "q3", "d1"),
        ("unanswerable", "q3", None),
        ("ability", "q2", None),
    }
    view = resolving.view(("grade", "q1", "d1"))
    assert view["said"] == [{"who": "ann", "value": 0}, {"who": "bob", "value": 2}]
    assert resolving.view(("unanswerable", "q3", None))["evidence"][0]["said"] == [
        {"who": "ann", "value": 0},
        {"who": "bob", "value": 1},
    ]
    with pytest.raises(UsageError, match="no such conflict"):
        resolving.judge(grade("q2", "d2", 1))
    resolving.judge(grade("q1", "d1", 1))
    resolving.judge({"query": "q3", "unanswerable": True})  # closes the grades of q3, too
    resolving.refresh()
    assert [place[:2] for place in resolving.places] == [
        ("grade", "q1"),
        ("ability", "q2"),
        ("unanswerable", "q3"),
    ]
    assert resolving.here() == ("ability", "q2", None)
    assert project.resolved().lines[0]["by"] == "cid"
    assert resolving.undo() == ("unanswerable", "q3", None)
    assert ("grade", "q3", "d1") in resolving.places


def test_nothing_to_resolve_is_said(project: Project) -> None:
    judge_all(Annotating(project.folder, "ann"))
    with pytest.raises(UsageError, match="no conflict to resolve; only one annotator"):
        Resolving(project.folder, "cid")
