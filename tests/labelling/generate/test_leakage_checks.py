"""Quotations, near-duplicates in blocks, and texts that a benchmark has too."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.labelling.generate import leakage, near_duplicates
from harness.labelling.generate.benchmarks import TextIndex
from harness.labelling.generate.labelled import LabelledQuery, LabelledSet
from harness.labelling.generate.leakage import check_folder
from harness.labelling.generate.near_duplicates import longest_run, longest_runs, shared
from harness.labelling.generate.sources import SourceDocument
from harness.labelling.records import LabelDocument

numbers = st.lists(st.integers(0, 3), max_size=12)


def source(id_: str, text: str, haystacks: tuple[str, ...] = ()) -> SourceDocument:
    return SourceDocument(LabelDocument(id=id_, text=text, haystack=list(haystacks)))


@given(numbers, numbers)
def test_the_longest_run_is_what_difflib_finds(some: list[int], other: list[int]) -> None:
    length, end = longest_run(np.array(some, np.int64), np.array(other, np.int64))
    match = difflib.SequenceMatcher(None, some, other, autojunk=False).find_longest_match()
    assert length == match.size
    run = some[end - length : end]
    assert any(other[i : i + length] == run for i in range(len(other) + 1))


def test_a_quotation_is_found_whatever_its_marks_and_capitals() -> None:
    document = "The morning ferry to Skarholm leaves, as ever, the north pier."
    found = longest_runs(
        ["When does THE morning FERRY to Skarholm leave?", "Which pier?", ""], [[document]] * 3
    )
    assert [one.length for one in found] == [5, 1, 0]
    assert found[0].words == "THE morning FERRY to Skarholm"


def test_shared_words_are_weighed_by_rarity_and_a_templates_words_are_left_out() -> None:
    documents = ["kiln glaze", "kiln salt", "bread salt"]
    glaze, kiln, salt = np.log1p(3 / np.array([1, 2, 2]))
    found = shared(["glaze kiln?", "salt glaze", "nowhere"], [[0], [2], [1]], documents)
    assert found[0] == pytest.approx(1)
    assert found[1] == pytest.approx(salt / (salt + glaze))
    assert found[2] is None
    assert kiln == salt
    queries = [f"document about {word}" for word in ("kiln", "glaze", "bread") * 4]
    relevant = [[0] if word != "bread" else [2] for word in ("kiln", "glaze", "bread") * 4]
    assert shared(queries, relevant, [*documents, "another document"])[0] == pytest.approx(1)


def test_near_pairs_are_those_of_the_whole_matrix() -> None:
    random = np.random.default_rng(0)
    some, other = (random.normal(size=(n, 6)).astype(np.float32) for n in (600, 700))
    some, other = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (some, other))
    one, two, value = near_duplicates.pairs(some, other, 0.7)
    cosines = np.round((some.astype(np.float64) @ other.T.astype(np.float64)), 4)
    whole = np.argwhere(cosines >= 0.7)
    assert np.column_stack([one, two]).tolist() == whole.tolist()
    assert value == pytest.approx(cosines[one, two], abs=1e-4)
    same = np.array([[0.7, np.sqrt(1 - 0.49)]], np.float32)
    assert near_duplicates.pairs(np.array([[1, 0]], np.float32), same, 0.7)[2].tolist() == [0.7]
    assert len(near_duplicates.pairs(some[:0], other, 0.7)[0]) == 0


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
    found = TextIndex(mine).within(iter([["unrelated words", text], ["more"]]))
    assert found.exact == {0: 1}
    assert found.near == {1: pytest.approx(0.9)}
    queries = TextIndex(["When did the ferry leave?", "the of"])
    asked = queries.within(iter([["the ferry: when did it LEAVE", "of the"]]), any_order=True)
    assert set(asked.near) == {0}
    assert not asked.exact


def unit(texts: list[str]) -> np.ndarray:
    """Vectors of length 1 that count a few letters: enough to be near or far."""
    counts = np.array(
        [[t.lower().count(letter) + 0.01 for letter in "abcdef"] for t in texts], np.float32
    )
    return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), np.float32)


def test_what_two_splits_share_is_found_independently_of_how_they_were_made() -> None:
    documents = [
        source("a", "aaaa bbbb", ("g",)),
        source("copy", "AAAA, bbbb!", ("g",)),
        source("near", "aaaa bbbb a", ("g",)),
        source("far", "ffff eeee", ("g",)),
        source("elsewhere", "aaaa bbbb", ("h",)),
    ]
    queries = [
        LabelledQuery("q1", "Where is the ferry?", "g", "test", (0,)),
        LabelledQuery("q2", "Is the ferry where?", "g", "dev", (1, 2), (3,)),
        LabelledQuery("q3", "What else?", "g", "train", (0, 3)),
        LabelledQuery("q4", "Where is the ferry?", "h", "train", (4,)),
        LabelledQuery("q5", "no split", "g", None, (0,)),
    ]
    labelled = LabelledSet(documents, queries)
    found = leakage.splits(labelled, unit, 0.9)
    assert [(f.splits, f.document) for f in found.documents] == [(["test", "train"], "a")]
    proposed = [(f.splits, f.document) for f in found.proposed_documents]
    assert proposed == [(["dev", "train"], "far")]
    assert [f.documents for f in found.same_texts] == [["copy", "a"], ["copy", "a"]]
    near_ones = [(f.splits, f.documents) for f in found.similar_documents or ()]
    assert near_ones == [
        (["dev", "test"], ["copy", "a"]),
        (["dev", "test"], ["near", "a"]),
        (["dev", "train"], ["copy", "a"]),
        (["dev", "train"], ["near", "a"]),
    ]
    assert [f.queries for f in found.same_queries] == [["q2", "q1"]]
    assert leakage.splits(labelled, None, None).similar_documents is None


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
    found = check_folder(folder, None)
    across = {one.document for one in found.splits.documents}
    assert across == relevant["train"] & relevant["test"]
    assert len(across) > 100
    assert found.benchmarks.compared == []
