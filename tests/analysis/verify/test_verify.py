"""`harness verify` reports whatever was altered in a folder.

That it accepts honest folders is tested in tests/scoring/test_reference.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from edited_scores import edit_scores, result

from harness.analysis.verify.render import lines
from harness.analysis.verify.verify import Verification, verify
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.io.checksums import read_sums, rewrite_with_checksums, write_sums
from harness.io.files import read_json
from harness.io.records import read_json_record
from harness.records.scores import ScoreReport
from harness.runs.folder.run_folder import write_scores
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

Runs = Callable[..., Path]


@pytest.fixture
def folder(sample_run: Runs, tmp_path: Path) -> Path:
    """A scored run that may be altered."""
    return Path(shutil.copytree(sample_run("bm25", k=20, limit=40), tmp_path / "run"))


def forge(folder: Path, edit: Callable[[Any], object]) -> Verification:
    """Verifies a folder whose scores were edited, with checksums that fit."""
    edit_scores(folder, edit)
    path = folder / "scores.json"
    rewrite_with_checksums(path, read_json_record(path, ScoreReport))
    return verify(folder)


def shown(verdict: Verification) -> str:
    return "\n".join(lines(verdict))


def cell(scores: Any, metric: str = "recall@10", slice_: str = "all") -> Any:
    return scores["protocols"][0]["slices"][slice_]["metrics"][metric]


def failed(verdict: Verification) -> list[str]:
    """The checks that failed."""
    return [check.what for check in verdict.checks if check.ok is False]


def different(verdict: Verification) -> set[str]:
    return {one.what for one in verdict.differences}


def queries(verdict: Verification) -> set[str]:
    return {query for one in verdict.differences for query, _, _ in one.queries}


def test_a_mean_that_is_off_in_the_fifth_digit_is_shown_with_both_values(folder: Path) -> None:
    before = result(folder).value
    assert before is not None
    verdict = forge(folder, lambda scores: cell(scores).update(value=before + 2e-5))
    (one,) = verdict.differences
    assert (one.what, one.slice, one.published) == ("recall@10", "all", before + 2e-5)
    assert one.recomputed == pytest.approx(before, abs=1e-12)
    assert failed(verdict) == ["consistency"]  # with scores.parquet
    assert f"recall@10 (all) is published as {before + 2e-5:.6f}, recomputed as" in shown(verdict)


def test_scores_that_were_edited_without_their_checksums_are_reported(folder: Path) -> None:
    edit_scores(folder, lambda scores: cell(scores, slice_="temporal").update(value=0.123))
    verdict = verify(folder)
    assert failed(verdict) == ["checksums", "consistency"]
    assert [(one.what, one.slice) for one in verdict.differences] == [("recall@10", "temporal")]


def test_every_kind_of_number_is_compared(folder: Path) -> None:
    def edit(scores: Any) -> None:
        ten = cell(scores)
        ten.update(n=80, random_baseline=0.01, upper_bound=0.9)
        for protocol in scores["protocols"]:
            for one in protocol["slices"]["all"]["metrics"].values():
                if "ties" in one:
                    one["ties"] = [0.123, 0.5, 0.987]
        ten["macro_haystack"].update(value=0.9)
        ten["macro_haystack"]["interval"].update(high=0.95)
        ten["interval"].update(clusters=65, low=ten["interval"]["low"] + 1e-6)
        scores["knowledge_update"]["values"].update({"update_recall@5": 1.0})
        scores["abstention"]["confidence"].update(auroc=0.9)
        scores["queries"].update(asked=41, failed=1)
        scores["returned"].update(shorter=1)
        scores["protocols"][0]["excluded"].update({"without relevant documents": 1})
        scores["protocols"][0]["slices"].pop("temporal")
        scores["protocols"][1]["slices"]["all"]["metrics"]["hit@5"].update(upper_bound=0.9)

    found = different(forge(folder, edit))
    assert {one.partition(" ")[0] for one in found} >= {"ties.0", "ties.2"}
    assert found >= {
        "n of recall@10",
        "random_baseline of recall@10",
        "upper_bound of recall@10",
        "macro_haystack.value of recall@10",
        "macro_haystack.interval.high of recall@10",
        "interval.clusters of recall@10",
        "interval.low of recall@10",
        "values.update_recall@5",
        "confidence.auroc",
        "asked",
        "failed",
        "shorter",
        "excluded, without relevant documents",
        "hit@10",
        "upper_bound of hit@5",
    }


def test_two_documents_exchanged_in_rankings_are_reported_by_query(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet", filters=[("protocol", "=", "memory")])
    first = dict(zip(*(table[c].to_pylist() for c in ("query", "hit@1")), strict=True))
    query = next(q for q, hit in first.items() if hit == 1.0)
    rankings = pq.read_table(folder / "rankings.parquet")
    documents = rankings["document"].to_pylist()
    at = rankings["query"].to_pylist().index(query)
    documents[at], documents[at + 9] = documents[at + 9], documents[at]
    column = rankings.column_names.index("document")
    altered = rankings.set_column(column, "document", pa.array(documents))
    pq.write_table(altered, folder / "rankings.parquet")
    verdict = verify(folder)
    assert failed(verdict) == ["checksums", "rankings.trec"]
    assert "hit@1" in different(verdict)
    assert queries(verdict) == {query}
    assert f"{query}: 1.0000 in scores.parquet, recomputed 0.0000" in shown(verdict)


def test_scores_of_other_rankings_are_reported(folder: Path, sample_run: Runs) -> None:
    for name in ("scores.json", "scores.parquet", "excluded.json"):
        shutil.copy(sample_run("tfidf", k=20, limit=40) / name, folder / name)
    verdict = verify(folder)
    assert failed(verdict) == ["checksums"]
    assert "recall@10" in different(verdict)


def test_means_and_values_altered_to_fit_each_other_are_reported(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    at = table.column_names.index("recall@10")
    better = pa.compute.if_else(pa.compute.is_valid(table["recall@10"]), 1.0, None)
    pq.write_table(table.set_column(at, "recall@10", better), folder / "scores.parquet")

    def edit(scores: Any) -> None:
        for block in scores["protocols"]:
            for part in block["slices"].values():
                part["metrics"].get("recall@10", {}).update(value=1.0)

    edit_scores(folder, edit)
    write_scores(folder, read_json_record(folder / "scores.json", ScoreReport))
    verdict = verify(folder)
    assert failed(verdict) == ["consistency"]  # the means are outside their intervals
    assert different(verdict) == {"recall@10"}
    assert {one.slice for one in verdict.differences} >= {"all", "temporal", "by query"}


@pytest.mark.slow
def test_a_judgement_that_was_altered_is_reported(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    made = run(dataset, "bm25", Settings(k=20, limit=30), out=tmp_path)
    score_run(made, dataset)
    asked = set(pq.read_table(made / "queries.parquet")["query"].to_pylist())
    path = dataset.folder / "qrels.arrow"
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    names = [dataset.query_ids[i] for i in table["query"].to_pylist()]
    at = next(i for i, name in enumerate(names) if name in asked)
    documents = table["document"].to_pylist()
    documents[at] = documents[at] + 1
    ids = table["document_id"].to_pylist()
    ids[at] = dataset.documents[documents[at]].id
    for name, values in (("document", documents), ("document_id", ids)):
        column = table.column_names.index(name)
        field = table.schema.field(name)
        table = table.set_column(column, field, pa.array(values, field.type))
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
    # A forger would alter the checksums too.
    heads = {name: of for name, (of, _) in read_sums(dataset.folder).items()}
    heads[path.name] = np.array([[0, path.stat().st_size]])
    write_sums(dataset.folder, heads)
    dataset.manifest.write(dataset.folder)
    verdict = verify(made)
    assert failed(verdict) == ["dataset"]
    assert names[at] in queries(verdict) or "upper_bound of recall@10" in different(verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("signatures", lambda s: s["protocols"][0].update(signature="{metric}|depth:1")),
        ("signatures", lambda s: s.update(depth=99)),
        ("dataset", lambda s: s["dataset"].update(fingerprint="0" * 64)),
    ],
)
def test_files_that_do_not_belong_together_are_reported(
    folder: Path, what: str, edit: Callable[[Any], None]
) -> None:
    assert what in failed(forge(folder, edit))


def test_numbers_that_are_not_recomputed_are_named(folder: Path) -> None:
    def edit(scores: Any) -> None:
        scores["protocols"].append({**scores["protocols"][0], "protocol": "mine"})
        cells = scores["protocols"][0]["slices"]["all"]["metrics"]
        cells["goodness@10"] = {**cells["recall@10"], "value": 1.0}

    verdict = forge(folder, edit)
    assert verdict.not_recomputed["recall@10 of mine/1"] > 0
    assert verdict.not_recomputed["goodness@10 of memory/1"] > 1
    n = verdict.numbers - verdict.recomputed
    assert f": {verdict.recomputed:,} numbers recomputed, {n:,} not" in shown(verdict)


@pytest.mark.slow
def test_means_of_an_unknown_metric_are_compared_with_the_values_of_the_queries(
    folder: Path,
) -> None:
    table = pq.read_table(folder / "scores.parquet")
    pq.write_table(table.append_column("good@10", table["hit@10"]), folder / "scores.parquet")

    def edit(scores: Any) -> None:
        for part in scores["protocols"][0]["slices"].values():
            part["metrics"]["good@10"] = dict(part["metrics"]["hit@10"])
            part["metrics"]["good@10"].pop("answered_only", None)

    edit_scores(folder, edit)
    verdict = verify(folder)
    assert verdict.differences == []
    assert verdict.from_table > 10
    edit_scores(folder, lambda scores: cell(scores, "good@10").update(value=0.123))
    assert different(verify(folder)) == {"good@10"}


@pytest.mark.slow
def test_a_submission_by_hand_is_verified_if_it_claims_scores(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("rankings.trec", "scores.json", "queries.parquet"):
        shutil.copy(folder / name, theirs / name)
    about = {
        "system": "theirs",
        "dataset": "sample",
        "granularity": "turn",
        "fingerprint": read_json(folder / "run.json")["dataset"]["fingerprint"][:12],
        "k": 20,
    }
    (theirs / "run.json").write_bytes(orjson.dumps(about))
    assert verify(theirs).agrees, shown(verify(theirs))
    assert "checks not made: 2" in shown(verify(theirs))
    edit_scores(theirs, lambda scores: cell(scores).update(value=0.99))
    assert different(verify(theirs)) == {"recall@10"}


# -- wrong use, and the exit status ----------------------------------------------------------------


@pytest.mark.slow
def test_the_exit_status_says_whether_all_agrees(folder: Path, harness: Callable[..., Any]) -> None:
    assert harness("verify", folder).status == 0
    assert harness("verify", folder, "--quiet").out == ""
    edit_scores(folder, lambda scores: cell(scores).update(value=0.5))
    said = harness("verify", folder, "--json")
    found = orjson.loads(said.out)
    assert (said.status, found["agrees"]) == (1, False)
    assert found["differences"][0]["what"] == "recall@10"
    assert harness("verify", folder / "none").status == 2


def test_folders_that_cannot_be_verified_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, match in (
        ("rankings.*", "holds no rankings"),
        ("scores.json", "no number to verify"),
        ("run.json", "has no run.json"),
    ):
        broken = Path(shutil.copytree(folder, tmp_path / f"without {name[:6]}"))
        for path in broken.glob(name):
            path.unlink()
        with pytest.raises(UsageError, match=match):
            verify(broken)
    queries = (folder / "queries.parquet").read_bytes()
    (folder / "queries.parquet").write_bytes(b"no table")
    with pytest.raises(UsageError, match="cannot be read"):
        verify(folder)
    (folder / "queries.parquet").write_bytes(queries)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pytrec_eval", None)
        with pytest.raises(UsageError, match=r"needs pytrec_eval: pip install .*verify"):
            verify(folder)
    edit_scores(folder, lambda scores: scores["protocols"].clear())
    with pytest.raises(UsageError, match="publishes no mean"):
        verify(folder)
    (folder / "scores.json").write_text('{"version": 1, "protocols": [{}]}')
    with pytest.raises(UsageError, match="is missing; `harness score"):
        verify(folder)
    with pytest.raises(UsageError, match="no such folder"):
        verify(tmp_path / "nowhere")


@pytest.mark.slow
def test_the_scorer_is_not_loaded_while_numbers_are_verified(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.analysis.verify.verify import verify\n"
        f"assert verify(Path({str(folder)!r})).agrees\n"
        "print([name for name in sys.modules if name.startswith(('harness.scoring', "
        "'harness.stats', 'harness.runs', 'harness.analysis.board'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    folder_modules = ("consistency", "run_state", "run_folder")
    ours = [
        "harness.runs",
        "harness.runs.folder",
        *(f"harness.runs.folder.{one}" for one in folder_modules),
    ]
    assert done.stdout.strip() == str(ours), done.stdout + done.stderr
