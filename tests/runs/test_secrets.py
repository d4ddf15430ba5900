"""A secret is in no file, on no page and in no line that this project writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from serving import serving

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import read_json
from harness.retrievers.http import TOKEN
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder, write_record
from harness.runs.run import run
from harness.runs.settings import Settings

CANARY = "canary-0123456789-secret"
KEYED = """
import os
from harness import Hit, Result

class Keyed:
    def __init__(self, api_key="", inside=None, fails=False):
        assert api_key == os.environ["MY_VARIABLE"]
        self.key, self.fails = os.environ["MY_VARIABLE"], fails
    def index(self, corpus):
        self.documents = list(corpus)
    def search(self, queries, k):
        if self.fails and len(queries[0].text) % 2:
            raise ValueError(f"not with {self.key}, Authorization: Bearer abcdef0123456789")
        hits = [Hit(f"{d.text} {self.key}", [d.id]) for d in self.documents[:k]]
        return [Result(hits=hits, answer=f"as {self.key} says") for _ in queries]
    def report(self):
        return {"endpoint": "http://user:passw0rd@host/", "token": self.key, "calls": 3}
"""


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that is given a key."""
    monkeypatch.setenv("MY_VARIABLE", CANARY)
    (tmp_path / "keyed.py").write_text(KEYED, "utf-8")
    return tmp_path


def holding(folder: Path, *secrets: str) -> list[str]:
    """Files that hold one of these."""
    return [
        f"{path.relative_to(folder)}: {secret}"
        for path in folder.rglob("*")
        for secret in secrets
        if path.is_file()
        and path.suffix not in (".py", ".pyc")
        and secret.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize(
    "given",
    [
        f"api_key={CANARY}",
        f'inside={{"key": {{"token": "{CANARY}"}}}}',
        f'inside={{"command": "python x.py --password {CANARY}"}}',
    ],
)
def test_a_secret_among_the_parameters_is_refused_unsaid(
    given: str, keyed: Path, harness: Callable[..., Any]
) -> None:
    told = harness("run", "--dataset", "sample", "--retriever", "keyed.py:Keyed", "--param", given)
    assert (told.status, len(told.err.splitlines())) == (2, 1), told.err
    assert "environment" in told.err
    assert CANARY not in told.out + told.err
    assert not (keyed / "results").exists()
    name, _, value = given.partition("=")
    params = {name: json.loads(value) if value[0] == "{" else value}
    with pytest.raises(UsageError, match="results record it"):
        run_of(params, keyed)


def run_of(params: dict[str, Any], folder: Path) -> Path:
    """A run by a program."""
    from harness import open_dataset

    spec = RetrieverSpec(f"{folder / 'keyed.py'}:Keyed", params)
    return run(open_dataset("sample", quiet=True), spec, out=folder / "results")


@pytest.mark.parametrize("given", ["sk-abcdefgh0123456789", "http://user:passw0rd@host/"])
def test_a_key_under_another_name_is_accepted_and_in_no_file(
    given: str, keyed: Path, harness: Callable[..., Any]
) -> None:
    told = harness(
        *("run", "--dataset", "sample", "--limit", 5, "--retriever", "keyed.py:Keyed", "--json"),
        *("--param", "api_key=env:MY_VARIABLE", "--param", f"inside={given}"),
    )
    assert told.status == 0, told.err
    secret = given.partition("@")[0].removeprefix("http://")
    assert holding(keyed, secret) == []
    assert secret not in told.out + told.err


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("way", [[], ["--workers", "2"], ["--isolate"]], ids=str)
@pytest.mark.parametrize("fails", ["false", "true"])
def test_a_key_by_its_variable_serves_and_is_nowhere(
    way: list[str], fails: str, keyed: Path, harness: Callable[..., Any]
) -> None:
    told = harness(
        *("run", "--dataset", "sample", "--limit", 40, "--retriever", "keyed.py:Keyed", "--k", 5),
        *("--param", "api_key=env:MY_VARIABLE", "--param", f"fails={fails}", *way),
    )
    assert told.status == (1 if fails == "true" else 0), told.err
    (folder,) = (keyed / "results").glob("[!.]*")
    record = read_json(folder / "run.json")
    assert record["retriever"]["params"]["api_key"] == "env:MY_VARIABLE"
    assert "api_key=env:MY_VARIABLE" in record["command"]
    page = harness("report", folder, "--out", "page.html", "--share")
    assert page.status == 0, page.err
    assert harness("leaderboard").status == 0
    assert holding(keyed, CANARY, "passw0rd", "abcdef0123456789") == []
    assert (folder / "errors.jsonl").exists() == (fails == "true")
    said = told.out + told.err
    assert [one for one in (CANARY, "passw0rd", "abcdef0123456789") if one in said] == []


TEXTS = """
from harness import Hit, Result

class Texts:
    def __init__(self, api_key=""):
        pass
    def index(self, corpus):
        self.texts = [document.text for document in corpus]
    def search(self, queries, k):
        return [Result(hits=[Hit(t) for t in self.texts[:k]], answer=self.texts[0])] * len(queries)
"""


def test_a_value_that_is_in_the_memory_texts_changes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Dataset
) -> None:
    (tmp_path / "texts.py").write_text(TEXTS, "utf-8")
    first = sample.documents.contents(sample.haystack_rows(0))[0]
    found = []
    for value in ("not-in-them-2024", first[4:30]):
        monkeypatch.setenv("MY_VARIABLE", value)
        spec = RetrieverSpec(f"{tmp_path / 'texts.py'}:Texts", {"api_key": "env:MY_VARIABLE"})
        folder = run(sample, spec, Settings(k=5, limit=5), out=tmp_path / value[:3])
        files = ("rankings.parquet", "hits.parquet")
        found.append([pq.read_table(folder / name) for name in files])
        found[-1].append((folder / "answers.jsonl").read_bytes())
    assert found[0] == found[1]
    assert first in found[0][1]["text"].to_pylist()


def test_a_variable_that_is_not_set_is_named(keyed: Path, harness: Callable[..., Any]) -> None:
    told = harness(
        *("run", "--dataset", "sample", "--retriever", "keyed.py:Keyed"),
        *("--param", "api_key=env:NOT_THERE"),
    )
    assert (told.status, "NOT_THERE of the environment is not set" in told.err) == (2, True)


def says_its_token(message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A service that repeats the token it was sent in whatever it answers."""
    if "queries" not in message:
        return 200, {"ready": True, "usage": {CANARY: 1}}
    if len(message["queries"][0]["text"]) % 2:
        return 400, {"error": f"not with {CANARY}"}
    return 200, {"results": [{"hits": [{"text": f"{CANARY}!"}]} for _ in message["queries"]]}


@pytest.mark.slow
def test_a_service_that_says_its_token_gets_it_into_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harness: Callable[..., Any]
) -> None:
    monkeypatch.setenv(TOKEN, CANARY)
    with serving(says_its_token) as (url, asked):
        told = harness(
            *("run", "--dataset", "sample", "--retriever", "http", "--param", f"url={url}")
        )
    assert asked[0]["token"] == f"Bearer {CANARY}"
    (folder,) = (tmp_path / "results").glob("[!.]*")
    assert (told.status, (folder / "errors.jsonl").exists()) == (1, True), told.err
    assert pq.read_table(folder / "hits.parquet")["text"][0].as_py() == "***!"
    assert holding(tmp_path, CANARY) == []
    assert CANARY not in told.out + told.err


@pytest.mark.parametrize("address", ["http://user:passw0rd@h", "http://h?k=v", "http://h#frag"])
def test_an_address_holds_no_secret(address: str, harness: Callable[..., Any]) -> None:
    told = harness(
        *("run", "--dataset", "sample", "--retriever", "http", "--param", f"url={address}")
    )
    assert (told.status, len(told.err.splitlines())) == (2, 1)
    assert "results record it" in told.err
    assert "passw0rd" not in told.err


def test_a_record_of_somebody_elses_is_shown_without_its_secrets(
    sample_run: Callable[..., Path], tmp_path: Path, sample: Dataset
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    made = sample_run("bm25")
    for path in made.iterdir():
        os.link(path, folder / path.name)
    record = RunFolder(made).record
    retriever = replace(record.retriever, params={"api_key": "plainly-it"})
    (folder / "run.json").unlink()
    write_record(folder, replace(record, retriever=retriever))
    assert RunFolder(folder).record.retriever.params == {"api_key": "***"}
