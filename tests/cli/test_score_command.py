"""`harness score`: rankings from anywhere give the numbers that a run of the harness gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from output import protocols

from harness.datasets.reader import Dataset

Scores = dict[str, Any]


def _json(said: Any) -> dict[str, Any]:
    assert said.status == 0, said.err
    values: dict[str, Any] = orjson.loads(said.out)
    return values


def _values(scores: Scores) -> dict[tuple[str, str, str, str], tuple[float, int]]:
    """Every number, by protocol, unit, slice and metric."""
    return {
        (block.protocol, block.level, part, metric): (cell.value, cell.n)
        for block in protocols(scores)
        for part, found in block.slices.items()
        for metric, cell in found.metrics.items()
    }


def _as_jsonl(folder: Path, path: Path) -> None:
    rows = pq.read_table(folder / "rankings.parquet").to_pylist()
    lines = [orjson.dumps({k: row[k] for k in ("query", "document", "score")}) for row in rows]
    path.write_bytes(b"\n".join(lines))


def _as_lists(folder: Path, path: Path) -> None:
    found: dict[str, list[tuple[str, float]]] = {}
    for row in pq.read_table(folder / "rankings.parquet").to_pylist():
        found.setdefault(row["query"], []).append((row["document"], row["score"]))
    lines = [
        orjson.dumps({"query": q, "documents": [d for d, _ in r], "scores": [s for _, s in r]})
        for q, r in found.items()
    ]
    path.write_bytes(b"\n".join(lines))


@pytest.fixture
def two_conversations(data: Path, tmp_path: Path) -> list[str]:
    """The options that name the first two of LoCoMo's ten."""
    source = tmp_path / "first" / "locomo10.json"
    source.parent.mkdir()
    whole = orjson.loads((data / "locomo" / "locomo10.json").read_bytes())
    source.write_bytes(orjson.dumps(whole[:2]))
    return ["--dataset", "locomo", "--source", str(source)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "n"),
    [
        ("two_conversations", ["--retriever", "bm25-okapi", "--param", "tokens=words"], 302),
        ("longmemeval", ["--retriever", "bm25-okapi", "--granularity", "turn"], 4),
    ],
)
def test_rankings_from_any_file_score_as_the_run_they_came_from(
    harness: Callable[..., Any],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    options: list[Any],
    n: int,
) -> None:
    dataset = request.getfixturevalue(name)
    values = _json(harness("run", *dataset, *options, "--json"))
    expected = _values(values["scores"])
    assert expected["memory", "turn", "all", "recall@10"][1] == n
    folder = Path(values["folder"])
    _as_jsonl(folder, tmp_path / "rows.jsonl")
    _as_lists(folder, tmp_path / "lists.jsonl")
    dataset = [*dataset, *(options[2:] if name == "longmemeval" else [])]
    for file in (
        *(folder / "rankings.trec", folder / "rankings.parquet"),
        *(tmp_path / "lists.jsonl", tmp_path / "rows.jsonl"),
    ):
        told = harness("score", file, *dataset, "--k", values["run"]["settings"]["k"], "--json")
        scored = _json(told)
        assert _values(scored["scores"]) == expected
        assert scored["scores"].get("abstention") == values["scores"].get("abstention")
        assert scored["scores"]["tokens"] == values["scores"]["tokens"]
        assert scored["run"]["imported_from"]["file"] == file.name
        # Nothing is known of these, so nothing is said.
        assert not {"measured", "git", "machine"} & set(scored["run"])


@pytest.mark.slow
def test_locomo_s_table_of_reference_is_reached(
    harness: Callable[..., Any], locomo: list[str]
) -> None:
    options = ["--retriever", "bm25-okapi", "--param", "tokens=words", "--k", 50]
    found = _values(_json(harness("run", *locomo, *options, "--json"))["scores"])

    def row(protocol: str, metric: str) -> list[float]:
        cells = [found[protocol, "turn", "all", f"{metric}@{k}"] for k in (5, 10, 25, 50)]
        return [round(100 * value, 2) for value, _ in cells]

    assert row("locomo-official", "recall") == [45.79, 52.82, 63.27, 69.57]
    assert row("locomo-official-aggregate", "recall") == [45.59, 52.62, 63.07, 69.37]
    assert row("memory", "recall") == [45.75, 52.80, 63.29, 69.64]
    assert row("memory", "hit") == [49.45, 57.32, 68.77, 75.28]
    assert row("memory", "recall_all") == [42.94, 49.29, 58.73, 64.83]


@pytest.fixture
def perfect(sample_run: Callable[..., Path]) -> list[list[str]]:
    """The lines of a run file for `sample` with the gold alone, by the oracle."""
    lines = (sample_run("oracle") / "rankings.trec").read_text().splitlines()
    return [line.split(" ") for line in lines]


def _write(path: Path, lines: list[list[str]]) -> Path:
    path.write_text("\n".join(" ".join(line) for line in lines) + "\n")
    return path


def _recall(said: Any) -> float:
    return _values(_json(said)["scores"])["memory", "turn", "all", "recall@5"][0]


SAMPLE = ("--dataset", "sample", "--k", 100, "--json")


def test_odd_rankings_are_scored_with_a_warning_and_refused_by_strict(
    harness: Callable[..., Any], tmp_path: Path, perfect: list[list[str]]
) -> None:
    again = [perfect[0], *perfect]
    file = _write(tmp_path / "again.trec", again)
    told = harness("score", file, *SAMPLE)
    assert _recall(told) == pytest.approx(
        _recall(harness("score", _write(tmp_path / "good.trec", perfect), *SAMPLE))
    )
    assert told.err.count("\n") == 1
    assert "1 row with a document that is already in the ranking; the best rank counts" in told.err
    assert _json(told)["run"]["imported_from"]["notes"] != []
    strange = [["nobody", *perfect[0][1:]], *perfect]
    unknown = _write(tmp_path / "unknown.trec", strange)
    told = harness("score", unknown, *SAMPLE)
    assert told.status == 0
    assert "1 query that sample does not have, ignored" in told.err
    for path in (file, unknown):
        told = harness("score", path, *SAMPLE, "--strict", "--out", "strict")
        assert told.status == 2
        assert "(--strict)" in told.err
        assert told.err.count("\n") == 1
    assert not (tmp_path / "strict").exists()


def test_documents_that_the_haystack_does_not_hold_are_counted(
    harness: Callable[..., Any], tmp_path: Path, perfect: list[list[str]]
) -> None:
    strange = [[*line[:2], f"nowhere-{i}", *line[3:]] for i, line in enumerate(perfect[:3])]
    file = _write(tmp_path / "strange.trec", strange + perfect[3:])
    told = harness("score", file, "--dataset", "sample")
    assert told.status == 0
    assert "3 returned documents are not in the haystack of their query" in told.out + told.err


def test_a_query_without_a_ranking_counts_nothing_or_is_left_out(
    harness: Callable[..., Any],
    sample: Dataset,
    with_evidence: int,
    tmp_path: Path,
    perfect: list[list[str]],
) -> None:
    first = perfect[0][0]
    file = _write(tmp_path / "most.trec", [line for line in perfect if line[0] != first])
    zero = _json(harness("score", file, *SAMPLE))["scores"]
    skip = _json(harness("score", file, *SAMPLE, "--missing", "skip"))["scores"]
    cells = [_values(s)["memory", "turn", "all", "recall@5"] for s in (zero, skip)]
    assert cells[0][1] == cells[1][1] + 1
    assert cells[0][0] < cells[1][0]
    # What is printed says which it was; the run holds nothing for what has no evidence.
    without = sample.n_queries - with_evidence + 1
    for missing, said in (("zero", "counted as 0"), ("skip", "excluded")):
        told = harness("score", file, "--dataset", "sample", "--missing", missing)
        assert f"  missing={without} ({said})\n" in told.out


WRONG: list[tuple[str, bytes, str]] = [
    ("run.trec", b"", "empty; a run file has lines"),
    ("run.trec", b"q Q0 d 1\n", "line 1: 4 fields, but a run file has"),
    ("run.trec", b"mira-01 Q0 d 1 2.0 x\nmira-01 Q0 e 2\n", "line 2: 4 fields where line 1 has 6"),
    ("run.trec", b"mira-01 Q0 d 1 high x\n", "line 1: the score 'high' is not a number"),
    ("run.trec", b"mira-01 Q0 d 1 nan x\n", "line 1: the score is NaN"),
    ("run.trec", b"a Q0 d 1 2 x\nb Q0 d 1 2 x\n", "none of its 2 queries is in sample"),
    ("run.trec.gz", b"not gzip at all", "run.trec.gz"),
    ("run.jsonl", b'{"query": "mira-01", "document": "d", "sc', "line 1"),
    ("run.jsonl", b'{"query": "mira-01"}\n', "line 1"),
    ("run.jsonl", b'{"query": "mira-01", "documents": ["a", "b"], "scores": [1]}', "line 1"),
    ("run.jsonl", b'{"query": "mira-01", "document": 3, "score": 1}', "run.jsonl"),
    ("run.jsonl", b'{"query": "mira-01", "document": "d", "score": "x"}', "run.jsonl"),
    ("run.jsonl", b"", "run.jsonl"),
    ("run.parquet", b"PAR1", "not a readable Parquet file"),
]


@pytest.mark.parametrize(("name", "content", "said"), WRONG)
def test_a_run_file_that_cannot_be_read_is_one_line(
    harness: Callable[..., Any], tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    told = harness("score", name, "--dataset", "sample")
    assert told.status == 2
    assert name in told.err
    assert said in told.err
    assert told.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_parquet_file_without_the_columns_is_one_line(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"qid": ["a"], "text": ["b"]}), tmp_path / "run.parquet")
    told = harness("score", "run.parquet", "--dataset", "sample")
    assert told.status == 2
    assert "no field 'document' (or doc, " in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.trec", "--dataset", "sample"], "absent.trec: no such run file or run folder"),
        (["run.trec"], "--dataset (or --qrels) is missing"),
        (["run.trec", "--dataset", "sampel"], "did you mean sample?"),
        (["run.trec", "--dataset", "sample", "--k", "1"], "more than --k 1"),
        (["run.trec", "--dataset", "sample", "--k", "0"], "--k must be 1 or more, not 0"),
        (["run.trec", "--dataset", "sample", "--protocol", "trce"], "did you mean trec?"),
        (["run.trec", "--dataset", "sample", "--protocol", "longmemeval-470"], "these fit: memory"),
        (["run.trec", "--dataset", "sample", "--out", "run.trec"], "cannot be written"),
        ([".", "--dataset", "sample"], "not a run folder (no run.json)"),
        (
            ["run.trec", "--dataset", "sample", "--qrels", "q"],
            "exclude each other",
        ),
        (["run.trec", "--qrels", "absent.qrels"], "absent.qrels: no such qrels file"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(
    harness: Callable[..., Any], tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "run.trec").write_text("mira-01 Q0 s01_0 1 2 x\nmira-01 Q0 s01_1 2 1 x\n")
    told = harness("score", *arguments)
    assert told.status == 2
    assert said in told.err
    assert told.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.trec"]


def test_a_run_folder_is_scored_again_without_the_retriever(
    harness: Callable[..., Any], tmp_path: Path, longmemeval: list[str]
) -> None:
    (tmp_path / "gone.py").write_text("def find(text, k, corpus):\n    return range(k)\n")
    values = _json(harness("run", *longmemeval, "--retriever", "gone.py:find", "--k", 9, "--json"))
    (tmp_path / "gone.py").unlink()
    # The files were not the published ones; that they are prepared here is enough.
    again = _json(harness("score", values["folder"], "--json"))
    assert _values(again["scores"]) == _values(values["scores"])
    assert again["run"] == values["run"]
    other = _json(
        harness("score", values["folder"], "--protocol", "memory", "--ks", "2,8", "--json")
    )
    assert ("memory", "session", "all", "recall@8") in _values(other["scores"])
    assert {block.protocol for block in protocols(other["scores"])} == {"memory"}
    stored = orjson.loads((Path(values["folder"]) / "scores.json").read_bytes())
    # What is kept is whole, whatever was shown.
    memory = [b for b in protocols(stored) if b.protocol == "memory"]
    assert memory == protocols(other["scores"])
    assert len(protocols(stored)) > len(protocols(other["scores"]))


def test_a_run_folder_is_not_scored_by_another_dataset(
    harness: Callable[..., Any], tmp_path: Path, longmemeval: list[str]
) -> None:
    folder = _json(harness("run", *longmemeval, "--retriever", "recency", "--json"))["folder"]
    told = harness("score", folder, "--dataset", "sample")
    assert told.status == 2
    assert "was run on longmemeval/s, not on sample" in told.err
    assert told.err.count("\n") == 1


def test_files_that_are_not_here_any_more_are_asked_for_and_nothing_is_downloaded(
    harness: Callable[..., Any],
    tmp_path: Path,
    longmemeval: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = _json(harness("run", *longmemeval, "--retriever", "recency", "--json"))["folder"]
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "another-home"))
    told = harness("score", folder)
    assert told.status == 2
    assert "are no longer prepared here; name them with --source" in told.err
    assert _json(harness("score", folder, *longmemeval[2:], "--json"))


def test_own_documents_of_a_beir_run_file_are_left_out_and_that_is_said(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    files = tmp_path / "arguana"
    (files / "qrels").mkdir(parents=True)
    lines = [orjson.dumps({"_id": f"a{i}", "title": "", "text": f"claim {i}"}) for i in range(6)]
    (files / "corpus.jsonl").write_bytes(b"\n".join(lines))
    (files / "queries.jsonl").write_bytes(b"\n".join(lines[:3]))
    qrels = "".join(f"a{i}\ta{i + 3}\t1\n" for i in range(3))
    (files / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    run = "".join(f"a{i} Q0 a{i} 1 9 x\na{i} Q0 a{i + 3} 2 8 x\n" for i in range(3))
    (tmp_path / "run.trec").write_text(run)
    told = harness("score", "run.trec", "--dataset", "beir/arguana", "--source", files)
    assert told.status == 0
    assert "excluded documents whose id equals the query's, as BEIR does" in told.out
    (scores,) = (tmp_path / "results").glob("*/scores.json")
    found = _values(orjson.loads(scores.read_bytes()))
    assert found["trec", "passage", "all", "mrr@1"] == (1.0, 3)
