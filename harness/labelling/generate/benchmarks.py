"""Public datasets to look for duplicates in: those that are named, and those prepared here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.dataset.reader import Dataset
from harness.errors import UsageError

CHEAP = 100_000_000
"""Bytes of documents up to which a prepared dataset is looked at unasked: a few seconds."""
_PORTION = 5000


@dataclass(frozen=True)
class Benchmark:
    """A prepared dataset."""

    dataset: Dataset

    @property
    def name(self) -> str:
        """Its name and view, as `locomo turn-official-test`."""
        manifest = self.dataset.manifest
        return f"{manifest.name} {manifest.granularity}-{manifest.text}-{manifest.split}"

    @property
    def n_documents(self) -> int:
        """How many documents it has."""
        return len(self.dataset.documents)

    @property
    def n_queries(self) -> int:
        """How many queries it has."""
        return self.dataset.n_queries

    def documents(self) -> Iterator[list[str]]:
        """Titles and texts, in portions."""
        import numpy as np

        for start in range(0, self.n_documents, _PORTION):
            stop = min(start + _PORTION, self.n_documents)
            yield self.dataset.documents.contents(np.arange(start, stop, dtype=np.int32))

    def queries(self) -> Iterator[list[str]]:
        """Texts, in portions."""
        for start in range(0, self.n_queries, _PORTION):
            yield self.dataset.query_table["text"].slice(start, _PORTION).to_pylist()


def named(names: Sequence[str], *, quiet: bool) -> list[Benchmark]:
    """The datasets that `--against` names: NAME, NAME=SOURCE, or the folder of a labelled set.

    Raises UsageError for a name that is not known.
    """
    from harness.dataset.prepare import open_dataset

    found = []
    for text in names:
        name, _, source = text.partition("=")
        if not source and Path(text).exists():
            name, source = "labelled", text
        split = "all" if name == "labelled" else ""
        try:
            dataset = open_dataset(name, source=source or None, split=split, quiet=quiet)
        except UsageError as error:
            raise UsageError(f"--against {text}: {error}") from None
        found.append(Benchmark(dataset))
    return found


def prepared() -> tuple[list[Benchmark], list[dict[str, str]]]:
    """Public datasets in the cache, and those there that were not opened, with the reason.

    Of views with the same documents (another split or form of text) all are looked at, since their
    queries and texts differ; of the same content one.
    """
    from harness.dataset.catalogue import find
    from harness.dataset.prepare import home, open_folder, prepared_folders

    found, skipped, seen = list[Benchmark](), list[dict[str, str]](), set[str]()
    root = home() / "datasets"
    for place in sorted(root.iterdir()) if root.is_dir() else ():
        name = place.name.replace("__", "/")
        try:
            if find(name)[1].needs_source:  # a set of the user's own
                continue
        except UsageError:  # of a family that a plug-in brings, which is not here now
            skipped.append({"dataset": name, "why": "its adapter is not known here"})
            continue
        for folder in prepared_folders(name):
            dataset = open_folder(name, folder)
            if dataset is None:
                skipped.append({"dataset": name, "why": "was prepared by another version"})
            elif dataset.fingerprint in seen:
                continue
            elif (size := dataset.manifest.files["documents.arrow"]) > CHEAP:
                why = f"{size / 1e6:,.0f} MB of documents; --against {name} looks at it"
                skipped.append({"dataset": name, "why": why})
            else:
                seen.add(dataset.fingerprint)
                found.append(Benchmark(dataset))
    return found, [dict(one) for one in dict.fromkeys(tuple(s.items()) for s in skipped)]
