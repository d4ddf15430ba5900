"""What a run leaves: the same bytes however it was run, in files that other tools read."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
import pytrec_eval
from corpora import labelled, ranked

from harness.datasets.reader import Dataset, choose_queries
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.io.plugins import PLUGIN_MODULE
from harness.records.run import GitState
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.request import work_items
from harness.runs.run import run
from harness.runs.settings import Settings


@pytest.fixture
def sample(home: Path) -> Dataset:
    return open_dataset("sample")


@pytest.fixture
def many(home: Path, tmp_path: Path) -> Dataset:
    """1,100 questions to one haystack: more than one unit of work."""
    documents = [{"id": f"d{i}", "text": f"word{i % 50} of document {i}"} for i in range(200)]
    queries = [{"id": f"q{i}", "text": f"which word{i % 50}?"} for i in range(1100)]
    return labelled(
        tmp_path / "files", documents, queries, {f"q{i}": [f"d{i % 50}"] for i in range(1100)}
    )


def _files(folder: Path) -> tuple[bytes, bytes]:
    return tuple((folder / f"rankings.{e}").read_bytes() for e in ("parquet", "trec"))  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retriever", "choices"),
    [
        ("bm25", [(1, 7), (2, None)]),
        ("random", [(1, 512), (2, 5)]),
    ],
)
def test_workers_and_batches_change_no_byte(
    many: Dataset, tmp_path: Path, retriever: str, choices: list[tuple[int, int | None]]
) -> None:
    def made(workers: int, batch_size: int | None) -> tuple[bytes, bytes]:
        settings = Settings(10, workers=workers, batch_size=batch_size)
        return _files(run(many, retriever, settings, out=tmp_path, mode=Mode.OVERWRITE))

    first = made(1, None)
    assert len(first[0]) > 1000
    for choice in choices:
        assert made(*choice) == first


def test_a_second_run_takes_the_place_of_the_first_which_is_kept_beside_it(
    sample: Dataset, tmp_path: Path
) -> None:
    first = run(sample, "bm25", Settings(10), out=tmp_path)
    (first / "scores.json").write_text("old")
    assert run(sample, "bm25", Settings(10), out=tmp_path, mode=Mode.REPLACE) == first
    assert sorted(path.name for path in first.iterdir()) == [
        "queries.parquet",
        "rankings.parquet",
        "rankings.trec",
        "run.json",
    ]
    (earlier,) = (tmp_path / f"{first.name}.previous").iterdir()
    assert (earlier / "scores.json").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("limit", [1, 4, 10, 33, 320])
def test_a_limit_takes_every_ability_s_share_in_the_order_of_the_file(
    sample: Dataset, limit: int
) -> None:
    rows = choose_queries(sample, limit, seed=0)
    assert len(rows) == limit
    assert (np.diff(rows) > 0).all()
    assert (rows == choose_queries(sample, limit, seed=0)).all()
    whole, taken = Counter(sample.abilities.tolist()), Counter(sample.abilities[rows].tolist())
    for ability, n in whole.items():
        share = n * limit / sample.n_queries
        assert abs(taken[ability] - share) < 1 or (taken[ability] == 1 and limit >= 5)
    if limit in (10, 33):
        assert rows.tolist() != choose_queries(sample, limit, seed=1).tolist()


def test_a_limit_beyond_the_dataset_is_all_of_it(sample: Dataset, tmp_path: Path) -> None:
    assert len(choose_queries(sample, 500, 0)) == sample.n_queries
    folder = run(sample, "bm25", Settings(5, limit=12), out=tmp_path)
    assert RunFolder(folder).record.queries.asked == 12
    order = RunFolder(folder).queries["query"].to_pylist()
    rows = [sample.query_ids.index(name) for name in order]
    assert rows == choose_queries(sample, 12, 0).tolist()
    # What was not asked counts nowhere.
    scores = score_run(folder, sample)
    assert scores.report.queries.asked == 12
    assert len(scores.excluded["memory"]["not asked in this run"]) == sample.n_queries - 12


def test_units_hold_every_query_once(many: Dataset) -> None:
    planned = work_items(many, np.arange(1100), seed=3)
    assert [unit.number for unit in planned] == [0, 1, 2]
    assert sorted(query for unit in planned for query in unit.queries) == list(range(1100))


@pytest.mark.parametrize(
    "changed",
    [{"k": -1}, {"limit": 0}, {"workers": 0}, {"batch_size": 0}, {"batch_size": -4}, {"seed": -1}],
)
def test_numbers_that_cannot_be_are_refused(changed: dict[str, int]) -> None:
    (name,) = changed
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} must be [01] or more, not"):
        Settings(**changed)  # type: ignore[arg-type]


def test_the_trec_run_scores_the_same_elsewhere(sample: Dataset, tmp_path: Path) -> None:
    folder = run(sample, "bm25", Settings(100), out=tmp_path)
    score_run(folder, sample)
    judged = sample.qrels()
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(
        judged.query, judged.document_id.to_pylist(), judged.grade, strict=True
    ):
        qrels.setdefault(sample.query_ids[query], {})[document] = int(grade)
    with open(folder / "rankings.trec") as file:
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "recip_rank"}).evaluate(
            pytrec_eval.parse_run(file)
        )
    table = pq.read_table(folder / "scores.parquet").to_pylist()
    ours = {row["query"]: row for row in table if row["protocol"] == "trec"}
    assert len(theirs) > 50
    for query, values in theirs.items():
        assert ours[query]["ndcg@10"] == pytest.approx(values["ndcg_cut_10"], abs=1e-9)
        assert ours[query]["mrr"] == pytest.approx(values["recip_rank"], abs=1e-9)


def test_both_files_of_rankings_say_the_same(sample: Dataset, tmp_path: Path) -> None:
    folder = run(sample, "bm25", Settings(20), out=tmp_path)
    one, two = (read_rankings(folder / f"rankings.{ending}") for ending in ("parquet", "trec"))
    assert one.query_ids == two.query_ids
    assert one.document.to_pylist() == two.document.to_pylist()
    assert one.score is not None
    assert (one.score == two.score).all()  # every bit of a score is written
    ranks = pq.read_table(folder / "rankings.parquet")["rank"].to_pylist()
    assert ranks[:3] == [1, 2, 3]


@pytest.mark.parametrize("odd", ["two words", "tab\there", "no\u00a0break", "line\u2028end"])
def test_ids_with_white_space_leave_out_the_trec_file(home: Path, tmp_path: Path, odd: str) -> None:
    documents = [{"id": odd, "text": "the key is in the pot"}, {"id": "b", "text": "rain"}]
    dataset = labelled(tmp_path / "files", documents, [{"id": "q", "text": "key"}], {"q": [odd]})
    folder = run(dataset, "bm25", out=tmp_path)
    assert not (folder / "rankings.trec").exists()
    assert ranked(folder) == {"q": [odd]}
    assert score_run(folder, dataset).report.protocols[0].slices["all"].n == 1


def test_run_json_says_where_the_number_came_from(sample: Dataset, tmp_path: Path) -> None:
    spec = RetrieverSpec("bm25", {"k1": 0.9})
    folder = run(sample, spec, Settings(7, limit=9, seed=4, workers=2), out=tmp_path)
    record = orjson.loads((folder / "run.json").read_bytes())
    assert record["dataset"] == {
        "name": "sample",
        "granularity": "turn",
        "text": "official",
        "split": "test",
        "fingerprint": sample.fingerprint,
        "published_files": True,
        "counts": sample.manifest.counts,
        "licence": sample.manifest.licence,
    } | {key: record["dataset"][key] for key in record["dataset"] if key == "origin"}
    assert record["retriever"]["params"]["k1"] == 0.9
    assert record["retriever"]["params"]["b"] == 0.75
    assert record["retriever"]["version"] == record["versions"]["harness"]
    assert record["settings"] == {
        "k": 7,
        "limit": 9,
        "seed": 4,
        "workers": 2,
        "batch_size": 1,
    }
    assert record["measured"]["peak_memory_bytes"]["largest_worker"] > 10**6
    assert record["finished"].endswith("+00:00")


def test_the_git_state_is_that_of_the_working_folder(
    sample: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git() -> GitState | None:
        folder = run(sample, "recency", Settings(1, 1), out=out, mode=Mode.OVERWRITE)
        return RunFolder(folder).record.git

    out, here = tmp_path / "out", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert git() is None
    (here / "notes.txt").write_text("one")
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "one"]):
        subprocess.run(["git", *command], check=True)
    state = git()
    assert state is not None
    assert (len(state.commit), state.changed) == (40, False)
    (here / "notes.txt").write_text("two")
    assert git() == GitState(commit=state.commit, changed=True)


@pytest.mark.extensions
def test_code_and_weights_that_shape_a_run_tell_it_from_others(home: Path, tmp_path: Path) -> None:
    code = tmp_path / "longest.py"
    dataset = open_dataset("sample")
    spec = RetrieverSpec("rerank", {"reranker": f"{code}:score", "depth": 5})

    def folder(body: str) -> Path:
        code.write_text(f"def score(question, texts):\n    return [{body} for text in texts]\n")
        forget = [name for name in sys.modules if name.startswith(PLUGIN_MODULE)]
        for name in forget:
            del sys.modules[name]
        return run(dataset, spec, out=tmp_path / "runs")

    longest, shortest = folder("len(text)"), folder("-len(text)")
    assert longest != shortest
    assert folder("len(text)") == longest
    assert set(RunFolder(longest).record.retriever.files) == {"longest.py"}
