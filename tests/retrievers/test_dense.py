"""Dense retrieval and cross-encoders on torch, with the real libraries and no download."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_bert
from notes import ask, corpus
from polling import HANGS

from harness.extensions.dense.bert import Bert
from harness.extensions.dense.dense import Dense
from harness.extensions.dense.minilm import PACKAGED, LightEncoder
from harness.extensions.dense.models import locate
from harness.extensions.dense.rerank import Rerank

pytestmark = [pytest.mark.dense, pytest.mark.usefixtures("home")]

TEXTS = ["ab cd", "", "j", "abc defgh ij abc defgh ij abc", "x é unknown", "a b c d e f g h i j"]
NOTES = ["ab cd", "abc", "j i h", "a a a", "bcd fg"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalise", [True, False])
def test_the_numpy_encoder_is_sentence_transformers(
    tmp_path: Path, pooling: str, normalise: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = tiny_bert.write(tmp_path / "model", pooling, normalise)
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert Bert(locate(str(folder)))(TEXTS) == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("weights")
def test_minilm_has_the_vectors_of_dense_and_ranks_alike() -> None:
    notes = ["A boat left the harbour.", "She drinks green tea.", "word " * 400, "", "東京 é"]
    dense = Dense(PACKAGED, device="cpu", batch_size=2)
    dense.index(corpus(notes))
    vectors = LightEncoder(PACKAGED)([*notes, "Which ship sailed?"], "")
    found = ask(dense, "Which ship sailed?")
    expected = vectors[:5] @ vectors[5]
    assert list(found.ids) == np.argsort(-expected).tolist()
    assert found.scores == pytest.approx(np.sort(expected)[::-1], abs=1e-5)


def test_prompts_are_the_models_own_unless_given(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = tiny_bert.write(tmp_path / "model", normalise=False)
    prompts = {"query": "ab ", "passage": "j "}
    config = {"prompts": prompts, "default_prompt_name": "query", "similarity_fn_name": "dot"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    model = SentenceTransformer(str(folder), device="cpu")
    for given, query, passage in (
        ({}, "ab ", "j "),
        ({"query_prompt": "", "passage_prompt": "c "}, "", "c "),
    ):
        dense = Dense(str(folder), similarity="dot", **given)
        dense.index(corpus(NOTES))
        found = ask(dense, "cd")
        asked = model.encode(f"{query}cd", prompt="")
        expected = model.encode([passage + note for note in NOTES], prompt="") @ asked
        assert found.scores == pytest.approx(np.sort(expected)[::-1], rel=1e-4)


def test_a_second_run_embeds_nothing_and_does_not_even_load_torch(tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path / "model")
    runs = [_run(tmp_path / name, f"model={folder}") for name in ("first", "again")]
    assert [run["torch"] for run in runs] == [True, False]
    first, again = (run["reported"][0] for run in runs)
    assert first["texts_embedded"] == first["texts_asked"] == again["texts_asked"] > 300
    assert again["texts_embedded"] == 0


def test_a_cross_encoder_ranks_candidates_by_its_own_numbers(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    folder = tiny_bert.write(tmp_path / "model", num_labels=1)
    _make_cross_encoder(folder)
    reranked = Rerank({"name": "minilm", "params": {"model": str(folder)}}, str(folder))
    reranked.index(corpus(NOTES))
    found = ask(reranked, "ab")
    pairs = [("ab", note) for note in NOTES]
    expected = CrossEncoder(str(folder), device="cpu").predict(pairs, activation_fn=Identity())
    assert len(set(expected.tolist())) > 1
    assert found.scores == pytest.approx(np.sort(expected)[::-1], rel=1e-5)
    assert list(found.ids) == np.argsort(-expected, kind="stable").tolist()
    assert reranked.report()["pairs"] == len(NOTES)


def _make_cross_encoder(folder: Path) -> None:
    """Put a random classifier of one number on top of the tiny model."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(3)
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=1)
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(folder)


def _run(out: Path, *params: str) -> dict[str, Any]:
    """A dense run over the sample in a process of its own; says too whether torch was loaded."""
    arguments = ["run", "--dataset", "sample", "--retriever", "dense", "--out", str(out), "--json"]
    arguments += [part for param in params for part in ("--param", param)]
    code = (
        "import sys; from harness.__main__ import main; status = main(sys.argv[1:]);"
        "print('torch' in sys.modules); sys.exit(status)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    said, torch = done.stdout.strip().splitlines()
    run: dict[str, Any] = json.loads(said)["run"]
    return run | {"torch": torch == "True"}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_an_onnx_file_gives_the_vectors_of_the_same_model(tmp_path: Path, pooling: str) -> None:
    import torch
    from transformers import BertModel

    folder = tiny_bert.write(tmp_path / "model", pooling)
    (folder / "onnx").mkdir()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
            found = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
            return found.last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
    torch.onnx.export(
        Hidden(),
        (ids, (ids > 0).long(), torch.zeros_like(ids)),
        str(folder / "onnx" / "model.onnx"),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in [*names, "last_hidden_state"]},
        dynamo=False,
    )
    expected = LightEncoder(str(folder))(TEXTS, "")
    by_onnx = LightEncoder(str(folder), runtime="onnx")
    assert by_onnx(TEXTS, "") == pytest.approx(expected, abs=1e-5)
    assert by_onnx.revision.endswith("-ort")
