"""Dense ranking with any model that sentence-transformers loads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from harness.extensions.dense.embedder import VectorOptions, VectorRetriever
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.models import Model, locate
from harness.io.packages import require_packages
from harness.retrievers.options import with_options

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True, kw_only=True)
class DenseOptions(VectorOptions):
    """Options of `Dense`; see there."""

    batch_size: int = 32
    device: str = ""


@with_options(DenseOptions)
class Dense(VectorRetriever):
    """Dense ranking by a sentence-transformers or Hugging Face model, exact, on CPU or GPU.

    `model` is a name on the hub, a folder, or an installed package with a model. Pooling, length
    and, by default, prompts are those of the model. `similarity`: cosine or dot. `batch_size`:
    texts per forward pass; `device`: a torch device (cpu, cuda, mps; empty: automatic). `dtype`: of
    vectors on disk, float32 or float16. `search`: exact, or an index of faiss (`HNSW32`) with
    search parameters `probe` (`efSearch=128`).
    """

    modules: ClassVar[tuple[str, ...]] = ("torch", "sentence_transformers")

    def __init__(self, model: str = MODEL, **options: Any) -> None:
        given = DenseOptions(**options)
        require_packages("retriever 'dense'", *self.modules)
        located = locate(model, given.revision)
        own = located.config("config_sentence_transformers.json").get("prompts") or {}
        # Prompt names of encode_document of sentence-transformers, in its order.
        passage_prompt = own.get("document") or own.get("passage") or own.get("corpus")
        if given.query_prompt is not None:
            own["query"] = given.query_prompt
        if given.passage_prompt is not None:
            passage_prompt = given.passage_prompt
        prompts = replace(given, query_prompt=own.get("query"), passage_prompt=passage_prompt)
        super().__init__(SentenceEncoder(located, given.batch_size, given.device), prompts)


class SentenceEncoder:
    """A sentence-transformers model, loaded at the first call (importing torch takes 5 s)."""

    def __init__(self, model: Model, batch_size: int, device: str) -> None:
        self._located = model
        self._batch_size = batch_size
        self._device = device
        self._loaded: Any = None
        self.model = model.name
        self.revision = f"{model.revision[:12]}-st"
        self.at_once = max(128, 4 * batch_size)

    def __call__(self, texts: list[str], prompt: str) -> Vectors:
        """Returns vectors of shape (texts, dimension)."""
        if self._loaded is None:
            from sentence_transformers import SentenceTransformer
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()  # from loading the weights
            self._loaded = SentenceTransformer(
                str(self._located.folder), device=self._device or None
            )
        # An explicit prompt, even an empty one, overrides the model's default.
        vectors = self._loaded.encode(
            texts, prompt=prompt, batch_size=self._batch_size, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)
