"""What a report is drawn from: every number is the scorer's, every query is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.analyze.analyze import analyze
from harness.analysis.compare.compare import compare
from harness.analysis.compare.comparison import Options
from harness.analysis.compare.render import shown_of
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.io.files import read_json
from harness.io.records import to_tree
from harness.records.scores import MetricResult
from harness.reports.material import OMITTED, Shelf, Texts
from harness.reports.report import report_data
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.run_folder import read_scores
from harness.runs.folder.score_folder import score_run

Ran = Callable[..., Path]


def page_data(folders: list[Path], dataset: Dataset, *, share: bool = False) -> Any:
    """Returns a report as the scripts of its page read it."""
    return to_tree(report_data(folders, dataset, share=share))


@pytest.fixture(scope="module")
def data(bm25: Path, sample: Dataset) -> dict[str, Any]:
    return page_data([bm25], sample)


def cells(folder: Path, protocol: str) -> dict[str, dict[str, MetricResult]]:
    slices = next(b for b in read_scores(folder).protocols if b.protocol == protocol).slices
    return {name: part.metrics for name, part in slices.items()}


def test_curves_by_k_pass_through_the_scores(data: dict[str, Any], bm25: Path) -> None:
    curves, scored = data["by_k"][0], cells(bm25, "memory")
    assert data["by_k_of"] == "memory/1"
    assert {"all", "lookup", "temporal"} <= set(curves["slices"])
    for name, part in curves["slices"].items():
        for k in (1, 10, 50):
            at = curves["ks"].index(k)
            for family in ("recall", "precision", "hit", "recall_all", "ndcg"):
                cell, series = scored[name][f"{family}@{k}"], part["families"][family]
                assert series["value"][at] == cell.value
                assert series["random_baseline"][at] == cell.random_baseline
                assert series["upper_bound"][at] == cell.upper_bound
            interval = scored[name][f"recall@{k}"].interval
            assert interval is not None
            found = part["families"]["recall"]
            assert (found["low"][at], found["high"][at]) == (interval.low, interval.high)


def test_recall_by_tokens_and_risk_are_those_of_the_scores(
    data: dict[str, Any], bm25: Path
) -> None:
    scores = read_scores(bm25)
    assert scores.tokens is not None
    assert scores.abstention is not None
    curve = data["by_tokens"][0]
    for tokens, found in scores.tokens.recall_within_budget.items():
        at = curve["budgets"].index(int(tokens))
        assert curve["slices"]["answerable"]["recall"]["value"][at] == found.recall
        of_lookup = curve["slices"]["lookup"]["recall"]["value"][at]
        assert of_lookup == found.by_ability["lookup"].recall
    scored = scores.abstention.confidence
    assert scored is not None
    assert data["risk"][0]["aurc"] == scored.aurc
    assert data["risk"][0]["risk"][-1] == scored.risk_coverage[-1].risk
    at_ten = curve_at(data["by_k"][0]["ks"], data["by_k"][0]["tokens"], 10)
    assert at_ten == pytest.approx(scores.tokens.per_query_top_10.mean)


def curve_at(ks: list[int], values: list[float], k: int) -> float:
    return values[ks.index(k)]


def test_causes_are_those_of_harness_analyze(
    data: dict[str, Any], bm25: Path, sample: Dataset
) -> None:
    found, causes = analyze(bm25, sample), data["causes"]
    run = causes["runs"][0]
    assert (run["missed"], run["queries"]) == (len(found.missed), len(found.queries))
    assert run["counts"] == found.as_dict()["causes"]
    assert run["evidence"] == found.pieces
    assert sum(n for _, _, n in run["rank_bands"]) == found.ranks(11, 100)
    evidence, ids = data["queries"]["evidence"], data["queries"]["documents"]["id"]
    of = {
        (query.row, name): str(piece.cause)
        for query in found.queries
        for piece in query.missed
        for name in piece.documents
    }
    for at in range(sample.n_queries):
        for row in range(evidence["start"][at], evidence["start"][at + 1]):
            cause = evidence["cause"][0][row]
            said = causes["names"][cause] if cause >= 0 else None
            assert said == of.get((at, ids[evidence["document"][row]]))


def test_causes_are_at_10_or_at_the_deepest_cut_off_of_shorter_rankings(
    data: dict[str, Any], sample: Dataset, ran: Ran
) -> None:
    assert data["causes"]["k"] == 10
    assert page_data([ran(sample, "bm25", k=7)], sample)["causes"]["k"] == 5


def test_each_query_has_its_evidence_with_ranks_and_its_ranking(
    data: dict[str, Any], sample: Dataset
) -> None:
    queries = data["queries"]
    assert queries["columns"]["id"] == sample.query_ids
    evidence, ranking = queries["evidence"], queries["rankings"][0]
    recall = queries["protocols"][0]["values"][0]["recall@10"]
    for at in range(len(sample.query_ids)):
        mine = range(evidence["start"][at], evidence["start"][at + 1])
        gold = {evidence["document"][row]: evidence["rank"][0][row] for row in mine}
        shown = ranking["document"][ranking["start"][at] : ranking["start"][at + 1]]
        marked = ranking["grade"][ranking["start"][at] : ranking["start"][at + 1]]
        assert [document for document, grade in zip(shown, marked, strict=True) if grade] == sorted(
            (d for d, rank in gold.items() if 0 < rank <= 10), key=lambda d: gold[d]
        )
        for document, rank in gold.items():
            assert not 0 < rank <= 10 or shown[rank - 1] == document
        if gold and recall[at] is not None:
            found = sum(0 < rank <= 10 for rank in gold.values())
            assert (found > 0) == (recall[at] > 0)


def test_a_query_that_is_not_scored_says_why(data: dict[str, Any], bm25: Path) -> None:
    excluded = read_json(bm25 / "excluded.json")["memory"]
    block, ids = data["queries"]["protocols"][0], data["queries"]["columns"]["id"]
    assert excluded
    for reason, names in excluded.items():
        for name in names:
            at = ids.index(name)
            assert block["reasons"][0][block["excluded"][0][at]] == reason
            assert block["values"][0]["recall@10"][at] is None


def test_texts_stand_once_and_long_ones_are_cut(data: dict[str, Any], sample: Dataset) -> None:
    queries = data["queries"]
    assert len(set(queries["texts"])) == len(queries["texts"])
    assert max(map(len, queries["texts"])) < 750
    assert queries["texts"][queries["columns"]["text"][0]] == sample.query(0).text


@pytest.mark.parametrize(
    ("n", "longest", "with_text"), [(9_999, 250, 9_999), (30_000, 100, 25_000)]
)
def test_texts_are_shorter_in_a_report_of_many_documents_and_the_last_are_omitted(
    n: int, longest: int, with_text: int, tmp_path: Path
) -> None:
    documents = [f'{{"_id": "d{i}", "text": "{i:05} {"x" * 500}"}}' for i in range(n)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(documents))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "x"}')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1")
    dataset = open_dataset("labelled", source=tmp_path)
    texts = Texts(share=False)
    shelf = Shelf(dataset, texts, share=False)
    for row in range(n):
        shelf.place(0, row)
    shelf.unknown("of no document")
    found = shelf.columns().text
    assert found == [*range(with_text), *[OMITTED] * (n - with_text), -1]
    assert texts.all[7] == f"00007 {'x' * (longest - 6)} … ({506 - longest} characters more)"


def test_what_is_shared_holds_no_text_of_the_dataset(bm25: Path, sample: Dataset) -> None:
    import orjson

    shared = orjson.dumps(page_data([bm25], sample, share=True)).decode()
    told = sample.documents.contents() + [sample.query(i).text for i in range(sample.n_queries)]
    answers = [answer for i in range(sample.n_queries) for answer in sample.query(i).answers]
    told += [answer for answer in answers if len(answer) > 12]
    assert not [text for text in told if orjson.dumps(text)[1:-1].decode() in shared]
    speakers = set(sample.documents.column("speaker").to_pylist())
    assert not [name for name in speakers if f'"{name}"' in shared]
    assert sample.query_ids[0] in shared
    assert '"command"' not in shared


@pytest.mark.slow
def test_two_runs_are_paired_query_by_query(bm25: Path, tfidf: Path, sample: Dataset) -> None:
    data = page_data([bm25, tfidf], sample)
    block = data["queries"]["protocols"][data["main"]]
    first, second = (one["recall@10"] for one in block["values"])
    difference = block["difference"]["recall@10"]
    for a, b, d in zip(first, second, difference, strict=True):
        assert d is None if a is None or b is None else d == pytest.approx(b - a, abs=1e-4)
    pair = data["protocols"][data["main"]]["pairs"]["all"]["recall@10"]
    known = [d for d in difference if d is not None]
    counts = [sum(d > 0 for d in known), sum(d < 0 for d in known), sum(d == 0 for d in known)]
    assert [pair["wins"], pair["losses"], pair["ties"]] == counts
    assert pair["low"] <= pair["difference"] <= pair["high"]
    assert {row["setting"] for row in data["settings"]} >= {"system", "params.b"}


@pytest.mark.slow
def test_p_values_of_main_metrics_are_those_of_harness_compare(
    bm25: Path, tfidf: Path, sample: Dataset
) -> None:
    protocols, metrics, level = shown_of(bm25)
    (group,) = compare([bm25, tfidf], Options(protocols=protocols, metrics=metrics)).groups
    (table,) = (one for one in group.tables if one.level == level)
    found = next(
        one
        for one in page_data([bm25, tfidf], sample)["protocols"]
        if (one["protocol"], one["level"]) == (table.protocol, table.level)
    )
    for cell in table.cells:
        pair = found["pairs"][cell.slice][cell.metric]
        assert (pair["p"], pair["tests"]) == (cell.pairs[0].p, table.tests)
    assert found["pairs"]["all"]["hit@5"]["tests"] > table.tests


def test_runs_that_do_not_compare_are_refused(bm25: Path, sample: Dataset, ran: Ran) -> None:
    shallow = ran(sample, "bm25", k=5)
    with pytest.raises(UsageError, match=rf"run {shallow} \(at most 5 deep\) again with --k 100"):
        page_data([bm25, shallow], sample)


class Fails(BM25):
    """Cannot take questions with an odd number of letters."""

    def search(self, queries: list[Question], k: int) -> Any:
        if any(len(query.text) % 2 for query in queries):
            raise ValueError("an odd question")
        return super().search(queries, k)


@pytest.mark.slow
def test_failed_queries_are_there_with_their_trace(sample: Dataset, ran: Ran) -> None:
    data = page_data([ran(sample, Fails(), batch_size=1)], sample)
    run, texts = data["queries"]["runs"][0], data["queries"]["texts"]
    failed = [at for at, one in enumerate(run["failed"]) if one]
    assert 0 < len(failed) == data["runs"][0]["failed"] < sample.n_queries
    for at in failed:
        assert "an odd question" in texts[run["errors"][str(at)]]


class Rewrites(BM25):
    """BM25 whose answers are texts."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: list[Question], k: int) -> Any:
        found = super().search(queries, k)
        return [[Hit("Noted: " + self._texts[int(i)]) for i in one.ids] for one in found]


def test_texts_of_the_systems_own_are_shown_with_what_they_stand_for(
    sample: Dataset, ran: Ran
) -> None:
    folder = ran(sample, Rewrites(), k=10, limit=40)
    queries = page_data([folder], sample)["queries"]
    number, way, documents = queries["runs"][0]["hits"][0][0]
    assert queries["texts"][number].startswith("Noted: ")
    first = queries["rankings"][0]["document"][0]
    assert (way, documents) == ("exact", [queries["documents"]["id"][first]])
    assert page_data([folder], sample, share=True)["queries"]["runs"][0]["hits"] == []


@pytest.mark.slow
def test_rankings_from_elsewhere_have_no_times(sample: Dataset, bm25: Path, tmp_path: Path) -> None:
    theirs = bm25 / "rankings.trec"
    folder = import_rankings(theirs, sample, ImportOptions(tmp_path, "theirs", 100, strict=True))
    score_run(folder, sample)
    data = page_data([folder], sample)
    assert data["latency"] is None
    assert set(data["queries"]["runs"][0]["ms"]) == {None}


def test_latency_counts_every_query_once(data: dict[str, Any], sample: Dataset) -> None:
    (one,) = data["latency"]["runs"]
    assert one["n"] == sample.n_queries
    assert sum(one["share"]) == pytest.approx(1)
    assert len(data["latency"]["edges_ms"]) == len(one["share"]) + 1
