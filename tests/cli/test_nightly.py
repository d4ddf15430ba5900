"""Lists of runs, night after night: real runs on the sample, a summary, a history."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from polling import HANGS, wait_until

from harness.analysis.scored_run import ScoredRun
from harness.datasets.registry import open_dataset
from harness.extensions.site.history_page import history_data
from harness.extensions.site.nightly.change import compare_with_last
from harness.extensions.site.nightly.nightly_run import main_part
from harness.io.plugins import PLUGIN_MODULE

MINE = """
SIGN = 1

class Mine:
    def index(self, corpus):
        self.words = [set(document.content.lower().split()) for document in corpus]

    def search(self, queries, k):
        wanted = [set(query.text.lower().split()) for query in queries]
        scores = [[len(w & words) for words in self.words] for w in wanted]
        return [sorted(enumerate(s), key=lambda hit: -SIGN * hit[1])[:k] for s in scores]
"""

FAILS = """
class Fails:
    def index(self, corpus):
        raise MemoryError("too much: " + corpus[0].text)

    def search(self, queries, k):
        return []
"""

# Waits for a signal at its first search in the night in which a file asks for it.
SLOW = """
import os, time
from pathlib import Path

class Slow:
    def index(self, corpus):
        self.n = len(corpus)

    def search(self, queries, k):
        with open("searches", "a") as log:
            log.write("x")
        if Path("wait").exists():
            Path("waiting").touch()
            time.sleep(3600)
        return [list(range(min(k, self.n))) for _ in queries]
"""

LIST = """
out = "runs"
k = 20
[nightly]
cluster_by = "queries"
max_drop = 0.02
[[datasets]]
dataset = "sample"
[[datasets]]
dataset = "labelled"
source = "files"
[[datasets]]
name = "gone"
dataset = "labelled"
source = "not-there"
[[retrievers]]
retriever = "bm25"
[[retrievers]]
retriever = "mine.py:Mine"
only = ["sample"]
[[retrievers]]
retriever = "fails.py:Fails"
only = ["sample"]
"""

SLOW_LIST = """
out = "runs"
k = 20
[[datasets]]
dataset = "labelled"
source = "files"
[[retrievers]]
retriever = "bm25"
[[retrievers]]
retriever = "slow.py:Slow"
[[retrievers]]
retriever = "recency"
"""


SLOW_NIGHT = ("run", "--config", "slow.toml")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of somebody with a list, retrievers and data of their own."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "documents.jsonl").write_text(
        "".join(f'{{"id": "d{i}", "text": "note number{i}"}}\n' for i in range(30))
    )
    (files / "queries.jsonl").write_text('{"id": "q", "text": "number7"}\n')
    (files / "qrels.jsonl").write_text('{"query": "q", "document": "d7"}\n')
    for name, text in (("mine", MINE), ("fails", FAILS), ("slow", SLOW)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "nightly.toml").write_text(LIST)
    (tmp_path / "slow.toml").write_text(SLOW_LIST)
    return tmp_path


def begin(place: Path) -> subprocess.Popen[str]:
    """A night as a process of its own, which can be killed."""
    command = [sys.executable, "-m", "harness", *SLOW_NIGHT]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=place, **pipes)  # type: ignore[call-overload,no-any-return]


def kill_in_the_midst(place: Path) -> None:
    """A night that is killed while its slow system is asked."""
    (place / "wait").touch()
    process = begin(place)
    wait_until_it_hangs(place, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=HANGS)
    (place / "wait").unlink()


def night(harness: Callable[..., Any]) -> Any:
    """A night in this process, which sees the files of retrievers as they are then."""
    for name in [name for name in sys.modules if name.startswith(PLUGIN_MODULE)]:
        del sys.modules[name]
    return harness("run", "--config", "nightly.toml")


def summary(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((place / "runs" / "summary.json").read_bytes())
    return found


def history(place: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (place / "runs" / "history.jsonl").open("rb")]


def of(found: dict[str, Any], dataset: str, system: str) -> dict[str, Any]:
    (run,) = [r for r in found["runs"] if (r["dataset"], r["system"]) == (dataset, system)]
    return run


def values(folder: Path, metric: str) -> np.ndarray:
    table = pq.read_table(folder / "scores.parquet").to_pandas()
    mine = table[(table.protocol == "memory") & (table.level == "turn")]
    return mine.sort_values("query")[metric].to_numpy()


@pytest.mark.slow
def test_a_night_says_what_changed_what_failed_and_what_does_not_compare(
    place: Path, harness: Callable[..., Any]
) -> None:
    told = night(harness)
    assert told.status == 1
    assert "first run, nothing to compare with: bm25 on sample" in told.out
    first = summary(place)
    folder = place / "runs" / of(first, "sample", "mine.py:Mine")["run"]
    before = {metric: values(folder, metric) for metric in ("recall@10", "mrr@10")}

    (place / "mine.py").write_text(MINE.replace("SIGN = 1", "SIGN = -1"))
    files = place / "files" / "documents.jsonl"
    files.write_text(files.read_text().replace("number3", "number3 again"))
    told = night(harness)
    assert told.status == 1
    found = summary(place)
    assert (found["complete"], found["night"] > first["night"]) == (True, True)

    same = of(found, "sample", "bm25")
    assert (same["state"], same["change"]["state"]) == ("ok", "unchanged")
    other = of(found, "labelled", "bm25")
    assert other["change"]["state"] == "not comparable"
    assert [reason.split()[:2] for reason in other["change"]["reasons"]] == [
        ["data", "fingerprint"]
    ]
    assert not any("change" in cell for cell in other["metrics"]["all"].values())

    fell = of(found, "sample", "mine.py:Mine")
    assert [row["setting"] for row in fell["changed_settings"]] == ["files.mine.py"]
    folder = place / "runs" / fell["run"]
    for metric, old in before.items():
        both = values(folder, metric) - old
        cell = fell["metrics"]["all"][metric]
        assert cell["change"]["difference"] == pytest.approx(np.nanmean(both), abs=1e-6)
        assert cell["change"]["n"] == cell["n"] == np.isfinite(both).sum()
        assert (cell["change"]["verdict"], cell["change"]["p_corrected"] < 0.05) == ("fell", True)
        assert cell["low"] < cell["value"] < cell["high"]
    assert set(fell["metrics"]) >= {"all", "lookup", "temporal"}
    assert found["drops"][0]["rule"] == "recall@10 of mine.py:Mine on sample drop <= 0.02"
    assert found["drops"][0]["outcome"] == "fail"

    assert [(one["dataset"], one["system"]) for one in found["failed"]] == [
        ("sample", "fails.py:Fails"),
        ("gone", "bm25"),
    ]
    assert "no such file or folder" in found["failed"][1]["reason"]
    text = (place / "runs" / "summary.md").read_text()
    for said in ("3 of 5 runs ok; 2 failed", "not comparable: bm25 on labelled", "**fell**"):
        assert said in text
    assert "summary in runs/summary.md, history in runs/history.jsonl" in told.err
    assert "files.mine.py" in told.out


@pytest.mark.slow
def test_the_history_has_a_line_a_run_and_neither_texts_nor_places(
    place: Path, harness: Callable[..., Any]
) -> None:
    for _ in range(2):
        assert harness("run", "--config", "nightly.toml").status == 1
    lines = history(place)
    assert [line["state"] for line in lines] == ["ok", "ok", "failed", "ok", "failed"] * 2
    assert {line["list_size"] for line in lines} == {5}
    assert [line["error"] for line in lines if line["state"] == "failed"][:2] == [
        "RunError",
        "UsageError",
    ]
    assert not any("results" in line for line in lines if line["state"] == "failed")
    assert all(line["finished"].endswith("+00:00") for line in lines)
    raw = (place / "runs" / "history.jsonl").read_text()
    assert str(place) not in raw
    sample = open_dataset("sample")
    contents = sample.documents.contents(np.arange(sample.manifest.counts["documents"]))
    texts = [*contents, *(sample.query(i).text for i in range(sample.n_queries))]
    assert not [text for text in texts if text in raw]
    # What is kept of the last times does not grow.
    kept = sorted(path.name for path in (place / "runs" / "last").iterdir())
    assert kept == sorted(path.name for path in (place / "runs" / "before").iterdir())
    assert len(kept) == 3


@pytest.mark.slow
def test_what_was_compared_can_be_looked_at(
    place: Path, harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    night(harness)
    (place / "mine.py").write_text(MINE.replace("SIGN = 1", "SIGN = -1"))
    night(harness)
    text = (place / "runs" / "summary.md").read_text()
    (command,) = re.findall(
        r"harness (compare before/.* last/.* --cluster-by queries --queries 3)", text
    )
    monkeypatch.chdir(place / "runs")
    told = harness(*command.split())
    assert told.status == 0
    assert "files.mine.py" in told.out
    assert "evidence" in told.out
    change = of(summary(place), "sample", "mine.py:Mine")["metrics"]["all"]["recall@10"]["change"]
    assert f"{change['difference']:+.4f}" in told.out


def wait_until_it_hangs(place: Path, process: subprocess.Popen[str]) -> None:
    wait_until((place / "waiting").exists, process)
    (place / "waiting").unlink()


@pytest.mark.slow
def test_a_killed_list_leaves_whole_lines_and_the_next_compares_with_the_last_whole_one(
    place: Path, harness: Callable[..., Any]
) -> None:
    assert harness(*SLOW_NIGHT).status == 0
    first = summary(place)
    kill_in_the_midst(place)
    assert [line["system"] for line in history(place)] == [
        "bm25",
        "slow.py:Slow",
        "recency",
        "bm25",
    ]
    assert summary(place) == first

    assert harness(*SLOW_NIGHT).status == 0
    found = summary(place)
    assert (found["complete"], len(history(place))) == (True, 7)
    for system in ("bm25", "slow.py:Slow", "recency"):
        change = of(found, "labelled", system)["change"]
        assert (change["state"], change["since"]) == (
            "unchanged",
            of(first, "labelled", system)["finished"],
        )


@pytest.mark.slow
def test_a_killed_list_goes_on_with_resume(place: Path, harness: Callable[..., Any]) -> None:
    assert harness(*SLOW_NIGHT).status == 0
    kill_in_the_midst(place)
    killed = history(place)[-1]
    assert harness(*SLOW_NIGHT, "--resume").status == 0
    lines = history(place)
    # The rest of that night is measured anew, though last night's folders have the same names.
    assert [(line["night"], line["system"]) for line in lines[3:]] == [
        (killed["night"], name) for name in ("bm25", "slow.py:Slow", "recency")
    ]
    assert lines[3] == killed
    assert (summary(place)["complete"], summary(place)["night"]) == (True, killed["night"])
    # Nothing is left to do: nothing is run, and the history stays as it is.
    searches = (place / "searches").read_text()
    assert harness(*SLOW_NIGHT, "--resume").status == 0
    assert (history(place), (place / "searches").read_text()) == (lines, searches)


@pytest.mark.slow
def test_a_list_killed_in_its_first_run_is_not_taken_for_the_last_one(
    place: Path, harness: Callable[..., Any]
) -> None:
    mine, fast = (
        '[[retrievers]]\nretriever = "slow.py:Slow"\n',
        '[[retrievers]]\nretriever = "bm25"\n',
    )
    slow_first = SLOW_LIST.replace(mine, "").replace(fast, mine + fast)
    (place / "slow.toml").write_text(slow_first)
    assert harness(*SLOW_NIGHT).status == 0
    before = history(place)
    kill_in_the_midst(place)
    assert history(place) == before
    assert harness(*SLOW_NIGHT, "--resume").status == 0
    lines = history(place)
    assert lines[: len(before)] == before
    assert len(lines) == 2 * len(before)
    assert len({line["night"] for line in lines}) == 2


@pytest.mark.slow
def test_ctrl_c_leaves_a_summary_of_what_is_finished(place: Path) -> None:
    (place / "wait").touch()
    process = begin(place)
    wait_until_it_hangs(place, process)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=HANGS)
    assert (process.returncode, "--resume continues" in err) == (130, True)
    found = summary(place)
    assert found["complete"] is False
    assert [run["state"] for run in found["runs"]] == ["ok", "not run", "not run"]
    assert "was stopped before its end" in (place / "runs" / "summary.md").read_text()
    assert not (place / "runs" / "last").exists()


def test_a_line_that_was_cut_off_is_dropped_with_a_word(
    place: Path, harness: Callable[..., Any]
) -> None:
    assert harness(*SLOW_NIGHT).status == 0
    with (place / "runs" / "history.jsonl").open("ab") as file:
        file.write(b'{"version":1,"night":"20')
    told = harness(*SLOW_NIGHT)
    assert (told.status, "truncated by a crash" in told.err) == (0, True)
    assert len(history(place)) == 6


def test_two_lists_at_once_are_refused(place: Path, harness: Callable[..., Any]) -> None:
    (place / "runs").mkdir()
    with FileLock(place / "runs" / ".history.jsonl.lock"):
        told = harness(*SLOW_NIGHT)
    assert (told.status, told.err.count("\n")) == (2, 1)
    assert "another list is writing to this history" in told.err


def test_code_that_cannot_be_imported_costs_its_own_runs(
    place: Path, harness: Callable[..., Any]
) -> None:
    (place / "slow.py").write_text("class Slow(:\n")
    told = harness(*SLOW_NIGHT)
    assert told.status == 1
    assert [run["state"] for run in summary(place)["runs"]] == ["ok", "failed", "ok"]
    assert "slow.py, line 1" in summary(place)["failed"][0]["reason"]


def test_the_history_can_stand_elsewhere_or_nowhere(
    place: Path, harness: Callable[..., Any]
) -> None:
    config = place / "slow.toml"
    text = config.read_text()
    config.write_text(f'{text}[nightly]\nhistory = "told/here"')
    assert harness(*SLOW_NIGHT).status == 0
    assert (place / "told" / "here" / "history.jsonl").is_file()
    assert not (place / "runs" / "history.jsonl").exists()
    config.write_text(f"{text}[nightly]\nhistory = false")
    assert harness(*SLOW_NIGHT, "--out", "other").status == 0
    assert not (place / "other" / "history.jsonl").exists()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[nightly]\nmax_drops = 1", "[nightly]: max_drops: unknown field; did you mean max_drop"),
        (
            "[nightly]\nmax_drop = nan",
            "nightly.max_drop is nan, which nothing can be compared with",
        ),
        ("[nightly]\nmax_drop = '2%'", "[nightly]: max_drop: expected float, got str"),
        ("[nightly]\nalpha = 0", "[nightly]: alpha: expected float > 0.0"),
        ("[nightly]\nalpha = true", "[nightly]: alpha: expected float, got bool"),
        (
            "[nightly]\ncluster_by = 'days'",
            "cluster_by: invalid enum value 'days'; choose one of auto,",
        ),
        ("[nightly]\nhistory = true", "[nightly]: history: invalid enum value True"),
        ("[[nightly]]\nalpha = 0.1", "[nightly]: expected object, got list"),
        ("[nightly]\nhistory = false\nmax_drop = 0.1", "history = false disables the comparison"),
        ("[[datasets]]\ndataset = 'sample'\nonly = ['labelled']", "only in [[datasets]]"),
        ("[[datasets]]\ndataset = 'sample'\nretriever = 'bm25'", "retriever in [[datasets]]"),
        ("[[retrievers]]\nretriever = 'bm25'\ndataset = 'sample'", "dataset in [[retrievers]]"),
        ("[[retrievers]]\nretriever = 'tfidf'\nonly = []", "only = [] names no dataset"),
        ("[[retrievers]]\nretriever = 'tfidf'\ntimeout = 'soon'", "timeout 'soon': give seconds"),
        ("[[retrievers]]\nretriever = 'tfidf'\ntimeout = true", "timeout must be seconds"),
        ("[[retrievers]]\nretriever = 'bm25'", "is in the list twice; give each a different name"),
        ("[[retrievers]]\nretriever = 'bm25'\nname = 3", "name must be a text, not 3"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(
    place: Path, harness: Callable[..., Any], table: str, said: str
) -> None:
    (place / "slow.toml").write_text(SLOW_LIST + table)
    told = harness(*SLOW_NIGHT)
    assert (told.status, told.err.count("\n")) == (2, 1)
    assert said in told.err
    assert not (place / "runs").exists()


@pytest.mark.slow
def test_two_of_a_kind_are_told_apart_by_what_differs(
    place: Path, harness: Callable[..., Any]
) -> None:
    (place / "slow.toml").write_text(
        """
        out = "runs"
        limit = 10
        [[datasets]]
        dataset = "sample"
        [[datasets]]
        dataset = "sample"
        granularity = "session"
        [[retrievers]]
        retriever = "bm25"
        [[retrievers]]
        retriever = "bm25"
        params = {k1 = 0.9}
        [[retrievers]]
        name = "ours"
        retriever = "bm25"
        params = {k1 = 2.0}
        """
    )
    assert harness(*SLOW_NIGHT, "--quiet").status == 0
    assert [(run["dataset"], run["system"]) for run in summary(place)["runs"]] == [
        (dataset, system)
        for dataset in ("sample", "sample session")
        for system in ("bm25", "bm25 k1=0.9", "ours")
    ]


@pytest.mark.slow
def test_a_damaged_last_time_is_said_and_mends_itself(
    place: Path, harness: Callable[..., Any]
) -> None:
    for _ in range(2):
        harness(*SLOW_NIGHT)
    (last,) = (place / "runs" / "last").glob("labelled-bm25*")
    (last / "scores.parquet").write_bytes(b"PAR1")
    assert harness(*SLOW_NIGHT).status == 0
    change = of(summary(place), "labelled", "bm25")["change"]
    assert (change["state"], "cannot be read" in change["reasons"][0]) == ("not comparable", True)
    harness(*SLOW_NIGHT)
    assert of(summary(place), "labelled", "bm25")["change"]["state"] == "unchanged"


def test_a_run_of_another_depth_is_compared_by_what_depth_could_not_change(
    sample_run: Callable[..., Path],
) -> None:
    metrics = ("ndcg@10", "mrr")
    runs = [ScoredRun.read(sample_run(name, k=k)) for name, k in (("bm25", 20), ("random", 100))]
    last, now = (main_part(run, ("trec", "turn"), metrics) for run in runs)
    found = compare_with_last(now, last, metrics, 0.05, "auto")
    assert (found.state, {*found.results["all"]}) == ("compared", {"ndcg@10"})
    found = compare_with_last(now, last, metrics[1:], 0.05, "auto")
    assert (found.state, found.reasons) == ("not comparable", ["k 20 -> 100"])


@pytest.mark.parametrize(("k", "before"), [(5, "k 20 -> 5: "), (20, "")])
def test_a_night_without_a_metric_in_common_is_not_comparable(
    sample_run: Callable[..., Path], k: int, before: str
) -> None:
    block = ("memory", "turn")
    last = main_part(ScoredRun.read(sample_run("bm25", k=20)), block, ["recall@10", "hit@10"])
    now = main_part(ScoredRun.read(sample_run("recency", k=k)), block, ["recall@5", "hit@5"])
    found = compare_with_last(now, last, ["recall@5", "hit@5"], 0.05, "auto")
    expected = ("not comparable", [f"{before}no metric in common"])
    assert (found.state, found.reasons) == expected


def test_a_night_of_shallower_rankings_says_that_it_does_not_compare(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    text = """
out = "runs"
k = {k}
[nightly]
[[datasets]]
dataset = "sample"
[[retrievers]]
name = "mine"
retriever = "{retriever}"
"""
    for k, retriever in ((20, "bm25"), (5, "recency")):
        (tmp_path / "nightly.toml").write_text(text.format(k=k, retriever=retriever))
        said = harness("run", "--config", "nightly.toml")
    assert "1 of 1 runs ok; 1 not comparable with the previous run" in said.out
    assert "k 20 -> 5: no metric in common" in said.out
    assert "recall@5" in said.out
    assert "recall@10" not in said.out


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("name = 'mine'", "name at the top is of one [[retrievers]] table"),
        ("dataset = 'sample'", "dataset at the top is used by none"),
        ("retriever = 'tfidf'", "retriever at the top is used by none"),
    ],
)
def test_a_key_at_the_top_that_no_run_would_hear_is_refused(
    place: Path, harness: Callable[..., Any], key: str, said: str
) -> None:
    (place / "slow.toml").write_text(f"{key}\n{SLOW_LIST}")
    told = harness(*SLOW_NIGHT)
    assert (told.status, told.err.count("\n")) == (2, 1)
    assert said in told.err


def test_again_has_no_meaning_for_a_list_with_a_history(
    place: Path, harness: Callable[..., Any]
) -> None:
    told = harness(*SLOW_NIGHT, "--overwrite")
    assert (told.status, "always runs again" in told.err) == (2, True)


def test_a_drop_that_one_question_cannot_decide_is_inconclusive_and_ends_with_status_3(
    place: Path, harness: Callable[..., Any]
) -> None:
    text = """
out = "runs"
k = 20
[nightly]
max_drop = 0.02
[[datasets]]
dataset = "labelled"
source = "files"
[[retrievers]]
retriever = "mine.py:Mine"
"""
    (place / "nightly.toml").write_text(text)
    assert night(harness).status == 0
    (place / "mine.py").write_text(MINE.replace("SIGN = 1", "SIGN = -1"))
    told = night(harness)
    assert told.status == 3
    assert "Inconclusive drops" in told.out
    assert "Dropped by more than" not in told.out
    page = history_data(place / "runs" / "history.jsonl")
    found = summary(place)
    assert page.nights[-1].messages == "; ".join(found["messages"])
    assert "4 inconclusive: a drop of more than 0.02 is not ruled out" in page.nights[-1].messages
    assert "inconclusive: too few data to show any change" in page.verdicts
