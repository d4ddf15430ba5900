"""What a page says it needs, brought to where it runs: finished runs, real data."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import docs_warm
from docs_checks import PageError

# Its file here is not the published one, so a test names it where a reader need not.
_OTHER_FILES = {"longmemeval/s": "longmemeval/longmemeval_s_sample.json"}
_PREPARED = {
    "locomo": ("locomo", "locomo/locomo10.json"),
    "scifact": ("beir/scifact", "beir/scifact"),
    "realtalk": ("realtalk", "realtalk"),
    "devmembench": ("devmembench", "devmembench"),
}
_ARCHIVES = {
    "beam": ("beam/100k", "beam/beam_100k.tar.gz"),
    "realmem": ("realmem", "realmem/realmem.tar.gz"),
    "memdaily": ("memdaily", "memdaily/memdaily.tar.gz"),
}
_BESIDE = {
    "audit": ("errors.json", "locomo/audit_errors.json"),
    "scifact-files": ("scifact", "beir/scifact"),
}
_LOCOMO_PLUS = ("locomo-plus/locomo_plus.json", "locomo/locomo10.json")
NEEDS = ("runs", "longmemeval", "minilm", "locomo-plus", *_PREPARED, *_ARCHIVES, *_BESIDE)
_RUNS = ("bm25", "tfidf")


def supply(needs: Sequence[str], folder: Path, data: Path | None) -> Iterator[str]:
    """Put files into a page's folder; gives the commands to run before it.

    Raises PageError for what nobody knows.
    """
    for need in needs:
        if need not in NEEDS:
            raise PageError(f"needs {need!r}; known: {', '.join(NEEDS)}")
        if need == "runs":
            for run in sample_runs().iterdir():
                if not (folder / "results" / run.name).exists():
                    shutil.copytree(run, folder / "results" / run.name)
        if need in _BESIDE:
            assert data is not None
            name, file = _BESIDE[need]
            (folder / name).symlink_to(data / file)
        if need in _PREPARED:
            name, file = _PREPARED[need]
            yield f"harness datasets prepare {name} --quiet --source '{data}/{file}'"
        if need in _ARCHIVES:
            assert data is not None
            name, file = _ARCHIVES[need]
            source = _unpacked(data / file)
            yield f"harness datasets prepare {name} --quiet --source '{source}'"
        if need == "locomo-plus":
            assert data is not None
            (folder / "raw").mkdir()
            for file in _LOCOMO_PLUS:
                (folder / "raw" / Path(file).name).symlink_to(data / file)
            yield "harness datasets prepare locomo-plus --quiet --source raw"


@cache
def _unpacked(archive: Path) -> Path:
    """The folder of an archive's files, for as long as the tests run."""
    folder = Path(tempfile.mkdtemp(prefix="harness-docs-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


def with_sources(line: str, needs: Sequence[str], data: Path | None) -> str:
    """A line of shell with `--source` behind datasets whose file here is not the published one."""
    if "longmemeval" not in needs or "--source" in line:
        return line
    for name, file in _OTHER_FILES.items():
        place = rf"((?:--dataset[ =]|datasets \w+ )['\"]?{re.escape(name)}['\"]?)(?=\s|$)"
        line = re.sub(place, rf"\1 --source '{data}/{file}'", line)
    return line


@cache
def sample_runs() -> Path:
    """Run folders that pages begin with; made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="harness-docs-"))
    atexit.register(shutil.rmtree, folder)
    env = docs_warm.environment() | {"HARNESS_HOME": str(folder / "home")}
    for name in _RUNS:
        command = f"run --dataset sample --retriever {name} --quiet --out results".split()
        subprocess.run([docs_warm.harness(), *command], cwd=folder, env=env, check=True)
    return folder / "results"
