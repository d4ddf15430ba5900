"""What a system took in is taken in once: saved in the cache, or kept by the system itself."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from corpora import labelled, ranked
from serving import Message, Reply, serving

from harness.__main__ import main
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import RunError
from harness.retrievers import index_cache
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.run import run
from harness.runs.settings import Settings

PAID = '''
import json, os
from pathlib import Path

class Base:
    """Finds the notes with the most words of the question; each document taken in costs."""
    search_params = ("boost",)

    def __init__(self, boost=1, chunk=9):
        self.calls = 0

    def index(self, corpus):
        with open(os.environ["PAID_LOG"], "a") as log:
            for document in corpus:
                log.write(document.content + chr(10))
        self.calls += len(corpus)
        self.texts = {d.id: sorted(set(d.content.lower().split())) for d in corpus}

    def search(self, queries, k):
        if Path(os.environ["PAID_LOG"] + ".breaks").exists():
            raise ConnectionError("the search is down")
        return [self.best(set(q.text.lower().split()), k) for q in queries]

    def best(self, words, k):
        scores = {id_: len(words & set(text)) for id_, text in self.texts.items()}
        return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:k]

    def report(self):
        return {"calls": self.calls}

class Saves(Base):
    def save(self, folder):
        (folder / "deep").mkdir()
        (folder / "deep" / "texts.json").write_text(json.dumps(self.texts))

    def load(self, folder):
        self.texts = json.loads((folder / "deep" / "texts.json").read_text())

class Keeps(Base):
    """Its own store lasts."""
    async def has_index(self, key):
        self.file = Path(os.environ["PAID_LOG"] + "." + key)
        if self.file.exists():
            self.texts = json.loads(self.file.read_text())
        return self.file.exists()

    def index(self, corpus):
        super().index(corpus)
        self.file.write_text(json.dumps(self.texts))

class KeepsLate(Keeps):
    """Asks its service about the upload that `index` began."""
    def index(self, corpus):
        super().index(corpus)
        self.upload = self.file

    def ready(self):
        return self.upload.exists()

class KeepsPart(Keeps):
    """Stores each document at once, and takes what is stored for the whole."""
    def index(self, corpus):
        breaks = Path(os.environ["PAID_LOG"] + ".breaks").exists()
        self.texts = {}
        for document in corpus:
            self.texts[document.id] = sorted(set(document.content.lower().split()))
            self.file.write_text(json.dumps(self.texts))
            if breaks and len(self.texts) == 2:
                raise ConnectionError("no more documents")

class LoadsAnother(Saves):
    @classmethod
    def load(cls, folder):
        return cls()

class CannotSave(Saves):
    def save(self, folder):
        raise OSError("no room")
'''


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Six haystacks of five notes; a question for every note. Texts are this test's own."""
    numbers, mine = range(30), tmp_path.name
    documents = [
        {"id": f"n{i}", "text": f"note {i} of {mine}", "haystack": f"h{i // 5}"} for i in numbers
    ]
    queries = [{"id": f"q{i}", "text": f"note {i}", "haystack": f"h{i // 5}"} for i in numbers]
    return labelled(tmp_path / "files", documents, queries, {f"q{i}": [f"n{i}"] for i in numbers})


class Bill:
    """What was paid for, by the log that the system writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0

    def breaks(self, broken: bool) -> None:
        """The search fails, or works again."""
        there = Path(f"{self.path}.breaks")
        there.touch() if broken else there.unlink()


@pytest.fixture
def bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bill:
    (tmp_path / "paid.py").write_text(PAID)
    monkeypatch.setenv("PAID_LOG", str(tmp_path / "bill"))
    return Bill(tmp_path / "bill")


def paid(tmp_path: Path, name: str, **params: Any) -> RetrieverSpec:
    return RetrieverSpec(f"{tmp_path}/paid.py:{name}", params)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Saves", "Keeps", "KeepsLate"])
def test_another_k_more_queries_a_search_that_crashed_and_a_sweep_do_not_pay_again(
    notes: Dataset, bill: Bill, tmp_path: Path, name: str
) -> None:
    expected = ranked(run(notes, paid(tmp_path, "Base"), Settings(k=3), out=tmp_path / "base"))
    base, out = len(bill), tmp_path / "out"
    bill.breaks(True)
    with pytest.raises(RunError, match="the search is down"):
        run(notes, paid(tmp_path, name), Settings(k=3), out=out)
    assert len(bill) - base == 30
    bill.breaks(False)
    first = run(notes, paid(tmp_path, name), Settings(k=3), out=out, mode=Mode.RESUME)
    assert ranked(first) == expected
    for settings in (
        Settings(k=2),
        Settings(k=3, limit=7),
        Settings(k=3, workers=2),
        Settings(k=3, require_cached_index=True),
    ):
        place = tmp_path / str(settings.k)
        again = run(notes, paid(tmp_path, name), settings, out=place, mode=Mode.OVERWRITE)
        record = RunFolder(again).record
        assert record.cached_haystacks == len({int(query[1:]) // 5 for query in ranked(again)})
        assert record.measured.index is None  # that is in the record of who paid
        assert record.measured.ingestion is None
    run(notes, paid(tmp_path, name, boost=3), Settings(k=3), out=out)
    sweep = ["sweep", "--dataset", "labelled", "--source", str(tmp_path / "files"), "--quiet"]
    sweep += ["--retriever", f"{tmp_path}/paid.py:{name}", "--grid", "boost=1,2", "--grid", "k=1,2"]
    assert main([*sweep, "--metric", "recall@1", "--out", str(tmp_path / "sweep")]) == 0
    assert len(bill) - base == 30
    # Another parameter of taking in, and another code, are another system.
    run(notes, paid(tmp_path, name, chunk=5), Settings(k=3), out=out)
    assert len(bill) - base == 60
    file = tmp_path / "paid.py"
    file.write_text(file.read_text() + "\n# changed\n")
    run(notes, paid(tmp_path, name), Settings(k=3), out=out)
    assert len(bill) - base == 90


def test_what_was_indexed_in_part_is_never_searched_whatever_has_index_says(
    notes: Dataset,
    bill: Bill,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))  # without the marks of other tests
    expected = ranked(run(notes, paid(tmp_path, "Base"), Settings(k=3), out=tmp_path / "base"))
    bill.breaks(True)
    with pytest.raises(RunError, match="no more documents"):
        run(notes, paid(tmp_path, "KeepsPart"), Settings(k=3), out=tmp_path)
    bill.breaks(False)
    needed = Settings(k=2, require_cached_index=True)
    with pytest.raises(RunError, match="has no cached index"):
        run(notes, paid(tmp_path, "KeepsPart"), needed, out=tmp_path / "needed")
    again = run(notes, paid(tmp_path, "KeepsPart"), Settings(k=3), out=tmp_path, mode=Mode.RESUME)
    assert ranked(again) == expected
    assert "whose `index` did not return before" in capfd.readouterr().err
    third = run(notes, paid(tmp_path, "KeepsPart"), Settings(k=2), out=tmp_path)
    assert RunFolder(third).record.cached_haystacks == 6
    assert not [*index_cache.folder().glob(".ingesting-*.begun")], "marks of ended runs"


def test_search_only_ends_where_something_is_not_kept(
    notes: Dataset, bill: Bill, tmp_path: Path
) -> None:
    run(notes, paid(tmp_path, "Saves"), Settings(limit=1), out=tmp_path)  # one haystack
    before = len(bill)
    for name in ("Saves", "Keeps", "Base"):
        said = "this system cannot be cached" if name == "Base" else "a haystack of 5 documents"
        with pytest.raises(RunError, match=f"--require-cached-index: {said}"):
            run(
                notes,
                paid(tmp_path, name),
                Settings(require_cached_index=True),
                out=tmp_path / name,
            )
    assert len(bill) == before


def test_another_way_to_show_the_texts_is_another_haystack(
    home: Path, bill: Bill, tmp_path: Path
) -> None:
    for text in ("official", "dated", "official"):
        dataset = open_dataset("sample", text=text)
        settings = Settings(k=3, limit=20)
        run(dataset, paid(tmp_path, "Saves"), settings, out=tmp_path / text, mode=Mode.OVERWRITE)
    both = bill.path.read_text().splitlines()
    assert len(set(both)) == len(both)


def test_a_load_that_makes_another_object_is_an_error(
    notes: Dataset, bill: Bill, tmp_path: Path
) -> None:
    run(notes, paid(tmp_path, "LoadsAnother"), Settings(k=3), out=tmp_path)
    with pytest.raises(RunError, match="must load into the object that it is called on"):
        run(notes, paid(tmp_path, "LoadsAnother"), Settings(k=2), out=tmp_path)


@pytest.mark.slow
def test_what_an_edited_helper_or_an_unknown_setting_took_in_is_another_ingestion(
    notes: Dataset, bill: Bill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    helper = tmp_path / f"helper_of_{tmp_path.name}.py"
    (tmp_path / "uses.py").write_text(f"import {helper.stem}\n{PAID}")
    for n, text in enumerate(("x = 1", "x = 1", "x = 2"), 1):
        helper.write_text(text)
        command = [sys.executable, "-m", "harness", "run", "--dataset", "labelled", "--quiet"]
        command += ["--source", str(tmp_path / "files"), "--out", str(tmp_path / str(n))]
        command += ["--retriever", f"{tmp_path}/uses.py:Saves"]
        there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        assert subprocess.run(command, env=there, check=False).returncode == 0
    assert len(bill) == 60
    # Of an object without `params` nobody knows how it was made.
    made = paid(tmp_path, "Saves").build()
    for k in (1, 2):
        run(notes, made, Settings(k=k), out=tmp_path / "object")
    assert len(bill) == 120


@pytest.mark.slow
def test_items_of_one_haystack_in_two_processes_take_it_in_once(
    home: Path, bill: Bill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runs.request.QUERIES_PER_ITEM", 5)
    documents = [{"id": f"n{i}", "text": f"note {i} of {tmp_path.name}"} for i in range(40)]
    queries = [{"id": f"q{i}", "text": f"note {i}"} for i in range(40)]
    gold = {f"q{i}": [f"n{i}"] for i in range(40)}
    dataset = labelled(tmp_path / "one", documents, queries, gold)
    for name in ("Saves", "Keeps"):
        before = len(bill)
        run(dataset, paid(tmp_path, name), Settings(workers=2), out=tmp_path / name)
        assert len(bill) - before == 40


def test_what_cannot_be_saved_is_noted_and_answers(
    notes: Dataset, bill: Bill, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = run(notes, paid(tmp_path, "CannotSave"), out=tmp_path / "out")
    assert RunFolder(folder).record.queries.failed == 0
    assert "could not be saved: no room" in capfd.readouterr().err


def test_what_is_damaged_in_the_cache_is_not_loaded(
    notes: Dataset, bill: Bill, tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = run(notes, paid(tmp_path, "Saves"), Settings(k=3), out=tmp_path / "out")
    for file in home.glob("indexes/ingested-*/deep/texts.json"):
        if tmp_path.name in (text := file.read_text()):
            file.write_text(text.replace("note", "nope"))
    second = run(notes, paid(tmp_path, "Saves"), Settings(k=3), out=tmp_path / "again")
    assert ranked(first) == ranked(second)
    assert len(bill) == 60
    assert "deep/texts.json is damaged (its checksum is another); it is built again" in (
        capfd.readouterr().err
    )


class Store:
    """A service whose store lasts, by key; every document that it has not seen is charged."""

    def __init__(self, seconds: float = 0, honest: bool = True) -> None:
        self.seconds, self.honest = seconds, honest
        self.charged: list[tuple[str, str]] = []
        self.held: dict[str, dict[str, set[str]]] = {}
        self.whole: set[str] = set()
        self.key_of: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> Reply:
        asked = message["client"], message["haystack"]
        time.sleep(self.seconds)
        with self._lock:
            if message["type"] == "reset":
                key = self.key_of[asked] = message["key"]
                known = self.whole if self.honest else self.held
                return 200, {"concurrent_haystacks": True, "has_index": key in known}
            if message["type"] == "close":
                return 200, {}
            key = self.key_of[asked]
            held = self.held.setdefault(key, {})
            if message["type"] == "index":
                for document in message["documents"]:
                    if document["id"] not in held:
                        self.charged.append((key, document["id"]))
                        held[document["id"]] = set(document["text"].split())
                self.whole |= {key} if message["last"] else set()
                return 200, {}
            return 200, {"results": [self._best(held, q, message["k"]) for q in message["queries"]]}

    def _best(self, held: dict[str, set[str]], query: Message, k: int) -> Message:
        words = set(query["text"].split())
        ids = sorted(held, key=lambda id_: (-len(words & held[id_]), id_))
        return {"hits": [{"id": id_, "score": len(words & held[id_])} for id_ in ids[:k]]}


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("kills", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_pays_nothing_twice_and_changes_no_byte(
    notes: Dataset, home: Path, tmp_path: Path, kills: int, honest: bool
) -> None:
    rng = random.Random(kills)
    store = Store(seconds=0.03, honest=honest)
    with serving(store) as (url, told):
        command = [sys.executable, "-m", "harness", "run", "--dataset", "labelled", "--quiet"]
        command += ["--source", str(tmp_path / "files"), "--retriever", "http", "--resume"]
        command += ["--param", f"url={url}", "--param", "documents=1", "--out", str(tmp_path / "o")]
        for _ in range(kills):
            before = len(told)
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            moment = rng.randrange(1, 8)
            while process.poll() is None and len(told) < before + moment:
                time.sleep(0.002)
            process.kill()
            process.wait()
        assert subprocess.run(command, env=os.environ, check=False).returncode == 0
        whole = run(notes, RetrieverSpec("http", {"url": url}), out=tmp_path / "whole")
    (folder,) = (path for path in (tmp_path / "o").iterdir() if path.name[0] != ".")
    assert ranked(folder) == ranked(whole)
    assert len(store.charged) == len(set(store.charged)) == 30
    asked = [m["queries"][0]["text"] for m in told if m["type"] == "search"]
    assert len(asked) <= 30 + kills + 30  # what was in the air at a kill, and the whole run


def test_what_was_paid_for_is_cleared_only_by_its_name(
    notes: Dataset,
    bill: Bill,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))  # others' is not to be cleared

    def there() -> int:
        return len([one for one in index_cache.cached_indexes() if one.name.startswith(name)])

    spec = paid(tmp_path, "Saves")
    run(notes, spec, Settings(limit=1), out=tmp_path)
    (name,) = {
        one.retriever
        for one in index_cache.cached_indexes()
        if str(one.params["system"]).startswith(spec.name)
    }
    assert there() == 1
    assert main(["cache", "clear"]) == 0
    assert there() == 1
    assert "may have cost money: --index ingested-" in capsys.readouterr().out
    assert main(["cache", "clear", "--index", name]) == 0
    assert there() == 0
