"""Public datasets to look for duplicates in, and which texts of a set they have too.

The datasets are those that are named, and those that are prepared on this machine. A text is the
same as a benchmark's where their words are equal after normalisation (case, marks and spaces make
no difference); nearly the same where at least 70% of its runs of eight words stand in the
benchmark's texts, which is how PaLM's authors looked for contamination (Chowdhery et al. 2022,
section 8). A query is nearly the same, too, where it has the same content words in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.labelling.generate.near_duplicates import content_words
from harness.labelling.generate.records import SkippedDataset
from harness.labelling.generate.topics import window_hashes
from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.scoring.matching.words import WORD, Vocabulary, plain

CHEAP = 100_000_000
"""Bytes of documents up to which a prepared dataset is looked at unasked: a few seconds."""
_PORTION = 5000

RUN_LENGTH = 8
"""Words in a row that are looked for."""

MIN_SHARE = 0.7
"""The share of a text's runs from which on it is nearly the same."""

Int64 = npt.NDArray[np.int64]


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


def prepared() -> tuple[list[Benchmark], list[SkippedDataset]]:
    """Opens the public datasets in the cache; returns also those that were skipped.

    Of views with the same documents (another split or form of text) all are looked at, since their
    queries and texts differ; of the same content one.
    """
    from harness.dataset.prepare import home, open_folder, prepared_folders
    from harness.dataset.registry import find

    found, skipped, seen = list[Benchmark](), dict[SkippedDataset, None](), set[str]()
    root = home() / "datasets"
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        name = path.name.replace("__", "/")
        try:
            if find(name)[1].needs_source:  # a set of the user's own
                continue
        except UsageError:  # of a family that a plug-in brings, which is not here now
            skipped[SkippedDataset(dataset=name, reason="its adapter is not known here")] = None
            continue
        for folder in prepared_folders(name):
            dataset = open_folder(name, folder)
            if dataset is None:
                reason = "was prepared by another version"
                skipped[SkippedDataset(dataset=name, reason=reason)] = None
            elif dataset.fingerprint in seen:
                continue
            elif (size := dataset.manifest.files["documents.arrow"]) > CHEAP:
                reason = f"{size / 1e6:,.0f} MB of documents; --against {name} compares it"
                skipped[SkippedDataset(dataset=name, reason=reason)] = None
            else:
                seen.add(dataset.fingerprint)
                found.append(Benchmark(dataset))
    return found, list(skipped)


# -- Which of our texts a benchmark has ------------------------------------------------------------


@dataclass(frozen=True)
class Matches:
    """Rows of ours that the benchmark has: `exact` with its row, and `near` with the share."""

    exact: dict[int, int]
    near: dict[int, float]


class TextIndex:
    """Our texts, as hashes of their runs of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._vocabulary, self._terms = Vocabulary(), Tokenizer()
        self._texts = texts
        cut = [np.array([self._vocabulary[w] for w in WORD.findall(t)], np.int64) for t in texts]
        self._whole: dict[bytes, list[int]] = {}
        for row, words in enumerate(cut):
            if len(words):
                self._whole.setdefault(words.tobytes(), []).append(row)
        runs = [window_hashes(words, RUN_LENGTH) for words in cut]
        self._run = np.concatenate([np.zeros(0, np.uint64), *runs])
        self._row = np.repeat(np.arange(len(texts)), [len(run) for run in runs])

    def within(self, others: Iterator[list[str]], *, any_order: bool = False) -> Matches:
        """Which of ours a stream of texts has, given in portions.

        `any_order`: the same content words count as nearly the same (share 1).
        """
        known = _Known(self._vocabulary)
        wanted = np.unique(self._run)
        seen = np.zeros(len(wanted), bool)
        exact: dict[int, int] = {}
        shuffled: set[tuple[int, ...]] = set()
        start = 0
        for portion in others:
            cut = [[known[word] for word in WORD.findall(text)] for text in portion]
            for at, words in enumerate(cut):
                if words and -1 not in words:
                    for row in self._whole.get(np.array(words, np.int64).tobytes(), ()):
                        exact.setdefault(row, start + at)
            joined = np.array([w for words in cut for w in (*words, -1)], np.int64)
            hashes = window_hashes(joined, RUN_LENGTH)
            if len(wanted) and len(hashes):
                places = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
                seen[places[wanted[places] == hashes]] = True
            if any_order:
                shuffled.update(map(self._content, portion))
            start += len(portion)
        near: dict[int, float] = {}
        if any_order:
            mine = map(self._content, self._texts)
            found = (row for row, of in enumerate(mine) if of and of in shuffled)
            near = {row: 1.0 for row in found if row not in exact}
        if len(wanted):
            of_run = seen[np.searchsorted(wanted, self._run)]
            total = np.bincount(self._row, minlength=len(self._texts))
            share = np.bincount(self._row, of_run, len(self._texts)) / np.maximum(total, 1)
            for row in np.flatnonzero(share >= MIN_SHARE).tolist():
                if row not in exact:
                    near[row] = float(share[row])
        return Matches(exact, near)

    def _content(self, text: str) -> tuple[int, ...]:
        return content_words(text, self._terms)


class _Known(dict[str, int]):
    """Our number of each word as another text writes it, -1 for one that we have not."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._numbers = vocabulary.numbers

    def __missing__(self, word: str) -> int:
        self[word] = number = self._numbers.get(plain(word), -1)
        return number
