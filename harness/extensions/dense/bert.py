"""BERT's encoder in NumPy (Devlin et al., 2019), for models of sentence-transformers.

The module also has what any encoder needs: tokenizer, batches and pooling.

Texts of a batch are concatenated without padding; only attention handles them separately. Small
batches keep the values of a layer in the processor's cache, and run in threads.

NumPy's OpenBLAS mistakes some newer AVX-512 processors for a Haswell (threadpoolctl shows it);
there the environment variable OPENBLAS_CORETYPE=SkylakeX doubles the speed of matrix products.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.models import Model
from harness.io.files import read_json

TOKENS_A_BATCH = 512

Pool = Callable[[Vectors, npt.NDArray[np.int64], npt.NDArray[np.int64]], Vectors]
"""Maps token vectors, with start and length of each text, to one vector per text."""

# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: for x >= 0 and
# t = 1 / (1 + p x), erfc(x) = (a1 t + ... + a5 t^5) exp(-x^2) to 1.5e-7. NumPy has no erf, and with
# SciPy's GELU takes 1.5 times as long and is off by as much in float32 (4.4e-7; this way 3.3e-7).
_ERFC_P = np.float32(0.3275911)
_ERFC_A = np.array([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592], "f4")


class Bert:
    """A BERT model with mean or CLS pooling, as its own configuration says."""

    def __init__(self, model: Model) -> None:
        """Reads weights and tokenizer. Raises UsageError for an unsupported model."""
        from safetensors.numpy import load_file

        config = model.config("config.json")
        self._pool, self._normalise = head(model)
        kind = [
            config.get("model_type"),
            config.get("hidden_act", "gelu"),
            config.get("position_embedding_type", "absolute"),
        ]
        if kind != ["bert", "gelu", "absolute"]:
            raise UsageError(
                f"{model.name}: the NumPy encoder reads BERT with GELU and absolute positions, not "
                f"{', '.join(map(str, kind))}; use --retriever dense"
            )
        weights = load_file(model_file(model, "model.safetensors"))
        self._heads = int(config["num_attention_heads"])
        try:
            self._read(
                {name.removeprefix("bert."): w.astype("f4") for name, w in weights.items()}, config
            )
        except KeyError as error:
            raise UsageError(
                f"{model.name}: has no weights {error}; use --retriever dense"
            ) from None
        self._tokenizer = tokenizer(model)

    def _read(self, weights: dict[str, Vectors], config: dict[str, Any]) -> None:
        def linear(*names: str) -> _Linear:
            parts = [weights[f"{name}.weight"] for name in names]
            biases = [weights[f"{name}.bias"] for name in names]
            if len(parts) == 3:  # scale queries once here, instead of in every attention
                scale = np.float32(1 / np.sqrt(parts[0].shape[0] / self._heads))
                parts[0], biases[0] = parts[0] * scale, biases[0] * scale
            weight = np.ascontiguousarray(np.concatenate(parts).T)
            return _Linear(weight, np.concatenate(biases))

        def norm(name: str) -> _Norm:
            epsilon = float(config.get("layer_norm_eps", 1e-12))
            return _Norm(weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)

        self._words = weights["embeddings.word_embeddings.weight"]
        # All tokens are of the first segment, so its vector is added once, here.
        self._places = weights["embeddings.position_embeddings.weight"]
        self._places = self._places + weights["embeddings.token_type_embeddings.weight"][0]
        self._embedded_norm = norm("embeddings.LayerNorm")
        self._layers = [
            _Layer(
                linear(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
                linear(f"{at}.attention.output.dense"),
                norm(f"{at}.attention.output.LayerNorm"),
                linear(f"{at}.intermediate.dense"),
                linear(f"{at}.output.dense"),
                norm(f"{at}.output.LayerNorm"),
            )
            for at in (f"encoder.layer.{i}" for i in range(int(config["num_hidden_layers"])))
        ]

    def __call__(self, texts: list[str]) -> Vectors:
        """Returns vectors of shape (texts, dimension), float32."""
        from threadpoolctl import threadpool_limits

        tokens = [np.array(e.ids) for e in self._tokenizer.encode_batch_fast(texts)]
        vectors = np.empty((len(texts), self._words.shape[1]), np.float32)

        def run(batch: list[int]) -> None:
            vectors[batch] = self._forward([tokens[i] for i in batch])

        # One thread per core, each with single-threaded BLAS, so that all steps run in parallel.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cores) as threads:
            list(threads.map(run, batches([len(t) for t in tokens])))
        return vectors

    def _forward(self, tokens: list[npt.NDArray[np.int64]]) -> Vectors:
        """Returns vectors of texts that are sorted by length."""
        lengths = np.array([len(t) for t in tokens])
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        x = self._words[np.concatenate(tokens)] + self._places[places]
        x = self._embedded_norm(x)
        for layer in self._layers:
            y = layer.attended(self._attention(layer.query_key_value(x), lengths))
            y += x
            x = layer.attended_norm(y)
            y = layer.narrow(_gelu(layer.wide(x)))
            y += x
            x = layer.narrow_norm(y)
        pooled = self._pool(x, starts, lengths)
        if self._normalise:
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled

    def _attention(self, x: Vectors, lengths: npt.NDArray[np.int64]) -> Vectors:
        """Computes self-attention per text; texts of equal length are computed together."""
        width = x.shape[1] // 3
        out = np.empty((len(x), width), np.float32)
        start = 0
        for length, group in groupby(lengths.tolist()):
            n = len(list(group))
            rows = slice(start, start + n * length)
            start = rows.stop
            # (text, token, which, head, value)
            parts = x[rows].reshape(n, length, 3, self._heads, width // self._heads)
            query = parts[:, :, 0].transpose(0, 2, 3, 1)
            key = parts[:, :, 1].transpose(0, 2, 1, 3)
            value = parts[:, :, 2].transpose(0, 2, 3, 1)
            # Softmax over the second to last axis (keys), where NumPy works on whole rows.
            scores = key @ query
            scores -= scores.max(axis=-2, keepdims=True)
            np.exp(scores, out=scores)
            found = value @ scores
            found /= scores.sum(axis=-2, keepdims=True)
            out[rows] = found.transpose(0, 3, 1, 2).reshape(n * length, width)
        return out


def head(model: Model) -> tuple[Pool, bool]:
    """Returns the pooling, and whether vectors are normalized, as configured by the model.

    Raises UsageError for unknown modules.
    """
    path = model.folder / "modules.json"
    modules = read_json(path) if path.is_file() else []
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in ([], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UsageError(
            f"{model.name}: unsupported modules ({', '.join(kinds)}); use --retriever dense"
        )
    config = model.config(f"{modules[1]['path']}/config.json") if modules else {}
    # Newer configurations name the pooling modes, older ones have a flag each; the default is mean.
    ways = config.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for name, on in config.items()
        if name.startswith("pooling_mode_") and on
    ]
    way = ways if isinstance(ways, str) else "+".join(ways) or "mean"
    known: dict[str, Pool] = {"mean": _mean, "cls": _first}
    if way not in known or not config.get("include_prompt", True):
        raise UsageError(
            f"{model.name}: unsupported pooling {config}, only mean or cls over prompt and text; "
            "use --retriever dense"
        )
    return known[way], "Normalize" in kinds


def batches(lengths: list[int]) -> Iterator[list[int]]:
    """Yields texts in batches of similar token counts, longest texts first."""
    batch: list[int] = []
    tokens = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and tokens + lengths[i] > TOKENS_A_BATCH:
            yield batch
            batch, tokens = [], 0
        batch.append(i)
        tokens += lengths[i]
    if batch:
        yield batch


def model_file(model: Model, name: str) -> Path:
    """Returns the path of one of the model's files. Raises UsageError if it is missing."""
    path = model.folder / name
    if not path.is_file():
        raise UsageError(f"{path}: not found, and this encoder needs it")
    return path


def tokenizer(model: Model) -> Any:
    """Returns the model's tokenizer, which truncates at the model's length."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(model_file(model, "tokenizer.json")))
    found.no_padding()
    longest = model.config("sentence_bert_config.json").get("max_seq_length")
    found.enable_truncation(int(longest or model.config("config.json")["max_position_embeddings"]))
    return found


@dataclass(frozen=True)
class _Linear:
    """y = x W + b; `weight` has shape (in, out)."""

    weight: Vectors
    bias: Vectors

    def __call__(self, x: Vectors) -> Vectors:
        y: Vectors = x @ self.weight
        y += self.bias
        return y


@dataclass(frozen=True)
class _Norm:
    """Layer normalisation over the last axis, in place."""

    weight: Vectors
    bias: Vectors
    epsilon: float

    def __call__(self, x: Vectors) -> Vectors:
        x -= x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
        x *= (1 / np.sqrt(variance + np.float32(self.epsilon)))[:, None]
        x *= self.weight
        x += self.bias
        return x


@dataclass(frozen=True)
class _Layer:
    """One layer; `query_key_value` yields all three, the query scaled by 1 / sqrt(head size)."""

    query_key_value: _Linear
    attended: _Linear
    attended_norm: _Norm
    wide: _Linear
    narrow: _Linear
    narrow_norm: _Norm


def _mean(x: Vectors, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Vectors:
    sums: Vectors = np.add.reduceat(x, starts)
    sums /= lengths[:, None].astype(np.float32)
    return sums


def _first(x: Vectors, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Vectors:
    return x[starts]


def _gelu(x: Vectors) -> Vectors:
    """GELU in place: max(x, 0) - |x| / 2 * erfc(|x| / sqrt 2)."""
    size = np.abs(x)
    t = size * (_ERFC_P / np.float32(np.sqrt(2)))
    t += np.float32(1)
    np.reciprocal(t, out=t)
    erfc = t * _ERFC_A[0]
    for a in _ERFC_A[1:]:
        erfc += a
        erfc *= t
    np.multiply(x, x, out=t)
    t *= np.float32(-0.5)
    erfc *= np.exp(t, out=t)
    size *= np.float32(0.5)
    erfc *= size
    np.maximum(x, 0, out=x)
    x -= erfc
    return x
