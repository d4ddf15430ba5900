"""A sweep chooses on one part of the questions and reports on another, or says that it did not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import orjson
import pytest

from harness.__main__ import main
from harness.analysis.sweep import Part, Sweep, development, grid, sweep
from harness.cli.sweep import _could_show
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.metrics import Metric
from harness.stats.paired import compare_paired

HYBRID = RetrieverSpec("hybrid", {"retrievers": "bm25,tfidf"})
RECALL = Metric.parse("recall@5")


def swept(out: Path, settings: list[dict[str, object]], part: Part, **options: int) -> Sweep:
    spec = HYBRID if "k0" in settings[0] else RetrieverSpec("bm25")
    dataset = open_dataset("sample")
    return sweep(dataset, spec, settings, RECALL, part, Settings(k=20, **options), out=out)


def test_questions_to_one_haystack_stay_on_one_side(home: Path, data: Path) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    chosen = development(dataset, 0.5, seed=3)
    ours, theirs = (set(dataset.query_haystack[side].tolist()) for side in (chosen, ~chosen))
    assert (len(ours), len(theirs), ours & theirs) == (5, 5, set())
    assert (development(dataset, 0.5, seed=3) == chosen).all()
    with pytest.raises(UsageError, match="leaves one part empty"):
        development(dataset, 0.01, seed=3)


@pytest.mark.slow
def test_the_best_on_the_development_part_is_reported_on_the_rest(
    home: Path, tmp_path: Path
) -> None:
    settings = grid(["k1=0.6,1.2", "b=0.2,0.75"])
    found = swept(tmp_path, settings, Part(share=0.5))
    dataset = open_dataset("sample")
    dev = development(dataset, 0.5, seed=0)
    means = []
    for setting in settings:
        folder = run(dataset, RetrieverSpec("bm25", setting), Settings(k=20), out=tmp_path / "own")
        table = score_run(folder, dataset).per_query.to_pylist()
        mine = [r for r in table if (r["protocol"], r["level"]) == ("memory", "turn")]
        values = np.array([r["recall@5"] for r in mine], float)
        means.append((np.nanmean(values[dev]), np.nanmean(values[~dev])))
    assert [t.development.value for t in found.tried] == pytest.approx([a for a, _ in means])
    (chosen,) = found.chosen
    assert chosen.place == int(np.argmax([a for a, _ in means]))
    assert chosen.held_out is not None
    assert chosen.held_out.value == pytest.approx(means[chosen.place][1])
    assert chosen.against is not None
    assert chosen.difference is not None
    difference = means[chosen.place][1] - means[chosen.against][1]
    assert chosen.difference.difference.value == pytest.approx(difference)
    assert chosen.against == 0 or chosen.place == 0
    assert not found.tuned_on_test


def test_another_split_can_be_the_development_part(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "scifact"
    (source / "qrels").mkdir(parents=True)
    lines = [orjson.dumps({"_id": f"d{i}", "text": f"claim{i} of paper{i % 7}"}) for i in range(30)]
    (source / "corpus.jsonl").write_bytes(b"\n".join(lines))
    lines = [orjson.dumps({"_id": f"q{i}", "text": f"is claim{i} so?"}) for i in range(30)]
    (source / "queries.jsonl").write_bytes(b"\n".join(lines))
    for split, rows in (("train", range(20)), ("test", range(20, 30))):
        judged = "".join(f"q{i}\td{i}\t1\n" for i in rows)
        (source / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    command = ["sweep", "--dataset", "beir/scifact", "--source", str(source), "--retriever", "bm25"]
    command += ["--setting", "k1=0.9 b=0.4", "--setting", "k1=1.2", "--metric", "ndcg@10"]
    assert main([*command, "--dev", "train", "--out", str(tmp_path), "--json", "--k", "20"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert [t["development"]["n"] for t in found["tried"]] == [20, 20]
    assert found["chosen"][0]["held_out"]["n"] == 10
    assert main([*command, "--dev", "test", "--out", str(tmp_path)]) == 2
    assert "is the split that is reported on" in capsys.readouterr().err


@pytest.mark.slow
def test_choosing_on_the_test_is_said_loudly(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "--dataset", "sample", "--retriever", "bm25", "--grid", "k1=0.9,1.2"]
    assert main([*command, "--tune-on-test", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "TUNED ON THE TEST: the best of 2 settings" in said
    assert "held out" not in said


@pytest.mark.slow
def test_what_does_not_touch_the_index_is_tried_on_one_index(
    home: Path, sample: Dataset, tmp_path: Path
) -> None:
    kept = swept(tmp_path / "kept", grid(["k0=1,60", "depth=20,50"]), Part(share=0.5))
    assert kept.indexed == len(sample.haystack_ids)  # not haystacks x settings
    alone = [
        run(
            open_dataset("sample"),
            RetrieverSpec("hybrid", {**HYBRID.params, **tried.setting}),
            Settings(k=20),
            out=tmp_path / "alone",
        )
        for tried in kept.tried
    ]
    for tried, folder in zip(kept.tried, alone, strict=True):
        same = (tried.folder / "rankings.parquet").read_bytes()
        assert same == (folder / "rankings.parquet").read_bytes()
    assert len({tried.folder for tried in kept.tried}) == 4


@pytest.mark.slow
def test_cut_offs_are_metrics_of_their_own_and_cost_one_run(home: Path, tmp_path: Path) -> None:
    found = swept(tmp_path, grid(["k1=0.6,1.2", "k=1,5,10"]), Part())
    assert [tried.metric for tried in found.tried[:3]] == ["recall@1", "recall@5", "recall@10"]
    assert len(found.chosen) == 3
    assert len({tried.folder for tried in found.tried}) == 2


@pytest.mark.parametrize(
    ("axes", "said"),
    [(["k1"], "takes name=value"), (["k1=1", "k1=2"], "twice"), (["k=0,5"], "whole number of 1")],
)
def test_what_is_no_setting_is_refused(
    axes: list[str], said: str, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        swept(tmp_path, grid(axes), Part())


def test_settings_are_read_as_they_are_typed() -> None:
    assert grid(["a=1,0.5", "b=x,true"]) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": True},
        {"a": 0.5, "b": "x"},
        {"a": 0.5, "b": True},
    ]
    assert grid(["w=[[1,2],[2,1]]"]) == [{"w": [1, 2]}, {"w": [2, 1]}]


def test_a_difference_that_no_metric_can_have_is_not_said_to_be_detectable() -> None:
    clusters = np.repeat(["a", "b"], 10)
    a = np.ones(20)
    for b, said in (
        (np.repeat([0.75, 0.55], 10), "nothing could have been shown (least p 0.0818)"),
        (np.repeat([0.75, 0.74], 10), "could have shown 0.0817 at 80% power"),
        (a / 2, "all differ alike"),
        (a, "the same in both"),
    ):
        assert _could_show(compare_paired(a, b, clusters)[0]) == said


def test_few_haystacks_held_out_are_tested_by_t_and_what_they_could_show_is_said(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "--dataset", "sample", "--retriever", "bm25", "--grid", "k1=0.3,2"]
    assert main([*command, "--dev-share", "0.75", "--k", "20", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "over 3 haystacks (approximate: only 3 haystacks)" in said
    assert re.search(r"p 0\.\d{4}; could have shown 0\.\d{4} at 80% power", said)
