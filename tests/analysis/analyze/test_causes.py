"""Each cause of missed evidence, produced on purpose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from made import Record, dataset_of, run_of, run_of_texts

from harness.analysis.analyze import causes
from harness.analysis.analyze.analyze import analyze
from harness.analysis.analyze.causes import Cause, MissedPiece, Place, Relation

pytestmark = pytest.mark.usefixtures("home")

ASKED = "Where did Anna hide the old key?"


def missed(
    folder: Path,
    documents: Mapping[str, str | Record],
    ranking: Mapping[str, float],
    *,
    gold: Sequence[str] = ("gold",),
    k: int = 2,
    depth: int = 4,
    **query: str,
) -> list[MissedPiece]:
    """What one query's ranking missed; documents are texts, or records."""
    records = [
        {"id": name, **({"text": said} if isinstance(said, str) else said)}
        for name, said in documents.items()
    ]
    judged = [{"query": "q", "document": name, "missing": name not in documents} for name in gold]
    dataset = dataset_of(folder / "data", records, [{"id": "q", "text": ASKED, **query}], judged)
    return analyze(run_of(dataset, folder / "out", {"q": ranking}, depth), dataset, k).missed


def only(pieces: list[MissedPiece]) -> tuple[Cause, Place, int | None]:
    """Cause, place and rank of the single missed piece."""
    (piece,) = pieces
    return piece.cause, piece.place, piece.rank


PLAIN = {
    "gold": "The key lies under the oak.",
    "a": "The bus was late.",
    "b": "Snow fell.",
    "c": "Soup again.",
    "d": "A quiet day.",
}


def test_evidence_that_the_haystack_lacks_is_not_ingested(tmp_path: Path) -> None:
    pieces = missed(tmp_path, PLAIN, {"a": 3, "b": 2}, gold=["gone"])
    assert only(pieces) == (Cause.NOT_INGESTED, Place.NOT_INGESTED, None)


def test_evidence_with_the_score_of_a_document_inside_k_is_cut_by_a_tie(tmp_path: Path) -> None:
    pieces = missed(tmp_path, PLAIN, {"a": 3, "b": 2, "c": 2, "gold": 2})
    assert only(pieces) == (Cause.TIE, Place.BELOW, 4)
    pieces = missed(tmp_path / "lower", PLAIN, {"a": 3, "b": 2, "c": 1, "gold": 1})
    assert only(pieces) == (Cause.OTHERS, Place.BELOW, 4)


def test_words_are_those_of_a_lexical_system(tmp_path: Path) -> None:
    documents = {**PLAIN, "gold": "It is under a stone."}  # stop words alone
    assert only(missed(tmp_path / "1", documents, {"a": 2, "b": 1}))[0] is Cause.NO_WORD
    documents["gold"] = "She keeps KEYS under a stone."  # another case, another ending
    (piece,) = missed(tmp_path / "2", documents, {"a": 4, "b": 3, "c": 2, "d": 1})
    assert (piece.cause, piece.place, piece.shared) == (Cause.OTHERS, Place.BEYOND, ("key",))


def test_evidence_that_shares_words_and_was_left_out_of_a_short_ranking_is_not_returned(
    tmp_path: Path,
) -> None:
    pieces = missed(tmp_path, PLAIN, {"a": 4, "b": 3, "c": 2})
    assert only(pieces) == (Cause.NOT_RETURNED, Place.NOT_RETURNED, None)


def said(text: str, speaker: str, session: str = "") -> Record:
    return {"text": text, "speaker": speaker, **({"session": session} if session else {})}


def test_evidence_that_shares_names_of_speakers_alone_is_told_apart(tmp_path: Path) -> None:
    documents = {
        "gold": said("Anna put it under the oak.", "Bert"),
        "a": said("The bus was late.", "Anna"),
        "b": said("Snow fell.", "Bert"),
        "c": said("Soup again.", "Anna"),
    }
    ranking = {"a": 4.0, "b": 3.0, "c": 2.0, "gold": 1.0}
    assert only(missed(tmp_path, documents, ranking)) == (Cause.NAMES, Place.BELOW, 4)


@pytest.mark.parametrize(
    ("missing", "found", "cause", "relation"),
    [
        ("old", "new", Cause.NEWER, Relation.NEWER),
        ("new", "old", Cause.OLDER, Relation.OLDER),
    ],
)
def test_an_update_is_outranked_by_the_other_version_of_the_fact(
    missing: str, found: str, cause: Cause, relation: Relation, tmp_path: Path
) -> None:
    documents = {
        "old": {"text": "The key lies under the oak.", "timestamp": "2023-01-01"},
        "new": {"text": "I moved the key to the barn.", "timestamp": "2023-06-01"},
        "a": "The bus was late.",
        "b": "Snow fell.",
    }
    ranking = {"a": 4.0, found: 3.0, "b": 2.0, missing: 1.0}
    kept = {"gold": ["old", "new"], "ability": "knowledge-update"}
    (piece,) = missed(tmp_path / "update", documents, ranking, **kept)
    assert (piece.documents, piece.cause) == ((missing,), cause)
    assert piece.above[1].relation is relation
    (piece,) = missed(tmp_path / "lookup", documents, ranking, **{**kept, "ability": "lookup"})
    assert piece.cause is Cause.OTHERS  # evidence of another question is no version
    assert piece.above[1].relation is Relation.EVIDENCE


def test_its_session_has_most_of_the_places(tmp_path: Path) -> None:
    documents = {
        "gold": {"text": "The key lies under the oak.", "session": "s1", "position": 3},
        "a": {"text": "Look there.", "session": "s1", "position": 2},
        "b": {"text": "Dig deeper.", "session": "s1", "position": 7},
        "c": {"text": "Snow fell.", "session": "s2", "position": 1},
        "d": {"text": "More snow.", "session": "s2", "position": 2},
    }
    ranking = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "gold": 1.0}
    (piece,) = missed(tmp_path / "two", documents, ranking, k=3, depth=5)
    assert (piece.cause, piece.beside, piece.session) == (Cause.SESSION, True, True)
    ranking = {"b": 5.0, "c": 4.0, "d": 3.0, "a": 2.0, "gold": 1.0}
    (piece,) = missed(tmp_path / "one", documents, ranking, k=3, depth=5)
    assert (piece.cause, piece.beside, piece.session) == (Cause.OTHERS, False, True)


def test_another_speaker_has_the_places_who_is_the_one_that_the_query_names(tmp_path: Path) -> None:
    documents = {
        "gold": said("The key lies under the oak.", "Bert"),
        "a": said("The bus was late.", "Anna"),
        "b": said("Snow fell.", "Anna"),
        "c": said("Soup again.", "Bert"),
    }
    ranking = {"a": 4.0, "b": 3.0, "c": 2.0, "gold": 1.0}
    assert only(missed(tmp_path / "k2", documents, ranking))[0] is Cause.SPEAKER
    # Two of three places are Anna's, whom the query names ...
    assert only(missed(tmp_path / "k3", documents, ranking, k=3))[0] is Cause.SPEAKER
    # ... and where it names nobody, two of three say nothing.
    asked = "Where is the old key hidden?"
    assert only(missed(tmp_path / "no", documents, ranking, k=3, text=asked))[0] is Cause.OTHERS


def test_documents_with_more_of_the_querys_words_stand_above(tmp_path: Path) -> None:
    documents = {
        **PLAIN,
        "a": "An old key ring, where did I hide it?",
        "b": "The old keys of the piano.",
    }
    ranking = {"a": 4.0, "b": 3.0, "c": 2.0, "gold": 1.0}
    assert only(missed(tmp_path / "both", documents, ranking))[0] is Cause.MORE_WORDS
    documents["b"] = "Snow fell."  # one of two places is not more than half
    assert only(missed(tmp_path / "one", documents, ranking))[0] is Cause.OTHERS


def bags(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Vectors of length 1 by the letters that begin the words of a text."""
    counts = np.array(
        [[sum(w[0] == chr(97 + i) for w in t.lower().split()) for i in range(26)] for t in texts],
        float,
    )
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


def test_similarity_is_a_cause_only_where_it_is_asked_for(tmp_path: Path) -> None:
    documents = [
        {"id": "gold", "text": "key " + "zebra " * 30},
        {"id": "near", "text": "key where did Anna hide old things"},
        {"id": "a", "text": "Snow fell."},
    ]
    gold = [{"query": "q", "document": name} for name in ("gold", "near")]
    dataset = dataset_of(tmp_path / "data", documents, [{"id": "q", "text": ASKED}], gold)
    folder = run_of(dataset, tmp_path, {"q": {"a": 3, "gold": 2, "near": 1}}, k=3)
    plain = analyze(folder, dataset, 1)
    assert [piece.similarity for piece in plain.missed] == [None, None]
    assert {piece.cause for piece in plain.missed} == {Cause.OTHERS}
    found = {piece.documents[0]: piece for piece in analyze(folder, dataset, 1, embed=bags).missed}
    assert found["gold"].cause is Cause.DISSIMILAR
    assert found["near"].cause is Cause.OTHERS
    expected = bags([ASKED, str(documents[1]["text"])])
    assert found["near"].similarity == pytest.approx(float(expected[0] @ expected[1]))


def test_evidence_may_be_in_a_text_that_no_document_was_found_for(tmp_path: Path) -> None:
    documents = [{"id": name, "text": text} for name, text in PLAIN.items()]
    gold = [{"query": "q", "document": "gold"}]
    dataset = dataset_of(tmp_path / "data", documents, [{"id": "q", "text": ASKED}], gold)
    own = "Somebody hid something somewhere beneath a tree."
    folder = run_of_texts(dataset, tmp_path, {"q": [own, "The bus was late."]}, k=4)
    (piece,) = analyze(folder, dataset, 2).missed
    assert piece.cause is Cause.HIDDEN
    assert [above.relation for above in piece.above] == [Relation.UNKNOWN, Relation.OTHER]
    lost = run_of_texts(dataset, tmp_path / "lost", {"q": [own]}, k=4)
    nothing = analyze(lost, dataset, 2)
    assert (nothing.missed, nothing.scored) == ([], 0)
    assert list(nothing.excluded.values()) == [1]  # not measurable: no text was resolved


def test_a_piece_that_several_documents_carry_is_missed_once_by_its_best(tmp_path: Path) -> None:
    documents = [{"id": name, "text": text} for name, text in PLAIN.items()]
    gold = [{"query": "q", "document": name, "evidence_id": "fact"} for name in ("c", "d", "gold")]
    dataset = dataset_of(tmp_path / "data", documents, [{"id": "q", "text": ASKED}], gold)
    ranking = {"a": 5.0, "b": 4.0, "d": 3.0, "gold": 2.0}
    folder = run_of(dataset, tmp_path, {"q": ranking}, k=4)
    found = analyze(folder, dataset, 2)
    (piece,) = found.missed
    assert sorted(piece.documents) == ["c", "d", "gold"]
    assert (piece.rank, piece.shared, found.pieces) == (3, ("key",), {"lookup": 1})
    assert analyze(folder, dataset, 3).missed == []


def test_the_printed_rules_are_the_causes_in_their_order() -> None:
    first_column = re.findall(r"^\| ([a-z][a-z ]+?) +\|", str(causes.__doc__), re.MULTILINE)
    assert first_column == ["cause", *map(str, Cause)]
    assert f"| {causes.LOW_SIMILARITY} " in str(causes.__doc__).replace("  ", " ")
