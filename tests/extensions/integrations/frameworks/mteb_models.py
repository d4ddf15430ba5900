"""Models of mteb that need nothing to be downloaded, as somebody would write them."""

from __future__ import annotations

from typing import Any

import mteb
import numpy as np
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder


class Letters(AbsEncoder):
    """Counts letters."""

    def __init__(self, of: str = "abcdefghijklmnopqrstuvwxyz") -> None:
        self.of = of
        self.encoded = 0
        self.mteb_model_meta = ModelMeta.create_empty({"name": "mine/letters", "revision": "1"})

    def encode(self, inputs: Any, **about: Any) -> Any:
        texts = [text for batch in inputs for text in batch["text"]]
        self.encoded += len(texts)
        return np.array([[t.lower().count(c) for c in self.of] for t in texts], np.float32)


class Shared:
    """A cross-encoder: how many words two texts share."""

    mteb_model_meta = ModelMeta.create_empty({"name": "mine/shared", "revision": "1"})

    def predict(self, inputs1: Any, inputs2: Any, **about: Any) -> list[float]:
        asked, texts = ([t for b in inputs for t in b["text"]] for inputs in (inputs1, inputs2))
        words = [
            ({*a.lower().split()}, {*t.lower().split()}) for a, t in zip(asked, texts, strict=True)
        ]
        return [float(len(a & t)) for a, t in words]

    similarity = similarity_pairwise = None


letters = Letters()


def baseline() -> Any:
    return mteb.get_model("mteb/baseline-bm25s")
