"""`harness verify` counts leaks itself, and the precision and recall of PrecisionMemBench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from edited_scores import edit_scores
from small import prepared

from harness.analysis.verify.render import lines
from harness.analysis.verify.verify import Verification, verify
from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Question, Result
from harness.runs.folder.score_folder import rescore, score_run
from harness.runs.run import run
from harness.runs.settings import Settings

USERS = ("ada", "bo", "team", None)


class Failing(BM25):
    """Fails at the questions of a user."""

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        if any("fail" in query.text for query in queries):
            raise RuntimeError("no answer to that")
        return super().search(queries, k)


@pytest.fixture(params=[False, True])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Dataset:
    """Two haystacks of two users and a team; a query may have the id of a document."""

    def fill(out: DatasetWriter) -> None:
        for n in (1, 2):
            for i in range(12):
                id_ = f"{n}-{i}"
                out.document(id_, f"note number {i} of {i % 5}", user_id=USERS[i % 4])
            out.haystack(f"h{n}", range(12 * (n - 1), 12 * n))
            for i in range(6):
                user = (None, "ada", "bo")[i % 3]
                groups = ["team"] if i == 1 else []
                text = f"note {i} fail" if i == 5 else f"note {i}"
                out.query(f"{n}-{i}", text, f"h{n}", user_id=user, groups=groups)
                out.qrel(f"{n}-{i}", f"{n}-{i + 4}")
                out.qrel(f"{n}-{i}", f"{n}-{i + 5}")

    return prepared(tmp_path / "data", fill, exclude_self=request.param)


@pytest.fixture
def folder(shared: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("harness.analysis.verify.verify._dataset", lambda *_: shared)
    made = run(shared, Failing(), Settings(k=8, batch_size=1), out=tmp_path / "results")
    score_run(made, shared)
    return made


def scope_numbers(verdict: Verification) -> tuple[int, list[str]]:
    """The compared values of queries, and what was not recomputed."""
    left = [kind for kind in verdict.not_recomputed if "scope" in kind]
    return verdict.values["scope/1, turn"], left


@pytest.mark.slow
def test_leaks_are_counted_from_the_rankings(folder: Path) -> None:
    verdict = verify(folder, rescore=rescore)
    assert verdict.agrees, "\n".join(lines(verdict, quiet=True))
    values, left = scope_numbers(verdict)
    assert values > 0
    assert left == []
    assert verdict.from_table == 0


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["leak_rate@5", "query_leak_rate@5", "recall_in_scope@5"])
def test_another_leak_rate_is_rejected(folder: Path, metric: str) -> None:
    def edit(scores: Any) -> None:
        (scope,) = [one for one in scores["protocols"] if one["protocol"] == "scope"]
        scope["slices"]["all"]["metrics"][metric]["value"] += 0.01

    edit_scores(folder, edit)
    found = verify(folder).differences
    assert [(one.section, one.what) for one in found] == [("scope/1, turn", metric)]
