"""Texts to unit vectors: the model that semantic accuracy is measured by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError

Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Model:
    """A model: `embed` gives vectors of shape (texts, dimension), of any length."""

    name: str
    revision: str
    embed: Embed

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}" if self.revision else self.name


def minilm() -> Model:
    """The packaged all-MiniLM-L6-v2, with its cache; texts are cut at 256 word pieces.

    Raises UsageError, with the command that helps, where it is not installed.
    """
    from harness.retrievers.embedder import Embedder
    from harness.retrievers.minilm import PACKAGED, LightEncoder, need_minilm

    need_minilm("semantic accuracy")
    encoder = LightEncoder(PACKAGED)
    embedder = Embedder(encoder)
    return Model(encoder.model, encoder.revision, lambda texts: embedder(list(texts)))


class TextVectors:
    """Unit vectors of texts, each distinct one embedded once. A blank text is like no other."""

    def __init__(self, texts: Iterable[str], embed: Embed) -> None:
        """Raises UsageError where the model gives no matrix of numbers, or another number of rows
        than texts."""
        blank: dict[str, None] = {}
        self._row: dict[str, int] = {}
        for text in texts:
            if text.strip():
                self._row.setdefault(text, len(self._row))
            else:
                blank[text] = None
        vectors = np.zeros((0, 1), np.float32)
        if self._row:
            vectors = np.asarray(embed(list(self._row)), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self._row) or not np.isfinite(vectors).all():
            raise UsageError(
                f"the embedding of {len(self._row)} texts must be a matrix of so many rows of "
                f"numbers, not of shape {vectors.shape}"
            )
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        self._vectors = np.concatenate(
            [vectors / np.where(length > 0, length, 1), np.zeros((1, vectors.shape[1]))]
        ).astype(np.float32)
        self._row |= dict.fromkeys(blank, len(self._row))

    def __getitem__(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._row[text] for text in texts]]
