"""An honest folder is verified, and whatever was altered in one is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from edited_scores import edit_scores, result

from harness.checksums import read_sums, write_sums
from harness.dataset.prepare import open_dataset
from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import read_json
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.scored import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.metrics import parse_metrics
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties
from harness.verdicts.verify.render import lines
from harness.verdicts.verify.verify import Verdict, verify

Runs = Callable[..., Path]
OURS = "plain Python"
THEIRS = "pytrec_eval"


@pytest.fixture
def folder(sample_run: Runs, tmp_path: Path) -> Path:
    """A scored run that may be altered."""
    return Path(shutil.copytree(sample_run("bm25", k=20, limit=40), tmp_path / "run"))


def shown(verdict: Verdict) -> str:
    return "\n".join(lines(verdict))


def assert_honest(verdict: Verdict) -> None:
    assert verdict.agrees, shown(verdict)
    assert verdict.means[0] == verdict.means[1] > 0, shown(verdict)
    assert min(line.digits for line in verdict.lines) >= 12, shown(verdict)


def witnesses(verdict: Verdict) -> set[tuple[str, str, str]]:
    """Protocol, unit and the first word of the witness's name, of what is about values."""
    return {
        (line.protocol, line.unit, line.by.split()[0] if THEIRS in line.by else line.by)
        for line in verdict.lines
        if not line.levels
    }


# -- honest runs -----------------------------------------------------------------------------------


def test_every_mean_of_an_honest_run_is_recomputed_and_what_is_not_is_named(folder: Path) -> None:
    verdict = verify(folder)
    assert_honest(verdict)
    assert witnesses(verdict) == {
        ("memory/1", "turn", OURS),
        ("memory/1", "turn", THEIRS),
        ("memory/1", "turn>session", OURS),
        ("trec/1", "turn", OURS),
        ("trec/1", "turn", THEIRS),
        ("knowledge-update/1", "turn", OURS),
        ("abstention/1", "turn", OURS),
        ("tokens/1", "turn", OURS),
        ("counts", "turn", OURS),
    }
    assert {line.digits for line in verdict.lines} <= {14, 15}
    assert set(verdict.not_verified) == {
        "expected value of ties",
        "random baseline",
        "random baseline of knowledge_update",
        "random baseline of tokens",
        "abstention at a threshold",
    }


@pytest.mark.slow
@pytest.mark.parametrize("ties", list(Ties))
def test_every_order_of_ties_cut_off_and_metric_is_recomputed(folder: Path, ties: Ties) -> None:
    metrics = "ndcg_exp@7,ndcg_b2@4,f1@5,judged@3,precision_returned@20,recall(rel=2)@10,map@8"
    metrics += ",rprec,ndcg,mrr,map(rel=2)"
    choices = Choices(ks=(2, 20), metrics=tuple(parse_metrics(metrics)), ties=ties, answers=True)
    score_run(folder, open_dataset("sample"), choices)
    verdict = verify(folder)
    assert_honest(verdict)
    of_answers = {line.by for line in verdict.lines if line.protocol == "answers/1"}
    assert of_answers == {OURS, "sacrebleu"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "settings", "granularity", "protocols"),
    [
        ("locomo", "locomo/locomo10.json", Settings(k=50, limit=20), granularity, protocols)
        for granularity in ("turn", "session")
        for protocols in [{"locomo-official/1", "locomo-official-aggregate/1", "abstention/1"}]
    ]
    + [
        (
            *("longmemeval/s", "longmemeval/longmemeval_s_sample.json", Settings(k=60)),
            *(granularity, {"longmemeval-official/1", "longmemeval-470/1", "knowledge-update/1"}),
        )
        for granularity in ("turn", "session")
    ]
    + [("beir/scifact", "beir/scifact", Settings(k=20, limit=20), "passage", {"trec/1"})],
)
def test_real_data_are_recomputed_with_their_official_protocols(
    data: Path,
    tmp_path: Path,
    name: str,
    source: str,
    settings: Settings,
    granularity: str,
    protocols: set[str],
) -> None:
    dataset = open_dataset(name, granularity=granularity, source=data / source)
    made = run(dataset, "bm25", settings, out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    assert protocols <= {line.protocol for line in verdict.lines}


class Notes(BM25):
    """Answers with texts of its own: of one document, of two, of none, and without any answer."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        return [
            Result(
                hits=[
                    self._hit(n + at, [self._texts[int(i)] for i in found.ids[at : at + 2]])
                    for at in range(len(found.ids) if query.text[-2] != "e" else 0)
                ]
            )
            for n, (query, found) in enumerate(
                zip(queries, super().search(queries, k), strict=True)
            )
        ]

    def _hit(self, number: int, texts: list[str]) -> Hit:
        if number % 5 == 3:
            return Hit("zzqx blorp")
        return Hit(" ".join(texts) if number % 5 == 1 else f"Noted: {texts[0]}")


@pytest.mark.slow
def test_a_run_of_texts_is_recomputed_from_what_they_were_matched_to(
    sample: Dataset, tmp_path: Path
) -> None:
    made = run(sample, Notes(), Settings(k=5, limit=40), out=tmp_path)
    score_run(made, sample)
    verdict = verify(made)
    assert_honest(verdict)
    assert {"hits", "answers/1"} <= {line.protocol for line in verdict.lines}
    hits = pq.read_table(made / "hits.parquet")
    pq.write_table(hits.slice(1), made / "hits.parquet")
    assert "hits.parquet" in wrong(verify(made))


class Breaking(BM25):
    """Cannot answer some questions."""

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        if any("the" in query.text.split() for query in queries):
            raise RuntimeError("no answer to that")
        return super().search(queries, k)


@pytest.mark.slow
def test_a_run_with_failed_queries_is_recomputed(sample: Dataset, tmp_path: Path) -> None:
    made = run(sample, Breaking(), Settings(k=10, limit=40, batch_size=1), out=tmp_path)
    score_run(made, sample)
    failed = read_json(made / "scores.json")["queries"]["failed"]
    assert 0 < failed < 40
    assert_honest(verify(made))
    edit_scores(made, lambda scores: scores["queries"].update(failed=failed - 1))
    assert told(verify(made)) == {"queries.failed"}


@pytest.mark.slow
def test_rankings_from_elsewhere_with_gaps_ties_and_strangers_are_recomputed(
    sample: Dataset, tmp_path: Path
) -> None:
    queries, documents = sample.query_ids, sample.documents.column("id").to_pylist()
    rows = [
        f"{query} Q0 {document} 0 {(at // 3) * 0.5 + 1e-9 * (at % 2)} r"
        for n, query in enumerate([*queries[::3], "who-is-this"])
        for at, document in enumerate([*documents[n : n + 9], documents[n], "no-such-document"])
    ]
    (tmp_path / "run.trec").write_text("\n".join(rows) + "\n")
    made = import_rankings(tmp_path / "run.trec", sample, ImportOptions(tmp_path, "r"))
    for choices in (Choices(ks=(5,)), Choices(ks=(5,), missing="skip", answers=True)):
        score_run(made, sample, choices)
        assert_honest(verify(made))


def test_documents_with_the_querys_own_id_are_left_out_as_the_dataset_says(
    home: Path, tmp_path: Path
) -> None:
    source = tmp_path / "raw"
    (source / "qrels").mkdir(parents=True)
    words = ["harbour", "ferry", "noon", "bread", "night", "river", "stone", "glass", "paper"]
    texts = {f"d{n}": " ".join(words[n % 7 : n % 7 + 4]) for n in range(30)}
    asked = list(texts)[:12]
    judged = [f"{q}\t{d}\t1" for n, q in enumerate(asked) for d in (q, f"d{(n + 7) % 30}")]
    for name, ids in (("corpus", list(texts)), ("queries", asked)):
        rows = [{"_id": id_, "title": "", "text": texts[id_]} for id_ in ids]
        (source / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    header = "query-id\tcorpus-id\tscore"
    (source / "qrels" / "test.tsv").write_text("\n".join([header, *judged]) + "\n")
    dataset = open_dataset("beir/fiqa", source=source)
    assert dataset.manifest.exclude_self
    made = run(dataset, "bm25", Settings(k=20), out=tmp_path)
    score_run(made, dataset)
    assert_honest(verify(made))


def test_a_folder_with_fewer_numbers_is_verified(folder: Path) -> None:
    def fewer(scores: Any) -> None:
        scores["knowledge_update"]["random_baseline"].clear()
        for block in scores["protocols"]:
            for part in block["slices"].values():
                for one in part["metrics"].values():
                    one.pop("macro_haystack", None)
                    one.get("interval", {}).pop("effective_clusters", None)
                    one.pop("random_method", None)

    edit_scores(folder, fewer)
    (folder / "rankings.parquet").unlink()
    assert_honest(verify(folder))


# -- submissions -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_submission_by_hand_is_recomputed_if_it_claims_scores(
    folder: Path, tmp_path: Path
) -> None:
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
    verdict = verify(theirs)
    assert_honest(verdict)
    assert "theirs on sample" in shown(verdict)
    edit_scores(theirs, lambda scores: cell(scores).update(value=0.99))
    assert told(verify(theirs)) == {"recall@10"}
    (theirs / "scores.json").unlink()
    with pytest.raises(UsageError, match="holds no scores"):
        verify(theirs)


# -- what was altered ------------------------------------------------------------------------------


def cell(scores: Any, metric: str = "recall@10") -> Any:
    return scores["protocols"][0]["slices"]["all"]["metrics"][metric]


def add_to_signature(protocol: dict[str, Any]) -> None:
    protocol["signature"] += "0"


def wrong(verdict: Verdict) -> list[str]:
    """The checks that failed."""
    return [check.what for check in verdict.checks if not check.ok]


def told(verdict: Verdict) -> set[str]:
    """The numbers that differ."""
    return {one.what for one in verdict.differences}


def queries_told(verdict: Verdict) -> set[str]:
    return {query for one in verdict.differences for query, _, _ in one.queries}


def test_a_mean_that_is_off_in_the_fifth_digit_is_told_with_both_values(folder: Path) -> None:
    before = result(folder).value
    assert before is not None
    edit_scores(folder, lambda scores: cell(scores).update(value=before + 2e-5))
    verdict = verify(folder)
    assert {
        (d.what, d.slice, d.published, round(d.recomputed or 0, 12)) for d in verdict.differences
    } == {("recall@10", "all", before + 2e-5, round(before, 12))}
    assert {d.by.split()[0] for d in verdict.differences} == {"plain", THEIRS}
    said = shown(verdict)
    assert f"recall@10 (all) is published as {before + 2e-5:.6f}, recomputed as" in said
    assert "no value by query differs" in said


@pytest.mark.slow
def test_two_lines_exchanged_in_rankings_are_told_by_file_or_by_query(folder: Path) -> None:
    path = folder / "rankings.trec"
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    table = pq.read_table(folder / "scores.parquet")
    of_memory = table.filter(pa.compute.equal(table["protocol"], "memory"))
    first = dict(zip(*(of_memory[c].to_pylist() for c in ("query", "hit@1")), strict=True))
    query = next(q for q, hit in first.items() if hit == 1.0)
    at = next(i for i, row in enumerate(rows) if row[0] == query)
    rows[at][2], rows[at + 9][2] = rows[at + 9][2], rows[at][2]
    path.write_text("\n".join(map(" ".join, rows)) + "\n")
    verdict = verify(folder)
    (check,) = [check for check in verdict.checks if not check.ok]
    assert check.what == "rankings.trec"
    assert repr(query) in check.message

    table = pq.read_table(folder / "rankings.parquet")
    column = table.column_names.index("document")
    documents = pa.array([row[2] for row in rows])
    pq.write_table(table.set_column(column, "document", documents), folder / "rankings.parquet")
    verdict = verify(folder)
    assert wrong(verdict) == []
    assert "hit@1" in told(verdict)
    assert queries_told(verdict) == {query}
    assert f"{query}: 1.0000 published, 0.0000 recomputed" in shown(verdict)


def test_a_value_by_query_that_was_altered_is_told(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    values = table["mrr@10"].to_pylist()
    at = next(i for i, v in enumerate(values) if v)
    values[at] -= 1e-4
    column = table.column_names.index("mrr@10")
    altered = table.set_column(column, "mrr@10", pa.array(values, pa.float64()))
    pq.write_table(altered, folder / "scores.parquet")
    verdict = verify(folder)
    assert told(verdict) == {"mrr@10"}
    assert queries_told(verdict) == {table["query"][at].as_py()}
    assert "values in scores.parquet are not what the rankings give" in shown(verdict)


def test_means_and_values_altered_to_fit_each_other_are_told(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    at = table.column_names.index("recall@10")
    better = pa.compute.if_else(pa.compute.is_valid(table["recall@10"]), 1.0, None)
    pq.write_table(table.set_column(at, "recall@10", better), folder / "scores.parquet")

    def edit(scores: Any) -> None:
        for block in scores["protocols"]:
            for part in block["slices"].values():
                if "recall@10" in part["metrics"]:
                    part["metrics"]["recall@10"]["value"] = 1.0

    edit_scores(folder, edit)
    verdict = verify(folder)
    assert wrong(verdict) == []
    assert told(verdict) == {"recall@10"}


def test_a_judgement_that_was_altered_is_told(home: Path, tmp_path: Path) -> None:
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
    # Whoever alters it on purpose alters the checksums too.
    heads = {name: of for name, (of, _) in read_sums(dataset.folder).items()}
    heads[path.name] = np.array([[0, path.stat().st_size]])
    write_sums(dataset.folder, heads)
    dataset.manifest.write(dataset.folder)
    verdict = verify(made)
    assert wrong(verdict) == ["dataset"]
    assert names[at] in queries_told(verdict) or "upper_bound of recall@10" in told(verdict)


def test_every_kind_of_number_is_held(folder: Path) -> None:
    def edit(scores: Any) -> None:
        ten = cell(scores)
        ten.update(n=80, random_baseline=0.01, upper_bound=0.9)
        ten["macro_haystack"].update(value=0.9)
        ten["macro_haystack"]["interval"].update(high=0.95)
        ten["interval"].update(clusters=65, low=ten["interval"]["low"] + 1e-6)
        scores["knowledge_update"]["values"].update({"update_recall@5": 1.0})
        scores["abstention"]["confidence"].update(auroc=0.9)
        scores["tokens"]["recall_within_budget"]["500"].update(recall=0.9)
        scores["queries"].update(asked=41)
        scores["protocols"][0]["excluded"].update({"no evidence in the answer key": 1})
        scores["protocols"][0]["slices"].pop("temporal")

    edit_scores(folder, edit)
    assert told(verify(folder)) >= {
        "n of recall@10",
        "random_baseline of recall@10",
        "upper_bound of recall@10",
        "macro_haystack.value of recall@10",
        "macro_haystack.interval.high of recall@10",
        "interval.clusters of recall@10",
        "interval.low of recall@10",
        "update_recall@5",
        "confidence.auroc",
        "recall_within_budget.500.recall",
        "queries.asked",
        "protocols.0.excluded.no evidence in the answer key",
        "hit@10",
    }


def test_numbers_of_changes_are_recomputed_and_held(tmp_path: Path) -> None:
    dataset = open_dataset("changes")
    made = run(dataset, BM25(), Settings(k=20), out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    assert ("changes/1", "turn", OURS) in witnesses(verdict)
    assert "random baseline of changes" in verdict.not_verified

    def edit(scores: Any) -> None:
        changes = scores["changes"]
        for numbers in (changes, changes["values"]):
            for name, number in numbers.items():
                if type(number) in (int, float):
                    numbers[name] = number + 1

    edit_scores(made, edit)
    kinds = ("outdated_returned", "outdated_above", "forgotten_returned", "future_returned")
    counts = {"n_after_update", "n_after_forget", "n_with_future"}
    assert told(verify(made)) == {f"{kind}@{k}" for kind in kinds for k in (1, 5, 10)} | counts
    edit_scores(made, lambda scores: scores.pop("changes"))
    assert told(verify(made)) == counts


def test_a_folder_that_publishes_no_mean_is_not_said_to_agree(folder: Path) -> None:
    edit_scores(folder, lambda scores: scores["protocols"].clear())
    with pytest.raises(UsageError, match="publishes no mean"):
        verify(folder)


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("signatures", lambda s: add_to_signature(s["protocols"][0])),
        ("signatures", lambda s: s.update(depth=99)),
        ("dataset", lambda s: s["dataset"].update(fingerprint="0" * 64)),
    ],
)
def test_files_that_do_not_belong_together_are_told(
    folder: Path, what: str, edit: Callable[[Any], None]
) -> None:
    edit_scores(folder, edit)
    verdict = verify(folder)
    assert what in wrong(verdict), shown(verdict)


def test_what_nobody_recomputes_is_named_and_not_passed(folder: Path) -> None:
    def edit(scores: Any) -> None:
        scores["protocols"].append({**scores["protocols"][0], "protocol": "mine"})
        cells = scores["protocols"][0]["slices"]["all"]["metrics"]
        cells["goodness@10"] = {**cells["recall@10"], "value": 1.0}

    edit_scores(folder, edit)
    verdict = verify(folder)
    done, all_ = verdict.means
    assert done < all_
    assert verdict.not_verified["recall@10 of mine/1"] > 0
    assert verdict.not_verified["goodness@10 of memory/1"] == 3  # its value, n and unmeasurable
    assert f"{done:,} of {all_:,} published means recomputed" in shown(verdict)


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


def test_what_cannot_be_verified_is_refused(folder: Path, tmp_path: Path) -> None:
    for name, match in (
        ("rankings.*", "holds no rankings"),
        ("scores.json", "no published number"),
        ("run.json", "no such file"),
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
    (folder / "scores.json").write_text('{"version": 1, "protocols": [{}]}')
    with pytest.raises(UsageError, match="is missing; `harness score"):
        verify(folder)
    with pytest.raises(UsageError, match="no such folder"):
        verify(tmp_path / "nowhere")


# -- the program trec_eval -------------------------------------------------------------------------

STAND_IN = """\
import sys
if "-v" in sys.argv:
    sys.exit(print("trec_eval version 9.0.8", file=sys.stderr))
import pytrec_eval
qrels, run, measures, cut = {}, {}, set(), None
arguments = sys.argv[1:]
for line in open(arguments.pop(-2)):
    query, _, document, grade = line.split()
    qrels.setdefault(query, {})[document] = int(grade)
for line in open(arguments.pop()):
    query, _, document, _, score, _ = line.split()
    run.setdefault(query, {})[document] = float(score)
level = 1
while arguments:
    one = arguments.pop(0)
    if one == "-m":
        measures.add(arguments.pop(0))
    elif one.startswith("-M"):
        cut = int(one[2:])
    elif one.startswith("-l"):
        level = int(one[2:])
    else:
        assert one == "-q", one
if cut:
    best = lambda found: sorted(found, key=lambda d: (found[d], d), reverse=True)[:cut]
    run = {q: {d: found[d] for d in best(found)} for q, found in run.items()}
found = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=level).evaluate(run)
for query, values in found.items():
    for name, value in values.items():
        print(f"{name:22}\\t{query}\\t{value:6.4f}")
print("map \\tall\\t0.1234")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that reads, prints and rounds as trec_eval does; what computes is pytrec_eval."""
    path = tmp_path / "trec_eval"
    path.write_text(f"#!{sys.executable}\n{STAND_IN}")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_trec_eval_agrees_to_the_digits_that_it_prints(folder: Path, program: Path) -> None:
    score_run(folder, open_dataset("sample"), Choices(protocols=("trec",), ks=(10,)))
    verdict = verify(folder, program=program)
    assert verdict.agrees, shown(verdict)
    found = [line for line in verdict.lines if line.by == "trec_eval 9.0.8"]
    assert {(line.protocol, line.digits) for line in found} >= {("trec/1", 4)}
    assert {line.digits for line in found} == {4}
    edit_scores(folder, lambda scores: cell(scores, "mrr@10").update(value=0.9876))
    differences = verify(folder, program=program).differences
    assert "trec_eval 9.0.8" in {d.by for d in differences if d.what == "mrr@10"}


def test_another_program_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not trec_eval"):
        verify(folder, program=Path("/bin/echo"))
    with pytest.raises(UsageError, match="cannot be run"):
        verify(folder, program=tmp_path / "none")


# -- independence ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_of_the_scorer_is_loaded_while_numbers_are_verified(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.verdicts.verify.verify import verify\n"
        f"assert verify(Path({str(folder)!r})).agrees\n"
        "print([name for name in sys.modules if name.startswith(('harness.scoring', "
        "'harness.statistics', 'harness.runs', 'harness.verdicts.board'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
