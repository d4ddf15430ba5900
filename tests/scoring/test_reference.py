"""The scorer gives the numbers of the reference implementation; `harness verify` accepts them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from edited_scores import edit_scores
from reference.verify import Verdict, verify

from harness.analysis.verify.render import lines
from harness.analysis.verify.verify import verify as verify_folder
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.io.files import read_json
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.metrics import parse_metrics
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties

Runs = Callable[..., Path]


@pytest.fixture
def folder(sample_run: Runs, tmp_path: Path) -> Path:
    """A scored run that may be altered."""
    return Path(shutil.copytree(sample_run("bm25", k=20, limit=40), tmp_path / "run"))


def assert_recomputed(folder: Path) -> Verdict:
    """Compares a folder with the reference implementation, and with `harness verify`."""
    verdict = verify(folder)
    assert verdict.agrees, (verdict.differences, verdict.checks)
    assert verdict.means[0] == verdict.means[1] > 0
    assert min(line.digits for line in verdict.lines) >= 12, verdict.lines
    theirs = verify_folder(folder)
    assert theirs.agrees, "\n".join(lines(theirs))
    return verdict


def compared(verdict: Verdict) -> set[tuple[str, str]]:
    """Protocol and level of what is about values."""
    return {(line.protocol, line.unit) for line in verdict.lines if not line.levels}


def told(verdict: Verdict) -> set[str]:
    """The numbers that differ."""
    return {one.what for one in verdict.differences}


def test_every_mean_of_an_honest_run_is_recomputed_and_what_is_not_is_named(folder: Path) -> None:
    verdict = assert_recomputed(folder)
    assert compared(verdict) == {
        ("memory/1", "turn"),
        ("memory/1", "turn>session"),
        ("trec/1", "turn"),
        ("knowledge-update/1", "turn"),
        ("abstention/1", "turn"),
        ("tokens/1", "turn"),
        ("counts", "turn"),
    }
    assert {line.digits for line in verdict.lines} <= {14, 15}
    assert set(verdict.not_verified) == {
        "expected value of ties",
        "random baseline",
        "random baseline of knowledge_update",
        "random baseline of tokens",
        "abstention at a threshold",
    }


@pytest.mark.slow
@pytest.mark.parametrize("ties", list(Ties))
def test_every_order_of_ties_cut_off_and_metric_is_recomputed(folder: Path, ties: Ties) -> None:
    metrics = "ndcg_exp@7,ndcg_b2@4,f1@5,judged@3,precision_returned@20,recall(rel=2)@10,map@8"
    metrics += ",rprec,ndcg,mrr,map(rel=2)"
    choices = Choices(ks=(2, 20), metrics=tuple(parse_metrics(metrics)), ties=ties, answers=True)
    score_run(folder, open_dataset("sample"), choices)
    verdict = assert_recomputed(folder)
    of_answers = {line.by for line in verdict.lines if line.protocol == "answers/1"}
    assert of_answers == {"plain Python", "sacrebleu"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "settings", "granularity", "protocols"),
    [
        ("locomo", "locomo/locomo10.json", Settings(k=50, limit=20), granularity, protocols)
        for granularity in ("turn", "session")
        for protocols in [{"locomo-official/1", "locomo-official-aggregate/1", "abstention/1"}]
    ]
    + [
        (
            *("longmemeval/s", "longmemeval/longmemeval_s_sample.json", Settings(k=60)),
            *(granularity, {"longmemeval-official/1", "longmemeval-470/1", "knowledge-update/1"}),
        )
        for granularity in ("turn", "session")
    ]
    + [("beir/scifact", "beir/scifact", Settings(k=20, limit=20), "passage", {"trec/1"})],
)
def test_real_data_are_recomputed_with_their_official_protocols(
    data: Path,
    tmp_path: Path,
    name: str,
    source: str,
    settings: Settings,
    granularity: str,
    protocols: set[str],
) -> None:
    dataset = open_dataset(name, granularity=granularity, source=data / source)
    made = run(dataset, "bm25", settings, out=tmp_path)
    score_run(made, dataset)
    verdict = assert_recomputed(made)
    assert protocols <= {line.protocol for line in verdict.lines}


class Notes(BM25):
    """Answers with texts of its own: of one document, of two, of none, and without any answer."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        return [
            Result(
                hits=[
                    self._hit(n + at, [self._texts[int(i)] for i in found.ids[at : at + 2]])
                    for at in range(len(found.ids) if query.text[-2] != "e" else 0)
                ]
            )
            for n, (query, found) in enumerate(
                zip(queries, super().search(queries, k), strict=True)
            )
        ]

    def _hit(self, number: int, texts: list[str]) -> Hit:
        if number % 5 == 3:
            return Hit("zzqx blorp")
        return Hit(" ".join(texts) if number % 5 == 1 else f"Noted: {texts[0]}")


@pytest.mark.slow
def test_a_run_of_texts_is_recomputed_from_what_they_were_matched_to(
    sample: Dataset, tmp_path: Path
) -> None:
    made = run(sample, Notes(), Settings(k=5, limit=40), out=tmp_path)
    score_run(made, sample)
    verdict = assert_recomputed(made)
    assert {"hits", "answers/1"} <= {line.protocol for line in verdict.lines}
    hits = pq.read_table(made / "hits.parquet")
    pq.write_table(hits.slice(1), made / "hits.parquet")
    failed = [check.what for check in verify(made).checks if not check.ok]
    assert "hits.parquet" in failed


class Breaking(BM25):
    """Cannot answer some questions."""

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        if any("the" in query.text.split() for query in queries):
            raise RuntimeError("no answer to that")
        return super().search(queries, k)


@pytest.mark.slow
def test_a_run_with_failed_queries_is_recomputed(sample: Dataset, tmp_path: Path) -> None:
    made = run(sample, Breaking(), Settings(k=10, limit=40, batch_size=1), out=tmp_path)
    score_run(made, sample)
    failed = read_json(made / "scores.json")["queries"]["failed"]
    assert 0 < failed < 40
    assert_recomputed(made)
    edit_scores(made, lambda scores: scores["queries"].update(failed=failed - 1))
    assert told(verify(made)) == {"queries.failed"}


@pytest.mark.slow
def test_rankings_from_elsewhere_with_gaps_ties_and_strangers_are_recomputed(
    sample: Dataset, tmp_path: Path
) -> None:
    queries, documents = sample.query_ids, sample.documents.column("id").to_pylist()
    rows = [
        f"{query} Q0 {document} 0 {(at // 3) * 0.5 + 1e-9 * (at % 2)} r"
        for n, query in enumerate([*queries[::3], "who-is-this"])
        for at, document in enumerate([*documents[n : n + 9], documents[n], "no-such-document"])
    ]
    (tmp_path / "run.trec").write_text("\n".join(rows) + "\n")
    made = import_rankings(tmp_path / "run.trec", sample, ImportOptions(out=tmp_path, name="r"))
    for choices in (Choices(ks=(5,)), Choices(ks=(5,), missing="skip", answers=True)):
        score_run(made, sample, choices)
        assert_recomputed(made)


def test_documents_with_the_querys_own_id_are_left_out_as_the_dataset_says(
    home: Path, tmp_path: Path
) -> None:
    source = tmp_path / "raw"
    (source / "qrels").mkdir(parents=True)
    words = ["harbour", "ferry", "noon", "bread", "night", "river", "stone", "glass", "paper"]
    texts = {f"d{n}": " ".join(words[n % 7 : n % 7 + 4]) for n in range(30)}
    asked = list(texts)[:12]
    judged = [f"{q}\t{d}\t1" for n, q in enumerate(asked) for d in (q, f"d{(n + 7) % 30}")]
    for name, ids in (("corpus", list(texts)), ("queries", asked)):
        rows = [{"_id": id_, "title": "", "text": texts[id_]} for id_ in ids]
        (source / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    header = "query-id\tcorpus-id\tscore"
    (source / "qrels" / "test.tsv").write_text("\n".join([header, *judged]) + "\n")
    dataset = open_dataset("beir/fiqa", source=source)
    assert dataset.manifest.exclude_self
    made = run(dataset, "bm25", Settings(k=20), out=tmp_path)
    score_run(made, dataset)
    assert_recomputed(made)


def test_a_folder_with_fewer_numbers_is_verified(folder: Path) -> None:
    def fewer(scores: Any) -> None:
        scores["knowledge_update"]["random_baseline"].clear()
        for block in scores["protocols"]:
            for part in block["slices"].values():
                for one in part["metrics"].values():
                    one.pop("macro_haystack", None)
                    one.get("interval", {}).pop("effective_clusters", None)
                    one.pop("random_method", None)

    edit_scores(folder, fewer)
    (folder / "rankings.parquet").unlink()
    assert verify(folder).agrees
    assert verify_folder(folder).differences == []


@pytest.mark.slow
def test_numbers_of_changes_are_recomputed_and_held(tmp_path: Path) -> None:
    dataset = open_dataset("changes")
    made = run(dataset, BM25(), Settings(k=20), out=tmp_path)
    score_run(made, dataset)
    verdict = assert_recomputed(made)
    assert ("changes/1", "turn") in compared(verdict)
    assert "random baseline of changes" in verdict.not_verified

    def edit(scores: Any) -> None:
        changes = scores["changes"]
        for numbers in (changes, changes["values"]):
            for name, number in numbers.items():
                if type(number) in (int, float):
                    numbers[name] = number + 1

    edit_scores(made, edit)
    kinds = ("outdated_returned", "outdated_above", "forgotten_returned", "future_returned")
    counts = {"n_after_update", "n_after_forget", "n_with_future"}
    assert told(verify(made)) == {f"{kind}@{k}" for kind in kinds for k in (1, 5, 10)} | counts
    edit_scores(made, lambda scores: scores.pop("changes"))
    assert told(verify(made)) == counts
