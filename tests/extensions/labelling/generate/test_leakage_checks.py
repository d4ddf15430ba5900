"""Quotations, what two splits share, and texts that a benchmark has too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.extensions.labelling.generate.leakage import (
    CheckedSet,
    SetQuery,
    check,
    check_folder,
    compare_splits,
    longest_run,
    matching_as_well,
    shared_words,
    texts_within,
)
from harness.extensions.labelling.project import LabelDocument
from harness.extensions.labelling.render import render_checks


def document(id_: str, text: str, haystack: str) -> LabelDocument:
    return LabelDocument(id=id_, text=text, haystack=haystack)


def test_a_quotation_is_found_whatever_its_marks_and_capitals() -> None:
    document = "The morning ferry to Skarholm leaves, as ever, the north pier."
    queries = ("When does THE morning FERRY to Skarholm leave?", "Which pier?", "")
    found = [longest_run(query, ["The ferry.", document]) for query in queries]
    assert [length for length, _ in found] == [5, 1, 0]
    assert found[0][1] == "THE morning FERRY to Skarholm"


def test_shared_words_are_weighed_by_rarity_and_a_templates_words_are_left_out() -> None:
    documents = ["kiln glaze", "kiln salt", "bread salt"]
    glaze, kiln, salt = np.log1p(3 / np.array([1, 2, 2]))
    found = shared_words(["glaze kiln?", "salt glaze", "nowhere"], [[0], [2], [1]], documents)
    assert found[0] == pytest.approx(1)
    assert found[1] == pytest.approx(salt / (salt + glaze))
    assert found[2] is None
    assert kiln == salt
    queries = [f"document about {word}" for word in ("kiln", "glaze", "bread") * 4]
    relevant = [[0] if word != "bread" else [2] for word in ("kiln", "glaze", "bread") * 4]
    assert shared_words(queries, relevant, [*documents, "another document"])[0] == pytest.approx(1)


def test_the_same_and_nearly_the_same_text_in_a_benchmark() -> None:
    text = "the quick brown fox jumps over the lazy dog while the cat sleeps on the warm roof"
    words = text.split()
    mine = [
        text.upper() + "!",  # the same
        " ".join([*words[:16], "tonight"]),  # nine of ten runs
        " ".join(words[:9]) + " and then something else entirely happened to all of us here",
        "fox dog",  # too short for a run
        "",
    ]
    assert texts_within(mine, ["unrelated words", text, "more"]) == ({0}, {1})
    queries = ["When did the ferry leave?", "the of"]
    asked = texts_within(queries, ["the ferry: when did it LEAVE", "of the"], any_order=True)
    assert asked == (set(), {0})


def test_what_two_splits_share_is_found_independently_of_how_they_were_made() -> None:
    documents = [
        document("a", "aaaa bbbb", "g"),
        document("copy", "AAAA, bbbb!", "g"),
        document("near", "aaaa bbbb a", "g"),
        document("far", "ffff eeee", "g"),
        document("elsewhere", "aaaa bbbb", "h"),
    ]
    queries = [
        SetQuery("q1", "Where is the ferry?", "g", "test", (0,)),
        SetQuery("q2", "Is the ferry where?", "g", "dev", (1, 2)),
        SetQuery("q3", "What else?", "g", "validation", (0, 3)),
        SetQuery("q4", "Where is the ferry?", "h", "validation", (4,)),
        SetQuery("q5", "no split", "g", None, (0,)),
    ]
    labelled = CheckedSet(documents, queries)
    found = compare_splits(labelled)
    assert [(f.splits, f.ids) for f in found.documents] == [(["test", "validation"], ["a"])]
    assert [f.ids for f in found.same_texts] == [["copy", "a"], ["copy", "a"]]
    assert [f.ids for f in found.same_queries] == [["q2", "q1"]]


def test_a_query_that_contains_its_answer_is_a_leak() -> None:
    queries = [
        SetQuery("q1", "Do the morning ferries leave?", None, None, (0,), answers=("The ferry",)),
        SetQuery("q2", "Does it leave at noon?", None, None, (0,), ("no", "at seven")),
        SetQuery("q3", "What leaves?", None, None, (0,)),
        SetQuery("q4", "What leaves at 7?", None, None, (0,), ("7",)),
        SetQuery("q5", "What leaves at 20?", None, None, (0,), ("7:20",)),
    ]
    found = check(CheckedSet([document("a", "The ferry leaves at seven.", "")], queries))
    quotes = found.quotes
    assert (quotes.with_answer, quotes.with_answer_n, found.leaks) == (2, 4, 2)
    assert quotes.with_answer_examples == ["q1", "q4"]
    assert "2 leaks found" in render_checks(found)


def test_documents_that_match_a_query_as_well_as_its_own_are_found() -> None:
    texts = (
        "The guest wifi is called Lobby and needs a voucher from the desk.",
        "Our guest wifi was called Visitors until June.",
        "The guest wifi password hangs in the hall.",
        "Bicycles are parked behind the church.",
    )
    copies = [texts[0]] * 3
    documents = [document(str(at), text, "") for at, text in enumerate([*texts, *copies])]
    queries = [
        SetQuery("q1", "What is the guest wifi called?", None, None, (0,)),
        SetQuery("q2", "What needs a voucher?", None, None, (0,)),
        SetQuery("q3", "Which network has Visitors?", None, None, (3,)),
    ]
    assert matching_as_well(queries, documents) == [[1], [], [1]]


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_scifact_shares_documents_between_its_train_and_test_split(data: Path) -> None:
    folder = data / "beir" / "scifact"
    relevant = {
        split: {
            line.split("\t")[1]
            for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]
            if int(line.split("\t")[2]) > 0
        }
        for split in ("train", "test")
    }
    found = check_folder(folder)
    across = {one.ids[0] for one in found.splits.documents}
    assert across == relevant["train"] & relevant["test"]
    assert len(across) > 100
    assert found.benchmarks == []
