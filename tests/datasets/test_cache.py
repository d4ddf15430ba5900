"""A prepared dataset is whole and of the present adapter, or it is made again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny
from loopback import Loopback
from polling import wait_until

from harness.datasets import registry
from harness.datasets.adapter import DatasetConfig, SourceFiles
from harness.datasets.registry import open_dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registry.register_adapter("tiny")(tiny.Tiny)
    yield
    del registry._registered["tiny"]


@pytest.fixture
def builds(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many times the tiny dataset was normalised, by any process."""
    log = tmp_path / "log"
    monkeypatch.setenv("TINY_LOG", str(log))
    return lambda: len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A file server with the raw file of tiny/lines."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with Loopback() as server:
        monkeypatch.setenv("TINY_URL", server.put("/lines.txt", tiny.LINES))
        yield server


def start(name: str, limit: int = 0, **environment: str) -> subprocess.Popen[str]:
    """A process that opens a dataset; with `limit`, no file of it may grow beyond those bytes."""

    def no_file_beyond() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, tiny.__file__, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        preexec_fn=no_file_beyond if limit else None,
    )


def contents(home: Path) -> set[str]:
    """Everything in the cache but locks."""
    return {str(p.relative_to(home)) for p in home.rglob("*") if p.name != ".lock"}


def test_the_second_open_makes_nothing(builds: Callable[[], int]) -> None:
    first = open_dataset("tiny")
    second = open_dataset("tiny")
    assert builds() == 1
    assert (len(second.documents), second.fingerprint) == (10_000, first.fingerprint)


def test_a_process_killed_half_way_leaves_nothing_that_is_trusted(
    home: Path, builds: Callable[[], int], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    process = start("tiny", TINY_GATE=str(gate))
    wait_until((tmp_path / "gate.reached").exists, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert any(name.endswith(".new/documents.arrow") for name in contents(home))
    assert len(open_dataset("tiny").documents) == 10_000
    assert builds() == 2
    assert not any(".new" in name for name in contents(home))


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


@pytest.mark.parametrize("name", ["documents.arrow", "qrels.arrow", "manifest.json"])
@pytest.mark.parametrize("damage", [truncated, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_folder_that_does_not_match_its_manifest_is_made_again(
    builds: Callable[[], int], name: str, damage: Callable[[Path], object]
) -> None:
    before = open_dataset("tiny")
    damage(before.folder / name)
    after = open_dataset("tiny")
    assert builds() == 2
    assert (len(after.documents), after.fingerprint) == (10_000, before.fingerprint)
    assert len(after.qrels()) == 1


def test_a_dataset_of_an_older_adapter_is_made_again_and_one_in_use_stays_what_it_was(
    builds: Callable[[], int],
) -> None:
    class Newer(tiny.Tiny):
        version = 2

        def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
            super().convert(raw, config, out)
            out.qrel("q", "d2")

    in_use = open_dataset("tiny")
    registry.register_adapter("tiny")(Newer)
    newer = open_dataset("tiny")
    assert newer.manifest.adapter_version == 2
    assert open_dataset("tiny").fingerprint == newer.fingerprint != in_use.fingerprint
    assert builds() == 2
    assert (len(newer.qrels()), len(in_use.qrels())) == (2, 1)


def test_two_processes_at_once_prepare_it_once_and_both_have_it(
    builds: Callable[[], int], tmp_path: Path, published: Loopback
) -> None:
    gate = tmp_path / "gate"
    first = start("tiny/lines", TINY_GATE=str(gate))
    wait_until((tmp_path / "gate.reached").exists, first)
    second = start("tiny/lines")
    time.sleep(0.5)
    gate.touch()
    (one, errors), (two, more_errors) = first.communicate(), second.communicate()
    assert one == two != "", errors + more_errors
    assert builds() == 1
    assert len(published.requests) == 1


@pytest.mark.slow
def test_a_dataset_stays_open_and_can_be_opened_while_another_process_makes_it_again(
    builds: Callable[[], int], tmp_path: Path
) -> None:
    before, enough = open_dataset("tiny"), tmp_path / "enough"
    code = (
        "import pathlib, tiny\n"
        f"enough = pathlib.Path({str(enough)!r})\n"
        "while not enough.exists(): tiny.open_dataset('tiny', rebuild=True)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code], cwd=Path(tiny.__file__).parent)
    opened = 0
    while other.poll() is None:
        assert open_dataset("tiny").documents[9_999].text == "two"
        opened += 1
        if opened > 10 and builds() > 8:
            enough.touch()
    assert other.returncode == 0
    assert before.documents[9_999].text == "two"


def test_bad_input_leaves_the_cache_as_it_was(
    home: Path, published: Loopback, tmp_path: Path
) -> None:
    class Strict(tiny.Tiny):
        def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
            super().convert(raw, config, out)
            out.query("q", "Again?", "all")

    open_dataset("tiny/lines")
    before = contents(home)
    registry.register_adapter("tiny")(Strict)
    with pytest.raises(UsageError, match="query id 'q' occurs twice"):
        open_dataset("tiny/lines", rebuild=True)
    assert contents(home) == before
    registry.register_adapter("tiny")(tiny.Tiny)
    assert open_dataset("tiny/lines").documents[1].text.startswith("The key")


def test_a_cache_below_a_file_is_one_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "home", Path("/proc/home")):
        monkeypatch.setenv("HARNESS_HOME", str(place))
        with pytest.raises(
            UsageError, match=rf"^{place}[^\n]*cannot be written[^\n]*HARNESS_HOME[^\n]*$"
        ):
            open_dataset("tiny")


@pytest.mark.parametrize(("name", "limit"), [("tiny", 20_000), ("tiny/lines", 40)])
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    home: Path, published: Loopback, name: str, limit: int
) -> None:
    process = start(name, limit)
    out, errors = process.communicate()
    assert (process.returncode, out) == (2, ""), errors
    assert str(home) in errors
    assert "HARNESS_HOME" in errors
    assert errors.count("\n") == 1
    assert not any("/" in name.partition("/")[2] for name in contents(home / "datasets"))
    assert len(open_dataset(name).documents) in (2, 10_000)


def test_a_local_copy_of_the_published_file_is_the_official_dataset(
    builds: Callable[[], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_bytes(tiny.LINES)
    local = open_dataset("tiny/lines", source=tmp_path / "mine.txt")
    assert local.manifest.official
    again = open_dataset("tiny/lines", source=tmp_path / "mine.txt")
    unnamed = open_dataset("tiny/lines")  # nothing is downloaded: it is there
    other_view = open_dataset("tiny/lines", split="b")  # nor here: the copy is known
    assert local.folder == again.folder == unnamed.folder != other_view.folder
    assert builds() == 2
    assert capsys.readouterr().err == ""


def test_a_local_copy_of_another_file_is_a_warning_and_is_recorded(
    published: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_bytes(b"Another text.\nAnd one more.\n")
    local = open_dataset("tiny/lines", source=tmp_path / "mine.txt")
    assert [raw.status for raw in local.manifest.raw] == ["unknown"]
    assert "warning: " in (warning := capsys.readouterr().err)
    assert str(tmp_path / "mine.txt") in warning
    assert open_dataset("tiny/lines").documents[0].text.startswith("The boiler")


def test_a_local_copy_that_changed_is_read_again(tmp_path: Path, home: Path) -> None:
    source = tmp_path / "mine.txt"
    source.write_bytes(b"One.\nTwo.\n")
    assert open_dataset("tiny/lines", source=source).documents[0].text == "One."
    source.write_bytes(b"Six.\nTen.\n")
    os.utime(source, ns=(1, 1))
    assert open_dataset("tiny/lines", source=source).documents[0].text == "Six."
