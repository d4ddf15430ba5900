"""Systems that return texts of their own: each text becomes documents, or is said to be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest
from corpora import cell, labelled, ranked

from harness.__main__ import main
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import RunError
from harness.io.files import read_json
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question
from harness.runs.folder.hits import copy_with_matching
from harness.runs.folder.run_folder import RunFolder, read_scores
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.matching.matcher import Matching
from harness.scoring.protocols import Choices

NOTES = [
    "Vera keeps three goats behind the old mill.",
    "The goats escaped twice during the harvest festival.",
    "On Sundays the choir sings in the village hall.",
    "Vera sold her tractor to a farmer from Brno.",
    "The mill wheel was repaired with oak from the forest.",
]


class Says:
    """Answers every question with the hits that a function of the corpus makes."""

    def __init__(self, hits: Callable[[Corpus], list[Hit]]) -> None:
        self._make = hits

    def index(self, corpus: Corpus) -> None:
        self._hits = self._make(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        return [self._hits for _ in queries]


class Rewrites(BM25):
    """BM25 whose answers are texts: what was said, with a name in front, and no ids."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:  # type: ignore[override]
        return [
            [
                Hit(f"- {self._texts[int(i)]}", score=float(s))
                for i, s in zip(found.ids, found.scores, strict=True)  # type: ignore[arg-type]
            ]
            for found in super().search(queries, k)
        ]


def notes(folder: Path) -> Dataset:
    documents = [{"id": f"n{i}", "text": text} for i, text in enumerate(NOTES)]
    queries = [{"id": "goats", "text": "What about the goats?"}]
    return labelled(folder, documents, queries, {"goats": ["n0", "n1"]})


def place(corpus: Corpus, note: int) -> int:
    return corpus.contents.index(NOTES[note])


def scored(dataset: Dataset, hits: Callable[[Corpus], list[Hit]], out: Path) -> Path:
    folder = run(dataset, Says(hits), out=out)  # type: ignore[arg-type]
    score_run(folder, dataset, Choices(ks=(4,)))
    return folder


@pytest.mark.slow
def test_texts_score_as_the_documents_that_they_were_made_of(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    texts = run(dataset, Rewrites(), Settings(limit=80), out=tmp_path / "texts")
    ids = run(dataset, BM25(), Settings(limit=80), out=tmp_path / "ids")
    assert ranked(texts) == ranked(ids)
    ours, theirs = (score_run(folder, dataset).report for folder in (texts, ids))
    assert set(ours.hits.by_method) == {"exact"}
    assert ours.protocols[-1].protocol == "answers"  # which texts get, and ids when asked
    for mine, other in zip(ours.protocols[:-1], theirs.protocols, strict=True):
        for name, part in other.slices.items():
            values = {m: c.value for m, c in mine.slices[name].metrics.items()}
            assert values == {m: c.value for m, c in part.metrics.items()}


def test_sources_come_first_then_the_text_and_a_lost_text_keeps_its_place(
    home: Path, tmp_path: Path
) -> None:
    def hits(corpus: Corpus) -> list[Hit]:
        return [
            Hit("Completely unrelated words about submarines"),
            Hit(NOTES[2], sources=[corpus[place(corpus, 3)].id, "memory 7"]),
            Hit("Two things: " + NOTES[0]),
            Hit(NOTES[1][:-12]),
        ]

    folder = scored(notes(tmp_path / "data"), hits, tmp_path)
    assert ranked(folder) == {"goats": ["unresolved:1", "n3", "n0", "n1"]}
    about = RunFolder(folder).record.hits
    assert about.by_method == {"sources": 1, "exact": 2, "none": 1}
    assert about.unknown_sources == 1
    assert cell(folder, "mrr@4").value == pytest.approx(1 / 3)
    assert cell(folder, "recall@4").value == 1
    assert cell(folder, "recall@4").signature.endswith("|match:token-f1>=0.3")
    assert read_scores(folder).unknown_documents == 0


def test_a_source_that_is_a_handle_of_another_haystack_is_an_error(
    home: Path, tmp_path: Path
) -> None:
    def hits(corpus: Corpus) -> list[Hit]:
        return [Hit(NOTES[2], sources=[corpus[0].id, "d999"])]

    with pytest.raises(RunError, match="'d999' is not a handle of this haystack"):
        scored(notes(tmp_path / "data"), hits, tmp_path)


def test_a_text_of_several_documents_takes_a_place_for_each_and_repeats_none(
    home: Path, tmp_path: Path
) -> None:
    def hits(corpus: Corpus) -> list[Hit]:
        three = [place(corpus, note) for note in (2, 3, 0)]
        return [Hit("A summary.", three), Hit("Another.", three[1:]), Hit("", [place(corpus, 1)])]

    folder = scored(notes(tmp_path / "data"), hits, tmp_path)
    assert ranked(folder) == {"goats": ["n2", "n3", "n0", "n1"]}
    # What a prompt would cost is the texts that were returned, or the document where there is none.
    tokens = read_scores(folder).tokens.per_query.mean
    assert tokens == len(["A", "summary", "."]) + len(NOTES[1].split()) + 1


def test_a_session_as_source_limits_the_search_for_the_text_to_its_turns(
    home: Path, tmp_path: Path
) -> None:
    told = ["Vera keeps three goats.", "She likes tea.", "Vera keeps three goats.", "Good night."]
    sessions = ["one", "one", "two", "three"]
    documents = [
        {"id": f"n{i}", "text": text, "session": session}
        for i, (text, session) in enumerate(zip(told, sessions, strict=True))
    ]
    queries = [{"id": "goats", "text": "What about the goats?"}]
    dataset = labelled(tmp_path / "data", documents, queries, {"goats": ["n0"]})

    def hits(corpus: Corpus) -> list[Hit]:
        (one,) = (d.session for d in corpus if d.text == told[1])
        (three,) = (d.session for d in corpus if d.text == told[3])
        return [
            Hit("Vera keeps three goats", sources=[one]),
            Hit("Good night.", sources=[one]),
            Hit("the user went to bed", sources=[three, "memory 7"]),
        ]

    folder = scored(dataset, hits, tmp_path)
    assert ranked(folder) == {"goats": ["n0", "unresolved:2", "n3"]}
    about = RunFolder(folder).record.hits
    assert about.by_method == {"exact": 1, "none": 1, "sources": 1}
    assert about.unknown_sources == 1
    again = copy_with_matching(folder, dataset, Matching(f1=0.9))
    assert ranked(again) == ranked(folder)


def test_a_question_of_which_no_text_is_found_is_not_measurable_and_never_zero(
    home: Path, tmp_path: Path
) -> None:
    documents = [{"id": f"n{i}", "text": text} for i, text in enumerate(NOTES)]
    queries = [{"id": q, "text": q} for q in ("goats", "choir", "silence")]
    gold = {"goats": ["n0"], "choir": ["n2"], "silence": ["n4"]}
    dataset = labelled(tmp_path / "data", documents, queries, gold)

    class Mixed(Says):
        def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
            return [
                {"goats": [Hit(NOTES[0])], "choir": [Hit("Nothing of the kind")]}.get(q.text, [])
                for q in queries
            ]

    folder = run(dataset, Mixed(lambda _: []), out=tmp_path)  # type: ignore[arg-type]
    score_run(folder, dataset, Choices(ks=(4,)))
    found = cell(folder, "recall@4", "trec")
    assert (found.value, found.n) == (0.5, 2)  # silence is an answer, and found nothing
    left_out = read_json(folder / "excluded.json")["trec"]
    assert left_out == {"not measurable: no text was resolved": ["choir"]}


def test_other_thresholds_make_another_folder_and_change_nothing_in_the_first(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loose = "Vera owned some goats near a mill once, people said"

    def hits(corpus: Corpus) -> list[Hit]:
        return [Hit(loose)]

    folder = scored(notes(tmp_path / "data"), hits, tmp_path / "runs")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["score", str(folder), "--match-f1", "0.9", "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert told["scores"]["hits"]["by_method"] == {"none": 1}
    assert told["scores"]["hits"]["matching"]["f1"] == 0.9
    assert told["folder"] != str(folder)
    assert ranked(folder) == {"goats": ["n0"]}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_texts_from_elsewhere_score_as_those_of_a_run(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = notes(tmp_path / "data")
    file = tmp_path / "log.jsonl"
    record = {"query": "goats", "hits": [{"text": NOTES[2]}, {"id": "n3"}, {"text": NOTES[0]}]}
    file.write_bytes(orjson.dumps(record) + b"\n")
    arguments = ["--dataset", "labelled", "--source", str(tmp_path / "data"), "--out"]
    assert main(["score", str(file), *arguments, str(tmp_path / "runs"), "--json"]) == 0
    there = Path(orjson.loads(capsys.readouterr().out)["folder"])
    here = scored(
        dataset, lambda c: [Hit(NOTES[2]), Hit("", [place(c, 3)]), Hit(NOTES[0])], tmp_path
    )
    assert ranked(there) == ranked(here) == {"goats": ["n2", "n3", "n0"]}
    best = ranked(there)["goats"][0]
    for order in ({"rank": 1}, {"rank": 2}), ({"sim": 2.5}, {"score": 1.5}):
        record["hits"] = [{"id": "n3", **order[1]}, {"id": best, **order[0]}]
        file.write_bytes(orjson.dumps(record) + b"\n")
        assert main(["score", str(file), *arguments, str(tmp_path / "runs"), "--json"]) == 0
        there = Path(orjson.loads(capsys.readouterr().out)["folder"])
        assert ranked(there) == {"goats": [best, "n3"]}
    file.write_text('{"query": "goats", "hits": [{"id": "n3", "bm25": 1.5}]}\n')
    assert main(["score", str(file), *arguments, str(tmp_path / "runs")]) == 2
    assert "'bm25' holds numbers, and there is no score or rank" in capsys.readouterr().err
    file.write_text('{"query": "goats", "hits": [{"text": 3}]}\n')
    assert main(["score", str(file), *arguments, str(tmp_path / "runs")]) == 2
    assert "line 1: expected" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_same_texts(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    stops = iter([False] * 2 + [True])

    class Stops(Rewrites):
        def index(self, corpus: Corpus) -> None:
            if next(stops, False):
                raise KeyboardInterrupt
            super().index(corpus)

    with pytest.raises(KeyboardInterrupt):
        run(dataset, Stops(), out=tmp_path / "stopped")
    folder = run(dataset, Stops(), out=tmp_path / "stopped", mode=Mode.RESUME)
    whole = run(dataset, Stops(), out=tmp_path / "whole")
    for file in ("rankings.parquet", "hits.parquet"):
        assert (folder / file).read_bytes() == (whole / file).read_bytes()
