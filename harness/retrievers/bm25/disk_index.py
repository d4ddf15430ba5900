"""On-disk index of a large corpus.

Each block of documents is indexed and written to disk; then the blocks are merged, one range of
terms at a time. Memory holds a block, the vocabulary, the distinct terms of each block, and a few
numbers per document, but not all texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.io.progress import progress
from harness.retrievers.bm25 import index
from harness.retrievers.bm25.index import InvertedIndex, postings_of
from harness.retrievers.bm25.tokenizer import Ints, Terms, Tokenizer
from harness.retrievers.contract import Corpus

_MERGED = 1 << 24  # postings merged at once


class IndexBuilder:
    """Writes the index of a large corpus to a folder: `add` each block, then `finish`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blocks: list[tuple[Path, int, Terms, Terms]] = []
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._documents = self._most = 0

    def add(self, terms: Terms, lengths: Ints) -> None:
        """Writes the next block of documents."""
        own, frequencies, documents, counts = postings_of(terms, lengths)
        path = self._folder / f"block-{len(self._blocks)}"
        with open(path, "wb") as file:
            file.write(documents.astype(np.uint16).data)
            file.write(counts.astype(np.uint32).data)
        self._blocks.append((path, self._documents, own, frequencies.astype(np.int32)))
        self._lengths.append(lengths.astype(np.int32))
        self._documents += len(lengths)
        self._most = max(self._most, int(counts.max(initial=0)))

    def finish(self, stems: Sequence[str]) -> None:
        """Merges the blocks; `stems` are the terms by number."""
        n_terms = len(stems)
        frequencies = np.zeros(n_terms, np.int64)
        for _, _, own, documents in self._blocks:
            frequencies[own] += documents
        starts = np.concatenate([[0], np.cumsum(frequencies)])
        terms = pa.array(stems, pa.large_string())
        by_name = pc.sort_indices(terms).to_numpy().astype(np.int32)
        self._save("starts", starts)
        self._save("lengths", np.concatenate([*self._lengths]))
        self._save("by_name", by_name)
        kind = np.min_scalar_type(self._most)
        blocks = [_Block(*self._blocks.pop(0)) for _ in range(len(self._blocks))]
        with (
            open(self._folder / "documents.npy", "wb") as owners,
            open(self._folder / "counts.npy", "wb") as counted,
            progress(n_terms, "terms", "merge the index") as bar,
        ):
            _header(owners, np.dtype(np.int32), int(starts[-1]))
            _header(counted, kind, int(starts[-1]))
            low = 0
            while low < n_terms:
                # As many terms as fit, but at least one.
                high = int(np.searchsorted(starts, starts[low] + _MERGED, side="right")) - 1
                high = min(max(high, low + 1), n_terms)
                found = _merged(blocks, low, high, starts)
                owners.write(found[0].data)
                counted.write(found[1].astype(kind).data)
                bar.update(high - low)
                low = high
        for block in blocks:
            block.path.unlink()
        with pa.OSFile(str(self._folder / "terms.arrow"), "wb") as sink:
            table = pa.table({"term": terms})
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)

    def _save(self, name: str, values: npt.NDArray[Any]) -> None:
        # Not np.save: its error on a full disk names neither the cause nor the file.
        with open(self._folder / f"{name}.npy", "wb") as file:
            _header(file, values.dtype, len(values))
            file.write(values.data)


class _Block:
    """Postings of a block on disk, by term; not memory-mapped, since mapped pages stay loaded."""

    def __init__(self, path: Path, before: int, own: Terms, frequencies: Terms) -> None:
        self.path, self.before, self.own = path, before, own
        self.starts = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])

    def read(self, part: slice) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
        """Returns documents and counts of some rows."""
        n = part.stop - part.start
        with open(self.path, "rb") as file:
            file.seek(2 * part.start)
            documents = np.fromfile(file, np.uint16, n)
            file.seek(2 * int(self.starts[-1]) + 4 * part.start)
            return documents, np.fromfile(file, np.uint32, n)


def _merged(
    blocks: Sequence[_Block], low: int, high: int, starts: Ints
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """Returns documents and counts of terms `low` to `high`, by term, then document."""
    origin = int(starts[low])
    size = int(starts[high]) - origin
    documents, counts = np.empty(size, np.int32), np.empty(size, np.uint32)
    free = starts[low:high] - origin  # index of the next posting of each term
    for block in blocks:
        first, last = np.searchsorted(block.own, [low, high])
        if first == last:
            continue
        part = slice(int(block.starts[first]), int(block.starts[last]))
        terms, frequencies = block.own[first:last] - low, np.diff(block.starts[first : last + 1])
        shift = free[terms] - (block.starts[first:last] - part.start)
        to = np.repeat(shift, frequencies) + np.arange(part.stop - part.start)
        in_block, counted = block.read(part)
        documents[to] = in_block.astype(np.int32) + block.before
        counts[to] = counted
        free[terms] += frequencies
    return documents, counts


def _header(file: IO[bytes], kind: np.dtype[Any], n: int) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, described)


def build_index(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the index of a large corpus to a folder."""
    builder = IndexBuilder(folder)
    with progress(len(corpus), "documents", "index") as bar:
        for block in corpus.blocks(index.BLOCK):
            builder.add(*tokenizer.encode_column(block.text_column()))
            bar.update(len(block))
    builder.finish(tokenizer.stems)


class Vocabulary:
    """Terms of an on-disk index, memory-mapped and read on use."""

    def __init__(self, folder: Path) -> None:
        with pa.memory_map(str(folder / "terms.arrow")) as source:
            terms = pa.ipc.open_file(source).read_all()["term"].combine_chunks()
        # Not by Arrow scalars, which are slow: a question reads some hundred terms.
        _, starts, names = terms.buffers()
        self._starts = np.frombuffer(starts, np.int64)[: len(terms) + 1]
        self._names = memoryview(names if names is not None else b"")
        self._by_name = np.load(folder / "by_name.npy", mmap_mode="r").view(np.ndarray)

    def number(self, term: str) -> int | None:
        """Returns the number of a term; None if no document has it."""
        name = term.encode()
        place = bisect_left(self._by_name, name, key=self._name)
        if place < len(self._by_name) and self._name(found := self._by_name[place]) == name:
            return int(found)
        return None

    def _name(self, number: int) -> bytes:
        return self._names[self._starts[number] : self._starts[number + 1]].tobytes()


def open_index(folder: Path) -> tuple[InvertedIndex, Vocabulary]:
    """Returns an index written by `build_index`, memory-mapped, and its terms."""
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)
        for name in ("starts", "documents", "counts", "lengths")
    }
    return InvertedIndex(**arrays), Vocabulary(folder)
