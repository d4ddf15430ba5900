"""A run's rankings as a file for other tools: the same rows, whole or not at all, streamed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval
import yaml
from corpora import labelled
from resealed import reseal

from harness.datasets.export import export
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runfiles.rankings import Rankings
from harness.runfiles.readers import read_rankings
from harness.runfiles.write import blocks, read_blocks, write_jsonl, write_parquet, write_trec
from harness.runs.folder.export import FLAT, export_run
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.rankings import write_rankings
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings


def made(home: Path, tmp_path: Path, document: str) -> Path:
    """The folder of a run over 30 documents, called so with a number behind it."""
    documents = [{"id": f"{document}{i}", "text": f"a text of word{i % 7}"} for i in range(30)]
    queries = [{"id": f"q{i}", "text": f"which word{i}?"} for i in range(7)]
    judged = {f"q{i}": [f"{document}{i}"] for i in range(7)}
    dataset = labelled(tmp_path / "files", documents, queries, judged)
    return run(dataset, "bm25", Settings(20), out=tmp_path)


def same(one: Rankings, other: Rankings) -> bool:
    assert one.score is not None
    assert other.score is not None
    return (
        one.query_ids == other.query_ids
        and one.document.to_pylist() == other.document.to_pylist()
        and np.array_equal(one.query, other.query)
        and np.array_equal(one.score, other.score)
    )


def test_every_format_holds_the_run_s_own_rankings(home: Path, tmp_path: Path) -> None:
    folder = made(home, tmp_path, "d")
    own = read_rankings(folder / "rankings.parquet")
    for format in FLAT:
        out = tmp_path / "out" / f"theirs.{format}"
        export_run(folder, out, format)
        assert same(read_rankings(out), own)
    exported = (tmp_path / "out" / "theirs.trec").read_bytes()
    assert exported == (folder / "rankings.trec").read_bytes()


@pytest.mark.extensions
def test_ir_metadata_stands_before_the_rankings_as_yaml(home: Path, tmp_path: Path) -> None:
    folder, out = made(home, tmp_path, "d"), tmp_path / "theirs.trec"
    export_run(folder, out, "ir-metadata")
    lines = out.read_text().splitlines(keepends=True)
    end = lines.index("# ir_metadata.end\n")
    assert lines[0] == "# ir_metadata.start\n"
    assert "".join(lines[end + 1 :]) == (folder / "rankings.trec").read_text()
    described = yaml.safe_load("".join(line.removeprefix("# ") for line in lines[1:end]))
    record = json.loads((folder / "run.json").read_text())
    assert described["schema-version"] == 0.1
    assert described["tag"] == lines[end + 1].split()[-1]
    assert described["implementation"]["executable"]["cmd"] == record["command"]
    (stage,) = described["method"]["retrieval"]
    assert stage == {"name": "bm25", "method": "bm25", "params": record["retriever"]["params"]}
    collection = described["data"]["test collection"]
    assert collection["fingerprint"] == record["dataset"]["fingerprint"]
    assert same(read_rankings(out), read_rankings(folder / "rankings.parquet"))


def test_pytrec_eval_finds_our_numbers_in_an_exported_run_and_dataset(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")  # its haystacks share ids
    folder = run(dataset, "bm25", Settings(20), out=tmp_path)
    export_run(folder, tmp_path / "run.trec", "trec")
    export(dataset, tmp_path / "files", "trec")
    with (
        (tmp_path / "files" / "qrels.txt").open() as qrels,
        (tmp_path / "run.trec").open() as ranks,
    ):
        evaluator = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(qrels), {"recall.10", "ndcg_cut.10"}
        )
        theirs = evaluator.evaluate(pytrec_eval.parse_run(ranks)).values()
    scores = score_run(folder, dataset)
    for name, ours in {"recall_10": "recall@10", "ndcg_cut_10": "ndcg@10"}.items():
        mean = sum(values[name] for values in theirs) / len(theirs)
        assert mean == pytest.approx(scores[ours, "all", "trec"], abs=1e-9)

    options = ImportOptions(tmp_path / "imported", "theirs", k=20, strict=True)
    again = import_rankings(tmp_path / "run.trec", dataset, options)
    assert same(*(read_rankings(one / "rankings.parquet") for one in (again, folder)))


def test_what_cannot_be_exported_leaves_nothing(home: Path, tmp_path: Path) -> None:
    folder = made(home, tmp_path, "a blank ")
    out = tmp_path / "out" / "theirs"
    with pytest.raises(UsageError, match=r"white space .*; export as parquet or jsonl"):
        export_run(folder, out, "trec")
    assert list(out.parent.iterdir()) == []
    export_run(folder, out, "jsonl")
    assert json.loads(out.read_text().splitlines()[0])["documents"][0].startswith("a blank ")
    with pytest.raises(UsageError, match="exists; name a new file"):
        export_run(folder, out, "parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        export_run(folder, tmp_path / "file" / "theirs", "jsonl")
    with pytest.raises(UsageError, match="unknown export format 'csv'"):
        export_run(folder, tmp_path / "other", "csv")


@pytest.mark.parametrize("scored", [True, False])
def test_blocks_of_any_size_give_the_same_files(tmp_path: Path, scored: bool) -> None:
    rng = np.random.default_rng(5)
    sizes = np.array([3, 0, 40, 1, 0, 17])
    rankings = Rankings(
        [f"q{i}" for i in range(6)],
        np.repeat(np.arange(6, dtype=np.int32), sizes),
        pa.chunked_array([[f"d{i}" for i in range(30)], [f"é{i}" for i in range(31)]]),
        rng.random(61) * 3 if scored else None,
    )
    parquet = tmp_path / "rankings.parquet"
    write_parquet(rankings, parquet)
    for rows in (1, 7, 1000):
        for read in (blocks(rankings, rows), read_blocks(parquet, rows)):
            write_trec(read, tmp_path / f"{rows}.trec", "t")
            assert (tmp_path / f"{rows}.trec").read_bytes() == _lines(rankings)
        write_jsonl(read_blocks(parquet, rows), tmp_path / f"{rows}.jsonl")
    lines = (tmp_path / "1.jsonl").read_text()
    assert lines == (tmp_path / "7.jsonl").read_text() == (tmp_path / "1000.jsonl").read_text()
    assert [len(json.loads(line)["documents"]) for line in lines.splitlines()] == [3, 40, 1, 17]
    assert ("scores" in json.loads(lines.splitlines()[0])) == scored


def _lines(rankings: Rankings) -> bytes:
    """The TREC lines of rankings, written row by row."""
    counts = np.bincount(rankings.query).tolist()
    lines, rank = [], 0
    for row, (query, document) in enumerate(
        zip(rankings.query.tolist(), rankings.document.to_pylist(), strict=True)
    ):
        rank = rank + 1 if row and rankings.query[row - 1] == query else 1
        score: float = counts[query] - rank + 1
        if rankings.score is not None:
            score = float(rankings.score[row])
        lines.append(f"{rankings.query_ids[query]} Q0 {document} {rank} {score!r} t\n")
    return "".join(lines).encode()


_PEAK = """
import sys
from pathlib import Path
from harness.runs.folder.export import export_run
export_run(Path(sys.argv[1]), Path(sys.argv[1]) / sys.argv[2], sys.argv[2])
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(home: Path, tmp_path: Path) -> None:
    """Peaks of fresh processes, in kB, over one and three row groups of a Parquet file."""
    small = made(home, tmp_path, "d")

    def peaks(queries: int) -> list[int]:
        folder = shutil.copytree(small, tmp_path / str(queries))
        query = np.repeat(np.arange(queries, dtype=np.int32), 1000)
        ids = pa.array(np.random.default_rng(1).integers(0, 8_000_000, len(query)))
        documents = pa.chunked_array([ids.cast(pa.string())])
        names = [f"q{i}" for i in range(queries)]
        score = np.linspace(40, 1, len(query))
        write_rankings(Rankings(names, query, documents, score), folder, "bm25")
        reseal(folder)
        commands = ([sys.executable, "-c", _PEAK, str(folder), format] for format in FLAT)
        done = (subprocess.run(c, check=True, capture_output=True, text=True) for c in commands)
        return [int(one.stdout) for one in done]

    few, many = peaks(1100), peaks(3300)
    assert max(np.subtract(many, few)) < 20_000, f"{few} at 1.1 million rows, {many} at 3.3"
