"""`harness run`: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import os
import pty
import re
import resource
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from polling import HANGS

from harness.cli.options import parameters
from harness.datasets.reader import Dataset

SAMPLE = ("run", "--dataset", "sample")
BM25 = (*SAMPLE, "--retriever", "bm25")

PARTLY = """
class Partly:
    def index(self, corpus):
        self.n = len(corpus)

    def search(self, queries, k):
        for query in queries:
            if query.text.startswith("Who"):
                raise RuntimeError("no connection")
        return [list(range(min(k, self.n))) for _ in queries]

class Never(Partly):
    def search(self, queries, k):
        raise RuntimeError("no connection")
"""


def _folders(results: Path) -> list[str]:
    return sorted(p.name for p in results.iterdir()) if results.is_dir() else []


def test_the_full_table_is_by_ability_and_says_where_the_files_are(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    said = harness(*BM25, "--k", 50, "--full")
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith("bm25 on sample  granularity=turn  text=official  split=test  ")
    assert lines[1].startswith("parameters: b=0.75, ")
    rows = {line.split()[0]: line.split() for line in lines if line}
    for ability in ("lookup", "multi-hop", "temporal", "knowledge-update", "all", "random"):
        assert ability in rows
    assert {len(rows[a]) for a in ("lookup", "all")} == {8}
    (folder,) = _folders(tmp_path / "results")
    assert f"files in results/{folder}" in lines[-1]
    for name in lines[-1].split(": ")[1].split(", "):
        assert (tmp_path / "results" / folder / name).is_file()


def test_json_is_one_object_and_quiet_is_silence(harness: Callable[..., Any]) -> None:
    said = harness(*BM25, "--json", "--limit", 10)
    values = orjson.loads(said.out)
    assert set(values) == {"schema", "run", "scores", "folder", "reused"}
    assert values["run"]["settings"]["limit"] == 10
    assert values["scores"]["queries"]["asked"] == 10
    said = harness(*BM25, "--quiet")
    assert (said.status, said.out, said.err) == (0, "", "")


def test_failed_queries_are_counted_and_the_status_says_so(
    harness: Callable[..., Any], sample: Dataset, with_evidence: int, tmp_path: Path
) -> None:
    (tmp_path / "partly.py").write_text(PARTLY)
    said = harness(*SAMPLE, "--retriever", "partly.py:Partly", "--k", 10, "--full")
    assert said.status == 1
    (folder,) = _folders(tmp_path / "results")
    assert said.err.count("\n") == 1
    assert f"; all errors: results/{folder}/errors.jsonl" in said.err
    failed = len((tmp_path / "results" / folder / "errors.jsonl").read_text().splitlines())
    assert 0 < failed < 20
    assert f"queries={sample.n_queries}  failed={failed}" in said.out
    # The means are over all queries that were asked; those over the answered ones are beside them.
    rows = {line[:15].strip(): line[15:].split() for line in said.out.splitlines()}
    assert int(rows["all"][0]) == with_evidence
    assert int(rows["answered only"][0]) < with_evidence
    assert float(rows["answered only"][1]) > float(rows["all"][1])


DISTANCES = """
class Distances:
    def index(self, corpus):
        texts = zip(corpus.handles, corpus.contents)
        self.words = {handle: set(text.lower().split()) for handle, text in texts}

    def search(self, queries, k):
        asked = [set(query.text.lower().split()) for query in queries]
        return [{h: SIGN * -self.jaccard(h, one) for h in self.words} for one in asked]

    def jaccard(self, handle, words):
        return len(self.words[handle] & words) / len(self.words[handle] | words)
"""


@pytest.mark.parametrize(("sign", "warned"), [(1, True), (-1, False)])
def test_distances_without_an_order_are_said_to_be_worse_than_random(
    harness: Callable[..., Any], tmp_path: Path, sign: int, warned: bool
) -> None:
    (tmp_path / "dist.py").write_text(DISTANCES.replace("SIGN", str(sign)))
    said = harness(*SAMPLE, "--retriever", f"{tmp_path}/dist.py:Distances")
    assert said.status == 0, said.err
    assert ("recall@10 is significantly worse than a random order" in said.out) == warned


def test_strict_and_a_retriever_that_never_answers_end_with_status_1(
    harness: Callable[..., Any], sample: Dataset, tmp_path: Path
) -> None:
    (tmp_path / "partly.py").write_text(PARTLY)
    said = harness(*SAMPLE, "--retriever", "partly.py:Partly", "--strict")
    assert said.status == 1
    assert "RuntimeError: no connection" in said.err.splitlines()[0]
    assert "partly.py" in said.err  # whose fault it is
    said = harness(*SAMPLE, "--retriever", "partly.py:Never")
    assert said.status == 1
    every = f"harness: all {sample.n_queries} queries failed; first error: "
    assert said.err.startswith(every)
    assert re.search(r"first error: partly\.py:\d+ in search: RuntimeError: .* \(query ", said.err)
    assert said.err.count("\n") == 1
    assert [name for name in _folders(tmp_path / "results") if name[0] != "."] == []
    assert said.out == ""


PARSES = """
import json

class Parses:
    def index(self, corpus):
        pass

    def search(self, queries, k):
        return [self.parse(query.text) for query in queries]

    def parse(self, text):
        try:
            return json.loads(text)
        except ValueError as error:
            raise RuntimeError("not JSON\\nat all") from error
"""


def test_the_first_error_names_the_line_of_the_user_s_code(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "parses.py").write_text(PARSES)
    said = harness(*SAMPLE, "--retriever", "parses.py:Parses")
    assert "first error: parses.py:15 in parse: RuntimeError: not JSON (query " in said.err
    direct = PARSES.partition("        try:")[0] + "        return json.loads(text)"
    (tmp_path / "direct.py").write_text(direct)
    said = harness(*SAMPLE, "--retriever", "direct.py:Parses")
    assert "first error: direct.py:12 in parse: json.decoder.JSONDecodeError: " in said.err


def test_a_parameter_reaches_the_constructor_and_the_record(harness: Callable[..., Any]) -> None:
    said = harness(*BM25, "--param", "k1=0.9", "--param", "stemmer=none", "--json")
    params = orjson.loads(said.out)["run"]["retriever"]["params"]
    assert (params["k1"], params["stemmer"], params["b"]) == (0.9, "none", 0.75)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((".5", 0.5), ("5.", 5.0), ("+3", 3), ("1E3", 1000.0), ("-.5", -0.5), ("true", True)),
        *(("007", "007"), ("", ""), ("nan", "nan"), (".", "."), ("True", True), ("[1]", [1])),
    ],
)
def test_a_parameter_that_reads_as_a_number_is_one(text: str, value: object) -> None:
    (found,) = parameters([f"share={text}"]).values()
    assert (found, type(found)) == (value, type(value))


def test_metrics_and_cut_offs_that_are_asked_for_are_shown(harness: Callable[..., Any]) -> None:
    def header(*options: str) -> str:
        said = harness(*BM25, "--protocol", "memory", "--full", *options)
        assert said.status == 0
        assert "trec/" not in said.out
        return str(next(line for line in said.out.splitlines() if line.startswith("memory/")))

    assert header("--metrics", "ndcg@20,rprec").split()[2:4] == ["ndcg@20", "rprec"]
    assert {"recall@2", "recall@7", "hit@7"} <= set(header("--ks", "2,7").split())


WRONG: list[tuple[list[Any], str]] = [
    (["run"], "--dataset is missing; see `harness datasets`"),
    (["--dataset", "x"], "name the command first, for example: harness run --dataset x"),
    (["--json", "datasets"], "for example: harness datasets --json"),
    (["run", "--dataset", "sample"], "--retriever is missing; see `harness retrievers`"),
    (["run", "--dataset", "sampel", "--retriever", "bm25"], "did you mean sample"),
    (["run", "--dataset", "longmemeval/x", "--retriever", "bm25"], "longmemeval/x"),
    ([*SAMPLE, "--retriever", "bm52"], "unknown retriever 'bm52'; did you mean bm25"),
    ([*BM25, "--k", 0], "--k must be 1 or more, not 0"),
    ([*BM25, "--k", -3], "--k must be 1 or more, not -3"),
    ([*BM25, "--k", "ten"], "invalid int value: 'ten'"),
    ([*BM25, "--k", 10**30], "is beyond 64 bits"),
    ([*BM25, "--seed", 2**63 - 1], "--seed must be 4,611,686,018,427,387,904 or less"),
    ([*SAMPLE, "--retriever", "../../etc/passwd:x"], "'../../etc/passwd' is no name of a module"),
    ([*BM25, "--limit", 0], "--limit must be 1 or more, not 0"),
    ([*BM25, "--workers", 0], "--workers must be 1 or more, not 0"),
    ([*BM25, "--seed", -1], "--seed must be 0 or more, not -1"),
    ([*BM25, "--batch-size", 0], "--batch-size must be 1 or more, not 0"),
    ([*BM25, "--param", "k1"], "--param takes key=value, not 'k1'"),
    ([*BM25, "--param", "k3=1"], "has no parameter 'k3'; did you mean k1?"),
    ([*BM25, "--param", "method=lucen"], "unknown method 'lucen'; did you mean lucene"),
    ([*BM25, "--plugin", "absent.py"], "absent.py: no such Python file"),
    ([*BM25, "--granularity", "trun"], "sample has no granularity 'trun'; did you mean turn?"),
    ([*BM25, "--text", "plain"], "sample has no text form 'plain'"),
    ([*BM25, "--split", "dev"], "sample has no split 'dev'"),
    ([*BM25, "--protocol", "memroy"], "unknown protocol 'memroy'; did you mean memory?"),
    ([*BM25, "--protocol", "locomo-official"], "needs the qrels 'locomo-official'"),
    ([*BM25, "--metrics", "ndgc@10"], "did you mean ndcg"),
    ([*BM25, "--metrics", "ndcg@0"], "ndcg@0"),
    ([*BM25, "--ks", "5,ten"], "--ks takes numbers with commas between them, not '5,ten'"),
    ([*BM25, "--ks", "0,5"], "--ks: a cut-off must be 1 or more, not 0"),
    ([*BM25, "--ties", "tresc"], "unknown tie rule 'tresc'"),
    ([*BM25, "--missing", "none"], "invalid choice: 'none'"),
    ([*BM25, "--source", "/no/such/place"], "--source /no/such/place: no such file or folder"),
    ([*BM25, "--config", "absent.toml"], "--config absent.toml: no such file"),
    (["run", "--dataset", "labelled", "--retriever", "bm25"], "add --source PATH"),
    ([*BM25, "--backend", "moon"], ", not 'moon'"),
    ([*BM25, "--backend-options", "num_cpus=2"], "--backend-options need --backend"),
    (
        [*BM25, "--backend", "ray", "--backend-options", "num_cpus"],
        "--backend-options takes key=value",
    ),
    ([*BM25, "--backend", "ray", "--isolate"], "remove --backend ray"),
    ([*BM25, "--verbose"], "harness run: unexpected: --verbose"),
    (["rnu"], "unknown command 'rnu'; did you mean run"),
    (["archive", "base"], "unknown command 'archive'; did you mean harness runs archive?"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_wrong_use_is_one_line_status_2_and_nothing_written(
    harness: Callable[..., Any], tmp_path: Path, arguments: list[Any], said: str
) -> None:
    told = harness(*arguments)
    assert told.status == 2
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert [name for name in _folders(tmp_path) if name != "home"] == []


def test_an_out_folder_that_cannot_be_is_one_line(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in ("file", "file/below"):
        told = harness(*BM25, "--out", out)
        assert told.status == 2
        assert told.err.count("\n") == 1
        assert "cannot be written" in told.err
        assert "name another folder with --out" in told.err
    assert _folders(tmp_path) == ["file"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "kept"),
    [(100, []), (12_000, []), (180_000, ["queries.parquet", "rankings.parquet", "rankings.trec"])],
)
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    cache: Path, harness: Callable[..., Any], tmp_path: Path, limit: int, kept: list[str]
) -> None:
    """No file may grow beyond the limit: too small for the plan, the rankings, the scores."""
    assert harness("datasets", "prepare", "sample", "--quiet").status == 0

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    told = subprocess.run(
        [sys.executable, "-B", "-m", "harness", *BM25, "--k", "10"],
        preexec_fn=full,
        capture_output=True,
        text=True,
        env=os.environ | {"HARNESS_HOME": str(cache)},
        timeout=HANGS,
    )
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.count("\n") == 1
    assert told.stderr.startswith("harness: results")
    assert "cannot be written (File too large): free space there, or " in told.stderr
    found = {path.name for path in (tmp_path / "results").glob("[!.]*/[!.]*")}
    assert found >= set(kept)
    assert bool(found) == bool(kept)
    assert "scores.json" not in found


@pytest.mark.slow
def test_python_m_harness_is_the_harness_command(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("harness")
    wanted = ["retrievers", "--json"]
    outputs = [
        subprocess.run([*start, *wanted], capture_output=True, cwd=tmp_path, check=True).stdout
        for start in ([sys.executable, "-m", "harness"], [str(command)])
    ]
    assert outputs[0] == outputs[1] != b""


@pytest.mark.parametrize(("more", "bar"), [([], True), (["--quiet"], False), (["--json"], False)])
def test_a_progress_bar_is_for_terminals_and_not_when_quiet(
    harness: Callable[..., Any],
    sample: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    bar: bool,
) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with monkeypatch.context() as patch, os.fdopen(os.dup(theirs), "w") as terminal:
        patch.setattr(sys, "stderr", terminal)
        assert harness(*SAMPLE, "--retriever", "recency", "--k", "1", *more).status == 0
    os.write(theirs, b"the end")
    shown = b""
    while not shown.endswith(b"the end"):
        shown += os.read(ours, 1 << 16)
    assert (b"%d/%d" % (sample.n_queries, sample.n_queries) in shown) is bar


def test_without_a_command_the_help_is_shown(harness: Callable[..., Any]) -> None:
    said = harness()
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("usage: harness")
    assert "A first run, offline" in said.out


def test_of_several_datasets_and_retrievers_every_pair_is_run(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    two = ("--retriever", "bm25", "--retriever", "tfidf", "--limit", 8)
    said = harness(*SAMPLE, *two)
    assert said.status == 0
    assert len(list((tmp_path / "results").glob("sample-*"))) == 2
    assert (tmp_path / "results" / "leaderboard.json").is_file()
    assert {line.split()[1] for line in said.out.splitlines()[2:]} == {"bm25", "tfidf"}
    for more, told in (
        (("--retriever", "bm25"), "bm25 on sample is named twice"),
        (("--config", "sample"), "write them into it, as [[datasets]] and [[retrievers]]"),
        (("--dataset", "locmo"), "unknown dataset 'locmo'; did you mean locomo"),
    ):
        wrong = harness(*SAMPLE, *two, *more)
        assert wrong.status == 2
        assert told in wrong.err
