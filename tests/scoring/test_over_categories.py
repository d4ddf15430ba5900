"""Where a publisher's number is the mean of its subsets' means, that mean stands beside ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from mteb_files import Row, write
from reference.verify import verify

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.io.files import read_json
from harness.records.scores import MacroMean
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run


@pytest.fixture
def dataset(tmp_path: Path, home: Path) -> Dataset:
    """Three questions of one subset, one of another, and the answers of two are not to be found."""
    tables: dict[str, list[Row]] = {}
    for subset, words in (("drinks", ["tea", "milk", "whey"]), ("bread", ["rye"])):
        tables[f"{subset}-corpus"] = [
            {"id": f"{word}{i}", "title": "", "text": f"{word} {'and more ' * i}"}
            for word in words
            for i in range(3)
        ]
        tables[f"{subset}-queries"] = [{"id": word, "text": f"{word}?"} for word in words]
        tables[f"{subset}-qrels"] = [
            {"query-id": w, "corpus-id": f"{w}{2 if w == 'tea' else 0}", "score": 1} for w in words
        ]
    return open_dataset("mteb/mine", source=write(tmp_path / "r", tables))


def test_each_category_counts_once_and_the_witness_says_the_same(
    dataset: Dataset, tmp_path: Path
) -> None:
    folder = run(dataset, "bm25", out=tmp_path)
    scores = score_run(folder, dataset)
    assert scores.protocols == ["memory", "trec"]
    for protocol in scores.protocols:
        each = [scores["mrr@1", f"category:{name}", protocol] for name in ("drinks", "bread")]
        assert each == [pytest.approx(2 / 3), 1]
        cell = scores.result("mrr@1", "all", protocol)
        assert cell.value == pytest.approx(3 / 4)
        assert cell.macro_category == MacroMean(value=np.mean(each), groups=2)
    assert scores.result("mrr@1", "category:drinks").macro_category is None
    assert verify(folder).agrees
    scores_json = read_json(folder / "scores.json")
    for mean in scores_json["protocols"][0]["slices"]["all"]["macro_category"]:
        mean["value"] = 0.9
    (folder / "scores.json").write_bytes(orjson.dumps(scores_json))
    told = {(one.what, one.slice) for one in verify(folder).differences}
    assert ("macro_category.value of mrr@1", "all") in told


def test_categories_that_are_no_subsets_have_no_such_mean(tmp_path: Path, home: Path) -> None:
    dataset = open_dataset("sample")
    scores = score_run(run(dataset, "bm25", out=tmp_path), dataset)
    assert scores.result("recall@10").macro_category is None
