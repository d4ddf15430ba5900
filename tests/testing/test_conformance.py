"""`harness check` passes honest retrievers, and names what is wrong with others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import orjson
import pytest
from places import ROOT

from harness.__main__ import main
from harness.retrievers.registry import BUILT_IN, RetrieverSpec
from harness.testing.conformance import FAILED, NOTED, check

PLUGIN = """
import random, threading
from harness.retrievers.contract import Hit, Result

class Honest:
    def index(self, corpus):
        self.words = [set(document.content.lower().split()) for document in corpus]

    def search(self, queries, k):
        return [self.rank(set(q.text.lower().split()))[:k] for q in queries]

    def rank(self, asked):
        return sorted(range(len(self.words)), key=lambda i: -len(asked & self.words[i]))

class Distances(Honest):
    def search(self, queries, k):
        ranked = super().search(queries, k)
        return [[(i, n / 9) for n, i in enumerate(one)] for one in ranked]

class DistancesByHandle(Distances):
    def index(self, corpus):
        super().index(corpus)
        self.handles = corpus.handles

    def search(self, queries, k):
        found = super().search(queries, k)
        return [{self.handles[i]: distance for i, distance in one} for one in found]

class Declared(Distances):
    ranked_by = "order"

class Greedy(Honest):
    def search(self, queries, k):
        return super().search(queries, k + 1)

class Hoards(Honest):
    words = ()
    def index(self, corpus):
        old = list(self.words)
        super().index(corpus)
        self.words = old + self.words

class Remembers(Honest):
    asked = 0
    def rank(self, asked):
        self.asked += len(asked)
        ranked = super().rank(asked)
        return ranked if self.asked < 30 else ranked[1:]

class Rolls(Honest):
    def rank(self, asked):
        return random.sample(range(len(self.words)), len(self.words))

class Fragile(Honest):
    def search(self, queries, k):
        return [[max(range(len(self.words)))] for q in queries]

class NeedsWords(Honest):
    def rank(self, asked):
        next(iter(asked))
        return super().rank(asked)

class Ascii(Honest):
    def index(self, corpus):
        super().index(corpus)
        for text in corpus.contents:
            text.encode("ascii")

class Folds(Honest):
    def index(self, corpus):
        super().index(corpus)
        self.place = {text: i for i, text in enumerate(corpus.contents)}

    def rank(self, asked):
        kept = set(self.place.values())
        return [i for i in super().rank(asked) if i in kept]

class ReadsFiles(Honest):
    def index(self, corpus):
        super().index(corpus)
        self.order = corpus._rows.argsort(kind="stable").tolist()

    def rank(self, asked):
        return self.order

class ReadsHandles(Honest):
    def index(self, corpus):
        super().index(corpus)
        self.order = sorted(range(len(corpus)), key=lambda i: corpus.handles[i])

    def rank(self, asked):
        return self.order

class Racy(Honest):
    thread_safe = True
    four = threading.Barrier(4, timeout=300)
    def search(self, queries, k):
        self.asked = set(queries[0].text.lower().split())
        if threading.current_thread() is not threading.main_thread():
            self.four.wait()  # searches at once
        return [self.rank(self.asked)[:k]]

class Relative(Honest):
    supports_sharding = True

    def search(self, queries, k):
        ranked = super().search(queries, k)
        return [Result(found, [1 / (1 + rank) for rank in range(len(found))]) for found in ranked]

class Tells(Honest):
    def search(self, queries, k):
        return [[Hit(self.texts[i]) for i in found] for found in super().search(queries, k)]

    def index(self, corpus):
        super().index(corpus)
        self.texts = corpus.contents
"""

WRONG = {
    "Greedy": "respects k",
    "Hoards": "index replaces, no state carried over",
    "Remembers": "index replaces, no state carried over",
    "Fragile": "empty corpus",
    "NeedsWords": "empty query",
    "Ascii": "unicode",
    "ReadsFiles": "leak: among equal texts at chance",
    "ReadsHandles": "leak: other handles and order, same scores",
    "Racy": "concurrent searches",
}


@pytest.fixture
def plugin(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    return path


def states(retriever: str, **params: str) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in check(RetrieverSpec(retriever, params))}


@pytest.mark.parametrize(("name", "failing"), WRONG.items())
def test_what_breaks_the_contract_fails_the_check_of_that_name(
    plugin: Path, name: str, failing: str
) -> None:
    assert states(f"{plugin}:{name}")[failing] == FAILED


@pytest.mark.parametrize("name", ["Distances", "DistancesByHandle"])
def test_distances_as_scores_fail_the_check(plugin: Path, name: str) -> None:
    first = next(check(RetrieverSpec(f"{plugin}:{name}")))
    assert (first.name, first.state) == ("finds something", FAILED)
    assert "distances?" in first.message
    first = next(check(RetrieverSpec(f"{plugin}:Declared")))
    assert first.message == "3 of 3 easy questions answered at rank 1"


@pytest.mark.extensions
def test_scores_that_depend_on_the_shard_fail_the_check_of_shards(plugin: Path) -> None:
    assert states(f"{plugin}:Relative")["answers in shards"] == FAILED


@pytest.mark.parametrize(
    ("returned", "says"),
    [("None", "search returned None; it must return a list"),
     ("[None for _ in queries]", "search returned None for a query; it must return a list of"),
     ("(i for i in range(3))", "search returned generator; it must return a list")],
)  # fmt: skip
def test_what_is_no_answer_is_said_once_and_what_to_type_next(
    returned: str, says: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def index(self, corpus): pass\n"
        f"    def search(self, queries, k): return {returned}\n"
    )
    assert main(["check", f"{path}:Mine"]) == 1
    line, empty, counts, following = capsys.readouterr().out.splitlines()
    assert line.startswith("FAIL  finds something")
    assert says in line
    assert empty == ""
    assert counts == f"{path}:Mine: 0 passed, 1 failed, 15 not tried"
    assert following == f"next: correct `search`, then run `harness check {path}:Mine` again"


@pytest.mark.parametrize("name", ["Honest", "Tells"])
def test_an_honest_plugin_passes(plugin: Path, name: str) -> None:
    assert FAILED not in states(f"{plugin}:{name}").values()


def test_what_is_allowed_but_worth_knowing_is_noted(plugin: Path) -> None:
    assert states(f"{plugin}:Rolls")["deterministic"] == NOTED
    assert states(f"{plugin}:Folds")["duplicate texts"] == NOTED


@pytest.mark.parametrize("name", ["bm25", "bm25-okapi", "tfidf", "recency", "random"])
def test_what_comes_with_the_harness_passes(name: str, home: Path) -> None:
    assert name in BUILT_IN
    assert FAILED not in states(name).values()


def test_what_puts_others_together_passes(home: Path) -> None:
    assert FAILED not in states("hybrid", retrievers="bm25,tfidf").values()


def test_a_check_of_a_command_writes_nothing_among_the_indexes(home: Path) -> None:
    home.mkdir()
    (home / "indexes").write_text("")  # no folder: nobody can
    line = f"{sys.executable} {ROOT / 'examples' / 'command.py'}"
    assert FAILED not in states("command", run=line).values()


@pytest.mark.extensions
@pytest.mark.slow  # it embeds
def test_what_puts_others_together_passes_as_it_comes(home: Path, weights: None) -> None:
    assert FAILED not in states("hybrid").values()


def test_the_command_prints_a_line_a_check_and_fails_with_status_1(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{plugin}:Greedy"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  respects k" in out
    assert "asked for 1, returned 2" in out
    assert main(["check", "bm25", "--json"]) == 0
    assert len(orjson.loads(capsys.readouterr().out)["checks"]) == 16


def test_what_cannot_be_checked_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "oracle"]) == 2
    assert "cannot be checked: it is given the gold labels" in capsys.readouterr().err


PAID = """
from pathlib import Path

from harness.retrievers.bm25 import BM25

LOG = Path(__file__).with_suffix(".log")

class Paid(BM25):
    batch_size, calls = 1, 0
    def pay(self, calls):
        self.calls += calls
        with LOG.open("a") as log:
            log.write("." * calls)
    def index(self, corpus):
        self.pay(len(corpus))
        super().index(corpus)
    def search(self, queries, k):
        self.pay(len(queries))
        return super().search(queries, k)
    def report(self):
        return {"usd": self.calls * 0.01}
"""


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    (tmp_path / "paid.py").write_text(PAID)
    return tmp_path / "paid.py"


def test_a_check_says_before_it_starts_how_much_it_will_ask_of_a_paid_system(
    paid: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = check(RetrieverSpec(f"{paid}:Paid"))
    next(outcomes)
    found = re.search(r"index ([\d,]+) short documents in .* ask (\d+) questions", caplog.text)
    assert found is not None
    assert FAILED not in {one.state for one in outcomes}
    calls = paid.with_suffix(".log").stat().st_size
    assert calls == int(found[1].replace(",", "")) + int(found[2])


@pytest.mark.parametrize(
    ("limit", "most"), [(["--max-calls", "40"], 40), (["--max-usd", "1"], 100)]
)
def test_a_check_stops_before_its_limit_with_status_1(
    paid: Path, limit: list[str], most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{paid}:Paid", *limit]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("pass  finds something")
    assert limit[0] in err.splitlines()[-1]
    assert most // 2 < paid.with_suffix(".log").stat().st_size <= most


def test_a_limit_of_dollars_needs_a_system_that_reports_them(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{plugin}:Honest", "--max-usd", "1"]) == 2
    assert "--max-usd cannot be kept: the system has no report()" in capsys.readouterr().err
