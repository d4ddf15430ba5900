"""What stands around an encoder: tokens before it, batches, and pooling behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.files import read_json
from harness.retrievers.embeddings import Vectors
from harness.retrievers.models import Model

TOKENS_A_BATCH = 512

Pool = Callable[[Vectors, npt.NDArray[np.int64], npt.NDArray[np.int64]], Vectors]
"""From the tokens' vectors, with where each text starts and its length, to one vector a text."""


def _mean(x: Vectors, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Vectors:
    sums: Vectors = np.add.reduceat(x, starts)
    sums /= lengths[:, None].astype(np.float32)
    return sums


def _first(x: Vectors, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Vectors:
    return x[starts]


def head(model: Model) -> tuple[Pool, bool]:
    """Pooling, and whether vectors are scaled to length 1, by the model's own modules.

    Raises UsageError for modules that are not known here.
    """
    path = model.folder / "modules.json"
    modules = read_json(path) if path.is_file() else []
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in ([], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UsageError(
            f"{model.name}: this encoder does not know its modules ({', '.join(kinds)}); use "
            "--retriever dense"
        )
    config = model.config(f"{modules[1]['path']}/config.json") if modules else {}
    # Newer configurations name the ways, older ones have a flag a way; without any it is the mean.
    ways = config.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for name, on in config.items()
        if name.startswith("pooling_mode_") and on
    ]
    way = ways if isinstance(ways, str) else "+".join(ways) or "mean"
    known: dict[str, Pool] = {"mean": _mean, "cls": _first}
    if way not in known or not config.get("include_prompt", True):
        raise UsageError(
            f"{model.name}: this encoder pools by mean or cls over prompt and text, not by "
            f"{config}; use --retriever dense"
        )
    return known[way], "Normalize" in kinds


def batches(lengths: list[int]) -> Iterator[list[int]]:
    """Texts in the order of their length, longest first, in batches of about as many tokens."""
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
    """One of the model's files. Raises UsageError where it has none."""
    path = model.folder / name
    if not path.is_file():
        raise UsageError(f"{path}: not there, and this encoder reads nothing else")
    return path


def tokenizer(model: Model) -> Any:
    """The model's tokenizer, which cuts texts at the model's own length."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(model_file(model, "tokenizer.json")))
    found.no_padding()
    longest = model.config("sentence_bert_config.json").get("max_seq_length")
    found.enable_truncation(int(longest or model.config("config.json")["max_position_embeddings"]))
    return found
