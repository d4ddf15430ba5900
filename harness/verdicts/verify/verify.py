"""A run's published numbers, each made again by a second way and held against it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.dataset.export_key import export_key
from harness.dataset.prepare import open_dataset, open_prepared
from harness.dataset.reader import Dataset
from harness.dataset.verify import verify as verify_content
from harness.errors import UsageError
from harness.verdicts.verify.hearing import Difference, Line
from harness.verdicts.verify.key import Key
from harness.verdicts.verify.published import Check, Folder
from harness.verdicts.verify.rankings import FILES, Run, differing, read_run
from harness.verdicts.verify.recount import Recount
from harness.verdicts.verify.trec_eval import tools

_TEXTS = 300_000
"""So many returned documents have their tokens counted without being asked for."""


@dataclass(frozen=True)
class Verdict:
    """All that was found.

    `numbers`: how many scores.json has; `not_verified`: how many of them nobody recomputed, by
    kind. `means`: how many means of protocols were recomputed, and how many there are.
    """

    folder: Folder
    lines: list[Line]
    checks: list[Check]
    differences: list[Difference]
    numbers: int
    means: tuple[int, int]
    not_verified: dict[str, int]
    notes: list[str]

    @property
    def recomputed(self) -> int:
        """How many numbers were recomputed."""
        return self.numbers - sum(self.not_verified.values())

    @property
    def agrees(self) -> bool:
        """Whether nothing differs and everything belongs together."""
        return not self.differences and all(check.ok for check in self.checks)


def verify(
    path: Path,
    *,
    source: str | None = None,
    program: Path | None = None,
    keep: Path | None = None,
    everything: bool = False,
) -> Verdict:
    """Recompute what a run folder, or a submission, publishes in scores.json.

    `source`: the raw files of its dataset, where they are not prepared here. `program`: trec_eval,
    where PATH does not name it. `keep`: a new folder for the judgements and rankings that were
    used, as text. `everything`: count tokens however many documents were returned.

    Raises UsageError for a folder that is no such, or publishes nothing, for data that are not
    those it names, and for a `program` that cannot be used.
    """
    folder = Folder.read(path)
    dataset = _dataset(folder, source)
    name, run = _rankings(folder)
    texts = everything or _returned(run) <= _TEXTS
    with _place(keep) as aside:
        witnesses = tools(program, aside)
        named = {query: [*ranking.documents, query] for query, ranking in run.items()}
        export_key(dataset, aside, named, texts=texts)
        recount = Recount(folder, Key.read(aside), run, texts=texts)
        recount.protocols(witnesses, keep)
        recount.others()
    hearing = recount.hearing
    checks = [_content(folder, dataset), *_other_rankings(folder, name, run), *recount.checks()]
    notes = [f"judgements and rankings are in {keep}"] if keep else []
    notes += [] if texts else ["tokens are counted of so many documents only with --everything"]
    if not witnesses:
        notes.append(
            "nobody but plain Python has looked: `pip install 'memory-retrieval-harness[verify]'` "
            "adds pytrec_eval, --trec-eval FILE the program"
        )
    return Verdict(
        folder,
        hearing.lines,
        checks,
        hearing.differences,
        len(hearing.numbers()),
        hearing.means(),
        hearing.not_verified(),
        notes,
    )


def _dataset(folder: Folder, source: str | None) -> Dataset:
    """The dataset that run.json names, by its content. Raises UsageError where it is another's."""
    about = folder.dataset
    name, fingerprint = about["name"], about["fingerprint"]
    dataset = None if source else open_prepared(name, fingerprint)
    if dataset is None:
        granularity, text, split = (about.get(p) or "" for p in ("granularity", "text", "split"))
        dataset = open_dataset(name, source=source, granularity=granularity, text=text, split=split)
    if not dataset.fingerprint.startswith(fingerprint):
        raise UsageError(
            f"{folder.path}: was run on {name} {fingerprint[:8]}, but here it is "
            f"{dataset.fingerprint[:8]}; give the same raw files with --source"
        )
    return dataset


def _rankings(folder: Folder) -> tuple[str, Run]:
    """The rankings by the first of FILES that is there, and its name. Raises UsageError."""
    for name in FILES:
        if (folder.path / name).is_file():
            return name, read_run(folder.path / name)
    texts = "; texts are matched by `harness leaderboard add`"
    more = texts if (folder.path / "hits.jsonl").is_file() else ""
    needed = ", ".join(FILES)
    raise UsageError(f"{folder.path}: holds no rankings; one of {needed} is needed{more}")


def _returned(run: Run) -> int:
    return len({document for ranking in run.values() for document in ranking.documents})


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """A folder to write into: `keep`, made and empty, or one that is gone afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory() as aside:
            yield Path(aside)
        return
    if keep.is_file() or (keep.is_dir() and any(keep.iterdir())):
        raise UsageError(f"--keep {keep}: exists and is not empty; name a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


def _content(folder: Folder, dataset: Dataset) -> Check:
    """Whether the prepared dataset is, byte by byte, the one that scores.json names.

    That run.json names it was asked before.
    """
    content, said, manifest = verify_content(dataset)[0], folder.scores["dataset"], dataset.manifest
    for name in ("name", "granularity", "text", "split", "fingerprint"):
        if said[name] != getattr(manifest, name):
            found = f"{name} is {said[name]} in scores.json, {getattr(manifest, name)} in the data"
            return Check("dataset", False, found)
    found = f"{dataset.name}, content as its fingerprint {dataset.fingerprint[:8]} says"
    return Check("dataset", content["ok"], found if content["ok"] else content["found"])


def _other_rankings(folder: Folder, first: str, run: Run) -> Iterator[Check]:
    """Whether the other files of rankings hold the same."""
    for name in FILES:
        if name == first or not (folder.path / name).is_file():
            continue
        different = differing(run, read_run(folder.path / name))
        found = f"as in {name}, {len(run)} queries"
        if different:
            found = f"{name} holds others for {len(different)} queries, first {different[0]!r}"
        yield Check(first, not different, found)
