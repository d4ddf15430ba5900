"""The built-in retrievers: equal to the libraries they stand for, and what frames them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
import Stemmer
from corpora import cell, gold_first, labelled, ranked
from rank_bm25 import BM25Okapi

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.records.scores import PrecisionRecallF1
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Question, Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.tfidf import Okapi
from harness.runs.blinding import BlindedCorpus
from harness.runs.folder.run_folder import RunFolder, read_scores
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.protocols import Choices


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _blanks(text: str) -> list[str]:
    return text.split(" ")


@pytest.fixture
def locomo(home: Path, data: Path) -> Dataset:
    return open_dataset("locomo", source=data / "locomo" / "locomo10.json")


def _scores(retriever: Retriever, view: BlindedCorpus, text: str) -> np.ndarray:
    """A score for every position; 0 where the retriever returned nothing."""
    (found,) = retriever.search([Question(text)], len(view.rows))
    scores = np.zeros(len(view.rows))
    scores[np.asarray(found.ids)] = found.scores  # type: ignore[union-attr]
    return scores


@pytest.mark.parametrize(("tokens", "cut"), [("words", _words), ("split", _blanks)])
def test_okapi_is_rank_bm25_on_locomo(
    locomo: Dataset, tokens: str, cut: Callable[[str], list[str]]
) -> None:
    ours = Okapi(tokens=tokens)
    for haystack in (0, 4):
        view = BlindedCorpus(locomo, haystack, 0)
        ours.index(view.corpus)
        theirs = BM25Okapi([cut(text) for text in view.corpus.contents])
        for query in np.flatnonzero(locomo.query_haystack == haystack)[::9].tolist():
            text = locomo.query(query).text
            assert _scores(ours, view, text) == pytest.approx(
                theirs.get_scores(cut(text)), abs=1e-9
            )


def test_okapi_options_reach_the_formula(locomo: Dataset) -> None:
    view = BlindedCorpus(locomo, 1, 0)
    ours = Okapi(k1=0.9, b=0.4, epsilon=0.1, tokens="words")
    ours.index(view.corpus)
    texts = [_words(text) for text in view.corpus.contents]
    theirs = BM25Okapi(texts, k1=0.9, b=0.4, epsilon=0.1)
    text = locomo.query(int(np.flatnonzero(locomo.query_haystack == 1)[3])).text
    assert _scores(ours, view, text) == pytest.approx(theirs.get_scores(_words(text)), abs=1e-9)


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_a_run_of_okapi_gives_the_golden_ids_and_scores(
    home: Path, data: Path, tmp_path: Path, granularity: str
) -> None:
    source = data / "longmemeval" / "longmemeval_s_sample.json"
    dataset = open_dataset("longmemeval", granularity=granularity, source=source)
    folder = run(dataset, "bm25-okapi", Settings(k=10), out=tmp_path)
    golden = orjson.loads((data / "golden" / "longmemeval_s_sample_bm25okapi.json").read_bytes())
    documents = ranked(folder)
    table = pq.read_table(folder / "rankings.parquet")
    scores = np.array(table["score"].to_pylist()).reshape(len(golden), 10)
    for row, expected in zip(scores, golden, strict=True):
        query = expected["question_id"]
        # The official script renames evidence without a mark: answer_ becomes noans_.
        found = [id_.replace("noans_", "answer_") for id_ in expected[granularity]["top10"]]
        assert documents[query] == found
        assert row == pytest.approx(expected[granularity]["top10_scores"], abs=1e-9)


@pytest.mark.parametrize(
    ("options", "stem"),
    [
        ({}, True),
        ({"k1": 0.9, "b": 0.4, "stemmer": "none"}, False),
        ({"method": "bm25+", "delta": 1.0}, True),
        ({"method": "robertson"}, True),
    ],
)
def test_bm25_is_bm25s_with_the_same_options(
    locomo: Dataset, options: dict[str, Any], stem: bool
) -> None:
    view = BlindedCorpus(locomo, 2, 0)
    ours = BM25(**options)
    ours.index(view.corpus)
    stemmer = Stemmer.Stemmer("english") if stem else None
    theirs = bm25s.BM25(
        **{"k1": 1.2, "b": 0.75, "delta": 0.5, "method": "lucene"}
        | {name: value for name, value in options.items() if name != "stemmer"}
    )

    def cut(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    theirs.index(cut(view.corpus.contents), show_progress=False)
    for query in np.flatnonzero(locomo.query_haystack == 2)[::11].tolist():
        text = locomo.query(query).text
        k = len(view.rows)
        found, scores = theirs.retrieve(cut([text]), k=k, show_progress=False)
        expected = np.zeros(k)
        expected[found[0]] = scores[0]
        returned = _scores(ours, view, text)
        positive = returned > 0
        assert returned[positive] == pytest.approx(expected[positive], rel=1e-5)
        if options.get("method") != "bm25+":  # there every document scores above 0
            assert (positive == (expected > 0)).all()


def test_bm25_reaches_its_reference_on_scifact(home: Path, data: Path, tmp_path: Path) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    folder = run(dataset, "bm25", Settings(k=100), out=tmp_path)
    score_run(folder, dataset, Choices(["trec"]))
    assert cell(folder, "ndcg@10", "trec").value >= 0.67
    assert cell(folder, "ndcg@10", "trec").n == 300


@pytest.mark.parametrize("make", [BM25, Okapi])
def test_index_takes_the_place_of_what_was_indexed(locomo: Dataset, make: type) -> None:
    first, second = BlindedCorpus(locomo, 0, 0), BlindedCorpus(locomo, 1, 0)
    twice, fresh = make(), make()
    twice.index(first.corpus)
    twice.index(second.corpus)
    fresh.index(second.corpus)
    for text in ("What did they paint?", "When is the dance competition?"):
        assert (_scores(twice, second, text) == _scores(fresh, second, text)).all()


@pytest.mark.parametrize("retriever", [BM25(), Okapi(tokens="words")])
def test_a_text_in_many_haystacks_is_tokenised_once(
    home: Path, tmp_path: Path, retriever: Retriever
) -> None:
    """Seen by the interpreter's own count of the calls that cut a text with letters like é."""
    haystacks = [f"h{i}" for i in range(6)]
    documents = [
        {"id": f"d{i}", "text": f"noté {i} of the trip", "haystack": haystacks} for i in range(30)
    ]
    queries = [{"id": h, "text": "which trip", "haystack": h} for h in haystacks]
    dataset = labelled(tmp_path, documents, queries, {h: ["d0"] for h in haystacks})
    cuts = []

    def watch(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "findall":
            cuts.append(called)

    counts = []
    for haystack in range(6):
        corpus = BlindedCorpus(dataset, haystack, 0).corpus
        sys.setprofile(watch)
        retriever.index(corpus)
        sys.setprofile(None)
        counts.append(len(cuts))
    assert counts[0] == 30
    assert counts[-1] == 30


@pytest.mark.parametrize("name", ["bm25", "bm25-okapi", "recency", "random"])
def test_odd_corpora_and_questions_are_answered(home: Path, tmp_path: Path, name: str) -> None:
    """One document, empty texts, nothing but stop words, k beyond the haystack."""
    documents = [
        {"id": "a", "text": "", "haystack": "one"},
        {"id": "b", "text": "", "haystack": "empty"},
        {"id": "c", "text": "", "haystack": "empty"},
        {"id": "d", "text": "the of and", "haystack": "stop"},
        {"id": "e", "text": "ünïcödé 日本 ÆØÅ", "haystack": "stop"},
    ]
    texts = {"one": "anything?", "empty": "the", "stop": "ÜNÏCÖDÉ"}
    queries = [{"id": h, "text": text, "haystack": h} for h, text in texts.items()]
    gold = {"one": ["a"], "empty": ["b"], "stop": ["e"]}
    dataset = labelled(tmp_path / "files", documents, queries, gold)
    folder = run(dataset, name, Settings(k=10), out=tmp_path)
    assert RunFolder(folder).record.queries.failed == 0
    if name == "bm25":
        assert ranked(folder) == {"stop": ["e"]}


def test_recency_puts_the_latest_first(home: Path, data: Path, tmp_path: Path) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    found = ranked(run(dataset, "recency", Settings(k=1000, limit=10), out=tmp_path))
    for query, ids in found.items():
        row = dataset.query_ids.index(query)
        rows = dataset.haystack_rows(int(dataset.query_haystack[row]))
        # LoCoMo's file is in time order.
        names = dataset.documents.column("id", rows).to_pylist()
        assert ids == names[::-1]


@pytest.mark.slow
def test_random_is_near_chance_seeded_and_the_same_whatever_is_asked_beside(
    home: Path, tmp_path: Path
) -> None:
    dataset = gold_first(tmp_path / "files", haystacks=300, size=20)
    folder = run(dataset, "random", Settings(k=5), out=tmp_path)
    score_run(folder, dataset, Choices(["memory"], [5]))
    found = cell(folder, "recall@5")
    assert found.random_baseline == pytest.approx(0.25)
    assert found.value == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 300) ** 0.5)
    whole = ranked(folder)
    part = ranked(run(dataset, "random", Settings(k=5, limit=20), out=tmp_path))
    assert {query: whole[query] for query in part} == part
    other = ranked(run(dataset, "random", Settings(k=5, seed=1), out=tmp_path))
    assert sum(other[q] == whole[q] for q in whole) < 10
    given = RetrieverSpec("random", {"seed": 1})
    assert ranked(run(dataset, given, Settings(k=5), out=tmp_path)) != whole


@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_the_oracle_reaches_the_ceiling_of_every_metric(
    home: Path, data: Path, tmp_path: Path, granularity: str
) -> None:
    dataset = open_dataset(
        "locomo", granularity=granularity, source=data / "locomo" / "locomo10.json"
    )
    folder = run(dataset, "oracle", Settings(k=50), out=tmp_path)
    score_run(folder, dataset, Choices(["memory"]))
    assert RunFolder(folder).record.retriever.sees_gold_labels is True
    cells = read_scores(folder).protocols[0].slices["all"].metrics
    assert len(cells) > 20
    for metric, one in cells.items():
        if not metric.startswith("precision"):  # over k; the oracle returns the gold and no more
            assert one.value == pytest.approx(one.upper_bound, abs=1e-12), metric


PEEPS = """
from harness.retrievers.baselines import Oracle


class Asks:
    sees_gold_labels = True

    def index(self, corpus):
        pass

    def reveal(self, gold):
        self.gold = gold

    def search(self, queries, k):
        return [gold[:k] for gold in self.gold]


class Later(Asks):
    sees_gold_labels = False
    gold = ()

    def index(self, corpus):
        self.sees_gold_labels = True

    def search(self, queries, k):
        assert not self.gold, "it was shown the key"
        return [[0] for _ in queries]


class Heir(Oracle):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_no_plugin_is_handed_the_key_or_passes_for_the_oracle(
    sample: Dataset, tmp_path: Path, workers: int
) -> None:
    plugin = tmp_path / "peeps.py"
    plugin.write_text(PEEPS)
    for name in ("Asks", "Heir"):
        with pytest.raises(UsageError, match="only the built-in oracle is given the gold labels"):
            run(sample, f"{plugin}:{name}", Settings(workers=workers), out=tmp_path)
    folder = run(sample, f"{plugin}:Later", Settings(workers=workers), out=tmp_path)
    record = RunFolder(folder).record
    assert record.retriever.sees_gold_labels is False
    assert record.queries.failed == 0
    oracle = run(sample, "oracle", Settings(workers=workers), out=tmp_path)
    assert RunFolder(oracle).record.retriever.sees_gold_labels is True


class NeverReset:
    """Adds every haystack to what it has, and answers with what it was given first."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def index(self, corpus: Corpus) -> None:
        self.kept += corpus.handles

    def search(self, queries: Sequence[Question], k: int) -> list[list[str]]:
        return [self.kept[:k] for _ in queries]


def test_a_memory_that_is_never_reset_fails_from_the_second_haystack_on(
    sample: Dataset, tmp_path: Path
) -> None:
    folder = RunFolder(run(sample, NeverReset(), Settings(k=5), out=tmp_path))
    failed = np.array(folder.queries["failed"].to_pylist())
    first = sample.query_haystack == sample.query_haystack[np.flatnonzero(~failed)[0]]
    assert (failed == ~first).all()
    errors = orjson.loads((folder.path / "errors.jsonl").read_bytes().splitlines()[0])
    assert "is not a handle of this haystack" in errors["error"]


def test_no_handle_stands_in_two_haystacks(sample: Dataset) -> None:
    views = [BlindedCorpus(sample, haystack, 0) for haystack in range(len(sample.haystack_ids))]
    handles = [handle for view in views for handle in view.corpus.handles]
    sessions = [{document.session for document in view.corpus} for view in views]
    assert len(set(handles)) == len(handles)
    assert not sessions[0] & sessions[1]


def test_the_oracle_abstains_where_there_is_no_answer(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    folder = run(dataset, "oracle", out=tmp_path)
    scores = score_run(folder, dataset)
    abstention = scores.report.abstention
    assert abstention.false_positive_rate == 0
    assert abstention.as_returned == PrecisionRecallF1(precision=1.0, recall=1.0, f1=1.0)
    assert scores.report.knowledge_update.values["update_recall@5"] == 1.0


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("bm25", {"method": "lucen"}, "unknown method 'lucen'; did you mean lucene?"),
        ("bm25", {"stemmer": "englsh"}, "unknown stemmer 'englsh'; did you mean english"),
        ("bm25", {"stopwords": "frnch"}, "unknown stopwords 'frnch'; did you mean french"),
        ("bm25-okapi", {"tokens": "word"}, "tokens must be one of split, words, not 'word'"),
        ("bm25", {"k": 3}, "has no parameter 'k'; did you mean k1?"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        RetrieverSpec(name, params).build()


def test_bm25_returns_no_document_that_shares_no_word(locomo: Dataset) -> None:
    view = BlindedCorpus(locomo, 0, 0)
    retriever = BM25()
    retriever.index(view.corpus)
    questions: Sequence[Question] = [Question("qwertzuiop"), Question("the"), Question("")]
    assert [len(found.ids) for found in retriever.search(questions, 5)] == [0, 0, 0]
