"""A config's `[[published]]` takes in what others published, beside the runs, on one board."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.loopback import Loopback

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server of files on this machine."""
    for name in ("HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as running:
        yield running


def _config(folder: Path, text: str) -> Path:
    path = folder / "field.toml"
    path.write_text(f'out = "{folder / "runs"}"\n[nightly]\nhistory = false\n{text}')
    return path


@pytest.mark.slow
def test_published_files_stand_on_the_board_of_those_that_were_run(
    harness: Harness, data: Path, tmp_path: Path, server: Loopback
) -> None:
    file = data / "published" / "cogito" / "runP-v35_per_question.json"
    content = file.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    url = server.put("/per_question.json", content)
    locomo = data / "locomo" / "locomo10.json"
    letta = data / "published" / "letta" / "results.jsonl"
    config = _config(
        tmp_path,
        f"""
[[datasets]]
dataset = "locomo"
source = "{locomo}"
k = 5
[[retrievers]]
retriever = "bm25"
[[published]]
name = "Letta"
version = "0.16.8"
dataset = "locomo"
source = "{locomo}"
file = "{letta}"
[[published]]
name = "cogito"
dataset = "longmemeval/s-ids"
url = "{url}"
sha256 = "{sha256}"
ranking = "s1_top5_ids"
cut = 3
""",
    )
    for _ in range(2):  # what was fetched is kept
        told = harness("run", "--config", config, "--json")
        assert told.status == 0, told.err
    assert len(server.asked("/per_question.json")) == 1
    board = orjson.loads((tmp_path / "runs" / "leaderboard.json").read_bytes())
    systems = [{entry["system"] for entry in one["entries"]} for one in board["boards"]]
    assert {"bm25", "Letta"} in systems
    (made,) = (tmp_path / "runs").glob("longmemeval-s-ids-*")
    record = orjson.loads((made / "run.json").read_bytes())
    assert record["imported_from"]["url"] == url
    assert (record["settings"]["k"], record["imported_from"]["cut"]) == (3, 3)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('dataset = "locomo"', "needs a dataset, and a file or a url"),
        ('dataset = "locomo"\nurl = "https://example.org/a.json"', "give the sha256"),
        ('dataset = "locomo"\nfile = "a.json"\nrankng = "x"', "'rankng'; did you mean ranking"),
        ('dataset = "locomo"\nfile = "a.json"\ncut = "x"', "cut must be a whole number"),
    ],
)
def test_a_table_that_is_not_as_it_must_be_ends_before_anything_is_fetched(
    harness: Harness, tmp_path: Path, table: str, said: str
) -> None:
    told = harness("run", "--config", _config(tmp_path, f"[[published]]\n{table}\n"))
    assert told.status == 2
    assert said in told.err
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_another_fails_its_own_table_only(
    harness: Harness, data: Path, tmp_path: Path
) -> None:
    cogito = data / "published" / "cogito"
    tables = "".join(
        f'[[published]]\ndataset = "longmemeval/s-ids"\nfile = "{cogito / name}"\n{more}\n'
        for name, more in (
            ("baseline_per_question.json", f'sha256 = "{"0" * 64}"'),
            ("runP-v35_per_question.json", ""),
        )
    )
    told = harness("run", "--config", _config(tmp_path, tables))
    assert told.status == 1
    assert "is not the file of sha256 000000000000" in told.err
    board = orjson.loads((tmp_path / "runs" / "leaderboard.json").read_bytes())
    assert [entry["system"] for one in board["boards"] for entry in one["entries"]] == [
        "runP-v35_per_question"
    ]


def test_a_published_file_that_is_scored_is_on_the_board(
    harness: Harness, data: Path, tmp_path: Path
) -> None:
    file = data / "published" / "cogito" / "baseline_per_question.json"
    options = ["--dataset", "longmemeval/s-ids", "--name", "cogito", "--cut", 3]
    told = harness("score", file, *options, "--out", tmp_path, "--quiet")
    assert told.status == 0, told.err
    told = harness("leaderboard", "--results", tmp_path, "--json")
    (board,) = orjson.loads(told.out)["leaderboard"]["boards"]
    (entry,) = board["entries"]
    assert (entry["system"], board["depth"]) == ("cogito", 3)
    told = harness("leaderboard", "add", file, "--results", tmp_path)
    assert (told.status, "is a file; `harness score`" in told.err) == (2, True)
