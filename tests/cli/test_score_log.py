"""`harness score --log`: what a system logged, joined to labels, as a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from output import protocols

from harness import run, score_run
from harness.datasets.reader import Dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]
Line = dict[str, Any]


@pytest.fixture(scope="module")
def own(sample: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of BM25."""
    folder = run(sample, RetrieverSpec("bm25"), out=tmp_path_factory.mktemp("own"))
    score_run(folder, sample)
    return folder


@pytest.fixture(scope="module")
def events(sample: Dataset, own: Path) -> list[Line]:
    """What a service would have logged that answers as BM25 does."""
    folder = own
    rankings = read_rankings(folder / "rankings.parquet")
    documents, starts = rankings.document.to_pylist(), rankings.starts
    table = RunFolder(folder).queries.to_pylist()
    seconds = {row["query"]: row["seconds"] for row in table}
    texts = dict(zip(sample.query_ids, sample.query_table["text"].to_pylist(), strict=True))
    assert rankings.score is not None
    lines = []
    for i, name in enumerate(rankings.query_ids):
        rows = slice(starts[i], starts[i + 1])
        hits = zip(documents[rows], rankings.score[rows].tolist(), strict=True)
        line = {"time": 1.7e9 + i, "query_id": name, "query": texts[name]}
        line["results"] = [{"id": id_, "score": score} for id_, score in hits]
        lines.append({**line, "seconds": seconds[name]})
    return lines


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def scores(said: Any) -> Any:
    assert said.status == 0, said.err
    return json.loads(said.out)


def cells(found: Any) -> Any:
    """Values and n of the protocol `memory`, by slice and metric."""
    (block,) = [b for b in protocols(found["scores"]) if b.protocol == "memory"][:1]
    return {
        (name, metric): (cell.value, cell.n)
        for name, part in block.slices.items()
        for metric, cell in part.metrics.items()
    }


@pytest.mark.slow
def test_a_log_of_everything_scores_as_the_run_does(
    harness: Harness, sample: Dataset, events: list[Line], own: Path, tmp_path: Path
) -> None:
    n = sample.n_queries
    by_id = write(tmp_path / "by_id.jsonl", [{**r, "query": None} for r in events])
    by_text = [{k: v for k, v in r.items() if k != "query_id"} for r in events]
    for line in by_text:
        line["query"] = f"  {line['query']}\n".replace(" ", "  ")  # spaces tell nothing
    text = write(tmp_path / "by_text.jsonl", by_text)
    whole = cells(scores(harness("score", own, "--json")))
    for path, way in ((by_id, "by_id"), (text, "by_text")):
        found = scores(harness("score", path, "--log", "--dataset", "sample", "--json"))
        assert cells(found) == whole
        joined = found["run"]["imported_from"]["joined"]
        assert joined[way] == n
        assert found["run"]["queries"] == {"asked": n, "answered": n, "failed": 0, "abstained": 0}
        assert found["run"]["measured"]["search_ms"]["p50"] > 0
    served = ("--log", "--dataset", "sample", "--name", "served", "--k", 100, "--full")
    said = harness("score", by_id, *served)
    assert f"{n} of {n} labelled queries have a request (100.0%)" in said.out
    assert "time              search p50" in said.out
    compared = harness("compare", next(Path("results").glob("*served*")), own)
    assert compared.status == 0, compared.err
    assert harness("report", next(Path("results").glob("*served*"))).status == 0


@pytest.mark.slow
def test_scores_are_over_the_queries_that_were_asked(
    harness: Harness,
    sample: Dataset,
    with_evidence: int,
    events: list[Line],
    tmp_path: Path,
) -> None:
    every = sample.n_queries
    asked = events[:20]
    path = write(tmp_path / "some.jsonl", asked)
    command = ("score", path, "--log", "--dataset", "sample")
    some = scores(harness(*command, "--json"))
    n = protocols(some["scores"])[0].slices["all"].n
    assert n <= 20
    said = harness(*command)
    assert f"queries=20 of {every}" in said.out
    share = f"20 of {every} labelled queries have a request ({20 / every:.1%})"
    assert f"{share}; the others are excluded" in said.out
    zero = scores(harness(*command, "--missing", "zero", "--json"))
    assert protocols(zero["scores"])[0].slices["all"].n == with_evidence
    total = protocols(some["scores"])[0].slices["all"].metrics["recall@10"].value * n
    value = protocols(zero["scores"])[0].slices["all"].metrics["recall@10"].value
    assert value == pytest.approx(total / with_evidence)


@pytest.mark.slow
def test_of_repeats_the_latest_by_time_counts(
    harness: Harness, events: list[Line], tmp_path: Path
) -> None:
    wrong = {**events[0], "results": [], "time": events[0]["time"] - 5}
    path = write(tmp_path / "again.jsonl", [*events, wrong])  # stands last, was earlier
    command = ("score", path, "--log", "--dataset", "sample")

    def returned(*more: str) -> int:
        found = scores(harness(*command, *more, "--json"))
        table = pq.read_table(Path(found["folder"]) / "queries.parquet").to_pylist()
        return int(next(r for r in table if r["query"] == wrong["query_id"])["returned"])

    assert returned() == len(events[0]["results"])
    assert returned("--repeats", "first") == 0
    assert "1 repeated requests are excluded; the latest" in harness(*command).out
    refused = harness(*command, "--repeats", "refuse")
    assert refused.status == 2
    assert f"query '{wrong['query_id']}' has 2 requests" in refused.err


def test_what_does_not_join_is_counted_not_scored(
    harness: Harness, events: list[Line], tmp_path: Path
) -> None:
    strange = {"query": "What is the capital of France?", "results": [{"id": "s01_0"}]}
    cased = {**events[1], "query_id": None, "query": events[1]["query"].upper()}
    path = write(tmp_path / "some.jsonl", [events[0], strange, cased])
    said = harness("score", path, "--log", "--dataset", "sample")
    assert "joined_by_id=1  joined_by_text=0  unlabelled=2" in said.out
    assert "warning" in said.err
    assert "2 requests that are no query of sample are excluded" in said.err
    assert harness("score", path, "--log", "--dataset", "sample", "--strict").status == 2
    none = harness(
        "score", write(tmp_path / "none.jsonl", [strange]), "--log", "--dataset", "sample"
    )
    assert none.status == 2
    assert "none of the 1 requests is a query of sample" in none.err
    assert "--log-config" in none.err


def test_failed_recalls_are_left_out_and_counted(
    harness: Harness, sample: Dataset, events: list[Line], tmp_path: Path
) -> None:
    failed = {"query_id": events[0]["query_id"], "error": "timeout"}
    path = write(tmp_path / "log.jsonl", [failed, *events[1:]])
    said = harness("score", path, "--log", "--dataset", "sample")
    assert f"queries={sample.n_queries}  failed=1" in said.out


def test_ids_of_something_else_are_refused(
    harness: Harness, events: list[Line], tmp_path: Path
) -> None:
    other = [{**r, "results": [{"id": f"doc-{i}"} for i in range(3)]} for r in events]
    said = harness("score", write(tmp_path / "a.jsonl", other), "--log", "--dataset", "sample")
    assert said.status == 2
    assert "none of its documents is in the haystack of its query, first 'doc-0'" in said.err


def test_recalls_of_two_systems_are_not_one_run(
    harness: Harness, events: list[Line], tmp_path: Path
) -> None:
    both = [{**r, "system": "a" if i % 2 else "b"} for i, r in enumerate(events)]
    path = write(tmp_path / "both.jsonl", both)
    said = harness("score", path, "--log", "--dataset", "sample")
    assert said.status == 2
    assert "requests of 2 systems (a, b)" in said.err
    config = tmp_path / "a.toml"
    config.write_text('[log.where]\nsystem = "a"\n')
    one = harness("score", path, "--log", "--dataset", "sample", "--log-config", config)
    assert one.out.startswith("a on sample")


def test_texts_without_ids_are_resolved_as_hits(
    harness: Harness, sample: Dataset, events: list[Line], tmp_path: Path
) -> None:
    held = [sample.rows_by_id(haystack) for haystack in range(len(sample.haystack_ids))]
    of = dict(zip(sample.query_ids, sample.query_haystack.tolist(), strict=True))
    lines = []
    for r in events[:60]:
        rows = [held[of[r["query_id"]]][hit["id"]] for hit in r["results"]]
        found = [{"memory": sample.documents[row].text} for row in rows]
        lines.append({"query_id": r["query_id"], "memories": found})
    path = write(tmp_path / "texts.jsonl", lines)
    said = harness("score", path, "--log", "--dataset", "sample")
    assert said.status == 0, said.err
    assert "hits" in said.out
    assert "resolved 100.0% by" in said.out


def test_a_log_that_is_not_said_to_be_one_is_told_with_what_to_type(
    harness: Harness, events: list[Line], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", events)
    for options in (["--dataset", "sample"], ["--qrels", tmp_path / "qrels"]):
        (tmp_path / "qrels").write_text("q 0 d 1\n")
        said = harness("score", path, *options)
        named = "sample" if "sample" in options else "NAME"
        command = f"harness score {path} --log --dataset {named}"
        assert said.status == 2
        assert f"to score a request log, run: {command}\n" in said.err
    broken = write(tmp_path / "b.jsonl", [{"query_id": "q", "documents": ["d"], "scores": ["x"]}])
    said = harness("score", broken, "--dataset", "sample")
    assert "scores must be numbers" in said.err


def test_clicks_are_told_with_what_they_cannot_tell(
    harness: Harness, sample: Dataset, events: list[Line], tmp_path: Path
) -> None:
    lines: list[Line] = [{**r, "request_id": f"r{i}", "clicked": []} for i, r in enumerate(events)]
    second = events[0]["results"][1]["id"]
    lines.append({"request_id": "r0", "clicked": [second, "never shown"], "rating": 1})
    lines.append({"request_id": "gone", "clicked": ["x"]})
    said = harness("score", write(tmp_path / "a.jsonl", lines), "--log", "--dataset", "sample")
    n = sample.n_queries
    assert f"click rate {1 / n:.3f} (n {n})" in said.out
    assert "reciprocal rank of the first click 0.500 (n 1)" in said.out
    assert "clicks do not measure recall" in said.out
    (folder,) = Path("results").iterdir()
    found = json.loads((folder / "feedback.json").read_text())
    assert found["clicks_by_rank"] == {"2": 1}
    assert found["clicks_not_returned"] == 1
    record = json.loads((folder / "run.json").read_text())
    assert record["imported_from"]["feedback_to_unknown_requests"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--log"], "--dataset is missing"),
        (["--log", "--qrels", "x"], "--log needs --dataset"),
        (["--dataset", "sample", "--lenient"], "need --log"),
        (["--log", "--dataset", "sample", "--repeats", "last"], "--repeats must be latest, first"),
        (["--log", "--dataset", "sample", "--log-config", "no.toml"], "no.toml: no such file"),
        (["--log", "--dataset", "sample", "--k", "2"], "more than --k 2"),
    ],
)
def test_wrong_use_is_one_line(
    harness: Harness, events: list[Line], tmp_path: Path, options: list[str], words: str
) -> None:
    said = harness("score", write(tmp_path / "a.jsonl", events), *options)
    assert said.status == 2
    assert words in said.err
    assert len(said.err.splitlines()) == 1
