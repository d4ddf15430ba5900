"""A BERT of a few hundred random weights, with all the files that a published model has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH, LAYERS, LENGTH = 16, 2, 12
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", *(f"##{c}" for c in "abcdefghij")]


def write(folder: Path, pooling: str = "mean", normalise: bool = True, **config: Any) -> Path:
    """Write the model's files; `config` goes over BERT's configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    save_file(_weights(), folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer().save(str(folder / "tokenizer.json"))
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["BertModel"],
            "hidden_act": "gelu",
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": LENGTH,
            "model_type": "bert",
            "num_attention_heads": 4,
            "num_hidden_layers": LAYERS,
            "pad_token_id": 0,
            "type_vocab_size": 2,
            "vocab_size": len(WORDS),
            **config,
        },
        "sentence_bert_config.json": {"max_seq_length": LENGTH, "do_lower_case": False},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": True},
        "modules.json": [
            {"idx": i, "name": str(i), "path": p, "type": f"sentence_transformers.models.{kind}"}
            for i, (p, kind) in enumerate(kinds[: 3 if normalise else 2])
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": WIDTH,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": pooling == "max",
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def _tokenizer() -> Tokenizer:
    words = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_padding(length=LENGTH)  # as published models have it; it must not count
    return tokenizer


def _weights() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    weights: dict[str, np.ndarray[Any, Any]] = {}

    def linear(name: str, inner: int, outer: int) -> None:
        weights[f"{name}.weight"] = rng.normal(0, 0.4, (outer, inner)).astype("f4")
        weights[f"{name}.bias"] = rng.normal(0, 0.2, outer).astype("f4")

    def norm(name: str) -> None:
        weights[f"{name}.weight"] = rng.normal(1, 0.2, WIDTH).astype("f4")
        weights[f"{name}.bias"] = rng.normal(0, 0.2, WIDTH).astype("f4")

    for name, rows in (("word", len(WORDS)), ("position", LENGTH), ("token_type", 2)):
        weights[f"embeddings.{name}_embeddings.weight"] = rng.normal(size=(rows, WIDTH)).astype(
            "f4"
        )
    norm("embeddings.LayerNorm")
    for at in (f"encoder.layer.{i}" for i in range(LAYERS)):
        for part in ("query", "key", "value"):
            linear(f"{at}.attention.self.{part}", WIDTH, WIDTH)
        linear(f"{at}.attention.output.dense", WIDTH, WIDTH)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense", WIDTH, 2 * WIDTH)
        linear(f"{at}.output.dense", 2 * WIDTH, WIDTH)
        norm(f"{at}.output.LayerNorm")
    linear("pooler.dense", WIDTH, WIDTH)
    return weights
